//! Plan and apply: what the schema says against what is deployed.
//!
//! [`plan`] looks and changes nothing. [`apply`] takes the steps of a plan that was shown, and no others.
//!
//! Surprising rules:
//! - A table is known as ours by its tags. What another system, environment or version deployed is not ours to
//!   remove, and where the store has no tags nothing is.
//! - Tags that the schema does not name are left alone.
//!
//! Promises:
//! - Each step is one request that a store does whole or not at all, and the table is looked at again before
//!   the next: cut off anywhere and run again, the end is the same.
//! - Nothing is destroyed without its name among the [`Permissions`]; what is to be retained, not even then.
//! - What the store cannot do is in the plan, and is no failure.
//!
//! ```
//! use larder::provision::{self, Desired, Permissions, Silent};
//! use larder::{Environment, Store};
//!
//! larder::schema!("examples/library.larder");
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let desired = [Desired::of(library::schema(), &Environment::new()).expect("there are no params")];
//! let store = Store::memory().await;
//! let plan = provision::plan(&desired, &store).await?;
//! println!("{plan}");
//! provision::apply(&plan, &store, &Permissions::default(), &mut Silent).await?;
//! assert!(provision::plan(&desired, &store).await?.is_settled());
//! # Ok(())
//! # }
//! ```

mod compare;
mod show;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use larder_model::{TableDefinition, TableName, Tags};
use larder_schema::setup::{SYSTEM_TAG, TABLE_TAG};
use larder_schema::{Environment, EnvironmentError, Schema, TableSetup};

use crate::store::{Busy, Deployed, Error, Feature, Store, TableChange};

/// How often a step is tried again because the store was busy.
const BUSY_TRIES_MAX: u32 = 200;

/// What one schema asks for in one environment.
///
/// ```
/// # larder::schema!("examples/library.larder");
/// use larder::Environment;
/// use larder::provision::Desired;
///
/// let desired = Desired::of(library::schema(), &Environment::new()).expect("there are no params");
/// assert_eq!((desired.system.as_str(), desired.setups.len()), ("library", 1));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Desired {
    /// The name of the schema's system.
    pub system: String,
    /// Its tables.
    pub setups: Vec<TableSetup>,
}

impl Desired {
    /// What the schema asks for. Everything that is wrong with the environment is told.
    pub fn of(schema: &Schema, environment: &Environment) -> Result<Self, Vec<EnvironmentError>> {
        Ok(Self { system: schema.system.clone(), setups: schema.tables(environment)? })
    }
}

/// What would be done, and what would not.
///
/// ```
/// # larder::schema!("examples/library.larder");
/// use larder::provision::plan;
/// # use larder::provision::Desired;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let desired = [Desired::of(library::schema(), &larder::Environment::new()).expect("there are no params")];
/// # let store = larder::Store::memory().await;
/// let plan = plan(&desired, &store).await?;
/// assert_eq!((plan.is_settled(), plan.tables.len()), (false, 1));
/// assert_eq!(plan.summary(), "Tables: 1 to create.");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Where, as a person would say it.
    pub place: String,
    /// What becomes of each table.
    pub tables: Vec<TablePlan>,
    /// Tables of the store that are none of ours.
    pub others: usize,
    desired: Vec<Desired>,
}

/// What becomes of one table.
///
/// ```
/// # larder::schema!("examples/library.larder");
/// use larder::provision::{Verdict, plan};
/// # use larder::provision::Desired;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let desired = [Desired::of(library::schema(), &larder::Environment::new()).expect("there are no params")];
/// # let store = larder::Store::memory().await;
/// let plan = plan(&desired, &store).await?;
/// assert_eq!((plan.tables[0].name.as_str(), plan.tables[0].verdict), ("library", Verdict::Create));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct TablePlan {
    /// Its name.
    pub name: TableName,
    /// Where it is, when that is not where the store is.
    pub region: Option<String>,
    /// What becomes of it.
    pub verdict: Verdict,
    /// What is going on with it. [`apply`] waits for its end even when there is nothing else to do.
    pub busy: Option<Busy>,
    /// What is, and what will be.
    pub lines: Vec<Line>,
}

