//! Collections: records of several entities in one partition, written in one transaction, read in one query.
//!
//! A horse is its results and its parents; a shop is itself and its pages. Members of which there can be one only
//! (their sort key is constant) belong to the whole: a fetch that misses one of them fetches all. Of the others, what
//! cannot be read is left out and told; see [`Unread`].
//!
//! Code made by [`schema!`](crate::schema) implements [`Gather`] for each collection; [`Entries`] implements it by
//! entity and field names.

use std::collections::HashSet;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use futures_util::future;
use larder_expr::{KeyCondition, KeyTest, SortTest};
use larder_model::{AttributeValue, Item, UnixTime};
use larder_ops::{self as ops, ReturnCapacity};
use larder_schema::schema::{Consistency, KeySource};
use larder_schema::{ABSENT, BuildError, CHUNK, Fields};

use crate::cache::read::{self, Loader, Stored, Subject};
use crate::cache::{self, Identity, Write};
use crate::entity::{Core, timestamp};
use crate::shelf::{self, Entry, Given, Record};
use crate::source::{BoxError, IntoLoad, Known};
use crate::store::Patience;
use crate::write::{Outcome, Over};
use crate::{Error, Fetched, Look, System, Transaction, Unread, batch, oversize};

/// The records of one partition as one value.
///
/// ```
/// # larder::schema!("examples/library.larder");
/// # use library::{Library, NewBook, NewLoan, NewVolume};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let library = Library::open(larder::Store::memory().await).await?;
/// # let loan = NewLoan { isbn: "1".to_owned(), number: Some(1), reader: "Ada".to_owned() };
/// # library.volumes().put(NewVolume { book: Some(NewBook::new("1")), loans: vec![loan] }).await?;
/// use larder::Gather as _;
/// use library::Volume; // made from `collection Volume { Book, Loan }`
///
/// assert_eq!(Volume::COLLECTION, "Volume");
/// let volume: Volume = library.volumes().get("1").await?.expect("it was just written");
/// assert_eq!((volume.book.is_some(), volume.loans.len()), (true, 1));
/// # Ok(())
/// # }
/// ```
pub trait Gather: fmt::Debug + Send + Sync + Sized + 'static {
    /// The collection's name in the schema.
    const COLLECTION: &'static str;
    /// The fields that name the partition.
    type Key: Given + Clone + fmt::Debug + Send + Sync + 'static;
    /// The key as a source takes it.
    type Ask: From<Self::Key> + Send;
    /// What is written, and what a source gives.
    type New: Send + 'static;

    /// Takes its members out of what was read.
    fn read(members: Members) -> Result<Self, Error>;

    /// The entity and the given fields of each record. Those of the key may be left out for a source.
    fn members(new: Self::New) -> Vec<(String, Fields)>;
}

/// What a collection was found to hold.
///
/// ```
/// # larder::schema!("examples/library.larder");
/// use larder::{Error, Fields, Gather, Members};
/// use library::{Book, Loan, VolumeKey};
///
/// /// How many of a book's copies are out.
/// #[derive(Debug)]
/// struct Out(usize, i64);
///
/// impl Gather for Out {
///     const COLLECTION: &'static str = "Volume";
///     type Key = VolumeKey;
///     type Ask = String;
///     type New = Vec<(String, Fields)>;
///
///     fn read(mut members: Members) -> Result<Self, Error> {
///         Ok(Self(members.all::<Loan>()?.len(), members.one::<Book>()?.map_or(0, |book| book.copies)))
///     }
///
///     fn members(new: Self::New) -> Vec<(String, Fields)> {
///         new
///     }
/// }
///
/// # use library::{Library, NewBook, NewLoan, NewVolume};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let library = Library::open(larder::Store::memory().await).await?;
/// # let loan = NewLoan { isbn: "1".to_owned(), number: Some(1), reader: "Ada".to_owned() };
/// # library.volumes().put(NewVolume { book: Some(NewBook::new("1")), loans: vec![loan] }).await?;
/// let out = library.collection_of::<Out>().get("1").await?.expect("it was just written");
/// assert_eq!((out.0, out.1), (1, 1));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Members {
    items: Vec<(Arc<Core>, Item)>,
    now: UnixTime,
}

