//! IAM's policy language: text in, a checked policy out, and what several policies decide together.
//!
//! ```text
//! JSON ─parse─► policy ─┐
//! action, resource ─────┼─decide─► allowed or not, and by which statement
//! facts of the request ─┘
//! ```
//!
//! Identity policies belong to a principal; resource policies belong to a table or stream and name principals
//! themselves. Names of elements, operators and effects are case-sensitive, as in IAM; actions and condition keys are
//! not.
//!
//! Promises:
//! - A policy that was read means what it says: whatever is not understood is an error, never left out.
//! - Reading and deciding take time bounded by the size of policy and request, whatever their wildcards.

mod condition;
mod decide;
mod parse;
mod pattern;
mod principal;

use crate::json::Json;

pub use decide::{Deciding, Decision, Denial, DenialCause, Question, Reason, Source, decide};

use condition::Condition;
use pattern::Pattern;
use principal::PrincipalElement;

/// The longest document that is read: DynamoDB's limit for resource policies, above those of IAM for others.
pub const POLICY_BYTES_MAX: usize = 20 * 1024;

/// What a condition or a variable can ask about a request.
pub trait Facts {
    /// The values of a condition key, whose name is in lower case; `None` if the request has no such key.
    fn values(&self, key: &str) -> Option<Vec<String>>;
}

/// A policy that can decide.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    statements: Vec<Statement>,
    /// As it was written.
    document: Json,
}

impl Policy {
    /// A policy of a principal.
    pub fn identity(text: &str) -> Result<Self, PolicyError> {
        parse::text(text, Kind::Identity)
    }

    /// A policy of a table or stream.
    pub fn resource(text: &str) -> Result<Self, PolicyError> {
        parse::text(text, Kind::Resource)
    }

    /// A policy of a resource about which nothing is known, but that somebody wanted one.
    pub(crate) fn deny_everything() -> Self {
        let text = r#"{"Statement": {"Effect": "Deny", "Principal": "*", "Action": "*", "Resource": "*"}}"#;
        Self::resource(text).expect("a policy")
    }

    /// The actions that its statements name, as they are written.
    pub(crate) fn named_actions(&self) -> impl Iterator<Item = &str> {
        let statements = self.document.members().iter().filter(|(name, _)| name == "Statement");
        let members = statements.flat_map(|(_, value)| value.one_or_many()).flat_map(Json::members);
        let actions = members.filter(|(name, _)| matches!(name.as_str(), "Action" | "NotAction"));
        actions.flat_map(|(_, value)| value.one_or_many()).filter_map(|action| match action {
            Json::String(action) => Some(action.as_str()),
            _ => None,
        })
    }

    pub(crate) fn identity_of(document: Json) -> Result<Self, PolicyError> {
        // Within another file it has not been measured yet.
        let text = serde_json::to_string(&document).expect("JSON is written as JSON");
        parse::check_size(&text)?;
        parse::document(document, Kind::Identity)
    }

    pub(crate) fn document(&self) -> &Json {
        &self.document
    }

    /// The document, as it was written but for its whitespace.
    pub fn text(&self) -> String {
        serde_json::to_string(&self.document).expect("JSON is written as JSON")
    }
}

/// What is wrong with a policy: where, why, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {fault}. {next}")]
pub struct PolicyError {
    /// Such as `statement 2, Condition`.
    pub place: String,
    pub fault: String,
    pub next: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Identity,
    Resource,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    Allow,
    Deny,
}

#[derive(Clone, Debug, PartialEq)]
struct Statement {
    sid: Option<String>,
    effect: Effect,
    /// Present in resource policies alone.
    principal: Option<PrincipalElement>,
    actions: Listed,
    resources: Listed,
    /// All of them must hold.
    conditions: Vec<Condition>,
}

/// `Action` or `NotAction`, `Resource` or `NotResource`.
#[derive(Clone, Debug, PartialEq)]
struct Listed {
    patterns: Vec<Pattern>,
    /// Everything but what is listed.
    inverted: bool,
}

impl Listed {
    fn covers(&self, mut is_match: impl FnMut(&Pattern) -> bool) -> bool {
        self.patterns.iter().any(&mut is_match) != self.inverted
    }
}

impl Statement {
    /// Whether the statement is about this action on this resource under these circumstances, whoever asks.
    fn applies(&self, action: &str, resource: &str, facts: &dyn Facts) -> bool {
        self.actions.covers(|pattern| pattern.matches_folded(action, facts))
            && self.resources.covers(|pattern| pattern.matches(resource, facts))
            && self.conditions.iter().all(|condition| condition.holds(facts, self.effect))
    }
}

#[cfg(test)]
pub(crate) mod tests;
