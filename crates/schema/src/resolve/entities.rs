//! Third pass, one entity: its settings, key, TTL and lifecycles, and what its equations promise.

use std::collections::HashSet;

use larder_model::limits::GLOBAL_INDEXES_MAX;

use crate::ast;
use crate::diagnostic::Diagnostic;
use crate::equation::{Expr, Function};
use crate::resolve::indexes::index_names;
use crate::resolve::keys::*;
use crate::resolve::names::Defaults;
use crate::resolve::settings::{self, EntitySettings, LabelWritten};
use crate::resolve::types::{self, FieldNames, Owner, TypeScope, effective_checks};
use crate::resolve::{Context, lifecycles};
use crate::schema::*;
use crate::span::Span;
use crate::symbols::SymbolKind;
use crate::template::{Format, Template};

pub(super) struct Frame<'f, 'a> {
    pub(super) item: &'a ast::Table,
    pub(super) scope: &'f TypeScope<'a>,
    pub(super) schema: &'f Schema,
    pub(super) partition: &'f KeyAttribute,
    pub(super) sort: Option<&'f KeyAttribute>,
    pub(super) ttl: Option<&'f TtlAttribute>,
    pub(super) defaults: &'f Defaults<'a>,
}

pub(super) fn entity<'a>(
    context: &mut Context<'a>,
    item: &'a ast::Entity,
    frame: &Frame<'_, 'a>,
) -> Option<Entity> {
    if let Some(source) = &item.source {
        if frame.schema.source(&source.text).is_some() {
            context.refer(SymbolKind::Source, &source.text, source.span);
        } else {
            let known: Vec<&str> = frame.schema.sources.iter().map(|source| source.name.as_str()).collect();
            let mut problem =
                Diagnostic::new("L0201", source.span, format!("there is no source called `{}`", source.text));
            problem = if known.is_empty() {
                problem.help(format!("declare it: `source {}`", source.text))
            } else {
                problem.did_you_mean(&source.text, known)
            };
            context.report(problem);
        }
    }
    let mut written = EntitySettings::default();
    context.check_twice(&item.settings);
    for setting in frame.defaults.entity.iter().copied().chain(&item.settings) {
        settings::entity(context, &mut written, setting);
    }
    let owner = Owner { name: &item.name.text, lifecycles: &item.lifecycles, entity: true };
    let read = types::fields(context, &item.fields, frame.scope, owner);
    let complete = read.fields.len() == item.fields.len();
    let all: Vec<&Field> = read.fields.iter().collect();
    let mut known: Vec<_> = read
        .fields
        .iter()
        .map(|field| (field.name.clone(), field.kind.clone(), field.optional, effective_checks(field, &all)))
        .collect();
    known.extend(types::lifecycle_fields(&item.lifecycles));
    let names = FieldNames {
        known: &known,
        declared: item.fields.iter().map(|data| data.name.text.as_str()).collect(),
        owner: &item.name.text,
        scope: frame.scope,
    };

    let keys = entity_key(context, item, frame, &names, &read.fields);
    let ttl = ttl(context, &written, item, frame, &names);
    let lifecycles = lifecycles::resolve(context, item, &names, &read.fields, frame.scope.naming);
    if let Some(name) = &written.record {
        match read.fields.iter().find(|field| field.name == name.text) {
            Some(Field { kind: Type::List(_), .. }) => {
                context.refer(SymbolKind::Field, &format!("{}.{}", item.name.text, name.text), name.span);
                written.policy.checks = CheckMode::Record(name.text.clone());
            }
            Some(field) => context.report(
                Diagnostic::new("L0206", name.span, format!("`{}` is a {}", field.name, field.kind))
                    .help("violations are recorded in a list"),
            ),
            None if complete => {
                context.unknown("field", name, read.fields.iter().map(|field| field.name.as_str()));
            }
            None => {}
        }
    }
    for (label, _) in &written.labels {
        let label = match label {
            LabelWritten::Template(template) => {
                types::template(context, template, &names).map(|(template, _)| Label::Template(template))
            }
            LabelWritten::Name(name) if known.iter().any(|(known, ..)| *known == name.text) => {
                context.refer(SymbolKind::Field, &format!("{}.{}", item.name.text, name.text), name.span);
                Some(Label::Field(name.text.clone()))
            }
            LabelWritten::Name(name) => {
                context.unknown("field", name, known.iter().map(|(name, ..)| name.as_str()));
                None
            }
        };
        written.policy.labels.extend(label);
    }
    let (partition, sort) = keys?;
    if !complete {
        return None;
    }
    let entity = Entity {
        name: item.name.text.clone(),
        docs: item.docs.clone(),
        source: item.source.as_ref().map(|name| name.text.clone()),
        partition,
        sort,
        ttl,
        policy: written.policy,
        fields: read.fields,
        order: read.order,
        lifecycles: lifecycles?,
    };
    clashes(context, item, &entity, frame);
    recomputable(context, item, &entity);
    secrets_in_keys(context, item, &entity, frame);
    Some(entity)
}