impl Members {
    /// The record of an entity of which there is one at most.
    pub fn one<R: Record>(&mut self) -> Result<Option<R>, Error> {
        let taken = self.take(R::ENTITY);
        taken.first().map(|(core, item)| shelf::read(core, item, self.now)).transpose()
    }

    /// The records of an entity, in the order of their keys.
    pub fn all<R: Record>(&mut self) -> Result<Vec<R>, Error> {
        let (taken, mut unread) = (self.take(R::ENTITY), Unread::default());
        let read =
            taken.iter().map(|(core, item)| unread.take(core, shelf::read(core, item, self.now), false));
        read.filter_map(Result::transpose).collect()
    }

    fn take(&mut self, entity: &str) -> Vec<(Arc<Core>, Item)> {
        let (taken, left) =
            std::mem::take(&mut self.items).into_iter().partition(|(core, _)| core.name() == entity);
        self.items = left;
        taken
    }
}

/// The records of a collection, each with the name of its entity.
///
/// ```
/// # larder::schema!("examples/library.larder");
/// # use library::{Library, NewBook, NewLoan, NewVolume};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let library = Library::open(larder::Store::memory().await).await?;
/// # let loan = NewLoan { isbn: "1".to_owned(), number: Some(1), reader: "Ada".to_owned() };
/// # library.volumes().put(NewVolume { book: Some(NewBook::new("1")), loans: vec![loan] }).await?;
/// let volumes = library.collection("Volume").expect("the schema has it");
/// let key = larder::Fields::from([("isbn".to_owned(), "1".into())]);
/// let entries = volumes.get(key).await?.expect("it was just written");
/// assert_eq!(entries.of("Loan").next().expect("it was lent").fields["reader"], "Ada".into());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Entries(pub Vec<(String, Entry)>);

impl Entries {
    /// The records of one entity.
    pub fn of<'a>(&'a self, entity: &'a str) -> impl Iterator<Item = &'a Entry> {
        self.0.iter().filter(move |(name, _)| name == entity).map(|(_, entry)| entry)
    }
}

impl Gather for Entries {
    const COLLECTION: &'static str = "";
    type Key = Fields;
    type Ask = Fields;
    type New = Vec<(String, Fields)>;

    fn read(members: Members) -> Result<Self, Error> {
        let mut unread = Unread::default();
        let entries = members.items.iter().map(|(core, item)| {
            let read = unread.take(core, shelf::read(core, item, members.now), is_single(core))?;
            Ok(read.map(|entry| (core.name().to_owned(), entry)))
        });
        entries.filter_map(Result::transpose).collect::<Result<_, Error>>().map(Self)
    }

    fn members(new: Self::New) -> Vec<(String, Fields)> {
        new
    }
}

/// A collection on a store. Clones are the same.
///
/// ```
/// # use larder::{Fields, Schema, Store, System};
/// # use larder_schema::{Environment, NoFiles};
/// # let text = r#"
/// # system keiba
/// # table data {
/// #   key  pk / sk
/// #   entity Results {
/// #     key  "HORSE#{horse_id}" / "RESULTS"
/// #     input horse_id: string nonempty
/// #     wins: int
/// #   }
/// #   entity Parents {
/// #     key  "HORSE#{horse_id}" / "PARENT"
/// #     input horse_id: string nonempty
/// #     sire: string
/// #   }
/// #   collection Horse { Results, Parents }
/// # }
/// # "#;
/// # let schema = Schema::load("keiba.larder", text, &mut NoFiles, &Environment::new()).schema.unwrap();
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// let system = System::open(schema, Store::memory().await).await?;
/// let horses = system.collection("Horse").expect("it is declared");
/// let id = Fields::from([("horse_id".to_owned(), "2019105219".into())]);
/// let with = |name: &str, value: larder::Value| {
///     let mut fields = id.clone();
///     fields.insert(name.to_owned(), value);
///     fields
/// };
/// let results = ("Results".to_owned(), with("wins", 8.into()));
/// let parents = ("Parents".to_owned(), with("sire", "Kitasan Black".into()));
/// horses.put(vec![results, parents]).await?;
/// let horse = horses.get(id).await?.expect("it was just written");
/// assert_eq!(horse.0.len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Collection<G> {
    members: Arc<[Arc<Core>]>,
    system: System,
    group: PhantomData<fn() -> G>,
}

