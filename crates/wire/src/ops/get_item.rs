//! GetItem.

use larder_engine::ops::{GetItem, GetItemOutput, Request};
use larder_expr::legacy;
use larder_model::ApiError;

use crate::constraints::{self, Constraints};
use crate::expressions::{Naming, Parameters, Placeholders, check_not_empty};
use crate::json::{Reader, object};
use crate::members::{Attributes, capacity, capacity_error, check_attributes_to_get, request};
use crate::refusal::{Read, Rules};
use crate::shape;
use crate::value::put_row;

use super::consumed::put_consumed;

pub(super) fn decode(reader: &mut Reader<'_>, rules: Rules) -> Read<Request> {
    let (mut table, mut projection, mut units) = (None, None, None);
    let (mut names, mut consistent) = (None, None);
    let mut key = Attributes::default();
    let mut placeholders = Placeholders::default();
    request(reader, |reader, name| {
        match &*name {
            "TableName" => table = shape::text(reader)?,
            "Key" => key = Attributes::read(reader, rules)?,
            "ConsistentRead" => consistent = shape::boolean(reader)?,
            "ProjectionExpression" => projection = shape::text(reader)?,
            "ReturnConsumedCapacity" => units = shape::text(reader)?,
            "AttributesToGet" => names = shape::texts(reader)?,
            "ExpressionAttributeNames" => drop(placeholders.read(reader, &name)?),
            _ => drop(reader.skip()?),
        }
        Ok(())
    })?;
    constraints::check_empty_table_name(table.as_deref())?;
    let mut constraints = Constraints::default();
    constraints.present(&key.item, "key");
    constraints.extend(constraints::first_table_error(table.as_deref()));
    constraints.extend(capacity_error(&units));
    check_any_name(&mut constraints, &names, "attributesToGet");
    constraints.finish()?;

    key.flaws.check_deep()?;
    key.flaws.check_names()?;
    check_attributes_to_get(&names)?;
    placeholders.check_names(false)?;
    let parameters = Parameters::default()
        .legacy("AttributesToGet", names.is_some())
        .expression("ProjectionExpression", projection.is_some());
    placeholders.check_use(&parameters)?;
    let mut scope = placeholders.scope(rules, Naming::Never)?;
    key.check_key(rules)?;
    let names = names.map(legacy::attributes_to_get).transpose()?;
    check_not_empty("ProjectionExpression", &projection)?;
    let projection = projection.map(|text| scope.projection(&text)).transpose()?;
    scope.finish()?;

    Ok(Request::GetItem(GetItem {
        table: constraints::table_name(table)?,
        key: key.item.unwrap_or_default(),
        projection: projection.or(names),
        consistent: consistent.unwrap_or(false),
        capacity: capacity(&units),
    }))
}

/// A list of names, if it is there, has one.
pub(super) fn check_any_name(constraints: &mut Constraints, names: &Option<Vec<String>>, path: &str) {
    if names.as_ref().is_some_and(Vec::is_empty) {
        constraints.broken("[]", path, "Member must have length greater than or equal to 1");
    }
}

pub(super) fn encode(out: &mut Vec<u8>, output: &GetItemOutput) -> Result<(), ApiError> {
    object(out, |answer| {
        if let Some(item) = &output.item {
            put_row(answer.member("Item"), item)?;
        }
        if let Some(consumed) = &output.consumed {
            put_consumed(answer.member("ConsumedCapacity"), consumed);
        }
        Ok(())
    })
}
