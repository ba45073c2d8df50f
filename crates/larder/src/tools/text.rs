//! Values as people and programs write them: `name=value` and JSON in, JSON out, each by its type in the schema.
//!
//! Moments and dates are ISO 8601, durations seconds or `90m`, bytes base64, numbers JSON numbers, or text where a
//! double would not hold them. Lists, documents and named types are JSON. What is written out reads back the same.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use larder_model::Number;
use larder_schema::jiff::civil::Date;
use larder_schema::jiff::{SignedDuration, Timestamp};
use larder_schema::schema::Precision;
use larder_schema::{Field, Schema, Type, Value, civil_date, civil_datetime, instant_exact};
use serde_json::{Map, Value as Json, json};

pub mod json;

use json::JsonError;

use crate::FieldType;

/// Longer ones are cut in messages.
const SHOWN_CHARACTERS_MAX: usize = 60;

/// Stands for a secret. It is no value of any field, so nobody writes it back.
///
/// ```
/// assert_eq!(larder::text::hidden().to_string(), r#"{"secret":"not shown"}"#);
/// ```
pub fn hidden() -> Json {
    json!({"secret": "not shown"})
}

/// Reads the values of one field.
///
/// ```
/// # larder::schema!("examples/library.larder");
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let library = library::Library::open(larder::Store::memory().await).await?;
/// use larder::text::{Reader, to_json};
///
/// let schema = library.schema();
/// let (_, book) = schema.entity("Book").expect("the schema has it");
/// let year = book.field("year").expect("a book has one");
/// let value = Reader::of(schema, year).text(&year.kind, "year", "1813")?;
/// assert_eq!(to_json(schema, &year.kind, &value), 1813);
/// assert!(Reader::of(schema, year).text(&year.kind, "year", "long ago").is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    schema: &'a Schema,
    /// It is not repeated in a message.
    secret: bool,
    /// What is not of its type is taken as it came: the layer tells all that is wrong with a record at once.
    as_it_came: bool,
}

impl<'a> Reader<'a> {
    /// Reads values of this field; a secret is not repeated in a message.
    pub fn of(schema: &'a Schema, field: &Field) -> Self {
        Self { schema, secret: schema.is_secret(field), as_it_came: false }
    }

    /// Takes what is not of its type as it came.
    pub fn as_it_came(self) -> Self {
        Self { as_it_came: true, ..self }
    }

    /// Reads values that are no field's own, such as those that name a partition.
    pub fn open(schema: &'a Schema) -> Self {
        Self { schema, secret: false, as_it_came: false }
    }

    /// A value written as text. `path` is what a message calls it.
    pub fn text(self, kind: &Type, path: &str, text: &str) -> Result<Value, String> {
        let json = match kind {
            Type::Bool | Type::Json | Type::List(_) | Type::Set(_) | Type::Map(_) | Type::Named(_) => {
                match json::parse(text) {
                    Ok(json) => json,
                    Err(error @ JsonError::Digits(_)) if !self.secret => {
                        return Err(format!("`{path}`: {error}"));
                    }
                    Err(JsonError::Form(_)) if self.as_it_came && *kind != Type::Json => {
                        Json::String(text.to_owned())
                    }
                    Err(_) => return Err(self.wrong(kind, path, text)),
                }
            }
            _ => Json::String(text.to_owned()),
        };
        self.json(kind, path, &json)
    }

    /// A value written as JSON.
    pub fn json(self, kind: &Type, path: &str, json: &Json) -> Result<Value, String> {
        if self.secret && *json == hidden() {
            return Err(format!("`{path}` is a secret that was not shown: read it with --show-secrets"));
        }
        match (kind, json) {
            (Type::List(_) | Type::Set(_), Json::Array(values)) => {
                let of = kind.member().unwrap_or(kind);
                let values = values.iter().enumerate().map(|(at, json)| {
                    let path = format!("{path}[{at}]");
                    self.json(of, &path, json)
                });
                Ok(Value::List(values.collect::<Result<_, String>>()?))
            }
            (Type::Map(of), Json::Object(members)) => {
                let entry = |(name, json): (&String, &Json)| {
                    let path = format!("{path}[{name:?}]");
                    Ok((name.clone(), self.json(&of.kind, &path, json)?))
                };
                Ok(Value::Map(members.iter().map(entry).collect::<Result<_, String>>()?))
            }
            (Type::Named(name), Json::Object(members)) => self.members(name, path, members),
            (Type::Json, json) => Ok(json.clone().to_value()),
            _ if self.as_it_came => Ok(plain(kind, json).unwrap_or_else(|| json.clone().to_value())),
            _ => plain(kind, json).ok_or_else(|| match json {
                Json::String(text) => self.wrong(kind, path, text),
                json => self.wrong(kind, path, &json.to_string()),
            }),
        }
    }

