//! Sessions: keys for a while, made of a principal's own key and known to nobody until they are used.
//!
//! A session's token says whose key it was made of, until when, and sixteen random bytes; a MAC under the parent's
//! secret seals it. The session's own id and secret follow from that, so the server keeps nothing. Removing the parent
//! key ends all its sessions.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use larder_model::UnixTime;
use subtle::ConstantTimeEq;

use crate::access::{Access, AccessKey, Principal, Secret, base32};
use crate::error::Error;
use crate::sigv4::hmac;

/// As `ASIA` is for AWS's.
const PREFIX: &str = "LSIA";
const VERSION: u8 = 1;
const MAC_BYTES: usize = 32;
/// Version, end, random.
const HEAD_BYTES: usize = 1 + 8 + 16;

/// What a program signs with while a session lasts.
#[derive(Clone, Debug, PartialEq)]
pub struct Session {
    pub key: AccessKey,
    pub token: Secret,
    pub expires: UnixTime,
}

impl Session {
    /// A session of whoever holds `parent`.
    pub fn open(parent: &AccessKey, expires: UnixTime, random: &[u8; 16]) -> Self {
        let mut token = vec![VERSION];
        token.extend(expires.seconds().to_be_bytes());
        token.extend(random);
        token.extend(parent.id.as_bytes());
        let key = key(&token, parent);
        token.extend(seal(&token, parent));
        Self { key, token: Secret::new(BASE64.encode(token)), expires }
    }

    /// Whose session has this token, and the secret of its key.
    pub(crate) fn resolve<'a>(
        key_id: &str,
        token: &str,
        access: &'a Access,
        now: UnixTime,
    ) -> Result<(&'a Principal, Secret), Error> {
        let token = BASE64.decode(token).map_err(|_| Error::UnrecognizedClient)?;
        let (sealed, mac) = token.split_last_chunk::<MAC_BYTES>().ok_or(Error::UnrecognizedClient)?;
        let (head, parent_id) = sealed.split_first_chunk::<HEAD_BYTES>().ok_or(Error::UnrecognizedClient)?;
        let parent_id = std::str::from_utf8(parent_id).map_err(|_| Error::UnrecognizedClient)?;
        let (principal, parent) = access.find(parent_id).ok_or(Error::UnrecognizedClient)?;
        let is_ours = head[0] == VERSION && bool::from(seal(sealed, parent).ct_eq(mac));
        let key = key(sealed, parent);
        if !is_ours || key.id != key_id {
            return Err(Error::UnrecognizedClient);
        }
        let mut expires = [0; 8];
        expires.copy_from_slice(&head[1..9]);
        if now >= UnixTime::from_seconds(i64::from_be_bytes(expires)) {
            return Err(Error::ExpiredToken);
        }
        Ok((principal, key.secret))
    }
}

fn seal(sealed: &[u8], parent: &AccessKey) -> [u8; MAC_BYTES] {
    derive("larder session token", sealed, parent)
}

fn key(sealed: &[u8], parent: &AccessKey) -> AccessKey {
    let id = derive("larder session id", sealed, parent);
    let secret = derive("larder session secret", sealed, parent);
    AccessKey {
        id: format!("{PREFIX}{}", base32(&id[..10])),
        secret: Secret::new(BASE64.encode(&secret[..30])),
    }
}

fn derive(purpose: &str, sealed: &[u8], parent: &AccessKey) -> [u8; MAC_BYTES] {
    let key = hmac(parent.secret.reveal().as_bytes(), purpose.as_bytes());
    hmac(&key, sealed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::tests::alice;

    #[test]
    fn a_session_is_its_parent_s_until_it_ends() {
        let access = Access::new(vec![alice()]).unwrap();
        let parent = &access.principals()[0].keys[0];
        let end = UnixTime::from_seconds(1_000);
        let session = Session::open(parent, end, &[7; 16]);
        assert!(session.key.id.starts_with("LSIA") && session.key.id.len() == 20);
        assert_eq!(session.key.secret.reveal().len(), 40);
        let resolve = |now| {
            Session::resolve(&session.key.id, session.token.reveal(), &access, UnixTime::from_seconds(now))
        };
        let (principal, secret) = resolve(999).unwrap();
        assert_eq!((principal.name.as_str(), secret), ("alice", session.key.secret.clone()));
        assert_eq!(resolve(1_000).unwrap_err(), Error::ExpiredToken);
    }

    #[test]
    fn a_token_that_was_changed_is_nobody_s() {
        let access = Access::new(vec![alice()]).unwrap();
        let parent = &access.principals()[0].keys[0];
        let session = Session::open(parent, UnixTime::from_seconds(1_000), &[7; 16]);
        let now = UnixTime::from_seconds(0);
        let token = BASE64.decode(session.token.reveal()).unwrap();
        for at in 0..token.len() {
            let mut other = token.clone();
            other[at] ^= 1;
            let resolved = Session::resolve(&session.key.id, &BASE64.encode(other), &access, now);
            assert_eq!(resolved.unwrap_err(), Error::UnrecognizedClient, "byte {at}");
        }
        for other in ["", "no base64!", "AAAA"] {
            assert_eq!(
                Session::resolve(&session.key.id, other, &access, now).unwrap_err(),
                Error::UnrecognizedClient
            );
        }
        let other_id = Session::resolve(&parent.id, session.token.reveal(), &access, now);
        assert_eq!(other_id.unwrap_err(), Error::UnrecognizedClient);
        // Once the parent's key is gone, so is the session.
        let nobody = Access::default();
        let gone = Session::resolve(&session.key.id, session.token.reveal(), &nobody, now);
        assert_eq!(gone.unwrap_err(), Error::UnrecognizedClient);
    }

    #[test]
    fn sessions_of_the_same_key_differ() {
        let parent = &alice().keys[0];
        let end = UnixTime::from_seconds(1_000);
        let (one, two) = (Session::open(parent, end, &[1; 16]), Session::open(parent, end, &[2; 16]));
        assert_ne!((&one.key.id, &one.key.secret, &one.token), (&two.key.id, &two.key.secret, &two.token));
        assert!(!format!("{one:?}").contains(one.key.secret.reveal()));
        assert!(!format!("{one:?}").contains(one.token.reveal()));
    }
}
