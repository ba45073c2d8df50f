//! Schemas on disk: which files there are, their text, and what comes of loading them.
//!
//! Without names, the files of `schemas/` are meant, or of the current directory if it has
//! none. A file that another of them includes is a part of that one and is not a schema by itself.
//! Included files are looked for beside the file that was asked for.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use larder_schema::{Environment, Loaded, Loader, Schema, ast, parse};

/// Stands for stdin where a file is asked for.
pub const STDIN: &str = "-";

/// The files that were named, or all there are.
pub fn files(named: &[PathBuf]) -> Result<Vec<PathBuf>, String> {
    if !named.is_empty() {
        return Ok(named.to_vec());
    }
    let found = match in_directory(Path::new("schemas")) {
        Ok(found) if !found.is_empty() => found,
        _ => in_directory(Path::new("")).map_err(|error| format!("cannot look for schemas here: {error}"))?,
    };
    if found.is_empty() {
        return Err(
            "there are no .larder files in schemas/ or here: name a file, or begin one with `larder init`"
                .into(),
        );
    }
    Ok(found)
}

/// The files that are schemas by themselves.
pub fn schemas(named: &[PathBuf]) -> Result<Vec<PathBuf>, String> {
    let found = files(named)?;
    if !named.is_empty() || found.len() == 1 {
        return Ok(found);
    }
    whole(found)
}

/// The schemas in a directory.
pub fn schemas_in(directory: &Path) -> Result<Vec<PathBuf>, String> {
    let cannot = |error| format!("cannot look for schemas in {}: {error}", directory.display());
    let found = whole(in_directory(directory).map_err(cannot)?)?;
    if found.is_empty() {
        return Err(format!(
            "there are no .larder files in {}: name another directory or a file",
            directory.display()
        ));
    }
    Ok(found)
}

/// Those of the files that are no part of another.
fn whole(found: Vec<PathBuf>) -> Result<Vec<PathBuf>, String> {
    let mut parts = Vec::new();
    for path in &found {
        parts.extend(includes(&read(path)?).into_iter().map(|part| beside(path, &part)));
    }
    Ok(found.into_iter().filter(|path| !parts.contains(path)).collect())
}

/// The schema that is meant by a name: of a file, or of a system.
pub fn named(name: &str) -> Result<PathBuf, String> {
    let path = Path::new(name);
    if name == STDIN || path.extension().is_some_and(|end| end == "larder") || path.is_file() {
        return Ok(path.to_owned());
    }
    let found = schemas(&[])?;
    let mut systems = Vec::new();
    for path in found {
        let (tree, _) = parse(&read(&path)?);
        let system = tree.items.iter().find_map(|item| match item {
            ast::Item::System { name, .. } => Some(name.text.clone()),
            _ => None,
        });
        if system.as_deref() == Some(name) || path.file_stem() == Some(OsStr::new(name)) {
            return Ok(path);
        }
        systems.extend(system);
    }
    Err(format!("there is no system or file called `{name}`; known here: {}", systems.join(", ")))
}

/// The one schema there is, when none was named.
pub fn only() -> Result<PathBuf, String> {
    let found = schemas(&[])?;
    match found.as_slice() {
        [path] => Ok(path.clone()),
        many => Err(format!("there are several schemas here; name one: {}", listed(many))),
    }
}

pub fn listed(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

pub fn read(path: &Path) -> Result<String, String> {
    text(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => match files(&[]) {
            Ok(found) => format!("there is no file {}; known here: {}", path.display(), listed(&found)),
            Err(_) => format!("there is no file {}; begin one with `larder init`", path.display()),
        },
        io::ErrorKind::InvalidData => format!("{} is not a schema: it is not UTF-8 text", path.display()),
        _ => format!("cannot read {}: {error}", path.display()),
    })
}

/// The text of a file, or of stdin.
pub fn text(path: &Path) -> io::Result<String> {
    if path == Path::new(STDIN) {
        let mut text = String::new();
        io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        fs::read_to_string(path)
    }
}

/// Puts the text in place of the file in one step, so that nobody ever reads half of it. A link stays a link,
/// and the file keeps its permissions.
pub fn replace(path: &Path, text: &str) -> io::Result<()> {
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let directory = path.parent().filter(|directory| *directory != Path::new(""));
    let mut draft = tempfile::NamedTempFile::new_in(directory.unwrap_or(Path::new(".")))?;
    draft.write_all(text.as_bytes())?;
    let permissions = match fs::metadata(&path) {
        Ok(existing) => existing.permissions(),
        Err(_) => fs::Permissions::from_mode(0o644),
    };
    draft.as_file().set_permissions(permissions)?;
    draft.as_file().sync_all()?;
    draft.persist(&path)?;
    Ok(())
}

/// Loads a schema with the files it includes and the environment of this process.
pub fn load(path: &Path) -> Result<Loaded, String> {
    let text = read(path)?;
    let mut loader = Beside(path.to_owned());
    Ok(Schema::load(&path.display().to_string(), &text, &mut loader, &environment()))
}

/// Gives included files from beside the one that was asked for.
#[derive(Debug)]
pub struct Beside(pub PathBuf);

impl Loader for Beside {
    fn load(&mut self, path: &str) -> Result<String, String> {
        read(&beside(&self.0, path))
    }
}

/// Variables that are not text cannot be the value of a param and are left out.
pub fn environment() -> Environment {
    env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

pub fn beside(path: &Path, other: &str) -> PathBuf {
    path.parent().map_or_else(|| PathBuf::from(other), |directory| directory.join(other))
}

pub fn includes(text: &str) -> Vec<String> {
    let (tree, _) = parse(text);
    let paths = tree.items.iter().filter_map(|item| match item {
        ast::Item::Include { path } => path.plain(),
        _ => None,
    });
    paths.collect()
}

/// In order of their names, so that what is told about them does not depend on the file system.
pub fn in_directory(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let place = if directory == Path::new("") { Path::new(".") } else { directory };
    let mut found = Vec::new();
    for entry in fs::read_dir(place)? {
        let entry = entry?;
        let path = directory.join(entry.file_name());
        if path.extension().is_some_and(|end| end == "larder") && path.is_file() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}
