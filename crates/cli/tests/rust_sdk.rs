//! The Rust SDK on a server that asks for signatures, through TLS: a round of work, and each way to be refused, with AWS's
//! codes and words and DynamoDB's status. And on one that enforces throughput, where it tries again.

#![expect(clippy::unwrap_used, reason = "the helpers of a test fail with the test")]

mod process;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_credential_types::Credentials;
use aws_sdk_dynamodb::config::interceptors::BeforeTransmitInterceptorContextMut;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::{BehaviorVersion, ConfigBag, Intercept, Region, RuntimeComponents};
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::operation::create_table::builders::CreateTableFluentBuilder;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BillingMode, KeySchemaElement, KeyType, ProvisionedThroughput,
    ScalarAttributeType,
};
use aws_sdk_dynamodb::{Client, Config};
use aws_sigv4::http_request::{SignableBody, SignableRequest, SignatureLocation, SigningSettings, sign};
use aws_sigv4::sign::v4;
use aws_smithy_async::time::StaticTimeSource;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_http_client::tls::{Provider, TlsContext, TrustStore};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use larder_auth::{Access, AccessKey, Policy, Principal, Secret};
use larder_model::Clock;
use process::Larder;
use tempfile::TempDir;

const REGION: &str = "eu-west-1";
const TABLE: &str = "orders";
const MISMATCH: &str = "The request signature we calculated does not match the signature you provided.";
const UNKNOWN: &str = "The security token included in the request is invalid.";

struct Door {
    server: Larder,
    key: AccessKey,
    certificate: Vec<u8>,
    _files: TempDir,
}

/// What is done to a request after it was signed.
type Change = dyn Fn(&mut HttpRequest) + Send + Sync;

struct Changed(Arc<Change>);

impl std::fmt::Debug for Changed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Changed")
    }
}

impl Intercept for Changed {
    fn name(&self) -> &'static str {
        "Changed"
    }

    fn modify_before_transmit(
        &self,
        context: &mut BeforeTransmitInterceptorContextMut<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        (self.0)(context.request_mut());
        Ok(())
    }
}

fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(u64::try_from(Clock::system().now().seconds()).unwrap())
}

impl Door {
    fn open() -> Self {
        let files = tempfile::tempdir().unwrap();
        let key = AccessKey::generate(&[7; 40]);
        let all =
            r#"{"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": "*", "Resource": "*"}}"#;
        let principal = Principal {
            name: "app".to_owned(),
            account: "000000000000".to_owned(),
            keys: vec![key.clone()],
            tags: std::collections::BTreeMap::new(),
            policies: vec![("all".to_owned(), Policy::identity(all).unwrap())],
        };
        let path = files.path().join("access.json");
        fs::write(&path, Access::new(vec![principal]).unwrap().write()).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let mut command = process::command(&["--memory", "--dynamodb", "127.0.0.1:0", "--no-console"]);
        command.args(["--tls", "self-signed", "--access"]).arg(path).env("XDG_DATA_HOME", files.path());
        let server = Larder::start(command);
        let certificate = fs::read(files.path().join("larder/tls/certificate.pem")).unwrap();
        Self { server, key, certificate, _files: files }
    }

    fn config(&self) -> aws_sdk_dynamodb::config::Builder {
        let trusted = TrustStore::empty().with_pem_certificate(self.certificate.clone());
        let tls = TlsContext::builder().with_trust_store(trusted).build().unwrap();
        let http = aws_smithy_http_client::Builder::new()
            .tls_provider(Provider::Rustls(CryptoMode::Ring))
            .tls_context(tls)
            .build_https();
        Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::from_static(REGION))
            .endpoint_url(&self.server.url)
            .credentials_provider(credentials(&self.key))
            .retry_config(RetryConfig::disabled())
            .http_client(http)
    }

    fn client(&self) -> Client {
        Client::from_conf(self.config().build())
    }

    fn at(&self, time: SystemTime) -> Client {
        Client::from_conf(self.config().time_source(StaticTimeSource::new(time)).build())
    }

    fn changing(&self, change: impl Fn(&mut HttpRequest) + Send + Sync + 'static) -> Client {
        Client::from_conf(self.config().interceptor(Changed(Arc::new(change))).build())
    }

    /// What a program does to a table of its own, to its end.
    async fn work(&self) {
        let client = self.client();
        let id = "id";
        table(&client).billing_mode(BillingMode::PayPerRequest).send().await.unwrap();
        for at in 0..10 {
            let put = client.put_item().table_name(TABLE).item(id, text(&format!("å/{at} +")));
            put.item("note", text("hush")).send().await.unwrap();
        }
        let scanned = client.scan().table_name(TABLE).limit(3).into_paginator().items().send();
        assert_eq!(scanned.collect::<Result<Vec<_>, _>>().await.unwrap().len(), 10);
        let gone = client.delete_item().table_name(TABLE).key(id, text("å/9 +")).send().await;
        gone.unwrap();
        assert!(self.note("å/9 +").await.is_none() && self.note("å/8 +").await.is_some());
    }

    async fn note(&self, id: &str) -> Option<String> {
        let got = self.client().get_item().table_name(TABLE).key("id", text(id)).send().await.unwrap();
        got.item?.get("note")?.as_s().ok().cloned()
    }
}

