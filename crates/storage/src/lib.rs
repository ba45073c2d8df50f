//! Ordered bytes, snapshots, and atomic durable batches. The only crate that names redb.
//!
//! Keys and values are byte strings in one sorted map. Reads run on a [`Snapshot`] of the last
//! commit and never wait for writers. Writes are [`Batch`]es; one thread commits all that wait
//! together, with one sync of a log, and another brings them into the tree later. Between `submit` and the commit a batch is visible to [`Store::latest`]
//! alone, so a chain of writes to one key does not wait for the disk at every link.
//!
//! Promises:
//! - A batch whose ticket says `Ok` survives power loss, whole. No batch is ever half there.
//!   ([`Durability::Relaxed`] may lose the last moment, still never half a batch.)
//! - Batches take effect in the order of `submit`.
//! - A damaged value is an error, never other bytes.
//! - After a disk error reads go on from the last good state, and writes go on once the disk does.
//!
//! ```
//! use larder_storage::{Batch, Options, Store};
//!
//! let store = Store::memory(Options::default())?;
//! let mut batch = Batch::default();
//! batch.put(b"fruit/apple".to_vec(), b"red".to_vec());
//! batch.put(b"fruit/pear".to_vec(), b"green".to_vec());
//! store.write(batch)?;
//! assert_eq!(&*store.snapshot().get(b"fruit/pear")?.expect("was just written"), b"green");
//! # Ok::<(), larder_storage::Error>(())
//! ```

mod absorb;
pub mod archive;
pub mod backup;
mod batch;
mod checked;
mod checksum;
mod commit;
mod compact;
mod early;
mod error;
pub mod faulty;
mod feed;
mod file;
mod holder;
mod log;
mod medium;
mod memory;
mod panic;
mod pieces;
mod place;
mod position;
mod reserve;
mod salvage;
mod sealed;
mod snapshot;
mod store;
mod syncing;
pub mod version;

pub use batch::{Batch, counters};
pub use commit::{Activity, Generation, Ticket};
pub use error::Error;
pub use feed::{Committed, Feed, Taken};
pub use file::rekey;
pub use holder::Holder;
pub use pieces::{Lost, Piece, Pieces};
pub use place::{Pace, Place};
pub use position::Position;
pub use redb::StorageBackend as Disk;
pub use salvage::{Salvaged, salvage, salvage_disk};
pub use sealed::Key;
pub use snapshot::{Bytes, Range, Snapshot, Value};
pub use store::{Durability, Options, Store};
