//! The console's port: sizes, and the way of a request to its page. Connections, and TLS where it is spoken, are served as the
//! endpoint's are (`larder_server::serve_beside`).
//!
//! A page is made on a thread of its own and is whole before it is sent, so that whoever reads it slowly keeps a connection and
//! nothing else; and where connections run out, those that take nothing are closed first.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use hyper::header::{HeaderValue, SET_COOKIE, USER_AGENT};
use hyper::http::request::Parts;
use hyper::{Method, Request, StatusCode};
use larder::{Environment, Store, UnixTime};
use larder_model::TableName;
use larder_server::{
    AnswerBody, AnswerFuture, Answering, Door, Guest, Guests, Life, Peer, Tls, serve_beside,
};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::address::{Given, Url, segments};
use crate::answer::{self, Answer, Sent};
use crate::house::{House, Schemas};
use crate::keys::{Beside, Keys, Session};
use crate::pages::{self, Asked, sign_in};
use crate::pulse::Pulse;
use crate::safety::{Aside, Refusal, Safety, is_foreign, opens_page};

/// A form with an item of 400 KB, each byte of which may take three.
const FORM_BYTES_MAX: usize = 4 << 20;
const CONNECTIONS_MAX: usize = 64;
/// A key, its secret, and the page that somebody wanted.
const KEY_BYTES_MAX: usize = 16 << 10;
/// Forms that are read at once, and as many of strangers: nobody can fill the memory with them.
const FORMS_AT_ONCE: usize = 64;
/// How often a page that takes long is a sign of life of its connection.
const ALIVE: Duration = Duration::from_secs(15);
const FORM_TIME_MAX: Duration = Duration::from_secs(30);
/// A large page takes long to make, and what serves the endpoint beside it has others to answer: it has a thread of its own.
const PAGES_AT_ONCE: usize = 8;

/// How a console is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// Of loopback, unless keys are asked for; port 0 takes any free port.
    pub address: SocketAddr,
    /// Nothing can be changed.
    pub read_only: bool,
    /// What the params of schemas are taken from.
    pub environment: Environment,
    /// Speaks TLS, and nothing else.
    pub tls: Option<Arc<Tls>>,
    /// Names it answers to, beside those of loopback and the address it listens on.
    pub door: Door,
    /// Where keys are asked for, listen elsewhere than on loopback although nothing is encrypted here: something before it does.
    pub allow_plain: bool,
}

impl Options {
    /// A console at this address that can change everything, without TLS.
    pub fn at(address: SocketAddr) -> Self {
        let (environment, door) = (Environment::new(), Door::default());
        Self { address, read_only: false, environment, tls: None, door, allow_plain: false }
    }
}

/// Why a console could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Anybody who reaches it may change everything.
    #[error(
        "the console listens on loopback alone, and {address} is none: give 127.0.0.1 or [::1] and a port, or ask for keys with \
         --access"
    )]
    Remote {
        /// What was asked for.
        address: SocketAddr,
    },
    /// Whoever listens on the way would have the keys.
    #[error(
        "the console asks for keys, and on {address} other machines would hear them: add --tls self-signed or a certificate, or say \
         with --allow-plain that something else encrypts it"
    )]
    Plain {
        /// What was asked for.
        address: SocketAddr,
    },
    /// The port is taken, say.
    #[error("the console cannot listen on {address}: {cause}")]
    Listen {
        /// What was asked for.
        address: SocketAddr,
        /// What the system said.
        cause: io::Error,
    },
    /// There are no tokens without it.
    #[error("the system gives no random numbers: {0}")]
    Random(String),
}

/// A console with its port open.
#[derive(Debug)]
pub struct Console {
    listener: TcpListener,
    address: SocketAddr,
    tls: Option<Arc<Tls>>,
    desk: Desk,
}

/// A request that a server answered, as a page shows it.
#[derive(Clone, Debug)]
pub struct ServedRequest {
    /// When it came.
    pub at: UnixTime,
    /// DynamoDB's name of what it asked for.
    pub operation: &'static str,
    /// The table whose items it was about, with its space; of several, the first.
    pub table: Option<TableName>,
    /// How many times it names a table.
    pub tables: usize,
    /// The units it took.
    pub units: f64,
    /// They are write units.
    pub writes: bool,
    /// How long it took.
    pub took: Duration,
    /// DynamoDB's name of what was wrong.
    pub error: Option<&'static str>,
}

