//! Whether an item is what its schema says: the one check of whole items, whoever writes them.
//!
//! A [`Checker`] is made once for a table and asked for every write. It reads the item as a program in Rust would, and
//! tells everything that is wrong with it: a key that no entity has or that its fields do not make, values that are
//! missing, of another type or break a check, equations that do not hold, a state that is none, a TTL that the schema
//! does not give, parts of no whole. Given the item as it was, it also tells a transition that nobody declared and a
//! lease that is not over. Nothing is filled in or mended.
//!
//! What an item does not show is not held against it: inputs that are kept nowhere, what was moved out of an item in
//! parts, moments that were `now` when it was written. What `checks record` keeps is kept here too.
//!
//! Everything that holds for each item of a table is worked out beforehand, and a text is made only of what is wrong.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use jiff::Timestamp;
use larder_model::{AttributeValue, Item, Number, UnixTime};

use crate::equation::{Expr, Function, Scope, conformed, duration_source};
use crate::marks::{ABSENT, CHUNK, CHUNK_KEY, CHUNKS_MAX, FRESH_UNTIL, MARK, PACKED, PARTS, VERSION};
use crate::origin::Origins;
use crate::record::{Place, Violation, ViolationFault, is_ordered, shown};
use crate::schema::{
    CheckMode, Entity, Field, Fields, KeyAttribute, KeySource, LeaseAttributes, Lifecycle, Role, Schema,
    State, Table, Ttl, Type,
};
use crate::span::SourceFile;
use crate::template::Template;
use crate::value::Value;

/// How far the clocks of two machines may be apart: what one takes for over, another may not yet.
const SKEW_SECONDS: i64 = 5;
/// How much longer than its schema says an item may live, for a writer whose clock is ahead.
const TTL_SLACK_SECONDS: i64 = 300;
/// Unix seconds beyond this are milliseconds, written by mistake.
const TTL_SECONDS_MAX: i64 = 100_000_000_000;

/// The rules of one table, ready to be held against its items.
///
/// ```
/// use larder_schema::{Checker, Environment, NoFiles, Schema};
///
/// let text = r#"
/// system keiba
/// table races {
///   key  pk
///   entity Race {
///     key  "RACE#{race_id}"
///     input race_id: string nonempty
///     horses:        int in 1..=18
///   }
/// }
/// "#;
/// let loaded = Schema::load("keiba.larder", text, &mut NoFiles, &Environment::new());
/// let schema = loaded.schema.expect("there is nothing wrong with it");
/// let checker = Checker::new(schema.into(), "races", &loaded.files).expect("there is such a table");
/// let item = [("pk", "RACE#7".into()), ("horses", larder_model::AttributeValue::from(19))].into_iter().collect();
/// let broken = checker.check(None, &item, larder_model::UnixTime::from_seconds(0));
/// assert_eq!(broken[0].to_string(), "Race.horses: must be in 1..=18, and it is 19");
/// assert_eq!(checker.place(&broken[0]), Some("keiba.larder:8"));
/// ```
#[derive(Debug)]
pub struct Checker {
    schema: Arc<Schema>,
    table_at: usize,
    entities: Vec<Rules>,
    /// Where in the schema's files an entity, a field, a key or a TTL is written.
    places: HashMap<String, String>,
}

/// What is known of an entity before any item of it is.
#[derive(Debug)]
struct Rules {
    at: usize,
    /// What its keys begin with.
    prefixes: (String, Option<String>),
    stored: Vec<Stored>,
    inputs: Vec<Input>,
    /// Stored fields, by place, whose text gives inputs back.
    carriers: Vec<usize>,
    equations: Vec<Equation>,
    /// Stored fields, by place, that say when the item was written.
    moments: Vec<usize>,
    /// Parts of the key that are made of more than the key itself tells.
    keys: Vec<(KeyAttribute, Template)>,
    /// Keys of indexes that the entity is not in.
    foreign: Vec<(String, String)>,
    /// All attributes an item may have, besides those of the layer.
    attributes: BTreeSet<String>,
}

#[derive(Debug)]
struct Stored {
    at: usize,
    is_given: bool,
    is_ordered: bool,
    needed: Needed,
    /// It is held against its equation, and not read before.
    is_deferred: bool,
}

/// What else of a field is needed than that it is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Needed {
    Nothing,
    /// How many members it has.
    Count,
    Value,
}

#[derive(Debug)]
struct Input {
    at: usize,
    /// Whether an item tells it.
    is_told: bool,
}

#[derive(Debug)]
struct Equation {
    at: usize,
    needs: Vec<String>,
    /// Its value follows from the item, whenever it was written.
    lasts: bool,
    is_required: bool,
    is_needed: bool,
    is_deferred: bool,
}

impl Checker {
    /// The rules of a table, by the name the schema gives it. The files are those the schema was loaded from.
    pub fn new(schema: Arc<Schema>, table: &str, files: &[SourceFile]) -> Option<Self> {
        let table_at = schema.tables.iter().position(|known| known.name == table)?;
        let table = &schema.tables[table_at];
        let entities = (0..table.entities.len()).map(|at| Rules::new(table, at)).collect();
        let places = places(&schema, table, files);
        Some(Self { schema, table_at, entities, places })
    }

    /// The table, as the schema has it.
    pub fn table(&self) -> &Table {
        &self.schema.tables[self.table_at]
    }

