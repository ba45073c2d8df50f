//! A store with something in the way of its items. All else goes straight to the store below.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use larder_model::{Clock, TableDefinition, TableName, Tags};
use larder_ops::{Request, Response};
use larder_schema::schema::StoreLimits;
use larder_schema::{Environment, Schema};

#[cfg(feature = "dynamodb")]
use super::Inside;
use super::observed::Probes;
use super::{Backend, Deployed, Error, Lacks, TableChange};

/// What is done with a request for items. Clones, for other regions and limits, share what they keep.
#[async_trait]
pub(super) trait Layer: Clone + fmt::Debug + Send + Sync + 'static {
    async fn execute(&self, below: &Arc<dyn Backend>, request: Request) -> Result<Response, Error>;

    /// What tests see of it.
    fn probes(&self) -> Option<&Probes> {
        None
    }
}

#[derive(Debug)]
pub(super) struct Layered<L> {
    pub(super) layer: L,
    pub(super) below: Arc<dyn Backend>,
}

impl<L: Layer> Layered<L> {
    fn over(&self, below: Arc<dyn Backend>) -> Arc<dyn Backend> {
        Arc::new(Self { layer: self.layer.clone(), below })
    }
}

#[async_trait]
impl<L: Layer> Backend for Layered<L> {
    async fn execute(&self, request: Request) -> Result<Response, Error> {
        self.layer.execute(&self.below, request).await
    }

    fn probes(&self) -> Option<&Probes> {
        self.layer.probes().or_else(|| self.below.probes())
    }

    fn in_region(&self, region: &str) -> Option<Arc<dyn Backend>> {
        Some(self.over(self.below.in_region(region)?))
    }

    fn limited(&self, limits: &StoreLimits) -> Option<Arc<dyn Backend>> {
        Some(self.over(self.below.limited(limits)?))
    }

    fn place(&self) -> String {
        self.below.place()
    }

    fn identity(&self) -> String {
        self.below.identity()
    }

    async fn lacks(&self) -> Result<&Lacks, Error> {
        self.below.lacks().await
    }

    async fn list_tables(&self) -> Result<Vec<TableName>, Error> {
        self.below.list_tables().await
    }

    async fn describe(&self, table: &TableName) -> Result<Option<Deployed>, Error> {
        self.below.describe(table).await
    }

    async fn tags(&self, table: &TableName) -> Result<Tags, Error> {
        self.below.tags(table).await
    }

    async fn create_table(&self, definition: &TableDefinition) -> Result<(), Error> {
        self.below.create_table(definition).await
    }

    async fn change_table(&self, table: &TableName, change: &TableChange) -> Result<(), Error> {
        self.below.change_table(table, change).await
    }

    async fn delete_table(&self, table: &TableName) -> Result<(), Error> {
        self.below.delete_table(table).await
    }

    fn clock(&self) -> &Clock {
        self.below.clock()
    }

    fn is_embedded(&self) -> bool {
        self.below.is_embedded()
    }

    fn has_one_clock(&self) -> bool {
        self.below.has_one_clock()
    }

    #[cfg(feature = "dynamodb")]
    async fn sdk_client(&self) -> Result<aws_sdk_dynamodb::Client, Error> {
        self.below.sdk_client().await
    }

    #[cfg(feature = "dynamodb")]
    async fn streams_client(&self) -> Result<aws_sdk_dynamodbstreams::Client, Error> {
        self.below.streams_client().await
    }

    fn engine(&self) -> Option<&larder_engine::Engine> {
        self.below.engine()
    }

    #[cfg(feature = "dynamodb")]
    fn inside(&self) -> Option<Arc<dyn Inside>> {
        self.below.inside()
    }

    fn enforce(&self) -> Result<(), Error> {
        self.below.enforce()
    }

    fn opened(&self, schema: &Arc<Schema>, environment: &Environment) {
        self.below.opened(schema, environment);
    }

    async fn pause(&self, asked: u32) -> Result<(), Error> {
        self.below.pause(asked).await
    }
}
