//! Work that is done in the background, a bounded step at a time.
//!
//! [`Engine::work`] fills new tables from what they are copied from and new indexes from the items that were
//! there before, enters items in the expiry tree of a table whose TTL was switched on, clears away what dropped
//! tables and indexes left, goes on with exports and imports, removes what has expired, trims the change log, turns shards over, and forgets old transaction tokens and
//! the backups of tables deleted long ago. It owns no thread and no clock. Everything it does can be cut off at any
//! point and taken up again: what is left to do is written in the catalog, or follows from it.

use std::collections::HashMap;
use std::ops::Bound;
use std::sync::atomic::Ordering;
use std::time::Duration;

use larder_model::UnixTime;
use larder_storage::{Batch, Ticket, Value};

use crate::catalog::{Catalog, Table};
use crate::index::{self, Content};
use crate::layout::{self, TableId, TreeId};
use crate::transact::Remembered;
use crate::write::count;
use crate::{Engine, Error, item_bytes, key_bytes, ttl};

/// Entries handled in one step.
const STEP_ENTRIES: usize = 1000;
/// Trees looked at in one step.
const STEP_TREES: usize = 1000;

/// What a step did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Worked {
    /// There is more to do now.
    pub more: bool,
    /// Items that were removed because they had expired.
    pub expired: usize,
    /// History that was forgotten because there is a limit to it.
    pub history_cut_bytes: u64,
}

/// How far new trees have been filled.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    runs: u64,
    trees: HashMap<(TableId, TreeId), Filled>,
}

#[derive(Clone, Debug)]
struct Filled {
    /// Tells it from a tree of the same number that was begun anew.
    run: u64,
    /// The last item key looked at.
    last: Option<Vec<u8>>,
}

impl Progress {
    fn begin(&mut self, table: TableId, tree: TreeId) -> Filled {
        self.runs += 1;
        let begun = Filled { run: self.runs, last: None };
        self.trees.insert((table, tree), begun.clone());
        begun
    }

    /// Where it is, unless it was begun anew or given up meanwhile.
    fn of_run(&mut self, table: TableId, tree: TreeId, run: u64) -> Option<&mut Filled> {
        self.trees.get_mut(&(table, tree)).filter(|filled| filled.run == run)
    }

    /// A tree that is begun again later lacks what was written meanwhile.
    pub(crate) fn give_up(&mut self, table: TableId, tree: TreeId) {
        self.trees.remove(&(table, tree));
    }
}

/// A range of data in which something may belong to no table any more.
#[derive(Debug)]
pub(crate) struct Sweep {
    from: Vec<u8>,
    end: Vec<u8>,
    /// The record whose change made it so. Before that is on disk, more may still come.
    record: Option<Vec<u8>>,
}

impl Sweep {
    /// All data: what was dropped before the store was opened is not known by name.
    pub(crate) fn everything() -> Self {
        Self::of(layout::data().to_vec(), None)
    }

    /// What begins so.
    pub(crate) fn of(prefix: Vec<u8>, record: Option<Vec<u8>>) -> Self {
        Self { end: after(&prefix), from: prefix, record }
    }
}

impl Engine {
    /// Does one bounded step of whatever there is to do. Blocks until the step is on disk.
    ///
    /// `ttl_delay` is how long after its time an expired item is removed.
    pub fn work(&self, now: UnixTime, ttl_delay: Duration) -> Result<Worked, Error> {
        // What cannot go on, because something is damaged, holds up nothing else.
        let doubled = self.copy_records();
        let copied = self.copy(now);
        let filled = self.fill();
        let cleared = self.clear();
        // What cannot be undone waits until the time is certain.
        let settled = self.settled(now);
        let streams = self.forget_streams(settled);
        let shards = self.turn_shards_over(settled).and(self.forget_shards(settled));
        let trimmed = self.trim_changes(settled);
        let cut = self.count_history().and_then(|()| self.cut_history(settled));
        let forgotten = self.forget_tokens(settled);
        let gone = self.expire_backups(settled);
        let exported = self.export(now);
        let imported = self.import(now);
        let over = self.forget_tasks(settled);
        let reaped = self.reap(now, ttl_delay)?;
        streams?;
        shards?;
        let more = [
            doubled?,
            copied?,
            filled?,
            cleared?,
            trimmed?,
            cut?,
            forgotten?,
            gone?,
            exported?,
            imported?,
            over?,
            reaped.more,
        ]
        .contains(&true);
        Ok(Worked { more, expired: reaped.removed, history_cut_bytes: self.history.take_untold() })
    }

