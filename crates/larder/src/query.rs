//! Queries: what an index, or the table's own key, answers in one range.
//!
//! A query is expressed in fields: the partition as the schema names it, the range by values of the sort key. What
//! has expired is left out, and so is whatever else lives in the same partition.
//!
//! Promises:
//! - Following cursors visits every record once that was there all the time, in order.
//! - A limit counts records that are given, not items that were read on the way.
//! - A record that cannot be read is left out and told, and hides no other; see [`Unread`].
//! - A cursor is checked when it comes back: it leads nowhere but to its own partition.

pub(crate) mod cursor;
mod explain;

use std::collections::VecDeque;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use futures_core::Stream;
use larder_expr::{Comparator, Condition, KeyCondition, KeyTest, Operand, Projection, SortTest};
use larder_model::{AttributeValue, IndexName, Item, Path, UnixTime};
use larder_ops::{self as ops, ReturnCapacity};
use larder_schema::jiff::Timestamp;
use larder_schema::schema::{self, Consistency, Index};
use larder_schema::{Access, BuildError, Fields, SortKey, Value};

use crate::entity::{Core, and};
use crate::shelf::{self, FieldType, Record, Shelf, View};
use crate::{Error, Unread, batch, oversize};

pub use explain::Explanation;

/// What is asked for at once when much of what is read is left out.
pub(crate) const READ_AT_ONCE_MAX: usize = 1000;
/// After every text that a key can hold.
const LAST_CHARACTER: char = char::MAX;

/// A query that has not been sent. `V` is what it gives, `S` what its sort key holds.
///
/// ```
/// # larder::schema!("examples/library.larder");
/// # use library::{Library, NewBook};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let library = Library::open(larder::Store::memory().await).await?;
/// # for (isbn, year) in [("1", 1811), ("2", 1813), ("3", 1815)] {
/// #     library.books().create(NewBook { author: Some("Austen".to_owned()), year: Some(year), ..NewBook::new(isbn) }).await?;
/// # }
/// let books = library.books();
/// let page = books.by_author("Austen").newest_first().limit(2).page().await?;
/// assert_eq!((page.items[0].year, page.items[1].year), (Some(1815), Some(1813)));
/// let cursor = page.cursor.expect("there is one more");
/// let rest = books.by_author("Austen").newest_first().start_at(cursor).all().await?;
/// assert_eq!(rest[0].year, Some(1811));
/// # Ok(())
/// # }
/// ```
#[must_use = "a query is sent by `page`, `all`, `stream` or `count`"]
pub struct Query<V, S = Value> {
    core: Arc<Core>,
    /// A mistake in it is reported when it is sent.
    asked: Result<Asked, Error>,
    types: PhantomData<fn(S) -> V>,
}

/// Some of the records, in order.
///
/// ```
/// # larder::schema!("examples/library.larder");
/// # use library::{Library, NewBook};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let library = Library::open(larder::Store::memory().await).await?;
/// # for (isbn, year) in [("1", 1811), ("2", 1813), ("3", 1815)] {
/// #     library.books().create(NewBook { author: Some("Austen".to_owned()), year: Some(year), ..NewBook::new(isbn) }).await?;
/// # }
/// let page = library.books().by_author("Austen").page().await?;
/// assert_eq!((page.items.len(), page.cursor), (3, None));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Page<V> {
    /// The records.
    pub items: Vec<V>,
    /// Where the next page begins, if there may be one. It can be given to a client.
    pub cursor: Option<String>,
    /// What was left out because it cannot be read.
    pub unread: Unread,
    /// The read units it took, as the store counted them.
    pub units: f64,
}

#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// A place in the table's indexes.
    index: Option<usize>,
    partition: Vec<(String, AttributeValue)>,
    sort: Option<SortKey>,
    range: Range,
    forward: bool,
    limit: Option<usize>,
    start: Option<Item>,
    even_expired: bool,
    consistent: bool,
    strict: bool,
    /// What else must hold of an item, beside its keys.
    filter: Option<Condition>,
    /// The first and the last moment that are meant, where the sort key is one.
    moments: (Option<Timestamp>, Option<Timestamp>),
    once: bool,
}

/// What a read reports, beside the records.
#[derive(Debug, Default)]
pub(crate) struct Told {
    pub(crate) unread: Unread,
    pub(crate) units: f64,
}

#[derive(Clone, Debug, PartialEq)]
enum Range {
    All,
    At(AttributeValue),
    Between(Option<AttributeValue>, Option<AttributeValue>),
    Begins(String),
}