    /// Everything that is wrong with an item that is about to be written, given the one it takes the place of.
    pub fn check(&self, before: Option<&Item>, after: &Item, now: UnixTime) -> Vec<Violation> {
        let mut found = Vec::new();
        // Most items have none, and are not searched for each.
        let is_marked = after.names().any(|name| name.starts_with(MARK));
        if is_marked && after.contains(ABSENT) {
            self.check_marker(after, &mut found);
        } else if is_marked && after.contains(CHUNK) {
            self.check_chunk(after, &mut found);
        } else if let Some((rules, key)) = self.entity_of(after) {
            let entity = self.entity(rules);
            let is_in_parts = is_marked && after.contains(PARTS);
            let record = self.check_record(rules, key, after, is_in_parts, &mut found);
            self.check_attributes(rules, after, &mut found);
            if is_marked {
                self.check_marks(entity, after, &mut found);
            }
            self.check_ttl(rules, &record, after, now, &mut found);
            // What has ended may be made anew.
            let before = before.filter(|item| !item.contains(ABSENT) && !self.has_ended(item, now));
            for lifecycle in &entity.lifecycles {
                self.check_state(entity, lifecycle, &record, after, &mut found);
                if let Some(before) = before {
                    check_step(entity, lifecycle, before, after, now, &mut found);
                }
            }
        } else if self.table().strict {
            found.push(self.of_no_entity(after));
        }
        found
    }

    /// What would have to change of an item so that its equations hold and it ends when the schema says: attributes with
    /// their values, or none for what is to be left out. Nothing else can be derived, and a key cannot be changed.
    pub fn mend(&self, item: &Item, now: UnixTime) -> Vec<(String, Option<AttributeValue>)> {
        if item.contains(ABSENT) || item.contains(CHUNK) {
            return Vec::new();
        }
        let Some((rules, key)) = self.entity_of(item) else { return Vec::new() };
        let entity = self.entity(rules);
        let mut found = Vec::new();
        let record = self.check_record(rules, key, item, item.contains(PARTS), &mut found);
        let encoded = |(at, value): &(usize, Option<Value>)| {
            let field = &entity.fields[*at];
            let stored = value.as_ref().and_then(|value| self.schema.encode(&field.kind, value));
            (field.attribute.clone(), stored)
        };
        let mut changes: Vec<_> = record.derived.iter().map(encoded).collect();
        found.clear();
        self.check_ttl(rules, &record, item, now, &mut found);
        let outlives = entity.policy.stale_millis.max(entity.policy.grace_millis).is_some();
        if let (Some(Ttl::After { millis }), Some(broken), false) = (&entity.ttl, found.pop(), outlives) {
            let written = record.written(rules, entity).unwrap_or(now.seconds());
            changes.push((broken.attribute, Some(AttributeValue::from(written + millis / 1000))));
        }
        changes.retain(|(name, _)| {
            let mut keys = std::iter::once(&self.table().partition).chain(self.table().sort.as_ref());
            !keys.any(|key| key.attribute == *name)
        });
        changes
    }

    /// The entity an item is, by its key.
    pub fn entity_name(&self, item: &Item) -> Option<&str> {
        self.entity_of(item).map(|(rules, _)| self.entity(rules).name.as_str())
    }

    /// Whether what an item has under this name is a secret, or made from one.
    pub fn is_secret(&self, item: &Item, attribute: &str) -> bool {
        let Some((rules, _)) = self.entity_of(item) else { return false };
        let entity = self.entity(rules);
        let mut stored =
            entity.fields.iter().filter(|field| field.is_stored() && field.attribute == attribute);
        stored.any(|field| self.schema.reveals_secret(entity, field))
    }

    /// Where in the schema's files the rule stands that was broken, as `file:line`.
    pub fn place(&self, violation: &Violation) -> Option<&str> {
        let mut names = violation.path.split('.').map(|name| name.split('[').next().unwrap_or(name));
        let owner = names.next().unwrap_or_default();
        let known = |path: String| self.places.get(&path).map(String::as_str);
        let of_owner = match violation.fault {
            ViolationFault::Key => known(format!("{owner} key")),
            ViolationFault::Ttl => known(format!("{owner} ttl")),
            _ => None,
        };
        let mut place = of_owner.or_else(|| known(owner.to_owned()));
        if of_owner.is_none() {
            let mut owner = owner.to_owned();
            for name in names {
                match known(format!("{owner}.{name}")) {
                    Some(found) => place = Some(found),
                    None => break,
                }
                match self.type_within(&owner, name) {
                    Some(inner) => owner = inner,
                    None => break,
                }
            }
        }
        place.or_else(|| known(String::new()))
    }

    /// The named type of a field, or of its members.
    fn type_within(&self, owner: &str, field: &str) -> Option<String> {
        let entity = self.table().entities.iter().find(|entity| entity.name == owner);
        let fields = match entity {
            Some(entity) => &entity.fields,
            None => &self.schema.type_definition(owner)?.fields,
        };
        let mut kind = &fields.iter().find(|known| known.name == field)?.kind;
        while let Some(member) = kind.member() {
            kind = member;
        }
        match kind {
            Type::Named(name) => Some(name.clone()),
            _ => None,
        }
    }

    fn entity(&self, rules: &Rules) -> &Entity {
        &self.table().entities[rules.at]
    }

