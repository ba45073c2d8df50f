//! A store, and what tests do with it: its clock, its faults, what it was asked.

use std::time::Duration;

use larder::Address;
use larder::store::Fault;
use parking_lot::RwLock;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use crate::run::{self, Own};
use crate::{error, kept};

#[pyclass(frozen, module = "larder._native")]
pub(crate) struct Store {
    store: Own<RwLock<Option<larder::Store>>>,
    observed: bool,
}

impl Store {
    pub(crate) fn new(store: larder::Store, observed: bool) -> Self {
        Self { store: Own::new(RwLock::new(Some(store))), observed }
    }

    pub(crate) fn get(&self, py: Python<'_>) -> PyResult<larder::Store> {
        let store = self.store.get(py)?.read().clone();
        store.ok_or_else(|| error::raise(py, "closed", "the store was closed: open it again"))
    }

    fn watched(&self, py: Python<'_>) -> PyResult<larder::Store> {
        if self.observed {
            return self.get(py);
        }
        Err(PyRuntimeError::new_err(
            "this store is not observed: open `memory:`, or another with `larder.Store(…, observed=True)`",
        ))
    }
}

fn seconds(seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds).map_err(|error| PyValueError::new_err(error.to_string()))
}

#[pymethods]
impl Store {
    /// Opens a store. Without an address, the one that LARDER_STORE names.
    #[staticmethod]
    #[pyo3(signature = (address, observed, event_loop=None))]
    fn open<'py>(
        py: Python<'py>,
        address: Option<String>,
        observed: bool,
        event_loop: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        run::run(py, event_loop, async move {
            let (store, observed) = match address {
                Some(text) => match text.parse::<Address>()? {
                    Address::Memory => (larder::Store::memory().await, true),
                    address => (larder::Store::open(&address).await?, observed),
                },
                None => (larder::Store::from_env().await?, observed),
            };
            let watched = observed && store.place() != "memory:";
            let store = if watched { store.observed() } else { store };
            Ok(run::reply(Self::new(store, observed)))
        })
    }

    /// Lets go of it: the last to do so frees its directory.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let store = self.store.get(py)?.write().take();
        let runtime = run::runtime()?;
        py.detach(|| {
            let _inside = runtime.enter();
            drop(store);
        });
        Ok(())
    }

    #[getter]
    fn place(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.get(py)?.place())
    }

    fn now<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        kept::moment(py, self.get(py)?.clock().now())
    }

    fn advance(&self, py: Python<'_>, by: f64) -> PyResult<()> {
        self.get(py)?.clock().advance(seconds(by)?);
        Ok(())
    }

    fn stop_clock(&self, py: Python<'_>) -> PyResult<()> {
        self.get(py)?.clock().stop();
        Ok(())
    }

    #[pyo3(signature = (what, probability=1.0, by=0.0))]
    fn fault(&self, py: Python<'_>, what: &str, probability: f64, by: f64) -> PyResult<()> {
        let store = self.watched(py)?;
        let faults = store.faults();
        match what {
            "throttle" => faults.throttle(probability),
            "fail" => faults.fail(probability),
            "lose_answers" => faults.lose_answers(probability),
            "delay" => faults.delay(probability, seconds(by)?),
            "down" => faults.down(),
            "up" => faults.up(),
            "reset" => faults.reset(),
            _ => return Err(PyValueError::new_err(format!("there is no fault `{what}`"))),
        };
        Ok(())
    }

    fn fail_next(&self, py: Python<'_>, count: u64, what: &str) -> PyResult<()> {
        let fault = match what {
            "throttle" => Fault::Throttle,
            "unreachable" => Fault::Unreachable,
            "lost_answer" => Fault::LostAnswer,
            "error" => Fault::Error,
            _ => {
                return Err(PyValueError::new_err(format!(
                    "there is no fault `{what}`: throttle, unreachable, lost_answer, error"
                )));
            }
        };
        self.watched(py)?.faults().fail_next(count, fault);
        Ok(())
    }

    fn seed(&self, py: Python<'_>, seed: u64) -> PyResult<()> {
        self.watched(py)?.faults().seed(seed);
        Ok(())
    }

    fn only(&self, py: Python<'_>, operations: Vec<String>) -> PyResult<()> {
        let operations: Vec<&str> = operations.iter().map(String::as_str).collect();
        self.watched(py)?.faults().only(&operations);
        Ok(())
    }

    /// How often it was asked for an operation, or for any.
    #[pyo3(signature = (operation=None))]
    fn requests(&self, py: Python<'_>, operation: Option<&str>) -> PyResult<usize> {
        let store = self.watched(py)?;
        let requests = store.requests();
        Ok(operation.map_or_else(|| requests.total(), |operation| requests.count(operation)))
    }
}
