//! JSON as it was written: members keep their order, and a name that comes twice is an error.
//!
//! Which of two `Action` members counts is not for a reader to guess, where one of them lets somebody in.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    Number(serde_json::Number),
    String(String),
    Array(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    /// Nesting is bounded by the reader, at 128.
    pub(crate) fn read(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    pub(crate) fn string(text: &str) -> Self {
        Self::String(text.to_owned())
    }

    /// What it is, for people.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Number(_) => "a number",
            Self::String(_) => "a string",
            Self::Array(_) => "a list",
            Self::Object(_) => "an object",
        }
    }

    /// A string, number or boolean as text: what a condition may hold its key against.
    pub(crate) fn scalar(&self) -> Option<String> {
        match self {
            Self::String(text) => Some(text.clone()),
            Self::Number(number) => Some(number.to_string()),
            Self::Bool(value) => Some(value.to_string()),
            Self::Null | Self::Array(_) | Self::Object(_) => None,
        }
    }

    /// The members of an object; what is none has none.
    pub(crate) fn members(&self) -> &[(String, Json)] {
        match self {
            Self::Object(members) => members,
            _ => &[],
        }
    }

    /// The elements of a list, or the one value that stands for a list of one.
    pub(crate) fn one_or_many(&self) -> &[Json] {
        match self {
            Self::Array(elements) => elements,
            one => std::slice::from_ref(one),
        }
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(Json::Number(value.into()))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Json, E> {
        serde_json::Number::from_f64(value)
            .map(Json::Number)
            .ok_or_else(|| E::custom("a number is too large"))
    }

    fn visit_str<E>(self, text: &str) -> Result<Json, E> {
        Ok(Json::string(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Json, A::Error> {
        let mut list = Vec::new();
        while let Some(element) = elements.next_element()? {
            list.push(element);
        }
        Ok(Json::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Json, A::Error> {
        let mut object: Vec<(String, Json)> = Vec::new();
        let mut names = std::collections::HashSet::new();
        while let Some(name) = members.next_key::<String>()? {
            if !names.insert(name.clone()) {
                return Err(de::Error::custom(format!("`{name}` is there twice")));
            }
            object.push((name, members.next_value()?));
        }
        Ok(Json::Object(object))
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Number(number) => number.serialize(serializer),
            Self::String(text) => serializer.serialize_str(text),
            Self::Array(elements) => {
                let mut list = serializer.serialize_seq(Some(elements.len()))?;
                elements.iter().try_for_each(|element| list.serialize_element(element))?;
                list.end()
            }
            Self::Object(members) => {
                let mut map = serializer.serialize_map(Some(members.len()))?;
                members.iter().try_for_each(|(name, value)| map.serialize_entry(name, value))?;
                map.end()
            }
        }
    }
}
