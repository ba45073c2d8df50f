//! The one way of a write: the turns of its keys, the store, and then everybody who holds something older is told.
//!
//! ```text
//! what is wanted    a whole item, a change, what a source gave, a removal; batch.rs many of them, transact.rs all or none
//! plan              a [`Planned`] for each key: what is done, and what it may take the place of: anything, what was read, what a
//!                   source was asked over
//! turns             what is on its way behind for the keys has arrived, nothing is begun meanwhile; cache/turns.rs
//! store             the chunks of large items before their heads; then one write ([`Core::send`]), batches ([`many`]), or a
//!                   transaction ([`together`])
//! wrote             loads of the keys are overtaken, L1 forgets them, what waited behind before is dropped
//! ```
//!
//! No other file of the layer asks a store to write records. What is to be written behind is queued here ([`Core::queue`]), and sent from
//! here by the worker whose turn it is; a shared flight, which is no record, is sent and nobody is told.
//!
//! Promises:
//! - What was written behind before a write was asked for never lands on it.
//! - What a source gave loses against whatever anybody, in whatever process, has written or removed since the source was asked.
//!   It is given to those who asked for it, and not kept. What cannot be known: where nothing was there, that somebody has
//!   written and removed a record meanwhile; and where the time of what was there is over, who removed it.
//! - A write that was made is no error, whatever becomes of the clean-up behind it.
//! - A write whose answer is lost is made once. What has a condition is sent again, and knows its own when it meets it. What adds to
//!   something cannot know, and is an error: [`Unanswered`](store::Error::Unanswered).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use larder_expr::{Condition, Update};
use larder_model::limits::{BATCH_BYTES_MAX, BATCH_WRITE_ITEMS_MAX};
use larder_model::{Item, Path, TableName, UnixTime, item_bytes};
use larder_ops::{
    BatchWrite, BatchWriteItem, DeleteItem, PutItem, ReturnCapacity, ReturnValues, TransactAction,
    TransactWrite, TransactWriteItems, UpdateItem, WriteOptions,
};
use larder_schema::schema::LeaseAttributes;
use larder_schema::{ABSENT, FRESH_UNTIL, PACKED, PARTS, VERSION};

use crate::batch::{self, Target};
use crate::cache::freshness::STORED_AT;
use crate::cache::{self, EntityCache, FLIGHT, FLIGHT_BY, Turns, Waiting, Write};
use crate::entity::{Core, and, or};
use crate::oversize::Prepared;
use crate::store::{READ_ATTRIBUTES_MAX, Store, unchanged};
use crate::{Error, backoff, lifecycle, oversize, store};

/// How often a write that depends on what it read is tried again when that has changed.
pub(crate) const RACES_MAX: u32 = 32;
/// The first and the longest pause of one who has lost more than one.
const RACE_PAUSE: (Duration, Duration) = (Duration::from_millis(4), Duration::from_millis(64));

/// How often a transaction is sent whose answer does not come.
const TOGETHER_ATTEMPTS_MAX: u32 = 8;

/// How often a write of one item is sent whose answer does not come.
pub(crate) const ATTEMPTS_MAX: u32 = 4;

/// What a write may take the place of.
#[derive(Clone, Debug)]
pub(crate) enum Over {
    /// Whatever is there.
    Anything,
    /// This, as it was when a source was asked, or nothing.
    Seen(Option<Arc<Item>>),
}

/// What became of a write that is not made over everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Outcome {
    Made,
    /// Somebody has written since.
    Overtaken,
}

/// One write of one key, as it is sent.
#[derive(Clone, Debug)]
pub(crate) struct Planned {
    pub(crate) key: Item,
    pub(crate) action: Action,
    pub(crate) condition: Option<Condition>,
}

#[derive(Clone, Debug)]
pub(crate) enum Action {
    /// A whole item, and what it takes to keep a large one.
    Put(Prepared),
    Update(Update),
    Delete,
    /// Nothing is written. Only a transaction asks for that.
    Check,
}