/// A table to be made, whose items have an `id`.
fn table(client: &Client) -> CreateTableFluentBuilder {
    let id = AttributeDefinition::builder().attribute_name("id").attribute_type(ScalarAttributeType::S);
    let key = KeySchemaElement::builder().attribute_name("id").key_type(KeyType::Hash);
    let table = client.create_table().table_name(TABLE);
    table.attribute_definitions(id.build().unwrap()).key_schema(key.build().unwrap())
}

fn credentials(key: &AccessKey) -> Credentials {
    Credentials::new(&key.id, key.secret.reveal(), None, None, "test")
}

fn text(text: &str) -> AttributeValue {
    AttributeValue::S(text.to_owned())
}

/// What a client is told that lists tables.
async fn refused(client: &Client) -> (String, String) {
    told(&client.list_tables().send().await.expect_err("it was let in"))
}

fn told<E: ProvideErrorMetadata + std::fmt::Debug>(error: &SdkError<E>) -> (String, String) {
    let status = error.raw_response().map(|response| response.status().as_u16());
    assert_eq!(status, Some(400), "{error:?}");
    (error.code().unwrap_or_default().to_owned(), error.message().unwrap_or_default().to_owned())
}

fn is(told: &(String, String), code: &str, beginning: &str) {
    assert!(told.0 == code && told.1.starts_with(beginning), "{told:?}");
}

#[tokio::test]
async fn a_round_of_work_and_who_is_not_known() {
    let door = Door::open();
    door.work().await;
    let as_somebody = |id: &str, secret: &str, token: Option<&str>| {
        let known = Credentials::new(id, secret, token.map(str::to_owned), None, "test");
        Client::from_conf(door.config().credentials_provider(known).build())
    };
    let (id, secret) = (door.key.id.as_str(), door.key.secret.reveal());
    is(
        &refused(&as_somebody("LKIA0000000000000000", secret, None)).await,
        "UnrecognizedClientException",
        UNKNOWN,
    );
    let wrong = refused(&as_somebody(id, "wrong", None)).await;
    is(&wrong, "InvalidSignatureException", MISMATCH);
    assert!(!wrong.1.contains(secret));
    let token = Some("IQoJb3JpZ2luX2VjEHgaCXVzLWVhc3QtMSJHMEUC");
    is(&refused(&as_somebody(id, secret, token)).await, "UnrecognizedClientException", UNKNOWN);
    // Whoever does not trust the certificate says nothing at all.
    let http = aws_smithy_http_client::Builder::new()
        .tls_provider(Provider::Rustls(CryptoMode::Ring))
        .tls_context(
            TlsContext::builder()
                .with_trust_store(TrustStore::empty().with_pem_certificate(Door::open().certificate.clone()))
                .build()
                .unwrap(),
        )
        .build_https();
    let distrusting = Client::from_conf(door.config().http_client(http).build());
    let error = distrusting.list_tables().send().await.unwrap_err();
    assert!(matches!(error, SdkError::DispatchFailure(_)), "{error:?}");
}

#[tokio::test]
async fn a_body_that_was_changed_after_it_was_signed() {
    let door = Door::open();
    door.work().await;
    let changing = door.changing(|request| {
        let body = String::from_utf8(request.body().bytes().unwrap().to_vec()).unwrap();
        assert!(body.contains("å/1 +"), "{body}");
        *request.body_mut() = body.replace("å/1 +", "å/2 +").into();
    });
    let told =
        told(&changing.delete_item().table_name(TABLE).key("id", text("å/1 +")).send().await.unwrap_err());
    is(&told, "InvalidSignatureException", MISMATCH);
    for id in ["å/1 +", "å/2 +"] {
        assert_eq!(door.note(id).await.as_deref(), Some("hush"));
    }
}

