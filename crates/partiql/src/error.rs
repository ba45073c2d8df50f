//! Why a statement is refused: in DynamoDB's words, as far as they are known.
//!
//! Those of [`Error::Malformed`] stand behind one beginning; what comes after a statement was read does not.

use std::fmt;

use larder_expr::Fault;
use larder_model::limits::{IN_OPERANDS_MAX, IN_PARTITIONS_MAX, STATEMENT_DEPTH_MAX};
use larder_model::{ApiError, AttributeType, NumberError};

#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text is no statement.
    #[error("Statement wasn't well formed, can't be processed: {0}")]
    Malformed(Syntax),
    #[error("Unexpected path component at {0}")]
    CallOfColumn(Place),
    #[error("Aliasing is not supported")]
    Alias,
    #[error("A path may contain at most 2 components in the FROM clause")]
    SourceParts,
    #[error("FROM clause may only contain a single table name in data manipulation statements at {0}")]
    InsertIntoIndex(Place),

    // What a statement can get wrong by itself.
    #[error("Number of parameters in request and statement don't match.")]
    TooFewParameters,
    #[error("{0}")]
    Expression(#[from] Fault),
    #[error("{0}")]
    Number(#[from] NumberError),
    #[error("Unrecognized function: {0} at {1}")]
    Function(String, Place),
    /// A function that is known, in a place where its result is of no use.
    #[error("Unsupported function: {0}")]
    Misused(&'static str),
    #[error("WHERE clause must contain an expression that resolves to a boolean")]
    NotACondition,
    #[error("Unsupported operand in expression: {0}")]
    NotAnOperand(&'static str),
    #[error("MISSING must be compared using IS operator")]
    MissingCompared,
    #[error("Value of type MISSING is not supported")]
    MissingValue,
    #[error("The item of an INSERT must be a map")]
    NotAnItem,
    #[error("A value can not hold {0}")]
    NotAValue(&'static str),
    #[error("Unsupported data type in Bag. DynamoDB only supports either numbers or strings in bags")]
    MixedSet,
    #[error("Empty bags are not supported")]
    EmptySet,
    #[error("One or more parameter values were invalid: Input collection{} contains duplicates.", listed(.0))]
    RepeatedMember(Vec<String>),
    #[error("Path component cannot be an empty string")]
    EmptyName,
    #[error(
        "Nesting Levels have exceeded supported limits: Attributes in the item have nested levels beyond supported limit"
    )]
    TooDeep,
    #[error(
        "The IN operator is provided with too many operands; number of operands: {0}, limit: {IN_OPERANDS_MAX}"
    )]
    TooManyInOperands(usize),
    #[error("The IN operator is provided with no operands")]
    NoInOperands,
    #[error("The first argument to {0} must equal the assignment value at {1}")]
    OtherSet(&'static str, Place),
    #[error("The second argument to {0} must be a value with type SET")]
    NotASet(&'static str),
    #[error("Argument to ORDER BY must be of type VariableReference. Type: Path")]
    OrderByPath,
    #[error(
        "Invalid returning clause: RETURNING {} *. Only RETURNING ALL OLD * is allowed in DELETE statements.",
        returning(*.0)
    )]
    DeleteReturning(crate::Returning),
    #[error("EXISTS can only be used in ExecuteTransaction write requests.")]
    ExistsAlone,
    #[error("This operation is not supported on an index")]
    WriteToIndex,
    #[error("Invalid table or index name: {0}")]
    SourceName(String),

    // What a table's key can still get wrong.
    #[error("Where clause does not contain a mandatory equality on all key attributes")]
    KeyNotGiven,
    #[error("Multiple conditions on same key {0}. Only single item Update/Insert/Delete are supported")]
    KeyGivenTwice(String),
    #[error("Key value must be of type S, N, or B. Key name: {name}, Key type: {kind}")]
    KeyValue { name: String, kind: AttributeType },
    #[error("Key attribute's data type should match its data type in table's schema: Key {0}")]
    KeyType(String),
    #[error("Overlapping conditions with range keys are not supported in where clause")]
    Overlap,
    #[error(
        "Too many values of the partition key in the WHERE clause: {0}, where at most {IN_PARTITIONS_MAX} can be given"
    )]
    TooManyPartitions(usize),
    #[error("Select statements within {0} must specify the primary key in the where clause.")]
    SelectWithoutKey(&'static str),
    #[error("Must have WHERE clause in the statement when using ORDER BY clause.")]
    OrderWithoutWhere,
    #[error("Attribute {0} in ORDER BY clause must be part of the primary key")]
    OrderByOther(String),
    #[error(
        "Must have at least one non-optional hash key condition in WHERE clause when using ORDER BY clause."
    )]
    OrderWithoutPartition,
    #[error(
        "Must have hash key in ORDER BY clause when more than one hash key condition specified in WHERE clause."
    )]
    OrderOfPartitions,
    #[error(
        "PartiQL statements cannot be executed on tables with multi-attribute HASH keys or multi-attribute RANGE keys."
    )]
    ManyKeyAttributes,
}

/// Why a text is no statement.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Syntax {
    #[error("Expected data manipulation")]
    ExpectedStatement,
    #[error("Unexpected keyword")]
    Keyword,
    #[error("Unexpected term")]
    Term,
    #[error("Unexpected token after expression")]
    After,
    #[error("Expected {0}")]
    Expected(&'static str),
    #[error("Expected identifier for simple path")]
    ExpectedTable,
    #[error("Invalid path dot component")]
    Step,
    #[error("Missing right-hand side expression of infix operator")]
    RightSide,
    #[error("Expected identifier or an expression but found unexpected keyword '{0}' in a select list.")]
    SelectKeyword(String),
    #[error("Unexpected token after semicolon. (Only one query is allowed.)")]
    AfterSemicolon,
    #[error("Unsupported operator: LIKE")]
    Like,
    #[error("Malformed RETURNING clause; expected RETURNING <ALL|MODIFIED> <OLD|NEW> *")]
    Returning,
    #[error("Expected type name")]
    TypeName,
    #[error("Unexpected character '{0}'")]
    Character(char),
    #[error("A quoted text, a quoted name or a comment is not closed")]
    Unclosed,
    #[error("More than {STATEMENT_DEPTH_MAX} levels of nesting")]
    Deep,
}

/// Where in a text something is: line and column from 1 on, and how long it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub line: usize,
    pub column: usize,
    pub length: usize,
}

impl Place {
    pub(crate) fn of(text: &str, at: usize, length: usize) -> Self {
        let before = &text[..at];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Self {
            line: 1 + before.matches('\n').count(),
            column: 1 + before[line_start..].chars().count(),
            length,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.line, self.column, self.length)
    }
}

/// Members are shown if they are text.
fn listed(members: &[String]) -> String {
    if members.is_empty() { String::new() } else { format!(" [{}]", members.join(", ")) }
}

fn returning(returning: crate::Returning) -> &'static str {
    match returning {
        crate::Returning::AllOld => "ALL OLD",
        crate::Returning::ModifiedOld => "MODIFIED OLD",
        crate::Returning::AllNew => "ALL NEW",
        crate::Returning::ModifiedNew => "MODIFIED NEW",
    }
}

impl From<Error> for ApiError {
    fn from(error: Error) -> Self {
        Self::Validation(error.to_string())
    }
}
