//! Where the five systems have their data from: one file for each, and how pages are read.
//!
//! A source has a base URL, so that it can be pointed at the real site or at one on this machine. Reading a page is
//! two steps: [`Web`] gets the text, a function of the source's file makes a value of it or says what is missing.

pub mod lunch;
pub mod netkeiba;
pub mod openweather;
pub mod shop;
pub mod tdnet;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use reqwest::header::RETRY_AFTER;
use reqwest::{Client, StatusCode};
use scraper::{ElementRef, Html, Selector};

const TIMEOUT: Duration = Duration::from_secs(30);
const WAITS_MAX: u32 = 5;
const WAIT_MAX: Duration = Duration::from_secs(10);

/// Why a source gave nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("{url} does not answer: {cause}")]
    Unreachable { url: String, cause: String },
    #[error("{url} answers {status}")]
    Status { url: String, status: u16 },
    #[error("{url} is not the page it should be: {cause}")]
    Page { url: String, cause: String },
}

/// A site. A 404 means that there is no such page; a 429 is obeyed.
#[derive(Clone)]
pub struct Web {
    client: Client,
    base: String,
    /// What is added to every address, and never shown.
    secret: Option<String>,
    /// Counted for all clones together.
    calls: Arc<AtomicU64>,
    waits: Arc<AtomicU64>,
}

impl fmt::Debug for Web {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Web").field("base", &self.base).finish_non_exhaustive()
    }
}

impl Web {
    /// Fails when there is nothing on this machine to check certificates with, unless none are needed.
    pub fn new(base: &str) -> Result<Self, Error> {
        // Nothing is lost if somebody chose already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut client = Client::builder().timeout(TIMEOUT).user_agent("larder-examples");
        if base.starts_with("http://") {
            client = client.tls_certs_only([]);
        }
        let unreachable =
            |error: reqwest::Error| Error::Unreachable { url: base.to_owned(), cause: error.to_string() };
        let client = client.build().map_err(unreachable)?;
        Ok(Self { client, base: base.to_owned(), secret: None, calls: Arc::default(), waits: Arc::default() })
    }

    /// Adds a query parameter to every address that is neither logged nor in an error.
    #[must_use]
    pub fn with_secret(self, name: &str, value: &str) -> Self {
        Self { secret: Some(format!("{name}={value}")), ..self }
    }

    /// How many requests were sent.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// How many of them were answered by a 429, and sent again.
    pub fn waits(&self) -> u64 {
        self.waits.load(Ordering::Relaxed)
    }

    /// Gets a page and reads it; `None` when there is no such page.
    ///
    /// `charset` is what the page is written in when its headers do not say.
    pub async fn read<T>(
        &self,
        path: &str,
        charset: &str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<Option<T>, Error> {
        let url = format!("{}{path}", self.base);
        let Some(text) = self.text(&url, charset).await? else { return Ok(None) };
        parse(&text).map(Some).map_err(|cause| Error::Page { url, cause })
    }

    async fn text(&self, url: &str, charset: &str) -> Result<Option<String>, Error> {
        let unreachable = |error: reqwest::Error| Error::Unreachable {
            url: url.to_owned(),
            cause: error.without_url().to_string(),
        };
        let address = match &self.secret {
            Some(secret) => format!("{url}{}{secret}", if url.contains('?') { '&' } else { '?' }),
            None => url.to_owned(),
        };
        let mut waits = 0;
        loop {
            self.calls.fetch_add(1, Ordering::Relaxed);
            let response = self.client.get(&address).send().await.map_err(unreachable)?;
            match response.status() {
                StatusCode::NOT_FOUND => return Ok(None),
                StatusCode::TOO_MANY_REQUESTS if waits < WAITS_MAX => {
                    waits += 1;
                    self.waits.fetch_add(1, Ordering::Relaxed);
                    let asked = response.headers().get(RETRY_AFTER).and_then(|seconds| seconds.to_str().ok());
                    let seconds = asked.and_then(|seconds| seconds.parse().ok()).unwrap_or(1);
                    tokio::time::sleep(Duration::from_secs(seconds).min(WAIT_MAX)).await;
                }
                status if status.is_success() => {
                    return response.text_with_charset(charset).await.map(Some).map_err(unreachable);
                }
                status => return Err(Error::Status { url: url.to_owned(), status: status.as_u16() }),
            }
        }
    }
}

/// A selector that is written in the program.
fn css(selector: &str) -> Selector {
    Selector::parse(selector).expect("selectors are written in the program")
}

/// The text of an element, with each run of white space as one space.
fn text(element: ElementRef<'_>) -> String {
    let all: String = element.text().collect();
    all.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The text of the first element inside another that matches.
fn text_in(element: ElementRef<'_>, selector: &str) -> Option<String> {
    element.select(&css(selector)).next().map(text).filter(|text| !text.is_empty())
}

/// The last part of the path of the first link that matches: `/horse/2021100001/` gives the number.
fn id_in(element: ElementRef<'_>, selector: &str) -> Option<String> {
    let href = element.select(&css(selector)).next()?.attr("href")?;
    let last = href.trim_end_matches('/').rsplit('/').next()?;
    (!last.is_empty()).then(|| last.to_owned())
}

/// Elements that match, each made into something; it is an error if there are none.
fn each<T>(
    page: &Html,
    selector: &str,
    read: impl FnMut(ElementRef<'_>) -> Result<T, String>,
) -> Result<Vec<T>, String> {
    let all = page.select(&css(selector)).map(read).collect::<Result<Vec<T>, String>>()?;
    if all.is_empty() { Err(format!("nothing in it is `{selector}`")) } else { Ok(all) }
}

fn missing(selector: &'static str) -> impl Fn() -> String {
    move || format!("`{selector}` is missing")
}
