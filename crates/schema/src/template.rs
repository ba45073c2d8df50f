//! Key templates: build a key from fields, read fields back from a key.
//!
//! A template that passed [`Template::ambiguity`] has one reading: the leading holes are found from the left,
//! the trailing ones from the right, and at most one in between takes the rest. What a format drops cannot
//! come back: `{lat:.4f}` reads a number of four decimals, `{day:%Y-%m}` reads the text `2024-02`.
//!
//! Promises:
//! - `build(read(key)) == key` for every key that `read` accepts.
//! - `read(build(fields))` gives the fields as the formats keep them.
//! - A `fit` hole over the limit ends in `~` and a SHA-256 digest; such a key is recognised, and its field is
//!   then read from the item.

use std::borrow::Cow;
use std::collections::HashSet;

use jiff::civil::{Date, DateTime, ISOWeekDate, Weekday};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use larder_model::Number;
use sha2::{Digest, Sha256};

use crate::schema::{Checks, Fields, Precision, Type};
use crate::shape::{CharSet, Pattern, Shape};
use crate::value::{Value, civil_date, instant_text, number_to_f64};

/// Room for most keys, so that they are made in one piece of memory.
const KEY_BYTES: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    pub parts: Vec<Part>,
    /// Bytes a key of this kind may have: 2048 for a partition key, 1024 for a sort key.
    pub bytes_limit: Option<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    Text(String),
    Hole(Hole),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hole {
    pub field: String,
    pub kind: Type,
    pub format: Format,
    /// What its text may look like.
    pub shape: Shape,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Format {
    Plain,
    /// `02`: leading zeros.
    Pad(usize),
    /// `.4f`: decimals.
    Fixed(usize),
    /// `%Y%m%d`
    Date(Vec<DatePart>),
    /// Unix seconds.
    Unix,
    /// Ends in a digest when the key would be too long.
    Fit,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DatePart {
    Text(char),
    /// The letter after `%`.
    Field(char),
}

/// Why a key could not be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    #[error("`{0}` is missing")]
    Missing(String),
    #[error("`{field}` is {value}, which does not fit `{{{field}{format}}}`")]
    Unfit { field: String, value: String, format: String },
    #[error("the key would have {bytes} bytes; {limit} are allowed")]
    TooLong { bytes: usize, limit: usize },
}

/// What a key says.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    pub fields: Fields,
    /// The field whose value was too long and ends in a digest: the item holds it.
    pub digested: Option<String>,
}

/// Two holes between which a key can be cut in more than one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ambiguity {
    pub first: String,
    pub second: String,
    /// The places of the two holes in `parts`.
    pub parts: (usize, usize),
    /// What stands between them; nothing when empty.
    pub between: String,
}

const DIGEST_CHARS: usize = 64;
const DIGEST_MARK: char = '~';

impl Template {
    /// A template without holes.
    pub fn constant(text: &str) -> Self {
        Self { parts: vec![Part::Text(text.to_owned())], bytes_limit: None }
    }

    pub fn holes(&self) -> impl Iterator<Item = &Hole> {
        self.parts.iter().filter_map(|part| match part {
            Part::Hole(hole) => Some(hole),
            Part::Text(_) => None,
        })
    }

    /// The key these fields make.
    pub fn build(&self, fields: &Fields) -> Result<String, BuildError> {
        self.build_from(|name| fields.get(name).map(Cow::Borrowed))
    }

