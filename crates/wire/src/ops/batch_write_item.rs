//! BatchWriteItem.

use std::collections::BTreeMap;

use larder_engine::ops::{BatchWrite, BatchWriteItem, BatchWriteItemOutput, Request};
use larder_model::limits::BATCH_WRITE_ITEMS_MAX;

use crate::constraints::{self, Constraints};
use crate::echo::Echo;
use crate::json::{Kind, Reader, list, object};
use crate::members::{
    Attributes, Text, capacity, capacity_error, check_size, collection_metrics_error, request,
};
use crate::refusal::{Layer, Read, Refusal, Rules, envelope};
use crate::shape;
use crate::value::{ValueFault, put_item};

use super::batch_get_item::KEYS_RULE;
use super::consumed::{put_all_collection_metrics, put_all_consumed};

/// One request to write, as it was given.
#[derive(Debug, Default)]
struct Write {
    put: Option<Attributes>,
    delete: Option<Attributes>,
}

type Tables = BTreeMap<String, Vec<Write>>;

pub(super) fn decode(reader: &mut Reader<'_>, rules: Rules) -> Read<Request> {
    let mut tables: Option<Tables> = None;
    let (mut units, mut metrics) = (None, None);
    request(reader, |reader, name| {
        match &*name {
            "RequestItems" => {
                let mut found = Tables::new();
                let class = "java.util.List<com.amazonaws.dynamodb.v20120810.WriteRequest>";
                let present = shape::map(reader, class, |reader, table| {
                    reader.charge(shape::STRUCTURE_BYTES)?;
                    shape::parameterized(reader, Kind::List)?;
                    let mut writes = Vec::new();
                    shape::list(reader, |reader| {
                        writes.push(write(reader, rules)?);
                        Ok(())
                    })?;
                    found.insert(table.into_owned(), writes);
                    Ok(())
                })?;
                tables = present.then_some(found);
            }
            "ReturnConsumedCapacity" => units = shape::text(reader)?,
            "ReturnItemCollectionMetrics" => metrics = shape::text(reader)?,
            _ => drop(reader.skip()?),
        }
        Ok(())
    })?;
    let tables = check_members(tables, &units, &metrics)?;

    let writes = || tables.values().flatten();
    let parts = || writes().flat_map(|write| [&write.put, &write.delete]).flatten();
    parts().try_for_each(|part| part.flaws.check_deep())?;
    parts().try_for_each(|part| part.flaws.check_names())?;
    for write in writes() {
        if write.put.is_some() == write.delete.is_some() {
            return Err(Refusal::Plain(ValueFault::ManyTypes.message(Layer::Older)));
        }
        for part in [&write.put, &write.delete].into_iter().flatten() {
            part.flaws.check_sets(rules)?;
            part.flaws.check_depth()?;
        }
        write.put.as_ref().and_then(|put| put.item.as_ref()).map_or(Ok(()), check_size)?;
    }
    let tables = tables.into_iter().map(|(name, writes)| {
        let table = constraints::table_name(Some(name.into()))?;
        Ok((table, writes.into_iter().map(Write::into_batch_write).collect()))
    });
    Ok(Request::BatchWriteItem(BatchWriteItem {
        tables: tables.collect::<Read<_>>()?,
        capacity: capacity(&units),
        collection_metrics: metrics.as_deref() == Some("SIZE"),
    }))
}

fn write(reader: &mut Reader<'_>, rules: Rules) -> Read<Write> {
    let mut write = Write::default();
    shape::element(reader, "WriteRequest", |reader, member| {
        match &*member {
            "PutRequest" => write.put = part(reader, "PutRequest", "Item", rules)?,
            "DeleteRequest" => write.delete = part(reader, "DeleteRequest", "Key", rules)?,
            _ => drop(reader.skip()?),
        }
        Ok(())
    })?;
    Ok(write)
}

