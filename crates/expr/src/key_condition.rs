//! A bound condition to a key condition, which can say less: tests on attributes, joined by AND, one for each.

use std::sync::Arc;

use larder_model::{AttributeValue, Path};

use crate::survey::Function;
use crate::{Comparator, Condition, Fault, KeyCondition, KeyTest, Operand, SortTest};

pub(crate) fn key_condition(condition: Condition) -> Result<KeyCondition, Fault> {
    let mut tests = Vec::new();
    key_tests(condition, &mut tests)?;
    Ok(KeyCondition { tests })
}

fn key_tests(condition: Condition, tests: &mut Vec<KeyTest>) -> Result<(), Fault> {
    let (path, test) = match condition {
        Condition::And(left, right) => {
            key_tests(*left, tests)?;
            return key_tests(*right, tests);
        }
        Condition::Compare { left, comparator, right } => key_compare(left, comparator, right)?,
        Condition::Between { value, low, high } => {
            let path = key_first("BETWEEN", value)?;
            (path, SortTest::Between(key_value(low)?, key_value(high)?))
        }
        Condition::BeginsWith { value, prefix } => {
            let path = key_first("begins_with", value)?;
            (path, SortTest::BeginsWith(key_value(prefix)?))
        }
        Condition::Or(..) => return Err(Fault::KeyOperator("OR")),
        Condition::Not(_) => return Err(Fault::KeyOperator("NOT")),
        Condition::In { .. } => return Err(Fault::KeyOperator("IN")),
        Condition::Exists(_) => return Err(Fault::KeyOperator(Function::AttributeExists.name())),
        Condition::NotExists(_) => return Err(Fault::KeyOperator(Function::AttributeNotExists.name())),
        Condition::TypeIs { .. } => return Err(Fault::KeyOperator(Function::AttributeType.name())),
        Condition::Contains { .. } => return Err(Fault::KeyOperator(Function::Contains.name())),
    };
    if !path.steps.is_empty() {
        return Err(Fault::KeyNestedAttribute);
    }
    if tests.iter().any(|test| *test.attribute == *path.root) {
        return Err(Fault::KeyRepeated);
    }
    tests.push(KeyTest { attribute: path.root, test });
    Ok(())
}

fn key_compare(left: Operand, comparator: Comparator, right: Operand) -> Result<(Path, SortTest), Fault> {
    if comparator == Comparator::NotEqual {
        return Err(Fault::KeyOperator(comparator.symbol()));
    }
    let (path, comparator, value) = match (left, right) {
        (Operand::Size(_), _) | (_, Operand::Size(_)) => return Err(Fault::KeyNestedOperation),
        (Operand::Path(_), Operand::Path(_)) => return Err(Fault::KeyManyNames),
        (Operand::Value(_), Operand::Value(_)) => return Err(Fault::KeyNoName),
        (Operand::Path(path), Operand::Value(value)) => (path, comparator, value),
        (Operand::Value(value), Operand::Path(path)) => (path, comparator.mirrored(), value),
    };
    let test = match comparator {
        Comparator::Equal | Comparator::NotEqual => SortTest::Equal(value),
        Comparator::Less => SortTest::Less(value),
        Comparator::LessOrEqual => SortTest::LessOrEqual(value),
        Comparator::Greater => SortTest::Greater(value),
        Comparator::GreaterOrEqual => SortTest::GreaterOrEqual(value),
    };
    Ok((path, test))
}

impl Comparator {
    /// The comparator that says the same with its sides exchanged.
    fn mirrored(self) -> Self {
        match self {
            Self::Less => Self::Greater,
            Self::LessOrEqual => Self::GreaterOrEqual,
            Self::Greater => Self::Less,
            Self::GreaterOrEqual => Self::LessOrEqual,
            Self::Equal | Self::NotEqual => self,
        }
    }
}

fn key_first(operator: &'static str, operand: Operand) -> Result<Path, Fault> {
    match operand {
        Operand::Path(path) => Ok(path),
        Operand::Size(_) => Err(Fault::KeyNestedOperation),
        Operand::Value(_) => Err(Fault::KeyNotFirst(operator)),
    }
}

fn key_value(operand: Operand) -> Result<Arc<AttributeValue>, Fault> {
    match operand {
        Operand::Value(value) => Ok(value),
        Operand::Size(_) => Err(Fault::KeyNestedOperation),
        Operand::Path(_) => Err(Fault::KeyManyNames),
    }
}
