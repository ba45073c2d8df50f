//! Records against their types: stored form and back, and every check that a value breaks.
//!
//! Maps carry stored names, so that an expression, a check and an item speak of one thing. What an open type
//! does not know is kept as it is.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use larder_model::{AttributeValue, Item, Number};

use crate::equation::Expr;
use crate::schema::{CheckMode, Checks, Entity, Field, Fields, KeySource, Schema, Table, Ttl, Type};
use crate::template::{Format, Template};
use crate::value::{Value, civil_date, civil_datetime, float_number, utc};

/// What is told of one list, set or map. An item of 400 KB can have a hundred thousand members, each with several faults.
const MEMBER_VIOLATIONS_MAX: usize = 1000;

/// Something that is wrong with a record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}{}: {rule}, and it is {value}", stored_as(path, attribute))]
pub struct Violation {
    /// By the names of the schema: `Menu.data_quality.accuracy`
    pub path: String,
    /// By the names in the store, as the item has it: `dataQuality.accuracy`
    pub attribute: String,
    /// What kind of thing it is.
    pub fault: ViolationFault,
    /// What must hold: `must be positive`.
    pub rule: String,
    /// What it is. A secret is not shown.
    pub value: String,
}

/// How a value can be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViolationFault {
    /// It is required and not there.
    Missing,
    /// It is not of its type.
    Type,
    /// Nobody knows it.
    Unknown,
    /// It breaks a check, or is not given as it must be.
    Check,
    /// It is the item of no entity.
    Entity,
    /// The key is not what the fields make of it.
    Key,
    /// An equation does not hold.
    Equation,
    /// It is in no state of a lifecycle.
    State,
    /// No transition leads from the state it was in to this one.
    Transition,
    /// Somebody else's lease is not over.
    Lease,
    /// It does not end when the schema says.
    Ttl,
    /// It is not a whole that is kept in parts, or not a part of one.
    Parts,
}

impl ViolationFault {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::Missing,
        Self::Type,
        Self::Unknown,
        Self::Check,
        Self::Entity,
        Self::Key,
        Self::Equation,
        Self::State,
        Self::Transition,
        Self::Lease,
        Self::Ttl,
        Self::Parts,
    ];

    /// The word for the rule that was broken, in metrics and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Missing => "required",
            Self::Type => "type",
            Self::Unknown => "unknown",
            Self::Check => "check",
            Self::Entity => "entity",
            Self::Key => "key",
            Self::Equation => "equation",
            Self::State => "state",
            Self::Transition => "transition",
            Self::Lease => "lease",
            Self::Ttl => "ttl",
            Self::Parts => "parts",
        }
    }
}

impl Violation {
    /// What is wrong with a field as a whole.
    pub fn of(
        entity: &Entity,
        field: &str,
        fault: ViolationFault,
        rule: impl Into<String>,
        value: impl Into<String>,
    ) -> Self {
        Place::of(entity, field).violation(fault, rule.into(), value.into())
    }

    /// The field of the record that it is in.
    pub fn field(&self) -> &str {
        self.path.split(['.', '[']).nth(1).unwrap_or_default()
    }

    /// Whether it is about the field as a whole, and not about something in it.
    pub fn is_about_field(&self) -> bool {
        self.path.matches(['.', '[']).count() == 1
    }
}

/// What is added to a path that the item knows by another name.
fn stored_as(path: &str, attribute: &str) -> String {
    match path.split_once('.') {
        Some((_, named)) if named != attribute => format!(" (stored as {attribute})"),
        _ => String::new(),
    }
}

/// Where a value is. Its path is put together once it has something to tell.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    step: Step<'a>,
    is_hidden: bool,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    /// A field of an entity, by its name.
    Field(&'a Entity, &'a str),
    /// A member, by its name and its stored name.
    Member(&'a Place<'a>, &'a str, &'a str),
    /// A member of a list or a set.
    At(&'a Place<'a>, usize),
    /// What a map has under a name.
    Under(&'a Place<'a>, &'a str),
}

impl<'a> Place<'a> {
    pub(crate) fn of(entity: &'a Entity, name: &'a str) -> Self {
        Self { step: Step::Field(entity, name), is_hidden: false }
    }