    /// The key that is made of what these fields are said to be.
    pub fn build_from<'v>(
        &self,
        field: impl Fn(&str) -> Option<Cow<'v, Value>>,
    ) -> Result<String, BuildError> {
        let mut key = String::with_capacity(KEY_BYTES);
        let mut fit = None;
        for part in &self.parts {
            match part {
                Part::Text(text) => key.push_str(text),
                Part::Hole(hole) => {
                    let value = field(&hole.field).ok_or_else(|| BuildError::Missing(hole.field.clone()))?;
                    let text = hole.write(&value).ok_or_else(|| BuildError::Unfit {
                        field: hole.field.clone(),
                        value: crate::record::shown(&value),
                        format: hole.format.suffix(),
                    })?;
                    if hole.format == Format::Fit {
                        fit = Some(key.len());
                    }
                    key.push_str(&text);
                }
            }
        }
        let Some(limit) = self.bytes_limit else { return Ok(key) };
        match fit {
            Some(start) if key.len() > limit || is_digested(&key, limit) => Ok(digested(&key, start, limit)),
            _ if key.len() > limit => Err(BuildError::TooLong { bytes: key.len(), limit }),
            _ => Ok(key),
        }
    }

    /// The fields a key was made from; `None` when this template did not make it.
    pub fn read(&self, key: &str) -> Option<Reading> {
        if self.bytes_limit.is_some_and(|limit| key.len() > limit) || key.len() > 64 * 1024 {
            return None;
        }
        let digest = self.bytes_limit.is_some_and(|limit| is_digested(key, limit))
            && self.holes().any(|hole| hole.format == Format::Fit);
        let mut reader = Reader { parts: &self.parts, key, digest, failed: HashSet::new() };
        let mut fields = Fields::new();
        if !reader.read(0, 0, &mut fields) {
            return None;
        }
        if digest {
            let fit = self.holes().find(|hole| hole.format == Format::Fit)?;
            fields.remove(&fit.field);
            return Some(Reading { fields, digested: Some(fit.field.clone()) });
        }
        // Leading zeros and the like: what reads but would be written differently was not written by us.
        let same = self.holes().all(Hole::is_verbatim) || self.build(&fields).is_ok_and(|built| built == key);
        same.then_some(Reading { fields, digested: None })
    }

    /// What every key begins with when only these fields are known: the longest certain beginning.
    pub fn prefix(&self, fields: &Fields) -> String {
        let mut prefix = String::new();
        for part in &self.parts {
            match part {
                Part::Text(text) => prefix.push_str(text),
                Part::Hole(hole) if hole.format == Format::Fit => break,
                Part::Hole(hole) => match fields.get(&hole.field).and_then(|value| hole.write(value)) {
                    Some(text) => prefix.push_str(&text),
                    None => break,
                },
            }
        }
        prefix
    }

    /// A key as it might look, for people.
    pub fn example(&self) -> String {
        self.parts
            .iter()
            .map(|part| match part {
                Part::Text(text) => text.clone(),
                Part::Hole(hole) => hole.example(),
            })
            .collect()
    }

    /// The holes that cannot be told apart, if any.
    pub fn ambiguity(&self) -> Option<Ambiguity> {
        let holes: Vec<usize> =
            (0..self.parts.len()).filter(|at| matches!(self.parts[*at], Part::Hole(_))).collect();
        let from_left = holes.iter().take_while(|at| self.ends_certainly(**at)).count();
        let from_right = holes.iter().rev().take_while(|at| self.starts_certainly(**at)).count();
        if from_left + from_right + 1 >= holes.len() {
            return None;
        }
        let (first, second) = (holes[from_left], holes[from_left + 1]);
        let name = |at: usize| match &self.parts[at] {
            Part::Hole(hole) => hole.field.clone(),
            Part::Text(_) => String::new(),
        };
        let between = match &self.parts[first + 1] {
            Part::Text(text) => text.clone(),
            Part::Hole(_) => String::new(),
        };
        Some(Ambiguity { first: name(first), second: name(second), parts: (first, second), between })
    }

    /// Whether a reader coming from the left knows where the hole ends.
    fn ends_certainly(&self, at: usize) -> bool {
        self.bounded(at, self.parts.get(at + 1), |text| text.chars().next())
    }

    /// Whether a reader coming from the right knows where the hole begins.
    fn starts_certainly(&self, at: usize) -> bool {
        self.bounded(at, at.checked_sub(1).and_then(|before| self.parts.get(before)), |text| {
            text.chars().last()
        })
    }

    fn bounded(&self, at: usize, neighbour: Option<&Part>, edge: impl Fn(&str) -> Option<char>) -> bool {
        let Part::Hole(hole) = &self.parts[at] else { return false };
        if hole.shape.is_fixed() {
            return true;
        }
        match neighbour {
            None => true,
            Some(Part::Text(text)) => edge(text).is_some_and(|c| !hole.shape.chars.contains(c)),
            Some(Part::Hole(next)) => next.shape.min > 0 && next.shape.chars.is_disjoint(&hole.shape.chars),
        }
    }

    /// Whether some text could have been made by either.
    pub fn may_equal(&self, other: &Self) -> bool {
        let apart = |a: Vec<CharSet>, b: Vec<CharSet>| a.iter().zip(&b).any(|(a, b)| a.is_disjoint(b));
        if apart(self.certain_places(false), other.certain_places(false))
            || apart(self.certain_places(true), other.certain_places(true))
        {
            return false;
        }
        let ((min, max), (other_min, other_max)) = (self.chars(), other.chars());
        max.is_none_or(|max| max >= other_min) && other_max.is_none_or(|max| max >= min)
    }

    /// The characters possible at the first (or last) places, as far as the places are known.
    fn certain_places(&self, from_the_end: bool) -> Vec<CharSet> {
        let mut places = Vec::new();
        let parts: Vec<&Part> =
            if from_the_end { self.parts.iter().rev().collect() } else { self.parts.iter().collect() };
        for part in parts {
            match part {
                Part::Text(text) => {
                    let mut sets: Vec<CharSet> = text.chars().map(|c| CharSet::range(c, c)).collect();
                    if from_the_end {
                        sets.reverse();
                    }
                    places.extend(sets);
                }
                Part::Hole(hole) => {
                    places.extend(std::iter::repeat_n(hole.shape.chars.clone(), hole.shape.min.min(4096)));
                    if !hole.shape.is_fixed() {
                        break;
                    }
                }
            }
            // The first few thousand places tell two keys apart, or nothing does.
            if places.len() >= 4096 {
                break;
            }
        }
        places
    }

    fn chars(&self) -> (usize, Option<usize>) {
        self.parts.iter().fold((0, Some(0)), |(min, max): (usize, Option<usize>), part| match part {
            Part::Text(text) => {
                let length = text.chars().count();
                (min.saturating_add(length), max.map(|max| max.saturating_add(length)))
            }
            Part::Hole(hole) => (
                min.saturating_add(hole.shape.min),
                max.zip(hole.shape.max).map(|(max, more)| max.saturating_add(more)),
            ),
        })
    }

    /// Characters, at least.
    pub fn chars_min(&self) -> usize {
        self.chars().0
    }

    /// Bytes, at most, where all its holes have a bound.
    pub fn bytes_max(&self) -> Option<usize> {
        self.parts.iter().try_fold(0usize, |sum, part| match part {
            Part::Text(text) => Some(sum.saturating_add(text.len())),
            Part::Hole(hole) => hole.shape.bytes_max().map(|bytes| sum.saturating_add(bytes)),
        })
    }

    /// The template as it is written in a schema, without its quotes.
    pub fn source(&self) -> String {
        self.parts
            .iter()
            .map(|part| match part {
                Part::Text(text) => {
                    text.replace('\\', "\\\\").replace('"', "\\\"").replace('{', "\\{").replace('}', "\\}")
                }
                Part::Hole(hole) => format!("{{{}{}}}", hole.field, hole.format.suffix()),
            })
            .collect()
    }
}

