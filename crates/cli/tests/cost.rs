//! `larder cost` as people and programs meet it. The arithmetic is worked by hand beside each figure; that of all
//! five systems, line by line, is in `larder-schema`.

#![expect(clippy::unwrap_used, reason = "the helpers of a test fail with the test")]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use larder::{Address, Fields, Schema, Store, System, Value};
use larder_schema::{Environment, NoFiles};
use larder_server::Server;
use serde_json::Value as Json;

/// A page costs a cent; two requests of three are hits in the tests below.
const PAGES: &str = r#"
system pages
source web { cost $0.01 per call }
table pages {
  key pk
  ttl ttl
  index ByHost as by_host  host
  entity Page from web {
    key "PAGE#{id}"
    ttl 1d
    input id: string nonempty
    host: string nonempty
    text: string
  }
}
workload {
  requests   1_000_000 per month
  hit_rate   50%
  item_size  300B
  stored     1MB
}
"#;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn run(directory: &Path, arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_larder"))
        .arg("cost")
        .args(arguments)
        .current_dir(directory)
        .env_remove("ENVIRONMENT")
        .env_remove("LARDER_STORE")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // One that fails early reads no input.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn text(directory: &Path, arguments: &[&str]) -> String {
    let output = run(directory, arguments, "");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn json(directory: &Path, arguments: &[&str], input: &str) -> Json {
    let output = run(directory, &[arguments, &["--json"]].concat(), input);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn failure(directory: &Path, arguments: &[&str], input: &str) -> String {
    let output = run(directory, arguments, input);
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stderr).unwrap()
}

fn pages() -> (tempfile::TempDir, Schema) {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("pages.larder"), PAGES).unwrap();
    let loaded = Schema::load("pages.larder", PAGES, &mut NoFiles, &Environment::new());
    (directory, loaded.schema.unwrap())
}

fn page(id: &str) -> Fields {
    Fields::from([("id".to_owned(), Value::from(id))])
}

async fn scrape(_: Fields) -> Result<Fields, std::io::Error> {
    let host = ("host".to_owned(), Value::from("example.com"));
    Ok(Fields::from([host, ("text".to_owned(), Value::from("x".repeat(1500).as_str()))]))
}

#[test]
fn w13_the_weather_report_says_what_the_team_s_document_says() {
    let report = text(&root(), &["weather", "--region", "weather-team"]);
    for line in [
        // 1,000,000 × $0.25, 200,000 × $1.25 a million, 300 MB × $0.25 a GB
        "1,000,000  1,000,000 read units  $0.25\n",
        "200,000    200,000 write units   $0.25\n",
        "300 MB                $0.078643\n",
        "store    $0.58  ",
        "saved   $80.00  calls avoided: openweather 800,000 at $0.0001\n",
        // 80.00 − 0.58
        "net     $79.42  ",
    ] {
        assert!(report.contains(line), "{line:?} is not in\n{report}");
    }
}

#[test]
fn w13_figures_given_take_the_place_of_declared_ones() {
    let report =
        json(&root(), &["weather", "--requests", "5M", "--hit-rate", "0.9", "--region", "us-east-1"], "");
    // 5 M × 0.5 × $0.125 and 0.5 M × $0.625 a million; 4.5 M calls × $0.0001
    assert_eq!(report["store_usd"], "0.625");
    assert_eq!((&report["saved_usd"], &report["made_usd"]), (&"450.00".into(), &"50.00".into()));
    assert_eq!(report["net_usd"], "449.375");
    let before =
        ["weather", "--requests", "5M", "--hit-rate", "90%", "--region", "us-east-1", "--date", "2024-10-31"];
    // Twice the price, before the cut
    assert_eq!(json(&root(), &before, "")["store_usd"], "1.25");
}

#[tokio::test(flavor = "multi_thread")]
async fn w13_what_a_program_has_counted_is_priced() {
    let (directory, schema) = pages();
    let system = System::open(schema, Store::memory().await).await.unwrap();
    let shelf = system.entries("Page").unwrap();
    for id in ["1", "2", "1", "1", "2", "2"] {
        shelf.fetch(page(id), scrape).await.unwrap();
    }
    let counted = [("Page", shelf.stats())];
    let measured = larder::price::measured("pages", Duration::from_secs(2_592), counted);
    let report = json(directory.path(), &["--measured", "-"], &measured.to_string());
    // A thousandth of a month: 4,000 hits and 2,000 loads of a cent
    assert_eq!((&report["requests"], &report["hits"]), (&6000.into(), &4000.into()));
    assert_eq!((&report["saved_usd"], &report["made_usd"]), (&"40.00".into(), &"20.00".into()));
    // 6,000 × 0.5 × $0.125 = 0.000375; 2,000 × $0.625 a million = 0.00125, and again in the index
    assert_eq!(report["store_usd"], "0.002875");
}

