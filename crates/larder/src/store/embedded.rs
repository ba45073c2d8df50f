//! A store on the engine, in process.
//!
//! Its one thread removes items soon after they have expired. Whoever asks the store to pause works off what
//! else the engine has to do, such as filling an index. Settings that the engine keeps but does not act on yet count as lacking.

#[cfg(feature = "dynamodb")]
mod endpoint;

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use async_trait::async_trait;
use larder_engine::ops::Row;
use larder_engine::{Engine, Error as EngineError, KEYLESS, Worked};
use larder_model::{
    ApiError, Billing, Clock, Encryption, IndexDefinition, IndexKind, KeySchema, KeyType, Projection,
    StreamView, TableDefinition, TableName, Throughput,
};
use larder_ops::{
    BillingMode, CreateTable, DeleteTable, DescribeContinuousBackups, DescribeTable, DescribeTimeToLive,
    EncryptionSpecification, IndexChange, IndexStatus, KeyElement, KeyRole, ListTables, NewIndex,
    ProjectionKind, ProjectionSpecification, Request, Response, StreamSpecification, TableStatus,
    TagResource, TimeToLive, UpdateContinuousBackups, UpdateTable, UpdateTimeToLive,
};
use larder_schema::{Environment, Schema};
use larder_storage::{Key, Options};
use parking_lot::{Condvar, Mutex, MutexGuard};

#[cfg(feature = "dynamodb")]
use super::client::{self, Inside};
use super::items::{NOT_OF_ITEMS, tables};
use super::{Backend, Busy, Cancellation, Deployed, Error, Feature, Lacks, TableChange};
use crate::guard::{Guard, Mode, Rules, Tally};

/// How soon what has expired leaves the disk.
const TICK: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Embedded {
    local: LocalEngine,
    place: String,
    lacks: Lacks,
    /// The rules that every write is held against, where that was asked for.
    enforced: Mutex<Option<(Rules, Arc<Tally>)>>,
    /// This store has opened the engine, and does not share another's.
    is_own: bool,
}

impl Embedded {
    pub(super) async fn open(path: &Path, clock: Clock) -> Result<Self, Error> {
        let place = path.display().to_string();
        let path = path.to_owned();
        let key = Key::from_env().map_err(|cause| error(cause.into()))?;
        let options = Options { key, ..Options::default() };
        let time = clock.clone();
        let open = move || {
            let engine = Engine::open(&path, options)?;
            engine.resume_time(&time)?;
            Ok(engine)
        };
        let engine = blocking(open).await.map_err(error)?;
        Ok(Self::new(engine, clock, place, key.is_some()).at_work())
    }

    pub(super) async fn memory(place: String, clock: Clock) -> Result<Self, Error> {
        Ok(Self::new(blocking(Engine::memory).await.map_err(error)?, clock, place, false).at_work())
    }

    /// What a directory would be that is not there yet.
    pub(super) async fn empty(place: String, clock: Clock) -> Result<Self, Error> {
        let key = Key::from_env().map_err(|cause| error(cause.into()))?;
        Ok(Self::new(blocking(Engine::memory).await.map_err(error)?, clock, place, key.is_some()).at_work())
    }

    /// On an engine that somebody else works for.
    pub(super) fn sharing(engine: Engine, clock: Clock, place: String) -> Self {
        let has_key = engine.store().is_sealed();
        Self::new(engine, clock, place, has_key)
    }

    fn new(engine: Engine, clock: Clock, place: String, has_key: bool) -> Self {
        let lacks = (!has_key).then(|| (Feature::Encryption, KEYLESS.to_owned())).into_iter().collect();
        Self {
            local: LocalEngine::new(engine, clock),
            place,
            lacks,
            enforced: Mutex::new(None),
            is_own: false,
        }
    }

    fn at_work(mut self) -> Self {
        self.local.worker.start(self.local.clock.clone());
        self.is_own = true;
        self
    }

