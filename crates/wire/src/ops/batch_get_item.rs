//! BatchGetItem.

use std::collections::BTreeMap;

use larder_engine::ops::{BatchGetEcho, BatchGetItem, BatchGetItemOutput, BatchGetTable, Request};
use larder_expr::{Error, legacy};
use larder_model::limits::BATCH_GET_KEYS_MAX;
use larder_model::{ApiError, Item};

use crate::constraints::{self, Constraints};
use crate::expressions::{Naming, Parameters, Placeholders, check_not_empty};
use crate::json::{Kind, Object, Reader, list, object, try_list};
use crate::members::{Attributes, Text, capacity, capacity_error, check_attributes_to_get, request};
use crate::refusal::{Read, Refusal, Rules, envelope};
use crate::shape;
use crate::value::{put_item, put_row};

use super::consumed::put_all_consumed;
use super::get_item::check_any_name;

/// What is said of a batch whose map of tables has a key that cannot be a table's name.
pub(super) const KEYS_RULE: &str = "Map keys must satisfy constraint: [Member must have length less than or equal to 255, Member must have length greater than or equal to 3, Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+]";

/// What is asked of one table.
#[derive(Debug, Default)]
struct Wanted {
    keys: Option<Vec<Attributes>>,
    projection: Option<String>,
    names: Option<Vec<String>>,
    consistent: Option<bool>,
    placeholders: Placeholders,
}

pub(super) fn decode(reader: &mut Reader<'_>, rules: Rules) -> Read<Request> {
    let mut tables: Option<BTreeMap<String, Wanted>> = None;
    let mut units: Text<'_> = None;
    request(reader, |reader, name| {
        match &*name {
            "RequestItems" => {
                let mut found = BTreeMap::new();
                let present = shape::map(reader, "KeysAndAttributes", |reader, table| {
                    reader.charge(shape::STRUCTURE_BYTES)?;
                    found.insert(table.into_owned(), wanted(reader, rules)?);
                    Ok(())
                })?;
                tables = present.then_some(found);
            }
            "ReturnConsumedCapacity" => units = shape::text(reader)?,
            _ => drop(reader.skip()?),
        }
        Ok(())
    })?;
    let tables = check_members(tables, &units)?;

    for wanted in tables.values() {
        let keys = wanted.keys.iter().flatten();
        keys.clone().try_for_each(|key| key.flaws.check_deep())?;
        keys.clone().try_for_each(|key| key.flaws.check_names())?;
        check_attributes_to_get(&wanted.names)?;
        wanted.placeholders.check_names(false)?;
    }
    let is_mixed = tables.values().any(|wanted| wanted.projection.is_some())
        && tables.values().any(|wanted| wanted.names.is_some());
    if is_mixed {
        let (legacy, expressions) = (vec!["AttributesToGet"], vec!["ProjectionExpression"]);
        return Err(Error::Mixed { legacy, expressions }.into());
    }
    let tables = tables.into_iter().map(|(name, wanted)| wanted.into_table(name, rules));
    Ok(Request::BatchGetItem(BatchGetItem {
        tables: tables.collect::<Read<_>>()?,
        capacity: capacity(&units),
    }))
}

fn wanted(reader: &mut Reader<'_>, rules: Rules) -> Read<Wanted> {
    let mut wanted = Wanted::default();
    shape::element(reader, "KeysAndAttributes", |reader, member| {
        match &*member {
            "Keys" => {
                let mut keys = Vec::new();
                let present = shape::list(reader, |reader| {
                    shape::parameterized(reader, Kind::Map)?;
                    keys.push(Attributes::read(reader, rules)?);
                    Ok(())
                })?;
                wanted.keys = present.then_some(keys);
            }
            "ProjectionExpression" => wanted.projection = shape::owned_text(reader)?,
            "AttributesToGet" => wanted.names = shape::texts(reader)?,
            "ConsistentRead" => wanted.consistent = shape::boolean(reader)?,
            "ExpressionAttributeNames" => drop(wanted.placeholders.read(reader, &member)?),
            _ => drop(reader.skip()?),
        }
        Ok(())
    })?;
    Ok(wanted)
}

