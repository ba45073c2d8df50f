//! What a statement says, before its parameters mean anything.

use std::borrow::Cow;

use larder_expr::Comparator;

use crate::bound::Returning;
use crate::error::Place;

#[derive(Debug, PartialEq)]
pub(crate) enum Statement<'t> {
    Select(Select<'t>),
    /// `EXISTS(SELECT …)`
    Exists(Select<'t>),
    Insert {
        into: Source<'t>,
        value: Expression<'t>,
    },
    Update {
        table: Source<'t>,
        changes: Vec<UpdateClause<'t>>,
        condition: Option<Expression<'t>>,
        returning: Option<Returning>,
    },
    Delete {
        from: Source<'t>,
        condition: Option<Expression<'t>>,
        returning: Option<Returning>,
    },
}

#[derive(Debug, PartialEq)]
pub(crate) struct Select<'t> {
    /// None for `*`.
    pub(crate) columns: Option<Vec<Path<'t>>>,
    pub(crate) from: Source<'t>,
    pub(crate) condition: Option<Expression<'t>>,
    pub(crate) order: Vec<Order<'t>>,
}

/// A table, or `"table"."index"`.
#[derive(Debug, PartialEq)]
pub(crate) struct Source<'t> {
    pub(crate) table: Cow<'t, str>,
    pub(crate) index: Option<Cow<'t, str>>,
    pub(crate) place: Place,
}

#[derive(Debug, PartialEq)]
pub(crate) struct Order<'t> {
    pub(crate) path: Path<'t>,
    pub(crate) descending: bool,
}

#[derive(Debug, PartialEq)]
pub(crate) enum UpdateClause<'t> {
    Set(Path<'t>, Expression<'t>),
    Remove(Path<'t>),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Path<'t> {
    pub(crate) root: Cow<'t, str>,
    pub(crate) steps: Vec<Step<'t>>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step<'t> {
    Field(Cow<'t, str>),
    /// The digits, as written.
    Index(&'t str),
}

#[derive(Debug, PartialEq)]
pub(crate) enum Expression<'t> {
    Path(Path<'t>),
    /// `?`, by its place among them.
    Parameter(usize),
    Text(Cow<'t, str>),
    /// As written, with its sign.
    Number(Cow<'t, str>),
    Bool(bool),
    Null,
    Missing,
    List(Vec<Expression<'t>>),
    Bag(Vec<Expression<'t>>),
    Map(Vec<(Cow<'t, str>, Expression<'t>)>),
    Call {
        function: &'t str,
        place: Place,
        arguments: Vec<Expression<'t>>,
    },
    Sum {
        left: Box<Expression<'t>>,
        plus: bool,
        right: Box<Expression<'t>>,
    },
    Compare {
        left: Box<Expression<'t>>,
        comparator: Comparator,
        right: Box<Expression<'t>>,
    },
    Between {
        value: Box<Expression<'t>>,
        low: Box<Expression<'t>>,
        high: Box<Expression<'t>>,
    },
    In {
        value: Box<Expression<'t>>,
        list: Box<Expression<'t>>,
    },
    IsNull(Box<Expression<'t>>),
    IsMissing(Box<Expression<'t>>),
    Not(Box<Expression<'t>>),
    /// Two or more: a chain is as long as a statement, and would be as deep if each pair were one.
    And(Vec<Expression<'t>>),
    Or(Vec<Expression<'t>>),
}
