//! Why an expression, or what stands in for one, is refused: in DynamoDB's words.
//!
//! A variant holds what its message needs; `Display` is the exact text a client reads.

use std::fmt;
use std::sync::Arc;

use larder_model::limits::{EXPRESSION_OPERATORS_MAX, IN_OPERANDS_MAX};
use larder_model::{ApiError, AttributeType, AttributeValue, NumberError, Path, Step};

/// DynamoDB says which expression is wrong, except where the fault says so itself.
fn invalid(kind: ExpressionKind, fault: &Fault) -> String {
    match fault {
        Fault::KeyOperator(_) => fault.to_string(),
        _ => format!("Invalid {kind}: {fault}"),
    }
}

/// Why a request's expressions could not be read, or could not be applied to an item.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text of an expression is wrong, whatever the item.
    #[error("{}", invalid(*kind, fault))]
    Invalid { kind: ExpressionKind, fault: Fault },
    #[error("{0} must not be empty")]
    NoPlaceholders(PlaceholderMap),
    #[error("{map} contains invalid {fault}")]
    Placeholder { map: PlaceholderMap, fault: PlaceholderFault },
    #[error("ExpressionAttributeValues exceeds max size")]
    ValuesTooLarge,
    #[error("Value provided in {map} unused in expressions: keys: {{{}}}", .keys.join(", "))]
    Unused { map: PlaceholderMap, keys: Vec<String> },

    // What an item can still get wrong.
    #[error("The provided expression refers to an attribute that does not exist in the item")]
    MissingAttribute,
    #[error("An operand in the update expression has an incorrect data type")]
    OperandType,
    #[error("The document path provided in the update expression is invalid for update")]
    DocumentPath,
    #[error("{0}")]
    Number(#[from] NumberError),
    #[error("Type mismatch for attribute to update")]
    UpdateTypeMismatch,
    #[error("Item size to update has exceeded the maximum allowed size")]
    ItemTooLarge,

    // What a table's key can still get wrong.
    #[error(
        "The number of query conditions ({given}) exceeds the number of key attributes defined in the schema ({defined})"
    )]
    TooManyKeyConditions { given: usize, defined: usize },
    #[error("Query condition missed key schema element: {0}")]
    MissedKey(String),
    #[error("Query key condition not supported")]
    KeyConditionUnsupported,
    #[error("HASH key attributes {} must have equality conditions specified in the query", .0.join(", "))]
    PartitionNotEqual(Vec<String>),
    #[error(
        "RANGE key attributes {} must have equality conditions specified in the query because a condition is present on key attribute {last}",
        .missing.join(", ")
    )]
    SortNotEqual { missing: Vec<String>, last: String },
    #[error("One or more parameter values were invalid: Condition parameter type does not match schema type")]
    KeyTypeMismatch,

    // The parameters that came before expressions.
    #[error(
        "Can not use both expression and non-expression parameters in the same request: Non-expression parameters: {{{}}} Expression parameters: {{{}}}",
        .legacy.join(", "),
        .expressions.join(", ")
    )]
    Mixed { legacy: Vec<&'static str>, expressions: Vec<&'static str> },
    #[error("ExpressionAttributeNames can only be specified when using expressions")]
    NamesWithoutExpression,
    #[error(
        "ExpressionAttributeValues can only be specified when using expressions{}",
        null_expressions(.0)
    )]
    /// Reads name the expressions that are missing; writes do not.
    ValuesWithoutExpression(Vec<&'static str>),
    #[error("One or more parameter values were invalid: {0}")]
    Legacy(LegacyFault),
    #[error(
        "The BETWEEN condition was provided a range where the lower bound is greater than the upper bound"
    )]
    LegacyBetween,
    #[error("Member must satisfy enum value set: [ADD, DELETE, PUT]' for Action")]
    UnknownAction,
    #[error("Attempted conditional constraint is not an indexable operation")]
    NotIndexable,
    #[error("ConditionalOperator cannot be used without Filter or Expected")]
    OperatorWithoutConditions,
    #[error("ConditionalOperator can only be used when Filter or Expected has two or more elements")]
    OperatorForOneCondition,
}

/// Which parameter of a request an expression is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpressionKind {
    Condition,
    Filter,
    KeyCondition,
    Projection,
    Update,
}

impl fmt::Display for ExpressionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Condition => "ConditionExpression",
            Self::Filter => "FilterExpression",
            Self::KeyCondition => "KeyConditionExpression",
            Self::Projection => "ProjectionExpression",
            Self::Update => "UpdateExpression",
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlaceholderMap {
    Names,
    Values,
}

impl fmt::Display for PlaceholderMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Names => "ExpressionAttributeNames",
            Self::Values => "ExpressionAttributeValues",
        })
    }
}

/// What is wrong with a placeholder, or with the name it stands for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlaceholderFault {
    #[error("key: Syntax error; key: \"{0}\"")]
    Key(String),
    #[error("key: The expression attribute map contains an empty key;")]
    EmptyKey,
    #[error("key: The expression attribute map contains a key that is too long;")]
    LongKey,
    #[error("value: Empty attribute name for key {0}")]
    EmptyName(String),
    #[error("value: Attribute name is too large, must be less than 65536 bytes for key {0}")]
    LongName(String),
}

