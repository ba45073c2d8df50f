//! Which names a server answers to, and which web pages may ask it: a browser cannot get in by accident.
//!
//! A page of any site can make the browser of whoever opens it send requests to this machine, and the site's own name can be
//! made to lead here. So a request must name the server as its host by loopback, by the address it listens on, or by a name
//! that was declared; and one that a page sent must come from a page that was declared. Programs send no `Origin`, and
//! notice nothing.

use std::net::IpAddr;
use std::str;

use hyper::header::{HOST, HeaderMap, HeaderValue, ORIGIN};
use hyper::http::request::Parts;

/// Who else may come to a server than programs that name loopback or the address it listens on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Door {
    hosts: Vec<String>,
    origins: Vec<String>,
}

/// Why a request is not looked at.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("The request names no host.")]
    NoHost,
    #[error(
        "This server does not answer to the name {0}. Use localhost or the address it listens on, or start it with \
         --allow-host {0}."
    )]
    Host(String),
    #[error("Pages of {0} may not use this server. If they should, start it with --allow-origin {0}.")]
    Origin(String),
    /// A file, or a page that may not say where it is from.
    #[error("A page that does not say where it is from may not use this server.")]
    NoOrigin,
}

impl Door {
    /// Lets requests name the server so: a host name, without a port.
    pub fn allow_host(&mut self, name: &str) -> Result<(), String> {
        let is_name_char = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        if name.is_empty() || !(name.chars().all(is_name_char) || address(name).is_some()) {
            return Err("give a host name without a port, such as larder or db.example.com".to_owned());
        }
        self.hosts.push(name.to_owned());
        Ok(())
    }

    /// Lets pages of this origin ask.
    pub fn allow_origin(&mut self, origin: &str) -> Result<(), String> {
        let host = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        let is_origin_char = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-._:[]".contains(c);
        if !host.is_some_and(|host| !host.is_empty() && host.chars().all(is_origin_char)) {
            let form =
                "as a browser sends it, such as http://localhost:3000: in small letters, without a path or *";
            return Err(format!("give one origin {form}"));
        }
        self.origins.push(origin.to_owned());
        Ok(())
    }

    /// Whether a server that listens on `bound` answers to this host, with or without a port.
    pub fn answers_to(&self, host: &str, bound: IpAddr) -> bool {
        self.knows(host.as_bytes(), bound)
    }

    /// Whether a request is looked at, on a server that listens on `bound`. If it is, the origin whose page may read the answer.
    pub(crate) fn check<'a>(
        &self,
        head: &'a Parts,
        bound: IpAddr,
    ) -> Result<Option<&'a HeaderValue>, Refusal> {
        // HTTP/2 has the host in the address. Where a request names it twice, both must be known.
        let in_address = head.uri.authority().map(|authority| authority.as_str().as_bytes());
        let in_header = head.headers.get_all(HOST).iter().map(HeaderValue::as_bytes);
        let mut is_named = false;
        for host in in_address.into_iter().chain(in_header) {
            if !self.knows(host, bound) {
                return Err(Refusal::Host(shown(without_port(&String::from_utf8_lossy(host)))));
            }
            is_named = true;
        }
        if !is_named {
            return Err(Refusal::NoHost);
        }
        self.permitted(&head.headers)
    }

    fn permitted<'a>(&self, headers: &'a HeaderMap) -> Result<Option<&'a HeaderValue>, Refusal> {
        let mut origins = headers.get_all(ORIGIN).iter();
        let Some(origin) = origins.next() else { return Ok(None) };
        let is_known = self.origins.iter().any(|known| known.as_bytes() == origin.as_bytes());
        if is_known && origins.next().is_none() {
            return Ok(Some(origin));
        }
        if origin == "null" {
            return Err(Refusal::NoOrigin);
        }
        Err(Refusal::Origin(shown(&String::from_utf8_lossy(origin.as_bytes()))))
    }

    fn knows(&self, host: &[u8], bound: IpAddr) -> bool {
        // Most programs write one of these: nothing has to be read to know it.
        if [&b"127.0.0.1"[..], b"localhost"].into_iter().any(|usual| is_with_port(host, usual)) {
            return true;
        }
        let Ok(host) = str::from_utf8(host) else { return false };
        let name = without_port(host);
        if let Some(address) = address(name) {
            let declared = || self.hosts.iter().any(|known| self::address(known) == Some(address));
            // An address is no name that somebody else could lead here; of one that stands for all, all are ours.
            return address.is_loopback() || address == bound || bound.is_unspecified() || declared();
        }
        let name = name.strip_suffix('.').unwrap_or(name);
        let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
        // Nobody else can have these names: RFC 6761.
        let is_local = is_name
            && match name.len().checked_sub("localhost".len()).and_then(|at| name.split_at_checked(at)) {
                Some((before, last)) => {
                    last.eq_ignore_ascii_case("localhost") && (before.is_empty() || before.ends_with('.'))
                }
                None => false,
            };
        is_local || self.hosts.iter().any(|known| known.eq_ignore_ascii_case(name))
    }
}

