//! `larder sql`: a PartiQL statement on any store; and with `--explain` what it would do, and its price.
//!
//! The store carries it out, by the SDK's client, in process or over the network. Only an explanation is made here: from
//! the key of the table, and what the store knows of its size.

use std::collections::HashMap;
use std::process::ExitCode;

use aws_sdk_dynamodb::types::{AttributeValue as Value, ReturnConsumedCapacity};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use larder::census::{self, Size};
use larder::price::{Units, read_units, write_units};
use larder::store::STORE_VARIABLE;
use larder::{Address, Store};
use larder_model::{AttributeValue, KeySchema, Number, TableDefinition};
use larder_partiql::{Access, Select, Statement};
use serde_json::{Map, Value as Json, json};

use super::backup::failed;
use super::plan;
use crate::data::{self, told};
use crate::{held, terminal};

/// Carry out a PartiQL statement
///
/// Names with a dash or a dot, and an index after its table, stand in double quotes: SELECT * FROM "my-table"."by-date".
#[derive(Debug, Args)]
pub(crate) struct Sql {
    /// A SELECT, INSERT, UPDATE or DELETE
    statement: String,
    /// Where the tables are: a directory, memory:, dynamodb: (AWS) or dynamodb:http://HOST:PORT
    #[arg(long, env = STORE_VARIABLE, value_name = "STORE", default_value_t = Address::default())]
    store: Address,
    /// The value of a `?`, in their order: a JSON number, true, false, null or "text"; anything else is text
    #[arg(long = "parameter", value_name = "VALUE", allow_hyphen_values = true)]
    parameters: Vec<String>,
    /// At most so many items
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: usize,
    /// Print JSON, one object a line
    #[arg(long)]
    json: bool,
    /// Print comma-separated values, with a line of names
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Say what it would do, and what that costs, and do nothing
    #[arg(long)]
    explain: bool,
}

/// What a statement answered.
struct Found {
    items: Vec<Map<String, Json>>,
    more: bool,
    units: f64,
}

impl Sql {
    pub(crate) fn run(self) -> Result<ExitCode, String> {
        data::check_there(&self.store)?;
        let parameters: Vec<AttributeValue> =
            self.parameters.iter().map(|text| parameter(text)).collect::<Result<_, _>>()?;
        let statement =
            larder_partiql::read(&self.statement, &parameters).map_err(|error| error.to_string())?;
        plan::runtime()?.block_on(async {
            let store = held::open(&self.store).await.map_err(|error| told(&self.store, &error.into()))?;
            let described = store.describe(statement.table()).await;
            let described = described.map_err(|error| told(&self.store, &error.into()))?;
            let Some(deployed) = described else {
                return Err(format!("there is no table {} in {}", statement.table(), store.place()));
            };
            if self.explain {
                return self.explain(&store, &statement, &deployed.definition).await;
            }
            let found = self.execute(&store, parameters).await?;
            self.show(&statement, &deployed.definition, found)
        })?;
        Ok(ExitCode::SUCCESS)
    }

    async fn execute(&self, store: &Store, parameters: Vec<AttributeValue>) -> Result<Found, String> {
        let client = store.sdk_client().await.map_err(|error| told(&self.store, &error.into()))?;
        let parameters: Vec<Value> = parameters.into_iter().map(sent).collect();
        let parameters = (!parameters.is_empty()).then_some(parameters);
        let mut found = Found { items: Vec::new(), more: false, units: 0.0 };
        let mut token = None;
        loop {
            let page = client
                .execute_statement()
                .statement(&self.statement)
                .set_parameters(parameters.clone())
                .set_next_token(token)
                .return_consumed_capacity(ReturnConsumedCapacity::Total);
            let page = page.send().await.map_err(|error| failed(&error))?;
            found.units += page.consumed_capacity.and_then(|sum| sum.capacity_units).unwrap_or(0.0);
            found.items.extend(page.items.unwrap_or_default().into_iter().map(object));
            token = page.next_token;
            found.more = token.is_some() || found.items.len() > self.limit;
            if token.is_none() || found.items.len() >= self.limit {
                found.items.truncate(self.limit);
                return Ok(found);
            }
        }
    }

    fn show(&self, statement: &Statement, definition: &TableDefinition, found: Found) -> Result<(), String> {
        let names = names(statement, definition, &found.items);
        if self.json {
            let line = |item: Map<String, Json>| {
                let mut known: Vec<(String, Json)> = item.into_iter().collect();
                known.sort_by_key(|(name, _)| names.iter().position(|known| known == name));
                format!("{}\n", Json::Object(known.into_iter().collect()))
            };
            terminal::print(&found.items.into_iter().map(line).collect::<String>())?;
        } else if self.csv {
            terminal::print(&csv(&names, &found.items))?;
        } else if !found.items.is_empty() {
            let row = |item: &Map<String, Json>| {
                names.iter().map(|name| item.get(name).map_or_else(String::new, data::cell)).collect()
            };
            let shown: Vec<String> = names.iter().map(|name| data::plain(name)).collect();
            terminal::print(&data::table(&shown, found.items.iter().map(row).collect()))?;
        } else {
            terminal::print(if statement.is_read() { "nothing is there\n" } else { "it is done\n" })?;
        }
        let units = if statement.is_read() {
            Units { read: found.units, write: 0.0 }
        } else {
            Units { read: 0.0, write: found.units }
        };
        if found.more {
            eprintln!("there is more: a higher --limit shows it");
        }
        eprintln!("{units}");
        Ok(())
    }

