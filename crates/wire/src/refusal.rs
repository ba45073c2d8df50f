//! Why a body is refused, and the one place that knows how a refusal is worded around its cause.
//!
//! DynamoDB checks values in two layers. The current one puts what it finds in an envelope, `1 validation
//! error detected: …`, but only for PutItem, UpdateItem and DeleteItem. The older one, which batches and
//! transactions still run on, never does, and words a bad number or a repeated set member differently. A
//! request that writes a boolean as a string, or gives a value two types, is read by the older layer
//! whatever the operation.

use larder_model::ApiError;
use larder_model::limits::REQUEST_MEMORY_BYTES_MAX;

pub(crate) type Read<T> = Result<T, Refusal>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Not JSON, or too deep to read. DynamoDB says nothing about it.
    Unreadable,
    /// Its values take more memory than a request may.
    TooLarge,
    /// JSON of a shape the operation does not take.
    Shape(String),
    /// Nobody is told whether there is such a resource: what was to be done to it, and its ARN.
    Concealed(&'static str, String),
    /// Said as it is.
    Plain(String),
    /// Said in the envelope where the operation has one.
    Enveloped(String),
}

/// Which of DynamoDB's two layers reads a request's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layer {
    Current,
    Older,
}

/// How a request is read: on which layer, and whether its operation has the envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rules {
    pub(crate) layer: Layer,
    pub(crate) single_write: bool,
}

impl Refusal {
    pub(crate) fn shape(message: impl Into<String>) -> Self {
        Self::Shape(message.into())
    }

    pub(crate) fn plain(message: impl Into<String>) -> Self {
        Self::Plain(message.into())
    }

    pub(crate) fn enveloped(message: impl Into<String>) -> Self {
        Self::Enveloped(message.into())
    }

    pub(crate) fn into_error(self, rules: Rules) -> ApiError {
        match self {
            Self::Unreadable => ApiError::Serialization(String::new()),
            Self::TooLarge => ApiError::Validation(format!(
                "The request has too many values: read, they take more than {} MiB of memory",
                REQUEST_MEMORY_BYTES_MAX >> 20
            )),
            Self::Shape(message) => ApiError::Serialization(message),
            Self::Concealed(operation, arn) => ApiError::concealed("000000000000", operation, arn),
            Self::Plain(message) => ApiError::Validation(message),
            Self::Enveloped(message) if rules.single_write && rules.layer == Layer::Current => {
                ApiError::Validation(envelope(&message))
            }
            Self::Enveloped(message) => ApiError::Validation(message),
        }
    }
}

impl From<larder_expr::Error> for Refusal {
    fn from(error: larder_expr::Error) -> Self {
        Self::Enveloped(error.to_string())
    }
}

pub(crate) fn envelope(message: &str) -> String {
    format!("1 validation error detected: {message}")
}
