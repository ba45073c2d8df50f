//! Imports: a new table, filled with items from a depot.
//!
//! The table is there at once, and nobody may use it before it is filled. Items are put as they come, a step at a time, with
//! their index entries; what cannot be an item of the table is counted and left out. Of two with one key the later stays.
//!
//! Promises:
//! - An import that was cut off begins anew: what it put before is put again, and nothing is counted twice.
//! - One that fails leaves the table with what was put so far, for its owner to look at.

use std::collections::HashMap;
use std::sync::Arc;

use larder_model::limits::ITEM_BYTES_MAX;
use larder_model::{ApiError, Arn, Item, Space, UnixTime};
use larder_storage::Batch;

use crate::capacity::Meter;
use crate::catalog::{Catalog, Table};
use crate::changes::Stamp;
use crate::depot::{Depot, DepotError, ImportReader};
use crate::exports::{TOKEN_MILLIS, id_of};
use crate::guard::{Judge, WriteKind};
use crate::key_rules::{self, PutKind};
use crate::layout;
use crate::ops::{
    DescribeImport, ImportCounts, ImportDescription, ImportTable, ListImports, ListImportsOutput, TaskStatus,
};
use crate::tables::{new_table, put_record};
use crate::write::{Change, New, Old, stage};
use crate::{Engine, Error, item_bytes, record, table_rules, twice};

/// Bounds on one step.
const STEP_LINES: usize = 1000;
const STEP_BYTES: u64 = 4 << 20;
/// Imports in one answer of ListImports.
const LIST_IMPORTS_MAX: usize = 25;
/// Imports that may go on at once.
const IMPORTS_MAX: usize = 50;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Import {
    pub description: ImportDescription,
    /// What was asked for, to tell two requests with one token apart.
    pub asked: String,
}

impl Import {
    pub(crate) fn id(&self) -> &str {
        &self.description.id
    }

    fn arn(&self) -> String {
        Arn::import(&self.description.table.name, self.id()).to_string()
    }
}

/// What of an import this process has read.
#[derive(Debug, Default)]
pub(crate) struct Reading(Option<Read>);

#[derive(Debug)]
struct Read {
    import: String,
    reader: Box<dyn ImportReader>,
    counts: ImportCounts,
}

impl Engine {
    pub async fn import_table(
        &self,
        request: ImportTable,
        now: UnixTime,
    ) -> Result<ImportDescription, Error> {
        self.check_depot()?;
        let definition = table_rules::new_table(&request.table)?;
        let asked = format!("{:?}", (&request.source, &definition));
        let ((), ticket, description) = self.change_catalog(|catalog, batch| {
            if let Some(import) = request.token.as_ref().and_then(|token| of_token(catalog, token, now)) {
                if import.asked != asked {
                    return Err(ApiError::IdempotentParameterMismatch.into());
                }
                return Ok(((), import.description.clone()));
            }
            let name = &definition.name;
            if catalog.find(name)?.is_some() {
                return Err(ApiError::ResourceInUse(format!("Table already exists: {name}")).into());
            }
            if going_on(catalog).count() >= IMPORTS_MAX {
                return Err(ApiError::LimitExceeded(format!(
                    "Subscriber limit exceeded: There is a limit of {IMPORTS_MAX} concurrent imports"
                ))
                .into());
            }
            let started = self.mark(now);
            let id = self.next_table_id(batch)?;
            let table = Table { is_importing: true, ..new_table(id, definition, now)? };
            let description = ImportDescription {
                // As an export's.
                id: format!("{:014}-{:08x}", started.millis(), id.0),
                status: TaskStatus::InProgress,
                table: table.definition.clone(),
                table_id: table.history.uuid,
                token: request.token,
                source: request.source,
                started,
                ended: None,
                counts: ImportCounts::default(),
            };
            let import = Import { description: description.clone(), asked };
            put_record(batch, &table);
            catalog.insert(Arc::new(table));
            put_import(batch, &import);
            catalog.insert_import(Arc::new(import));
            Ok(((), description))
        })?;
        ticket.await?;
        self.wake_worker();
        Ok(description)
    }

    pub fn describe_import(&self, request: &DescribeImport) -> Result<ImportDescription, Error> {
        let catalog = self.catalog()?;
        let found = catalog.import(id_of(&request.arn)).filter(|import| import.arn() == request.arn);
        let import = found.ok_or_else(|| ApiError::ImportNotFound(request.arn.clone()))?;
        Ok(import.description.clone())
    }

    pub(crate) fn list_imports_in(
        &self,
        space: &Space,
        request: &ListImports,
    ) -> Result<ListImportsOutput, Error> {
        let limit = request.limit.unwrap_or(LIST_IMPORTS_MAX).min(LIST_IMPORTS_MAX);
        let catalog = self.catalog()?;
        // A list is of one space, whatever table it is to be of: nobody was asked about others.
        let mut found = catalog.imports_after(request.start.as_deref()).filter(|import| {
            let table = &import.description.table.name;
            table.is_in(space) && request.table.as_ref().is_none_or(|asked| asked == table)
        });
        let imports: Vec<_> = found.by_ref().take(limit).map(|import| import.description.clone()).collect();
        let last = found.next().and(imports.last().map(|import| import.id.clone()));
        Ok(ListImportsOutput { imports, last })
    }

    /// Takes an import one step further. True while there may be more.
    pub(crate) fn import(&self, now: UnixTime) -> Result<bool, Error> {
        let Some(depot) = self.depot.get() else { return Ok(false) };
        let mut reading = self.reading_import.lock();
        let begun = reading.0.as_ref().map(|read| read.import.clone());
        let mut imports: Vec<Arc<Import>> = going_on(&*self.catalog()?).cloned().collect();
        // What is half read comes first, as it would have to begin anew.
        imports.sort_by_key(|import| begun.as_deref() != Some(import.id()));
        let Some(import) = imports.into_iter().next() else { return Ok(false) };
        self.import_further(&**depot, &import, &mut reading, now)?;
        Ok(true)
    }

