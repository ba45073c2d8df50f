//! Third pass: keys. Whether they can be read back, fit, and are told apart.

use larder_model::KeyType;
use larder_model::limits::{PARTITION_KEY_BYTES_MAX, SORT_KEY_BYTES_MAX};

use crate::ast::{self, KeyPart};
use crate::diagnostic::Diagnostic;
use crate::equation::Expr;
use crate::resolve::Context;
use crate::resolve::entities::Frame;
use crate::resolve::types::{self, FieldNames, TypeScope, effective_checks};
use crate::schema::*;
use crate::span::Span;
use crate::symbols::SymbolKind;
use crate::template::{Format, Hole, Part, Template, hole_shape};

/// `pk`, or `number: int`. Its type is settled once the entities are known.
pub(super) fn table_key_part(
    context: &mut Context<'_>,
    part: &KeyPart,
    scope: &TypeScope<'_>,
) -> Option<KeyAttribute> {
    match part {
        KeyPart::Names(names) if names.len() == 1 => {
            let (name, kind) = &names[0];
            let kind = match kind {
                None => KeyType::S,
                Some(kind) => {
                    let written = ast::TypeRef {
                        kind: ast::TypeKind::Named(kind.clone(), None),
                        optional: false,
                        span: kind.span,
                    };
                    let (found, _) = types::type_ref(context, &written, scope)?;
                    let Some(key) = found.key_type() else {
                        context.report(
                            Diagnostic::new("L0111", kind.span, format!("a key cannot be a {found}"))
                                .note("keys are strings, numbers or bytes"),
                        );
                        return None;
                    };
                    key
                }
            };
            Some(KeyAttribute { name: name.text.clone(), attribute: scope.naming.stored(&name.text), kind })
        }
        KeyPart::Names(names) => {
            context.report(
                Diagnostic::new(
                    "L0101",
                    names[1].0.span,
                    "a table's key has one attribute on each side of the `/`",
                )
                .help("only an index key may have several"),
            );
            None
        }
        KeyPart::Template(template) => {
            context.report(
                Diagnostic::new("L0101", template.span, "a table's key names attributes")
                    .help("write the names here, as in `key pk / sk`, and the template in each entity"),
            );
            None
        }
    }
}

pub(super) fn entity_key(
    context: &mut Context<'_>,
    item: &ast::Entity,
    frame: &Frame<'_, '_>,
    names: &FieldNames<'_>,
    fields: &[Field],
) -> Option<(KeySource, Option<KeySource>)> {
    let Some(key) = &item.key else {
        let mut own = |attribute: &KeyAttribute| {
            if let Some(field) = fields.iter().find(|field| field.name == attribute.name && field.is_stored())
            {
                let span = item
                    .fields
                    .iter()
                    .find(|data| data.name.text == field.name)
                    .map_or(item.name.span, |data| data.name.span);
                required(context, field.optional, &field.name, span);
                return Some(KeySource::Field(field.name.clone()));
            }
            if names.declared.contains(&attribute.name.as_str()) {
                return None;
            }
            context.report(
                Diagnostic::new(
                    "L0102",
                    item.name.span,
                    format!("nothing says what `{}` is for {}", attribute.name, item.name.text),
                )
                .help(format!("write `key \"…\"`, or a field called `{}`", attribute.name)),
            );
            None
        };
        let partition = own(frame.partition);
        let sort = frame.sort.map(&mut own);
        return Some((
            partition?,
            match sort {
                Some(sort) => Some(sort?),
                None => None,
            },
        ));
    };
    if key.sort.is_some() != frame.sort.is_some() {
        let table_key = frame.item.key.as_ref().map_or(item.name.span, |key| key.span);
        let message = if frame.sort.is_some() {
            "this key lacks a sort key"
        } else {
            "this key has a sort key too many"
        };
        context.report(
            Diagnostic::new("L0101", key.span, message)
                .other(table_key, "the table's key")
                .help("give a template for each attribute of the table's key, parted by `/`"),
        );
        return None;
    }
    let partition = key_part(context, &key.partition, names, true);
    let sort = key.sort.as_ref().map(|part| key_part(context, part, names, false));
    Some((
        partition?,
        match sort {
            Some(sort) => Some(sort?),
            None => None,
        },
    ))
}