impl<G> Clone for Collection<G> {
    fn clone(&self) -> Self {
        Self { members: Arc::clone(&self.members), system: self.system.clone(), group: PhantomData }
    }
}

impl<G> fmt::Debug for Collection<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.members.iter().map(|core| core.name()).collect();
        f.debug_struct("Collection").field("members", &names).finish_non_exhaustive()
    }
}

impl System {
    /// A collection, by its name.
    ///
    /// ```
    /// # larder::schema!("examples/library.larder");
    /// # use library::Library;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let library = Library::open(larder::Store::memory().await).await?;
    /// assert!(library.collection("Volume").is_some());
    /// assert!(library.collection("Shelf").is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn collection(&self, name: &str) -> Option<Collection<Entries>> {
        self.group(name)
    }

    /// A typed collection.
    ///
    /// # Panics
    ///
    /// If `G` was made from another schema than this system was opened with.
    ///
    /// ```
    /// # larder::schema!("examples/library.larder");
    /// # use library::Library;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let library = Library::open(larder::Store::memory().await).await?;
    /// let volumes = library.collection_of::<library::Volume>(); // what `library.volumes()` rests on
    /// assert!(volumes.get("1").await?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn collection_of<G: Gather>(&self) -> Collection<G> {
        self.group(G::COLLECTION).expect("the type and the system are made from one schema")
    }

    fn group<G>(&self, name: &str) -> Option<Collection<G>> {
        let mut collections = self.schema().tables.iter().flat_map(|table| &table.collections);
        let collection = collections.find(|collection| collection.name == name)?;
        let members = collection.members.iter().map(|member| self.core(member)).collect::<Option<_>>()?;
        Some(Collection { members, system: self.clone(), group: PhantomData })
    }
}

impl<G> Collection<G> {
    /// The member that stands for all: its policy and its source are those of the collection.
    #[doc(hidden)]
    pub fn lead(&self) -> &str {
        lead(&self.members).map_or("", |core| core.name())
    }
}

