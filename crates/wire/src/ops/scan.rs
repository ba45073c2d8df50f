//! Scan.

use larder_engine::ops::{Request, Scan, Segment};
use larder_expr::legacy;
use larder_model::limits::SEGMENTS_MAX;

use crate::constraints::{self, Constraints};
use crate::expressions::{Naming, Parameters, check_not_empty, check_size_told};
use crate::json::Reader;
use crate::legacy::conditions;
use crate::members::{capacity, capacity_error, check_select, request, select, select_error};
use crate::refusal::{Layer, Read, Refusal, Rules};
use crate::shape::{self, Integer};
use crate::value::NESTED_TOO_DEEP;

use super::get_item::check_any_name;
use super::query::Page;

pub(super) fn decode(reader: &mut Reader<'_>, rules: Rules) -> Read<Request> {
    let mut page = Page::default();
    let (mut segment, mut total) = (None, None);
    request(reader, |reader, name| {
        match &*name {
            "Segment" => segment = shape::integer(reader)?,
            "TotalSegments" => total = shape::integer(reader)?,
            "ScanFilter" => page.legacy_filter = conditions(reader, "Condition")?,
            _ => {
                page.read(reader, &name)?;
                page.placeholders.check_read(rules, Naming::Never)?;
            }
        }
        Ok(())
    })?;
    check_members(&page, segment, total)?;

    page.check_names(None)?;
    let parameters = Parameters { with_values: vec!["FilterExpression"], ..Parameters::default() }
        .legacy("AttributesToGet", page.names.is_some())
        .legacy("ScanFilter", page.legacy_filter.is_some())
        .legacy("ConditionalOperator", page.conditional_operator.is_some())
        .expression("ProjectionExpression", page.projection.is_some())
        .expression("FilterExpression", page.filter.is_some());
    page.placeholders.check_use(&parameters)?;
    let mut scope = std::mem::take(&mut page.placeholders).scope(rules, Naming::Never)?;
    let join = page.join()?;
    if let Some(filter) = &page.legacy_filter {
        // A filter's value may be one level deeper here than anywhere else.
        if filter.flaws.depth > 32 {
            return Err(Refusal::plain(NESTED_TOO_DEEP));
        }
        filter.check_values(rules)?;
    }
    let filter = page
        .legacy_filter
        .take()
        .map(|filter| legacy::filter(filter.comparisons()?, join).map_err(Refusal::from));
    let filter = filter.transpose()?.flatten();
    let names = page.names.take().map(legacy::attributes_to_get).transpose()?;
    page.check_start(rules, true)?;

    check_size_told("FilterExpression", &page.filter)?;
    let filter_expression = page.filter.as_deref().map(|text| scope.filter(text)).transpose()?;
    check_not_empty("ProjectionExpression", &page.projection)?;
    page.check_select_value()?;
    check_select(&page.select, names.is_some(), page.projection.is_some(), page.index.is_some())
        .map_err(Refusal::Plain)?;
    let segment = parallel(segment, total)?;
    let projection = page.projection.as_deref().map(|text| scope.projection(text)).transpose()?;
    scope.finish()?;

    Ok(Request::Scan(Scan {
        index: constraints::index_name(page.index)?,
        filter: filter_expression.or(filter),
        projection: projection.or(names),
        select: select(&page.select),
        limit: page.limit.and_then(|limit| usize::try_from(limit.value).ok()),
        start: page.start.item,
        segment,
        consistent: page.consistent.unwrap_or(false),
        skip_damaged: false,
        capacity: capacity(&page.capacity),
        table: constraints::table_name(page.table)?,
    }))
}

/// A missing table or operator, or a number that lost something, sends the request to the older layer. It
/// lists all that is wrong, in an order of its own.
fn check_members(page: &Page<'_>, segment: Option<Integer>, total: Option<Integer>) -> Read<()> {
    let without_operator =
        page.legacy_filter.as_ref().map(|filter| filter.without_operator("scanFilter")).unwrap_or_default();
    let coerced = [page.limit, segment, total].into_iter().flatten().any(|integer| integer.coerced);
    let mut constraints = Constraints::default();
    if page.table.is_none() || !without_operator.is_empty() || coerced {
        constraints.extend(select_error(&page.select));
        constraints.extend(range_error(total, "totalSegments", 1, i64::from(SEGMENTS_MAX), Layer::Older));
        constraints.extend(capacity_error(&page.capacity));
        constraints.extend(page.table_error_of_older_layer());
        constraints.one_of(page.conditional_operator.as_deref(), "conditionalOperator", &["OR", "AND"]);
        constraints.extend(without_operator);
        constraints.extend(range_error(segment, "segment", 0, i64::from(SEGMENTS_MAX) - 1, Layer::Older));
        constraints.extend(page.limit_error(Layer::Older));
        constraints.finish()?;
        constraints = Constraints::default();
    }
    constraints.extend(page.limit_error(Layer::Current));
    constraints.extend(range_error(segment, "Segment", 0, i64::from(SEGMENTS_MAX) - 1, Layer::Current));
    constraints.extend(range_error(total, "TotalSegments", 1, i64::from(SEGMENTS_MAX), Layer::Current));
    if page.table.as_deref() == Some("") {
        constraints.add(constraints::EMPTY_TABLE_NAME);
    }
    constraints.finish()?;
    let mut constraints = Constraints::default();
    constraints.extend(constraints::first_table_error(page.table.as_deref()));
    constraints.extend(capacity_error(&page.capacity));
    check_any_name(&mut constraints, &page.names, "attributesToGet");
    constraints.finish()
}

fn range_error(integer: Option<Integer>, path: &str, least: i64, most: i64, layer: Layer) -> Option<String> {
    let value = integer?.value;
    let rule = if value < least {
        format!("Member must have value greater than or equal to {least}")
    } else if value > most {
        format!("Member must have value less than or equal to {most}")
    } else {
        return None;
    };
    Some(match layer {
        Layer::Current => format!("Value at '{path}' failed to satisfy constraint: {rule}"),
        Layer::Older => constraints::broken(&value.to_string(), path, &rule),
    })
}

fn parallel(segment: Option<Integer>, total: Option<Integer>) -> Read<Option<Segment>> {
    let message = match (segment, total) {
        (None, None) => return Ok(None),
        (Some(segment), Some(total)) if segment.value < total.value => {
            let (index, total) = (u32::try_from(segment.value), u32::try_from(total.value));
            let segment = index.ok().zip(total.ok()).map(|(index, total)| Segment { index, total });
            return Ok(segment);
        }
        (Some(segment), Some(total)) => {
            return Err(Refusal::Plain(format!(
                "The Segment parameter is zero-based and must be less than parameter TotalSegments: Segment: {} is \
                 not less than TotalSegments: {}",
                segment.value, total.value
            )));
        }
        (Some(_), None) => {
            "The TotalSegments parameter is required but was not present in the request when Segment parameter is present"
        }
        (None, Some(_)) => {
            "The Segment parameter is required but was not present in the request when parameter TotalSegments is present"
        }
    };
    Err(Refusal::plain(message))
}
