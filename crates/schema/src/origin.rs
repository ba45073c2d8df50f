//! Where in the schema's files a part of it comes from, as `file:line`: for exports, and for whoever breaks a rule.
//!
//! The checked schema has no places, so the files are parsed once more. A setting that is not written has no
//! place: it is a default of the language.

use std::collections::BTreeMap;

use crate::ast::{Data, Item};
use crate::parse::parse_file;
use crate::span::{SourceFile, Span};

pub(crate) struct Origins<'a> {
    files: &'a [SourceFile],
    by_path: BTreeMap<String, Span>,
    /// In the order of the schema's own lists.
    alarms: Vec<Span>,
    grants: Vec<Span>,
}

impl<'a> Origins<'a> {
    pub(crate) fn new(files: &'a [SourceFile]) -> Self {
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
                for entity in &table.entities {
                    let name = &entity.name.text;
                    self.put(format!("record {name}"), entity.name.span);
                    if let Some(key) = &entity.key {
                        self.put(format!("record {name} key"), key.span);
                    }
                    for setting in entity.settings.iter().filter(|setting| setting.name.text == "ttl") {
                        self.put(format!("record {name} ttl"), setting.span);
                    }
                    self.note_fields(name, &entity.fields);
                    for lifecycle in &entity.lifecycles {
                        self.put(format!("record {name}.{}", lifecycle.name.text), lifecycle.name.span);
                    }
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
            Item::Type(definition) => {
                self.put(format!("record {}", definition.name.text), definition.name.span);
                self.note_fields(&definition.name.text, &definition.fields);
            }
            Item::System { .. } | Item::Include { .. } | Item::Source { .. } => {}
        }
    }

    fn note_fields(&mut self, of: &str, fields: &[Data]) {
        for field in fields {
            self.put(format!("record {of}.{}", field.name.text), field.name.span);
        }
    }

    fn put(&mut self, path: String, span: Span) {
        self.by_path.entry(path).or_insert(span);
    }

    pub(crate) fn param(&self, name: &str) -> Option<String> {
        self.find(&format!("param {name}"))
    }

    pub(crate) fn table(&self, table: &str) -> Option<String> {
        self.find(&format!("table {table}"))
    }

    /// A setting of a table, or its key: its own line, or that of the default.
    pub(crate) fn setting(&self, table: &str, name: &str) -> Option<String> {
        self.find(&format!("table {table} {name}")).or_else(|| self.find(&format!("defaults {name}")))
    }

    pub(crate) fn index(&self, table: &str, index: &str) -> Option<String> {
        self.find(&format!("table {table} index {index}"))
    }

    /// An entity or a type.
    pub(crate) fn record(&self, name: &str) -> Option<String> {
        self.find(&format!("record {name}"))
    }

    /// A field of an entity or a type, or a lifecycle.
    pub(crate) fn field(&self, of: &str, name: &str) -> Option<String> {
        self.find(&format!("record {of}.{name}"))
    }

    /// The key of an entity, where it has a line.
    pub(crate) fn entity_key(&self, entity: &str) -> Option<String> {
        self.find(&format!("record {entity} key"))
    }

    /// The TTL of an entity.
    pub(crate) fn entity_ttl(&self, entity: &str) -> Option<String> {
        self.find(&format!("record {entity} ttl"))
    }

    pub(crate) fn budget(&self) -> Option<String> {
        self.top("budget")
    }

    /// A setting at the top of a file.
    pub(crate) fn top(&self, name: &str) -> Option<String> {
        self.find(name)
    }

    pub(crate) fn metrics(&self) -> Option<String> {
        self.find("metrics")
    }

    /// The alarm at this place in [`crate::schema::Schema::alarms`].
    pub(crate) fn alarm(&self, at: usize) -> Option<String> {
        self.place(*self.alarms.get(at)?)
    }

    /// The grant at this place in [`crate::schema::Schema::grants`].
    pub(crate) fn grant(&self, at: usize) -> Option<String> {
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
