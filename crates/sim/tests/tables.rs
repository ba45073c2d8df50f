//! Tables come, change and go while they are written to, and nothing that was answered is lost.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use larder_engine::Engine;
use larder_engine::ops::{
    CreateTable, DeleteTable, DescribeTable, GetItem, PutItem, ReturnCapacity, UpdateTable, WriteOptions,
};
use larder_model::TableName;
use larder_sim::budget::{points, seeds};
use larder_sim::observe::finish_work;
use larder_sim::random::Random;
use larder_sim::run::{BEGINNING, Fault, Plan};
use larder_sim::schema::{GROUP, Key, Place, RANK, add_extra_index, create_table, drop_extra_index};
use larder_sim::tables::{Report, run};
use larder_storage::faulty::{FaultyDisk, Operation};
use larder_storage::{Options, Store};
use pollster::block_on;

fn check(plan: Plan) -> Report {
    run(plan).unwrap_or_else(|failure| panic!("{failure}"))
}

#[test]
fn what_is_asked_at_once_happens_in_order_or_is_refused_whole() {
    let mut busy = 0;
    for seed in seeds(40) {
        busy += check(Plan { seed, steps: 150, fault: Fault::None }).busy;
    }
    assert!(busy > 0, "no request found the queue full");
}

#[test]
fn what_was_answered_survives_a_crash_at_every_step() {
    for seed in seeds(2) {
        let plan = Plan { seed, steps: 60, fault: Fault::None };
        for after in points(check(plan).changes) {
            check(Plan { fault: Fault::PowerLoss { after }, ..plan });
        }
    }
}

#[test]
fn the_catalog_goes_on_after_one_failed_change_of_the_disk_at_every_step() {
    for seed in seeds(2) {
        let plan = Plan { seed, steps: 60, fault: Fault::None };
        for after in points(check(plan).changes) {
            check(Plan { fault: Fault::Error { operation: Operation::Change, after }, ..plan });
        }
    }
}

#[test]
fn the_catalog_goes_on_after_one_failed_read() {
    for seed in seeds(16) {
        let fault = Fault::Error { operation: Operation::Read, after: Random::new(seed).below(60) };
        check(Plan { seed, steps: 100, fault });
    }
}

/// A put that was answered, and the table it was put into, as it was before and after.
struct Kept {
    table: TableName,
    id: [u8; 16],
    key: String,
}

#[test]
fn no_write_that_was_answered_is_lost_while_tables_come_and_go() {
    const WRITERS: u64 = 3;
    const PUTS: u64 = 120;
    for seed in seeds(4) {
        let disk = FaultyDisk::default();
        // A table that is dropped with all the puts in it is cleared in one batch, which the queue must take.
        let queue_bytes = (WRITERS * PUTS) as usize * 128;
        let options = || Options { log_bytes: 16 << 10, queue_bytes, ..Options::default() };
        let open = |disk: FaultyDisk| Engine::on_store(Store::on_disk(disk, options()).unwrap()).unwrap();
        let engine = open(disk.clone());
        let tables: Vec<TableName> = (0..3).map(|n| TableName::new(format!("table-{n}")).unwrap()).collect();
        let done = AtomicBool::new(false);
        let id_of = |engine: &Engine, table: &TableName| {
            engine.describe_table(&DescribeTable { table: table.clone() }).ok().map(|table| table.id)
        };
        let kept: Vec<Kept> = thread::scope(|scope| {
            let writers: Vec<_> = (0..WRITERS)
                .map(|writer| {
                    let (engine, tables) = (&engine, &tables);
                    scope.spawn(move || {
                        let mut random = Random::new(seed * WRITERS + writer);
                        let mut kept = Vec::new();
                        for n in 0..PUTS {
                            let table = random.pick(tables).clone();
                            let key = format!("{writer}-{n}");
                            let mut item = Key(key.clone(), 1).attributes();
                            item.insert(GROUP, "g");
                            item.insert(RANK, 1);
                            let before = id_of(engine, &table);
                            let options = WriteOptions::default();
                            let put = PutItem { table: table.clone(), item, options };
                            let put = block_on(engine.put_item(put, BEGINNING));
                            if let (Ok(_), Some(id)) = (put, before)
                                && id_of(engine, &table) == Some(id)
                            {
                                kept.push(Kept { table, id, key });
                            }
                        }
                        kept
                    })
                })
                .collect();
            // Refusals are part of it: too much waits, a table is there or not, an index is being made.
            scope.spawn(|| {
                let mut random = Random::new(!seed);
                while !done.load(Ordering::Relaxed) {
                    let table = random.pick(&tables).clone();
                    match random.below(8) {
                        0..3 => {
                            let request = CreateTable { table, ..create_table(Place::Second) };
                            drop(block_on(engine.create_table(request, BEGINNING)));
                        }
                        3 => drop(block_on(engine.delete_table(DeleteTable { table }, BEGINNING))),
                        4 => {
                            let request = UpdateTable { table, ..add_extra_index() };
                            drop(block_on(engine.update_table(request, BEGINNING)));
                        }
                        5 => {
                            let request = UpdateTable { table, ..drop_extra_index() };
                            drop(block_on(engine.update_table(request, BEGINNING)));
                        }
                        _ => drop(engine.work(BEGINNING, Duration::ZERO)),
                    }
                }
            });
            let kept = writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect();
            done.store(true, Ordering::Relaxed);
            kept
        });
        let check = |engine: &Engine| {
            for Kept { table, id, key } in &kept {
                if id_of(engine, table) != Some(*id) {
                    continue;
                }
                let get = GetItem {
                    table: table.clone(),
                    key: Key(key.clone(), 1).attributes(),
                    projection: None,
                    consistent: true,
                    capacity: ReturnCapacity::None,
                };
                assert!(engine.get_item(&get).unwrap().item.is_some(), "seed {seed}: {key} is lost");
            }
            finish_work(engine).unwrap();
            assert_eq!(engine.verify(BEGINNING, |_| {}).unwrap().problems, [""; 0], "seed {seed}");
        };
        check(&engine);
        check(&open(disk.crash(0)));
    }
}
