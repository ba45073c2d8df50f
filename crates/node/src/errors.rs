//! Errors as JavaScript gets them: a kind, by which `lib/errors.js` finds the class, a message, and the fields of it.

use larder::{Error, store};
use serde_json::{Value as Json, json};

use crate::loads::Thrown;

/// Why a call failed.
pub(crate) enum Failure {
    Layer(Box<Error>),
    /// The schema that was to be opened has errors: all of them, as `larder check` prints them.
    Schema(String),
    /// What `lib` should not have sent.
    Misuse(String),
    Bug,
}

impl<E: Into<Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Layer(Box::new(error.into()))
    }
}

impl Failure {
    pub(crate) fn misuse(text: impl Into<String>) -> Self {
        Self::Misuse(text.into())
    }

    pub(crate) fn bug() -> Self {
        Self::Bug
    }

    pub(crate) fn json(&self) -> Json {
        match self {
            Self::Layer(error) => error_json(error),
            Self::Schema(text) => json!({ "kind": "schema", "message": text }),
            Self::Misuse(text) => json!({ "kind": "not_allowed", "message": text }),
            Self::Bug => json!({
                "kind": "bug",
                "message": "Larder stopped in the middle of this: that is a mistake in Larder; stderr says where",
            }),
        }
    }
}

/// An error of the layer, with its fields by the layer's names.
pub(crate) fn error_json(error: &Error) -> Json {
    let about = |kind: &str, entity: &str, key: &str| json!({ "kind": kind, "entity": entity, "key": key });
    let mut json = match error {
        Error::Invalid(invalid) => {
            let violations: Vec<Json> = invalid
                .violations
                .iter()
                .map(|violation| {
                    let own = violation.path.strip_prefix(&invalid.entity);
                    let field = own.and_then(|rest| rest.strip_prefix('.')).unwrap_or(&violation.path);
                    json!({
                        "field": field,
                        "path": violation.path,
                        "attribute": violation.attribute,
                        "rule": violation.rule,
                        "value": violation.value,
                    })
                })
                .collect();
            json!({ "kind": "invalid", "entity": invalid.entity, "violations": violations })
        }
        Error::Exists { entity, key } => about("exists", entity, key),
        Error::Missing { entity, key } => about("missing", entity, key),
        Error::Conflict { entity, key, cause } => with(about("conflict", entity, key), "reason", cause),
        Error::State { entity, key, transition, found, wanted } => {
            let json = with(about("state", entity, key), "transition", transition);
            with(with(json, "found", found), "wanted", wanted)
        }
        Error::LeaseLost { entity, key, cause } => with(about("lease_lost", entity, key), "reason", cause),
        Error::Absent { entity, key } => about("absent", entity, key),
        Error::Store(error) => json!({ "kind": "store", "code": store_code(error) }),
        Error::Source { entity, key, cause } => {
            with(about("source", entity, key), "reason", &cause.to_string())
        }
        Error::Down { entity, key, store, source_cause } => {
            let mut json = with(about("down", entity, key), "reason", &source_cause.to_string());
            json["store"] = error_json(store);
            json
        }
        Error::TooLarge { entity, key, bytes, limit, .. } => {
            let mut json = about("too_large", entity, key);
            (json["bytes"], json["limit"]) = ((*bytes).into(), (*limit).into());
            json
        }
        Error::QueueFull { entity, key } => about("queue_full", entity, key),
        Error::Corrupt { entity, key, cause } => with(about("corrupt", entity, key), "reason", cause),
        Error::Key { entity, cause } => {
            with(json!({ "kind": "key", "entity": entity }), "reason", &cause.to_string())
        }
        Error::Record { entity, cause } => {
            with(json!({ "kind": "record", "entity": entity }), "reason", &cause.to_string())
        }
        Error::Environment(_) => json!({ "kind": "environment" }),
        Error::Cursor { .. } => json!({ "kind": "cursor" }),
        Error::Cancelled(obstacles) => {
            let obstacles: Vec<Json> = obstacles
                .iter()
                .map(|obstacle| {
                    json!({
                        "step": obstacle.step,
                        "entity": obstacle.entity,
                        "key": obstacle.key,
                        "reason": obstacle.cause,
                    })
                })
                .collect();
            json!({ "kind": "cancelled", "obstacles": obstacles })
        }
        _ => json!({ "kind": "not_allowed" }),
    };
    if let Some(thrown) = error.loader_error::<Thrown>() {
        json["thrown"] = thrown.id.into();
    }
    json["message"] = error.to_string().into();
    json["transient"] = error.is_transient().into();
    json
}

fn with(mut json: Json, name: &str, text: &str) -> Json {
    json[name] = text.into();
    json
}

/// What failed at a store, in a word.
fn store_code(error: &store::Error) -> &str {
    match error {
        store::Error::Address { .. } => "address",
        store::Error::Busy(_) => "busy",
        store::Error::Unsupported(_) => "unsupported",
        store::Error::Refused { code, .. } => code,
        store::Error::Condition { .. } => "condition",
        store::Error::Cancelled { .. } => "cancelled",
        store::Error::Throttled(_) => "throttled",
        store::Error::NoTable { .. } => "no_table",
        store::Error::Unanswered { .. } => "unanswered",
        store::Error::Unreachable { .. } => "unreachable",
        store::Error::Description { .. } => "description",
        store::Error::Stuck { .. } => "stuck",
        _ => "engine",
    }
}
