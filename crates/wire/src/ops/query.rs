//! Query, and the page that Query and Scan answer with.

use larder_engine::ops::{PageOutput, Query, Request};
use larder_expr::legacy;
use larder_model::ApiError;

use crate::constraints::{self, Constraints};
use crate::expressions::{Naming, Parameters, Placeholders, check_not_empty};
use crate::json::{Reader, object, try_list};
use crate::legacy::{Conditions, conditional_operator, conditions};
use crate::members::{
    Attributes, Text, capacity, capacity_error, check_attributes_to_get, check_select, request, select,
    select_error,
};
use crate::refusal::{Layer, Read, Refusal, Rules, envelope};
use crate::shape::{self, Integer};
use crate::value::{NESTED_TOO_DEEP, ValueFault, put_item, put_row};

use super::consumed::put_consumed;
use super::get_item::check_any_name;

const KEY_INVALID: &str = "The provided starting key is invalid";

/// The members that Query and Scan share.
#[derive(Debug, Default)]
pub(super) struct Page<'a> {
    pub(super) table: Text<'a>,
    pub(super) index: Text<'a>,
    pub(super) select: Text<'a>,
    pub(super) filter: Text<'a>,
    pub(super) projection: Text<'a>,
    pub(super) capacity: Text<'a>,
    pub(super) conditional_operator: Text<'a>,
    pub(super) names: Option<Vec<String>>,
    pub(super) limit: Option<Integer>,
    pub(super) start: Attributes,
    pub(super) consistent: Option<bool>,
    pub(super) placeholders: Placeholders,
    /// `QueryFilter` or `ScanFilter`.
    pub(super) legacy_filter: Option<Conditions>,
}

