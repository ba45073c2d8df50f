//! ListStreams, DescribeStream, GetShardIterator and GetRecords.

use larder_conformance::{Endpoint, Table, conform, keys};
use serde_json::{Value, json};

const ABSENT_SHARD: &str = "shardId-00000000000000000000-00000000";

fn streamed<'a>(db: &'a Endpoint, view: &str) -> Table<'a> {
    db.table(keys("pk:S").with("StreamSpecification", json!({"StreamEnabled": true, "StreamViewType": view})))
}

fn arn(table: &Table<'_>) -> Value {
    table.describe()["LatestStreamArn"].clone()
}

#[track_caller]
fn describe(db: &Endpoint, arn: &Value) -> Value {
    db.ok("DescribeStream", json!({"StreamArn": arn}))["StreamDescription"].clone()
}

#[track_caller]
fn iterator(db: &Endpoint, arn: &Value, kind: &str, number: Option<&Value>) -> Value {
    let shard = &describe(db, arn)["Shards"][0]["ShardId"];
    let mut request = json!({"StreamArn": arn, "ShardId": shard, "ShardIteratorType": kind});
    if let Some(number) = number {
        request["SequenceNumber"] = number.clone();
    }
    db.ok("GetShardIterator", request)["ShardIterator"].clone()
}

/// One page: the records, and the iterator after them.
#[track_caller]
fn page(db: &Endpoint, iterator: &Value) -> (Vec<Value>, Value) {
    let answer = db.ok("GetRecords", json!({"ShardIterator": iterator}));
    let records = answer["Records"].as_array().expect("records are a list").clone();
    (records, answer["NextShardIterator"].clone())
}

#[track_caller]
fn records(db: &Endpoint, arn: &Value, kind: &str, number: Option<&Value>) -> Vec<Value> {
    page(db, &iterator(db, arn, kind, number)).0
}

fn put_all(table: &Table<'_>, names: &[&str]) {
    names.iter().for_each(|name| table.put(json!({"pk": {"S": name}})));
}

fn names(records: &[Value]) -> Vec<&str> {
    records.iter().filter_map(|record| record["dynamodb"]["Keys"]["pk"]["S"].as_str()).collect()
}

fn switch(table: &Table<'_>, view: Option<&str>) {
    let mut specification = json!({"StreamEnabled": view.is_some()});
    if let Some(view) = view {
        specification["StreamViewType"] = view.into();
    }
    table.ok("UpdateTable", json!({"StreamSpecification": specification}));
    table.wait_until_active();
}

#[test]
fn a_tables_stream_is_listed_and_described() {
    conform(|db| {
        let table = streamed(db, "KEYS_ONLY");
        let (arn, label) = (arn(&table), table.describe()["LatestStreamLabel"].clone());
        let stream = json!({"StreamArn": arn, "TableName": table.name(), "StreamLabel": label});
        let listed = db.ok("ListStreams", json!({"TableName": table.name()}));
        assert_eq!(listed, json!({"Streams": [stream]}));
        let described = describe(db, &arn);
        for (member, expected) in [
            ("StreamArn", arn.clone()),
            ("StreamLabel", label),
            ("TableName", json!(table.name())),
            ("StreamStatus", json!("ENABLED")),
            ("StreamViewType", json!("KEYS_ONLY")),
            ("KeySchema", json!([{"AttributeName": "pk", "KeyType": "HASH"}])),
        ] {
            assert_eq!(described[member], expected, "{member}");
        }
        assert!(described["CreationRequestDateTime"].is_number());
        let shard = &described["Shards"][0];
        assert!((28..=65).contains(&shard["ShardId"].as_str().map_or(0, str::len)));
        assert!(
            shard["SequenceNumberRange"]["StartingSequenceNumber"].as_str().is_some_and(|n| n.len() >= 21)
        );
        assert!(shard["SequenceNumberRange"].get("EndingSequenceNumber").is_none());
    });
}

