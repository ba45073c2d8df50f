//! Plan and apply, on every kind of store: the embedded one, `larder serve` through the AWS SDK, and DynamoDB
//! Local where `DYNAMODB_LOCAL_DIR` names the directory of its jar.

#![expect(clippy::unwrap_used, reason = "the helpers of a test fail with the test")]

mod process;

use std::collections::BTreeMap;
use std::env;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use larder::provision::{
    Applied, Desired, Event, Mark, Permissions, Plan, Silent, Verdict, Watch, apply, plan,
};
use larder::store::ops::{Request, Response};
use larder::store::{Backend, Deployed, Error, Feature, Lacks, TableChange};
use larder::{Address, Store};
use larder_local::DynamoDbLocal;
use larder_model::{Clock, IndexName, TableDefinition, TableName, Tags};
use larder_schema::{Environment, NoFiles, Schema};
use process::{Client, Larder};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(120);

const BEFORE: &str = r#"
system shop

table orders {
  name  "shop-orders"
  key   id
  tags  Team "sales"

  index by_status as by_status  status / placed_at  project all

  entity Order {
    id:        string nonempty
    status:    string nonempty
    placed_at: string nonempty
    customer:  string nonempty
  }
}
"#;

/// Two more indexes, a TTL, another tag, protection, and a second table.
const AFTER: &str = r#"
system shop

table orders {
  name       "shop-orders"
  key        id
  ttl        expires
  tags       Team "logistics", Stage "test"
  on_delete  retain

  index by_status   as by_status    status / placed_at    project all
  index by_customer as by_customer  customer / placed_at  project keys
  index by_day      as by_day       placed_at             project customer

  entity Order {
    ttl  7d

    id:        string nonempty
    status:    string nonempty
    placed_at: string nonempty
    customer:  string nonempty
  }
}

table carts {
  name  "shop-carts"
  key   id
  ttl   expires

  index by_owner as by_owner  owner  project all

  entity Cart {
    ttl  1d

    id:    string nonempty
    owner: string nonempty
  }
}
"#;

#[test]
fn the_five_systems_apply_and_a_second_apply_changes_nothing() {
    on_every_store(async |store| {
        let desired: Vec<Desired> =
            ["keiba", "lunch", "shops", "tdnet", "weather"].map(|name| system(&schema_file(name))).into();
        let planned = plan(&desired, &store).await.unwrap();
        assert!(planned.tables.iter().all(|table| table.verdict == Verdict::Create), "{planned}");
        let applied = apply_all(&planned, &store).await;
        assert_eq!(applied.ignored, [], "{}", store.place());
        assert!(applied.after.is_settled(), "{}", applied.after);

        let state = state(&store).await;
        assert_eq!(state.len(), 7);
        let again = plan(&desired, &store).await.unwrap();
        assert!(again.steps(&everything(&again)).is_empty(), "{again}");
        assert_eq!(again.others, 0);
        assert_eq!(apply_all(&again, &store).await.done, []);
        assert_eq!(self::state(&store).await, state);
    });
}

#[test]
fn l20_what_a_store_cannot_do_is_named_and_is_no_drift() {
    on_every_store(async |store| {
        let planned = plan(&[system(&schema_file("tdnet"))], &store).await.unwrap();
        let named: Vec<&str> = planned.lines(Mark::NotPossible).map(|(_, line)| line.what.as_str()).collect();
        let lacks = store.lacks().await.unwrap();
        assert_eq!(named.contains(&"pitr"), lacks.contains_key(&Feature::PointInTimeRecovery), "{planned}");
        assert_eq!(named.contains(&"encryption"), lacks.contains_key(&Feature::Encryption), "{planned}");
        assert!(named.is_empty() || planned.to_string().contains("not possible on this store"), "{planned}");
        apply_all(&planned, &store).await;
        assert!(plan(&[system(&schema_file("tdnet"))], &store).await.unwrap().is_settled());
    });
}

