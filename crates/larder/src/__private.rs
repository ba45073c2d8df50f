//! What code made by [`schema!`](crate::schema) stands on. It is not for anything else, and may change.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use larder_schema::{Environment, Fields, Schema, Value};

use crate::Invalid;
use crate::shelf::{FieldType, Rest};

pub use crate::shelf::{take, take_optional};

/// Puts a field among those given.
pub fn give<T: FieldType>(fields: &mut Fields, name: &str, value: T) {
    fields.insert(name.to_owned(), value.to_value());
}

/// A field of a key.
pub fn field<T: FieldType + Clone>(value: &T) -> Option<Cow<'static, Value>> {
    Some(Cow::Owned(value.clone().to_value()))
}

/// Puts a field among those given, if there is one.
pub fn give_optional<T: FieldType>(fields: &mut Fields, name: &str, value: Option<T>) {
    if let Some(value) = value {
        give(fields, name, value);
    }
}

/// What an open type keeps besides its fields.
pub fn rest(fields: Fields) -> Option<Rest> {
    fields.into_iter().map(|(name, value)| Some((name, serde_json::Value::from_value(value)?))).collect()
}

/// The fields to begin with, of an open type.
pub fn unrest(rest: Rest) -> Fields {
    rest.into_iter().map(|(name, value)| (name, value.to_value())).collect()
}

/// A default of the schema.
///
/// # Panics
///
/// If the text is none of the type's. It was, when the schema was checked.
pub fn parsed<T: FromStr>(text: &str) -> T {
    text.parse().ok().expect("the schema was checked when this was compiled")
}

/// The schema of these files, the first of which includes the others.
///
/// # Panics
///
/// If there is an error in it. There was none when this was compiled.
pub fn load(files: &[(&str, &str)]) -> Schema {
    let mut named: std::collections::BTreeMap<String, String> =
        files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
    let (name, text) = files.first().copied().unwrap_or_default();
    let loaded = Schema::load(name, text, &mut named, &Environment::new());
    loaded.schema.expect("the schema was checked when this was compiled")
}

/// Everything that is wrong with a record, defaults aside.
pub fn check(schema: &Schema, entity: &str, fields: &Fields) -> Result<(), Invalid> {
    let Some((_, known)) = schema.entity(entity) else { return Ok(()) };
    let violations = schema.violations(known, fields);
    if violations.is_empty() { Ok(()) } else { Err(Invalid { entity: entity.to_owned(), violations }) }
}

/// Stands for a secret in `Debug`.
pub struct Secret;

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a secret")
    }
}