struct Reader<'a> {
    parts: &'a [Part],
    key: &'a str,
    digest: bool,
    /// Where reading on from a part and place is known to fail.
    failed: HashSet<(usize, usize)>,
}

impl Reader<'_> {
    fn read(&mut self, part: usize, at: usize, fields: &mut Fields) -> bool {
        let Some(here) = self.parts.get(part) else { return at == self.key.len() };
        if self.failed.contains(&(part, at)) {
            return false;
        }
        let rest = &self.key[at..];
        let found = match here {
            Part::Text(text) => {
                rest.starts_with(text.as_str()) && self.read(part + 1, at + text.len(), fields)
            }
            Part::Hole(hole) if self.digest && hole.format == Format::Fit => true,
            Part::Hole(hole) => self.hole(hole, part, at, fields),
        };
        if !found {
            self.failed.insert((part, at));
        }
        found
    }

    fn hole(&mut self, hole: &Hole, part: usize, at: usize, fields: &mut Fields) -> bool {
        let rest = &self.key[at..];
        let ends: Vec<usize> = if hole.shape.is_fixed() {
            let end = rest.char_indices().map(|(at, _)| at).chain([rest.len()]).nth(hole.shape.min);
            end.into_iter().collect()
        } else {
            match self.parts.get(part + 1) {
                None => vec![rest.len()],
                Some(Part::Text(text)) => rest.match_indices(text.as_str()).map(|(at, _)| at).collect(),
                Some(Part::Hole(_)) => rest.char_indices().map(|(at, _)| at).chain([rest.len()]).collect(),
            }
        };
        for end in ends {
            let text = &rest[..end];
            if !hole.shape.accepts(text) {
                continue;
            }
            let Some(value) = hole.parse(text) else { continue };
            // A field that stands twice says the same twice.
            if fields.get(&hole.field).is_some_and(|known| *known != value) {
                continue;
            }
            let before = fields.insert(hole.field.clone(), value);
            if self.read(part + 1, at + end, fields) {
                return true;
            }
            if before.is_none() {
                fields.remove(&hole.field);
            }
        }
        false
    }
}

