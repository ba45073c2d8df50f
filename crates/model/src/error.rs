//! Why a request failed, in DynamoDB's terms.

use crate::{Item, TableName, UnixTime};

/// Why a request failed.
///
/// A variant holds what its message needs. `code`, `namespace` and `status` are the only places that know
/// how an error looks on the wire.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ApiError {
    #[error("The conditional request failed")]
    ConditionalCheckFailed { item: Option<Box<Item>> },
    #[error("{0}")]
    ResourceNotFound(String),
    #[error("{0}")]
    ResourceInUse(String),
    #[error("{0}")]
    Validation(String),
    /// The body is not the shape the operation takes.
    #[error("{0}")]
    Serialization(String),
    /// No such operation here.
    #[error("{0}")]
    UnknownOperation(String),
    /// A transaction is writing the item.
    #[error("Transaction is ongoing for the item")]
    TransactionConflict,
    #[error("{}", canceled_message(.reasons))]
    TransactionCanceled { reasons: Vec<CancellationReason> },
    #[error(
        "{}",
        "Request parameters do not match the parameters of the previous request with the same client token"
    )]
    IdempotentParameterMismatch,
    /// An INSERT met an item.
    #[error("Duplicate primary key exists in table")]
    DuplicateItem,
    #[error("{0}")]
    LimitExceeded(String),
    #[error("The shard iterator is more than 15 minutes old. Ask for a new one.")]
    ExpiredIterator,
    #[error("The records asked for are older than 24 hours and have been removed from the stream.")]
    TrimmedDataAccess,
    /// Whoever asks is not known, or may not do this.
    #[error("{message}")]
    NotLetIn { code: &'static str, message: String },
    /// Whether there is such a resource, whoever asks may not know. Who that is, is an ARN.
    #[error("User: {who} is not authorized to perform: dynamodb:{operation} on resource: {resource}")]
    Concealed { who: String, operation: &'static str, resource: String },
    /// What backups and restores say of a table that is not there.
    #[error("Table not found: {0}")]
    TableNotFound(TableName),
    #[error("Table already exists: {0}")]
    TableAlreadyExists(TableName),
    #[error("Table is being created: {0}")]
    TableInUse(TableName),
    #[error("Backups are being enabled for the table: {0}. Please retry later")]
    ContinuousBackupsUnavailable(TableName),
    #[error("Point in time recovery is not enabled for table '{0}'")]
    PointInTimeRecoveryUnavailable(TableName),
    #[error("The restore time is not between EarliestRestorableDateTime and LatestRestorableDateTime")]
    InvalidRestoreTime,
    /// The clock was set, so that moments between these two were told twice or not at all.
    #[error(
        "The restore time is uncertain, because the clock of the store was set then: choose one that is not between \
         {}Z and {}Z",
        .from.to_label(),
        .to.to_label()
    )]
    RestoreTimeUncertain { from: UnixTime, to: UnixTime },
    /// Names the ARN.
    #[error("Backup not found: {0}")]
    BackupNotFound(String),
    /// Names the ARN.
    #[error("Export not found: {0}")]
    ExportNotFound(String),
    /// A token stands for another export.
    #[error("An export with this client token was asked for with other parameters")]
    ExportConflict,
    #[error("{0}")]
    InvalidExportTime(String),
    /// Names the ARN.
    #[error("Import not found: {0}")]
    ImportNotFound(String),
    #[error("Backup is being created or restored: {0}")]
    BackupInUse(String),
    /// There is no policy, or none of the revision that was expected. Names the ARN.
    #[error("Resource-based policy not found for the provided ResourceArn: {0}")]
    PolicyNotFound(String),
    /// More was asked for in a second than a table, an index or a partition has.
    #[error("{}", .0.message)]
    Exceeded(Box<Exceeded>),
    /// Too much is queued for the disk, or held by other requests; the caller may try again.
    #[error("The request was denied because too many others are being carried out. Try again.")]
    Throttled,
    /// Our fault: the cause goes to the log, never to the caller.
    #[error("Internal server error")]
    Internal { cause: String },
}

/// Which throughput was used up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exceeded {
    pub code: &'static str,
    pub message: &'static str,
    /// What was throttled, doing what, and why: `TableWriteProvisionedThroughputExceeded`.
    pub reason: String,
    /// The ARN of the table or the index.
    pub resource: String,
}

/// Why one item of a transaction failed. An item that would have succeeded has the code `None`.
#[derive(Clone, Debug, PartialEq)]
pub struct CancellationReason {
    pub code: &'static str,
    pub message: Option<String>,
    pub item: Option<Item>,
}

