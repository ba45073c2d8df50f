//! What the layer tells: structured lines, metrics, and CloudWatch's embedded metric format.

#![allow(clippy::unwrap_used, reason = "a test that fails may panic")]

mod logs;
mod sources;
mod stores;
mod systems;

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use larder::{Environment, Origin, StaleReason, Store, Value};
use larder_schema::cost::{self, Load, Prices, Reading, Terms};
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use serde_json::{Value as Json, json};

use sources::{Source, fields, forecast_data, forecast_key, page_key, pages, race_data, race_key, shelf};

/// Runs a test on one thread, so that what it tells can be caught.
fn on_one_thread(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        tokio::time::timeout(Duration::from_secs(60), test).await.expect("it ends in time");
    });
}

fn messages<'a>(lines: &'a [Json], message: &str) -> Vec<&'a Json> {
    lines.iter().filter(|line| line["fields"]["message"] == message).collect()
}

#[test]
fn k7_hits_and_misses_are_logged_with_key_latency_and_reason() {
    let lines = logs::captured(|| {
        on_one_thread(async {
            let store = Store::memory().await;
            let keiba = systems::open("keiba", &store).await;
            let (races, source) = (shelf(&keiba, "Race"), Source::default());
            for _ in 0..2 {
                races.fetch(race_key("1"), source.gives(race_data())).await.unwrap();
            }
            store.clock().advance(Duration::from_secs(8 * 86_400));
            races.fetch(race_key("1"), source.gives(race_data())).await.unwrap();
            store.faults().down();
            races.fetch(race_key("1"), source.gives(race_data())).await.unwrap();
        });
    });
    let hits = messages(&lines, "Cache hit");
    assert_eq!(hits.len(), 1, "{lines:?}");
    assert_eq!(hits[0]["level"], "INFO");
    let hit = &hits[0]["fields"];
    assert_eq!(
        (&hit["system"], &hit["entity"], &hit["origin"]),
        (&json!("keiba"), &json!("Race"), &json!("store"))
    );
    assert_eq!(hit["cache_key"], "RACE#1 / METADATA");
    assert!(hit["latency_ms"].as_f64().unwrap() >= 0.0);
    let reasons: Vec<&Json> =
        messages(&lines, "Cache miss").iter().map(|line| &line["fields"]["reason"]).collect();
    assert_eq!(reasons, ["absent", "expired", "unreachable"]);
    let failures = messages(&lines, "store failed");
    let doing: Vec<&Json> = failures.iter().map(|line| &line["fields"]["doing"]).collect();
    assert_eq!(doing, ["read", "write"]);
    assert!(failures[0]["fields"]["reason"].as_str().unwrap().contains("cannot be reached"), "{failures:?}");
}

#[derive(Clone, Default)]
struct Buffer(Arc<Mutex<Vec<u8>>>);

impl io::Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

async fn w11_hits_misses_and_latency_are_embedded_metrics_under_the_names_of_the_schema(store: Store) {
    let weather = systems::open("weather", &store).await;
    let buffer = Buffer::default();
    weather.emf_to(buffer.clone());
    let (forecasts, source) = (shelf(&weather, "Forecast"), Source::default());
    for _ in 0..2 {
        let key = forecast_key(-22.7572, "2025-11-26T15:23:45Z");
        forecasts.fetch(key, source.gives(forecast_data(28.3))).await.unwrap();
    }
    weather.drain(Duration::from_secs(60)).await.expect_empty();
    let text = String::from_utf8(buffer.0.lock().unwrap().clone()).unwrap();
    let lines: Vec<Json> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [miss, hit] = &lines[..] else { panic!("{text}") };
    assert_eq!((&miss["CacheMiss"], &hit["CacheHit"]), (&json!(1.0), &json!(1.0)));
    for (line, name) in [(miss, "CacheMiss"), (hit, "CacheHit")] {
        assert_eq!(
            line["_aws"]["CloudWatchMetrics"],
            json!([{
                "Namespace": "WeatherForecastAPI",
                "Dimensions": [["System", "Entity"]],
                "Metrics": [
                    { "Name": name, "Unit": "Count" },
                    { "Name": "CacheLatency", "Unit": "Milliseconds" },
                ],
            }])
        );
        assert!(line["_aws"]["Timestamp"].as_i64().unwrap() > 1_700_000_000_000);
        // What is named as a dimension or a metric is a member of the line.
        assert_eq!((&line["System"], &line["Entity"]), (&json!("weather"), &json!("Forecast")));
        assert!(line["CacheLatency"].is_f64());
        assert_eq!(line["cache_key"], "weather_-22.7572_-49.9439_1764169200");
    }
}

