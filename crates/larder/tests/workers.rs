//! Workers on shops, in random order, with crashes, jumps of the clock, and a store that fails or keeps its answers to
//! itself.
//!
//! A failure prints the seed that replays it; `LARDER_SEED` runs that one alone.

#![expect(clippy::unwrap_used, reason = "the helpers of a test fail with the test")]

mod stores;
mod systems;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fastrand::Rng;
use larder::{Entry, Error, Fields, Lease, Lifecycle, Standing, Store, UnixTime, Value};

const SHOPS: usize = 6;
const STEPS: usize = 150;
const SEEDS: u64 = 24;

fn shop(number: usize) -> Fields {
    Fields::from([("domain".to_owned(), Value::Text(format!("{number}.de")))])
}

fn domain(entry: &Entry) -> String {
    entry.fields["domain"].as_str().expect("it is a text").to_owned()
}

fn seeds() -> Vec<u64> {
    match std::env::var("LARDER_SEED").ok().and_then(|text| text.parse().ok()) {
        Some(seed) => vec![seed],
        None => (0..SEEDS).collect(),
    }
}

async fn open(store: &Store) -> Lifecycle<Entry> {
    let system = systems::open("shops", store).await;
    let shops = system.entries("Shop").expect("it is declared");
    for number in 0..SHOPS {
        let mut given = shop(number);
        given.insert("country".to_owned(), Value::from("DE"));
        shops.create(given).await.unwrap();
    }
    shops.lifecycle("crawl").expect("it is declared")
}

/// Every shop as it is, read without faults.
async fn look(store: &Store, crawl: &Lifecycle<Entry>) -> BTreeMap<String, Standing<Entry>> {
    let quiet = store.faults().clone();
    quiet.only(&["none of them"]);
    let mut found = BTreeMap::new();
    for number in 0..SHOPS {
        let standing = crawl.standing(shop(number)).await.unwrap().expect("no shop is lost");
        found.insert(domain(&standing), standing);
    }
    quiet.only(&[]);
    found
}

fn is_held(standing: &Standing<Entry>, now: UnixTime) -> bool {
    standing.state == "progress" && standing.until.is_some_and(|until| until.seconds() >= now.seconds())
}

#[test]
fn s8_no_shop_is_lost_and_none_is_held_twice() {
    for seed in seeds() {
        eprintln!("LARDER_SEED={seed}");
        stores::run(one_at_a_time(seed));
    }
}

