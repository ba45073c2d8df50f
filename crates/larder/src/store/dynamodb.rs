//! A store on the official SDK: AWS, or any endpoint that speaks its protocol.
//!
//! AWS has every feature, in several regions. An endpoint has one region, and older ones lack features without
//! saying so: they ignore what they do not know. They are asked in advance, by requests about a table that does
//! not exist and, where that tells nothing, with a value that does not exist: who knows the setting minds.

pub mod connection;
mod items;

pub(crate) use items::{read_item, sdk_value, value_of};

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use aws_config::Region;
use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::operation::update_table::builders::UpdateTableFluentBuilder;
use aws_sdk_dynamodb::types as sdk;
use larder_model::{
    Arn, Billing, Clock, Encryption, IndexDefinition, IndexKind, IndexName, KeyAttribute, KeySchema, KeyType,
    Projection, StreamView, TableClass, TableDefinition, TableName, Tags, Throughput,
};
use larder_ops::{Request, Response};
use larder_schema::schema::StoreLimits;
use tokio::sync::OnceCell;

use super::{Address, Backend, Busy, Deployed, Error, Feature, Inside, Lacks, TableChange, client};
use crate::backoff;
use connection::CONNECT_LIMIT;

/// A table that nobody has.
const ABSENT_TABLE: &str = "larder-absent-7f3a9c51e0d24b68";
/// No setting has this value.
const ABSENT_VALUE: &str = "LARDER_ABSENT";
const UNKNOWN: &str = "the endpoint does not know it";
const PAUSE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(2));
/// What AWS takes when no period is asked for.
const PITR_DAYS_DEFAULT: i32 = 35;

#[derive(Clone, Debug)]
pub(super) struct DynamoDb {
    client: Client,
    /// What the client was made from, unless the program made it.
    config: Option<aws_config::SdkConfig>,
    clock: Clock,
    place: String,
    /// Found when first asked for: who only reads and writes items need not wait for it.
    lacks: Arc<OnceCell<Lacks>>,
    /// AWS itself: tables live in regions.
    regional: bool,
    /// What answers the client, where that is in this process.
    inside: Option<Arc<dyn Inside>>,
    /// The client that a program has brought.
    own: Option<Client>,
}

impl DynamoDb {
    pub(super) async fn connect(endpoint: Option<&str>, clock: Clock) -> Result<Self, Error> {
        let place = Address::DynamoDb { endpoint: endpoint.map(str::to_owned) }.to_string();
        let config = match connection::sdk_config(endpoint).await {
            Ok(config) => config,
            Err(cause) => return Err(Error::Unreachable { place, cause }),
        };
        Ok(Self {
            client: Client::new(&config),
            config: Some(config),
            clock,
            place,
            lacks: Arc::default(),
            regional: endpoint.is_none(),
            inside: None,
            own: None,
        })
    }

    /// On a client of the program's own, which may lead anywhere.
    pub(super) fn on_client(client: Client) -> Self {
        let place = Address::DynamoDb { endpoint: None }.to_string();
        let (clock, lacks) = (Clock::system(), Arc::default());
        let own = Some(client.clone());
        Self { client, config: None, clock, place, lacks, regional: false, inside: None, own }
    }

    /// On an endpoint in this process, of which is known what it lacks.
    pub(super) fn through(inside: Arc<dyn Inside>, clock: Clock, place: String, lacks: Lacks) -> Self {
        let client = client::client(Arc::clone(&inside));
        let lacks = Arc::new(OnceCell::new_with(Some(lacks)));
        Self { client, config: None, clock, place, lacks, regional: false, inside: Some(inside), own: None }
    }

