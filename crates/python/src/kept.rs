//! A record as Python gets it: a `dict` of its fields, and what is known of it besides.

use larder::{Entry, Fetched, Kept, Origin, StaleReason, System, UnixTime};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::run::Reply;
use crate::{error, value};

/// What is known of a record besides its fields.
#[pyclass(frozen, module = "larder._native")]
pub(crate) struct Meta {
    pub(crate) kept: Kept,
    origin: Option<Origin>,
    stored_at: Option<UnixTime>,
    age: f64,
    store_error: Option<larder::Error>,
    changed: Option<bool>,
    lifecycles: Vec<String>,
}

#[pymethods]
impl Meta {
    /// Where it came from: l1, store, source or stale. `None` of what was not fetched.
    #[getter]
    fn origin(&self) -> Option<&'static str> {
        self.origin.as_ref().map(|origin| match origin {
            Origin::L1 => "l1",
            Origin::Store => "store",
            Origin::Source => "source",
            _ => "stale",
        })
    }

    #[getter]
    fn stale_reason(&self) -> Option<&'static str> {
        match self.origin.as_ref()? {
            Origin::Stale(StaleReason::Refreshing) => Some("refreshing"),
            Origin::Stale(StaleReason::SlowSource) => Some("slow_source"),
            Origin::Stale(_) => Some("source_failed"),
            _ => None,
        }
    }

    /// How the source failed, where something stale is given because of that.
    #[getter]
    fn stale_cause(&self) -> Option<String> {
        match self.origin.as_ref()? {
            Origin::Stale(StaleReason::SourceFailed(cause)) => Some(cause.to_string()),
            _ => None,
        }
    }

    /// How old it was when it was given.
    #[getter]
    fn age<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let millis = (self.age * 1000.0) as i64;
        Ok(larder::jiff::SignedDuration::from_millis(millis).into_pyobject(py)?.into_any())
    }

    #[getter]
    fn stored_at<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.stored_at.map(|at| moment(py, at)).transpose()
    }

    /// How the store failed, where the answer came without it.
    #[getter]
    fn store_error<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.store_error.as_ref().map(|found| error::object(py, found)).transpose()
    }

    /// Whether a put changed anything.
    #[getter]
    fn changed(&self) -> Option<bool> {
        self.changed
    }

    #[getter]
    fn version(&self) -> Option<i64> {
        self.kept.version()
    }

    /// When it ends.
    #[getter]
    fn expires<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.kept.expires().map(|at| moment(py, at)).transpose()
    }

    /// When the store removes it.
    #[getter]
    fn removed<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.kept.removed().map(|at| moment(py, at)).transpose()
    }

    /// The state it was in, by lifecycle.
    #[getter]
    fn states<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let states = PyDict::new(py);
        for lifecycle in &self.lifecycles {
            states.set_item(lifecycle, self.kept.state(lifecycle))?;
        }
        Ok(states)
    }

    /// Its key as it is stored, by attribute.
    #[getter]
    fn stored_key<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let key = PyDict::new(py);
        for (name, stored) in self.kept.key() {
            key.set_item(name, value::stored_out(py, stored)?)?;
        }
        Ok(key)
    }

    fn __repr__(&self) -> String {
        let origin = self.origin().map_or_else(|| "None".to_owned(), |origin| format!("'{origin}'"));
        let version = self.version().map_or_else(|| "None".to_owned(), |version| version.to_string());
        format!("Meta(origin={origin}, version={version})")
    }
}

pub(crate) fn moment(py: Python<'_>, at: UnixTime) -> PyResult<Bound<'_, PyAny>> {
    let at = larder::jiff::Timestamp::from_millisecond(at.millis());
    value::moment_out(py, at.unwrap_or_default())
}

/// How a record was had.
#[derive(Default)]
pub(crate) struct How {
    pub(crate) origin: Option<Origin>,
    pub(crate) stored_at: Option<UnixTime>,
    pub(crate) age: f64,
    pub(crate) store_error: Option<larder::Error>,
    pub(crate) changed: Option<bool>,
}

impl How {
    pub(crate) fn fetched<R>(fetched: &Fetched<R>) -> Self {
        Self {
            origin: Some(fetched.origin().clone()),
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
    let schema = system.schema();
    let (fields, lifecycles) = match schema.entity(entity) {
        Some((_, entity)) => (
            value::fields_out(py, schema, entity, &entry.fields)?,
            entity.lifecycles.iter().map(|lifecycle| lifecycle.name.clone()).collect(),
        ),
        None => (PyDict::new(py), Vec::new()),
    };
    let How { origin, stored_at, age, store_error, changed } = how;
    let kept = entry.kept().clone();
    let meta = Meta { kept, origin, stored_at, age, store_error, changed, lifecycles };
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
