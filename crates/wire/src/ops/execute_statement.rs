//! ExecuteStatement.
//!
//! A `NextToken` holds all there is to know of a position: which statement it belongs to, which of its partitions, and
//! the last key. So the server need not remember any.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use larder_engine::ops::{ExecuteStatement, ExecuteStatementOutput, Request, StatementPosition};
use larder_engine::{fingerprint, item_bytes};
use larder_model::ApiError;
use larder_model::limits::NEXT_TOKEN_CHARS_MAX;

use crate::constraints::Constraints;
use crate::json::{Reader, object, try_list};
use crate::members::{capacity, capacity_error, request};
use crate::refusal::{Read, Refusal, Rules};
use crate::shape;
use crate::value::{put_item, put_row};

use super::consumed::put_consumed;
use super::statement::Written;

const TOKEN_VERSION: u8 = 1;

pub(super) fn decode(reader: &mut Reader<'_>, rules: Rules) -> Read<Request> {
    let mut written = Written::default();
    let (mut token, mut units, mut limit) = (None, None, None);
    request(reader, |reader, name| {
        match &*name {
            "NextToken" => token = shape::text(reader)?,
            "ReturnConsumedCapacity" => units = shape::text(reader)?,
            "Limit" => limit = shape::integer(reader)?,
            name => written.read(reader, name, rules)?,
        }
        Ok(())
    })?;
    let mut constraints = Constraints::default();
    written.constrain(&mut constraints, "");
    if let Some(limit) = limit {
        constraints.at_least(limit.value, 1, "limit");
    }
    if let Some(token) = token.as_deref() {
        let length = token.chars().count();
        let path = "nextToken";
        if length == 0 {
            constraints.broken(token, path, "Member must have length greater than or equal to 1");
        } else if length > NEXT_TOKEN_CHARS_MAX {
            let rule = format!("Member must have length less than or equal to {NEXT_TOKEN_CHARS_MAX}");
            constraints.broken(token, path, &rule);
        }
    }
    constraints.extend(capacity_error(&units));
    constraints.finish()?;

    written.check_parameters(rules)?;
    let statement = written.statement(false).map_err(|error| Refusal::Plain(error.to_string()))?;
    let fingerprint = fingerprint(written.text.as_deref().unwrap_or_default(), written.parameters());
    let start = match token.as_deref().map(position) {
        None => None,
        Some(None) => return Err(Refusal::plain("Invalid NextToken")),
        Some(Some(start)) if start.fingerprint != fingerprint => {
            return Err(Refusal::plain("NextToken does not match request"));
        }
        Some(start) => start,
    };
    Ok(Request::ExecuteStatement(Box::new(ExecuteStatement {
        statement,
        consistent: written.consistent.unwrap_or(false),
        limit: limit.and_then(|limit| usize::try_from(limit.value).ok()),
        start,
        fingerprint,
        return_old_on_failure: written.returns_old_on_failure(),
        capacity: capacity(&units),
    })))
}

pub(super) fn encode(out: &mut Vec<u8>, output: &ExecuteStatementOutput) -> Result<(), ApiError> {
    object(out, |answer| {
        try_list(answer.member("Items"), &output.items, put_row)?;
        if let Some(next) = &output.next {
            answer.string("NextToken", &token(next));
            if let Some(key) = &next.key {
                put_item(answer.member("LastEvaluatedKey"), key);
            }
        }
        if let Some(consumed) = &output.consumed {
            put_consumed(answer.member("ConsumedCapacity"), consumed);
        }
        Ok(())
    })
}

fn token(position: &StatementPosition) -> String {
    let mut bytes = vec![TOKEN_VERSION];
    bytes.extend(position.fingerprint);
    bytes.extend(u16::try_from(position.part).unwrap_or(u16::MAX).to_be_bytes());
    if let Some(key) = &position.key {
        bytes.extend(item_bytes::encode(key));
    }
    BASE64.encode(bytes)
}

fn position(token: &str) -> Option<StatementPosition> {
    let bytes = BASE64.decode(token).ok()?;
    let (&version, bytes) = bytes.split_first()?;
    let (fingerprint, bytes) = bytes.split_first_chunk::<16>()?;
    let (part, key) = bytes.split_first_chunk::<2>()?;
    let key = if key.is_empty() { None } else { Some(item_bytes::decode(key).ok()?) };
    let part = usize::from(u16::from_be_bytes(*part));
    (version == TOKEN_VERSION).then_some(StatementPosition { fingerprint: *fingerprint, part, key })
}

#[cfg(test)]
mod tests {
    use larder_model::{AttributeValue, Item};
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_token_is_read_as_it_was_written(fingerprint: [u8; 16], part: u16, key: Option<(String, i64)>) {
            let key = key.map(|(text, number)| -> Item {
                [("pk", AttributeValue::from(text)), ("sk", number.into())].into_iter().collect()
            });
            let at = StatementPosition { fingerprint, part: part.into(), key };
            prop_assert_eq!(position(&token(&at)), Some(at));
        }

        #[test]
        fn no_text_breaks_the_reading_of_a_token(text: String, bytes: Vec<u8>) {
            position(&text);
            position(&BASE64.encode(&bytes));
            let mut begun = vec![TOKEN_VERSION; 19];
            begun.extend(bytes);
            position(&BASE64.encode(&begun));
        }
    }
}