/// The log of a program that fetches twice, invalidates and fetches again.
fn weather_log() -> Vec<Json> {
    logs::captured(|| {
        on_one_thread(async {
            let store = Store::memory().await;
            let weather = systems::open("weather", &store).await;
            let (forecasts, source) = (shelf(&weather, "Forecast"), Source::default());
            let key = || forecast_key(-22.7572, "2025-11-26T15:23:45Z");
            for _ in 0..3 {
                forecasts.fetch(key(), source.gives(forecast_data(28.3))).await.unwrap();
                weather.drain(Duration::from_secs(60)).await.expect_empty();
            }
            forecasts.forget(key()).await.unwrap();
            forecasts.fetch(key(), source.gives(forecast_data(28.3))).await.unwrap();
            weather.drain(Duration::from_secs(60)).await.expect_empty();
            let family = forecasts.invalidate().by("lat", -22.7572).by("lon", -49.9439);
            assert_eq!(family.plan().await.unwrap().run().await.unwrap().removed, 1);
        });
    })
}

#[test]
fn w11_w16_what_the_cache_does_is_logged_in_the_words_of_the_document() {
    let lines = weather_log();
    for (message, times) in
        [("Cache hit", 2), ("Cache miss", 2), ("Cache saved", 2), ("Cache invalidated", 2)]
    {
        let told = messages(&lines, message);
        assert_eq!(told.len(), times, "{message}: {lines:?}");
        for line in told {
            assert_eq!(line["level"], "INFO", "{line}");
            assert_eq!(line["fields"]["cache_key"], "weather_-22.7572_-49.9439_1764169200");
        }
    }
    for message in ["Cache hit", "Cache miss"] {
        assert!(messages(&lines, message).iter().all(|line| line["fields"]["latency_ms"].is_f64()));
    }
    assert!(
        messages(&lines, "Cache saved").iter().all(|line| line["fields"]["ttl_hours"] == 3.0),
        "{lines:?}"
    );
}

/// As much of CloudWatch Logs Insights as the document's queries use, over lines with their fields at the top.
fn insights(query: &str, lines: &[Json]) -> Vec<BTreeMap<String, Json>> {
    let mut found: Vec<&Json> = lines.iter().map(|line| &line["fields"]).collect();
    let mut rows: Vec<BTreeMap<String, Json>> = Vec::new();
    for step in query.lines().map(|line| line.trim().trim_start_matches("| ")) {
        let (word, rest) = step.split_once(' ').unwrap_or((step, ""));
        match word {
            "#" | "fields" | "" => {}
            "filter" if rest.contains(" like /") => {
                let (field, pattern) = rest.split_once(" like /").unwrap();
                let any: Vec<&str> = pattern.trim_end_matches('/').split('|').collect();
                let like = |text: &str| any.iter().any(|part| text.contains(part));
                found.retain(|line| line[field].as_str().is_some_and(like));
            }
            "filter" => {
                let (field, wanted) = rest.split_once(" = ").unwrap();
                found.retain(|line| line[field] == wanted.trim_matches('"'));
            }
            "stats" => {
                let (asked, by) = rest.split_once(" by ").map_or((rest, None), |(a, b)| (a, Some(b)));
                let mut groups: BTreeMap<String, Vec<&Json>> = BTreeMap::new();
                for line in &found {
                    let group = by.map_or(String::new(), |by| line[by].as_str().unwrap().to_owned());
                    groups.entry(group).or_default().push(line);
                }
                for (group, lines) in groups {
                    let mut row: BTreeMap<String, Json> =
                        by.into_iter().map(|by| (by.to_owned(), json!(group))).collect();
                    for part in calls(asked) {
                        let (call, name) = part.split_once(" as ").unwrap();
                        row.insert(name.to_owned(), json!(stat(call, &lines)));
                    }
                    rows.push(row);
                }
            }
            "sort" => {
                let field = rest.trim_end_matches(" desc").to_owned();
                rows.sort_by(|a, b| b[&field].as_f64().unwrap().total_cmp(&a[&field].as_f64().unwrap()));
            }
            other => panic!("`{other}` is not known here"),
        }
    }
    rows
}

