//! Which Larder wrote a file, and what becomes of a file of one that is not known yet: it is refused, with the version that
//! can read it, and every byte stays as it is.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use larder_storage::backup::{Repository, Request};
use larder_storage::version::{self, Found, Kind, LARDER};
use larder_storage::{Batch, Error, Key, Options, Position, Store, archive, rekey, salvage};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const HEAD_BYTES: usize = 4096 + 4096 + 128 * 1024;
const LOG_BYTES: usize = 1 << 20;
const HEADER_BYTES: usize = 152;
const NOTE_AT: usize = 1024;
const NOTE_BYTES: usize = 60;
const LATER: &str = "9.8.7";

fn options(key: Option<Key>) -> Options {
    Options { key, log_bytes: LOG_BYTES as u64, ..Options::default() }
}

fn store(dir: &Path, key: Option<Key>) -> Store {
    let store = Store::open(dir, options(key)).unwrap();
    let mut batch = Batch::default();
    batch.put(b"key".to_vec(), b"value".to_vec());
    store.write(batch).unwrap();
    store
}

fn file(dir: &Path) -> PathBuf {
    dir.join("larder.redb")
}

/// Where the two heads are of a store that [`store`] made.
fn heads() -> [usize; 2] {
    [0, HEAD_BYTES + LOG_BYTES]
}

fn change(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).unwrap();
    change(&mut bytes);
    fs::write(path, bytes).unwrap();
}

fn sum(bytes: &mut [u8], at: usize, length: usize) {
    let sum = !crc32fast::hash(&bytes[at..at + length]);
    bytes[at + length..at + length + 4].copy_from_slice(&sum.to_le_bytes());
}

fn set_format(bytes: &mut [u8], head: usize, format: u8) {
    bytes[head + 8] = format;
    sum(bytes, head, HEADER_BYTES);
}

fn set_writer(bytes: &mut [u8], head: usize, writer: &str) {
    let at = head + NOTE_AT;
    bytes[at..at + NOTE_BYTES].fill(0);
    bytes[at] = writer.len() as u8;
    bytes[at + 1..at + 1 + writer.len()].copy_from_slice(writer.as_bytes());
    sum(bytes, at, NOTE_BYTES);
}

fn writer(dir: &Path) -> Option<String> {
    version::of_store(dir).unwrap().writer
}

/// Every file below a directory.
fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => drop(found.insert(path.clone(), fs::read(path).unwrap())),
        }
    }
    found
}

fn refused<T>(outcome: Result<T, Error>, path: &Path, found: u64, known: u64, writer: Option<&str>) {
    let Err(Error::Newer(newer)) = outcome.map(drop) else {
        panic!("it was taken, or refused for something else")
    };
    assert_eq!((&*newer.path, newer.found, newer.known), (path, found, known));
    assert_eq!(newer.writer.as_deref(), writer);
    let told = match writer {
        Some(writer) => format!(
            "{} has format {found}, written by Larder {writer}; this is Larder {LARDER}, which reads up to {known}, and it has changed \
             nothing: use Larder {writer} or a newer one",
            path.display()
        ),
        None => format!(
            "{} has format {found}; this is Larder {LARDER}, which reads up to {known}, and it has changed nothing: use a newer Larder",
            path.display()
        ),
    };
    assert_eq!(newer.to_string(), told);
}

#[test]
fn a_store_says_who_wrote_it_and_is_noted_anew_only_when_it_is_written() {
    for key in [None, Some(Key::new([7; 32]))] {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(store(dir.path(), key).writer(), Some(LARDER));
        let found =
            Found { path: file(dir.path()), kind: Kind::Store, format: 5, writer: Some(LARDER.to_owned()) };
        assert_eq!(version::of_store(dir.path()).unwrap(), found);
        assert!(!found.is_newer() && !found.is_to_convert());

        change(&file(dir.path()), |bytes| {
            heads().into_iter().for_each(|head| set_writer(bytes, head, "0.0.9-rc.1+b5"));
        });
        let before = files(dir.path());
        let reading = Store::open_read_only(dir.path(), options(key)).unwrap();
        assert_eq!(reading.writer(), Some("0.0.9-rc.1+b5"));
        drop(reading);
        assert!(files(dir.path()) == before);
        assert_eq!(Store::open(dir.path(), options(key)).unwrap().writer(), Some("0.0.9-rc.1+b5"));
        assert_eq!(writer(dir.path()).as_deref(), Some(LARDER));
    }
}

