//! A view as something to run elsewhere: a `larder` command, PartiQL, Rust, boto3, or the AWS SDK for JavaScript.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
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

/// The request in Rust, by the AWS SDK.
pub(crate) fn rust(request: &Json, endpoint: Option<&str>) -> String {
    let method = if request.get("KeyConditionExpression").is_some() { "query" } else { "scan" };
    let place = endpoint.map(|url| format!(".endpoint_url({url:?})")).unwrap_or_default();
    let types = if request.get("ExpressionAttributeValues").is_some() {
        "use aws_sdk_dynamodb::types::AttributeValue;\n"
    } else {
        ""
    };
    let mut out = format!(
        "use aws_sdk_dynamodb::Client;\n{types}\nlet config = aws_config::defaults(aws_config::BehaviorVersion::latest()){place}.load().await;\n\
         let page = Client::new(&config)\n    .{method}()\n"
    );
    for (name, value) in request.as_object().into_iter().flatten() {
        let method = snake(name);
        match value {
            Json::String(text) => {
                let _ = writeln!(out, "    .{method}({text:?})");
            }
            Json::Object(members) => {
                for (placeholder, value) in members {
                    let value = match value {
                        Json::String(name) => format!("{name:?}"),
                        typed => rust_value(typed),
                    };
                    let _ = writeln!(out, "    .{method}({placeholder:?}, {value})");
                }
            }
            other => {
                let _ = writeln!(out, "    .{method}({other})");
            }
        }
    }
    out.push_str("    .send()\n    .await?;");
    out
}

/// `ScanIndexForward` is `scan_index_forward`.
fn snake(name: &str) -> String {
    let mut out = String::new();
    for (at, letter) in name.char_indices() {
        if at > 0 && letter.is_ascii_uppercase() {
            out.push('_');
        }
        out.push(letter.to_ascii_lowercase());
    }
    out
}

/// A value of DynamoDB's JSON as the SDK for Rust has it.
fn rust_value(typed: &Json) -> String {
    let Some((kind, inner)) = single(typed) else { return typed.to_string() };
    let texts = |values: &Json| {
        let values = values.as_array().into_iter().flatten().map(rust_text);
        values.collect::<Vec<_>>().join(", ")
    };
    let made = match (kind, inner) {
        ("S" | "N", inner) => format!("{kind}({})", rust_text(inner)),
        ("B", inner) => format!("B({})", blob(inner)),
        ("BOOL", inner) => format!("Bool({inner})"),
        ("SS", inner) => format!("Ss(vec![{}])", texts(inner)),
        ("NS", inner) => format!("Ns(vec![{}])", texts(inner)),
        ("BS", Json::Array(values)) => {
            format!("Bs(vec![{}])", values.iter().map(blob).collect::<Vec<_>>().join(", "))
        }
        ("L", Json::Array(values)) => {
            format!("L(vec![{}])", values.iter().map(rust_value).collect::<Vec<_>>().join(", "))
        }
        ("M", Json::Object(members)) => {
            let member =
                |(name, value): (&String, &Json)| format!("({name:?}.to_owned(), {})", rust_value(value));
            format!("M([{}].into())", members.iter().map(member).collect::<Vec<_>>().join(", "))
        }
        _ => "Null(true)".to_owned(),
    };
    format!("AttributeValue::{made}")
}

fn rust_text(json: &Json) -> String {
    format!("{:?}.to_owned()", json.as_str().unwrap_or_default())
}

fn blob(json: &Json) -> String {
    let bytes = STANDARD.decode(json.as_str().unwrap_or_default()).unwrap_or_default();
    format!("aws_sdk_dynamodb::primitives::Blob::new({bytes:?})")
}

/// The only member of an object, as a value of DynamoDB's JSON has one.
fn single(json: &Json) -> Option<(&str, &Json)> {
    let members = json.as_object().filter(|members| members.len() == 1)?;
    members.iter().next().map(|(name, value)| (name.as_str(), value))
}

/// The request as a PartiQL statement, ordered by the sort key that is given where it is read backwards. `None` where a value of it
/// cannot be written in one, as bytes cannot.
pub(crate) fn statement(request: &Json, sort: Option<&str>) -> Option<String> {
    let text = |name: &str| request.get(name).and_then(Json::as_str);
    let mut from = name(text("TableName")?);
    if let Some(index) = text("IndexName") {
        let _ = write!(from, ".{}", name(index));
    }
    let mut conditions = Vec::new();
    for expression in ["KeyConditionExpression", "FilterExpression"] {
        if let Some(expression) = text(expression) {
            conditions.push(in_place(request, &presence(expression))?);
        }
    }
    // What is OR in a filter is one part of the whole.
    if let [_, filter] = conditions.as_mut_slice() {
        *filter = format!("({filter})");
    }
    let condition = match conditions.is_empty() {
        true => String::new(),
        false => format!(" WHERE {}", conditions.join(" AND ")),
    };
    let backwards = request.get("ScanIndexForward") == Some(&Json::Bool(false));
    let order = match sort.filter(|_| backwards) {
        Some(sort) => format!(" ORDER BY {} DESC", name(sort)),
        None => String::new(),
    };
    Some(format!("SELECT * FROM {from}{condition}{order}"))
}