impl<G: Gather> Collection<G> {
    /// Writes records of one partition together, each over what was there. Others in the partition stay.
    ///
    /// ```
    /// # larder::schema!("examples/library.larder");
    /// # use library::{Library, NewBook, NewLoan, NewLoanRequired, NewVolume};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let library = Library::open(larder::Store::memory().await).await?;
    /// let loan = NewLoan::new(NewLoanRequired { isbn: "1".to_owned(), reader: "Ada".to_owned() }).number(1);
    /// library.volumes().put(NewVolume { book: Some(NewBook::new("1")), loans: vec![loan] }).await?;
    /// assert_eq!(library.loans().get(("1", 1)).await?.expect("it was just written").reader, "Ada");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn put(&self, new: G::New) -> Result<(), Error> {
        let mut transaction = self.system.transaction();
        let mut partition: Option<AttributeValue> = None;
        for (entity, fields) in G::members(new) {
            let core = self.member(&entity)?;
            let key = core.key(&fields)?;
            let here = key.get(&core.table().partition.attribute).cloned();
            if partition.is_some() && partition != here {
                return Err(Error::NotAllowed(format!(
                    "{} is of another partition than the rest",
                    core.name()
                )));
            }
            partition = here;
            transaction = transaction.put_fields(core, fields);
        }
        transaction.run().await
    }

    /// All that is there, in one query; `None` when nothing is.
    ///
    /// ```
    /// # larder::schema!("examples/library.larder");
    /// # use library::{Library, NewBook, NewLoan, NewVolume};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let library = Library::open(larder::Store::memory().await).await?;
    /// # let loan = NewLoan { isbn: "1".to_owned(), number: Some(1), reader: "Ada".to_owned() };
    /// # library.volumes().put(NewVolume { book: Some(NewBook::new("1")), loans: vec![loan] }).await?;
    /// let volume = library.volumes().get("1").await?.expect("it was just written");
    /// assert_eq!(volume.book.expect("so was the book").title, "Untitled");
    /// assert!(library.volumes().get("2").await?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn get(&self, key: impl Into<G::Key>) -> Result<Option<G>, Error> {
        let subject = self.subject(key.into().into_fields())?;
        let now = subject.lead.unix_now();
        let (mut items, _) = subject.items().await?;
        items.retain(|(core, item)| !item.contains(ABSENT) && !core.is_expired(item, now));
        if items.is_empty() {
            return Ok(None);
        }
        G::read(Members { items, now }).map(Some)
    }

    /// The cache alone: what is kept and fresh, or why there is nothing.
    ///
    /// ```
    /// # larder::schema!("examples/library.larder");
    /// # use library::{Library, NewBook, NewLoan, NewVolume};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let library = Library::open(larder::Store::memory().await).await?;
    /// # let loan = NewLoan { isbn: "1".to_owned(), number: Some(1), reader: "Ada".to_owned() };
    /// # library.volumes().put(NewVolume { book: Some(NewBook::new("1")), loans: vec![loan] }).await?;
    /// assert!(matches!(library.volumes().look("1").await, larder::Look::Hit(_)));
    /// assert!(matches!(library.volumes().look("2").await, larder::Look::Miss(larder::Why::Absent)));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn look(&self, key: impl Into<G::Key>) -> Look<G> {
        let looked = match self.subject(key.into().into_fields()) {
            Ok(subject) => read::look(subject, Patience::short()).await,
            Err(error) => Err(cache::Why::Unreachable(error)),
        };
        match looked {
            Ok(fetched) => Look::Hit(fetched),
            Err(why) => Look::Miss(why),
        }
    }

    /// What is kept, or what the source gives, which is then kept: see [`Shelf::fetch`](crate::Shelf::fetch). A client that is kept
    /// for as long as the program runs is said once: [`loaded_by`](Self::loaded_by).
    ///
    /// ```
    /// # larder::schema!("examples/library.larder");
    /// # use library::{Library, NewBook, NewVolume};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let library = Library::open(larder::Store::memory().await).await?;
    /// let catalogue = |isbn: String| async move {
    ///     Ok::<_, std::io::Error>(NewVolume { book: Some(NewBook::new(isbn)), ..NewVolume::default() })
    /// };
    /// let volume = library.volumes().fetch("1", catalogue).await?;
    /// assert_eq!(volume.origin(), &larder::Origin::Source);
    /// assert_eq!(library.volumes().fetch("1", catalogue).await?.origin(), &larder::Origin::Store);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn fetch<F, L, E>(
        &self,
        key: impl Into<G::Key>,
        load: impl Fn(G::Ask) -> F + Send + Sync + 'static,
    ) -> Result<Fetched<G>, Error>
    where
        F: Future<Output = Result<L, E>> + Send + 'static,
        L: IntoLoad<G::New>,
        E: Into<BoxError>,
    {
        self.fetch_with(key, move |ask, _| load(ask)).await
    }

    /// Like [`fetch`](Self::fetch), with what is kept already, for sources that can answer
    /// [not modified](crate::Load::not_modified).
    ///
    /// ```
    /// # larder::schema!("examples/library.larder");
    /// # use library::{Library, NewBook, NewVolume};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let library = Library::open(larder::Store::memory().await).await?;
    /// use larder::{Known, Load};
    ///
    /// async fn catalogue(isbn: String, known: Known) -> Result<Load<NewVolume>, std::io::Error> {
    ///     Ok(match known.etag() {
    ///         Some("v1") => Load::not_modified(),
    ///         _ => Load::value(NewVolume { book: Some(NewBook::new(isbn)), ..NewVolume::default() }).etag("v1"),
    ///     })
    /// }
    /// let volume = library.volumes().fetch_with("1", catalogue).await?;
    /// assert!(volume.book.is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn fetch_with<F, L, E>(
        &self,
        key: impl Into<G::Key>,
        load: impl Fn(G::Ask, Known) -> F + Send + Sync + 'static,
    ) -> Result<Fetched<G>, Error>
    where
        F: Future<Output = Result<L, E>> + Send + 'static,
        L: IntoLoad<G::New>,
        E: Into<BoxError>,
    {
        let key = key.into();
        let subject = self.subject(key.clone().into_fields())?;
        let loader: Loader<G::New> = Arc::new(move |known| {
            let loading = load(G::Ask::from(key.clone()), known);
            Box::pin(async move { loading.await.map(IntoLoad::into_load).map_err(Into::into) })
        });
        read::fetch(subject, loader).await
    }

    /// Removes all records of the partition that belong to the collection, and says how many there were.
    ///
    /// ```
    /// # larder::schema!("examples/library.larder");
    /// # use library::{Library, NewBook, NewLoan, NewVolume};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let library = Library::open(larder::Store::memory().await).await?;
    /// # let loan = NewLoan { isbn: "1".to_owned(), number: Some(1), reader: "Ada".to_owned() };
    /// # library.volumes().put(NewVolume { book: Some(NewBook::new("1")), loans: vec![loan] }).await?;
    /// assert_eq!(library.volumes().delete("1").await?, 2);
    /// assert!(library.books().get("1").await?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn delete(&self, key: impl Into<G::Key>) -> Result<usize, Error> {
        let (items, _) = self.subject(key.into().into_fields())?.items().await?;
        let deletes = self.members.iter().map(|core| {
            let ours = items.iter().filter(|(of, _)| of.name() == core.name());
            batch::delete(core, ours.map(|(_, item)| core.key_of(item)).collect())
        });
        let outcomes = future::join_all(deletes).await;
        outcomes.into_iter().flatten().collect::<Result<Vec<()>, Error>>()?;
        Ok(items.len())
    }

    fn member(&self, entity: &str) -> Result<&Arc<Core>, Error> {
        self.members
            .iter()
            .find(|core| core.name() == entity)
            .ok_or_else(|| Error::NotAllowed(format!("{entity} is not in the collection")))
    }

    fn subject(&self, fields: Fields) -> Result<Gathered<G>, Error> {
        let lead = lead(&self.members)
            .ok_or_else(|| Error::NotAllowed("the collection has no members".to_owned()))?;
        let wrong = |cause| Error::Key { entity: lead.name().to_owned(), cause };
        let (_, access) = lead.access(None)?;
        let values = access.arguments.iter().map(|argument| {
            fields
                .get(&argument.name)
                .cloned()
                .ok_or_else(|| wrong(BuildError::Missing(argument.name.clone())))
        });
        let partition =
            access.partition(&lead.schema, &values.collect::<Result<Vec<_>, Error>>()?).map_err(wrong)?;
        // Where no member can stand for the whole, nothing of ours is ever written under this key.
        let key = lead.key(&fields).unwrap_or_else(|_| partition.iter().cloned().collect());
        let text: Vec<&str> = partition.iter().filter_map(|(_, value)| value.as_str()).collect();
        Ok(Gathered {
            identity: cache::identity(&key),
            text: text.join(" / "),
            members: Arc::clone(&self.members),
            lead: Arc::clone(lead),
            system: self.system.clone(),
            partition,
            fields,
            key,
            group: PhantomData,
        })
    }
}