/// Those from before there were notes have nothing there at all.
#[test]
fn a_note_that_cannot_be_read_is_told_by_the_other_head_or_not_at_all_and_is_written_again() {
    let dir = tempfile::tempdir().unwrap();
    drop(store(dir.path(), None));
    let whole = fs::read(file(dir.path())).unwrap();
    let [first, second] = heads();
    let blank = |bytes: &mut [u8], head: usize| bytes[head + NOTE_AT..head + NOTE_AT + 64].fill(0);
    type Change<'a> = &'a dyn Fn(&mut Vec<u8>);
    let changes: [(Change<'_>, Option<&str>); 7] = [
        (&|bytes| bytes[first + NOTE_AT + 1] ^= 1, Some(LARDER)),
        (&|bytes| blank(bytes, first), Some(LARDER)),
        (&|bytes| blank(bytes, second), Some(LARDER)),
        (&|bytes| [first, second].iter().for_each(|head| blank(bytes, *head)), None),
        (&|bytes| [first, second].iter().for_each(|head| set_writer(bytes, *head, "")), None),
        (&|bytes| [first, second].iter().for_each(|head| set_writer(bytes, *head, "1; rm -r /")), None),
        // A length over what there is room for.
        (
            &|bytes| {
                for head in [first, second] {
                    bytes[head + NOTE_AT] = 255;
                    sum(bytes, head + NOTE_AT, NOTE_BYTES);
                }
            },
            None,
        ),
    ];
    for (n, (damage, told)) in changes.into_iter().enumerate() {
        let mut bytes = whole.clone();
        damage(&mut bytes);
        fs::write(file(dir.path()), &bytes).unwrap();
        assert_eq!(writer(dir.path()).as_deref(), told, "{n}");
        let opened = Store::open(dir.path(), options(None)).unwrap();
        assert_eq!(&*opened.snapshot().get(b"key").unwrap().unwrap(), b"value");
        drop(opened);
        let bytes = fs::read(file(dir.path())).unwrap();
        for head in heads() {
            let note = head + NOTE_AT..head + NOTE_AT + 64;
            assert!(bytes[note.clone()] == whole[note], "{n}: {head}");
        }
    }
}

#[test]
fn a_newer_store_is_refused_by_all_that_open_one_and_stays_as_it_is() {
    let sealed = Some(Key::new([7; 32]));
    for (key, told, newer_heads) in [
        (None, Some(LATER), &heads()[..]),
        (sealed, Some(LATER), &heads()[..]),
        (None, None, &heads()[..]),
        // The newer Larder had begun to write its header.
        (None, Some(LATER), &heads()[..1]),
        (None, Some(LATER), &heads()[1..]),
    ] {
        let dir = tempfile::tempdir().unwrap();
        drop(store(dir.path(), key));
        let path = file(dir.path());
        change(&path, |bytes| {
            for head in heads() {
                match told {
                    Some(told) => set_writer(bytes, head, told),
                    None => bytes[head + NOTE_AT..head + NOTE_AT + 64].fill(0),
                }
            }
            newer_heads.iter().for_each(|head| set_format(bytes, *head, 6));
        });
        let before = files(dir.path());
        refused(Store::open(dir.path(), options(key)), &path, 6, 5, told);
        refused(Store::open_read_only(dir.path(), options(key)), &path, 6, 5, told);
        refused(rekey(dir.path(), key.unwrap_or(Key::new([1; 32])), Key::new([2; 32])), &path, 6, 5, told);
        let new = tempfile::tempdir().unwrap();
        let into = store(new.path(), None);
        refused(salvage(dir.path(), options(key), &into), &path, 6, 5, told);
        let found = version::of_store(dir.path()).unwrap();
        assert_eq!((found.format, found.writer.as_deref(), found.is_newer()), (6, told, true));
        assert!(files(dir.path()) == before);
    }
}

#[test]
fn what_a_store_is_can_be_told_while_it_is_in_use_and_without_its_key() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path(), Some(Key::new([7; 32])));
    assert!(matches!(Store::open_read_only(dir.path(), options(None)), Err(Error::InUse { .. })));
    assert_eq!(version::of_store(dir.path()).unwrap().writer.as_deref(), Some(LARDER));
    drop(store);

    let empty = tempfile::tempdir().unwrap();
    assert!(matches!(version::of_store(empty.path()), Err(Error::Missing { .. })));
    for (bytes, what) in [
        (&b""[..], "it is empty"),
        (&[0; 5000], "nothing but zeros is left of it"),
        (b"larder\r\n\x05 and cut short", "its header cannot be read, nor the copy of it"),
        (b"something else", "is not a Larder store: it has no mark of one"),
    ] {
        fs::write(file(empty.path()), bytes).unwrap();
        let error = version::of_store(empty.path()).unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
        assert!(fs::read(file(empty.path())).unwrap() == bytes);
    }
}