pub(super) fn ttl(
    context: &mut Context<'_>,
    written: &EntitySettings,
    item: &ast::Entity,
    frame: &Frame<'_, '_>,
    names: &FieldNames<'_>,
) -> Option<Ttl> {
    let ttl = written.ttl.as_ref()?;
    if frame.ttl.is_none() {
        context.report(
            Diagnostic::new(
                "L0501",
                ttl.span,
                format!("{} ends, and the table has no attribute to say when", item.name.text),
            )
            .other(frame.item.name.span, "this table")
            .help("add `ttl ttl` to the table"),
        );
    }
    if let ast::ExprKind::Literal(ast::Literal { kind: ast::LiteralKind::Duration(millis), .. }) =
        ttl.expression.kind
    {
        if millis < 1000 {
            context.report(
                Diagnostic::new("L0206", ttl.span, "a TTL counts seconds").help("write at least `1s`"),
            );
        }
        return Some(Ttl::After { millis });
    }
    if let ast::ExprKind::Name(name) = &ttl.expression.kind
        && !names.known.iter().any(|(known, ..)| *known == name.text)
    {
        match frame.schema.param(&name.text) {
            Some(param) if param.kind == ParamKind::Duration => {
                context.refer(SymbolKind::Param, &name.text, name.span);
                return Some(Ttl::Param(name.text.clone()));
            }
            Some(param) => {
                context.report(
                    Diagnostic::new(
                        "L0307",
                        name.span,
                        format!("a TTL is a duration, and `{}` is a {}", name.text, param.kind.name()),
                    )
                    .help(format!("declare it `param {}: duration = …`", name.text)),
                );
                return None;
            }
            None => {
                let known: Vec<&str> = frame
                    .schema
                    .params
                    .iter()
                    .map(|param| param.name.as_str())
                    .chain(names.known.iter().map(|(name, ..)| name.as_str()))
                    .collect();
                context.unknown("param or field", name, known);
                return None;
            }
        }
    }
    let typed = types::typed(context, &ttl.expression, names)?;
    if !matches!(typed.kind, Type::Duration | Type::Instant(_) | Type::Epoch | Type::Json) {
        context.report(
            Diagnostic::new(
                "L0301",
                ttl.span,
                format!("a TTL is a duration or a moment, and this is a {}", typed.kind),
            )
            .help("write a duration such as `7d`, or a field of type duration, instant or epoch"),
        );
        return None;
    }
    Some(Ttl::Value(typed.expr))
}

