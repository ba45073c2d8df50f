//! The official SDK on an endpoint in process: what would be HTTP is a call.
//!
//! Programs that use `aws_sdk_dynamodb` can be tested with it as they are, without a port and without a
//! server. Requests are really encoded, and answers really decoded, by the SDK.
//!
//! What answers is an [`Inside`]: an embedded store's own engine, or a server of this process as somebody in particular may ask it.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_dynamodb::{Client, Config};
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::body::SdkBody;
use larder_engine::Lookback;
use larder_model::{ApiError, Arn, Item, TableName};

use super::Error;

/// Nobody is asked there: no request leaves the process.
pub(super) const HOST: &str = "larder.invalid";

/// An endpoint in this process, as one caller may ask it: what the caller may not do is refused here, as it would be there.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = larder::Store::memory().await;
/// let inside = store.inside().expect("it is embedded");
/// assert_eq!(inside.answer("DynamoDB_20120810.ListTables", b"{}").await?, br#"{"TableNames":[]}"#);
/// # Ok(())
/// # }
/// ```
#[async_trait]
pub trait Inside: fmt::Debug + Send + Sync {
    /// Carries out what a request would say: its `X-Amz-Target` and its body.
    async fn answer(&self, target: &str, body: &[u8]) -> Result<Vec<u8>, ApiError>;

    /// What became of a table's items, or of the one with this key, as [`Store::look_back`](super::Store::look_back) has it.
    async fn look_back(
        &self,
        table: &TableName,
        key: Option<Item>,
        before: Option<u64>,
        most: usize,
    ) -> Result<Lookback, Error>;

    /// How many items expire within so many seconds, as [`expiring`](crate::census::expiring) has it; `None` where that is not told.
    fn expiring(&self, table: &TableName, seconds: i64, most: usize) -> Result<Option<u64>, Error>;
}

pub(super) fn client(inside: Arc<dyn Inside>) -> Client {
    let config = Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::from_static(Arn::REGION))
        .endpoint_url(format!("http://{HOST}"))
        .credentials_provider(Credentials::new("larder", "larder", None, None, "larder"))
        .http_client(InProcess(inside));
    Client::from_conf(config.build())
}

pub(super) fn streams_client(inside: Arc<dyn Inside>) -> aws_sdk_dynamodbstreams::Client {
    let config = aws_sdk_dynamodbstreams::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::from_static(Arn::REGION))
        .endpoint_url(format!("http://{HOST}"))
        .credentials_provider(Credentials::new("larder", "larder", None, None, "larder"))
        .http_client(InProcess(inside));
    aws_sdk_dynamodbstreams::Client::from_conf(config.build())
}

#[derive(Clone, Debug)]
struct InProcess(Arc<dyn Inside>);

impl HttpClient for InProcess {
    fn http_connector(&self, _: &HttpConnectorSettings, _: &RuntimeComponents) -> SharedHttpConnector {
        SharedHttpConnector::new(self.clone())
    }
}

impl HttpConnector for InProcess {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let inside = Arc::clone(&self.0);
        HttpConnectorFuture::new(async move {
            let target = request.headers().get("x-amz-target").unwrap_or_default();
            let body = request.body().bytes();
            let body = body.ok_or_else(|| ConnectorError::user("the body is not in memory".into()))?;
            let (status, body) = match inside.answer(target, body).await {
                Ok(body) => (200, body),
                Err(error) => (error.status(), larder_wire::encode_error(&error)),
            };
            let status = status.try_into().map_err(|error| ConnectorError::other(Box::new(error), None))?;
            let checksum = crc32fast::hash(&body).to_string();
            let mut response = HttpResponse::new(status, SdkBody::from(body));
            response.headers_mut().insert("content-type", "application/x-amz-json-1.0");
            response.headers_mut().insert("x-amz-crc32", checksum);
            Ok(response)
        })
    }
}
