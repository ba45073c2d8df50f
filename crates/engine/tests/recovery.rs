//! Tables as they were: at a moment, in a backup, after they were deleted.

#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::Duration;

use common::*;
use larder_engine::ops::*;
use larder_engine::{Engine, Error};
use larder_model::{ApiError, AttributeValue, IndexName, Item, KeyType, Throughput, UnixTime};
use larder_storage::faulty::FaultyDisk;
use larder_storage::{Options, Store};
use pollster::block_on;

/// This many milliseconds after the beginning.
fn at(millis: i64) -> UnixTime {
    UnixTime::from_millis(NOW.millis() + millis)
}

fn days(days: i64) -> UnixTime {
    UnixTime::from_seconds(NOW.seconds() + days * 24 * 60 * 60)
}

fn put_at(engine: &Engine, pk: &str, city: &str, now: UnixTime) {
    let item = item([("pk", pk), ("city", city)]);
    let request = PutItem { table: name("data"), item, options: WriteOptions::default() };
    block_on(engine.put_item(request, now)).unwrap();
}

fn delete_at(engine: &Engine, pk: &str, now: UnixTime) {
    let request = DeleteItem { table: name("data"), key: key(pk), options: WriteOptions::default() };
    block_on(engine.delete_item(request, now)).unwrap();
}

fn recovery(
    engine: &Engine,
    enabled: bool,
    days: Option<u8>,
    now: UnixTime,
) -> Result<ContinuousBackups, Error> {
    let request = UpdateContinuousBackups { table: name("data"), enabled, days };
    block_on(engine.update_continuous_backups(request, now))
}

fn window(engine: &Engine, now: UnixTime) -> Option<(UnixTime, UnixTime)> {
    let request = DescribeContinuousBackups { table: name("data") };
    let described = engine.describe_continuous_backups(&request, now).unwrap();
    described.recovery.map(|recovery| (recovery.earliest, recovery.latest))
}

fn restore(
    engine: &Engine,
    target: &str,
    moment: impl Into<Option<UnixTime>>,
    now: UnixTime,
) -> Result<TableDescription, Error> {
    restore_with(engine, target, moment, RestoreOverrides::default(), now)
}

fn restore_with(
    engine: &Engine,
    target: &str,
    moment: impl Into<Option<UnixTime>>,
    overrides: RestoreOverrides,
    now: UnixTime,
) -> Result<TableDescription, Error> {
    let request = RestoreTableToPointInTime {
        source: name("data"),
        target: name(target),
        at: moment.into(),
        overrides,
    };
    block_on(engine.restore_table_to_point_in_time(request, now))
}

fn backup(engine: &Engine, backup: &str, now: UnixTime) -> Result<BackupDescription, Error> {
    block_on(engine.create_backup(CreateBackup { table: name("data"), name: backup.to_owned() }, now))
}

fn restore_backup(engine: &Engine, arn: &str, target: &str) -> Result<TableDescription, Error> {
    let request = RestoreTableFromBackup {
        backup: arn.to_owned(),
        target: name(target),
        overrides: RestoreOverrides::default(),
    };
    block_on(engine.restore_table_from_backup(request, NOW))
}

fn status(engine: &Engine, arn: &str) -> Result<BackupStatus, Error> {
    Ok(engine.describe_backup(&DescribeBackup { arn: arn.to_owned() })?.status)
}

fn listed(engine: &Engine, change: impl FnOnce(&mut ListBackups)) -> Vec<String> {
    let mut request =
        ListBackups { table: None, kinds: ALL.into(), from: None, before: None, limit: None, start: None };
    change(&mut request);
    engine.list_backups(&request).unwrap().backups.into_iter().map(|backup| backup.name).collect()
}

const ALL: [BackupKind; 2] = [BackupKind::User, BackupKind::System];

/// What a table or its index `by_city` holds: cities by `pk`.
fn cities(engine: &Engine, table: &str, index: bool) -> BTreeMap<String, String> {
    let text = |item: &Item, name: &str| item.get(name).and_then(AttributeValue::as_str).unwrap().to_owned();
    let mut found = BTreeMap::new();
    let mut start = None;
    loop {
        let request =
            Scan { index: index.then(|| IndexName::new("by_city").unwrap()), start, ..Scan::of(name(table)) };
        let page = engine.scan(&request).unwrap();
        for item in page.items.unwrap_or_default().iter().map(built) {
            found.insert(text(&item, "pk"), text(&item, "city"));
        }
        start = page.last_key;
        if start.is_none() {
            return found;
        }
    }
}

