//! Bytes change at rest, and no answer is wrong for it: each is right, or an error, or the store does not open.
//!
//! Stores are built once. Each trial spoils a copy of one, as a disk, a careless hand or an adversary would, asks it
//! everything the oracle knows, writes to it, opens it again, and asks once more. A failure prints the seed and the
//! trial; `SIM_SEED=3 SIM_AT=41` runs that one alone, `SIM_RUNS=20` runs many.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use larder_engine::ops::{
    DeleteItem, DescribeTable, GetItem, PageOutput, PutItem, Query, ReturnCapacity, Row, Scan, WriteOptions,
};
use larder_engine::{Engine, Error, Watcher};
use larder_expr::{Condition, KeyCondition, KeyTest, SortTest};
use larder_model::{ApiError, AttributeValue, Item, Path, UnixTime};
use larder_sim::budget::{points, seeds};
use larder_sim::random::Random;
use larder_sim::schema::{self, COLOUR, COUNT, GROUP, IndexShape, Key, NOTE, Place, RANK, index_name};
use larder_storage::faulty::FaultyDisk;
use larder_storage::{Disk, Durability, Error as StorageError, Key as MasterKey, Options, Store};
use parking_lot::Mutex;
use pollster::block_on;

const NOW: UnixTime = UnixTime::from_seconds(1_800_000_000);
const PAGE: usize = 4096;
const SECTOR: usize = 512;
const LOG_BYTES: usize = 64 << 10;
const ITEMS: i64 = 240;

/// Where things are in the file; the storage crate says so in `file.rs` and `checked.rs`.
mod place {
    use super::{LOG_BYTES, PAGE};

    pub(super) const MARK: usize = PAGE;
    const ROOTS_BYTES: usize = 128 << 10;
    pub(super) const LOG: usize = 2 * PAGE + ROOTS_BYTES;
    pub(super) const SECOND_HEAD: usize = LOG + LOG_BYTES;
    const TREE: usize = SECOND_HEAD + LOG;
    pub(super) const HEADERS: [usize; 2] = [0, SECOND_HEAD];
    pub(super) const ROOTS: [usize; 2] = [2 * PAGE, SECOND_HEAD + 2 * PAGE];
    pub(super) const ROOT_BYTES: usize = ROOTS_BYTES / 2;
    /// Both slots of a node, each of two pages.
    pub(super) const NODE_BYTES: usize = 4 * PAGE;
    const NODE_AND_PAGES_BYTES: usize = NODE_BYTES + 512 * PAGE;
    pub(super) const UPPER: usize = TREE;

    pub(super) fn nodes(end: usize) -> impl Iterator<Item = usize> {
        (TREE + NODE_BYTES..end).step_by(NODE_AND_PAGES_BYTES)
    }