pub(super) fn key_part(
    context: &mut Context<'_>,
    part: &KeyPart,
    names: &FieldNames<'_>,
    partition: bool,
) -> Option<KeySource> {
    match part {
        KeyPart::Template(written) => {
            let (mut template, optional) = types::template(context, written, names)?;
            if optional {
                for name in written.holes() {
                    let missing =
                        names.known.iter().any(|(known, _, optional, _)| *known == name.text && *optional);
                    required(context, missing, &name.text, name.span);
                }
            }
            template.bytes_limit = Some(limit(partition));
            check_template(context, &template, written, partition);
            Some(KeySource::Template(template))
        }
        KeyPart::Names(list) if list.len() == 1 => {
            let name = &list[0].0;
            match names.known.iter().find(|(known, ..)| *known == name.text) {
                Some((_, kind, optional, _)) => {
                    context.refer(SymbolKind::Field, &format!("{}.{}", names.owner, name.text), name.span);
                    required(context, *optional, &name.text, name.span);
                    if kind.key_type().is_none() {
                        context.report(
                            Diagnostic::new("L0111", name.span, format!("a key cannot be a {kind}"))
                                .note("keys are strings, numbers or bytes"),
                        );
                        return None;
                    }
                    Some(KeySource::Field(name.text.clone()))
                }
                None => {
                    if !names.declared.contains(&name.text.as_str()) {
                        context.unknown("field", name, names.known.iter().map(|(name, ..)| name.as_str()));
                    }
                    None
                }
            }
        }
        KeyPart::Names(list) => {
            context.report(
                Diagnostic::new("L0101", list[1].0.span, "a key has one value on each side of the `/`")
                    .help("put them in one template: \"{a}#{b}\""),
            );
            None
        }
    }
}

pub(super) fn required(context: &mut Context<'_>, optional: bool, name: &str, span: Span) {
    if optional {
        context.report(
            Diagnostic::new("L0103", span, format!("a key needs `{name}`, which may be missing"))
                .note("every item has a key")
                .help(format!("make `{name}` required, or leave it out of the key")),
        );
    }
}

pub(super) fn limit(partition: bool) -> usize {
    if partition { PARTITION_KEY_BYTES_MAX } else { SORT_KEY_BYTES_MAX }
}

/// Whether a template can be read back, and fits.
pub(super) fn check_template(
    context: &mut Context<'_>,
    template: &Template,
    written: &ast::Template,
    partition: bool,
) {
    readable(context, template, written);
    let limit = limit(partition);
    let has_fit = template.holes().any(|hole| hole.format == Format::Fit);
    let long = template.holes().find(|hole| hole.kind == Type::Url && hole.format == Format::Plain);
    let too_long = template.bytes_max().filter(|max| *max > limit);
    if !has_fit && (long.is_some() || too_long.is_some()) {
        let kind = if partition { "partition" } else { "sort" };
        let mut problem = Diagnostic::new(
            "L0108",
            written.span,
            format!("a {kind} key holds {limit} bytes, and this one can be longer"),
        );
        problem = match (long, too_long) {
            (Some(hole), _) => {
                problem.help(format!("write {{{}:fit}}: a longer URL then ends in a digest", hole.field))
            }
            (None, Some(max)) => problem
                .note(format!("its fields allow {max} bytes"))
                .help("bound a field with `len`, or end the template in a `fit` hole"),
            (None, None) => problem,
        };
        context.report(problem);
    }
}

pub(super) fn readable(context: &mut Context<'_>, template: &Template, written: &ast::Template) {
    let Some(found) = template.ambiguity() else { return };
    let hole_span = |at: usize| match written.parts.get(at) {
        Some(ast::TemplatePart::Hole { span, .. }) => *span,
        _ => written.span,
    };
    let (first, second) = (&found.first, &found.second);
    let fixed = separated(template, found.parts);
    let mut problem = Diagnostic::new("L0107", hole_span(found.parts.1), "this key cannot be read back");
    problem = if found.between.is_empty() {
        problem
            .label(format!("nothing separates `{first}` from `{second}`"))
            .note(shared_character(template, found.parts).map_or_else(
            || format!("where `{first}` ends and `{second}` begins cannot be told from the key alone"),
            |c| {
                format!(
                    "`{first}` may end in `{c}` and `{second}` may begin with it, so a key has two readings"
                )
            },
        ))
    } else {
        problem
            .label(format!("`{first}` may contain `{}` itself", found.between))
            .note("a key with that text in both fields has two readings")
    };
    context.report(problem.help(fixed));
}

/// A character that both holes may have, to show why they cannot be told apart.
fn shared_character(template: &Template, (first, second): (usize, usize)) -> Option<char> {
    let (Part::Hole(first), Part::Hole(second)) = (&template.parts[first], &template.parts[second]) else {
        return None;
    };
    "1a-A_#".chars().find(|c| first.shape.chars.contains(*c) && second.shape.chars.contains(*c))
}

