//! Transactions: several records written together, all or none.
//!
//! What a step needs to know of the store is read when the transaction runs, and is part of its condition; when it
//! has changed meanwhile, the transaction is made again. An answer that was lost is asked for again
//! under the same token, so nothing is written twice.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use larder_expr::Condition;
use larder_model::Item;
use larder_model::item_bytes;
use larder_model::limits::{ITEM_BYTES_MAX, TRANSACTION_ITEMS_MAX};
use larder_schema::Fields;

use crate::entity::{Core, and};
use crate::record::{Changes, Refused};
use crate::shelf::{self, Draft, Given, Record, Shelf};
use crate::store::Cancellation;
use crate::write::{self, Action, Outcome, Over, Planned};
use crate::{Error, Obstacle, System, Update, batch, store};

/// How often a transaction is tried when others are in its way.
const ATTEMPTS_MAX: u32 = 8;

impl System {
    /// A transaction without steps.
    ///
    /// ```
    /// # use larder::{Error, Fields, Schema, Store, System};
    /// # use larder_schema::{Environment, NoFiles};
    /// # let text = "system bank\ntable accounts {\n  key id\n  entity Account {\n    id: string nonempty\n    balance: int in 0..\n  }\n}";
    /// # let schema = Schema::load("s.larder", text, &mut NoFiles, &Environment::new()).schema.unwrap();
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// # let system = System::open(schema, Store::memory().await).await?;
    /// let accounts = system.entries("Account").expect("it is declared");
    /// let id = |id: &str| Fields::from([("id".to_owned(), id.into())]);
    /// let account = |name: &str, balance: i64| {
    ///     Fields::from([("id".to_owned(), name.into()), ("balance".to_owned(), balance.into())])
    /// };
    /// system.transaction().create(&accounts, account("a", 5)).create(&accounts, account("b", 0)).run().await?;
    ///
    /// let pay = |amount: i64| {
    ///     let transaction = system.transaction().update(accounts.update(id("a")).add("balance", -amount));
    ///     transaction.update(accounts.update(id("b")).add("balance", amount)).run()
    /// };
    /// pay(5).await?;
    /// assert!(matches!(pay(1).await, Err(Error::Cancelled(obstacles)) if obstacles[0].key == "a"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn transaction(&self) -> Transaction {
        Transaction { steps: Vec::new(), token: None }
    }
}

/// Up to 100 steps that happen together. No two of them are about one record.
///
/// ```
/// # larder::schema!("examples/library.larder");
/// # use library::{Library, NewBook, NewLoan, NewLoanRequired};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let library = Library::open(larder::Store::memory().await).await?;
/// let (books, loans) = (library.books(), library.loans());
/// books.create(NewBook::new("1")).await?;
/// let loan = NewLoan::new(NewLoanRequired { isbn: "1".to_owned(), reader: "Ada".to_owned() }).number(1);
/// let lend = || library.transaction().update(books.update("1").add_copies(-1)).create(&loans, loan.clone());
/// lend().run().await?;
/// assert!(lend().run().await.is_err(), "there are no copies left");
/// assert_eq!(loans.within("1").count().await?, 1);
/// # Ok(())
/// # }
/// ```
#[must_use = "a transaction happens when it is run"]
pub struct Transaction {
    steps: Vec<PlannedStep>,
    token: Option<String>,
}

struct PlannedStep {
    core: Arc<Core>,
    work: Result<Work, Error>,
}

enum Work {
    Create(Fields),
    Put {
        fields: Fields,
        version: Option<i64>,
    },
    Update {
        key: Item,
        changes: Box<Changes>,
    },
    Delete(Item),
    Check {
        key: Item,
        there: bool,
    },
    /// An item that a source gave.
    Loaded {
        item: Item,
        over: Over,
    },
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction").field("steps", &self.steps.len()).finish_non_exhaustive()
    }
}

impl Transaction {
    /// Writes a record that is not there yet. A `sequence` has to be given.
    pub fn create<R: Record>(self, shelf: &Shelf<R>, draft: impl Draft<R>) -> Self {
        self.step(&shelf.core, shelf::drawn(&shelf.core, draft).map(|(fields, _)| Work::Create(fields)))
    }