#[test]
fn each_view_shows_its_part_of_a_change() {
    let (old, new) =
        (json!({"pk": {"S": "a"}, "v": {"N": "1"}}), json!({"pk": {"S": "a"}, "v": {"N": "-2.5"}}));
    for (view, shows_new, shows_old) in [
        ("KEYS_ONLY", false, false),
        ("NEW_IMAGE", true, false),
        ("OLD_IMAGE", false, true),
        ("NEW_AND_OLD_IMAGES", true, true),
    ] {
        conform(|db| {
            let table = streamed(db, view);
            table.put(old.clone());
            table.put(new.clone());
            table.ok("DeleteItem", json!({"Key": {"pk": {"S": "a"}}}));
            let records = records(db, &arn(&table), "TRIM_HORIZON", None);
            let image = |shown: bool, item: &Value| if shown { item.clone() } else { Value::Null };
            let expected = [
                ("INSERT", image(shows_new, &old), Value::Null),
                ("MODIFY", image(shows_new, &new), image(shows_old, &old)),
                ("REMOVE", Value::Null, image(shows_old, &new)),
            ];
            assert_eq!(records.len(), expected.len(), "{view}: {records:?}");
            for (record, (event, new, old)) in records.iter().zip(expected) {
                assert_eq!(record["eventName"], event);
                assert_eq!((&record["dynamodb"]["NewImage"], &record["dynamodb"]["OldImage"]), (&new, &old));
                assert_eq!(record["dynamodb"]["StreamViewType"], view);
                assert_eq!(record["dynamodb"]["Keys"], json!({"pk": {"S": "a"}}));
            }
        });
    }
}

#[test]
fn a_record_says_what_it_is() {
    conform(|db| {
        let table = streamed(db, "NEW_AND_OLD_IMAGES");
        table.put(json!({"pk": {"S": "a"}, "n": {"N": "1"}, "t": {"S": "xyz"}}));
        let record = &records(db, &arn(&table), "TRIM_HORIZON", None)[0];
        assert_eq!(
            (&record["eventVersion"], &record["eventSource"]),
            (&json!("1.1"), &json!("aws:dynamodb"))
        );
        assert!(record["eventID"].as_str().is_some_and(|id| id.len() >= 32));
        assert!(record["awsRegion"].is_string());
        assert!(record.get("userIdentity").is_none());
        let change = &record["dynamodb"];
        assert_eq!(change["SizeBytes"], 13);
        let number = change["SequenceNumber"].as_str().unwrap_or_default();
        assert!((21..=40).contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_digit()));
        let seconds = change["ApproximateCreationDateTime"].as_f64().unwrap_or(0.5);
        assert!(seconds.fract() == 0.0 && seconds > 1e9);
    });
}

#[test]
fn what_changes_nothing_has_no_record() {
    conform(|db| {
        let table = streamed(db, "NEW_AND_OLD_IMAGES");
        put_all(&table, &["a", "a"]);
        table.ok("DeleteItem", json!({"Key": {"pk": {"S": "absent"}}}));
        assert_eq!(names(&records(db, &arn(&table), "TRIM_HORIZON", None)), ["a"]);
    });
}

#[test]
fn an_iterator_begins_where_it_was_told() {
    conform(|db| {
        let table = streamed(db, "KEYS_ONLY");
        let arn = arn(&table);
        put_all(&table, &["a", "b", "c"]);
        let latest = iterator(db, &arn, "LATEST", None);
        let all = records(db, &arn, "TRIM_HORIZON", None);
        put_all(&table, &["d"]);
        let second = &all[1]["dynamodb"]["SequenceNumber"];
        assert_eq!(names(&records(db, &arn, "TRIM_HORIZON", None)), ["a", "b", "c", "d"]);
        assert_eq!(names(&records(db, &arn, "AT_SEQUENCE_NUMBER", Some(second))), ["b", "c", "d"]);
        assert_eq!(names(&records(db, &arn, "AFTER_SEQUENCE_NUMBER", Some(second))), ["c", "d"]);
        assert_eq!(names(&page(db, &latest).0), ["d"]);
    });
}

