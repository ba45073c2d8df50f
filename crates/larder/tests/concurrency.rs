//! The single flight, the queue of writes behind and the lease, under many interleavings.
//!
//! These are the files of the layer themselves, built on a lock that [`shuttle`] controls. What runs beside them
//! here stands for tasks, the store and the clock.

#![allow(clippy::unwrap_used, reason = "a test that fails may panic")]

#[path = "../src/cache/flight.rs"]
#[allow(dead_code, reason = "the layer uses more of it than the models do")]
mod flight;
#[path = "../src/cache/lease.rs"]
mod lease;
#[path = "../src/cache/queue.rs"]
#[allow(dead_code, reason = "the layer uses more of it than the models do")]
mod queue;

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
use lease::{Place, Turn, turn};
use queue::{Pushed, Queue};

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

#[test]
fn what_is_forgotten_while_it_is_written_is_not_tried_again() {
    shuttle::check_random(
        || {
            let queue = Arc::new(Queue::new(10));
            assert_eq!(queue.push(1, 1), Pushed::Start);
            let worker = Arc::clone(&queue);
            let worker = spawn(async move {
                let mut tries = 0;
                while let Some(batch) = worker.take(25) {
                    tries += 1;
                    assert!(tries < 100, "it ends when it is forgotten");
                    yield_now().await;
                    worker.put_back(batch.iter().map(|(key, _)| key));
                    yield_now().await;
                }
            });
            let forgetting = Arc::clone(&queue);
            let forgetting = spawn(async move { forgetting.forget(&1) });
            block_on(async {
                forgetting.await.unwrap();
                worker.await.unwrap();
            });
            assert_eq!((queue.len(), queue.pending(&1)), (0, None));
        },
        RUNS,
    );
}

/// What several processes share: a value, and a lease with its end.
#[derive(Debug, Default)]
struct Table {
    value: Option<u32>,
    leased_until: Option<u32>,
    now: u32,
}

struct Process(Arc<Mutex<Table>>);

const LEASE: u32 = 10;

impl Place for Process {
    type Found = u32;
    type Error = ();

    async fn take(&self) -> Result<bool, ()> {
        yield_now().await;
        let mut table = self.0.lock().unwrap();
        let is_free = table.value.is_none() && table.leased_until.is_none_or(|until| until < table.now);
        if is_free {
            table.leased_until = Some(table.now + LEASE);
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
                            match turn(&Process(Arc::clone(&table))).await {
                                // Its lease stays, its load never ends.
                                Turn::Ours if dies && number == 0 => None,
                                Turn::Ours => {
                                    loads.fetch_add(1, Ordering::SeqCst);
                                    table.lock().unwrap().value = Some(7);
                                    Some(7)
                                }
                                Turn::Theirs(value) => Some(value),
                                Turn::Nobody => panic!("somebody loads in time"),
                                Turn::Unknown(()) => panic!("the table answers"),
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
