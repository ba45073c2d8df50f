//! Third pass, one index: its attributes exist, are always of one type, and spread.

use larder_model::KeyType;
use larder_model::limits::INDEX_KEY_ATTRIBUTES_MAX;

use crate::ast::{self, KeyPart};
use crate::diagnostic::Diagnostic;
use crate::equation::Expr;
use crate::resolve::Context;
use crate::resolve::keys::may_be_empty;
use crate::resolve::types::TypeScope;
use crate::schema::*;
use crate::symbols::SymbolKind;

pub(super) fn index_names(key: &ast::Key) -> Vec<&ast::Name> {
    [Some(&key.partition), key.sort.as_ref()]
        .into_iter()
        .flatten()
        .flat_map(|part| match part {
            KeyPart::Names(names) => names.iter().map(|(name, _)| name).collect::<Vec<_>>(),
            KeyPart::Template(_) => Vec::new(),
        })
        .collect()
}

/// What an entity puts into an attribute of an index, if it has it.
pub(super) struct Filling {
    pub(super) kind: Type,
    pub(super) empty: bool,
    pub(super) values: Option<u64>,
}

pub(super) fn filling(
    entity: &Entity,
    attribute: &KeyAttribute,
    table: [Option<&KeyAttribute>; 2],
) -> Option<Filling> {
    if let Some(field) = entity.field(&attribute.name).filter(|field| field.is_stored()) {
        return Some(Filling {
            kind: field.kind.clone(),
            empty: may_be_empty(entity, field),
            values: value_count(entity, field, 0),
        });
    }
    if let Some(lifecycle) = entity.lifecycles.iter().find(|lifecycle| lifecycle.held_in == attribute.name) {
        let constant = lifecycle.states.iter().all(|state| state.template.holes().next().is_none());
        let values = constant.then_some(lifecycle.states.len() as u64);
        return Some(Filling { kind: Type::String, empty: false, values });
    }
    let sources = [Some(&entity.partition), entity.sort.as_ref()];
    table.into_iter().zip(sources).find_map(|(key, source)| {
        let (key, source) = (key?, source?);
        (key.name == attribute.name).then(|| Filling {
            kind: Type::String,
            empty: false,
            values: match source {
                KeySource::Template(template) if template.holes().next().is_none() => Some(1),
                _ => None,
            },
        })
    })
}

/// How many values a field can have, when they are few.
pub(super) fn value_count(entity: &Entity, field: &Field, depth: usize) -> Option<u64> {
    if let Some(equation) = &field.equation {
        return match equation {
            Expr::Template(template) if depth < 3 && template.holes().count() <= 8 => {
                template.holes().try_fold(1u64, |product, hole| {
                    let field = entity.field(&hole.field)?;
                    value_count(entity, field, depth + 1).map(|count| product.saturating_mul(count))
                })
            }
            Expr::Field(name) if depth < 3 => value_count(entity, entity.field(name)?, depth + 1),
            Expr::Binary(..) | Expr::Not(_) if field.kind == Type::Bool => Some(2),
            _ => None,
        };
    }
    match &field.kind {
        Type::Choice(choices) => Some(choices.len() as u64),
        Type::Bool => Some(2),
        Type::Int => {
            let range = field.checks.range?;
            let (min, max) = (range.min?.to_i64()?, range.max?.to_i64()?);
            u64::try_from(max.saturating_sub(min).saturating_add(i64::from(range.max_included))).ok()
        }
        _ => None,
    }
}