/// What is wrong with the text of an expression.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    #[error("The expression can not be empty;")]
    Empty,
    #[error("Expression size has exceeded the maximum allowed size;")]
    TooLong,
    #[error("Syntax error; token: \"{token}\", near: \"{near}\"")]
    Syntax { token: String, near: String },
    #[error("The expression has redundant parentheses;")]
    RedundantParentheses,
    #[error("The expression contains too many operators; operator count: {0}")]
    TooManyOperators(usize),
    #[error("Invalid function name; function: {0}")]
    UnknownFunction(String),
    #[error("The function is not allowed to be used this way in an expression; function: {0}")]
    MisusedFunction(&'static str),
    #[error("The function is not allowed in {place} expression; function: {function}")]
    ForeignFunction { place: &'static str, function: &'static str },
    #[error("List index is not within the allowable range; index: [{0}]")]
    IndexTooLarge(String),
    #[error("The document path has too many nesting levels; nesting levels: {0}")]
    PathTooDeep(usize),
    #[error("Attribute name is a reserved keyword; reserved keyword: {0}")]
    Reserved(String),
    #[error("An expression attribute name used in the document path is not defined; attribute name: {0}")]
    UndefinedName(String),
    #[error("An expression attribute value used in expression is not defined; attribute value: {0}")]
    UndefinedValue(String),
    #[error(
        "Incorrect number of operands for operator or function; operator or function: {operator}, number of operands: {count}"
    )]
    OperandCount { operator: &'static str, count: usize },
    #[error("The IN operator is provided with too many operands; number of operands: {0}")]
    TooManyInOperands(usize),
    #[error("Operator or function requires a document path; operator or function: {0}")]
    NotAPath(&'static str),
    #[error(
        "The first operand must be distinct from the remaining operands for this operator or function; operator: {operator}, first operand: {}",
        bracketed(.first)
    )]
    NotDistinct { operator: &'static str, first: Path },
    #[error(
        "Incorrect operand type for operator or function; operator or function: {operator}, operand type: {kind}"
    )]
    OperandType { operator: &'static str, kind: AttributeType },
    #[error(
        "Incorrect operand type for operator or function; operator or function: attribute_type, operand type: {{S,HDS,N,FS,BS,NULL,DOUBLE,NS,DECIMAL,SS,DECIMALSET,BOOL,HD,DICT,INTSET,M,L,B,FLOAT,INT,DOUBLESET}}"
    )]
    TypeNameNotAValue,
    #[error(
        "Incorrect operand type for operator or function; operator: {operator}, operand type: {}, typeSet: ALLOWED_FOR_ADD_OPERAND",
        long_type_name(*.kind)
    )]
    ClauseOperandType { operator: &'static str, kind: AttributeType },
    #[error("Invalid attribute type name found; type: {0}, valid types: {{N,BS,L,B,NULL,M,S,SS,NS,BOOL}}")]
    UnknownType(String),
    #[error(
        "The BETWEEN operator requires same data type for lower and upper bounds; lower bound operand: AttributeValue: {}, upper bound operand: AttributeValue: {}",
        described(.0),
        described(.1)
    )]
    BetweenTypes(Arc<AttributeValue>, Arc<AttributeValue>),
    #[error(
        "The BETWEEN operator requires upper bound to be greater than or equal to lower bound; lower bound operand: AttributeValue: {}, upper bound operand: AttributeValue: {}",
        described(.0),
        described(.1)
    )]
    BetweenOrder(Arc<AttributeValue>, Arc<AttributeValue>),
    #[error("The \"{0}\" section can only be used once in an update expression;")]
    RepeatedSection(&'static str),
    #[error(
        "Two document paths overlap with each other; must remove or rewrite one of these paths; path one: {}, path two: {}",
        bracketed(.0),
        bracketed(.1)
    )]
    PathsOverlap(Path, Path),
    #[error(
        "Two document paths conflict with each other; must remove or rewrite one of these paths; path one: {}, path two: {}",
        bracketed(.0),
        bracketed(.1)
    )]
    PathsConflict(Path, Path),

    // Key conditions take a part of what conditions can say.
    #[error("Invalid operator used in KeyConditionExpression: {0}")]
    KeyOperator(&'static str),
    #[error("KeyConditionExpressions cannot contain nested operations")]
    KeyNestedOperation,
    #[error("KeyConditionExpressions cannot have conditions on nested attributes")]
    KeyNestedAttribute,
    #[error("KeyConditionExpressions must only contain one condition per key")]
    KeyRepeated,
    #[error(
        "Invalid condition in KeyConditionExpression: {0} operator must have the key attribute as its first operand"
    )]
    KeyNotFirst(&'static str),
    #[error("Invalid condition in KeyConditionExpression: Multiple attribute names used in one condition")]
    KeyManyNames,
    #[error("Invalid condition in KeyConditionExpression: No key attribute specified")]
    KeyNoName,
}

