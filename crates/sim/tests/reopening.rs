//! The disk fails so badly that the store cannot even be opened anew, and then works again.

use std::thread;
use std::time::{Duration, Instant};

use larder_sim::gate::GatedDisk;
use larder_storage::faulty::{FaultyDisk, Lasting, Operation};
use larder_storage::{Batch, Options, Store};

#[test]
fn reads_go_on_without_a_write_to_wake_the_store() {
    const PATIENCE: Duration = Duration::from_secs(3);
    let faulty = FaultyDisk::default();
    let disk = GatedDisk::new(faulty.clone());
    // Without a cache, so that reads reach the disk.
    let options = Options { cache_bytes: 0, log_bytes: 64 << 10, ..Options::default() };
    let store = Store::on_disk(disk.clone(), options).unwrap();
    let entries = |number: u32| {
        let mut batch = Batch::default();
        batch.put(number.to_be_bytes().to_vec(), vec![7; 100]);
        batch
    };
    // More than one page, so that a read cannot do with the root that the snapshot holds.
    for number in 0..200 {
        store.write(entries(number)).unwrap();
    }

    disk.shut();
    let held = store.submit(entries(1000), store.generation()).unwrap();
    assert!(disk.wait_for_sync());
    faulty.fail(Operation::Sync, 0, Lasting::Once);
    disk.set_readable(false);
    disk.open();
    held.wait().unwrap_err();
    disk.set_readable(true);

    let begun = Instant::now();
    loop {
        match store.snapshot().get(&7u32.to_be_bytes()) {
            Ok(found) => return assert!(found.is_some()),
            Err(error) => assert!(begun.elapsed() < PATIENCE, "{error}"),
        }
        thread::yield_now();
    }
}
