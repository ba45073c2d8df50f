//! What the commands do to files: nothing by halves, nothing unasked.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Output, Stdio};

const MESSY: &str = "system a\n  param   b: int = 1\n";
const TIDY: &str = "system a\nparam b: int = 1\n";

fn larder(directory: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_larder"))
        .current_dir(directory)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("the binary was built with this test")
}

#[test]
fn formatting_keeps_links_and_permissions() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (file, link) = (dir.path().join("a.larder"), dir.path().join("link.larder"));
    fs::write(&file, MESSY).expect("it is writable");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).expect("it is ours");
    symlink("a.larder", &link).expect("it is writable");
    assert!(larder(dir.path(), &["fmt", "link.larder"]).status.success());
    assert_eq!(fs::read_to_string(&file).expect("it is there"), TIDY);
    assert!(fs::symlink_metadata(&link).expect("it is there").is_symlink());
    assert_eq!(fs::metadata(&file).expect("it is there").permissions().mode() & 0o777, 0o640);
    assert_eq!(fs::read_dir(dir.path()).expect("it is there").count(), 2, "no draft is left");
}

#[test]
fn a_store_that_is_a_link_to_nowhere_is_not_taken_for_a_new_one() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    fs::write(dir.path().join("a.larder"), "system a\ntable things { key pk }\n").expect("it is writable");
    symlink("nowhere", dir.path().join("data")).expect("it is writable");
    for command in ["plan", "apply", "doctor"] {
        let output = larder(dir.path(), &[command, "--store", "data", "a.larder"]);
        let told =
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(
            !output.status.success() && told.contains("a link to what is not there"),
            "{command}: {told}"
        );
        assert!(!told.contains("new table"), "{command}: {told}");
    }
}

#[test]
fn stdin_is_laid_out_to_stdout() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_larder"))
        .args(["fmt", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary was built with this test");
    child.stdin.take().expect("it is piped").write_all(MESSY.as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("it ends when its input does");
    assert_eq!(String::from_utf8_lossy(&output.stdout), TIDY);
}

#[test]
fn a_part_of_a_schema_is_not_checked_by_itself() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    fs::write(dir.path().join("a.larder"), "system a\ninclude \"part.larder\"\n").expect("it is writable");
    fs::write(dir.path().join("part.larder"), "type Part { name: string }\n").expect("it is writable");
    let output = larder(dir.path(), &["check"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "1 schema checked: nothing is wrong\n");
    let alone = larder(dir.path(), &["check", "part.larder"]);
    assert!(String::from_utf8_lossy(&alone.stdout).contains("error[L0204]"));
}

#[test]
fn without_schemas_the_next_step_is_told() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    for arguments in [&["check"][..], &["fmt"], &["docs"], &["schema"], &["docs", "lunch"]] {
        let output = larder(dir.path(), arguments);
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1));
        assert!(message.contains("larder init"), "{arguments:?}: {message}");
    }
}

#[test]
fn the_published_json_schema_is_json() {
    let output = larder(Path::new("."), &["schema", "--json-schema"]);
    let schema: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    assert!(schema["$schema"].is_string());
}

#[test]
fn each_example_begins_a_schema_without_a_warning() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    for example in ["keiba", "tdnet", "weather", "shops", "lunch"] {
        assert!(larder(dir.path(), &["init", example]).status.success());
    }
    let output = larder(dir.path(), &["check"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "5 schemas checked: nothing is wrong\n");
    assert!(larder(dir.path(), &["fmt", "--check"]).status.success());
}
