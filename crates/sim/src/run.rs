//! One workload, one fault, one after the other.
//!
//! A [`Plan`] says everything about a run, so the same plan runs again. Whatever the fault, the run ends with
//! a loss of power; the database found afterwards must be one the oracle allows, must go on working, and must
//! survive another loss of power.

use std::fmt;
use std::time::{Duration, Instant};

use larder_engine::Engine;
use larder_model::UnixTime;
use larder_storage::faulty::{FaultyDisk, Lasting, Operation as DiskOperation};
use larder_storage::{Options, Store};

use crate::observe::{Observed, Trouble, finish_work, observe};
use crate::operation::{self, Answer, Operation, Write};
use crate::oracle::Oracle;
use crate::random::Random;
use crate::schema::{self, Key, Place};
use crate::workload::Workload;

/// All that a run depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    pub seed: u64,
    pub steps: usize,
    pub fault: Fault,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    /// The power goes after this many changes of the disk.
    PowerLoss {
        after: u64,
    },
    /// One operation of the disk fails, after this many.
    Error {
        operation: DiskOperation,
        after: u64,
    },
    /// The disk can grow by this much, until some operations have failed.
    Full {
        room_bytes: u64,
    },
}

/// A broken promise, and the plan that shows it again.
#[derive(Clone, Debug)]
pub struct Failure {
    pub plan: Plan,
    pub what: String,
    /// What was done, and what the engine said.
    pub trace: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.trace {
            writeln!(f, "  {line}")?;
        }
        writeln!(f, "{}", self.what)?;
        write!(f, "in {:?}\nrun it again: SIM_SEED={} ", self.plan, self.plan.seed)?;
        if let Fault::PowerLoss { after } | Fault::Error { after, .. } = self.plan.fault {
            write!(f, "SIM_AT={after} ")?;
        }
        f.write_str("cargo test -p larder-sim")
    }
}

/// How far a run came.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// Changes of the disk that the workload made, up to the fault.
    pub changes: u64,
    /// Operations that the fault made fail.
    pub failed: usize,
}

/// The time at which every run begins.
pub const BEGINNING: UnixTime = UnixTime::from_seconds(1_800_000_000);

/// A database in which a workload has already done something, closed. Runs start from copies.
#[derive(Clone, Debug)]
pub struct Beginning {
    disk: Vec<u8>,
    oracle: Oracle,
    workload: Workload,
    now: UnixTime,
}

impl Beginning {
    pub fn new(seed: u64) -> Result<Self, Failure> {
        const STEPS: usize = 25;
        let ttl_delay = Duration::from_secs(if seed.is_multiple_of(2) { 0 } else { 50 });
        let disk = FaultyDisk::default();
        let plan = Plan { seed, steps: STEPS, fault: Fault::None };
        let failure = |what: String| Failure { plan, what, trace: Vec::new() };
        let engine = open(&disk).map_err(failure)?;
        pollster::block_on(engine.create_table(schema::create_table(Place::Main), BEGINNING))
            .map_err(|error| failure(error.to_string()))?;
        let oracle = Oracle::new(ttl_delay);
        let mut run = Run::new(plan, disk, engine, oracle, Workload::new(seed));
        let made = run.steps(STEPS).and_then(|()| run.look());
        made.map_err(|what| run.failure(what))?;
        run.engine.close().map_err(|error| failure(error.to_string()))?;
        Ok(Self { disk: run.disk.bytes(), oracle: run.oracle, workload: run.workload, now: run.now })
    }
}

/// Does what the plan says, and checks all there is to check.
pub fn run(plan: Plan, beginning: &Beginning) -> Result<Report, Failure> {
    let disk = FaultyDisk::from(beginning.disk.clone());
    let engine = match open(&disk) {
        Ok(engine) => engine,
        Err(what) => return Err(Failure { plan, what, trace: Vec::new() }),
    };
    let Beginning { oracle, workload, now, .. } = beginning.clone();
    let mut run = Run::new(plan, disk, engine, oracle, workload);
    run.now = now;
    run.whole().map_err(|what| run.failure(what))
}

fn open(disk: &FaultyDisk) -> Result<Engine, String> {
    // A cache smaller than the database, so that reads reach the disk, and a log that is full every few writes.
    let options = Options { cache_bytes: 64 << 10, log_bytes: 16 << 10, ..Options::default() };
    let store =
        Store::on_disk(disk.clone(), options).map_err(|error| format!("it does not open: {error}"))?;
    Engine::on_store(store).map_err(|error| format!("it does not open: {error}"))
}

/// A run under way.
struct Run {
    plan: Plan,
    disk: FaultyDisk,
    engine: Engine,
    oracle: Oracle,
    workload: Workload,
    now: UnixTime,
    failed: usize,
    trace: Vec<String>,
}

impl Run {
    fn new(plan: Plan, disk: FaultyDisk, engine: Engine, oracle: Oracle, workload: Workload) -> Self {
        Self { plan, disk, engine, oracle, workload, now: BEGINNING, failed: 0, trace: Vec::new() }
    }

    fn failure(&self, what: String) -> Failure {
        Failure { plan: self.plan, what, trace: self.trace.clone() }
    }