/// The attributes under `member` in a structure of the class `class`.
fn part(reader: &mut Reader<'_>, class: &str, member: &str, rules: Rules) -> Read<Option<Attributes>> {
    let mut attributes = Attributes::default();
    let present = shape::structure(reader, class, |reader, name| {
        if name == member {
            attributes = Attributes::read(reader, rules)?;
        } else {
            reader.skip()?;
        }
        Ok(())
    })?;
    Ok(present.then_some(attributes))
}

fn check_members(tables: Option<Tables>, units: &Text<'_>, metrics: &Text<'_>) -> Read<Tables> {
    let mut constraints = Constraints::default();
    constraints.present(&tables, "requestItems");
    for (name, writes) in tables.iter().flatten() {
        for (at, write) in writes.iter().enumerate() {
            let path = format!("requestItems.{name}.member.{}.member", at + 1);
            if let Some(put) = &write.put {
                constraints.present(&put.item, &format!("{path}.putRequest.item"));
            }
            if let Some(delete) = &write.delete {
                constraints.present(&delete.item, &format!("{path}.deleteRequest.key"));
            }
        }
    }
    constraints.finish()?;
    let tables = tables.unwrap_or_default();
    if tables.is_empty() {
        return Err(Refusal::plain("The requestItems parameter is required for BatchWriteItem"));
    }
    let total: usize = tables.values().map(Vec::len).sum();
    let mut constraints = Constraints::default();
    if total > BATCH_WRITE_ITEMS_MAX || tables.values().any(Vec::is_empty) {
        let rule = "Map value must satisfy constraint: [Member must have length less than or equal to 25, Member must have length greater than or equal to 1]";
        constraints.broken(&echo(&tables), "requestItems", rule);
    }
    constraints.extend(capacity_error(units));
    constraints.extend(collection_metrics_error(metrics));
    constraints.finish()?;
    if !tables.keys().all(|name| constraints::is_table_name(name)) {
        let message = constraints::broken(&echo(&tables), "requestItems", KEYS_RULE);
        return Err(Refusal::Plain(envelope(&message)));
    }
    Ok(tables)
}

fn echo(tables: &Tables) -> String {
    let mut echo = Echo::default();
    let part = |echo: &mut Echo, part: &Option<Attributes>, class: &str, member: &str| {
        let Some(item) = part.as_ref().and_then(|part| part.item.as_ref()) else { return echo.text("null") };
        echo.text(&format!("{class}({member}="));
        echo.item(item);
        echo.text(", workloadProfileName=null)");
    };
    echo.map(tables.iter().map(|(name, writes)| (name.as_str(), writes)), |echo, writes| {
        echo.list(writes, |echo, write: &Write| {
            echo.text("WriteRequest(putRequest=");
            part(echo, &write.put, "PutRequest", "item");
            echo.text(", deleteRequest=");
            part(echo, &write.delete, "DeleteRequest", "key");
            echo.text(")");
        });
    });
    echo.finish()
}

impl Write {
    fn into_batch_write(self) -> BatchWrite {
        match self.put {
            Some(put) => BatchWrite::Put(put.item.unwrap_or_default()),
            None => BatchWrite::Delete(self.delete.and_then(|delete| delete.item).unwrap_or_default()),
        }
    }
}

pub(super) fn encode(out: &mut Vec<u8>, output: &BatchWriteItemOutput) {
    object(out, |answer| {
        answer.object("UnprocessedItems", |answer| {
            for (table, writes) in &output.unprocessed {
                list(answer.member(table.as_str()), writes, put_write);
            }
        });
        put_all_collection_metrics(answer, &output.collection_metrics);
        put_all_consumed(answer, &output.consumed);
    });
}

fn put_write(out: &mut Vec<u8>, write: &BatchWrite) {
    object(out, |answer| match write {
        BatchWrite::Put(item) => {
            answer.object("PutRequest", |answer| put_item(answer.member("Item"), item));
        }
        BatchWrite::Delete(key) => {
            answer.object("DeleteRequest", |answer| put_item(answer.member("Key"), key));
        }
    });
}
