//! ListStreams, DescribeStream, GetShardIterator and GetRecords: a service of its own, at the same address.
//!
//! A shard iterator is text that holds all there is to know of it, so that the server need not remember any:
//!
//! ```text
//! arn of the stream|1|table:u32 issued:i64 kind:u8 number:u64 [opened:u64 place:u16], in hexadecimal
//! ```

use larder_engine::ops::{
    DescribeStream, Event, GetRecords, GetRecordsOutput, GetShardIterator, ListStreams, ListStreamsOutput,
    Request, Shard, ShardIterator, ShardKey, ShardPosition, ShardStart, StreamDescription, StreamId,
    StreamRecord,
};
use larder_model::{Arn, TableName, UnixTime};

use super::table_description::{put_key_schema, put_time, stream_view};
use crate::constraints::Constraints;
use crate::json::{Object, Reader, list, object};
use crate::members::{Text, request};
use crate::refusal::{Read, Refusal};
use crate::shape;

const ARN_LENGTH: [usize; 2] = [37, 1024];
const SHARD_LENGTH: [usize; 2] = [28, 65];
const NUMBER_LENGTH: [usize; 2] = [21, 40];
const ITERATOR_LENGTH: [usize; 2] = [1, 2048];
const STARTS: [&str; 5] =
    ["AFTER_SEQUENCE_NUMBER", "LATEST", "AT_SEQUENCE_NUMBER", "TRIM_HORIZON", "AT_TIMESTAMP"];
const SHARDS_MAX: i64 = 100;
const STREAMS_MAX: i64 = 100;
const RECORDS_MAX: i64 = larder_model::limits::STREAM_PAGE_RECORDS_MAX as i64;

pub(super) fn decode_list(reader: &mut Reader<'_>) -> Read<Request> {
    let (mut table, mut start, mut limit) = (None, None, None);
    request(reader, |reader, name| {
        match &*name {
            "TableName" => table = shape::owned_text(reader)?,
            "ExclusiveStartStreamArn" => start = shape::text(reader)?,
            "Limit" => limit = shape::integer(reader)?,
            _ => drop(reader.skip()?),
        }
        Ok(())
    })?;
    let mut constraints = Constraints::default();
    if let Some(table) = &table {
        constraints.name(table, "tableName");
    }
    check_limit(&mut constraints, limit, STREAMS_MAX);
    check_length(&mut constraints, &start, "exclusiveStartStreamArn", ARN_LENGTH);
    constraints.finish()?;
    Ok(Request::ListStreams(ListStreams {
        table: table.and_then(|table| TableName::new(table).ok()),
        start: start.map(|arn| stream(&arn)).transpose()?,
        limit: count(limit),
    }))
}

pub(super) fn decode_describe(reader: &mut Reader<'_>) -> Read<Request> {
    let (mut arn, mut start, mut limit, mut filter) = (None, None, None, None);
    let (mut children_of, mut is_filtered) = (None, false);
    request(reader, |reader, name| {
        match &*name {
            "StreamArn" => arn = shape::text(reader)?,
            "ExclusiveStartShardId" => start = shape::text(reader)?,
            "Limit" => limit = shape::integer(reader)?,
            "ShardFilter" => {
                is_filtered = shape::structure(reader, "ShardFilter", |reader, name| {
                    match &*name {
                        "Type" => filter = shape::text(reader)?,
                        "ShardId" => children_of = shape::text(reader)?,
                        _ => drop(reader.skip()?),
                    }
                    Ok(())
                })?;
            }
            _ => drop(reader.skip()?),
        }
        Ok(())
    })?;
    let mut constraints = Constraints::default();
    constraints.present(&arn, "streamArn");
    check_length(&mut constraints, &arn, "streamArn", ARN_LENGTH);
    check_limit(&mut constraints, limit, SHARDS_MAX);
    check_length(&mut constraints, &start, "exclusiveStartShardId", SHARD_LENGTH);
    if is_filtered {
        constraints.present(&filter, "shardFilter.type");
        constraints.present(&children_of, "shardFilter.shardId");
    }
    constraints.one_of(filter.as_deref(), "shardFilter.type", &["CHILD_SHARDS"]);
    check_length(&mut constraints, &children_of, "shardFilter.shardId", SHARD_LENGTH);
    constraints.finish()?;
    Ok(Request::DescribeStream(DescribeStream {
        stream: stream(&arn.unwrap_or_default())?,
        start: start.map(Into::into),
        children_of: children_of.map(Into::into),
        limit: count(limit),
    }))
}

