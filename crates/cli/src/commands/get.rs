//! `larder get`: one record, by its key.
//!
//! The store is read and no source is called. What has expired is not there.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use larder::{Entry, Look, Why};

use crate::data::{Access, Key, Kind, Target};

/// A cache gives a slow store up; who asks here wants to know.
const PATIENCE: Duration = Duration::from_secs(10);

/// Show one record, by the fields of its key
///
/// Exits with 4 when there is none.
#[derive(Debug, Args)]
pub(crate) struct Get {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    key: Key,
}

impl Get {
    pub(crate) fn run(self) -> Result<ExitCode, String> {
        let (kind, found) = self.find()?;
        let Some(entry) = found else { return Ok(self.target.not_found(&self.key)) };
        self.target.show(&kind, &entry)?;
        Ok(ExitCode::SUCCESS)
    }

    pub(super) fn find(&self) -> Result<(Kind, Option<Entry>), String> {
        let kind = self.target.kind()?;
        let key = self.key.fields(&kind)?;
        let found = self.target.work(&kind, Access::Existing, async |shelf| {
            match larder::at_most(PATIENCE, shelf.look(key)).await {
                Look::Hit(found) => Ok(Some(found.into_record())),
                Look::Miss(Why::Unreachable(error)) => Err(error),
                Look::Miss(_) => Ok(None),
            }
        })?;
        Ok((kind, found))
    }

    pub(super) fn missing(&self) -> String {
        self.target.missing(&self.key)
    }
}
