//! Keys that were seen → the templates that made them.
//!
//! Items fall into groups by how their keys begin: `RACE#…` / `METADATA` is one, `SHOP#…` / `URL#…` another. A
//! beginning counts only where every key of its column has one: a reader of keys must be able to tell the groups
//! apart. What follows the beginning is one value, unless it parts into several in all keys alike.

use std::collections::{BTreeMap, BTreeSet};

use jiff::civil::Date;
use larder_model::{Item, KeyAttribute, KeyType};

use super::fields::{formed, is_epoch};
use crate::schema::Type;

/// Beginnings of one column above which they are taken for values.
const TAGS_MAX: usize = 64;
/// Whole sort keys, such as `METADATA`, that tell entities apart.
const CONSTANTS_MAX: usize = 8;
const HOLES_MAX: usize = 8;
/// Different keys from which parts are read that no sign like `#` sets apart.
const WEAK_KEYS_MIN: usize = 3;

/// Items whose keys look the same.
#[derive(Debug)]
pub(super) struct Group<'a> {
    pub(super) items: Vec<&'a Item>,
    /// How each key attribute of the table looks.
    pub(super) columns: Vec<Column<'a>>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Column<'a> {
    /// The attribute itself: a number, bytes, or a text with nothing to see in it.
    Field,
    Template(Vec<Piece<'a>>),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Piece<'a> {
    Text(String),
    Hole(Hole<'a>),
}

/// A value within keys: its text in each item of the group.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Hole<'a> {
    pub(super) texts: Vec<&'a str>,
    pub(super) form: Form,
    /// The character that ends it, where others follow.
    pub(super) until: Option<char>,
}

/// What all texts of a hole look like.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Form {
    Text,
    /// `7203`: digits, as many each time, the first never a zero.
    Digits(usize),
    /// `007`: digits, as many each time.
    Padded(usize),
    Number,
    /// `59.3293`: so many decimals.
    Decimals(usize),
    /// `20240115`
    Day,
    /// Unix seconds.
    Unix,
    /// A text with a form of its own.
    Of(Type),
}

impl Form {
    /// Whether it is seldom so by chance.
    fn is_telling(&self) -> bool {
        matches!(self, Self::Padded(_) | Self::Decimals(_) | Self::Day | Self::Unix | Self::Of(_))
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    /// The beginning, its separator included.
    Tag(String),
    Constant(String),
    /// The name of a type whose form it has.
    Formed(String),
    Free,
}

/// The groups of a table's items, in a stable order.
pub(super) fn groups<'a>(key: &[&KeyAttribute], items: &[&'a Item], deep: bool) -> Vec<Group<'a>> {
    let mut parts: Vec<(Vec<Class>, Vec<&'a Item>)> = vec![(Vec::new(), items.to_vec())];
    for (at, attribute) in key.iter().enumerate() {
        let mut next = Vec::new();
        for (classes, items) in parts {
            let mut found: BTreeMap<Class, Vec<&'a Item>> = BTreeMap::new();
            for (class, item) in classify(attribute, &items, at, key.len()).into_iter().zip(items) {
                found.entry(class).or_default().push(item);
            }
            next.extend(found.into_iter().map(|(class, items)| {
                let classes = classes.iter().cloned().chain([class]).collect();
                (classes, items)
            }));
        }
        parts = next;
    }
    let groups = parts.into_iter().filter(|(_, items)| !items.is_empty()).map(|(classes, items)| {
        let columns = key.iter().zip(&classes);
        let columns = columns.map(|(attribute, class)| column(attribute, class, &items, deep)).collect();
        Group { items, columns }
    });
    groups.collect()
}

fn texts<'a>(attribute: &KeyAttribute, items: &[&'a Item]) -> Vec<&'a str> {
    items
        .iter()
        .map(|item| item.get(&attribute.name).and_then(|value| value.as_str()).unwrap_or_default())
        .collect()
}

