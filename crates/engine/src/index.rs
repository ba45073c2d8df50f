//! Item → the index entries it owes.
//!
//! An entry's key is the index key followed by the item's own, so that items with equal index keys stand side
//! by side; its value is the attributes the index projects. An item without a good value for every attribute
//! of the index key has no entry.

use larder_model::{Item, Projection};

use crate::catalog::{Index, Table};
use crate::{item_bytes, key_rules, layout};

/// One entry of one index.
#[derive(Debug)]
pub(crate) struct Entry {
    pub key: Vec<u8>,
    /// The size of what is projected, as DynamoDB counts it.
    pub size: usize,
    pub content: Content,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// The item itself.
    Whole,
    Part(Vec<u8>),
}

/// The entry of an item whose key is `item_key` and whose size is `item_size`.
pub(crate) fn entry(
    table: &Table,
    index: Index<'_>,
    item: &Item,
    item_key: &[u8],
    item_size: usize,
) -> Option<Entry> {
    if !key_rules::belongs(&index.definition.key, item) {
        return None;
    }
    let mut key = layout::key(table.id, index.tree.id, &index.definition.key, item)?;
    key.extend_from_slice(layout::item_key_tail(item_key));
    Some(match project(table, index, item) {
        None => Entry { key, size: item_size, content: Content::Whole },
        Some(part) => {
            let size = part.size();
            Entry { key, size, content: Content::Part(item_bytes::encode_sized(&part, size)) }
        }
    })
}

/// What the index holds of an item; `None` for all of it.
fn project(table: &Table, index: Index<'_>, item: &Item) -> Option<Item> {
    let named: &[String] = match &index.definition.projection {
        Projection::All => return None,
        Projection::KeysOnly => &[],
        Projection::Include(names) => names,
    };
    let keys = table.definition.key.attributes().chain(index.definition.key.attributes());
    let names = keys.map(|attribute| &attribute.name).chain(named);
    Some(names.filter_map(|name| Some((name.as_str(), item.get(name)?.clone()))).collect())
}

/// Whether the index holds this attribute of every item in it.
pub(crate) fn projects(table: &Table, index: Index<'_>, name: &str) -> bool {
    match &index.definition.projection {
        Projection::All => true,
        Projection::Include(names) if names.iter().any(|included| included == name) => true,
        Projection::KeysOnly | Projection::Include(_) => {
            table.definition.key.contains(name) || index.definition.key.contains(name)
        }
    }
}