type Requests = Box<dyn Fn() -> Vec<ServedRequest> + Send + Sync>;

/// Who is let in, and to what.
enum Entrance {
    /// Everybody, to the same.
    Open(Arc<House>),
    /// Who shows a key, each to what they may do.
    Keys(Keys),
}

/// What every request needs.
pub(crate) struct Desk {
    pub(crate) safety: Safety,
    entrance: Entrance,
    pub(crate) aside: Aside,
    /// What the server beside this was asked.
    pub(crate) requests: Option<Requests>,
    pub(crate) pulse: Pulse,
    pub(crate) read_only: bool,
    /// Pages that are made at once.
    places: Semaphore,
    /// Forms that are read, and those of strangers.
    forms: [Semaphore; 2],
}

impl fmt::Debug for Desk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Desk").field("read_only", &self.read_only).finish_non_exhaustive()
    }
}

impl Console {
    /// Opens the port, to everybody who reaches it. Nothing is asked of the store, and no schema is read, before the first page.
    pub fn bind(store: Store, schemas: Schemas, options: Options) -> Result<Self, Error> {
        let address = options.address;
        if !address.ip().is_loopback() {
            return Err(Error::Remote { address });
        }
        let house = House::new(store, Arc::new(schemas), options.environment.clone());
        Self::open(Entrance::Open(Arc::new(house)), options)
    }

    /// Opens the port to who shows a key of the server beside it. What they do is done as the endpoint of that server would have it
    /// done, and `beside`, the store of that server, is not asked for anything but its place, its clock and what it lacks.
    pub async fn asking(
        guests: Guests,
        beside: &Store,
        schemas: Schemas,
        options: Options,
    ) -> Result<Self, Error> {
        let address = options.address;
        if !address.ip().is_loopback() && options.tls.is_none() && !options.allow_plain {
            return Err(Error::Plain { address });
        }
        let lacks = beside.lacks().await.cloned().unwrap_or_default();
        let beside = Beside { clock: beside.clock().clone(), place: beside.place(), lacks };
        let keys = Keys::new(guests, beside, schemas, options.environment.clone());
        Self::open(Entrance::Keys(keys), options)
    }

    fn open(entrance: Entrance, options: Options) -> Result<Self, Error> {
        let Options { address, tls, door, allow_plain, read_only, .. } = options;
        let (listener, address) = listen(address).map_err(|cause| Error::Listen { address, cause })?;
        let safety = Safety::new(address, door, (tls.is_some(), allow_plain));
        let safety = safety.map_err(|error| Error::Random(error.to_string()))?;
        let (aside, pulse) = (Aside::default(), Pulse::default());
        let places = Semaphore::new(PAGES_AT_ONCE);
        let forms = [FORMS_AT_ONCE; 2].map(Semaphore::new);
        let desk = Desk { safety, entrance, aside, pulse, requests: None, read_only, places, forms };
        Ok(Self { listener, address, tls, desk })
    }

    /// Shows what a server was asked: the last requests it has answered, oldest first.
    #[must_use]
    pub fn with_requests(mut self, last: impl Fn() -> Vec<ServedRequest> + Send + Sync + 'static) -> Self {
        self.desk.requests = Some(Box::new(last));
        self
    }

    /// Shows over time what the process counts, in Prometheus' text format: requests, units, hits.
    #[must_use]
    pub fn with_metrics(mut self, metrics: impl Fn() -> String + Send + Sync + 'static) -> Self {
        self.desk.pulse = Pulse::of(Box::new(metrics));
        self
    }

    /// Where it listens: the port it got, when it asked for any.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How a browser finds it.
    pub fn url(&self) -> String {
        format!("{}://{}", if self.tls.is_some() { "https" } else { "http" }, self.address)
    }

    /// Answers until `shutdown` is done, and finishes what it was asked by then.
    pub async fn run(self, shutdown: impl Future<Output = ()> + Send) {
        let desk = Arc::new(self.desk);
        let counted = Arc::clone(&desk);
        let beat = tokio::spawn(async move { counted.pulse.beat().await });
        serve_beside(self.listener, Box::new(Front(desk)), self.tls, CONNECTIONS_MAX, Box::pin(shutdown))
            .await;
        beat.abort();
    }
}

