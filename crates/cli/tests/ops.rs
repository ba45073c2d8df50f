//! What operates a system: doctor, apply with a probe, watch, stats and completions, as processes, on a directory, on
//! `larder serve`, and on DynamoDB Local where `DYNAMODB_LOCAL_DIR` names the directory of its jar.

#![expect(clippy::unwrap_used, reason = "the helpers of a test fail with the test")]

mod process;

use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use larder_local::DynamoDbLocal;
use process::{Client, Larder};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

const LIMIT: Duration = Duration::from_secs(30);

const NOTES: &str = r#"
system notes

table notes {
  key    id
  ttl    ends
  index  ByOwner as by_owner  owner / title

  entity Note {
    key    "NOTE#{name}"
    ttl    3s
    scan   ask
    name:  string nonempty
    owner: string nonempty
    title: string nonempty
  }
}
"#;

// Doctor and apply

#[test]
fn l6_doctor_puts_gets_and_deletes_a_probe_and_says_how_long_each_took() {
    on_every_store(|place| {
        place.ok(&["apply", "--yes"]);
        let checks = place.doctor(0);
        let probes: Vec<&Value> = checks.iter().filter(|check| check["check"] == "probe").collect();
        assert_eq!(probes.len(), 7, "{checks:#?}");
        for probe in probes {
            let seen = probe["seen"].as_str().unwrap();
            let (_, steps) = seen.split_once(": ").unwrap();
            let steps: Vec<&str> = steps.split(", ").collect();
            let [put, get, delete] = steps[..] else { panic!("{seen}") };
            for (step, name) in [(put, "put "), (get, "get "), (delete, "delete ")] {
                assert!(step.starts_with(name) && step.ends_with(" ms"), "{seen}");
            }
        }
        let sizes = place.json(&["stats"]);
        assert_eq!(sizes.iter().filter(|size| size["index"].is_null()).count(), 7, "{sizes:#?}");
        assert!(sizes.iter().all(|size| size["items"] == 0), "nothing of it is left: {sizes:#?}");
    });
}

#[test]
fn l11_set_up_with_a_probe_is_one_command_and_can_be_repeated() {
    on_every_store(|place| {
        let first = place.ok(&["apply", "schemas/lunch.larder", "--yes", "--probe"]);
        assert!(first.contains("+ lunch-cache-dev"), "{first}");
        assert!(first.contains("index RestaurantIndex"), "{first}");
        let second = place.ok(&["apply", "schemas/lunch.larder", "--probe"]);
        assert!(second.contains("Nothing to do."), "{second}");
        for told in [first, second] {
            let probe = told.lines().last().unwrap();
            assert!(probe.starts_with("ok    probe        lunch-cache-dev: put "), "{told}");
            assert!(probe.contains(", get ") && probe.contains(", delete "), "{told}");
        }
        let sizes = place.json(&["stats", "lunch"]);
        assert!(sizes.iter().all(|size| size["items"] == 0), "{sizes:#?}");
    });
}

#[test]
fn t10_doctor_says_of_each_table_what_protects_it() {
    on_every_store(|place| {
        place.ok(&["apply", "schemas/tdnet.larder", "--yes"]);
        let checks = place.doctor_of("tdnet", 0);
        for setting in ["pitr", "encryption", "protection"] {
            let of_tables = checks.iter().filter(|check| {
                // Either it is in force, or the store is said to lack it.
                let lacking = check["check"] == "lacks" && check["seen"].as_str().unwrap().contains(setting);
                lacking || check["check"] == setting
            });
            assert_eq!(of_tables.count(), 3, "{setting}: {checks:#?}");
        }
    });
}

#[test]
fn doctor_says_where_the_store_is_named() {
    let place = Place::new();
    assert_eq!(seen(&place.doctor(0), "store"), "larder-data, by default");
    let directory = place.path().join("other");
    let mut command = place.command(&["doctor", "--json"]);
    command.env("LARDER_STORE", &directory);
    let by_variable = lines(&command.output().unwrap().stdout);
    assert_eq!(seen(&by_variable, "store"), format!("{}, by LARDER_STORE", directory.display()));
    command.args(["--store", "memory:"]);
    assert_eq!(seen(&lines(&command.output().unwrap().stdout), "store"), "memory:, by --store");
    command.args(["--store", "redis://localhost"]);
    assert_eq!(command.output().unwrap().status.code(), Some(2), "given twice");

    let wrong = place.command(&["doctor", "--json", "--store", "redis://localhost"]).output().unwrap();
    assert_eq!(wrong.status.code(), Some(1));
    assert!(seen(&lines(&wrong.stdout), "store").contains("does not name a store"));
    assert!(!place.path().join("larder-data").exists() && !directory.exists(), "nothing is made");
}

