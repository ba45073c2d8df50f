//! Every kind of store, for tests that are to hold on all of them.
//!
//! ```ignore
//! mod stores;
//!
//! #[test]
//! fn what_is_put_is_found() {
//!     stores::each(async |store| { … });
//! }
//! ```
//!
//! The stores are memory, a directory, a server through the AWS SDK, the SDK's client in process, and DynamoDB
//! Local where `DYNAMODB_LOCAL_DIR` names the directory of its jar. Each is empty, no other test sees it, and
//! it is observed: `store.faults()` and `store.requests()` work. Its name is printed before the test runs.
//!
//! In memory, every write is held against the schemas of the systems that the test opens: what the layer writes, a
//! guard allows. A test that writes as a program without a schema would says so with [`unguarded`].

#![allow(dead_code, unused_macros, reason = "each test file uses what it needs")]
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{BehaviorVersion, Config, Credentials, Region};
use larder::store::Error;
use larder::store::ops::{ReturnCapacity, TransactWriteItems};
use larder::{Address, Store};
use larder_local::DynamoDbLocal;
use larder_server::{Server, StoreConfig};

/// Makes a test on each store of each function that takes one.
macro_rules! on_each_store {
    ($($name:ident,)*) => {
        mod each {
            $(#[test]
            fn $name() {
                super::stores::each(super::$name);
            })*
        }
    };
}

/// A test that takes longer on one store has failed.
const LIMIT: Duration = Duration::from_secs(120);

/// Runs the test on each store, one after the other.
pub(crate) fn each(test: impl AsyncFn(Store)) {
    run_each(&test, false, true);
}

/// Runs the test on each store that knows transactions, which an old DynamoDB Local does not.
pub(crate) fn each_with_transactions(test: impl AsyncFn(Store)) {
    run_each(&test, true, true);
}

/// Runs the test on each store but DynamoDB Local, which holds the texts of two requests with one token against
/// each other; the SDK writes maps in an order by chance, so the same request may differ.
pub(crate) fn each_with_tokens(test: impl AsyncFn(Store)) {
    eprintln!("not run on DynamoDB Local: it compares the text of requests with one token");
    run_each(&test, true, false);
}

fn run_each(test: &impl AsyncFn(Store), transactions: bool, local: bool) {
    let on = async |name: &str, store: Store| {
        if transactions && !knows_transactions(&store).await {
            eprintln!("not run on {name}: it knows no transactions");
            return;
        }
        eprintln!("on {name}");
        test(store.observed()).await;
    };
    run(async {
        on("memory", Store::open(&Address::Memory).await.unwrap().enforcing().unwrap()).await;
    });
    run(async {
        let directory = tempfile::tempdir().unwrap();
        let address = Address::Directory(directory.path().join("data"));
        on("a directory", Store::open(&address).await.unwrap()).await;
    });
    run(async {
        on("the SDK in process", in_process().await).await;
    });
    run(async {
        on("Larder's endpoint", Store::open(&endpoint().await).await.unwrap()).await;
    });
    if !local {
        return;
    }
    let Some(local) = shared_local() else { return };
    run(async {
        on("DynamoDB Local", store_on(&local)).await;
    });
}

/// The store, from now on for programs that know no schema too.
pub(crate) fn unguarded(store: &Store) -> &Store {
    if let Some(engine) = store.engine() {
        engine.set_guard(None);
    }
    store
}

/// Runs a test that needs no more than a runtime, within the limit.
pub(crate) fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(LIMIT, test).await.expect("it ends in time") });
}

/// A server on a free port of loopback, in memory. It ends with the runtime.
pub(crate) async fn endpoint() -> Address {
    let server = Server::bind(larder_server::Config::local(StoreConfig::Memory)).await.unwrap();
    let address = Address::DynamoDb { endpoint: Some(format!("http://{}", server.address())) };
    tokio::spawn(server.run(std::future::pending()));
    address
}

/// A store on the SDK's client of a store in memory.
pub(crate) async fn in_process() -> Store {
    let memory = Store::open(&Address::Memory).await.unwrap();
    Store::on_client(memory.sdk_client().await.unwrap())
}

/// Whether the store knows transactions at all.
pub(crate) async fn knows_transactions(store: &Store) -> bool {
    let nothing = TransactWriteItems {
        writes: Vec::new(),
        token: None,
        capacity: ReturnCapacity::None,
        collection_metrics: false,
    };
    !matches!(store.transact_write_items(nothing).await, Err(Error::Unsupported(_)))
}

/// The DynamoDB Local that all tests of this process share. The last to drop it ends it.
fn shared_local() -> Option<Arc<DynamoDbLocal>> {
    static RUNNING: Mutex<Weak<DynamoDbLocal>> = Mutex::new(Weak::new());

    let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    let local = match running.upgrade() {
        Some(local) => local,
        None => Arc::new(DynamoDbLocal::start()?),
    };
    *running = Arc::downgrade(&local);
    Some(local)
}

/// An empty store: DynamoDB Local has a database for each access key.
fn store_on(local: &DynamoDbLocal) -> Store {
    static STORES: AtomicU32 = AtomicU32::new(0);

    let key = format!("test{}", STORES.fetch_add(1, Ordering::Relaxed));
    let config = Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("us-east-1"))
        .credentials_provider(Credentials::new(key, "larder", None, None, "test"))
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .endpoint_url(&local.url);
    Store::on_client(Client::from_conf(config.build()))
}
