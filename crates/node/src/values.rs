//! Values as they cross to JavaScript and back: JSON by the types of the schema.
//!
//! A whole number beyond 2⁵³ and a decimal that no double holds are texts. A moment is text in UTC, with all its
//! digits; a duration is milliseconds; bytes are base64. What is not of its type is `{ODD: what it is}`, in both directions.
//! In a document, where a text would be one, a number that no double holds is `{EXACT: its digits}`; an object that has
//! a member of that name is `{EXACT: the object}`.

use std::collections::{BTreeMap, BTreeSet};

use larder::text::Reader;
use larder::{FieldType as _, Number, Schema, Value};
use larder_model::AttributeValue;
use larder_schema::schema::{Field, Precision};
use larder_schema::{Entity, Fields, Type, instant_exact};
use serde_json::{Map, Value as Json, json};

/// The only member of what stands for something that is not of its type.
pub(crate) const ODD: &str = "\u{0}odd";

/// The only member of what stands for something in a document that JSON cannot say to JavaScript.
const EXACT: &str = "\u{0}exact";

/// The largest whole number that JavaScript counts to without a gap.
const SAFE_MAX: u64 = (1 << 53) - 1;

/// The fields of a record, with the defaults of those that another program left out. Of a part of one, as an index shows it,
/// those that it does not show have none.
pub(crate) fn record(
    schema: &Schema,
    entity: &Entity,
    fields: &Fields,
    shown: Option<&BTreeSet<String>>,
) -> Json {
    let table = schema.entity(&entity.name).map(|(table, _)| table);
    let member = |field: &Field| {
        let is_shown = shown.is_none_or(|shown| shown.contains(&field.name));
        let default = || field.checks.default.as_ref().filter(|_| is_shown);
        let value = fields.get(&field.name).or_else(default)?;
        let json = match table.is_some_and(|table| schema.keeps_faults(table, entity, field)) {
            true => loose(schema, &field.kind, value),
            false => to_json(schema, &field.kind, value),
        };
        Some((field.name.clone(), json))
    };
    Json::Object(entity.fields.iter().filter_map(member).collect())
}

/// A value of a record that is kept with its faults: it, or each member of it, is whole or odd.
fn loose(schema: &Schema, kind: &Type, value: &Value) -> Json {
    let one = |kind: &Type, value: &Value| match fits(schema, kind, value) {
        true => to_json(schema, kind, value),
        false => json!({ ODD: document(schema, value) }),
    };
    match (kind, value) {
        (Type::List(of), Value::List(values)) => values.iter().map(|value| one(&of.kind, value)).collect(),
        (Type::Map(of), Value::Map(map)) => {
            Json::Object(map.iter().map(|(name, value)| (name.clone(), one(&of.kind, value))).collect())
        }
        _ => one(kind, value),
    }
}

/// Whether all of a value is of its type.
fn fits(schema: &Schema, kind: &Type, value: &Value) -> bool {
    match (kind, value) {
        (Type::Json, _) => true,
        (_, Value::Raw(_)) => false,
        (Type::List(_) | Type::Set(_), Value::List(values)) => {
            let of = kind.member().unwrap_or(kind);
            values.iter().all(|value| fits(schema, of, value))
        }
        (Type::Map(of), Value::Map(map)) => map.values().all(|value| fits(schema, &of.kind, value)),
        (Type::Named(name), Value::Map(map)) => {
            let known = schema.type_definition(name).map_or(&[][..], |definition| &definition.fields);
            known.iter().all(|field| match map.get(&field.attribute) {
                Some(value) => fits(schema, &field.kind, value),
                None => field.optional || field.checks.default.is_some(),
            })
        }
        (Type::List(_) | Type::Set(_) | Type::Map(_) | Type::Named(_), _) => false,
        _ => true,
    }
}

/// The fields that there are, and no others.
pub(crate) fn some(schema: &Schema, entity: &Entity, fields: &Fields) -> Json {
    record(schema, entity, fields, Some(&BTreeSet::new()))
}

/// The fields that were given, each by its type. What the entity does not have is taken as it is, and told when it is
/// checked.
pub(crate) fn fields(schema: &Schema, entity: &Entity, given: &Map<String, Json>) -> Fields {
    let field = |(name, json): (&String, &Json)| {
        let kind = entity.field(name).map_or(&Type::Json, |field| &field.kind);
        (name.clone(), from_json(schema, kind, json))
    };
    given.iter().map(field).collect()
}

pub(crate) fn to_json(schema: &Schema, kind: &Type, value: &Value) -> Json {
    match (kind, value) {
        (Type::Json, value) => document(schema, value),
        (Type::List(_) | Type::Set(_), Value::List(values)) => {
            let of = kind.member().unwrap_or(kind);
            values.iter().map(|value| to_json(schema, of, value)).collect()
        }
        (Type::Map(of), Value::Map(map)) => Json::Object(
            map.iter().map(|(name, value)| (name.clone(), to_json(schema, &of.kind, value))).collect(),
        ),
        (Type::Named(name), Value::Map(map)) => {
            let known = schema.type_definition(name).map_or(&[][..], |definition| &definition.fields);
            let member = |(name, value): (&String, &Value)| match known
                .iter()
                .find(|field| field.attribute == *name)
            {
                Some(field) => (field.name.clone(), to_json(schema, &field.kind, value)),
                None => (name.clone(), to_json(schema, &Type::Json, value)),
            };
            let mut members: Map<String, Json> = map.iter().map(member).collect();
            for field in known.iter().filter(|field| !map.contains_key(&field.attribute)) {
                if let Some(default) = &field.checks.default {
                    members.insert(field.name.clone(), to_json(schema, &field.kind, default));
                }
            }
            Json::Object(members)
        }
        (Type::Int | Type::Sequence, Value::Number(number)) => match number.to_i64() {
            Some(whole) if whole.unsigned_abs() <= SAFE_MAX => whole.into(),
            _ => number.to_string().into(),
        },
        (_, Value::Number(number)) => decimal(number),
        (_, Value::Instant(moment)) => instant_exact(*moment, Precision::Millis).into(),
        (_, Value::Duration(duration)) => json!(duration.as_nanos() as f64 / 1e6),
        (_, Value::Raw(_)) => json!({ ODD: document(schema, value) }),
        (_, value) => text(schema, kind, value),
    }
}

