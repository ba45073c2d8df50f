//! A new name for something, wherever it is used.
//!
//! A name in a schema is often a name in the store too. A renamed field keeps its attribute, by `as`; any other name that
//! is written there, such as that of a table without `name`, is left alone and the editor is told why. The schema is
//! loaded as it would be, so a rename never makes an error.

use std::collections::BTreeMap;

use larder_schema::schema::{Index, State};
use larder_schema::{
    Entity, Fix, Loader, Part, Schema, Span, Symbol, SymbolKind, Table, TokenKind, symbol_at, tokens,
};
use lsp_types::{PrepareRenameResponse, TextEdit, Uri, WorkspaceEdit};

use super::workspace::{Analysis, Workspace};
use crate::project;

/// What is renamed at a place, if anything is.
pub(super) fn prepare(analysis: &Analysis, file: u32, at: usize) -> Option<PrepareRenameResponse> {
    let (symbol, span) = symbol_at(&analysis.loaded.symbols, file, at)?;
    let range = analysis.range(span)?;
    Some(PrepareRenameResponse::RangeWithPlaceholder { range, placeholder: symbol.name.clone() })
}

/// The edits, or why there are none.
pub(super) fn rename(
    workspace: &Workspace,
    analysis: &Analysis,
    (file, at): (u32, usize),
    name: &str,
) -> Result<WorkspaceEdit, String> {
    let Some((symbol, _)) = symbol_at(&analysis.loaded.symbols, file, at) else {
        return Err("there is no name here".to_owned());
    };
    let Some(old) = analysis.loaded.schema.as_ref() else {
        return Err("the schema has errors: mend them before you rename".to_owned());
    };
    if !is_word(name) {
        return Err(format!("`{name}` is no name: names are made of a-z, A-Z, 0-9 and `_`"));
    }
    let fixes = edits(analysis, old, symbol, name)?;
    let texts = after(analysis, &fixes);
    check(analysis, old, symbol, name, &texts)?;
    let mut changes: BTreeMap<u32, (Uri, Vec<TextEdit>)> = BTreeMap::new();
    for fix in fixes {
        let uri = analysis.paths.get(fix.span.file as usize).and_then(|path| workspace.uri(path));
        let (Some(uri), Some(range)) = (uri, analysis.range(fix.span)) else {
            return Err("a file that is meant cannot be named to the editor".to_owned());
        };
        let (_, edits) = changes.entry(fix.span.file).or_insert_with(|| (uri, Vec::new()));
        edits.push(TextEdit { range, new_text: fix.text });
    }
    Ok(WorkspaceEdit { changes: Some(changes.into_values().collect()), ..WorkspaceEdit::default() })
}

fn is_word(name: &str) -> bool {
    let (tokens, problems) = tokens(0, name);
    problems.is_empty()
        && tokens
            .first()
            .is_some_and(|first| first.kind == TokenKind::Word && first.span.range() == (0..name.len()))
}

/// In the order of the files, from the end of each.
fn edits(analysis: &Analysis, old: &Schema, symbol: &Symbol, name: &str) -> Result<Vec<Fix>, String> {
    let mut fixes = Vec::new();
    let mut spans: Vec<Span> =
        std::iter::once(symbol.span).chain(symbol.references.iter().copied()).collect();
    spans.sort();
    spans.dedup();
    for span in spans {
        let file = analysis.loaded.files.get(span.file as usize);
        let written = file.and_then(|file| file.text.get(span.range())).unwrap_or("");
        // What is meant without being written has no name to change.
        if written != symbol.name {
            return Err(format!(
                "`{}` is also meant by `{written}`: write its name there first",
                symbol.name
            ));
        }
        let keeps = if span == symbol.span { kept_attribute(analysis, old, symbol) } else { None };
        let text = keeps.map_or_else(|| name.to_owned(), |attribute| format!("{name} as {attribute}"));
        fixes.push(Fix { span, text });
    }
    fixes.reverse();
    Ok(fixes)
}

/// What a field is called in the store, where its name says that alone.
fn kept_attribute(analysis: &Analysis, old: &Schema, symbol: &Symbol) -> Option<String> {
    let (owner, field) = symbol.path.split_once('.')?;
    if symbol.kind != SymbolKind::Field {
        return None;
    }
    let found = match old.entity(owner) {
        Some((_, entity)) => entity.field(field),
        None => old.type_definition(owner)?.fields.iter().find(|one| one.name == field),
    }?;
    let text = &analysis.loaded.files.get(symbol.span.file as usize)?.text;
    let says_as = text[symbol.span.range().end..].trim_start().strip_prefix("as");
    let says_as = says_as.is_some_and(|rest| rest.starts_with(|c: char| c.is_whitespace() || c == '"'));
    if !found.is_stored() || says_as {
        return None;
    }
    let attribute = &found.attribute;
    Some(if is_word(attribute) { attribute.clone() } else { format!("\"{attribute}\"") })
}