/// Half an hour of the weather table: 1,000 reads of half a unit, 200 writes of one, and what the program counted.
fn weather_metrics(half_hours: u64) -> String {
    let count = |number: u64| number * half_hours;
    format!(
        r#"# TYPE larder_consumed_read_capacity_units_total counter
larder_consumed_read_capacity_units_total{{table="weather-forecast-cache-prod",operation="GetItem"}} {}
larder_consumed_read_capacity_units_total{{table="lunch-cache-dev",operation="GetItem"}} 7
larder_consumed_write_capacity_units_total{{table="weather-forecast-cache-prod",operation="PutItem"}} {}
larder_successful_request_latency_seconds_count{{table="weather-forecast-cache-prod",operation="GetItem"}} {}
larder_successful_request_latency_seconds_count{{table="weather-forecast-cache-prod",operation="PutItem"}} {}
larder_uptime_seconds {}
larder_cache_hits_total{{system="weather",entity="Forecast"}} {}
larder_cache_misses_total{{system="weather",entity="Forecast"}} {}
larder_saved_calls_total{{system="weather",entity="Forecast"}} {}
larder_source_calls_total{{system="weather",entity="Forecast"}} {}
larder_writes_total{{system="weather",entity="Forecast"}} {}
larder_system_uptime_seconds{{system="weather"}} {}
"#,
        count(500),
        count(200),
        count(1000),
        count(200),
        count(1800),
        count(800),
        count(200),
        count(800),
        count(200),
        count(200),
        count(1800),
    )
}

#[test]
fn w13_counted_units_are_priced_as_they_are() {
    // Half an hour is a 1,440th of a month: 720,000 read units × $0.1875, 288,000 write units × $0.9375 a million
    let report = json(&root(), &["weather", "--measured", "-"], &weather_metrics(1));
    let lines = report["tables"][0]["lines"].as_array().unwrap();
    let line = |operation: &str| lines.iter().find(|line| line["operation"] == operation).unwrap();
    assert_eq!(line("GetItem")["quantity"], "720000");
    assert_eq!((&line("GetItem")["usd"], &line("GetItem")["requests"]), (&"0.135".into(), &1_440_000.into()));
    assert_eq!((&line("PutItem")["usd"], &line("PutItem")["requests"]), (&"0.27".into(), &288_000.into()));
    assert_eq!(lines.iter().filter(|line| line["what"] == "reads").count(), 1, "nothing is counted twice");
    // 1,440 × 800 calls × $0.0001 saved, 1,440 × 200 × $0.0001 made
    assert_eq!((&report["saved_usd"], &report["made_usd"]), (&"115.20".into(), &"28.80".into()));
    assert_eq!((&report["requests"], &report["hits"]), (&1_440_000.into(), &1_152_000.into()));
    assert_eq!(report["from"], "1,800 seconds of counted traffic, taken for a month");
}

