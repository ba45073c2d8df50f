//! Statements of a batch are decided each by itself, where keys are asked for.

#![expect(clippy::expect_used, reason = "the helpers of a test fail with the test")]

#[expect(dead_code, reason = "shared with other test files")]
mod client;

use std::sync::Arc;

use client::{Connection, Running};
use larder_auth::{Access, AccessKey, HttpRequest, sign};
use larder_model::Clock;
use larder_server::{Audit, Config, Principals, StoreConfig};
use serde_json::{Value, json};

const KEY_ID: &str = "LKIAAAAAAAAAAAAAAAAA";
const SECRET: &str = "secret";

/// Sends a request that is signed.
async fn ask(connection: &mut Connection, operation: &str, body: &Value) -> Value {
    let access = access("all");
    let key: &AccessKey = access.find(KEY_ID).expect("it is there").1;
    let (body, target) = (body.to_string(), format!("DynamoDB_20120810.{operation}"));
    let host = connection.address().to_string();
    let headers: [(&str, &[u8]); 3] = [
        ("host", host.as_bytes()),
        ("content-type", b"application/x-amz-json-1.0"),
        ("x-amz-target", target.as_bytes()),
    ];
    let body_bytes = bytes(&body);
    let http = HttpRequest { method: "POST", path: "/", query: "", headers: &headers, body: &body_bytes };
    let signed = sign(&http, key, None, "us-east-1", Clock::system().now());
    let signed: Vec<(&str, &str)> = signed.iter().map(|(name, value)| (*name, value.as_str())).collect();
    connection.post(operation, &signed, body).await.json()
}

fn bytes(text: &str) -> hyper::body::Bytes {
    hyper::body::Bytes::copy_from_slice(text.as_bytes())
}

/// Somebody who may do everything but read and write the table `theirs` by statements.
fn access(effect: &str) -> Access {
    let deny = json!({"Effect": "Deny", "Action": "dynamodb:PartiQL*", "Resource": "arn:aws:dynamodb:*:*:table/theirs"});
    let mut statements = vec![json!({"Effect": "Allow", "Action": "*", "Resource": "*"})];
    if effect == "denied" {
        statements.push(deny);
    }
    let policy = json!({"Version": "2012-10-17", "Statement": statements});
    let principal = json!({
        "name": "ann", "account": "000000000000", "keys": [{"id": KEY_ID, "secret": SECRET}],
        "policies": {"own": policy},
    });
    Access::read(&json!({"version": 1, "principals": [principal]}).to_string()).expect("an access file")
}