/// `avg(f) as a, pct(f, 50) as b`, parted where no bracket is open.
fn calls(asked: &str) -> Vec<String> {
    let mut calls: Vec<String> = Vec::new();
    for part in asked.split(", ") {
        match calls.last_mut().filter(|last| !last.contains(')')) {
            Some(last) => last.extend([", ", part]),
            None => calls.push(part.to_owned()),
        }
    }
    calls
}

/// `count()`, `avg(f)`, `pct(f, 99)`
fn stat(call: &str, lines: &[&Json]) -> f64 {
    let (function, arguments) = call.trim_end_matches(')').split_once('(').unwrap();
    let mut arguments = arguments.split(", ");
    let field = arguments.next().unwrap_or_default();
    let mut values: Vec<f64> = lines.iter().filter_map(|line| line[field].as_f64()).collect();
    values.sort_by(f64::total_cmp);
    match function {
        "count" => lines.len() as f64,
        "avg" => values.iter().sum::<f64>() / values.len() as f64,
        "pct" => {
            let share: f64 = arguments.next().unwrap().parse().unwrap();
            values[((values.len() - 1) as f64 * share / 100.0).round() as usize]
        }
        other => panic!("`{other}` is not known here"),
    }
}

#[test]
fn w11_w16_the_queries_of_the_document_find_what_is_logged() {
    let lines = weather_log();
    let rate = "# Cache hit rate
fields @timestamp, message
| filter message like /Cache hit|Cache miss/
| stats count() as requests by message
| sort requests desc";
    let found = insights(rate, &lines);
    let counts: BTreeMap<&str, f64> = found
        .iter()
        .map(|row| (row["message"].as_str().unwrap(), row["requests"].as_f64().unwrap()))
        .collect();
    assert_eq!(counts, BTreeMap::from([("Cache hit", 2.0), ("Cache miss", 2.0)]));
    let latency = "# Cache latency distribution
fields @timestamp, latency_ms
| filter message = \"Cache hit\"
| stats avg(latency_ms) as avg, pct(latency_ms, 50) as p50, pct(latency_ms, 99) as p99";
    let [row] = &insights(latency, &lines)[..] else { panic!("{lines:?}") };
    assert_eq!(row.keys().collect::<Vec<_>>(), ["avg", "p50", "p99"]);
    assert!(row.values().all(|millis| millis.as_f64().unwrap() > 0.0), "{row:?}");
    assert!(row["p50"].as_f64() <= row["p99"].as_f64());
}

#[test]
fn calls_and_dollars_saved_are_counted_for_each_entity() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, || {
        on_one_thread(async {
            let store = Store::memory().await;
            let weather = systems::open("weather", &store).await;
            let (forecasts, source) = (shelf(&weather, "Forecast"), Source::default());
            for _ in 0..5 {
                let key = forecast_key(-22.7572, "2025-11-26T15:23:45Z");
                forecasts.fetch(key, source.gives(forecast_data(28.3))).await.unwrap();
            }
            weather.drain(Duration::from_secs(60)).await.expect_empty();
            store.faults().down();
            forecasts.get(forecast_key(0.0, "2025-11-26T15:23:45Z")).await.unwrap();
        });
    });
    let mut counters = BTreeMap::new();
    for (key, _, _, value) in snapshotter.snapshot().into_vec() {
        let key = key.key();
        let labels: Vec<String> =
            key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        assert_eq!(labels, ["system=weather", "entity=Forecast"]);
        if let DebugValue::Counter(count) = value {
            counters.insert(key.name().to_owned(), count);
        }
    }
    for (name, count) in [
        ("larder_cache_hits_total", 4),
        ("larder_cache_misses_total", 2),
        ("larder_source_calls_total", 1),
        ("larder_source_microdollars_total", 100),
        ("larder_saved_calls_total", 4),
        ("larder_source_microdollars_saved_total", 400),
        ("larder_writes_total", 1),
        ("larder_store_errors_total", 1),
    ] {
        assert_eq!(counters.get(name), Some(&count), "{name}: {counters:?}");
    }
}