impl<R: Record> Shelf<R> {
    /// Asks an index, by its name in the schema, for a partition: one value for each field it needs, in order.
    ///
    /// ```
    /// # larder::schema!("examples/library.larder");
    /// # use library::{Library, NewBook};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let library = Library::open(larder::Store::memory().await).await?;
    /// # for (isbn, year) in [("1", 1811), ("2", 1813), ("3", 1815)] {
    /// #     library.books().create(NewBook { author: Some("Austen".to_owned()), year: Some(year), ..NewBook::new(isbn) }).await?;
    /// # }
    /// // By the names of the schema; `by_author` is a method of the typed handle.
    /// let books = library.entries("Book").expect("the schema has it");
    /// assert_eq!(books.index("by_author", ["Austen"]).count().await?, 3);
    /// # Ok(())
    /// # }
    /// ```
    pub fn index<P: Into<Value>>(&self, index: &str, partition: impl IntoIterator<Item = P>) -> Query<R> {
        Query::new(self, Some(index), partition.into_iter().map(Into::into).collect())
    }

    /// Asks an index with the fields of its partition by name.
    ///
    /// ```
    /// # larder::schema!("examples/library.larder");
    /// # use library::{Library, NewBook};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let library = Library::open(larder::Store::memory().await).await?;
    /// # for (isbn, year) in [("1", 1811), ("2", 1813), ("3", 1815)] {
    /// #     library.books().create(NewBook { author: Some("Austen".to_owned()), year: Some(year), ..NewBook::new(isbn) }).await?;
    /// # }
    /// let books = library.entries("Book").expect("the schema has it");
    /// let author = larder::Fields::from([("author".to_owned(), "Austen".into())]);
    /// assert_eq!(books.index_by("by_author", author).all().await?[0].fields["year"], 1811.into());
    /// # Ok(())
    /// # }
    /// ```
    pub fn index_by(&self, index: &str, partition: Fields) -> Query<R> {
        Query::named(self, Some(index), partition)
    }

    /// Asks the table itself for a partition, such as the pages of one shop.
    ///
    /// ```
    /// # larder::schema!("examples/library.larder");
    /// # use library::{Library, NewLoan};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let library = Library::open(larder::Store::memory().await).await?;
    /// # for _ in 0..3 {
    /// #     library.loans().create(NewLoan { isbn: "1".to_owned(), number: None, reader: "Ada".to_owned() }).await?;
    /// # }
    /// let loans = library.loans().within("1").newest_first().limit(2).all().await?;
    /// assert_eq!((loans[0].number, loans[1].number), (3, 2));
    /// # Ok(())
    /// # }
    /// ```
    pub fn within<P: Into<Value>>(&self, partition: impl IntoIterator<Item = P>) -> Query<R> {
        Query::new(self, None, partition.into_iter().map(Into::into).collect())
    }

    /// Asks the table itself with the fields of a partition by name.
    ///
    /// ```
    /// # larder::schema!("examples/library.larder");
    /// # use library::{Library, NewLoan};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let library = Library::open(larder::Store::memory().await).await?;
    /// # for _ in 0..3 {
    /// #     library.loans().create(NewLoan { isbn: "1".to_owned(), number: None, reader: "Ada".to_owned() }).await?;
    /// # }
    /// let loans = library.entries("Loan").expect("the schema has it");
    /// let book = larder::Fields::from([("isbn".to_owned(), "1".into())]);
    /// assert_eq!(loans.within_by(book).count().await?, 3);
    /// # Ok(())
    /// # }
    /// ```
    pub fn within_by(&self, partition: Fields) -> Query<R> {
        Query::named(self, None, partition)
    }
}

impl<V, S> Query<V, S> {
    /// A query of an index, or of the table itself, for code made by [`schema!`](crate::schema).
    pub fn new<R>(shelf: &Shelf<R>, index: Option<&str>, partition: Vec<Value>) -> Self {
        Self::on(&shelf.core, index, |access| {
            if partition.len() > access.arguments.len() {
                let names: Vec<&str> = access.arguments.iter().map(|argument| &*argument.name).collect();
                return Err(Error::NotAllowed(format!(
                    "the partition is named by {} alone",
                    names.join(", ")
                )));
            }
            Ok(partition)
        })
    }

    fn named<R>(shelf: &Shelf<R>, index: Option<&str>, mut partition: Fields) -> Self {
        Self::on(&shelf.core, index, |access| {
            let values = access.arguments.iter().map(|argument| {
                let value = partition.remove(&argument.name);
                value.ok_or_else(|| Error::Key {
                    entity: shelf.core.name().to_owned(),
                    cause: BuildError::Missing(argument.name.clone()),
                })
            });
            let values = values.collect::<Result<Vec<Value>, Error>>()?;
            match partition.into_keys().next() {
                None => Ok(values),
                Some(other) => Err(Error::NotAllowed(format!("`{other}` does not name a partition here"))),
            }
        })
    }

