//! The single flight, the queue of writes behind, the turns of those who write past it, and the flight that processes share,
//! under many interleavings.
//!
//! These are the files of the layer themselves, built on a lock that [`shuttle`] controls. What runs beside them
//! here stands for tasks, the store and the clock.

#![allow(clippy::unwrap_used, reason = "a test that fails may panic")]

#[path = "../src/cache/flight.rs"]
#[allow(dead_code, reason = "the layer uses more of it than the models do")]
mod flight;
#[path = "../src/cache/queue.rs"]
#[allow(dead_code, reason = "the layer uses more of it than the models do")]
mod queue;
#[path = "../src/cache/shared_flight.rs"]
mod shared_flight;
#[path = "../src/cache/turns.rs"]
#[allow(dead_code, reason = "the layer uses more of it than the models do")]
mod turns;

mod sync {
    /// `shuttle`'s lock, with the face of the one that the layer uses.
    #[derive(Debug)]
    pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(shuttle::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> shuttle::sync::MutexGuard<'_, T> {
            self.0.lock().expect("nobody panics with the lock in hand")
        }
    }
}

use std::collections::HashMap;
use std::sync::Arc;

use shuttle::future::{block_on, spawn, yield_now};
use shuttle::rand::Rng;
use shuttle::sync::Mutex;
use shuttle::sync::atomic::{AtomicUsize, Ordering};

use flight::{Flights, Joined};
use queue::{Pushed, Queue};
use shared_flight::{FlightStore, Winner, race};
use turns::{Line, Waiting};

const RUNS: usize = 2000;

/// Reads a shared place, or leads a load that fills it; the leader may go away half-way.
async fn fetch(
    flights: &Arc<Flights<u8, usize>>,
    kept: &Mutex<Option<usize>>,
    loads: &AtomicUsize,
    under_way: &AtomicUsize,
    dies: bool,
) -> Option<usize> {
    loop {
        match flights.join(&1) {
            Joined::Wait(answer) => match answer.await {
                Ok(value) => return Some(value),
                Err(_) => continue,
            },
            Joined::Lead(lead) => {
                let found = *kept.lock().unwrap();
                if let Some(value) = found {
                    lead.land(&value);
                    return Some(value);
                }
                assert_eq!(under_way.fetch_add(1, Ordering::SeqCst), 0, "one load at a time");
                yield_now().await;
                under_way.fetch_sub(1, Ordering::SeqCst);
                if dies {
                    return None;
                }
                let value = loads.fetch_add(1, Ordering::SeqCst) + 1;
                *kept.lock().unwrap() = Some(value);
                lead.land(&value);
                return Some(value);
            }
        }
    }
}

#[test]
fn a_key_is_loaded_once_however_many_ask_and_whoever_goes_away() {
    shuttle::check_random(
        || {
            let flights = Arc::new(Flights::new());
            let kept = Arc::new(Mutex::new(None));
            let (loads, under_way) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
            let tasks: Vec<_> = (0..4)
                .map(|number| {
                    let (flights, kept) = (Arc::clone(&flights), Arc::clone(&kept));
                    let (loads, under_way) = (Arc::clone(&loads), Arc::clone(&under_way));
                    spawn(async move { fetch(&flights, &kept, &loads, &under_way, number == 0).await })
                })
                .collect();
            block_on(async {
                for (number, task) in tasks.into_iter().enumerate() {
                    let answer = task.await.unwrap();
                    assert!(answer == Some(1) || (number == 0 && answer.is_none()), "{answer:?}");
                }
            });
            assert_eq!(loads.load(Ordering::SeqCst), 1);
        },
        RUNS,
    );
}

#[test]
fn those_who_wait_may_be_answered_before_the_load_ends() {
    shuttle::check_random(
        || {
            let flights: Arc<Flights<u8, &str>> = Arc::new(Flights::new());
            let Some(lead) = flights.lead(&1) else { panic!("nobody leads yet") };
            let waiters: Vec<_> = (0..3)
                .map(|_| {
                    let flights = Arc::clone(&flights);
                    spawn(async move {
                        match flights.join(&1) {
                            Joined::Wait(answer) => answer.await.expect("the leader answers"),
                            Joined::Lead(lead) => {
                                lead.land(&"again");
                                "again"
                            }
                        }
                    })
                })
                .collect();
            let leader = spawn(async move {
                lead.share(&"stale");
                yield_now().await;
                lead.land(&"fresh");
            });
            block_on(async {
                leader.await.unwrap();
                for waiter in waiters {
                    assert!(["stale", "fresh", "again"].contains(&waiter.await.unwrap()));
                }
            });
        },
        RUNS,
    );
}

type Stored = Arc<Mutex<HashMap<u8, u32>>>;

