//! A web server on this machine that stands in for the five sources.
//!
//! It serves the pages in `examples/pages`, which are written by hand in the shape of the real ones. Its manners
//! can be changed while it runs: how long it takes, how often it fails, how much it bears. Failures and delays are
//! spread evenly and not drawn, so that a run can be repeated.
//!
//! It knows one day and a few names, until it is [widened](Origin::widen).
//!
//! It ends when it is dropped.

mod wide;

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use larder::jiff::Timestamp;
use larder::serde_json::Value;
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::Instant;

const HTML: &str = "text/html; charset=utf-8";
const JSON: &str = "application/json; charset=utf-8";
const XML: &str = "application/xml; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";

/// How the server behaves.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Manners {
    /// How long an answer takes at least.
    pub delay: Duration,
    /// How much longer it takes at most.
    pub spread: Duration,
    /// The share of requests that end in a 500, from 0 to 1.
    pub error_rate: f64,
    /// Requests beyond this many in a second are answered by a 429.
    pub per_second: Option<u32>,
}

/// A server that is running.
#[derive(Debug)]
pub struct Origin {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    /// Dropping it ends the server with its connections.
    _server: JoinSet<()>,
}

#[derive(Debug)]
struct State {
    manners: Manners,
    /// Whether shops have changed their prices.
    is_later: bool,
    is_wide: bool,
    requests: u64,
    /// Answered by a 429.
    turned_away: u64,
    /// Answered by a 500.
    failed: u64,
    /// How much of a failure has come together since the last one.
    failing: f64,
    second: (Instant, u32),
}

impl Origin {
    pub async fn start(manners: Manners) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let second = (Instant::now(), 0);
        let state = State {
            manners,
            is_later: false,
            is_wide: false,
            requests: 0,
            turned_away: 0,
            failed: 0,
            failing: 0.0,
            second,
        };
        let state = Arc::new(Mutex::new(state));
        let mut server = JoinSet::new();
        server.spawn(accept(listener, Arc::clone(&state)));
        Ok(Self { address, state, _server: server })
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// How many requests it was sent.
    pub fn requests(&self) -> u64 {
        self.state.lock().requests
    }

    /// How many requests it answered by a 429.
    pub fn turned_away(&self) -> u64 {
        self.state.lock().turned_away
    }

    /// How many requests it answered by a 500.
    pub fn failed(&self) -> u64 {
        self.state.lock().failed
    }

    /// From now on it has pages of every day, and of every race and restaurant, not only of those it knows.
    pub fn widen(&self) {
        self.state.lock().is_wide = true;
    }

    pub fn behave(&self, manners: Manners) {
        self.state.lock().manners = manners;
    }

    /// From now on every request fails.
    pub fn go_down(&self) {
        self.state.lock().manners.error_rate = 1.0;
    }

    /// Time goes by for the pages: shops change their prices.
    pub fn change(&self) {
        self.state.lock().is_later = true;
    }
}