    fn within(&'a self, name: &'a str, attribute: &'a str) -> Self {
        Self { step: Step::Member(self, name, attribute), is_hidden: self.is_hidden }
    }

    fn at(&'a self, place: usize) -> Self {
        Self { step: Step::At(self, place), is_hidden: self.is_hidden }
    }

    fn under(&'a self, name: &'a str) -> Self {
        Self { step: Step::Under(self, name), is_hidden: self.is_hidden }
    }

    fn shown_name(&self, name: &str) -> String {
        if self.is_hidden { "a secret".to_owned() } else { format!("{name:?}") }
    }

    fn path(&self) -> String {
        match self.step {
            Step::Field(entity, name) => format!("{}.{name}", entity.name),
            Step::Member(of, name, _) => format!("{}.{name}", of.path()),
            Step::At(of, place) => format!("{}[{place}]", of.path()),
            Step::Under(of, name) => format!("{}[{}]", of.path(), self.shown_name(name)),
        }
    }

    fn attribute(&self) -> String {
        match self.step {
            Step::Field(entity, name) => {
                let field = entity.field(name).filter(|field| field.is_stored());
                field.map_or_else(|| name.to_owned(), |field| field.attribute.clone())
            }
            Step::Member(of, _, attribute) => format!("{}.{attribute}", of.attribute()),
            Step::At(of, place) => format!("{}[{place}]", of.attribute()),
            Step::Under(of, name) => format!("{}[{}]", of.attribute(), self.shown_name(name)),
        }
    }

    pub(crate) fn violation(&self, fault: ViolationFault, rule: String, value: String) -> Violation {
        Violation { path: self.path(), attribute: self.attribute(), fault, rule, value }
    }
}

impl Schema {
    /// The form of a value in a store. `None` when it is not of the type. What is raw is stored as it is: whether it may
    /// be is for [`Schema::violations`] to say.
    pub fn encode(&self, kind: &Type, value: &Value) -> Option<AttributeValue> {
        match (kind, value) {
            (_, Value::Raw(stored)) => Some(stored.clone()),
            (Type::Named(name), Value::Map(map)) => {
                let definition = self.type_definition(name)?;
                let mut item = Item::new();
                for (name, value) in map {
                    match definition.fields.iter().find(|field| field.attribute == *name) {
                        Some(field) if value.is_left_out(&field.kind) => {}
                        Some(field) => drop(item.insert(name.clone(), self.encode(&field.kind, value)?)),
                        None => match value {
                            Value::Raw(stored) => drop(item.insert(name.clone(), stored.clone())),
                            _ => return None,
                        },
                    }
                }
                Some(AttributeValue::M(item))
            }
            (Type::List(inner), Value::List(values)) => {
                let values = values.iter().map(|value| self.encode(&inner.kind, value));
                Some(AttributeValue::L(values.collect::<Option<_>>()?))
            }
            (Type::Map(inner), Value::Map(map)) => {
                let encoded =
                    |(name, value): (&String, &Value)| Some((name.clone(), self.encode(&inner.kind, value)?));
                Some(AttributeValue::M(map.iter().map(encoded).collect::<Option<_>>()?))
            }
            // With a member of another type, or none where nothing can be left out, it is no set, and kept as the list that
            // came.
            (Type::Set(inner), Value::List(values))
                if values.is_empty() || values.iter().any(|value| matches!(value, Value::Raw(_))) =>
            {
                let values = values.iter().map(|value| self.encode(inner, value));
                Some(AttributeValue::L(values.collect::<Option<_>>()?))
            }
            _ => value.to_attribute(kind),
        }
    }

