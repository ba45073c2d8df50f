//! How a call waits: on the thread that makes it, or in the event loop that it comes from.
//!
//! Work of a waiting thread begins on that thread, and so does the read of one record for an event loop: what is in memory, or in a store
//! of this process, is there then. All else, and what is not there at once, is done in the runtime. A waiting thread looks for signals
//! meanwhile, so that Ctrl-C ends the wait, and runs the loaders that its own call needs, so that they run where the program expects them.
//!
//! The runtime belongs to one process. After a fork its threads are not there, and whatever was opened before says so. When Python
//! ends, its threads are kept out of it.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::process;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, RwLock};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::{IntoPyObjectExt as _, intern};
use tokio::runtime::Runtime;
use tokio::task::AbortHandle;

use crate::error::{self, Failure};
use crate::load::Call;

/// What becomes of an outcome in Python.
pub(crate) type Reply = Box<dyn for<'py> FnOnce(Python<'py>) -> PyResult<Bound<'py, PyAny>> + Send>;
pub(crate) type Outcome = Result<Reply, Failure>;

/// How often a waiting thread looks for signals.
const SIGNALS: Duration = Duration::from_millis(50);

pub(crate) fn reply<T>(value: T) -> Reply
where
    T: for<'py> IntoPyObject<'py> + Send + 'static,
{
    Box::new(move |py| value.into_bound_py_any(py))
}

/// What is made of an outcome while Python is held.
pub(crate) fn made(
    make: impl for<'py> FnOnce(Python<'py>) -> PyResult<Bound<'py, PyAny>> + Send + 'static,
) -> Reply {
    Box::new(make)
}

pub(crate) fn none() -> Reply {
    Box::new(|py| Ok(py.None().into_bound(py)))
}

/// What a waiting thread is told.
pub(crate) enum Event {
    Done(Outcome),
    Call(Call),
}

/// Where a call came from.
pub(crate) enum Caller<'py> {
    Thread(Receiver<Event>, Sender<Event>),
    Loop(Bound<'py, PyAny>),
}

impl<'py> Caller<'py> {
    pub(crate) fn new(event_loop: Option<Bound<'py, PyAny>>) -> Self {
        match event_loop {
            Some(event_loop) => Self::Loop(event_loop),
            None => {
                let (sender, receiver) = channel();
                Self::Thread(receiver, sender)
            }
        }
    }

    /// Does the work, and gives what comes of it or a future of the loop.
    pub(crate) fn run<F>(self, py: Python<'py>, work: F) -> PyResult<Bound<'py, PyAny>>
    where
        F: Future<Output = Outcome> + Send + 'static,
    {
        let begins_here = matches!(self, Self::Thread(..));
        self.begin(py, begins_here, Box::pin(caught(work)))
    }

    /// The same of the read of one record, which begins here in a loop too: it takes less than the way to another thread.
    pub(crate) fn look<F>(self, py: Python<'py>, work: F) -> PyResult<Bound<'py, PyAny>>
    where
        F: Future<Output = Outcome> + Send + 'static,
    {
        self.begin(py, true, Box::pin(caught(work)))
    }

    fn begin(self, py: Python<'py>, begins_here: bool, mut work: Work) -> PyResult<Bound<'py, PyAny>> {
        let runtime = runtime()?;
        let at_once = begins_here.then(|| {
            py.detach(|| {
                let _inside = runtime.enter();
                // Without tokio's budget, as nobody here gives way to others.
                let looked = pin!(tokio::task::unconstrained(&mut work));
                match looked.poll(&mut Context::from_waker(Waker::noop())) {
                    Poll::Ready(outcome) => Some(outcome),
                    Poll::Pending => None,
                }
            })
        });
        if let Some(Some(outcome)) = at_once {
            return settle(py, outcome);
        }
        match self {
            Self::Thread(mut receiver, sender) => wait(py, runtime, work, &mut receiver, sender),
            Self::Loop(event_loop) => promise(py, runtime, work, &event_loop),
        }
    }
}

type Work = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// Does work that nobody's loader is part of.
pub(crate) fn run<'py, F>(
    py: Python<'py>,
    event_loop: Option<Bound<'py, PyAny>>,
    work: F,
) -> PyResult<Bound<'py, PyAny>>
where
    F: Future<Output = Outcome> + Send + 'static,
{
    Caller::new(event_loop).run(py, work)
}

/// The outcome of work, also where it panics: nobody is left waiting.
async fn caught(work: impl Future<Output = Outcome>) -> Outcome {
    let mut work = pin!(work);
    poll_fn(|context| {
        catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context)))
            .unwrap_or_else(|_| Poll::Ready(Err(Failure::Python(broken()))))
    })
    .await
}

