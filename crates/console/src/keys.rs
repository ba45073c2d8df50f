//! Who is signed in: a console beside a server that asks for keys asks for them too.
//!
//! Whoever shows a key has a session, and a store of their own, on which every request passes the server's gate as theirs
//! (`larder_server::Guest`): no page has another way to the engine. Sessions are in memory alone.
//!
//! A session ends when its reader signs out, after [`LIFE_MAX`], after [`IDLE_MAX`] without a page that was opened, with its key
//! in the access file, and where there are too many, the one that was used least lately. It is of the address it was begun at:
//! policies may ask for that.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use hyper::body::Bytes;
use larder::store::{Error, Inside, Lacks, Lookback};
use larder::{Environment, Store};
use larder_model::{ApiError, Clock, Item, TableName};
use larder_server::{Guest, Guests, Peer};
use parking_lot::Mutex;

use crate::house::{House, Schemas};
use crate::safety::{random, same};

const LIFE_MAX: Duration = Duration::from_secs(12 * 60 * 60);
const IDLE_MAX: Duration = Duration::from_secs(60 * 60);
const SESSIONS_MAX: usize = 64;
/// Of one key, so that nobody can sign out all others.
const SESSIONS_OF_KEY_MAX: usize = 8;

/// Who may come in, and who has.
pub(crate) struct Keys {
    guests: Guests,
    beside: Beside,
    schemas: Arc<Schemas>,
    environment: Environment,
    sessions: Mutex<Vec<Arc<Session>>>,
}

/// What is known of the store behind the gate.
#[derive(Clone, Debug)]
pub(crate) struct Beside {
    pub(crate) clock: Clock,
    pub(crate) place: String,
    pub(crate) lacks: Lacks,
}

/// Somebody at work.
#[derive(Debug)]
pub(crate) struct Session {
    /// In the cookie.
    pub(crate) id: String,
    /// In every form.
    pub(crate) token: String,
    pub(crate) guest: Guest,
    pub(crate) house: Arc<House>,
    begun: Instant,
    used: Mutex<Instant>,
}

impl Session {
    fn is_over(&self, now: Instant) -> bool {
        now.duration_since(self.begun) >= LIFE_MAX
            || now.duration_since(*self.used.lock()) >= IDLE_MAX
            || !self.guest.is_known()
    }
}

impl Keys {
    pub(crate) fn new(guests: Guests, beside: Beside, schemas: Schemas, environment: Environment) -> Self {
        let (schemas, sessions) = (Arc::new(schemas), Mutex::default());
        Self { guests, beside, schemas, environment, sessions }
    }

    /// Where the data is, as anybody may know.
    pub(crate) fn place(&self) -> &str {
        &self.beside.place
    }

    /// Lets in whose key this is; or says what is wrong, later and later.
    pub(crate) async fn sign_in(
        &self,
        (key_id, secret, region): (&str, &str, Option<&str>),
        peer: Peer,
        user_agent: Option<&str>,
        now: Instant,
    ) -> Result<Arc<Session>, String> {
        let guest = self.guests.let_in(key_id, secret, region, peer, user_agent).await;
        let guest = guest.map_err(|_| "Nobody has this key, or its secret is another.".to_owned())?;
        tracing::info!(who = guest.name(), key = guest.key_id(), "signed in to the console");
        self.begin(guest, now).map_err(|error| format!("The system gives no random numbers: {error}"))
    }

    fn begin(&self, guest: Guest, now: Instant) -> Result<Arc<Session>, getrandom::Error> {
        let Beside { clock, place, lacks } = self.beside.clone();
        let store = Store::through(Arc::new(AsGuest(guest.clone())), clock, place, lacks);
        let house = Arc::new(House::new(store, Arc::clone(&self.schemas), self.environment.clone()));
        let (id, token) = (random()?, random()?);
        let session = Arc::new(Session { id, token, guest, house, begun: now, used: Mutex::new(now) });
        let mut sessions = self.sessions.lock();
        sessions.retain(|session| !session.is_over(now));
        let of_key = |other: &Arc<Session>| other.guest.key_id() == session.guest.key_id();
        while sessions.iter().filter(|other| of_key(other)).count() >= SESSIONS_OF_KEY_MAX {
            forget_one(&mut sessions, of_key);
        }
        while sessions.len() >= SESSIONS_MAX {
            forget_one(&mut sessions, |_| true);
        }
        sessions.push(Arc::clone(&session));
        Ok(session)
    }

    /// The session of this id, asked for from where it was begun. `renews`: somebody opened a page, and no script asked again.
    pub(crate) fn find(&self, id: &str, peer: Peer, now: Instant, renews: bool) -> Option<Arc<Session>> {
        let mut sessions = self.sessions.lock();
        sessions.retain(|session| !session.is_over(now));
        let session = sessions.iter().find(|session| same(id, &session.id) && session.guest.is_at(peer))?;
        if renews {
            *session.used.lock() = now;
        }
        Some(Arc::clone(session))
    }

    pub(crate) fn sign_out(&self, session: &Session) {
        tracing::info!(who = session.guest.name(), "signed out of the console");
        self.sessions.lock().retain(|other| other.id != session.id);
    }
}

/// Forgets the one of these that was used least lately.
fn forget_one(sessions: &mut Vec<Arc<Session>>, of: impl Fn(&Arc<Session>) -> bool) {
    let candidates = sessions.iter().enumerate().filter(|(_, session)| of(session));
    let oldest = candidates.min_by_key(|(_, session)| *session.used.lock()).map(|(at, _)| at);
    if let Some(at) = oldest {
        sessions.remove(at);
    }
}

