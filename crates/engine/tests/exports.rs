//! Exports show a table as it was at a moment, and what became of its items between two, whatever is written meanwhile;
//! imports make a table of what they are given.

#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::*;
use larder_engine::ops::*;
use larder_engine::{
    Depot, DepotError, Engine, Error, ExportWriter, ExportWritten, ExportedChange, ImportLine, ImportReader,
};
use larder_model::{Item, KeyType, TableDefinition, UnixTime};
use larder_storage::Options;
use pollster::block_on;

const HOUR: u64 = 60 * 60;

fn after(seconds: u64) -> UnixTime {
    NOW.plus(Duration::from_secs(seconds))
}

/// What was exported, by export, and what there is to import.
#[derive(Clone, Debug, Default)]
struct Shelves(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    items: BTreeMap<String, Vec<Item>>,
    changes: BTreeMap<String, Vec<ExportedChange>>,
    lines: Vec<ImportLine>,
    /// The export or import after so many lines fails.
    fails_after: Option<usize>,
}

#[derive(Debug)]
struct Writer {
    shelves: Shelves,
    id: String,
    items: Vec<Item>,
    changes: Vec<ExportedChange>,
}

#[derive(Debug)]
struct Reader {
    shelves: Shelves,
    at: usize,
}

impl Shelves {
    fn check(&self, written: usize) -> Result<(), DepotError> {
        match self.0.lock().unwrap().fails_after {
            Some(most) if written >= most => Err(DepotError::new("S3NoSuchBucket", "it is gone")),
            _ => Ok(()),
        }
    }
}

impl Depot for Shelves {
    fn export(&self, export: &ExportDescription) -> Result<Box<dyn ExportWriter>, DepotError> {
        let (items, changes) = (Vec::new(), Vec::new());
        Ok(Box::new(Writer { shelves: self.clone(), id: export.id.clone(), items, changes }))
    }

    fn import(&self, _: &ImportSource, _: &TableDefinition) -> Result<Box<dyn ImportReader>, DepotError> {
        self.check(0)?;
        Ok(Box::new(Reader { shelves: self.clone(), at: 0 }))
    }
}

impl ExportWriter for Writer {
    fn item(&mut self, item: &Item) -> Result<(), DepotError> {
        self.shelves.check(self.items.len())?;
        self.items.push(item.clone());
        Ok(())
    }

    fn change(&mut self, change: &ExportedChange) -> Result<(), DepotError> {
        self.changes.push(change.clone());
        Ok(())
    }

    fn finish(self: Box<Self>, _: UnixTime) -> Result<ExportWritten, DepotError> {
        let Self { shelves, id, items, changes } = *self;
        let count = (items.len() + changes.len()) as u64;
        let bytes = items.iter().map(Item::size).sum::<usize>() as u64;
        let manifest = format!("AWSDynamoDB/{id}/manifest-summary.json");
        let mut kept = shelves.0.lock().unwrap();
        kept.items.insert(id.clone(), items);
        kept.changes.insert(id, changes);
        Ok(ExportWritten { manifest, items: count, bytes })
    }
}

impl ImportReader for Reader {
    fn next_line(&mut self) -> Result<Option<ImportLine>, DepotError> {
        self.shelves.check(self.at)?;
        self.at += 1;
        Ok(self.shelves.0.lock().unwrap().lines.get(self.at - 1).cloned())
    }
}

fn place() -> BucketPlace {
    BucketPlace { bucket: "bucket".to_owned(), owner: None, prefix: Some("daily".to_owned()) }
}

fn export(what: ExportAsked, token: Option<&str>) -> ExportTableToPointInTime {
    let token = token.map(str::to_owned);
    ExportTableToPointInTime { table: name("data"), token, place: place(), encryption: [None, None], what }
}

fn begin(engine: &Engine, what: ExportAsked, now: UnixTime) -> Result<ExportDescription, Error> {
    block_on(engine.export_table_to_point_in_time(export(what, None), now))
}

fn described(engine: &Engine, export: &ExportDescription) -> ExportDescription {
    let arn = format!("arn:aws:dynamodb:us-east-1:000000000000:table/data/export/{}", export.id);
    engine.describe_export(&DescribeExport { arn }).unwrap()
}

