//! What each operation needs, and what policies can ask about it: from the JSON that a client sends to the answer.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use insta::assert_snapshot;
use larder_auth::actions::{ACTIONS, kinds_of, needs};
use larder_auth::{
    Caller, Circumstances, Error, Place, Policy, Principal, Resource, ResourceKind, Tables, authorize,
};
use larder_engine::metrics::Operation;
use larder_engine::ops::{Request, Response, ShardIterator, ShardKey, ShardPosition, StreamId};
use larder_model::{
    ApiError, Billing, IndexDefinition, IndexKind, IndexName, KeyAttribute, KeySchema, KeyType, Projection,
    TableDefinition, TableName, Throughput, UnixTime,
};

const ACCOUNT: &str = "123456789012";
const PLACE: Place<'_> = Place { region: "eu-west-1", account: ACCOUNT };
const STREAM: &str = "arn:aws:dynamodb:us-east-1:000000000000:table/orders/stream/2026-01-01T00:00:00.000";
const BACKUP: &str = "arn:aws:dynamodb:eu-west-1:123456789012:table/orders/backup/01767225600000-abcdefgh";

/// The operations of DynamoDB and its streams, as botocore's service models list them.
const OPERATIONS: &str = "BatchExecuteStatement BatchGetItem BatchWriteItem CreateBackup CreateGlobalTable CreateTable \
    DeleteBackup DeleteItem DeleteResourcePolicy DeleteTable DescribeBackup DescribeContinuousBackups \
    DescribeContributorInsights DescribeEndpoints DescribeExport DescribeGlobalTable DescribeGlobalTableSettings \
    DescribeImport DescribeKinesisStreamingDestination DescribeLimits DescribeTable DescribeTableReplicaAutoScaling \
    DescribeTimeToLive DisableKinesisStreamingDestination EnableKinesisStreamingDestination ExecuteStatement \
    ExecuteTransaction ExportTableToPointInTime GetItem GetResourcePolicy ImportTable ListBackups \
    ListContributorInsights ListExports ListGlobalTables ListImports ListTables ListTagsOfResource PutItem \
    PutResourcePolicy Query RestoreTableFromBackup RestoreTableToPointInTime Scan TagResource TransactGetItems \
    TransactWriteItems UntagResource UpdateContinuousBackups UpdateContributorInsights UpdateGlobalTable \
    UpdateGlobalTableSettings UpdateItem UpdateKinesisStreamingDestination UpdateTable UpdateTableReplicaAutoScaling \
    UpdateTimeToLive DescribeStream GetRecords GetShardIterator ListStreams";