impl Core {
    /// Writes a whole item, and gives back the head of what was there.
    pub(crate) async fn save(&self, item: Item, condition: Option<Condition>) -> Result<Option<Item>, Error> {
        self.write_in_turn(self.put_of(item, condition)?, Waiting::Dropped).await
    }

    /// Removes an item, and gives it back as it was, whole.
    pub(crate) async fn delete(
        &self,
        key: &Item,
        condition: Option<Condition>,
    ) -> Result<Option<Item>, Error> {
        self.write_in_turn(Planned { key: key.clone(), action: Action::Delete, condition }, Waiting::Dropped)
            .await
    }

    /// The write of a whole item.
    pub(crate) fn put_of(&self, item: Item, condition: Option<Condition>) -> Result<Planned, Error> {
        let key = self.key_of(&item);
        let action = match oversize::prepare(self, item)? {
            Some(prepared) => Action::Put(prepared),
            // What is not kept must not be answered with what was there before it.
            None => Action::Delete,
        };
        Ok(Planned { key, action, condition })
    }

    /// One write in its turn. Of a put it gives back the head of what was there, of a removal all of it, of an update what is
    /// there now.
    pub(crate) async fn write_in_turn(
        &self,
        planned: Planned,
        waiting: Waiting,
    ) -> Result<Option<Item>, Error> {
        let key = planned.key.clone();
        // Boxed: it is moved into its turn, and on from there.
        let made = Box::pin(async {
            let sent = self.send(planned).await;
            self.cache.wrote(&key);
            sent
        });
        self.cache.behind.line.write(cache::identity(&key), waiting, made).await
    }

    /// Sends one write whose turn it is, and sees to the parts of what it makes and replaces. Nobody else is told.
    pub(crate) async fn send(&self, planned: Planned) -> Result<Option<Item>, Error> {
        let Planned { key, action, condition } = planned;
        let (table, options) = (self.table_name.clone(), options(condition));
        match action {
            Action::Put(prepared) => {
                oversize::write_chunks(self, &prepared).await?;
                let is_conditional = options.condition.is_some();
                let request = PutItem { table, item: prepared.head.clone(), options };
                let (answer, is_again) = match is_conditional {
                    true => answered(|| self.store.put_item(request.clone())).await,
                    false => (self.store.put_item(request).await, false),
                };
                let error = match answer {
                    // The SDK has sent it again, and met what it had written: these chunks are the new ones.
                    Ok(Some(old)) if prepared.has_parts_of(&old) => return Ok(None),
                    Ok(old) => {
                        if let Some(old) = &old {
                            oversize::clean(self, old).await;
                        }
                        return Ok(old);
                    }
                    Err(store::Error::Condition { item }) if is_again => {
                        let found = match item {
                            Some(found) => Some(*found),
                            // Not every store tells what is there instead.
                            None => self.head(&key, true).await?,
                        };
                        if found.as_ref().is_some_and(|found| prepared.is_stored_as(found)) {
                            return Ok(None);
                        }
                        store::Error::Condition { item: found.map(Box::new) }
                    }
                    Err(error) => error,
                };
                oversize::discard(self, &prepared, &error).await;
                Err(error.into())
            }
            Action::Update(update) => {
                let options = WriteOptions { return_values: ReturnValues::AllNew, ..options };
                Ok(self.store.update_item(UpdateItem { table, key, update: Some(update), options }).await?)
            }
            Action::Delete => {
                let is_conditional = options.condition.is_some();
                let request = DeleteItem { table, key: key.clone(), options };
                let (answer, is_again) = match is_conditional {
                    true => answered(|| self.store.delete_item(request.clone())).await,
                    false => (self.store.delete_item(request).await, false),
                };
                let head = match answer {
                    Ok(Some(head)) => head,
                    Ok(None) => return Ok(None),
                    // What was to be removed is gone, by the try whose answer was lost or by somebody else.
                    Err(store::Error::Condition { item: None })
                        if is_again && self.head(&key, true).await?.is_none() =>
                    {
                        return Ok(None);
                    }
                    Err(error) => return Err(error.into()),
                };
                // It is gone, whatever can still be read of it.
                let whole = oversize::join(self, head.clone()).await;
                oversize::clean(self, &head).await;
                Ok(whole.unwrap_or_else(|error| {
                    tracing::warn!(entity = self.name(), %error, "a removed record could not be read whole");
                    Some(head)
                }))
            }
            Action::Check => Ok(None),
        }
    }