/// The table, its index and its counters all say this.
#[track_caller]
fn check<const N: usize>(engine: &Engine, table: &str, expected: [(&str, &str); N]) {
    let expected: BTreeMap<String, String> =
        expected.into_iter().map(|(pk, city)| (pk.to_owned(), city.to_owned())).collect();
    check_map(engine, table, &expected);
}

#[track_caller]
fn check_map(engine: &Engine, table: &str, expected: &BTreeMap<String, String>) {
    assert_eq!(&cities(engine, table, false), expected);
    assert_eq!(&cities(engine, table, true), expected);
    let description = engine.describe_table(&DescribeTable { table: name(table) }).unwrap();
    assert_eq!(description.status, TableStatus::Active);
    assert_eq!(description.item_count, expected.len() as i64);
    assert_eq!(description.indexes[0].item_count, expected.len() as i64);
    let bytes: usize = expected.iter().map(|(pk, city)| 2 + pk.len() + 4 + city.len()).sum();
    assert_eq!(description.bytes, bytes as i64);
}

fn database() -> Engine {
    let engine = Engine::memory().unwrap();
    create(&engine, true);
    recovery(&engine, true, None, NOW).unwrap();
    engine
}

fn fill(engine: &Engine, count: usize, now: UnixTime) {
    let write = |n: usize| BatchWrite::Put(item([("pk", &*format!("k{n:05}")), ("city", "Lund")]));
    let writes: Vec<BatchWrite> = (0..count).map(write).collect();
    for writes in writes.chunks(500) {
        let request = BatchWriteItem {
            tables: vec![(name("data"), writes.to_vec())],
            capacity: ReturnCapacity::None,
            collection_metrics: false,
        };
        block_on(engine.batch_write_item(request, now)).unwrap();
    }
}

#[test]
fn a_restored_table_has_every_change_up_to_its_moment_and_none_after() {
    let engine = database();
    put_at(&engine, "a", "Malmö", at(1000));
    put_at(&engine, "b", "Malmö", at(2000));
    put_at(&engine, "a", "Lund", at(3000));
    delete_at(&engine, "b", at(4000));
    put_at(&engine, "b", "Ystad", at(5000));
    for (table, moment) in [
        ("at-0", at(999)),
        ("at-1", at(1000)),
        ("at-2", at(2999)),
        ("at-3", at(3000)),
        ("at-4", at(4999)),
        ("at-5", at(5000)),
    ] {
        restore(&engine, table, moment, at(6000)).unwrap();
    }
    work(&engine, at(6000));
    check(&engine, "at-0", []);
    check(&engine, "at-1", [("a", "Malmö")]);
    check(&engine, "at-2", [("a", "Malmö"), ("b", "Malmö")]);
    check(&engine, "at-3", [("a", "Lund"), ("b", "Malmö")]);
    check(&engine, "at-4", [("a", "Lund")]);
    check(&engine, "at-5", [("a", "Lund"), ("b", "Ystad")]);
}

#[test]
fn l8_a_table_is_restored_to_a_moment_before_an_accidental_delete() {
    let engine = database();
    fill(&engine, 300, days(1));
    let before = cities(&engine, "data", false);
    for pk in before.keys() {
        delete_at(&engine, pk, days(2));
    }
    work(&engine, days(2));
    check(&engine, "data", []);
    let noticed = days(30);
    work(&engine, noticed);
    restore(&engine, "saved", UnixTime::from_millis(days(2).millis() - 1), noticed).unwrap();
    work(&engine, noticed);
    check_map(&engine, "saved", &before);
}

#[test]
fn what_is_written_after_a_restore_is_asked_for_is_not_in_it() {
    let engine = database();
    put_at(&engine, "a", "Malmö", at(1));
    let made = restore(&engine, "latest", None, at(1)).unwrap();
    assert_eq!(made.restored.unwrap().at, at(1));
    // The clock stands still, or even falls.
    put_at(&engine, "a", "Lund", at(1));
    put_at(&engine, "b", "Lund", at(0));
    work(&engine, at(1));
    check(&engine, "latest", [("a", "Malmö")]);
    restore(&engine, "later", None, at(1)).unwrap();
    work(&engine, at(1));
    check(&engine, "later", [("a", "Lund"), ("b", "Lund")]);
}

