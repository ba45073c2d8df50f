//! Policies of tables and streams: whether the text that a request brings is one, and what a text that is kept says.
//!
//! The engine keeps the text. It is read here, once for each that was put; what stays with it is in the engine's
//! `ResourcePolicy`.
//!
//! Promises:
//! - A text that a server takes can be enforced by it.
//! - One that cannot be read denies everything to everybody, until another takes its place: it may have denied anything.

use std::sync::Arc;

use larder_ops::{Governed, Request, ResourcePolicy};

use crate::actions::kinds_of;
use crate::policy::{Policy, PolicyError};
use crate::resource::ResourceKind;

/// Why a text is not taken as the policy of a resource, in DynamoDB's envelope.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyRefusal {
    #[error("One or more parameter values were invalid: Invalid policy document: {0}")]
    Malformed(#[from] PolicyError),
    /// Actions that there are none of, or not on such a resource.
    #[error(
        "One or more parameter values were invalid: Invalid policy document: The following action names are invalid: {}",
        quoted(.0)
    )]
    Actions(Vec<String>),
}

/// Whether the policy that a request brings along, if any, is one for what it is to govern.
pub fn check_policy(request: &Request) -> Result<(), PolicyRefusal> {
    let (text, kind) = match request {
        Request::CreateTable(create) => match &create.policy {
            Some(text) => (text, ResourceKind::Table),
            None => return Ok(()),
        },
        Request::PutResourcePolicy(put) => match put.resource {
            Governed::Table(_) => (&put.policy, ResourceKind::Table),
            Governed::Stream(_) => (&put.policy, ResourceKind::Stream),
        },
        _ => return Ok(()),
    };
    let policy = Policy::resource(text)?;
    let unknown: Vec<String> =
        policy.named_actions().filter(|action| !is_of(action, kind)).map(str::to_owned).collect();
    if unknown.is_empty() { Ok(()) } else { Err(PolicyRefusal::Actions(unknown)) }
}

/// What a text that is kept says, read once.
pub fn read_policy(kept: &ResourcePolicy) -> Arc<Policy> {
    kept.read_as(|text| Policy::resource(text).unwrap_or_else(|_| Policy::deny_everything()))
}

/// Whether an action can be done to such a resource, or to an index of such a table. Wildcards may stand for any.
fn is_of(action: &str, kind: ResourceKind) -> bool {
    let is_possible =
        |of: &ResourceKind| *of == kind || kind == ResourceKind::Table && *of == ResourceKind::Index;
    action.contains(['*', '?']) || kinds_of(action).is_some_and(|kinds| kinds.iter().any(is_possible))
}

fn quoted(names: &[String]) -> String {
    names.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use larder_model::{TableName, UnixTime};
    use larder_ops::{PutResourcePolicy, StreamId};

    use super::*;

    fn put(on_stream: bool, policy: &str) -> Result<(), PolicyRefusal> {
        let table = TableName::new("orders").expect("a good name");
        let resource = if on_stream {
            Governed::Stream(StreamId { table, label: UnixTime::from_seconds(0) })
        } else {
            Governed::Table(table)
        };
        let policy = policy.to_owned();
        check_policy(&Request::PutResourcePolicy(PutResourcePolicy { resource, policy, expected: None }))
    }

    fn policy(actions: &str) -> String {
        format!(
            r#"{{"Version": "2012-10-17", "Statement": [{{"Effect": "Allow", "Principal": "*", "Action": {actions}, "Resource": "*"}}]}}"#
        )
    }

    #[test]
    fn actions_are_those_of_the_resource() {
        for (on_stream, actions, wrong) in [
            (false, r#"["dynamodb:GetItem", "dynamodb:query", "dynamodb:Batch*", "*"]"#, ""),
            (
                false,
                r#"["dynamodb:GetRecords", "dynamodb:GetItem", "dynamodb:ListStreams"]"#,
                "GetRecords ListStreams",
            ),
            (false, r#""dynamodb:Eat""#, "Eat"),
            (true, r#"["dynamodb:GetRecords", "dynamodb:PutResourcePolicy", "dynamodb:*"]"#, ""),
            (true, r#"["dynamodb:GetItem", "dynamodb:ListStreams"]"#, "GetItem ListStreams"),
        ] {
            let names: Vec<String> =
                wrong.split_whitespace().map(|name| format!("dynamodb:{name}")).collect();
            let expected = if names.is_empty() { Ok(()) } else { Err(PolicyRefusal::Actions(names)) };
            assert_eq!(put(on_stream, &policy(actions)), expected, "{actions}");
        }
        assert_eq!(
            put(false, &policy(r#"["dynamodb:GetRecords", "s3:GetObject"]"#)).unwrap_err().to_string(),
            "One or more parameter values were invalid: Invalid policy document: The following action names are \
             invalid: \"dynamodb:GetRecords\", \"s3:GetObject\""
        );
    }

    #[test]
    fn what_is_no_policy_is_refused() {
        for (text, part) in [
            ("", "the policy: it cannot be read"),
            ("{}", "Statement is missing"),
            (r#"{"Statement": {"Effect": "Allow", "Action": "*", "Resource": "*"}}"#, "Principal is missing"),
            (&format!("{}{}", policy(r#""*""#), " ".repeat(20 * 1024)), "and 20480 is the most"),
        ] {
            let told = put(false, text).unwrap_err().to_string();
            let start = "One or more parameter values were invalid: Invalid policy document: ";
            assert!(told.starts_with(start) && told.contains(part), "{told}");
        }
    }
}
