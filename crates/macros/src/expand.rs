//! A path → the code of its module, or what a person is told instead.

use std::fs;
use std::path::{Path, PathBuf};

use larder_schema::{Colour, Diagnostic, Environment, Loader, Schema, emit, render_all};

/// The module of the schema at a path, looked for from the directory of the crate upwards.
///
/// `head` is what stands before its brackets; without one it is public and called like the system. `derives` are what its types
/// derive besides.
pub(crate) fn expand(
    manifest: &Path,
    path: &str,
    head: Option<&str>,
    derives: &[String],
) -> Result<String, String> {
    let found = find(manifest, path)?;
    let text = read(&found)?;
    let mut beside = Beside { file: &found, read: Vec::new() };
    let mut loaded = Schema::load(path, &text, &mut beside, &Environment::new());
    let Some(schema) = loaded.schema else {
        loaded.diagnostics.retain(Diagnostic::is_error);
        for file in loaded.files.iter_mut().skip(1) {
            file.name = Path::new(path).with_file_name(&file.name).display().to_string();
        }
        let rendered = render_all(&loaded.diagnostics, &loaded.files, Colour::Plain);
        return Err(format!("the schema cannot be used\n\n{}", rendered.trim_end()));
    };
    let mut files = vec![(path.to_owned(), included(&found)?)];
    for (name, file) in &beside.read {
        files.push((name.clone(), included(file)?));
    }
    Ok(emit::rust(&schema, head, &files, derives))
}

/// The file beside the manifest, or in a directory above it up to the root of the workspace.
fn find(manifest: &Path, path: &str) -> Result<PathBuf, String> {
    let is_root = |directory: &Path| {
        fs::read_to_string(directory.join("Cargo.toml")).is_ok_and(|text| text.contains("[workspace]"))
    };
    let directories: Vec<&Path> = manifest.ancestors().collect();
    let root = directories.iter().position(|directory| is_root(directory)).unwrap_or(0);
    let searched = &directories[..=root];
    searched.iter().map(|directory| directory.join(path)).find(|file| file.is_file()).ok_or_else(|| {
        let places: Vec<String> = searched.iter().map(|directory| directory.display().to_string()).collect();
        format!("there is no `{path}` in {}", places.join(" or "))
    })
}

fn read(file: &Path) -> Result<String, String> {
    fs::read_to_string(file).map_err(|cause| format!("{} cannot be read: {cause}", file.display()))
}

/// The expression of a file's text. It makes the compiler watch the file.
fn included(file: &Path) -> Result<String, String> {
    let file = file.to_str().ok_or_else(|| format!("{} is not UTF-8", file.display()))?;
    Ok(format!("::std::include_str!({file:?})"))
}

/// Gives included files from beside the one that was asked for, and remembers them.
struct Beside<'a> {
    file: &'a Path,
    read: Vec<(String, PathBuf)>,
}

impl Loader for Beside<'_> {
    fn load(&mut self, path: &str) -> Result<String, String> {
        let file = self.file.with_file_name(path);
        let text = read(&file)?;
        self.read.push((path.to_owned(), file));
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here() -> &'static Path {
        Path::new(env!("CARGO_MANIFEST_DIR"))
    }

    #[test]
    fn what_is_wrong_is_told_with_its_places_in_every_file() {
        let error = expand(here(), "tests/schemas/broken.larder", None, &[]).unwrap_err();
        insta::assert_snapshot!(error);
    }

    #[test]
    fn a_file_that_is_nowhere_is_told_with_where_it_was_looked_for() {
        let error = expand(here(), "schemas/nothing.larder", None, &[]).unwrap_err();
        let root = here().ancestors().nth(2).expect("the crate is in the workspace").display().to_string();
        assert!(error.starts_with("there is no `schemas/nothing.larder` in "), "{error}");
        assert!(error.ends_with(&format!(" or {root}")), "{error}");
    }

    #[test]
    fn a_file_is_looked_for_up_to_the_root_of_the_workspace() {
        assert!(expand(here(), "tests/schemas/whole.larder", None, &[]).is_ok());
        assert!(expand(here(), "schemas/keiba.larder", None, &[]).is_ok());
        assert!(expand(&here().join("src"), "schemas/keiba.larder", None, &[]).is_ok());
    }

    #[test]
    fn every_file_that_was_read_is_watched() {
        let code = expand(here(), "tests/schemas/whole.larder", None, &[]).unwrap();
        for (name, file) in
            [("tests/schemas/whole.larder", "whole.larder"), ("inner/note.larder", "inner/note.larder")]
        {
            let path = here().join("tests/schemas").join(file);
            assert!(code.contains(&format!("({name:?}, ::std::include_str!({path:?}))")), "{code}");
        }
    }

    #[test]
    fn the_module_is_public_and_called_like_the_system_unless_it_is_said() {
        let code = expand(here(), "tests/schemas/whole.larder", None, &[]).unwrap();
        assert!(code.contains("\npub mod notes {"), "{code}");
        let code = expand(here(), "tests/schemas/whole.larder", Some("pub(crate) mod n"), &[]).unwrap();
        assert!(code.contains("\npub(crate) mod n {"), "{code}");
    }

    #[test]
    fn warnings_do_not_fail() {
        // Its index key has four values, which is advised against.
        assert!(expand(here(), "schemas/tdnet.larder", None, &[]).is_ok());
    }
}
