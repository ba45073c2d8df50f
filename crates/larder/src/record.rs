//! Records: create, put, update, delete. What is written goes by `write.rs`.
//!
//! A put writes the whole record. Where something of the old item has to survive (a lifecycle's state, a field
//! `on create`, a version), the item is read first and written under the condition that this has not
//! changed; whoever loses that race tries again.
//!
//! Promises:
//! - Nothing that breaks a check is written, unless the schema says that it is recorded.
//! - What was written is not in L1 any more when the call returns.
//! - A record is created once, also when the answer of the store is lost. What is not kept: where two create records of equal content
//!   under one key at the same time, and the answer to one of them is lost, both may be told that theirs was created.

mod update;

use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::Arc;

use larder_expr::Condition;
use larder_model::{AttributeValue, Item, Path};
use larder_ops::{BatchGetEcho, BatchGetItem, BatchGetTable, GetItem, ReturnCapacity};
use larder_schema::schema::{Consistency, LeaseAttributes, Lifecycle, NumberRange, OnError};
use larder_schema::{Fields, Type, VERSION, Value};

use crate::entity::{Core, and};
use crate::shelf::{self, Draft, Given, Record, Shelf};
use crate::{Error, batch, lifecycle, oversize, store};

pub(crate) use crate::store::unchanged;
use crate::write::{RACES_MAX, back_off};

pub use update::Update;
pub(crate) use update::{Changes, Refused};

/// Keys asked for at once when a free number is looked for.
const PROBED_AT_ONCE: i64 = larder_schema::cost::SEQUENCE_PROBED_AT_ONCE as i64;

