//! Any text is a policy or an error, and so is any access file. A policy says the same once it was written and read
//! again; whatever it says, it decides, and a request that it allows is not allowed by the same policy turned to Deny.
#![no_main]

use std::collections::BTreeMap;

use larder_auth::policy::{Facts, Question, decide};
use larder_auth::{Access, Policy, Principal};
use libfuzzer_sys::fuzz_target;

struct Everything;

impl Facts for Everything {
    fn values(&self, key: &str) -> Option<Vec<String>> {
        let values: &[&str] = match key {
            "aws:username" => &["alice"],
            "aws:sourceip" => &["203.0.113.7"],
            "aws:currenttime" => &["2026-10-09T12:34:56Z"],
            "aws:epochtime" => &["1791549296"],
            "aws:securetransport" => &["true"],
            "aws:principalarn" => &["arn:aws:iam::123456789012:user/alice"],
            "dynamodb:leadingkeys" => &["alice", "bob"],
            "dynamodb:attributes" => &["pk", "sk", "total"],
            _ => return None,
        };
        Some(values.iter().map(|value| (*value).to_owned()).collect())
    }
}

fn is_allowed(identity: Option<&Policy>, resource: Option<&Policy>) -> bool {
    let principal = Principal {
        name: "alice".to_owned(),
        account: "123456789012".to_owned(),
        keys: Vec::new(),
        tags: BTreeMap::new(),
        policies: identity.map(|policy| ("app".to_owned(), policy.clone())).into_iter().collect(),
    };
    let question = Question {
        principal: &principal,
        action: "dynamodb:GetItem",
        resource: "arn:aws:dynamodb:us-east-1:123456789012:table/orders",
        resource_account: "123456789012",
        resource_policy: resource,
        facts: &Everything,
    };
    let decision = decide(&question);
    let _ = decision.to_string();
    assert_eq!(question.allowed().is_ok(), decision.allowed);
    decision.allowed
}

fuzz_target!(|text: &str| {
    if let Ok(policy) = Policy::identity(text) {
        assert_eq!(Policy::identity(&policy.text()).as_ref(), Ok(&policy));
        if is_allowed(Some(&policy), None) {
            let denied = Policy::identity(&policy.text().replace("\"Allow\"", "\"Deny\""));
            assert!(!denied.is_ok_and(|denied| is_allowed(Some(&denied), None)));
        }
    }
    if let Ok(policy) = Policy::resource(text) {
        assert_eq!(Policy::resource(&policy.text()).as_ref(), Ok(&policy));
        is_allowed(None, Some(&policy));
    }
    if let Ok(access) = Access::read(text) {
        assert_eq!(Access::read(&access.write()).as_ref(), Ok(&access));
    }
});