    /// The entity that has such a key, and what the key tells.
    fn entity_of(&self, item: &Item) -> Option<(&Rules, Fields)> {
        let table = self.table();
        let text = |key: &KeyAttribute| item.get(&key.attribute).and_then(AttributeValue::as_str);
        let partition = text(&table.partition);
        let sort = table.sort.as_ref().and_then(text);
        let begins = |text: Option<&str>, prefix: &str| text.is_none_or(|text| text.starts_with(prefix));
        self.entities.iter().find_map(|rules| {
            let may_be = begins(partition, &rules.prefixes.0)
                && rules.prefixes.1.as_ref().is_none_or(|prefix| begins(sort, prefix));
            let read = || self.schema.read_key(table, self.entity(rules), item).ok();
            may_be.then(read).flatten().map(|fields| (rules, fields))
        })
    }

    fn of_no_entity(&self, item: &Item) -> Violation {
        let table = self.table();
        let known: Vec<String> = table.entities.iter().map(key_source).collect();
        Violation {
            path: format!("{}.{}", table.name, table.partition.name),
            attribute: table.partition.attribute.clone(),
            fault: ViolationFault::Entity,
            rule: format!("must be a key of {}", known.join(" or ")),
            value: self.key_text(item),
        }
    }

    fn key_text(&self, item: &Item) -> String {
        let keys = std::iter::once(&self.table().partition).chain(self.table().sort.as_ref());
        let texts: Vec<String> = keys.filter_map(|key| item.get(&key.attribute)).map(shown_stored).collect();
        texts.join(" / ")
    }

    /// Whether an attribute is a key of the table, or its TTL.
    fn is_of_table(&self, name: &str) -> bool {
        let table = self.table();
        std::iter::once(&table.partition).chain(table.sort.as_ref()).any(|key| key.attribute == name)
            || table.ttl.as_ref().is_some_and(|ttl| ttl.attribute == name)
    }

    /// The memory of an absence, or of somebody at work, holds nothing of a record.
    fn check_marker(&self, item: &Item, found: &mut Vec<Violation>) {
        for name in item.names().filter(|name| !name.starts_with(MARK) && !self.is_of_table(name)) {
            let rule = format!("must not stand beside `{ABSENT}`, which says that there is no record");
            found.push(self.of_table(name, ViolationFault::Unknown, rule, "given".to_owned()));
        }
    }

    fn of_table(&self, attribute: &str, fault: ViolationFault, rule: String, value: String) -> Violation {
        let path = format!("{}.{attribute}", self.table().name);
        Violation { path, attribute: attribute.to_owned(), fault, rule, value }
    }

    /// Part of a larger item: its key is the key of that, and its number.
    fn check_chunk(&self, item: &Item, found: &mut Vec<Violation>) {
        let table = self.table();
        let key = table.sort.as_ref().unwrap_or(&table.partition);
        let text = item.get(&key.attribute).and_then(AttributeValue::as_str).unwrap_or_default();
        let whole = text.rsplit_once(CHUNK_KEY).and_then(|(head, rest)| {
            let (version, number) = rest.split_once('#')?;
            let number = number.parse::<i64>().ok().filter(|number| (0..CHUNKS_MAX).contains(number));
            (!version.is_empty()).then_some(())?;
            number?;
            let mut whole = item.clone();
            whole.remove(CHUNK);
            whole.insert(key.attribute.clone(), head);
            let (rules, _) = self.entity_of(&whole)?;
            self.entity(rules).policy.may_split().then_some(())
        });
        if whole.is_none() {
            let rule = format!(
                "must be the key of an item that may be split, then `{CHUNK_KEY}VERSION#NUMBER` below {CHUNKS_MAX}"
            );
            found.push(self.of_table(&key.attribute, ViolationFault::Parts, rule, self.key_text(item)));
        }
        if !matches!(item.get(CHUNK), Some(AttributeValue::B(_))) {
            let value = item.get(CHUNK).map_or_else(String::new, shown_stored);
            found.push(self.of_table(CHUNK, ViolationFault::Parts, "must be bytes".to_owned(), value));
        }
        for name in item.names().filter(|name| *name != CHUNK && !self.is_of_table(name)) {
            let rule = "must not stand in a part of a larger item".to_owned();
            found.push(self.of_table(name, ViolationFault::Parts, rule, "given".to_owned()));
        }
    }

