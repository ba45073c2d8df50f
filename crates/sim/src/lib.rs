//! Seeded workloads against a plain-map oracle, on a disk that fails.
//!
//! A run is a seed: it decides the operations, where the disk fails or the power goes, and what of the
//! unsynced bytes survives. Afterwards the database must be one the oracle allows: acknowledged writes are
//! there, the others wholly or not at all, indexes and counts agree with the items, tokens are honoured, and
//! the engine goes on. A failure prints the seed that runs it again; see [`budget`].
//!
//! - [`schema`]: the tables
//! - [`operation`], [`workload`]: what is done
//! - [`oracle`]: what must come of it
//! - [`observe`]: what did
//! - [`run`]: one after the other, [`concurrent`]: by several threads
//! - [`tables`]: tables that come and go while they are written to, with requests that wait for the disk
//! - [`gate`]: a disk that waits, for tests that need one order of events
//!
//! ```
//! use larder_sim::run::{Beginning, Fault, Plan, run};
//!
//! let beginning = Beginning::new(7)?;
//! let report = run(Plan { seed: 7, steps: 10, fault: Fault::PowerLoss { after: 5 } }, &beginning)?;
//! assert!(report.failed > 0);
//! # Ok::<(), larder_sim::run::Failure>(())
//! ```

pub mod budget;
pub mod concurrent;
pub mod gate;
pub mod observe;
pub mod operation;
pub mod oracle;
pub mod random;
pub mod run;
pub mod schema;
pub mod tables;
pub mod workload;
