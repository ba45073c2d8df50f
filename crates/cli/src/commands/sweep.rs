//! `larder sweep`: removes what has expired and is still stored.
//!
//! DynamoDB removes it by itself, within days; this is for who does not want to wait or pay for it. What is renewed
//! meanwhile stays.

use std::process::ExitCode;

use clap::Args;
use larder::Shelf;

use super::invalidate;
use crate::data::Target;

/// Remove what has expired and is still stored; without --yes, show what that would cost
#[derive(Debug, Args)]
pub(crate) struct Sweep {
    #[command(flatten)]
    target: Target,
    /// Remove it
    #[arg(long)]
    yes: bool,
}

impl Sweep {
    pub(crate) fn run(self) -> Result<ExitCode, String> {
        invalidate::remove(&self.target, &self.target.kind()?, self.yes, Shelf::sweep)
    }
}
