//! Where data is kept, chosen by a text such as `./data`, `memory:` or `dynamodb:`.
//!
//! A [`Store`] is a handle on a [`Backend`]; clones share it. A backend asks for one change at a time and
//! returns once the change is accepted, which may be before it is finished: [`Backend::describe`] says whether
//! a table is still busy.
//!
//! What a backend cannot do it says in advance, by [`Backend::lacks`], so that nobody finds out half-way.

mod bounded;
#[cfg(feature = "dynamodb")]
mod client;
#[cfg(feature = "dynamodb")]
mod dynamodb;
mod embedded;
mod faults;
mod items;
mod layered;
mod lazy;
mod observed;
mod requests;
mod skipping;
#[cfg(feature = "dynamodb")]
pub(crate) mod tail;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use async_trait::async_trait;
use larder_model::{
    Billing, Clock, Encryption, IndexDefinition, IndexName, Item, StreamView, TableClass, TableDefinition,
    TableName, Tags, Throughput,
};
use larder_ops::{Request, Response};
use larder_schema::schema::StoreLimits;

pub use bounded::at_most;
pub(crate) use bounded::{Patience, again};
#[cfg(feature = "dynamodb")]
pub use client::Inside;
#[cfg(feature = "dynamodb")]
#[doc(hidden)]
pub use dynamodb::connection;
#[cfg(feature = "dynamodb")]
pub(crate) use dynamodb::{read_item, sdk_error, sdk_value, value_of};
pub use faults::{Fault, Faults};
pub use items::Page;
pub use larder_engine::{Lookback, PastChange};
pub use larder_expr::{Comparator, Condition, Operand};
pub use larder_ops as ops;
use layered::Layered;
#[doc(hidden)]
pub use observed::Probes;
pub use requests::Requests;
pub use skipping::Skipped;
#[cfg(feature = "dynamodb")]
pub use tail::Tail;

/// The variable that names the store when nobody else does.
///
/// ```
/// assert_eq!(larder::store::STORE_VARIABLE, "LARDER_STORE");
/// ```
pub const STORE_VARIABLE: &str = "LARDER_STORE";

/// The attributes that [`as_read`] looks at; DynamoDB takes conditions of up to 4 KB.
pub const READ_ATTRIBUTES_MAX: usize = 100;

const DEFAULT_DIRECTORY: &str = "larder-data";

/// The condition that an attribute is as it is in an item that was read, or not there either.
///
/// ```
/// let read = [("copies", larder_model::AttributeValue::from(1))].into_iter().collect();
/// let same = larder::store::unchanged("copies", &read);
/// assert_eq!(same.holds(Some(&read)), Ok(true));
/// ```
pub fn unchanged(attribute: &str, read: &Item) -> Condition {
    let path = larder_model::Path::attribute(attribute);
    match read.get(attribute) {
        Some(value) => Condition::Compare {
            left: Operand::Path(path),
            comparator: Comparator::Equal,
            right: Operand::value(value.clone()),
        },
        None => Condition::NotExists(path),
    }
}

/// The condition that an item is what it was when it was read, as the store has it: of its attributes, the first
/// [`READ_ATTRIBUTES_MAX`], the version and the parts before all others. No condition sees what was added to it.
///
/// ```
/// let mut item: larder_model::Item = [("copies", larder_model::AttributeValue::from(1))].into_iter().collect();
/// let same = larder::store::as_read(&item);
/// item.insert("copies", 2);
/// assert_eq!(same.holds(Some(&item)), Ok(false));
/// ```
pub fn as_read(item: &Item) -> Condition {
    let first = [larder_schema::VERSION, larder_schema::PARTS];
    let others = item.names().filter(|name| !first.contains(name) && *name != larder_schema::PACKED);
    let names = first.into_iter().chain(others).take(READ_ATTRIBUTES_MAX);
    let same = names.map(|name| unchanged(name, item)).reduce(crate::entity::and);
    same.expect("the version is one")
}

