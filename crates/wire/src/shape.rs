//! Members of a request by the type DynamoDB gives them, and its words for anything else.
//!
//! A member that is `null` is as good as absent. A boolean may be written as one of ten words. A whole
//! number saturates, and loses its fraction.

use std::borrow::Cow;

use larder_model::UnixTime;

use crate::json::{Kind, Reader};
use crate::refusal::{Read, Refusal};

/// What a structure of a request takes at most, beside its texts and values. No operation takes many.
pub(crate) const STRUCTURE_BYTES: usize = 2048;
const MISPLACED_MAP: &str = "Start of structure or map found where not expected";

/// The full name of one of DynamoDB's own classes.
fn class(name: &str) -> String {
    format!("com.amazonaws.dynamodb.v20120810.{name}")
}

pub(crate) fn text<'a>(reader: &mut Reader<'a>) -> Read<Option<Cow<'a, str>>> {
    match reader.kind()? {
        Kind::String => reader.string().map(Some),
        Kind::Null => reader.null().map(|_| None),
        other => Err(unconvertible(other, "String")),
    }
}

pub(crate) fn owned_text(reader: &mut Reader<'_>) -> Read<Option<String>> {
    text(reader).map(|found| found.map(Cow::into_owned))
}

pub(crate) fn boolean(reader: &mut Reader<'_>) -> Read<Option<bool>> {
    Ok(match reader.kind()? {
        Kind::True | Kind::False => Some(reader.boolean()?),
        Kind::Null => reader.null().map(|_| None)?,
        Kind::String => Some(boolean_word(&reader.string()?).ok_or_else(unexpected_token)?),
        other => return Err(unconvertible(other, "Boolean")),
    })
}

/// The boolean a word stands for, in any case.
pub(crate) fn boolean_word(word: &str) -> Option<bool> {
    let is = |words: [&str; 5]| words.iter().any(|known| word.eq_ignore_ascii_case(known));
    if is(["true", "t", "yes", "y", "1"]) {
        Some(true)
    } else if is(["false", "f", "no", "n", "0"]) {
        Some(false)
    } else {
        None
    }
}

pub(crate) fn unexpected_token() -> Refusal {
    Refusal::shape("Unexpected token received from parser")
}

/// A number as it was read, and whether reading it lost anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Integer {
    pub(crate) value: i64,
    /// It was out of range or had a fraction.
    pub(crate) coerced: bool,
}

/// A member of the type `Integer`: 32 bits.
pub(crate) fn integer(reader: &mut Reader<'_>) -> Read<Option<Integer>> {
    whole(reader, "Integer", i64::from(i32::MIN), i64::from(i32::MAX))
}

/// A member of the type `Long`: 64 bits.
pub(crate) fn long(reader: &mut Reader<'_>) -> Read<Option<i64>> {
    Ok(whole(reader, "Long", i64::MIN, i64::MAX)?.map(|integer| integer.value))
}

/// A member of the type `Timestamp`: seconds, with a fraction that is taken to the millisecond.
pub(crate) fn timestamp(reader: &mut Reader<'_>) -> Read<Option<UnixTime>> {
    match reader.kind()? {
        Kind::Number | Kind::Decimal => {
            let seconds: f64 = reader.number()?.parse().map_err(|_| Refusal::Unreadable)?;
            // Casts from floating point saturate.
            Ok(Some(UnixTime::from_millis((seconds * 1000.0).round() as i64)))
        }
        Kind::Null => reader.null().map(|_| None),
        Kind::String => Err(Refusal::shape("STRING_VALUE cannot be converted to Date")),
        other => Err(unconvertible(other, "Date")),
    }
}

fn whole(reader: &mut Reader<'_>, java: &str, low: i64, high: i64) -> Read<Option<Integer>> {
    match reader.kind()? {
        Kind::Number => {
            let written = reader.number()?;
            let beyond = if written.starts_with('-') { low } else { high };
            let value = written.parse().unwrap_or(beyond).clamp(low, high);
            Ok(Some(Integer { value, coerced: written.parse() != Ok(value) }))
        }
        Kind::Decimal => {
            let written: f64 = reader.number()?.parse().map_err(|_| Refusal::Unreadable)?;
            // Casts from floating point saturate.
            let value = (written.trunc() as i64).clamp(low, high);
            Ok(Some(Integer { value, coerced: written.fract() != 0.0 || written != value as f64 }))
        }
        Kind::Null => reader.null().map(|_| None),
        Kind::String => Err(Refusal::Shape(format!("STRING_VALUE cannot be converted to {java}"))),
        other => Err(unconvertible(other, java)),
    }
}

