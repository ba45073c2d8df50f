//! AWS Signature Version 4: does whoever sent this request know the secret of the key it names?
//!
//! ```text
//! request ─claim─► what it says of itself ─current, scope─► worth checking ─canonical─► text ─HMAC─► signature
//! ```
//!
//! A signature comes in the `Authorization` header or in the query of a presigned address. Faults are found in AWS's
//! order: no signature, parts that are missing or have another form, too old, `Host` not signed, algorithm, credential
//! scope; then the key, and then the signature itself.
//!
//! What is signed is the body as it was sent, before it is unpacked. DynamoDB has no operation with an unsigned
//! payload, so `UNSIGNED-PAYLOAD` is a signature of something else, and refused as any other.
//!
//! Promises:
//! - A signature is compared in constant time.
//! - What `X-Amz-Target` says is signed if it is there: nobody on the way makes another operation of a request.
//! - A signature is good for fifteen minutes before and after its date, a presigned address for as long as it says, at
//!   most seven days.

mod canonical;
mod claim;

use std::collections::HashMap;
use std::fmt;
use std::sync::{PoisonError, RwLock};

use hmac::{Hmac, KeyInit, Mac};
use larder_model::UnixTime;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::access::AccessKey;
use crate::error::Error;
use crate::time::to_basic;

pub use claim::Claim;

use claim::Scope;

/// What DynamoDB and its streams are called in a credential scope.
pub(crate) const SERVICE: &str = "dynamodb";

const ALGORITHM: &str = "AWS4-HMAC-SHA256";
const TERMINATOR: &str = "aws4_request";
/// How far a signature's date may be from now.
const SKEW_SECONDS: i64 = 15 * 60;
/// The most headers that a signature can name: nobody sends so many, and each is looked for.
const SIGNED_HEADERS_MAX: usize = 256;
/// How many keys for a day are kept.
const SIGNING_KEYS_MAX: usize = 1024;
/// The longest that a presigned address can be good for.
const EXPIRES_SECONDS_MAX: i64 = 7 * 24 * 60 * 60;

/// What a signature is made of: an HTTP request as it was received.
#[derive(Clone, Copy, Debug)]
pub struct HttpRequest<'a> {
    pub method: &'a str,
    /// As sent, still encoded, without the query.
    pub path: &'a str,
    /// As sent, still encoded, without `?`; empty if there is none.
    pub query: &'a str,
    /// In the order they came; one that came twice is here twice. HTTP/2's `:authority` is here as `host`.
    pub headers: &'a [(&'a str, &'a [u8])],
    /// As sent: what is packed is still packed.
    pub body: &'a [u8],
}

impl<'a> HttpRequest<'a> {
    fn values(&self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        self.headers
            .iter()
            .filter(move |(other, _)| other.eq_ignore_ascii_case(name))
            .map(|(_, value)| *value)
    }

    fn has(&self, name: &str) -> bool {
        self.values(name).next().is_some()
    }
}

impl Claim {
    /// Whether the signature is recent, whole and for this service.
    pub fn check(&self, http: &HttpRequest<'_>, now: UnixTime) -> Result<(), Error> {
        self.check_for(http, SERVICE, now)
    }

    fn check_for(&self, http: &HttpRequest<'_>, service: &str, now: UnixTime) -> Result<(), Error> {
        self.check_current(now)?;
        self.check_signed_headers(http)?;
        if self.algorithm != ALGORITHM {
            let fault =
                format!("Unsupported AWS 'algorithm': '{}' (only {ALGORITHM} for now). ", self.algorithm);
            return Err(Error::IncompleteSignature(fault));
        }
        self.check_scope(service)
    }

    fn check_current(&self, now: UnixTime) -> Result<(), Error> {
        let moved = |seconds: i64| UnixTime::from_seconds(now.seconds().saturating_add(seconds));
        let date = &self.date_text;
        let lifetime = self.expires_seconds.unwrap_or(SKEW_SECONDS);
        let oldest = moved(-lifetime);
        if self.date < oldest {
            let lifetime = match lifetime % 60 {
                0 => format!("{} min.", lifetime / 60),
                _ => format!("{lifetime} sec."),
            };
            return Err(Error::InvalidSignature(format!(
                "Signature expired: {date} is now earlier than {} ({} - {lifetime})",
                to_basic(oldest),
                to_basic(now)
            )));
        }
        let newest = moved(SKEW_SECONDS);
        if self.date > newest {
            return Err(Error::InvalidSignature(format!(
                "Signature not yet current: {date} is still later than {} ({} + {} min.)",
                to_basic(newest),
                to_basic(now),
                SKEW_SECONDS / 60
            )));
        }
        Ok(())
    }

    fn check_signed_headers(&self, http: &HttpRequest<'_>) -> Result<(), Error> {
        let is_signed = |name: &str| self.signed_headers.iter().any(|signed| signed == name);
        if !is_signed("host") {
            let fault = "'Host' or ':authority' must be a 'SignedHeader' in the AWS Authorization.";
            return Err(Error::InvalidSignature(fault.to_owned()));
        }
        if http.has("x-amz-target") && !is_signed("x-amz-target") {
            let fault = "'X-Amz-Target' must be a 'SignedHeader' in the AWS Authorization.";
            return Err(Error::InvalidSignature(fault.to_owned()));
        }
        if let Some(absent) = self.signed_headers.iter().find(|name| !http.has(name)) {
            let fault =
                format!("'{absent}' is a 'SignedHeader' in the AWS Authorization but not in the request.");
            return Err(Error::InvalidSignature(fault));
        }
        Ok(())
    }

