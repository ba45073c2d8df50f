//! Whole tables into a store: what AWS or `larder dump --format dynamodb` has exported.
//!
//! Files are read through and compared with their manifests before anything is written, and again as they are
//! written. What is there already is left as it is, so a load that stopped is simply run again.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

use larder::export::{Export, Import, Line};
use larder::store::Error as StoreError;
use larder::{Error, Schema, Store};
use larder_model::{Item, TableName};

use super::{
    BATCH_BYTES_MAX, BATCH_RECORDS_MAX, Done, LISTED_MAX, Load, OnError, counted, counted_right, nowhere,
};
use crate::commands::apply;
use crate::data::chosen::Systems;
use crate::data::{system_at, told};
use crate::{held, project, terminal};

/// An export, and the table it goes into.
struct Move {
    export: Export,
    table: TableName,
    /// The schema that has the table, if one here does.
    schema: Option<Schema>,
}

impl Load {
    /// Whether tables are given, and no records.
    pub(super) fn is_of_tables(&self) -> bool {
        let is_export = |path: &std::path::PathBuf| path.is_dir() || path.ends_with("manifest-summary.json");
        self.table.is_some() || self.files.iter().any(is_export)
    }

    pub(super) async fn load_tables(&self) -> Result<ExitCode, String> {
        if self.entity.is_some() || self.from_line > 1 {
            return Err("--entity and --from-line are for files of records, and these are tables".to_owned());
        }
        let moves = self.moves()?;
        let (mut items, mut wrong) = (0, 0);
        for from in &moves {
            let (found, refused) = self.check_table(from).await?;
            (items, wrong) = (items + found, wrong + refused);
        }
        if wrong > 0 && (self.on_error != Some(OnError::Skip) || self.dry_run) {
            return Err(format!("{wrong} of {}: nothing was written", counted(items, "is", "are")));
        }
        if self.dry_run {
            terminal::print(&format!("{} right; nothing was written\n", counted_right(items)))?;
            return Ok(ExitCode::SUCCESS);
        }
        self.write_tables(&moves).await
    }

    fn moves(&self) -> Result<Vec<Move>, String> {
        let mut moves: Vec<Move> = Vec::new();
        for path in &self.files {
            for export in Export::open(path).map_err(|error| error.to_string())? {
                let table = self.table.as_ref().or(export.table()).cloned().ok_or_else(|| {
                    let shown = export.folder().display();
                    format!("{shown} does not say which table it is of: name the one it goes into with --table TABLE")
                })?;
                if let Some(other) = moves.iter().find(|other| other.table == table) {
                    let (one, two) = (other.export.folder().display(), export.folder().display());
                    return Err(format!("{one} and {two} are both for {table}: give one of them"));
                }
                let schema = schema_of(&table)?;
                moves.push(Move { export, table, schema });
            }
        }
        Ok(moves)
    }

    /// How many items there are, and how many of them are wrong. They are told.
    async fn check_table(&self, from: &Move) -> Result<(usize, usize), String> {
        from.export.verify().map_err(|error| format!("{error}; nothing was written"))?;
        let import = self.seen(from).await?;
        let bar = terminal::progress(from.export.items(), "checked");
        let (mut items, mut wrong) = (0, 0);
        for line in from.export.lines() {
            let line = line.map_err(|error| format!("{error}; nothing was written"))?;
            items += 1;
            bar.inc(1);
            if let Err(error) = fit(&import, line.item) {
                wrong += 1;
                if wrong <= LISTED_MAX {
                    bar.suspend(|| eprintln!("{}:{}: {error}", line.file.display(), line.number));
                }
            }
        }
        bar.finish_and_clear();
        if wrong > LISTED_MAX {
            eprintln!("and {} more", wrong - LISTED_MAX);
        }
        Ok((items, wrong))
    }

    /// The table as it is, or as it will be made: a store that is looked at stays as it was.
    async fn seen(&self, from: &Move) -> Result<Import, String> {
        let advised = |error: StoreError| told(&self.place.store, &error.into());
        let store = from.store(&held::look(&self.place.store).await.map_err(advised)?);
        match (Import::into(&store, &from.table).await, &from.schema) {
            (Err(StoreError::NoTable { .. }), Some(schema)) if store.is_embedded() => {
                let mut nowhere = nowhere().await?;
                let system = nowhere.with(schema).await.map_err(|error| told(&self.place.store, &error))?;
                Import::into(system.store(), &from.table).await.map_err(advised)
            }
            (import, _) => import.map_err(advised),
        }
    }

