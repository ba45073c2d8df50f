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
use std::num::NonZero;
use std::panic::resume_unwind;
use std::thread::{self, ScopedJoinHandle};

use chance::Chance;
use differences::{Case, Verdict};
use dynoxide::Database;
use larder_engine::Engine;
use requests::{Manner, Step};
use serde_json::{Value, json};
use sides::{Answer, Dynoxide, Larder, Side};
use tables::{Index, KeyAttribute, Table};

const SEED: u64 = 1;
const RUNS: u64 = 80;
const STEPS: usize = 200;
/// So many of the steps fill the tables.
const FIRST: usize = 6;
/// So many differences are printed.
const SHOWN: usize = 10;

#[test]
fn random_requests_are_answered_alike() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect(name));
    let replayed = number("RANDOM_SEED");
    let runs = number("RANDOM_RUNS").unwrap_or(if replayed.is_some() { 1 } else { RUNS });
    let first = replayed.unwrap_or(SEED);
    println!("seeds {first} to {}", first + runs - 1);
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let report = thread::scope(|scope| {
        let each = (0..threads).map(|at| {
            scope.spawn(move || {
                let mut report = Report::default();
                for seed in (first..first + runs).skip(at).step_by(threads) {
                    Run::new(seed).go(&mut report);
                }
                report
            })
        });
        let each: Vec<ScopedJoinHandle<'_, Report>> = each.collect();
        each.into_iter().fold(Report::default(), |report, other| match other.join() {
            Ok(other) => report.and(other),
            Err(panic) => resume_unwind(panic),
        })
    });
    report.finish();
}

#[derive(Debug, Default)]
struct Report {
    /// Steps and refusals, by operation.
    asked: BTreeMap<&'static str, (usize, usize)>,
    known: BTreeMap<(Verdict, &'static str), usize>,
    failures: Vec<String>,
}

impl Report {
    fn and(mut self, other: Self) -> Self {
        for (operation, (steps, refused)) in other.asked {
            let asked = self.asked.entry(operation).or_default();
            *asked = (asked.0 + steps, asked.1 + refused);
        }
        for (difference, times) in other.known {
            *self.known.entry(difference).or_default() += times;
        }
        self.failures.extend(other.failures);
        self
    }

    fn finish(&self) {
        for (operation, (steps, refused)) in &self.asked {
            println!("{operation}: {steps} requests, {refused} refused");
        }
        for ((verdict, what), times) in &self.known {
            println!("{verdict:?}: {what}: {times}");
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
            if number >= FIRST && self.chance.one_in(50) {
                self.change_indexes(report, number);
                continue;
            }
            let next = if number < FIRST { requests::first } else { requests::random };
            let step = next(&mut self.chance, &self.tables);
            let mut same = self.put_to_both(report, number, &step) && self.same_items(report, number, &step);
            if same && step.request.get("ClientRequestToken").is_some() {
                same = self.repeat(report, number, &step);
            }
            if !same {
                self.reconcile();
            }
        }
    }

    fn put_to_both(&self, report: &mut Report, number: usize, step: &Step) -> bool {
        let ours = compare::answer(&self.larder, step);
        let theirs = compare::answer(&self.dynoxide, step);
        let asked = report.asked.entry(step.operation).or_default();
        asked.0 += 1;
        asked.1 += usize::from(ours.is_err());
        self.check(report, number, step, &ours, &theirs)
    }

    /// Whether a transaction is the same again, and another under its token, in both.
    fn repeat(&self, report: &mut Report, number: usize, step: &Step) -> bool {
        let other = requests::with_token_of(step);
        [Some(step.clone()), other]
            .iter()
            .flatten()
            .all(|step| self.put_to_both(report, number, step) && self.same_items(report, number, step))
    }

    /// Whether the items a step may have changed are the same in both.
    fn same_items(&self, report: &mut Report, number: usize, step: &Step) -> bool {
        let mut same = true;
        for (table, key) in &step.touched {
            let get = Step {
                operation: "GetItem",
                request: json!({"TableName": table, "Key": key, "ConsistentRead": true}),
                manner: Manner::Once,
                order: vec![],
                touched: vec![],
            };
            let ours = compare::answer(&self.larder, &get);
            let theirs = compare::answer(&self.dynoxide, &get);
            if ours.is_ok() || theirs.is_ok() {
                let after = Step { operation: "after", ..step.clone() };
                same &= self.check(report, number, &after, &ours, &theirs);
            }
        }
        same
    }

    fn change_indexes(&mut self, report: &mut Report, number: usize) {
        let position = self.chance.below(self.tables.len());
        let (step, after) = requests::change_indexes(&mut self.chance, &self.tables[position], number);
        if !self.put_to_both(report, number, &step) {
            return;
        }
        self.tables[position] = after;
        let table = &self.tables[position];
        if let Some(added) = table.indexes.last() {
            self.put_to_both(report, number, &requests::scan_index(table, added));
            self.delete_misfits(table, added);
        }
    }

    /// Deletes what has no place in an index. Dynoxide has given it one, and would count it in all that follows.
    fn delete_misfits(&self, table: &Table, index: &Index) {
        for item in self.items(table) {
            let fits = |key: KeyAttribute| {
                item.get(key.name)
                    .is_none_or(|value| value.get(key.kind.name()).is_some_and(|held| held != ""))
            };
            if !index.keys.all().all(fits) {
                let delete = json!({"TableName": table.name, "Key": requests::key_in(table, &item)});
                for side in [&self.larder as &dyn Side, &self.dynoxide] {
                    side.ask("DeleteItem", &delete).expect("a delete");
                }
            }
        }
    }

    /// Whether both answers are the same; what is not, and is not known either, goes into the report.
    fn check(&self, report: &mut Report, number: usize, step: &Step, ours: &Answer, theirs: &Answer) -> bool {
        if ours == theirs {
            return true;
        }
        if let Some(difference) = differences::known(&Case { step, ours, theirs }) {
            *report.known.entry((difference.verdict, difference.what)).or_default() += 1;
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

    /// Makes dynoxide's tables anew with Larder's items, so that one difference is met once.
    fn reconcile(&self) {
        for table in &self.tables {
            let ask = |operation, request: &Value| {
                let answer = self.dynoxide.ask(operation, request);
                answer.unwrap_or_else(|error| panic!("dynoxide does not take {operation} {request}: {error}"))
            };
            ask("DeleteTable", &json!({"TableName": table.name}));
            ask("CreateTable", &table.create());
            for item in self.items(table) {
                ask("PutItem", &json!({"TableName": table.name, "Item": item}));
            }
        }
    }

    /// Larder's items.
    fn items(&self, table: &Table) -> Vec<Value> {
        let mut scan = json!({"TableName": table.name, "ConsistentRead": true});
        let mut items = vec![];
        loop {
            let mut page = self.larder.ask("Scan", &scan).expect("a scan of all");
            items.append(page["Items"].as_array_mut().expect("a scan returns items"));
            match page.get("LastEvaluatedKey") {
                Some(key) => scan["ExclusiveStartKey"] = key.clone(),
                None => return items,
            }
        }
    }
}