fn recover(engine: &Engine) {
    let request = UpdateContinuousBackups { table: name("data"), enabled: true, days: None };
    block_on(engine.update_continuous_backups(request, NOW)).unwrap();
}

fn database() -> (Engine, Shelves) {
    let (engine, shelves) = (Engine::memory().unwrap(), Shelves::default());
    create(&engine, false);
    recover(&engine);
    engine.set_depot(Arc::new(shelves.clone()));
    (engine, shelves)
}

fn put_at(engine: &Engine, pk: &str, v: &str, now: UnixTime) {
    let request =
        PutItem { table: name("data"), item: item([("pk", pk), ("v", v)]), options: WriteOptions::default() };
    block_on(engine.put_item(request, now)).unwrap();
}

fn delete_at(engine: &Engine, pk: &str, now: UnixTime) {
    let request = DeleteItem { table: name("data"), key: key(pk), options: WriteOptions::default() };
    block_on(engine.delete_item(request, now)).unwrap();
}

/// Items as a map of `pk` to `v`.
fn values<'a>(items: impl IntoIterator<Item = &'a Item>) -> BTreeMap<String, String> {
    let text = |item: &Item, name| item.get(name).unwrap().as_str().unwrap().to_owned();
    items.into_iter().map(|item| (text(item, "pk"), text(item, "v"))).collect()
}

fn exported(shelves: &Shelves, export: &ExportDescription) -> BTreeMap<String, String> {
    values(&shelves.0.lock().unwrap().items[&export.id])
}

#[test]
fn a_table_is_exported_as_it_was_at_a_moment() {
    let (engine, shelves) = database();
    for number in 0..2500 {
        put_at(&engine, &format!("{number:04}"), "old", after(10));
    }
    put_at(&engine, "0001", "new", after(100));
    delete_at(&engine, "0002", after(100));
    put_at(&engine, "later", "new", after(100));
    let then = begin(&engine, ExportAsked::Table { at: Some(after(50)) }, after(200)).unwrap();
    let now = begin(&engine, ExportAsked::Table { at: None }, after(200)).unwrap();
    assert_eq!((&then.status, then.ended), (&TaskStatus::InProgress, None));
    // What is written while it goes on is not in it.
    assert!(engine.work(after(200), Duration::ZERO).unwrap().more);
    put_at(&engine, "0003", "newest", after(201));
    work(&engine, after(202));

    let old: BTreeMap<String, String> =
        (0..2500).map(|number| (format!("{number:04}"), "old".to_owned())).collect();
    assert_eq!(exported(&shelves, &then), old);
    let mut new = old;
    new.insert("0001".to_owned(), "new".to_owned());
    new.remove("0002");
    new.insert("later".to_owned(), "new".to_owned());
    assert_eq!(exported(&shelves, &now), new);
    let found = described(&engine, &then);
    assert_eq!((found.status, found.items, found.ended), (TaskStatus::Completed, 2500, Some(after(202))));
    assert_eq!(found.manifest.unwrap(), format!("AWSDynamoDB/{}/manifest-summary.json", then.id));
    assert_eq!(found.what, Exported::Table { at: after(50) });
}