pub(super) fn index(
    context: &mut Context<'_>,
    item: &ast::Index,
    entities: &[Entity],
    partition: &KeyAttribute,
    sort: Option<&KeyAttribute>,
    table: &ast::Table,
    scope: &TypeScope<'_>,
) -> Option<Index> {
    let complete = entities.len() == table.entities.len();
    if larder_model::IndexName::new(item.name.text.clone()).is_err() {
        context.report(
            Diagnostic::new(
                "L0511",
                item.name.span,
                format!("an index cannot be called `{}`", item.name.text),
            )
            .note("a name has 3 to 255 characters of a-z, A-Z, 0-9, `_`, `.` and `-`"),
        );
    }
    let table_key = [Some(partition), sort];
    let mut known: Vec<&str> = entities
        .iter()
        .flat_map(|entity| {
            entity.fields.iter().filter(|field| field.is_stored()).map(|field| field.name.as_str())
        })
        .chain(
            entities
                .iter()
                .flat_map(|entity| entity.lifecycles.iter().map(|lifecycle| lifecycle.held_in.as_str())),
        )
        .chain(table_key.iter().flatten().map(|key| key.name.as_str()))
        .collect();
    known.sort_unstable();
    known.dedup();
    let mut part = |part: Option<&KeyPart>| -> Option<Vec<KeyAttribute>> {
        let names = match part {
            None => return Some(Vec::new()),
            Some(KeyPart::Names(names)) => names,
            Some(KeyPart::Template(template)) => {
                context.report(
                    Diagnostic::new("L0101", template.span, "an index names attributes")
                        .help("write an equation in the entity, `gsi1_pk = \"…\"`, and its name here"),
                );
                return None;
            }
        };
        if names.len() > INDEX_KEY_ATTRIBUTES_MAX {
            context.report(
                Diagnostic::new(
                    "L0510",
                    names[INDEX_KEY_ATTRIBUTES_MAX].0.span,
                    format!("an index key has at most {INDEX_KEY_ATTRIBUTES_MAX} attributes on each side"),
                )
                .help("put some of them together in one template"),
            );
            return None;
        }
        let mut parts = Vec::new();
        for (name, _) in names {
            if !known.contains(&name.text.as_str()) {
                if complete {
                    context.unknown("stored field", name, known.iter().copied());
                }
                return None;
            }
            for entity in entities {
                context.refer(SymbolKind::Field, &format!("{}.{}", entity.name, name.text), name.span);
                context.refer(SymbolKind::Lifecycle, &format!("{}.{}", entity.name, name.text), name.span);
            }
            let stored = entities
                .iter()
                .find_map(|entity| entity.field(&name.text).map(|field| field.attribute.clone()))
                .unwrap_or_else(|| scope.naming.stored(&name.text));
            let attribute = KeyAttribute { name: name.text.clone(), attribute: stored, kind: KeyType::S };
            parts.push(index_attribute(context, attribute, name, entities, table_key)?);
        }
        Some(parts)
    };
    let partition_parts = part(Some(&item.key.partition));
    let sort_parts = part(item.key.sort.as_ref());
    let (partition_parts, sort_parts) = (partition_parts?, sort_parts?);
    let alias = item.alias.as_ref().unwrap_or(&item.name);

    let filled: Vec<&Entity> = entities
        .iter()
        .filter(|entity| {
            partition_parts.iter().chain(&sort_parts).all(|part| filling(entity, part, table_key).is_some())
        })
        .collect();
    if filled.is_empty() && complete {
        context.report(
            Diagnostic::new(
                "L0505",
                item.name.span,
                format!("nothing is ever in index `{}`", item.name.text),
            )
            .note("no entity of the table has all attributes of its key")
            .help("fill them with equations, or remove the index"),
        );
    }
    let count = |entity: &&Entity| {
        partition_parts.iter().try_fold(1u64, |product, part| {
            filling(entity, part, table_key)?.values.map(|values| product.saturating_mul(values))
        })
    };
    let few = filled.iter().map(count).collect::<Option<Vec<u64>>>().map(|counts| counts.iter().sum::<u64>());
    if let Some(values) =
        few.filter(|values| *values > 0 && *values < crate::limits::HOT_KEY_VALUES && !item.hot)
    {
        let names: Vec<&str> = partition_parts.iter().map(|part| part.name.as_str()).collect();
        let span = match &item.key.partition {
            KeyPart::Names(names) => names[0].0.span,
            KeyPart::Template(template) => template.span,
        };
        let many = if values == 1 {
            "one value: all items are in one partition".to_owned()
        } else {
            format!("{values} values: all items are in {values} partitions")
        };
        context.report(
            Diagnostic::new("L0504", span, format!("`{}` has {many}", names.join("`, `")))
                .note("a partition serves 1000 writes and 3000 reads a second, and no more")
                .help(
                    "begin the key with something that varies, or end the line with `hot` if that is enough",
                ),
        );
    }
    let projection = match &item.projection {
        None | Some(ast::Projection::All) => Projection::All,
        Some(ast::Projection::Keys) => Projection::Keys,
        Some(ast::Projection::Names(names)) => {
            let mut stored = Vec::new();
            for name in names {
                if stored.contains(&name.text) {
                    context.report(
                        Diagnostic::new("L0202", name.span, format!("`{}` is projected twice", name.text))
                            .help("keep one of them"),
                    );
                    continue;
                }
                if !known.contains(&name.text.as_str()) && complete {
                    context.unknown("stored field", name, known.iter().copied());
                    continue;
                }
                let mut attribute = scope.naming.stored(&name.text);
                for entity in entities {
                    context.refer(SymbolKind::Field, &format!("{}.{}", entity.name, name.text), name.span);
                    if let Some(field) = entity.field(&name.text) {
                        attribute.clone_from(&field.attribute);
                    }
                }
                stored.push(attribute);
            }
            Projection::Include(stored)
        }
    };
    let same = table.indexes.iter().take_while(|other| other.name.span != item.name.span).find(|other| {
        let texts =
            |key: &ast::Key| index_names(key).iter().map(|name| name.text.clone()).collect::<Vec<_>>();
        texts(&other.key) == texts(&item.key)
    });
    if let Some(other) = same {
        context.report(
            Diagnostic::new(
                "L0506",
                item.name.span,
                format!("`{}` answers nothing that `{}` does not", item.name.text, other.name.text),
            )
            .other(other.name.span, "the same key")
            .help("remove one of them: each index costs a write"),
        );
    }
    Some(Index {
        name: item.name.text.clone(),
        alias: alias.text.clone(),
        docs: item.docs.clone(),
        partition: partition_parts,
        sort: sort_parts,
        projection,
        hot: item.hot,
    })
}

