//! How large an item is when nobody says: reckoned from its fields.
//!
//! Names, dates, instants, identifiers and the fixed parts of keys are as long as they are; the rest is a guess,
//! named below. Optional fields are counted as if they were there, so a guess errs upwards.

use crate::equation::Expr;
use crate::schema::{Entity, Field, Index, KeySource, Precision, Projection, Schema, Table, Type};
use crate::template::{DatePart, Format, Hole, Part, Template};

/// What is guessed, in bytes.
const TEXT_BYTES: u64 = 32;
const URL_BYTES: u64 = 80;
const DOCUMENT_BYTES: u64 = 256;
const WHOLE_BYTES: u64 = 4;
const FRACTION_BYTES: u64 = 6;
/// Ten digits of Unix seconds.
const EPOCH_BYTES: u64 = 6;
const LIST_MEMBERS: u64 = 10;
/// A name in a map.
const MAP_NAME_BYTES: u64 = 10;
/// What a list or map takes besides its members, and a byte for each of them.
const CONTAINER_BYTES: u64 = 3;
/// What types in types are followed to.
const DEPTH_MAX: usize = 8;

/// The attributes of an entity's items and the bytes each takes, its name included.
pub(crate) fn attributes(schema: &Schema, table: &Table, entity: &Entity) -> Vec<(String, u64)> {
    let mut found: Vec<(String, u64)> = Vec::new();
    let mut add = |attribute: &str, bytes: u64| {
        if found.iter().all(|(known, _)| known != attribute) {
            found.push((attribute.to_owned(), attribute.len() as u64 + bytes));
        }
    };
    let key = |source: &KeySource| match source {
        KeySource::Template(template) => text(entity, template),
        KeySource::Field(name) => entity.field(name).map_or(TEXT_BYTES, |field| value(schema, entity, field)),
    };
    add(&table.partition.attribute, key(&entity.partition));
    if let (Some(attribute), Some(source)) = (&table.sort, &entity.sort) {
        add(&attribute.attribute, key(source));
    }
    for field in entity.fields.iter().filter(|field| field.is_stored()) {
        add(&field.attribute, value(schema, entity, field));
    }
    for lifecycle in &entity.lifecycles {
        let longest = lifecycle.states.iter().map(|state| text(entity, &state.template)).max();
        add(&lifecycle.attribute, longest.unwrap_or(0));
    }
    if let (Some(attribute), Some(_)) = (&table.ttl, &entity.ttl) {
        add(&attribute.attribute, EPOCH_BYTES);
    }
    found
}

pub(crate) fn item(attributes: &[(String, u64)]) -> u64 {
    attributes.iter().map(|(_, bytes)| bytes).sum()
}

/// What an item of these attributes takes in an index; `None` when it is not in it.
pub(crate) fn index_entry(table: &Table, index: &Index, attributes: &[(String, u64)]) -> Option<u64> {
    let keys = || index.partition.iter().chain(&index.sort);
    if !keys().all(|key| attributes.iter().any(|(name, _)| *name == key.attribute)) {
        return None;
    }
    let is_key =
        |name: &str| keys().chain([&table.partition]).chain(&table.sort).any(|key| key.attribute == name);
    let projected = |name: &str| match &index.projection {
        Projection::All => true,
        Projection::Keys => is_key(name),
        Projection::Include(names) => is_key(name) || names.iter().any(|included| included == name),
    };
    Some(attributes.iter().filter(|(name, _)| projected(name)).map(|(_, bytes)| bytes).sum())
}

/// Whether writing an item again moves it in the index: its place there is a state, or the time of the write.
pub(crate) fn moves(entity: &Entity, index: &Index) -> bool {
    index.partition.iter().chain(&index.sort).any(|key| {
        let state = entity.lifecycles.iter().any(|lifecycle| lifecycle.attribute == key.attribute);
        let timed = entity.fields.iter().any(|field| {
            field.is_stored()
                && field.attribute == key.attribute
                && !field.on_create
                && field.equation.as_ref().is_some_and(is_of_now)
        });
        state || timed
    })
}

fn is_of_now(expr: &Expr) -> bool {
    match expr {
        Expr::Now => true,
        Expr::Field(_) | Expr::Literal(_) | Expr::Template(_) => false,
        Expr::Member(inner, _) | Expr::Not(inner) | Expr::Call(_, inner) => is_of_now(inner),
        Expr::Binary(_, left, right) => is_of_now(left) || is_of_now(right),
    }
}

fn value(schema: &Schema, entity: &Entity, field: &Field) -> u64 {
    match &field.equation {
        Some(Expr::Template(template)) => text(entity, template),
        Some(Expr::Call(crate::equation::Function::Sha256, _)) => 64,
        _ => typed(schema, &field.kind, 0),
    }
}

