//! What a directory of backups promises.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use larder_storage::backup::{Breaks, Incoming, Keep, Manifest, Outgoing, Progress, Repository, Request};
use larder_storage::faulty::FaultyDisk;
use larder_storage::{Batch, Error, Key, Options, Snapshot, Store};
use std::fs;
use std::ops::Bound::Unbounded;
use std::path::{Path, PathBuf};

const HOUR_MS: u64 = 3_600_000;
const START_MS: u64 = 1_794_808_800_000;
const MARKER: &str = "a marker that must not be readable";

fn key(byte: u8) -> Option<Key> {
    Some(Key::new([byte; 32]))
}

fn silent() -> impl FnMut(Progress) {
    |_| ()
}

/// A store of about `megabytes`, whose values compress a little.
fn store(megabytes: u32) -> Store {
    let store = Store::memory(Options::default()).unwrap();
    for megabyte in 0..megabytes {
        let mut batch = Batch::default();
        for n in 0..1_000_u32 {
            let number = megabyte * 1_000 + n;
            batch.put(number.to_be_bytes().to_vec(), value(number, 0));
        }
        store.write(batch).unwrap();
    }
    store
}

fn value(number: u32, version: u8) -> Vec<u8> {
    let mut state = u64::from(number) << 8 | u64::from(version);
    let mut bytes = MARKER.as_bytes().to_vec();
    while bytes.len() < 1_000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        bytes.extend_from_slice(&state.to_be_bytes()[..4]);
    }
    bytes
}

fn put(store: &Store, number: u32, version: u8) {
    let mut batch = Batch::default();
    batch.put(number.to_be_bytes().to_vec(), value(number, version));
    store.write(batch).unwrap();
}

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

fn entries(snapshot: &Snapshot) -> Entries {
    let all = snapshot.range(Unbounded, Unbounded).unwrap();
    all.map(|entry| entry.unwrap()).map(|(key, value)| (key.to_vec(), value.to_vec())).collect()
}

fn at(hour: u64) -> Request {
    Request { now_ms: START_MS + hour * HOUR_MS, ..Request::default() }
}

fn back_up(repository: &Repository, store: &Store, hour: u64) -> larder_storage::backup::Made {
    repository.back_up(&store.snapshot(), at(hour), &mut silent()).unwrap()
}

fn restored(repository: &Repository, manifest: &Manifest) -> Result<Entries, Error> {
    let store = Store::memory(Options::default())?;
    repository.restore(manifest, &store, &mut silent())?;
    Ok(entries(&store.snapshot()))
}

fn problems(repository: &Repository) -> Vec<String> {
    repository.verify(None, &mut silent()).unwrap().problems
}

/// Every file below, but for the lock.
fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.file_name().unwrap() != "lock" {
            found.push(path);
        }
    }
    found.sort();
    found
}

#[test]
fn what_is_restored_is_what_was_there_at_the_moment_of_the_backup() {
    for key in [None, key(1)] {
        let dir = tempfile::tempdir().unwrap();
        let store = store(5);
        let snapshot = store.snapshot();
        let before = entries(&snapshot);
        put(&store, 3, 9);
        let repository = Repository::open_or_create(dir.path(), key).unwrap();
        let made = repository.back_up(&snapshot, at(0), &mut silent()).unwrap();
        assert_eq!(made.manifest.entries, 5_000);
        assert!(made.manifest.chunks.len() > 2);
        assert_eq!(made.manifest.position, snapshot.position());

        let repository = Repository::open(dir.path(), key).unwrap();
        let listed: Vec<Manifest> = repository.list().unwrap().into_iter().map(Result::unwrap).collect();
        assert_eq!(listed, [made.manifest]);
        assert!(restored(&repository, &listed[0]).unwrap() == before);
        assert_eq!(problems(&repository), [""; 0]);
    }
}

#[test]
fn an_empty_store_can_be_backed_up() {
    let dir = tempfile::tempdir().unwrap();
    let repository = Repository::open_or_create(dir.path(), None).unwrap();
    let made = back_up(&repository, &store(0), 0);
    assert_eq!((made.new_chunks, made.manifest.entries), (0, 0));
    assert!(restored(&repository, &made.manifest).unwrap().is_empty());
}

