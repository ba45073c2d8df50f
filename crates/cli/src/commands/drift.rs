//! `larder drift`: plan, with an exit code.

use std::process::ExitCode;

use clap::Args;
use larder::provision::Plan;

use super::plan::{self, Target};

const DRIFTED: u8 = 3;

/// Say whether what is deployed still is what the schemas say
///
/// Exits with 0 when it is, 3 when it is not, 1 when that could not be found out. What the store cannot do is no
/// drift.
#[derive(Debug, Args)]
pub(crate) struct Drift {
    #[command(flatten)]
    target: Target,
    /// Print the differences as JSON
    #[arg(long)]
    json: bool,
}

impl Drift {
    pub(crate) fn run(self) -> Result<ExitCode, String> {
        let plan = plan::show(&self.target, self.json)?;
        Ok(if plan.is_settled() { ExitCode::SUCCESS } else { ExitCode::from(DRIFTED) })
    }

    pub(super) fn plan(&self) -> Result<Plan, String> {
        plan::planned(&self.target)
    }
}