    /// The fields of an item, checked: given ones by their types and checks, computed ones by their equations.
    fn check_record<'a>(
        &'a self,
        rules: &'a Rules,
        key: Fields,
        item: &Item,
        is_in_parts: bool,
        found: &mut Vec<Violation>,
    ) -> Record<'a> {
        let entity = self.entity(rules);
        let mut record =
            Record { fields: key, unknown: Vec::new(), doubtful: Vec::new(), derived: Vec::new() };
        for stored in &rules.stored {
            let field = &entity.fields[stored.at];
            let Some(value) = item.get(&field.attribute) else {
                let faults = found.len();
                if stored.is_given && !is_in_parts {
                    // What the key tells as well is to be stored all the same.
                    self.schema.check_given(entity, field, None, |_| stored.is_ordered, found);
                }
                if let (Type::Set(_), Some(empty), false) = (&field.kind, &field.checks.default, is_in_parts)
                {
                    // A set without members is not stored.
                    record.fields.insert(field.name.clone(), empty.clone());
                } else if is_in_parts || field.checks.default.is_some() || found.len() > faults {
                    record.unknown.push(&field.name);
                }
                continue;
            };
            if stored.is_deferred {
                continue;
            }
            // Most values are right, and that shows without reading them.
            if self.schema.fits(&field.kind, &field.checks, value) {
                let value = match (stored.needed, value) {
                    (Needed::Nothing, _) => continue,
                    (Needed::Count, AttributeValue::L(list)) => {
                        Value::List(vec![Value::Bool(false); list.len()])
                    }
                    (_, value) => self.schema.decode_loosely(&field.kind, value),
                };
                record.fields.insert(field.name.clone(), value);
                continue;
            }
            self.check_stored(entity, field, stored, value, &mut record, found);
        }
        for &at in &rules.carriers {
            self.schema.recover_inputs(entity, &entity.fields[at], &mut record.fields);
        }
        for input in &rules.inputs {
            let field = &entity.fields[input.at];
            let value = record.fields.get(&field.name);
            if value.is_none() && (!input.is_told || is_in_parts || field.checks.default.is_some()) {
                record.unknown.push(&field.name);
            } else {
                self.schema.check_given(entity, field, value, |_| false, found);
            }
        }
        if entity.policy.checks != CheckMode::Strict {
            found.retain(|violation| self.schema.refuses(self.table(), entity, violation));
        }
        for equation in &rules.equations {
            self.check_equation(rules, entity, equation, (item, is_in_parts), &mut record, found);
        }
        for (attribute, template) in &rules.keys {
            let known = template.holes().all(|hole| record.knows(&hole.field));
            let text = item.get(&attribute.attribute).and_then(AttributeValue::as_str);
            if known && template.build(&record.fields).ok().as_deref() != text {
                found.push(Violation {
                    path: format!("{}.{}", entity.name, attribute.name),
                    attribute: attribute.attribute.clone(),
                    fault: ViolationFault::Key,
                    rule: format!("must be \"{}\" of its fields", template.source()),
                    value: shown(&Value::Text(text.unwrap_or_default().to_owned())),
                });
            }
        }
        record
    }

    /// Reads a stored value, and tells all that is wrong with it.
    fn check_stored<'a>(
        &self,
        entity: &'a Entity,
        field: &'a Field,
        stored: &Stored,
        raw: &AttributeValue,
        record: &mut Record<'a>,
        found: &mut Vec<Violation>,
    ) {
        let read = self.schema.decode(&field.kind, raw);
        let is_unread = read.is_none();
        let value = read.unwrap_or_else(|| self.schema.decode_loosely(&field.kind, raw));
        let faults = found.len();
        if stored.is_given {
            self.schema.check_given(entity, field, Some(&value), |_| stored.is_ordered, found);
        } else {
            let place = Place::of(entity, &field.name);
            self.schema.check_value(&field.kind, &field.checks, &value, &place, found);
        }
        if is_unread && found.len() == faults {
            // Nothing in it is wrong, and nobody could read it: an empty list in place of a set.
            let raw = Value::Raw(raw.clone());
            self.schema.check_given(entity, field, Some(&raw), |_| false, found);
        }
        let is_unfit = |violation: &Violation| {
            violation.fault != ViolationFault::Check && self.schema.refuses(self.table(), entity, violation)
        };
        if found[faults..].iter().any(is_unfit) {
            record.unknown.push(&field.name);
        } else if found.len() > faults {
            record.doubtful.push(&field.name);
        }
        record.fields.insert(field.name.clone(), value);
    }

    fn check_equation<'a>(
        &self,
        rules: &Rules,
        entity: &'a Entity,
        equation: &Equation,
        (item, is_in_parts): (&Item, bool),
        record: &mut Record<'a>,
        found: &mut Vec<Violation>,
    ) {
        let field = &entity.fields[equation.at];
        let Some(expression) = &field.equation else { return };
        let is_stored = field.is_stored();
        let written = if is_stored { item.get(&field.attribute) } else { None };
        let follows = equation.lasts && equation.needs.iter().all(|name| record.knows(name));
        if !follows {
            let stored = rules.stored.iter().find(|stored| stored.at == equation.at);
            if let (true, Some(value), Some(stored)) = (equation.is_deferred, written, stored) {
                self.check_stored(entity, field, stored, value, record, found);
            }
            let stored = record.fields.get(&field.name);
            if stored.is_none() && is_stored && equation.is_required && !is_in_parts {
                let place = Place::of(entity, &field.name);
                found.push(place.violation(
                    ViolationFault::Missing,
                    "is required".to_owned(),
                    "missing".to_owned(),
                ));
            }
            if stored.is_none() && !record.unknown.contains(&field.name.as_str()) {
                record.unknown.push(&field.name);
            }
            return;
        }
        let moved = written.is_none() && is_in_parts;
        let scope = Scope { fields: &record.fields, now: Timestamp::UNIX_EPOCH };
        let value = expression.evaluate(scope).map(|value| conformed(value, &field.kind));
        if value.is_none() && equation.needs.iter().any(|name| record.doubtful.contains(&name.as_str())) {
            return;
        }
        if is_stored && !moved && record.knows(&field.name) && !self.is_same(field, written, value.as_ref()) {
            let hidden = self.schema.reveals_secret(entity, field);
            let source = expression.source();
            let rule = match &value {
                Some(_) if hidden => format!("must be {source}"),
                Some(value) => format!("must be {source}, which is {}", shown(value)),
                None => format!("must be left out where {source} cannot be worked out"),
            };
            let is = match written {
                None => "missing".to_owned(),
                Some(_) if hidden => "a secret".to_owned(),
                Some(written) => shown_stored(written),
            };
            found.push(Place::of(entity, &field.name).violation(ViolationFault::Equation, rule, is));
            record.derived.push((equation.at, value.clone()));
        }
        match value {
            Some(value) if equation.is_needed => drop(record.fields.insert(field.name.clone(), value)),
            Some(_) => {}
            None => drop(record.fields.remove(&field.name)),
        }
    }

    /// Whether what is written is what an equation gives.
    fn is_same(&self, field: &Field, written: Option<&AttributeValue>, value: Option<&Value>) -> bool {
        match (written, value) {
            (None, None) => true,
            (Some(AttributeValue::S(written)), Some(Value::Text(text))) => written == text,
            (Some(AttributeValue::N(written)), Some(Value::Number(number))) => written == number,
            (Some(written), Some(value)) => {
                self.schema.encode(&field.kind, value).as_ref() == Some(written)
                    || self.schema.decode(&field.kind, written).as_ref() == Some(value)
            }
            _ => false,
        }
    }

    /// Keys of indexes that the entity is not in; and, where the table is strict, attributes that nobody knows.
    fn check_attributes(&self, rules: &Rules, item: &Item, found: &mut Vec<Violation>) {
        let entity = self.entity(rules);
        for (attribute, index) in &rules.foreign {
            if item.contains(attribute) {
                let rule = format!("must be left out, as {} is not in index {index}", entity.name);
                found.push(Place::of(entity, attribute).violation(
                    ViolationFault::Unknown,
                    rule,
                    "given".to_owned(),
                ));
            }
        }
        if self.table().strict {
            // Both are in order.
            let mut known = rules.attributes.iter().map(String::as_str).peekable();
            for name in item.names() {
                while known.next_if(|known| *known < name).is_some() {}
                let is_known = known.peek() == Some(&name) || name.starts_with(MARK);
                if !is_known && !rules.foreign.iter().any(|(foreign, _)| foreign == name) {
                    let rule = "there is no such field, and the table is strict".to_owned();
                    found.push(Place::of(entity, name).violation(
                        ViolationFault::Unknown,
                        rule,
                        "given".to_owned(),
                    ));
                }
            }
        }
    }

    /// What the layer has added: the version of an item, and how the rest of it is kept.
    fn check_marks(&self, entity: &Entity, item: &Item, found: &mut Vec<Violation>) {
        if let Some(version) = item.get(VERSION).filter(|version| whole(version).is_none()) {
            let rule = "must be a whole number".to_owned();
            let value = shown_stored(version);
            found.push(Place::of(entity, VERSION).violation(ViolationFault::Type, rule, value));
        }
        let (parts, packed) = (item.get(PARTS), item.get(PACKED));
        if parts.is_none() && packed.is_none() {
            return;
        }
        let mut broken = |name: &str, rule: &str, value: Option<&AttributeValue>| {
            let value = value.map_or_else(|| "missing".to_owned(), shown_stored);
            found.push(Place::of(entity, name).violation(ViolationFault::Parts, rule.to_owned(), value));
        };
        if !entity.policy.may_pack() {
            return broken(
                PARTS,
                "must not be kept in parts or packed: the schema says neither `oversize split`, `oversize compress` nor \
                 `compress`",
                parts.or(packed),
            );
        }
        let Some(AttributeValue::M(map)) = parts else {
            return broken(PARTS, "must be a map that says which version of the rest it is", parts);
        };
        if map.get("version").and_then(AttributeValue::as_str).is_none_or(str::is_empty) {
            broken(PARTS, "must have a text `version`", map.get("version"));
        }
        let (count, checksum) = (map.get("count"), map.get("checksum"));
        if count.is_none() && checksum.is_none() {
            if !matches!(packed, Some(AttributeValue::B(_))) {
                broken(PACKED, "must be bytes, where the rest is not in parts", packed);
            }
            return;
        }
        if !entity.policy.may_split() {
            broken(PARTS, "must not be kept in parts: the schema does not say `oversize split`", parts);
        }
        if !count.and_then(whole).is_some_and(|count| (1..=CHUNKS_MAX).contains(&count)) {
            broken(PARTS, &format!("must have a `count` of 1 to {CHUNKS_MAX}"), count);
        }
        if checksum.and_then(whole).is_none_or(|checksum| u32::try_from(checksum).is_err()) {
            broken(PARTS, "must have a `checksum` of 32 bits", checksum);
        }
    }

    fn check_ttl(
        &self,
        rules: &Rules,
        record: &Record<'_>,
        item: &Item,
        now: UnixTime,
        found: &mut Vec<Violation>,
    ) {
        let entity = self.entity(rules);
        let Some(ttl) = &self.table().ttl else { return };
        // A field of that name is checked as one.
        if entity.fields.iter().any(|field| field.is_stored() && field.attribute == ttl.attribute) {
            return;
        }
        let stored = item.get(&ttl.attribute);
        let mut broken = |rule: String| {
            let value = stored.map_or_else(|| "missing".to_owned(), shown_stored);
            found.push(Violation {
                path: format!("{}.{}", entity.name, ttl.name),
                attribute: ttl.attribute.clone(),
                fault: ViolationFault::Ttl,
                rule,
                value,
            });
        };
        let Some(lasts) = &entity.ttl else {
            if stored.is_some() {
                broken(format!("must be left out: {} has no ttl", entity.name));
            }
            return;
        };
        let ends = match lasts {
            Ttl::After { millis } => End::After(*millis),
            Ttl::Param(_) => End::Somewhen,
            Ttl::Value(expression) => {
                if !expression.fields().iter().all(|name| record.knows(name)) {
                    End::Perhaps
                } else {
                    let now = Timestamp::from_millisecond(now.millis()).unwrap_or(Timestamp::MAX);
                    let moves = expression.mentions_now();
                    match expression.evaluate(Scope { fields: &record.fields, now }) {
                        None => End::Never,
                        Some(Value::Duration(lasts)) => {
                            End::After(i64::try_from(lasts.as_millis()).unwrap_or(i64::MAX))
                        }
                        Some(_) if moves => End::Somewhen,
                        Some(moment) => {
                            moment.as_instant().map_or(End::Never, |moment| End::At(moment.as_second()))
                        }
                    }
                }
            }
        };
        let Some(stored) = stored else {
            if !matches!(ends, End::Never | End::Perhaps) {
                broken("is required".to_owned());
            }
            return;
        };
        let Some(seconds) = whole(stored) else {
            return broken("must be a whole number of Unix seconds".to_owned());
        };
        let policy = &entity.policy;
        let extra = policy.stale_millis.max(policy.grace_millis).unwrap_or(0) / 1000;
        match ends {
            End::After(millis) => {
                // It lives from now, or from when it says itself that it was written.
                let written = record.written(rules, entity);
                let latest = written.map_or(now.seconds(), |written| written.max(now.seconds()));
                if seconds > latest.saturating_add(millis / 1000).saturating_add(extra + TTL_SLACK_SECONDS) {
                    let lasts = duration_source(millis);
                    broken(format!("must be Unix seconds, no more than {lasts} after it was written"));
                }
            }
            End::At(moment) if policy.jitter_percent.is_none() => {
                if seconds != moment.saturating_add(extra) {
                    broken(format!("must be {} in Unix seconds", moment.saturating_add(extra)));
                }
            }
            End::Somewhen if seconds > TTL_SECONDS_MAX => {
                broken("must be Unix seconds, not milliseconds".to_owned());
            }
            End::Never => broken("must be left out where the ttl cannot be worked out".to_owned()),
            End::At(_) | End::Somewhen | End::Perhaps => {}
        }
    }

    /// Whether an item was past its end when this was written.
    fn has_ended(&self, item: &Item, now: UnixTime) -> bool {
        let Some(ttl) = &self.table().ttl else { return false };
        let ends = item.get(FRESH_UNTIL).or_else(|| item.get(&ttl.attribute)).and_then(whole);
        ends.is_some_and(|ends| ends < now.seconds().saturating_add(SKEW_SECONDS))
    }

    fn check_state(
        &self,
        entity: &Entity,
        lifecycle: &Lifecycle,
        record: &Record<'_>,
        item: &Item,
        found: &mut Vec<Violation>,
    ) {
        let written = item.get(&lifecycle.attribute);
        let names = || {
            let names = lifecycle.states.iter().map(|state| format!("\"{}\"", state.template.source()));
            names.collect::<Vec<_>>().join(" or ")
        };
        let mut broken =
            |attribute: &str, fault: ViolationFault, rule: String, value: Option<&AttributeValue>| {
                let value = value.map_or_else(|| "missing".to_owned(), shown_stored);
                let path = format!("{}.{}", entity.name, lifecycle.name);
                found.push(Violation { path, attribute: attribute.to_owned(), fault, rule, value });
            };
        match (written, lifecycle.state_of(item)) {
            (None, _) => {
                let first = lifecycle.states.first();
                if first.is_some_and(|first| first.template.build(&record.fields).is_ok()) {
                    broken(&lifecycle.attribute, ViolationFault::State, format!("must be {}", names()), None);
                }
            }
            (Some(_), None) => {
                broken(&lifecycle.attribute, ViolationFault::State, format!("must be {}", names()), written);
            }
            (Some(stored), Some(state)) => {
                let known = state.template.holes().all(|hole| record.knows(&hole.field));
                if known && state.template.build(&record.fields).ok().as_deref() != stored.as_str() {
                    let rule = format!("must be \"{}\" of its fields", state.template.source());
                    broken(&lifecycle.attribute, ViolationFault::State, rule, written);
                }
            }
        }
        let Some(lease) = &lifecycle.lease else { return };
        if let Some(owner) = item.get(&lease.owner).filter(|owner| owner.as_str().is_none()) {
            broken(&lease.owner, ViolationFault::Lease, "must be a text".to_owned(), Some(owner));
        }
        for name in [&lease.until, &lease.fence, &lease.attempts] {
            if let Some(number) = item.get(name).filter(|number| whole(number).is_none()) {
                broken(name, ViolationFault::Lease, "must be a whole number".to_owned(), Some(number));
            }
        }
    }
}

