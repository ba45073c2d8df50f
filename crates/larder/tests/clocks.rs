//! Workers on machines whose clocks differ: nobody is replaced because of what another's clock says.
//!
//! Two machines have a store each, with a clock of its own, on one engine: as an embedded store that is shared, and through
//! the SDK. Time passes for both.

#![expect(clippy::unwrap_used, reason = "the helpers of a test fail with the test")]

mod stores;
mod systems;

use std::time::Duration;

use larder::{Address, Entry, Error, Fields, Lease, Lifecycle, Store, UnixTime, Value};
use larder_model::Clock;
use larder_schema::Environment;

const HOUR: Duration = Duration::from_secs(3600);
/// What `schemas/shops.larder` says of a crawl.
const LEASE: Duration = Duration::from_secs(2 * 3600);
const BEGIN: i64 = 1_800_000_000;

#[derive(Clone, Copy, Debug)]
enum Kind {
    Shared,
    Sdk,
}

/// A machine whose clock is so many seconds ahead of the right time.
struct Machine {
    store: Store,
    crawl: Lifecycle<Entry>,
}

/// What both have in common.
struct World {
    kind: Kind,
    below: Store,
    environment: Environment,
    machines: Vec<Machine>,
}

impl World {
    async fn new(kind: Kind) -> Self {
        let below = Store::open(&Address::Memory).await.unwrap();
        Self { kind, below, environment: systems::environment(), machines: Vec::new() }
    }

    /// Starts a program on a machine whose clock is so many seconds ahead.
    async fn start(&mut self, ahead: i64) -> usize {
        let (clock, _) = Clock::simulated(UnixTime::from_seconds(BEGIN + ahead));
        let store = match self.kind {
            Kind::Shared => Store::sharing(self.below.engine().unwrap().clone(), clock, "shared".to_owned()),
            Kind::Sdk => {
                let lacks = self.below.lacks().await.unwrap().clone();
                Store::through(self.below.inside().unwrap(), clock, "the SDK".to_owned(), lacks)
            }
        };
        let store = store.observed();
        let system = systems::open_in("shops", &store, &self.environment).await;
        let crawl = system.entries("Shop").unwrap().lifecycle("crawl").unwrap();
        self.machines.push(Machine { store, crawl });
        self.machines.len() - 1
    }

    fn pass(&self, time: Duration) {
        for machine in &self.machines {
            machine.store.clock().advance(time);
        }
    }

    async fn claim(&self, machine: usize) -> Option<Lease<Entry>> {
        self.machines[machine].crawl.claim("DE").await.unwrap().next().await.unwrap()
    }
}

fn domain() -> Fields {
    Fields::from([("domain".to_owned(), Value::from("a.de"))])
}

/// Two machines, the second of which is so many seconds ahead, and one shop that the first has claimed.
async fn two(kind: Kind, ahead: i64) -> (World, Lease<Entry>) {
    let mut world = World::new(kind).await;
    world.start(0).await;
    world.start(ahead).await;
    let mut shop = domain();
    shop.insert("country".to_owned(), Value::from("DE"));
    let system = systems::open_in("shops", &world.machines[0].store, &world.environment).await;
    system.entries("Shop").unwrap().create(shop).await.unwrap();
    let lease = world.claim(0).await.expect("it was never crawled");
    (world, lease)
}

const SKEWS: [i64; 5] = [-100_000, -60, 0, 60, 100_000];

async fn on_both(test: impl AsyncFn(Kind, i64)) {
    for kind in [Kind::Shared, Kind::Sdk] {
        for ahead in SKEWS {
            eprintln!("{kind:?}, {ahead} s ahead");
            test(kind, ahead).await;
        }
    }
}

