//! Several threads on one engine, and a fault.
//!
//! Each writer has items of its own and an oracle for them. Besides, all of them move money between shared
//! accounts in transactions, so that the accounts' sum never changes, and count in a shared item. One more
//! thread does background work, and adds and drops an index. When all have stopped the power is cut, and what
//! is found must satisfy every writer's oracle.
//!
//! Which thread comes first is up to the system, so a seed makes a failure likely again, not certain.

use std::fmt;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use larder_engine::Engine;
use larder_engine::ops::{ReturnCapacity, TransactGet, TransactGetItems};
use larder_model::{AttributeValue, Item, Number};
use larder_storage::faulty::{FaultyDisk, Lasting, Operation as DiskOperation};
use larder_storage::{Options, Store};

use crate::observe::{self, Observed, Trouble};
use crate::operation::{self, Action, Answer, Operation, Outcome, Transaction, Write};
use crate::oracle::Oracle;
use crate::random::Random;
use crate::run::BEGINNING;
use crate::schema::{self, COUNT, Key, Place};
use crate::workload::Workload;

#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub seed: u64,
    pub writers: usize,
    /// For each writer.
    pub steps: usize,
    /// The power goes, or one operation of the disk fails, after this many changes.
    pub fault_after: u64,
    pub lasting: Lasting,
}

/// A broken promise, and the plan that may show it again.
#[derive(Clone, Debug)]
pub struct Failure {
    pub plan: Plan,
    pub what: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}\nin {:?}\nrun it again, maybe a few times: SIM_SEED={} cargo test -p larder-sim --test threads",
            self.what, self.plan, self.plan.seed
        )
    }
}

pub fn run(plan: Plan) -> Result<(), Failure> {
    whole(plan).map_err(|what| Failure { plan, what })
}

const ACCOUNTS: i64 = 4;
const BANK: &str = "bank";
const SHARED_COUNT: &str = "shared";

/// What a writer knows at its end.
struct Written {
    prefix: String,
    oracle: Oracle,
    /// Increments of the shared count that were acknowledged, and that may have happened.
    counted: u64,
    maybe_counted: u64,
}

fn whole(plan: Plan) -> Result<(), String> {
    let disk = FaultyDisk::default();
    let engine = open(&disk)?;
    let made = pollster::block_on(engine.create_table(schema::create_table(Place::Main), BEGINNING));
    made.map_err(|error| error.to_string())?;
    disk.fail(DiskOperation::Change, plan.fault_after, plan.lasting);

    let start = Barrier::new(plan.writers + 1);
    let writing = AtomicBool::new(true);
    let written = thread::scope(|scope| {
        let writers: Vec<_> = (0..plan.writers)
            .map(|number| {
                let (engine, start) = (&engine, &start);
                scope.spawn(move || {
                    start.wait();
                    write(engine, plan, number)
                })
            })
            .collect();
        let worker = scope.spawn(|| {
            start.wait();
            work(&engine, plan, &writing)
        });
        let written: Result<Vec<Written>, String> =
            writers.into_iter().map(|writer| writer.join().map_err(panicked)?).collect();
        writing.store(false, Ordering::Release);
        worker.join().map_err(panicked)??;
        written
    })?;

    if plan.lasting == Lasting::Once {
        disk.heal();
        // One write that succeeds: then what can be read is on disk.
        let marker = count(Key("marker".to_owned(), 0), 1);
        let answer = operation::perform(&engine, &Operation::Write(marker), BEGINNING, Duration::ZERO)?;
        if answer != Answer::Known(Outcome::Done) {
            return Err(format!("the disk works again and the engine does not: {answer:?}"));
        }
        check(&engine, &written).map_err(|what| format!("before losing power: {what}"))?;
    }
    let mut random = Random::new(plan.seed);
    for surviving in [0, 1, random.number() | 2] {
        let after = open(&disk.crash(surviving))?;
        check(&after, &written)
            .map_err(|what| format!("after losing power, with {surviving} surviving: {what}"))?;
    }
    Ok(())
}

fn panicked<T>(_: T) -> String {
    "a thread panicked".to_owned()
}

fn open(disk: &FaultyDisk) -> Result<Engine, String> {
    let options = Options { log_bytes: 16 << 10, ..Options::default() };
    let store = Store::on_disk(disk.clone(), options).map_err(|error| error.to_string())?;
    Engine::on_store(store).map_err(|error| error.to_string())
}