    async fn find_lacks(&self) -> Result<Lacks, Error> {
        let mut lacks = Lacks::new();
        if self.regional {
            return Ok(lacks);
        }
        let update = || self.client.update_table().table_name(ABSENT_TABLE);
        let stream = sdk::StreamSpecification::builder()
            .stream_enabled(true)
            .stream_view_type(sdk::StreamViewType::KeysOnly)
            .build()
            .map_err(|error| self.unreadable(&error))?;
        let updates = [
            (Feature::OnDemand, update().billing_mode(sdk::BillingMode::PayPerRequest)),
            (Feature::Streams, update().stream_specification(stream)),
            (Feature::DeletionProtection, update().deletion_protection_enabled(true)),
        ];
        for (feature, request) in updates {
            self.note_lack(&mut lacks, feature, request.send().await)?;
        }
        let encrypted = || sdk::SseSpecification::builder().enabled(true);
        let answer = update().sse_specification(encrypted().build()).send().await;
        // A Larder without a key says so. Others have nothing against it but that the table is not there.
        if let Some(refusal) = answer.as_ref().err().and_then(SdkError::as_service_error)
            && refusal.code() == Some("ValidationException")
        {
            lacks.insert(Feature::Encryption, refusal.message().unwrap_or(UNKNOWN).to_owned());
        }
        let updates = [
            (Feature::TableClass, update().table_class(ABSENT_VALUE.into())),
            (
                Feature::Encryption,
                update().sse_specification(encrypted().sse_type(ABSENT_VALUE.into()).build()),
            ),
        ];
        for (feature, request) in updates {
            // Who does not mind the value never looked at it.
            if request.send().await.is_err_and(|error| is_not_found(&error)) {
                lacks.insert(feature, UNKNOWN.to_owned());
            }
        }
        // It came after table classes.
        if lacks.contains_key(&Feature::TableClass) {
            lacks.insert(Feature::DeletionProtection, UNKNOWN.to_owned());
        }
        let ttl = self.client.describe_time_to_live().table_name(ABSENT_TABLE).send().await;
        self.note_lack(&mut lacks, Feature::TimeToLive, ttl)?;
        let pitr = self.client.describe_continuous_backups().table_name(ABSENT_TABLE).send().await;
        self.note_lack(&mut lacks, Feature::PointInTimeRecovery, pitr)?;
        let arn = format!("arn:aws:dynamodb:{}:{}:table/{ABSENT_TABLE}", Arn::REGION, Arn::ACCOUNT);
        let tags = self.client.list_tags_of_resource().resource_arn(arn).send().await;
        self.note_lack(&mut lacks, Feature::Tags, tags)?;
        Ok(lacks)
    }

    fn note_lack<T, E>(
        &self,
        lacks: &mut Lacks,
        feature: Feature,
        answer: Result<T, SdkError<E>>,
    ) -> Result<(), Error>
    where
        E: ProvideErrorMetadata + std::error::Error + 'static,
    {
        let Err(error) = answer else { return Ok(()) };
        match error.as_service_error().map(|error| error.code().unwrap_or_default()) {
            Some("ResourceNotFoundException" | "TableNotFoundException" | "AccessDeniedException") => Ok(()),
            Some(_) => {
                lacks.insert(feature, UNKNOWN.to_owned());
                Ok(())
            }
            None => Err(self.error(&error)),
        }
    }

    fn error<E>(&self, error: &SdkError<E>) -> Error
    where
        E: ProvideErrorMetadata + std::error::Error + 'static,
    {
        sdk_error(self.place.clone(), error)
    }

    fn unreadable(&self, cause: &dyn std::fmt::Display) -> Error {
        Error::Refused { code: "InvalidRequest".to_owned(), message: cause.to_string() }
    }

    async fn has(&self, feature: Feature) -> Result<bool, Error> {
        Ok(!self.lacks().await?.contains_key(&feature))
    }

    async fn description(&self, table: &TableName) -> Result<Option<sdk::TableDescription>, Error> {
        match self.client.describe_table().table_name(table.as_str()).send().await {
            Ok(answer) => Ok(answer.table),
            Err(error) if is_not_found(&error) => Ok(None),
            Err(error) => Err(self.error(&error)),
        }
    }

    async fn ttl_attribute(&self, table: &TableName) -> Result<Option<String>, Error> {
        if !self.has(Feature::TimeToLive).await? {
            return Ok(None);
        }
        let answer = match self.client.describe_time_to_live().table_name(table.as_str()).send().await {
            Ok(answer) => answer,
            Err(error) if is_not_found(&error) => return Ok(None),
            Err(error) => return Err(self.error(&error)),
        };
        let Some(ttl) = answer.time_to_live_description else { return Ok(None) };
        Ok(match ttl.time_to_live_status {
            Some(sdk::TimeToLiveStatus::Enabled | sdk::TimeToLiveStatus::Enabling) => ttl.attribute_name,
            _ => None,
        })
    }