    /// Inside a named type values go by their stored names.
    fn members(self, name: &str, path: &str, members: &Map<String, Json>) -> Result<Value, String> {
        let known = self.schema.type_definition(name).map_or(&[][..], |definition| &definition.fields);
        let mut map = BTreeMap::new();
        for (name, json) in members {
            let field = known.iter().find(|field| field.name == *name || field.attribute == *name);
            match field {
                Some(_) if json.is_null() => {}
                Some(field) => {
                    let value = self.json(&field.kind, &format!("{path}.{name}"), json)?;
                    map.insert(field.attribute.clone(), value);
                }
                None => drop(map.insert(name.clone(), json.clone().to_value())),
            }
        }
        Ok(Value::Map(map))
    }

    fn wrong(self, kind: &Type, path: &str, given: &str) -> String {
        let mut shown: String = given.chars().take(SHOWN_CHARACTERS_MAX).collect();
        if shown.len() < given.len() {
            shown.push('…');
        }
        let shown = if self.secret { "a secret".to_owned() } else { format!("`{shown}`") };
        format!("`{path}` is {shown}, but {} is expected", wanted(kind))
    }
}

/// A value that is no list and no object. `None` when it is not of the type.
fn plain(kind: &Type, json: &Json) -> Option<Value> {
    let text = json.as_str();
    Some(match kind {
        Type::String | Type::Uuid { .. } | Type::Url => Value::from(text?),
        Type::Choice(choices) => {
            Value::from(text.filter(|text| choices.iter().any(|choice| choice == text))?)
        }
        Type::Int | Type::Sequence => Value::Number(number(json).filter(|number| number.to_i64().is_some())?),
        Type::Decimal => Value::Number(number(json)?),
        Type::Float => Value::Float(float(json)?),
        Type::Bool => Value::Bool(json.as_bool()?),
        Type::Bytes => Value::Bytes(STANDARD.decode(text?).ok()?),
        Type::Date => Value::Date(civil_date(text?)?),
        Type::Datetime => Value::Datetime(civil_datetime(text?)?),
        Type::Instant(_) => Value::Instant(text?.parse().ok()?),
        Type::Epoch => Value::Instant(match number(json) {
            Some(seconds) => Timestamp::from_second(seconds.to_i64()?).ok()?,
            None => text?.parse().ok()?,
        }),
        Type::Duration => Value::Duration(match float(json) {
            Some(seconds) => SignedDuration::try_from_secs_f64(seconds).ok()?,
            None => humantime::parse_duration(text?).ok()?.try_into().ok()?,
        }),
        Type::Json | Type::List(_) | Type::Set(_) | Type::Map(_) | Type::Named(_) | Type::Zoned => {
            return None;
        }
    })
}

fn number(json: &Json) -> Option<Number> {
    match json {
        Json::Number(number) => number.to_string().parse().ok(),
        Json::String(text) => text.parse().ok(),
        _ => None,
    }
}

fn float(json: &Json) -> Option<f64> {
    let float = json.as_f64().or_else(|| json.as_str()?.parse().ok())?;
    float.is_finite().then_some(float)
}

