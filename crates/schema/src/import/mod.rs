//! A schema for what is already there: tables that were described, and items that were sampled → the text of a
//! `.larder` file.
//!
//! Tables, keys and indexes are taken as they were found. Entities are guessed from keys and values, and every
//! guess is proved before it is written: the text is loaded as a schema, and every sampled item must be one of its
//! entities and pass its checks. A table whose guesses fail is guessed again with less, down to one entity whose
//! fields are documents.
//!
//! Promises:
//! - The text is what `larder fmt` would write, and `larder check` finds no error in it.
//! - What the language has no word for is told in a comment and in [`Imported::notes`]; nothing is left out silently.
//! - The same tables and items give the same text. Nothing here panics, whatever was found.

mod derive;
mod fields;
mod holes;
mod infer;
mod keys;
mod names;
mod write;

mod cloudformation;
mod terraform;
mod yaml;

use std::collections::BTreeMap;

use larder_model as model;
use larder_model::{IndexDefinition, Item, KeySchema, TableDefinition};

pub use cloudformation::cloudformation;
pub use terraform::terraform;

use self::fields::Types;
use self::infer::Level;
use self::names::Taken;
use self::write::Draft;
use crate::resolve::NoFiles;
use crate::schema::{Environment, Naming, OnDelete, ParamPart, ParamText, Schema};
use crate::setup::{ON_DELETE_TAG, SYSTEM_TAG, TABLE_TAG};

/// The tables of a system, as they were found in a store or in files.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// What the system is called, if that is known.
    pub system: Option<String>,
    /// Values that names and tags are made from.
    pub params: Vec<FoundParam>,
    /// Its tables.
    pub tables: Vec<FoundTable>,
    /// What could not be taken over and belongs to no table.
    pub notes: Vec<String>,
}

impl Found {
    /// Adds what another file describes. A param that both have keeps its first default; another one is told.
    pub fn add(&mut self, other: Found, file: &str) {
        self.system = self.system.take().or(other.system);
        for param in other.params {
            match self.params.iter().find(|known| known.name == param.name) {
                None => self.params.push(param),
                Some(known) if known.default != param.default => self.notes.push(format!(
                    "the default of {} in {file}, `{}`: another file says `{}`",
                    param.name, param.default, known.default
                )),
                Some(_) => {}
            }
        }
        self.tables.extend(other.tables);
        self.notes.extend(other.notes);
    }
}

/// A value that a name or tag is made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundParam {
    /// What the schema calls it.
    pub name: String,
    /// Its value where nothing else is said.
    pub default: String,
}

/// A table as it was found, and some of its items.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundTable {
    /// What to call it in the schema, if the language can say it.
    pub label: String,
    /// What the store calls it.
    pub name: ParamText,
    /// Where it lives, if that is said.
    pub region: Option<String>,
    /// One partition attribute, and at most one sort attribute.
    pub key: KeySchema,
    /// Local ones too; the language has no word for those.
    pub indexes: Vec<IndexDefinition>,
    /// The attribute that says when an item ends.
    pub ttl_attribute: Option<String>,
    /// How it is paid for.
    pub billing: model::Billing,
    /// How many days back it can be restored.
    pub pitr_days: Option<u32>,
    /// `None`: a key that AWS owns.
    pub encryption: Option<model::Encryption>,
    /// Whether it is protected from deletion.
    pub retain: bool,
    /// The storage class.
    pub class: model::TableClass,
    /// What its stream shows.
    pub stream: Option<model::StreamView>,
    /// Tags, in the order they were found.
    pub tags: Vec<(String, ParamText)>,
    /// What could not be taken over.
    pub notes: Vec<String>,
    /// Some items, or none.
    pub items: Vec<Item>,
}

impl FoundTable {
    /// A table that is deployed.
    pub fn deployed(
        definition: &TableDefinition,
        ttl_attribute: Option<String>,
        pitr_days: Option<u32>,
        items: Vec<Item>,
    ) -> Self {
        let name = definition.name.as_str();
        let mut notes = Vec::new();
        if definition.on_demand_limits.is_some() {
            notes
                .push(format!("{name} has limits to its on-demand units: the language has no word for them"));
        }
        Self {
            label: name.to_owned(),
            name: ParamText::text(name),
            region: None,
            key: definition.key.clone(),
            indexes: definition.indexes.clone(),
            ttl_attribute,
            billing: definition.billing,
            pitr_days,
            encryption: definition.encryption.clone(),
            retain: definition.deletion_protection,
            class: definition.class.unwrap_or(model::TableClass::Standard),
            stream: definition.stream,
            tags: definition.tags.iter().map(|(tag, value)| (tag.clone(), ParamText::text(value))).collect(),
            notes,
            items,
        }
    }