impl<R: Record> Shelf<R> {
    /// Writes a record that is not there yet. A `sequence` that is not given takes the first free number.
    ///
    /// ```
    /// # larder::schema!("examples/library.larder");
    /// # use library::{Library, NewBook};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let library = Library::open(larder::Store::memory().await).await?;
    /// let books = library.books();
    /// let book = books.create(NewBook::new("1")).await?;
    /// assert_eq!((book.title.as_str(), book.copies), ("Untitled", 1));
    /// assert!(matches!(books.create(NewBook::new("1")).await, Err(larder::Error::Exists { .. })));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn create(&self, draft: impl Draft<R>) -> Result<R, Error> {
        let (fields, _) = shelf::drawn(&self.core, draft)?;
        let item = self.core.create(fields).await?;
        shelf::read(&self.core, &item, self.core.unix_now())
    }

    /// Writes a record, there or not, and says whether that changed anything.
    ///
    /// A record that was read does not overwrite a newer version, where the schema says `versions on`. Where it says
    /// `on_error open`, a store that fails is logged, and told by [`Put::store_error`]; it is not an error.
    ///
    /// ```
    /// # larder::schema!("examples/library.larder");
    /// # use library::{Library, NewBook};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let library = Library::open(larder::Store::memory().await).await?;
    /// let books = library.books();
    /// let mut mine = books.put(NewBook::new("1")).await?.into_record();
    /// let theirs = mine.clone();
    /// mine.place = Some("A3".to_owned());
    /// assert!(books.put(mine).await?.changed());
    /// assert!(matches!(books.put(theirs).await, Err(larder::Error::Conflict { .. })));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn put(&self, draft: impl Draft<R>) -> Result<Put<R>, Error> {
        let core = &self.core;
        let (fields, version) = shelf::drawn(core, draft)?;
        let spare = (core.entity().policy.on_error == OnError::Open).then(|| fields.clone());
        let (item, changed, store_error) = match (core.put(fields, version).await, spare) {
            (Ok((item, changed)), _) => {
                let key = core.key_text(&core.key_of(&item));
                core.observer.saved(&key, core.expires(&item), core.unix_now());
                (item, changed, None)
            }
            (Err(error @ Error::Store(_)), Some(fields)) => {
                let item = core.item(core.checked(fields)?, core.now(), true)?;
                let key = core.key_text(&core.key_of(&item));
                core.observer.store_failed(&key, "put", &error, core.unix_now());
                (item, true, Some(error))
            }
            (Err(error), _) => return Err(error),
        };
        Ok(Put { record: shelf::read(core, &item, core.unix_now())?, changed, store_error })
    }

    /// Changes some fields of a record that is there.
    ///
    /// ```
    /// # larder::schema!("examples/library.larder");
    /// # use library::{Library, NewBook};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let library = Library::open(larder::Store::memory().await).await?;
    /// let books = library.books();
    /// books.create(NewBook::new("1")).await?;
    /// let book = books.update("1").title("Emma").add_copies(2).append_topics(vec!["love".to_owned()]).await?;
    /// assert_eq!((book.title.as_str(), book.copies), ("Emma", 3));
    /// assert!(matches!(books.update("2").title("Persuasion").await, Err(larder::Error::Missing { .. })));
    /// # Ok(())
    /// # }
    /// ```
    pub fn update(&self, key: impl Into<R::Key>) -> Update<R> {
        Update::new(Arc::clone(&self.core), self.core.key(&key.into().into_fields()))
    }

    /// Removes a record, and gives it back if it was there and can be read.
    ///
    /// ```
    /// # larder::schema!("examples/library.larder");
    /// # use library::{Library, NewBook};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let library = Library::open(larder::Store::memory().await).await?;
    /// let books = library.books();
    /// books.create(NewBook::new("1")).await?;
    /// assert_eq!(books.delete("1").await?.record().map(|book| book.isbn).as_deref(), Some("1"));
    /// assert!(books.delete("1").await?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn delete(&self, key: impl Into<R::Key>) -> Result<Deleted<R>, Error> {
        let old = self.core.delete(&self.core.key(&key.into().into_fields())?, None).await?;
        let now = self.core.unix_now();
        Ok(match old.filter(|item| !self.core.is_expired(item, now)) {
            None => Deleted::Nothing,
            Some(item) => {
                shelf::read(&self.core, &item, now).map_or_else(Deleted::Unreadable, Deleted::Record)
            }
        })
    }

    /// Removes an item that was read before, parts and all, if it is still the same, even one that has expired. It is given
    /// as the store has it; of a very wide one [`as_read`](store::as_read) looks at a part.
    ///
    /// ```
    /// # larder::schema!("examples/library.larder");
    /// # use library::{Library, NewBook};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use larder::store::ops::{GetItem, ReturnCapacity};
    /// # let library = Library::open(larder::Store::memory().await).await?;
    /// # library.books().create(NewBook::new("1")).await?;
    /// # let (table, key) = (larder_model::TableName::new("library")?, library.books().stored_key("1")?);
    /// # let request = GetItem { table, key, projection: None, consistent: true, capacity: ReturnCapacity::None };
    /// let read = library.store().get_item(request).await?.expect("it is there");
    /// library.books().update("1").title("Emma").await?;
    /// let late = library.books().delete_read(&read).await;
    /// assert!(matches!(late, Err(larder::Error::Conflict { .. })));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn delete_read(&self, read: &Item) -> Result<(), Error> {
        let key = self.core.key_of(read);
        match self.core.delete(&key, Some(store::as_read(read))).await {
            Err(Error::Store(store::Error::Condition { .. })) => {
                Err(self.core.conflict(&key, "it is no longer what was read"))
            }
            deleted => deleted.map(drop),
        }
    }

    /// The number that `create` would take, unless somebody else takes it first.
    ///
    /// ```
    /// # larder::schema!("examples/library.larder");
    /// # use library::{Library, NewLoan, NewLoanRequired};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let library = Library::open(larder::Store::memory().await).await?;
    /// let loans = library.loans();
    /// let loan = NewLoan::new(NewLoanRequired { isbn: "1".to_owned(), reader: "Ada".to_owned() });
    /// assert_eq!(loans.create(loan.clone()).await?.number, 1);
    /// assert_eq!(loans.next_sequence(loan).await?, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn next_sequence(&self, draft: impl Draft<R>) -> Result<i64, Error> {
        let fields = draft.into_fields();
        let (name, range) = self.core.sequence().ok_or_else(|| {
            Error::NotAllowed(format!("{} has no `sequence` to take a number from", self.core.name()))
        })?;
        self.core.first_free(&fields, &name, first(range.as_ref()), range.as_ref()).await
    }
}

/// What a delete removed.
///
/// ```
/// # larder::schema!("examples/library.larder");
/// # use larder::Deleted;
/// # use library::{Library, NewBook};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let library = Library::open(larder::Store::memory().await).await?;
/// library.books().create(NewBook::new("1")).await?;
/// match library.books().delete("1").await? {
///     Deleted::Record(book) => assert_eq!(book.isbn, "1"),
///     Deleted::Unreadable(why) => eprintln!("it is gone, and was no book: {why}"),
///     Deleted::Nothing => eprintln!("there was none"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub enum Deleted<R> {
    /// There was none, or it had expired. Also where the answer to a first try was lost, and the SDK has tried again.
    Nothing,
    /// The record as it was.
    Record(R),
    /// What was there is gone, and could not be read.
    Unreadable(Error),
}

