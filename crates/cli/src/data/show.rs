//! Records as people and programs see them: fields in the order of the schema, a table of several, or JSON.
//!
//! The state of each lifecycle and the end of the item are shown too, under the names the schema has for them. What
//! came from a store may hold anything: control characters never reach a terminal.

use std::fmt::Write as _;

use larder::jiff::Timestamp;
use larder::text::{self, hidden};
use larder::{Entry, UnixTime};
use larder_model::{AttributeValue, Item};
use larder_schema::instant_text;
use larder_schema::schema::Precision;
use serde_json::{Map, Value as Json};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::Kind;

/// Wider cells of a table are cut.
const CELL_COLUMNS_MAX: usize = 40;

/// The end of an item's life, where the store keeps it longer; as it is called there.
pub(super) const FRESH_UNTIL: &str = "larder_fresh_until";

/// What a record holds, in the order of the schema.
fn members(kind: &Kind, entry: &Entry, secrets: bool) -> Vec<(String, Json)> {
    let entity = kind.entity();
    let mut found = Vec::new();
    for field in &entity.fields {
        let Some(value) = entry.fields.get(&field.name) else { continue };
        let shown = if kind.schema.is_secret(field) && !secrets {
            hidden()
        } else {
            text::to_json(&kind.schema, &field.kind, value)
        };
        found.push((field.name.clone(), shown));
    }
    for lifecycle in entity.lifecycles.iter().filter(|lifecycle| entity.field(&lifecycle.name).is_none()) {
        let kept = entry.kept();
        let state = kept.state(&lifecycle.name).or_else(|| kept.unknown_state(&lifecycle.name));
        found.extend(state.map(|state| (lifecycle.name.clone(), state.into())));
    }
    if let (Some(ttl), Some(removed)) = (&kind.table().ttl, entry.kept().removed())
        && entity.field(&ttl.name).is_none()
    {
        found.push((ttl.name.clone(), moment(removed).into()));
    }
    if let Some(ends) = entry.kept().expires().filter(|ends| entry.kept().removed() != Some(*ends)) {
        found.push((FRESH_UNTIL.to_owned(), moment(ends).into()));
    }
    found
}

/// A record as JSON.
pub(crate) fn object(kind: &Kind, entry: &Entry, secrets: bool) -> Map<String, Json> {
    members(kind, entry, secrets).into_iter().collect()
}

/// Tells of states that the schema does not know; they are shown as they are written.
fn warn(kind: &Kind, entry: &Entry) {
    for lifecycle in &kind.entity().lifecycles {
        if let Some(text) = entry.kept().unknown_state(&lifecycle.name) {
            let states: Vec<&str> = lifecycle.states.iter().map(|state| state.name.as_str()).collect();
            let (entity, name) = (&kind.entity().name, &lifecycle.name);
            eprintln!(
                "larder: {entity}: {name} is written as `{text}`, which is no state of it; there are {}",
                states.join(", ")
            );
        }
    }
}

/// One record: a field a line, or one line of JSON.
pub(crate) fn record(kind: &Kind, entry: &Entry, json: bool, secrets: bool) -> String {
    warn(kind, entry);
    if json {
        return format!("{}\n", Json::Object(object(kind, entry, secrets)));
    }
    let members = members(kind, entry, false);
    let widest = members.iter().map(|(name, _)| name.width()).max().unwrap_or(0);
    let mut text = String::new();
    for (name, value) in members {
        let _ = writeln!(text, "{name:widest$}  {}", cell(&value));
    }
    text
}

