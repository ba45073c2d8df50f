//! Other forms of a checked schema.

mod alarms;
mod cdk;
mod cloudformation;
mod dashboard;
mod docs;
mod grafana;
mod hcl;
mod iam;
mod json;
mod jsonschema;
mod names;
mod prometheus;
mod python;
mod runbook;
mod rust;
mod terraform;
mod typescript;
mod versions;

pub use cdk::cdk;
pub use cloudformation::{Stack, alarms, budgets, cloudformation};
pub use dashboard::dashboard;
pub use docs::docs;
pub use grafana::grafana;
pub use iam::{Policy, iam};
pub use json::{JSON_SCHEMA, json};
pub use jsonschema::jsonschema;
pub use prometheus::{Rules, prometheus};
pub use python::python;
pub use runbook::runbook;
pub use rust::rust;
pub use terraform::terraform;
pub use typescript::typescript;
pub use versions::Kept;
