//! What an expression says, before its placeholders mean anything. Everything is lent by the text.
//!
//! Parentheses are kept, because doubling them is an error.

use crate::Comparator;

#[derive(Debug, PartialEq)]
pub(crate) struct Path<'t> {
    pub(crate) root: Name<'t>,
    pub(crate) steps: Vec<Step<'t>>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Name<'t> {
    Word(&'t str),
    /// `#name`
    Placeholder(&'t str),
}

#[derive(Debug, PartialEq)]
pub(crate) enum Step<'t> {
    Field(Name<'t>),
    /// The digits, as written.
    Index(&'t str),
}

#[derive(Debug, PartialEq)]
pub(crate) enum Operand<'t> {
    Path(Path<'t>),
    /// `:value`
    Value(&'t str),
    Call(Call<'t>),
    Group(Box<Operand<'t>>),
}

impl Operand<'_> {
    /// The operand without parentheses around it.
    pub(crate) fn bare(&self) -> &Self {
        let mut operand = self;
        while let Self::Group(inner) = operand {
            operand = inner;
        }
        operand
    }
}

#[derive(Debug, PartialEq)]
pub(crate) struct Call<'t> {
    pub(crate) function: &'t str,
    pub(crate) arguments: Vec<Operand<'t>>,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Condition<'t> {
    Compare { left: Operand<'t>, comparator: Comparator, right: Operand<'t> },
    Between { value: Operand<'t>, low: Operand<'t>, high: Operand<'t> },
    In { value: Operand<'t>, list: Vec<Operand<'t>> },
    Call(Call<'t>),
    Not(Box<Condition<'t>>),
    And(Box<Condition<'t>>, Box<Condition<'t>>),
    Or(Box<Condition<'t>>, Box<Condition<'t>>),
    Group(Box<Condition<'t>>),
}

impl Condition<'_> {
    /// The condition without parentheses around it.
    pub(crate) fn bare(&self) -> &Self {
        let mut condition = self;
        while let Self::Group(inner) = condition {
            condition = inner;
        }
        condition
    }
}

/// The clauses as written; nothing keeps one from coming twice yet.
#[derive(Debug, PartialEq)]
pub(crate) struct Update<'t> {
    pub(crate) clauses: Vec<Clause<'t>>,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Clause<'t> {
    Set(Vec<(Path<'t>, SetValue<'t>)>),
    Remove(Vec<Path<'t>>),
    Add(Vec<(Path<'t>, &'t str)>),
    Delete(Vec<(Path<'t>, &'t str)>),
}

#[derive(Debug, PartialEq)]
pub(crate) enum SetValue<'t> {
    Is(Operand<'t>),
    Plus(Operand<'t>, Operand<'t>),
    Minus(Operand<'t>, Operand<'t>),
    Group(Box<SetValue<'t>>),
}