    /// The system that made a deployed table, if it was made from a schema.
    pub fn system_of(definition: &TableDefinition) -> Option<&str> {
        definition.tags.get(SYSTEM_TAG).map(String::as_str)
    }

    /// The value of a tag of ours.
    fn mark(&self, name: &str) -> Option<&str> {
        let (_, value) = self.tags.iter().find(|(tag, _)| tag == name)?;
        match value.0.as_slice() {
            [ParamPart::Text(text)] => Some(text),
            _ => None,
        }
    }
}

/// What our own tags say, said otherwise: a schema does not name them.
fn unmarked(found: &Found) -> Found {
    let mut found = found.clone();
    for table in &mut found.tables {
        found.system = found.system.take().or_else(|| table.mark(SYSTEM_TAG).map(str::to_owned));
        table.label = table.mark(TABLE_TAG).unwrap_or(&table.label).to_owned();
        table.retain |= table.mark(ON_DELETE_TAG) == Some(OnDelete::Retain.name());
        table.tags.retain(|(tag, _)| !tag.starts_with("larder:"));
    }
    found
}

/// A schema, and what a person should know about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// What the system is called.
    pub system: String,
    /// The file.
    pub text: String,
    /// What the language has no word for, or what was left out.
    pub notes: Vec<String>,
}

/// Writes a schema for what was found. `origin` says where, in words for people.
///
/// ```
/// use larder_model::{Item, KeyAttribute, KeySchema, KeyType, TableDefinition, TableName};
/// use larder_schema::import::{self, Found, FoundTable};
///
/// let definition = TableDefinition {
///     name: TableName::new("races").unwrap(),
///     attributes: vec![("pk".to_owned(), KeyType::S)],
///     key: KeySchema { partition: vec![KeyAttribute { name: "pk".to_owned(), kind: KeyType::S }], sort: vec![] },
///     indexes: Vec::new(),
///     billing: larder_model::Billing::OnDemand,
///     on_demand_limits: None,
///     stream: None,
///     encryption: None,
///     class: None,
///     deletion_protection: false,
///     tags: Default::default(),
/// };
/// let items = ["RACE#202405021211", "RACE#202405021212"].map(|key| {
///     let mut item = Item::new();
///     item.insert("pk", larder_model::AttributeValue::S(key.to_owned()));
///     item
/// });
/// let table = FoundTable::deployed(&definition, None, None, items.to_vec());
/// let found = Found { system: Some("keiba".to_owned()), tables: vec![table], ..Found::default() };
/// let imported = import::write(&found, "a test");
/// assert!(imported.text.contains(r#"key  "RACE#{race_id}""#));
/// ```
pub fn write(found: &Found, origin: &str) -> Imported {
    let found = &unmarked(found);
    let system = names::snake(found.system.as_deref().unwrap_or("imported"));
    let naming = naming(found);
    let mut tables: Vec<(&FoundTable, Level)> = Vec::new();
    let mut left_out: Vec<String> = Vec::new();
    for table in &found.tables {
        let twice = tables
            .iter()
            .any(|(other, _)| known(&other.name, &found.params) == known(&table.name, &found.params));
        match infer::obstacle(table, naming) {
            Some(why) => left_out.push(why),
            None if twice => left_out.push(format!("table {}: another has its name", table.label)),
            None => tables.push((table, level_of(table, &system, naming, &found.params))),
        }
    }
    let mut notes = found.notes.clone();
    notes.extend(left_out.iter().cloned());
    loop {
        let (mut draft, told) = draft(&tables, &system, naming, &found.params);
        draft.head = head(found, origin, &system);
        if !notes.is_empty() {
            draft.tail = std::iter::once("Not taken over:".to_owned())
                .chain(notes.iter().map(|note| format!("- {note}")))
                .collect();
        }
        let text = draft.text();
        // Tables that are right by themselves are right together, unless a name they share is not.
        let weakest = tables.iter_mut().filter_map(|(_, level)| Some((level.next()?, level))).next();
        match weakest {
            Some((next, level)) if load(&text).is_none() => *level = next,
            _ => {
                notes.extend(told);
                return Imported { system, text, notes };
            }
        }
    }
}

/// The first level whose guesses hold for a table.
fn level_of(table: &FoundTable, system: &str, naming: Naming, params: &[FoundParam]) -> Level {
    let mut level = Level::Full;
    loop {
        let (draft, _) = draft(&[(table, level)], system, naming, params);
        let holds = load(&draft.text()).is_some_and(|schema| fits(&schema, &table.items));
        match level.next() {
            Some(next) if !holds => level = next,
            _ => return level,
        }
    }
}

