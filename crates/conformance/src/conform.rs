//! Runs one test on the chosen target, turning the verdict around where a difference is listed.

use std::any::type_name;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use crate::differences::{self, Verdict};
use crate::endpoint::{Endpoint, Target};

/// Runs `body` on the target.
///
/// The test's name is read from the closure's type, so call this directly in the test function. If the
/// name is listed in [`differences`] for the target, `body` must fail there: a listed test that passes is an error,
/// which keeps the list true.
#[track_caller]
pub fn conform<F: FnOnce(&Endpoint)>(body: F) {
    // DynamoDB Local answers with internal failures now and then when tables are created side by side.
    static TURN: Mutex<()> = Mutex::new(());
    // Without the program that it is part of.
    let name = type_name::<F>().trim_end_matches("::{{closure}}").trim_start_matches("conformance::");
    let endpoint = Endpoint::shared();
    let target = endpoint.target();
    let _turn =
        (target == Target::DynamoDbLocal).then(|| TURN.lock().unwrap_or_else(PoisonError::into_inner));
    let Some(difference) = differences::find(target, name) else {
        return body(endpoint);
    };
    eprintln!("{name} differs on {}, as listed: {}", target.name(), difference.reason);
    if difference.verdict == Verdict::EndsTheServer {
        return;
    }
    let outcome = catch_unwind(AssertUnwindSafe(|| body(endpoint)));
    assert!(outcome.is_err(), "{name} no longer differs on {}: take it out of differences.rs", target.name());
}