    async fn item_operation(&self, request: Request) -> Result<Response, EngineError> {
        let (engine, now) = (&self.local.engine, self.local.clock.trusted());
        Ok(match request {
            Request::GetItem(request) => {
                Response::GetItem(engine.get_item(&request)?.try_map(Row::into_item)?)
            }
            Request::PutItem(request) => {
                Response::PutItem(engine.put_item(request, now).await?.try_map(Row::into_item)?)
            }
            Request::UpdateItem(request) => {
                Response::UpdateItem(engine.update_item(request, now).await?.try_map(Row::into_item)?)
            }
            Request::DeleteItem(request) => {
                Response::DeleteItem(engine.delete_item(request, now).await?.try_map(Row::into_item)?)
            }
            Request::Query(request) => Response::Query(engine.query(&request)?.try_map(Row::into_item)?),
            Request::Scan(request) => Response::Scan(engine.scan(&request)?.try_map(Row::into_item)?),
            Request::BatchGetItem(request) => {
                Response::BatchGetItem(engine.batch_get_item(request)?.try_map(Row::into_item)?)
            }
            Request::BatchWriteItem(request) => {
                Response::BatchWriteItem(engine.batch_write_item(request, now).await?)
            }
            Request::TransactGetItems(request) => {
                Response::TransactGetItems(engine.transact_get_items(&request)?.try_map(Row::into_item)?)
            }
            Request::TransactWriteItems(request) => {
                Response::TransactWriteItems(engine.transact_write_items(request, now).await?)
            }
            _ => return Err(EngineError::Api(ApiError::UnknownOperation(NOT_OF_ITEMS.to_owned()))),
        })
    }

    fn item_error(&self, error: EngineError, tables: Vec<TableName>) -> Error {
        match error {
            EngineError::Api(ApiError::ResourceNotFound(message)) => {
                let missing = |table: &TableName| {
                    self.local.engine.describe_table(&DescribeTable { table: table.clone() }).is_err()
                };
                match tables.into_iter().find(missing) {
                    Some(table) => Error::NoTable { table },
                    None => Error::Busy(message),
                }
            }
            EngineError::Api(ApiError::ConditionalCheckFailed { item }) => Error::Condition { item },
            EngineError::Api(ApiError::TransactionCanceled { reasons }) => {
                let reasons = reasons.into_iter().map(|reason| Cancellation {
                    code: reason.code.to_owned(),
                    message: reason.message,
                    item: reason.item,
                });
                Error::Cancelled { reasons: reasons.collect() }
            }
            EngineError::Api(ApiError::UnknownOperation(message)) => Error::Unsupported(message),
            EngineError::Key(_)
            | EngineError::Expression(_)
            | EngineError::Storage(larder_storage::Error::Busy { .. }) => {
                self.item_error(EngineError::Api(error.into()), tables)
            }
            EngineError::Api(throttled @ (ApiError::LimitExceeded(_) | ApiError::TransactionConflict)) => {
                Error::Throttled(throttled.to_string())
            }
            other => self::error(other),
        }
    }

    async fn update(&self, request: UpdateTable) -> Result<(), Error> {
        self.local.engine.update_table(request, self.local.clock.trusted()).await.map_err(error)?;
        self.local.work().await.map_err(error)
    }
}

#[async_trait]
impl Backend for Embedded {
    fn place(&self) -> String {
        self.place.clone()
    }

    fn identity(&self) -> String {
        format!("engine {:p}", &raw const *self.local.engine.store())
    }

    async fn lacks(&self) -> Result<&Lacks, Error> {
        Ok(&self.lacks)
    }

    async fn list_tables(&self) -> Result<Vec<TableName>, Error> {
        let mut names: Vec<TableName> = Vec::new();
        loop {
            let start = names.last().map(ToString::to_string);
            let page = self.local.engine.list_tables(&ListTables { start, limit: None }).map_err(error)?;
            names.extend(page.names);
            if page.last.is_none() {
                return Ok(names);
            }
        }
    }

