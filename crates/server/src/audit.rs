//! The audit log: who asked for what, from where, and whether they were let; a JSON object a line. Never a value, a key of an
//! item or a secret.
//!
//! A file that has grown to [`FILE_BYTES_MAX`] becomes `FILE.1`, that one `FILE.2`, and so on; the oldest is removed.
//!
//! Promise: a line is handed to the operating system before its request is carried out. If that fails, the log says so, and
//! requests go on.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use larder_auth::actions::Need;
use larder_auth::{Caller, Claim, HttpRequest};
use larder_model::{ApiError, UnixTime};
use serde_json::{Value, json};

use crate::access::{HERE, Visitor};
use crate::budget::Hints;
use crate::connections::Peer;
use crate::door::Refusal;

const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// How many are kept beside the one that is written.
pub const FILES_KEPT: u32 = 9;
/// How much of what a stranger says is repeated.
const SAID_CHARS_MAX: usize = 128;

/// Where requests are noted.
#[derive(Debug)]
pub struct Audit {
    path: PathBuf,
    file_bytes_max: u64,
    open: Mutex<(File, u64)>,
    hints: Hints,
}

/// One line.
pub(crate) struct Entry(Value);

impl Audit {
    /// Goes on with a file, or begins one that its owner alone may read.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::with_limit(path, FILE_BYTES_MAX)
    }

    fn with_limit(path: &Path, file_bytes_max: u64) -> io::Result<Self> {
        let open = Mutex::new(opened(path)?);
        Ok(Self { path: path.to_owned(), file_bytes_max, open, hints: Hints::default() })
    }

    pub(crate) fn write(&self, entry: &Entry) {
        let line = format!("{}\n", entry.0);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let written = self.rotate(&mut open).and_then(|()| open.0.write_all(line.as_bytes()));
        open.1 += line.len() as u64;
        if let Err(error) = written
            && self.hints.due()
        {
            tracing::error!(%error, path = %self.path.display(), "the audit log cannot be written");
        }
    }

    fn rotate(&self, open: &mut (File, u64)) -> io::Result<()> {
        if open.1 < self.file_bytes_max {
            return Ok(());
        }
        let numbered = |number: u32| {
            let mut name = self.path.clone().into_os_string();
            name.push(format!(".{number}"));
            PathBuf::from(name)
        };
        for number in (1..FILES_KEPT).rev() {
            match fs::rename(numbered(number), numbered(number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        fs::rename(&self.path, numbered(1))?;
        *open = opened(&self.path)?;
        Ok(())
    }
}

fn opened(path: &Path) -> io::Result<(File, u64)> {
    // Opening a pipe would wait for whoever reads it.
    if fs::metadata(path).is_ok_and(|there| !there.is_file()) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no file"));
    }
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path)?;
    let length = file.metadata()?.len();
    Ok((file, length))
}

impl Entry {
    /// Somebody whose signature is wrong, or who has none.
    pub(crate) fn stranger(
        peer: Peer,
        now: UnixTime,
        http: &HttpRequest<'_>,
        target: Option<&str>,
        error: &larder_auth::Error,
    ) -> Self {
        let mut entry = Self::from(peer, now);
        // Whose key it is said to be. The message of a wrong signature repeats the request: its code is enough.
        if let Ok(claim) = Claim::of(http) {
            entry.0["claimed_key"] = said(claim.key_id()).into();
        }
        entry.0["target"] = target.map(said).into();
        entry.denied(error.code())
    }

    /// Somebody who showed a console a key that nobody has, or another secret.
    pub(crate) fn not_recognized(
        peer: Peer,
        now: UnixTime,
        key_id: &str,
        error: &larder_auth::Error,
    ) -> Self {
        let mut entry = Self::from(peer, now);
        entry.0["claimed_key"] = said(key_id).into();
        entry.denied(error.code())
    }

    /// What the door did not let in.
    pub(crate) fn turned_away(peer: Peer, now: UnixTime, refusal: &Refusal) -> Self {
        let mut entry = Self::from(peer, now);
        entry.0["why"] = refusal.to_string().into();
        entry.denied("AccessDeniedException")
    }

    /// What was signed, and is no request.
    pub(crate) fn unread(visitor: &Visitor<'_>, now: UnixTime, target: &str, error: &ApiError) -> Self {
        let mut entry = Self::of(visitor, now, None);
        entry.0["target"] = said(target).into();
        entry.denied(error.code())
    }

    /// What a request, or a statement of a batch, needs leave for.
    pub(crate) fn needs(
        visitor: &Visitor<'_>,
        now: UnixTime,
        needs: &[Need<'_>],
        shared: bool,
        denied: Option<&larder_auth::Error>,
    ) -> Self {
        let own = visitor.caller.as_ref().map_or(HERE, Caller::place);
        let unsaid = if shared { own } else { HERE };
        let mut did: Vec<Value> = Vec::new();
        for need in needs {
            let place = need.resource.place(own, unsaid);
            let one = json!({"action": need.action, "resource": need.resource.arn(place)});
            if !did.contains(&one) {
                did.push(one);
            }
        }
        let mut entry = Self::of(visitor, now, denied);
        entry.0["did"] = did.into();
        entry
    }

    pub(crate) fn action(
        visitor: &Visitor<'_>,
        now: UnixTime,
        action: &str,
        resource: &str,
        denied: Option<&larder_auth::Error>,
    ) -> Self {
        let mut entry = Self::of(visitor, now, denied);
        entry.0["did"] = json!([{"action": action, "resource": resource}]);
        entry
    }

    fn of(visitor: &Visitor<'_>, now: UnixTime, denied: Option<&larder_auth::Error>) -> Self {
        let mut entry = Self::from(visitor.peer, now);
        if let Some(caller) = &visitor.caller {
            entry.0["who"] = caller.principal.arn().into();
            entry.0["key"] = caller.key_id.as_str().into();
        }
        match denied {
            None => {
                entry.0["allowed"] = true.into();
                entry
            }
            Some(error) => {
                entry.0["why"] = error.to_string().into();
                entry.denied(error.code())
            }
        }
    }

    fn from(peer: Peer, now: UnixTime) -> Self {
        let address = peer.address.ip().to_canonical().to_string();
        Self(json!({"time": format!("{}Z", now.to_label()), "from": address, "tls": peer.secure}))
    }

    fn denied(mut self, code: &str) -> Self {
        self.0["allowed"] = false.into();
        self.0["code"] = code.into();
        self
    }
}

fn said(text: &str) -> String {
    text.chars().take(SAID_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_full_makes_room_for_another() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.jsonl");
        let audit = Audit::with_limit(&path, 100).unwrap();
        for at in 0..100 {
            audit.write(&Entry(json!({"at": at, "padding": "p".repeat(30)})));
        }
        drop(audit);
        let mut names: Vec<String> = fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names.len(), 10, "{names:?}");
        let last = fs::read_to_string(&path).unwrap();
        assert!(last.contains(r#""at":99"#), "{last}");
        let before = fs::read_to_string(path.with_extension("jsonl.1")).unwrap();
        assert!(
            before.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()) && before.len() >= 100
        );
        // It goes on where it was.
        let again = Audit::with_limit(&path, 100_000).unwrap();
        again.write(&Entry(json!({"at": 100})));
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.starts_with(&last) && text.ends_with("{\"at\":100}\n"));
    }
}
