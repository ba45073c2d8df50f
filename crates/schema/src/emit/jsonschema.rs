//! JSON Schema of a system's entities, for programs that use no layer: a record as it is read, under the entity's name, and its item as
//! it is stored, under that name and `Item`.
//!
//! A record is JSON as `larder get --json` prints it, by the schema's names. An item is what DynamoDB's document clients make of it, by stored
//! names: numbers are numbers, bytes base64. Where a value may be packed or split (`compress`, `oversize`), only the keys of an item are required:
//! the rest may be elsewhere.

use serde_json::{Map, Value as Json, json};

use crate::marks::MARK;
use crate::schema::{Checks, Entity, Field, KeyAttribute, KeySource, Schema, Table, Type};

/// One document with a definition for each of a system's types, records and items.
pub fn jsonschema(schema: &Schema) -> Json {
    let mut definitions = Map::new();
    for definition in &schema.types {
        for form in [Form::Read, Form::Stored] {
            let object = object(&definition.docs, definition.fields.iter(), form, definition.open, |field| {
                !field.optional && field.checks.default.is_none()
            });
            definitions.insert(form.name(&definition.name), object);
        }
    }
    let mut items = Vec::new();
    for table in &schema.tables {
        for entity in &table.entities {
            definitions.insert(entity.name.clone(), record(entity));
            let name = format!("{}Item", entity.name);
            items.push(json!({"$ref": format!("#/$defs/{name}")}));
            definitions.insert(name, item(table, entity));
        }
    }
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": format!("urn:larder:{}", schema.system),
        "title": schema.system,
        "description": schema.docs.join("\n"),
        "anyOf": items,
        "$defs": definitions,
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Read,
    Stored,
}

impl Form {
    /// The name of a type's definition.
    fn name(self, name: &str) -> String {
        match self {
            Self::Read => name.to_owned(),
            Self::Stored => format!("{name}Stored"),
        }
    }

    fn member(self, field: &Field) -> &str {
        match self {
            Self::Read => &field.name,
            Self::Stored => &field.attribute,
        }
    }
}

/// A record as it is read: what is given and what is worked out.
fn record(entity: &Entity) -> Json {
    let fields = entity.fields.iter().filter(|field| field.kind != Type::Zoned);
    let always = |field: &Field| {
        let empty = matches!(field.kind, Type::Set(_));
        !entity.may_be_missing(field) && !empty && (field.is_stored() || entity.is_recoverable(&field.name))
    };
    object(&entity.docs, fields, Form::Read, false, always)
}

/// Its item as it is stored.
fn item(table: &Table, entity: &Entity) -> Json {
    let stored = entity.fields.iter().filter(|field| field.is_stored());
    let elsewhere = entity.policy.may_pack();
    let always = |field: &Field| {
        !elsewhere
            && !entity.may_be_missing(field)
            && !matches!(field.kind, Type::Set(_))
            && field.checks.default.is_none()
    };
    let mut made = object(&entity.docs, stored, Form::Stored, true, always);
    let Json::Object(members) = &mut made else { return made };
    let mut required: Vec<Json> =
        members.remove("required").and_then(|names| names.as_array().cloned()).unwrap_or_default();
    if let Some(Json::Object(properties)) = members.get_mut("properties") {
        let keys = std::iter::once((&table.partition, Some(&entity.partition)))
            .chain(table.sort.as_ref().map(|key| (key, entity.sort.as_ref())));
        for (key, source) in keys {
            properties.entry(key.attribute.clone()).or_insert_with(|| key_attribute(key, source));
            if !required.contains(&json!(key.attribute)) {
                required.push(json!(key.attribute));
            }
        }
        if let Some(ttl) = &table.ttl {
            let about = "When the store removes it, in Unix seconds.";
            properties.insert(ttl.attribute.clone(), json!({"type": "integer", "description": about}));
        }
        for lifecycle in &entity.lifecycles {
            let states: Vec<&str> = lifecycle.states.iter().map(|state| state.name.as_str()).collect();
            let about = format!("The state of `{}`: {}.", lifecycle.name, states.join(", "));
            properties.insert(lifecycle.attribute.clone(), json!({"type": "string", "description": about}));
            if let Some(lease) = &lifecycle.lease {
                properties.insert(lease.owner.clone(), json!({"type": "string"}));
                for name in [&lease.until, &lease.fence, &lease.attempts] {
                    properties.insert(name.clone(), json!({"type": "integer"}));
                }
            }
        }
    }
    members.insert("required".to_owned(), Json::Array(required));
    members.insert("patternProperties".to_owned(), json!({format!("^{MARK}"): true}));
    members.insert("additionalProperties".to_owned(), Json::Bool(!table.strict));
    made
}

