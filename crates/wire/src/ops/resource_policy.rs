//! PutResourcePolicy, GetResourcePolicy and DeleteResourcePolicy.
//!
//! What a policy says is read elsewhere, by who enforces it.

use larder_engine::ops::{
    DeleteResourcePolicy, ExpectedRevision, GetResourcePolicy, Governed, PutResourcePolicy, Request,
    ResourcePolicy, StreamId,
};
use larder_model::Arn;

use super::streams::check_length;
use crate::constraints::Constraints;
use crate::json::{Reader, object};
use crate::members::{Text, request};
use crate::refusal::{Read, Refusal};
use crate::shape;

const ARN_LENGTH: [usize; 2] = [1, 1283];
const REVISION_LENGTH: [usize; 2] = [1, 255];
/// The revision that is expected of a resource without a policy.
const NO_POLICY: &str = "NO_POLICY";

pub(super) fn decode_put(reader: &mut Reader<'_>) -> Read<Request> {
    let mut members = Members::default();
    let mut policy = None;
    request(reader, |reader, name| {
        match &*name {
            "Policy" => policy = shape::owned_text(reader)?,
            // Nobody is kept from leaving themselves out.
            "ConfirmRemoveSelfResourceAccess" => drop(shape::boolean(reader)?),
            _ => members.read(reader, &name)?,
        }
        Ok(())
    })?;
    let mut constraints = members.constraints();
    constraints.present(&policy, "policy");
    constraints.finish()?;
    let expected = members.expected.as_deref().map(|revision| match revision {
        NO_POLICY => ExpectedRevision::NoPolicy,
        revision => ExpectedRevision::Is(revision.to_owned()),
    });
    let (resource, policy) = (members.resource()?, policy.unwrap_or_default());
    Ok(Request::PutResourcePolicy(PutResourcePolicy { resource, policy, expected }))
}

pub(super) fn decode_get(reader: &mut Reader<'_>) -> Read<Request> {
    let mut members = Members::default();
    request(reader, |reader, name| members.read(reader, &name))?;
    members.expected = None;
    members.constraints().finish()?;
    Ok(Request::GetResourcePolicy(GetResourcePolicy { resource: members.resource()? }))
}

pub(super) fn decode_delete(reader: &mut Reader<'_>) -> Read<Request> {
    let mut members = Members::default();
    request(reader, |reader, name| members.read(reader, &name))?;
    members.constraints().finish()?;
    let resource = members.resource()?;
    let expected = members.expected.map(Into::into);
    Ok(Request::DeleteResourcePolicy(DeleteResourcePolicy { resource, expected }))
}

#[derive(Debug, Default)]
struct Members<'a> {
    arn: Text<'a>,
    expected: Text<'a>,
}

impl<'a> Members<'a> {
    fn read(&mut self, reader: &mut Reader<'a>, name: &str) -> Read<()> {
        match name {
            "ResourceArn" => self.arn = shape::text(reader)?,
            "ExpectedRevisionId" => self.expected = shape::text(reader)?,
            _ => drop(reader.skip()?),
        }
        Ok(())
    }

    fn constraints(&self) -> Constraints {
        let mut constraints = Constraints::default();
        constraints.present(&self.arn, "resourceArn");
        check_length(&mut constraints, &self.arn, "resourceArn", ARN_LENGTH);
        check_length(&mut constraints, &self.expected, "expectedRevisionId", REVISION_LENGTH);
        constraints
    }

    /// The table or stream that the ARN names.
    fn resource(&self) -> Read<Governed> {
        let arn = self.arn.as_deref().unwrap_or_default();
        if let Some((table, label)) = Arn::stream_said(arn) {
            return Ok(Governed::Stream(StreamId { table, label }));
        }
        let table = Arn::table_said(arn);
        table.map(Governed::Table).ok_or_else(|| {
            Refusal::Plain(format!("Invalid ResourceArn: Invalid ResourceArn provided as input {arn}"))
        })
    }
}

pub(super) fn encode(out: &mut Vec<u8>, policy: &ResourcePolicy) {
    object(out, |answer| {
        answer.string("Policy", policy.text());
        answer.string("RevisionId", policy.revision());
    });
}

/// The answer to those that change it. Where there was none to delete, there is nothing to tell.
pub(super) fn encode_revision(out: &mut Vec<u8>, revision: Option<&str>) {
    object(out, |answer| {
        if let Some(revision) = revision {
            answer.string("RevisionId", revision);
        }
    });
}

#[cfg(test)]
mod tests {
    const TABLE: &str = "arn:aws:dynamodb:eu-north-1:123456789012:table/lunch";

    fn check(operation: &str, body: &str, expected: &str) {
        let decoded = crate::decode(&format!("DynamoDB_20120810.{operation}"), body.as_bytes());
        let told = decoded.map_or_else(|error| error.to_string(), |request| format!("{request:?}"));
        assert!(told.contains(expected), "{body}: {told}");
    }

    #[test]
    fn tables_and_streams_have_policies_and_indexes_have_none() {
        let body = |arn: &str| format!(r#"{{"ResourceArn": "{arn}"}}"#);
        for operation in ["GetResourcePolicy", "DeleteResourcePolicy"] {
            check(operation, &body(TABLE), r#"resource: Table("#);
            check(operation, &body(&format!("{TABLE}/stream/2023-11-14T22:13:20.123")), "resource: Stream(");
            for other in ["lunch", &format!("{TABLE}/index/by_day"), "arn:aws:s3:::lunch"] {
                check(operation, &body(other), &format!("Invalid ResourceArn provided as input {other}"));
            }
            check(operation, "{}", "Value null at 'resourceArn' failed to satisfy constraint");
            check(operation, &body(""), "Member must have length greater than or equal to 1");
            check(operation, &body(&"a".repeat(1284)), "Member must have length less than or equal to 1283");
        }
    }

    #[test]
    fn what_is_expected_is_a_revision_or_that_there_is_none() {
        let body = |more: &str| format!(r#"{{"ResourceArn": "{TABLE}", "Policy": "{{}}", "x": 1{more}}}"#);
        check("PutResourcePolicy", &body(""), "expected: None");
        check("PutResourcePolicy", &body(r#", "ConfirmRemoveSelfResourceAccess": true"#), "expected: None");
        let no_policy = r#", "ExpectedRevisionId": "NO_POLICY""#;
        check("PutResourcePolicy", &body(no_policy), "expected: Some(NoPolicy)");
        check("PutResourcePolicy", &body(r#", "ExpectedRevisionId": "7""#), r#"expected: Some(Is("7"))"#);
        check("DeleteResourcePolicy", &body(no_policy), r#"expected: Some("NO_POLICY")"#);
        check("PutResourcePolicy", &body(r#", "ExpectedRevisionId": """#), "at 'expectedRevisionId' failed");
        check("PutResourcePolicy", &format!(r#"{{"ResourceArn": "{TABLE}"}}"#), "Value null at 'policy'");
        check("PutResourcePolicy", &body(r#", "ConfirmRemoveSelfResourceAccess": 1"#), "cannot be converted");
    }
}
