//! A change of the catalog is made whole, or leaves no trace.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod common;

use common::{NOW, create, name};
use larder_engine::Engine;
use larder_engine::ops::*;
use larder_storage::{Batch, Options, Store};
use pollster::block_on;

fn protect() -> UpdateTable {
    UpdateTable {
        table: name("data"),
        attributes: Vec::new(),
        billing_mode: None,
        throughput: None,
        on_demand_limits: None,
        index_changes: None,
        stream: None,
        encryption: None,
        class: None,
        deletion_protection: Some(true),
    }
}

/// The counters of the first table's items.
fn counters() -> Vec<u8> {
    [&[0x03][..], &1u32.to_be_bytes(), &0u16.to_be_bytes()].concat()
}

#[test]
fn a_change_that_cannot_be_described_is_not_made() {
    let store = Store::memory(Options::default()).unwrap();
    let engine = Engine::on_store(store.clone()).unwrap();
    create(&engine, false);
    let mut batch = Batch::default();
    batch.put(counters(), b"no counters".to_vec());
    store.write(batch).unwrap();

    block_on(engine.update_table(protect(), NOW)).unwrap_err();
    // Nothing protects it, and it can go although nobody knows how large it is.
    block_on(engine.delete_table(DeleteTable { table: name("data") }, NOW)).unwrap();
}