impl<'a> Page<'a> {
    /// Reads the member `name`, or passes over it if it is none of these.
    pub(super) fn read(&mut self, reader: &mut Reader<'a>, name: &str) -> Read<()> {
        let text = match name {
            "TableName" => &mut self.table,
            "IndexName" => &mut self.index,
            "Select" => &mut self.select,
            "FilterExpression" => &mut self.filter,
            "ProjectionExpression" => &mut self.projection,
            "ReturnConsumedCapacity" => &mut self.capacity,
            "ConditionalOperator" => &mut self.conditional_operator,
            "AttributesToGet" => {
                self.names = shape::texts(reader)?;
                return Ok(());
            }
            "Limit" => {
                self.limit = shape::integer(reader)?;
                return Ok(());
            }
            "ExclusiveStartKey" => {
                self.start = Attributes::read_leniently(reader)?;
                return Ok(());
            }
            "ConsistentRead" => {
                self.consistent = shape::boolean(reader)?;
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

    /// A limit below one, as each layer puts it.
    pub(super) fn limit_error(&self, layer: Layer) -> Option<String> {
        let limit = self.limit.filter(|limit| limit.value < 1)?;
        let rule = "Member must have value greater than or equal to 1";
        Some(match layer {
            Layer::Current => format!("Value at 'Limit' failed to satisfy constraint: {rule}"),
            Layer::Older => constraints::broken(&limit.value.to_string(), "limit", rule),
        })
    }

    /// What the older layer says of a table name; it only looks at one that is missing or empty.
    pub(super) fn table_error_of_older_layer(&self) -> Option<String> {
        match self.table.as_deref() {
            None => constraints::first_table_error(None),
            Some("") => {
                let rule = "Member must have length greater than or equal to 1";
                Some(constraints::broken("", "tableName", rule))
            }
            Some(_) => None,
        }
    }

    /// Values nested very deep, then empty names. Conditions other than the filter are in `others`.
    pub(super) fn check_names(&self, others: Option<&Conditions>) -> Read<()> {
        if self.start.flaws.is_deep() {
            return Err(Refusal::Plain(format!("{KEY_INVALID}: {NESTED_TOO_DEEP}")));
        }
        let filters = [self.legacy_filter.as_ref(), others];
        filters.iter().flatten().try_for_each(|filter| filter.flaws.check_deep())?;
        self.placeholders.check_deep()?;
        check_attributes_to_get(&self.names)?;
        self.legacy_filter.as_ref().map_or(Ok(()), |filter| filter.flaws.check_names())?;
        self.start.flaws.check_names()?;
        self.placeholders.check_names(false)
    }

    pub(super) fn check_select_value(&self) -> Read<()> {
        select_error(&self.select).map_or(Ok(()), |message| Err(Refusal::Plain(envelope(&message))))
    }

    /// Refuses a starting key that could not be a key of any table. A Scan says in all cases that it is about
    /// the starting key, a Query only when a value has no type or two.
    pub(super) fn check_start(&self, rules: Rules, is_scan: bool) -> Read<()> {
        let flaws = &self.start.flaws;
        let prefixed = |message: String| Refusal::Plain(format!("{KEY_INVALID}: {message}"));
        if let Some(fault) = &flaws.fault {
            let message = fault.message(rules.layer);
            return Err(match fault {
                ValueFault::Number { .. } => Refusal::Plain(message),
                ValueFault::NoType | ValueFault::ManyTypes => prefixed(message),
                ValueFault::EmptySet(_) | ValueFault::FalseNull { .. } if is_scan => prefixed(message),
                ValueFault::EmptySet(_) | ValueFault::FalseNull { .. } => Refusal::Plain(message),
            });
        }
        if let Some(set) = &flaws.set {
            let message = set.message(rules.layer);
            let is_prefixed = is_scan && set.is_empty_set() && !message.contains("number set");
            return Err(if is_prefixed { prefixed(message) } else { Refusal::Plain(message) });
        }
        match flaws.check_depth() {
            Err(_) if is_scan => Err(prefixed(NESTED_TOO_DEEP.to_owned())),
            other => other,
        }
    }

    /// How the legacy filter joins its conditions.
    pub(super) fn join(&self) -> Read<Option<legacy::ConditionalOperator>> {
        conditional_operator(self.conditional_operator.as_deref(), &self.legacy_filter)
    }
}

pub(super) fn decode(reader: &mut Reader<'_>, rules: Rules) -> Read<Request> {
    let mut page = Page::default();
    let (mut key_condition, mut key_conditions, mut forward) = (None, None, None);
    request(reader, |reader, name| {
        match &*name {
            "KeyConditionExpression" => key_condition = shape::text(reader)?,
            "KeyConditions" => key_conditions = conditions(reader, "Condition")?,
            "QueryFilter" => page.legacy_filter = conditions(reader, "Condition")?,
            "ScanIndexForward" => forward = shape::boolean(reader)?,
            _ => {
                page.read(reader, &name)?;
                page.placeholders.check_read(rules, Naming::Absent)?;
            }
        }
        Ok(())
    })?;
    check_members(&page, key_conditions.as_ref())?;

    page.check_names(key_conditions.as_ref())?;
    let parameters = Parameters {
        with_values: vec!["FilterExpression", "KeyConditionExpression"],
        ..Parameters::default()
    }
    .legacy("AttributesToGet", page.names.is_some())
    .legacy("QueryFilter", page.legacy_filter.is_some())
    .legacy("ConditionalOperator", page.conditional_operator.is_some())
    // For half a year there were expressions for all but the key: `KeyConditions` still stand beside those.
    .legacy("KeyConditions", key_conditions.is_some() && key_condition.is_some())
    .expression("ProjectionExpression", page.projection.is_some())
    .expression("FilterExpression", page.filter.is_some())
    .expression("KeyConditionExpression", key_condition.is_some());
    page.placeholders.check_use(&parameters)?;
    let mut scope = std::mem::take(&mut page.placeholders).scope(rules, Naming::Absent)?;
    page.check_select_value()?;
    let join = page.join()?;
    for conditions in [&page.legacy_filter, &key_conditions].into_iter().flatten() {
        conditions.flaws.check_depth()?;
    }
    for conditions in [&page.legacy_filter, &key_conditions].into_iter().flatten() {
        conditions.check_values(rules)?;
    }
    let filter = page
        .legacy_filter
        .take()
        .map(|filter| legacy::filter(filter.comparisons()?, join).map_err(Refusal::from));
    let filter = filter.transpose()?.flatten();
    let key_conditions = key_conditions
        .filter(|conditions| conditions.len() > 0)
        .map(|conditions| legacy::key_conditions(conditions.comparisons()?).map_err(Refusal::from))
        .transpose()?;
    let names = page.names.take().map(legacy::attributes_to_get).transpose()?;
    page.check_start(rules, false)?;
    check_not_empty("KeyConditionExpression", &key_condition)?;

    let filter_expression = page.filter.as_deref().map(|text| scope.filter(text)).transpose()?;
    check_not_empty("ProjectionExpression", &page.projection)?;
    check_select(&page.select, names.is_some(), page.projection.is_some(), page.index.is_some())
        .map_err(|message| Refusal::Plain(envelope(&message)))?;
    let key_condition = key_condition.map(|text| scope.key_condition(&text)).transpose()?;
    let projection = page.projection.as_deref().map(|text| scope.projection(text)).transpose()?;
    scope.finish()?;
    let key_condition = key_condition.or(key_conditions).ok_or_else(|| {
        Refusal::plain(
            "Either the KeyConditions or KeyConditionExpression parameter must be specified in the request.",
        )
    })?;

    Ok(Request::Query(Query {
        index: constraints::index_name(page.index)?,
        key_condition,
        legacy_filter: filter_expression.is_none(),
        filter: filter_expression.or(filter),
        projection: projection.or(names),
        select: select(&page.select),
        limit: page.limit.and_then(|limit| usize::try_from(limit.value).ok()),
        forward: forward.unwrap_or(true),
        start: page.start.item,
        consistent: page.consistent.unwrap_or(false),
        skip_damaged: false,
        capacity: capacity(&page.capacity),
        table: constraints::table_name(page.table)?,
    }))
}

fn check_members(page: &Page<'_>, key_conditions: Option<&Conditions>) -> Read<()> {
    let without_operator = || {
        let keys = key_conditions.iter().flat_map(|conditions| conditions.without_operator("keyConditions"));
        let filter = page.legacy_filter.iter().flat_map(|filter| filter.without_operator("queryFilter"));
        keys.chain(filter).collect::<Vec<_>>()
    };
    let mut constraints = Constraints::default();
    if page.table.is_none() || page.limit.is_some_and(|limit| limit.coerced) {
        constraints.extend(select_error(&page.select));
        constraints.extend(capacity_error(&page.capacity));
        constraints.extend(page.table_error_of_older_layer());
        constraints.extend(without_operator());
        constraints.extend(page.limit_error(Layer::Older));
        constraints.finish()?;
        constraints = Constraints::default();
    }
    constraints.extend(page.limit_error(Layer::Current));
    if page.table.as_deref() == Some("") {
        constraints.add(constraints::EMPTY_TABLE_NAME);
    }
    constraints.finish()?;
    let mut constraints = Constraints::default();
    constraints.extend(constraints::first_table_error(page.table.as_deref()));
    constraints.extend(capacity_error(&page.capacity));
    check_any_name(&mut constraints, &page.names, "attributesToGet");
    constraints.extend(without_operator());
    constraints.finish()
}

/// The answer to Query and Scan.
pub(super) fn encode(out: &mut Vec<u8>, output: &PageOutput) -> Result<(), ApiError> {
    object(out, |answer| {
        if let Some(items) = &output.items {
            try_list(answer.member("Items"), items, put_row)?;
        }
        answer.integer("Count", i64::try_from(output.count).unwrap_or(i64::MAX));
        answer.integer("ScannedCount", i64::try_from(output.scanned).unwrap_or(i64::MAX));
        if let Some(key) = &output.last_key {
            put_item(answer.member("LastEvaluatedKey"), key);
        }
        if let Some(consumed) = &output.consumed {
            put_consumed(answer.member("ConsumedCapacity"), consumed);
        }
        Ok(())
    })
}
