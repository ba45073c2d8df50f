//! `larder rm`: removes one record, by its key.

use std::process::ExitCode;

use clap::Args;
use larder::{Deleted, Entry};
use larder_model::Item;

use crate::data::{self, Access, Key, Kind, Target};
use crate::terminal;

/// Remove one record, by the fields of its key
///
/// Exits with 4 when there is none. With --json, prints what was removed, if that can be read.
#[derive(Debug, Args)]
pub(crate) struct Rm {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    key: Key,
}

impl Rm {
    pub(crate) fn run(self) -> Result<ExitCode, String> {
        let (kind, removed) = self.remove()?;
        let line = |key: &Item| format!("removed: {}\n", data::key_text(&kind, key));
        match removed {
            (_, Deleted::Nothing) => return Ok(self.target.not_found(&self.key)),
            (_, Deleted::Record(entry)) if self.target.json => self.target.show(&kind, &entry)?,
            (key, Deleted::Record(_)) => terminal::print(&line(&key))?,
            (key, Deleted::Unreadable(why)) => {
                if !self.target.json {
                    terminal::print(&line(&key))?;
                }
                eprintln!("larder: it is removed, and could not be shown: {why}");
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    /// What was removed, and the key that it had.
    pub(super) fn remove(&self) -> Result<(Kind, (Item, Deleted<Entry>)), String> {
        let kind = self.target.kind()?;
        let key = self.key.fields(&kind)?;
        let removed = self.target.work(&kind, Access::Existing, async |shelf| {
            Ok((shelf.stored_key(key.clone())?, shelf.delete(key).await?))
        })?;
        Ok((kind, removed))
    }

    pub(super) fn missing(&self) -> String {
        self.target.missing(&self.key)
    }
}