/// Names the layer writes itself, and names that stand twice in one item.
pub(super) fn clashes(context: &mut Context<'_>, item: &ast::Entity, entity: &Entity, frame: &Frame<'_, '_>) {
    let mut taken: Vec<(String, &str)> = Vec::new();
    let keys = [(Some(frame.partition), Some(&entity.partition)), (frame.sort, entity.sort.as_ref())];
    for (attribute, source) in keys {
        if let (Some(attribute), Some(source)) = (attribute, source)
            && !matches!(source, KeySource::Field(name) if *name == attribute.name)
        {
            taken.push((attribute.attribute.clone(), "the table's key"));
        }
    }
    if let Some(ttl) = frame.ttl {
        taken.push((ttl.attribute.clone(), "the table's TTL"));
    }
    for lifecycle in &entity.lifecycles {
        taken.push((lifecycle.attribute.clone(), "a lifecycle's state"));
        if let Some(lease) = &lifecycle.lease {
            let owner_is_field = entity
                .fields
                .iter()
                .any(|field| field.attribute == lease.owner && declared_owner(item, &field.name));
            if !owner_is_field {
                taken.push((lease.owner.clone(), "a lease's owner"));
            }
            taken.push((lease.until.clone(), "a lease's end"));
            taken.push((lease.fence.clone(), "a lease's number"));
            taken.push((lease.attempts.clone(), "a lease's attempts"));
        }
    }
    for (at, (name, what)) in taken.iter().enumerate() {
        if let Some((_, first)) = taken[..at].iter().find(|(first, _)| first == name) {
            context.report(
                Diagnostic::new("L0203", item.name.span, format!("`{name}` would hold {first} and {what}"))
                    .help("give one of them another name"),
            );
        }
    }
    for field in entity.fields.iter().filter(|field| field.is_stored()) {
        let span = item
            .fields
            .iter()
            .find(|data| data.name.text == field.name)
            .map_or(item.name.span, |data| data.name.span);
        if let Some((_, what)) = taken.iter().find(|(name, _)| *name == field.attribute) {
            context.report(
                Diagnostic::new("L0203", span, format!("`{}` already holds {what}", field.attribute))
                    .help(format!("store it under another name: `{} as other: …`", field.name)),
            );
        } else if field.attribute.starts_with("larder_") {
            context.report(
                Diagnostic::new("L0203", span, "names that begin with `larder_` are Larder's own")
                    .note("parts of split values, versions and encodings are kept under them")
                    .help("choose another name"),
            );
        }
    }
}

pub(super) fn declared_owner(item: &ast::Entity, field: &str) -> bool {
    item.data_named(field).is_some()
        && item
            .lifecycles
            .iter()
            .flat_map(|lifecycle| &lifecycle.settings)
            .any(|setting| setting.name.text == "owner")
}

impl ast::Entity {
    pub(super) fn data_named(&self, name: &str) -> Option<&ast::Data> {
        self.fields.iter().find(|data| data.name.text == name)
    }
}

/// What a field is worked out from, through `let`s, as far as the fields that are kept or given.
pub(super) fn sources<'e>(entity: &'e Entity, equation: &'e Expr) -> Vec<&'e Field> {
    let mut found: Vec<&Field> = Vec::new();
    let mut waiting = equation.fields();
    let mut seen: HashSet<&str> = HashSet::new();
    while let Some(name) = waiting.pop() {
        if !seen.insert(name) {
            continue;
        }
        let Some(field) = entity.field(name) else { continue };
        match (&field.equation, field.role) {
            (Some(inner), Role::Let) => waiting.extend(inner.fields()),
            _ => found.push(field),
        }
    }
    found
}