    async fn pitr_days(&self, table: &TableName) -> Result<Option<u32>, Error> {
        if !self.has(Feature::PointInTimeRecovery).await? {
            return Ok(None);
        }
        let answer = match self.client.describe_continuous_backups().table_name(table.as_str()).send().await {
            Ok(answer) => answer,
            Err(error) if is_not_found(&error) => return Ok(None),
            Err(error) => return Err(self.error(&error)),
        };
        let pitr = answer
            .continuous_backups_description
            .and_then(|backups| backups.point_in_time_recovery_description)
            .filter(|pitr| {
                pitr.point_in_time_recovery_status == Some(sdk::PointInTimeRecoveryStatus::Enabled)
            });
        let days = pitr.map(|pitr| pitr.recovery_period_in_days.unwrap_or(PITR_DAYS_DEFAULT));
        Ok(days.and_then(|days| u32::try_from(days).ok()))
    }

    async fn tags_of(&self, arn: Option<&str>) -> Result<Tags, Error> {
        let (Some(arn), true) = (arn, self.has(Feature::Tags).await?) else { return Ok(Tags::new()) };
        let (mut tags, mut next) = (Tags::new(), None);
        loop {
            let page =
                self.client.list_tags_of_resource().resource_arn(arn).set_next_token(next).send().await;
            let page = match page {
                Ok(page) => page,
                Err(error) if is_not_found(&error) => return Ok(tags),
                Err(error) => return Err(self.error(&error)),
            };
            tags.extend(page.tags.unwrap_or_default().into_iter().map(|tag| (tag.key, tag.value)));
            next = page.next_token;
            if next.is_none() {
                return Ok(tags);
            }
        }
    }

    async fn arn(&self, table: &TableName) -> Result<String, Error> {
        let description = self.description(table).await?;
        description
            .and_then(|description| description.table_arn)
            .ok_or_else(|| Error::Description { table: table.clone(), cause: "it has no ARN".to_owned() })
    }

    async fn update(&self, request: UpdateTableFluentBuilder, optional: bool) -> Result<(), Error> {
        match request.send().await.map_err(|error| self.error(&error)) {
            Ok(_) => Ok(()),
            // An endpoint that did not see the setting finds that nothing was asked for.
            Err(Error::Refused { code, message })
                if optional && !self.regional && code == "ValidationException" =>
            {
                Err(Error::Unsupported(format!("the endpoint refuses it: {message}")))
            }
            Err(error) => Err(error),
        }
    }
}

#[async_trait]
impl Backend for DynamoDb {
    fn place(&self) -> String {
        self.place.clone()
    }

    fn identity(&self) -> String {
        match (&self.own, &self.inside) {
            // A client may lead anywhere, and does not say where. Clones of it have one configuration.
            (Some(client), _) => format!("{} by the client {:p}", self.place, &raw const *client.config()),
            // Whoever opened it has named it.
            (None, Some(inside)) => format!("{} by the endpoint {:p}", self.place, Arc::as_ptr(inside)),
            (None, None) => self.place.clone(),
        }
    }

    async fn lacks(&self) -> Result<&Lacks, Error> {
        self.lacks.get_or_try_init(|| self.find_lacks()).await
    }

    fn in_region(&self, region: &str) -> Option<Arc<dyn Backend>> {
        if !self.regional {
            return None;
        }
        let place = format!("{} in {region}", Address::DynamoDb { endpoint: None });
        let region = Region::new(region.to_owned());
        let client = Client::from_conf(self.client.config().to_builder().region(region.clone()).build());
        let config = self.config.clone().map(|config| config.into_builder().region(region).build());
        Some(Arc::new(Self { client, config, place, ..self.clone() }))
    }