pub(super) fn decode_iterator(reader: &mut Reader<'_>) -> Read<Request> {
    let (mut arn, mut shard, mut start, mut number, mut time) = (None, None, None, None, None);
    request(reader, |reader, name| {
        match &*name {
            "StreamArn" => arn = shape::text(reader)?,
            "ShardId" => shard = shape::text(reader)?,
            "ShardIteratorType" => start = shape::text(reader)?,
            "SequenceNumber" => number = shape::text(reader)?,
            "Timestamp" => time = shape::timestamp(reader)?,
            _ => drop(reader.skip()?),
        }
        Ok(())
    })?;
    let mut constraints = Constraints::default();
    constraints.present(&arn, "streamArn");
    check_length(&mut constraints, &arn, "streamArn", ARN_LENGTH);
    constraints.present(&shard, "shardId");
    check_length(&mut constraints, &shard, "shardId", SHARD_LENGTH);
    constraints.present(&start, "shardIteratorType");
    constraints.one_of(start.as_deref(), "shardIteratorType", &STARTS);
    check_length(&mut constraints, &number, "sequenceNumber", NUMBER_LENGTH);
    constraints.finish()?;
    if time.is_some() && start.as_deref() != Some("AT_TIMESTAMP") {
        return Err(invalid("Timestamp should not be passed for this iterator type"));
    }
    let start = match (start.as_deref(), number) {
        (Some("AT_SEQUENCE_NUMBER"), number) => ShardStart::At(sequence_number(number)?),
        (Some("AFTER_SEQUENCE_NUMBER"), number) => ShardStart::After(sequence_number(number)?),
        (_, Some(_)) => return Err(invalid("SequenceNumber should not be passed for this iterator type")),
        (Some("AT_TIMESTAMP"), None) => ShardStart::AtTime(time.ok_or_else(|| invalid("Invalid Timestamp"))?),
        (Some("LATEST"), None) => ShardStart::Latest,
        (_, None) => ShardStart::TrimHorizon,
    };
    Ok(Request::GetShardIterator(GetShardIterator {
        stream: stream(&arn.unwrap_or_default())?,
        shard: shard.unwrap_or_default().into(),
        start,
    }))
}

pub(super) fn decode_records(reader: &mut Reader<'_>) -> Read<Request> {
    let (mut iterator, mut limit) = (None, None);
    request(reader, |reader, name| {
        match &*name {
            "ShardIterator" => iterator = shape::text(reader)?,
            "Limit" => limit = shape::integer(reader)?,
            _ => drop(reader.skip()?),
        }
        Ok(())
    })?;
    let mut constraints = Constraints::default();
    constraints.present(&iterator, "shardIterator");
    check_length(&mut constraints, &iterator, "shardIterator", ITERATOR_LENGTH);
    check_limit(&mut constraints, limit, RECORDS_MAX);
    constraints.finish()?;
    let iterator = iterator.as_deref().and_then(read_iterator);
    let iterator = iterator.ok_or_else(|| Refusal::plain("Invalid ShardIterator"))?;
    Ok(Request::GetRecords(GetRecords { iterator, limit: count(limit) }))
}

fn check_limit(constraints: &mut Constraints, limit: Option<shape::Integer>, most: i64) {
    if let Some(limit) = limit {
        constraints.at_least(limit.value, 1, "limit");
        constraints.at_most(limit.value, most, "limit");
    }
}

pub(super) fn check_length(
    constraints: &mut Constraints,
    text: &Text<'_>,
    path: &str,
    [least, most]: [usize; 2],
) {
    let Some(text) = text else { return };
    let length = text.chars().count();
    if length < least {
        let rule = format!("Member must have length greater than or equal to {least}");
        constraints.broken(text, path, &rule);
    }
    if length > most {
        constraints.broken(text, path, &format!("Member must have length less than or equal to {most}"));
    }
}

