//! Members that several operations share.

use std::borrow::Cow;

use larder_engine::ops::{ReturnCapacity, ReturnValues, Select, WriteOptions};
use larder_expr::{Condition, Scope, legacy};
use larder_model::{Item, TableName};

use crate::constraints::{self, Constraints};
use crate::expressions::{Parameters, Placeholders, check_not_empty};
use crate::json::Reader;
use crate::legacy::{Conditions, conditional_operator, conditions};
use crate::refusal::{Read, Refusal, Rules};
use crate::shape;
use crate::value::{self, Flaws};

/// Some text of the body.
pub(crate) type Text<'a> = Option<Cow<'a, str>>;

/// Reads the body: one map, and nothing after it.
pub(crate) fn request<'a>(
    reader: &mut Reader<'a>,
    each: impl FnMut(&mut Reader<'a>, Cow<'a, str>) -> Read<()>,
) -> Read<()> {
    reader.members(each)?;
    reader.end()
}

/// An item or a key, and what is wrong with it.
#[derive(Debug, Default)]
pub(crate) struct Attributes {
    pub(crate) item: Option<Item>,
    pub(crate) flaws: Flaws,
}

impl Attributes {
    /// Reads attributes that are refused at once when one cannot be understood.
    pub(crate) fn read(reader: &mut Reader<'_>, rules: Rules) -> Read<Self> {
        let attributes = Self::read_leniently(reader)?;
        attributes.flaws.check_read(rules)?;
        Ok(attributes)
    }

    pub(crate) fn read_leniently(reader: &mut Reader<'_>) -> Read<Self> {
        let mut flaws = Flaws::default();
        let item = value::attributes(reader, &mut flaws)?;
        Ok(Self { item, flaws })
    }

    /// Refuses what no key can hold. An empty set is refused outside the envelope, a repeated member in it.
    pub(crate) fn check_key(&self, rules: Rules) -> Read<()> {
        self.flaws.check_depth()?;
        match &self.flaws.set {
            Some(set) if set.is_empty_set() => Err(Refusal::Plain(set.message(rules.layer))),
            _ => self.flaws.check_sets(rules),
        }
    }
}

pub(crate) const CAPACITIES: [&str; 3] = ["INDEXES", "TOTAL", "NONE"];
pub(crate) const COLLECTION_METRICS: [&str; 2] = ["SIZE", "NONE"];
pub(crate) const ON_FAILURE: [&str; 2] = ["ALL_OLD", "NONE"];
const RETURN_VALUES: [&str; 5] = ["ALL_NEW", "UPDATED_OLD", "ALL_OLD", "NONE", "UPDATED_NEW"];
/// As DynamoDB spells the set, with one value it does not take.
const RETURN_VALUES_RULE: &str = "Failed to satisfy constraint: Member must satisfy enum value set: [ALL_OLD, UPDATED_OLD, ALL_NEW, UPDATE_NEW, NONE]";
const SELECTS: [&str; 4] = ["SPECIFIC_ATTRIBUTES", "COUNT", "ALL_ATTRIBUTES", "ALL_PROJECTED_ATTRIBUTES"];
pub(crate) const OLD_OR_NONE: &str = "ReturnValues can only be ALL_OLD or NONE";

pub(crate) fn capacity_error(capacity: &Text<'_>) -> Option<String> {
    constraints::outside(capacity.as_deref(), "returnConsumedCapacity", &CAPACITIES)
}

pub(crate) fn capacity(text: &Text<'_>) -> ReturnCapacity {
    match text.as_deref() {
        Some("TOTAL") => ReturnCapacity::Total,
        Some("INDEXES") => ReturnCapacity::Indexes,
        _ => ReturnCapacity::None,
    }
}

pub(crate) fn collection_metrics_error(metrics: &Text<'_>) -> Option<String> {
    constraints::outside(metrics.as_deref(), "returnItemCollectionMetrics", &COLLECTION_METRICS)
}

pub(crate) fn select_error(select: &Text<'_>) -> Option<String> {
    constraints::outside(select.as_deref(), "select", &SELECTS)
}

pub(crate) fn select(text: &Text<'_>) -> Option<Select> {
    Some(match text.as_deref()? {
        "ALL_ATTRIBUTES" => Select::AllAttributes,
        "ALL_PROJECTED_ATTRIBUTES" => Select::AllProjectedAttributes,
        "SPECIFIC_ATTRIBUTES" => Select::SpecificAttributes,
        _ => Select::Count,
    })
}

