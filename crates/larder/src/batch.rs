//! Many records at once, as many as there are: cut into batches, what a store leaves undone asked for again.
//!
//! Every record has an outcome of its own, in the order they were given. A key that is given twice is asked for
//! once; of two records with one key the later is written, and both say so.
//!
//! Where a write has to look at what was there (lifecycles, versions, fields `on create`, items kept in parts),
//! records are written one by one, several at a time.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use larder_expr::Projection;
use larder_model::item_bytes;
use larder_model::limits::BATCH_GET_KEYS_MAX;
use larder_model::{Item, TableName};
use larder_ops::{BatchGetEcho, BatchGetItem, BatchGetTable, BatchWrite, ReturnCapacity};
use larder_schema::Fields;

use crate::entity::Core;
use crate::shelf::{self, Draft, Given, Record, Shelf};
use crate::{Error, backoff, oversize, store, write};

/// Requests that are under way together.
pub(crate) const REQUESTS_AT_ONCE: usize = 16;
pub(crate) const ATTEMPTS_MAX: u32 = 8;
const PAUSE: (Duration, Duration) = (Duration::from_millis(25), Duration::from_secs(2));

impl<R: Record> Shelf<R> {
    /// Reads many records, from the store.
    ///
    /// ```
    /// # larder::schema!("examples/library.larder");
    /// # use library::{Library, NewBook};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let library = Library::open(larder::Store::memory().await).await?;
    /// library.books().create(NewBook::new("1")).await?;
    /// let found = library.books().get_many(["1", "2"]).await;
    /// for (key, book) in found {
    ///     assert_eq!(book?.is_some(), key.isbn == "1");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn get_many<K: Into<R::Key>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Vec<(R::Key, Result<Option<R>, Error>)> {
        let core = &self.core;
        let keys: Vec<R::Key> = keys.into_iter().map(Into::into).collect();
        let stored: Vec<Result<Item, Error>> =
            keys.iter().map(|key| core.key(&key.clone().into_fields())).collect();
        let good: Vec<Item> = stored.iter().filter_map(|key| key.as_ref().ok()).cloned().collect();
        let consistent = core.entity().policy.reads == larder_schema::schema::Consistency::Strong;
        let mut items = read(core, good, consistent, None).await.into_iter();
        let mut outcomes = Vec::with_capacity(keys.len());
        for (key, stored) in keys.into_iter().zip(stored) {
            let found = match stored {
                Ok(_) => items.next().unwrap_or(Ok(None)),
                Err(error) => Err(error),
            };
            let outcome = match found {
                Ok(Some(item)) => self.whole(item).await,
                Ok(None) => Ok(None),
                Err(error) => Err(error),
            };
            outcomes.push((key, outcome));
        }
        outcomes
    }

    /// The record of an item that was read, unless it has expired.
    async fn whole(&self, item: Item) -> Result<Option<R>, Error> {
        let now = self.core.unix_now();
        if self.core.is_expired(&item, now) || is_mark(&item) {
            return Ok(None);
        }
        let whole = oversize::join(&self.core, item).await?;
        whole.map(|item| shelf::read(&self.core, &item, now)).transpose()
    }

    /// Writes many records, there or not.
    ///
    /// ```
    /// # larder::schema!("examples/library.larder");
    /// # use library::{Library, NewBook};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let library = Library::open(larder::Store::memory().await).await?;
    /// let outcomes = library.books().put_many([NewBook::new("1"), NewBook::new(""), NewBook::new("3")]).await;
    /// let written: Vec<bool> = outcomes.iter().map(Result::is_ok).collect();
    /// assert_eq!(written, [true, false, true], "an ISBN is not empty");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn put_many<D: Draft<R>>(&self, drafts: impl IntoIterator<Item = D>) -> Vec<Result<R, Error>> {
        let core = &self.core;
        let drafts: Vec<_> = drafts.into_iter().map(|draft| shelf::drawn(core, draft)).collect();
        let now = core.unix_now();
        if !is_plain(core) {
            return put_one_by_one(core, drafts).await;
        }
        let items: Vec<Result<Item, Error>> = drafts
            .into_iter()
            .map(|drawn| {
                let (fields, _) = drawn?;
                let item = core.item(core.checked(fields)?, core.now(), true)?;
                match oversize::is_oversize(core, &item) {
                    false => Ok(item),
                    // Without splitting, what is stored is one item still.
                    true => Ok(oversize::prepare(core, item.clone())?.map_or(item, |prepared| prepared.head)),
                }
            })
            .collect();
        let writes = items.iter().filter_map(|item| item.as_ref().ok());
        let writes = writes.map(|item| BatchWrite::Put(item.clone())).collect();
        let mut written = write(core, writes).await.into_iter();
        let mut outcomes = Vec::with_capacity(items.len());
        for item in items {
            let outcome = match item {
                Ok(item) => match written.next().unwrap_or(Ok(())) {
                    Ok(()) => match oversize::join(core, item).await {
                        Ok(whole) => shelf::read(core, &whole.unwrap_or_default(), now),
                        Err(error) => Err(error),
                    },
                    Err(error) => Err(error),
                },
                Err(error) => Err(error),
            };
            outcomes.push(outcome);
        }
        outcomes
    }

    /// Removes many records. One that was not there counts as removed.
    ///
    /// ```
    /// # larder::schema!("examples/library.larder");
    /// # use library::{Library, NewBook};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let library = Library::open(larder::Store::memory().await).await?;
    /// library.books().create(NewBook::new("1")).await?;
    /// for (key, outcome) in library.books().delete_many(["1", "2"]).await {
    ///     outcome?;
    ///     assert!(library.books().get(key).await?.is_none());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn delete_many<K: Into<R::Key>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Vec<(R::Key, Result<(), Error>)> {
        let core = &self.core;
        let keys: Vec<R::Key> = keys.into_iter().map(Into::into).collect();
        let stored: Vec<Result<Item, Error>> =
            keys.iter().map(|key| core.key(&key.clone().into_fields())).collect();
        let good: Vec<Item> = stored.iter().filter_map(|key| key.as_ref().ok()).cloned().collect();
        let mut deleted = delete(core, good).await.into_iter();
        let outcomes = keys.into_iter().zip(stored).map(|(key, stored)| {
            let outcome = stored.and_then(|_| deleted.next().unwrap_or(Ok(())));
            (key, outcome)
        });
        outcomes.collect()
    }
}

