//! The access file, as a server reads it.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use larder_auth::Access;

/// Bits that let others than the owner at a file.
const OTHERS: u32 = 0o077;

/// Who is in it. A file that others than its owner may use is refused.
pub fn read(path: &Path) -> Result<Access, String> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let metadata = fs::metadata(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => failed(&"there is no such file; `larder access add NAME` makes one"),
        _ => failed(&error),
    })?;
    if metadata.permissions().mode() & OTHERS != 0 {
        let fault =
            format!("others than its owner may use it, and it holds secrets: chmod 600 {}", path.display());
        return Err(failed(&fault));
    }
    let text = fs::read_to_string(path).map_err(|error| failed(&error))?;
    Access::read(&text).map_err(|error| failed(&error))
}