fn lead(members: &[Arc<Core>]) -> Option<&Arc<Core>> {
    members.iter().find(|core| is_single(core)).or_else(|| members.first())
}

/// Whether a partition has one record of the entity at most.
fn is_single(core: &Core) -> bool {
    match &core.entity().sort {
        None => true,
        Some(KeySource::Template(template)) => template.holes().next().is_none(),
        Some(KeySource::Field(_)) => false,
    }
}

/// A collection to be fetched.
struct Gathered<G> {
    members: Arc<[Arc<Core>]>,
    /// The member that stands for all.
    lead: Arc<Core>,
    system: System,
    partition: Vec<(String, AttributeValue)>,
    fields: Fields,
    key: Item,
    identity: Identity,
    text: String,
    group: PhantomData<fn() -> G>,
}

/// How often a partition is read when writes behind arrive meanwhile.
const READS_MAX: u32 = 3;

/// The items of a collection, and what is there and no item of one.
type Held = (Vec<(Arc<Core>, Item)>, Vec<Item>);

impl<G> Gathered<G> {
    /// Every item of a member, whole, expired ones and memories of an absence included; and heads whose parts do not fit.
    async fn items(&self) -> Result<Held, Error> {
        let core = &self.lead;
        let tests = self.partition.iter().map(|(attribute, value)| KeyTest {
            attribute: attribute.as_str().into(),
            test: SortTest::Equal(value.clone().into()),
        });
        let request = ops::Query {
            table: core.table_name.clone(),
            index: None,
            key_condition: KeyCondition { tests: tests.collect() },
            filter: None,
            legacy_filter: false,
            projection: None,
            select: None,
            limit: None,
            forward: true,
            start: None,
            consistent: self.members.iter().any(|core| core.entity().policy.reads == Consistency::Strong),
            skip_damaged: false,
            capacity: ReturnCapacity::None,
        };
        let (mut items, mut broken, mut waits) = (Vec::new(), Vec::new(), self.pending());
        for _ in 0..READS_MAX {
            (items, broken) = self.stored(request.clone()).await?;
            let before = std::mem::replace(&mut waits, self.pending());
            // One that arrived meanwhile may have missed the query, and is not pending any more.
            let is_pending = |write: &Arc<Write>| waits.iter().any(|(_, other)| Arc::ptr_eq(other, write));
            if before.iter().all(|(_, write)| is_pending(write)) {
                break;
            }
        }
        // What waits to be written is newer than what the store holds.
        let replaced: HashSet<Identity> =
            waits.iter().map(|(core, write)| cache::identity(&core.key_of(&write.item))).collect();
        if !replaced.is_empty() {
            items.retain(|(core, item)| !replaced.contains(&cache::identity(&core.key_of(item))));
            broken.retain(|item| !replaced.contains(&cache::identity(&self.lead.key_of(item))));
        }
        items.extend(waits.into_iter().map(|(core, write)| (core, write.item.clone())));
        if let Some(sort) = &self.lead.table().sort {
            let key = |(_, item): &(Arc<Core>, Item)| {
                let value = item.get(&sort.attribute);
                (
                    value.and_then(AttributeValue::as_str).map(str::to_owned),
                    value.and_then(AttributeValue::as_number).copied(),
                )
            };
            items.sort_by_cached_key(key);
        }
        Ok((items, broken))
    }

