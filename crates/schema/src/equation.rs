//! The small pure expressions: what they are, and what they mean.
//!
//! An expression is total. What cannot be worked out (a missing field, a host of something that is no URL, a
//! sum that overflows) is missing, and a missing value is less than any other. `sha256` of a template treats
//! a missing hole as empty, and is missing only when all are.

use std::cmp::Ordering;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan as _};
use larder_model::AttributeValue;
use psl::{List, Psl as _};

use crate::ast::BinaryOp;
use crate::schema::{Entity, Fields, Type};
use crate::template::{BuildError, Part, Template, sha256_hex};
use crate::value::Value;

#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    Field(String),
    /// A member of a map.
    Member(Box<Expr>, String),
    Now,
    Literal(Value),
    Template(Template),
    Call(Function, Box<Expr>),
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    Not(Box<Expr>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Function {
    /// Down to a multiple of so many milliseconds since 1970.
    Floor(i64),
    /// As seen in a time zone.
    In(String),
    Len,
    Lower,
    /// The host of a URL, in lower case.
    Host,
    /// The label before the public suffix.
    PslCore,
    /// In hexadecimal.
    Sha256,
    IsoWeek,
    IsoYear,
}

impl Function {
    pub const NAMES: [&str; 9] =
        ["floor", "in", "len", "lower", "host", "psl_core", "sha256", "iso_week", "iso_year"];

    pub fn name(&self) -> &'static str {
        match self {
            Self::Floor(_) => "floor",
            Self::In(_) => "in",
            Self::Len => "len",
            Self::Lower => "lower",
            Self::Host => "host",
            Self::PslCore => "psl_core",
            Self::Sha256 => "sha256",
            Self::IsoWeek => "iso_week",
            Self::IsoYear => "iso_year",
        }
    }
}

/// What an expression is worked out from.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
    pub fields: &'a Fields,
    pub now: Timestamp,
}

impl Expr {
    /// The value, or `None` when something it needs is missing.
    pub fn evaluate(&self, scope: Scope<'_>) -> Option<Value> {
        match self {
            Self::Field(name) => scope.fields.get(name).cloned(),
            Self::Member(of, name) => match of.evaluate(scope)? {
                Value::Map(map) => map.get(name).cloned(),
                Value::Raw(AttributeValue::M(map)) => map.get(name).map(|value| match value {
                    AttributeValue::S(text) => Value::Text(text.clone()),
                    AttributeValue::N(number) => Value::Number(*number),
                    AttributeValue::Bool(value) => Value::Bool(*value),
                    other => Value::Raw(other.clone()),
                }),
                _ => None,
            },
            Self::Now => Some(Value::Instant(scope.now)),
            Self::Literal(value) => Some(value.clone()),
            Self::Template(template) => template.build(scope.fields).ok().map(Value::Text),
            Self::Call(Function::Sha256, argument) => digest(argument, scope).map(Value::Text),
            Self::Call(function, argument) => match &**argument {
                // A list is not copied to be counted.
                Self::Field(name) => function.apply(scope.fields.get(name)?),
                other => function.apply(&other.evaluate(scope)?),
            },
            Self::Not(inner) => Some(Value::Bool(!inner.holds(scope))),
            Self::Binary(operator, left, right) => binary(*operator, left, right, scope),
        }
    }

    /// Whether a condition holds. A missing value does not.
    pub fn holds(&self, scope: Scope<'_>) -> bool {
        self.evaluate(scope) == Some(Value::Bool(true))
    }

    /// The fields it mentions.
    pub fn fields(&self) -> Vec<&str> {
        let mut names = Vec::new();
        self.collect(&mut names);
        names
    }

    fn collect<'a>(&'a self, names: &mut Vec<&'a str>) {
        match self {
            Self::Field(name) => names.push(name),
            Self::Member(inner, _) | Self::Not(inner) | Self::Call(_, inner) => inner.collect(names),
            Self::Now | Self::Literal(_) => {}
            Self::Template(template) => names.extend(template.holes().map(|hole| hole.field.as_str())),
            Self::Binary(_, left, right) => {
                left.collect(names);
                right.collect(names);
            }
        }
    }

    /// Whether it depends on when it is worked out.
    pub fn mentions_now(&self) -> bool {
        match self {
            Self::Now => true,
            Self::Field(_) | Self::Literal(_) | Self::Template(_) => false,
            Self::Member(inner, _) | Self::Not(inner) | Self::Call(_, inner) => inner.mentions_now(),
            Self::Binary(_, left, right) => left.mentions_now() || right.mentions_now(),
        }
    }

    /// The expression as it is written in a schema.
    pub fn source(&self) -> String {
        match self {
            Self::Field(name) => name.clone(),
            Self::Member(of, name) => format!("{}.{name}", of.source()),
            Self::Now => "now".to_owned(),
            Self::Literal(value) => literal_source(value),
            Self::Template(template) => format!("\"{}\"", template.source()),
            Self::Call(Function::Sha256, argument) => format!("sha256({})", argument.source()),
            Self::Call(Function::Floor(millis), of) => {
                format!("{}.floor({})", of.source(), duration_source(*millis))
            }
            Self::Call(Function::In(zone), of) => format!("{}.in({zone:?})", of.source()),
            Self::Call(function, of) => format!("{}.{}()", of.source(), function.name()),
            Self::Not(inner) => format!("not {}", inner.source()),
            Self::Binary(operator, left, right) => {
                format!("{} {} {}", left.source(), operator.symbol(), right.source())
            }
        }
    }
}