/// From the state an item was in to the one it is in: by a declared transition, or back out of a lease. A lease that is
/// not over stays with its owner, and the numbers of claims only grow.
fn check_step(
    entity: &Entity,
    lifecycle: &Lifecycle,
    before: &Item,
    after: &Item,
    now: UnixTime,
    found: &mut Vec<Violation>,
) {
    let mut broken = |attribute: &str, fault: ViolationFault, rule: String, value: String| {
        let path = format!("{}.{}", entity.name, lifecycle.name);
        found.push(Violation { path, attribute: attribute.to_owned(), fault, rule, value });
    };
    let (from, to) = (lifecycle.state_of(before), lifecycle.state_of(after));
    if let (Some(from), Some(to)) = (from, to)
        && !may_go(lifecycle, from, to)
    {
        let to_names = lifecycle.states.iter().filter(|state| may_go(lifecycle, from, state));
        let names: Vec<&str> = to_names.map(|state| &*state.name).filter(|name| *name != from.name).collect();
        let rule = match names.as_slice() {
            [] => format!("must stay {}, which no transition leaves", from.name),
            names => format!("must stay {} or become {}", from.name, names.join(" or ")),
        };
        broken(&lifecycle.attribute, ViolationFault::Transition, rule, to.name.clone());
    }
    let Some(lease) = &lifecycle.lease else { return };
    let number = |item: &Item, name: &str| item.get(name).and_then(whole);
    let (fence, new_fence) = (number(before, &lease.fence), number(after, &lease.fence));
    if fence.is_some_and(|fence| new_fence.is_none_or(|new| new < fence)) {
        let value = new_fence.map_or_else(|| "missing".to_owned(), |fence| fence.to_string());
        let rule = format!("must not go back from {}", fence.unwrap_or(0));
        broken(&lease.fence, ViolationFault::Lease, rule, value);
    }
    let is_leased = |state: Option<&State>| state.is_some_and(|state| state.lease_millis.is_some());
    let owner = |item: &Item| item.get(&lease.owner).and_then(AttributeValue::as_str).map(str::to_owned);
    let until = number(before, &lease.until).unwrap_or(i64::MIN);
    if let Some(holder) = owner(before)
        && is_leased(from)
        && from.map(|state| &state.name) == to.map(|state| &state.name)
        && until > now.seconds().saturating_add(SKEW_SECONDS)
        && owner(after).as_ref() != Some(&holder)
        && number(after, &lease.until).is_none_or(|until| until >= now.seconds())
    {
        let rule = format!("must stay with {holder}, whose lease lasts until {until}");
        broken(
            &lease.owner,
            ViolationFault::Lease,
            rule,
            owner(after).unwrap_or_else(|| "missing".to_owned()),
        );
    }
}

