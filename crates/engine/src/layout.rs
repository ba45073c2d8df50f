//! Which bytes hold what: the on-disk map.
//!
//! ```text
//! 01                              format: what wrote this store
//! 02 name                         a table's record; `~region/account/name` unless it is in the default space
//! 03 table:u32 tree:u16           counters of a tree: entries, bytes
//! 04 token                        a transaction that must not happen twice
//! 05 expires:u64 token            the same, in the order they are forgotten
//! 06                              the last table number given out
//! 07 backup                       a backup's record
//! 08 table:u32                    how far the copy that fills a table came
//! 09 table:u32                    the record of a table that was deleted, while its streams can be read
//! 0a number:u64                   where times begin again, because the clock was set back
//! 0b                              what is noted of the time line
//! 0c table:u32                    what is gone from a table's log
//! 0d table:u32 number:u64         where shards of a table's stream went over into others
//! 0e export                       an export's record
//! 0f import                       an import's record
//! 10 table:u32 tree:u16 …         data, by table:
//!    tree 0      partition:u16 key             an item
//!    tree 1…     partition:u16 key item-key    an index entry: the attributes the index projects
//!    tree FFFF   expires:u64 item-key          when an item expires
//! 20 table:u32 number:u64         a change to an item of the table
//! 30                              says that everything which is kept twice is
//! 30 key                          the second copy of what is at the key: 01, 02 name, 06, 07 backup, 0e export, 0f import
//! ```
//!
//! Integers are big-endian, so that they sort. Table 0 is none: its counters are those of the log, of all tables.
//! `partition` is a hash of the partition key: it spreads partitions over the range that parallel scans divide. Table and tree numbers are never given out twice,
//! so what a dropped table or index leaves behind can be cleared at leisure.

use larder_model::{Item, KeySchema, TableName};

use crate::key_bytes;

pub(crate) const FORMAT: &[u8] = &[0x01];
pub(crate) const LAST_TABLE: &[u8] = &[0x06];
pub(crate) const COPIES: &[u8] = &[COPY_OF];

pub(crate) const LINE: &[u8] = &[0x0b];

const RECORD: u8 = 0x02;
const COUNTERS: u8 = 0x03;
const TOKEN: u8 = 0x04;
const TOKEN_EXPIRY: u8 = 0x05;
const BACKUP: u8 = 0x07;
const COPY: u8 = 0x08;
const REMNANT: u8 = 0x09;
const TURN: u8 = 0x0a;
const FLOOR: u8 = 0x0c;
const TURNOVER: u8 = 0x0d;
const EXPORT: u8 = 0x0e;
const IMPORT: u8 = 0x0f;
const DATA: u8 = 0x10;
const CHANGE: u8 = 0x20;
const COPY_OF: u8 = 0x30;

/// The number of a table; never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TableId(pub u32);

/// One of the sorted sets of entries that make up a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TreeId(pub u16);

impl TreeId {
    pub(crate) const ITEMS: Self = Self(0);
    pub(crate) const EXPIRY: Self = Self(0xffff);
}

/// The bytes between the start of a data key and the key itself: `10 table tree`.
pub(crate) const TREE_PREFIX_BYTES: usize = 7;
pub(crate) const PARTITION_BYTES: usize = 2;
/// The bytes of an expiry entry's time, before its item's key.
pub(crate) const EXPIRY_BYTES: usize = 8;
/// Partitions are hashed into this many places.
pub(crate) const PARTITIONS: u32 = 1 << 16;

/// Where the second copy of what is at a key is kept.
pub(crate) fn second(key: &[u8]) -> Vec<u8> {
    [&[COPY_OF], key].concat()
}

/// All second copies.
pub(crate) fn all_seconds() -> [u8; 1] {
    [COPY_OF]
}

/// Where the first copy is, of which this is the second.
pub(crate) fn first(second: &[u8]) -> &[u8] {
    second.strip_prefix(&[COPY_OF]).unwrap_or_default()
}

/// Where the first copy of what is at a key is, if this is a second one; empty for [`COPIES`].
pub(crate) fn is_second(key: &[u8]) -> Option<&[u8]> {
    key.strip_prefix(&[COPY_OF])
}

pub(crate) fn record(name: &TableName) -> Vec<u8> {
    [&[RECORD], name.key().as_bytes()].concat()
}

/// What the table whose record is at a key is kept under.
pub(crate) fn recorded(key: &[u8]) -> Option<&str> {
    std::str::from_utf8(key.strip_prefix(&[RECORD])?).ok()
}

/// All table records.
pub(crate) fn records() -> [u8; 1] {
    [RECORD]
}

pub(crate) fn counters(table: TableId, tree: TreeId) -> Vec<u8> {
    [&[COUNTERS][..], &table.0.to_be_bytes(), &tree.0.to_be_bytes()].concat()
}

