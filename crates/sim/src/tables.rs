//! Tables that come, change and go while they are written to, several requests at once, on a disk that holds them up.
//!
//! A request is polled once, so that it is submitted, and then waits with others behind a sync that is not let
//! through. What waits takes effect in the order it was asked for, so the oracle is a plain map and that order:
//!
//! - A request is refused for what was asked for before it, on disk or not, and for nothing else; or because too
//!   much waits (`Busy`), and then nothing has changed.
//! - What was answered is there. What was refused or failed is not. Of what was cut off, a beginning is.
//! - Items of a table are those that were answered since it was made.
//!
//! The plan's fault hits somewhere; the run ends with a loss of power, and another life.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use larder_engine::ops::{
    CreateTable, DeleteTable, DescribeTable, ListTables, ListTagsOfResource, PutItem, Row, Scan, TagResource,
    UpdateTable, WriteOptions,
};
use larder_engine::{Engine, Error};
use larder_model::{ApiError, Item, TableName};
use larder_storage::faulty::{FaultyDisk, Lasting, Operation as DiskOperation};
use larder_storage::{Error as StorageError, Options, Store};

use crate::gate::GatedDisk;
use crate::observe::{Trouble, finish_work};
use crate::random::Random;
use crate::run::{BEGINNING, Failure, Fault, Plan};
use crate::schema::{self, EXTRA, GROUP, Key, NOTE, Place, RANK};

const TABLES: u64 = 4;
const KEYS: u64 = 6;
const TAG: &str = "tag";
/// So little that a few requests fill it.
const QUEUE_BYTES: usize = 24 << 10;

/// What a run met.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// Changes of the disk, up to the fault.
    pub changes: u64,
    /// Requests that were refused because too much waited.
    pub busy: usize,
    /// Requests that the fault made fail.
    pub failed: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Ask(Request),
    /// From now on requests wait.
    Hold,
    /// All that wait are answered.
    Release,
    /// Background work; only while nothing is held up.
    Work,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Request {
    table: u64,
    what: What,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum What {
    Create,
    Delete,
    Tag(u64),
    AddIndex,
    DropIndex,
    Put { key: u64, value: u64 },
}

type Tables = BTreeMap<u64, Table>;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Table {
    tag: Option<u64>,
    extra_index: bool,
    items: BTreeMap<u64, u64>,
}

impl Request {
    fn next(random: &mut Random, count: u64) -> Self {
        let what = match random.below(20) {
            0..4 => What::Create,
            4..6 => What::Delete,
            6..9 => What::Tag(count),
            9 => What::AddIndex,
            10 => What::DropIndex,
            _ => What::Put { key: random.below(KEYS), value: count },
        };
        Self { table: random.below(TABLES), what }
    }

    /// Whether the tables let it be made.
    fn fits(&self, tables: &Tables) -> bool {
        (self.what == What::Create) != tables.contains_key(&self.table)
    }

    fn apply(&self, tables: &mut Tables) {
        if self.what == What::Create {
            tables.insert(self.table, Table::default());
        }
        let Some(table) = tables.get_mut(&self.table) else { return };
        match &self.what {
            What::Create => {}
            What::Delete => drop(tables.remove(&self.table)),
            What::Tag(tag) => table.tag = Some(*tag),
            What::AddIndex => table.extra_index = true,
            What::DropIndex => table.extra_index = false,
            What::Put { key, value } => drop(table.items.insert(*key, *value)),
        }
    }

    fn ask(&self, engine: &Engine) -> Asked {
        let (engine, table) = (engine.clone(), name(self.table));
        match self.what.clone() {
            What::Create => Box::pin(async move {
                let request = CreateTable { table, ..schema::create_table(Place::Second) };
                engine.create_table(request, BEGINNING).await.map(drop)
            }),
            What::Delete => {
                Box::pin(async move { engine.delete_table(DeleteTable { table }, BEGINNING).await.map(drop) })
            }
            What::Tag(tag) => Box::pin(async move {
                let tags = vec![(TAG.to_owned(), tag.to_string())];
                engine.tag_resource(TagResource { table, tags }).await
            }),
            What::AddIndex => Box::pin(async move {
                let request = UpdateTable { table, ..schema::add_extra_index() };
                engine.update_table(request, BEGINNING).await.map(drop)
            }),
            What::DropIndex => Box::pin(async move {
                let request = UpdateTable { table, ..schema::drop_extra_index() };
                engine.update_table(request, BEGINNING).await.map(drop)
            }),
            What::Put { key, value } => Box::pin(async move {
                let mut item = Key(key.to_string(), 1).attributes();
                item.insert(GROUP, "g");
                item.insert(RANK, 1);
                item.insert(NOTE, i64::try_from(value).unwrap_or(i64::MAX));
                let request = PutItem { table, item, options: WriteOptions::default() };
                engine.put_item(request, BEGINNING).await.map(drop)
            }),
        }
    }
}

type Asked = Pin<Box<dyn Future<Output = Result<(), Error>>>>;

fn name(table: u64) -> TableName {
    TableName::new(format!("table-{table}")).expect("it is a good name")
}

fn poll_once(asked: &mut Asked) -> Option<Result<(), Error>> {
    match asked.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => Some(answer),
        Poll::Pending => None,
    }
}

