//! The records of one entity, for Python.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use larder::{
    Collection, Deleted, Draft, Entries, Entry, Fields, Given, Group, Look, Query, Schema, Update, Value, Why,
};
use larder_schema::Argument;
use larder_schema::schema::{Entity, Table};
use pyo3::exceptions::{PyKeyError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use crate::error::{self, Failure};
use crate::kept::{self, How, Meta, part_out, record, record_out};
use crate::lifecycle::{self, Claims};
use crate::load::{self, Loader, Read, key_arguments, known};
use crate::run::{self, Caller, Own, Reply};
use crate::system::{Handle, Slot};
use crate::value;

type Loop<'py> = Option<Bound<'py, PyAny>>;
type Answer<'py> = PyResult<Bound<'py, PyAny>>;

#[pyclass(frozen, module = "larder._native")]
pub(crate) struct Shelf {
    handle: Arc<Handle>,
    entity: Arc<str>,
    /// The one field that a source gives, if it is one.
    value: Option<Arc<str>>,
    in_time: bool,
}

/// A record to write: its fields, and what was read if it was.
pub(crate) struct Changed {
    fields: Fields,
    read: kept::Read,
}

impl Given for Changed {
    fn into_fields(self) -> Fields {
        self.fields
    }
}

impl Draft<Entry> for Changed {
    fn version(&self) -> Option<i64> {
        self.read.version
    }

    fn is_part(&self) -> bool {
        self.read.is_part
    }
}

/// A draft of a dict. Of what was read before, what is worked out is worked out again.
pub(crate) fn draft(
    schema: &Schema,
    entity: &Entity,
    fields: &Bound<'_, PyAny>,
    read: Option<kept::Read>,
) -> PyResult<Changed> {
    let mut fields = value::fields_in(schema, entity, fields)?;
    if read.is_some() {
        fields.retain(|name, _| entity.field(name).is_none_or(larder_schema::Field::is_given));
    }
    Ok(Changed { fields, read: read.unwrap_or_default() })
}

pub(crate) fn entity_of<'a>(
    py: Python<'_>,
    system: &'a larder::System,
    name: &str,
) -> PyResult<(larder::Shelf<Entry>, &'a Entity)> {
    let schema = system.schema();
    match (system.entries(name), schema.entity(name)) {
        (Some(shelf), Some((_, entity))) => Ok((shelf, entity)),
        _ => {
            let entities = schema.tables.iter().flat_map(|table| &table.entities);
            let known: Vec<&str> = entities.map(|entity| entity.name.as_str()).collect();
            Err(unknown(py, &schema.system, "entity", name, &known))
        }
    }
}

pub(crate) fn unknown(_py: Python<'_>, owner: &str, what: &str, name: &str, known: &[&str]) -> PyErr {
    let hint = match larder_schema::closest(name, known) {
        Some(close) => format!("did you mean `{close}`?"),
        None if known.is_empty() => "it has none".to_owned(),
        None => format!("there are {}", known.join(", ")),
    };
    PyKeyError::new_err(format!("{owner} has no {what} `{name}`; {hint}"))
}

pub(crate) fn collection(
    py: Python<'_>,
    system: &larder::System,
    name: &str,
) -> PyResult<Collection<Entries>> {
    system.collection(name).ok_or_else(|| {
        let schema = system.schema();
        let collections = schema.tables.iter().flat_map(|table| &table.collections);
        let known: Vec<&str> = collections.map(|collection| collection.name.as_str()).collect();
        unknown(py, &schema.system, "collection", name, &known)
    })
}

/// The members of a collection: (entity, fields, meta) each.
pub(crate) fn members_in(schema: &Schema, given: &Bound<'_, PyAny>) -> PyResult<Vec<(String, Fields)>> {
    let mut members = Vec::new();
    for member in given.try_iter()? {
        let (name, fields, meta): (String, Bound<'_, PyAny>, Bound<'_, PyAny>) = member?.extract()?;
        let Some((_, entity)) = schema.entity(&name) else {
            return Err(PyKeyError::new_err(format!("{} has no entity `{name}`", schema.system)));
        };
        let read = meta.cast::<Meta>().ok().map(|meta| meta.get().read());
        if read.is_some_and(|read| read.is_part) {
            let message = format!("this {name} is the part that an index shows: read it by its key");
            return Err(error::raise(given.py(), "not_allowed", &message));
        }
        members.push((name, draft(schema, entity, &fields, read)?.fields));
    }
    Ok(members)
}

/// The members of a collection as a list of (entity, record).
pub(crate) fn entries(system: &larder::System, entries: Entries, how: How) -> Reply {
    let system = system.clone();
    Box::new(move |py| {
        let out = PyList::empty(py);
        for (entity, entry) in &entries.0 {
            out.append((entity, record_out(py, &system, entity, entry, how.clone())?))?;
        }
        Ok(out.into_any())
    })
}

/// The fields of the partition that the members of a collection share.
pub(crate) fn partition(schema: &Schema, name: &str) -> Vec<Argument> {
    let found = schema.tables.iter().find_map(|table| {
        let collection = table.collections.iter().find(|collection| collection.name == name)?;
        let entity = table.entities.iter().find(|entity| collection.members.contains(&entity.name))?;
        entity.access(table, None)
    });
    found.map(|access| access.arguments).unwrap_or_default()
}

