//! One file per operation: its JSON in, its JSON out.

mod backups;
mod batch_execute_statement;
mod batch_get_item;
mod batch_write_item;
mod consumed;
mod continuous_backups;
mod create_table;
mod delete_item;
mod describe_table;
mod execute_statement;
mod execute_transaction;
mod exports;
mod get_item;
mod imports;
mod limits;
mod list_tables;
mod put_item;
mod query;
mod resource_policy;
mod scan;
mod statement;
mod streams;
mod table_description;
mod tags;
mod time_to_live;
mod transact_get_items;
mod transact_write_items;
mod update_item;
mod update_table;

use larder_engine::ops::{Request, Response};
use larder_model::ApiError;

use crate::json::Reader;
use crate::refusal::{Layer, Read, Rules};

/// The operations by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    CreateTable,
    DescribeTable,
    ListTables,
    UpdateTable,
    DeleteTable,
    UpdateTimeToLive,
    DescribeTimeToLive,
    TagResource,
    UntagResource,
    ListTagsOfResource,
    PutResourcePolicy,
    GetResourcePolicy,
    DeleteResourcePolicy,
    UpdateContinuousBackups,
    DescribeContinuousBackups,
    RestoreTableToPointInTime,
    CreateBackup,
    DescribeBackup,
    ListBackups,
    DeleteBackup,
    RestoreTableFromBackup,
    ExportTableToPointInTime,
    DescribeExport,
    ListExports,
    ImportTable,
    DescribeImport,
    ListImports,
    DescribeLimits,
    DescribeEndpoints,
    GetItem,
    PutItem,
    UpdateItem,
    DeleteItem,
    Query,
    Scan,
    BatchGetItem,
    BatchWriteItem,
    TransactGetItems,
    TransactWriteItems,
    ExecuteStatement,
    BatchExecuteStatement,
    ExecuteTransaction,
    ListStreams,
    DescribeStream,
    GetShardIterator,
    GetRecords,
}