/// `Select` against what else a Query or Scan says about attributes: what is wrong with it, which a Query has an envelope for.
pub(crate) fn check_select(
    select: &Text<'_>,
    names: bool,
    projection: bool,
    index: bool,
) -> Result<(), String> {
    let projected = match (names, projection) {
        (true, _) => Some("AttributesToGet"),
        (false, true) => Some("ProjectionExpression"),
        (false, false) => None,
    };
    Err(match (select.as_deref(), projected) {
        (Some("SPECIFIC_ATTRIBUTES"), None) => {
            "Must specify the AttributesToGet or ProjectionExpression when choosing to get SPECIFIC_ATTRIBUTES"
                .to_owned()
        }
        (None | Some("SPECIFIC_ATTRIBUTES"), _) => return Ok(()),
        (Some("COUNT"), Some(member)) => {
            format!("Cannot specify the {member} when choosing to get only the Count")
        }
        (Some(select), Some(member)) => format!("Cannot specify the {member} when choosing to get {select}"),
        (Some("ALL_PROJECTED_ATTRIBUTES"), None) if !index => {
            "ALL_PROJECTED_ATTRIBUTES can be used only when Querying using an IndexName".to_owned()
        }
        (Some(_), None) => return Ok(()),
    })
}

/// Refuses a name among `AttributesToGet` that is empty or too long.
pub(crate) fn check_attributes_to_get(names: &Option<Vec<String>>) -> Read<()> {
    let fault = names.iter().flatten().find_map(|name| value::name_fault(name));
    fault.map_or(Ok(()), |cause| Err(Refusal::enveloped(cause)))
}

/// The members that PutItem, UpdateItem and DeleteItem share.
#[derive(Debug, Default)]
pub(crate) struct SingleWrite<'a> {
    pub(crate) table: Text<'a>,
    pub(crate) return_values: Text<'a>,
    pub(crate) capacity: Text<'a>,
    pub(crate) collection_metrics: Text<'a>,
    pub(crate) on_failure: Text<'a>,
    pub(crate) condition: Text<'a>,
    pub(crate) placeholders: Placeholders,
    pub(crate) expected: Option<Conditions>,
    pub(crate) conditional_operator: Text<'a>,
}

impl<'a> SingleWrite<'a> {
    /// Reads the member `name`, or passes over it if it is none of these.
    pub(crate) fn read(&mut self, reader: &mut Reader<'a>, name: &str) -> Read<()> {
        let text = match name {
            "TableName" => &mut self.table,
            "ReturnValues" => &mut self.return_values,
            "ReturnConsumedCapacity" => &mut self.capacity,
            "ReturnItemCollectionMetrics" => &mut self.collection_metrics,
            "ReturnValuesOnConditionCheckFailure" => &mut self.on_failure,
            "ConditionExpression" => &mut self.condition,
            "ConditionalOperator" => &mut self.conditional_operator,
            "Expected" => {
                self.expected = conditions(reader, "ExpectedAttributeValue")?;
                return Ok(());
            }
            _ => {
                if !self.placeholders.read(reader, name)? {
                    reader.skip()?;
                }
                return Ok(());
            }
        };
        *text = shape::text(reader)?;
        Ok(())
    }

    pub(crate) fn capacity_error(&self) -> Option<String> {
        capacity_error(&self.capacity)
    }

    pub(crate) fn collection_metrics_error(&self) -> Option<String> {
        collection_metrics_error(&self.collection_metrics)
    }

    pub(crate) fn on_failure_error(&self) -> Option<String> {
        let path = "returnValuesOnConditionCheckFailure";
        constraints::outside(self.on_failure.as_deref(), path, &ON_FAILURE)
    }

    pub(crate) fn return_values_error(&self) -> Option<String> {
        constraints::outside(self.return_values.as_deref(), "", &RETURN_VALUES)
            .map(|_| RETURN_VALUES_RULE.to_owned())
    }

    /// The older layer names the value.
    pub(crate) fn return_values_error_named(&self) -> Option<String> {
        constraints::outside(self.return_values.as_deref(), "returnValues", &RETURN_VALUES)
    }

    /// Returns only what a write can always return: nothing, or the old item.
    pub(crate) fn returns_old_or_nothing(&self) -> bool {
        matches!(self.return_values.as_deref(), None | Some("NONE" | "ALL_OLD"))
    }

