//! `larder stuck`: leases that ran out.

use std::process::ExitCode;

use clap::Args;
use larder::Lifecycle;

use super::due::{Found, Listed};

/// List leases that ran out: their workers died, or tried as often as the schema allows
#[derive(Debug, Args)]
pub(crate) struct Stuck {
    #[command(flatten)]
    listed: Listed,
}

impl Stuck {
    pub(crate) fn run(self) -> Result<ExitCode, String> {
        self.listed.show(Lifecycle::stuck)
    }

    pub(super) fn find(&self) -> Result<Found, String> {
        self.listed.find(Lifecycle::stuck)
    }
}