/// Does what the plan says, and checks all there is to check.
pub fn run(plan: Plan) -> Result<Report, Failure> {
    let faulty = FaultyDisk::default();
    let disk = GatedDisk::new(faulty.clone());
    let engine = match open(disk.clone()) {
        Ok(engine) => engine,
        Err(what) => return Err(Failure { plan, what, trace: Vec::new() }),
    };
    let mut run = Run {
        plan,
        faulty,
        disk,
        engine,
        made: Tables::new(),
        waiting: Vec::new(),
        open: Vec::new(),
        held: false,
        asked: 0,
        report: Report::default(),
        trace: Vec::new(),
    };
    let ended = run.whole();
    // A run that fails must not wait for the disk for ever.
    run.disk.open();
    ended.map_err(|what| Failure { plan, what, trace: run.trace.clone() })
}

fn open(disk: impl larder_storage::Disk) -> Result<Engine, String> {
    let options = Options {
        cache_bytes: 64 << 10,
        log_bytes: 16 << 10,
        queue_bytes: QUEUE_BYTES,
        ..Options::default()
    };
    let store = Store::on_disk(disk, options).map_err(|error| format!("it does not open: {error}"))?;
    Engine::on_store(store).map_err(|error| format!("it does not open: {error}"))
}

/// A run under way.
struct Run {
    plan: Plan,
    faulty: FaultyDisk,
    disk: GatedDisk,
    engine: Engine,
    /// What was answered.
    made: Tables,
    /// What was asked for and is not answered yet, in order.
    waiting: Vec<(Request, Asked)>,
    /// What failed in a way that leaves open whether it was made, in order.
    open: Vec<Request>,
    held: bool,
    asked: u64,
    report: Report,
    trace: Vec<String>,
}

impl Run {
    fn whole(&mut self) -> Result<Report, String> {
        let before = self.faulty.changes();
        match self.plan.fault {
            Fault::None | Fault::Full { .. } => {}
            Fault::PowerLoss { after } => self.faulty.fail(DiskOperation::Change, after, Lasting::Forever),
            Fault::Error { operation, after } => self.faulty.fail(operation, after, Lasting::Once),
        }
        let mut random = Random::new(self.plan.seed);
        for _ in 0..self.plan.steps {
            let step = self.next_step(&mut random);
            self.trace.push(format!("{step:?}"));
            if !self.step(step)? {
                break;
            }
        }
        self.release()?;
        self.report.changes = self.faulty.changes() - before;
        if !self.is_powerless() {
            self.faulty.heal();
            self.recover()?;
            finish_work(&self.engine).map_err(told)?;
            self.look().map_err(told)?;
        }
        for surviving in [0, 1, random.number() | 2] {
            self.second_life(&self.faulty.crash(surviving))
                .map_err(|what| format!("after losing power, with {surviving} surviving: {what}"))?;
        }
        Ok(self.report)
    }

    fn is_powerless(&self) -> bool {
        matches!(self.plan.fault, Fault::PowerLoss { .. }) && self.report.failed > 0
    }

    fn next_step(&mut self, random: &mut Random) -> Step {
        match random.below(16) {
            0 if self.held => Step::Release,
            0 | 1 if !self.held => Step::Hold,
            2 if !self.held => Step::Work,
            _ => {
                self.asked += 1;
                Step::Ask(Request::next(random, self.asked))
            }
        }
    }