impl Hole {
    /// Whether what it reads is the text itself.
    fn is_verbatim(&self) -> bool {
        let is_text = matches!(self.kind, Type::String | Type::Url | Type::Uuid { .. } | Type::Choice(_));
        is_text && matches!(self.format, Format::Plain | Format::Fit)
    }

    /// The value's text; `None` when the value does not fit.
    pub fn write<'a>(&self, value: &'a Value) -> Option<Cow<'a, str>> {
        let text = match (&self.format, value) {
            (Format::Plain | Format::Fit, Value::Text(text))
                if !matches!(self.kind, Type::Instant(_) | Type::Epoch) =>
            {
                Cow::from(text)
            }
            (Format::Plain | Format::Fit, value) => plain_text(value, &self.kind)?.into(),
            (Format::Pad(width), value) => {
                let (number, width) = (value.as_i64()?, *width);
                format!("{number:0width$}").into()
            }
            (Format::Fixed(decimals), value) => fixed_text(value, *decimals)?.into(),
            (Format::Unix, value) => value.as_instant()?.as_second().to_string().into(),
            // A pattern that does not name a whole day reads back as text, and is written back as it is.
            (Format::Date(parts), Value::Text(text)) if parse_date(parts, text).is_some() => Cow::from(text),
            (Format::Date(parts), value) => date_text(parts, civil(value)?)?.into(),
        };
        self.shape.accepts(&text).then_some(text)
    }

    /// The value a text stands for; `None` when this hole does not write such text.
    pub fn parse(&self, text: &str) -> Option<Value> {
        match &self.format {
            Format::Plain | Format::Fit => plain_value(text, &self.kind),
            Format::Pad(_) => Some(Value::Number(text.parse::<i64>().ok()?.into())),
            Format::Fixed(_) if self.kind == Type::Float => {
                text.parse::<f64>().ok().filter(|float| float.is_finite()).map(Value::Float)
            }
            Format::Fixed(_) => Some(Value::Number(text.parse().ok()?)),
            Format::Unix => Some(Value::Instant(Timestamp::from_second(text.parse().ok()?).ok()?)),
            Format::Date(parts) => {
                let seen = parse_date(parts, text)?;
                Some(match (&self.kind, seen.date(), seen.time()) {
                    (Type::Instant(_) | Type::Epoch, Some(date), Some((h, m, s))) => {
                        let civil = date.at(h, m, s, 0);
                        Value::Instant(civil.to_zoned(TimeZone::UTC).ok()?.timestamp())
                    }
                    (Type::Datetime, Some(date), Some((h, m, s))) => Value::Datetime(date.at(h, m, s, 0)),
                    (Type::Date | Type::Zoned, Some(date), None) if !seen.has_time() => Value::Date(date),
                    (Type::Zoned, Some(date), Some((h, m, s))) => Value::Datetime(date.at(h, m, s, 0)),
                    _ => Value::Text(text.to_owned()),
                })
            }
        }
    }

    pub(crate) fn example(&self) -> String {
        let instant = Timestamp::constant(1_768_471_200, 0);
        let value = match &self.kind {
            Type::Int | Type::Sequence | Type::Decimal | Type::Float => {
                let low = self.shape.min.max(1);
                if let Format::Fixed(_) = self.format {
                    Value::Float(12.5)
                } else if low >= 4 && self.format == Format::Plain {
                    Value::from(2026)
                } else {
                    Value::from(3)
                }
            }
            Type::Date => Value::Date(Date::constant(2026, 1, 15)),
            Type::Datetime => Value::Datetime(DateTime::constant(2026, 1, 15, 10, 0, 0, 0)),
            Type::Instant(_) | Type::Epoch => Value::Instant(instant),
            Type::Zoned => Value::Zoned(instant.to_zoned(TimeZone::UTC)),
            Type::Duration => Value::Duration(SignedDuration::from_secs(60)),
            Type::Choice(choices) => Value::from(choices.first().map_or("", String::as_str)),
            Type::Bool => Value::Bool(true),
            Type::Uuid { .. } => Value::from("7f9c24e8-3b12-4c1e-9f0a-52d7b6c0e1a4"),
            Type::Url => Value::from("https://example.com/a"),
            _ => {
                let digits = self.shape.chars.contains('0');
                let letter = if self.shape.chars.contains('a') {
                    self.field.trim_end_matches("_id").to_owned()
                } else if self.shape.chars.contains('A') && !digits {
                    "DEUTSCHLAND".to_owned()
                } else if digits {
                    "7203000000".to_owned()
                } else {
                    "~".to_owned()
                };
                let length = self.shape.max.unwrap_or(usize::MAX).min(letter.len().max(self.shape.min));
                return letter.chars().cycle().take(length.min(64)).collect();
            }
        };
        self.write(&value).map_or_else(|| format!("{{{}}}", self.field), Cow::into_owned)
    }
}