/// A backup, and an archive of one commit after its base.
fn repository(dir: &Path) -> Store {
    let store = Store::memory(Options::default()).unwrap();
    let now = || 1_794_808_800_000;
    let often = archive::Options {
        sync_every: Duration::from_millis(5),
        ..archive::Options::new(dir.to_owned(), None)
    };
    store.archive_to(often, now, now).unwrap();
    // With a base first, or the commit would be a part of it.
    wait(|| store.archive_status().unwrap().archived.is_some());
    let mut batch = Batch::default();
    batch.put(b"key".to_vec(), b"value".to_vec());
    store.write(batch).unwrap();
    let reached = |archived: Position| archived.commit == store.snapshot().position().commit;
    wait(|| store.archive_status().unwrap().archived.is_some_and(reached));
    let request = Request { now_ms: now(), ..Request::default() };
    Repository::open(dir, None).unwrap().back_up(&store.snapshot(), request, &mut |_| ()).unwrap();
    store
}

fn wait(mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < until, "it is not archived");
        std::thread::park_timeout(Duration::from_millis(2));
    }
}

#[test]
fn backups_and_archives_say_who_wrote_them() {
    let dir = tempfile::tempdir().unwrap();
    repository(dir.path()).close().unwrap();
    let mut kinds = Vec::new();
    for found in version::of_backups(dir.path()).unwrap() {
        let found = found.unwrap();
        assert_eq!(
            (found.format, found.writer.as_deref(), found.is_newer()),
            (1, Some(LARDER), false),
            "{found:?}"
        );
        kinds.push(found.kind);
    }
    kinds.dedup();
    assert_eq!(kinds, [Kind::Backups, Kind::Backup, Kind::Segment]);
    let manifests = Repository::open(dir.path(), None).unwrap().list().unwrap();
    assert_eq!(manifests.len(), 2);
    assert!(manifests.into_iter().all(|manifest| manifest.unwrap().writer.as_deref() == Some(LARDER)));
    let error = version::of_backups(&dir.path().join("segments")).unwrap_err().to_string();
    assert!(error.contains("there are no backups in it"), "{error}");
}

/// As those made before there were notes are.
#[test]
fn backups_that_say_nothing_of_their_writer_are_whole() {
    let dir = tempfile::tempdir().unwrap();
    repository(dir.path()).close().unwrap();
    let line = format!("  \"larder\": \"{LARDER}\",\n");
    for path in files(dir.path()).into_keys() {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.parent().unwrap().ends_with("backups") {
            change(&path, |bytes| {
                *bytes = resummed(&String::from_utf8(bytes.clone()).unwrap().replace(&line, ""));
            });
        } else if name.starts_with("repository") {
            let sum = blake3::hash(b"");
            let what = "backups of a Larder store";
            fs::write(&path, format!("{{\n  \"format\": 1,\n  \"key\": null,\n  \"sum\": \"{sum}\",\n  \"what\": \"{what}\"\n}}\n")).unwrap();
        } else if path.parent().unwrap().ends_with("segments") {
            fs::rename(&path, path.with_file_name(name.replace(&format!("-{LARDER}"), ""))).unwrap();
        }
    }
    for found in version::of_backups(dir.path()).unwrap() {
        assert_eq!(found.unwrap().writer, None);
    }
    let before = files(dir.path());
    let repository = Repository::open_or_create(dir.path(), None).unwrap();
    let mut verified = repository.verify(None, &mut |_| ()).unwrap();
    archive::verify(&repository, &mut verified).unwrap();
    assert_eq!(verified.problems, Vec::<String>::new());
    assert_eq!((verified.backups, verified.groups), (2, 1));
    assert!(files(dir.path()) == before);
}

