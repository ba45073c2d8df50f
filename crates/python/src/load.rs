//! Loaders: functions of the program that a fetch calls.
//!
//! A loader of a waiting thread runs on that thread, for as long as it waits; where its source has a timeout, which nobody could keep
//! while it runs there, and for what is fetched again behind an answer, it runs on a thread of ours. A loader of an event loop
//! is called in that loop, in the context of the caller, and what it returns is awaited there.
//!
//! What a loader raises goes through the layer as it is, to all who wait for that load. What is not an `Exception`, such as
//! `KeyboardInterrupt`, is for the caller whose loader it was, also where something stale could be given instead; the others are told
//! that the load was interrupted.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

use larder::{Fields, Known, Load, Origin, Permanent, StaleReason};
use parking_lot::Mutex;
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

/// The function of a fetch, which is told from that of any other by where it is.
pub(crate) type Function = Arc<Py<PyAny>>;

/// A loader, and where it is to run.
pub(crate) struct Loader<T> {
    function: Function,
    place: Place,
    read: Read<T>,
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
        Ok(Self { function: Arc::new(function.unbind()), place, read })
    }

    /// What it is told by.
    pub(crate) fn function(&self) -> Function {
        Arc::clone(&self.function)
    }

    /// Calls it once.
    pub(crate) fn call(
        &self,
        arguments: Arguments,
    ) -> impl Future<Output = Result<Load<T>, BoxError>> + Send + use<T> {
        let (sender, answer) = oneshot::channel::<Result<Load<T>, PyErr>>();
        let (function, read, place) = (self.function(), Arc::clone(&self.read), self.place.clone());
        let by = self.function();
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
                    let asked = run::attached(|py| {
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
                        Some(Err(error)) => return Err(raised(error, by)),
                        None => return Err("Python is at its end".into()),
                    }
                }
            }
            match answer.await {
                Ok(Ok(load)) => Ok(load),
                Ok(Err(error)) => Err(raised(error, by)),
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
            RUNNING.fetch_add(1, Ordering::SeqCst);
            runtime.spawn_blocking(move || {
                run::attached(work);
                run::one_less(&RUNNING);
            });
        }
    }
}

/// How many loaders run on threads of ours. A number and no lock: a process that is forked could find a lock held by nobody.
static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// Waits until none does, at most so long; how many still do.
pub(crate) fn wait(seconds: f64) -> usize {
    run::wait_for_none(&RUNNING, Duration::try_from_secs_f64(seconds).unwrap_or_default())
}

/// A process that was forked has no threads of ours.
pub(crate) fn forked() {
    RUNNING.store(0, Ordering::SeqCst);
}

/// What a loader raised, on its way through the layer.
#[derive(Debug)]
pub(crate) struct Raised {
    error: PyErr,
    /// Its class and what it says: of an error that is dropped where Python is not held nothing could be asked.
    text: String,
    by: Function,
    /// It is no `Exception`: it ends the caller whose loader it was.
    is_interrupt: bool,
}

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

impl std::error::Error for Raised {}

impl Raised {
    /// As the caller gets it whose loader is `own`: an interrupt only its own.
    fn of(&self, py: Python<'_>, own: &Function) -> Option<PyErr> {
        (!self.is_interrupt || Arc::ptr_eq(&self.by, own)).then(|| self.error.clone_ref(py))
    }
}

fn raised(error: PyErr, by: Function) -> BoxError {
    let told = run::attached(|py| {
        // Raised again where somebody else waits, it would end their task and not the loader's.
        let is = |module, name| {
            helper(py, module)
                .and_then(|module| module.getattr(name))
                .is_ok_and(|kind| error.is_instance(py, &kind))
        };
        if is("asyncio", "CancelledError") {
            return Err(BoxError::from("the loader was cancelled"));
        }
        let text = error::told(py, &error);
        Ok(match error.is_instance_of::<pyo3::exceptions::PyException>(py) {
            true => (text, false, is("larder._errors", "Permanent")),
            false => (format!("the load was interrupted: {text}"), true, true),
        })
    });
    match told {
        Some(Ok((text, is_interrupt, is_permanent))) => {
            let raised = Raised { error, text, by, is_interrupt };
            if is_permanent { Box::new(Permanent::new(raised)) } else { Box::new(raised) }
        }
        Some(Err(cancelled)) => cancelled,
        None => "Python is at its end".into(),
    }
}

/// The failure of a fetch as the caller is to see it whose loader is `own`.
pub(crate) fn failure(py: Python<'_>, error: &larder::Error, own: &Function) -> PyErr {
    let raised = error.loader_error::<Raised>();
    match (error, raised.and_then(|raised| raised.of(py, own))) {
        (larder::Error::Down { .. }, Some(cause)) if raised.is_none_or(|raised| !raised.is_interrupt) => {
            let made = error::made(py, error);
            made.set_cause(py, Some(cause));
            made
        }
        (_, Some(cause)) => cause,
        (_, None) => error::made(py, error),
    }
}

/// What ends the caller whose loader is `own`, although something stale is there to give.
pub(crate) fn interrupt(py: Python<'_>, origin: &Origin, own: &Function) -> Option<PyErr> {
    let Origin::Stale(StaleReason::SourceFailed(error)) = origin else { return None };
    error.loader_error::<Raised>().filter(|raised| raised.is_interrupt)?.of(py, own)
}
