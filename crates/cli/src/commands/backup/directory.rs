//! `larder backup --to DIR`: backups of a whole store, in a directory.
//!
//! A store in a directory is read here, so nobody else may have it open. A running server is asked for what the directory
//! lacks, and sends it from one snapshot while it goes on.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use indicatif::ProgressBar;
use larder::Address;
use larder_model::Clock;
use larder_storage::backup::{
    Incoming, Keep, Made, Manifest, Progress, Pruned, Repository, Request, rfc3339,
};
use larder_storage::{Error, Options, Store, archive};
use serde_json::{Value, json};

use crate::commands::{check_store, key};
use crate::data::chosen::Place;
use crate::{held, http, terminal};

/// Where a server sends its store from.
const PATH: &str = "/_larder/backup";
const PIECE_BYTES: usize = 256 << 10;

#[derive(Debug, Args)]
pub(super) struct Directory {
    /// Back up the whole store to this directory, which is made if it is missing
    #[arg(long, value_name = "DIR", conflicts_with = "tables")]
    pub(super) to: Option<PathBuf>,
    /// Read through what is in the directory instead, and report what is damaged
    #[arg(long, requires = "to", conflicts_with_all = ["list", "keep_last", "keep_for", "skip_damage"])]
    verify: bool,
    /// Afterwards, remove all but the newest N; with --keep-for, what is kept by either stays
    #[arg(long, value_name = "N", requires = "to", value_parser = at_least_one)]
    keep_last: Option<usize>,
    /// Afterwards, remove what is older, as in 30d
    #[arg(long, value_name = "DURATION", requires = "to", value_parser = humantime::parse_duration)]
    keep_for: Option<Duration>,
    /// Leave out and list what is damaged in the store, instead of stopping
    #[arg(long, requires = "to")]
    skip_damage: bool,
    /// A file with the key of an encrypted store; the backup is encrypted too. The key itself can be in LARDER_KEY instead.
    #[arg(long, value_name = "FILE", env = "LARDER_KEY_FILE")]
    key_file: Option<PathBuf>,
}

fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|number| *number > 0).ok_or_else(|| "give a number, at least 1".to_owned())
}

