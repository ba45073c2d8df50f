//! The scenarios of `tests/languages/scenarios.json`, which every language runs, from Rust: by names and values, on every store.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod stores;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use larder::text::{self, Reader};
use larder::{
    Entries, Entry, Environment, Error, Fetched, Fields, Lease, Load, Look, Origin, Schema, Shelf,
    StaleReason, Store, System, Value,
};
use larder_schema::schema::Entity;
use larder_schema::{NoFiles, Type};
use serde_json::{Map, Value as Json, json};

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/languages")
}

#[test]
fn every_scenario_holds_from_rust() {
    let file: Json =
        serde_json::from_str(&fs::read_to_string(directory().join("scenarios.json")).unwrap()).unwrap();
    let scenarios = file["scenarios"].as_array().unwrap();
    stores::each_with_transactions(async |store| {
        for (at, scenario) in scenarios.iter().enumerate() {
            store.faults().reset();
            let mut runner = Runner::open(&store, &format!("rust{at}")).await;
            for (number, step) in scenario["steps"].as_array().unwrap().iter().enumerate() {
                runner.about = format!("{}, step {number}: {step}", scenario["name"]);
                runner.step(step).await;
            }
        }
    });
}

#[test]
fn a_system_that_is_dropped_lets_go_of_its_directory_whatever_was_in_its_memory() {
    stores::run(async {
        let directory = tempfile::tempdir().unwrap();
        let address = larder::Address::Directory(directory.path().join("data"));
        for _ in 0..2 {
            let runner = Runner::open(&opened(&address).await, "again").await;
            let load = |_: Fields| async {
                Ok::<_, std::io::Error>(Fields::from([("text".to_owned(), "x".into())]))
            };
            let key = Fields::from([("url".to_owned(), "https://a.example/".into())]);
            runner.system.entries("Page").unwrap().fetch(key, load).await.unwrap();
            runner.system.close().await.expect_empty();
        }
    });
}

/// The store of a directory, once those who had it have let go: a load that was under way ends by itself.
async fn opened(address: &larder::Address) -> Store {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        match Store::open(address).await {
            Err(error) if Instant::now() >= deadline => panic!("{error}"),
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            Ok(store) => return store,
        }
    }
}

struct Runner {
    system: System,
    leases: BTreeMap<String, Lease<Entry>>,
    cursor: Option<String>,
    about: String,
    stage: String,
}

impl Runner {
    async fn open(store: &Store, stage: &str) -> Self {
        Self::open_schema(store, stage, "scenarios.larder").await
    }

    async fn open_schema(store: &Store, stage: &str, file: &str) -> Self {
        let text = fs::read_to_string(directory().join(file)).unwrap();
        let schema = Schema::load(file, &text, &mut NoFiles, &Environment::new()).schema.unwrap();
        let environment = Environment::from([("SCENARIOS_STAGE".to_owned(), stage.to_owned())]);
        let system = System::open_with(schema, store.clone(), environment).await.unwrap();
        system.provision().await.unwrap();
        let stage = stage.to_owned();
        Self { system, leases: BTreeMap::new(), cursor: None, about: String::new(), stage }
    }

    fn entity(&self, name: &str) -> &Entity {
        self.system.schema().entity(name).unwrap().1
    }

    fn shelf(&self, step: &Json) -> Shelf<Entry> {
        self.system.entries(step["entity"].as_str().unwrap()).unwrap()
    }

    fn fields(&self, entity: &str, given: &Json) -> Fields {
        let entity = self.entity(entity);
        let given = given.as_object().cloned().unwrap_or_default();
        let one = |(name, json): (String, Json)| {
            let field = entity.field(&name).unwrap();
            let value = Reader::of(self.system.schema(), field).as_it_came().json(
                &field.kind,
                &name,
                &repeated(&json),
            );
            (name, value.unwrap())
        };
        given.into_iter().map(one).collect()
    }

    fn told(&self, entity: &str, name: &str, fields: &Fields, fills: bool) -> Json {
        let field = self.entity(entity).field(name).unwrap();
        // A record by names has what is stored; the types of a program fill in what is not.
        let Some(value) = fields.get(name).or(field.checks.default.as_ref().filter(|_| fills)) else {
            return Json::Null;
        };
        let mut told = text::to_json(self.system.schema(), &field.kind, value);
        if let (Type::Set(_), Some(members)) = (&field.kind, told.as_array_mut()) {
            members.sort_by_key(ToString::to_string);
        }
        told
    }

