//! DescribeTable, DeleteTable and DescribeTimeToLive, which take a table's name and nothing else.

use larder_engine::ops::{DeleteTable, DescribeTable, DescribeTimeToLive, Request, TableDescription};
use larder_model::TableName;

use crate::constraints::described_table;
use crate::json::{Reader, object};
use crate::members::request;
use crate::refusal::Read;
use crate::shape;

use super::table_description::put_table;

pub(super) fn decode(reader: &mut Reader<'_>) -> Read<Request> {
    Ok(Request::DescribeTable(DescribeTable { table: table(reader)? }))
}

pub(super) fn decode_delete(reader: &mut Reader<'_>) -> Read<Request> {
    Ok(Request::DeleteTable(DeleteTable { table: table(reader)? }))
}

pub(super) fn decode_time_to_live(reader: &mut Reader<'_>) -> Read<Request> {
    Ok(Request::DescribeTimeToLive(DescribeTimeToLive { table: table(reader)? }))
}

fn table(reader: &mut Reader<'_>) -> Read<TableName> {
    let mut table = None;
    request(reader, |reader, name| {
        match &*name {
            "TableName" => table = shape::text(reader)?,
            _ => drop(reader.skip()?),
        }
        Ok(())
    })?;
    described_table(table)
}

/// The answer of every operation that returns a table, under the operation's own name for it.
pub(super) fn encode(out: &mut Vec<u8>, member: &str, table: &TableDescription) {
    object(out, |answer| put_table(answer.member(member), table));
}