    async fn explain(
        &self,
        store: &Store,
        statement: &Statement,
        definition: &TableDefinition,
    ) -> Result<(), String> {
        let size = census::size(store, statement.table()).await;
        let size = size.map_err(|error| told(&self.store, &error.into()))?;
        let told = Explanation::of(statement, definition, size.as_ref())?;
        terminal::print(&if self.json { format!("{}\n", told.json()) } else { told.text() })
    }
}

/// What a statement would do.
#[derive(Debug, PartialEq)]
struct Explanation {
    operation: &'static str,
    /// What of the table, in words.
    about: String,
    /// Of a query it is what each item costs, at least half a unit for each partition: how many there are is not known.
    units: Units,
    is_each: bool,
}

impl Explanation {
    fn of(statement: &Statement, definition: &TableDefinition, size: Option<&Size>) -> Result<Self, String> {
        let wrong = |error: larder_partiql::Error| error.to_string();
        let (schema, size) = place(statement, definition, size)?;
        let (bytes, items) = size.map_or((0, 0), |size| (size.bytes, size.items));
        let item = bytes.checked_div(items).unwrap_or(0);
        let one = |operation, write: bool| {
            let units = if write {
                Units { read: 0.0, write: write_units(item) }
            } else {
                Units { read: read_units(item, false), write: 0.0 }
            };
            let about = format!("one item of {}, of {item} bytes on average", statement.table());
            Ok(Self { operation, about, units, is_each: false })
        };
        match statement {
            Statement::Insert(_) => one("PutItem", true),
            Statement::Update(update) => {
                larder_partiql::keyed_write(update.condition.as_ref(), schema).map_err(wrong)?;
                one("UpdateItem", true)
            }
            Statement::Delete(delete) => {
                larder_partiql::keyed_write(delete.condition.as_ref(), schema).map_err(wrong)?;
                one("DeleteItem", true)
            }
            Statement::Exists(_) => Err(larder_partiql::Error::ExistsAlone.to_string()),
            Statement::Select(select) => match larder_partiql::plan(select, schema).map_err(wrong)? {
                Access::Get(_) => one("GetItem", false),
                Access::Query { parts, .. } => {
                    let partitions = terminal::count(parts.len(), "partition");
                    let about =
                        format!("{partitions} of {}, {item} bytes an item on average", searched(select));
                    // A unit is of what a partition's items take together.
                    let units = Units { read: item as f64 / 8192.0, write: 0.0 };
                    Ok(Self { operation: "Query", about, units, is_each: true })
                }
                Access::Scan { .. } => {
                    let about = format!(
                        "all {} of {}, {bytes} bytes",
                        terminal::count(usize::try_from(items).unwrap_or(usize::MAX), "item"),
                        searched(select)
                    );
                    let units = Units { read: read_units(bytes, false), write: 0.0 };
                    Ok(Self { operation: "Scan", about, units, is_each: false })
                }
            },
        }
    }

    fn text(&self) -> String {
        let Self { operation, about, units, is_each } = self;
        if *is_each {
            let dollars = Units { read: units.read * 1e6, write: 0.0 };
            return format!("{operation}: {about}\na million items read so cost {dollars}\n");
        }
        format!("{operation}: {about}\nabout {units}\n")
    }

    fn json(&self) -> Json {
        json!({
            "operation": self.operation, "about": self.about, "units_are_for_each_item": self.is_each,
            "read_units": self.units.read, "write_units": self.units.write, "dollars": self.units.dollars(),
        })
    }
}

fn searched(select: &Select) -> String {
    match &select.index {
        Some(index) => format!("index {index} of {}", select.table),
        None => select.table.to_string(),
    }
}

/// The key and the size of the table or index that a statement is about.
fn place<'a>(
    statement: &Statement,
    definition: &'a TableDefinition,
    size: Option<&'a Size>,
) -> Result<(&'a KeySchema, Option<&'a Size>), String> {
    let Statement::Select(Select { index: Some(name), .. }) = statement else {
        return Ok((&definition.key, size));
    };
    let Some(index) = definition.indexes.iter().find(|index| index.name == *name) else {
        let known: Vec<&str> = definition.indexes.iter().map(|index| index.name.as_str()).collect();
        return Err(data::unknown(definition.name.as_str(), "index", name.as_str(), &known));
    };
    let of_index = size.and_then(|size| size.indexes.iter().find(|size| size.name == name.as_str()));
    Ok((&index.key, of_index))
}