impl Format {
    /// As written after the name, with its colon.
    pub fn suffix(&self) -> String {
        match self {
            Self::Plain => String::new(),
            Self::Pad(width) => format!(":0{width}"),
            Self::Fixed(decimals) => format!(":.{decimals}f"),
            Self::Unix => ":unix".to_owned(),
            Self::Fit => ":fit".to_owned(),
            Self::Date(parts) => {
                let parts = parts.iter().map(|part| match part {
                    DatePart::Text(c) => c.to_string(),
                    DatePart::Field(c) => format!("%{c}"),
                });
                format!(":{}", parts.collect::<String>())
            }
        }
    }

    /// Reads what stands after the colon. The error says what could stand there.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text == "unix" {
            return Ok(Self::Unix);
        }
        if text == "fit" {
            return Ok(Self::Fit);
        }
        if text.starts_with('%') {
            return date_parts(text).map(Self::Date);
        }
        if let Some(width) = text.strip_prefix('0').and_then(|width| width.parse::<usize>().ok()) {
            return if (1..=20).contains(&width) {
                Ok(Self::Pad(width))
            } else {
                Err("zeros are padded to between 1 and 20 digits".to_owned())
            };
        }
        if let Some(decimals) =
            text.strip_prefix('.').and_then(|t| t.strip_suffix('f')).and_then(|d| d.parse().ok())
        {
            return if decimals <= 17 {
                Ok(Self::Fixed(decimals))
            } else {
                Err("a number has at most 17 decimals".to_owned())
            };
        }
        Err("the formats are `02` (zeros), `.4f` (decimals), `%Y%m%d` (dates), `unix` and `fit`".to_owned())
    }
}

/// What a value of this type looks like in a hole. The error says why it cannot stand there.
pub(crate) fn hole_shape(kind: &Type, checks: &Checks, format: &Format) -> Result<Shape, String> {
    let digits = CharSet::digits();
    match (format, kind) {
        (Format::Plain | Format::Fit, _) => plain_shape(kind, checks),
        (Format::Pad(width), Type::Int | Type::Sequence) => {
            let mut shape = integer_shape(kind, checks);
            shape.min = shape.min.max(*width);
            shape.max = shape.max.map(|max| max.max(*width));
            Ok(shape)
        }
        (Format::Fixed(decimals), Type::Float | Type::Decimal | Type::Int) => {
            let least = if *decimals == 0 { 1 } else { decimals + 2 };
            Ok(Shape { chars: digits.union(&CharSet::of("-.")), min: least, max: Some(320 + decimals) })
        }
        (Format::Unix, Type::Instant(_) | Type::Zoned | Type::Epoch) => {
            Ok(Shape { chars: digits.union(&CharSet::of("-")), min: 1, max: Some(13) })
        }
        (Format::Date(parts), Type::Date | Type::Datetime | Type::Instant(_) | Type::Zoned | Type::Epoch) => {
            if *kind == Type::Date
                && parts.iter().any(|part| matches!(part, DatePart::Field('H' | 'M' | 'S')))
            {
                return Err("a date has no hours".to_owned());
            }
            let length = parts.iter().map(date_part_width).sum();
            let chars = parts.iter().fold(digits, |set, part| match part {
                DatePart::Text(c) => set.union(&CharSet::range(*c, *c)),
                DatePart::Field(_) => set,
            });
            Ok(Shape::fixed(chars, length))
        }
        (Format::Pad(_), _) => Err(format!("zeros are padded to an int, and this is a {kind}")),
        (Format::Fixed(_), _) => Err(format!("decimals are fixed for a number, and this is a {kind}")),
        (Format::Unix, _) => Err(format!("`unix` is for an instant, and this is a {kind}")),
        (Format::Date(_), _) => {
            Err(format!("a date pattern is for a date or an instant, and this is a {kind}"))
        }
    }
}