#[test]
fn s8_a_worker_that_renews_its_lease_is_not_replaced_whatever_clocks_say() {
    stores::run(on_both(async |kind, ahead| {
        let (world, lease) = two(kind, ahead).await;
        for step in 0..20 {
            assert!(world.claim(1).await.is_none(), "step {step}");
            let held = world.machines[1].crawl.hold(domain()).await;
            assert!(matches!(held, Err(Error::Conflict { .. })), "step {step}: {held:?}");
            world.pass(LEASE / 3);
            lease.renew().await.unwrap();
        }
        lease.finish().await.unwrap();
    }));
}

#[test]
fn s8_a_dead_workers_shop_comes_back_after_its_lease_whatever_clocks_say() {
    stores::run(on_both(async |kind, ahead| {
        let (world, lease) = two(kind, ahead).await;
        drop(lease);
        assert!(world.claim(1).await.is_none(), "it was seen for the first time");
        world.pass(LEASE);
        assert!(world.claim(1).await.is_none(), "its end is written in whole seconds");
        world.pass(Duration::from_secs(1));
        let lease = world.claim(1).await.expect("it was the same for as long as a lease lasts");
        assert_eq!(lease.fence(), 2);
        lease.finish().await.unwrap();
    }));
}

#[test]
fn s8_a_program_that_has_just_started_replaces_nobody() {
    stores::run(on_both(async |kind, ahead| {
        let (mut world, lease) = two(kind, ahead).await;
        world.pass(LEASE / 2);
        lease.renew().await.unwrap();
        let late = world.start(100_000).await;
        assert!(world.claim(late).await.is_none());
        assert!(world.machines[late].crawl.hold(domain()).await.is_err());
        lease.renew().await.unwrap();
        // It knows nothing of the lease, and is told how far clocks are apart: by its clock it ended longer ago than that.
        let claims = world.machines[late].crawl.claim("DE").clocks_within(HOUR).await;
        let other = claims.unwrap().next().await.unwrap().expect("the promise was wrong");
        assert!(matches!(lease.renew().await, Err(Error::LeaseLost { .. })), "the first one is told");
        assert!(other.fence() > lease.fence());
    }));
}

#[test]
fn s8_a_program_that_runs_shortly_takes_over_by_the_clock_if_it_says_how_far_clocks_are_apart() {
    stores::run(async {
        for (ahead, apart, taken) in [(0, 60, true), (0, 3600 * 3, false), (-3600, 60, false)] {
            let (world, lease) = two(Kind::Sdk, ahead).await;
            drop(lease);
            world.pass(LEASE + HOUR);
            let apart = Duration::from_secs(apart);
            let claims = world.machines[1].crawl.claim("DE").clocks_within(apart).await;
            let lease = claims.unwrap().next().await.unwrap();
            assert_eq!(lease.is_some(), taken, "{ahead} s ahead, within {apart:?}");
        }
    });
}

#[test]
fn s8_the_one_process_of_an_embedded_store_goes_by_its_clock_also_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let address = Address::Directory(directory.path().join("data"));
    let environment = systems::environment();
    let taken = |later: Duration| {
        let mut taken = None;
        // A runtime for each: what the one before left running ends with it.
        stores::run(async {
            let store = Store::open(&address).await.unwrap();
            store.clock().advance(later);
            let shops = systems::open_in("shops", &store, &environment).await.entries("Shop").unwrap();
            if later.is_zero() {
                let mut shop = domain();
                shop.insert("country".to_owned(), Value::from("DE"));
                shops.create(shop).await.unwrap();
            }
            let mut claims = shops.lifecycle("crawl").unwrap().claim("DE").await.unwrap();
            taken = claims.next().await.unwrap().map(|lease| lease.fence());
        });
        taken
    };
    assert_eq!(taken(Duration::ZERO), Some(1));
    assert_eq!(taken(LEASE / 2), None);
    assert_eq!(taken(LEASE * 2), Some(2));
}

#[test]
fn a_lease_that_is_watched_is_read_four_times_while_it_lasts() {
    stores::run(async {
        let (world, _lease) = two(Kind::Sdk, 0).await;
        let requests = world.machines[1].store.requests();
        let before = requests.count("GetItem");
        for _ in 0..120 {
            assert!(world.claim(1).await.is_none());
            world.pass(LEASE / 120);
        }
        assert_eq!(requests.count("GetItem") - before, 4);
    });
}

