//! `larder check --data`: what of the stored data breaks its schema.
//!
//! Every item is held against the check that `larder serve --schema` and the layer use. Data is read where it is: in any
//! store, in files that `larder dump` has written, in folders that DynamoDB or Larder have exported. Reading that is paid
//! for shows its price first. `--fix` shows what equations and TTLs would make of wrong items, and writes that once
//! it is told to, each under the condition that the item is still as it was read.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use larder::export::Export;
use larder::guard::Rules;
use larder::price::{Units, read_units};
use larder::store::ops::{self, UpdateItem, WriteOptions};
use larder::{Address, Store, census};
use larder_expr::{Comparator, Condition, Operand, SetOperand, SetValue, Update};
use larder_model::{AttributeValue, Item, TableName, UnixTime};
use larder_schema::{Checker, Schema, TableSetup, Violation};
use serde_json::{Value as Json, json};

use super::super::load::{Input, Raw};
use super::super::plan;
use crate::data::chosen::Place;
use crate::data::lines::{Line, Owner};
use crate::terminal::{self, count};
use crate::{held, project};

/// What of the data is looked at, and what is done about it.
#[derive(Debug, Args)]
pub(super) struct Data {
    /// Hold the stored data against the schemas
    #[arg(long, conflicts_with = "against")]
    pub(super) data: bool,
    #[command(flatten)]
    place: Place,
    /// Look at a dump or an export instead of a store
    #[arg(long, value_name = "PATH", requires = "data", conflicts_with = "fix")]
    from: Vec<PathBuf>,
    /// Look at no more items of each table than this
    #[arg(long, value_name = "N", requires = "data")]
    limit: Option<u64>,
    /// Show so many keys of each kind
    #[arg(long, value_name = "N", default_value_t = 3, requires = "data")]
    samples: usize,
    /// Show what equations and TTLs would make of wrong items; with --yes, write it
    #[arg(long, requires = "data")]
    fix: bool,
    /// Do not ask: read what is paid for, write what is shown
    #[arg(long, requires = "data")]
    yes: bool,
}

/// What breaks a rule in one way.
#[derive(Debug, Default)]
struct Kind {
    count: u64,
    place: Option<String>,
    samples: Vec<(String, String)>,
}