    /// Reads a stored value. `None` when it does not have the form of the type: whoever reads it, typed or not, can
    /// then not read it.
    pub fn decode(&self, kind: &Type, stored: &AttributeValue) -> Option<Value> {
        match (kind, stored) {
            (Type::Named(name), AttributeValue::M(item)) => {
                let definition = self.type_definition(name)?;
                let needed = |field: &&Field| !field.optional && field.checks.default.is_none();
                if !definition.fields.iter().filter(needed).all(|field| item.contains(&field.attribute)) {
                    return None;
                }
                let mut map = BTreeMap::new();
                for (name, stored) in item {
                    let value = match definition.fields.iter().find(|field| field.attribute == *name) {
                        Some(field) => self.decode(&field.kind, stored)?,
                        None => Value::Raw(stored.clone()),
                    };
                    map.insert(name.clone(), value);
                }
                Some(Value::Map(map))
            }
            (Type::Named(_), _) => None,
            (Type::List(inner), AttributeValue::L(values)) => {
                let values = values.iter().map(|stored| self.decode(&inner.kind, stored));
                Some(Value::List(values.collect::<Option<_>>()?))
            }
            (Type::Map(inner), AttributeValue::M(item)) => {
                let decoded = |(name, stored): (&String, &AttributeValue)| {
                    Some((name.clone(), self.decode(&inner.kind, stored)?))
                };
                Some(Value::Map(item.iter().map(decoded).collect::<Option<_>>()?))
            }
            _ => Value::from_attribute(kind, stored),
        }
    }

    /// Reads a stored value as far as it has the form of the type. What has not is kept raw, in its place.
    pub fn decode_loosely(&self, kind: &Type, stored: &AttributeValue) -> Value {
        if let Some(value) = self.decode(kind, stored) {
            return value;
        }
        match (kind, stored) {
            (Type::Named(name), AttributeValue::M(item)) => {
                let known = self.type_definition(name).map_or(&[][..], |definition| &definition.fields);
                let member = |(name, stored): (&String, &AttributeValue)| {
                    let field = known.iter().find(|field| field.attribute == *name);
                    let raw = || Value::Raw(stored.clone());
                    (name.clone(), field.map_or_else(raw, |field| self.decode_loosely(&field.kind, stored)))
                };
                Value::Map(item.iter().map(member).collect())
            }
            (Type::List(inner), AttributeValue::L(values)) => {
                Value::List(values.iter().map(|stored| self.decode_loosely(&inner.kind, stored)).collect())
            }
            // A set is kept as a list for the sake of a member that is none of its own, or for the lack of any. Another list is
            // no set.
            (Type::Set(inner), AttributeValue::L(values))
                if values.is_empty() || values.iter().any(|stored| self.decode(inner, stored).is_none()) =>
            {
                Value::List(values.iter().map(|stored| self.decode_loosely(inner, stored)).collect())
            }
            (Type::Map(inner), AttributeValue::M(item)) => {
                let member = |(name, stored): (&String, &AttributeValue)| {
                    (name.clone(), self.decode_loosely(&inner.kind, stored))
                };
                Value::Map(item.iter().map(member).collect())
            }
            _ => Value::Raw(stored.clone()),
        }
    }

    /// Reads what was given raw, as far as it has the form of the type.
    pub fn conform(&self, kind: &Type, value: &mut Value) {
        match (kind, value) {
            (Type::Json, _) => {}
            (kind, value @ Value::Raw(_)) => {
                if let Value::Raw(stored) = &*value {
                    *value = self.decode_loosely(kind, stored);
                }
            }
            (Type::List(inner), Value::List(values)) => {
                values.iter_mut().for_each(|value| self.conform(&inner.kind, value));
            }
            (Type::Map(inner), Value::Map(map)) => {
                map.values_mut().for_each(|value| self.conform(&inner.kind, value));
            }
            (Type::Set(inner), Value::List(values)) => {
                values.iter_mut().for_each(|value| self.conform(inner, value));
                // What is wrong keeps its place, by which it is named.
                if values.iter().all(|value| is_of(inner, value)) {
                    values.sort_by(|a, b| a.compare(b).unwrap_or(Ordering::Equal));
                    values.dedup();
                }
            }
            (Type::Named(name), Value::Map(map)) => {
                let known = self.type_definition(name).map_or(&[][..], |definition| &definition.fields);
                for field in known {
                    if let Some(value) = map.get_mut(&field.attribute) {
                        self.conform(&field.kind, value);
                    }
                }
            }
            (kind, value) if !is_of(kind, value) => {
                // As what it is it can be kept, where that is wanted.
                let stored = match &*value {
                    Value::Text(text) => AttributeValue::S(text.clone()),
                    Value::Number(number) => AttributeValue::N(*number),
                    Value::Bool(value) => AttributeValue::Bool(*value),
                    _ => return,
                };
                *value = Value::Raw(stored);
            }
            _ => {}
        }
    }

