//! A record of what a store was asked, for tests.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use larder_ops::Request;
use parking_lot::Mutex;

/// Requests that are kept; older ones go, but stay counted.
const KEPT_MAX: usize = 10_000;

/// What an [observed](super::Store::observed) store was asked about items, the failed included. Clones are the
/// same.
///
/// ```
/// use larder::Store;
/// use larder::store::ops::{Request, Scan};
/// # use larder::store::ops::ReturnCapacity;
/// # use larder_model::TableName;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// let store = Store::memory().await;
/// let scan = Scan {
///     table: TableName::new("carts")?,
///     # index: None, filter: None, projection: None, select: None, limit: None, start: None,
///     # segment: None, consistent: false, skip_damaged: false, capacity: ReturnCapacity::None,
///     // …
/// };
/// assert!(store.scan(scan).await.is_err(), "there is no such table");
/// assert_eq!(store.requests().count("Scan"), 1);
/// assert!(matches!(&store.requests().take()[..], [Request::Scan(scan)] if scan.table.as_str() == "carts"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Requests(Arc<Mutex<Noted>>);

#[derive(Debug, Default)]
struct Noted {
    kept: VecDeque<Request>,
    counts: BTreeMap<&'static str, usize>,
}

impl Requests {
    /// How often an operation, such as `GetItem`, was asked for since the last [`Requests::take`].
    pub fn count(&self, operation: &str) -> usize {
        self.0.lock().counts.get(operation).copied().unwrap_or(0)
    }

    /// How often anything was asked for since the last [`Requests::take`].
    pub fn total(&self) -> usize {
        self.0.lock().counts.values().sum()
    }

    /// The requests, oldest first, and begins anew.
    pub fn take(&self) -> Vec<Request> {
        std::mem::take(&mut *self.0.lock()).kept.into()
    }

    pub(super) fn note(&self, operation: &'static str, request: &Request) {
        let mut noted = self.0.lock();
        *noted.counts.entry(operation).or_default() += 1;
        if noted.kept.len() == KEPT_MAX {
            noted.kept.pop_front();
        }
        noted.kept.push_back(request.clone());
    }
}