/// An index key attribute is of one type in every item that has it.
pub(super) fn index_attribute(
    context: &mut Context<'_>,
    mut attribute: KeyAttribute,
    written: &ast::Name,
    entities: &[Entity],
    table_key: [Option<&KeyAttribute>; 2],
) -> Option<KeyAttribute> {
    if let Some(key) = table_key.into_iter().flatten().find(|key| key.name == attribute.name) {
        attribute.kind = key.kind;
        return Some(attribute);
    }
    let mut settled: Option<(KeyType, &str)> = None;
    for entity in entities {
        let Some(filling) = filling(entity, &attribute, table_key) else { continue };
        let Some(kind) = filling.kind.key_type() else {
            context.report(
                Diagnostic::new(
                    "L0503",
                    written.span,
                    format!("`{}` is a {} in {}", written.text, filling.kind, entity.name),
                )
                .note("index keys are strings, numbers or bytes; an item with anything else is refused")
                .help("index an equation that makes a text of it"),
            );
            return None;
        };
        if filling.empty {
            context.report(
                Diagnostic::new(
                    "L0503",
                    written.span,
                    format!("`{}` can be empty in {}", written.text, entity.name),
                )
                .note("an item with an empty index key is refused")
                .help("add `nonempty`, or make the field optional so that the item stays out of the index"),
            );
        }
        match settled {
            Some((first, by)) if first != kind => {
                context.report(
                    Diagnostic::new(
                        "L0503",
                        written.span,
                        format!("`{}` is {first} in {by} and {kind} in {}", written.text, entity.name),
                    )
                    .note("an index key has one type in all items")
                    .help("give the two different names"),
                );
                return None;
            }
            _ => settled = Some((kind, &entity.name)),
        }
    }
    attribute.kind = settled.map_or(KeyType::S, |(kind, _)| kind);
    Some(attribute)
}