    async fn describe(&self, table: &TableName) -> Result<Option<Deployed>, Error> {
        let description = match self.local.engine.describe_table(&DescribeTable { table: table.clone() }) {
            Ok(description) => description,
            Err(EngineError::Api(ApiError::ResourceNotFound(_))) => return Ok(None),
            Err(other) => return Err(error(other)),
        };
        let ttl = self.local.engine.describe_time_to_live(&DescribeTimeToLive { table: table.clone() });
        let ttl_attribute = match ttl.map_err(error)? {
            TimeToLive::Enabled(attribute) => Some(attribute),
            TimeToLive::Disabled => None,
        };
        let request = DescribeContinuousBackups { table: table.clone() };
        let backups = self.local.engine.describe_continuous_backups(&request, self.local.clock.trusted());
        let pitr_days = backups.map_err(error)?.recovery.map(|recovery| u32::from(recovery.days));
        let definition = (*description.definition).clone();
        let building = definition.indexes.iter().zip(&description.indexes).find_map(|(index, described)| {
            let removing = match described.status {
                IndexStatus::Active => return None,
                IndexStatus::Creating { .. } | IndexStatus::Updating => false,
                IndexStatus::Deleting => true,
            };
            Some(Busy::Index { name: index.name.clone(), removing })
        });
        let busy = building.or(match description.status {
            TableStatus::Active => None,
            TableStatus::Creating => Some(Busy::Creating),
            TableStatus::Updating => Some(Busy::Updating),
            TableStatus::Deleting => Some(Busy::Deleting),
        });
        Ok(Some(Deployed { definition, busy, ttl_attribute, pitr_days }))
    }

    async fn create_table(&self, definition: &TableDefinition) -> Result<(), Error> {
        let (billing_mode, throughput) = billing(definition.billing);
        let (local, global): (Vec<_>, Vec<_>) =
            definition.indexes.iter().partition(|index| index.kind == IndexKind::Local);
        let list = |indexes: Vec<&IndexDefinition>| {
            let list: Vec<NewIndex> = indexes.into_iter().map(new_index).collect();
            (!list.is_empty()).then_some(list)
        };
        let request = CreateTable {
            table: definition.name.clone(),
            attributes: definition.attributes.clone(),
            key: key_elements(&definition.key),
            local_indexes: list(local),
            global_indexes: list(global),
            billing_mode: Some(billing_mode),
            throughput,
            on_demand_limits: definition.on_demand_limits,
            stream: definition.stream.map(|view| stream(Some(view))),
            encryption: match &definition.encryption {
                Some(wanted) if !self.lacks.contains_key(&Feature::Encryption) => {
                    Some(encryption(Some(wanted)))
                }
                _ => None,
            },
            class: definition.class,
            deletion_protection: Some(definition.deletion_protection),
            tags: definition.tags.clone().into_iter().collect(),
            policy: None,
        };
        self.local.engine.create_table(request, self.local.clock.trusted()).await.map_err(error)?;
        self.local.work().await.map_err(error)
    }

