//! The parameters that came before expressions, read from JSON. What they mean is `larder_expr::legacy`'s.
//!
//! An empty attribute name is refused in `Expected` and `AttributeUpdates`, but not in the filters; in the
//! values all of them hold it is refused.

use std::collections::BTreeMap;

use larder_expr::Error;
use larder_expr::legacy::{
    Action, AttributeUpdate, Comparison, ComparisonOperator, ConditionalOperator, Expectation,
};
use larder_model::AttributeValue;

use crate::constraints::LISTED_MAX;
use crate::json::Reader;
use crate::refusal::{Read, Refusal, Rules};
use crate::shape;
use crate::value::{self, Flaws};

/// `Expected`, `KeyConditions`, `QueryFilter` or `ScanFilter`.
#[derive(Debug, Default)]
pub(crate) struct Conditions {
    entries: BTreeMap<String, Entry>,
    pub(crate) flaws: Flaws,
    pub(crate) empty_name: bool,
}

#[derive(Debug, Default)]
struct Entry {
    value: Option<AttributeValue>,
    exists: Option<bool>,
    operator: Option<String>,
    list: Option<Vec<AttributeValue>>,
}

/// Conditions of the class `class`.
pub(crate) fn conditions(reader: &mut Reader<'_>, class: &str) -> Read<Option<Conditions>> {
    let mut found = Conditions::default();
    let present = shape::map(reader, class, |reader, name| {
        reader.charge(shape::STRUCTURE_BYTES)?;
        reader.charge_text(name.len())?;
        let mut entry = Entry::default();
        let flaws = &mut found.flaws;
        shape::element(reader, class, |reader, member| {
            match &*member {
                "ComparisonOperator" => entry.operator = shape::owned_text(reader)?,
                "AttributeValueList" => entry.list = value_list(reader, flaws)?,
                "Exists" => entry.exists = shape::boolean(reader)?,
                "Value" if !reader.null()? => entry.value = Some(value::value(reader, flaws)?),
                "Value" => {}
                _ => drop(reader.skip()?),
            }
            Ok(())
        })?;
        found.empty_name |= name.is_empty();
        if !name.is_empty() {
            found.flaws.note_name(&name);
        }
        found.entries.insert(name.into_owned(), entry);
        Ok(())
    })?;
    Ok(present.then_some(found))
}

fn value_list(reader: &mut Reader<'_>, flaws: &mut Flaws) -> Read<Option<Vec<AttributeValue>>> {
    let mut values = Vec::new();
    let present = shape::values(reader, |reader| {
        reader.charge(2 * size_of::<AttributeValue>())?;
        values.push(value::value(reader, flaws)?);
        Ok(())
    })?;
    Ok(present.then_some(values))
}

impl Conditions {
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// What is said of conditions without an operator, where one is needed.
    pub(crate) fn without_operator(&self, member: &str) -> Vec<String> {
        let without = self.entries.iter().filter(|(_, entry)| entry.operator.is_none());
        let path = |name: &str| format!("{member}.{name}.member.comparisonOperator");
        let null = |path: String| {
            format!("Value null at '{path}' failed to satisfy constraint: Member must not be null")
        };
        without.take(LISTED_MAX).map(|(name, _)| null(path(name))).collect()
    }

    /// Refuses values that a Query's or Scan's conditions cannot hold.
    pub(crate) fn check_values(&self, rules: Rules) -> Read<()> {
        self.flaws.check_read(rules)?;
        self.flaws.check_sets(rules)
    }

    pub(crate) fn expectations(self) -> Read<BTreeMap<String, Expectation>> {
        let expectation = |entry: Entry| -> Read<_> {
            let operator = entry.operator.as_deref().map(ComparisonOperator::from_name).transpose()?;
            Ok(Expectation { value: entry.value, exists: entry.exists, operator, list: entry.list })
        };
        self.entries.into_iter().map(|(name, entry)| Ok((name, expectation(entry)?))).collect()
    }

    pub(crate) fn comparisons(self) -> Read<BTreeMap<String, Comparison>> {
        let comparison = |entry: Entry| -> Read<_> {
            let operator = ComparisonOperator::from_name(&entry.operator.unwrap_or_default())?;
            Ok(Comparison { operator, list: entry.list.unwrap_or_default() })
        };
        self.entries.into_iter().map(|(name, entry)| Ok((name, comparison(entry)?))).collect()
    }
}

/// `ConditionalOperator`, which only joins two conditions or more.
pub(crate) fn conditional_operator(
    operator: Option<&str>,
    conditions: &Option<Conditions>,
) -> Read<Option<ConditionalOperator>> {
    let Some(operator) = operator else { return Ok(None) };
    match (conditions.as_ref().map_or(0, Conditions::len), operator) {
        (0, _) => Err(Error::OperatorWithoutConditions.into()),
        (1, _) => Err(Error::OperatorForOneCondition.into()),
        (_, "AND") => Ok(Some(ConditionalOperator::And)),
        (_, "OR") => Ok(Some(ConditionalOperator::Or)),
        _ => Err(Refusal::enveloped(
            "Failed to satisfy constraint: Member must satisfy enum value set: [ALL, OR]",
        )),
    }
}

/// `AttributeUpdates`.
#[derive(Debug, Default)]
pub(crate) struct Updates {
    updates: BTreeMap<String, (Option<String>, Option<AttributeValue>)>,
    pub(crate) flaws: Flaws,
}

pub(crate) fn updates(reader: &mut Reader<'_>) -> Read<Option<Updates>> {
    const CLASS: &str = "AttributeValueUpdate";
    // Here, and once more as an update is made of it.
    const UPDATE_BYTES: usize = 512;
    let mut found = Updates::default();
    let present = shape::map(reader, CLASS, |reader, name| {
        reader.charge(UPDATE_BYTES)?;
        reader.charge_text(name.len())?;
        let (mut action, mut value) = (None, None);
        let flaws = &mut found.flaws;
        shape::element(reader, CLASS, |reader, member| {
            match &*member {
                "Action" => action = shape::owned_text(reader)?,
                "Value" if !reader.null()? => value = Some(value::value(reader, flaws)?),
                "Value" => {}
                _ => drop(reader.skip()?),
            }
            Ok(())
        })?;
        flaws.note_name(&name);
        found.updates.insert(name.into_owned(), (action, value));
        Ok(())
    })?;
    Ok(present.then_some(found))
}

impl Updates {
    /// Every action is looked at before any value is.
    pub(crate) fn into_updates(self) -> Read<BTreeMap<String, AttributeUpdate>> {
        let update = |(name, (action, value)): (String, (Option<String>, _))| {
            let action = action.as_deref().map(Action::from_name).transpose()?.unwrap_or_default();
            Ok((name, AttributeUpdate { action, value }))
        };
        self.updates.into_iter().map(update).collect()
    }
}