    /// Writes a record, there or not.
    pub fn put<R: Record>(self, shelf: &Shelf<R>, draft: impl Draft<R>) -> Self {
        let drawn = shelf::drawn(&shelf.core, draft);
        self.step(&shelf.core, drawn.map(|(fields, version)| Work::Put { fields, version }))
    }

    /// Makes an update.
    pub fn update<R: Record>(self, update: impl Into<Update<R>>) -> Self {
        let (core, key, changes) = update.into().into_parts();
        self.step(&core, key.map(|key| Work::Update { key, changes: Box::new(changes) }))
    }

    /// Removes a record, there or not.
    pub fn delete<R: Record>(self, shelf: &Shelf<R>, key: impl Into<R::Key>) -> Self {
        let key = shelf.core.key(&key.into().into_fields());
        self.step(&shelf.core, key.map(Work::Delete))
    }

    /// Only if there is such a record.
    ///
    /// ```
    /// # larder::schema!("examples/library.larder");
    /// # use library::{Library, NewLoan, NewLoanRequired};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let library = Library::open(larder::Store::memory().await).await?;
    /// let (books, loans) = (library.books(), library.loans());
    /// let loan = NewLoan::new(NewLoanRequired { isbn: "1".to_owned(), reader: "Ada".to_owned() }).number(1);
    /// let lend = library.transaction().check(&books, "1").create(&loans, loan);
    /// assert!(matches!(lend.run().await, Err(larder::Error::Cancelled(_))), "there is no such book");
    /// # Ok(())
    /// # }
    /// ```
    pub fn check<R: Record>(self, shelf: &Shelf<R>, key: impl Into<R::Key>) -> Self {
        let key = shelf.core.key(&key.into().into_fields());
        self.step(&shelf.core, key.map(|key| Work::Check { key, there: true }))
    }