/// A name as PartiQL has it.
fn name(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

/// Whether something is there is an operator of PartiQL, and a function of expressions.
fn presence(expression: &str) -> String {
    let mut out = expression.to_owned();
    for (function, operator) in
        [("attribute_not_exists(", "IS MISSING"), ("attribute_exists(", "IS NOT MISSING")]
    {
        while let Some((before, rest)) = out.split_once(function) {
            let Some((path, after)) = rest.split_once(')') else { break };
            out = format!("{before}{path} {operator}{after}");
        }
    }
    out
}

/// An expression with its names and values in place.
fn in_place(request: &Json, expression: &str) -> Option<String> {
    let mut out = String::new();
    let mut rest = expression;
    while let Some(at) = rest.find(['#', ':']) {
        let (before, after) = rest.split_at(at);
        out.push_str(before);
        let end = after[1..].find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        let (placeholder, after) = after.split_at(end.map_or(after.len(), |end| end + 1));
        if placeholder.starts_with('#') {
            out.push_str(&name(request["ExpressionAttributeNames"].get(placeholder)?.as_str()?));
        } else {
            out.push_str(&literal(request["ExpressionAttributeValues"].get(placeholder)?)?);
        }
        rest = after;
    }
    out.push_str(rest);
    Some(out)
}

/// A value as PartiQL writes it.
fn literal(typed: &Json) -> Option<String> {
    let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
    let (kind, inner) = single(typed)?;
    Some(match (kind, inner) {
        ("S", Json::String(text)) => quoted(text),
        ("N", Json::String(number)) => number.clone(),
        ("BOOL", inner) => inner.to_string(),
        ("NULL", _) => "NULL".to_owned(),
        ("SS" | "NS", Json::Array(values)) => {
            let member = |value: &Json| match (kind, value.as_str()?) {
                ("SS", text) => Some(quoted(text)),
                (_, number) => Some(number.to_owned()),
            };
            format!("<<{}>>", values.iter().map(member).collect::<Option<Vec<_>>>()?.join(", "))
        }
        ("L", Json::Array(values)) => {
            format!("[{}]", values.iter().map(literal).collect::<Option<Vec<_>>>()?.join(", "))
        }
        ("M", Json::Object(members)) => {
            let member =
                |(name, value): (&String, &Json)| Some(format!("{}: {}", quoted(name), literal(value)?));
            format!("{{{}}}", members.iter().map(member).collect::<Option<Vec<_>>>()?.join(", "))
        }
        _ => return None,
    })
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
    fn a_request_is_a_statement_that_partiql_reads() {
        let request = json!({
            "TableName": "a-\"b", "IndexName": "by.day", "KeyConditionExpression": "#n0 = :v0 AND #n1 BETWEEN :v1 AND :v2",
            "FilterExpression": "attribute_not_exists(#n2) OR (attribute_exists(#n3.#n2[0]) AND contains(#n2, :v3)) OR #n2 IN (:v4, :v5)",
            "ExpressionAttributeNames": {"#n0": "p", "#n1": "size", "#n2": "x", "#n3": "m"},
            "ExpressionAttributeValues": {
                ":v0": {"S": "it's"}, ":v1": {"N": "-1.5"}, ":v2": {"N": "2"}, ":v3": {"SS": ["a", "b"]},
                ":v4": {"M": {"k": {"L": [{"BOOL": true}, {"NULL": true}]}}}, ":v5": {"NS": ["1", "2"]},
            },
            "ScanIndexForward": false,
        });
        let text = statement(&request, Some("size")).expect("all of it can be written");
        assert_eq!(
            text,
            "SELECT * FROM \"a-\"\"b\".\"by.day\" WHERE \"p\" = 'it''s' AND \"size\" BETWEEN -1.5 AND 2 AND (\"x\" IS MISSING OR \
             (\"m\".\"x\"[0] IS NOT MISSING AND contains(\"x\", <<'a', 'b'>>)) OR \"x\" IN ({'k': [true, NULL]}, <<1, 2>>)) \
             ORDER BY \"size\" DESC"
        );
        let plain = statement(&json!({"TableName": "visits", "Limit": 5}), None).expect("a scan");
        assert_eq!(plain, "SELECT * FROM \"visits\"");
        for text in [text.replace("a-\"\"b", "a-b"), plain] {
            assert!(
                larder_partiql::read(&text, &[]).is_ok(),
                "{text}: {:?}",
                larder_partiql::read(&text, &[])
            );
        }
        let bytes = json!({"TableName": "t", "FilterExpression": "#n0 = :v0", "ExpressionAttributeNames": {"#n0": "b"},
            "ExpressionAttributeValues": {":v0": {"B": "AAEC"}}});
        assert_eq!(statement(&bytes, None), None);
    }

    #[test]
    fn a_request_is_rust() {
        let request = json!({"TableName": "t", "KeyConditionExpression": "#n0 = :v0", "ScanIndexForward": false, "Limit": 5,
            "ExpressionAttributeNames": {"#n0": "pk"},
            "ExpressionAttributeValues": {":v0": {"M": {"a": {"L": [{"S": "x\"y"}, {"B": "AAEC"}, {"NS": ["1"]}, {"NULL": true}]}}}}});
        let text = rust(&request, Some("http://127.0.0.1:8000"));
        for line in [
            "aws_config::defaults(aws_config::BehaviorVersion::latest()).endpoint_url(\"http://127.0.0.1:8000\").load().await",
            "    .query()\n",
            "    .table_name(\"t\")\n",
            "    .expression_attribute_names(\"#n0\", \"pk\")\n",
            "AttributeValue::M([(\"a\".to_owned(), AttributeValue::L(vec![AttributeValue::S(\"x\\\"y\".to_owned()), ",
            "AttributeValue::B(aws_sdk_dynamodb::primitives::Blob::new([0, 1, 2]))",
            "AttributeValue::Ns(vec![\"1\".to_owned()]), AttributeValue::Null(true)]))].into()))",
            "    .scan_index_forward(false)\n",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
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
