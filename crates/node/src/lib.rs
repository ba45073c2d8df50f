//! Larder for Node: the layer itself, called from JavaScript.
//!
//! What crosses between the two is text: JSON with the values of `values.rs`. `lib/system.js` makes of it what programs
//! use, with JavaScript's own types; it knows the schema from `describe`, and this crate knows nothing of JavaScript.
//!
//! A [`Bridge`] is one thread of JavaScript: the main one or a worker's. [`Bridge::call`] starts something and either
//! answers at once or says so later, by the one function that a bridge was made with; so does whatever a loader
//! is to be called for, a lease that was lost, and that there is something for those who listen to the log. That function
//! never keeps a process alive; `lib/bridge.js` does while it waits for an answer.
//!
//! Promises:
//! - Every call is answered once, whatever happens meanwhile, a panic included.
//! - Reads begin on the thread that asks: what is in L1 or in an embedded store's memory is answered without a change of
//!   threads. Nothing else is done there.
//! - A bridge that goes away, because its worker was ended, waits for what is written behind as long as the schema's
//!   `drain` says.

mod calls;
mod describe;
mod errors;
mod lease;
mod loads;
mod log;
mod values;

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::FutureExt as _;
use larder::{InvalidationPlan, Store, System};
use napi::bindgen_prelude::{FnArgs, Function};
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use napi::{Error, Status};
use napi_derive::napi;
use parking_lot::Mutex;
use serde_json::{Value as Json, json};
use tokio::runtime::Runtime;

use calls::Call;
use loads::{Loader, Loads};

/// Where everything runs that JavaScript does not wait for. One for the process, as threads are: bridges come and go with
/// workers, and what a worker leaves to be written is written after it.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread()
        .thread_name("larder")
        .enable_all()
        .build()
        .expect("a process can start threads")
});

/// What is said to JavaScript, its id and its text.
type Said = FnArgs<(u32, u32, String)>;
type Tell = ThreadsafeFunction<Said, (), Said, Status, false, true, 0>;

/// A call is answered.
const ANSWER: u32 = 0;
/// A loader is to be called.
const LOAD: u32 = 1;
/// Nobody waits for what a loader was called for.
const GIVEN_UP: u32 = 2;
/// A loader will not be called any more.
const LOADER_GONE: u32 = 3;
/// A lease was lost.
const LEASE_LOST: u32 = 4;
/// What a loader threw is not told to anyone any more.
const THROWN_GONE: u32 = 5;
/// There are lines to take for those who listen to what is told.
const LOG: u32 = 6;

/// One thread of JavaScript, and all it has open.
#[napi]
pub struct Bridge(Arc<Shared>);

impl fmt::Debug for Bridge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bridge").finish_non_exhaustive()
    }
}

pub(crate) struct Shared {
    tell: Tell,
    next: AtomicU32,
    pub(crate) stores: Handles<Store>,
    pub(crate) systems: Handles<System>,
    pub(crate) claims: Handles<Arc<lease::Claims>>,
    pub(crate) leases: Handles<lease::Handle>,
    pub(crate) plans: Handles<Arc<InvalidationPlan>>,
    pub(crate) loads: Loads,
    lines: log::Lines,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

/// What JavaScript holds by number, each with the system that it is of, if it is of one.
pub(crate) struct Handles<T>(Mutex<HashMap<u32, (Option<u32>, T)>>);

impl<T> Default for Handles<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Clone> Handles<T> {
    pub(crate) fn get(&self, id: u32) -> Option<T> {
        self.0.lock().get(&id).map(|(_, value)| value.clone())
    }
}

impl<T> Handles<T> {
    pub(crate) fn insert(&self, id: u32, value: T) {
        self.0.lock().insert(id, (None, value));
    }

    /// For as long as this system is open.
    pub(crate) fn insert_of(&self, system: u32, id: u32, value: T) {
        self.0.lock().insert(id, (Some(system), value));
    }

    pub(crate) fn remove(&self, id: u32) -> Option<T> {
        self.0.lock().remove(&id).map(|(_, value)| value)
    }

    /// Lets go of all that is of a system.
    fn remove_of(&self, system: u32) {
        let gone: Vec<_> = self.0.lock().extract_if(|_, (of, _)| *of == Some(system)).collect();
        // Not under the lock: what ends may take its time.
        drop(gone);
    }
}

impl Shared {
    pub(crate) fn next(&self) -> u32 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Says something to JavaScript. When its thread is gone there is nobody to hear it.
    pub(crate) fn tell(&self, what: u32, id: u32, text: String) {
        let _ = self.tell.call((what, id, text).into(), ThreadsafeFunctionCallMode::NonBlocking);
    }