/// The columns, as they were asked for; or the key, and then all names there are.
fn names(statement: &Statement, definition: &TableDefinition, items: &[Map<String, Json>]) -> Vec<String> {
    if let Statement::Select(Select { columns: Some(columns), .. }) = statement {
        return columns.0.iter().map(|column| column.name.clone()).collect();
    }
    let mut names: Vec<String> = Vec::new();
    let mut others: Vec<&String> = items.iter().flat_map(Map::keys).collect();
    others.sort();
    let key = definition.key.attributes().map(|attribute| &attribute.name);
    for name in key.filter(|name| items.iter().any(|item| item.contains_key(*name))).chain(others) {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    names
}

/// A value of a `?`, as it is written.
fn parameter(text: &str) -> Result<AttributeValue, String> {
    Ok(match serde_json::from_str::<Json>(text) {
        Ok(Json::Null) => AttributeValue::Null,
        Ok(Json::Bool(value)) => AttributeValue::Bool(value),
        // As it is written: a double would lose digits.
        Ok(Json::Number(_)) => {
            let number: Number = text.trim().parse().map_err(|error| format!("{text}: {error}"))?;
            AttributeValue::N(number)
        }
        Ok(Json::String(text)) => AttributeValue::S(text),
        Ok(Json::Array(_) | Json::Object(_)) | Err(_) => AttributeValue::S(text.to_owned()),
    })
}

/// A parameter as the SDK has it: there are no others than these four.
fn sent(value: AttributeValue) -> Value {
    match value {
        AttributeValue::N(number) => Value::N(number.to_string()),
        AttributeValue::Bool(value) => Value::Bool(value),
        AttributeValue::S(text) => Value::S(text),
        _ => Value::Null(true),
    }
}

fn object(item: HashMap<String, Value>) -> Map<String, Json> {
    item.into_iter().map(|(name, value)| (name, plain(value))).collect()
}

/// A value as JSON has it: sets are lists, binaries base64, and a number that a double cannot hold is text.
fn plain(value: Value) -> Json {
    match value {
        Value::S(text) => text.into(),
        Value::N(text) => number(&text),
        Value::B(bytes) => STANDARD.encode(bytes).into(),
        Value::Bool(value) => value.into(),
        Value::Ss(set) => set.into_iter().map(Json::from).collect(),
        Value::Ns(set) => set.iter().map(|text| number(text)).collect(),
        Value::Bs(set) => set.into_iter().map(|bytes| Json::from(STANDARD.encode(bytes))).collect(),
        Value::L(list) => list.into_iter().map(plain).collect(),
        Value::M(map) => Json::Object(object(map)),
        _ => Json::Null,
    }
}

fn number(text: &str) -> Json {
    match serde_json::from_str::<Json>(text).map(|json| (json.to_string(), json)) {
        Ok((shown, json)) if shown == text => json,
        _ => text.into(),
    }
}

fn csv(names: &[String], items: &[Map<String, Json>]) -> String {
    let quoted = |text: &str| {
        let special = text.contains([',', '"', '\n', '\r']);
        if special { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
    };
    let value = |value: &Json| match value {
        Json::String(text) => quoted(text),
        other => quoted(&other.to_string()),
    };
    let mut lines = vec![names.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(",")];
    for item in items {
        let cells = names.iter().map(|name| item.get(name).map_or_else(String::new, value));
        lines.push(cells.collect::<Vec<_>>().join(","));
    }
    lines.into_iter().map(|line| line + "\r\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_json_or_text() {
        for (text, expected) in [
            ("5", AttributeValue::from(5)),
            ("-1", (-1).into()),
            ("\"5\"", "5".into()),
            ("RACE#1", "RACE#1".into()),
            ("true", true.into()),
            ("null", AttributeValue::Null),
            ("[1]", "[1]".into()),
        ] {
            assert_eq!(parameter(text), Ok(expected), "{text}");
        }
        let digits = "1234567890123456789012345678901234567.5";
        assert_eq!(parameter(digits).map(sent), Ok(Value::N(digits.to_owned())));
    }

    #[test]
    fn numbers_keep_their_digits() {
        assert_eq!(number("5"), json!(5));
        assert_eq!(number("1.5"), json!(1.5));
        assert_eq!(number("12345678901234567890123"), json!("12345678901234567890123"));
    }

    #[test]
    fn cells_are_quoted_where_they_must_be() {
        let item = object(HashMap::from([
            ("a".to_owned(), Value::S("x, \"y\"".to_owned())),
            ("b".to_owned(), Value::L(vec![Value::N("1".to_owned())])),
        ]));
        let names = ["a", "b", "c"].map(str::to_owned);
        assert_eq!(csv(&names, &[item]), "a,b,c\r\n\"x, \"\"y\"\"\",[1],\r\n");
    }
}
