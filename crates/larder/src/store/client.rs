//! The official SDK on an engine in process: what would be HTTP is a call.
//!
//! Programs that use `aws_sdk_dynamodb` can be tested with it as they are, without a port and without a
//! server. Requests are really encoded, and answers really decoded, by the SDK.

use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_dynamodb::{Client, Config};
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::body::SdkBody;
use larder_engine::ops::Request;
use larder_model::{ApiError, Arn};

use super::embedded::Core;

/// Nobody is asked there: no request leaves the process.
const HOST: &str = "larder.invalid";

pub(super) fn client(core: Core) -> Client {
    let config = Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::from_static(Arn::REGION))
        .endpoint_url(format!("http://{HOST}"))
        .credentials_provider(Credentials::new("larder", "larder", None, None, "larder"))
        .http_client(InProcess(core));
    Client::from_conf(config.build())
}

pub(super) fn streams_client(core: Core) -> aws_sdk_dynamodbstreams::Client {
    let config = aws_sdk_dynamodbstreams::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::from_static(Arn::REGION))
        .endpoint_url(format!("http://{HOST}"))
        .credentials_provider(Credentials::new("larder", "larder", None, None, "larder"))
        .http_client(InProcess(core));
    aws_sdk_dynamodbstreams::Client::from_conf(config.build())
}

#[derive(Clone, Debug)]
struct InProcess(Core);

impl HttpClient for InProcess {
    fn http_connector(&self, _: &HttpConnectorSettings, _: &RuntimeComponents) -> SharedHttpConnector {
        SharedHttpConnector::new(self.clone())
    }
}

impl HttpConnector for InProcess {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let core = self.0.clone();
        HttpConnectorFuture::new(async move {
            let target = request.headers().get("x-amz-target").unwrap_or_default();
            let body = request.body().bytes();
            let body = body.ok_or_else(|| ConnectorError::user("the body is not in memory".into()))?;
            let (status, body) = match answer(&core, target, body).await {
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

async fn answer(core: &Core, target: &str, body: &[u8]) -> Result<Vec<u8>, ApiError> {
    let request = larder_wire::decode(target, body)?;
    let changes_tables = match &request {
        Request::DescribeEndpoints => return Ok(larder_wire::encode_endpoints(HOST)),
        Request::CreateTable(_)
        | Request::UpdateTable(_)
        | Request::DeleteTable(_)
        | Request::UpdateTimeToLive(_)
        | Request::CreateBackup(_)
        | Request::RestoreTableFromBackup(_)
        | Request::RestoreTableToPointInTime(_) => true,
        _ => false,
    };
    let response = core.engine.execute(request, core.clock.trusted()).await?;
    if changes_tables {
        core.work().await?;
    }
    larder_wire::encode(&response)
}