/// What becomes of a table.
///
/// ```
/// assert_eq!(larder::provision::Verdict::CannotChange.name(), "cannot_change");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is not there, and is made.
    Create,
    /// It is there, and something about it changes.
    Change,
    /// It is as it should be.
    Unchanged,
    /// It has another key: only a new version of the table can have this one.
    CannotChange,
    /// The schema no longer names it.
    Destroy,
    /// The schema no longer names it, and it stays.
    Retain,
}

/// One difference between what is and what should be.
///
/// ```
/// # larder::schema!("examples/library.larder");
/// use larder::provision::{Mark, plan};
/// # use larder::provision::Desired;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let desired = [Desired::of(library::schema(), &larder::Environment::new()).expect("there are no params")];
/// # let store = larder::Store::memory().await;
/// let plan = plan(&desired, &store).await?;
/// for (table, line) in plan.lines(Mark::Create) {
///     println!("{} {} of {}", line.mark.sign(), line.what, table.name);
/// }
/// assert!(plan.tables[0].lines.iter().all(|line| line.word.is_none()), "nothing would be destroyed");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// What kind of change it is.
    pub mark: Mark,
    /// Such as `ttl` or `index by_month`.
    pub what: String,
    /// As it is; `None` when there is nothing.
    pub from: Option<String>,
    /// As it will be; `None` when it goes.
    pub to: Option<String>,
    /// What has to be known of it.
    pub note: Option<String>,
    /// What has to be permitted, by this name, before the steps are taken.
    pub word: Option<String>,
    /// What brings it about, in order.
    pub steps: Vec<Step>,
}

/// What kind of difference it is.
///
/// ```
/// use larder::provision::Mark;
///
/// assert_eq!((Mark::Create.sign(), Mark::Create.name()), ('+', "create"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Something is added.
    Create,
    /// Something becomes something else.
    Change,
    /// Something is removed, and what it holds with it.
    Destroy,
    /// It would have to change, and no table can change it.
    CannotChange,
    /// The store lacks it.
    NotPossible,
    /// It is there, nobody asked for it, and it stays.
    Kept,
}

/// One request to the store.
///
/// ```
/// # larder::schema!("examples/library.larder");
/// use larder::provision::{Permissions, plan};
/// # use larder::provision::Desired;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let desired = [Desired::of(library::schema(), &larder::Environment::new()).expect("there are no params")];
/// # let store = larder::Store::memory().await;
/// let plan = plan(&desired, &store).await?;
/// let steps = plan.steps(&Permissions::default());
/// assert_eq!(steps[0].1.to_string(), "create the table");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Makes the table.
    CreateTable(Box<TableDefinition>),
    /// Changes one thing about it.
    Change(TableChange),
    /// Removes it, with all that is in it.
    DeleteTable,
}

impl Step {
    /// Steps are taken in this order, over all tables. Protection comes last, so that a table that was just
    /// made wrongly can still be removed.
    fn phase(&self) -> u8 {
        match self {
            Self::CreateTable(_) => 0,
            Self::Change(change) => match change {
                TableChange::Billing { .. } | TableChange::Class(_) | TableChange::Stream(_) => 1,
                TableChange::DeleteIndex(_) | TableChange::CreateIndex(_) => 2,
                TableChange::TimeToLive { .. } => 3,
                TableChange::PointInTimeRecovery { .. } => 4,
                TableChange::Tag(_) => 5,
                TableChange::Encryption(_) => 6,
                TableChange::DeletionProtection(_) => 7,
            },
            Self::DeleteTable => 8,
        }
    }
}

