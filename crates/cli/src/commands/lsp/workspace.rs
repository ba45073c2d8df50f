//! What the editor has open, and what came of loading it.
//!
//! A file that another one beside it includes is loaded as a part of that one, so that it is not told off for
//! lacking a system. The text the editor shows counts, not what is on disk.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use larder_schema::limits::INCLUDE_DEPTH_MAX;
use larder_schema::{Loaded, Loader, Schema, Span};
use lsp_types::{Range, Uri};

use super::positions::position;
use crate::project;

#[derive(Default)]
pub(super) struct Workspace {
    open: BTreeMap<PathBuf, Document>,
    /// By the file that is loaded, which includes the others.
    analyses: BTreeMap<PathBuf, Analysis>,
    /// The file whose analysis covers this open file.
    roots: BTreeMap<PathBuf, PathBuf>,
}

struct Document {
    /// As the editor spells it.
    uri: Uri,
    text: String,
}

pub(super) struct Analysis {
    pub(super) loaded: Loaded,
    /// Of the loaded files, in their order.
    pub(super) paths: Vec<PathBuf>,
    /// The last schema without errors.
    pub(super) schema: Option<Schema>,
}

impl Analysis {
    pub(super) fn range(&self, span: Span) -> Option<Range> {
        let text = &self.loaded.files.get(span.file as usize)?.text;
        Some(Range { start: position(text, span.start as usize), end: position(text, span.end as usize) })
    }
}

impl Workspace {
    /// Takes a document's text, new or changed. Gives the files whose diagnostics may now be others.
    pub(super) fn open(&mut self, uri: Uri, text: String) -> Vec<PathBuf> {
        let path = path(&uri);
        self.open.insert(path.clone(), Document { uri, text });
        self.reload()
    }

    pub(super) fn close(&mut self, uri: &Uri) -> Vec<PathBuf> {
        let path = path(uri);
        self.open.remove(&path);
        let mut touched = self.reload();
        // What is not open is not told about, unless an open file includes it.
        if !touched.contains(&path) {
            touched.push(path);
        }
        touched
    }

    /// The analysis that covers a file, and the file's number in it.
    pub(super) fn analysis(&self, path: &Path) -> Option<(&Analysis, u32)> {
        let covering = self.roots.get(path).and_then(|root| self.analyses.get(root)).into_iter();
        covering.chain(self.analyses.values()).find_map(|analysis| {
            let at = analysis.paths.iter().position(|one| one == path)?;
            Some((analysis, u32::try_from(at).ok()?))
        })
    }

    pub(super) fn text(&self, path: &Path) -> Option<&str> {
        self.open.get(path).map(|document| document.text.as_str())
    }

    pub(super) fn uri(&self, path: &Path) -> Option<Uri> {
        match self.open.get(path) {
            Some(document) => Some(document.uri.clone()),
            None => file_uri(path).parse().ok(),
        }
    }

    /// Loads what is open again. It is little, and any file may include any other.
    fn reload(&mut self) -> Vec<PathBuf> {
        let mut touched: BTreeSet<PathBuf> = self.covered();
        let mut before = std::mem::take(&mut self.analyses);
        self.roots = self.open.keys().map(|path| (path.clone(), self.root(path))).collect();
        let roots: BTreeSet<PathBuf> = self.roots.values().cloned().collect();
        for root in roots {
            let Ok(text) = self.current(&root) else { continue };
            let name = root.file_name().unwrap_or(root.as_os_str()).to_string_lossy().into_owned();
            let mut loader = Open { workspace: self, root: &root };
            let loaded = Schema::load(&name, &text, &mut loader, &project::environment());
            let others = loaded.files.iter().skip(1).map(|file| project::beside(&root, &file.name));
            let paths = std::iter::once(root.clone()).chain(others).collect();
            let last = before.remove(&root).and_then(|analysis| analysis.schema);
            let schema = loaded.schema.clone().or(last);
            self.analyses.insert(root, Analysis { loaded, paths, schema });
        }
        touched.extend(self.covered());
        touched.into_iter().collect()
    }