    /// The node that has the tag of a page.
    pub(super) fn node_of(page: usize) -> usize {
        let first = TREE + NODE_BYTES;
        first + (page - first) / NODE_AND_PAGES_BYTES * NODE_AND_PAGES_BYTES
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Target {
    /// A branch of the tree that is in use; in an encrypted store any page in use.
    Inner,
    Leaf,
    Node,
    Upper,
    Root,
    Header,
    Log,
    Mark,
    Anywhere,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Flip,
    Flips,
    Noise,
    Zero,
    Swap,
    Copy,
    /// Put back to what was there earlier.
    Revert,
    /// A page together with the tags that it had.
    RevertWithNode,
    /// And all above, in one of the two places of the roots.
    RevertWithRoot,
    /// One of the two places.
    RevertRootPlace,
    RevertBothRootPlaces,
    /// One slot, in both places.
    TearRoot,
    /// All four pages of a node.
    ZeroNode,
    RevertLogTail,
    Truncate,
}

const ALL: [Target; 9] = [
    Target::Inner,
    Target::Leaf,
    Target::Node,
    Target::Upper,
    Target::Root,
    Target::Header,
    Target::Log,
    Target::Mark,
    Target::Anywhere,
];
const PAGES: [Target; 3] = [Target::Inner, Target::Leaf, Target::Anywhere];

/// What is tried on each store with each seed.
fn trials() -> Vec<(Kind, Target)> {
    let each = |kind, targets: &[Target]| targets.iter().map(|target| (kind, *target)).collect::<Vec<_>>();
    [
        each(Kind::Flip, &ALL),
        // Where believing what is read gives wrong answers.
        each(Kind::Flip, &[Target::Inner; 4]),
        each(Kind::Flip, &PAGES),
        each(Kind::Flips, &[Target::Inner, Target::Leaf, Target::Node, Target::Root, Target::Log]),
        each(Kind::Noise, &ALL),
        each(Kind::Zero, &ALL),
        each(Kind::Swap, &ALL),
        each(Kind::Swap, &PAGES),
        each(Kind::Copy, &ALL),
        each(Kind::Revert, &ALL),
        each(Kind::Revert, &[Target::Inner, Target::Leaf, Target::Inner, Target::Leaf]),
        each(Kind::RevertWithNode, &PAGES),
        each(Kind::RevertWithRoot, &PAGES),
        each(Kind::RevertRootPlace, &[Target::Root; 2]),
        each(Kind::RevertBothRootPlaces, &[Target::Root; 2]),
        each(Kind::TearRoot, &[Target::Root; 2]),
        each(Kind::ZeroNode, &[Target::Node]),
        each(Kind::RevertLogTail, &[Target::Log; 2]),
        each(Kind::Truncate, &[Target::Anywhere, Target::Log, Target::Root, Target::Leaf]),
    ]
    .concat()
}

/// What was acknowledged.
#[derive(Clone, Default)]
struct Oracle {
    items: BTreeMap<(Place, Key), Item>,
    /// Answered with an error that leaves open what is there.
    unknown: BTreeSet<(Place, Key)>,
}

impl Oracle {
    fn of(&self, place: Place) -> impl Iterator<Item = (&Key, &Item)> {
        self.items.iter().filter(move |((at, _), _)| *at == place).map(|((_, key), item)| (key, item))
    }

    /// Whether an answer about one item can be right.
    fn allows(&self, place: Place, key: &Key, found: Option<&Item>) -> bool {
        let place = (place, key.clone());
        self.unknown.contains(&place) || self.items.get(&place) == found
    }
}

/// A store as it lies on the disk.
struct Image {
    name: &'static str,
    bytes: Vec<u8>,
    options: Options,
    oracle: Oracle,
    /// What the file was earlier.
    older: Arc<Vec<Vec<u8>>>,
    /// Where the pages are that reading everything reads.
    used: Vec<usize>,
}

fn item(key: &Key, version: i64) -> Item {
    let n = key.1;
    let note = format!("{version} of {n} ").repeat(60);
    let attributes: Item = [
        (COUNT, AttributeValue::from(n + version)),
        (GROUP, AttributeValue::from(format!("group-{}", (n + version) % 11).as_str())),
        (COLOUR, AttributeValue::from(["red", "green", "blue"][(n % 3) as usize])),
        (RANK, AttributeValue::from(n * 7 % 100)),
        (NOTE, AttributeValue::from(note.as_str())),
    ]
    .into_iter()
    .collect();
    key.attributes().into_iter().chain(attributes).collect()
}

fn key(n: i64) -> Key {
    Key(format!("part-{}", n % 23), n)
}

fn put(engine: &Engine, place: Place, item: Item, condition: Option<Condition>) -> Result<(), Error> {
    let options = WriteOptions { condition, ..WriteOptions::default() };
    block_on(engine.put_item(PutItem { table: place.table(), item, options }, NOW)).map(drop)
}

fn delete(engine: &Engine, place: Place, key: &Key) -> Result<(), Error> {
    let request =
        DeleteItem { table: place.table(), key: key.attributes(), options: WriteOptions::default() };
    block_on(engine.delete_item(request, NOW)).map(drop)
}

/// A store that was written to, changed and thinned out: once closed, and once killed while it was written to.
fn build(master: Option<MasterKey>) -> [Image; 2] {
    let options = Options {
        durability: Durability::Immediate,
        cache_bytes: 1 << 20,
        log_bytes: LOG_BYTES as u64,
        key: master,
        ..Options::default()
    };
    let disk = FaultyDisk::default();
    let mut oracle = Oracle::default();
    let mut older = Vec::new();
    let open = || {
        let store = Store::on_disk(disk.clone(), options).unwrap();
        (Engine::on_store(store.clone()).unwrap(), store)
    };
    let mut write = |engine: &Engine, place: Place, n: i64, version: i64| {
        let (key, item) = (key(n), item(&key(n), version));
        put(engine, place, item.clone(), None).unwrap();
        oracle.items.insert((place, key), item);
    };

    let (engine, _) = open();
    for place in Place::ALL {
        block_on(engine.create_table(schema::create_table(place), NOW)).unwrap();
    }
    for n in 0..ITEMS {
        write(&engine, Place::Main, n, 0);
        if n % 4 == 0 {
            write(&engine, Place::Second, n, 0);
        }
    }
    older.push(disk.bytes());
    for version in 1..3 {
        (0..ITEMS).step_by(3).for_each(|n| write(&engine, Place::Main, n, version));
        older.push(disk.bytes());
    }
    for n in (0..ITEMS).step_by(9) {
        delete(&engine, Place::Main, &key(n)).unwrap();
        oracle.items.remove(&(Place::Main, key(n)));
    }
    engine.close().unwrap();
    drop(engine);
    let closed = Image {
        name: if master.is_some() { "sealed, closed" } else { "plain, closed" },
        bytes: disk.bytes(),
        options,
        oracle: oracle.clone(),
        older: Arc::new(older.clone()),
        used: used(&disk.bytes(), options, &oracle),
    };
    older.push(disk.bytes());

    let (engine, store) = open();
    let mut write = |n: i64, version: i64| {
        let (key, item) = (key(n), item(&key(n), version));
        put(&engine, Place::Main, item.clone(), None).unwrap();
        oracle.items.insert((Place::Main, key), item);
    };
    (0..48).for_each(|n| write(n * 5, 7));
    older.push(disk.bytes());
    (0..20).for_each(|n| write(n * 11, 8));
    // The log's mark tells of the last write, and the tree does not hold it yet. A slow machine may be too slow for
    // that, so it is tried until it is so.
    let bytes = (0..200)
        .find_map(|n| {
            // Until what was written before is marked.
            let quiet = Instant::now() + Duration::from_millis(20);
            while Instant::now() < quiet {
                thread::yield_now();
            }
            let checkpoints = store.activity().unwrap().checkpoints;
            let mark = disk.bytes()[place::MARK..][..SECTOR].to_vec();
            write(n, 9);
            let begun = Instant::now();
            while disk.bytes()[place::MARK..][..SECTOR] == mark && begun.elapsed() < Duration::from_secs(1) {
                thread::yield_now();
            }
            let bytes = disk.bytes();
            let marked = bytes[place::MARK..][..SECTOR] != mark;
            (marked && store.activity().unwrap().checkpoints == checkpoints).then_some(bytes)
        })
        .expect("one of many writes is marked before it is in the tree");
    let used = used(&bytes, options, &oracle);
    let name = if master.is_some() { "sealed, killed" } else { "plain, killed" };
    [closed, Image { name, bytes, options, oracle, older: Arc::new(older), used }]
}

/// A disk that remembers which pages were read.
#[derive(Clone, Debug)]
struct Watched(FaultyDisk, Arc<Mutex<BTreeSet<usize>>>);

impl Disk for Watched {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let first = offset as usize / PAGE;
        self.1.lock().extend((first..first + out.len().div_ceil(PAGE)).map(|page| page * PAGE));
        self.0.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write(offset, data)
    }
}

fn used(bytes: &[u8], options: Options, oracle: &Oracle) -> Vec<usize> {
    let watched = Watched(bytes.to_vec().into(), Arc::default());
    let store = Store::on_disk(watched.clone(), Options { cache_bytes: 64 << 10, ..options }).unwrap();
    let engine = Engine::on_store(store).unwrap();
    let asked = ask(&engine, oracle, &mut Random::new(0)).unwrap();
    assert_eq!(asked.errors, 0, "a store that nobody spoilt");
    engine.close().unwrap();
    let nodes: Vec<usize> = place::nodes(bytes.len()).collect();
    let is_page = |at: &usize| {
        *at >= place::UPPER + place::NODE_BYTES
            && *at < bytes.len()
            && nodes.iter().all(|node| !(*node..node + place::NODE_BYTES).contains(at))
    };
    let read = watched.1.lock();
    read.iter().copied().filter(is_page).collect()
}

/// How much of what was asked was answered.
#[derive(Clone, Default)]
struct Asked {
    answers: u64,
    errors: u64,
    /// The items that GetItem gave.
    found: Vec<(Place, Key)>,
}

impl fmt::Debug for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} answers and {} errors", self.answers, self.errors)
    }
}

