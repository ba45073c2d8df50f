//! Opening a store that another process may have.
//!
//! One process at a time has a store's directory. A command waits a moment for another to be done; where a server has
//! the directory, it goes through the server.

use std::path::Path;
use std::time::Duration;

use larder::store::Error;
use larder::{Address, Store};
use larder_storage::Holder;
use tokio::time::{Instant, sleep};

/// How long a command waits for others.
const PATIENCE: Duration = Duration::from_secs(10);
/// Each waits for another while, so that they do not all ask at once.
const PAUSE_MILLIS: std::ops::Range<u64> = 5..50;

/// Opens the store; a directory is made if it is missing.
pub(crate) async fn open(address: &Address) -> Result<Store, Error> {
    patiently(address, async |address| Store::open(address).await).await
}

/// Opens the store to look at it.
pub(crate) async fn look(address: &Address) -> Result<Store, Error> {
    patiently(address, async |address| Store::look(address).await).await
}

/// Where the store of a directory is served, if it is.
pub(crate) fn served(dir: &Path) -> Option<String> {
    Holder::of(dir)?.address
}

async fn patiently(
    address: &Address,
    open: impl AsyncFn(&Address) -> Result<Store, Error>,
) -> Result<Store, Error> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let refused = match open(address).await {
            Err(error) if is_in_use(&error) => error,
            opened => return opened,
        };
        if let Address::Directory(dir) = address
            && let Some(endpoint) = served(dir)
        {
            return open(&Address::DynamoDb { endpoint: Some(endpoint) }).await;
        }
        if Instant::now() >= deadline {
            return Err(refused);
        }
        sleep(Duration::from_millis(fastrand::u64(PAUSE_MILLIS))).await;
    }
}

fn is_in_use(error: &Error) -> bool {
    matches!(error, Error::Engine(larder_engine::Error::Storage(larder_storage::Error::InUse { .. })))
}
