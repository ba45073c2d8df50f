//! What a store alone sustains: `sustained DIR [ITEMS] [SECONDS] [WRITERS]`.
//!
//! Fills DIR with ITEMS, two entries of 300 bytes each, as a put into a table with one index owes them. Then WRITERS
//! replace items that are spread evenly over all, for SECONDS, each waiting for its own. Prints what they saw second by
//! second and all in all, what was written to the disk for it, how long a kill and a clean close take to open again, and
//! what a client with pauses of 300 ms costs.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a measurement that cannot go on should stop"
)]

use larder_storage::{Batch, Options, Store};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const VALUE_BYTES: usize = 300;
/// Set in a process that is to end in the middle of writing.
const KILLED: &str = "SUSTAINED_KILLED";

fn key(kind: u8, n: u64) -> Vec<u8> {
    [&[kind][..], b"/table/", &n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes(), &n.to_be_bytes()].concat()
}

fn put(batch: &mut Batch, n: u64, version: u64) {
    let mut value = vec![b'v'; VALUE_BYTES];
    value[..8].copy_from_slice(&version.to_be_bytes());
    batch.put(key(b'i', n), value.clone());
    batch.put(key(b'x', n.rotate_left(17)), value);
    batch.add(b"count".to_vec(), [0, 1]);
}

/// What this process has given the disk to write.
fn written() -> u64 {
    counted("write_bytes: ")
}

/// What it has asked the system to write.
fn asked() -> u64 {
    counted("wchar: ")
}

fn counted(name: &str) -> u64 {
    let io = std::fs::read_to_string("/proc/self/io").unwrap();
    io.lines().find_map(|line| line.strip_prefix(name)).unwrap().parse().unwrap()
}

/// What all disks have written, in sectors of 512 bytes.
fn on_disks() -> u64 {
    let stats = std::fs::read_to_string("/proc/diskstats").unwrap();
    stats.lines().filter_map(|line| line.split_whitespace().nth(9)?.parse::<u64>().ok()).sum()
}

fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() >> 10
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

fn summary(name: &str, mut times: Vec<Duration>, took: Duration) {
    times.sort_unstable();
    let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize].as_secs_f64() * 1e3;
    println!(
        "{name}: {:.0} a second, p50 {:.2} ms, p99 {:.2} ms, p99.9 {:.2} ms, max {:.1} ms",
        times.len() as f64 / took.as_secs_f64(),
        at(0.5),
        at(0.99),
        at(0.999),
        at(1.0)
    );
}