    async fn change_table(&self, table: &TableName, change: &TableChange) -> Result<(), Error> {
        let table = table.clone();
        let mut request = no_change(table.clone());
        match change {
            TableChange::Billing { billing: to, table: of_table, indexes } => {
                if *of_table {
                    let (mode, throughput) = billing(*to);
                    (request.billing_mode, request.throughput) = (Some(mode), throughput);
                }
                let updates = indexes.iter().map(|(name, throughput)| IndexChange::Update {
                    name: name.clone(),
                    throughput: Some(*throughput),
                    on_demand_limits: None,
                });
                request.index_changes = (!indexes.is_empty()).then(|| updates.collect());
            }
            TableChange::Class(class) => request.class = Some(*class),
            TableChange::Stream(view) => request.stream = Some(stream(*view)),
            TableChange::CreateIndex(index) => {
                request.attributes = attributes(&index.key);
                request.index_changes = Some(vec![IndexChange::Create(new_index(index))]);
            }
            TableChange::DeleteIndex(name) => {
                request.index_changes = Some(vec![IndexChange::Delete { name: name.clone() }]);
            }
            TableChange::Encryption(wanted) => request.encryption = Some(encryption(wanted.as_ref())),
            TableChange::DeletionProtection(on) => request.deletion_protection = Some(*on),
            TableChange::TimeToLive { attribute, enabled } => {
                let request = UpdateTimeToLive { table, attribute: attribute.clone(), enabled: *enabled };
                self.local.engine.update_time_to_live(request).await.map_err(error)?;
                return self.local.work().await.map_err(error);
            }
            TableChange::PointInTimeRecovery { days } => {
                let enabled = days.is_some();
                let days = days.and_then(|days| u8::try_from(days).ok());
                let request = UpdateContinuousBackups { table, enabled, days };
                let now = self.local.clock.trusted();
                return self
                    .local
                    .engine
                    .update_continuous_backups(request, now)
                    .await
                    .map(drop)
                    .map_err(error);
            }
            TableChange::Tag(tags) => {
                let tags = tags.clone().into_iter().collect();
                return self.local.engine.tag_resource(TagResource { table, tags }).await.map_err(error);
            }
        }
        self.update(request).await
    }

    async fn delete_table(&self, table: &TableName) -> Result<(), Error> {
        let (request, now) = (DeleteTable { table: table.clone() }, self.local.clock.trusted());
        self.local.engine.delete_table(request, now).await.map_err(error)?;
        self.local.work().await.map_err(error)
    }

    async fn execute(&self, request: Request) -> Result<Response, Error> {
        // Read most often, so without a copy of the table's name.
        if let Request::GetItem(get) = &request {
            let found = self.local.engine.get_item(get);
            let answer = found.and_then(|found| Ok(found.try_map(Row::into_item)?)).map(Response::GetItem);
            return answer.map_err(|error| self.item_error(error, tables(&request)));
        }
        let tables = tables(&request);
        self.item_operation(request).await.map_err(|error| self.item_error(error, tables))
    }

    fn clock(&self) -> &Clock {
        &self.local.clock
    }

    fn is_embedded(&self) -> bool {
        true
    }

    fn has_one_clock(&self) -> bool {
        self.is_own
    }

    fn enforce(&self) -> Result<(), Error> {
        self.enforced.lock().get_or_insert_default();
        Ok(())
    }

    fn opened(&self, schema: &Arc<Schema>, environment: &Environment) {
        let mut enforced = self.enforced.lock();
        let Some((rules, tally)) = &mut *enforced else { return };
        // A system that has a table of another's is held to that one's rules.
        if let Err(error) = rules.add(schema, environment, &[]) {
            tracing::warn!(system = %schema.system, %error, "its schema is not enforced");
        }
        let guard = Guard::new(Arc::new(rules.clone()), Mode::Enforce, Arc::clone(tally));
        self.local.engine.set_guard(Some(Arc::new(guard)));
    }

    fn engine(&self) -> Option<&Engine> {
        Some(&self.local.engine)
    }

    #[cfg(feature = "dynamodb")]
    fn inside(&self) -> Option<Arc<dyn Inside>> {
        Some(Arc::new(self.local.clone()))
    }

    #[cfg(feature = "dynamodb")]
    async fn sdk_client(&self) -> Result<aws_sdk_dynamodb::Client, Error> {
        Ok(client::client(Arc::new(self.local.clone())))
    }

    #[cfg(feature = "dynamodb")]
    async fn streams_client(&self) -> Result<aws_sdk_dynamodbstreams::Client, Error> {
        Ok(client::streams_client(Arc::new(self.local.clone())))
    }

    async fn pause(&self, _asked: u32) -> Result<(), Error> {
        self.local.work().await.map_err(error)
    }
}

/// The engine, its clock, and the thread that works for it. Clones are the same; the thread goes with the last.
#[derive(Clone, Debug)]
pub(super) struct LocalEngine {
    pub(super) engine: Engine,
    pub(super) clock: Clock,
    worker: Arc<Worker>,
}

