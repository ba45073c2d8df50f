//! Partial writes: some fields change, and every equation still holds.
//!
//! One request, when all that an affected equation needs is given or in the key. Otherwise the item is
//! read, the equations are worked out, and the write happens under the condition that what they rest on has
//! not changed; who loses that race works them out again.
//!
//! Transitions of lifecycles are partial writes with a condition of their own.

use std::collections::{BTreeMap, BTreeSet};
use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;

use larder_expr::{Comparator, Condition, Operand, SetOperand, SetValue};
use larder_model::{AttributeValue, Item, Number, Path, Step, UnixTime};
use larder_schema::schema::{CheckMode, Role, Ttl};
use larder_schema::{Expr, Field, Fields, Type, VERSION, Value, Violation, ViolationFault};

use super::unchanged;
use crate::cache::Waiting;
use crate::cache::freshness;
use crate::entity::{Core, and, or};
use crate::shelf::{self, FieldType, Record};
use crate::write::{ATTEMPTS_MAX, Action, Planned, RACES_MAX, back_off};
use crate::{Error, Invalid, oversize, store};

/// Changes to some fields of a record. Awaiting it makes them, and gives the record as it is then.
///
/// ```
/// # larder::schema!("examples/library.larder");
/// # use library::{Library, NewBook};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let library = Library::open(larder::Store::memory().await).await?;
/// # use library::Book;
/// # library.books().create(NewBook::new("1")).await?;
/// // By field names; `library.books().update("1")` has a method for each field.
/// let update = library.shelf::<Book>().update("1");
/// let update = update.set("place", "A3".to_owned()).add("copies", 2).append("topics", vec!["love".to_owned()]);
/// let book = update.clear("year").await?;
/// assert_eq!((book.place.as_deref(), book.copies, book.year), (Some("A3"), 3, None));
/// # Ok(())
/// # }
/// ```
#[must_use = "an update happens when it is awaited"]
pub struct Update<R> {
    core: Arc<Core>,
    key: Result<Item, Error>,
    changes: Changes,
    record: PhantomData<fn() -> R>,
}

impl<R> std::fmt::Debug for Update<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Update").field("entity", &self.core.name()).finish_non_exhaustive()
    }
}

impl<R: Record> Update<R> {
    pub(crate) fn new(core: Arc<Core>, key: Result<Item, Error>) -> Self {
        Self { core, key, changes: Changes::default(), record: PhantomData }
    }

    /// Sets a field.
    pub fn set(mut self, field: &str, value: impl FieldType) -> Self {
        self.changes.set.insert(field.to_owned(), value.to_value());
        self
    }

    /// Sets a field to a value of the schema's own kind.
    ///
    /// ```
    /// # larder::schema!("examples/library.larder");
    /// # use library::{Library, NewBook};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let library = Library::open(larder::Store::memory().await).await?;
    /// # library.books().create(NewBook::new("1")).await?;
    /// let books = library.entries("Book").expect("the schema has it");
    /// let key = larder::Fields::from([("isbn".to_owned(), "1".into())]);
    /// let book = books.update(key).set_value("year", 1815.into()).await?;
    /// assert_eq!(book.fields["year"].as_i64(), Some(1815));
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_value(mut self, field: &str, value: Value) -> Self {
        self.changes.set.insert(field.to_owned(), value);
        self
    }

    /// Adds to a number, atomically. One that is not there counts as its default, or zero.
    pub fn add(mut self, field: &str, number: impl Into<Number>) -> Self {
        self.changes.add.insert(field.to_owned(), number.into());
        self
    }

    /// Appends to a list, atomically.
    pub fn append<T: FieldType>(mut self, field: &str, values: Vec<T>) -> Self {
        let values = values.into_iter().map(T::to_value);
        self.changes.append.entry(field.to_owned()).or_default().extend(values);
        self
    }

