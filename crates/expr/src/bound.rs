//! Bound expressions: what an expression means once its placeholders are filled in.
//!
//! Binding checks everything that can be checked without an item, so evaluation only ever meets what an
//! item can still get wrong. A program may also build these directly, without any text.
//!
//! A value is shared by all the places that use it: a placeholder can stand for two megabytes, and an expression can
//! name it hundreds of times.

use std::sync::Arc;

use larder_model::{AttributeType, AttributeValue, Path};

/// A condition, or a filter.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    Compare { left: Operand, comparator: Comparator, right: Operand },
    Between { value: Operand, low: Operand, high: Operand },
    In { value: Operand, list: Vec<Operand> },
    Exists(Path),
    NotExists(Path),
    TypeIs { path: Path, kind: AttributeType },
    BeginsWith { value: Operand, prefix: Operand },
    Contains { value: Operand, part: Operand },
    Not(Box<Condition>),
    And(Box<Condition>, Box<Condition>),
    Or(Box<Condition>, Box<Condition>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    Path(Path),
    Value(Arc<AttributeValue>),
    Size(Path),
}

impl Operand {
    pub fn value(value: impl Into<AttributeValue>) -> Self {
        Self::Value(Arc::new(value.into()))
    }
}

/// The four clauses of an update. No two paths in it overlap.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Update {
    pub set: Vec<(Path, SetValue)>,
    pub remove: Vec<Path>,
    /// Numbers and sets; lists too when `legacy`.
    pub add: Vec<(Path, Arc<AttributeValue>)>,
    /// Sets only.
    pub delete: Vec<(Path, Arc<AttributeValue>)>,
    /// Made from `AttributeUpdates`, where a type that does not fit has words of its own.
    pub legacy: bool,
}

/// The right side of `SET path = …`.
#[derive(Clone, Debug, PartialEq)]
pub enum SetValue {
    Is(SetOperand),
    Plus(SetOperand, SetOperand),
    Minus(SetOperand, SetOperand),
}

#[derive(Clone, Debug, PartialEq)]
pub enum SetOperand {
    Path(Path),
    Value(Arc<AttributeValue>),
    IfNotExists(Path, Box<SetOperand>),
    ListAppend(Box<SetOperand>, Box<SetOperand>),
}

impl SetOperand {
    pub fn value(value: impl Into<AttributeValue>) -> Self {
        Self::Value(Arc::new(value.into()))
    }
}

/// The paths to return. No two of them overlap.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Projection {
    pub paths: Vec<Path>,
}

/// A key condition as written: a conjunction of tests on key attributes. Which attribute is which part of
/// the key is known only with the table at hand; see [`KeyCondition::resolve`](crate::KeyCondition::resolve).
#[derive(Clone, Debug, PartialEq)]
pub struct KeyCondition {
    pub tests: Vec<KeyTest>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct KeyTest {
    pub attribute: Arc<str>,
    pub test: SortTest,
}

/// What a key attribute is held against.
#[derive(Clone, Debug, PartialEq)]
pub enum SortTest {
    Equal(Arc<AttributeValue>),
    Less(Arc<AttributeValue>),
    LessOrEqual(Arc<AttributeValue>),
    Greater(Arc<AttributeValue>),
    GreaterOrEqual(Arc<AttributeValue>),
    Between(Arc<AttributeValue>, Arc<AttributeValue>),
    BeginsWith(Arc<AttributeValue>),
}
