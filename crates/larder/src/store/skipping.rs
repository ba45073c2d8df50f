//! A store that leaves out what is damaged, and says what that was.
//!
//! Only scans and queries can leave something out. A single item that cannot be read is an error as ever.

use std::sync::Arc;

use async_trait::async_trait;
use larder_engine::ops::{Request, Response};
use larder_model::{Clock, TableDefinition, TableName, Tags};
use larder_schema::schema::StoreLimits;
use parking_lot::Mutex;

use super::observed::Probes;
use super::{Backend, Deployed, Error, Lacks, TableChange};

/// What a [store that skips damage](super::Store::skipping_damage) left out, by name. Clones are the same.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// let (store, skipped) = larder::Store::memory().await.skipping_damage();
/// store.list_tables().await?;
/// assert!(skipped.names().is_empty());
/// # Ok::<(), larder::store::Error>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Skipped(Arc<Mutex<Vec<String>>>);

impl Skipped {
    /// Each once, in the order they were met.
    pub fn names(&self) -> Vec<String> {
        self.0.lock().clone()
    }

    fn note(&self, names: &[String]) {
        let mut known = self.0.lock();
        for name in names {
            if !known.contains(name) {
                known.push(name.clone());
            }
        }
    }
}

#[derive(Debug)]
pub(super) struct Skipping {
    pub(super) backend: Arc<dyn Backend>,
    pub(super) skipped: Skipped,
}

#[async_trait]
impl Backend for Skipping {
    async fn execute(&self, mut request: Request) -> Result<Response, Error> {
        request.skip_damaged();
        let response = self.backend.execute(request).await?;
        self.skipped.note(response.skipped());
        Ok(response)
    }

    fn probes(&self) -> Option<&Probes> {
        self.backend.probes()
    }

    fn in_region(&self, region: &str) -> Option<Arc<dyn Backend>> {
        let backend = self.backend.in_region(region)?;
        Some(Arc::new(Self { backend, skipped: self.skipped.clone() }))
    }

    fn limited(&self, limits: &StoreLimits) -> Option<Arc<dyn Backend>> {
        let backend = self.backend.limited(limits)?;
        Some(Arc::new(Self { backend, skipped: self.skipped.clone() }))
    }

    fn place(&self) -> String {
        self.backend.place()
    }

    async fn lacks(&self) -> Result<&Lacks, Error> {
        self.backend.lacks().await
    }

    async fn list_tables(&self) -> Result<Vec<TableName>, Error> {
        self.backend.list_tables().await
    }

    async fn describe(&self, table: &TableName) -> Result<Option<Deployed>, Error> {
        self.backend.describe(table).await
    }

    async fn tags(&self, table: &TableName) -> Result<Tags, Error> {
        self.backend.tags(table).await
    }

    async fn create_table(&self, definition: &TableDefinition) -> Result<(), Error> {
        self.backend.create_table(definition).await
    }

    async fn change_table(&self, table: &TableName, change: &TableChange) -> Result<(), Error> {
        self.backend.change_table(table, change).await
    }

    async fn delete_table(&self, table: &TableName) -> Result<(), Error> {
        self.backend.delete_table(table).await
    }

    fn clock(&self) -> &Clock {
        self.backend.clock()
    }

    fn is_embedded(&self) -> bool {
        self.backend.is_embedded()
    }

    async fn sdk_client(&self) -> Result<aws_sdk_dynamodb::Client, Error> {
        self.backend.sdk_client().await
    }

    async fn streams_client(&self) -> Result<aws_sdk_dynamodbstreams::Client, Error> {
        self.backend.streams_client().await
    }

    async fn pause(&self, asked: u32) -> Result<(), Error> {
        self.backend.pause(asked).await
    }
}
