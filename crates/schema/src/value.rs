//! Values as the schema language sees them, and their form in a store.
//!
//! An `instant` is kept as ISO 8601 text in UTC with one precision, so text order is time order; a moment that is finer
//! is kept whole, and refused where order matters. What other programs write is read in every form of UTC: with or
//! without a fraction, ended by `Z` or `+00:00`. Any other offset would sort elsewhere, and is no instant. An `epoch`
//! is Unix seconds; a `duration` is seconds; a `datetime` has no zone, and a text with one is none. A float is kept as
//! the shortest number that reads back the same.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, Zoned};
use larder_model::{AttributeValue, Number};

use crate::schema::{Precision, Type};

/// A value of a field, as records have it.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A text.
    Text(String),
    /// A whole number, or one of so many decimals.
    Number(Number),
    /// A number that need not be exact.
    Float(f64),
    /// True or false.
    Bool(bool),
    /// Bytes.
    Bytes(Vec<u8>),
    /// A moment.
    Instant(Timestamp),
    /// An instant seen from a place: what `in(zone)` gives.
    Zoned(Zoned),
    /// A day.
    Date(Date),
    /// A day and a time of day, in no zone.
    Datetime(DateTime),
    /// A length of time.
    Duration(SignedDuration),
    /// Several values in order; also the members of a set.
    List(Vec<Value>),
    /// Values by name: a map, or a named type.
    Map(BTreeMap<String, Value>),
    /// A `json` value, as it is stored.
    Raw(AttributeValue),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Number(number.into())
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Float(number)
    }
}

