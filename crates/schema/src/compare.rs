//! Two schemas → each change, compatible or breaking, and why.
//!
//! A change is compatible when programs of the new schema can use the items and tables of the old one as they
//! are. What cannot be shown to be compatible is called breaking.

use crate::equation::{Expr, duration_source};
use crate::schema::*;
use crate::shape::Pattern;
use crate::symbols::ttl_text;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Impact {
    Compatible,
    Breaking,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub impact: Impact,
    /// What changed: `Disclosure.company_code`.
    pub path: String,
    pub what: String,
    pub why: String,
}

/// The changes from the old schema to the new one, in the order of the old one.
pub fn compare(old: &Schema, new: &Schema) -> Vec<Change> {
    let mut changes = Changes(Vec::new());
    if old.system != new.system {
        changes.breaking(
            "system",
            format!("`{}` became `{}`", old.system, new.system),
            "it is another system",
        );
    }
    if old.naming != new.naming {
        changes.breaking(
            "naming",
            "stored names are formed differently",
            "attributes of stored items have the old names",
        );
    }
    params(&mut changes, old, new);
    pairs(
        &mut changes,
        "type",
        &old.types,
        &new.types,
        |item| &item.name,
        |changes, old, new| {
            fields(changes, &old.name, &old.fields, &new.fields, true);
            match (old.open, new.open) {
                (true, false) => changes.breaking(
                    &old.name,
                    "it no longer keeps attributes it does not know",
                    "stored values may have some",
                ),
                (false, true) => changes.compatible(
                    &old.name,
                    "it keeps attributes it does not know",
                    "stored values have none",
                ),
                _ => {}
            }
        },
    );
    pairs(
        &mut changes,
        "source",
        &old.sources,
        &new.sources,
        |item| &item.name,
        |changes, old, new| {
            if (Source { docs: Vec::new(), ..old.clone() }) != (Source { docs: Vec::new(), ..new.clone() }) {
                changes.compatible(
                    &old.name,
                    "the source is called differently",
                    "stored items stay as they are",
                );
            }
        },
    );
    operations(&mut changes, old, new);
    pairs(&mut changes, "table", &old.tables, &new.tables, |item| &item.name, table);
    changes.0
}

/// Whether any change is breaking.
impl Change {
    pub fn is_breaking(&self) -> bool {
        self.impact == Impact::Breaking
    }
}

struct Changes(Vec<Change>);

impl Changes {
    fn push(&mut self, impact: Impact, path: &str, what: impl Into<String>, why: impl Into<String>) {
        self.0.push(Change { impact, path: path.to_owned(), what: what.into(), why: why.into() });
    }

    fn compatible(&mut self, path: &str, what: impl Into<String>, why: impl Into<String>) {
        self.push(Impact::Compatible, path, what, why);
    }

    fn breaking(&mut self, path: &str, what: impl Into<String>, why: impl Into<String>) {
        self.push(Impact::Breaking, path, what, why);
    }
}

/// Things of one kind, matched by name: removed is breaking, added is not.
fn pairs<T>(
    changes: &mut Changes,
    kind: &str,
    old: &[T],
    new: &[T],
    name: impl Fn(&T) -> &str,
    mut both: impl FnMut(&mut Changes, &T, &T),
) {
    for item in old {
        match new.iter().find(|other| name(other) == name(item)) {
            Some(other) => both(changes, item, other),
            None => changes.breaking(
                name(item),
                format!("the {kind} is gone"),
                "programs and stored items still use it",
            ),
        }
    }
    for item in new {
        if !old.iter().any(|other| name(other) == name(item)) {
            changes.compatible(name(item), format!("the {kind} is new"), "nothing used it before");
        }
    }
}

/// Grants, alarms, budgets, workload and metrics touch no stored item.
fn operations(changes: &mut Changes, old: &Schema, new: &Schema) {
    pairs(
        changes,
        "grant",
        &old.grants,
        &new.grants,
        |item| &item.name,
        |changes, old, new| {
            if old.actions.iter().any(|action| !new.actions.contains(action)) {
                changes.breaking(&old.name, "it grants less", "programs that rely on it are refused");
            } else if old != new {
                changes.compatible(&old.name, "it grants more or elsewhere", "stored items stay as they are");
            }
        },
    );
    if old.store != new.store {
        changes.compatible("store", "the store is waited for otherwise", "stored items stay as they are");
    }
    if (&old.alarms, &old.budgets, &old.workload) != (&new.alarms, &new.budgets, &new.workload) {
        changes.compatible(
            "operations",
            "alarms, budgets or the workload changed",
            "stored items stay as they are",
        );
    }
    if old.metrics != new.metrics {
        changes.compatible("metrics", "metrics have other names", "dashboards of the old names stay empty");
    }
}

