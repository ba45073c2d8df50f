//! A store that notes what it is asked and fails when told to; for tests.
//!
//! [`Store::memory`](super::Store::memory) is one; [`Store::observed`](super::Store::observed) makes one of any
//! store. Any other store knows nothing of it and pays nothing for it. Faults and the record are about items:
//! operations on tables, and requests of [`Store::sdk_client`](super::Store::sdk_client), pass through.

use std::sync::Arc;

use async_trait::async_trait;
use larder_engine::ops::{Request, Response};
use larder_model::{Clock, TableDefinition, TableName, Tags};
use larder_schema::schema::StoreLimits;

use super::items::operation;
use super::{Backend, Deployed, Error, Fault, Faults, Lacks, Requests, TableChange};

#[derive(Debug)]
pub(super) struct Observed {
    backend: Arc<dyn Backend>,
    probes: Probes,
}

/// What tests see of an observed store.
#[doc(hidden)]
#[derive(Clone, Debug, Default)]
pub struct Probes {
    pub(super) faults: Faults,
    pub(super) requests: Requests,
}

impl Observed {
    pub(super) fn new(backend: Arc<dyn Backend>, probes: Probes) -> Self {
        Self { backend, probes }
    }
}

#[async_trait]
impl Backend for Observed {
    async fn execute(&self, request: Request) -> Result<Response, Error> {
        let operation = operation(&request);
        self.probes.requests.note(operation, &request);
        let draw = self.probes.faults.draw(operation);
        if let Some(delay) = draw.delay {
            tokio::time::sleep(delay).await;
        }
        let place = || self.place();
        let cause = || "a fault was asked for".to_owned();
        match draw.fault {
            None => self.backend.execute(request).await,
            Some(Fault::Throttle) => Err(Error::Throttled(cause())),
            Some(Fault::Error) => {
                Err(Error::Refused { code: "InternalServerError".to_owned(), message: cause() })
            }
            Some(Fault::Unreachable) => Err(Error::Unreachable { place: place(), cause: cause() }),
            Some(Fault::LostAnswer) => {
                self.backend.execute(request).await?;
                Err(Error::Unanswered { place: place(), cause: cause() })
            }
        }
    }

    fn probes(&self) -> Option<&Probes> {
        Some(&self.probes)
    }

    fn in_region(&self, region: &str) -> Option<Arc<dyn Backend>> {
        let backend = self.backend.in_region(region)?;
        Some(Arc::new(Self::new(backend, self.probes.clone())))
    }

    fn limited(&self, limits: &StoreLimits) -> Option<Arc<dyn Backend>> {
        let backend = self.backend.limited(limits)?;
        Some(Arc::new(Self::new(backend, self.probes.clone())))
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
