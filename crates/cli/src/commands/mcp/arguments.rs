//! The arguments of a tool are those of its command: clap says how they are called, what they mean, which go together,
//! and words what is wrong with them.
//!
//! A field that the command line takes as `NAME=VALUE` is a member of an object here; all else has the name that it
//! has there.

use clap::{Arg, ArgAction, Command};
use serde_json::{Map, Value as Json, json};

use crate::data::unknown;

/// What stands for fields on the command line.
const FIELDS: &str = "NAME=VALUE";
/// Of `query`: an index, then fields.
const INDEX_AND_FIELDS: &str = "INDEX|NAME=VALUE";
/// What a command line has and a tool has not: where and how are not for the client to say.
const NEVER: [&str; 5] = ["help", "version", "store", "json", "show_secrets"];

/// What is taken, as JSON Schema; `left_out` are arguments of the command that the tool does without.
pub(super) fn schema(command: &Command, left_out: &[&str], own: &[(&str, Json)]) -> Map<String, Json> {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for arg in taken(command, left_out) {
        let about = |text: &str| arg.get_help().map_or_else(|| text.to_owned(), ToString::to_string);
        if value_name(arg) == INDEX_AND_FIELDS {
            // What is said after it is of the fields, which are apart here.
            let index = about("");
            let index = index.split(';').next().unwrap_or_default();
            properties.insert("index".into(), json!({"type": "string", "description": index}));
            let fields = "The fields that name a partition of the index, or of the table";
            properties.insert("partition".into(), object(fields));
            required.push("partition");
            continue;
        }
        let name = arg.get_id().as_str();
        let property = match () {
            () if is_fields(arg) => object(&about("")),
            () if is_flag(arg) => json!({"type": "boolean", "description": about("")}),
            () if value_name(arg) == "N" => {
                json!({"type": "integer", "minimum": 1, "description": about("")})
            }
            () => json!({"type": "string", "description": about("")}),
        };
        properties.insert(name.into(), property);
        if arg.is_required_set() {
            required.push(name);
        }
    }
    for (name, property) in own {
        properties.insert((*name).into(), property.clone());
    }
    let schema = json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    });
    match schema {
        Json::Object(schema) => schema,
        _ => Map::new(),
    }
}

fn object(about: &str) -> Json {
    json!({
        "type": "object",
        "additionalProperties": {"type": ["string", "number", "boolean"]},
        "description": format!("{about}, each by its name: {{\"NAME\": \"VALUE\"}}"),
    })
}

/// The command line that says the same.
pub(super) fn line(
    command: &Command,
    left_out: &[&str],
    given: Map<String, Json>,
    store: &str,
) -> Result<Vec<String>, String> {
    let mut line = vec![command.get_name().to_owned()];
    if command.get_arguments().any(|arg| arg.get_id() == "store") {
        line.push(format!("--store={store}"));
    }
    let mut given = given;
    given.retain(|_, value| !value.is_null());
    let mut places = Vec::new();
    for arg in taken(command, left_out) {
        let name = arg.get_id().as_str();
        if value_name(arg) == INDEX_AND_FIELDS {
            places.extend(given.remove("index").map(|index| text("index", &index)).transpose()?);
            let partition = given.remove("partition").map(|given| fields("partition", &given)).transpose()?;
            let partition = partition.filter(|fields| !fields.is_empty());
            places
                .extend(partition.ok_or("`partition` is missing: the fields that name one, by their names")?);
            continue;
        }
        let Some(value) = given.remove(name) else {
            // What stands at a place of its own would be taken for what is missing before it.
            match arg.is_positional() && arg.is_required_set() {
                true => return Err(format!("`{name}` is missing")),
                false => continue,
            }
        };
        let texts = match is_fields(arg) {
            true => fields(name, &value)?,
            false => vec![text(name, &value)?],
        };
        match arg.get_long() {
            None => places.extend(texts),
            Some(long) if is_flag(arg) => match value {
                Json::Bool(true) => line.push(format!("--{long}")),
                Json::Bool(false) => {}
                _ => return Err(format!("`{name}` is true or false")),
            },
            Some(long) => line.extend(texts.into_iter().map(|text| format!("--{long}={text}"))),
        }
    }
    if let Some(other) = given.keys().next() {
        let mut known: Vec<&str> = taken(command, left_out).map(|arg| arg.get_id().as_str()).collect();
        if let Some(at) = known.iter().position(|name| *name == "asked") {
            known.splice(at..=at, ["index", "partition"]);
        }
        return Err(unknown(command.get_name(), "argument", other, &known));
    }
    line.push("--".to_owned());
    line.extend(places);
    Ok(line)
}