impl Value {
    /// The whole number this is, if it is one.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Self::Number(number) => number.to_i64(),
            _ => None,
        }
    }

    /// The text, if it is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The moment this is, if it is one.
    pub fn as_instant(&self) -> Option<Timestamp> {
        match self {
            Self::Instant(instant) => Some(*instant),
            Self::Zoned(zoned) => Some(zoned.timestamp()),
            _ => None,
        }
    }

    /// How two values of one type compare; `None` when their types do not.
    pub fn compare(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Text(a), Self::Text(b)) => Some(a.as_bytes().cmp(b.as_bytes())),
            (Self::Number(a), Self::Number(b)) => Some(a.cmp(b)),
            (Self::Float(a), Self::Float(b)) => a.partial_cmp(b),
            (Self::Number(a), Self::Float(b)) => number_to_f64(a).partial_cmp(b),
            (Self::Float(a), Self::Number(b)) => a.partial_cmp(&number_to_f64(b)),
            (Self::Bool(a), Self::Bool(b)) => Some(a.cmp(b)),
            (Self::Bytes(a), Self::Bytes(b)) => Some(a.cmp(b)),
            (Self::Date(a), Self::Date(b)) => Some(a.cmp(b)),
            (Self::Datetime(a), Self::Datetime(b)) => Some(a.cmp(b)),
            (Self::Duration(a), Self::Duration(b)) => Some(a.cmp(b)),
            (a, b) => Some(a.as_instant()?.cmp(&b.as_instant()?)),
        }
    }

    /// The form of this value in a store. `None` when the value is not of the type.
    pub fn to_attribute(&self, kind: &Type) -> Option<AttributeValue> {
        Some(match (kind, self) {
            (Type::Json, Self::Raw(value)) => value.clone(),
            (Type::Instant(precision), value) => {
                AttributeValue::S(instant_exact(value.as_instant()?, *precision))
            }
            (Type::Epoch, Self::Number(number)) => AttributeValue::N(*number),
            (Type::Epoch, value) => AttributeValue::from(value.as_instant()?.as_second()),
            (Type::Date, Self::Date(date)) => AttributeValue::S(date.to_string()),
            (Type::Datetime, Self::Datetime(datetime)) => AttributeValue::S(datetime.to_string()),
            (Type::Duration, Self::Duration(duration)) => AttributeValue::N(duration_number(*duration)),
            (Type::Int | Type::Decimal | Type::Sequence | Type::Float, Self::Number(number)) => {
                AttributeValue::N(*number)
            }
            (Type::Float, Self::Float(float)) => AttributeValue::N(float_number(*float)?),
            (Type::Bool, Self::Bool(value)) => AttributeValue::Bool(*value),
            (Type::Bytes, Self::Bytes(bytes)) => AttributeValue::B(bytes.clone()),
            (Type::String | Type::Uuid { .. } | Type::Url | Type::Choice(_), Self::Text(text)) => {
                AttributeValue::S(text.clone())
            }
            (Type::List(inner), Self::List(values)) => AttributeValue::L(
                values.iter().map(|value| value.to_attribute(&inner.kind)).collect::<Option<_>>()?,
            ),
            (Type::Map(inner), Self::Map(map)) => AttributeValue::M(
                map.iter()
                    .map(|(name, value)| Some((name.clone(), value.to_attribute(&inner.kind)?)))
                    .collect::<Option<_>>()?,
            ),
            (Type::Set(inner), Self::List(values)) => {
                set_of(values.iter().map(|value| value.to_attribute(inner)).collect::<Option<_>>()?)?
            }
            _ => return None,
        })
    }

    /// Reads a stored value. `None` when it does not have the form of the type. The fields of a named type
    /// are known to the schema alone: see [`crate::Schema::decode`].
    pub fn from_attribute(kind: &Type, stored: &AttributeValue) -> Option<Self> {
        Some(match (kind, stored) {
            (Type::Json | Type::Named(_), value) => Self::Raw(value.clone()),
            (Type::Instant(_), AttributeValue::S(text)) => Self::Instant(utc(text)?),
            (Type::Epoch, AttributeValue::N(number)) => {
                Self::Instant(Timestamp::from_second(number.to_i64()?).ok()?)
            }
            (Type::Date, AttributeValue::S(text)) => Self::Date(civil_date(text)?),
            (Type::Datetime, AttributeValue::S(text)) => Self::Datetime(civil_datetime(text)?),
            (Type::Duration, AttributeValue::N(number)) => Self::Duration(duration_of(number)?),
            (Type::Float, AttributeValue::N(number)) => Self::Float(number_to_f64(number)),
            (Type::Int | Type::Sequence, AttributeValue::N(number)) => {
                number.to_i64()?;
                Self::Number(*number)
            }
            (Type::Decimal, AttributeValue::N(number)) => Self::Number(*number),
            (Type::Bool, AttributeValue::Bool(value)) => Self::Bool(*value),
            (Type::Bytes, AttributeValue::B(bytes)) => Self::Bytes(bytes.clone()),
            (Type::Choice(choices), AttributeValue::S(text)) if !choices.contains(text) => return None,
            (Type::String | Type::Uuid { .. } | Type::Url | Type::Choice(_), AttributeValue::S(text)) => {
                Self::Text(text.clone())
            }
            (Type::List(inner), AttributeValue::L(values)) => Self::List(
                values.iter().map(|value| Self::from_attribute(&inner.kind, value)).collect::<Option<_>>()?,
            ),
            (Type::Map(inner), AttributeValue::M(item)) => Self::Map(
                item.iter()
                    .map(|(name, value)| Some((name.clone(), Self::from_attribute(&inner.kind, value)?)))
                    .collect::<Option<_>>()?,
            ),
            (Type::Set(inner), stored) => Self::List(
                members_of(stored)?
                    .iter()
                    .map(|value| Self::from_attribute(inner, value))
                    .collect::<Option<_>>()?,
            ),
            _ => return None,
        })
    }

    /// Whether it is a set without members, which DynamoDB does not keep: its attribute is left out.
    pub fn is_left_out(&self, kind: &Type) -> bool {
        matches!((kind, self), (Type::Set(_), Self::List(members)) if members.is_empty())
    }
}

/// Stored values as one set. `None` when there are none, or they are not of one kind that sets hold.
fn set_of(values: Vec<AttributeValue>) -> Option<AttributeValue> {
    let text = |value: AttributeValue| match value {
        AttributeValue::S(text) => Some(text),
        _ => None,
    };
    let bytes = |value: AttributeValue| match value {
        AttributeValue::B(bytes) => Some(bytes),
        _ => None,
    };
    let number = |value: AttributeValue| value.as_number().copied();
    Some(match values.first()? {
        AttributeValue::S(_) => AttributeValue::Ss(values.into_iter().map(text).collect::<Option<_>>()?),
        AttributeValue::N(_) => AttributeValue::Ns(values.into_iter().map(number).collect::<Option<_>>()?),
        AttributeValue::B(_) => AttributeValue::Bs(values.into_iter().map(bytes).collect::<Option<_>>()?),
        _ => return None,
    })
}

/// What a stored set holds.
pub(crate) fn members_of(stored: &AttributeValue) -> Option<Vec<AttributeValue>> {
    Some(match stored {
        AttributeValue::Ss(texts) => texts.iter().cloned().map(AttributeValue::S).collect(),
        AttributeValue::Ns(numbers) => numbers.iter().copied().map(AttributeValue::N).collect(),
        AttributeValue::Bs(all) => all.iter().cloned().map(AttributeValue::B).collect(),
        _ => return None,
    })
}