/// What is said when `found` stands where a plain value of the type `java` belongs.
fn unconvertible(found: Kind, java: &str) -> Refusal {
    let value = match found {
        Kind::List => return Refusal::Shape(format!("Unrecognized collection type class java.lang.{java}")),
        Kind::Map => return Refusal::shape(MISPLACED_MAP),
        Kind::True => "TRUE_VALUE",
        Kind::False => "FALSE_VALUE",
        Kind::Decimal => "DECIMAL_VALUE",
        Kind::Number | Kind::String | Kind::Null => "NUMBER_VALUE",
    };
    Refusal::Shape(format!("{value} cannot be converted to {java}"))
}

/// The bytes of a base64 string, with the text they came from.
pub(crate) fn binary<'a>(reader: &mut Reader<'a>) -> Read<(Vec<u8>, Cow<'a, str>)> {
    use base64::Engine;
    match reader.kind()? {
        Kind::String => {}
        Kind::List => return Err(Refusal::shape("Unrecognized collection type class java.nio.ByteBuffer")),
        Kind::Map => return Err(Refusal::shape(MISPLACED_MAP)),
        _ => return Err(Refusal::shape("only base-64-encoded strings are convertible to bytes")),
    }
    let written = reader.string()?;
    if !written.len().is_multiple_of(4) {
        let length = written.len();
        return Err(Refusal::Shape(format!(
            "Base64 encoded length is expected a multiple of 4 bytes but found: {length}"
        )));
    }
    match base64::engine::general_purpose::STANDARD.decode(written.as_bytes()) {
        Ok(bytes) => Ok((bytes, written)),
        Err(_) => Err(Refusal::shape("Invalid last non-pad Base64 character dectected")),
    }
}

/// A list of structures. False when there is none.
pub(crate) fn list<'a>(
    reader: &mut Reader<'a>,
    mut each: impl FnMut(&mut Reader<'a>) -> Read<()>,
) -> Read<bool> {
    values(reader, |reader| {
        reader.charge(STRUCTURE_BYTES)?;
        each(reader)
    })
}

/// A list of what counts itself. False when there is none.
pub(crate) fn values<'a>(
    reader: &mut Reader<'a>,
    each: impl FnMut(&mut Reader<'a>) -> Read<()>,
) -> Read<bool> {
    match reader.kind()? {
        Kind::List => reader.elements(each).map(|()| true),
        Kind::Null => reader.null().map(|_| false),
        Kind::Map => Err(Refusal::shape(MISPLACED_MAP)),
        _ => Err(Refusal::shape("Unexpected field type")),
    }
}

pub(crate) fn texts(reader: &mut Reader<'_>) -> Read<Option<Vec<String>>> {
    let mut found = Vec::new();
    let present = values(reader, |reader| {
        if let Some(text) = text(reader)? {
            reader.charge(2 * size_of::<String>())?;
            reader.charge_text(text.len())?;
            found.push(text.into_owned());
        }
        Ok(())
    })?;
    Ok(present.then_some(found))
}

/// A map from names to values of the class `value`. False when there is none.
pub(crate) fn map<'a>(
    reader: &mut Reader<'a>,
    value: &str,
    each: impl FnMut(&mut Reader<'a>, Cow<'a, str>) -> Read<()>,
) -> Read<bool> {
    match reader.kind()? {
        Kind::Map => reader.members(each).map(|()| true),
        Kind::Null => reader.null().map(|_| false),
        Kind::List => {
            let value = if value.contains('.') { value.to_owned() } else { class(value) };
            Err(Refusal::Shape(format!(
                "Unrecognized collection type java.util.Map<java.lang.String, {value}>"
            )))
        }
        _ => Err(Refusal::shape("Unexpected field type")),
    }
}

/// A structure of the class `name`, as a member. False when there is none.
pub(crate) fn structure<'a>(
    reader: &mut Reader<'a>,
    name: &str,
    each: impl FnMut(&mut Reader<'a>, Cow<'a, str>) -> Read<()>,
) -> Read<bool> {
    structured(reader, name, "Unexpected field type", each)
}

/// A structure of the class `name`, as an element of a list or a value of a map. False when it is null.
pub(crate) fn element<'a>(
    reader: &mut Reader<'a>,
    name: &str,
    each: impl FnMut(&mut Reader<'a>, Cow<'a, str>) -> Read<()>,
) -> Read<bool> {
    structured(reader, name, "Unexpected value type in payload", each)
}