#[test]
fn cut_off_at_any_call_the_next_apply_reaches_the_same_end() {
    on_every_store(async |store| {
        let (before, after) = ([system(BEFORE)], [system(AFTER)]);
        bring(&store, &before).await;
        bring(&store, &after).await;
        let end = state(&store).await;
        check_end(&end, store.lacks().await.unwrap());
        wipe(&store).await;
        bring(&store, &after).await;
        assert_eq!(state(&store).await, end, "made at once, it is what it becomes by changes");

        // Reads are fast enough to be all cut off in process; over HTTP, the changes are.
        let reads = !store.place().starts_with("dynamodb:");
        for lost in [Lost::Request, Lost::Answer] {
            let mut fail_at = 0;
            loop {
                wipe(&store).await;
                bring(&store, &before).await;
                let planned = plan(&after, &store).await.unwrap();
                let faulty = Arc::new(Faulty {
                    backend: store.backend().clone(),
                    calls: AtomicUsize::new(0),
                    fail_at,
                    reads,
                    lost,
                });
                let cut = Store::on(faulty);
                let outcome = apply(&planned, &cut, &Permissions::default(), &mut Silent).await;
                bring(&store, &after).await;
                assert_eq!(state(&store).await, end, "{lost:?} at call {fail_at} on {}", store.place());
                if outcome.is_ok() {
                    break;
                }
                fail_at += 1;
            }
            let steps = plan_steps(&before, &after).await;
            assert!(fail_at >= steps, "only {fail_at} of {steps} steps were cut off");
        }
    });
}

#[test]
fn told_to_stop_it_says_what_is_left_and_the_next_apply_does_it() {
    on_every_store(async |store| {
        let after = [system(AFTER)];
        let planned = plan(&after, &store).await.unwrap();
        let of = planned.steps(&Permissions::default()).len();
        for steps in 0..of {
            wipe(&store).await;
            let mut watch = StopAfter { left: steps };
            let applied = apply(&planned, &store, &Permissions::default(), &mut watch).await.unwrap();
            assert!(applied.stopped);
            assert_eq!(applied.done.len(), steps);
            assert_eq!(applied.after.steps(&Permissions::default()).len(), of - steps, "{}", applied.after);
            assert!(bring(&store, &after).await.after.is_settled());
        }
    });
}

#[test]
fn a_plan_that_has_come_true_meanwhile_does_nothing() {
    on_every_store(async |store| {
        let stale = plan(&[system(AFTER)], &store).await.unwrap();
        bring(&store, &[system(AFTER)]).await;
        let applied = apply_all(&stale, &store).await;
        assert_eq!((applied.done, applied.ignored), (Vec::new(), Vec::new()));
    });
}

#[test]
fn drift_is_seen_and_mended() {
    on_every_store(async |store| {
        let after = [system(AFTER)];
        bring(&store, &after).await;
        let end = state(&store).await;
        let (orders, carts) = (table("shop-orders"), table("shop-carts"));
        let tag = TableChange::Tag([("Team".to_owned(), "nobody".to_owned())].into());
        let mut drifts = vec![
            (&carts, TableChange::TimeToLive { attribute: "expires".into(), enabled: false }, "ttl"),
            (&orders, TableChange::DeleteIndex(IndexName::new("by_day").unwrap()), "index by_day"),
        ];
        if !store.lacks().await.unwrap().contains_key(&Feature::Tags) {
            drifts.push((&orders, tag, "tags"));
        }
        if !store.lacks().await.unwrap().contains_key(&Feature::DeletionProtection) {
            drifts.push((&orders, TableChange::DeletionProtection(false), "deletion protection"));
        }
        for (table, change, what) in drifts {
            match store.change_table(table, &change).await {
                // DynamoDB takes an hour for it, and Larder's endpoint says that it does.
                Err(error) if error.to_string().contains("multiple times within a fixed interval") => {
                    continue;
                }
                changed => changed.unwrap(),
            }
            settled(&store).await;
            let seen = plan(&after, &store).await.unwrap();
            assert!(!seen.is_settled(), "{what}: {seen}");
            let differing =
                seen.tables.iter().flat_map(|table| &table.lines).filter(|line| !line.steps.is_empty());
            assert_eq!(differing.map(|line| line.what.as_str()).collect::<Vec<_>>(), [what], "{seen}");
            let mended = bring(&store, &after).await;
            assert_eq!(mended.done.len(), 1, "{what}");
            assert_eq!(state(&store).await, end, "{what}");
        }
    });
}

