//! Request and response of each operation, expressions already bound.
//!
//! Plain data, which both stores speak: what it does is `larder_engine::Engine`'s or DynamoDB's matter, how it looks
//! as JSON `wire`'s. What a request can get wrong on its own (shapes, ranges, expressions) has been refused before it
//! gets here; what it can get wrong about a table is for the store to find.
//!
//! Items come out as `R`: an [`Item`], or whatever else a store hands them out as.

mod operation;
mod policy;
mod spaces;

use std::collections::BTreeMap;
use std::sync::Arc;

use larder_expr::{Condition, KeyCondition, Projection, Update};
use larder_model::{
    ApiError, IndexKind, IndexName, Item, KeySchema, KeyType, StreamView, TableClass, TableDefinition,
    TableName, Tags, Throughput, UnixTime,
};

pub use larder_partiql::Statement;
pub use operation::Operation;
pub use policy::ResourcePolicy;
pub use spaces::{Naming, Said};

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
    PutResourcePolicy(PutResourcePolicy),
    GetResourcePolicy(GetResourcePolicy),
    DeleteResourcePolicy(DeleteResourcePolicy),
    UpdateContinuousBackups(UpdateContinuousBackups),
    DescribeContinuousBackups(DescribeContinuousBackups),
    RestoreTableToPointInTime(Box<RestoreTableToPointInTime>),
    CreateBackup(CreateBackup),
    DescribeBackup(DescribeBackup),
    ListBackups(ListBackups),
    DeleteBackup(DeleteBackup),
    RestoreTableFromBackup(Box<RestoreTableFromBackup>),
    ExportTableToPointInTime(Box<ExportTableToPointInTime>),
    DescribeExport(DescribeExport),
    ListExports(ListExports),
    ImportTable(Box<ImportTable>),
    DescribeImport(DescribeImport),
    ListImports(ListImports),
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
    ExecuteStatement(Box<ExecuteStatement>),
    BatchExecuteStatement(BatchExecuteStatement),
    ExecuteTransaction(ExecuteTransaction),
    ListStreams(ListStreams),
    DescribeStream(DescribeStream),
    GetShardIterator(GetShardIterator),
    GetRecords(GetRecords),
}

impl Request {
    /// Asks a scan or a query to leave out what cannot be read. Of others there is nothing to leave out.
    pub fn skip_damaged(&mut self) {
        match self {
            Self::Scan(scan) => scan.skip_damaged = true,
            Self::Query(query) => query.skip_damaged = true,
            _ => {}
        }
    }

    /// The table whose items it is about, where it is about one.
    pub fn table(&self) -> Option<&TableName> {
        Some(match self {
            Self::GetItem(request) => &request.table,
            Self::PutItem(request) => &request.table,
            Self::UpdateItem(request) => &request.table,
            Self::DeleteItem(request) => &request.table,
            Self::Query(request) => &request.table,
            Self::Scan(request) => &request.table,
            Self::ExecuteStatement(request) => request.statement.table(),
            _ => return None,
        })
    }

    /// The tables whose items it is about, in its order, once or more each.
    pub fn tables(&self) -> Vec<&TableName> {
        match self {
            Self::BatchGetItem(request) => request.tables.iter().map(|table| &table.table).collect(),
            Self::BatchWriteItem(request) => request.tables.iter().map(|(table, _)| table).collect(),
            Self::TransactGetItems(request) => request.gets.iter().map(|get| &get.table).collect(),
            Self::TransactWriteItems(request) => request.writes.iter().map(|write| &write.table).collect(),
            Self::BatchExecuteStatement(request) => request.readable().map(Statement::table).collect(),
            Self::ExecuteTransaction(request) => {
                request.statements.iter().map(|each| each.statement.table()).collect()
            }
            _ => self.table().into_iter().collect(),
        }
    }