    /// Whether a field is kept as it came though it, or a member of it, is not of its type: `checks record` says so of
    /// all that nothing else rests on. A list or map must be one; its members may be anything.
    pub fn keeps_faults(&self, table: &Table, entity: &Entity, field: &Field) -> bool {
        let CheckMode::Record(into) = &entity.policy.checks else { return false };
        field.is_given()
            && field.is_stored()
            && field.name != *into
            && (field.kind.holds_loosely() || !rests_on(table, entity, field))
    }

    /// Whether a field is secret, or holds something that is.
    pub fn is_secret(&self, field: &Field) -> bool {
        let mut kind = &field.kind;
        while let Some(member) = kind.member() {
            kind = member;
        }
        let named = match kind {
            Type::Named(name) => self.type_definition(name),
            _ => None,
        };
        field.checks.secret
            || named.is_some_and(|named| named.fields.iter().any(|field| self.is_secret(field)))
    }

    /// Whether a field of an entity is secret, or worked out from something that is.
    pub fn reveals_secret(&self, entity: &Entity, field: &Field) -> bool {
        // Equations have an order, so this ends.
        let mut inputs = field.equation.iter().flat_map(Expr::fields).filter_map(|name| entity.field(name));
        self.is_secret(field) || inputs.any(|input| self.reveals_secret(entity, input))
    }

    /// Whether something that is wrong with a record keeps it from being written. Where the schema says `checks record`,
    /// what can be kept is: all but a field that is missing, and what a key or an equation rests on.
    pub fn refuses(&self, table: &Table, entity: &Entity, violation: &Violation) -> bool {
        if entity.policy.checks == CheckMode::Strict {
            return true;
        }
        let Some(field) = entity.field(violation.field()) else { return true };
        let is_kept = self.keeps_faults(table, entity, field);
        if entity.key_fields().contains(&field.name) {
            return true;
        }
        match violation.fault {
            ViolationFault::Check => false,
            ViolationFault::Missing => !is_kept || violation.is_about_field(),
            ViolationFault::Type | ViolationFault::Unknown => {
                !is_kept || (field.kind.holds_loosely() && violation.is_about_field())
            }
            _ => true,
        }
    }

    /// Everything that is wrong with a record: what is missing, of another type, or breaks a check.
    pub fn violations(&self, entity: &Entity, fields: &Fields) -> Vec<Violation> {
        let mut found = Vec::new();
        let table = self.entity(&entity.name).map(|(table, _)| table);
        let is_sorted = |field: &Field| table.is_some_and(|table| is_ordered(table, entity, field));
        for field in entity.fields.iter().filter(|field| field.is_given()) {
            self.check_given(entity, field, fields.get(&field.name), is_sorted, &mut found);
        }
        for name in fields.keys().filter(|name| entity.field(name).is_none()) {
            found.push(unknown(&Place::of(entity, name)));
        }
        found
    }

    /// What is wrong with one field that is given.
    pub(crate) fn check_given(
        &self,
        entity: &Entity,
        field: &Field,
        value: Option<&Value>,
        is_sorted: impl Fn(&Field) -> bool,
        found: &mut Vec<Violation>,
    ) {
        let place = Place::of(entity, &field.name);
        self.check_field(field, value, &place, found);
        // A text that is sorted has one length. An input is not kept, and may be any moment unless a key is made of it as it is.
        let is_cut = || match field.kind {
            Type::Instant(_) => field.is_stored() && is_sorted(field) || is_written_out(entity, field),
            Type::Epoch => !field.is_stored() && is_written_out(entity, field),
            _ => false,
        };
        match (&field.kind, value) {
            (_, Some(value)) if is_finer(&field.kind, value) && is_cut() => {
                found.push(too_fine(&place, &field.kind, value));
            }
            (Type::Duration, Some(value @ Value::Duration(lasts)))
                if lasts.subsec_nanos() != 0 && is_written_out(entity, field) =>
            {
                let value = if field.checks.secret { "a secret".to_owned() } else { shown(value) };
                let rule = "must be whole seconds, as a key or a text is made of it".to_owned();
                found.push(place.violation(ViolationFault::Check, rule, value));
            }
            _ => {}
        }
    }

