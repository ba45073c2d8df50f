//! Any body for any operation is a request or a client's error, never a panic and never our fault.
#![no_main]

use larder_model::ApiError;
use libfuzzer_sys::fuzz_target;

/// Which a body's first byte names; new ones come last.
const OPERATIONS: [&str; 40] = [
    "CreateTable",
    "DescribeTable",
    "ListTables",
    "UpdateTable",
    "DeleteTable",
    "UpdateTimeToLive",
    "DescribeTimeToLive",
    "TagResource",
    "UntagResource",
    "ListTagsOfResource",
    "DescribeLimits",
    "DescribeEndpoints",
    "GetItem",
    "PutItem",
    "UpdateItem",
    "DeleteItem",
    "Query",
    "Scan",
    "BatchGetItem",
    "BatchWriteItem",
    "TransactGetItems",
    "TransactWriteItems",
    "UpdateContinuousBackups",
    "DescribeContinuousBackups",
    "RestoreTableToPointInTime",
    "CreateBackup",
    "DescribeBackup",
    "ListBackups",
    "DeleteBackup",
    "RestoreTableFromBackup",
    "ListStreams",
    "DescribeStream",
    "GetShardIterator",
    "GetRecords",
    "ExecuteStatement",
    "BatchExecuteStatement",
    "ExecuteTransaction",
    "PutResourcePolicy",
    "GetResourcePolicy",
    "DeleteResourcePolicy",
];

fuzz_target!(|data: &[u8]| {
    let Some((which, body)) = data.split_first() else { return };
    let operation = OPERATIONS[usize::from(*which) % OPERATIONS.len()];
    let of_streams = operation.contains("Stream") || ["GetShardIterator", "GetRecords"].contains(&operation);
    let service = if of_streams { "DynamoDBStreams_20120810" } else { "DynamoDB_20120810" };
    let decoded = larder_wire::decode(&format!("{service}.{operation}"), body);
    assert!(!matches!(decoded, Err(ApiError::Internal { .. })), "{decoded:?}");
    if let Err(error) = decoded {
        larder_wire::encode_error(&error);
    }
});