impl LocalEngine {
    fn new(engine: Engine, clock: Clock) -> Self {
        let shared = Shared { engine: Mutex::new(Some(engine.clone())), stopped: Condvar::new() };
        Self { engine, clock, worker: Arc::new(Worker(Arc::new(shared))) }
    }

    /// Does all there is to do in the background, but expires nothing.
    pub(super) async fn work(&self) -> Result<(), EngineError> {
        let (shared, now) = (Arc::clone(&self.worker.0), self.clock.trusted());
        blocking(move || {
            while let Some(engine) = &*shared.engine.lock() {
                if !engine.work(now, Duration::MAX)?.more {
                    break;
                }
            }
            Ok(())
        })
        .await
    }
}

/// Removes what has expired, now and then.
///
/// A thread rather than a task: it serves programs whose runtimes come and go, and tests that stop `tokio`'s
/// time.
#[derive(Debug)]
struct Worker(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// Taken out to stop. Held during a step, so that nobody has the directory open once the store is gone.
    engine: Mutex<Option<Engine>>,
    stopped: Condvar,
}

impl Worker {
    fn start(&self, clock: Clock) {
        let shared = Arc::clone(&self.0);
        let thread = thread::Builder::new().name("larder-store".to_owned());
        if let Err(error) = thread.spawn(move || shared.run(&clock)) {
            tracing::warn!(%error, "expired items stay on disk: there is no thread to remove them");
        }
    }
}

impl Drop for Worker {
    /// Waits for the step that is being made, which is bounded.
    fn drop(&mut self) {
        *self.0.engine.lock() = None;
        self.0.stopped.notify_one();
    }
}

impl Shared {
    fn run(&self, clock: &Clock) {
        let mut engine = self.engine.lock();
        loop {
            match engine.as_ref().map(|engine| step(engine, clock)) {
                None => return,
                // Let those in who wait for the lock.
                Some(Ok(worked)) if worked.more => MutexGuard::bump(&mut engine),
                Some(Ok(_)) => drop(self.stopped.wait_for(&mut engine, TICK)),
                Some(Err(error)) => {
                    tracing::error!(%error, "background work failed");
                    self.stopped.wait_for(&mut engine, TICK);
                }
            }
        }
    }
}

fn step(engine: &Engine, clock: &Clock) -> Result<Worked, EngineError> {
    let reading = clock.read();
    for told in &reading.told {
        tracing::warn!("{told}");
    }
    engine.keep_time(&reading)?;
    engine.work(reading.now, Duration::ZERO)
}

/// Runs what waits for the disk where it holds nobody else up.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, EngineError> + Send + 'static,
) -> Result<T, EngineError> {
    tokio::task::spawn_blocking(work).await.expect("the engine does not panic")
}

fn error(error: EngineError) -> Error {
    match error {
        EngineError::Api(ApiError::ResourceInUse(message) | ApiError::LimitExceeded(message)) => {
            Error::Busy(message)
        }
        EngineError::Api(throttled @ (ApiError::Throttled | ApiError::Exceeded(_))) => {
            Error::Throttled(throttled.to_string())
        }
        EngineError::Api(error) => Error::Refused { code: error.code().into(), message: error.to_string() },
        other => Error::Engine(other),
    }
}

fn no_change(table: TableName) -> UpdateTable {
    UpdateTable {
        table,
        attributes: Vec::new(),
        billing_mode: None,
        throughput: None,
        on_demand_limits: None,
        index_changes: None,
        stream: None,
        encryption: None,
        class: None,
        deletion_protection: None,
    }
}

fn billing(billing: Billing) -> (BillingMode, Option<Throughput>) {
    match billing {
        Billing::OnDemand => (BillingMode::OnDemand, None),
        Billing::Provisioned(throughput) => (BillingMode::Provisioned, Some(throughput)),
    }
}

fn key_elements(key: &KeySchema) -> Vec<KeyElement> {
    let partition = key.partition.iter().map(|part| (part, KeyRole::Partition));
    let sort = key.sort.iter().map(|part| (part, KeyRole::Sort));
    partition.chain(sort).map(|(part, role)| KeyElement { name: part.name.clone(), role }).collect()
}

