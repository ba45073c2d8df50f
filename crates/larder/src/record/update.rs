//! Partial writes: some fields change, and every equation still holds.
//!
//! One request, when all that an affected equation needs is given or in the key. Otherwise the item is
//! read, the equations are worked out, and the write happens under the condition that what they rest on has
//! not changed; who loses that race works them out again.
//!
//! Transitions of lifecycles are partial writes with a condition of their own.

use std::collections::{BTreeMap, BTreeSet};
use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;

use larder_engine::ops::{ReturnValues, UpdateItem, WriteOptions};
use larder_expr::{Comparator, Condition, Operand, SetOperand, SetValue};
use larder_model::{AttributeValue, Item, Number, Path};
use larder_schema::schema::{CheckMode, OversizeStep, Role, Ttl};
use larder_schema::{Expr, Field, Fields, Type, Value, Violation};

use super::{RACES_MAX, mentions_now, unchanged};
use crate::entity::{Core, VERSION, and, or};
use crate::shelf::{self, FieldType, Record};
use crate::{Error, Invalid, oversize, store};

/// Changes to some fields of a record. Awaiting it makes them, and gives the record as it is then.
#[must_use = "an update happens when it is awaited"]
pub struct Update<R> {
    core: Arc<Core>,
    key: Result<Item, Error>,
    changes: Changes,
    record: PhantomData<fn() -> R>,
}

impl<R> std::fmt::Debug for Update<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Update").field("entity", &self.core.name()).finish_non_exhaustive()
    }
}

impl<R: Record> Update<R> {
    pub(crate) fn new(core: Arc<Core>, key: Result<Item, Error>) -> Self {
        Self { core, key, changes: Changes::default(), record: PhantomData }
    }

    /// Sets a field.
    pub fn set(mut self, field: &str, value: impl FieldType) -> Self {
        self.changes.set.insert(field.to_owned(), value.to_value());
        self
    }

    /// Sets a field to a value of the schema's own kind.
    pub fn set_value(mut self, field: &str, value: Value) -> Self {
        self.changes.set.insert(field.to_owned(), value);
        self
    }

    /// Adds to a number, atomically. One that is not there counts as its default, or zero.
    pub fn add(mut self, field: &str, number: impl Into<Number>) -> Self {
        self.changes.add.insert(field.to_owned(), number.into());
        self
    }

    /// Appends to a list, atomically.
    pub fn append<T: FieldType>(mut self, field: &str, values: Vec<T>) -> Self {
        let values = values.into_iter().map(T::to_value);
        self.changes.append.entry(field.to_owned()).or_default().extend(values);
        self
    }

    /// Removes an optional field.
    pub fn clear(mut self, field: &str) -> Self {
        self.changes.remove.insert(field.to_owned());
        self
    }

    /// Only if the record still has this version.
    pub fn if_version(mut self, version: i64) -> Self {
        self.changes.condition = Some(Condition::Compare {
            left: Operand::Path(Path::attribute(VERSION)),
            comparator: Comparator::Equal,
            right: Operand::Value(AttributeValue::from(version)),
        });
        self
    }

    /// What a transaction makes a step of.
    pub(crate) fn into_parts(self) -> (Arc<Core>, Result<Item, Error>, Changes) {
        (self.core, self.key, self.changes)
    }

    /// Makes the changes.
    pub async fn send(self) -> Result<R, Error> {
        let key = self.key?;
        let item = self.core.change(&key, self.changes).await.map_err(|refused| match refused {
            Refused::Missing => self.core.missing(&key),
            Refused::Condition(_) => self.core.conflict(&key, "it has a newer version"),
            Refused::Failed(error) => error,
        })?;
        shelf::read(&self.core, &item, self.core.unix_now())
    }
}

impl<R: Record> IntoFuture for Update<R> {
    type Output = Result<R, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}

/// A partial write. Fields are by their names in the schema, attributes by their stored names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changes {
    pub(crate) set: Fields,
    pub(crate) add: BTreeMap<String, Number>,
    pub(crate) append: BTreeMap<String, Vec<Value>>,
    pub(crate) remove: BTreeSet<String>,
    /// Lifecycle → the state it goes to.
    pub(crate) states: BTreeMap<String, String>,
    /// Attributes of the layer itself: set, or removed.
    pub(crate) attributes: Vec<(String, Option<AttributeValue>)>,
    /// Counters of the layer itself.
    pub(crate) counts: Vec<(String, i64)>,
    pub(crate) condition: Option<Condition>,
}

