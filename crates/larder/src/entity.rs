//! One entity of a schema on one store: fields ⇄ items.
//!
//! Everything an item carries besides the record's own fields is added and taken off here: the first state of
//! each lifecycle, the TTL, and what the record breaks where the schema says that this is recorded.
//!
//! An item whose TTL is in the past counts as absent, removed or not; see [`Core::is_expired`], the one place
//! that decides it.

use std::collections::BTreeSet;
use std::sync::Arc;

use larder_expr::{Comparator, Condition, Operand};
use larder_model::{AttributeValue, Item, Number, Path, TableName, UnixTime};
use larder_schema::jiff::Timestamp;
use larder_schema::schema::{CheckMode, KeySource, Ttl};
use larder_schema::{ABSENT, Entity, FRESH_UNTIL, Fields, Scope, Table, VERSION, Value, Violation};

use crate::cache::{self, EntityCache, Shared, freshness};
use crate::lifecycle::Watched;
use crate::observe::Observer;
use crate::shelf::Given;
use crate::{Error, Invalid, Schema, Store};

/// What the layer knows about one entity.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) schema: Arc<Schema>,
    table_at: usize,
    entity_at: usize,
    pub(crate) table_name: TableName,
    /// In the table's region.
    pub(crate) store: Store,
    /// How long an item lives, where the schema or the environment says so once for all.
    ttl_millis: Option<i64>,
    /// The computed fields that the key is made of, in order.
    key_places: Vec<usize>,
    pub(crate) observer: Arc<Observer>,
    pub(crate) cache: EntityCache,
    /// The leases of its lifecycles, as they were seen.
    pub(crate) watched: Watched,
}

impl Core {
    pub(crate) fn new(
        schema: Arc<Schema>,
        (table_at, entity_at): (usize, usize),
        table_name: TableName,
        store: Store,
        ttl_millis: Option<i64>,
        shared: &Shared,
    ) -> Self {
        let table = &schema.tables[table_at];
        let entity = &table.entities[entity_at];
        let observer = Arc::new(Observer::new(&schema, entity, Arc::clone(&shared.sink)));
        let cache = EntityCache::new(&schema, entity, shared, Arc::clone(&observer));
        let in_key = entity.key_fields();
        let key_places =
            entity.order.iter().copied().filter(|&at| in_key.contains(&entity.fields[at].name)).collect();
        Self {
            table_at,
            entity_at,
            table_name,
            store,
            ttl_millis,
            key_places,
            observer,
            cache,
            watched: Watched::default(),
            schema,
        }
    }

    pub(crate) fn table(&self) -> &Table {
        &self.schema.tables[self.table_at]
    }

    pub(crate) fn entity(&self) -> &Entity {
        &self.table().entities[self.entity_at]
    }

    pub(crate) fn name(&self) -> &str {
        &self.entity().name
    }

    pub(crate) fn unix_now(&self) -> UnixTime {
        self.store.clock().now()
    }

    pub(crate) fn now(&self) -> Timestamp {
        timestamp(self.unix_now())
    }

    /// The key as it is stored, from the fields it is made of.
    pub(crate) fn key(&self, fields: &Fields) -> Result<Item, Error> {
        let (table, entity) = (self.table(), self.entity());
        let wrong = |cause| Error::Key { entity: entity.name.clone(), cause };
        let (partition, sort) = if self.key_places.is_empty() {
            entity.key(fields).map_err(wrong)?
        } else {
            let mut known = fields.clone();
            entity.compute_some(&mut known, self.now(), &self.key_places);
            // What is given, such as a key as it is stored, needs no inputs.
            known.extend(fields.clone());
            entity.key(&known).map_err(wrong)?
        };
        let mut key = Item::new();
        let sources = [
            (Some(&table.partition), Some(&entity.partition), Some(partition)),
            (table.sort.as_ref(), entity.sort.as_ref(), sort),
        ];
        for (attribute, source, value) in sources {
            let (Some(attribute), Some(source), Some(value)) = (attribute, source, value) else { continue };
            let stored = match source {
                KeySource::Template(_) => value.as_str().map(AttributeValue::from),
                // What is raw is of no type that a key could have.
                KeySource::Field(_) if matches!(value, Value::Raw(_)) => None,
                KeySource::Field(name) => {
                    entity.field(name).and_then(|field| self.schema.encode(&field.kind, &value))
                }
            };
            let stored = stored.ok_or_else(|| Error::Key {
                entity: entity.name.clone(),
                cause: larder_schema::BuildError::Missing(attribute.name.clone()),
            })?;
            key.insert(attribute.attribute.clone(), stored);
        }
        Ok(key)
    }

