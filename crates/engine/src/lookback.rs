//! Looking back: what became of a table's items, or of one of them, as far as the change log has it.
//!
//! The log is kept by table and number, so the changes of one item are found by reading the log backwards. A look is bounded,
//! and says where the next one goes on. Everything is of one snapshot, the item as it is now too.

use std::collections::HashMap;
use std::ops::Bound;

use larder_model::{ApiError, Item, TableName, UnixTime};

use crate::changes::{self, Entry};
use crate::ops::Event;
use crate::timeline::{Floor, Timeline};
use crate::{Engine, Error, item_bytes};

/// Bounds on one look.
const LOOK_ENTRIES: usize = 20_000;
const LOOK_BYTES: usize = 64 << 20;

/// What is known of the past of a table, or of an item.
#[derive(Clone, Debug)]
pub struct Lookback {
    /// The item as it is, where one was asked for.
    pub item: Option<Item>,
    /// Newest first. What an item was after a change, where the log does not keep it, is what it was before the next.
    pub changes: Vec<Entry>,
    /// There may be more below this number.
    pub more_before: Option<u64>,
    /// Whether changes are logged now: for a stream, or for recovery.
    pub is_kept: bool,
    /// From here on no change is missing, where recovery keeps them.
    pub whole_since: Option<UnixTime>,
}

impl Engine {
    /// The last changes of a table, or of the item with this key, at most so many; only those below a number, if one is given.
    pub fn look_back(
        &self,
        table: &TableName,
        key: Option<&Item>,
        before: Option<u64>,
        most: usize,
        now: UnixTime,
    ) -> Result<Lookback, Error> {
        let found = self.catalog()?.find(table)?.cloned();
        let table = found.ok_or_else(|| ApiError::TableNotFound(table.clone()))?;
        let snapshot = self.store.snapshot();
        let item = match key {
            Some(key) => snapshot.get(&table.item_key(key)?)?,
            None => None,
        };
        let floor = Floor::read(&snapshot, table.id)?.moment(&Timeline::read(&snapshot)?);
        let recovery = table.recovery.as_ref();
        let mut past = Lookback {
            item: item.map(|bytes| item_bytes::decode(&bytes)).transpose()?,
            changes: Vec::new(),
            more_before: None,
            is_kept: recovery.is_some() || table.definition.stream.is_some(),
            whole_since: recovery.map(|recovery| recovery.earliest(self.latest(now), floor)),
        };
        let upper = before.map_or(Bound::Unbounded, Bound::Excluded);
        let (mut looked, mut bytes) = (0, 0);
        // What each item was before the change that was looked at last.
        let mut later: HashMap<Vec<u8>, Option<Item>> = HashMap::new();
        for found in changes::entries(&snapshot, table.id, Bound::Unbounded, upper)?.rev() {
            let found = found?;
            (looked, bytes) = (looked + 1, bytes + found.bytes());
            let entry = found.entry()?;
            let number = entry.number;
            if key.is_none_or(|key| entry.key == *key) {
                let item_key = table.item_key(&entry.key)?;
                let new = match (entry.event, entry.new.clone(), later.get(&item_key)) {
                    (Event::Remove, ..) => None,
                    (_, Some(new), _) => Some(new),
                    (_, None, Some(was)) => was.clone(),
                    (_, None, None) if before.is_some() => None,
                    (_, None, None) => {
                        snapshot.get(&item_key)?.map(|bytes| item_bytes::decode(&bytes)).transpose()?
                    }
                };
                later.insert(item_key, entry.old.clone());
                past.changes.push(Entry { new, ..entry });
            }
            if past.changes.len() >= most || looked >= LOOK_ENTRIES || bytes >= LOOK_BYTES {
                past.more_before = Some(number);
                break;
            }
        }
        Ok(past)
    }
}