fn check_members(
    tables: Option<BTreeMap<String, Wanted>>,
    units: &Text<'_>,
) -> Read<BTreeMap<String, Wanted>> {
    let mut constraints = Constraints::default();
    constraints.present(&tables, "requestItems");
    for (name, wanted) in tables.iter().flatten() {
        let path = format!("requestItems.{name}.member");
        constraints.present(&wanted.keys, &format!("{path}.keys"));
        check_any_name(&mut constraints, &wanted.names, &format!("{path}.attributesToGet"));
    }
    if !constraints.is_empty() {
        constraints.extend(capacity_error(units));
    }
    constraints.finish()?;
    let tables = tables.unwrap_or_default();
    let alone = |path: &str, rule: &str| {
        Err(Refusal::Plain(envelope(&format!("Value at '{path}' failed to satisfy constraint: {rule}"))))
    };
    if tables.is_empty() {
        return alone("RequestItems", "Member must have length greater than or equal to 1");
    }
    let count = |wanted: &Wanted| wanted.keys.as_ref().map_or(0, Vec::len);
    if let Some((name, _)) = tables.iter().find(|(_, wanted)| count(wanted) == 0) {
        let path = format!("RequestItems.{name}.member.Keys");
        return alone(&path, "Member must have length greater than or equal to 1");
    }
    let names_are_right = tables.keys().all(|name| constraints::is_table_name(name));
    let total: usize = tables.values().map(count).sum();
    if total > BATCH_GET_KEYS_MAX && names_are_right {
        let largest = tables.iter().max_by_key(|(_, wanted)| count(wanted)).map_or("", |(name, _)| name);
        let path = format!("RequestItems.{largest}.member.Keys");
        return alone(&path, "Member must have length less than or equal to 100");
    }
    let mut constraints = Constraints::default();
    if !names_are_right {
        constraints.broken(&echo(&tables), "requestItems", KEYS_RULE);
    }
    constraints.extend(capacity_error(units));
    constraints.finish()?;
    Ok(tables)
}

/// The tables as they are repeated in a message: here as JSON.
fn echo(tables: &BTreeMap<String, Wanted>) -> String {
    let mut out = Vec::new();
    object(&mut out, |answer| {
        for (name, wanted) in tables {
            let echo = wanted.echo();
            let keys = wanted.keys.iter().flatten().filter_map(|key| key.item.as_ref());
            answer.object(name, |answer| put_wanted(answer, &echo, keys));
        }
    });
    String::from_utf8_lossy(&out).into_owned()
}

impl Wanted {
    fn echo(&self) -> BatchGetEcho {
        BatchGetEcho {
            // Only once names stand for tables.
            table: None,
            projection: self.projection.clone(),
            names: self.placeholders.names.clone(),
            attributes: self.names.clone(),
            consistent: self.consistent,
        }
    }

    fn into_table(self, name: String, rules: Rules) -> Read<BatchGetTable> {
        let echo = self.echo();
        let parameters = Parameters::default().expression("ProjectionExpression", self.projection.is_some());
        self.placeholders.check_use(&parameters)?;
        let mut scope = self.placeholders.scope(rules, Naming::Never)?;
        check_not_empty("ProjectionExpression", &self.projection.as_deref().map(Into::into))?;
        let names = self.names.map(legacy::attributes_to_get).transpose()?;
        let mut keys: Vec<Item> = Vec::new();
        for key in self.keys.into_iter().flatten() {
            key.flaws.check_depth()?;
            key.flaws.check_sets(rules)?;
            keys.push(key.item.unwrap_or_default());
        }
        if keys.iter().enumerate().any(|(at, key)| keys[..at].contains(key)) {
            return Err(Refusal::plain("Provided list of item keys contains duplicates"));
        }
        let projection = self.projection.map(|text| scope.projection(&text)).transpose()?;
        scope.finish()?;
        Ok(BatchGetTable {
            table: constraints::table_name(Some(name.into()))?,
            keys,
            projection: projection.or(names),
            consistent: self.consistent.unwrap_or(false),
            echo,
        })
    }
}

fn put_wanted<'a>(answer: &mut Object<'_>, echo: &BatchGetEcho, keys: impl Iterator<Item = &'a Item>) {
    if let Some(names) = &echo.attributes {
        answer.strings("AttributesToGet", names.iter().map(String::as_str));
    }
    if let Some(consistent) = echo.consistent {
        answer.boolean("ConsistentRead", consistent);
    }
    if let Some(names) = &echo.names {
        answer.object("ExpressionAttributeNames", |answer| {
            names.iter().for_each(|(placeholder, name)| answer.string(placeholder, name));
        });
    }
    list(answer.member("Keys"), keys, put_item);
    if let Some(projection) = &echo.projection {
        answer.string("ProjectionExpression", projection);
    }
}

pub(super) fn encode(out: &mut Vec<u8>, output: &BatchGetItemOutput) -> Result<(), ApiError> {
    object(out, |answer| {
        answer.object("Responses", |answer| {
            output
                .responses
                .iter()
                .try_for_each(|(table, rows)| try_list(answer.member(table.as_str()), rows, put_row))
        })?;
        answer.object("UnprocessedKeys", |answer| {
            for left in &output.unprocessed {
                let table = left.echo.table.as_ref().unwrap_or(&left.table);
                answer.object(table.as_str(), |answer| put_wanted(answer, &left.echo, left.keys.iter()));
            }
        });
        put_all_consumed(answer, &output.consumed);
        Ok(())
    })
}