#[test]
fn what_an_export_keeps_is_gone_when_it_is_over() {
    let (engine, shelves) = database();
    put_at(&engine, "a", "one", after(1));
    let listed = |engine: &Engine| {
        let kinds = vec![BackupKind::User, BackupKind::System];
        let request = ListBackups { table: None, kinds, from: None, before: None, limit: None, start: None };
        engine.list_backups(&request).unwrap().backups.len()
    };
    let keys = |engine: &Engine| {
        let unbounded = std::ops::Bound::Unbounded;
        let range = engine.store().snapshot().range(unbounded, unbounded).unwrap();
        range.map(|entry| entry.unwrap().0[0]).fold([0; 256], |mut counts, first| {
            counts[usize::from(first)] += 1;
            counts
        })
    };
    let before = keys(&engine);
    for fails_after in [None, Some(0)] {
        shelves.0.lock().unwrap().fails_after = fails_after;
        let begun = begin(&engine, ExportAsked::Table { at: None }, after(10)).unwrap();
        assert_eq!(listed(&engine), 0, "nobody sees what it keeps");
        let refused = block_on(engine.delete_table(DeleteTable { table: name("data") }, after(10)));
        assert_eq!(code(refused), "ResourceInUseException");
        work(&engine, after(11));
        let status = described(&engine, &begun).status;
        match fails_after {
            None => assert_eq!(status, TaskStatus::Completed),
            Some(_) => {
                let (code, message) = ("S3NoSuchBucket".to_owned(), "it is gone".to_owned());
                assert_eq!(status, TaskStatus::Failed { code, message });
            }
        }
    }
    let changes = 20 * 60;
    shelves.0.lock().unwrap().fails_after = None;
    put_at(&engine, "b", "two", after(100));
    let asked = ExportAsked::Changes { from: NOW, to: Some(after(changes)), view: ExportView::NewAndOld };
    begin(&engine, asked, after(changes + 1)).unwrap();
    work(&engine, after(changes + 2));
    let mut now = keys(&engine);
    assert_eq!(now[0x0e], 3, "the descriptions stay");
    // The item that was written meanwhile, and its entry in the log.
    now[0x10] -= 1;
    now[0x20] -= 1;
    for first in [0x03, 0x07, 0x08, 0x10, 0x20] {
        assert_eq!(now[first], before[first], "{first:02x}");
    }
    // Until they are forgotten.
    work(&engine, after(91 * 24 * HOUR));
    assert_eq!(keys(&engine)[0x0e], 0);
    block_on(engine.delete_table(DeleteTable { table: name("data") }, after(91 * 24 * HOUR))).unwrap();
}

#[test]
fn changes_are_exported_with_what_items_were_and_became() {
    let (engine, shelves) = database();
    for pk in ["changed", "removed", "before", "back", "twice"] {
        put_at(&engine, pk, "one", after(10));
    }
    let (from, to) = (after(HOUR), after(2 * HOUR));
    put_at(&engine, "changed", "two", from);
    delete_at(&engine, "removed", after(HOUR + 1));
    put_at(&engine, "new", "two", after(HOUR + 2));
    put_at(&engine, "came and went", "two", after(HOUR + 3));
    delete_at(&engine, "came and went", after(HOUR + 4));
    put_at(&engine, "twice", "two", after(HOUR + 5));
    put_at(&engine, "twice", "three", after(HOUR + 6));
    // Not before the end: that is no part of it.
    put_at(&engine, "changed", "after", to);
    put_at(&engine, "late", "after", after(2 * HOUR + 1));
    delete_at(&engine, "new", after(2 * HOUR + 2));
    put_at(&engine, "removed", "after", after(2 * HOUR + 3));
    let one = |view| {
        let asked = ExportAsked::Changes { from, to: Some(to), view };
        let begun = begin(&engine, asked, after(3 * HOUR)).unwrap();
        assert!(engine.work(after(3 * HOUR), Duration::ZERO).unwrap().more);
        put_at(&engine, "twice", "meanwhile", after(3 * HOUR));
        work(&engine, after(3 * HOUR));
        assert_eq!(described(&engine, &begun).status, TaskStatus::Completed);
        let changes = shelves.0.lock().unwrap().changes[&begun.id].clone();
        let text = |item: &Option<Item>| {
            item.as_ref().map_or(String::new(), |item| item.get("v").unwrap().as_str().unwrap().to_owned())
        };
        let line = |change: &ExportedChange| {
            let pk = change.key.get("pk").unwrap().as_str().unwrap().to_owned();
            let seconds = change.time.seconds() - from.seconds();
            (pk, (text(&change.old), text(&change.new), seconds))
        };
        changes.iter().map(line).collect::<BTreeMap<_, _>>()
    };
    let expected = |rows: [(&str, &str, &str, i64); 4]| -> BTreeMap<_, _> {
        rows.map(|(pk, old, new, at)| (pk.to_owned(), (old.to_owned(), new.to_owned(), at))).into()
    };
    assert_eq!(
        one(ExportView::NewAndOld),
        expected([
            ("changed", "one", "two", 0),
            ("removed", "one", "", 1),
            ("new", "", "two", 2),
            ("twice", "one", "three", 6),
        ])
    );
    assert_eq!(
        one(ExportView::New),
        expected([
            ("changed", "", "two", 0),
            ("removed", "", "", 1),
            ("new", "", "two", 2),
            ("twice", "", "three", 6)
        ])
    );
}