fn separated(template: &Template, (first, second): (usize, usize)) -> String {
    let Part::Hole(hole) = &template.parts[first] else { return String::new() };
    let separator = ["#", "_", "-", "/", "|", "~"]
        .into_iter()
        .find(|text| text.chars().all(|c| !hole.shape.chars.contains(c)));
    match separator {
        Some(separator) => {
            let mut parts = template.parts.clone();
            parts.splice(first + 1..second, [Part::Text(separator.to_owned())]);
            let fixed = Template { parts, bytes_limit: None };
            format!("put a separator between them: \"{}\"", fixed.source())
        }
        None => format!(
            "say what `{}` may hold, as in `match /[a-z0-9]+/`, and part the two with another character",
            hole.field
        ),
    }
}

/// The type of a key attribute is what all entities put there.
pub(super) fn decide_kind(
    context: &mut Context<'_>,
    mut attribute: KeyAttribute,
    entities: &[Entity],
    item: &ast::Table,
    partition: bool,
) -> KeyAttribute {
    let declared = item.key.as_ref().and_then(|key| {
        match if partition { Some(&key.partition) } else { key.sort.as_ref() } {
            Some(KeyPart::Names(names)) => names[0].1.clone(),
            _ => None,
        }
    });
    let mut settled: Option<(KeyType, &str)> = declared.as_ref().map(|_| (attribute.kind, "the table"));
    for entity in entities {
        let source = if partition { Some(&entity.partition) } else { entity.sort.as_ref() };
        let Some(source) = source else { continue };
        let (kind, empty) = match source {
            KeySource::Template(template) => (Some(KeyType::S), template.chars_min() == 0),
            KeySource::Field(name) => {
                let field = entity.field(name);
                (
                    field.and_then(|field| field.kind.key_type()),
                    field.is_some_and(|field| may_be_empty(entity, field)),
                )
            }
        };
        let span = item.entities.iter().find(|written| written.name.text == entity.name).map_or(
            item.name.span,
            |written| {
                written.key.as_ref().map_or_else(
                    || written.data_named(&attribute.name).map_or(written.name.span, |data| data.name.span),
                    |key| key.span,
                )
            },
        );
        if empty {
            context.report(
                Diagnostic::new("L0110", span, "this key can be empty")
                    .note("DynamoDB refuses an empty key")
                    .help("add `nonempty` to the field, or put some text into the template"),
            );
        }
        let Some(kind) = kind else {
            context.report(Diagnostic::new("L0111", span, "this key is neither string, number nor bytes"));
            continue;
        };
        match settled {
            None => settled = Some((kind, &entity.name)),
            Some((first, by)) if first != kind => context.report(
                Diagnostic::new(
                    "L0111",
                    span,
                    format!("`{}` is {kind} here and {first} in {by}", attribute.name),
                )
                .note("a key attribute has one type in all items of a table"),
            ),
            Some(_) => {}
        }
    }
    attribute.kind = settled.map_or(KeyType::S, |(kind, _)| kind);
    attribute
}

pub(super) fn may_be_empty(entity: &Entity, field: &Field) -> bool {
    let all: Vec<&Field> = entity.fields.iter().collect();
    let checks = effective_checks(field, &all);
    match &field.kind {
        Type::String | Type::Bytes => match &field.equation {
            Some(Expr::Template(template)) => template.chars_min() == 0,
            _ => hole_shape(&Type::String, &checks, &Format::Plain).is_ok_and(|shape| shape.min == 0),
        },
        Type::Choice(choices) => choices.iter().any(String::is_empty),
        _ => false,
    }
}

/// A key source as a template, so that two can be compared.
pub(super) fn as_template(entity: &Entity, source: &KeySource) -> Option<Template> {
    match source {
        KeySource::Template(template) => Some(template.clone()),
        KeySource::Field(name) => {
            let field = entity.field(name)?;
            if let Some(Expr::Template(template)) = &field.equation {
                return Some(template.clone());
            }
            let all: Vec<&Field> = entity.fields.iter().collect();
            let shape = hole_shape(&field.kind, &effective_checks(field, &all), &Format::Plain).ok()?;
            let hole = Hole { field: name.clone(), kind: field.kind.clone(), format: Format::Plain, shape };
            Some(Template { parts: vec![Part::Hole(hole)], bytes_limit: None })
        }
    }
}

