//! The database: DynamoDB's tables, items and indexes on ordered bytes.
//!
//! [`Engine`] does each operation; `ops` says what goes in and comes out. Nothing here knows JSON, sockets or
//! schemas. Reads are plain calls on a snapshot. Writes are futures that wait for nothing but the disk, and
//! need no runtime.
//!
//! Promises:
//! - An answered write is on disk, with its index entries, or not at all.
//! - Writes to one item happen one after the other; a condition sees the write before it.
//! - A transaction is seen whole or not at all.
//! - Indexes agree with items at every instant.

mod backup;
mod capacity;
mod catalog;
mod changes;
mod conflicts;
mod copy;
mod damage;
mod depot;
mod exports;
#[cfg(test)]
mod generate;
mod guard;
mod imports;
mod index;
pub mod item_bytes;
pub mod key_bytes;
mod key_rules;
mod layout;
mod lookback;
pub mod metrics;
pub mod ops;
mod pitr;
mod policies;
mod read;
mod record;
mod records;
mod restore;
mod salvage;
mod shards;
mod statement;
mod streams;
mod table_rules;
mod tables;
mod throttle;
mod timeline;
mod transact;
mod ttl;
mod twice;
mod verify;
mod work;
mod write;

use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::Deref;
use std::path::Path;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwapOption;
use larder_model::{ApiError, Clock, Space, TableName, UnixTime};
use larder_storage::version::LARDER;
use larder_storage::{Activity, Batch, Options, Store};
use parking_lot::Mutex;
use tokio::sync::Notify;

pub use changes::Entry as PastChange;
pub use depot::{Depot, DepotError, ExportWriter, ExportWritten, ExportedChange, ImportLine, ImportReader};
pub use guard::{Guard, Proposal, WriteKind};
pub use larder_ops::{Naming, Said};
pub use lookback::Lookback;
pub use salvage::{Salvaged, SalvagedTable, Watcher, salvage};
pub use statement::fingerprint;
pub use tables::KEYLESS;
pub use ttl::Reaped;
pub use verify::{Verified, verify};
pub use work::Worked;

use catalog::{Catalog, Published, Table};
use changes::History;
use conflicts::Conflicts;
use exports::Writing;
use imports::Reading;
use item_bytes::ItemBytesError;
use key_rules::KeyFault;
use layout::TableId;
use metrics::Metrics;
use ops::{Request, Response};
use record::RecordError;
use shards::Dividing;
use timeline::Timekeeper;
use twice::Copying;
use work::{Progress, Sweep};
use write::ItemLocks;

/// What wrote this store.
const FORMAT_VERSION: u8 = 1;
/// Stands for the number of the last table where that cannot be read: no more can be made.
const LAST_TABLE_UNKNOWN: u32 = u32::MAX;

/// A database. Clones are the same database.
#[derive(Clone, Debug)]
pub struct Engine(Arc<Inner>);

#[doc(hidden)]
#[derive(Debug)]
pub struct Inner {
    store: Store,
    catalog: Published,
    locks: ItemLocks,
    last_table: AtomicU32,
    /// The time of the newest change.
    last_change_millis: AtomicI64,
    copying: Mutex<Copying>,
    /// When clients last switched expiry, by table, in seconds; for as long as that keeps others out.
    expiry_switched: Mutex<HashMap<TableId, i64>>,
    time: Timekeeper,
    history: History,
    dividing: Dividing,
    conflicts: Conflicts,
    /// Before this time nothing of the log is due to be trimmed.
    trim_due_millis: AtomicI64,
    progress: Mutex<Progress>,
    /// Copies whose last step failed: nobody need wait for them.
    stuck_copies: Mutex<HashSet<TableId>>,
    /// Where something may belong to no table any more.
    garbage: Mutex<VecDeque<Sweep>>,
    wake: Notify,
    metrics: Metrics,
    /// By whose time throughput is enforced, if it is.
    throttle: OnceLock<Clock>,
    guard: ArcSwapOption<Arc<dyn Guard>>,
    depot: OnceLock<Arc<dyn Depot>>,
    writing_export: Mutex<Writing>,
    reading_import: Mutex<Reading>,
}

