//! Panics of the storage library, which trusts the structure of its pages: where that is damaged it panics.
//!
//! Such a panic is an answer like any other and is not printed. The hook that keeps silent is installed once, and
//! hands every other panic to the hook that was there before.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use crate::Error;

thread_local! {
    /// A panic of this thread is about to be caught here.
    static CONTAINED: Cell<bool> = const { Cell::new(false) };
}

static HOOK: Once = Once::new();

/// Calls into the library; a panic in it is [`Error::Damaged`].
pub(crate) fn contain_panic<T>(call: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    HOOK.call_once(|| {
        let told_before = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if !CONTAINED.get() {
                told_before(panic);
            }
        }));
    });
    let before = CONTAINED.replace(true);
    let outcome = catch_unwind(AssertUnwindSafe(call));
    CONTAINED.set(before);
    outcome.unwrap_or_else(|panic| Err(Error::panicked(&*panic)))
}