/// A panic, whose hook has told where it was.
fn broken() -> PyErr {
    PyRuntimeError::new_err("larder failed inside: standard error says where")
}

fn settle(py: Python<'_>, outcome: Outcome) -> PyResult<Bound<'_, PyAny>> {
    match outcome {
        Ok(reply) => reply(py),
        Err(failure) => Err(failure.into_err(py)),
    }
}

fn wait<'py>(
    py: Python<'py>,
    runtime: &Runtime,
    work: Work,
    receiver: &mut Receiver<Event>,
    sender: Sender<Event>,
) -> PyResult<Bound<'py, PyAny>> {
    let task = runtime.spawn(async move {
        // Whoever was interrupted does not wait any more.
        let _ = sender.send(Event::Done(work.await));
    });
    loop {
        let waiting = &mut *receiver;
        match py.detach(move || waiting.recv_timeout(SIGNALS)) {
            Ok(Event::Done(outcome)) => return settle(py, outcome),
            Ok(Event::Call(call)) => call.here(py),
            Err(RecvTimeoutError::Timeout) => {
                if let Err(interrupt) = py.check_signals() {
                    task.abort();
                    while let Ok(event) = receiver.try_recv() {
                        if let Event::Call(call) = event {
                            call.give_up();
                        }
                    }
                    return Err(interrupt);
                }
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(broken());
            }
        }
    }
}

fn promise<'py>(
    py: Python<'py>,
    runtime: &Runtime,
    work: Work,
    event_loop: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let future = event_loop.call_method0(intern!(py, "create_future"))?;
    let (loop_of, promised) = (event_loop.clone().unbind(), future.clone().unbind());
    let task = runtime.spawn(async move {
        let outcome = work.await;
        // Nobody waits in an interpreter that ends.
        attached(|py| {
            let settled = catch_unwind(AssertUnwindSafe(|| settle(py, outcome)));
            let settled = settled.unwrap_or_else(|_| Err(broken()));
            let told = tell(py, loop_of.bind(py), promised.bind(py), settled);
            // A loop that was closed has nobody who waits either.
            drop(told);
        });
    });
    let abort = Bound::new(py, Abort(task.abort_handle()))?;
    future.call_method1(intern!(py, "add_done_callback"), (abort,))?;
    Ok(future)
}

fn tell(
    py: Python<'_>,
    event_loop: &Bound<'_, PyAny>,
    future: &Bound<'_, PyAny>,
    settled: PyResult<Bound<'_, PyAny>>,
) -> PyResult<()> {
    let helper = error::helper(py, "larder._loop")?;
    let later = intern!(py, "call_soon_threadsafe");
    match settled {
        Ok(value) => {
            event_loop.call_method1(later, (helper.getattr(intern!(py, "give"))?, future, value))?;
        }
        Err(error) => {
            event_loop
                .call_method1(later, (helper.getattr(intern!(py, "fail"))?, future, error.into_value(py)))?;
        }
    }
    Ok(())
}

/// Ends the work of a future that was cancelled.
#[pyclass(frozen, module = "larder._native")]
#[derive(Debug)]
pub(crate) struct Abort(AbortHandle);

#[pymethods]
impl Abort {
    fn __call__(&self, future: &Bound<'_, PyAny>) -> PyResult<()> {
        if future.call_method0(intern!(future.py(), "cancelled"))?.is_truthy()? {
            self.0.abort();
        }
        Ok(())
    }
}

/// How many of our threads are in Python, or on their way. Numbers and no locks: a process that is forked could find a lock held by nobody.
static INSIDE: AtomicUsize = AtomicUsize::new(0);
static HAS_ENDED: AtomicBool = AtomicBool::new(false);

/// Does something in Python on a thread of ours, unless Python ends. `Python::try_attach` cannot tell: the stable API has no
/// `Py_IsFinalizing` before 3.13, and a thread that comes too late is ended by Python in the middle of our code.
pub(crate) fn attached<T>(work: impl for<'py> FnOnce(Python<'py>) -> T) -> Option<T> {
    struct Inside;
    impl Drop for Inside {
        fn drop(&mut self) {
            one_less(&INSIDE);
        }
    }
    INSIDE.fetch_add(1, Ordering::SeqCst);
    let inside = Inside;
    let done = if HAS_ENDED.load(Ordering::SeqCst) { None } else { Python::try_attach(work) };
    drop(inside);
    done
}

/// Keeps our threads out of Python, and waits for those that are in it, at most so long.
pub(crate) fn end(longest: Duration) {
    HAS_ENDED.store(true, Ordering::SeqCst);
    wait_for_none(&INSIDE, longest);
}

/// A process that was forked has none of our threads.
pub(crate) fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    INSIDE.store(0, Ordering::SeqCst);
}

