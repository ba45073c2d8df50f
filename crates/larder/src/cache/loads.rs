//! The loads that are under way, as far as writes concern them.
//!
//! A load that is overtaken by a write of its key brings something older than what was written. Whoever waits for it is
//! given it; it is not kept.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::Identity;

/// The keys that are being loaded.
#[derive(Debug, Default)]
pub(crate) struct Loads(Mutex<HashMap<Identity, Vec<Arc<AtomicBool>>>>);

impl Loads {
    pub(crate) fn begin(self: &Arc<Self>, key: &Identity) -> OngoingLoad {
        let is_overtaken = Arc::<AtomicBool>::default();
        self.0.lock().entry(Arc::clone(key)).or_default().push(Arc::clone(&is_overtaken));
        OngoingLoad { loads: Arc::clone(self), key: Arc::clone(key), is_overtaken }
    }

    /// The key is written, or may have been.
    pub(crate) fn overtake(&self, key: &Identity) {
        for load in self.0.lock().get(key).into_iter().flatten() {
            load.store(true, Ordering::SeqCst);
        }
    }

    /// Any key may have been written.
    pub(crate) fn overtake_all(&self) {
        for load in self.0.lock().values().flatten() {
            load.store(true, Ordering::SeqCst);
        }
    }

    /// Whether what is being loaded is older than what was written.
    pub(crate) fn is_overtaken(&self, key: &Identity) -> bool {
        self.0.lock().get(key).is_some_and(|loads| loads.iter().any(|load| load.load(Ordering::SeqCst)))
    }
}

/// One load, while it lasts.
pub(crate) struct OngoingLoad {
    loads: Arc<Loads>,
    key: Identity,
    is_overtaken: Arc<AtomicBool>,
}

impl OngoingLoad {
    pub(crate) fn is_overtaken(&self) -> bool {
        self.is_overtaken.load(Ordering::SeqCst)
    }
}

impl Drop for OngoingLoad {
    fn drop(&mut self) {
        let mut loads = self.loads.0.lock();
        if let Some(ongoing) = loads.get_mut(&self.key) {
            ongoing.retain(|load| !Arc::ptr_eq(load, &self.is_overtaken));
            if ongoing.is_empty() {
                loads.remove(&self.key);
            }
        }
    }
}
