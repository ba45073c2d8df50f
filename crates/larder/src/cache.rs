//! Caching of one entity: L1, the store, the source, in that order.
//!
//! ```text
//! read.rs       the order, and what is done when one of them fails
//! freshness.rs  item + policy + now → fresh, stale or gone
//! l1.rs         records in memory
//! flight.rs     one load per key in this process; shared_flight.rs across processes
//! loads.rs      loads that a write has overtaken
//! write.rs      writes behind; queue.rs what waits, turns.rs who may write a key
//! ```
//!
//! An item of ours that holds no record carries `larder_absent`: the memory of an absence, or a load that is under
//! way. Nobody may read it as a record.

mod flight;
pub(crate) mod freshness;
mod l1;
mod loader;
mod loads;
mod queue;
pub(crate) mod read;
mod shared_flight;
mod turns;
mod write;

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use larder_model::{AttributeValue, Item, UnixTime};
use larder_schema::jiff::SignedDuration;
use larder_schema::schema::{Consistency, OnError, Source as SourceSettings};
use larder_schema::{Entity, FRESH_UNTIL, Fields};
use parking_lot::Mutex;

use crate::entity::{Core, timestamp};
use crate::observe::{Observer, Sink, Stats};
use crate::shelf::{self, Draft, Given, Record, Shelf};
use crate::source::{BoxError, IntoLoad, Known, Source};
use crate::store::Patience;
use crate::write::Outcome;
use crate::{Error, Schema, oversize};

use flight::Flights;
use l1::L1;
pub use loader::{CollectionLoader, Loaded, LoadedCollection, Loader};
use loads::Loads;
use read::{FlightKey, Landed, Stored, Subject};
pub(crate) use turns::Waiting;
use write::Behind;
pub use write::{Drained, Unwritten};
pub(crate) use write::{Turns, Write};

/// Until when somebody has the right to load the item, in Unix milliseconds; and who.
pub(crate) const FLIGHT: &str = "larder_flight";
pub(crate) const FLIGHT_BY: &str = "larder_flight_by";

/// A key as bytes. Different keys differ.
pub(crate) type Identity = Arc<[u8]>;

/// Each part with its length before it, so that no two keys run together.
pub(crate) fn identity(key: &Item) -> Identity {
    let mut bytes = Vec::new();
    for (_, value) in key {
        let number;
        let (kind, part): (u8, &[u8]) = match value {
            AttributeValue::S(text) => (b'S', text.as_bytes()),
            AttributeValue::B(part) => (b'B', part),
            AttributeValue::N(value) => {
                number = value.to_string();
                (b'N', number.as_bytes())
            }
            // Keys are texts, numbers and bytes; a store refuses any other before this matters.
            _ => (b'?', &[]),
        };
        identity_part(&mut bytes, kind, part);
    }
    bytes.into()
}

pub(crate) fn identity_part(bytes: &mut Vec<u8>, kind: u8, part: &[u8]) {
    bytes.push(kind);
    bytes.extend_from_slice(&part.len().to_be_bytes());
    bytes.extend_from_slice(part);
}

/// What the entities of one system share.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    queues: Mutex<Vec<Arc<Behind>>>,
    sources: Mutex<Vec<(String, Arc<Source>)>>,
    pub(crate) sink: Arc<Sink>,
}

impl Shared {
    /// At most so long, or for each entity as long as the schema says.
    pub(crate) async fn drain(&self, at_most: Option<Duration>) -> Drained {
        let queues = self.queues.lock().clone();
        write::drain(&queues, at_most).await
    }

    /// One for all entities that name it. An entity without a source has its own, without any rules.
    fn source(&self, settings: Option<&SourceSettings>) -> Arc<Source> {
        let Some(settings) = settings else { return Arc::default() };
        let mut sources = self.sources.lock();
        if let Some((_, source)) = sources.iter().find(|(name, _)| *name == settings.name) {
            return Arc::clone(source);
        }
        let source = Arc::new(Source::new(settings.clone()));
        sources.push((settings.name.clone(), Arc::clone(&source)));
        source
    }
}

/// What the layer keeps in memory for one entity.
#[derive(Debug)]
pub(crate) struct EntityCache {
    /// None for an entity with a secret in it, whatever the schema says of L1.
    l1: Option<L1>,
    flights: Arc<Flights<FlightKey, Landed>>,
    loads: Arc<Loads>,
    pub(crate) behind: Arc<Behind>,
    source: Arc<Source>,
}