#[test]
fn a_hit_alone_saves_a_call_whoever_counts() {
    on_one_thread(async {
        let store = Store::memory().await;
        let text = pages("cost $0.01 per call\nbreaker 1 for 1h", "grace 1h");
        let system = systems::open_text(&text, &store).await;
        let (pages, source) = (shelf(&system, "Page"), Source::default());
        pages.fetch(page_key("1"), source.numbered()).await.unwrap();
        pages.fetch(page_key("1"), source.numbered()).await.unwrap();
        // None of these makes a call unnecessary: a `get` that finds nothing, a call that fails and opens the breaker, and two
        // reads behind it, one of which is given what is past its time.
        assert!(pages.get(page_key("2")).await.unwrap().is_none());
        source.down();
        store.clock().advance(Duration::from_secs(101));
        for _ in 0..2 {
            let given = pages.fetch(page_key("1"), source.numbered()).await.unwrap();
            assert!(
                matches!(given.origin(), Origin::Stale(StaleReason::SourceFailed(_))),
                "{}",
                given.origin()
            );
        }
        pages.fetch(page_key("2"), source.numbered()).await.unwrap_err();
        assert_eq!(source.calls(), 2);

        let stats = pages.stats();
        assert_eq!((stats.hits, stats.misses, stats.loads), (1, 5, 2));
        assert_eq!(stats.dollars_saved(), 0.01);
        let told = larder::prometheus([&system]);
        assert!(told.contains("larder_saved_calls_total{system=\"pages\",entity=\"Page\"} 1\n"), "{told}");

        let month = Duration::from_secs(cost::MONTH_SECONDS);
        let uptime = "larder_system_uptime_seconds";
        let told: String =
            told.lines().filter(|line| !line.starts_with(uptime)).flat_map(|line| [line, "\n"]).collect();
        let told = format!("{told}{uptime}{{system=\"pages\"}} {}\n", month.as_secs());
        let (schema, environment) = (system.schema(), Environment::new());
        let measured = larder::price::measured("pages", month, [("Page", stats)]).to_string();
        for load in [
            Load::counted(schema, &Reading::parse(&told).unwrap(), &environment).unwrap(),
            Load::measured(schema, &measured).unwrap(),
        ] {
            let terms = Terms {
                prices: &Prices::built_in(),
                region: None,
                date: None,
                free_storage: true,
                environment: &environment,
                stored: &BTreeMap::new(),
            };
            let report = cost::report(schema, &load, &terms).unwrap();
            assert_eq!((report.sources[0].calls, report.sources[0].calls_avoided), (2, 1), "{}", load.origin);
            assert_eq!(report.saved().micros(), 10_000);
        }
    });
}

#[test]
fn a_hit_that_begins_a_refresh_saves_no_call() {
    for l1 in ["", "l1 1h\n"] {
        on_one_thread(async {
            let store = Store::memory().await;
            let system =
                systems::open_text(&pages("cost $0.01 per call", &format!("{l1}stale 1h")), &store).await;
            let (pages, source) = (shelf(&system, "Page"), Source::default());
            pages.fetch(page_key("1"), source.numbered()).await.unwrap();
            pages.fetch(page_key("1"), source.numbered()).await.unwrap();
            store.clock().advance(Duration::from_secs(101));
            let stale = pages.fetch(page_key("1"), source.numbered()).await.unwrap();
            assert_eq!(stale.origin(), &Origin::Stale(StaleReason::Refreshing));
            sources::until(async || pages.stats().loads == 2).await;
            let stats = pages.stats();
            assert_eq!((stats.hits, stats.misses, stats.loads, stats.calls_saved), (2, 1, 2, 1), "{l1}");
            assert_eq!(stats.dollars_saved(), 0.01);
            let told = larder::prometheus([&system]);
            assert!(
                told.contains("larder_saved_calls_total{system=\"pages\",entity=\"Page\"} 1\n"),
                "{told}"
            );
            let measured =
                larder::price::measured("pages", Duration::from_secs(cost::MONTH_SECONDS), [("Page", stats)]);
            let load = Load::measured(system.schema(), &measured.to_string()).unwrap();
            assert_eq!(load.sum(|traffic| traffic.calls_saved), 1);
        });
    }
}

