//! `larder restore --from DIR`: a new store from a directory of backups, or from an archive.
//!
//! It is made beside its place and moved there once it is whole and opens, so that an interrupted one is never taken for a
//! store.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use larder_engine::Engine;
use larder_storage::archive::{self, Until};
use larder_storage::backup::{Manifest, Progress, Repository, rfc3339};
use larder_storage::{Durability, Key, Options, Store};

use crate::terminal;

pub(super) fn run(
    from: &Path,
    backup: Option<&str>,
    at_ms: Option<u64>,
    to: &Path,
    key: Option<Key>,
) -> Result<ExitCode, String> {
    let repository = Repository::open(from, key).map_err(|error| error.to_string())?;
    let unfinished = beside(to)?;
    let options = Options { key, durability: Durability::Relaxed, ..Options::default() };
    let (made, missing) = make(&repository, backup, at_ms, &unfinished, options).inspect_err(|_| {
        // What is left is no store, and nobody's.
        let _ = fs::remove_dir_all(&unfinished);
    })?;
    let cannot = |error: std::io::Error| {
        format!("{}: {error}; the new store is in {}", to.display(), unfinished.display())
    };
    fs::rename(&unfinished, to).map_err(cannot)?;
    let parent = to.canonicalize().map_err(cannot)?.parent().map(Path::to_owned);
    parent.map_or(Ok(()), |parent| fs::File::open(parent)?.sync_all()).map_err(cannot)?;
    terminal::print(&format!(
        "{} is a store with {}: {made}\nNext: `larder verify --store {}`, then serve it with `larder serve --store {}`.\n",
        to.display(),
        terminal::count(tables(to, options)?, "table"),
        to.display(),
        to.display(),
    ))?;
    for missing in &missing {
        eprintln!("larder: missing: {missing}");
    }
    Ok(if missing.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Where the store is made. Its place must be free.
fn beside(to: &Path) -> Result<PathBuf, String> {
    let taken = match to.read_dir() {
        Ok(mut entries) => entries.next().is_some(),
        Err(_) => to.exists(),
    };
    if taken {
        return Err(format!("{} is not empty: name a new directory with --to", to.display()));
    }
    let name = to.file_name().ok_or_else(|| format!("{} names no directory", to.display()))?;
    let mut unfinished = name.to_owned();
    unfinished.push(".unfinished");
    let unfinished = to.with_file_name(unfinished);
    match fs::symlink_metadata(&unfinished) {
        Ok(_) => Err(format!(
            "{} is there, where the store is made: a restore that was interrupted leaves it behind; remove it, or name another \
             directory with --to",
            unfinished.display()
        )),
        Err(_) => Ok(unfinished),
    }
}

/// Makes the store, and says what of, and what is missing in it.
fn make(
    repository: &Repository,
    backup: Option<&str>,
    at_ms: Option<u64>,
    dir: &Path,
    options: Options,
) -> Result<(String, Vec<String>), String> {
    let told = |error: larder_storage::Error| error.to_string();
    let until = match (backup, at_ms) {
        (Some(_), _) => None,
        _ if !archive::is_in(repository).map_err(told)? => None,
        (None, Some(time_ms)) => Some(Until::Time(time_ms)),
        (None, None) => Some(Until::Latest),
    };
    let chosen = match until {
        Some(_) => None,
        None => Some(choose(repository, backup, at_ms)?),
    };
    let store = Store::open(dir, options).map_err(|error| format!("{}: {error}", dir.display()))?;
    let bar = terminal::progress(None, "entries restored");
    let mut show = |done: Progress| bar.set_position(done.entries);
    let made = match (until, chosen) {
        (Some(until), _) => {
            let rebuilt = archive::rebuild(repository, until, &store, &mut show).map_err(told)?;
            for note in &rebuilt.notes {
                eprintln!("larder: {note}");
            }
            let of = format!(
                "base {} and the {} archived after it, up to commit {} at {}",
                rebuilt.base,
                terminal::count(usize::try_from(rebuilt.groups).unwrap_or(usize::MAX), "commit"),
                rebuilt.position.commit,
                rfc3339(rebuilt.position.time_ms),
            );
            (of, rebuilt.missing)
        }
        (None, Some(manifest)) => {
            repository.restore(&manifest, &store, &mut show).map_err(told)?;
            let missing = (!manifest.skipped.is_empty()).then(|| {
                let values = terminal::count(manifest.skipped.len(), "value");
                format!("{values} of the store could not be read when the backup was made")
            });
            let of = format!("backup {}, as of {}", manifest.id, rfc3339(manifest.made_ms));
            (of, missing.into_iter().collect())
        }
        (None, None) => return Err("there is nothing to restore".to_owned()),
    };
    bar.finish_and_clear();
    store.close().map_err(told)?;
    Ok(made)
}

/// The backup that is named, or the newest that was made by then.
fn choose(repository: &Repository, backup: Option<&str>, at_ms: Option<u64>) -> Result<Manifest, String> {
    if let Some(id) = backup {
        return repository.manifest(id).map_err(|error| error.to_string());
    }
    let found = repository.list().map_err(|error| error.to_string())?;
    for error in found.iter().filter_map(|found| found.as_ref().err()) {
        eprintln!("larder: {error}");
    }
    let made_by_then = |manifest: &Manifest| at_ms.is_none_or(|at_ms| manifest.made_ms <= at_ms);
    found.into_iter().flatten().rfind(made_by_then).ok_or_else(|| {
        let dir = repository.path().display();
        format!(
            "{dir}: no backup in it was made by then; `larder backup --to {dir} --list` shows which there are"
        )
    })
}

/// Opens the store as a server would.
fn tables(dir: &Path, options: Options) -> Result<usize, String> {
    let told = |error: larder_engine::Error| format!("{}: {error}", dir.display());
    let engine = Engine::open(dir, options).map_err(told)?;
    let tables = engine.count_tables().map_err(told)?;
    engine.close().map_err(told)?;
    Ok(tables)
}
