//! A directory whose files are there whole or not at all, for their owner alone.
//!
//! A file is written beside its name, synced and then renamed. A rename is safe once the directory is synced, which
//! the caller does when it matters.

use crate::Error;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How the name of a file begins that is not whole yet.
const UNFINISHED: &str = ".unfinished-";

#[derive(Clone, Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    breaks: Breaks,
}

/// Lets what changes a folder fail from some step on, as if the machine stopped there. For tests.
#[derive(Clone, Debug, Default)]
pub struct Breaks(Arc<Steps>);

#[derive(Debug)]
struct Steps {
    taken: AtomicU64,
    /// The last that succeeds.
    last: AtomicU64,
}

impl Default for Steps {
    fn default() -> Self {
        Self { taken: AtomicU64::new(0), last: AtomicU64::new(u64::MAX) }
    }
}

impl Breaks {
    /// Lets this many more steps succeed. The next one fails half way, and all after it.
    pub fn after(&self, steps: u64) {
        self.0.last.store(self.taken().saturating_add(steps), Ordering::SeqCst);
    }

    pub fn mend(&self) {
        self.0.last.store(u64::MAX, Ordering::SeqCst);
    }

    /// Steps so far, failed ones included.
    pub fn taken(&self) -> u64 {
        self.0.taken.load(Ordering::SeqCst)
    }

    fn step(&self) -> io::Result<()> {
        let step = self.0.taken.fetch_add(1, Ordering::SeqCst) + 1;
        if step > self.0.last.load(Ordering::SeqCst) {
            return Err(io::Error::other("a fault that was asked for"));
        }
        Ok(())
    }

    fn write(&self, file: &mut File, bytes: &[u8]) -> io::Result<()> {
        if let Err(fault) = self.step() {
            file.write_all(&bytes[..bytes.len() / 2])?;
            return Err(fault);
        }
        file.write_all(bytes)
    }
}

