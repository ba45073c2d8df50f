//! Any body for any operation is a request or a client's error, never a panic and never our fault.
#![no_main]

use larder_model::ApiError;
use libfuzzer_sys::fuzz_target;

const OPERATIONS: [&str; 22] = [
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
];

fuzz_target!(|data: &[u8]| {
    let Some((which, body)) = data.split_first() else { return };
    let operation = OPERATIONS[usize::from(*which) % OPERATIONS.len()];
    let decoded = larder_wire::decode(&format!("DynamoDB_20120810.{operation}"), body);
    assert!(!matches!(decoded, Err(ApiError::Internal { .. })), "{decoded:?}");
    if let Err(error) = decoded {
        larder_wire::encode_error(&error);
    }
});