impl Operation {
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "CreateTable" => Self::CreateTable,
            "DescribeTable" => Self::DescribeTable,
            "ListTables" => Self::ListTables,
            "UpdateTable" => Self::UpdateTable,
            "DeleteTable" => Self::DeleteTable,
            "UpdateTimeToLive" => Self::UpdateTimeToLive,
            "DescribeTimeToLive" => Self::DescribeTimeToLive,
            "TagResource" => Self::TagResource,
            "UntagResource" => Self::UntagResource,
            "ListTagsOfResource" => Self::ListTagsOfResource,
            "PutResourcePolicy" => Self::PutResourcePolicy,
            "GetResourcePolicy" => Self::GetResourcePolicy,
            "DeleteResourcePolicy" => Self::DeleteResourcePolicy,
            "UpdateContinuousBackups" => Self::UpdateContinuousBackups,
            "DescribeContinuousBackups" => Self::DescribeContinuousBackups,
            "RestoreTableToPointInTime" => Self::RestoreTableToPointInTime,
            "CreateBackup" => Self::CreateBackup,
            "DescribeBackup" => Self::DescribeBackup,
            "ListBackups" => Self::ListBackups,
            "DeleteBackup" => Self::DeleteBackup,
            "RestoreTableFromBackup" => Self::RestoreTableFromBackup,
            "ExportTableToPointInTime" => Self::ExportTableToPointInTime,
            "DescribeExport" => Self::DescribeExport,
            "ListExports" => Self::ListExports,
            "ImportTable" => Self::ImportTable,
            "DescribeImport" => Self::DescribeImport,
            "ListImports" => Self::ListImports,
            "DescribeLimits" => Self::DescribeLimits,
            "DescribeEndpoints" => Self::DescribeEndpoints,
            "GetItem" => Self::GetItem,
            "PutItem" => Self::PutItem,
            "UpdateItem" => Self::UpdateItem,
            "DeleteItem" => Self::DeleteItem,
            "Query" => Self::Query,
            "Scan" => Self::Scan,
            "BatchGetItem" => Self::BatchGetItem,
            "BatchWriteItem" => Self::BatchWriteItem,
            "TransactGetItems" => Self::TransactGetItems,
            "TransactWriteItems" => Self::TransactWriteItems,
            "ExecuteStatement" => Self::ExecuteStatement,
            "BatchExecuteStatement" => Self::BatchExecuteStatement,
            "ExecuteTransaction" => Self::ExecuteTransaction,
            _ => return None,
        })
    }

    /// The operations of the streams service.
    pub(crate) fn of_streams(name: &str) -> Option<Self> {
        Some(match name {
            "ListStreams" => Self::ListStreams,
            "DescribeStream" => Self::DescribeStream,
            "GetShardIterator" => Self::GetShardIterator,
            "GetRecords" => Self::GetRecords,
            _ => return None,
        })
    }

    pub(crate) fn rules(self) -> Rules {
        let older = matches!(self, Self::BatchWriteItem | Self::TransactGetItems | Self::TransactWriteItems);
        Rules {
            layer: if older { Layer::Older } else { Layer::Current },
            single_write: matches!(self, Self::PutItem | Self::UpdateItem | Self::DeleteItem),
        }
    }

    pub(crate) fn decode(self, reader: &mut Reader<'_>, rules: Rules) -> Read<Request> {
        match self {
            Self::CreateTable => create_table::decode(reader),
            Self::DescribeTable => describe_table::decode(reader),
            Self::ListTables => list_tables::decode(reader),
            Self::UpdateTable => update_table::decode(reader),
            Self::DeleteTable => describe_table::decode_delete(reader),
            Self::UpdateTimeToLive => time_to_live::decode(reader),
            Self::DescribeTimeToLive => describe_table::decode_time_to_live(reader),
            Self::TagResource => tags::decode(reader),
            Self::UntagResource => tags::decode_untag(reader),
            Self::ListTagsOfResource => tags::decode_list(reader),
            Self::PutResourcePolicy => resource_policy::decode_put(reader),
            Self::GetResourcePolicy => resource_policy::decode_get(reader),
            Self::DeleteResourcePolicy => resource_policy::decode_delete(reader),
            Self::UpdateContinuousBackups => continuous_backups::decode_update(reader),
            Self::DescribeContinuousBackups => continuous_backups::decode_describe(reader),
            Self::RestoreTableToPointInTime => continuous_backups::decode_restore(reader),
            Self::CreateBackup => backups::decode_create(reader),
            Self::DescribeBackup => backups::decode_describe(reader),
            Self::ListBackups => backups::decode_list(reader),
            Self::DeleteBackup => backups::decode_delete(reader),
            Self::RestoreTableFromBackup => backups::decode_restore(reader),
            Self::ExportTableToPointInTime => exports::decode(reader),
            Self::DescribeExport => exports::decode_describe(reader),
            Self::ListExports => exports::decode_list(reader),
            Self::ImportTable => imports::decode(reader),
            Self::DescribeImport => imports::decode_describe(reader),
            Self::ListImports => imports::decode_list(reader),
            Self::DescribeLimits => limits::decode(reader).map(|()| Request::DescribeLimits),
            Self::DescribeEndpoints => limits::decode(reader).map(|()| Request::DescribeEndpoints),
            Self::GetItem => get_item::decode(reader, rules),
            Self::PutItem => put_item::decode(reader, rules),
            Self::UpdateItem => update_item::decode(reader, rules),
            Self::DeleteItem => delete_item::decode(reader, rules),
            Self::Query => query::decode(reader, rules),
            Self::Scan => scan::decode(reader, rules),
            Self::BatchGetItem => batch_get_item::decode(reader, rules),
            Self::BatchWriteItem => batch_write_item::decode(reader, rules),
            Self::TransactGetItems => transact_get_items::decode(reader, rules),
            Self::TransactWriteItems => transact_write_items::decode(reader, rules),
            Self::ExecuteStatement => execute_statement::decode(reader, rules),
            Self::BatchExecuteStatement => batch_execute_statement::decode(reader, rules),
            Self::ExecuteTransaction => execute_transaction::decode(reader, rules),
            Self::ListStreams => streams::decode_list(reader),
            Self::DescribeStream => streams::decode_describe(reader),
            Self::GetShardIterator => streams::decode_iterator(reader),
            Self::GetRecords => streams::decode_records(reader),
        }
    }
}

