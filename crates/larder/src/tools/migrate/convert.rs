//! An item of the old schema → the item of the new one.
//!
//! Fields are matched by name, or by the attribute they are stored in; a value that has another type now is taken
//! over where its stored form, or its text, is one of the new type. What is new gets its default or is computed.
//! The TTL, the state of a lifecycle, its lease and the layer's own attributes stay what they are, and so do
//! attributes that neither schema knows.
//!
//! Promise: the same item gives the same result however often it is converted. `now` is the moment the migration
//! began, on every machine that goes on with it.

use std::collections::BTreeSet;
use std::sync::Arc;

use larder_model::{AttributeValue, Item, UnixTime};
use larder_schema::schema::{LeaseAttributes, Lifecycle};
use larder_schema::{Entity, Expr, Field, Fields, Schema, Type, VERSION, Value};

use crate::entity::{Core, timestamp};

/// From the entities of one table to those of another.
#[derive(Clone, Debug)]
pub(super) struct Converter {
    from: Vec<Arc<Core>>,
    to: Vec<Arc<Core>>,
    now: UnixTime,
}

/// An item as the other side wants it.
#[derive(Clone, Debug)]
pub(super) struct Converted {
    /// Its entity there, if it is of any.
    pub(super) core: Option<Arc<Core>>,
    pub(super) item: Item,
}

impl Converter {
    /// Both sides have entities.
    pub(super) fn new(from: Vec<Arc<Core>>, to: Vec<Arc<Core>>, now: UnixTime) -> Self {
        Self { from, to, now }
    }

    /// The item over there, whole. `None` when the other schema does not have its entity; an error when it cannot be
    /// converted. What this side knows nothing of is taken from the item that is there already.
    pub(super) fn convert(&self, item: &Item, there: Option<&Item>) -> Result<Option<Converted>, String> {
        let Some(old) = self.entity_of(item) else { return self.stranger(item).map(Some) };
        let Some(new) = self.counterpart(old) else { return Ok(None) };
        let core = Some(Arc::clone(new));
        if means_the_same(old, new) {
            return Ok(Some(Converted { core, item: item.clone() }));
        }
        let fields = self.fields(old, new, item, there, true)?;
        let table = new.table();
        let made = new.schema.write_item(table, new.entity(), &fields);
        let mut made = made.map_err(|error| error.to_string())?;
        lifecycles(old.entity(), new.entity(), item, &fields, &mut made)?;
        let ends = old.table().ttl.as_ref().and_then(|ttl| item.get(&ttl.attribute));
        match (&table.ttl, ends) {
            (Some(ttl), Some(ends)) => drop(made.insert(ttl.attribute.clone(), ends.clone())),
            (Some(_), None) if old.entity().ttl.is_none() => new.limit(&mut made, &fields, self.now),
            (Some(_) | None, _) => {}
        }
        let known = known(old);
        for (name, value) in item {
            if !known.contains(name.as_str()) && !made.contains(name) {
                made.insert(name.clone(), value.clone());
            }
        }
        if new.entity().policy.versions && !made.contains(VERSION) {
            made.insert(VERSION, 1);
        }
        Ok(Some(Converted { core, item: made }))
    }

    /// The key over there of an item, which need not be valid. None: it has none.
    pub(super) fn key(&self, item: &Item) -> Option<Item> {
        match self.convert(item, None) {
            Ok(converted) => Some(self.to[0].key_of(&converted?.item)),
            Err(_) => {
                let old = self.entity_of(item)?;
                let new = self.counterpart(old)?;
                let fields = self.fields(old, new, item, None, false).ok()?;
                Some(new.key_of(&new.schema.write_item(new.table(), new.entity(), &fields).ok()?))
            }
        }
    }

    /// An item on this side, as people call it.
    pub(super) fn name(&self, item: &Item) -> String {
        let key = self.from[0].key_text(&self.from[0].key_of(item));
        self.entity_of(item).map_or(key.clone(), |core| format!("{} {key}", core.name()))
    }

    pub(super) fn entity_of(&self, item: &Item) -> Option<&Arc<Core>> {
        let table = self.from[0].table();
        let entity = self.from[0].schema.entity_of(table, item)?;
        self.from.iter().find(|core| core.name() == entity.name)
    }

    /// Whether the other schema does not have the entity of an item.
    pub(super) fn leaves(&self, item: &Item) -> bool {
        self.entity_of(item).is_some_and(|old| self.counterpart(old).is_none())
    }

