//! `larder invalidate`: removes all records that have something in common.
//!
//! The plan is shown first: how many there are, how they are found, what that costs. Nothing is removed without
//! `--yes`. A run that was interrupted can be run again.

use std::process::ExitCode;

use clap::Args;
use larder::{Entry, Invalidation, Shelf};
use serde_json::json;

use crate::data::{Access, Given, Kind, Target};
use crate::terminal;

/// Remove all records with these fields; without --yes, show what that would cost
///
/// Without any field, all records of the entity are meant.
#[derive(Debug, Args)]
pub(crate) struct Invalidate {
    #[command(flatten)]
    target: Target,
    /// What they have in common
    #[arg(value_name = "NAME=VALUE")]
    fields: Vec<Given>,
    /// Only with this label
    #[arg(long, value_name = "LABEL")]
    label: Option<String>,
    /// Remove them
    #[arg(long)]
    yes: bool,
}

impl Invalidate {
    pub(crate) fn run(self) -> Result<ExitCode, String> {
        let kind = self.target.kind()?;
        let fields = kind.fields(&self.fields)?;
        remove(&self.target, &kind, self.yes, |shelf| {
            let mut all = shelf.invalidate();
            for (name, value) in fields {
                all = all.by(&name, value);
            }
            match self.label {
                Some(label) => all.label(label),
                None => all,
            }
        })
    }
}

/// Shows the plan, and runs it if it is wanted.
pub(super) fn remove(
    target: &Target,
    kind: &Kind,
    yes: bool,
    what: impl FnOnce(&Shelf<Entry>) -> Invalidation<Entry>,
) -> Result<ExitCode, String> {
    let (plan, done) = target.work(kind, Access::Existing, async |shelf| {
        let plan = what(&shelf).plan().await?;
        if !yes {
            return Ok((plan, None));
        }
        if !target.json {
            eprintln!("{plan}");
        }
        let bar = terminal::progress(Some(plan.items()), "removed");
        let done = plan.run_with(|progress| bar.set_position(progress.removed)).await;
        bar.finish_and_clear();
        Ok((plan, Some(done?)))
    })?;
    let text = if target.json {
        let json = json!({
            "items": plan.items(),
            "exact": plan.is_exact(),
            "scan": plan.is_scan(),
            "read_units": plan.units().read,
            "write_units": plan.units().write,
            "dollars": plan.units().dollars(),
            "removed": done.map(|done| done.removed),
        });
        format!("{json}\n")
    } else {
        match done {
            None => format!("{plan}\nNothing was removed; --yes removes them.\n"),
            Some(done) => format!("{} removed\n", count(done.removed)),
        }
    };
    terminal::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn count(removed: u64) -> String {
    terminal::count(usize::try_from(removed).unwrap_or(usize::MAX), "item")
}