#[test]
fn many_changes_are_exported_a_step_at_a_time() {
    let (engine, shelves) = database();
    for round in 0..3 {
        for number in 0..1500 {
            put_at(&engine, &format!("{number:04}"), &round.to_string(), after(HOUR * (round + 1)));
        }
    }
    let (from, to) = (after(HOUR + 1), after(2 * HOUR + 1));
    let asked = ExportAsked::Changes { from, to: Some(to), view: ExportView::NewAndOld };
    let begun = begin(&engine, asked, after(4 * HOUR)).unwrap();
    work(&engine, after(4 * HOUR));
    let kept = shelves.0.lock().unwrap();
    let changes = &kept.changes[&begun.id];
    assert_eq!(changes.len(), 1500);
    for change in changes {
        let image =
            |image: &Option<Item>| image.as_ref().unwrap().get("v").unwrap().as_str().unwrap().to_owned();
        assert_eq!((image(&change.old).as_str(), image(&change.new).as_str()), ("0", "1"));
    }
}

#[test]
fn what_cannot_be_exported_is_refused() {
    let engine = Engine::memory().unwrap();
    create(&engine, false);
    let table = |at| ExportAsked::Table { at };
    let refused = begin(&engine, table(None), NOW);
    assert_eq!(code(refused), "ValidationException", "there is no depot");
    engine.set_depot(Arc::new(Shelves::default()));
    assert_eq!(code(begin(&engine, table(None), NOW)), "PointInTimeRecoveryUnavailableException");
    recover(&engine);
    let unknown = ExportTableToPointInTime { table: name("other"), ..export(table(None), None) };
    let refused = block_on(engine.export_table_to_point_in_time(unknown, NOW));
    assert_eq!(code(refused), "TableNotFoundException");
    let now = after(30 * HOUR);
    for at in [UnixTime::from_seconds(0), after(31 * HOUR)] {
        assert_eq!(code(begin(&engine, table(Some(at)), now)), "InvalidExportTimeException");
    }
    let changes = |from, to| ExportAsked::Changes { from, to: Some(to), view: ExportView::New };
    for (from, to, expected) in [
        (after(1), after(15 * 60), "ValidationException"),
        (after(1), after(25 * HOUR), "ValidationException"),
        (after(HOUR), after(1), "ValidationException"),
        (UnixTime::from_seconds(1), after(HOUR), "InvalidExportTimeException"),
        (after(20 * HOUR), after(40 * HOUR), "InvalidExportTimeException"),
    ] {
        assert_eq!(code(begin(&engine, changes(from, to), now)), expected);
    }
    begin(&engine, changes(after(1), after(1 + 15 * 60)), now).unwrap();
}

#[test]
fn a_token_stands_for_one_export_for_eight_hours() {
    let (engine, _) = database();
    let ask = |what, now| block_on(engine.export_table_to_point_in_time(export(what, Some("token")), now));
    let first = ask(ExportAsked::Table { at: None }, after(1)).unwrap();
    assert_eq!(ask(ExportAsked::Table { at: None }, after(2)).unwrap(), first);
    let other = ask(ExportAsked::Table { at: Some(after(1)) }, after(2));
    assert_eq!(code(other), "ExportConflictException");
    work(&engine, after(3));
    assert_eq!(ask(ExportAsked::Table { at: None }, after(4)).unwrap().id, first.id);
    assert_ne!(ask(ExportAsked::Table { at: None }, after(8 * HOUR + 4)).unwrap().id, first.id);
    let arn = "arn:aws:dynamodb:us-east-1:000000000000:table/data/export/1-2".to_owned();
    assert_eq!(code(engine.describe_export(&DescribeExport { arn })), "ExportNotFoundException");
}

