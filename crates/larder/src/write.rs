//! The one way of a write: the turns of its keys, the store, and then everybody who holds something older is told.
//!
//! ```text
//! what is wanted    a whole item, what a source gave, a removal; batch.rs many at once, transact.rs all or none
//! turns             what is on its way behind for the same keys has arrived, what waits is not begun meanwhile
//! condition         what it may take the place of: anything, what was read, what a source was asked over
//! store             one request, the chunks of a large item before its head
//! wrote             loads of the keys are overtaken, L1 forgets them, what waited behind is dropped
//! ```
//!
//! Promises:
//! - What was written behind before a write was asked for never lands on it.
//! - What a source gave loses against whatever anybody, in whatever process, has written since the source was asked. It is
//!   given to those who asked for it, and not kept.
//! - A write that was made is no error, whatever becomes of the clean-up behind it.

use std::sync::Arc;
use std::time::Duration;

use larder_engine::ops::{DeleteItem, PutItem, ReturnValues, WriteOptions};
use larder_expr::Condition;
use larder_model::{Item, Path, UnixTime};
use larder_schema::schema::LeaseAttributes;
use larder_schema::{FRESH_UNTIL, PACKED, PARTS, VERSION};

use crate::cache::freshness::STORED_AT;
use crate::cache::{FLIGHT, FLIGHT_BY, Write};
use crate::entity::{Core, and, or};
use crate::store::{READ_ATTRIBUTES_MAX, unchanged};
use crate::{Error, lifecycle, oversize, store};

/// How often a write that depends on what it read is tried again when that has changed.
pub(crate) const RACES_MAX: u32 = 32;

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

impl Core {
    /// Writes a whole item, and gives back the head of what was there.
    pub(crate) async fn save(&self, item: Item, condition: Option<Condition>) -> Result<Option<Item>, Error> {
        let key = self.key_of(&item);
        let _turns = self.cache.turns([&key]).await;
        let saved = self.write_whole(item, condition).await;
        self.cache.wrote(&key, saved.is_ok());
        saved
    }

    /// Like [`Core::save`], but L1 keeps what it has, and so does the queue of writes behind.
    pub(crate) async fn write_whole(
        &self,
        item: Item,
        condition: Option<Condition>,
    ) -> Result<Option<Item>, Error> {
        if oversize::is_oversize(self, &item) {
            return oversize::put(self, item, condition).await;
        }
        let request = PutItem { table: self.table_name.clone(), item, options: options(condition) };
        let old = self.store.put_item(request).await?;
        if let Some(old) = &old {
            oversize::clean(self, old).await;
        }
        Ok(old)
    }

    /// Removes an item, and gives it back as it was, whole.
    pub(crate) async fn delete(
        &self,
        key: &Item,
        condition: Option<Condition>,
    ) -> Result<Option<Item>, Error> {
        let request =
            DeleteItem { table: self.table_name.clone(), key: key.clone(), options: options(condition) };
        let _turns = self.cache.turns([key]).await;
        let deleted = self.store.delete_item(request).await;
        self.cache.wrote(key, deleted.is_ok());
        let Some(head) = deleted? else { return Ok(None) };
        // It is gone, whatever can still be read of it.
        let whole = oversize::join(self, head.clone()).await;
        oversize::clean(self, &head).await;
        Ok(whole.unwrap_or_else(|error| {
            tracing::warn!(entity = self.name(), %error, "a removed record could not be read whole");
            Some(head)
        }))
    }

    /// Writes what waits to be written behind for a key, for a write that builds on what is there.
    pub(crate) async fn settle(&self, key: &Item) -> Result<(), Error> {
        let Some(turns) = self.cache.turns([key]).await else { return Ok(()) };
        if let Some(pending) = turns.pending() {
            let written = self.write_over(pending.item.clone(), &pending.over).await;
            self.cache.wrote(key, false);
            let _ = written?;
            turns.settled(&pending);
        }
        Ok(())
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
        let _turns = self.cache.turns([&key]).await;
        let (over, replaced) = match (self.cache.waiting(&key), pending) {
            (None, _) => (Over::seen(seen), None),
            (Some(waiting), Some(pending)) if Arc::ptr_eq(&waiting, pending) => {
                (pending.over.clone(), Some(waiting))
            }
            (Some(_), _) => return Ok(Outcome::Overtaken),
        };
        let outcome = self.write_over(item, &over).await;
        if let (Ok(Outcome::Made), Some(replaced)) = (&outcome, replaced) {
            self.cache.replaced(&key, &replaced);
        }
        // What was queued meanwhile is newer, and stays.
        self.cache.wrote(&key, false);
        outcome
    }

    /// Writes that there is no record, for a while, unless somebody is about to write one.
    pub(crate) async fn save_marker(&self, marker: Item, condition: Condition) -> Result<Outcome, Error> {
        let key = self.key_of(&marker);
        let _turns = self.cache.turns([&key]).await;
        if self.cache.waiting(&key).is_some() {
            return Ok(Outcome::Overtaken);
        }
        let saved = self.write_whole(marker, Some(condition)).await;
        self.cache.wrote(&key, false);
        match saved {
            Err(Error::Store(store::Error::Condition { .. })) => Ok(Outcome::Overtaken),
            saved => saved.map(|_| Outcome::Made),
        }
    }

    /// Removes a record that its source does not have any more, unless somebody is about to write one.
    pub(crate) async fn remove_absent(&self, key: &Item, condition: Condition) -> Result<(), Error> {
        let request = DeleteItem {
            table: self.table_name.clone(),
            key: key.clone(),
            options: options(Some(condition)),
        };
        let _turns = self.cache.turns([key]).await;
        if self.cache.waiting(key).is_some() {
            return Ok(());
        }
        let deleted = self.store.delete_item(request).await;
        self.cache.wrote(key, false);
        if let Some(head) = deleted? {
            oversize::clean(self, &head).await;
        }
        Ok(())
    }

    /// Writes an item, keeping what has to survive of the one that is there. L1 keeps what it has, and so does the queue of
    /// writes behind.
    pub(crate) async fn write_over(&self, item: Item, over: &Over) -> Result<Outcome, Error> {
        let key = self.key_of(&item);
        let still = over.condition(self, self.unix_now());
        for lost in 0..RACES_MAX {
            stand_back(lost).await;
            let (item, condition) = match self.keeps() {
                true => self.planned_over(item.clone()).await.map(|(item, same)| (item, Some(same)))?,
                false => (item.clone(), None),
            };
            let condition = condition.into_iter().chain(still.clone()).reduce(and);
            let found = match self.write_whole(item.clone(), condition).await {
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
        Err(self.conflict(&key, "it never stayed the same long enough to be written"))
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

    /// The condition that nobody has written a record since it was read, or that there is none any more. What survives a write
    /// (states, versions of those who keep some) does not count where that is looked at by itself.
    pub(crate) fn since(&self, seen: Option<&Item>, now: UnixTime) -> Condition {
        let gone = self.is_not_there(now);
        match seen {
            None => gone,
            Some(seen) => or(gone, self.same_as(seen)),
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

/// Those who have lost races for one item come back apart, so that each wins in the end.
pub(crate) async fn stand_back(lost: u32) {
    if lost > 1 {
        let millis = fastrand::u64(0..=1 << lost.min(6));
        tokio::time::sleep(Duration::from_millis(millis)).await;
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