fn attributes(key: &KeySchema) -> Vec<(String, KeyType)> {
    key.attributes().map(|attribute| (attribute.name.clone(), attribute.kind)).collect()
}

fn new_index(index: &IndexDefinition) -> NewIndex {
    let (kind, names) = match &index.projection {
        Projection::All => (ProjectionKind::All, None),
        Projection::KeysOnly => (ProjectionKind::KeysOnly, None),
        Projection::Include(names) => (ProjectionKind::Include, Some(names.clone())),
    };
    NewIndex {
        name: index.name.clone(),
        key: key_elements(&index.key),
        projection: Some(ProjectionSpecification { kind: Some(kind), names }),
        // No units at all: billing is on demand.
        throughput: (index.throughput != Throughput::default()).then_some(index.throughput),
        on_demand_limits: index.on_demand_limits,
    }
}

fn stream(view: Option<StreamView>) -> StreamSpecification {
    StreamSpecification { enabled: view.is_some(), view }
}

fn encryption(wanted: Option<&Encryption>) -> EncryptionSpecification {
    EncryptionSpecification {
        enabled: Some(wanted.is_some()),
        kms: wanted.is_some(),
        kms_key: wanted.and_then(|wanted| wanted.kms_key.clone()),
    }
}

#[cfg(test)]
mod tests {
    use larder_model::{IndexName, KeyAttribute, Tags};

    use super::*;

    fn key(name: &str) -> KeySchema {
        let attribute = KeyAttribute { name: name.to_owned(), kind: KeyType::S };
        KeySchema { partition: vec![attribute], sort: Vec::new() }
    }

    fn carts() -> TableDefinition {
        TableDefinition {
            name: TableName::new("carts").unwrap(),
            attributes: attributes(&key("id")),
            key: key("id"),
            indexes: Vec::new(),
            billing: Billing::OnDemand,
            on_demand_limits: None,
            stream: None,
            encryption: None,
            class: None,
            deletion_protection: false,
            tags: Tags::new(),
        }
    }

    #[tokio::test]
    async fn a_table_has_its_stream_from_the_start() {
        let store = Embedded::memory(String::new(), Clock::system()).await.unwrap();
        let definition = TableDefinition { stream: Some(StreamView::OldImage), ..carts() };
        store.create_table(&definition).await.unwrap();
        let deployed = store.describe(&definition.name).await.unwrap().unwrap();
        assert_eq!(deployed.definition.stream, Some(StreamView::OldImage));
        assert!(!store.lacks().await.unwrap().contains_key(&Feature::Streams));
    }

    #[tokio::test]
    async fn an_index_left_half_filled_by_a_crash_is_busy_until_somebody_pauses() {
        let directory = tempfile::tempdir().unwrap();
        let index = IndexDefinition {
            name: IndexName::new("by_owner").unwrap(),
            kind: IndexKind::Global,
            key: key("owner"),
            projection: Projection::All,
            throughput: Throughput::default(),
            on_demand_limits: None,
        };
        let definition = carts();
        // Nobody works for these stores unasked: an index is filled only by who pauses.
        let open = || {
            let engine = Engine::open(directory.path(), Options::default()).unwrap();
            Embedded::new(engine, Clock::system(), String::new(), false)
        };
        let store = open();
        store.create_table(&definition).await.unwrap();
        let request = UpdateTable {
            attributes: attributes(&index.key),
            index_changes: Some(vec![IndexChange::Create(new_index(&index))]),
            ..no_change(definition.name.clone())
        };
        store.local.engine.update_table(request, store.local.clock.now()).await.unwrap();
        drop(store);

        let store = open();
        let busy = async || store.describe(&definition.name).await.unwrap().unwrap().busy;
        assert_eq!(busy().await, Some(Busy::Index { name: index.name.clone(), removing: false }));
        store.pause(0).await.unwrap();
        assert_eq!(busy().await, None);
    }
}
