//! Whole tables out of a store and into another, in the format in which DynamoDB exports to S3.

#![expect(clippy::unwrap_used, reason = "the helpers of a test fail with the test")]

mod process;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use flate2::Compression;
use flate2::write::GzEncoder;
use larder_local::DynamoDbLocal;
use process::{Client, Larder};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A directory with the five schemas in it, and what commands make there.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(process::place_with_schemas())
    }

    /// Records of two systems, one of them in parts.
    fn filled() -> Self {
        let place = Self::new();
        place.ok(&["seed", "keiba", "lunch", "--count", "20"]);
        let horses: Vec<Value> = (0..60_000).map(|number| json!({"number": number, "name": "A"})).collect();
        let race = json!({"race_id": "large", "data": {"horses": horses}});
        fs::write(place.path("large.json"), race.to_string()).unwrap();
        place.ok(&["put", "keiba.Race", "--file", "large.json"]);
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
        command
            .args(arguments)
            .current_dir(self.0.path())
            .env_clear()
            .env("AWS_EC2_METADATA_DISABLED", "true");
        command
            .env("AWS_ACCESS_KEY_ID", "any")
            .env("AWS_SECRET_ACCESS_KEY", "any")
            .env("AWS_REGION", "eu-north-1");
        // Java is started by the tests, not by this.
        command.output().unwrap()
    }

    #[track_caller]
    fn ok(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {error}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// What it says when it ends with 1.
    #[track_caller]
    fn fails(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    #[track_caller]
    fn dumped(&self, store: &str) -> Vec<String> {
        let text = self.ok(&["dump", "--store", store]);
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    }

    /// Exports a system, and says where its first table is.
    fn export(&self, system: &str, out: &str) -> PathBuf {
        let told = self.ok(&["dump", system, "--format", "dynamodb", "--out", out, "--json"]);
        let told: Value = serde_json::from_str(told.lines().next().unwrap()).unwrap();
        self.path(told["export"].as_str().unwrap())
    }
}

fn data_file(export: &Path) -> PathBuf {
    fs::read_dir(export.join("data")).unwrap().next().unwrap().unwrap().path()
}

#[test]
fn exported_tables_load_back_the_same_in_a_directory_and_behind_an_endpoint() {
    let place = Place::filled();
    let before = place.dumped("larder-data");
    assert!(before.iter().any(|line| line.len() > 1_000_000), "one is kept in parts");
    let told = place.ok(&["dump", "--format", "dynamodb", "--out", "exports"]);
    assert_eq!(told.lines().count(), 7, "the tables of all five systems: {told}");

    let told = place.ok(&["load", "exports", "--store", "copy"]);
    assert!(told.ends_with(" created, 0 overwritten, 0 unchanged, 0 refused\n"), "{told}");
    assert!(place.dumped("copy") == before, "a directory holds the same");
    let again = place.ok(&["load", "exports", "--store", "copy"]);
    assert!(again.starts_with("0 created, 0 overwritten, "), "{again}");

    let server = Larder::serve(&["--memory", "--dynamodb", "127.0.0.1:0"]);
    let store = format!("dynamodb:{}", server.url);
    let error = place.fails(&["load", "exports", "--store", &store]);
    assert!(error.contains("create it with `larder apply`"), "{error}");
    place.ok(&["apply", "--yes", "--store", &store]);
    assert_eq!(place.ok(&["load", "exports", "--store", &store]), told);
    assert!(place.dumped(&store) == before, "a server in memory holds the same");
}

#[test]
fn an_export_goes_to_dynamodb_local_and_comes_back() {
    let Some(local) = DynamoDbLocal::start() else { return };
    let place = Place::filled();
    let before = place.dumped("larder-data");
    let store = format!("dynamodb:{}", local.url);
    place.ok(&["apply", "--yes", "--store", &store]);
    place.ok(&["dump", "--format", "dynamodb", "--out", "there"]);
    place.ok(&["load", "there", "--store", &store]);
    assert!(place.dumped(&store) == before, "DynamoDB Local holds the same");
    place.ok(&["dump", "--format", "dynamodb", "--out", "back", "--store", &store]);
    place.ok(&["load", "back", "--store", "copy"]);
    assert!(place.dumped("copy") == before, "and it comes back");
}

#[test]
fn only_the_owner_can_read_an_export_and_nothing_else_is_left_beside_it() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = Place::filled();
    let export = place.export("lunch", "exports");
    assert_eq!(fs::metadata(&export).unwrap().permissions().mode() & 0o77, 0);
    let beside: Vec<_> =
        fs::read_dir(export.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(beside, [export]);
    let error = place.fails(&["dump", "--table", "none", "--format", "dynamodb", "--out", "failed"]);
    assert_eq!(error, "larder: there is no table none: create it with `larder apply`\n");
    assert!(!place.path("failed").exists());
}

#[test]
fn a_damaged_export_is_named_and_nothing_is_written() {
    let place = Place::filled();
    let check = |damage: &dyn Fn(&Path) -> PathBuf, cause: &str| {
        let _ = fs::remove_dir_all(place.path("exports"));
        let export = place.export("lunch", "exports");
        let damaged = damage(&export);
        let error = place.fails(&["load", "exports", "--store", "copy"]);
        let name = damaged.file_name().unwrap().to_str().unwrap();
        assert!(error.contains(name) && error.contains(cause) && error.lines().count() == 1, "{error}");
        assert!(!place.path("copy").exists());
    };
    let change = |path: PathBuf, change: &dyn Fn(Vec<u8>) -> Vec<u8>| {
        fs::write(&path, change(fs::read(&path).unwrap())).unwrap();
        path
    };
    let flip = |mut bytes: Vec<u8>| {
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        bytes
    };
    check(&|export| change(data_file(export), &flip), "its MD5 is not that of the manifest");
    check(
        &|export| change(data_file(export), &|bytes| bytes[..bytes.len() - 9].to_vec()),
        "its MD5 is not that of the manifest",
    );
    check(
        &|export| {
            let file = data_file(export);
            fs::remove_file(&file).unwrap();
            file
        },
        "it is missing",
    );
    check(
        &|export| change(export.join("manifest-summary.json"), &flip),
        "is not that of manifest-summary.md5",
    );
    check(&|export| change(export.join("manifest-files.json"), &flip), "is not that of manifest-files.md5");
    check(
        &|export| {
            fs::remove_file(export.join("manifest-files.md5")).unwrap();
            change(export.join("manifest-files.json"), &|_| Vec::new())
        },
        "it lists files of 0 items, and the summary says 20",
    );
    check(
        &|export| {
            fs::remove_file(export.join("manifest-summary.md5")).unwrap();
            let change_kind = |bytes: Vec<u8>| {
                String::from_utf8(bytes).unwrap().replace("FULL_EXPORT", "INCREMENTAL_EXPORT").into_bytes()
            };
            change(export.join("manifest-summary.json"), &change_kind)
        },
        "it is an INCREMENTAL_EXPORT, of changes",
    );
}

#[test]
fn files_alone_are_loaded_into_a_table_that_is_named() {
    let place = Place::new();
    let server = Larder::on(&place.path("larder-data"), &[]);
    let client = Client::new(&server.url);
    client.ok(
        "CreateTable",
        json!({"TableName": "things", "BillingMode": "PAY_PER_REQUEST",
               "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "N"}],
               "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}]}),
    );
    let item = |id: u32| {
        json!({"id": {"N": id.to_string()}, "b": {"B": "AAH/"}, "bs": {"BS": ["AQ==", "Ag=="]}, "no": {"BOOL": false},
               "list": {"L": [{"NULL": true}, {"M": {"x": {"NS": ["1", "2.5"]}}}]}, "s": {"S": "東京\n\""}})
    };
    fs::create_dir(place.path("files")).unwrap();
    fs::write(place.path("files/a.json"), format!("{}\n\n", json!({"Item": item(1)}))).unwrap();
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    writeln!(gzip, "{}\n{}", json!({"Item": item(2)}), json!({"Item": item(3)})).unwrap();
    fs::write(place.path("files/b.json.gz"), gzip.finish().unwrap()).unwrap();
    let store = format!("dynamodb:{}", server.url);

    let error = place.fails(&["load", "files", "--store", &store]);
    assert!(error.contains("name the one it goes into with --table TABLE"), "{error}");
    let load = ["load", "files", "--table", "things", "--store", &store];
    assert_eq!(place.ok(&load), "3 created, 0 overwritten, 0 unchanged, 0 refused\n");
    for id in 1..=3 {
        let found =
            client.ok("GetItem", json!({"TableName": "things", "Key": {"id": {"N": id.to_string()}}}));
        assert_eq!(found["Item"], item(id));
    }

    // A table that no schema knows is exported by its name, and one file of it is loaded.
    place.ok(&["dump", "--table", "things", "--format", "dynamodb", "--out", "exports", "--store", &store]);
    let export = fs::read_dir(place.path("exports/AWSDynamoDB")).unwrap().next().unwrap().unwrap().path();
    let file = data_file(&export).to_str().unwrap().to_owned();
    let told = place.ok(&["load", &file, "--table", "things", "--store", &store]);
    assert_eq!(told, "0 created, 0 overwritten, 3 unchanged, 0 refused\n");

    fs::write(place.path("files/c.json"), "{\"Item\":{\"id\":{\"S\":\"4\"}}}\nno\n").unwrap();
    let error = place.fails(&load);
    assert!(
        error.contains("files/c.json:1: the key `id` of things is missing, or is not of type N\n"),
        "{error}"
    );
    assert!(error.contains("files/c.json:2: this is not JSON\n"), "{error}");
    assert!(error.ends_with("larder: 2 of 5 records are wrong: nothing was written\n"), "{error}");
}

#[test]
fn an_item_that_the_table_cannot_take_is_refused_alone() {
    let place = Place::new();
    place.ok(&["seed", "lunch", "--count", "1"]);
    let item = |pk: &str, restaurant: &Value| json!({"Item": {"pk": {"S": pk}, "restaurant": restaurant}});
    // The index wants text.
    let lines = [
        item("a", &json!({"S": "x"})),
        item("b", &json!({"N": "1"})),
        item("", &json!({"S": "x"})),
        item("c", &json!({"S": "x"})),
    ];
    fs::write(place.path("items.json"), lines.map(|line| format!("{line}\n")).concat()).unwrap();
    let output = place.run(&["load", "items.json", "--table", "lunch-cache-dev", "--on-error", "skip"]);
    let error = String::from_utf8(output.stderr).unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    assert_eq!(told, "2 created, 0 overwritten, 0 unchanged, 2 refused\n", "{error}");
    assert!(error.contains("items.json:2: "), "{error}");
    assert!(error.contains("items.json:3: the key `pk` of lunch-cache-dev is empty\n"), "{error}");
}

#[test]
fn two_exports_of_one_table_are_not_loaded_together() {
    let place = Place::filled();
    place.export("lunch", "exports");
    let newest = place.export("lunch", "exports");
    let error = place.fails(&["load", "exports", "--store", "copy"]);
    assert!(error.contains("are both for lunch-cache-dev: give one of them"), "{error}");
    let told = place.ok(&["load", newest.to_str().unwrap(), "--store", "copy"]);
    assert_eq!(told, "20 created, 0 overwritten, 0 unchanged, 0 refused\n");
    for (arguments, told) in [
        (&["dump", "lunch", "--format", "dynamodb"][..], "name it with --out DIR"),
        (&["dump", "lunch.Menu", "--format", "dynamodb", "--out", "x"], "give lunch"),
        (&["dump", "--table", "lunch-cache-dev"], "add --format dynamodb"),
        (&["load", "exports", "--entity", "lunch.Menu"], "these are tables"),
    ] {
        let error = place.fails(arguments);
        assert!(error.contains(told), "{error}");
    }
}