    /// Puts members into a set, atomically.
    ///
    /// ```
    /// # larder::schema!("examples/library.larder");
    /// # use library::{Book, Library, NewBook};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let library = Library::open(larder::Store::memory().await).await?;
    /// # library.books().create(NewBook::new("1")).await?;
    /// let books = library.shelf::<Book>();
    /// books.update("1").insert("languages", ["en".to_owned(), "ja".to_owned()]).await?;
    /// let book = books.update("1").remove("languages", ["en".to_owned()]).await?;
    /// assert!(book.languages.iter().eq(["ja"]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn insert<T: FieldType>(mut self, field: &str, members: impl IntoIterator<Item = T>) -> Self {
        let members = members.into_iter().map(T::to_value);
        self.changes.insert.entry(field.to_owned()).or_default().extend(members);
        self
    }

    /// Takes members out of a set, atomically.
    pub fn remove<T: FieldType>(mut self, field: &str, members: impl IntoIterator<Item = T>) -> Self {
        let members = members.into_iter().map(T::to_value);
        self.changes.remove.entry(field.to_owned()).or_default().extend(members);
        self
    }

    /// Sets what a map holds under a name, and leaves the rest of it alone.
    ///
    /// ```
    /// # larder::schema!("examples/library.larder");
    /// # use library::{Book, Library, NewBook};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let library = Library::open(larder::Store::memory().await).await?;
    /// # library.books().create(NewBook::new("1")).await?;
    /// let books = library.shelf::<Book>();
    /// books.update("1").insert_at("shelved", "Uppsala", 2).insert_at("shelved", "Lund", 1).await?;
    /// let book = books.update("1").remove_at("shelved", "Lund").await?;
    /// assert_eq!(book.shelved, Some([("Uppsala".to_owned(), 2)].into()));
    /// # Ok(())
    /// # }
    /// ```
    pub fn insert_at(mut self, field: &str, name: impl Into<String>, value: impl FieldType) -> Self {
        let entries = self.changes.entries.entry(field.to_owned()).or_default();
        entries.insert(name.into(), Some(value.to_value()));
        self
    }

    /// Removes what a map holds under a name.
    pub fn remove_at(mut self, field: &str, name: impl Into<String>) -> Self {
        self.changes.entries.entry(field.to_owned()).or_default().insert(name.into(), None);
        self
    }

    /// Removes an optional field.
    pub fn clear(mut self, field: &str) -> Self {
        self.changes.clear.insert(field.to_owned());
        self
    }

    /// Only if the record still has this version.
    ///
    /// ```
    /// # larder::schema!("examples/library.larder");
    /// # use library::{Library, NewBook};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let library = Library::open(larder::Store::memory().await).await?;
    /// let books = library.books();
    /// let book = books.create(NewBook::new("1")).await?;
    /// let read = book.kept().version().expect("the schema says `versions on`");
    /// books.update("1").title("Emma").await?;
    /// let late = books.update("1").title("Ema").if_version(read).await;
    /// assert!(matches!(late, Err(larder::Error::Conflict { .. })));
    /// # Ok(())
    /// # }
    /// ```
    pub fn if_version(mut self, version: i64) -> Self {
        self.changes.condition = Some(Condition::Compare {
            left: Operand::Path(Path::attribute(VERSION)),
            comparator: Comparator::Equal,
            right: Operand::value(version),
        });
        self
    }

    /// Only if the fields that were named before this, and the version, are still as in an item that was read; of one in
    /// parts, all of it. It is given as the store has it.
    ///
    /// ```
    /// # larder::schema!("examples/library.larder");
    /// # use library::{Book, Library, NewBook};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use larder::store::ops::{GetItem, ReturnCapacity};
    /// # let library = Library::open(larder::Store::memory().await).await?;
    /// # library.books().create(NewBook::new("1")).await?;
    /// # let (table, key) = (larder_model::TableName::new("library")?, library.books().stored_key("1")?);
    /// # let request = GetItem { table, key, projection: None, consistent: true, capacity: ReturnCapacity::None };
    /// let books = library.shelf::<Book>();
    /// let read = library.store().get_item(request).await?.expect("it is there");
    /// books.update("1").set("title", "Emma".to_owned()).if_as_read(&read).await?;
    /// let late = books.update("1").set("title", "Ema".to_owned()).if_as_read(&read).await;
    /// assert!(matches!(late, Err(larder::Error::Conflict { .. })));
    /// # Ok(())
    /// # }
    /// ```
    pub fn if_as_read(mut self, read: &Item) -> Self {
        let entity = self.core.entity();
        let changes = &self.changes;
        let named = changes.set.keys().chain(&changes.clear).chain(changes.partial());
        let fields = named.filter_map(|name| entity.field(name)).filter(|field| field.is_stored());
        // What was moved into parts is guarded with them.
        let here = |name: &str| oversize::guard(read).is_none() || read.contains(name);
        let version = entity.policy.versions.then_some(VERSION);
        let names = fields.map(|field| field.attribute.as_str()).filter(|name| here(name)).chain(version);
        let same = names.map(|name| unchanged(name, read)).chain(oversize::same_parts(&self.core, read));
        self.changes.condition = self.changes.condition.clone().into_iter().chain(same).reduce(and);
        self
    }

    /// The item as it is, and as it would be after this. Nothing is written.
    ///
    /// ```
    /// # larder::schema!("examples/library.larder");
    /// # use library::{Book, Library, NewBook};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let library = Library::open(larder::Store::memory().await).await?;
    /// # library.books().create(NewBook::new("1")).await?;
    /// let (before, after) = library.shelf::<Book>().update("1").add("copies", 2).preview().await?;
    /// assert_eq!((before.get("copies"), after.get("copies")), (Some(&1.into()), Some(&3.into())));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn preview(self) -> Result<(Item, Item), Error> {
        let key = self.key?;
        self.core.preview(&key, self.changes).await
    }

    /// What a transaction makes a step of.
    pub(crate) fn into_parts(self) -> (Arc<Core>, Result<Item, Error>, Changes) {
        (self.core, self.key, self.changes)
    }

    /// Makes the changes.
    ///
    /// ```
    /// # larder::schema!("examples/library.larder");
    /// # use library::{Library, NewBook};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let library = Library::open(larder::Store::memory().await).await?;
    /// # library.books().create(NewBook::new("1")).await?;
    /// let update = library.books().update("1").add_copies(1);
    /// assert_eq!(update.send().await?.copies, 2); // the same as `update.await?`
    /// # Ok(())
    /// # }
    /// ```
    pub async fn send(self) -> Result<R, Error> {
        let key = self.key?;
        let item = self.core.change(&key, self.changes).await.map_err(|refused| match refused {
            Refused::Missing => self.core.missing(&key),
            Refused::Condition(_) => self.core.conflict(&key, "it has a newer version"),
            Refused::Failed(error) => error,
        })?;
        shelf::read(&self.core, &item, self.core.unix_now())
    }
}

impl<R: Record> IntoFuture for Update<R> {
    type Output = Result<R, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}

