//! ListTables.

use larder_engine::ops::{ListTables, ListTablesOutput, Request};
use larder_model::TableName;

use crate::constraints::Constraints;
use crate::json::{Reader, object};
use crate::members::request;
use crate::refusal::Read;
use crate::shape;

const LIMIT_MAX: i64 = 100;

pub(super) fn decode(reader: &mut Reader<'_>) -> Read<Request> {
    let (mut start, mut limit) = (None, None);
    request(reader, |reader, name| {
        match &*name {
            "ExclusiveStartTableName" => start = shape::owned_text(reader)?,
            "Limit" => limit = shape::integer(reader)?,
            _ => drop(reader.skip()?),
        }
        Ok(())
    })?;
    let mut constraints = Constraints::default();
    if let Some(start) = &start {
        constraints.name(start, "exclusiveStartTableName");
    }
    if let Some(limit) = limit {
        constraints.at_least(limit.value, 1, "limit");
        constraints.at_most(limit.value, LIMIT_MAX, "limit");
    }
    constraints.finish()?;
    let limit = limit.and_then(|limit| usize::try_from(limit.value).ok());
    Ok(Request::ListTables(ListTables { start, limit }))
}

pub(super) fn encode(out: &mut Vec<u8>, output: &ListTablesOutput) {
    object(out, |answer| {
        answer.strings("TableNames", output.names.iter().map(TableName::as_str));
        if let Some(last) = &output.last {
            answer.string("LastEvaluatedTableName", last.as_str());
        }
    });
}
