//! Attribute values as JSON, both ways.
//!
//! Reading never stops at a value that is wrong in itself: it notes the flaw and reads on, because it
//! depends on the operation when a flaw is refused and in which words. A value nested too deep is passed
//! over, and only its depth is kept.

mod flaws;
mod read;
mod write;

pub(crate) use flaws::{Flaws, NESTED_TOO_DEEP, ValueFault, name_fault};
pub(crate) use read::{attributes, is_type_name, value};
pub(crate) use write::{put_item, put_row};

#[cfg(test)]
mod tests;
