//! YAML → JSON, with CloudFormation's short forms written out: `!Ref Stage` is `{"Ref": "Stage"}`.
//!
//! Only the first document is read. Aliases are copied, as long as that does not make more of a small file.

use std::borrow::Cow;
use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle, Tag};
use serde_json::{Map, Value as Json, json};

/// Levels of lists and maps.
const DEPTH_MAX: usize = 64;
/// Values of one file, with what aliases stand for.
const VALUES_MAX: usize = 200_000;

/// A list or map that is not closed yet.
struct Open {
    anchor: usize,
    function: Option<String>,
    values: Vec<Json>,
    is_map: bool,
}

pub(super) fn json(text: &str) -> Result<Json, String> {
    let mut open: Vec<Open> = Vec::new();
    let mut anchors: HashMap<usize, (Json, usize)> = HashMap::new();
    let mut count = 0;
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| error.to_string())?;
        let line = span.start.line();
        let (value, anchor) = match event {
            Event::SequenceStart(..) | Event::MappingStart(..) if open.len() >= DEPTH_MAX => {
                return Err(format!("line {line}: more than {DEPTH_MAX} levels"));
            }
            Event::SequenceStart(anchor, tag) => {
                open.push(Open { anchor, function: function(tag), values: Vec::new(), is_map: false });
                continue;
            }
            Event::MappingStart(anchor, tag) => {
                open.push(Open { anchor, function: function(tag), values: Vec::new(), is_map: true });
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(done) = open.pop() else { continue };
                let anchor = done.anchor;
                (done.close().map_err(|why| format!("line {line}: {why}"))?, anchor)
            }
            Event::Scalar(text, style, anchor, tag) => (scalar(&text, style, function(tag)), anchor),
            Event::Alias(anchor) => {
                let Some((value, size)) = anchors.get(&anchor) else {
                    return Err(format!("line {line}: an alias of nothing"));
                };
                count += size;
                (value.clone(), 0)
            }
            Event::DocumentEnd | Event::StreamEnd => break,
            Event::Nothing | Event::StreamStart | Event::DocumentStart(_) => continue,
        };
        count += 1;
        if count > VALUES_MAX {
            return Err(format!("more than {VALUES_MAX} values"));
        }
        if anchor > 0 {
            let size = size(&value);
            count += size;
            anchors.insert(anchor, (value.clone(), size));
        }
        match open.last_mut() {
            Some(parent) => parent.values.push(value),
            None => return Ok(value),
        }
    }
    Err("it is empty".to_owned())
}

impl Open {
    fn close(self) -> Result<Json, String> {
        let value = if self.is_map {
            let mut map = Map::new();
            let mut values = self.values.into_iter();
            while let (Some(name), Some(value)) = (values.next(), values.next()) {
                let name = match name {
                    Json::String(name) => name,
                    // As text, such a key would double with every level.
                    Json::Array(_) | Json::Object(_) => {
                        return Err("a key that is a list or a map".to_owned());
                    }
                    Json::Null | Json::Bool(_) | Json::Number(_) => name.to_string(),
                };
                map.insert(name, value);
            }
            Json::Object(map)
        } else {
            Json::Array(self.values)
        };
        Ok(called(self.function, value))
    }
}

/// What a tag calls: `Ref`, `Fn::Sub`. Tags of YAML itself call nothing.
fn function(tag: Option<Cow<'_, Tag>>) -> Option<String> {
    let tag = tag.filter(|tag| tag.handle == "!")?;
    Some(match tag.suffix.as_str() {
        "Ref" | "Condition" => tag.suffix.clone(),
        other => format!("Fn::{other}"),
    })
}

fn called(function: Option<String>, value: Json) -> Json {
    let Some(function) = function else { return value };
    let value = match (function.as_str(), &value) {
        ("Fn::GetAtt", Json::String(text)) => match text.split_once('.') {
            Some((resource, attribute)) => json!([resource, attribute]),
            None => value,
        },
        _ => value,
    };
    json!({ function: value })
}

fn scalar(text: &str, style: ScalarStyle, function: Option<String>) -> Json {
    let plain = style == ScalarStyle::Plain && function.is_none();
    let value = match text {
        "" | "~" | "null" | "Null" | "NULL" if plain => Json::Null,
        "true" | "True" | "TRUE" if plain => Json::Bool(true),
        "false" | "False" | "FALSE" if plain => Json::Bool(false),
        // A number with a zero before it is an account or a code, whatever YAML says.
        _ => match text.parse::<i64>() {
            Ok(number) if plain && number.to_string() == text => json!(number),
            _ => json!(text),
        },
    };
    called(function, value)
}

/// How many values a copy of this one counts as. A long text counts as several.
fn size(value: &Json) -> usize {
    let text = |text: &str| 1 + text.len() / 16;
    match value {
        Json::Array(values) => 1 + values.iter().map(size).sum::<usize>(),
        Json::Object(map) => 1 + map.iter().map(|(name, value)| text(name) + size(value)).sum::<usize>(),
        Json::String(value) => text(value),
        Json::Null | Json::Bool(_) | Json::Number(_) => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_forms_are_written_out() {
        let text = "A: !Ref Stage\nB: !Sub 'x-${Stage}'\nC: !GetAtt Key.Arn\nD: !If [IsProd, 1, !Ref 'AWS::NoValue']\nE: !Join ['-', [a, \"2\"]]\n";
        let expected = json!({
            "A": {"Ref": "Stage"},
            "B": {"Fn::Sub": "x-${Stage}"},
            "C": {"Fn::GetAtt": ["Key", "Arn"]},
            "D": {"Fn::If": ["IsProd", 1, {"Ref": "AWS::NoValue"}]},
            "E": {"Fn::Join": ["-", ["a", "2"]]},
        });
        assert_eq!(json(text), Ok(expected));
    }

    #[test]
    fn scalars_are_what_they_look_like() {
        let text = "[true, 5, '5', 2010-09-09, 0012, ~, \"\"]";
        assert_eq!(json(text), Ok(json!([true, 5, "5", "2010-09-09", "0012", null, ""])));
    }

    #[test]
    fn a_small_file_stays_small() {
        let mut text = "a: &a [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for (name, before) in ["b", "c", "d", "e", "f", "g"].iter().zip(["a", "b", "c", "d", "e", "f"]) {
            text.push_str(&format!("{name}: &{name} [{}]\n", vec![format!("*{before}"); 10].join(", ")));
        }
        assert!(json(&text).is_err_and(|error| error.contains("values")));
        assert!(json(&"[".repeat(10_000)).is_err());
        assert!(json("").is_err());
        assert!(json("a: *nobody").is_err());
        let long = format!("a: &a {}\nb: [{}]\n", "x".repeat(100_000), vec!["*a"; 100].join(", "));
        assert!(json(&long).is_err_and(|error| error.contains("values")));
        let keys = format!("a: &a {{{}: 1}}\nb: [{}]\n", "x".repeat(1000), vec!["*a"; 10_000].join(", "));
        assert!(json(&keys).is_err_and(|error| error.contains("values")));
    }

    #[test]
    fn a_key_that_is_a_list_or_a_map_is_refused() {
        let deep = format!("{}a{}", "{? ".repeat(50), "}".repeat(50));
        for text in ["? [a, b]\n: c\n", "? {a: b}\n: c\n", "!Ref a: b\n", &deep] {
            assert!(json(text).is_err_and(|error| error.contains("a list or a map")), "{text}");
        }
        assert_eq!(json("1: a\ntrue: b\n"), Ok(json!({"1": "a", "true": "b"})));
    }
}