/// A place where data is kept. Clones are the same place.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use larder::Store;
/// use larder::store::Feature;
///
/// let store = Store::memory().await;
/// assert_eq!(store.place(), "memory:");
/// assert!(store.is_embedded() && store.list_tables().await?.is_empty());
/// assert!(!store.lacks().await?.contains_key(&Feature::TimeToLive));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Store(Arc<dyn Backend>);

impl Deref for Store {
    type Target = dyn Backend;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl Store {
    /// Opens the store; a directory is made if it is missing.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use larder::{Address, Store};
    ///
    /// let directory = tempfile::tempdir()?;
    /// let address = Address::Directory(directory.path().join("data"));
    /// let store = Store::open(&address).await?;
    /// assert!(store.list_tables().await?.is_empty() && directory.path().join("data").is_dir());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn open(address: &Address) -> Result<Self, Error> {
        connect(address, Clock::system()).await.map(Self)
    }

    /// Opens the store to look at it: a directory that is missing or empty stays so.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use larder::{Address, Store};
    ///
    /// let directory = tempfile::tempdir()?;
    /// let address = Address::Directory(directory.path().join("data"));
    /// assert!(Store::look(&address).await?.list_tables().await?.is_empty());
    /// assert!(!directory.path().join("data").exists());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn look(address: &Address) -> Result<Self, Error> {
        match address {
            Address::Directory(path) if is_empty(path) => {
                let store = embedded::Embedded::empty(address.to_string(), Clock::system()).await?;
                Ok(Self::on(Arc::new(store)))
            }
            Address::Directory(_) | Address::Memory | Address::DynamoDb { .. } => Self::open(address).await,
        }
    }

    /// The store at an address, opened by its first use, once, however many use it first. A start that finds no
    /// store does not fail for it; the first request does, and the next one tries again.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use larder::{Address, Store};
    ///
    /// let directory = tempfile::tempdir()?;
    /// let store = Store::lazy(Address::Directory(directory.path().join("data")));
    /// assert!(!directory.path().join("data").exists());
    /// store.list_tables().await?;
    /// assert!(directory.path().join("data").is_dir());
    /// # Ok(())
    /// # }
    /// ```
    pub fn lazy(address: Address) -> Self {
        Self::on(Arc::new(lazy::Lazy::new(address)))
    }

    /// The store that `LARDER_STORE` names, or the directory `larder-data`; opened by its first use.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # if std::env::var_os("LARDER_STORE").is_none() {
    /// let store = larder::Store::from_env().await?; // `LARDER_STORE` is not set
    /// assert!(store.place().contains("larder-data"));
    /// # }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn from_env() -> Result<Self, Error> {
        let address = match std::env::var(STORE_VARIABLE) {
            Ok(text) => text.parse()?,
            Err(_) => Address::default(),
        };
        Ok(Self::lazy(address))
    }

    /// A new store in memory, [observed](Store::observed), for tests.
    ///
    /// ```
    /// use std::time::Duration;
    /// use larder::Store;
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// let store = Store::memory().await;
    /// store.clock().advance(Duration::from_secs(3 * 60 * 60));
    /// store.faults().throttle(0.2);
    /// assert_eq!(store.requests().count("GetItem"), 0);
    /// # });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn memory() -> Self {
        let store = Self::open(&Address::Memory).await.expect("memory has no file that could be missing");
        store.observed()
    }

    /// A store on an engine that this process has open already, such as a server's. Whoever opened it goes on working for
    /// it, and closes it.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use larder::Store;
    ///
    /// let store = Store::memory().await;
    /// let engine = store.backend().engine().expect("it is embedded").clone();
    /// let same = Store::sharing(engine, store.clock().clone(), "the same".to_owned());
    /// assert_eq!((same.list_tables().await?.len(), same.place()), (0, "the same".to_owned()));
    /// # Ok(())
    /// # }
    /// ```
    pub fn sharing(engine: larder_engine::Engine, clock: Clock, place: String) -> Self {
        Self::on(Arc::new(embedded::Embedded::sharing(engine, clock, place)))
    }

    /// A store on an endpoint in this process, as one caller may ask it: every request passes what stands before that endpoint,
    /// and there is no other way to its engine. `lacks` is what the engine cannot do.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use larder::Store;
    ///
    /// let store = Store::memory().await;
    /// let inside = store.inside().expect("it is embedded");
    /// let same = Store::through(inside, store.clock().clone(), "the same".to_owned(), store.lacks().await?.clone());
    /// assert!(same.list_tables().await?.is_empty() && same.engine().is_none());
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "dynamodb")]
    pub fn through(inside: Arc<dyn Inside>, clock: Clock, place: String, lacks: Lacks) -> Self {
        Self::on(Arc::new(dynamodb::DynamoDb::through(inside, clock, place, lacks)))
    }

    /// A store on a client that the program has already, in the region of the client.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use larder::Store;
    ///
    /// # let client = Store::memory().await.sdk_client().await?;
    /// let store = Store::on_client(client);
    /// assert!(store.list_tables().await?.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "dynamodb")]
    pub fn on_client(client: aws_sdk_dynamodb::Client) -> Self {
        Self::on(Arc::new(dynamodb::DynamoDb::on_client(client)))
    }

    /// The same store, and a record of what it is asked from now on, and faults on demand; for tests.
    /// What is asked past this handle is neither noted nor hindered. A test that runs on a busy machine is not about time:
    /// the store is waited for however long it takes, unless the schema has a `timeout` for it.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use larder::{Address, Store};
    ///
    /// let store = Store::open(&Address::Memory).await?.observed();
    /// store.faults().down();
    /// assert_eq!(store.requests().total(), 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn observed(&self) -> Self {
        Self::on(Arc::new(Layered { layer: Probes::default(), below: Arc::clone(&self.0) }))
    }

    /// The same store, in which nobody writes what the schemas of the systems opened on it from now on do not allow: neither
    /// this program beside its records, nor another through a server. It is [`larder serve --schema`](crate::guard) for
    /// an embedded store; elsewhere it is an error.
    ///
    /// ```
    /// # larder::schema!("examples/library.larder");
    /// # use larder::store::ops::{PutItem, WriteOptions};
    /// # use library::Library;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let library = Library::open(larder::Store::memory().await.enforcing()?).await?;
    /// # let text = |text: &str| larder_model::AttributeValue::S(text.to_owned());
    /// # let bad = [("pk", text("BOOK#1")), ("sk", text("BOOK")), ("title", 7.into())];
    /// # let item = bad.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    /// # let table = larder_model::TableName::new("library")?;
    /// // An item whose title is a number.
    /// let refused = library.store().put_item(PutItem { table, item, options: WriteOptions::default() }).await;
    /// assert!(refused.unwrap_err().to_string().contains("Book.title: must be of type string, and it is 7"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn enforcing(self) -> Result<Self, Error> {
        self.0.enforce()?;
        Ok(self)
    }

    /// What an observed store is to do wrong.
    ///
    /// # Panics
    ///
    /// If the store is not [observed](Store::observed).
    ///
    /// ```
    /// # larder::schema!("examples/library.larder");
    /// # use library::Library;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let library = Library::open(larder::Store::memory().await).await?;
    /// library.store().faults().down();
    /// assert!(library.books().get("1").await.is_err());
    /// library.store().faults().up();
    /// assert!(library.books().get("1").await?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn faults(&self) -> &Faults {
        &self.watched().faults
    }

    /// What an observed store was asked.
    ///
    /// # Panics
    ///
    /// If the store is not [observed](Store::observed).
    ///
    /// ```
    /// # larder::schema!("examples/library.larder");
    /// # use library::Library;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let library = Library::open(larder::Store::memory().await).await?;
    /// library.books().get("1").await?;
    /// assert_eq!(library.store().requests().count("GetItem"), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn requests(&self) -> &Requests {
        &self.watched().requests
    }

    fn watched(&self) -> &Probes {
        self.0.probes().expect("the store is observed: make it by `Store::memory` or `Store::observed`")
    }

    /// A store on a backend, such as one of a program's own.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::sync::Arc;
    /// use larder::Store;
    ///
    /// let store = Store::memory().await;
    /// let same = Store::on(Arc::clone(store.backend()));
    /// assert_eq!(same.place(), store.place());
    /// # Ok(())
    /// # }
    /// ```
    pub fn on(backend: Arc<dyn Backend>) -> Self {
        Self(backend)
    }

    /// The same store, whose scans and queries leave out what is damaged; and what they left out. Of the embedded
    /// store only: another says nothing of damage.
    pub fn skipping_damage(&self) -> (Self, Skipped) {
        let skipped = Skipped::default();
        let skipping = Layered { layer: skipped.clone(), below: Arc::clone(&self.0) };
        (Self(Arc::new(skipping)), skipped)
    }

    /// What does the work.
    pub fn backend(&self) -> &Arc<dyn Backend> {
        &self.0
    }

    /// The same store where it keeps the tables of one region.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let store = larder::Store::memory().await;
    /// assert_eq!(store.at(Some("eu-north-1")).place(), "memory:"); // memory has no regions
    /// # Ok(())
    /// # }
    /// ```
    pub fn at(&self, region: Option<&str>) -> Self {
        region.and_then(|region| self.0.in_region(region)).map_or_else(|| self.clone(), Self)
    }
}

