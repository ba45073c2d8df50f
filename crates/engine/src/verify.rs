//! Reads a store through and reports what is wrong with it.
//!
//! Every page and every value is checked by the store as it is read. On top of that the order of the keys is looked
//! at, every item and every record is read, and what follows from the items is worked out again: their keys, index
//! entries, expiry entries and counters; and the other way round, that an index has no entry that no item owes. It
//! goes on behind what cannot be read and says which items that were. Nothing is changed. It reads one snapshot, so it
//! can run beside writers, and it needs no catalog, so it can look at a store that no engine opens; and at what was
//! brought out of one that cannot be opened at all, which lacks what it lacks without saying so.

use std::collections::{HashMap, HashSet};
use std::ops::Bound;

use larder_model::UnixTime;
use larder_model::limits::TTL_PAST_SECONDS_MAX;
use larder_storage::{Lost, Piece, Snapshot, Store, Value};

use crate::catalog::Table;
use crate::damage::{item_tail, tree_name};
use crate::index::Content;
use crate::layout::{self, TableId, TreeId};
use crate::records::{Records, has};
use crate::shards::Turnover;
use crate::transact::Remembered;
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
    pub fn verify(&self, now: UnixTime, progress: impl FnMut(u64)) -> Result<Verified, Error> {
        verify(&self.store, &[], now, progress)
    }
}