fn wanted(kind: &Type) -> String {
    match kind {
        Type::String => "text".to_owned(),
        Type::Int | Type::Sequence => "a whole number".to_owned(),
        Type::Float | Type::Decimal => "a number".to_owned(),
        Type::Bool => "true or false".to_owned(),
        Type::Bytes => "base64".to_owned(),
        Type::Json => "JSON (a text in quotes)".to_owned(),
        Type::Uuid { .. } => "a UUID".to_owned(),
        Type::Url => "a URL".to_owned(),
        Type::Date => "a date such as 2026-01-15".to_owned(),
        Type::Datetime => "a time such as 2026-01-15T10:00:00".to_owned(),
        Type::Instant(_) | Type::Epoch | Type::Zoned => "a moment such as 2026-01-15T10:00:00Z".to_owned(),
        Type::Duration => "a number of seconds or a duration such as 90m".to_owned(),
        Type::List(of) => format!("a JSON list of {}", of.kind),
        Type::Set(of) => format!("a JSON list of {of}"),
        Type::Map(of) => format!("a JSON object of {}", of.kind),
        Type::Choice(choices) => format!("one of {}", choices.join(", ")),
        Type::Named(name) => format!("a JSON object of type {name}"),
    }
}

/// Which moment of a day is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Midnight.
    First,
    /// The last one before midnight.
    Last,
}

/// The first or last moment of a day that is given where a moment is wanted, in UTC and as the type has it.
///
/// ```
/// use larder::text::{End, of_day};
/// use larder_schema::Type;
///
/// assert_eq!(of_day(&Type::Epoch, "2026-01-15", End::Last).as_deref(), Some("2026-01-15T23:59:59Z"));
/// assert_eq!(of_day(&Type::String, "2026-01-15", End::First), None);
/// ```
pub fn of_day(kind: &Type, text: &str, end: End) -> Option<String> {
    let day: Date = text.parse().ok().filter(|_| text.len() == "2026-01-15".len())?;
    let zone = if *kind == Type::Datetime { "" } else { "Z" };
    let time = match (kind, end) {
        (Type::Instant(_) | Type::Epoch | Type::Datetime, End::First) => "00:00:00",
        (Type::Instant(Precision::Millis), End::Last) => "23:59:59.999",
        (Type::Instant(Precision::Micros), End::Last) => "23:59:59.999999",
        (Type::Instant(Precision::Seconds) | Type::Epoch | Type::Datetime, End::Last) => "23:59:59",
        _ => return None,
    };
    Some(format!("{day}T{time}{zone}"))
}

/// A value as JSON that [`Reader::json`] reads back.
pub fn to_json(schema: &Schema, kind: &Type, value: &Value) -> Json {
    match (kind, value) {
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
            Json::Object(map.iter().map(member).collect())
        }
        (Type::Instant(precision), Value::Instant(moment)) => instant_exact(*moment, *precision).into(),
        (_, Value::Text(text)) => text.as_str().into(),
        (_, Value::Number(number)) => number_json(number),
        (_, Value::Float(float)) => json!(float),
        (_, Value::Bool(value)) => (*value).into(),
        (_, Value::Bytes(bytes)) => STANDARD.encode(bytes).into(),
        (_, Value::Instant(moment)) => instant_exact(*moment, Precision::Seconds).into(),
        (_, Value::Zoned(moment)) => moment.to_string().into(),
        (_, Value::Date(date)) => date.to_string().into(),
        (_, Value::Datetime(datetime)) => datetime.to_string().into(),
        (_, Value::Duration(duration)) if duration.subsec_nanos() == 0 => duration.as_secs().into(),
        (_, Value::Duration(duration)) => json!(duration.as_secs_f64()),
        (_, Value::List(values)) => values.iter().map(|value| to_json(schema, &Type::Json, value)).collect(),
        (_, Value::Map(map)) => Json::Object(
            map.iter().map(|(name, value)| (name.clone(), to_json(schema, &Type::Json, value))).collect(),
        ),
        (_, Value::Raw(_)) => Json::from_value(value.clone()).unwrap_or_default(),
    }
}