    /// Writes what waits to be written behind for a key, for a write that builds on what is there.
    pub(crate) async fn flush_pending(&self, key: &Item) -> Result<(), Error> {
        let write = |pending: Arc<Write>| {
            Box::pin(async move {
                let written = self.write_over(pending.item.clone(), &pending.over).await;
                self.cache.wrote(key);
                written.map(|_| ())
            })
        };
        if self.cache.behind.line.flush(cache::identity(key), write).await? {
            self.cache.behind.flushed();
        }
        Ok(())
    }

    /// Has a whole item written behind, whatever is there. Readers in this process see it at once.
    pub(crate) fn queue(self: &Arc<Self>, item: Item) -> Result<(), Error> {
        let key = self.key_of(&item);
        self.cache.behind.push(self, item, Over::Anything)?;
        self.cache.wrote(&key);
        Ok(())
    }

    /// Has what a source gave written behind, unless somebody in this process has written since it was asked. What others have
    /// written is looked at when it is written. It is kept in L1 by whoever loaded it.
    pub(crate) fn queue_loaded(
        self: &Arc<Self>,
        item: Item,
        seen: Option<&Item>,
        pending: Option<&Arc<Write>>,
    ) -> Result<Outcome, Error> {
        self.cache.behind.push_loaded(self, item, seen, pending)
    }

    /// Writes what a source gave, unless somebody has written since it was asked. In the place of the write behind that was
    /// pending then, it may do what that one may.
    pub(crate) async fn save_loaded(
        &self,
        item: Item,
        seen: Option<&Item>,
        pending: Option<&Arc<Write>>,
    ) -> Result<Outcome, Error> {
        let key = self.key_of(&item);
        let turns = self.cache.turns([&key]).await;
        let over = match (self.cache.waiting(&key), pending) {
            (None, _) => Over::seen(seen),
            (Some(waiting), Some(pending)) if Arc::ptr_eq(&waiting, pending) => pending.over.clone(),
            (Some(_), _) => return Ok(Outcome::Overtaken),
        };
        let outcome = self.write_over(item, &over).await;
        if let Ok(Outcome::Made) = outcome {
            self.cache.replaced(&key, &turns);
        }
        self.cache.wrote(&key);
        outcome
    }

    /// Writes or removes what says that a source has no record, unless somebody has written one or is about to.
    pub(crate) async fn save_absence(&self, planned: Planned) -> Result<Outcome, Error> {
        let key = planned.key.clone();
        let _turns = self.cache.turns([&key]).await;
        if self.cache.waiting(&key).is_some() {
            return Ok(Outcome::Overtaken);
        }
        let saved = self.send(planned).await;
        self.cache.wrote(&key);
        match saved {
            Err(Error::Store(store::Error::Condition { .. })) => Ok(Outcome::Overtaken),
            saved => saved.map(|_| Outcome::Made),
        }
    }

