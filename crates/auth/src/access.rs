//! The access file: who there is, with which keys, and what they may do.
//!
//! ```json
//! {
//!   "version": 1,
//!   "principals": [
//!     {
//!       "name": "alice",
//!       "account": "123456789012",
//!       "keys": [{"id": "LKIA…", "secret": "…"}],
//!       "tags": {"team": "kitchen"},
//!       "policies": {"app": {"Version": "2012-10-17", "Statement": []}}
//!     }
//!   ]
//! }
//! ```
//!
//! A principal has at most two keys, so that one can be replaced while programs still use it. A policy may also be a
//! JSON string that holds the document, as AWS's own answers have it.
//!
//! Promises:
//! - What was read and is written again says the same; policies keep the order of their members.
//! - No `Debug` shows a secret.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use subtle::ConstantTimeEq as _;

use crate::json::Json;
use crate::policy::{Policy, PolicyError};
use crate::sigv4::SigningKeys;

/// As many as IAM lets a user have.
pub const KEYS_MAX: usize = 2;
const VERSION: u64 = 1;
const NAME_CHARS_MAX: usize = 64;
/// Ours begin otherwise than AWS's `AKIA`, so that nobody takes one for the other.
const KEY_PREFIX: &str = "LKIA";

/// Everybody there is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Access {
    principals: Vec<Principal>,
    /// The place of each key: which principal, which of its keys.
    by_key: HashMap<String, (usize, usize)>,
    signing_keys: SigningKeys,
}

/// Somebody who can sign a request: what IAM calls a user.
#[derive(Clone, Debug, PartialEq)]
pub struct Principal {
    pub name: String,
    /// Twelve digits.
    pub account: String,
    pub keys: Vec<AccessKey>,
    pub tags: BTreeMap<String, String>,
    /// By name, in the order of the file.
    pub policies: Vec<(String, Policy)>,
}

impl Principal {
    pub fn arn(&self) -> String {
        format!("arn:aws:iam::{}:user/{}", self.account, self.name)
    }

    /// A stable name that says nothing else, as `aws:userid` has it: made of the account and the name.
    pub fn id(&self) -> String {
        let digest = crate::sigv4::hmac(self.account.as_bytes(), self.name.as_bytes());
        format!("AIDA{}", base32(&digest[..10]))
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct AccessKey {
    pub id: String,
    pub secret: Secret,
}

impl AccessKey {
    /// A new key, made of forty random bytes.
    pub fn generate(random: &[u8; 40]) -> Self {
        let (id, secret) = random.split_at(10);
        Self { id: format!("{KEY_PREFIX}{}", base32(id)), secret: Secret(BASE64.encode(secret)) }
    }
}

/// What only its owner and the server know.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Whether this text is the secret, told in the same time however much of it is right.
    pub fn is(&self, text: &str) -> bool {
        let digest = |text: &str| crate::sigv4::hmac(b"larder secret", text.as_bytes());
        digest(&self.0).ct_eq(&digest(text)).into()
    }

    /// The secret itself: to be shown once, written to the access file, or signed with.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// What is wrong with an access file: where, why, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AccessError {
    #[error(
        "the access file cannot be read: {0}. Restore it from a copy, or make a new one with `larder access add`."
    )]
    Unreadable(String),
    #[error(
        "the access file has version {0}, and this Larder reads version {VERSION}. Use the Larder that wrote it."
    )]
    Version(String),
    #[error("{place}: {fault}. {next}")]
    Fault { place: String, fault: String, next: &'static str },
    #[error("{place}: {error}")]
    Policy { place: String, error: PolicyError },
}

impl Access {
    /// Everybody in the text of an access file.
    pub fn read(text: &str) -> Result<Self, AccessError> {
        let json = Json::read(text).map_err(|error| AccessError::Unreadable(error.to_string()))?;
        let place = "the access file";
        let next = "It has `version` and `principals`.";
        let [version, principals] = members(&json, place, ["version", "principals"], next)?;
        match version {
            Some(Json::Number(number)) if number.as_u64() == Some(VERSION) => {}
            Some(other) => {
                return Err(AccessError::Version(other.scalar().unwrap_or_else(|| other.kind().to_owned())));
            }
            None => return Err(fault(place, "`version` is missing", "Write `\"version\": 1`.")),
        }
        let Some(Json::Array(principals)) = principals else {
            return Err(fault(place, "`principals` is not a list", "Write `\"principals\": []` for nobody."));
        };
        let principals = principals.iter().enumerate().map(|(at, json)| principal(at, json));
        Self::new(principals.collect::<Result<_, _>>()?)
    }

