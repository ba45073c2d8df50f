//! The table of decisions in `fixtures/decisions.txt`, each under the rule of AWS's documentation that it shows.

use std::collections::BTreeMap;

use larder_auth::actions::of_no_table;
use larder_auth::policy::{Deciding, Decision, Facts, Question, Reason, Source, decide};
use larder_auth::{Place, Policy, Principal};

const TABLE: &str = include_str!("fixtures/decisions.txt");
const ACCOUNT: &str = "123456789012";

struct Given(BTreeMap<String, Vec<String>>);

impl Facts for Given {
    fn values(&self, key: &str) -> Option<Vec<String>> {
        self.0.get(key).cloned()
    }
}

/// A rule, and the policies that show it.
#[derive(Default)]
struct Group {
    rule: String,
    policies: Vec<(String, Policy)>,
    resource: Option<Policy>,
    owner: Option<String>,
}

#[test]
fn policies_decide_as_aws_documents() {
    let mut group = Group::default();
    let (mut cases, mut rules) = (0, 0);
    let mut wrong = Vec::new();
    for line in TABLE.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(rule) = line.strip_prefix("== ") {
            assert!(rule.ends_with(']') && rule.contains(" ["), "the rule has no page: {rule}");
            group = Group { rule: rule.to_owned(), ..Group::default() };
            rules += 1;
        } else if let Some(statements) = line.strip_prefix("policy ") {
            let policy = Policy::identity(&document("2012-10-17", statements)).unwrap();
            group.policies.push(((group.policies.len() + 1).to_string(), policy));
        } else if let Some(statements) = line.strip_prefix("early ") {
            let policy = Policy::identity(&document("2008-10-17", statements)).unwrap();
            group.policies.push(((group.policies.len() + 1).to_string(), policy));
        } else if let Some(statements) = line.strip_prefix("resource ") {
            group.resource = Some(Policy::resource(&document("2012-10-17", statements)).unwrap());
        } else if let Some(owner) = line.strip_prefix("owner ") {
            group.owner = Some(owner.to_owned());
        } else {
            cases += 1;
            wrong.extend(group.check(line).err().map(|found| format!("{}\n  {line}\n  {found}", group.rule)));
        }
    }
    assert!(wrong.is_empty(), "{} of {cases} are wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(cases >= 200 && rules >= 40, "only {cases} cases of {rules} rules");
}

fn document(version: &str, statements: &str) -> String {
    format!(r#"{{"Version": "{version}", "Statement": {statements}}}"#)
}

impl Group {
    fn check(&self, line: &str) -> Result<(), String> {
        let fields: Vec<&str> = line.split('|').map(str::trim).collect();
        let [action, resource, facts, expected] = fields[..] else { panic!("not four fields: {line}") };
        let owner = self.owner.as_deref().unwrap_or(ACCOUNT);
        let action = if action.contains(':') { action.to_owned() } else { format!("dynamodb:{action}") };
        let resource = match resource {
            "*" => of_no_table(&action).arn(Place { region: "us-east-1", account: owner }),
            _ if resource.starts_with("arn:") => resource.to_owned(),
            _ => format!("arn:aws:dynamodb:us-east-1:{owner}:{resource}"),
        };
        let facts = facts.split(';').filter(|fact| !fact.trim().is_empty()).map(|fact| {
            let (key, values) = fact.trim().split_once('=').expect("a fact has a value");
            let values = values.split(',').filter(|value| !value.is_empty()).map(str::to_owned);
            (key.to_lowercase(), values.collect())
        });
        let principal = Principal {
            name: "alice".to_owned(),
            account: ACCOUNT.to_owned(),
            keys: Vec::new(),
            tags: BTreeMap::new(),
            policies: self.policies.clone(),
        };
        let question = Question {
            principal: &principal,
            action: &action,
            resource: &resource,
            resource_account: owner,
            resource_policy: self.resource.as_ref(),
            facts: &Given(facts.collect()),
        };
        let decision = decide(&question);
        assert_eq!(question.allowed().is_ok(), decision.allowed);
        let (answer, by) = told(&decision);
        let (expected, expected_by) = expected.split_once(' ').unwrap_or((expected, &by));
        if (answer, by.as_str()) == (expected, expected_by) {
            Ok(())
        } else {
            Err(format!("{answer} {by}: {decision}"))
        }
    }
}

/// The answer and the statement, in the table's words.
fn told(decision: &Decision<'_>) -> (&'static str, String) {
    let place = |deciding: &Deciding<'_>| match deciding.source {
        Source::Identity(policy) => format!("{policy}.{}", deciding.number),
        Source::Resource => format!("r.{}", deciding.number),
    };
    match &decision.reason {
        Reason::Allowed { identity, resource } => {
            let by = identity.as_ref().or(resource.as_ref()).map(place);
            ("allow", by.unwrap_or_default())
        }
        Reason::ExplicitDeny(deciding) => ("DENY", place(deciding)),
        Reason::NoIdentityAllow => ("deny", String::new()),
        Reason::NoResourceAllow => ("deny-resource", String::new()),
    }
}