pub(crate) fn encode(out: &mut Vec<u8>, response: &Response) -> Result<(), ApiError> {
    match response {
        Response::CreateTable(table)
        | Response::UpdateTable(table)
        | Response::DeleteTable(table)
        | Response::RestoreTableToPointInTime(table)
        | Response::RestoreTableFromBackup(table) => {
            describe_table::encode(out, "TableDescription", table);
        }
        Response::DescribeTable(table) => describe_table::encode(out, "Table", table),
        Response::ListTables(output) => list_tables::encode(out, output),
        Response::UpdateTimeToLive(set) => time_to_live::encode_update(out, set),
        Response::DescribeTimeToLive(state) => time_to_live::encode(out, state),
        // Nothing at all.
        Response::TagResource | Response::UntagResource => {}
        Response::ListTagsOfResource(tags) => tags::encode_list(out, tags),
        Response::PutResourcePolicy(revision) => resource_policy::encode_revision(out, Some(revision)),
        Response::GetResourcePolicy(policy) => resource_policy::encode(out, policy),
        Response::DeleteResourcePolicy(revision) => {
            resource_policy::encode_revision(out, revision.as_deref());
        }
        Response::UpdateContinuousBackups(backups) | Response::DescribeContinuousBackups(backups) => {
            continuous_backups::encode(out, backups);
        }
        Response::CreateBackup(backup) => backups::encode_create(out, backup),
        Response::DescribeBackup(backup) | Response::DeleteBackup(backup) => backups::encode(out, backup),
        Response::ListBackups(output) => backups::encode_list(out, output),
        Response::ExportTableToPointInTime(export) | Response::DescribeExport(export) => {
            exports::encode(out, export);
        }
        Response::ListExports(output) => exports::encode_list(out, output),
        Response::ImportTable(import) | Response::DescribeImport(import) => imports::encode(out, import),
        Response::ListImports(output) => imports::encode_list(out, output),
        Response::DescribeLimits => limits::encode(out),
        Response::DescribeEndpoints => limits::encode_endpoints(out, None),
        Response::GetItem(output) => return get_item::encode(out, output),
        Response::PutItem(output) | Response::UpdateItem(output) | Response::DeleteItem(output) => {
            return consumed::encode_write(out, output);
        }
        Response::Query(output) | Response::Scan(output) => return query::encode(out, output),
        Response::BatchGetItem(output) => return batch_get_item::encode(out, output),
        Response::BatchWriteItem(output) => batch_write_item::encode(out, output),
        Response::TransactGetItems(output) => return transact_get_items::encode(out, output),
        Response::TransactWriteItems(output) => transact_write_items::encode(out, output),
        Response::ExecuteStatement(output) => return execute_statement::encode(out, output),
        Response::BatchExecuteStatement(output) => return batch_execute_statement::encode(out, output),
        Response::ExecuteTransaction(output) => return execute_transaction::encode(out, output),
        Response::ListStreams(output) => streams::encode_list(out, output),
        Response::DescribeStream(output) => streams::encode_describe(out, output),
        Response::GetShardIterator(iterator) => streams::encode_iterator(out, iterator),
        Response::GetRecords(output) => streams::encode_records(out, output),
    }
    Ok(())
}

pub(crate) fn encode_endpoints(out: &mut Vec<u8>, address: &str) {
    limits::encode_endpoints(out, Some(address));
}