/// A partial write. Fields are by their names in the schema, attributes by their stored names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changes {
    pub(crate) set: Fields,
    pub(crate) add: BTreeMap<String, Number>,
    pub(crate) append: BTreeMap<String, Vec<Value>>,
    /// Into sets.
    pub(crate) insert: BTreeMap<String, Vec<Value>>,
    /// Out of sets.
    pub(crate) remove: BTreeMap<String, Vec<Value>>,
    /// In maps: set, or removed.
    pub(crate) entries: BTreeMap<String, BTreeMap<String, Option<Value>>>,
    pub(crate) clear: BTreeSet<String>,
    /// Lifecycle → the state it goes to.
    pub(crate) states: BTreeMap<String, String>,
    /// Attributes of the layer itself: set, or removed.
    pub(crate) attributes: Vec<(String, Option<AttributeValue>)>,
    /// Counters of the layer itself.
    pub(crate) counts: Vec<(String, i64)>,
    pub(crate) condition: Option<Condition>,
}

impl Changes {
    /// Fields of which a part changes, and what it was counts.
    fn partial(&self) -> impl Iterator<Item = &String> {
        let sets = self.insert.keys().chain(self.remove.keys());
        self.add.keys().chain(self.append.keys()).chain(sets).chain(self.entries.keys())
    }

    /// Whether a second time changes nothing, and nobody asks whether it was the first.
    fn can_be_made_twice(&self) -> bool {
        let builds_on_what_is_there =
            !(self.add.is_empty() && self.append.is_empty() && self.counts.is_empty());
        !builds_on_what_is_there && self.states.is_empty() && self.condition.is_none()
    }

    /// Whether only attributes of the layer itself change.
    fn is_of_layer(&self) -> bool {
        self.set.is_empty()
            && self.partial().next().is_none()
            && self.clear.is_empty()
            && self.states.is_empty()
    }
}

/// Why a partial write did not happen.
#[derive(Debug)]
pub(crate) enum Refused {
    /// There is nothing to change.
    Missing,
    /// The caller's condition does not hold for the item as it is.
    Condition(Box<Item>),
    Failed(Error),
}

impl<E: Into<Error>> From<E> for Refused {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// What a change makes of an item, and under which condition.
struct Rewrite {
    update: larder_expr::Update,
    condition: Condition,
}

impl Rewrite {
    fn planned(self, key: &Item) -> Planned {
        Planned { key: key.clone(), action: Action::Update(self.update), condition: Some(self.condition) }
    }
}

impl Core {
    /// Makes a partial write, and gives the item as it is then.
    ///
    /// One whose answer is lost may have been made. Where that makes no difference it is made again.
    pub(crate) async fn change(&self, key: &Item, changes: Changes) -> Result<Item, Refused> {
        let changes = self.conformed(changes);
        self.check_changes(&changes)?;
        let mut lost = None;
        let is_wanted = |outcome: &Result<Item, Refused>| match outcome {
            Err(Refused::Failed(Error::Store(error)))
                if error.may_have_happened() && changes.can_be_made_twice() =>
            {
                lost = Some(error.clone());
                true
            }
            _ => false,
        };
        let outcome = store::again(ATTEMPTS_MAX, || self.change_once(key, &changes), is_wanted).await;
        match (outcome, lost) {
            // It was there, perhaps, when nobody answered: that it is gone by now does not say that nothing was done.
            (Err(Refused::Missing), Some(lost)) => Err(Refused::Failed(lost.into())),
            (outcome, _) => outcome,
        }
    }

