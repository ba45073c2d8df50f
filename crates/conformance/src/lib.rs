//! What a DynamoDB client sees, asserted over HTTP against any endpoint.
//!
//! One file in `tests/` per operation, all of them one program. The same assertions run on every target, chosen by
//! `CONFORMANCE_TARGET`:
//!
//! - `larder`, the default: a server in memory, one per test process, from the binary named by
//!   `LARDER_BIN` or else `<target dir>/debug/larder`, which holds other tables against their schemas;
//! - `dynamodb-local`: the official jar in the directory named by `DYNAMODB_LOCAL_DIR`;
//! - a URL, or `name=URL`: a server that already runs. The name says whose [`differences`] apply.
//!
//! What is asserted is AWS's behaviour. Where a target is known to answer otherwise, [`differences`]
//! says so, and the test must then fail there.
//!
//! ```no_run
//! use larder_conformance::{conform, keys};
//! use serde_json::json;
//!
//! conform(|db| {
//!     let table = db.table(keys("pk:S"));
//!     table.put(json!({"pk": {"S": "a"}, "n": {"N": "01.0"}}));
//!     assert_eq!(table.get(json!({"pk": {"S": "a"}})), json!({"pk": {"S": "a"}, "n": {"N": "1"}}));
//! });
//! ```

mod answer;
mod conform;
pub mod differences;
mod endpoint;
mod process;
mod table;

pub use answer::Answer;
pub use conform::conform;
pub use endpoint::{BUCKET, Endpoint, HEADERS, PAGE, Target};
pub use process::wait_until;
pub use table::{Table, TableSchema, keys};
