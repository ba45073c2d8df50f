//! Whether whoever asks is let in, and may do what they ask for: `larder_auth`, asked with what this server knows.
//!
//! ```text
//! authenticate   the request as it came ─► a visitor: who, from where      │ MissingAuthenticationToken, InvalidSignature, …
//! authorize      a visitor, a request that was read ─► may they            │ AccessDenied
//! ```
//!
//! Without an access file everybody is let in and may do everything, and a request costs nothing more.
//!
//! Promises:
//! - An access file that is read again is in force from the next request on.
//! - An address whose signatures are wrong again and again is answered later and later.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use hyper::body::Bytes;
use hyper::header::{HOST, USER_AGENT};
use hyper::http::request::Parts;
use larder_auth::{
    Access, AccessKey, Caller, Circumstances, HttpRequest, Place, Policy, Principal, Resource, Secret,
    Tables, actions,
};
use larder_engine::Engine;
use larder_engine::ops::{BatchExecuteStatement, DescribeTable, Request, StreamId};
use larder_model::{ApiError, Arn, Clock, Item, Space, TableDefinition, TableName, UnixTime};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::audit::{Audit, Entry};
use crate::connections::Peer;
use crate::door::Refusal;

/// How many failures of one address are answered at once.
const FAILURES_FREE: u32 = 5;
/// How much later each further one is answered than the one before, and the latest.
const SLOWER_BY: Duration = Duration::from_millis(100);
const SLOWEST: Duration = Duration::from_secs(2);
/// After this long without one, an address begins anew.
const FORGIVEN_AFTER: Duration = Duration::from_secs(60);
/// How many addresses are remembered.
const ADDRESSES_MAX: usize = 4096;
/// How many answers wait at a time: each keeps a connection.
const WAITING_MAX: usize = 64;

/// Who there is, now.
#[derive(Debug)]
pub struct Principals(RwLock<Arc<Access>>);

impl Principals {
    pub fn new(access: Access) -> Arc<Self> {
        Arc::new(Self(RwLock::new(Arc::new(access))))
    }

    /// These, from the next request on.
    pub fn replace(&self, access: Access) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(access);
    }

    pub(crate) fn now(&self) -> Arc<Access> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What stands between a request and the engine.
#[derive(Debug)]
pub(crate) struct Gate {
    pub(crate) principals: Option<Arc<Principals>>,
    /// Everybody has the tables of everybody, whatever region they sign for and whatever account they are of. Otherwise each
    /// region of each account has its own.
    shared: bool,
    audit: Option<Arc<Audit>>,
    /// What signatures are held against: nobody moves it.
    clock: Clock,
    failures: Failures,
}

/// Whoever sent a request.
#[derive(Debug)]
pub(crate) struct Visitor<'a> {
    /// None where everybody is let in.
    pub(crate) caller: Option<Caller<'a>>,
    /// Where their tables are; none where they are everybody's.
    pub(crate) space: Option<Space>,
    pub(crate) peer: Peer,
    /// What policies can ask about; nobody else does.
    user_agent: Option<&'a str>,
}

/// Somebody who is not let in.
#[derive(Debug)]
pub(crate) struct Stranger {
    error: ApiError,
    wait: Option<(Duration, OwnedSemaphorePermit)>,
}

impl Stranger {
    /// What they are told, once they have waited.
    pub(crate) async fn kept_waiting(self) -> ApiError {
        if let Some((wait, _permit)) = self.wait {
            tokio::time::sleep(wait).await;
        }
        self.error
    }
}

/// What policies call what is not DynamoDB's: a backup of the whole store, moving the clock of one in memory, and reading
/// `/metrics` from another machine.
pub(crate) const BACKUP: &str = "larder:Backup";
pub(crate) const CLOCK: &str = "larder:MoveClock";
pub(crate) const METRICS: &str = "larder:ReadMetrics";
/// And what a console shows beside: what became of an item and of all items of a table, and the last requests.
pub(crate) const HISTORY: &str = "larder:ReadHistory";
pub(crate) const CHANGES: &str = "larder:ReadChanges";
pub(crate) const REQUESTS: &str = "larder:ReadRequests";
/// What the audit log calls it that somebody showed their key to a console.
const SIGN_IN: &str = "larder:SignIn";

/// Where tables are whose names do not say where, unless they are everybody's.
pub(crate) const HERE: Place<'static> = Place { region: Arn::REGION, account: Arn::ACCOUNT };

impl Default for Gate {
    fn default() -> Self {
        Self::new(None, true, None)
    }
}

impl Gate {
    pub(crate) fn new(principals: Option<Arc<Principals>>, shared: bool, audit: Option<Arc<Audit>>) -> Self {
        Self { principals, shared, audit, clock: Clock::system(), failures: Failures::default() }
    }

