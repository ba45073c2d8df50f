//! Items over DynamoDB's limit of 400 KB, and long values that are kept compressed.
//!
//! What an item is found, conditioned or ordered by always stays in it, in the *head*. The rest can be moved:
//!
//! - Packed: the moved attributes, as item bytes, in the format of `larder-model` that the engine writes too, compressed by gzip, in `larder_packed`.
//! - Split: the same bytes, not compressed, cut into chunks. A chunk is an item of its own beside the head, with
//!   `larder_chunk`, the head's TTL, and the head's key followed by `#larder#VERSION#NUMBER` (in the sort key where
//!   there is one). The head is written last. Its `larder_parts` says which version, how many and their checksum.
//!
//! Every write has a version of its own, so a reader never joins halves of two writes: what does not fit
//! together counts as absent. The chunks of what was replaced or deleted are removed after it.

use std::io::{Read as _, Write as _};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use futures_util::{StreamExt as _, TryStreamExt as _};
use larder_expr::{Comparator, Condition, Operand, Projection as Projected};
use larder_model::item_bytes;
use larder_model::limits::{ITEM_BYTES_MAX, PARTITION_KEY_BYTES_MAX, SORT_KEY_BYTES_MAX};
use larder_model::{AttributeValue, Item, Path};
use larder_ops::{BatchWrite, GetItem, PutItem, ReturnCapacity, WriteOptions};
use larder_schema::schema::{LogEvent, OversizeStep, Projection};
use larder_schema::{CHUNK, CHUNK_KEY, CHUNKS_MAX, MARK, PACKED, PARTS};

use crate::entity::Core;
use crate::{Error, batch, store};

/// Leaves room for a key, a TTL and the names.
const CHUNK_BYTES: usize = ITEM_BYTES_MAX - 8 * 1024;
/// Room for `larder_parts` in a head.
const PARTS_BYTES: usize = 256;
/// Attributes smaller than this are not worth packing.
const WORTH_PACKING_BYTES: usize = 1024;
/// A packed value that unpacks to more is taken for a mistake.
const UNPACKED_BYTES_MAX: u64 = 256 * 1024 * 1024;
const WRITES_AT_ONCE: usize = 4;

/// Whether an item has to be packed or split.
pub(crate) fn is_oversize(core: &Core, item: &Item) -> bool {
    // What was read in parts is still marked as such.
    item.size() > ITEM_BYTES_MAX || item.contains(PARTS) || !long(core, item).is_empty()
}

/// Whether the layer may have put more into the store than the head of such an item.
pub(crate) fn may_split(core: &Core) -> bool {
    core.entity().policy.may_split()
}

/// Whether some of such an item's attributes may be elsewhere than in its head.
pub(crate) fn may_pack(core: &Core) -> bool {
    core.entity().policy.may_pack()
}

/// An item as it is stored: a head that fits, and the chunks to write before it.
#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    pub(crate) head: Item,
    chunks: Vec<Item>,
}

impl Prepared {
    /// An item that is known to fit.
    pub(crate) fn of(head: Item) -> Self {
        Self { head, chunks: Vec::new() }
    }

    /// Whether a head that was found is this one. The parts of every write have a version of its own.
    pub(crate) fn is_stored_as(&self, found: &Item) -> bool {
        match self.head.contains(PARTS) {
            true => self.has_parts_of(found),
            false => self.head == *found,
        }
    }

    /// Whether a head that was found is about the very chunks of this one.
    pub(crate) fn has_parts_of(&self, found: &Item) -> bool {
        self.head.get(PARTS).is_some_and(|parts| found.get(PARTS) == Some(parts))
    }
}

