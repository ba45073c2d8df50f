//! Claims and leases, for Python. A lease renews itself while it is there, whoever holds Python's lock.

use std::sync::Arc;

use larder::{Claim, Entry, Error, Standing, System};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use tokio::sync::Mutex as Turn;

use crate::error::Failure;
use crate::kept::{self, How, record, record_out};
use crate::run::{self, Own, Reply};
use crate::shelf::taken;
use crate::value;

type Loop<'py> = Option<Bound<'py, PyAny>>;
type Answer<'py> = PyResult<Bound<'py, PyAny>>;

struct Claiming {
    /// Until it is started.
    asked: Option<Claim<Entry>>,
    going: Option<Result<larder::Claims<Entry>, Error>>,
}

/// What is claimed, one after the other. Whoever asks while another waits has the next turn, and a wait that was interrupted or failed
/// takes nothing from those who come later.
#[pyclass(frozen, module = "larder._native")]
pub(crate) struct Claims {
    system: Own<System>,
    entity: String,
    claims: Own<Arc<Turn<Claiming>>>,
}

impl Claiming {
    async fn going(&mut self) -> Result<&mut larder::Claims<Entry>, Failure> {
        if let Some(asked) = self.asked.take() {
            // It is there at once: nobody is interrupted here.
            self.going = Some(asked.await);
        }
        match &mut self.going {
            Some(Ok(claims)) => Ok(claims),
            Some(Err(error)) => Err(error.clone().into()),
            None => Err(taken("claim").into()),
        }
    }
}

impl Claims {
    pub(crate) fn new(system: System, entity: String, claim: Claim<Entry>) -> Self {
        let claims = Own::new(Arc::new(Turn::new(Claiming { asked: Some(claim), going: None })));
        Self { system: Own::new(system), entity, claims }
    }
}

#[pymethods]
impl Claims {
    /// The next lease, or `None`.
    #[pyo3(signature = (event_loop=None))]
    fn next<'py>(&self, py: Python<'py>, event_loop: Loop<'py>) -> Answer<'py> {
        let (system, entity) = (self.system.get(py)?.clone(), self.entity.clone());
        let turn = Arc::clone(self.claims.get(py)?);
        run::run(py, event_loop, async move {
            let mut claiming = turn.lock().await;
            let next = claiming.going().await?.next().await?;
            Ok(next.map_or_else(run::none, |lease| run::reply(Lease::new(system, entity, lease))))
        })
    }
}

/// Something that this worker holds.
#[pyclass(frozen, module = "larder._native")]
pub(crate) struct Lease {
    system: Own<System>,
    entity: String,
    lease: Own<Mutex<Option<Arc<larder::Lease<Entry>>>>>,
    record: Entry,
    fence: i64,
    owner: String,
    attempts: i64,
}

impl Lease {
    pub(crate) fn new(system: System, entity: String, lease: larder::Lease<Entry>) -> Self {
        Self {
            system: Own::new(system),
            entity,
            record: (*lease).clone(),
            fence: lease.fence(),
            owner: lease.owner().to_owned(),
            attempts: lease.attempts(),
            lease: Own::new(Mutex::new(Some(Arc::new(lease)))),
        }
    }

    fn held(&self, py: Python<'_>) -> PyResult<Arc<larder::Lease<Entry>>> {
        self.lease.get(py)?.lock().clone().ok_or_else(|| taken("lease"))
    }

    /// For its end. Whoever watches it lets go of it first.
    fn last(&self, py: Python<'_>) -> PyResult<larder::Lease<Entry>> {
        let lease = self.lease.get(py)?.lock().take().ok_or_else(|| taken("lease"))?;
        Arc::try_unwrap(lease).map_err(|lease| {
            if let Ok(slot) = self.lease.get(py) {
                *slot.lock() = Some(lease);
            }
            taken("lease")
        })
    }
}

#[pymethods]
impl Lease {
    fn record<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(record_out(py, self.system.get(py)?, &self.entity, &self.record, How::default())?.into_any())
    }

    #[getter]
    fn fence(&self) -> i64 {
        self.fence
    }

    #[getter]
    fn owner(&self) -> &str {
        &self.owner
    }

    #[getter]
    fn attempts(&self) -> i64 {
        self.attempts
    }

    #[getter]
    fn until<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.held(py)?.until().map(|until| kept::moment(py, until)).transpose()
    }

    /// Whether it is still to be finished or given back.
    #[getter]
    fn is_held(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.lease.get(py)?.lock().is_some())
    }

    #[getter]
    fn is_lost(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.held(py)?.is_lost())
    }

    #[pyo3(signature = (event_loop=None))]
    fn renew<'py>(&self, py: Python<'py>, event_loop: Loop<'py>) -> Answer<'py> {
        let lease = self.held(py)?;
        run::run(py, event_loop, async move {
            let renewed = lease.renew().await;
            drop(lease);
            renewed?;
            Ok(run::none())
        })
    }

    #[pyo3(signature = (event_loop=None))]
    fn finish<'py>(&self, py: Python<'py>, event_loop: Loop<'py>) -> Answer<'py> {
        let (system, entity, lease) = (self.system.get(py)?.clone(), self.entity.clone(), self.last(py)?);
        run::run(py, event_loop, async move {
            Ok(record(&system, &entity, lease.finish().await?, How::default()))
        })
    }

    #[pyo3(signature = (transition, params, event_loop=None))]
    fn run<'py>(
        &self,
        py: Python<'py>,
        transition: String,
        params: &Bound<'py, PyAny>,
        event_loop: Loop<'py>,
    ) -> Answer<'py> {
        let (system, entity) = (self.system.get(py)?.clone(), self.entity.clone());
        let Some((_, described)) = system.schema().entity(&entity) else { return Err(taken("lease")) };
        let params = value::fields_in(system.schema(), described, params)?;
        let lease = self.last(py)?;
        run::run(py, event_loop, async move {
            Ok(record(&system, &entity, lease.run(&transition, params).await?, How::default()))
        })
    }

    #[pyo3(signature = (event_loop=None))]
    fn release<'py>(&self, py: Python<'py>, event_loop: Loop<'py>) -> Answer<'py> {
        let (system, entity, lease) = (self.system.get(py)?.clone(), self.entity.clone(), self.last(py)?);
        run::run(py, event_loop, async move {
            Ok(record(&system, &entity, lease.release().await?, How::default()))
        })
    }

    #[pyo3(signature = (error, event_loop=None))]
    fn retry<'py>(&self, py: Python<'py>, error: String, event_loop: Loop<'py>) -> Answer<'py> {
        let lease = self.last(py)?;
        run::run(py, event_loop, async move {
            lease.retry(error).await?;
            Ok(run::none())
        })
    }
}

/// (record, standing) each.
pub(crate) fn standings(system: System, entity: String, standings: Vec<Standing<Entry>>) -> Reply {
    Box::new(move |py| {
        let out = PyList::empty(py);
        for standing in &standings {
            let about = PyDict::new(py);
            about.set_item("state", &standing.state)?;
            about.set_item("since", standing.since.map(|at| value::moment_out(py, at)).transpose()?)?;
            about.set_item("owner", &standing.owner)?;
            about.set_item("until", standing.until.map(|at| kept::moment(py, at)).transpose()?)?;
            about.set_item("fence", standing.fence)?;
            about.set_item("attempts", standing.attempts)?;
            about.set_item("exhausted", standing.exhausted)?;
            out.append((record_out(py, &system, &entity, &standing.record, How::default())?, about))?;
        }
        Ok(out.into_any())
    })
}
