//! Who may ask, and who may change, by where a request comes from: without keys everything rests on that.
//!
//! A page of another site can make a browser send requests here, and a name of another site can be made to lead here. So a
//! request must name loopback as its host, a change must come from a page of ours, and carry what only a page of ours has.

use std::collections::VecDeque;
use std::net::SocketAddr;

use hyper::Method;
use hyper::header::{COOKIE, HOST, HeaderMap, ORIGIN};
use hyper::http::request::Parts;
use hyper::http::uri::Authority;
use larder_server::Door;
use parking_lot::Mutex;

use crate::address::Given;

const RANDOM_BYTES: usize = 32;
/// What is kept of secrets that somebody is about to write.
const ASIDE_MAX: usize = 64;
const ASIDE_BYTES_MAX: usize = 8 << 20;
/// The name of the token in a form.
pub(crate) const TOKEN: &str = "token";

/// What this process alone knows.
#[derive(Debug)]
pub(crate) struct Safety {
    address: SocketAddr,
    /// Names that were declared.
    door: Door,
    /// Over TLS.
    secure: bool,
    /// Something before it may speak TLS.
    proxied: bool,
    /// In every form.
    token: String,
    /// In the cookie.
    session: String,
}

/// Why a request is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It names another host.
    Host,
    /// It comes from a page of another site.
    Site,
    /// It has no token of this process.
    Token,
}

impl Refusal {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Host => {
                "This console does not answer to that name: open it by 127.0.0.1, [::1], localhost or the address it listens on, or \
                 start it with --allow-host."
            }
            Self::Site => "This came from a page of another site, and was not done.",
            Self::Token => {
                "This form is of another run of the console, and nothing was done: go back, load the page again, and \
                 send it once more."
            }
        }
    }
}

impl Safety {
    pub(crate) fn new(
        address: SocketAddr,
        door: Door,
        (secure, proxied): (bool, bool),
    ) -> Result<Self, getrandom::Error> {
        Ok(Self { address, door, secure, proxied, token: random()?, session: random()? })
    }

    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    /// Whether any page may be given.
    pub(crate) fn may_ask(&self, head: &Parts) -> Result<(), Refusal> {
        let (method, headers) = (&head.method, &head.headers);
        let host = host(head).ok_or(Refusal::Host)?;
        let is_ours = self.hosts().iter().any(|known| known.eq_ignore_ascii_case(host));
        if !is_ours && !self.is_declared(host) {
            return Err(Refusal::Host);
        }
        // A link on another site may lead here; a frame, a picture or a script there may not.
        let foreign = is_foreign(headers);
        let follows_link = *method == Method::GET && text(headers, "sec-fetch-mode") == Some("navigate");
        if foreign && !(follows_link && text(headers, "sec-fetch-dest") == Some("document")) {
            return Err(Refusal::Site);
        }
        Ok(())
    }

    /// Whether what takes long, or costs, may be begun by opening an address: not by a link of another site.
    pub(crate) fn may_take_long(headers: &HeaderMap) -> Result<(), Refusal> {
        if is_foreign(headers) { Err(Refusal::Site) } else { Ok(()) }
    }

    /// Whether something may be changed by this form of a process that everybody uses, or by the one that asks for a key.
    pub(crate) fn may_change(&self, head: &Parts, form: &Given) -> Result<(), Refusal> {
        self.is_from_here(head)?;
        let known = form.get(TOKEN).is_some_and(|token| same(token, &self.token));
        if known && self.has_session(&head.headers) { Ok(()) } else { Err(Refusal::Token) }
    }

    /// Whether something may be changed by this form of somebody's session, whose cookie came with it.
    pub(crate) fn may_change_as(&self, head: &Parts, form: &Given, token: &str) -> Result<(), Refusal> {
        self.is_from_here(head)?;
        let known = form.get(TOKEN).is_some_and(|given| same(given, token));
        if known { Ok(()) } else { Err(Refusal::Token) }
    }

    fn is_from_here(&self, head: &Parts) -> Result<(), Refusal> {
        let headers = &head.headers;
        let origin = text(headers, ORIGIN.as_str()).and_then(|origin| origin.split_once("://"));
        let from_here = origin.is_some_and(|(scheme, of)| {
            let known = if self.secure { scheme == "https" } else { scheme == "http" };
            (known || self.proxied && scheme == "https") && Some(of) == host(head)
        });
        let site = text(headers, "sec-fetch-site");
        if !from_here || site.is_some_and(|site| site != "same-origin") {
            return Err(Refusal::Site);
        }
        Ok(())
    }

