//! `larder upgrade`: which formats a store and its backups have, who wrote them, and the store in today's format.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use larder::Address;
use larder::store::STORE_VARIABLE;
use larder_storage::version::{self, Found, Kind, LARDER};
use larder_storage::{Options, Store};
use serde_json::{Value, json};

use crate::terminal;

/// What is to be converted is no fault, and not nothing either.
const TO_CONVERT: u8 = 3;

/// Say which Larder wrote a store, and bring it to today's format
///
/// Of every file it tells the format, the version of Larder that wrote it, and whether this one reads it. With --check
/// nothing is changed, no key is needed, and a server may have the store open meanwhile. Without it, a store of an earlier
/// format becomes one of today's, as it does when it is opened for writing; an earlier Larder cannot open it after that,
/// so take a backup first. Backups and archives are read as they are and never converted. A file of a later format is
/// never changed.
#[derive(Debug, Args)]
pub(crate) struct Upgrade {
    /// Where the store is
    #[arg(long, alias = "data", env = STORE_VARIABLE, value_name = "DIR", default_value_t = Address::default())]
    store: Address,
    /// A directory of backups, or of an archive, to look at too; can be given several times
    #[arg(long, value_name = "DIR")]
    backups: Vec<PathBuf>,
    /// Change nothing; exit with 3 if the store is to be converted
    #[arg(long)]
    check: bool,
    /// A file with the key of an encrypted store, to convert it; the key itself can be in LARDER_KEY instead
    #[arg(long, value_name = "FILE", env = "LARDER_KEY_FILE")]
    key_file: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What was found, and what cannot be read.
#[derive(Default)]
struct Report {
    files: Vec<Found>,
    problems: Vec<String>,
    /// The format that the store had before.
    converted: Option<u64>,
}

impl Upgrade {
    pub(crate) fn run(self) -> Result<ExitCode, String> {
        let dir = super::directory(&self.store)?;
        super::check_store(dir)?;
        let mut report = self.look(dir);
        // What is beside a store that is to be converted is the way back: it should be known to be one.
        if !self.check && !report.is_refused() && report.files.iter().any(Found::is_to_convert) {
            let before = report.files.first().map(|store| store.format);
            self.convert(dir)?;
            report = Report { converted: before, ..self.look(dir) };
        }
        terminal::print(&match self.json {
            true => format!("{}\n", report.json()),
            false => report.text(),
        })?;
        Ok(match () {
            () if report.is_refused() => ExitCode::FAILURE,
            () if report.files.iter().any(Found::is_to_convert) => ExitCode::from(TO_CONVERT),
            () => ExitCode::SUCCESS,
        })
    }

    fn look(&self, dir: &Path) -> Report {
        let mut report = Report::default();
        match version::of_store(dir) {
            Ok(found) => report.files.push(found),
            Err(error) => report.problems.push(format!("{}: {error}", dir.display())),
        }
        for backups in &self.backups {
            match version::of_backups(backups) {
                Ok(found) => {
                    for found in found {
                        match found {
                            Ok(found) => report.files.push(found),
                            Err(error) => report.problems.push(error.to_string()),
                        }
                    }
                }
                Err(error) => report.problems.push(error.to_string()),
            }
        }
        report
    }

    fn convert(&self, dir: &Path) -> Result<(), String> {
        let key = super::key(self.key_file.as_deref())?;
        let opened = Store::open(dir, Options { key, ..Options::default() });
        opened.and_then(|store| store.close()).map_err(|error| format!("{}: {error}", dir.display()))
    }
}

impl Report {
    /// Something is newer, or cannot be read.
    fn is_refused(&self) -> bool {
        self.files.iter().any(Found::is_newer) || !self.problems.is_empty()
    }

    fn text(&self) -> String {
        let mut lines: Vec<String> = Vec::new();
        // Backups and segments are many, and all alike as a rule.
        let mut rest = &self.files[..];
        while let Some(first) = rest.first() {
            let alike = rest.iter().take_while(|found| is_like(first, found)).count();
            lines.push(line(first, alike));
            rest = &rest[alike..];
        }
        lines.extend(self.problems.iter().cloned());
        let is_to_convert = self.files.iter().any(Found::is_to_convert);
        let today = *Kind::Store.known().end();
        lines.extend(match self.converted {
            Some(before) => {
                Some(format!("converted from format {before}: an earlier Larder cannot open it any more"))
            }
            None if self.is_refused() && is_to_convert => {
                Some("nothing was converted: what cannot be read comes first".to_owned())
            }
            // It has said itself what to do.
            None if self.is_refused() => None,
            None if is_to_convert => Some(format!(
                "`larder upgrade` makes the store one of format {today}, which an earlier Larder cannot open: take a backup first"
            )),
            None => Some(format!("Larder {LARDER} reads all of it as it is: nothing to convert")),
        });
        lines.join("\n") + "\n"
    }

    fn json(&self) -> Value {
        let files = self.files.iter().map(|found| {
            let known = found.kind.known();
            json!({
                "path": found.path.display().to_string(),
                "kind": name(found.kind),
                "format": found.format,
                "writer": found.writer,
                "reads": [known.start(), known.end()],
                "state": state(found),
            })
        });
        json!({
            "larder": LARDER,
            "files": files.collect::<Vec<_>>(),
            "problems": self.problems,
            "converted_from": self.converted,
        })
    }
}

/// Whether one line says it of both.
fn is_like(one: &Found, other: &Found) -> bool {
    let dir = |found: &Found| found.path.parent().map(Path::to_owned);
    (one.kind, one.format, &one.writer, dir(one)) == (other.kind, other.format, &other.writer, dir(other))
}

fn line(found: &Found, alike: usize) -> String {
    if let Some(newer) = found.newer().filter(|_| alike == 1) {
        return newer.to_string();
    }
    let place = match alike {
        1 => found.path.display().to_string(),
        alike => {
            let dir = found.path.parent().unwrap_or(&found.path);
            format!("{} in {}", terminal::count(alike, name(found.kind)), dir.display())
        }
    };
    let writer =
        found.writer.as_ref().map_or_else(String::new, |writer| format!(", written by Larder {writer}"));
    let newer = if found.is_newer() { ": use that Larder, or a newer one" } else { "" };
    format!("{place}: format {}{writer}{newer}", found.format)
}

fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Store => "store",
        Kind::Backups => "backups",
        Kind::Backup => "backup",
        Kind::Segment => "segment",
    }
}

fn state(found: &Found) -> &'static str {
    match () {
        () if found.is_newer() => "newer",
        () if found.is_to_convert() => "to-convert",
        () => "readable",
    }
}