/// One call after the other, so that each can be held against what was there before it.
async fn one_at_a_time(seed: u64) {
    let store = Store::memory().await;
    let crawl = open(&store).await;
    let mut random = Rng::with_seed(seed);
    store.faults().seed(seed).throttle(0.1).fail(0.05).lose_answers(0.15);
    let mut held: Vec<Lease<Entry>> = Vec::new();
    let mut finished = 0;
    for _ in 0..STEPS {
        let before = look(&store, &crawl).await;
        let now = store.clock().now();
        let at = (!held.is_empty()).then(|| random.usize(..held.len()));
        match (random.u32(..12), at) {
            (0..=3, _) | (_, None) => {
                let claims = crawl.claim("DE").older_than(Duration::from_secs(3600)).await;
                let Ok(Some(lease)) = claims.unwrap().next().await else { continue };
                let was = &before[&domain(&lease)];
                assert!(!is_held(was, now), "{was:?} was taken from its owner");
                assert_eq!(lease.fence(), was.fence + 1, "{was:?}");
                held.push(lease);
            }
            (4..=6, Some(at)) => {
                let lease = held.swap_remove(at);
                let (owner, fence) = (lease.owner().to_owned(), lease.fence());
                let was = &before[&domain(&lease)];
                let ours = was.owner.as_ref() == Some(&owner) && was.fence == fence;
                match lease.finish().await {
                    Ok(_) => {
                        assert!(ours, "{was:?} was finished by {owner}, claim {fence}");
                        finished += 1;
                    }
                    Err(Error::LeaseLost { .. }) => assert!(!ours, "{was:?} was still {owner}'s"),
                    Err(Error::Store(_)) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            (7, Some(at)) if random.bool() => drop(held.swap_remove(at)),
            (7 | 9, Some(at)) => {
                let lease = &held[at];
                let was = &before[&domain(lease)];
                let ours = was.owner.as_deref() == Some(lease.owner()) && was.fence == lease.fence();
                match lease.renew().await {
                    Ok(()) => assert!(ours, "{was:?} was renewed by {}", lease.owner()),
                    Err(Error::LeaseLost { .. }) => assert!(!ours, "{was:?} was still {}'s", lease.owner()),
                    Err(Error::Store(_)) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            (8, Some(at)) => {
                let lease = held.swap_remove(at);
                let given_back =
                    if random.bool() { lease.release().await.map(drop) } else { lease.retry("no").await };
                match given_back {
                    Ok(()) | Err(Error::LeaseLost { .. } | Error::Store(_)) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            _ => store.clock().advance(Duration::from_secs(random.u64(..3 * 3600))),
        }
    }
    assert!(finished > 0, "some work was done");
    drop(held);
    store.faults().reset();
    everything_is_done(&store, &crawl).await;
}

/// What nobody holds any more is worked off, and every shop is still there.
async fn everything_is_done(store: &Store, crawl: &Lifecycle<Entry>) {
    store.clock().advance(Duration::from_secs(4 * 86_400));
    let mut done = BTreeSet::new();
    let mut claims = crawl.claim("DE").await.unwrap();
    while let Some(lease) = claims.next().await.unwrap() {
        assert!(done.insert(domain(&lease)), "{} came twice", domain(&lease));
        lease.finish().await.unwrap();
    }
    assert_eq!(done.len(), SHOPS);
    assert_eq!(crawl.in_state("done").group("DE").await.unwrap().len(), SHOPS);
    assert!(crawl.stuck("DE").await.unwrap().is_empty());
}

#[test]
fn s8_workers_at_the_same_time_never_share_a_claim() {
    for seed in seeds().into_iter().take(6) {
        eprintln!("LARDER_SEED={seed}");
        stores::run(all_at_once(seed));
    }
}

/// Claims and finishes as they were answered, by shop.
#[derive(Default)]
struct History {
    claimed: BTreeSet<(String, i64)>,
    finished: BTreeSet<(String, i64)>,
}

async fn all_at_once(seed: u64) {
    let store = Store::memory().await;
    let crawl = open(&store).await;
    store.faults().seed(seed).throttle(0.05).lose_answers(0.1);
    let history = Arc::new(Mutex::new(History::default()));
    let workers: Vec<_> = (0..4)
        .map(|number| {
            let random = Rng::with_seed(seed * 31 + number);
            tokio::spawn(worker(store.clone(), crawl.clone(), Arc::clone(&history), random))
        })
        .collect();
    for worker in workers {
        worker.await.unwrap();
    }
    store.faults().reset();
    let now = look(&store, &crawl).await;
    for (shop, fence) in &history.lock().unwrap().finished {
        assert!(*fence <= now[shop].fence, "claim {fence} of {shop} is from the future");
    }
    everything_is_done(&store, &crawl).await;
}

async fn worker(store: Store, crawl: Lifecycle<Entry>, history: Arc<Mutex<History>>, mut random: Rng) {
    let mut forgotten = Vec::new();
    for _ in 0..30 {
        let claims = crawl.claim("DE").older_than(Duration::from_secs(600)).await;
        let Ok(Some(lease)) = claims.unwrap().next().await else {
            store.clock().advance(Duration::from_secs(random.u64(..7200)));
            continue;
        };
        let claim = (domain(&lease), lease.fence());
        assert!(history.lock().unwrap().claimed.insert(claim.clone()), "{claim:?} was given to two workers");
        match random.u32(..4) {
            // It comes back to this one when others have taken it over.
            0 => forgotten.push(lease),
            1 => drop(lease),
            _ => finish(&crawl, &history, lease).await,
        }
        if let (true, Some(lease)) = (random.bool(), forgotten.pop()) {
            finish(&crawl, &history, lease).await;
        }
    }
}

/// Only the last claim of a shop may finish it.
async fn finish(crawl: &Lifecycle<Entry>, history: &Mutex<History>, lease: Lease<Entry>) {
    let claim = (domain(&lease), lease.fence());
    let name = Fields::from([("domain".to_owned(), Value::Text(claim.0.clone()))]);
    let before = crawl.standing(name).await.ok().flatten();
    match lease.finish().await {
        Ok(_) => {
            let newer = before.is_some_and(|before| before.fence > claim.1);
            assert!(!newer, "{claim:?} finished after a newer claim");
            assert!(history.lock().unwrap().finished.insert(claim.clone()), "{claim:?} finished twice");
        }
        Err(Error::LeaseLost { .. } | Error::Store(_)) => {}
        Err(error) => panic!("{error}"),
    }
}
