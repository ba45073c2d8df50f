//! What is not damaged can be brought out, and what is gone is told.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use larder_storage::faulty::FaultyDisk;
use larder_storage::{Batch, Key, Lost, Options, Salvaged, Store, salvage_disk};
use std::collections::BTreeMap;
use std::ops::Bound::Unbounded;

type Entries = BTreeMap<Vec<u8>, Vec<u8>>;

const PAGE: usize = 4096;
const KEYS: u32 = 6000;
/// Where the mark of the log is, and where the tree begins.
const MARK: usize = 4 << 10;
const TREE: usize = 2 * ((8 << 10) + (128 << 10)) + (1 << 20);

fn options(sealed: bool) -> Options {
    Options { log_bytes: 1 << 20, key: sealed.then(|| Key::new([3; 32])), ..Options::default() }
}

fn key(n: u32) -> Vec<u8> {
    format!("key/{n:06}").into_bytes()
}

/// Some values are larger than a page. Half of the keys were written twice, so that old pages lie about.
fn filled(sealed: bool) -> (FaultyDisk, Entries) {
    let disk = FaultyDisk::default();
    let store = Store::on_disk(disk.clone(), options(sealed)).unwrap();
    let mut entries = Entries::new();
    for round in 0..2u32 {
        for first in (0..KEYS).step_by(500) {
            let mut batch = Batch::default();
            for n in (first..first + 500).filter(|n| round == 0 || n % 2 == 0) {
                let length = if n % 97 == 0 { 10_000 } else { 100 };
                let value = format!("{n} in round {round} ").repeat(length / 16).into_bytes();
                batch.put(key(n), value.clone());
                entries.insert(key(n), value);
            }
            store.write(batch).unwrap();
        }
    }
    let mut batch = Batch::default();
    (0..KEYS).step_by(50).for_each(|n| batch.delete(key(n)));
    (0..KEYS).step_by(50).for_each(|n| drop(entries.remove(&key(n))));
    store.write(batch).unwrap();
    store.close().unwrap();
    (disk, entries)
}

fn salvaged(bytes: &[u8], sealed: bool) -> (Salvaged, Entries) {
    let to = Store::memory(Options::default()).unwrap();
    let salvaged = salvage_disk(FaultyDisk::from(bytes.to_vec()), options(sealed), &to).unwrap();
    let found = to.snapshot().range(Unbounded, Unbounded).unwrap();
    (salvaged, found.map(|entry| entry.map(|(key, value)| (key.to_vec(), value.to_vec())).unwrap()).collect())
}

fn is_told(key: &[u8], lost: &[Lost]) -> bool {
    lost.iter().any(|lost| match lost {
        Lost::Value { key: lost, .. } => lost == key,
        Lost::Keys { from, before } => {
            from.as_slice() <= key && before.as_deref().is_none_or(|before| key < before)
        }
    })
}

#[test]
fn a_whole_store_comes_out_whole_with_what_only_its_log_holds() {
    for sealed in [false, true] {
        let (disk, mut entries) = filled(sealed);
        let (report, found) = salvaged(&disk.bytes(), sealed);
        assert!(report.lost.is_empty() && report.lost_records == 0, "{report:?}");
        assert!(found == entries);

        let store = Store::on_disk(disk.clone(), options(sealed)).unwrap();
        let mut batch = Batch::default();
        batch.put(key(2), b"in the log too".to_vec());
        store.write(batch).unwrap();
        entries.insert(key(2), b"in the log too".to_vec());
        let mut batch = Batch::default();
        batch.put(b"new".to_vec(), b"in the log".to_vec());
        batch.delete(key(1));
        store.write(batch).unwrap();
        entries.insert(b"new".to_vec(), b"in the log".to_vec());
        entries.remove(&key(1));
        let (report, found) = salvaged(&disk.crash(0).bytes(), sealed);
        assert_eq!((report.records, report.lost_records), (2, 0));
        assert!(found == entries);
    }
}