    /// Whether nothing is wrong with a stored value, as far as that shows without reading it: a false says nothing. It is
    /// asked of every field of every item that a guard judges, and makes nothing.
    pub(crate) fn fits(&self, kind: &Type, checks: &Checks, stored: &AttributeValue) -> bool {
        match (kind, stored) {
            (Type::String, AttributeValue::S(text)) => text_fits(checks, text),
            (Type::Uuid { v4 }, AttributeValue::S(text)) => is_uuid(text, *v4) && text_fits(checks, text),
            (Type::Url, AttributeValue::S(text)) => is_url(text) && text_fits(checks, text),
            (Type::Choice(choices), AttributeValue::S(text)) => {
                choices.contains(text) && text_fits(checks, text)
            }
            (Type::Int | Type::Sequence, AttributeValue::N(number)) => {
                number.to_i64().is_some() && number_fits(checks, number)
            }
            (Type::Decimal, AttributeValue::N(number)) => number_fits(checks, number),
            // With so few digits it is the same number as a float.
            (Type::Float, AttributeValue::N(number)) => number.size() <= 7 && number_fits(checks, number),
            (Type::Bool, AttributeValue::Bool(_)) | (Type::Json, _) => true,
            (Type::Bytes, AttributeValue::B(bytes)) => length_fits(checks, bytes.len()),
            (Type::Date, AttributeValue::S(text)) => civil_date(text).is_some(),
            (Type::Datetime, AttributeValue::S(text)) => civil_datetime(text).is_some(),
            (Type::Instant(_), AttributeValue::S(text)) => {
                let step = kind.step_nanos().unwrap_or(1);
                checks.range.is_none()
                    && !checks.positive
                    && utc(text).is_some_and(|at| at.as_nanosecond() % step == 0)
            }
            (Type::List(inner), AttributeValue::L(values)) => {
                let none = Checks::default();
                length_fits(checks, values.len())
                    && values.iter().all(|value| self.fits(&inner.kind, &none, value))
            }
            (Type::Named(name), AttributeValue::M(map)) => {
                let Some(definition) = self.type_definition(name) else { return false };
                let mut known = 0;
                let fit = definition.fields.iter().all(|field| match map.get(&field.attribute) {
                    Some(value) => {
                        known += 1;
                        self.fits(&field.kind, &field.checks, value)
                    }
                    None => field.optional || field.checks.default.is_some(),
                });
                fit && (definition.open || known == map.len())
            }
            _ => false,
        }
    }

    fn check_field(
        &self,
        field: &Field,
        value: Option<&Value>,
        place: &Place<'_>,
        found: &mut Vec<Violation>,
    ) {
        match value {
            // The first free number is taken when none is given.
            None if field.optional || field.checks.default.is_some() || field.kind == Type::Sequence => {}
            None => {
                found.push(place.violation(
                    ViolationFault::Missing,
                    "is required".to_owned(),
                    "missing".to_owned(),
                ));
            }
            Some(value) => {
                let place = Place { is_hidden: place.is_hidden || field.checks.secret, ..*place };
                self.check_value(&field.kind, &field.checks, value, &place, found);
                if field.kind == Type::Epoch && field.is_stored() && is_finer(&field.kind, value) {
                    found.push(too_fine(&place, &field.kind, value));
                }
            }
        }
    }