/// Not less than none: what was counted may be another process's.
pub(crate) fn one_less(count: &AtomicUsize) {
    let _ = count.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |count| count.checked_sub(1));
}

/// Waits until a count is 0, at most so long; what it is then. For the end of a process, where a few milliseconds are nothing.
pub(crate) fn wait_for_none(count: &AtomicUsize, longest: Duration) -> usize {
    let deadline = Instant::now() + longest;
    loop {
        let left = count.load(Ordering::SeqCst);
        if left == 0 || Instant::now() >= deadline {
            return left;
        }
        #[expect(
            clippy::disallowed_methods,
            reason = "a process that is forked may find no lock here, so there is no event"
        )]
        thread::sleep(Duration::from_millis(2));
    }
}

/// How many forks led to this process: what belongs to another was made at another count. Python tells of them; to ask the kernel who
/// this is takes longer, on some, than to find a record in memory.
static FORKS: AtomicUsize = AtomicUsize::new(0);

/// The runtime of this process.
static RUNTIME: RwLock<Option<(usize, &'static Runtime)>> = RwLock::new(None);

pub(crate) fn runtime() -> PyResult<&'static Runtime> {
    let this = FORKS.load(Ordering::Relaxed);
    // A fork may have happened while somebody held the lock, who is not there any more.
    if let Some(Some((owner, runtime))) = RUNTIME.try_read_recursive().as_deref().copied()
        && owner == this
    {
        return Ok(runtime);
    }
    let mut slot = RUNTIME.try_write_for(Duration::from_secs(5)).ok_or_else(|| {
        PyRuntimeError::new_err("this process was forked at a bad moment: start it with `spawn`")
    })?;
    match *slot {
        Some((owner, runtime)) if owner == this => Ok(runtime),
        before => {
            if before.is_none() {
                make_room();
            }
            let made = tokio::runtime::Builder::new_multi_thread().enable_all().thread_name("larder").build();
            let made = made.map_err(|error| {
                PyRuntimeError::new_err(format!("larder cannot start its threads: {error}"))
            })?;
            // It lives as long as the process.
            let runtime: &'static Runtime = Box::leak(Box::new(made));
            *slot = Some((this, runtime));
            Ok(runtime)
        }
    }
}

/// Threads that may wait for locks before the table of those who do has to grow.
const THREADS: usize = 64;

/// Makes the table of threads that wait for locks as large as it will ever be here. A child that is forked has the table and not the
/// threads: where it grew there, it would go through what they left behind. Locks that share a place of the table with theirs still meet
/// it, which the guide tells.
fn make_room() {
    let (there, all_there) = (Mutex::new(0), Condvar::new());
    thread::scope(|scope| {
        for _ in 0..THREADS {
            let wait = || {
                let mut count = there.lock();
                *count += 1;
                all_there.notify_all();
                all_there.wait_while(&mut count, |count| *count < THREADS);
            };
            if thread::Builder::new().spawn_scoped(scope, wait).is_err() {
                // As large as this process may make it.
                *there.lock() = THREADS;
                all_there.notify_all();
                break;
            }
        }
    });
}

/// Something that belongs to the process that made it. Another, forked from it, can neither use nor end it.
pub(crate) struct Own<T: Send> {
    value: Option<T>,
    forks: usize,
    process: u32,
}

impl<T: Send> Own<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { value: Some(value), forks: FORKS.load(Ordering::Relaxed), process: process::id() }
    }

    pub(crate) fn get(&self, py: Python<'_>) -> PyResult<&T> {
        self.check(py)?;
        self.value.as_ref().ok_or_else(|| PyRuntimeError::new_err("it is being dropped"))
    }

    fn is_ours(&self) -> bool {
        self.forks == FORKS.load(Ordering::Relaxed)
    }

    fn check(&self, py: Python<'_>) -> PyResult<()> {
        if self.is_ours() {
            return Ok(());
        }
        Err(error::raise(
            py,
            "forked",
            &format!(
                "this was opened by process {}, and process {} was forked from it: open the store in each process, after the fork, or start \
                 processes with `spawn`",
                self.process,
                process::id()
            ),
        ))
    }
}

impl<T: Send> Drop for Own<T> {
    fn drop(&mut self) {
        if !self.is_ours() {
            // Its threads are in another process; waiting for them would never end.
            std::mem::forget(self.value.take());
            return;
        }
        // What ends may wait for a disk, and for threads that want to tell something to Python; and it may need the runtime.
        if let Some(value) = self.value.take() {
            let mut value = Some(value);
            let mut drop_inside = || {
                let _inside = runtime().ok().map(Runtime::enter);
                drop(value.take());
            };
            if attached(|py| py.detach(&mut drop_inside)).is_none() {
                drop_inside();
            }
        }
    }
}
