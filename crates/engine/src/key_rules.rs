//! What a table demands of the keys in a request.
//!
//! An item that is put must have its table's key, of the right types and sizes, and whatever index keys it
//! has must be good ones too: an index may lack an item, but it may not refuse one silently. A key that is
//! only looked up answers every mismatch alike.

use larder_expr::Condition;
use larder_model::limits::{PARTITION_KEY_BYTES_MAX, SORT_KEY_BYTES_MAX};
use larder_model::{AttributeValue, IndexKind, Item, KeyAttribute, KeySchema, KeyType};

use crate::catalog::Table;

/// Why a key is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyFault {
    pub message: String,
    /// An empty key value fails a whole transaction; other faults are told item by item.
    pub empty: bool,
}

type Result<T> = std::result::Result<T, KeyFault>;

fn fault(message: impl Into<String>) -> KeyFault {
    KeyFault { message: message.into(), empty: false }
}

pub(crate) fn schema_mismatch() -> KeyFault {
    fault("The provided key element does not match the schema")
}

/// How a put is made, which decides how a missing key, or one of the wrong type, is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PutKind {
    Single,
    Batch,
}

/// The keys of an item that is put.
pub(crate) fn check_put(table: &Table, item: &Item, kind: PutKind) -> Result<()> {
    let schema = &table.definition.key;
    for attribute in schema.attributes() {
        let Some(value) = item.get(&attribute.name) else {
            return Err(match kind {
                PutKind::Batch => schema_mismatch(),
                PutKind::Single => fault(format!(
                    "One or more parameter values were invalid: Missing the key {} in the item",
                    attribute.name
                )),
            });
        };
        check_value(attribute, value).map_err(|violation| match violation {
            Violation::Empty(kind) => empty_key(kind, &attribute.name),
            Violation::Type if kind == PutKind::Batch => schema_mismatch(),
            Violation::Type => fault(format!(
                "One or more parameter values were invalid: Type mismatch for key {} expected: {} actual: {}",
                attribute.name,
                attribute.kind,
                value.kind()
            )),
        })?;
        check_sizes(schema, item)?;
    }
    check_index_keys(table, item, None)
}

/// A key given to find an item: exactly the key attributes, of their types.
pub(crate) fn check_key(table: &Table, key: &Item) -> Result<()> {
    let schema = &table.definition.key;
    if key.len() != schema.attributes().count() {
        return Err(schema_mismatch());
    }
    for attribute in schema.attributes() {
        let value = key.get(&attribute.name).ok_or_else(schema_mismatch)?;
        check_value(attribute, value).map_err(|violation| match violation {
            Violation::Empty(kind) => empty_key(kind, &attribute.name),
            Violation::Type => schema_mismatch(),
        })?;
    }
    check_sizes(schema, key)
}

/// The index keys in an item. After an update only those that it changed are looked at.
pub(crate) fn check_index_keys(table: &Table, item: &Item, before: Option<&Item>) -> Result<()> {
    let mut faults = Vec::new();
    for index in &table.definition.indexes {
        // A local index shares the table's partition key, which has been checked.
        let partition = if index.kind == IndexKind::Local { &[] } else { index.key.partition.as_slice() };
        for attribute in partition.iter().chain(&index.key.sort) {
            let Some(value) = item.get(&attribute.name) else { continue };
            if before.is_some_and(|before| before.get(&attribute.name) == Some(value)) {
                continue;
            }
            let found = match check_value(attribute, value) {
                Ok(()) => continue,
                Err(Violation::Type) => fault(format!(
                    "One or more parameter values were invalid: Type mismatch for Index Key {} Expected: {} \
                     Actual: {} IndexName: {}",
                    attribute.name,
                    attribute.kind,
                    value.kind(),
                    index.name
                )),
                Err(Violation::Empty(kind)) => {
                    let message = if before.is_some() {
                        format!(
                            "One or more parameter values are not valid. The update expression attempted to \
                             update a secondary index key to a value that is not supported. The \
                             AttributeValue for a key attribute cannot contain an empty {kind} value."
                        )
                    } else {
                        format!(
                            "One or more parameter values are not valid. A value specified for a secondary \
                             index key is not supported. The AttributeValue for a key attribute cannot \
                             contain an empty {kind} value. IndexName: {}, IndexKey: {}",
                            index.name, attribute.name
                        )
                    };
                    KeyFault { message, empty: true }
                }
            };
            faults.push((&index.name, found));
        }
        let changed = |attribute: &KeyAttribute| {
            before.is_none_or(|before| before.get(&attribute.name) != item.get(&attribute.name))
        };
        if index.key.attributes().any(changed)
            && let Err(found) = check_sizes(&index.key, item)
        {
            faults.push((&index.name, found));
        }
    }
    // DynamoDB names the first index by name, not the first declared.
    match faults.into_iter().min_by(|(a, _), (b, _)| a.cmp(b)) {
        Some((_, fault)) => Err(fault),
        None => Ok(()),
    }
}

