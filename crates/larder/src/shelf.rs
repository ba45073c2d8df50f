//! A shelf holds the records of one entity: `keiba.races()` is a `Shelf<Race>`.
//!
//! Code made by [`schema!`](crate::schema) gives each entity its own types and implements the traits here for
//! them. [`Entry`] implements them too, by field names: it is for programs that learn of the schema as they
//! run, such as the command line.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use larder_model::{AttributeValue, Item, Number, UnixTime};
use larder_schema::jiff::civil::{Date, DateTime};
use larder_schema::jiff::{SignedDuration, Timestamp};
use larder_schema::schema::Lifecycle;
use larder_schema::{Fields, Value};

use crate::entity::Core;
use crate::{Error, oversize};

/// The records of one entity in one store. Clones are the same shelf.
///
/// ```
/// # larder::schema!("examples/library.larder");
/// # use library::{Library, NewBook};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let library = Library::open(larder::Store::memory().await).await?;
/// let books = library.books();
/// books.create(NewBook { title: Some("Emma".to_owned()), ..NewBook::new("1") }).await?;
/// books.update("1").add_copies(2).await?;
///
/// let emma = books.get("1").await?.expect("it was just made");
/// assert_eq!((emma.title.as_str(), emma.copies), ("Emma", 3));
/// # Ok(())
/// # }
/// ```
pub struct Shelf<R> {
    pub(crate) core: Arc<Core>,
    record: PhantomData<fn() -> R>,
}

impl<R> Clone for Shelf<R> {
    fn clone(&self) -> Self {
        Self::on(Arc::clone(&self.core))
    }
}

impl<R> fmt::Debug for Shelf<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shelf").field("entity", &self.core.name()).finish_non_exhaustive()
    }
}

impl<R> Shelf<R> {
    pub(crate) fn on(core: Arc<Core>) -> Self {
        Self { core, record: PhantomData }
    }
}

impl<R: Record> Shelf<R> {
    /// The key of a record as it is stored.
    pub fn stored_key(&self, key: impl Into<R::Key>) -> Result<Item, Error> {
        self.core.key(&key.into().into_fields())
    }

    /// An item as a program would have it, of the one that the store has: what was packed or split is put back. `None` if its
    /// parts are not there any more.
    ///
    /// ```
    /// # larder::schema!("examples/library.larder");
    /// # use library::{Book, Library, NewBook};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use futures_util::TryStreamExt as _;
    ///
    /// # let library = Library::open(larder::Store::memory().await).await?;
    /// library.books().create(NewBook::new("1")).await?;
    /// let items: Vec<larder::Stored> = library.dump("library").try_collect().await?;
    /// let whole = library.shelf::<Book>().joined(&items[0].item).await?;
    /// assert_eq!(whole.as_ref(), Some(&items[0].item)); // it was in one part
    /// # Ok(())
    /// # }
    /// ```
    pub async fn joined(&self, stored: &Item) -> Result<Option<Item>, Error> {
        Ok(oversize::join(&self.core, stored.clone()).await?.map(oversize::without_marks))
    }

    /// Reads an item that came another way, such as by a stream. Nothing is joined, and what has expired is read too.
    ///
    /// ```
    /// # larder::schema!("examples/library.larder");
    /// # use library::{Book, Library, NewBook};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use futures_util::TryStreamExt as _;
    ///
    /// # let library = Library::open(larder::Store::memory().await).await?;
    /// library.books().create(NewBook::new("1")).await?;
    /// let items: Vec<larder::Stored> = library.dump("library").try_collect().await?;
    /// let books = library.shelf::<Book>();
    /// assert_eq!(books.read_stored(&items[0].item)?.isbn, "1");
    /// assert_eq!(books.stored_key("1")?.len(), 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn read_stored(&self, item: &Item) -> Result<R, Error> {
        read(&self.core, item, self.core.unix_now())
    }
}