    /// The whole is bounded by who asks. One attempt takes half of that at most, so that another connection is tried
    /// when one has died.
    fn limited(&self, limits: &StoreLimits) -> Option<Arc<dyn Backend>> {
        let millis = |millis: i64| Duration::from_millis(u64::try_from(millis).unwrap_or(0));
        let StoreLimits { timeout_millis: (_, long), retry, .. } = limits;
        let (first, longest) = retry.backoff_millis;
        let retry = RetryConfig::standard()
            .with_max_attempts(retry.attempts.saturating_add(1))
            .with_initial_backoff(millis(first))
            .with_max_backoff(millis(longest));
        let timeouts = TimeoutConfig::builder()
            .connect_timeout(CONNECT_LIMIT.min(millis(long / 2)))
            .operation_attempt_timeout(millis(long / 2))
            .build();
        let config = self.client.config().to_builder().retry_config(retry).timeout_config(timeouts);
        Some(Arc::new(Self { client: Client::from_conf(config.build()), ..self.clone() }))
    }

    async fn list_tables(&self) -> Result<Vec<TableName>, Error> {
        let (mut names, mut start) = (Vec::new(), None);
        loop {
            let page = self.client.list_tables().set_exclusive_start_table_name(start).send().await;
            let page = page.map_err(|error| self.error(&error))?;
            names.extend(page.table_names.unwrap_or_default());
            start = page.last_evaluated_table_name;
            if start.is_none() {
                break;
            }
        }
        // A name that breaks the rules belongs to nobody we know.
        let mut names: Vec<TableName> =
            names.into_iter().filter_map(|name| TableName::new(name).ok()).collect();
        names.sort();
        Ok(names)
    }

    async fn describe(&self, table: &TableName) -> Result<Option<Deployed>, Error> {
        let Some(description) = self.description(table).await? else { return Ok(None) };
        let tags = self.tags_of(description.table_arn.as_deref()).await?;
        let (definition, busy) = read(table, &description, tags)?;
        Ok(Some(Deployed {
            definition,
            busy,
            ttl_attribute: self.ttl_attribute(table).await?,
            pitr_days: self.pitr_days(table).await?,
        }))
    }

    async fn tags(&self, table: &TableName) -> Result<Tags, Error> {
        let Some(description) = self.description(table).await? else { return Ok(Tags::new()) };
        self.tags_of(description.table_arn.as_deref()).await
    }

    async fn create_table(&self, definition: &TableDefinition) -> Result<(), Error> {
        let wrong = |error: aws_sdk_dynamodb::error::BuildError| self.unreadable(&error);
        let mut request = self.client.create_table().table_name(definition.name.as_str());
        for (name, kind) in &definition.attributes {
            request = request.attribute_definitions(attribute(name, *kind).map_err(wrong)?);
        }
        for element in key_schema(&definition.key).map_err(wrong)? {
            request = request.key_schema(element);
        }
        for index in &definition.indexes {
            let elements = key_schema(&index.key).map_err(wrong)?;
            request = match index.kind {
                IndexKind::Global => request.global_secondary_indexes(
                    sdk::GlobalSecondaryIndex::builder()
                        .index_name(index.name.as_str())
                        .set_key_schema(Some(elements))
                        .projection(projection(&index.projection))
                        .set_provisioned_throughput(index_units(index).map_err(wrong)?)
                        .build()
                        .map_err(wrong)?,
                ),
                IndexKind::Local => request.local_secondary_indexes(
                    sdk::LocalSecondaryIndex::builder()
                        .index_name(index.name.as_str())
                        .set_key_schema(Some(elements))
                        .projection(projection(&index.projection))
                        .build()
                        .map_err(wrong)?,
                ),
            };
        }
        request = match definition.billing {
            Billing::OnDemand => request.billing_mode(sdk::BillingMode::PayPerRequest),
            Billing::Provisioned(throughput) => {
                request.provisioned_throughput(units(throughput).map_err(wrong)?)
            }
        };
        if let Some(view) = definition.stream {
            request = request.stream_specification(stream(Some(view)).map_err(wrong)?);
        }
        if let Some(encryption) = &definition.encryption {
            request = request.sse_specification(sse(Some(encryption)));
        }
        if let Some(class) = definition.class {
            request = request.table_class(table_class(class));
        }
        if definition.deletion_protection {
            request = request.deletion_protection_enabled(true);
        }
        for (key, value) in &definition.tags {
            request = request.tags(tag(key, value).map_err(wrong)?);
        }
        request.send().await.map(|_| ()).map_err(|error| self.error(&error))
    }

