//! The data commands at work on a store in a directory, as processes: one command, one process, nothing kept between
//! them but the store.

#![expect(clippy::unwrap_used, reason = "the helpers of a test fail with the test")]

mod process;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use process::{Client, Larder};
use serde_json::{Value, json};
use tempfile::TempDir;

const EXPORT: &str = "0b0e5f9e-5d7b-4a0b-9d0c-0a1b2c3d4e5f";

/// A directory with the five schemas in it, and the store that commands make there.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(process::place_with_schemas())
    }

    fn store(&self) -> PathBuf {
        self.0.path().join("larder-data")
    }

    fn run(&self, arguments: &[&str], input: &str) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
        command.args(arguments).current_dir(self.0.path()).env_clear();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // A command that reads no input may be gone already.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        child.wait_with_output().unwrap()
    }

    /// What it prints when all is well.
    #[track_caller]
    fn ok(&self, arguments: &[&str]) -> String {
        self.ok_with(arguments, "")
    }

    #[track_caller]
    fn ok_with(&self, arguments: &[&str], input: &str) -> String {
        let output = self.run(arguments, input);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {error}");
        String::from_utf8(output.stdout).unwrap()
    }

    #[track_caller]
    fn json(&self, arguments: &[&str]) -> Vec<Value> {
        let lines = self.ok(&[arguments, &["--json"]].concat());
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// What it says when it ends with an exit code.
    #[track_caller]
    fn fails(&self, code: i32, arguments: &[&str]) -> String {
        let output = self.run(arguments, "");
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {error}");
        assert!(output.stdout.is_empty(), "{arguments:?} printed something");
        error
    }

    /// Writes an item as a program without a schema would.
    #[expect(clippy::needless_pass_by_value, reason = "tests pass `json!` in place")]
    fn plant(&self, table: &str, item: Value) {
        let server = Larder::on(&self.store(), &[]);
        Client::new(&server.url).ok("PutItem", json!({"TableName": table, "Item": item}));
    }

    fn disclosures(&self) {
        for (at, title) in [("2024-01-31T15:00:00Z", "決算短信"), ("2024-02-01T06:00:00Z", "a correction")]
        {
            self.ok(&[
                "put",
                "tdnet.Disclosure",
                "company_code=7203",
                "company_name=トヨタ自動車",
                "disclosure_type=earnings",
                &format!("title={title}"),
                &format!("disclosed_at={at}"),
                "downloaded_at=2024-02-02T00:00:00Z",
            ]);
        }
    }
}