fn plain_shape(kind: &Type, checks: &Checks) -> Result<Shape, String> {
    let digits = CharSet::digits();
    Ok(match kind {
        Type::String => {
            let mut shape = match &checks.pattern {
                Some(pattern) => Pattern::of(pattern.as_str()).shape,
                None => Shape::any(),
            };
            if let Some((min, max)) = checks.len {
                shape.min = shape.min.max(min);
                shape.max = match (shape.max, max) {
                    (Some(a), Some(b)) => Some(a.min(b)),
                    (a, b) => a.or(b),
                };
            }
            if checks.nonempty {
                shape.min = shape.min.max(1);
            }
            if checks.lower {
                shape.chars = shape.chars.without(&CharSet::range('A', 'Z'));
            }
            if checks.upper {
                shape.chars = shape.chars.without(&CharSet::range('a', 'z'));
            }
            shape
        }
        Type::Url => {
            let space = CharSet::range('\0', ' ').union(&CharSet::range('\u{7f}', '\u{a0}'));
            Shape { chars: CharSet::any().without(&space), min: 1, max: None }
        }
        Type::Choice(choices) => Shape {
            chars: choices.iter().fold(CharSet::default(), |set, choice| set.union(&CharSet::of(choice))),
            min: choices.iter().map(|choice| choice.chars().count()).min().unwrap_or(0),
            max: choices.iter().map(|choice| choice.chars().count()).max(),
        },
        Type::Uuid { .. } => {
            Shape::fixed(digits.union(&CharSet::range('a', 'f')).union(&CharSet::of("-")), 36)
        }
        Type::Int | Type::Sequence | Type::Epoch | Type::Duration => integer_shape(kind, checks),
        Type::Bool => Shape { chars: CharSet::of("truefals"), min: 4, max: Some(5) },
        Type::Date => Shape::fixed(digits.union(&CharSet::of("-")), 10),
        Type::Datetime => Shape::fixed(digits.union(&CharSet::of("-:T")), 19),
        Type::Instant(precision) => {
            let length = match precision {
                Precision::Seconds => 20,
                Precision::Millis => 24,
                Precision::Micros => 27,
            };
            Shape::fixed(digits.union(&CharSet::of("-:.TZ")), length)
        }
        Type::Float | Type::Decimal => {
            return Err(format!("a {kind} has many spellings: say how many decimals, as in `{{x:.4f}}`"));
        }
        Type::Zoned => return Err("a time in a zone needs a pattern, as in `{x:%Y-%m-%d}`".to_owned()),
        Type::Bytes | Type::Json | Type::List(_) | Type::Set(_) | Type::Map(_) | Type::Named(_) => {
            return Err(format!("a {kind} has no text form"));
        }
    })
}

fn integer_shape(kind: &Type, checks: &Checks) -> Shape {
    let low = checks.range.and_then(|range| range.min);
    let low = if *kind == Type::Sequence && low.is_none() { Some(Number::from(0)) } else { low };
    let low = if checks.positive && low.is_none() { Some(Number::from(1)) } else { low };
    let high = checks.range.and_then(|range| match (range.max, range.max_included) {
        (Some(max), true) => max.to_i64(),
        (Some(max), false) => max.to_i64().map(|max| max.saturating_sub(1)),
        (None, _) => None,
    });
    let low = low.and_then(|low| low.to_i64());
    let digits = |n: i64| n.unsigned_abs().to_string().len();
    match (low, high) {
        (Some(low), high) if low >= 0 => {
            Shape { chars: CharSet::digits(), min: digits(low), max: Some(high.map_or(20, digits)) }
        }
        _ => Shape { chars: CharSet::digits().union(&CharSet::of("-")), min: 1, max: Some(20) },
    }
}

fn plain_text(value: &Value, kind: &Type) -> Option<String> {
    Some(match (kind, value) {
        (Type::Instant(precision), value) => instant_text(value.as_instant()?, *precision),
        (Type::Epoch, value) => match value.as_i64() {
            Some(seconds) => seconds.to_string(),
            None => value.as_instant()?.as_second().to_string(),
        },
        (_, Value::Text(text)) => text.clone(),
        (_, Value::Number(number)) => number.to_i64()?.to_string(),
        (_, Value::Bool(value)) => value.to_string(),
        (_, Value::Date(date)) => date.to_string(),
        (_, Value::Datetime(datetime)) => datetime.to_string(),
        (_, Value::Duration(duration)) => duration.as_secs().to_string(),
        _ => return None,
    })
}

fn plain_value(text: &str, kind: &Type) -> Option<Value> {
    Some(match kind {
        Type::Instant(_) => Value::Instant(text.parse().ok()?),
        Type::Epoch => Value::Instant(Timestamp::from_second(text.parse().ok()?).ok()?),
        Type::Int | Type::Sequence => Value::Number(text.parse::<i64>().ok()?.into()),
        Type::Duration => Value::Duration(SignedDuration::from_secs(text.parse().ok()?)),
        Type::Bool => Value::Bool(text.parse().ok()?),
        Type::Date => Value::Date(civil_date(text)?),
        Type::Datetime => Value::Datetime(text.parse().ok()?),
        Type::Choice(choices) if !choices.iter().any(|choice| choice == text) => return None,
        _ => Value::Text(text.to_owned()),
    })
}

