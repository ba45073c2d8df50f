//! Tree → checked schema: names, then types, then keys, then lifecycles, one pass each.
//!
//! Every pass reports what it finds and goes on with the rest. A schema comes out only when nothing was an
//! error, so what [`crate::schema`] promises holds by construction.

pub(crate) mod advice;
mod entities;
mod indexes;
mod keys;
mod lifecycles;
mod names;
pub(crate) mod settings;
mod tables;
mod types;

use std::collections::{BTreeMap, HashMap};

use crate::ast;
use crate::diagnostic::Diagnostic;
use crate::limits::{DIAGNOSTICS_MAX, FILES_MAX, INCLUDE_DEPTH_MAX};
use crate::parse::parse_file;
use crate::schema::*;
use crate::span::{SourceFile, Span};
use crate::symbols::{Symbol, SymbolKind};

/// Gives the text of included files. Paths are as written in the schema.
pub trait Loader {
    /// The text, or why there is none.
    fn load(&mut self, path: &str) -> Result<String, String>;
}

/// No file can be included.
#[derive(Clone, Copy, Debug)]
pub struct NoFiles;

impl Loader for NoFiles {
    fn load(&mut self, _path: &str) -> Result<String, String> {
        Err("files cannot be included here".to_owned())
    }
}

/// Files by name, for tests and for tools that have read them already.
impl Loader for BTreeMap<String, String> {
    fn load(&mut self, path: &str) -> Result<String, String> {
        self.get(path).cloned().ok_or_else(|| "there is no such file".to_owned())
    }
}

/// What came of a schema's text.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// There when nothing was an error.
    pub schema: Option<Schema>,
    /// In the order of the text.
    pub diagnostics: Vec<Diagnostic>,
    /// The file asked for, then those it includes.
    pub files: Vec<SourceFile>,
    /// What is named, where, and where it is used.
    pub symbols: Vec<Symbol>,
}

impl Schema {
    /// Reads, parses and checks a schema. Environment values that do not fit their params are diagnosed; the
    /// schema itself does not depend on them.
    pub fn load(name: &str, text: &str, loader: &mut dyn Loader, environment: &Environment) -> Loaded {
        let mut files = vec![SourceFile { name: name.to_owned(), text: text.to_owned() }];
        let mut diagnostics = Vec::new();
        let mut items = Vec::new();
        gather(&mut files, 0, 0, loader, &mut items, &mut diagnostics);

        let broken = diagnostics.iter().any(Diagnostic::is_error);
        let mut context =
            Context { files: &files, diagnostics, symbols: Vec::new(), by_path: HashMap::new(), broken };
        let schema = names::resolve(&mut context, &items, environment);
        let (mut diagnostics, symbols) = (context.diagnostics, context.symbols);
        diagnostics.sort_by(|a, b| (a.span, a.code).cmp(&(b.span, b.code)));
        diagnostics.dedup();
        diagnostics.truncate(DIAGNOSTICS_MAX);
        let failed = diagnostics.iter().any(Diagnostic::is_error);
        Loaded { schema: schema.filter(|_| !failed), diagnostics, files, symbols }
    }
}

/// Parses a file and what it includes. A file is read once, wherever it is included.
fn gather(
    files: &mut Vec<SourceFile>,
    file: usize,
    depth: usize,
    loader: &mut dyn Loader,
    items: &mut Vec<ast::Item>,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let number = u32::try_from(file).unwrap_or(u32::MAX);
    let (tree, problems) = parse_file(number, &files[file].text);
    diagnostics.extend(problems);
    for item in tree.items {
        let ast::Item::Include { path } = &item else {
            items.push(item);
            continue;
        };
        let Some(name) = path.plain() else {
            diagnostics.push(
                Diagnostic::new("L0008", path.span, "an include names a file")
                    .help("holes cannot stand here"),
            );
            continue;
        };
        if files.iter().any(|known| known.name == name) {
            continue;
        }
        if depth >= INCLUDE_DEPTH_MAX || files.len() >= FILES_MAX {
            diagnostics.push(
                Diagnostic::new("L0005", path.span, "there are too many includes")
                    .note(format!("at most {FILES_MAX} files, {INCLUDE_DEPTH_MAX} deep")),
            );
            continue;
        }
        match loader.load(&name) {
            Ok(text) => {
                files.push(SourceFile { name, text });
                gather(files, files.len() - 1, depth + 1, loader, items, diagnostics);
            }
            Err(why) => {
                diagnostics.push(
                    Diagnostic::new("L0008", path.span, format!("`{name}` cannot be included")).note(why),
                );
            }
        }
    }
}

pub(crate) struct Context<'a> {
    files: &'a [SourceFile],
    pub(crate) diagnostics: Vec<Diagnostic>,
    pub(crate) symbols: Vec<Symbol>,
    /// Places in `symbols`, by path.
    by_path: HashMap<String, Vec<usize>>,
    /// The text itself has errors: what is missing may be what could not be read.
    pub(crate) broken: bool,
}

impl<'a> Context<'a> {
    pub(crate) fn text(&self, file: u32) -> &'a str {
        self.files.get(file as usize).map_or("", |file| file.text.as_str())
    }

    pub(crate) fn report(&mut self, diagnostic: Diagnostic) {
        if self.diagnostics.len() < DIAGNOSTICS_MAX * 2 {
            self.diagnostics.push(diagnostic);
        }
    }

    /// Notes where something is named. Says so when its name is taken.
    pub(crate) fn define(&mut self, kind: SymbolKind, path: &str, name: &ast::Name) {
        let places = self.by_path.entry(path.to_owned()).or_default();
        let first = places.iter().find(|at| self.symbols[**at].kind.shares_names_with(kind));
        if let Some(first) = first {
            let first = self.symbols[*first].span;
            self.report(
                Diagnostic::new("L0202", name.span, format!("there are two called `{}`", name.text))
                    .other(first, "the first is here")
                    .help("give one of them another name"),
            );
            return;
        }
        places.push(self.symbols.len());
        self.symbols.push(Symbol {
            kind,
            path: path.to_owned(),
            name: name.text.clone(),
            span: name.span,
            references: Vec::new(),
        });
    }

    /// Notes where something is used.
    pub(crate) fn refer(&mut self, kind: SymbolKind, path: &str, span: Span) {
        let places = self.by_path.get(path).map(Vec::as_slice).unwrap_or_default();
        if let Some(at) = places.iter().find(|at| self.symbols[**at].kind == kind) {
            self.symbols[*at].references.push(span);
        }
    }

    pub(crate) fn unknown<'n>(
        &mut self,
        what: &str,
        name: &ast::Name,
        known: impl IntoIterator<Item = &'n str>,
    ) {
        // Looking for a close name costs; nobody reads the thousandth suggestion.
        if self.diagnostics.len() >= DIAGNOSTICS_MAX {
            return;
        }
        self.report(
            Diagnostic::new("L0201", name.span, format!("there is no {what} called `{}`", name.text))
                .did_you_mean(&name.text, known),
        );
    }
}
