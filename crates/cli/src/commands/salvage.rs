//! `larder salvage`: everything that can still be read of a damaged store, into a new one.
//!
//! First the pages of the file are read, whatever of the tree above them is damaged, into a store that is thrown away
//! afterwards (`larder_storage::salvage`); then its tables are made anew from that (`larder_engine::salvage`). Both
//! are in the new directory, so that has to have room for both.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use indicatif::ProgressBar;
use larder_engine::{Engine, Watcher};
use larder_model::{Clock, Item};
use larder_storage::{Options, Salvaged, Store};
use serde_json::json;

use crate::terminal;

/// Bring everything that can still be read of a damaged store into a new one
///
/// Tables come with their settings, items with their index entries, and backups; an item that is damaged in its table
/// and whole in an index comes from there. Streams and point-in-time recovery begin anew. What could not be brought is
/// listed by table and key, and the exit code is 1. The damaged store is not changed; nobody may have it open.
#[derive(Debug, Args)]
pub(crate) struct Salvage {
    /// Where the damaged store is
    #[arg(value_name = "DIR")]
    from: PathBuf,
    /// Where the new one is to be; there must be nothing yet
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    /// A file with the key of an encrypted store, which the new one gets too; the key itself can be in LARDER_KEY instead
    #[arg(long, value_name = "FILE", env = "LARDER_KEY_FILE")]
    key_file: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Salvage {
    pub(crate) fn run(self) -> Result<ExitCode, String> {
        if !Store::is_in(&self.from) {
            return Err(format!("there is no store in {}", self.from.display()));
        }
        if fs::read_dir(&self.to).is_ok_and(|mut entries| entries.next().is_some()) {
            return Err(format!("{} is not empty: name a new directory with --to", self.to.display()));
        }
        let options = Options { key: super::key(self.key_file.as_deref())?, ..Options::default() };
        let is_new = !self.to.exists();
        self.salvage(options).map_err(|error| {
            if is_new {
                // Nothing is left of a directory in which nothing came to be; one with something in it stays.
                let _ = fs::remove_dir(&self.to);
            }
            match Store::is_in(&self.to) {
                true => format!("{error}; what is in {} is not whole", self.to.display()),
                false => error,
            }
        })
    }

    fn salvage(&self, options: Options) -> Result<ExitCode, String> {
        let at = |path: &Path, error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&self.to);
        let raw = made.and_then(|()| tempfile::tempdir_in(&self.to)).map_err(|error| at(&self.to, &error))?;
        let (source, found) = pages(&self.from, raw.path(), options)?;
        let target = Engine::open(&self.to, options).map_err(|error| at(&self.to, &error))?;
        let progress = terminal::progress(None, "items brought out");
        let mut watcher = Strays { directory: &self.to, files: BTreeMap::new(), progress };
        let salvaged =
            larder_engine::salvage(&source, &found.lost, &target, Clock::system().now(), &mut watcher);
        watcher.progress.finish_and_clear();
        let mut salvaged = salvaged.map_err(|error| at(&self.from, &error))?;
        salvaged.lost.extend(lost_records(&found));
        let strays = watcher.finish().map_err(|error| at(&self.to, &error))?;
        let verified = target.verify(Clock::system().now(), |_| {}).map_err(|error| at(&self.to, &error))?;
        target.close().map_err(|error| at(&self.to, &error))?;
        drop((source, raw));
        if let Some(problem) = verified.problems.first() {
            return Err(format!("the new store is not right: {problem}"));
        }
        if self.json {
            let tables: Vec<_> = salvaged
                .tables
                .iter()
                .map(|table| json!({"name": table.name, "items": table.items, "from_indexes": table.from_indexes}))
                .collect();
            println!(
                "{}",
                json!({
                    "tables": tables,
                    "backups": salvaged.backups,
                    "lost": salvaged.lost,
                    "notes": salvaged.notes,
                    "strays": strays,
                })
            );
        } else {
            for table in &salvaged.tables {
                let from = match table.from_indexes {
                    0 => String::new(),
                    count => format!(", {count} of them from its indexes"),
                };
                println!("table {}: {}{from}", table.name, terminal::count(table.items as usize, "item"));
            }
            if salvaged.backups > 0 {
                println!("{}", terminal::count(salvaged.backups, "backup"));
            }
            salvaged.notes.iter().for_each(|note| println!("note: {note}"));
            strays.iter().for_each(|file| println!("items of no known table: {file}"));
            salvaged.lost.iter().for_each(|lost| println!("lost: {lost}"));
            println!(
                "{} holds what could be read: {}",
                self.to.display(),
                match salvaged.lost.len() {
                    0 => "nothing is missing".to_owned(),
                    _ => "what is listed as lost is missing; a backup or a source may have it".to_owned(),
                }
            );
        }
        Ok(if salvaged.lost.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// What the pages of a store's file hold, brought into a directory, and what they lack.
pub(super) fn pages(from: &Path, raw: &Path, options: Options) -> Result<(Store, Salvaged), String> {
    let failed = |error: larder_storage::Error| format!("{}: {error}", from.display());
    let store = Store::open(raw, options).map_err(failed)?;
    match larder_storage::salvage(from, options, &store) {
        Ok(salvaged) => Ok((store, salvaged)),
        // A file of an early format is read as the store that it is.
        Err(error) => match Store::open_read_only(from, options) {
            Ok(store) => Ok((store, Salvaged::default())),
            Err(_) => Err(failed(error)),
        },
    }
}

/// In words.
pub(super) fn lost_records(found: &Salvaged) -> Option<String> {
    let records = terminal::count(found.lost_records as usize, "record");
    let what = format!("{records} of the log: what was written last may be as it was before");
    (found.lost_records > 0).then_some(what)
}

/// Writes items whose table is not known to a file for each table.
struct Strays<'a> {
    directory: &'a Path,
    files: BTreeMap<u32, BufWriter<File>>,
    progress: ProgressBar,
}

impl Strays<'_> {
    fn file(&self, table: u32) -> PathBuf {
        self.directory.join(format!("table-{table}.jsonl"))
    }

    /// The files there are.
    fn finish(mut self) -> io::Result<Vec<String>> {
        self.files.values_mut().try_for_each(io::Write::flush)?;
        Ok(self.files.keys().map(|table| self.file(*table).display().to_string()).collect())
    }
}

impl Watcher for Strays<'_> {
    fn brought(&mut self, items: u64) {
        self.progress.set_position(items);
    }

    fn stray(&mut self, table: u32, item: &Item) -> io::Result<()> {
        if !self.files.contains_key(&table) {
            self.files.insert(table, BufWriter::new(File::create_new(self.file(table))?));
        }
        let mut line = Vec::new();
        larder_wire::encode_exported(&mut line, item);
        line.push(b'\n');
        self.files.get_mut(&table).map_or(Ok(()), |file| file.write_all(&line))
    }
}