    /// Runs a call to its answer: here, as far as it goes at once, if it only reads; then on the runtime.
    fn run(
        self: &Arc<Self>,
        id: u32,
        begins_here: bool,
        call: impl Future<Output = Result<Json, errors::Failure>> + Send + 'static,
    ) -> Option<String> {
        let answer = AssertUnwindSafe(call).catch_unwind().map(|done| match done {
            Ok(Ok(value)) => (json!({ "value": value }).to_string(), None),
            Ok(Err(failure)) => (json!({ "error": failure.json() }).to_string(), Some(failure)),
            Err(_) => (json!({ "error": errors::Failure::bug().json() }).to_string(), None),
        });
        let mut answer = Box::pin(answer);
        if begins_here {
            let _inside = RUNTIME.enter();
            if let Poll::Ready((text, _)) = answer.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                return Some(text);
            }
        }
        let shared = Arc::clone(self);
        RUNTIME.spawn(async move {
            let (text, failure) = answer.await;
            shared.tell(ANSWER, id, text);
            // Not before: what a loader threw is kept as long as its error.
            drop(failure);
        });
        None
    }
}

#[napi]
impl Bridge {
    /// `tell` is called with what there is to say: the kind of it, the id it is about, a text.
    #[napi(constructor)]
    pub fn new(tell: Function<'_, Said, ()>) -> napi::Result<Self> {
        let tell =
            tell.build_threadsafe_function::<Said>().callee_handled::<false>().weak::<true>().build()?;
        Ok(Self(Arc::new(Shared {
            tell,
            next: AtomicU32::new(1),
            stores: Handles::default(),
            systems: Handles::default(),
            claims: Handles::default(),
            leases: Handles::default(),
            plans: Handles::default(),
            loads: Loads::default(),
            lines: log::Lines::default(),
        })))
    }

    /// Starts a call. What it gives at once is its answer; otherwise that comes later, with the id.
    #[napi]
    pub fn call(&self, id: u32, operation: String, arguments: String) -> Option<String> {
        let call = Call::read(Arc::clone(&self.0), &arguments);
        self.0.run(id, calls::only_reads(&operation), async move { call?.run(&operation).await })
    }

    /// A fetch, with the number of its loader. The most frequent call, and therefore one of its own.
    #[napi]
    pub fn fetch(&self, id: u32, system: u32, entity: String, key: String, loader: u32) -> Option<String> {
        let (shared, loader) = (Arc::clone(&self.0), Loader::new(Arc::clone(&self.0), loader));
        let called = Arc::clone(&loader);
        let call = async move { calls::fetch(&shared, system, &entity, &key, called).await };
        let mut answer = self.0.run(id, true, call);
        // What is answered at once may be refreshed behind the answer.
        if answer.is_none() || Arc::strong_count(&loader) > 1 {
            loader.keep();
            if let Some(answer) = &mut answer {
                answer.insert_str(1, "\"refreshing\":true,");
            }
        }
        answer
    }

    /// What a loader gave, or how it failed.
    #[napi]
    pub fn loaded(&self, call: u32, text: String) {
        self.0.loads.answer(call, text);
    }

    /// Waits, with JavaScript standing still, for what is written behind: at the end of a process. Says what was not written.
    #[napi]
    pub fn drain_now(&self, system: u32) -> napi::Result<String> {
        let system = self.0.systems.get(system);
        let system = system.ok_or_else(|| Error::from_reason("the system is closed"))?;
        // Loaders are not called while JavaScript stands still: what waits for one is not waited for.
        self.0.loads.close();
        Ok(calls::drained(&RUNTIME.block_on(system.close())).to_string())
    }

    /// Sets the least that is told to this thread: 1 for errors alone, to 5 for all; 0 for nothing.
    #[napi]
    pub fn listen(&self, level: u8) {
        log::listen(&self.0, level);
    }

    /// The oldest records that wait, as text.
    #[napi]
    pub fn logs(&self, most: u32) -> Option<String> {
        self.0.lines.take(usize::try_from(most).unwrap_or(usize::MAX))
    }

    /// The least that is told in this process, to whichever thread.
    #[napi]
    pub fn told_level(&self) -> u8 {
        log::level()
    }

    /// Lets go of something by its number: a lease, claims, a plan, a store, a system with all that is of it.
    #[napi]
    pub fn drop_handle(&self, id: u32) {
        let _inside = RUNTIME.enter();
        drop(self.0.leases.remove(id));
        drop(self.0.claims.remove(id));
        drop(self.0.plans.remove(id));
        if let Some(system) = self.0.systems.remove(id) {
            self.0.leases.remove_of(id);
            self.0.claims.remove_of(id);
            self.0.plans.remove_of(id);
            drop(system);
        }
        drop(self.0.stores.remove(id));
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        log::listen(&self.0, 0);
        let systems: Vec<System> = self.0.systems.0.lock().drain().map(|(_, (_, system))| system).collect();
        self.0.loads.close();
        for system in systems {
            let drained = RUNTIME.block_on(system.close());
            if !drained.is_empty() {
                eprintln!("larder: {}", calls::drained_text(&drained));
            }
        }
        let _inside = RUNTIME.enter();
        self.0.leases.0.lock().clear();
        self.0.claims.0.lock().clear();
        self.0.stores.0.lock().clear();
    }
}

/// A duration that JavaScript gave in milliseconds.
pub(crate) fn millis(number: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(number / 1000.0).ok()
}
