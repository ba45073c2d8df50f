//! Starts a server that ends with this process, however this process ends.
//!
//! A shell waits beside the server on a pipe that this process holds open. When the process is gone the pipe
//! closes and the shell ends the server: no exit hook is needed, and a crash or a kill leaves nothing behind.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

const WAIT_LIMIT: Duration = Duration::from_secs(20);

const KEEPER: &str = r#"exec 3<&0; "$@" 3<&- </dev/null & server=$!; cat <&3 >/dev/null; kill "$server""#;

/// A running server. Dropping it closes the pipe, which ends the server.
#[derive(Debug)]
pub(crate) struct Process {
    _keeper: Child,
    pub(crate) url: String,
}

/// Starts a server that says `listening on URL` on its output once it is ready.
pub(crate) fn start_announced(program: &Path, arguments: &[&str]) -> Process {
    let mut keeper = keeper(program).args(arguments).spawn().expect("a shell can be started");
    let output = keeper.stdout.take().expect("the output is piped");
    let (tell, hear) = mpsc::channel();
    // The reader goes on after the announcement, so that the server never blocks on a full pipe.
    thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if let Some((_, url)) = line.split_once("listening on ") {
                // The receiver is gone once it has its line; later lines do not matter.
                let _ = tell.send(url.split_whitespace().next().unwrap_or_default().to_owned());
            }
        }
    });
    let url = hear
        .recv_timeout(WAIT_LIMIT)
        .unwrap_or_else(|_| panic!("{} did not say that it listens", program.display()));
    Process { _keeper: keeper, url }
}

/// Starts a server that takes a port number and announces nothing: waits until the port accepts.
pub(crate) fn start_on_port(program: &Path, directory: &Path, arguments: &[&str]) -> Process {
    let port = free_port();
    let keeper = keeper(program)
        .current_dir(directory)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .args(arguments)
        .arg(port.to_string())
        .spawn()
        .expect("a shell can be started");
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    wait_until("the server accepts connections", || TcpStream::connect(address).is_ok());
    Process { _keeper: keeper, url: format!("http://{address}") }
}

/// Asks again until `done`, within the limit.
#[track_caller]
pub fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + WAIT_LIMIT;
    while !done() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        #[expect(
            clippy::disallowed_methods,
            reason = "another process is asked; it sends no event to wait for"
        )]
        thread::sleep(Duration::from_millis(10));
    }
}

fn keeper(program: &Path) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", KEEPER, "keeper"]).arg(program).stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("loopback has a free port");
    listener.local_addr().expect("a bound listener has an address").port()
}