impl<R> Deleted<R> {
    /// The record, if there was one that can be read.
    pub fn record(self) -> Option<R> {
        match self {
            Self::Record(record) => Some(record),
            Self::Nothing | Self::Unreadable(_) => None,
        }
    }

    /// Whether there was nothing to remove.
    pub fn is_none(&self) -> bool {
        matches!(self, Self::Nothing)
    }
}

/// What a put wrote.
///
/// ```
/// # larder::schema!("examples/library.larder");
/// # use library::{Library, NewBook};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let library = Library::open(larder::Store::memory().await).await?;
/// let put = library.books().put(NewBook::new("1")).await?;
/// assert!(put.changed());
/// assert_eq!(put.title, "Untitled");
/// assert!(!library.books().put(put.into_record()).await?.changed());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Put<R> {
    record: R,
    changed: bool,
    store_error: Option<Error>,
}

impl<R> Put<R> {
    /// Whether the record differs from what was there. What is computed from `now` does not count.
    pub fn changed(&self) -> bool {
        self.changed
    }

    /// Why the record is not kept, or may not be: the store failed, where the schema says `on_error open`.
    pub fn store_error(&self) -> Option<&Error> {
        self.store_error.as_ref()
    }

    /// The record as it is kept now.
    pub fn into_record(self) -> R {
        self.record
    }
}

impl<R> Deref for Put<R> {
    type Target = R;

    fn deref(&self) -> &R {
        &self.record
    }
}

impl Core {
    /// The item of a key, whole, if it is there and not expired.
    pub(crate) async fn load(&self, key: &Item, consistent: bool) -> Result<Option<Item>, Error> {
        let now = self.unix_now();
        Ok(self.load_even_expired(key, consistent).await?.filter(|item| !self.is_expired(item, now)))
    }

    pub(crate) async fn load_even_expired(
        &self,
        key: &Item,
        consistent: bool,
    ) -> Result<Option<Item>, Error> {
        match self.head(key, consistent).await? {
            Some(head) => oversize::join(self, head).await,
            None => Ok(None),
        }
    }

    /// The item of a key as it is stored.
    pub(crate) async fn head(&self, key: &Item, consistent: bool) -> Result<Option<Item>, Error> {
        let request = GetItem {
            table: self.table_name.clone(),
            key: key.clone(),
            projection: None,
            consistent: consistent || self.entity().policy.reads == Consistency::Strong,
            capacity: ReturnCapacity::None,
        };
        Ok(self.store.get_item(request).await?)
    }

    pub(crate) async fn create(&self, fields: Fields) -> Result<Item, Error> {
        let fields = self.checked(fields)?;
        match self.sequence() {
            Some((name, range)) if !fields.contains_key(&name) => {
                self.create_next(fields, &name, range.as_ref()).await
            }
            _ => match self.create_exactly(fields.clone()).await? {
                Some(item) => Ok(item),
                None => Err(Error::Exists {
                    entity: self.name().to_owned(),
                    key: self.key_text(&self.key(&fields)?),
                }),
            },
        }
    }

    /// `None` when the key is taken.
    async fn create_exactly(&self, fields: Fields) -> Result<Option<Item>, Error> {
        let item = self.item(fields, self.now(), true)?;
        Ok(self.take_key(&item).await?.then_some(item))
    }