    /// Keys and names must be different from each other.
    pub fn new(principals: Vec<Principal>) -> Result<Self, AccessError> {
        let mut by_key = HashMap::new();
        let mut names = HashMap::new();
        for (at, principal) in principals.iter().enumerate() {
            let Principal { name, account, .. } = principal;
            let place = format!("principal `{name}`");
            if names.insert((account, name), at).is_some() {
                let error = format!("account {account} has two principals of that name");
                return Err(fault(&place, error, "Give one of them another name, or another account."));
            }
            if principal.keys.len() > KEYS_MAX {
                let error =
                    format!("it has {} access keys, and {KEYS_MAX} is the most", principal.keys.len());
                return Err(fault(&place, error, "Remove those that no program uses any more."));
            }
            for (key_at, key) in principal.keys.iter().enumerate() {
                if by_key.insert(key.id.clone(), (at, key_at)).is_some() {
                    let error = format!("access key {} is there twice", key.id);
                    return Err(fault(&place, error, "Make a new one with `larder access rotate`."));
                }
            }
        }
        Ok(Self { principals, by_key, signing_keys: SigningKeys::default() })
    }

    /// The text of an access file.
    pub fn write(&self) -> String {
        let principals = self.principals.iter().map(principal_json).collect();
        let file = Json::Object(vec![
            ("version".to_owned(), Json::Number(VERSION.into())),
            ("principals".to_owned(), Json::Array(principals)),
        ]);
        let mut text = serde_json::to_string_pretty(&file).expect("JSON is written as JSON");
        text.push('\n');
        text
    }

    pub(crate) fn signing_keys(&self) -> &SigningKeys {
        &self.signing_keys
    }

    pub fn principals(&self) -> &[Principal] {
        &self.principals
    }

    /// Whose key it is, and the key.
    pub fn find(&self, key_id: &str) -> Option<(&Principal, &AccessKey)> {
        let (at, key_at) = self.by_key.get(key_id)?;
        let principal = self.principals.get(*at)?;
        Some((principal, principal.keys.get(*key_at)?))
    }
}

fn principal(at: usize, json: &Json) -> Result<Principal, AccessError> {
    let place = format!("principal {}", at + 1);
    let next = "A principal has `name`, `account`, `keys`, `tags` and `policies`.";
    let [name, account, keys, tags, policies] =
        members(json, &place, ["name", "account", "keys", "tags", "policies"], next)?;
    let name = text(name, &place, "name")?;
    let is_name_char = |c: char| c.is_ascii_alphanumeric() || "_+=,.@-".contains(c);
    if name.is_empty() || name.len() > NAME_CHARS_MAX || !name.chars().all(is_name_char) {
        let next = "Use 1 to 64 letters, digits and _ + = , . @ -, as IAM does.";
        return Err(fault(&place, format!("`{name}` is not a name for a principal"), next));
    }
    let place = format!("principal `{name}`");
    let account = text(account, &place, "account")?;
    if account.len() != 12 || !account.bytes().all(|byte| byte.is_ascii_digit()) {
        let next = "Write twelve digits, such as 123456789012.";
        return Err(fault(&place, format!("`{account}` is not an account"), next));
    }
    let keys = match keys {
        None => Vec::new(),
        Some(Json::Array(keys)) => {
            keys.iter().enumerate().map(|(at, json)| key(&place, at, json)).collect::<Result<_, _>>()?
        }
        Some(_) => {
            return Err(fault(
                &place,
                "`keys` is not a list",
                "Write a list of `{\"id\": …, \"secret\": …}`.",
            ));
        }
    };
    let mut parsed = Vec::new();
    for (policy_name, document) in object(policies, &place, "policies")? {
        let place = format!("{place}, policy `{policy_name}`");
        let policy = match document {
            Json::String(text) => Policy::identity(text),
            document => Policy::identity_of(document.clone()),
        };
        let policy = policy.map_err(|error| AccessError::Policy { place, error })?;
        parsed.push((policy_name.clone(), policy));
    }
    let mut tag_map = BTreeMap::new();
    for (tag, value) in object(tags, &place, "tags")? {
        let Json::String(value) = value else {
            let error = format!("the tag `{tag}` is {}", value.kind());
            return Err(fault(&place, error, "A tag's value is a string."));
        };
        tag_map.insert(tag.clone(), value.clone());
    }
    Ok(Principal { name, account, keys, tags: tag_map, policies: parsed })
}