fn params(changes: &mut Changes, old: &Schema, new: &Schema) {
    pairs(
        changes,
        "param",
        &old.params,
        &new.params,
        |item| &item.name,
        |changes, old, new| {
            if old.kind != new.kind || old.unit != new.unit {
                changes.breaking(
                    &old.name,
                    "it is read differently",
                    "what is set in an environment now means something else",
                );
            }
            if old.variable != new.variable {
                changes.breaking(
                    &old.name,
                    "it is read from another variable",
                    "environments set the old one",
                );
            }
            if old.default != new.default {
                changes.compatible(
                    &old.name,
                    "its default changed",
                    "where nothing is set, the new value holds from now on",
                );
            }
        },
    );
}

fn table(changes: &mut Changes, old: &Table, new: &Table) {
    let path = &old.name;
    if old.stored_name != new.stored_name {
        changes.breaking(path, "it has another name in the store", "the items are in the old table");
    }
    if (&old.partition, &old.sort) != (&new.partition, &new.sort) {
        changes.breaking(path, "its key changed", "the key of a table cannot change: a new table is needed");
    }
    match (&old.ttl, &new.ttl) {
        (Some(a), Some(b)) if a.attribute != b.attribute => {
            changes.breaking(
                path,
                "its TTL is in another attribute",
                "stored items say it in the old one, and would never end",
            );
        }
        (Some(_), None) => changes.breaking(path, "it no longer has a TTL", "stored items would never end"),
        (None, Some(_)) => {
            changes.compatible(path, "it has a TTL now", "stored items without the attribute do not end");
        }
        _ => {}
    }
    if old.region != new.region {
        changes.breaking(path, "it is in another region", "the items are in the old one");
    }
    let told = |table: &Table| {
        (
            table.billing,
            table.pitr,
            table.encryption.clone(),
            table.on_delete,
            table.class,
            table.stream,
            table.strict,
            table.tags.clone(),
        )
    };
    if told(old) != told(new) {
        changes.compatible(path, "its settings changed", "they are applied to the table as it is");
    }
    pairs(
        changes,
        "index",
        &old.indexes,
        &new.indexes,
        |item| &item.alias,
        |changes, old, new| {
            if old.name != new.name {
                changes.breaking(
                    &old.alias,
                    "it has another name in the store",
                    "a new index is built and the old one dropped",
                );
            }
            if (&old.partition, &old.sort) != (&new.partition, &new.sort) {
                changes.breaking(
                    &old.alias,
                    "its key changed",
                    "an index cannot change its key: a new one is needed",
                );
            }
            if old.projection != new.projection {
                changes.breaking(
                    &old.alias,
                    "its projection changed",
                    "an index cannot change what it holds: a new one is needed",
                );
            }
        },
    );
    pairs(changes, "entity", &old.entities, &new.entities, |item| &item.name, entity);
    pairs(
        changes,
        "collection",
        &old.collections,
        &new.collections,
        |item| &item.name,
        |changes, old, new| {
            if old.members != new.members {
                changes.breaking(&old.name, "its members changed", "programs get other items from it");
            }
        },
    );
}

fn entity(changes: &mut Changes, old: &Entity, new: &Entity) {
    let path = &old.name;
    let key = |entity: &Entity| {
        let text = |source: &KeySource| match source {
            KeySource::Template(template) => format!("\"{}\"", template.source()),
            KeySource::Field(name) => name.clone(),
        };
        (text(&entity.partition), entity.sort.as_ref().map(text))
    };
    if key(old) != key(new) {
        changes.breaking(
            path,
            "its key is built differently",
            "stored items have the old keys and would not be found",
        );
    }
    match (&old.ttl, &new.ttl) {
        (a, b) if a == b => {}
        (a, b) => {
            let text = |ttl: &Option<Ttl>| ttl.as_ref().map_or("none".to_owned(), ttl_text);
            changes.compatible(
                path,
                format!("its TTL went from {} to {}", text(a), text(b)),
                "it holds for items written from now on",
            );
        }
    }
    if old.source != new.source {
        changes.compatible(path, "it comes from another source", "stored items stay as they are");
    }
    if old.policy != new.policy {
        changes.compatible(path, "it is cached or written differently", "stored items stay as they are");
    }
    fields(changes, path, &old.fields, &new.fields, false);
    pairs(
        changes,
        "lifecycle",
        &old.lifecycles,
        &new.lifecycles,
        |item| &item.name,
        |changes, old, new| {
            lifecycle(changes, &format!("{path}.{}", old.name), old, new);
        },
    );
}