/// Whether a transition leads there, or work that was not done goes back to where it was taken from.
fn may_go(lifecycle: &Lifecycle, from: &State, to: &State) -> bool {
    let leads = |from: &State, to: &State| {
        lifecycle
            .transitions
            .iter()
            .any(|transition| transition.to == to.name && transition.from.contains(&from.name))
    };
    from.name == to.name || leads(from, to) || (from.lease_millis.is_some() && leads(to, from))
}

/// When the schema says that an item ends.
enum End {
    /// So many milliseconds after it was written, or sooner.
    After(i64),
    /// At this moment, in Unix seconds.
    At(i64),
    Never,
    /// It ends, and when is not known.
    Somewhen,
    /// Nothing is known.
    Perhaps,
}

/// The fields of an item as far as it tells them.
struct Record<'a> {
    fields: Fields,
    /// Those that it does not tell, or that are not what they should be.
    unknown: Vec<&'a str>,
    /// Those that break a check, so that what rests on them may not be worked out.
    doubtful: Vec<&'a str>,
    /// What equations give that do not hold, by the places of their fields.
    derived: Vec<(usize, Option<Value>)>,
}

impl Record<'_> {
    /// When the item says itself that it was written, in Unix seconds.
    fn written(&self, rules: &Rules, entity: &Entity) -> Option<i64> {
        let moments = rules.moments.iter().filter_map(|&at| self.fields.get(&entity.fields[at].name));
        moments.filter_map(|moment| Some(moment.as_instant()?.as_second())).max()
    }

    /// Whether it is known what a field holds, or that it is missing.
    fn knows(&self, name: &str) -> bool {
        !self.unknown.contains(&name)
    }
}

