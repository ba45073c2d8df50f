//! `larder upgrade`: what it says of files of every format, and that it changes what it should and nothing else.

#![expect(clippy::unwrap_used, reason = "the helpers of a test fail with the test")]

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use larder_storage::backup::{Repository, Request};
use larder_storage::version::LARDER;
use larder_storage::{Key, Options, Store};
use serde_json::{Value, json};

const FILE: &str = "data/larder.redb";
const HEADER_BYTES: usize = 152;

fn larder(dir: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_larder"))
        .args(["upgrade", "--store", "data"])
        .args(arguments)
        .current_dir(dir)
        .env_remove("LARDER_KEY")
        .env_remove("LARDER_KEY_FILE")
        .output()
        .unwrap()
}

/// What it prints, where it ends with this exit code.
#[track_caller]
fn told(dir: &Path, arguments: &[&str], code: i32) -> String {
    let output = larder(dir, arguments);
    let told = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert_eq!(output.status.code(), Some(code), "{told}");
    told
}

#[track_caller]
fn report(dir: &Path, arguments: &[&str], code: i32) -> Value {
    serde_json::from_str(&told(dir, &[arguments, &["--json"]].concat(), code)).unwrap()
}

/// A directory with a store of an earlier format in it.
fn earlier(format: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let formats = Path::new(env!("CARGO_MANIFEST_DIR")).join("../storage/tests/formats");
    let packed = fs::File::open(formats.join(format!("format-{format}.redb.gz"))).unwrap();
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(packed).read_to_end(&mut bytes).unwrap();
    fs::create_dir(dir.path().join("data")).unwrap();
    fs::write(dir.path().join(FILE), bytes).unwrap();
    dir
}

/// A directory with a store of today, and a backup of it.
fn today() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&dir.path().join("data"), Options::default()).unwrap();
    let repository = Repository::open_or_create(&dir.path().join("backups"), None).unwrap();
    let request = Request { now_ms: 1_794_808_800_000, ..Request::default() };
    repository.back_up(&store.snapshot(), request, &mut |_| ()).unwrap();
    store.close().unwrap();
    dir
}

fn change(path: PathBuf, change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = fs::read(&path).unwrap();
    change(&mut bytes);
    fs::write(path, &bytes).unwrap();
    bytes
}

fn make_newer(bytes: &mut [u8]) {
    bytes[8] = 6;
    let sum = !crc32fast::hash(&bytes[..HEADER_BYTES]);
    bytes[HEADER_BYTES..HEADER_BYTES + 4].copy_from_slice(&sum.to_le_bytes());
}

#[test]
fn what_is_of_today_is_left_as_it_is_and_told() {
    let dir = today();
    let before = fs::read(dir.path().join(FILE)).unwrap();
    let text = format!(
        "{FILE}: format 5, written by Larder {LARDER}\nLarder {LARDER} reads all of it as it is: nothing to convert\n"
    );
    assert_eq!(told(dir.path(), &["--check"], 0), text);
    assert_eq!(told(dir.path(), &[], 0), text);
    let name = "backups/backups/20261116T060000Z-0.json";
    assert!(told(dir.path(), &["--check", "--backups", "backups"], 0).contains(name));
    let file = |path: &str, kind: &str, format: u64| json!({"path": path, "kind": kind, "format": format, "writer": LARDER, "reads": [1, format], "state": "readable"});
    let expected = json!({
        "larder": LARDER,
        "files": [file(FILE, "store", 5), file("backups/repository.json", "backups", 1), file(name, "backup", 1)],
        "problems": [],
        "converted_from": null,
    });
    assert_eq!(report(dir.path(), &["--backups", "backups"], 0), expected);
    assert!(fs::read(dir.path().join(FILE)).unwrap() == before);
    // As it can while a server has the store.
    let open = Store::open(&dir.path().join("data"), Options::default()).unwrap();
    assert_eq!(told(dir.path(), &["--check"], 0), text);
    assert_eq!(told(dir.path(), &[], 0), text);
    open.close().unwrap();
}