impl Step {
    /// Whether something is gone or off afterwards that was there or on.
    fn takes_away(&self) -> bool {
        match self {
            Self::CreateTable(_) => false,
            Self::DeleteTable => true,
            Self::Change(change) => match change {
                TableChange::Stream(None)
                | TableChange::Encryption(None)
                | TableChange::DeletionProtection(false)
                | TableChange::TimeToLive { enabled: false, .. }
                | TableChange::PointInTimeRecovery { days: None }
                | TableChange::DeleteIndex(_) => true,
                TableChange::Stream(Some(_))
                | TableChange::Encryption(Some(_))
                | TableChange::DeletionProtection(true)
                | TableChange::TimeToLive { enabled: true, .. }
                | TableChange::PointInTimeRecovery { days: Some(_) }
                | TableChange::CreateIndex(_)
                | TableChange::Billing { .. }
                | TableChange::Class(_)
                | TableChange::Tag(_) => false,
            },
        }
    }
}

impl Plan {
    /// The same plan without what takes something away: for programs that open their tables, beside others who may have
    /// switched on what this schema does not speak of.
    pub(crate) fn only_adding(mut self) -> Self {
        for table in &mut self.tables {
            table.lines.retain(|line| !line.steps.iter().any(Step::takes_away));
        }
        self
    }

    /// Nothing differs that the store could change.
    pub fn is_settled(&self) -> bool {
        self.tables.iter().flat_map(|table| &table.lines).all(|line| match line.mark {
            Mark::NotPossible | Mark::Kept => true,
            Mark::Create | Mark::Change | Mark::Destroy | Mark::CannotChange => false,
        })
    }

    /// The store is still changing something.
    pub fn is_busy(&self) -> bool {
        self.tables.iter().any(|table| table.busy.is_some())
    }

    /// The differences of one kind, each with its table.
    pub fn lines(&self, mark: Mark) -> impl Iterator<Item = (&TablePlan, &Line)> {
        let lines = self.tables.iter().flat_map(|table| table.lines.iter().map(move |line| (table, line)));
        lines.filter(move |(_, line)| line.mark == mark)
    }

    /// The words that would permit something.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        self.tables.iter().flat_map(|table| &table.lines).filter_map(|line| line.word.as_deref())
    }

    /// The steps that may be taken, in order. Nothing is done to a table that cannot become what it should.
    pub fn steps(&self, permissions: &Permissions) -> Vec<(&TablePlan, &Step)> {
        let tables = self.tables.iter().filter(|table| table.verdict != Verdict::CannotChange);
        let lines = tables.flat_map(|table| table.lines.iter().map(move |line| (table, line)));
        let mut steps: Vec<(&TablePlan, &Step)> = lines
            .filter(|(_, line)| line.word.as_ref().is_none_or(|word| permissions.allows(word)))
            .flat_map(|(table, line)| line.steps.iter().map(move |step| (table, step)))
            .collect();
        steps.sort_by_key(|(_, step)| step.phase());
        steps
    }
}

/// What may be destroyed: a table by its name, a part of a table by `TABLE/PART`.
///
/// ```
/// use larder::provision::Permissions;
///
/// let permissions = Permissions(["library/by_author".to_owned()].into());
/// assert!(permissions.allows("library/by_author") && !permissions.allows("library"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Permissions(pub BTreeSet<String>);

impl Permissions {
    /// Whether this may be destroyed.
    pub fn allows(&self, word: &str) -> bool {
        self.0.contains(word)
    }
}

