//! Claims and leases, for Python. A lease renews itself while it is there, whoever holds Python's lock.

use std::sync::Arc;

use larder::{Claim, Entry, Error, Standing, System};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use tokio::sync::Mutex as Turn;

use crate::error::Failure;
use crate::kept::{self, How, record, record_out};
use crate::run::{self, Own, Reply};
use crate::shelf::taken;
use crate::system::{Handle, Slot};
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
    handle: Arc<Handle>,
    entity: String,
    claims: Own<Arc<Slot<Arc<Turn<Claiming>>>>>,
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
    pub(crate) fn new(handle: &Arc<Handle>, entity: String, claim: Claim<Entry>) -> Self {
        let claims = Arc::new(Turn::new(Claiming { asked: Some(claim), going: None }));
        Self { handle: Arc::clone(handle), entity, claims: Own::new(handle.keep(claims)) }
    }
}

#[pymethods]
impl Claims {
    /// The next lease with its record, or `None`.
    #[pyo3(signature = (event_loop=None))]
    fn next<'py>(&self, py: Python<'py>, event_loop: Loop<'py>) -> Answer<'py> {
        let (system, handle, entity) = (self.handle.get(py)?, Arc::clone(&self.handle), self.entity.clone());
        let turn = self.claims.get(py)?.get().ok_or_else(|| taken("claim"))?;
        run::run(py, event_loop, async move {
            let mut claiming = turn.lock().await;
            let next = claiming.going().await?.next().await?;
            Ok(next.map_or_else(run::none, |lease| held(&handle, &system, entity, lease)))
        })
    }
}

/// Something that this worker holds.
#[pyclass(frozen, module = "larder._native")]
pub(crate) struct Lease {
    handle: Arc<Handle>,
    entity: String,
    lease: Own<Arc<Slot<Arc<larder::Lease<Entry>>>>>,
    fence: i64,
    owner: String,
    attempts: i64,
}

/// A lease, and the record that is held: (lease, record).
pub(crate) fn held(
    handle: &Arc<Handle>,
    system: &System,
    entity: String,
    lease: larder::Lease<Entry>,
) -> Reply {
    let (handle, system) = (Arc::clone(handle), system.clone());
    Box::new(move |py| {
        let record = record_out(py, &system, &entity, &lease, How::default())?;
        let lease = Lease {
            fence: lease.fence(),
            owner: lease.owner().to_owned(),
            attempts: lease.attempts(),
            lease: Own::new(handle.keep(Arc::new(lease))),
            handle,
            entity,
        };
        Ok((lease, record).into_pyobject(py)?.into_any())
    })
}

impl Lease {
    fn held(&self, py: Python<'_>) -> PyResult<Arc<larder::Lease<Entry>>> {
        self.lease.get(py)?.get().ok_or_else(|| self.over(py))
    }

    /// For its end. Whoever watches it lets go of it first.
    fn last(&self, py: Python<'_>) -> PyResult<larder::Lease<Entry>> {
        let slot = self.lease.get(py)?;
        let lease = slot.take().ok_or_else(|| self.over(py))?;
        Arc::try_unwrap(lease).map_err(|lease| {
            slot.put(lease);
            taken("lease")
        })
    }

    /// Why there is none any more.
    fn over(&self, py: Python<'_>) -> PyErr {
        self.handle.get(py).err().unwrap_or_else(|| taken("lease"))
    }
}

#[pymethods]
impl Lease {
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
        Ok(self.lease.get(py)?.get().is_some())
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
        let (system, entity, lease) = (self.handle.get(py)?, self.entity.clone(), self.last(py)?);
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
        let (system, entity) = (self.handle.get(py)?, self.entity.clone());
        let Some((_, described)) = system.schema().entity(&entity) else { return Err(taken("lease")) };
        let params = value::fields_in(system.schema(), described, params)?;
        let lease = self.last(py)?;
        run::run(py, event_loop, async move {
            Ok(record(&system, &entity, lease.run(&transition, params).await?, How::default()))
        })
    }

    #[pyo3(signature = (event_loop=None))]
    fn release<'py>(&self, py: Python<'py>, event_loop: Loop<'py>) -> Answer<'py> {
        let (system, entity, lease) = (self.handle.get(py)?, self.entity.clone(), self.last(py)?);
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
