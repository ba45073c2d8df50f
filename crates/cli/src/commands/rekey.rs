//! `larder rekey`: an encrypted store under another master key.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use larder::Address;
use larder::store::STORE_VARIABLE;
use larder_storage::backup::Repository;
use larder_storage::{Key, rekey};

/// Put an encrypted store under another key.
///
/// What the store holds is not written again: its data key is wrapped by the new key. Nobody may have the store open.
/// Keep the old key as long as backups exist that need it; --backups puts a directory of those under the new key.
#[derive(Debug, Args)]
pub(crate) struct Rekey {
    /// Where the store is
    #[arg(long, alias = "data", env = STORE_VARIABLE, value_name = "DIR", default_value_t = Address::default())]
    store: Address,
    /// A directory of backups, or of an archive, to put under the other key instead of a store
    #[arg(long, value_name = "DIR", conflicts_with = "store")]
    backups: Option<PathBuf>,
    /// A file with the key it has; the key itself can be in LARDER_KEY instead
    #[arg(long, value_name = "FILE", env = "LARDER_KEY_FILE")]
    key_file: Option<PathBuf>,
    /// A file with the key it gets, as 64 hexadecimal digits; `openssl rand -hex 32` makes one
    #[arg(long, value_name = "FILE")]
    new_key_file: PathBuf,
}

impl Rekey {
    pub(crate) fn run(self) -> Result<ExitCode, String> {
        let place = match &self.backups {
            Some(backups) => backups.as_path(),
            None => super::directory(&self.store)?,
        };
        if self.backups.is_none() {
            super::check_store(place)?;
        }
        let old = super::key(self.key_file.as_deref())?
            .ok_or("no key was given: name the file of the present one with --key-file")?;
        let new = Key::from_file(&self.new_key_file).map_err(|error| error.to_string())?;
        let changed = match &self.backups {
            Some(backups) => Repository::rekey(backups, old, new).map_err(|error| error.to_string()),
            None => rekey(place, old, new).map_err(|error| format!("{}: {error}", place.display())),
        };
        changed?;
        println!("{} is under the key in {} now", place.display(), self.new_key_file.display());
        Ok(ExitCode::SUCCESS)
    }
}