impl Asked {
    /// An answer, or none if it is an error that a damaged store may give.
    fn count<T>(&mut self, answer: Result<T, Error>) -> Result<Option<T>, String> {
        match answer {
            Ok(answer) => {
                self.answers += 1;
                Ok(Some(answer))
            }
            Err(error @ (Error::Api(_) | Error::Key(_) | Error::Expression(_))) => {
                Err(format!("it blames the request: {error}"))
            }
            Err(_) => {
                self.errors += 1;
                Ok(None)
            }
        }
    }
}

/// Asks for all that the oracle knows. The error is a wrong answer.
fn ask(engine: &Engine, oracle: &Oracle, random: &mut Random) -> Result<Asked, String> {
    let mut asked = Asked::default();
    for place in Place::ALL {
        for n in (0..ITEMS + 10).filter(|_| random.one_in(2)).collect::<Vec<_>>() {
            let key = key(n);
            let request = GetItem {
                table: place.table(),
                key: key.attributes(),
                projection: None,
                consistent: true,
                capacity: ReturnCapacity::None,
            };
            let answer = engine.get_item(&request).and_then(|output| output.item.map(read).transpose());
            if let Some(found) = asked.count(answer)? {
                if !oracle.allows(place, &key, found.as_ref()) {
                    return Err(format!("GetItem of {key:?} in {place:?} gives {found:?}"));
                }
                asked.found.extend(found.map(|_| (place, key)));
            }
        }
        let all: Vec<(Key, Item)> = oracle.of(place).map(|(key, item)| (key.clone(), item.clone())).collect();
        let known = oracle.unknown.is_empty();
        let described = engine.describe_table(&DescribeTable { table: place.table() });
        if let Some(described) = asked.count(described)?
            && known
            && described.item_count != all.len() as i64
        {
            return Err(format!("{place:?} is said to have {} items of {}", described.item_count, all.len()));
        }
        let skips = random.one_in(2);
        let found = pages(&mut asked, |start| {
            engine.scan(&Scan { limit: Some(150), start, skip_damaged: skips, ..Scan::of(place.table()) })
        })?;
        compare(&format!("a scan of {place:?}"), oracle, place, &found, all.clone())?;
        for shape in place.first_indexes() {
            let owed: Vec<(Key, Item)> =
                all.iter().filter_map(|(key, item)| Some((key.clone(), shape.entry(item)?))).collect();
            if random.one_in(3) {
                let found = pages(&mut asked, |start| {
                    engine.scan(&Scan {
                        index: Some(index_name(shape.name)),
                        start,
                        ..Scan::of(place.table())
                    })
                })?;
                compare(&format!("a scan of {}", shape.name), oracle, place, &found, owed.clone())?;
            }
            let partitions: BTreeSet<&str> =
                owed.iter().filter_map(|(_, entry)| entry.get(shape.partition)?.as_str()).collect();
            for partition in partitions.into_iter().filter(|_| random.one_in(2)) {
                let found = query(engine, &mut asked, place, *shape, partition)?;
                let owed = owed
                    .iter()
                    .filter(|(_, entry)| {
                        entry.get(shape.partition).and_then(|p| p.as_str()) == Some(partition)
                    })
                    .cloned()
                    .collect();
                compare(&format!("a query of {}", shape.name), oracle, place, &found, owed)?;
            }
        }
        for _ in 0..5 {
            let (key, item) = &all[random.below(all.len() as u64) as usize];
            let absent = Condition::NotExists(Path::attribute("pk"));
            match put(engine, place, item.clone(), Some(absent)) {
                Err(Error::Api(ApiError::ConditionalCheckFailed { .. })) => asked.answers += 1,
                Ok(()) if oracle.unknown.contains(&(place, key.clone())) => {}
                Ok(()) => return Err(format!("{key:?} of {place:?}, which is there, was put as a new one")),
                Err(error) => drop(asked.count::<()>(Err(error))?),
            }
        }
    }
    Ok(asked)
}

