//! `POST /_larder/backup`: the whole store, as it is at one moment, to whoever keeps a backup of it.
//!
//! The body names the chunks that the asker has, 32 bytes each; the answer is those that it lacks, and how all fit together
//! (`larder_storage::backup`). It is sent from one snapshot while the server goes on, a chunk or two in memory at a time, to one
//! asker at a time. An asker that leaves, or takes nothing for a minute, lets go of the snapshot.
//!
//! A web page cannot ask for it: the call needs a header that a page may not send unasked, and has no answer for a request
//! that comes from one.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::HeaderMap;
use hyper::body::{Body, Bytes, Frame};
use hyper::header::{HeaderName, ORIGIN};
use larder_model::UnixTime;
use larder_storage::Store;
use larder_storage::backup::{Outgoing, Request};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task;
use tokio::time;

pub(crate) const PATH: &str = "/_larder/backup";
const ADMIN: HeaderName = HeaderName::from_static("x-larder-admin");
/// Messages that are made before the asker takes them; each is a chunk at most.
const AHEAD: usize = 1;
/// How long an asker may take nothing.
const PATIENCE: Duration = Duration::from_secs(60);

/// Sends backups, one at a time.
#[derive(Debug)]
pub(crate) struct Backups {
    store: Store,
    one: Arc<Semaphore>,
}

/// An answer that is sent as it is made.
pub(crate) struct Streamed {
    parts: mpsc::Receiver<Bytes>,
    on_each: Option<Box<dyn Fn() + Send>>,
}

impl Streamed {
    /// Calls back with every part that is taken.
    pub(crate) fn on_each(&mut self, call: impl Fn() + Send + 'static) {
        self.on_each = Some(Box::new(call));
    }
}

impl fmt::Debug for Streamed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Streamed")
    }
}

impl Body for Streamed {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let part = self.parts.poll_recv(context);
        if part.is_ready()
            && let Some(call) = &self.on_each
        {
            call();
        }
        part.map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}

impl Backups {
    pub(crate) fn new(store: Store) -> Self {
        Self { store, one: Arc::new(Semaphore::new(1)) }
    }

    /// Whether the request is meant, and not made by a web page.
    pub(crate) fn may_ask(headers: &HeaderMap) -> bool {
        headers.contains_key(ADMIN) && !headers.contains_key(ORIGIN)
    }

    /// Begins to send; none if another is being sent.
    pub(crate) fn send(&self, known: Bytes, skip_damage: bool, now: UnixTime) -> Option<Streamed> {
        let permit = Arc::clone(&self.one).try_acquire_owned().ok()?;
        let (sender, receiver) = mpsc::channel(AHEAD);
        let request = Request { now_ms: millis(now), skip_damage, base: None };
        let store = self.store.clone();
        let runtime = Handle::current();
        task::spawn_blocking(move || send_all(&store, &known, request, &sender, &runtime, permit));
        Some(Streamed { parts: receiver, on_each: None })
    }
}

fn send_all(
    store: &Store,
    known: &[u8],
    request: Request,
    sender: &mpsc::Sender<Bytes>,
    runtime: &Handle,
    _one: OwnedSemaphorePermit,
) {
    let snapshot = store.snapshot();
    for message in Outgoing::new(&snapshot, known, store.is_sealed(), request) {
        let sent = runtime.block_on(time::timeout(PATIENCE, sender.send(message.into())));
        if !matches!(sent, Ok(Ok(()))) {
            tracing::warn!("a backup was not completed");
            return;
        }
    }
}

pub(crate) fn millis(time: UnixTime) -> u64 {
    u64::try_from(time.millis()).unwrap_or_default()
}
