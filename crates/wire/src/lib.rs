//! DynamoDB's JSON 1.0 protocol: bytes in, bytes out, no I/O.
//!
//! A body is refused in DynamoDB's order: the operation, the JSON, the shape of its members, constraints on
//! them (all that are broken, in one message), rules between them, expressions. What only a table can tell
//! is left to the engine.
//!
//! Promises:
//! - Whatever the bytes, decoding returns a request or an error; it does not panic or overflow the stack.
//! - A value that was decoded encodes to JSON that decodes to the same value.
//!
//! ```
//! use larder_engine::ops::Request;
//!
//! let request = larder_wire::decode("DynamoDB_20120810.DescribeTable", br#"{"TableName": "lunch"}"#);
//! assert!(matches!(request, Ok(Request::DescribeTable(describe)) if describe.table.as_str() == "lunch"));
//!
//! let error = larder_wire::decode("DynamoDB_20120810.DescribeTable", br#"{"TableName": 5}"#).unwrap_err();
//! assert_eq!(
//!     larder_wire::encode_error(&error),
//!     br#"{"__type":"com.amazon.coral.service#SerializationException","Message":"NUMBER_VALUE cannot be converted to String"}"#
//! );
//! ```

mod constraints;
mod echo;
mod error;
mod exported;
mod expressions;
mod json;
mod layer;
mod legacy;
mod members;
mod ops;
mod refusal;
mod shape;
mod value;

use larder_engine::ops::{Request, Response};
use larder_engine::{Naming, Said};
use larder_model::ApiError;

use json::Reader;
use ops::Operation;
use refusal::{Layer, Refusal, Rules};

pub use error::encode_error;
pub use exported::{decode_exported, encode_exported, encode_exported_change};

const PREFIX: &str = "DynamoDB_20120810.";
const STREAMS_PREFIX: &str = "DynamoDBStreams_20120810.";

/// The request in `body`, for the operation named by `target`, the value of `X-Amz-Target`.
pub fn decode(target: &str, body: &[u8]) -> Result<Request, ApiError> {
    decode_measured(target, body).map(|(request, _)| request)
}

/// The request in `body`, and about how many bytes of memory its values take.
pub fn decode_measured(target: &str, body: &[u8]) -> Result<(Request, usize), ApiError> {
    decode_measured_in(target, body, Naming::Shared).map(|(request, bytes, _)| (request, bytes))
}

/// The same, of names that stand for what `naming` says; and those of them that were ARNs.
pub fn decode_measured_in(
    target: &str,
    body: &[u8],
    naming: Naming<'_>,
) -> Result<(Request, usize, Said), ApiError> {
    let (mut request, bytes) = read(target, body)?;
    let said = request.resolve_names(naming)?;
    Ok((request, bytes, said))
}

/// The request as it was written: its names say what was said.
fn read(target: &str, body: &[u8]) -> Result<(Request, usize), ApiError> {
    let unreadable = || Refusal::Unreadable.into_error(Rules { layer: Layer::Current, single_write: false });
    let text = std::str::from_utf8(body).map_err(|_| unreadable())?;
    let name = target.strip_prefix(PREFIX).unwrap_or_default();
    let operation = match target.strip_prefix(STREAMS_PREFIX) {
        Some(name) => Operation::of_streams(name),
        None => Operation::named(name),
    };
    let Some(operation) = operation else {
        // A body that is no JSON is refused whatever it was for.
        if !body.is_empty() && json::check(text).is_err() {
            return Err(unreadable());
        }
        return Err(ApiError::UnknownOperation(String::new()));
    };
    let rules = operation.rules();
    let mut reader = Reader::new(text);
    match operation.decode(&mut reader, rules) {
        Ok(request) => Ok((request, reader.charged())),
        Err(refusal) => Err(explain(operation, text, rules, refusal)),
    }
}

/// The error for a refusal. It is found out only now whether the rest of the body is JSON, and whether
/// something in it puts the request on the older layer, because most requests are not refused.
fn explain(operation: Operation, text: &str, rules: Rules, refusal: Refusal) -> ApiError {
    if refusal != Refusal::TooLarge && json::check(text).is_err() {
        return Refusal::Unreadable.into_error(rules);
    }
    let depends_on_layer = matches!(refusal, Refusal::Plain(_) | Refusal::Enveloped(_));
    if depends_on_layer && rules.layer == Layer::Current && layer::is_older(text) {
        let rules = Rules { layer: Layer::Older, ..rules };
        return match operation.decode(&mut Reader::new(text), rules) {
            Err(refusal) => refusal.into_error(rules),
            Ok(_) => refusal.into_error(rules),
        };
    }
    refusal.into_error(rules)
}

/// The body that answers a request.
pub fn encode(response: &Response) -> Result<Vec<u8>, ApiError> {
    let mut out = Vec::with_capacity(256);
    ops::encode(&mut out, response)?;
    Ok(out)
}

/// The body that answers DescribeEndpoints, which only the server can: it knows its `address`.
pub fn encode_endpoints(address: &str) -> Vec<u8> {
    let mut out = Vec::new();
    ops::encode_endpoints(&mut out, address);
    out
}

#[cfg(test)]
mod tests;