/// What can be read from an item: a record, or the part of one that an index holds.
///
/// ```
/// use larder::{Fields, Kept, Misread, View};
///
/// /// The titles alone.
/// #[derive(Debug)]
/// struct Title(String);
///
/// impl View for Title {
///     fn read(mut fields: Fields, _kept: Kept) -> Result<Self, Misread> {
///         match fields.remove("title") {
///             Some(larder::Value::Text(title)) => Ok(Self(title)),
///             _ => Err(Misread { field: "title".to_owned(), wanted: "text" }),
///         }
///     }
/// }
///
/// # larder::schema!("examples/library.larder");
/// # use library::{Book, Library, NewBook};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let library = Library::open(larder::Store::memory().await).await?;
/// # library.books().create(NewBook { author: Some("Austen".to_owned()), year: Some(1815), ..NewBook::new("1") }).await?;
/// let books = library.shelf::<Book>();
/// let titles = larder::Query::<Title, i64>::new(&books, Some("by_author"), vec!["Austen".into()]);
/// assert_eq!(titles.all().await?[0].0, "Untitled");
/// # Ok(())
/// # }
/// ```
pub trait View: fmt::Debug + Sized + Send + Sync + 'static {
    /// Takes the fields it knows by name.
    fn read(fields: Fields, kept: Kept) -> Result<Self, Misread>;
}

/// A record of an entity, as it is kept.
///
/// ```
/// # larder::schema!("examples/library.larder");
/// use larder::{Error, Record, Shelf};
/// use library::{Book, BookKey};
///
/// /// Whether something is there, whatever it is.
/// async fn has<R: Record>(shelf: &Shelf<R>, key: R::Key) -> Result<bool, Error> {
///     Ok(shelf.get(key).await?.is_some())
/// }
///
/// # use library::{Library, NewBook};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let library = Library::open(larder::Store::memory().await).await?;
/// assert_eq!(Book::ENTITY, "Book");
/// assert!(!has(&library.shelf::<Book>(), BookKey::from("1")).await?);
/// # Ok(())
/// # }
/// ```
pub trait Record: View + Clone {
    /// The entity's name in the schema.
    const ENTITY: &'static str;
    /// The fields its key is made of.
    type Key: Given + Clone + fmt::Debug + Send + Sync + 'static;
    /// The key as a source takes it: the one field, or a tuple of them.
    type Ask: From<Self::Key> + Send;
    /// What a source gives: what is given and not in the key.
    type Value: Given + Send + 'static;
}

/// Fields that a program gives.
///
/// ```
/// # larder::schema!("examples/library.larder");
/// use larder::Given as _;
/// use library::NewBook;
///
/// let fields = NewBook { copies: Some(2), ..NewBook::new("1") }.into_fields();
/// assert_eq!(fields["copies"], 2.into());
/// assert!(!fields.contains_key("title"), "what is not given is not there");
/// ```
pub trait Given {
    /// What is given, by the names of the schema.
    fn into_fields(self) -> Fields;

    /// One of them.
    fn field(&self, name: &str) -> Option<Cow<'_, Value>>
    where
        Self: Clone,
    {
        self.clone().into_fields().remove(name).map(Cow::Owned)
    }
}

impl Given for Fields {
    fn into_fields(self) -> Fields {
        self
    }

    fn field(&self, name: &str) -> Option<Cow<'_, Value>> {
        self.get(name).map(Cow::Borrowed)
    }
}

/// Something a record can be written from: a new one, or one that was read and changed.
///
/// ```
/// # larder::schema!("examples/library.larder");
/// # use library::{Library, NewBook};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let library = Library::open(larder::Store::memory().await).await?;
/// use larder::Draft as _;
///
/// let new = NewBook::new("1");
/// assert!(new.kept().is_none());
/// let mut book = library.books().create(new).await?;
/// assert!(library::Book::kept(&book).version().is_some());
/// book.title = "Emma".to_owned();
/// assert!(library.books().put(book).await?.changed());
/// # Ok(())
/// # }
/// ```
pub trait Draft<R>: Given {
    /// What was read, if anything was: a newer version of it is not overwritten.
    fn kept(&self) -> Option<&Kept> {
        None
    }

