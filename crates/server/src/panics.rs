//! What a panic in a request's handler becomes: an error of ours, with the place in the log.
//!
//! [`caught`] turns a panic of a future into a value. The place of a panic is known to the process's panic hook alone,
//! so [`log_panics_with_their_place`] puts one there that keeps it for whoever catches the panic, and logs it when
//! nobody does.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::panic::{self, AssertUnwindSafe};
use std::pin::Pin;
use std::task::Poll;

thread_local! {
    /// Whether somebody on this thread will catch a panic.
    static CATCHING: Cell<bool> = const { Cell::new(false) };
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Makes this process log a panic once, with where it happened.
pub fn log_panics_with_their_place() {
    panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        if CATCHING.get() {
            PLACE.set(Some(place));
        } else {
            let cause = message(panic.payload());
            let thread = std::thread::current().name().unwrap_or_default().to_owned();
            tracing::error!(place, cause, thread, "a panic");
        }
    }));
}

/// A panic that was caught: where, and what it said.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Caught {
    pub(crate) place: String,
    pub(crate) cause: String,
}

/// What the work gives, or its panic. It holds no lock of ours that a panic could leave in a bad state: guards are
/// dropped as the stack unwinds, and what they guard is changed whole.
///
/// It is given where it stands, because it is large and would be moved.
pub(crate) async fn caught<T>(mut work: Pin<&mut impl Future<Output = T>>) -> Result<T, Caught> {
    poll_fn(|context| {
        let outer = CATCHING.replace(true);
        let polled = panic::catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context)));
        CATCHING.set(outer);
        match polled {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(value)) => Poll::Ready(Ok(value)),
            Err(payload) => {
                let place = PLACE.take().unwrap_or_default();
                Poll::Ready(Err(Caught { place, cause: message(&*payload) }))
            }
        }
    })
    .await
}

fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default()
}
