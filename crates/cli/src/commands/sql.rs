//! `larder sql`: a PartiQL statement on any store; and with `--explain` what it would do, and its price.
//!
//! Both are `larder::statement`'s; how it is printed is decided here.

use std::process::ExitCode;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use larder::census;
use larder::price::Units;
use larder::statement::{self, Explanation};
use larder::store::STORE_VARIABLE;
use larder::{Address, Store};
use larder_model::{AttributeValue, Item, TableDefinition};
use larder_partiql::{Select, Statement};
use serde_json::{Map, Value as Json, json};

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
    /// What a statement would do, and what that costs.
    pub(crate) fn explaining(statement: String, store: Address, parameters: Vec<String>) -> Self {
        Self { statement, store, parameters, limit: 0, json: false, csv: false, explain: true }
    }

    pub(crate) fn run(self) -> Result<ExitCode, String> {
        data::check_there(&self.store)?;
        let parameters: Vec<AttributeValue> =
            self.parameters.iter().map(|text| statement::parameter(text)).collect::<Result<_, _>>()?;
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
            let found = self.execute(&store, &parameters).await?;
            self.show(&statement, &deployed.definition, found)
        })?;
        Ok(ExitCode::SUCCESS)
    }

    async fn execute(&self, store: &Store, parameters: &[AttributeValue]) -> Result<Found, String> {
        let mut found = Found { items: Vec::new(), more: false, units: 0.0 };
        let mut next = None;
        loop {
            let page = statement::run(store, &self.statement, parameters, next, None).await;
            let page = page.map_err(|error| told(&self.store, &error.into()))?;
            found.units += page.units;
            found.items.extend(page.items.into_iter().map(object));
            next = page.next;
            found.more = next.is_some() || found.items.len() > self.limit;
            if next.is_none() || found.items.len() >= self.limit {
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
        let told =
            Explanation::of(statement, definition, size.as_ref()).map_err(|error| error.to_string())?;
        terminal::print(&if self.json { format!("{}\n", json(&told)) } else { format!("{told}\n") })
    }
}

fn json(told: &Explanation) -> Json {
    json!({
        "operation": told.operation, "about": told.about, "units_are_for_each_item": told.is_each,
        "read_units": told.units.read, "write_units": told.units.write, "dollars": told.units.dollars(),
    })
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

fn object(item: Item) -> Map<String, Json> {
    item.into_iter().map(|(name, value)| (name, plain(value))).collect()
}

/// A value as JSON has it: sets are lists, binaries base64, and a number that a double cannot hold is text.
fn plain(value: AttributeValue) -> Json {
    match value {
        AttributeValue::S(text) => text.into(),
        AttributeValue::N(value) => number(&value.to_string()),
        AttributeValue::B(bytes) => STANDARD.encode(bytes).into(),
        AttributeValue::Bool(value) => value.into(),
        AttributeValue::Null => Json::Null,
        AttributeValue::Ss(set) => set.into_iter().map(Json::from).collect(),
        AttributeValue::Ns(set) => set.iter().map(|value| number(&value.to_string())).collect(),
        AttributeValue::Bs(set) => set.into_iter().map(|bytes| Json::from(STANDARD.encode(bytes))).collect(),
        AttributeValue::L(list) => list.into_iter().map(plain).collect(),
        AttributeValue::M(map) => Json::Object(object(map)),
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
    fn numbers_keep_their_digits() {
        assert_eq!(number("5"), json!(5));
        assert_eq!(number("1.5"), json!(1.5));
        assert_eq!(number("12345678901234567890123"), json!("12345678901234567890123"));
    }

    #[test]
    fn cells_are_quoted_where_they_must_be() {
        let list = AttributeValue::L(vec![1.into()]);
        let item = object([("a", AttributeValue::from("x, \"y\"")), ("b", list)].into_iter().collect());
        let names = ["a", "b", "c"].map(str::to_owned);
        assert_eq!(csv(&names, &[item]), "a,b,c\r\n\"x, \"\"y\"\"\",[1],\r\n");
    }
}