/// A condition may not look inside a key attribute: there is nothing in it.
pub(crate) fn check_condition(table: &Table, index: Option<&KeySchema>, condition: &Condition) -> Result<()> {
    let own = &table.definition.key;
    for path in condition.paths().filter(|path| !path.steps.is_empty()) {
        let kind = match index {
            _ if own.contains(&path.root) => "Key",
            Some(index) if index.contains(&path.root) => "IndexKey",
            _ => continue,
        };
        return Err(fault(format!(
            "Key attributes must be scalars; list random access '[]' and map lookup '.' are not allowed: {kind}: {}",
            path.root
        )));
    }
    Ok(())
}

/// Whether an item has a good value for every attribute of an index's key, and so belongs in the index.
pub(crate) fn belongs(schema: &KeySchema, item: &Item) -> bool {
    schema
        .attributes()
        .all(|attribute| item.get(&attribute.name).is_some_and(|value| check_value(attribute, value).is_ok()))
        && check_sizes(schema, item).is_ok()
}

/// Empty values in the key of a lookup by condition.
pub(crate) fn check_not_empty(attribute: &str, value: &AttributeValue) -> Result<()> {
    match emptiness(value) {
        Some(kind) => Err(empty_key(kind, attribute)),
        None => Ok(()),
    }
}

pub(crate) fn has_type(value: &AttributeValue, kind: KeyType) -> bool {
    matches!(
        (value, kind),
        (AttributeValue::S(_), KeyType::S)
            | (AttributeValue::N(_), KeyType::N)
            | (AttributeValue::B(_), KeyType::B)
    )
}

enum Violation {
    Type,
    Empty(&'static str),
}

fn check_value(attribute: &KeyAttribute, value: &AttributeValue) -> std::result::Result<(), Violation> {
    if !has_type(value, attribute.kind) {
        return Err(Violation::Type);
    }
    emptiness(value).map_or(Ok(()), |kind| Err(Violation::Empty(kind)))
}

fn emptiness(value: &AttributeValue) -> Option<&'static str> {
    match value {
        AttributeValue::S(text) if text.is_empty() => Some("string"),
        AttributeValue::B(bytes) if bytes.is_empty() => Some("binary"),
        _ => None,
    }
}

fn empty_key(kind: &str, attribute: &str) -> KeyFault {
    let message = format!(
        "One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an \
         empty {kind} value. Key: {attribute}"
    );
    KeyFault { message, empty: true }
}

fn check_sizes(schema: &KeySchema, item: &Item) -> Result<()> {
    let size = |attributes: &[KeyAttribute]| -> usize {
        attributes.iter().filter_map(|attribute| item.get(&attribute.name)).map(AttributeValue::size).sum()
    };
    if size(&schema.partition) > PARTITION_KEY_BYTES_MAX {
        return Err(fault(format!(
            "One or more parameter values were invalid: Size of hashkey has exceeded the maximum size limit \
             of{PARTITION_KEY_BYTES_MAX} bytes"
        )));
    }
    if size(&schema.sort) > SORT_KEY_BYTES_MAX {
        return Err(fault(format!(
            "One or more parameter values were invalid: Aggregated size of all range keys has exceeded the \
             size limit of {SORT_KEY_BYTES_MAX} bytes"
        )));
    }
    Ok(())
}
