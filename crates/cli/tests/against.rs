//! `larder check --against` with git, and what it says without.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

const OLD: &str = "system notes\ninclude \"types.larder\"\ntable notes {\n  key  id\n  entity Note {\n    id:   uuid\n    body: Body\n  }\n}\n";
const TYPES: &str = "type Body { text: string }\n";

fn git(directory: &Path, arguments: &[&str]) {
    let done = Command::new("git")
        .current_dir(directory)
        .args(["-c", "user.name=Test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false"])
        .args(arguments)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .expect("git is installed where this is tested");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// A repository with the schema committed once.
fn repository() -> TempDir {
    let dir = tempfile::tempdir().expect("a temporary directory");
    fs::create_dir(dir.path().join("schemas")).expect("it is writable");
    write(&dir, "notes.larder", OLD);
    write(&dir, "types.larder", TYPES);
    git(dir.path(), &["init", "--quiet"]);
    git(dir.path(), &["add", "."]);
    git(dir.path(), &["commit", "--quiet", "-m", "One"]);
    dir
}

fn write(dir: &TempDir, name: &str, text: &str) {
    fs::write(dir.path().join("schemas").join(name), text).expect("it is writable");
}

fn check_in(directory: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    told(Command::new(env!("CARGO_BIN_EXE_larder")).current_dir(directory).arg("check").args(arguments))
}

fn told(command: &mut Command) -> (Option<i32>, String) {
    let Output { status, stdout, stderr } = command.output().expect("the binary was built with this test");
    (status.code(), String::from_utf8_lossy(&stdout).into_owned() + &String::from_utf8_lossy(&stderr))
}

#[track_caller]
fn check(dir: &TempDir, arguments: &[&str], code: i32, part: &str) {
    let (ended, text) = check_in(dir.path(), arguments);
    assert_eq!(ended, Some(code), "{text}");
    assert!(text.contains(part), "{text} lacks {part}");
}

#[test]
fn l12_a_change_is_judged_against_the_revision_and_its_includes() {
    let dir = repository();
    check(
        &dir,
        &["--against", "HEAD"],
        0,
        "schemas/notes.larder means what it meant in HEAD:schemas/notes.larder",
    );
    write(&dir, "types.larder", "type Body { text: string, size: int? }\n");
    check(&dir, &["--against", "HEAD"], 0, "compatible  Body.size");
    write(&dir, "types.larder", "type Body { text: string, size: int }\n");
    check(&dir, &["--against", "HEAD"], 1, "breaking    Body.size");
    write(&dir, "notes.larder", &OLD.replace("system notes", "system notes\nversion 2"));
    check(&dir, &["--against", "HEAD"], 0, "the version went from 1 to 2");
    let (code, _) = check_in(&dir.path().join("schemas"), &["notes.larder", "--against", "HEAD"]);
    assert_eq!(code, Some(0), "the directory it is run in does not matter");
}

#[test]
fn a_schema_the_revision_does_not_have_is_new() {
    let dir = repository();
    write(&dir, "other.larder", "system other\ntable other {\n  key id\n  entity Other { id: uuid }\n}\n");
    check(&dir, &["--against", "HEAD"], 0, "schemas/other.larder is new since HEAD");
}

#[test]
fn an_old_schema_with_errors_cannot_be_compared_with() {
    let dir = repository();
    write(&dir, "notes.larder", "system notes\ntable notes {");
    git(dir.path(), &["commit", "--quiet", "-am", "Broken"]);
    write(&dir, "notes.larder", OLD);
    check(
        &dir,
        &["--against", "HEAD"],
        1,
        "HEAD:schemas/notes.larder cannot be compared with: this block is never closed",
    );
}

#[test]
fn what_cannot_be_compared_with_is_named() {
    let dir = repository();
    check(&dir, &["--against", "nosuch"], 1, "there is no file or git revision `nosuch`");
    check(&dir, &["--against=--all"], 1, "there is no file or git revision `--all`");
    let outside = tempfile::tempdir().expect("a temporary directory");
    fs::write(outside.path().join("a.larder"), OLD.replace("include \"types.larder\"\n", TYPES))
        .expect("it is writable");
    check(&outside, &["a.larder", "--against", "HEAD"], 1, "is not in a git repository");
}

#[test]
fn without_git_a_file_can_still_be_compared_with() {
    let dir = repository();
    let empty = tempfile::tempdir().expect("a temporary directory");
    let check = |against: &str| {
        told(
            Command::new(env!("CARGO_BIN_EXE_larder"))
                .current_dir(dir.path())
                .args(["check", "schemas/notes.larder", "--against", against])
                .env("PATH", empty.path()),
        )
    };
    let (code, text) = check("HEAD");
    assert_eq!(code, Some(1));
    assert!(text.contains("git is needed to compare with a revision, and is not installed"), "{text}");
    assert_eq!(check("schemas/notes.larder").0, Some(0));
}
