//! What a tree shows by itself, before any placeholder means anything: reserved words, functions out of
//! place, doubled parentheses, limits. The leftmost fault is the one reported.

use larder_model::limits::{EXPRESSION_OPERATORS_MAX, IN_OPERANDS_MAX, NESTING_DEPTH_MAX};

use crate::reserved::is_reserved;
use crate::{Fault, ast};

/// The first pass: what the tree alone shows, left to right.
#[derive(Default)]
pub(crate) struct Survey {
    operators: usize,
}

impl Survey {
    fn operator(&mut self) -> Result<(), Fault> {
        self.operators += 1;
        if self.operators > EXPRESSION_OPERATORS_MAX {
            return Err(Fault::TooManyOperators(self.operators));
        }
        Ok(())
    }

    /// Recurses as deep as the condition nests, so it keeps little on the stack.
    pub(crate) fn condition(&mut self, tree: &ast::Condition<'_>) -> Result<(), Fault> {
        let tree = match tree {
            ast::Condition::Group(inner) => &**inner,
            bare => bare,
        };
        match tree {
            ast::Condition::Not(inner) => {
                self.operator()?;
                self.condition(inner)
            }
            ast::Condition::And(left, right) | ast::Condition::Or(left, right) => {
                self.operator()?;
                self.condition(left)?;
                self.condition(right)
            }
            ast::Condition::Group(_) => Err(Fault::RedundantParentheses),
            ast::Condition::Compare { left, right, .. } => self.operation(&[left, right]),
            ast::Condition::Between { value, low, high } => self.operation(&[value, low, high]),
            ast::Condition::In { value, list } => self.among(value, list),
            ast::Condition::Call(call) => self.test(call),
        }
    }

    fn operation(&mut self, operands: &[&ast::Operand<'_>]) -> Result<(), Fault> {
        self.operator()?;
        operands.iter().try_for_each(|operand| self.operand(operand))
    }

    fn among(&mut self, value: &ast::Operand<'_>, list: &[ast::Operand<'_>]) -> Result<(), Fault> {
        if list.len() > IN_OPERANDS_MAX {
            return Err(Fault::TooManyInOperands(list.len()));
        }
        self.operation(&[value])?;
        list.iter().try_for_each(|operand| self.operand(operand))
    }

    fn test(&mut self, call: &ast::Call<'_>) -> Result<(), Fault> {
        let function = Function::named(call.function)?;
        check_condition_function(function, function != Function::Size)?;
        self.arguments(call)
    }

    fn arguments(&mut self, call: &ast::Call<'_>) -> Result<(), Fault> {
        self.operator()?;
        call.arguments.iter().try_for_each(|argument| self.operand(argument))
    }

    fn operand(&mut self, operand: &ast::Operand<'_>) -> Result<(), Fault> {
        match operand {
            ast::Operand::Path(path) => check_path(path),
            ast::Operand::Value(_) => Ok(()),
            ast::Operand::Call(call) => {
                let function = Function::named(call.function)?;
                check_condition_function(function, function == Function::Size)?;
                self.arguments(call)
            }
            ast::Operand::Group(inner) => {
                check_single(inner)?;
                self.operand(inner)
            }
        }
    }

    pub(crate) fn update(&mut self, tree: &ast::Update<'_>) -> Result<(), Fault> {
        for clause in &tree.clauses {
            match clause {
                ast::Clause::Set(actions) => {
                    for (path, value) in actions {
                        check_path(path)?;
                        self.set_value(value)?;
                    }
                }
                ast::Clause::Remove(paths) => paths.iter().try_for_each(check_path)?,
                ast::Clause::Add(actions) | ast::Clause::Delete(actions) => {
                    actions.iter().try_for_each(|(path, _)| check_path(path))?;
                }
            }
        }
        for (at, clause) in tree.clauses.iter().enumerate() {
            let section = section(clause);
            if tree.clauses[..at].iter().any(|earlier| self::section(earlier) == section) {
                return Err(Fault::RepeatedSection(section));
            }
        }
        Ok(())
    }

    fn set_value(&mut self, value: &ast::SetValue<'_>) -> Result<(), Fault> {
        match value {
            ast::SetValue::Is(operand) => self.set_operand(operand, true),
            ast::SetValue::Plus(left, right) | ast::SetValue::Minus(left, right) => {
                self.operator()?;
                self.set_operand(left, false)?;
                self.set_operand(right, false)
            }
            ast::SetValue::Group(inner) => match &**inner {
                ast::SetValue::Group(_) => Err(Fault::RedundantParentheses),
                sum => self.set_value(sum),
            },
        }
    }