#[test]
fn writers_go_on_while_a_copy_is_made() {
    let engine = database();
    fill(&engine, 2500, at(10));
    let before = cities(&engine, "data", false);
    restore(&engine, "past", at(10), at(20)).unwrap();
    let arn = backup(&engine, "same", at(20)).unwrap().arn;
    for step in 0..40 {
        let now = at(30 + step);
        for n in (0..2500).step_by(97) {
            match (n + step) % 3 {
                0 => put_at(&engine, &format!("k{n:05}"), "Ystad", now),
                1 => delete_at(&engine, &format!("k{n:05}"), now),
                _ => put_at(&engine, &format!("new{n}-{step}"), "Kivik", now),
            }
        }
        engine.work(now, Duration::ZERO).unwrap();
    }
    work(&engine, at(100));
    assert_eq!(status(&engine, &arn).unwrap(), BackupStatus::Available);
    restore_backup(&engine, &arn, "from-backup").unwrap();
    work(&engine, at(100));
    check_map(&engine, "past", &before);
    check_map(&engine, "from-backup", &before);
    assert_ne!(cities(&engine, "data", false), before);
}

#[test]
fn a_table_cannot_be_used_or_changed_before_it_is_whole() {
    let engine = database();
    fill(&engine, 1500, at(1));
    let made = restore(&engine, "copy", None, at(2)).unwrap();
    assert_eq!(made.status, TableStatus::Creating);
    assert!(made.restored.unwrap().in_progress);
    engine.work(at(2), Duration::ZERO).unwrap();

    let describe = || engine.describe_table(&DescribeTable { table: name("copy") }).unwrap();
    assert_eq!(describe().status, TableStatus::Creating);
    assert_eq!(describe().indexes[0].status, IndexStatus::Creating { backfilling: false });
    // How far it came can be seen.
    assert_eq!(describe().item_count, 1000);
    let get = GetItem {
        table: name("copy"),
        key: key("k00001"),
        projection: None,
        consistent: true,
        capacity: ReturnCapacity::None,
    };
    assert_eq!(code(engine.get_item(&get)), "ResourceNotFoundException");
    let switch = || {
        let request = UpdateTimeToLive { table: name("copy"), attribute: "ttl".into(), enabled: true };
        block_on(engine.update_time_to_live(request))
    };
    assert_eq!(code(switch()), "ResourceInUseException");
    let delete = |table: &str| block_on(engine.delete_table(DeleteTable { table: name(table) }, at(3)));
    assert_eq!(code(delete("copy")), "ResourceInUseException");
    // What it is made from stays too.
    assert_eq!(code(delete("data")), "ResourceInUseException");
    assert_eq!(code(restore(&engine, "copy", None, at(3))), "TableInUseException");
    let request = UpdateContinuousBackups { table: name("copy"), enabled: true, days: None };
    assert_eq!(
        code(block_on(engine.update_continuous_backups(request, at(3)))),
        "ContinuousBackupsUnavailableException"
    );

    work(&engine, at(3));
    assert_eq!(describe().status, TableStatus::Active);
    assert!(!describe().restored.unwrap().in_progress);
    assert!(engine.get_item(&get).unwrap().item.is_some());
    switch().unwrap();
    delete("data").unwrap();
    delete("copy").unwrap();
}

