//! `--exports`: what a table is exported to is in the format that DynamoDB has, and a table can be made of it again.

#[expect(dead_code, reason = "shared with other test files")]
mod client;

use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use client::{Answer, Connection, Running};
use hyper::{Method, StatusCode};
use larder_exports::Folder;
use larder_server::{Config, Server, StoreConfig};
use serde_json::{Value, json};
use tempfile::TempDir;

const TABLE: &str = "arn:aws:dynamodb:us-east-1:000000000000:table/orders";

async fn exporting() -> (Running, TempDir) {
    let folder = tempfile::tempdir().expect("a directory");
    fs::create_dir(folder.path().join("bucket")).expect("a bucket");
    let depot = Arc::new(Folder::new(folder.path()));
    let config = Config { depot: Some(depot), ..Config::local(StoreConfig::Memory) };
    let server = Server::bind(config).await.expect("a free port and an empty store open");
    // Time passes only as a test says.
    server.clock().stop();
    (Running::serve(server), folder)
}

/// Moves the clock. The work that is due by then is done when this is over.
async fn advance(connection: &mut Connection, seconds: u64) {
    let body = json!({"advance_seconds": seconds}).to_string();
    let answer =
        connection.send(Method::POST, "/_larder/clock", &[("content-type", "application/json")], body).await;
    assert_eq!(answer.status, StatusCode::OK);
}

fn parameters(name: &str) -> Value {
    json!({
        "TableName": name,
        "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}, {"AttributeName": "n", "AttributeType": "N"}],
        "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "n", "KeyType": "RANGE"}],
        "BillingMode": "PAY_PER_REQUEST",
    })
}

async fn create(connection: &mut Connection) {
    connection.ok("CreateTable", parameters("orders")).await;
    let specification = json!({"PointInTimeRecoveryEnabled": true});
    let request = json!({"TableName": "orders", "PointInTimeRecoverySpecification": specification});
    connection.ok("UpdateContinuousBackups", request).await;
}

fn item(pk: &str, v: &str) -> Value {
    json!({"pk": {"S": pk}, "n": {"N": "1"}, "v": {"S": v}, "bytes": {"B": "AAEC"}})
}

async fn put(connection: &mut Connection, pk: &str, v: &str) {
    connection.ok("PutItem", json!({"TableName": "orders", "Item": item(pk, v)})).await;
}

/// Asks for an export and waits until it is over.
async fn export(connection: &mut Connection, more: Value) -> Value {
    let mut request = json!({"TableArn": TABLE, "S3Bucket": "bucket"});
    request.as_object_mut().expect("members").extend(more.as_object().expect("members").clone());
    let begun = connection.ok("ExportTableToPointInTime", request).await["ExportDescription"].clone();
    assert_eq!(begun["ExportStatus"], "IN_PROGRESS");
    advance(connection, 1).await;
    let described = connection.ok("DescribeExport", json!({"ExportArn": begun["ExportArn"]})).await;
    described["ExportDescription"].clone()
}

async fn import(connection: &mut Connection, request: &Value) -> Value {
    let begun = connection.ok("ImportTable", request.clone()).await["ImportTableDescription"].clone();
    assert_eq!(begun["ImportStatus"], "IN_PROGRESS");
    advance(connection, 1).await;
    let described = connection.ok("DescribeImport", json!({"ImportArn": begun["ImportArn"]})).await;
    described["ImportTableDescription"].clone()
}

fn json_file(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).expect("it is there")).expect("it is JSON")
}

