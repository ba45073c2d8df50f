//! `POST /_larder/backup`: the whole store, as it is at one moment, to whoever keeps a backup of it.
//!
//! The body names the chunks that the asker has, 32 bytes each; the answer is those that it lacks, and how all fit together
//! (`larder_storage::backup`). It is sent from one snapshot while the server goes on, a chunk or two in memory at a time, to one
//! asker at a time. An asker that leaves, or takes nothing for a minute, lets go of the snapshot.
//!
//! A web page cannot ask for it: the call needs a header that a page may not send unasked, and has no answer for a request
//! that comes from one.
//!
//! Beside it stands what the server tells of the store's archive.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::HeaderMap;
use hyper::body::{Body, Bytes, Frame};
use hyper::header::{HeaderName, ORIGIN};
use larder_model::UnixTime;
use larder_model::metrics::Exposition;
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
/// How often the archive is looked at for the log.
const WATCH: Duration = Duration::from_secs(2);

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
            tracing::warn!("a backup was not taken to its end");
            return;
        }
    }
}

/// What `/metrics` tells of the archive, if there is one.
pub(crate) fn expose(store: &Store, text: &mut Exposition) {
    let Some(status) = store.archive_status() else { return };
    text.gauge("larder_archive_lag_seconds", "How long the oldest commit that is not archived has waited.")
        .sample(&[], status.lag.as_secs_f64());
    text.gauge("larder_archive_commit", "The last commit that is archived.")
        .sample(&[], status.archived.map_or(0, |position| position.commit));
    text.gauge("larder_archive_failing", "1 while the archive does not get on.")
        .sample(&[], u64::from(status.failing.is_some()));
    text.counter("larder_archive_bytes_total", "What was written to the archive.").sample(&[], status.bytes);
    text.counter("larder_archive_bases_total", "Backups that the archive made to go on from.")
        .sample(&[], status.bases);
    text.gauge(
        "larder_archive_skipped_values",
        "Damaged values that are missing in the archive's last base.",
    )
    .sample(&[], status.skipped);
    text.counter("larder_archive_gaps_total", "Times that the archive could not go on from where it was.")
        .sample(&[], status.gaps);
}

/// Tells the log how the archive is doing, as long as the server runs.
pub(crate) async fn watch(store: Store) {
    let (mut failing, mut gaps, mut skipped) = (None, 0, 0);
    loop {
        time::sleep(WATCH).await;
        let Some(status) = store.archive_status() else { return };
        match (&failing, &status.failing) {
            (before, Some(cause)) if before.as_ref() != Some(cause) => {
                tracing::error!(
                    cause,
                    lag_seconds = status.lag.as_secs(),
                    "the store is not archived; writes go on and it is tried again"
                );
            }
            (Some(_), None) => tracing::warn!("the store is archived again"),
            _ => {}
        }
        if status.gaps > gaps {
            tracing::warn!("the archive could not go on from where it was; it goes on from a new base");
        }
        if status.skipped > 0 && status.skipped != skipped {
            tracing::error!(
                values = status.skipped,
                "damaged values are missing in the archive's base: run `larder verify` on the store; older bases are kept"
            );
        }
        (failing, gaps, skipped) = (status.failing, status.gaps, status.skipped);
    }
}

fn millis(time: UnixTime) -> u64 {
    u64::try_from(time.millis()).unwrap_or_default()
}
