//! The `larder` binary as a process.

#![allow(dead_code, reason = "each test file uses what it needs")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use ureq::Agent;

const LIMIT: Duration = Duration::from_secs(30);

/// A running server. Dropping it is SIGKILL: no handler runs, nothing is flushed.
pub(crate) struct Larder {
    pub(crate) child: Child,
    pub(crate) url: String,
}

impl Larder {
    pub(crate) fn serve(arguments: &[&str]) -> Larder {
        Self::start(command(arguments))
    }

    pub(crate) fn start(mut command: Command) -> Larder {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the binary was built with this test");
        let mut output = BufReader::new(child.stdout.take().expect("the output is piped"));
        let (tell, hear) = mpsc::channel();
        thread::spawn(move || {
            let mut line = String::new();
            output.read_line(&mut line).expect("the announcement is text");
            // The receiver may have given up.
            let _ = tell.send(line);
        });
        let line = hear.recv_timeout(LIMIT).expect("an announcement in time");
        let url = line.trim_end().strip_prefix("listening on ").expect("the announcement").to_owned();
        Larder { child, url }
    }

    pub(crate) fn on(data: &Path, arguments: &[&str]) -> Larder {
        let data = data.to_str().expect("temporary paths are text");
        let mut all = vec!["--data", data, "--dynamodb", "127.0.0.1:0"];
        all.extend_from_slice(arguments);
        Self::serve(&all)
    }
}

impl Drop for Larder {
    fn drop(&mut self) {
        // Both fail only when it has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A directory with the five schemas in it.
pub(crate) fn place_with_schemas() -> TempDir {
    let place = tempfile::tempdir().expect("a place for temporary files");
    let (from, to) =
        (Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas"), place.path().join("schemas"));
    fs::create_dir(&to).expect("the directory is new");
    for entry in fs::read_dir(from).expect("the schemas are there") {
        let entry = entry.expect("they can be read");
        fs::copy(entry.path(), to.join(entry.file_name())).expect("the directory can be written");
    }
    place
}

/// `larder serve`, not yet started: the program built with the test, or the one that `LARDER_UNDER_TEST` names.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let other = std::env::var_os("LARDER_UNDER_TEST");
    let mut command = Command::new(other.as_deref().unwrap_or(env!("CARGO_BIN_EXE_larder").as_ref()));
    command
        .arg("serve")
        .args(arguments)
        .stdin(Stdio::null())
        .env("RUST_BACKTRACE", "1")
        .env_remove("LARDER_LOG");
    command
}

/// A client with one connection of its own.
pub(crate) struct Client {
    agent: Agent,
    url: String,
}

impl Client {
    pub(crate) fn new(url: &str) -> Client {
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(LIMIT))
            .build()
            .new_agent();
        Client { agent, url: url.to_owned() }
    }

    /// The status and body of the answer. An error when there was none: the server may or may not have acted.
    #[expect(clippy::needless_pass_by_value, reason = "tests pass `json!` in place")]
    pub(crate) fn send(&self, operation: &str, body: Value) -> Result<(u16, Value), ureq::Error> {
        let mut response = self
            .agent
            .post(&self.url)
            .header("content-type", "application/x-amz-json-1.0")
            .header("x-amz-target", format!("DynamoDB_20120810.{operation}"))
            .send(body.to_string())?;
        let bytes = response.body_mut().read_to_vec()?;
        let body = serde_json::from_slice(&bytes).expect("an answer that came whole is JSON");
        Ok((response.status().as_u16(), body))
    }

    /// Expiry cannot be switched twice within one.
    pub(crate) fn pass_an_hour(&self) {
        let post = self.agent.post(format!("{}/_larder/clock", self.url));
        let answer = post.header("content-type", "application/json").send(r#"{"advance_seconds": 3600}"#);
        assert_eq!(answer.expect("an answer").status().as_u16(), 200);
    }

    #[track_caller]
    pub(crate) fn ok(&self, operation: &str, body: Value) -> Value {
        let (status, answer) = self.send(operation, body).expect("an answer");
        assert_eq!(status, 200, "{operation}: {answer}");
        answer
    }
}
