//! Random batches against a plain map, in one store that is closed and reopened along the way.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use larder_storage::faulty::FaultyDisk;
use larder_storage::{Batch, Options, Store, Ticket, counters};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::ops::Bound;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

#[derive(Clone, Debug)]
enum Step {
    Submit(Vec<Change>),
    /// Waits for every batch, then compares a range with the model.
    Compare(Bound<Vec<u8>>, Bound<Vec<u8>>),
    Reopen,
    Crash(u64),
}

#[derive(Clone, Debug)]
enum Change {
    Put(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
    Add(Vec<u8>, [i64; 2]),
}

/// Few and short, so that they meet.
fn key() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop::sample::select(vec![0, 1, b'a', 255]), 0..4)
}

/// Counters have keys of their own.
fn counter_key() -> impl Strategy<Value = Vec<u8>> {
    (0..3_u8).prop_map(|n| vec![b'#', n])
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        4 => (key(), prop::collection::vec(any::<u8>(), 0..600)).prop_map(|(key, value)| Change::Put(key, value)),
        2 => key().prop_map(Change::Delete),
        1 => counter_key().prop_map(Change::Delete),
        2 => (counter_key(), -9..9_i64, -9..9_i64).prop_map(|(key, a, b)| Change::Add(key, [a, b])),
    ]
}

fn bound() -> impl Strategy<Value = Bound<Vec<u8>>> {
    prop_oneof![Just(Bound::Unbounded), key().prop_map(Bound::Included), key().prop_map(Bound::Excluded)]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => prop::collection::vec(change(), 0..12).prop_map(Step::Submit),
        4 => (bound(), bound()).prop_map(|(from, to)| Step::Compare(from, to)),
        1 => Just(Step::Reopen),
        1 => any::<u64>().prop_map(Step::Crash),
    ]
}

fn submit(store: &Store, model: &mut Model, changes: Vec<Change>) -> Ticket {
    let mut batch = Batch::default();
    for change in changes {
        match change {
            Change::Put(key, value) => {
                batch.put(key.clone(), value.clone());
                model.insert(key, value);
            }
            Change::Delete(key) => {
                model.remove(&key);
                batch.delete(key);
            }
            Change::Add(key, [a, b]) => {
                batch.add(key.clone(), [a, b]);
                let before = model.get(&key).map_or([0, 0], |value| counters(value).unwrap());
                let after = [(before[0] + a).to_le_bytes(), (before[1] + b).to_le_bytes()].concat();
                model.insert(key, after);
            }
        }
    }
    store.submit(batch, store.generation()).unwrap()
}

fn compare(store: &Store, model: &Model, from: &Bound<Vec<u8>>, to: &Bound<Vec<u8>>) {
    let within = |key: &[u8]| {
        (match from {
            Bound::Included(from) => key >= &**from,
            Bound::Excluded(from) => key > &**from,
            Bound::Unbounded => true,
        }) && match to {
            Bound::Included(to) => key <= &**to,
            Bound::Excluded(to) => key < &**to,
            Bound::Unbounded => true,
        }
    };
    let mut expected: Vec<_> =
        model.iter().filter(|(key, _)| within(key)).map(|(k, v)| (k.clone(), v.clone())).collect();
    let range = || {
        let (from, to) = (from.as_ref().map(Vec::as_slice), to.as_ref().map(Vec::as_slice));
        store.snapshot().range(from, to).unwrap()
    };
    let forward: Vec<_> =
        range().map(Result::unwrap).map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
    assert_eq!(forward, expected);
    let backward: Vec<_> =
        range().rev().map(Result::unwrap).map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
    expected.reverse();
    assert_eq!(backward, expected);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_store_is_a_sorted_map_that_survives(steps in prop::collection::vec(step(), 1..40)) {
        let options = Options { cache_bytes: 64 << 10, log_bytes: 16 << 10, ..Options::default() };
        let mut disk = FaultyDisk::default();
        let mut store = Store::on_disk(disk.clone(), options).unwrap();
        let mut model = Model::new();
        let mut tickets = Vec::new();
        for step in steps {
            if !matches!(step, Step::Submit(_)) {
                tickets.drain(..).for_each(|ticket: Ticket| ticket.wait().unwrap());
            }
            match step {
                Step::Submit(changes) => {
                    let touched: Vec<_> = changes.iter().filter_map(|change| match change {
                        Change::Put(key, _) => Some(key.clone()),
                        Change::Delete(key) if !key.starts_with(b"#") => Some(key.clone()),
                        Change::Delete(_) | Change::Add(..) => None,
                    }).collect();
                    tickets.push(submit(&store, &mut model, changes));
                    for key in touched {
                        let latest = store.latest(&key).unwrap();
                        prop_assert_eq!(latest.as_deref(), model.get(&key).map(Vec::as_slice));
                    }
                }
                Step::Compare(from, to) => compare(&store, &model, &from, &to),
                Step::Reopen => {
                    store.close().unwrap();
                    store = Store::on_disk(disk.clone(), options).unwrap();
                }
                Step::Crash(seed) => {
                    disk = disk.crash(seed);
                    store = Store::on_disk(disk.clone(), options).unwrap();
                }
            }
        }
        tickets.drain(..).for_each(|ticket| ticket.wait().unwrap());
        compare(&store, &model, &Bound::Unbounded, &Bound::Unbounded);
    }
}
