//! What the layer calls for what a program asks of it, against what a grant allows.
//!
//! Whoever grants `put` thinks of PutItem; the layer writes many records by BatchWriteItem and changes one by UpdateItem.
//! A grant is not asked for what it was not meant for: who may only read misses nothing that writes.

use crate::schema::*;

/// The actions that a grant lacks, each with the calls that would be refused.
pub(crate) fn lacks(schema: &Schema, grant: &Grant) -> Vec<(Action, Vec<&'static str>)> {
    let may = |action: Action| grant.actions.contains(&action);
    let named = |table: &&Table| grant.tables.is_empty() || grant.tables.contains(&table.name);
    let tables: Vec<&Table> = schema.tables.iter().filter(named).collect();
    let any = |wanted: fn(&Entity) -> bool| tables.iter().flat_map(|table| &table.entities).any(wanted);
    let collected = tables.iter().any(|table| !table.collections.is_empty());
    let partial = tables.iter().flat_map(|table| &table.indexes).any(is_partial);
    let writes = may(Action::Put);
    let calls = [
        (Action::Get, writes && any(looks_first), "`put` of what has to look at what was there"),
        (Action::Get, may(Action::Update), "`update` where an equation rests on what is stored"),
        (Action::Update, writes && any(is_record), "`update`"),
        (Action::Update, writes && any(|entity| !entity.lifecycles.is_empty()), "transitions and claims"),
        (Action::Update, writes && any(|entity| entity.policy.flight_millis.is_some()), "`flight`"),
        (Action::Delete, writes && any(may_skip), "`oversize skip`, which takes away what was there before"),
        (Action::Query, may(Action::Get) && collected, "reading a collection"),
        (
            Action::Query,
            may(Action::Update) && any(|entity| !entity.lifecycles.is_empty()),
            "`due` and claims",
        ),
        (Action::Batch, may(Action::Get) && any(|_| true), "`get_many`"),
        (Action::Batch, may(Action::Get) && any(is_split), "reading what is kept in parts"),
        (Action::Batch, may(Action::Query) && partial, "queries of an index that does not hold everything"),
        (Action::Batch, writes && any(|_| true), "`put_many`"),
        (Action::Batch, writes && any(is_behind), "writes behind"),
        (Action::Batch, writes && any(has_sequence), "`sequence`"),
        (Action::Batch, may(Action::Delete) && any(|_| true), "`delete_many` and `invalidate`"),
    ];
    let mut lacks: Vec<(Action, Vec<&str>)> = Vec::new();
    for (action, _, what) in calls.into_iter().filter(|(action, asked, _)| *asked && !may(*action)) {
        match lacks.iter_mut().find(|(known, _)| *known == action) {
            Some((_, all)) => all.push(what),
            None => lacks.push((action, vec![what])),
        }
    }
    lacks
}

pub(crate) fn is_split(entity: &Entity) -> bool {
    let oversize = &entity.policy.oversize;
    oversize.first == OversizeStep::Split || oversize.otherwise == Some(OversizeStep::Split)
}

fn may_skip(entity: &Entity) -> bool {
    let oversize = &entity.policy.oversize;
    oversize.first == OversizeStep::Skip || oversize.otherwise == Some(OversizeStep::Skip)
}

pub(crate) fn is_behind(entity: &Entity) -> bool {
    matches!(entity.policy.writes, Writes::Behind { .. })
}

pub(crate) fn has_sequence(entity: &Entity) -> bool {
    entity.fields.iter().any(|field| field.kind == Type::Sequence)
}

pub(crate) fn is_partial(index: &Index) -> bool {
    index.projection != Projection::All
}

fn is_record(entity: &Entity) -> bool {
    entity.source.is_none()
}

/// A whole write keeps something of what was there.
fn looks_first(entity: &Entity) -> bool {
    entity.policy.versions
        || !entity.lifecycles.is_empty()
        || entity.fields.iter().any(|field| field.on_create)
}