    fn counterpart(&self, old: &Core) -> Option<&Arc<Core>> {
        self.to.iter().find(|core| core.name() == old.name())
    }

    /// What no entity knows goes over as it is, where its key is one there too.
    fn stranger(&self, item: &Item) -> Result<Converted, String> {
        let table = self.to[0].table();
        for key in std::iter::once(&table.partition).chain(table.sort.as_ref()) {
            if item.get(&key.attribute).is_none_or(|value| value.kind().name() != key.kind.name()) {
                return Err(format!(
                    "no entity has its key, and it has no `{}` to be found by",
                    key.attribute
                ));
            }
        }
        Ok(Converted { core: None, item: item.clone() })
    }

    fn fields(
        &self,
        old: &Core,
        new: &Core,
        item: &Item,
        there: Option<&Item>,
        check: bool,
    ) -> Result<Fields, String> {
        let (was, is) = (old.entity(), new.entity());
        let before = old.schema.read_item(old.table(), was, item).map_err(|error| error.to_string())?;
        let there = there.and_then(|there| new.schema.read_item(new.table(), is, there).ok());
        let (mut given, mut carried) = (Fields::new(), Fields::new());
        for field in &is.fields {
            let Some(source) = source(was, field) else {
                let kept =
                    there.as_ref().and_then(|there| there.get(&field.name)).filter(|_| field.is_given());
                let kept = kept.or(field.checks.default.as_ref().filter(|_| field.is_given()));
                given.extend(kept.map(|value| (field.name.clone(), value.clone())));
                continue;
            };
            let Some(value) = before.get(&source.name).or(source.checks.default.as_ref()) else { continue };
            let value = Recast { old: &old.schema, new: &new.schema }.value(&source.kind, &field.kind, value);
            match (value, field.is_given()) {
                (Some(value), true) => drop(given.insert(field.name.clone(), value)),
                (Some(value), false) => drop(carried.insert(field.name.clone(), value)),
                (None, true) => {
                    return Err(format!(
                        "`{}` is a {} and cannot become a {}",
                        field.name, source.kind, field.kind
                    ));
                }
                (None, false) => {}
            }
        }
        let mut fields = if check { checked(new, given)? } else { given };
        let of_time = new.computed_from_now();
        let stays = |at: usize| is.fields[at].on_create || of_time.contains(&at);
        let (kept, worked_out): (Vec<usize>, Vec<usize>) =
            is.order.iter().partition(|&&at| stays(at) && carried.contains_key(&is.fields[at].name));
        for at in kept {
            let name = &is.fields[at].name;
            fields.extend(carried.remove_entry(name));
        }
        is.compute_some(&mut fields, timestamp(self.now), &worked_out);
        // Worked out from what is not stored, it can only stay.
        for (name, value) in carried {
            let equation = |entity: &Entity| {
                let field = entity.field(&name);
                field.and_then(|field| field.equation.as_ref()).map(Expr::source)
            };
            if !fields.contains_key(&name) && equation(was) == equation(is) {
                fields.insert(name, value);
            }
        }
        Ok(fields)
    }
}

/// Whether an item of the one is an item of the other as it is: what breaks a check goes on to do so.
fn means_the_same(old: &Core, new: &Core) -> bool {
    let keys =
        |core: &Core| (core.table().partition.clone(), core.table().sort.clone(), core.table().ttl.clone());
    old.entity() == new.entity() && keys(old) == keys(new) && old.schema.types == new.schema.types
}

/// Where the value of a field comes from: the field of its name, or the one stored in its attribute.
fn source<'a>(was: &'a Entity, field: &Field) -> Option<&'a Field> {
    let stored =
        |other: &&Field| field.is_stored() && other.is_stored() && other.attribute == field.attribute;
    was.field(&field.name).or_else(|| was.fields.iter().find(stored))
}

fn checked(new: &Core, given: Fields) -> Result<Fields, String> {
    let one_line = |error: crate::Error| match error {
        crate::Error::Invalid(invalid) => {
            invalid.violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
        }
        error => error.to_string(),
    };
    new.checked(given).map_err(one_line)
}