/// What was found in a table.
#[derive(Debug, Default)]
struct Found {
    items: u64,
    wrong: u64,
    /// By entity, field and rule.
    kinds: BTreeMap<(String, String, &'static str), Kind>,
    /// More there is, beyond the limit.
    cut: bool,
    fixes: Vec<Fix>,
}

/// An item, what would be changed of it, and that in words.
#[derive(Debug)]
struct Fix {
    item: Item,
    changes: Changes,
    told: String,
}

/// Attributes with their values; none for what is left out.
type Changes = Vec<(String, Option<AttributeValue>)>;

impl Data {
    pub(super) fn run(&self, files: &[PathBuf], as_json: bool) -> Result<ExitCode, String> {
        let mut schemas = Vec::new();
        let mut rules = Rules::default();
        for path in project::schemas(files)? {
            let loaded = project::load(&path)?;
            let files = loaded.files.clone();
            let Some(schema) = terminal::sound(loaded) else { return Ok(ExitCode::FAILURE) };
            let schema = Arc::new(schema);
            let added = rules.add(&schema, &project::environment(), &files);
            added.map_err(|error| format!("{}: {error}", path.display()))?;
            schemas.push(schema);
        }
        let found = if self.from.is_empty() {
            let Some(found) = plan::runtime()?.block_on(self.in_store(&schemas, &rules))? else {
                return Ok(ExitCode::SUCCESS);
            };
            found
        } else {
            self.in_files(&schemas, &rules)?
        };
        terminal::print(&if as_json { told_json(&found) } else { told(&found) })?;
        let wrong = found.iter().any(|(_, found)| found.wrong > 0);
        Ok(if wrong { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    /// `None` when reading costs something and was not agreed to.
    async fn in_store(
        &self,
        schemas: &[Arc<Schema>],
        rules: &Rules,
    ) -> Result<Option<Vec<(TableName, Found)>>, String> {
        let address = &self.place.store;
        let wrong = |error: larder::store::Error| plan::advise(address, &error);
        let store = if self.fix { held::open(address).await } else { held::look(address).await };
        let store = store.map_err(wrong)?;
        let mut setups: Vec<TableSetup> = Vec::new();
        for schema in schemas {
            let tables = schema.tables(&project::environment());
            setups.extend(tables.map_err(|errors| larder::Error::Environment(errors).to_string())?);
        }
        let mut there = Vec::new();
        let mut bytes = 0;
        for setup in &setups {
            let store = store.at(setup.region.as_deref());
            let name = &setup.definition.name;
            match census::size(&store, name).await.map_err(wrong)? {
                Some(size) => {
                    bytes += size.bytes;
                    there.push((store, name.clone(), size.items));
                }
                None => eprintln!("larder: there is no table {name}: create it with `larder apply`"),
            }
        }
        if costs(address) && bytes > 0 {
            let units = Units { read: read_units(bytes, false), write: 0.0 };
            eprintln!("reading these tables whole takes about {units}");
            if !self.yes && !super::super::scan::confirmed() {
                eprintln!("Nothing was read; --yes reads them.");
                return Ok(None);
            }
        }
        let now = store.clock().now();
        let mut all = Vec::new();
        for (store, name, items) in there {
            let Some(checker) = rules.checker(&name) else { continue };
            let mut found = Found::default();
            let bar = terminal::progress(Some(items), name.to_string());
            let mut start = None;
            loop {
                let page = ops::Scan { start, ..ops::Scan::of(name.clone()) };
                let page = store.scan(page).await.map_err(wrong)?;
                for item in page.items {
                    if !self.look_at(checker, item, now, &mut found) {
                        break;
                    }
                }
                bar.set_position(found.items);
                start = page.last_key;
                if start.is_none() || found.cut {
                    break;
                }
            }
            bar.finish_and_clear();
            if self.fix {
                self.mend(&store, &name, &found).await.map_err(wrong)?;
            }
            all.push((name, found));
        }
        Ok(Some(all))
    }

    fn in_files(&self, schemas: &[Arc<Schema>], rules: &Rules) -> Result<Vec<(TableName, Found)>, String> {
        let now = larder_model::Clock::system().now();
        let mut all: BTreeMap<TableName, Found> = BTreeMap::new();
        for path in &self.from {
            if path.is_dir() || path.ends_with("manifest-summary.json") {
                self.in_exports(path, rules, now, &mut all)?;
                continue;
            }
            let mut input = Input::open(path)?;
            for record in input.records(false)? {
                let record = record?;
                let at = |error: String| format!("{}:{}: {error}", path.display(), record.line);
                let Raw::Json(json) = record.content.map_err(at)? else {
                    return Err(at("this is no line of a dump".to_owned()));
                };
                let line = Line::read(&json).map_err(at)?;
                let name = table_of(schemas, &line).map_err(at)?;
                if let Some(checker) = rules.checker(&name) {
                    self.look_at(checker, line.item, now, all.entry(name).or_default());
                }
            }
        }
        Ok(all.into_iter().collect())
    }

    fn in_exports(
        &self,
        path: &Path,
        rules: &Rules,
        now: UnixTime,
        all: &mut BTreeMap<TableName, Found>,
    ) -> Result<(), String> {
        for export in Export::open(path).map_err(|error| error.to_string())? {
            let name = export.table().cloned().ok_or_else(|| {
                format!("{} does not say which table it is of: name a folder with a manifest", path.display())
            })?;
            let Some(checker) = rules.checker(&name) else {
                eprintln!("larder: no schema here declares {name}: it is left alone");
                continue;
            };
            for line in export.lines() {
                let line = line.map_err(|error| error.to_string())?;
                let item =
                    line.item.map_err(|error| format!("{}:{}: {error}", line.file.display(), line.number))?;
                if !self.look_at(checker, item, now, all.entry(name.clone()).or_default()) {
                    break;
                }
            }
        }
        Ok(())
    }

    /// False when enough was looked at.
    fn look_at(&self, checker: &Checker, item: Item, now: UnixTime, found: &mut Found) -> bool {
        if self.limit.is_some_and(|limit| found.items >= limit) {
            found.cut = true;
            return false;
        }
        found.items += 1;
        let violations = checker.check(None, &item, now);
        if violations.is_empty() {
            return true;
        }
        found.wrong += 1;
        let key = key_text(checker, &item);
        let mut known = Vec::new();
        for violation in &violations {
            let (entity, field) = named(violation);
            let kind = (entity, field, violation.fault.name());
            // Of many members of one list, the item counts once.
            if known.contains(&kind) {
                continue;
            }
            known.push(kind.clone());
            let noted = found.kinds.entry(kind).or_default();
            noted.count += 1;
            noted.place = checker.place(violation).map(str::to_owned);
            if noted.samples.len() < self.samples {
                noted.samples.push((key.clone(), violation.to_string()));
            }
        }
        if self.fix {
            let changes = checker.mend(&item, now);
            if !changes.is_empty() {
                let told = changes.iter().map(|change| difference(checker, &item, change));
                found.fixes.push(Fix { told: told.collect::<Vec<_>>().join(", "), item, changes });
            }
        }
        true
    }

    /// Shows what would change, and changes it once that is agreed to.
    async fn mend(
        &self,
        store: &Store,
        table: &TableName,
        found: &Found,
    ) -> Result<(), larder::store::Error> {
        for fix in &found.fixes {
            eprintln!("{table}  {}", fix.told);
        }
        if found.fixes.is_empty() || !self.yes {
            if !found.fixes.is_empty() {
                eprintln!("Nothing was written to {table}; --yes writes what is shown.");
            }
            return Ok(());
        }
        let definition = store.describe(table).await?.map(|deployed| deployed.definition);
        let Some(definition) = definition else { return Ok(()) };
        let keys: Vec<String> = definition.key.attributes().map(|part| part.name.clone()).collect();
        let (mut written, mut changed) = (0, 0);
        for Fix { item, changes, .. } in &found.fixes {
            let key = keys.iter().filter_map(|name| Some((name.clone(), item.get(name)?.clone()))).collect();
            let mut update = Update::default();
            for (name, value) in changes {
                let path = larder_model::Path::attribute(name);
                match value {
                    Some(value) => update.set.push((path, SetValue::Is(SetOperand::value(value.clone())))),
                    None => update.remove.push(path),
                }
            }
            // All of it is as it was: what was derived may rest on any of it.
            let same = item.iter().filter(|(name, _)| !keys.contains(name)).map(|(name, value)| {
                Condition::Compare {
                    left: Operand::Path(larder_model::Path::attribute(name)),
                    comparator: Comparator::Equal,
                    right: Operand::value(value.clone()),
                }
            });
            let condition = same.reduce(|a, b| Condition::And(Box::new(a), Box::new(b)));
            let options = WriteOptions { condition, ..WriteOptions::default() };
            let request = UpdateItem { table: table.clone(), key, update: Some(update), options };
            match store.update_item(request).await {
                Ok(_) => written += 1,
                Err(larder::store::Error::Condition { .. }) => changed += 1,
                Err(error) => return Err(error),
            }
        }
        eprintln!("{table}: {} fixed", count(written, "item"));
        if changed > 0 {
            eprintln!("{table}: {} changed meanwhile, and left alone", count(changed, "item"));
        }
        Ok(())
    }
}

/// Whether somebody is paid for what is read. An endpoint of one's own is not.
fn costs(address: &Address) -> bool {
    match address {
        Address::Directory(_) | Address::Memory => false,
        Address::DynamoDb { endpoint: None } => true,
        Address::DynamoDb { endpoint: Some(endpoint) } => endpoint.contains(".amazonaws.com"),
    }
}

fn table_of(schemas: &[Arc<Schema>], line: &Line) -> Result<TableName, String> {
    let schema = schemas.iter().find(|schema| schema.system == line.system);
    let schema = schema.ok_or_else(|| format!("there is no schema of `{}` here", line.system))?;
    let table = match &line.owner {
        Owner::Entity(entity) => schema.entity(entity).map(|(table, _)| table),
        Owner::Table(table) => schema.table(table),
    };
    let table = table.ok_or_else(|| format!("`{}` has no such entity or table", line.system))?;
    schema.table_name(table, &project::environment()).map_err(|error| error.to_string())
}

fn key_text(checker: &Checker, item: &Item) -> String {
    let table = checker.table();
    let keys = std::iter::once(&table.partition).chain(table.sort.as_ref());
    let texts: Vec<String> = keys.filter_map(|key| item.get(&key.attribute)).map(shown).collect();
    texts.join(" / ")
}

fn shown(value: &AttributeValue) -> String {
    match value {
        AttributeValue::S(text) => text.clone(),
        AttributeValue::N(number) => number.to_string(),
        other => other.kind().name().to_owned(),
    }
}

/// The entity and the field, without places in lists: `Menu`, `lunches.price`.
fn named(violation: &Violation) -> (String, String) {
    let mut field = String::new();
    let mut inside = false;
    for letter in violation.path.chars() {
        match letter {
            '[' => inside = true,
            ']' => inside = false,
            _ if inside => {}
            letter => field.push(letter),
        }
    }
    match field.split_once('.') {
        Some((entity, field)) => (entity.to_owned(), field.to_owned()),
        None => (field, String::new()),
    }
}

fn difference(checker: &Checker, item: &Item, (name, value): &(String, Option<AttributeValue>)) -> String {
    let is_secret = checker.is_secret(item, name);
    let shown = |value: &AttributeValue| if is_secret { "a secret".to_owned() } else { shown(value) };
    let before = item.get(name).map_or_else(|| "missing".to_owned(), shown);
    format!("{name}: {before} -> {}", value.as_ref().map_or_else(|| "left out".to_owned(), shown))
}

fn told(all: &[(TableName, Found)]) -> String {
    let mut text = String::new();
    for (table, found) in all {
        let cut = if found.cut { ", as many as --limit allows" } else { "" };
        let wrong =
            if found.wrong == 0 { "nothing is wrong".to_owned() } else { format!("{} wrong", found.wrong) };
        let _ = writeln!(text, "{table}: {} looked at{cut}: {wrong}", count(usize_of(found.items), "item"));
        for ((entity, field, rule), kind) in &found.kinds {
            let place = kind.place.as_deref().map_or_else(String::new, |place| format!("  ({place})"));
            let _ = writeln!(text, "  {:>6}  {rule:10}  {entity}.{field}{place}", kind.count);
            for (key, message) in &kind.samples {
                let _ = writeln!(text, "          {key}: {message}");
            }
        }
    }
    text
}

fn told_json(all: &[(TableName, Found)]) -> String {
    let tables = all.iter().map(|(table, found)| {
        let kinds = found.kinds.iter().map(|((entity, field, rule), kind)| {
            let samples = kind.samples.iter().map(|(key, message)| json!({"key": key, "message": message}));
            json!({
                "entity": entity, "field": field, "rule": rule, "count": kind.count, "at": kind.place,
                "samples": samples.collect::<Vec<Json>>(),
            })
        });
        json!({
            "table": table.as_str(), "items": found.items, "wrong": found.wrong, "cut": found.cut,
            "violations": kinds.collect::<Vec<Json>>(),
        })
    });
    let ok = all.iter().all(|(_, found)| found.wrong == 0);
    format!("{:#}\n", json!({"ok": ok, "tables": tables.collect::<Vec<Json>>()}))
}

fn usize_of(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