/// What a read gave, and whether that is all of it.
struct Found {
    items: Vec<Item>,
    whole: bool,
}

fn pages(
    asked: &mut Asked,
    page: impl Fn(Option<Item>) -> Result<PageOutput, Error>,
) -> Result<Found, String> {
    let mut found = Found { items: Vec::new(), whole: true };
    let mut start = None;
    loop {
        let output = page(start).and_then(|output| {
            let rows = output.items.into_iter().flatten().map(read).collect::<Result<Vec<_>, _>>()?;
            Ok((rows, output.last_key, output.skipped))
        });
        let Some((items, last, skipped)) = asked.count(output)? else {
            return Ok(Found { whole: false, ..found });
        };
        asked.errors += skipped.len() as u64;
        found.whole &= skipped.is_empty();
        found.items.extend(items);
        start = last;
        if start.is_none() {
            return Ok(found);
        }
    }
}

fn query(
    engine: &Engine,
    asked: &mut Asked,
    place: Place,
    index: IndexShape,
    partition: &str,
) -> Result<Found, String> {
    let test = KeyTest {
        attribute: index.partition.into(),
        test: SortTest::Equal(Arc::new(AttributeValue::from(partition))),
    };
    pages(asked, |start| {
        engine.query(&Query {
            table: place.table(),
            index: Some(index_name(index.name)),
            key_condition: KeyCondition { tests: vec![test.clone()] },
            filter: None,
            legacy_filter: false,
            projection: None,
            select: None,
            limit: None,
            forward: true,
            start,
            consistent: false,
            skip_damaged: false,
            capacity: ReturnCapacity::None,
        })
    })
}

