//! A store that leaves out what is damaged, and says what that was.
//!
//! Only scans and queries can leave something out. A single item that cannot be read is an error as ever.

use std::sync::Arc;

use async_trait::async_trait;
use larder_ops::{Request, Response};
use parking_lot::Mutex;

use super::layered::Layer;
use super::{Backend, Error};

/// What a [store that skips damage](super::Store::skipping_damage) left out, by name. Clones are the same.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// let (store, skipped) = larder::Store::memory().await.skipping_damage();
/// store.list_tables().await?;
/// assert!(skipped.names().is_empty());
/// # Ok::<(), larder::store::Error>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Skipped(Arc<Mutex<Vec<String>>>);

impl Skipped {
    /// Each once, in the order they were met.
    pub fn names(&self) -> Vec<String> {
        self.0.lock().clone()
    }

    fn note(&self, names: &[String]) {
        let mut known = self.0.lock();
        for name in names {
            if !known.contains(name) {
                known.push(name.clone());
            }
        }
    }
}

#[async_trait]
impl Layer for Skipped {
    async fn execute(&self, below: &Arc<dyn Backend>, mut request: Request) -> Result<Response, Error> {
        request.skip_damaged();
        let response = below.execute(request).await?;
        self.note(response.skipped());
        Ok(response)
    }
}
