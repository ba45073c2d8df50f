//! The parameters that came before expressions, as expressions: `Expected`, `AttributeUpdates`,
//! `KeyConditions`, `QueryFilter`, `ScanFilter`, `AttributesToGet`, `ConditionalOperator`.
//!
//! Names here are whole attribute names: a dot in one is a dot, not a path.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use larder_model::limits::{EXPRESSION_OPERATORS_MAX, IN_OPERANDS_MAX};
use larder_model::{AttributeType, AttributeValue, Path};

use crate::condition::order;
use crate::{
    Comparator, Condition, Error, KeyCondition, KeyTest, LegacyFault, Operand, Projection, SetOperand,
    SetValue, SortTest, Update,
};

/// `ComparisonOperator`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComparisonOperator {
    Eq,
    Ne,
    Le,
    Lt,
    Ge,
    Gt,
    NotNull,
    Null,
    Contains,
    NotContains,
    BeginsWith,
    In,
    Between,
}

impl ComparisonOperator {
    const ALL: [Self; 13] = [
        Self::Eq,
        Self::Ne,
        Self::Le,
        Self::Lt,
        Self::Ge,
        Self::Gt,
        Self::NotNull,
        Self::Null,
        Self::Contains,
        Self::NotContains,
        Self::BeginsWith,
        Self::In,
        Self::Between,
    ];

    /// The operator of that name, in that case.
    pub fn from_name(name: &str) -> Result<Self, Error> {
        let operator = Self::ALL.into_iter().find(|operator| operator.name() == name);
        operator.ok_or(Error::Legacy(LegacyFault::UnknownOperator))
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Eq => "EQ",
            Self::Ne => "NE",
            Self::Le => "LE",
            Self::Lt => "LT",
            Self::Ge => "GE",
            Self::Gt => "GT",
            Self::NotNull => "NOT_NULL",
            Self::Null => "NULL",
            Self::Contains => "CONTAINS",
            Self::NotContains => "NOT_CONTAINS",
            Self::BeginsWith => "BEGINS_WITH",
            Self::In => "IN",
            Self::Between => "BETWEEN",
        }
    }

    fn takes(self, count: usize) -> bool {
        match self {
            Self::Null | Self::NotNull => count == 0,
            Self::Between => count == 2,
            Self::In => count > 0,
            _ => count == 1,
        }
    }

    fn takes_type(self, kind: AttributeType) -> bool {
        use AttributeType::{B, Bool, N, Null, S};
        match self {
            Self::Eq | Self::Ne | Self::Null | Self::NotNull => true,
            Self::Le | Self::Lt | Self::Ge | Self::Gt | Self::In | Self::Between => matches!(kind, S | N | B),
            Self::Contains | Self::NotContains => matches!(kind, S | N | B | Bool | Null),
            Self::BeginsWith => matches!(kind, S | B),
        }
    }
}

/// `ConditionalOperator`. Without one, conditions are joined by AND.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionalOperator {
    And,
    Or,
}

/// One entry of `Expected`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Expectation {
    pub value: Option<AttributeValue>,
    pub exists: Option<bool>,
    pub operator: Option<ComparisonOperator>,
    pub list: Option<Vec<AttributeValue>>,
}

/// One entry of `KeyConditions`, `QueryFilter` or `ScanFilter`.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    pub operator: ComparisonOperator,
    pub list: Vec<AttributeValue>,
}

/// One entry of `AttributeUpdates`.
#[derive(Clone, Debug, PartialEq)]
pub struct AttributeUpdate {
    pub action: Action,
    pub value: Option<AttributeValue>,
}

/// What an attribute update does; `Put` when it does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Action {
    #[default]
    Put,
    Add,
    Delete,
}

impl Action {
    /// The action of that name, in that case.
    pub fn from_name(name: &str) -> Result<Self, Error> {
        match name {
            "PUT" => Ok(Self::Put),
            "ADD" => Ok(Self::Add),
            "DELETE" => Ok(Self::Delete),
            _ => Err(Error::UnknownAction),
        }
    }
}

/// Refuses a request that mixes the two ways of saying things. Each list names the parameters present.
pub fn check_not_mixed(legacy: &[&'static str], expressions: &[&'static str]) -> Result<(), Error> {
    if legacy.is_empty() || expressions.is_empty() {
        return Ok(());
    }
    Err(Error::Mixed { legacy: legacy.to_vec(), expressions: expressions.to_vec() })
}