/// Everything found is owed and there once, and what is owed was found unless the read failed on the way.
fn compare(
    what: &str,
    oracle: &Oracle,
    place: Place,
    found: &Found,
    owed: Vec<(Key, Item)>,
) -> Result<(), String> {
    let mut owed: BTreeMap<Key, Item> = owed.into_iter().collect();
    for item in &found.items {
        let key = Key::of(item).ok_or_else(|| format!("{what} gives an item without a key: {item:?}"))?;
        let expected = owed.remove(&key);
        if expected.as_ref() != Some(item) && !oracle.unknown.contains(&(place, key)) {
            return Err(format!("{what} gives {item:?}, and {expected:?} is owed"));
        }
    }
    owed.retain(|key, _| !oracle.unknown.contains(&(place, key.clone())));
    match owed.first_key_value() {
        Some((key, _)) if found.whole => Err(format!("{what} lacks {key:?}, and {} in all", owed.len())),
        Some(_) | None => Ok(()),
    }
}

fn read(row: Row) -> Result<Item, Error> {
    match row {
        Row::Built(item) => Ok(item),
        Row::Stored(stored) => Ok(stored.decode()?),
    }
}

/// Writes to other items, or tries to.
fn write(engine: &Engine, oracle: &mut Oracle, random: &mut Random) -> Result<Asked, String> {
    let mut asked = Asked::default();
    for _ in 0..8 {
        let place = *random.pick(&Place::ALL);
        let key = key(random.below(ITEMS as u64 + 10) as i64);
        let item = (!random.one_in(4)).then(|| item(&key, 20));
        let done = match &item {
            Some(item) => put(engine, place, item.clone(), None),
            None => delete(engine, place, &key),
        };
        let unknown = matches!(done, Err(Error::Storage(StorageError::Unknown { .. })));
        let place = (place, key);
        if asked.count(done)?.is_some() {
            oracle.unknown.remove(&place);
            match item {
                Some(item) => drop(oracle.items.insert(place, item)),
                None => drop(oracle.items.remove(&place)),
            }
        } else if unknown {
            oracle.unknown.insert(place);
        }
    }
    Ok(asked)
}