    fn covered(&self) -> BTreeSet<PathBuf> {
        self.analyses.values().flat_map(|analysis| analysis.paths.iter().cloned()).collect()
    }

    /// The file that includes this one, and is included by none; or itself.
    fn root(&self, path: &Path) -> PathBuf {
        let mut root = path.to_owned();
        for _ in 0..INCLUDE_DEPTH_MAX {
            match self.includer(&root) {
                // Two that include each other have no root.
                Some(includer) if includer != path => root = includer,
                _ => break,
            }
        }
        root
    }

    fn includer(&self, path: &Path) -> Option<PathBuf> {
        let directory = path.parent()?;
        let on_disk = project::in_directory(directory).unwrap_or_default();
        let open = self.open.keys().filter(|one| one.parent() == Some(directory)).cloned();
        on_disk.into_iter().chain(open).find(|one| {
            one != path
                && self.current(one).is_ok_and(|text| {
                    project::includes(&text).iter().any(|part| project::beside(one, part) == path)
                })
        })
    }

    fn current(&self, path: &Path) -> Result<String, String> {
        self.text(path).map_or_else(|| project::read(path), |text| Ok(text.to_owned()))
    }
}

struct Open<'a> {
    workspace: &'a Workspace,
    root: &'a Path,
}

impl Loader for Open<'_> {
    fn load(&mut self, path: &str) -> Result<String, String> {
        self.workspace.current(&project::beside(self.root, path))
    }
}

/// The path of a `file:` URI. Any other, such as that of a document not yet saved, stands for itself.
pub(super) fn path(uri: &Uri) -> PathBuf {
    let text = uri.as_str();
    match text.strip_prefix("file://").and_then(decoded) {
        Some(path) => PathBuf::from(path),
        None => PathBuf::from(text),
    }
}

fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digits = [rest.next()?, rest.next()?];
            bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

fn file_uri(path: &Path) -> String {
    let mut uri = "file://".to_owned();
    for byte in path.to_string_lossy().bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' | b'~' => {
                uri.push(byte.into());
            }
            _ => {
                let _ = write!(uri, "%{byte:02X}");
            }
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uri(text: &str) -> Uri {
        text.parse().expect("a URI")
    }

    #[test]
    fn paths_and_uris_stand_for_each_other() {
        for (text, file) in [
            ("file:///a/b.larder", "/a/b.larder"),
            ("file:///a%20b/%E5%AD%97.larder", "/a b/字.larder"),
            ("untitled:Untitled-1", "untitled:Untitled-1"),
        ] {
            assert_eq!(path(&uri(text)), Path::new(file));
        }
        assert_eq!(file_uri(Path::new("/a b/字.larder")), "file:///a%20b/%E5%AD%97.larder");
    }

    #[test]
    fn an_included_file_is_checked_as_a_part_of_the_whole() {
        let mut workspace = Workspace::default();
        let part = uri("file:///nowhere/part.larder");
        let alone = workspace.open(part.clone(), "type Odds { horse: strng }\n".into());
        assert_eq!(alone, [Path::new("/nowhere/part.larder")]);
        workspace.open(uri("file:///nowhere/whole.larder"), "system odds\ninclude \"part.larder\"\n".into());
        let (analysis, file) = workspace.analysis(&path(&part)).expect("it is open");
        assert_eq!(file, 1);
        let codes: Vec<_> = analysis.loaded.diagnostics.iter().map(|one| (one.code, one.span.file)).collect();
        assert_eq!(codes, [("L0201", 1)]);

        let touched = workspace.open(part, "type Odds { horse: string }\n".into());
        assert_eq!(touched.len(), 2);
        let (analysis, _) = workspace.analysis(Path::new("/nowhere/whole.larder")).expect("it is open");
        assert!(analysis.loaded.diagnostics.is_empty());
    }
}