#[test]
fn exports_go_on_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let open = |shelves: &Shelves| {
        let engine = Engine::open(directory.path(), Options::default()).unwrap();
        engine.set_depot(Arc::new(shelves.clone()));
        engine
    };
    let shelves = Shelves::default();
    let (begun, changes) = {
        let engine = open(&shelves);
        create(&engine, false);
        recover(&engine);
        for number in 0..1200 {
            put_at(&engine, &format!("{number:04}"), "old", after(HOUR));
        }
        let begun = begin(&engine, ExportAsked::Table { at: None }, after(2 * HOUR)).unwrap();
        let asked = ExportAsked::Changes { from: after(1), to: None, view: ExportView::New };
        (begun, begin(&engine, asked, after(2 * HOUR)).unwrap())
    };
    // Cut off after each step; what was written by a process that ended begins anew.
    for step in 0..100 {
        let engine = open(&shelves);
        let more = engine.work(after(3 * HOUR + step), Duration::ZERO).unwrap().more;
        if step >= 40 || !more {
            work(&engine, after(4 * HOUR));
            break;
        }
    }
    let engine = open(&shelves);
    for export in [&begun, &changes] {
        let found = described(&engine, export);
        assert_eq!((found.status, found.items), (TaskStatus::Completed, 1200));
    }
    let verified = engine.verify(after(4 * HOUR), |_| ()).unwrap();
    assert_eq!(verified.problems, Vec::<String>::new());
}

fn import(token: Option<&str>) -> ImportTable {
    let source = ImportSource {
        place: place(),
        format: ImportFormat::DynamoDbJson,
        compression: ImportCompression::None,
    };
    let table = CreateTable {
        table: name("data"),
        attributes: vec![("pk".to_owned(), KeyType::S), ("city".to_owned(), KeyType::S)],
        key: vec![partition("pk")],
        local_indexes: None,
        global_indexes: Some(vec![by_city()]),
        billing_mode: Some(BillingMode::OnDemand),
        throughput: None,
        on_demand_limits: None,
        stream: None,
        encryption: None,
        class: None,
        deletion_protection: None,
        tags: Vec::new(),
        policy: None,
    };
    ImportTable { token: token.map(str::to_owned), source, table }
}

fn importing(lines: Vec<Result<Item, String>>) -> (Engine, Shelves) {
    let (engine, shelves) = (Engine::memory().unwrap(), Shelves::default());
    let lines = lines.into_iter().map(|item| ImportLine { bytes: 10, item });
    shelves.0.lock().unwrap().lines = lines.collect();
    engine.set_depot(Arc::new(shelves.clone()));
    (engine, shelves)
}

fn imported(engine: &Engine, import: &ImportDescription) -> ImportDescription {
    let arn = format!("arn:aws:dynamodb:us-east-1:000000000000:table/data/import/{}", import.id);
    engine.describe_import(&DescribeImport { arn }).unwrap()
}

#[test]
fn a_table_is_made_of_what_is_imported() {
    let mut lines: Vec<Result<Item, String>> =
        (0..2500).map(|number| Ok(item([("pk", &format!("{number:04}")), ("city", "Kyoto")]))).collect();
    lines.push(Ok(item([("pk", "0000"), ("city", "Osaka")])));
    lines.push(Err("it is no item".to_owned()));
    lines.push(Ok(item([("other", "no key")])));
    lines.push(Ok(item([("pk", "large"), ("text", &"x".repeat(500_000))])));
    let (engine, _) = importing(lines);
    let begun = block_on(engine.import_table(import(None), NOW)).unwrap();
    assert_eq!(begun.status, TaskStatus::InProgress);
    // Nobody may use it before it is filled.
    assert_eq!(describe(&engine).status, TableStatus::Creating);
    assert_eq!(code(put(&engine, key("mine"))), "ResourceNotFoundException");
    let again = block_on(engine.import_table(import(None), NOW));
    assert_eq!(code(again), "ResourceInUseException");
    assert_eq!(
        code(block_on(engine.delete_table(DeleteTable { table: name("data") }, NOW))),
        "ResourceInUseException"
    );
    work(&engine, after(5));
    let found = imported(&engine, &begun);
    assert_eq!((found.status, found.ended), (TaskStatus::Completed, Some(after(5))));
    let counts = ImportCounts { errors: 3, bytes: 25_040, processed: 2504, imported: 2501 };
    assert_eq!(found.counts, counts);
    let table = describe(&engine);
    assert_eq!((table.status, table.item_count), (TableStatus::Active, 2500));
    assert_eq!(table.indexes[0].item_count, 2500);
    assert_eq!(get(&engine, key("0000")), Some(item([("pk", "0000"), ("city", "Osaka")])));
    assert_eq!(keys_in(&engine, Some("by_city")).len(), 2500);
    put(&engine, key("mine")).unwrap();
    let verified = engine.verify(after(5), |_| ()).unwrap();
    assert_eq!(verified.problems, Vec::<String>::new());
}