/// An operation, a body for it, and what it needs: actions without their service, resources without what `PLACE` says.
const NEEDED: &[(&str, &str, &str)] = &[
    (
        "CreateTable",
        r#"{"TableName":"orders","KeySchema":[{"AttributeName":"pk","KeyType":"HASH"}],"AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"S"}],"BillingMode":"PAY_PER_REQUEST"}"#,
        "CreateTable table/orders",
    ),
    (
        "CreateTable",
        r#"{"TableName":"orders","KeySchema":[{"AttributeName":"pk","KeyType":"HASH"}],"AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"S"}],"BillingMode":"PAY_PER_REQUEST","Tags":[{"Key":"a","Value":"b"}]}"#,
        "CreateTable table/orders, TagResource table/orders",
    ),
    (
        "CreateTable",
        r#"{"TableName":"orders","KeySchema":[{"AttributeName":"pk","KeyType":"HASH"}],"AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"S"}],"BillingMode":"PAY_PER_REQUEST","ResourcePolicy":"{}"}"#,
        "CreateTable table/orders, PutResourcePolicy table/orders",
    ),
    ("DescribeTable", r#"{"TableName":"orders"}"#, "DescribeTable table/orders"),
    ("ListTables", "{}", "ListTables table/*"),
    ("UpdateTable", r#"{"TableName":"orders","BillingMode":"PAY_PER_REQUEST"}"#, "UpdateTable table/orders"),
    ("DeleteTable", r#"{"TableName":"orders"}"#, "DeleteTable table/orders"),
    (
        "UpdateTimeToLive",
        r#"{"TableName":"orders","TimeToLiveSpecification":{"AttributeName":"ttl","Enabled":true}}"#,
        "UpdateTimeToLive table/orders",
    ),
    ("DescribeTimeToLive", r#"{"TableName":"orders"}"#, "DescribeTimeToLive table/orders"),
    (
        "TagResource",
        r#"{"ResourceArn":"arn:aws:dynamodb:eu-west-1:123456789012:table/orders","Tags":[{"Key":"a","Value":"b"}]}"#,
        "TagResource table/orders",
    ),
    (
        "UntagResource",
        r#"{"ResourceArn":"arn:aws:dynamodb:eu-west-1:123456789012:table/orders","TagKeys":["a"]}"#,
        "UntagResource table/orders",
    ),
    (
        "ListTagsOfResource",
        r#"{"ResourceArn":"arn:aws:dynamodb:eu-west-1:123456789012:table/orders"}"#,
        "ListTagsOfResource table/orders",
    ),
    (
        "PutResourcePolicy",
        r#"{"ResourceArn":"arn:aws:dynamodb:eu-west-1:123456789012:table/orders","Policy":"{}"}"#,
        "PutResourcePolicy table/orders",
    ),
    (
        "GetResourcePolicy",
        r#"{"ResourceArn":"arn:aws:dynamodb:eu-west-1:123456789012:table/orders"}"#,
        "GetResourcePolicy table/orders",
    ),
    (
        "DeleteResourcePolicy",
        r#"{"ResourceArn":"STREAM"}"#,
        "DeleteResourcePolicy table/orders/stream/2026-01-01T00:00:00.000",
    ),
    (
        "UpdateContinuousBackups",
        r#"{"TableName":"orders","PointInTimeRecoverySpecification":{"PointInTimeRecoveryEnabled":true}}"#,
        "UpdateContinuousBackups table/orders",
    ),
    ("DescribeContinuousBackups", r#"{"TableName":"orders"}"#, "DescribeContinuousBackups table/orders"),
    (
        "RestoreTableToPointInTime",
        r#"{"SourceTableName":"orders","TargetTableName":"copy","UseLatestRestorableTime":true}"#,
        "RestoreTableToPointInTime table/orders, RestoreTableToPointInTime table/copy, BatchWriteItem table/copy, \
         DeleteItem table/copy, GetItem table/copy, PutItem table/copy, Query table/copy, Scan table/copy, \
         UpdateItem table/copy",
    ),
    ("CreateBackup", r#"{"TableName":"orders","BackupName":"before"}"#, "CreateBackup table/orders"),
    (
        "DescribeBackup",
        r#"{"BackupArn":"BACKUP"}"#,
        "DescribeBackup table/orders/backup/01767225600000-abcdefgh",
    ),
    ("ListBackups", r#"{"TableName":"orders"}"#, "ListBackups *"),
    ("DeleteBackup", r#"{"BackupArn":"BACKUP"}"#, "DeleteBackup table/orders/backup/01767225600000-abcdefgh"),
    (
        "ExportTableToPointInTime",
        r#"{"TableArn":"arn:aws:dynamodb:eu-west-1:123456789012:table/orders","S3Bucket":"bucket"}"#,
        "ExportTableToPointInTime table/orders",
    ),
    (
        "DescribeExport",
        r#"{"ExportArn":"arn:aws:dynamodb:eu-west-1:123456789012:table/orders/export/01767225600000-abcdefgh"}"#,
        "DescribeExport table/orders/export/01767225600000-abcdefgh",
    ),
    ("ListExports", "{}", "ListExports table/*"),
    (
        "ListExports",
        r#"{"TableArn":"arn:aws:dynamodb:eu-west-1:123456789012:table/orders"}"#,
        "ListExports table/orders",
    ),
    (
        "ImportTable",
        r#"{"S3BucketSource":{"S3Bucket":"bucket"},"InputFormat":"DYNAMODB_JSON","TableCreationParameters":{"TableName":"orders","KeySchema":[{"AttributeName":"pk","KeyType":"HASH"}],"AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"S"}],"BillingMode":"PAY_PER_REQUEST"}}"#,
        "ImportTable table/orders",
    ),
    (
        "DescribeImport",
        r#"{"ImportArn":"arn:aws:dynamodb:eu-west-1:123456789012:table/orders/import/01767225600000-abcdefgh"}"#,
        "DescribeImport table/orders/import/01767225600000-abcdefgh",
    ),
    ("ListImports", "{}", "ListImports table/*"),
    (
        "RestoreTableFromBackup",
        r#"{"BackupArn":"BACKUP","TargetTableName":"copy"}"#,
        "RestoreTableFromBackup table/orders/backup/01767225600000-abcdefgh, RestoreTableFromBackup table/copy, \
         BatchWriteItem table/copy, DeleteItem table/copy, GetItem table/copy, PutItem table/copy, Query table/copy, \
         Scan table/copy, UpdateItem table/copy",
    ),
    ("DescribeLimits", "{}", "DescribeLimits *"),
    ("DescribeEndpoints", "{}", "DescribeEndpoints *"),
    ("GetItem", r#"{"TableName":"orders","Key":{"pk":{"S":"a"}}}"#, "GetItem table/orders"),
    ("PutItem", r#"{"TableName":"orders","Item":{"pk":{"S":"a"}}}"#, "PutItem table/orders"),
    ("UpdateItem", r#"{"TableName":"orders","Key":{"pk":{"S":"a"}}}"#, "UpdateItem table/orders"),
    ("DeleteItem", r#"{"TableName":"orders","Key":{"pk":{"S":"a"}}}"#, "DeleteItem table/orders"),
    (
        "Query",
        r#"{"TableName":"orders","KeyConditionExpression":"pk = :a","ExpressionAttributeValues":{":a":{"S":"a"}}}"#,
        "Query table/orders",
    ),
    (
        "Query",
        r#"{"TableName":"orders","IndexName":"by_shop","KeyConditionExpression":"shop = :a","ExpressionAttributeValues":{":a":{"S":"a"}}}"#,
        "Query table/orders/index/by_shop",
    ),
    ("Scan", r#"{"TableName":"orders"}"#, "Scan table/orders"),
    ("Scan", r#"{"TableName":"orders","IndexName":"by_shop"}"#, "Scan table/orders/index/by_shop"),
    (
        "BatchGetItem",
        r#"{"RequestItems":{"orders":{"Keys":[{"pk":{"S":"a"}}]},"books":{"Keys":[{"pk":{"S":"a"}},{"pk":{"S":"b"}}]}}}"#,
        "BatchGetItem table/orders, BatchGetItem table/books",
    ),
    (
        "BatchWriteItem",
        r#"{"RequestItems":{"orders":[{"PutRequest":{"Item":{"pk":{"S":"a"}}}},{"DeleteRequest":{"Key":{"pk":{"S":"b"}}}}],"books":[{"DeleteRequest":{"Key":{"pk":{"S":"b"}}}}]}}"#,
        "BatchWriteItem table/orders, BatchWriteItem table/books",
    ),
    (
        "TransactGetItems",
        r#"{"TransactItems":[{"Get":{"TableName":"orders","Key":{"pk":{"S":"a"}}}},{"Get":{"TableName":"books","Key":{"pk":{"S":"a"}}}}]}"#,
        "GetItem table/orders, GetItem table/books",
    ),
    (
        "TransactWriteItems",
        r#"{"TransactItems":[{"Put":{"TableName":"orders","Item":{"pk":{"S":"a"}}}},{"Update":{"TableName":"books","Key":{"pk":{"S":"a"}},"UpdateExpression":"REMOVE x"}},{"Delete":{"TableName":"orders","Key":{"pk":{"S":"b"}}}},{"ConditionCheck":{"TableName":"books","Key":{"pk":{"S":"b"}},"ConditionExpression":"attribute_exists(pk)"}}]}"#,
        "PutItem table/orders, UpdateItem table/books, DeleteItem table/orders, ConditionCheckItem table/books",
    ),
    (
        "ExecuteStatement",
        r#"{"Statement":"SELECT * FROM orders WHERE pk = 'a'"}"#,
        "PartiQLSelect table/orders",
    ),
    (
        "ExecuteStatement",
        r#"{"Statement":"SELECT * FROM \"orders\".\"by_shop\""}"#,
        "PartiQLSelect table/orders/index/by_shop",
    ),
    (
        "ExecuteStatement",
        r#"{"Statement":"INSERT INTO orders VALUE {'pk': 'a'}"}"#,
        "PartiQLInsert table/orders",
    ),
    (
        "BatchExecuteStatement",
        r#"{"Statements":[{"Statement":"UPDATE orders SET a = 1 WHERE pk = 'a'"},{"Statement":"DELETE FROM books WHERE pk = 'a'"},{"Statement":"no statement"}]}"#,
        "PartiQLUpdate table/orders, PartiQLDelete table/books",
    ),
    (
        "ExecuteTransaction",
        r#"{"TransactStatements":[{"Statement":"INSERT INTO orders VALUE {'pk': 'a'}"},{"Statement":"EXISTS(SELECT * FROM books WHERE pk = 'a')"}]}"#,
        "PartiQLInsert table/orders, PartiQLSelect table/books",
    ),
    ("ListStreams", r#"{"TableName":"orders"}"#, "ListStreams *"),
    (
        "DescribeStream",
        r#"{"StreamArn":"STREAM"}"#,
        "DescribeStream table/orders/stream/2026-01-01T00:00:00.000",
    ),
    (
        "GetShardIterator",
        r#"{"StreamArn":"STREAM","ShardId":"shardId-00000001767225600000-00000001","ShardIteratorType":"TRIM_HORIZON"}"#,
        "GetShardIterator table/orders/stream/2026-01-01T00:00:00.000",
    ),
    ("GetRecords", "ITERATOR", "GetRecords table/orders/stream/2026-01-01T00:00:00.000"),
];

fn target(operation: &str) -> String {
    let of_streams = ["DescribeStream", "GetRecords", "GetShardIterator", "ListStreams"].contains(&operation);
    format!("{}_20120810.{operation}", if of_streams { "DynamoDBStreams" } else { "DynamoDB" })
}

fn decode(operation: &str, body: &str) -> Request {
    let body = body.replace("STREAM", STREAM).replace("BACKUP", BACKUP).replace("ITERATOR", &iterator());
    larder_wire::decode(&target(operation), body.as_bytes())
        .unwrap_or_else(|error| panic!("{operation}: {error}"))
}

/// A body for GetRecords.
fn iterator() -> String {
    let stream = StreamId {
        table: TableName::new("orders").expect("a good name"),
        label: UnixTime::from_label("2026-01-01T00:00:00.000").expect("a label"),
    };
    let iterator = ShardIterator {
        stream,
        table_id: 1,
        shard: ShardKey::default(),
        position: ShardPosition::Oldest,
        issued: UnixTime::from_seconds(0),
    };
    let body = larder_wire::encode(&Response::GetShardIterator(iterator)).expect("it can be told");
    String::from_utf8(body).expect("JSON is text")
}

#[test]
fn each_operation_needs_its_actions_on_its_resources() {
    for (operation, body, expected) in NEEDED {
        let request = decode(operation, body);
        let found: Vec<String> = needs(&request)
            .iter()
            .map(|need| {
                let arn = need.resource.arn(PLACE);
                let resource = arn.strip_prefix("arn:aws:dynamodb:eu-west-1:123456789012:").unwrap_or(&arn);
                format!("{} {resource}", need.action.strip_prefix("dynamodb:").unwrap())
            })
            .collect();
        let (found, expected): (BTreeSet<_>, BTreeSet<_>) =
            (found.iter().map(String::as_str).collect(), expected.split(", ").collect());
        assert_eq!(found, expected, "{operation} {body}");
    }
}

#[test]
fn every_operation_that_is_served_is_in_the_table() {
    let covered: BTreeSet<&str> = NEEDED.iter().map(|(operation, ..)| *operation).collect();
    let known: BTreeSet<&str> = Operation::ALL.iter().map(|operation| operation.name()).collect();
    for operation in OPERATIONS.split_whitespace() {
        let decoded = larder_wire::decode(&target(operation), b"{}");
        let is_served = !matches!(decoded, Err(ApiError::UnknownOperation(_)));
        assert_eq!(covered.contains(operation), is_served, "{operation}");
    }
    assert_eq!(known.difference(&covered).copied().collect::<Vec<_>>(), ["Unknown"]);
}

#[test]
fn every_need_is_an_action_that_can_be_done_to_such_a_resource() {
    for (operation, body, _) in NEEDED {
        for need in needs(&decode(operation, body)) {
            let kinds = kinds_of(need.action).unwrap_or_else(|| panic!("{} is not known", need.action));
            match need.resource.kind() {
                Some(kind) => assert!(kinds.contains(&kind), "{} on {kind:?}", need.action),
                // A list of one table's, or of all.
                None if kinds == [ResourceKind::Table] => assert_eq!(need.resource, Resource::EveryTable),
                None => assert!(kinds.is_empty(), "{} is about something", need.action),
            }
            // All tables look like one that is called `*`.
            let arn = need.resource.arn(PLACE);
            let of_arn = ResourceKind::of_arn(&arn).filter(|_| need.resource != Resource::EveryTable);
            assert_eq!(of_arn, need.resource.kind(), "{arn}");
        }
    }
}

#[test]
fn every_operation_of_aws_is_an_action_or_made_of_others() {
    let made_of_others = [
        "BatchExecuteStatement",
        "ExecuteStatement",
        "ExecuteTransaction",
        "TransactGetItems",
        "TransactWriteItems",
    ];
    for operation in OPERATIONS.split_whitespace() {
        let is_action = kinds_of(&format!("dynamodb:{operation}")).is_some();
        assert_ne!(is_action, made_of_others.contains(&operation), "{operation}");
    }
    let only_actions: Vec<&str> = ACTIONS
        .iter()
        .map(|(action, _)| *action)
        .filter(|action| !OPERATIONS.split_whitespace().any(|operation| operation == *action))
        .collect();
    assert_eq!(
        only_actions,
        ["ConditionCheckItem", "PartiQLDelete", "PartiQLInsert", "PartiQLSelect", "PartiQLUpdate"]
    );
    assert_eq!(kinds_of("DYNAMODB:getitem"), Some(&[ResourceKind::Table][..]));
    for other in ["GetItem", "s3:GetItem", "dynamodb:GetItems", "dynamodb:", ""] {
        assert_eq!(kinds_of(other), None, "{other}");
    }
}

/// A table `orders` with the key `pk`, `sk`, an index `by_shop` with the key `shop`, `city`, and tags.
struct Orders {
    policy: Option<Arc<Policy>>,
}

impl Tables for Orders {
    fn definition(&self, table: &TableName) -> Option<Arc<TableDefinition>> {
        let attribute = |name: &str| KeyAttribute { name: name.to_owned(), kind: KeyType::S };
        let definition = TableDefinition {
            name: table.clone(),
            attributes: ["pk", "sk", "shop", "city"].map(|name| (name.to_owned(), KeyType::S)).into(),
            key: KeySchema { partition: vec![attribute("pk")], sort: vec![attribute("sk")] },
            indexes: vec![IndexDefinition {
                name: IndexName::new("by_shop").expect("a good name"),
                kind: IndexKind::Global,
                key: KeySchema { partition: vec![attribute("shop"), attribute("city")], sort: Vec::new() },
                projection: Projection::All,
                throughput: Throughput::default(),
                on_demand_limits: None,
            }],
            billing: Billing::OnDemand,
            on_demand_limits: None,
            stream: None,
            encryption: None,
            class: None,
            deletion_protection: false,
            tags: [("Team".to_owned(), "kitchen".to_owned())].into(),
        };
        (table.as_str() == "orders").then(|| Arc::new(definition))
    }

    fn table_policy(&self, table: &TableName) -> Option<Arc<Policy>> {
        self.policy.clone().filter(|_| table.as_str() == "orders")
    }

    fn stream_policy(&self, _: &StreamId) -> Option<Arc<Policy>> {
        None
    }
}

fn principal(statement: &str) -> Principal {
    let policy = Policy::identity(&format!(r#"{{"Version": "2012-10-17", "Statement": {statement}}}"#))
        .expect("a good policy");
    Principal {
        name: "alice".to_owned(),
        account: ACCOUNT.to_owned(),
        keys: Vec::new(),
        tags: BTreeMap::from([("team".to_owned(), "kitchen".to_owned())]),
        policies: vec![("app".to_owned(), policy)],
    }
}

fn asked(
    principal: &Principal,
    place: Place<'_>,
    tables: &Orders,
    operation: &str,
    body: &str,
) -> Result<(), Error> {
    let caller = Caller {
        principal,
        key_id: "LKIAAAAAAAAAAAAAAAAA".to_owned(),
        region: place.region.to_owned(),
        is_session: false,
        is_presigned: false,
    };
    let circumstances = Circumstances {
        now: UnixTime::from_label("2026-10-09T12:34:56.789").expect("a label"),
        source_ip: Some(IpAddr::from([127, 0, 0, 1])),
        secure: true,
        user_agent: Some("tests/1"),
    };
    authorize(&caller, &decode(operation, body), place, &circumstances, tables)
}

/// Whether alice may, under a condition on everything.
fn may(condition: &str, operation: &str, body: &str) -> bool {
    let statement = format!(
        r#"{{"Effect": "Allow", "Action": "dynamodb:*", "Resource": "*", "Condition": {condition}}}"#
    );
    asked(&principal(&statement), PLACE, &Orders { policy: None }, operation, body).is_ok()
}

/// Whether a condition key of this request has exactly these values: all of its own are among them, and each of them
/// is one of its own.
fn check(operation: &str, body: &str, key: &str, values: &[&str]) {
    let quoted: Vec<String> = values.iter().map(|value| format!("{value:?}")).collect();
    if !quoted.is_empty() {
        let all = format!(r#"{{"ForAllValues:StringEquals": {{"{key}": [{}]}}}}"#, quoted.join(","));
        assert!(may(&all, operation, body), "{operation} {body}: {key} has others than {values:?}");
    }
    for value in &quoted {
        let any = format!(r#"{{"ForAnyValue:StringEquals": {{"{key}": {value}}}}}"#);
        assert!(may(&any, operation, body), "{operation} {body}: {key} has no {value}");
    }
    let null = format!(r#"{{"Null": {{"{key}": "{}"}}}}"#, values.is_empty());
    assert!(may(&null, operation, body), "{operation} {body}: {key}");
}

#[test]
fn leading_keys_are_the_partition_keys_that_are_touched() {
    let key = "dynamodb:LeadingKeys";
    let item = r#"{"pk":{"S":"a"},"sk":{"S":"x"}}"#;
    check("GetItem", &format!(r#"{{"TableName":"orders","Key":{item}}}"#), key, &["a"]);
    check("PutItem", &format!(r#"{{"TableName":"orders","Item":{item}}}"#), key, &["a"]);
    check("UpdateItem", &format!(r#"{{"TableName":"orders","Key":{item}}}"#), key, &["a"]);
    check("DeleteItem", &format!(r#"{{"TableName":"orders","Key":{item}}}"#), key, &["a"]);
    let other = r#"{"pk":{"S":"b"},"sk":{"S":"x"}}"#;
    check(
        "BatchGetItem",
        &format!(r#"{{"RequestItems":{{"orders":{{"Keys":[{item},{other}]}}}}}}"#),
        key,
        &["a", "b"],
    );
    let writes = format!(r#"[{{"PutRequest":{{"Item":{item}}}}},{{"DeleteRequest":{{"Key":{other}}}}}]"#);
    check("BatchWriteItem", &format!(r#"{{"RequestItems":{{"orders":{writes}}}}}"#), key, &["a", "b"]);
    let query = |rest: &str| {
        format!(
            r#"{{"TableName":"orders","ExpressionAttributeValues":{{":a":{{"S":"a"}},":b":{{"S":"b"}}}},{rest}}}"#
        )
    };
    check("Query", &query(r#""KeyConditionExpression":"pk = :a AND sk > :b""#), key, &["a"]);
    let index = query(r#""IndexName":"by_shop","KeyConditionExpression":"shop = :a AND city = :b""#);
    check("Query", &index, key, &["a"]);
    check("Query", &index, "dynamodb:FirstPartitionKeyValues", &["a"]);
    check("Query", &index, "dynamodb:SecondPartitionKeyValues", &["b"]);
    check("Query", &index, "dynamodb:ThirdPartitionKeyValues", &[]);
    check("Scan", r#"{"TableName":"orders"}"#, key, &[]);
    check("DescribeTable", r#"{"TableName":"orders"}"#, key, &[]);
    // In a transaction each item is asked about by itself.
    let own = r#"{"StringEquals": {"dynamodb:LeadingKeys": "a"}}"#;
    let transaction = |second: &str| {
        format!(
            r#"{{"TransactItems":[{{"Put":{{"TableName":"orders","Item":{item}}}}},{{"Delete":{{"TableName":"orders","Key":{second}}}}}]}}"#
        )
    };
    assert!(may(own, "TransactWriteItems", &transaction(r#"{"pk":{"S":"a"},"sk":{"S":"y"}}"#)));
    assert!(!may(own, "TransactWriteItems", &transaction(other)));
}

/// A statement as the body of ExecuteStatement.
fn stated(statement: &str) -> String {
    format!(r#"{{"Statement": {statement:?}}}"#)
}

#[test]
fn leading_keys_of_a_statement_are_those_that_it_names() {
    for (statement, values) in [
        ("SELECT * FROM orders WHERE pk = 'a' AND sk = 'b'", &["a"][..]),
        ("SELECT * FROM orders WHERE pk IN ['a', 'b'] AND x = 1", &["a", "b"]),
        ("SELECT * FROM orders WHERE pk = 'a' OR x = 1", &[]),
        ("INSERT INTO orders VALUE {'pk': 'c', 'sk': 'd'}", &["c"]),
        ("UPDATE orders SET x = 1 WHERE pk = 'a' AND sk = 'b'", &["a"]),
        ("UPDATE orders SET x = 1 WHERE pk = 'a' AND sk = 'b' AND pk = 'a'", &["a"]),
        ("DELETE FROM orders WHERE pk = 'a' AND sk = 'b'", &["a"]),
    ] {
        check("ExecuteStatement", &stated(statement), "dynamodb:LeadingKeys", values);
    }
    let transaction =
        r#"{"TransactStatements":[{"Statement":"SELECT * FROM orders WHERE pk='a' AND sk='b'"}]}"#;
    check("ExecuteTransaction", transaction, "dynamodb:LeadingKeys", &["a"]);
    check("ExecuteTransaction", transaction, "dynamodb:EnclosingOperation", &["ExecuteTransaction"]);
}

#[test]
fn a_full_scan_and_the_attributes_of_a_statement_are_known() {
    let scan = "dynamodb:FullTableScan";
    check("ExecuteStatement", &stated("SELECT * FROM orders"), scan, &["true"]);
    check("ExecuteStatement", &stated("SELECT * FROM orders WHERE sk = 'a'"), scan, &["true"]);
    check("ExecuteStatement", &stated("SELECT * FROM orders WHERE pk = 'a'"), scan, &["false"]);
    check("ExecuteStatement", &stated("DELETE FROM orders WHERE pk = 'a' AND sk = 'b'"), scan, &[]);
    let attributes = "dynamodb:Attributes";
    let select = stated("SELECT a.b, c FROM orders WHERE pk = 'a' AND x = 1");
    check("ExecuteStatement", &select, attributes, &["a", "c", "pk", "x"]);
    let update = stated("UPDATE orders SET a = b + 1 WHERE pk = 'a' AND sk = 'b' RETURNING ALL OLD *");
    check("ExecuteStatement", &update, attributes, &["a", "b", "pk", "sk"]);
    check("ExecuteStatement", &update, "dynamodb:ReturnValues", &["ALL_OLD"]);
}

#[test]
fn numbers_and_bytes_are_leading_keys_as_they_are_written() {
    for (value, text) in [(r#"{"N":"1.50"}"#, "1.5"), (r#"{"B":"AQI="}"#, "AQI=")] {
        let body = format!(r#"{{"TableName":"orders","Key":{{"pk":{value},"sk":{{"S":"x"}}}}}}"#);
        check("GetItem", &body, "dynamodb:LeadingKeys", &[text]);
    }
}

#[test]
fn attributes_are_those_that_the_request_names() {
    let key = "dynamodb:Attributes";
    let item = r#""Key":{"pk":{"S":"a"},"sk":{"S":"x"}}"#;
    let names = r##""ExpressionAttributeNames":{"#n":"Name"}"##;
    let get = format!(
        r##"{{"TableName":"orders",{item},{names},"ProjectionExpression":"#n, address.city, l[1]"}}"##
    );
    check("GetItem", &get, key, &["pk", "sk", "Name", "address", "l"]);
    let put = r#"{"TableName":"orders","Item":{"pk":{"S":"a"},"sk":{"S":"x"},"m":{"M":{"inner":{"S":"x"}}}},"ConditionExpression":"attribute_not_exists(seen.deep)"}"#;
    check("PutItem", put, key, &["pk", "sk", "m", "seen"]);
    let update = format!(
        r#"{{"TableName":"orders",{item},"UpdateExpression":"SET a = b + :n, c = list_append(if_not_exists(d, :l), e) REMOVE f ADD g :n","ConditionExpression":"h < :n","ExpressionAttributeValues":{{":n":{{"N":"1"}},":l":{{"L":[]}}}}}}"#
    );
    check("UpdateItem", &update, key, &["pk", "sk", "a", "b", "c", "d", "e", "f", "g", "h"]);
    let query = r#"{"TableName":"orders","KeyConditionExpression":"pk = :a","FilterExpression":"size(tags) > :a","ProjectionExpression":"sk","ExpressionAttributeValues":{":a":{"S":"a"}}}"#;
    check("Query", query, key, &["pk", "tags", "sk"]);
    check("Scan", r#"{"TableName":"orders"}"#, key, &[]);
    check("Scan", r#"{"TableName":"orders","AttributesToGet":["pk","old"]}"#, key, &["pk", "old"]);
}

#[test]
fn parameters_are_told_whether_they_were_said_or_not() {
    let key = r#""TableName":"orders","Key":{"pk":{"S":"a"},"sk":{"S":"x"}}"#;
    let query = r#""TableName":"orders","KeyConditionExpression":"pk = :a","ExpressionAttributeValues":{":a":{"S":"a"}}"#;
    let select = "dynamodb:Select";
    check("GetItem", &format!("{{{key}}}"), select, &["ALL_ATTRIBUTES"]);
    check("GetItem", &format!(r#"{{{key},"ProjectionExpression":"pk"}}"#), select, &["SPECIFIC_ATTRIBUTES"]);
    check("Query", &format!("{{{query}}}"), select, &["ALL_ATTRIBUTES"]);
    check("Query", &format!(r#"{{{query},"Select":"COUNT"}}"#), select, &["COUNT"]);
    check("Scan", r#"{"TableName":"orders","IndexName":"by_shop"}"#, select, &["ALL_PROJECTED_ATTRIBUTES"]);
    check("PutItem", r#"{"TableName":"orders","Item":{"pk":{"S":"a"}}}"#, select, &[]);
    let returned = "dynamodb:ReturnValues";
    check("UpdateItem", &format!("{{{key}}}"), returned, &["NONE"]);
    check("UpdateItem", &format!(r#"{{{key},"ReturnValues":"ALL_NEW"}}"#), returned, &["ALL_NEW"]);
    check("DeleteItem", &format!(r#"{{{key},"ReturnValues":"ALL_OLD"}}"#), returned, &["ALL_OLD"]);
    check("GetItem", &format!("{{{key}}}"), returned, &[]);
    // What a failed condition would return counts as returned.
    let on_failure = format!(r#"{{{key},"ReturnValuesOnConditionCheckFailure":"ALL_OLD"}}"#);
    check("DeleteItem", &on_failure, returned, &["ALL_OLD"]);
    let in_transaction = |delete: &str| format!(r#"{{"TransactItems":[{{"Delete":{delete}}}]}}"#);
    check("TransactWriteItems", &in_transaction(&on_failure), returned, &["ALL_OLD"]);
    check("TransactWriteItems", &in_transaction(&format!("{{{key}}}")), returned, &["NONE"]);
    let exists = r#""Statement":"EXISTS(SELECT a FROM orders WHERE pk = 'a' AND sk = 'b' AND a = 1)""#;
    let stated = |more: &str| format!(r#"{{"TransactStatements":[{{{exists}{more}}}]}}"#);
    check("ExecuteTransaction", &stated(""), returned, &[]);
    let on_failure = stated(r#","ReturnValuesOnConditionCheckFailure":"ALL_OLD""#);
    check("ExecuteTransaction", &on_failure, returned, &["ALL_OLD"]);
    let capacity = "dynamodb:ReturnConsumedCapacity";
    check("GetItem", &format!("{{{key}}}"), capacity, &["NONE"]);
    check("GetItem", &format!(r#"{{{key},"ReturnConsumedCapacity":"TOTAL"}}"#), capacity, &["TOTAL"]);
    let enclosing = "dynamodb:EnclosingOperation";
    check("GetItem", &format!("{{{key}}}"), enclosing, &[]);
    check(
        "TransactGetItems",
        &format!(r#"{{"TransactItems":[{{"Get":{{{key}}}}}]}}"#),
        enclosing,
        &["TransactGetItems"],
    );
    let delete = format!(r#"{{"TransactItems":[{{"Delete":{{{key}}}}}]}}"#);
    check("TransactWriteItems", &delete, enclosing, &["TransactWriteItems"]);
}

#[test]
fn the_caller_the_moment_and_the_way_are_known() {
    for (key, value) in [
        ("aws:username", "alice"),
        ("aws:PrincipalArn", "arn:aws:iam::123456789012:user/alice"),
        ("aws:PrincipalAccount", ACCOUNT),
        ("aws:PrincipalType", "User"),
        ("aws:PrincipalTag/Team", "kitchen"),
        ("aws:ResourceTag/team", "kitchen"),
        ("aws:ResourceAccount", ACCOUNT),
        ("aws:RequestedRegion", "eu-west-1"),
        ("aws:CurrentTime", "2026-10-09T12:34:56Z"),
        ("aws:EpochTime", "1791549296"),
        ("aws:SecureTransport", "true"),
        ("aws:SourceIp", "127.0.0.1"),
        ("aws:UserAgent", "tests/1"),
        ("aws:ViaAWSService", "false"),
    ] {
        check("DescribeTable", r#"{"TableName":"orders"}"#, key, &[value]);
    }
    check("DescribeTable", r#"{"TableName":"orders"}"#, "aws:Unheard", &[]);
    check("DescribeTable", r#"{"TableName":"books"}"#, "aws:ResourceTag/team", &[]);
}

/// Of indexes they are known, and not of streams and backups: “Stream resources do not inherit tags from their parent table”
/// (DynamoDB: using attribute-based access control with DynamoDB Streams). Streams have none of their own here, as one at AWS that
/// nobody has tagged, and a backup can have none.
#[test]
fn tags_of_a_table_hold_for_its_indexes_and_not_for_its_streams_and_backups() {
    let key = "aws:ResourceTag/team";
    let scan = r#"{"TableName":"orders","IndexName":"by_shop"}"#;
    check("Scan", scan, key, &["kitchen"]);
    check("CreateBackup", r#"{"TableName":"orders","BackupName":"before"}"#, key, &["kitchen"]);
    let iterator = r#"{"StreamArn":"STREAM","ShardId":"shardId-00000001767225600000-00000001","ShardIteratorType":"TRIM_HORIZON"}"#;
    let of_none = [
        ("DescribeStream", r#"{"StreamArn":"STREAM"}"#),
        ("GetShardIterator", iterator),
        ("DescribeBackup", r#"{"BackupArn":"BACKUP"}"#),
        ("DeleteBackup", r#"{"BackupArn":"BACKUP"}"#),
    ];
    let deny = r#"[{"Effect": "Allow", "Action": "*", "Resource": "*"}, {"Effect": "Deny", "Action": "*", "Resource": "*",
        "Condition": {"StringEquals": {"aws:ResourceTag/team": "kitchen"}}}]"#;
    let denied = |operation, body: &str| {
        asked(&principal(deny), PLACE, &Orders { policy: None }, operation, body).is_err()
    };
    assert!(denied("Scan", scan));
    for (operation, body) in of_none {
        check(operation, body, key, &[]);
        assert!(!denied(operation, body), "{operation}");
    }
    // By their names they are kept.
    let named = r#"[{"Effect": "Allow", "Action": "*", "Resource": "*"}, {"Effect": "Deny", "Action": "*",
        "Resource": ["arn:aws:dynamodb:*:*:table/orders/stream/*", "arn:aws:dynamodb:*:*:table/orders/backup/*"]}]"#;
    for (operation, body) in of_none {
        let refused = asked(&principal(named), PLACE, &Orders { policy: None }, operation, body);
        assert!(refused.is_err(), "{operation}");
    }
}

#[test]
fn tags_of_a_request_are_known() {
    let arn = r#""ResourceArn":"arn:aws:dynamodb:eu-west-1:123456789012:table/orders""#;
    let tag = format!(r#"{{{arn},"Tags":[{{"Key":"Owner","Value":"alice"}},{{"Key":"cost","Value":"1"}}]}}"#);
    check("TagResource", &tag, "aws:TagKeys", &["Owner", "cost"]);
    check("TagResource", &tag, "aws:RequestTag/owner", &["alice"]);
    check("TagResource", &tag, "aws:RequestTag/other", &[]);
    check("UntagResource", &format!(r#"{{{arn},"TagKeys":["cost"]}}"#), "aws:TagKeys", &["cost"]);
    let create = r#"{"TableName":"books","KeySchema":[{"AttributeName":"pk","KeyType":"HASH"}],"AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"S"}],"BillingMode":"PAY_PER_REQUEST","Tags":[{"Key":"a","Value":"b"}]}"#;
    check("CreateTable", create, "aws:RequestTag/a", &["b"]);
}

#[test]
fn a_batch_needs_every_table_and_the_first_that_is_missing_is_named() {
    let orders =
        r#"{"Effect": "Allow", "Action": "dynamodb:*", "Resource": "arn:aws:dynamodb:*:*:table/orders"}"#;
    let body =
        r#"{"RequestItems":{"orders":{"Keys":[{"pk":{"S":"a"}}]},"books":{"Keys":[{"pk":{"S":"a"}}]}}}"#;
    let error = asked(&principal(orders), PLACE, &Orders { policy: None }, "BatchGetItem", body).unwrap_err();
    assert_eq!((error.code(), error.status()), ("AccessDeniedException", 400));
    assert_snapshot!(error, @"User: arn:aws:iam::123456789012:user/alice is not authorized to perform: dynamodb:BatchGetItem on resource: arn:aws:dynamodb:eu-west-1:123456789012:table/books because no identity-based policy allows the dynamodb:BatchGetItem action");
}

#[test]
fn the_policy_of_a_table_is_asked_for_the_table_and_its_indexes() {
    let nothing = principal("[]");
    let policy = r#"{"Statement": {"Effect": "Allow", "Principal": {"AWS": "arn:aws:iam::123456789012:user/alice"}, "Action": ["dynamodb:GetItem", "dynamodb:Scan"], "Resource": "arn:aws:dynamodb:eu-west-1:*:table/orders*"}}"#;
    let tables = Orders { policy: Some(Arc::new(Policy::resource(policy).unwrap())) };
    let get = |table: &str| format!(r#"{{"TableName":"{table}","Key":{{"pk":{{"S":"a"}}}}}}"#);
    assert_eq!(asked(&nothing, PLACE, &tables, "GetItem", &get("orders")), Ok(()));
    assert_eq!(
        asked(&nothing, PLACE, &tables, "Scan", r#"{"TableName":"orders","IndexName":"by_shop"}"#),
        Ok(())
    );
    assert!(asked(&nothing, PLACE, &tables, "GetItem", &get("books")).is_err());
    // The table of another account: its policy and the principal's own.
    let elsewhere = Place { region: "eu-west-1", account: "111122223333" };
    assert!(asked(&nothing, elsewhere, &tables, "GetItem", &get("orders")).is_err());
    let all = principal(r#"{"Effect": "Allow", "Action": "*", "Resource": "*"}"#);
    assert_eq!(asked(&all, elsewhere, &tables, "GetItem", &get("orders")), Ok(()));
    let error = asked(&all, elsewhere, &tables, "GetItem", &get("books")).unwrap_err();
    assert_snapshot!(error, @"User: arn:aws:iam::123456789012:user/alice is not authorized to perform: dynamodb:GetItem on resource: arn:aws:dynamodb:eu-west-1:111122223333:table/books because no resource-based policy allows the dynamodb:GetItem action");
}

#[test]
fn the_root_of_an_account_can_always_remove_the_policies_of_its_resources() {
    let policy = r#"{"Statement": {"Effect": "Deny", "Principal": "*", "Action": "*", "Resource": "*"}}"#;
    let tables = Orders { policy: Some(Arc::new(Policy::resource(policy).unwrap())) };
    let body = r#"{"ResourceArn":"arn:aws:dynamodb:eu-west-1:123456789012:table/orders"}"#;
    let all = principal(r#"{"Effect": "Allow", "Action": "*", "Resource": "*"}"#);
    let root = Principal { name: "root".to_owned(), ..all.clone() };
    assert_eq!(asked(&root, PLACE, &tables, "DeleteResourcePolicy", body), Ok(()));
    assert!(asked(&root, PLACE, &tables, "GetResourcePolicy", body).is_err());
    assert!(asked(&all, PLACE, &tables, "DeleteResourcePolicy", body).is_err());
    let powerless = Principal { policies: Vec::new(), ..root.clone() };
    assert!(asked(&powerless, PLACE, &tables, "DeleteResourcePolicy", body).is_err());
    let elsewhere = Place { region: "eu-west-1", account: "111122223333" };
    assert!(asked(&root, elsewhere, &tables, "DeleteResourcePolicy", body).is_err());
}
