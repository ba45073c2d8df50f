//! Loaders: functions of JavaScript that the layer calls when it needs a source.
//!
//! A loader is a number. It may be called more than once, by a retry or a refresh, long after the fetch that brought it was
//! answered; JavaScript keeps the function until it is told that it is gone. A call that nobody waits for any more, because the
//! source's time was up, is told too.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use larder::{Known, Load, Permanent};
use larder_schema::Fields;
use parking_lot::Mutex;
use serde_json::{Value as Json, json};
use tokio::sync::oneshot;

use crate::{GIVEN_UP, LOAD, LOADER_GONE, Shared, THROWN_GONE};

/// What a loader threw, by the number under which JavaScript keeps it until it is told that it is gone.
#[derive(Debug)]
pub(crate) struct Thrown {
    shared: Arc<Shared>,
    pub(crate) id: u32,
    text: String,
}

impl fmt::Display for Thrown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

impl std::error::Error for Thrown {}

impl Drop for Thrown {
    fn drop(&mut self) {
        self.shared.tell(THROWN_GONE, self.id, String::new());
    }
}

const ENDED: &str = "the thread that it would be loaded on has ended";

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The calls that wait for JavaScript; `None` when it answers no more.
pub(crate) struct Loads(Mutex<Option<HashMap<u32, oneshot::Sender<String>>>>);

impl Default for Loads {
    fn default() -> Self {
        Self(Mutex::new(Some(HashMap::new())))
    }
}

impl Loads {
    pub(crate) fn answer(&self, call: u32, text: String) {
        let waiting = self.0.lock().as_mut().and_then(|waiting| waiting.remove(&call));
        if let Some(waiting) = waiting {
            // Whoever waited may have just given up.
            let _ = waiting.send(text);
        }
    }

    /// Nothing will be answered any more: what waits fails, and so does what would.
    pub(crate) fn close(&self) {
        *self.0.lock() = None;
    }
}

/// A function of JavaScript.
pub(crate) struct Loader {
    shared: Arc<Shared>,
    id: u32,
    /// Whether JavaScript has it: not before the fetch turns out to take longer.
    is_kept: AtomicBool,
}

impl Drop for Loader {
    fn drop(&mut self) {
        if self.is_kept.load(Ordering::Acquire) {
            self.shared.tell(LOADER_GONE, self.id, String::new());
        }
    }
}

/// A call that tells JavaScript when it is dropped without an answer.
struct Waiting {
    shared: Arc<Shared>,
    call: u32,
    answered: bool,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if !self.answered {
            if let Some(waiting) = self.shared.loads.0.lock().as_mut() {
                waiting.remove(&self.call);
            }
            self.shared.tell(GIVEN_UP, self.call, String::new());
        }
    }
}

impl Loader {
    pub(crate) fn new(shared: Arc<Shared>, id: u32) -> Arc<Self> {
        Arc::new(Self { shared, id, is_kept: AtomicBool::new(false) })
    }

    /// JavaScript keeps it until it is told otherwise.
    pub(crate) fn keep(&self) {
        self.is_kept.store(true, Ordering::Release);
    }

    /// Calls it. `read` makes fields of what it gave.
    pub(crate) async fn call<T>(
        self: Arc<Self>,
        key: Json,
        known: Known,
        read: impl Fn(&Json) -> Option<T>,
    ) -> Result<Load<T>, BoxError> {
        let (sender, receiver) = oneshot::channel();
        let call = self.shared.next();
        match self.shared.loads.0.lock().as_mut() {
            Some(waiting) => drop(waiting.insert(call, sender)),
            None => return Err(ENDED.into()),
        }
        let mut waiting = Waiting { shared: Arc::clone(&self.shared), call, answered: false };
        let asked = json!({
            "call": call,
            "key": key,
            "etag": known.etag(),
            "lastModified": known.last_modified(),
        });
        self.shared.tell(LOAD, self.id, asked.to_string());
        let answer = receiver.await.map_err(|_| ENDED)?;
        waiting.answered = true;
        let answer: Json = serde_json::from_str(&answer)?;
        if let Some(failed) = answer.get("failed") {
            let text = failed.as_str().map_or_else(|| failed.to_string(), str::to_owned);
            // It is kept under the number of the call that it ended.
            let thrown = Thrown { shared: Arc::clone(&self.shared), id: call, text };
            return Err(match answer["permanent"].as_bool() {
                Some(true) => Permanent::new(thrown).into(),
                _ => thrown.into(),
            });
        }
        // Only a loader that said so has found nothing.
        let mut load = match (answer.get("value"), answer["notModified"].as_bool()) {
            (_, Some(true)) => Load::not_modified(),
            (Some(Json::Null), _) => Load::absent(),
            (None, _) => return Err("the loader's answer has neither a value nor a failure".into()),
            (Some(value), _) => Load::value(read(value).ok_or("the loader gave no object with the fields")?),
        };
        if let Some(etag) = answer["etag"].as_str() {
            load = load.etag(etag);
        }
        if let Some(moment) = answer["lastModified"].as_str() {
            load = load.last_modified(moment);
        }
        if let Some(ttl) = answer["ttl"].as_f64().and_then(crate::millis) {
            load = load.ttl(ttl);
        }
        Ok(load)
    }
}

/// What a loader gives for a record.
pub(crate) fn fields_of(
    read: impl Fn(&serde_json::Map<String, Json>) -> Fields,
) -> impl Fn(&Json) -> Option<Fields> {
    move |value| value.as_object().map(&read)
}
