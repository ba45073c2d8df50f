//! Document paths: `a.b[3].c`.

use std::fmt;

use crate::{AttributeValue, Item};

/// Where a value lies in an item: an attribute, then fields and list positions below it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path {
    pub root: String,
    pub steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    Field(String),
    Index(usize),
}

impl Path {
    pub fn attribute(name: impl Into<String>) -> Self {
        Self { root: name.into(), steps: Vec::new() }
    }

    /// The value at this path, if there is one.
    pub fn find<'a>(&self, item: &'a Item) -> Option<&'a AttributeValue> {
        let root = item.get(&self.root)?;
        self.steps.iter().try_fold(root, |value, step| match (value, step) {
            (AttributeValue::M(map), Step::Field(name)) => map.get(name),
            (AttributeValue::L(list), Step::Index(at)) => list.get(*at),
            _ => None,
        })
    }
}

/// As DynamoDB writes paths in its messages.
impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.root)?;
        self.steps.iter().try_for_each(|step| match step {
            Step::Field(name) => write!(f, ".{name}"),
            Step::Index(at) => write!(f, "[{at}]"),
        })
    }
}