#[test]
fn w13_of_two_readings_the_difference_is_priced() {
    let directory = tempfile::tempdir().unwrap();
    let earlier = directory.path().join("earlier.txt");
    fs::write(&earlier, weather_metrics(1)).unwrap();
    let since = earlier.to_str().unwrap();
    // Three half hours less one are a 720th of a month: the rate is the same, and so is the month
    let report = json(&root(), &["weather", "--measured", "-", "--since", since], &weather_metrics(3));
    assert_eq!(report["from"], "3,600 seconds of counted traffic, taken for a month");
    assert_eq!((&report["store_usd"], &report["saved_usd"]), (&"0.405".into(), &"115.20".into()));
    fs::write(&earlier, weather_metrics(5)).unwrap();
    let error = failure(&root(), &["weather", "--measured", "-", "--since", since], &weather_metrics(3));
    assert!(error.contains("restarted in between"), "{error}");
    let error = failure(&root(), &["keiba", "--measured", "-"], &weather_metrics(1));
    assert!(error.contains("nothing in it is of keiba: no request of keiba_data"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn w13_a_server_and_the_layer_beside_it_are_asked_at_one_address() {
    let (directory, schema) = pages();
    let store = Store::open(&Address::Directory(directory.path().join("data"))).await.unwrap();
    let system = System::open(schema, store.clone()).await.unwrap();
    let engine = store.backend().engine().unwrap().clone();
    let counted = system.clone();
    let server = Server::share(engine, store.clock().clone(), ([127, 0, 0, 1], 0).into()).await.unwrap();
    let server = server.with_metrics(move || larder::prometheus([&counted]));
    let url = format!("http://{}/metrics", server.address());
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving = tokio::spawn(server.run(async {
        let _ = stopped.await;
    }));
    let shelf = system.entries("Page").unwrap();
    for id in ["1", "2", "1", "1", "2", "2"] {
        shelf.fetch(page(id), scrape).await.unwrap();
    }
    let place = directory.path().to_owned();
    let report = tokio::task::spawn_blocking(move || json(&place, &["--measured", &url], "")).await.unwrap();
    stop.send(()).unwrap();
    serving.await.unwrap().unwrap();

    let lines = report["tables"][0]["lines"].as_array().unwrap();
    let usd = |operation: &str, index: Json| {
        let line = lines.iter().find(|line| line["operation"] == operation && line["index"] == index);
        line.unwrap()["quantity"].as_str().unwrap().parse::<f64>().unwrap()
    };
    // Two items of 1.5 KB: two units each in the table, and as many in the index, whatever the time taken
    assert!(usd("PutItem", Json::Null) > 0.0);
    assert_eq!(usd("PutItem", Json::Null), usd("PutItem", "ByHost".into()));
    // Six requests, four of them hits
    let (requests, hits) = (report["requests"].as_f64().unwrap(), report["hits"].as_f64().unwrap());
    assert!((hits / requests - 4.0 / 6.0).abs() < 1e-3, "{requests} {hits}");
}

#[tokio::test(flavor = "multi_thread")]
async fn w13_sizes_come_from_the_tables_as_they_are() {
    let (directory, schema) = pages();
    let place = directory.path().join("data");
    let store = format!("--store={}", place.display());
    let arguments = ["--from-store", "--no-free-storage", &store];
    assert!(failure(directory.path(), &arguments, "").contains("there is no store"));
    assert!(!place.exists());

    let system = System::open(schema, Store::open(&Address::Directory(place)).await.unwrap()).await.unwrap();
    let shelf = system.entries("Page").unwrap();
    for id in ["1", "2"] {
        shelf.fetch(page(id), scrape).await.unwrap();
    }
    // A store on disk is one process's at a time.
    drop((shelf, system));

    let report = json(directory.path(), &arguments, "");
    let lines = report["tables"][0]["lines"].as_array().unwrap();
    let line = |what: &str| lines.iter().find(|line| line["what"] == what).unwrap();
    // pk 2 + 6, host 4 + 11, text 4 + 1,500, ttl 3 + 6: 1,536 bytes each, and 100 for each item
    assert_eq!(line("storage")["quantity"], "3272");
    // 500,000 writes × 2 units, for 1,536 bytes
    assert_eq!(line("writes")["quantity"], "1000000");
}

#[test]
fn l13_the_lunch_plan_names_capacity_budgets_and_the_cheaper_way() {
    let report = text(&root(), &["lunch"]);
    for part in [
        "15,000    7,500 read units  $0.001061\n", // 500 a day × 0.5 × $0.1415 a million
        "215       430 write units   $0.000303\n", // 50 a week × 2 × $0.705 a million
        "recovery            15 MB             $0.003223\n",
        "provisioned (1 / 1, RestaurantIndex 1 / 1) $1.27. On demand is cheaper",
        "provisioned is cheaper from 4.73 requests a second, steady",
        "Budget alerts: $5.00 not reached (0.10 %), $10.00 not reached (0.05 %), $25.00 not reached (0.02 %).",
    ] {
        assert!(report.contains(part), "{part:?} is not in\n{report}");
    }
}

#[test]
fn the_lower_end_of_a_range_is_priced_too() {
    let report = text(&root(), &["lunch"]);
    let (_, lower) = report.split_once("at the lower end the store costs ").unwrap();
    let (lower, _) = lower.split_once(".\n").unwrap();
    let quiet = text(&root(), &["lunch", "--reads", "100/day", "--writes", "10/week"]);
    let store = quiet.lines().find_map(|line| line.strip_prefix("store ")).unwrap();
    assert_eq!(store.split_whitespace().next(), Some(lower), "{quiet}");
    assert!(!quiet.contains("lower end"), "{quiet}");
}

#[test]
fn l13_provisioned_is_advised_and_budgets_are_reached_when_traffic_grows() {
    let report = text(&root(), &["lunch", "--reads", "50/second", "--writes", "10/second"]);
    for part in [
        // 129.6 M × 0.5 × $0.1415; 25.92 M × 2 × $0.705, and twice that in the index: 9.1692 + 36.5472 + 73.0944
        "on demand $118.81,",
        // 25 ÷ 0.7 = 35.7 read, 20 ÷ 0.7 = 28.6 write units; 40 ÷ 0.7 = 57.1 in the index:
        // 720 × (37 × 0.000147 + 87 × 0.000735) = 49.95648
        "provisioned (36 / 29, RestaurantIndex 1 / 58) $49.96. Provisioned would be $68.85 cheaper while the busiest time is under 2.3 times the average.",
        "$5.00 reached",
        "$25.00 reached",
    ] {
        assert!(report.contains(part), "{part:?} is not in\n{report}");
    }
}

#[test]
fn all_systems_are_told_and_those_without_a_workload_named() {
    let output = run(&root(), &[], "");
    let (told, named) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!(output.status.code(), Some(0), "{named}");
    assert!(told.contains("lunch: a month") && told.contains("weather: a month"));
    for system in ["keiba", "shops", "tdnet"] {
        assert!(named.contains(&format!("larder: left out: {system} declares no workload")), "{named}");
    }
}

#[test]
fn amounts_of_a_report_add_up_to_the_last_digit() {
    for system in ["keiba", "lunch", "shops", "tdnet", "weather"] {
        let report = json(
            &root(),
            &[
                system,
                "--requests",
                "7654321",
                "--hit-rate",
                "0.333",
                "--no-free-storage",
                "--region",
                "us-east-1",
            ],
            "",
        );
        let micros = |json: &Json| {
            let (whole, fraction) = json.as_str().unwrap().split_once('.').unwrap();
            format!("{whole}{fraction:0<6}").parse::<i64>().unwrap()
        };
        let tables = report["tables"].as_array().unwrap();
        let lines = |table: &Json| {
            table["lines"].as_array().unwrap().iter().map(|line| micros(&line["usd"])).sum::<i64>()
        };
        for table in tables {
            assert_eq!(lines(table), micros(&table["usd"]), "{table}");
        }
        assert_eq!(tables.iter().map(lines).sum::<i64>(), micros(&report["store_usd"]));
    }
}

#[test]
fn what_is_wrong_is_named_with_the_next_step() {
    let (directory, _) = pages();
    let ours = directory.path().join("ours.json");
    fs::write(&ours, r#"{"entries": [{"region": "here"}]}"#).unwrap();
    for (arguments, told) in [
        (&["shops"][..], "shops declares no workload: add `workload"),
        (&["weather", "--region", "mars-1"], "no prices for mars-1; known are ap-northeast-1"),
        (
            &["weather", "--region", "us-east-1", "--date", "2012-01-18"],
            "they begin on 2018-11-28: take a later --date",
        ),
        (
            &["lunch", "--region", "sa-east-1"],
            "no price of it is known in sa-east-1: choose another --region",
        ),
        (&["weather", "--prices", "nowhere.json"], "cannot read the prices in nowhere.json"),
        (&["weather", "--prices", ours.to_str().unwrap()], "entry 1 of the price file (here): `"),
        (&["weather", "--entity", "Forcast"], "weather has no entity `Forcast`; there are Forecast"),
        (&["weather", "--measured", "nowhere.json"], "cannot read the measured traffic in nowhere.json"),
        (&["weather", "--measured", "-"], "the measured traffic cannot be read"),
        (&["weather", "--measured", "http://127.0.0.1:1"], "cannot read http://127.0.0.1:1/metrics: "),
        (
            &["weather", "--measured", "https://127.0.0.1:1/metrics"],
            "cannot read https://127.0.0.1:1/metrics: ",
        ),
        (&["wether"], "there is no system or file called `wether`"),
        (&["--requests", "5M"], "there are several schemas here; name one"),
    ] {
        let error = failure(&root(), arguments, "{}");
        assert!(error.contains(told), "{told:?} is not in {error}");
    }
    for arguments in
        [&["--hit-rate", "90"][..], &["--requests", "lots"], &["--measured", "-", "--requests", "1"]]
    {
        assert_eq!(run(&root(), arguments, "").status.code(), Some(2), "{arguments:?}");
    }
}