async fn connect(address: &Address, clock: Clock) -> Result<Arc<dyn Backend>, Error> {
    Ok(match address {
        Address::Directory(path) => Arc::new(embedded::Embedded::open(path, clock).await?),
        Address::Memory => Arc::new(embedded::Embedded::memory(address.to_string(), clock).await?),
        #[cfg(not(feature = "dynamodb"))]
        Address::DynamoDb { .. } => {
            let cause = "this program was built without larder's feature `dynamodb`";
            return Err(Error::Address { text: address.to_string(), cause });
        }
        #[cfg(feature = "dynamodb")]
        Address::DynamoDb { endpoint } => {
            Arc::new(dynamodb::DynamoDb::connect(endpoint.as_deref(), clock).await?)
        }
    })
}

fn is_empty(directory: &Path) -> bool {
    match directory.read_dir() {
        Ok(mut entries) => entries.next().is_none(),
        // A link to nowhere is not: no store can be made under its name.
        Err(error) => error.kind() == std::io::ErrorKind::NotFound && !directory.is_symlink(),
    }
}

/// Which store: `DIR`, `memory:`, `dynamodb:` (AWS), `dynamodb:http://HOST:PORT` (any endpoint).
///
/// ```
/// use larder::Address;
///
/// assert_eq!("memory:".parse::<Address>()?, Address::Memory);
/// assert_eq!("./data".parse::<Address>()?, Address::Directory("./data".into()));
/// let local: Address = "dynamodb:http://127.0.0.1:8000".parse()?;
/// assert_eq!(local.to_string(), "dynamodb:http://127.0.0.1:8000");
/// assert!("redis://127.0.0.1".parse::<Address>().is_err());
/// # Ok::<(), larder::store::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// The embedded store in a directory.
    Directory(PathBuf),
    /// The embedded store, gone with the process.
    Memory,
    /// DynamoDB at AWS, or what speaks its protocol at an endpoint.
    DynamoDb {
        /// Its URL; `None` is AWS.
        endpoint: Option<String>,
    },
}

