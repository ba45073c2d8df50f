//! Loaders: functions of the program that a fetch calls.
//!
//! A loader of a waiting thread runs on that thread, for as long as it waits; where its source has a timeout, which nobody could keep
//! while it runs there, and for what is fetched again behind an answer, it runs on a thread of ours. A loader of an event loop
//! is called in that loop, in the context of the caller, and what it returns is awaited there.
//!
//! What a loader raises is kept while somebody fetches that key, and given to all of them. What is not an `Exception`, such as
//! `KeyboardInterrupt`, is for the caller whose loader it was; the others are told that the load was interrupted.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use larder::{Fields, Known, Load, Permanent, Value};
use parking_lot::{Condvar, Mutex};
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use tokio::sync::oneshot;

use crate::error::{self, helper};
use crate::run::{self, Caller, Event};
use crate::value;

pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;
/// Reads what a loader returned.
pub(crate) type Read<T> = Arc<dyn Fn(&Bound<'_, PyAny>) -> PyResult<T> + Send + Sync>;

/// A loader, and where it is to run.
pub(crate) struct Loader<T> {
    function: Arc<Py<PyAny>>,
    place: Place,
    read: Read<T>,
    raised: Arc<Raised>,
}

#[derive(Clone)]
enum Place {
    Caller(Sender<Event>),
    Worker,
    Loop { event_loop: Arc<Py<PyAny>>, context: Arc<Py<PyAny>> },
}

type Arguments = Box<dyn for<'py> FnOnce(Python<'py>) -> PyResult<Bound<'py, PyTuple>> + Send>;

impl<T: Send + 'static> Loader<T> {
    /// `in_time`: its source has a timeout.
    pub(crate) fn new(
        py: Python<'_>,
        caller: &Caller<'_>,
        function: Bound<'_, PyAny>,
        in_time: bool,
        read: Read<T>,
        raised: Arc<Raised>,
    ) -> PyResult<Self> {
        if !function.is_callable() {
            return Err(PyTypeError::new_err("load is not a function"));
        }
        let place = match caller {
            Caller::Thread(..) if in_time => Place::Worker,
            Caller::Thread(_, sender) => Place::Caller(sender.clone()),
            Caller::Loop(event_loop) => Place::Loop {
                event_loop: Arc::new(event_loop.clone().unbind()),
                context: Arc::new(py.import("contextvars")?.call_method0("copy_context")?.unbind()),
            },
        };
        Ok(Self { function: Arc::new(function.unbind()), place, read, raised })
    }

    /// Calls it once.
    pub(crate) fn call(
        &self,
        arguments: Arguments,
    ) -> impl Future<Output = Result<Load<T>, BoxError>> + Send + use<T> {
        let (sender, answer) = oneshot::channel::<Result<Load<T>, PyErr>>();
        let (function, read, raised) =
            (Arc::clone(&self.function), Arc::clone(&self.read), Arc::clone(&self.raised));
        let place = self.place.clone();
        async move {
            match place {
                Place::Caller(waiting) => {
                    let call =
                        Call::new(move |py| drop(sender.send(called(py, &function, arguments, &*read))));
                    // Where nobody waits any more, the call itself sees to it.
                    drop(waiting.send(Event::Call(call)));
                }
                Place::Worker => {
                    drop(Call::new(move |py| drop(sender.send(called(py, &function, arguments, &*read)))));
                }
                Place::Loop { event_loop, context } => {
                    let asked = Python::try_attach(|py| {
                        let told = Mutex::new(Some(Box::new(
                            move |py: Python<'_>, got: PyResult<Bound<'_, PyAny>>| {
                                let loaded = got.and_then(|got| loaded(py, &got, &*read));
                                drop(sender.send(loaded));
                            },
                        ) as Told));
                        let answer = Bound::new(py, Answer(told))?;
                        let start = helper(py, "larder._loop")?.getattr(intern!(py, "start"))?;
                        let options = pyo3::types::PyDict::new(py);
                        options.set_item("context", context.bind(py))?;
                        let arguments = (start, function.bind(py), arguments(py)?, answer);
                        event_loop.bind(py).call_method("call_soon_threadsafe", arguments, Some(&options))?;
                        PyResult::Ok(())
                    });
                    match asked {
                        Some(Ok(())) => {}
                        Some(Err(error)) => return Err(raised.keep(error)),
                        None => return Err("Python is at its end".into()),
                    }
                }
            }
            match answer.await {
                Ok(Ok(load)) => Ok(load),
                Ok(Err(error)) => Err(raised.keep(error)),
                Err(_) => {
                    Err("whoever was to load it was interrupted, or their event loop was closed".into())
                }
            }
        }
    }
}