/// All counters.
pub(crate) fn all_counters() -> [u8; 1] {
    [COUNTERS]
}

/// The tree whose counters are kept at a key.
pub(crate) fn counters_owner(key: &[u8]) -> Option<(TableId, TreeId)> {
    let [COUNTERS, a, b, c, d, e, f] = *key else { return None };
    Some((TableId(u32::from_be_bytes([a, b, c, d])), TreeId(u16::from_be_bytes([e, f]))))
}

pub(crate) fn backup(id: &str) -> Vec<u8> {
    [&[BACKUP], id.as_bytes()].concat()
}

/// All records of backups.
pub(crate) fn backups() -> [u8; 1] {
    [BACKUP]
}

pub(crate) fn export(id: &str) -> Vec<u8> {
    [&[EXPORT], id.as_bytes()].concat()
}

/// All records of exports.
pub(crate) fn exports() -> [u8; 1] {
    [EXPORT]
}

pub(crate) fn import(id: &str) -> Vec<u8> {
    [&[IMPORT], id.as_bytes()].concat()
}

/// All records of imports.
pub(crate) fn imports() -> [u8; 1] {
    [IMPORT]
}

pub(crate) fn copy_progress(table: TableId) -> Vec<u8> {
    [&[COPY][..], &table.0.to_be_bytes()].concat()
}

pub(crate) fn remnant(table: TableId) -> Vec<u8> {
    [&[REMNANT][..], &table.0.to_be_bytes()].concat()
}

/// All records of tables that were deleted.
pub(crate) fn remnants() -> [u8; 1] {
    [REMNANT]
}

/// What the keys of turns begin with; a number completes one.
pub(crate) fn turns() -> [u8; 1] {
    [TURN]
}

pub(crate) fn turn_number(key: &[u8]) -> Option<u64> {
    key.get(1..)?.as_array().map(|number| u64::from_be_bytes(*number))
}

pub(crate) fn floor(table: TableId) -> Vec<u8> {
    [&[FLOOR][..], &table.0.to_be_bytes()].concat()
}

/// What the keys of a table's turnovers begin with; a number completes one.
pub(crate) fn turnovers(table: TableId) -> Vec<u8> {
    [&[TURNOVER][..], &table.0.to_be_bytes()].concat()
}

pub(crate) fn turnover(table: TableId, number: u64) -> Vec<u8> {
    [&turnovers(table)[..], &number.to_be_bytes()].concat()
}

/// All turnovers of all tables.
pub(crate) fn all_turnovers() -> [u8; 1] {
    [TURNOVER]
}

/// The table whose turnover a key is.
pub(crate) fn turnover_owner(key: &[u8]) -> Option<TableId> {
    let [TURNOVER, rest @ ..] = key else { return None };
    rest.first_chunk().map(|id| TableId(u32::from_be_bytes(*id)))
}

/// The counters of all changes.
pub(crate) fn history() -> Vec<u8> {
    counters(TableId(0), TreeId::ITEMS)
}

/// What the keys of a table's changes begin with; a number completes one.
pub(crate) fn changes(table: TableId) -> Vec<u8> {
    [&[CHANGE][..], &table.0.to_be_bytes()].concat()
}

pub(crate) fn change(table: TableId, number: u64) -> Vec<u8> {
    [&changes(table)[..], &number.to_be_bytes()].concat()
}

/// All changes of all tables.
pub(crate) fn all_changes() -> [u8; 1] {
    [CHANGE]
}

/// The table whose change a key is.
pub(crate) fn change_owner(key: &[u8]) -> Option<TableId> {
    let [CHANGE, rest @ ..] = key else { return None };
    rest.first_chunk().map(|id| TableId(u32::from_be_bytes(*id)))
}

/// The number at the end of a change's key, or a turnover's.
pub(crate) fn change_number(key: &[u8]) -> Option<u64> {
    key.get(5..)?.as_array().map(|number| u64::from_be_bytes(*number))
}

pub(crate) fn token(token: &str) -> Vec<u8> {
    [&[TOKEN], token.as_bytes()].concat()
}

/// The token whose record is kept at a key.
pub(crate) fn token_of(key: &[u8]) -> Option<&str> {
    let [TOKEN, token @ ..] = key else { return None };
    std::str::from_utf8(token).ok()
}

/// All tokens.
pub(crate) fn tokens() -> [u8; 1] {
    [TOKEN]
}

pub(crate) fn token_expiry(expires_seconds: i64, token: &str) -> Vec<u8> {
    [&[TOKEN_EXPIRY][..], &seconds(expires_seconds), token.as_bytes()].concat()
}

/// Tokens that are forgotten before this second.
pub(crate) fn tokens_expiring_before(seconds_now: i64) -> [Vec<u8>; 2] {
    [vec![TOKEN_EXPIRY], [&[TOKEN_EXPIRY][..], &seconds(seconds_now)].concat()]
}