#[test]
fn an_earlier_store_is_converted_when_it_is_asked_for_and_no_other_program_has_it() {
    for (name, format) in [("2-plain", 2), ("4-plain", 4)] {
        let dir = earlier(name);
        let before = fs::read(dir.path().join(FILE)).unwrap();
        let checked = told(dir.path(), &["--check"], 3);
        assert!(checked.starts_with(&format!(
            "{FILE}: format {format}\n`larder upgrade` makes the store one of format 5"
        )));
        let file = &report(dir.path(), &["--check"], 3)["files"][0];
        assert_eq!((&file["state"], &file["writer"]), (&json!("to-convert"), &Value::Null));
        if format > 2 {
            let reader = Store::open_read_only(&dir.path().join("data"), Options::default()).unwrap();
            assert!(told(dir.path(), &[], 1).contains("data/larder.redb is in use by another process"));
            drop(reader);
        }
        // What is beside it is the way back.
        let refused = told(dir.path(), &["--backups", "data"], 1);
        assert!(refused.contains("data: there are no backups in it\nnothing was converted: "), "{refused}");
        assert!(fs::read(dir.path().join(FILE)).unwrap() == before);

        let converted = report(dir.path(), &[], 0);
        assert_eq!(converted["converted_from"], format);
        assert_eq!(converted["files"][0]["format"], 5);
        assert_eq!(converted["files"][0]["writer"], LARDER);
        assert!(told(dir.path(), &[], 0).contains("nothing to convert"));
        let store = Store::open_read_only(&dir.path().join("data"), Options::default()).unwrap();
        assert_eq!(&*store.snapshot().get(b"log/0").unwrap().unwrap(), b"in the log");
    }
}

#[test]
fn an_encrypted_store_is_told_without_its_key_and_converted_with_it() {
    let dir = earlier("4-sealed");
    let before = fs::read(dir.path().join(FILE)).unwrap();
    assert!(told(dir.path(), &["--check"], 3).contains("format 4"));
    assert!(told(dir.path(), &[], 1).contains("the store is encrypted: name the file of its key"));
    assert!(fs::read(dir.path().join(FILE)).unwrap() == before);
    fs::write(dir.path().join("key"), "07".repeat(32)).unwrap();
    fs::set_permissions(dir.path().join("key"), fs::Permissions::from_mode(0o600)).unwrap();
    let converted = told(dir.path(), &["--key-file", "key"], 0);
    assert!(
        converted.ends_with("converted from format 4: an earlier Larder cannot open it any more\n"),
        "{converted}"
    );
    let options = Options { key: Some(Key::new([7; 32])), ..Options::default() };
    Store::open_read_only(&dir.path().join("data"), options).unwrap();
}

#[test]
fn what_is_newer_or_cannot_be_read_is_an_error_and_changes_nothing() {
    let dir = today();
    let whole = change(dir.path().join(FILE), |_| ());
    let newer = change(dir.path().join(FILE), |bytes| make_newer(bytes));
    for arguments in [&["--check"][..], &[]] {
        let told = told(dir.path(), arguments, 1);
        assert!(
            told.contains("has format 6, written by Larder ") && told.contains("it has changed nothing"),
            "{told}"
        );
        assert_eq!(report(dir.path(), arguments, 1)["files"][0]["state"], "newer");
        assert!(fs::read(dir.path().join(FILE)).unwrap() == newer);
    }
    for (bytes, what) in [
        (&b""[..], "it is empty"),
        (&[0; 9000], "nothing but zeros is left of it"),
        (&whole[..100], "its header cannot be read, nor the copy of it"),
        (b"something else", "data/larder.redb is not a Larder store"),
    ] {
        fs::write(dir.path().join(FILE), bytes).unwrap();
        for arguments in [&["--check"][..], &[]] {
            let told = told(dir.path(), arguments, 1);
            assert!(told.contains(what), "{told}");
            assert!(fs::read(dir.path().join(FILE)).unwrap() == bytes);
        }
    }
    fs::write(dir.path().join(FILE), &whole).unwrap();

    let name = "backups/backups/20261116T060000Z-0.json";
    let text = fs::read_to_string(dir.path().join(name)).unwrap();
    fs::write(dir.path().join(name), text.replace("\"format\": 1", "\"format\": 3")).unwrap();
    let told_newer = told(dir.path(), &["--check", "--backups", "backups"], 1);
    assert!(told_newer.contains(&format!("{name} has format 3")), "{told_newer}");
    fs::write(dir.path().join(name), &text[..20]).unwrap();
    let damaged = report(dir.path(), &["--check", "--backups", "backups"], 1);
    assert!(damaged["problems"][0].as_str().unwrap().contains("it is damaged"), "{damaged}");
    fs::remove_file(dir.path().join(FILE)).unwrap();
    assert!(told(dir.path(), &["--check"], 1).contains("there is no store in data"));
    assert!(!dir.path().join(FILE).exists());
}
