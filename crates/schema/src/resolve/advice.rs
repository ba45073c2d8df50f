//! Last pass: what works and will disappoint.

use crate::ast::{self, Item};
use crate::diagnostic::Diagnostic;
use crate::grants;
use crate::resolve::Context;
use crate::resolve::settings::Words;
use crate::schema::*;
use crate::span::Span;

/// Requests a month from which a table counts as busy.
const BUSY_MONTHLY: f64 = 1_000_000.0;

pub(super) fn give<'a>(context: &mut Context<'a>, items: &'a [Item], schema: &Schema) {
    for table in &schema.tables {
        for entity in &table.entities {
            let Some(written) = written(items, &entity.name) else { continue };
            scans(context, entity, written, schema);
            secrets(context, entity, written, items, schema);
        }
    }
    let blocks = items.iter().filter_map(|item| match item {
        Item::Block(block) if block.name.text == "grant" => Some(block),
        _ => None,
    });
    for block in blocks {
        let name = Words::of(context, &block.values).word().map(|(name, _)| name.to_owned());
        if let Some(grant) = schema.grants.iter().find(|grant| Some(&grant.name) == name.as_ref()) {
            self::grant(context, grant, block.name.span, schema);
        }
    }
}

fn grant(context: &mut Context<'_>, grant: &Grant, span: Span, schema: &Schema) {
    let lacks = grants::lacks(schema, grant);
    if lacks.is_empty() {
        return;
    }
    let name = &grant.name;
    let mut diagnostic =
        Diagnostic::new("L0703", span, format!("`{name}` lacks what the layer calls for what it may do"));
    for (action, calls) in &lacks {
        diagnostic = diagnostic.note(format!("without `{}`, refused: {}", action.name(), calls.join(", ")));
    }
    let may = |action: &Action| grant.actions.contains(action) || lacks.iter().any(|(one, _)| one == action);
    let whole: Vec<&str> =
        Action::ALL.iter().filter(|action| may(action)).map(|action| action.name()).collect();
    let on = if grant.tables.is_empty() { String::new() } else { format!(" on {}", grant.tables.join(", ")) };
    context.report(diagnostic.help(format!(
        "write `grant {name}{on} {{ {} }}`, or keep it so if the program makes none of these calls",
        whole.join(", ")
    )));
}

fn written<'a>(items: &'a [Item], name: &str) -> Option<&'a ast::Entity> {
    items.iter().find_map(|item| match item {
        Item::Table(table) => table.entities.iter().find(|entity| entity.name.text == name),
        _ => None,
    })
}

fn setting_span(entity: &ast::Entity, name: &str) -> Span {
    entity
        .settings
        .iter()
        .find(|setting| setting.name.text == name)
        .map_or(entity.name.span, |setting| setting.span)
}

fn scans(context: &mut Context<'_>, entity: &Entity, written: &ast::Entity, schema: &Schema) {
    if entity.policy.scan != Scan::Allow {
        return;
    }
    let busiest = schema.workload.as_ref().map_or(0.0, |workload| {
        [workload.requests, workload.reads]
            .into_iter()
            .flatten()
            .map(|rate| rate.monthly())
            .fold(0.0, f64::max)
    });
    let why = if entity.source.is_some() {
        "this entity is read on every request, and a scan reads the whole table"
    } else if busiest >= BUSY_MONTHLY {
        "the workload is over a million reads a month, and a scan reads the whole table"
    } else {
        return;
    };
    context.report(
        Diagnostic::new("L0507", setting_span(written, "scan"), "a scan is allowed on a hot path")
            .note(why)
            .help("write `scan ask`: the price is shown first; or add an index that answers the question"),
    );
}

/// Names that are seldom anything but secrets.
pub(crate) const SECRET_NAMES: [&str; 8] =
    ["password", "passwd", "secret", "api_key", "apikey", "private_key", "access_token", "token"];

fn secrets(
    context: &mut Context<'_>,
    entity: &Entity,
    written: &ast::Entity,
    items: &[Item],
    schema: &Schema,
) {
    let cached = entity.source.is_some() || entity.policy.l1.is_some();
    let mut seen = Vec::new();
    for field in &entity.fields {
        let span = written.data_named(&field.name).map_or(written.name.span, |data| data.name.span);
        look(context, field, span, cached, entity);
        let mut kinds = vec![&field.kind];
        while let Some(kind) = kinds.pop() {
            match kind {
                Type::Named(name) if !seen.contains(name) => {
                    seen.push(name.clone());
                    let Some(definition) = schema.type_definition(name) else { continue };
                    for member in &definition.fields {
                        let span = member_span(items, name, &member.name).unwrap_or(span);
                        look(context, member, span, cached, entity);
                        kinds.push(&member.kind);
                    }
                }
                kind => kinds.extend(kind.member()),
            }
        }
    }
}

fn look(context: &mut Context<'_>, field: &Field, span: Span, cached: bool, entity: &Entity) {
    if field.checks.secret && cached && field.role == Role::Stored {
        context.report(
            Diagnostic::new("L0508", span, format!("the secret `{}` is kept in a cache", field.name))
                .note(format!("{} is cached: copies of it are made where nobody looks after them", entity.name))
                .help("leave it out of the cached value, or keep it in an entity without a source and without `l1`"),
        );
    }
    let name = field.name.to_ascii_lowercase();
    if !field.checks.secret && SECRET_NAMES.contains(&name.as_str()) && field.kind.is_text() {
        context.report(
            Diagnostic::new("L0509", span, format!("`{}` sounds like a secret", field.name))
                .note("what is not marked is logged and shown")
                .help(format!("mark it: `{}: {} secret`", field.name, field.kind)),
        );
    }
}

fn member_span(items: &[Item], kind: &str, field: &str) -> Option<Span> {
    items.iter().find_map(|item| match item {
        Item::Type(item) if item.name.text == kind => {
            item.fields.iter().find(|data| data.name.text == field).map(|data| data.name.span)
        }
        _ => None,
    })
}
