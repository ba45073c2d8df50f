//! Items out of a store and into another, as they are: what `larder dump` and `larder load` rest on.
//!
//! An item is moved whole and untouched: what has expired, what breaks its checks and what no entity knows included.
//! What is kept in parts is joined on its way out and parted again on its way in, as the schema there says. The
//! layer's own notes, such as the memory of an absence, stay behind.
//!
//! Promises:
//! - What was dumped and restored dumps the same again.
//! - Restoring twice changes nothing the second time, and writes nothing.

use std::collections::HashMap;
use std::sync::Arc;

use futures_core::Stream;
use futures_util::StreamExt as _;
use larder_expr::Condition;
use larder_model::item_bytes;
use larder_model::{Item, Path};
use larder_ops::BatchWrite;
use larder_schema::CHUNK;

use crate::entity::Core;
use crate::shelf::{Draft, Record, Shelf};
use crate::system::System;
use crate::{Error, batch, oversize, scan};

/// Items written by themselves that are under way together.
const WRITES_AT_ONCE: usize = 8;

/// An item as it is stored, whole.
///
/// ```
/// let stored = larder::Stored { table: "pages".to_owned(), entity: None, item: Default::default() };
/// assert!(stored.entity.is_none(), "nobody's");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    /// What the schema calls the table.
    pub table: String,
    /// The entity its key is of, if it is of any.
    pub entity: Option<String>,
    /// All of its attributes, by stored names.
    pub item: Item,
}

/// What restoring an item did.
///
/// ```
/// use larder::Restored;
///
/// let outcomes = [Restored::Created, Restored::Unchanged];
/// assert_eq!(outcomes.iter().filter(|outcome| **outcome == Restored::Created).count(), 1);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restored {
    /// There was none with its key.
    Created,
    /// Another one with its key was replaced.
    Overwritten,
    /// It was there already, and nothing was written.
    Unchanged,
}

impl System {
    /// All items of a table by its name in the schema, read as they are taken. It ends after an error.
    ///
    /// ```
    /// # larder::schema!("examples/library.larder");
    /// # use library::{Library, NewBook};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use futures_util::TryStreamExt as _;
    ///
    /// # let library = Library::open(larder::Store::memory().await).await?;
    /// library.books().create(NewBook::new("1")).await?;
    /// let items: Vec<larder::Stored> = library.dump("library").try_collect().await?;
    /// assert_eq!((items.len(), items[0].entity.as_deref()), (1, Some("Book")));
    ///
    /// let other = Library::open(larder::Store::memory().await).await?;
    /// for outcome in other.restore(items).await {
    ///     assert_eq!(outcome?, larder::Restored::Created);
    /// }
    /// assert!(other.books().get("1").await?.is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub fn dump(&self, table: &str) -> impl Stream<Item = Result<Stored, Error>> + Send + use<> {
        let state = self.core_of(table).map(|core| (core, Vec::new().into_iter(), None, false));
        futures_util::stream::try_unfold(state, |state| async move {
            let Some((core, mut ready, mut start, mut over)) = state else { return Ok(None) };
            loop {
                for item in ready.by_ref() {
                    if let Some(stored) = outgoing(&core, item).await? {
                        return Ok(Some((stored, Some((core, ready, start, over)))));
                    }
                }
                if over {
                    return Ok(None);
                }
                // Parts are read with the item they are part of.
                let no_part = Some(Condition::NotExists(Path::attribute(CHUNK)));
                let page = core.store.scan(scan::request(&core, start, no_part, true)).await?;
                over = page.last_key.is_none();
                start = page.last_key;
                ready = page.items.into_iter();
            }
        })
    }

    /// Writes items as they are, in place of what has their keys, and says of each what that did. Nothing is checked
    /// but their keys.
    pub async fn restore(&self, items: impl IntoIterator<Item = Stored>) -> Vec<Result<Restored, Error>> {
        let mut of_core: HashMap<_, Vec<(usize, Item)>> = HashMap::new();
        let mut count = 0;
        for (at, stored) in items.into_iter().enumerate() {
            of_core.entry((stored.table, stored.entity)).or_default().push((at, stored.item));
            count = at + 1;
        }
        let mut outcomes: Vec<Option<Result<Restored, Error>>> = vec![None; count];
        for ((table, entity), items) in of_core {
            let (places, items): (Vec<usize>, Vec<Item>) = items.into_iter().unzip();
            let done = match self.holder(&table, entity.as_deref()) {
                Ok(core) => restore(&core, entity.as_deref(), items).await,
                Err(error) => vec![Err(error); places.len()],
            };
            for (at, outcome) in places.into_iter().zip(done) {
                outcomes[at] = Some(outcome);
            }
        }
        outcomes.into_iter().flatten().collect()
    }

    /// Whether an item could be restored: its table and entity are known, and its key is theirs.
    ///
    /// ```
    /// # larder::schema!("examples/library.larder");
    /// # use library::Library;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let library = Library::open(larder::Store::memory().await).await?;
    /// let keyless = larder::Stored { table: "library".to_owned(), entity: None, item: Default::default() };
    /// assert!(library.restorable(&keyless).is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn restorable(&self, stored: &Stored) -> Result<(), Error> {
        let entity = stored.entity.as_deref();
        let core = self.holder(&stored.table, entity)?;
        addressed(&core, entity, &stored.item)
    }

    /// What is known of the place of an item.
    fn holder(&self, table: &str, entity: Option<&str>) -> Result<Arc<Core>, Error> {
        let found = match entity {
            Some(entity) => self.core(entity).filter(|core| core.table().name == table),
            None => self.core_of(table),
        };
        found.ok_or_else(|| {
            let with = entity.map_or_else(String::new, |entity| format!(" with {entity} in it"));
            Error::NotAllowed(format!("{} has no table `{table}`{with}", self.schema().system))
        })
    }

    /// Any entity of a table: they share its store and its keys.
    fn core_of(&self, table: &str) -> Option<Arc<Core>> {
        let first = self.schema().table(table)?.entities.first()?;
        self.core(&first.name)
    }
}

