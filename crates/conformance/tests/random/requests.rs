//! Requests for every operation on items, and how their answers are to be read.

use serde_json::{Value, json};

use crate::chance::Chance;
use crate::expressions::{Writer, keys_of};
use crate::tables::{Index, Table};
use crate::values;

/// How to put one request to a side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    Once,
    /// Once, and what it starts in the background is done before anything else.
    Settled,
    /// To the last page, in order.
    Pages,
    /// To the last page, in the order of the index's sort keys; items with equal keys are in no order.
    IndexPages,
    /// To the last page of each of so many segments, in any order.
    Segments(usize),
}

#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) operation: &'static str,
    pub(crate) request: Value,
    pub(crate) manner: Manner,
    /// The attributes that order the items of a query of an index.
    pub(crate) order: Vec<&'static str>,
    /// Table and key of each item it may have changed.
    pub(crate) touched: Vec<(String, Value)>,
}

impl Step {
    fn once(operation: &'static str, request: Value) -> Self {
        Self { operation, request, manner: Manner::Once, order: vec![], touched: vec![] }
    }
}

/// Another transaction under the same token, if the step is one that can be cut.
pub(crate) fn with_token_of(step: &Step) -> Option<Step> {
    step.request.get("ClientRequestToken")?;
    let mut other = step.clone();
    let writes = other.request["TransactItems"].as_array_mut()?;
    if writes.len() < 2 {
        return None;
    }
    writes.pop();
    Some(other)
}

/// The first puts, so that there is something to find.
pub(crate) fn first(chance: &mut Chance, tables: &[Table]) -> Step {
    batch_write(chance, tables)
}

pub(crate) fn random(chance: &mut Chance, tables: &[Table]) -> Step {
    let table = chance.choose(tables);
    match chance.below(100) {
        0..20 => put(chance, table),
        20..27 => get(chance, table),
        27..52 => update(chance, table),
        52..58 => delete(chance, table),
        58..74 => query(chance, table),
        74..82 => scan(chance, table),
        82..86 => batch_get(chance, tables),
        86..90 => batch_write(chance, tables),
        90..93 => transact_get(chance, tables),
        _ => transact_write(chance, tables),
    }
}

/// A global index more or less, with the table as it is then.
pub(crate) fn change_indexes(chance: &mut Chance, table: &Table, number: usize) -> (Step, Table) {
    let mut after = table.clone();
    let global = table.indexes.iter().position(|index| !index.local);
    let request = match global {
        Some(position) if chance.one_in(2) => {
            let dropped = after.indexes.remove(position);
            table.drop_index(&dropped.name)
        }
        _ => {
            let added = table.random_global_index(chance, format!("added{number}"));
            let request = table.add_index(&added);
            after.indexes.push(added);
            request
        }
    };
    (Step { manner: Manner::Settled, ..Step::once("UpdateTable", request) }, after)
}

pub(crate) fn scan_index(table: &Table, index: &Index) -> Step {
    let request = json!({"TableName": table.name, "IndexName": index.name});
    Step { manner: Manner::Segments(0), ..Step::once("Scan", request) }
}

pub(crate) fn key_in(table: &Table, item: &Value) -> Value {
    let present = table.keys.all().filter_map(|key| Some((key.name.to_owned(), item.get(key.name)?.clone())));
    Value::Object(present.collect())
}

fn capacity(chance: &mut Chance, request: &mut Value) {
    if chance.one_in(3) {
        request["ReturnConsumedCapacity"] = chance.pick(&["TOTAL", "INDEXES", "NONE"]).into();
    }
}

fn metrics(chance: &mut Chance, request: &mut Value) {
    if chance.one_in(12) {
        request["ReturnItemCollectionMetrics"] = chance.pick(&["SIZE", "NONE"]).into();
    }
}

/// What every single write can carry besides what it writes.
fn write(chance: &mut Chance, request: &mut Value, returns: &[&str]) {
    capacity(chance, request);
    metrics(chance, request);
    if chance.percent(60) {
        let returns = if chance.one_in(60) { "UPDATED_NEW" } else { chance.pick(returns) };
        request["ReturnValues"] = returns.into();
    }
    if chance.one_in(3) {
        request["ReturnValuesOnConditionCheckFailure"] = chance.pick(&["ALL_OLD", "ALL_OLD", "NONE"]).into();
    }
}

fn put(chance: &mut Chance, table: &Table) -> Step {
    let item = values::item(chance, table);
    let touched = vec![(table.name.clone(), key_in(table, &item))];
    let mut request = json!({"TableName": table.name, "Item": item});
    write(chance, &mut request, &["NONE", "ALL_OLD", "ALL_OLD"]);
    condition(chance, table, &mut request, 30);
    Step { touched, ..Step::once("PutItem", request) }
}