impl Default for Address {
    fn default() -> Self {
        Self::Directory(DEFAULT_DIRECTORY.into())
    }
}

impl FromStr for Address {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let refused = |cause: &'static str| Err(Error::Address { text: text.to_owned(), cause });
        match text.split_once(':') {
            _ if text.is_empty() => refused("it is empty"),
            Some(("memory", "")) => Ok(Self::Memory),
            Some(("memory", _)) => refused("nothing follows `memory:`"),
            Some(("dynamodb", "")) => Ok(Self::DynamoDb { endpoint: None }),
            Some(("dynamodb", url)) if is_url(url) => {
                Ok(Self::DynamoDb { endpoint: Some(url.trim_end_matches('/').to_owned()) })
            }
            Some(("dynamodb", _)) => refused("an endpoint begins with http:// or https:// and names a host"),
            Some((scheme, rest)) if rest.starts_with("//") || scheme == "file" => {
                refused("there is no store of that kind")
            }
            Some((scheme, "")) if scheme.chars().all(|letter| letter.is_ascii_lowercase()) => {
                refused("there is no store of that kind: memory:, dynamodb: or a directory")
            }
            Some(_) | None => Ok(Self::Directory(Path::new(text).to_owned())),
        }
    }
}

fn is_url(text: &str) -> bool {
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/') && !rest.contains(char::is_whitespace))
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(path) => path.display().fmt(f),
            Self::Memory => f.write_str("memory:"),
            Self::DynamoDb { endpoint } => write!(f, "dynamodb:{}", endpoint.as_deref().unwrap_or_default()),
        }
    }
}

