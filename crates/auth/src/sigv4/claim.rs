//! What a request says of its own signature: who, when, what of it is signed.

use std::borrow::Cow;
use std::fmt;

use larder_model::UnixTime;

use super::canonical::query_pairs;
use super::{EXPIRES_SECONDS_MAX, HttpRequest, SIGNED_HEADERS_MAX};
use crate::error::Error;
use crate::time::from_basic;

const PREFIX: &str = "X-Amz-";

/// What a request says of its own signature. Nothing of it is to be believed before [`Claim::check`] and
/// [`Claim::verify`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    pub(super) algorithm: String,
    pub(super) key_id: String,
    pub(super) scope: Scope,
    /// Lower case, sorted.
    pub(super) signed_headers: Vec<String>,
    pub(super) signature: String,
    pub(super) date: UnixTime,
    pub(super) date_text: String,
    /// How long a presigned address is good for; absent when it is none.
    pub(super) expires_seconds: Option<i64>,
    pub(super) token: Option<String>,
    pub(super) presigned: bool,
}

/// What a signing key is good for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Scope {
    pub(super) day: String,
    pub(super) region: String,
    pub(super) service: String,
    pub(super) terminator: String,
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { day, region, service, terminator } = self;
        write!(f, "{day}/{region}/{service}/{terminator}")
    }
}

impl Claim {
    /// Whose key is said to have signed.
    pub fn key_id(&self) -> &str {
        &self.key_id
    }

    pub fn region(&self) -> &str {
        &self.scope.region
    }

    /// The session token, if the key is one of a session.
    pub fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    pub fn is_presigned(&self) -> bool {
        self.presigned
    }

    pub fn of(http: &HttpRequest<'_>) -> Result<Self, Error> {
        let query = query_pairs(http.query);
        let in_query = query.iter().any(|(name, _)| name == "X-Amz-Algorithm");
        let in_header = http.has("authorization");
        match (in_header, in_query) {
            (true, true) => Err(Error::InvalidSignature(
                "Found both 'X-Amz-Algorithm' as a query-string param and 'Authorization' as HTTP header."
                    .to_owned(),
            )),
            (false, true) => Self::of_query(&query),
            (true, false) => Self::of_header(http),
            (false, false) => Err(Error::MissingAuthenticationToken),
        }
    }

    fn of_header(http: &HttpRequest<'_>) -> Result<Self, Error> {
        let header = joined(http, "authorization").unwrap_or_default();
        let header = header.trim();
        if !header.starts_with("AWS4-") {
            return Err(Error::MissingAuthenticationToken);
        }
        let (algorithm, rest) = header.split_once(' ').unwrap_or((header, ""));
        let (mut credential, mut signature, mut signed_headers) = (None, None, None);
        for pair in rest.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
            let Some((name, value)) = pair.split_once('=') else {
                return Err(Error::IncompleteSignature(format!(
                    "'{pair}' not a valid key=value pair (missing equal-sign) in Authorization header: '{header}'."
                )));
            };
            let place = match name {
                "Credential" => &mut credential,
                "Signature" => &mut signature,
                "SignedHeaders" => &mut signed_headers,
                _ => continue,
            };
            if place.replace(value).is_some() {
                let fault = format!(
                    "Authorization header has more than one '{name}' parameter. Authorization={header}"
                );
                return Err(Error::IncompleteSignature(fault));
            }
        }
        let date = joined(http, "x-amz-date").or_else(|| joined(http, "date"));
        let mut faults = String::new();
        for (name, value) in
            [("Credential", credential), ("Signature", signature), ("SignedHeaders", signed_headers)]
        {
            if value.is_none_or(str::is_empty) {
                faults += &format!("Authorization header requires '{name}' parameter. ");
            }
        }
        if date.is_none() {
            faults += "Authorization header requires existence of either a 'X-Amz-Date' or a 'Date' header. ";
        }
        let (Some(credential), Some(signature), Some(signed_headers), Some(date), true) =
            (credential, signature, signed_headers, date, faults.is_empty())
        else {
            return Err(Error::IncompleteSignature(format!("{faults}Authorization={header}")));
        };
        let token = joined(http, "x-amz-security-token").map(Cow::into_owned);
        let parts = Parts { algorithm, credential, signed_headers, signature, date: date.trim() };
        parts.into_claim(token, None, false)
    }

    fn of_query(query: &[(String, String)]) -> Result<Self, Error> {
        let mut faults = String::new();
        let mut find = |name: &str, is_required: bool| {
            let mut found = query.iter().filter(|(other, _)| other.strip_prefix(PREFIX) == Some(name));
            let value = found.next().map(|(_, value)| value.as_str()).filter(|value| !value.is_empty());
            if value.is_none() && is_required {
                faults += &format!("AWS query-string parameters must include '{PREFIX}{name}'. ");
            }
            if found.next().is_some() {
                faults += &format!("AWS query-string parameters must include '{PREFIX}{name}' only once. ");
            }
            value
        };
        let algorithm = find("Algorithm", true);
        let credential = find("Credential", true);
        let signature = find("Signature", true);
        let signed_headers = find("SignedHeaders", true);
        let date = find("Date", true);
        let expires = find("Expires", false);
        let token = find("Security-Token", false);
        let expires_seconds = match expires.map(str::parse::<i64>) {
            None => None,
            Some(Ok(seconds)) if (0..=EXPIRES_SECONDS_MAX).contains(&seconds) => Some(seconds),
            Some(_) => {
                faults += &format!(
                    "'{PREFIX}Expires' must be a number of seconds from 0 to {EXPIRES_SECONDS_MAX}. "
                );
                None
            }
        };
        let (Some(algorithm), Some(credential), Some(signature), Some(signed_headers), Some(date), true) =
            (algorithm, credential, signature, signed_headers, date, faults.is_empty())
        else {
            return Err(Error::IncompleteSignature(format!(
                "{faults}Re-examine the query-string parameters."
            )));
        };
        let parts = Parts { algorithm, credential, signed_headers, signature, date };
        parts.into_claim(token.map(str::to_owned), expires_seconds, true)
    }
}