impl EntityCache {
    pub(crate) fn new(schema: &Schema, entity: &Entity, shared: &Shared, observer: Arc<Observer>) -> Self {
        let settings =
            entity.source.as_ref().and_then(|name| schema.sources.iter().find(|source| source.name == *name));
        let behind = Arc::new(Behind::new(&entity.name, &entity.policy, observer));
        shared.queues.lock().push(Arc::clone(&behind));
        Self {
            l1: entity.policy.l1.filter(|_| !has_secret(schema, entity)).map(L1::new),
            flights: Arc::new(Flights::new()),
            loads: Arc::default(),
            behind,
            source: shared.source(settings),
        }
    }

    /// The right to write these keys past the queue of writes behind.
    pub(crate) async fn turns<'k>(&self, keys: impl IntoIterator<Item = &'k Item>) -> Turns<'_> {
        self.behind.turns(keys.into_iter().map(identity).collect()).await
    }

    /// A key was written in its turn: what waited for it before is not written any more.
    pub(crate) fn replaced(&self, key: &Item, turns: &Turns<'_>) {
        turns.drop_older(&identity(key));
    }

    /// Forgets all records in L1.
    pub(crate) fn clear_l1(&self) {
        if let Some(l1) = &self.l1 {
            l1.clear();
        }
    }

    /// What waits to be written behind for a key and is not begun.
    pub(crate) fn waiting(&self, key: &Item) -> Option<Arc<Write>> {
        self.behind.waiting(&identity(key))
    }

    /// What waits to be written behind, or is on its way, of the items that are meant.
    pub(crate) fn pending(&self, is_meant: impl Fn(&Item) -> bool) -> Vec<Arc<Write>> {
        self.behind.pending_of(is_meant)
    }

    /// Drops what waits for a key, if it is meant, and returns when nothing of it is on its way. Whether it waited.
    pub(crate) async fn drop_pending(&self, key: &Item, is_meant: impl Fn(&Item) -> bool) -> bool {
        self.behind.drop_pending(&identity(key), is_meant).await
    }

    /// Forgets what L1 holds for a key, because the store was written or may have been.
    pub(crate) fn wrote(&self, key: &Item) {
        let key = identity(key);
        self.loads.overtake(&key);
        self.forget_in_l1(&key);
    }

    /// Forgets what only this process holds, of all keys: L1 and the loads that are under way.
    pub(crate) fn wrote_all(&self) {
        self.loads.overtake_all();
        self.clear_l1();
    }

    fn forget_in_l1(&self, key: &Identity) {
        if let Some(l1) = &self.l1 {
            l1.forget(key);
        }
    }
}

fn has_secret(schema: &Schema, entity: &Entity) -> bool {
    entity.fields.iter().any(|field| schema.is_secret(field))
}