/// Several records: a table, or a line of JSON each.
pub(crate) fn records(kind: &Kind, entries: &[Entry], json: bool, secrets: bool) -> String {
    if json {
        return entries.iter().map(|entry| record(kind, entry, true, secrets)).collect();
    }
    entries.iter().for_each(|entry| warn(kind, entry));
    let all: Vec<Vec<(String, Json)>> = entries.iter().map(|entry| members(kind, entry, false)).collect();
    let entity = kind.entity();
    let told = entity.lifecycles.iter().map(|lifecycle| &lifecycle.name);
    let told = told.chain(kind.table().ttl.iter().map(|ttl| &ttl.name));
    let told = told.filter(|name| entity.field(name).is_none());
    let names = entity.fields.iter().map(|field| field.name.as_str()).chain(told.map(String::as_str));
    let names: Vec<String> = names
        .chain([FRESH_UNTIL])
        .filter(|name| all.iter().flatten().any(|(known, _)| known == name))
        .map(str::to_owned)
        .collect();
    let rows = all.iter().map(|members| {
        let value = |name: &String| members.iter().find(|(known, _)| known == name);
        names.iter().map(|name| value(name).map_or_else(String::new, |(_, value)| cell(value))).collect()
    });
    table(&names, rows.collect())
}

/// Columns under their names, aligned.
pub(crate) fn table(names: &[String], rows: Vec<Vec<String>>) -> String {
    let mut lines = vec![names.to_vec()];
    lines.extend(rows.into_iter().map(|row| row.iter().map(|cell| cut(cell)).collect()));
    let width = |at: usize| lines.iter().filter_map(|line| line.get(at)).map(|cell| cell.width()).max();
    let widths: Vec<usize> = (0..names.len()).map(|at| width(at).unwrap_or(0)).collect();
    let mut text = String::new();
    for line in &lines {
        let mut row = String::new();
        for (cell, width) in line.iter().zip(&widths) {
            row.push_str(cell);
            row.extend(std::iter::repeat_n(' ', width - cell.width() + 2));
        }
        text.push_str(row.trim_end());
        text.push('\n');
    }
    text
}

/// A value on one line, without what a terminal would obey.
pub(crate) fn cell(value: &Json) -> String {
    let text = match value {
        Json::String(text) => text.clone(),
        value if *value == hidden() => "a secret".to_owned(),
        value => value.to_string(),
    };
    plain(&text)
}

/// Without characters that a terminal would obey.
pub(crate) fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() {
            out.extend(character.escape_default());
        } else {
            out.push(character);
        }
    }
    out
}

fn cut(text: &str) -> String {
    if text.width() <= CELL_COLUMNS_MAX {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut columns = 1;
    for character in text.chars() {
        columns += character.width().unwrap_or(0);
        if columns > CELL_COLUMNS_MAX {
            break;
        }
        out.push(character);
    }
    out.push('…');
    out
}

pub(crate) fn moment(time: UnixTime) -> String {
    Timestamp::from_second(time.seconds())
        .map_or_else(|_| time.seconds().to_string(), |moment| instant_text(moment, Precision::Seconds))
}

/// A key as people read it: `SHOP#example.com / META#`.
pub(crate) fn key_text(kind: &Kind, key: &Item) -> String {
    let table = kind.table();
    let names = std::iter::once(&table.partition).chain(table.sort.as_ref());
    let texts = names.filter_map(|name| key.get(&name.attribute)).map(|value| match value {
        AttributeValue::S(text) => plain(text),
        AttributeValue::N(number) => number.to_string(),
        _ => "bytes".to_owned(),
    });
    texts.collect::<Vec<_>>().join(" / ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_table_is_aligned_by_columns_and_cut() {
        let names = ["name".to_owned(), "n".to_owned()];
        let rows = vec![vec!["東京".to_owned(), "1".to_owned()], vec!["x".repeat(60), "22".to_owned()]];
        let text = table(&names, rows);
        let lines: Vec<&str> = text.lines().collect();
        let filled = " ".repeat(CELL_COLUMNS_MAX - 2);
        assert_eq!(lines[0], format!("name{filled}n"));
        assert_eq!(lines[1], format!("東京{filled}1"));
        assert_eq!(lines[2], format!("{}…  22", "x".repeat(CELL_COLUMNS_MAX - 1)));
    }

    #[test]
    fn a_terminal_obeys_no_stored_value() {
        assert_eq!(cell(&json!("a\u{1b}[2Jb\nc")), "a\\u{1b}[2Jb\\nc");
    }
}
