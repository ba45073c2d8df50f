//! What the layer tells, for listeners in JavaScript.
//!
//! Lines wait in a queue for each thread of JavaScript that listens, from which `lib/log.js` takes them: whoever tells something
//! never waits for JavaScript. A queue that is full loses the newest, and says at that place how many. What no listener asked for
//! is not told at all, and while there is none an event costs the look at one number.

use std::collections::VecDeque;
use std::fmt::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::{Mutex, RwLock};
use serde_json::{Map, Number, Value as Json, json};
use tracing::callsite::rebuild_interest_cache;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{Interest, set_global_default};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::{LOG, Shared};

const LINES_MAX: usize = 10_000;
/// The greatest whole number up to which a number of JavaScript has all digits.
const WHOLE_MAX: u64 = (1 << 53) - 1;
/// Nothing is told.
const OFF: u8 = 0;

/// The least that any thread listens to, as a [`rank`].
static LEVEL: AtomicU8 = AtomicU8::new(OFF);
static LISTENING: RwLock<Vec<Arc<Shared>>> = RwLock::new(Vec::new());
/// Whether [`Told`] hears of events. Held while `LEVEL` changes, so that `tracing` learns of the last change last.
static CHANGING: Mutex<bool> = Mutex::new(false);

/// What waits for one thread of JavaScript.
pub(crate) struct Lines {
    level: AtomicU8,
    queue: Mutex<Queue>,
}

impl Default for Lines {
    fn default() -> Self {
        Self { level: AtomicU8::new(OFF), queue: Mutex::default() }
    }
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Waiting>,
    /// JavaScript knows that there is something to take.
    is_told: bool,
}

enum Waiting {
    Line(Arc<Line>),
    /// So many that had no room, and when the first of them came.
    Lost(u64, u64),
}

struct Line {
    level: Level,
    target: String,
    message: String,
    fields: Map<String, Json>,
    millis: u64,
}

impl Lines {
    /// Whether JavaScript is to be told that there is something to take.
    fn push(&self, line: &Arc<Line>) -> bool {
        let mut queue = self.queue.lock();
        let is_full = queue.waiting.len() >= LINES_MAX;
        match queue.waiting.back_mut() {
            Some(Waiting::Lost(lost, _)) if is_full => *lost += 1,
            Some(_) if is_full => queue.waiting.push_back(Waiting::Lost(1, line.millis)),
            Some(_) | None => queue.waiting.push_back(Waiting::Line(Arc::clone(line))),
        }
        !std::mem::replace(&mut queue.is_told, true)
    }

    /// The oldest lines as records of JavaScript, and whether there are more. `None` when there are none.
    pub(crate) fn take(&self, most: usize) -> Option<String> {
        let (taken, more) = {
            let mut queue = self.queue.lock();
            let most = most.min(queue.waiting.len());
            let taken: Vec<Waiting> = queue.waiting.drain(..most).collect();
            queue.is_told = !queue.waiting.is_empty();
            (taken, queue.is_told)
        };
        let records: Vec<Json> = taken.iter().map(Waiting::record).collect();
        (!records.is_empty()).then(|| json!({ "records": records, "more": more }).to_string())
    }
}

impl Waiting {
    fn record(&self) -> Json {
        match self {
            Self::Line(line) => json!({
                "level": name(line.level),
                "target": line.target,
                "message": line.message,
                "fields": line.fields,
                "time": line.millis,
            }),
            Self::Lost(lost, millis) => json!({
                "level": name(Level::ERROR),
                "target": "larder",
                "message": format!("{lost} records were lost: more was told than listeners took"),
                "fields": { "lost": lost },
                "time": millis,
            }),
        }
    }
}

/// Sets the least that a thread of JavaScript listens to; `OFF` for nothing, and then nothing of it is left here.
pub(crate) fn listen(shared: &Arc<Shared>, level: u8) {
    let mut is_heard = CHANGING.lock();
    shared.lines.level.store(level, Ordering::Relaxed);
    let least = {
        let mut listening = LISTENING.write();
        listening.retain(|other| !Arc::ptr_eq(other, shared));
        if level > OFF {
            listening.push(Arc::clone(shared));
        }
        listening.iter().map(|one| one.lines.level.load(Ordering::Relaxed)).max().unwrap_or(OFF)
    };
    if level == OFF {
        *shared.lines.queue.lock() = Queue::default();
    }
    if LEVEL.swap(least, Ordering::Relaxed) == least {
        return;
    }
    if std::mem::replace(&mut *is_heard, true) {
        rebuild_interest_cache();
    } else {
        // It is the first of this library, which has a `tracing` of its own.
        let _ = set_global_default(Told);
    }
}

/// The least that is told in this process, to whichever thread.
pub(crate) fn level() -> u8 {
    LEVEL.load(Ordering::Relaxed)
}

fn rank(level: Level) -> u8 {
    match level {
        Level::ERROR => 1,
        Level::WARN => 2,
        Level::INFO => 3,
        Level::DEBUG => 4,
        Level::TRACE => 5,
    }
}

fn name(level: Level) -> &'static str {
    match level {
        Level::ERROR => "error",
        Level::WARN => "warn",
        Level::INFO => "info",
        Level::DEBUG => "debug",
        Level::TRACE => "trace",
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a log has the time of day, whatever a test makes of a store's clock"
)]
fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

struct Told;

impl Subscriber for Told {
    // Not "always" or "never": a callsite that is used for the first time while the level changes would stay what it was before.
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        match metadata.is_span() || !metadata.target().starts_with("larder") {
            true => Interest::never(),
            false => Interest::sometimes(),
        }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        // What other crates tell is not for the programs that use this one.
        !metadata.is_span() && metadata.target().starts_with("larder") && rank(*metadata.level()) <= level()
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        let levels = [Level::ERROR, Level::WARN, Level::INFO, Level::DEBUG, Level::TRACE];
        let most = levels.into_iter().rfind(|one| rank(*one) <= level());
        Some(most.map_or(LevelFilter::OFF, LevelFilter::from_level))
    }

    fn event(&self, event: &Event<'_>) {
        let metadata = event.metadata();
        let mut line = Line {
            level: *metadata.level(),
            target: metadata.target().replace("::", "."),
            message: String::new(),
            fields: Map::new(),
            millis: now(),
        };
        event.record(&mut line);
        let line = Arc::new(line);
        let wants = |one: &&Arc<Shared>| one.lines.level.load(Ordering::Relaxed) >= rank(line.level);
        let listening = LISTENING.read();
        let waking: Vec<Arc<Shared>> =
            listening.iter().filter(wants).filter(|one| one.lines.push(&line)).map(Arc::clone).collect();
        drop(listening);
        for shared in waking {
            shared.tell(LOG, 0, String::new());
        }
    }

    // There are no spans: none is enabled.
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

impl Line {
    fn add(&mut self, field: &Field, value: Json) {
        self.fields.insert(field.name().to_owned(), value);
    }
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            // A text cannot fail.
            let _ = write!(self.message, "{value:?}");
        } else {
            self.add(field, format!("{value:?}").into());
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            self.message.push_str(value);
        } else {
            self.add(field, value.into());
        }
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, Number::from_f64(value).map_or_else(|| value.to_string().into(), Json::Number));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        let is_exact = value.unsigned_abs() <= WHOLE_MAX;
        self.add(field, if is_exact { value.into() } else { value.to_string().into() });
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, if value <= WHOLE_MAX { value.into() } else { value.to_string().into() });
    }
}