/// Writes records by themselves, several keys at a time. Those of one key follow each other.
async fn put_one_by_one<R: Record>(
    core: &Arc<Core>,
    drafts: Vec<Result<(Fields, Option<i64>), Error>>,
) -> Vec<Result<R, Error>> {
    let count = drafts.len();
    let mut of_key: HashMap<Option<Vec<u8>>, Vec<_>> = HashMap::new();
    for (at, drawn) in drafts.into_iter().enumerate() {
        // Without a key there is nothing to write, and the put says why.
        let key = drawn.as_ref().ok().and_then(|(fields, _)| core.key(fields).ok());
        of_key.entry(key.map(|key| item_bytes::encode(&key))).or_default().push((at, drawn));
    }
    let writes = futures_util::stream::iter(of_key.into_values()).map(|drafts| async move {
        let mut outcomes = Vec::with_capacity(drafts.len());
        for (at, drawn) in drafts {
            let put = match drawn {
                Ok((fields, version)) => core.put(fields, version).await,
                Err(error) => Err(error),
            };
            outcomes.push((at, put.and_then(|(item, _)| shelf::read(core, &item, core.unix_now()))));
        }
        outcomes
    });
    let mut outcomes: Vec<_> =
        writes.buffer_unordered(REQUESTS_AT_ONCE).flat_map(futures_util::stream::iter).collect().await;
    debug_assert_eq!(outcomes.len(), count, "each has an outcome");
    outcomes.sort_by_key(|(at, _)| *at);
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}

/// Whether a put is one unconditional write of one item.
fn is_plain(core: &Core) -> bool {
    let entity = core.entity();
    entity.lifecycles.is_empty()
        && !entity.policy.versions
        && !entity.fields.iter().any(|field| field.on_create)
        && !oversize::may_split(core)
        && entity.policy.oversize.first != larder_schema::schema::OversizeStep::Skip
        && entity.policy.oversize.otherwise != Some(larder_schema::schema::OversizeStep::Skip)
}

/// What only items of the layer's own have: part of another one, or a note that there is none.
pub(crate) const MARKS: [&str; 2] = [larder_schema::CHUNK, larder_schema::ABSENT];

pub(crate) fn is_mark(item: &Item) -> bool {
    MARKS.iter().any(|mark| item.contains(mark))
}

/// Removes items by key, with all that belongs to them.
pub(crate) async fn delete(core: &Core, keys: Vec<Item>) -> Vec<Result<(), Error>> {
    if oversize::may_split(core) {
        let deletes = futures_util::stream::iter(keys)
            .map(|key| async move { core.delete(&key, None).await.map(|_| ()) });
        return deletes.buffered(REQUESTS_AT_ONCE).collect().await;
    }
    write(core, keys.into_iter().map(BatchWrite::Delete).collect()).await
}

/// A table in a store, and the attributes its keys are made of.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) store: store::Store,
    pub(crate) table: TableName,
    pub(crate) key_names: Vec<String>,
}

