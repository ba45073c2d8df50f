//! Backups and restores from the command line, on a directory and on a running server.

#![expect(clippy::unwrap_used, reason = "the helpers of a test fail with the test")]

mod process;

use std::path::Path;
use std::process::Command;

use process::Larder;
use serde_json::Value;

/// What `larder` prints in a directory when all is well.
#[track_caller]
fn larder(dir: &Path, store: &str, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
    command.args(arguments).current_dir(dir).env("LARDER_STORE", store).env_remove("LARDER_KEY_FILE");
    command
        .env("AWS_ACCESS_KEY_ID", "any")
        .env("AWS_SECRET_ACCESS_KEY", "any")
        .env("AWS_REGION", "us-east-1");
    let output = command.output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

fn on_both(test: impl Fn(&Path, &str)) {
    let dir = tempfile::tempdir().unwrap();
    test(dir.path(), "./data");
    let dir = tempfile::tempdir().unwrap();
    let server = Larder::serve(&["--memory", "--dynamodb", "127.0.0.1:0"]);
    test(dir.path(), &format!("dynamodb:{}", server.url));
}

fn with_lunch(dir: &Path, store: &str) {
    larder(dir, store, &["init", "lunch"]);
    larder(dir, store, &["apply", "--yes"]);
    larder(dir, store, &["seed", "lunch", "--count", "5"]);
}

#[test]
fn a_backup_outlives_its_table_and_becomes_one_again() {
    on_both(|dir, store| {
        with_lunch(dir, store);
        let made: Value =
            serde_json::from_str(&larder(dir, store, &["backup", "lunch-cache-dev", "--json"])).unwrap();
        let arn = made["arn"].as_str().unwrap();
        let listed = larder(dir, store, &["backup", "--list"]);
        assert!(listed.contains("lunch-cache-dev") && listed.contains(arn), "{listed}");
        let told = larder(dir, store, &["restore", "--backup", arn, "--to", "lunch-again"]);
        assert_eq!(told, "lunch-again is there, with 5 items\n");
        larder(dir, store, &["backup", "--rm", arn]);
        assert_eq!(larder(dir, store, &["backup", "--list", "lunch-cache-dev"]), "");
    });
}

#[test]
fn a_table_comes_back_as_it_was() {
    on_both(|dir, store| {
        with_lunch(dir, store);
        let told = larder(dir, store, &["restore", "lunch-cache-dev", "--to", "lunch-now"]);
        assert_eq!(told, "lunch-now is there, with 5 items\n");
    });
}