/// The texts as they would be, by file.
fn after(analysis: &Analysis, fixes: &[Fix]) -> BTreeMap<usize, String> {
    let mut texts: BTreeMap<usize, String> = BTreeMap::new();
    for fix in fixes {
        let file = fix.span.file as usize;
        let text = texts.entry(file).or_insert_with(|| analysis.loaded.files[file].text.clone());
        text.replace_range(fix.span.range(), &fix.text);
    }
    texts
}

/// Refuses what would be an error, and what the store would see.
fn check(
    analysis: &Analysis,
    old: &Schema,
    symbol: &Symbol,
    name: &str,
    texts: &BTreeMap<usize, String>,
) -> Result<(), String> {
    let text = |file: usize| texts.get(&file).unwrap_or(&analysis.loaded.files[file].text).clone();
    let mut files = Edited { analysis, text: &text };
    let root = &analysis.loaded.files[0].name;
    let loaded = Schema::load(root, &text(0), &mut files, &project::environment());
    let Some(new) = &loaded.schema else {
        let first = loaded.diagnostics.iter().find(|one| one.is_error());
        return Err(
            first.map_or_else(|| "the schema would have errors".to_owned(), |one| one.message.clone())
        );
    };
    match seen_by_store(old, new) {
        None => Ok(()),
        Some(what) => Err(format!(
            "`{}` is a name in the store as well, and {what}: `{name}` would be another; docs/language.md tells how a {} is \
             given a stored name of its own",
            symbol.name,
            symbol.kind.word()
        )),
    }
}

struct Edited<'a> {
    analysis: &'a Analysis,
    text: &'a dyn Fn(usize) -> String,
}

impl Loader for Edited<'_> {
    fn load(&mut self, path: &str) -> Result<String, String> {
        let wanted = project::beside(&self.analysis.paths[0], path);
        let at = self.analysis.paths.iter().position(|known| *known == wanted);
        at.map(self.text).ok_or_else(|| format!("there is no file {path}"))
    }
}

/// What differs in the store. Both schemas have the same things in the same order, under other names.
fn seen_by_store(old_schema: &Schema, new_schema: &Schema) -> Option<&'static str> {
    let environment = project::environment();
    for (old, new) in old_schema.tables.iter().zip(&new_schema.tables) {
        let name = |schema: &Schema, table| schema.table_name(table, &environment).ok();
        if name(old_schema, old) != name(new_schema, new) {
            return Some("tables are found by theirs");
        }
        let keys = |table: &Table| {
            let ttl = table.ttl.as_ref().map(|ttl| ttl.attribute.clone());
            (table.partition.attribute.clone(), table.sort.as_ref().map(|sort| sort.attribute.clone()), ttl)
        };
        if keys(old) != keys(new) {
            return Some("the key or TTL is an attribute");
        }
        for (old, new) in old.indexes.iter().zip(&new.indexes) {
            let attributes = |index: &Index| {
                let keys = index.partition.iter().chain(&index.sort);
                keys.map(|key| key.attribute.clone()).collect::<Vec<_>>()
            };
            if old.name != new.name || attributes(old) != attributes(new) || old.projection != new.projection
            {
                return Some("an index is found by it");
            }
        }
        for (old, new) in old.entities.iter().zip(&new.entities) {
            let attributes = |entity: &Entity| {
                let stored = entity.fields.iter().filter(|field| field.is_stored());
                stored.map(|field| field.attribute.clone()).collect::<Vec<_>>()
            };
            if attributes(old) != attributes(new) {
                return Some("items have an attribute of this name");
            }
            for (old, new) in old.lifecycles.iter().zip(&new.lifecycles) {
                if old.attribute != new.attribute {
                    return Some("items have their state in an attribute of this name");
                }
                if old.states.iter().map(written).ne(new.states.iter().map(written)) {
                    return Some("items say it as their state");
                }
            }
        }
    }
    None
}

/// What is written for a state around its holes.
fn written(state: &State) -> Vec<&str> {
    let parts = state.template.parts.iter();
    parts.map(|part| if let Part::Text(text) = part { text } else { "" }).collect()
}