fn fields(changes: &mut Changes, owner: &str, old: &[Field], new: &[Field], in_type: bool) {
    for field in old {
        let path = format!("{owner}.{}", field.name);
        match new.iter().find(|other| other.name == field.name) {
            Some(other) => self::field(changes, &path, field, other),
            None if !field.is_stored() => {
                changes.breaking(&path, "the field is gone", "programs give it or use it");
            }
            None if field.optional => {
                changes.compatible(
                    &path,
                    "the optional field is gone",
                    "stored items keep it, and nobody reads it",
                );
            }
            None => changes.breaking(
                &path,
                "the field is gone",
                "programs of the old schema need it in every item",
            ),
        }
    }
    for field in new {
        if old.iter().any(|other| other.name == field.name) {
            continue;
        }
        let path = format!("{owner}.{}", field.name);
        if field.optional {
            changes.compatible(&path, "an optional field is new", "stored items do without it");
        } else if field.checks.default.is_some() {
            changes.compatible(&path, "a field with a default is new", "stored items have the default");
        } else if field.equation.is_some() && field.is_stored() && !in_type {
            changes.compatible(
                &path,
                "a computed field is new",
                "stored items get it when they are next written",
            );
        } else if field.role == Role::Let {
            changes.compatible(&path, "a computed value is new", "it is not stored");
        } else {
            changes.breaking(
                &path,
                "a required field is new",
                "stored items do not have it: make it optional or give it a default",
            );
        }
    }
}

fn field(changes: &mut Changes, path: &str, old: &Field, new: &Field) {
    if old.role != new.role {
        changes.breaking(
            path,
            "it is given or stored differently",
            "items have it where they did not, or the other way round",
        );
        return;
    }
    if old.is_stored() && old.attribute != new.attribute {
        changes.breaking(
            path,
            format!("it is stored as `{}` instead of `{}`", new.attribute, old.attribute),
            "stored items have the old name",
        );
    }
    if old.kind != new.kind {
        match widened(&old.kind, &new.kind) {
            Some(why) => changes.compatible(path, format!("a {} became a {}", old.kind, new.kind), why),
            None => changes.breaking(
                path,
                format!("a {} became a {}", old.kind, new.kind),
                "stored values may not be one",
            ),
        }
    }
    match (old.optional, new.optional) {
        (false, true) => changes.compatible(path, "it may be missing now", "stored items have it"),
        (true, false) => changes.breaking(path, "it is required now", "stored items may lack it"),
        _ => {}
    }
    checks(changes, path, &old.checks, &new.checks);
    match (&old.equation, &new.equation) {
        (a, b)
            if a.as_ref().map(Expr::source) == b.as_ref().map(Expr::source)
                && old.on_create == new.on_create => {}
        (None, Some(_)) | (Some(_), None) => {
            changes.breaking(
                path,
                "it is computed now, or given now",
                "programs that give it, or do not, stop working",
            );
        }
        _ => changes.compatible(
            path,
            "its equation changed",
            "stored items follow it when they are next written",
        ),
    }
}

fn widened(old: &Type, new: &Type) -> Option<&'static str> {
    match (old, new) {
        (Type::Int | Type::Sequence, Type::Float | Type::Decimal) | (Type::Decimal, Type::Float) => {
            Some("every such number is one")
        }
        (Type::Uuid { .. }, Type::Uuid { v4: false } | Type::String)
        | (Type::Url | Type::Choice(_), Type::String) => Some("every stored value is one"),
        (Type::Choice(old), Type::Choice(new)) if old.iter().all(|choice| new.contains(choice)) => {
            Some("all old choices are still there")
        }
        (_, Type::Json) => Some("anything is one"),
        (Type::List(old), Type::List(new)) | (Type::Map(old), Type::Map(new))
            if widened(&old.kind, &new.kind).is_some() =>
        {
            Some("every member is one")
        }
        (Type::Set(old), Type::Set(new)) if widened(old, new).is_some() => Some("every member is one"),
        _ => None,
    }
}