#[tokio::test]
async fn a_date_that_is_not_now() {
    let door = Door::open();
    let (near, far) = (Duration::from_secs(8 * 60), Duration::from_secs(16 * 60));
    for time in [now() - near, now() + near] {
        door.at(time).list_tables().send().await.unwrap();
    }
    is(&refused(&door.at(now() - far)).await, "InvalidSignatureException", "Signature expired: ");
    is(&refused(&door.at(now() + far)).await, "InvalidSignatureException", "Signature not yet current: ");
}

#[tokio::test]
async fn a_header_that_is_missing() {
    let door = Door::open();
    let without = |name: &'static str| {
        door.changing(move |request| {
            request.headers_mut().remove(name).expect("it was signed");
        })
    };
    is(
        &refused(&without("authorization")).await,
        "MissingAuthenticationTokenException",
        "Request is missing Authentication Token",
    );
    let told = refused(&without("x-amz-date")).await;
    assert!(told.0 == "IncompleteSignatureException" && told.1.contains("'X-Amz-Date'"), "{told:?}");
    // What says which operation it is, is signed too.
    let told = refused(&without("x-amz-target")).await;
    assert!(told.0 == "InvalidSignatureException" && told.1.contains("'x-amz-target'"), "{told:?}");
    for part in ["Credential", "SignedHeaders", "Signature"] {
        let cut = door.changing(move |request| {
            let said = request.headers().get("authorization").unwrap().to_owned();
            let (algorithm, pairs) = said.split_once(' ').unwrap();
            let left: Vec<&str> =
                pairs.split(", ").filter(|pair| !pair.starts_with(&format!("{part}="))).collect();
            request.headers_mut().insert("authorization", format!("{algorithm} {}", left.join(", ")));
        });
        let told = refused(&cut).await;
        assert!(
            told.0 == "IncompleteSignatureException" && told.1.contains(&format!("'{part}'")),
            "{told:?}"
        );
    }
}

/// The request as it is, with its signature in the address.
fn presign(request: &mut HttpRequest, key: &AccessKey, at: SystemTime, lives: Duration) -> String {
    for name in ["authorization", "x-amz-date", "x-amz-content-sha256"] {
        request.headers_mut().remove(name);
    }
    let mut settings = SigningSettings::default();
    settings.signature_location = SignatureLocation::QueryParams;
    settings.expires_in = Some(lives);
    let identity = credentials(key).into();
    let params = v4::SigningParams::builder()
        .identity(&identity)
        .region(REGION)
        .name("dynamodb")
        .time(at)
        .settings(settings)
        .build()
        .unwrap();
    let headers =
        request.headers().iter().filter(|(name, _)| ["content-type", "x-amz-target"].contains(name));
    let body = SignableBody::Bytes(request.body().bytes().unwrap());
    let signable = SignableRequest::new(request.method(), request.uri(), headers, body).unwrap();
    let (instructions, _) = sign(signable, &params.into()).unwrap().into_parts();
    let mut signed = http::Request::builder().uri(request.uri()).body(()).unwrap();
    instructions.apply_to_request_http1x(&mut signed);
    signed.uri().to_string()
}

