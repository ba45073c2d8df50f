//! Scanning, dumping, loading and seeding, as processes on a store in a directory or behind an endpoint.

#![expect(clippy::unwrap_used, reason = "the helpers of a test fail with the test")]

mod process;

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use process::{Client, Larder};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A directory with the five schemas in it, and the stores that commands make there.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(process::place_with_schemas())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        fs::write(self.path(name), text).unwrap();
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
        command
            .args(arguments)
            .current_dir(self.0.path())
            .env_clear()
            .env("AWS_EC2_METADATA_DISABLED", "true");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, arguments: &[&str], input: &str) -> Output {
        let mut child = self.command(arguments).spawn().unwrap();
        // A command that reads no input may be gone already.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        child.wait_with_output().unwrap()
    }

    /// What it prints when all is well.
    #[track_caller]
    fn ok(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments, "");
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {error}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// What it prints and says when it ends with 1.
    #[track_caller]
    fn fails(&self, arguments: &[&str], input: &str) -> (String, String) {
        let output = self.run(arguments, input);
        let (out, error) =
            (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {out}{error}");
        (out, error)
    }

    /// The lines of a dump, sorted.
    #[track_caller]
    fn dumped(&self, arguments: &[&str]) -> Vec<String> {
        let text = self.ok(&[&["dump"], arguments].concat());
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    }

    fn count(&self, entity: &str, store: &str) -> usize {
        self.ok(&["scan", entity, "--store", store, "--limit", "1000000", "--yes", "--json"]).lines().count()
    }

    /// Writes items as a program without a schema would.
    fn plant(&self, items: &[(&str, Value)]) {
        let server = Larder::on(&self.path("larder-data"), &[]);
        for (table, item) in items {
            Client::new(&server.url).ok("PutItem", json!({"TableName": table, "Item": item}));
        }
    }

    /// Records of all five systems, one over 400 KB, and items that are expired, broken or nobody's.
    fn filled() -> Self {
        let place = Self::new();
        place.ok(&["seed", "keiba", "lunch", "shops", "tdnet", "weather", "--count", "20"]);
        let horses: Vec<Value> = (0..60_000).map(|number| json!({"number": number, "name": "A"})).collect();
        place.write("large.json", json!({"race_id": "large", "data": {"horses": horses}}).to_string());
        place.ok(&["put", "keiba.Race", "--file", "large.json"]);
        place.plant(&[
            // Expired so long ago that no store removes it.
            (
                "keiba_data",
                json!({"PK": {"S": "JOCKEY#old"}, "SK": {"S": "STATS"}, "ttl": {"N": "1"}, "odd": {"NS": ["1", "2.50"]},
                       "data": {"M": {"win_rate": {"N": "0.1"}, "place_rate": {"N": "0.2"}}}, "fetched_at": {"N": "1"}}),
            ),
            ("keiba_data", json!({"PK": {"S": "JOCKEY#bad"}, "SK": {"S": "STATS"}, "data": {"S": "not a map"}})),
            ("keiba_data", json!({"PK": {"S": "OWNER#1"}, "SK": {"S": "?"}, "b": {"B": "AAH/"}, "n": {"NULL": true}})),
        ]);
        place
    }
}