#[test]
fn the_shards_first_number_is_a_place_to_begin_at() {
    conform(|db| {
        let table = streamed(db, "KEYS_ONLY");
        let arn = arn(&table);
        put_all(&table, &["a", "b"]);
        let first = describe(db, &arn)["Shards"][0]["SequenceNumberRange"]["StartingSequenceNumber"].clone();
        assert_eq!(names(&records(db, &arn, "AT_SEQUENCE_NUMBER", Some(&first))), ["a", "b"]);
    });
}

#[test]
fn pages_follow_each_other_without_gap_or_repetition() {
    conform(|db| {
        let table = streamed(db, "KEYS_ONLY");
        let arn = arn(&table);
        let written = ["a", "b", "c", "d", "e"];
        put_all(&table, &written[..4]);
        let mut next = iterator(db, &arn, "TRIM_HORIZON", None);
        let mut read: Vec<String> = vec![];
        for at in 0..6 {
            if at == 3 {
                put_all(&table, &written[4..]);
            }
            let answer = db.ok("GetRecords", json!({"ShardIterator": next, "Limit": 2}));
            let records = answer["Records"].as_array().cloned().unwrap_or_default();
            assert!(records.len() <= 2);
            read.extend(names(&records).into_iter().map(str::to_owned));
            next = answer["NextShardIterator"].clone();
        }
        assert_eq!(read, written);
    });
}

#[test]
fn an_iterator_can_be_used_again() {
    conform(|db| {
        let table = streamed(db, "KEYS_ONLY");
        put_all(&table, &["a", "b"]);
        let iterator = iterator(db, &arn(&table), "TRIM_HORIZON", None);
        assert_eq!(page(db, &iterator).0, page(db, &iterator).0);
    });
}

#[test]
fn a_stream_that_is_switched_off_is_read_to_its_end() {
    conform(|db| {
        let table = streamed(db, "KEYS_ONLY");
        let first = arn(&table);
        put_all(&table, &["a", "b"]);
        let (_, next) = page(db, &iterator(db, &first, "TRIM_HORIZON", None));
        switch(&table, None);
        put_all(&table, &["c"]);
        switch(&table, Some("NEW_IMAGE"));
        put_all(&table, &["d"]);

        let described = describe(db, &first);
        assert_eq!(described["StreamStatus"], "DISABLED");
        let (records, end) = page(db, &iterator(db, &first, "TRIM_HORIZON", None));
        assert_eq!((names(&records), end), (vec!["a", "b"], Value::Null));
        assert_eq!(page(db, &next), (vec![], Value::Null));
        let last = &described["Shards"][0]["SequenceNumberRange"]["EndingSequenceNumber"];
        assert_eq!(*last, records[1]["dynamodb"]["SequenceNumber"]);

        let second = arn(&table);
        assert_ne!(first, second);
        assert_eq!(describe(db, &second)["StreamViewType"], "NEW_IMAGE");
        let listed = db.ok("ListStreams", json!({"TableName": table.name()}));
        assert_eq!(listed["Streams"].as_array().map(Vec::len), Some(2));
    });
}

#[test]
fn a_stream_outlives_its_table() {
    conform(|db| {
        let table = streamed(db, "KEYS_ONLY");
        let (name, arn) = (table.name().to_owned(), arn(&table));
        put_all(&table, &["a"]);
        drop(table);
        assert_eq!(describe(db, &arn)["StreamStatus"], "DISABLED");
        let (records, end) = page(db, &iterator(db, &arn, "TRIM_HORIZON", None));
        assert_eq!((names(&records), end), (vec!["a"], Value::Null));
        let listed = db.ok("ListStreams", json!({"TableName": name}));
        assert_eq!(listed["Streams"][0]["StreamArn"], arn);
    });
}

