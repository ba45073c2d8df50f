//! How this process connects to endpoints: as whom, in which region, and with which certificate of its own.
//!
//! The one place for the SDK's client and for whoever asks a server without it. A server that serves only clients with a
//! certificate (`--tls-client-ca`) is shown the one that [`CERTIFICATE_VARIABLE`] and [`KEY_VARIABLE`] name, both as PEM.

use std::env;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use aws_config::environment::EnvironmentVariableRegionProvider;
use aws_config::meta::region::RegionProviderChain;
use aws_config::profile::ProfileFileRegionProvider;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_dynamodb::config::{Credentials, SharedHttpClient};
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::body::SdkBody;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::{Client, connect};
use hyper_util::rt::TokioExecutor;
use larder_model::Arn;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

/// The certificate of this process, with those that lead to its authority.
pub const CERTIFICATE_VARIABLE: &str = "LARDER_CLIENT_CERT";
/// The key of that certificate.
pub const KEY_VARIABLE: &str = "LARDER_CLIENT_KEY";

/// For whoever asks without a schema.
const ATTEMPT_LIMIT: Duration = Duration::from_secs(20);
pub(super) const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// Whether the environment says whom to ask an endpoint as. Nobody is looked for elsewhere: most endpoints do not mind.
pub fn has_credentials() -> bool {
    said("AWS_ACCESS_KEY_ID").is_some() || said("AWS_PROFILE").is_some()
}

/// What the SDK is set up with, for an endpoint or for AWS: the credentials and the region of the environment and of its
/// profiles.
pub async fn sdk_config(endpoint: Option<&str>) -> Result<SdkConfig, String> {
    let timeouts = TimeoutConfig::builder()
        .connect_timeout(CONNECT_LIMIT)
        .operation_attempt_timeout(ATTEMPT_LIMIT)
        .build();
    let mut loader =
        aws_config::defaults(BehaviorVersion::latest()).http_client(http(endpoint)?).timeout_config(timeouts);
    if let Some(url) = endpoint {
        loader = loader.endpoint_url(url);
        if !has_credentials() {
            // Endpoints that do not look at credentials still want some.
            loader = loader.credentials_provider(Credentials::new("larder", "larder", None, None, "larder"));
        }
        // Of a machine at AWS nobody asks for the region of an endpoint.
        let mut region = RegionProviderChain::first_try(EnvironmentVariableRegionProvider::new());
        if said("AWS_PROFILE").is_some() {
            region = region.or_else(ProfileFileRegionProvider::new());
        }
        loader = loader.region(region.or_else(Region::from_static(Arn::REGION)));
    }
    let config = loader.load().await;
    if config.region().is_none() {
        return Err("no region is set: set AWS_REGION".to_owned());
    }
    Ok(config)
}

/// Trusts the authorities that this machine trusts, or those of `SSL_CERT_FILE`, and has the certificate of this process.
pub fn tls() -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots);
    let Some(files) = Files::named()? else { return Ok(builder.with_no_client_auth()) };
    let (chain, key) = files.read()?;
    builder.with_client_auth_cert(chain, key).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => {
            let Files { certificate, key } = files;
            format!("{KEY_VARIABLE}: {} is not the key of {}", key.display(), certificate.display())
        }
        error => format!("{CERTIFICATE_VARIABLE}: {}: {error}", files.certificate.display()),
    })
}

fn said(name: &str) -> Option<PathBuf> {
    env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

struct Files {
    certificate: PathBuf,
    key: PathBuf,
}

impl Files {
    fn named() -> Result<Option<Self>, String> {
        let lacks = |set, unset| {
            format!("{set} is set and {unset} is not: a certificate is worth nothing without its key")
        };
        match (said(CERTIFICATE_VARIABLE), said(KEY_VARIABLE)) {
            (None, None) => Ok(None),
            (Some(certificate), Some(key)) => Ok(Some(Self { certificate, key })),
            (Some(_), None) => Err(lacks(CERTIFICATE_VARIABLE, KEY_VARIABLE)),
            (None, Some(_)) => Err(lacks(KEY_VARIABLE, CERTIFICATE_VARIABLE)),
        }
    }

    fn read(&self) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), String> {
        let failed = |variable: &str, path: &Path, error: rustls::pki_types::pem::Error| {
            format!("{variable}: {}: {error}", path.display())
        };
        let chain = CertificateDer::pem_file_iter(&self.certificate)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|error| failed(CERTIFICATE_VARIABLE, &self.certificate, error))?;
        if chain.is_empty() {
            let path = self.certificate.display();
            return Err(format!("{CERTIFICATE_VARIABLE}: {path}: there is no certificate in it, as PEM"));
        }
        let key = PrivateKeyDer::from_pem_file(&self.key)
            .map_err(|error| failed(KEY_VARIABLE, &self.key, error))?;
        Ok((chain, key))
    }
}

fn http(endpoint: Option<&str>) -> Result<SharedHttpClient, String> {
    let http = aws_smithy_http_client::Builder::new();
    Ok(match endpoint {
        Some(url) if url.starts_with("http://") => http.build_http(),
        Some(_) if Files::named()?.is_some() => SharedHttpClient::new(Presenting::new(tls()?)),
        Some(_) | None => http.tls_provider(Provider::Rustls(CryptoMode::Ring)).build_https(),
    })
}

/// A client that shows the certificate of this process, which the SDK's own cannot.
#[derive(Clone, Debug)]
struct Presenting(Client<HttpsConnector<connect::HttpConnector>, SdkBody>);

impl Presenting {
    fn new(tls: ClientConfig) -> Self {
        let mut tcp = connect::HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT_LIMIT));
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp);
        Self(Client::builder(TokioExecutor::new()).build(connector))
    }
}

impl HttpClient for Presenting {
    fn http_connector(&self, _: &HttpConnectorSettings, _: &RuntimeComponents) -> SharedHttpConnector {
        SharedHttpConnector::new(self.clone())
    }
}

impl HttpConnector for Presenting {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let client = self.0.clone();
        HttpConnectorFuture::new(async move {
            let request = request.try_into_http1x().map_err(|error| ConnectorError::user(error.into()))?;
            let answer = client.request(request).await.map_err(|error| ConnectorError::io(error.into()))?;
            let answer = answer.map(SdkBody::from_body_1_x);
            HttpResponse::try_from(answer).map_err(|error| ConnectorError::other(error.into(), None))
        })
    }
}