fn structured<'a>(
    reader: &mut Reader<'a>,
    name: &str,
    otherwise: &str,
    each: impl FnMut(&mut Reader<'a>, Cow<'a, str>) -> Read<()>,
) -> Read<bool> {
    match reader.kind()? {
        Kind::Map => reader.members(each).map(|()| true),
        Kind::Null => reader.null().map(|_| false),
        Kind::List => Err(Refusal::Shape(format!("Unrecognized collection type class {}", class(name)))),
        _ => Err(Refusal::shape(otherwise)),
    }
}

/// Refuses what is no list or map where a list or map of generic type belongs inside another.
pub(crate) fn parameterized(reader: &mut Reader<'_>, expected: Kind) -> Read<()> {
    let found = reader.kind()?;
    if found == expected || found == Kind::Null {
        return Ok(());
    }
    Err(Refusal::shape(
        "class sun.reflect.generics.reflectiveObjects.ParameterizedTypeImpl cannot be cast to class \
         java.lang.Class (sun.reflect.generics.reflectiveObjects.ParameterizedTypeImpl and java.lang.Class \
         are in module java.base of loader 'bootstrap')",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(json: &str, read: fn(&mut Reader<'_>) -> Option<Refusal>, expected: &str) {
        assert_eq!(read(&mut Reader::new(json)), Some(Refusal::shape(expected)), "{json}");
    }

    #[test]
    fn a_wrong_type_is_named() {
        check("1", |reader| text(reader).err(), "NUMBER_VALUE cannot be converted to String");
        check("-0", |reader| text(reader).err(), "NUMBER_VALUE cannot be converted to String");
        check("1e3", |reader| text(reader).err(), "DECIMAL_VALUE cannot be converted to String");
        check("true", |reader| text(reader).err(), "TRUE_VALUE cannot be converted to String");
        check("[]", |reader| text(reader).err(), "Unrecognized collection type class java.lang.String");
        check("{}", |reader| text(reader).err(), MISPLACED_MAP);
        check("\"maybe\"", |reader| boolean(reader).err(), "Unexpected token received from parser");
        check(
            "99999999999999999999",
            |reader| boolean(reader).err(),
            "NUMBER_VALUE cannot be converted to Boolean",
        );
        check("[]", |reader| boolean(reader).err(), "Unrecognized collection type class java.lang.Boolean");
        check("\"1\"", |reader| integer(reader).err(), "STRING_VALUE cannot be converted to Integer");
        check("false", |reader| long(reader).err(), "FALSE_VALUE cannot be converted to Long");
        check("{}", |reader| texts(reader).err(), MISPLACED_MAP);
        check("\"a\"", |reader| texts(reader).err(), "Unexpected field type");
        check("[1]", |reader| texts(reader).err(), "NUMBER_VALUE cannot be converted to String");
        check("1", |reader| binary(reader).err(), "only base-64-encoded strings are convertible to bytes");
        check(
            "\"abc\"",
            |reader| binary(reader).err(),
            "Base64 encoded length is expected a multiple of 4 bytes but found: 3",
        );
        check("\"ab==\"", |reader| binary(reader).err(), "Invalid last non-pad Base64 character dectected");
    }

    #[test]
    fn whole_numbers_saturate_and_lose_fractions() {
        for (text, value, coerced) in [
            ("5", 5, false),
            ("-0", 0, false),
            ("5.0", 5, false),
            ("5.9", 5, true),
            ("-5.9", -5, true),
            ("2147483648", 2_147_483_647, true),
            ("-99999999999999999999", -2_147_483_648, true),
            ("1e99", 2_147_483_647, true),
        ] {
            assert_eq!(integer(&mut Reader::new(text)), Ok(Some(Integer { value, coerced })), "{text}");
        }
    }

    #[test]
    fn a_timestamp_is_taken_to_the_millisecond() {
        for (text, millis) in
            [("1800000000", 1_800_000_000_000), ("1800000000.0015", 1_800_000_000_002), ("-1e-3", -1)]
        {
            let read = timestamp(&mut Reader::new(text));
            assert_eq!(read, Ok(Some(UnixTime::from_millis(millis))), "{text}");
        }
        check("\"now\"", |reader| timestamp(reader).err(), "STRING_VALUE cannot be converted to Date");
    }

    #[test]
    fn null_is_absent() {
        assert_eq!(text(&mut Reader::new("null")), Ok(None));
        assert_eq!(boolean(&mut Reader::new("null")), Ok(None));
        assert_eq!(integer(&mut Reader::new("null")), Ok(None));
        assert_eq!(texts(&mut Reader::new("null")), Ok(None));
    }
}