/// The lines of the files that a manifest lists.
fn lines(bucket: &Path, summary: &Value) -> Vec<Value> {
    let key = summary["manifestFilesS3Key"].as_str().expect("a key");
    let manifest = fs::read_to_string(bucket.join(key)).expect("the manifest of files");
    let mut lines = Vec::new();
    for file in manifest.lines() {
        let file: Value = serde_json::from_str(file).expect("a line is JSON");
        let packed = File::open(bucket.join(file["dataFileS3Key"].as_str().expect("a key"))).expect("a file");
        let mut text = String::new();
        flate2::read::MultiGzDecoder::new(packed).read_to_string(&mut text).expect("it is gzip");
        assert_eq!(file["itemCount"], text.lines().count());
        lines.extend(text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON")));
    }
    lines
}

#[tokio::test]
async fn a_table_is_exported_and_made_again_of_what_was_exported() {
    let (server, folder) = exporting().await;
    let mut connection = server.connect().await;
    create(&mut connection).await;
    for pk in ["a", "b", "c"] {
        put(&mut connection, pk, "one").await;
    }
    let done = export(&mut connection, json!({"S3Prefix": "daily/orders"})).await;
    assert_eq!(done["ExportStatus"], "COMPLETED", "{done}");
    assert_eq!((&done["ItemCount"], &done["ExportType"]), (&json!(3), &json!("FULL_EXPORT")));
    let arn = done["ExportArn"].as_str().expect("an ARN");
    let id = arn.rsplit('/').next().expect("an id");
    let manifest = format!("daily/orders/AWSDynamoDB/{id}/manifest-summary.json");
    assert_eq!(done["ExportManifest"], manifest);

    let bucket = folder.path().join("bucket");
    let summary = json_file(&bucket.join(&manifest));
    for (member, expected) in [
        ("exportArn", json!(arn)),
        ("tableArn", json!(TABLE)),
        ("s3Bucket", json!("bucket")),
        ("s3Prefix", json!("daily/orders")),
        ("itemCount", json!(3)),
        ("outputFormat", json!("DYNAMODB_JSON")),
        ("exportType", json!("FULL_EXPORT")),
        ("tableId", done["TableId"].clone()),
    ] {
        assert_eq!(summary[member], expected, "{member}");
    }
    let exported = bucket.join(format!("daily/orders/AWSDynamoDB/{id}"));
    for name in ["_started", "manifest-summary.md5", "manifest-files.json", "manifest-files.md5"] {
        assert!(exported.join(name).is_file(), "{name}");
    }
    let found = lines(&bucket, &summary);
    assert_eq!(found.len(), 3);
    assert!(found.contains(&json!({"Item": item("b", "one")})));

    let request = json!({
        "S3BucketSource": {"S3Bucket": "bucket", "S3KeyPrefix": format!("daily/orders/AWSDynamoDB/{id}/data/")},
        "InputFormat": "DYNAMODB_JSON",
        "InputCompressionType": "GZIP",
        "TableCreationParameters": parameters("again"),
    });
    let imported = import(&mut connection, &request).await;
    assert_eq!(imported["ImportStatus"], "COMPLETED", "{imported}");
    assert_eq!(
        [&imported["ImportedItemCount"], &imported["ProcessedItemCount"], &imported["ErrorCount"]],
        [3, 3, 0]
    );
    let mut echoed = imported["TableCreationParameters"].clone();
    let expected = parameters("again");
    assert_eq!(echoed.as_object_mut().expect("members").remove("TableName"), Some(json!("again")));
    for member in ["AttributeDefinitions", "KeySchema", "BillingMode"] {
        assert_eq!(echoed[member], expected[member], "{member}");
    }
    for pk in ["a", "b", "c"] {
        let key = json!({"pk": {"S": pk}, "n": {"N": "1"}});
        let found = connection.ok("GetItem", json!({"TableName": "again", "Key": key})).await;
        assert_eq!(found["Item"], item(pk, "one"));
    }
    let listed = connection.ok("ListImports", json!({})).await;
    assert_eq!(listed["ImportSummaryList"][0]["ImportArn"], imported["ImportArn"]);
}

#[tokio::test]
async fn changes_are_exported_into_the_folder_that_they_share() {
    let (server, folder) = exporting().await;
    let mut connection = server.connect().await;
    create(&mut connection).await;
    put(&mut connection, "a", "one").await;
    put(&mut connection, "b", "one").await;
    advance(&mut connection, 3600).await;
    let latest = |backups: Value| {
        let backups = backups["ContinuousBackupsDescription"].clone();
        backups["PointInTimeRecoveryDescription"]["LatestRestorableDateTime"].as_f64().expect("a time")
    };
    let from = latest(connection.ok("DescribeContinuousBackups", json!({"TableName": "orders"})).await);
    put(&mut connection, "a", "two").await;
    let key = json!({"pk": {"S": "b"}, "n": {"N": "1"}});
    connection.ok("DeleteItem", json!({"TableName": "orders", "Key": key})).await;
    advance(&mut connection, 3600).await;
    let specification = json!({"ExportFromTime": from, "ExportToTime": from + 1800.0, "ExportViewType": "NEW_AND_OLD_IMAGES"});
    let asked = json!({"ExportType": "INCREMENTAL_EXPORT", "IncrementalExportSpecification": specification});
    let done = export(&mut connection, asked).await;
    assert_eq!((&done["ExportStatus"], &done["ItemCount"]), (&json!("COMPLETED"), &json!(2)), "{done}");
    let told = &done["IncrementalExportSpecification"];
    for member in ["ExportFromTime", "ExportToTime"] {
        assert_eq!(told[member].as_f64(), specification[member].as_f64(), "{member}");
    }
    assert_eq!(told["ExportViewType"], "NEW_AND_OLD_IMAGES");
    assert_eq!(done.get("ExportTime"), None);

    let bucket = folder.path().join("bucket");
    let summary = json_file(&bucket.join(done["ExportManifest"].as_str().expect("a key")));
    assert_eq!(
        (&summary["exportType"], &summary["outputView"]),
        (&json!("INCREMENTAL_EXPORT"), &json!("NEW_AND_OLD_IMAGES"))
    );
    let listed = fs::read_dir(bucket.join("AWSDynamoDB/data")).expect("the shared folder");
    assert_eq!(listed.count(), 1);
    let mut found = lines(&bucket, &summary);
    found.sort_by_key(|line| line["Keys"]["pk"]["S"].to_string());
    for line in &mut found {
        let metadata = line.as_object_mut().expect("a line").remove("Metadata").expect("it is there");
        let micros = metadata["WriteTimestampMicros"]["N"].as_str().expect("a number");
        let seconds = micros.parse::<f64>().expect("a number") / 1e6;
        assert!((from..from + 1.0).contains(&seconds), "{micros}");
    }
    let key = |pk: &str| json!({"pk": {"S": pk}, "n": {"N": "1"}});
    assert_eq!(
        found,
        [
            json!({"Keys": key("a"), "OldImage": item("a", "one"), "NewImage": item("a", "two")}),
            json!({"Keys": key("b"), "OldImage": item("b", "one")}),
        ]
    );
}

#[tokio::test]
async fn tables_are_made_of_csv() {
    let (server, folder) = exporting().await;
    let mut connection = server.connect().await;
    let bucket = folder.path().join("bucket");
    fs::write(bucket.join("with.csv"), "pk,n,v\na,1,\"x,y\"\nb,two,z\nc,3\nd,4,\n").expect("a file");
    let mut request = json!({
        "S3BucketSource": {"S3Bucket": "bucket", "S3KeyPrefix": "with"},
        "InputFormat": "CSV",
        "TableCreationParameters": parameters("with"),
    });
    let imported = import(&mut connection, &request).await;
    assert_eq!(imported["ImportStatus"], "COMPLETED", "{imported}");
    assert_eq!([&imported["ImportedItemCount"], &imported["ErrorCount"]], [2, 2]);
    let found = connection.ok("Scan", json!({"TableName": "with"})).await;
    let items = found["Items"].as_array().expect("items");
    assert!(items.contains(&json!({"pk": {"S": "a"}, "n": {"N": "1"}, "v": {"S": "x,y"}})));
    assert!(items.contains(&json!({"pk": {"S": "d"}, "n": {"N": "4"}, "v": {"S": ""}})));

    fs::write(bucket.join("without.csv"), "a;1;x\n").expect("a file");
    request["S3BucketSource"]["S3KeyPrefix"] = "without".into();
    request["InputFormatOptions"] = json!({"Csv": {"Delimiter": ";", "HeaderList": ["pk", "n", "v"]}});
    request["TableCreationParameters"] = parameters("without");
    let imported = import(&mut connection, &request).await;
    assert_eq!(imported["InputFormatOptions"], request["InputFormatOptions"]);
    let found = connection.ok("Scan", json!({"TableName": "without"})).await;
    assert_eq!(found["Items"], json!([{"pk": {"S": "a"}, "n": {"N": "1"}, "v": {"S": "x"}}]));
}

#[tokio::test]
async fn what_is_not_in_the_bucket_fails_and_what_is_damaged_is_counted() {
    let (server, folder) = exporting().await;
    let mut connection = server.connect().await;
    create(&mut connection).await;
    let request = json!({"TableArn": TABLE, "S3Bucket": "nowhere"});
    let begun = connection.ok("ExportTableToPointInTime", request).await["ExportDescription"].clone();
    advance(&mut connection, 1).await;
    let failed = connection.ok("DescribeExport", json!({"ExportArn": begun["ExportArn"]})).await;
    assert_eq!(failed["ExportDescription"]["ExportStatus"], "FAILED");
    assert_eq!(failed["ExportDescription"]["FailureCode"], "S3NoSuchBucket");
    let escaped = export(&mut connection, json!({"S3Prefix": "../../out"})).await;
    assert_eq!(escaped["FailureCode"], "S3InvalidPrefix", "{escaped}");
    assert!(!folder.path().join("out").exists());

    let bucket = folder.path().join("bucket");
    fs::write(bucket.join("one.json"), "{\"Item\":{\"pk\":{\"S\":\"a\"},\"n\":{\"N\":\"1\"}}}\nnot JSON\n")
        .expect("a file");
    fs::write(bucket.join("two.json"), [0x1f, 0x8b, 0, 0]).expect("a file");
    let mut request = json!({
        "S3BucketSource": {"S3Bucket": "bucket"},
        "InputFormat": "DYNAMODB_JSON",
        "TableCreationParameters": parameters("some"),
    });
    let imported = import(&mut connection, &request).await;
    assert_eq!(imported["ImportStatus"], "COMPLETED", "{imported}");
    assert_eq!([&imported["ImportedItemCount"], &imported["ErrorCount"]], [1, 2]);
    for (bucket, prefix, code) in [("bucket", "none", "S3NoSuchKey"), ("nowhere", "", "S3NoSuchBucket")] {
        request["S3BucketSource"] = json!({"S3Bucket": bucket, "S3KeyPrefix": prefix});
        request["TableCreationParameters"] = parameters(&format!("from.{bucket}"));
        let imported = import(&mut connection, &request).await;
        assert_eq!((&imported["ImportStatus"], &imported["FailureCode"]), (&json!("FAILED"), &json!(code)));
    }
}

#[tokio::test]
async fn exports_are_listed_in_pages() {
    let (server, _folder) = exporting().await;
    let mut connection = server.connect().await;
    create(&mut connection).await;
    let mut made = Vec::new();
    for _ in 0..3 {
        made.push(export(&mut connection, json!({})).await["ExportArn"].clone());
    }
    let mut request = json!({"TableArn": TABLE, "MaxResults": 2});
    let first = connection.ok("ListExports", request.clone()).await;
    request["NextToken"] = first["NextToken"].clone();
    let second = connection.ok("ListExports", request).await;
    assert_eq!(second.get("NextToken"), None);
    let all = [&first["ExportSummaries"], &second["ExportSummaries"]];
    let all = all.into_iter().flat_map(|page| page.as_array().expect("a list"));
    assert_eq!(all.map(|summary| summary["ExportArn"].clone()).collect::<Vec<_>>(), made);
}

#[tokio::test]
async fn without_a_place_for_them_there_are_none() {
    let server = Running::memory().await;
    let mut connection = server.connect().await;
    create(&mut connection).await;
    let refused = |answer: Answer| {
        assert_eq!(
            (answer.status, answer.error().as_str()),
            (StatusCode::BAD_REQUEST, "ValidationException")
        );
        assert!(answer.json()["message"].as_str().is_some_and(|message| message.contains("--exports")));
    };
    let request = json!({"TableArn": TABLE, "S3Bucket": "bucket"});
    refused(connection.post("ExportTableToPointInTime", &[], request.to_string()).await);
    let request = json!({
        "S3BucketSource": {"S3Bucket": "bucket"},
        "InputFormat": "DYNAMODB_JSON",
        "TableCreationParameters": parameters("new"),
    });
    refused(connection.post("ImportTable", &[], request.to_string()).await);
    assert_eq!(connection.ok("ListExports", json!({})).await, json!({"ExportSummaries": []}));
}
