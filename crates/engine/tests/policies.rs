//! What is kept of resource policies, and for how long.

#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::*;
use larder_engine::ops::*;
use larder_engine::{Engine, Error, ops};
use larder_model::{StreamView, UnixTime};
use larder_storage::Options;
use pollster::block_on;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn table() -> Governed {
    Governed::Table(name("data"))
}

fn put_policy(engine: &Engine, resource: &Governed, text: &str) -> Result<String, Error> {
    let request = PutResourcePolicy { resource: resource.clone(), policy: text.into(), expected: None };
    block_on(engine.put_resource_policy(request, NOW))
}

fn policy(engine: &Engine, resource: &Governed, now: UnixTime) -> Result<Arc<ResourcePolicy>, Error> {
    engine.get_resource_policy(&ops::GetResourcePolicy { resource: resource.clone() }, now)
}

fn switch_stream(engine: &Engine, view: Option<StreamView>, now: UnixTime) {
    let request = UpdateTable {
        table: name("data"),
        attributes: Vec::new(),
        billing_mode: None,
        throughput: None,
        on_demand_limits: None,
        index_changes: None,
        stream: Some(StreamSpecification { enabled: view.is_some(), view }),
        encryption: None,
        class: None,
        deletion_protection: None,
    };
    block_on(engine.update_table(request, now)).unwrap();
}

fn stream(engine: &Engine) -> StreamId {
    StreamId { table: name("data"), label: describe(engine).stream_label.unwrap() }
}

#[test]
fn policies_are_there_when_a_store_is_opened_again() {
    let dir = tempfile::tempdir().unwrap();
    let open = || Engine::open(dir.path(), Options::default()).unwrap();
    let engine = open();
    create(&engine, false);
    switch_stream(&engine, Some(StreamView::KeysOnly), NOW);
    let of_stream = Governed::Stream(stream(&engine));
    let revision = put_policy(&engine, &table(), "of the table").unwrap();
    put_policy(&engine, &of_stream, "of the stream").unwrap();
    // What changes the table keeps them.
    change_indexes(&engine, IndexChange::Create(by_city()));
    engine.close().unwrap();
    drop(engine);

    let engine = open();
    let kept = policy(&engine, &table(), NOW).unwrap();
    assert_eq!((kept.text(), kept.revision()), ("of the table", revision.as_str()));
    assert_eq!(policy(&engine, &of_stream, NOW).unwrap().text(), "of the stream");
    assert_eq!(engine.table_policy(&name("data")).unwrap().unwrap().text(), "of the table");
    let delete = DeleteResourcePolicy { resource: table(), expected: Some(revision.clone()) };
    assert_eq!(block_on(engine.delete_resource_policy(delete, NOW)).unwrap(), Some(revision));
    engine.close().unwrap();
    drop(engine);
    let engine = open();
    assert_eq!(code(policy(&engine, &table(), NOW)), "PolicyNotFoundException");
    assert_eq!(policy(&engine, &of_stream, NOW).unwrap().text(), "of the stream");
}

#[test]
fn a_stream_s_policy_stays_until_the_stream_cannot_be_read() {
    let engine = Engine::memory().unwrap();
    create(&engine, false);
    switch_stream(&engine, Some(StreamView::KeysOnly), NOW);
    let first = stream(&engine);
    put_policy(&engine, &Governed::Stream(first.clone()), "first").unwrap();
    put_policy(&engine, &table(), "of the table").unwrap();
    switch_stream(&engine, None, NOW);
    switch_stream(&engine, Some(StreamView::KeysOnly), NOW);
    let second = stream(&engine);
    assert_ne!(first, second);
    let of = |stream: &StreamId| engine.stream_policy(stream).unwrap().map(|kept| kept.text().to_owned());
    assert_eq!((of(&first).as_deref(), of(&second)), (Some("first"), None));
    assert_eq!(code(policy(&engine, &Governed::Stream(second), NOW)), "PolicyNotFoundException");

    block_on(engine.delete_table(ops::DeleteTable { table: name("data") }, NOW)).unwrap();
    assert!(engine.table_policy(&name("data")).unwrap().is_none());
    assert_eq!(of(&first).as_deref(), Some("first"), "the stream can be read for a day");
    // A table of the same name has neither.
    create(&engine, false);
    assert_eq!(of(&first).as_deref(), Some("first"));
    assert_eq!(code(policy(&engine, &table(), NOW)), "PolicyNotFoundException");
    let later = NOW.plus(DAY + DAY);
    assert_eq!(code(policy(&engine, &Governed::Stream(first), later)), "ResourceNotFoundException");
}

#[test]
fn a_restored_table_begins_without_a_policy() {
    let engine = Engine::memory().unwrap();
    create(&engine, false);
    put_policy(&engine, &table(), "of the table").unwrap();
    let backup = CreateBackup { table: name("data"), name: "nightly".into() };
    let backup = block_on(engine.create_backup(backup, NOW)).unwrap();
    work(&engine, NOW);
    let restore = RestoreTableFromBackup {
        backup: backup.arn,
        target: name("copy"),
        overrides: RestoreOverrides::default(),
    };
    block_on(engine.restore_table_from_backup(restore, NOW)).unwrap();
    work(&engine, NOW);
    assert_eq!(code(policy(&engine, &Governed::Table(name("copy")), NOW)), "PolicyNotFoundException");
    assert_eq!(policy(&engine, &table(), NOW).unwrap().text(), "of the table");
}
