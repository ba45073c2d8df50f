//! Tables and indexes change while other requests wait for the disk.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use larder_engine::ops::{
    DeleteItem, DeleteTable, DescribeTable, IndexStatus, PutItem, TableDescription, TagResource, WriteOptions,
};
use larder_engine::{Engine, Error};
use larder_model::{Item, UnixTime};
use larder_sim::gate::GatedDisk;
use larder_sim::observe::{Observed, Trouble, finish_work, observe};
use larder_sim::run::BEGINNING;
use larder_sim::schema::{GROUP, Key, Place, RANK, add_extra_index, create_table, drop_extra_index};
use larder_storage::faulty::{FaultyDisk, Lasting, Operation};
use larder_storage::{Options, Store};
use pollster::block_on;

type Asked<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + 'a>>;

/// An engine with both tables, on a disk that can be held up and made to fail.
struct Fixture {
    faulty: FaultyDisk,
    disk: GatedDisk,
    engine: Engine,
}

impl Fixture {
    fn new() -> Self {
        Self::with_queue(Options::default().queue_bytes)
    }

    fn with_queue(queue_bytes: usize) -> Self {
        let faulty = FaultyDisk::default();
        let disk = GatedDisk::new(faulty.clone());
        // Without a cache, so that reads fail when the disk cannot be read.
        let options = Options { cache_bytes: 0, log_bytes: 64 << 10, queue_bytes, ..Options::default() };
        let store = Store::on_disk(disk.clone(), options).unwrap();
        let engine = Engine::on_store(store).unwrap();
        for place in Place::ALL {
            block_on(engine.create_table(create_table(place), BEGINNING)).unwrap();
        }
        Self { faulty, disk, engine }
    }

    /// Holds up the disk with a write in it, so that what is asked for next waits in the queue.
    fn hold_up(&self) -> Asked<'_, ()> {
        self.disk.shut();
        let held = ask(self.put(Place::Main, "held"));
        assert!(self.disk.wait_for_sync());
        held
    }

    /// Lets the disk go on with the sync it was held up in, and fail the next, of what waits in the queue.
    fn fail(&self, held: Asked<'_, ()>) {
        let last = ask(self.put(Place::Main, "last"));
        self.faulty.fail(Operation::Sync, 1, Lasting::Once);
        self.disk.open();
        // It may be unknown what became of it, where the disk cannot be read.
        let _ = block_on(held);
        block_on(last).unwrap_err();
    }

    async fn put(&self, place: Place, partition: &str) -> Result<(), Error> {
        let mut item: Item = Key(partition.to_owned(), 1).attributes();
        item.insert(GROUP, "g");
        item.insert(RANK, 1);
        let put = PutItem { table: place.table(), item, options: WriteOptions::default() };
        self.engine.put_item(put, BEGINNING).await.map(drop)
    }

    /// The disk works again; the engine may take a moment to notice.
    fn retry(request: impl Fn() -> Result<(), Error>) {
        const PATIENCE: Duration = Duration::from_secs(5);
        let begun = Instant::now();
        while let Err(error) = request() {
            assert!(begun.elapsed() < PATIENCE, "{error}");
            thread::yield_now();
        }
    }

    /// Changes the catalog, by tags, until a change is refused because too much waits for the disk.
    fn tag_until_busy(&self) -> Vec<Asked<'_, ()>> {
        const TAGS_MAX: usize = 1000;
        let mut waiting = Vec::new();
        for n in 0..TAGS_MAX {
            let tags = vec![(format!("tag-{}", n % 5), n.to_string())];
            let request = TagResource { table: Place::Main.table(), tags };
            let mut asked: Asked<'_, ()> = Box::pin(self.engine.tag_resource(request));
            match poll_once(&mut asked) {
                Poll::Pending => waiting.push(asked),
                Poll::Ready(Err(Error::Storage(larder_storage::Error::Busy { .. }))) => return waiting,
                Poll::Ready(other) => panic!("{other:?}"),
            }
        }
        panic!("the queue takes more than {TAGS_MAX} changes");
    }

    fn drop_second_table(&self) -> Asked<'_, TableDescription> {
        ask(self.engine.delete_table(DeleteTable { table: Place::Second.table() }, BEGINNING))
    }
}

impl Drop for Fixture {
    /// A test that fails must not wait for the disk for ever.
    fn drop(&mut self) {
        self.disk.open();
        self.disk.let_read();
    }
}