    fn check_scope(&self, service: &str) -> Result<(), Error> {
        let scope = &self.scope;
        let mut faults = String::new();
        // A region becomes part of ARNs.
        let is_region = |text: &str| {
            (1..=64).contains(&text.len())
                && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        };
        if !is_region(&scope.region) {
            faults += &format!("Credential should be scoped to a valid region, not '{}'. ", scope.region);
        }
        if scope.service != service {
            faults += &format!("Credential should be scoped to correct service: '{service}'. ");
        }
        if scope.terminator != TERMINATOR {
            let terminator = &scope.terminator;
            faults += &format!(
                "Credential should be scoped with a valid terminator: '{TERMINATOR}', not '{terminator}'. "
            );
        }
        let day = &self.date_text[..8];
        if scope.day != day {
            faults += &format!(
                "Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date from HTTP: '{}' != \
                 '{day}', from '{}'.",
                scope.day, self.date_text
            );
        }
        if faults.is_empty() { Ok(()) } else { Err(Error::InvalidSignature(faults)) }
    }

    /// Whether the signature is the one that this secret makes.
    pub fn verify(&self, http: &HttpRequest<'_>, secret: &str) -> Result<(), Error> {
        self.verify_with(http, &signing_key(&self.scope, secret))
    }

    fn verify_with(&self, http: &HttpRequest<'_>, key: &SigningKey) -> Result<(), Error> {
        let Signed { canonical, to_sign, signature } =
            signed(http, &self.signed_headers, &self.date_text, &self.scope, key);
        if bool::from(signature.as_bytes().ct_eq(self.signature.as_bytes())) {
            return Ok(());
        }
        Err(Error::InvalidSignature(format!(
            "The request signature we calculated does not match the signature you provided. Check your AWS Secret \
             Access Key and signing method. Consult the service documentation for details.\n\nThe Canonical String for \
             this request should have been\n'{}'\n\nThe String-to-Sign should have been\n'{to_sign}'\n",
            String::from_utf8_lossy(&canonical)
        )))
    }
}

/// A signature, and what it is of.
struct Signed {
    canonical: Vec<u8>,
    to_sign: String,
    signature: String,
}

type SigningKey = [u8; 32];

/// What a secret signs with for a day in a region.
fn signing_key(scope: &Scope, secret: &str) -> SigningKey {
    let mut key = hmac(format!("AWS4{secret}").as_bytes(), scope.day.as_bytes());
    for part in [&scope.region, &scope.service, &scope.terminator] {
        key = hmac(&key, part.as_bytes());
    }
    key
}

/// Keys that have signed something right, so that they are made once a day rather than with every request.
#[derive(Default)]
pub(crate) struct SigningKeys(RwLock<HashMap<String, (Scope, SigningKey)>>);

impl SigningKeys {
    /// As [`Claim::verify`].
    pub(crate) fn verify(&self, claim: &Claim, http: &HttpRequest<'_>, secret: &str) -> Result<(), Error> {
        let kept = self.0.read().unwrap_or_else(PoisonError::into_inner).get(&claim.key_id).cloned();
        if let Some((scope, key)) = kept
            && scope == claim.scope
        {
            return claim.verify_with(http, &key);
        }
        let key = signing_key(&claim.scope, secret);
        claim.verify_with(http, &key)?;
        let mut kept = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= SIGNING_KEYS_MAX {
            kept.clear();
        }
        kept.insert(claim.key_id.clone(), (claim.scope.clone(), key));
        Ok(())
    }
}

/// Whoever has one can sign for a day.
impl fmt::Debug for SigningKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKeys(…)")
    }
}

/// They follow from the secrets: nobody is another with them or without.
impl Clone for SigningKeys {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl PartialEq for SigningKeys {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

fn signed(http: &HttpRequest<'_>, headers: &[String], date: &str, scope: &Scope, key: &SigningKey) -> Signed {
    let canonical = canonical::request(http, headers);
    let hash = hex(&Sha256::digest(&canonical));
    let to_sign = format!("{ALGORITHM}\n{date}\n{scope}\n{hash}");
    let signature = hex(&hmac(key, to_sign.as_bytes()));
    Signed { canonical, to_sign, signature }
}

/// The headers that make a signed request of this one, whose own headers are all signed. `token` is of a session.
pub fn sign(
    http: &HttpRequest<'_>,
    key: &AccessKey,
    token: Option<&str>,
    region: &str,
    now: UnixTime,
) -> Vec<(&'static str, String)> {
    let date = to_basic(now);
    let mut more = vec![("x-amz-date", date.clone())];
    more.extend(token.map(|token| ("x-amz-security-token", token.to_owned())));
    let added = more.iter().map(|(name, value)| (*name, value.as_bytes()));
    let headers: Vec<(&str, &[u8])> = http.headers.iter().copied().chain(added).collect();
    let mut names: Vec<String> = headers.iter().map(|(name, _)| name.to_ascii_lowercase()).collect();
    names.sort();
    names.dedup();
    let scope = Scope {
        day: date[..8].to_owned(),
        region: region.to_owned(),
        service: SERVICE.to_owned(),
        terminator: TERMINATOR.to_owned(),
    };
    let Signed { signature, .. } = signed(
        &HttpRequest { headers: &headers, ..*http },
        &names,
        &date,
        &scope,
        &signing_key(&scope, key.secret.reveal()),
    );
    let authorization = format!(
        "{ALGORITHM} Credential={}/{scope}, SignedHeaders={}, Signature={signature}",
        key.id,
        names.join(";")
    );
    more.push(("authorization", authorization));
    more
}

pub(crate) fn hmac(key: &[u8], message: &[u8]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes a key of any length");
    mac.update(message);
    mac.finalize().into_bytes().into()
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes
        .iter()
        .flat_map(|byte| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]])
        .map(char::from)
        .collect()
}

#[cfg(test)]
mod tests;
