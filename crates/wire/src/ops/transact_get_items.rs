//! TransactGetItems.

use larder_engine::ops::{Request, Row, TransactGet, TransactGetItems, TransactGetItemsOutput};
use larder_model::ApiError;
use larder_model::limits::TRANSACTION_ITEMS_MAX;

use crate::constraints::{self, Constraints};
use crate::echo::Echo;
use crate::expressions::{Placeholders, check_not_empty};
use crate::json::{Reader, object, try_list};
use crate::members::{Attributes, Text, capacity, capacity_error, request};
use crate::refusal::{Read, Rules};
use crate::shape;
use crate::value::put_row;

use super::consumed::put_all_consumed;

#[derive(Debug, Default)]
struct Get<'a> {
    table: Text<'a>,
    key: Attributes,
    projection: Text<'a>,
    placeholders: Placeholders,
}

pub(super) fn decode(reader: &mut Reader<'_>, rules: Rules) -> Read<Request> {
    let mut gets: Option<Vec<Option<Get<'_>>>> = None;
    let mut units = None;
    request(reader, |reader, name| {
        match &*name {
            "TransactItems" => {
                let mut found = Vec::new();
                let present = shape::list(reader, |reader| {
                    let mut get = None;
                    shape::element(reader, "TransactGetItem", |reader, member| {
                        match &*member {
                            "Get" => get = read_get(reader, rules)?,
                            _ => drop(reader.skip()?),
                        }
                        Ok(())
                    })?;
                    found.push(get);
                    Ok(())
                })?;
                gets = present.then_some(found);
            }
            "ReturnConsumedCapacity" => units = shape::text(reader)?,
            _ => drop(reader.skip()?),
        }
        Ok(())
    })?;
    let gets = check_members(gets, &units)?;

    gets.iter().try_for_each(|get| get.key.flaws.check_deep())?;
    for get in &gets {
        get.key.flaws.check_names()?;
        get.placeholders.check_names(true)?;
    }
    gets.iter().try_for_each(|get| get.key.flaws.check_depth())?;
    gets.iter().try_for_each(|get| get.key.flaws.check_sets(rules))?;
    let gets = gets.into_iter().map(Get::into_get).collect::<Read<_>>()?;
    Ok(Request::TransactGetItems(TransactGetItems { gets, capacity: capacity(&units) }))
}

fn read_get<'a>(reader: &mut Reader<'a>, rules: Rules) -> Read<Option<Get<'a>>> {
    let mut get = Get::default();
    let present = shape::structure(reader, "Get", |reader, member| {
        match &*member {
            "TableName" => get.table = shape::text(reader)?,
            "Key" => get.key = Attributes::read(reader, rules)?,
            "ProjectionExpression" => get.projection = shape::text(reader)?,
            "ExpressionAttributeNames" => drop(get.placeholders.read(reader, &member)?),
            _ => drop(reader.skip()?),
        }
        Ok(())
    })?;
    Ok(present.then_some(get))
}

fn check_members<'a>(gets: Option<Vec<Option<Get<'a>>>>, units: &Text<'_>) -> Read<Vec<Get<'a>>> {
    let mut constraints = Constraints::default();
    constraints.present(&gets, "transactItems");
    for (at, get) in gets.iter().flatten().enumerate() {
        let path = format!("transactItems.{}.member.get", at + 1);
        let Some(get) = get else {
            constraints.null(&path);
            continue;
        };
        constraints.present(&get.key.item, &format!("{path}.key"));
        constraints.present(&get.table, &format!("{path}.tableName"));
    }
    if !constraints.is_empty() {
        constraints.extend(capacity_error(units));
    }
    constraints.finish()?;
    let gets: Vec<Get<'_>> = gets.into_iter().flatten().flatten().collect();
    let mut constraints = Constraints::default();
    if gets.is_empty() {
        constraints.broken("[]", "transactItems", "Member must have length greater than or equal to 1");
    } else if gets.len() > TRANSACTION_ITEMS_MAX {
        let rule = "Member must have length less than or equal to 100";
        constraints.broken(&echo(&gets), "transactItems", rule);
    }
    constraints.finish()?;
    let mut constraints = Constraints::default();
    constraints.extend(capacity_error(units));
    constraints.finish()?;
    let mut constraints = Constraints::default();
    for (at, get) in gets.iter().enumerate() {
        let path = format!("transactItems.{}.member.get.tableName", at + 1);
        constraints.name_in_transaction(get.table.as_deref().unwrap_or_default(), &path);
    }
    constraints.finish()?;
    Ok(gets)
}

fn echo(gets: &[Get<'_>]) -> String {
    let mut echo = Echo::default();
    echo.list(gets, |echo, get| {
        echo.text("TransactGetItem(get=Get(key=");
        get.key.item.iter().for_each(|key| echo.item(key));
        echo.text(", tableName=");
        echo.option(get.table.as_deref());
        echo.text(", projectionExpression=");
        echo.option(get.projection.as_deref());
        echo.text(", expressionAttributeNames=");
        echo.names(get.placeholders.names.as_ref());
        echo.text(", workloadProfileName=null))");
    });
    echo.finish()
}

impl Get<'_> {
    fn into_get(mut self) -> Read<TransactGet> {
        check_not_empty("ProjectionExpression", &self.projection)?;
        let mut scope = self.placeholders.take_scope()?;
        let projection = self.projection.map(|text| scope.projection(&text)).transpose()?;
        scope.finish()?;
        Ok(TransactGet {
            table: constraints::table_name(self.table)?,
            key: self.key.item.unwrap_or_default(),
            projection,
        })
    }
}

pub(super) fn encode(out: &mut Vec<u8>, output: &TransactGetItemsOutput) -> Result<(), ApiError> {
    object(out, |answer| {
        try_list(answer.member("Responses"), &output.items, |out, item| {
            object(out, |answer| match item {
                // A projection that finds nothing is answered like an item that is not there.
                Some(Row::Built(item)) if item.is_empty() => Ok(()),
                Some(item) => put_row(answer.member("Item"), item),
                None => Ok(()),
            })
        })?;
        put_all_consumed(answer, &output.consumed);
        Ok(())
    })
}
