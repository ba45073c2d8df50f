//! Request and response of each operation, expressions already bound.
//!
//! Plain data: how it looks as JSON is `wire`'s matter, what it does is [`Engine`](crate::Engine)'s. What a
//! request can get wrong on its own (shapes, ranges, expressions) has been refused before it gets here; what
//! it can get wrong about a table is for the engine to find.

use std::collections::BTreeMap;
use std::sync::Arc;

use larder_expr::{Condition, KeyCondition, Projection, Update};
use larder_model::{
    IndexKind, IndexName, Item, KeyType, StreamView, TableClass, TableDefinition, TableName, Tags,
    Throughput, UnixTime,
};

use crate::item_bytes::StoredItem;

/// Every operation.
#[derive(Clone, Debug)]
pub enum Request {
    CreateTable(Box<CreateTable>),
    DescribeTable(DescribeTable),
    ListTables(ListTables),
    UpdateTable(Box<UpdateTable>),
    DeleteTable(DeleteTable),
    UpdateTimeToLive(UpdateTimeToLive),
    DescribeTimeToLive(DescribeTimeToLive),
    TagResource(TagResource),
    UntagResource(UntagResource),
    ListTagsOfResource(ListTagsOfResource),
    DescribeLimits,
    DescribeEndpoints,
    GetItem(GetItem),
    PutItem(PutItem),
    UpdateItem(UpdateItem),
    DeleteItem(DeleteItem),
    Query(Query),
    Scan(Scan),
    BatchGetItem(BatchGetItem),
    BatchWriteItem(BatchWriteItem),
    TransactGetItems(TransactGetItems),
    TransactWriteItems(TransactWriteItems),
}

/// What an operation answers; the names are the operations'.
#[derive(Debug)]
pub enum Response {
    CreateTable(TableDescription),
    DescribeTable(TableDescription),
    ListTables(ListTablesOutput),
    UpdateTable(TableDescription),
    DeleteTable(TableDescription),
    /// What was asked for, repeated.
    UpdateTimeToLive(UpdateTimeToLive),
    DescribeTimeToLive(TimeToLive),
    TagResource,
    UntagResource,
    ListTagsOfResource(Tags),
    DescribeLimits,
    DescribeEndpoints,
    GetItem(GetItemOutput),
    PutItem(WriteOutput),
    UpdateItem(WriteOutput),
    DeleteItem(WriteOutput),
    Query(PageOutput),
    Scan(PageOutput),
    BatchGetItem(BatchGetItemOutput),
    BatchWriteItem(BatchWriteItemOutput),
    TransactGetItems(TransactGetItemsOutput),
    TransactWriteItems(TransactWriteItemsOutput),
}

// Tables

#[derive(Clone, Debug)]
pub struct CreateTable {
    pub table: TableName,
    pub attributes: Vec<(String, KeyType)>,
    pub key: Vec<KeyElement>,
    /// An empty list is not the same as none: it is refused.
    pub local_indexes: Option<Vec<NewIndex>>,
    pub global_indexes: Option<Vec<NewIndex>>,
    pub billing_mode: Option<BillingMode>,
    pub throughput: Option<Throughput>,
    pub on_demand_limits: Option<Throughput>,
    pub stream: Option<StreamSpecification>,
    pub encryption: Option<EncryptionSpecification>,
    pub class: Option<TableClass>,
    pub deletion_protection: Option<bool>,
    pub tags: Vec<(String, String)>,
}

/// One line of a key schema, as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyElement {
    pub name: String,
    pub role: KeyRole,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyRole {
    Partition,
    Sort,
}

#[derive(Clone, Debug)]
pub struct NewIndex {
    pub name: IndexName,
    pub key: Vec<KeyElement>,
    pub projection: Option<ProjectionSpecification>,
    pub throughput: Option<Throughput>,
    pub on_demand_limits: Option<Throughput>,
}