/// As the command line writes it.
fn text(schema: &Schema, kind: &Type, value: &Value) -> Json {
    larder::text::to_json(schema, kind, value)
}

/// A document, or what is shown as one because it is not of its type.
fn document(schema: &Schema, value: &Value) -> Json {
    match value {
        Value::Raw(stored) => stored_document(stored),
        Value::Number(number) => exact(number),
        Value::List(values) => values.iter().map(|value| document(schema, value)).collect(),
        Value::Map(map) => {
            object(map.iter().map(|(name, value)| (name.clone(), document(schema, value))).collect())
        }
        value => text(schema, &Type::Json, value),
    }
}

fn stored_document(stored: &AttributeValue) -> Json {
    match stored {
        AttributeValue::N(number) => exact(number),
        AttributeValue::Ns(numbers) => numbers.iter().map(exact).collect(),
        AttributeValue::L(values) => values.iter().map(stored_document).collect(),
        AttributeValue::M(members) => {
            object(members.iter().map(|(name, value)| (name.clone(), stored_document(value))).collect())
        }
        other => Json::from_value(Value::Raw(other.clone())).unwrap_or_default(),
    }
}

fn exact(number: &Number) -> Json {
    match decimal(number) {
        Json::String(digits) => json!({ EXACT: digits }),
        held => held,
    }
}

fn object(members: Map<String, Json>) -> Json {
    match members.contains_key(EXACT) {
        true => json!({ EXACT: members }),
        false => Json::Object(members),
    }
}

/// What [`document`] gave, as it is stored.
fn stored(json: &Json) -> AttributeValue {
    match json {
        Json::Array(values) => AttributeValue::L(values.iter().map(stored).collect()),
        Json::Object(members) => {
            let members = match members.get(EXACT) {
                Some(Json::String(digits)) => match digits.parse() {
                    Ok(number) => return AttributeValue::N(number),
                    Err(_) => members,
                },
                Some(Json::Object(members)) => members,
                _ => members,
            };
            AttributeValue::M(members.iter().map(|(name, json)| (name.clone(), stored(json))).collect())
        }
        leaf => match leaf.clone().to_value() {
            Value::Raw(stored) => stored,
            _ => AttributeValue::Null,
        },
    }
}

/// A number where a double holds it, otherwise its digits. Where two shortest texts are as near, JSON's writer takes the even one, as
/// JavaScript does.
fn decimal(number: &Number) -> Json {
    let text = number.to_string();
    match text.parse::<f64>() {
        Ok(float) if json!(float).to_string().parse::<Number>().is_ok_and(|read| read == *number) => {
            match number.to_i64() {
                Some(whole) => whole.into(),
                None => json!(float),
            }
        }
        _ => text.into(),
    }
}

pub(crate) fn from_json(schema: &Schema, kind: &Type, json: &Json) -> Value {
    match (kind, json) {
        (Type::Json, json) => Value::Raw(stored(json)),
        (_, Json::Object(members)) if members.len() == 1 && members.contains_key(ODD) => {
            Value::Raw(stored(&members[ODD]))
        }
        (Type::List(_) | Type::Set(_), Json::Array(values)) => {
            let of = kind.member().unwrap_or(kind);
            Value::List(values.iter().map(|json| from_json(schema, of, json)).collect())
        }
        (Type::Map(of), Json::Object(members)) => Value::Map(
            members.iter().map(|(name, json)| (name.clone(), from_json(schema, &of.kind, json))).collect(),
        ),
        (Type::Named(name), Json::Object(members)) => {
            let known = schema.type_definition(name).map_or(&[][..], |definition| &definition.fields);
            let mut map = BTreeMap::new();
            for (name, json) in members {
                match known.iter().find(|field| field.name == *name || field.attribute == *name) {
                    Some(_) if json.is_null() => {}
                    Some(field) => {
                        map.insert(field.attribute.clone(), from_json(schema, &field.kind, json));
                    }
                    None => drop(map.insert(name.clone(), Value::Raw(stored(json)))),
                }
            }
            Value::Map(map)
        }
        (Type::Duration, Json::Number(millis)) => {
            let seconds = millis.as_f64().map_or(Json::Null, |millis| json!(millis / 1000.0));
            leaf(schema, kind, &seconds)
        }
        (kind, json) => leaf(schema, kind, json),
    }
}

/// As the command line reads it; what is not of its type stays what it is.
fn leaf(schema: &Schema, kind: &Type, json: &Json) -> Value {
    let read = Reader::open(schema).as_it_came().json(kind, "", json);
    read.unwrap_or_else(|_| json.clone().to_value())
}
