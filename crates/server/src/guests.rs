//! The way in for what is a part of this process and has people before it instead of programs: a console.
//!
//! A [`Guest`] has shown a key of the access file and its secret, once. Whatever is asked in their name from then on takes the way
//! of any request (`pipeline.rs`), and what is no request is decided as the endpoint decides it (`access.rs`).
//!
//! Promises:
//! - A key that was taken out of the access file, or has another secret there, is worth nothing from the next request on.
//! - Wrong keys are answered later and later, together with the wrong signatures of the same address.
//! - Whatever is done or refused is in the audit log.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Bytes;
use larder_auth::{Access, AccessKey};
use larder_engine::ops::{DescribeTable, Request};
use larder_engine::{Engine, Lookback, Naming};
use larder_model::{ApiError, Arn, Clock, Item, TableName, UnixTime};
use tokio::task::spawn_blocking;

use crate::Principals;
use crate::access::{CHANGES, Gate, HISTORY, METRICS, REQUESTS, Visitor};
use crate::budget::Budget;
use crate::connections::Peer;
use crate::pipeline::{Call, Pipeline, Refused, Sender};

/// Lets in who shows a key.
#[derive(Clone, Debug)]
pub struct Guests(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    principals: Arc<Principals>,
    gate: Arc<Gate>,
    pipeline: Pipeline,
    engine: Engine,
    clock: Clock,
    budget: Arc<Budget>,
}

/// Somebody who has shown a key.
#[derive(Clone, Debug)]
pub struct Guest {
    of: Guests,
    key: AccessKey,
    name: String,
    /// Where they say to be, as a signature does.
    region: String,
    peer: Peer,
    user_agent: Option<String>,
}

/// What a console shows of a server itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// The last requests: `larder:ReadRequests`.
    Requests,
    /// What was counted: `larder:ReadMetrics`, as for `/metrics`.
    Metrics,
}

impl Shown {
    fn action(self) -> &'static str {
        match self {
            Self::Requests => REQUESTS,
            Self::Metrics => METRICS,
        }
    }
}

impl Guests {
    pub(crate) fn new(
        principals: Arc<Principals>,
        gate: Arc<Gate>,
        engine: Engine,
        clock: Clock,
        budget: Arc<Budget>,
    ) -> Self {
        // What a console asks is not among the requests that it shows.
        let pipeline = Pipeline::new(engine.clone(), Arc::clone(&gate), None);
        Self(Arc::new(Inner { principals, gate, pipeline, engine, clock, budget }))
    }

    /// Lets in whose key this is. Who shows wrong ones again and again waits for the answer.
    pub async fn let_in(
        &self,
        key_id: &str,
        secret: &str,
        region: Option<&str>,
        peer: Peer,
        user_agent: Option<&str>,
    ) -> Result<Guest, ApiError> {
        let access = self.0.principals.now();
        let (principal, key) = match self.0.gate.recognize(&access, key_id, secret, peer) {
            Ok(known) => known,
            Err(stranger) => return Err(stranger.kept_waiting().await),
        };
        let guest = Guest {
            of: self.clone(),
            key: key.clone(),
            name: principal.name.clone(),
            region: region.filter(|region| !region.is_empty()).unwrap_or(Arn::REGION).to_owned(),
            peer,
            user_agent: user_agent.map(str::to_owned),
        };
        self.0.gate.note_sign_in(&guest.visitor(&access)?);
        Ok(guest)
    }
}