    /// False when the power is gone.
    fn step(&mut self, step: Step) -> Result<bool, String> {
        match step {
            Step::Hold => {
                self.disk.shut();
                self.held = true;
            }
            Step::Release => self.release()?,
            Step::Work => {
                if let Err(trouble) = finish_work(&self.engine) {
                    let Trouble::Disk(what) = trouble else { return Err(told(trouble)) };
                    self.trace.push(format!("  → {what}"));
                    self.report.failed += 1;
                }
            }
            Step::Ask(request) => {
                let failed = self.report.failed;
                if let Err(what) = self.ask(request) {
                    // What waits may have failed although the disk is held up: the answers tell.
                    self.release()?;
                    if self.report.failed == failed {
                        return Err(what);
                    }
                }
                if !self.held {
                    self.release()?;
                }
            }
        }
        if self.is_powerless() {
            return Ok(false);
        }
        if !self.held && self.report.failed > 0 {
            self.recover()?;
        }
        match self.look() {
            Ok(()) => {}
            // The engine cannot get over it while the disk is held up.
            Err(Trouble::Disk(what)) => {
                self.trace.push(format!("  looking → {what}"));
                self.release()?;
                self.recover()?;
            }
            // What waits may have failed although the disk is held up: the answers tell.
            Err(Trouble::Broken(_)) if self.held && !matches!(self.plan.fault, Fault::None) => {
                self.release()?;
                if self.is_powerless() {
                    return Ok(false);
                }
                if self.report.failed > 0 {
                    self.recover()?;
                }
                self.look().map_err(told)?;
            }
            Err(Trouble::Broken(what)) => return Err(what),
        }
        Ok(true)
    }

    /// Asks, and takes an answer that comes at once for a refusal.
    fn ask(&mut self, request: Request) -> Result<(), String> {
        let mut asked = request.ask(&self.engine);
        let fits = request.fits(&self.submitted());
        match poll_once(&mut asked) {
            None => {
                let wrong = format!("{request:?} was taken, against what was asked for before");
                self.waiting.push((request, asked));
                return if fits { Ok(()) } else { Err(wrong) };
            }
            Some(answer) => {
                self.trace.push(format!("  → {answer:?}"));
                match answer {
                    Ok(()) if fits => request.apply(&mut self.made),
                    Ok(()) => return Err(format!("{request:?} was made, against what was asked for before")),
                    Err(Error::Storage(StorageError::Busy { .. })) => self.report.busy += 1,
                    // What an index is doing just now is for others to check.
                    Err(Error::Api(_)) if matches!(request.what, What::AddIndex | What::DropIndex) => {}
                    Err(Error::Api(
                        ApiError::ResourceInUse(_)
                        | ApiError::ResourceNotFound(_)
                        | ApiError::TableNotFound(_),
                    )) if !fits => {}
                    Err(error) => self.fail(request, &error)?,
                }
            }
        }
        Ok(())
    }

    /// All that was asked for and has not failed.
    fn submitted(&self) -> Tables {
        let mut tables = self.made.clone();
        self.waiting.iter().for_each(|(request, _)| request.apply(&mut tables));
        tables
    }

    /// Lets the disk go on, and takes all answers.
    fn release(&mut self) -> Result<(), String> {
        self.disk.open();
        self.held = false;
        for (request, asked) in std::mem::take(&mut self.waiting) {
            let answer = pollster::block_on(asked);
            self.trace.push(format!("  {request:?} → {answer:?}"));
            match answer {
                Ok(()) if self.open.is_empty() => request.apply(&mut self.made),
                Ok(()) => return Err(format!("{request:?} was made after one that failed")),
                Err(error) => self.fail(request, &error)?,
            }
        }
        Ok(())
    }

    fn fail(&mut self, request: Request, error: &Error) -> Result<(), String> {
        self.report.failed += 1;
        match error {
            Error::Storage(StorageError::Failed { .. } | StorageError::Lost) => Ok(()),
            Error::Storage(StorageError::Unknown { .. }) => {
                self.open.push(request);
                Ok(())
            }
            // A read failed before anything was submitted.
            Error::Storage(StorageError::Io { .. } | StorageError::Expired) => Ok(()),
            other => Err(format!("{request:?}: {other}")),
        }
    }

    /// The disk works again: so must the engine, soon and without being reopened.
    fn recover(&mut self) -> Result<(), String> {
        const PATIENCE: Duration = Duration::from_secs(5);
        let begun = Instant::now();
        loop {
            // Until a write has succeeded, what can be read may be in memory only.
            let request = Request { table: 0, what: What::Tag(0) };
            let written = pollster::block_on(request.ask(&self.engine));
            let trouble = match written {
                Ok(()) | Err(Error::Api(_)) => match observe(&self.engine) {
                    Ok(found) => return self.adopt(found, written.is_ok().then_some(&request)),
                    Err(Trouble::Broken(what)) => return Err(what),
                    Err(Trouble::Disk(what)) => what,
                },
                Err(error) => error.to_string(),
            };
            if begun.elapsed() > PATIENCE {
                return Err(format!("the disk works again and the engine does not: {trouble}"));
            }
            std::thread::yield_now();
        }
    }