fn count(limit: Option<shape::Integer>) -> Option<usize> {
    limit.and_then(|limit| usize::try_from(limit.value).ok())
}

fn invalid(cause: &str) -> Refusal {
    Refusal::Plain(format!("One or more parameter values were invalid: {cause}"))
}

fn stream(arn: &str) -> Read<StreamId> {
    let (table, label) =
        Arn::stream_said(arn).ok_or_else(|| Refusal::Plain(format!("Invalid StreamArn: {arn}")))?;
    Ok(StreamId { table, label })
}

/// A number that no record can have is read as the highest, which none has.
fn sequence_number(text: Text<'_>) -> Read<u64> {
    let digits = text.filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let digits = digits.ok_or_else(|| invalid("Invalid SequenceNumber"))?;
    Ok(digits.parse().unwrap_or(u64::MAX))
}

fn put_sequence_number(answer: &mut Object<'_>, name: &str, number: u64) {
    answer.string(name, &format!("{number:021}"));
}

pub(super) fn encode_list(out: &mut Vec<u8>, output: &ListStreamsOutput) {
    object(out, |answer| {
        list(answer.member("Streams"), &output.streams, |out, stream| {
            object(out, |answer| put_stream(answer, stream));
        });
        if let Some(last) = &output.last {
            answer.string("LastEvaluatedStreamArn", &arn(last));
        }
    });
}

fn put_stream(answer: &mut Object<'_>, stream: &StreamId) {
    answer.string("StreamArn", &arn(stream));
    answer.string("TableName", stream.table.as_str());
    answer.string("StreamLabel", &stream.label.to_label());
}

fn arn(stream: &StreamId) -> String {
    Arn::stream(&stream.table, stream.label).to_string()
}

pub(super) fn encode_describe(out: &mut Vec<u8>, output: &StreamDescription) {
    object(out, |answer| {
        answer.object("StreamDescription", |answer| {
            put_stream(answer, &output.stream);
            answer.string("StreamStatus", if output.enabled { "ENABLED" } else { "DISABLED" });
            answer.string("StreamViewType", stream_view(output.view));
            put_time(answer, "CreationRequestDateTime", Some(output.stream.label));
            put_key_schema(answer, &output.key);
            list(answer.member("Shards"), &output.shards, put_shard);
            if let Some(last) = &output.last {
                answer.string("LastEvaluatedShardId", last);
            }
        });
    });
}

fn put_shard(out: &mut Vec<u8>, shard: &Shard) {
    object(out, |answer| {
        answer.string("ShardId", &shard.id);
        answer.object("SequenceNumberRange", |answer| {
            put_sequence_number(answer, "StartingSequenceNumber", shard.first);
            if let Some(last) = shard.last {
                put_sequence_number(answer, "EndingSequenceNumber", last);
            }
        });
        if let Some(parent) = &shard.parent {
            answer.string("ParentShardId", parent);
        }
    });
}

pub(super) fn encode_iterator(out: &mut Vec<u8>, iterator: &ShardIterator) {
    object(out, |answer| answer.string("ShardIterator", &iterator_text(iterator)));
}

pub(super) fn encode_records(out: &mut Vec<u8>, output: &GetRecordsOutput) {
    object(out, |answer| {
        let region = output.table.region();
        list(answer.member("Records"), &output.records, |out, record| put_record(out, record, region));
        if let Some(next) = &output.next {
            answer.string("NextShardIterator", &iterator_text(next));
        }
    });
}