    /// Who there is, for as long as one request lasts; nobody where everybody is let in.
    pub(crate) fn access(&self) -> Option<Arc<Access>> {
        self.principals.as_ref().map(|principals| principals.now())
    }

    /// Who sent this. `access` is what [`Gate::access`] said.
    pub(crate) fn authenticate<'a>(
        &self,
        access: Option<&'a Access>,
        head: &'a Parts,
        body: &Bytes,
        peer: Peer,
    ) -> Result<Visitor<'a>, Stranger> {
        let Some(access) = access else {
            return Ok(Visitor { caller: None, space: None, peer, user_agent: None });
        };
        let now = self.clock.now();
        let mut headers: Vec<(&str, &[u8])> =
            head.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        if let Some(authority) = head.uri.authority()
            && !head.headers.contains_key(HOST)
        {
            headers.push(("host", authority.as_str().as_bytes()));
        }
        let http = HttpRequest {
            method: head.method.as_str(),
            path: head.uri.path(),
            query: head.uri.query().unwrap_or_default(),
            headers: &headers,
            body,
        };
        let known = larder_auth::authenticate(&http, access, now)
            .and_then(|caller| Ok((self.space(&caller)?, caller)));
        match known {
            Ok((space, caller)) => {
                let user_agent = head.headers.get(USER_AGENT).and_then(|value| value.to_str().ok());
                Ok(Visitor { caller: Some(caller), space, peer, user_agent })
            }
            Err(error) => {
                if let Some(audit) = &self.audit {
                    let target = head.headers.get("x-amz-target").and_then(|value| value.to_str().ok());
                    audit.write(&Entry::stranger(peer, now, &http, target, &error));
                }
                let wait = self.failures.note(peer.address.ip(), Instant::now());
                Err(Stranger { error: not_let_in(&error), wait })
            }
        }
    }

    /// Whether somebody who has nothing to sign shows a key as it is. `access` is who there is now.
    pub(crate) fn recognize<'a>(
        &self,
        access: &'a Access,
        key_id: &str,
        secret: &str,
        peer: Peer,
    ) -> Result<(&'a Principal, &'a AccessKey), Stranger> {
        let known = access.find(key_id);
        // It takes as long for a key that nobody has.
        let nobodys = Secret::new(String::new());
        let is_right = known.map_or(&nobodys, |(_, key)| &key.secret).is(secret);
        if let (Some(known), true) = (known, is_right) {
            return Ok(known);
        }
        let error = larder_auth::Error::UnrecognizedClient;
        if let Some(audit) = &self.audit {
            audit.write(&Entry::not_recognized(peer, self.clock.now(), key_id, &error));
        }
        let wait = self.failures.note(peer.address.ip(), Instant::now());
        Err(Stranger { error: not_let_in(&error), wait })
    }

    /// Whoever showed this key, as somebody who asks now. None if it is not theirs any more, or if they name no region.
    pub(crate) fn visitor<'a>(
        &self,
        access: &'a Access,
        shown: &AccessKey,
        region: &str,
        peer: Peer,
        user_agent: Option<&'a str>,
    ) -> Option<Visitor<'a>> {
        let (principal, key) = access.find(&shown.id)?;
        let caller = Caller {
            principal,
            key_id: key.id.clone(),
            region: region.to_owned(),
            is_session: false,
            is_presigned: false,
        };
        let is_theirs = key.secret.is(shown.secret.reveal());
        let space = self.space(&caller).ok()?;
        is_theirs.then_some(Visitor { caller: Some(caller), space, peer, user_agent })
    }

    pub(crate) fn note_sign_in(&self, visitor: &Visitor<'_>) {
        if let Some(audit) = &self.audit {
            audit.write(&Entry::action(visitor, self.clock.now(), SIGN_IN, "*", None));
        }
    }

    /// Notes a request that was signed as it should, and is none.
    pub(crate) fn note_unread(&self, visitor: &Visitor<'_>, target: &str, error: &ApiError) {
        if let Some(audit) = &self.audit {
            audit.write(&Entry::unread(visitor, self.clock.now(), target, error));
        }
    }

    /// Notes a request that was not looked at.
    pub(crate) fn note_turned_away(&self, peer: Peer, refusal: &Refusal) {
        if let Some(audit) = &self.audit {
            audit.write(&Entry::turned_away(peer, self.clock.now(), refusal));
        }
    }

    /// The space of a caller's tables.
    fn space(&self, caller: &Caller<'_>) -> Result<Option<Space>, larder_auth::Error> {
        // Looked at where tables are everybody's too: it becomes part of the ARNs that policies are asked about.
        let Place { region, account } = caller.place();
        let space = Space::new(region, account).ok_or_else(|| {
            larder_auth::Error::InvalidSignature(format!(
                "Credential should be scoped to a valid region, not '{region}'. "
            ))
        })?;
        Ok((!self.shared).then_some(space))
    }

    /// Where the tables are that a caller names and whose names do not say where.
    fn place<'a>(&self, caller: &'a Caller<'_>) -> Place<'a> {
        if self.shared { caller.place() } else { HERE }
    }

    /// Whether the visitor may do what was asked for. Of a batch of statements each is decided by itself: one that they may not do
    /// is answered with that from here on, and the others are carried out.
    pub(crate) fn authorize(
        &self,
        visitor: &Visitor<'_>,
        request: &mut Request,
        engine: &Engine,
    ) -> Result<(), ApiError> {
        if let (Some(caller), Request::BatchExecuteStatement(batch)) = (&visitor.caller, &mut *request) {
            self.authorize_each(visitor, caller, batch, engine);
            if batch.readable().next().is_some() {
                self.note(visitor, request, None);
            }
            return Ok(());
        }
        let allowed = self.decide(visitor, request, engine);
        self.note(visitor, request, allowed.as_ref().err());
        allowed.map_err(|error| not_let_in(&error))
    }

    fn authorize_each(
        &self,
        visitor: &Visitor<'_>,
        caller: &Caller<'_>,
        batch: &mut BatchExecuteStatement,
        engine: &Engine,
    ) {
        let (place, circumstances) = (self.place(caller), visitor.circumstances(self.clock.now()));
        let denied: Vec<Option<ApiError>> = actions::needs_of_each(batch)
            .into_iter()
            .map(|need| {
                let need = need?;
                let allowed = larder_auth::permitted(caller, &need, place, &circumstances, &Known(engine));
                let error = allowed.err()?;
                if let Some(audit) = &self.audit {
                    let needs = std::slice::from_ref(&need);
                    audit.write(&Entry::needs(visitor, self.clock.now(), needs, self.shared, Some(&error)));
                }
                Some(not_let_in(&error))
            })
            .collect();
        for (each, denied) in batch.statements.iter_mut().zip(denied) {
            if let Some(error) = denied {
                each.statement = Err(error);
            }
        }
    }

    fn note(&self, visitor: &Visitor<'_>, request: &Request, denied: Option<&larder_auth::Error>) {
        if let Some(audit) = &self.audit {
            let needs = actions::needs(request);
            audit.write(&Entry::needs(visitor, self.clock.now(), &needs, self.shared, denied));
        }
    }

    /// The same, of what nobody has asked for yet: nothing is noted.
    pub(crate) fn decide(
        &self,
        visitor: &Visitor<'_>,
        request: &Request,
        engine: &Engine,
    ) -> Result<(), larder_auth::Error> {
        let Some(caller) = &visitor.caller else { return Ok(()) };
        let circumstances = visitor.circumstances(self.clock.now());
        larder_auth::authorize(caller, request, self.place(caller), &circumstances, &Known(engine))
    }

    /// Whether the visitor may do to a table what is no operation of DynamoDB's: to the item with this key, or to all.
    pub(crate) fn authorize_on_table(
        &self,
        visitor: &Visitor<'_>,
        action: &'static str,
        on: (&TableName, Option<&Item>),
        engine: &Engine,
    ) -> Result<(), ApiError> {
        let allowed = self.decide_on_table(visitor, action, on, engine);
        if let (Some(audit), Some(caller)) = (&self.audit, &visitor.caller) {
            let resource = Resource::Table(on.0).arn(self.place(caller));
            audit.write(&Entry::action(visitor, self.clock.now(), action, &resource, allowed.as_ref().err()));
        }
        allowed.map_err(|error| not_let_in(&error))
    }

    /// The same, of what nobody has asked for yet.
    pub(crate) fn decide_on_table(
        &self,
        visitor: &Visitor<'_>,
        action: &'static str,
        on: (&TableName, Option<&Item>),
        engine: &Engine,
    ) -> Result<(), larder_auth::Error> {
        let Some(caller) = &visitor.caller else { return Ok(()) };
        let (place, circumstances) = (self.place(caller), visitor.circumstances(self.clock.now()));
        larder_auth::authorize_on_table(caller, action, on, place, &circumstances, &Known(engine))
    }

    /// The same, of what is no operation of DynamoDB's.
    pub(crate) fn decide_action(
        &self,
        visitor: &Visitor<'_>,
        action: &'static str,
    ) -> Result<(), larder_auth::Error> {
        let Some(caller) = &visitor.caller else { return Ok(()) };
        larder_auth::authorize_action(caller, action, &visitor.circumstances(self.clock.now()))
    }

    /// Whether the visitor may do what is no operation of DynamoDB's.
    pub(crate) fn authorize_action(
        &self,
        visitor: &Visitor<'_>,
        action: &'static str,
    ) -> Result<(), ApiError> {
        let allowed = self.decide_action(visitor, action);
        if let Some(audit) = &self.audit {
            audit.write(&Entry::action(visitor, self.clock.now(), action, "*", allowed.as_ref().err()));
        }
        allowed.map_err(|error| not_let_in(&error))
    }
}