fn called<T>(
    py: Python<'_>,
    function: &Py<PyAny>,
    arguments: Arguments,
    read: &(dyn Fn(&Bound<'_, PyAny>) -> PyResult<T> + Send + Sync),
) -> PyResult<Load<T>> {
    let got = function.bind(py).call1(arguments(py)?)?;
    if helper(py, "inspect")?.getattr(intern!(py, "iscoroutine"))?.call1((&got,))?.is_truthy()? {
        got.call_method0(intern!(py, "close"))?;
        return Err(PyTypeError::new_err(
            "load is a coroutine function: open the system with `larder.aio.open`",
        ));
    }
    loaded(py, &got, read)
}

/// What a loader said: nothing, a value, or a `larder.Load`.
fn loaded<T>(
    py: Python<'_>,
    got: &Bound<'_, PyAny>,
    read: &(dyn Fn(&Bound<'_, PyAny>) -> PyResult<T> + Send + Sync),
) -> PyResult<Load<T>> {
    if got.is_none() {
        return Ok(Load::absent());
    }
    let kind = helper(py, "larder._load")?.getattr(intern!(py, "Load"))?;
    if !got.is_instance(&kind)? {
        return read(got).map(Load::value);
    }
    let mut load = match got.getattr(intern!(py, "answer"))?.extract::<String>()?.as_str() {
        "value" => Load::value(read(&got.getattr(intern!(py, "value"))?)?),
        "absent" => Load::absent(),
        _ => Load::not_modified(),
    };
    if let Some(etag) = got.getattr(intern!(py, "etag"))?.extract::<Option<String>>()? {
        load = load.etag(etag);
    }
    if let Some(moment) = got.getattr(intern!(py, "last_modified"))?.extract::<Option<String>>()? {
        load = load.last_modified(moment);
    }
    if let Some(ttl) = got.getattr(intern!(py, "ttl"))?.extract::<Option<Duration>>()? {
        load = load.ttl(ttl);
    }
    Ok(load)
}

/// What is kept already, for the loader.
pub(crate) fn known<'py>(py: Python<'py>, known: &Known) -> PyResult<Bound<'py, PyAny>> {
    helper(py, "larder._load")?.getattr(intern!(py, "Known"))?.call1((known.etag(), known.last_modified()))
}

/// The values of a key, in order.
pub(crate) fn key_arguments<'py>(
    py: Python<'py>,
    system: &larder::System,
    entity: &str,
    key: &Fields,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let schema = system.schema();
    let Some((_, entity)) = schema.entity(entity) else { return Ok(Vec::new()) };
    let names = value::key_names(entity);
    let values = names.iter().map(|field| match key.get(&field.name) {
        Some(given) => value::value_out(py, schema, &field.kind, given),
        None => Ok(py.None().into_bound(py)),
    });
    values.collect()
}

type Told = Box<dyn for<'py> FnOnce(Python<'py>, PyResult<Bound<'py, PyAny>>) + Send>;

/// Takes what a loader in an event loop came to. Dropped without, it came to nothing.
#[pyclass(frozen, module = "larder._native")]
pub(crate) struct Answer(Mutex<Option<Told>>);

#[pymethods]
impl Answer {
    fn __call__(&self, py: Python<'_>, value: Bound<'_, PyAny>, error: Option<Bound<'_, PyAny>>) {
        let told = self.0.lock().take();
        if let Some(told) = told {
            told(py, error.map_or(Ok(value), |error| Err(PyErr::from_value(error))));
        }
    }
}

/// A call of a loader, to be made by the thread that waits for it.
pub(crate) struct Call(Option<Work>);

type Work = Box<dyn for<'py> FnOnce(Python<'py>) + Send>;

impl Call {
    fn new(work: impl for<'py> FnOnce(Python<'py>) + Send + 'static) -> Self {
        Self(Some(Box::new(work)))
    }

    pub(crate) fn here(mut self, py: Python<'_>) {
        if let Some(work) = self.0.take() {
            work(py);
        }
    }

    /// Whoever waited was interrupted: it is not made.
    pub(crate) fn give_up(mut self) {
        self.0 = None;
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        // Its thread has its answer already, and what is fetched is for those who come later.
        if let (Some(work), Ok(runtime)) = (self.0.take(), run::runtime()) {
            *RUNNING.lock() += 1;
            runtime.spawn_blocking(move || {
                Python::try_attach(work);
                *RUNNING.lock() -= 1;
                ENDED.notify_all();
            });
        }
    }
}

/// How many loaders run on threads of ours.
static RUNNING: Mutex<usize> = Mutex::new(0);
static ENDED: Condvar = Condvar::new();