    /// `list_append` stands alone: nothing else takes its result.
    fn set_operand(&mut self, operand: &ast::Operand<'_>, alone: bool) -> Result<(), Fault> {
        match operand {
            ast::Operand::Path(path) => check_path(path),
            ast::Operand::Value(_) => Ok(()),
            ast::Operand::Call(call) => {
                let function = Function::named(call.function)?;
                if !function.updates() {
                    return Err(Fault::ForeignFunction { place: "an update", function: function.name() });
                }
                if function == Function::ListAppend && !alone {
                    return Err(Fault::MisusedFunction(function.name()));
                }
                self.operator()?;
                call.arguments.iter().try_for_each(|argument| self.set_operand(argument, false))
            }
            ast::Operand::Group(inner) => {
                check_single(inner)?;
                self.set_operand(inner, alone)
            }
        }
    }
}

fn check_condition_function(function: Function, fits: bool) -> Result<(), Fault> {
    if function.updates() {
        return Err(Fault::ForeignFunction { place: "a condition", function: function.name() });
    }
    if fits { Ok(()) } else { Err(Fault::MisusedFunction(function.name())) }
}

fn check_single(inner: &ast::Operand<'_>) -> Result<(), Fault> {
    if matches!(inner, ast::Operand::Group(_)) { Err(Fault::RedundantParentheses) } else { Ok(()) }
}

pub(crate) fn check_path(path: &ast::Path<'_>) -> Result<(), Fault> {
    let check_name = |name: &ast::Name<'_>| match name {
        ast::Name::Word(word) if is_reserved(word) => Err(Fault::Reserved((*word).to_owned())),
        _ => Ok(()),
    };
    check_name(&path.root)?;
    for step in &path.steps {
        match step {
            ast::Step::Field(name) => check_name(name)?,
            ast::Step::Index(digits) => {
                index(digits)?;
            }
        }
    }
    let levels = 1 + path.steps.len();
    if levels > NESTING_DEPTH_MAX { Err(Fault::PathTooDeep(levels)) } else { Ok(()) }
}

pub(crate) fn index(digits: &str) -> Result<usize, Fault> {
    let in_range = digits.parse::<i32>().ok().and_then(|index| usize::try_from(index).ok());
    in_range.ok_or_else(|| Fault::IndexTooLarge(digits.to_owned()))
}

fn section(clause: &ast::Clause<'_>) -> &'static str {
    match clause {
        ast::Clause::Set(_) => "SET",
        ast::Clause::Remove(_) => "REMOVE",
        ast::Clause::Add(_) => "ADD",
        ast::Clause::Delete(_) => "DELETE",
    }
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Function {
    AttributeExists,
    AttributeNotExists,
    AttributeType,
    BeginsWith,
    Contains,
    Size,
    IfNotExists,
    ListAppend,
}

impl Function {
    const ALL: [Self; 8] = [
        Self::AttributeExists,
        Self::AttributeNotExists,
        Self::AttributeType,
        Self::BeginsWith,
        Self::Contains,
        Self::Size,
        Self::IfNotExists,
        Self::ListAppend,
    ];

    pub(crate) fn named(name: &str) -> Result<Self, Fault> {
        let function = Self::ALL.into_iter().find(|function| function.name() == name);
        function.ok_or_else(|| Fault::UnknownFunction(name.to_owned()))
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::AttributeExists => "attribute_exists",
            Self::AttributeNotExists => "attribute_not_exists",
            Self::AttributeType => "attribute_type",
            Self::BeginsWith => "begins_with",
            Self::Contains => "contains",
            Self::Size => "size",
            Self::IfNotExists => "if_not_exists",
            Self::ListAppend => "list_append",
        }
    }

    pub(crate) fn operand_count(self) -> usize {
        match self {
            Self::AttributeExists | Self::AttributeNotExists | Self::Size => 1,
            Self::AttributeType
            | Self::BeginsWith
            | Self::Contains
            | Self::IfNotExists
            | Self::ListAppend => 2,
        }
    }

    fn updates(self) -> bool {
        matches!(self, Self::IfNotExists | Self::ListAppend)
    }
}