/// Whether the source of an entity has a timeout.
fn is_timed(schema: &Schema, entity: &Entity) -> bool {
    let source = entity.source.as_ref();
    let source = source.and_then(|name| schema.sources.iter().find(|source| source.name == *name));
    source.is_some_and(|source| source.timeout_millis.is_some())
}

pub(crate) fn fetch_collection<'py>(
    py: Python<'py>,
    system: &larder::System,
    name: &str,
    key: Fields,
    load: Bound<'py, PyAny>,
    event_loop: Loop<'py>,
) -> Answer<'py> {
    let collection = collection(py, system, name)?;
    let caller = Caller::new(event_loop);
    let (schema, on) = (system.clone(), system.clone());
    let read: Read<Vec<(String, Fields)>> = Arc::new(move |got| {
        let helper = error::helper(got.py(), "larder._load")?;
        members_in(schema.schema(), &helper.call_method1("members", (got,))?)
    });
    let lead = system.schema().entity(collection.lead());
    let in_time = lead.is_some_and(|(_, lead)| is_timed(system.schema(), lead));
    let loader = Loader::new(py, &caller, load, in_time, read)?;
    let (own, arguments) = (loader.function(), system.clone());
    let names = Arc::new(partition(system.schema(), name));
    caller.look(py, async move {
        let asked = key.clone();
        let fetched = collection.fetch(key, move |_| {
            let (asked, system, names) = (asked.clone(), arguments.clone(), Arc::clone(&names));
            loader.call(Box::new(move |py| {
                let value = |argument: &Argument| match asked.get(&argument.name) {
                    Some(given) => value::value_out(py, system.schema(), &argument.kind, given),
                    None => Ok(py.None().into_bound(py)),
                };
                PyTuple::new(py, names.iter().map(value).collect::<PyResult<Vec<_>>>()?)
            }))
        });
        match fetched.await {
            Ok(fetched) => Ok(run::made(move |py| match load::interrupt(py, fetched.origin(), &own) {
                Some(interrupt) => Err(interrupt),
                None => entries(&on, Entries::clone(&fetched), How::fetched(&fetched))(py),
            })),
            Err(error) => Err(Failure::Fetch(Box::new(error), own)),
        }
    })
}

/// What an update is to do: {set, add, append, insert, remove, insert_at, remove_at, clear, if_version}.
pub(crate) fn update(
    schema: &Schema,
    entity: &Entity,
    mut update: Update<Entry>,
    changes: &Bound<'_, PyAny>,
) -> PyResult<Update<Entry>> {
    let field = |name: &str| {
        entity.field(name).ok_or_else(|| {
            let known: Vec<&str> = entity.fields.iter().map(|field| field.name.as_str()).collect();
            unknown(changes.py(), &entity.name, "field", name, &known)
        })
    };
    let changes = changes.cast::<PyDict>()?;
    let part = |name: &str| -> PyResult<Vec<(String, Bound<'_, PyAny>)>> {
        match changes.get_item(name)? {
            Some(part) if !part.is_none() => {
                part.cast::<PyDict>()?.iter().map(|(name, value)| Ok((name.extract()?, value))).collect()
            }
            _ => Ok(Vec::new()),
        }
    };
    for (name, given) in part("set")? {
        update = match given.is_none() {
            true => update.clear(&field(&name)?.name),
            false => update.set_value(&name, value::value_in(schema, &field(&name)?.kind, &name, &given)?),
        };
    }
    for (name, given) in part("add")? {
        let Value::Number(number) = value::value_in(schema, &larder_schema::Type::Decimal, &name, &given)?
        else {
            return Err(PyTypeError::new_err(format!("what is added to `{name}` is a number")));
        };
        update = update.add(&name, number);
    }
    for (what, given) in ["append", "insert", "remove"].into_iter().map(|what| (what, part(what))) {
        for (name, given) in given? {
            let kind = field(&name)?.kind.clone();
            let Value::List(members) = value::value_in(schema, &kind, &name, &given)? else {
                return Err(PyTypeError::new_err(format!("members of `{name}` are given as a list or set")));
            };
            update = match what {
                "append" => update.append(&name, members),
                "insert" => update.insert(&name, members),
                _ => update.remove(&name, members),
            };
        }
    }
    for (name, given) in part("insert_at")? {
        let kind = field(&name)?.kind.member().cloned().unwrap_or(larder_schema::Type::Json);
        for (at, given) in given.cast::<PyDict>()?.iter() {
            let at: String = at.extract()?;
            let member = value::value_in(schema, &kind, &name, &given)?;
            update = update.insert_at(&name, at, member);
        }
    }
    for (name, given) in part("remove_at")? {
        for at in given.try_iter()? {
            update = update.remove_at(&name, at?.extract::<String>()?);
        }
    }
    if let Some(clear) = changes.get_item("clear")?.filter(|clear| !clear.is_none()) {
        for name in clear.try_iter()? {
            update = update.clear(&name?.extract::<String>()?);
        }
    }
    if let Some(version) = changes.get_item("if_version")?.filter(|version| !version.is_none()) {
        update = update.if_version(version.extract()?);
    }
    Ok(update)
}

