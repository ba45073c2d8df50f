//! BatchExecuteStatement. A statement that cannot be read is an answer by itself.

use larder_engine::ops::{
    BatchExecuteStatement, BatchExecuteStatementOutput, BatchStatement, Request, StatementResponse,
};
use larder_model::ApiError;
use larder_model::limits::BATCH_STATEMENTS_MAX;

use crate::constraints::Constraints;
use crate::echo::Echo;
use crate::json::{Reader, object, try_list};
use crate::members::{capacity, capacity_error, request};
use crate::refusal::{Read, Rules};
use crate::shape;
use crate::value::{put_item, put_row};

use super::consumed::put_all_consumed;
use super::statement::Written;

pub(super) fn decode(reader: &mut Reader<'_>, rules: Rules) -> Read<Request> {
    let mut statements: Option<Vec<Written<'_>>> = None;
    let mut units = None;
    request(reader, |reader, name| {
        match &*name {
            "Statements" => statements = Written::list(reader, "BatchStatementRequest", rules)?,
            "ReturnConsumedCapacity" => units = shape::text(reader)?,
            _ => drop(reader.skip()?),
        }
        Ok(())
    })?;
    let mut constraints = Constraints::default();
    constraints.present(&statements, "statements");
    let statements = statements.unwrap_or_default();
    if constraints.is_empty() && statements.is_empty() {
        constraints.broken("[]", "statements", "Member must have length greater than or equal to 1");
    }
    if statements.len() > BATCH_STATEMENTS_MAX {
        let rule = format!("Member must have length less than or equal to {BATCH_STATEMENTS_MAX}");
        constraints.broken(&echo(&statements), "statements", &rule);
    }
    for (at, written) in statements.iter().enumerate() {
        written.constrain(&mut constraints, &format!("statements.{}.member.", at + 1));
    }
    constraints.extend(capacity_error(&units));
    constraints.finish()?;

    let statements = statements.into_iter().map(|written| BatchStatement {
        statement: match written.check_parameters(rules) {
            Ok(()) => written.statement(false),
            Err(refusal) => Err(refusal.into_error(rules)),
        },
        consistent: written.consistent.unwrap_or(false),
        return_old_on_failure: written.returns_old_on_failure(),
    });
    let statements = statements.collect();
    Ok(Request::BatchExecuteStatement(BatchExecuteStatement { statements, capacity: capacity(&units) }))
}

fn echo(statements: &[Written<'_>]) -> String {
    let mut echo = Echo::default();
    echo.list(statements, |echo, written| {
        written.echo(echo, "BatchStatementRequest");
        echo.text(", consistentRead=");
        echo.option(written.consistent.map(|consistent| if consistent { "true" } else { "false" }));
        echo.text(", returnValuesOnConditionCheckFailure=");
        echo.option(written.on_failure.as_deref());
        echo.text(")");
    });
    echo.finish()
}

pub(super) fn encode(out: &mut Vec<u8>, output: &BatchExecuteStatementOutput) -> Result<(), ApiError> {
    object(out, |answer| {
        try_list(answer.member("Responses"), &output.responses, put_response)?;
        put_all_consumed(answer, &output.consumed);
        Ok(())
    })
}

fn put_response(out: &mut Vec<u8>, response: &StatementResponse) -> Result<(), ApiError> {
    object(out, |answer| {
        if let Err(error) = &response.outcome {
            answer.object("Error", |answer| {
                answer.string("Code", code(error));
                answer.string("Message", &error.to_string());
                if let ApiError::ConditionalCheckFailed { item: Some(item) } = error {
                    put_item(answer.member("Item"), item);
                }
            });
        }
        if let Some(table) = &response.table {
            answer.string("TableName", table.as_str());
        }
        match &response.outcome {
            Ok(Some(row)) => put_row(answer.member("Item"), row),
            Ok(None) | Err(_) => Ok(()),
        }
    })
}

/// An error as a batch calls it.
fn code(error: &ApiError) -> &'static str {
    match error {
        ApiError::Validation(_) => "ValidationError",
        ApiError::Throttled => "ThrottlingError",
        ApiError::Exceeded(exceeded) if exceeded.code == "ThrottlingException" => "ThrottlingError",
        ApiError::NotLetIn { .. } => "AccessDenied",
        other => other.code().strip_suffix("Exception").unwrap_or(other.code()),
    }
}