#[test]
fn a_tag_that_the_schema_does_not_name_is_left_alone() {
    on_every_store(async |store| {
        if store.lacks().await.unwrap().contains_key(&Feature::Tags) {
            return;
        }
        let desired = [system(BEFORE)];
        bring(&store, &desired).await;
        let own: Tags = [("CostCenter".to_owned(), "42".to_owned())].into();
        store.change_table(&table("shop-orders"), &TableChange::Tag(own)).await.unwrap();
        let seen = plan(&desired, &store).await.unwrap();
        assert!(seen.is_settled(), "{seen}");
        assert_eq!(seen.lines(Mark::Kept).count(), 1, "{seen}");
    });
}

#[test]
fn an_index_goes_only_with_its_word() {
    on_every_store(async |store| {
        bring(&store, &[system(AFTER)]).await;
        let without =
            AFTER.replace("index by_day      as by_day       placed_at             project customer", "");
        let desired = [system(&without)];
        let planned = plan(&desired, &store).await.unwrap();
        assert_eq!(planned.words().collect::<Vec<_>>(), ["shop-orders/by_day"], "{planned}");
        assert_eq!(apply_all(&planned, &store).await.done, []);
        assert!(has_index(&store, "by_day").await);

        let applied = apply(&planned, &store, &everything(&planned), &mut Silent).await.unwrap();
        assert_eq!(applied.done.len(), 1);
        assert!(applied.after.is_settled(), "{}", applied.after);
        assert!(!has_index(&store, "by_day").await);
    });
}

#[test]
fn a_changed_index_is_built_again_only_with_its_word() {
    on_every_store(async |store| {
        bring(&store, &[system(AFTER)]).await;
        let desired = [system(&AFTER.replace("project customer", "project all"))];
        let planned = plan(&desired, &store).await.unwrap();
        assert_eq!(apply_all(&planned, &store).await.done, []);
        let applied = apply(&planned, &store, &everything(&planned), &mut Silent).await.unwrap();
        assert_eq!(applied.done.len(), 2, "deleted and built");
        assert!(applied.after.is_settled(), "{}", applied.after);
    });
}

#[test]
fn a_table_goes_only_with_its_word_and_a_retained_one_not_even_then() {
    on_every_store(async |store| {
        bring(&store, &[system(AFTER)]).await;
        let other =
            "system shop\ntable other {\n  key  id\n  entity Other {\n    id: string nonempty\n  }\n}\n";
        let desired = [system(other)];
        let planned = plan(&desired, &store).await.unwrap();
        if store.lacks().await.unwrap().contains_key(&Feature::Tags) {
            // Nothing says whose the tables are.
            assert_eq!((planned.words().count(), planned.others), (0, 2), "{planned}");
            return;
        }
        assert_eq!(planned.words().collect::<Vec<_>>(), ["shop-carts"], "{planned}");
        assert_eq!(verdict(&planned, "shop-carts"), Verdict::Destroy);
        assert_eq!(verdict(&planned, "shop-orders"), Verdict::Retain);
        assert_eq!(apply_all(&planned, &store).await.done.len(), 1, "the new table");

        let both = Permissions(["shop-carts".to_owned(), "shop-orders".to_owned()].into());
        let planned = plan(&desired, &store).await.unwrap();
        apply(&planned, &store, &both, &mut Silent).await.unwrap();
        assert_eq!(names(&store).await, ["other", "shop-orders"]);

        // Unprotected by hand, it is still marked as one to retain.
        let unprotect = TableChange::DeletionProtection(false);
        store.change_table(&table("shop-orders"), &unprotect).await.unwrap();
        settled(&store).await;
        assert_eq!(verdict(&plan(&desired, &store).await.unwrap(), "shop-orders"), Verdict::Retain);
    });
}

#[test]
fn tables_of_another_environment_and_of_other_systems_are_not_ours() {
    on_every_store(async |store| {
        let stage = |stage: &str| {
            let environment = [("ENVIRONMENT".to_owned(), stage.to_owned())].into();
            [system_in(&schema_file("lunch"), &environment)]
        };
        bring(&store, &stage("prod")).await;
        bring(&store, &[system(BEFORE)]).await;
        let planned = plan(&stage("dev"), &store).await.unwrap();
        assert_eq!(planned.words().count(), 0, "{planned}");
        assert_eq!(planned.others, 2, "{planned}");
    });
}