impl Target {
    fn of(core: &Core) -> Self {
        let table = core.table();
        let names = std::iter::once(&table.partition).chain(table.sort.as_ref());
        let key_names = names.map(|name| name.attribute.clone()).collect();
        Self { store: core.store.clone(), table: core.table_name.clone(), key_names }
    }

    pub(crate) fn key_of(&self, item: &Item) -> Item {
        let names = self.key_names.iter();
        names.filter_map(|name| Some((name.clone(), item.get(name)?.clone()))).collect()
    }

    pub(crate) fn key_of_write(&self, write: &BatchWrite) -> Item {
        match write {
            BatchWrite::Put(item) => self.key_of(item),
            BatchWrite::Delete(key) => key.clone(),
        }
    }
}

/// Reads items by key, in order. Expired ones are among them.
pub(crate) async fn read(
    core: &Core,
    keys: Vec<Item>,
    consistent: bool,
    projection: Option<&Projection>,
) -> Vec<Result<Option<Item>, Error>> {
    read_from(&Target::of(core), keys, consistent, projection).await
}

/// Reads items of any table by key, in order.
pub(crate) async fn read_from(
    target: &Target,
    keys: Vec<Item>,
    consistent: bool,
    projection: Option<&Projection>,
) -> Vec<Result<Option<Item>, Error>> {
    let mut distinct = HashMap::new();
    for key in &keys {
        distinct.entry(item_bytes::encode(key)).or_insert_with(|| key.clone());
    }
    let mut left: Vec<Item> = distinct.into_values().collect();
    let mut batches = Vec::new();
    while !left.is_empty() {
        batches.push(left.split_off(left.len().saturating_sub(BATCH_GET_KEYS_MAX)));
    }
    let reads =
        futures_util::stream::iter(batches).map(|batch| read_batch(target, batch, consistent, projection));
    let mut found: HashMap<Vec<u8>, Result<Option<Item>, Error>> = HashMap::new();
    let mut reads = reads.buffer_unordered(REQUESTS_AT_ONCE);
    while let Some(batch) = reads.next().await {
        found.extend(batch);
    }
    drop(reads);
    keys.iter().map(|key| found.get(&item_bytes::encode(key)).cloned().unwrap_or(Ok(None))).collect()
}

async fn read_batch(
    target: &Target,
    keys: Vec<Item>,
    consistent: bool,
    projection: Option<&Projection>,
) -> HashMap<Vec<u8>, Result<Option<Item>, Error>> {
    let mut outcomes: HashMap<_, _> = keys.iter().map(|key| (item_bytes::encode(key), Ok(None))).collect();
    let mut left = keys;
    for attempt in 1.. {
        let table = BatchGetTable {
            table: target.table.clone(),
            keys: left.clone(),
            projection: projection.cloned(),
            consistent,
            echo: BatchGetEcho::default(),
        };
        let request = BatchGetItem { tables: vec![table], capacity: ReturnCapacity::None };
        match target.store.batch_get_item(request).await {
            Ok((tables, unprocessed)) => {
                for item in tables.into_iter().flat_map(|(_, items)| items) {
                    outcomes.insert(item_bytes::encode(&target.key_of(&item)), Ok(Some(item)));
                }
                let before = left.len();
                left = unprocessed.into_iter().flat_map(|table| table.keys).collect();
                // Cut short for its size, not for its pace.
                if !left.is_empty() && left.len() < before {
                    continue;
                }
            }
            Err(error) if attempt < ATTEMPTS_MAX && error.is_transient() => {}
            Err(error) => {
                fail(&mut outcomes, &left, &error);
                break;
            }
        }
        if left.is_empty() {
            break;
        }
        if attempt >= ATTEMPTS_MAX {
            fail(&mut outcomes, &left, &never_done());
            break;
        }
        pause(attempt).await;
    }
    outcomes
}

fn fail<T>(outcomes: &mut HashMap<Vec<u8>, Result<T, Error>>, keys: &[Item], error: &store::Error) {
    for key in keys {
        outcomes.insert(item_bytes::encode(key), Err(error.clone().into()));
    }
}

pub(crate) fn never_done() -> store::Error {
    store::Error::Throttled("it left part of a batch undone each time it was asked".to_owned())
}

/// Puts and deletes items of one table, each whole by itself, with an outcome for each. Of several writes of one
/// key the last is made. What L1 holds of them is forgotten.
pub(crate) async fn write(core: &Core, writes: Vec<BatchWrite>) -> Vec<Result<(), Error>> {
    write::many(&Target::of(core), writes, Some(&core.cache)).await
}

/// Longer each time, and never the same for two who were turned away together.
pub(crate) async fn pause(attempt: u32) {
    backoff::pause(PAUSE, attempt.saturating_add(1)).await;
}