    /// What its answer tells of the units it takes, where it takes any.
    pub fn capacity(&mut self) -> Option<&mut ReturnCapacity> {
        Some(match self {
            Self::GetItem(request) => &mut request.capacity,
            Self::PutItem(request) => &mut request.options.capacity,
            Self::UpdateItem(request) => &mut request.options.capacity,
            Self::DeleteItem(request) => &mut request.options.capacity,
            Self::Query(request) => &mut request.capacity,
            Self::Scan(request) => &mut request.capacity,
            Self::BatchGetItem(request) => &mut request.capacity,
            Self::BatchWriteItem(request) => &mut request.capacity,
            Self::TransactGetItems(request) => &mut request.capacity,
            Self::TransactWriteItems(request) => &mut request.capacity,
            Self::ExecuteStatement(request) => &mut request.capacity,
            Self::BatchExecuteStatement(request) => &mut request.capacity,
            Self::ExecuteTransaction(request) => &mut request.capacity,
            _ => return None,
        })
    }
}

/// What an operation answers; the names are the operations'.
#[derive(Debug)]
pub enum Response<R = Item> {
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
    /// The revision that is in force.
    PutResourcePolicy(String),
    GetResourcePolicy(Arc<ResourcePolicy>),
    /// The revision that was removed, if there was one.
    DeleteResourcePolicy(Option<String>),
    UpdateContinuousBackups(ContinuousBackups),
    DescribeContinuousBackups(ContinuousBackups),
    RestoreTableToPointInTime(TableDescription),
    CreateBackup(BackupDescription),
    DescribeBackup(BackupDescription),
    ListBackups(ListBackupsOutput),
    DeleteBackup(BackupDescription),
    RestoreTableFromBackup(TableDescription),
    ExportTableToPointInTime(Box<ExportDescription>),
    DescribeExport(Box<ExportDescription>),
    ListExports(ListExportsOutput),
    ImportTable(Box<ImportDescription>),
    DescribeImport(Box<ImportDescription>),
    ListImports(ListImportsOutput),
    DescribeLimits,
    DescribeEndpoints,
    GetItem(GetItemOutput<R>),
    PutItem(WriteOutput<R>),
    UpdateItem(WriteOutput<R>),
    DeleteItem(WriteOutput<R>),
    Query(PageOutput<R>),
    Scan(PageOutput<R>),
    BatchGetItem(BatchGetItemOutput<R>),
    BatchWriteItem(BatchWriteItemOutput),
    TransactGetItems(TransactGetItemsOutput<R>),
    TransactWriteItems(TransactWriteItemsOutput),
    ExecuteStatement(ExecuteStatementOutput<R>),
    BatchExecuteStatement(BatchExecuteStatementOutput<R>),
    ExecuteTransaction(ExecuteTransactionOutput<R>),
    ListStreams(ListStreamsOutput),
    DescribeStream(StreamDescription),
    GetShardIterator(ShardIterator),
    GetRecords(GetRecordsOutput),
}

impl<R> Response<R> {
    /// What a scan or a query left out because it cannot be read, by name.
    pub fn skipped(&self) -> &[String] {
        match self {
            Self::Scan(page) | Self::Query(page) => &page.skipped,
            _ => &[],
        }
    }

    /// The units it tells of, those of indexes included.
    pub fn units(&self) -> f64 {
        let all: &[Consumed] = match self {
            Self::GetItem(output) => output.consumed.as_slice(),
            Self::PutItem(output) | Self::UpdateItem(output) | Self::DeleteItem(output) => {
                output.consumed.as_slice()
            }
            Self::Query(output) | Self::Scan(output) => output.consumed.as_slice(),
            Self::BatchGetItem(output) => &output.consumed,
            Self::BatchWriteItem(output) => &output.consumed,
            Self::TransactGetItems(output) => &output.consumed,
            Self::TransactWriteItems(output) => &output.consumed,
            Self::ExecuteStatement(output) => output.consumed.as_slice(),
            Self::BatchExecuteStatement(output) => &output.consumed,
            Self::ExecuteTransaction(output) => &output.consumed,
            _ => &[],
        };
        all.iter().map(Consumed::units).fold(0.0, |sum, units| sum + units)
    }