/// The token in the key of a `token_expiry` entry.
pub(crate) fn expiring_token(key: &[u8]) -> Option<&str> {
    key.get(9..).and_then(|token| std::str::from_utf8(token).ok())
}

pub(crate) fn tree(table: TableId, tree: TreeId) -> Vec<u8> {
    let mut out = Vec::with_capacity(64);
    out.push(DATA);
    out.extend_from_slice(&table.0.to_be_bytes());
    out.extend_from_slice(&tree.0.to_be_bytes());
    out
}

/// All data of a table.
pub(crate) fn table_data(table: TableId) -> Vec<u8> {
    [&[DATA][..], &table.0.to_be_bytes()].concat()
}

/// All data of all tables.
pub(crate) fn data() -> [u8; 1] {
    [DATA]
}

/// The table and tree a data key belongs to.
pub(crate) fn owner(key: &[u8]) -> Option<(TableId, TreeId)> {
    let (head, _) = key.split_first_chunk::<TREE_PREFIX_BYTES>()?;
    let [DATA, a, b, c, d, e, f] = *head else { return None };
    Some((TableId(u32::from_be_bytes([a, b, c, d])), TreeId(u16::from_be_bytes([e, f]))))
}

/// Where the entries of a tree's partitions from `first` on begin.
pub(crate) fn partition_start(table: TableId, tree_id: TreeId, first: u32) -> Vec<u8> {
    let mut out = tree(table, tree_id);
    match u16::try_from(first) {
        Ok(partition) => out.extend_from_slice(&partition.to_be_bytes()),
        // One past the last partition: the end of the tree.
        Err(_) => out = key_bytes::after_prefix(&out).expect("a data key does not begin with FF"),
    }
    out
}

/// The key of an item, or of an index entry without its item's key: `None` when a key attribute is missing
/// or not a scalar.
pub(crate) fn key(table: TableId, tree_id: TreeId, schema: &KeySchema, item: &Item) -> Option<Vec<u8>> {
    let mut out = tree(table, tree_id);
    let at = out.len();
    out.extend_from_slice(&[0; PARTITION_BYTES]);
    for attribute in &schema.partition {
        key_bytes::put(&mut out, item.get(&attribute.name)?).then_some(())?;
    }
    let partition = partition_hash(&out[at + PARTITION_BYTES..]);
    out[at..at + PARTITION_BYTES].copy_from_slice(&partition.to_be_bytes());
    for attribute in &schema.sort {
        key_bytes::put(&mut out, item.get(&attribute.name)?).then_some(())?;
    }
    Some(out)
}

/// The place that an item's partition key is hashed to, of the item's key.
pub(crate) fn place(item_key: &[u8]) -> Option<u16> {
    item_key.get(TREE_PREFIX_BYTES..)?.first_chunk().map(|place| u16::from_be_bytes(*place))
}

/// What follows the tree prefix in an item's key, which index and expiry entries end with.
pub(crate) fn item_key_tail(item_key: &[u8]) -> &[u8] {
    item_key.get(TREE_PREFIX_BYTES..).unwrap_or_default()
}

pub(crate) fn expiry(table: TableId, expires_seconds: i64, item_key: &[u8]) -> Vec<u8> {
    let mut out = tree(table, TreeId::EXPIRY);
    out.extend_from_slice(&seconds(expires_seconds));
    out.extend_from_slice(item_key_tail(item_key));
    out
}

/// Expiry entries before this second.
pub(crate) fn expiring_before(table: TableId, seconds_now: i64) -> [Vec<u8>; 2] {
    let from = tree(table, TreeId::EXPIRY);
    let to = [&from[..], &seconds(seconds_now)].concat();
    [from, to]
}

/// When the item of an expiry entry expires, and its key.
pub(crate) fn read_expiry(table: TableId, entry_key: &[u8]) -> Option<(i64, Vec<u8>)> {
    let (head, tail) = entry_key.get(TREE_PREFIX_BYTES..)?.split_first_chunk::<EXPIRY_BYTES>()?;
    let expires = i64::try_from(u64::from_be_bytes(*head)).ok()?;
    let mut item_key = tree(table, TreeId::ITEMS);
    item_key.extend_from_slice(tail);
    Some((expires, item_key))
}

fn seconds(seconds: i64) -> [u8; 8] {
    u64::try_from(seconds).unwrap_or(0).to_be_bytes()
}

/// FNV-1a, folded to 16 bits. Part of the format: it must not change.
fn partition_hash(bytes: &[u8]) -> u16 {
    let hash =
        bytes.iter().fold(0x811c_9dc5u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
    (hash >> 16) as u16 ^ hash as u16
}