impl Function {
    fn apply(&self, value: &Value) -> Option<Value> {
        match self {
            Self::Floor(millis) => {
                let millis = i128::from((*millis).max(1));
                let nanos = value.as_instant()?.as_nanosecond();
                let step = millis * 1_000_000;
                Some(Value::Instant(Timestamp::from_nanosecond(nanos.div_euclid(step) * step).ok()?))
            }
            Self::In(zone) => Some(Value::Zoned(value.as_instant()?.to_zoned(TimeZone::get(zone).ok()?))),
            Self::Len => length(value),
            Self::Lower => Some(Value::Text(value.as_str()?.to_lowercase())),
            Self::Host => host(value.as_str()?).map(Value::Text),
            Self::PslCore => psl_core(value.as_str()?).map(Value::Text),
            Self::Sha256 => Some(Value::Text(sha256_hex(value.as_str()?.as_bytes()))),
            Self::IsoWeek => Some(Value::from(i64::from(iso(value)?.week()))),
            Self::IsoYear => Some(Value::from(i64::from(iso(value)?.year()))),
        }
    }
}

/// Characters, members or bytes.
fn length(value: &Value) -> Option<Value> {
    let length = match value {
        Value::Text(text) => text.chars().count(),
        Value::List(list) => list.len(),
        Value::Map(map) => map.len(),
        Value::Raw(AttributeValue::L(list)) => list.len(),
        Value::Bytes(bytes) => bytes.len(),
        _ => return None,
    };
    i64::try_from(length).ok().map(Value::from)
}

fn iso(value: &Value) -> Option<jiff::civil::ISOWeekDate> {
    Some(match value {
        Value::Date(date) => date.iso_week_date(),
        Value::Datetime(datetime) => datetime.date().iso_week_date(),
        Value::Zoned(zoned) => zoned.date().iso_week_date(),
        Value::Instant(instant) => instant.to_zoned(TimeZone::UTC).date().iso_week_date(),
        _ => return None,
    })
}