impl<R: Record> Shelf<R> {
    /// The record of a key, from L1 or the store. No source is called.
    ///
    /// Where the schema says `on_error open`, a store that fails is a miss.
    ///
    /// ```
    /// # larder::schema!("examples/library.larder");
    /// # use library::{Library, NewBook};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let library = Library::open(larder::Store::memory().await).await?;
    /// let books = library.books();
    /// assert!(books.get("1").await?.is_none());
    /// books.create(NewBook::new("1")).await?;
    /// assert_eq!(books.get("1").await?.expect("it was just made").title, "Untitled");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn get(&self, key: impl Into<R::Key>) -> Result<Option<R>, Error> {
        // Where a store that fails is an error, it is worth waiting for.
        let patience = match self.core.entity().policy.on_error {
            OnError::Open => Patience::short(),
            OnError::Closed => Patience::long(),
        };
        match read::look(self.subject(key.into())?, patience).await {
            Ok(fetched) => Ok(Some(fetched.into_record())),
            Err(Why::Unreachable(error)) if self.core.entity().policy.on_error == OnError::Closed => {
                Err(error)
            }
            Err(Why::Absent | Why::Expired | Why::Unreachable(_)) => Ok(None),
        }
    }

    /// Cache-aside: what is kept, or why there is nothing; what to do about it is the caller's matter.
    ///
    /// ```
    /// # larder::schema!("examples/pages.larder");
    /// # use pages::Pages;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pages = Pages::open(larder::Store::memory().await).await?;
    /// use larder::{Look, Why};
    /// use pages::NewPage;
    ///
    /// let url = "https://example.com/";
    /// match pages.pages().look(url).await {
    ///     Look::Hit(page) => println!("{} is {} old", page.url, page.age()),
    ///     Look::Miss(Why::Absent) => {
    ///         let text = "what the program fetched itself".to_owned();
    ///         pages.pages().put(NewPage { url: url.to_owned(), text }).await?;
    ///     }
    ///     Look::Miss(why) => panic!("{why}"),
    /// }
    /// assert!(matches!(pages.pages().look(url).await, Look::Hit(_)));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn look(&self, key: impl Into<R::Key>) -> Look<R> {
        let looked = match self.subject(key.into()) {
            Ok(subject) => read::look(subject, Patience::short()).await,
            Err(error) => Err(Why::Unreachable(error)),
        };
        match looked {
            Ok(fetched) => Look::Hit(fetched),
            Err(why) => Look::Miss(why),
        }
    }

    /// Read-through: from L1, else from the store, else from the source, which is called once however many ask.
    ///
    /// The loader takes the key's fields and returns a value, an `Option` of one, or a [`Load`](crate::Load). It may be called
    /// again, as the schema's `retry` says, and goes on when the caller goes away: a closure owns what it uses. A client that is kept for
    /// as long as the program runs is a [`Loader`], said once by [`loaded_by`](Self::loaded_by), and lends itself to each load.
    ///
    /// What the source does not have is [`Error::Absent`]. A source that fails is an error only when nothing
    /// stale may be given instead.
    ///
    /// ```
    /// # larder::schema!("examples/pages.larder");
    /// # use pages::Pages;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pages = Pages::open(larder::Store::memory().await).await?;
    /// use larder::Origin;
    ///
    /// async fn download(url: String) -> Result<String, std::io::Error> {
    ///     Ok(format!("the text of {url}"))
    /// }
    /// let page = pages.pages().fetch("https://example.com/", download).await?;
    /// assert_eq!((page.text.as_str(), page.origin()), ("the text of https://example.com/", &Origin::Source));
    /// let page = pages.pages().fetch("https://example.com/", download).await?;
    /// assert_eq!(page.origin(), &Origin::L1);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn fetch<F, L, E>(
        &self,
        key: impl Into<R::Key>,
        load: impl Fn(R::Ask) -> F + Send + Sync + 'static,
    ) -> Result<Fetched<R>, Error>
    where
        F: Future<Output = Result<L, E>> + Send + 'static,
        L: IntoLoad<R::Value>,
        E: Into<BoxError>,
    {
        self.fetch_with(key, move |ask, _| load(ask)).await
    }

    /// Like [`fetch`](Self::fetch), with what is kept already, for sources that can answer
    /// [not modified](crate::Load::not_modified).
    ///
    /// ```
    /// # larder::schema!("examples/pages.larder");
    /// # use pages::Pages;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pages = Pages::open(larder::Store::memory().await).await?;
    /// use larder::{Known, Load};
    /// use std::time::Duration;
    ///
    /// async fn download(_url: String, known: Known) -> Result<Load<String>, std::io::Error> {
    ///     Ok(match known.etag() {
    ///         Some("v1") => Load::not_modified(),
    ///         _ => Load::value("once upon a time".to_owned()).etag("v1"),
    ///     })
    /// }
    /// for _ in 0..2 {
    ///     let page = pages.pages().fetch_with("https://example.com/", download).await?;
    ///     assert_eq!(page.text, "once upon a time");
    ///     pages.store().clock().advance(Duration::from_secs(2 * 60 * 60)); // its hour is over
    /// }
    /// assert_eq!(pages.pages().stats().loads, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn fetch_with<F, L, E>(
        &self,
        key: impl Into<R::Key>,
        load: impl Fn(R::Ask, Known) -> F + Send + Sync + 'static,
    ) -> Result<Fetched<R>, Error>
    where
        F: Future<Output = Result<L, E>> + Send + 'static,
        L: IntoLoad<R::Value>,
        E: Into<BoxError>,
    {
        let key = key.into();
        if let Some(hit) = read::hit(&self.core, &key) {
            return Ok(hit);
        }
        let subject = self.subject_of(key.clone().into_fields())?;
        let loader: read::Loader<R::Value> = Arc::new(move |known| {
            let loading = load(R::Ask::from(key.clone()), known);
            Box::pin(async move { loading.await.map(IntoLoad::into_load).map_err(Into::into) })
        });
        // Boxed: a hit need not move what a miss needs.
        Box::pin(read::fetch(subject, loader)).await
    }

    /// What L1 has of a key and may be given: a fetch without all that another answer needs.
    #[doc(hidden)]
    pub fn in_memory(&self, key: &Fields) -> Option<Fetched<R>> {
        read::hit(&self.core, key)
    }

    /// Checks a record and writes it after this call has returned; see [`System::drain`](crate::System::drain).
    ///
    /// It overwrites what is there, whatever its version. Readers in this process see it at once. The only
    /// failures are a record that is not valid and a queue that is full.
    ///
    /// ```
    /// # larder::schema!("examples/library.larder");
    /// # use library::{Library, NewBook};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let library = Library::open(larder::Store::memory().await).await?;
    /// let book = library.books().put_behind(NewBook::new("1")).await?;
    /// assert_eq!(library.books().get("1").await?, Some(book));
    /// library.drain(std::time::Duration::from_secs(5)).await.expect_empty();
    /// # Ok(())
    /// # }
    /// ```
    pub async fn put_behind(&self, draft: impl Draft<R>) -> Result<R, Error> {
        let core = &self.core;
        let now = core.unix_now();
        let (fields, _) = shelf::drawn(core, draft)?;
        let item = core.item(core.checked(fields)?, timestamp(now), true)?;
        let record = shelf::read(core, &item, now)?;
        core.queue(item)?;
        Ok(record)
    }

    /// Makes a key a miss: removed from L1, from what waits to be written, and from the store.
    ///
    /// Where the schema says `on_error open`, a store that fails is logged and not an error.
    ///
    /// ```
    /// # larder::schema!("examples/pages.larder");
    /// # use pages::Pages;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pages = Pages::open(larder::Store::memory().await).await?;
    /// # let load = |url: String| async move { Ok::<_, std::io::Error>(format!("the text of {url}")) };
    /// pages.pages().fetch("https://example.com/", load).await?;
    /// pages.pages().forget("https://example.com/").await?;
    /// pages.pages().fetch("https://example.com/", load).await?;
    /// assert_eq!(pages.pages().stats().loads, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn forget(&self, key: impl Into<R::Key>) -> Result<(), Error> {
        let core = &self.core;
        let key = core.key(&key.into().into_fields())?;
        core.cache.drop_pending(&key, |_| true).await;
        match core.delete(&key, None).await {
            Ok(_) => {
                core.observer.invalidated(&core.key_text(&key));
                Ok(())
            }
            Err(error) if core.entity().policy.on_error == OnError::Open => {
                core.observer.store_failed(&core.key_text(&key), "forget", &error, core.unix_now());
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// What happened to this entity in this process so far.
    ///
    /// ```
    /// # larder::schema!("examples/pages.larder");
    /// # use pages::Pages;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pages = Pages::open(larder::Store::memory().await).await?;
    /// pages.pages().get("https://example.com/").await?;
    /// assert_eq!(pages.pages().stats().misses, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn stats(&self) -> Stats {
        self.core.observer.stats()
    }

    fn subject(&self, key: R::Key) -> Result<OneRecord<R>, Error> {
        self.subject_of(key.into_fields())
    }

    fn subject_of(&self, fields: Fields) -> Result<OneRecord<R>, Error> {
        let key = self.core.key(&fields)?;
        Ok(OneRecord {
            identity: identity(&key),
            text: self.core.key_text(&key),
            core: Arc::clone(&self.core),
            fields,
            key,
            record: PhantomData,
        })
    }
}

