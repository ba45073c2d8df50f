//! `larder demo` as a process: it lives, it ends, and what it counted adds up.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

mod process;
use process::Client;

const LIMIT: Duration = Duration::from_secs(90);
const ANY_PORT: [&str; 2] = ["--dynamodb", "127.0.0.1:0"];

fn demo(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
    command
        .arg("demo")
        .args(arguments)
        .stdin(Stdio::null())
        .env_remove("LARDER_LOG")
        .env("RUST_BACKTRACE", "0");
    command
}

fn run(arguments: &[&str]) -> Output {
    demo(arguments).output().expect("the binary was built with this test")
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is a count"))
}

fn system<'a>(summary: &'a Value, name: &str) -> &'a Value {
    let systems = summary["systems"].as_array().expect("a list of systems");
    systems.iter().find(|system| system["system"] == name).expect("all five are there")
}

#[test]
fn five_systems_live_and_what_they_counted_adds_up() {
    let output = run(&["--json", "--for", "8s", "--speed", "3600", ANY_PORT[0], ANY_PORT[1]]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{errors}");
    let summary: Value = serde_json::from_slice(&output.stdout).expect("the summary is JSON");
    assert_eq!(summary["faults"], json!([]), "{summary:#}");

    for name in ["keiba", "weather", "lunch"] {
        let system = system(&summary, name);
        let sum = |group: &str| system[group].as_object().expect("a group").values().map(number).sum::<u64>();
        let (hits, misses) = (sum("hits"), sum("misses"));
        assert!(hits > 0 && misses > 0, "{system:#}");
        assert_eq!(number(&system["reads"]), hits + misses, "{system:#}");
        assert_eq!(misses, number(&system["called"]) + number(&system["joined"]), "{system:#}");
        let layer = &system["layer"];
        assert_eq!((number(&layer["hits"]), number(&layer["misses"])), (hits, misses), "{system:#}");
    }
    for name in ["keiba", "weather", "lunch", "tdnet", "shops"] {
        let system = system(&summary, name);
        let requests = &system["requests"];
        assert_eq!(requests["sent"], requests["received"], "{system:#}");
        assert!(number(&requests["sent"]) > 0 && number(&system["items"]) > 0, "{system:#}");
    }

    // A call is a request, and costs what the schema says.
    let weather = system(&summary, "weather");
    assert_eq!(weather["layer"]["loads"], weather["requests"]["received"]);
    let saved = number(&weather["layer"]["hits"]) as f64 * 0.0001;
    assert!((weather["layer"]["dollars_saved"].as_f64().unwrap() - saved).abs() < 1e-9, "{weather:#}");
    assert!(number(&weather["expired"]) > 0, "a forecast lives for three hours: {weather:#}");

    assert!(number(&system(&summary, "keiba")["split"]) > 0, "a race over 400 KB is kept: {summary:#}");
    assert!(
        number(&system(&summary, "lunch")["faulty"]) > 0,
        "menus are kept with their faults: {summary:#}"
    );

    let shops = &system(&summary, "shops")["states"];
    assert!(number(&shops["crawl"]["done"]) > 0 && number(&shops["scrape"]["done"]) > 0, "{shops:#}");
    let tdnet = &system(&summary, "tdnet")["states"];
    assert!(number(&tdnet["executions"]["completed"]) > 0, "{tdnet:#}");
    assert_eq!(tdnet["executions"]["running"], Value::Null, "what was begun is finished: {tdnet:#}");
}

/// A demo that runs until it is told to end.
struct Running {
    child: Child,
    lines: mpsc::Receiver<String>,
    url: String,
    console: String,
}

impl Running {
    fn start(arguments: &[&str]) -> Self {
        let mut child =
            demo(arguments).stdout(Stdio::piped()).spawn().expect("the binary was built with this test");
        let output = BufReader::new(child.stdout.take().expect("the output is piped"));
        let (tell, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                // The receiver may have given up.
                let _ = tell.send(line);
            }
        });
        let first = lines.recv_timeout(LIMIT).expect("the first line in time");
        let (before, url) = first.split_once(", DynamoDB's protocol on ").expect("it says where");
        let (_, console) = before.split_once("the console on ").expect("it says where");
        let (url, console) = (url.to_owned(), console.to_owned());
        Self { child, lines, url, console }
    }

    /// Ctrl-C. Gives the exit code and what was printed since.
    fn interrupt(mut self) -> (Option<i32>, String) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("a process has an id");
        kill_process(pid, Signal::INT).expect("our own child can be told");
        let mut text = String::new();
        while let Ok(line) = self.lines.recv_timeout(LIMIT) {
            text.push_str(&line);
            text.push('\n');
        }
        // Its output has ended, and so has it, or nearly.
        let code = self.child.wait().expect("our own child can be waited for").code();
        (code, text)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only when it has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_endpoint_has_the_same_store_and_the_same_clock() {
    let running = Running::start(&["--speed", "86400", ANY_PORT[0], ANY_PORT[1]]);
    let client = Client::new(&running.url);
    let tables = client.ok("ListTables", json!({}));
    let names: Vec<&str> =
        tables["TableNames"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!(
        names,
        [
            "aura-historia-data",
            "keiba_data",
            "lunch-cache-dev",
            "tdnet_disclosures_dev",
            "tdnet_executions_dev",
            "tdnet_export_status_dev",
            "weather-forecast-cache-prod"
        ]
    );
    // The second line comes after five seconds, each of which is a day there.
    running.lines.recv_timeout(LIMIT).expect("a line in time");
    let shops = client.ok("Scan", json!({"TableName": "aura-historia-data", "Select": "COUNT"}));
    assert!(number(&shops["Count"]) > 0);
    let made = client.ok(
        "CreateTable",
        json!({
            "TableName": "mine",
            "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
            "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
            "BillingMode": "PAY_PER_REQUEST",
        }),
    );
    #[expect(clippy::disallowed_methods, reason = "what is compared is the machine's clock")]
    let here = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs_f64();
    let there = made["TableDescription"]["CreationDateTime"].as_f64().expect("a time");
    assert!(there - here > 24.0 * 60.0 * 60.0, "{there} is days ahead of {here}");

    let (code, text) = running.interrupt();
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("It adds up") && text.contains("The data is gone"), "{text}");
}