#[test]
fn the_second_backup_writes_only_what_has_changed() {
    for key in [None, key(1)] {
        let dir = tempfile::tempdir().unwrap();
        let store = store(18);
        let repository = Repository::open_or_create(dir.path(), key).unwrap();
        let first = back_up(&repository, &store, 0);
        let same = back_up(&repository, &store, 1);
        assert_eq!((same.new_chunks, same.written_bytes), (0, 0));

        put(&store, 12_345, 1);
        let mut batch = Batch::default();
        batch.delete(777_u32.to_be_bytes().to_vec());
        batch.put(b"\xff new".to_vec(), vec![1; 100]);
        store.write(batch).unwrap();
        let third = back_up(&repository, &store, 2);
        assert!(
            (2..=5).contains(&third.new_chunks),
            "{} of {}",
            third.new_chunks,
            third.manifest.chunks.len()
        );
        assert!(third.written_bytes * 3 < first.written_bytes);
        assert!(restored(&repository, &third.manifest).unwrap() == entries(&store.snapshot()));
        assert_ne!(restored(&repository, &first.manifest).unwrap(), entries(&store.snapshot()));
    }
}

#[test]
fn any_changed_byte_of_a_chunk_or_a_manifest_is_found_and_not_restored() {
    for key in [None, key(1)] {
        let dir = tempfile::tempdir().unwrap();
        let repository = Repository::open_or_create(dir.path(), key).unwrap();
        let store = store(0);
        (0..100).for_each(|number| put(&store, number, 0));
        let made = back_up(&repository, &store, 0);
        for path in files(dir.path())
            .iter()
            .filter(|path| !path.file_name().unwrap().to_string_lossy().starts_with("repository"))
        {
            let whole = fs::read(path).unwrap();
            // Every byte of a head, and some of the rest.
            let places = (0..whole.len()).filter(|at| *at < 12 || at % 997 == 7 || *at + 70 > whole.len());
            for at in places.step_by(3) {
                let mut changed = whole.clone();
                changed[at] ^= 1 << (at % 8);
                fs::write(path, &changed).unwrap();
                assert_eq!(problems(&repository).len(), 1, "{} at {at}", path.display());
                let again = repository.manifest(&made.manifest.id).and_then(|it| restored(&repository, &it));
                assert!(matches!(again, Err(Error::Backup { .. })), "{} at {at}", path.display());
            }
            for length in [0, 1, whole.len() / 2, whole.len() - 1] {
                fs::write(path, &whole[..length]).unwrap();
                assert_eq!(problems(&repository).len(), 1, "{} cut to {length}", path.display());
            }
            fs::remove_file(path).unwrap();
            let found = (problems(&repository).len(), repository.list().unwrap().len());
            assert!(found == (1, 1) || found == (0, 0), "{} is gone", path.display());
            fs::write(path, &whole).unwrap();
            assert_eq!(problems(&repository), [""; 0]);
        }
    }
}

#[test]
fn the_next_backup_writes_again_what_was_damaged_since() {
    let store = store(4);
    for from_elsewhere in [false, true] {
        let damages: [fn(&mut Vec<u8>); 4] =
            [|_| (), Vec::clear, |bytes| bytes[40] ^= 1, |bytes| bytes.truncate(1000)];
        for damage in damages {
            let dir = tempfile::tempdir().unwrap();
            let repository = Repository::open_or_create(dir.path(), None).unwrap();
            back_up(&repository, &store, 0);
            let damaged = &files(&dir.path().join("chunks"))[0];
            let mut bytes = fs::read(damaged).unwrap();
            damage(&mut bytes);
            let is_damaged = bytes != fs::read(damaged).unwrap();
            fs::write(damaged, &bytes).unwrap();
            let made = if from_elsewhere {
                let mut incoming = Incoming::new(&repository).unwrap();
                let known = incoming.asks();
                for bytes in Outgoing::new(&store.snapshot(), &known, false, at(1)) {
                    incoming.push(&bytes).unwrap();
                }
                incoming.finish().unwrap()
            } else {
                back_up(&repository, &store, 1)
            };
            assert_eq!(made.new_chunks, u64::from(is_damaged));
            assert_eq!(problems(&repository), [""; 0]);
            let kept = repository.prune(Keep { last: Some(1), ..Keep::default() }).unwrap();
            assert_eq!(kept.backups.len(), 1);
            assert!(restored(&repository, &made.manifest).unwrap() == entries(&store.snapshot()));
        }
    }
}