/// The parts of a signature as written, wherever they were written.
struct Parts<'a> {
    algorithm: &'a str,
    credential: &'a str,
    signed_headers: &'a str,
    signature: &'a str,
    date: &'a str,
}

impl Parts<'_> {
    fn into_claim(
        self,
        token: Option<String>,
        expires_seconds: Option<i64>,
        presigned: bool,
    ) -> Result<Claim, Error> {
        let Some(date) = from_basic(self.date) else {
            return Err(Error::IncompleteSignature(format!(
                "Date must be in ISO-8601 'basic format'. Got '{}'. See http://en.wikipedia.org/wiki/ISO_8601",
                self.date
            )));
        };
        let pieces: Vec<&str> = self.credential.trim_end_matches('/').split('/').collect();
        let &[key_id, day, region, service, terminator] = pieces.as_slice() else {
            return Err(Error::IncompleteSignature(format!(
                "Credential must have exactly 5 slash-delimited elements, e.g. keyid/date/region/service/term, got \
                 '{}'",
                self.credential
            )));
        };
        if self.signed_headers.split(';').nth(SIGNED_HEADERS_MAX).is_some() {
            let fault = format!("'SignedHeaders' must name at most {SIGNED_HEADERS_MAX} headers.");
            return Err(Error::IncompleteSignature(fault));
        }
        let mut signed_headers: Vec<String> =
            self.signed_headers.split(';').map(str::to_ascii_lowercase).collect();
        signed_headers.sort();
        signed_headers.dedup();
        Ok(Claim {
            algorithm: self.algorithm.to_owned(),
            key_id: key_id.to_owned(),
            scope: Scope {
                day: day.to_owned(),
                region: region.to_owned(),
                service: service.to_owned(),
                terminator: terminator.to_owned(),
            },
            signed_headers,
            signature: self.signature.to_owned(),
            date,
            date_text: self.date.to_owned(),
            expires_seconds,
            token,
            presigned,
        })
    }
}

/// The header's text; one that came twice has both, so that it is not what anybody wants.
fn joined<'a>(http: &HttpRequest<'a>, name: &str) -> Option<Cow<'a, str>> {
    let mut values = http.values(name).map(String::from_utf8_lossy);
    let first = values.next()?;
    Some(values.fold(first, |all, next| Cow::Owned(format!("{all},{next}"))))
}