    /// Writes an item, keeping what has to survive of the one that is there. L1 keeps what it has, and so does the queue of
    /// writes behind.
    pub(crate) async fn write_over(&self, item: Item, over: &Over) -> Result<Outcome, Error> {
        let key = self.key_of(&item);
        let still = over.condition(self, self.unix_now());
        for lost in 0..RACES_MAX {
            back_off(lost).await;
            let (item, condition) = match self.keeps() {
                true => self.planned_over(item.clone()).await.map(|(item, same)| (item, Some(same)))?,
                false => (item.clone(), None),
            };
            let condition = condition.into_iter().chain(still.clone()).reduce(and);
            let found = match self.send(self.put_of(item.clone(), condition)?).await {
                Ok(_) => return Ok(Outcome::Made),
                Err(Error::Store(store::Error::Condition { item: Some(found) })) => Some(*found),
                // Not every store tells what is there instead.
                Err(Error::Store(store::Error::Condition { item: None })) => self.head(&key, true).await?,
                Err(error) => return Err(error),
            };
            // The answer to the first try was lost on its way, and it was tried again.
            if found.as_ref() == Some(&item) {
                return Ok(Outcome::Made);
            }
            if still.as_ref().is_some_and(|still| still.holds(found.as_ref()) != Ok(true)) {
                return Ok(Outcome::Overtaken);
            }
        }
        Err(self.conflict(&key, "it kept changing while it was being written"))
    }

    /// An item with what has to survive of the one that is there now, and the condition that this has not changed.
    pub(crate) async fn planned_over(&self, mut item: Item) -> Result<(Item, Condition), Error> {
        let (entity, now) = (self.entity(), self.unix_now());
        let key = self.key_of(&item);
        let Some(old) = self.load(&key, true).await? else {
            let mut free = self.is_not_there(now);
            if oversize::may_split(self)
                && let Some(broken) = self.head(&key, true).await?.as_ref().and_then(oversize::guard)
            {
                // Parts that do not fit together are no record, and are written over.
                free = or(free, broken);
            }
            return Ok((item, free));
        };
        let mut conditions = vec![self.is_there(now)];
        let mut survive = |item: &mut Item, name: String| {
            match old.get(&name) {
                Some(value) => drop(item.insert(name.clone(), value.clone())),
                None => drop(item.remove(&name)),
            }
            conditions.push(unchanged(&name, &old));
        };
        for field in entity.fields.iter().filter(|field| field.on_create) {
            survive(&mut item, field.attribute.clone());
        }
        for lifecycle in &entity.lifecycles {
            let of_lease = lifecycle.lease.iter().flat_map(LeaseAttributes::names).map(str::to_owned);
            let of_lease: Vec<String> = of_lease.chain([lifecycle::origin_attribute(lifecycle)]).collect();
            let moved =
                of_lease.iter().chain([&lifecycle.attribute]).any(|name| item.get(name) != old.get(name));
            for name in of_lease {
                survive(&mut item, name);
            }
            survive(&mut item, lifecycle.attribute.clone());
            let set = lifecycle.transitions.iter().flat_map(|transition| &transition.set);
            // What a transition has set meanwhile is newer than what the item was made from.
            for field in set.filter(|_| moved).filter_map(|(name, _)| entity.field(name)) {
                match old.get(&field.attribute) {
                    Some(value) => drop(item.insert(field.attribute.clone(), value.clone())),
                    None => drop(item.remove(&field.attribute)),
                }
            }
            let fields = self.schema.read_item(self.table(), entity, &item).unwrap_or_default();
            if let Some(text) = self.state_text(lifecycle, &old, &fields) {
                item.insert(lifecycle.attribute.clone(), text);
            }
        }
        if entity.policy.versions {
            conditions.push(unchanged(VERSION, &old));
            item.insert(VERSION, self.version(&old).unwrap_or(0) + 1);
        }
        let condition = conditions.into_iter().chain(oversize::same_parts(self, &old)).reduce(and);
        Ok((item, condition.expect("there is at least one")))
    }

    /// The condition that nobody has written or removed a record since it was read. What survives a write (states, versions of
    /// those who keep some) does not count where that is looked at by itself.
    ///
    /// One that is gone was removed by somebody, unless the store may have done it because its time is over.
    pub(crate) fn since(&self, seen: Option<&Item>, now: UnixTime) -> Condition {
        let Some(seen) = seen else { return self.is_not_there(now) };
        let same = self.same_as(seen);
        let is_over = self.removed(seen).is_some_and(|at| at.seconds() < now.seconds());
        if is_over || seen.contains(ABSENT) {
            return or(self.is_not_there(now), same);
        }
        match self.has_ended(now) {
            Some(ended) => or(same, and(ended, Condition::NotExists(Path::attribute(ABSENT)))),
            None => same,
        }
    }