#[test]
fn chunks_that_changed_places_are_found() {
    for key in [None, key(1)] {
        let dir = tempfile::tempdir().unwrap();
        let repository = Repository::open_or_create(dir.path(), key).unwrap();
        back_up(&repository, &store(4), 0);
        let chunks = files(&dir.path().join("chunks"));
        fs::copy(&chunks[0], &chunks[1]).unwrap();
        assert_eq!(problems(&repository).len(), 1);
    }
}

#[test]
fn a_backup_that_stops_anywhere_is_not_there_and_hurts_no_other() {
    for key in [None, key(1)] {
        let dir = tempfile::tempdir().unwrap();
        let store = store(3);
        let first = back_up(&Repository::open_or_create(dir.path(), key).unwrap(), &store, 0);
        let first_entries = entries(&store.snapshot());
        for number in [5, 1_500, 2_500] {
            put(&store, number, 1);
        }
        let mut stops = 0;
        for step in 0.. {
            let breaks = Breaks::default();
            let broken = Repository::open_or_create_with(dir.path(), key, breaks.clone()).unwrap();
            breaks.after(step);
            let made = broken.back_up(&store.snapshot(), at(1), &mut silent());
            let repository = Repository::open(dir.path(), key).unwrap();
            let listed: Vec<Manifest> = repository.list().unwrap().into_iter().map(Result::unwrap).collect();
            assert_eq!(problems(&repository), [""; 0], "stopped after {step}");
            assert!(restored(&repository, &first.manifest).unwrap() == first_entries, "stopped after {step}");
            if made.is_ok() {
                assert_eq!(listed.len(), 2);
                assert!(restored(&repository, &listed[1]).unwrap() == entries(&store.snapshot()));
                break;
            }
            stops += 1;
            // A name is kept by the last step of all, so the list may be there without it.
            assert!(listed.len() == 1 || restored(&repository, &listed[1]).is_ok(), "stopped after {step}");
            // Begin anew, so that every step is met.
            for other in listed.iter().skip(1) {
                fs::remove_file(dir.path().join(format!("backups/{}.json", other.id))).unwrap();
            }
            let pruned = repository.prune(Keep { last: Some(1), since_ms: None }).unwrap();
            assert_eq!(pruned.backups, [""; 0]);
        }
        assert!(stops > 10, "{stops}");
    }
}

#[test]
fn beginning_that_stops_anywhere_can_be_begun_again() {
    for step in 0.. {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("backups");
        let breaks = Breaks::default();
        breaks.after(step);
        let begun = Repository::open_or_create_with(&dir, key(1), breaks).is_ok();
        back_up(&Repository::open_or_create(&dir, key(1)).unwrap(), &store(1), 0);
        if begun {
            break;
        }
    }
}

#[test]
fn what_is_not_kept_is_removed_with_the_chunks_that_nobody_needs() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(4);
    let repository = Repository::open_or_create(dir.path(), None).unwrap();
    let made: Vec<Manifest> = (0..5)
        .map(|hour| {
            put(&store, 100, hour as u8);
            put(&store, 3_900, hour as u8);
            back_up(&repository, &store, hour).manifest
        })
        .collect();
    let before = files(&dir.path().join("chunks")).len();
    let all = repository.prune(Keep { last: None, since_ms: Some(START_MS) }).unwrap();
    assert_eq!((all.backups.len(), all.chunks), (0, 0));

    let pruned = repository.prune(Keep { last: Some(1), since_ms: Some(made[3].made_ms) }).unwrap();
    assert_eq!(pruned.backups, [made[0].id.as_str(), &made[1].id, &made[2].id]);
    assert!(pruned.chunks >= 3 && pruned.bytes > 0);
    assert_eq!(files(&dir.path().join("chunks")).len() as u64, before as u64 - pruned.chunks);
    assert_eq!(problems(&repository), [""; 0]);
    assert!(restored(&repository, &made[4]).unwrap() == entries(&store.snapshot()));
    assert!(repository.manifest(&made[0].id).is_err());
}

