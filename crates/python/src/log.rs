//! What the layer tells, for Python's `logging`.
//!
//! Events wait in a queue, from which a thread of the package takes them: whoever tells something never waits for Python. What is less
//! than `logging` would show is not told at all. A queue that is full loses the newest, and says how many.

use std::fmt::Write as _;
use std::process;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Once};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use pyo3::prelude::*;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::{Layer, Registry};

const LINES_MAX: usize = 10_000;

/// `logging`'s number of the least that is shown.
static LEVEL: AtomicU8 = AtomicU8::new(30);
static LOST: AtomicU64 = AtomicU64::new(0);
static START: Once = Once::new();
static QUEUE: RwLock<Option<Queue>> = RwLock::new(None);

/// Of one process: another, forked from it, finds its locks held by threads that it has not.
struct Queue {
    owner: u32,
    sender: SyncSender<Line>,
    receiver: Arc<Mutex<Receiver<Line>>>,
}

struct Line {
    level: u8,
    target: String,
    message: String,
    fields: Vec<(String, String)>,
}

/// A line for Python: level, target, message, fields.
type Parts = (u8, String, String, Vec<(String, String)>);

/// Sets the least that is told.
#[pyfunction]
pub(crate) fn log_level(py: Python<'_>, level: u8) {
    py.detach(|| tell_from(level));
}

fn tell_from(level: u8) {
    let this = process::id();
    if QUEUE.try_read().is_none_or(|queue| queue.as_ref().is_none_or(|queue| queue.owner != this)) {
        // Whoever cannot have the lock was forked at a bad moment, and goes without a log.
        let Some(mut queue) = QUEUE.try_write_for(Duration::from_secs(1)) else { return };
        if queue.as_ref().is_none_or(|queue| queue.owner != this) {
            let (sender, receiver) = sync_channel(LINES_MAX);
            let made = Queue { owner: this, sender, receiver: Arc::new(Mutex::new(receiver)) };
            std::mem::forget(queue.replace(made));
        }
    }
    LEVEL.store(level, Ordering::Relaxed);
    START.call_once(|| {
        let told = Registry::default().with(Told);
        // A program that is more than this module may listen already.
        drop(tracing::subscriber::set_global_default(told));
    });
}

/// Where this process takes its lines from, if it has a queue. Nobody holds the lock while they wait: who is forked meanwhile
/// would find it held for ever.
fn receiver() -> Option<Arc<Mutex<Receiver<Line>>>> {
    let queue = QUEUE.try_read()?;
    let own = queue.as_ref().filter(|queue| queue.owner == process::id())?;
    Some(Arc::clone(&own.receiver))
}

/// What was told since the last call. Waits a moment for the first. `None`, at once, where this process has no queue.
#[pyfunction]
pub(crate) fn logs(py: Python<'_>) -> Option<Vec<Parts>> {
    let receiver = receiver()?;
    let mut lines = Vec::new();
    py.detach(|| {
        let receiver = receiver.lock();
        match receiver.recv_timeout(Duration::from_millis(200)) {
            Ok(line) => lines.push(line),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return,
        }
        lines.extend(receiver.try_iter().take(LINES_MAX));
    });
    let lost = LOST.swap(0, Ordering::Relaxed);
    if lost > 0 {
        let message = format!("{lost} records were lost: more was told than logging took");
        let fields = vec![("lost".to_owned(), lost.to_string())];
        lines.push(Line { level: number(Level::ERROR), target: "larder".to_owned(), message, fields });
    }
    Some(lines.into_iter().map(|line| (line.level, line.target, line.message, line.fields)).collect())
}

/// For the end, and for a process that was forked: nobody takes lines any more.
#[pyfunction]
pub(crate) fn drop_logs() {
    LEVEL.store(u8::MAX, Ordering::Relaxed);
}

struct Told;

fn number(level: Level) -> u8 {
    match level {
        Level::ERROR => 40,
        Level::WARN => 30,
        Level::INFO => 20,
        Level::DEBUG => 10,
        Level::TRACE => 5,
    }
}

impl<S: Subscriber> Layer<S> for Told {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        // What other crates tell is not for the programs that use this one.
        number(*metadata.level()) >= LEVEL.load(Ordering::Relaxed) && metadata.target().starts_with("larder")
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::TRACE)
    }

    fn register_callsite(&self, _: &'static Metadata<'static>) -> tracing::subscriber::Interest {
        tracing::subscriber::Interest::sometimes()
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut line = Line {
            level: number(*event.metadata().level()),
            target: event.metadata().target().to_owned(),
            message: String::new(),
            fields: Vec::new(),
        };
        event.record(&mut line);
        let queue = QUEUE.try_read();
        let queue =
            queue.as_ref().and_then(|queue| queue.as_ref()).filter(|queue| queue.owner == process::id());
        if queue.is_none_or(|queue| queue.sender.try_send(line).is_err()) {
            LOST.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() == "message" {
            // A text cannot fail.
            let _ = write!(self.message, "{value:?}");
        } else {
            self.fields.push((field.name().to_owned(), format!("{value:?}")));
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            self.message.push_str(value);
        } else {
            self.fields.push((field.name().to_owned(), value.to_owned()));
        }
    }
}