    /// Adds some older items to a new index or expiry tree. True while there may be more.
    fn fill(&self) -> Result<bool, Error> {
        let tree = |table: &Table| {
            let index = table.trees.iter().find(|tree| tree.building).map(|tree| tree.id);
            index.or_else(|| table.expiry.as_ref()?.building.then_some(TreeId::EXPIRY))
        };
        let building: Vec<(TableId, TreeId)> =
            self.catalog()?.building().filter_map(|table| Some((table.id, tree(table)?))).collect();
        let mut failed = Ok(false);
        for (table, tree) in building {
            // One that cannot go on does not hold up the others.
            match self.fill_further(table, tree) {
                Ok(()) => return Ok(true),
                Err(error) if error.is_damage() => failed = Err(error),
                Err(error) => return Err(error),
            }
        }
        failed
    }

    fn fill_further(&self, table: TableId, tree: TreeId) -> Result<(), Error> {
        let begun = self.progress.lock().trees.get(&(table, tree)).cloned();
        let Filled { run, last } = match begun {
            Some(filled) => filled,
            None => {
                let begun = self.progress.lock().begin(table, tree);
                // Writes from before the tree was known may still be on their way to the snapshot.
                self.store
                    .write(Batch::default())
                    .inspect_err(|_| self.progress.lock().give_up(table, tree))?;
                begun
            }
        };
        let items = layout::tree(table, TreeId::ITEMS);
        let end = after(&items);
        let from = last.as_deref().map_or(Bound::Included(items.as_slice()), Bound::Excluded);
        let range = self.store.snapshot().range(from, Bound::Excluded(&end))?;
        let keys = range.take(STEP_ENTRIES).map(|entry| entry.map(|(key, _)| key.to_vec()));
        let keys: Vec<Vec<u8>> = keys.collect::<Result<_, _>>()?;
        let tickets =
            keys.iter().map(|key| self.fill_one(table, tree, key)).collect::<Result<Vec<_>, _>>()?;
        tickets.into_iter().flatten().try_for_each(Ticket::wait)?;
        match keys.into_iter().next_back() {
            Some(last) => {
                if let Some(filled) = self.progress.lock().of_run(table, tree, run) {
                    filled.last = Some(last);
                }
                Ok(())
            }
            None => self.finish_filling(table, tree, run),
        }
    }

    fn fill_one(&self, table: TableId, tree: TreeId, key: &[u8]) -> Result<Option<Ticket>, Error> {
        let catalog = self.writing()?;
        // The table or index may be gone by now.
        let Some(table) = catalog.by_id(table) else { return Ok(None) };
        let seen = catalog.generation;
        let _lock = self.locks.lock(key);
        let Some(old) = self.old(table, key)? else { return Ok(None) };
        let mut batch = Batch::default();
        if tree == TreeId::EXPIRY {
            let Some(expiry) = &table.expiry else { return Ok(None) };
            let Some(time) = ttl::expires_at(&old.item, expiry) else { return Ok(None) };
            batch.put(layout::expiry(table.id, time, key), Vec::new());
        } else {
            let Some(place) = table.indexes().find(|index| index.tree.id == tree) else { return Ok(None) };
            let Some(entry) = index::entry(table, place, &old.item, key, old.size) else { return Ok(None) };
            if self.store.latest(&entry.key)?.is_some() {
                return Ok(None);
            }
            count(&mut batch, table, tree, [None, Some(entry.size)]);
            let content = match entry.content {
                Content::Whole => old.stored.as_bytes().to_vec(),
                Content::Part(bytes) => bytes,
            };
            batch.put(entry.key, content);
        }
        Ok(Some(self.store.submit(batch, seen)?))
    }

    fn finish_filling(&self, table: TableId, tree: TreeId, run: u64) -> Result<(), Error> {
        let ((), ticket, ()) = self.change_catalog(|catalog, batch| {
            if self.progress.lock().of_run(table, tree, run).is_some() {
                catalog.change(batch, table, |table| {
                    table.expiry.iter_mut().for_each(|expiry| expiry.building &= tree != TreeId::EXPIRY);
                    table.trees.iter_mut().for_each(|known| known.building &= known.id != tree);
                });
            }
            Ok(((), ()))
        })?;
        ticket.wait()?;
        let mut progress = self.progress.lock();
        if progress.of_run(table, tree, run).is_some() {
            progress.give_up(table, tree);
        }
        Ok(())
    }