    /// The version that was read, where the schema says `versions on`: by default that of [`Draft::kept`].
    fn version(&self) -> Option<i64> {
        self.kept().and_then(|kept| kept.version)
    }

    /// Whether an index showed a part of it: what it did not show would be removed by a write, which is refused.
    fn is_part(&self) -> bool {
        self.kept().is_some_and(Kept::is_part)
    }
}

/// What is written of a draft: its fields, and the version that was read.
pub(crate) fn drawn<R>(core: &Core, draft: impl Draft<R>) -> Result<(Fields, Option<i64>), Error> {
    if draft.is_part() {
        return Err(Error::NotAllowed(format!(
            "this {name} is the part that an index shows: its other fields would be removed; read it by its key and put that, or update it",
            name = core.name()
        )));
    }
    let version = draft.version();
    Ok((draft.into_fields(), version))
}

impl Draft<Entry> for Fields {}

/// What a record remembers of where it was read.
///
/// ```
/// # larder::schema!("examples/library.larder");
/// # use library::{Library, NewBook, NewLoan, NewLoanRequired};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let library = Library::open(larder::Store::memory().await).await?;
/// # let now = library.store().clock().now();
/// let loan = NewLoan::new(NewLoanRequired { isbn: "1".to_owned(), reader: "Ada".to_owned() });
/// let loan = library.loans().create(loan).await?;
/// let ends = loan.kept().expires().expect("a loan has a TTL");
/// assert!(ends.millis() - now.millis() <= 14 * 24 * 60 * 60 * 1000);
///
/// let book = library.books().create(NewBook::new("1")).await?;
/// assert_eq!((book.kept().version(), book.kept().expires()), (Some(1), None));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Kept {
    pub(crate) core: Arc<Core>,
    pub(crate) key: Item,
    pub(crate) version: Option<i64>,
    pub(crate) expires: Option<UnixTime>,
    removed: Option<UnixTime>,
    is_part: bool,
    /// Of each lifecycle, where the item has one.
    states: Vec<Option<StateFound>>,
}

/// What is written where a state is kept.
#[derive(Clone)]
enum StateFound {
    /// By its place in the lifecycle.
    Known(usize),
    Unknown(Box<str>),
}

impl Kept {
    pub(crate) fn of(core: &Arc<Core>, item: &Item) -> Self {
        Self {
            key: core.key_of(item),
            version: core.version(item),
            expires: core.expires(item),
            removed: core.removed(item),
            is_part: false,
            states: core.entity().lifecycles.iter().map(|lifecycle| state_found(lifecycle, item)).collect(),
            core: Arc::clone(core),
        }
    }

    /// When the item ends.
    pub fn expires(&self) -> Option<UnixTime> {
        self.expires
    }

    /// When the store removes it: its TTL. It is later than its end where the schema lets it be given past that (`stale`,
    /// `grace`).
    pub fn removed(&self) -> Option<UnixTime> {
        self.removed
    }

    /// The version, where the schema says `versions on`.
    pub fn version(&self) -> Option<i64> {
        self.version
    }

    /// Whether it was read from an index that shows a part of each record.
    pub fn is_part(&self) -> bool {
        self.is_part
    }

    /// The key as it is stored.
    pub fn key(&self) -> &Item {
        &self.key
    }

    /// The state it was in, of a lifecycle by its name.
    ///
    /// ```
    /// # larder::schema!("examples/shops.larder");
    /// # use shops::{NewShop, Shops};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let shops = Shops::open(larder::Store::memory().await).await?;
    /// let shop = shops.shops().create(NewShop::new("a.de")).await?;
    /// assert_eq!(shop.kept().state("crawl"), Some("never"));
    /// assert_eq!(shop.kept().state("repair"), None);
    /// # Ok(())
    /// # }
    /// ```
    pub fn state(&self, lifecycle: &str) -> Option<&str> {
        match self.state_found(lifecycle)? {
            (lifecycle, StateFound::Known(state)) => Some(&lifecycle.states.get(*state)?.name),
            (_, StateFound::Unknown(_)) => None,
        }
    }

