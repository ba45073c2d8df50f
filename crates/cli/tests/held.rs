//! Commands on a directory that others use: they wait for each other, and go through the server that has it.

mod process;

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use process::Larder;
use tempfile::TempDir;

const SCHEMA: &str = r#"system code

table repos {
  name "code_repos"
  key  pk / sk
  pitr on

  entity Repo {
    key  "REPO#{name}" / "AT#{pushed_at}"
    name:      string nonempty
    pushed_at: instant
  }

  collection Pushes { Repo }
}
"#;

fn larder(place: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
    command.args(arguments).current_dir(place).stdin(Stdio::null());
    for variable in ["LARDER_STORE", "LARDER_LOG", "LARDER_KEY", "LARDER_KEY_FILE"] {
        command.env_remove(variable);
    }
    command
}

fn run(place: &Path, arguments: &[&str]) -> Output {
    larder(place, arguments).output().expect("the binary was built with this test")
}

#[track_caller]
fn ok(output: &Output) -> String {
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[track_caller]
fn refused(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A schema and a store with one record.
fn place() -> TempDir {
    let place = tempfile::tempdir().expect("a place for temporary files");
    fs::write(place.path().join("code.larder"), SCHEMA).expect("the directory can be written");
    ok(&run(place.path(), &["apply", "--yes"]));
    ok(&run(place.path(), &["put", "code.Repo", "name=larder", "pushed_at=2025-01-15T10:00:00Z"]));
    place
}

const GET: [&str; 4] = ["get", "code.Repo", "name=larder", "pushed_at=2025-01-15T10:00:00Z"];

#[test]
fn thirty_commands_at_once_all_have_their_turn() {
    let place = place();
    let started: Vec<_> = (0..30)
        .map(|_| {
            let mut get = larder(place.path(), &GET);
            get.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
        })
        .collect();
    for child in started {
        assert!(ok(&child.wait_with_output().expect("it ends")).contains("larder"));
    }
    assert!(!place.path().join("larder-data/larder.holder").exists());
}

#[test]
fn commands_go_through_the_server_that_has_the_directory() {
    let place = place();
    let server = Larder::on(&place.path().join("larder-data"), &[]);
    assert!(ok(&run(place.path(), &GET)).contains("2025-01-15T10:00:00Z"));
    ok(&run(place.path(), &["put", "code.Repo", "name=other", "pushed_at=2025-01-16T10:00:00Z"]));
    assert!(ok(&run(place.path(), &["stats", "--exact"])).contains("2 items"));
    for command in [
        &["scan", "code.Repo"][..],
        &["query", "code.Repo", "name=larder"],
        &["dump", "code.Repo"],
        &["collection", "get", "code.Pushes", "name=larder"],
        &["review"],
        &["plan"],
        &["doctor"],
        &["tables"],
        &["check", "--data"],
        &["rm", "code.Repo", "name=none", "pushed_at=2025-01-16T10:00:00Z"],
    ] {
        let output = run(place.path(), command);
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(!told.contains("in use"), "{command:?}: {told}");
    }
    let backup = ok(&run(place.path(), &["backup", "--to", "kept"]));
    assert!(place.path().join("kept").is_dir(), "{backup}");
    // What works on the file itself says who has it.
    let refusal = refused(&run(place.path(), &["verify"]));
    let holder =
        format!("in use by process {} (larder), which serves it at {}", server.child.id(), server.url);
    assert!(refusal.contains(&holder), "{refusal}");
    drop(server); // killed: its note stays behind, and counts for nothing
    assert!(place.path().join("larder-data/larder.holder").exists());
    assert!(ok(&run(place.path(), &["query", "code.Repo", "name=other"])).contains("2025-01-16"));
    assert!(!place.path().join("larder-data/larder.holder").exists());
}

#[test]
fn a_server_takes_the_store_that_other_commands_take() {
    let place = place();
    let mut command = process::command(&["--dynamodb", "127.0.0.1:0"]);
    command.current_dir(place.path()).env("LARDER_STORE", "dynamodb:http://127.0.0.1:1");
    let refusal = refused(&command.output().expect("it ends by itself"));
    assert!(refusal.contains("served elsewhere: name a directory with --store"), "{refusal}");

    let server = Larder::serve(&[
        "--store",
        &place.path().join("larder-data").display().to_string(),
        "--dynamodb",
        "127.0.0.1:0",
    ]);
    let through = format!("dynamodb:{}", server.url);
    let mut get = larder(place.path(), &GET);
    assert!(ok(&get.env("LARDER_STORE", &through).output().expect("it ends")).contains("larder"));
    // Nobody is paid for reading one's own endpoint.
    let counted = ok(&run(place.path(), &["stats", "--exact", "--store", &through]));
    assert!(counted.contains("code.Repo"), "{counted}");
}

#[test]
fn an_entity_without_its_system_is_told_whose_it_may_be() {
    let place = place();
    let refusal = refused(&run(place.path(), &["put", "Repo", "name=x"]));
    assert!(refusal.contains("did you mean code.Repo?") && !refusal.contains("keiba"), "{refusal}");
    let refusal = refused(&run(place.path(), &["put", "Elsewhere", "name=x"]));
    assert!(refusal.contains("there are code.Repo") && !refusal.contains("keiba"), "{refusal}");
}

#[test]
fn a_range_of_moments_is_given_by_days() {
    let place = place();
    let query = |range: &[&str]| {
        let arguments = [&["query", "code.Repo", "name=larder"], range].concat();
        ok(&run(place.path(), &arguments)).contains("2025-01-15T10:00:00Z")
    };
    assert!(query(&["--from", "2025-01-01"]));
    assert!(query(&["--from", "2025-01-15", "--until", "2025-01-15"]));
    assert!(!query(&["--from", "2025-01-16"]));
    assert!(!query(&["--until", "2025-01-14"]));
}

#[test]
fn a_moment_out_of_reach_is_told_the_range() {
    let place = place();
    let arguments = ["restore", "code_repos", "--to", "code_again", "--at", "2001-01-01T00:00:00Z"];
    let refusal = refused(&run(place.path(), &arguments));
    assert!(refusal.contains("; it can be restored to any moment from 20"), "{refusal}");
    assert!(refusal.contains("give one with --at"), "{refusal}");
}
