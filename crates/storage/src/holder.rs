//! Who has a store open, told by a file beside it, so that others can name it, wait for it or go through it.
//!
//! The lock is the truth and this a note on it: it is read only where the lock was refused, and what a process left
//! behind that is gone is nobody's. It holds a process's number, its program and the address it serves the store at,
//! for this user alone; a store that cannot be written beside does without.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

const NAME: &str = "larder.holder";
/// More than is ever written.
const BYTES_MAX: u64 = 4096;

/// The process that has a store open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    pub process: u32,
    pub program: String,
    /// Where it serves the store, as in `http://127.0.0.1:8000`.
    pub address: Option<String>,
}

impl Holder {
    /// Who says to have the store in `dir`, and still runs.
    pub fn of(dir: &Path) -> Option<Self> {
        let path = dir.join(NAME);
        if fs::metadata(&path).ok()?.len() > BYTES_MAX {
            return None;
        }
        let text = fs::read_to_string(path).ok()?;
        let mut lines = text.lines();
        let process = lines.next()?.strip_prefix("process ")?.parse().ok()?;
        let program = lines.next()?.strip_prefix("program ")?.to_owned();
        let address = lines.next().and_then(|line| line.strip_prefix("address ")).map(str::to_owned);
        let holder = Self { process, program, address };
        holder.runs().then_some(holder)
    }

    /// Where the system does not tell, it is taken to.
    fn runs(&self) -> bool {
        let all = Path::new("/proc");
        !all.join("self").exists() || all.join(self.process.to_string()).exists()
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} ({})", self.process, self.program)?;
        match &self.address {
            Some(address) => write!(f, ", which serves it at {address}"),
            None => Ok(()),
        }
    }
}

/// The note of this process, gone with it.
#[derive(Debug)]
pub(crate) struct Sign(PathBuf);

impl Sign {
    /// Says that this process has the store in `dir`, whose lock it holds.
    pub(crate) fn put(dir: &Path, address: Option<&str>) -> Self {
        let path = dir.join(NAME);
        let program = std::env::current_exe().ok();
        let program =
            program.as_deref().and_then(Path::file_name).map_or("?".into(), |name| name.to_string_lossy());
        let mut text = format!("process {}\nprogram {program}\n", std::process::id());
        if let Some(address) = address {
            text.push_str(&format!("address {address}\n"));
        }
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        // A note that cannot be left is not missed by the store.
        let _ = options.open(&path).and_then(|mut file| file.write_all(text.as_bytes()));
        Self(path)
    }

    pub(crate) fn address(&self, address: &str) {
        if let Some(dir) = self.0.parent() {
            std::mem::forget(Self::put(dir, Some(address)));
        }
    }
}

impl Drop for Sign {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Error, Options, Store};

    #[test]
    fn a_store_in_use_says_who_has_it_and_where_it_is_served() {
        let dir = tempfile::tempdir().expect("there is room");
        let store = Store::open(dir.path(), Options::default()).expect("it is new");
        let holder = Holder::of(dir.path()).expect("it is open");
        assert_eq!((holder.process, &holder.address), (std::process::id(), &None));
        let told = |refused: Error| {
            let Error::InUse { .. } = refused else { panic!("{refused}") };
            refused.to_string()
        };
        let refused = told(Store::open(dir.path(), Options::default()).expect_err("it is in use"));
        assert!(refused.contains(&format!("in use by process {}", std::process::id())), "{refused}");

        store.announce("http://127.0.0.1:8000");
        let refused = told(Store::open_read_only(dir.path(), Options::default()).expect_err("it is in use"));
        assert!(refused.contains("which serves it at http://127.0.0.1:8000"), "{refused}");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = fs::metadata(dir.path().join(NAME)).expect("it is there").permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }

        store.close().expect("nothing is wrong");
        assert_eq!(Holder::of(dir.path()), None);
        assert!(!dir.path().join(NAME).exists());
        let reading = Store::open_read_only(dir.path(), Options::default()).expect("it is free");
        assert_eq!(Holder::of(dir.path()), None, "reading leaves every byte as it is");
        drop(reading);
    }

    #[test]
    fn the_note_of_a_process_that_is_gone_is_nobodys() {
        let dir = tempfile::tempdir().expect("there is room");
        let note = "process 4294967295\nprogram larder\naddress http://127.0.0.1:8000\n";
        for (text, is_known) in [
            (note.to_owned(), !Path::new("/proc/self").exists()),
            (format!("process {}\nprogram larder\n", std::process::id()), true),
            ("process\n".to_owned(), false),
            (String::new(), false),
            ("x".repeat(5000), false),
        ] {
            fs::write(dir.path().join(NAME), &text).expect("there is room");
            assert_eq!(Holder::of(dir.path()).is_some(), is_known, "{text}");
        }
    }
}
