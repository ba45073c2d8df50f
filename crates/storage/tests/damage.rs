//! Pages that cannot be read: what is around them comes, and what is on them is told.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use larder_storage::faulty::FaultyDisk;
use larder_storage::{Batch, Error, Lost, Options, Piece, Snapshot, Store};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::ops::Bound;

const PAGE: usize = 4096;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn options() -> Options {
    Options { log_bytes: 64 << 10, ..Options::default() }
}

/// The bytes of a closed store that holds these.
fn image(model: &Model) -> Vec<u8> {
    let disk = FaultyDisk::default();
    let store = Store::on_disk(disk.clone(), options()).unwrap();
    for (key, value) in model {
        let mut batch = Batch::default();
        batch.put(key.clone(), value.clone());
        store.submit(batch, store.generation()).unwrap();
    }
    store.close().unwrap();
    disk.bytes()
}

/// Where pages of the tree seem to begin.
fn tree_pages(image: &[u8]) -> Vec<usize> {
    let head = 4096 + (64 << 10);
    (head..image.len()).step_by(PAGE).filter(|&at| matches!(image[at], 1 | 2)).collect()
}

/// What a look at each key says.
fn by_key(snapshot: &Snapshot, model: &Model) -> (Model, Vec<Vec<u8>>) {
    let (mut there, mut lost) = (Model::new(), Vec::new());
    for key in model.keys() {
        match snapshot.get(key) {
            Ok(Some(value)) => drop(there.insert(key.clone(), value.to_vec())),
            Ok(None) => panic!("{key:?} is said to be absent"),
            Err(Error::Damaged { .. }) => lost.push(key.clone()),
            Err(error) => panic!("{error}"),
        }
    }
    (there, lost)
}

fn within(bounds: (&Bound<Vec<u8>>, &Bound<Vec<u8>>), key: &[u8]) -> bool {
    let after = match bounds.0 {
        Bound::Included(from) => key >= &from[..],
        Bound::Excluded(from) => key > &from[..],
        Bound::Unbounded => true,
    };
    after
        && match bounds.1 {
            Bound::Included(to) => key <= &to[..],
            Bound::Excluded(to) => key < &to[..],
            Bound::Unbounded => true,
        }
}

/// Reads the pieces of a range and compares them with a look at each key.
fn check(
    snapshot: &Snapshot,
    model: &Model,
    from: &Bound<Vec<u8>>,
    to: &Bound<Vec<u8>>,
    forward: bool,
) -> usize {
    let (mut there, mut lost) = by_key(snapshot, model);
    there.retain(|key, _| within((from, to), key));
    lost.retain(|key| within((from, to), key));
    let (mut found, mut ranges) = (Vec::new(), Vec::new());
    for piece in snapshot.pieces(from.as_ref().map(Vec::as_slice), to.as_ref().map(Vec::as_slice), forward) {
        match piece.unwrap() {
            Piece::Entry(key, value) => found.push((key.to_vec(), value.to_vec())),
            Piece::Lost(Lost::Keys { from: first, before }) => {
                assert!(before.as_ref().is_none_or(|before| first < *before), "an empty range is told");
                ranges.push((first, before));
            }
            Piece::Lost(other) => panic!("{other:?}"),
        }
    }
    if !forward {
        found.reverse();
        ranges.reverse();
    }
    assert!(found.iter().map(|(key, _)| key).is_sorted());
    assert!(ranges.is_sorted());
    let missed = there.keys().find(|key| found.binary_search_by(|(found, _)| found.cmp(key)).is_err());
    assert_eq!(
        missed,
        None,
        "of {} entries {} were read; told as lost: {ranges:?}",
        there.len(),
        found.len()
    );
    assert!(there.iter().eq(found.iter().map(|(key, value)| (key, value))));
    let is_told = |key: &Vec<u8>| {
        ranges.iter().any(|(first, before)| first <= key && before.as_ref().is_none_or(|before| key < before))
    };
    assert!(lost.iter().all(is_told), "a lost key is not told");
    assert!(!found.iter().any(|(key, _)| is_told(key)), "a key is told as lost, and was read");
    for (first, before) in &ranges {
        let last = before.clone().map_or(Bound::Unbounded, Bound::Excluded);
        assert!(within((from, &last), first) && within((from, to), first));
    }
    lost.len()
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        any::<u16>().prop_map(|n| n.to_be_bytes().to_vec()),
        // Many that begin alike, as those of one partition do.
        any::<u16>().prop_map(|n| [b"a partition that is large", &n.to_be_bytes()[..]].concat()),
    ]
}