#[test]
fn what_is_put_can_be_got_and_removed() {
    let place = Place::new();
    let (race, key) = ("keiba.Race", "race_id=202405021211");
    let written = place.ok(&["put", race, key, r#"data={"horses": [{"name": "A"}], "going": "firm"}"#]);
    assert_eq!(written, "written: RACE#202405021211 / METADATA\n");

    let shown = place.ok(&["get", race, key]);
    assert!(shown.contains("\ndata        {\"going\":\"firm\",\"horses\":[{\"name\":\"A\"}]}\n"), "{shown}");
    let read = place.json(&["get", race, "--key", "RACE#202405021211"]);
    assert_eq!(read[0]["data"], json!({"going": "firm", "horses": [{"name": "A"}]}));

    assert_eq!(place.ok(&["rm", race, key]), "removed: RACE#202405021211 / METADATA\n");
    for command in ["get", "rm"] {
        let error = place.fails(4, &[command, race, key]);
        assert_eq!(error, "larder: there is no keiba.Race race_id=202405021211\n");
    }
}

#[test]
fn sets_and_maps_are_json_in_and_out() {
    let place = Place::new();
    let schema = include_str!("../../larder/examples/post.larder");
    std::fs::write(place.0.path().join("schemas/post.larder"), schema).unwrap();
    let parcel = ["put", "post.Parcel", "number=SE100000001", "carrier=postnord", "receiver=ada"];
    let put = |more: &[&'static str]| [&parcel[..], &["promised_on=2026-01-16"], more].concat();
    let error = place.fails(1, &put(&[r#"handling=["signed", "wet"]"#, r#"charges={"postage": "much"}"#]));
    assert!(
        error.contains(
            r#"Parcel.handling[1]: must be of type "cold" | "fragile" | "signed", and it is "wet""#
        ),
        "{error}"
    );
    assert!(
        error.contains(r#"Parcel.charges["postage"]: must be of type decimal, and it is "much""#),
        "{error}"
    );

    // As a double it would be another number.
    let error = place.fails(1, &put(&[r#"charges={"postage": 89.123456789012345678901}"#]));
    assert!(error.contains("`charges`: `89.123456789012345678901` would lose digits"), "{error}");
    place.ok(&put(&[r#"charges={"postage": "89.123456789012345678901"}"#]));
    assert!(place.ok(&["dump", "post.Parcel"]).contains("89.123456789012345678901"));

    place
        .ok(&put(&[r#"handling=["signed", "cold", "cold"]"#, r#"charges={"postage": 89, "customs": 12.5}"#]));
    let get = ["get", "post.Parcel", "number=SE100000001"];
    let shown = place.ok(&get);
    assert!(shown.contains("\nhandling     [\"cold\",\"signed\"]\n"), "{shown}");
    assert!(shown.contains("\ncharges      {\"customs\":12.5,\"postage\":89}\n"), "{shown}");
    let before = place.ok(&[&get[..], &["--json"]].concat());
    let told = place.ok_with(&["put", "post.Parcel", "--file", "-"], &before);
    assert!(told.starts_with("unchanged: "), "{told}");
    let found = place.json(&["query", "post.Parcel", "by_receiver", "receiver=ada"]);
    assert_eq!(found[0]["charges"], json!({"customs": 12.5, "postage": 89}));

    // What is empty is shown, though it is not stored.
    place.ok(&put(&["handling=[]", "charges={}"]));
    let read = &place.json(&get)[0];
    assert_eq!((&read["handling"], &read["charges"]), (&json!([]), &json!({})));

    place.ok(&["seed", "post", "--count", "20"]);
    let all = place.ok(&["dump", "post"]);
    assert!(all.contains(r#""SS""#), "{all}");
    let other = Place::new();
    std::fs::write(other.0.path().join("schemas/post.larder"), schema).unwrap();
    std::fs::write(other.0.path().join("all.jsonl"), &all).unwrap();
    other.ok(&["load", "all.jsonl"]);
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&other.ok(&["dump", "post"])), sorted(&all));
    assert_eq!(other.json(&["scan", "post.Report", "--yes"]).len(), 20);
}

#[test]
fn what_get_prints_put_takes() {
    let place = Place::new();
    let lunch =
        r#"{"name": "Ärtsoppa", "price": 129.5, "weekday": "torsdag", "week": 3, "place": "Niagara"}"#;
    let lunches = format!("lunches=[{lunch}]");
    let key = ["restaurant=niagara", "year=2026", "week=3"];
    place.ok(&[&["put", "lunch.Menu"], &key[..], &[&lunches]].concat());
    place.ok(&["put", "shops.Shop", "domain=www.example.co.uk", "country=GB", "shop_name=An Example"]);
    place.disclosures();
    for get in [
        [&["lunch.Menu"], &key[..]].concat(),
        vec!["shops.Shop", "domain=www.example.co.uk"],
        vec!["tdnet.Disclosure", "disclosure_id=20240201_7203_001"],
    ] {
        let before = place.ok(&[&["get"], &get[..], &["--json"]].concat());
        let told = place.ok_with(&["put", get[0], "--file", "-"], &before);
        assert!(told.starts_with("unchanged: "), "{told}");
        assert_eq!(place.ok(&[&["get"], &get[..]].concat()).lines().count(), {
            let record: Value = serde_json::from_str(&before).unwrap();
            record.as_object().unwrap().len()
        });
    }
    let menu = &place.json(&[&["get", "lunch.Menu"], &key[..]].concat())[0];
    assert_eq!((&menu["lunch_count"], &menu["lunches"][0]["price"]), (&json!(1), &json!(129.5)));
}

#[test]
fn a_put_may_refuse_what_is_there_and_takes_a_free_number() {
    let place = Place::new();
    place.disclosures();
    let found = place.json(&["query", "tdnet.Disclosure", "by_month", "date_partition=2024-02"]);
    let numbers: Vec<&Value> = found.iter().map(|one| &one["disclosure_id"]).collect();
    assert_eq!(numbers, ["20240201_7203_001", "20240201_7203_002"]);
    place.ok(&["put", "shops.Shop", "domain=a.de", "--new"]);
    let error = place.fails(1, &["put", "shops.Shop", "domain=a.de", "--new"]);
    assert_eq!(error, "larder: Shop SHOP#a.de / META# exists already\n");
}

#[test]
fn a_query_is_narrowed_ordered_and_paged() {
    let place = Place::new();
    place.disclosures();
    let query = |more: &[&str]| {
        let asked = ["query", "tdnet.Disclosure", "by_company", "company_code=7203"];
        let found = place.json(&[&asked[..], more].concat());
        found.iter().map(|one| one["seq"].as_i64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(query(&[]), [1, 2]);
    assert_eq!(query(&["--newest-first"]), [2, 1]);
    assert_eq!(query(&["--from", "2024-02-01T00:00:00Z"]), [2]);
    assert_eq!(query(&["--until", "2024-02-01T00:00:00Z"]), [1]);
    assert_eq!(query(&["--at", "2024-02-01T06:00:00Z"]), [2]);
    assert_eq!(query(&["--begins-with", "2024-01"]), [1]);

    let page = ["query", "tdnet.Disclosure", "by_company", "company_code=7203", "--limit", "1"];
    let error = String::from_utf8(place.run(&page, "").stderr).unwrap();
    let cursor = error.trim_end().rsplit_once("--cursor ").unwrap().1;
    assert_eq!(query(&["--cursor", cursor]), [2]);

    let table = place.ok(&["query", "tdnet.Disclosure", "by_company", "company_code=7203"]);
    assert_eq!(table.lines().count(), 3);
    assert!(table.lines().next().unwrap().contains("company_code  company_name"), "{table}");
    assert_eq!(
        place.ok(&["query", "tdnet.Disclosure", "by_company", "company_code=9999"]),
        "nothing is there\n"
    );
}

#[test]
fn a_table_is_asked_by_its_own_key_too() {
    let place = Place::new();
    for url in ["https://a.de/1", "https://a.de/2"] {
        place.ok(&["put", "shops.Page", "domain=a.de", &format!("url={url}"), "kind=product", "status=ok"]);
    }
    let found = place.json(&["query", "shops.Page", "domain=a.de", "--begins-with", "https://a.de/2"]);
    assert_eq!(found.len(), 1);
    assert_eq!((&found[0]["url"], &found[0]["kind"]), (&json!("https://a.de/2"), &json!("product")));
}

#[test]
fn nothing_is_invalidated_before_its_price_was_shown() {
    let place = Place::new();
    let data = r#"data={"temperature": 3, "humidity": 50, "wind_speed": 1, "rainfall_intensity": 0,
        "weather_description": "clear", "timestamp": "2026-01-15T10:00:00"}"#;
    for (lat, at) in
        [("35.01", "2026-01-15T10:10:00Z"), ("35.01", "2026-01-15T11:00:00Z"), ("43", "2026-01-15T10:00:00Z")]
    {
        place.ok(&[
            "put",
            "weather.Forecast",
            &format!("lat={lat}"),
            "lon=135.76",
            &format!("at={at}"),
            data,
        ]);
    }
    let kyoto = ["invalidate", "weather.Forecast", "lat=35.01", "lon=135.76"];
    let plan = place.ok(&kyoto);
    assert!(plan.starts_with("2 items by a scan of ") && plan.contains("Nothing was removed"), "{plan}");
    assert_eq!(place.json(&kyoto)[0]["removed"], Value::Null);
    assert_eq!(place.ok(&[&kyoto[..], &["--yes"]].concat()), "2 items removed\n");
    assert_eq!(place.json(&[&kyoto[..], &["--yes"]].concat())[0]["removed"], 0);
    place.ok(&["get", "weather.Forecast", "lat=43", "lon=135.76", "at=2026-01-15T10:59:00Z"]);

    let error = place.fails(1, &["invalidate", "keiba.Race", "--yes"]);
    assert!(error.contains("`scan ask` or `scan allow` in Race would permit it"), "{error}");
}

#[test]
fn what_has_expired_is_shown_on_request_and_swept() {
    let place = Place::new();
    place.ok(&["put", "lunch.Menu", "restaurant=niagara", "year=2026", "week=4", "lunches=[]"]);
    let old = json!({
        "pk": {"S": "niagara-2026-03"}, "restaurant": {"S": "niagara"}, "year": {"N": "2026"}, "week": {"N": "3"},
        "lunches": {"L": []}, "lunchCount": {"N": "0"}, "cachedAt": {"S": "2026-01-15T10:00:00.000Z"},
        "ttl": {"N": "1"},
    });
    place.plant("lunch-cache-dev", old);
    place.fails(4, &["get", "lunch.Menu", "restaurant=niagara", "year=2026", "week=3"]);
    let query = ["query", "lunch.Menu", "history", "restaurant=niagara"];
    assert_eq!(place.json(&query).len(), 1);
    assert_eq!(place.json(&[&query[..], &["--even-expired"]].concat()).len(), 2);

    assert!(place.ok(&["sweep", "lunch.Menu"]).starts_with("1 item by a scan of "));
    assert_eq!(place.ok(&["sweep", "lunch.Menu", "--yes"]), "1 item removed\n");
    assert_eq!(place.json(&[&query[..], &["--even-expired"]].concat()).len(), 1);
}

#[test]
fn what_is_due_and_what_is_stuck_is_listed_and_released() {
    let place = Place::new();
    place.ok(&["put", "shops.Shop", "domain=new.de", "country=DE"]);
    place.plant(
        "aura-historia-data",
        json!({
            "pk": {"S": "SHOP#dead.de"}, "sk": {"S": "META#"}, "domain": {"S": "dead.de"},
            "core_domain_name": {"S": "dead"}, "shop_country": {"S": "COUNTRY#DE"},
            "gsi2_pk": {"S": "COUNTRY#DE"}, "gsi2_sk": {"S": "PROGRESS#2024-01-01T00:00:00Z"},
            "gsi3_pk": {"S": "COUNTRY#DE"}, "gsi3_sk": {"S": "NEVER#"},
            "last_crawled_start": {"S": "2024-01-01T00:00:00Z"},
        }),
    );
    let domains = |command: &str| {
        let found = place.json(&[command, "shops.Shop", "crawl", "country=DE"]);
        found.iter().map(|one| one["record"]["domain"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(domains("stuck"), ["dead.de"]);
    assert_eq!(domains("due"), ["new.de", "dead.de"], "a claim would take both");
    let table = place.ok(&["stuck", "shops.Shop", "crawl", "country=DE"]);
    assert!(table.contains("SHOP#dead.de / META#  progress  2024-01-01T00:00:00Z"), "{table}");

    let release = ["release", "shops.Shop", "crawl"];
    assert_eq!(place.ok(&[&release[..], &["domain=dead.de"]].concat()), "released: SHOP#dead.de / META#\n");
    assert!(domains("stuck").is_empty());
    assert_eq!(domains("due").len(), 2);
    place.fails(4, &[&release[..], &["domain=nobody.de"]].concat());
    let error = place.fails(1, &[&release[..], &["domain=new.de"]].concat());
    assert!(error.contains("is never"), "{error}");
}

#[test]
fn a_secret_is_shown_only_when_asked_for_and_never_lost() {
    let place = Place::new();
    let url = "https://example.com/signed";
    let (id, link) = (format!("export_id={EXPORT}"), format!("download_url={url}"));
    place.ok(&["put", "tdnet.Export", &id, "completed_at=2099-01-01T00:00:00Z", &link]);
    let get = ["get", "tdnet.Export", &id];
    for shown in [place.ok(&get), place.json(&get)[0].to_string()] {
        assert!(shown.contains("download_url") && !shown.contains(url), "{shown}");
    }
    let shown = place.json(&["get", "tdnet.Export", &id, "--show-secrets"]);
    assert_eq!((&shown[0]["download_url"], &shown[0]["status"]), (&json!(url), &json!("pending")));

    let without = place.ok(&["get", "tdnet.Export", &id, "--json"]);
    let output = place.run(&["put", "tdnet.Export", "--file", "-"], &without);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(error.contains("read it with --show-secrets"), "{error}");
}

#[test]
fn a_mistake_is_told_with_what_is_wanted() {
    let place = Place::new();
    place.ok(&["put", "shops.Shop", "domain=a.de"]);
    for (arguments, message) in [
        (&["get", "keiba.Rase", "race_id=1"][..], "keiba has no entity `Rase`; did you mean `Race`?"),
        (&["get", "keiba.Race", "rase_id=1"], "Race has no field `rase_id`; did you mean `race_id`?"),
        (
            &["get", "sushi.Race", "race_id=1"],
            "there is no system or file called `sushi`; known here: keiba, lunch, shops, tdnet, weather",
        ),
        (&["get", "Race", "race_id=1"], "`Race` names no entity of a system; did you mean keiba.Race?"),
        (
            &["get", "keiba.RaceDay", "date=today"],
            "`date` is `today`, but a date such as 2026-01-15 is expected",
        ),
        (&["get", "keiba.Race", "--key", "HORSE#1"], "`PK` is not a key of Race"),
        (&["get", "shops.Page", "--key", "SHOP#a.de"], "the key has a second part, `sk`: add --sort"),
        (&["get", "lunch.Menu", "year=2026"], "the key of Menu cannot be built: `restaurant` is missing"),
        (
            &["put", "keiba.Race", "race_id=1", "data=["],
            "Race is not valid:\n  Race.data: must be of type RaceCard, and it is \"[\"",
        ),
        (&["put", "keiba.Race", "race_id=1", "race_id=2"], "`race_id` is given twice"),
        (
            &["put", "lunch.Menu", "lunch_count=3"],
            "`lunch_count` is worked out from other fields: leave it out",
        ),
        (
            &["put", "tdnet.Disclosure", "--file", "none.json"],
            "cannot read none.json: No such file or directory (os error 2)",
        ),
        (
            &["query", "tdnet.Disclosure", "by_yeer", "x=1"],
            "Disclosure has no index `by_yeer`; there are by_company, by_month",
        ),
        (
            &["query", "tdnet.Disclosure", "by_company"],
            "`company_code` is missing: a partition is named by company_code",
        ),
        (
            &["query", "tdnet.Disclosure", "by_company", "title=x"],
            "`title` does not name a partition here; company_code does",
        ),
        (&["due", "shops.Shop", "crawl"], "`country` is missing: a group is named by country"),
        (
            &["stuck", "shops.Shop", "crawll", "country=DE"],
            "Shop has no lifecycle `crawll`; did you mean `crawl`?",
        ),
    ] {
        assert_eq!(place.fails(1, arguments), format!("larder: {message}\n"));
    }
    let error = place.fails(1, &["put", "tdnet.Disclosure", "company_code=72"]);
    assert!(
        error.contains("Disclosure.company_code: must match")
            && error.contains("Disclosure.title: is required"),
        "{error}"
    );
    place.fails(2, &["get", "keiba.Race", "202405021211"]);
    place.fails(2, &["get", "keiba.Race"]);
}

#[test]
fn looking_makes_no_store() {
    let place = Place::new();
    for arguments in [
        &["get", "keiba.Race", "race_id=1"][..],
        &["query", "tdnet.Disclosure", "by_company", "company_code=7203"],
        &["due", "shops.Shop", "crawl", "country=DE"],
    ] {
        let error = place.fails(1, arguments);
        assert!(error.contains("there is no store in larder-data"), "{error}");
    }
    assert!(!place.store().exists());
}

#[test]
fn a_store_that_is_served_is_reached_through_its_endpoint() {
    let place = Place::new();
    place.ok(&["put", "shops.Shop", "domain=a.de"]);
    let _server = Larder::on(&place.store(), &[]);
    assert!(place.ok(&["get", "shops.Shop", "domain=a.de"]).contains("a.de"));
}

#[test]
fn one_record_that_cannot_be_read_hides_no_other_and_is_told() {
    let place = Place::new();
    for domain in ["a.de", "b.de", "c.de"] {
        place.ok(&["put", "shops.Shop", &format!("domain={domain}"), "country=DE"]);
    }
    place.plant(
        "aura-historia-data",
        json!({
            "pk": {"S": "SHOP#b.de"}, "sk": {"S": "META#"}, "domain": {"S": "b.de"}, "shop_name": {"N": "7"},
            "shop_country": {"S": "COUNTRY#DE"}, "gsi2_pk": {"S": "COUNTRY#DE"}, "gsi2_sk": {"S": "NEVER#"},
            "gsi3_pk": {"S": "COUNTRY#DE"}, "gsi3_sk": {"S": "NEVER#"},
        }),
    );
    let told = "1 record cannot be read: SHOP#b.de / META#, because `shop_name` does not hold a string; \
                --strict makes that an error";
    let listings = [
        vec!["due", "shops.Shop", "crawl", "country=DE"],
        vec!["scan", "shops.Shop"],
        vec!["query", "shops.Shop", "domain=b.de"],
    ];
    for (listing, lines) in listings.iter().zip([3, 3, 1]) {
        let output = place.run(listing, "");
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(0), "{listing:?}: {error}");
        assert_eq!(error.lines().last(), Some(&*format!("larder: {told}")), "{listing:?}");
        let shown = String::from_utf8(output.stdout).unwrap();
        assert_eq!(shown.lines().count(), lines, "{shown}");
        let error = place.fails(1, &[&listing[..], &["--strict"]].concat());
        assert!(error.contains("cannot be read"), "{error}");
    }
    let key = ["shops.Shop", "domain=b.de"];
    let error = place.fails(1, &[&["get"], &key[..]].concat());
    assert!(error.contains("Shop SHOP#b.de / META# cannot be read: `shop_name`"), "{error}");
    let counted = &place.json(&["stats", "shops", "--exact"])[0];
    assert_eq!(counted["entities"]["Shop"]["items"], json!(2));
    assert_eq!(counted["strangers"]["keys"], json!(["SHOP#b.de / META#"]));

    let output = place.run(&[&["rm"], &key[..]].concat(), "");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "removed: SHOP#b.de / META#\n");
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.starts_with("larder: it is removed, and could not be shown: "), "{error}");
    assert_eq!(place.fails(4, &[&["rm"], &key[..]].concat()), "larder: there is no shops.Shop domain=b.de\n");
}

#[test]
fn l17_a_menu_with_faults_is_kept_as_it_came_and_shown_by_everyone() {
    let place = Place::new();
    let menu = json!({
        "restaurant": "niagara", "year": 2025, "week": 3,
        "lunches": [{"name": "Soppa", "price": "on request", "weekday": "monday", "week": 3, "place": "Niagara"}],
        "data_quality": {"completeness": 2, "accuracy": 1},
    });
    let key = ["restaurant=niagara", "year=2025", "week=3"];
    place.ok_with(&["put", "lunch.Menu", "--file", "-"], &menu.to_string());
    let got = place.ok(&[&["get", "lunch.Menu", "--json"], &key[..]].concat());
    let read: Value = serde_json::from_str(&got).unwrap();
    assert_eq!(read["lunches"], menu["lunches"]);
    let faults: Vec<&str> = read["validation_errors"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|issue| issue["field"].as_str())
        .collect();
    assert_eq!(faults, ["lunches[0].price", "lunches[0].weekday", "dataQuality.completeness"]);
    for listing in [&["query", "lunch.Menu", "history", "restaurant=niagara"][..], &["scan", "lunch.Menu"]] {
        assert_eq!(place.json(&[listing, &["--strict"]].concat()), std::slice::from_ref(&read));
    }
    assert_eq!(place.json(&["stats", "lunch", "--exact"])[0]["entities"]["Menu"]["items"], json!(1));
    assert!(place.ok_with(&["put", "lunch.Menu", "--file", "-"], &got).starts_with("unchanged: "));
}

#[test]
fn t15_a_value_that_does_not_parse_hides_no_other_fault() {
    let place = Place::new();
    let error = place.fails(
        1,
        &[
            "put",
            "tdnet.Disclosure",
            "company_code=x",
            "title=",
            "disclosure_type=earnings",
            "disclosed_at=yesterday",
            "downloaded_at=2024-02-02T00:00:00Z",
        ],
    );
    for line in [
        "larder: Disclosure is not valid:",
        "  Disclosure.company_code: must match ",
        "  Disclosure.company_name: is required, and it is missing",
        "  Disclosure.title: must not be empty",
        "  Disclosure.disclosed_at: must be of type instant such as 2026-01-15T10:00:00Z, and it is \"yesterday\"",
    ] {
        assert!(error.contains(line), "{line}: {error}");
    }
}

#[test]
fn a_moment_is_taken_as_it_is_or_refused() {
    let place = Place::new();
    let put = [
        "put",
        "tdnet.Disclosure",
        "company_code=7203",
        "company_name=Toyota",
        "disclosure_type=earnings",
        "title=A",
    ];
    let times = |disclosed: &str, downloaded: &str| {
        [format!("disclosed_at={disclosed}"), format!("downloaded_at={downloaded}")]
    };
    let [disclosed, downloaded] = times("2024-01-31T15:00:00.123Z", "2024-02-02T00:00:00Z");
    let error = place.fails(1, &[&put[..], &[&disclosed, &downloaded]].concat());
    assert!(error.contains("disclosed_at: must be no finer than instant tells apart"), "{error}");
    let [disclosed, downloaded] = times("2024-02-01T00:00:00+09:00", "2024-02-02T00:00:00.123Z");
    place.ok(&[&put[..], &[&disclosed, &downloaded]].concat());
    let shown = &place.json(&["get", "tdnet.Disclosure", "disclosure_id=20240201_7203_001"])[0];
    assert_eq!(
        (&shown["disclosed_at"], &shown["downloaded_at"]),
        (&json!("2024-01-31T15:00:00Z"), &json!("2024-02-02T00:00:00.123Z"))
    );
    let error = place.fails(
        1,
        &[
            "put",
            "weather.Forecast",
            "lat=35.01",
            "lon=135.76",
            "at=2025-11-26T15:00:00Z",
            r#"data={"timestamp": "2025-11-26T12:00:00-03:00"}"#,
        ],
    );
    assert!(error.contains("timestamp: must be of type datetime such as 2026-01-15T10:00:00, and it is \"2025-11-26T12:00:00-03:00\""), "{error}");
}

#[test]
fn the_ttl_is_shown_as_the_item_has_it() {
    let place = Place::new();
    let schema = "system papers\nsource press\ntable papers {\n  key pk\n  ttl ends\n  entity Paper from press {\n    key \"P#{id}\"\n    \
                  ttl 1h\n    grace 2d\n    input id: string nonempty\n    text: string\n  }\n}\n";
    std::fs::write(place.0.path().join("schemas/papers.larder"), schema).unwrap();
    place.ok(&["put", "papers.Paper", "id=1", "text=news"]);
    let get = ["get", "papers.Paper", "id=1"];
    let shown = &place.json(&get)[0];
    assert!(
        place.ok_with(&["put", "papers.Paper", "--file", "-"], &shown.to_string()).starts_with("unchanged")
    );
    let shown = &place.json(&get)[0];
    let docs = place.ok(&["docs", "papers"]);
    for line in [
        "| `ends` | N | yes | Unix seconds: 1 hour after the write, and 2 days that it may be given past its time |",
        "| `larder_fresh_until` | N | Unix seconds: until then it is fresh; it is removed at its TTL |",
        "| `larder_stored_at` | N | Unix seconds: when it was written |",
    ] {
        assert!(docs.contains(line), "{line}: {docs}");
    }
    let server = Larder::on(&place.store(), &[]);
    let key = json!({"pk": {"S": "P#1"}});
    let item = Client::new(&server.url).ok("GetItem", json!({"TableName": "papers", "Key": key}));
    let seconds = |name: &str| item["Item"][name]["N"].as_str().map(|text| text.parse::<i64>().unwrap());
    for name in ["ends", "larder_fresh_until"] {
        let told =
            shown[name].as_str().map(|text| text.parse::<larder::jiff::Timestamp>().unwrap().as_second());
        assert_eq!(told, Some(seconds(name).unwrap()), "{name}: {shown}");
    }
}

#[test]
fn a_dump_prints_no_secret_unless_it_is_asked_to() {
    let place = Place::new();
    let url = "https://example.com/signed";
    let (id, link) = (format!("export_id={EXPORT}"), format!("download_url={url}"));
    place.ok(&["put", "tdnet.Export", &id, "completed_at=2099-01-01T00:00:00Z", &link]);
    let output = place.run(&["dump", "tdnet.Export"], "");
    let (printed, told) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(printed.contains(EXPORT) && !printed.contains(url), "{printed}");
    assert!(told.contains("1 secret not shown, so `larder load` does not take this"), "{told}");
    let again = place.run(&["load", "-"], &printed);
    let error = String::from_utf8(again.stderr).unwrap();
    assert!(
        error.contains("a secret that was not shown: dump it with --show-secrets or --out FILE"),
        "{error}"
    );
    assert!(place.ok(&["dump", "tdnet.Export", "--show-secrets"]).contains(url));
    place.ok(&["dump", "tdnet.Export", "--out", "dump.jsonl"]);
    let written = std::fs::read_to_string(place.0.path().join("dump.jsonl")).unwrap();
    assert!(written.contains(url), "{written}");
    place.ok(&["load", "dump.jsonl"]);
}

#[test]
fn what_is_due_includes_what_a_claim_would_take_over() {
    let place = Place::new();
    place.ok(&["put", "shops.Shop", "domain=192.168.0.1", "country=DE"]);
    let shop = &place.json(&["get", "shops.Shop", "domain=192.168.0.1"])[0];
    assert_eq!(shop.get("core_domain_name"), None, "an address has none");
    let item = |domain: &str, start: &str| {
        json!({
            "pk": {"S": format!("SHOP#{domain}")}, "sk": {"S": "META#"}, "domain": {"S": domain},
            "shop_country": {"S": "COUNTRY#DE"},
            "gsi2_pk": {"S": "COUNTRY#DE"}, "gsi2_sk": {"S": format!("PROGRESS#{start}")},
            "gsi3_pk": {"S": "COUNTRY#DE"}, "gsi3_sk": {"S": "NEVER#"}, "last_crawled_start": {"S": start},
        })
    };
    place.plant("aura-historia-data", item("dead.de", "2024-01-01T00:00:00Z"));
    place.plant("aura-historia-data", item("busy.de", "2099-01-01T00:00:00Z"));
    let due = place.json(&["due", "shops.Shop", "crawl", "country=DE"]);
    let domains: Vec<&str> = due.iter().filter_map(|one| one["record"]["domain"].as_str()).collect();
    assert_eq!(domains, ["192.168.0.1", "dead.de"]);
}

#[test]
fn a_record_goes_from_state_to_state() {
    let place = Place::new();
    let id = format!("execution_id={EXPORT}");
    let of = ["transition", "tdnet.Execution", "status"];
    let moved =
        |transition: &str, more: &[&str]| place.run(&[&of[..], &[transition, &id], more].concat(), "");
    assert_eq!(moved("start", &[]).status.code(), Some(1), "there is no store");
    place.ok(&["put", "tdnet.Execution", &id]);
    let started = moved("start", &[]);
    assert_eq!(String::from_utf8(started.stdout).unwrap(), format!("running: {EXPORT}\n"));
    let error = String::from_utf8(moved("start", &[]).stderr).unwrap();
    assert!(error.contains("is running, and `start` starts from pending"), "{error}");
    let failed = moved("fail", &["--set", "error_message=no answer", "--json"]);
    let record: Value = serde_json::from_slice(&failed.stdout).unwrap();
    assert_eq!((&record["status"], &record["error_message"]), (&json!("failed"), &json!("no answer")));
    let error = String::from_utf8(moved("restart", &[]).stderr).unwrap();
    assert!(error.contains("status has no transition `restart`"), "{error}");
    let nobody = "execution_id=00000000-0000-4000-8000-000000000000";
    assert_eq!(place.run(&[&of[..], &["start", nobody]].concat(), "").status.code(), Some(4));
}

#[test]
fn a_collection_is_written_shown_and_removed_as_one() {
    let place = Place::new();
    let name = "shops.ShopWithPages";
    let lines = concat!(
        r#"{"entity":"Shop","domain":"a.de","country":"DE"}"#,
        "\n",
        r#"{"entity":"Page","domain":"a.de","url":"https://a.de/1","kind":"product","status":"on sale"}"#,
        "\n",
        r#"{"entity":"Page","domain":"a.de","url":"https://a.de/2","kind":"product","status":"sold"}"#,
        "\n",
    );
    assert_eq!(place.ok_with(&["collection", "put", name], lines), "3 records written\n");
    let shown = place.json(&["collection", "get", name, "domain=a.de"]);
    let entities: Vec<&str> = shown.iter().filter_map(|one| one["entity"].as_str()).collect();
    assert_eq!(entities, ["Shop", "Page", "Page"]);
    assert_eq!(shown[2]["url"], json!("https://a.de/2"));
    let text = place.ok(&["collection", "get", name, "domain=a.de"]);
    assert!(text.starts_with("Shop\ndomain") && text.contains("\nPage\ndomain"), "{text}");

    let wrong = lines.replacen("a.de", "b.de", 1);
    let output = place.run(&["collection", "put", name], &wrong);
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("of another partition"), "{error}");
    let output = place.run(&["collection", "put", name], "{\"entity\":\"Cart\"}\n");
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("-:1: ShopWithPages has no entity `Cart`"), "{error}");

    assert_eq!(place.ok(&["collection", "rm", name, "domain=a.de"]), "3 records removed\n");
    for action in ["get", "rm"] {
        let error = place.fails(4, &["collection", action, name, "domain=a.de"]);
        assert_eq!(error, "larder: there is no shops.ShopWithPages domain=a.de\n");
    }
}