fn checks(changes: &mut Changes, path: &str, old: &Checks, new: &Checks) {
    let mut judge = |what: &str, looser: bool| {
        if looser {
            changes.compatible(path, format!("{what} allows more"), "what was accepted still is");
        } else {
            changes.breaking(
                path,
                format!("{what} may refuse what was accepted"),
                "stored items may break it",
            );
        }
    };
    if old.pattern != new.pattern {
        let looser = match (&old.pattern, &new.pattern) {
            (_, None) => true,
            (None, Some(_)) => false,
            (Some(old), Some(new)) => Pattern::of(new.as_str()).covers(&Pattern::of(old.as_str())),
        };
        judge("its pattern", looser);
    }
    if old.range != new.range {
        let looser = match (&old.range, &new.range) {
            (_, None) => true,
            (None, Some(_)) => false,
            (Some(old), Some(new)) => {
                let low = new.min.is_none_or(|new| old.min.is_some_and(|old| old >= new));
                let high = new.max.is_none_or(|max| {
                    old.max.is_some_and(|old_max| {
                        old_max < max || (old_max == max && (new.max_included || !old.max_included))
                    })
                });
                low && high
            }
        };
        judge("its range", looser);
    }
    if old.len != new.len {
        let looser = match (old.len, new.len) {
            (_, None) => true,
            (None, Some(_)) => false,
            (Some((low, high)), Some((new_low, new_high))) => {
                new_low <= low && new_high.is_none_or(|new| high.is_some_and(|old| old <= new))
            }
        };
        judge("its length", looser);
    }
    for (name, was, is) in [
        ("positive", old.positive, new.positive),
        ("nonempty", old.nonempty, new.nonempty),
        ("lower", old.lower, new.lower),
        ("upper", old.upper, new.upper),
    ] {
        if was != is {
            judge(&format!("`{name}`"), was);
        }
    }
    if old.secret != new.secret || old.default != new.default || old.valid != new.valid {
        changes.compatible(
            path,
            "how it is shown, filled or hidden changed",
            "stored items stay as they are",
        );
    }
}

fn lifecycle(changes: &mut Changes, path: &str, old: &Lifecycle, new: &Lifecycle) {
    if old.attribute != new.attribute {
        changes.breaking(path, "its state is kept elsewhere", "stored items have it in the old attribute");
    }
    if old.states.first().map(|state| &state.name) != new.states.first().map(|state| &state.name) {
        changes.compatible(path, "new items begin in another state", "stored items stay in theirs");
    }
    pairs(
        changes,
        "state",
        &old.states,
        &new.states,
        |item| &item.name,
        |changes, old, new| {
            let at = format!("{path}.{}", old.name);
            if old.template.source() != new.template.source() {
                changes.breaking(&at, "it is written differently", "stored items have the old text");
            }
            if (old.lease_millis, old.due_millis) != (new.lease_millis, new.due_millis) {
                let text = |millis: Option<i64>| millis.map_or("none".to_owned(), duration_source);
                changes.compatible(
                    &at,
                    format!(
                        "lease {} → {}, due {} → {}",
                        text(old.lease_millis),
                        text(new.lease_millis),
                        text(old.due_millis),
                        text(new.due_millis)
                    ),
                    "it holds from now on",
                );
            }
        },
    );
    pairs(
        changes,
        "transition",
        &old.transitions,
        &new.transitions,
        |item| &item.name,
        |changes, old, new| {
            let at = format!("{path}.{}", old.name);
            let fewer = old.from.iter().any(|state| !new.from.contains(state)) || old.to != new.to;
            if fewer {
                changes.breaking(&at, "it leads elsewhere", "programs rely on where it led");
            } else if old.from != new.from {
                changes.compatible(
                    &at,
                    "it can be made from more states",
                    "where it could be made, it still can",
                );
            }
            let asked = |transition: &Transition| {
                transition
                    .set
                    .iter()
                    .filter(|(_, value)| value.is_none())
                    .map(|(name, _)| name.clone())
                    .collect::<Vec<_>>()
            };
            if asked(old) != asked(new) {
                changes.breaking(&at, "it asks for other values", "programs give the old ones");
            }
        },
    );
}