impl Folder {
    pub(crate) fn new(path: &Path, breaks: Breaks) -> Self {
        Self { path: path.to_owned(), breaks }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn child(&self, name: &str) -> Self {
        Self { path: self.path.join(name), breaks: self.breaks.clone() }
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Makes it, and those above it.
    pub(crate) fn create(&self) -> Result<(), Error> {
        if self.path.is_dir() {
            return Ok(());
        }
        if self.path.exists() {
            let cause = "it is not a directory: name another".to_owned();
            return Err(Error::Backup { path: self.path.clone(), cause });
        }
        self.on(&self.path, || {
            self.breaks.step()?;
            let mut builder = DirBuilder::new();
            builder.recursive(true);
            #[cfg(unix)]
            std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
            builder.create(&self.path)?;
            match self.path.canonicalize()?.parent() {
                Some(parent) => sync_directory(parent),
                None => Ok(()),
            }
        })
    }

    /// Puts a whole file at a name.
    pub(crate) fn put(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        let unfinished = self.file(&format!("{UNFINISHED}{name}"));
        self.on(&self.file(name), || {
            let mut file = private().create(true).truncate(true).open(&unfinished)?;
            self.breaks.write(&mut file, bytes)?;
            self.breaks.step()?;
            file.sync_all()?;
            self.breaks.step()?;
            fs::rename(&unfinished, self.file(name))
        })
    }

    /// Makes the names survive a power loss.
    pub(crate) fn sync(&self) -> Result<(), Error> {
        self.on(&self.path, || {
            self.breaks.step()?;
            sync_directory(&self.path)
        })
    }

    pub(crate) fn remove(&self, name: &str) -> Result<(), Error> {
        self.on(&self.file(name), || {
            self.breaks.step()?;
            fs::remove_file(self.file(name))
        })
    }

    /// What is in a file; absent if there is none.
    pub(crate) fn read(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        self.on(&self.file(name), || match whole(&self.file(name)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        })
    }

    /// How long a file is; absent if there is none.
    pub(crate) fn bytes(&self, name: &str) -> Result<Option<u64>, Error> {
        self.on(&self.file(name), || match fs::metadata(self.file(name)) {
            Ok(found) => Ok(Some(found.len())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        })
    }

    /// The names of its whole files and of its directories, sorted; none if it is not there.
    pub(crate) fn names(&self) -> Result<Vec<String>, Error> {
        let mut names = self.all_names()?;
        names.retain(|name| !name.starts_with(UNFINISHED));
        Ok(names)
    }

    /// Removes what an earlier attempt left.
    pub(crate) fn tidy(&self) -> Result<(), Error> {
        for name in self.all_names()?.iter().filter(|name| name.starts_with(UNFINISHED)) {
            self.remove(name)?;
        }
        Ok(())
    }

    fn all_names(&self) -> Result<Vec<String>, Error> {
        self.on(&self.path, || {
            let entries = match fs::read_dir(&self.path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
                entries => entries?,
            };
            let mut names = Vec::new();
            for entry in entries {
                names.extend(entry?.file_name().into_string());
            }
            names.sort();
            Ok(names)
        })
    }

    /// Keeps others out until it is dropped.
    pub(crate) fn lock(&self, name: &str) -> Result<Held, Error> {
        let path = self.file(name);
        let file = self.on(&path, || private().create(true).truncate(false).open(&path))?;
        match file.try_lock() {
            Ok(()) => Ok(Held(file)),
            Err(fs::TryLockError::WouldBlock) => Err(Error::InUse { path, by: None }),
            Err(fs::TryLockError::Error(error)) => self.on(&path, || Err(error)),
        }
    }

    /// A new file that grows.
    pub(crate) fn begin(&self, name: &str) -> Result<Growing, Error> {
        let path = self.file(name);
        let file = self.on(&path, || {
            self.breaks.step()?;
            let file = private().create_new(true).open(&path)?;
            sync_directory(&self.path)?;
            Ok(file)
        })?;
        Ok(Growing { file, path, breaks: self.breaks.clone() })
    }

    /// Cuts a file off.
    pub(crate) fn cut(&self, name: &str, bytes: u64) -> Result<(), Error> {
        self.on(&self.file(name), || {
            self.breaks.step()?;
            let file = OpenOptions::new().write(true).open(self.file(name))?;
            file.set_len(bytes)?;
            file.sync_all()
        })
    }

    fn on<T>(&self, path: &Path, action: impl FnOnce() -> io::Result<T>) -> Result<T, Error> {
        action().map_err(|error| at(path, &error))
    }
}

/// A folder that others are kept out of, until this is dropped.
#[derive(Debug)]
pub(crate) struct Held(File);

impl Drop for Held {
    fn drop(&mut self) {
        // A child that this process is just starting has the file as well until it runs its own program, so closing it
        // would not give the folder back.
        let _ = self.0.unlock();
    }
}

/// A file that is appended to.
#[derive(Debug)]
pub(crate) struct Growing {
    file: File,
    path: PathBuf,
    breaks: Breaks,
}

impl Growing {
    pub(crate) fn append(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.breaks.write(&mut self.file, bytes).map_err(|error| at(&self.path, &error))
    }

    /// Fails if the file is not found by its name any more: what is in it then is nowhere.
    pub(crate) fn sync(&mut self) -> Result<(), Error> {
        self.breaks
            .step()
            .and_then(|()| self.file.sync_data())
            .and_then(|()| self.is_named())
            .map_err(|error| at(&self.path, &error))
    }

    fn is_named(&self) -> io::Result<()> {
        let named = fs::metadata(&self.path)?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt;
            let own = self.file.metadata()?;
            if (named.dev(), named.ino()) != (own.dev(), own.ino()) {
                return Err(io::Error::new(io::ErrorKind::NotFound, "another file has taken its name"));
            }
        }
        #[cfg(not(unix))]
        drop(named);
        Ok(())
    }
}

/// An error of the disk, and where.
pub(crate) fn at(path: &Path, error: &io::Error) -> Error {
    Error::Io { kind: error.kind(), cause: format!("{}: {error}", path.display()) }
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

fn sync_directory(path: &Path) -> io::Result<()> {
    // Elsewhere a directory cannot be opened as a file.
    if cfg!(unix) {
        File::open(path)?.sync_all()?;
    }
    Ok(())
}

/// A whole file. A pipe would be waited for.
fn whole(path: &Path) -> io::Result<Vec<u8>> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    fs::read(path)
}

/// A part of a file, for files too large to be read at once.
pub(crate) fn read_part(file: &mut File, path: &Path, from: u64, bytes: usize) -> Result<Vec<u8>, Error> {
    let mut part = Vec::new();
    let read = file
        .seek(SeekFrom::Start(from))
        .and_then(|_| Read::by_ref(file).take(bytes as u64).read_to_end(&mut part));
    read.map_err(|error| at(path, &error))?;
    Ok(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_free_at_once_although_a_child_has_its_lock_open_too() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::new(dir.path(), Breaks::default());
        let held = folder.lock("lock").unwrap();
        assert!(matches!(folder.lock("lock"), Err(Error::InUse { .. })));
        // What a child has of it between its beginning and its own program.
        let of_a_child = held.0.try_clone().unwrap();
        drop(held);
        folder.lock("lock").unwrap();
        drop(of_a_child);
    }
}