/// Decimals cut to a fixed number, half to even. Minus zero is zero.
fn fixed_text(value: &Value, decimals: usize) -> Option<String> {
    let text = match value {
        Value::Float(float) if float.is_finite() => format!("{float:.decimals$}"),
        Value::Number(number) => match number.to_i64() {
            Some(whole) if decimals == 0 => whole.to_string(),
            Some(whole) => format!("{whole}.{:0decimals$}", 0),
            None => decimal_text(number, decimals)
                .unwrap_or_else(|| format!("{:.decimals$}", number_to_f64(number))),
        },
        _ => return None,
    };
    let zero = text.bytes().all(|b| matches!(b, b'-' | b'0' | b'.'));
    Some(if zero { text.trim_start_matches('-').to_owned() } else { text })
}

/// The same for a decimal, exactly. `None` when it is written with an exponent.
fn decimal_text(number: &Number, decimals: usize) -> Option<String> {
    let text = number.to_string();
    let (sign, digits) = text.strip_prefix('-').map_or(("", text.as_str()), |rest| ("-", rest));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if !whole.bytes().chain(fraction.bytes()).all(|b| b.is_ascii_digit()) {
        return None;
    }
    if fraction.len() <= decimals {
        let dot = if decimals == 0 { "" } else { "." };
        return Some(format!("{sign}{whole}{dot}{fraction:0<decimals$}"));
    }
    let (kept, dropped) = fraction.split_at(decimals);
    let scaled: u128 = format!("{whole}{kept}").parse().ok()?;
    let half = format!("5{}", "0".repeat(dropped.len() - 1));
    let up = dropped > half.as_str() || (dropped == half && scaled % 2 == 1);
    let rounded = format!("{:0width$}", scaled + u128::from(up), width = decimals + 1);
    let (whole, fraction) = rounded.split_at(rounded.len() - decimals);
    let dot = if decimals == 0 { "" } else { "." };
    Some(format!("{sign}{whole}{dot}{fraction}"))
}

fn civil(value: &Value) -> Option<DateTime> {
    match value {
        Value::Date(date) => Some(date.at(0, 0, 0, 0)),
        Value::Datetime(datetime) => Some(*datetime),
        Value::Zoned(zoned) => Some(zoned.datetime()),
        Value::Instant(instant) => Some(instant.to_zoned(TimeZone::UTC).datetime()),
        _ => None,
    }
}

/// Letters after `%`, and how many digits each writes.
const DATE_FIELDS: [(char, usize); 11] = [
    ('Y', 4),
    ('m', 2),
    ('d', 2),
    ('H', 2),
    ('M', 2),
    ('S', 2),
    ('j', 3),
    ('G', 4),
    ('V', 2),
    ('u', 1),
    ('y', 2),
];

fn date_parts(text: &str) -> Result<Vec<DatePart>, String> {
    let mut parts = Vec::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            parts.push(DatePart::Text(c));
            continue;
        }
        match chars.next() {
            Some('%') => parts.push(DatePart::Text('%')),
            Some('F') => parts.extend(date_parts("%Y-%m-%d")?),
            Some('T') => parts.extend(date_parts("%H:%M:%S")?),
            Some(letter) if DATE_FIELDS.iter().any(|(known, _)| *known == letter) => {
                parts.push(DatePart::Field(letter));
            }
            _ => {
                return Err(
                    "dates are written with %Y %m %d %H %M %S %j %G %V %u %y %F %T: each has a fixed width"
                        .into(),
                );
            }
        }
    }
    Ok(parts)
}

fn date_part_width(part: &DatePart) -> usize {
    match part {
        DatePart::Text(_) => 1,
        DatePart::Field(letter) => {
            DATE_FIELDS.iter().find(|(known, _)| known == letter).map_or(0, |(_, width)| *width)
        }
    }
}

