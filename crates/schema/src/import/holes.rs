//! A value within keys → the field it is: one that the items hold too, or an input that only the key has.

use larder_model::{AttributeValue, Item};

use super::keys::{Column, Form, Hole, Piece};
use super::names::{self, Taken};
use super::write::{Line, escaped};
use crate::schema::Type;
use crate::value::number_to_f64;

/// The shortest text that is hardly the same in two places by chance.
const TEXT_BYTES_MIN: usize = 4;
/// Bytes that a key ends in when its value was too long: `~` and a digest.
const DIGEST_BYTES: usize = 65;

/// An attribute that holds what a hole holds in every item, and how the key writes it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Link {
    pub(super) attribute: String,
    format: String,
}

/// The attribute a hole was made from, among those given in order of preference.
pub(super) fn link<'n>(
    hole: &Hole<'_>,
    items: &[&Item],
    is_last: bool,
    attributes: impl Iterator<Item = &'n str>,
) -> Option<Link> {
    let same = hole.texts.iter().all(|text| *text == hole.texts[0]);
    if same && hole.texts.first()?.len() < TEXT_BYTES_MIN {
        return None;
    }
    let mut links = attributes.filter_map(|attribute| {
        let mut formats =
            items.iter().zip(&hole.texts).map(|(item, text)| format(item.get(attribute)?, text, &hole.form));
        let first = formats.next()??;
        let mut fit = first == ":fit";
        for next in formats {
            let next = next?;
            fit |= next == ":fit";
            if next != first && !(fit && [next.as_str(), &first].contains(&"")) {
                return None;
            }
        }
        let format = if fit { ":fit".to_owned() } else { first };
        (!fit || is_last).then(|| Link { attribute: attribute.to_owned(), format })
    });
    links.next()
}

/// How a stored value must be written to give the text; `None` when it cannot.
fn format(stored: &AttributeValue, text: &str, form: &Form) -> Option<String> {
    let plain = String::new;
    match stored {
        AttributeValue::S(value) if value == text => Some(plain()),
        AttributeValue::S(value) if *form == Form::Day => {
            let day: String = value.get(..10)?.chars().filter(|c| *c != '-').collect();
            (day == text).then(|| ":%Y%m%d".to_owned())
        }
        AttributeValue::S(value) => {
            let kept = text.len().checked_sub(DIGEST_BYTES).and_then(|end| text.get(..end))?;
            (text[kept.len()..].starts_with('~') && value.starts_with(kept)).then(|| ":fit".to_owned())
        }
        AttributeValue::N(number) => match form {
            Form::Padded(width) => {
                let value = number.to_i64().filter(|value| *value >= 0)?;
                (format!("{value:0width$}") == text).then(|| format!(":0{width}"))
            }
            Form::Decimals(count) => {
                let written = format!("{:.count$}", number_to_f64(number));
                (written == text).then(|| format!(":.{count}f"))
            }
            Form::Text | Form::Digits(_) | Form::Number | Form::Day | Form::Unix | Form::Of(_) => {
                (number.to_i64().filter(|value| *value >= 0)?.to_string() == text).then(plain)
            }
        },
        _ => None,
    }
}

/// How the key writes a linked field of this type; `None` when it cannot. The field gets the checks that let
/// the key be read back.
pub(super) fn linked(
    hole: &Hole<'_>,
    link: &Link,
    kind: &Type,
    is_last: bool,
    line: &mut Line,
) -> Option<String> {
    let name = &line.name;
    let written = match (kind, link.format.as_str()) {
        (Type::Url, "") if is_last => format!("{{{name}:fit}}"),
        (Type::String | Type::Url, format) if format != ":%Y%m%d" => format!("{{{name}{format}}}"),
        (Type::Date | Type::Instant(_) | Type::Datetime, ":%Y%m%d") => format!("{{{name}:%Y%m%d}}"),
        (
            Type::Uuid { .. }
            | Type::Choice(_)
            | Type::Date
            | Type::Instant(_)
            | Type::Datetime
            | Type::Epoch,
            "",
        ) => {
            format!("{{{name}}}")
        }
        (Type::Int, format) if !format.starts_with(":.") => format!("{{{name}{format}}}"),
        (Type::Int | Type::Float | Type::Decimal, format) if format.starts_with(":.") => {
            format!("{{{name}{format}}}")
        }
        _ => return None,
    };
    match kind {
        Type::String => text_checks(hole, line),
        Type::Int => line.checks.extend(digits_range(&hole.form)),
        _ => {}
    }
    Some(written)
}