/// Fields that can be read back from the item: its stored templates and its key hold them.
pub(super) fn recoverable(entity: &Entity, name: &str) -> Recovery {
    let holds = |template: &Template| {
        template.holes().any(|hole| {
            hole.field == name
                && match hole.format {
                    Format::Plain | Format::Pad(_) | Format::Fixed(_) => true,
                    Format::Date(_) => hole.kind == Type::Date,
                    Format::Unix => matches!(hole.kind, Type::Instant(Precision::Seconds) | Type::Epoch),
                    Format::Fit => false,
                }
        })
    };
    let in_key = [Some(&entity.partition), entity.sort.as_ref()].into_iter().flatten().any(|source| match source {
        KeySource::Template(template) => holds(template),
        KeySource::Field(field) => {
            field == name
                || matches!(entity.field(field), Some(Field { equation: Some(Expr::Template(template)), .. }) if holds(template))
        }
    });
    if in_key {
        return Recovery::Key;
    }
    let in_item = entity.fields.iter().any(|field| {
        field.is_stored() && matches!(&field.equation, Some(Expr::Template(template)) if holds(template) && template.ambiguity().is_none())
    });
    if in_item { Recovery::Item } else { Recovery::None }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recovery {
    /// From the key, which never changes.
    Key,
    Item,
    None,
}

/// An update may change one source of an equation and not give the others: those must be at hand.
pub(super) fn recomputable(context: &mut Context<'_>, item: &ast::Entity, entity: &Entity) {
    for field in entity.fields.iter().filter(|field| field.is_stored() && !field.on_create) {
        let Some(equation) = &field.equation else { continue };
        if recoverable(entity, &field.name) == Recovery::Key {
            continue;
        }
        let from = sources(entity, equation);
        let lost: Vec<&&Field> = from
            .iter()
            .filter(|source| {
                source.role == Role::Input && recoverable(entity, &source.name) == Recovery::None
            })
            .collect();
        let changing: Vec<&&Field> = from
            .iter()
            .filter(|source| match source.role {
                Role::Stored => recoverable(entity, &source.name) != Recovery::Key,
                Role::Input => recoverable(entity, &source.name) == Recovery::Item,
                Role::Let => false,
            })
            .collect();
        if let (Some(lost), Some(changing)) = (lost.first(), changing.first()) {
            let span = item.data_named(&field.name).map_or(item.name.span, |data| data.span);
            context.report(
                Diagnostic::new(
                    "L0402",
                    span,
                    format!(
                        "`{}` cannot be worked out again when only `{}` changes",
                        field.name, changing.name
                    ),
                )
                .note(format!(
                    "`{}` is an input: it is not stored, and nothing stored gives it back",
                    lost.name
                ))
                .help(format!(
                    "store it (`{}: {}`), or put it in a template that is stored",
                    lost.name, lost.kind
                )),
            );
        }
    }
}

/// The secret that flows into a field, if one does.
pub(super) fn tainted<'e>(entity: &'e Entity, name: &'e str) -> Option<&'e Field> {
    let mut waiting = vec![name];
    let mut seen: HashSet<&str> = HashSet::new();
    while let Some(name) = waiting.pop() {
        if !seen.insert(name) {
            continue;
        }
        let Some(field) = entity.field(name) else { continue };
        if field.checks.secret {
            return Some(field);
        }
        waiting.extend(field.equation.as_ref().map(leaking).unwrap_or_default());
    }
    None
}

/// The fields whose values an expression lets through. A digest lets nothing through.
pub(super) fn leaking(expression: &Expr) -> Vec<&str> {
    match expression {
        Expr::Call(Function::Sha256 | Function::Len, _) => Vec::new(),
        other => other.fields(),
    }
}

pub(super) fn secrets_in_keys(
    context: &mut Context<'_>,
    item: &ast::Entity,
    entity: &Entity,
    frame: &Frame<'_, '_>,
) {
    let mut found: Vec<(Span, &str)> = Vec::new();
    let key_span = item.key.as_ref().map_or(item.name.span, |key| key.span);
    for source in [Some(&entity.partition), entity.sort.as_ref()].into_iter().flatten() {
        let names: Vec<&str> = match source {
            KeySource::Template(template) => template.holes().map(|hole| hole.field.as_str()).collect(),
            KeySource::Field(name) => vec![name],
        };
        for name in names {
            if let Some(secret) = tainted(entity, name) {
                let span = item
                    .data_named(name)
                    .filter(|_| item.key.is_none())
                    .map_or(key_span, |data| data.name.span);
                found.push((span, &secret.name));
            }
        }
    }
    for index in frame.item.indexes.iter().take(GLOBAL_INDEXES_MAX) {
        for name in index_names(&index.key) {
            if let Some(secret) = tainted(entity, &name.text) {
                found.push((name.span, &secret.name));
            }
        }
    }
    for (span, secret) in found {
        context.report(
            Diagnostic::new("L0106", span, format!("the secret `{secret}` would stand in a key"))
                .note("keys are logged, shown in errors and in consoles")
                .help(format!("use a digest: `let digest = sha256({secret})`")),
        );
    }
}