impl Visitor<'_> {
    /// An error as it is told to them: by their name, where they said who they are.
    pub(crate) fn told(&self, error: ApiError) -> ApiError {
        match &self.caller {
            Some(caller) => error.told_to(|| caller.principal.arn()),
            None => error,
        }
    }

    /// A table of theirs, by its name.
    pub(crate) fn table(&self, name: &TableName) -> TableName {
        match &self.space {
            None => name.clone(),
            Some(space) => name.clone().within(space),
        }
    }

    fn circumstances(&self, now: UnixTime) -> Circumstances<'_> {
        let user_agent = self.user_agent;
        Circumstances { now, source_ip: Some(self.peer.address.ip()), secure: self.peer.secure, user_agent }
    }
}

fn not_let_in(error: &larder_auth::Error) -> ApiError {
    ApiError::NotLetIn { code: error.code(), message: error.to_string() }
}

/// What policies can ask about tables.
struct Known<'a>(&'a Engine);

impl Tables for Known<'_> {
    fn definition(&self, table: &TableName) -> Option<Arc<TableDefinition>> {
        let described = self.0.describe_table(&DescribeTable { table: table.clone() });
        described.ok().map(|table| table.definition)
    }

    // Where a policy cannot be read, neither can what it is of, and the request comes to nothing.

    fn table_policy(&self, table: &TableName) -> Option<Arc<Policy>> {
        self.0.table_policy(table).ok()?.as_deref().map(larder_auth::read_policy)
    }

    fn stream_policy(&self, stream: &StreamId) -> Option<Arc<Policy>> {
        self.0.stream_policy(stream).ok()?.as_deref().map(larder_auth::read_policy)
    }
}