fn text_checks(hole: &Hole<'_>, line: &mut Line) {
    if hole.texts.iter().any(|text| text.is_empty()) {
        return;
    }
    match (&hole.form, hole.until) {
        (Form::Digits(1), _) => line.check("match /[0-9]/"),
        (Form::Digits(width) | Form::Padded(width), _) => line.check(&format!("match /[0-9]{{{width}}}/")),
        (Form::Day, _) => line.check("match /[0-9]{8}/"),
        (Form::Unix, _) => line.check("match /[0-9]{10}/"),
        (Form::Number, _) => line.check("match /[0-9]+/"),
        (_, Some(sign)) => line.check(&format!("match /[^{sign}]+/")),
        (_, None) => line.check("nonempty"),
    }
}

/// What numbers have so many digits.
fn digits_range(form: &Form) -> Option<String> {
    let nines = |width: usize| "9".repeat(width);
    match form {
        Form::Padded(width) => Some(format!("in 0..={}", nines(*width))),
        Form::Digits(1) => Some("in 0..=9".to_owned()),
        Form::Digits(width) => Some(format!("in 1{}..={}", "0".repeat(width - 1), nines(*width))),
        Form::Number => Some("in 0..".to_owned()),
        Form::Text | Form::Decimals(_) | Form::Day | Form::Unix | Form::Of(_) => None,
    }
}

/// An input for a hole that no attribute holds, and how the key writes it.
pub(super) fn input(hole: &Hole<'_>, wanted: &str, taken: &mut Taken) -> (Line, String) {
    let name = taken.free(wanted);
    let (kind, format) = match &hole.form {
        Form::Day => (Type::Date, ":%Y%m%d".to_owned()),
        Form::Unix => (Type::Instant(crate::schema::Precision::Seconds), ":unix".to_owned()),
        Form::Decimals(count) => (Type::Float, format!(":.{count}f")),
        Form::Of(kind) => (kind.clone(), String::new()),
        Form::Text | Form::Digits(_) | Form::Padded(_) | Form::Number => (Type::String, String::new()),
    };
    let mut line = Line { is_input: true, ..Line::new(name, kind.to_string()) };
    if kind == Type::String {
        text_checks(hole, &mut line);
    }
    let written = format!("{{{}{format}}}", line.name);
    (line, written)
}

/// What to call an input, by what it looks like and what stands before it.
pub(super) fn name(pieces: &[Piece<'_>], at: usize) -> String {
    let before = pieces[..at].iter().rev().find_map(|piece| match piece {
        Piece::Text(text) => Some(text.trim_matches(|c: char| !c.is_ascii_alphanumeric())),
        Piece::Hole(_) => None,
    });
    let before = before.filter(|text| !text.is_empty()).map(names::snake);
    let Piece::Hole(hole) = &pieces[at] else { return "part".to_owned() };
    let alone = pieces.iter().filter(|piece| matches!(piece, Piece::Hole(_))).count() == 1;
    match &hole.form {
        Form::Day | Form::Of(Type::Date) => "date".to_owned(),
        Form::Unix | Form::Of(Type::Instant(_) | Type::Datetime) => "at".to_owned(),
        Form::Of(Type::Url) => "url".to_owned(),
        Form::Decimals(_) => place(pieces, at).unwrap_or("number").to_owned(),
        _ => match before {
            Some(before) if before.ends_with("_id") || before == "id" => before,
            Some(before) if alone || matches!(hole.form, Form::Text | Form::Of(_)) => format!("{before}_id"),
            Some(_) | None => match hole.form {
                Form::Digits(_) | Form::Padded(_) | Form::Number => "number".to_owned(),
                _ => "part".to_owned(),
            },
        },
    }
}

/// Two numbers with decimals beside each other, the first up to 90 and the second up to 180: a place on the map.
fn place(pieces: &[Piece<'_>], at: usize) -> Option<&'static str> {
    let within = |at: Option<usize>, limit: f64| match at.and_then(|at| pieces.get(at)) {
        Some(Piece::Hole(Hole { texts, form: Form::Decimals(_), .. })) => {
            texts.iter().all(|text| text.parse::<f64>().is_ok_and(|number| number.abs() <= limit))
        }
        _ => false,
    };
    if within(Some(at), 90.0) && within(Some(at + 2), 180.0) {
        return Some("lat");
    }
    let first = at.checked_sub(2);
    (within(first, 90.0) && within(Some(at), 180.0)).then_some("lon")
}

/// What two columns have in common, whatever their values are called.
pub(super) fn skeleton(column: &Column<'_>) -> String {
    match column {
        Column::Field => String::new(),
        Column::Template(pieces) => pieces
            .iter()
            .map(|piece| match piece {
                Piece::Text(text) => escaped(text),
                Piece::Hole(_) => "{}".to_owned(),
            })
            .collect(),
    }
}