    /// What [`cache::identity`] says of a key, at once, with nothing made that is not needed for it. `None` where a key takes more
    /// than its templates, or cannot be made.
    pub(crate) fn identity_at_once(&self, key: &(impl Given + Clone)) -> Option<Vec<u8>> {
        if !self.key_places.is_empty() {
            return None;
        }
        let (table, entity) = (self.table(), self.entity());
        let parts =
            [(Some(&table.partition), Some(&entity.partition)), (table.sort.as_ref(), entity.sort.as_ref())];
        let mut texts = [(None, String::new()), (None, String::new())];
        for (text, (attribute, source)) in texts.iter_mut().zip(parts) {
            let (Some(attribute), Some(source)) = (attribute, source) else { continue };
            let KeySource::Template(template) = source else { return None };
            *text = (Some(&attribute.attribute), template.build_from(|name| key.field(name)).ok()?);
        }
        // As in an item: by name.
        texts.sort_by_key(|(name, _)| *name);
        let mut bytes = Vec::with_capacity(64);
        for (_, text) in texts.iter().filter(|(name, _)| name.is_some()) {
            cache::identity_part(&mut bytes, b'S', text.as_bytes());
        }
        Some(bytes)
    }

    /// The key alone of a stored item.
    pub(crate) fn key_of(&self, item: &Item) -> Item {
        let table = self.table();
        let names = std::iter::once(&table.partition).chain(table.sort.as_ref());
        names.filter_map(|name| Some((name.attribute.clone(), item.get(&name.attribute)?.clone()))).collect()
    }

    /// A key as people read it: `SHOP#example.com / META#`.
    pub(crate) fn key_text(&self, key: &Item) -> String {
        let table = self.table();
        let names = std::iter::once(&table.partition).chain(table.sort.as_ref());
        let texts: Vec<String> = names.filter_map(|name| key.get(&name.attribute)).map(value_text).collect();
        texts.join(" / ")
    }

    /// The given fields with their defaults, checked. What they break is refused, or written into the field
    /// that the schema names for it.
    pub(crate) fn checked(&self, mut fields: Fields) -> Result<Fields, Error> {
        let entity = self.entity();
        for field in entity.fields.iter().filter(|field| field.is_given()) {
            if let (false, Some(default)) = (fields.contains_key(&field.name), &field.checks.default) {
                fields.insert(field.name.clone(), default.clone());
            }
        }
        for (name, value) in &mut fields {
            if let Some(field) = entity.field(name) {
                self.schema.conform(&field.kind, value);
            }
        }
        let violations = self.schema.violations(entity, &fields);
        match &entity.policy.checks {
            CheckMode::Strict if violations.is_empty() => {}
            CheckMode::Strict => return Err(Invalid { entity: entity.name.clone(), violations }.into()),
            CheckMode::Record(into) => self.record_violations(&mut fields, violations, into)?,
        }
        Ok(fields)
    }

    /// Writes what a record breaks into the field for it. A record that lacks a field, whose set must have members and has
    /// none, or in which something is of another type that its key or an equation rests on, cannot be kept at all.
    fn record_violations(
        &self,
        fields: &mut Fields,
        violations: Vec<Violation>,
        into: &str,
    ) -> Result<(), Error> {
        let entity = self.entity();
        let fatal = |violation: &Violation| self.schema.refuses(self.table(), entity, violation);
        if violations.iter().any(fatal) {
            return Err(Invalid { entity: entity.name.clone(), violations }.into());
        }
        if violations.is_empty() {
            return Ok(());
        }
        let issue = |violation: Violation| {
            let message = format!("{}, and it is {}", violation.rule, violation.value);
            let pairs = [
                ("field".to_owned(), Value::Text(violation.attribute)),
                ("message".to_owned(), Value::Text(message)),
            ];
            Value::Map(pairs.into())
        };
        let mut issues = match fields.remove(into) {
            Some(Value::List(known)) => known,
            _ => Vec::new(),
        };
        for issue in violations.into_iter().map(issue) {
            // What was recorded once is found again.
            if !issues.contains(&issue) {
                issues.push(issue);
            }
        }
        fields.insert(into.to_owned(), Value::List(issues));
        Ok(())
    }

    /// The fields a key is made of, through equations.
    pub(crate) fn key_fields(&self) -> BTreeSet<String> {
        self.entity().key_fields()
    }