fn listen(address: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let listener = std::net::TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    Ok((TcpListener::from_std(listener)?, address))
}

/// What answers connections.
struct Front(Arc<Desk>);

impl Answering for Front {
    fn crowded(&self) -> &'static str {
        "a console has no more"
    }

    fn answer<'a>(&'a self, request: Request<Incoming>, peer: Peer, life: &'a Arc<Life>) -> AnswerFuture<'a> {
        Box::pin(async move {
            let answer = respond(&self.0, request, peer, life).await;
            answer.map(|body| Box::pin(Sent::new(body, Arc::clone(life))) as AnswerBody)
        })
    }
}

async fn respond(desk: &Arc<Desk>, request: Request<Incoming>, peer: Peer, life: &Life) -> Answer {
    let (head, body) = request.into_parts();
    let given = Given::read(head.uri.query().unwrap_or_default());
    let long = ["format", "count", "scan", "plan"].iter().any(|name| given.said(name).is_some());
    let may_ask = desk.safety.may_ask(&head);
    if let Err(refusal) =
        may_ask.and_then(|()| if long { Safety::may_take_long(&head.headers) } else { Ok(()) })
    {
        return refused(refusal, &head);
    }
    let path = segments(head.uri.path());
    if let Some(asset) = pages::asset(&path) {
        return asset;
    }
    let id = desk.safety.signed_in(&head.headers);
    let session = match &desk.entrance {
        Entrance::Open(_) => None,
        Entrance::Keys(keys) => {
            id.and_then(|id| keys.find(id, peer, Instant::now(), opens_page(&head.headers)))
        }
    };
    let is_stranger = matches!(desk.entrance, Entrance::Keys(_)) && session.is_none();
    let form = match form(desk, &head, body, is_stranger).await {
        Ok(form) => form,
        Err(answer) => return answer,
    };
    let _working = life.at_work();
    let mut answer = match &desk.entrance {
        Entrance::Open(house) => {
            if let Some(form) = &form
                && let Err(refusal) = desk.safety.may_change(&head, form)
            {
                return refused(refusal, &head);
            }
            let visit = Visit { house: Arc::clone(house), session: None };
            alive(life, made(Arc::clone(desk), visit, path, given, form)).await
        }
        Entrance::Keys(keys) => match session {
            None => stranger(desk, keys, &head, &path, &given, form, peer).await,
            Some(session) => alive(life, known(desk, keys, session, &head, path, given, form)).await,
        },
    };
    if !desk.safety.has_session(&head.headers)
        && let Ok(cookie) = HeaderValue::from_str(&desk.safety.cookie())
    {
        answer.headers_mut().append(SET_COOKIE, cookie);
    }
    answer
}

/// A page that takes long keeps its connection.
async fn alive(life: &Life, page: impl Future<Output = Answer>) -> Answer {
    let mut page = pin!(page);
    loop {
        match timeout(ALIVE, page.as_mut()).await {
            Ok(answer) => return answer,
            Err(_) => life.sign(),
        }
    }
}

/// What is sent to be done; `None` where a page is asked for.
async fn form(desk: &Desk, head: &Parts, body: Incoming, is_stranger: bool) -> Result<Option<Given>, Answer> {
    match head.method {
        Method::GET | Method::HEAD => Ok(None),
        Method::POST => {
            let [known, strangers] = &desk.forms;
            let (turns, most) =
                if is_stranger { (strangers, KEY_BYTES_MAX) } else { (known, FORM_BYTES_MAX) };
            let read = async {
                let _turn = turns.acquire().await.ok()?;
                Limited::new(body, most).collect().await.ok()
            };
            let Ok(Some(body)) = timeout(FORM_TIME_MAX, read).await else {
                return Err(answer::plain(
                    StatusCode::PAYLOAD_TOO_LARGE,
                    "A form takes 4 MB at most, one with a key 16 KB, and half a minute.",
                ));
            };
            Ok(Some(Given::read(&String::from_utf8_lossy(&body.to_bytes()))))
        }
        _ => Err(answer::plain(StatusCode::METHOD_NOT_ALLOWED, "A page is read by GET and changed by POST.")),
    }
}