fn write(engine: &Engine, plan: Plan, number: usize) -> Result<Written, String> {
    let prefix = format!("w{number}-");
    let seed = plan.seed.wrapping_mul(31).wrapping_add(number as u64);
    let mut random = Random::new(seed);
    let mut workload = Workload::of_items(seed, &prefix);
    let mut written = Written { prefix, oracle: Oracle::new(Duration::ZERO), counted: 0, maybe_counted: 0 };
    let mut failed = 0;
    for _ in 0..plan.steps {
        let perform =
            |operation: &Operation| operation::perform(engine, operation, BEGINNING, Duration::ZERO);
        let answer = match random.below(6) {
            0 => perform(&transfer(&mut random))?,
            1 => {
                let answer = perform(&Operation::Write(count(Key(SHARED_COUNT.to_owned(), 0), 1)))?;
                match &answer {
                    Answer::Known(Outcome::Done) => written.counted += 1,
                    Answer::Known(other) => return Err(format!("an increment was answered {other:?}")),
                    Answer::NotMade(_) => {}
                    Answer::Unknown(_) => written.maybe_counted += 1,
                }
                answer
            }
            2 => {
                check_accounts(engine)?;
                continue;
            }
            _ => {
                let operation = workload.next(&written.oracle, BEGINNING);
                let answer = perform(&operation)?;
                let learned = written.oracle.learn(&operation, &answer, BEGINNING);
                learned.map_err(|what| format!("{operation:?}: {what}"))?;
                answer
            }
        };
        failed += usize::from(!matches!(answer, Answer::Known(_)));
        if plan.lasting == Lasting::Forever && failed == 3 {
            break;
        }
    }
    Ok(written)
}

/// Background work, and indexes that come and go, while the others write.
fn work(engine: &Engine, plan: Plan, writing: &AtomicBool) -> Result<(), String> {
    let mut random = Random::new(plan.seed ^ 0xbac1);
    let choices = [Operation::AddIndex, Operation::DropIndex, Operation::Backfill, Operation::Work];
    let mut failed = 0;
    while writing.load(Ordering::Acquire) {
        let answer = operation::perform(engine, random.pick(&choices), BEGINNING, Duration::ZERO)?;
        failed += usize::from(!matches!(answer, Answer::Known(_)));
        if plan.lasting == Lasting::Forever && failed == 3 {
            break;
        }
    }
    Ok(())
}

fn count(key: Key, by: i64) -> Write {
    Write { place: Place::Main, key, action: Action::Count(by), condition: None }
}

fn account(number: i64) -> Key {
    Key(BANK.to_owned(), number)
}

fn transfer(random: &mut Random) -> Operation {
    let from = random.between(0, ACCOUNTS - 1);
    let to = (from + random.between(1, ACCOUNTS - 1)) % ACCOUNTS;
    let amount = random.between(1, 50);
    let writes = vec![count(account(from), -amount), count(account(to), amount)];
    Operation::Transact(Transaction { writes, token: None })
}

fn check_accounts(engine: &Engine) -> Result<(), String> {
    let get = |number| TransactGet {
        table: Place::Main.table(),
        key: account(number).attributes(),
        projection: None,
    };
    let gets = TransactGetItems { gets: (0..ACCOUNTS).map(get).collect(), capacity: ReturnCapacity::None };
    // A read may fail with the disk; what it must not do is show half a transfer.
    let Ok(found) = engine.transact_get_items(&gets) else { return Ok(()) };
    let mut items = Vec::new();
    for row in found.items.into_iter().flatten() {
        items.push(observe::read(row).map_err(trouble)?);
    }
    check_sum(items.iter())
}

fn check_sum<'a>(accounts: impl Iterator<Item = &'a Item>) -> Result<(), String> {
    let sum: i64 = accounts.filter_map(number).sum();
    if sum == 0 { Ok(()) } else { Err(format!("half a transaction is there: the accounts add up to {sum}")) }
}

fn number(item: &Item) -> Option<i64> {
    item.get(COUNT).and_then(AttributeValue::as_number).and_then(Number::to_i64)
}

fn check(engine: &Engine, written: &[Written]) -> Result<(), String> {
    observe::finish_work(engine).map_err(trouble)?;
    let observed = observe::observe(engine).map_err(trouble)?;
    let table = observed.tables.get(&Place::Main).ok_or("the table is gone")?;
    check_sum(table.items.iter().filter(|(key, _)| key.0 == BANK).map(|(_, item)| item))?;

    let counted: u64 = written.iter().map(|writer| writer.counted).sum();
    let at_most: u64 = counted + written.iter().map(|writer| writer.maybe_counted).sum::<u64>();
    let found = table.items.get(&Key(SHARED_COUNT.to_owned(), 0)).and_then(number).unwrap_or(0);
    if !(counted..=at_most).contains(&found.unsigned_abs()) {
        return Err(format!("the shared count is {found}, of {counted} to {at_most} increments"));
    }

    for writer in written {
        let mut own: Observed = observed.clone();
        for table in own.tables.values_mut() {
            table.items.retain(|key, _| key.0.starts_with(&writer.prefix));
            // Indexes are another thread's.
            table.indexes = Place::Main.first_indexes().iter().map(|index| index.name.to_owned()).collect();
        }
        writer.oracle.clone().see(&own)?;
    }
    Ok(())
}

fn trouble(trouble: Trouble) -> String {
    match trouble {
        Trouble::Disk(cause) => format!("a good disk is said to fail: {cause}"),
        Trouble::Broken(what) => what,
    }
}
