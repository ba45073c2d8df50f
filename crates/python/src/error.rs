//! Errors of the layer as Python's: classes with fields, made in `larder/_errors.py`.

use larder::Error;
use larder::store;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyModule};

use crate::load::{self, Function};

/// Why work failed.
pub(crate) enum Failure {
    Layer(Box<Error>),
    /// Of a fetch with this loader.
    Fetch(Box<Error>, Function),
    /// An error that only Python knows: its kind and what it says.
    Own(&'static str, String),
    /// What the program itself raised, or what was asked wrongly.
    Python(PyErr),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Layer(Box::new(error))
    }
}

impl From<store::Error> for Failure {
    fn from(error: store::Error) -> Self {
        Self::Layer(Box::new(error.into()))
    }
}

impl From<PyErr> for Failure {
    fn from(error: PyErr) -> Self {
        Self::Python(error)
    }
}

impl Failure {
    pub(crate) fn into_err(self, py: Python<'_>) -> PyErr {
        match self {
            Self::Layer(error) => made(py, &error),
            Self::Fetch(error, own) => load::failure(py, &error, &own),
            Self::Own(kind, message) => raise(py, kind, &message),
            Self::Python(error) => error,
        }
    }
}

/// A module of the package that this one uses.
pub(crate) fn helper<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyModule>> {
    PyModule::import(py, name)
}

/// An error that only Python knows.
pub(crate) fn raise(py: Python<'_>, kind: &str, message: &str) -> PyErr {
    build(py, kind, message, &PyDict::new(py)).unwrap_or_else(|error| error)
}

/// An error of the layer.
pub(crate) fn made(py: Python<'_>, error: &Error) -> PyErr {
    object(py, error).map_or_else(|error| error, PyErr::from_value)
}

pub(crate) fn object<'py>(py: Python<'py>, error: &Error) -> PyResult<Bound<'py, PyAny>> {
    let fields = PyDict::new(py);
    let about = |entity: &str, key: &str| {
        fields.set_item("entity", entity)?;
        fields.set_item("key", key)
    };
    let kind = match error {
        Error::Invalid(invalid) => {
            let violation = helper(py, "larder._errors")?.getattr("Violation")?;
            let violations = PyList::empty(py);
            for found in &invalid.violations {
                let fault = format!("{:?}", found.fault).to_lowercase();
                let (rule, value) = (&found.rule, &found.value);
                violations.append(violation.call1((&found.path, &found.attribute, fault, rule, value))?)?;
            }
            fields.set_item("entity", &invalid.entity)?;
            fields.set_item("violations", violations)?;
            "invalid"
        }
        Error::Exists { entity, key } => {
            about(entity, key)?;
            "exists"
        }
        Error::Missing { entity, key } => {
            about(entity, key)?;
            "missing"
        }
        Error::Conflict { entity, key, cause } => {
            about(entity, key)?;
            fields.set_item("cause", cause)?;
            "conflict"
        }
        Error::State { entity, key, transition, found, wanted } => {
            about(entity, key)?;
            fields.set_item("transition", transition)?;
            fields.set_item("found", found)?;
            fields.set_item("wanted", wanted)?;
            "state"
        }
        Error::LeaseLost { entity, key, cause } => {
            about(entity, key)?;
            fields.set_item("cause", cause)?;
            "lease_lost"
        }
        Error::Absent { entity, key } => {
            about(entity, key)?;
            "absent"
        }
        Error::Store(store) => {
            fields.set_item("transient", store.is_transient())?;
            "store"
        }
        Error::Source { entity, key, cause } => {
            about(entity, key)?;
            fields.set_item("cause", cause.to_string())?;
            "source"
        }
        Error::Down { entity, key, store, source_cause } => {
            about(entity, key)?;
            fields.set_item("store", object(py, store)?)?;
            fields.set_item("cause", source_cause.to_string())?;
            "down"
        }
        Error::TooLarge { entity, key, bytes, limit, .. } => {
            about(entity, key)?;
            fields.set_item("bytes", bytes)?;
            fields.set_item("limit", limit)?;
            "too_large"
        }
        Error::QueueFull { entity, key } => {
            about(entity, key)?;
            "queue_full"
        }
        Error::Corrupt { entity, key, cause } => {
            about(entity, key)?;
            fields.set_item("cause", cause)?;
            "corrupt"
        }
        Error::Key { entity, cause } => {
            fields.set_item("entity", entity)?;
            fields.set_item("cause", cause.to_string())?;
            "key"
        }
        Error::Record { entity, cause } => {
            fields.set_item("entity", entity)?;
            fields.set_item("cause", cause.to_string())?;
            "record"
        }
        Error::Environment(_) => "environment",
        Error::Cursor { cause } => {
            fields.set_item("cause", *cause)?;
            "cursor"
        }
        Error::Cancelled(obstacles) => {
            let obstacle = helper(py, "larder._errors")?.getattr("Obstacle")?;
            let all = PyList::empty(py);
            for found in obstacles {
                all.append(obstacle.call1((found.step, &found.entity, &found.key, &found.cause))?)?;
            }
            fields.set_item("obstacles", all)?;
            "cancelled"
        }
        Error::NotAllowed(_) => "not_allowed",
        _ => "other",
    };
    let transient = error.is_transient();
    fields.set_item("transient", transient)?;
    Ok(build(py, kind, &error.to_string(), &fields)?.into_value(py).into_bound(py).into_any())
}

fn build(py: Python<'_>, kind: &str, message: &str, fields: &Bound<'_, PyDict>) -> PyResult<PyErr> {
    let made = helper(py, "larder._errors")?.getattr("make")?.call1((kind, message, fields));
    match made {
        Ok(error) => Ok(PyErr::from_value(error)),
        Err(error) => Err(PyRuntimeError::new_err(format!("{message} ({error})"))),
    }
}

/// What was raised, as a text: its class and what it says.
pub(crate) fn told(py: Python<'_>, error: &PyErr) -> String {
    let kind = error.get_type(py).name().map_or_else(|_| "an error".to_owned(), |name| name.to_string());
    let said = error.value(py).str().map_or_else(|_| String::new(), |text| text.to_string());
    if said.is_empty() { kind } else { format!("{kind}: {said}") }
}