#[test]
fn a_moment_outside_the_window_is_refused() {
    let engine = Engine::memory().unwrap();
    create(&engine, true);
    assert_eq!(code(restore(&engine, "copy", NOW, NOW)), "PointInTimeRecoveryUnavailableException");
    recovery(&engine, true, Some(2), at(500)).unwrap();
    assert_eq!(window(&engine, at(1500)), Some((at(1000), at(1000))));
    assert_eq!(code(restore(&engine, "copy", at(499), at(600))), "InvalidRestoreTimeException");
    assert_eq!(code(restore(&engine, "copy", at(700), at(600))), "InvalidRestoreTimeException");
    assert_eq!(code(restore(&engine, "data", at(600), at(600))), "TableAlreadyExistsException");
    restore(&engine, "copy", at(500), at(600)).unwrap();
    let mut request = RestoreTableToPointInTime {
        source: name("nothing"),
        target: name("copy-2"),
        at: None,
        overrides: RestoreOverrides::default(),
    };
    assert_eq!(
        code(block_on(engine.restore_table_to_point_in_time(request.clone(), NOW))),
        "TableNotFoundException"
    );
    request.source = name("data");

    // The window moves on.
    assert_eq!(window(&engine, days(10)), Some((days(8), days(10))));
    request.at = Some(UnixTime::from_millis(days(8).millis() - 1));
    assert_eq!(
        code(block_on(engine.restore_table_to_point_in_time(request, days(10)))),
        "InvalidRestoreTimeException"
    );
    // Longer again, it does not reach further back than it did; off, it forgets everything.
    recovery(&engine, true, Some(35), days(10)).unwrap();
    assert_eq!(window(&engine, days(10)), Some((days(8), days(10))));
    assert_eq!(window(&engine, days(20)), Some((days(8), days(20))));
    recovery(&engine, false, None, days(20)).unwrap();
    assert_eq!(window(&engine, days(20)), None);
    recovery(&engine, true, None, days(21)).unwrap();
    assert_eq!(window(&engine, days(22)), Some((days(21), days(22))));
}

#[test]
fn every_moment_of_the_window_can_be_had_after_the_log_was_trimmed() {
    let (store, engine) = stored();
    recovery(&engine, true, Some(1), NOW).unwrap();
    let minutes = |minutes: i64| at(minutes * 60_000);
    for n in 0..100 {
        put_at(&engine, "a", &n.to_string(), minutes(n * 60));
        work(&engine, minutes(n * 60));
    }
    let end = minutes(99 * 60);
    assert!(entries(&store, 0x20) <= 27, "a day, an hour more, and what is on its edges");
    let (earliest, latest) = window(&engine, end).unwrap();
    assert_eq!((earliest, latest), (minutes(75 * 60), end));
    for n in 75..100 {
        restore(&engine, &format!("past-{n}"), minutes(n * 60 + 30).min(end), end).unwrap();
    }
    work(&engine, end);
    for n in 75..100 {
        let expected = BTreeMap::from([("a".to_owned(), n.to_string())]);
        assert_eq!(cities(&engine, &format!("past-{n}"), false), expected);
    }
    // While it can be asked for no more, it goes.
    recovery(&engine, false, None, end).unwrap();
    work(&engine, UnixTime::from_seconds(end.seconds() + 2 * 24 * 60 * 60));
    assert_eq!(entries(&store, 0x20), 0);
}

#[test]
fn expired_items_are_there_before_they_expired() {
    let engine = database();
    let request = UpdateTimeToLive { table: name("data"), attribute: "ttl".into(), enabled: true };
    block_on(engine.update_time_to_live(request)).unwrap();
    let mut short_lived = item([("pk", "a"), ("city", "Malmö")]);
    short_lived.insert("ttl", NOW.seconds() + 5);
    let request = PutItem { table: name("data"), item: short_lived, options: WriteOptions::default() };
    block_on(engine.put_item(request, at(1000))).unwrap();
    assert_eq!(work(&engine, at(8000)), 1);
    restore(&engine, "before", at(7999), at(9000)).unwrap();
    restore(&engine, "after", at(8000), at(9000)).unwrap();
    // A restored table has no TTL, so the item stays.
    assert_eq!(work(&engine, at(9000)), 0);
    assert_eq!(cities(&engine, "before", true).len(), 1);
    check(&engine, "after", []);
}