    fn on(
        core: &Arc<Core>,
        index: Option<&str>,
        values: impl FnOnce(&Access) -> Result<Vec<Value>, Error>,
    ) -> Self {
        let asked = core.access(index).and_then(|(index, access)| {
            let partition = access.partition(&core.schema, &values(&access)?);
            let partition =
                partition.map_err(|cause| Error::Key { entity: core.name().to_owned(), cause })?;
            Ok(Asked::new(core, index, partition, access.sort))
        });
        Self { core: Arc::clone(core), asked, types: PhantomData }
    }

    fn with(mut self, change: impl FnOnce(&Core, &mut Asked) -> Result<(), Error>) -> Self {
        if let Ok(asked) = &mut self.asked
            && let Err(error) = change(&self.core, asked)
        {
            self.asked = Err(error);
        }
        self
    }
}

impl Core {
    /// How an index, or the table's own key, is asked.
    pub(crate) fn access(&self, index: Option<&str>) -> Result<(Option<usize>, Access), Error> {
        let (table, entity) = (self.table(), self.entity());
        let found = index.map(|name| table.index(name).ok_or(name)).transpose();
        let access = found.map(|index| (index, entity.access(table, index)));
        if let Ok((found, Some(access))) = access {
            let at = found.and_then(|found| table.indexes.iter().position(|index| index.name == found.name));
            return Ok((at, access));
        }
        let known: Vec<&str> = table
            .indexes
            .iter()
            .filter(|index| entity.access(table, Some(index)).is_some())
            .map(|index| index.alias.as_str())
            .collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        Err(Error::NotAllowed(format!(
            "no index `{}` holds {}; those that do: {known}",
            index.unwrap_or_default(),
            entity.name
        )))
    }
}

