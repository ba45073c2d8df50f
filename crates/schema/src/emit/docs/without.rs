//! What a program needs to know that reads and writes the items with an SDK alone: keys, freshness, items in parts.

use std::fmt::Write as _;

use super::spelled;
use crate::equation::Expr;
use crate::schema::*;
use crate::template::{Format, Part, Template};

pub(super) fn without(out: &mut String, schema: &Schema) {
    let tables = || schema.tables.iter().filter(|table| !table.entities.is_empty());
    if tables().next().is_none() {
        return;
    }
    out.push_str(
        "## Without the layer\n\nPrograms that use an SDK alone make keys so, here in Python:\n\n```python\n",
    );
    let mut first = true;
    for table in tables() {
        for entity in &table.entities {
            if !std::mem::take(&mut first) {
                out.push('\n');
            }
            key_builder(out, table, entity);
        }
    }
    out.push_str("```\n\n");
    for table in tables() {
        freshness(out, table);
    }
    let in_parts: Vec<&str> = tables()
        .flat_map(|table| &table.entities)
        .filter(|entity| entity.policy.may_pack())
        .map(|entity| entity.name.as_str())
        .collect();
    if !in_parts.is_empty() {
        let _ = write!(
            out,
            "An item with `larder_parts` is not whole ({}). `larder_packed` has the rest of its attributes, compressed by gzip. Where `larder_parts` has a `count`, the \
             rest is in so many items beside it, whose last key attribute is its own followed by `#larder#VERSION#NUMBER`, from 0 on: the `version` is in `larder_parts` too, and the CRC-32 of \
             their `larder_chunk`s, joined, is its `checksum`. What the item has itself is newer. What does not fit together was being replaced: read the first item again. Items with `larder_chunk` are no records: leave \
             them out of what a query or scan finds. `examples/python/larder_parts.py` and `examples/typescript/larder-parts.ts` put an item together, and judge how fresh it is.\n\n",
            in_parts.join(", ")
        );
    }
}

fn freshness(out: &mut String, table: &Table) {
    let Some(ttl) = &table.ttl else { return };
    let living: Vec<&Entity> = table.entities.iter().filter(|entity| entity.ttl.is_some()).collect();
    if living.is_empty() {
        return;
    }
    let outlives =
        |entity: &&&Entity| entity.policy.stale_millis.is_some() || entity.policy.grace_millis.is_some();
    let until = match living.iter().any(|entity| outlives(&entity)) {
        true => format!("`larder_fresh_until`, or `{}` of an item without it", ttl.attribute),
        false => format!("`{}`", ttl.attribute),
    };
    let _ = write!(
        out,
        "An item of {} is **fresh** while the time, in whole Unix seconds, is not past {until}.",
        table.name
    );
    for entity in living.iter().filter(outlives) {
        let policy = &entity.policy;
        let mut may = Vec::new();
        if let Some(millis) = policy.stale_millis {
            may.push(format!("for {} while a new one is fetched", spelled(millis)));
        }
        if let Some(millis) = policy.grace_millis {
            may.push(format!("for {} when the source fails", spelled(millis)));
        }
        let _ = write!(out, " {} is **stale** then, and may be given {}.", entity.name, may.join(", and "));
    }
    out.push_str(" Otherwise it is **gone**, although the store may have it for days yet.");
    let marked =
        |entity: &&Entity| entity.policy.negative_millis.is_some() || entity.policy.flight_millis.is_some();
    if living.iter().any(marked) {
        out.push_str(" One with `larder_absent` says that there is none.");
    }
    out.push_str("\n\n");
}

fn key_builder(out: &mut String, table: &Table, entity: &Entity) {
    let mut parameters: Vec<&str> = Vec::new();
    let mut notes: Vec<String> = Vec::new();
    let mut parts = Vec::new();
    let keys = std::iter::once((&table.partition, &entity.partition))
        .chain(table.sort.as_ref().zip(entity.sort.as_ref()));
    for (attribute, source) in keys {
        let text = match source {
            KeySource::Template(template) => built(template, entity, &mut parameters, &mut notes),
            KeySource::Field(name) => match entity.field(name).and_then(|field| field.equation.as_ref()) {
                Some(Expr::Template(template)) => built(template, entity, &mut parameters, &mut notes),
                _ => {
                    let kind = entity.field(name).map_or(&Type::String, |field| &field.kind);
                    add(name, entity, &mut parameters, &mut notes);
                    match kind {
                        Type::Instant(_) | Type::Date | Type::Datetime => {
                            format!("f\"{}\"", hole(name, kind, &Format::Plain))
                        }
                        _ => name.clone(),
                    }
                }
            },
        };
        parts.push(format!("\"{}\": {text}", attribute.attribute));
    }
    let name = super::super::rust::names::snake(&entity.name);
    let _ = writeln!(out, "def {name}_key({}):", parameters.join(", "));
    for note in notes {
        let _ = writeln!(out, "    # {note}");
    }
    let _ = writeln!(out, "    return {{{}}}", parts.join(", "));
}

fn built<'a>(
    template: &'a Template,
    entity: &'a Entity,
    parameters: &mut Vec<&'a str>,
    notes: &mut Vec<String>,
) -> String {
    let mut text = String::new();
    let mut holes = false;
    for part in &template.parts {
        match part {
            Part::Text(plain) => text.push_str(
                &plain.replace('\\', "\\\\").replace('"', "\\\"").replace('{', "{{").replace('}', "}}"),
            ),
            Part::Hole(found) => {
                holes = true;
                add(&found.field, entity, parameters, notes);
                if found.format == Format::Fit {
                    notes.push(format!(
                        "a key that is too long ends in `~` and the SHA-256 of `{}`",
                        found.field
                    ));
                }
                text.push_str(&hole(&found.field, &found.kind, &found.format));
            }
        }
    }
    if holes { format!("f\"{text}\"") } else { format!("\"{}\"", text.replace("{{", "{").replace("}}", "}")) }
}

/// A parameter, and what it is where the schema works it out.
fn add<'a>(name: &'a str, entity: &'a Entity, parameters: &mut Vec<&'a str>, notes: &mut Vec<String>) {
    if parameters.contains(&name) {
        return;
    }
    parameters.push(name);
    if let Some(equation) = entity.field(name).and_then(|field| field.equation.as_ref()) {
        notes.push(format!("{name} = {}", equation.source()));
    }
}

fn hole(name: &str, kind: &Type, format: &Format) -> String {
    let precise = |digits: usize| match digits {
        0 => format!("{{{name}:%Y-%m-%dT%H:%M:%S}}Z"),
        3 => format!("{{{name}.isoformat(timespec='milliseconds')[:23]}}Z"),
        _ => format!("{{{name}.isoformat(timespec='microseconds')[:26]}}Z"),
    };
    match (format, kind) {
        (Format::Unix, _) => format!("{{int({name}.timestamp())}}"),
        (Format::Plain, Type::Instant(precision)) => precise(match precision {
            Precision::Seconds => 0,
            Precision::Millis => 3,
            Precision::Micros => 6,
        }),
        (Format::Plain, Type::Datetime) => format!("{{{name}.isoformat()}}"),
        (Format::Plain, Type::Epoch) => format!("{{int({name}.timestamp())}}"),
        (Format::Plain | Format::Fit, _) => format!("{{{name}}}"),
        (Format::Pad(_) | Format::Fixed(_) | Format::Date(_), _) => format!("{{{name}{}}}", format.suffix()),
    }
}