impl Rules {
    fn new(table: &Table, at: usize) -> Self {
        let entity = &table.entities[at];
        let prefix = |source: &KeySource| match source {
            KeySource::Template(template) => template.prefix(&Fields::new()),
            KeySource::Field(_) => String::new(),
        };
        let fields = || entity.fields.iter().enumerate();
        let is_carrier =
            |field: &Field| field.is_stored() && matches!(&field.equation, Some(Expr::Template(_)));
        let lasts = |field: &Field| {
            !field.on_create && field.equation.as_ref().is_some_and(|equation| !equation.mentions_now())
        };
        let is_deferred = |field: &Field| field.is_stored() && lasts(field) && !is_carrier(field);
        let stored = fields().filter(|(_, field)| field.is_stored()).map(|(at, field)| Stored {
            at,
            is_given: field.is_given(),
            is_ordered: is_ordered(table, entity, field),
            needed: if field.is_given() { needed(entity, &field.name) } else { Needed::Value },
            is_deferred: is_deferred(field),
        });
        let inputs = fields()
            .filter(|(_, field)| field.role == Role::Input)
            .map(|(at, field)| Input { at, is_told: entity.is_recoverable(&field.name) });
        let carriers = fields().filter(|(_, field)| is_carrier(field)).map(|(at, _)| at);
        let equations = entity.order.iter().filter_map(|&at| {
            let field = &entity.fields[at];
            let equation = field.equation.as_ref()?;
            Some(Equation {
                at,
                needs: equation.fields().into_iter().map(str::to_owned).collect(),
                lasts: lasts(field),
                is_required: field.checks.default.is_none() && !entity.may_be_missing(field),
                is_needed: needed(entity, &field.name) != Needed::Nothing,
                is_deferred: is_deferred(field),
            })
        });
        let moments = fields()
            .filter(|(_, field)| field.is_stored() && field.equation.as_ref().is_some_and(Expr::mentions_now))
            .map(|(at, _)| at);
        let sort = table.sort.as_ref().zip(entity.sort.as_ref());
        let keys = std::iter::once((&table.partition, &entity.partition)).chain(sort);
        let keys = keys.filter_map(|(attribute, source)| match source {
            KeySource::Template(template)
                if template
                    .holes()
                    .any(|hole| entity.field(&hole.field).is_some_and(|field| field.role != Role::Input)) =>
            {
                Some((attribute.clone(), template.clone()))
            }
            KeySource::Template(_) | KeySource::Field(_) => None,
        });
        let attributes = attributes(table, entity);
        let index_keys = table.indexes.iter().flat_map(|index| {
            index.partition.iter().chain(&index.sort).map(|key| (key.attribute.clone(), index.name.clone()))
        });
        let mut foreign: Vec<(String, String)> =
            index_keys.filter(|(attribute, _)| !attributes.contains(attribute)).collect();
        foreign.sort();
        foreign.dedup_by(|a, b| a.0 == b.0);
        Self {
            at,
            prefixes: (prefix(&entity.partition), entity.sort.as_ref().map(prefix)),
            stored: stored.collect(),
            inputs: inputs.collect(),
            carriers: carriers.collect(),
            equations: equations.collect(),
            moments: moments.collect(),
            keys: keys.collect(),
            foreign,
            attributes,
        }
    }
}