    /// What waits to be written behind of it, or is on its way.
    fn pending(&self) -> Vec<(Arc<Core>, Arc<Write>)> {
        let is_here = |item: &Item| self.partition.iter().all(|(name, value)| item.get(name) == Some(value));
        let of = |core: &Arc<Core>| {
            let writes = core.cache.pending(is_here).into_iter();
            writes.map(|write| (Arc::clone(core), write)).collect::<Vec<_>>()
        };
        self.members.iter().flat_map(of).collect()
    }

    /// What the store holds of it: whole items, and heads whose parts do not fit.
    async fn stored(&self, mut request: ops::Query) -> Result<Held, Error> {
        let (mut items, mut broken) = (Vec::new(), Vec::new());
        loop {
            let page = self.lead.store.query(request.clone()).await?;
            for item in page.items.into_iter().filter(|item| !item.contains(CHUNK)) {
                let Some(core) = self.member_of(&item) else { continue };
                match oversize::join(core, item.clone()).await? {
                    Some(whole) => items.push((Arc::clone(core), whole)),
                    None => broken.push(item),
                }
            }
            request.start = page.last_key;
            if request.start.is_none() {
                return Ok((items, broken));
            }
        }
    }

    fn member_of(&self, item: &Item) -> Option<&Arc<Core>> {
        let entity = self.lead.schema.entity_of(self.lead.table(), item)?;
        self.members.iter().find(|core| core.name() == entity.name)
    }
}