/// A record to be fetched.
struct OneRecord<R> {
    core: Arc<Core>,
    /// What its key was made from.
    fields: Fields,
    key: Item,
    identity: Identity,
    text: String,
    record: PhantomData<fn() -> R>,
}

impl<R: Record> Subject for OneRecord<R> {
    type Out = R;
    type Value = R::Value;

    fn core(&self) -> &Arc<Core> {
        &self.core
    }

    fn key(&self) -> &Item {
        &self.key
    }

    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn text(&self) -> &str {
        &self.text
    }

    fn in_l1(&self) -> bool {
        true
    }

    async fn read(&self) -> Result<Stored, Error> {
        // What waits to be written is newer than what the store holds.
        let pending = || {
            let write = self.core.cache.behind.pending(&self.identity)?;
            Some(Stored { items: vec![write.item.clone()], pending: Some(write), ..Stored::default() })
        };
        if let Some(stored) = pending() {
            return Ok(stored);
        }
        let is_strong = self.core.entity().policy.reads == Consistency::Strong;
        let stored = match self.core.head(&self.key, is_strong).await? {
            None => Stored::default(),
            Some(head) => match oversize::join(&self.core, head.clone()).await? {
                Some(whole) => Stored { items: vec![whole], ..Stored::default() },
                None => Stored { unusable: vec![head], ..Stored::default() },
            },
        };
        // Queued while the store was asked: whoever asks next is given it, and what was read here would seem to come back after it.
        Ok(pending().unwrap_or(stored))
    }