#[test]
fn an_import_that_fails_leaves_what_it_had() {
    for fails_after in [0, 1500] {
        let lines = (0..2000).map(|number| Ok(key(&format!("{number:04}")))).collect();
        let (engine, shelves) = importing(lines);
        shelves.0.lock().unwrap().fails_after = Some(fails_after);
        let begun = block_on(engine.import_table(import(None), NOW)).unwrap();
        work(&engine, after(1));
        let TaskStatus::Failed { code, .. } = imported(&engine, &begun).status else { panic!("it fails") };
        assert_eq!(code, "S3NoSuchBucket");
        let table = describe(&engine);
        let expected = if fails_after == 0 { 0 } else { 1000 };
        assert_eq!((table.status, table.item_count), (TableStatus::Active, expected));
        block_on(engine.delete_table(DeleteTable { table: name("data") }, after(2))).unwrap();
    }
}

#[test]
fn a_token_stands_for_one_import() {
    let (engine, _) = importing(vec![Ok(key("a"))]);
    let first = block_on(engine.import_table(import(Some("token")), NOW)).unwrap();
    let again = block_on(engine.import_table(import(Some("token")), NOW)).unwrap();
    assert_eq!(again, first);
    let mut other = import(Some("token"));
    other.source.compression = ImportCompression::Gzip;
    assert_eq!(code(block_on(engine.import_table(other, NOW))), "IdempotentParameterMismatchException");
}

#[test]
fn an_import_that_was_cut_off_begins_anew() {
    let directory = tempfile::tempdir().unwrap();
    let lines: Vec<_> = (0..2500).map(|number| Ok(key(&format!("{number:04}")))).collect();
    let (_, shelves) = importing(lines);
    let open = || {
        let engine = Engine::open(directory.path(), Options::default()).unwrap();
        engine.set_depot(Arc::new(shelves.clone()));
        engine
    };
    let engine = open();
    let begun = block_on(engine.import_table(import(None), NOW)).unwrap();
    engine.work(NOW, Duration::ZERO).unwrap();
    drop(engine);
    let engine = open();
    assert_eq!(describe(&engine).status, TableStatus::Creating);
    work(&engine, after(1));
    let found = imported(&engine, &begun);
    assert_eq!((found.status, found.counts.imported), (TaskStatus::Completed, 2500));
    assert_eq!(describe(&engine).item_count, 2500);
}

#[test]
fn a_table_whose_import_cannot_go_on_can_be_deleted() {
    let directory = tempfile::tempdir().unwrap();
    let (_, shelves) = importing(vec![Ok(key("a"))]);
    let engine = Engine::open(directory.path(), Options::default()).unwrap();
    engine.set_depot(Arc::new(shelves.clone()));
    let begun = block_on(engine.import_table(import(None), NOW)).unwrap();
    drop(engine);
    // Nobody told this process of a depot.
    let engine = Engine::open(directory.path(), Options::default()).unwrap();
    work(&engine, after(1));
    assert_eq!(describe(&engine).status, TableStatus::Creating);
    block_on(engine.delete_table(DeleteTable { table: name("data") }, after(2))).unwrap();
    create(&engine, false);
    drop(engine);
    let engine = Engine::open(directory.path(), Options::default()).unwrap();
    engine.set_depot(Arc::new(shelves));
    work(&engine, after(3));
    let TaskStatus::Failed { code, .. } = imported(&engine, &begun).status else { panic!("it fails") };
    assert_eq!((code.as_str(), get(&engine, key("a"))), ("TableNotFound", None));
}
