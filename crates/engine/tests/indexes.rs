//! Indexes that are added and removed while a table is in use.

mod common;

use common::*;
use larder_engine::Engine;
use larder_engine::ops::{IndexChange, IndexStatus};
use larder_model::{AttributeValue, IndexName};

#[test]
fn a_new_index_gets_the_items_from_before() {
    let engine = Engine::memory().unwrap();
    create(&engine, false);
    for n in 0..2500 {
        put(&engine, item([("pk", &format!("{n:04}")), ("city", "Lund")])).unwrap();
    }
    change_indexes(&engine, IndexChange::Create(by_city()));
    assert_eq!(describe(&engine).indexes[0].status, IndexStatus::Creating { backfilling: true });
    assert_eq!(code(scan(&engine, Some("by_city"))), "ValidationException");

    // Writes in the middle of it: changed, removed and new items.
    engine.work(NOW, std::time::Duration::ZERO).unwrap();
    for n in (0..2500).step_by(2) {
        put(&engine, item([("pk", &format!("{n:04}")), ("city", "Ystad"), ("more", "x")])).unwrap();
    }
    for n in (0..2500).step_by(5) {
        delete(&engine, key(&format!("{n:04}")));
    }
    put(&engine, item([("pk", "new"), ("city", "Kivik")])).unwrap();
    work(&engine, NOW);

    assert_eq!(keys_in(&engine, Some("by_city")), keys_in(&engine, None));
    let description = describe(&engine);
    assert_eq!(description.indexes[0].status, IndexStatus::Active);
    assert_eq!(description.indexes[0].item_count, description.item_count);
    assert_eq!(description.indexes[0].bytes, description.bytes);
}

#[test]
fn items_that_cannot_be_in_an_index_stay_out_when_it_is_filled() {
    let engine = Engine::memory().unwrap();
    create(&engine, false);
    put(&engine, item([("pk", "good"), ("city", "Lund")])).unwrap();
    put(&engine, item([("pk", "missing")])).unwrap();
    put(&engine, item([("pk", "empty"), ("city", "")])).unwrap();
    put(&engine, item([("pk", "long"), ("city", &"x".repeat(2049))])).unwrap();
    let mut wrong = key("wrong type");
    wrong.insert("city", AttributeValue::from(5));
    put(&engine, wrong.clone()).unwrap();
    change_indexes(&engine, IndexChange::Create(by_city()));
    work(&engine, NOW);
    assert_eq!(keys_in(&engine, Some("by_city")), ["good"]);
    // Once there is an index, such items are refused.
    assert_eq!(code(put(&engine, wrong)), "ValidationException");
    assert_eq!(code(put(&engine, item([("pk", "empty"), ("city", "")]))), "ValidationException");
}

#[test]
fn a_dropped_index_is_gone_and_can_be_made_again() {
    let engine = Engine::memory().unwrap();
    create(&engine, true);
    put(&engine, item([("pk", "a"), ("city", "Lund")])).unwrap();
    change_indexes(&engine, IndexChange::Delete { name: IndexName::new("by_city").unwrap() });
    assert_eq!(code(scan(&engine, Some("by_city"))), "ValidationException");
    put(&engine, item([("pk", "a"), ("city", "Ystad")])).unwrap();
    change_indexes(&engine, IndexChange::Create(by_city()));
    work(&engine, NOW);
    assert_eq!(scan(&engine, Some("by_city")).unwrap(), [item([("pk", "a"), ("city", "Ystad")])]);
    assert_eq!(describe(&engine).indexes[0].item_count, 1);
}