impl<V: View, S: FieldType> Query<V, S> {
    /// Only what has this sort key.
    ///
    /// ```
    /// # larder::schema!("examples/library.larder");
    /// # use library::{Library, NewBook};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let library = Library::open(larder::Store::memory().await).await?;
    /// # for (isbn, year) in [("1", 1811), ("2", 1813), ("3", 1815)] {
    /// #     library.books().create(NewBook { author: Some("Austen".to_owned()), year: Some(year), ..NewBook::new(isbn) }).await?;
    /// # }
    /// let books = library.books().by_author("Austen").at(1813).all().await?;
    /// assert_eq!((books.len(), books[0].isbn.as_str()), (1, "2"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn at(self, value: impl Into<S>) -> Self {
        let value = value.into().to_value();
        self.with(|core, asked| {
            asked.range = match asked.forms(&value) {
                Some((first, last)) => Range::Between(Some(first), Some(last)),
                None => Range::At(asked.bound(core, &value)?),
            };
            asked.moments = (value.as_instant(), value.as_instant());
            Ok(())
        })
    }

    /// What has this sort key or a later one.
    ///
    /// ```
    /// # larder::schema!("examples/library.larder");
    /// # use library::{Library, NewBook};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let library = Library::open(larder::Store::memory().await).await?;
    /// # for (isbn, year) in [("1", 1811), ("2", 1813), ("3", 1815)] {
    /// #     library.books().create(NewBook { author: Some("Austen".to_owned()), year: Some(year), ..NewBook::new(isbn) }).await?;
    /// # }
    /// assert_eq!(library.books().by_author("Austen").from(1813).count().await?, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn from(self, value: impl Into<S>) -> Self {
        let value = value.into().to_value();
        self.with(|core, asked| {
            let low = match asked.forms(&value) {
                Some((first, _)) => first,
                None => asked.bound(core, &value)?,
            };
            asked.range = match std::mem::replace(&mut asked.range, Range::All) {
                Range::Between(_, high) => Range::Between(Some(low), high),
                Range::All | Range::At(_) | Range::Begins(_) => Range::Between(Some(low), None),
            };
            asked.moments.0 = value.as_instant();
            Ok(())
        })
    }

    /// What has this sort key or an earlier one.
    ///
    /// ```
    /// # larder::schema!("examples/library.larder");
    /// # use library::{Library, NewBook};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let library = Library::open(larder::Store::memory().await).await?;
    /// # for (isbn, year) in [("1", 1811), ("2", 1813), ("3", 1815)] {
    /// #     library.books().create(NewBook { author: Some("Austen".to_owned()), year: Some(year), ..NewBook::new(isbn) }).await?;
    /// # }
    /// assert_eq!(library.books().by_author("Austen").until(1811).count().await?, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn until(self, value: impl Into<S>) -> Self {
        let value = value.into().to_value();
        self.with(|core, asked| {
            let high = match asked.forms(&value) {
                Some((_, last)) => last,
                None => asked.bound(core, &value)?,
            };
            asked.range = match std::mem::replace(&mut asked.range, Range::All) {
                Range::Between(low, _) => Range::Between(low, Some(high)),
                Range::All | Range::At(_) | Range::Begins(_) => Range::Between(None, Some(high)),
            };
            asked.moments.1 = value.as_instant();
            Ok(())
        })
    }

    /// What has a sort key from the first to the second, both included.
    ///
    /// ```
    /// # larder::schema!("examples/library.larder");
    /// # use library::{Library, NewBook};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let library = Library::open(larder::Store::memory().await).await?;
    /// # for (isbn, year) in [("1", 1811), ("2", 1813), ("3", 1815)] {
    /// #     library.books().create(NewBook { author: Some("Austen".to_owned()), year: Some(year), ..NewBook::new(isbn) }).await?;
    /// # }
    /// assert_eq!(library.books().by_author("Austen").between(1811, 1813).count().await?, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn between(self, low: impl Into<S>, high: impl Into<S>) -> Self {
        self.from(low).until(high)
    }

    /// What has a sort key that begins with a text.
    ///
    /// ```
    /// # larder::schema!("examples/notes.larder");
    /// # use notes::{NewNote, NewNoteRequired, Notes};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let notes = Notes::open(larder::Store::memory().await).await?;
    /// for title in ["milk", "mint", "salt"] {
    ///     let given = NewNoteRequired { owner: "ada".into(), title: title.into(), text: String::new() };
    ///     let note = NewNote::new(given);
    ///     notes.notes().create(note).await?;
    /// }
    /// assert_eq!(notes.notes().within("ada").begins_with("mi").count().await?, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn begins_with(self, text: impl AsRef<str>) -> Self {
        self.with(|_, asked| {
            let beginning = asked.sort.as_ref().and_then(|sort| sort.beginning(text.as_ref()));
            asked.moments = (None, None);
            asked.range = beginning.map(Range::Begins).ok_or_else(|| {
                Error::NotAllowed("only a sort key that is a text can begin with one".to_owned())
            })?;
            Ok(())
        })
    }

    /// From the last sort key to the first.
    pub fn newest_first(self) -> Self {
        self.with(|_, asked| {
            asked.forward = false;
            Ok(())
        })
    }

    /// From the first sort key to the last, as it is unless said otherwise.
    pub fn oldest_first(self) -> Self {
        self.with(|_, asked| {
            asked.forward = true;
            Ok(())
        })
    }

    /// At most so many records.
    pub fn limit(self, records: usize) -> Self {
        self.with(|_, asked| {
            asked.limit = Some(records);
            Ok(())
        })
    }

    /// After the last record of an earlier page.
    ///
    /// ```
    /// # larder::schema!("examples/library.larder");
    /// # use library::{Library, NewBook};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let library = Library::open(larder::Store::memory().await).await?;
    /// # for (isbn, year) in [("1", 1811), ("2", 1813), ("3", 1815)] {
    /// #     library.books().create(NewBook { author: Some("Austen".to_owned()), year: Some(year), ..NewBook::new(isbn) }).await?;
    /// # }
    /// let books = library.books();
    /// let (mut seen, mut query) = (0, books.by_author("Austen").limit(1));
    /// while let page = query.page().await? {
    ///     seen += page.items.len();
    ///     let Some(cursor) = page.cursor else { break };
    ///     query = books.by_author("Austen").limit(1).start_at(cursor);
    /// }
    /// assert_eq!(seen, 3);
    /// # Ok(())
    /// # }
    /// ```
    pub fn start_at(self, cursor: impl AsRef<str>) -> Self {
        self.with(|core, asked| {
            asked.start = Some(cursor::read(core, asked, cursor.as_ref())?);
            Ok(())
        })
    }

    /// Also what has expired and is still stored.
    ///
    /// ```
    /// # larder::schema!("examples/library.larder");
    /// # use library::{Library, NewLoan};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let library = Library::open(larder::Store::memory().await).await?;
    /// use std::time::Duration;
    ///
    /// # for _ in 0..3 {
    /// #     library.loans().create(NewLoan { isbn: "1".to_owned(), number: None, reader: "Ada".to_owned() }).await?;
    /// # }
    /// library.store().clock().advance(Duration::from_secs(15 * 24 * 60 * 60)); // a loan lasts 14 days
    /// assert_eq!(library.loans().within("1").count().await?, 0);
    /// assert_eq!(library.loans().within("1").even_expired().count().await?, 3);
    /// # Ok(())
    /// # }
    /// ```
    pub fn even_expired(self) -> Self {
        self.with(|_, asked| {
            asked.even_expired = true;
            Ok(())
        })
    }

    /// Sees every write that was answered before. An index cannot.
    ///
    /// ```
    /// # larder::schema!("examples/library.larder");
    /// # use library::{Library, NewLoan};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let library = Library::open(larder::Store::memory().await).await?;
    /// # for _ in 0..3 {
    /// #     library.loans().create(NewLoan { isbn: "1".to_owned(), number: None, reader: "Ada".to_owned() }).await?;
    /// # }
    /// assert_eq!(library.loans().within("1").consistent().count().await?, 3);
    /// assert!(library.books().by_author("Austen").consistent().all().await.is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn consistent(self) -> Self {
        self.with(|core, asked| match asked.index(core) {
            None => {
                asked.consistent = true;
                Ok(())
            }
            Some(index) => Err(Error::NotAllowed(format!(
                "index `{}` follows its table with a delay: only the table itself can be read consistently",
                index.alias
            ))),
        })
    }

    /// Only items of which this holds; the store reads the others too, and counts them. Of several, all must hold.
    /// A filter on what the index does not hold, or on what may be packed or split off, would answer wrongly: it is
    /// refused with [`Error::NotAllowed`].
    ///
    /// ```
    /// # larder::schema!("examples/library.larder");
    /// # use library::{Library, NewBook};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let library = Library::open(larder::Store::memory().await).await?;
    /// # for (isbn, copies) in [("1", 1), ("2", 5)] {
    /// #     library.books().create(NewBook { author: Some("Austen".to_owned()), year: Some(1811), copies: Some(copies), ..NewBook::new(isbn) }).await?;
    /// # }
    /// use larder::store::{Comparator, Condition, Operand};
    /// use larder_model::Path;
    ///
    /// let copies = Operand::Path(Path::attribute("copies"));
    /// let several = Condition::Compare { left: copies, comparator: Comparator::Greater, right: Operand::value(1) };
    /// let page = library.books().by_author("Austen").filter(several).page().await?;
    /// assert_eq!((page.items.len(), page.items[0].isbn.as_str(), page.units), (1, "2", 0.5));
    /// # Ok(())
    /// # }
    /// ```
    pub fn filter(self, condition: Condition) -> Self {
        self.with(|core, asked| {
            filterable(core, asked.index(core), &condition)?;
            let before = asked.filter.take();
            asked.filter = before.into_iter().chain([condition]).reduce(and);
            Ok(())
        })
    }

    /// A page is what one request of the store gives, at most a megabyte, as [`Scan::once`](crate::Scan::once) has it.
    pub fn once(self) -> Self {
        self.with(|_, asked| {
            asked.once = true;
            Ok(())
        })
    }

    /// A record that cannot be read is an error, instead of being left out and told in [`Page::unread`], the log and
    /// the metrics.
    pub fn strict(self) -> Self {
        self.with(|_, asked| {
            asked.strict = true;
            Ok(())
        })
    }

    /// The first records, up to the limit; without one, what the store gives at once.
    pub async fn page(self) -> Result<Page<V>, Error> {
        let (core, asked) = (self.core, self.asked?.ready()?);
        let mut told = Told::default();
        let (items, next) = asked.next(&core, asked.start.clone(), asked.limit, &mut told).await?;
        Ok(Page {
            items,
            cursor: next.map(|key| cursor::write(&key)),
            unread: told.unread,
            units: told.units,
        })
    }

    /// All records, up to the limit.
    pub async fn all(self) -> Result<Vec<V>, Error> {
        let (core, asked) = (self.core, self.asked?.ready()?);
        let (mut all, mut start, mut told) = (Vec::new(), asked.start.clone(), Told::default());
        loop {
            let left = asked.limit.map(|limit| limit - all.len());
            let (items, next) = asked.next(&core, start, left, &mut told).await?;
            all.extend(items);
            start = next;
            if start.is_none() || asked.limit.is_some_and(|limit| all.len() >= limit) {
                return Ok(all);
            }
        }
    }

    /// All records, up to the limit, read as they are taken. It ends after an error.
    ///
    /// ```
    /// # larder::schema!("examples/library.larder");
    /// # use library::{Library, NewBook};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let library = Library::open(larder::Store::memory().await).await?;
    /// use futures_util::TryStreamExt as _;
    ///
    /// # for (isbn, year) in [("1", 1811), ("2", 1813), ("3", 1815)] {
    /// #     library.books().create(NewBook { author: Some("Austen".to_owned()), year: Some(year), ..NewBook::new(isbn) }).await?;
    /// # }
    /// let mut books = std::pin::pin!(library.books().by_author("Austen").stream());
    /// let mut years = Vec::new();
    /// while let Some(book) = books.try_next().await? {
    ///     years.extend(book.year);
    /// }
    /// assert_eq!(years, [1811, 1813, 1815]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn stream(self) -> impl Stream<Item = Result<V, Error>> + Send {
        let state = match self.asked.and_then(Asked::ready) {
            Ok(asked) => Ok(Reading {
                start: asked.start.clone(),
                left: asked.limit,
                asked,
                ready: VecDeque::new(),
                over: false,
                told: Told::default(),
            }),
            Err(error) => Err(error),
        };
        futures_util::stream::try_unfold((self.core, state), |(core, state)| async move {
            let mut reading: Reading<V> = state?;
            while reading.ready.is_empty() && !reading.over {
                reading.more(&core).await?;
            }
            let Some(record) = reading.ready.pop_front() else { return Ok(None) };
            Ok(Some((record, (core, Ok(reading)))))
        })
    }

    /// How many records there are, up to the limit, those that cannot be read included. It reads as much as
    /// [`Query::all`] does, and transfers less.
    pub async fn count(self) -> Result<usize, Error> {
        let (core, asked) = (self.core, self.asked?.ready()?);
        let mut start = asked.start.clone();
        let mut count = 0;
        loop {
            let page = core.store.query(asked.request(&core, start, None, true)).await?;
            count += asked.living(&core, page.items).await?.len();
            start = page.last_key;
            match asked.limit {
                Some(limit) if count >= limit => return Ok(limit),
                _ if start.is_none() => return Ok(count),
                _ => {}
            }
        }
    }

    /// What would be asked and what that would cost, without asking.
    ///
    /// ```
    /// # larder::schema!("examples/library.larder");
    /// # use library::Library;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let library = Library::open(larder::Store::memory().await).await?;
    /// let explained = library.books().by_author("Austen").from(1813).explain()?;
    /// assert!(explained.keys.starts_with(r#"author = "Austen" AND year >="#));
    /// println!("{explained}"); // with what it costs, and the request
    /// # Ok(())
    /// # }
    /// ```
    pub fn explain(&self) -> Result<Explanation, Error> {
        let asked = self.asked.as_ref().map_err(Clone::clone)?;
        Ok(explain::explain(&self.core, asked))
    }
}