#[test]
fn pruning_that_stops_anywhere_leaves_what_is_listed_whole() {
    for step in 0.. {
        let dir = tempfile::tempdir().unwrap();
        let store = store(2);
        let breaks = Breaks::default();
        let repository = Repository::open_or_create_with(dir.path(), None, breaks.clone()).unwrap();
        for hour in 0..3 {
            put(&store, 100, hour as u8);
            back_up(&repository, &store, hour);
        }
        breaks.after(step);
        let pruned = repository.prune(Keep { last: Some(1), since_ms: None });
        breaks.mend();
        assert_eq!(problems(&repository), [""; 0], "stopped after {step}");
        repository.prune(Keep { last: Some(1), since_ms: None }).unwrap();
        assert_eq!(
            files(&dir.path().join("chunks")).len(),
            repository.list().unwrap()[0].as_ref().unwrap().chunks.len()
        );
        if pruned.is_ok() {
            break;
        }
    }
}

#[test]
fn nothing_of_an_encrypted_store_can_be_read_without_its_key() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(2);
    let repository = Repository::open_or_create(dir.path(), key(1)).unwrap();
    let made = back_up(&repository, &store, 0);
    let readable = |text: &[u8], file: &[u8]| file.windows(text.len()).any(|window| window == text);
    for path in files(dir.path()) {
        let file = fs::read(&path).unwrap();
        assert!(!readable(&MARKER.as_bytes()[..8], &file), "{}", path.display());
        for chunk in &made.manifest.chunks {
            assert!(!readable(chunk.hash.to_string().as_bytes(), &file), "{}", path.display());
            assert!(!path.to_str().unwrap().contains(&chunk.hash.to_string()));
            let first: String = chunk.first_key.iter().map(|byte| format!("{byte:02x}")).collect();
            assert!(!readable(format!("\"{first}\"").as_bytes(), &file), "{}", path.display());
        }
    }
    for wrong in [None, key(2)] {
        let error = Repository::open(dir.path(), wrong).unwrap_err();
        assert!(matches!(error, Error::Backup { .. }), "{error}");
    }
    let plain = tempfile::tempdir().unwrap();
    Repository::open_or_create(plain.path(), None).unwrap();
    Repository::open_or_create(plain.path(), key(1)).unwrap_err();
}

#[test]
fn another_master_key_needs_one_file_written() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(1);
    let made = back_up(&Repository::open_or_create(dir.path(), key(1)).unwrap(), &store, 0);
    Repository::rekey(dir.path(), Key::new([1; 32]), Key::new([2; 32])).unwrap();
    Repository::open(dir.path(), key(1)).unwrap_err();
    let repository = Repository::open(dir.path(), key(2)).unwrap();
    assert!(restored(&repository, &made.manifest).unwrap() == entries(&store.snapshot()));
}

#[test]
fn one_of_the_two_descriptions_is_enough_and_the_next_backup_heals_the_other() {
    let store = store(1);
    for key in [None, key(1)] {
        for name in ["repository.json", "repository.2.json"] {
            for content in [None, Some(""), Some("{\"format\": 1, \"key\": \"00\", \"sum\": \"00\"}")] {
                let dir = tempfile::tempdir().unwrap();
                back_up(&Repository::open_or_create(dir.path(), key).unwrap(), &store, 0);
                let path = dir.path().join(name);
                let whole = fs::read(&path).unwrap();
                match content {
                    Some(content) => fs::write(&path, content).unwrap(),
                    None => fs::remove_file(&path).unwrap(),
                }
                assert!(Repository::is_in(dir.path()));
                let made = Repository::open(dir.path(), key).unwrap().list().unwrap().remove(0).unwrap();
                let told = problems(&Repository::open(dir.path(), key).unwrap());
                assert!(told.len() == 1 && told[0].contains(name), "{told:?}");
                let repository = Repository::open_or_create(dir.path(), key).unwrap();
                assert!(restored(&repository, &made).unwrap() == entries(&store.snapshot()));
                back_up(&repository, &store, 1);
                assert!(fs::read(&path).unwrap() == whole);
            }
        }
    }
}

