//! A PartiQL statement on any store: what it would do and what that costs, and then doing it.
//!
//! The store carries it out, in process or over the network. Only an [`Explanation`] is made here: from the key of the table,
//! and what the store knows of its size.

use std::fmt;

use aws_sdk_dynamodb::types::ReturnConsumedCapacity;
use larder_model::{AttributeValue, IndexName, Item, KeySchema, Number, TableDefinition};
use larder_partiql::{Access, Select, Statement};
use serde_json::Value as Json;

use crate::census::Size;
use crate::price::{Units, read_units, write_units};
use crate::store::{Error, Store, read_item, sdk_error, sdk_value};

/// What a page of a statement gave.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StatementPage {
    /// What it found, or what a write returns.
    pub items: Vec<Item>,
    /// Where the next page begins; `None` at the end.
    pub next: Option<String>,
    /// What it took, of the kind that [`Explanation::units`] are.
    pub units: f64,
}

/// Carries out a statement, or goes on with one where a page of it ended. Looks at `limit` items at most, if that is said.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), larder::store::Error> {
/// let store = larder::Store::memory().await;
/// let refused = larder::statement::run(&store, "SELECT * FROM none", &[], None, None).await;
/// assert!(refused.is_err());
/// # Ok(())
/// # }
/// ```
pub async fn run(
    store: &Store,
    text: &str,
    parameters: &[AttributeValue],
    next: Option<String>,
    limit: Option<usize>,
) -> Result<StatementPage, Error> {
    let client = store.sdk_client().await?;
    let parameters: Vec<_> = parameters.iter().cloned().map(sdk_value).collect();
    let answer = client
        .execute_statement()
        .statement(text)
        .set_parameters((!parameters.is_empty()).then_some(parameters))
        .set_next_token(next)
        .set_limit(limit.map(|limit| i32::try_from(limit).unwrap_or(i32::MAX)))
        .return_consumed_capacity(ReturnConsumedCapacity::Total)
        .send()
        .await
        .map_err(|error| sdk_error(store.place(), &error))?;
    let items = answer.items.unwrap_or_default().into_iter().map(read_item);
    let unreadable =
        |cause: &str| Error::Refused { code: "InvalidAnswer".to_owned(), message: cause.to_owned() };
    Ok(StatementPage {
        items: items.collect::<Result<_, _>>().map_err(unreadable)?,
        next: answer.next_token,
        units: answer.consumed_capacity.and_then(|sum| sum.capacity_units).unwrap_or(0.0),
    })
}

/// The value of a `?` as people write it: a JSON number, `true`, `false`, `null` or `"text"`; anything else is text.
///
/// ```
/// use larder::statement::parameter;
///
/// assert_eq!(parameter("5")?, 5.into());
/// assert_eq!(parameter("\"5\"")?, "5".into());
/// assert_eq!(parameter("RACE#1")?, "RACE#1".into());
/// # Ok::<(), String>(())
/// ```
pub fn parameter(text: &str) -> Result<AttributeValue, String> {
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

/// What a statement would do, and what that costs.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// The operation that does the same.
    pub operation: &'static str,
    /// What of the table, in words.
    pub about: String,
    /// Of a query it is what each item costs, at least half a unit for each partition: how many there are is not known.
    pub units: Units,
    /// The units are for each item.
    pub is_each: bool,
}

/// Why a statement cannot be carried out on its table.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Unexplained {
    /// It makes no sense for a table with this key.
    #[error(transparent)]
    Statement(#[from] larder_partiql::Error),
    /// There is no such index; these are there.
    #[error("there is no index `{name}`; {}", there_are(known))]
    Index {
        /// As the statement calls it.
        name: IndexName,
        /// Those that the table has.
        known: Vec<IndexName>,
    },
}

fn there_are(known: &[IndexName]) -> String {
    if known.is_empty() {
        return "the table has none".to_owned();
    }
    let names: Vec<&str> = known.iter().map(IndexName::as_str).collect();
    format!("there are {}", names.join(", "))
}

impl Explanation {
    /// Of a statement on a table that is defined so and is, as far as that is known, so large.
    pub fn of(
        statement: &Statement,
        definition: &TableDefinition,
        size: Option<&Size>,
    ) -> Result<Self, Unexplained> {
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
                larder_partiql::keyed_write(update.condition.as_ref(), schema)?;
                one("UpdateItem", true)
            }
            Statement::Delete(delete) => {
                larder_partiql::keyed_write(delete.condition.as_ref(), schema)?;
                one("DeleteItem", true)
            }
            Statement::Exists(_) => Err(larder_partiql::Error::ExistsAlone.into()),
            Statement::Select(select) => match larder_partiql::plan(select, schema)? {
                Access::Get(_) => one("GetItem", false),
                Access::Query { parts, .. } => {
                    let partitions = counted(parts.len() as u64, "partition");
                    let about =
                        format!("{partitions} of {}, {item} bytes an item on average", searched(select));
                    // A unit is of what a partition's items take together.
                    let units = Units { read: item as f64 / 8192.0, write: 0.0 };
                    Ok(Self { operation: "Query", about, units, is_each: true })
                }
                Access::Scan { .. } => {
                    let about =
                        format!("all {} of {}, {bytes} bytes", counted(items, "item"), searched(select));
                    let units = Units { read: read_units(bytes, false), write: 0.0 };
                    Ok(Self { operation: "Scan", about, units, is_each: false })
                }
            },
        }
    }

    /// Whether it reads a table, or an index, from its beginning.
    pub fn is_scan(&self) -> bool {
        self.operation == "Scan"
    }
}

/// In two lines: what it does, and what that costs.
impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { operation, about, units, is_each } = self;
        if *is_each {
            let million = Units { read: units.read * 1e6, write: 0.0 };
            return write!(f, "{operation}: {about}\na million items read so cost {million}");
        }
        write!(f, "{operation}: {about}\nabout {units}")
    }
}

fn counted(number: u64, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {what}{plural}", crate::price::count(number as f64))
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
) -> Result<(&'a KeySchema, Option<&'a Size>), Unexplained> {
    let Statement::Select(Select { index: Some(name), .. }) = statement else {
        return Ok((&definition.key, size));
    };
    let Some(index) = definition.indexes.iter().find(|index| index.name == *name) else {
        let known = definition.indexes.iter().map(|index| index.name.clone()).collect();
        return Err(Unexplained::Index { name: name.clone(), known });
    };
    let of_index = size.and_then(|size| size.indexes.iter().find(|size| size.name == name.as_str()));
    Ok((&index.key, of_index))
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
        assert_eq!(parameter(digits), Ok(AttributeValue::N(digits.parse().expect("a number"))));
    }
}
