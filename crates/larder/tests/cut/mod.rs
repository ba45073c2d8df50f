//! A store whose connection is cut at a request, for tests of what goes on afterwards.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use larder::Store;
use larder::store::ops::{Request, Response};
use larder::store::{Backend, Deployed, Error, Lacks, TableChange};
use larder_model::{Clock, TableDefinition, TableName, Tags};

/// What is lost of the request at which the connection is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    Request,
    Answer,
}

/// A store that is cut off at the given changing request, and stays so.
pub(crate) fn cut(store: &Store, at: usize, lost: Lost) -> Store {
    Store::on(Arc::new(Cut { backend: Arc::clone(store.backend()), calls: AtomicUsize::new(0), at, lost }))
}

#[derive(Debug)]
struct Cut {
    backend: Arc<dyn Backend>,
    calls: AtomicUsize,
    at: usize,
    lost: Lost,
}

impl Cut {
    async fn call<T>(&self, changes: bool, call: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let number = if changes {
            self.calls.fetch_add(1, Ordering::SeqCst)
        } else {
            self.calls.load(Ordering::SeqCst)
        };
        if number < self.at || (!changes && number == self.at) {
            return call.await;
        }
        if number == self.at && self.lost == Lost::Answer {
            drop(call.await);
        }
        Err(Error::Unreachable { place: self.place(), cause: "it was cut off".to_owned() })
    }
}

fn changes(request: &Request) -> bool {
    !matches!(
        request,
        Request::GetItem(_)
            | Request::Query(_)
            | Request::Scan(_)
            | Request::BatchGetItem(_)
            | Request::TransactGetItems(_)
    )
}

#[async_trait]
impl Backend for Cut {
    fn place(&self) -> String {
        self.backend.place()
    }

    async fn lacks(&self) -> Result<&Lacks, Error> {
        self.backend.lacks().await
    }

    async fn list_tables(&self) -> Result<Vec<TableName>, Error> {
        self.call(false, self.backend.list_tables()).await
    }

    async fn describe(&self, table: &TableName) -> Result<Option<Deployed>, Error> {
        self.call(false, self.backend.describe(table)).await
    }

    async fn tags(&self, table: &TableName) -> Result<Tags, Error> {
        self.call(false, self.backend.tags(table)).await
    }

    async fn create_table(&self, definition: &TableDefinition) -> Result<(), Error> {
        self.call(true, self.backend.create_table(definition)).await
    }

    async fn change_table(&self, table: &TableName, change: &TableChange) -> Result<(), Error> {
        self.call(true, self.backend.change_table(table, change)).await
    }

    async fn delete_table(&self, table: &TableName) -> Result<(), Error> {
        self.call(true, self.backend.delete_table(table)).await
    }

    async fn execute(&self, request: Request) -> Result<Response, Error> {
        let changes = changes(&request);
        self.call(changes, self.backend.execute(request)).await
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
        self.call(false, self.backend.pause(asked)).await
    }
}