impl Shelf {
    pub(crate) fn new(py: Python<'_>, handle: &Arc<Handle>, name: &str) -> PyResult<Self> {
        let system = handle.get(py)?;
        let (_, entity) = entity_of(py, &system, name)?;
        let of_key = entity.key_names();
        let rest: Vec<&str> = entity
            .fields
            .iter()
            .filter(|field| field.is_given() && !of_key.contains(&field.name.as_str()))
            .map(|field| field.name.as_str())
            .collect();
        let value = match rest.as_slice() {
            [one] => Some(Arc::from(*one)),
            _ => None,
        };
        let in_time = is_timed(system.schema(), entity);
        Ok(Self { handle: Arc::clone(handle), entity: name.into(), value, in_time })
    }

    fn on(&self, py: Python<'_>) -> PyResult<(larder::System, larder::Shelf<Entry>)> {
        let system = self.handle.get(py)?;
        let shelf = system.entries(&self.entity);
        let shelf = shelf.ok_or_else(|| PyKeyError::new_err(self.entity.to_string()))?;
        Ok((system, shelf))
    }

    fn described<'a>(&self, system: &'a larder::System) -> PyResult<(&'a Table, &'a Entity)> {
        system.schema().entity(&self.entity).ok_or_else(|| PyKeyError::new_err(self.entity.to_string()))
    }

    fn key(&self, system: &larder::System, key: &Bound<'_, PyAny>) -> PyResult<Fields> {
        value::key_in(system.schema(), self.described(system)?.1, key)
    }

    fn draft(
        &self,
        system: &larder::System,
        fields: &Bound<'_, PyAny>,
        meta: Option<&Bound<'_, Meta>>,
    ) -> PyResult<Changed> {
        let read = meta.map(|meta| meta.get().read());
        draft(system.schema(), self.described(system)?.1, fields, read)
    }
}

#[pymethods]
impl Shelf {
    #[getter]
    fn entity(&self) -> &str {
        &self.entity
    }

    /// The names of its fields, of those of its key, and of its lifecycles.
    fn names(&self, py: Python<'_>) -> PyResult<(Vec<String>, Vec<String>, Vec<String>)> {
        let system = self.handle.get(py)?;
        let (_, entity) = self.described(&system)?;
        Ok((
            entity.fields.iter().map(|field| field.name.clone()).collect(),
            value::key_names(entity).iter().map(|field| field.name.clone()).collect(),
            entity.lifecycles.iter().map(|lifecycle| lifecycle.name.clone()).collect(),
        ))
    }

    /// Fields that are not shown: secrets, and what tells them.
    fn secrets(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let system = self.handle.get(py)?;
        let (_, entity) = self.described(&system)?;
        let secret = entity.fields.iter().filter(|field| system.schema().reveals_secret(entity, field));
        Ok(secret.map(|field| field.name.clone()).collect())
    }