#[tokio::test]
async fn a_statement_of_a_batch_that_is_denied_is_answered_so_and_the_others_are_carried_out() {
    let dir = tempfile::tempdir().expect("there is room");
    let path = dir.path().join("audit.jsonl");
    let audit = Some(Arc::new(Audit::open(&path).expect("it can be written")));
    let principals = Principals::new(access("all"));
    let config =
        Config { access: Some(Arc::clone(&principals)), audit, ..Config::local(StoreConfig::Memory) };
    let server = Running::start(config).await;
    let mut connection = server.connect().await;
    for table in ["ours", "theirs"] {
        let created = json!({
            "TableName": table, "BillingMode": "PAY_PER_REQUEST",
            "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
            "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
        });
        ask(&mut connection, "CreateTable", &created).await;
        ask(&mut connection, "PutItem", &json!({"TableName": table, "Item": {"pk": {"S": "a"}}})).await;
    }
    principals.replace(access("denied"));

    let statements = |texts: &[&str]| {
        let each: Vec<Value> = texts.iter().map(|text| json!({"Statement": text})).collect();
        json!({"Statements": each})
    };
    let read = statements(&[
        "SELECT * FROM ours WHERE pk = 'a'",
        "SELECT * FROM theirs WHERE pk = 'a'",
        "SLECT * FROM theirs",
    ]);
    let answer = ask(&mut connection, "BatchExecuteStatement", &read).await;
    let responses = answer["Responses"].as_array().expect("one for each");
    assert_eq!(responses[0]["Item"], json!({"pk": {"S": "a"}}), "{answer}");
    assert_eq!(responses[1]["Error"]["Code"], "AccessDenied", "{answer}");
    let message = responses[1]["Error"]["Message"].as_str().expect("it says why");
    assert!(message.contains("user/ann is not authorized to perform: dynamodb:PartiQLSelect"), "{message}");
    assert!(responses[1].get("Item").is_none(), "{answer}");
    assert_eq!(responses[2]["Error"]["Code"], "ValidationError", "{answer}");

    // What is denied is not looked at: neither as the same item twice nor as a read among writes.
    let write = statements(&[
        "DELETE FROM theirs WHERE pk = 'a'",
        "DELETE FROM theirs WHERE pk = 'a'",
        "SELECT * FROM theirs WHERE pk = 'a'",
        "INSERT INTO ours VALUE {'pk': 'b'}",
    ]);
    let answer = ask(&mut connection, "BatchExecuteStatement", &write).await;
    let codes: Vec<&Value> = answer["Responses"]
        .as_array()
        .expect("one for each")
        .iter()
        .map(|each| &each["Error"]["Code"])
        .collect();
    assert_eq!(codes, [&json!("AccessDenied"), &json!("AccessDenied"), &json!("AccessDenied"), &Value::Null]);
    let left = json!({"TableName": "theirs", "Key": {"pk": {"S": "a"}}});
    assert!(ask(&mut connection, "GetItem", &left).await.get("Item").is_some(), "it is still there");
    let made = json!({"TableName": "ours", "Key": {"pk": {"S": "b"}}});
    assert!(ask(&mut connection, "GetItem", &made).await.get("Item").is_some(), "it was made");

    // Alone, and in a transaction, a statement is refused as a whole.
    let alone = json!({"Statement": "SELECT * FROM theirs WHERE pk = 'a'"});
    let refused = ask(&mut connection, "ExecuteStatement", &alone).await;
    assert!(refused["__type"].as_str().expect("an error").ends_with("#AccessDeniedException"), "{refused}");

    let lines: Vec<Value> = std::fs::read_to_string(&path)
        .expect("it was written")
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let did = |line: &Value| line["did"][0].clone();
    let of = |action: &str, table: &str, allowed: bool| {
        let wanted = json!({"action": action, "resource": format!("arn:aws:dynamodb:us-east-1:000000000000:table/{table}")});
        lines.iter().filter(|line| did(line) == wanted && line["allowed"] == allowed).count()
    };
    assert_eq!(of("dynamodb:PartiQLSelect", "ours", true), 1);
    assert_eq!(of("dynamodb:PartiQLSelect", "theirs", false), 3);
    assert_eq!(of("dynamodb:PartiQLDelete", "theirs", false), 2);
    assert_eq!(of("dynamodb:PartiQLDelete", "theirs", true), 0, "what was denied was not done");
}

#[tokio::test]
async fn who_may_not_know_of_a_resource_is_told_so_by_name() {
    let principals = Principals::new(access("all"));
    let config = Config { access: Some(principals), ..Config::local(StoreConfig::Memory) };
    let server = Running::start(config).await;
    let mut connection = server.connect().await;
    let ann = "User: arn:aws:iam::000000000000:user/ann is not authorized to perform: dynamodb:";
    let absent = "arn:aws:dynamodb:us-east-1:000000000000:table/absent";
    for (operation, arn) in [
        ("ListTagsOfResource", absent),
        ("ListTagsOfResource", "nonsense"),
        ("TagResource", "arn:aws:s3:us-east-1:000000000000:table/absent"),
        ("UntagResource", "nonsense"),
    ] {
        let refused = ask(&mut connection, operation, &json!({"ResourceArn": arn})).await;
        assert!(
            refused["__type"].as_str().expect("an error").ends_with("#AccessDeniedException"),
            "{refused}"
        );
        assert_eq!(refused["message"], json!(format!("{ann}{operation} on resource: {arn}")));
    }
}
