//! DynamoDB's vocabulary as plain data: values, numbers, items, keys, tables, limits, errors.
//!
//! Everything here is a value. Nothing does I/O, and a value that exists is right: a [`Number`] has at most
//! 38 digits, a [`TableName`] has a table name's letters. Time is the one exception that proves the rule:
//! [`Clock`] is what the outermost layers read, so that tests can move it.
//!
//! ```
//! use larder_model::{AttributeValue, Item, Number};
//!
//! let mut item = Item::new();
//! item.insert("city", AttributeValue::from("Tokyo"));
//! item.insert("temperature", AttributeValue::N("21.50".parse::<Number>()?));
//! assert_eq!(item.get("temperature").and_then(AttributeValue::as_number).map(Number::to_string), Some("21.5".into()));
//! # Ok::<(), larder_model::NumberError>(())
//! ```

pub mod clock;
mod error;
mod item;
pub mod item_bytes;
mod key;
pub mod limits;
pub mod metrics;
mod number;
#[cfg(feature = "serde")]
mod number_serde;
mod path;
mod table;
mod time;
mod value;

pub use clock::Clock;
pub use error::{ApiError, CancellationReason, Exceeded};
pub use item::Item;
pub use key::{KeyAttribute, KeySchema, KeyType};
pub use number::{Number, NumberError};
pub use path::{Path, Step};
pub use table::{
    Arn, Billing, Encryption, IndexDefinition, IndexKind, IndexName, NameError, Projection, SPACE, Space,
    StreamView, TableClass, TableDefinition, TableName, Tags, Throughput,
};
pub use time::UnixTime;
pub use value::{AttributeType, AttributeValue};
