//! What stands for S3: where exports are written, and where imports come from.
//!
//! The engine knows no files, and no form in which items are written. It asks a depot, which is told to it once.

use std::fmt::Debug;
use std::sync::Arc;

use larder_model::{Item, TableDefinition, UnixTime};

use crate::ops::{ExportDescription, ImportSource};
use crate::{Engine, Error};

/// Where exports are written and imports come from.
pub trait Depot: Debug + Send + Sync {
    /// Begins an export. Nothing of it is to be seen before it is finished.
    fn export(&self, export: &ExportDescription) -> Result<Box<dyn ExportWriter>, DepotError>;

    /// Begins to read what is to be imported into a table.
    fn import(
        &self,
        source: &ImportSource,
        table: &TableDefinition,
    ) -> Result<Box<dyn ImportReader>, DepotError>;
}

/// An export that is being written. Dropped before its end, it leaves nothing.
pub trait ExportWriter: Debug + Send {
    fn item(&mut self, item: &Item) -> Result<(), DepotError>;
    fn change(&mut self, change: &ExportedChange) -> Result<(), DepotError>;
    fn finish(self: Box<Self>, now: UnixTime) -> Result<ExportWritten, DepotError>;
}

/// What became of an item between two moments.
#[derive(Clone, Debug, PartialEq)]
pub struct ExportedChange {
    /// When it was changed last.
    pub time: UnixTime,
    pub key: Item,
    pub old: Option<Item>,
    pub new: Option<Item>,
}

/// What was exported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportWritten {
    /// Where its manifest is in the bucket.
    pub manifest: String,
    pub items: u64,
    /// Of the items, as DynamoDB counts them.
    pub bytes: u64,
}

/// What is imported, a line at a time.
pub trait ImportReader: Debug + Send {
    fn next_line(&mut self) -> Result<Option<ImportLine>, DepotError>;
}

/// An item that is to be imported, or what is wrong with it.
#[derive(Clone, Debug, PartialEq)]
pub struct ImportLine {
    pub bytes: u64,
    pub item: Result<Item, String>,
}

/// Why an export or an import failed, as its description has it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct DepotError {
    pub code: String,
    pub message: String,
}

impl DepotError {
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        Self { code: code.to_owned(), message: message.into() }
    }
}

impl Engine {
    /// Exports go to this depot, and imports come from it. It is told once.
    pub fn set_depot(&self, depot: Arc<dyn Depot>) {
        let _ = self.depot.set(depot);
    }

    /// Refuses what needs a depot where there is none.
    pub(crate) fn check_depot(&self) -> Result<(), Error> {
        match self.depot.get() {
            Some(_) => Ok(()),
            None => Err(Error::validation(
                "This server has no place for exports and imports: start it with `larder serve --exports DIR`, below \
                 which each directory stands for the S3 bucket of its name",
            )),
        }
    }
}