/// Lets writers replace items for a while. When each was begun, and how long it took.
fn write(store: &Store, items: u64, seconds: u64, writers: u64) -> Vec<Vec<(Instant, Duration)>> {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writing: Vec<_> = (0..writers)
            .map(|writer| {
                let done = &done;
                scope.spawn(move || {
                    let mut random = Random(writer * 0x1234_5678_9abc + 1);
                    let mut times = Vec::new();
                    while !done.load(Ordering::Relaxed) {
                        let mut batch = Batch::default();
                        put(&mut batch, random.next() % items, times.len() as u64);
                        let begun = Instant::now();
                        store.write(batch).unwrap();
                        times.push((begun, begun.elapsed()));
                    }
                    times
                })
            })
            .collect();
        std::thread::sleep(Duration::from_secs(seconds));
        done.store(true, Ordering::Relaxed);
        writing.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let dir = arguments.next().unwrap();
    let mut number = |default: u64| arguments.next().map_or(default, |text| text.parse().unwrap());
    let (items, seconds, writers) = (number(1_000_000), number(20), number(64));
    let dir = Path::new(&dir);
    let begun = Instant::now();
    let store = Store::open(dir, Options::default()).unwrap();
    println!("open {:.1} ms", begun.elapsed().as_secs_f64() * 1e3);
    let begun = Instant::now();
    let first_of_all = if std::env::var_os(KILLED).is_some() { items } else { 0 };
    for first in (first_of_all..items).step_by(1000) {
        let mut batch = Batch::default();
        (first..items.min(first + 1000)).for_each(|n| put(&mut batch, n, 0));
        store.write(batch).unwrap();
    }
    println!("filled {items} in {:.1} s, {} MB resident", begun.elapsed().as_secs_f64(), resident());

    let asked_before = asked();
    let (bytes, sectors, checkpoints) = (written(), on_disks(), store.activity().unwrap());
    let begun = Instant::now();
    let times = write(&store, items, seconds, writers);
    let took = begun.elapsed();
    for second in 0..seconds {
        let within = |at: &Instant| at.duration_since(begun).as_secs() == second;
        let times: Vec<_> =
            times.iter().flatten().filter(|(at, _)| within(at)).map(|(_, took)| *took).collect();
        if !times.is_empty() {
            summary(&format!("second {second}"), times, Duration::from_secs(1));
        }
    }
    let times: Vec<_> = times.iter().flatten().map(|(_, took)| *took).collect();
    let item_bytes = times.len() as u64 * VALUE_BYTES as u64;
    summary("all", times, took);
    let now = store.activity().unwrap();
    let count = now.checkpoints - checkpoints.checkpoints;
    println!(
        "{count} checkpoints, {:.0} ms each; asked for {:.1}, the disks wrote {:.1} times the items",
        (now.checkpoint_time - checkpoints.checkpoint_time).as_secs_f64() * 1e3 / count.max(1) as f64,
        (asked() - asked_before) as f64 / item_bytes as f64,
        (on_disks() - sectors) as f64 * 512.0 / item_bytes as f64
    );
    println!(
        "written {:.1} times the items, {} MB resident, {} MB of file",
        (written() - bytes) as f64 / item_bytes as f64,
        resident(),
        store.activity().unwrap().bytes >> 20
    );
    let begun = Instant::now();
    let mut random = Random(7);
    for _ in 0..200_000 {
        assert!(store.snapshot().get(&key(b'i', random.next() % items)).unwrap().is_some());
    }
    println!("get {:.2} µs", begun.elapsed().as_secs_f64() * 1e6 / 200_000.0);

    if std::env::var_os(KILLED).is_some() {
        // In the middle of it.
        std::thread::scope(|scope| {
            scope.spawn(|| write(&store, items, 10, writers));
            std::thread::sleep(Duration::from_secs(2));
            std::process::abort();
        });
    }
    let begun = Instant::now();
    store.close().unwrap();
    println!("close {:.1} ms", begun.elapsed().as_secs_f64() * 1e3);
    drop(store);
    let begun = Instant::now();
    Store::open(dir, Options::default()).unwrap().close().unwrap();
    println!("open {:.1} ms", begun.elapsed().as_secs_f64() * 1e3);
    let itself = std::env::current_exe().unwrap();
    let arguments =
        [&dir.display().to_string(), &items.to_string(), "1", &writers.to_string()].map(ToString::to_string);
    let _ = std::process::Command::new(itself)
        .args(arguments)
        .env(KILLED, "1")
        .stdout(std::process::Stdio::null())
        .status();
    let begun = Instant::now();
    let store = Store::open(dir, Options::default()).unwrap();
    println!("open after a kill {:.1} ms", begun.elapsed().as_secs_f64() * 1e3);
    store.close().unwrap();
    let store = Store::open(dir, Options::default()).unwrap();

    let (bytes, sectors) = (written(), on_disks());
    const PUTS: u64 = 20;
    for n in 0..PUTS {
        let mut batch = Batch::default();
        put(&mut batch, n * 7919 % items, 1);
        store.write(batch).unwrap();
        std::thread::sleep(Duration::from_millis(300));
    }
    let on_disks = (on_disks() - sectors) / PUTS / 2;
    println!(
        "a put with pauses of 300 ms writes {} KB, and {on_disks} on the disks",
        (written() - bytes) / PUTS / 1024
    );
    let bytes = written();
    std::thread::sleep(Duration::from_secs(2));
    println!("2 s without writes write {} KB", (written() - bytes) / 1024);
    store.close().unwrap();
}