fn condition(chance: &mut Chance, table: &Table, request: &mut Value, percent: usize) {
    if chance.percent(percent) {
        let mut writer = Writer::new(chance, table);
        request["ConditionExpression"] = writer.requirement(3).into();
        let placeholders = writer.placeholders;
        placeholders.attach(chance, request);
    }
}

fn get(chance: &mut Chance, table: &Table) -> Step {
    let mut request = json!({"TableName": table.name, "Key": values::key(chance, table)});
    capacity(chance, &mut request);
    if chance.one_in(2) {
        request["ConsistentRead"] = chance.one_in(2).into();
    }
    projection(chance, table, &mut request, 50);
    Step::once("GetItem", request)
}

fn projection(chance: &mut Chance, table: &Table, request: &mut Value, percent: usize) {
    if chance.percent(percent) {
        let mut writer = Writer::new(chance, table);
        request["ProjectionExpression"] = writer.projection().into();
        let placeholders = writer.placeholders;
        placeholders.attach(chance, request);
    }
}

fn update(chance: &mut Chance, table: &Table) -> Step {
    let key = values::key(chance, table);
    let mut request = json!({"TableName": table.name, "Key": key});
    write(chance, &mut request, &["NONE", "ALL_OLD", "ALL_NEW", "UPDATED_OLD", "UPDATED_NEW"]);
    update_expression(chance, table, &mut request, 25);
    Step { touched: vec![(table.name.clone(), key)], ..Step::once("UpdateItem", request) }
}

fn update_expression(chance: &mut Chance, table: &Table, request: &mut Value, condition_percent: usize) {
    if chance.one_in(40) {
        return;
    }
    let mut writer = Writer::new(chance, table);
    request["UpdateExpression"] = writer.update().into();
    if writer.chance.percent(condition_percent) {
        request["ConditionExpression"] = writer.requirement(2).into();
    }
    let placeholders = writer.placeholders;
    placeholders.attach(chance, request);
}

fn delete(chance: &mut Chance, table: &Table) -> Step {
    let key = values::key(chance, table);
    let mut request = json!({"TableName": table.name, "Key": key});
    write(chance, &mut request, &["NONE", "ALL_OLD"]);
    condition(chance, table, &mut request, 50);
    Step { touched: vec![(table.name.clone(), key)], ..Step::once("DeleteItem", request) }
}

fn query(chance: &mut Chance, table: &Table) -> Step {
    let index =
        if table.indexes.is_empty() || chance.one_in(3) { None } else { Some(chance.choose(&table.indexes)) };
    let keys = if chance.one_in(100) { &table.keys } else { keys_of(table, index) };
    let mut request = json!({"TableName": table.name});
    let mut writer = Writer::new(chance, table);
    request["KeyConditionExpression"] = writer.key_condition(keys).into();
    filter_and_projection(&mut writer, &mut request);
    let placeholders = writer.placeholders;
    placeholders.attach(chance, &mut request);
    if chance.one_in(2) {
        request["ScanIndexForward"] = chance.one_in(3).into();
    }
    read(chance, index.map(|index| (index.name.as_str(), index.local)), &mut request);
    if chance.one_in(8) {
        let start = start_key(chance, table, index);
        request["ExclusiveStartKey"] = start;
    }
    let manner = if index.is_some() { Manner::IndexPages } else { Manner::Pages };
    let order = keys.sort.iter().map(|key| key.name).collect();
    Step { manner, order, ..Step::once("Query", request) }
}

fn filter_and_projection(writer: &mut Writer<'_>, request: &mut Value) {
    if writer.chance.percent(40) {
        request["FilterExpression"] = writer.condition(2).into();
    }
    if writer.chance.percent(25) {
        request["ProjectionExpression"] = writer.projection().into();
    }
}

/// What queries and scans share.
fn read(chance: &mut Chance, index: Option<(&str, bool)>, request: &mut Value) {
    capacity(chance, request);
    if let Some((name, _)) = index {
        request["IndexName"] = name.into();
    } else if chance.one_in(100) {
        request["IndexName"] = "absent".into();
    }
    if chance.one_in(3) {
        request["Limit"] = (if chance.one_in(50) { 0 } else { 1 + chance.below(4) }).into();
    }
    let global = index.is_some_and(|(_, local)| !local);
    if chance.one_in(if global { 40 } else { 4 }) {
        request["ConsistentRead"] = true.into();
    }
    if chance.one_in(5) {
        let select = ["COUNT", "COUNT", "ALL_ATTRIBUTES", "ALL_PROJECTED_ATTRIBUTES", "SPECIFIC_ATTRIBUTES"];
        request["Select"] = chance.pick(&select).into();
    }
}

fn start_key(chance: &mut Chance, table: &Table, index: Option<&Index>) -> Value {
    let mut start = values::key(chance, table);
    for key in keys_of(table, index).all() {
        if !chance.one_in(20) {
            start[key.name] = values::of_key(chance, key);
        }
    }
    start
}

