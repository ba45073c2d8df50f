//! A schema as it was: in another file, or in a git revision.
//!
//! Git is asked where the schema lies, so it works from any directory. A revision's includes come from the same
//! revision.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use larder_schema::{Loaded, Loader, Schema};

use crate::project;

pub(crate) struct Past {
    /// What a person calls it: `old.larder`, `HEAD~1:schemas/keiba.larder`.
    pub(crate) name: String,
    pub(crate) loaded: Loaded,
}

/// The schema in the file `against`, or else as it was in that git revision. None when the revision has no
/// such file.
pub(crate) fn load(path: &Path, against: &str) -> Result<Option<Past>, String> {
    if Path::new(against).is_file() {
        let loaded = project::load(Path::new(against))?;
        return Ok(Some(Past { name: against.to_owned(), loaded }));
    }
    let mut revision = Revision::find(path, against)?;
    let file = path.file_name().and_then(|name| name.to_str());
    let file = file.ok_or_else(|| format!("{} is not a file git could know", path.display()))?;
    let Some(text) = revision.text(file)? else { return Ok(None) };
    let name = format!("{against}:{}", path.display());
    let loaded = Schema::load(&name, &text, &mut revision, &project::environment());
    Ok(Some(Past { name, loaded }))
}

struct Revision {
    commit: String,
    directory: PathBuf,
}

impl Revision {
    fn find(path: &Path, revision: &str) -> Result<Self, String> {
        if path == Path::new(project::STDIN) {
            return Err("what comes from stdin has no past in git; compare it with a file".into());
        }
        let directory = path.parent().filter(|directory| *directory != Path::new(""));
        let directory = directory.unwrap_or(Path::new(".")).to_owned();
        let wanted = format!("{revision}^{{commit}}");
        let inside = git(&directory, &["rev-parse", "--is-inside-work-tree"])?;
        if !inside.status.success() {
            return Err(format!(
                "there is no file {revision} to compare with, and {} is not in a git repository",
                path.display()
            ));
        }
        let found = git(&directory, &["rev-parse", "--verify", "--quiet", "--end-of-options", &wanted])?;
        if !found.status.success() {
            return Err(format!(
                "there is no file or git revision `{revision}` to compare with; `git log --oneline -- {}` lists some",
                path.display()
            ));
        }
        let commit = String::from_utf8_lossy(&found.stdout).trim().to_owned();
        Ok(Self { commit, directory })
    }

    /// The text a file had. None when it was not there.
    fn text(&self, file: &str) -> Result<Option<String>, String> {
        let object = format!("{}:./{file}", self.commit);
        if !git(&self.directory, &["cat-file", "-e", &object])?.status.success() {
            return Ok(None);
        }
        let shown = git(&self.directory, &["cat-file", "blob", &object])?;
        if !shown.status.success() {
            return Err(format!(
                "git cannot show {object}: {}",
                String::from_utf8_lossy(&shown.stderr).trim()
            ));
        }
        String::from_utf8(shown.stdout).map(Some).map_err(|_| format!("{object} is not UTF-8 text"))
    }
}

impl Loader for Revision {
    fn load(&mut self, path: &str) -> Result<String, String> {
        self.text(path)?.ok_or_else(|| "there was no such file".to_owned())
    }
}

fn git(directory: &Path, arguments: &[&str]) -> Result<Output, String> {
    Command::new("git").current_dir(directory).args(arguments).output().map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            "git is needed to compare with a revision, and is not installed; give a file instead".to_owned()
        }
        _ => format!("cannot run git: {error}"),
    })
}