    pub(crate) fn check_value(
        &self,
        kind: &Type,
        checks: &Checks,
        value: &Value,
        place: &Place<'_>,
        found: &mut Vec<Violation>,
    ) {
        let mut broken = |fault: ViolationFault, rule: String| {
            let value = if place.is_hidden { "a secret".to_owned() } else { shown(value) };
            found.push(place.violation(fault, rule, value));
        };
        if !is_of(kind, value) {
            let example = match kind {
                Type::Date => " such as 2026-01-15",
                Type::Datetime => " such as 2026-01-15T10:00:00",
                Type::Instant(_) | Type::Epoch => " such as 2026-01-15T10:00:00Z",
                _ => "",
            };
            return broken(ViolationFault::Type, format!("must be of type {kind}{example}"));
        }
        // A set without members is not stored: where there must be some, it is missing.
        let fault = if value.is_left_out(kind) { ViolationFault::Missing } else { ViolationFault::Check };
        for rule in broken_checks(checks, value) {
            broken(fault, rule);
        }
        match (kind, value) {
            (Type::List(inner), Value::List(values)) => {
                let members = values.iter().enumerate().map(|(at, value)| (place.at(at), value));
                self.check_members(&inner.kind, members, found);
            }
            (Type::Set(inner), Value::List(values)) => {
                let members = values.iter().enumerate().map(|(at, value)| (place.at(at), value));
                self.check_members(inner, members, found);
            }
            (Type::Map(inner), Value::Map(map)) => {
                let members = map.iter().map(|(name, value)| (place.under(name), value));
                self.check_members(&inner.kind, members, found);
            }
            (Type::Named(name), Value::Map(map)) => {
                let Some(definition) = self.type_definition(name) else { return };
                for field in &definition.fields {
                    let inner = place.within(&field.name, &field.attribute);
                    self.check_field(field, map.get(&field.attribute), &inner, found);
                }
                for name in map.keys().filter(|_| !definition.open) {
                    if !definition.fields.iter().any(|field| field.attribute == *name) {
                        found.push(unknown(&place.within(name, name)));
                    }
                }
            }
            _ => {}
        }
    }
}

impl Schema {
    /// Each member at its place, until enough is known of what is wrong all through.
    fn check_members<'a>(
        &self,
        kind: &Type,
        members: impl Iterator<Item = (Place<'a>, &'a Value)>,
        found: &mut Vec<Violation>,
    ) {
        let before = found.len();
        for (place, value) in members {
            if found.len() - before >= MEMBER_VIOLATIONS_MAX {
                break;
            }
            self.check_member(kind, value, &place, found);
        }
    }

    fn check_member(&self, kind: &Type, value: &Value, place: &Place<'_>, found: &mut Vec<Violation>) {
        // An attribute can be left out; a member has a place that something must be in.
        let checks = Checks { nonempty: matches!(kind, Type::Set(_)), ..Checks::default() };
        self.check_value(kind, &checks, value, place, found);
        if *kind == Type::Epoch && is_finer(kind, value) {
            found.push(too_fine(place, kind, value));
        }
    }
}

fn unknown(place: &Place<'_>) -> Violation {
    place.violation(ViolationFault::Unknown, "there is no such field".to_owned(), "given".to_owned())
}

/// Whether a moment is between two that its type tells apart.
fn is_finer(kind: &Type, value: &Value) -> bool {
    match (kind.step_nanos(), value) {
        (Some(step), Value::Instant(at)) => at.as_nanosecond() % step != 0,
        _ => false,
    }
}

/// Whether a key, a state or a text is made of a field as its type is written, with no format of its own.
fn is_written_out(entity: &Entity, field: &Field) -> bool {
    let in_template = |template: &Template| {
        template.holes().any(|hole| hole.field == field.name && hole.format == Format::Plain)
    };
    let keys = std::iter::once(&entity.partition).chain(&entity.sort);
    let mut states = entity.lifecycles.iter().flat_map(|lifecycle| &lifecycle.states);
    let mut equations = entity.fields.iter().filter_map(|field| field.equation.as_ref());
    keys.into_iter().any(|source| matches!(source, KeySource::Template(template) if in_template(template)))
        || states.any(|state| in_template(&state.template))
        || equations.any(|equation| matches!(equation, Expr::Template(template) if in_template(template)))
}