    /// Leaves out the units, for a client that did not ask for them.
    pub fn without_units(&mut self) {
        match self {
            Self::GetItem(output) => output.consumed = None,
            Self::PutItem(output) | Self::UpdateItem(output) | Self::DeleteItem(output) => {
                output.consumed = None;
            }
            Self::Query(output) | Self::Scan(output) => output.consumed = None,
            Self::BatchGetItem(output) => output.consumed.clear(),
            Self::BatchWriteItem(output) => output.consumed.clear(),
            Self::TransactGetItems(output) => output.consumed.clear(),
            Self::TransactWriteItems(output) => output.consumed.clear(),
            Self::ExecuteStatement(output) => output.consumed = None,
            Self::BatchExecuteStatement(output) => output.consumed.clear(),
            Self::ExecuteTransaction(output) => output.consumed.clear(),
            _ => {}
        }
    }
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
    /// The text of a policy for it to have.
    pub policy: Option<String>,
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

#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// What the table was restored from.
    pub restored: Option<RestoreSummary>,
}

#[derive(Clone, Debug)]
pub struct RestoreSummary {
    pub table_arn: String,
    pub backup_arn: Option<String>,
    /// The moment the table shows.
    pub at: UnixTime,
    pub in_progress: bool,
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

// Policies

/// What can have a policy of its own. Indexes are in the policy of their table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Governed {
    Table(TableName),
    Stream(StreamId),
}

#[derive(Clone, Debug)]
pub struct PutResourcePolicy {
    pub resource: Governed,
    pub policy: String,
    pub expected: Option<ExpectedRevision>,
}

/// What must be there for a policy to be put.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExpectedRevision {
    NoPolicy,
    Is(String),
}

#[derive(Clone, Debug)]
pub struct GetResourcePolicy {
    pub resource: Governed,
}

#[derive(Clone, Debug)]
pub struct DeleteResourcePolicy {
    pub resource: Governed,
    /// The revision that must be there.
    pub expected: Option<String>,
}

// Recovery

#[derive(Clone, Debug)]
pub struct UpdateContinuousBackups {
    pub table: TableName,
    pub enabled: bool,
    /// How far back it shall reach, from 1 to 35; 35 if it is not said.
    pub days: Option<u8>,
}

#[derive(Clone, Debug)]
pub struct DescribeContinuousBackups {
    pub table: TableName,
}

/// What DynamoDB calls continuous backups are always on; what can be switched is recovery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContinuousBackups {
    pub recovery: Option<PointInTimeRecovery>,
}

/// The moments a table can be restored to, in whole seconds, both included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PointInTimeRecovery {
    pub days: u8,
    pub earliest: UnixTime,
    pub latest: UnixTime,
}

#[derive(Clone, Debug)]
pub struct RestoreTableToPointInTime {
    pub source: TableName,
    pub target: TableName,
    /// The latest moment there is, if it is not said.
    pub at: Option<UnixTime>,
    pub overrides: RestoreOverrides,
}

#[derive(Clone, Debug)]
pub struct RestoreTableFromBackup {
    /// The backup's ARN.
    pub backup: String,
    pub target: TableName,
    pub overrides: RestoreOverrides,
}

/// What a restored table shall have otherwise than its source.
#[derive(Clone, Debug, Default)]
pub struct RestoreOverrides {
    pub billing_mode: Option<BillingMode>,
    pub throughput: Option<Throughput>,
    pub on_demand_limits: Option<Throughput>,
    /// The indexes it shall have, of those that its source has. An empty list is none.
    pub local_indexes: Option<Vec<NewIndex>>,
    pub global_indexes: Option<Vec<NewIndex>>,
    pub encryption: Option<EncryptionSpecification>,
}

#[derive(Clone, Debug)]
pub struct CreateBackup {
    pub table: TableName,
    pub name: String,
}