#[test]
fn a_restored_table_takes_over_keys_indexes_and_billing_alone() {
    let engine = Engine::memory().unwrap();
    let local = NewIndex {
        name: IndexName::new("by_year").unwrap(),
        key: vec![partition("pk"), KeyElement { name: "year".into(), role: KeyRole::Sort }],
        projection: Some(ProjectionSpecification {
            kind: Some(ProjectionKind::Include),
            names: Some(vec!["city".into()]),
        }),
        throughput: None,
        on_demand_limits: None,
    };
    let request = CreateTable {
        table: name("data"),
        attributes: vec![
            ("pk".into(), KeyType::S),
            ("sk".into(), KeyType::S),
            ("city".into(), KeyType::S),
            ("year".into(), KeyType::N),
        ],
        key: vec![partition("pk"), KeyElement { name: "sk".into(), role: KeyRole::Sort }],
        local_indexes: Some(vec![local.clone()]),
        global_indexes: Some(vec![NewIndex {
            throughput: Some(Throughput { read: 3, write: 4 }),
            ..by_city()
        }]),
        billing_mode: None,
        throughput: Some(Throughput { read: 5, write: 6 }),
        on_demand_limits: None,
        stream: Some(StreamSpecification { enabled: true, view: Some(larder_model::StreamView::KeysOnly) }),
        encryption: None,
        class: Some(larder_model::TableClass::StandardInfrequentAccess),
        deletion_protection: Some(true),
        tags: vec![("team".into(), "lunch".into())],
        policy: None,
    };
    block_on(engine.create_table(request, NOW)).unwrap();
    recovery(&engine, true, None, NOW).unwrap();
    let source = describe(&engine).definition;
    let made = restore(&engine, "same", None, at(1)).unwrap().definition;
    assert_eq!((&made.key, &made.indexes, made.billing), (&source.key, &source.indexes, source.billing));
    assert_eq!((&made.attributes, made.class), (&source.attributes, source.class));
    assert_eq!((made.stream, made.deletion_protection, made.tags.len()), (None, false, 0));

    let overrides = RestoreOverrides {
        billing_mode: Some(BillingMode::OnDemand),
        global_indexes: Some(Vec::new()),
        local_indexes: Some(vec![local.clone()]),
        encryption: Some(EncryptionSpecification { enabled: Some(true), kms: true, kms_key: None }),
        ..RestoreOverrides::default()
    };
    let made = restore_with(&engine, "other", None, overrides, at(2)).unwrap().definition;
    assert_eq!(made.billing, larder_model::Billing::OnDemand);
    assert_eq!(made.indexes, source.indexes[..1]);
    assert!(made.attribute("city").is_none() && made.attribute("year").is_some());
    assert!(made.encryption.is_none(), "the store has no key, and does not say that it encrypts");

    let units = Throughput { read: 7, write: 8 };
    let overrides = RestoreOverrides {
        throughput: Some(units),
        global_indexes: Some(vec![NewIndex { throughput: Some(units), ..by_city() }]),
        ..RestoreOverrides::default()
    };
    let made = restore_with(&engine, "larger", None, overrides, at(2)).unwrap().definition;
    assert_eq!(made.billing, larder_model::Billing::Provisioned(units));
    assert_eq!(made.index("by_city").unwrap().throughput, units);

    for wrong in [
        NewIndex { name: IndexName::new("by_name").unwrap(), ..by_city() },
        NewIndex { key: vec![partition("pk")], ..by_city() },
        NewIndex {
            projection: Some(ProjectionSpecification { kind: Some(ProjectionKind::KeysOnly), names: None }),
            ..by_city()
        },
    ] {
        let overrides = RestoreOverrides { global_indexes: Some(vec![wrong]), ..RestoreOverrides::default() };
        assert_eq!(code(restore_with(&engine, "wrong", None, overrides, at(3))), "ValidationException");
    }
    work(&engine, at(3));
}

