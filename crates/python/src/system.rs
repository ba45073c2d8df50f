//! A schema on a store, for Python.
//!
//! A system that was closed lets go of its store, and of the leases, claims and plans that were made of it; whatever else was made of
//! it says so from then on.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use larder::{Drained, Environment, Fields, Schema};
use larder_schema::schema::{Entity, Writes};
use larder_schema::{Colour, Loader, render_all};
use parking_lot::{Mutex, RwLock};
use pyo3::exceptions::PyFileNotFoundError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::error::{self, Failure};
use crate::kept::{How, Meta};
use crate::run::{self, Own, Reply};
use crate::shelf::{Shelf, draft};
use crate::store::Store;
use crate::{shelf, value};

#[pyclass(frozen, module = "larder._native")]
pub(crate) struct System(pub(crate) Arc<Handle>);

/// A system until it is closed.
pub(crate) struct Handle {
    system: Own<RwLock<Option<larder::System>>>,
    kept: Mutex<Vec<Weak<dyn LetGo>>>,
}

/// Something that holds a system, until it is done with or the system is closed.
pub(crate) struct Slot<T>(Mutex<Option<T>>);

trait LetGo: Send + Sync {
    fn let_go(&self);
}

impl<T: Send> LetGo for Slot<T> {
    fn let_go(&self) {
        // Not under the lock: what ends may take its time.
        let last = self.0.lock().take();
        drop(last);
    }
}

impl<T> Slot<T> {
    pub(crate) fn take(&self) -> Option<T> {
        self.0.lock().take()
    }

    pub(crate) fn put(&self, value: T) {
        *self.0.lock() = Some(value);
    }
}

impl<T: Clone> Slot<T> {
    pub(crate) fn get(&self) -> Option<T> {
        self.0.lock().clone()
    }
}

impl Handle {
    pub(crate) fn get(&self, py: Python<'_>) -> PyResult<larder::System> {
        let system = self.system.get(py)?.read().clone();
        system.ok_or_else(|| error::raise(py, "closed", "the system was closed: open it again"))
    }

    /// Keeps something until the system is closed, if it is still wanted then.
    pub(crate) fn keep<T: Send + 'static>(&self, value: T) -> Arc<Slot<T>> {
        let slot = Arc::new(Slot(Mutex::new(Some(value))));
        let weak: Weak<Slot<T>> = Arc::downgrade(&slot);
        let mut kept = self.kept.lock();
        if kept.len() >= 64 && kept.len().is_power_of_two() {
            kept.retain(|slot| slot.strong_count() > 0);
        }
        kept.push(weak);
        slot
    }
}

/// The texts of a schema's files, by their names.
type Files = HashMap<String, String>;

/// Files that a program has, or that are beside the one that includes them.
struct Beside<'a>(PathBuf, Option<&'a Files>);

impl Loader for Beside<'_> {
    fn load(&mut self, path: &str) -> Result<String, String> {
        let path = self.0.parent().unwrap_or(Path::new("")).join(path);
        if let Some(files) = self.1 {
            let found = files.iter().find(|(name, _)| Path::new(name) == path).map(|(_, text)| text.clone());
            return found.ok_or_else(|| format!("the program has no {}", path.display()));
        }
        std::fs::read_to_string(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))
    }
}

fn read(path: &str, files: Option<&Files>, environment: &Environment) -> Result<Schema, Failure> {
    let text = match files.and_then(|files| files.get(path)) {
        Some(text) => text.clone(),
        None => std::fs::read_to_string(path).map_err(|error| {
            PyFileNotFoundError::new_err(format!("cannot read the schema {path}: {error}"))
        })?,
    };
    let loaded = Schema::load(path, &text, &mut Beside(path.into(), files), environment);
    loaded.schema.ok_or_else(|| {
        let errors: Vec<_> =
            loaded.diagnostics.into_iter().filter(larder_schema::Diagnostic::is_error).collect();
        let message = render_all(&errors, &loaded.files, Colour::Plain);
        Failure::Own("schema", message.trim_end().to_owned())
    })
}