fn put_record(out: &mut Vec<u8>, record: &StreamRecord, region: &str) {
    object(out, |answer| {
        let id: String = record.id.iter().map(|byte| format!("{byte:02x}")).collect();
        answer.string("eventID", &id);
        answer.string(
            "eventName",
            match record.event {
                Event::Insert => "INSERT",
                Event::Modify => "MODIFY",
                Event::Remove => "REMOVE",
            },
        );
        answer.string("eventVersion", "1.1");
        answer.string("eventSource", "aws:dynamodb");
        answer.string("awsRegion", region);
        answer.object("dynamodb", |answer| {
            answer.integer("ApproximateCreationDateTime", record.time.seconds());
            crate::value::put_item(answer.member("Keys"), &record.key);
            if let Some(new) = &record.new {
                crate::value::put_item(answer.member("NewImage"), new);
            }
            if let Some(old) = &record.old {
                crate::value::put_item(answer.member("OldImage"), old);
            }
            put_sequence_number(answer, "SequenceNumber", record.number);
            answer.integer("SizeBytes", i64::try_from(record.bytes).unwrap_or(i64::MAX));
            answer.string("StreamViewType", stream_view(record.view));
        });
        if record.expired {
            answer.object("userIdentity", |answer| {
                answer.string("PrincipalId", "dynamodb.amazonaws.com");
                answer.string("Type", "Service");
            });
        }
    });
}

fn iterator_text(iterator: &ShardIterator) -> String {
    let (kind, number) = match iterator.position {
        ShardPosition::Oldest => (0, 0),
        ShardPosition::At(number) => (1, number),
        ShardPosition::From(number) => (2, number),
    };
    let (table, issued) = (iterator.table_id, iterator.issued.millis());
    let shard = match iterator.shard {
        // Most streams have no other.
        ShardKey { opened: 0, .. } => String::new(),
        ShardKey { opened, place } => format!("{opened:016x}{place:04x}"),
    };
    format!("{}|1|{table:08x}{issued:016x}{kind:02x}{number:016x}{shard}", arn(&iterator.stream))
}

fn read_iterator(text: &str) -> Option<ShardIterator> {
    let (arn, hex) = text.split_once("|1|")?;
    let (table, label) = Arn::stream_said(arn)?;
    if !matches!(hex.len(), 42 | 62) || !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let part = |from: usize, to: usize| u64::from_str_radix(hex.get(from..to)?, 16).ok();
    let position = match (part(24, 26)?, part(26, 42)?) {
        (0, 0) => ShardPosition::Oldest,
        (1, number) => ShardPosition::At(number),
        (2, number) => ShardPosition::From(number),
        _ => return None,
    };
    let shard = match hex.len() {
        42 => ShardKey::default(),
        _ => ShardKey { opened: part(42, 58)?, place: u16::try_from(part(58, 62)?).ok()? },
    };
    Some(ShardIterator {
        stream: StreamId { table, label },
        table_id: u32::try_from(part(0, 8)?).ok()?,
        shard,
        position,
        issued: UnixTime::from_millis(part(8, 24)?.cast_signed()),
    })
}

#[cfg(test)]
mod tests {
    use larder_model::{ApiError, AttributeValue, Item, StreamView};
    use proptest::prelude::*;

    use super::*;

    fn id() -> StreamId {
        StreamId { table: TableName::new("lunch").unwrap(), label: UnixTime::from_millis(1_700_000_000_123) }
    }

    proptest! {
        #[test]
        fn an_iterator_is_read_as_it_was_written(
            table_id: u32,
            issued: i64,
            number: u64,
            kind in 0..3,
            opened in prop_oneof![Just(0), any::<u64>()],
            place: u16,
        ) {
            let position = match kind {
                0 => ShardPosition::Oldest,
                1 => ShardPosition::At(number),
                _ => ShardPosition::From(number),
            };
            let issued = UnixTime::from_millis(issued);
            let shard = ShardKey { opened, place: if opened == 0 { 0 } else { place } };
            let mut iterator = ShardIterator { stream: id(), table_id, shard, position, issued };
            let text = iterator_text(&iterator);
            // It says where its table is.
            iterator.stream.table = Arn::table_said(&Arn::table(&id().table).to_string()).unwrap();
            prop_assert_eq!(read_iterator(&text), Some(iterator));
            prop_assert_eq!(read_iterator(&format!("{text}0")), None);
            prop_assert_eq!(read_iterator(&text[..text.len() - 1]), None);
        }

        #[test]
        fn no_text_breaks_the_reading_of_an_iterator(text: String) {
            prop_assert_eq!(read_iterator(&text), None);
            prop_assert_eq!(read_iterator(&format!("{}|1|{text}", arn(&id()))), None);
        }
    }

