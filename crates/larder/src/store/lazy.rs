//! A store that is opened by its first use.
//!
//! However many ask at once, it is opened once. An opening that failed is tried again by the next who asks.

use std::sync::Arc;

use async_trait::async_trait;
use larder_model::{Clock, TableDefinition, TableName, Tags};
use larder_ops::{Request, Response};
use larder_schema::schema::StoreLimits;
use tokio::sync::OnceCell;

use super::{Address, Backend, Deployed, Error, Lacks, TableChange};

#[derive(Clone, Debug)]
pub(super) struct Lazy(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    source: Source,
    clock: Clock,
    opened: OnceCell<Arc<dyn Backend>>,
}

#[derive(Debug)]
enum Source {
    Address(Address),
    Region { of: Lazy, region: String },
    Limited { of: Lazy, limits: StoreLimits },
}

impl Lazy {
    pub(super) fn new(address: Address) -> Self {
        Self::from(Source::Address(address), Clock::system())
    }

    fn from(source: Source, clock: Clock) -> Self {
        Self(Arc::new(Inner { source, clock, opened: OnceCell::new() }))
    }

    fn address(&self) -> &Address {
        match &self.0.source {
            Source::Address(address) => address,
            Source::Region { of, .. } | Source::Limited { of, .. } => of.address(),
        }
    }

    async fn backend(&self) -> Result<&dyn Backend, Error> {
        let opened = self.0.opened.get_or_try_init(|| self.open()).await?;
        Ok(&**opened)
    }

    async fn open(&self) -> Result<Arc<dyn Backend>, Error> {
        match &self.0.source {
            Source::Address(address) => super::connect(address, self.0.clock.clone()).await,
            Source::Region { of, region } => {
                let whole = Box::pin(of.0.opened.get_or_try_init(|| of.open())).await?;
                Ok(whole.in_region(region).unwrap_or_else(|| Arc::clone(whole)))
            }
            Source::Limited { of, limits } => {
                let whole = Box::pin(of.0.opened.get_or_try_init(|| of.open())).await?;
                Ok(whole.limited(limits).unwrap_or_else(|| Arc::clone(whole)))
            }
        }
    }
}

#[async_trait]
impl Backend for Lazy {
    fn place(&self) -> String {
        match &self.0.source {
            Source::Address(address) => address.to_string(),
            Source::Region { of, region } => format!("{} in {region}", of.place()),
            Source::Limited { of, .. } => of.place(),
        }
    }

    fn identity(&self) -> String {
        match &self.0.source {
            // Each is a memory of its own.
            Source::Address(Address::Memory) => format!("{} {:p}", Address::Memory, Arc::as_ptr(&self.0)),
            Source::Address(address) => address.to_string(),
            Source::Region { of, region } => format!("{} in {region}", of.identity()),
            Source::Limited { of, .. } => of.identity(),
        }
    }

    async fn lacks(&self) -> Result<&Lacks, Error> {
        self.backend().await?.lacks().await
    }

    fn in_region(&self, region: &str) -> Option<Arc<dyn Backend>> {
        if *self.address() != (Address::DynamoDb { endpoint: None }) {
            return None;
        }
        let source = Source::Region { of: self.clone(), region: region.to_owned() };
        Some(Arc::new(Self::from(source, self.0.clock.clone())))
    }

    fn limited(&self, limits: &StoreLimits) -> Option<Arc<dyn Backend>> {
        let source = Source::Limited { of: self.clone(), limits: *limits };
        Some(Arc::new(Self::from(source, self.0.clock.clone())))
    }

    async fn list_tables(&self) -> Result<Vec<TableName>, Error> {
        self.backend().await?.list_tables().await
    }

    async fn describe(&self, table: &TableName) -> Result<Option<Deployed>, Error> {
        self.backend().await?.describe(table).await
    }

    async fn tags(&self, table: &TableName) -> Result<Tags, Error> {
        self.backend().await?.tags(table).await
    }

    async fn create_table(&self, definition: &TableDefinition) -> Result<(), Error> {
        self.backend().await?.create_table(definition).await
    }

    async fn change_table(&self, table: &TableName, change: &TableChange) -> Result<(), Error> {
        self.backend().await?.change_table(table, change).await
    }

    async fn delete_table(&self, table: &TableName) -> Result<(), Error> {
        self.backend().await?.delete_table(table).await
    }

    async fn execute(&self, request: Request) -> Result<Response, Error> {
        self.backend().await?.execute(request).await
    }

    fn clock(&self) -> &Clock {
        &self.0.clock
    }

    fn is_embedded(&self) -> bool {
        !matches!(self.address(), Address::DynamoDb { .. })
    }

    fn has_one_clock(&self) -> bool {
        self.is_embedded()
    }

    #[cfg(feature = "dynamodb")]
    async fn sdk_client(&self) -> Result<aws_sdk_dynamodb::Client, Error> {
        self.backend().await?.sdk_client().await
    }

    #[cfg(feature = "dynamodb")]
    async fn streams_client(&self) -> Result<aws_sdk_dynamodbstreams::Client, Error> {
        self.backend().await?.streams_client().await
    }

    async fn pause(&self, asked: u32) -> Result<(), Error> {
        self.backend().await?.pause(asked).await
    }
}
