//! Random operations give the same answers on Larder's engine and on dynoxide, which is verified against AWS.
//!
//! A run is a seed: two random tables and a few hundred requests, put to both. After a write the items it names
//! are read back from both as well. A failure prints its seed and step;
//! `RANDOM_SEED=… cargo test -p larder-conformance --test random` replays it. `RANDOM_RUNS` sets how many seeds.

mod chance;
mod compare;
mod differences;
mod expressions;
mod requests;
mod sides;
mod tables;
mod values;

use std::collections::BTreeMap;
use std::fmt::Write;

use chance::Chance;
use differences::Case;
use dynoxide::Database;
use larder_engine::Engine;
use requests::{Manner, Step};
use serde_json::{Value, json};
use sides::{Answer, Dynoxide, Larder, Side};
use tables::Table;

const SEED: u64 = 1;
const RUNS: u64 = 40;
const STEPS: usize = 200;
/// So many differences are printed.
const SHOWN: usize = 100000;

#[test]
fn random_requests_are_answered_alike() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect(name));
    let replayed = number("RANDOM_SEED");
    let runs = number("RANDOM_RUNS").unwrap_or(if replayed.is_some() { 1 } else { RUNS });
    let first = replayed.unwrap_or(SEED);
    let mut report = Report::default();
    println!("seeds {first} to {}", first + runs - 1);
    for seed in first..first + runs {
        Run::new(seed).go(&mut report);
    }
    report.finish();
}

#[derive(Debug, Default)]
struct Report {
    /// Steps and refusals, by operation.
    asked: BTreeMap<&'static str, (usize, usize)>,
    known: BTreeMap<&'static str, usize>,
    failures: Vec<String>,
}

impl Report {
    fn finish(&self) {
        for (operation, (steps, refused)) in &self.asked {
            println!("{operation}: {steps} requests, {refused} refused");
        }
        for (what, times) in &self.known {
            println!("known: {what}: {times}");
        }
        assert!(
            self.failures.is_empty(),
            "{} differences; the first:\n{}",
            self.failures.len(),
            self.failures.iter().take(SHOWN).map(String::as_str).collect::<String>()
        );
    }
}

struct Run {
    seed: u64,
    chance: Chance,
    tables: Vec<Table>,
    larder: Larder,
    dynoxide: Dynoxide,
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let tables = vec![Table::random(&mut chance, "one"), Table::random(&mut chance, "two")];
        let larder = Larder(Engine::memory().expect("a store in memory"));
        let dynoxide = Dynoxide(Database::memory().expect("a database in memory"));
        for table in &tables {
            let request = table.create();
            for side in [&larder as &dyn Side, &dynoxide] {
                side.ask("CreateTable", &request).unwrap_or_else(|error| panic!("{request}: {error}"));
            }
        }
        Self { seed, chance, tables, larder, dynoxide }
    }

    fn go(&mut self, report: &mut Report) {
        for number in 0..STEPS {
            let step = requests::random(&mut self.chance, &self.tables);
            let ours = compare::answer(&self.larder, &step);
            let theirs = compare::answer(&self.dynoxide, &step);
            let asked = report.asked.entry(step.operation).or_default();
            asked.0 += 1;
            asked.1 += usize::from(ours.is_err());
            let mut same = self.check(report, number, &step, &ours, &theirs);
            for (table, key) in &step.touched {
                let get = Step {
                    operation: "GetItem",
                    request: json!({"TableName": table, "Key": key, "ConsistentRead": true}),
                    manner: Manner::Once,
                    touched: vec![],
                };
                let ours = compare::answer(&self.larder, &get);
                let theirs = compare::answer(&self.dynoxide, &get);
                if ours.is_ok() || theirs.is_ok() {
                    let after = Step { operation: "after", ..step.clone() };
                    same &= self.check(report, number, &after, &ours, &theirs);
                }
            }
            if !same {
                self.reconcile();
            }
        }
    }

    /// Whether both answers are the same; what is not, and is not known either, goes into the report.
    fn check(&self, report: &mut Report, number: usize, step: &Step, ours: &Answer, theirs: &Answer) -> bool {
        if ours == theirs {
            return true;
        }
        if let Some(difference) = differences::known(&Case { step, ours, theirs }) {
            *report.known.entry(difference.what).or_default() += 1;
            return false;
        }
        let mut text = String::new();
        let _ = writeln!(text, "seed {} step {number}: {} {}", self.seed, step.operation, step.request);
        for (side, answer) in [("larder", ours), ("dynoxide", theirs)] {
            let _ = match answer {
                Ok(body) => writeln!(text, "  {side}: {body}"),
                Err(body) => writeln!(text, "  {side} refuses: {body}"),
            };
        }
        report.failures.push(text);
        false
    }

    /// Makes dynoxide's items what Larder's are, so that one difference is met once.
    fn reconcile(&self) {
        for table in &self.tables {
            let items = |side: &dyn Side| -> Vec<Value> {
                let mut request = json!({"TableName": table.name, "ConsistentRead": true});
                let mut items = vec![];
                loop {
                    let mut page = side.ask("Scan", &request).expect("a scan of all");
                    items.append(page["Items"].as_array_mut().expect("items"));
                    match page.get("LastEvaluatedKey") {
                        Some(key) => request["ExclusiveStartKey"] = key.clone(),
                        None => return items,
                    }
                }
            };
            for item in items(&self.dynoxide) {
                let key: Value =
                    table.keys.all().map(|key| (key.name.to_owned(), item[key.name].clone())).collect();
                self.dynoxide
                    .ask("DeleteItem", &json!({"TableName": table.name, "Key": key}))
                    .expect("a delete");
            }
            for item in items(&self.larder) {
                let put = json!({"TableName": table.name, "Item": item});
                if let Err(error) = self.dynoxide.ask("PutItem", &put) {
                    panic!("dynoxide does not take Larder's item: {put} {error}");
                }
            }
        }
    }
}