#[test]
fn doctor_names_the_server_that_has_a_directory_and_finds_no_fault_in_it() {
    let place = Place::new();
    place.ok(&["apply", "--yes"]);
    let server = Larder::on(&place.path().join("larder-data"), &[]);
    let checks = place.doctor(0);
    let owner = checks.iter().find(|check| check["check"] == "owner").unwrap();
    let seen = format!(
        "process {} (larder), which serves it at {}, and is asked there",
        server.child.id(),
        server.url
    );
    assert_eq!((&owner["state"], &owner["seen"]), (&json!("ok"), &json!(seen)));
    let reach = checks.iter().find(|check| check["check"] == "reach").unwrap();
    assert_eq!(reach["state"], "ok", "it is reached through the server");
}

#[test]
fn doctor_fails_where_programs_would() {
    let place = Place::new();
    let server = Larder::serve(&["--memory", "--dynamodb", "127.0.0.1:0"]);
    let place = place.on(&server.url);
    let checks = place.doctor(1);
    let missing: Vec<&Value> = checks.iter().filter(|check| check["check"] == "table").collect();
    assert_eq!(missing.len(), 7);
    for check in missing {
        assert_eq!((&check["state"], &check["advice"]), (&json!("fail"), &json!("`larder apply` makes it")));
    }
    place.ok(&["apply", "--yes"]);
    let checks = place.doctor(0);
    assert!(checks.iter().all(|check| check["state"] != "fail"));
    assert_eq!(seen(&checks, "server"), "ready");

    let client = Client::new(&server.url);
    client.pass_an_hour();
    let ttl = json!({"AttributeName": "ttl", "Enabled": false});
    client.ok("UpdateTimeToLive", json!({"TableName": "lunch-cache-dev", "TimeToLiveSpecification": ttl}));
    let checks = place.doctor_of("lunch", 1);
    let differs = checks.iter().find(|check| check["check"] == "differs").unwrap();
    assert_eq!(differs["seen"], "lunch-cache-dev: ttl is off, and ttl is asked for");

    drop(server);
    let unreachable = place.doctor(1);
    assert_eq!(unreachable.last().unwrap()["check"], "reach");

    fs::write(place.path().join("schemas/lunch.larder"), "system lunch\ntable x {\n").unwrap();
    let checks = Place { store: None, ..place }.doctor(1);
    let broken = checks.iter().find(|check| check["state"] == "fail").unwrap();
    assert_eq!(broken["advice"], "`larder check` shows them");
}

#[test]
fn doctor_compares_clocks() {
    let place = Place::new();
    for name in ["keiba", "lunch", "shops", "tdnet", "weather"] {
        fs::remove_file(place.path().join(format!("schemas/{name}.larder"))).unwrap();
    }
    let url = answer_as_of("Thu, 01 Jan 2026 00:00:00 GMT");
    let checks = place.on(&url).doctor(1);
    let clock = checks.iter().find(|check| check["check"] == "clock").unwrap();
    assert_eq!(clock["state"], "fail");
    assert!(clock["seen"].as_str().unwrap().ends_with(" ahead of the store's"), "{clock}");
}

/// An endpoint without tables whose clock stands still.
fn answer_as_of(date: &'static str) -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut length = 0;
            loop {
                let mut line = String::new();
                if reader.read_line(&mut line).unwrap() == 0 || line == "\r\n" {
                    break;
                }
                if let Some(text) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = text.trim().parse().unwrap();
                }
            }
            reader.read_exact(&mut vec![0; length]).unwrap();
            let body = r#"{"TableNames":[]}"#;
            let head = "content-type: application/x-amz-json-1.0\r\nconnection: close";
            let answer = format!(
                "HTTP/1.1 200 OK\r\ndate: {date}\r\n{head}\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            );
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    url
}

