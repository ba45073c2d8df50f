//! The two engines, asked in the same JSON.

use dynoxide::actions;
use dynoxide::{Database, DynoxideError};
use larder_engine::Engine;
use larder_model::UnixTime;
use serde_json::{Value, json};

/// The body of an answer, or of an error.
pub(crate) type Answer = Result<Value, Value>;

pub(crate) trait Side {
    fn ask(&self, operation: &str, request: &Value) -> Answer;

    /// Finishes what goes on in the background.
    fn settle(&self) {}
}

#[derive(Debug)]
pub(crate) struct Larder(pub(crate) Engine);

/// When everything happens.
const NOW: UnixTime = UnixTime::from_seconds(1_790_000_000);

impl Side for Larder {
    fn ask(&self, operation: &str, request: &Value) -> Answer {
        let target = format!("DynamoDB_20120810.{operation}");
        let answer = larder_wire::decode(&target, request.to_string().as_bytes())
            .and_then(|request| pollster::block_on(self.0.execute(request, NOW)))
            .and_then(|response| larder_wire::encode(&response));
        let read = |body: &[u8]| serde_json::from_slice(body).expect("Larder answers in JSON");
        answer.map(|body| read(&body)).map_err(|error| read(&larder_wire::encode_error(&error)))
    }

    fn settle(&self) {
        while self.0.work(NOW, std::time::Duration::ZERO).expect("the store works").more {}
    }
}

pub(crate) struct Dynoxide(pub(crate) Database);

impl Side for Dynoxide {
    fn ask(&self, operation: &str, request: &Value) -> Answer {
        macro_rules! call {
            ($method:ident, $request:ident) => {{
                let request: actions::$method::$request = serde_json::from_value(request.clone())
                    .map_err(|error| unread(operation, &error.to_string()))?;
                let response = self.0.$method(request).map_err(|error| refused(operation, &error))?;
                Ok(serde_json::to_value(response).expect("dynoxide answers in JSON"))
            }};
        }
        match operation {
            "CreateTable" => call!(create_table, CreateTableRequest),
            "DeleteTable" => call!(delete_table, DeleteTableRequest),
            "UpdateTable" => call!(update_table, UpdateTableRequest),
            "PutItem" => call!(put_item, PutItemRequest),
            "GetItem" => call!(get_item, GetItemRequest),
            "UpdateItem" => call!(update_item, UpdateItemRequest),
            "DeleteItem" => call!(delete_item, DeleteItemRequest),
            "Query" => call!(query, QueryRequest),
            "Scan" => call!(scan, ScanRequest),
            "BatchGetItem" => call!(batch_get_item, BatchGetItemRequest),
            "BatchWriteItem" => call!(batch_write_item, BatchWriteItemRequest),
            "TransactGetItems" => call!(transact_get_items, TransactGetItemsRequest),
            "TransactWriteItems" => call!(transact_write_items, TransactWriteItemsRequest),
            "ExecuteStatement" => call!(execute_statement, ExecuteStatementRequest),
            "BatchExecuteStatement" => call!(batch_execute_statement, BatchExecuteStatementRequest),
            "ExecuteTransaction" => call!(execute_transaction, ExecuteTransactionRequest),
            _ => panic!("{operation} is not compared"),
        }
    }
}

const ENVELOPE: &str = "1 validation error detected: ";

fn enveloped(operation: &str, message: &str) -> String {
    match operation {
        "PutItem" | "UpdateItem" | "DeleteItem" => format!("{ENVELOPE}{message}"),
        _ => message.to_owned(),
    }
}

fn refused(operation: &str, error: &DynoxideError) -> Value {
    if let DynoxideError::EnvelopedValidation(message) = error {
        return json!({"__type": "ValidationException", "message": enveloped(operation, message)});
    }
    serde_json::from_str(&error.to_json()).expect("dynoxide's errors are JSON")
}

/// A request that dynoxide did not read. Its server tells kinds of errors by marks at the start of the message,
/// and takes them off; in process they are still there.
fn unread(operation: &str, message: &str) -> Value {
    let (kind, message) = if let Some(rest) = message.strip_prefix("VALIDATION_REQUEST:") {
        ("ValidationException", enveloped(operation, rest))
    } else if let Some(rest) = message.strip_prefix("VALIDATION:") {
        ("ValidationException", rest.to_owned())
    } else if let Some(rest) = message.strip_prefix("SERIALIZATION:") {
        ("SerializationException", rest.to_owned())
    } else {
        ("ValidationException", message.to_owned())
    };
    json!({"__type": kind, "message": message})
}