#[derive(Clone, Debug)]
pub struct ProjectionSpecification {
    pub kind: Option<ProjectionKind>,
    pub names: Option<Vec<String>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProjectionKind {
    All,
    KeysOnly,
    Include,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BillingMode {
    Provisioned,
    OnDemand,
}

#[derive(Clone, Copy, Debug)]
pub struct StreamSpecification {
    pub enabled: bool,
    pub view: Option<StreamView>,
}

#[derive(Clone, Debug)]
pub struct EncryptionSpecification {
    pub enabled: Option<bool>,
    pub kms: bool,
    pub kms_key: Option<String>,
}

#[derive(Clone, Debug)]
pub struct DescribeTable {
    pub table: TableName,
}

#[derive(Clone, Debug)]
pub struct DeleteTable {
    pub table: TableName,
}

#[derive(Clone, Debug)]
pub struct ListTables {
    pub start: Option<String>,
    pub limit: Option<usize>,
}

#[derive(Clone, Debug)]
pub struct ListTablesOutput {
    pub names: Vec<TableName>,
    pub last: Option<TableName>,
}

#[derive(Clone, Debug)]
pub struct UpdateTable {
    pub table: TableName,
    pub attributes: Vec<(String, KeyType)>,
    pub billing_mode: Option<BillingMode>,
    pub throughput: Option<Throughput>,
    pub on_demand_limits: Option<Throughput>,
    pub index_changes: Option<Vec<IndexChange>>,
    pub stream: Option<StreamSpecification>,
    pub encryption: Option<EncryptionSpecification>,
    pub class: Option<TableClass>,
    pub deletion_protection: Option<bool>,
}

#[derive(Clone, Debug)]
pub enum IndexChange {
    Create(NewIndex),
    Update { name: IndexName, throughput: Option<Throughput>, on_demand_limits: Option<Throughput> },
    Delete { name: IndexName },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableStatus {
    Creating,
    Updating,
    Deleting,
    Active,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexStatus {
    Creating { backfilling: bool },
    Updating,
    Deleting,
    Active,
}

/// A table as `DescribeTable` shows it.
#[derive(Clone, Debug)]
pub struct TableDescription {
    pub definition: Arc<TableDefinition>,
    pub status: TableStatus,
    /// Sixteen random bytes, shown as a UUID.
    pub id: [u8; 16],
    pub created: UnixTime,
    pub item_count: i64,
    pub bytes: i64,
    /// In the order of `definition.indexes`.
    pub indexes: Vec<IndexDescription>,
    /// When billing was last switched to on demand.
    pub on_demand_since: Option<UnixTime>,
    /// When provisioned throughput was last raised or lowered, and how often it was lowered today.
    pub throughput_increased: Option<UnixTime>,
    pub throughput_decreased: Option<UnixTime>,
    pub decreases_today: u32,
    /// When the newest stream was switched on; it names the stream, also after it was switched off.
    pub stream_label: Option<UnixTime>,
    pub class_changed: Option<UnixTime>,
}

#[derive(Clone, Copy, Debug)]
pub struct IndexDescription {
    pub status: IndexStatus,
    pub item_count: i64,
    pub bytes: i64,
}

#[derive(Clone, Debug)]
pub struct UpdateTimeToLive {
    pub table: TableName,
    pub attribute: String,
    pub enabled: bool,
}

#[derive(Clone, Debug)]
pub struct DescribeTimeToLive {
    pub table: TableName,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TimeToLive {
    Enabled(String),
    Disabled,
}

#[derive(Clone, Debug)]
pub struct TagResource {
    pub table: TableName,
    pub tags: Vec<(String, String)>,
}

#[derive(Clone, Debug)]
pub struct UntagResource {
    pub table: TableName,
    pub keys: Vec<String>,
}

#[derive(Clone, Debug)]
pub struct ListTagsOfResource {
    pub table: TableName,
}

// Items

/// An item on its way out: as it is stored, or as a projection made it.
#[derive(Debug)]
pub enum Row {
    Stored(StoredItem),
    Built(Item),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReturnCapacity {
    #[default]
    None,
    Total,
    Indexes,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReturnValues {
    #[default]
    None,
    AllOld,
    UpdatedOld,
    AllNew,
    UpdatedNew,
}

/// Units consumed on one table.
#[derive(Clone, Debug)]
pub struct Consumed {
    pub table: TableName,
    /// Units of the table itself, without its indexes.
    pub table_units: f64,
    pub indexes: Vec<(IndexName, IndexKind, f64)>,
    /// Transactions and some others also say which kind of units they are.
    pub kind: Option<UnitKind>,
    /// Show the parts (`INDEXES`), or just the sum (`TOTAL`).
    pub parts: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitKind {
    Read,
    Write,
}

/// All items that share a partition key, in a table with a local index.
#[derive(Clone, Debug)]
pub struct CollectionMetrics {
    /// The partition key, one attribute.
    pub key: Item,
    pub gigabytes: [f64; 2],
}

#[derive(Clone, Debug)]
pub struct GetItem {
    pub table: TableName,
    pub key: Item,
    pub projection: Option<Projection>,
    pub consistent: bool,
    pub capacity: ReturnCapacity,
}

#[derive(Debug)]
pub struct GetItemOutput {
    pub item: Option<Row>,
    pub consumed: Option<Consumed>,
}

#[derive(Clone, Debug)]
pub struct PutItem {
    pub table: TableName,
    pub item: Item,
    pub options: WriteOptions,
}

#[derive(Clone, Debug)]
pub struct UpdateItem {
    pub table: TableName,
    pub key: Item,
    /// Absent: the item is created if it is missing, and otherwise left as it is.
    pub update: Option<Update>,
    pub options: WriteOptions,
}

#[derive(Clone, Debug)]
pub struct DeleteItem {
    pub table: TableName,
    pub key: Item,
    pub options: WriteOptions,
}

/// When a single write may happen, and what it is to answer.
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    pub condition: Option<Condition>,
    /// PutItem and DeleteItem know `None` and `AllOld`.
    pub return_values: ReturnValues,
    pub return_old_on_failure: bool,
    pub capacity: ReturnCapacity,
    pub collection_metrics: bool,
}

/// The answer to PutItem, UpdateItem and DeleteItem.
#[derive(Debug)]
pub struct WriteOutput {
    pub attributes: Option<Row>,
    pub consumed: Option<Consumed>,
    pub collection_metrics: Option<CollectionMetrics>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Select {
    AllAttributes,
    AllProjectedAttributes,
    SpecificAttributes,
    Count,
}

#[derive(Clone, Debug)]
pub struct Query {
    pub table: TableName,
    pub index: Option<IndexName>,
    pub key_condition: KeyCondition,
    pub filter: Option<Condition>,
    /// The filter came as `QueryFilter`, and a fault in it is told so.
    pub legacy_filter: bool,
    pub projection: Option<Projection>,
    pub select: Option<Select>,
    pub limit: Option<usize>,
    pub forward: bool,
    pub start: Option<Item>,
    pub consistent: bool,
    pub capacity: ReturnCapacity,
}

#[derive(Clone, Debug)]
pub struct Scan {
    pub table: TableName,
    pub index: Option<IndexName>,
    pub filter: Option<Condition>,
    pub projection: Option<Projection>,
    pub select: Option<Select>,
    pub limit: Option<usize>,
    pub start: Option<Item>,
    pub segment: Option<Segment>,
    pub consistent: bool,
    pub capacity: ReturnCapacity,
}

/// One of `total` parts of a parallel scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    pub index: u32,
    pub total: u32,
}

#[derive(Debug)]
pub struct PageOutput {
    /// Absent when only a count was asked for.
    pub items: Option<Vec<Row>>,
    pub count: usize,
    pub scanned: usize,
    pub last_key: Option<Item>,
    pub consumed: Option<Consumed>,
}

// Batches

#[derive(Clone, Debug)]
pub struct BatchGetItem {
    pub tables: Vec<BatchGetTable>,
    pub capacity: ReturnCapacity,
}

#[derive(Clone, Debug)]
pub struct BatchGetTable {
    pub table: TableName,
    pub keys: Vec<Item>,
    pub projection: Option<Projection>,
    pub consistent: bool,
    /// What `UnprocessedKeys` repeats, as the caller wrote it.
    pub echo: BatchGetEcho,
}

#[derive(Clone, Debug, Default)]
pub struct BatchGetEcho {
    pub projection: Option<String>,
    pub names: Option<BTreeMap<String, String>>,
    pub attributes: Option<Vec<String>>,
    pub consistent: Option<bool>,
}

#[derive(Debug)]
pub struct BatchGetItemOutput {
    pub responses: Vec<(TableName, Vec<Row>)>,
    /// What did not fit in 16 MB: the request again, with the keys that are left.
    pub unprocessed: Vec<BatchGetTable>,
    pub consumed: Vec<Consumed>,
}

#[derive(Clone, Debug)]
pub struct BatchWriteItem {
    pub tables: Vec<(TableName, Vec<BatchWrite>)>,
    pub capacity: ReturnCapacity,
    pub collection_metrics: bool,
}

#[derive(Clone, Debug)]
pub enum BatchWrite {
    Put(Item),
    Delete(Item),
}

#[derive(Debug)]
pub struct BatchWriteItemOutput {
    pub unprocessed: Vec<(TableName, Vec<BatchWrite>)>,
    pub consumed: Vec<Consumed>,
    pub collection_metrics: Vec<(TableName, Vec<CollectionMetrics>)>,
}

// Transactions

#[derive(Clone, Debug)]
pub struct TransactGetItems {
    pub gets: Vec<TransactGet>,
    pub capacity: ReturnCapacity,
}

#[derive(Clone, Debug)]
pub struct TransactGet {
    pub table: TableName,
    pub key: Item,
    pub projection: Option<Projection>,
}

#[derive(Debug)]
pub struct TransactGetItemsOutput {
    pub items: Vec<Option<Row>>,
    pub consumed: Vec<Consumed>,
}

#[derive(Clone, Debug)]
pub struct TransactWriteItems {
    pub writes: Vec<TransactWrite>,
    pub token: Option<String>,
    pub capacity: ReturnCapacity,
    pub collection_metrics: bool,
}

#[derive(Clone, Debug)]
pub struct TransactWrite {
    pub table: TableName,
    pub action: TransactAction,
    pub condition: Option<Condition>,
    pub return_old_on_failure: bool,
}

#[derive(Clone, Debug)]
pub enum TransactAction {
    Put { item: Item },
    Update { key: Item, update: Update },
    Delete { key: Item },
    Check { key: Item },
}

#[derive(Debug)]
pub struct TransactWriteItemsOutput {
    pub consumed: Vec<Consumed>,
    pub collection_metrics: Vec<(TableName, Vec<CollectionMetrics>)>,
}