    #[pyo3(signature = (key, load, with_known, event_loop=None))]
    fn fetch<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        load: Bound<'py, PyAny>,
        with_known: bool,
        event_loop: Loop<'py>,
    ) -> Answer<'py> {
        let (system, shelf) = self.on(py)?;
        let key = self.key(&system, key)?;
        if !load.is_callable() {
            return Err(PyTypeError::new_err("load is not a function"));
        }
        // The most frequent answer needs nothing of what the others do.
        if let Some(fetched) = shelf.in_memory(&key) {
            let how = How::fetched(&fetched);
            return Ok(record_out(py, &system, &self.entity, &fetched, how)?.into_any());
        }
        let caller = Caller::new(event_loop);
        let (on, entity, value) = (system.clone(), self.entity.clone(), self.value.clone());
        let read: Read<Fields> = Arc::new(move |got| {
            let schema = on.schema();
            let Some((_, entity)) = schema.entity(&entity) else { return Ok(Fields::new()) };
            match value.as_ref().and_then(|name| entity.field(name)) {
                Some(field) => {
                    let value = value::value_in(schema, &field.kind, &field.name, got)?;
                    Ok(Fields::from([(field.name.clone(), value)]))
                }
                None => value::fields_in(schema, entity, got),
            }
        });
        let loader = Loader::new(py, &caller, load, self.in_time, read)?;
        let (own, entity) = (loader.function(), self.entity.clone());
        let (name, on) = (self.entity.clone(), system.clone());
        caller.look(py, async move {
            let fetched = shelf.fetch_with(key, move |ask, kept| {
                let (system, entity) = (on.clone(), name.clone());
                loader.call(Box::new(move |py| {
                    let mut arguments = key_arguments(py, &system, &entity, &ask)?;
                    if with_known {
                        arguments.insert(0, known(py, &kept)?);
                    }
                    PyTuple::new(py, arguments)
                }))
            });
            match fetched.await {
                Ok(fetched) => Ok(run::made(move |py| match load::interrupt(py, fetched.origin(), &own) {
                    Some(interrupt) => Err(interrupt),
                    None => {
                        let how = How::fetched(&fetched);
                        Ok(record_out(py, &system, &entity, &fetched, how)?.into_any())
                    }
                })),
                Err(error) => Err(Failure::Fetch(Box::new(error), own)),
            }
        })
    }

    #[pyo3(signature = (key, event_loop=None))]
    fn get<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>, event_loop: Loop<'py>) -> Answer<'py> {
        let (system, shelf) = self.on(py)?;
        let (key, entity) = (self.key(&system, key)?, self.entity.clone());
        Caller::new(event_loop).look(py, async move {
            let found = shelf.get(key).await?;
            Ok(kept::perhaps(&system, &entity, found))
        })
    }

    /// (record, None) or (None, (why, error)).
    #[pyo3(signature = (key, event_loop=None))]
    fn look<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>, event_loop: Loop<'py>) -> Answer<'py> {
        let (system, shelf) = self.on(py)?;
        let (key, entity) = (self.key(&system, key)?, self.entity.clone());
        Caller::new(event_loop).look(py, async move {
            let looked = shelf.look(key).await;
            Ok(run::made(move |py| {
                let none = py.None();
                Ok(match looked {
                    Look::Hit(fetched) => {
                        let how = How::fetched(&fetched);
                        let found = record_out(py, &system, &entity, &fetched, how)?;
                        (found, none).into_pyobject(py)?.into_any()
                    }
                    Look::Miss(why) => {
                        let (name, error) = match &why {
                            Why::Absent => ("absent", None),
                            Why::Expired => ("expired", None),
                            Why::Unreachable(found) => ("unreachable", Some(error::object(py, found)?)),
                            _ => ("unreachable", None),
                        };
                        (none, (name, error)).into_pyobject(py)?.into_any()
                    }
                })
            }))
        })
    }

    #[pyo3(signature = (fields, meta, event_loop=None))]
    fn create<'py>(
        &self,
        py: Python<'py>,
        fields: &Bound<'py, PyAny>,
        meta: Option<&Bound<'py, Meta>>,
        event_loop: Loop<'py>,
    ) -> Answer<'py> {
        let (system, shelf) = self.on(py)?;
        let (draft, entity) = (self.draft(&system, fields, meta)?, self.entity.clone());
        run::run(py, event_loop, async move {
            let made = shelf.create(draft).await?;
            Ok(record(&system, &entity, made, How::default()))
        })
    }

    #[pyo3(signature = (fields, meta, event_loop=None))]
    fn put<'py>(
        &self,
        py: Python<'py>,
        fields: &Bound<'py, PyAny>,
        meta: Option<&Bound<'py, Meta>>,
        event_loop: Loop<'py>,
    ) -> Answer<'py> {
        let (system, shelf) = self.on(py)?;
        let (draft, entity) = (self.draft(&system, fields, meta)?, self.entity.clone());
        run::run(py, event_loop, async move {
            let put = shelf.put(draft).await?;
            let how = How::put(put.changed(), put.store_error());
            Ok(record(&system, &entity, put.into_record(), how))
        })
    }

    #[pyo3(signature = (fields, meta, event_loop=None))]
    fn put_behind<'py>(
        &self,
        py: Python<'py>,
        fields: &Bound<'py, PyAny>,
        meta: Option<&Bound<'py, Meta>>,
        event_loop: Loop<'py>,
    ) -> Answer<'py> {
        let (system, shelf) = self.on(py)?;
        let (draft, entity) = (self.draft(&system, fields, meta)?, self.entity.clone());
        run::run(py, event_loop, async move {
            let put = shelf.put_behind(draft).await?;
            Ok(record(&system, &entity, put, How::default()))
        })
    }

    /// The number that a create would take.
    #[pyo3(signature = (fields, event_loop=None))]
    fn next_sequence<'py>(
        &self,
        py: Python<'py>,
        fields: &Bound<'py, PyAny>,
        event_loop: Loop<'py>,
    ) -> Answer<'py> {
        let (system, shelf) = self.on(py)?;
        let draft = self.draft(&system, fields, None)?;
        run::run(py, event_loop, async move { Ok(run::reply(shelf.next_sequence(draft).await?)) })
    }

    #[pyo3(signature = (key, changes, event_loop=None))]
    fn update<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        changes: &Bound<'py, PyAny>,
        event_loop: Loop<'py>,
    ) -> Answer<'py> {
        let (system, shelf) = self.on(py)?;
        let (_, described) = self.described(&system)?;
        let update = update(system.schema(), described, shelf.update(self.key(&system, key)?), changes)?;
        let entity = self.entity.clone();
        run::run(py, event_loop, async move {
            let made = update.send().await?;
            Ok(record(&system, &entity, made, How::default()))
        })
    }

    #[pyo3(signature = (key, event_loop=None))]
    fn delete<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>, event_loop: Loop<'py>) -> Answer<'py> {
        let (system, shelf) = self.on(py)?;
        let (key, entity) = (self.key(&system, key)?, self.entity.clone());
        run::run(py, event_loop, async move {
            match shelf.delete(key).await? {
                Deleted::Nothing => Ok(run::none()),
                Deleted::Record(old) => Ok(record(&system, &entity, old, How::default())),
                Deleted::Unreadable(error) => Err(error.into()),
            }
        })
    }

    #[pyo3(signature = (key, event_loop=None))]
    fn forget<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>, event_loop: Loop<'py>) -> Answer<'py> {
        let (system, shelf) = self.on(py)?;
        let key = self.key(&system, key)?;
        run::run(py, event_loop, async move {
            shelf.forget(key).await?;
            Ok(run::none())
        })
    }

    /// Everything that is wrong with a record, found without a store.
    fn check(&self, py: Python<'_>, fields: &Bound<'_, PyAny>) -> PyResult<()> {
        let (system, shelf) = self.on(py)?;
        let draft = self.draft(&system, fields, None)?;
        shelf.check(draft).map_err(|found| error::made(py, &found))
    }

    fn stored_key<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
        let (system, shelf) = self.on(py)?;
        let key = shelf.stored_key(self.key(&system, key)?).map_err(|found| error::made(py, &found))?;
        let out = PyDict::new(py);
        for (name, stored) in &key {
            out.set_item(name, value::stored_out(py, stored)?)?;
        }
        Ok(out)
    }

    /// A list of records, `None` where there is none, or errors.
    #[pyo3(signature = (keys, event_loop=None))]
    fn get_many<'py>(&self, py: Python<'py>, keys: &Bound<'py, PyAny>, event_loop: Loop<'py>) -> Answer<'py> {
        let (system, shelf) = self.on(py)?;
        let keys = keys.try_iter()?.map(|key| self.key(&system, &key?)).collect::<PyResult<Vec<_>>>()?;
        let entity = self.entity.clone();
        run::run(py, event_loop, async move {
            let outcomes = shelf.get_many(keys).await;
            let outcomes = outcomes.into_iter().map(|(_, outcome)| outcome).collect();
            Ok(outcomes_out(&system, &entity, outcomes))
        })
    }

    #[pyo3(signature = (drafts, event_loop=None))]
    fn put_many<'py>(
        &self,
        py: Python<'py>,
        drafts: &Bound<'py, PyAny>,
        event_loop: Loop<'py>,
    ) -> Answer<'py> {
        let (system, shelf) = self.on(py)?;
        let drafts = drafts.try_iter()?.map(|draft| {
            let (fields, meta): (Bound<'py, PyAny>, Option<Bound<'py, Meta>>) = draft?.extract()?;
            self.draft(&system, &fields, meta.as_ref())
        });
        let drafts = drafts.collect::<PyResult<Vec<_>>>()?;
        let entity = self.entity.clone();
        run::run(py, event_loop, async move {
            let outcomes = shelf.put_many(drafts).await;
            let outcomes = outcomes.into_iter().map(|outcome| outcome.map(Some)).collect();
            Ok(outcomes_out(&system, &entity, outcomes))
        })
    }

    #[pyo3(signature = (keys, event_loop=None))]
    fn delete_many<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
        event_loop: Loop<'py>,
    ) -> Answer<'py> {
        let (system, shelf) = self.on(py)?;
        let keys = keys.try_iter()?.map(|key| self.key(&system, &key?)).collect::<PyResult<Vec<_>>>()?;
        let entity = self.entity.clone();
        run::run(py, event_loop, async move {
            let outcomes = shelf.delete_many(keys).await;
            let outcomes = outcomes.into_iter().map(|(_, outcome)| outcome.map(|()| None)).collect();
            Ok(outcomes_out(&system, &entity, outcomes))
        })
    }

    /// What a query that is described in a dict comes to: a page, a count, or an explanation.
    #[pyo3(signature = (asked, what, event_loop=None))]
    fn query<'py>(
        &self,
        py: Python<'py>,
        asked: &Bound<'py, PyDict>,
        what: &str,
        event_loop: Loop<'py>,
    ) -> Answer<'py> {
        let (system, shelf) = self.on(py)?;
        let query = self.asked(&system, &shelf, asked)?;
        let shown = self.shown(&system, asked)?;
        let entity = self.entity.clone();
        if what == "explain" {
            let told = query.explain().map_err(|found| error::made(py, &found))?;
            return Ok(told.to_string().into_pyobject(py)?.into_any());
        }
        let count = what == "count";
        run::run(py, event_loop, async move {
            if count {
                return Ok(run::reply(query.count().await?));
            }
            let page = query.page().await?;
            Ok(page_out(&system, &entity, page, shown))
        })
    }

    #[pyo3(signature = (asked, event_loop=None))]
    fn scan<'py>(&self, py: Python<'py>, asked: &Bound<'py, PyDict>, event_loop: Loop<'py>) -> Answer<'py> {
        let (system, shelf) = self.on(py)?;
        let option = |name: &str| PyResult::Ok(asked.get_item(name)?.filter(|given| !given.is_none()));
        let mut scan = shelf.scan();
        if let Some(limit) = option("limit")? {
            scan = scan.limit(limit.extract()?);
        }
        if let Some(cursor) = option("start_at")? {
            scan = scan.start_at(cursor.extract::<String>()?);
        }
        let is =
            |name: &str| PyResult::Ok(option(name)?.is_some_and(|given| given.is_truthy().unwrap_or(false)));
        if is("at_any_price")? {
            scan = scan.at_any_price();
        }
        if is("even_expired")? {
            scan = scan.even_expired();
        }
        if is("consistent")? {
            scan = scan.consistent();
        }
        if is("strict")? {
            scan = scan.strict();
        }
        let entity = self.entity.clone();
        run::run(py, event_loop, async move {
            let page = scan.page().await?;
            Ok(page_out(&system, &entity, page, None))
        })
    }

    /// A plan to invalidate what has these fields, or this label; or to remove what has expired.
    #[pyo3(signature = (by, label, expired, event_loop=None))]
    fn invalidate<'py>(
        &self,
        py: Python<'py>,
        by: &Bound<'py, PyAny>,
        label: Option<String>,
        expired: bool,
        event_loop: Loop<'py>,
    ) -> Answer<'py> {
        let (system, shelf) = self.on(py)?;
        let handle = Arc::clone(&self.handle);
        let mut wanted = if expired { shelf.sweep() } else { shelf.invalidate() };
        for (name, given) in value::fields_in(system.schema(), self.described(&system)?.1, by)? {
            wanted = wanted.by(&name, given);
        }
        if let Some(label) = label {
            wanted = wanted.label(label);
        }
        run::run(py, event_loop, async move { Ok(run::reply(Plan::new(&handle, wanted.plan().await?))) })
    }

    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (_, shelf) = self.on(py)?;
        let stats = shelf.stats();
        let out = PyDict::new(py);
        for (name, count) in [
            ("hits", stats.hits),
            ("misses", stats.misses),
            ("calls_saved", stats.calls_saved),
            ("loads", stats.loads),
            ("load_failures", stats.load_failures),
            ("store_errors", stats.store_errors),
            ("writes", stats.writes),
            ("writes_lost", stats.writes_lost),
            ("unread", stats.unread),
        ] {
            out.set_item(name, count)?;
        }
        out.set_item("hit_rate", stats.hit_rate())?;
        out.set_item("dollars_saved", stats.dollars_saved())?;
        out.set_item("dollars_spent", stats.dollars_spent())?;
        Ok(out)
    }

    /// Runs a transition.
    #[pyo3(signature = (lifecycle, key, transition, params, event_loop=None))]
    fn transition<'py>(
        &self,
        py: Python<'py>,
        lifecycle: &str,
        key: &Bound<'py, PyAny>,
        transition: String,
        params: &Bound<'py, PyAny>,
        event_loop: Loop<'py>,
    ) -> Answer<'py> {
        let (system, shelf) = self.on(py)?;
        let track = self.lifecycle(py, &system, &shelf, lifecycle)?;
        let key = self.key(&system, key)?;
        let params = value::fields_in(system.schema(), self.described(&system)?.1, params)?;
        let entity = self.entity.clone();
        run::run(py, event_loop, async move {
            let made = track.run(key, &transition, params).await?;
            Ok(record(&system, &entity, made, How::default()))
        })
    }

    #[pyo3(signature = (lifecycle, key, transition, params, event_loop=None))]
    fn hold<'py>(
        &self,
        py: Python<'py>,
        lifecycle: &str,
        key: &Bound<'py, PyAny>,
        transition: Option<String>,
        params: &Bound<'py, PyAny>,
        event_loop: Loop<'py>,
    ) -> Answer<'py> {
        let (system, shelf) = self.on(py)?;
        let track = self.lifecycle(py, &system, &shelf, lifecycle)?;
        let key = self.key(&system, key)?;
        let params = value::fields_in(system.schema(), self.described(&system)?.1, params)?;
        let (handle, entity) = (Arc::clone(&self.handle), self.entity.to_string());
        run::run(py, event_loop, async move {
            let lease = match transition {
                Some(transition) => track.hold_by(key, &transition, params).await?,
                None => track.hold(key).await?,
            };
            Ok(lifecycle::held(&handle, &system, entity, lease))
        })
    }

    /// What is due, to be taken one by one.
    #[pyo3(signature = (lifecycle, groups, options))]
    fn claim(
        &self,
        py: Python<'_>,
        lifecycle: &str,
        groups: &Bound<'_, PyAny>,
        options: &Bound<'_, PyDict>,
    ) -> PyResult<Claims> {
        let (system, shelf) = self.on(py)?;
        let track = self.lifecycle(py, &system, &shelf, lifecycle)?;
        let mut all = groups_in(groups)?.into_iter();
        let mut claim = track.claim(all.next().unwrap_or_default()).groups(all);
        let option = |name: &str| PyResult::Ok(options.get_item(name)?.filter(|given| !given.is_none()));
        if let Some(take) = option("take")? {
            claim = claim.take(take.extract()?);
        }
        if let Some(older) = option("older_than")? {
            claim = claim.older_than(older.extract::<Duration>()?);
        }
        if let Some(owner) = option("owner")? {
            claim = claim.owner(owner.extract::<String>()?);
        }
        if option("strict")?.is_some_and(|given| given.is_truthy().unwrap_or(false)) {
            claim = claim.strict();
        }
        if let Some(params) = option("params")? {
            claim = claim.with(value::fields_in(system.schema(), self.described(&system)?.1, &params)?);
        }
        Ok(Claims::new(&self.handle, self.entity.to_string(), claim))
    }

    /// What is `due`, is `stuck`, or stands `in_state`: a list of (record, standing). Only the last has a state.
    #[pyo3(signature = (lifecycle, what, state, groups, options, event_loop=None))]
    #[expect(clippy::too_many_arguments, reason = "Python's")]
    fn standing<'py>(
        &self,
        py: Python<'py>,
        lifecycle: &str,
        what: &str,
        state: Option<&str>,
        groups: &Bound<'py, PyAny>,
        options: &Bound<'py, PyDict>,
        event_loop: Loop<'py>,
    ) -> Answer<'py> {
        let (system, shelf) = self.on(py)?;
        let track = self.lifecycle(py, &system, &shelf, lifecycle)?;
        let mut all = groups_in(groups)?.into_iter();
        let mut listing = match (what, state) {
            ("in_state", Some(state)) => track.in_state(state),
            ("stuck", None) => track.stuck(all.next().unwrap_or_default()),
            ("due", None) => track.due(all.next().unwrap_or_default()),
            _ => return Err(PyValueError::new_err(format!("there is no listing `{what}`"))),
        };
        for group in all {
            listing = listing.group(group);
        }
        let option = |name: &str| PyResult::Ok(options.get_item(name)?.filter(|given| !given.is_none()));
        let is =
            |name: &str| PyResult::Ok(option(name)?.is_some_and(|given| given.is_truthy().unwrap_or(false)));
        if let Some(limit) = option("limit")? {
            listing = listing.limit(limit.extract()?);
        }
        if let Some(older) = option("older_than")? {
            listing = listing.older_than(older.extract::<Duration>()?);
        }
        if is("newest_first")? {
            listing = listing.newest_first();
        }
        if is("strict")? {
            listing = listing.strict();
        }
        let entity = self.entity.clone();
        run::run(py, event_loop, async move {
            let (standings, _) = listing.with_unread().await?;
            Ok(lifecycle::standings(system, entity.to_string(), standings))
        })
    }

    #[pyo3(signature = (lifecycle, key, event_loop=None))]
    fn stands<'py>(
        &self,
        py: Python<'py>,
        lifecycle: &str,
        key: &Bound<'py, PyAny>,
        event_loop: Loop<'py>,
    ) -> Answer<'py> {
        let (system, shelf) = self.on(py)?;
        let track = self.lifecycle(py, &system, &shelf, lifecycle)?;
        let (key, entity) = (self.key(&system, key)?, self.entity.clone());
        run::run(py, event_loop, async move {
            let standing = track.standing(key).await?;
            Ok(lifecycle::standings(system, entity.to_string(), standing.into_iter().collect()))
        })
    }

    /// Takes a lease from whoever has it.
    #[pyo3(signature = (lifecycle, key, event_loop=None))]
    fn release<'py>(
        &self,
        py: Python<'py>,
        lifecycle: &str,
        key: &Bound<'py, PyAny>,
        event_loop: Loop<'py>,
    ) -> Answer<'py> {
        let (system, shelf) = self.on(py)?;
        let track = self.lifecycle(py, &system, &shelf, lifecycle)?;
        let (key, entity) = (self.key(&system, key)?, self.entity.clone());
        run::run(py, event_loop, async move {
            let released = track.release(key).await?;
            Ok(record(&system, &entity, released, How::default()))
        })
    }
}