impl Deref for Engine {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

/// What can go wrong, in the engine or below it.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The request is at fault, or the state it met.
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error("{}", .0.message)]
    Key(KeyFault),
    #[error(transparent)]
    Expression(#[from] larder_expr::Error),
    #[error(transparent)]
    Statement(#[from] larder_partiql::Error),
    #[error(transparent)]
    Storage(#[from] larder_storage::Error),
    #[error(transparent)]
    Item(#[from] ItemBytesError),
    #[error(transparent)]
    Record(#[from] RecordError),
    /// Bytes that belong together do not agree.
    #[error("the store is damaged: {0}")]
    Damaged(&'static str),
    /// Something that is stored cannot be read; and what it is.
    #[error("{what}: {cause}{}", cause.way_out())]
    Unreadable { what: String, cause: Box<Error> },
    /// The file is of a format that is known, and what is in it is not.
    #[error(
        "the tables of the store have format {format}, and this is Larder {LARDER}, which reads {FORMAT_VERSION}: use {}",
        writer.as_ref().map_or_else(|| "a newer Larder".to_owned(), |writer| format!("Larder {writer}, which wrote it"))
    )]
    Newer { format: u8, writer: Option<String> },
}

impl Error {
    fn validation(message: impl Into<String>) -> Self {
        Self::Api(ApiError::Validation(message.into()))
    }

    /// For what can do without the value that cannot be read.
    fn unless_of_one_value<T: Default>(self) -> Result<T, Self> {
        if self.concerns_one_value() { Ok(T::default()) } else { Err(self) }
    }

    /// Something that is stored cannot be read; all else can.
    pub fn concerns_one_value(&self) -> bool {
        self.is_damage()
    }
}

impl From<KeyFault> for Error {
    fn from(fault: KeyFault) -> Self {
        Self::Key(fault)
    }
}

impl From<Error> for ApiError {
    fn from(error: Error) -> Self {
        match error {
            Error::Api(error) => error,
            Error::Key(fault) => Self::Validation(fault.message),
            Error::Expression(error) => error.into(),
            Error::Statement(error) => error.into(),
            Error::Storage(larder_storage::Error::Busy { .. }) => Self::Throttled,
            Error::Storage(_)
            | Error::Item(_)
            | Error::Record(_)
            | Error::Damaged(_)
            | Error::Unreadable { .. }
            | Error::Newer { .. } => Self::internal(&error),
        }
    }
}

impl Engine {
    /// Opens the database in a directory, which is made if it is missing. A directory has one owner at a time.
    pub fn open(dir: &Path, options: Options) -> Result<Self, Error> {
        Self::on_store(Store::open(dir, options)?)
    }

    /// A database that lives as long as its last clone.
    pub fn memory() -> Result<Self, Error> {
        Self::on_store(Store::memory(Options::default())?)
    }

    pub fn on_store(store: Store) -> Result<Self, Error> {
        let snapshot = store.snapshot();
        match twice::get(&snapshot, layout::FORMAT)?.as_deref() {
            None => {
                let mut batch = Batch::default();
                twice::put(&mut batch, layout::FORMAT.to_vec(), vec![FORMAT_VERSION]);
                batch.put(layout::COPIES.to_vec(), Vec::new());
                timeline::begin(&mut batch);
                store.write(batch)?;
            }
            Some([FORMAT_VERSION]) => {}
            Some(other) => {
                let format = other.first().copied().unwrap_or(0);
                // This Larder may have been told before, and have noted that it opens it.
                let writer = store.writer().filter(|writer| *writer != LARDER).map(str::to_owned);
                return Err(Error::Newer { format, writer });
            }
        }
        let last_table = match twice::get(&snapshot, layout::LAST_TABLE) {
            Ok(None) => 0,
            Ok(Some(bytes)) => bytes.as_ref().try_into().map_or(LAST_TABLE_UNKNOWN, u32::from_be_bytes),
            Err(error) if error.concerns_one_value() => LAST_TABLE_UNKNOWN,
            Err(error) => return Err(error),
        };
        let catalog = Catalog::load(&store)?;
        let copying = Copying::new(&store.snapshot());
        let time = Timekeeper::open(&store.snapshot())?;
        let last_change = changes::newest_time(&snapshot, &catalog, time.noted())?;
        Ok(Self(Arc::new(Inner {
            catalog: Published::new(catalog),
            last_change_millis: AtomicI64::new(last_change),
            time,
            history: History::default(),
            dividing: Dividing::default(),
            conflicts: Conflicts::default(),
            trim_due_millis: AtomicI64::new(i64::MIN),
            store,
            locks: ItemLocks::default(),
            last_table: AtomicU32::new(last_table),
            copying: Mutex::new(copying),
            expiry_switched: Mutex::default(),
            progress: Mutex::default(),
            stuck_copies: Mutex::default(),
            garbage: Mutex::new(VecDeque::from([Sweep::everything()])),
            wake: Notify::new(),
            metrics: Metrics::default(),
            throttle: OnceLock::new(),
            guard: ArcSwapOption::empty(),
            depot: OnceLock::new(),
            writing_export: Mutex::default(),
            reading_import: Mutex::default(),
        })))
    }

    /// Any operation, in the default space.
    pub async fn execute(&self, request: Request, now: UnixTime) -> Result<Response, ApiError> {
        self.execute_in(&Space::default(), request, now).await
    }

    /// Any operation. What it lists is of this space; tables it names are in the spaces that their names say.
    pub async fn execute_in(
        &self,
        space: &Space,
        request: Request,
        now: UnixTime,
    ) -> Result<Response, ApiError> {
        let operation = request.operation();
        // Those on items are counted where their tables are known.
        let watch = (!operation.is_of_items()).then(|| self.watch(operation));
        let answer = self.perform(space, request, now).await;
        if let Some(watch) = watch {
            watch.end_other(&answer);
        }
        answer
    }

    // What waits is boxed: a future is moved whole, from hand to hand, and a read would carry the room for the largest write along.
    async fn perform(&self, space: &Space, request: Request, now: UnixTime) -> Result<Response, ApiError> {
        Ok(match request {
            Request::CreateTable(request) => {
                Response::CreateTable(Box::pin(self.create_table(*request, now)).await?)
            }
            Request::DescribeTable(request) => Response::DescribeTable(self.describe_table(&request)?),
            Request::ListTables(request) => Response::ListTables(self.list_tables_in(space, &request)?),
            Request::UpdateTable(request) => {
                Response::UpdateTable(Box::pin(self.update_table(*request, now)).await?)
            }
            Request::DeleteTable(request) => {
                Response::DeleteTable(Box::pin(self.delete_table(request, now)).await?)
            }
            Request::UpdateTimeToLive(request) => {
                Response::UpdateTimeToLive(Box::pin(self.update_time_to_live_at(request, now)).await?)
            }
            Request::DescribeTimeToLive(request) => {
                Response::DescribeTimeToLive(self.describe_time_to_live(&request)?)
            }
            Request::TagResource(request) => {
                Box::pin(self.tag_resource(request)).await?;
                Response::TagResource
            }
            Request::UntagResource(request) => {
                Box::pin(self.untag_resource(request)).await?;
                Response::UntagResource
            }
            Request::ListTagsOfResource(request) => {
                Response::ListTagsOfResource(self.list_tags_of_resource(&request)?)
            }
            Request::PutResourcePolicy(request) => {
                Response::PutResourcePolicy(Box::pin(self.put_resource_policy(request, now)).await?)
            }
            Request::GetResourcePolicy(request) => {
                Response::GetResourcePolicy(self.get_resource_policy(&request, now)?)
            }
            Request::DeleteResourcePolicy(request) => {
                Response::DeleteResourcePolicy(Box::pin(self.delete_resource_policy(request, now)).await?)
            }
            Request::UpdateContinuousBackups(request) => Response::UpdateContinuousBackups(
                Box::pin(self.update_continuous_backups(request, now)).await?,
            ),
            Request::DescribeContinuousBackups(request) => {
                Response::DescribeContinuousBackups(self.describe_continuous_backups(&request, now)?)
            }
            Request::RestoreTableToPointInTime(request) => Response::RestoreTableToPointInTime(
                Box::pin(self.restore_table_to_point_in_time(*request, now)).await?,
            ),
            Request::CreateBackup(request) => {
                Response::CreateBackup(Box::pin(self.create_backup(request, now)).await?)
            }
            Request::DescribeBackup(request) => Response::DescribeBackup(self.describe_backup(&request)?),
            Request::ListBackups(request) => Response::ListBackups(self.list_backups_in(space, &request)?),
            Request::DeleteBackup(request) => {
                Response::DeleteBackup(Box::pin(self.delete_backup(request)).await?)
            }
            Request::RestoreTableFromBackup(request) => Response::RestoreTableFromBackup(
                Box::pin(self.restore_table_from_backup(*request, now)).await?,
            ),
            Request::ExportTableToPointInTime(request) => Response::ExportTableToPointInTime(Box::new(
                Box::pin(self.export_table_to_point_in_time(*request, now)).await?,
            )),
            Request::DescribeExport(request) => {
                Response::DescribeExport(Box::new(self.describe_export(&request)?))
            }
            Request::ListExports(request) => Response::ListExports(self.list_exports_in(space, &request)?),
            Request::ImportTable(request) => {
                Response::ImportTable(Box::new(Box::pin(self.import_table(*request, now)).await?))
            }
            Request::DescribeImport(request) => {
                Response::DescribeImport(Box::new(self.describe_import(&request)?))
            }
            Request::ListImports(request) => Response::ListImports(self.list_imports_in(space, &request)?),
            Request::DescribeLimits => Response::DescribeLimits,
            Request::DescribeEndpoints => Response::DescribeEndpoints,
            Request::GetItem(request) => Response::GetItem(self.get_item(&request)?),
            Request::PutItem(request) => Response::PutItem(Box::pin(self.put_item(request, now)).await?),
            Request::UpdateItem(request) => {
                Response::UpdateItem(Box::pin(self.update_item(request, now)).await?)
            }
            Request::DeleteItem(request) => {
                Response::DeleteItem(Box::pin(self.delete_item(request, now)).await?)
            }
            Request::Query(request) => Response::Query(self.query(&request)?),
            Request::Scan(request) => Response::Scan(self.scan(&request)?),
            Request::BatchGetItem(request) => Response::BatchGetItem(self.batch_get_item(request)?),
            Request::BatchWriteItem(request) => {
                Response::BatchWriteItem(Box::pin(self.batch_write_item(request, now)).await?)
            }
            Request::TransactGetItems(request) => {
                Response::TransactGetItems(self.transact_get_items(&request)?)
            }
            Request::TransactWriteItems(request) => {
                Response::TransactWriteItems(Box::pin(self.transact_write_items(request, now)).await?)
            }
            Request::ExecuteStatement(request) => {
                Response::ExecuteStatement(Box::pin(self.execute_statement(*request, now)).await?)
            }
            Request::BatchExecuteStatement(request) => {
                Response::BatchExecuteStatement(Box::pin(self.batch_execute_statement(request, now)).await?)
            }
            Request::ExecuteTransaction(request) => {
                Response::ExecuteTransaction(Box::pin(self.execute_transaction(request, now)).await?)
            }
            Request::ListStreams(request) => {
                Response::ListStreams(self.list_streams_in(space, &request, now)?)
            }
            Request::DescribeStream(request) => {
                Response::DescribeStream(self.describe_stream(&request, now)?)
            }
            Request::GetShardIterator(request) => {
                Response::GetShardIterator(self.get_shard_iterator(&request, now)?)
            }
            Request::GetRecords(request) => Response::GetRecords(self.get_records(&request, now)?),
        })
    }

    /// Whether something can be read.
    pub fn answers(&self) -> Result<(), Error> {
        self.store.snapshot().get(layout::FORMAT)?;
        Ok(())
    }

    /// Tables and backups that cannot be used because their records cannot be read, in words.
    pub fn unreadable_records(&self) -> Result<Vec<String>, Error> {
        Ok(self.catalog()?.unreadable().collect())
    }

    /// Why nothing can be written, as far as the last attempt showed.
    pub fn write_fault(&self) -> Option<Error> {
        self.store.write_fault().map(Error::from)
    }

    /// The store below, for backups of it and its archive.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// What the store below has done so far, and how large it is.
    pub fn activity(&self) -> Result<Activity, Error> {
        Ok(self.store.activity()?)
    }

    /// Finishes what was submitted and lets go of the directory. Blocks until that is done.
    pub fn close(&self) -> Result<(), Error> {
        Ok(self.store.close()?)
    }

    fn table(&self, name: &TableName) -> Result<Arc<Table>, Error> {
        self.catalog()?.table(name).cloned()
    }

    /// Those of the tables that are there.
    fn known_tables<'a>(&self, names: impl Iterator<Item = &'a TableName>) -> Vec<Option<Arc<Table>>> {
        let catalog = self.catalog.last();
        names.map(|name| catalog.find(name).ok()?.cloned()).collect()
    }

    /// A number that no table has had. Only for whoever changes the catalog.
    fn next_table_id(&self, batch: &mut Batch) -> Result<TableId, Error> {
        let last = self.last_table.load(Ordering::Relaxed);
        let Some(id) = last.checked_add(1).filter(|id| *id < LAST_TABLE_UNKNOWN) else {
            return Err(Error::Damaged(
                "the number of the last table cannot be read, so no table can be made",
            ));
        };
        self.last_table.store(id, Ordering::Relaxed);
        twice::put(batch, layout::LAST_TABLE.to_vec(), id.to_be_bytes().to_vec());
        Ok(TableId(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_a_later_format_are_refused() {
        let store = Store::memory(Options::default()).unwrap();
        drop(Engine::on_store(store.clone()).unwrap());
        let mut batch = Batch::default();
        twice::put(&mut batch, layout::FORMAT.to_vec(), vec![2]);
        store.write(batch).unwrap();
        let error = Engine::on_store(store).unwrap_err().to_string();
        let told = format!(
            "the tables of the store have format 2, and this is Larder {LARDER}, which reads 1: use a newer Larder"
        );
        assert_eq!(error, told);
    }

    #[test]
    fn a_request_sets_aside_little() {
        let (engine, space) = (Engine::memory().unwrap(), Space::default());
        let request = engine.execute_in(&space, Request::DescribeLimits, UnixTime::from_seconds(0));
        let bytes = size_of_val(&request);
        assert!(bytes <= 3_000, "{bytes} bytes");
    }
}
