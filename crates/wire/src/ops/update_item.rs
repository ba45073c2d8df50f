//! UpdateItem.
//!
//! It checks its members in an order of its own: the table's name alone, then one enumeration at a time,
//! two of them outside the envelope. A request without a key is checked as the older layer did.

use larder_engine::ops::{Request, UpdateItem};
use larder_expr::legacy;

use crate::constraints::{self, Constraints};
use crate::expressions::{Naming, check_not_empty};
use crate::json::Reader;
use crate::legacy::updates;
use crate::members::{Attributes, SingleWrite, request};
use crate::refusal::{Read, Refusal, Rules};
use crate::shape;

pub(super) fn decode(reader: &mut Reader<'_>, rules: Rules) -> Read<Request> {
    let mut write = SingleWrite::default();
    let mut key = Attributes::default();
    let (mut update, mut attribute_updates) = (None, None);
    request(reader, |reader, name| {
        match &*name {
            "Key" => key = Attributes::read(reader, rules)?,
            "UpdateExpression" => update = shape::text(reader)?,
            "AttributeUpdates" => {
                attribute_updates = updates(reader)?;
                attribute_updates.as_ref().map_or(Ok(()), |updates| updates.flaws.check_read(rules))?;
            }
            _ => {
                write.read(reader, &name)?;
                write.placeholders.check_read(rules, Naming::Parsed)?;
            }
        }
        Ok(())
    })?;
    check_members(&write, &key)?;

    write.check_names(&key.flaws, attribute_updates.as_ref().map(|updates| &updates.flaws))?;
    write.placeholders.check_use(&write.parameters(attribute_updates.is_some(), update.is_some()))?;
    let mut scope = std::mem::take(&mut write.placeholders).scope(rules, Naming::Parsed)?;
    write.check_conditional_operator()?;
    key.check_key(rules)?;
    if let Some(updates) = &attribute_updates {
        updates.flaws.check_depth()?;
        updates.flaws.check_sets(rules)?;
    }
    let attribute_updates = attribute_updates
        .map(|updates| {
            legacy::attribute_updates(updates.into_updates()?)
                .map_err(|error| Refusal::Plain(error.to_string()))
        })
        .transpose()?;
    let expected = write.expected(rules)?;
    check_not_empty("ConditionExpression", &write.condition)?;
    check_not_empty("UpdateExpression", &update)?;
    let update = update.map(|text| scope.update(&text)).transpose()?;
    let condition = write.condition(&mut scope)?;
    scope.finish()?;

    let (table, options) = write.into_options(condition.or(expected))?;
    Ok(Request::UpdateItem(UpdateItem {
        table,
        key: key.item.unwrap_or_default(),
        update: update.or(attribute_updates),
        options,
    }))
}

fn check_members(write: &SingleWrite<'_>, key: &Attributes) -> Read<()> {
    let table = write.table.as_deref();
    constraints::check_empty_table_name(table)?;
    if key.item.is_none() {
        let mut constraints = Constraints::default();
        constraints.extend(write.capacity_error());
        constraints.present(&table, "tableName");
        constraints.extend(write.return_values_error_named());
        constraints.extend(write.on_failure_error());
        constraints.extend(write.collection_metrics_error());
        constraints.null("key");
        return constraints.finish();
    }
    let mut constraints = Constraints::default();
    match table {
        None => {
            constraints.null("tableName");
            constraints.extend(write.return_values_error_named());
        }
        Some(name) if !constraints::is_table_name(name) => constraints.name(name, "tableName"),
        Some(_) => {}
    }
    constraints.finish()?;
    let bare = |message: Option<String>| message.map_or(Ok(()), |message| Err(Refusal::Plain(message)));
    let mut constraints = Constraints::default();
    constraints.extend(write.return_values_error());
    constraints.finish()?;
    bare(write.on_failure_error())?;
    let mut constraints = Constraints::default();
    constraints.extend(write.collection_metrics_error());
    constraints.finish()?;
    bare(write.capacity_error())
}