/// ISO 8601 in UTC, always of the same length, so that text order is time order. What is finer is cut.
pub fn instant_text(instant: Timestamp, precision: Precision) -> String {
    let pattern = match precision {
        Precision::Seconds => "%Y-%m-%dT%H:%M:%SZ",
        Precision::Millis => "%Y-%m-%dT%H:%M:%S.%3fZ",
        Precision::Micros => "%Y-%m-%dT%H:%M:%S.%6fZ",
    };
    instant.to_zoned(TimeZone::UTC).strftime(pattern).to_string()
}

/// The same, with as many more digits as the moment has.
pub fn instant_exact(instant: Timestamp, precision: Precision) -> String {
    let finer = [Precision::Millis, Precision::Micros];
    let holds = |precision: &Precision| instant.as_nanosecond() % precision.nanos() == 0;
    match std::iter::once(precision).chain(finer).find(holds) {
        Some(precision) => instant_text(instant, precision),
        None => instant.to_zoned(TimeZone::UTC).strftime("%Y-%m-%dT%H:%M:%S.%9fZ").to_string(),
    }
}

impl Type {
    /// The step between two moments that a type tells apart, in nanoseconds.
    pub(crate) fn step_nanos(&self) -> Option<i128> {
        match self {
            Self::Instant(precision) => Some(precision.nanos()),
            Self::Epoch => Some(Precision::Seconds.nanos()),
            _ => None,
        }
    }
}

impl Precision {
    fn nanos(self) -> i128 {
        match self {
            Self::Seconds => 1_000_000_000,
            Self::Millis => 1_000_000,
            Self::Micros => 1_000,
        }
    }
}

/// A moment as a store has it: in UTC, begun as text order needs it.
pub(crate) fn utc(text: &str) -> Option<Timestamp> {
    let (whole, rest) = text.split_at_checked("2026-01-15T10:00:00".len())?;
    let fraction = rest.strip_suffix('Z').or_else(|| rest.strip_suffix("+00:00"))?;
    let digits = fraction.strip_prefix('.').unwrap_or("0");
    let is_formed = whole.as_bytes().get(10) == Some(&b'T')
        && whole.bytes().skip(11).all(|byte| byte.is_ascii_digit() || byte == b':')
        && (fraction.is_empty() || fraction.starts_with('.'))
        && !digits.is_empty()
        && digits.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_formed)
}

/// A date alone.
pub fn civil_date(text: &str) -> Option<Date> {
    // What has a time behind it would lose it.
    text.parse().ok().filter(|_| text.len() == "2026-01-15".len())
}

/// A date and time without a zone.
pub fn civil_datetime(text: &str) -> Option<DateTime> {
    let time = text.get("2026-01-15".len()..)?;
    // An offset would be dropped, and with it what the time means.
    text.parse().ok().filter(|_| !time.contains(['+', '-', 'Z', 'z', '[']))
}

/// Whole numbers up to this are floats too, and need not be written out to become one.
const EXACT_MAX: i64 = 1 << 53;

pub(crate) fn number_to_f64(number: &Number) -> f64 {
    if let Some(whole) = number.to_i64().filter(|whole| whole.unsigned_abs() <= EXACT_MAX.unsigned_abs()) {
        return whole as f64;
    }
    number.to_string().parse().unwrap_or(f64::NAN)
}

pub(crate) fn float_number(float: f64) -> Option<Number> {
    if !float.is_finite() {
        return None;
    }
    if float.fract() == 0.0 && float.abs() <= EXACT_MAX as f64 {
        return Some(Number::from(float as i64));
    }
    format!("{float:e}").parse().ok()
}

/// Seconds, with all that a duration holds.
pub(crate) fn duration_number(duration: SignedDuration) -> Number {
    let nanos = duration.as_nanos();
    format!("{nanos}e-9").parse().unwrap_or_else(|_| Number::from(duration.as_secs()))
}

/// What so many seconds are, to the nanosecond.
fn duration_of(seconds: &Number) -> Option<SignedDuration> {
    let nanos = format!("{seconds}e9").parse::<Number>().ok().and_then(|nanos| nanos.to_i64());
    match nanos {
        Some(nanos) => Some(SignedDuration::from_nanos(nanos)),
        None => SignedDuration::try_from_secs_f64(number_to_f64(seconds)).ok(),
    }
}
