//! What a client is told of the state it met.

use std::time::Duration;

use larder_engine::Engine;
use larder_model::Item;
use larder_sim::operation::{Action, Answer, Operation, Outcome, Requires, Write, perform};
use larder_sim::run::BEGINNING;
use larder_sim::schema::{Key, Place, create_table};
use larder_storage::faulty::{FaultyDisk, Lasting, Operation as DiskOperation};
use larder_storage::{Options, Store};

#[test]
fn a_failed_condition_rests_on_nothing_that_a_crash_can_undo() {
    let disk = FaultyDisk::default();
    let open = |disk: &FaultyDisk| {
        Engine::on_store(Store::on_disk(disk.clone(), Options::default()).unwrap()).unwrap()
    };
    let engine = open(&disk);
    pollster::block_on(engine.create_table(create_table(Place::Main), BEGINNING)).unwrap();

    let put_if_absent = Operation::Write(Write {
        place: Place::Main,
        key: Key("key".to_owned(), 1),
        action: Action::Put(Item::new()),
        condition: Some(Requires::Absent),
    });
    let put = |engine: &Engine| perform(engine, &put_if_absent, BEGINNING, Duration::ZERO).unwrap();
    disk.fail(DiskOperation::Sync, 0, Lasting::Forever);
    let first = put(&engine);
    assert!(matches!(first, Answer::Unknown(_)), "{first:?}");
    let second = put(&engine);

    let again = put(&open(&disk.crash(0)));
    let was_there = Answer::Known(Outcome::Refused("ConditionalCheckFailedException"));
    assert!(second != was_there || again == was_there, "told {second:?}, and after the crash {again:?}");
}