    /// Learns what became of what was left open.
    fn adopt(&mut self, found: Tables, also: Option<&Request>) -> Result<(), String> {
        let allowed = self.allowed().into_iter().find(|allowed| {
            let mut allowed = allowed.clone();
            also.into_iter().for_each(|request| request.apply(&mut allowed));
            allowed == found
        });
        if allowed.is_none() {
            return Err(format!("found {found:?}, of {:?}, made {:?}", self.open, self.made));
        }
        self.made = found;
        self.open.clear();
        self.report.failed = 0;
        Ok(())
    }

    /// What may be there: all that was answered, and a beginning of what was left open.
    fn allowed(&self) -> Vec<Tables> {
        let mut tables = self.made.clone();
        let mut allowed = vec![tables.clone()];
        for request in self.open.iter().chain(self.waiting.iter().map(|(request, _)| request)) {
            request.apply(&mut tables);
            allowed.push(tables.clone());
        }
        allowed
    }

    /// The catalog shows all that was asked for; items are there once they are answered.
    fn look(&self) -> Result<(), Trouble> {
        let mut found = observe(&self.engine)?;
        let mut expected = self.submitted();
        if self.held {
            let forget = |tables: &mut Tables| tables.values_mut().for_each(|table| table.items.clear());
            forget(&mut found);
            forget(&mut expected);
        }
        if found != expected {
            return Err(Trouble::Broken(format!("found {found:?}, not {expected:?}")));
        }
        Ok(())
    }

    /// Checks the database found on a disk after a loss of power.
    fn second_life(&self, disk: &FaultyDisk) -> Result<(), String> {
        let engine = open(disk.clone())?;
        let found = observe(&engine).map_err(told)?;
        if !self.allowed().contains(&found) {
            return Err(format!("found {found:?}, not one of {:?}", self.allowed()));
        }
        finish_work(&engine).map_err(told)?;
        let verified = engine.verify(BEGINNING, |_| {}).map_err(|error| error.to_string())?;
        if verified.problem_count > 0 {
            return Err(verified.problems.join("\n"));
        }
        let mut expected = found;
        for what in [What::Create, What::Put { key: 0, value: 0 }] {
            let request = Request { table: TABLES, what };
            pollster::block_on(request.ask(&engine)).map_err(|error| error.to_string())?;
            request.apply(&mut expected);
        }
        let found = observe(&engine).map_err(told)?;
        if found != expected {
            return Err(format!("it does not go on: found {found:?}, not {expected:?}"));
        }
        Ok(())
    }
}

fn told(trouble: Trouble) -> String {
    let (Trouble::Disk(what) | Trouble::Broken(what)) = trouble;
    what
}

/// All that can be seen. Items are those on disk.
fn observe(engine: &Engine) -> Result<Tables, Trouble> {
    let mut tables = Tables::new();
    for table in engine.list_tables(&ListTables { start: None, limit: None })?.names {
        let number = table.as_str().strip_prefix("table-").and_then(|number| number.parse().ok());
        let Some(number) = number else { return Err(Trouble::Broken(format!("nobody made {table}"))) };
        let tags = engine.list_tags_of_resource(&ListTagsOfResource { table: table.clone() })?;
        let description = engine.describe_table(&DescribeTable { table: table.clone() })?;
        let mut items = BTreeMap::new();
        let mut start = None;
        loop {
            let page = engine.scan(&Scan { start, ..Scan::of(table.clone()) })?;
            for row in page.items.unwrap_or_default() {
                let item = match row {
                    Row::Built(item) => item,
                    Row::Stored(stored) => stored.decode().map_err(Error::from)?,
                };
                let (key, value) =
                    read(&item).ok_or_else(|| Trouble::Broken(format!("nobody put {item:?}")))?;
                items.insert(key, value);
            }
            start = page.last_key;
            if start.is_none() {
                break;
            }
        }
        let extra_index = description.definition.indexes.iter().any(|index| index.name.as_str() == EXTRA);
        let tag = tags.get(TAG).and_then(|tag| tag.parse().ok());
        tables.insert(number, Table { tag, extra_index, items });
    }
    Ok(tables)
}

fn read(item: &Item) -> Option<(u64, u64)> {
    let key = Key::of(item)?.0.parse().ok()?;
    let value = item.get(NOTE)?.as_number()?.to_i64()?;
    Some((key, u64::try_from(value).ok()?))
}