    /// Writes a record that is not there yet, or says that its key is taken. What a lost answer was about is known by its content:
    /// two who create the same record at once, one of whom hears nothing, may both take it for theirs.
    async fn take_key(&self, item: &Item) -> Result<bool, Error> {
        self.flush_pending(&self.key_of(item)).await?;
        let free = self.is_not_there(self.unix_now());
        match self.save(item.clone(), Some(free)).await {
            Ok(_) => Ok(true),
            Err(Error::Store(store::Error::Condition { .. })) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The field that takes the first free number, and its range.
    fn sequence(&self) -> Option<(String, Option<NumberRange>)> {
        let field = self.entity().fields.iter().find(|field| field.kind == Type::Sequence)?;
        Some((field.name.clone(), field.checks.range))
    }

    async fn create_next(
        &self,
        mut fields: Fields,
        name: &str,
        range: Option<&NumberRange>,
    ) -> Result<Item, Error> {
        let mut from = first(range);
        loop {
            let number = self.first_free(&fields, name, from, range).await?;
            fields.insert(name.to_owned(), Value::from(number));
            let item = self.item(fields.clone(), self.now(), true)?;
            if self.take_key(&item).await? {
                return Ok(item);
            }
            from = number + 1;
        }
    }

    /// The first number from `from` on whose key is free.
    async fn first_free(
        &self,
        fields: &Fields,
        name: &str,
        mut from: i64,
        range: Option<&NumberRange>,
    ) -> Result<i64, Error> {
        let fits = |number: i64| range.is_none_or(|range| range.contains(&number.into()));
        let mut fields = fields.clone();
        loop {
            let mut asked = Vec::new();
            for number in (from..from.saturating_add(PROBED_AT_ONCE)).take_while(|number| fits(*number)) {
                fields.insert(name.to_owned(), Value::from(number));
                asked.push((number, self.key(&fields)?));
            }
            if asked.is_empty() {
                return Err(Error::NotAllowed(format!(
                    "{} has no free `{name}` left: every number up to {} is taken",
                    self.name(),
                    from - 1
                )));
            }
            let taken = self.present(asked.iter().map(|(_, key)| key.clone()).collect()).await?;
            if let Some((number, _)) = asked.iter().find(|(_, key)| !taken.contains(&self.key_text(key))) {
                return Ok(*number);
            }
            from += PROBED_AT_ONCE;
        }
    }

    /// The keys that are taken, as text.
    async fn present(&self, keys: Vec<Item>) -> Result<BTreeSet<String>, Error> {
        let now = self.unix_now();
        let mut found = BTreeSet::new();
        let mut tables = vec![BatchGetTable {
            table: self.table_name.clone(),
            keys,
            projection: None,
            consistent: true,
            echo: BatchGetEcho::default(),
        }];
        for attempt in 0..batch::ATTEMPTS_MAX {
            if attempt > 0 {
                batch::pause(attempt).await;
            }
            let request = BatchGetItem { tables, capacity: ReturnCapacity::None };
            let (items, unprocessed) = self.store.batch_get_item(request).await?;
            let items = items.iter().flat_map(|(_, items)| items);
            found.extend(
                items
                    .filter(|item| !self.is_expired(item, now))
                    .map(|item| self.key_text(&self.key_of(item))),
            );
            tables = unprocessed;
            if tables.is_empty() {
                return Ok(found);
            }
        }
        Err(batch::never_done().into())
    }

    /// Writes a record whole. The answer is its item, and whether it differs from what was there.
    pub(crate) async fn put(&self, fields: Fields, version: Option<i64>) -> Result<(Item, bool), Error> {
        let fields = self.checked(fields)?;
        if self.keeps() {
            return self.put_over(fields, version).await;
        }
        let item = self.item(fields, self.now(), true)?;
        // What is kept in parts can be compared only while they are there.
        let whole = match oversize::is_oversize(self, &item) {
            true => self.load_even_expired(&self.key_of(&item), true).await?,
            false => None,
        };
        let old = self.save(item.clone(), None).await?;
        let changed = whole.or(old).is_none_or(|old| self.differs(&old, &item));
        Ok((item, changed))
    }

    /// Writes over what is there, keeping what has to survive.
    async fn put_over(&self, fields: Fields, version: Option<i64>) -> Result<(Item, bool), Error> {
        let key = self.key(&fields)?;
        self.flush_pending(&key).await?;
        for lost in 0..RACES_MAX {
            back_off(lost).await;
            let now = self.unix_now();
            let (item, condition, old) = match self.load(&key, true).await? {
                Some(old) => {
                    if version.is_some() && self.version(&old) != version {
                        return Err(self.conflict(&key, "it has a newer version"));
                    }
                    let (item, condition) = self.merged(fields.clone(), &old)?;
                    (item, and(self.is_there(now), condition), Some(old))
                }
                None if version.is_some() => return Err(self.conflict(&key, "it is gone")),
                None => (self.item(fields.clone(), self.now(), true)?, self.is_not_there(now), None),
            };
            match self.save(item.clone(), Some(condition)).await {
                Ok(_) => {
                    let changed = old.is_none_or(|old| self.differs(&old, &item));
                    return Ok((item, changed));
                }
                Err(Error::Store(store::Error::Condition { .. })) => {}
                Err(error) => return Err(error),
            }
        }
        Err(self.conflict(&key, "it kept changing while it was being written"))
    }

    /// The item of new fields over an old one, and the condition that what survives has not changed.
    pub(crate) fn merged(&self, mut fields: Fields, old: &Item) -> Result<(Item, Condition), Error> {
        let entity = self.entity();
        let before = self.fields(old, self.unix_now())?;
        let mut guarded = BTreeSet::new();
        for field in entity.fields.iter().filter(|field| field.on_create) {
            if let Some(value) = before.get(&field.name) {
                fields.insert(field.name.clone(), value.clone());
            }
            guarded.insert(field.attribute.clone());
        }
        for lifecycle in &entity.lifecycles {
            let set = lifecycle.transitions.iter().flat_map(|transition| &transition.set);
            for (name, _) in set {
                if let (false, Some(value)) = (fields.contains_key(name), before.get(name)) {
                    fields.insert(name.clone(), value.clone());
                }
                guarded.extend(self.in_head(name, old));
            }
        }
        let mut item = self.item(fields.clone(), self.now(), false)?;
        for lifecycle in &entity.lifecycles {
            guarded.insert(lifecycle.attribute.clone());
            let state = self.state_text(lifecycle, old, &fields).map(AttributeValue::S);
            if let Some(state) = state.or_else(|| old.get(&lifecycle.attribute).cloned()) {
                item.insert(lifecycle.attribute.clone(), state);
            }
            let of_lease = lifecycle.lease.iter().flat_map(LeaseAttributes::names).map(str::to_owned);
            for name in of_lease.chain([lifecycle::origin_attribute(lifecycle)]) {
                if let Some(value) = old.get(&name) {
                    item.insert(name.clone(), value.clone());
                }
                guarded.insert(name);
            }
        }
        if entity.policy.versions {
            guarded.insert(VERSION.to_owned());
            item.insert(VERSION.to_owned(), AttributeValue::from(self.version(old).unwrap_or(0) + 1));
        }
        let same = guarded.iter().map(|name| unchanged(name, old)).chain(oversize::same_parts(self, old));
        let condition = same
            .reduce(and)
            .unwrap_or_else(|| Condition::Exists(Path::attribute(&self.table().partition.attribute)));
        Ok((item, condition))
    }

    /// The attribute of a field that a condition can look at: not one that an item in parts may have elsewhere.
    fn in_head(&self, name: &str, item: &Item) -> Option<String> {
        let field = self.entity().field(name).filter(|_| oversize::guard(item).is_none());
        field.map(|field| field.attribute.clone())
    }

    /// Whether something of an item survives when it is written over.
    pub(crate) fn keeps(&self) -> bool {
        let entity = self.entity();
        !entity.lifecycles.is_empty()
            || entity.policy.versions
            || entity.fields.iter().any(|field| field.on_create)
    }

    /// How the state an item is in is written with these fields.
    pub(crate) fn state_text(&self, lifecycle: &Lifecycle, item: &Item, fields: &Fields) -> Option<String> {
        lifecycle.state_of(item)?.template.build(fields).ok()
    }

    /// Whether two items differ in more than what time does to them.
    fn differs(&self, old: &Item, new: &Item) -> bool {
        let volatile = self.volatile();
        let lasting = |item: &Item| {
            let kept = item
                .iter()
                .filter(|(name, _)| !volatile.contains(*name) && !name.starts_with(larder_schema::MARK));
            kept.map(|(name, value)| (name.clone(), value.clone())).collect::<Vec<_>>()
        };
        self.is_expired(old, self.unix_now()) || lasting(old) != lasting(new)
    }

    /// The stored names of what changes with time alone.
    fn volatile(&self) -> BTreeSet<String> {
        let computed =
            self.computed_from_now().into_iter().map(|at| self.entity().fields[at].attribute.clone());
        computed.chain(self.table().ttl.iter().map(|ttl| ttl.attribute.clone())).collect()
    }

    /// The fields that are computed from `now`, by their places, in order.
    pub(crate) fn computed_from_now(&self) -> Vec<usize> {
        let entity = self.entity();
        let (mut names, mut places) = (BTreeSet::new(), Vec::new());
        for &at in &entity.order {
            let field = &entity.fields[at];
            let Some(equation) = &field.equation else { continue };
            if equation.mentions_now() || equation.fields().iter().any(|name| names.contains(name)) {
                names.insert(&*field.name);
                places.push(at);
            }
        }
        places
    }

    pub(crate) fn conflict(&self, key: &Item, cause: &str) -> Error {
        Error::Conflict { entity: self.name().to_owned(), key: self.key_text(key), cause: cause.to_owned() }
    }

    pub(crate) fn missing(&self, key: &Item) -> Error {
        Error::Missing { entity: self.name().to_owned(), key: self.key_text(key) }
    }
}

/// Where the numbers of a sequence begin.
fn first(range: Option<&NumberRange>) -> i64 {
    range.and_then(|range| range.min).and_then(|min| min.to_i64()).unwrap_or(1)
}