impl Shelf {
    fn lifecycle(
        &self,
        py: Python<'_>,
        system: &larder::System,
        shelf: &larder::Shelf<Entry>,
        name: &str,
    ) -> PyResult<larder::Lifecycle<Entry>> {
        let (_, entity) = self.described(system)?;
        shelf.lifecycle(name).ok_or_else(|| {
            let known: Vec<&str> =
                entity.lifecycles.iter().map(|lifecycle| lifecycle.name.as_str()).collect();
            unknown(py, &entity.name, "lifecycle", name, &known)
        })
    }

    /// The fields that the index of a query shows, if it asks one.
    fn shown(
        &self,
        system: &larder::System,
        asked: &Bound<'_, PyDict>,
    ) -> PyResult<Option<BTreeSet<String>>> {
        let Some(index) = asked.get_item("index")?.filter(|index| !index.is_none()) else { return Ok(None) };
        let (table, entity) = self.described(system)?;
        let index = table.index(&index.extract::<String>()?);
        let shown = index.map(|index| entity.readable(table, index).into_iter().map(|field| field.name));
        Ok(shown.map(Iterator::collect))
    }

    fn asked(
        &self,
        system: &larder::System,
        shelf: &larder::Shelf<Entry>,
        asked: &Bound<'_, PyDict>,
    ) -> PyResult<Query<Entry>> {
        let (table, entity) = self.described(system)?;
        let schema = system.schema();
        let option = |name: &str| PyResult::Ok(asked.get_item(name)?.filter(|given| !given.is_none()));
        let index: Option<String> = option("index")?.map(|index| index.extract()).transpose()?;
        let access = match &index {
            Some(name) => table.index(name).and_then(|index| entity.access(table, Some(index))),
            None => entity.access(table, None),
        };
        let mut partition = Fields::new();
        if let Some(given) = option("partition")? {
            for (name, given) in given.cast::<PyDict>()?.iter() {
                let name: String = name.extract()?;
                let kind = access.as_ref().and_then(|access| {
                    let argument = access.arguments.iter().find(|argument| argument.name == name)?;
                    Some(argument.kind.clone())
                });
                let value = match kind {
                    Some(kind) => value::value_in(schema, &kind, &name, &given)?,
                    None => value::any_in(&name, &given)?,
                };
                partition.insert(name, value);
            }
        }
        let mut query = match &index {
            Some(index) => shelf.index_by(index, partition),
            None => shelf.within_by(partition),
        };
        let sort = access.and_then(|access| access.sort).map(|sort| sort.kind);
        let bound = |name: &str| -> PyResult<Option<Value>> {
            option(name)?
                .map(|given| match &sort {
                    Some(kind) => match value::value_in(schema, kind, name, &given)? {
                        Value::Raw(_) => value::any_in(name, &given),
                        value => Ok(value),
                    },
                    None => value::any_in(name, &given),
                })
                .transpose()
        };
        if let Some(value) = bound("from")? {
            query = query.from(value);
        }
        if let Some(value) = bound("until")? {
            query = query.until(value);
        }
        if let Some(value) = bound("at")? {
            query = query.at(value);
        }
        if let Some(text) = option("begins_with")? {
            query = query.begins_with(text.extract::<String>()?);
        }
        let is =
            |name: &str| PyResult::Ok(option(name)?.is_some_and(|given| given.is_truthy().unwrap_or(false)));
        if is("newest_first")? {
            query = query.newest_first();
        }
        if is("even_expired")? {
            query = query.even_expired();
        }
        if is("consistent")? {
            query = query.consistent();
        }
        if is("strict")? {
            query = query.strict();
        }
        if let Some(limit) = option("limit")? {
            query = query.limit(limit.extract()?);
        }
        if let Some(cursor) = option("start_at")? {
            query = query.start_at(cursor.extract::<String>()?);
        }
        Ok(query)
    }
}