    fn decode(&self, items: &[Item], now: UnixTime) -> Result<R, Error> {
        let corrupt = || Error::Corrupt {
            entity: self.core.name().to_owned(),
            key: self.text.clone(),
            cause: "there is no item".to_owned(),
        };
        shelf::read(&self.core, items.first().ok_or_else(corrupt)?, now)
    }

    fn encode(&self, value: R::Value, old: &[Item], now: UnixTime) -> Result<Vec<Item>, Error> {
        let mut fields = value.into_fields();
        fields.extend(self.fields.clone());
        let fields = self.core.checked(fields)?;
        let lasting = old.first().filter(|old| !self.core.is_expired(old, now));
        let item = match lasting {
            Some(old) => self.core.merged(fields, old)?.0,
            None => self.core.item(fields, timestamp(now), true)?,
        };
        Ok(vec![item])
    }

    fn renew(&self, old: &[Item]) -> Result<Vec<Item>, Error> {
        old.iter().map(|item| renewed(&self.core, item)).collect()
    }

    async fn write(
        &self,
        items: Vec<Item>,
        seen: &[Item],
        pending: Option<&Arc<Write>>,
    ) -> Result<Outcome, Error> {
        let mut outcome = Outcome::Made;
        for item in items {
            outcome = self.core.save_loaded(item, seen.first(), pending).await?;
        }
        Ok(outcome)
    }
}

/// An item as if it had been fetched just now: what is computed from `now`, and its TTL.
pub(crate) fn renewed(core: &Core, item: &Item) -> Result<Item, Error> {
    let now = core.unix_now();
    let entity = core.entity();
    let mut fields = core.fields(item, now)?;
    let mut places = core.computed_from_now();
    places.retain(|at| !entity.fields[*at].on_create);
    entity.compute_some(&mut fields, timestamp(now), &places);
    let mut item = item.clone();
    for name in [FLIGHT, FLIGHT_BY, FRESH_UNTIL] {
        item.remove(name);
    }
    for field in places.iter().map(|at| &entity.fields[*at]).filter(|field| field.is_stored()) {
        if let Some(value) = fields.get(&field.name) {
            item.insert(field.attribute.clone(), core.encoded(field, value)?);
        }
    }
    core.limit(&mut item, &fields, now);
    Ok(item)
}

/// What a cache-aside read found.
///
/// ```
/// # larder::schema!("examples/pages.larder");
/// # use pages::Pages;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let pages = Pages::open(larder::Store::memory().await).await?;
/// use larder::{Look, Why};
///
/// let Look::Miss(why) = pages.pages().look("https://example.com/").await else { panic!("nothing is kept yet") };
/// assert!(matches!(why, Why::Absent));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub enum Look<R> {
    /// It is kept and fresh.
    Hit(Fetched<R>),
    /// It is not, and this is why.
    Miss(Why),
}

/// Why a read found nothing.
///
/// ```
/// # larder::schema!("examples/pages.larder");
/// # use pages::Pages;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let pages = Pages::open(larder::Store::memory().await).await?;
/// use larder::{Look, Why};
///
/// pages.store().faults().down();
/// let Look::Miss(why) = pages.pages().look("https://example.com/").await else { panic!("the store is down") };
/// assert!(matches!(why, Why::Unreachable(_)));
/// assert!(why.to_string().starts_with("unreachable: "));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Why {
    /// It is not kept, or it is known that there is none.
    Absent,
    /// It was kept, and its time is over.
    Expired,
    /// The store failed, or holds something that cannot be read.
    Unreachable(Error),
}

