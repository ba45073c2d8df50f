//! Files that earlier Larders wrote: each still opens, with everything in it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use larder_storage::{Batch, Error, Key, Options, Store, counters};
use std::io::Read;
use std::path::Path;

/// As a crash left it: twenty keys in the tree, and in the log one more, a counter, and a key taken away.
fn lay(dir: &Path, file: &str) {
    let packed = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/formats").join(file);
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(std::fs::File::open(packed).unwrap()).read_to_end(&mut bytes).unwrap();
    std::fs::write(dir.join("larder.redb"), bytes).unwrap();
}

fn check(store: &Store) {
    let snapshot = store.snapshot();
    for n in 1..20 {
        let value = snapshot.get(format!("tree/{n:03}").as_bytes()).unwrap().unwrap();
        assert_eq!(&*value, format!("value {n}").as_bytes());
    }
    assert!(snapshot.get(b"tree/000").unwrap().is_none());
    assert_eq!(&*snapshot.get(b"log/0").unwrap().unwrap(), b"in the log");
    assert_eq!(counters(&snapshot.get(b"count").unwrap().unwrap()).unwrap(), [1, 2]);
    assert_eq!(snapshot.next_number().unwrap(), 21);
}

#[test]
fn format_2_becomes_a_new_store() {
    let sealed = Options { key: Some(Key::new([7; 32])), ..Options::default() };
    for (file, options) in
        [("format-2-plain.redb.gz", Options::default()), ("format-2-sealed.redb.gz", sealed)]
    {
        let dir = tempfile::tempdir().unwrap();
        lay(dir.path(), file);
        let before = std::fs::read(dir.path().join("larder.redb")).unwrap();
        let error = Store::open_read_only(dir.path(), options).unwrap_err();
        assert!(matches!(error, Error::Early { version: 2 }), "{error}");
        assert!(std::fs::read(dir.path().join("larder.redb")).unwrap() == before);
        if options.key.is_some() {
            assert!(matches!(Store::open(dir.path(), Options::default()), Err(Error::Sealed)));
        }
        for _ in 0..2 {
            let store = Store::open(dir.path(), options).unwrap();
            check(&store);
            store.close().unwrap();
        }
        check(&Store::open_read_only(dir.path(), options).unwrap());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}

#[test]
fn formats_3_and_4_open_as_they_are_and_become_5_when_they_are_written() {
    let sealed = Options { key: Some(Key::new([7; 32])), ..Options::default() };
    for (file, version, options) in [
        ("format-3-plain.redb.gz", 3, Options::default()),
        ("format-4-plain.redb.gz", 4, Options::default()),
        ("format-4-sealed.redb.gz", 4, sealed),
    ] {
        let dir = tempfile::tempdir().unwrap();
        lay(dir.path(), file);
        let header = || std::fs::read(dir.path().join("larder.redb")).unwrap();
        let found = || u64::from_le_bytes(header()[8..16].try_into().unwrap());
        check(&Store::open_read_only(dir.path(), options).unwrap());
        assert_eq!(found(), version);
        for n in 0..3 {
            let store = Store::open(dir.path(), options).unwrap();
            check(&store);
            let mut batch = Batch::default();
            batch.put(b"later".to_vec(), vec![n]);
            store.write(batch).unwrap();
            // As a crash would leave it, and then in order.
            let crashed = tempfile::tempdir().unwrap();
            std::fs::write(crashed.path().join("larder.redb"), header()).unwrap();
            let after = Store::open(crashed.path(), options).unwrap();
            check(&after);
            assert_eq!(*after.snapshot().get(b"later").unwrap().unwrap(), [n]);
            store.close().unwrap();
            assert_eq!(found(), 5);
        }
        check(&Store::open_read_only(dir.path(), options).unwrap());
    }
}