/// A stream under way.
struct Reading<V> {
    asked: Asked,
    start: Option<Item>,
    left: Option<usize>,
    ready: VecDeque<V>,
    over: bool,
    told: Told,
}

impl<V: View> Reading<V> {
    async fn more(&mut self, core: &Arc<Core>) -> Result<(), Error> {
        let (items, next) = self.asked.next(core, self.start.take(), self.left, &mut self.told).await?;
        self.left = self.left.map(|left| left.saturating_sub(items.len()));
        self.over = next.is_none() || self.left == Some(0);
        self.start = next;
        self.ready.extend(items);
        Ok(())
    }
}

impl Asked {
    pub(crate) fn new(
        core: &Core,
        index: Option<usize>,
        partition: Vec<(String, AttributeValue)>,
        sort: Option<SortKey>,
    ) -> Self {
        Self {
            consistent: index.is_none() && core.entity().policy.reads == Consistency::Strong,
            index,
            partition,
            sort,
            range: Range::All,
            forward: true,
            limit: None,
            start: None,
            even_expired: false,
            strict: false,
            filter: None,
            moments: (None, None),
            once: false,
        }
    }

    /// A cursor of the same partition may lie outside the range, which is known only now.
    fn ready(self) -> Result<Self, Error> {
        let test = self.sort.as_ref().and_then(|sort| Some((sort, self.sort_test(&sort.prefix)?)));
        match (&self.start, test) {
            (Some(start), Some((sort, test))) if !lies_within(start, &sort.attribute, &test) => {
                Err(Error::Cursor { cause: "it is outside the range" })
            }
            _ => Ok(self),
        }
    }