#[test]
fn a_secret_is_never_told() {
    let lines = logs::captured(|| {
        on_one_thread(async {
            let text = pages("", "l1 1h\nwrites behind\nlog hit, miss, load, write")
                .replace("text:     string", "text: string\ntoken: string secret match /[a-z]+/");
            let store = Store::memory().await;
            let system = systems::open_text(&text, &store).await;
            let (pages, source) = (shelf(&system, "Page"), Source::default());
            let page = |token: &str| fields([("text", Value::from("x")), ("token", Value::from(token))]);
            pages.fetch(page_key("1"), source.gives(page("hushhush"))).await.unwrap();
            let error = pages.fetch(page_key("2"), source.gives(page("HUSHHUSH"))).await.unwrap_err();
            assert!(!error.to_string().contains("HUSH"), "{error}");
            system.drain(Duration::from_secs(60)).await.expect_empty();
            pages.get(page_key("1")).await.unwrap();
        });
    });
    assert!(!lines.is_empty());
    for line in &lines {
        assert!(!line.to_string().to_lowercase().contains("hush"), "{line}");
    }
}

mod each {
    #[test]
    fn w11_hits_misses_and_latency_are_embedded_metrics_under_the_names_of_the_schema() {
        super::stores::each(
            super::w11_hits_misses_and_latency_are_embedded_metrics_under_the_names_of_the_schema,
        );
    }
}

const WORK: &str = r#"
system work
source web
table jobs {
  name  "{own}"
  key   id
  index by_work as by_work  work
  entity Job {
    key  "JOB#{name}"
    input name: string nonempty
    lifecycle work {
      state waiting
      state running  lease 5m
      begin:   waiting -> running
      finish:  running -> waiting
    }
  }
  entity Page from web {
    key     "PAGE#{url}"
    writes  behind
    input url: string nonempty
    text: string
  }
}
param own: string = "jobs" from ENV
metrics "Work" {
  stuck  Stuck
  queue  Waiting
}
"#;

#[test]
fn stuck_work_and_waiting_writes_are_told_to_prometheus_and_cloudwatch() {
    on_one_thread(async {
        let store = Store::memory().await;
        let system = systems::open_text(WORK, &store).await;
        let lines = Buffer::default();
        system.emf_to(lines.clone());
        let text = |pairs: &[(&str, &str)]| -> larder::Fields {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), Value::from(*value))).collect()
        };
        let jobs = shelf(&system, "Job");
        jobs.create(text(&[("name", "a")])).await.unwrap();
        let work = jobs.lifecycle("work").unwrap();
        drop(work.claim(()).await.unwrap().next().await.unwrap().unwrap());
        let told = larder::prometheus([&system]);
        let stuck = r#"larder_stuck_total{system="work",entity="Job",lifecycle="work"}"#;
        assert!(told.contains(&format!("{stuck} 0\n")), "{told}");
        store.clock().advance(Duration::from_secs(600));
        let _lease = work.claim(()).await.unwrap().next().await.unwrap().unwrap();
        let told = larder::prometheus([&system]);
        assert!(told.contains(&format!("{stuck} 1\n")), "{told}");

        store.faults().only(&["BatchWriteItem", "PutItem"]).delay(1.0, Duration::from_secs(3600));
        let pages = shelf(&system, "Page");
        pages.put_behind(text(&[("url", "1"), ("text", "one")])).await.unwrap();
        let told = larder::prometheus([&system]);
        assert!(told.contains("larder_queue_depth{system=\"work\",entity=\"Page\"} 1\n"), "{told}");
        assert!(!told.contains("larder_queue_depth{system=\"work\",entity=\"Job\"}"), "{told}");

        let written = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        let values = |name: &str| -> Vec<Json> {
            let lines = written.lines().map(|line| serde_json::from_str::<Json>(line).unwrap());
            lines.filter_map(|line| line.get(name).cloned()).collect()
        };
        assert_eq!((values("Stuck"), values("Waiting")), (vec![json!(1.0)], vec![json!(1.0)]), "{written}");
    });
}
