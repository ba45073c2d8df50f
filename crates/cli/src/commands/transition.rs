//! `larder transition`: takes one record from state to state, as a program would.
//!
//! Only what the schema declares happens. A state with a lease is a worker's: it is entered by a claim and left through
//! its lease, and this refuses both.

use std::process::ExitCode;

use clap::Args;
use larder::{Entry, Error};

use crate::data::{self, Access, Given, Key, Kind, Target};
use crate::terminal;

/// Take one record through a transition of its lifecycle, such as start
///
/// What the transition sets from outside is given with --set. Exits with 4 when there is no such record.
#[derive(Debug, Args)]
pub(crate) struct Transition {
    #[command(flatten)]
    target: Target,
    /// The lifecycle, such as status
    lifecycle: String,
    /// The transition, such as start
    transition: String,
    #[command(flatten)]
    key: Key,
    /// A field that the transition sets; may be repeated
    #[arg(long = "set", value_name = "NAME=VALUE")]
    params: Vec<Given>,
}

impl Transition {
    pub(crate) fn run(self) -> Result<ExitCode, String> {
        let (kind, moved) = self.step()?;
        let Some(entry) = moved else { return Ok(self.target.not_found(&self.key)) };
        if self.target.json {
            self.target.show(&kind, &entry)?;
        } else {
            terminal::print(&self.done(&kind, &entry))?;
        }
        Ok(ExitCode::SUCCESS)
    }

    pub(super) fn step(&self) -> Result<(Kind, Option<Entry>), String> {
        let kind = self.target.kind()?;
        let lifecycle = kind.lifecycle(&self.lifecycle)?;
        let known: Vec<&str> = lifecycle.transitions.iter().map(|known| known.name.as_str()).collect();
        if !known.contains(&self.transition.as_str()) {
            return Err(data::unknown(&lifecycle.name, "transition", &self.transition, &known));
        }
        let (key, params) = (self.key.fields(&kind)?, kind.draft(None, &self.params)?);
        let moved = self.target.work(&kind, Access::Existing, async |shelf| {
            let lifecycle = shelf.lifecycle(&self.lifecycle).expect("the schema has it");
            match lifecycle.run(key, &self.transition, params).await {
                Ok(entry) => Ok(Some(entry)),
                Err(Error::Missing { .. }) => Ok(None),
                Err(error) => Err(error),
            }
        })?;
        Ok((kind, moved))
    }

    pub(super) fn done(&self, kind: &Kind, entry: &Entry) -> String {
        let state = entry.kept().state(&self.lifecycle).unwrap_or("in no known state");
        format!("{state}: {}\n", data::key_text(kind, entry.kept().key()))
    }

    pub(super) fn missing(&self) -> String {
        self.target.missing(&self.key)
    }
}
