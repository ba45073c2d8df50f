//! Why somebody was not let in, in AWS's terms.

use crate::policy::Denial;

/// Why a request was refused before anything was done for it.
///
/// A variant holds what its message needs. `code`, `namespace` and `status` are the only places that know how an error
/// looks on the wire.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no signature at all.
    #[error("Request is missing Authentication Token")]
    MissingAuthenticationToken,
    /// A part of the signature is missing or has another form.
    #[error("{0}")]
    IncompleteSignature(String),
    /// The signature is not what it should be, too old or not yet current.
    #[error("{0}")]
    InvalidSignature(String),
    /// Nobody has this access key, or its session token is none of ours.
    #[error("The security token included in the request is invalid.")]
    UnrecognizedClient,
    /// The session is over.
    #[error("The security token included in the request is expired")]
    ExpiredToken,
    /// The caller is known, and may not do this.
    #[error("{0}")]
    AccessDenied(Box<Denial>),
}

impl Error {
    pub fn code(&self) -> &'static str {
        match self {
            Self::MissingAuthenticationToken => "MissingAuthenticationTokenException",
            Self::IncompleteSignature(_) => "IncompleteSignatureException",
            Self::InvalidSignature(_) => "InvalidSignatureException",
            Self::UnrecognizedClient => "UnrecognizedClientException",
            Self::ExpiredToken => "ExpiredTokenException",
            Self::AccessDenied(_) => "AccessDeniedException",
        }
    }

    /// What stands before `#` in the `__type` of an error body.
    pub fn namespace(&self) -> &'static str {
        "com.amazon.coral.service"
    }

    /// DynamoDB answers all of these with 400, where other services say 403.
    pub fn status(&self) -> u16 {
        400
    }
}