#[test]
fn streams_are_listed_in_pages() {
    conform(|db| {
        let table = streamed(db, "KEYS_ONLY");
        switch(&table, None);
        switch(&table, Some("KEYS_ONLY"));
        let mut request = json!({"TableName": table.name(), "Limit": 1});
        let first = db.ok("ListStreams", request.clone());
        assert_eq!(first["LastEvaluatedStreamArn"], first["Streams"][0]["StreamArn"]);
        request["ExclusiveStartStreamArn"] = first["LastEvaluatedStreamArn"].clone();
        let second = db.ok("ListStreams", request.clone());
        assert_eq!(second["Streams"].as_array().map(Vec::len), Some(1));
        assert_ne!(first["Streams"], second["Streams"]);
    });
}

#[test]
fn a_table_without_a_stream_has_none_to_list() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        for name in [table.name(), "no.such.table"] {
            assert_eq!(db.ok("ListStreams", json!({"TableName": name})), json!({"Streams": []}));
        }
    });
}

#[test]
fn a_start_after_the_last_shard_shows_none() {
    conform(|db| {
        let table = streamed(db, "KEYS_ONLY");
        let arn = arn(&table);
        let shard = describe(db, &arn)["Shards"][0]["ShardId"].clone();
        let request = json!({"StreamArn": arn, "ExclusiveStartShardId": shard});
        assert_eq!(db.ok("DescribeStream", request)["StreamDescription"]["Shards"], json!([]));
    });
}

#[test]
fn the_records_of_a_transaction_follow_each_other() {
    conform(|db| {
        let table = streamed(db, "KEYS_ONLY");
        let put = |pk: &str| json!({"Put": {"TableName": table.name(), "Item": {"pk": {"S": pk}}}});
        db.ok("TransactWriteItems", json!({"TransactItems": [put("b"), put("a")]}));
        assert_eq!(names(&records(db, &arn(&table), "TRIM_HORIZON", None)).len(), 2);
    });
}

#[test]
fn an_unknown_stream_or_shard_is_not_found() {
    conform(|db| {
        let table = streamed(db, "KEYS_ONLY");
        let known = arn(&table);
        let unknown = known.as_str().unwrap_or_default().replace(table.name(), "no.such.table");
        db.call("DescribeStream", json!({"StreamArn": unknown})).error(
            "ResourceNotFoundException",
            &format!("Requested resource not found: Stream: {unknown} not found"),
        );
        for (arn, shard) in [(json!(unknown), ABSENT_SHARD), (known, ABSENT_SHARD)] {
            db.call(
                "GetShardIterator",
                json!({"StreamArn": arn, "ShardId": shard, "ShardIteratorType": "LATEST"}),
            )
            .error("ResourceNotFoundException", "…");
        }
    });
}

#[test]
fn a_limit_is_at_least_one() {
    conform(|db| {
        let table = streamed(db, "KEYS_ONLY");
        let arn = arn(&table);
        let least = "1 validation error detected: Value '0' at 'limit' failed to satisfy constraint: Member must have value greater than or equal to 1";
        db.invalid("ListStreams", json!({"Limit": 0}), least);
        db.invalid("DescribeStream", json!({"StreamArn": arn, "Limit": 0}), least);
        let iterator = iterator(db, &arn, "LATEST", None);
        db.invalid("GetRecords", json!({"ShardIterator": iterator, "Limit": 0}), least);
    });
}

#[test]
fn a_limit_is_bounded() {
    conform(|db| {
        let table = streamed(db, "KEYS_ONLY");
        let arn = arn(&table);
        let iterator = iterator(db, &arn, "LATEST", None);
        for (operation, body) in [
            ("ListStreams", json!({"Limit": 101})),
            ("DescribeStream", json!({"StreamArn": arn, "Limit": 101})),
            ("GetRecords", json!({"ShardIterator": iterator, "Limit": 1001})),
        ] {
            db.invalid(operation, body, "…");
        }
    });
}