/// Somebody who is not signed in: gets the page that asks for a key, and nothing else.
async fn stranger(
    desk: &Desk,
    keys: &Keys,
    head: &Parts,
    path: &[String],
    given: &Given,
    form: Option<Given>,
    peer: Peer,
) -> Answer {
    let page = |status, given: &Given, wrong: Option<&str>| {
        answer::page(status, sign_in::page(desk.safety.token(), keys, given, wrong))
    };
    match (path, form) {
        ([one], None) if one == "sign-in" => page(StatusCode::OK, given, None),
        ([one], Some(form)) if one == "sign-in" => {
            if let Err(refusal) = desk.safety.may_change(head, &form) {
                return refused(refusal, head);
            }
            let said = |name: &str| form.said(name).map(str::trim);
            let shown = (said("key").unwrap_or_default(), said("secret").unwrap_or_default(), said("region"));
            let user_agent = head.headers.get(USER_AGENT).and_then(|value| value.to_str().ok());
            match keys.sign_in(shown, peer, user_agent, Instant::now()).await {
                Err(wrong) => page(StatusCode::FORBIDDEN, &form, Some(&wrong)),
                Ok(session) => {
                    let answer = answer::go_to(&sign_in::destination(&form));
                    with_cookie(answer, &desk.safety.session_cookie(head, &session.id))
                }
            }
        }
        (_, None) if opens_page(&head.headers) => {
            let to = head.uri.path_and_query().map_or("/", |to| to.as_str()).to_owned();
            let to: Given = [(sign_in::TO.to_owned(), to)].into_iter().collect();
            if is_foreign(&head.headers) {
                return answer::page(StatusCode::OK, sign_in::again(&sign_in::destination(&to)));
            }
            answer::go_to(&to.onto(Url::to(["sign-in"])))
        }
        _ => answer::plain(StatusCode::FORBIDDEN, "Sign in first: nothing was done."),
    }
}

/// Somebody who is signed in.
async fn known(
    desk: &Arc<Desk>,
    keys: &Keys,
    session: Arc<Session>,
    head: &Parts,
    path: Vec<String>,
    given: Given,
    form: Option<Given>,
) -> Answer {
    if let Some(form) = &form
        && let Err(refusal) = desk.safety.may_change_as(head, form, &session.token)
    {
        return refused(refusal, head);
    }
    match path.as_slice() {
        [one] if one == "sign-in" => answer::go_to(&sign_in::destination(&given)),
        [one] if one == "sign-out" && form.is_some() => {
            keys.sign_out(&session);
            with_cookie(answer::go_to(&Url::to(["sign-in"])), &desk.safety.no_session_cookie())
        }
        _ => {
            let visit = Visit { house: Arc::clone(&session.house), session: Some(session) };
            made(Arc::clone(desk), visit, path, given, form).await
        }
    }
}

fn with_cookie(mut answer: Answer, cookie: &str) -> Answer {
    if let Ok(cookie) = HeaderValue::from_str(cookie) {
        answer.headers_mut().append(SET_COOKIE, cookie);
    }
    answer
}

/// What somebody sees of the console.
struct Visit {
    house: Arc<House>,
    /// Of who is signed in, where that is asked.
    session: Option<Arc<Session>>,
}

/// The page, made on a thread where nobody waits.
async fn made(desk: Arc<Desk>, visit: Visit, path: Vec<String>, given: Given, form: Option<Given>) -> Answer {
    let runtime = Handle::current();
    let place = Arc::clone(&desk);
    let _place = place.places.acquire().await;
    let asked = move || {
        let session = visit.session.as_deref();
        let guest: Option<&Guest> = session.map(|session| &session.guest);
        let token = session.map_or(desk.safety.token(), |session| &session.token);
        let asked = Asked { desk: &desk, house: &visit.house, guest, token, path, given, form };
        runtime.block_on(pages::answer(asked))
    };
    match spawn_blocking(asked).await {
        Ok(answer) => answer,
        Err(error) => {
            tracing::error!(%error, "a page of the console could not be made");
            answer::plain(
                StatusCode::INTERNAL_SERVER_ERROR,
                "The page could not be made: the log has the cause.",
            )
        }
    }
}

fn refused(refusal: Refusal, head: &Parts) -> Answer {
    tracing::warn!(method = %head.method, path = head.uri.path(), ?refusal, "the console refused a request");
    let status = match refusal {
        Refusal::Host => StatusCode::MISDIRECTED_REQUEST,
        Refusal::Site | Refusal::Token => StatusCode::FORBIDDEN,
    };
    answer::plain(status, refusal.text())
}