    async fn change_table(&self, table: &TableName, change: &TableChange) -> Result<(), Error> {
        let wrong = |error: aws_sdk_dynamodb::error::BuildError| self.unreadable(&error);
        let update = self.client.update_table().table_name(table.as_str());
        let request = match change {
            TableChange::Billing { billing, table: of_table, indexes } => {
                let mut request = update;
                if *of_table {
                    request = match billing {
                        Billing::OnDemand => request.billing_mode(sdk::BillingMode::PayPerRequest),
                        Billing::Provisioned(throughput) => {
                            let request = request.provisioned_throughput(units(*throughput).map_err(wrong)?);
                            match self.has(Feature::OnDemand).await? {
                                true => request.billing_mode(sdk::BillingMode::Provisioned),
                                false => request,
                            }
                        }
                    };
                }
                for (name, throughput) in indexes {
                    let action = sdk::UpdateGlobalSecondaryIndexAction::builder()
                        .index_name(name.as_str())
                        .provisioned_throughput(units(*throughput).map_err(wrong)?)
                        .build()
                        .map_err(wrong)?;
                    request = request.global_secondary_index_updates(
                        sdk::GlobalSecondaryIndexUpdate::builder().update(action).build(),
                    );
                }
                request
            }
            TableChange::Class(class) => update.table_class(table_class(*class)),
            TableChange::Stream(view) => update.stream_specification(stream(*view).map_err(wrong)?),
            TableChange::CreateIndex(index) => {
                let mut request = update;
                for part in index.key.attributes() {
                    request = request.attribute_definitions(attribute(&part.name, part.kind).map_err(wrong)?);
                }
                let action = sdk::CreateGlobalSecondaryIndexAction::builder()
                    .index_name(index.name.as_str())
                    .set_key_schema(Some(key_schema(&index.key).map_err(wrong)?))
                    .projection(projection(&index.projection))
                    .set_provisioned_throughput(index_units(index).map_err(wrong)?)
                    .build()
                    .map_err(wrong)?;
                request.global_secondary_index_updates(
                    sdk::GlobalSecondaryIndexUpdate::builder().create(action).build(),
                )
            }
            TableChange::DeleteIndex(name) => {
                let action = sdk::DeleteGlobalSecondaryIndexAction::builder()
                    .index_name(name.as_str())
                    .build()
                    .map_err(wrong)?;
                update.global_secondary_index_updates(
                    sdk::GlobalSecondaryIndexUpdate::builder().delete(action).build(),
                )
            }
            TableChange::Encryption(encryption) => update.sse_specification(sse(encryption.as_ref())),
            TableChange::DeletionProtection(on) => update.deletion_protection_enabled(*on),
            TableChange::TimeToLive { attribute, enabled } => {
                let specification = sdk::TimeToLiveSpecification::builder()
                    .attribute_name(attribute)
                    .enabled(*enabled)
                    .build()
                    .map_err(wrong)?;
                let request = self.client.update_time_to_live().table_name(table.as_str());
                let answer = request.time_to_live_specification(specification).send().await;
                return answer.map(|_| ()).map_err(|error| self.error(&error));
            }
            TableChange::PointInTimeRecovery { days } => {
                let days = days.map(|days| i32::try_from(days).unwrap_or(i32::MAX));
                let specification = sdk::PointInTimeRecoverySpecification::builder()
                    .point_in_time_recovery_enabled(days.is_some())
                    .set_recovery_period_in_days(days)
                    .build()
                    .map_err(wrong)?;
                let request = self.client.update_continuous_backups().table_name(table.as_str());
                let answer = request.point_in_time_recovery_specification(specification).send().await;
                return answer.map(|_| ()).map_err(|error| self.error(&error));
            }
            TableChange::Tag(tags) => {
                let mut request = self.client.tag_resource().resource_arn(self.arn(table).await?);
                for (key, value) in tags {
                    request = request.tags(tag(key, value).map_err(wrong)?);
                }
                return request.send().await.map(|_| ()).map_err(|error| self.error(&error));
            }
        };
        let optional = match change {
            TableChange::Class(_) | TableChange::Encryption(_) | TableChange::DeletionProtection(_) => true,
            TableChange::Billing { .. }
            | TableChange::Stream(_)
            | TableChange::CreateIndex(_)
            | TableChange::DeleteIndex(_)
            | TableChange::TimeToLive { .. }
            | TableChange::PointInTimeRecovery { .. }
            | TableChange::Tag(_) => false,
        };
        self.update(request, optional).await
    }

