//! Answers in a form in which equal answers are equal.
//!
//! The order of a set, of a scan and of a batch is nobody's promise; all else is compared as it is.

use serde_json::{Map, Value, json};

use crate::requests::{Manner, Step};
use crate::sides::{Answer, Side};

const PAGES_MAX: usize = 200;

/// The answer to a step, to its last page.
pub(crate) fn answer(side: &dyn Side, step: &Step) -> Answer {
    match step.manner {
        Manner::Once => side.ask(step.operation, &step.request).map(canonical).map_err(error),
        Manner::Settled => {
            side.ask(step.operation, &step.request).map_err(error)?;
            side.settle();
            Ok(Value::Null)
        }
        Manner::Pages => {
            let pages = pages(side, step.operation, step.request.clone())?;
            Ok(pages.into_iter().map(canonical).collect())
        }
        Manner::IndexPages => {
            let pages = pages(side, step.operation, step.request.clone())?;
            let items = pages.iter().filter_map(|page| page.get("Items")?.as_array()).flatten();
            let order: Value = items
                .map(|item| step.order.iter().map(|name| item[*name].clone()).collect::<Value>())
                .collect();
            let mut whole = whole(pages, 0, step.request.get("Limit").is_some());
            whole["Order"] = order;
            Ok(whole)
        }
        Manner::Segments(segments) => {
            let mut all = vec![];
            for segment in 0..segments.max(1) {
                let mut request = step.request.clone();
                if segments > 0 {
                    request["Segment"] = segment.into();
                    request["TotalSegments"] = segments.into();
                }
                all.extend(pages(side, step.operation, request)?);
            }
            Ok(whole(all, segments, step.request.get("Limit").is_some()))
        }
    }
}

fn pages(side: &dyn Side, operation: &str, mut request: Value) -> Result<Vec<Value>, Value> {
    let mut pages = vec![];
    loop {
        let page = side.ask(operation, &request).map_err(error)?;
        let last = page.get("LastEvaluatedKey").cloned();
        pages.push(page);
        match last {
            Some(key) if pages.len() < PAGES_MAX => request["ExclusiveStartKey"] = key,
            Some(_) => return Err(json!({"type": "EndlessPages"})),
            None => return Ok(pages),
        }
    }
}

/// The sum of a scan's pages. How many there are follows from the order when there are segments, and so does
/// what a page costs when there is a limit.
fn whole(pages: Vec<Value>, segments: usize, limited: bool) -> Value {
    let sum = |member: &str| -> u64 { pages.iter().filter_map(|page| page[member].as_u64()).sum() };
    let mut whole = json!({"Count": sum("Count"), "ScannedCount": sum("ScannedCount")});
    if segments < 2 {
        whole["Pages"] = pages.len().into();
        if !limited && let Some(capacity) = pages[0].get("ConsumedCapacity") {
            whole["ConsumedCapacity"] = canonical(capacity.clone());
        }
    }
    let mut members: Vec<String> =
        pages.iter().filter_map(Value::as_object).flat_map(Map::keys).cloned().collect();
    members.sort();
    members.dedup();
    whole["Members"] =
        members.into_iter().filter(|member| segments < 2 || member != "LastEvaluatedKey").collect();
    let items = pages.into_iter().filter_map(|mut page| Some(page.get_mut("Items")?.take()));
    let items: Vec<Value> =
        items.flat_map(|items| items.as_array().cloned().unwrap_or_default()).map(canonical).collect();
    whole["Items"] = in_order(items).into();
    whole
}

fn in_order(mut values: Vec<Value>) -> Vec<Value> {
    values.sort_by_cached_key(Value::to_string);
    values
}

fn canonical(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let members = members.into_iter().map(|(name, value)| {
                let mut value = canonical(value);
                // Sets; and lists of answers that are in no order.
                let unordered = ["SS", "NS", "BS", "ConsumedCapacity"].contains(&name.as_str());
                if unordered && let Value::Array(list) = &mut value {
                    *list = in_order(std::mem::take(list));
                }
                if name == "Responses"
                    && let Value::Object(tables) = &mut value
                {
                    for list in tables.values_mut().filter_map(Value::as_array_mut) {
                        *list = in_order(std::mem::take(list));
                    }
                }
                (name, value)
            });
            Value::Object(members.collect())
        }
        Value::Array(list) => list.into_iter().map(canonical).collect(),
        // 1 and 1.0 capacity units are the same.
        Value::Number(number) => json!(number.as_f64()),
        other => other,
    }
}

/// An error with its type's last part and its message under one name.
fn error(body: Value) -> Value {
    let mut error = Map::new();
    let Value::Object(members) = canonical(body) else { return Value::Null };
    for (name, value) in members {
        match name.as_str() {
            "__type" => {
                let kind = value.as_str().unwrap_or_default();
                let kind = kind.rsplit('#').next().unwrap_or_default();
                error.insert("type".into(), kind.into());
            }
            "message" | "Message" => drop(error.insert("message".into(), value)),
            _ => drop(error.insert(name, value)),
        }
    }
    error.into()
}
