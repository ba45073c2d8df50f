//! Where Larder and dynoxide are known to answer differently, in one place.
//!
//! An entry is as narrow as it can be said: by the request, or by the words of both answers. The test prints how
//! often each was met. A fault of Larder's is mended, not listed.

use serde_json::Value;

use crate::requests::{Manner, Step};
use crate::sides::Answer;

/// One step and what became of it.
#[derive(Debug)]
pub(crate) struct Case<'a> {
    pub(crate) step: &'a Step,
    pub(crate) ours: &'a Answer,
    pub(crate) theirs: &'a Answer,
}

/// Who is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verdict {
    /// Nobody has seen what AWS does: which of two faults is named first, mostly.
    Unknown,
    /// Larder is, or does what it means to.
    Ours,
}

#[derive(Debug)]
pub(crate) struct Difference {
    pub(crate) verdict: Verdict,
    pub(crate) what: &'static str,
    pub(crate) applies: fn(&Case<'_>) -> bool,
}

pub(crate) fn known(case: &Case<'_>) -> Option<&'static Difference> {
    LIST.iter().find(|difference| (difference.applies)(case))
}

const LIST: &[Difference] = &[
    Difference {
        verdict: Verdict::Unknown,
        what: "which of several overlapping pairs of paths is named, and in which order",
        applies: |case| message(case.ours).contains(OVERLAP) && message(case.theirs).contains(OVERLAP),
    },
    Difference {
        verdict: Verdict::Unknown,
        what: "paths that overlap are found before operands of a wrong type, as dynalite does",
        applies: |case| {
            message(case.ours).contains(OVERLAP) && message(case.theirs).contains("Incorrect operand type")
        },
    },
    Difference {
        verdict: Verdict::Unknown,
        what: "what a request says by itself is refused before what it says to its table",
        applies: |case| {
            let alone = [
                OVERLAP,
                "Two document paths conflict",
                "unused in expressions: keys: {",
                "is not defined; attribute",
                "Attribute name is a reserved keyword",
            ];
            let beside = [
                "ALL_PROJECTED_ATTRIBUTES can be used only when Querying using an IndexName",
                "The table does not have the specified index",
                "The provided starting key does not match the range key predicate",
                "The provided exclusive start key is invalid",
                "The provided starting key is invalid",
                "Transaction request cannot include multiple operations on one item",
                "Cannot specify the ProjectionExpression when choosing to get ALL_ATTRIBUTES",
                "Condition parameter type does not match schema type",
                "Select type ALL_ATTRIBUTES is not supported for global secondary index",
                "Filter Expression can only contain non-primary key attributes",
                KEY_MISMATCH,
                "The query can return at most one row and cannot be restarted",
                EMPTY_KEY,
                "The provided starting key is outside query boundaries",
                "Consistent reads are not supported on global secondary indexes",
                "must have equality conditions specified in the query",
                "Query condition missed key schema element",
                "Query key condition not supported",
            ];
            alone.iter().any(|words| message(case.ours).contains(words))
                && beside.iter().any(|words| message(case.theirs).contains(words))
        },
    },
    Difference {
        verdict: Verdict::Unknown,
        what: "an update of a key attribute is refused before the condition is looked at",
        applies: |case| {
            message(case.ours).contains("This attribute is part of the key")
                && kind(case.theirs) == "ConditionalCheckFailedException"
        },
    },
    Difference {
        verdict: Verdict::Unknown,
        what: "where regions differ a Scan's words are us-east-1's: Select without an envelope, more of a starting key",
        applies: |case| {
            let start = "The provided starting key is invalid";
            let of_start = |words: &str| words.starts_with(start) || words == KEY_MISMATCH;
            case.step.operation == "Scan"
                && (message(case.theirs).strip_prefix("1 validation error detected: ")
                    == Some(message(case.ours))
                    || (of_start(message(case.ours))
                        && (message(case.theirs) == start
                            || message(case.theirs).contains("Type mismatch for Index Key"))))
        },
    },
    Difference {
        verdict: Verdict::Unknown,
        what: "a number too long is found at its SET, before what is wrong with the actions after it",
        applies: |case| {
            let too_long = "Attempting to store more than 38 significant digits in a Number";
            let later = [
                "The provided expression refers to an attribute that does not exist in the item",
                "An operand in the update expression has an incorrect data type",
                INVALID_PATH,
            ];
            let reason = |answer, words: &str| reasons(answer).any(|reason| reason["Message"] == words);
            (message(case.ours) == too_long && later.contains(&message(case.theirs)))
                || (reason(case.ours, too_long) && later.iter().any(|words| reason(case.theirs, words)))
        },
    },
    Difference {
        verdict: Verdict::Unknown,
        what: "which of several expressions at fault in a transaction is named",
        applies: |case| {
            case.step.operation == "TransactWriteItems"
                && [case.ours, case.theirs].iter().all(|answer| message(answer).starts_with("Invalid "))
        },
    },
    Difference {
        verdict: Verdict::Ours,
        what: "a reserved word is found before a clause that is there twice, as dynalite does",
        applies: |case| {
            message(case.ours).contains("Attribute name is a reserved keyword")
                && message(case.theirs).contains("section can only be used once in an update expression")
        },
    },
    Difference {
        verdict: Verdict::Unknown,
        what: "what is not defined is found before bounds in the wrong order, and before ReturnValues that cannot be",
        applies: |case| {
            message(case.ours).contains("is not defined; attribute ")
                && (message(case.theirs).contains("The BETWEEN operator requires upper bound")
                    || message(case.theirs).ends_with("ReturnValues can only be ALL_OLD or NONE"))
        },
    },
    Difference {
        verdict: Verdict::Unknown,
        what: "which of several undefined names is named",
        applies: |case| {
            let words = "An expression attribute name used in the document path is not defined";
            message(case.ours).contains(words) && message(case.theirs).contains(words)
        },
    },
    Difference {
        verdict: Verdict::Unknown,
        what: "the key of an item collection is a number as it is stored, not as it was sent",
        applies: |case| {
            let (Ok(ours), Ok(theirs)) = (case.ours, case.theirs) else { return false };
            let key = |answer: &Value| answer["ItemCollectionMetrics"]["ItemCollectionKey"]["p"]["N"].clone();
            key(ours).is_string() && key(ours) != key(theirs)
        },
    },
    Difference {
        verdict: Verdict::Unknown,
        what: "an empty key in a transaction is found before two writes of one item",
        applies: |case| {
            message(case.ours).contains(EMPTY_KEY)
                && message(case.theirs)
                    == "Transaction request cannot include multiple operations on one item"
        },
    },
    Difference {
        verdict: Verdict::Unknown,
        what: "which of several keys at fault in a batch is named; with two tables dynoxide itself varies",
        applies: |case| {
            let faults = [KEY_MISMATCH, EMPTY_KEY, "Type mismatch for Index Key", DUPLICATES];
            let names = |answer| faults.iter().any(|words| message(answer).contains(words));
            case.step.operation.starts_with("Batch") && names(case.ours) && names(case.theirs)
        },
    },
    Difference {
        verdict: Verdict::Unknown,
        what: "which of several key attributes in a filter is named",
        applies: |case| {
            let words =
                "Filter Expression can only contain non-primary key attributes: Primary key attribute: ";
            message(case.ours).starts_with(words) && message(case.theirs).starts_with(words)
        },
    },
    Difference {
        verdict: Verdict::Unknown,
        what: "an empty value in a condition on an index's key, or on a sort key, is refused as in one on a partition key",
        applies: |case| case.step.operation == "Query" && message(case.ours).contains(EMPTY_KEY),
    },
    Difference {
        verdict: Verdict::Ours,
        what: "an update that only removes does not create the item",
        applies: |case| {
            let (Ok(ours), Ok(theirs)) = (case.ours, case.theirs) else { return false };
            let created = |member| ours.get(member).is_none() && theirs.get(member).is_some();
            let costs_more = ours.get("ConsumedCapacity").is_some()
                && ours["ConsumedCapacity"] != theirs["ConsumedCapacity"];
            removes_only(&case.step.request) && (created("Item") || created("Attributes") || costs_more)
        },
    },
    Difference {
        verdict: Verdict::Ours,
        what: "an item that was not there has no old attributes; dynoxide returns its key",
        applies: |case| {
            let (Ok(ours), Ok(theirs)) = (case.ours, case.theirs) else { return false };
            case.step.request["ReturnValues"] == "ALL_OLD"
                && ours.get("Attributes").is_none()
                && theirs["Attributes"].as_object().map(serde_json::Map::len)
                    == case.step.request["Key"].as_object().map(serde_json::Map::len)
        },
    },
    Difference {
        verdict: Verdict::Ours,
        what: "UPDATED_OLD and UPDATED_NEW return the touched paths only; dynoxide returns whole attributes",
        applies: |case| {
            let (Ok(ours), Ok(theirs)) = (case.ours, case.theirs) else { return false };
            let nested =
                case.step.request["UpdateExpression"].as_str().is_some_and(|text| text.contains(['.', '[']));
            let touched = members(&ours["Attributes"]).all(|(name, value)| {
                let whole = &theirs["Attributes"][name];
                value == whole || (!value["L"].is_null() || !value["M"].is_null()) && !whole.is_null()
            });
            case.step.operation == "UpdateItem" && nested && touched
        },
    },
    Difference {
        verdict: Verdict::Ours,
        what: "numbers in sets are equal by value; dynoxide compares their text",
        applies: |case| {
            let request = case.step.request.to_string();
            request.contains("contains(") && request.contains("{\"N\":\"0.10\"}")
        },
    },
    Difference {
        verdict: Verdict::Ours,
        what: "a value that is not defined is missed whether or not there are items to filter",
        applies: |case| {
            message(case.ours)
                .starts_with("Invalid FilterExpression: An expression attribute value used in expression")
                && case.theirs.is_ok()
        },
    },
    Difference {
        verdict: Verdict::Ours,
        what: "a new index leaves out items whose value is of the wrong type for it",
        applies: |case| {
            let (Ok(ours), Ok(theirs)) = (case.ours, case.theirs) else { return false };
            case.step.request["IndexName"].as_str().is_some_and(|name| name.starts_with("added"))
                && members(&case.step.request).count() == 2
                && ours["ScannedCount"].as_u64() < theirs["ScannedCount"].as_u64()
        },
    },
    Difference {
        verdict: Verdict::Ours,
        what: "a token used for another request is refused in the service's words",
        applies: |case| {
            let mismatch = "IdempotentParameterMismatchException";
            kind(case.ours) == mismatch && kind(case.theirs) == mismatch
        },
    },
    Difference {
        verdict: Verdict::Ours,
        what: "`size` without parentheses is a reserved word",
        applies: |case| {
            message(case.ours).ends_with("Attribute name is a reserved keyword; reserved keyword: size")
                && message(case.theirs).contains("Syntax error; token:")
        },
    },
    Difference {
        verdict: Verdict::Ours,
        what: "a name or value that is not defined is refused before a transaction begins",
        applies: |case| {
            case.step.operation == "TransactWriteItems"
                && message(case.ours).contains("is not defined; attribute ")
                && (case.theirs.is_ok() || kind(case.theirs) == "TransactionCanceledException")
        },
    },
    Difference {
        verdict: Verdict::Ours,
        what: "paths that conflict are refused wherever they stand; dynoxide finds those of one kind of clause",
        applies: |case| message(case.ours).contains("Two document paths conflict with each other"),
    },
    Difference {
        verdict: Verdict::Ours,
        what: "operands of a wrong type are refused before anything is read; dynoxide compares them as unequal",
        applies: |case| {
            let said = message(case.ours);
            let unordered = ["<,", "<=,", ">,", ">=,", "BETWEEN,"]
                .iter()
                .any(|operator| said.contains(&format!("operator or function: {operator} operand type: ")))
                && ["S", "N", "B"].iter().all(|kind| !said.ends_with(&format!("operand type: {kind}")));
            let words = [
                "Incorrect operand type for operator or function; operator: ",
                "Incorrect operand type for operator or function; operator or function: +",
                "Incorrect operand type for operator or function; operator or function: -",
                "Incorrect operand type for operator or function; operator or function: begins_with",
                "Incorrect operand type for operator or function; operator or function: list_append",
                "The BETWEEN operator requires",
                "Invalid attribute type name found",
                "The first operand must be distinct",
            ];
            unordered || words.iter().any(|words| said.contains(words))
        },
    },
    Difference {
        verdict: Verdict::Ours,
        what: "a global index cannot be asked for what it does not project",
        applies: |case| {
            let Some((_, names)) = message(case.ours).split_once(" does not project [") else { return false };
            let names: Vec<&str> = names.trim_end_matches(']').split(", ").collect();
            let Ok(theirs) = case.theirs else { return true };
            let mut items = theirs["Items"].as_array().into_iter().flatten();
            items.all(|item| names.iter().all(|name| item.get(name).is_none()))
        },
    },
    Difference {
        verdict: Verdict::Ours,
        what: "a read of a local index takes from the table what the index does not project",
        applies: |case| {
            let (Ok(ours), Ok(theirs)) = (case.ours, case.theirs) else { return false };
            case.step.request["IndexName"] == "local"
                && ours["ScannedCount"] == theirs["ScannedCount"]
                && (case.step.request.get("ProjectionExpression").is_some()
                    || case.step.request["Select"] == "ALL_ATTRIBUTES")
        },
    },
    Difference {
        verdict: Verdict::Ours,
        what: "a scan of a local index costs the index; dynoxide says the table",
        applies: |case| {
            let (Ok(ours), Ok(theirs)) = (case.ours, case.theirs) else { return false };
            case.step.operation == "Scan"
                && case.step.request["IndexName"] == "local"
                && ours["Items"] == theirs["Items"]
                && ours["ConsumedCapacity"]["CapacityUnits"] == theirs["ConsumedCapacity"]["CapacityUnits"]
        },
    },
    Difference {
        verdict: Verdict::Ours,
        what: "keys that are equal as numbers are duplicates in a batch, however they are written",
        applies: |case| {
            let request = case.step.request.to_string();
            case.step.operation == "BatchGetItem"
                && message(case.ours) == DUPLICATES
                && (request.contains("\"1e1\"") || request.contains("\"1.0\""))
        },
    },
    Difference {
        verdict: Verdict::Ours,
        what: "a query of a table without a sort key goes on after its start key; dynoxide begins again",
        applies: |case| {
            let Ok(ours) = case.ours else { return false };
            let start = case.step.request.get("ExclusiveStartKey").unwrap_or(&ours[0]["LastEvaluatedKey"]);
            case.step.manner == Manner::Pages
                && members(start).count() == 1
                && (case.theirs.is_ok() || kind(case.theirs) == "EndlessPages")
        },
    },
    Difference {
        verdict: Verdict::Ours,
        what: "what comes after a made-up start key in an index depends on the order of items with equal keys",
        applies: |case| {
            case.step.manner == Manner::IndexPages
                && case.ours.is_ok()
                && case.theirs.is_ok()
                && case.step.request.get("ExclusiveStartKey").is_some()
        },
    },
    Difference {
        verdict: Verdict::Ours,
        what: "what is wrong with an expression is said with the expression's name",
        applies: |case| {
            ["Invalid KeyConditionExpression: ", "Invalid FilterExpression: "]
                .iter()
                .any(|name| message(case.ours).strip_prefix(name) == Some(message(case.theirs)))
        },
    },
    Difference {
        verdict: Verdict::Ours,
        what: "a key condition is read as any condition, then looked at; dynoxide reads no other",
        applies: |case| {
            message(case.ours).contains("KeyConditionExpression")
                && (message(case.theirs).starts_with("Unexpected ")
                    || message(case.theirs).starts_with("Expected ")
                    || message(case.theirs).ends_with("unsupported operator with a value on the left")
                    || message(case.theirs).ends_with("cannot have conditions on nested attributes")
                    || message(case.theirs).starts_with("Attribute name is a reserved keyword"))
        },
    },
    Difference {
        verdict: Verdict::Ours,
        what: "batches and transactions word a bad value in the older way; dynoxide does so only behind its server",
        applies: |case| {
            (case.step.operation.starts_with("Batch") || case.step.operation.starts_with("Transact"))
                && kind(case.ours) == "ValidationException"
                && ["The parameter cannot be converted to a numeric value", "Input collection"]
                    .iter()
                    .any(|words| message(case.ours).contains(words) && message(case.theirs).contains(words))
        },
    },
    Difference {
        verdict: Verdict::Ours,
        what: "a path into a key is refused",
        applies: |case| {
            let words = "Key attributes must be scalars";
            message(case.ours).starts_with(words)
                || reasons(case.ours)
                    .any(|reason| reason["Message"].as_str().is_some_and(|said| said.starts_with(words)))
        },
    },
    Difference {
        verdict: Verdict::Ours,
        what: "dynoxide's words for a missing member are its JSON reader's",
        applies: |case| {
            message(case.theirs).starts_with("missing field") && kind(case.ours) == "ValidationException"
        },
    },
    Difference {
        verdict: Verdict::Ours,
        what: "TransactGetItems returns what is projected; dynoxide adds the key",
        applies: |case| {
            let (Ok(ours), Ok(theirs)) = (case.ours, case.theirs) else { return false };
            case.step.operation == "TransactGetItems"
                && responses(ours).zip(responses(theirs)).all(|(ours, theirs)| {
                    members(&theirs["Item"]).all(|(name, value)| {
                        ["p", "r"].contains(&name.as_str()) || ours["Item"].get(name) == Some(value)
                    }) && members(&ours["Item"]).all(|(name, value)| theirs["Item"].get(name) == Some(value))
                })
        },
    },
    Difference {
        verdict: Verdict::Ours,
        what: "TransactWriteItems reports item collections when asked; dynoxide does not",
        applies: |case| {
            let (Ok(ours), Ok(theirs)) = (case.ours, case.theirs) else { return false };
            case.step.operation == "TransactWriteItems"
                && ours.get("ItemCollectionMetrics").is_some()
                && theirs.get("ItemCollectionMetrics").is_none()
        },
    },
    Difference {
        verdict: Verdict::Ours,
        what: "an index that is not there is not a global one",
        applies: |case| {
            message(case.ours) == "The table does not have the specified index: absent"
                && message(case.theirs) == "Consistent reads are not supported on global secondary indexes"
        },
    },
    Difference {
        verdict: Verdict::Ours,
        what: "a key attribute cannot be updated in a transaction either; dynoxide tries",
        applies: |case| {
            reasons(case.ours).any(|reason| {
                reason["Message"]
                    .as_str()
                    .is_some_and(|words| words.contains("This attribute is part of the key"))
            })
        },
    },
];

const OVERLAP: &str = "Two document paths overlap with each other";
const INVALID_PATH: &str = "The document path provided in the update expression is invalid for update";
const KEY_MISMATCH: &str = "The provided key element does not match the schema";
const EMPTY_KEY: &str = "The AttributeValue for a key attribute cannot contain an empty";
const DUPLICATES: &str = "Provided list of item keys contains duplicates";

fn message(answer: &Answer) -> &str {
    member(answer, "message")
}

fn kind(answer: &Answer) -> &str {
    member(answer, "type")
}

fn member<'a>(answer: &'a Answer, name: &str) -> &'a str {
    match answer {
        Ok(_) => "",
        Err(error) => error.get(name).and_then(Value::as_str).unwrap_or_default(),
    }
}

fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

/// Why each part of a transaction was canceled.
fn reasons(answer: &Answer) -> impl Iterator<Item = &Value> {
    let reasons =
        answer.as_ref().err().and_then(|error| error.get("CancellationReasons")).and_then(Value::as_array);
    reasons.into_iter().flatten()
}

fn responses(body: &Value) -> impl Iterator<Item = &Value> + Clone {
    body["Responses"].as_array().into_iter().flatten()
}

/// Whether an update, or one in a transaction, has no clause that could make an item.
fn removes_only(request: &Value) -> bool {
    let single = request.get("UpdateExpression");
    let parts = request.get("TransactItems").and_then(Value::as_array).into_iter().flatten();
    let updates = parts.filter_map(|part| part.get("Update")?.get("UpdateExpression")).chain(single);
    updates.filter_map(Value::as_str).any(|update| {
        let update = update.to_uppercase();
        ["SET ", "ADD "].iter().all(|word| !update.contains(word))
    })
}