/// Looks at the store and says what would be done. Changes nothing.
///
/// ```
/// # larder::schema!("examples/library.larder");
/// use larder::provision::plan;
/// # use larder::provision::Desired;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let desired = [Desired::of(library::schema(), &larder::Environment::new()).expect("there are no params")];
/// # let store = larder::Store::memory().await;
/// println!("{}", plan(&desired, &store).await?);
/// assert!(store.list_tables().await?.is_empty());
/// # Ok(())
/// # }
/// ```
pub async fn plan(desired: &[Desired], store: &Store) -> Result<Plan, Error> {
    let mut tables = Vec::new();
    for system in desired {
        for setup in &system.setups {
            let region = region(setup, store);
            let plan = plan_table(setup, &store.at(region.as_deref())).await?;
            tables.push(TablePlan { region, ..plan });
        }
    }
    let mut others = 0;
    for region in regions(desired, store) {
        let store = store.at(region.as_deref());
        for name in store.list_tables().await? {
            if tables.iter().any(|table| table.name == name && table.region == region) {
                continue;
            }
            let tags = match store.lacks().await?.contains_key(&Feature::Tags) {
                true => Tags::new(),
                false => store.tags(&name).await?,
            };
            match is_left_over(desired, &tags) {
                true => {
                    let Some(deployed) = store.describe(&name).await? else { continue };
                    tables.extend(compare::left_over(&deployed, region.clone()));
                }
                false => others += 1,
            }
        }
    }
    Ok(Plan { place: store.place(), tables, others, desired: desired.to_vec() })
}

async fn plan_table(setup: &TableSetup, store: &Store) -> Result<TablePlan, Error> {
    let deployed = store.describe(&setup.definition.name).await?;
    Ok(compare::table(setup, deployed.as_ref(), store.lacks().await?))
}

/// Where a table is, on a store that has regions.
fn region(setup: &TableSetup, store: &Store) -> Option<String> {
    setup.region.clone().filter(|region| store.in_region(region).is_some())
}

/// Where the tables are; the store's own region always.
fn regions(desired: &[Desired], store: &Store) -> BTreeSet<Option<String>> {
    let setups = desired.iter().flat_map(|system| &system.setups);
    setups.map(|setup| region(setup, store)).chain([None]).collect()
}

/// A table of one of these systems that its schema no longer has. The same table under another name belongs to
/// another environment or version.
fn is_left_over(desired: &[Desired], tags: &Tags) -> bool {
    let (Some(system), Some(table)) = (tags.get(SYSTEM_TAG), tags.get(TABLE_TAG)) else { return false };
    let system = desired.iter().find(|desired| desired.system == *system);
    system.is_some_and(|system| system.setups.iter().all(|setup| setup.table != *table))
}

/// What happens while a plan is applied.
/// See [`Watch`] for how they are taken.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the fields are what a variant says happened, and to which table")]
pub enum Event<'a> {
    /// A step begins, this of so many.
    Started { at: usize, of: usize, table: &'a TableName, step: &'a Step },
    /// A table is waited for.
    Waiting { table: &'a TableName, busy: &'a Busy },
    /// A step was made.
    Done { table: &'a TableName, step: &'a Step },
    /// A step was left out, because the store cannot do it.
    Ignored { table: &'a TableName, step: &'a Step, why: &'a str },
}

