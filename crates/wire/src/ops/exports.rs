//! ExportTableToPointInTime, DescribeExport and ListExports.

use larder_engine::ops::{
    BucketPlace, DescribeExport, ExportAsked, ExportDescription, ExportTableToPointInTime, ExportView,
    Exported, ListExports, ListExportsOutput, Request, TaskStatus,
};
use larder_model::{Arn, TableName};

use crate::constraints::{Constraints, broken};
use crate::json::{Object, Reader, list, object};
use crate::members::request;
use crate::refusal::{Read, Refusal};
use crate::shape;

use super::backups::check_arn;
use super::table_description::{put_time, uuid};

const BUCKET_CHARS_MAX: usize = 255;
const PREFIX_CHARS_MAX: usize = 1024;
const KEY_ID_CHARS: [usize; 2] = [1, 2048];
pub(super) const LIMIT_MAX: i64 = 25;

/// A place in S3 as it was given.
#[derive(Debug, Default)]
pub(super) struct Place {
    pub(super) bucket: Option<String>,
    pub(super) owner: Option<String>,
    pub(super) prefix: Option<String>,
}

impl Place {
    pub(super) fn check(&self, constraints: &mut Constraints, path: &str, prefix: &str) {
        match self.bucket.as_deref() {
            None => constraints.null(&format!("{path}s3Bucket")),
            Some(bucket) => {
                if bucket.chars().count() > BUCKET_CHARS_MAX {
                    let rule = format!("Member must have length less than or equal to {BUCKET_CHARS_MAX}");
                    constraints.broken(bucket, &format!("{path}s3Bucket"), &rule);
                }
                if !is_bucket(bucket) {
                    let pattern = r"^[a-z0-9A-Z]+[\.\-\w]*[a-z0-9A-Z]+$";
                    let rule = format!("Member must satisfy regular expression pattern: {pattern}");
                    constraints.broken(bucket, &format!("{path}s3Bucket"), &rule);
                }
            }
        }
        if let Some(owner) = &self.owner
            && (owner.len() != 12 || !owner.bytes().all(|byte| byte.is_ascii_digit()))
        {
            let rule = "Member must satisfy regular expression pattern: [0-9]{12}";
            constraints.broken(owner, &format!("{path}s3BucketOwner"), rule);
        }
        if let Some(text) = self.prefix.as_deref().filter(|text| text.chars().count() > PREFIX_CHARS_MAX) {
            let rule = format!("Member must have length less than or equal to {PREFIX_CHARS_MAX}");
            constraints.broken(text, &format!("{path}{prefix}"), &rule);
        }
    }

    pub(super) fn finish(self) -> BucketPlace {
        let Self { bucket, owner, prefix } = self;
        BucketPlace { bucket: bucket.unwrap_or_default(), owner, prefix }
    }
}

fn is_bucket(name: &str) -> bool {
    let is_end = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = name.as_bytes();
    bytes.len() >= 2
        && is_end(bytes.first())
        && is_end(bytes.last())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(byte))
}

pub(super) fn check_token(constraints: &mut Constraints, token: Option<&str>) {
    if let Some(token) = token.filter(|token| token.is_empty() || token.contains('$')) {
        let rule = r"Member must satisfy regular expression pattern: ^[^\$]+$";
        constraints.broken(token, "clientToken", rule);
    }
}

/// The table of an ARN, or of a name, which DynamoDB takes here too.
pub(super) fn table(text: &str) -> Read<TableName> {
    let found = Arn::table_said(text).or_else(|| TableName::new(text).ok());
    found.ok_or_else(|| {
        Refusal::Plain(format!("Invalid TableArn: Invalid ResourceArn provided as input {text}"))
    })
}