#[tokio::test]
async fn a_presigned_address_is_good_again_for_its_lifetime_and_for_nothing_else() {
    let door = Door::open();
    door.work().await;
    let made: Arc<Mutex<Option<String>>> = Arc::default();
    let presigned = |at: SystemTime, lives: u64, change: fn(&mut HttpRequest)| {
        let (key, made) = (door.key.clone(), Arc::clone(&made));
        door.changing(move |request| {
            let authorization = request.headers().get("authorization").unwrap().to_owned();
            let address = made.lock().unwrap().take();
            let address = address.unwrap_or_else(|| presign(request, &key, at, Duration::from_secs(lives)));
            for name in ["authorization", "x-amz-date"] {
                request.headers_mut().remove(name);
            }
            *made.lock().unwrap() = Some(address.clone());
            request.set_uri(address).unwrap();
            request.headers_mut().insert("x-was", authorization);
            change(request);
        })
    };
    let get = async |client: &Client| {
        client
            .get_item()
            .table_name(TABLE)
            .key("id", text("å/1 +"))
            .send()
            .await
            .map(|got| got.item.is_some())
    };
    // The same address, again and again.
    let client = presigned(now(), 60, |_| {});
    for _ in 0..3 {
        assert!(get(&client).await.unwrap());
    }
    // It is good for this body alone,
    let other = client.get_item().table_name(TABLE).key("id", text("å/2 +")).send().await;
    is(&told(&other.unwrap_err()), "InvalidSignatureException", MISMATCH);
    // and lives as long as was signed.
    let longer = presigned(now(), 60, |request| {
        let address = request.uri().replace("X-Amz-Expires=60", "X-Amz-Expires=600");
        request.set_uri(address).unwrap();
    });
    is(&told(&get(&longer).await.unwrap_err()), "InvalidSignatureException", MISMATCH);
    made.lock().unwrap().take();
    let old = presigned(now() - Duration::from_secs(120), 60, |_| {});
    is(&told(&get(&old).await.unwrap_err()), "InvalidSignatureException", "Signature expired: ");
    made.lock().unwrap().take();
    assert!(get(&presigned(now() - Duration::from_secs(120), 600, |_| {})).await.unwrap());
    // In the header as well, it is refused.
    let twice = presigned(now(), 60, |request| {
        let authorization = request.headers().get("x-was").unwrap().to_owned();
        request.headers_mut().insert("authorization", authorization);
    });
    is(
        &told(&get(&twice).await.unwrap_err()),
        "InvalidSignatureException",
        "Found both 'X-Amz-Algorithm' as a query-string param and 'Authorization' as HTTP header.",
    );
}

#[tokio::test]
async fn a_wrong_secret_again_and_again_is_told_so_later() {
    let door = Door::open();
    door.client().list_tables().send().await.unwrap();
    let key =
        AccessKey { id: door.key.id.clone(), secret: Secret::new(format!("{}x", door.key.secret.reveal())) };
    let client = Client::from_conf(door.config().credentials_provider(credentials(&key)).build());
    // From the sixth on it is told later and later.
    let start = tokio::time::Instant::now();
    for _ in 0..8 {
        is(&refused(&client).await, "InvalidSignatureException", MISMATCH);
    }
    assert!(start.elapsed() >= Duration::from_millis(600), "{:?}", start.elapsed());
    door.client().list_tables().send().await.unwrap();
}

#[tokio::test]
async fn a_table_that_is_set_too_small_is_tried_again_until_there_are_units() {
    let server = Larder::serve(&["--memory", "--dynamodb", "127.0.0.1:0", "--throttle", "--no-console"]);
    let attempts = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&attempts);
    let count = move |_: &mut HttpRequest| {
        counted.fetch_add(1, Ordering::Relaxed);
    };
    let key = AccessKey::generate(&[7; 40]);
    let config = |retries: RetryConfig| {
        Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::from_static(REGION))
            .endpoint_url(&server.url)
            .credentials_provider(credentials(&key))
            .http_client(aws_smithy_http_client::Builder::new().build_http())
            .retry_config(retries)
    };
    let once = Client::from_conf(config(RetryConfig::disabled()).build());
    let units = ProvisionedThroughput::builder().read_capacity_units(100).write_capacity_units(3);
    table(&once).provisioned_throughput(units.build().unwrap()).send().await.unwrap();
    let put = |client: &Client, at: usize| {
        client.put_item().table_name(TABLE).item("id", text(&format!("{at}"))).send()
    };
    let retries =
        RetryConfig::standard().with_max_attempts(10).with_initial_backoff(Duration::from_millis(200));
    let counting = config(retries).interceptor(Changed(Arc::new(count)));
    let patient = Client::from_conf(counting.build());
    for at in 0..8 {
        put(&patient, at).await.unwrap();
    }
    let attempts = attempts.load(Ordering::Relaxed);
    assert!(attempts > 8, "eight of three a second took {attempts} attempts");
    let mut alone = 0;
    let refused = loop {
        match put(&once, alone).await {
            Ok(_) => alone += 1,
            Err(refused) => break refused,
        }
        assert!(alone < 100);
    };
    is(
        &told(&refused),
        "ProvisionedThroughputExceededException",
        "The level of configured provisioned throughput",
    );
    let found = once.scan().table_name(TABLE).consistent_read(true).send().await.unwrap();
    assert_eq!(found.count, 8);
}
