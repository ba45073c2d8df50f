//! Where Larder and dynoxide answer differently on purpose, in one place.

use serde_json::Value;

use crate::requests::Step;
use crate::sides::Answer;

/// One step and what became of it.
#[derive(Debug)]
pub(crate) struct Case<'a> {
    pub(crate) step: &'a Step,
    pub(crate) ours: &'a Answer,
    pub(crate) theirs: &'a Answer,
}

#[derive(Debug)]
pub(crate) struct Difference {
    pub(crate) what: &'static str,
    pub(crate) applies: fn(&Case<'_>) -> bool,
}

pub(crate) const LIST: &[Difference] = &[];

pub(crate) fn known(case: &Case<'_>) -> Option<&'static Difference> {
    LIST.iter().find(|difference| (difference.applies)(case))
}

fn message(answer: &Answer) -> &str {
    match answer {
        Ok(_) => "",
        Err(error) => error.get("message").and_then(Value::as_str).unwrap_or_default(),
    }
}
