//! A view as something to run elsewhere: a `larder` command, boto3, or the AWS SDK for JavaScript.

use std::fmt::Write as _;

use larder::store::Condition;
use larder_expr::{KeyCondition, Renderer};
use larder_model::{IndexName, TableName};
use serde_json::{Map, Value as Json, json};

use crate::show;

/// What a view asks of a store, as DynamoDB's JSON.
#[derive(Clone, Debug)]
pub(crate) struct Ask<'a> {
    pub(crate) table: &'a TableName,
    pub(crate) index: Option<&'a IndexName>,
    pub(crate) keys: Option<&'a KeyCondition>,
    pub(crate) filter: Option<&'a Condition>,
    pub(crate) forward: bool,
    pub(crate) limit: usize,
}

impl Ask<'_> {
    pub(crate) fn json(&self) -> Json {
        let mut renderer = Renderer::new();
        let mut out = Map::new();
        out.insert("TableName".into(), self.table.as_str().into());
        if let Some(index) = self.index {
            out.insert("IndexName".into(), index.as_str().into());
        }
        if let Some(keys) = self.keys {
            out.insert("KeyConditionExpression".into(), renderer.key_condition(keys).into());
        }
        if let Some(filter) = self.filter {
            out.insert("FilterExpression".into(), renderer.condition(filter).into());
        }
        let placeholders = renderer.finish();
        if !placeholders.names.is_empty() {
            out.insert("ExpressionAttributeNames".into(), json!(placeholders.names));
        }
        if !placeholders.values.is_empty() {
            let values = placeholders.values.into_iter().collect();
            out.insert("ExpressionAttributeValues".into(), show::item_json(&values).into());
        }
        if self.keys.is_some() {
            out.insert("ScanIndexForward".into(), self.forward.into());
        }
        out.insert("Limit".into(), self.limit.into());
        Json::Object(out)
    }
}

/// The request in Python.
pub(crate) fn boto3(request: &Json, endpoint: Option<&str>) -> String {
    let method = if request.get("KeyConditionExpression").is_some() { "query" } else { "scan" };
    let place = endpoint.map(|url| format!("endpoint_url={}", python(&url.into()))).unwrap_or_default();
    let mut out = format!(
        "{}import boto3\n\ndb = boto3.client(\"dynamodb\"{}{place})\npage = db.{method}(\n",
        if has_bytes(request) { "import base64\n" } else { "" },
        comma(&place)
    );
    for (name, value) in request.as_object().into_iter().flatten() {
        let _ = writeln!(out, "    {name}={},", python(value));
    }
    out.push(')');
    out
}

/// The request in JavaScript.
pub(crate) fn javascript(request: &Json, endpoint: Option<&str>) -> String {
    let command =
        if request.get("KeyConditionExpression").is_some() { "QueryCommand" } else { "ScanCommand" };
    let place = endpoint.map(|url| format!("{{ endpoint: {} }}", Json::from(url))).unwrap_or_default();
    format!(
        "import {{ DynamoDBClient, {command} }} from \"@aws-sdk/client-dynamodb\";\n\nconst db = new DynamoDBClient({place});\n\
         const page = await db.send(new {command}({}));",
        script(request)
    )
}

/// The base64 of a value that is bytes.
fn bytes(json: &Json) -> Option<&str> {
    let members = json.as_object().filter(|members| members.len() == 1)?;
    members.get("B")?.as_str()
}

fn has_bytes(json: &Json) -> bool {
    match json {
        Json::Object(members) => bytes(json).is_some() || members.values().any(has_bytes),
        Json::Array(values) => values.iter().any(has_bytes),
        _ => false,
    }
}

/// JSON is a script, but for bytes.
fn script(json: &Json) -> String {
    let mut text = show::pretty(json);
    let mut values = vec![json];
    while let Some(value) = values.pop() {
        if let Some(base64) = bytes(value) {
            let plain = format!("\"B\": {}", Json::from(base64));
            text = text.replace(&plain, &format!("\"B\": Buffer.from({}, \"base64\")", Json::from(base64)));
            continue;
        }
        match value {
            Json::Object(members) => values.extend(members.values()),
            Json::Array(members) => values.extend(members),
            _ => {}
        }
    }
    text
}

fn comma(text: &str) -> &'static str {
    if text.is_empty() { "" } else { ", " }
}

fn python(json: &Json) -> String {
    match json {
        Json::Null => "None".to_owned(),
        Json::Bool(true) => "True".to_owned(),
        Json::Bool(false) => "False".to_owned(),
        Json::Array(values) => format!("[{}]", values.iter().map(python).collect::<Vec<_>>().join(", ")),
        Json::Object(_) if bytes(json).is_some() => {
            format!("{{\"B\": base64.b64decode({})}}", Json::from(bytes(json)))
        }
        Json::Object(members) => {
            let member = |(name, value): (&String, &Json)| {
                format!("{}: {}", python(&name.as_str().into()), python(value))
            };
            format!("{{{}}}", members.iter().map(member).collect::<Vec<_>>().join(", "))
        }
        // JSON's escapes are Python's too.
        other => other.to_string(),
    }
}

/// A word that a shell takes as it is.
pub(crate) fn shell(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:=@%,+".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_takes_a_word_for_one() {
        for (word, quoted) in [
            ("country=DE", "country=DE"),
            ("a b", "'a b'"),
            ("$(rm -rf .)", "'$(rm -rf .)'"),
            ("it's", r"'it'\''s'"),
            ("", "''"),
        ] {
            assert_eq!(shell(word), quoted);
        }
    }

    #[test]
    fn a_request_is_written_in_both_languages() {
        let request = json!({"TableName": "t", "KeyConditionExpression": "#n0 = :v0", "ScanIndexForward": false,
            "ExpressionAttributeValues": {":v0": {"S": "it's \"so\""}}});
        let text = boto3(&request, Some("http://127.0.0.1:8000"));
        assert!(text.contains(r#"boto3.client("dynamodb", endpoint_url="http://127.0.0.1:8000")"#), "{text}");
        assert!(text.contains("page = db.query(") && text.contains("    ScanIndexForward=False,"), "{text}");
        assert!(text.contains(r#"{":v0": {"S": "it's \"so\""}}"#), "{text}");
        let bytes = json!({"ExpressionAttributeValues": {":v0": {"B": "AAEC+/8="}}});
        let text = boto3(&bytes, None);
        assert!(
            text.starts_with("import base64\n") && text.contains(r#"{"B": base64.b64decode("AAEC+/8=")}"#),
            "{text}"
        );
        let text = javascript(&bytes, None);
        assert!(text.contains(r#""B": Buffer.from("AAEC+/8=", "base64")"#), "{text}");
        let text = javascript(&json!({"TableName": "t"}), None);
        assert!(text.contains("new DynamoDBClient()") && text.contains("new ScanCommand({"), "{text}");
    }
}