    fn check_record(&self, entity: &str, record: Option<&Entry>, expect: &Json) {
        if let Some(wanted) = expect.get("record") {
            if wanted.is_null() {
                assert!(record.is_none(), "{}: {record:?}", self.about);
                return;
            }
            let record = record.unwrap_or_else(|| panic!("{}: there is no record", self.about));
            for (name, wanted) in wanted.as_object().unwrap() {
                assert!(
                    self.told(entity, name, &record.fields, true) == repeated(wanted),
                    "{}: `{name}` is not as expected",
                    self.about
                );
            }
        }
        let Some(record) = record else { return };
        if let Some(version) = expect.get("version") {
            assert_eq!(json!(record.kept().version()), *version, "{}", self.about);
        }
        for (lifecycle, state) in expect.get("state").and_then(Json::as_object).unwrap_or(&Map::new()) {
            assert_eq!(json!(record.kept().state(lifecycle)), *state, "{}", self.about);
        }
    }

    /// What came of a step, unless it is an error that was expected.
    fn outcome<T>(&self, outcome: Result<T, Error>, expect: &Json) -> Option<T> {
        match (outcome, expect.get("error")) {
            (Ok(value), None) => Some(value),
            (Err(error), Some(wanted)) => {
                self.check_error(&error, wanted);
                None
            }
            (Ok(_), Some(_)) => panic!("{}: no error", self.about),
            (Err(error), None) => panic!("{}: {error}", self.about),
        }
    }

    fn check_error(&self, error: &Error, wanted: &Json) {
        let (kind, told) = described(error);
        assert_eq!(json!(kind), wanted["kind"], "{}: {error}", self.about);
        for name in ["entity", "found"] {
            if let Some(wanted) = wanted.get(name) {
                assert_eq!(told[name], *wanted, "{}: {error}", self.about);
            }
        }
        if let (Some(wanted), Error::Invalid(invalid)) = (wanted.get("violations"), error) {
            let key = |violation: &Json| (violation["field"].to_string(), violation["rule"].to_string());
            let mut found: Vec<_> = invalid
                .violations
                .iter()
                .map(|violation| {
                    let field = violation.path.split_once('.').map_or(&*violation.path, |(_, field)| field);
                    key(&json!({"field": field, "rule": violation.rule}))
                })
                .collect();
            let mut wanted: Vec<_> = wanted.as_array().unwrap().iter().map(key).collect();
            found.sort();
            wanted.sort();
            assert_eq!(found, wanted, "{}", self.about);
        }
        if let (Some(wanted), Error::Cancelled(obstacles)) = (wanted.get("obstacles"), error) {
            let found: Vec<Json> =
                obstacles.iter().map(|one| json!({"step": one.step, "entity": one.entity})).collect();
            assert_eq!(json!(found), *wanted, "{}", self.about);
        }
    }

