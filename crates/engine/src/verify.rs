//! Reads a store through and reports what is wrong with it.
//!
//! Every value's checksum is verified, every item is read, and what follows from the items is worked out again:
//! their keys, index entries, expiry entries and counters. Nothing is changed. It reads one snapshot, so it can run
//! beside writers.

use std::collections::HashMap;
use std::ops::Bound;

use larder_model::UnixTime;
use larder_model::limits::TTL_PAST_SECONDS_MAX;
use larder_storage::Snapshot;

use crate::catalog::Table;
use crate::damage::{hex, name_of_entry, tree_name};
use crate::index::Content;
use crate::layout::{self, TableId, TreeId};
use crate::{Engine, Error, changes, index, item_bytes, record, ttl, twice};

/// Problems that are told one by one.
const PROBLEMS_MAX: usize = 100;

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    pub tables: usize,
    pub items: u64,
    /// Everything that was read: items, index entries, records, the log.
    pub entries: u64,
    /// What is wrong, in words; the first hundred.
    pub problems: Vec<String>,
    pub problem_count: u64,
}

impl Verified {
    fn tell(&mut self, problem: impl FnOnce() -> String) {
        self.problem_count += 1;
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(problem());
        }
    }
}

/// Entries and their bytes, as a counter has them.
type Counted = HashMap<(TableId, TreeId), [i64; 2]>;

impl Engine {
    /// Reads everything once. `progress` is called now and then with the entries read so far.
    pub fn verify(&self, now: UnixTime, mut progress: impl FnMut(u64)) -> Result<Verified, Error> {
        const REPORT_EVERY: u64 = 10_000;
        let snapshot = self.store.snapshot();
        let tables =
            self.catalog()?.all_tables().map(|table| (table.id, table.clone())).collect::<HashMap<_, _>>();
        let mut verified = Verified { tables: tables.len(), ..Verified::default() };
        let mut counted = Counted::new();
        for entry in snapshot.range(Bound::Unbounded, Bound::Unbounded)? {
            verified.entries += 1;
            if verified.entries.is_multiple_of(REPORT_EVERY) {
                progress(verified.entries);
            }
            let (key, value) = match entry {
                Ok(entry) => entry,
                Err(larder_storage::Error::Corrupt { key, cause }) => {
                    verified.tell(|| format!("{}: {cause}", self.name_of(&key)));
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            if let Some((table, tree)) = layout::owner(&key)
                && let Some(table) = tables.get(&table)
                && table.owns(tree)
            {
                if let Err(problem) = verify_data(&snapshot, table, tree, &key, &value, &mut counted, now) {
                    verified.tell(|| format!("{}: {problem}", self.name_of(&key)));
                }
                verified.items += u64::from(tree == TreeId::ITEMS);
            } else if let Err(problem) = verify_other(&snapshot, &key, &value) {
                verified.tell(|| format!("{}: {problem}", self.name_of(&key)));
            }
        }
        for table in tables.values() {
            let trees = table.trees.iter().filter(|tree| !tree.building).map(|tree| tree.id);
            for tree in trees.chain([TreeId::ITEMS]) {
                let found = counted.get(&(table.id, tree)).copied().unwrap_or_default();
                let kept = match snapshot.get(&layout::counters(table.id, tree)) {
                    Ok(Some(value)) => larder_storage::counters(&value)?,
                    Ok(None) => [0, 0],
                    // It was told above.
                    Err(larder_storage::Error::Corrupt { .. }) => continue,
                    Err(error) => return Err(error.into()),
                };
                if found != kept {
                    verified.tell(|| {
                        format!(
                            "table {}: {} has {} entries of {} bytes, and its counter says {} of {}",
                            table.name(),
                            tree_name(table, tree),
                            found[0],
                            found[1],
                            kept[0],
                            kept[1]
                        )
                    });
                }
            }
        }
        Ok(verified)
    }

    /// What a key of the store is the key of, in words.
    pub(crate) fn name_of(&self, key: &[u8]) -> String {
        let named = |(id, tree)| {
            let catalog = self.catalog().ok()?;
            Some(name_of_entry(catalog.any_by_id(id)?, tree, key))
        };
        layout::owner(key).and_then(named).unwrap_or_else(|| format!("the entry at {}", hex(key)))
    }
}

fn verify_data(
    snapshot: &Snapshot,
    table: &Table,
    tree: TreeId,
    key: &[u8],
    value: &[u8],
    counted: &mut Counted,
    now: UnixTime,
) -> Result<(), String> {
    if tree == TreeId::EXPIRY {
        return match layout::read_expiry(table.id, key) {
            Some(_) => Ok(()),
            None => Err("its key cannot be read".to_owned()),
        };
    }
    let item = item_bytes::decode(value).map_err(|error| error.to_string())?;
    let size = item.size();
    let count = counted.entry((table.id, tree)).or_default();
    *count = [count[0] + 1, count[1] + size as i64];
    if tree != TreeId::ITEMS {
        return Ok(());
    }
    if layout::key(table.id, TreeId::ITEMS, &table.definition.key, &item).as_deref() != Some(key) {
        return Err("the item has another key than the place it is kept at".to_owned());
    }
    // That no index has more than this follows from its counter.
    for place in table.indexes().filter(|index| !index.tree.building) {
        let Some(entry) = index::entry(table, place, &item, key, size) else { continue };
        let expected = match &entry.content {
            Content::Whole => value,
            Content::Part(bytes) => bytes.as_slice(),
        };
        match snapshot.get(&entry.key) {
            Ok(Some(found)) if *found == *expected => {}
            Ok(Some(_)) => return Err(format!("index {} holds something else", place.definition.name)),
            Ok(None) => return Err(format!("index {} lacks it", place.definition.name)),
            // The entry is told of at its own place.
            Err(_) => {}
        }
    }
    if let Some(expiry) = table.expiry.as_ref().filter(|expiry| !expiry.building)
        && let Some(time) = ttl::expires_at(&item, expiry)
        // What is older than that never expires, and its entry goes.
        && time >= now.seconds() - TTL_PAST_SECONDS_MAX
        && matches!(snapshot.get(&layout::expiry(table.id, time, key)), Ok(None))
    {
        return Err("it would never expire: its expiry entry is missing".to_owned());
    }
    Ok(())
}

/// Records and the log.
fn verify_other(snapshot: &Snapshot, key: &[u8], value: &[u8]) -> Result<(), String> {
    let decode = || item_bytes::decode(value).map_err(|error| error.to_string());
    if key.starts_with(&layout::records()) {
        record::read(&decode()?).map_err(|error| error.to_string())?;
        twice::check(snapshot, key, value)?;
    } else if key.starts_with(&layout::backups()) {
        record::read_backup(&decode()?).map_err(|error| error.to_string())?;
        twice::check(snapshot, key, value)?;
    } else if key.starts_with(&layout::all_changes()) {
        changes::Entry::read(key, value).map_err(|error| error.to_string())?;
    }
    Ok(())
}