    /// Only if there is no such record.
    ///
    /// ```
    /// # larder::schema!("examples/library.larder");
    /// # use library::{Library, NewBook};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let library = Library::open(larder::Store::memory().await).await?;
    /// let (books, loans) = (library.books(), library.loans());
    /// books.create(NewBook::new("1")).await?;
    /// library.transaction().delete(&books, "1").check_absent(&loans, ("1", 1)).run().await?;
    /// assert!(books.get("1").await?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn check_absent<R: Record>(self, shelf: &Shelf<R>, key: impl Into<R::Key>) -> Self {
        let key = shelf.core.key(&key.into().into_fields());
        self.step(&shelf.core, key.map(|key| Work::Check { key, there: false }))
    }

    /// Makes a second run of the same transaction within ten minutes do nothing. It has to be the same to the
    /// letter: one that writes something else under the same token is refused.
    ///
    /// ```
    /// # larder::schema!("examples/library.larder");
    /// # use library::{Library, NewBook};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let library = Library::open(larder::Store::memory().await).await?;
    /// let books = library.books();
    /// books.create(NewBook::new("1")).await?;
    /// for _ in 0..2 {
    ///     let buy = library.transaction().update(books.update("1").add_copies(1));
    ///     buy.token("order 7").run().await?;
    /// }
    /// assert_eq!(books.get("1").await?.expect("it was made").copies, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    fn step(mut self, core: &Arc<Core>, work: Result<Work, Error>) -> Self {
        self.steps.push(PlannedStep { core: Arc::clone(core), work });
        self
    }

    pub(crate) fn put_fields(self, core: &Arc<Core>, fields: Fields) -> Self {
        self.step(core, Ok(Work::Put { fields, version: None }))
    }

    pub(crate) fn put_loaded(self, core: &Arc<Core>, item: Item, over: Over) -> Self {
        self.step(core, Ok(Work::Loaded { item, over }))
    }

    /// Makes all steps, or none and says what was in the way.
    pub async fn run(self) -> Result<(), Error> {
        // Only what a source gave is overtaken.
        self.attempts().await.map(|_| ())
    }

    pub(crate) async fn attempts(self) -> Result<Outcome, Error> {
        let Some(first) = self.steps.first() else { return Ok(Outcome::Made) };
        if self.steps.len() > TRANSACTION_ITEMS_MAX {
            return Err(Error::NotAllowed(format!(
                "a transaction has at most {TRANSACTION_ITEMS_MAX} steps, and this one has {}",
                self.steps.len()
            )));
        }
        let place = first.core.store.identity();
        if self.steps.iter().any(|step| step.core.store.identity() != place) {
            return Err(Error::NotAllowed("a transaction cannot span regions".to_owned()));
        }
        for step in &self.steps {
            if let Some(key) = step.key() {
                step.core.flush_pending(&key).await?;
            }
        }
        for attempt in 1.. {
            let planned = self.plan().await?;
            let token = self.token.clone().unwrap_or_else(|| format!("{:032x}", fastrand::u128(..)));
            let steps = self.steps.iter().zip(&planned);
            let plans: Vec<_> = steps.map(|(step, write)| (&*step.core, write.planned.clone())).collect();
            let Err(error) = write::together(&plans, token).await? else { return Ok(Outcome::Made) };
            let store::Error::Cancelled { reasons } = error else { return Err(error.into()) };
            for ((step, write), reason) in self.steps.iter().zip(&planned).zip(&reasons) {
                if write.is_overtaken(&step.core, reason).await? {
                    return Ok(Outcome::Overtaken);
                }
            }
            let passing = |(write, reason): (&Write, &Cancellation)| {
                reason.is_transient() || (write.raced && reason.code == "ConditionalCheckFailed")
            };
            if attempt == ATTEMPTS_MAX || !planned.iter().zip(&reasons).all(passing) {
                return Err(self.obstacles(&planned, reasons));
            }
            batch::pause(attempt).await;
        }
        Ok(Outcome::Made)
    }

    async fn plan(&self) -> Result<Vec<Write>, Error> {
        let mut planned = Vec::with_capacity(self.steps.len());
        let mut keys = HashSet::new();
        for step in &self.steps {
            let write = step.plan().await?;
            if !keys.insert((step.core.table_name.clone(), item_bytes::encode(&write.planned.key))) {
                return Err(Error::NotAllowed(format!(
                    "a transaction has one step for a record, and two for {} {}",
                    step.core.name(),
                    step.core.key_text(&write.planned.key)
                )));
            }
            planned.push(write);
        }
        Ok(planned)
    }

    fn obstacles(&self, planned: &[Write], reasons: Vec<Cancellation>) -> Error {
        let obstacles = self.steps.iter().zip(planned).zip(reasons).enumerate();
        let obstacles = obstacles.filter(|(_, (_, reason))| reason.code != "None");
        let obstacles = obstacles.map(|(at, ((step, write), reason))| Obstacle {
            step: at,
            entity: step.core.name().to_owned(),
            key: step.core.key_text(&write.planned.key),
            cause: match (&*reason.code, &step.work) {
                ("ConditionalCheckFailed", Ok(Work::Create(_) | Work::Check { there: false, .. })) => {
                    "it exists already".to_owned()
                }
                ("ConditionalCheckFailed", Ok(Work::Check { there: true, .. })) => "there is none".to_owned(),
                ("ConditionalCheckFailed", _) if reason.item.is_none() && !write.raced => {
                    "it does not exist, or a check refuses the change".to_owned()
                }
                ("ConditionalCheckFailed", _) => "it does not allow the change any more".to_owned(),
                ("TransactionConflict", _) => "somebody else is writing it".to_owned(),
                (code, _) => reason.message.unwrap_or_else(|| code.to_owned()),
            },
        });
        Error::Cancelled(obstacles.collect())
    }
}

/// A step as it is sent.
struct Write {
    planned: Planned,
    /// Its condition rests on what was read, so it may hold when that is read again.
    raced: bool,
    /// What holds until somebody writes over what a source was asked for.
    still: Option<Condition>,
}

impl Write {
    fn plain(key: &Item, action: Action, condition: Option<Condition>) -> Self {
        Self { planned: Planned { key: key.clone(), action, condition }, raced: false, still: None }
    }