fn groups_in(given: &Bound<'_, PyAny>) -> PyResult<Vec<Group>> {
    let mut groups = Vec::new();
    for group in given.try_iter()? {
        let group = group?;
        groups.push(if group.is_none() {
            Group::default()
        } else if let Ok(values) = group.cast::<PyTuple>() {
            Group::of(
                values.iter().map(|value| value::any_in("group", &value)).collect::<PyResult<Vec<_>>>()?,
            )
        } else {
            Group::from(value::any_in("group", &group)?)
        });
    }
    Ok(groups)
}

fn outcomes_out(
    system: &larder::System,
    entity: &str,
    outcomes: Vec<Result<Option<Entry>, larder::Error>>,
) -> Reply {
    let (system, entity) = (system.clone(), entity.to_owned());
    Box::new(move |py| {
        let out = PyList::empty(py);
        for outcome in outcomes {
            match outcome {
                Ok(Some(entry)) => out.append(record_out(py, &system, &entity, &entry, How::default())?)?,
                Ok(None) => out.append(py.None())?,
                Err(found) => out.append(error::object(py, &found)?)?,
            }
        }
        Ok(out.into_any())
    })
}

/// (records, cursor, how many could not be read, units)
fn page_out(
    system: &larder::System,
    entity: &str,
    page: larder::Page<Entry>,
    shown: Option<BTreeSet<String>>,
) -> Reply {
    let (system, entity) = (system.clone(), entity.to_owned());
    Box::new(move |py| {
        let out = PyList::empty(py);
        for entry in &page.items {
            out.append(part_out(py, &system, &entity, entry, How::default(), shown.as_ref())?)?;
        }
        Ok((out, page.cursor, page.unread.count, page.units).into_pyobject(py)?.into_any())
    })
}

