//! Values that were seen → the type of a field.
//!
//! A type is the narrowest that all values are of: texts that are all instants are instants. Where values are of
//! different kinds, or of one the language has no word for, the field is `json`, which keeps what it is given.
//! Choices are guessed only from many values that look like codes, because a wrong one refuses what is right.

use std::collections::{BTreeMap, BTreeSet};

use larder_model::{AttributeValue, Item, Number};

use super::names::{self, Taken};
use super::write::{Definition, Line};
use crate::schema::{Naming, Of, Precision, Type};
use crate::value::{Value, float_number, instant_text, members_of, number_to_f64};

/// Values from which choices are guessed.
const CHOICE_VALUES_MIN: usize = 50;
const CHOICES_MAX: usize = 8;
/// Lists and maps within each other; what is deeper is a document.
const DEPTH_MAX: usize = 8;
/// Names of one map's members above which they are taken for data.
const MEMBERS_MAX: usize = 200;

/// Names that say nothing, or something else to a program: types that are called so say what they are in.
const VAGUE: [&str; 19] = [
    "Data",
    "Payload",
    "Value",
    "Item",
    "Body",
    "Content",
    "Attributes",
    "Attribute",
    "Detail",
    "Result",
    "Option",
    "String",
    "Vec",
    "Box",
    "Some",
    "None",
    "Ok",
    "Err",
    "Self",
];

/// A type, and what a reader should know about it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Guess {
    pub(super) kind: Type,
    pub(super) note: Option<String>,
}

impl Guess {
    fn sure(kind: Type) -> Self {
        Self { kind, note: None }
    }

    pub(super) fn json(note: impl Into<String>) -> Self {
        Self { kind: Type::Json, note: Some(note.into()) }
    }
}

/// The types that maps become. Two maps with the same members share one.
#[derive(Debug)]
pub(super) struct Types {
    pub(super) definitions: Vec<Definition>,
    pub(super) taken: Taken,
    pub(super) naming: Naming,
}

impl Types {
    /// The type of all values of an attribute of `owner`.
    pub(super) fn guess(&mut self, owner: &str, attribute: &str, values: &[&AttributeValue]) -> Guess {
        self.guess_within(owner, attribute, values, 0)
    }

    fn guess_within(
        &mut self,
        owner: &str,
        attribute: &str,
        values: &[&AttributeValue],
        depth: usize,
    ) -> Guess {
        let Some(first) = values.first() else { return Guess::json("no value was seen") };
        let kinds: BTreeSet<&str> = values.iter().map(|value| value.kind().name()).collect();
        if kinds.len() > 1 {
            return Guess::json(format!(
                "values of several kinds: {}",
                kinds.into_iter().collect::<Vec<_>>().join(", ")
            ));
        }
        match first {
            AttributeValue::S(_) => {
                let texts: Vec<&str> = values.iter().filter_map(|value| value.as_str()).collect();
                text(attribute, &texts)
            }
            AttributeValue::N(_) => {
                let numbers: Vec<&Number> = values.iter().filter_map(|value| value.as_number()).collect();
                Guess::sure(number(attribute, &numbers))
            }
            AttributeValue::Bool(_) => Guess::sure(Type::Bool),
            AttributeValue::B(_) => Guess::sure(Type::Bytes),
            AttributeValue::Null => Guess::json("only NULL was seen"),
            AttributeValue::Ss(_) | AttributeValue::Ns(_) | AttributeValue::Bs(_) => {
                let members: Vec<AttributeValue> =
                    values.iter().filter_map(|value| members_of(value)).flatten().collect();
                let members: Vec<&AttributeValue> = members.iter().collect();
                let inner = self.guess_within(owner, &names::singular(attribute), &members, depth + 1);
                // A float in a set is told from another by its digits alone.
                let kind = if inner.kind == Type::Float { Type::Decimal } else { inner.kind };
                Guess { kind: Type::Set(Box::new(kind)), note: inner.note }
            }
            AttributeValue::L(_) if depth < DEPTH_MAX => {
                let members: Vec<&AttributeValue> = values.iter().flat_map(|value| list(value)).collect();
                let inner = match members.is_empty() {
                    true => Guess::json("no member was seen"),
                    false => self.guess_within(owner, &names::singular(attribute), &members, depth + 1),
                };
                let kind = Type::List(Box::new(Of { kind: inner.kind, optional: false }));
                Guess { kind, note: inner.note }
            }
            AttributeValue::M(_) if depth < DEPTH_MAX => {
                let maps: Vec<&Item> = values.iter().filter_map(|value| map(value)).collect();
                self.definition(owner, attribute, &maps, depth)
            }
            AttributeValue::L(_) | AttributeValue::M(_) => Guess::json("too deep for a type"),
        }
    }

