//! `larder put`: writes one record, checked by its schema.
//!
//! The record is written whole: what is not given is not kept. What is worked out may stand in a document that was
//! read from a store, and is worked out again. A `sequence` that is not given takes the first free number.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use larder::text::json;
use larder::{Entry, Fields};

use crate::data::{self, Access, Given, Kind, Target};
use crate::{project, terminal};

/// Write one record, there or not
///
/// Fields are read by their types; lists, documents and named types are JSON: data='{"horses": []}'.
#[derive(Debug, Args)]
pub(crate) struct Put {
    #[command(flatten)]
    target: Target,
    /// The fields of the record
    #[arg(value_name = "NAME=VALUE", required_unless_present = "file")]
    fields: Vec<Given>,
    /// Read fields from a JSON object, as `larder get --json` prints it; `-` is stdin
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Refuse when it is there already
    #[arg(long)]
    new: bool,
}

impl Put {
    pub(crate) fn run(self) -> Result<ExitCode, String> {
        let kind = self.target.kind()?;
        let document = match &self.file {
            None => None,
            Some(path) => {
                let unread = |error| format!("cannot read {}: {error}", path.display());
                let text = project::text(path).map_err(unread)?;
                Some(json::parse(&text).map_err(|error| format!("{}: {error}", path.display()))?)
            }
        };
        let fields = kind.draft(document, &self.fields)?;
        let Written { entry, changed } = write(&self.target, &kind, fields, self.new)?;
        if self.target.json {
            self.target.show(&kind, &entry)?;
        } else {
            let done = if changed { "written" } else { "unchanged" };
            terminal::print(&format!("{done}: {}\n", data::key_text(&kind, entry.kept().key())))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// A record that was written, and whether that changed anything.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) entry: Entry,
    pub(super) changed: bool,
}

pub(super) fn write(target: &Target, kind: &Kind, fields: Fields, new: bool) -> Result<Written, String> {
    let create = new || kind.lacks_sequence(&fields);
    target.work(kind, Access::Create, async |shelf| {
        if create {
            return Ok(Written { entry: shelf.create(fields).await?, changed: true });
        }
        let put = shelf.put(fields).await?;
        // Failing open is for programs that have something better to do than to keep it.
        if let Some(error) = put.store_error() {
            return Err(error.clone());
        }
        let changed = put.changed();
        Ok(Written { entry: put.into_record(), changed })
    })
}