    /// What is written in place of a state, where the schema knows no such state: what somebody else wrote.
    ///
    /// ```
    /// # larder::schema!("examples/shops.larder");
    /// # use shops::{NewShop, Shops};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let shops = Shops::open(larder::Store::memory().await).await?;
    /// let shop = shops.shops().create(NewShop::new("a.de")).await?;
    /// assert_eq!(shop.kept().unknown_state("crawl"), None);
    /// # Ok(())
    /// # }
    /// ```
    pub fn unknown_state(&self, lifecycle: &str) -> Option<&str> {
        match self.state_found(lifecycle)? {
            (_, StateFound::Unknown(text)) => Some(text),
            (_, StateFound::Known(_)) => None,
        }
    }

    fn state_found(&self, lifecycle: &str) -> Option<(&Lifecycle, &StateFound)> {
        let mut lifecycles = self.core.entity().lifecycles.iter().zip(&self.states);
        let (lifecycle, found) = lifecycles.find(|(known, _)| known.name == lifecycle)?;
        Some((lifecycle, found.as_ref()?))
    }
}

fn state_found(lifecycle: &Lifecycle, item: &Item) -> Option<StateFound> {
    let text = item.get(&lifecycle.attribute)?.as_str()?;
    let known = lifecycle.states.iter().position(|state| state.template.read(text).is_some());
    Some(known.map_or_else(|| StateFound::Unknown(text.into()), StateFound::Known))
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kept").field("key", &self.core.key_text(&self.key)).finish_non_exhaustive()
    }
}

/// Two records are equal when their fields are, wherever they were read.
impl PartialEq for Kept {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// A field that is not what the type says.
///
/// ```
/// let misread = larder::Misread { field: "year".to_owned(), wanted: "whole number" };
/// assert_eq!(misread.to_string(), "`year` is missing or not a whole number");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` is missing or not a {wanted}")]
pub struct Misread {
    /// Its name in the schema.
    pub field: String,
    /// What it should have been.
    pub wanted: &'static str,
}

/// A record by field names, of any entity.
///
/// ```
/// # larder::schema!("examples/library.larder");
/// # use library::Library;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let library = Library::open(larder::Store::memory().await).await?;
/// # use larder::Fields;
/// let books = library.entries("Book").expect("the schema has it");
/// let mut book = books.create(Fields::from([("isbn".to_owned(), "1".into())])).await?;
/// book.fields.insert("title".to_owned(), "Emma".into());
/// let book = books.put(book).await?.into_record();
/// assert_eq!((&book.fields["title"], book.kept().version()), (&"Emma".into(), Some(2)));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq)]
pub struct Entry {
    /// All of them, computed ones included.
    pub fields: Fields,
    kept: Kept,
}

/// Secrets are not shown.
impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let core = &self.kept.core;
        let mut shown = f.debug_struct(core.name());
        for (name, value) in &self.fields {
            let field = core.entity().field(name);
            if field.is_some_and(|field| core.schema.reveals_secret(core.entity(), field)) {
                shown.field(name, &format_args!("a secret"));
            } else {
                shown.field(name, value);
            }
        }
        shown.finish()
    }
}

impl Entry {
    /// What it remembers of where it was read.
    pub fn kept(&self) -> &Kept {
        &self.kept
    }
}

impl View for Entry {
    fn read(fields: Fields, kept: Kept) -> Result<Self, Misread> {
        Ok(Self { fields, kept })
    }
}

impl Record for Entry {
    const ENTITY: &'static str = "";
    type Key = Fields;
    type Ask = Fields;
    type Value = Fields;
}

/// The fields of a record that are given, changed or not, and where it was read.
impl Given for Entry {
    fn into_fields(self) -> Fields {
        let entity = self.kept.core.entity();
        let given = |name: &String| entity.field(name).is_some_and(larder_schema::Field::is_given);
        self.fields.into_iter().filter(|(name, _)| given(name)).collect()
    }
}