pub(super) fn decode(reader: &mut Reader<'_>) -> Read<Request> {
    let mut place = Place::default();
    let (mut arn, mut token, mut at) = (None, None, None);
    let (mut sse, mut key, mut format, mut kind) = (None, None, None, None);
    let (mut from, mut to, mut view) = (None, None, None);
    let mut is_specified = false;
    request(reader, |reader, name| {
        match &*name {
            "TableArn" => arn = shape::text(reader)?,
            "ExportTime" => at = shape::timestamp(reader)?,
            "ClientToken" => token = shape::owned_text(reader)?,
            "S3Bucket" => place.bucket = shape::owned_text(reader)?,
            "S3BucketOwner" => place.owner = shape::owned_text(reader)?,
            "S3Prefix" => place.prefix = shape::owned_text(reader)?,
            "S3SseAlgorithm" => sse = shape::owned_text(reader)?,
            "S3SseKmsKeyId" => key = shape::owned_text(reader)?,
            "ExportFormat" => format = shape::text(reader)?,
            "ExportType" => kind = shape::text(reader)?,
            "IncrementalExportSpecification" => {
                let class = "IncrementalExportSpecification";
                is_specified = shape::structure(reader, class, |reader, member| {
                    match &*member {
                        "ExportFromTime" => from = shape::timestamp(reader)?,
                        "ExportToTime" => to = shape::timestamp(reader)?,
                        "ExportViewType" => view = shape::text(reader)?,
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
    constraints.present(&arn, "tableArn");
    check_token(&mut constraints, token.as_deref());
    place.check(&mut constraints, "", "s3Prefix");
    constraints.one_of(sse.as_deref(), "s3SseAlgorithm", &["AES256", "KMS"]);
    if let Some(key) = key.as_deref() {
        super::streams::check_length(&mut constraints, &Some(key.into()), "s3SseKmsKeyId", KEY_ID_CHARS);
    }
    constraints.one_of(format.as_deref(), "exportFormat", &["DYNAMODB_JSON", "ION"]);
    constraints.one_of(kind.as_deref(), "exportType", &["FULL_EXPORT", "INCREMENTAL_EXPORT"]);
    let path = "incrementalExportSpecification.exportViewType";
    constraints.one_of(view.as_deref(), path, &["NEW_IMAGE", "NEW_AND_OLD_IMAGES"]);
    constraints.finish()?;
    if format.as_deref() == Some("ION") {
        return Err(Refusal::plain("Exports in the format ION are not supported: use DYNAMODB_JSON"));
    }
    let what = match kind.as_deref() {
        Some("INCREMENTAL_EXPORT") => {
            if at.is_some() {
                return Err(Refusal::plain("ExportTime cannot be specified for an incremental export"));
            }
            let from = from.ok_or_else(|| {
                Refusal::plain(
                    "IncrementalExportSpecification with ExportFromTime must be specified for an incremental export",
                )
            })?;
            let view =
                if view.as_deref() == Some("NEW_IMAGE") { ExportView::New } else { ExportView::NewAndOld };
            ExportAsked::Changes { from, to, view }
        }
        _ if is_specified => {
            return Err(Refusal::plain(
                "IncrementalExportSpecification can only be specified for an incremental export",
            ));
        }
        _ => ExportAsked::Table { at },
    };
    let (table, encryption) = (table(&arn.unwrap_or_default())?, [sse, key]);
    let place = place.finish();
    let export = ExportTableToPointInTime { table, token, place, encryption, what };
    Ok(Request::ExportTableToPointInTime(Box::new(export)))
}

pub(super) fn decode_describe(reader: &mut Reader<'_>) -> Read<Request> {
    let mut arn = None;
    request(reader, |reader, name| {
        match &*name {
            "ExportArn" => arn = shape::owned_text(reader)?,
            _ => drop(reader.skip()?),
        }
        Ok(())
    })?;
    let mut constraints = Constraints::default();
    check_arn(&mut constraints, arn.as_deref(), "exportArn");
    constraints.finish()?;
    Ok(Request::DescribeExport(DescribeExport { arn: arn.unwrap_or_default() }))
}

/// What the lists of exports and imports take alike: the table, how many, and where the page before ended.
pub(super) type List = (Option<TableName>, Option<usize>, Option<String>);

pub(super) fn decode_a_list(reader: &mut Reader<'_>, limit_member: &str, limit_path: &str) -> Read<List> {
    let (mut arn, mut limit, mut next) = (None, None, None);
    request(reader, |reader, name| {
        match &*name {
            "TableArn" => arn = shape::text(reader)?,
            "NextToken" => next = shape::owned_text(reader)?,
            name if name == limit_member => limit = shape::integer(reader)?,
            _ => drop(reader.skip()?),
        }
        Ok(())
    })?;
    let mut constraints = Constraints::default();
    if let Some(limit) = limit {
        constraints.at_least(limit.value, 1, limit_path);
        constraints.at_most(limit.value, LIMIT_MAX, limit_path);
    }
    constraints.finish()?;
    let limit = limit.and_then(|limit| usize::try_from(limit.value).ok());
    let start = next.map(|token| read_next(&token)).transpose()?;
    Ok((arn.map(|arn| table(&arn)).transpose()?, limit, start))
}

/// A token is the id where the page ended, as digits of its bytes, and so long as the model has it.
const NEXT_DIGITS: usize = 112;

pub(super) fn put_next(answer: &mut Object<'_>, last: &str) {
    let digits: String = last.bytes().map(|byte| format!("{byte:02x}")).collect();
    answer.string("NextToken", &format!("{digits:0<NEXT_DIGITS$}"));
}

fn read_next(token: &str) -> Read<String> {
    let read = || {
        let digits = token.get(..token.len() - token.len() % 2)?.as_bytes().chunks(2);
        let bytes = digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
        let bytes: Vec<u8> = bytes.collect::<Option<_>>()?;
        let text = String::from_utf8(bytes).ok()?;
        Some(text.trim_end_matches('\0').to_owned()).filter(|text| !text.is_empty())
    };
    read()
        .ok_or_else(|| Refusal::Plain(broken(token, "nextToken", "Member must be a token of a page before")))
}

pub(super) fn decode_list(reader: &mut Reader<'_>) -> Read<Request> {
    let (table, limit, start) = decode_a_list(reader, "MaxResults", "maxResults")?;
    Ok(Request::ListExports(ListExports { table, limit, start }))
}

fn arn(export: &ExportDescription) -> String {
    Arn::export(&export.table, &export.id).to_string()
}

pub(super) fn status(status: &TaskStatus) -> &'static str {
    match status {
        TaskStatus::InProgress => "IN_PROGRESS",
        TaskStatus::Completed => "COMPLETED",
        TaskStatus::Failed { .. } => "FAILED",
    }
}

pub(super) fn put_failure(description: &mut Object<'_>, status: &TaskStatus) {
    if let TaskStatus::Failed { code, message } = status {
        description.string("FailureCode", code);
        description.string("FailureMessage", message);
    }
}

pub(super) fn put_text(description: &mut Object<'_>, name: &str, text: Option<&str>) {
    if let Some(text) = text {
        description.string(name, text);
    }
}

fn kind(export: &ExportDescription) -> &'static str {
    match export.what {
        Exported::Table { .. } => "FULL_EXPORT",
        Exported::Changes { .. } => "INCREMENTAL_EXPORT",
    }
}

pub(super) fn encode(out: &mut Vec<u8>, export: &ExportDescription) {
    object(out, |answer| {
        answer.object("ExportDescription", |description| put_description(description, export));
    });
}

fn put_description(description: &mut Object<'_>, export: &ExportDescription) {
    description.string("ExportArn", &arn(export));
    description.string("ExportStatus", status(&export.status));
    put_time(description, "StartTime", Some(export.started));
    put_time(description, "EndTime", export.ended);
    put_text(description, "ExportManifest", export.manifest.as_deref());
    description.string("TableArn", &Arn::table(&export.table).to_string());
    description.string("TableId", &uuid(export.table_id));
    if let Exported::Table { at } = export.what {
        put_time(description, "ExportTime", Some(at));
    }
    put_text(description, "ClientToken", export.token.as_deref());
    description.string("S3Bucket", &export.place.bucket);
    put_text(description, "S3BucketOwner", export.place.owner.as_deref());
    put_text(description, "S3Prefix", export.place.prefix.as_deref());
    // What S3 does unless it is told otherwise.
    let [sse, key] = &export.encryption;
    description.string("S3SseAlgorithm", sse.as_deref().unwrap_or("AES256"));
    put_text(description, "S3SseKmsKeyId", key.as_deref());
    put_failure(description, &export.status);
    description.string("ExportFormat", "DYNAMODB_JSON");
    if export.status == TaskStatus::Completed {
        description.integer("BilledSizeBytes", i64::try_from(export.bytes).unwrap_or(i64::MAX));
        description.integer("ItemCount", i64::try_from(export.items).unwrap_or(i64::MAX));
    }
    description.string("ExportType", kind(export));
    if let Exported::Changes { from, to, view } = export.what {
        description.object("IncrementalExportSpecification", |specification| {
            put_time(specification, "ExportFromTime", Some(from));
            put_time(specification, "ExportToTime", Some(to));
            let view = match view {
                ExportView::New => "NEW_IMAGE",
                ExportView::NewAndOld => "NEW_AND_OLD_IMAGES",
            };
            specification.string("ExportViewType", view);
        });
    }
}

pub(super) fn encode_list(out: &mut Vec<u8>, output: &ListExportsOutput) {
    object(out, |answer| {
        list(answer.member("ExportSummaries"), &output.exports, |out, export| {
            object(out, |summary| {
                summary.string("ExportArn", &arn(export));
                summary.string("ExportStatus", status(&export.status));
                summary.string("ExportType", kind(export));
            });
        });
        if let Some(last) = &output.last {
            put_next(answer, last);
        }
    });
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_of_buckets_are_names_of_directories() {
        for (name, is_good) in [
            ("bucket", true),
            ("my-bucket.of_2026", true),
            ("a..b", true),
            ("b", false),
            ("..", false),
            ("-a", false),
            ("a/b", false),
            ("a.", false),
            ("", false),
        ] {
            assert_eq!(is_bucket(name), is_good, "{name}");
        }
    }

    proptest! {
        #[test]
        fn a_page_goes_on_where_the_one_before_ended(millis in 0..99_999_999_999_999i64, table: u32) {
            let id = format!("{millis:014}-{table:08x}");
            let mut out = Vec::new();
            object(&mut out, |answer| put_next(answer, &id));
            let text = String::from_utf8(out).unwrap();
            let token = text.strip_prefix("{\"NextToken\":\"").and_then(|text| text.strip_suffix("\"}")).unwrap();
            // As the model has it.
            prop_assert!(token.len() == 112 && token.bytes().all(|byte| byte.is_ascii_hexdigit()));
            prop_assert_eq!(read_next(token).ok(), Some(id));
        }

        #[test]
        fn no_text_breaks_the_reading_of_a_token(token: String) {
            let _ = read_next(&token);
        }
    }
}