fn taken<'a>(command: &'a Command, left_out: &'a [&str]) -> impl Iterator<Item = &'a Arg> {
    let is_taken = |name: &str| !NEVER.contains(&name) && !left_out.contains(&name);
    command.get_arguments().filter(move |arg| is_taken(arg.get_id().as_str()))
}

fn value_name(arg: &Arg) -> &str {
    arg.get_value_names().and_then(|names| names.first()).map_or("", |name| name.as_str())
}

fn is_fields(arg: &Arg) -> bool {
    value_name(arg) == FIELDS
}

fn is_flag(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::SetTrue)
}

/// A value as the command line has it.
fn text(name: &str, value: &Json) -> Result<String, String> {
    match value {
        Json::String(text) => Ok(text.clone()),
        Json::Number(_) | Json::Bool(_) => Ok(value.to_string()),
        Json::Null | Json::Array(_) | Json::Object(_) => Err(format!("`{name}` is a text or a number")),
    }
}

fn fields(name: &str, value: &Json) -> Result<Vec<String>, String> {
    let Json::Object(members) = value else {
        return Err(format!("`{name}` is an object: fields by their names"));
    };
    members.iter().map(|(name, value)| Ok(format!("{name}={}", text(name, value)?))).collect()
}

#[cfg(test)]
mod tests {
    use clap::Args as _;

    use super::super::super::{due::Due, query::Query};
    use super::*;

    fn line_of(command: fn(Command) -> Command, given: Json) -> String {
        let Json::Object(given) = given else { panic!("the test gives an object") };
        match line(&command(Command::new("it")), &[], given, "./data") {
            Ok(line) => line.join(" "),
            Err(message) => message,
        }
    }

    #[test]
    fn arguments_become_the_line_that_says_the_same() {
        let missing = "`partition` is missing: the fields that name one, by their names";
        for (given, line) in [
            (
                json!({
                    "entity": "a.B", "index": "by", "partition": {"code": 7203, "name": "-- a=b"}, "limit": 5,
                    "newest_first": true, "at": null, "strict": false, "begins_with": "--x",
                }),
                "it --store=./data --begins-with=--x --newest-first --limit=5 -- a.B by code=7203 name=-- a=b",
            ),
            (json!({"entity": "a.B"}), missing),
            (json!({"entity": "a.B", "partition": {}}), missing),
            (json!({"entity": "a.B", "partition": "x"}), "`partition` is an object: fields by their names"),
            (json!({"entity": "a.B", "partition": {"a": []}}), "`a` is a text or a number"),
            (
                json!({"entity": "a.B", "partition": {"a": 1}, "limt": 5}),
                "it has no argument `limt`; did you mean `limit`?",
            ),
            (json!({"entity": "a.B", "partition": {"a": 1}, "strict": "yes"}), "`strict` is true or false"),
        ] {
            assert_eq!(line_of(Query::augment_args, given), line);
        }
        let elsewhere = json!({"entity": "a.B", "partition": {"a": 1}, "store": "/"});
        assert!(line_of(Query::augment_args, elsewhere).starts_with("it has no argument `store`"));
        for (given, line) in [
            (json!({"entity": "a.B", "group": {"country": "DE"}}), "`lifecycle` is missing"),
            (json!({"entity": ["a.B"], "lifecycle": "c"}), "`entity` is a text or a number"),
            (json!({"lifecycle": "c", "entity": "a.B"}), "it --store=./data -- a.B c"),
        ] {
            assert_eq!(line_of(Due::augment_args, given), line);
        }
    }

    #[test]
    fn what_is_taken_is_said_in_json_schema() {
        let schema = schema(&Due::augment_args(Command::new("due")), &["strict"], &[]);
        let schema = Json::Object(schema);
        assert_eq!(schema["required"], json!(["entity", "lifecycle"]));
        assert_eq!(schema["properties"]["group"]["type"], "object");
        assert_eq!(schema["properties"]["limit"]["type"], "integer");
        for absent in ["strict", "store", "json", "show_secrets"] {
            assert!(schema["properties"][absent].is_null(), "{absent}");
        }
    }
}