impl Draft<Self> for Entry {
    fn kept(&self) -> Option<&Kept> {
        Some(&self.kept)
    }
}

/// Reads an item as a record.
pub(crate) fn read<V: View>(core: &Arc<Core>, item: &Item, now: UnixTime) -> Result<V, Error> {
    let mut fields = core.fields(item, now)?;
    core.complete(&mut fields, item)?;
    view(core, item, fields, Kept::of(core, item))
}

/// The same of an item of which an index shows only its keys and some attributes.
pub(crate) fn read_part<V: View>(
    core: &Arc<Core>,
    item: &Item,
    now: UnixTime,
    shown: &[String],
) -> Result<V, Error> {
    let mut fields = core.fields(item, now)?;
    core.entity().add_empty_sets(&mut fields, Some(shown));
    view(core, item, fields, Kept { is_part: true, ..Kept::of(core, item) })
}

fn view<V: View>(core: &Arc<Core>, item: &Item, fields: Fields, kept: Kept) -> Result<V, Error> {
    V::read(fields, kept).map_err(|cause| Error::Corrupt {
        entity: core.name().to_owned(),
        key: core.key_text(&core.key_of(item)),
        cause: cause.to_string(),
    })
}

/// A Rust type of a field. Code made by [`schema!`](crate::schema) implements it for its own types.
///
/// ```
/// use larder::{FieldType, Value};
///
/// #[derive(Debug, PartialEq)]
/// struct Isbn(String);
///
/// impl FieldType for Isbn {
///     const NAME: &'static str = "ISBN";
///
///     fn to_value(self) -> Value {
///         self.0.to_value()
///     }
///
///     fn from_value(value: Value) -> Option<Self> {
///         String::from_value(value).filter(|text| text.len() == 13).map(Self)
///     }
/// }
/// assert_eq!(Isbn::from_value("97".into()), None);
/// ```
pub trait FieldType: Sized {
    /// What a message calls it.
    const NAME: &'static str;

    /// As the schema sees it.
    fn to_value(self) -> Value;

    /// `None` when it is something else.
    fn from_value(value: Value) -> Option<Self>;
}

/// Takes a field out of what was read.
pub fn take<T: FieldType>(fields: &mut Fields, name: &str) -> Result<T, Misread> {
    take_optional(fields, name)?.ok_or_else(|| Misread { field: name.to_owned(), wanted: T::NAME })
}

/// Takes a field that may be missing.
pub fn take_optional<T: FieldType>(fields: &mut Fields, name: &str) -> Result<Option<T>, Misread> {
    let Some(value) = fields.remove(name) else { return Ok(None) };
    let read = T::from_value(value);
    read.map(Some).ok_or_else(|| Misread { field: name.to_owned(), wanted: T::NAME })
}

macro_rules! field_types {
    ($($type:ty, $name:literal, $value:pat => $read:expr, $this:ident => $write:expr;)*) => {$(
        impl FieldType for $type {
            const NAME: &'static str = $name;

            fn to_value(self) -> Value {
                let $this = self;
                $write
            }

            fn from_value(value: Value) -> Option<Self> {
                match value {
                    $value => $read,
                    _ => None,
                }
            }
        }
    )*};
}

field_types! {
    String, "text", Value::Text(text) => Some(text), this => Value::Text(this);
    i64, "whole number", Value::Number(number) => number.to_i64(), this => Value::from(this);
    Number, "number", Value::Number(number) => Some(number), this => Value::Number(this);
    bool, "yes or no", Value::Bool(value) => Some(value), this => Value::Bool(this);
    Vec<u8>, "bytes", Value::Bytes(bytes) => Some(bytes), this => Value::Bytes(this);
    Timestamp, "moment", Value::Instant(moment) => Some(moment), this => Value::Instant(this);
    Date, "date", Value::Date(date) => Some(date), this => Value::Date(this);
    DateTime, "date and time", Value::Datetime(datetime) => Some(datetime), this => Value::Datetime(this);
    SignedDuration, "duration", Value::Duration(duration) => Some(duration), this => Value::Duration(this);
}

