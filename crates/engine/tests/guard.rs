//! A guard is asked about every change to an item, knows what it was and will be, and a refusal changes nothing.

mod common;

use std::sync::Arc;

use common::*;
use larder_engine::ops::*;
use larder_engine::{Engine, Guard, Proposal, WriteKind};
use larder_model::ApiError;
use parking_lot::Mutex;
use pollster::block_on;

/// Remembers what it was asked, and refuses whatever would have an attribute `bad`.
#[derive(Debug, Default)]
struct Strict(Mutex<Vec<Asked>>);

/// The kind of write, and the city before and after it.
type Asked = (WriteKind, Option<String>, Option<String>);

impl Guard for Strict {
    fn judge(&self, write: &Proposal<'_>) -> Result<(), String> {
        assert_eq!((write.table.as_str(), write.now), ("data", NOW));
        let city = |item: Option<&larder_model::Item>| {
            item.map(|item| item.get("city").and_then(|city| city.as_str()).unwrap_or("-").to_owned())
        };
        self.0.lock().push((write.kind, city(write.before), city(write.after)));
        let is_bad = write.after.is_some_and(|item| item.contains("bad"));
        if is_bad { Err("it is bad".to_owned()) } else { Ok(()) }
    }
}

fn guarded() -> (Engine, Arc<Strict>) {
    let engine = Engine::memory().expect("memory is there");
    create(&engine, true);
    let guard = Arc::new(Strict::default());
    engine.set_guard(Some(Arc::clone(&guard) as Arc<dyn Guard>));
    (engine, guard)
}

fn items(engine: &Engine) -> usize {
    let table = DescribeTable { table: name("data") };
    engine.describe_table(&table).expect("it is there").item_count as usize
}

#[test]
fn it_is_asked_about_every_change_with_what_was_and_what_will_be() {
    let (engine, guard) = guarded();
    put(&engine, item([("pk", "a"), ("city", "Kyoto")])).expect("it is good");
    put(&engine, item([("pk", "a"), ("city", "Nara")])).expect("it is good");
    let writes = vec![BatchWrite::Put(item([("pk", "b")])), BatchWrite::Delete(key("a"))];
    let request = BatchWriteItem {
        tables: vec![(name("data"), writes)],
        capacity: ReturnCapacity::None,
        collection_metrics: false,
    };
    block_on(engine.batch_write_item(request, NOW)).expect("it is good");
    let update =
        UpdateItem { table: name("data"), key: key("b"), update: None, options: WriteOptions::default() };
    block_on(engine.update_item(update, NOW)).expect("it is good");
    delete(&engine, key("b"));
    let text = |text: &str| Some(text.to_owned());
    let asked = std::mem::take(&mut *guard.0.lock());
    assert_eq!(
        asked,
        [
            (WriteKind::Put, None, text("Kyoto")),
            (WriteKind::Put, text("Kyoto"), text("Nara")),
            (WriteKind::Put, None, text("-")),
            (WriteKind::Delete, text("Nara"), None),
            (WriteKind::Update, text("-"), text("-")),
            (WriteKind::Delete, text("-"), None),
        ]
    );
    engine.set_guard(None);
    put(&engine, item([("pk", "c"), ("bad", "yes")])).expect("nobody judges");
    assert!(guard.0.lock().is_empty());
}

#[test]
fn a_refusal_is_a_validation_error_and_changes_nothing() {
    let (engine, _) = guarded();
    let bad = || item([("pk", "b"), ("bad", "yes")]);
    let refusal = put(&engine, bad()).expect_err("it is bad");
    assert_eq!(ApiError::from(refusal), ApiError::validation("it is bad"));
    let writes = vec![BatchWrite::Put(item([("pk", "a")])), BatchWrite::Put(bad())];
    let request = BatchWriteItem {
        tables: vec![(name("data"), writes)],
        capacity: ReturnCapacity::None,
        collection_metrics: false,
    };
    let refusal = block_on(engine.batch_write_item(request, NOW)).expect_err("it is bad");
    assert_eq!(ApiError::from(refusal), ApiError::validation("it is bad"));
    let step = |item| TransactWrite {
        table: name("data"),
        action: TransactAction::Put { item },
        condition: None,
        return_old_on_failure: false,
    };
    let request = TransactWriteItems {
        writes: vec![step(item([("pk", "a")])), step(bad())],
        token: None,
        capacity: ReturnCapacity::None,
        collection_metrics: false,
    };
    let refusal = block_on(engine.transact_write_items(request, NOW)).expect_err("it is bad");
    match ApiError::from(refusal) {
        ApiError::TransactionCanceled { reasons } => {
            let told: Vec<_> =
                reasons.iter().map(|reason| (reason.code, reason.message.as_deref())).collect();
            assert_eq!(told, [("None", None), ("ValidationError", Some("it is bad"))]);
        }
        other => panic!("{other}"),
    }
    assert_eq!(items(&engine), 0);
}
