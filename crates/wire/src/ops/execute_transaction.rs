//! ExecuteTransaction. A statement that cannot be read refuses all of them.

use larder_engine::ops::{ExecuteTransaction, ExecuteTransactionOutput, Request, Row, TransactStatement};
use larder_model::ApiError;
use larder_model::limits::TRANSACTION_ITEMS_MAX;

use crate::constraints::Constraints;
use crate::echo::Echo;
use crate::json::{Reader, object, try_list};
use crate::members::{capacity, capacity_error, request};
use crate::refusal::{Read, Refusal, Rules};
use crate::shape;
use crate::value::put_row;

use super::consumed::put_all_consumed;
use super::statement::Written;
use super::transact_write_items::check_token;

pub(super) fn decode(reader: &mut Reader<'_>, rules: Rules) -> Read<Request> {
    let mut statements: Option<Vec<Written<'_>>> = None;
    let (mut token, mut units) = (None, None);
    request(reader, |reader, name| {
        match &*name {
            "TransactStatements" => statements = Written::list(reader, "ParameterizedStatement", rules)?,
            "ClientRequestToken" => token = shape::owned_text(reader)?,
            "ReturnConsumedCapacity" => units = shape::text(reader)?,
            _ => drop(reader.skip()?),
        }
        Ok(())
    })?;
    let mut constraints = Constraints::default();
    constraints.present(&statements, "transactStatements");
    let statements = statements.unwrap_or_default();
    if constraints.is_empty() && statements.is_empty() {
        let rule = "Member must have length greater than or equal to 1";
        constraints.broken("[]", "transactStatements", rule);
    }
    if statements.len() > TRANSACTION_ITEMS_MAX {
        let rule = format!("Member must have length less than or equal to {TRANSACTION_ITEMS_MAX}");
        constraints.broken(&echo(&statements), "transactStatements", &rule);
    }
    for (at, written) in statements.iter().enumerate() {
        written.constrain(&mut constraints, &format!("transactStatements.{}.member.", at + 1));
    }
    check_token(&mut constraints, token.as_deref());
    constraints.extend(capacity_error(&units));
    constraints.finish()?;

    let mut found = Vec::with_capacity(statements.len());
    for (at, written) in statements.into_iter().enumerate() {
        written.check_parameters(rules)?;
        let statement = written.statement(true).map_err(|error| {
            Refusal::Plain(format!("Validation failed in TransactStatements[{at}]: {error}"))
        })?;
        let return_old_on_failure = written.returns_old_on_failure();
        found.push(TransactStatement { statement, return_old_on_failure });
    }
    let capacity = capacity(&units);
    Ok(Request::ExecuteTransaction(ExecuteTransaction { statements: found, token, capacity }))
}

fn echo(statements: &[Written<'_>]) -> String {
    let mut echo = Echo::default();
    echo.list(statements, |echo, written| {
        written.echo(echo, "ParameterizedStatement");
        echo.text(", returnValuesOnConditionCheckFailure=");
        echo.option(written.on_failure.as_deref());
        echo.text(")");
    });
    echo.finish()
}

pub(super) fn encode(out: &mut Vec<u8>, output: &ExecuteTransactionOutput) -> Result<(), ApiError> {
    object(out, |answer| {
        try_list(answer.member("Responses"), &output.items, |out, item| {
            object(out, |answer| match item {
                // A projection that finds nothing is answered like an item that is not there.
                Some(Row::Built(item)) if item.is_empty() => Ok(()),
                Some(item) => put_row(answer.member("Item"), item),
                None => Ok(()),
            })
        })?;
        put_all_consumed(answer, &output.consumed);
        Ok(())
    })
}