impl FieldType for f64 {
    const NAME: &'static str = "number";

    fn to_value(self) -> Value {
        Value::Float(self)
    }

    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Float(float) => Some(float),
            Value::Number(number) => number.to_string().parse().ok(),
            _ => None,
        }
    }
}

impl<T: FieldType> FieldType for Vec<T> {
    const NAME: &'static str = "list";

    fn to_value(self) -> Value {
        Value::List(self.into_iter().map(T::to_value).collect())
    }

    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::List(values) => values.into_iter().map(T::from_value).collect(),
            _ => None,
        }
    }
}

impl<T: FieldType + Ord> FieldType for BTreeSet<T> {
    const NAME: &'static str = "set";

    fn to_value(self) -> Value {
        Value::List(self.into_iter().map(T::to_value).collect())
    }

    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::List(values) => values.into_iter().map(T::from_value).collect(),
            _ => None,
        }
    }
}

impl<T: FieldType> FieldType for BTreeMap<String, T> {
    const NAME: &'static str = "map";

    fn to_value(self) -> Value {
        Value::Map(self.into_iter().map(|(name, value)| (name, value.to_value())).collect())
    }

    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Map(map) => {
                map.into_iter().map(|(name, value)| Some((name, T::from_value(value)?))).collect()
            }
            _ => None,
        }
    }
}

/// `json` fields are [`serde_json::Value`]s. A number that is neither a 64-bit integer nor a double becomes the
/// nearest double.
/// A value of a record that is kept with its faults (`checks record`): of its type, or as it came.
///
/// Each field of such a record that nothing else rests on is loose, and so is each member of its lists and maps.
///
/// ```
/// use larder::Loose;
/// use larder::serde_json::json;
///
/// let price: Loose<i64> = 125.into();
/// assert_eq!(price.get(), Some(&125));
/// let odd: Loose<i64> = Loose::came(json!("ask the waiter"));
/// assert_eq!((odd.get(), odd.odd()), (None, Some(json!("ask the waiter"))));
/// ```
#[derive(Clone, PartialEq)]
pub enum Loose<T> {
    /// It is what the schema says.
    Fits(T),
    /// It is something else.
    Odd(Value),
}

impl<T> Loose<T> {
    /// A value as it came. Whether it fits is seen when it is written.
    pub fn came(json: serde_json::Value) -> Self {
        Self::Odd(Value::Raw(json_to_attribute(json)))
    }

    /// Several that fit.
    pub fn each(values: impl IntoIterator<Item = T>) -> Vec<Self> {
        values.into_iter().map(Self::Fits).collect()
    }

    /// The value, if it is what the schema says.
    pub fn get(&self) -> Option<&T> {
        match self {
            Self::Fits(value) => Some(value),
            Self::Odd(_) => None,
        }
    }

    /// What came instead, by stored names.
    pub fn odd(&self) -> Option<serde_json::Value> {
        match self {
            Self::Fits(_) => None,
            Self::Odd(value) => Some(value_to_json(value)),
        }
    }
}

impl<T> From<T> for Loose<T> {
    fn from(value: T) -> Self {
        Self::Fits(value)
    }
}

impl<T: fmt::Debug> fmt::Debug for Loose<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fits(value) => value.fmt(f),
            // It may hold a secret under any name.
            Self::Odd(_) => f.write_str("Odd(..)"),
        }
    }
}

/// As the value that it is, or as what came instead.
#[cfg(feature = "serde")]
impl<T: serde::Serialize> serde::Serialize for Loose<T> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Fits(value) => value.serialize(serializer),
            Self::Odd(value) => value_to_json(value).serialize(serializer),
        }
    }
}

#[cfg(feature = "serde")]
impl<'de, T: serde::de::DeserializeOwned> serde::Deserialize<'de> for Loose<T> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let came = serde_json::Value::deserialize(deserializer)?;
        Ok(serde_json::from_value(came.clone()).map_or_else(|_| Self::came(came), Self::Fits))
    }
}

impl<T: FieldType> FieldType for Loose<T> {
    const NAME: &'static str = T::NAME;