/// Whether every item is of an entity and passes its checks.
fn fits(schema: &Schema, items: &[Item]) -> bool {
    let Some(table) = schema.tables.first() else { return false };
    items.iter().filter(|item| infer::is_record(item)).all(|item| {
        let Some(entity) = schema.entity_of(table, item) else { return false };
        schema
            .read_item(table, entity, item)
            .is_ok_and(|fields| schema.violations(entity, &fields).is_empty())
    })
}

fn load(text: &str) -> Option<Schema> {
    Schema::load("imported.larder", text, &mut NoFiles, &Environment::new()).schema
}

/// The draft, and what its tables have to tell.
fn draft(
    tables: &[(&FoundTable, Level)],
    system: &str,
    naming: Naming,
    params: &[FoundParam],
) -> (Draft, Vec<String>) {
    let mut types = Types { definitions: Vec::new(), taken: Taken::default(), naming };
    let mut names = Taken::default();
    let mut drafts = Vec::new();
    let mut told = Vec::new();
    for (table, level) in tables {
        let draft = infer::table(table, *level, &mut types, &mut names);
        told.extend(draft.notes.iter().cloned());
        drafts.push(draft);
    }
    let params = params.iter().map(|param| {
        let variable = format!("{system}_{}", param.name).to_ascii_uppercase();
        (param.name.clone(), param.default.clone(), Some(variable))
    });
    let draft = Draft {
        system: system.to_owned(),
        naming,
        params: params.collect(),
        tables: drafts,
        definitions: types.definitions,
        ..Draft::default()
    };
    (draft, told)
}

fn naming(found: &Found) -> Naming {
    let keys = |table: &'_ FoundTable| {
        let names = table.key.attributes().map(|attribute| attribute.name.clone());
        names.chain(table.ttl_attribute.clone()).collect::<Vec<_>>()
    };
    let fixed: Vec<String> = found.tables.iter().flat_map(keys).collect();
    let fixed: Vec<&str> = fixed.iter().map(String::as_str).collect();
    let indexed =
        found.tables.iter().flat_map(|table| &table.indexes).flat_map(|index| index.key.attributes());
    let items = found.tables.iter().flat_map(|table| &table.items).filter(|item| infer::is_record(item));
    let all: std::collections::BTreeSet<&str> = fixed
        .iter()
        .copied()
        .chain(indexed.map(|attribute| attribute.name.as_str()))
        .chain(items.flat_map(Item::names).filter(|name| !name.starts_with("larder_")))
        .collect();
    names::naming(&all.into_iter().collect::<Vec<_>>(), &fixed)
}

/// The words above the schema: where it is from, and what to do next.
fn head(found: &Found, origin: &str, system: &str) -> Vec<String> {
    let sampled: usize = found.tables.iter().map(|table| table.items.len()).sum();
    let mut lines = vec![format!("Imported from {origin}.")];
    lines.push(match sampled {
        0 => "No items were seen: entities hold their keys alone. Say what else they hold.".to_owned(),
        1 => "Entities and types are guessed from 1 item. Read them through, and rename what has a better name.".to_owned(),
        many => format!("Entities and types are guessed from {many} items. Read them through, and rename what has a better name."),
    });
    lines.push("Then:".to_owned());
    lines.push(format!("  larder check {system}.larder    says what is wrong with it"));
    lines.push(format!(
        "  larder plan {system}.larder     shows how it differs from what is deployed, and changes nothing"
    ));
    if sampled > 0 {
        lines.push(format!("  larder stats {system} --exact   counts what belongs to no entity"));
    }
    lines
}

/// Remembers a param that was met, and says what the schema calls it: names that would be the same get numbers.
fn param(
    params: &mut Vec<FoundParam>,
    called: &mut BTreeMap<String, String>,
    original: &str,
    wanted: &str,
    default: &str,
) -> String {
    let name = called.get(original).cloned().unwrap_or_else(|| {
        let mut taken = Taken::default();
        for name in called.values() {
            taken.free(name);
        }
        taken.free(wanted)
    });
    called.insert(original.to_owned(), name.clone());
    if params.iter().all(|known| known.name != name) {
        params.push(FoundParam { name: name.clone(), default: default.to_owned() });
    }
    name
}

/// The text with the defaults of its params.
fn known(text: &ParamText, params: &[FoundParam]) -> String {
    let parts = text.0.iter().map(|part| match part {
        ParamPart::Text(text) => text.as_str(),
        ParamPart::Param(name) => {
            params.iter().find(|param| param.name == *name).map_or("", |param| param.default.as_str())
        }
    });
    parts.collect()
}
