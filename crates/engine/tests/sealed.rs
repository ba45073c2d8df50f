//! Nothing of an encrypted database can be read in its files, wherever the database keeps it.

#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use std::fs;
use std::path::Path;
use std::time::Duration;

use common::*;
use larder_engine::Engine;
use larder_engine::ops::*;
use larder_model::{Item, StreamView, UnixTime};
use larder_storage::{Key, Options};
use pollster::block_on;

const MARKER: &str = "a-marker-nobody-may-find";
/// Any part of the marker as long as this counts.
const PART_BYTES: usize = 12;

fn holds_marker(directory: &Path) -> bool {
    let parts: Vec<&[u8]> = MARKER.as_bytes().windows(PART_BYTES).collect();
    fs::read_dir(directory).unwrap().any(|entry| {
        let bytes = fs::read(entry.unwrap().path()).unwrap();
        bytes.windows(PART_BYTES).any(|window| parts.contains(&window))
    })
}

fn at(seconds: u64) -> UnixTime {
    NOW.plus(Duration::from_secs(seconds))
}

fn marked(key: &str, value: &str) -> Item {
    let (key, name) = (format!("{MARKER} {key}"), format!("{MARKER} name"));
    let value = format!("{MARKER} {value}");
    [("pk", key.as_str()), ("city", &value), (&name, &value)].into_iter().collect()
}

fn put_at(engine: &Engine, item: Item, now: UnixTime) {
    let request = PutItem { table: name("data"), item, options: WriteOptions::default() };
    block_on(engine.put_item(request, now)).unwrap();
}

/// A table with an index, a stream and recovery; changed, deleted from, backed up and restored both ways.
fn live(engine: &Engine, during: &dyn Fn()) {
    create(engine, true);
    let stream = StreamSpecification { enabled: true, view: Some(StreamView::NewAndOldImages) };
    let request = UpdateTable {
        table: name("data"),
        attributes: Vec::new(),
        billing_mode: None,
        throughput: None,
        on_demand_limits: None,
        index_changes: None,
        stream: Some(stream),
        encryption: None,
        class: None,
        deletion_protection: None,
    };
    block_on(engine.update_table(request, NOW)).unwrap();
    let request = UpdateContinuousBackups { table: name("data"), enabled: true, days: None };
    block_on(engine.update_continuous_backups(request, NOW)).unwrap();
    for n in 0..200 {
        put_at(engine, marked(&format!("{n}"), "first"), at(1));
    }
    let writes = vec![TransactWrite {
        table: name("data"),
        action: TransactAction::Put { item: marked("transaction", "first") },
        condition: None,
        return_old_on_failure: false,
    }];
    let token = Some(MARKER.to_owned());
    let request =
        TransactWriteItems { writes, token, capacity: ReturnCapacity::None, collection_metrics: false };
    block_on(engine.transact_write_items(request, at(1))).unwrap();
    for n in 0..200 {
        put_at(engine, marked(&format!("{n}"), "second"), at(3));
    }
    delete(engine, [("pk", format!("{MARKER} 7"))].into_iter().collect());
    during();
    let request = CreateBackup { table: name("data"), name: MARKER.to_owned() };
    let backup = block_on(engine.create_backup(request, at(4))).unwrap().arn;
    let request = RestoreTableToPointInTime {
        source: name("data"),
        target: name("restored"),
        at: Some(at(2)),
        overrides: RestoreOverrides::default(),
    };
    block_on(engine.restore_table_to_point_in_time(request, at(5))).unwrap();
    during();
    work(engine, at(5));
    let request =
        RestoreTableFromBackup { backup, target: name(MARKER), overrides: RestoreOverrides::default() };
    block_on(engine.restore_table_from_backup(request, at(6))).unwrap();
    work(engine, at(6));
    during();
    for table in ["restored", MARKER] {
        let described = engine.describe_table(&DescribeTable { table: name(table) }).unwrap();
        assert_eq!(described.status, TableStatus::Active, "{table}");
    }
}

#[test]
fn l8_t10_a_marker_is_in_no_file_of_an_encrypted_store_log_backups_and_restored_tables_included() {
    for key in [None, Some(Key::new([7; 32]))] {
        let directory = tempfile::tempdir().unwrap();
        // Little memory, so that all of it goes through the file.
        let options = Options { cache_bytes: 64 << 10, log_bytes: 64 << 10, key, ..Options::default() };
        let engine = Engine::open(directory.path(), options).unwrap();
        let is_plain = key.is_none();
        live(&engine, &|| assert_eq!(holds_marker(directory.path()), is_plain, "while it is open"));
        engine.close().unwrap();
        drop(engine);
        assert_eq!(holds_marker(directory.path()), is_plain, "once it is closed");
    }
}