#[test]
fn a_description_that_the_disk_does_not_give_is_one_that_is_damaged() {
    let dir = tempfile::tempdir().unwrap();
    let made = back_up(&Repository::open_or_create(dir.path(), key(1)).unwrap(), &store(1), 0);
    fs::remove_file(dir.path().join("repository.json")).unwrap();
    // What is a directory cannot be read, as what is on a bad sector cannot.
    fs::create_dir(dir.path().join("repository.json")).unwrap();
    let repository = Repository::open(dir.path(), key(1)).unwrap();
    assert!(!restored(&repository, &made.manifest).unwrap().is_empty());
}

#[test]
fn a_description_of_a_later_format_is_left_alone() {
    for name in ["repository.json", "repository.2.json"] {
        let dir = tempfile::tempdir().unwrap();
        back_up(&Repository::open_or_create(dir.path(), None).unwrap(), &store(1), 0);
        let path = dir.path().join(name);
        let later = fs::read_to_string(&path).unwrap().replace("\"format\": 1", "\"format\": 2");
        fs::write(&path, &later).unwrap();
        let error = Repository::open_or_create(dir.path(), None).unwrap_err().to_string();
        assert!(error.contains("has format 2, written by Larder "), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), later);
    }
}

#[test]
fn without_both_descriptions_plain_backups_can_be_read_and_encrypted_ones_say_what_is_gone() {
    for key in [None, key(1)] {
        let dir = tempfile::tempdir().unwrap();
        let made = back_up(&Repository::open_or_create(dir.path(), key).unwrap(), &store(1), 0);
        for name in ["repository.json", "repository.2.json"] {
            fs::remove_file(dir.path().join(name)).unwrap();
        }
        match (key, Repository::open_or_create(dir.path(), key)) {
            (None, repository) => {
                assert!(!restored(&repository.unwrap(), &made.manifest).unwrap().is_empty());
            }
            (Some(_), error) => {
                let error = error.unwrap_err().to_string();
                assert!(error.contains("repository.json: it is gone, and repository.2.json"), "{error}");
            }
        }
    }
}

#[test]
fn one_writes_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let repository = Repository::open_or_create(dir.path(), None).unwrap();
    let _receiving = Incoming::new(&repository).unwrap();
    let error = repository.back_up(&store(1).snapshot(), at(0), &mut silent()).unwrap_err();
    assert!(matches!(error, Error::InUse { .. }), "{error}");
}

#[test]
fn a_directory_with_something_else_in_it_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("letter.txt"), "dear").unwrap();
    let error = Repository::open_or_create(dir.path(), None).unwrap_err();
    assert!(error.to_string().contains("it holds something else"), "{error}");
    let error = Repository::open(dir.path(), None).unwrap_err();
    assert!(error.to_string().contains("there are no backups in it"), "{error}");
}

#[cfg(unix)]
#[test]
fn its_files_are_for_their_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("new");
    back_up(&Repository::open_or_create(&dir, None).unwrap(), &store(1), 0);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for path in files(&dir) {
        assert_eq!(mode(&path), 0o600, "{}", path.display());
        assert_eq!(mode(path.parent().unwrap()), 0o700, "{}", path.display());
    }
    assert_eq!(mode(&dir), 0o700);
}