    /// The item of checked fields: equations worked out, TTL in place. A new one also has its first states and
    /// its first version; of one that is there already, fields `on create` are taken as they are given.
    pub(crate) fn item(&self, mut fields: Fields, now: Timestamp, creating: bool) -> Result<Item, Error> {
        let entity = self.entity();
        entity.compute(&mut fields, now, creating);
        let mut item = self
            .schema
            .write_item(self.table(), entity, &fields)
            .map_err(|cause| Error::Record { entity: entity.name.clone(), cause })?;
        for lifecycle in entity.lifecycles.iter().filter(|_| creating) {
            let first = lifecycle.states.first().and_then(|state| state.template.build(&fields).ok());
            if let Some(state) = first {
                item.insert(lifecycle.attribute.clone(), AttributeValue::S(state));
            }
        }
        self.limit(&mut item, &fields, UnixTime::from_millis(now.as_millisecond()));
        if creating && entity.policy.versions {
            item.insert(VERSION.to_owned(), AttributeValue::from(1));
        }
        Ok(item)
    }

    /// Gives an item its TTL.
    pub(crate) fn limit(&self, item: &mut Item, fields: &Fields, now: UnixTime) {
        if let Some(ends) = self.ends(fields, timestamp(now)) {
            freshness::stamp(self, item, ends, now);
        }
    }

    /// When a record written now ends, jitter aside.
    pub(crate) fn ends(&self, fields: &Fields, now: Timestamp) -> Option<UnixTime> {
        let after = |millis: i64| UnixTime::from_millis(now.as_millisecond().saturating_add(millis));
        match self.entity().ttl.as_ref()? {
            Ttl::After { .. } | Ttl::Param(_) => self.ttl_millis.map(after),
            Ttl::Value(expression) => match expression.evaluate(Scope { fields, now })? {
                Value::Duration(duration) => {
                    Some(after(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)))
                }
                moment => Some(UnixTime::from_millis(moment.as_instant()?.as_millisecond())),
            },
        }
    }

    /// How long an item lives when the schema says so once for all.
    pub(crate) fn ttl_millis(&self) -> Option<i64> {
        self.ttl_millis
    }

    /// Whether an item is past its time: `ttl < now`, in seconds, as DynamoDB has it. What holds no record at all,
    /// such as the memory of an absence, counts as past it.
    pub(crate) fn is_expired(&self, item: &Item, now: UnixTime) -> bool {
        item.contains(ABSENT) || self.expires(item).is_some_and(|ends| ends.seconds() < now.seconds())
    }

    /// The end of its life. An item that may be given stale is kept longer.
    pub(crate) fn expires(&self, item: &Item) -> Option<UnixTime> {
        self.table().ttl.as_ref()?;
        item.get(FRESH_UNTIL).map_or_else(|| self.removed(item), seconds)
    }

    /// When the store removes it.
    pub(crate) fn removed(&self, item: &Item) -> Option<UnixTime> {
        seconds(item.get(&self.table().ttl.as_ref()?.attribute)?)
    }

    /// The condition that there is an item, and that it has not expired.
    pub(crate) fn is_there(&self, now: UnixTime) -> Condition {
        let mut condition = Condition::Exists(Path::attribute(&self.table().partition.attribute));
        for name in self.ends_in() {
            let path = Path::attribute(name);
            let lasting = Condition::Compare {
                left: Operand::Path(path.clone()),
                comparator: Comparator::GreaterOrEqual,
                right: Operand::value(now.seconds()),
            };
            condition = and(condition, or(Condition::NotExists(path), lasting));
        }
        if self.has_markers() {
            condition = and(condition, Condition::NotExists(Path::attribute(ABSENT)));
        }
        condition
    }

    /// The condition that there is none, or an expired one.
    pub(crate) fn is_not_there(&self, now: UnixTime) -> Condition {
        let missing = Condition::NotExists(Path::attribute(&self.table().partition.attribute));
        let marker = self.has_markers().then(|| Condition::Exists(Path::attribute(ABSENT)));
        self.has_ended(now).into_iter().chain(marker).fold(missing, or)
    }

    /// The condition that there is an item whose time is over, where items have one.
    pub(crate) fn has_ended(&self, now: UnixTime) -> Option<Condition> {
        let over = self.ends_in().map(|name| Condition::Compare {
            left: Operand::Path(Path::attribute(name)),
            comparator: Comparator::Less,
            right: Operand::value(now.seconds()),
        });
        over.reduce(or)
    }

    /// The attributes that may say when an item ends.
    pub(crate) fn ends_in(&self) -> impl Iterator<Item = &str> {
        let policy = &self.entity().policy;
        let outlives = policy.stale_millis.is_some() || policy.grace_millis.is_some();
        let ttl = self.table().ttl.as_ref();
        ttl.map(|ttl| ttl.attribute.as_str()).into_iter().chain(ttl.filter(|_| outlives).map(|_| FRESH_UNTIL))
    }

    /// Whether there may be items that hold no record.
    fn has_markers(&self) -> bool {
        let policy = &self.entity().policy;
        policy.negative_millis.is_some() || policy.flight_millis.is_some()
    }

    /// The fields of an item, without those whose own time is over.
    pub(crate) fn fields(&self, item: &Item, now: UnixTime) -> Result<Fields, Error> {
        let entity = self.entity();
        let read = self.schema.read_item(self.table(), entity, item);
        let mut fields =
            read.map_err(|cause| Error::corrupt(&entity.name, &self.key_text(&self.key_of(item)), &cause))?;
        let ends: Vec<_> = own_ends(entity, &fields).collect();
        for (name, end) in ends {
            if end.is_none_or(|end| end < now) {
                fields.remove(name);
            }
        }
        Ok(fields)
    }

    /// Whether all that each record has is there. What an equation gives is worked out where another program left it out;
    /// what that program alone knew cannot be read by anyone.
    pub(crate) fn complete(&self, fields: &mut Fields, item: &Item) -> Result<(), Error> {
        let entity = self.entity();
        entity.add_empty_sets(fields, None);
        let is_needed = |field: &larder_schema::Field| {
            field.is_stored() && field.checks.default.is_none() && !entity.may_be_missing(field)
        };
        for &at in &entity.order {
            let field = &entity.fields[at];
            let Some(equation) = field.equation.as_ref().filter(|_| is_needed(field)) else { continue };
            let is_known = |name: &str| {
                fields.contains_key(name) || entity.field(name).is_some_and(larder_schema::Field::is_stored)
            };
            let lasts = !field.on_create && !equation.mentions_now();
            if !fields.contains_key(&field.name) && lasts && equation.fields().into_iter().all(is_known) {
                entity.compute_some(fields, self.now(), &[at]);
            }
        }
        match entity.fields.iter().find(|field| is_needed(field) && !fields.contains_key(&field.name)) {
            None => Ok(()),
            Some(field) => {
                let cause = larder_schema::ItemError::Missing { attribute: field.attribute.clone() };
                Err(Error::corrupt(&entity.name, &self.key_text(&self.key_of(item)), &cause))
            }
        }
    }

    /// When the first of the fields with a time of their own ends, of those that have not.
    pub(crate) fn fields_end(&self, item: &Item, now: UnixTime) -> Option<UnixTime> {
        let entity = self.entity();
        if entity.fields.iter().all(|field| field.checks.valid.is_none()) {
            return None;
        }
        let fields = self.schema.read_item(self.table(), entity, item).ok()?;
        own_ends(entity, &fields).filter_map(|(_, end)| end).filter(|end| *end >= now).min()
    }

    /// Whether an input can be read out of a stored item.
    pub(crate) fn is_recoverable(&self, name: &str) -> bool {
        self.entity().is_recoverable(name)
    }

    /// The version in an item.
    pub(crate) fn version(&self, item: &Item) -> Option<i64> {
        item.get(VERSION)?.as_number().and_then(Number::to_i64)
    }
}