    fn index<'a>(&self, core: &'a Core) -> Option<&'a Index> {
        self.index.and_then(|at| core.table().indexes.get(at))
    }

    fn forms(&self, value: &Value) -> Option<(AttributeValue, AttributeValue)> {
        self.sort.as_ref()?.forms(value)
    }

    /// Whether the moment of an item is one of those that are meant. What holds none is told when it is read.
    fn is_meant(&self, core: &Core, item: &Item) -> bool {
        let (first, last) = self.moments;
        let Some(sort) = self.sort.as_ref().filter(|_| first.is_some() || last.is_some()) else {
            return true;
        };
        let stored = item.get(&sort.attribute).and_then(|stored| core.schema.decode(&sort.kind, stored));
        stored
            .and_then(|value| value.as_instant())
            .is_none_or(|at| first.is_none_or(|first| first <= at) && last.is_none_or(|last| at <= last))
    }

    fn bound(&self, core: &Core, value: &Value) -> Result<AttributeValue, Error> {
        let Some(sort) = &self.sort else {
            return Err(Error::NotAllowed(format!("{} has no sort key to give a range of", core.name())));
        };
        sort.store(&core.schema, value).ok_or_else(|| {
            Error::NotAllowed(format!(
                "the sort key `{}` is of type {}, and this value is not",
                sort.attribute, sort.kind
            ))
        })
    }

    /// The next records, at most so many and at least one unless none are left, and where to go on.
    async fn next<V: View>(
        &self,
        core: &Arc<Core>,
        mut start: Option<Item>,
        most: Option<usize>,
        told: &mut Told,
    ) -> Result<(Vec<V>, Option<Item>), Error> {
        if most == Some(0) {
            return Ok((Vec::new(), start));
        }
        let now = core.unix_now();
        let mut found = Vec::new();
        let mut ask = most.filter(|_| !(self.once && self.filter.is_some()));
        loop {
            let page = core.store.query(self.request(core, start, ask, false)).await?;
            start = page.last_key;
            told.units += page.units;
            let mut living = self.living(core, page.items).await?.into_iter().peekable();
            while let Some(item) = living.next() {
                let is_last = most.is_some_and(|most| found.len() + 1 >= most);
                let position = (is_last && living.peek().is_some()).then(|| self.position(core, &item));
                let Some(item) = oversize::join(core, item).await? else { continue };
                found.extend(told.unread.take(core, self.read(core, &item, now), self.strict)?);
                if most.is_some_and(|most| found.len() >= most) {
                    return Ok((found, position.or(start)));
                }
            }
            if start.is_none() || self.once || (most.is_none() && !found.is_empty()) {
                return Ok((found, start));
            }
            // What is left out is often followed by more of its kind.
            ask = ask.map(|ask| ask.saturating_mul(2).min(READ_AT_ONCE_MAX.max(ask)));
        }
    }

    fn read<V: View>(&self, core: &Arc<Core>, item: &Item, now: UnixTime) -> Result<V, Error> {
        match self.index(core).map(|index| &index.projection) {
            None | Some(schema::Projection::All) => shelf::read(core, item, now),
            Some(schema::Projection::Keys) => shelf::read_part(core, item, now, &[]),
            Some(schema::Projection::Include(shown)) => shelf::read_part(core, item, now, shown),
        }
    }

    /// The attributes that say where an item is.
    fn position_names<'a>(&self, core: &'a Core) -> Vec<&'a schema::KeyAttribute> {
        let table = core.table();
        let keys = std::iter::once(&table.partition).chain(table.sort.as_ref());
        let index = self.index(core).into_iter().flat_map(|index| index.partition.iter().chain(&index.sort));
        let mut names: Vec<&schema::KeyAttribute> = Vec::new();
        for key in keys.chain(index) {
            if names.iter().all(|known| known.attribute != key.attribute) {
                names.push(key);
            }
        }
        names
    }

    fn position(&self, core: &Core, item: &Item) -> Item {
        let names = self.position_names(core).into_iter();
        names.filter_map(|key| Some((key.attribute.clone(), item.get(&key.attribute)?.clone()))).collect()
    }

    /// Only keys that begin so. Nothing is left out by an empty beginning.
    pub(crate) fn begin(&mut self, beginning: String) {
        self.range = Range::Begins(beginning);
    }

    pub(crate) fn request(
        &self,
        core: &Core,
        start: Option<Item>,
        limit: Option<usize>,
        keys_only: bool,
    ) -> ops::Query {
        let index = self.index(core).and_then(|index| IndexName::new(index.name.clone()).ok());
        let projection = keys_only.then(|| {
            let mut names: Vec<&str> = self.position_names(core).iter().map(|key| &*key.attribute).collect();
            if self.shows_end(core) {
                names.extend(core.ends_in());
            }
            if self.index.is_none() {
                names.extend(batch::MARKS);
            }
            names.dedup();
            Projection { paths: names.into_iter().map(Path::attribute).collect() }
        });
        ops::Query {
            table: core.table_name.clone(),
            index,
            key_condition: self.key_condition(),
            filter: self.filter.clone(),
            legacy_filter: false,
            projection,
            select: None,
            limit,
            forward: self.forward,
            start,
            consistent: self.consistent,
            skip_damaged: false,
            capacity: ReturnCapacity::Total,
        }
    }

    fn key_condition(&self) -> KeyCondition {
        let equal = |(attribute, value): &(String, AttributeValue)| KeyTest {
            attribute: attribute.as_str().into(),
            test: SortTest::Equal(value.clone().into()),
        };
        let mut tests: Vec<KeyTest> = self.partition.iter().map(equal).collect();
        if let Some(sort) = &self.sort {
            let test = self.sort_test(&sort.prefix);
            tests.extend(test.map(|test| KeyTest { attribute: sort.attribute.as_str().into(), test }));
        }
        KeyCondition { tests }
    }

    /// The range, kept within what begins as every key of the entity does.
    fn sort_test(&self, prefix: &str) -> Option<SortTest> {
        let prefixed = !prefix.is_empty();
        let text = |text: String| Arc::new(AttributeValue::S(text));
        Some(match self.range.clone() {
            Range::All | Range::Between(None, None) if prefixed => {
                SortTest::BeginsWith(text(prefix.to_owned()))
            }
            Range::All | Range::Between(None, None) => return None,
            Range::At(value) => SortTest::Equal(value.into()),
            Range::Begins(beginning) if beginning.is_empty() => return None,
            Range::Begins(beginning) => SortTest::BeginsWith(text(beginning)),
            Range::Between(Some(low), Some(high)) => SortTest::Between(low.into(), high.into()),
            Range::Between(Some(low), None) if prefixed => {
                SortTest::Between(low.into(), text(format!("{prefix}{LAST_CHARACTER}")))
            }
            Range::Between(Some(low), None) => SortTest::GreaterOrEqual(low.into()),
            Range::Between(None, Some(high)) if prefixed => {
                SortTest::Between(text(prefix.to_owned()), high.into())
            }
            Range::Between(None, Some(high)) => SortTest::LessOrEqual(high.into()),
        })
    }

    /// Whether the projection has the TTL.
    fn shows_end(&self, core: &Core) -> bool {
        let mut ends = core.ends_in();
        self.index(core).is_none_or(|index| ends.all(|end| index.holds(core.table(), end)))
    }

    /// Leaves out what is of another entity, outside the range, or has expired.
    async fn living(&self, core: &Core, items: Vec<Item>) -> Result<Vec<Item>, Error> {
        let now = core.unix_now();
        let ours = items.into_iter().filter(|item| core.owns(item) && self.is_meant(core, item));
        let mut ours: Vec<Item> = ours.collect();
        if self.even_expired {
            return Ok(ours);
        }
        if self.shows_end(core) {
            ours.retain(|item| !core.is_expired(item, now));
            return Ok(ours);
        }
        // The index does not say: the table does.
        let names = std::iter::once(&core.table().partition).chain(core.table().sort.as_ref());
        let names = names.map(|key| &*key.attribute).chain(core.ends_in());
        let projection = Projection { paths: names.map(Path::attribute).collect() };
        let keys = ours.iter().map(|item| core.key_of(item)).collect();
        let mut living = Vec::new();
        for (item, stored) in ours.into_iter().zip(batch::read(core, keys, false, Some(&projection)).await) {
            if stored?.is_some_and(|stored| !core.is_expired(&stored, now)) {
                living.push(item);
            }
        }
        Ok(living)
    }
}