pub(super) fn collisions(context: &mut Context<'_>, entities: &[Entity], item: &ast::Table) {
    let span = |entity: &Entity| {
        let written = item.entities.iter().find(|written| written.name.text == entity.name);
        written
            .map_or(item.name.span, |written| written.key.as_ref().map_or(written.name.span, |key| key.span))
    };
    for (at, entity) in entities.iter().enumerate() {
        for other in &entities[..at] {
            let meet = |a: Option<&KeySource>, b: Option<&KeySource>| {
                let a = a.and_then(|source| as_template(entity, source));
                let b = b.and_then(|source| as_template(other, source));
                a.zip(b).is_none_or(|(a, b)| a.may_equal(&b))
            };
            if meet(Some(&entity.partition), Some(&other.partition))
                && meet(entity.sort.as_ref(), other.sort.as_ref())
            {
                context.report(
                    Diagnostic::new(
                        "L0105",
                        span(entity),
                        format!("{} and {} could have the same key", entity.name, other.name),
                    )
                    .other(span(other), format!("the key of {}", other.name))
                    .note("one would overwrite the other, and a reader could not tell them apart")
                    .help(format!(
                        "begin one of them differently, as in \"{}#…\"",
                        entity.name.to_uppercase()
                    )),
                );
            }
        }
    }
}

/// Templates of attributes that are keys know how long a key may be.
pub(super) fn fit_limits(
    entities: &mut [Entity],
    partition: &KeyAttribute,
    sort: Option<&KeyAttribute>,
    indexes: &[Index],
) {
    let limit_of = |name: &str| {
        let in_sort = sort.is_some_and(|sort| sort.name == name)
            || indexes.iter().any(|index| index.sort.iter().any(|part| part.name == name));
        let in_partition = partition.name == name
            || indexes.iter().any(|index| index.partition.iter().any(|part| part.name == name));
        if in_sort { Some(SORT_KEY_BYTES_MAX) } else { in_partition.then_some(PARTITION_KEY_BYTES_MAX) }
    };
    for entity in entities {
        for field in &mut entity.fields {
            let limit = limit_of(&field.name);
            if let Some(Expr::Template(template)) = &mut field.equation {
                template.bytes_limit = limit;
            }
        }
        for lifecycle in &mut entity.lifecycles {
            let limit = limit_of(&lifecycle.held_in);
            for state in &mut lifecycle.states {
                state.template.bytes_limit = limit;
            }
        }
    }
}

/// Equations that are keys are held to what keys are held to; a URL in a plain key attribute too.
pub(super) fn attribute_templates(
    context: &mut Context<'_>,
    entity: &Entity,
    indexes: &[Index],
    item: &ast::Table,
) {
    let Some(written) = item.entities.iter().find(|written| written.name.text == entity.name) else { return };
    for field in &entity.fields {
        let Some(data) = written.data_named(&field.name) else { continue };
        let sort = indexes.iter().any(|index| index.sort.iter().any(|part| part.name == field.name))
            || matches!(&entity.sort, Some(KeySource::Field(name)) if *name == field.name);
        let partition =
            indexes.iter().any(|index| index.partition.iter().any(|part| part.name == field.name))
                || matches!(&entity.partition, KeySource::Field(name) if *name == field.name);
        match (&field.equation, data.equation.as_ref().map(|equation| &equation.kind)) {
            (
                Some(Expr::Template(template)),
                Some(ast::ExprKind::Literal(ast::Literal { kind: ast::LiteralKind::Text(text), .. })),
            ) => {
                if sort || partition {
                    check_template(context, template, text, !sort);
                } else if template.holes().any(|hole| hole.format == Format::Fit) {
                    context.report(
                        Diagnostic::new("L0109", text.span, "`fit` is for keys")
                            .note("an attribute that is no key has no such limit")
                            .help("leave the `:fit` out"),
                    );
                }
            }
            _ => {
                let long = field.checks.len.and_then(|(_, max)| max).is_some_and(|max| max > limit(!sort));
                if (sort || partition) && (field.kind == Type::Url || long) {
                    let kind = if sort { "sort" } else { "partition" };
                    context.report(
                        Diagnostic::new(
                            "L0108",
                            data.name.span,
                            format!("a {kind} key holds {} bytes, and this one can be longer", limit(!sort)),
                        )
                        .help(format!("index a template instead: `short = \"{{{}:fit}}\"`", field.name)),
                    );
                }
            }
        }
    }
    let holes =
        [Some(&entity.partition), entity.sort.as_ref()].into_iter().flatten().filter_map(
            |source| match source {
                KeySource::Template(template) => Some(template),
                KeySource::Field(_) => None,
            },
        );
    for hole in holes.flat_map(Template::holes).filter(|hole| hole.format == Format::Fit) {
        if entity.field(&hole.field).is_some_and(|field| !field.is_stored()) {
            let span = written.data_named(&hole.field).map_or(written.name.span, |data| data.name.span);
            context.report(
                Diagnostic::new(
                    "L0109",
                    span,
                    format!("`{}` is `fit` into a key and must be stored too", hole.field),
                )
                .note("a key that ends in a digest does not give the value back")
                .help(format!("write `{}: {}` without `input`", hole.field, hole.kind)),
            );
        }
    }
}
