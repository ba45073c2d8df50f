//! Other forms of a checked schema.

mod docs;
mod json;
mod rust;

pub use docs::docs;
pub use json::{JSON_SCHEMA, json};
pub use rust::rust;