impl CancellationReason {
    pub const NONE: Self = Self { code: "None", message: None, item: None };
    /// The code of an item whose condition did not hold.
    pub const CONDITION: &'static str = "ConditionalCheckFailed";
    /// The codes of an item for which there was no throughput.
    pub const THROUGHPUT: &'static str = "ProvisionedThroughputExceeded";
    pub const THROTTLED: &'static str = "ThrottlingError";
    /// The code of an item that somebody else is writing.
    pub const CONFLICT: &'static str = "TransactionConflict";
    /// The code of an item that an INSERT met.
    pub const DUPLICATE: &'static str = "DuplicateItem";
}

fn canceled_message(reasons: &[CancellationReason]) -> String {
    let codes: Vec<&str> = reasons.iter().map(|reason| reason.code).collect();
    format!(
        "Transaction cancelled, please refer cancellation reasons for specific reasons [{}]",
        codes.join(", ")
    )
}

impl ApiError {
    pub fn validation(message: impl Into<String>) -> Self {
        Self::Validation(message.into())
    }

    /// The answer to a request that names no table of ours.
    pub fn table_not_found() -> Self {
        Self::ResourceNotFound("Requested resource not found".into())
    }

    pub fn internal(cause: &impl std::fmt::Display) -> Self {
        Self::Internal { cause: cause.to_string() }
    }

    pub fn code(&self) -> &'static str {
        match self {
            Self::ConditionalCheckFailed { .. } => "ConditionalCheckFailedException",
            Self::ResourceNotFound(_) => "ResourceNotFoundException",
            Self::ResourceInUse(_) => "ResourceInUseException",
            Self::Validation(_) => "ValidationException",
            Self::Serialization(_) => "SerializationException",
            Self::UnknownOperation(_) => "UnknownOperationException",
            Self::TransactionConflict => "TransactionConflictException",
            Self::TransactionCanceled { .. } => "TransactionCanceledException",
            Self::IdempotentParameterMismatch => "IdempotentParameterMismatchException",
            Self::DuplicateItem => "DuplicateItemException",
            Self::LimitExceeded(_) => "LimitExceededException",
            Self::ExpiredIterator => "ExpiredIteratorException",
            Self::TrimmedDataAccess => "TrimmedDataAccessException",
            Self::NotLetIn { code, .. } => code,
            Self::Concealed { .. } => "AccessDeniedException",
            Self::TableNotFound(_) => "TableNotFoundException",
            Self::TableAlreadyExists(_) => "TableAlreadyExistsException",
            Self::TableInUse(_) => "TableInUseException",
            Self::ContinuousBackupsUnavailable(_) => "ContinuousBackupsUnavailableException",
            Self::PointInTimeRecoveryUnavailable(_) => "PointInTimeRecoveryUnavailableException",
            Self::InvalidRestoreTime | Self::RestoreTimeUncertain { .. } => "InvalidRestoreTimeException",
            Self::BackupNotFound(_) => "BackupNotFoundException",
            Self::ExportNotFound(_) => "ExportNotFoundException",
            Self::ExportConflict => "ExportConflictException",
            Self::InvalidExportTime(_) => "InvalidExportTimeException",
            Self::ImportNotFound(_) => "ImportNotFoundException",
            Self::BackupInUse(_) => "BackupInUseException",
            Self::PolicyNotFound(_) => "PolicyNotFoundException",
            Self::Exceeded(exceeded) => exceeded.code,
            Self::Throttled => "ThrottlingException",
            Self::Internal { .. } => "InternalServerError",
        }
    }

    /// What stands before `#` in the `__type` of an error body.
    pub fn namespace(&self) -> &'static str {
        match self {
            Self::Validation(_) => "com.amazon.coral.validate",
            Self::Serialization(_)
            | Self::UnknownOperation(_)
            | Self::Throttled
            | Self::NotLetIn { .. }
            | Self::Concealed { .. } => "com.amazon.coral.service",
            Self::Exceeded(exceeded) if exceeded.code == "ThrottlingException" => {
                "com.amazon.coral.availability"
            }
            _ => "com.amazonaws.dynamodb.v20120810",
        }
    }

    /// What is said of a resource that may be there or not, where nobody has to say who they are: the account's root is told.
    pub fn concealed(account: &str, operation: &'static str, resource: String) -> Self {
        Self::Concealed { who: format!("arn:aws:iam::{account}:root"), operation, resource }
    }

    /// The same error, told to somebody by name.
    #[must_use]
    pub fn told_to(self, name: impl FnOnce() -> String) -> Self {
        match self {
            Self::Concealed { operation, resource, .. } => {
                Self::Concealed { who: name(), operation, resource }
            }
            other => other,
        }
    }

    pub fn status(&self) -> u16 {
        match self {
            Self::Internal { .. } => 500,
            _ => 400,
        }
    }
}