/// Opens a schema on a store.
#[pyfunction]
#[pyo3(signature = (path, files, store, environment, provision, event_loop=None))]
pub(crate) fn open<'py>(
    py: Python<'py>,
    path: String,
    files: Option<Files>,
    store: &Store,
    environment: Option<Environment>,
    provision: bool,
    event_loop: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let mut variables: Environment = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    variables.extend(environment.unwrap_or_default());
    let store = store.get(py)?;
    run::run(py, event_loop, async move {
        let schema = read(&path, files.as_ref(), &variables)?;
        let system = larder::System::open_with(schema, store, variables).await?;
        if provision {
            system.provision().await?;
        }
        let handle = Handle { system: Own::new(RwLock::new(Some(system))), kept: Mutex::default() };
        Ok(run::reply(System(Arc::new(handle))))
    })
}

/// The counts of systems as text for Prometheus.
#[pyfunction]
pub(crate) fn prometheus(py: Python<'_>, systems: Vec<Bound<'_, System>>) -> PyResult<String> {
    let systems = systems.iter().map(|system| system.get().0.get(py)).collect::<PyResult<Vec<_>>>()?;
    Ok(py.detach(|| larder::prometheus(&systems)))
}

#[pymethods]
impl System {
    #[getter]
    fn name(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.0.get(py)?.schema().system.clone())
    }

    fn entities(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let system = self.0.get(py)?;
        let entities = system.schema().tables.iter().flat_map(|table| &table.entities);
        Ok(entities.map(|entity| entity.name.clone()).collect())
    }

    fn collections(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let system = self.0.get(py)?;
        let collections = system.schema().tables.iter().flat_map(|table| &table.collections);
        Ok(collections.map(|collection| collection.name.clone()).collect())
    }

    /// Whether something of it is written after the answer.
    fn writes_behind(&self, py: Python<'_>) -> PyResult<bool> {
        let system = self.0.get(py)?;
        let mut entities = system.schema().tables.iter().flat_map(|table| &table.entities);
        Ok(entities.any(|entity: &Entity| matches!(entity.policy.writes, Writes::Behind { .. })))
    }

    fn shelf(&self, py: Python<'_>, entity: &str) -> PyResult<Shelf> {
        Shelf::new(py, &self.0, entity)
    }

    fn now<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        value::moment_out(py, self.0.get(py)?.now())
    }

    #[pyo3(signature = (event_loop=None))]
    fn provision<'py>(
        &self,
        py: Python<'py>,
        event_loop: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let system = self.0.get(py)?;
        run::run(py, event_loop, async move {
            system.provision().await?;
            Ok(run::none())
        })
    }

    /// Waits for what is written behind: so many seconds, or as long as the schema says.
    #[pyo3(signature = (seconds, event_loop=None))]
    fn drain<'py>(
        &self,
        py: Python<'py>,
        seconds: Option<f64>,
        event_loop: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let system = self.0.get(py)?;
        run::run(py, event_loop, async move {
            let drained = match seconds {
                Some(seconds) => {
                    system.drain(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)).await
                }
                None => system.close().await,
            };
            Ok(told(drained))
        })
    }

    /// Lets go of the store. What is under way ends by itself.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let system = self.0.system.get(py)?.write().take();
        let kept = std::mem::take(&mut *self.0.kept.lock());
        let runtime = run::runtime()?;
        py.detach(|| {
            let _inside = runtime.enter();
            for slot in kept.iter().filter_map(Weak::upgrade) {
                slot.let_go();
            }
            drop(system);
        });
        Ok(())
    }

    /// Several steps together. Each is (what, entity, …).
    #[pyo3(signature = (steps, token, event_loop=None))]
    fn transact<'py>(
        &self,
        py: Python<'py>,
        steps: &Bound<'py, PyList>,
        token: Option<String>,
        event_loop: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let system = self.0.get(py)?;
        let schema = system.schema();
        let mut transaction = system.transaction();
        for step in steps.iter() {
            let (what, name, first, second): (String, String, Bound<'py, PyAny>, Bound<'py, PyAny>) =
                step.extract()?;
            let (on, entity) = shelf::entity_of(py, &system, &name)?;
            let key = |given: &Bound<'py, PyAny>| value::key_in(schema, entity, given);
            transaction = match what.as_str() {
                "create" => transaction.create(&on, draft(schema, entity, &first, None)?),
                "put" => {
                    let meta = second.cast::<Meta>().ok().map(|meta| meta.get().read());
                    transaction.put(&on, draft(schema, entity, &first, meta)?)
                }
                "update" => {
                    transaction.update(shelf::update(schema, entity, on.update(key(&first)?), &second)?)
                }
                "delete" => transaction.delete(&on, key(&first)?),
                "check" => transaction.check(&on, key(&first)?),
                _ => transaction.check_absent(&on, key(&first)?),
            };
        }
        if let Some(token) = token {
            transaction = transaction.token(token);
        }
        run::run(py, event_loop, async move {
            transaction.run().await?;
            Ok(run::none())
        })
    }

    /// Writes the members of a collection together: a list of (entity, fields).
    #[pyo3(signature = (name, members, event_loop=None))]
    fn collection_put<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        members: &Bound<'py, PyAny>,
        event_loop: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let system = self.0.get(py)?;
        let collection = shelf::collection(py, &system, name)?;
        let members = shelf::members_in(system.schema(), members)?;
        run::run(py, event_loop, async move {
            collection.put(members).await?;
            Ok(run::none())
        })
    }

    #[pyo3(signature = (name, key, event_loop=None))]
    fn collection_get<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        key: &Bound<'py, PyAny>,
        event_loop: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let system = self.0.get(py)?;
        let collection = shelf::collection(py, &system, name)?;
        let key = collection_key(&system, name, key)?;
        run::run(py, event_loop, async move {
            let found = collection.get(key).await?;
            Ok(found.map_or_else(run::none, |entries| shelf::entries(&system, entries, How::default())))
        })
    }

    #[pyo3(signature = (name, key, load, event_loop=None))]
    fn collection_fetch<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        key: &Bound<'py, PyAny>,
        load: Bound<'py, PyAny>,
        event_loop: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let system = self.0.get(py)?;
        let key = collection_key(&system, name, key)?;
        shelf::fetch_collection(py, &system, name, key, load, event_loop)
    }

    #[pyo3(signature = (name, key, event_loop=None))]
    fn collection_delete<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        key: &Bound<'py, PyAny>,
        event_loop: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let system = self.0.get(py)?;
        let collection = shelf::collection(py, &system, name)?;
        let key = collection_key(&system, name, key)?;
        run::run(py, event_loop, async move { Ok(run::reply(collection.delete(key).await?)) })
    }
}

/// The key of a collection: the fields of the partition that its members share.
fn collection_key(system: &larder::System, name: &str, key: &Bound<'_, PyAny>) -> PyResult<Fields> {
    let arguments = shelf::partition(system.schema(), name);
    let names: Vec<_> = arguments.iter().map(|argument| (&*argument.name, &argument.kind)).collect();
    if names.is_empty() {
        return Ok(Fields::new());
    }
    value::named_values(system.schema(), name, &names, key)
}

fn told(drained: Drained) -> Reply {
    Box::new(move |py| {
        let out = PyDict::new(py);
        out.set_item("written", drained.written())?;
        out.set_item("waiting", drained.waiting())?;
        out.set_item("lost", drained.lost())?;
        let unwritten = PyList::empty(py);
        for write in drained.unwritten() {
            unwritten.append((&write.entity, &write.key, &write.reason))?;
        }
        out.set_item("unwritten", unwritten)?;
        Ok(out.into_any())
    })
}