    fn import_further(
        &self,
        depot: &dyn Depot,
        import: &Import,
        reading: &mut Reading,
        now: UnixTime,
    ) -> Result<(), Error> {
        let description = &import.description;
        if filled(&*self.catalog()?, import).is_none() {
            let gone = DepotError::new("TableNotFound", "the table was deleted");
            return self.finish_import(import, Err(gone), ImportCounts::default(), now);
        }
        let begun = reading.0.take().filter(|read| read.import == import.id());
        let mut read = match begun {
            Some(read) => read,
            None => match depot.import(&description.source, &description.table) {
                Ok(reader) => {
                    Read { import: import.id().to_owned(), reader, counts: ImportCounts::default() }
                }
                Err(error) => return self.finish_import(import, Err(error), ImportCounts::default(), now),
            },
        };
        let (mut items, mut bytes, mut lines, mut is_over) = (Vec::new(), 0, 0, false);
        while lines < STEP_LINES && bytes < STEP_BYTES {
            match read.reader.next_line() {
                Ok(Some(line)) => {
                    lines += 1;
                    bytes += line.bytes;
                    read.counts.processed += 1;
                    match line.item {
                        Ok(item) => items.push(item),
                        Err(_) => read.counts.errors += 1,
                    }
                }
                Ok(None) => {
                    is_over = true;
                    break;
                }
                Err(error) => return self.finish_import(import, Err(error), read.counts, now),
            }
        }
        read.counts.bytes += bytes;
        let taken = items.len() as u64;
        let put = self.put_imported(import, items, &self.judge(now))?;
        read.counts.imported += put;
        read.counts.errors += taken - put;
        if is_over {
            return self.finish_import(import, Ok(()), read.counts, now);
        }
        reading.0 = Some(read);
        Ok(())
    }

    /// Puts items in one batch, and says how many of them the table takes.
    fn put_imported(&self, import: &Import, items: Vec<Item>, judge: &Judge) -> Result<u64, Error> {
        if items.is_empty() {
            return Ok(0);
        }
        let seen = self.store.generation();
        let catalog = self.writing()?;
        let Some(table) = filled(&catalog, import).cloned() else { return Ok(0) };
        let mut put = 0;
        // Of two with one key the later stays.
        let mut last: HashMap<Vec<u8>, Item> = HashMap::new();
        for item in items {
            let fits = item.size() <= ITEM_BYTES_MAX
                && key_rules::check_put(&table, &item, PutKind::Single).is_ok()
                && judge.ask(table.name(), WriteKind::Put, None, Some(&item)).is_ok();
            if fits {
                put += 1;
                last.insert(table.item_key(&item)?, item);
            }
        }
        let mut batch = Batch::default();
        for (key, item) in last {
            let old = self.store.latest(&key)?.map(Old::read).transpose()?;
            let change = Change { key, old, remains: None, new: Some(New::from(item)), update: None };
            // A table that is being filled keeps no log, so nobody sees the time.
            let stamp = Stamp { time: UnixTime::from_millis(0), expired: false };
            stage(&self.store, &mut batch, &table, &change, &mut Meter::default(), stamp)?;
        }
        let ticket = self.store.submit(batch, seen)?;
        drop(catalog);
        ticket.wait()?;
        Ok(put)
    }

    /// Ends an import, and lets everybody use the table.
    fn finish_import(
        &self,
        import: &Import,
        outcome: Result<(), DepotError>,
        counts: ImportCounts,
        now: UnixTime,
    ) -> Result<(), Error> {
        let ((), ticket, ()) = self.change_catalog(|catalog, batch| {
            let mut ended = import.clone();
            let description = &mut ended.description;
            description.ended = Some(now.max(description.started));
            description.counts = counts;
            description.status = match outcome {
                Ok(()) => TaskStatus::Completed,
                Err(DepotError { code, message }) => TaskStatus::Failed { code, message },
            };
            if let Some(id) = filled(catalog, import).map(|table| table.id) {
                catalog.change(batch, id, |table| table.is_importing = false);
            }
            put_import(batch, &ended);
            catalog.insert_import(Arc::new(ended));
            Ok(((), ()))
        })?;
        ticket.wait()?;
        self.wake_worker();
        Ok(())
    }
}

/// The table that an import fills, unless it was deleted meanwhile.
fn filled<'a>(catalog: &'a Catalog, import: &Import) -> Option<&'a Arc<Table>> {
    let table = catalog.find(&import.description.table.name).ok().flatten()?;
    (table.is_importing && table.history.uuid == import.description.table_id).then_some(table)
}

fn going_on(catalog: &Catalog) -> impl Iterator<Item = &Arc<Import>> {
    catalog.imports_after(None).filter(|import| import.description.status == TaskStatus::InProgress)
}

/// The import that a token stands for.
fn of_token<'a>(catalog: &'a Catalog, token: &str, now: UnixTime) -> Option<&'a Arc<Import>> {
    catalog.imports_after(None).find(|import| {
        let description = &import.description;
        let ended = description.ended.unwrap_or(now).millis().saturating_add(TOKEN_MILLIS);
        description.token.as_deref() == Some(token) && ended >= now.millis()
    })
}

fn put_import(batch: &mut Batch, import: &Import) {
    twice::put(batch, layout::import(import.id()), item_bytes::encode(&record::write_import(import)));
}
