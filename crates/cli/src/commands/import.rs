//! `larder import`: a schema for tables that are already there, in a store or in files.
//!
//! It looks and changes nothing. Items are sampled from all over a table; where that costs money, one page of it
//! (1 MB) is read without asking, and what would read on shows its price first.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use larder::census;
use larder::price::{self, Units, read_units};
use larder::store::ops::{Scan, Segment};
use larder::{Error, Store};
use larder_model::limits::PAGE_BYTES_MAX;
use larder_model::{Item, TableName};
use larder_schema::import::{self, Found, FoundTable, Imported};
use larder_schema::{Environment, NoFiles, Schema};
use serde_json::json;

use super::{plan, scan};
use crate::data::chosen::Place;
use crate::data::{check_there, told};
use crate::{held, project, terminal};

/// Parts of a large table that are sampled each, so that no partition stands for all.
const SEGMENTS: u32 = 8;

/// Write a schema for tables that are already there
///
/// Tables, keys and indexes are taken as they are. Entities, key templates and types are guessed from a sample of the
/// items; what is guessed, and what the language has no word for, stands in comments.
#[derive(Debug, Args)]
pub(crate) struct Import {
    /// Tables by their names in the store; or CloudFormation templates (.json, .yaml, .yml, .template), Terraform files
    /// (.tf) or directories of these [default: all tables of the store]
    #[arg(value_name = "TABLE|FILE")]
    from: Vec<String>,
    #[command(flatten)]
    place: Place,
    /// Look at so many items of each table
    #[arg(long, value_name = "N", default_value_t = 1000)]
    sample: usize,
    /// What to call the system [default: as the tables or the file say]
    #[arg(long, value_name = "NAME")]
    system: Option<String>,
    /// Write the schema to this file, which must not be there yet [default: stdout]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Read the sample although that costs money
    #[arg(long)]
    yes: bool,
    /// Print JSON: the schema and what was not taken over
    #[arg(long)]
    json: bool,
}