/// Spoils an image. Says what it did.
fn spoil(image: &Image, kind: Kind, target: Target, random: &mut Random) -> (Vec<u8>, String) {
    let mut bytes = image.bytes.clone();
    let at = page_of(image, target, random);
    let older = &image.older[random.below(image.older.len() as u64) as usize];
    let revert = |bytes: &mut Vec<u8>, from: usize, length: usize| {
        let end = (from + length).min(bytes.len()).min(older.len());
        if from < end {
            bytes[from..end].copy_from_slice(&older[from..end]);
        }
    };
    let mut said = format!("{kind:?} {target:?} at {at:#x}");
    match kind {
        Kind::Flip => {
            let byte = at + random.below(PAGE as u64) as usize;
            // Near the beginning of a page, and of all else, are the bytes that say the most.
            let byte = if random.one_in(2) { at + random.below(96) as usize } else { byte };
            bytes[byte] ^= 1 << random.below(8);
            said += &format!(", byte {byte:#x}");
        }
        Kind::Flips => {
            for _ in 0..8 {
                bytes[at + random.below(PAGE as u64) as usize] ^= 1 << random.below(8);
            }
        }
        Kind::Noise => {
            let from = at + random.below(PAGE as u64 / 2) as usize;
            let length = 1 + random.below(PAGE as u64 / 2) as usize;
            bytes[from..from + length].fill_with(|| random.number() as u8);
        }
        Kind::Zero => bytes[at..at + PAGE].fill(0),
        Kind::Swap | Kind::Copy => {
            let other = page_of(image, target, random);
            let (one, two) = (bytes[at..at + PAGE].to_vec(), bytes[other..other + PAGE].to_vec());
            bytes[at..at + PAGE].copy_from_slice(&two);
            if kind == Kind::Swap {
                bytes[other..other + PAGE].copy_from_slice(&one);
            }
            said += &format!(" and {other:#x}");
        }
        Kind::Revert => revert(&mut bytes, at, PAGE),
        Kind::RevertWithNode | Kind::RevertWithRoot => {
            let node = place::node_of(at.max(place::UPPER + place::NODE_BYTES));
            revert(&mut bytes, at, PAGE);
            revert(&mut bytes, node, place::NODE_BYTES);
            if kind == Kind::RevertWithRoot {
                revert(&mut bytes, place::UPPER, place::NODE_BYTES);
                revert(&mut bytes, *random.pick(&place::ROOTS), 2 * place::ROOT_BYTES);
            }
        }
        Kind::RevertRootPlace => revert(&mut bytes, *random.pick(&place::ROOTS), 2 * place::ROOT_BYTES),
        Kind::RevertBothRootPlaces => {
            place::ROOTS.into_iter().for_each(|place| revert(&mut bytes, place, 2 * place::ROOT_BYTES));
        }
        Kind::TearRoot => {
            let slot = random.below(2) as usize * place::ROOT_BYTES;
            for place in place::ROOTS {
                bytes[place + slot + random.below(600) as usize] ^= 1 << random.below(8);
            }
        }
        Kind::ZeroNode => bytes[place::node_of(at)..][..place::NODE_BYTES].fill(0),
        Kind::RevertLogTail => {
            let from = place::LOG + random.below((LOG_BYTES / SECTOR) as u64) as usize * SECTOR;
            revert(&mut bytes, from, place::SECOND_HEAD - from);
            said += &format!(" from {from:#x}");
        }
        Kind::Truncate => {
            let from = at + random.below(PAGE as u64) as usize;
            bytes.truncate(from);
            said += &format!(" to {from:#x}");
        }
    }
    (bytes, said)
}