    fn same_as(&self, seen: &Item) -> Condition {
        let (entity, ttl) = (self.entity(), self.table().ttl.as_ref().map(|ttl| ttl.attribute.as_str()));
        let in_parts = oversize::guard(seen);
        let mut names: Vec<&str> = match &in_parts {
            // What else it holds may be elsewhere than in its head, and the parts have a version.
            Some(_) => ttl.into_iter().chain([VERSION]).collect(),
            None => {
                let fields = entity.fields.iter().filter(|field| field.is_stored());
                let stored = fields.map(|field| field.attribute.as_str());
                // What tells most comes first: of very wide items not all is looked at.
                let mut names: Vec<&str> = ttl.into_iter().chain([VERSION, PARTS]).collect();
                for name in seen.names().chain(stored) {
                    if !names.contains(&name) {
                        names.push(name);
                    }
                }
                names
            }
        };
        names.retain(|name| ![FLIGHT, FLIGHT_BY, PACKED].contains(name));
        if !entity.lifecycles.is_empty() {
            let moves = |name: &str| {
                let computed =
                    || entity.fields.iter().any(|field| field.attribute == name && !field.is_given());
                let is_end = Some(name) == ttl || name == FRESH_UNTIL || name == STORED_AT;
                is_end || name == VERSION || computed() || self.is_moved(name)
            };
            names.retain(|name| !moves(name));
        }
        let same = names.into_iter().take(READ_ATTRIBUTES_MAX).map(|name| unchanged(name, seen));
        let exists = Condition::Exists(Path::attribute(&self.table().partition.attribute));
        same.chain(in_parts).fold(exists, and)
    }

    /// Whether an attribute is what transitions and leases change.
    fn is_moved(&self, name: &str) -> bool {
        let entity = self.entity();
        entity.lifecycles.iter().any(|lifecycle| {
            let mut set = lifecycle.transitions.iter().flat_map(|transition| &transition.set);
            lifecycle.attribute == name
                || lifecycle.lease.iter().flat_map(LeaseAttributes::names).any(|of_lease| of_lease == name)
                || lifecycle::origin_attribute(lifecycle) == name
                || set.any(|(field, _)| entity.field(field).is_some_and(|field| field.attribute == name))
        })
    }
}

/// Puts and deletes items of any table, each whole by itself, with an outcome for each. Of several writes of one key the last is
/// made. What is cached of the table, and waits to be written behind, takes its turn and is told.
pub(crate) async fn many(
    target: &Target,
    writes: Vec<BatchWrite>,
    cache: Option<&EntityCache>,
) -> Vec<Result<(), Error>> {
    let keys: Vec<Vec<u8>> =
        writes.iter().map(|write| item_bytes::encode(&target.key_of_write(write))).collect();
    let mut last: HashMap<&[u8], usize> = HashMap::new();
    for (at, key) in keys.iter().enumerate() {
        last.insert(key, at);
    }
    let mut batches: Vec<Vec<BatchWrite>> = Vec::new();
    let mut bytes = 0;
    for (at, write) in writes.into_iter().enumerate() {
        if last.get(keys[at].as_slice()) != Some(&at) {
            continue;
        }
        let size = match &write {
            BatchWrite::Put(item) => item.size(),
            BatchWrite::Delete(key) => key.size(),
        };
        match batches.last_mut() {
            // The request as JSON is longer than the items are.
            Some(batch) if batch.len() < BATCH_WRITE_ITEMS_MAX && (bytes + size) * 2 < BATCH_BYTES_MAX => {
                batch.push(write);
                bytes += size;
            }
            _ => {
                batches.push(vec![write]);
                bytes = size;
            }
        }
    }
    let writes = futures_util::stream::iter(batches).map(|batch| async move {
        let keys: Vec<Item> = batch.iter().map(|write| target.key_of_write(write)).collect();
        let Some(cache) = cache else { return until_done(target, batch).await };
        let turns = cache.turns(&keys).await;
        let outcomes = until_done(target, batch).await;
        for key in &keys {
            cache.wrote(key);
            if !outcomes.contains_key(&item_bytes::encode(key)) {
                cache.replaced(key, &turns);
            }
        }
        outcomes
    });
    let mut failed: HashMap<Vec<u8>, Result<(), Error>> = HashMap::new();
    let mut writes = writes.buffer_unordered(batch::REQUESTS_AT_ONCE);
    while let Some(outcomes) = writes.next().await {
        failed.extend(outcomes);
    }
    drop(writes);
    keys.iter().map(|key| failed.get(key).cloned().unwrap_or(Ok(()))).collect()
}