    pub(crate) fn has_session(&self, headers: &HeaderMap) -> bool {
        cookies(headers, &self.cookie_name("console")).any(|value| same(value, &self.session))
    }

    /// The cookie that goes with the first page.
    pub(crate) fn cookie(&self) -> String {
        self.cookie_of("console", &self.session, self.secure)
    }

    /// Which session a request says it is of.
    pub(crate) fn signed_in<'a>(&self, headers: &'a HeaderMap) -> Option<&'a str> {
        cookies(headers, &self.cookie_name("session")).last()
    }

    /// The cookie of somebody's session, begun by this request.
    pub(crate) fn session_cookie(&self, head: &Parts, id: &str) -> String {
        let origin = text(&head.headers, ORIGIN.as_str()).unwrap_or_default();
        self.cookie_of("session", id, self.secure || origin.starts_with("https://"))
    }

    /// What takes it away.
    pub(crate) fn no_session_cookie(&self) -> String {
        format!("{}; Max-Age=0", self.cookie_of("session", "", self.secure))
    }

    fn cookie_of(&self, what: &str, value: &str, secure: bool) -> String {
        let secure = if secure { "; Secure" } else { "" };
        format!("{}={value}; Path=/; HttpOnly; SameSite=Strict{secure}", self.cookie_name(what))
    }

    /// Cookies know no ports. What begins so is taken from a page of this very host by TLS alone.
    fn cookie_name(&self, what: &str) -> String {
        let prefix = if self.secure { "__Host-" } else { "" };
        format!("{prefix}larder_{what}_{}", self.address.port())
    }

    /// Another name that somebody has declared, or an address of ours. What is before this may have another port.
    fn is_declared(&self, host: &str) -> bool {
        let bound = self.address.ip();
        (self.door != Door::default() || !bound.is_loopback()) && self.door.answers_to(host, bound)
    }

    fn hosts(&self) -> Vec<String> {
        let own = match self.address {
            SocketAddr::V4(address) => address.ip().to_string(),
            SocketAddr::V6(address) => format!("[{}]", address.ip()),
        };
        let names = ["127.0.0.1", "[::1]", "localhost", &own];
        let port = self.address.port();
        let mut hosts: Vec<String> = names.iter().map(|name| format!("{name}:{port}")).collect();
        if port == 80 {
            hosts.extend(names.map(str::to_owned));
        }
        hosts
    }
}

/// What was typed and is on no page: kept here between a form and its review. The oldest is forgotten first.
#[derive(Debug, Default)]
pub(crate) struct Aside(Mutex<VecDeque<(String, String)>>);

impl Aside {
    /// Keeps a text, and gives the name that a form knows it by.
    pub(crate) fn put(&self, text: &str) -> Result<String, getrandom::Error> {
        let name = random()?;
        let mut kept = self.0.lock();
        kept.push_back((name.clone(), text.to_owned()));
        let mut bytes: usize = kept.iter().map(|(_, text)| text.len()).sum();
        while bytes > ASIDE_BYTES_MAX && kept.len() > 1 || kept.len() > ASIDE_MAX {
            bytes -= kept.pop_front().map_or(0, |(_, text)| text.len());
        }
        Ok(name)
    }

    pub(crate) fn get(&self, name: &str) -> Option<String> {
        self.0.lock().iter().find(|(known, _)| same(name, known)).map(|(_, text)| text.clone())
    }
}

/// The host that a request names: HTTP/2 has it in the address. None if it names none, or two.
fn host(head: &Parts) -> Option<&str> {
    let in_address = head.uri.authority().map(Authority::as_str);
    let mut in_headers = head.headers.get_all(HOST).iter();
    match (in_address, in_headers.next(), in_headers.next()) {
        (Some(host), None, None) => Some(host),
        (None, Some(host), None) => host.to_str().ok(),
        (Some(host), Some(same), None) if same == host => Some(host),
        _ => None,
    }
}

/// The values of the cookies of this name.
fn cookies<'a>(headers: &'a HeaderMap, name: &str) -> impl Iterator<Item = &'a str> {
    let lines = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.filter(move |(known, _)| *known == name).map(|(_, value)| value)
}

/// Whether a browser is about to show what it asks for, or does not say.
pub(crate) fn opens_page(headers: &HeaderMap) -> bool {
    text(headers, "sec-fetch-mode").is_none_or(|mode| mode == "navigate")
}

