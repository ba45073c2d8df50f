//! DynamoDB Local for tests: the official jar, started on a free port and ended with its handle.
//!
//! `DYNAMODB_LOCAL_DIR` names the directory of the jar. Without it the tests that want it are not run there, and
//! say so.

use std::env;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

/// A running DynamoDB Local. Dropping it ends it.
#[derive(Debug)]
pub struct DynamoDbLocal {
    child: Child,
    pub url: String,
}

impl DynamoDbLocal {
    /// Starts one, where there is one.
    ///
    /// # Panics
    ///
    /// If it does not start: the test that wants it fails.
    pub fn start() -> Option<Self> {
        let Some(directory) = env::var("DYNAMODB_LOCAL_DIR").ok().filter(|path| !path.is_empty()) else {
            eprintln!("not run on DynamoDB Local: DYNAMODB_LOCAL_DIR does not name its directory");
            return None;
        };
        let port = free_port();
        let child = Command::new("java")
            .args(["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.library.path=./DynamoDBLocal_lib"])
            .args(["-jar", "DynamoDBLocal.jar", "-inMemory", "-port", &port.to_string()])
            .current_dir(directory)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("Java is installed");
        let local = Self { child, url: format!("http://127.0.0.1:{port}") };
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(begun.elapsed() < PATIENCE, "waited in vain for DynamoDB Local");
            #[expect(
                clippy::disallowed_methods,
                reason = "another process is asked; it sends no event to wait for"
            )]
            thread::sleep(Duration::from_millis(10));
        }
        Some(local)
    }
}

impl Drop for DynamoDbLocal {
    fn drop(&mut self) {
        // Both fail only when it has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("loopback has a free port");
    listener.local_addr().expect("a bound listener has an address").port()
}