/// Sends one batch until all of it is done, and gives back what was not written, and why.
async fn until_done(target: &Target, batch: Vec<BatchWrite>) -> HashMap<Vec<u8>, Result<(), Error>> {
    let mut outcomes = HashMap::new();
    let mut fail = |left: &[BatchWrite], error: &store::Error| {
        for write in left {
            outcomes.insert(item_bytes::encode(&target.key_of_write(write)), Err(error.clone().into()));
        }
    };
    let mut left = batch;
    for attempt in 1.. {
        match send_batch(&target.store, &target.table, left.clone()).await {
            Ok(undone) => left = undone,
            // Puts and deletes can be made twice.
            Err(error) if attempt < batch::ATTEMPTS_MAX && error.is_transient() => {}
            // One that the table cannot take has all of them refused.
            Err(error) if left.len() > 1 && !error.is_transient() => {
                for write in left {
                    outcomes.extend(Box::pin(until_done(target, vec![write])).await);
                }
                break;
            }
            Err(error) => {
                fail(&left, &error);
                break;
            }
        }
        if left.is_empty() {
            break;
        }
        if attempt >= batch::ATTEMPTS_MAX {
            fail(&left, &batch::never_done());
            break;
        }
        batch::pause(attempt).await;
    }
    outcomes
}

/// Sends one batch whose turn it is, and gives back what was left undone.
pub(crate) async fn send_batch(
    store: &Store,
    table: &TableName,
    writes: Vec<BatchWrite>,
) -> Result<Vec<BatchWrite>, store::Error> {
    let tables = vec![(table.clone(), writes)];
    let request = BatchWriteItem { tables, capacity: ReturnCapacity::None, collection_metrics: false };
    let unprocessed = store.batch_write_item(request).await?;
    Ok(unprocessed.into_iter().flat_map(|(_, writes)| writes).collect())
}

/// Makes all writes or none, in the turns of all their keys. They are of one store. What was queued before is in the store
/// already, and what is queued meanwhile stays.
pub(crate) async fn together(
    plans: &[(&Core, Planned)],
    token: String,
) -> Result<Result<(), store::Error>, Error> {
    let Some((first, _)) = plans.first() else { return Ok(Ok(())) };
    let _turns = turns(plans).await;
    let mut replaced = Vec::new();
    for (core, planned) in plans {
        if matches!(planned.action, Action::Put(_) | Action::Delete) {
            replaced.extend(core.parts_of(&planned.key).await?.map(|head| (*core, head)));
        }
    }
    let sent = send_together(&first.store, plans, token).await;
    for (core, planned) in plans {
        core.cache.wrote(&planned.key);
        if let (Err(error), Action::Put(prepared)) = (&sent, &planned.action) {
            oversize::discard(core, prepared, error).await;
        }
    }
    if sent.is_ok() {
        for (core, head) in replaced {
            oversize::clean(core, &head).await;
        }
    }
    Ok(sent)
}

