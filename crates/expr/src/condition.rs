//! Whether a condition holds for an item.
//!
//! Values of different types are never equal and never ordered, and a missing value is equal to nothing, so
//! `<>` holds where every other comparison fails. Only strings, numbers and binaries have an order.

use std::cmp::Ordering;

use larder_model::{AttributeValue, Item, Number, Path};

use crate::{Comparator, Condition, Error, Operand};

impl Condition {
    /// Whether the item passes; no item is an item without attributes.
    pub fn holds(&self, item: Option<&Item>) -> Result<bool, Error> {
        Ok(match item {
            Some(item) => holds(self, item),
            None => holds(self, &Item::new()),
        })
    }

    /// Every path the condition reads, in the order written.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        let mut paths = Vec::new();
        collect_paths(self, &mut paths);
        paths.into_iter()
    }
}

fn holds(condition: &Condition, item: &Item) -> bool {
    match condition {
        Condition::Not(inner) => !holds(inner, item),
        Condition::And(left, right) => holds(left, item) && holds(right, item),
        Condition::Or(left, right) => holds(left, item) || holds(right, item),
        Condition::Compare { left, comparator, right } => compares(left, *comparator, right, item),
        Condition::Between { value, low, high } => between(value, low, high, item),
        Condition::In { value, list } => among(value, list, item),
        Condition::Exists(path) => path.find(item).is_some(),
        Condition::NotExists(path) => path.find(item).is_none(),
        Condition::TypeIs { path, kind } => path.find(item).is_some_and(|value| value.kind() == *kind),
        Condition::BeginsWith { value, prefix } => both(value, prefix, item, begins_with),
        Condition::Contains { value, part } => both(value, part, item, contains),
    }
}

fn compares(left: &Operand, comparator: Comparator, right: &Operand, item: &Item) -> bool {
    match (Resolved::of(left, item), Resolved::of(right, item)) {
        (Some(left), Some(right)) => compare(left.value(), comparator, right.value()),
        _ => comparator == Comparator::NotEqual,
    }
}

fn between(value: &Operand, low: &Operand, high: &Operand, item: &Item) -> bool {
    let Some(value) = Resolved::of(value, item) else { return false };
    let within = |bound, comparator| {
        Resolved::of(bound, item).is_some_and(|bound| compare(value.value(), comparator, bound.value()))
    };
    within(low, Comparator::GreaterOrEqual) && within(high, Comparator::LessOrEqual)
}

fn among(value: &Operand, list: &[Operand], item: &Item) -> bool {
    let Some(value) = Resolved::of(value, item) else { return false };
    list.iter().any(|other| Resolved::of(other, item).is_some_and(|other| value.value() == other.value()))
}

fn both(
    left: &Operand,
    right: &Operand,
    item: &Item,
    test: fn(&AttributeValue, &AttributeValue) -> bool,
) -> bool {
    match (Resolved::of(left, item), Resolved::of(right, item)) {
        (Some(left), Some(right)) => test(left.value(), right.value()),
        _ => false,
    }
}

/// What an operand stands for: a value lent by the item or the condition, or a size just counted.
enum Resolved<'a> {
    Lent(&'a AttributeValue),
    Counted(AttributeValue),
}

impl<'a> Resolved<'a> {
    fn of(operand: &'a Operand, item: &'a Item) -> Option<Self> {
        match operand {
            Operand::Path(path) => path.find(item).map(Self::Lent),
            Operand::Value(value) => Some(Self::Lent(value)),
            Operand::Size(path) => {
                let count = i64::try_from(size(path.find(item)?)?).ok()?;
                Some(Self::Counted(AttributeValue::N(Number::from(count))))
            }
        }
    }

    fn value(&self) -> &AttributeValue {
        match self {
            Self::Lent(value) => value,
            Self::Counted(value) => value,
        }
    }
}

