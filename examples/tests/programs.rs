//! Each program runs to its end against the server inside it, and says what it did.

use std::process::Output;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

const TIMEOUT: Duration = Duration::from_secs(60);

async fn run(program: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(program);
    for variable in ["LARDER_STORE", "OPENWEATHER_API_KEY", "ENVIRONMENT", "CACHE_TTL_HOURS"] {
        command.env_remove(variable);
    }
    let output = command.args(arguments).kill_on_drop(true).output();
    timeout(TIMEOUT, output).await.expect("it ends").expect("the program is built")
}

/// Runs a program, and checks that these lines are among those it prints, in this order.
async fn check(program: &str, arguments: &[&str], expected: &[&str]) {
    let output = run(program, arguments).await;
    let printed = String::from_utf8(output.stdout).expect("it prints text");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{printed}{errors}");
    let mut rest = printed.as_str();
    for part in expected {
        let Some(at) = rest.find(part) else {
            panic!("`{part}` is missing, or out of order:\n{printed}{errors}")
        };
        rest = &rest[at + part.len()..];
    }
}

const KEIBA: &str = env!("CARGO_BIN_EXE_keiba");
const TDNET: &str = env!("CARGO_BIN_EXE_tdnet");
const WEATHER: &str = env!("CARGO_BIN_EXE_weather");
const SHOPS: &str = env!("CARGO_BIN_EXE_shops");
const LUNCH: &str = env!("CARGO_BIN_EXE_lunch");

#[tokio::test]
async fn keiba_reads_every_page_once() {
    let expected = [
        "3 races on 2024-05-26, from source",
        "first pass",
        "3 horses, from source",
        "2 horses, from source",
        "not published yet",
        "second pass",
        "3 horses, from store",
        "2 horses, from store",
        "not published yet",
        "horse 2021100001: 3 past races, by オオカゼ out of ミドリ",
        "asked 100 times, 2 pages read",
    ];
    check(KEIBA, &["--delay", "0"], &expected).await;
}

#[tokio::test]
async fn tdnet_completes_its_run_and_refuses_what_breaks_the_checks() {
    let expected = [
        " is pending",
        "running      0 %",
        "running    100 %",
        "completed  100 %",
        "6 listed, 5 new, 0 known, 1 refused",
        "Disclosure.company_code",
        "company 7203, newest first",
        "20240131_7203_00",
        "month 2024-01: 5 disclosures",
        "export of 5 rows: 100 %, link kept: true",
        "no, it is a secret",
    ];
    check(TDNET, &["--delay", "0"], &expected).await;
}

#[tokio::test]
async fn tdnet_adds_nothing_twice_to_a_store_that_lasts() {
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().to_str().unwrap();
    check(TDNET, &["--delay", "0", "--store", store], &["6 listed, 5 new, 0 known, 1 refused"]).await;
    check(TDNET, &["--delay", "0", "--store", store], &["6 listed, 0 new, 5 known, 1 refused"]).await;
}

#[tokio::test]
async fn weather_buys_each_forecast_once_and_lives_with_a_source_that_is_down() {
    let expected = [
        "cold: 100 asked,  0 failed, 20 calls",
        "20 written, 0 waiting, 0 lost",
        "warm: 100 asked,  0 failed,  0 calls",
        // Of those who ask at once, whoever comes late finds what another has fetched.
        " % hits, 20 calls of the source: $0.0020 spent, $0.01",
        "the source goes down",
        "known place  2",
        " °C, ",
        ", from store",
        "answers 500",
        "to invalidate -22.7572, -49.9439: 1 item by a scan",
        "1 removed",
    ];
    check(WEATHER, &["--delay", "0"], &expected).await;
}

#[tokio::test]
async fn weather_goes_on_when_some_calls_fail() {
    check(
        WEATHER,
        &["--delay", "0", "--error-rate", "0.2"],
        &["cold: 100 asked", "warm: 100 asked", "removed"],
    )
    .await;
}

#[tokio::test]
async fn shops_are_crawled_by_two_workers_and_taken_over_from_one_that_died() {
    let expected = [
        "shops called antik: antik.example, www.antik.test",
        "worker gone dies with ",
        "now\n  DE  due: ",
        "; stuck: none",
        "3 pages, 3 changed, claim number 1",
        "3 pages, 3 changed, claim number 1",
        "3 pages, 3 changed, claim number 1",
        "three hours later\n  DE  due: ",
        ".example; stuck: ",
        ".example",
        "3 pages, 3 changed, claim number 2",
        "two days later",
        "stuck: none",
        "3 pages, 1 changed",
    ];
    check(SHOPS, &["--delay", "0"], &expected).await;
}

#[tokio::test]
async fn shops_that_cannot_be_crawled_are_left_for_later() {
    check(SHOPS, &["--delay", "0", "--error-rate", "1"], &["answers 500; again later"]).await;
}

#[tokio::test]
async fn lunch_keeps_menus_with_their_faults() {
    let expected = [
        "first pass",
        "niagara      week  3  3 lunches, fetched because absent, faults: 0",
        "kajen        week  3  2 lunches, fetched because absent, faults: 1",
        "second pass",
        "niagara      week  3  3 lunches, kept for",
        "niagara, newest first",
        "week  4  3 lunches",
        "week  3  3 lunches",
        "kajen, newest first",
        "2 lunches: Stekt strömming, Kockens val",
        r#"lunches[1].price: must be of type decimal, and it is "fråga oss""#,
    ];
    check(LUNCH, &[], &expected).await;
}

#[tokio::test]
async fn every_program_explains_itself() {
    for program in [KEIBA, TDNET, WEATHER, SHOPS, LUNCH] {
        check(program, &["--help"], &["Usage:", "--store", "--base-url"]).await;
    }
}

#[tokio::test]
async fn a_wrong_argument_is_refused() {
    let output = run(SHOPS, &["--shop", "antik.example"]).await;
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("write DOMAIN=COUNTRY"));
}