// Watch

#[test]
fn watch_prints_what_becomes_of_the_records_of_an_index() {
    let place = Place::with(NOTES);
    let server = Larder::serve(&["--memory", "--dynamodb", "127.0.0.1:0", "--ttl-delay", "1h"]);
    let place = place.on(&server.url);
    place.ok(&["apply", "--yes"]);
    let watch = Watching::start(&place, &["notes.Note", "by_owner", "owner=ada"]);
    assert_eq!(watch.error(), "watching Note by_owner owner=ada: 0 records now, a look every 20ms");
    assert!(watch.error().starts_with("on DynamoDB a look costs about 0.5 read units"));

    // It lives for three seconds: long enough to be seen on a busy machine, short enough to be waited for.
    place.ok(&["put", "notes.Note", "name=a", "owner=ada", "title=milk"]);
    let added = watch.next();
    assert_eq!((&added["change"], &added["key"]), (&json!("added"), &json!("NOTE#a")));
    assert_eq!(added["record"]["title"], "milk");
    let expired = watch.next();
    assert_eq!((&expired["change"], &expired["key"]), (&json!("expired"), &json!("NOTE#a")), "{expired}");
    assert!(watch.stop().ends_with(" looks"));
}

#[test]
fn watch_follows_a_record_field_by_field() {
    let place = Place::new();
    let server = Larder::serve(&["--memory", "--dynamodb", "127.0.0.1:0"]);
    let place = place.on(&server.url);
    place.ok(&["apply", "--yes"]);
    let key = ["shops.Shop", "domain=example.de"];
    place.ok(&["put", key[0], key[1], "country=DE"]);
    let watch = Watching::start(&place, &key);
    let there = watch.next();
    assert_eq!((&there["change"], &there["record"]["country"]), (&json!("there"), &json!("DE")));
    place.ok(&["put", key[0], key[1], "country=DE", "shop_name=An Example"]);
    let changed = watch.next();
    assert_eq!(changed["change"], "changed");
    assert_eq!(changed["fields"], json!({"shop_name": {"from": null, "to": "An Example"}}));
    place.ok(&["rm", key[0], key[1]]);
    assert_eq!(watch.next()["change"], "removed");
    assert!(watch.stop().starts_with("2 changes in "));
}

#[test]
fn watch_leaves_a_directory_to_others_between_two_looks() {
    let place = Place::new();
    place.ok(&["put", "shops.Shop", "domain=example.de"]);
    let watch = Watching::start(&place, &["shops.Shop", "domain=example.de"]);
    assert_eq!(watch.next()["change"], "there");
    let deadline = Instant::now() + LIMIT;
    while !place.run(&["put", "shops.Shop", "domain=example.de", "shop_name=x"]).status.success() {
        assert!(Instant::now() < deadline, "it is never free");
    }
    assert_eq!(watch.next()["fields"]["shop_name"]["to"], "x");
    watch.stop();
}

#[test]
fn watch_tells_every_change_of_a_record_whose_table_has_a_stream() {
    let schema =
        NOTES.replace("ttl    3s", "ttl    1h").replace("table notes {", "table notes {\n  stream both");
    let place = Place::with(&schema);
    place.ok(&["put", "notes.Note", "name=a", "owner=ada", "title=0"]);
    let watch = Watching::start(&place, &["notes.Note", "name=a"]);
    assert_eq!(watch.next()["change"], "there");
    // As fast as they go: several come between two looks.
    for title in 1..=5 {
        let title = format!("title={title}");
        let deadline = Instant::now() + LIMIT;
        while !place.run(&["put", "notes.Note", "name=a", "owner=ada", &title]).status.success() {
            assert!(Instant::now() < deadline, "it is never free");
        }
    }
    for title in 1..=5 {
        assert_eq!(watch.next()["fields"]["title"]["to"], title.to_string());
    }
    watch.stop();
}

