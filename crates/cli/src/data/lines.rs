//! The lines that `larder dump` writes and `larder load` takes back.
//!
//! A line is an item as it is stored, in DynamoDB's JSON, which has all ten types and loses nothing:
//! `{"entity":"keiba.Race","item":{"PK":{"S":"RACE#1"},…}}`. An item that no entity knows says which table it is of
//! instead: `{"item":{…},"table":"keiba.keiba_data"}`. Names are sorted, so the same item is the same line.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use larder::{Schema, Stored};
use larder_model::{AttributeType, AttributeValue, Item, Number};
use larder_schema::Table;
use serde_json::{Map, Value as Json, json};

/// Of lists and maps in each other, as DynamoDB has it.
const DEPTH_MAX: usize = larder_model::limits::NESTING_DEPTH_MAX;

/// The attributes of an item that hold a secret, or something made from one, whichever entity it is of. What is split or
/// compressed holds all of a record.
pub(crate) fn secrets<'a>(table: &Table, schema: &Schema, item: &'a Item) -> Vec<&'a str> {
    let fields =
        table.entities.iter().flat_map(|entity| entity.fields.iter().map(move |field| (entity, field)));
    let secret: BTreeSet<&str> = fields
        .filter(|(entity, field)| field.is_stored() && schema.reveals_secret(entity, field))
        .map(|(_, field)| field.attribute.as_str())
        .collect();
    let is_whole = |value: &AttributeValue| matches!(value, AttributeValue::B(_));
    let hides = |(name, value): &(&'a String, &AttributeValue)| {
        secret.contains(name.as_str())
            || (!secret.is_empty() && name.starts_with("larder_") && is_whole(value))
    };
    item.iter().filter(hides).map(|(name, _)| name.as_str()).collect()
}

/// A line without its end. Of the attributes that are hidden it says that they are there.
pub(crate) fn write(schema: &Schema, stored: &Stored, hidden: &[&str]) -> String {
    let system = &schema.system;
    let members = stored.item.iter().map(|(name, value)| {
        let shown = if hidden.contains(&name.as_str()) { super::hidden() } else { value_json(value) };
        (name.clone(), shown)
    });
    let item = Json::Object(members.collect());
    match &stored.entity {
        Some(entity) => json!({ "entity": format!("{system}.{entity}"), "item": item }),
        None => json!({ "table": format!("{system}.{}", stored.table), "item": item }),
    }
    .to_string()
}

/// What a line says: whose the item is, as `system.Entity` or `system.table`, and the item.
#[derive(Debug, PartialEq)]
pub(crate) struct Line {
    pub(crate) system: String,
    pub(crate) owner: Owner,
    pub(crate) item: Item,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Entity(String),
    Table(String),
}

impl Line {
    pub(crate) fn read(json: &Json) -> Result<Self, String> {
        let wrong = || {
            "this is no line of a dump; fields of records are loaded with --entity SYSTEM.ENTITY".to_owned()
        };
        let members = json.as_object().ok_or_else(wrong)?;
        let text = |name: &str| members.get(name).and_then(Json::as_str);
        let (name, owner): (&str, fn(String) -> Owner) = match (text("entity"), text("table")) {
            (Some(entity), None) => (entity, Owner::Entity),
            (None, Some(table)) => (table, Owner::Table),
            _ => return Err(wrong()),
        };
        let item = members.get("item").filter(|_| members.len() == 2).ok_or_else(wrong)?;
        let (system, name) = name.rsplit_once('.').ok_or_else(|| format!("`{name}` names no system"))?;
        let item = read_item(item, 0)?;
        Ok(Self { system: system.to_owned(), owner: owner(name.to_owned()), item })
    }

    /// The item and its place, by the schema of its system.
    pub(crate) fn into_stored(self, schema: &Schema) -> Result<Stored, String> {
        let (table, entity) = match self.owner {
            Owner::Entity(entity) => {
                let known = schema.entity(&entity);
                let (table, _) = known.ok_or_else(|| format!("{} has no entity `{entity}`", self.system))?;
                (table.name.clone(), Some(entity))
            }
            Owner::Table(table) => (table, None),
        };
        Ok(Stored { table, entity, item: self.item })
    }
}

fn item_json(item: &Item) -> Json {
    Json::Object(item.iter().map(|(name, value)| (name.clone(), value_json(value))).collect())
}

fn value_json(value: &AttributeValue) -> Json {
    let content = match value {
        AttributeValue::S(text) => text.as_str().into(),
        AttributeValue::N(number) => number.to_string().into(),
        AttributeValue::B(bytes) => STANDARD.encode(bytes).into(),
        AttributeValue::Bool(value) => (*value).into(),
        AttributeValue::Null => true.into(),
        AttributeValue::Ss(texts) => texts.iter().map(String::as_str).collect(),
        AttributeValue::Ns(numbers) => numbers.iter().map(ToString::to_string).collect(),
        AttributeValue::Bs(all) => all.iter().map(|bytes| STANDARD.encode(bytes)).collect(),
        AttributeValue::L(values) => values.iter().map(value_json).collect(),
        AttributeValue::M(map) => item_json(map),
    };
    Json::Object(Map::from_iter([(value.kind().name().to_owned(), content)]))
}

fn read_item(json: &Json, depth: usize) -> Result<Item, String> {
    let members = json.as_object().ok_or("an item is an object of attributes")?;
    let mut item = Item::new();
    for (name, json) in members {
        let value = read_value(json, depth).map_err(|error| format!("`{name}`: {error}"))?;
        item.insert(name.clone(), value);
    }
    Ok(item)
}