impl Import {
    pub(crate) fn run(self) -> Result<ExitCode, String> {
        let files: Vec<&Path> = self.from.iter().map(Path::new).filter(|path| is_file(path)).collect();
        let (mut found, origin) = if files.is_empty() {
            plan::runtime()?.block_on(self.deployed())?
        } else if files.len() < self.from.len() {
            return Err("name tables or files, not both: a schema is made from one of them".to_owned());
        } else {
            (
                described(&files)?,
                project::listed(&files.iter().map(|path| path.to_path_buf()).collect::<Vec<_>>()),
            )
        };
        if found.tables.is_empty() {
            return Err(format!("there are no tables in {origin}: nothing was written"));
        }
        if self.system.is_some() {
            found.system.clone_from(&self.system);
        }
        let imported = import::write(&found, &origin);
        let loaded = Schema::load("the schema", &imported.text, &mut NoFiles, &Environment::new());
        self.give(&imported, found.tables.len())?;
        // What was written is for a person to mend; it is never called good when it is not.
        Ok(if terminal::sound(loaded).is_some() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn give(&self, imported: &Imported, tables: usize) -> Result<(), String> {
        if let Some(path) = &self.out {
            create(path, &imported.text)?;
        }
        if self.json {
            let file = self.out.as_ref().map(|path| path.display().to_string());
            let Imported { system, text, notes } = imported;
            return terminal::print(&format!(
                "{}\n",
                json!({"system": system, "file": file, "schema": text, "notes": notes})
            ));
        }
        match &self.out {
            None => terminal::print(&imported.text)?,
            Some(path) => {
                let tables = terminal::count(tables, "table");
                let path = path.display();
                terminal::print(&format!(
                    "wrote {path}: {tables}\n\nRead it through. Then:\n  larder check {path}\n  larder plan {path}\n"
                ))?;
            }
        }
        for note in &imported.notes {
            eprintln!("larder: {note}");
        }
        Ok(())
    }

    /// The tables of the store, with a sample of each.
    async fn deployed(&self) -> Result<(Found, String), String> {
        let wrong = |error: larder::store::Error| told(&self.place.store, &Error::from(error));
        check_there(&self.place.store)?;
        let store = held::open(&self.place.store).await.map_err(wrong)?;
        let all = store.list_tables().await.map_err(wrong)?;
        let tables = match self.from.is_empty() {
            true => all,
            false => {
                self.from.iter().map(|name| named(name, &all, &store.place())).collect::<Result<_, _>>()?
            }
        };
        let bounded = self.bounded(&store, &tables).await?;
        let mut found = Found::default();
        // What a store cannot do it cannot tell either.
        for (feature, why) in store.lacks().await.map_err(wrong)? {
            found.notes.push(format!("{feature:?}, of which this store says nothing: {why}"));
        }
        let mut systems: Vec<String> = Vec::new();
        for table in &tables {
            let Some(deployed) = store.describe(table).await.map_err(wrong)? else { continue };
            let items = self.sample(&store, table, bounded).await?;
            let definition = &deployed.definition;
            let system = FoundTable::system_of(definition).unwrap_or("imported").to_owned();
            if !systems.contains(&system) {
                systems.push(system);
            }
            found.tables.push(FoundTable::deployed(
                definition,
                deployed.ttl_attribute,
                deployed.pitr_days,
                items,
            ));
        }
        match systems.as_slice() {
            [] => {}
            [system] => found.system = Some(system.clone()),
            several => {
                found.notes.push(format!(
                    "that the tables are of several systems ({}): name the tables of one to import it alone",
                    several.join(", ")
                ));
            }
        }
        Ok((found, store.place()))
    }

    /// Whether no more than a page of each table is read, because more costs money that nobody has agreed to.
    async fn bounded(&self, store: &Store, tables: &[TableName]) -> Result<bool, String> {
        if store.is_embedded() || self.yes {
            return Ok(false);
        }
        let mut bytes = 0;
        for table in tables {
            let size =
                census::size(store, table).await.map_err(|error| told(&self.place.store, &error.into()))?;
            let sampled = size.map_or(0, |size| {
                let sample = u64::try_from(self.sample).unwrap_or(u64::MAX);
                if size.items > sample { size.bytes / size.items * sample } else { size.bytes }
            });
            if sampled > PAGE_BYTES_MAX as u64 {
                bytes += sampled;
            }
        }
        if bytes == 0 {
            return Ok(true);
        }
        let units = Units { read: read_units(bytes, false), write: 0.0 };
        eprintln!("reading {} items of each table reads about {}: {units}", self.sample, price::size(bytes));
        if scan::confirmed() {
            return Ok(false);
        }
        eprintln!(
            "only the first 1 MB of each table is read: add --yes for all of it, or a smaller --sample"
        );
        Ok(true)
    }

    async fn sample(&self, store: &Store, table: &TableName, bounded: bool) -> Result<Vec<Item>, String> {
        let wrong = |error: larder::store::Error| told(&self.place.store, &Error::from(error));
        let size = census::size(store, table).await.map_err(wrong)?;
        let is_large = size.is_some_and(|size| size.items > self.sample as u64);
        let segments = if is_large && !bounded { SEGMENTS } else { 1 };
        let share = self.sample.div_ceil(segments as usize);
        let bar = terminal::progress(Some(self.sample as u64), table.to_string());
        let mut items: Vec<Item> = Vec::new();
        for at in 0..segments {
            let mut left = share.min(self.sample - items.len());
            let mut start = None;
            while left > 0 {
                let segment = (segments > 1).then_some(Segment { index: at, total: segments });
                let request = Scan { segment, start, limit: Some(left), ..Scan::of(table.clone()) };
                let page = store.scan(request).await.map_err(wrong)?;
                left = left.saturating_sub(page.items.len());
                items.extend(page.items);
                bar.set_position(items.len() as u64);
                start = page.last_key;
                if start.is_none() || bounded {
                    break;
                }
            }
        }
        bar.finish_and_clear();
        Ok(items)
    }
}

/// Whether an argument means a file. A table's name may have a dot in it, and is seldom called so.
fn is_file(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    matches!(ending, "tf" | "json" | "yaml" | "yml" | "template") || path.is_dir()
}

/// What templates and Terraform files describe, taken together.
fn described(paths: &[&Path]) -> Result<Found, String> {
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() {
            let wrong = |error| format!("cannot read {}: {error}", path.display());
            let entries = fs::read_dir(path).map_err(wrong)?.collect::<Result<Vec<_>, _>>().map_err(wrong)?;
            let mut inside: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).collect();
            inside.retain(|path| path.extension().is_some_and(|ending| ending == "tf"));
            inside.sort();
            if inside.is_empty() {
                return Err(format!("there are no .tf files in {}: name a template", path.display()));
            }
            files.extend(inside);
        } else {
            files.push(path.to_path_buf());
        }
    }
    let (terraform, templates): (Vec<PathBuf>, Vec<PathBuf>) =
        files.into_iter().partition(|path| path.extension().is_some_and(|ending| ending == "tf"));
    let mut texts = Vec::new();
    for path in &terraform {
        texts.push((path.display().to_string(), text(path)?));
    }
    let named: Vec<(&str, &str)> = texts.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let mut found = import::terraform(&named)?;
    for path in &templates {
        let one = import::cloudformation(&text(path)?).map_err(|why| format!("{}: {why}", path.display()))?;
        found.add(one, &path.display().to_string());
    }
    if found.system.is_none() {
        // Every directory has a `main.tf`: it is the directory that has a name.
        let first = paths[0].canonicalize().unwrap_or_else(|_| paths[0].to_path_buf());
        let named = if first.extension().is_some_and(|ending| ending == "tf") {
            first.parent()
        } else {
            Some(first.as_path())
        };
        found.system = named.and_then(Path::file_stem).map(|stem| stem.to_string_lossy().into_owned());
    }
    Ok(found)
}

fn text(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => format!("there is no file {}", path.display()),
        _ => format!("cannot read {}: {error}", path.display()),
    })
}

fn named(name: &str, all: &[TableName], place: &str) -> Result<TableName, String> {
    let known: Vec<&str> = all.iter().map(TableName::as_str).collect();
    let found = all.iter().find(|table| table.as_str() == name);
    found.cloned().ok_or_else(|| crate::data::unknown(place, "table", name, &known))
}

/// An existing file is never written over.
fn create(path: &Path, text: &str) -> Result<(), String> {
    let made = OpenOptions::new().write(true).create_new(true).open(path);
    made.and_then(|mut file| file.write_all(text.as_bytes())).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => {
            format!("{} is already there and stays as it is: choose another name with --out", path.display())
        }
        _ => format!("cannot write {}: {error}", path.display()),
    })
}
