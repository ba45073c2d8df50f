//! A damaged store from the command line: what is said, what can be read around it, and what is brought out.

#![expect(clippy::unwrap_used, reason = "the helpers of a test fail with the test")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

const PAGE: usize = 4096;

fn larder(dir: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
    command.args(arguments).current_dir(dir).env("LARDER_STORE", "data");
    command.env_remove("LARDER_KEY_FILE").env_remove("LARDER_KEY").output().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[track_caller]
fn ok(output: &Output) -> String {
    assert!(output.status.success(), "{}{}", out(output), told(output));
    out(output)
}

/// A store of one system, with much in it.
fn filled(dir: &Path) {
    ok(&larder(dir, &["init", "lunch"]));
    ok(&larder(dir, &["apply", "--yes"]));
    ok(&larder(dir, &["seed", "lunch", "--count", "400"]));
}

/// Fills one page after the other with zeros, where leaves of the tree seem to be, until the store says that items
/// cannot be read.
fn damage(dir: &Path) {
    let file = dir.join("data/larder.redb");
    let whole = fs::read(&file).unwrap();
    let leaves = (0..whole.len()).step_by(PAGE).filter(|&at| whole[at] == 1);
    for at in leaves.collect::<Vec<_>>().into_iter().rev() {
        let mut image = whole.clone();
        image[at..at + PAGE].fill(0);
        fs::write(&file, image).unwrap();
        let verified = larder(dir, &["verify", "--data", "data"]);
        if out(&verified).contains("table lunch-cache-dev: the items ") {
            return;
        }
    }
    panic!("no page made a difference");
}

#[test]
fn a_directory_without_a_store_is_not_an_empty_store() {
    let dir = tempfile::tempdir().unwrap();
    ok(&larder(dir.path(), &["init", "lunch"]));
    for arguments in [
        &["get", "lunch.Menu", "any=1"][..],
        &["scan", "lunch.Menu"],
        &["dump", "lunch"],
        &["stats", "lunch"],
        &["dump", "--format", "dynamodb", "--out", "out", "--table", "lunch-cache-dev"],
    ] {
        let output = larder(dir.path(), arguments);
        // Some do not get so far: their arguments are looked at first.
        if arguments[0] != "get" {
            assert!(told(&output).contains("there is no store in data"), "{arguments:?}: {}", told(&output));
        }
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(!dir.path().join("data").exists(), "{arguments:?} made one");
    }
    let salvaged = larder(dir.path(), &["salvage", "data", "--to", "new"]);
    assert!(told(&salvaged).contains("there is no store in data") && !dir.path().join("new").exists());

    fs::create_dir(dir.path().join("data")).unwrap();
    fs::write(dir.path().join("data/larder.redb"), "a letter to somebody").unwrap();
    let salvaged = larder(dir.path(), &["salvage", "data", "--to", "new"]);
    assert!(
        told(&salvaged).contains("data/larder.redb") && !told(&salvaged).contains("not whole"),
        "{}",
        told(&salvaged)
    );
    assert_eq!(salvaged.status.code(), Some(1));
    assert!(!dir.path().join("new").exists(), "nothing was brought out");
}

#[test]
fn what_is_damaged_is_told_left_out_on_request_and_all_else_is_brought_out() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    filled(dir);
    let lines = |output: &Output| out(output).lines().count();
    let all = lines(&larder(dir, &["dump", "lunch"]));
    damage(dir);
    let file = dir.join("data/larder.redb");
    let before = fs::read(&file).unwrap();

    let verified = larder(dir, &["verify", "--data", "data", "--json"]);
    assert_eq!(verified.status.code(), Some(1));
    let report: Value = serde_json::from_str(&out(&verified)).unwrap();
    assert!(report["problems"].as_u64().unwrap() > 0, "{report}");
    assert!(before == fs::read(&file).unwrap(), "verify changed the file");

    let salvaged = larder(dir, &["salvage", "data", "--to", "new", "--json"]);
    assert!(before == fs::read(&file).unwrap(), "salvage changed the file");
    let report: Value = serde_json::from_str(&out(&salvaged)).unwrap();
    let table = &report["tables"][0];
    assert_eq!(table["name"], "lunch-cache-dev");
    let is_missing = table["items"].as_u64().unwrap() < all as u64;
    assert_eq!(salvaged.status.code(), Some(i32::from(is_missing)), "{report}");
    assert_eq!(report["lost"].as_array().unwrap().is_empty(), !is_missing, "{report}");
    assert!(ok(&larder(dir, &["verify", "--data", "new"])).contains("all is well"));
    assert!(fs::read_dir(dir.join("new")).unwrap().count() <= 2, "only the store is left there");
    let again = larder(dir, &["salvage", "data", "--to", "new"]);
    assert!(told(&again).contains("new is not empty"), "{}", told(&again));

    let refused = larder(dir, &["dump", "lunch", "--out", "dump"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(told(&refused).contains("table lunch-cache-dev"), "{}", told(&refused));
    assert!(!dir.join("dump").exists());
    let around = larder(dir, &["dump", "lunch", "--out", "dump", "--skip-damaged"]);
    assert_eq!(around.status.code(), Some(1), "something is missing");
    assert!(told(&around).contains("left out, because it is damaged: table lunch-cache-dev: the items "));
    let dumped = fs::read_to_string(dir.join("dump")).unwrap().lines().count();
    assert!(dumped > 0 && dumped < all, "{dumped} of {all}");
    assert!(dumped as u64 <= table["items"].as_u64().unwrap());
}

/// Why a server does not start.
fn refused(dir: &Path) -> String {
    let mut serving = Command::new(env!("CARGO_BIN_EXE_larder"))
        .args(["serve", "--data", "data", "--dynamodb", "127.0.0.1:0"])
        .current_dir(dir)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(serving.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let _ = serving.kill();
    assert_eq!(line, "", "it serves");
    told(&serving.wait_with_output().unwrap())
}

/// One bit anywhere in the pages that the tree has for itself may keep it from being opened.
#[test]
fn what_cannot_be_opened_is_read_through_page_by_page_and_nobody_is_sent_in_circles() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    filled(dir);
    let file = dir.join("data/larder.redb");
    let whole = fs::read(&file).unwrap();
    let count = out(&larder(dir, &["verify", "--data", "data"]));
    let pages = (0..whole.len()).step_by(PAGE).filter(|&at| matches!(whole[at..at + 2], [1 | 2, 0]));
    let (mut shut, mut whole_all_the_same) = (0, 0);
    for at in pages {
        let mut image = whole.clone();
        image[at + 100] ^= 1;
        fs::write(&file, &image).unwrap();
        let verified = larder(dir, &["verify", "--data", "data"]);
        if !out(&verified).contains("the store cannot be opened: ") {
            continue;
        }
        assert!(image == fs::read(&file).unwrap(), "verify changed the file");
        let served = refused(dir);
        assert!(served.contains("; `larder salvage DIR --to NEW` brings"), "{served}");
        assert!(!served.contains("unreachable"), "{served}");
        let report = format!("{}{}", out(&verified), told(&verified));
        assert!(!report.contains("unreachable") && !report.contains("larder verify"), "{report}");
        assert_eq!(verified.status.code(), Some(1), "{report}");
        assert!(report.contains("`larder salvage data --to NEW`"), "{report}");
        let (_, summary) = report.trim_end().rsplit_once('\n').unwrap();
        let (tables, _) = summary.split_once(" entries read: ").unwrap();
        whole_all_the_same += usize::from(count.contains(tables));
        shut += 1;
        if shut == 3 {
            break;
        }
    }
    assert!(shut > 0, "no page kept the store from being opened");
    assert!(whole_all_the_same > 0, "all entries are there, and it says so");
}