#[test]
fn watch_ends_by_itself_when_its_time_is_over() {
    let place = Place::new();
    let output = place.run(&["watch", "shops.Shop", "domain=example.de", "--every", "10ms", "--for", "50ms"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8(output.stderr).unwrap().contains("0 changes in "));
    let output = place.run(&["watch", "shops.Shop", "by_typ", "domain=example.de"]);
    assert_eq!(output.status.code(), Some(1));
}

/// A `larder watch --json` at work.
struct Watching {
    child: Child,
    out: Receiver<String>,
    errors: Receiver<String>,
}

impl Watching {
    fn start(place: &Place, arguments: &[&str]) -> Self {
        let mut command = place.command(&["watch"]);
        command.args(arguments).args(["--every", "20ms", "--for", "60s", "--json"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let out = follow(child.stdout.take().unwrap());
        let errors = follow(child.stderr.take().unwrap());
        Self { child, out, errors }
    }

    fn next(&self) -> Value {
        serde_json::from_str(&self.out.recv_timeout(LIMIT).unwrap()).unwrap()
    }

    fn error(&self) -> String {
        self.errors.recv_timeout(LIMIT).unwrap()
    }

    /// Ctrl-C, and its last words.
    fn stop(mut self) -> String {
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
        self.errors.iter().last().unwrap()
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        // Both fail only when it has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn follow(from: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (tell, hear) = mpsc::channel();
    thread::spawn(move || {
        BufReader::new(from).lines().map_while(Result::ok).try_for_each(|line| tell.send(line))
    });
    hear
}

// Stats

#[test]
fn stats_counts_what_the_schema_makes_of_each_item() {
    let place = Place::new();
    for domain in ["a.de", "b.de"] {
        place.ok(&["put", "shops.Shop", &format!("domain={domain}"), "country=DE"]);
    }
    {
        let server = Larder::on(&place.path().join("larder-data"), &[]);
        let stranger = json!({"pk": {"S": "CART#1"}, "sk": {"S": "x"}});
        Client::new(&server.url).ok("PutItem", json!({"TableName": "aura-historia-data", "Item": stranger}));
    }
    let sizes = place.json(&["stats", "shops"]);
    let counted: Vec<(&Value, &Value)> = sizes.iter().map(|size| (&size["index"], &size["items"])).collect();
    let index = |name: &str| sizes.iter().find(|size| size["index"] == name).unwrap()["items"].clone();
    assert_eq!(counted[0], (&Value::Null, &json!(3)));
    assert_eq!((index("CountryLastCrawledIndex"), index("ProductTypeIndex")), (json!(2), json!(0)));
    let people = place.ok(&["stats", "shops"]);
    assert!(people.ends_with("counted as of now\n"), "{people}");

    let exact = &place.json(&["stats", "shops.Shop", "--exact"])[0];
    let shops = &exact["entities"]["Shop"];
    assert_eq!((&shops["items"], &shops["fresh"], &shops["expired"]), (&json!(2), &json!(2), &json!(0)));
    assert_eq!(shops["states"], json!({"crawl": {"never": 2}, "scrape": {"never": 2}}));
    assert_eq!(exact["strangers"]["keys"], json!(["CART#1 / x"]));
    assert!(exact["entities"]["Page"].is_null(), "only Shop was asked for");
    let people = place.ok(&["stats", "shops", "--exact"]);
    assert!(people.contains("Shop crawl: 2 never\n"), "{people}");
    assert!(people.contains("cannot be read as any entity, such as CART#1 / x\n"), "{people}");
}

#[test]
fn a_state_that_the_schema_does_not_know_is_shown_as_it_is_written() {
    let server = Larder::serve(&["--memory", "--dynamodb", "127.0.0.1:0"]);
    let place = Place::new().on(&server.url);
    place.ok(&["apply", "schemas/shops.larder", "--yes"]);
    place.ok(&["put", "shops.Shop", "domain=a.de", "country=DE"]);
    let known = place.run(&["get", "shops.Shop", "domain=a.de"]);
    assert!(known.stderr.is_empty(), "{known:?}");

    let key = json!({"pk": {"S": "SHOP#a.de"}, "sk": {"S": "META#"}});
    Client::new(&server.url).ok(
        "UpdateItem",
        json!({
            "TableName": "aura-historia-data", "Key": key, "UpdateExpression": "SET gsi2_sk = :s",
            "ExpressionAttributeValues": {":s": {"S": "PAUSED#"}},
        }),
    );
    let got = place.run(&["get", "shops.Shop", "domain=a.de", "--json"]);
    let shop: Value = serde_json::from_slice(&got.stdout).unwrap();
    assert_eq!((&shop["crawl"], &shop["scrape"]), (&json!("PAUSED#"), &json!("never")));
    let warning = String::from_utf8(got.stderr).unwrap();
    assert!(
        warning.contains("crawl is written as `PAUSED#`, which is no state of it; there are never, progress"),
        "{warning}"
    );
    let counted = &place.json(&["stats", "shops.Shop", "--exact", "--yes"])[0];
    let states = &counted["entities"]["Shop"]["states"];
    assert_eq!(states["crawl"]["no known state"], 1, "{counted:#?}");
}

#[test]
fn a_server_that_is_down_is_told_once_with_the_next_step() {
    let place = Place::new().on("http://127.0.0.1:1");
    for arguments in [&["get", "shops.Shop", "domain=a.de"][..], &["stats", "shops"]] {
        let output = place.run(arguments);
        assert_eq!(output.status.code(), Some(1));
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(told.lines().count(), 1, "{told}");
        assert!(told.contains("start it with `larder serve`, or name another with --store"), "{told}");
    }
}

#[test]
fn stats_says_what_it_takes_before_it_reads_what_is_paid_for() {
    let server = Larder::serve(&["--memory", "--dynamodb", "127.0.0.1:0"]);
    let place = Place::new().on(&server.url);
    place.ok(&["apply", "schemas/keiba.larder", "--yes"]);
    place.ok(&["put", "keiba.Race", "race_id=202405021211", r#"data={"horses": []}"#]);
    // No endpoint is named, so this is AWS to the command; the SDK's own setting leads it here.
    let stats = |more: &[&str]| {
        let arguments = [&["stats", "keiba", "--exact", "--json", "--store", "dynamodb:"], more].concat();
        let mut command = place.command(&arguments);
        command.env("AWS_ENDPOINT_URL", &server.url).env("AWS_REGION", "us-east-1");
        command.env("AWS_ACCESS_KEY_ID", "any").env("AWS_SECRET_ACCESS_KEY", "any");
        let output = command.output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(0), "{told}");
        assert!(told.contains("reading these tables whole takes about 0.5 read units"), "{told}");
        (lines(&output.stdout), told)
    };
    let (counted, told) = stats(&[]);
    assert!(counted.is_empty() && told.contains("Nothing was read; --yes reads them."), "{told}");
    let (counted, told) = stats(&["--yes"]);
    assert_eq!(counted[0]["entities"]["Race"]["items"], 1, "{counted:#?}");
    assert!(!told.contains("Nothing was read"), "{told}");
}

#[test]
fn stats_counts_at_an_endpoint_of_ones_own_without_asking() {
    let place = Place::new();
    let server = Larder::serve(&["--memory", "--dynamodb", "127.0.0.1:0"]);
    let place = place.on(&server.url);
    place.ok(&["apply", "--yes"]);
    place.ok(&["put", "keiba.Race", "race_id=202405021211", r#"data={"horses": []}"#]);
    let counted = place.json(&["stats", "keiba", "--exact"]);
    let race = &counted[0]["entities"]["Race"];
    assert_eq!((&race["items"], &race["within_hour"]), (&json!(1), &json!(0)), "{race}");
    assert_eq!(counted[0]["read_units"], 0.5);
}

// Completions

#[test]
fn completions_name_every_command_and_bash_takes_them() {
    let place = Place::new();
    let help = place.ok(&["--help"]);
    let (_, listed) = help.split_once("Commands:\n").unwrap();
    let commands: Vec<&str> = listed
        .lines()
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(commands.contains(&"doctor") && commands.len() > 20, "{commands:?}");
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = place.ok(&["completions", shell]);
        for command in &commands {
            assert!(script.contains(command), "{shell}: {command}");
        }
    }
    let script = place.path().join("larder.bash");
    fs::write(&script, place.ok(&["completions", "bash"])).unwrap();
    let checked = Command::new("bash").arg("-n").arg(&script).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));

    for (line, word, wanted) in [
        ("larder get ke", 2, "keiba.Race"),
        ("larder query shops.Shop sib", 3, "siblings"),
        ("larder due shops.Shop sc", 3, "scrape"),
        ("larder doc", 1, "docs doctor"),
    ] {
        assert!(place.complete(&script, line, word).starts_with(wanted), "{line}");
    }
    assert_eq!(place.ok(&["completions", "names"]).lines().count(), place.entities());
    let zsh = place.ok(&["completions", "zsh"]);
    assert!(zsh.matches(":_larder_entities'").count() > 5, "entities are completed there too");
}

// The places

/// A directory with schemas in it, and the store that is meant.
struct Place {
    directory: TempDir,
    store: Option<String>,
}

impl Place {
    /// The five schemas.
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let schemas = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas");
        fs::create_dir(directory.path().join("schemas")).unwrap();
        for entry in fs::read_dir(schemas).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), directory.path().join("schemas").join(entry.file_name())).unwrap();
        }
        Self { directory, store: None }
    }

    fn with(schema: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("notes.larder"), schema).unwrap();
        Self { directory, store: None }
    }

    fn on(self, url: &str) -> Self {
        Self { store: Some(format!("dynamodb:{url}")), ..self }
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
        command.args(arguments).current_dir(self.path()).env_clear().stdin(Stdio::null());
        command.env("AWS_EC2_METADATA_DISABLED", "true");
        if let Some(store) = &self.store {
            command.env("LARDER_STORE", store);
        }
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// What it prints when all is well.
    #[track_caller]
    fn ok(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let (out, error) =
            (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {out}{error}");
        out
    }

    #[track_caller]
    fn json(&self, arguments: &[&str]) -> Vec<Value> {
        lines(self.ok(&[arguments, &["--json"]].concat()).as_bytes())
    }

    #[track_caller]
    fn doctor(&self, code: i32) -> Vec<Value> {
        checks(&self.run(&["doctor", "--json"]), code)
    }

    #[track_caller]
    fn doctor_of(&self, system: &str, code: i32) -> Vec<Value> {
        checks(&self.run(&["doctor", system, "--json"]), code)
    }

    /// What bash would offer for the last word of a line.
    fn complete(&self, script: &Path, line: &str, word: usize) -> String {
        let binary = PathBuf::from(env!("CARGO_BIN_EXE_larder"));
        let shell = format!(
            "source {}; COMP_WORDS=({line}); COMP_CWORD={word}; \
             _larder_with_names larder \"${{COMP_WORDS[{word}]}}\" \"${{COMP_WORDS[{word}-1]}}\"; echo \"${{COMPREPLY[*]}}\"",
            script.display()
        );
        let mut command = Command::new("bash");
        command.args(["-c", &shell]).current_dir(self.path());
        let path = env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", binary.parent().unwrap().display()));
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    }

    /// How many the schemas have.
    fn entities(&self) -> usize {
        let files = fs::read_dir(self.path().join("schemas")).unwrap();
        let texts = files.map(|file| fs::read_to_string(file.unwrap().path()).unwrap());
        texts.map(|text| text.lines().filter(|line| line.trim_start().starts_with("entity ")).count()).sum()
    }
}

#[track_caller]
fn checks(output: &Output, code: i32) -> Vec<Value> {
    let checks = lines(&output.stdout);
    assert_eq!(output.status.code(), Some(code), "{checks:#?} {}", String::from_utf8_lossy(&output.stderr));
    checks
}

fn lines(bytes: &[u8]) -> Vec<Value> {
    std::str::from_utf8(bytes).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[track_caller]
fn seen(checks: &[Value], check: &str) -> String {
    let found = checks.iter().find(|known| known["check"] == check).unwrap();
    found["seen"].as_str().unwrap().to_owned()
}

/// Runs the test with the five schemas on a fresh store of every kind.
fn on_every_store(test: impl Fn(Place)) {
    test(Place::new());
    let directory = tempfile::tempdir().unwrap();
    let server = Larder::on(directory.path(), &[]);
    test(Place::new().on(&server.url));
    let Some(local) = DynamoDbLocal::start() else { return };
    test(Place::new().on(&local.url));
}