#[test]
fn another_key_cannot_be_given_and_nothing_is_done_to_the_table() {
    on_every_store(async |store| {
        bring(&store, &[system(BEFORE)]).await;
        let state = state(&store).await;
        let desired = [system(&AFTER.replace("key        id", "key        id / placed_at"))];
        let planned = plan(&desired, &store).await.unwrap();
        assert_eq!(verdict(&planned, "shop-orders"), Verdict::CannotChange, "{planned}");
        apply_all(&planned, &store).await;
        let orders = table("shop-orders");
        assert_eq!(self::state(&store).await.get(&orders), state.get(&orders));
    });
}

#[test]
fn billing_changes_both_ways() {
    on_every_store(async |store| {
        let with = |billing: &str| {
            [system(&AFTER.replace("key        id", &format!("key id\n  billing {billing}")))]
        };
        for billing in ["on_demand", "provisioned 3 / 2", "provisioned 4 / 2", "on_demand"] {
            let applied = bring(&store, &with(billing)).await;
            assert!(applied.after.is_settled(), "{billing}: {}", applied.after);
        }
    });
}

#[test]
fn an_index_of_a_table_with_items_is_filled_when_apply_returns() {
    let server = Larder::serve(&["--memory", "--dynamodb", "127.0.0.1:0"]);
    let client = Client::new(&server.url);
    run(async {
        let store = open(&format!("dynamodb:{}", server.url)).await;
        bring(&store, &[system(BEFORE)]).await;
        for batch in 0..40 {
            let puts = (0..25).map(|at| {
                let id = format!("{batch}-{at}");
                let text = |text: &str| json!({ "S": text });
                let item = json!({
                    "id": text(&id), "status": text("new"), "placed_at": text("2026"), "customer": text("ann"),
                });
                json!({ "PutRequest": { "Item": item } })
            });
            let puts: Vec<Value> = puts.collect();
            client.ok("BatchWriteItem", json!({ "RequestItems": { "shop-orders": puts } }));
        }
        bring(&store, &[system(AFTER)]).await;
        let counted = client.ok(
            "Query",
            json!({
                "TableName": "shop-orders", "IndexName": "by_customer", "Select": "COUNT",
                "KeyConditionExpression": "customer = :c", "ExpressionAttributeValues": { ":c": { "S": "ann" } },
            }),
        );
        assert_eq!(counted["Count"], 1000);
    });
}

#[test]
fn the_commands_tell_by_their_exit_code() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (data, before, after) = (at("data"), at("before.larder"), at("after.larder"));
    std::fs::write(&before, BEFORE).unwrap();
    std::fs::write(&after, AFTER).unwrap();
    let larder = |arguments: &[&str]| larder(&[arguments, &["--store", &data]].concat());

    check(&larder(&["plan", &before]), 0, "1 to create");
    assert!(!directory.path().join("data").exists(), "plan makes nothing");
    check(&larder(&["drift", &before]), 3, "1 to create");
    check(&larder(&["apply", &before]), 1, "");
    assert!(!directory.path().join("data").exists(), "unconfirmed, apply makes nothing");
    check(&larder(&["apply", "--yes", &before]), 0, "done");
    check(&larder(&["apply", "--yes", &before]), 0, "Nothing to do.");
    check(&larder(&["drift", &before]), 0, "1 unchanged");
    check(&larder(&["drift", &after]), 3, "1 to create, 1 to change");
    check(&larder(&["apply", "--yes", &after]), 0, "done");
    check(&larder(&["drift", &after]), 0, "2 unchanged");
    check(&larder(&["apply", "--yes", &before, "--allow-destroy", "shop-cart"]), 1, "");
    check(&larder(&["apply", "--yes", &before, "--allow-destroy", "shop-carts"]), 0, "done");

    let planned = larder(&["plan", "--json", &before]);
    let planned: Value = serde_json::from_slice(&planned.stdout).unwrap();
    assert_eq!(planned["tables"][0]["name"], "shop-orders");
    assert_eq!(planned["tables"][0]["verdict"], "change");
    check(&larder(&["drift", &at("none.larder")]), 1, "");
}