/// States by their names, leases by their parts.
fn lifecycles(
    was: &Entity,
    is: &Entity,
    item: &Item,
    fields: &Fields,
    made: &mut Item,
) -> Result<(), String> {
    for new in &is.lifecycles {
        let old = was.lifecycles.iter().find(|old| old.name == new.name);
        let found = old.and_then(|old| old.state_of(item));
        let state = match found {
            Some(found) => {
                let state = new.states.iter().find(|state| state.name == found.name);
                Some(state.ok_or_else(|| {
                    format!("`{}` is {}, and there is no such state now", new.name, found.name)
                })?)
            }
            None if old.is_none() => new.states.first(),
            None => None,
        };
        let text = state.and_then(|state| state.template.build(fields).ok()).map(AttributeValue::S);
        let kept = || old.and_then(|old| item.get(&old.attribute)).cloned();
        if let Some(text) = text.or_else(kept) {
            made.insert(new.attribute.clone(), text);
        }
        let parts = |lifecycle: &Lifecycle| {
            lifecycle.lease.as_ref().map(LeaseAttributes::names).map(|names| names.map(str::to_owned))
        };
        if let (Some(before), Some(after)) = (old.and_then(parts), parts(new)) {
            for (before, after) in before.iter().zip(after) {
                if let Some(value) = item.get(before) {
                    made.insert(after, value.clone());
                }
            }
        }
    }
    Ok(())
}

/// The attributes of an item that its schema accounts for; the layer's own are not among them, and go along.
fn known(core: &Core) -> BTreeSet<&str> {
    let (table, entity) = (core.table(), core.entity());
    let keys = std::iter::once(&table.partition).chain(table.sort.as_ref()).map(|key| key.attribute.as_str());
    let ttl = table.ttl.iter().map(|ttl| ttl.attribute.as_str());
    let fields = entity.fields.iter().filter(|field| field.is_stored()).map(|field| field.attribute.as_str());
    let states = entity.lifecycles.iter().map(|lifecycle| lifecycle.attribute.as_str());
    let leases =
        entity.lifecycles.iter().filter_map(|one| one.lease.as_ref()).flat_map(LeaseAttributes::names);
    keys.chain(ttl).chain(fields).chain(states).chain(leases).collect()
}

/// A value of the old schema as one of the new.
struct Recast<'a> {
    old: &'a Schema,
    new: &'a Schema,
}

impl Recast<'_> {
    fn value(&self, from: &Type, to: &Type, value: &Value) -> Option<Value> {
        match (from, to, value) {
            (Type::List(_) | Type::Set(_), Type::List(_) | Type::Set(_), Value::List(values)) => {
                let (from, to) = (from.member()?, to.member()?);
                let values = values.iter().map(|value| self.value(from, to, value));
                Some(Value::List(values.collect::<Option<_>>()?))
            }
            (Type::Map(from), Type::Map(to), Value::Map(map)) => {
                let value = |(name, value): (&String, &Value)| {
                    Some((name.clone(), self.value(&from.kind, &to.kind, value)?))
                };
                Some(Value::Map(map.iter().map(value).collect::<Option<_>>()?))
            }
            (Type::Named(from), Type::Named(to), Value::Map(map)) => {
                let (from, to) = (self.old.type_definition(from)?, self.new.type_definition(to)?);
                let mut made = std::collections::BTreeMap::new();
                for (attribute, value) in map {
                    match from.fields.iter().find(|field| field.attribute == *attribute) {
                        None if to.open => drop(made.insert(attribute.clone(), value.clone())),
                        None => {}
                        Some(old) => {
                            let new = to.fields.iter().find(|new| new.name == old.name);
                            let new =
                                new.or_else(|| to.fields.iter().find(|new| new.attribute == *attribute));
                            if let Some(new) = new {
                                made.insert(new.attribute.clone(), self.value(&old.kind, &new.kind, value)?);
                            }
                        }
                    }
                }
                for field in &to.fields {
                    if let (false, Some(default)) =
                        (made.contains_key(&field.attribute), &field.checks.default)
                    {
                        made.insert(field.attribute.clone(), default.clone());
                    }
                }
                Some(Value::Map(made))
            }
            // What came as something else stays so; whether it may is checked.
            (_, _, Value::Raw(stored)) if *from != Type::Json => Some(self.new.decode_loosely(to, stored)),
            _ => {
                let stored = self.old.encode(from, value)?;
                self.new.decode(to, &stored).or_else(|| self.new.decode(to, &respelt(stored)?))
            }
        }
    }
}

/// A number as text, or the other way round.
fn respelt(stored: AttributeValue) -> Option<AttributeValue> {
    match stored {
        AttributeValue::N(number) => Some(AttributeValue::S(number.to_string())),
        AttributeValue::S(text) => text.parse().ok().map(AttributeValue::N),
        _ => None,
    }
}
