//! A record as Python gets it: a `dict` of its fields, and what is known of it besides. Neither holds on to the store that it came from.

use std::collections::BTreeSet;

use larder::{Entry, Fetched, Origin, StaleReason, System, UnixTime};
use larder_model::Item;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::run::Reply;
use crate::{error, value};

/// What is known of a record besides its fields.
#[pyclass(frozen, module = "larder._native")]
pub(crate) struct Meta {
    how: How,
    key: Item,
    version: Option<i64>,
    expires: Option<UnixTime>,
    removed: Option<UnixTime>,
    is_part: bool,
    /// The state it was in, by lifecycle.
    states: Vec<(String, Option<String>)>,
}

/// What a draft takes of it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Read {
    pub(crate) version: Option<i64>,
    pub(crate) is_part: bool,
}

impl Meta {
    pub(crate) fn read(&self) -> Read {
        Read { version: self.version, is_part: self.is_part }
    }
}

#[pymethods]
impl Meta {
    /// Where it came from: l1, store, source or stale. `None` of what was not fetched.
    #[getter]
    fn origin(&self) -> Option<&'static str> {
        self.how.origin
    }

    #[getter]
    fn stale_reason(&self) -> Option<&'static str> {
        self.how.stale_reason
    }

    /// How the source failed, where something stale is given because of that.
    #[getter]
    fn stale_cause(&self) -> Option<&str> {
        self.how.stale_cause.as_deref()
    }

    /// How old it was when it was given.
    #[getter]
    fn age<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let millis = (self.how.age * 1000.0) as i64;
        Ok(larder::jiff::SignedDuration::from_millis(millis).into_pyobject(py)?.into_any())
    }

    #[getter]
    fn stored_at<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.how.stored_at.map(|at| moment(py, at)).transpose()
    }

    /// How the store failed, where the answer came without it.
    #[getter]
    fn store_error<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.how.store_error.as_ref().map(|found| error::object(py, found)).transpose()
    }

    /// Whether a put changed anything.
    #[getter]
    fn changed(&self) -> Option<bool> {
        self.how.changed
    }

    #[getter]
    fn version(&self) -> Option<i64> {
        self.version
    }

    /// Whether it is what an index shows of a record, and not all of it.
    #[getter]
    fn is_part(&self) -> bool {
        self.is_part
    }

    /// When it ends.
    #[getter]
    fn expires<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.expires.map(|at| moment(py, at)).transpose()
    }

    /// When the store removes it.
    #[getter]
    fn removed<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.removed.map(|at| moment(py, at)).transpose()
    }

    /// The state it was in, by lifecycle.
    #[getter]
    fn states<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let states = PyDict::new(py);
        for (lifecycle, state) in &self.states {
            states.set_item(lifecycle, state)?;
        }
        Ok(states)
    }

    /// Its key as it is stored, by attribute.
    #[getter]
    fn stored_key<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let key = PyDict::new(py);
        for (name, stored) in &self.key {
            key.set_item(name, value::stored_out(py, stored)?)?;
        }
        Ok(key)
    }

    fn __repr__(&self) -> String {
        let origin = self.how.origin.map_or_else(|| "None".to_owned(), |origin| format!("'{origin}'"));
        let version = self.version.map_or_else(|| "None".to_owned(), |version| version.to_string());
        format!("Meta(origin={origin}, version={version})")
    }
}

pub(crate) fn moment(py: Python<'_>, at: UnixTime) -> PyResult<Bound<'_, PyAny>> {
    let at = larder::jiff::Timestamp::from_millisecond(at.millis());
    value::moment_out(py, at.unwrap_or_default())
}

/// How a record was had.
#[derive(Clone, Default)]
pub(crate) struct How {
    origin: Option<&'static str>,
    stale_reason: Option<&'static str>,
    stale_cause: Option<String>,
    stored_at: Option<UnixTime>,
    age: f64,
    store_error: Option<larder::Error>,
    changed: Option<bool>,
}

impl How {
    pub(crate) fn put(changed: bool, store_error: Option<&larder::Error>) -> Self {
        Self { changed: Some(changed), store_error: store_error.cloned(), ..Self::default() }
    }

    /// In words: what a loader raised, and all that it saw, is not kept by a record.
    pub(crate) fn fetched<R>(fetched: &Fetched<R>) -> Self {
        let (origin, stale_reason, stale_cause) = match fetched.origin() {
            Origin::L1 => ("l1", None, None),
            Origin::Store => ("store", None, None),
            Origin::Source => ("source", None, None),
            Origin::Stale(StaleReason::Refreshing) => ("stale", Some("refreshing"), None),
            Origin::Stale(StaleReason::SlowSource) => ("stale", Some("slow_source"), None),
            Origin::Stale(StaleReason::SourceFailed(cause)) => {
                ("stale", Some("source_failed"), Some(cause.to_string()))
            }
            _ => ("stale", None, None),
        };
        Self {
            origin: Some(origin),
            stale_reason,
            stale_cause,
            stored_at: Some(fetched.stored_at()),
            age: fetched.age().as_secs_f64(),
            store_error: fetched.store_error().cloned(),
            changed: None,
        }
    }
}

/// The fields of a record, and its meta.
pub(crate) fn record_out<'py>(
    py: Python<'py>,
    system: &System,
    entity: &str,
    entry: &Entry,
    how: How,
) -> PyResult<Bound<'py, PyTuple>> {
    part_out(py, system, entity, entry, how, None)
}

/// The same of what an index shows, of which only these fields are there.
pub(crate) fn part_out<'py>(
    py: Python<'py>,
    system: &System,
    entity: &str,
    entry: &Entry,
    how: How,
    shown: Option<&BTreeSet<String>>,
) -> PyResult<Bound<'py, PyTuple>> {
    let schema = system.schema();
    let kept = entry.kept();
    let (fields, states) = match schema.entity(entity) {
        Some((_, entity)) => {
            let state = |name: &String| (name.clone(), kept.state(name).map(str::to_owned));
            let states = entity.lifecycles.iter().map(|lifecycle| state(&lifecycle.name)).collect();
            (value::fields_out(py, schema, entity, &entry.fields, shown)?, states)
        }
        None => (PyDict::new(py), Vec::new()),
    };
    let meta = Meta {
        how,
        key: kept.key().clone(),
        version: kept.version(),
        expires: kept.expires(),
        removed: kept.removed(),
        is_part: kept.is_part(),
        states,
    };
    (fields, Bound::new(py, meta)?).into_pyobject(py)
}

pub(crate) fn record(system: &System, entity: &str, entry: Entry, how: How) -> Reply {
    let (system, entity) = (system.clone(), entity.to_owned());
    Box::new(move |py| Ok(record_out(py, &system, &entity, &entry, how)?.into_any()))
}

pub(crate) fn perhaps(system: &System, entity: &str, entry: Option<Entry>) -> Reply {
    match entry {
        Some(entry) => record(system, entity, entry, How::default()),
        None => crate::run::none(),
    }
}