/// Why a store did not do what it was asked.
///
/// ```
/// # larder::schema!("examples/library.larder");
/// # use library::Library;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let library = Library::open(larder::Store::memory().await).await?;
/// use larder::store::{Error, Fault};
///
/// library.store().faults().fail_next(1, Fault::Throttle);
/// let error = library.books().get("1").await.unwrap_err();
/// assert!(matches!(error, larder::Error::Store(Error::Throttled(_))));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the message of a variant says what its fields are")]
pub enum Error {
    /// A text that is not the address of a store.
    #[error(
        "`{text}` does not name a store: {cause}; give a directory, memory:, dynamodb: or \
         dynamodb:http://HOST:PORT"
    )]
    Address { text: String, cause: &'static str },
    /// It may do it later: something else is going on with the table.
    #[error("{0}")]
    Busy(String),
    /// The store does not know the operation.
    #[error("{0}")]
    Unsupported(String),
    /// It will not do it, however often it is asked.
    #[error("{message} ({code})")]
    Refused { code: String, message: String },
    /// A write that was to happen under a condition only.
    #[error("the condition of the write does not hold")]
    Condition {
        /// What is there instead, when that was asked for.
        item: Option<Box<Item>>,
    },
    /// A transaction, with a reason for each of its items.
    #[error("the transaction was cancelled: {}", reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))]
    Cancelled { reasons: Vec<Cancellation> },
    /// More was asked than the store does at a time; it may do it later.
    #[error("the store turned the request away: {0}")]
    Throttled(String),
    /// The table is not there.
    #[error("there is no table {table}: create it with `larder apply`")]
    NoTable { table: TableName },
    /// Whether the request was carried out is not known.
    #[error("the answer of {place} was lost: {cause}")]
    Unanswered { place: String, cause: String },
    /// The request was not carried out: nobody is there.
    #[error("{place} cannot be reached: {cause}")]
    Unreachable { place: String, cause: String },
    /// The store shows something that cannot be.
    #[error("the description of table {table} cannot be read: {cause}")]
    Description { table: TableName, cause: String },
    /// The table is in a state that does not pass by waiting.
    #[error("table {table} is {state}: fix that first")]
    Stuck { table: TableName, state: String },
    /// The embedded store failed.
    #[error(transparent)]
    Engine(larder_engine::Error),
}