impl<G: Gather> Subject for Gathered<G> {
    type Out = G;
    type Value = G::New;

    fn core(&self) -> &Arc<Core> {
        &self.lead
    }

    fn core_of(&self, item: &Item) -> &Arc<Core> {
        self.member_of(item).unwrap_or(&self.lead)
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

    fn name(&self) -> &str {
        if G::COLLECTION.is_empty() { self.lead.name() } else { G::COLLECTION }
    }

    async fn read(&self) -> Result<Stored, Error> {
        let (items, broken) = self.items().await?;
        let missing =
            |core: &&Arc<Core>| is_single(core) && items.iter().all(|(of, _)| of.name() != core.name());
        let absent = items.iter().any(|(_, item)| item.contains(ABSENT));
        let is_half = !absent && self.members.iter().any(|core| missing(&core));
        let items = items.into_iter().map(|(_, item)| item);
        Ok(match is_half {
            true => Stored { unusable: items.chain(broken).collect(), ..Stored::default() },
            false => Stored { items: items.collect(), ..Stored::default() },
        })
    }

    fn decode(&self, items: &[Item], now: UnixTime) -> Result<G, Error> {
        let items = items.iter().map(|item| (Arc::clone(self.core_of(item)), item.clone())).collect();
        G::read(Members { items, now })
    }

    fn encode(&self, value: G::New, old: &[Item], now: UnixTime) -> Result<Vec<Item>, Error> {
        let items = G::members(value).into_iter().map(|(entity, mut fields)| {
            let core = self.members.iter().find(|core| core.name() == entity);
            let core = core.ok_or_else(|| Error::NotAllowed(format!("{entity} is not in the collection")))?;
            let known = self.fields.iter().filter(|(name, _)| core.entity().field(name).is_some());
            fields.extend(known.map(|(name, value)| (name.clone(), value.clone())));
            let fields = core.checked(fields)?;
            let key = core.key(&fields)?;
            let lasting = old
                .iter()
                .find(|old| core.key_of(old) == key && !old.contains(ABSENT) && !core.is_expired(old, now));
            match lasting {
                Some(old) => Ok(core.merged(fields, old)?.0),
                None => core.item(fields, timestamp(now), true),
            }
        });
        items.collect()
    }

    fn renew(&self, old: &[Item]) -> Result<Vec<Item>, Error> {
        old.iter().map(|item| cache::renewed(self.core_of(item), item)).collect()
    }

    async fn write(
        &self,
        items: Vec<Item>,
        seen: &[Item],
        _pending: Option<&Arc<Write>>,
    ) -> Result<Outcome, Error> {
        let transaction =
            items.into_iter().fold(self.system.transaction(), |transaction: Transaction, item| {
                let core = Arc::clone(self.core_of(&item));
                let key = core.key_of(&item);
                // What waits is written before, and is then newer than what was seen.
                let over = Over::seen(seen.iter().find(|seen| core.key_of(seen) == key));
                transaction.put_loaded(&core, item, over)
            });
        transaction.attempts().await
    }
}