/// Sees what happens, and may stop it between two steps.
///
/// ```
/// # larder::schema!("examples/library.larder");
/// use larder::provision::{Event, Permissions, Watch, apply, plan};
/// # use larder::provision::Desired;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let desired = [Desired::of(library::schema(), &larder::Environment::new()).expect("there are no params")];
/// # let store = larder::Store::memory().await;
/// #[derive(Default)]
/// struct Log(Vec<String>);
///
/// impl Watch for Log {
///     fn event(&mut self, event: Event<'_>) {
///         if let Event::Done { table, step } = event {
///             self.0.push(format!("{table}: {step}"));
///         }
///     }
/// }
///
/// let mut log = Log::default();
/// let plan = plan(&desired, &store).await?;
/// apply(&plan, &store, &Permissions::default(), &mut log).await?;
/// assert_eq!(log.0[0], "library: create the table");
/// # Ok(())
/// # }
/// ```
pub trait Watch: Send {
    /// Told before and after each step, and while a table is waited for.
    fn event(&mut self, event: Event<'_>);

    /// Whether to leave it at the last step.
    fn stop(&self) -> bool {
        false
    }
}

/// Looks away.
///
/// ```
/// # larder::schema!("examples/library.larder");
/// use larder::provision::{Permissions, Silent, apply, plan};
/// # use larder::provision::Desired;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let desired = [Desired::of(library::schema(), &larder::Environment::new()).expect("there are no params")];
/// # let store = larder::Store::memory().await;
/// let plan = plan(&desired, &store).await?;
/// apply(&plan, &store, &Permissions::default(), &mut Silent).await?;
/// assert!(!store.list_tables().await?.is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Silent;

impl Watch for Silent {
    fn event(&mut self, _event: Event<'_>) {}
}

/// What came of a plan.
///
/// ```
/// # larder::schema!("examples/library.larder");
/// use larder::provision::{Permissions, Silent, apply, plan};
/// # use larder::provision::Desired;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let desired = [Desired::of(library::schema(), &larder::Environment::new()).expect("there are no params")];
/// # let store = larder::Store::memory().await;
/// let plan = plan(&desired, &store).await?;
/// let applied = apply(&plan, &store, &Permissions::default(), &mut Silent).await?;
/// assert_eq!(applied.done[0].1.to_string(), "create the table");
/// assert!(applied.ignored.is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Applied {
    /// The steps that were made, in order.
    pub done: Vec<(TableName, Step)>,
    /// Steps that the store took without effect, or did not know, and why.
    pub ignored: Vec<(TableName, Step, String)>,
    /// What is left, seen after the last step.
    pub after: Plan,
    /// It was told to stop.
    pub stopped: bool,
}

/// Takes the permitted steps of a plan, and waits until all tables are ready.
///
/// Dropped half-way it leaves the store as the last request left it. What differs by now from what the plan
/// showed is left to the next plan.
///
/// ```
/// # larder::schema!("examples/library.larder");
/// use larder::provision::{Permissions, Silent, apply, plan};
/// # use larder::provision::Desired;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let desired = [Desired::of(library::schema(), &larder::Environment::new()).expect("there are no params")];
/// # let store = larder::Store::memory().await;
/// let plan = plan(&desired, &store).await?;
/// let applied = apply(&plan, &store, &Permissions::default(), &mut Silent).await?;
/// assert!(applied.after.is_settled() && !applied.stopped);
/// assert_eq!(store.list_tables().await?.len(), 1);
/// # Ok(())
/// # }
/// ```
pub async fn apply(
    plan: &Plan,
    store: &Store,
    permissions: &Permissions,
    watch: &mut dyn Watch,
) -> Result<Applied, Error> {
    let shown: Vec<(TableName, Step)> =
        plan.steps(permissions).into_iter().map(|(table, step)| (table.name.clone(), step.clone())).collect();
    let mut run = Run {
        store,
        permissions,
        watch,
        desired: plan.desired.as_slice(),
        current: self::plan(&plan.desired, store).await?,
        left: shown.clone(),
        of: shown.len(),
        applied: Applied { done: Vec::new(), ignored: Vec::new(), after: plan.clone(), stopped: false },
    };
    run.steps().await?;
    if !run.applied.stopped {
        run.wait_until_all_idle().await?;
    }
    let mut applied = run.applied;
    applied.after = self::plan(&plan.desired, store).await?;
    Ok(applied)
}

struct Run<'a> {
    store: &'a Store,
    permissions: &'a Permissions,
    watch: &'a mut dyn Watch,
    desired: &'a [Desired],
    current: Plan,
    /// Steps that were shown and not taken yet.
    left: Vec<(TableName, Step)>,
    of: usize,
    applied: Applied,
}

