//! Request and response of each operation, as the engine has them: what it reads comes out as a [`Row`].

use larder_model::Item;

use crate::item_bytes::{ItemBytesError, StoredItem};

pub use larder_ops::*;

/// An item on its way out: as it is stored, or as a projection made it.
#[derive(Debug)]
pub enum Row {
    Stored(StoredItem),
    Built(Item),
}

impl Row {
    /// The item itself.
    pub fn into_item(self) -> Result<Item, ItemBytesError> {
        match self {
            Self::Stored(stored) => stored.decode(),
            Self::Built(item) => Ok(item),
        }
    }
}

pub type Response = larder_ops::Response<Row>;
pub type GetItemOutput = larder_ops::GetItemOutput<Row>;
pub type WriteOutput = larder_ops::WriteOutput<Row>;
pub type PageOutput = larder_ops::PageOutput<Row>;
pub type BatchGetItemOutput = larder_ops::BatchGetItemOutput<Row>;
pub type TransactGetItemsOutput = larder_ops::TransactGetItemsOutput<Row>;
pub type ExecuteStatementOutput = larder_ops::ExecuteStatementOutput<Row>;
pub type StatementResponse = larder_ops::StatementResponse<Row>;
pub type BatchExecuteStatementOutput = larder_ops::BatchExecuteStatementOutput<Row>;
pub type ExecuteTransactionOutput = larder_ops::ExecuteTransactionOutput<Row>;