    const ARN: &str = "arn:aws:dynamodb:eu-north-1:123456789012:table/lunch/stream/2023-11-14T22:13:20.123";
    const SHARD: &str = "shardId-00000001700000000123-00000001";

    fn decode(operation: &str, body: &str) -> Result<Request, ApiError> {
        crate::decode(&format!("DynamoDBStreams_20120810.{operation}"), body.as_bytes())
    }

    fn check(operation: &str, body: &str, expected: &str) {
        match decode(operation, body) {
            Err(ApiError::Validation(message)) => assert_eq!(message, expected, "{operation} {body}"),
            other => panic!("{operation} {body}: {other:?}"),
        }
    }

    #[test]
    fn each_service_has_its_own_operations() {
        assert!(decode("ListStreams", "{}").is_ok());
        for target in ["DynamoDBStreams_20120810.ListTables", "DynamoDB_20120810.ListStreams"] {
            let error = crate::decode(target, b"{}").unwrap_err();
            assert_eq!(error, ApiError::UnknownOperation(String::new()), "{target}");
        }
    }

    #[test]
    fn a_stream_of_any_region_is_meant() {
        let body = format!(
            r#"{{"StreamArn": "{ARN}", "ShardFilter": {{"Type": "CHILD_SHARDS", "ShardId": "{SHARD}"}}}}"#
        );
        match decode("DescribeStream", &body) {
            Ok(Request::DescribeStream(describe)) => {
                assert_eq!((describe.stream, describe.children_of.as_deref()), (id(), Some(SHARD)));
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_iterator_begins_in_one_of_five_ways() {
        let number = r#", "SequenceNumber": "000000000000000000012""#;
        for (kind, number, expected) in [
            ("TRIM_HORIZON", "", ShardStart::TrimHorizon),
            ("LATEST", "", ShardStart::Latest),
            ("AT_SEQUENCE_NUMBER", number, ShardStart::At(12)),
            ("AFTER_SEQUENCE_NUMBER", number, ShardStart::After(12)),
            (
                "AT_TIMESTAMP",
                r#", "Timestamp": 1700000000.5"#,
                ShardStart::AtTime(UnixTime::from_millis(1_700_000_000_500)),
            ),
            (
                "AT_SEQUENCE_NUMBER",
                r#", "SequenceNumber": "9999999999999999999999999999999999999999""#,
                ShardStart::At(u64::MAX),
            ),
        ] {
            let body = format!(
                r#"{{"StreamArn": "{ARN}", "ShardId": "{SHARD}", "ShardIteratorType": "{kind}"{number}}}"#
            );
            match decode("GetShardIterator", &body) {
                Ok(Request::GetShardIterator(request)) => assert_eq!(request.start, expected),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn what_is_wrong_with_a_request_is_named() {
        let one = "1 validation error detected: ";
        check(
            "ListStreams",
            r#"{"TableName": "a!", "Limit": 0}"#,
            "3 validation errors detected: Value 'a!' at 'tableName' failed to satisfy constraint: Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+; Value 'a!' at 'tableName' failed to satisfy constraint: Member must have length greater than or equal to 3; Value '0' at 'limit' failed to satisfy constraint: Member must have value greater than or equal to 1",
        );
        check(
            "GetRecords",
            r#"{"ShardIterator": "a", "Limit": 1001}"#,
            &format!(
                "{one}Value '1001' at 'limit' failed to satisfy constraint: Member must have value less than or equal to 1000"
            ),
        );
        check("GetRecords", r#"{"ShardIterator": "a"}"#, "Invalid ShardIterator");
        let long = "a".repeat(40);
        check(
            "DescribeStream",
            &format!(r#"{{"StreamArn": "{long}"}}"#),
            &format!("Invalid StreamArn: {long}"),
        );
        let body = format!(r#"{{"StreamArn": "{ARN}", "ShardId": "{SHARD}", "ShardIteratorType": "NOW"}}"#);
        check(
            "GetShardIterator",
            &body,
            &format!(
                "{one}Value 'NOW' at 'shardIteratorType' failed to satisfy constraint: Member must satisfy enum value set: [AFTER_SEQUENCE_NUMBER, LATEST, AT_SEQUENCE_NUMBER, TRIM_HORIZON, AT_TIMESTAMP]"
            ),
        );
        let body = body.replace("NOW", "AT_SEQUENCE_NUMBER");
        check("GetShardIterator", &body, "One or more parameter values were invalid: Invalid SequenceNumber");
        let kind = body.replace("AT_SEQUENCE_NUMBER", "AT_TIMESTAMP");
        check("GetShardIterator", &kind, "One or more parameter values were invalid: Invalid Timestamp");
        let time = body.replace('}', r#", "Timestamp": 1}"#);
        check(
            "GetShardIterator",
            &time,
            "One or more parameter values were invalid: Timestamp should not be passed for this iterator type",
        );
        let letters = body.replace('}', r#", "SequenceNumber": "+00000000000000000001"}"#);
        check(
            "GetShardIterator",
            &letters,
            "One or more parameter values were invalid: Invalid SequenceNumber",
        );
    }

    #[test]
    fn a_record_looks_as_dynamodb_makes_it() {
        let key: Item = [("pk", AttributeValue::from("a"))].into_iter().collect();
        let record = StreamRecord {
            id: [7; 16],
            number: 12,
            time: UnixTime::from_millis(1_700_000_000_999),
            event: Event::Remove,
            expired: true,
            view: StreamView::OldImage,
            key: key.clone(),
            new: None,
            old: Some(key),
            bytes: 6,
        };
        let mut out = Vec::new();
        encode_records(&mut out, &GetRecordsOutput { table: id().table, records: vec![record], next: None });
        assert_eq!(
            String::from_utf8(out).unwrap(),
            r#"{"Records":[{"eventID":"07070707070707070707070707070707","eventName":"REMOVE","eventVersion":"1.1","eventSource":"aws:dynamodb","awsRegion":"us-east-1","dynamodb":{"ApproximateCreationDateTime":1700000000,"Keys":{"pk":{"S":"a"}},"OldImage":{"pk":{"S":"a"}},"SequenceNumber":"000000000000000000012","SizeBytes":6,"StreamViewType":"OLD_IMAGE"},"userIdentity":{"PrincipalId":"dynamodb.amazonaws.com","Type":"Service"}}]}"#
        );
    }

    #[test]
    fn a_closed_stream_tells_its_last_number() {
        let shard = Shard { id: "shardId-1".into(), parent: None, first: 1, last: Some(9) };
        let last = None;
        let key = larder_model::KeySchema { partition: Vec::new(), sort: Vec::new() };
        let view = StreamView::KeysOnly;
        let output = StreamDescription { stream: id(), view, enabled: false, key, shards: vec![shard], last };
        let mut out = Vec::new();
        encode_describe(&mut out, &output);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            r#"{"StreamDescription":{"StreamArn":"arn:aws:dynamodb:us-east-1:000000000000:table/lunch/stream/2023-11-14T22:13:20.123","TableName":"lunch","StreamLabel":"2023-11-14T22:13:20.123","StreamStatus":"DISABLED","StreamViewType":"KEYS_ONLY","CreationRequestDateTime":1700000000.123,"KeySchema":[],"Shards":[{"ShardId":"shardId-1","SequenceNumberRange":{"StartingSequenceNumber":"000000000000000000001","EndingSequenceNumber":"000000000000000000009"}}]}}"#
        );
    }
    #[test]
    fn a_shard_that_continues_another_names_it_and_more_shards_are_told() {
        let shard = Shard { id: "shardId-2".into(), parent: Some("shardId-1".into()), first: 10, last: None };
        let mut out = Vec::new();
        object(&mut out, |answer| list(answer.member("Shards"), &[shard], put_shard));
        assert_eq!(
            String::from_utf8(out).unwrap(),
            r#"{"Shards":[{"ShardId":"shardId-2","SequenceNumberRange":{"StartingSequenceNumber":"000000000000000000010"},"ParentShardId":"shardId-1"}]}"#
        );
    }
}