/// A manifest whose checksum is right.
fn resummed(text: &str) -> Vec<u8> {
    let (body, _) = text.rsplit_once("  \"sum\": \"").unwrap();
    format!("{body}  \"sum\": \"{}\"\n}}\n", blake3::hash(body.as_bytes())).into_bytes()
}

#[test]
fn a_newer_backup_and_a_newer_segment_are_refused_and_stay_as_they_are() {
    let dir = tempfile::tempdir().unwrap();
    repository(dir.path()).close().unwrap();
    let whole = files(dir.path());
    let put_back = || whole.iter().for_each(|(path, bytes)| fs::write(path, bytes).unwrap());
    let repository = Repository::open(dir.path(), None).unwrap();
    let of_larder = format!("\"larder\": \"{LARDER}\"");
    let later = |text: &[u8], format: &str| {
        let text = String::from_utf8(text.to_vec()).unwrap();
        text.replace("\"format\": 1", format).replace(&of_larder, &format!("\"larder\": \"{LATER}\""))
    };
    let into = || Store::memory(Options::default()).unwrap();
    let rebuilt = || archive::rebuild(&repository, archive::Until::Latest, &into(), &mut |_| ());

    for (path, bytes) in &whole {
        let folder = path.parent().unwrap();
        let name = path.file_name().unwrap().to_str().unwrap();
        if folder.ends_with("backups") {
            fs::write(path, resummed(&later(bytes, "\"format\": 2"))).unwrap();
            let before = files(dir.path());
            let id = name.strip_suffix(".json").unwrap();
            refused(repository.manifest(id), path, 2, 1, Some(LATER));
            let problems = repository.verify(None, &mut |_| ()).unwrap().problems;
            assert!(problems[0].contains("use Larder 9.8.7"), "{problems:?}");
            // What it needs is not known.
            refused(repository.prune(Default::default()), path, 2, 1, Some(LATER));
            if id.ends_with("-base") {
                let error = rebuilt().unwrap_err().to_string();
                assert!(error.contains("use Larder 9.8.7"), "{error}");
            }
            assert!(files(dir.path()) == before);
        } else if name.starts_with("repository") {
            fs::write(path, later(bytes, "\"format\": 2")).unwrap();
            let before = files(dir.path());
            refused(Repository::open(dir.path(), None), path, 2, 1, Some(LATER));
            refused(Repository::open_or_create(dir.path(), None), path, 2, 1, Some(LATER));
            assert!(files(dir.path()) == before);
        } else if folder.ends_with("segments") {
            let named = path.with_file_name(name.replace(LARDER, LATER));
            let mut newer = bytes.clone();
            newer[7] = 2;
            // Its header is whole, or else it is damaged.
            fs::remove_file(path).unwrap();
            fs::write(&named, &newer).unwrap();
            assert!(rebuilt().unwrap_err().to_string().contains("its header is damaged"));
            let (header, sum) = newer[..7 + 1 + 8 + 24 + 16 + 32].split_at_mut(7 + 1 + 8 + 24 + 16);
            sum.copy_from_slice(blake3::hash(header).as_bytes());
            fs::write(&named, &newer).unwrap();
            let before = files(dir.path());
            refused(rebuilt(), &named, 2, 1, Some(LATER));
            assert!(files(dir.path()) == before);
            fs::remove_file(&named).unwrap();
        } else {
            continue;
        }
        put_back();
    }
    assert_eq!(rebuilt().unwrap().groups, 1);
}