/// Any page of the tree is zeroed, one at a time: what was not on it comes out, whether it held entries or the way to others.
#[test]
fn a4_one_damaged_page_costs_what_was_on_it_and_no_more() {
    let (disk, entries) = filled(false);
    let image = disk.bytes();
    let of_kind = |kind: u8| -> Vec<usize> {
        let pages = (TREE..image.len()).step_by(PAGE);
        pages.filter(|at| image[*at] == kind && image[at + 1] == 0).collect()
    };
    let (leaves, branches) = (of_kind(1), of_kind(2));
    assert!(leaves.len() > 100 && branches.len() > 5, "{} {}", leaves.len(), branches.len());
    let (mut lost_to_leaves, mut below) = (0, 0);
    for (at, is_leaf) in leaves
        .iter()
        .step_by(leaves.len() / 60)
        .map(|at| (at, true))
        .chain(branches.iter().map(|at| (at, false)))
    {
        let mut bytes = image.clone();
        bytes[*at..at + PAGE].fill(0);
        let (report, found) = salvaged(&bytes, false);
        for (key, value) in &found {
            assert_eq!(entries.get(key), Some(value), "page {at}: {}", String::from_utf8_lossy(key));
        }
        let missing: Vec<_> = entries.keys().filter(|key| !found.contains_key(*key)).collect();
        for key in &missing {
            assert!(
                is_told(key, &report.lost),
                "page {at}: {} {:?}",
                String::from_utf8_lossy(key),
                report.lost
            );
        }
        assert!(missing.len() < 200, "page {at}: {} entries", missing.len());
        if is_leaf {
            lost_to_leaves += missing.len();
        } else {
            assert!(missing.is_empty(), "page {at}");
            below +=
                usize::from(Store::on_disk(FaultyDisk::from(bytes), options(false)).is_ok_and(|store| {
                    store.snapshot().range(Unbounded, Unbounded).is_err()
                        || store.snapshot().range(Unbounded, Unbounded).unwrap().any(|entry| entry.is_err())
                }));
        }
    }
    assert!(lost_to_leaves > 0, "no leaf was in use");
    assert!(below > 0, "no branch was in use");
}

#[test]
fn records_of_the_log_around_a_damaged_one_come_out_and_it_is_told() {
    let disk = FaultyDisk::default();
    let store = Store::on_disk(disk.clone(), options(false)).unwrap();
    for n in 0..10 {
        let mut batch = Batch::default();
        batch.put(key(n), b"in the log".repeat(30));
        store.write(batch).unwrap();
    }
    let image = disk.crash(0).bytes();
    let at = image.windows(10).position(|window| window == key(4)).unwrap();
    let mut bytes = image;
    bytes[at] ^= 1;
    assert!(Store::on_disk(FaultyDisk::from(bytes.clone()), options(false)).is_err());
    let (report, found) = salvaged(&bytes, false);
    assert_eq!((report.records, report.lost_records), (9, 1));
    let expected: Vec<_> = (0..10).filter(|n| *n != 4).map(key).collect();
    assert_eq!(found.into_keys().collect::<Vec<_>>(), expected);
}

/// Without the table that tells where the log begins, what the tree has taken from it is not brought back over what came later.
#[test]
fn without_the_format_table_no_old_record_of_the_log_takes_the_place_of_a_newer_value() {
    let disk = FaultyDisk::default();
    let store = Store::on_disk(disk.clone(), options(false)).unwrap();
    let write = |n: u32, value: &[u8]| {
        let mut batch = Batch::default();
        batch.put(key(n), value.to_vec());
        store.write(batch).unwrap();
    };
    write(1, b"old");
    // More than the log holds: it goes to the tree alone.
    let mut batch = Batch::default();
    batch.put(key(1), b"new".to_vec());
    batch.put(key(2), vec![2; 2 << 20]);
    store.write(batch).unwrap();
    write(3, b"in the log");
    let mut bytes = disk.crash(0).bytes();
    let mut hit = 0;
    for page in bytes[TREE..].chunks_mut(PAGE) {
        if page[0] == 1 && page.windows(7).any(|window| window == b"version") {
            page.fill(0);
            hit += 1;
        }
    }
    assert!(hit > 0);
    let check = |bytes: &[u8], lost_records: u64| {
        let (report, found) = salvaged(bytes, false);
        assert_eq!(found[&key(1)], b"new");
        assert_eq!(found[&key(3)], b"in the log");
        assert_eq!((report.records, report.lost_records), (1, lost_records), "{report:?}");
    };
    check(&bytes, 0);
    // Without the mark nobody knows whether the tree has taken the record before.
    bytes[MARK..MARK + 512].fill(0);
    check(&bytes, 1);
}

/// Wherever the file ends, what lies before that comes out, and the rest is told.
#[test]
fn a_file_that_was_cut_short_gives_what_is_left_of_it() {
    for sealed in [false, true] {
        let (disk, entries) = filled(sealed);
        let whole = disk.bytes();
        let mut most = 0;
        // From within the log, which lies before the tree, to the last byte.
        for cut in (700_000..whole.len()).step_by(300_000).chain([whole.len() - 1]) {
            let (report, found) = salvaged(&whole[..cut], sealed);
            most = most.max(found.len());
            for (key, value) in &entries {
                // Without the tree, what the log still holds may be older than what the tree held.
                assert!(found.get(key) == Some(value) || is_told(key, &report.lost), "cut at {cut}: {key:?}");
            }
        }
        assert!(most > entries.len() / 2, "{most} of {}", entries.len());
    }
}