fn too_fine(place: &Place<'_>, kind: &Type, value: &Value) -> Violation {
    let value = if place.is_hidden { "a secret".to_owned() } else { shown(value) };
    place.violation(ViolationFault::Check, format!("must be no finer than {kind} tells apart"), value)
}

/// Whether keys, equations, states or the TTL are made from a field.
fn rests_on(table: &Table, entity: &Entity, field: &Field) -> bool {
    let name = field.name.as_str();
    let in_expression = |expression: &Expr| expression.fields().contains(&name);
    let in_lifecycle = entity.lifecycles.iter().any(|lifecycle| {
        let mut set = lifecycle.transitions.iter().flat_map(|transition| &transition.set);
        lifecycle.ready.iter().any(in_expression)
            || set.any(|(set, value)| set == name || value.iter().any(in_expression))
    });
    is_ordered(table, entity, field)
        || in_lifecycle
        || matches!(&entity.ttl, Some(Ttl::Value(expression)) if in_expression(expression))
        || entity.fields.iter().any(|other| matches!(&other.checks.valid, Some((_, from)) if from == name))
}

/// Whether the text of a field is in a key, an index, a state or an equation, where it must sort as its values do.
pub(crate) fn is_ordered(table: &Table, entity: &Entity, field: &Field) -> bool {
    let name = field.name.as_str();
    let in_template = |template: &Template| template.holes().any(|hole| hole.field == name);
    let in_expression = |expression: &Expr| expression.fields().contains(&name);
    let in_key = std::iter::once(&entity.partition).chain(&entity.sort).any(|source| match source {
        KeySource::Field(key) => key == name,
        KeySource::Template(template) => in_template(template),
    });
    let indexes = table.indexes.iter().flat_map(|index| index.partition.iter().chain(&index.sort));
    let mut states = entity.lifecycles.iter().flat_map(|lifecycle| &lifecycle.states);
    let mut equations = entity.fields.iter().filter_map(|field| field.equation.as_ref());
    in_key
        || states.any(|state| in_template(&state.template))
        || indexes.into_iter().any(|key| key.attribute == field.attribute)
        || equations.any(in_expression)
}

/// Whether a value has the form of a type, its members aside.
pub(crate) fn is_of(kind: &Type, value: &Value) -> bool {
    match (kind, value) {
        (Type::String, Value::Text(_))
        | (Type::Float, Value::Float(_) | Value::Number(_))
        | (Type::Decimal, Value::Number(_))
        | (Type::Bool, Value::Bool(_))
        | (Type::Bytes, Value::Bytes(_))
        | (Type::Json, _)
        | (Type::Date, Value::Date(_))
        | (Type::Datetime, Value::Datetime(_))
        | (Type::Duration, Value::Duration(_))
        | (Type::Instant(_) | Type::Epoch, Value::Instant(_))
        | (Type::List(_) | Type::Set(_), Value::List(_))
        | (Type::Map(_) | Type::Named(_), Value::Map(_))
        | (Type::Zoned, Value::Zoned(_)) => !matches!(value, Value::Float(float) if !float.is_finite()),
        (Type::Int | Type::Sequence, Value::Number(number)) => number.to_i64().is_some(),
        (Type::Uuid { v4 }, Value::Text(text)) => is_uuid(text, *v4),
        (Type::Url, Value::Text(text)) => is_url(text),
        (Type::Choice(choices), Value::Text(text)) => choices.contains(text),
        _ => false,
    }
}

fn is_uuid(text: &str, v4: bool) -> bool {
    let bytes = text.as_bytes();
    let formed = bytes.len() == 36
        && bytes.iter().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_digit() || (b'a'..=b'f').contains(byte),
        });
    formed && (!v4 || (bytes[14] == b'4' && matches!(bytes[19], b'8' | b'9' | b'a' | b'b')))
}

fn is_url(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once("://") else { return false };
    !rest.is_empty()
        && scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'))
        && !text.chars().any(|c| c.is_whitespace() || c.is_control())
}