    /// The constraints of PutItem and DeleteItem; `attributes` is the item or key, at `path`.
    pub(crate) fn constraints(&self, attributes: &Attributes, path: &str) -> Read<Constraints> {
        constraints::check_empty_table_name(self.table.as_deref())?;
        let mut constraints = Constraints::default();
        constraints.extend(constraints::first_table_error(self.table.as_deref()));
        constraints.present(&attributes.item, path);
        constraints.extend(self.capacity_error());
        constraints.extend(self.return_values_error());
        constraints.extend(self.collection_metrics_error());
        constraints.extend(self.on_failure_error());
        Ok(constraints)
    }

    /// What comes next: values nested very deep, then empty names, here and in `attributes`.
    pub(crate) fn check_names(&self, attributes: &Flaws, updates: Option<&Flaws>) -> Read<()> {
        let expected = self.expected.as_ref();
        for flaws in
            [Some(attributes), updates, expected.map(|expected| &expected.flaws)].into_iter().flatten()
        {
            flaws.check_deep()?;
        }
        self.placeholders.check_deep()?;
        attributes.check_names()?;
        updates.map_or(Ok(()), Flaws::check_names)?;
        if let Some(expected) = expected {
            expected.flaws.check_names()?;
            if expected.empty_name {
                return Err(Refusal::enveloped("Empty attribute name"));
            }
        }
        self.placeholders.check_names(false)
    }

    /// Which parameters are given; those of UpdateItem come first.
    pub(crate) fn parameters(&self, updates: bool, update: bool) -> Parameters {
        Parameters::default()
            .legacy("AttributeUpdates", updates)
            .legacy("Expected", self.expected.is_some())
            .legacy("ConditionalOperator", self.conditional_operator.is_some())
            .expression("UpdateExpression", update)
            .expression("ConditionExpression", self.condition.is_some())
    }

    /// The legacy condition, read and checked.
    pub(crate) fn expected(&mut self, rules: Rules) -> Read<Option<Condition>> {
        let Some(expected) = self.expected.take() else { return Ok(None) };
        // What a value of `Expected` is refused for always has the envelope.
        if let Some(fault) = &expected.flaws.fault {
            return Err(match fault {
                value::ValueFault::NoType => fault.refusal(rules.layer),
                _ => Refusal::Enveloped(fault.message(rules.layer)),
            });
        }
        expected.flaws.check_sets(rules)?;
        let join = self.conditional_operator.as_deref().map(|operator| match operator {
            "OR" => legacy::ConditionalOperator::Or,
            _ => legacy::ConditionalOperator::And,
        });
        Ok(legacy::expected(expected.expectations()?, join)?)
    }

    pub(crate) fn check_conditional_operator(&self) -> Read<()> {
        conditional_operator(self.conditional_operator.as_deref(), &self.expected)?;
        self.expected.as_ref().map_or(Ok(()), |expected| expected.flaws.check_depth())
    }

    pub(crate) fn condition(&self, scope: &mut Scope) -> Read<Option<Condition>> {
        check_not_empty("ConditionExpression", &self.condition)?;
        Ok(self.condition.as_deref().map(|text| scope.condition(text)).transpose()?)
    }

    /// What the engine is told, once all is checked: the table, and how to write to it.
    pub(crate) fn into_options(self, condition: Option<Condition>) -> Read<(TableName, WriteOptions)> {
        let options = WriteOptions {
            condition,
            return_values: match self.return_values.as_deref() {
                Some("ALL_OLD") => ReturnValues::AllOld,
                Some("UPDATED_OLD") => ReturnValues::UpdatedOld,
                Some("ALL_NEW") => ReturnValues::AllNew,
                Some("UPDATED_NEW") => ReturnValues::UpdatedNew,
                _ => ReturnValues::None,
            },
            return_old_on_failure: self.on_failure.as_deref() == Some("ALL_OLD"),
            capacity: capacity(&self.capacity),
            collection_metrics: self.collection_metrics.as_deref() == Some("SIZE"),
        };
        Ok((constraints::table_name(self.table)?, options))
    }
}

/// Refuses an item that is larger than any table takes.
pub(crate) fn check_size(item: &Item) -> Read<()> {
    if item.size() > larder_model::limits::ITEM_BYTES_MAX {
        return Err(Refusal::plain("Item size has exceeded the maximum allowed size"));
    }
    Ok(())
}