#[test]
fn damage_is_an_error_that_says_where_or_is_left_out_and_listed() {
    let disk = FaultyDisk::default();
    let store = Store::on_disk(disk.clone(), Options::default()).unwrap();
    let mut batch = Batch::default();
    for number in 0..2_000_u32 {
        batch.put(number.to_be_bytes().to_vec(), value(number, 0));
    }
    batch.put(700_u32.to_be_bytes().to_vec(), b"to be damaged".to_vec());
    store.write(batch).unwrap();
    let before = entries(&store.snapshot());
    store.close().unwrap();
    let bytes = disk.bytes();
    for at in bytes.windows(13).enumerate().filter(|(_, window)| window == b"to be damaged").map(|(at, _)| at)
    {
        disk.flip(at as u64, 1);
    }
    let store = Store::on_disk(disk, Options::default()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let repository = Repository::open_or_create(dir.path(), None).unwrap();
    let error = repository.back_up(&store.snapshot(), at(0), &mut silent()).unwrap_err();
    assert!(matches!(&error, Error::Damaged { cause } if cause.contains("at key 000002")), "{error}");
    assert!(repository.list().unwrap().is_empty());

    let request = Request { skip_damage: true, ..at(0) };
    let made = repository.back_up(&store.snapshot(), request, &mut silent()).unwrap();
    assert_eq!(made.manifest.skipped.len(), 1);
    assert_eq!(repository.manifest(&made.manifest.id).unwrap(), made.manifest);
    let after = restored(&repository, &made.manifest).unwrap();
    assert!(after.len() > 1_900 && after.len() < 2_000, "{}", after.len());
    assert!(after.iter().all(|entry| before.contains(entry)));
}

#[test]
fn a_backup_from_elsewhere_sends_what_is_lacking() {
    for key in [None, key(1)] {
        let dir = tempfile::tempdir().unwrap();
        let store = store(8);
        let repository = Repository::open_or_create(dir.path(), key).unwrap();
        let mut sizes = Vec::new();
        for hour in 0..3 {
            put(&store, 100, hour as u8);
            let mut incoming = Incoming::new(&repository).unwrap();
            let outgoing = Outgoing::new(&store.snapshot(), &incoming.asks(), key.is_some(), at(hour));
            let sent: Vec<u8> = outgoing.flatten().collect();
            for piece in sent.chunks(10_007) {
                incoming.push(piece).unwrap();
            }
            let made = incoming.finish().unwrap();
            assert!(restored(&repository, &made.manifest).unwrap() == entries(&store.snapshot()));
            sizes.push(sent.len());
        }
        assert!(sizes[1] * 3 < sizes[0] && sizes[2] * 3 < sizes[0], "{sizes:?}");
        // What came over the wire is what is made here.
        let here = back_up(&repository, &store, 9);
        assert_eq!(here.new_chunks, 0);
    }
}

#[test]
fn a_connection_that_ends_early_or_changes_a_byte_leaves_no_backup() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(2);
    let repository = Repository::open_or_create(dir.path(), None).unwrap();
    let sent: Vec<u8> = Outgoing::new(&store.snapshot(), &[], false, at(0)).flatten().collect();
    for end in (0..sent.len()).step_by(90_001) {
        let mut incoming = Incoming::new(&repository).unwrap();
        incoming.push(&sent[..end]).unwrap();
        incoming.finish().unwrap_err();
    }
    // Not in what says when it was.
    for place in (400..sent.len()).step_by(50_021) {
        let mut changed = sent.clone();
        changed[place] ^= 4;
        let mut incoming = Incoming::new(&repository).unwrap();
        let whole = incoming.push(&changed).is_ok() && incoming.finish().is_ok();
        assert!(!whole, "changed at {place}");
    }
    assert!(repository.list().unwrap().is_empty());
}

#[test]
fn an_encrypted_store_is_not_received_into_a_plain_directory() {
    let dir = tempfile::tempdir().unwrap();
    let repository = Repository::open_or_create(dir.path(), None).unwrap();
    let mut incoming = Incoming::new(&repository).unwrap();
    let mut outgoing = Outgoing::new(&store(1).snapshot(), &[], true, at(0));
    let error = incoming.push(&outgoing.next().unwrap()).unwrap_err();
    assert!(error.to_string().contains("the store is encrypted"), "{error}");
}