#[test]
fn s8_listings_go_by_the_clock_and_release_gives_back_what_they_show() {
    stores::run(async {
        let (world, lease) = two(Kind::Sdk, 0).await;
        drop(lease);
        world.pass(LEASE + HOUR);
        let crawl = &world.machines[1].crawl;
        assert_eq!(crawl.stuck("DE").await.unwrap().len(), 1);
        crawl.release(domain()).await.unwrap();
        assert!(crawl.stuck("DE").await.unwrap().is_empty());
        assert!(world.claim(1).await.is_some());
    });
}

/// The lease of a shop as a machine without faults sees it.
type Written = (Option<String>, Option<UnixTime>, i64);

#[test]
fn s8_no_lease_is_taken_over_before_it_is_over_whatever_clocks_say_and_answers_are_lost() {
    for kind in [Kind::Shared, Kind::Sdk] {
        let (mut taken, mut finished) = (0, 0);
        for seed in 0..12 {
            eprintln!("{kind:?}, seed {seed}");
            stores::run(async {
                let done = at_random(kind, seed).await;
                (taken, finished) = (taken + done.0, finished + done.1);
            });
        }
        assert!(taken > 20 && finished > 20, "{taken} taken over, {finished} finished");
    }
}

/// How many leases were taken over, and how many ended as they should.
async fn at_random(kind: Kind, seed: u64) -> (u32, u32) {
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut world, first) = two(kind, random.i64(-100_000..100_000)).await;
    let looker = world.start(0).await;
    let look = async |world: &World| -> Option<Written> {
        let standing = world.machines[looker].crawl.standing(domain()).await.unwrap().unwrap();
        (standing.state == "progress").then_some((standing.owner.clone(), standing.until, standing.fence))
    };
    for machine in &world.machines[..looker] {
        machine.store.faults().seed(seed).throttle(0.1).lose_answers(0.15);
    }
    let mut held = vec![first];
    let (mut now, mut changed, mut was) = (Duration::ZERO, Duration::ZERO, look(&world).await);
    let (mut taken, mut finished) = (0, 0);
    for step in 0..200 {
        let machine = random.usize(..looker);
        let at = (!held.is_empty()).then(|| random.usize(..held.len()));
        match (random.u32(..8), at) {
            (0..=2, _) => match world.machines[machine].crawl.hold(domain()).await {
                Ok(lease) => {
                    let before = was.as_ref().map_or(0, |(_, _, fence)| *fence);
                    assert!(lease.fence() > before, "step {step}");
                    if was.as_ref().is_some_and(|(owner, ..)| owner.is_some()) {
                        let since = now - changed;
                        assert!(since >= LEASE, "step {step}: {was:?} was renewed {since:?} ago");
                        taken += 1;
                    }
                    held.push(lease);
                }
                Err(Error::Conflict { .. } | Error::Store(_)) => {}
                Err(error) => panic!("{error}"),
            },
            (3, Some(at)) => {
                let lease = held.swap_remove(at);
                let ours = was.as_ref().is_some_and(|(owner, ..)| owner.as_deref() == Some(lease.owner()));
                match lease.finish().await {
                    Ok(_) => {
                        assert!(ours, "step {step}: {was:?}");
                        finished += 1;
                    }
                    Err(Error::LeaseLost { .. }) => assert!(!ours, "step {step}: {was:?}"),
                    Err(Error::Store(_)) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            (4, Some(at)) => drop(held[at].renew().await),
            (5, Some(at)) => drop(held.swap_remove(at)),
            _ => {
                let time = Duration::from_secs(random.u64(..9000));
                world.pass(time);
                now += time;
            }
        }
        let is = look(&world).await;
        if is != was {
            (was, changed) = (is, now);
        }
    }
    (taken, finished)
}