impl Directory {
    pub(super) fn run(&self, to: &Path, place: &Place, json: bool) -> Result<ExitCode, String> {
        if self.verify {
            return self.verify(to, json);
        }
        let begun = Instant::now();
        let key = key(self.key_file.as_deref())?;
        let bar = terminal::progress(None, "entries backed up");
        // A server goes on while it sends its store.
        let served = match &place.store {
            Address::Directory(path) => held::served(path),
            _ => None,
        };
        let store = served
            .map_or_else(|| place.store.clone(), |endpoint| Address::DynamoDb { endpoint: Some(endpoint) });
        let (repository, made) = match &store {
            Address::Directory(path) => {
                check_store(path)?;
                let options = Options { key, ..Options::default() };
                let store = Store::open_read_only(path, options).map_err(|error| at(path, &error))?;
                let repository = Repository::open_or_create(to, key).map_err(|error| told(&error))?;
                let request = Request { now_ms: now_ms(), skip_damage: self.skip_damage, base: None };
                let made = repository.back_up(&store.snapshot(), request, &mut |done| show(&bar, done));
                let made = made.map_err(|error| told(&error))?;
                store.close().map_err(|error| at(path, &error))?;
                (repository, made)
            }
            Address::DynamoDb { endpoint: Some(endpoint) } => {
                let repository = Repository::open_or_create(to, key).map_err(|error| told(&error))?;
                let made = receive(endpoint, &repository, self.skip_damage, &bar)?;
                (repository, made)
            }
            Address::DynamoDb { endpoint: None } | Address::Memory => {
                return Err(format!(
                    "{} cannot be backed up to a directory: name a store's directory or dynamodb:http://HOST:PORT with --store",
                    place.store
                ));
            }
        };
        bar.finish_and_clear();
        let pruned = self.prune(&repository)?;
        tell(&made, &pruned, to, begun.elapsed(), json)?;
        // Whoever asked for what can be read should notice that something could not.
        Ok(if made.manifest.skipped.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn prune(&self, repository: &Repository) -> Result<Pruned, String> {
        if self.keep_last.is_none() && self.keep_for.is_none() {
            return Ok(Pruned::default());
        }
        let age_ms = |age: Duration| u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
        let since_ms = self.keep_for.map(|age| now_ms().saturating_sub(age_ms(age)));
        // The one that was just made stays in any case.
        let keep = Keep { last: Some(self.keep_last.unwrap_or(1)), since_ms };
        repository.prune(keep).map_err(|error| told(&error))
    }

    pub(super) fn show_all(&self, to: &Path, json: bool) -> Result<ExitCode, String> {
        let repository =
            Repository::open(to, key(self.key_file.as_deref())?).map_err(|error| told(&error))?;
        let mut code = ExitCode::SUCCESS;
        for found in repository.list().map_err(|error| told(&error))? {
            match found {
                Ok(manifest) if json => terminal::print(&format!("{}\n", described(&manifest)))?,
                Ok(manifest) => {
                    let of = if manifest.base.is_some() { "  for the archive" } else { "" };
                    terminal::print(&format!(
                        "{}  {}, {}{of}\n",
                        manifest.id,
                        terminal::count(usize_of(manifest.entries), "entry").replace("entrys", "entries"),
                        bytes(manifest.bytes)
                    ))?;
                }
                Err(error) => {
                    eprintln!("larder: {}", told(&error));
                    code = ExitCode::FAILURE;
                }
            }
        }
        Ok(code)
    }

    fn verify(&self, to: &Path, json: bool) -> Result<ExitCode, String> {
        let repository =
            Repository::open(to, key(self.key_file.as_deref())?).map_err(|error| told(&error))?;
        let bar = terminal::progress(None, "entries read");
        let verified = repository.verify(None, &mut |done| show(&bar, done));
        let mut verified = verified.map_err(|error| told(&error))?;
        archive::verify(&repository, &mut verified).map_err(|error| told(&error))?;
        bar.finish_and_clear();
        if json {
            terminal::print(&format!(
                "{}\n",
                json!({
                    "backups": verified.backups,
                    "chunks": verified.chunks,
                    "commits": verified.groups,
                    "bytes": verified.bytes,
                    "problems": verified.problems,
                })
            ))?;
        } else {
            for problem in &verified.problems {
                terminal::print(&format!("{problem}\n"))?;
            }
            let archived = match verified.groups {
                0 => String::new(),
                groups => format!(", {} archived", terminal::count(usize_of(groups), "commit")),
            };
            terminal::print(&format!(
                "{}, {}{archived}, {} read: {}\n",
                terminal::count(usize_of(verified.backups), "backup"),
                terminal::count(usize_of(verified.chunks), "chunk"),
                bytes(verified.bytes),
                match verified.problems.len() {
                    0 => "all is well".to_owned(),
                    count => terminal::count(count, "problem"),
                }
            ))?;
        }
        Ok(if verified.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

fn receive(
    endpoint: &str,
    repository: &Repository,
    skip_damage: bool,
    bar: &ProgressBar,
) -> Result<Made, String> {
    let mut incoming = Incoming::new(repository).map_err(|error| told(&error))?;
    let path = if skip_damage { format!("{PATH}?skip-damage") } else { PATH.to_owned() };
    let cannot = |error: String| format!("{endpoint}: {error}");
    let mut answer = http::post(endpoint, &path, &incoming.asks()).map_err(cannot)?;
    if answer.status != 200 {
        let mut text = String::new();
        // What it says is only for the message.
        let _ = answer.body.take(4096).read_to_string(&mut text);
        let hint = if answer.status == 404 { "is it a Larder server of this version?" } else { text.trim() };
        return Err(cannot(format!("it answered {}: {hint}", answer.status)));
    }
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let length = answer.body.read(&mut piece).map_err(|error| cannot(error.to_string()))?;
        if length == 0 {
            break;
        }
        show(bar, incoming.push(&piece[..length]).map_err(|error| told(&error))?);
    }
    incoming.finish().map_err(|error| told(&error))
}

fn show(bar: &ProgressBar, done: Progress) {
    bar.set_position(done.entries);
}

fn tell(made: &Made, pruned: &Pruned, to: &Path, took: Duration, json: bool) -> Result<(), String> {
    if json {
        let mut told = described(&made.manifest);
        told["new_chunks"] = json!(made.new_chunks);
        told["written_bytes"] = json!(made.written_bytes);
        told["seconds"] = json!(took.as_secs_f64());
        told["removed"] = json!(pruned.backups);
        return terminal::print(&format!("{told}\n"));
    }
    for skipped in &made.manifest.skipped {
        eprintln!("larder: left out, because it is damaged: {skipped}");
    }
    let mut text = format!(
        "{} in {}: {}, {} as of {}; {} in {:.1} s\n",
        made.manifest.id,
        to.display(),
        terminal::count(usize_of(made.manifest.entries), "entry").replace("entrys", "entries"),
        bytes(made.manifest.bytes),
        rfc3339(made.manifest.made_ms),
        match made.new_chunks {
            0 => "nothing is new: looked through".to_owned(),
            chunks => format!(
                "{} ({}) written and read again",
                terminal::count(usize_of(chunks), "new chunk"),
                bytes(made.written_bytes)
            ),
        },
        took.as_secs_f64(),
    );
    if !pruned.backups.is_empty() {
        let removed = terminal::count(pruned.backups.len(), "older backup");
        text.push_str(&format!("{removed} removed, {} given back\n", bytes(pruned.bytes)));
    }
    terminal::print(&text)
}

fn described(manifest: &Manifest) -> Value {
    json!({
        "id": manifest.id,
        "time": rfc3339(manifest.made_ms),
        "commit": manifest.position.commit,
        "entries": manifest.entries,
        "bytes": manifest.bytes,
        "chunks": manifest.chunks.len(),
        "skipped": manifest.skipped.len(),
        "for_archive": manifest.base.is_some(),
    })
}

fn now_ms() -> u64 {
    u64::try_from(Clock::system().now().millis()).unwrap_or_default()
}

fn usize_of(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// `512 B`, `3.4 MB`.
pub(crate) fn bytes(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}

fn told(error: &Error) -> String {
    error.to_string()
}

fn at(path: &Path, error: &Error) -> String {
    match error {
        Error::InUse { .. } => format!(
            "{error}; if it is `larder serve`, back it up while it runs: --store dynamodb:http://127.0.0.1:8000"
        ),
        other => format!("{}: {other}", path.display()),
    }
}