#[test]
fn what_was_dumped_loads_back_the_same_in_a_directory_and_behind_an_endpoint() {
    let place = Place::filled();
    let before = place.dumped(&[]);
    let entities = 5 + 1 + 2 + 3 + 1;
    assert_eq!(before.len(), entities * 20 + 4);
    assert!(
        before.iter().any(|line| line.len() > 1_000_000 && line.starts_with(r#"{"entity":"keiba.Race","#))
    );
    assert!(before.iter().any(|line| line.ends_with(r#""table":"keiba.keiba_data"}"#)));
    place.ok(&["dump", "--out", "all.jsonl"]);

    let told = place.ok(&["load", "all.jsonl", "--store", "copy"]);
    assert_eq!(told, "244 created, 0 overwritten, 0 unchanged, 0 refused\n");
    assert!(place.dumped(&["--store", "copy"]) == before, "a directory holds the same");
    let told = place.ok(&["load", "all.jsonl", "--store", "copy"]);
    assert_eq!(told, "0 created, 0 overwritten, 244 unchanged, 0 refused\n");

    let server = Larder::serve(&["--memory", "--dynamodb", "127.0.0.1:0"]);
    let store = format!("dynamodb:{}", server.url);
    place.ok(&["apply", "--yes", "--store", &store]);
    let told = place.ok(&["load", "all.jsonl", "--store", &store]);
    assert_eq!(told, "244 created, 0 overwritten, 0 unchanged, 0 refused\n");
    assert!(place.dumped(&["--store", &store]) == before, "a server in memory holds the same");
}

#[test]
fn a_dump_is_of_what_was_chosen_and_may_be_compressed() {
    let place = Place::filled();
    let shops = place.dumped(&["shops.Shop", "lunch"]);
    assert_eq!(shops.iter().filter(|line| line.starts_with(r#"{"entity":"shops.Shop""#)).count(), 20);
    assert_eq!(shops.iter().filter(|line| line.starts_with(r#"{"entity":"lunch.Menu""#)).count(), 20);
    assert_eq!(shops.len(), 40);

    place.ok(&["dump", "shops", "--out", "shops.jsonl.gz"]);
    assert!(fs::read(place.path("shops.jsonl.gz")).unwrap().starts_with(&[0x1f, 0x8b]));
    let told = place.ok(&["load", "shops.jsonl.gz", "--store", "copy"]);
    assert_eq!(told, "40 created, 0 overwritten, 0 unchanged, 0 refused\n");
    assert_eq!(place.dumped(&["shops", "--store", "copy"]), place.dumped(&["shops"]));
    let (_, error) = place.fails(&["dump", "shops.Shopp"], "");
    assert_eq!(error, "larder: shops has no entity `Shopp`; did you mean `Shop`?\n");
}

/// The old file is there, and no part of a new one.
#[track_caller]
fn assert_no_dump(place: &Place) {
    assert_eq!(fs::read_to_string(place.path("dump.jsonl")).unwrap(), "the old one");
    let mut names: Vec<_> =
        fs::read_dir(place.0.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["dump.jsonl", "schemas"]);
}

#[test]
fn an_interrupted_dump_leaves_the_file_as_it_was_and_nothing_else() {
    let place = Place::new();
    place.write("dump.jsonl", "the old one");
    // A store that never answers: the dump is under way when it is asked.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let store = format!("dynamodb:http://{}", listener.local_addr().unwrap());
    let (tell, hear) = mpsc::channel();
    thread::spawn(move || tell.send(listener.accept().unwrap()));
    let child = place.command(&["dump", "lunch", "--out", "dump.jsonl", "--store", &store]).spawn().unwrap();
    let _asked = hear.recv_timeout(Duration::from_secs(30)).unwrap();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "larder: interrupted; dump.jsonl is as it was\n");
    assert_no_dump(&place);
}

#[test]
fn a_dump_that_fails_leaves_the_file_as_it_was_and_nothing_else() {
    let place = Place::new();
    place.write("dump.jsonl", "the old one");
    // Nobody listens there.
    let (_, error) =
        place.fails(&["dump", "lunch", "--out", "dump.jsonl", "--store", "dynamodb:http://127.0.0.1:9"], "");
    assert!(error.ends_with("dump.jsonl is as it was\n"), "{error}");
    assert_no_dump(&place);
}

const MENUS: &str = r#"{"restaurant":"niagara","year":2026,"week":1,"lunches":[]}
{"restaurant":"niagara","year":2026,"week":"later","lunches":[]}

{"restaurant":"niagara","year":2026,"lunches":[]}
not json
{"restaurant":"niagara","year":2026,"week":2,"lunches":[]}
"#;

#[test]
fn every_wrong_record_is_named_and_nothing_is_written() {
    let place = Place::new();
    place.write("menus.jsonl", MENUS);
    let (out, error) = place.fails(&["load", "menus.jsonl", "--entity", "lunch.Menu"], "");
    assert_eq!(out, "");
    assert_eq!(
        error,
        "menus.jsonl:2: Menu is not valid:\n  Menu.week: must be of type int, and it is \"later\"\n\
         menus.jsonl:4: Menu is not valid:\n  Menu.week: is required, and it is missing\n\
         menus.jsonl:5: this is not JSON: expected ident at line 1 column 2\n\
         larder: 3 of 5 records are wrong: nothing was written\n"
    );
    assert!(!place.path("larder-data").exists());
}

#[test]
fn wrong_records_are_left_out_or_stop_a_load_where_it_says_so() {
    let place = Place::new();
    place.write("menus.jsonl", MENUS);
    let load = ["load", "menus.jsonl", "--entity", "lunch.Menu", "--on-error"];
    let (out, error) = place.fails(&[&load[..], &["stop"]].concat(), "");
    assert_eq!(out, "1 created, 0 overwritten, 0 unchanged, 1 refused\n");
    assert!(error.ends_with("menus.jsonl:2 is wrong; go on there with --from-line 2\n"), "{error}");

    place.write("menus.jsonl", MENUS.replace("\"later\"", "3"));
    let (out, error) = place.fails(&[&load[..], &["skip", "--from-line", "2"]].concat(), "");
    assert_eq!(out, "2 created, 0 overwritten, 0 unchanged, 2 refused\n");
    assert!(error.contains("menus.jsonl:4: ") && error.contains("menus.jsonl:5: "), "{error}");
    assert_eq!(place.count("lunch.Menu", "larder-data"), 3);
}

#[test]
fn a_dry_run_checks_and_makes_no_store() {
    let place = Place::new();
    place.write("menus.json", r#"[{"restaurant":"niagara","year":2026,"week":1,"lunches":[]}]"#);
    let told = place.ok(&["load", "menus.json", "--entity", "lunch.Menu", "--dry-run"]);
    assert_eq!(told, "1 record is right; nothing was written\n");
    assert!(!place.path("larder-data").exists());
}

#[test]
fn fields_come_as_a_json_list_as_csv_or_on_stdin() {
    let place = Place::new();
    place.write("list.json", "\n [{\"domain\": \"a.de\", \"country\": \"DE\"}, {\"domain\": \"b.fr\"}]");
    place.write("shops.csv", "domain,country,shop_name\nc.se,SE,\"Antik, \"\"C\"\"\"\nd.dk,,\n");
    let load = |file: &str| ["load", file, "--entity", "shops.Shop"].map(str::to_owned);
    for file in ["list.json", "shops.csv"] {
        let arguments = load(file);
        let told = place.ok(&arguments.each_ref().map(String::as_str));
        assert_eq!(told, "2 created, 0 overwritten, 0 unchanged, 0 refused\n");
    }
    let output = place.run(&["load", "-", "--entity", "shops.Shop"], "{\"domain\": \"a.de\"}\n");
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        "0 created, 1 overwritten, 0 unchanged, 0 refused\n"
    );
    let found = place.ok(&["get", "shops.Shop", "domain=c.se", "--json"]);
    let found: Value = serde_json::from_str(&found).unwrap();
    assert_eq!((&found["shop_name"], &found["crawl"]), (&json!("Antik, \"C\""), &json!("never")));
    assert_eq!(place.count("shops.Shop", "larder-data"), 4);
}

#[test]
fn a_number_is_not_made_up_by_a_load() {
    let place = Place::new();
    let line = r#"{"company_code":"7203","company_name":"T","disclosure_type":"x","title":"t",
        "disclosed_at":"2024-01-31T15:00:00Z","downloaded_at":"2024-02-02T00:00:00Z"}"#;
    let (_, error) = place.fails(&["load", "-", "--entity", "tdnet.Disclosure"], &line.replace('\n', ""));
    assert!(error.starts_with("stdin:1: its number is missing"), "{error}");
}

#[test]
fn a_line_of_a_dump_is_held_to_its_schema() {
    let place = Place::new();
    for (line, told) in [
        (r#"{"entity":"lunch.Menu","item":{"pk":{"S":"nobody"}}}"#, "nobody is no key of Menu"),
        (
            r#"{"entity":"lunch.Menu","item":{"id":{"S":"1"}}}"#,
            "the key `pk` is missing, or is not of type S",
        ),
        (r#"{"entity":"lunch.Dish","item":{}}"#, "lunch has no entity `Dish`"),
        (r#"{"table":"lunch.dishes","item":{}}"#, "lunch has no table `dishes`"),
        (r#"{"entity":"sushi.Menu","item":{}}"#, "there is no system or file called `sushi`"),
        (
            r#"{"restaurant":"niagara"}"#,
            "this is no line of a dump; fields of records are loaded with --entity",
        ),
    ] {
        let (_, error) = place.fails(&["load", "-"], line);
        assert!(error.starts_with(&format!("stdin:1: {told}")), "{error}");
    }
}

#[test]
fn an_interrupted_load_goes_on_where_it_stopped() {
    let place = Place::new();
    let lines: Vec<String> = (0..40_000)
        .map(|at| format!(r#"{{"restaurant":"r{at}","year":2026,"week":1,"lunches":[]}}"#))
        .collect();
    place.write("menus.jsonl", lines.join("\n"));
    let load = ["load", "menus.jsonl", "--entity", "lunch.Menu", "--on-error", "stop"];
    let mut child = place.command(&load).spawn().unwrap();
    let mut error = BufReader::new(child.stderr.take().unwrap()).lines();
    assert_eq!(error.next().unwrap().unwrap(), "10000 loaded");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let told: Vec<String> = error.map(Result::unwrap).collect();
    assert_eq!(child.wait().unwrap().code(), Some(1), "{told:?}");
    let last = told.last().unwrap();
    let line = last.strip_prefix("larder: stopped; go on in menus.jsonl with --from-line ");
    let line = line.unwrap_or_else(|| panic!("{told:?}"));
    let done = line.parse::<usize>().unwrap() - 1;
    assert!((10_000..40_000).contains(&done), "{last}");
    assert_eq!(
        place.count("lunch.Menu", "larder-data"),
        done,
        "the batch under way was finished, and no other"
    );

    let told = place.ok(&[&load[..], &["--from-line", line]].concat());
    assert_eq!(told, format!("{} created, 0 overwritten, 0 unchanged, 0 refused\n", 40_000 - done));
    assert_eq!(place.count("lunch.Menu", "larder-data"), 40_000);
}

#[test]
fn a_store_that_is_not_there_stops_a_load_at_its_line() {
    let place = Place::new();
    place.write("menus.jsonl", MENUS.lines().next().unwrap());
    let load = ["load", "menus.jsonl", "--entity", "lunch.Menu", "--store", "dynamodb:http://127.0.0.1:9"];
    let (out, error) = place.fails(&load, "");
    assert_eq!(out, "0 created, 0 overwritten, 0 unchanged, 0 refused\n");
    assert!(
        error.starts_with("larder: menus.jsonl:1: ") && error.ends_with("go on with --from-line 1\n"),
        "{error}"
    );
}

#[test]
fn every_entity_of_the_five_systems_is_seeded_and_twice_the_same() {
    let place = Place::new();
    let systems = ["keiba", "lunch", "shops", "tdnet", "weather"];
    for _ in 0..2 {
        let told = place.ok(&[&["seed"], &systems[..]].concat());
        assert_eq!(told.lines().count(), 12);
        assert!(told.lines().all(|line| line.starts_with("100 records of ")), "{told}");
        for line in told.lines() {
            let entity = line.rsplit(' ').next().unwrap();
            assert_eq!(place.count(entity, "larder-data"), 100, "{entity}");
        }
    }
    let printed = |seed: &str| place.ok(&["seed", "shops.Shop", "--seed", seed, "--count", "5", "--print"]);
    assert_eq!(printed("3"), printed("3"));
    assert_ne!(printed("3"), printed("4"));
}

#[test]
fn a_rule_that_no_sample_meets_is_named_and_nothing_is_put() {
    let place = Place::new();
    let schema = "system words\ntable words {\n  key  id\n  entity Word {\n    id: string match /[a-z]+/ upper\n  }\n}\n";
    place.write("schemas/words.larder", schema);
    let (_, error) = place.fails(&["seed", "words.Word"], "");
    assert_eq!(
        error,
        "larder: words.Word.id: no sample was found in 64 tries: must match /[a-z]+/; nothing was put\n"
    );
    assert!(!place.path("larder-data").exists());
}

#[test]
fn a_scan_shows_records_by_their_fields_page_by_page() {
    let place = Place::new();
    place.ok(&["seed", "shops", "--count", "30"]);
    let scan = |more: &[&str]| place.ok(&[&["scan", "shops.Page", "--json"], more].concat());
    assert_eq!(scan(&[]).lines().count(), 30);
    let products = scan(&["kind=product"]);
    assert!((1..30).contains(&products.lines().count()), "{products}");
    assert!(products.lines().all(|line| line.contains(r#""kind":"product""#)));

    let output = place.run(&["scan", "shops.Page", "--json", "--limit", "20"], "");
    let error = String::from_utf8(output.stderr).unwrap();
    let cursor = error.trim_end().rsplit_once("--cursor ").unwrap().1;
    assert_eq!(scan(&["--cursor", cursor]).lines().count(), 10);
    assert!(place.ok(&["scan", "shops.Page"]).starts_with("domain"));
    assert_eq!(place.ok(&["scan", "tdnet.Export"]), "nothing is there\n");
    let (_, error) = place.fails(&["scan", "shops.Page", "colour=red"], "");
    assert!(error.starts_with("larder: Page has no field `colour`"), "{error}");
}

#[test]
fn a_scan_tells_what_it_cannot_read_and_leaves_out_what_has_expired() {
    let place = Place::filled();
    let output = place.run(&["scan", "keiba.Jockey", "--json", "--yes"], "");
    assert_eq!(String::from_utf8(output.stdout).unwrap().lines().count(), 20);
    assert_eq!(
        String::from_utf8(output.stderr).unwrap(),
        "larder: 1 record cannot be read: JOCKEY#bad / STATS, because `data` does not hold a JockeyStats; --strict \
         makes that an error\n"
    );
    let out = place.ok(&["scan", "keiba.Jockey", "--json", "--yes", "--even-expired"]);
    assert_eq!(out.lines().count(), 21);
    let (_, error) = place.fails(&["scan", "keiba.Jockey", "--json", "--yes", "--strict"], "");
    assert_eq!(
        error,
        "larder: Jockey JOCKEY#bad / STATS cannot be read: `data` does not hold a JockeyStats\n"
    );
    let race = place.ok(&["scan", "keiba.Race", "race_id=large", "--json", "--yes"]);
    assert!(race.len() > 1_000_000, "it is whole");
}

#[test]
fn a_scan_of_more_than_a_page_shows_its_price_and_waits_for_a_yes() {
    let place = Place::new();
    place.ok(&["seed", "weather.Forecast", "--count", "5000"]);
    let (out, error) = place.fails(&["scan", "weather.Forecast", "--limit", "10000"], "");
    assert_eq!(out, "");
    assert!(
        error.starts_with("about 10000 items by a scan of ") && error.contains(" read units, $"),
        "{error}"
    );
    assert!(error.ends_with("add --yes, or a smaller --limit\n"), "{error}");
    let few = place.ok(&["scan", "weather.Forecast", "--limit", "10", "--json"]);
    assert_eq!(few.lines().count(), 10, "a page is enough for them");
    assert_eq!(place.count("weather.Forecast", "larder-data"), 5000);
}