async fn send_together(store: &Store, plans: &[(&Core, Planned)], token: String) -> Result<(), store::Error> {
    for (core, planned) in plans {
        if let Action::Put(prepared) = &planned.action {
            oversize::write_chunks(core, prepared).await?;
        }
    }
    let writes = plans.iter().map(|(core, Planned { key, action, condition })| {
        let (key, condition) = (key.clone(), condition.clone());
        let action = match action {
            Action::Put(prepared) => TransactAction::Put { item: prepared.head.clone() },
            Action::Update(update) => TransactAction::Update { key, update: update.clone() },
            Action::Delete => TransactAction::Delete { key },
            Action::Check => TransactAction::Check { key },
        };
        TransactWrite { table: core.table_name.clone(), action, condition, return_old_on_failure: true }
    });
    let (writes, token) = (writes.collect(), Some(token));
    let request =
        TransactWriteItems { writes, token, capacity: ReturnCapacity::None, collection_metrics: false };
    let mut lost = None;
    for attempt in 1.. {
        let error = match store.transact_write_items(request.clone()).await {
            Err(error) if error.is_transient() && !matches!(error, store::Error::Cancelled { .. }) => error,
            answer => return answer,
        };
        if error.may_have_happened() {
            lost = Some(error.clone());
        }
        if attempt == TOGETHER_ATTEMPTS_MAX {
            // Whatever came after it, the try that nobody answered may have been carried out.
            return Err(lost.unwrap_or(error));
        }
        batch::pause(attempt).await;
    }
    Ok(())
}

/// The turns of the keys of several entities. All who take several take them in the same order.
async fn turns<'a>(plans: &[(&'a Core, Planned)]) -> Vec<Turns<'a>> {
    let mut of: BTreeMap<usize, (&EntityCache, Vec<&Item>)> = BTreeMap::new();
    for (core, planned) in plans {
        let place = std::ptr::from_ref(&core.cache).addr();
        of.entry(place).or_insert((&core.cache, Vec::new())).1.push(&planned.key);
    }
    let mut turns = Vec::new();
    for (cache, keys) in of.into_values() {
        turns.push(cache.turns(keys).await);
    }
    turns
}

impl Over {
    pub(crate) fn seen(item: Option<&Item>) -> Self {
        Self::Seen(item.cloned().map(Arc::new))
    }

    /// The condition that nobody was faster.
    pub(crate) fn condition(&self, core: &Core, now: UnixTime) -> Option<Condition> {
        match self {
            Self::Anything => None,
            Self::Seen(seen) => Some(core.since(seen.as_deref(), now)),
        }
    }
}

/// The answer to a write under a condition, and whether one was lost before it came: then the write may have met itself.
async fn answered<F>(send: impl Fn() -> F) -> (Result<Option<Item>, store::Error>, bool)
where
    F: Future<Output = Result<Option<Item>, store::Error>>,
{
    let mut lost = None;
    let answer = store::again(ATTEMPTS_MAX, send, |answer| match answer {
        Err(error) if error.may_have_happened() => {
            lost = Some(error.clone());
            true
        }
        Err(error) => lost.is_some() && error.is_transient(),
        Ok(_) => false,
    });
    match (answer.await, lost) {
        // Whatever came after it, the attempt that nobody answered may have been carried out.
        (Err(error), Some(lost)) if error.is_transient() => (Err(lost), true),
        (answer, lost) => (answer, lost.is_some()),
    }
}

/// Those who have lost races for one item come back apart, so that each wins in the end.
pub(crate) async fn back_off(lost: u32) {
    if lost > 1 {
        backoff::pause(RACE_PAUSE, lost - 1).await;
    }
}

pub(crate) fn options(condition: Option<Condition>) -> WriteOptions {
    WriteOptions {
        condition,
        return_values: ReturnValues::AllOld,
        return_old_on_failure: true,
        ..WriteOptions::default()
    }
}