fn typed(schema: &Schema, kind: &Type, depth: usize) -> u64 {
    match kind {
        Type::String => TEXT_BYTES,
        Type::Url => URL_BYTES,
        Type::Bytes | Type::Json => DOCUMENT_BYTES,
        Type::Int | Type::Duration | Type::Sequence => WHOLE_BYTES,
        Type::Float | Type::Decimal => FRACTION_BYTES,
        Type::Epoch => EPOCH_BYTES,
        Type::Bool => 1,
        Type::Uuid { .. } => 36,
        Type::Date => 10,
        Type::Datetime => 19,
        Type::Instant(Precision::Seconds) => 20,
        Type::Instant(Precision::Millis) => 24,
        Type::Instant(Precision::Micros) => 27,
        Type::Choice(choices) => choices.iter().map(|choice| choice.len() as u64).max().unwrap_or(0),
        Type::Zoned => 0,
        Type::List(_) | Type::Map(_) | Type::Named(_) if depth >= DEPTH_MAX => CONTAINER_BYTES,
        // A set is its members, and nothing besides.
        Type::Set(of) => LIST_MEMBERS * typed(schema, of, depth + 1),
        Type::Map(of) => {
            CONTAINER_BYTES + LIST_MEMBERS * (1 + MAP_NAME_BYTES + typed(schema, &of.kind, depth + 1))
        }
        Type::List(of) => CONTAINER_BYTES + LIST_MEMBERS * (1 + typed(schema, &of.kind, depth + 1)),
        Type::Named(name) => {
            let fields = schema.type_definition(name).map(|definition| definition.fields.as_slice());
            let members = fields.unwrap_or_default().iter();
            let member =
                |field: &Field| 1 + field.attribute.len() as u64 + typed(schema, &field.kind, depth + 1);
            CONTAINER_BYTES + members.map(member).sum::<u64>()
        }
    }
}

/// The text of a template.
fn text(entity: &Entity, template: &Template) -> u64 {
    let parts = template.parts.iter().map(|part| match part {
        Part::Text(text) => text.len() as u64,
        Part::Hole(hole) => hole_bytes(entity, hole),
    });
    parts.sum()
}

fn hole_bytes(entity: &Entity, hole: &Hole) -> u64 {
    match &hole.format {
        Format::Pad(digits) => *digits as u64,
        // A sign, three digits and a point.
        Format::Fixed(decimals) => 5 + *decimals as u64,
        Format::Unix => 10,
        Format::Date(parts) => parts.iter().map(date_part).sum(),
        Format::Plain | Format::Fit => {
            let equation = entity.field(&hole.field).and_then(|field| field.equation.as_ref());
            match (equation, &hole.kind) {
                (Some(Expr::Template(template)), _) => text(entity, template),
                (_, Type::Url) => URL_BYTES,
                (_, Type::Uuid { .. }) => 36,
                (_, Type::Date) => 10,
                (_, Type::Instant(Precision::Seconds)) => 20,
                (_, Type::Instant(Precision::Millis)) => 24,
                (_, Type::Instant(Precision::Micros)) => 27,
                (_, Type::Int | Type::Sequence) => 4,
                _ => TEXT_BYTES,
            }
        }
    }
}

fn date_part(part: &DatePart) -> u64 {
    match part {
        DatePart::Text(text) => text.len_utf8() as u64,
        DatePart::Field('Y' | 'G') => 4,
        DatePart::Field('j') => 3,
        DatePart::Field('u') => 1,
        DatePart::Field('F') => 10,
        DatePart::Field('T') => 8,
        DatePart::Field(_) => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Environment;
    use crate::{NoFiles, Schema};

    fn schema(text: &str) -> Schema {
        let loaded = Schema::load("test.larder", text, &mut NoFiles, &Environment::new());
        loaded.schema.unwrap_or_else(|| panic!("{:?}", loaded.diagnostics))
    }

    const PAGES: &str = r#"
system pages
table pages {
  key  pk / sk
  ttl  ttl
  index by_state as by_state  state / seen_at  project keys
  index by_host  as by_host   host             project seen_at
  index by_made  as by_made   made_at
  entity Page {
    key  "PAGE#{id}" / "{day:%Y-%m}"
    ttl  1d
    input id:  uuid
    input day: date
    host:      string nonempty
    seen_at:   instant = now
    made_at:   instant = now on create
    links:     [Link]
    lifecycle state {
      state new, done
      finish: new -> done
    }
  }
}
type Link { url: url, n: int }
"#;

    #[test]
    fn an_item_is_the_sum_of_its_names_and_values() {
        let schema = schema(PAGES);
        let (table, page) = schema.entity("Page").unwrap();
        let attributes = attributes(&schema, table, page);
        let sizes: Vec<(&str, u64)> = attributes.iter().map(|(name, size)| (name.as_str(), *size)).collect();
        assert_eq!(
            sizes,
            [
                ("pk", 2 + 5 + 36),
                ("sk", 2 + 7),
                ("host", 4 + 32),
                ("seen_at", 7 + 20),
                ("made_at", 7 + 20),
                // 3 and ten members of 1 + (3 + (1 + 3 + 80) + (1 + 1 + 4))
                ("links", 5 + 3 + 10 * (1 + 3 + 84 + 6)),
                ("state", 5 + 4),
                ("ttl", 3 + 6),
            ]
        );
        assert_eq!(item(&attributes), 43 + 9 + 36 + 27 + 27 + 948 + 9 + 9);
    }

    #[test]
    fn an_index_holds_keys_and_what_is_projected() {
        let schema = schema(PAGES);
        let (table, page) = schema.entity("Page").unwrap();
        let attributes = attributes(&schema, table, page);
        let entries: Vec<Option<u64>> =
            table.indexes.iter().map(|index| index_entry(table, index, &attributes)).collect();
        let keys = 43 + 9;
        assert_eq!(entries, [Some(keys + 9 + 27), Some(keys + 36 + 27), Some(item(&attributes))]);
        assert_eq!(index_entry(table, &table.indexes[0], &attributes[..3]), None);
    }

    #[test]
    fn a_state_or_the_time_of_a_write_moves_an_item_in_its_index() {
        let schema = schema(PAGES);
        let (table, page) = schema.entity("Page").unwrap();
        let moving: Vec<bool> = table.indexes.iter().map(|index| moves(page, index)).collect();
        assert_eq!(moving, [true, false, false]);
    }
}