impl Error {
    /// The same request may succeed later.
    ///
    /// ```
    /// use larder::store::Error;
    ///
    /// assert!(Error::Throttled("too many requests".to_owned()).is_transient());
    /// assert!(!Error::Condition { item: None }.is_transient());
    /// ```
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Busy(_) | Self::Throttled(_) | Self::Unreachable { .. } | Self::Unanswered { .. } => true,
            Self::Cancelled { reasons } => reasons.iter().all(Cancellation::is_transient),
            Self::Refused { code, .. } => {
                matches!(
                    &**code,
                    "InternalServerError" | "ServiceUnavailable" | "TransactionInProgressException"
                )
            }
            Self::Address { .. }
            | Self::Unsupported(_)
            | Self::Condition { .. }
            | Self::NoTable { .. }
            | Self::Description { .. }
            | Self::Stuck { .. }
            | Self::Engine(_) => false,
        }
    }

    /// The request may have been carried out.
    pub(crate) fn may_have_happened(&self) -> bool {
        match self {
            Self::Unanswered { .. } => true,
            // It failed at something, perhaps at saying that it was done.
            Self::Refused { code, .. } => matches!(&**code, "InternalServerError" | "ServiceUnavailable"),
            Self::Address { .. }
            | Self::Busy(_)
            | Self::Unsupported(_)
            | Self::Condition { .. }
            | Self::Cancelled { .. }
            | Self::Throttled(_)
            | Self::NoTable { .. }
            | Self::Unreachable { .. }
            | Self::Description { .. }
            | Self::Stuck { .. }
            | Self::Engine(_) => false,
        }
    }

    /// The store did not do its work, whatever the request was.
    pub(crate) fn is_outage(&self) -> bool {
        match self {
            Self::Throttled(_) | Self::Unreachable { .. } | Self::Unanswered { .. } => true,
            Self::Refused { code, .. } => matches!(&**code, "InternalServerError" | "ServiceUnavailable"),
            Self::Address { .. }
            | Self::Busy(_)
            | Self::Unsupported(_)
            | Self::Condition { .. }
            | Self::Cancelled { .. }
            | Self::NoTable { .. }
            | Self::Description { .. }
            | Self::Stuck { .. }
            | Self::Engine(_) => false,
        }
    }
}

/// Why an item of a transaction was not written. `None` is the code of those that would have been.
///
/// ```
/// use larder::store::{Cancellation, Error};
///
/// let reason = Cancellation { code: "ConditionalCheckFailed".to_owned(), message: None, item: None };
/// let error = Error::Cancelled { reasons: vec![reason] };
/// assert_eq!(error.to_string(), "the transaction was cancelled: ConditionalCheckFailed");
/// assert!(!error.is_transient());
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Cancellation {
    /// `ConditionalCheckFailed`, `TransactionConflict`, …
    pub code: String,
    /// What the store says of it.
    pub message: Option<String>,
    /// What is there instead, where that was asked for.
    pub item: Option<Item>,
}

impl Cancellation {
    /// Whether the same transaction may be made later, as far as this part of it goes.
    ///
    /// ```
    /// use larder::store::Cancellation;
    ///
    /// let of = |code: &str| Cancellation { code: code.to_owned(), message: None, item: None };
    /// assert!(of("None").is_transient() && of("ProvisionedThroughputExceeded").is_transient());
    /// assert!(!of("ConditionalCheckFailed").is_transient());
    /// ```
    pub fn is_transient(&self) -> bool {
        matches!(
            &*self.code,
            "None" | "TransactionConflict" | "ThrottlingError" | "ProvisionedThroughputExceeded"
        )
    }
}

impl fmt::Display for Cancellation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.code)
    }
}

/// What some stores have and others do not.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use larder::store::Feature;
///
/// let store = larder::Store::memory().await;
/// for (feature, why) in store.lacks().await? {
///     println!("{feature:?}: {why}");
/// }
/// assert!(!store.lacks().await?.contains_key(&Feature::Tags));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Feature {
    /// Billing by the request.
    OnDemand,
    /// Tables of the class for what is rarely read.
    TableClass,
    /// Changes as a stream.
    Streams,
    /// Items that expire.
    TimeToLive,
    /// Going back to any moment.
    PointInTimeRecovery,
    /// Tags of tables.
    Tags,
    /// Encryption with a key of one's own.
    Encryption,
    /// Tables that cannot be deleted by mistake.
    DeletionProtection,
}

/// What a store cannot do, and why.
///
/// ```
/// use larder::store::{Feature, Lacks};
///
/// let lacks = Lacks::from([(Feature::Streams, "the endpoint is too old".to_owned())]);
/// assert!(lacks.contains_key(&Feature::Streams) && !lacks.contains_key(&Feature::Tags));
/// ```
pub type Lacks = BTreeMap<Feature, String>;