    async fn write_tables(&self, moves: &[Move]) -> Result<ExitCode, String> {
        let stop = apply::watch_interrupts("batch");
        let store = held::open(&self.place.store).await;
        let store = store.map_err(|error| told(&self.place.store, &error.into()))?;
        let mut systems = Systems::on(store.clone());
        let mut done = Done::new();
        let mut stopped = None;
        'all: for from in moves {
            if let Some(schema) = from.schema.as_ref().filter(|_| store.is_embedded()) {
                systems.with(schema).await.map_err(|error| told(&self.place.store, &error))?;
            }
            let import = Import::into(&from.store(&store), &from.table).await;
            let import = import.map_err(|error| told(&self.place.store, &error.into()))?;
            let mut lines = from.export.lines();
            loop {
                let (batch, over) = match next_batch(&mut lines, &import, &mut done) {
                    Ok(next) => next,
                    Err(error) => {
                        stopped = Some(error);
                        break 'all;
                    }
                };
                stopped = self.write_batch(&import, batch, &mut done).await;
                if stopped.is_none() && !over && stop.load(Ordering::Relaxed) {
                    stopped = Some("stopped; run it again to go on".to_owned());
                }
                if stopped.is_some() {
                    break 'all;
                }
                if over {
                    break;
                }
            }
        }
        done.end(stopped.as_deref())
    }

    /// Why it stopped, if it did.
    async fn write_batch(
        &self,
        import: &Import,
        batch: Vec<(Line, Item)>,
        done: &mut Done,
    ) -> Option<String> {
        let (lines, items): (Vec<Line>, Vec<Item>) = batch.into_iter().unzip();
        let outcomes = import.put(items).await;
        for (line, outcome) in lines.into_iter().zip(outcomes) {
            let name = line.file.display().to_string();
            match outcome {
                Ok(outcome) => done.count(outcome),
                Err(error @ Error::Store(_)) if self.on_error != Some(OnError::Skip) => {
                    let error = told(&self.place.store, &error);
                    return Some(format!("{name}:{}: {error}; run it again to go on", line.number));
                }
                Err(error) => done.refuse(&name, line.number, &error.to_string()),
            }
        }
        None
    }
}

impl Move {
    /// The store where it keeps the table.
    fn store(&self, store: &Store) -> Store {
        let named = |schema: &Schema| {
            let is_it = |table: &&larder_schema::schema::Table| {
                schema.table_name(table, &project::environment()).is_ok_and(|name| name == self.table)
            };
            schema.tables.iter().find(is_it).and_then(|table| table.region.clone())
        };
        store.at(self.schema.as_ref().and_then(named).as_deref())
    }
}

/// The items of the next batch, and whether they are the last.
fn next_batch(
    lines: &mut larder::export::Lines,
    import: &Import,
    done: &mut Done,
) -> Result<(Vec<(Line, Item)>, bool), String> {
    let mut batch = Vec::new();
    let mut bytes = 0;
    while batch.len() < BATCH_RECORDS_MAX && bytes < BATCH_BYTES_MAX {
        let Some(line) = lines.next() else { return Ok((batch, true)) };
        let mut line = line.map_err(|error| error.to_string())?;
        bytes += line.bytes;
        match fit(import, std::mem::replace(&mut line.item, Ok(Item::new()))) {
            Ok(item) => batch.push((line, item)),
            Err(error) => done.refuse(&line.file.display().to_string(), line.number, &error),
        }
    }
    Ok((batch, false))
}

/// An item that has a place in the table.
fn fit(import: &Import, item: Result<Item, String>) -> Result<Item, String> {
    let item = item?;
    import.check(&item).map(|()| item)
}

/// The schema here that has a table of this name in the store.
fn schema_of(table: &TableName) -> Result<Option<Schema>, String> {
    let environment = project::environment();
    // Tables can be loaded where there are no schemas.
    for path in project::schemas(&[]).unwrap_or_default() {
        let schema = system_at(&path)?;
        let names = schema.tables.iter().filter_map(|table| schema.table_name(table, &environment).ok());
        if names.collect::<BTreeSet<_>>().contains(table) {
            return Ok(Some(schema));
        }
    }
    Ok(None)
}
