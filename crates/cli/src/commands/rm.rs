//! `larder rm`: removes one record, by its key.

use std::process::ExitCode;

use clap::Args;

use crate::data::{self, Access, Key, Target};
use crate::terminal;

/// Remove one record, by the fields of its key
///
/// Exits with 4 when there is none. With --json, prints what was removed.
#[derive(Debug, Args)]
pub(crate) struct Rm {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    key: Key,
}

impl Rm {
    pub(crate) fn run(self) -> Result<ExitCode, String> {
        let kind = self.target.kind()?;
        let key = self.key.fields(&kind)?;
        let removed = self.target.work(&kind, Access::Existing, async |shelf| shelf.delete(key).await)?;
        let Some(entry) = removed else { return Ok(self.target.not_found(&self.key)) };
        if self.target.json {
            self.target.show(&kind, &entry)?;
        } else {
            terminal::print(&format!("removed: {}\n", data::key_text(&kind, entry.kept().key())))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