/// Whether a page of another site leads here.
pub(crate) fn is_foreign(headers: &HeaderMap) -> bool {
    matches!(text(headers, "sec-fetch-site"), Some("cross-site" | "same-site"))
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// Compares without telling by its time how much was right.
pub(crate) fn same(given: &str, known: &str) -> bool {
    given.len() == known.len() && given.bytes().zip(known.bytes()).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

pub(crate) fn random() -> Result<String, getrandom::Error> {
    let mut bytes = [0; RANDOM_BYTES];
    getrandom::fill(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(address: &str, secure: bool) -> Safety {
        let address = address.parse().expect("an address");
        Safety::new(address, Door::default(), (secure, false)).expect("there is randomness")
    }

    fn safety() -> Safety {
        at("127.0.0.1:8001", false)
    }

    fn head(method: &Method, pairs: &[(&'static str, &str)]) -> Parts {
        let request = hyper::Request::builder().method(method).uri("/");
        let request = pairs.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        request.body(()).expect("a request").into_parts().0
    }

    #[test]
    fn only_loopback_by_name_and_port_is_answered() {
        let safety = safety();
        let asked = |host: &str| safety.may_ask(&head(&Method::GET, &[("host", host)]));
        for host in ["127.0.0.1:8001", "localhost:8001", "LOCALHOST:8001", "[::1]:8001"] {
            assert_eq!(asked(host), Ok(()), "{host}");
        }
        for host in ["evil.example:8001", "127.0.0.1", "127.0.0.1:8000", "localhost.evil.example:8001", ""] {
            assert_eq!(asked(host), Err(Refusal::Host), "{host}");
        }
        assert_eq!(safety.may_ask(&head(&Method::GET, &[])), Err(Refusal::Host));
        // Where it listens, it answers.
        let other = at("127.0.0.2:8001", false);
        assert_eq!(other.may_ask(&head(&Method::GET, &[("host", "127.0.0.2:8001")])), Ok(()));
        let twice = [("host", "127.0.0.1:8001"), ("host", "127.0.0.1:8001")];
        assert_eq!(safety.may_ask(&head(&Method::GET, &twice)), Err(Refusal::Host));
    }

    #[test]
    fn an_address_that_stands_for_all_is_answered_by_each_of_them() {
        for (bound, host, answered) in [
            ("0.0.0.0:8001", "192.168.1.5:8001", true),
            ("192.168.1.5:8001", "192.168.1.5:8001", true),
            ("192.168.1.5:8001", "192.168.1.6:8001", false),
            ("0.0.0.0:8001", "larder:8001", false),
        ] {
            let asked = at(bound, true).may_ask(&head(&Method::GET, &[("host", host)]));
            assert_eq!(asked.is_ok(), answered, "{bound} {host}");
        }
    }

    #[test]
    fn a_declared_name_is_answered_and_http_2_has_it_in_the_address() {
        let mut door = Door::default();
        door.allow_host("db.example.com").expect("a name");
        let address = "0.0.0.0:8001".parse().expect("an address");
        let safety = Safety::new(address, door, (true, false)).expect("there is randomness");
        for (host, answered) in [
            ("db.example.com:8001", true),
            ("DB.example.com", true),
            ("10.0.0.6:8001", true),
            ("evil.example:8001", false),
        ] {
            assert_eq!(safety.may_ask(&head(&Method::GET, &[("host", host)])).is_ok(), answered, "{host}");
        }
        let asked = |uri: &str, host: Option<&str>| {
            let request = host.iter().fold(hyper::Request::get(uri), |it, host| it.header("host", *host));
            safety.may_ask(&request.body(()).expect("a request").into_parts().0)
        };
        assert_eq!(asked("https://db.example.com:8001/", None), Ok(()));
        assert_eq!(asked("https://db.example.com:8001/", Some("db.example.com:8001")), Ok(()));
        assert_eq!(asked("https://db.example.com:8001/", Some("evil.example")), Err(Refusal::Host));
        assert_eq!(asked("https://evil.example/", None), Err(Refusal::Host));
    }

    #[test]
    fn another_site_may_link_here_and_nothing_else() {
        let safety = safety();
        let asked = |method: Method, site: &str, mode: &str, dest: &str| {
            let all = [
                ("host", "127.0.0.1:8001"),
                ("sec-fetch-site", site),
                ("sec-fetch-mode", mode),
                ("sec-fetch-dest", dest),
            ];
            safety.may_ask(&head(&method, &all))
        };
        assert_eq!(asked(Method::GET, "cross-site", "navigate", "document"), Ok(()));
        assert_eq!(asked(Method::GET, "same-origin", "cors", "empty"), Ok(()));
        assert_eq!(asked(Method::GET, "none", "navigate", "document"), Ok(()));
        for (method, mode, dest) in [
            (Method::GET, "navigate", "iframe"),
            (Method::GET, "no-cors", "script"),
            (Method::GET, "cors", "empty"),
            (Method::POST, "navigate", "document"),
        ] {
            assert_eq!(asked(method, "cross-site", mode, dest), Err(Refusal::Site), "{mode} {dest}");
        }
    }

    #[test]
    fn a_change_needs_origin_token_and_cookie() {
        let safety = safety();
        let cookie = safety.cookie();
        let cookie = cookie.split(';').next().expect("a cookie");
        let form = Given::read(&format!("token={}", safety.token()));
        let host = ("host", "localhost:8001");
        let ours = ("origin", "http://localhost:8001");
        let changed = |pairs: &[(&'static str, &str)], form: &Given| {
            safety.may_change(&head(&Method::POST, pairs), form)
        };
        assert_eq!(changed(&[host, ours, ("cookie", cookie)], &form), Ok(()));
        assert_eq!(changed(&[host, ours, ("cookie", &format!("a=b; {cookie}"))], &form), Ok(()));
        for origin in ["http://evil.example", "null", "http://127.0.0.1:8001", "https://localhost:8001"] {
            assert_eq!(
                changed(&[host, ("origin", origin), ("cookie", cookie)], &form),
                Err(Refusal::Site),
                "{origin}"
            );
        }
        assert_eq!(changed(&[host, ("cookie", cookie)], &form), Err(Refusal::Site), "no origin");
        let site = ("sec-fetch-site", "same-site");
        assert_eq!(changed(&[host, ours, site, ("cookie", cookie)], &form), Err(Refusal::Site));
        assert_eq!(changed(&[host, ours], &form), Err(Refusal::Token), "no cookie");
        assert_eq!(
            changed(&[host, ours, ("cookie", cookie)], &Given::default()),
            Err(Refusal::Token),
            "no token"
        );
        let guessed = Given::read(&format!("token={}", "0".repeat(64)));
        assert_eq!(changed(&[host, ours, ("cookie", cookie)], &guessed), Err(Refusal::Token));
    }

    #[test]
    fn the_cookie_is_for_this_port_and_no_script() {
        let cookie = safety().cookie();
        assert!(cookie.starts_with("larder_console_8001="), "{cookie}");
        assert!(cookie.ends_with("; Path=/; HttpOnly; SameSite=Strict"), "{cookie}");
        let cookie = at("127.0.0.1:8001", true).cookie();
        assert!(cookie.starts_with("__Host-larder_console_8001="), "{cookie}");
        assert!(cookie.ends_with("; Path=/; HttpOnly; SameSite=Strict; Secure"), "{cookie}");
    }

    #[test]
    fn over_tls_a_change_comes_from_a_page_that_came_over_tls() {
        let safety = at("127.0.0.1:8001", true);
        let cookie = safety.cookie();
        let cookie = cookie.split(';').next().expect("a cookie");
        let form = Given::read(&format!("token={}", safety.token()));
        let changed = |origin: &str| {
            let all = [("host", "localhost:8001"), ("origin", origin), ("cookie", cookie)];
            safety.may_change(&head(&Method::POST, &all), &form)
        };
        assert_eq!(changed("https://localhost:8001"), Ok(()));
        assert_eq!(changed("http://localhost:8001"), Err(Refusal::Site));
    }

    #[test]
    fn behind_a_proxy_that_speaks_tls_the_cookie_of_a_session_is_secure() {
        let address = "127.0.0.1:8001".parse().expect("an address");
        let safety = Safety::new(address, Door::default(), (false, true)).expect("there is randomness");
        let form = Given::read("token=mine");
        for (origin, secure) in [("https://localhost:8001", true), ("http://localhost:8001", false)] {
            let head = head(&Method::POST, &[("host", "localhost:8001"), ("origin", origin)]);
            assert_eq!(safety.may_change_as(&head, &form, "mine"), Ok(()));
            assert_eq!(safety.may_change_as(&head, &form, "another"), Err(Refusal::Token));
            assert_eq!(safety.session_cookie(&head, "1").ends_with("; Secure"), secure);
        }
        let gone = safety.no_session_cookie();
        assert!(gone.starts_with("larder_session_8001=;") && gone.ends_with("; Max-Age=0"), "{gone}");
    }
}