/// Whether a store can tell of every item if a condition holds: what an index lacks, or was moved out of the item, would
/// look absent.
pub(crate) fn filterable(core: &Core, index: Option<&Index>, condition: &Condition) -> Result<(), Error> {
    for path in condition.paths() {
        let attribute = &*path.root;
        let cause = match index {
            Some(index) if !index.holds(core.table(), attribute) => {
                format!("the index `{}` does not hold it", index.alias)
            }
            _ if oversize::may_pack(core) && !oversize::stays(core, attribute) => {
                "it may be packed or split off".to_owned()
            }
            _ => continue,
        };
        return Err(Error::NotAllowed(format!(
            "a filter on `{attribute}` would answer wrongly, as {cause}: ask another way, or compare what was read"
        )));
    }
    Ok(())
}

impl Core {
    /// Whether an item is a record of this entity, expired or not.
    pub(crate) fn owns(&self, item: &Item) -> bool {
        !batch::is_mark(item)
            && self.schema.entity_of(self.table(), item).is_some_and(|entity| entity.name == self.name())
    }
}

fn lies_within(position: &Item, attribute: &str, test: &SortTest) -> bool {
    let value = Operand::Path(Path::attribute(attribute));
    let compare = |value: Operand, comparator: Comparator, right: Arc<AttributeValue>| Condition::Compare {
        left: value,
        comparator,
        right: Operand::Value(right),
    };
    let condition = match test.clone() {
        SortTest::Equal(right) => compare(value, Comparator::Equal, right),
        SortTest::Less(right) => compare(value, Comparator::Less, right),
        SortTest::LessOrEqual(right) => compare(value, Comparator::LessOrEqual, right),
        SortTest::Greater(right) => compare(value, Comparator::Greater, right),
        SortTest::GreaterOrEqual(right) => compare(value, Comparator::GreaterOrEqual, right),
        SortTest::Between(low, high) => {
            Condition::Between { value, low: Operand::Value(low), high: Operand::Value(high) }
        }
        SortTest::BeginsWith(prefix) => Condition::BeginsWith { value, prefix: Operand::Value(prefix) },
    };
    condition.holds(Some(position)).unwrap_or(false)
}

impl<V, S> Clone for Query<V, S> {
    fn clone(&self) -> Self {
        Self { core: Arc::clone(&self.core), asked: self.asked.clone(), types: PhantomData }
    }
}

impl<V, S> fmt::Debug for Query<V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Query").field("entity", &self.core.name()).finish_non_exhaustive()
    }
}

/// Values of the schema's own kind, for programs that learn of the schema as they run.
impl FieldType for Value {
    const NAME: &'static str = "value";

    fn to_value(self) -> Value {
        self
    }

    fn from_value(value: Value) -> Option<Self> {
        Some(value)
    }
}