    fn whole(&mut self) -> Result<Report, String> {
        let before = self.disk.changes();
        match self.plan.fault {
            Fault::None => {}
            Fault::PowerLoss { after } => {
                self.disk.fail(DiskOperation::Change, after, Lasting::Forever);
            }
            Fault::Error { operation, after } => self.disk.fail(operation, after, Lasting::Once),
            Fault::Full { room_bytes } => self.disk.limit(self.disk.bytes().len() as u64 + room_bytes),
        }
        self.steps(self.plan.steps)?;
        let report = Report { changes: self.disk.changes() - before, failed: self.failed };
        if !matches!(self.plan.fault, Fault::PowerLoss { .. }) {
            self.disk.heal();
            self.recover()?;
        }
        let mut random = Random::new(self.plan.seed ^ report.changes);
        // Nothing of what was not synced survives; all of it; some of it.
        let some = random.number() | 2;
        for surviving in [0, 1, some] {
            self.check_found(self.disk.crash(surviving))
                .map_err(|what| format!("after losing power, with {surviving} surviving: {what}"))?;
        }
        let twice = recover_and_crash(&self.disk.crash(some), &mut random);
        self.check_found(twice)
            .map_err(|what| format!("after losing power, and again while recovering: {what}"))?;
        Ok(report)
    }

    /// Does the next operations. A power loss, or too many errors, ends them early.
    fn steps(&mut self, count: usize) -> Result<(), String> {
        const FAILED_MAX: usize = 3;
        for _ in 0..count {
            let operation = self.workload.next(&self.oracle, self.now);
            if let Operation::Advance(by) = operation {
                self.now = self.now.plus(by);
            }
            if self.step(&operation)? {
                continue;
            }
            self.failed += 1;
            match self.plan.fault {
                Fault::PowerLoss { .. } if self.failed == FAILED_MAX => return Ok(()),
                // Background work that was cut off leaves too much open to go on with.
                Fault::PowerLoss { .. } if self.oracle.expects_a_look() => return Ok(()),
                Fault::PowerLoss { .. } => {}
                Fault::Full { .. } if self.failed < FAILED_MAX && !self.oracle.expects_a_look() => {}
                Fault::Full { .. } => {
                    self.disk.heal();
                    self.recover()?;
                }
                Fault::Error { .. } => self.recover()?,
                Fault::None => return Err("an operation failed on a good disk".to_owned()),
            }
        }
        Ok(())
    }

    /// Does one operation, and says whether the disk let it.
    fn step(&mut self, operation: &Operation) -> Result<bool, String> {
        self.trace.push(format!("{operation:?}"));
        let answer = operation::perform(&self.engine, operation, self.now, self.oracle.ttl_delay())?;
        self.trace.push(format!("  → {answer:?}"));
        self.oracle.learn(operation, &answer, self.now)?;
        Ok(matches!(answer, Answer::Known(_)))
    }

    /// The disk works again: so must the engine, soon and without being reopened.
    fn recover(&mut self) -> Result<(), String> {
        const PATIENCE: Duration = Duration::from_secs(5);
        let marker = Operation::Write(Write {
            place: Place::Main,
            key: Key("marker".to_owned(), 0),
            action: operation::Action::Put(larder_model::Item::new()),
            condition: None,
        });
        let begun = Instant::now();
        loop {
            // Until a write has succeeded, what can be read may be in memory only.
            let trouble = if self.step(&marker)? {
                match observe(&self.engine) {
                    Ok(observed) => return self.oracle.see(&observed),
                    Err(Trouble::Broken(what)) => return Err(what),
                    Err(Trouble::Disk(cause)) => cause,
                }
            } else {
                "it does not write".to_owned()
            };
            if begun.elapsed() > PATIENCE {
                return Err(format!("the disk works again and the engine does not: {trouble}"));
            }
            std::thread::yield_now();
        }
    }

    /// Finishes background work and compares all there is with the oracle.
    fn look(&mut self) -> Result<(), String> {
        let observed = look(&self.engine)?;
        self.oracle.see(&observed)
    }

    /// Checks the database found on a disk after a loss of power.
    fn check_found(&self, disk: FaultyDisk) -> Result<(), String> {
        let mut after = Run {
            plan: Plan { fault: Fault::None, ..self.plan },
            engine: open(&disk)?,
            disk,
            oracle: self.oracle.clone(),
            workload: self.workload.clone(),
            trace: Vec::new(),
            ..*self
        };
        after.second_life().map_err(|what| format!("{what}\n  {}", after.trace.join("\n  ")))
    }

    fn second_life(&mut self) -> Result<(), String> {
        const STEPS: usize = 6;
        // Half the runs go on while the work that was cut off is still to be done.
        if self.plan.seed.is_multiple_of(2) {
            self.look()?;
        } else {
            let observed = observe(&self.engine).map_err(trouble)?;
            self.oracle.see(&observed)?;
        }
        for again in self.workload.tokens().to_vec() {
            self.step(&Operation::Transact(again))?;
        }
        self.steps(STEPS)?;
        self.look()?;
        let disk = self.disk.crash(self.plan.seed);
        self.engine = open(&disk)?;
        self.disk = disk;
        self.look()
    }
}

/// The power goes again while the database is being opened, or does the work that was left.
fn recover_and_crash(disk: &FaultyDisk, random: &mut Random) -> FaultyDisk {
    disk.fail(DiskOperation::Change, random.below(40), Lasting::Forever);
    if let Ok(engine) = open(disk) {
        // It fails where the power goes.
        let _ = finish_work(&engine);
    }
    disk.crash(random.number())
}

fn look(engine: &Engine) -> Result<Observed, String> {
    finish_work(engine).and_then(|()| observe(engine)).map_err(trouble)
}

fn trouble(trouble: Trouble) -> String {
    match trouble {
        Trouble::Disk(cause) => format!("a good disk is said to fail: {cause}"),
        Trouble::Broken(what) => what,
    }
}