/// Why a partial write did not happen.
#[derive(Debug)]
pub(crate) enum Refused {
    /// There is nothing to change.
    Missing,
    /// The caller's condition does not hold for the item as it is.
    Condition(Box<Item>),
    Failed(Error),
}

impl<E: Into<Error>> From<E> for Refused {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// What a change makes of an item, and under which condition.
struct Rewrite {
    update: larder_expr::Update,
    condition: Condition,
}

impl Core {
    /// Makes a partial write, and gives the item as it is then.
    pub(crate) async fn change(&self, key: &Item, changes: Changes) -> Result<Item, Refused> {
        self.check_changes(&changes)?;
        let scope = self.scope(&changes);
        if self.is_direct(key, &changes, &scope)? {
            let known = self.schema.read_item(self.table(), self.entity(), key).unwrap_or_default();
            let rewrite = self.rewrite(&changes, &scope, known, None)?;
            return match self.send_update(key, rewrite).await {
                Ok(item) => Ok(item),
                Err(Error::Store(store::Error::Condition { item })) => Err(self.refusal(key, item).await?),
                Err(error) => Err(error.into()),
            };
        }
        let mut current = self.current(key, None).await?;
        for _ in 0..RACES_MAX {
            let Some(item) = current.take() else { return Err(Refused::Missing) };
            let asked = changes.condition.as_ref();
            if !asked.is_none_or(|asked| asked.holds(Some(&item)).unwrap_or(false)) {
                return Err(Refused::Condition(Box::new(item)));
            }
            let fields = self.fields_of(&item)?;
            let rewrite = self.rewrite(&changes, &scope, fields, Some(&item))?;
            let written = match oversize::guard(&item) {
                None => self.send_update(key, rewrite).await,
                Some(guard) => self.rewrite_whole(key, &item, rewrite, guard).await,
            };
            match written {
                Ok(item) => return Ok(item),
                Err(Error::Store(store::Error::Condition { item })) => {
                    current = self.current(key, item).await?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(self.conflict(key, "it never stayed the same long enough to be written").into())
    }

    /// What is there, if it is known from a failed condition it need not be read again.
    async fn current(&self, key: &Item, known: Option<Box<Item>>) -> Result<Option<Item>, Error> {
        match known {
            Some(item) if oversize::guard(&item).is_none() => {
                Ok(Some(*item).filter(|item| !self.is_expired(item, self.unix_now())))
            }
            _ => self.load(key, true).await,
        }
    }

    async fn refusal(&self, key: &Item, item: Option<Box<Item>>) -> Result<Refused, Error> {
        Ok(match self.current(key, item).await? {
            Some(item) => Refused::Condition(Box::new(item)),
            None => Refused::Missing,
        })
    }

    async fn send_update(&self, key: &Item, rewrite: Rewrite) -> Result<Item, Error> {
        let request = UpdateItem {
            table: self.table_name.clone(),
            key: key.clone(),
            update: Some(rewrite.update),
            options: WriteOptions {
                condition: Some(rewrite.condition),
                return_values: ReturnValues::AllNew,
                return_old_on_failure: true,
                ..WriteOptions::default()
            },
        };
        let updated = self.store.update_item(request).await;
        self.cache.wrote(key, updated.is_ok());
        updated?.ok_or_else(|| self.missing(key))
    }

    /// An item that is kept in parts or packed is written anew.
    async fn rewrite_whole(
        &self,
        key: &Item,
        whole: &Item,
        rewrite: Rewrite,
        guard: Condition,
    ) -> Result<Item, Error> {
        let applied = rewrite.update.apply(Some(whole), key).map_err(|error| Error::Corrupt {
            entity: self.name().to_owned(),
            key: self.key_text(key),
            cause: error.to_string(),
        })?;
        let item = oversize::without_marks(applied);
        self.save(item.clone(), Some(guard)).await?;
        Ok(item)
    }

    /// Everything that is wrong with the changes themselves.
    fn check_changes(&self, changes: &Changes) -> Result<(), Error> {
        let entity = self.entity();
        let in_key = self.key_fields();
        let mut violations = Vec::new();
        let mut broken = |field: &str, rule: &str, value: &str| {
            violations.push(Violation {
                path: format!("{}.{field}", entity.name),
                rule: rule.to_owned(),
                value: value.to_owned(),
            });
        };
        let names = changes.set.keys().chain(changes.add.keys()).chain(changes.append.keys());
        for name in names.chain(&changes.remove) {
            match entity.field(name) {
                None => broken(name, "there is no such field", "given"),
                Some(_) if in_key.contains(name) => broken(name, "is part of the key", "changed"),
                Some(field) if !field.is_given() => broken(name, "is computed", "given"),
                Some(field) => {
                    let number = matches!(field.kind, Type::Int | Type::Float | Type::Decimal);
                    if changes.add.contains_key(name) && !number {
                        broken(name, "must be a number to be added to", &field.kind.to_string());
                    }
                    if changes.append.contains_key(name) && !matches!(field.kind, Type::List(_)) {
                        broken(name, "must be a list to be appended to", &field.kind.to_string());
                    }
                    if changes.remove.contains(name) && !field.optional {
                        broken(name, "is required", "removed");
                    }
                }
            }
        }
        if entity.policy.checks == CheckMode::Strict {
            violations.extend(self.violations_of(&changes.set, changes.set.keys()));
            let appended =
                changes.append.iter().map(|(name, values)| (name.clone(), Value::List(values.clone())));
            // The length is that of the whole list, which a condition looks at.
            let members = self.violations_of(&appended.collect(), changes.append.keys());
            violations.extend(members.into_iter().filter(|violation| violation.path.contains('[')));
        }
        if violations.is_empty() {
            Ok(())
        } else {
            Err(Invalid { entity: entity.name.clone(), violations }.into())
        }
    }

    /// What some of the fields break.
    fn violations_of<'a>(&self, fields: &Fields, names: impl Iterator<Item = &'a String>) -> Vec<Violation> {
        let names: BTreeSet<&String> = names.collect();
        let mut violations = self.schema.violations(self.entity(), fields);
        violations.retain(|violation| {
            let field = violation.path.split(['.', '[']).nth(1).unwrap_or_default();
            names.iter().any(|name| *name == field)
        });
        violations
    }

    fn scope(&self, changes: &Changes) -> Affected {
        let entity = self.entity();
        let mut names: BTreeSet<String> = changes.set.keys().chain(&changes.remove).cloned().collect();
        names.extend(changes.add.keys().chain(changes.append.keys()).cloned());
        let mut affected = Affected::default();
        for &at in &entity.order {
            let field = &entity.fields[at];
            let Some(equation) = &field.equation else { continue };
            let touched = equation.fields().iter().any(|name| names.contains(*name));
            if !field.on_create && (touched || mentions_now(equation)) {
                names.insert(field.name.clone());
                affected.inputs.extend(equation.fields().into_iter().map(str::to_owned));
                affected.computed.push(at);
            }
        }
        for lifecycle in &entity.lifecycles {
            let holes = |state: &larder_schema::schema::State| -> Vec<String> {
                state.template.holes().map(|hole| hole.field.clone()).collect()
            };
            match changes.states.get(&lifecycle.name) {
                Some(to) => {
                    let to = lifecycle.states.iter().find(|state| state.name == *to);
                    affected.inputs.extend(to.map(holes).unwrap_or_default());
                }
                None if lifecycle.states.iter().flat_map(holes).any(|name| names.contains(&name)) => {
                    affected.restated.push(lifecycle.name.clone());
                }
                None => {}
            }
        }
        if let Some(Ttl::Value(expression)) = &entity.ttl
            && expression.fields().iter().any(|name| names.contains(*name))
        {
            affected.inputs.extend(expression.fields().into_iter().map(str::to_owned));
            affected.ttl = true;
        }
        for at in &affected.computed {
            affected.inputs.remove(&entity.fields[*at].name);
        }
        affected
    }

    /// Whether everything that has to be worked out can be, without looking at the item.
    fn is_direct(&self, key: &Item, changes: &Changes, affected: &Affected) -> Result<bool, Error> {
        let entity = self.entity();
        let policy = &entity.policy;
        let steps = [Some(policy.oversize.first), policy.oversize.otherwise];
        let packed = policy.compress_over.is_some()
            || steps
                .iter()
                .flatten()
                .any(|step| matches!(step, OversizeStep::Split | OversizeStep::Compress));
        if packed || policy.checks != CheckMode::Strict || !affected.restated.is_empty() {
            return Ok(false);
        }
        let in_key = self.schema.read_item(self.table(), entity, key).unwrap_or_default();
        let mut all_known = true;
        for name in &affected.inputs {
            if changes.set.contains_key(name) || changes.remove.contains(name) || in_key.contains_key(name) {
                continue;
            }
            if let Some(field) = entity.field(name)
                && field.role == Role::Input
                && !self.is_recoverable(name)
            {
                // Nobody can know it but the caller.
                if !field.optional {
                    let violation = Violation {
                        path: format!("{}.{name}", entity.name),
                        rule: "is not stored, and what is changed depends on it".to_owned(),
                        value: "missing".to_owned(),
                    };
                    return Err(Invalid { entity: entity.name.clone(), violations: vec![violation] }.into());
                }
                continue;
            }
            all_known = false;
        }
        Ok(all_known)
    }

    /// All fields of an item, those whose own time is over included.
    fn fields_of(&self, item: &Item) -> Result<Fields, Error> {
        let read = self.schema.read_item(self.table(), self.entity(), item);
        read.map_err(|cause| Error::corrupt(self.name(), &self.key_text(&self.key_of(item)), &cause))
    }

    /// The update and its condition, from fields as they were.
    fn rewrite(
        &self,
        changes: &Changes,
        affected: &Affected,
        mut fields: Fields,
        item: Option<&Item>,
    ) -> Result<Rewrite, Error> {
        let entity = self.entity();
        let (now, unix_now) = (self.now(), self.unix_now());
        let mut update = larder_expr::Update::default();
        let mut conditions = vec![self.is_there(unix_now)];
        conditions.extend(changes.condition.clone());

        fields.extend(changes.set.clone());
        for name in &changes.remove {
            fields.remove(name);
        }
        for (name, number) in &changes.add {
            let Some(field) = entity.field(name) else { continue };
            let start = field.checks.default.clone().unwrap_or(Value::from(0));
            let before = fields.get(name).cloned().unwrap_or_else(|| start.clone());
            if affected.inputs.contains(name) || item.is_some() {
                fields.insert(name.clone(), sum(&before, number));
            }
            if !affected.inputs.contains(name) {
                conditions.extend(room_for(field, number));
                let path = Path::attribute(&field.attribute);
                let start = self.encoded(field, &start)?;
                let old = SetOperand::IfNotExists(path.clone(), Box::new(SetOperand::Value(start)));
                update.set.push((path, SetValue::Plus(old, SetOperand::Value(AttributeValue::N(*number)))));
            }
        }
        for (name, values) in &changes.append {
            let Some(field) = entity.field(name) else { continue };
            let added = self.encoded(field, &Value::List(values.clone()))?;
            if affected.inputs.contains(name) || item.is_some() {
                let mut list = match fields.remove(name) {
                    Some(Value::List(list)) => list,
                    _ => Vec::new(),
                };
                list.extend(values.clone());
                fields.insert(name.clone(), Value::List(list));
            }
            if !affected.inputs.contains(name) {
                let path = Path::attribute(&field.attribute);
                conditions.extend(room_in_list(field, values.len()));
                let empty = Box::new(SetOperand::Value(AttributeValue::L(Vec::new())));
                let old = SetOperand::IfNotExists(path.clone(), empty);
                let whole = SetOperand::ListAppend(Box::new(old), Box::new(SetOperand::Value(added)));
                update.set.push((path, SetValue::Is(whole)));
            }
        }
        let mut written: BTreeSet<String> = changes.set.keys().chain(&changes.remove).cloned().collect();
        let grown = changes.add.keys().chain(changes.append.keys());
        written.extend(grown.filter(|name| affected.inputs.contains(*name)).cloned());
        if item.is_some() {
            self.recheck(&mut fields, changes, &mut written)?;
        }

        if item.is_some() {
            // What is neither stored nor in the key, but follows from what is.
            let mut all = fields.clone();
            entity.compute(&mut all, now, false);
            let unstored = |name: &String| entity.field(name).is_some_and(|field| field.role == Role::Let);
            for (name, value) in all.into_iter().filter(|(name, _)| unstored(name)) {
                fields.entry(name).or_insert(value);
            }
        }
        entity.compute_some(&mut fields, now, &affected.computed);
        written.extend(affected.computed.iter().map(|at| entity.fields[*at].name.clone()));
        for field in entity.fields.iter().filter(|field| field.is_stored() && written.contains(&field.name)) {
            self.write(&mut update, field, fields.get(&field.name))?;
        }
        for lifecycle in &entity.lifecycles {
            let path = Path::attribute(&lifecycle.attribute);
            let state = match changes.states.get(&lifecycle.name) {
                Some(to) => lifecycle.states.iter().find(|state| state.name == *to),
                None if affected.restated.contains(&lifecycle.name) => {
                    item.and_then(|item| lifecycle.state_of(item))
                }
                None => None,
            };
            if let Some(state) = state {
                let text = state.template.build(&fields);
                let text = text.map_err(|cause| Error::Key { entity: entity.name.clone(), cause })?;
                update.set.push((path, SetValue::Is(SetOperand::Value(AttributeValue::S(text)))));
                if let (Some(item), false) = (item, changes.states.contains_key(&lifecycle.name)) {
                    conditions.push(unchanged(&lifecycle.attribute, item));
                }
            }
        }
        for (name, value) in &changes.attributes {
            let path = Path::attribute(name);
            match value {
                Some(value) => update.set.push((path, SetValue::Is(SetOperand::Value(value.clone())))),
                None => update.remove.push(path),
            }
        }
        let version = entity.policy.versions.then(|| (VERSION.to_owned(), 1));
        for (name, count) in changes.counts.iter().cloned().chain(version) {
            let path = Path::attribute(&name);
            let zero = Box::new(SetOperand::Value(AttributeValue::from(0)));
            let old = SetOperand::IfNotExists(path.clone(), zero);
            update.set.push((path, SetValue::Plus(old, SetOperand::Value(AttributeValue::from(count)))));
        }
        if let (true, Some(ttl), Some(ends)) = (affected.ttl, &self.table().ttl, self.ends(&fields, now)) {
            let seconds = SetOperand::Value(AttributeValue::from(ends.seconds()));
            update.set.push((Path::attribute(&ttl.attribute), SetValue::Is(seconds)));
        }
        if let Some(item) = item {
            conditions.extend(self.carriers(affected).iter().map(|name| unchanged(name, item)));
        }
        let condition = conditions.into_iter().reduce(and).expect("there is at least one");
        Ok(Rewrite { update, condition })
    }

    /// Checks the record as it will be. Where the schema says so, what it breaks is recorded.
    fn recheck(
        &self,
        fields: &mut Fields,
        changes: &Changes,
        written: &mut BTreeSet<String>,
    ) -> Result<(), Error> {
        let entity = self.entity();
        match &entity.policy.checks {
            CheckMode::Strict => {
                let names = changes.add.keys().chain(changes.append.keys());
                let violations = self.violations_of(fields, names);
                if !violations.is_empty() {
                    return Err(Invalid { entity: entity.name.clone(), violations }.into());
                }
            }
            CheckMode::Record(into) => {
                let given = |name: &String| entity.field(name).is_some_and(Field::is_given);
                let mut draft: Fields = fields
                    .iter()
                    .filter(|(name, _)| given(name))
                    .map(|(n, v)| (n.clone(), v.clone()))
                    .collect();
                if !changes.set.contains_key(into) {
                    draft.remove(into);
                }
                match self.checked(draft)?.remove(into) {
                    Some(found) => fields.insert(into.clone(), found),
                    None => fields.remove(into),
                };
                written.insert(into.clone());
            }
        }
        Ok(())
    }

    fn write(
        &self,
        update: &mut larder_expr::Update,
        field: &Field,
        value: Option<&Value>,
    ) -> Result<(), Error> {
        let path = Path::attribute(&field.attribute);
        match value {
            Some(value) => {
                let stored = SetOperand::Value(self.encoded(field, value)?);
                update.set.push((path, SetValue::Is(stored)));
            }
            None => update.remove.push(path),
        }
        Ok(())
    }

    pub(crate) fn encoded(&self, field: &Field, value: &Value) -> Result<AttributeValue, Error> {
        self.schema.encode(&field.kind, value).ok_or_else(|| Error::Record {
            entity: self.name().to_owned(),
            cause: larder_schema::RecordError::Value {
                field: field.name.clone(),
                wanted: field.kind.to_string(),
            },
        })
    }

    /// The stored attributes that what was worked out rests on.
    fn carriers(&self, affected: &Affected) -> BTreeSet<String> {
        let entity = self.entity();
        let carries = |field: &Field, name: &str| {
            let in_template = match &field.equation {
                Some(Expr::Template(template)) => template.holes().any(|hole| hole.field == name),
                _ => false,
            };
            field.is_stored() && (field.name == name || in_template)
        };
        let inputs = affected.inputs.iter();
        inputs
            .flat_map(|name| entity.fields.iter().filter(move |field| carries(field, name)))
            .map(|field| field.attribute.clone())
            .collect()
    }
}

/// A partial write that somebody else sends.
#[derive(Debug)]
pub(crate) enum Planned {
    Update {
        update: larder_expr::Update,
        condition: Condition,
        /// The condition rests on what was read.
        raced: bool,
    },
    /// What is kept in parts or packed is written anew.
    Whole { item: Item, condition: Condition },
}

impl Core {
    /// What a partial write would send, as things are now.
    pub(crate) async fn planned_change(&self, key: &Item, changes: &Changes) -> Result<Planned, Refused> {
        self.check_changes(changes)?;
        let scope = self.scope(changes);
        if self.is_direct(key, changes, &scope)? {
            let known = self.schema.read_item(self.table(), self.entity(), key).unwrap_or_default();
            let Rewrite { update, condition } = self.rewrite(changes, &scope, known, None)?;
            return Ok(Planned::Update { update, condition, raced: false });
        }
        let Some(item) = self.current(key, None).await? else { return Err(Refused::Missing) };
        let asked = changes.condition.as_ref();
        if !asked.is_none_or(|asked| asked.holds(Some(&item)).unwrap_or(false)) {
            return Err(Refused::Condition(Box::new(item)));
        }
        let rewrite = self.rewrite(changes, &scope, self.fields_of(&item)?, Some(&item))?;
        let Some(guard) = oversize::guard(&item) else {
            return Ok(Planned::Update { update: rewrite.update, condition: rewrite.condition, raced: true });
        };
        let applied = rewrite.update.apply(Some(&item), key).map_err(|error| Error::Corrupt {
            entity: self.name().to_owned(),
            key: self.key_text(key),
            cause: error.to_string(),
        })?;
        Ok(Planned::Whole { item: oversize::without_marks(applied), condition: guard })
    }
}

/// What a change has consequences for.
#[derive(Default)]
struct Affected {
    /// Computed fields, by place, in order.
    computed: Vec<usize>,
    /// What has to be known to work them out, other than each other.
    inputs: BTreeSet<String>,
    /// Lifecycles whose state is written with something that changes.
    restated: Vec<String>,
    ttl: bool,
}

fn sum(before: &Value, number: &Number) -> Value {
    match before {
        Value::Number(before) => before.checked_add(*number).map_or(Value::Number(*before), Value::Number),
        Value::Float(before) => {
            let added: f64 = number.to_string().parse().unwrap_or(0.0);
            Value::Float(before + added)
        }
        other => other.clone(),
    }
}

/// The condition that a number stays in its range when this is added to it.
fn room_for(field: &Field, number: &Number) -> Option<Condition> {
    let range = field.checks.range?;
    let path = Path::attribute(&field.attribute);
    let growing = *number >= Number::from(0);
    let (limit, comparator) = match (growing, range.max_included) {
        (true, true) => (range.max?, Comparator::LessOrEqual),
        (true, false) => (range.max?, Comparator::Less),
        (false, _) => (range.min?, Comparator::GreaterOrEqual),
    };
    let limit = limit.checked_sub(*number).ok()?;
    let fits = Condition::Compare {
        left: Operand::Path(path.clone()),
        comparator,
        right: Operand::Value(AttributeValue::N(limit)),
    };
    Some(or(Condition::NotExists(path), fits))
}

/// The condition that a list has room for so many more.
fn room_in_list(field: &Field, more: usize) -> Option<Condition> {
    let max = field.checks.len?.1?;
    let path = Path::attribute(&field.attribute);
    let room = i64::try_from(max.checked_sub(more)?).ok()?;
    let fits = Condition::Compare {
        left: Operand::Size(path.clone()),
        comparator: Comparator::LessOrEqual,
        right: Operand::Value(AttributeValue::from(room)),
    };
    Some(or(Condition::NotExists(path), fits))
}