fn scan(chance: &mut Chance, table: &Table) -> Step {
    let index =
        if table.indexes.is_empty() || chance.one_in(2) { None } else { Some(chance.choose(&table.indexes)) };
    let mut request = json!({"TableName": table.name});
    let mut writer = Writer::new(chance, table);
    filter_and_projection(&mut writer, &mut request);
    let placeholders = writer.placeholders;
    placeholders.attach(chance, &mut request);
    read(chance, index.map(|index| (index.name.as_str(), index.local)), &mut request);
    let segments = if chance.one_in(5) { 1 + chance.below(4) } else { 0 };
    Step { manner: Manner::Segments(segments), ..Step::once("Scan", request) }
}

/// One table or more; none once in a while.
fn some<'a>(chance: &mut Chance, tables: &'a [Table]) -> &'a [Table] {
    match chance.below(40) {
        0 => &[],
        1..20 => tables,
        _ => std::slice::from_ref(chance.choose(tables)),
    }
}

fn batch_get(chance: &mut Chance, tables: &[Table]) -> Step {
    let mut items = json!({});
    for table in some(chance, tables) {
        let count = 1 + chance.below(5);
        let mut keys: Vec<Value> = vec![];
        for _ in 0..count {
            let key = values::key(chance, table);
            if !keys.contains(&key) || chance.one_in(20) {
                keys.push(key);
            }
        }
        let mut part = json!({"Keys": keys});
        if chance.one_in(4) {
            part["ConsistentRead"] = true.into();
        }
        projection(chance, table, &mut part, 30);
        items[&table.name] = part;
    }
    let mut request = json!({"RequestItems": items});
    capacity(chance, &mut request);
    Step::once("BatchGetItem", request)
}

fn batch_write(chance: &mut Chance, tables: &[Table]) -> Step {
    let mut items = json!({});
    let mut touched = vec![];
    for table in some(chance, tables) {
        let mut writes: Vec<Value> = vec![];
        let mut seen: Vec<Value> = vec![];
        for _ in 0..=chance.below(5) {
            let (key, write) = if chance.percent(70) {
                let item = values::item(chance, table);
                (key_in(table, &item), json!({"PutRequest": {"Item": item}}))
            } else {
                let key = values::key(chance, table);
                (key.clone(), json!({"DeleteRequest": {"Key": key}}))
            };
            if !seen.contains(&key) || chance.one_in(20) {
                seen.push(key.clone());
                writes.push(write);
                touched.push((table.name.clone(), key));
            }
        }
        items[&table.name] = writes.into();
    }
    let mut request = json!({"RequestItems": items});
    capacity(chance, &mut request);
    metrics(chance, &mut request);
    Step { touched, ..Step::once("BatchWriteItem", request) }
}

fn transact_get(chance: &mut Chance, tables: &[Table]) -> Step {
    let mut gets: Vec<Value> = vec![];
    for _ in 0..=chance.below(4) {
        let table = chance.choose(tables);
        let mut get = json!({"TableName": table.name, "Key": values::key(chance, table)});
        projection(chance, table, &mut get, 30);
        gets.push(json!({"Get": get}));
    }
    let mut request = json!({"TransactItems": gets});
    capacity(chance, &mut request);
    Step::once("TransactGetItems", request)
}

fn transact_write(chance: &mut Chance, tables: &[Table]) -> Step {
    let mut writes: Vec<Value> = vec![];
    let mut touched: Vec<(String, Value)> = vec![];
    for _ in 0..=chance.below(4) {
        let table = chance.choose(tables);
        let mut part = json!({"TableName": table.name});
        let (kind, key) = match chance.below(4) {
            0 => {
                let item = values::item(chance, table);
                let key = key_in(table, &item);
                part["Item"] = item;
                condition(chance, table, &mut part, 40);
                ("Put", key)
            }
            1 => {
                let key = values::key(chance, table);
                part["Key"] = key.clone();
                update_expression(chance, table, &mut part, 25);
                ("Update", key)
            }
            2 => {
                let key = values::key(chance, table);
                part["Key"] = key.clone();
                condition(chance, table, &mut part, 40);
                ("Delete", key)
            }
            _ => {
                let key = values::key(chance, table);
                part["Key"] = key.clone();
                condition(chance, table, &mut part, 98);
                ("ConditionCheck", key)
            }
        };
        if chance.one_in(3) {
            part["ReturnValuesOnConditionCheckFailure"] = chance.pick(&["ALL_OLD", "NONE"]).into();
        }
        let target = (table.name.clone(), key);
        if !touched.contains(&target) || chance.one_in(20) {
            touched.push(target);
            writes.push(json!({kind: part}));
        }
    }
    let mut request = json!({"TransactItems": writes});
    capacity(chance, &mut request);
    metrics(chance, &mut request);
    if chance.one_in(10) {
        request["ClientRequestToken"] = format!("{:x}", chance.next()).into();
    }
    Step { touched, ..Step::once("TransactWriteItems", request) }
}