#[derive(Clone, Debug)]
pub struct DescribeBackup {
    pub arn: String,
}

#[derive(Clone, Debug)]
pub struct DeleteBackup {
    pub arn: String,
}

#[derive(Clone, Debug)]
pub struct ListBackups {
    pub table: Option<TableName>,
    pub kinds: Vec<BackupKind>,
    /// Made at this time or later.
    pub from: Option<UnixTime>,
    /// Made before this time.
    pub before: Option<UnixTime>,
    pub limit: Option<usize>,
    /// The ARN of the last backup of the page before.
    pub start: Option<String>,
}

#[derive(Clone, Debug)]
pub struct ListBackupsOutput {
    /// Oldest first.
    pub backups: Vec<BackupDescription>,
    pub last: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackupKind {
    /// Somebody asked for it.
    User,
    /// A deleted table left it behind.
    System,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackupStatus {
    Creating,
    Available,
    Deleted,
}

#[derive(Clone, Debug)]
pub struct BackupDescription {
    pub arn: String,
    pub name: String,
    pub kind: BackupKind,
    pub status: BackupStatus,
    pub created: UnixTime,
    pub expires: Option<UnixTime>,
    pub item_count: i64,
    pub bytes: i64,
    /// The table when the backup was made.
    pub table: Arc<TableDefinition>,
    pub table_id: [u8; 16],
    pub table_created: UnixTime,
    pub time_to_live: TimeToLive,
}

// Exports and imports

/// A place in S3, or in what stands for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BucketPlace {
    pub bucket: String,
    pub owner: Option<String>,
    pub prefix: Option<String>,
}

#[derive(Clone, Debug)]
pub struct ExportTableToPointInTime {
    pub table: TableName,
    pub token: Option<String>,
    pub place: BucketPlace,
    /// How S3 is to encrypt it, and with which key. Told again, and nothing else.
    pub encryption: [Option<String>; 2],
    pub what: ExportAsked,
}

/// What is exported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExportAsked {
    /// The table as it was at a moment; the latest there is, if it is not said.
    Table { at: Option<UnixTime> },
    /// What became of the items that were changed from a moment on, and before another.
    Changes { from: UnixTime, to: Option<UnixTime>, view: ExportView },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportView {
    New,
    NewAndOld,
}

/// What is exported, with moments that are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exported {
    Table { at: UnixTime },
    Changes { from: UnixTime, to: UnixTime, view: ExportView },
}

/// How far an export or an import is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskStatus {
    InProgress,
    Completed,
    Failed { code: String, message: String },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportDescription {
    pub table: TableName,
    /// What its ARN ends with.
    pub id: String,
    pub status: TaskStatus,
    pub started: UnixTime,
    pub ended: Option<UnixTime>,
    /// Where its manifest is in the bucket.
    pub manifest: Option<String>,
    pub table_id: [u8; 16],
    pub token: Option<String>,
    pub place: BucketPlace,
    pub encryption: [Option<String>; 2],
    pub bytes: u64,
    pub items: u64,
    pub what: Exported,
}

#[derive(Clone, Debug)]
pub struct DescribeExport {
    pub arn: String,
}

#[derive(Clone, Debug)]
pub struct ListExports {
    pub table: Option<TableName>,
    pub limit: Option<usize>,
    /// The id of the last export of the page before.
    pub start: Option<String>,
}

#[derive(Clone, Debug)]
pub struct ListExportsOutput {
    /// Oldest first.
    pub exports: Vec<ExportDescription>,
    pub last: Option<String>,
}

#[derive(Clone, Debug)]
pub struct ImportTable {
    pub token: Option<String>,
    pub source: ImportSource,
    pub table: CreateTable,
}

