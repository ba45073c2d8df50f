//! What cannot be read: its name, and what it leaves behind when something else is written in its place.
//!
//! An item that cannot be read can be put and deleted by whoever does not ask what it was. Which index and expiry
//! entries it had cannot be worked out from it, so they are looked for: [`Engine::remains`] reads the table's trees
//! through. That takes as long as reading them does, holds no lock, and is only done where an item is damaged.
//!
//! Promises:
//! - What is damaged is named by its table and key, never by what it held.
//! - After an item that could not be read is written or deleted, no index has an entry of what it was.

use std::future::poll_fn;
use std::ops::Bound;
use std::task::Poll;

use larder_model::{AttributeValue, Item, KeySchema};
use larder_storage::{Batch, Lost, Piece};

use crate::catalog::Table;
use crate::item_bytes::StoredItem;
use crate::layout::{self, TreeId};
use crate::{Engine, Error, key_bytes};

/// Entries that are read before others have a turn.
const ENTRIES_PER_TURN: usize = 1000;

impl Error {
    /// Something that is stored cannot be read, or cannot be written because of that.
    pub(crate) fn is_damage(&self) -> bool {
        use larder_storage::Error as Storage;
        match self {
            Self::Item(_) | Self::Record(_) | Self::Damaged(_) | Self::Unreadable { .. } => true,
            Self::Storage(Storage::Corrupt { .. } | Storage::Damaged { .. }) => true,
            Self::Storage(Storage::Failed { cause } | Storage::Unknown { cause }) => {
                matches!(**cause, Storage::Corrupt { .. } | Storage::Damaged { .. })
            }
            Self::Api(_)
            | Self::Key(_)
            | Self::Expression(_)
            | Self::Statement(_)
            | Self::Storage(_)
            | Self::Newer { .. } => false,
        }
    }

    /// What to do next, where its own text does not say.
    pub(crate) fn way_out(&self) -> &'static str {
        match self {
            Self::Storage(_) => "",
            _ => "; `larder verify` tells how far the damage goes, `larder salvage` brings out the rest",
        }
    }

    /// The same, and what it is about, if that is something damaged which is not named yet.
    pub(crate) fn about(self, what: impl FnOnce() -> String) -> Self {
        match self {
            Self::Unreadable { .. } => self,
            error if error.is_damage() => Self::Unreadable { what: what(), cause: Box::new(error) },
            error => error,
        }
    }
}

/// An entry of a table, by the table's name and the item's key.
pub(crate) fn name_of_entry(table: &Table, tree: TreeId, key: &[u8]) -> String {
    let place = match tree {
        TreeId::ITEMS => format!("table {}, item", table.name()),
        other => format!("table {}, {}, item", table.name(), tree_name(table, other)),
    };
    match key_of_entry(table, tree, key) {
        Some(attributes) => format!("{place} {}", attributes.join(", ")),
        None => format!("{place} at {}", hex(key)),
    }
}

/// A range of a table's entries, by the keys of the items on either side as far as they can be told.
pub(crate) fn name_of_range(table: &Table, tree: TreeId, from: &[u8], before: Option<&[u8]>) -> String {
    let place = match tree {
        TreeId::ITEMS => format!("table {}", table.name()),
        other => format!("table {}, {}", table.name(), tree_name(table, other)),
    };
    let own = layout::tree(table.id, tree);
    // The bound of a page is a key, or the beginning of one.
    let edge = |key: &[u8]| match key.strip_prefix(&own[..]) {
        Some(rest) if !rest.is_empty() => Some(match key_of_entry(table, tree, key) {
            Some(attributes) => attributes.join(", "),
            None => format!("the place {}", hex(rest)),
        }),
        Some(_) | None => None,
    };
    match (edge(from), before.and_then(edge)) {
        (None, None) => format!("{place}: all items"),
        (Some(from), None) => format!("{place}: the items from {from} on, in the order of a scan"),
        (None, Some(before)) => format!("{place}: the items before {before}, in the order of a scan"),
        (Some(from), Some(before)) => {
            format!("{place}: the items from {from} to before {before}, in the order of a scan")
        }
    }
}

pub(crate) fn tree_name(table: &Table, tree: TreeId) -> String {
    match tree {
        TreeId::ITEMS => "items".to_owned(),
        TreeId::EXPIRY => "expiry".to_owned(),
        other => match table.indexes().find(|index| index.tree.id == other) {
            Some(index) => format!("index {}", index.definition.name),
            None => format!("tree {}", other.0),
        },
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The key attributes of an item, from its key.
pub(crate) fn key_item(table: &Table, key: &[u8]) -> Option<Item> {
    let mut rest = key.get(layout::TREE_PREFIX_BYTES + layout::PARTITION_BYTES..)?;
    let attributes = table.definition.key.partition.iter().chain(&table.definition.key.sort);
    attributes
        .map(|attribute| Some((attribute.name.as_str(), key_bytes::take(&mut rest, attribute.kind)?)))
        .collect()
}

/// The attributes in the key of an entry's item, as `name=value`.
fn key_of_entry(table: &Table, tree: TreeId, key: &[u8]) -> Option<Vec<String>> {
    let tail = item_tail(table, tree, key)?;
    let mut rest = tail.get(layout::PARTITION_BYTES..)?;
    read_key(&table.definition.key, &mut rest)
}

/// What an entry's key ends with: the key of its item, without the part that names the tree.
pub(crate) fn item_tail<'a>(table: &Table, tree: TreeId, key: &'a [u8]) -> Option<&'a [u8]> {
    let rest = key.get(layout::TREE_PREFIX_BYTES..)?;
    match tree {
        TreeId::ITEMS => Some(rest),
        TreeId::EXPIRY => rest.get(layout::EXPIRY_BYTES..),
        other => {
            let index = table.indexes().find(|index| index.tree.id == other)?;
            let mut rest = rest.get(layout::PARTITION_BYTES..)?;
            read_key(&index.definition.key, &mut rest)?;
            Some(rest)
        }
    }
}