    async fn delete_table(&self, table: &TableName) -> Result<(), Error> {
        let answer = self.client.delete_table().table_name(table.as_str()).send().await;
        answer.map(|_| ()).map_err(|error| self.error(&error))
    }

    async fn execute(&self, request: Request) -> Result<Response, Error> {
        self.item_operation(request).await
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    async fn sdk_client(&self) -> Result<Client, Error> {
        Ok(self.client.clone())
    }

    fn inside(&self) -> Option<Arc<dyn Inside>> {
        self.inside.clone()
    }

    async fn streams_client(&self) -> Result<aws_sdk_dynamodbstreams::Client, Error> {
        if let Some(inside) = &self.inside {
            return Ok(client::streams_client(Arc::clone(inside)));
        }
        let config = self.config.as_ref().ok_or_else(|| {
            Error::Unsupported(
                "a store on a client of the program's own has no client for streams".to_owned(),
            )
        })?;
        Ok(aws_sdk_dynamodbstreams::Client::new(config))
    }

    async fn pause(&self, asked: u32) -> Result<(), Error> {
        backoff::pause(PAUSE, asked.saturating_add(1)).await;
        Ok(())
    }
}

/// What the SDK says of the store at `place`.
pub(crate) fn sdk_error<E>(place: String, error: &SdkError<E>) -> Error
where
    E: ProvideErrorMetadata + std::error::Error + 'static,
{
    let Some(service) = error.as_service_error() else {
        return Error::Unreachable { place, cause: causes(error) };
    };
    let code = service.code().unwrap_or("an unnamed error").to_owned();
    let message = service.message().unwrap_or("it was refused without a reason").to_owned();
    match &*code {
        "ResourceInUseException" | "LimitExceededException" => Error::Busy(message),
        "UnknownOperationException" => Error::Unsupported(UNKNOWN.to_owned()),
        _ => Error::Refused { code, message },
    }
}

/// An error and what is behind it, each said once.
fn causes(error: &dyn std::error::Error) -> String {
    let chain = std::iter::successors(Some(error), |error| error.source());
    let mut texts: Vec<String> = Vec::new();
    for text in chain.map(ToString::to_string) {
        if !texts.iter().any(|known| known.contains(&text)) {
            texts.push(text);
        }
    }
    texts.join(": ")
}

fn is_not_found<E: ProvideErrorMetadata>(error: &SdkError<E>) -> bool {
    error.as_service_error().and_then(ProvideErrorMetadata::code) == Some("ResourceNotFoundException")
}

// What we say in the SDK's words

type Built<T> = Result<T, aws_sdk_dynamodb::error::BuildError>;

fn attribute(name: &str, kind: KeyType) -> Built<sdk::AttributeDefinition> {
    let kind = match kind {
        KeyType::S => sdk::ScalarAttributeType::S,
        KeyType::N => sdk::ScalarAttributeType::N,
        KeyType::B => sdk::ScalarAttributeType::B,
    };
    sdk::AttributeDefinition::builder().attribute_name(name).attribute_type(kind).build()
}

fn key_schema(key: &KeySchema) -> Built<Vec<sdk::KeySchemaElement>> {
    let partition = key.partition.iter().map(|part| (part, sdk::KeyType::Hash));
    let sort = key.sort.iter().map(|part| (part, sdk::KeyType::Range));
    partition
        .chain(sort)
        .map(|(part, role)| {
            sdk::KeySchemaElement::builder().attribute_name(&part.name).key_type(role).build()
        })
        .collect()
}

fn projection(projection: &Projection) -> sdk::Projection {
    let builder = sdk::Projection::builder();
    match projection {
        Projection::All => builder.projection_type(sdk::ProjectionType::All),
        Projection::KeysOnly => builder.projection_type(sdk::ProjectionType::KeysOnly),
        Projection::Include(names) => {
            builder.projection_type(sdk::ProjectionType::Include).set_non_key_attributes(Some(names.clone()))
        }
    }
    .build()
}

fn units(throughput: Throughput) -> Built<sdk::ProvisionedThroughput> {
    sdk::ProvisionedThroughput::builder()
        .read_capacity_units(throughput.read)
        .write_capacity_units(throughput.write)
        .build()
}

/// No units at all: billing is on demand.
fn index_units(index: &IndexDefinition) -> Built<Option<sdk::ProvisionedThroughput>> {
    let given = index.throughput != Throughput::default();
    given.then(|| units(index.throughput)).transpose()
}

fn stream(view: Option<StreamView>) -> Built<sdk::StreamSpecification> {
    let view_type = view.map(|view| match view {
        StreamView::KeysOnly => sdk::StreamViewType::KeysOnly,
        StreamView::NewImage => sdk::StreamViewType::NewImage,
        StreamView::OldImage => sdk::StreamViewType::OldImage,
        StreamView::NewAndOldImages => sdk::StreamViewType::NewAndOldImages,
    });
    sdk::StreamSpecification::builder().stream_enabled(view.is_some()).set_stream_view_type(view_type).build()
}

fn sse(encryption: Option<&Encryption>) -> sdk::SseSpecification {
    let builder = sdk::SseSpecification::builder().enabled(encryption.is_some());
    match encryption {
        None => builder,
        Some(encryption) => {
            builder.sse_type(sdk::SseType::Kms).set_kms_master_key_id(encryption.kms_key.clone())
        }
    }
    .build()
}

fn table_class(class: TableClass) -> sdk::TableClass {
    match class {
        TableClass::Standard => sdk::TableClass::Standard,
        TableClass::StandardInfrequentAccess => sdk::TableClass::StandardInfrequentAccess,
    }
}

fn tag(key: &str, value: &str) -> Built<sdk::Tag> {
    sdk::Tag::builder().key(key).value(value).build()
}

// What the SDK says in ours

fn read(
    table: &TableName,
    description: &sdk::TableDescription,
    tags: Tags,
) -> Result<(TableDefinition, Option<Busy>), Error> {
    let unreadable = |cause: String| Error::Description { table: table.clone(), cause };
    let mut attributes = Vec::new();
    for attribute in description.attribute_definitions() {
        let kind = KeyType::from_name(attribute.attribute_type.as_str()).ok_or_else(|| {
            unreadable(format!("`{}` is not a key type", attribute.attribute_type.as_str()))
        })?;
        attributes.push((attribute.attribute_name.clone(), kind));
    }
    let mut busy = match description.table_status() {
        Some(sdk::TableStatus::Creating) => Some(Busy::Creating),
        Some(sdk::TableStatus::Updating) => Some(Busy::Updating),
        Some(sdk::TableStatus::Deleting) => Some(Busy::Deleting),
        Some(sdk::TableStatus::Active) | None => None,
        Some(other) => {
            return Err(Error::Stuck { table: table.clone(), state: other.as_str().to_owned() });
        }
    };
    let mut indexes = Vec::new();
    for index in description.global_secondary_indexes() {
        let name = index.index_name().unwrap_or_default();
        let name = IndexName::new(name).map_err(|error| unreadable(error.to_string()))?;
        match index.index_status() {
            Some(sdk::IndexStatus::Active) | None => {}
            Some(sdk::IndexStatus::Deleting) => {
                busy = Some(Busy::Index { name, removing: true });
                continue;
            }
            Some(_) => busy = Some(Busy::Index { name: name.clone(), removing: false }),
        }
        indexes.push(IndexDefinition {
            name,
            kind: IndexKind::Global,
            key: read_key(index.key_schema(), &attributes).map_err(unreadable)?,
            projection: read_projection(index.projection()),
            throughput: read_units(index.provisioned_throughput()),
            on_demand_limits: None,
        });
    }
    for index in description.local_secondary_indexes() {
        let name = index.index_name().unwrap_or_default();
        indexes.push(IndexDefinition {
            name: IndexName::new(name).map_err(|error| unreadable(error.to_string()))?,
            kind: IndexKind::Local,
            key: read_key(index.key_schema(), &attributes).map_err(unreadable)?,
            projection: read_projection(index.projection()),
            throughput: Throughput::default(),
            on_demand_limits: None,
        });
    }
    let on_demand = description.billing_mode_summary().and_then(|summary| summary.billing_mode())
        == Some(&sdk::BillingMode::PayPerRequest);
    let definition = TableDefinition {
        name: table.clone(),
        key: read_key(description.key_schema(), &attributes).map_err(unreadable)?,
        attributes,
        indexes,
        billing: match on_demand {
            true => Billing::OnDemand,
            false => Billing::Provisioned(read_units(description.provisioned_throughput())),
        },
        on_demand_limits: None,
        stream: read_stream(description.stream_specification()),
        encryption: read_encryption(description.sse_description()),
        class: description.table_class_summary().and_then(|summary| summary.table_class()).map(|class| {
            match class {
                sdk::TableClass::StandardInfrequentAccess => TableClass::StandardInfrequentAccess,
                _ => TableClass::Standard,
            }
        }),
        deletion_protection: description.deletion_protection_enabled().unwrap_or(false),
        tags,
    };
    Ok((definition, busy))
}

fn read_key(
    elements: &[sdk::KeySchemaElement],
    attributes: &[(String, KeyType)],
) -> Result<KeySchema, String> {
    let mut key = KeySchema { partition: Vec::new(), sort: Vec::new() };
    for element in elements {
        let name = &element.attribute_name;
        let found = attributes.iter().find(|(attribute, _)| attribute == name);
        let (_, kind) = found.ok_or_else(|| format!("key attribute `{name}` has no type"))?;
        let part = KeyAttribute { name: name.clone(), kind: *kind };
        match element.key_type {
            sdk::KeyType::Hash => key.partition.push(part),
            _ => key.sort.push(part),
        }
    }
    Ok(key)
}

fn read_projection(projection: Option<&sdk::Projection>) -> Projection {
    match projection.and_then(|projection| projection.projection_type()) {
        Some(sdk::ProjectionType::KeysOnly) => Projection::KeysOnly,
        Some(sdk::ProjectionType::Include) => Projection::Include(
            projection.map(|projection| projection.non_key_attributes().to_vec()).unwrap_or_default(),
        ),
        _ => Projection::All,
    }
}

fn read_units(units: Option<&sdk::ProvisionedThroughputDescription>) -> Throughput {
    let number = |number: Option<i64>| number.unwrap_or(0);
    units.map_or(Throughput::default(), |units| Throughput {
        read: number(units.read_capacity_units),
        write: number(units.write_capacity_units),
    })
}

fn read_stream(stream: Option<&sdk::StreamSpecification>) -> Option<StreamView> {
    let stream = stream.filter(|stream| stream.stream_enabled)?;
    Some(match stream.stream_view_type()? {
        sdk::StreamViewType::KeysOnly => StreamView::KeysOnly,
        sdk::StreamViewType::NewImage => StreamView::NewImage,
        sdk::StreamViewType::OldImage => StreamView::OldImage,
        _ => StreamView::NewAndOldImages,
    })
}

fn read_encryption(described: Option<&sdk::SseDescription>) -> Option<Encryption> {
    let described = described?;
    let on = matches!(
        described.status(),
        Some(sdk::SseStatus::Enabled | sdk::SseStatus::Enabling | sdk::SseStatus::Updating)
    );
    on.then(|| Encryption { kms_key: described.kms_master_key_arn.clone() })
}