    async fn change_once(&self, key: &Item, changes: &Changes) -> Result<Item, Refused> {
        let scope = self.scope(changes);
        self.flush_pending(key).await?;
        let mut refused_by = None;
        if let Some(known) = self.known_from_key(key, changes, &scope)? {
            let rewrite = self.rewrite(key, changes, &scope, known, None)?;
            match self.send_update(key, rewrite).await {
                Ok(item) => return Ok(item),
                // Looking at the item tells what stood in the way: the caller's condition, or a check.
                Err(Error::Store(store::Error::Condition { item })) => refused_by = item,
                Err(error) => return Err(error.into()),
            }
        }
        let mut current = self.current(key, refused_by).await?;
        for lost in 0..RACES_MAX {
            if lost > 1 {
                back_off(lost).await;
                current = self.current(key, None).await?;
            }
            let Some(item) = current.take() else { return Err(Refused::Missing) };
            let asked = changes.condition.as_ref();
            if !asked.is_none_or(|asked| asked.holds(Some(&item)).unwrap_or(false)) {
                return Err(Refused::Condition(Box::new(item)));
            }
            let fields = self.fields_of(&item)?;
            let rewrite = self.rewrite(key, changes, &scope, fields, Some(&item))?;
            let written = match oversize::guard(&item) {
                None if self.outgrows(key, &item, &rewrite) => {
                    let guard = self.all_unchanged(&item);
                    self.rewrite_whole(key, &item, rewrite, guard).await
                }
                None => self.send_update(key, rewrite).await,
                Some(guard) => self.rewrite_whole(key, &item, rewrite, guard).await,
            };
            match written {
                Ok(item) => return Ok(item),
                Err(Error::Store(store::Error::Condition { item })) => {
                    current = self.current(key, item).await?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(self.conflict(key, "it kept changing while it was being written").into())
    }

    /// The item as it is, and as a partial write would make it.
    async fn preview(&self, key: &Item, changes: Changes) -> Result<(Item, Item), Error> {
        let changes = self.conformed(changes);
        self.check_changes(&changes)?;
        let scope = self.scope(&changes);
        self.known_from_key(key, &changes, &scope)?;
        let item = self.load(key, true).await?.ok_or_else(|| self.missing(key))?;
        let rewrite = self.rewrite(key, &changes, &scope, self.fields_of(&item)?, Some(&item))?;
        let after = self.applied(key, &item, &rewrite)?;
        Ok((oversize::without_marks(item), oversize::without_marks(after)))
    }

    /// What is there, if it is known from a failed condition it need not be read again.
    async fn current(&self, key: &Item, known: Option<Box<Item>>) -> Result<Option<Item>, Error> {
        match known {
            Some(item) if oversize::guard(&item).is_none() => {
                Ok(Some(*item).filter(|item| !self.is_expired(item, self.unix_now())))
            }
            _ => self.load(key, true).await,
        }
    }

    async fn send_update(&self, key: &Item, rewrite: Rewrite) -> Result<Item, Error> {
        let updated = self.write_in_turn(rewrite.planned(key), Waiting::Kept).await;
        updated?.ok_or_else(|| self.missing(key))
    }

    /// Whether a change makes an item too large to be kept as it is.
    fn outgrows(&self, key: &Item, item: &Item, rewrite: &Rewrite) -> bool {
        let applied = rewrite.update.apply(Some(item), key);
        applied.is_ok_and(|applied| oversize::is_oversize(self, &applied))
    }

    /// The condition that nothing of an item has changed.
    fn all_unchanged(&self, item: &Item) -> Condition {
        let stored = self.entity().fields.iter().filter(|field| field.is_stored());
        let names: BTreeSet<&str> = stored.map(|field| &*field.attribute).chain(item.names()).collect();
        let keys = self.key_of(item);
        let names = names.into_iter().filter(|name| !keys.contains(name));
        names.map(|name| unchanged(name, item)).fold(self.is_there(self.unix_now()), and)
    }

    /// An item that is kept in parts or packed is written anew.
    async fn rewrite_whole(
        &self,
        key: &Item,
        whole: &Item,
        rewrite: Rewrite,
        guard: Condition,
    ) -> Result<Item, Error> {
        let item = oversize::without_marks(self.applied(key, whole, &rewrite)?);
        self.write_in_turn(self.put_of(item.clone(), Some(guard))?, Waiting::Kept).await?;
        Ok(item)
    }

    fn applied(&self, key: &Item, item: &Item, rewrite: &Rewrite) -> Result<Item, Error> {
        rewrite.update.apply(Some(item), key).map_err(|error| Error::Corrupt {
            entity: self.name().to_owned(),
            key: self.key_text(key),
            cause: error.to_string(),
        })
    }

    /// The changes with their values as a new record would have them: nothing twice in a set, and what is of another type
    /// as it can be kept.
    fn conformed(&self, mut changes: Changes) -> Changes {
        let kind = |name: &String| self.entity().field(name).map(|field| &field.kind);
        for (name, value) in &mut changes.set {
            kind(name).into_iter().for_each(|kind| self.schema.conform(kind, value));
        }
        let parts = [&mut changes.append, &mut changes.insert, &mut changes.remove].into_iter().flatten();
        for (name, values) in parts {
            let mut whole = Value::List(std::mem::take(values));
            kind(name).into_iter().for_each(|kind| self.schema.conform(kind, &mut whole));
            if let Value::List(conformed) = whole {
                *values = conformed;
            }
        }
        for (name, entries) in &mut changes.entries {
            let Some(Type::Map(of)) = kind(name) else { continue };
            entries.values_mut().flatten().for_each(|value| self.schema.conform(&of.kind, value));
        }
        changes
    }

    /// Everything that is wrong with the changes themselves.
    fn check_changes(&self, changes: &Changes) -> Result<(), Error> {
        let entity = self.entity();
        let in_key = self.key_fields();
        let mut violations = Vec::new();
        let mut broken = |field: &str, fault: ViolationFault, rule: &str, value: &str| {
            violations.push(Violation::of(entity, field, fault, rule, value));
        };
        let names: BTreeSet<&String> =
            changes.set.keys().chain(changes.partial()).chain(&changes.clear).collect();
        for name in names {
            match entity.field(name) {
                None => broken(name, ViolationFault::Unknown, "there is no such field", "given"),
                Some(_) if in_key.contains(name) => {
                    broken(name, ViolationFault::Check, "is part of the key", "changed");
                }
                Some(field) if !field.is_given() => {
                    broken(name, ViolationFault::Check, "is computed", "given");
                }
                Some(field) => {
                    let number = matches!(field.kind, Type::Int | Type::Float | Type::Decimal);
                    if changes.add.contains_key(name) && !number {
                        broken(
                            name,
                            ViolationFault::Type,
                            "must be a number to be added to",
                            &field.kind.to_string(),
                        );
                    }
                    let ways = [
                        changes.set.contains_key(name) || changes.clear.contains(name),
                        changes.add.contains_key(name),
                        changes.append.contains_key(name),
                        changes.insert.contains_key(name),
                        changes.remove.contains_key(name),
                        changes.entries.contains_key(name),
                    ];
                    if ways.into_iter().filter(|way| *way).count() > 1 {
                        broken(
                            name,
                            ViolationFault::Check,
                            "must be changed in one way",
                            "changed in several",
                        );
                    }
                    let whole = changes.add.get(name).is_none_or(|number| number.to_i64().is_some());
                    if field.kind == Type::Int && !whole {
                        broken(
                            name,
                            ViolationFault::Type,
                            "must be a whole number to be added",
                            &changes.add[name].to_string(),
                        );
                    }
                    let added = changes.append.get(name).map_or(0, Vec::len);
                    if let Some(max) = field.checks.len.and_then(|(_, max)| max).filter(|max| added > *max) {
                        let rule = format!("must have at most {max} members");
                        broken(
                            name,
                            ViolationFault::Check,
                            &rule,
                            &format!("a list of {added} to be appended"),
                        );
                    }
                    if changes.append.contains_key(name) && !matches!(field.kind, Type::List(_)) {
                        broken(
                            name,
                            ViolationFault::Type,
                            "must be a list to be appended to",
                            &field.kind.to_string(),
                        );
                    }
                    let of_set = changes.insert.contains_key(name) || changes.remove.contains_key(name);
                    if of_set && !matches!(field.kind, Type::Set(_)) {
                        broken(
                            name,
                            ViolationFault::Type,
                            "must be a set to have members put in or taken out",
                            &field.kind.to_string(),
                        );
                    }
                    if changes.entries.contains_key(name) && !matches!(field.kind, Type::Map(_)) {
                        broken(
                            name,
                            ViolationFault::Type,
                            "must be a map to have one entry changed",
                            &field.kind.to_string(),
                        );
                    }
                    if changes.clear.contains(name) && !field.optional {
                        broken(name, ViolationFault::Missing, "is required", "removed");
                    }
                }
            }
        }
        if entity.policy.checks == CheckMode::Strict {
            let known = changes.set.keys().filter(|name| entity.field(name).is_some());
            violations.extend(self.violations_of(&changes.set, known));
            let lists = [&changes.append, &changes.insert, &changes.remove].into_iter().flatten();
            let parts = lists.map(|(name, values)| (name.clone(), Value::List(values.clone())));
            let maps = changes.entries.iter().map(|(name, entries)| (name.clone(), set_entries(entries)));
            let parts: Fields = parts.chain(maps).collect();
            // The length is that of the whole, which a condition looks at.
            let members = self.violations_of(&parts, parts.keys());
            violations.extend(members.into_iter().filter(|violation| !violation.is_about_field()));
        }
        if violations.is_empty() {
            Ok(())
        } else {
            Err(Invalid { entity: entity.name.clone(), violations }.into())
        }
    }

    /// What some of the fields break.
    fn violations_of<'a>(&self, fields: &Fields, names: impl Iterator<Item = &'a String>) -> Vec<Violation> {
        let names: BTreeSet<&String> = names.collect();
        let mut violations = self.schema.violations(self.entity(), fields);
        violations.retain(|violation| names.iter().any(|name| *name == violation.field()));
        violations
    }

    fn scope(&self, changes: &Changes) -> Affected {
        let entity = self.entity();
        let mut names: BTreeSet<String> = changes.set.keys().chain(&changes.clear).cloned().collect();
        names.extend(changes.partial().cloned());
        let mut affected = Affected::default();
        // How many members there will be depends on those that are there.
        for name in changes.insert.keys().chain(changes.remove.keys()).chain(changes.entries.keys()) {
            let is_counted = |field: &Field| field.checks.nonempty || field.checks.len.is_some();
            let is_loose = matches!(entity.policy.checks, CheckMode::Record(_));
            if is_loose || entity.field(name).is_some_and(is_counted) {
                affected.inputs.insert(name.clone());
            }
        }
        if let CheckMode::Record(into) = &entity.policy.checks {
            // Any change may mend or break a check.
            names.insert(into.clone());
            affected.inputs.insert(into.clone());
        }
        for &at in &entity.order {
            let field = &entity.fields[at];
            let Some(equation) = &field.equation else { continue };
            let touched = equation.fields().iter().any(|name| names.contains(*name));
            if !field.on_create && (touched || equation.mentions_now()) {
                names.insert(field.name.clone());
                affected.inputs.extend(equation.fields().into_iter().map(str::to_owned));
                affected.computed.push(at);
            }
        }
        for lifecycle in &entity.lifecycles {
            let holes = |state: &larder_schema::schema::State| -> Vec<String> {
                state.template.holes().map(|hole| hole.field.clone()).collect()
            };
            match changes.states.get(&lifecycle.name) {
                Some(to) => {
                    let to = lifecycle.states.iter().find(|state| state.name == *to);
                    affected.inputs.extend(to.map(holes).unwrap_or_default());
                }
                None if lifecycle.states.iter().flat_map(holes).any(|name| names.contains(&name)) => {
                    affected.restated.push(lifecycle.name.clone());
                }
                None => {}
            }
        }
        if let Some(Ttl::Value(expression)) = &entity.ttl
            && expression.fields().iter().any(|name| names.contains(*name))
        {
            affected.inputs.extend(expression.fields().into_iter().map(str::to_owned));
            affected.ttl = true;
        }
        for at in &affected.computed {
            affected.inputs.remove(&entity.fields[*at].name);
        }
        affected
    }

    /// The fields in the key, if with them everything can be worked out without looking at the item.
    fn known_from_key(
        &self,
        key: &Item,
        changes: &Changes,
        affected: &Affected,
    ) -> Result<Option<Fields>, Error> {
        let entity = self.entity();
        let in_key = self.schema.read_item(self.table(), entity, key).unwrap_or_default();
        let mut all_known = !oversize::may_pack(self)
            && entity.policy.checks == CheckMode::Strict
            && affected.restated.is_empty();
        for name in &affected.inputs {
            if changes.set.contains_key(name) || changes.clear.contains(name) || in_key.contains_key(name) {
                continue;
            }
            if let Some(field) = entity.field(name)
                && field.role == Role::Input
                && !self.is_recoverable(name)
            {
                // Nobody can know it but the caller.
                if !field.optional {
                    let rule = "is not stored, and what is changed depends on it";
                    let violation = Violation::of(entity, name, ViolationFault::Missing, rule, "missing");
                    return Err(Invalid { entity: entity.name.clone(), violations: vec![violation] }.into());
                }
                continue;
            }
            all_known = false;
        }
        Ok(all_known.then_some(in_key))
    }

    /// All fields of an item, those whose own time is over included.
    fn fields_of(&self, item: &Item) -> Result<Fields, Error> {
        let read = self.schema.read_item(self.table(), self.entity(), item);
        let mut fields =
            read.map_err(|cause| Error::corrupt(self.name(), &self.key_text(&self.key_of(item)), &cause))?;
        self.entity().add_empty_sets(&mut fields, None);
        Ok(fields)
    }

    /// The update and its condition, from fields as they were.
    fn rewrite(
        &self,
        key: &Item,
        changes: &Changes,
        affected: &Affected,
        mut fields: Fields,
        item: Option<&Item>,
    ) -> Result<Rewrite, Error> {
        let entity = self.entity();
        let (now, unix_now) = (self.now(), self.unix_now());
        let mut update = larder_expr::Update::default();
        let mut conditions = vec![self.is_there(unix_now)];
        conditions.extend(changes.condition.clone());

        fields.extend(changes.set.clone());
        for name in &changes.clear {
            fields.remove(name);
        }
        for (name, number) in &changes.add {
            let Some(field) = entity.field(name) else { continue };
            let start = field.checks.default.clone().unwrap_or(Value::from(0));
            let before = fields.get(name).cloned().unwrap_or_else(|| start.clone());
            if affected.inputs.contains(name) || item.is_some() {
                fields.insert(name.clone(), sum(&before, number));
            }
            if !affected.inputs.contains(name) {
                conditions.extend(self.room_for(field, &start, number));
                let path = Path::attribute(&field.attribute);
                let start = self.encoded(field, &start)?;
                let old = SetOperand::IfNotExists(path.clone(), Box::new(SetOperand::value(start)));
                update.set.push((path, SetValue::Plus(old, SetOperand::value(AttributeValue::N(*number)))));
            }
        }
        for (name, values) in &changes.append {
            let Some(field) = entity.field(name) else { continue };
            let added = self.encoded(field, &Value::List(values.clone()))?;
            if affected.inputs.contains(name) || item.is_some() {
                let mut list = match fields.remove(name) {
                    Some(Value::List(list)) => list,
                    _ => Vec::new(),
                };
                list.extend(values.clone());
                fields.insert(name.clone(), Value::List(list));
            }
            if !affected.inputs.contains(name) {
                let path = Path::attribute(&field.attribute);
                conditions.extend(room_in_list(field, values.len()));
                let empty = Box::new(SetOperand::value(AttributeValue::L(Vec::new())));
                let old = SetOperand::IfNotExists(path.clone(), empty);
                let whole = SetOperand::ListAppend(Box::new(old), Box::new(SetOperand::value(added)));
                update.set.push((path, SetValue::Is(whole)));
            }
        }
        let mut written: BTreeSet<String> = changes.set.keys().chain(&changes.clear).cloned().collect();
        written.extend(changes.partial().filter(|name| affected.inputs.contains(*name)).cloned());
        for (name, members) in changes.insert.iter().chain(&changes.remove) {
            let Some(field) = entity.field(name) else { continue };
            let is_put_in = changes.insert.contains_key(name);
            if affected.inputs.contains(name) || item.is_some() {
                let mut set = match fields.remove(name) {
                    Some(Value::List(set)) => set,
                    Some(_) => return Err(self.not_of_type(field)),
                    None => Vec::new(),
                };
                set.retain(|known| !members.contains(known));
                set.extend(members.iter().filter(|_| is_put_in).cloned());
                let mut set = Value::List(set);
                self.schema.conform(&field.kind, &mut set);
                fields.insert(name.clone(), set);
            }
            let members = Value::List(members.clone());
            if !affected.inputs.contains(name) && !members.is_left_out(&field.kind) {
                let change = (Path::attribute(&field.attribute), Arc::new(self.encoded(field, &members)?));
                if is_put_in { update.add.push(change) } else { update.delete.push(change) }
            }
        }
        for (name, entries) in &changes.entries {
            let Some(field) = entity.field(name) else { continue };
            // Where there is no map yet, there is nothing to set an entry in.
            let is_new = item.is_some_and(|item| !item.contains(&field.attribute));
            let is_whole = affected.inputs.contains(name) || is_new;
            if is_whole || item.is_some() {
                let mut map = match fields.remove(name) {
                    Some(Value::Map(map)) => map,
                    Some(_) => return Err(self.not_of_type(field)),
                    None => BTreeMap::new(),
                };
                for (name, value) in entries {
                    match value {
                        Some(value) => drop(map.insert(name.clone(), value.clone())),
                        None => drop(map.remove(name)),
                    }
                }
                if !(is_new && map.is_empty()) {
                    fields.insert(name.clone(), Value::Map(map));
                }
            }
            let path = Path::attribute(&field.attribute);
            if is_whole {
                written.insert(name.clone());
                conditions.extend(item.map(|item| unchanged(&field.attribute, item)));
                continue;
            }
            conditions.push(Condition::Exists(path.clone()));
            let Type::Map(of) = &field.kind else { continue };
            for (name, value) in entries {
                let at = Path { steps: vec![Step::Field(name.as_str().into())], ..path.clone() };
                match value.as_ref().map(|value| self.schema.encode(&of.kind, value)) {
                    Some(Some(stored)) => update.set.push((at, SetValue::Is(SetOperand::value(stored)))),
                    Some(None) => return Err(self.not_of_type(field)),
                    None => update.remove.push(at),
                }
            }
        }
        if item.is_some() {
            self.recheck(&mut fields, changes, &mut written)?;
        }

        if item.is_some() {
            // What is neither stored nor in the key, but follows from what is.
            let mut all = fields.clone();
            entity.compute(&mut all, now, false);
            let unstored = |name: &String| entity.field(name).is_some_and(|field| field.role == Role::Let);
            for (name, value) in all.into_iter().filter(|(name, _)| unstored(name)) {
                fields.entry(name).or_insert(value);
            }
        }
        entity.compute_some(&mut fields, now, &affected.computed);
        written.extend(affected.computed.iter().map(|at| entity.fields[*at].name.clone()));
        for field in entity.fields.iter().filter(|field| field.is_stored() && written.contains(&field.name)) {
            self.write(&mut update, field, fields.get(&field.name))?;
        }
        for lifecycle in &entity.lifecycles {
            let path = Path::attribute(&lifecycle.attribute);
            let state = match changes.states.get(&lifecycle.name) {
                Some(to) => lifecycle.states.iter().find(|state| state.name == *to),
                None if affected.restated.contains(&lifecycle.name) => {
                    item.and_then(|item| lifecycle.state_of(item))
                }
                None => None,
            };
            if let Some(state) = state {
                let text = state.template.build(&fields);
                let text = text.map_err(|cause| Error::Key { entity: entity.name.clone(), cause })?;
                update.set.push((path, SetValue::Is(SetOperand::value(AttributeValue::S(text)))));
                if let (Some(item), false) = (item, changes.states.contains_key(&lifecycle.name)) {
                    conditions.push(unchanged(&lifecycle.attribute, item));
                }
            }
        }
        for (name, value) in &changes.attributes {
            let path = Path::attribute(name);
            match value {
                Some(value) => update.set.push((path, SetValue::Is(SetOperand::value(value.clone())))),
                None => update.remove.push(path),
            }
        }
        // A lease that is renewed leaves the record as it is.
        let version = (entity.policy.versions && !changes.is_of_layer()).then(|| (VERSION.to_owned(), 1));
        for (name, count) in changes.counts.iter().cloned().chain(version) {
            let path = Path::attribute(&name);
            let zero = Box::new(SetOperand::value(0));
            let old = SetOperand::IfNotExists(path.clone(), zero);
            update.set.push((path, SetValue::Plus(old, SetOperand::value(count))));
        }
        if affected.ttl {
            self.rewrite_end(&mut update, key, self.ends(&fields, now));
        }
        if let Some(item) = item {
            conditions.extend(self.carriers(affected).iter().map(|name| unchanged(name, item)));
            // What is appended to would not be found in the head of an item that was split meanwhile.
            conditions.extend(oversize::same_parts(self, item));
        }
        let condition = conditions.into_iter().reduce(and).expect("there is at least one");
        Ok(Rewrite { update, condition })
    }

    /// Moves the end of an item, as a put would write it.
    fn rewrite_end(&self, update: &mut larder_expr::Update, key: &Item, ends: Option<UnixTime>) {
        let mut stamped = key.clone();
        if let Some(ends) = ends {
            freshness::stamp(self, &mut stamped, ends, self.unix_now());
        } else {
            update.remove.extend(self.ends_in().map(Path::attribute));
        }
        for (name, value) in stamped.into_iter().filter(|(name, _)| !key.contains(name)) {
            update.set.push((Path::attribute(&name), SetValue::Is(SetOperand::value(value))));
        }
    }

    /// The condition that a number still passes its checks when this is added to it.
    fn room_for(&self, field: &Field, start: &Value, number: &Number) -> Option<Condition> {
        let path = Path::attribute(&field.attribute);
        let growing = *number >= Number::from(0);
        let range = field.checks.range;
        let mut limits = Vec::new();
        if growing {
            limits.extend(range.and_then(|range| {
                let within = if range.max_included { Comparator::LessOrEqual } else { Comparator::Less };
                Some((within, range.max?))
            }));
            limits.extend(
                (field.kind == Type::Int).then_some((Comparator::LessOrEqual, Number::from(i64::MAX))),
            );
        } else {
            limits.extend(range.and_then(|range| Some((Comparator::GreaterOrEqual, range.min?))));
            limits.extend(field.checks.positive.then_some((Comparator::Greater, Number::from(0))));
            limits.extend(
                (field.kind == Type::Int).then_some((Comparator::GreaterOrEqual, Number::from(i64::MIN))),
            );
        }
        let fits = limits.into_iter().filter_map(|(comparator, limit)| {
            Some(Condition::Compare {
                left: Operand::Path(path.clone()),
                comparator,
                right: Operand::value(AttributeValue::N(limit.checked_sub(*number).ok()?)),
            })
        });
        let fits = fits.reduce(and);
        // Where there is none yet, what it begins with is known.
        let begun = Fields::from([(field.name.clone(), sum(start, number))]);
        if self.violations_of(&begun, std::iter::once(&field.name)).is_empty() {
            fits.map(|fits| or(Condition::NotExists(path), fits))
        } else {
            let there = Condition::Exists(path);
            Some(fits.map_or(there.clone(), |fits| and(there, fits)))
        }
    }

    /// Checks the record as it will be. Where the schema says so, what it breaks is recorded.
    fn recheck(
        &self,
        fields: &mut Fields,
        changes: &Changes,
        written: &mut BTreeSet<String>,
    ) -> Result<(), Error> {
        let entity = self.entity();
        match &entity.policy.checks {
            CheckMode::Strict => {
                let violations = self.violations_of(fields, changes.partial());
                if !violations.is_empty() {
                    return Err(Invalid { entity: entity.name.clone(), violations }.into());
                }
            }
            CheckMode::Record(into) => {
                let given = |name: &String| entity.field(name).is_some_and(Field::is_given);
                let mut draft: Fields = fields
                    .iter()
                    .filter(|(name, _)| given(name))
                    .map(|(n, v)| (n.clone(), v.clone()))
                    .collect();
                if !changes.set.contains_key(into) {
                    draft.remove(into);
                }
                match self.checked(draft)?.remove(into) {
                    Some(found) => fields.insert(into.clone(), found),
                    None => fields.remove(into),
                };
                written.insert(into.clone());
            }
        }
        Ok(())
    }

    fn write(
        &self,
        update: &mut larder_expr::Update,
        field: &Field,
        value: Option<&Value>,
    ) -> Result<(), Error> {
        let path = Path::attribute(&field.attribute);
        match value.filter(|value| !value.is_left_out(&field.kind)) {
            Some(value) => {
                let stored = SetOperand::value(self.encoded(field, value)?);
                update.set.push((path, SetValue::Is(stored)));
            }
            None => update.remove.push(path),
        }
        Ok(())
    }

    pub(crate) fn encoded(&self, field: &Field, value: &Value) -> Result<AttributeValue, Error> {
        self.schema.encode(&field.kind, value).ok_or_else(|| self.not_of_type(field))
    }

    fn not_of_type(&self, field: &Field) -> Error {
        Error::Record {
            entity: self.name().to_owned(),
            cause: larder_schema::RecordError::Value {
                field: field.name.clone(),
                wanted: field.kind.to_string(),
            },
        }
    }

    /// The stored attributes that what was worked out rests on.
    fn carriers(&self, affected: &Affected) -> BTreeSet<String> {
        let entity = self.entity();
        let carries = |field: &Field, name: &str| {
            let in_template = match &field.equation {
                Some(Expr::Template(template)) => template.holes().any(|hole| hole.field == name),
                _ => false,
            };
            field.is_stored() && (field.name == name || in_template)
        };
        let mut inputs: Vec<&str> = affected.inputs.iter().map(String::as_str).collect();
        let mut at = 0;
        // What is not stored rests on what is.
        while let Some(name) = inputs.get(at) {
            let unstored = entity.field(name).filter(|field| field.role == Role::Let);
            let behind = unstored.and_then(|field| field.equation.as_ref()).map(Expr::fields);
            let new: Vec<&str> = behind.into_iter().flatten().filter(|name| !inputs.contains(name)).collect();
            inputs.extend(new);
            at += 1;
        }
        inputs
            .into_iter()
            .flat_map(|name| entity.fields.iter().filter(move |field| carries(field, name)))
            .map(|field| field.attribute.clone())
            .collect()
    }
}

impl Core {
    /// What a partial write would send, as things are now, and whether its condition rests on what was read.
    pub(crate) async fn planned_change(
        &self,
        key: &Item,
        changes: &Changes,
    ) -> Result<(Planned, bool), Refused> {
        let changes = &self.conformed(changes.clone());
        self.check_changes(changes)?;
        self.flush_pending(key).await?;
        let scope = self.scope(changes);
        // Whether there is a map to set an entry in, only the item tells.
        let known = self.known_from_key(key, changes, &scope)?;
        if let Some(known) = known.filter(|_| changes.entries.is_empty()) {
            return Ok((self.rewrite(key, changes, &scope, known, None)?.planned(key), false));
        }
        let Some(item) = self.current(key, None).await? else { return Err(Refused::Missing) };
        let asked = changes.condition.as_ref();
        if !asked.is_none_or(|asked| asked.holds(Some(&item)).unwrap_or(false)) {
            return Err(Refused::Condition(Box::new(item)));
        }
        let rewrite = self.rewrite(key, changes, &scope, self.fields_of(&item)?, Some(&item))?;
        let Some(guard) = oversize::guard(&item) else { return Ok((rewrite.planned(key), true)) };
        let item = oversize::without_marks(self.applied(key, &item, &rewrite)?);
        let condition = and(self.is_there(self.unix_now()), guard);
        Ok((self.put_of(item, Some(condition))?, true))
    }
}

/// What a change has consequences for.
#[derive(Default)]
struct Affected {
    /// Computed fields, by place, in order.
    computed: Vec<usize>,
    /// What has to be known to work them out, other than each other.
    inputs: BTreeSet<String>,
    /// Lifecycles whose state is written with something that changes.
    restated: Vec<String>,
    ttl: bool,
}

fn sum(before: &Value, number: &Number) -> Value {
    match before {
        Value::Number(before) => before.checked_add(*number).map_or(Value::Number(*before), Value::Number),
        Value::Float(before) => {
            let added: f64 = number.to_string().parse().unwrap_or(0.0);
            Value::Float(before + added)
        }
        other => other.clone(),
    }
}

/// The entries that are set, as a map.
fn set_entries(entries: &BTreeMap<String, Option<Value>>) -> Value {
    Value::Map(entries.iter().filter_map(|(name, value)| Some((name.clone(), value.clone()?))).collect())
}

/// The condition that a list has room for so many more.
fn room_in_list(field: &Field, more: usize) -> Option<Condition> {
    let max = field.checks.len?.1?;
    let path = Path::attribute(&field.attribute);
    let room = i64::try_from(max.checked_sub(more)?).ok()?;
    let fits = Condition::Compare {
        left: Operand::Size(path.clone()),
        comparator: Comparator::LessOrEqual,
        right: Operand::value(room),
    };
    Some(or(Condition::NotExists(path), fits))
}