#[test]
fn a_backup_is_its_table_when_it_was_asked_for() {
    let engine = Engine::memory().unwrap();
    create(&engine, true);
    put_at(&engine, "a", "Malmö", at(1));
    put_at(&engine, "b", "Malmö", at(1));
    let made = backup(&engine, "first", at(2)).unwrap();
    assert_eq!((made.status, made.kind), (BackupStatus::Creating, BackupKind::User));
    assert_eq!((made.item_count, made.created, made.expires), (2, at(2), None));
    put_at(&engine, "a", "Lund", at(2));
    delete_at(&engine, "b", at(3));
    put_at(&engine, "c", "Ystad", at(3));
    assert_eq!(code(restore_backup(&engine, &made.arn, "early")), "BackupInUseException");
    let delete = |arn: &str| block_on(engine.delete_backup(DeleteBackup { arn: arn.to_owned() }));
    assert_eq!(code(delete(&made.arn)), "BackupInUseException");
    work(&engine, at(4));
    assert_eq!(status(&engine, &made.arn).unwrap(), BackupStatus::Available);
    put_at(&engine, "d", "Ystad", at(5));

    let restored = restore_backup(&engine, &made.arn, "restored").unwrap();
    let summary = restored.restored.unwrap();
    assert_eq!((summary.backup_arn, summary.at), (Some(made.arn.clone()), at(2)));
    assert_eq!(code(delete(&made.arn)), "BackupInUseException");
    assert_eq!(code(restore_backup(&engine, &made.arn, "data")), "TableAlreadyExistsException");
    work(&engine, at(6));
    check(&engine, "restored", [("a", "Malmö"), ("b", "Malmö")]);

    assert_eq!(delete(&made.arn).unwrap().status, BackupStatus::Deleted);
    for refused in [delete(&made.arn).map(drop), status(&engine, &made.arn).map(drop)] {
        assert_eq!(code(refused), "BackupNotFoundException");
    }
    assert_eq!(code(restore_backup(&engine, &made.arn, "again")), "BackupNotFoundException");
    let unknown = CreateBackup { table: name("nothing"), name: "nothing".into() };
    assert_eq!(code(block_on(engine.create_backup(unknown, NOW))), "TableNotFoundException");
}

#[test]
fn a_deleted_backup_leaves_nothing_behind() {
    let (store, engine) = stored();
    fill(&engine, 1200, at(1));
    let counts =
        || (entries(&store, 0x03), entries(&store, 0x07), entries(&store, 0x08), entries(&store, 0x10));
    work(&engine, at(1));
    let before = counts();
    let arn = backup(&engine, "one", at(2)).unwrap().arn;
    engine.work(at(2), Duration::ZERO).unwrap();
    assert_eq!(entries(&store, 0x08), 1);
    work(&engine, at(2));
    assert_eq!(counts(), (before.0 + 1, 1, 0, before.3 + 1200));
    block_on(engine.delete_backup(DeleteBackup { arn })).unwrap();
    work(&engine, at(3));
    assert_eq!(counts(), before);
}

#[test]
fn backups_are_listed_by_table_kind_and_time_page_by_page() {
    let engine = database();
    for (backup_name, millis) in [("one", 10), ("two", 20), ("two", 30)] {
        backup(&engine, backup_name, at(millis)).unwrap();
    }
    work(&engine, at(40));
    block_on(engine.delete_table(DeleteTable { table: name("data") }, at(40))).unwrap();
    let system = "data$DeletedTableBackup";
    assert_eq!(listed(&engine, |_| ()), ["one", "two", "two", system]);
    assert_eq!(listed(&engine, |request| request.kinds = vec![BackupKind::System]), [system]);
    assert_eq!(listed(&engine, |request| request.table = Some(name("nothing"))), [""; 0]);
    assert_eq!(listed(&engine, |request| request.table = Some(name("data"))).len(), 4);
    assert_eq!(listed(&engine, |request| request.from = Some(at(30))), ["two", system]);
    assert_eq!(listed(&engine, |request| request.before = Some(at(20))), ["one"]);
    let mut request =
        ListBackups { table: None, kinds: ALL.into(), from: None, before: None, limit: Some(3), start: None };
    let first = engine.list_backups(&request).unwrap();
    assert_eq!(first.last.as_ref(), first.backups.last().map(|backup| &backup.arn));
    request.start = first.last;
    let second = engine.list_backups(&request).unwrap();
    assert_eq!((second.backups.len(), second.last), (1, None));
}