/// The attributes in a key, as `name=value`.
fn read_key(schema: &KeySchema, rest: &mut &[u8]) -> Option<Vec<String>> {
    let attributes = schema.partition.iter().chain(&schema.sort);
    attributes
        .map(|attribute| {
            let value = key_bytes::take(rest, attribute.kind)?;
            Some(match value {
                AttributeValue::S(text) => format!("{}={text}", attribute.name),
                AttributeValue::N(number) => format!("{}={number}", attribute.name),
                AttributeValue::B(bytes) => format!("{}={}", attribute.name, hex(&bytes)),
                other => format!("{}={other:?}", attribute.name),
            })
        })
        .collect()
}

/// What an item that cannot be read left in the trees of its table.
#[derive(Debug, Default)]
pub(crate) struct Remains {
    entries: Vec<Vec<u8>>,
    /// What the trees' counters have it counted as.
    counted: Vec<(TreeId, [i64; 2])>,
}

impl Remains {
    /// Takes them away. What is put in their place comes later in the batch.
    pub(crate) fn clear(&self, batch: &mut Batch, table: &Table) {
        self.entries.iter().for_each(|key| batch.delete(key.clone()));
        for (tree, [entries, bytes]) in &self.counted {
            if [*entries, *bytes] != [0, 0] {
                batch.add(layout::counters(table.id, *tree), [-entries, -bytes]);
            }
        }
    }
}

/// What one tree has of an item.
#[derive(Default)]
struct Found {
    keys: Vec<Vec<u8>>,
    /// Of those that can be read.
    counted: [i64; 2],
    /// Those that cannot.
    lost: i64,
}

impl Engine {
    /// Looks for what an item that cannot be read left behind.
    pub(crate) async fn remains(&self, table: &Table, key: &[u8]) -> Result<Remains, Error> {
        let snapshot = self.store.snapshot();
        let tail = layout::item_key_tail(key);
        let mut remains = Remains::default();
        let indexes = table.trees.iter().map(|tree| tree.id);
        for tree in indexes.chain([TreeId::EXPIRY, TreeId::ITEMS]) {
            if !table.owns(tree) {
                continue;
            }
            let prefix = layout::tree(table.id, tree);
            let end = key_bytes::after_prefix(&prefix).expect("a data key does not begin with FF");
            let (mut found, mut all, mut lost, mut whole) = (Found::default(), [0; 2], 0, true);
            let pieces = snapshot.pieces(Bound::Included(&prefix), Bound::Excluded(&end), true);
            for (turn, piece) in pieces.enumerate() {
                if turn % ENTRIES_PER_TURN == ENTRIES_PER_TURN - 1 {
                    give_way().await;
                }
                let (key, size) = match piece? {
                    Piece::Entry(key, value) => {
                        let size = if tree == TreeId::EXPIRY {
                            None
                        } else {
                            let stored = StoredItem::from(value);
                            stored.decode().and_then(|_| stored.size()).ok()
                        };
                        (key.to_vec(), size)
                    }
                    Piece::Lost(Lost::Value { key, .. }) => (key, None),
                    Piece::Lost(Lost::Keys { .. }) => {
                        whole = false;
                        continue;
                    }
                };
                let of_size = size.map(|size| [1, size as i64]);
                let [entries, bytes] = of_size.unwrap_or_default();
                all = [all[0] + entries, all[1] + bytes];
                lost += i64::from(of_size.is_none());
                if item_tail(table, tree, &key) == Some(tail) {
                    found.keys.push(key);
                    found.counted = [found.counted[0] + entries, found.counted[1] + bytes];
                    found.lost += i64::from(of_size.is_none());
                }
            }
            if tree != TreeId::EXPIRY {
                // The size of the only one that cannot be read is what the others do not add up to. Of several, the
                // last to go takes along what is left.
                let kept = match snapshot.get(&layout::counters(table.id, tree)) {
                    Ok(Some(value)) => larder_storage::counters(&value)?,
                    Ok(None) => [0, 0],
                    Err(_) => all,
                };
                let unread = if whole && lost == found.lost { kept[1] - all[1] } else { 0 };
                let bytes = if found.lost > 0 { unread } else { 0 };
                let counted = [found.counted[0] + found.lost, found.counted[1] + bytes];
                remains.counted.push((tree, counted));
            }
            if tree != TreeId::ITEMS {
                remains.entries.append(&mut found.keys);
            } else if found.keys.is_empty() {
                // Not known to be there at all: its page is lost.
                remains.counted.pop();
            }
        }
        Ok(remains)
    }
}

/// Lets others run.
async fn give_way() {
    let mut waited = false;
    poll_fn(|context| {
        if std::mem::replace(&mut waited, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