#[test]
fn interrupted_apply_says_what_is_left_and_the_next_one_does_it() {
    let data = tempfile::tempdir().unwrap();
    let server = Larder::on(data.path(), &[]);
    let (store, schemas) = (format!("dynamodb:{}", server.url), schema_directory());
    let files =
        ["keiba", "lunch", "shops", "tdnet", "weather"].map(|name| format!("{schemas}/{name}.larder"));
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let with = |command: &[&'static str]| [command, &["--store", &store], &files].concat();
    let arguments = with(&["apply", "--yes"]);

    let mut child = command(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.starts_with("[3/")), "it gets to the third step");
    signal(&server.child, Signal::STOP);
    signal(&child, Signal::INT);
    let noticed = lines.any(|line| line.starts_with("Stopping"));
    signal(&server.child, Signal::CONT);
    drop(lines);
    let output = child.wait_with_output().unwrap();
    // It may have been done before the signals came.
    if noticed {
        check(&output, 1, "Left to do:");
    } else {
        check(&output, 0, "done");
    }

    check(&larder(&arguments), 0, "");
    check(&larder(&with(&["drift"])), 0, "7 unchanged");
}

// The stores

/// Runs the test on a fresh store of every kind.
fn on_every_store(test: impl AsyncFn(Store)) {
    run(async {
        test(open("memory:").await).await;
        let directory = tempfile::tempdir().unwrap();
        test(open(directory.path().to_str().unwrap()).await).await;
        let directory = tempfile::tempdir().unwrap();
        let server = Larder::on(directory.path(), &[]);
        test(open(&format!("dynamodb:{}", server.url)).await).await;
    });
    let Some(local) = DynamoDbLocal::start() else { return };
    run(async { test(open(&format!("dynamodb:{}", local.url)).await).await });
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(LIMIT, test).await.expect("it ends in time") });
}

async fn open(address: &str) -> Store {
    Store::open(&address.parse::<Address>().unwrap()).await.unwrap()
}

// What is wanted, and what is there

fn system(text: &str) -> Desired {
    system_in(text, &Environment::new())
}

fn system_in(text: &str, environment: &Environment) -> Desired {
    let loaded = Schema::load("test.larder", text, &mut NoFiles, environment);
    let schema = loaded.schema.unwrap_or_else(|| panic!("{:#?}", loaded.diagnostics));
    Desired::of(&schema, environment).unwrap()
}

fn schema_directory() -> String {
    format!("{}/../../schemas", env!("CARGO_MANIFEST_DIR"))
}

fn schema_file(name: &str) -> String {
    std::fs::read_to_string(format!("{}/{name}.larder", schema_directory())).unwrap()
}

fn table(name: &str) -> TableName {
    TableName::new(name).unwrap()
}

fn verdict(plan: &Plan, name: &str) -> Verdict {
    plan.tables.iter().find(|table| table.name.as_str() == name).expect("the table is planned").verdict
}

fn everything(plan: &Plan) -> Permissions {
    Permissions(plan.words().map(str::to_owned).collect())
}

async fn apply_all(plan: &Plan, store: &Store) -> Applied {
    apply(plan, store, &Permissions::default(), &mut Silent).await.unwrap()
}

async fn bring(store: &Store, desired: &[Desired]) -> Applied {
    apply_all(&plan(desired, store).await.unwrap(), store).await
}

/// How many steps lead from one state to the other on a store that has nothing to add.
async fn plan_steps(before: &[Desired], after: &[Desired]) -> usize {
    let store = open("memory:").await;
    bring(&store, before).await;
    let lacking_steps = 2; // A store without tags or protection takes fewer.
    plan(after, &store).await.unwrap().steps(&Permissions::default()).len() - lacking_steps
}

/// Everything about every table, in an order that does not depend on how it came about.
async fn state(store: &Store) -> BTreeMap<TableName, Deployed> {
    let mut state = BTreeMap::new();
    for name in store.list_tables().await.unwrap() {
        let mut deployed = store.describe(&name).await.unwrap().expect("it was listed");
        deployed.definition.indexes.sort_by(|a, b| a.name.cmp(&b.name));
        deployed.definition.attributes.sort_by(|a, b| a.0.cmp(&b.0));
        state.insert(name, deployed);
    }
    state
}