/// Reads a store through. `lost` is what it was brought out without (`larder_storage::salvage`). `progress` is called now
/// and then with the entries read so far.
pub fn verify(
    store: &Store,
    lost: &[Lost],
    now: UnixTime,
    mut progress: impl FnMut(u64),
) -> Result<Verified, Error> {
    const REPORT_EVERY: u64 = 10_000;
    let snapshot = store.snapshot();
    let records = Records::read(&snapshot, lost)?;
    let source = Source { snapshot: &snapshot, lost };
    let mut verified = Verified { tables: records.all().count(), ..Verified::default() };
    let mut counted = Counted::new();
    // Trees of which something is lost: their counters cannot agree.
    let mut torn = HashSet::new();
    let mut last: Vec<u8> = Vec::new();
    let next_number = snapshot.next_number().ok().filter(|_| lost.is_empty()).unwrap_or(u64::MAX);
    let lost = lost.iter().map(|lost| Ok(Piece::Lost(lost.clone())));
    for piece in lost.chain(snapshot.pieces(Bound::Unbounded, Bound::Unbounded, true)) {
        verified.entries += 1;
        if verified.entries.is_multiple_of(REPORT_EVERY) {
            progress(verified.entries);
        }
        let (key, value) = match piece? {
            Piece::Entry(key, value) => (key, value),
            Piece::Lost(lost) => {
                for table in records.all() {
                    torn.extend(records.trees_of(table, &lost).into_iter().map(|tree| (table.id, tree)));
                }
                let cause = match &lost {
                    Lost::Value { cause, .. } => cause,
                    Lost::Keys { .. } => "they cannot be read",
                };
                for name in records.names_of(&lost) {
                    verified.tell(|| format!("{name}: {cause}"));
                }
                continue;
            }
        };
        if !last.is_empty() && *key <= *last {
            verified.tell(|| format!("{}: it is not in the order of the keys", records.name_of(&key)));
        }
        last.clear();
        last.extend_from_slice(&key);
        let checked = match layout::owner(&key).map(|(id, tree)| (records.by_id(id), tree)) {
            Some((Some(table), tree)) if table.owns(tree) => {
                verified.items += u64::from(tree == TreeId::ITEMS);
                verify_data(&source, table, tree, &key, &value, &mut counted, now)
            }
            // Of what was dropped, and is being cleared away.
            Some(_) if records.lost.is_empty() => Ok(()),
            Some((Some(_), _)) => Ok(()),
            Some((None, _)) => Err("the record of its table cannot be read".to_owned()),
            None => verify_other(&source, &key, &value, next_number),
        };
        if let Err(problem) = checked {
            if let Some(owner) = layout::owner(&key) {
                // What cannot be read is not counted either.
                if item_bytes::decode(&value).is_err() {
                    torn.insert(owner);
                }
            }
            verified.tell(|| format!("{}: {problem}", records.name_of(&key)));
        }
    }
    for table in records.all() {
        let trees = table.trees.iter().filter(|tree| !tree.building).map(|tree| tree.id);
        for tree in trees.chain([TreeId::ITEMS]).filter(|tree| !torn.contains(&(table.id, *tree))) {
            let found = counted.get(&(table.id, tree)).copied().unwrap_or_default();
            let kept = match source.get(&layout::counters(table.id, tree)) {
                Ok(Some(value)) => larder_storage::counters(&value)?,
                Ok(None) => [0, 0],
                // It was told above.
                Err(larder_storage::Error::Corrupt { .. } | larder_storage::Error::Damaged { .. }) => {
                    continue;
                }
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
    let unreadable = store.unreadable_pages()?;
    if unreadable > 0 {
        verified.tell(|| {
            format!(
                "{unreadable} pages of the tree's own records cannot be read: nothing can be written to this store; \
                 `larder salvage` brings all of it into a new one"
            )
        });
    }
    Ok(verified)
}

/// What is looked at, and what it lacks without saying so.
struct Source<'a> {
    snapshot: &'a Snapshot,
    lost: &'a [Lost],
}

impl Source<'_> {
    /// An error where nobody knows what was there.
    fn get(&self, key: &[u8]) -> Result<Option<Value>, larder_storage::Error> {
        match self.snapshot.get(key)? {
            None if self.lost.iter().any(|lost| has(lost, key)) => {
                Err(larder_storage::Error::Corrupt { key: key.to_vec(), cause: "it cannot be read" })
            }
            found => Ok(found),
        }
    }
}

fn verify_data(
    source: &Source<'_>,
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
        return verify_entry(source, table, tree, key);
    }
    if layout::key(table.id, TreeId::ITEMS, &table.definition.key, &item).as_deref() != Some(key) {
        return Err("the item has another key than the place it is kept at".to_owned());
    }
    for place in table.indexes().filter(|index| !index.tree.building) {
        let Some(entry) = index::entry(table, place, &item, key, size) else { continue };
        let expected = match &entry.content {
            Content::Whole => value,
            Content::Part(bytes) => bytes.as_slice(),
        };
        match source.get(&entry.key) {
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
        && matches!(source.get(&layout::expiry(table.id, time, key)), Ok(None))
    {
        return Err("it would never expire: its expiry entry is missing".to_owned());
    }
    Ok(())
}

/// An index entry has an item that owes it.
fn verify_entry(source: &Source<'_>, table: &Table, tree: TreeId, key: &[u8]) -> Result<(), String> {
    let Some(place) = table.indexes().find(|index| index.tree.id == tree) else { return Ok(()) };
    let tail = item_tail(table, tree, key).ok_or("its key cannot be read")?;
    let item_key = [&layout::tree(table.id, TreeId::ITEMS)[..], tail].concat();
    // An item that cannot be read is told of at its own place.
    let Ok(stored) = source.get(&item_key) else { return Ok(()) };
    let stored = stored.ok_or("there is no such item")?;
    let Ok(item) = item_bytes::decode(&stored) else { return Ok(()) };
    match index::entry(table, place, &item, &item_key, item.size()) {
        // What it holds is compared with the item.
        Some(entry) if entry.key == key => Ok(()),
        Some(_) | None => Err("its item has no such entry".to_owned()),
    }
}

/// Records, the log, tokens.
fn verify_other(source: &Source<'_>, key: &[u8], value: &[u8], next_number: u64) -> Result<(), String> {
    let item = || item_bytes::decode(value).map_err(|error| error.to_string());
    if key.starts_with(&layout::records()) {
        let table = record::read(&item()?).map_err(|error| error.to_string())?;
        if layout::record(table.name()) != key {
            return Err("it is of another table".to_owned());
        }
        twice::check(|key| source.get(key), key, value)?;
    } else if key.starts_with(&layout::backups()) {
        let backup = record::read_backup(&item()?).map_err(|error| error.to_string())?;
        if layout::backup(&backup.id) != key {
            return Err("it is of another backup".to_owned());
        }
        twice::check(|key| source.get(key), key, value)?;
    } else if key.starts_with(&layout::exports()) {
        let export = record::read_export(&item()?).map_err(|error| error.to_string())?;
        if layout::export(export.id()) != key {
            return Err("it is of another export".to_owned());
        }
        twice::check(|key| source.get(key), key, value)?;
    } else if key.starts_with(&layout::imports()) {
        let import = record::read_import(&item()?).map_err(|error| error.to_string())?;
        if layout::import(import.id()) != key {
            return Err("it is of another import".to_owned());
        }
        twice::check(|key| source.get(key), key, value)?;
    } else if key.starts_with(&layout::all_changes()) {
        let entry = changes::Entry::read(key, value).map_err(|error| error.to_string())?;
        if entry.number >= next_number {
            return Err(format!("its number {} has not been given out", entry.number));
        }
    } else if key.starts_with(&layout::all_turnovers()) {
        Turnover::read(key, value).map_err(|error| error.to_string())?;
    } else if let Some(token) = layout::token_of(key) {
        let remembered = Remembered::read(&item()?).map_err(|error| error.to_string())?;
        if let Ok(None) = source.get(&layout::token_expiry(remembered.expires, token)) {
            return Err("it would never be forgotten".to_owned());
        }
    } else if let Some(first) = layout::is_second(key).filter(|first| !first.is_empty()) {
        if let Ok(None) = source.get(first) {
            return Err("it is the second copy of what is not there".to_owned());
        }
    } else if layout::counters_owner(key).is_some() {
        larder_storage::counters(value).map_err(|error| error.to_string())?;
    }
    Ok(())
}
