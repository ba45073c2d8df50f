//! What an encrypted store promises.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use larder_storage::faulty::FaultyDisk;
use larder_storage::{Batch, Durability, Error, Key, Options, Store, rekey};
use std::path::Path;

const MARKER: &[u8] = b"a marker that nobody may find";
const OPTIONS: Options = Options {
    durability: Durability::Immediate,
    cache_bytes: 16 << 10,
    log_bytes: 8 << 10,
    queue_bytes: 256 << 20,
    key: None,
};

fn key(byte: u8) -> Key {
    Key::new([byte; 32])
}

fn sealed_with(byte: u8) -> Options {
    Options { key: Some(key(byte)), ..OPTIONS }
}

fn batch(n: u32) -> Batch {
    let mut batch = Batch::default();
    batch.put([MARKER, &n.to_be_bytes()].concat(), MARKER.repeat(20));
    batch.append(MARKER.to_vec(), MARKER.to_vec());
    batch
}

fn held(store: &Store) -> usize {
    let found = (0..u32::MAX).map(|n| store.snapshot().get(&[MARKER, &n.to_be_bytes()].concat()).unwrap());
    found.take_while(|value| value.as_deref() == Some(&MARKER.repeat(20)[..])).count()
}

fn holds_marker(bytes: &[u8]) -> bool {
    bytes.windows(16).any(|window| MARKER.starts_with(window) || MARKER.ends_with(window))
}

fn file(dir: &Path) -> Vec<u8> {
    std::fs::read_dir(dir).unwrap().flat_map(|entry| std::fs::read(entry.unwrap().path()).unwrap()).collect()
}

#[test]
fn nothing_that_was_written_can_be_found_in_the_file() {
    let dir = tempfile::tempdir().unwrap();
    for options in [OPTIONS, sealed_with(1)] {
        let dir = dir.path().join(if options.key.is_some() { "sealed" } else { "plain" });
        let store = Store::open(&dir, options).unwrap();
        (0..100).for_each(|n| store.write(batch(n)).unwrap());
        let running = file(&dir);
        store.close().unwrap();
        assert_eq!(holds_marker(&running), options.key.is_none());
        assert_eq!(holds_marker(&file(&dir)), options.key.is_none());
        assert_eq!(held(&Store::open(&dir, options).unwrap()), 100);
    }
}

#[test]
fn without_its_key_a_store_does_not_open_and_is_left_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    Store::open(dir.path(), sealed_with(1)).unwrap().write(batch(0)).unwrap();
    let before = file(dir.path());
    assert!(matches!(Store::open(dir.path(), OPTIONS), Err(Error::Sealed)));
    assert!(matches!(Store::open(dir.path(), sealed_with(2)), Err(Error::WrongKey)));
    assert!(file(dir.path()) == before);
    assert_eq!(held(&Store::open(dir.path(), sealed_with(1)).unwrap()), 1);
}

#[test]
fn a_key_for_a_store_that_is_not_encrypted_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    Store::open(dir.path(), OPTIONS).unwrap().write(batch(0)).unwrap();
    assert!(matches!(Store::open(dir.path(), sealed_with(1)), Err(Error::NotSealed)));
    assert!(matches!(rekey(dir.path(), key(1), key(2)), Err(Error::NotSealed)));
    assert_eq!(held(&Store::open(dir.path(), OPTIONS).unwrap()), 1);
}

#[test]
fn another_master_key_takes_over_and_the_old_one_no_longer_opens() {
    let dir = tempfile::tempdir().unwrap();
    Store::open(dir.path(), sealed_with(1)).unwrap().write(batch(0)).unwrap();
    assert!(matches!(rekey(dir.path(), key(9), key(2)), Err(Error::WrongKey)));
    for (old, new) in [(1, 2), (2, 3), (3, 4)] {
        rekey(dir.path(), key(old), key(new)).unwrap();
        assert!(matches!(Store::open(dir.path(), sealed_with(old)), Err(Error::WrongKey)));
        assert_eq!(held(&Store::open(dir.path(), sealed_with(new)).unwrap()), 1);
    }
}

#[test]
fn the_data_key_under_the_old_master_key_is_not_left_in_the_file() {
    let dir = tempfile::tempdir().unwrap();
    Store::open(dir.path(), sealed_with(1)).unwrap().write(batch(0)).unwrap();
    let wrapped = file(dir.path())[80..152].to_vec();
    assert_ne!(wrapped, [0; 72]);
    rekey(dir.path(), key(1), key(2)).unwrap();
    assert!(!file(dir.path()).windows(wrapped.len()).any(|window| window == wrapped));
    assert_eq!(held(&Store::open(dir.path(), sealed_with(2)).unwrap()), 1);
}

#[test]
fn a_store_in_use_keeps_its_key() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), sealed_with(1)).unwrap();
    assert!(matches!(rekey(dir.path(), key(1), key(2)), Err(Error::InUse { .. })));
    drop(store);
    Store::open(dir.path(), sealed_with(1)).unwrap();
}

#[test]
fn power_loss_at_any_operation_keeps_every_acknowledged_batch() {
    const BATCHES: u32 = 8;
    let whole = FaultyDisk::default();
    let store = Store::on_disk(whole.clone(), sealed_with(1)).unwrap();
    (0..BATCHES).for_each(|n| store.write(batch(n)).unwrap());
    store.close().unwrap();
    for passing in 0..whole.changes() {
        use larder_storage::faulty::{Lasting, Operation};
        let disk = FaultyDisk::default();
        disk.fail(Operation::Change, passing, Lasting::Forever);
        let acknowledged = match Store::on_disk(disk.clone(), sealed_with(1)) {
            Ok(store) => (0..BATCHES).take_while(|n| store.write(batch(*n)).is_ok()).count(),
            Err(_) => 0,
        };
        let after = Store::on_disk(disk.crash(passing), sealed_with(1))
            .unwrap_or_else(|error| panic!("opens after {passing} changes: {error}"));
        let found = held(&after);
        assert!(found == acknowledged || found == acknowledged + 1, "{passing}: {acknowledged} {found}");
    }
}

#[cfg(unix)]
#[test]
fn a_key_file_that_others_can_read_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, "0123456789abcdef".repeat(4)).unwrap();
    for (mode, is_private) in [(0o600, true), (0o400, true), (0o640, false), (0o604, false), (0o666, false)] {
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        let key = Key::from_file(file.path());
        assert_eq!(key.is_ok(), is_private, "{mode:o}");
        if let Err(error) = key {
            assert!(error.to_string().contains("chmod 600"), "{error}");
        }
    }
}

#[test]
fn a_key_is_read_from_hexadecimal_digits_and_never_shown() {
    let hex = "0123456789abcdefABCDEF0123456789abcdef0123456789abcdef0123456789";
    let key = Key::from_hex(&format!(" {hex}\n")).unwrap();
    assert_eq!(format!("{key:?}"), "Key(…)");
    assert!(Key::from_hex(&hex[1..]).is_none());
    assert!(Key::from_hex(&hex.replace('a', "x")).is_none());
    assert!(Key::from_hex(&"é".repeat(32)).is_none());
}