impl<R: Record> Shelf<R> {
    /// Says what is wrong with a record, as a put would, and writes nothing.
    ///
    /// ```
    /// # larder::schema!("examples/library.larder");
    /// # use library::{Library, NewBook};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let library = Library::open(larder::Store::memory().await).await?;
    /// let books = library.shelf::<library::Book>();
    /// assert!(books.check(NewBook::new("1")).is_ok());
    /// assert!(matches!(books.check(NewBook::new("")), Err(larder::Error::Invalid(_))));
    /// # Ok(())
    /// # }
    /// ```
    pub fn check(&self, draft: impl Draft<R>) -> Result<(), Error> {
        let core = &self.core;
        let item = core.item(core.checked(draft.into_fields())?, core.now(), true)?;
        if oversize::is_oversize(core, &item) {
            oversize::prepare(core, item)?;
        }
        Ok(())
    }
}

/// An item that was read, whole; `None` when it is no record.
async fn outgoing(core: &Core, item: Item) -> Result<Option<Stored>, Error> {
    if batch::is_mark(&item) {
        return Ok(None);
    }
    let entity = core.schema.entity_of(core.table(), &item).map(|entity| entity.name.clone());
    let whole = match &entity {
        Some(_) => oversize::join(core, item).await?.map(oversize::without_marks),
        None => Some(item),
    };
    Ok(whole.map(|item| Stored { table: core.table().name.clone(), entity, item }))
}

/// Writes items of one entity, or of none.
async fn restore(core: &Arc<Core>, entity: Option<&str>, items: Vec<Item>) -> Vec<Result<Restored, Error>> {
    let mut outcomes: Vec<Result<Restored, Error>> =
        items.iter().map(|item| addressed(core, entity, item).map(|()| Restored::Unchanged)).collect();
    let keys = items.iter().map(|item| core.key_of(item));
    let mut last: HashMap<Vec<u8>, usize> = HashMap::new();
    let good: Vec<(usize, Item)> = keys.enumerate().filter(|(at, _)| outcomes[*at].is_ok()).collect();
    for (at, key) in &good {
        last.insert(item_bytes::encode(key), *at);
    }
    let known = batch::read(core, good.iter().map(|(_, key)| key.clone()).collect(), true, None).await;

    let mut writes = Vec::new();
    for ((at, key), known) in good.into_iter().zip(known) {
        let old = match known {
            Ok(Some(old)) => oversize::join(core, old).await.map(|whole| (true, whole)),
            Ok(None) => Ok((false, None)),
            Err(error) => Err(error),
        };
        outcomes[at] = old.map(|(there, old)| match old.map(oversize::without_marks) {
            _ if !there => Restored::Created,
            Some(old) if old == items[at] => Restored::Unchanged,
            _ => Restored::Overwritten,
        });
        // Of two with one key the later is written.
        let is_last = last.get(&item_bytes::encode(&key)) == Some(&at);
        if is_last && matches!(outcomes[at], Ok(Restored::Created | Restored::Overwritten)) {
            writes.push((at, items[at].clone()));
        }
    }
    let alone =
        |item: &Item| entity.is_some() && (oversize::may_split(core) || oversize::is_oversize(core, item));
    let (alone, together): (Vec<_>, Vec<_>) = writes.into_iter().partition(|(_, item)| alone(item));

    let alone = futures_util::stream::iter(alone)
        .map(|(at, item)| async move { (at, core.save(item, None).await.map(drop)) });
    let mut written: Vec<(usize, Result<(), Error>)> = alone.buffer_unordered(WRITES_AT_ONCE).collect().await;
    let (places, puts): (Vec<usize>, Vec<BatchWrite>) =
        together.into_iter().map(|(at, item)| (at, BatchWrite::Put(item))).unzip();
    written.extend(places.into_iter().zip(batch::write(core, puts).await));
    for (at, outcome) in written {
        if let Err(error) = outcome {
            outcomes[at] = Err(error);
        }
    }
    outcomes
}

/// Whether an item has a key of the table, and of the entity.
fn addressed(core: &Core, entity: Option<&str>, item: &Item) -> Result<(), Error> {
    let table = core.table();
    for key in std::iter::once(&table.partition).chain(table.sort.as_ref()) {
        let wanted = key.kind.name();
        if item.get(&key.attribute).is_none_or(|value| value.kind().name() != wanted) {
            return Err(Error::NotAllowed(format!(
                "the key `{}` is missing, or is not of type {wanted}",
                key.attribute
            )));
        }
    }
    let found = core.schema.entity_of(table, item).map(|entity| entity.name.as_str());
    match entity {
        Some(entity) if found != Some(entity) => {
            Err(Error::NotAllowed(format!("{} is no key of {entity}", core.key_text(&core.key_of(item)))))
        }
        _ => Ok(()),
    }
}