    fn definition(&mut self, owner: &str, attribute: &str, maps: &[&Item], depth: usize) -> Guess {
        let mut members: BTreeMap<&str, Vec<&AttributeValue>> = BTreeMap::new();
        for (name, value) in maps.iter().flat_map(|map| map.iter()) {
            members.entry(name).or_default().push(value);
        }
        if members.is_empty() {
            return Guess::json("no member was seen");
        }
        let seen: usize = members.values().map(Vec::len).sum();
        let scattered = maps.len() > 2 && members.len() > 12 && seen * 3 < members.len() * maps.len();
        if scattered || members.len() > MEMBERS_MAX {
            let values: Vec<&AttributeValue> = members.into_values().flatten().collect();
            return match self.guess_within(owner, &names::singular(attribute), &values, depth + 1) {
                Guess { kind: Type::Json, .. } => Guess::json("the names of its members vary"),
                Guess { kind, note } => {
                    Guess { kind: Type::Map(Box::new(Of { kind, optional: false })), note }
                }
            };
        }
        let mut taken = Taken::default();
        let lines = members.iter().map(|(name, values)| {
            let (field, stored) = names::field(name, self.naming, &mut taken);
            let guess = self.guess_within(owner, name, values, depth + 1);
            let mut line = Line { stored, ..Line::new(field, guess.kind.to_string()) };
            line.optional = values.len() < maps.len() && !matches!(guess.kind, Type::Set(_));
            line.note = guess.note;
            if sounds_secret(&line.name) && guess.kind.is_text() {
                line.checks.push("secret".to_owned());
            }
            line
        });
        let lines: Vec<Line> = lines.collect();
        let plain = names::pascal(attribute);
        let owned = format!("{owner}{plain}");
        let same = |known: &&Definition| [&plain, &owned].contains(&&known.name) && known.lines == lines;
        if let Some(known) = self.definitions.iter().find(same) {
            return Guess::sure(Type::Named(known.name.clone()));
        }
        let wanted = if VAGUE.contains(&plain.as_str()) || self.taken.has(&plain) { owned } else { plain };
        let name = self.taken.free(&wanted);
        self.definitions.push(Definition { name: name.clone(), lines });
        Guess::sure(Type::Named(name))
    }
}

fn list(value: &AttributeValue) -> &[AttributeValue] {
    match value {
        AttributeValue::L(values) => values,
        _ => &[],
    }
}

fn map(value: &AttributeValue) -> Option<&Item> {
    match value {
        AttributeValue::M(map) => Some(map),
        _ => None,
    }
}

fn text(attribute: &str, texts: &[&str]) -> Guess {
    if let Some(kind) = formed(texts) {
        return Guess::sure(kind);
    }
    let distinct: BTreeSet<&str> = texts.iter().copied().collect();
    let few = (2..=CHOICES_MAX).contains(&distinct.len())
        && texts.len() >= CHOICE_VALUES_MIN.max(distinct.len() * 10)
        && distinct.iter().all(|text| is_code(text));
    let free = ["name", "title", "id", "text", "description", "place", "city"];
    let snake = names::snake(attribute);
    if few && !free.iter().any(|word| snake == *word || snake.ends_with(&format!("_{word}"))) {
        let choices = distinct.into_iter().map(str::to_owned).collect();
        let note = Some(format!("guessed from {} values; `string` takes others too", texts.len()));
        return Guess { kind: Type::Choice(choices), note };
    }
    Guess::sure(Type::String)
}

/// The type whose form all texts have, if there is one.
pub(super) fn formed(texts: &[&str]) -> Option<Type> {
    if texts.is_empty() {
        return None;
    }
    [
        Type::Uuid { v4: true },
        Type::Uuid { v4: false },
        Type::Instant(Precision::Seconds),
        Type::Instant(Precision::Millis),
        Type::Instant(Precision::Micros),
        Type::Date,
        Type::Datetime,
        Type::Url,
    ]
    .into_iter()
    .find(|kind| texts.iter().all(|text| has_form(kind, text)))
}

/// Whether a text is a value of the type and written as that writes it.
fn has_form(kind: &Type, text: &str) -> bool {
    match kind {
        // A text in lower case with one more bit of form than this is what the check of the type is for.
        Type::Uuid { .. } | Type::Url => crate::record::is_of(kind, &Value::from(text)),
        Type::Instant(precision) => {
            let value = Value::from_attribute(kind, &AttributeValue::S(text.to_owned()));
            value.and_then(|value| value.as_instant()).is_some_and(|at| instant_text(at, *precision) == text)
        }
        _ => {
            let stored = AttributeValue::S(text.to_owned());
            let value = Value::from_attribute(kind, &stored);
            value.and_then(|value| value.to_attribute(kind)).is_some_and(|again| again == stored)
        }
    }
}

/// `ACTIVE`, `in_progress`, `måndag`: one word in one case.
fn is_code(text: &str) -> bool {
    let whole = text.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-'));
    let one_case = text == text.to_lowercase() || text == text.to_uppercase();
    (1..=40).contains(&text.chars().count()) && whole && one_case && text.starts_with(char::is_alphabetic)
}

fn number(attribute: &str, numbers: &[&Number]) -> Type {
    let whole: Option<Vec<i64>> = numbers.iter().map(|number| number.to_i64()).collect();
    match whole {
        Some(whole) if whole.iter().all(|n| is_epoch(*n)) && sounds_like_time(attribute) => Type::Epoch,
        Some(_) => Type::Int,
        None => {
            let snake = names::snake(attribute);
            let money = ["price", "amount", "cost", "total", "balance", "fee"];
            let exact =
                numbers.iter().all(|number| float_number(number_to_f64(number)).as_ref() == Some(*number));
            if exact && !money.iter().any(|word| snake.contains(word)) { Type::Float } else { Type::Decimal }
        }
    }
}

/// Seconds of this century, which few other numbers are.
pub(super) fn is_epoch(seconds: i64) -> bool {
    (946_684_800..4_102_444_800).contains(&seconds)
}

fn sounds_like_time(attribute: &str) -> bool {
    let snake = names::snake(attribute);
    let words = [
        "at",
        "time",
        "timestamp",
        "ts",
        "date",
        "on",
        "until",
        "since",
        "expires",
        "expiry",
        "created",
        "updated",
        "modified",
    ];
    snake.split('_').any(|word| words.contains(&word))
}

pub(super) fn sounds_secret(name: &str) -> bool {
    crate::resolve::advice::SECRET_NAMES.contains(&name.to_ascii_lowercase().as_str())
}