/// A table as it is deployed.
///
/// ```
/// # larder::schema!("examples/library.larder");
/// # use library::Library;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let library = Library::open(larder::Store::memory().await).await?;
/// let tables = library.store().list_tables().await?;
/// let deployed = library.store().describe(&tables[0]).await?.expect("it was just made");
/// assert_eq!((deployed.busy, deployed.ttl_attribute.as_deref()), (None, Some("ends")));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deployed {
    /// With the indexes that are there or on their way, without those on their way out.
    pub definition: TableDefinition,
    /// What has to end before the table can be changed again.
    pub busy: Option<Busy>,
    /// The attribute that says when an item expires.
    pub ttl_attribute: Option<String>,
    /// How many days back it can be restored.
    pub pitr_days: Option<u32>,
}

/// Something that takes its time.
///
/// ```
/// assert_eq!(larder::store::Busy::Creating.to_string(), "the table is being created");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Busy {
    /// The table is being created.
    Creating,
    /// The table is being updated.
    Updating,
    /// The table is being deleted.
    Deleting,
    /// An index is being filled, or removed.
    Index {
        /// Which one.
        name: IndexName,
        /// It goes.
        removing: bool,
    },
}

impl fmt::Display for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Creating => f.write_str("the table is being created"),
            Self::Updating => f.write_str("the table is being updated"),
            Self::Deleting => f.write_str("the table is being deleted"),
            Self::Index { name, removing: false } => write!(f, "index {name} is being filled"),
            Self::Index { name, removing: true } => write!(f, "index {name} is being deleted"),
        }
    }
}

/// One change of a table. A store makes it whole or not at all.
///
/// ```
/// # larder::schema!("examples/library.larder");
/// # use library::Library;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let library = Library::open(larder::Store::memory().await).await?;
/// use larder::store::TableChange;
///
/// let tables = library.store().list_tables().await?;
/// library.store().change_table(&tables[0], &TableChange::DeletionProtection(true)).await?;
/// assert!(library.store().delete_table(&tables[0]).await.is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableChange {
    /// How it is paid for, and for how many units.
    Billing {
        /// By the request, or by units.
        billing: Billing,
        /// New units of the table; none when only those of indexes change.
        table: bool,
        /// New units of indexes.
        indexes: Vec<(IndexName, Throughput)>,
    },
    /// Its class.
    Class(TableClass),
    /// What its stream shows; `None` switches it off.
    Stream(Option<StreamView>),
    /// Another index.
    CreateIndex(IndexDefinition),
    /// One index less.
    DeleteIndex(IndexName),
    /// How it is encrypted.
    Encryption(Option<Encryption>),
    /// Whether it can be deleted.
    DeletionProtection(bool),
    /// Whether its items expire.
    TimeToLive {
        /// The attribute that says when.
        attribute: String,
        /// Whether they do.
        enabled: bool,
    },
    /// Whether it can be restored to any moment.
    PointInTimeRecovery {
        /// For so many days; `None` switches it off.
        days: Option<u32>,
    },
    /// Tags that it gets.
    Tag(Tags),
}

/// The operations a store has. Regions apart, a table is known by its name.
///
/// ```
/// # larder::schema!("examples/library.larder");
/// # use library::Library;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let library = Library::open(larder::Store::memory().await).await?;
/// let tables = library.store().list_tables().await?;
/// assert_eq!(tables[0].as_str(), "library");
/// assert!(library.store().describe(&tables[0]).await?.is_some());
/// # Ok(())
/// # }
/// ```
#[async_trait]
pub trait Backend: fmt::Debug + Send + Sync {
    /// Where it is, as a person would say it.
    fn place(&self) -> String;

    /// Which store it is among those that this process has open: two handles on one say the same, also when others have
    /// the same [place](Self::place).
    fn identity(&self) -> String {
        self.place()
    }

    /// What it cannot do.
    async fn lacks(&self) -> Result<&Lacks, Error>;

    /// The backend of a region, where regions mean something.
    fn in_region(&self, _region: &str) -> Option<Arc<dyn Backend>> {
        None
    }

    /// The backend that tries again as the schema says, where that is its own matter.
    fn limited(&self, _limits: &StoreLimits) -> Option<Arc<dyn Backend>> {
        None
    }