impl Why {
    fn name(&self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Expired => "expired",
            Self::Unreachable(_) => "unreachable",
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent | Self::Expired => f.pad(self.name()),
            Self::Unreachable(error) => write!(f, "unreachable: {error}"),
        }
    }
}

/// A record, and where it came from.
///
/// ```
/// # larder::schema!("examples/pages.larder");
/// # use pages::Pages;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let pages = Pages::open(larder::Store::memory().await).await?;
/// # let load = |url: String| async move { Ok::<_, std::io::Error>(format!("the text of {url}")) };
/// let page = pages.pages().fetch("https://example.com/", load).await?;
/// assert!(page.origin() == &larder::Origin::Source && page.store_error().is_none());
/// assert_eq!(page.age().as_secs(), 0);
/// assert_eq!(page.url, "https://example.com/"); // it is the record too
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Fetched<R> {
    record: Arc<R>,
    origin: Origin,
    stored_at: UnixTime,
    age: Duration,
    store_error: Option<Arc<Error>>,
}

impl<R> Clone for Fetched<R> {
    fn clone(&self) -> Self {
        Self {
            record: Arc::clone(&self.record),
            origin: self.origin.clone(),
            store_error: self.store_error.clone(),
            ..*self
        }
    }
}

impl<R> Fetched<R> {
    fn new(
        record: Arc<R>,
        origin: Origin,
        (stored_at, now): (UnixTime, UnixTime),
        store_error: Option<Arc<Error>>,
    ) -> Self {
        let age = u64::try_from(now.millis().saturating_sub(stored_at.millis())).unwrap_or(0);
        Self { record, origin, stored_at, age: Duration::from_millis(age), store_error }
    }

    /// Where it came from.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Since when it is kept.
    pub fn stored_at(&self) -> UnixTime {
        self.stored_at
    }

    /// How old it was when it was given.
    pub fn age(&self) -> Age {
        Age(self.age)
    }

    /// How the store failed on the way, if it did and the call continued without it.
    ///
    /// ```
    /// # larder::schema!("examples/pages.larder");
    /// # use pages::Pages;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pages = Pages::open(larder::Store::memory().await).await?;
    /// # let load = |url: String| async move { Ok::<_, std::io::Error>(format!("the text of {url}")) };
    /// pages.store().faults().down();
    /// let page = pages.pages().fetch("https://example.com/", load).await?;
    /// assert!(page.store_error().is_some_and(larder::Error::is_transient));
    /// # Ok(())
    /// # }
    /// ```
    pub fn store_error(&self) -> Option<&Error> {
        self.store_error.as_deref()
    }

    /// The record, shared with L1 and with others who asked.
    ///
    /// ```
    /// # larder::schema!("examples/pages.larder");
    /// # use pages::Pages;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pages = Pages::open(larder::Store::memory().await).await?;
    /// # let load = |url: String| async move { Ok::<_, std::io::Error>(format!("the text of {url}")) };
    /// # let fetched = pages.pages().fetch("https://example.com/", load).await?;
    /// let shared = fetched.clone().into_arc();
    /// assert_eq!(fetched.into_record(), *shared);
    /// # Ok(())
    /// # }
    /// ```
    pub fn into_arc(self) -> Arc<R> {
        self.record
    }

    /// The record alone.
    pub fn into_record(self) -> R
    where
        R: Clone,
    {
        Arc::unwrap_or_clone(self.record)
    }
}

impl<R> Deref for Fetched<R> {
    type Target = R;

    fn deref(&self) -> &R {
        &self.record
    }
}

/// How old something is: a [`Duration`] that can be shown to people.
///
/// ```
/// # larder::schema!("examples/pages.larder");
/// # use pages::Pages;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let pages = Pages::open(larder::Store::memory().await).await?;
/// use std::time::Duration;
///
/// # let load = |url: String| async move { Ok::<_, std::io::Error>(format!("the text of {url}")) };
/// # pages.store().clock().stop();
/// # pages.pages().fetch("https://example.com/", load).await?;
/// pages.store().clock().advance(Duration::from_secs(90));
/// let page = pages.pages().fetch("https://example.com/", load).await?;
/// assert!(*page.age() >= Duration::from_secs(90));
/// assert_eq!(page.age().to_string(), "1m 30s");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Age(Duration);

impl Deref for Age {
    type Target = Duration;

    fn deref(&self) -> &Duration {
        &self.0
    }
}

