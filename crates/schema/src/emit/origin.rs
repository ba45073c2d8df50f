//! Where in the schema's files a part of an export comes from, as `file:line`.
//!
//! The checked schema has no places, so the files are parsed once more. A setting that is not written has no
//! place: it is a default of the language.

use std::collections::BTreeMap;

use crate::ast::Item;
use crate::parse::parse_file;
use crate::span::{SourceFile, Span};

pub(super) struct Origins<'a> {
    files: &'a [SourceFile],
    by_path: BTreeMap<String, Span>,
    /// In the order of the schema's own lists.
    alarms: Vec<Span>,
    grants: Vec<Span>,
}

impl<'a> Origins<'a> {
    pub(super) fn new(files: &'a [SourceFile]) -> Self {
        let mut origins = Self { files, by_path: BTreeMap::new(), alarms: Vec::new(), grants: Vec::new() };
        for (number, file) in (0..).zip(files) {
            for item in parse_file(number, &file.text).0.items {
                origins.note(&item);
            }
        }
        origins
    }

    fn note(&mut self, item: &Item) {
        match item {
            Item::Param(param) => self.put(format!("param {}", param.name.text), param.name.span),
            Item::Setting(setting) => self.put(setting.name.text.clone(), setting.span),
            Item::Table(table) => {
                let path = format!("table {}", table.name.text);
                for setting in &table.settings {
                    self.put(format!("{path} {}", setting.name.text), setting.span);
                }
                for index in &table.indexes {
                    self.put(format!("{path} index {}", index.name.text), index.name.span);
                }
                if let Some(key) = &table.key {
                    self.put(format!("{path} key"), key.span);
                }
                self.put(path, table.name.span);
            }
            Item::Block(block) => {
                let spans = block.settings.iter().map(|setting| setting.span);
                match block.name.text.as_str() {
                    "alarms" => self.alarms.extend(spans),
                    "grant" => self.grants.push(block.name.span),
                    "metrics" => self.put("metrics".to_owned(), block.name.span),
                    "defaults" => {
                        for setting in &block.settings {
                            self.put(format!("defaults {}", setting.name.text), setting.span);
                        }
                    }
                    _ => {}
                }
            }
            Item::System { .. } | Item::Include { .. } | Item::Type(_) | Item::Source { .. } => {}
        }
    }

    fn put(&mut self, path: String, span: Span) {
        self.by_path.entry(path).or_insert(span);
    }

    pub(super) fn param(&self, name: &str) -> Option<String> {
        self.find(&format!("param {name}"))
    }

    pub(super) fn table(&self, table: &str) -> Option<String> {
        self.find(&format!("table {table}"))
    }

    /// A setting of a table, or its key: its own line, or that of the default.
    pub(super) fn setting(&self, table: &str, name: &str) -> Option<String> {
        self.find(&format!("table {table} {name}")).or_else(|| self.find(&format!("defaults {name}")))
    }

    pub(super) fn index(&self, table: &str, index: &str) -> Option<String> {
        self.find(&format!("table {table} index {index}"))
    }

    pub(super) fn budget(&self) -> Option<String> {
        self.top("budget")
    }

    /// A setting at the top of a file.
    pub(super) fn top(&self, name: &str) -> Option<String> {
        self.find(name)
    }

    pub(super) fn metrics(&self) -> Option<String> {
        self.find("metrics")
    }

    /// The alarm at this place in [`crate::schema::Schema::alarms`].
    pub(super) fn alarm(&self, at: usize) -> Option<String> {
        self.place(*self.alarms.get(at)?)
    }

    /// The grant at this place in [`crate::schema::Schema::grants`].
    pub(super) fn grant(&self, at: usize) -> Option<String> {
        self.place(*self.grants.get(at)?)
    }

    fn find(&self, path: &str) -> Option<String> {
        self.place(*self.by_path.get(path)?)
    }

    fn place(&self, span: Span) -> Option<String> {
        let file = self.files.get(span.file as usize)?;
        Some(format!("{}:{}", file.name, file.place(span.start as usize).0))
    }
}