/// Refuses placeholders in a request without an expression that could use them. `expressions` names those
/// present; `missing` those the message says are null, which it does for Query and Scan alone.
pub fn check_placeholders_wanted(
    names: bool,
    values: bool,
    expressions: &[&'static str],
    missing: &[&'static str],
) -> Result<(), Error> {
    if names && expressions.is_empty() {
        return Err(Error::NamesWithoutExpression);
    }
    let takes_values = expressions.iter().any(|name| *name != "ProjectionExpression");
    if values && !takes_values {
        return Err(Error::ValuesWithoutExpression(missing.to_vec()));
    }
    Ok(())
}

/// The condition `Expected` stands for; none if it is empty.
pub fn expected(
    expected: BTreeMap<String, Expectation>,
    join: Option<ConditionalOperator>,
) -> Result<Option<Condition>, Error> {
    check_join(expected.len(), join)?;
    let conditions = expected
        .into_iter()
        .map(|(name, expectation)| expect(name, expectation))
        .collect::<Result<_, _>>()?;
    Ok(joined(conditions, join))
}

/// The condition `QueryFilter` or `ScanFilter` stands for; none if it is empty.
pub fn filter(
    filter: BTreeMap<String, Comparison>,
    join: Option<ConditionalOperator>,
) -> Result<Option<Condition>, Error> {
    check_join(filter.len(), join)?;
    let conditions = filter
        .into_iter()
        .map(|(name, comparison)| {
            check_comparison(&comparison)?;
            Ok(test(name, comparison.operator, comparison.list))
        })
        .collect::<Result<_, Error>>()?;
    Ok(joined(conditions, join))
}

/// The key condition `KeyConditions` stands for.
pub fn key_conditions(conditions: BTreeMap<String, Comparison>) -> Result<KeyCondition, Error> {
    conditions.values().try_for_each(check_comparison)?;
    let mut tests = Vec::with_capacity(conditions.len());
    for (attribute, comparison) in conditions {
        let mut values = comparison.list.into_iter().map(Arc::new);
        let test = match (comparison.operator, values.next(), values.next()) {
            (ComparisonOperator::Eq, Some(value), None) => SortTest::Equal(value),
            (ComparisonOperator::Lt, Some(value), None) => SortTest::Less(value),
            (ComparisonOperator::Le, Some(value), None) => SortTest::LessOrEqual(value),
            (ComparisonOperator::Gt, Some(value), None) => SortTest::Greater(value),
            (ComparisonOperator::Ge, Some(value), None) => SortTest::GreaterOrEqual(value),
            (ComparisonOperator::BeginsWith, Some(value), None) => SortTest::BeginsWith(value),
            (ComparisonOperator::Between, Some(low), Some(high)) => SortTest::Between(low, high),
            _ => return Err(Error::NotIndexable),
        };
        tests.push(KeyTest { attribute: attribute.into(), test });
    }
    Ok(KeyCondition { tests })
}

/// The update `AttributeUpdates` stands for.
pub fn attribute_updates(updates: BTreeMap<String, AttributeUpdate>) -> Result<Update, Error> {
    use AttributeType::{Bs, L, N, Ns, Ss};
    let mut update = Update { legacy: true, ..Update::default() };
    for (name, AttributeUpdate { action, value }) in updates {
        let path = Path::attribute(name);
        match (action, value) {
            (Action::Put, Some(value)) => update.set.push((path, SetValue::Is(SetOperand::value(value)))),
            (Action::Add, Some(value)) => {
                if !matches!(value.kind(), N | Ss | Ns | Bs | L) {
                    return Err(LegacyFault::AddType(value.kind()).into());
                }
                update.add.push((path, Arc::new(value)));
            }
            (Action::Delete, Some(value)) => {
                if !matches!(value.kind(), Ss | Ns | Bs) {
                    return Err(LegacyFault::DeleteType(value.kind()).into());
                }
                update.delete.push((path, Arc::new(value)));
            }
            (Action::Delete, None) => update.remove.push(path),
            (Action::Put | Action::Add, None) => return Err(LegacyFault::ActionWithoutValue.into()),
        }
    }
    Ok(update)
}

/// The projection `AttributesToGet` stands for.
pub fn attributes_to_get(names: Vec<String>) -> Result<Projection, Error> {
    let mut seen = HashSet::with_capacity(names.len());
    if let Some(again) = names.iter().find(|name| !seen.insert(name.as_str())) {
        return Err(LegacyFault::DuplicateName(again.clone()).into());
    }
    Ok(Projection { paths: names.into_iter().map(Path::attribute).collect() })
}

fn check_join(conditions: usize, join: Option<ConditionalOperator>) -> Result<(), Error> {
    if conditions > EXPRESSION_OPERATORS_MAX {
        return Err(LegacyFault::TooManyConditions(conditions).into());
    }
    match (conditions, join) {
        (0, Some(_)) => Err(Error::OperatorWithoutConditions),
        (1, Some(_)) => Err(Error::OperatorForOneCondition),
        _ => Ok(()),
    }
}

fn joined(conditions: Vec<Condition>, join: Option<ConditionalOperator>) -> Option<Condition> {
    let join = match join {
        Some(ConditionalOperator::Or) => Condition::Or,
        Some(ConditionalOperator::And) | None => Condition::And,
    };
    conditions.into_iter().reduce(|left, right| join(Box::new(left), Box::new(right)))
}

fn expect(name: String, expectation: Expectation) -> Result<Condition, Error> {
    let Expectation { value, exists, operator, list } = expectation;
    if value.is_some() && list.is_some() {
        return Err(LegacyFault::ValueAndList(name).into());
    }
    let Some(operator) = operator else {
        if list.is_some() {
            return Err(LegacyFault::ListWithoutOperator(name).into());
        }
        return match (exists, value) {
            (Some(false), None) => Ok(Condition::NotExists(Path::attribute(name))),
            (Some(false), Some(_)) => Err(LegacyFault::AbsentWithValue(name).into()),
            (_, Some(value)) => Ok(compare(name, Comparator::Equal, value)),
            (exists, None) => {
                let exists = if exists.is_some() { "true" } else { "null" };
                Err(LegacyFault::ExistsWithoutValue { exists, attribute: name }.into())
            }
        };
    };
    if exists.is_some() {
        return Err(LegacyFault::ExistsAndOperator(name).into());
    }
    let needs_value = !matches!(operator, ComparisonOperator::Null | ComparisonOperator::NotNull);
    if needs_value && value.is_none() && list.is_none() {
        return Err(LegacyFault::OperatorWithoutValue { operator: operator.name(), attribute: name }.into());
    }
    let comparison = Comparison { operator, list: list.unwrap_or_else(|| value.into_iter().collect()) };
    check_comparison(&comparison)?;
    Ok(test(name, operator, comparison.list))
}

fn check_comparison(comparison: &Comparison) -> Result<(), Error> {
    let Comparison { operator, list } = comparison;
    if !operator.takes(list.len()) {
        return Err(LegacyFault::ArgumentCount(operator.name()).into());
    }
    if list.len() > IN_OPERANDS_MAX {
        return Err(LegacyFault::TooManyInValues(list.len()).into());
    }
    // IN looks at all its arguments; the others take theirs to be of the first one's type.
    let checked = if *operator == ComparisonOperator::In { list.len() } else { list.len().min(1) };
    let mut kinds = list.iter().map(AttributeValue::kind);
    if let Some(kind) = kinds.by_ref().take(checked).find(|kind| !operator.takes_type(*kind)) {
        return Err(LegacyFault::ArgumentType { operator: operator.name(), kind }.into());
    }
    if list.windows(2).any(|pair| pair[0].kind() != pair[1].kind()) {
        return Err(LegacyFault::MixedTypes.into());
    }
    if let (ComparisonOperator::Between, [low, high]) = (operator, list.as_slice())
        && order(low, high) == Some(Ordering::Greater)
    {
        return Err(Error::LegacyBetween);
    }
    Ok(())
}

/// The condition for an operator and arguments that fit it.
fn test(name: String, operator: ComparisonOperator, list: Vec<AttributeValue>) -> Condition {
    let path = Path::attribute(name);
    let value = Operand::Path(path.clone());
    let mut list = list.into_iter().map(Operand::value);
    let comparator = match operator {
        ComparisonOperator::Null => return Condition::NotExists(path),
        ComparisonOperator::NotNull => return Condition::Exists(path),
        ComparisonOperator::In => return Condition::In { value, list: list.collect() },
        ComparisonOperator::Eq => Comparator::Equal,
        ComparisonOperator::Ne => Comparator::NotEqual,
        ComparisonOperator::Le => Comparator::LessOrEqual,
        ComparisonOperator::Lt => Comparator::Less,
        ComparisonOperator::Ge | ComparisonOperator::Between => Comparator::GreaterOrEqual,
        ComparisonOperator::Gt => Comparator::Greater,
        ComparisonOperator::Contains | ComparisonOperator::NotContains | ComparisonOperator::BeginsWith => {
            Comparator::Equal
        }
    };
    let first = list.next().expect("the number of arguments is checked");
    match operator {
        ComparisonOperator::Contains => Condition::Contains { value, part: first },
        // Unlike `NOT contains(…)`, this needs the attribute to be there.
        ComparisonOperator::NotContains => Condition::And(
            Box::new(Condition::Exists(path)),
            Box::new(Condition::Not(Box::new(Condition::Contains { value, part: first }))),
        ),
        ComparisonOperator::BeginsWith => Condition::BeginsWith { value, prefix: first },
        ComparisonOperator::Between => {
            let high = list.next().expect("the number of arguments is checked");
            Condition::Between { value, low: first, high }
        }
        _ => Condition::Compare { left: value, comparator, right: first },
    }
}

fn compare(name: String, comparator: Comparator, value: AttributeValue) -> Condition {
    Condition::Compare {
        left: Operand::Path(Path::attribute(name)),
        comparator,
        right: Operand::value(value),
    }
}