/// Empties a queue into a map, as the worker of the layer does; a write may have to be tried again.
async fn work(queue: Arc<Queue<u8, u32>>, stored: Stored, workers: Arc<AtomicUsize>) {
    assert_eq!(workers.fetch_add(1, Ordering::SeqCst), 0, "one worker at a time");
    loop {
        // The last look and the end of the worker are one step for everybody else.
        workers.fetch_sub(1, Ordering::SeqCst);
        let Some(batch) = queue.take(2) else { return };
        assert_eq!(workers.fetch_add(1, Ordering::SeqCst), 0, "one worker at a time");
        assert!(batch.len() <= 2);
        yield_now().await;
        for (key, value) in batch {
            if shuttle::rand::thread_rng().gen_bool(0.3) {
                queue.put_back([&key]);
                continue;
            }
            let older = stored.lock().unwrap().insert(key, value);
            assert!(older.is_none_or(|older| older <= value), "{older:?} was newer than {value}");
            queue.finish([&key]);
        }
    }
}

#[test]
fn the_newest_of_each_key_is_written_and_nothing_is_left() {
    shuttle::check_random(
        || {
            let queue = Arc::new(Queue::new(100));
            let stored = Stored::default();
            let workers = Arc::new(AtomicUsize::new(0));
            let push = |key: u8, value: u32| {
                let (queue, stored, workers) =
                    (Arc::clone(&queue), Arc::clone(&stored), Arc::clone(&workers));
                move || match queue.push(key, value) {
                    Pushed::Start => Some(spawn(work(Arc::clone(&queue), stored, workers))),
                    Pushed::Queued => None,
                    Pushed::Full | Pushed::Overtaken => panic!("there is room, and nothing newer"),
                }
            };
            // Each key has one writer, which numbers its values.
            let writers: Vec<_> = (0..3_u8)
                .map(|key| {
                    let pushes: Vec<_> = (1..=3).map(|value| push(key, value)).collect();
                    spawn(async move {
                        let mut started = Vec::new();
                        for push in pushes {
                            started.extend(push());
                            yield_now().await;
                        }
                        started
                    })
                })
                .collect();
            block_on(async {
                for writer in writers {
                    for worker in writer.await.unwrap() {
                        worker.await.unwrap();
                    }
                }
            });
            assert_eq!(queue.len(), 0);
            assert_eq!(*stored.lock().unwrap(), HashMap::from([(0, 3), (1, 3), (2, 3)]));
        },
        RUNS,
    );
}

/// One key of a process: what waits for it and what the store holds, as in `write.rs`.
#[derive(Clone)]
struct Key {
    line: Arc<Line<u8, u32>>,
    /// What the store held, one after the other.
    stored: Arc<Mutex<Vec<u32>>>,
    workers: Arc<Mutex<Vec<shuttle::future::JoinHandle<()>>>>,
}

impl Key {
    fn new() -> Self {
        Self { line: Arc::new(Line::new(10, u32::eq)), stored: Arc::default(), workers: Arc::default() }
    }

    /// A request: it is under way, and then it is made.
    async fn store(&self, value: u32) {
        yield_now().await;
        self.stored.lock().unwrap().push(value);
        yield_now().await;
    }

    /// `Shelf::put_behind`.
    fn put_behind(&self, value: u32) {
        if self.line.queue.push(1, value) == Pushed::Start {
            let worker = spawn(self.clone().work());
            self.workers.lock().unwrap().push(worker);
        }
    }

    /// `cache/write.rs`: some tries fail, before or after they were made.
    async fn work(self) {
        while let Some(batch) = self.line.take(2).await {
            for (key, value) in batch {
                let fails = shuttle::rand::thread_rng().gen_bool(0.3);
                if !fails || shuttle::rand::thread_rng().gen_bool(0.5) {
                    self.store(value).await;
                }
                match fails {
                    true => self.line.queue.put_back([&key]),
                    false => self.line.queue.finish([&key]),
                }
            }
            self.line.tell();
        }
    }

    /// As `Core::write_in_turn` makes a whole write.
    async fn put(&self, value: u32) {
        let made = async {
            self.store(value).await;
            Ok::<(), ()>(())
        };
        self.line.write(1, Waiting::Dropped, made).await.expect("it cannot fail");
    }

    /// As `Core::flush_pending` does before a write that builds on what is there.
    async fn flush(&self) {
        let write = async |pending: u32| {
            self.store(pending).await;
            Ok::<(), ()>(())
        };
        self.line.flush(1, write).await.expect("it cannot fail");
    }

    /// `Shelf::get`: what waits, before or after the store was asked, else what the store holds.
    async fn get(&self) -> Option<u32> {
        if let Some(pending) = self.line.queue.pending(&1) {
            return Some(pending);
        }
        yield_now().await;
        let stored = self.stored.lock().unwrap().last().copied();
        self.line.queue.pending(&1).or(stored)
    }