fn page_of(image: &Image, target: Target, random: &mut Random) -> usize {
    let nth = |random: &mut Random, from: usize, bytes: usize| {
        from + random.below((bytes / PAGE) as u64) as usize * PAGE
    };
    let is_sealed = image.options.key.is_some();
    let used = |random: &mut Random, mark: u8| {
        let marked: Vec<usize> =
            image.used.iter().copied().filter(|at| is_sealed || image.bytes[*at] == mark).collect();
        *random.pick(&marked)
    };
    match target {
        Target::Inner => used(random, 2),
        Target::Leaf => used(random, 1),
        Target::Node => {
            let nodes: Vec<usize> = place::nodes(image.bytes.len())
                .filter(|at| at + place::NODE_BYTES < image.bytes.len())
                .collect();
            let node = *random.pick(&nodes);
            nth(random, node, place::NODE_BYTES)
        }
        Target::Upper => nth(random, place::UPPER, place::NODE_BYTES),
        // The beginning of a slot, where there is something.
        Target::Root => *random.pick(&place::ROOTS) + random.below(2) as usize * place::ROOT_BYTES,
        Target::Header => *random.pick(&place::HEADERS),
        Target::Log => nth(random, place::LOG, LOG_BYTES),
        Target::Mark => place::MARK,
        Target::Anywhere => nth(random, 0, image.bytes.len() / PAGE * PAGE),
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    trials: u64,
    /// All was answered, and rightly.
    right: u64,
    /// Some was answered rightly, and the rest with an error.
    reported: u64,
    /// The store did not open.
    refused: u64,
    /// What was brought out of those two, and what was in them.
    salvages: u64,
    salvaged: u64,
    salvageable: u64,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { trials, right, reported, refused, salvages, salvaged, salvageable } = self;
        write!(
            f,
            "{trials} trials: {right} right, {reported} reported, {refused} refused; \
             of {salvages}, {salvaged} of {salvageable} items salvaged"
        )
    }
}

fn open(disk: &FaultyDisk, options: Options) -> Result<Engine, Error> {
    Engine::on_store(Store::on_disk(disk.clone(), options)?)
}

/// Whether `verify` says that something is wrong. It must not change a byte.
fn verify(bytes: &[u8], options: Options) -> Result<bool, String> {
    let disk = FaultyDisk::from(bytes.to_vec());
    let verified = Store::on_disk_read_only(disk.clone(), options)
        .map_err(Error::from)
        .and_then(Engine::on_store)
        .and_then(|engine| engine.verify(NOW, |_| {}));
    if disk.bytes() != bytes {
        return Err("verify changed the file".to_owned());
    }
    Ok(verified.map_or(true, |verified| verified.problem_count > 0))
}

struct Unwatched;

impl Watcher for Unwatched {
    fn brought(&mut self, _: u64) {}

    fn stray(&mut self, _: u32, _: &Item) -> io::Result<()> {
        Ok(())
    }
}

/// Brings out what can be read, as `larder salvage` does, and looks whether it is all that was found, and right. Says how
/// many items that were.
fn salvaged(bytes: &[u8], image: &Image, found: &[(Place, Key)]) -> Result<Option<usize>, String> {
    let memory = || Store::memory(Options::default()).unwrap();
    let disk = FaultyDisk::from(bytes.to_vec());
    let (source, lost, lost_records) = match Store::on_disk_read_only(disk.clone(), image.options) {
        Ok(source) => (source, Vec::new(), 0),
        Err(_) => {
            let source = memory();
            match larder_storage::salvage_disk(disk, image.options, &source) {
                Ok(done) => (source, done.lost, done.lost_records),
                Err(_) if found.is_empty() => return Ok(None),
                Err(error) => return Err(format!("salvage: {error}")),
            }
        }
    };
    let target = Engine::on_store(memory()).unwrap();
    let told = larder_engine::salvage(&source, &lost, &target, NOW, &mut Unwatched)
        .map_err(|error| format!("salvage: {error}"))?;
    let mut brought = BTreeMap::new();
    for place in Place::ALL {
        let output = target.scan(&Scan::of(place.table()));
        for row in output.ok().and_then(|output| output.items).into_iter().flatten() {
            let item = read(row).map_err(|error| format!("salvage: {error}"))?;
            let key = Key::of(&item).ok_or("salvage: an item without a key")?;
            brought.insert((place, key), item);
        }
    }
    for (at, item) in &brought {
        // What a lost record of the log wrote is as it was before.
        if image.oracle.items.get(at) != Some(item) && lost_records == 0 {
            return Err(format!("salvage brings {at:?} as {item:?}"));
        }
    }
    if let Some(missing) = found.iter().find(|at| !brought.contains_key(*at)) {
        return Err(format!("salvage does not bring {missing:?}, which can be read"));
    }
    let missing = image.oracle.items.keys().find(|at| !brought.contains_key(*at));
    if let Some(missing) = missing.filter(|_| told.lost.is_empty() && lost.is_empty() && lost_records == 0) {
        return Err(format!("salvage does not bring {missing:?}, and says that nothing is lost"));
    }
    Ok(Some(brought.len()))
}

