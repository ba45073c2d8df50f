//! The access file on disk: its owner's alone, and written whole or not at all.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

pub(crate) use larder_serve::access_file::read;

use super::Changed;

/// Who is in the file, to be changed; nobody, if there is none yet.
pub(super) fn changed(path: &Path) -> Result<Changed, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    // What a link leads to is changed, not the link.
    let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let lock = File::open(directory(path)).map_err(failed)?;
    lock.lock().map_err(failed)?;
    let now = if path.exists() { read(path)?.principals().to_vec() } else { Vec::new() };
    Ok(Changed { path: path.to_owned(), _lock: lock, now })
}

pub(super) fn write(path: &Path, text: &str) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    // A temporary file is its owner's alone.
    let mut file = tempfile::NamedTempFile::new_in(directory(path)).map_err(failed)?;
    file.write_all(text.as_bytes()).and_then(|()| file.as_file().sync_all()).map_err(failed)?;
    file.persist(path).map_err(|error| failed(error.error))?;
    Ok(())
}

fn directory(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
