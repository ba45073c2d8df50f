//! Other forms of a checked schema.

mod docs;
mod json;

pub use docs::docs;
pub use json::{JSON_SCHEMA, json};