fn key_attribute(key: &KeyAttribute, source: Option<&KeySource>) -> Json {
    let kind = match key.kind {
        larder_model::KeyType::N => "number",
        larder_model::KeyType::S | larder_model::KeyType::B => "string",
    };
    match source {
        Some(KeySource::Template(template)) => json!({"type": kind, "description": template.source()}),
        _ => json!({"type": kind}),
    }
}

fn object<'a>(
    docs: &[String],
    fields: impl Iterator<Item = &'a Field>,
    form: Form,
    open: bool,
    always: impl Fn(&Field) -> bool,
) -> Json {
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for field in fields {
        let mut property = kind(&field.kind, form);
        if let Json::Object(members) = &mut property {
            checks(members, &field.checks, &field.kind);
            if !field.docs.is_empty() {
                members.insert("description".to_owned(), json!(field.docs.join("\n")));
            }
        }
        properties.insert(form.member(field).to_owned(), property);
        if always(field) {
            required.push(json!(form.member(field)));
        }
    }
    let mut made = Map::new();
    made.insert("type".to_owned(), json!("object"));
    if !docs.is_empty() {
        made.insert("description".to_owned(), json!(docs.join("\n")));
    }
    made.insert("properties".to_owned(), Json::Object(properties));
    made.insert("required".to_owned(), Json::Array(required));
    made.insert("additionalProperties".to_owned(), Json::Bool(open));
    Json::Object(made)
}

fn kind(kind_of: &Type, form: Form) -> Json {
    let member = |of: &crate::schema::Of| match of.optional {
        true => json!({"anyOf": [kind(&of.kind, form), {"type": "null"}]}),
        false => kind(&of.kind, form),
    };
    match kind_of {
        Type::String => json!({"type": "string"}),
        Type::Uuid { .. } => json!({"type": "string", "format": "uuid"}),
        Type::Url => json!({"type": "string", "format": "uri"}),
        Type::Choice(choices) => json!({"type": "string", "enum": choices}),
        Type::Int | Type::Sequence => json!({"type": "integer"}),
        // With more digits than a double has, a record has it as text.
        Type::Decimal if form == Form::Read => json!({"type": ["number", "string"]}),
        Type::Float | Type::Decimal => json!({"type": "number"}),
        Type::Bool => json!({"type": "boolean"}),
        Type::Bytes => json!({"type": "string", "contentEncoding": "base64"}),
        Type::Json | Type::Zoned => json!({}),
        Type::Date => json!({"type": "string", "format": "date"}),
        // A date and time without a zone is no `date-time`.
        Type::Datetime => {
            json!({"type": "string", "pattern": r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?$"})
        }
        Type::Instant(_) => json!({"type": "string", "format": "date-time"}),
        Type::Epoch if form == Form::Read => json!({"type": "string", "format": "date-time"}),
        Type::Epoch => json!({"type": "integer", "description": "Unix seconds"}),
        Type::Duration => json!({"type": "number", "description": "seconds"}),
        Type::List(of) => json!({"type": "array", "items": member(of)}),
        Type::Set(of) => json!({"type": "array", "items": kind(of, form), "uniqueItems": true}),
        Type::Map(of) => json!({"type": "object", "additionalProperties": member(of)}),
        Type::Named(name) => json!({"$ref": format!("#/$defs/{}", form.name(name))}),
    }
}

fn checks(members: &mut Map<String, Json>, checks: &Checks, kind: &Type) {
    let number = |number: &larder_model::Number| match number.to_i64() {
        Some(whole) => json!(whole),
        None => number.to_string().parse::<f64>().map_or(Json::Null, |float| json!(float)),
    };
    let is_number =
        kind.is_number() && !(*kind == Type::Decimal && members.get("type") != Some(&json!("number")));
    if let (Some(range), true) = (&checks.range, is_number) {
        if let Some(min) = &range.min {
            members.insert("minimum".to_owned(), number(min));
        }
        if let Some(max) = &range.max {
            let name = if range.max_included { "maximum" } else { "exclusiveMaximum" };
            members.insert(name.to_owned(), number(max));
        }
    }
    if checks.positive && is_number {
        members.insert("exclusiveMinimum".to_owned(), json!(0));
    }
    let least =
        checks.len.map(|(least, _)| least).filter(|least| *least > 0).or(checks.nonempty.then_some(1));
    let most = checks.len.and_then(|(_, most)| most);
    let (min, max) = match kind {
        Type::String | Type::Url => ("minLength", "maxLength"),
        Type::List(_) | Type::Set(_) => ("minItems", "maxItems"),
        Type::Map(_) => ("minProperties", "maxProperties"),
        _ => return,
    };
    for (name, bound) in [(min, least), (max, most)] {
        if let Some(bound) = bound {
            members.insert(name.to_owned(), json!(bound));
        }
    }
    if let Some(pattern) = &checks.pattern {
        members.insert("pattern".to_owned(), json!(format!("^(?:{pattern})$")));
    }
}