#[test]
fn an_iterator_of_no_ones_making_is_invalid() {
    conform(|db| {
        let table = streamed(db, "KEYS_ONLY");
        let iterator = iterator(db, &arn(&table), "LATEST", None);
        let longer = format!("{}x", iterator.as_str().unwrap_or_default());
        for bad in ["x", "a|1|b", &longer] {
            db.invalid("GetRecords", json!({"ShardIterator": bad}), "Invalid ShardIterator");
        }
    });
}

#[test]
fn a_sequence_number_belongs_to_two_kinds_of_iterator() {
    conform(|db| {
        let table = streamed(db, "KEYS_ONLY");
        let arn = arn(&table);
        let shard = describe(db, &arn)["Shards"][0]["ShardId"].clone();
        let number = "000000000000000000001";
        for kind in ["TRIM_HORIZON", "LATEST"] {
            db.invalid(
                "GetShardIterator",
                json!({"StreamArn": arn, "ShardId": shard, "ShardIteratorType": kind, "SequenceNumber": number}),
                "One or more parameter values were invalid: SequenceNumber should not be passed for this iterator type",
            );
        }
        for kind in ["AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER"] {
            let request = json!({"StreamArn": arn, "ShardId": shard, "ShardIteratorType": kind});
            db.invalid(
                "GetShardIterator",
                request.clone(),
                "One or more parameter values were invalid: Invalid SequenceNumber",
            );
            let mut short = request;
            short["SequenceNumber"] = json!("1");
            db.invalid(
                "GetShardIterator",
                short,
                "1 validation error detected: Value '1' at 'sequenceNumber' failed to satisfy constraint: Member must have length greater than or equal to 21",
            );
        }
    });
}

#[test]
fn what_is_missing_or_too_short_is_named() {
    conform(|db| {
        db.invalid(
            "DescribeStream",
            json!({}),
            "1 validation error detected: Value null at 'streamArn' failed to satisfy constraint: Member must not be null",
        );
        db.invalid(
            "DescribeStream",
            json!({"StreamArn": "x"}),
            "1 validation error detected: Value 'x' at 'streamArn' failed to satisfy constraint: Member must have length greater than or equal to 37",
        );
        db.invalid("GetShardIterator", json!({}), "3 validation errors detected: …");
        db.invalid(
            "GetRecords",
            json!({}),
            "1 validation error detected: Value null at 'shardIterator' failed to satisfy constraint: Member must not be null",
        );
    });
}

#[test]
fn a_filter_of_shards_has_a_type_and_a_shard() {
    conform(|db| {
        let table = db.table(
            keys("pk:S")
                .with("StreamSpecification", json!({"StreamEnabled": true, "StreamViewType": "KEYS_ONLY"})),
        );
        let arn = table.describe()["LatestStreamArn"].clone();
        let shard =
            db.ok("DescribeStream", json!({"StreamArn": arn}))["StreamDescription"]["Shards"][0]["ShardId"]
                .clone();
        let null = |member: &str| {
            format!(
                "1 validation error detected: Value null at 'shardFilter.{member}' failed to satisfy constraint: Member must not be null"
            )
        };
        db.invalid(
            "DescribeStream",
            json!({"StreamArn": arn, "ShardFilter": {"ShardId": shard}}),
            &null("type"),
        );
        db.invalid(
            "DescribeStream",
            json!({"StreamArn": arn, "ShardFilter": {"Type": "CHILD_SHARDS"}}),
            &null("shardId"),
        );
        let filter = json!({"Type": "CHILD_SHARDS", "ShardId": shard});
        db.ok("DescribeStream", json!({"StreamArn": arn, "ShardFilter": filter}));
    });
}
