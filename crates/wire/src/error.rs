//! Errors as JSON.
//!
//! Two kinds spell `Message` with a capital, and an error that has nothing to say has no message at all.

use larder_model::{ApiError, CancellationReason};

use crate::json::{list, object};
use crate::value::put_item;

/// The body that answers a request that failed.
pub fn encode_error(error: &ApiError) -> Vec<u8> {
    let mut out = Vec::new();
    object(&mut out, |answer| {
        answer.string("__type", &format!("{}#{}", error.namespace(), error.code()));
        let member = match error {
            ApiError::Serialization(_) | ApiError::TransactionCanceled { .. } => "Message",
            _ => "message",
        };
        let message = error.to_string();
        if !message.is_empty() {
            answer.string(member, &message);
        }
        match error {
            ApiError::ConditionalCheckFailed { item: Some(item) } => put_item(answer.member("Item"), item),
            ApiError::Exceeded(exceeded) => {
                // As the model spells it.
                let member = match exceeded.code {
                    "ThrottlingException" => "throttlingReasons",
                    _ => "ThrottlingReasons",
                };
                list(answer.member(member), [exceeded], |out, exceeded| {
                    object(out, |answer| {
                        answer.string("reason", &exceeded.reason);
                        answer.string("resource", &exceeded.resource);
                    });
                });
            }
            ApiError::TransactionCanceled { reasons } => {
                list(answer.member("CancellationReasons"), reasons, put_reason);
            }
            _ => {}
        }
    });
    out
}

fn put_reason(out: &mut Vec<u8>, reason: &CancellationReason) {
    object(out, |answer| {
        answer.string("Code", reason.code);
        if let Some(message) = &reason.message {
            answer.string("Message", message);
        }
        if let Some(item) = &reason.item {
            put_item(answer.member("Item"), item);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_model::{AttributeValue, Item};

    fn check(error: &ApiError, expected: &str) {
        assert_eq!(String::from_utf8(encode_error(error)).unwrap(), expected);
    }

    #[test]
    fn errors_look_as_dynamodb_makes_them() {
        let item: Item = [("pk", AttributeValue::from("a"))].into_iter().collect();
        check(
            &ApiError::validation("no \"good\""),
            r#"{"__type":"com.amazon.coral.validate#ValidationException","message":"no \"good\""}"#,
        );
        check(
            &ApiError::Serialization(String::new()),
            r#"{"__type":"com.amazon.coral.service#SerializationException"}"#,
        );
        check(
            &ApiError::UnknownOperation(String::new()),
            r#"{"__type":"com.amazon.coral.service#UnknownOperationException"}"#,
        );
        check(
            &ApiError::ConditionalCheckFailed { item: Some(Box::new(item.clone())) },
            r#"{"__type":"com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException","message":"The conditional request failed","Item":{"pk":{"S":"a"}}}"#,
        );
        let failed = CancellationReason {
            code: "ConditionalCheckFailed",
            message: Some("The conditional request failed".into()),
            item: Some(item),
        };
        check(
            &ApiError::TransactionCanceled { reasons: vec![CancellationReason::NONE, failed] },
            r#"{"__type":"com.amazonaws.dynamodb.v20120810#TransactionCanceledException","Message":"Transaction cancelled, please refer cancellation reasons for specific reasons [None, ConditionalCheckFailed]","CancellationReasons":[{"Code":"None"},{"Code":"ConditionalCheckFailed","Message":"The conditional request failed","Item":{"pk":{"S":"a"}}}]}"#,
        );
    }
}