    /// All tables, in order.
    async fn list_tables(&self) -> Result<Vec<TableName>, Error>;

    /// The table as it is; `None` when there is none.
    async fn describe(&self, table: &TableName) -> Result<Option<Deployed>, Error>;

    /// The tags alone, of a table that may have gone.
    async fn tags(&self, table: &TableName) -> Result<Tags, Error> {
        Ok(self.describe(table).await?.map(|deployed| deployed.definition.tags).unwrap_or_default())
    }

    /// Makes the table as defined, apart from what the store lacks.
    async fn create_table(&self, definition: &TableDefinition) -> Result<(), Error>;

    /// Changes one thing about a table.
    async fn change_table(&self, table: &TableName, change: &TableChange) -> Result<(), Error>;

    /// Removes a table and all that is in it.
    async fn delete_table(&self, table: &TableName) -> Result<(), Error>;

    /// Reads or writes items: GetItem to TransactWriteItems.
    async fn execute(&self, request: Request) -> Result<Response, Error>;

    /// What time it is, for everyone who uses this store.
    fn clock(&self) -> &Clock;

    /// It is in this process and costs nothing: its tables may be made without asking.
    fn is_embedded(&self) -> bool {
        false
    }

    /// Whoever writes to it goes by one clock, because one process has it and nobody else comes in: what the clock wrote can
    /// be compared with what it says.
    fn has_one_clock(&self) -> bool {
        false
    }

    /// The official SDK's client of this store, where there is one. For the embedded store it is one that stays
    /// in the process, so that programs which use the SDK can be tested without a port.
    ///
    /// ```
    /// use larder::Store;
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// let client = Store::memory().await.sdk_client().await?;
    /// assert!(client.list_tables().send().await?.table_names().is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "dynamodb")]
    async fn sdk_client(&self) -> Result<aws_sdk_dynamodb::Client, Error> {
        Err(Error::Unsupported(format!("{} has no client of the SDK", self.place())))
    }

    /// The official SDK's client of the streams of this store, where there is one.
    #[cfg(feature = "dynamodb")]
    async fn streams_client(&self) -> Result<aws_sdk_dynamodbstreams::Client, Error> {
        Err(Error::Unsupported(format!("{} has no client of the SDK for streams", self.place())))
    }

    /// The engine below an embedded store, for a server that lets others in while this process has it open.
    #[doc(hidden)]
    fn engine(&self) -> Option<&larder_engine::Engine> {
        None
    }

    /// What answers it, where that is in this process.
    #[cfg(feature = "dynamodb")]
    #[doc(hidden)]
    fn inside(&self) -> Option<Arc<dyn Inside>> {
        None
    }

    /// Holds every write against the schemas of the systems that are opened on it from now on. Only of an embedded store.
    #[doc(hidden)]
    fn enforce(&self) -> Result<(), Error> {
        Err(Error::Unsupported(format!(
            "{} is written by others too: its server enforces schemas, `larder serve --schema`",
            self.place()
        )))
    }

    /// Told of every system that is opened on it.
    #[doc(hidden)]
    fn opened(&self, _schema: &Arc<larder_schema::Schema>, _environment: &larder_schema::Environment) {}

    #[doc(hidden)]
    fn probes(&self) -> Option<&Probes> {
        None
    }

    /// Returns when it is worth asking a busy table again, for the `asked`th time.
    async fn pause(&self, asked: u32) -> Result<(), Error>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_reads_back_as_it_was_written() {
        for text in
            ["./data", "data", "/var/lib/larder", "memory:", "dynamodb:", "dynamodb:http://127.0.0.1:8000"]
        {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        let trimmed: Address = "dynamodb:https://example.com/".parse().unwrap();
        assert_eq!(trimmed.to_string(), "dynamodb:https://example.com");
    }

    #[test]
    fn what_names_no_store_is_refused() {
        for text in ["", "memory:x", "dynamodb:8000", "dynamodb:http://", "postgres://localhost", "file:x"] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }
}
