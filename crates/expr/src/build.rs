//! Bound expressions made of operands, checked as those that come as text are: for a language of other words that
//! means the same.

use std::sync::Arc;

use larder_model::{AttributeType, AttributeValue, Number, Path, Step};

use crate::condition::{order, size as size_of};
use crate::survey::Function;
use crate::{Comparator, Condition, Fault, Operand, SetOperand, SetValue, Update};

pub fn compare(left: Operand, comparator: Comparator, right: Operand) -> Result<Condition, Fault> {
    let operator = comparator.symbol();
    check_distinct(operator, &left, [&right])?;
    if !matches!(comparator, Comparator::Equal | Comparator::NotEqual) {
        check_types(operator, [&left, &right], ORDERED)?;
    }
    Ok(Condition::Compare { left, comparator, right })
}

pub fn between(value: Operand, low: Operand, high: Operand) -> Result<Condition, Fault> {
    check_distinct("BETWEEN", &value, [&low, &high])?;
    check_types("BETWEEN", [&value, &low, &high], ORDERED)?;
    check_bounds(&low, &high)?;
    Ok(Condition::Between { value, low, high })
}

/// `value IN list`; how long the list may be is for its language to say.
pub fn among(value: Operand, list: Vec<Operand>) -> Result<Condition, Fault> {
    check_distinct("IN", &value, &list)?;
    Ok(Condition::In { value, list })
}

pub fn exists(operand: Operand) -> Result<Condition, Fault> {
    as_path(Function::AttributeExists.name(), operand).map(Condition::Exists)
}

pub fn not_exists(operand: Operand) -> Result<Condition, Fault> {
    as_path(Function::AttributeNotExists.name(), operand).map(Condition::NotExists)
}

pub fn begins_with(value: Operand, prefix: Operand) -> Result<Condition, Fault> {
    let operator = Function::BeginsWith.name();
    check_distinct(operator, &value, [&prefix])?;
    check_types(operator, [&value, &prefix], &[AttributeType::S, AttributeType::B])?;
    Ok(Condition::BeginsWith { value, prefix })
}

pub fn contains(value: Operand, part: Operand) -> Result<Condition, Fault> {
    check_distinct(Function::Contains.name(), &value, [&part])?;
    Ok(Condition::Contains { value, part })
}

/// `size(operand)`.
pub fn size(operand: Operand) -> Result<Operand, Fault> {
    let operator = Function::Size.name();
    match operand {
        Operand::Path(path) => Ok(Operand::Size(path)),
        Operand::Size(_) => Err(Fault::OperandType { operator, kind: AttributeType::N }),
        Operand::Value(value) => match size_of(&value).and_then(|size| i64::try_from(size).ok()) {
            Some(size) => Ok(Operand::value(Number::from(size))),
            None => Err(Fault::OperandType { operator, kind: value.kind() }),
        },
    }
}

/// `left + right`.
pub fn plus(left: SetOperand, right: SetOperand) -> Result<SetValue, Fault> {
    check_literals("+", [&left, &right], AttributeType::N)?;
    Ok(SetValue::Plus(left, right))
}

/// `left - right`.
pub fn minus(left: SetOperand, right: SetOperand) -> Result<SetValue, Fault> {
    check_literals("-", [&left, &right], AttributeType::N)?;
    Ok(SetValue::Minus(left, right))
}

/// `list_append(head, tail)`.
pub fn list_append(head: SetOperand, tail: SetOperand) -> Result<SetOperand, Fault> {
    check_literals(Function::ListAppend.name(), [&head, &tail], AttributeType::L)?;
    Ok(SetOperand::ListAppend(Box::new(head), Box::new(tail)))
}

/// An update, once no two of its paths meet and what it adds and deletes can be.
pub fn update(update: Update) -> Result<Update, Fault> {
    check_overlaps(&update.paths().collect::<Vec<_>>())?;
    check_changes(&update)?;
    Ok(update)
}

pub(crate) fn check_literals(
    operator: &'static str,
    operands: [&SetOperand; 2],
    needed: AttributeType,
) -> Result<(), Fault> {
    for operand in operands {
        if let SetOperand::Value(value) = operand
            && value.kind() != needed
        {
            return Err(Fault::OperandType { operator, kind: value.kind() });
        }
    }
    Ok(())
}

const ORDERED: &[AttributeType] = &[AttributeType::S, AttributeType::N, AttributeType::B];

fn check_distinct<'a>(
    operator: &'static str,
    first: &Operand,
    rest: impl IntoIterator<Item = &'a Operand>,
) -> Result<(), Fault> {
    let Operand::Path(path) = first else { return Ok(()) };
    if rest.into_iter().any(|operand| operand == first) {
        return Err(Fault::NotDistinct { operator, first: path.clone() });
    }
    Ok(())
}