/// Where items come from, and in which form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportSource {
    pub place: BucketPlace,
    pub format: ImportFormat,
    pub compression: ImportCompression,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImportFormat {
    DynamoDbJson,
    Csv {
        delimiter: Option<char>,
        /// Without it the first line of each file has it.
        header: Option<Vec<String>>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportCompression {
    None,
    Gzip,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportDescription {
    /// What its ARN ends with.
    pub id: String,
    pub status: TaskStatus,
    /// The table as it was asked for.
    pub table: Arc<TableDefinition>,
    pub table_id: [u8; 16],
    pub token: Option<String>,
    pub source: ImportSource,
    pub started: UnixTime,
    pub ended: Option<UnixTime>,
    pub counts: ImportCounts,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImportCounts {
    pub errors: u64,
    /// Of what was read, before it was packed.
    pub bytes: u64,
    pub processed: u64,
    pub imported: u64,
}

#[derive(Clone, Debug)]
pub struct DescribeImport {
    pub arn: String,
}

#[derive(Clone, Debug)]
pub struct ListImports {
    pub table: Option<TableName>,
    pub limit: Option<usize>,
    /// The id of the last import of the page before.
    pub start: Option<String>,
}

#[derive(Clone, Debug)]
pub struct ListImportsOutput {
    /// Oldest first.
    pub imports: Vec<ImportDescription>,
    pub last: Option<String>,
}

// Items

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

impl Consumed {
    /// All units together, those of indexes included.
    pub fn units(&self) -> f64 {
        self.table_units + self.indexes.iter().map(|(_, _, units)| units).sum::<f64>()
    }
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
pub struct GetItemOutput<R = Item> {
    pub item: Option<R>,
    pub consumed: Option<Consumed>,
}

impl<R> GetItemOutput<R> {
    /// The same, with its items as something else.
    pub fn try_map<S, E>(self, to: impl FnMut(R) -> Result<S, E>) -> Result<GetItemOutput<S>, E> {
        Ok(GetItemOutput { item: self.item.map(to).transpose()?, consumed: self.consumed })
    }
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
pub struct WriteOutput<R = Item> {
    pub attributes: Option<R>,
    pub consumed: Option<Consumed>,
    pub collection_metrics: Option<CollectionMetrics>,
}

impl<R> WriteOutput<R> {
    /// The same, with its items as something else.
    pub fn try_map<S, E>(self, to: impl FnMut(R) -> Result<S, E>) -> Result<WriteOutput<S>, E> {
        Ok(WriteOutput {
            attributes: self.attributes.map(to).transpose()?,
            consumed: self.consumed,
            collection_metrics: self.collection_metrics,
        })
    }
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
    /// Leave out what cannot be read, and tell.
    pub skip_damaged: bool,
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
    /// Leave out what cannot be read, and tell.
    pub skip_damaged: bool,
    pub capacity: ReturnCapacity,
}

impl Scan {
    /// A scan of a whole table from its beginning, of which a caller changes what it wants otherwise.
    pub fn of(table: TableName) -> Self {
        Self {
            table,
            index: None,
            filter: None,
            projection: None,
            select: None,
            limit: None,
            start: None,
            segment: None,
            consistent: false,
            skip_damaged: false,
            capacity: ReturnCapacity::None,
        }
    }
}

/// One of `total` parts of a parallel scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    pub index: u32,
    pub total: u32,
}

#[derive(Debug)]
pub struct PageOutput<R = Item> {
    /// Absent when only a count was asked for.
    pub items: Option<Vec<R>>,
    pub count: usize,
    pub scanned: usize,
    pub last_key: Option<Item>,
    /// What was left out because it cannot be read, by name.
    pub skipped: Vec<String>,
    pub consumed: Option<Consumed>,
}

impl<R> PageOutput<R> {
    /// The same, with its items as something else.
    pub fn try_map<S, E>(self, to: impl FnMut(R) -> Result<S, E>) -> Result<PageOutput<S>, E> {
        Ok(PageOutput {
            items: self.items.map(|items| items.into_iter().map(to).collect()).transpose()?,
            count: self.count,
            scanned: self.scanned,
            last_key: self.last_key,
            skipped: self.skipped,
            consumed: self.consumed,
        })
    }
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
    /// The table, if it was named by its ARN.
    pub table: Option<TableName>,
    pub projection: Option<String>,
    pub names: Option<BTreeMap<String, String>>,
    pub attributes: Option<Vec<String>>,
    pub consistent: Option<bool>,
}

#[derive(Debug)]
pub struct BatchGetItemOutput<R = Item> {
    pub responses: Vec<(TableName, Vec<R>)>,
    /// What did not fit in 16 MB: the request again, with the keys that are left.
    pub unprocessed: Vec<BatchGetTable>,
    pub consumed: Vec<Consumed>,
}

impl<R> BatchGetItemOutput<R> {
    /// The same, with its items as something else.
    pub fn try_map<S, E>(self, mut to: impl FnMut(R) -> Result<S, E>) -> Result<BatchGetItemOutput<S>, E> {
        let responses = self.responses.into_iter().map(|(table, items)| {
            let items: Result<_, E> = items.into_iter().map(&mut to).collect();
            Ok((table, items?))
        });
        Ok(BatchGetItemOutput {
            responses: responses.collect::<Result<_, E>>()?,
            unprocessed: self.unprocessed,
            consumed: self.consumed,
        })
    }
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
pub struct TransactGetItemsOutput<R = Item> {
    pub items: Vec<Option<R>>,
    pub consumed: Vec<Consumed>,
}

impl<R> TransactGetItemsOutput<R> {
    /// The same, with its items as something else.
    pub fn try_map<S, E>(
        self,
        mut to: impl FnMut(R) -> Result<S, E>,
    ) -> Result<TransactGetItemsOutput<S>, E> {
        let items = self.items.into_iter().map(|item| item.map(&mut to).transpose());
        Ok(TransactGetItemsOutput { items: items.collect::<Result<_, E>>()?, consumed: self.consumed })
    }
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

// Statements

#[derive(Clone, Debug)]
pub struct ExecuteStatement {
    pub statement: Statement,
    pub consistent: bool,
    pub limit: Option<usize>,
    /// Where the page before ended.
    pub start: Option<StatementPosition>,
    /// Tells this statement from others, in the positions of its pages.
    pub fingerprint: [u8; 16],
    pub return_old_on_failure: bool,
    pub capacity: ReturnCapacity,
}

/// Where a page of a SELECT ended.
#[derive(Clone, Debug, PartialEq)]
pub struct StatementPosition {
    pub fingerprint: [u8; 16],
    /// Which of the partitions that it names.
    pub part: usize,
    /// Absent where a partition begins.
    pub key: Option<Item>,
}

#[derive(Debug)]
pub struct ExecuteStatementOutput<R = Item> {
    pub items: Vec<R>,
    pub next: Option<StatementPosition>,
    pub consumed: Option<Consumed>,
}

#[derive(Clone, Debug)]
pub struct BatchExecuteStatement {
    pub statements: Vec<BatchStatement>,
    pub capacity: ReturnCapacity,
}

impl BatchExecuteStatement {
    /// Those of its statements that could be read.
    pub fn readable(&self) -> impl Iterator<Item = &Statement> {
        self.statements.iter().filter_map(|each| each.statement.as_ref().ok())
    }
}

#[derive(Clone, Debug)]
pub struct BatchStatement {
    /// One that cannot be read fails by itself.
    pub statement: Result<Statement, ApiError>,
    pub consistent: bool,
    pub return_old_on_failure: bool,
}

#[derive(Debug)]
pub struct BatchExecuteStatementOutput<R = Item> {
    /// In the order of the statements.
    pub responses: Vec<StatementResponse<R>>,
    pub consumed: Vec<Consumed>,
}

#[derive(Debug)]
pub struct StatementResponse<R = Item> {
    /// Absent where a statement was refused before its table was looked at.
    pub table: Option<TableName>,
    pub outcome: Result<Option<R>, ApiError>,
}

#[derive(Clone, Debug)]
pub struct ExecuteTransaction {
    pub statements: Vec<TransactStatement>,
    pub token: Option<String>,
    pub capacity: ReturnCapacity,
}

#[derive(Clone, Debug)]
pub struct TransactStatement {
    pub statement: Statement,
    pub return_old_on_failure: bool,
}

#[derive(Debug)]
pub struct ExecuteTransactionOutput<R = Item> {
    /// One for each statement that reads; none of those that write.
    pub items: Vec<Option<R>>,
    pub consumed: Vec<Consumed>,
}

// Streams

/// A stream: the table whose changes it tells, and when it was switched on, which is its label.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StreamId {
    pub table: TableName,
    pub label: UnixTime,
}

#[derive(Clone, Debug)]
pub struct ListStreams {
    pub table: Option<TableName>,
    pub start: Option<StreamId>,
    pub limit: Option<usize>,
}

#[derive(Clone, Debug)]
pub struct ListStreamsOutput {
    pub streams: Vec<StreamId>,
    pub last: Option<StreamId>,
}

#[derive(Clone, Debug)]
pub struct DescribeStream {
    pub stream: StreamId,
    /// Shards after this one.
    pub start: Option<String>,
    /// Shards that continue this one.
    pub children_of: Option<String>,
    /// A hundred, if it is not said.
    pub limit: Option<usize>,
}

#[derive(Clone, Debug)]
pub struct StreamDescription {
    pub stream: StreamId,
    pub view: StreamView,
    /// It is still written to.
    pub enabled: bool,
    pub key: KeySchema,
    pub shards: Vec<Shard>,
    /// The last of these shards, if there are more.
    pub last: Option<String>,
}

#[derive(Clone, Debug)]
pub struct Shard {
    pub id: String,
    /// The shard that it continues.
    pub parent: Option<String>,
    pub first: u64,
    /// Known once the shard is closed.
    pub last: Option<u64>,
}

#[derive(Clone, Debug)]
pub struct GetShardIterator {
    pub stream: StreamId,
    pub shard: String,
    pub start: ShardStart,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShardStart {
    TrimHorizon,
    Latest,
    At(u64),
    After(u64),
    /// The first record of this moment or a later one.
    AtTime(UnixTime),
}

/// Where a reader of a shard is. It holds all that is needed to go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardIterator {
    pub stream: StreamId,
    /// Tables that had the same name one after the other differ by it.
    pub table_id: u32,
    pub shard: ShardKey,
    pub position: ShardPosition,
    pub issued: UnixTime,
}

/// Which shard of its stream: the number at which it began, zero for the one that the stream began with, and the first of the
/// 65,536 places that its keys are hashed to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShardKey {
    pub opened: u64,
    pub place: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShardPosition {
    /// The oldest record there is.
    Oldest,
    /// This record. Should it be gone, the reader is told.
    At(u64),
    /// The first record, now or later, with this number or a higher one.
    From(u64),
}

#[derive(Clone, Debug)]
pub struct GetRecords {
    pub iterator: ShardIterator,
    pub limit: Option<usize>,
}

#[derive(Clone, Debug)]
pub struct GetRecordsOutput {
    /// Whose changes they are.
    pub table: TableName,
    pub records: Vec<StreamRecord>,
    /// Absent once a closed shard has been read to its end.
    pub next: Option<ShardIterator>,
}

/// What became of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    Insert,
    Modify,
    Remove,
}

/// A change to an item.
#[derive(Clone, Debug)]
pub struct StreamRecord {
    /// Different for every record of every stream.
    pub id: [u8; 16],
    pub number: u64,
    pub time: UnixTime,
    pub event: Event,
    /// The item had expired; nobody asked.
    pub expired: bool,
    pub view: StreamView,
    pub key: Item,
    /// The item afterwards and before, as the view has it.
    pub new: Option<Item>,
    pub old: Option<Item>,
    /// Of key and images.
    pub bytes: usize,
}