impl fmt::Display for Age {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = i64::try_from(self.0.as_secs()).unwrap_or(i64::MAX);
        f.pad(&format!("{:#}", SignedDuration::from_secs(seconds)))
    }
}

/// Where a record came from.
///
/// ```
/// # larder::schema!("examples/pages.larder");
/// # use pages::Pages;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let pages = Pages::open(larder::Store::memory().await).await?;
/// use larder::Origin;
/// # use std::time::Duration;
///
/// # let load = |url: String| async move { Ok::<_, std::io::Error>(format!("the text of {url}")) };
/// let origin = async || Ok::<_, larder::Error>(pages.pages().fetch("https://example.com/", load).await?.origin().clone());
/// assert_eq!((origin().await?, origin().await?), (Origin::Source, Origin::L1));
/// pages.store().clock().advance(Duration::from_secs(120)); // L1 keeps it for a minute
/// assert_eq!(origin().await?.to_string(), "store");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// The memory of this process.
    L1,
    /// The store, or what is on its way there.
    Store,
    /// Where it is made, just now.
    Source,
    /// Past its time, from L1 or the store.
    Stale(StaleReason),
}

/// Why something stale was given.
///
/// ```
/// # larder::schema!("examples/pages.larder");
/// # use pages::Pages;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let pages = Pages::open(larder::Store::memory().await).await?;
/// use larder::{Origin, StaleReason};
/// # use std::time::Duration;
///
/// # let load = |url: String| async move { Ok::<_, std::io::Error>(format!("the text of {url}")) };
/// # pages.pages().fetch("https://example.com/", load).await?;
/// pages.store().clock().advance(Duration::from_secs(2 * 60 * 60)); // past its hour, within its grace
/// let fails = |_url: String| async { Err::<String, _>(std::io::Error::other("no network")) };
/// let page = pages.pages().fetch("https://example.com/", fails).await?;
/// let Origin::Stale(StaleReason::SourceFailed(cause)) = page.origin() else { panic!("it is old") };
/// assert!(cause.to_string().ends_with("no network"));
/// assert!(cause.loader_error::<std::io::Error>().is_some());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum StaleReason {
    /// A new one is being fetched.
    Refreshing,
    /// The source takes longer than its soft timeout.
    SlowSource,
    /// The source failed in this way.
    SourceFailed(Arc<Error>),
}

/// Failures are the same when their words are.
impl PartialEq for StaleReason {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::SourceFailed(ours), Self::SourceFailed(theirs)) => ours.to_string() == theirs.to_string(),
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }
}

impl Eq for StaleReason {}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::L1 => f.pad("l1"),
            Self::Store => f.pad("store"),
            Self::Source => f.pad("source"),
            Self::Stale(StaleReason::Refreshing) => f.pad("stale, being refreshed"),
            Self::Stale(StaleReason::SlowSource) => f.pad("stale, the source is slow"),
            Self::Stale(StaleReason::SourceFailed(cause)) => write!(f, "stale, the source failed: {cause}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use larder_schema::Sampler;
    use larder_schema::{Environment, NoFiles};

    use super::*;
    use crate::{Store, System};

    #[tokio::test]
    async fn a_key_has_one_identity_however_it_is_made() {
        let mut made_at_once = 0;
        for name in ["keiba", "tdnet", "weather", "shops", "lunch"] {
            let path = format!("{}/../../schemas/{name}.larder", env!("CARGO_MANIFEST_DIR"));
            let text = std::fs::read_to_string(path).unwrap();
            let schema =
                Schema::load("test.larder", &text, &mut NoFiles, &Environment::new()).schema.unwrap();
            let system = System::on(schema, Store::memory().await, Environment::new()).unwrap();
            for entity in system.schema().tables.iter().flat_map(|table| &table.entities) {
                let core = system.core(&entity.name).unwrap();
                let Some(mut samples) = Sampler::new(system.schema(), &entity.name, 7) else { continue };
                for fields in (0..20).filter_map(|_| samples.sample().ok()) {
                    let (Ok(key), Some(at_once)) = (core.key(&fields), core.identity_at_once(&fields)) else {
                        continue;
                    };
                    made_at_once += 1;
                    assert_eq!(*identity(&key), *at_once, "{name}.{}: {key:?}", entity.name);
                }
            }
        }
        assert!(made_at_once > 100, "{made_at_once}");
    }
}