/// The server's endpoint as a guest may ask it.
#[derive(Debug)]
struct AsGuest(Guest);

#[async_trait]
impl Inside for AsGuest {
    async fn answer(&self, target: &str, body: &[u8]) -> Result<Vec<u8>, ApiError> {
        self.0.ask(target, Bytes::copy_from_slice(body)).await
    }

    async fn look_back(
        &self,
        table: &TableName,
        key: Option<Item>,
        before: Option<u64>,
        most: usize,
    ) -> Result<Lookback, Error> {
        self.0.look_back(table, key, before, most).await.map_err(|error| refused(&error))
    }

    fn expiring(&self, table: &TableName, seconds: i64, most: usize) -> Result<Option<u64>, Error> {
        let within = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
        self.0.expiring(table, within, most).map_err(|error| refused(&error))
    }
}

/// What the endpoint says, in a store's words.
pub(crate) fn refused(error: &ApiError) -> Error {
    Error::Refused { code: error.code().to_owned(), message: error.to_string() }
}

#[cfg(test)]
mod tests {
    use larder_server::{Config, Principals, Server, StoreConfig};

    use super::*;

    fn access(secrets: &[(&str, &str)]) -> larder_auth::Access {
        let principals: Vec<String> = secrets
            .iter()
            .map(|(name, secret)| {
                format!(r#"{{"name":"{name}","account":"000000000000","keys":[{{"id":"LKIA{name:0>16}","secret":"{secret}"}}]}}"#)
            })
            .collect();
        let text = format!(r#"{{"version":1,"principals":[{}]}}"#, principals.join(","));
        larder_auth::Access::read(&text).expect("an access file")
    }

    async fn keys(principals: Arc<Principals>) -> Keys {
        let config = Config { access: Some(principals), ..Config::local(StoreConfig::Memory) };
        let server = Server::bind(config).await.expect("a port is free");
        let guests = server.guests().expect("it asks for keys");
        let beside = Beside { clock: server.clock().clone(), place: String::new(), lacks: Lacks::new() };
        Keys::new(guests, beside, Box::new(Vec::new), Environment::new())
    }

    fn peer(ip: &str) -> Peer {
        Peer { address: format!("{ip}:1").parse().expect("an address"), secure: true }
    }

    fn shown(name: &str) -> String {
        format!("LKIA{name:0>16}")
    }

    #[tokio::test]
    async fn a_session_ends_by_age_by_idleness_with_its_key_and_elsewhere() {
        let principals = Principals::new(access(&[("ann", "one"), ("bob", "two")]));
        let keys = keys(Arc::clone(&principals)).await;
        let (here, now) = (peer("10.0.0.1"), Instant::now());
        let wrong = keys.sign_in((&shown("ann"), "two", None), here, None, now).await;
        assert!(wrong.is_err_and(|told| told.contains("Nobody has this key")));
        let begin = async || {
            keys.sign_in((&shown("ann"), "one", None), here, None, now).await.expect("it is hers").id.clone()
        };

        let id = begin().await;
        assert!(keys.find(&id, here, now, true).is_some());
        assert!(keys.find(&id, peer("10.0.0.2"), now, true).is_none(), "another address");
        assert!(keys.find(&"0".repeat(64), here, now, true).is_none(), "a guess");
        let almost = now + IDLE_MAX - Duration::from_secs(1);
        assert!(keys.find(&id, here, almost, false).is_some(), "a script renews nothing");
        assert!(keys.find(&id, here, now + IDLE_MAX, true).is_none(), "left alone");

        let id = begin().await;
        let mut at = now;
        while at + IDLE_MAX / 2 < now + LIFE_MAX {
            at += IDLE_MAX / 2;
            assert!(keys.find(&id, here, at, true).is_some());
        }
        assert!(keys.find(&id, here, now + LIFE_MAX, true).is_none(), "too old");

        let id = begin().await;
        principals.replace(access(&[("ann", "another"), ("bob", "two")]));
        assert!(keys.find(&id, here, now, true).is_none(), "the secret is another");
        principals.replace(access(&[("ann", "one")]));
        let id = begin().await;
        let session = keys.find(&id, here, now, true).expect("it is hers again");
        keys.sign_out(&session);
        assert!(keys.find(&id, here, now, true).is_none(), "signed out");
        principals.replace(access(&[("bob", "two")]));
        assert!(
            session.house.store().list_tables().await.is_err(),
            "what still holds the store gets nothing by it"
        );
    }

    #[tokio::test]
    async fn there_are_only_so_many_sessions_and_nobody_ends_those_of_others() {
        let names: Vec<String> = (0..10).map(|at| format!("p{at}")).collect();
        let all: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "secret")).collect();
        let keys = keys(Principals::new(access(&all))).await;
        let (here, now) = (peer("10.0.0.1"), Instant::now());
        let begin = async |name: &str, at: u64| {
            let at = now + Duration::from_secs(at);
            keys.sign_in((&shown(name), "secret", None), here, None, at)
                .await
                .expect("it is theirs")
                .id
                .clone()
        };
        let other = begin("p0", 0).await;
        let first = begin("p1", 1).await;
        for at in 0..20 {
            begin("p1", 2 + at).await;
        }
        let at = now + Duration::from_secs(30);
        assert!(keys.find(&first, here, at, false).is_none());
        assert!(keys.find(&other, here, at, false).is_some());
        for name in &names {
            for _ in 0..SESSIONS_OF_KEY_MAX {
                begin(name, 40).await;
            }
        }
        assert_eq!(keys.sessions.lock().len(), SESSIONS_MAX);
    }
}