    fn loader(
        &self,
        step: &Json,
        slow: bool,
    ) -> (Arc<AtomicUsize>, impl Fn(Fields) -> Answer + Clone + Send + Sync + 'static) {
        let loads = Arc::new(AtomicUsize::new(0));
        let source = step["source"].clone();
        let value = source.get("value").map(|value| self.fields(step["entity"].as_str().unwrap(), value));
        let counted = Arc::clone(&loads);
        let load = move |_: Fields| -> Answer {
            counted.fetch_add(1, Ordering::SeqCst);
            let (source, value) = (source.clone(), value.clone());
            Box::pin(async move {
                if slow {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                match (source.get("fails"), value) {
                    (Some(fails), _) => Err(std::io::Error::other(fails.as_str().unwrap().to_owned())),
                    (None, Some(value)) => Ok(Load::value(value)),
                    (None, None) => Ok(Load::absent()),
                }
            })
        };
        (loads, load)
    }

    fn check_fetched(&self, entity: &str, fetched: &Fetched<Entry>, expect: &Json) -> Result<(), String> {
        let (origin, reason) = match fetched.origin() {
            Origin::L1 => ("l1", Json::Null),
            Origin::Store => ("store", Json::Null),
            Origin::Source => ("source", Json::Null),
            Origin::Stale(StaleReason::Refreshing) => ("stale", json!("refreshing")),
            Origin::Stale(StaleReason::SlowSource) => ("stale", json!("slow_source")),
            _ => ("stale", json!("source_failed")),
        };
        let is = [
            ("origin", json!(origin)),
            ("stale_reason", reason),
            ("store_error", json!(fetched.store_error().is_some())),
        ];
        for (name, found) in is {
            if expect.get(name).is_some_and(|wanted| *wanted != found) {
                return Err(format!("{}: {name} is {found}", self.about));
            }
        }
        for (name, wanted) in expect.get("record").and_then(Json::as_object).unwrap_or(&Map::new()) {
            if self.told(entity, name, &fetched.fields, true) != repeated(wanted) {
                return Err(format!("{}: `{name}` is not as expected", self.about));
            }
        }
        Ok(())
    }

    async fn fetch(&self, step: &Json, expect: &Json) -> Result<(), String> {
        let entity = step["entity"].as_str().unwrap();
        let (loads, load) = self.loader(step, false);
        let fetched = self.shelf(step).fetch(self.fields(entity, &step["key"]), load).await;
        if let Some(raises) = expect.get("raises") {
            let Err(Error::Source { cause, .. }) = fetched else { return Err("it did not fail".to_owned()) };
            assert_eq!(json!(cause.to_string()), *raises, "{}", self.about);
        } else if let Some(fetched) = self.outcome(fetched, expect) {
            self.check_fetched(entity, &fetched, expect)?;
        }
        let loads = loads.load(Ordering::SeqCst);
        match expect.get("loads") {
            Some(wanted) if *wanted != json!(loads) => Err(format!("{}: {loads} loads", self.about)),
            _ => Ok(()),
        }
    }

    async fn step(&mut self, step: &Json) {
        let expect = &step.get("expect").cloned().unwrap_or_else(|| json!({}));
        let name = step["entity"].as_str().unwrap_or_default();
        let key = |field: &str| self.fields(name, &step[field]);
        let number = |field: &str| step[field].as_f64().unwrap();
        match step["do"].as_str().unwrap() {
            "advance" => self.system.store().clock().advance(Duration::from_secs_f64(number("seconds"))),
            "down" => drop(self.system.store().faults().down()),
            "up" => drop(self.system.store().faults().up()),
            "fetch" => {
                let deadline = Instant::now() + Duration::from_secs(10);
                while let Err(wrong) = self.fetch(step, expect).await {
                    assert!(step.get("eventually").is_some() && Instant::now() < deadline, "{wrong}");
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            }
            "fetch_together" => {
                let (loads, load) = self.loader(step, true);
                let shelf = self.shelf(step);
                let tasks = (0..step["tasks"].as_u64().unwrap()).map(|_| {
                    let (shelf, key, load) = (shelf.clone(), key("key"), load.clone());
                    tokio::spawn(async move { shelf.fetch(key, load).await })
                });
                for task in tasks.collect::<Vec<_>>() {
                    let fetched = task.await.unwrap().unwrap();
                    self.check_fetched(name, &fetched, expect).unwrap();
                }
                assert_eq!(json!(loads.load(Ordering::SeqCst)), expect["loads"], "{}", self.about);
            }
            "look" => {
                let Look::Miss(why) = self.shelf(step).look(key("key")).await else {
                    panic!("{}: it is there", self.about)
                };
                assert_eq!(json!(why.to_string()), expect["miss"], "{}", self.about);
            }
            "get" => {
                if let Some(found) = self.outcome(self.shelf(step).get(key("key")).await, expect) {
                    self.check_record(name, found.as_ref(), expect);
                }
            }
            "create" => {
                if let Some(made) = self.outcome(self.shelf(step).create(key("fields")).await, expect) {
                    self.check_record(name, Some(&made), expect);
                }
            }
            "put" => {
                if let Some(put) = self.outcome(self.shelf(step).put(key("fields")).await, expect) {
                    assert!(
                        expect.get("changed").is_none_or(|wanted| *wanted == put.changed()),
                        "{}",
                        self.about
                    );
                    self.check_record(name, Some(&put), expect);
                }
            }
            "put_earlier" => {
                let earlier =
                    Self::open_schema(self.system.store(), &self.stage, "earlier/scenarios.larder").await;
                let fields = earlier.fields(name, &step["fields"]);
                earlier.system.entries(name).unwrap().put(fields).await.unwrap();
            }
            "put_shown" => self.put_shown(step, expect).await,
            "put_behind" => {
                if let Some(put) = self.outcome(self.shelf(step).put_behind(key("fields")).await, expect) {
                    self.check_record(name, Some(&put), expect);
                }
            }
            "delete" => {
                if let Some(deleted) = self.outcome(self.shelf(step).delete(key("key")).await, expect) {
                    self.check_record(name, deleted.record().as_ref(), expect);
                }
            }
            "forget" => self.shelf(step).forget(key("key")).await.unwrap(),
            "update" => {
                let outcome = self.update(&self.shelf(step), name, step).send().await;
                if let Some(made) = self.outcome(outcome, expect) {
                    self.check_record(name, Some(&made), expect);
                }
            }
            "put_many" => {
                let records = step["records"].as_array().unwrap().iter().map(|one| self.fields(name, one));
                let written = self.shelf(step).put_many(records.collect::<Vec<_>>()).await;
                let count = written.iter().filter(|one| one.is_ok()).count();
                assert_eq!(json!(count), expect["written"], "{}: {written:?}", self.about);
            }
            "get_many" => {
                let keys = step["keys"].as_array().unwrap().iter().map(|one| self.fields(name, one));
                let found = self.shelf(step).get_many(keys.collect::<Vec<_>>()).await;
                let field = step["field"].as_str().unwrap();
                let values: Vec<Json> = found
                    .into_iter()
                    .map(|(_, found)| {
                        found.unwrap().map_or(Json::Null, |one| self.told(name, field, &one.fields, true))
                    })
                    .collect();
                assert_eq!(json!(values), expect["values"], "{}", self.about);
            }
            "delete_many" => {
                let keys = step["keys"].as_array().unwrap().iter().map(|one| self.fields(name, one));
                let deleted = self.shelf(step).delete_many(keys.collect::<Vec<_>>()).await;
                assert_eq!(json!(deleted.iter().filter(|(_, one)| one.is_ok()).count()), expect["deleted"]);
            }
            "query" => self.query(step, expect).await,
            "transaction" => {
                let mut transaction = self.system.transaction();
                for part in step["steps"].as_array().unwrap() {
                    let (what, name) =
                        part.as_object().unwrap().iter().find(|(_, on)| on.is_string()).unwrap();
                    let name = name.as_str().unwrap();
                    let shelf = self.system.entries(name).unwrap();
                    let (key, fields) = (self.fields(name, &part["key"]), self.fields(name, &part["fields"]));
                    transaction = match what.as_str() {
                        "create" => transaction.create(&shelf, fields),
                        "put" => transaction.put(&shelf, fields),
                        "update" => transaction.update(self.update(&shelf, name, part)),
                        "delete" => transaction.delete(&shelf, key),
                        _ => transaction.check(&shelf, key),
                    };
                }
                self.outcome(transaction.run().await, expect);
            }
            "collection_put" | "collection_get" | "collection_delete" | "collection_fetch" => {
                self.collection(step, expect).await;
            }
            "claim" => {
                let lifecycle = self.shelf(step).lifecycle(step["lifecycle"].as_str().unwrap()).unwrap();
                let take = usize::try_from(step["take"].as_u64().unwrap()).unwrap();
                let mut claims = lifecycle.claim(step["group"].as_str().unwrap()).take(take).await.unwrap();
                let lease = claims.next().await.unwrap();
                self.keep(step, name, lease, expect);
            }
            "hold" => {
                let lifecycle = self.shelf(step).lifecycle(step["lifecycle"].as_str().unwrap()).unwrap();
                let lease = self.outcome(lifecycle.hold(key("key")).await, expect);
                self.keep(step, name, lease, expect);
            }
            "finish" | "release" => {
                let lease = self.leases.remove(step["lease"].as_str().unwrap()).unwrap();
                let ended = if step["do"] == "finish" { lease.finish().await } else { lease.release().await };
                if let Some(record) = self.outcome(ended, expect) {
                    self.check_record("Shop", Some(&record), expect);
                }
            }
            "transition" => {
                let lifecycle = self.shelf(step).lifecycle(step["lifecycle"].as_str().unwrap()).unwrap();
                let made = lifecycle.run(key("key"), step["name"].as_str().unwrap(), key("params")).await;
                if let Some(record) = self.outcome(made, expect) {
                    self.check_record(name, Some(&record), expect);
                }
            }
            "drain" => {
                let drained = self.system.drain(Duration::from_secs_f64(number("seconds"))).await;
                let found = json!({"lost": drained.lost(), "waiting": drained.waiting()});
                assert_eq!(found, *expect, "{}", self.about);
            }
            "invalidate" => {
                let mut wanted = self.shelf(step).invalidate();
                for (name, value) in key("by") {
                    wanted = wanted.by(&name, value);
                }
                if let Some(label) = step["label"].as_str() {
                    wanted = wanted.label(label);
                }
                let plan = wanted.plan().await.unwrap();
                let removed = plan.run().await.unwrap().removed;
                let found = json!({"planned": plan.items(), "is_scan": plan.is_scan(), "removed": removed});
                assert_eq!(found, *expect, "{}", self.about);
            }
            "stats" => {
                let stats = self.shelf(step).stats();
                assert_eq!(json!({"loads": stats.loads, "hits": stats.hits}), *expect, "{}", self.about);
            }
            other => panic!("nobody knows how to {other}"),
        }
    }

    fn update(&self, shelf: &Shelf<Entry>, name: &str, step: &Json) -> larder::Update<Entry> {
        let mut update = shelf.update(self.fields(name, &step["key"]));
        for (field, value) in self.fields(name, &step["set"]) {
            update = update.set_value(&field, value);
        }
        for (field, value) in self.fields(name, &step["add"]) {
            let Value::Number(number) = value else { panic!("a number is added") };
            update = update.add(&field, number);
        }
        for field in step["clear"].as_array().unwrap_or(&Vec::new()) {
            update = update.clear(field.as_str().unwrap());
        }
        match step["if_version"].as_i64() {
            Some(version) => update.if_version(version),
            None => update,
        }
    }

    async fn query(&mut self, step: &Json, expect: &Json) {
        let name = step["entity"].as_str().unwrap();
        let (shelf, partition) = (self.shelf(step), self.fields(name, &step["partition"]));
        let mut query = match step["index"].as_str() {
            Some(index) => shelf.index_by(index, partition),
            None => shelf.within_by(partition),
        };
        if let Some(low) = step["from"].as_i64() {
            query = query.from(low);
        }
        if let Some(high) = step["until"].as_i64() {
            query = query.until(high);
        }
        if let Some(at) = step["at"].as_i64() {
            query = query.at(at);
        }
        if step["newest_first"] == true {
            query = query.newest_first();
        }
        let found = match step["limit"].as_u64() {
            None => self.outcome(query.all().await, expect),
            Some(limit) => {
                let mut query = query.limit(usize::try_from(limit).unwrap());
                if step["next"] == true {
                    query = query.start_at(self.cursor.take().unwrap());
                }
                let page = query.page().await.unwrap();
                assert_eq!(json!(page.cursor.is_some()), expect["more"], "{}", self.about);
                self.cursor = page.cursor;
                Some(page.items)
            }
        };
        if let (Some(found), Some(wanted)) = (found, expect.get("values")) {
            let field = step["field"].as_str().unwrap();
            let values: Vec<Json> =
                found.iter().map(|one| self.told(name, field, &one.fields, false)).collect();
            assert_eq!(json!(values), *wanted, "{}", self.about);
        }
    }

    async fn put_shown(&self, step: &Json, expect: &Json) {
        let name = step["entity"].as_str().unwrap();
        let (shelf, partition) = (self.shelf(step), self.fields(name, &step["partition"]));
        let index = step["index"].as_str().unwrap();
        let shown = shelf.index_by(index, partition).all().await.unwrap().remove(0);
        assert!(shown.kept().is_part(), "{}", self.about);
        self.outcome(shelf.put(shown.clone()).await, expect);
        self.outcome(shelf.create(shown.clone()).await, expect);
        self.outcome(shelf.put_behind(shown.clone()).await, expect);
        self.outcome(shelf.put_many([shown.clone()]).await.remove(0), expect);
        self.outcome(self.system.transaction().put(&shelf, shown).run().await, expect);
    }

    async fn collection(&self, step: &Json, expect: &Json) {
        let collection = self.system.collection(step["collection"].as_str().unwrap()).unwrap();
        let key = || self.fields("Horse", &step["key"]);
        match step["do"].as_str().unwrap() {
            "collection_put" => {
                let members = step["members"].as_object().unwrap().iter().flat_map(|(name, records)| {
                    records.as_array().unwrap().iter().map(|one| (name.clone(), self.fields(name, one)))
                });
                collection.put(members.collect()).await.unwrap();
            }
            "collection_get" => {
                let found = collection.get(key()).await.unwrap();
                let Some(members) = expect["members"].as_object() else {
                    assert!(found.is_none(), "{}", self.about);
                    return;
                };
                self.check_members(&found.unwrap(), members);
            }
            "collection_fetch" => {
                let loads = Arc::new(AtomicUsize::new(0));
                let (counted, source) = (Arc::clone(&loads), step["source"].clone());
                let members: Vec<(String, Fields)> = source["members"]
                    .as_object()
                    .into_iter()
                    .flatten()
                    .flat_map(|(name, records)| {
                        records.as_array().unwrap().iter().map(|one| (name.clone(), self.fields(name, one)))
                    })
                    .collect();
                let load = move |_: Fields| {
                    counted.fetch_add(1, Ordering::SeqCst);
                    let fails = source["fails"].as_str().map(str::to_owned);
                    let found = (source["absent"] != true).then(|| members.clone());
                    async move { fails.map_or(Ok(found), |fails| Err(std::io::Error::other(fails))) }
                };
                let fetched = collection.fetch(key(), load).await;
                assert_eq!(json!(loads.load(Ordering::SeqCst)), expect["loads"], "{}", self.about);
                if let Some(raises) = expect.get("raises") {
                    let error = fetched.unwrap_err();
                    let own = error.loader_error::<std::io::Error>().unwrap();
                    assert_eq!(json!(own.to_string()), *raises, "{}", self.about);
                } else if let Some(fetched) = self.outcome(fetched, expect) {
                    assert_eq!(json!(fetched.origin().to_string()), expect["origin"], "{}", self.about);
                    self.check_members(&fetched, expect["members"].as_object().unwrap());
                }
            }
            _ => assert_eq!(
                json!(collection.delete(key()).await.unwrap()),
                expect["deleted"],
                "{}",
                self.about
            ),
        }
    }

    fn check_members(&self, found: &Entries, members: &Map<String, Json>) {
        for (name, records) in members {
            for (record, wanted) in found.of(name).zip(records.as_array().unwrap()) {
                self.check_record(name, Some(record), &json!({"record": wanted}));
            }
            assert_eq!(found.of(name).count(), records.as_array().unwrap().len(), "{}", self.about);
        }
    }

    fn keep(&mut self, step: &Json, name: &str, lease: Option<Lease<Entry>>, expect: &Json) {
        self.check_record(name, lease.as_deref(), expect);
        let Some(lease) = lease else { return };
        for (name, found) in [("fence", lease.fence()), ("attempts", lease.attempts())] {
            assert!(expect.get(name).is_none_or(|wanted| *wanted == found), "{}", self.about);
        }
        self.leases.insert(step["as"].as_str().unwrap().to_owned(), lease);
    }
}

type Answer = std::pin::Pin<Box<dyn Future<Output = Result<Load<Fields>, std::io::Error>> + Send>>;

/// A list of long texts, where the file says so.
fn repeated(json: &Json) -> Json {
    let Some(repeat) = json.get("$repeat") else { return json.clone() };
    let count = |name: &str| usize::try_from(repeat[name].as_u64().unwrap()).unwrap();
    json!(vec![repeat["text"].as_str().unwrap().repeat(count("times")); count("members")])
}

/// The kind of an error, and its fields.
fn described(error: &Error) -> (&'static str, Json) {
    let about = |entity: &str| json!({"entity": entity});
    match error {
        Error::Invalid(invalid) => ("invalid", about(&invalid.entity)),
        Error::Exists { entity, .. } => ("exists", about(entity)),
        Error::Missing { entity, .. } => ("missing", about(entity)),
        Error::Conflict { entity, .. } => ("conflict", about(entity)),
        Error::State { entity, found, .. } => ("state", json!({"entity": entity, "found": found})),
        Error::LeaseLost { entity, .. } => ("lease_lost", about(entity)),
        Error::Absent { entity, .. } => ("absent", about(entity)),
        Error::Store(_) => ("store", Json::Null),
        Error::Source { entity, .. } => ("source", about(entity)),
        Error::Down { entity, .. } => ("down", about(entity)),
        Error::Cancelled(_) => ("cancelled", Json::Null),
        Error::NotAllowed(_) => ("not_allowed", Json::Null),
        _ => ("other", Json::Null),
    }
}
