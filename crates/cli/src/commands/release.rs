//! `larder release`: gives back what is stuck.

use std::process::ExitCode;

use clap::Args;
use larder::{Entry, Error};

use crate::data::{self, Access, Key, Kind, Target};
use crate::terminal;

/// Give back a record that is stuck: it is due again, and counts as not tried
///
/// A lease that lives is left alone. Exits with 4 when there is no such record.
#[derive(Debug, Args)]
pub(crate) struct Release {
    #[command(flatten)]
    target: Target,
    /// The lifecycle, such as crawl
    lifecycle: String,
    #[command(flatten)]
    key: Key,
}

impl Release {
    pub(crate) fn run(self) -> Result<ExitCode, String> {
        let (kind, released) = self.give_back()?;
        let Some(entry) = released else { return Ok(self.target.not_found(&self.key)) };
        if self.target.json {
            self.target.show(&kind, &entry)?;
        } else {
            terminal::print(&done(&kind, &entry))?;
        }
        Ok(ExitCode::SUCCESS)
    }

    pub(super) fn give_back(&self) -> Result<(Kind, Option<Entry>), String> {
        let kind = self.target.kind()?;
        let name = &kind.lifecycle(&self.lifecycle)?.name;
        let key = self.key.fields(&kind)?;
        let released = self.target.work(&kind, Access::Existing, async |shelf| {
            let lifecycle = shelf.lifecycle(name).expect("the schema has it");
            match lifecycle.release(key).await {
                Ok(entry) => Ok(Some(entry)),
                Err(Error::Missing { .. }) => Ok(None),
                Err(error) => Err(error),
            }
        })?;
        Ok((kind, released))
    }

    pub(super) fn missing(&self) -> String {
        self.target.missing(&self.key)
    }
}

pub(super) fn done(kind: &Kind, entry: &Entry) -> String {
    format!("released: {}\n", data::key_text(kind, entry.kept().key()))
}
