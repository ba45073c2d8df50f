//! `larder verify`: reads a store through, and says what is wrong with it.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use larder::Address;
use larder::store::STORE_VARIABLE;
use larder_model::Clock;
use larder_storage::{Options, Store};
use serde_json::json;

use crate::terminal;

/// Read a store through and report what is damaged.
///
/// Every page and every value is checked, every item is read, and index entries, expiry entries and counters are
/// compared with the items. What cannot be read is told by table and key, and reading goes on behind it. No byte of the
/// store is changed. Nobody else may have it open.
#[derive(Debug, Args)]
pub(crate) struct Verify {
    /// Where the store is
    #[arg(long, alias = "data", env = STORE_VARIABLE, value_name = "DIR", default_value_t = Address::default())]
    store: Address,
    /// A file with the key of an encrypted store; the key itself can be in LARDER_KEY instead
    #[arg(long, value_name = "FILE", env = "LARDER_KEY_FILE")]
    key_file: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Verify {
    pub(crate) fn run(self) -> Result<ExitCode, String> {
        let dir = super::directory(&self.store)?;
        super::check_store(dir)?;
        let place = dir.display();
        let key = super::key(self.key_file.as_deref())?;
        let store = Store::open_read_only(dir, Options { key, ..Options::default() })
            .map_err(|error| format!("{place}: {error}"))?;
        let progress = terminal::progress(None, "entries read");
        let verified =
            larder_engine::verify(&store, Clock::system().now(), |entries| progress.set_position(entries));
        progress.finish_and_clear();
        let verified = verified.map_err(|error| format!("{place}: {error}"))?;
        if self.json {
            let report = json!({
                "tables": verified.tables,
                "items": verified.items,
                "entries": verified.entries,
                "problems": verified.problem_count,
                "told": verified.problems,
            });
            println!("{report}");
        } else {
            for problem in &verified.problems {
                println!("{problem}");
            }
            println!(
                "{}, {}, {} entries read: {}",
                terminal::count(verified.tables, "table"),
                terminal::count(verified.items as usize, "item"),
                verified.entries,
                match verified.problem_count {
                    0 => "all is well".to_owned(),
                    count => format!(
                        "{}; `larder salvage` brings out what can be read, a backup has the rest",
                        terminal::count(count as usize, "problem")
                    ),
                }
            );
        }
        Ok(if verified.problem_count == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}
