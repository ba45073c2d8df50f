//! `larder verify`: reads a store through, and says what is wrong with it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use larder::Address;
use larder::store::STORE_VARIABLE;
use larder_engine::Verified;
use larder_model::Clock;
use larder_storage::{Error, Lost, Options, Store};
use serde_json::json;

use super::salvage;
use crate::terminal;

/// Read a store through and report what is damaged.
///
/// Every page and every value is checked, every item is read, and index entries, expiry entries and counters are
/// compared with the items. What cannot be read is told by table and key, and reading goes on behind it. No byte of the
/// store is changed. Nobody else may have it open.
///
/// Where the tree itself is too damaged to be opened, its pages are read as `larder salvage` reads them, by way of a copy
/// in the directory for temporary files (TMPDIR), which is removed afterwards.
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
        let verified = verify(dir, Options { key, ..Options::default() });
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
                        "{}; `larder salvage {place} --to NEW` brings out what can be read, a backup has the rest",
                        terminal::count(count as usize, "problem")
                    ),
                }
            );
        }
        Ok(if verified.problem_count == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

fn verify(dir: &Path, options: Options) -> Result<Verified, String> {
    let cause = match Store::open_read_only(dir, options) {
        Ok(store) => return look(&store, &[]),
        Err(Error::Damaged { cause }) => cause,
        Err(error) => return Err(error.to_string()),
    };
    let raw = tempfile::tempdir().map_err(|error| format!("a directory for temporary files: {error}"))?;
    let (store, found) = salvage::pages(dir, raw.path(), options)?;
    let mut verified = look(&store, &found.lost)?;
    let pages = match found.unreadable_pages {
        0 => String::new(),
        count => format!(" ({} of the tree's own records)", terminal::count(count as usize, "page")),
    };
    // Before the others, of which only the first are told.
    let mut first = vec![format!("the store cannot be opened: {cause}{pages}")];
    first.extend(salvage::lost_records(&found));
    verified.problem_count += first.len() as u64;
    verified.problems.splice(..0, first);
    Ok(verified)
}

fn look(store: &Store, lost: &[Lost]) -> Result<Verified, String> {
    let progress = terminal::progress(None, "entries read");
    let now = Clock::system().now();
    let verified = larder_engine::verify(store, lost, now, |entries| progress.set_position(entries));
    progress.finish_and_clear();
    verified.map_err(|error| error.to_string())
}