/// Makes an item fit as the schema says. `None`: it is not to be stored.
pub(crate) fn prepare(core: &Core, item: Item) -> Result<Option<Prepared>, Error> {
    let item = without_marks(item);
    let bytes = item.size();
    let long = long(core, &item);
    let mut head = if long.is_empty() { item } else { packed(item, &long) };
    if head.size() <= ITEM_BYTES_MAX {
        return Ok(Some(Prepared { head, chunks: Vec::new() }));
    }
    let policy = core.entity().policy.oversize;
    for step in [Some(policy.first), policy.otherwise].into_iter().flatten() {
        match step {
            OversizeStep::Compress if head.contains(PACKED) => {}
            OversizeStep::Compress => {
                let worth = movable(core, &head);
                let worth: Vec<String> = worth
                    .into_iter()
                    .filter(|(bytes, _)| *bytes >= WORTH_PACKING_BYTES)
                    .map(|(_, name)| name)
                    .collect();
                head = packed(head, &worth);
                if head.size() <= ITEM_BYTES_MAX {
                    tell(core, &head, bytes, "compressed");
                    return Ok(Some(Prepared { head, chunks: Vec::new() }));
                }
            }
            OversizeStep::Split => {
                if let Some(prepared) = split(core, &head) {
                    tell(core, &head, bytes, "split over several items");
                    return Ok(Some(prepared));
                }
            }
            OversizeStep::Skip => {
                tracing::warn!(
                    system = %core.schema.system,
                    entity = core.name(),
                    cache_key = core.key_text(&core.key_of(&head)),
                    bytes,
                    "too large to be stored: it is not kept"
                );
                return Ok(None);
            }
            OversizeStep::Refuse => break,
        }
    }
    Err(Error::TooLarge {
        entity: core.name().to_owned(),
        key: core.key_text(&core.key_of(&head)),
        bytes,
        limit: ITEM_BYTES_MAX,
        hint: "`oversize split` or `oversize compress` in the schema would keep it",
    })
}

fn tell(core: &Core, head: &Item, bytes: usize, how: &str) {
    if core.entity().policy.log.contains(&LogEvent::Oversize) {
        tracing::warn!(
            system = %core.schema.system,
            entity = core.name(),
            cache_key = core.key_text(&core.key_of(head)),
            bytes,
            "over 400 KB: {how}"
        );
    }
}

/// The attributes that the schema wants compressed because they are long.
fn long(core: &Core, item: &Item) -> Vec<String> {
    let Some(over) = core.entity().policy.compress_over else { return Vec::new() };
    let movable = movable(core, item).into_iter();
    movable.filter(|(bytes, _)| *bytes as u64 > over).map(|(_, name)| name).collect()
}

/// Whether an attribute is in the head whatever is moved: something is found, conditioned or ordered by it.
pub(crate) fn stays(core: &Core, name: &str) -> bool {
    let (table, entity) = (core.table(), core.entity());
    let keys = std::iter::once(&table.partition).chain(table.sort.as_ref());
    let index_keys = table.indexes.iter().flat_map(|index| index.partition.iter().chain(&index.sort));
    let projected = table.indexes.iter().any(|index| match &index.projection {
        Projection::All | Projection::Keys => false,
        Projection::Include(names) => names.iter().any(|known| known == name),
    });
    let lifecycles = entity.lifecycles.iter().any(|lifecycle| {
        let leased = lifecycle.lease.iter().flat_map(larder_schema::schema::LeaseAttributes::names);
        lifecycle.attribute == name || leased.into_iter().any(|known| known == name)
    });
    keys.chain(index_keys).any(|key| key.attribute == name)
        || table.ttl.as_ref().is_some_and(|ttl| ttl.attribute == name)
        || entity.fields.iter().any(|field| field.on_create && field.attribute == name)
        || projected
        || lifecycles
        || (name.starts_with(MARK) && name != PACKED)
}

/// The attributes that nothing but a reader of the whole item needs, and their sizes, largest first.
fn movable(core: &Core, item: &Item) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = item
        .iter()
        .filter(|(name, _)| !stays(core, name))
        .map(|(name, value)| (name.len() + value.size(), name.clone()))
        .collect();
    found.sort_by(|a, b| b.cmp(a));
    found
}

fn take(item: &mut Item, names: &[String]) -> Vec<u8> {
    let taken: Item = names.iter().filter_map(|name| Some((name.clone(), item.remove(name)?))).collect();
    item_bytes::encode(&taken)
}

/// The item with some attributes compressed, if that makes it smaller.
fn packed(item: Item, names: &[String]) -> Item {
    let mut head = item.clone();
    let bytes = take(&mut head, names);
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 4), Compression::default());
    let compressed = encoder.write_all(&bytes).and_then(|()| encoder.finish());
    let Ok(compressed) = compressed else { return item };
    if compressed.len() + PARTS_BYTES >= bytes.len() {
        return item;
    }
    head.insert(PACKED, AttributeValue::B(compressed));
    let parts: Item = [("version", AttributeValue::S(new_version()))].into_iter().collect();
    head.insert(PARTS, AttributeValue::M(parts));
    head
}

fn new_version() -> String {
    format!("{:016x}", fastrand::u64(..))
}