fn check_types<'a>(
    operator: &'static str,
    operands: impl IntoIterator<Item = &'a Operand>,
    allowed: &[AttributeType],
) -> Result<(), Fault> {
    for operand in operands {
        let kind = match operand {
            Operand::Path(_) => continue,
            Operand::Value(value) => value.kind(),
            Operand::Size(_) => AttributeType::N,
        };
        if !allowed.contains(&kind) {
            return Err(Fault::OperandType { operator, kind });
        }
    }
    Ok(())
}

fn check_bounds(low: &Operand, high: &Operand) -> Result<(), Fault> {
    let (Operand::Value(low), Operand::Value(high)) = (low, high) else { return Ok(()) };
    let bounds = || (Arc::clone(low), Arc::clone(high));
    if low.kind() != high.kind() {
        let (low, high) = bounds();
        return Err(Fault::BetweenTypes(low, high));
    }
    if order(low, high).is_some_and(std::cmp::Ordering::is_gt) {
        let (low, high) = bounds();
        return Err(Fault::BetweenOrder(low, high));
    }
    Ok(())
}

fn as_path(operator: &'static str, operand: Operand) -> Result<Path, Fault> {
    match operand {
        Operand::Path(path) => Ok(path),
        Operand::Value(_) | Operand::Size(_) => Err(Fault::NotAPath(operator)),
    }
}

/// `attribute_type(operand, name)`.
pub fn type_is(operand: Operand, name: &Operand) -> Result<Condition, Fault> {
    let operator = Function::AttributeType.name();
    check_distinct(operator, &operand, [name])?;
    let name = match name {
        Operand::Value(value) => match &**value {
            AttributeValue::S(name) => name,
            _ => return Err(Fault::OperandType { operator, kind: value.kind() }),
        },
        Operand::Size(_) => return Err(Fault::OperandType { operator, kind: AttributeType::N }),
        Operand::Path(_) => return Err(Fault::TypeNameNotAValue),
    };
    let kind = AttributeType::from_name(name).ok_or_else(|| Fault::UnknownType(name.clone()))?;
    let truth = |holds: bool| Condition::Compare {
        left: Operand::value(holds),
        comparator: Comparator::Equal,
        right: Operand::value(true),
    };
    Ok(match operand {
        Operand::Path(path) => Condition::TypeIs { path, kind },
        Operand::Value(value) => truth(value.kind() == kind),
        // A size is a number wherever there is one.
        Operand::Size(path) if kind == AttributeType::N => Condition::Compare {
            left: Operand::Size(path),
            comparator: Comparator::GreaterOrEqual,
            right: Operand::value(Number::ZERO),
        },
        Operand::Size(_) => truth(false),
    })
}

pub(crate) fn check_changes(update: &Update) -> Result<(), Fault> {
    use AttributeType::{Bs, N, Ns, Ss};
    let check = |operator, changes: &[(Path, Arc<AttributeValue>)], allowed: &[AttributeType]| match changes
        .iter()
        .map(|(_, value)| value.kind())
        .find(|kind| !allowed.contains(kind))
    {
        Some(kind) => Err(Fault::ClauseOperandType { operator, kind }),
        None => Ok(()),
    };
    check("ADD", &update.add, &[N, Ss, Ns, Bs])?;
    check("DELETE", &update.delete, &[Ss, Ns, Bs])
}

/// Refuses a path that is another's beginning, and two that take one place for a map and for a list.
pub(crate) fn check_overlaps(paths: &[&Path]) -> Result<(), Fault> {
    // Sorted, some two that clash are neighbours. Which pair to name needs the order they were written in.
    if paths.len() > 16 {
        let mut sorted = paths.to_vec();
        sorted.sort();
        if sorted.windows(2).all(|pair| clash(pair[0], pair[1]).is_none()) {
            return Ok(());
        }
    }
    let mut conflict = None;
    for (at, two) in paths.iter().enumerate() {
        for one in &paths[..at] {
            match clash(one, two) {
                Some(Clash::Overlap) => return Err(Fault::PathsOverlap((*one).clone(), (*two).clone())),
                Some(Clash::Conflict) if conflict.is_none() => conflict = Some((*one, *two)),
                _ => {}
            }
        }
    }
    conflict.map_or(Ok(()), |(one, two)| Err(Fault::PathsConflict(one.clone(), two.clone())))
}

enum Clash {
    Overlap,
    Conflict,
}

fn clash(one: &Path, two: &Path) -> Option<Clash> {
    if one.root != two.root {
        return None;
    }
    for (left, right) in one.steps.iter().zip(&two.steps) {
        match (left, right) {
            (Step::Field(left), Step::Field(right)) if left == right => {}
            (Step::Index(left), Step::Index(right)) if left == right => {}
            (Step::Field(_), Step::Field(_)) | (Step::Index(_), Step::Index(_)) => return None,
            _ => return Some(Clash::Conflict),
        }
    }
    Some(Clash::Overlap)
}
