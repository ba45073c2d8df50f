//! A store on the engine, in process.
//!
//! It owns no thread: whoever asks it to pause works off what the engine has to do, such as filling an index.
//! Settings that the engine keeps but does not act on yet count as lacking.

use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use larder_engine::ops::{
    BillingMode, CreateTable, DeleteTable, DescribeTable, DescribeTimeToLive, EncryptionSpecification,
    IndexChange, IndexStatus, KeyElement, KeyRole, ListTables, NewIndex, ProjectionKind,
    ProjectionSpecification, StreamSpecification, TableStatus, TagResource, TimeToLive, UpdateTable,
    UpdateTimeToLive,
};
use larder_engine::{Engine, Error as EngineError};
use larder_model::{
    ApiError, Billing, Clock, Encryption, IndexDefinition, IndexKind, KeySchema, KeyType, Projection,
    StreamView, TableDefinition, TableName, Throughput,
};
use larder_storage::Options;

use super::{Backend, Busy, Deployed, Error, Feature, Lacks, TableChange};

#[derive(Debug)]
pub(super) struct Embedded {
    engine: Engine,
    clock: Clock,
    place: String,
    lacks: Lacks,
}

impl Embedded {
    pub(super) async fn open(path: &Path) -> Result<Self, Error> {
        let place = path.display().to_string();
        let path = path.to_owned();
        let engine = blocking(move || Engine::open(&path, Options::default())).await?;
        Ok(Self::new(engine, place))
    }

    pub(super) async fn memory(place: String) -> Result<Self, Error> {
        Ok(Self::new(blocking(Engine::memory).await?, place))
    }

    fn new(engine: Engine, place: String) -> Self {
        let lacks = [
            (Feature::PointInTimeRecovery, "the embedded store keeps no history yet"),
            (Feature::Encryption, "the embedded store does not encrypt its files yet"),
            (Feature::Streams, "the streams of the embedded store cannot be read yet"),
        ];
        let lacks = lacks.into_iter().map(|(feature, why)| (feature, why.to_owned())).collect();
        Self { engine, clock: Clock::system(), place, lacks }
    }

    /// Does all there is to do in the background, but expires nothing.
    async fn work(&self) -> Result<(), Error> {
        let (engine, clock) = (self.engine.clone(), self.clock.clone());
        blocking(move || {
            while engine.work(clock.now(), Duration::MAX)?.more {}
            Ok(())
        })
        .await
    }

    async fn update(&self, request: UpdateTable) -> Result<(), Error> {
        self.engine.update_table(request, self.clock.now()).await.map_err(error)?;
        self.work().await
    }
}

#[async_trait]
impl Backend for Embedded {
    fn place(&self) -> String {
        self.place.clone()
    }

    fn lacks(&self) -> &Lacks {
        &self.lacks
    }

    async fn list_tables(&self) -> Result<Vec<TableName>, Error> {
        let mut names: Vec<TableName> = Vec::new();
        loop {
            let start = names.last().map(ToString::to_string);
            let page = self.engine.list_tables(&ListTables { start, limit: None }).map_err(error)?;
            names.extend(page.names);
            if page.last.is_none() {
                return Ok(names);
            }
        }
    }

    async fn describe(&self, table: &TableName) -> Result<Option<Deployed>, Error> {
        let description = match self.engine.describe_table(&DescribeTable { table: table.clone() }) {
            Ok(description) => description,
            Err(EngineError::Api(ApiError::ResourceNotFound(_))) => return Ok(None),
            Err(other) => return Err(error(other)),
        };
        let ttl = self.engine.describe_time_to_live(&DescribeTimeToLive { table: table.clone() });
        let ttl_attribute = match ttl.map_err(error)? {
            TimeToLive::Enabled(attribute) => Some(attribute),
            TimeToLive::Disabled => None,
        };
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
        Ok(Some(Deployed { definition, busy, ttl_attribute, pitr_days: None }))
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
            stream: None,
            encryption: None,
            class: definition.class,
            deletion_protection: Some(definition.deletion_protection),
            tags: definition.tags.clone().into_iter().collect(),
        };
        self.engine.create_table(request, self.clock.now()).await.map_err(error)?;
        self.work().await
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
                self.engine.update_time_to_live(request).await.map_err(error)?;
                return self.work().await;
            }
            TableChange::PointInTimeRecovery { .. } => {
                let why = self.lacks.get(&Feature::PointInTimeRecovery).cloned();
                return Err(Error::Unsupported(why.unwrap_or_default()));
            }
            TableChange::Tag(tags) => {
                let tags = tags.clone().into_iter().collect();
                return self.engine.tag_resource(TagResource { table, tags }).await.map_err(error);
            }
        }
        self.update(request).await
    }

    async fn delete_table(&self, table: &TableName) -> Result<(), Error> {
        self.engine.delete_table(DeleteTable { table: table.clone() }).await.map_err(error)?;
        self.work().await
    }

    async fn pause(&self, _asked: u32) -> Result<(), Error> {
        self.work().await
    }
}

/// Runs what waits for the disk where it holds nobody else up.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, EngineError> + Send + 'static,
) -> Result<T, Error> {
    let done = tokio::task::spawn_blocking(work).await.expect("the engine does not panic");
    done.map_err(error)
}

fn error(error: EngineError) -> Error {
    match error {
        EngineError::Api(ApiError::ResourceInUse(message) | ApiError::LimitExceeded(message)) => {
            Error::Busy(message)
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

    #[tokio::test]
    async fn an_index_left_half_filled_by_a_crash_is_busy_until_somebody_pauses() {
        let directory = tempfile::tempdir().unwrap();
        let key = |name: &str| KeySchema {
            partition: vec![KeyAttribute { name: name.to_owned(), kind: KeyType::S }],
            sort: Vec::new(),
        };
        let index = IndexDefinition {
            name: IndexName::new("by_owner").unwrap(),
            kind: IndexKind::Global,
            key: key("owner"),
            projection: Projection::All,
            throughput: Throughput::default(),
            on_demand_limits: None,
        };
        let definition = TableDefinition {
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
        };
        let store = Embedded::open(directory.path()).await.unwrap();
        store.create_table(&definition).await.unwrap();
        let request = UpdateTable {
            attributes: attributes(&index.key),
            index_changes: Some(vec![IndexChange::Create(new_index(&index))]),
            ..no_change(definition.name.clone())
        };
        store.engine.update_table(request, store.clock.now()).await.unwrap();
        drop(store);

        let store = Embedded::open(directory.path()).await.unwrap();
        let busy = async || store.describe(&definition.name).await.unwrap().unwrap().busy;
        assert_eq!(busy().await, Some(Busy::Index { name: index.name.clone(), removing: false }));
        store.pause(0).await.unwrap();
        assert_eq!(busy().await, None);
    }
}