impl Guest {
    /// What the access file calls them.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn key_id(&self) -> &str {
        &self.key.id
    }

    /// Whether they are at the address where they showed their key.
    pub fn is_at(&self, peer: Peer) -> bool {
        self.peer.address.ip().to_canonical() == peer.address.ip().to_canonical()
    }

    /// A table as they call it: by its name if it is theirs, and with its region and account if it is another's.
    pub fn shown(&self, table: &TableName) -> String {
        let access = self.of.0.principals.now();
        let space = self.visitor(&access).ok().and_then(|visitor| visitor.space);
        match space {
            Some(space) if !table.is_in(&space) => {
                format!("{}/{}/{table}", table.region(), table.account())
            }
            _ => table.to_string(),
        }
    }

    /// Whether their key is still theirs.
    pub fn is_known(&self) -> bool {
        self.visitor(&self.of.0.principals.now()).is_ok()
    }

    /// Carries out what they ask for, if they may. Boxed, so that operations are compiled here, and not again where it is called.
    pub fn ask<'a>(
        &'a self,
        target: &'a str,
        body: Bytes,
    ) -> Pin<Box<dyn Future<Output = Result<Vec<u8>, ApiError>> + Send + 'a>> {
        Box::pin(self.carry_out(target, body))
    }

    async fn carry_out(&self, target: &str, body: Bytes) -> Result<Vec<u8>, ApiError> {
        let inner = &self.of.0;
        let mut share = inner.budget.outside();
        share.admit().map_err(|_| ApiError::Throttled)?;
        let call = Call {
            sender: Sender::Guest(self),
            target,
            host: "localhost",
            encoding: "",
            skip_damaged: false,
            body,
            share: &mut share,
        };
        match inner.pipeline.answer(call, inner.clock.trusted()).await {
            Ok(answered) => Ok(answered.body),
            Err(Refused::Error(error)) => Err(error),
            Err(Refused::Stranger(stranger)) => Err(stranger.kept_waiting().await),
            Err(Refused::TooLarge) => Err(ApiError::Throttled),
        }
    }

    /// Whether they might do this, as far as it is known before they ask.
    pub fn might(&self, request: &Request) -> bool {
        let access = self.of.0.principals.now();
        let Ok(visitor) = self.visitor(&access) else { return false };
        let mut request = request.clone();
        let resolved =
            visitor.space.as_ref().map_or(Ok(()), |space| request.resolve_names(Naming::In(space)).map(drop));
        resolved.is_ok() && self.of.0.gate.decide(&visitor, &request, &self.of.0.engine).is_ok()
    }

    /// Whether they may see what a console shows of the server itself.
    pub fn may_see(&self, what: Shown) -> Result<(), ApiError> {
        let access = self.of.0.principals.now();
        self.of.0.gate.authorize_action(&self.visitor(&access)?, what.action())
    }

    /// The same, before they ask: nothing is noted.
    pub fn might_see(&self, what: Shown) -> bool {
        let access = self.of.0.principals.now();
        self.visitor(&access)
            .is_ok_and(|visitor| self.of.0.gate.decide_action(&visitor, what.action()).is_ok())
    }

    /// Whether they might see what became of an item, or of all items of a table.
    pub fn might_look_back(&self, table: &TableName, key: Option<&Item>) -> bool {
        let (inner, access) = (&self.of.0, self.of.0.principals.now());
        let visitor = self.visitor(&access);
        visitor.is_ok_and(|visitor| {
            inner
                .gate
                .decide_on_table(&visitor, past(key), (&visitor.table(table), key), &inner.engine)
                .is_ok()
        })
    }

    /// What became of an item, or of all items of a table, as far as the change log has it and they may see it.
    pub async fn look_back(
        &self,
        table: &TableName,
        key: Option<Item>,
        before: Option<u64>,
        most: usize,
    ) -> Result<Lookback, ApiError> {
        let inner = &self.of.0;
        let table = {
            let access = inner.principals.now();
            let visitor = self.visitor(&access)?;
            let table = visitor.table(table);
            let on = (&table, key.as_ref());
            inner.gate.authorize_on_table(&visitor, past(key.as_ref()), on, &inner.engine)?;
            table
        };
        let (engine, now) = (inner.engine.clone(), inner.clock.now());
        let looked = spawn_blocking(move || engine.look_back(&table, key.as_ref(), before, most, now));
        let looked = looked.await.map_err(|error| ApiError::Internal { cause: error.to_string() })?;
        looked.map_err(ApiError::from)
    }

    /// How many items expire within a while, counted up to a bound: a figure of those that a description of the table has.
    pub fn expiring(
        &self,
        table: &TableName,
        within: Duration,
        most: usize,
    ) -> Result<Option<u64>, ApiError> {
        if !self.might(&Request::DescribeTable(DescribeTable { table: table.clone() })) {
            return Ok(None);
        }
        let table = &self.visitor(&self.of.0.principals.now())?.table(table);
        let (engine, now) = (&self.of.0.engine, self.of.0.clock.now());
        let seconds = i64::try_from(within.as_secs()).unwrap_or(i64::MAX);
        let until = UnixTime::from_seconds(now.seconds().saturating_add(seconds));
        Ok(Some(engine.expiring(table, now, until, most)? as u64))
    }

    fn visitor<'a>(&'a self, access: &'a Access) -> Result<Visitor<'a>, ApiError> {
        self.among(Some(access))
    }

    /// Who asks, among those there are.
    pub(crate) fn among<'a>(&'a self, access: Option<&'a Access>) -> Result<Visitor<'a>, ApiError> {
        let gate = &self.of.0.gate;
        let visitor = access.and_then(|access| {
            gate.visitor(access, &self.key, &self.region, self.peer, self.user_agent.as_deref())
        });
        visitor.ok_or_else(|| {
            let error = larder_auth::Error::UnrecognizedClient;
            ApiError::NotLetIn { code: error.code(), message: error.to_string() }
        })
    }
}

/// What policies call looking back at an item, and at all of a table.
fn past(key: Option<&Item>) -> &'static str {
    if key.is_some() { HISTORY } else { CHANGES }
}
