//! The endpoint under test, and a small client for it.
//!
//! Every request carries what an AWS SDK sends: the target, the content type, and an Authorization header of
//! the right shape. The checksum of every answer is verified if the answer has one.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;
use std::{env, fs};

use serde_json::Value;
use ureq::Agent;

use crate::answer::Answer;
use crate::process::{self, Process};

const BODY_BYTES_MAX: u64 = 64 << 20;
const LOCAL_REPEATS_MAX: u32 = 5;
/// Operations of the other service at the same address.
const STREAMS: [&str; 4] = ["ListStreams", "DescribeStream", "GetShardIterator", "GetRecords"];

/// Headers that every request carries besides its target.
pub const HEADERS: &[(&str, &str)] = &[
    ("content-type", "application/x-amz-json-1.0"),
    ("x-amz-date", "20260101T000000Z"),
    (
        "authorization",
        "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20260101/us-east-1/dynamodb/aws4_request, \
         SignedHeaders=content-type;host;x-amz-date;x-amz-target, \
         Signature=0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
    ),
];

/// Whose behaviour is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    Larder,
    DynamoDbLocal,
    Dynoxide,
    /// A server of which nothing is known: held to every assertion.
    Other,
}

impl Target {
    pub const KNOWN: [Self; 3] = [Self::Larder, Self::DynamoDbLocal, Self::Dynoxide];

    pub fn name(self) -> &'static str {
        match self {
            Self::Larder => "larder",
            Self::DynamoDbLocal => "dynamodb-local",
            Self::Dynoxide => "dynoxide",
            Self::Other => "other",
        }
    }

    fn from_name(name: &str) -> Self {
        Self::KNOWN.into_iter().find(|known| known.name() == name).unwrap_or(Self::Other)
    }
}

/// The origin of a web page that may use the endpoint.
pub const PAGE: &str = "http://example.com";

/// The bucket of S3 that exports go to.
pub const BUCKET: &str = "larder-conformance";

/// A server that speaks DynamoDB's protocol.
#[derive(Debug)]
pub struct Endpoint {
    target: Target,
    url: String,
    agent: Agent,
    _process: Option<Process>,
}