/// As a number where that loses nothing, else as text.
fn number_json(number: &Number) -> Json {
    if let Some(whole) = number.to_i64() {
        return whole.into();
    }
    let text = number.to_string();
    match text.parse::<f64>() {
        Ok(float) if format!("{float:e}").parse::<Number>().is_ok_and(|read| read == *number) => json!(float),
        _ => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use larder_schema::schema::Of;
    use larder_schema::{Environment, NoFiles};

    use super::*;

    fn schema() -> Schema {
        let text = r#"
system test
naming camel
table things {
  key  id
  entity E {
    id:   string nonempty
    wind: Wind
  }
}
type Wind { wind_speed: float, label: string?, .. }
"#;
        Schema::load("test.larder", text, &mut NoFiles, &Environment::new()).schema.expect("it is right")
    }

    #[test]
    fn what_is_written_out_reads_back_the_same() {
        let schema = schema();
        let list = Type::List(Box::new(Of { kind: Type::Int, optional: false }));
        let map = Type::Map(Box::new(Of { kind: Type::Date, optional: false }));
        for (kind, text, out) in [
            (Type::String, "=a b", json!("=a b")),
            (Type::Int, "-12", json!(-12)),
            (Type::Decimal, "129.50", json!(129.5)),
            (
                Type::Decimal,
                "1.0000000000000000000000000000000000001",
                json!("1.0000000000000000000000000000000000001"),
            ),
            (Type::Float, "35.0", json!(35.0)),
            (Type::Bool, "true", json!(true)),
            (Type::Bytes, "AAEC", json!("AAEC")),
            (Type::Json, r#"{"a": [1, null]}"#, json!({"a": [1, null]})),
            (Type::Date, "2026-01-15", json!("2026-01-15")),
            (Type::Datetime, "2026-01-15T10:00:00", json!("2026-01-15T10:00:00")),
            (
                Type::Instant(Precision::Millis),
                "2026-01-15T19:00:00+09:00",
                json!("2026-01-15T10:00:00.000Z"),
            ),
            (Type::Epoch, "1768471200", json!("2026-01-15T10:00:00Z")),
            (Type::Duration, "90m", json!(5400)),
            (Type::Duration, "0.5", json!(0.5)),
            (Type::Choice(vec!["a".into()]), "a", json!("a")),
            (list, "[1, 2]", json!([1, 2])),
            (Type::Set(Box::new(Type::Bytes)), r#"["AAEC", "AQ=="]"#, json!(["AAEC", "AQ=="])),
            (map, r#"{"first": "2026-01-15"}"#, json!({"first": "2026-01-15"})),
            (
                Type::Named("Wind".into()),
                r#"{"wind_speed": 3, "from": "west", "label": null}"#,
                json!({"wind_speed": 3.0, "from": "west"}),
            ),
        ] {
            let reader = Reader::open(&schema);
            let read = reader.text(&kind, "x", text).expect(text);
            let written = to_json(&schema, &kind, &read);
            assert_eq!(written, out, "{kind}");
            assert_eq!(reader.json(&kind, "x", &written).as_ref(), Ok(&read), "{kind}");
            assert!(schema.encode(&kind, &read).is_some(), "{kind} can be stored");
        }
    }

    #[test]
    fn a_wrong_value_is_told_with_its_place_and_what_is_wanted() {
        let schema = schema();
        let map = Type::Map(Box::new(Of { kind: Type::Int, optional: false }));
        let list = Type::List(Box::new(Of { kind: Type::Named("Wind".into()), optional: false }));
        for (kind, text, message) in [
            (Type::Int, "1.5", "`x` is `1.5`, but a whole number is expected"),
            (Type::Float, "inf", "`x` is `inf`, but a number is expected"),
            (Type::Date, "yesterday", "`x` is `yesterday`, but a date such as 2026-01-15 is expected"),
            (Type::Choice(vec!["a".into(), "b".into()]), "c", "`x` is `c`, but one of a, b is expected"),
            (Type::Json, "plain", "`x` is `plain`, but JSON (a text in quotes) is expected"),
            (Type::Set(Box::new(Type::Int)), "3", "`x` is `3`, but a JSON list of int is expected"),
            (Type::Set(Box::new(Type::Int)), "[3, true]", "`x[1]` is `true`, but a whole number is expected"),
            (map.clone(), "[]", "`x` is `[]`, but a JSON object of int is expected"),
            (map, r#"{"mon": "much"}"#, "`x[\"mon\"]` is `much`, but a whole number is expected"),
            (list, r#"[{"wind_speed": "much"}]"#, "`x[0].wind_speed` is `much`, but a number is expected"),
        ] {
            assert_eq!(Reader::open(&schema).text(&kind, "x", text), Err(message.to_owned()));
        }
        let secret = Reader { secret: true, ..Reader::open(&schema) };
        let told = secret.text(&Type::Int, "x", "hunter2");
        assert_eq!(told, Err("`x` is a secret, but a whole number is expected".to_owned()));
    }
}