    fn to_value(self) -> Value {
        match self {
            Self::Fits(value) => value.to_value(),
            Self::Odd(value) => value,
        }
    }

    fn from_value(value: Value) -> Option<Self> {
        Some(T::from_value(value.clone()).map_or(Self::Odd(value), Self::Fits))
    }
}

fn value_to_json(value: &Value) -> serde_json::Value {
    use serde_json::Value as Json;
    match value {
        Value::Raw(stored) => attribute_to_json(stored),
        Value::List(values) => values.iter().map(value_to_json).collect(),
        Value::Map(members) => {
            members.iter().map(|(name, value)| (name.clone(), value_to_json(value))).collect()
        }
        Value::Text(text) => Json::String(text.clone()),
        Value::Number(number) => json_number(number),
        Value::Float(float) => Json::from(*float),
        Value::Bool(value) => Json::Bool(*value),
        Value::Bytes(bytes) => Json::from(bytes.clone()),
        Value::Instant(moment) => Json::String(moment.to_string()),
        Value::Zoned(moment) => Json::String(moment.to_string()),
        Value::Date(date) => Json::String(date.to_string()),
        Value::Datetime(datetime) => Json::String(datetime.to_string()),
        Value::Duration(duration) => Json::from(duration.as_secs_f64()),
    }
}

impl FieldType for serde_json::Value {
    const NAME: &'static str = "document";

    fn to_value(self) -> Value {
        Value::Raw(json_to_attribute(self))
    }

    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Raw(stored) => Some(attribute_to_json(&stored)),
            _ => None,
        }
    }
}

/// What an open type (`..`) keeps besides its fields, by stored names.
///
/// ```
/// use larder::serde_json::json;
///
/// let rest = larder::Rest::from([("going".to_owned(), json!("firm"))]);
/// assert_eq!(rest["going"], "firm");
/// ```
pub type Rest = BTreeMap<String, serde_json::Value>;

fn json_to_attribute(json: serde_json::Value) -> AttributeValue {
    use serde_json::Value as Json;
    match json {
        Json::Null => AttributeValue::Null,
        Json::Bool(value) => AttributeValue::Bool(value),
        // A double has at most 17 digits and an exponent that may lie outside of DynamoDB's range.
        Json::Number(number) => {
            number.to_string().parse::<Number>().map_or(AttributeValue::Null, AttributeValue::N)
        }
        Json::String(text) => AttributeValue::S(text),
        Json::Array(values) => AttributeValue::L(values.into_iter().map(json_to_attribute).collect()),
        Json::Object(members) => AttributeValue::M(
            members.into_iter().map(|(name, value)| (name, json_to_attribute(value))).collect(),
        ),
    }
}

fn attribute_to_json(stored: &AttributeValue) -> serde_json::Value {
    use serde_json::Value as Json;
    match stored {
        AttributeValue::Null => Json::Null,
        AttributeValue::Bool(value) => Json::Bool(*value),
        AttributeValue::N(number) => json_number(number),
        AttributeValue::S(text) => Json::String(text.clone()),
        AttributeValue::B(bytes) => Json::Array(bytes.iter().map(|byte| Json::from(*byte)).collect()),
        AttributeValue::L(values) => Json::Array(values.iter().map(attribute_to_json).collect()),
        AttributeValue::M(members) => Json::Object(
            members.iter().map(|(name, value)| (name.clone(), attribute_to_json(value))).collect(),
        ),
        AttributeValue::Ss(texts) => Json::Array(texts.iter().cloned().map(Json::String).collect()),
        AttributeValue::Ns(numbers) => Json::Array(numbers.iter().map(json_number).collect()),
        AttributeValue::Bs(all) => Json::Array(all.iter().map(|bytes| Json::from(bytes.clone())).collect()),
    }
}

fn json_number(number: &Number) -> serde_json::Value {
    match number.to_i64() {
        Some(whole) => whole.into(),
        None => number.to_string().parse::<f64>().map_or(serde_json::Value::Null, Into::into),
    }
}