/// `None` when it cannot be split: the key has no room, or what has to stay is too large by itself.
fn split(core: &Core, item: &Item) -> Option<Prepared> {
    let mut head = item.clone();
    let mut names = Vec::new();
    let mut left = item.size() + PARTS_BYTES;
    for (bytes, name) in movable(core, item) {
        if left <= ITEM_BYTES_MAX {
            break;
        }
        left -= bytes;
        names.push(name);
    }
    if left > ITEM_BYTES_MAX {
        return None;
    }
    let bytes = take(&mut head, &names);
    let parts = Parts {
        version: new_version(),
        count: i64::try_from(bytes.chunks(CHUNK_BYTES).len()).ok().filter(|count| *count <= CHUNKS_MAX)?,
        checksum: crc32fast::hash(&bytes),
    };
    let ttl = core
        .table()
        .ttl
        .as_ref()
        .and_then(|ttl| Some((ttl.attribute.clone(), item.get(&ttl.attribute)?.clone())));
    let keys = parts.keys(core, item)?;
    let chunks = keys.into_iter().zip(bytes.chunks(CHUNK_BYTES)).map(|(mut chunk, bytes)| {
        chunk.insert(CHUNK, AttributeValue::B(bytes.to_vec()));
        if let Some((name, value)) = ttl.clone() {
            chunk.insert(name, value);
        }
        chunk
    });
    let chunks = chunks.collect();
    head.insert(PARTS, parts.to_value());
    Some(Prepared { head, chunks })
}

impl Core {
    /// What says which parts the item of a key has, where it may have any.
    pub(crate) async fn parts_of(&self, key: &Item) -> Result<Option<Item>, Error> {
        if !may_split(self) {
            return Ok(None);
        }
        let names = key.names().chain([PARTS]);
        let projection = Projected { paths: names.map(Path::attribute).collect() };
        batch::read(self, vec![key.clone()], true, Some(&projection)).await.pop().unwrap_or(Ok(None))
    }
}

/// Writes the chunks, before the head.
pub(crate) async fn write_chunks(core: &Core, prepared: &Prepared) -> Result<(), store::Error> {
    let writes = futures_util::stream::iter(prepared.chunks.clone()).map(|item| async move {
        let options = WriteOptions::default();
        core.store.put_item(PutItem { table: core.table_name.clone(), item, options }).await
    });
    let written: Result<Vec<_>, store::Error> = writes.buffer_unordered(WRITES_AT_ONCE).try_collect().await;
    if let Err(error) = written {
        // Also after a lost answer: the head was not sent.
        remove_chunks(core, prepared).await;
        return Err(error);
    }
    Ok(())
}

/// Removes chunks whose head was not written. A head that may have been written keeps them.
pub(crate) async fn discard(core: &Core, prepared: &Prepared, error: &store::Error) {
    if !error.may_have_happened() {
        remove_chunks(core, prepared).await;
    }
}

async fn remove_chunks(core: &Core, prepared: &Prepared) {
    let chunks = prepared.chunks.iter().map(|chunk| BatchWrite::Delete(core.key_of(chunk))).collect();
    for failed in batch::write(core, chunks).await.into_iter().filter_map(Result::err) {
        tracing::warn!(entity = core.name(), error = %failed, "a chunk without a head could not be removed");
    }
}

/// The whole of an item whose head was read; `None` when it is not whole any more.
pub(crate) async fn join(core: &Core, mut item: Item) -> Result<Option<Item>, Error> {
    let key = core.key_of(&item);
    // Replaced while it was read, or gone.
    for _ in 0..3 {
        if !item.contains(PARTS) {
            return Ok(Some(item));
        }
        if let Some(whole) = assemble(core, &key, item.clone()).await? {
            return Ok(Some(whole));
        }
        let request = GetItem {
            table: core.table_name.clone(),
            key: key.clone(),
            projection: None,
            consistent: true,
            capacity: ReturnCapacity::None,
        };
        match core.store.get_item(request).await? {
            Some(newer) if newer.get(PARTS) != item.get(PARTS) => item = newer,
            Some(_) => break,
            None => return Ok(None),
        }
    }
    tracing::warn!(
        system = %core.schema.system,
        entity = core.name(),
        cache_key = core.key_text(&key),
        "its parts do not fit together: treated as absent"
    );
    Ok(None)
}