#[test]
fn t10_a_deleted_table_can_be_restored_for_35_days() {
    let (store, engine) = stored();
    recovery(&engine, true, None, NOW).unwrap();
    put_at(&engine, "a", "Malmö", at(1));
    put_at(&engine, "b", "Lund", at(1));
    block_on(engine.delete_table(DeleteTable { table: name("data") }, at(2))).unwrap();
    work(&engine, at(3));
    assert_eq!(entries(&store, 0x10), 2, "the items stay, their index entries do not");
    let request = ListBackups {
        table: None,
        kinds: vec![BackupKind::System],
        from: None,
        before: None,
        limit: None,
        start: None,
    };
    let found = engine.list_backups(&request).unwrap().backups.remove(0);
    assert_eq!((found.status, found.item_count), (BackupStatus::Available, 2));
    assert_eq!(found.expires, Some(UnixTime::from_millis(days(35).millis() + 2)));
    // Under its own name, beside a new table's backup, or under another.
    restore_backup(&engine, &found.arn, "data").unwrap();
    work(&engine, at(4));
    check(&engine, "data", [("a", "Malmö"), ("b", "Lund")]);
    work(&engine, days(35));
    assert_eq!(listed(&engine, |_| ()).len(), 1);
    work(&engine, days(36));
    assert_eq!(listed(&engine, |_| ()).len(), 0);
    assert_eq!(entries(&store, 0x10), 4);
    check(&engine, "data", [("a", "Malmö"), ("b", "Lund")]);
}

#[test]
fn a_table_without_recovery_is_gone_when_it_is_deleted() {
    let (store, engine) = stored();
    put_at(&engine, "a", "Malmö", at(1));
    block_on(engine.delete_table(DeleteTable { table: name("data") }, at(2))).unwrap();
    work(&engine, at(3));
    assert_eq!((listed(&engine, |_| ()).len(), entries(&store, 0x10), entries(&store, 0x03)), (0, 0, 0));
}

/// A database and a look at the bytes below it.
fn stored() -> (Store, Engine) {
    let store = Store::memory(Options::default()).unwrap();
    let engine = Engine::on_store(store.clone()).unwrap();
    create(&engine, true);
    (store, engine)
}

/// How many entries begin with this byte.
fn entries(store: &Store, kind: u8) -> usize {
    store.snapshot().range(Bound::Included(&[kind]), Bound::Excluded(&[kind + 1])).unwrap().count()
}

#[test]
fn errors_name_what_they_are_about() {
    let engine = database();
    let error = restore(&engine, "data", at(0), at(1)).map(drop).map_err(ApiError::from).unwrap_err();
    assert_eq!(error.to_string(), "Table already exists: data");
}

/// The bytes of an item make no sense.
#[test]
fn a_copy_that_cannot_go_on_holds_up_no_other() {
    let options = Options { log_bytes: 64 << 10, ..Options::default() };
    let disk = FaultyDisk::default();
    let engine = Engine::on_store(Store::on_disk(disk.clone(), options).unwrap()).unwrap();
    for table in ["bad", "data"] {
        create_named(&engine, table);
        let item = item([("pk", "a"), ("city", &format!("a city of {table}"))]);
        let request = PutItem { table: name(table), item, options: WriteOptions::default() };
        block_on(engine.put_item(request, NOW)).unwrap();
    }
    engine.close().unwrap();
    let store = Store::on_disk(disk, options).unwrap();
    spoil(&store, b"a city of bad");
    let engine = Engine::on_store(store).unwrap();
    let request = CreateBackup { table: name("bad"), name: "bad".to_owned() };
    let bad = block_on(engine.create_backup(request, at(1))).unwrap();
    let good = backup(&engine, "good", at(2)).unwrap();
    for _ in 0..10 {
        let _ = engine.work(at(3), Duration::ZERO);
    }
    assert_eq!(status(&engine, &bad.arn).unwrap(), BackupStatus::Creating);
    assert_eq!(status(&engine, &good.arn).unwrap(), BackupStatus::Available);

    let drop_table = |table: &str| block_on(engine.delete_table(DeleteTable { table: name(table) }, at(4)));
    assert_eq!(code(drop_table("bad")), "ResourceInUseException");
    // It will never be whole, so it may go, and then its table is free.
    block_on(engine.delete_backup(DeleteBackup { arn: bad.arn })).unwrap();
    drop_table("bad").unwrap();
    engine.work(at(5), Duration::ZERO).unwrap();
}

fn create_named(engine: &Engine, table: &str) {
    let request = CreateTable {
        table: name(table),
        attributes: vec![("pk".to_owned(), KeyType::S)],
        key: vec![partition("pk")],
        local_indexes: None,
        global_indexes: None,
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
    block_on(engine.create_table(request, NOW)).unwrap();
}