fn seconds(value: &AttributeValue) -> Option<UnixTime> {
    value.as_number()?.to_i64().map(UnixTime::from_seconds)
}

pub(crate) fn timestamp(time: UnixTime) -> Timestamp {
    Timestamp::from_millisecond(time.millis()).unwrap_or(Timestamp::MAX)
}

pub(crate) fn and(a: Condition, b: Condition) -> Condition {
    Condition::And(Box::new(a), Box::new(b))
}

pub(crate) fn or(a: Condition, b: Condition) -> Condition {
    Condition::Or(Box::new(a), Box::new(b))
}

/// The fields that end on their own, and when; nobody knows where the moment they count from is missing.
fn own_ends<'a>(entity: &'a Entity, fields: &Fields) -> impl Iterator<Item = (&'a str, Option<UnixTime>)> {
    entity.fields.iter().filter_map(move |field| {
        let (millis, from) = field.checks.valid.as_ref()?;
        let since = fields.get(from).and_then(Value::as_instant);
        let end = since.map(|since| UnixTime::from_millis(since.as_millisecond().saturating_add(*millis)));
        Some((&*field.name, end))
    })
}

fn value_text(value: &AttributeValue) -> String {
    match value {
        AttributeValue::S(text) => text.clone(),
        AttributeValue::N(number) => number.to_string(),
        AttributeValue::B(bytes) => format!("{} bytes", bytes.len()),
        _ => "?".to_owned(),
    }
}