async fn assemble(core: &Core, key: &Item, mut item: Item) -> Result<Option<Item>, Error> {
    if let Some(parts) = item.get(PARTS).and_then(Parts::of) {
        let Some(keys) = parts.keys(core, key) else { return Ok(None) };
        let mut bytes = Vec::new();
        for chunk in batch::read(core, keys, true, None).await {
            match chunk?.as_ref().and_then(|chunk| chunk.get(CHUNK)) {
                Some(AttributeValue::B(chunk)) => bytes.extend_from_slice(chunk),
                _ => return Ok(None),
            }
        }
        if crc32fast::hash(&bytes) != parts.checksum || !restore(&mut item, &bytes) {
            return Ok(None);
        }
    } else if !item.contains(PACKED) {
        return Ok(None);
    }
    if let Some(AttributeValue::B(compressed)) = item.remove(PACKED) {
        let mut bytes = Vec::new();
        let read = GzDecoder::new(compressed.as_slice()).take(UNPACKED_BYTES_MAX).read_to_end(&mut bytes);
        if read.is_err() || !restore(&mut item, &bytes) {
            return Ok(None);
        }
    }
    Ok(Some(item))
}

/// Puts moved attributes back. What the head has itself is newer.
fn restore(item: &mut Item, bytes: &[u8]) -> bool {
    let Ok(moved) = item_bytes::decode(bytes) else { return false };
    for (name, value) in moved {
        if !item.contains(&name) {
            item.insert(name, value);
        }
    }
    true
}

/// Removes what an item that was replaced or deleted had besides its head.
pub(crate) async fn clean(core: &Core, old: &Item) {
    let keys = old.get(PARTS).and_then(Parts::of).and_then(|parts| parts.keys(core, old));
    let writes = keys.unwrap_or_default().into_iter().map(BatchWrite::Delete).collect();
    for error in batch::write(core, writes).await.into_iter().filter_map(Result::err) {
        tracing::warn!(entity = core.name(), %error, "part of a replaced item could not be removed");
    }
}

/// The condition that the parts of an item are still those that were read, if it has any.
pub(crate) fn guard(item: &Item) -> Option<Condition> {
    let AttributeValue::M(parts) = item.get(PARTS)? else { return None };
    let mut path = Path::attribute(PARTS);
    path.steps.push(larder_model::Step::Field("version".into()));
    Some(Condition::Compare {
        left: Operand::Path(path),
        comparator: Comparator::Equal,
        right: Operand::value(parts.get("version")?.clone()),
    })
}

/// The condition that an item which was read is still kept as it was: in these parts, or in none.
pub(crate) fn same_parts(core: &Core, item: &Item) -> Option<Condition> {
    guard(item).or_else(|| may_pack(core).then(|| Condition::NotExists(Path::attribute(PARTS))))
}

/// An item without what says how it is kept.
pub(crate) fn without_marks(mut item: Item) -> Item {
    item.remove(PARTS);
    item.remove(PACKED);
    item
}

/// What a split head says of its chunks.
struct Parts {
    version: String,
    count: i64,
    checksum: u32,
}

impl Parts {
    fn of(value: &AttributeValue) -> Option<Self> {
        let AttributeValue::M(map) = value else { return None };
        let number = |name: &str| map.get(name)?.as_number()?.to_i64();
        Some(Self {
            version: map.get("version")?.as_str()?.to_owned(),
            count: number("count").filter(|count| (1..=CHUNKS_MAX).contains(count))?,
            checksum: u32::try_from(number("checksum")?).ok()?,
        })
    }

    fn to_value(&self) -> AttributeValue {
        let map = [
            ("version", AttributeValue::S(self.version.clone())),
            ("count", AttributeValue::from(self.count)),
            ("checksum", AttributeValue::from(i64::from(self.checksum))),
        ];
        AttributeValue::M(map.into_iter().collect())
    }

    /// The keys of the chunks, in order; `None` when the head's key has no room for them, or is no text.
    fn keys(&self, core: &Core, head: &Item) -> Option<Vec<Item>> {
        let table = core.table();
        let (attribute, limit) = match &table.sort {
            Some(sort) => (&sort.attribute, SORT_KEY_BYTES_MAX),
            None => (&table.partition.attribute, PARTITION_KEY_BYTES_MAX),
        };
        let text = head.get(attribute)?.as_str()?;
        let keys = (0..self.count).map(|number| {
            let text = format!("{text}{CHUNK_KEY}{}#{number}", self.version);
            let mut key = core.key_of(head);
            key.insert(attribute.clone(), AttributeValue::S(text));
            key
        });
        let keys: Vec<Item> = keys.collect();
        let fits = |key: &Item| key.get(attribute)?.as_str().map(|text| text.len() <= limit);
        keys.last().and_then(fits)?.then_some(keys)
    }
}