/// Polls once: the request is on its way, and its answer is not there yet.
fn ask<'a, T: 'a>(future: impl Future<Output = Result<T, Error>> + 'a) -> Asked<'a, T> {
    let mut asked: Asked<'a, T> = Box::pin(future);
    assert!(poll_once(&mut asked).is_pending(), "the disk is held up");
    asked
}

fn poll_once<T>(asked: &mut Asked<'_, T>) -> Poll<Result<T, Error>> {
    asked.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

/// What is there, if all of it agrees.
fn look(engine: &Engine) -> Observed {
    match finish_work(engine).and_then(|()| observe(engine)) {
        Ok(observed) => observed,
        Err(Trouble::Disk(what) | Trouble::Broken(what)) => panic!("{what}"),
    }
}

fn after_crash(disk: &FaultyDisk) -> Engine {
    Engine::on_store(
        Store::on_disk(disk.crash(0), Options { log_bytes: 64 << 10, ..Options::default() }).unwrap(),
    )
    .unwrap()
}

#[test]
fn a_new_index_gets_the_writes_that_were_waiting_for_the_disk() {
    const PATIENCE: Duration = Duration::from_secs(1);
    let fixture = Fixture::new();
    let engine = &fixture.engine;
    let held = fixture.hold_up();
    let added = ask(engine.update_table(add_extra_index(), BEGINNING));
    thread::scope(|scope| {
        let worker = scope.spawn(|| engine.work(UnixTime::from_seconds(0), Duration::ZERO));
        // The write is not on disk, so the index cannot be full. One that says so is looked at at once.
        let begun = Instant::now();
        let description = || engine.describe_table(&DescribeTable { table: Place::Main.table() }).unwrap();
        while begun.elapsed() < PATIENCE
            && description().indexes.iter().any(|index| index.status != IndexStatus::Active)
        {
            thread::yield_now();
        }
        fixture.disk.open();
        worker.join().unwrap().unwrap();
    });
    block_on(held).unwrap();
    block_on(added).unwrap();
    assert!(look(engine).tables[&Place::Main].items.contains_key(&Key("held".to_owned(), 1)));
}

#[test]
fn an_index_whose_removal_failed_has_the_writes_made_since() {
    let fixture = Fixture::new();
    block_on(fixture.engine.update_table(add_extra_index(), BEGINNING)).unwrap();
    finish_work(&fixture.engine).unwrap();
    let held = fixture.hold_up();
    let removal = ask(fixture.engine.update_table(drop_extra_index(), BEGINNING));
    fixture.fail(held);

    // The removal's caller has not been told yet; a server may have other requests to poll first.
    block_on(fixture.put(Place::Main, "since")).unwrap();
    block_on(removal).unwrap_err();
    look(&fixture.engine);
}

#[test]
fn an_index_whose_removal_failed_has_the_writes_made_since_though_the_disk_could_not_be_read() {
    let fixture = Fixture::new();
    block_on(fixture.engine.update_table(add_extra_index(), BEGINNING)).unwrap();
    finish_work(&fixture.engine).unwrap();
    let held = fixture.hold_up();
    let removal = ask(fixture.engine.update_table(drop_extra_index(), BEGINNING));
    fixture.disk.set_readable(false);
    fixture.fail(held);
    block_on(removal).unwrap_err();

    fixture.disk.set_readable(true);
    Fixture::retry(|| block_on(fixture.put(Place::Main, "since")));
    look(&after_crash(&fixture.faulty));
}

#[test]
fn an_index_whose_addition_failed_leaves_nothing_behind() {
    let fixture = Fixture::new();
    let held = fixture.hold_up();
    let addition = ask(fixture.engine.update_table(add_extra_index(), BEGINNING));
    fixture.fail(held);

    block_on(fixture.put(Place::Main, "since")).unwrap();
    block_on(addition).unwrap_err();
    let delete = DeleteItem {
        table: Place::Main.table(),
        key: Key("since".to_owned(), 1).attributes(),
        options: WriteOptions::default(),
    };
    block_on(fixture.engine.delete_item(delete, BEGINNING)).unwrap();
    block_on(fixture.engine.update_table(add_extra_index(), BEGINNING)).unwrap();
    look(&fixture.engine);
}

#[test]
fn a_table_whose_removal_failed_keeps_its_items() {
    let fixture = Fixture::new();
    block_on(fixture.put(Place::Second, "kept")).unwrap();
    let held = fixture.hold_up();
    let removal = fixture.drop_second_table();
    fixture.fail(held);

    finish_work(&fixture.engine).unwrap();
    block_on(removal).unwrap_err();
    let kept = Key("kept".to_owned(), 1);
    assert!(look(&fixture.engine).tables[&Place::Second].items.contains_key(&kept));
}

#[test]
fn a_table_whose_removal_failed_keeps_its_items_though_nobody_waits_for_the_answer() {
    let fixture = Fixture::new();
    block_on(fixture.put(Place::Second, "kept")).unwrap();
    let held = fixture.hold_up();
    drop(fixture.drop_second_table());
    fixture.fail(held);

    finish_work(&fixture.engine).unwrap();
    let kept = Key("kept".to_owned(), 1);
    assert!(look(&fixture.engine).tables[&Place::Second].items.contains_key(&kept));
    assert!(look(&after_crash(&fixture.faulty)).tables[&Place::Second].items.contains_key(&kept));
}

#[test]
fn a_table_that_waits_for_the_disk_stays_known_when_another_change_is_refused() {
    let fixture = Fixture::with_queue(16 << 10);
    block_on(fixture.engine.delete_table(DeleteTable { table: Place::Second.table() }, BEGINNING)).unwrap();
    let held = fixture.hold_up();
    let created = ask(fixture.engine.create_table(create_table(Place::Second), BEGINNING));
    let tagged = fixture.tag_until_busy();
    fixture.engine.describe_table(&DescribeTable { table: Place::Second.table() }).unwrap();

    fixture.disk.open();
    block_on(held).unwrap();
    block_on(created).unwrap();
    tagged.into_iter().for_each(|tagged| block_on(tagged).unwrap());
    block_on(fixture.put(Place::Second, "since")).unwrap();
    let since = Key("since".to_owned(), 1);
    assert!(look(&fixture.engine).tables[&Place::Second].items.contains_key(&since));
    assert!(look(&after_crash(&fixture.faulty)).tables[&Place::Second].items.contains_key(&since));
}

#[test]
fn a_table_whose_removal_waits_for_the_disk_takes_no_writes_when_another_change_is_refused() {
    let fixture = Fixture::with_queue(16 << 10);
    let held = fixture.hold_up();
    let removal = fixture.drop_second_table();
    let tagged = fixture.tag_until_busy();

    let mut late: Asked<'_, ()> = Box::pin(fixture.put(Place::Second, "late"));
    let refused = poll_once(&mut late);
    assert!(matches!(&refused, Poll::Ready(Err(Error::Api(_)))), "{refused:?}");
    fixture.disk.open();
    block_on(held).unwrap();
    block_on(removal).unwrap();
    tagged.into_iter().for_each(|tagged| block_on(tagged).unwrap());
    block_on(fixture.put(Place::Second, "later")).unwrap_err();
    assert!(!look(&fixture.engine).tables.contains_key(&Place::Second));
}

#[test]
fn a_table_made_while_the_catalog_is_read_again_stays_known() {
    let fixture = Fixture::new();
    let engine = &fixture.engine;
    // More than the log holds, and than one page: the tree has absorbed the catalog, and is read from the disk.
    (0..150).for_each(|n| block_on(fixture.put(Place::Main, &format!("{n}"))).unwrap());
    block_on(engine.delete_table(DeleteTable { table: Place::Second.table() }, BEGINNING)).unwrap();
    let held = fixture.hold_up();
    fixture.fail(held);
    // The last commit failed, so whoever asks next reads the catalog again, and is slow to.
    fixture.disk.hold_next_read();
    let describe = |place: Place| engine.describe_table(&DescribeTable { table: place.table() });
    thread::scope(|scope| {
        let slow = scope.spawn(|| describe(Place::Main));
        assert!(fixture.disk.wait_for_read());
        let created = scope.spawn(|| block_on(engine.create_table(create_table(Place::Second), BEGINNING)));
        // It may have to wait for the slow one; if it need not, it is done by then.
        const PATIENCE: Duration = Duration::from_secs(1);
        let begun = Instant::now();
        while !created.is_finished() && begun.elapsed() < PATIENCE {
            thread::yield_now();
        }
        fixture.disk.let_read();
        // The tree may have been opened again meanwhile, which ends what is read of it.
        let _ = slow.join().unwrap();
        created.join().unwrap().unwrap();
    });
    describe(Place::Second).unwrap();
}
