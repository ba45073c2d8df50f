//! The operations by name.

use crate::{Request, UnitKind};

macro_rules! operations {
    ($($name:ident)*) => {
        /// The operations, those on items first.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Operation {
            $($name,)*
        }

        impl Operation {
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// As DynamoDB calls it.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }
        }
    };
}

operations! {
    GetItem Query Scan BatchGetItem TransactGetItems
    PutItem UpdateItem DeleteItem BatchWriteItem TransactWriteItems
    ExecuteStatement BatchExecuteStatement ExecuteTransaction
    CreateTable DescribeTable ListTables UpdateTable DeleteTable
    UpdateTimeToLive DescribeTimeToLive TagResource UntagResource ListTagsOfResource
    PutResourcePolicy GetResourcePolicy DeleteResourcePolicy
    UpdateContinuousBackups DescribeContinuousBackups RestoreTableToPointInTime
    CreateBackup DescribeBackup ListBackups DeleteBackup RestoreTableFromBackup
    ExportTableToPointInTime DescribeExport ListExports ImportTable DescribeImport ListImports
    DescribeLimits DescribeEndpoints ListStreams DescribeStream GetShardIterator GetRecords
    Unknown
}

impl Operation {
    /// How many of them, the first ones, are about items.
    pub const OF_ITEMS: usize = 13;

    /// By DynamoDB's name; what has another is `Unknown`.
    pub fn named(name: &str) -> Self {
        let found = Self::ALL.iter().copied().find(|operation| operation.name() == name);
        found.unwrap_or(Self::Unknown)
    }

    pub fn is_of_items(self) -> bool {
        (self as usize) < Self::OF_ITEMS
    }

    /// Which units it consumes, unless it says otherwise.
    pub fn units(self) -> UnitKind {
        if (self as usize) < Self::PutItem as usize { UnitKind::Read } else { UnitKind::Write }
    }

    /// A statement reads or writes.
    pub fn is_of_either_kind(self) -> bool {
        matches!(self, Self::ExecuteStatement | Self::BatchExecuteStatement | Self::ExecuteTransaction)
    }

    /// A condition of it can fail.
    pub fn writes_conditionally(self) -> bool {
        matches!(
            self,
            Self::PutItem
                | Self::UpdateItem
                | Self::DeleteItem
                | Self::TransactWriteItems
                | Self::ExecuteStatement
                | Self::ExecuteTransaction
        )
    }
}

impl Request {
    pub fn operation(&self) -> Operation {
        match self {
            Self::CreateTable(_) => Operation::CreateTable,
            Self::DescribeTable(_) => Operation::DescribeTable,
            Self::ListTables(_) => Operation::ListTables,
            Self::UpdateTable(_) => Operation::UpdateTable,
            Self::DeleteTable(_) => Operation::DeleteTable,
            Self::UpdateTimeToLive(_) => Operation::UpdateTimeToLive,
            Self::DescribeTimeToLive(_) => Operation::DescribeTimeToLive,
            Self::TagResource(_) => Operation::TagResource,
            Self::UntagResource(_) => Operation::UntagResource,
            Self::ListTagsOfResource(_) => Operation::ListTagsOfResource,
            Self::PutResourcePolicy(_) => Operation::PutResourcePolicy,
            Self::GetResourcePolicy(_) => Operation::GetResourcePolicy,
            Self::DeleteResourcePolicy(_) => Operation::DeleteResourcePolicy,
            Self::UpdateContinuousBackups(_) => Operation::UpdateContinuousBackups,
            Self::DescribeContinuousBackups(_) => Operation::DescribeContinuousBackups,
            Self::RestoreTableToPointInTime(_) => Operation::RestoreTableToPointInTime,
            Self::CreateBackup(_) => Operation::CreateBackup,
            Self::DescribeBackup(_) => Operation::DescribeBackup,
            Self::ListBackups(_) => Operation::ListBackups,
            Self::DeleteBackup(_) => Operation::DeleteBackup,
            Self::RestoreTableFromBackup(_) => Operation::RestoreTableFromBackup,
            Self::ExportTableToPointInTime(_) => Operation::ExportTableToPointInTime,
            Self::DescribeExport(_) => Operation::DescribeExport,
            Self::ListExports(_) => Operation::ListExports,
            Self::ImportTable(_) => Operation::ImportTable,
            Self::DescribeImport(_) => Operation::DescribeImport,
            Self::ListImports(_) => Operation::ListImports,
            Self::DescribeLimits => Operation::DescribeLimits,
            Self::DescribeEndpoints => Operation::DescribeEndpoints,
            Self::GetItem(_) => Operation::GetItem,
            Self::PutItem(_) => Operation::PutItem,
            Self::UpdateItem(_) => Operation::UpdateItem,
            Self::DeleteItem(_) => Operation::DeleteItem,
            Self::Query(_) => Operation::Query,
            Self::Scan(_) => Operation::Scan,
            Self::BatchGetItem(_) => Operation::BatchGetItem,
            Self::BatchWriteItem(_) => Operation::BatchWriteItem,
            Self::TransactGetItems(_) => Operation::TransactGetItems,
            Self::TransactWriteItems(_) => Operation::TransactWriteItems,
            Self::ExecuteStatement(_) => Operation::ExecuteStatement,
            Self::BatchExecuteStatement(_) => Operation::BatchExecuteStatement,
            Self::ExecuteTransaction(_) => Operation::ExecuteTransaction,
            Self::ListStreams(_) => Operation::ListStreams,
            Self::DescribeStream(_) => Operation::DescribeStream,
            Self::GetShardIterator(_) => Operation::GetShardIterator,
            Self::GetRecords(_) => Operation::GetRecords,
        }
    }
}