fn classify(attribute: &KeyAttribute, items: &[&Item], at: usize, columns: usize) -> Vec<Class> {
    let free = vec![Class::Free; items.len()];
    if attribute.kind != KeyType::S {
        return free;
    }
    let texts = texts(attribute, items);
    // A partition of one name is a key like any other, unless several items stand in it.
    let mut rest: BTreeMap<&str, usize> = BTreeMap::new();
    for text in texts.iter().filter(|text| tag(text).is_none()) {
        *rest.entry(text).or_default() += 1;
    }
    let is_constant = |text: &str, count: usize| {
        let shouted = text.chars().all(|c| !c.is_ascii_lowercase());
        is_name(text) && if at == 0 { columns > 1 && count > 1 && shouted } else { count > 1 || shouted }
    };
    let constant = rest.len() <= CONSTANTS_MAX && rest.iter().all(|(text, count)| is_constant(text, *count));
    let classes: Vec<Class> = texts
        .iter()
        .map(|text| match tag(text) {
            Some(tag) => Class::Tag(tag.to_owned()),
            None if constant => Class::Constant((*text).to_owned()),
            None => match formed(&[text]).filter(|kind| *kind != Type::Url) {
                Some(kind) => Class::Formed(kind.to_string()),
                None => Class::Free,
            },
        })
        .collect();
    let tags: BTreeSet<&str> = texts.iter().filter_map(|text| tag(text)).collect();
    let shouted = tags.iter().all(|tag| tag.chars().all(|c| !c.is_ascii_lowercase()));
    let many = tags.len() > TAGS_MAX || (tags.len() > 3 && tags.len() * 2 > texts.len() && !shouted);
    // A key that may be anything may also look like one with a beginning.
    if many || classes.contains(&Class::Free) { free } else { classes }
}

/// `RACE#` of `RACE#202405021211`.
fn tag(text: &str) -> Option<&str> {
    let end = text.find(['#', '|', ':'])?;
    let rest = &text[end + 1..];
    (is_name(&text[..end]) && !rest.starts_with("//")).then(|| &text[..=end])
}

fn is_name(text: &str) -> bool {
    text.len() <= 40
        && text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
}

fn column<'a>(attribute: &KeyAttribute, class: &Class, items: &[&'a Item], deep: bool) -> Column<'a> {
    if attribute.kind != KeyType::S {
        return Column::Field;
    }
    let texts = texts(attribute, items);
    match class {
        Class::Constant(text) => Column::Template(vec![Piece::Text(text.clone())]),
        Class::Tag(tag) => {
            let rest: Vec<&str> = texts.iter().map(|text| &text[tag.len()..]).collect();
            let mut pieces = vec![Piece::Text(tag.clone())];
            if rest.iter().any(|text| !text.is_empty()) {
                pieces.extend(parts(rest, deep));
            }
            Column::Template(joined(pieces))
        }
        Class::Formed(_) => Column::Field,
        Class::Free => match parts(texts, deep) {
            pieces if pieces.len() > 1 => Column::Template(joined(pieces)),
            _ => Column::Field,
        },
    }
}

/// Texts that stand beside each other are one.
fn joined(pieces: Vec<Piece<'_>>) -> Vec<Piece<'_>> {
    let mut out: Vec<Piece<'_>> = Vec::new();
    for piece in pieces {
        match (out.last_mut(), piece) {
            (Some(Piece::Text(before)), Piece::Text(text)) => before.push_str(&text),
            (_, piece) => out.push(piece),
        }
    }
    out
}

fn parts(texts: Vec<&str>, deep: bool) -> Vec<Piece<'_>> {
    let whole = |form: Form, texts| vec![Piece::Hole(Hole { texts, form, until: None })];
    if let Some(kind) = formed(&texts) {
        return whole(Form::Of(kind), texts);
    }
    if is_day(&texts) {
        return whole(Form::Day, texts);
    }
    let split = deep.then(|| ['#', '|', '/', ':', '_', '-'].into_iter().find_map(|sign| split(&texts, sign)));
    split.flatten().unwrap_or_else(|| whole(Form::Text, texts))
}

