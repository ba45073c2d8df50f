//! Third pass, one table: its key, entities, indexes and collections, put together.

use larder_model::limits::GLOBAL_INDEXES_MAX;

use crate::ast;
use crate::diagnostic::Diagnostic;
use crate::limits::ENTITIES_MAX;
use crate::resolve::Context;
use crate::resolve::entities::{self, Frame};
use crate::resolve::indexes;
use crate::resolve::keys::*;
use crate::resolve::names::{self, Defaults};
use crate::resolve::settings::{self, TableSettings};
use crate::resolve::types::TypeScope;
use crate::schema::*;
use crate::symbols::SymbolKind;

pub(super) fn table<'a>(
    context: &mut Context<'a>,
    item: &'a ast::Table,
    defaults: &Defaults<'a>,
    scope: &TypeScope<'a>,
    schema: &Schema,
) -> Option<Table> {
    let mut written = TableSettings::default();
    context.check_twice(&item.settings);
    for setting in defaults.table.iter().copied().chain(&item.settings) {
        settings::table(context, &mut written, setting);
    }
    let stored_name = names::stored_name(context, item, &written, schema);
    if let Some(span) = item.second_key {
        context.report(Diagnostic::new("L0202", span, "this table has two keys").help("keep one of them"));
    }
    let Some(key) = &item.key else {
        if !context.broken {
            context.report(
                Diagnostic::new("L0102", item.name.span, format!("table `{}` has no key", item.name.text))
                    .help("write `key pk`, or `key pk / sk`"),
            );
        }
        return None;
    };
    let partition = table_key_part(context, &key.partition, scope)?;
    let sort = match &key.sort {
        Some(part) => Some(table_key_part(context, part, scope)?),
        None => None,
    };
    if item.entities.is_empty() && !context.broken {
        context.report(
            Diagnostic::new("L0513", item.name.span, format!("table `{}` holds nothing", item.name.text))
                .help("describe what it holds with `entity`"),
        );
    }
    if item.entities.len() > ENTITIES_MAX {
        let span = item.entities[ENTITIES_MAX].name.span;
        context.report(
            Diagnostic::new("L0005", span, format!("a table holds at most {ENTITIES_MAX} entities"))
                .help("give some of them a table of their own"),
        );
        return None;
    }
    let ttl = written
        .ttl
        .as_ref()
        .map(|name| TtlAttribute { name: name.text.clone(), attribute: scope.naming.stored(&name.text) });
    let frame = Frame {
        item,
        scope,
        schema,
        partition: &partition,
        sort: sort.as_ref(),
        ttl: ttl.as_ref(),
        defaults,
    };
    let mut entities: Vec<Entity> = Vec::new();
    for entity in &item.entities {
        entities.extend(entities::entity(context, entity, &frame));
    }
    if let (Some(name), false) = (&written.ttl, entities.iter().any(|entity| entity.ttl.is_some()))
        && entities.len() == item.entities.len()
        && !item.entities.iter().flat_map(|entity| &entity.settings).any(|setting| setting.name.text == "ttl")
    {
        context.report(
            Diagnostic::new("L0502", name.span, "no entity of this table has a TTL")
                .note("the attribute is declared, and nothing ever fills it")
                .help("give an entity a `ttl`, or remove the table's"),
        );
    }
    let partition = decide_kind(context, partition, &entities, item, true);
    let sort = sort.map(|sort| decide_kind(context, sort, &entities, item, false));
    collisions(context, &entities, item);
    let mut indexes = Vec::new();
    for index in item.indexes.iter().take(GLOBAL_INDEXES_MAX + 1) {
        indexes.extend(indexes::index(context, index, &entities, &partition, sort.as_ref(), item, scope));
    }
    if item.indexes.len() > GLOBAL_INDEXES_MAX {
        let span = item.indexes[GLOBAL_INDEXES_MAX].name.span;
        context.report(
            Diagnostic::new("L0510", span, format!("a table has at most {GLOBAL_INDEXES_MAX} indexes"))
                .help("let two questions share an index, or move an entity to a table of its own"),
        );
    }
    fit_limits(&mut entities, &partition, sort.as_ref(), &indexes);
    for entity in &entities {
        attribute_templates(context, entity, &indexes, item);
    }
    let collections = collections(context, item, &entities, sort.is_some());
    Some(Table {
        name: item.name.text.clone(),
        docs: item.docs.clone(),
        stored_name,
        region: written.region,
        partition,
        sort,
        ttl,
        billing: written.billing,
        pitr: written.pitr,
        encryption: written.encryption,
        on_delete: written.on_delete,
        class: written.class.unwrap_or(TableClass::Standard),
        stream: written.stream,
        strict: written.strict,
        tags: written.tags,
        indexes,
        entities,
        collections,
    })
}

pub(super) fn collections(
    context: &mut Context<'_>,
    item: &ast::Table,
    entities: &[Entity],
    sorted: bool,
) -> Vec<Collection> {
    let complete = entities.len() == item.entities.len();
    let mut collections = Vec::new();
    for written in &item.collections {
        let mut members: Vec<&Entity> = Vec::new();
        for name in &written.members {
            match entities.iter().find(|entity| entity.name == name.text) {
                Some(entity) if members.iter().any(|member| member.name == entity.name) => context.report(
                    Diagnostic::new("L0202", name.span, format!("`{}` is listed twice", name.text))
                        .help("keep one of them"),
                ),
                Some(entity) => {
                    context.refer(SymbolKind::Entity, &name.text, name.span);
                    members.push(entity);
                }
                None if complete => {
                    context.unknown(
                        "entity of this table",
                        name,
                        entities.iter().map(|entity| entity.name.as_str()),
                    );
                }
                None => {}
            }
        }
        let text = |entity: &Entity| match &entity.partition {
            KeySource::Template(template) => template.source(),
            KeySource::Field(name) => format!("{{{name}}}"),
        };
        let different = members.windows(2).find(|pair| text(pair[0]) != text(pair[1]));
        if !sorted && !members.is_empty() {
            context.report(
                Diagnostic::new("L0701", written.name.span, "a collection needs a table with a sort key")
                    .note("its members share a partition, and the sort key tells them apart"),
            );
        } else if let Some(pair) = different {
            context.report(
                Diagnostic::new(
                    "L0701",
                    written.name.span,
                    format!("{} and {} are not in one partition", pair[0].name, pair[1].name),
                )
                .note(format!("their partition keys are \"{}\" and \"{}\"", text(pair[0]), text(pair[1])))
                .help("one query reads one partition: give the members the same partition template"),
            );
        }
        collections.push(Collection {
            name: written.name.text.clone(),
            docs: written.docs.clone(),
            members: members.iter().map(|entity| entity.name.clone()).collect(),
        });
    }
    collections
}
