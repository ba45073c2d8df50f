//! Other forms of a checked schema.

mod alarms;
mod cloudformation;
mod docs;
mod iam;
mod json;
mod names;
mod origin;
mod rust;
mod terraform;

pub use cloudformation::{Stack, cloudformation};
pub use docs::docs;
pub use iam::{Policy, iam};
pub use json::{JSON_SCHEMA, json};
pub use rust::rust;
pub use terraform::terraform;