/// A key and how long its value is.
fn entry() -> impl Strategy<Value = (Vec<u8>, usize)> {
    (key(), prop_oneof![9 => 0..300usize, 1 => 3000..9000usize])
}

fn bound() -> impl Strategy<Value = Bound<Vec<u8>>> {
    prop_oneof![
        3 => Just(Bound::Unbounded),
        1 => key().prop_map(Bound::Included),
        1 => key().prop_map(Bound::Excluded),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn all_but_damaged_pages_is_read_and_they_are_told(
        entries in prop::collection::vec(entry(), 1..900),
        hit in prop::collection::vec(any::<prop::sample::Index>(), 1..7),
        ranges in prop::collection::vec((bound(), bound()), 4),
    ) {
        let model = entries.into_iter().map(|(key, length)| (key, vec![b'v'; length])).collect();
        let mut image = image(&model);
        let pages = tree_pages(&image);
        for index in hit {
            let at = *index.get(&pages);
            image[at..at + PAGE].fill(0);
        }
        // Some pages are those without which nothing opens.
        let Ok(store) = Store::on_disk(FaultyDisk::from(image), options()) else { return Ok(()) };
        let snapshot = store.snapshot();
        for (from, to) in ranges.into_iter().chain([(Bound::Unbounded, Bound::Unbounded)]) {
            for forward in [true, false] {
                check(&snapshot, &model, &from, &to, forward);
            }
        }
    }
}

#[test]
fn each_damaged_page_takes_no_more_than_its_own_entries() {
    let value = [7; 100];
    // Keys so long that inner pages have few children, and there are some.
    let key = |n: u32| [&[b'k'; 100][..], &n.to_be_bytes()].concat();
    let model: Model = (0..2000).map(|n| (key(n), value.to_vec())).collect();
    let whole = image(&model);
    let (mut opened, mut damaged, mut most) = (0, 0, 0);
    for at in tree_pages(&whole) {
        let mut image = whole.clone();
        image[at..at + PAGE].fill(0);
        let Ok(store) = Store::on_disk(FaultyDisk::from(image), options()) else { continue };
        opened += 1;
        let lost = check(&store.snapshot(), &model, &Bound::Unbounded, &Bound::Unbounded, true);
        assert_eq!(lost, check(&store.snapshot(), &model, &Bound::Unbounded, &Bound::Unbounded, false));
        damaged += usize::from(lost > 0);
        most = most.max(lost);
    }
    assert!(damaged >= 50, "{opened} images opened, {damaged} of them damaged");
    assert!(most > 200, "an inner page takes all with it that is below it, not just {most}");
}

#[test]
fn no_two_damaged_pages_make_opening_panic() {
    let model: Model = (0..200u32).map(|n| (n.to_be_bytes().to_vec(), vec![7; 50])).collect();
    let whole = image(&model);
    let pages = tree_pages(&whole);
    let mut refused = 0;
    for (n, first) in pages.iter().enumerate() {
        for second in &pages[n + 1..] {
            let mut image = whole.clone();
            for at in [*first, *second] {
                image[at..at + PAGE].fill(0);
            }
            refused += usize::from(Store::on_disk(FaultyDisk::from(image), options()).is_err());
        }
    }
    assert!(refused > 0, "of {} pages", pages.len());
}