async fn accept(listener: TcpListener, state: Arc<Mutex<State>>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                if let Ok((stream, _)) = accepted {
                    connections.spawn(serve(stream, Arc::clone(&state)));
                }
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve(stream: TcpStream, state: Arc<Mutex<State>>) {
    let service = service_fn(move |request| {
        let state = Arc::clone(&state);
        async move { Ok::<_, Infallible>(answer(&request, &state).await) }
    });
    // A client that hangs up is no concern of ours.
    let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn answer(request: &Request<Incoming>, state: &Mutex<State>) -> Response<Full<Bytes>> {
    let (refused, delay, is_later, is_wide) = {
        let mut state = state.lock();
        (state.refuses(), state.delay(), state.is_later, state.is_wide)
    };
    tokio::time::sleep(delay).await;
    let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
    let known = || {
        let page = page(path, query, is_later);
        page.or_else(|| if is_wide { wide::page(path, query) } else { None })
    };
    let page = match refused {
        Some(status) => Err(status),
        None => known().ok_or(StatusCode::NOT_FOUND),
    };
    let (status, kind, text) = match page {
        Ok((kind, text)) => (StatusCode::OK, kind, text),
        Err(status) => (status, TEXT, status.to_string()),
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    if status == StatusCode::TOO_MANY_REQUESTS {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

impl State {
    /// Counts a request, and says how it fails if it does.
    fn refuses(&mut self) -> Option<StatusCode> {
        self.requests += 1;
        if self.second.0.elapsed() >= Duration::from_secs(1) {
            self.second = (Instant::now(), 0);
        }
        self.second.1 += 1;
        if self.manners.per_second.is_some_and(|limit| self.second.1 > limit) {
            self.turned_away += 1;
            return Some(StatusCode::TOO_MANY_REQUESTS);
        }
        self.failing += self.manners.error_rate;
        if self.failing >= 1.0 {
            self.failing -= 1.0;
            self.failed += 1;
            return Some(StatusCode::INTERNAL_SERVER_ERROR);
        }
        None
    }

    /// How long the request that was counted last takes. Multiples of the golden ratio fall evenly between 0 and 1.
    fn delay(&self) -> Duration {
        let share = (self.requests as f64 * 0.618_033_988_749_895).fract();
        self.manners.delay + self.manners.spread.mul_f64(share)
    }
}

/// A page and its type.
fn page(path: &str, query: &str, is_later: bool) -> Option<(&'static str, String)> {
    let html = |text: &str| Some((HTML, text.to_owned()));
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    match parts.as_slice() {
        ["top", "race_list_sub.html"] if query == "kaisai_date=20240526" => {
            html(include_str!("../pages/keiba/day.html"))
        }
        ["race", "shutuba.html"] => match query {
            "race_id=202405021211" => html(include_str!("../pages/keiba/race-202405021211.html")),
            "race_id=202405021212" => html(include_str!("../pages/keiba/race-202405021212.html")),
            _ => None,
        },
        ["horse", "result", _] => html(include_str!("../pages/keiba/horse-results.html")),
        ["horse", "ped", _] => html(include_str!("../pages/keiba/horse-pedigree.html")),
        ["jockey", "result", _] => html(include_str!("../pages/keiba/jockey.html")),
        ["inbs", "I_list_001_20240131.html"] => html(include_str!("../pages/tdnet/list-1.html")),
        ["inbs", "I_list_002_20240131.html"] => html(include_str!("../pages/tdnet/list-2.html")),
        ["data", "2.5", "forecast"] => forecast().map(|text| (JSON, text)),
        ["niagara", "lunch"] => Some((HTML, menu(include_str!("../pages/lunch/niagara.html"), query))),
        ["kajen", "lunch"] => Some((HTML, menu(include_str!("../pages/lunch/kajen.html"), query))),
        [domain, "sitemap.xml"] => {
            let text = include_str!("../pages/shops/sitemap.xml").replace("{domain}", domain);
            Some((XML, text))
        }
        [_, "c", "furniture"] => html(include_str!("../pages/shops/listing.html")),
        [_, "p", "chair"] => html(&product("Stuhl", "129.00")),
        [_, "p", "clock"] => html(&product("Uhr", if is_later { "450.00" } else { "480.00" })),
        _ => None,
    }
}

fn product(name: &str, price: &str) -> String {
    include_str!("../pages/shops/product.html").replace("{name}", name).replace("{price}", price)
}

fn menu(page: &str, query: &str) -> String {
    let week = query.rsplit_once("week=").map_or("?", |(_, week)| week);
    page.replace("{week}", week)
}

/// The forecast, with its first hour moved to the last full three hours.
fn forecast() -> Option<String> {
    const STEP_SECONDS: i64 = 3 * 60 * 60;
    let mut page: Value =
        larder::serde_json::from_str(include_str!("../pages/weather/forecast.json")).ok()?;
    let first = Timestamp::now().as_second().div_euclid(STEP_SECONDS) * STEP_SECONDS;
    for (at, entry) in (0..).zip(page.get_mut("list")?.as_array_mut()?) {
        entry["dt"] = (first + at * STEP_SECONDS).into();
    }
    Some(page.to_string())
}