/// What [`AFTER`] says, as far as the store can do it.
#[track_caller]
fn check_end(state: &BTreeMap<TableName, Deployed>, lacks: &Lacks) {
    let (orders, carts) = (&state["shop-orders"], &state["shop-carts"]);
    for (deployed, indexes) in [(orders, &["by_customer", "by_day", "by_status"][..]), (carts, &["by_owner"])]
    {
        assert_eq!(deployed.ttl_attribute.as_deref(), Some("expires"));
        let found: Vec<&str> = deployed.definition.indexes.iter().map(|index| index.name.as_str()).collect();
        assert_eq!(found, indexes);
        assert_eq!(deployed.busy, None);
    }
    let has = |feature| !lacks.contains_key(&feature);
    let team = orders.definition.tags.get("Team").map(String::as_str);
    assert_eq!(team, has(Feature::Tags).then_some("logistics"));
    assert_eq!(orders.definition.deletion_protection, has(Feature::DeletionProtection));
    assert!(!carts.definition.deletion_protection);
}

async fn names(store: &Store) -> Vec<String> {
    store.list_tables().await.unwrap().iter().map(ToString::to_string).collect()
}

async fn has_index(store: &Store, name: &str) -> bool {
    let orders = store.describe(&table("shop-orders")).await.unwrap().unwrap();
    orders.definition.index(name).is_some()
}

/// Waits until no table is busy.
async fn settled(store: &Store) {
    for asked in 0.. {
        let state = state(store).await;
        if state.values().all(|table| table.busy.is_none()) {
            return;
        }
        store.pause(asked).await.unwrap();
    }
}

async fn wipe(store: &Store) {
    settled(store).await;
    for (name, deployed) in state(store).await {
        if deployed.definition.deletion_protection {
            store.change_table(&name, &TableChange::DeletionProtection(false)).await.unwrap();
            settled(store).await;
        }
        store.delete_table(&name).await.unwrap();
    }
    for asked in 0.. {
        if store.list_tables().await.unwrap().is_empty() {
            return;
        }
        store.pause(asked).await.unwrap();
    }
}

/// A part of a template with its parameters as they are by default.
fn known(part: &Value, parameters: &Value) -> Value {
    let default = |name: &str| parameters[name]["Default"].as_str().expect("it has a default").to_owned();
    match part {
        Value::Object(fields) => match (fields.get("Ref"), fields.get("Fn::Sub")) {
            (Some(name), _) => json!(default(name.as_str().expect("a name"))),
            (_, Some(text)) => {
                let mut text = text.as_str().expect("a text").to_owned();
                for name in parameters.as_object().expect("they have names").keys() {
                    text = text.replace(&format!("${{{name}}}"), &default(name));
                }
                json!(text)
            }
            _ => fields.iter().map(|(name, one)| (name.clone(), known(one, parameters))).collect(),
        },
        Value::Array(members) => members.iter().map(|one| known(one, parameters)).collect(),
        plain => plain.clone(),
    }
}

/// Does what CloudFormation does for a table of a stack.
fn deploy(properties: &Value, client: &Client) {
    let mut request = properties.clone();
    let name = request["TableName"].clone();
    let fields = request.as_object_mut().expect("properties have names");
    let ttl = fields.remove("TimeToLiveSpecification");
    let pitr = fields.remove("PointInTimeRecoverySpecification");
    if let Some(encryption) = fields.remove("SSESpecification") {
        fields.insert("SSESpecification".into(), json!({"Enabled": encryption["SSEEnabled"]}));
    }
    if let Some(stream) = fields.get_mut("StreamSpecification") {
        stream["StreamEnabled"] = json!(true);
    }
    client.ok("CreateTable", request);
    if let Some(ttl) = ttl {
        client.ok("UpdateTimeToLive", json!({"TableName": name, "TimeToLiveSpecification": ttl}));
    }
    if let Some(pitr) = pitr {
        let change = json!({"TableName": name, "PointInTimeRecoverySpecification": pitr});
        client.ok("UpdateContinuousBackups", change);
    }
}