pub(crate) fn wait(seconds: f64) -> usize {
    let deadline = Instant::now() + Duration::try_from_secs_f64(seconds).unwrap_or_default();
    let mut running = RUNNING.lock();
    while *running > 0 && !ENDED.wait_until(&mut running, deadline).timed_out() {}
    *running
}

/// The last thing that was raised, and how it is told.
type Last = Mutex<Option<(String, PyErr)>>;

/// What loaders raised, as one caller is to see it.
pub(crate) struct Raised {
    /// By any loader of the key.
    shared: Arc<Last>,
    /// By the caller's own, to end the caller.
    own: Last,
}

impl Raised {
    fn keep(&self, error: PyErr) -> BoxError {
        let kept = Python::try_attach(|py| {
            // Raised again where somebody else waits, it would end their task and not the loader's.
            let cancelled = helper(py, "asyncio")
                .and_then(|asyncio| asyncio.getattr(intern!(py, "CancelledError")))
                .is_ok_and(|kind| error.is_instance(py, &kind));
            if cancelled {
                return Err(BoxError::from("the loader was cancelled"));
            }
            let text = error::told(py, &error);
            if !error.is_instance_of::<pyo3::exceptions::PyException>(py) {
                let text = format!("the load was interrupted: {text}");
                *self.own.lock() = Some((text.clone(), error));
                return Ok((text, true));
            }
            let permanent = helper(py, "larder._errors")
                .and_then(|errors| errors.getattr(intern!(py, "Permanent")))
                .is_ok_and(|kind| error.is_instance(py, &kind));
            *self.shared.lock() = Some((text.clone(), error));
            Ok((text, permanent))
        });
        match kept {
            Some(Ok((text, true))) => Box::new(Permanent::new(text)),
            Some(Ok((text, false))) => text.into(),
            Some(Err(error)) => error,
            None => "Python is at its end".into(),
        }
    }

    /// What was raised, if that is what the cause tells of.
    pub(crate) fn of(&self, py: Python<'_>, cause: &str) -> Option<PyErr> {
        told_as(py, &self.own, cause).or_else(|| told_as(py, &self.shared, cause))
    }
}

fn told_as(py: Python<'_>, last: &Last, cause: &str) -> Option<PyErr> {
    let kept = last.lock();
    kept.as_ref().filter(|(text, _)| text == cause).map(|(_, error)| error.clone_ref(py))
}

/// A key as one text, which no other key of its entity has.
pub(crate) fn identity(key: &Fields) -> String {
    let mut text = String::new();
    for value in key.values() {
        // A text cannot fail.
        let _ = match value {
            Value::Text(part) => write!(text, "{}:{part}", part.len()),
            Value::Number(number) => write!(text, "{number};"),
            other => write!(text, "{other:?};"),
        };
    }
    text
}

/// What is being fetched, by entity and key, with what its loaders raise.
#[derive(Default)]
pub(crate) struct Fetching(Mutex<HashMap<(String, String), Weak<Last>>>);

impl Fetching {
    pub(crate) fn of(&self, entity: &str, key: &str) -> Arc<Raised> {
        let mut all = self.0.lock();
        if all.len() >= 1024 && all.len().is_power_of_two() {
            all.retain(|_, raised| raised.strong_count() > 0);
        }
        let slot = all.entry((entity.to_owned(), key.to_owned())).or_default();
        let shared = slot.upgrade().unwrap_or_else(|| {
            let shared = Arc::new(Last::default());
            *slot = Arc::downgrade(&shared);
            shared
        });
        Arc::new(Raised { shared, own: Last::default() })
    }

    pub(crate) fn done(&self, entity: &str, key: &str) {
        let mut all = self.0.lock();
        let id = (entity.to_owned(), key.to_owned());
        if all.get(&id).is_some_and(|raised| raised.strong_count() == 0) {
            all.remove(&id);
        }
    }
}

/// The failure of a fetch as its caller is to see it.
pub(crate) fn failure(py: Python<'_>, error: &larder::Error, raised: &Raised) -> PyErr {
    match error {
        larder::Error::Source { cause, .. } => {
            raised.of(py, &cause.to_string()).unwrap_or_else(|| error::made(py, error))
        }
        larder::Error::Down { source_cause, .. } => {
            let cause = source_cause.to_string();
            if let Some(interrupt) = told_as(py, &raised.own, &cause) {
                return interrupt;
            }
            let made = error::made(py, error);
            if let Some(cause) = raised.of(py, &cause) {
                made.set_cause(py, Some(cause));
            }
            made
        }
        _ => error::made(py, error),
    }
}
