//! Who may come in, and what they may do: signatures, the access file, and policies in IAM's own language.
//!
//! ```text
//! authenticate   request ─sigv4─► a signature that is right ─access, session─► whose it is
//! authorize      request ─actions─► what it needs ─facts, policy─► allowed, or AccessDenied
//! ```
//!
//! Everything here maps values to values: nothing does I/O, reads a clock or draws random numbers. Errors have AWS's
//! codes and words.
//!
//! ```
//! use larder_auth::policy::{Facts, Question, decide};
//! use larder_auth::Access;
//!
//! struct NoFacts;
//! impl Facts for NoFacts {
//!     fn values(&self, _key: &str) -> Option<Vec<String>> {
//!         None
//!     }
//! }
//!
//! let access = Access::read(r#"{"version": 1, "principals": [{
//!     "name": "alice",
//!     "account": "123456789012",
//!     "policies": {"app": {
//!         "Version": "2012-10-17",
//!         "Statement": {"Sid": "Read", "Effect": "Allow", "Action": "dynamodb:Get*", "Resource": "*"}
//!     }}
//! }]}"#)?;
//! let resource = "arn:aws:dynamodb:us-east-1:123456789012:table/orders";
//! let mut question = Question {
//!     principal: &access.principals()[0],
//!     action: "dynamodb:GetItem",
//!     resource,
//!     resource_account: "123456789012",
//!     resource_policy: None,
//!     facts: &NoFacts,
//! };
//! assert_eq!(decide(&question).to_string(), "allowed by statement 1 (Read) of the policy `app`");
//!
//! question.action = "dynamodb:PutItem";
//! assert_eq!(
//!     question.allowed().unwrap_err().to_string(),
//!     "User: arn:aws:iam::123456789012:user/alice is not authorized to perform: dynamodb:PutItem on resource: \
//!      arn:aws:dynamodb:us-east-1:123456789012:table/orders because no identity-based policy allows the \
//!      dynamodb:PutItem action"
//! );
//! # Ok::<(), larder_auth::AccessError>(())
//! ```

mod access;
pub mod actions;
mod error;
mod facts;
mod governed;
mod json;
pub mod policy;
mod resource;
mod session;
mod sigv4;
mod time;

use std::borrow::Cow;

use larder_model::{Item, TableName, UnixTime};
use larder_ops::Request;

pub use access::{Access, AccessError, AccessKey, KEYS_MAX, Principal, Secret};
pub use error::Error;
pub use facts::{Circumstances, Tables};
pub use governed::{PolicyRefusal, check_policy, read_policy};
pub use policy::{Policy, PolicyError};
pub use resource::{Place, Resource, ResourceKind};
pub use session::Session;
pub use sigv4::{Claim, HttpRequest, sign};

use actions::Need;
use facts::{Known, NoTables};
use policy::Question;

/// What the principal is called that can remove any policy of its account's resources, if its own policies allow it.
const ROOT: &str = "root";

/// Whoever signed a request, and with what.
#[derive(Clone, Debug, PartialEq)]
pub struct Caller<'a> {
    pub principal: &'a Principal,
    /// A key of the principal, or of one of its sessions.
    pub key_id: String,
    /// The region of the signature.
    pub region: String,
    pub is_session: bool,
    pub is_presigned: bool,
}

impl Caller<'_> {
    /// Where the tables are that the caller names without an ARN.
    pub fn place(&self) -> Place<'_> {
        Place { region: &self.region, account: &self.principal.account }
    }
}

/// Who signed this request, if the signature is right and recent.
pub fn authenticate<'a>(
    http: &HttpRequest<'_>,
    access: &'a Access,
    now: UnixTime,
) -> Result<Caller<'a>, Error> {
    let claim = Claim::of(http)?;
    claim.check(http, now)?;
    let (principal, secret) = match claim.token() {
        None => {
            let (principal, key) = access.find(claim.key_id()).ok_or(Error::UnrecognizedClient)?;
            (principal, Cow::Borrowed(&key.secret))
        }
        Some(token) => {
            let (principal, secret) = Session::resolve(claim.key_id(), token, access, now)?;
            (principal, Cow::Owned(secret))
        }
    };
    access.signing_keys().verify(&claim, http, secret.reveal())?;
    Ok(Caller {
        principal,
        key_id: claim.key_id().to_owned(),
        region: claim.region().to_owned(),
        is_session: claim.token().is_some(),
        is_presigned: claim.is_presigned(),
    })
}

/// Whether the caller may do something that is no operation of DynamoDB's, and about no one resource.
pub fn authorize_action(
    caller: &Caller<'_>,
    action: &'static str,
    circumstances: &Circumstances<'_>,
) -> Result<(), Error> {
    let need = Need::new(action, Resource::Any);
    permitted(caller, &need, caller.place(), circumstances, &NoTables)
}

/// Whether the caller may do to a table what is no operation of DynamoDB's: to the item with this key, or to all of them.
pub fn authorize_on_table(
    caller: &Caller<'_>,
    action: &'static str,
    (table, key): (&TableName, Option<&Item>),
    place: Place<'_>,
    circumstances: &Circumstances<'_>,
    tables: &dyn Tables,
) -> Result<(), Error> {
    permitted(caller, &Need::on_table(action, table, key), place, circumstances, tables)
}

/// Whether the caller has every permission that the request needs. Tables whose names do not say where they are, are at
/// `place`.
pub fn authorize(
    caller: &Caller<'_>,
    request: &Request,
    place: Place<'_>,
    circumstances: &Circumstances<'_>,
    tables: &dyn Tables,
) -> Result<(), Error> {
    actions::needs(request).iter().try_for_each(|need| permitted(caller, need, place, circumstances, tables))
}

/// Whether the caller has one permission.
pub fn permitted(
    caller: &Caller<'_>,
    need: &Need<'_>,
    place: Place<'_>,
    circumstances: &Circumstances<'_>,
    tables: &dyn Tables,
) -> Result<(), Error> {
    let resource_policy = match &need.resource {
        Resource::Table(table) | Resource::Index(table, _) => tables.table_policy(table),
        Resource::Stream(stream) => tables.stream_policy(stream),
        Resource::Any
        | Resource::EveryTable
        | Resource::Backup(_)
        | Resource::Export(_)
        | Resource::Import(_) => None,
    };
    let place = need.resource.place(caller.place(), place);
    // A policy that keeps everybody out could never be removed.
    let account = need.resource.account(place);
    let resource_policy = resource_policy.filter(|_| !is_rescue(caller.principal, need.action, account));
    let question = Question {
        principal: caller.principal,
        action: need.action,
        resource: &need.resource.arn(place),
        resource_account: account,
        resource_policy: resource_policy.as_deref(),
        facts: &Known { caller, circumstances, need, place, tables },
    };
    question.allowed().map_err(|denial| Error::AccessDenied(Box::new(denial)))
}

/// Whether this is the root of an account at removing a policy of its own account, which no such policy can deny it.
pub fn is_rescue(principal: &Principal, action: &str, resource_account: &str) -> bool {
    resource_account == principal.account
        && action == "dynamodb:DeleteResourcePolicy"
        && principal.name == ROOT
}