impl Endpoint {
    /// The endpoint of this test process; the first caller starts it.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Endpoint> = OnceLock::new();
        SHARED.get_or_init(Self::from_env)
    }

    fn from_env() -> Self {
        let chosen = env::var("CONFORMANCE_TARGET").unwrap_or_else(|_| "larder".to_owned());
        match chosen.as_str() {
            "larder" => {
                // Schemas of other tables change nothing for those of the tests.
                let schemas = concat!(env!("CARGO_MANIFEST_DIR"), "/../../schemas");
                let mut arguments =
                    vec!["serve", "--memory", "--dynamodb", "127.0.0.1:0", "--schema", schemas];
                let exports = exports_folder();
                arguments.extend(["--exports", &exports]);
                // AWS lets every page in.
                arguments.extend(["--allow-origin", PAGE]);
                Self::started(Target::Larder, process::start_announced(&larder_binary(), &arguments))
            }
            "dynamodb-local" => {
                let directory = env::var("DYNAMODB_LOCAL_DIR")
                    .expect("DYNAMODB_LOCAL_DIR names the directory of DynamoDBLocal.jar");
                let arguments = [
                    "-XX:+UseSerialGC",
                    "-XX:TieredStopAtLevel=1",
                    "-Djava.library.path=./DynamoDBLocal_lib",
                    "-jar",
                    "DynamoDBLocal.jar",
                    "-inMemory",
                    "-port",
                ];
                let process = process::start_on_port(Path::new("java"), Path::new(&directory), &arguments);
                Self::started(Target::DynamoDbLocal, process)
            }
            other => {
                let (name, url) = match other.split_once('=') {
                    Some((name, url)) => (name, url),
                    None => ("other", other),
                };
                assert!(
                    url.starts_with("http://"),
                    "CONFORMANCE_TARGET is neither a known name nor a URL: {other}"
                );
                Self::new(Target::from_name(name), url.trim_end_matches('/').to_owned(), None)
            }
        }
    }

    fn started(target: Target, process: Process) -> Self {
        Self::new(target, process.url.clone(), Some(process))
    }

    fn new(target: Target, url: String, process: Option<Process>) -> Self {
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(Duration::from_secs(60)))
            .accept_encoding("identity")
            .build()
            .new_agent();
        Self { target, url, agent, _process: process }
    }

    pub fn target(&self) -> Target {
        self.target
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// Host and port, for tests that write their own bytes to a socket.
    pub fn address(&self) -> &str {
        self.url.strip_prefix("http://").unwrap_or(&self.url)
    }

    /// Sends one operation.
    #[expect(clippy::needless_pass_by_value, reason = "tests pass `json!` in place")]
    pub fn call(&self, operation: &str, body: Value) -> Answer {
        self.send(operation, body.to_string())
    }

    /// Sends one operation with a body that may not be JSON.
    #[track_caller]
    pub fn send(&self, operation: &str, body: impl Into<Vec<u8>>) -> Answer {
        let answer = match self.try_send(operation, &body.into()) {
            Ok(answer) => answer,
            Err(error) => panic!("{operation} had no answer: {error}"),
        };
        if let Some(checksum) = answer.header("x-amz-crc32") {
            let expected = crc32fast::hash(&answer.bytes).to_string();
            assert_eq!(checksum, expected, "{}\nhas a wrong checksum", answer.request);
        }
        answer
    }

    /// DynamoDB Local now and then answers 500 to a request that meets another's change of its catalog, and not
    /// to the same request a moment later: it is asked again, as an SDK would. Nobody else gets a second chance.
    pub(crate) fn try_send(&self, operation: &str, body: &[u8]) -> Result<Answer, ureq::Error> {
        let mut answer = self.send_once(operation, body)?;
        for _ in 0..LOCAL_REPEATS_MAX {
            if self.target != Target::DynamoDbLocal || answer.status != 500 {
                break;
            }
            answer = self.send_once(operation, body)?;
        }
        Ok(answer)
    }

    fn send_once(&self, operation: &str, body: &[u8]) -> Result<Answer, ureq::Error> {
        let request = format!("{operation} {}", String::from_utf8_lossy(body));
        let service = if STREAMS.contains(&operation) { "DynamoDBStreams" } else { "DynamoDB" };
        let target = format!("{service}_20120810.{operation}");
        let mut post = self.agent.post(&self.url).header("x-amz-target", target);
        for (name, value) in HEADERS {
            post = post.header(*name, *value);
        }
        let mut response = post.send(body)?;
        let bytes = response.body_mut().with_config().limit(BODY_BYTES_MAX).read_to_vec()?;
        let headers = response
            .headers()
            .iter()
            .map(|(name, value)| {
                (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
            })
            .collect();
        let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        Ok(Answer { target: self.target, request, status: response.status().as_u16(), headers, body, bytes })
    }

    /// The answer of an operation that succeeds.
    #[track_caller]
    pub fn ok(&self, operation: &str, body: Value) -> Value {
        self.call(operation, body).ok()
    }

    /// The operation is refused with a ValidationException of this message.
    #[track_caller]
    pub fn invalid(&self, operation: &str, body: Value, message: &str) {
        self.call(operation, body).error("ValidationException", message);
    }

    /// Each body is refused with a ValidationException of its message. Tells of all that differ, not only the first.
    #[track_caller]
    pub fn all_invalid<'a>(&self, operation: &str, cases: impl IntoIterator<Item = (Value, &'a str)>) {
        let differences: Vec<String> = cases
            .into_iter()
            .filter_map(|(body, message)| {
                self.call(operation, body).compare_error("ValidationException", message).err()
            })
            .collect();
        assert!(differences.is_empty(), "{}", differences.join("\n\n"));
    }
}

/// What stands for S3, with one bucket. All test processes share it: names of exports differ.
fn exports_folder() -> String {
    let own = env::current_exe().expect("a running program has a path");
    let folder = own.ancestors().nth(3).expect("a test binary is in the target directory").join("exports");
    fs::create_dir_all(folder.join(BUCKET)).expect("a bucket can be made");
    folder.to_str().expect("the target directory has a name").to_owned()
}

fn larder_binary() -> PathBuf {
    if let Ok(named) = env::var("LARDER_BIN") {
        return named.into();
    }
    // A test binary is `<target dir>/<profile>/deps/<name>`.
    let own = env::current_exe().expect("a running program has a path");
    let target = own.ancestors().nth(3).expect("a test binary is in the target directory");
    let binary = target.join("debug").join("larder");
    assert!(binary.exists(), "{} is missing: build crates/cli first, or set LARDER_BIN", binary.display());
    binary
}