#[test]
fn its_console_shows_five_systems_and_what_their_caches_save() {
    let running = Running::start(&["--speed", "3600", ANY_PORT[0], ANY_PORT[1], "--console", ANY_PORT[1]]);
    let page = |path: &str| {
        let mut answer = ureq::get(format!("{}{path}", running.console)).call().expect("the console answers");
        answer.body_mut().read_to_string().expect("pages are text")
    };
    let overview = page("/");
    for system in ["keiba", "tdnet", "weather", "shops", "lunch"] {
        assert!(overview.contains(&format!("/schema/{system}")), "{system}: {overview}");
    }
    // What is counted is looked at every few seconds; each line of the demo is five of them.
    let begun = Instant::now();
    let mut traffic = page("/traffic");
    while !(traffic.contains("from openweather") && traffic.contains("saved since it was started")) {
        assert!(begun.elapsed() < LIMIT, "{traffic}");
        running.lines.recv_timeout(LIMIT).expect("a line in time");
        traffic = page("/traffic");
    }
}

#[test]
fn data_stays_where_it_is_wanted() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("kept");
    let data = data.to_str().unwrap();
    let output = run(&["--for", "3s", "--data", data, ANY_PORT[0], ANY_PORT[1]]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains(&format!("larder serve --store {data}")), "{text}");

    let kept = process::Larder::on(std::path::Path::new(data), &[]);
    let shops =
        Client::new(&kept.url).ok("Scan", json!({"TableName": "aura-historia-data", "Select": "COUNT"}));
    assert!(number(&shops["Count"]) > 0);
}

#[test]
fn a_port_that_was_asked_for_and_is_taken_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let mut child = demo(&["--for", "1s", "--dynamodb", &address]).stderr(Stdio::piped()).spawn().unwrap();
    let mut errors = String::new();
    child.stderr.take().expect("it is piped").read_to_string(&mut errors).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1), "{errors}");
    assert!(errors.contains(&address) && errors.contains("--dynamodb"), "{errors}");
}
