//! The lock of the parts that are checked under every interleaving: see `tests/concurrency.rs`, which builds
//! them on a lock of its own.

pub(crate) use parking_lot::Mutex;