#[test]
fn tables_that_a_stack_has_made_are_no_drift() {
    let place = process::place_with_schemas();
    let server = Larder::serve(&["--memory", "--dynamodb", "127.0.0.1:0"]);
    let (client, store) = (Client::new(&server.url), format!("dynamodb:{}", server.url));
    let run = |arguments: &[&str]| command(arguments).current_dir(place.path()).output().unwrap();
    for system in ["keiba", "lunch", "shops", "tdnet", "weather"] {
        let exported = run(&["export", "cloudformation", system]);
        let template: Value = serde_json::from_slice(&exported.stdout).unwrap();
        for resource in template["Resources"].as_object().unwrap().values() {
            if resource["Type"] == "AWS::DynamoDB::Table" {
                deploy(&known(&resource["Properties"], &template["Parameters"]), &client);
            }
        }
    }
    let drift = run(&["drift", "--store", &store]);
    let told =
        format!("{}{}", String::from_utf8_lossy(&drift.stdout), String::from_utf8_lossy(&drift.stderr));
    assert_eq!(drift.status.code(), Some(0), "{told}");
}

struct StopAfter {
    left: usize,
}

impl Watch for StopAfter {
    fn event(&mut self, event: Event<'_>) {
        if let Event::Done { .. } | Event::Ignored { .. } = event {
            self.left -= 1;
        }
    }

    fn stop(&self) -> bool {
        self.left == 0
    }
}

/// What gets lost when a call fails.
#[derive(Clone, Copy, Debug)]
enum Lost {
    Request,
    Answer,
}

/// A store that fails at one call and at all after it, as when the power goes.
#[derive(Debug)]
struct Faulty {
    backend: Arc<dyn Backend>,
    calls: AtomicUsize,
    fail_at: usize,
    /// Calls that change nothing fail as well.
    reads: bool,
    lost: Lost,
}

impl Faulty {
    async fn call<T>(&self, counts: bool, call: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let lost = || Error::Unreachable { place: "the test".into(), cause: "it was cut off".into() };
        let number = self.calls.fetch_add(usize::from(counts), Ordering::Relaxed);
        if number > self.fail_at || (!counts && number == self.fail_at + 1) {
            return Err(lost());
        }
        if !counts || number < self.fail_at {
            return call.await;
        }
        match self.lost {
            Lost::Request => Err(lost()),
            Lost::Answer => call.await.and_then(|_| Err(lost())),
        }
    }
}

#[async_trait]
impl Backend for Faulty {
    fn place(&self) -> String {
        self.backend.place()
    }

    async fn lacks(&self) -> Result<&Lacks, Error> {
        self.backend.lacks().await
    }

    async fn list_tables(&self) -> Result<Vec<TableName>, Error> {
        self.call(self.reads, self.backend.list_tables()).await
    }

    async fn describe(&self, table: &TableName) -> Result<Option<Deployed>, Error> {
        self.call(self.reads, self.backend.describe(table)).await
    }

    async fn create_table(&self, definition: &TableDefinition) -> Result<(), Error> {
        self.call(true, self.backend.create_table(definition)).await
    }

    async fn change_table(&self, table: &TableName, change: &TableChange) -> Result<(), Error> {
        self.call(true, self.backend.change_table(table, change)).await
    }

    async fn delete_table(&self, table: &TableName) -> Result<(), Error> {
        self.call(true, self.backend.delete_table(table)).await
    }

    async fn execute(&self, request: Request) -> Result<Response, Error> {
        self.backend.execute(request).await
    }

    fn clock(&self) -> &Clock {
        self.backend.clock()
    }

    fn is_embedded(&self) -> bool {
        self.backend.is_embedded()
    }

    async fn pause(&self, asked: u32) -> Result<(), Error> {
        self.call(self.reads, self.backend.pause(asked)).await
    }
}

// The command

fn larder(arguments: &[&str]) -> Output {
    command(arguments).output().expect("the binary was built with this test")
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
    command.args(arguments).stdin(Stdio::null()).env_remove("LARDER_STORE").env_remove("LARDER_LOG");
    command
}

fn signal(child: &Child, signal: Signal) {
    // It may have ended.
    let _ = kill_process(Pid::from_child(child), signal);
}

#[track_caller]
fn check(output: &Output, code: i32, says: &str) {
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{stdout}\n{stderr}");
    assert!(stdout.contains(says), "`{says}` is not in\n{stdout}\n{stderr}");
}