/// What is wrong with a parameter that came before expressions.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LegacyFault {
    /// An operator DynamoDB does not have; names are taken in upper case only.
    #[error("Invalid comparison operator")]
    UnknownOperator,
    #[error("Value and AttributeValueList cannot be used together for Attribute: {0}")]
    ValueAndList(String),
    #[error("Exists and ComparisonOperator cannot be used together for Attribute: {0}")]
    ExistsAndOperator(String),
    #[error(
        "Value or AttributeValueList must be used with ComparisonOperator: {operator} for Attribute: {attribute}"
    )]
    OperatorWithoutValue { operator: &'static str, attribute: String },
    #[error("AttributeValueList can only be used with a ComparisonOperator for Attribute: {0}")]
    ListWithoutOperator(String),
    #[error("Value must be provided when Exists is {exists} for Attribute: {attribute}")]
    ExistsWithoutValue { exists: &'static str, attribute: String },
    #[error("Value cannot be used when Exists is false for Attribute: {0}")]
    AbsentWithValue(String),
    #[error("Invalid number of argument(s) for the {0} ComparisonOperator")]
    ArgumentCount(&'static str),
    #[error("AttributeValues inside AttributeValueList must be of same type")]
    MixedTypes,
    #[error("ComparisonOperator {operator} is not valid for {kind} AttributeValue type")]
    ArgumentType { operator: &'static str, kind: AttributeType },
    #[error("Only DELETE action is allowed when no attribute value is specified")]
    ActionWithoutValue,
    #[error("DELETE action with value is not supported for the type {0}")]
    DeleteType(AttributeType),
    #[error("ADD action is not supported for the type {0}")]
    AddType(AttributeType),
    #[error("Duplicate value in attribute name: {0}")]
    DuplicateName(String),
    /// An expression has a limit of its own.
    #[error("Too many conditions: {0}, where at most {EXPRESSION_OPERATORS_MAX} can be given")]
    TooManyConditions(usize),
    #[error(
        "Too many values for the IN ComparisonOperator: {0}, where at most {IN_OPERANDS_MAX} can be given"
    )]
    TooManyInValues(usize),
}

impl From<LegacyFault> for Error {
    fn from(fault: LegacyFault) -> Self {
        Self::Legacy(fault)
    }
}

impl From<Error> for ApiError {
    fn from(error: Error) -> Self {
        Self::Validation(error.to_string())
    }
}

fn null_expressions(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [name] => format!(": {name} is null"),
        _ => format!(": {} are null", names.join(" and ")),
    }
}

/// A path as a list of its parts: `[a, b, [0]]`.
fn bracketed(path: &Path) -> String {
    let parts: Vec<String> = std::iter::once(path.root.to_string())
        .chain(path.steps.iter().map(|step| match step {
            Step::Field(name) => name.to_string(),
            Step::Index(at) => format!("[{at}]"),
        }))
        .collect();
    format!("[{}]", parts.join(", "))
}

/// ADD and DELETE alone spell types out.
fn long_type_name(kind: AttributeType) -> &'static str {
    match kind {
        AttributeType::S => "STRING",
        AttributeType::N => "NUMBER",
        AttributeType::B => "Binary",
        AttributeType::L => "LIST",
        AttributeType::M => "MAP",
        other => other.name(),
    }
}

/// `{S:text}`, as BETWEEN shows its bounds.
fn described(value: &AttributeValue) -> String {
    format!("{{{}:{}}}", value.kind(), Described(value))
}

struct Described<'a>(&'a AttributeValue);

impl fmt::Display for Described<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            AttributeValue::S(text) => f.write_str(text),
            AttributeValue::N(number) => write!(f, "{number}"),
            AttributeValue::B(bytes) => f.write_str(&base64(bytes)),
            AttributeValue::Bool(value) => write!(f, "{value}"),
            AttributeValue::Null => f.write_str("true"),
            AttributeValue::Ss(set) => list(f, set.iter()),
            AttributeValue::Ns(set) => list(f, set.iter()),
            AttributeValue::Bs(set) => list(f, set.iter().map(|bytes| base64(bytes))),
            AttributeValue::L(values) => list(f, values.iter().map(described)),
            AttributeValue::M(map) => {
                let entries = map.iter().map(|(name, value)| format!("{name}={}", described(value)));
                write!(f, "{{{}}}", entries.collect::<Vec<_>>().join(", "))
            }
        }
    }
}

fn list(f: &mut fmt::Formatter<'_>, parts: impl Iterator<Item = impl fmt::Display>) -> fmt::Result {
    let parts: Vec<String> = parts.map(|part| part.to_string()).collect();
    write!(f, "[{}]", parts.join(", "))
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let bits =
            chunk.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * place) & 63) as usize];
            text.push(if place <= chunk.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shown_in_base64() {
        for (bytes, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")]
        {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }
}