/// `size(value)`: characters as UTF-16 counts them, bytes, or members. Other types have none.
pub(crate) fn size(value: &AttributeValue) -> Option<usize> {
    match value {
        AttributeValue::S(text) => Some(text.encode_utf16().count()),
        AttributeValue::B(bytes) => Some(bytes.len()),
        AttributeValue::Ss(set) => Some(set.len()),
        AttributeValue::Ns(set) => Some(set.len()),
        AttributeValue::Bs(set) => Some(set.len()),
        AttributeValue::L(list) => Some(list.len()),
        AttributeValue::M(map) => Some(map.len()),
        AttributeValue::N(_) | AttributeValue::Bool(_) | AttributeValue::Null => None,
    }
}

fn compare(left: &AttributeValue, comparator: Comparator, right: &AttributeValue) -> bool {
    match comparator {
        Comparator::Equal => left == right,
        Comparator::NotEqual => left != right,
        Comparator::Less => order(left, right).is_some_and(Ordering::is_lt),
        Comparator::LessOrEqual => order(left, right).is_some_and(Ordering::is_le),
        Comparator::Greater => order(left, right).is_some_and(Ordering::is_gt),
        Comparator::GreaterOrEqual => order(left, right).is_some_and(Ordering::is_ge),
    }
}

/// The order of two values, if they are of one type that has an order.
pub(crate) fn order(left: &AttributeValue, right: &AttributeValue) -> Option<Ordering> {
    match (left, right) {
        (AttributeValue::S(left), AttributeValue::S(right)) => Some(left.cmp(right)),
        (AttributeValue::N(left), AttributeValue::N(right)) => Some(left.cmp(right)),
        (AttributeValue::B(left), AttributeValue::B(right)) => Some(left.cmp(right)),
        _ => None,
    }
}

fn begins_with(value: &AttributeValue, prefix: &AttributeValue) -> bool {
    match (value, prefix) {
        (AttributeValue::S(text), AttributeValue::S(prefix)) => text.starts_with(prefix.as_str()),
        (AttributeValue::B(bytes), AttributeValue::B(prefix)) => bytes.starts_with(prefix),
        _ => false,
    }
}

fn contains(value: &AttributeValue, part: &AttributeValue) -> bool {
    match (value, part) {
        (AttributeValue::S(text), AttributeValue::S(part)) => text.contains(part.as_str()),
        (AttributeValue::B(bytes), AttributeValue::B(part)) => memchr::memmem::find(bytes, part).is_some(),
        (AttributeValue::Ss(set), AttributeValue::S(member)) => set.contains(member),
        (AttributeValue::Ns(set), AttributeValue::N(member)) => set.contains(member),
        (AttributeValue::Bs(set), AttributeValue::B(member)) => set.contains(member),
        (AttributeValue::L(list), member) => list.contains(member),
        _ => false,
    }
}

fn collect_paths<'a>(condition: &'a Condition, paths: &mut Vec<&'a Path>) {
    let mut operand = |operand: &'a Operand| match operand {
        Operand::Path(path) | Operand::Size(path) => paths.push(path),
        Operand::Value(_) => {}
    };
    match condition {
        Condition::Compare { left, right, .. } => [left, right].into_iter().for_each(operand),
        Condition::Between { value, low, high } => [value, low, high].into_iter().for_each(operand),
        Condition::In { value, list } => {
            operand(value);
            list.iter().for_each(operand);
        }
        Condition::Exists(path) | Condition::NotExists(path) | Condition::TypeIs { path, .. } => {
            paths.push(path);
        }
        Condition::BeginsWith { value, prefix: part } | Condition::Contains { value, part } => {
            [value, part].into_iter().for_each(operand);
        }
        Condition::Not(inner) => collect_paths(inner, paths),
        Condition::And(left, right) | Condition::Or(left, right) => {
            collect_paths(left, paths);
            collect_paths(right, paths);
        }
    }
}