fn text_fits(checks: &Checks, text: &str) -> bool {
    let cased = |is_other: fn(&u8) -> bool| text.is_ascii() && !text.as_bytes().iter().any(is_other);
    !(checks.nonempty && text.is_empty())
        && (checks.len.is_none() || length_fits(checks, text.chars().count()))
        && (!checks.lower || cased(u8::is_ascii_uppercase))
        && (!checks.upper || cased(u8::is_ascii_lowercase))
        && checks.pattern.as_ref().is_none_or(|pattern| pattern.matches(text))
}

fn number_fits(checks: &Checks, number: &Number) -> bool {
    checks.range.is_none_or(|range| range.contains(number))
        && !(checks.positive && *number <= Number::from(0))
}

fn length_fits(checks: &Checks, length: usize) -> bool {
    !(checks.nonempty && length == 0)
        && checks.len.is_none_or(|(min, max)| length >= min && max.is_none_or(|max| length <= max))
}

fn broken_checks(checks: &Checks, value: &Value) -> Vec<String> {
    let mut broken = Vec::new();
    let number: Option<Number> = match value {
        _ if checks.range.is_none() && !checks.positive => None,
        Value::Number(number) => Some(*number),
        Value::Float(float) => float_number(*float),
        Value::Duration(duration) => Some(crate::value::duration_number(*duration)),
        Value::Instant(instant) => Some(instant.as_second().into()),
        _ => None,
    };
    if let (Some(range), Some(number)) = (&checks.range, &number)
        && !range.contains(number)
    {
        let end = |end: Option<Number>| end.map_or(String::new(), |end| end.to_string());
        let dots = if range.max_included { "..=" } else { ".." };
        broken.push(format!("must be in {}{dots}{}", end(range.min), end(range.max)));
    }
    if checks.positive && number.is_some_and(|number| number <= Number::from(0)) {
        broken.push("must be positive".to_owned());
    }
    let length = match value {
        Value::Text(text) => Some(text.chars().count()),
        Value::List(list) => Some(list.len()),
        Value::Map(map) => Some(map.len()),
        Value::Bytes(bytes) => Some(bytes.len()),
        _ => None,
    };
    if checks.nonempty && length == Some(0) {
        broken.push("must not be empty".to_owned());
    }
    if let (Some((min, max)), Some(length)) = (checks.len, length)
        && (length < min || max.is_some_and(|max| length > max))
    {
        let max = max.map_or(String::new(), |max| format!("={max}"));
        broken.push(format!("must have a length in {min}..{max}"));
    }
    if let Value::Text(text) = value {
        if checks.lower && text.to_lowercase() != *text {
            broken.push("must be in lower case".to_owned());
        }
        if checks.upper && text.to_uppercase() != *text {
            broken.push("must be in upper case".to_owned());
        }
        if let Some(pattern) = checks.pattern.as_ref().filter(|pattern| !pattern.matches(text)) {
            broken.push(format!("must match /{pattern}/"));
        }
    }
    broken
}

/// A value in a message: short, and on one line.
pub(crate) fn shown(value: &Value) -> String {
    match value {
        Value::Text(text) if text.chars().count() <= 60 => format!("{text:?}"),
        Value::Text(text) => format!("a text of {} bytes", text.len()),
        Value::Number(number) => number.to_string(),
        Value::Float(float) => float.to_string(),
        Value::Bool(value) => value.to_string(),
        Value::Instant(instant) => instant.to_string(),
        Value::Zoned(zoned) => zoned.to_string(),
        Value::Date(date) => date.to_string(),
        Value::Datetime(datetime) => datetime.to_string(),
        Value::Duration(duration) => format!("{duration}"),
        Value::Bytes(bytes) => format!("{} bytes", bytes.len()),
        Value::List(list) => format!("a list of {}", list.len()),
        Value::Map(_) => "a map".to_owned(),
        Value::Raw(stored) => match stored {
            AttributeValue::S(text) => shown(&Value::Text(text.clone())),
            AttributeValue::N(number) => number.to_string(),
            AttributeValue::Bool(value) => value.to_string(),
            AttributeValue::Null => "null".to_owned(),
            AttributeValue::L(list) => format!("a list of {}", list.len()),
            AttributeValue::M(_) => "a map".to_owned(),
            _ => "a document".to_owned(),
        },
    }
}