impl Run<'_> {
    async fn steps(&mut self) -> Result<(), Error> {
        let mut busy_tries = 0;
        while let Some((table, region, step)) = self.next() {
            let store = self.store.at(region.as_deref());
            if !self.wait_until_idle(&store, &table).await? || self.watch.stop() {
                self.applied.stopped = true;
                return Ok(());
            }
            let at = self.of - self.left.len() + 1;
            self.watch.event(Event::Started { at, of: self.of, table: &table, step: &step });
            let done = match &step {
                Step::CreateTable(definition) => store.create_table(definition).await,
                Step::Change(change) => store.change_table(&table, change).await,
                Step::DeleteTable => store.delete_table(&table).await,
            };
            match done {
                Ok(()) => {
                    // A table that is being created already shows all it will be; the others are made meanwhile.
                    if !matches!(step, Step::CreateTable(_)) && !self.wait_until_idle(&store, &table).await? {
                        self.applied.stopped = true;
                        return Ok(());
                    }
                    busy_tries = 0;
                    self.look(&store, &table).await?;
                    self.finish(table, step);
                }
                Err(Error::Unsupported(why)) => {
                    self.watch.event(Event::Ignored { table: &table, step: &step, why: &why });
                    self.forget(&table, &step);
                    self.applied.ignored.push((table, step, why));
                }
                Err(Error::Busy(_)) if busy_tries < BUSY_TRIES_MAX => {
                    busy_tries += 1;
                    store.pause(busy_tries).await?;
                    self.look(&store, &table).await?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The first step that is still to be taken and was shown.
    fn next(&self) -> Option<(TableName, Option<String>, Step)> {
        let steps = self.current.steps(self.permissions).into_iter();
        let mut shown = steps.filter(|(table, step)| {
            self.left.iter().any(|(name, left)| *name == table.name && left == *step)
        });
        shown.next().map(|(table, step)| (table.name.clone(), table.region.clone(), step.clone()))
    }

    /// Looks again at the one table that was touched.
    async fn look(&mut self, store: &Store, name: &TableName) -> Result<(), Error> {
        let mut setups = self.desired.iter().flat_map(|system| &system.setups);
        let wanted = setups.find(|setup| setup.definition.name == *name);
        let seen = match wanted {
            Some(setup) => Some(plan_table(setup, store).await?),
            None => match store.describe(name).await? {
                Some(deployed) => compare::left_over(&deployed, None),
                None => None,
            },
        };
        let Some(at) = self.current.tables.iter().position(|table| table.name == *name) else {
            return Ok(());
        };
        match seen {
            Some(seen) => {
                let region = self.current.tables[at].region.take();
                self.current.tables[at] = TablePlan { region, ..seen };
            }
            None => {
                self.current.tables.remove(at);
            }
        }
        Ok(())
    }

    fn finish(&mut self, table: TableName, step: Step) {
        self.forget(&table, &step);
        let still = self.current.steps(self.permissions).into_iter();
        let ignored = still.into_iter().any(|(at, left)| at.name == table && *left == step);
        if ignored {
            let why = "the store accepted it, but nothing changed".to_owned();
            self.watch.event(Event::Ignored { table: &table, step: &step, why: &why });
            self.applied.ignored.push((table, step, why));
        } else {
            self.watch.event(Event::Done { table: &table, step: &step });
            self.applied.done.push((table, step));
        }
    }

    fn forget(&mut self, table: &TableName, step: &Step) {
        self.left.retain(|(name, left)| name != table || left != step);
    }

    /// Waits until nothing is going on with the table. False when told to stop.
    async fn wait_until_idle(&mut self, store: &Store, table: &TableName) -> Result<bool, Error> {
        let mut asked = 0;
        loop {
            let Some(Deployed { busy: Some(busy), .. }) = store.describe(table).await? else {
                return Ok(true);
            };
            if self.watch.stop() {
                return Ok(false);
            }
            self.watch.event(Event::Waiting { table, busy: &busy });
            store.pause(asked).await?;
            asked += 1;
        }
    }

    async fn wait_until_all_idle(&mut self) -> Result<(), Error> {
        let tables: BTreeMap<TableName, Option<String>> =
            self.current.tables.iter().map(|table| (table.name.clone(), table.region.clone())).collect();
        for (table, region) in tables {
            if !self.wait_until_idle(&self.store.at(region.as_deref()), &table).await? {
                self.applied.stopped = true;
                return Ok(());
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Run<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("left", &self.left).finish_non_exhaustive()
    }
}