    /// Whether it was refused because of something newer.
    async fn is_overtaken(&self, core: &Core, reason: &Cancellation) -> Result<bool, Error> {
        let (Some(still), "ConditionalCheckFailed") = (&self.still, &*reason.code) else { return Ok(false) };
        let found = match &reason.item {
            Some(item) => Some(item.clone()),
            // Not every store tells what is there instead.
            None => core.head(&self.planned.key, true).await?,
        };
        Ok(still.holds(found.as_ref()) != Ok(true))
    }
}

impl PlannedStep {
    /// The record it is about, as far as that can be told before it is checked.
    fn key(&self) -> Option<Item> {
        match self.work.as_ref().ok()? {
            Work::Create(fields) | Work::Put { fields, .. } => self.core.key(fields).ok(),
            Work::Update { key, .. } | Work::Delete(key) | Work::Check { key, .. } => Some(key.clone()),
            Work::Loaded { item, .. } => Some(self.core.key_of(item)),
        }
    }

    async fn plan(&self) -> Result<Write, Error> {
        let core = &self.core;
        let now = core.unix_now();
        let missing = |key: &Item| core.missing(key);
        Ok(match self.work.as_ref().map_err(Clone::clone)? {
            Work::Create(fields) => {
                let item = core.item(core.checked(fields.clone())?, core.now(), true)?;
                Write { raced: false, ..self.put(item, Some(core.is_not_there(now)))? }
            }
            Work::Put { fields, version } => {
                let (item, condition) = core.planned_put(fields.clone(), *version).await?;
                self.put(item, condition)?
            }
            Work::Loaded { item, over } => {
                let still = over.condition(core, now);
                let (item, same) = match core.keeps() {
                    true => core.planned_over(item.clone()).await.map(|(item, same)| (item, Some(same)))?,
                    false => (item.clone(), None),
                };
                let condition = same.into_iter().chain(still.clone()).reduce(and);
                Write { still, ..self.put(item, condition)? }
            }
            Work::Update { key, changes } => {
                let planned = core.planned_change(key, changes).await.map_err(|refused| match refused {
                    Refused::Missing => missing(key),
                    Refused::Condition(_) => core.conflict(key, "it has a newer version"),
                    Refused::Failed(error) => error,
                });
                let (planned, raced) = planned?;
                Write { planned, raced, still: None }
            }
            Work::Delete(key) => Write::plain(key, Action::Delete, None),
            Work::Check { key, there } => {
                let condition = if *there { core.is_there(now) } else { core.is_not_there(now) };
                Write::plain(key, Action::Check, Some(condition))
            }
        })
    }

    fn put(&self, item: Item, condition: Option<Condition>) -> Result<Write, Error> {
        let (core, bytes, raced) = (&self.core, item.size(), condition.is_some());
        let planned = core.put_of(item, condition)?;
        if let Action::Delete = planned.action {
            return Err(Error::TooLarge {
                entity: core.name().to_owned(),
                key: core.key_text(&planned.key),
                bytes,
                limit: ITEM_BYTES_MAX,
                hint: "a transaction cannot leave it out",
            });
        }
        Ok(Write { planned, raced, still: None })
    }
}

impl Core {
    /// The item of a put, and the condition that what it keeps of the old one has not changed.
    async fn planned_put(
        &self,
        fields: Fields,
        version: Option<i64>,
    ) -> Result<(Item, Option<Condition>), Error> {
        let fields = self.checked(fields)?;
        if !self.keeps() {
            return Ok((self.item(fields, self.now(), true)?, None));
        }
        let (key, now) = (self.key(&fields)?, self.unix_now());
        Ok(match self.load(&key, true).await? {
            Some(old) if version.is_some() && self.version(&old) != version => {
                return Err(self.conflict(&key, "it has a newer version"));
            }
            Some(old) => {
                let (item, condition) = self.merged(fields, &old)?;
                (item, Some(and(self.is_there(now), condition)))
            }
            None if version.is_some() => return Err(self.conflict(&key, "it is gone")),
            None => (self.item(fields, self.now(), true)?, Some(self.is_not_there(now))),
        })
    }
}