/// The host of a URL in lower case, without user, port or brackets.
fn host(url: &str) -> Option<String> {
    let (_, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority.rsplit('@').next()?;
    let host = match host.strip_prefix('[') {
        Some(address) => address.split(']').next()?,
        None => host.split(':').next()?,
    };
    (!host.is_empty()).then(|| host.to_lowercase())
}

/// The label before the public suffix: `example` of `www.example.co.uk`. An address has no suffix, and so no core.
fn psl_core(domain: &str) -> Option<String> {
    let lower = domain.to_lowercase();
    let is_port = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let host = match lower.rsplit_once(':') {
        // An IPv6 address has colons of its own.
        Some((host, port)) if is_port(port) && (host.ends_with(']') || !host.contains(':')) => host,
        _ => &lower,
    };
    let host = host.trim_end_matches('.');
    if host.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok() {
        return None;
    }
    let found = List.domain(host.as_bytes())?;
    let name = std::str::from_utf8(found.as_bytes()).ok()?;
    let suffix = std::str::from_utf8(found.suffix().as_bytes()).ok()?;
    let core = name.strip_suffix(suffix)?.strip_suffix('.')?;
    (!core.is_empty()).then(|| core.to_owned())
}

fn digest(argument: &Expr, scope: Scope<'_>) -> Option<String> {
    let Expr::Template(template) = argument else {
        return Some(sha256_hex(argument.evaluate(scope)?.as_str()?.as_bytes()));
    };
    let mut text = String::new();
    let mut any = template.holes().next().is_none();
    for part in &template.parts {
        match part {
            Part::Text(piece) => text.push_str(piece),
            Part::Hole(hole) => {
                if let Some(value) = scope.fields.get(&hole.field) {
                    any = true;
                    text.push_str(&hole.write(value)?);
                }
            }
        }
    }
    any.then(|| sha256_hex(text.as_bytes()))
}

fn binary(operator: BinaryOp, left: &Expr, right: &Expr, scope: Scope<'_>) -> Option<Value> {
    match operator {
        BinaryOp::And => return Some(Value::Bool(left.holds(scope) && right.holds(scope))),
        BinaryOp::Or => return Some(Value::Bool(left.holds(scope) || right.holds(scope))),
        _ => {}
    }
    let (left, right) = (left.evaluate(scope), right.evaluate(scope));
    if let BinaryOp::Add | BinaryOp::Subtract = operator {
        return sum(left?, right?, operator == BinaryOp::Subtract);
    }
    let order = match (&left, &right) {
        (None, None) => Ordering::Equal,
        (None, Some(_)) => Ordering::Less,
        (Some(_), None) => Ordering::Greater,
        (Some(left), Some(right)) => left.compare(right)?,
    };
    Some(Value::Bool(match operator {
        BinaryOp::Equal => order.is_eq(),
        BinaryOp::NotEqual => order.is_ne(),
        BinaryOp::Less => order.is_lt(),
        BinaryOp::LessOrEqual => order.is_le(),
        BinaryOp::Greater => order.is_gt(),
        BinaryOp::GreaterOrEqual => order.is_ge(),
        BinaryOp::And | BinaryOp::Or | BinaryOp::Add | BinaryOp::Subtract => return None,
    }))
}

fn sum(left: Value, right: Value, subtract: bool) -> Option<Value> {
    match (left, right) {
        (Value::Number(a), Value::Number(b)) => {
            Some(Value::Number(if subtract { a.checked_sub(b) } else { a.checked_add(b) }.ok()?))
        }
        (Value::Float(a), Value::Float(b)) => Some(Value::Float(if subtract { a - b } else { a + b })),
        (Value::Duration(a), Value::Duration(b)) => {
            Some(Value::Duration(if subtract { a.checked_sub(b)? } else { a.checked_add(b)? }))
        }
        (Value::Date(date), Value::Duration(duration)) => {
            let days = duration.as_hours() / 24;
            Some(Value::Date(date.checked_add((if subtract { -days } else { days }).days()).ok()?))
        }
        (moment, Value::Duration(duration)) => {
            let duration: SignedDuration = if subtract { -duration } else { duration };
            Some(Value::Instant(moment.as_instant()?.checked_add(duration).ok()?))
        }
        (a, b) if subtract => Some(Value::Duration(a.as_instant()?.duration_since(b.as_instant()?))),
        _ => None,
    }
}

impl Entity {
    /// Works out every computed field, in order. What is given stays; what cannot be worked out is left out.
    /// With `creating` false, fields `on create` are left as they are.
    pub fn compute(&self, fields: &mut Fields, now: Timestamp, creating: bool) {
        let wanted: Vec<usize> =
            self.order.iter().copied().filter(|&at| creating || !self.fields[at].on_create).collect();
        self.compute_some(fields, now, &wanted);
    }

    /// Works out some of the computed fields, by their places, in the order given.
    pub fn compute_some(&self, fields: &mut Fields, now: Timestamp, places: &[usize]) {
        for field in places.iter().filter_map(|&at| self.fields.get(at)) {
            let Some(equation) = &field.equation else { continue };
            let value = equation.evaluate(Scope { fields, now }).map(|value| conformed(value, &field.kind));
            match value {
                Some(value) => fields.insert(field.name.clone(), value),
                None => fields.remove(&field.name),
            };
        }
    }

    /// The texts of the table's key, computed fields already in place.
    pub fn key(&self, fields: &Fields) -> Result<(Value, Option<Value>), BuildError> {
        let part = |source: &crate::schema::KeySource| match source {
            crate::schema::KeySource::Template(template) => template.build(fields).map(Value::Text),
            crate::schema::KeySource::Field(name) => {
                fields.get(name).cloned().ok_or_else(|| BuildError::Missing(name.clone()))
            }
        };
        Ok((part(&self.partition)?, self.sort.as_ref().map(part).transpose()?))
    }
}

/// A moment is kept at the precision it is stored with, so what is written is what is read.
pub fn conformed(value: Value, kind: &Type) -> Value {
    let Some(step) = kind.step_nanos() else { return value };
    match &value {
        Value::Instant(instant) => {
            let nanos = instant.as_nanosecond().div_euclid(step) * step;
            Timestamp::from_nanosecond(nanos).map(Value::Instant).unwrap_or(value)
        }
        _ => value,
    }
}

fn literal_source(value: &Value) -> String {
    match value {
        Value::Text(text) => format!("{text:?}"),
        Value::Number(number) => number.to_string(),
        Value::Float(float) => float.to_string(),
        Value::Bool(value) => value.to_string(),
        Value::Duration(duration) => duration_source(i64::try_from(duration.as_millis()).unwrap_or(0)),
        _ => "[]".to_owned(),
    }
}

/// Milliseconds in the largest unit that holds them whole.
pub fn duration_source(millis: i64) -> String {
    for (unit, size) in [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000)] {
        if millis != 0 && millis % size == 0 {
            return format!("{}{unit}", millis / size);
        }
    }
    format!("{millis}ms")
}