/// What an invalidation would remove, and what that costs.
#[pyclass(frozen, module = "larder._native")]
pub(crate) struct Plan {
    handle: Arc<Handle>,
    plan: Own<Arc<Slot<Arc<larder::InvalidationPlan>>>>,
    #[pyo3(get)]
    items: u64,
    #[pyo3(get)]
    bytes: u64,
    #[pyo3(get)]
    is_exact: bool,
    #[pyo3(get)]
    is_scan: bool,
    #[pyo3(get)]
    dollars: f64,
    text: String,
}

impl Plan {
    fn new(handle: &Arc<Handle>, plan: larder::InvalidationPlan) -> Self {
        Self {
            items: plan.items(),
            bytes: plan.bytes(),
            is_exact: plan.is_exact(),
            is_scan: plan.is_scan(),
            dollars: plan.units().dollars(),
            text: plan.to_string(),
            plan: Own::new(handle.keep(Arc::new(plan))),
            handle: Arc::clone(handle),
        }
    }
}

#[pymethods]
impl Plan {
    fn __str__(&self) -> &str {
        &self.text
    }

    /// Removes what was planned; how many there were.
    #[pyo3(signature = (event_loop=None))]
    fn run<'py>(&self, py: Python<'py>, event_loop: Loop<'py>) -> Answer<'py> {
        self.handle.get(py)?;
        let plan = self.plan.get(py)?.get().ok_or_else(|| taken("plan"))?;
        run::run(py, event_loop, async move { Ok(run::reply(plan.run().await?.removed)) })
    }
}

pub(crate) fn taken(what: &str) -> PyErr {
    PyValueError::new_err(format!("this {what} is used by another thread or task, or is done with"))
}