fn read_value(json: &Json, depth: usize) -> Result<AttributeValue, String> {
    if depth > DEPTH_MAX {
        return Err(format!("lists and maps are nested more than {DEPTH_MAX} deep"));
    }
    if *json == super::hidden() {
        return Err("a secret that was not shown: dump it with --show-secrets or --out FILE".to_owned());
    }
    let mut members = json.as_object().into_iter().flatten();
    let (Some((kind, content)), None) = (members.next(), members.next()) else {
        return Err(r#"a value has one type, as in {"S": "text"}"#.to_owned());
    };
    let wrong = || format!("{content} is no {kind}");
    let text = |json: &Json| json.as_str().map(str::to_owned).ok_or_else(wrong);
    let number = |json: &Json| json.as_str().and_then(|text| text.parse::<Number>().ok()).ok_or_else(wrong);
    let bytes = |json: &Json| json.as_str().and_then(|text| STANDARD.decode(text).ok()).ok_or_else(wrong);
    let known = AttributeType::from_name(kind).ok_or_else(|| format!("there is no type `{kind}`"))?;
    Ok(match known {
        AttributeType::S => AttributeValue::S(text(content)?),
        AttributeType::N => AttributeValue::N(number(content)?),
        AttributeType::B => AttributeValue::B(bytes(content)?),
        AttributeType::Bool => AttributeValue::Bool(content.as_bool().ok_or_else(wrong)?),
        AttributeType::Null => {
            content.as_bool().filter(|is| *is).map(|_| AttributeValue::Null).ok_or_else(wrong)?
        }
        AttributeType::Ss => AttributeValue::Ss(set(content, text, wrong)?),
        AttributeType::Ns => AttributeValue::Ns(set(content, number, wrong)?),
        AttributeType::Bs => AttributeValue::Bs(set(content, bytes, wrong)?),
        AttributeType::L => {
            let values = content.as_array().ok_or_else(wrong)?.iter();
            AttributeValue::L(values.map(|json| read_value(json, depth + 1)).collect::<Result<_, String>>()?)
        }
        AttributeType::M => AttributeValue::M(read_item(content, depth + 1)?),
    })
}

/// A set has members, each once.
fn set<T: Ord>(
    json: &Json,
    member: impl Fn(&Json) -> Result<T, String>,
    wrong: impl Fn() -> String,
) -> Result<BTreeSet<T>, String> {
    let members = json.as_array().ok_or_else(&wrong)?;
    let set = members.iter().map(member).collect::<Result<BTreeSet<T>, String>>()?;
    if set.is_empty() || set.len() < members.len() { Err(wrong()) } else { Ok(set) }
}

#[cfg(test)]
mod tests {
    use larder_schema::{Environment, NoFiles};

    use super::*;

    fn schema() -> Schema {
        let text = "system test\ntable things {\n  key  id\n  entity E {\n    id: string nonempty\n  }\n}\n";
        Schema::load("test.larder", text, &mut NoFiles, &Environment::new()).schema.expect("it is right")
    }

    #[test]
    fn an_item_of_all_types_is_the_same_after_its_line() {
        let nested: Item = [("n".to_owned(), AttributeValue::Null)].into_iter().collect();
        let item: Item = [
            ("id", AttributeValue::S("RACE#\u{1}\"\n東京".to_owned())),
            ("n", AttributeValue::N("1.0000000000000000000000000000000000001".parse().unwrap())),
            ("tiny", AttributeValue::N("-1e-130".parse().unwrap())),
            ("b", AttributeValue::B(vec![0, 255, 1])),
            ("bool", AttributeValue::Bool(false)),
            ("ss", AttributeValue::Ss(["a".to_owned(), String::new()].into())),
            ("ns", AttributeValue::Ns([1.into(), 2.into()].into())),
            ("bs", AttributeValue::Bs([vec![], vec![1]].into())),
            ("l", AttributeValue::L(vec![AttributeValue::M(nested), AttributeValue::L(vec![])])),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
        for entity in [Some("E".to_owned()), None] {
            let stored = Stored { table: "things".to_owned(), entity, item: item.clone() };
            let line = write(&schema(), &stored, &[]);
            assert!(!line.contains('\n'));
            let read = Line::read(&serde_json::from_str(&line).unwrap()).unwrap();
            assert_eq!(read.system, "test");
            assert_eq!(read.into_stored(&schema()), Ok(stored));
        }
    }

    #[test]
    fn what_is_no_line_is_told() {
        for (line, message) in [
            (json!([]), "this is no line of a dump"),
            (json!({"race_id": "1"}), "this is no line of a dump"),
            (json!({"entity": "E", "item": {}}), "`E` names no system"),
            (json!({"entity": "test.E", "item": []}), "an item is an object"),
            (json!({"entity": "test.E", "item": {"id": "x"}}), "`id`: a value has one type"),
            (json!({"entity": "test.E", "item": {"id": {"S": 1}}}), "`id`: 1 is no S"),
            (json!({"entity": "test.E", "item": {"id": {"X": 1}}}), "`id`: there is no type `X`"),
            (json!({"entity": "test.E", "item": {"a": {"M": {"b": {"SS": []}}}}}), "`a`: `b`: [] is no SS"),
            (json!({"entity": "test.E", "item": {"a": {"NULL": false}}}), "`a`: false is no NULL"),
        ] {
            let error = Line::read(&line).unwrap_err();
            assert!(error.starts_with(message), "{error}");
        }
        let mut deep = json!({"NULL": true});
        for _ in 0..40 {
            deep = json!({ "L": [deep] });
        }
        let error = Line::read(&json!({"entity": "test.E", "item": {"a": deep}})).unwrap_err();
        assert!(error.contains("32 deep"), "{error}");
    }
}