fn key(place: &str, at: usize, json: &Json) -> Result<AccessKey, AccessError> {
    let place = format!("{place}, key {}", at + 1);
    let [id, secret] = members(json, &place, ["id", "secret"], "A key has `id` and `secret`.")?;
    let (id, secret) = (text(id, &place, "id")?, text(secret, &place, "secret")?);
    let is_id =
        (16..=128).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if !is_id {
        let next = "Use 16 to 128 letters, digits and _, or make one with `larder access add`.";
        return Err(fault(&place, format!("`{id}` is not an access key id"), next));
    }
    if secret.is_empty() {
        return Err(fault(&place, "the secret is empty", "Make a new key with `larder access rotate`."));
    }
    Ok(AccessKey { id, secret: Secret(secret) })
}

/// The members of these names; no others may be there.
fn members<'a, const N: usize>(
    json: &'a Json,
    place: &str,
    names: [&str; N],
    next: &'static str,
) -> Result<[Option<&'a Json>; N], AccessError> {
    let Json::Object(object) = json else {
        return Err(fault(place, format!("it is {}, not an object", json.kind()), next));
    };
    if let Some((name, _)) = object.iter().find(|(name, _)| !names.contains(&name.as_str())) {
        return Err(fault(place, format!("`{name}` is not known"), next));
    }
    Ok(names.map(|name| object.iter().find(|(other, _)| other == name).map(|(_, value)| value)))
}

fn text(json: Option<&Json>, place: &str, name: &str) -> Result<String, AccessError> {
    match json {
        Some(Json::String(text)) => Ok(text.clone()),
        Some(other) => Err(fault(place, format!("`{name}` is {}", other.kind()), "Write a string.")),
        None => Err(fault(place, format!("`{name}` is missing"), "Add it, or remove the entry.")),
    }
}

fn object<'a>(json: Option<&'a Json>, place: &str, name: &str) -> Result<&'a [(String, Json)], AccessError> {
    match json {
        None => Ok(&[]),
        Some(Json::Object(members)) => Ok(members),
        Some(other) => Err(fault(
            place,
            format!("`{name}` is {}", other.kind()),
            "Write an object, with a member for each.",
        )),
    }
}

fn fault(place: &str, fault: impl Into<String>, next: &'static str) -> AccessError {
    AccessError::Fault { place: place.to_owned(), fault: fault.into(), next }
}

fn principal_json(principal: &Principal) -> Json {
    let member = |name: &str, value| (name.to_owned(), value);
    let keys = principal.keys.iter().map(|key| {
        Json::Object(vec![
            member("id", Json::string(&key.id)),
            member("secret", Json::string(key.secret.reveal())),
        ])
    });
    let mut members = vec![
        member("name", Json::string(&principal.name)),
        member("account", Json::string(&principal.account)),
        member("keys", Json::Array(keys.collect())),
    ];
    if !principal.tags.is_empty() {
        let tags = principal.tags.iter().map(|(name, value)| (name.clone(), Json::string(value)));
        members.push(member("tags", Json::Object(tags.collect())));
    }
    let policies = principal.policies.iter().map(|(name, policy)| (name.clone(), policy.document().clone()));
    members.push(member("policies", Json::Object(policies.collect())));
    Json::Object(members)
}

/// Without padding; five bits a letter.
pub(crate) fn base32(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    let mut text = String::new();
    let (mut held, mut bits) = (0u32, 0);
    for byte in bytes {
        held = held << 8 | u32::from(*byte);
        bits += 8;
        while bits >= 5 {
            bits -= 5;
            text.push(char::from(LETTERS[(held >> bits & 31) as usize]));
        }
    }
    text
}

#[cfg(test)]
pub(crate) mod tests;
