//! A query as people see it: the keys it looks at, what it costs, and the request itself.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use larder_expr::Renderer;
use larder_model::AttributeValue;
use larder_model::limits::PAGE_BYTES_MAX;
use serde_json::{Map, Value as Json, json};

use super::Asked;
use crate::entity::Core;
use crate::price::{Units, read_units};

/// What a query would do.
///
/// ```
/// # larder::schema!("examples/library.larder");
/// # use library::Library;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let library = Library::open(larder::Store::memory().await).await?;
/// let explained = library.books().by_author("Austen").limit(10).explain()?;
/// assert_eq!((explained.table.as_str(), explained.index.as_deref()), ("library", Some("ByAuthor")));
/// assert!(explained.to_string().starts_with("query  library by ByAuthor"));
/// assert!(explained.request.contains("KeyConditionExpression"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// What the store calls the table.
    pub table: String,
    /// What the store calls the index; `None` is the table itself.
    pub index: Option<String>,
    /// The key condition, with its values in place.
    pub keys: String,
    /// For all records up to the limit, each as large as the workload says; without either, for one page of 1 MB.
    pub units: Units,
    /// The request in DynamoDB's JSON.
    pub request: String,
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.index {
            Some(index) => writeln!(f, "query  {} by {index}", self.table)?,
            None => writeln!(f, "query  {}", self.table)?,
        }
        writeln!(f, "keys   {}", self.keys)?;
        writeln!(f, "costs  at most {}", self.units)?;
        f.write_str(&self.request)
    }
}

pub(super) fn explain(core: &Core, asked: &Asked) -> Explanation {
    let request = asked.request(core, asked.start.clone(), asked.limit, false);
    let mut renderer = Renderer::new();
    let condition = renderer.key_condition(&request.key_condition);
    let filter = request.filter.as_ref().map(|filter| renderer.condition(filter));
    let placeholders = renderer.finish();

    let mut keys = condition.clone();
    // From the last, so that `:v1` is not found in `:v10`.
    for (name, value) in placeholders.values.iter().rev() {
        keys = keys.replace(name.as_str(), &json_of(value).to_string());
    }
    for (placeholder, name) in placeholders.names.iter().rev() {
        keys = keys.replace(placeholder.as_str(), name);
    }

    let item_bytes = core.schema.workload.as_ref().and_then(|workload| workload.item_bytes);
    let bytes = match (asked.limit, item_bytes) {
        (Some(limit), Some(bytes)) => bytes.saturating_mul(limit as u64),
        _ => PAGE_BYTES_MAX as u64,
    };
    let units = Units { read: read_units(bytes, request.consistent), write: 0.0 };

    let mut json = Map::new();
    json.insert("TableName".into(), request.table.to_string().into());
    if let Some(index) = &request.index {
        json.insert("IndexName".into(), index.to_string().into());
    }
    json.insert("KeyConditionExpression".into(), condition.into());
    if let Some(filter) = filter {
        json.insert("FilterExpression".into(), filter.into());
    }
    json.insert("ExpressionAttributeNames".into(), json!(placeholders.names));
    let values: Map<String, Json> =
        placeholders.values.iter().map(|(name, value)| (name.clone(), typed(value))).collect();
    json.insert("ExpressionAttributeValues".into(), values.into());
    json.insert("ScanIndexForward".into(), request.forward.into());
    if let Some(limit) = request.limit {
        json.insert("Limit".into(), limit.into());
    }
    if request.consistent {
        json.insert("ConsistentRead".into(), true.into());
    }
    if let Some(start) = &request.start {
        let start: Map<String, Json> =
            start.iter().map(|(name, value)| (name.clone(), typed(value))).collect();
        json.insert("ExclusiveStartKey".into(), start.into());
    }
    let text = serde_json::to_string_pretty(&Json::Object(json));
    Explanation {
        table: request.table.to_string(),
        index: request.index.map(|index| index.to_string()),
        keys,
        units,
        request: text.expect("a map of texts has a text"),
    }
}

/// The value of a key.
fn json_of(value: &AttributeValue) -> Json {
    match value {
        AttributeValue::S(text) => text.clone().into(),
        AttributeValue::N(number) => number.to_string().into(),
        AttributeValue::B(bytes) => STANDARD.encode(bytes).into(),
        _ => Json::Null,
    }
}

fn typed(value: &AttributeValue) -> Json {
    json!({ value.kind().name(): json_of(value) })
}