/// What keys, states, equations and the TTL of an entity need of a field.
fn needed(entity: &Entity, name: &str) -> Needed {
    let in_template = |template: &Template| template.holes().any(|hole| hole.field == name);
    let in_key = std::iter::once(&entity.partition)
        .chain(&entity.sort)
        .any(|source| matches!(source, KeySource::Template(template) if in_template(template)));
    let mut states = entity.lifecycles.iter().flat_map(|lifecycle| &lifecycle.states);
    let ttl = match &entity.ttl {
        Some(Ttl::Value(expression)) => Some(expression),
        _ => None,
    };
    if in_key || states.any(|state| in_template(&state.template)) {
        return Needed::Value;
    }
    let equations = entity.fields.iter().filter_map(|field| field.equation.as_ref()).chain(ttl);
    let mut uses =
        equations.filter(|equation| equation.fields().contains(&name)).map(|equation| match equation {
            Expr::Call(Function::Len, argument) if matches!(&**argument, Expr::Field(_)) => Needed::Count,
            _ => Needed::Value,
        });
    match uses.next() {
        None => Needed::Nothing,
        Some(Needed::Count) if uses.all(|needed| needed == Needed::Count) => Needed::Count,
        Some(_) => Needed::Value,
    }
}

/// The attributes that an item of an entity may have.
fn attributes(table: &Table, entity: &Entity) -> BTreeSet<String> {
    let keys = std::iter::once(&table.partition).chain(table.sort.as_ref()).map(|key| &key.attribute);
    let ttl = table.ttl.iter().map(|ttl| &ttl.attribute);
    let stored = entity.fields.iter().filter(|field| field.is_stored()).map(|field| &field.attribute);
    let mut known: BTreeSet<String> = keys.chain(ttl).chain(stored).cloned().collect();
    for lifecycle in &entity.lifecycles {
        known.insert(lifecycle.attribute.clone());
        known.extend(lifecycle.lease.iter().flat_map(LeaseAttributes::names).map(str::to_owned));
    }
    known
}

fn places(schema: &Schema, table: &Table, files: &[SourceFile]) -> HashMap<String, String> {
    let origins = Origins::new(files);
    let mut places = HashMap::new();
    let mut note = |path: String, place: Option<String>| {
        if let Some(place) = place {
            places.insert(path, place);
        }
    };
    note(String::new(), origins.table(&table.name));
    note(table.name.clone(), origins.table(&table.name));
    for entity in &table.entities {
        let name = &entity.name;
        note(name.clone(), origins.record(name));
        note(format!("{name} key"), origins.entity_key(name).or_else(|| origins.setting(&table.name, "key")));
        note(format!("{name} ttl"), origins.entity_ttl(name).or_else(|| origins.setting(&table.name, "ttl")));
        let lifecycles = entity.lifecycles.iter().map(|lifecycle| &lifecycle.name);
        for field in entity.fields.iter().map(|field| &field.name).chain(lifecycles) {
            note(format!("{name}.{field}"), origins.field(name, field));
        }
    }
    for definition in &schema.types {
        let name = &definition.name;
        for field in &definition.fields {
            note(format!("{name}.{}", field.name), origins.field(name, &field.name));
        }
    }
    places
}

/// How the keys of an entity are made, for people: `Shop ("SHOP#{domain}" / "META#")`.
fn key_source(entity: &Entity) -> String {
    let source = |source: &KeySource| match source {
        KeySource::Template(template) => format!("\"{}\"", template.source()),
        KeySource::Field(name) => match entity.field(name).and_then(|field| field.equation.as_ref()) {
            Some(equation) => equation.source(),
            None => name.clone(),
        },
    };
    let parts: Vec<String> =
        std::iter::once(&entity.partition).chain(entity.sort.as_ref()).map(source).collect();
    format!("{} ({})", entity.name, parts.join(" / "))
}

fn whole(value: &AttributeValue) -> Option<i64> {
    value.as_number().and_then(Number::to_i64)
}

fn shown_stored(value: &AttributeValue) -> String {
    shown(&Value::Raw(value.clone()))
}