/// Whether a host is this name, with or without a port.
fn is_with_port(host: &[u8], name: &[u8]) -> bool {
    match host.strip_prefix(name) {
        Some([]) => true,
        Some([b':', port @ ..]) => port.iter().all(u8::is_ascii_digit),
        _ => false,
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') && port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

/// The address that a host is, if it is no name.
fn address(host: &str) -> Option<IpAddr> {
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    match bare {
        Some(bare) => bare.parse().ok().map(IpAddr::V6),
        None => host.parse().ok().map(IpAddr::V4),
    }
}

/// What a stranger sent, as a message may have it.
fn shown(text: &str) -> String {
    text.chars().filter(char::is_ascii_graphic).take(100).collect()
}

#[cfg(test)]
mod tests {
    use hyper::Request;

    use super::*;

    const LOOPBACK: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn head(address: &str, headers: &[(&str, &str)]) -> Parts {
        let request = headers
            .iter()
            .fold(Request::get(address), |request, (name, value)| request.header(*name, *value));
        request.body(()).unwrap().into_parts().0
    }

    fn is_known(door: &Door, host: &str, bound: &str) -> bool {
        door.check(&head("/", &[("host", host)]), bound.parse().unwrap()).is_ok()
    }

    #[test]
    fn loopback_and_the_bound_address_are_known_by_any_port() {
        let door = Door::default();
        for host in [
            "localhost",
            "localhost:8000",
            "LocalHost:1",
            "localhost.:8000",
            "db.localhost",
            "127.0.0.1",
            "127.0.0.1:8000",
            "localhost:",
            "127.9.9.9",
            "[::1]",
            "[::1]:8000",
        ] {
            assert!(is_known(&door, host, "127.0.0.1"), "{host}");
        }
        for host in [
            "",
            ":8000",
            "evil.example",
            "evil.example:8000",
            "localhost.evil.example",
            "evillocalhost",
            "127.0.0.1.evil.example",
            "127.0.0.1:8000.evil.example",
            "127.0.0.1:x",
            "127.0.0.10000",
            "localhost:8000:evil.example",
            "10.0.0.5",
            "[fe80::1]",
            "localhost@evil.example",
            "evil.example/localhost",
            "localhost, evil.example",
            "evil.example/.localhost",
            "evil.example:80@.localhost",
            "evil.example .localhost",
            "::1",
            "0.0.0.0",
            "2130706433",
            "127.1",
        ] {
            assert!(!is_known(&door, host, "127.0.0.1"), "{host}");
        }
        assert!(is_known(&door, "10.0.0.5:8000", "10.0.0.5"));
        assert!(!is_known(&door, "10.0.0.6:8000", "10.0.0.5"));
        for host in ["10.0.0.6", "[fe80::1]:8000", "localhost"] {
            assert!(is_known(&door, host, "0.0.0.0") && is_known(&door, host, "::"), "{host}");
        }
        assert!(!is_known(&door, "larder", "0.0.0.0"));
    }

    #[test]
    fn a_declared_name_is_known() {
        let mut door = Door::default();
        door.allow_host("db.example.com").unwrap();
        door.allow_host("192.168.1.5").unwrap();
        assert!(is_known(&door, "DB.example.com:8000", "127.0.0.1"));
        assert!(is_known(&door, "192.168.1.5", "127.0.0.1"));
        assert!(!is_known(&door, "other.example.com", "127.0.0.1"));
        for wrong in ["", "*", "http://db", "db:8000", "a b"] {
            assert!(door.allow_host(wrong).unwrap_err().contains("without a port"), "{wrong}");
        }
    }

    #[test]
    fn every_host_that_a_request_names_must_be_known() {
        let door = Door::default();
        let check = |address: &str, headers: &[(&str, &str)]| {
            door.check(&head(address, headers), LOOPBACK).map(|_| ())
        };
        assert_eq!(check("/", &[]), Err(Refusal::NoHost));
        assert_eq!(check("http://localhost:8000/", &[]), Ok(()));
        let evil = Err(Refusal::Host("evil.example".to_owned()));
        assert_eq!(check("http://evil.example/", &[("host", "localhost")]), evil);
        assert_eq!(check("http://localhost/", &[("host", "evil.example:8000")]), evil);
        assert_eq!(check("/", &[("host", "localhost"), ("host", "evil.example")]), evil);
    }

    #[test]
    fn only_pages_that_were_declared_may_ask() {
        let mut door = Door::default();
        door.allow_origin("http://localhost:3000").unwrap();
        let check = |origins: &[&str]| {
            let headers: Vec<_> = [("host", "localhost")]
                .into_iter()
                .chain(origins.iter().map(|origin| ("origin", *origin)))
                .collect();
            door.check(&head("/", &headers), LOOPBACK)
                .map(|origin| origin.map(|origin| origin.to_str().unwrap().to_owned()))
        };
        assert_eq!(check(&[]), Ok(None));
        assert_eq!(check(&["null"]), Err(Refusal::NoOrigin));
        assert_eq!(check(&["http://localhost:3000"]), Ok(Some("http://localhost:3000".to_owned())));
        for other in
            ["http://localhost", "http://localhost:8000", "https://localhost:3000", "http://evil.example", ""]
        {
            assert_eq!(check(&[other]), Err(Refusal::Origin(other.to_owned())), "{other}");
        }
        assert!(check(&["http://localhost:3000", "http://evil.example"]).is_err());
        for wrong in [
            "*",
            "null",
            "localhost:3000",
            "http://",
            "http://a/",
            "http://A",
            "ftp://a",
            "http://*.example.com",
        ] {
            assert!(
                door.clone().allow_origin(wrong).unwrap_err().contains("http://localhost:3000"),
                "{wrong}"
            );
        }
    }

    #[test]
    fn what_a_stranger_sent_is_told_in_part() {
        let door = Door::default();
        let long = format!("evil{}.example", "l".repeat(1000));
        let Err(Refusal::Host(told)) = door.check(&head("/", &[("host", &long)]), LOOPBACK) else {
            panic!("let in")
        };
        assert_eq!(told.len(), 100);
    }
}