fn run(
    image: &Image,
    kind: Kind,
    target: Target,
    random: &mut Random,
    tally: &mut Tally,
) -> Result<(), String> {
    let (bytes, said) = spoil(image, kind, target, random);
    let wrong = |what: String| format!("{}: {said}: {what}", image.name);
    let verified = verify(&bytes, image.options).map_err(wrong)?;
    tally.trials += 1;
    let disk = FaultyDisk::from(bytes.clone());
    let opened = open(&disk, image.options);
    let asked = match &opened {
        Ok(engine) => ask(engine, &image.oracle, random).map_err(wrong)?,
        Err(_) => Asked::default(),
    };
    if (opened.is_err() || asked.errors > 0)
        && let Some(brought) = salvaged(&bytes, image, &asked.found).map_err(wrong)?
    {
        tally.salvages += 1;
        tally.salvaged += brought as u64;
        tally.salvageable += image.oracle.items.len() as u64;
    }
    let Ok(engine) = opened else {
        tally.refused += 1;
        return if verified {
            Ok(())
        } else {
            Err(wrong("it does not open, and verify finds nothing".to_owned()))
        };
    };
    let mut oracle = image.oracle.clone();
    let written = write(&engine, &mut oracle, random).map_err(wrong)?;
    if asked.errors + written.errors > 0 {
        tally.reported += 1;
        if !verified {
            return Err(wrong(format!("{asked:?}, writes {written:?}, and verify finds nothing")));
        }
    } else {
        tally.right += 1;
    }
    let again = if random.one_in(3) {
        ask(&engine, &oracle, random).map_err(|what| wrong(format!("after writing: {what}")))?
    } else {
        Asked::default()
    };
    let _ = engine.close();
    drop(engine);
    match open(&disk, image.options) {
        Ok(engine) => {
            ask(&engine, &oracle, random).map_err(|what| wrong(format!("opened again: {what}")))?;
            Ok(())
        }
        Err(error) if asked.errors + written.errors + again.errors == 0 => {
            Err(wrong(format!("all was well, and then it does not open: {error}")))
        }
        Err(_) => Ok(()),
    }
}

#[test]
fn no_answer_is_wrong_whatever_happens_to_the_file() {
    let images: Vec<Image> = [None, Some(MasterKey::new([7; 32]))].into_iter().flat_map(build).collect();
    let trials = trials();
    let mut tallies: BTreeMap<Kind, Tally> = BTreeMap::new();
    let mut failures = Vec::new();
    let (mut all, mut points_run) = (Tally::default(), 0);
    for seed in seeds(1) {
        for at in points((trials.len() * images.len()) as u64) {
            points_run += 1;
            let (image, (kind, target)) =
                (&images[at as usize % images.len()], trials[at as usize / images.len()]);
            let mut random = Random::new(seed << 20 | at);
            let tally = tallies.entry(kind).or_default();
            if let Err(failure) = run(image, kind, target, &mut random, tally) {
                failures.push(format!("SIM_SEED={seed} SIM_AT={at}: {failure}"));
            }
        }
    }
    for (kind, tally) in &tallies {
        println!("{kind:?}: {tally}");
        all.trials += tally.trials;
        all.right += tally.right;
        all.reported += tally.reported;
        all.refused += tally.refused;
        all.salvages += tally.salvages;
        all.salvaged += tally.salvaged;
        all.salvageable += tally.salvageable;
    }
    println!("all: {all}, {} wrong", failures.len());
    assert!(failures.is_empty(), "{} wrong:\n{}", failures.len(), failures.join("\n"));
    if points_run >= trials.len() * images.len() {
        assert!(all.trials >= 300 && all.right > 0 && all.reported > 0 && all.refused > 0);
    }
}
