//! What `larder export iam` writes for the five systems is enforced as it is.

use std::collections::BTreeMap;
use std::path::Path;

use larder_auth::policy::{Facts, Question, decide};
use larder_auth::{Policy, Principal};
use larder_schema::{Environment, NoFiles, Schema, emit};
use serde_json::Value as Json;

const ACCOUNT: &str = "123456789012";

struct NoFacts;

impl Facts for NoFacts {
    fn values(&self, _: &str) -> Option<Vec<String>> {
        None
    }
}

fn exported(system: &str) -> Vec<Json> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../schemas/{system}.larder"));
    let text = std::fs::read_to_string(path).expect("the five systems are in schemas/");
    let loaded = Schema::load(&format!("{system}.larder"), &text, &mut NoFiles, &Environment::new());
    let schema = loaded.schema.expect("there is nothing wrong with it");
    let policies = emit::iam(&schema, &loaded.files, &[], &Environment::new()).expect("names fit");
    policies.into_iter().map(|policy| policy.document).collect()
}

fn allows(documents: &[Json], action: &str, resource: &str) -> bool {
    let policies = documents.iter().enumerate().map(|(at, document)| {
        (at.to_string(), Policy::identity(&document.to_string()).expect("what we write can be read"))
    });
    let principal = Principal {
        name: "program".to_owned(),
        account: ACCOUNT.to_owned(),
        keys: Vec::new(),
        tags: BTreeMap::new(),
        policies: policies.collect(),
    };
    let question = Question {
        principal: &principal,
        action,
        resource,
        resource_account: ACCOUNT,
        resource_policy: None,
        facts: &NoFacts,
    };
    decide(&question).allowed
}

/// What a program of each system may do, and what it may not.
const EXPECTED: &[(&str, &str, &str, bool)] = &[
    ("keiba", "GetItem", "us-east-1 table/keiba_data", true),
    ("keiba", "Query", "ap-northeast-1 table/keiba_data", true),
    ("keiba", "BatchWriteItem", "us-east-1 table/keiba_data", true),
    ("keiba", "UpdateItem", "us-east-1 table/keiba_data", false),
    ("keiba", "Scan", "us-east-1 table/keiba_data", false),
    ("keiba", "DeleteTable", "us-east-1 table/keiba_data", false),
    ("keiba", "GetItem", "us-east-1 table/keiba_data2", false),
    ("keiba", "Query", "us-east-1 table/keiba_data/index/any", false),
    ("lunch", "Scan", "eu-west-1 table/lunch-cache-dev", true),
    ("lunch", "Query", "eu-west-1 table/lunch-cache-dev/index/any", true),
    ("lunch", "UpdateItem", "eu-west-1 table/lunch-cache-prod", true),
    ("lunch", "GetItem", "us-east-1 table/lunch-cache-dev", false),
    ("lunch", "GetItem", "eu-west-1 table/lunch-orders", false),
    ("lunch", "UpdateTable", "eu-west-1 table/lunch-cache-dev", false),
    ("shops", "Query", "eu-central-1 table/aura-historia-data/index/any", true),
    ("shops", "UpdateItem", "eu-central-1 table/aura-historia-data", true),
    ("shops", "Scan", "eu-central-1 table/aura-historia-data", false),
    ("shops", "ListTables", "*", false),
    ("tdnet", "Query", "ap-northeast-1 table/tdnet_disclosures_dev/index/any", true),
    ("tdnet", "BatchGetItem", "ap-northeast-1 table/tdnet_disclosures_prod", true),
    ("tdnet", "BatchGetItem", "ap-northeast-1 table/tdnet_executions_prod", false),
    ("tdnet", "UpdateItem", "ap-northeast-1 table/tdnet_export_status_dev", true),
    ("tdnet", "GetItem", "ap-northeast-1 table/tdnet_other_dev", false),
    (
        "tdnet",
        "GetRecords",
        "ap-northeast-1 table/tdnet_disclosures_dev/stream/2026-01-01T00:00:00.000",
        false,
    ),
    ("weather", "Scan", "sa-east-1 table/weather-forecast-cache-dev", true),
    ("weather", "GetItem", "us-east-1 table/weather-forecast-cache-dev", false),
    ("weather", "Query", "sa-east-1 table/weather-forecast-cache-dev", false),
    ("weather", "DescribeTable", "sa-east-1 table/weather-forecast-cache-dev", false),
];

#[test]
fn exported_policies_decide_as_their_systems_need() {
    for (system, action, resource, expected) in EXPECTED {
        let resource = match resource.split_once(' ') {
            Some((region, resource)) => format!("arn:aws:dynamodb:{region}:{ACCOUNT}:{resource}"),
            None => (*resource).to_owned(),
        };
        let allowed = allows(&exported(system), &format!("dynamodb:{action}"), &resource);
        assert_eq!(allowed, *expected, "{system} {action} {resource}");
    }
}

#[test]
fn every_permission_of_an_exported_policy_matters() {
    for system in ["keiba", "lunch", "shops", "tdnet", "weather"] {
        let documents = exported(system);
        let mut taken_away = 0;
        for (at, document) in documents.iter().enumerate() {
            for (statement_at, statement) in document["Statement"].as_array().unwrap().iter().enumerate() {
                let table = statement["Resource"][0].as_str().unwrap().replace(":*:*:", ":us-east-1:*:");
                let resource = table.replace(":*:", &format!(":{ACCOUNT}:")).replace('*', "dev");
                for (action_at, action) in statement["Action"].as_array().unwrap().iter().enumerate() {
                    let action = action.as_str().unwrap();
                    assert!(allows(&documents, action, &resource), "{system}: {action} on {resource}");
                    let mut less = documents.clone();
                    let actions = &mut less[at]["Statement"][statement_at]["Action"];
                    actions.as_array_mut().unwrap().remove(action_at);
                    assert!(
                        !allows(&less, action, &resource),
                        "{system}: {action} on {resource} is allowed twice"
                    );
                    taken_away += 1;
                }
            }
        }
        assert!(taken_away >= 5, "{system} needs only {taken_away}");
    }
}
