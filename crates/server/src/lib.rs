//! DynamoDB's endpoint: sockets, timers, and the path of a request from bytes to bytes.
//!
//! [`Server::bind`] opens the store and the port, [`Server::run`] serves until told to stop. HTTP/1.1 and
//! HTTP/2 with prior knowledge share the port.
//!
//! Promises:
//! - A request that was accepted is answered before the server stops, if that takes no longer than
//!   [`GRACE`].
//! - What is wrong with a request is answered with a client error. What is wrong with us is answered with
//!   "Internal server error", and its cause goes to the log alone. That holds for a panic, too, which ends
//!   neither the connection nor anything else.
//! - Requests in flight take no more memory than [`Limits`] says; what does not fit is answered with
//!   `ThrottlingException`, and small requests are the last to be.
//! - A web page gets nothing unless its origin was declared, and a request that names another host than the server nothing
//!   either ([`Door`]).
//! - With [`Config::access`] every request is signed by somebody that is known, and does what their policies allow. Without it
//!   signatures are not looked at, and only loopback is listened on unless [`Config::allow_anonymous`] says otherwise.
//! - What asks from inside the process in somebody's name ([`Guest`]) takes the same way, and is decided the same.
//!
//! ```
//! use larder_server::{Config, Server, StoreConfig};
//!
//! # tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
//! let server = Server::bind(Config::local(StoreConfig::Memory)).await?;
//! println!("listening on http://{}", server.address());
//! server.run(async { /* until this future is done */ }).await
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod access;
mod admin;
mod archive;
mod audit;
mod background;
mod backup;
mod budget;
mod config;
mod connections;
mod door;
mod encoding;
mod error;
mod guests;
mod http;
mod limits;
mod metrics;
mod panics;
mod pipeline;
mod request_id;
mod requests;
mod server;
mod tls;

pub use access::Principals;
pub use audit::{Audit, FILES_KEPT as AUDIT_FILES_KEPT};
pub use config::{Config, StoreConfig};
pub use connections::{
    AnswerBody, AnswerFuture, Answering, GRACE, Life, Peer, Shutdown, Working, serve_beside,
};
pub use door::Door;
pub use error::Error;
pub use guests::{Guest, Guests, Shown};
pub use larder_storage::Durability;
pub use larder_storage::archive::Options as ArchiveOptions;
pub use limits::Limits;
pub use panics::log_panics_with_their_place;
pub use requests::{Asked, Requests};
pub use server::Server;
pub use tls::{Tls, TlsError, TlsFiles};
