//! What the policies of a principal and of a resource decide together.
//!
//! An explicit deny anywhere wins. Within an account, either kind of policy can allow; a resource policy that names only
//! the account leaves it to the principal's own. From another account, both kinds have to. Otherwise the answer is no.

use std::fmt;

use super::principal::Meant;
use super::{Effect, Facts, Policy, Statement};
use crate::access::Principal;

/// May this principal do this, on this, now?
#[derive(Clone, Copy)]
pub struct Question<'a> {
    pub principal: &'a Principal,
    /// With its service: `dynamodb:GetItem`.
    pub action: &'a str,
    /// An ARN, or `*` for an action that is about no one resource.
    pub resource: &'a str,
    /// Whose resource it is.
    pub resource_account: &'a str,
    pub resource_policy: Option<&'a Policy>,
    pub facts: &'a dyn Facts,
}

impl fmt::Debug for Question<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Question")
            .field("principal", &self.principal.name)
            .field("action", &self.action)
            .field("resource", &self.resource)
            .finish_non_exhaustive()
    }
}

/// The answer, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision<'a> {
    pub allowed: bool,
    pub reason: Reason<'a>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason<'a> {
    /// One of them within an account, both from another.
    Allowed {
        identity: Option<Deciding<'a>>,
        resource: Option<Deciding<'a>>,
    },
    ExplicitDeny(Deciding<'a>),
    NoIdentityAllow,
    /// The principal's own policies would allow it, but the resource is of another account.
    NoResourceAllow,
}

/// The statement that decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deciding<'a> {
    pub source: Source<'a>,
    /// Its place in the policy, from 1.
    pub number: usize,
    pub sid: Option<&'a str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source<'a> {
    /// The policy of this name, of the principal.
    Identity(&'a str),
    /// The policy of the resource.
    Resource,
}

pub fn decide<'a>(question: &Question<'a>) -> Decision<'a> {
    let Question { principal, action, resource, facts, .. } = *question;
    let arn = principal.arn();
    let meant = |statement: &Statement| match &statement.principal {
        Some(element) => element.meant(&arn, &principal.account),
        None => Meant::Itself,
    };
    let policies = principal.policies.iter().map(|(name, policy)| (Source::Identity(name), policy));
    let policies = policies.chain(question.resource_policy.map(|policy| (Source::Resource, policy)));
    let (mut identity, mut by_resource, mut by_account) = (None, None, None);
    for (source, policy) in policies {
        for (at, statement) in policy.statements.iter().enumerate() {
            let meant = meant(statement);
            if meant == Meant::Not || !statement.applies(action, resource, facts) {
                continue;
            }
            let deciding = || Deciding { source, number: at + 1, sid: statement.sid.as_deref() };
            let allows = match (statement.effect, source, meant) {
                (Effect::Deny, ..) => {
                    return Decision { allowed: false, reason: Reason::ExplicitDeny(deciding()) };
                }
                (Effect::Allow, Source::Identity(_), _) => &mut identity,
                (Effect::Allow, Source::Resource, Meant::Itself) => &mut by_resource,
                (Effect::Allow, Source::Resource, _) => &mut by_account,
            };
            allows.get_or_insert_with(deciding);
        }
    }
    let is_own = principal.account == question.resource_account;
    let reason = match (is_own, identity, by_resource.or(if is_own { None } else { by_account })) {
        (true, identity, resource) if identity.is_some() || resource.is_some() => {
            Reason::Allowed { identity, resource }
        }
        (false, identity @ Some(_), resource @ Some(_)) => Reason::Allowed { identity, resource },
        (false, Some(_), None) => Reason::NoResourceAllow,
        _ => Reason::NoIdentityAllow,
    };
    Decision { allowed: matches!(reason, Reason::Allowed { .. }), reason }
}

impl Question<'_> {
    /// The answer as an error, unless it is yes.
    pub fn allowed(&self) -> Result<(), Denial> {
        let cause = match decide(self).reason {
            Reason::Allowed { .. } => return Ok(()),
            Reason::ExplicitDeny(Deciding { source: Source::Identity(_), .. }) => {
                DenialCause::ExplicitInIdentity
            }
            Reason::ExplicitDeny(Deciding { source: Source::Resource, .. }) => {
                DenialCause::ExplicitInResource
            }
            Reason::NoIdentityAllow => DenialCause::NoIdentityAllow,
            Reason::NoResourceAllow => DenialCause::NoResourceAllow,
        };
        Err(Denial {
            principal: self.principal.arn(),
            action: self.action.to_owned(),
            resource: self.resource.to_owned(),
            cause,
        })
    }
}

/// A no, in AWS's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// Its ARN.
    pub principal: String,
    pub action: String,
    pub resource: String,
    pub cause: DenialCause,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DenialCause {
    ExplicitInIdentity,
    ExplicitInResource,
    NoIdentityAllow,
    NoResourceAllow,
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { principal, action, resource, cause } = self;
        write!(f, "User: {principal} is not authorized to perform: {action} on resource: {resource} ")?;
        match cause {
            DenialCause::ExplicitInIdentity => write!(f, "with an explicit deny in an identity-based policy"),
            DenialCause::ExplicitInResource => write!(f, "with an explicit deny in a resource-based policy"),
            DenialCause::NoIdentityAllow => {
                write!(f, "because no identity-based policy allows the {action} action")
            }
            DenialCause::NoResourceAllow => {
                write!(f, "because no resource-based policy allows the {action} action")
            }
        }
    }
}

impl fmt::Display for Decision<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.reason {
            Reason::Allowed { identity: Some(one), resource: Some(other) } => {
                write!(f, "allowed by {one} and by {other}")
            }
            Reason::Allowed { identity: Some(one), .. } | Reason::Allowed { resource: Some(one), .. } => {
                write!(f, "allowed by {one}")
            }
            Reason::Allowed { identity: None, resource: None } => write!(f, "allowed"),
            Reason::ExplicitDeny(one) => write!(f, "denied by {one}"),
            Reason::NoIdentityAllow => write!(f, "denied: no statement allows it"),
            Reason::NoResourceAllow => {
                write!(
                    f,
                    "denied: the resource is of another account, and no statement of its policy allows it"
                )
            }
        }
    }
}

impl fmt::Display for Deciding<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "statement {}", self.number)?;
        if let Some(sid) = self.sid {
            write!(f, " ({sid})")?;
        }
        match self.source {
            Source::Identity(policy) => write!(f, " of the policy `{policy}`"),
            Source::Resource => write!(f, " of the resource's policy"),
        }
    }
}