fn date_text(parts: &[DatePart], at: DateTime) -> Option<String> {
    let week = at.date().iso_week_date();
    let mut out = String::new();
    for part in parts {
        let number = match part {
            DatePart::Text(c) => {
                out.push(*c);
                continue;
            }
            DatePart::Field('Y') => i64::from(at.year()),
            DatePart::Field('m') => at.month().into(),
            DatePart::Field('d') => at.day().into(),
            DatePart::Field('H') => at.hour().into(),
            DatePart::Field('M') => at.minute().into(),
            DatePart::Field('S') => at.second().into(),
            DatePart::Field('j') => at.date().day_of_year().into(),
            DatePart::Field('G') => week.year().into(),
            DatePart::Field('V') => week.week().into(),
            DatePart::Field('u') => week.weekday().to_monday_one_offset().into(),
            DatePart::Field('y') => i64::from(at.year()).rem_euclid(100),
            DatePart::Field(_) => return None,
        };
        if number < 0 {
            return None;
        }
        out.push_str(&format!("{number:0width$}", width = date_part_width(part)));
    }
    Some(out)
}

/// The numbers a date pattern found.
#[derive(Default)]
struct Seen {
    year: Option<i16>,
    month: Option<i8>,
    day: Option<i8>,
    hour: Option<i8>,
    minute: Option<i8>,
    second: Option<i8>,
    day_of_year: Option<i16>,
    week_year: Option<i16>,
    week: Option<i8>,
    weekday: Option<i8>,
}

impl Seen {
    fn date(&self) -> Option<Date> {
        if let (Some(year), Some(month), Some(day)) = (self.year, self.month, self.day) {
            return Date::new(year, month, day).ok();
        }
        if let (Some(year), Some(day)) = (self.year, self.day_of_year) {
            return Date::new(year, 1, 1).ok()?.with().day_of_year(day).build().ok();
        }
        let weekday = Weekday::from_monday_one_offset(self.weekday?).ok()?;
        Some(ISOWeekDate::new(self.week_year?, self.week?, weekday).ok()?.date())
    }

    fn time(&self) -> Option<(i8, i8, i8)> {
        Some((self.hour?, self.minute?, self.second?))
    }

    fn has_time(&self) -> bool {
        self.hour.is_some() || self.minute.is_some() || self.second.is_some()
    }

    fn is_possible(&self) -> bool {
        let within =
            |value: Option<i8>, low: i8, high: i8| value.is_none_or(|value| (low..=high).contains(&value));
        let whole_day = self.year.is_some() && self.month.is_some() && self.day.is_some();
        within(self.month, 1, 12)
            && within(self.day, 1, 31)
            && within(self.hour, 0, 23)
            && within(self.minute, 0, 59)
            && within(self.second, 0, 59)
            && within(self.week, 1, 53)
            && within(self.weekday, 1, 7)
            && self.day_of_year.is_none_or(|day| (1..=366).contains(&day))
            && (!whole_day || self.date().is_some())
    }
}

fn parse_date(parts: &[DatePart], text: &str) -> Option<Seen> {
    let mut seen = Seen::default();
    let mut rest = text;
    for part in parts {
        let width = date_part_width(part);
        match part {
            DatePart::Text(c) => rest = rest.strip_prefix(*c)?,
            DatePart::Field(letter) => {
                let digits = rest.get(..width)?;
                if !digits.bytes().all(|b| b.is_ascii_digit()) {
                    return None;
                }
                rest = &rest[width..];
                let number: i16 = digits.parse().ok()?;
                let small = i8::try_from(number).ok();
                match letter {
                    'Y' => seen.year = Some(number),
                    'm' => seen.month = small,
                    'd' => seen.day = small,
                    'H' => seen.hour = small,
                    'M' => seen.minute = small,
                    'S' => seen.second = small,
                    'j' => seen.day_of_year = Some(number),
                    'G' => seen.week_year = Some(number),
                    'V' => seen.week = small,
                    'u' => seen.weekday = small,
                    _ => {}
                }
            }
        }
    }
    (rest.is_empty() && seen.is_possible()).then_some(seen)
}

/// A key at most three bytes under its limit that ends as a digest does.
fn is_digested(key: &str, limit: usize) -> bool {
    let Some(tail) = key.len().checked_sub(DIGEST_CHARS + 1).and_then(|start| key.get(start..)) else {
        return false;
    };
    key.len() + 4 > limit
        && tail.starts_with(DIGEST_MARK)
        && tail[1..].bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

fn digested(key: &str, start: usize, limit: usize) -> String {
    let digest = sha256_hex(&key.as_bytes()[start..]);
    let kept = crate::span::floor_boundary(key, limit.saturating_sub(DIGEST_CHARS + 1).max(start));
    format!("{}{DIGEST_MARK}{digest}", &key[..kept])
}

pub(crate) fn sha256_hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