    /// Deletes some entries of a tree that belongs to no table. True while there may be more.
    fn clear(&self) -> Result<bool, Error> {
        // What nobody is known to own may belong to a table whose record cannot be read.
        if !self.catalog()?.is_whole() {
            return Ok(false);
        }
        let Some(mut sweep) = self.next_sweep() else { return Ok(false) };
        let swept = self.sweep(&mut sweep);
        let mut garbage = self.garbage.lock();
        match swept {
            Ok(true) => garbage.push_front(sweep),
            Ok(false) => {}
            // The others need not wait for it.
            Err(_) => garbage.push_back(sweep),
        }
        Ok(swept? || !garbage.is_empty())
    }

    fn next_sweep(&self) -> Option<Sweep> {
        let mut garbage = self.garbage.lock();
        let ready = |sweep: &Sweep| sweep.record.as_ref().is_none_or(|key| !self.store.is_pending(key));
        let at = garbage.iter().position(ready)?;
        garbage.remove(at)
    }

    /// Goes on with a sweep, and says whether there is more of it.
    fn sweep(&self, sweep: &mut Sweep) -> Result<bool, Error> {
        // The snapshot before the catalog: whatever it holds was made by a table the catalog has known.
        let snapshot = self.store.snapshot();
        for _ in 0..STEP_TREES {
            let first = snapshot.range(Bound::Included(&sweep.from), Bound::Excluded(&sweep.end))?.next();
            let Some(key) = first.map(key_alone).transpose()? else { return Ok(false) };
            let Some((table, tree)) = layout::owner(&key) else {
                return Err(Error::Damaged("a data key cannot be read"));
            };
            let prefix = layout::tree(table, tree);
            let after = after(&prefix);
            let is_owned = |catalog: &Catalog| catalog.any_by_id(table).is_some_and(|table| table.owns(tree));
            if is_owned(&*self.catalog()?) {
                sweep.from = after;
                continue;
            }
            let mut batch = Batch::default();
            for entry in snapshot.range(Bound::Included(&prefix), Bound::Excluded(&after))?.take(STEP_ENTRIES)
            {
                batch.delete(key_alone(entry)?);
            }
            // Held until the deletes are submitted: a tree cannot be taken into use in between.
            let catalog = self.writing()?;
            if !is_owned(&catalog) && catalog.is_whole() {
                let ticket = self.store.submit(batch, catalog.generation)?;
                drop(catalog);
                ticket.wait()?;
            }
            return Ok(true);
        }
        Ok(true)
    }

    fn forget_tokens(&self, now: UnixTime) -> Result<bool, Error> {
        let [from, to] = layout::tokens_expiring_before(now.seconds());
        let range = self.store.snapshot().range(Bound::Included(&from), Bound::Excluded(&to))?;
        let mut due = Vec::new();
        for entry in range.take(STEP_ENTRIES) {
            let (key, _) = entry?;
            let token =
                layout::expiring_token(&key).ok_or(Error::Damaged("a token's entry cannot be read"))?;
            due.push((key.to_vec(), layout::token(token)));
        }
        if due.is_empty() {
            return Ok(false);
        }
        let more = due.len() == STEP_ENTRIES;

        let seen = self.store.generation();
        let locks = self.locks.lock_all(due.iter().map(|(_, token)| token.as_slice()));
        let mut batch = Batch::default();
        for (entry, token) in due {
            batch.delete(entry);
            // A token that was used again since has a later time of its own.
            let remembered = || -> Result<_, Error> {
                let stored = self.store.latest(&token)?;
                stored.map(|bytes| Remembered::read(&item_bytes::decode(&bytes)?)).transpose()
            };
            match remembered() {
                Ok(Some(remembered)) if remembered.expires < now.seconds() => batch.delete(token),
                Ok(_) => {}
                // Nobody can use it any more.
                Err(error) if error.is_damage() => batch.delete(token),
                Err(error) => return Err(error),
            }
        }
        let ticket = self.store.submit(batch, seen)?;
        drop(locks);
        ticket.wait()?;
        Ok(more)
    }

    /// Tells whoever drives [`work`](Self::work) that there is some.
    pub(crate) fn wake_worker(&self) {
        self.trim_due_millis.store(i64::MIN, Ordering::Release);
        self.wake.notify_one();
    }

    /// Resolves when there is something new to work on, apart from what expires.
    pub async fn work_wanted(&self) {
        self.wake.notified().await;
    }
}

/// The key of an entry that goes, whatever became of its value.
fn key_alone(entry: Result<(Value, Value), larder_storage::Error>) -> Result<Vec<u8>, Error> {
    match entry {
        Ok((key, _)) => Ok(key.to_vec()),
        Err(larder_storage::Error::Corrupt { key, .. }) => Ok(key),
        Err(error) => Err(error.into()),
    }
}

/// The first key after all that begin so.
fn after(prefix: &[u8]) -> Vec<u8> {
    key_bytes::after_prefix(prefix).expect("data does not begin with FF")
}