/// The pieces between a sign, where all texts part alike.
fn split<'a>(texts: &[&'a str], sign: char) -> Option<Vec<Piece<'a>>> {
    let strong = matches!(sign, '#' | '|');
    let rows: Vec<Vec<&'a str>> = texts.iter().map(|text| text.split(sign).collect()).collect();
    let fewest = rows.iter().map(Vec::len).min()?;
    let even = rows.iter().all(|row| row.len() == fewest);
    if !(2..=HOLES_MAX * 2).contains(&fewest) {
        return None;
    }
    let distinct = texts.iter().collect::<BTreeSet<_>>().len();
    let columns: Vec<Vec<&'a str>> = if even {
        (0..fewest).map(|at| rows.iter().map(|row| row[at]).collect()).collect()
    } else if strong {
        return None;
    } else {
        // From the end, as far as the parts have a form; the sign may stand in what is before them.
        let from_end = |back: usize| rows.iter().map(|row| row[row.len() - 1 - back]).collect::<Vec<_>>();
        let formed = (0..fewest - 1).take_while(|back| form(&from_end(*back)) != Form::Text).count();
        let rest = texts.iter().zip(&rows).map(|(text, row)| {
            let tail: usize = row[row.len() - formed..].iter().map(|part| part.len() + sign.len_utf8()).sum();
            &text[..text.len() - tail]
        });
        std::iter::once(rest.collect()).chain((0..formed).rev().map(from_end)).collect()
    };
    let last = columns.len() - 1;
    let mut pieces = Vec::new();
    let (mut unknown, mut known, mut telling) = (0, 0, 0);
    for (at, column) in columns.into_iter().enumerate() {
        if at > 0 {
            pieces.push(Piece::Text(sign.to_string()));
        }
        let form = form(&column);
        let same = column.iter().all(|text| *text == column[0]);
        if same && distinct > 1 && form == Form::Text && is_name(column[0]) {
            pieces.push(Piece::Text(column[0].to_owned()));
            continue;
        }
        if column.iter().any(|text| text.is_empty()) {
            return None;
        }
        match form {
            Form::Text => unknown += 1,
            _ => known += 1,
        }
        telling += usize::from(form.is_telling());
        pieces.push(Piece::Hole(Hole { texts: column, form, until: (strong && at < last).then_some(sign) }));
    }
    let holes = unknown + known;
    let trusted = distinct >= WEAK_KEYS_MIN && unknown <= 1 && (known >= 2 || telling > 0);
    (holes > 0 && holes <= HOLES_MAX && (strong || trusted)).then_some(pieces)
}

fn form(texts: &[&str]) -> Form {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let width = texts.first().map_or(0, |text| text.len());
    let fixed = texts.iter().all(|text| text.len() == width);
    if texts.iter().all(|text| digits(text)) && width < 18 {
        let zero = texts.iter().any(|text| text.starts_with('0') && text.len() > 1);
        let seconds = |text: &&str| text.parse().is_ok_and(is_epoch);
        return match (fixed, zero) {
            (true, _) if is_day(texts) => Form::Day,
            (true, _) if width == 10 && texts.iter().all(seconds) => Form::Unix,
            (true, true) => Form::Padded(width),
            (true, false) => Form::Digits(width),
            (false, false) if texts.iter().all(|text| text.len() < 18) => Form::Number,
            (false, _) => Form::Text,
        };
    }
    let decimals = |text: &str| {
        let (whole, part) = text.strip_prefix('-').unwrap_or(text).split_once('.')?;
        (digits(whole) && digits(part) && text.len() < 16).then_some(part.len())
    };
    match texts.first().and_then(|text| decimals(text)) {
        Some(count) if texts.iter().all(|text| decimals(text) == Some(count)) => Form::Decimals(count),
        _ => formed(texts).filter(|kind| *kind != Type::Url).map_or(Form::Text, Form::Of),
    }
}

/// `20240115`, in all of them.
fn is_day(texts: &[&str]) -> bool {
    let day = |text: &&str| {
        let whole = text.len() == 8 && text.bytes().all(|b| b.is_ascii_digit());
        let number = |from: usize, to: usize| text[from..to].parse::<i16>().ok();
        let date = whole.then(|| {
            let (month, day) = (i8::try_from(number(4, 6)?).ok()?, i8::try_from(number(6, 8)?).ok()?);
            Date::new(number(0, 4)?, month, day).ok()
        });
        date.flatten().is_some_and(|date| (1900..2200).contains(&date.year()))
    };
    !texts.is_empty() && texts.iter().all(day)
}