    async fn drain(&self) {
        self.line.until(|| self.line.queue.len() == 0).await;
        let workers = std::mem::take(&mut *self.workers.lock().unwrap());
        for worker in workers {
            worker.await.unwrap();
        }
    }
}

#[test]
fn a_value_never_goes_back_however_it_is_written() {
    shuttle::check_random(
        || {
            let key = Key::new();
            let writer = spawn({
                let key = key.clone();
                async move {
                    for value in 1..=5 {
                        match shuttle::rand::thread_rng().gen_range(0..3) {
                            0 => key.put(value).await,
                            1 => key.put_behind(value),
                            _ => {
                                key.flush().await;
                                key.put(value).await;
                            }
                        }
                    }
                }
            });
            let flusher = spawn({
                let key = key.clone();
                async move {
                    for _ in 0..3 {
                        key.flush().await;
                    }
                }
            });
            let reader = spawn({
                let key = key.clone();
                async move {
                    let mut newest = None;
                    for _ in 0..6 {
                        let found = key.get().await;
                        assert!(found >= newest, "{found:?} was read after {newest:?}");
                        newest = found;
                    }
                }
            });
            block_on(async {
                writer.await.unwrap();
                flusher.await.unwrap();
                reader.await.unwrap();
                key.drain().await;
                let stored = key.stored.lock().unwrap().clone();
                assert!(stored.is_sorted(), "an older value landed on a newer one: {stored:?}");
                assert_eq!(stored.last(), Some(&5));
            });
        },
        RUNS,
    );
}

#[test]
fn of_two_who_write_at_once_neither_comes_back() {
    shuttle::check_random(
        || {
            let key = Key::new();
            let past = spawn({
                let key = key.clone();
                async move { key.put(1).await }
            });
            let behind = spawn({
                let key = key.clone();
                async move { key.put_behind(2) }
            });
            let reader = spawn({
                let key = key.clone();
                async move {
                    let mut seen: Vec<u32> = Vec::new();
                    for _ in 0..8 {
                        let Some(found) = key.get().await else { continue };
                        if seen.last() != Some(&found) {
                            assert!(!seen.contains(&found), "{found} came back after {seen:?}");
                            seen.push(found);
                        }
                    }
                }
            });
            block_on(async {
                past.await.unwrap();
                behind.await.unwrap();
                reader.await.unwrap();
                key.drain().await;
            });
        },
        RUNS,
    );
}

/// What several processes share: a value, and a flight with its end.
#[derive(Debug, Default)]
struct Table {
    value: Option<u32>,
    flight_until: Option<u32>,
    now: u32,
}

struct Process(Arc<Mutex<Table>>);

const FLIGHT: u32 = 10;

impl FlightStore for Process {
    type Found = u32;
    type Error = ();

    async fn take(&self) -> Result<bool, ()> {
        yield_now().await;
        let mut table = self.0.lock().unwrap();
        let is_free = table.value.is_none() && table.flight_until.is_none_or(|until| until < table.now);
        if is_free {
            table.flight_until = Some(table.now + FLIGHT);
        }
        Ok(is_free)
    }

    async fn look(&self) -> Result<Option<u32>, ()> {
        yield_now().await;
        Ok(self.0.lock().unwrap().value)
    }

    async fn pause(&self, asked: u32) -> bool {
        self.0.lock().unwrap().now += 1;
        yield_now().await;
        asked < 100
    }
}

#[test]
fn one_process_loads_and_a_dead_one_is_replaced() {
    for dies in [false, true] {
        shuttle::check_random(
            move || {
                let table = Arc::new(Mutex::new(Table::default()));
                let loads = Arc::new(AtomicUsize::new(0));
                let tasks: Vec<_> = (0..3)
                    .map(|number| {
                        let (table, loads) = (Arc::clone(&table), Arc::clone(&loads));
                        spawn(async move {
                            match race(&Process(Arc::clone(&table))).await {
                                // Its flight stays, its load never ends.
                                Winner::Ours if dies && number == 0 => None,
                                Winner::Ours => {
                                    loads.fetch_add(1, Ordering::SeqCst);
                                    table.lock().unwrap().value = Some(7);
                                    Some(7)
                                }
                                Winner::Theirs(value) => Some(value),
                                Winner::Nobody => panic!("somebody loads in time"),
                                Winner::Unknown(()) => panic!("the table answers"),
                            }
                        })
                    })
                    .collect();
                block_on(async {
                    for (number, task) in tasks.into_iter().enumerate() {
                        let answer = task.await.unwrap();
                        assert!(answer == Some(7) || (dies && number == 0), "{answer:?}");
                    }
                });
                assert_eq!(loads.load(Ordering::SeqCst), 1);
            },
            RUNS,
        );
    }
}