/// How often the signatures of each address were wrong lately.
#[derive(Debug)]
struct Failures {
    known: Mutex<HashMap<IpAddr, (u32, Instant)>>,
    waiting: Arc<Semaphore>,
}

impl Default for Failures {
    fn default() -> Self {
        Self { known: Mutex::default(), waiting: Arc::new(Semaphore::new(WAITING_MAX)) }
    }
}

impl Failures {
    /// Counts one more, and says how long its answer is to wait. When too many wait already, it does not.
    fn note(&self, address: IpAddr, now: Instant) -> Option<(Duration, OwnedSemaphorePermit)> {
        let wait = self.wait(address, now);
        if wait.is_zero() {
            return None;
        }
        Arc::clone(&self.waiting).try_acquire_owned().ok().map(|permit| (wait, permit))
    }

    fn wait(&self, address: IpAddr, now: Instant) -> Duration {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= ADDRESSES_MAX && !known.contains_key(&address) {
            known.retain(|_, (_, last)| now.duration_since(*last) < FORGIVEN_AFTER);
            if known.len() >= ADDRESSES_MAX {
                // So many strangers at once are all slowed as much.
                return SLOWEST;
            }
        }
        let (count, last) = known.entry(address).or_insert((0, now));
        if now.duration_since(*last) >= FORGIVEN_AFTER {
            *count = 0;
        }
        (*count, *last) = (count.saturating_add(1), now);
        (SLOWER_BY * count.saturating_sub(FAILURES_FREE).min(100)).min(SLOWEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_answered_later_and_later_and_forgiven() {
        let (failures, start) = (Failures::default(), Instant::now());
        let one: IpAddr = "10.0.0.1".parse().unwrap();
        let waits: Vec<u128> = (0..8).map(|_| failures.wait(one, start).as_millis()).collect();
        assert_eq!(waits, [0, 0, 0, 0, 0, 100, 200, 300]);
        assert_eq!(failures.wait("10.0.0.2".parse().unwrap(), start), Duration::ZERO);
        let last = (0..1000).map(|_| failures.wait(one, start)).last();
        assert_eq!(last, Some(SLOWEST));
        assert_eq!(failures.wait(one, start), SLOWEST);
        assert_eq!(failures.wait(one, start + FORGIVEN_AFTER), Duration::ZERO);
    }

    #[test]
    fn addresses_are_remembered_within_bounds() {
        let (failures, start) = (Failures::default(), Instant::now());
        for at in 0..10_000_u32 {
            failures.wait(IpAddr::from(at.to_be_bytes()), start);
        }
        assert_eq!(failures.known.lock().unwrap().len(), ADDRESSES_MAX);
        let other: IpAddr = "::1".parse().unwrap();
        assert_eq!(failures.wait(other, start), SLOWEST);
        assert_eq!(failures.wait(other, start + FORGIVEN_AFTER), Duration::ZERO);
    }
}
