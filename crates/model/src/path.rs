//! Document paths: `a.b[3].c`.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use crate::{AttributeValue, Item};

/// Where a value lies in an item: an attribute, then fields and list positions below it.
///
/// Names are shared: a request can name an attribute a thousand times by a placeholder, and a name can be 64 KB.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Path {
    pub root: Arc<str>,
    pub steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    Field(Arc<str>),
    Index(usize),
}

impl Path {
    pub fn attribute(name: impl Into<String>) -> Self {
        Self { root: name.into().into(), steps: Vec::new() }
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

/// By the root's name, then step by step; what is a path's beginning comes before it.
impl Ord for Path {
    fn cmp(&self, other: &Self) -> Ordering {
        by_name(&self.root, &other.root).then_with(|| self.steps.cmp(&other.steps))
    }
}

impl PartialOrd for Path {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Fields before positions.
impl Ord for Step {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(one), Self::Field(two)) => by_name(one, two),
            (Self::Index(one), Self::Index(two)) => one.cmp(two),
            (Self::Field(_), Self::Index(_)) => Ordering::Less,
            (Self::Index(_), Self::Field(_)) => Ordering::Greater,
        }
    }
}

impl PartialOrd for Step {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// What is shared is the same, and need not be read to see that.
fn by_name(one: &Arc<str>, two: &Arc<str>) -> Ordering {
    if Arc::ptr_eq(one, two) { Ordering::Equal } else { one.cmp(two) }
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
