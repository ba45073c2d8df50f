//! Whoever writes a record, and by whatever call: an older write never lands on a newer one.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod sources;
mod systems;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpClient,
    SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use futures_util::future::BoxFuture;
use larder::store::{Inside, Lookback};
use larder::{Entries, Entry, Error, Fetched, Fields, Load, Shelf, Store, System, Value};
use larder_model::{ApiError, Item, TableName};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use sources::{Cause, Source, fields, page_key, pages, shelf, text_of, until};

const LONG: Duration = Duration::from_secs(60);
const BEHIND: [&str; 2] = ["BatchWriteItem", "PutItem"];

fn page(id: &str, text: &str) -> Fields {
    let mut page = page_key(id);
    page.insert("text".to_owned(), Value::from(text));
    page
}

async fn text(pages: &Shelf<Entry>) -> Option<String> {
    pages.get(page_key("1")).await.unwrap().map(|found| text_of(&found.fields).to_owned())
}

async fn open(settings: &str) -> (Store, System, Shelf<Entry>) {
    let store = Store::memory().await;
    let system = systems::open_text(&pages("", settings), &store).await;
    let pages = shelf(&system, "Page");
    (store, system, pages)
}

/// Two programs with one schema on one store.
async fn open_two(settings: &str) -> (Store, [System; 2], [Shelf<Entry>; 2]) {
    let store = Store::memory().await;
    store.clock().stop();
    let text = pages("", settings).replace("pages-{stage}", "pages");
    let systems = [systems::open_text(&text, &store).await, systems::open_text(&text, &store).await];
    let shelves = [shelf(&systems[0], "Page"), shelf(&systems[1], "Page")];
    (store, systems, shelves)
}

/// Begins a write behind of page 1 that takes a while, and returns when it is under way.
async fn held_up(store: &Store, pages: &Shelf<Entry>) {
    store.requests().take();
    store.faults().only(&BEHIND).delay(1.0, Duration::from_millis(300));
    pages.put_behind(page("1", "behind")).await.unwrap();
    until(async || BEHIND.iter().any(|name| store.requests().count(name) > 0)).await;
    store.faults().reset();
}

/// Every way to write or remove page 1 past the queue, and what is there afterwards.
async fn overtake(system: &System, pages: &Shelf<Entry>, way: &str) -> Option<&'static str> {
    match way {
        "put" => drop(pages.put(page("1", "newer")).await.unwrap()),
        "put_many" => drop(pages.put_many([page("1", "newer")]).await.pop().unwrap().unwrap()),
        "transaction put" => system.transaction().put(pages, page("1", "newer")).run().await.unwrap(),
        "delete" => drop(pages.delete(page_key("1")).await.unwrap()),
        "delete_many" => pages.delete_many([page_key("1")]).await.pop().unwrap().1.unwrap(),
        "transaction delete" => system.transaction().delete(pages, page_key("1")).run().await.unwrap(),
        "forget" => pages.forget(page_key("1")).await.unwrap(),
        "invalidate one" => {
            pages
                .invalidate()
                .by("id", "1".to_owned())
                .plan()
                .await
                .unwrap()
                .run()
                .await
                .map(|_| ())
                .unwrap();
        }
        "invalidate all" => pages.invalidate().plan().await.unwrap().run().await.map(|_| ()).unwrap(),
        other => panic!("{other}"),
    }
    (way.ends_with("put") || way.ends_with("put_many")).then_some("newer")
}

const WAYS: [&str; 9] = [
    "put",
    "put_many",
    "transaction put",
    "delete",
    "delete_many",
    "transaction delete",
    "forget",
    "invalidate one",
    "invalidate all",
];

#[tokio::test]
async fn what_is_written_behind_does_not_land_on_what_was_written_after_it() {
    for way in WAYS {
        let (store, system, pages) = open("writes behind\nscan allow").await;
        held_up(&store, &pages).await;
        let expected = overtake(&system, &pages, way).await;
        assert_eq!(text(&pages).await.as_deref(), expected, "{way}, at once");
        let _ = system.drain(LONG).await;
        assert_eq!(text(&pages).await.as_deref(), expected, "{way}");
    }
}

#[tokio::test]
async fn what_waits_to_be_written_does_not_land_on_what_was_written_after_it() {
    for way in WAYS {
        let (store, system, pages) = open("writes behind\nscan allow").await;
        // The worker is turned away, and comes back in a while.
        store.faults().only(&BEHIND).fail_next(1, larder::store::Fault::Throttle);
        pages.put_behind(page("1", "behind")).await.unwrap();
        until(async || BEHIND.iter().any(|name| store.requests().count(name) > 0)).await;
        let expected = overtake(&system, &pages, way).await;
        assert_eq!(text(&pages).await.as_deref(), expected, "{way}, at once");
        let _ = system.drain(LONG).await;
        assert_eq!(text(&pages).await.as_deref(), expected, "{way}");
    }
}

#[tokio::test]
async fn an_invalidation_counts_what_waits_to_be_written() {
    let (store, _system, pages) = open("writes behind\nscan allow").await;
    store.faults().only(&BEHIND).down();
    pages.put_behind(page("1", "behind")).await.unwrap();
    pages.put_behind(page("2", "behind")).await.unwrap();
    let plan = pages.invalidate().by("id", "1".to_owned()).plan().await.unwrap();
    assert_eq!(plan.items(), 1);
    assert_eq!(plan.run().await.unwrap().removed, 1);
    assert_eq!(text(&pages).await, None);
    assert!(pages.get(page_key("2")).await.unwrap().is_some(), "another stays");
}

#[tokio::test]
async fn an_invalidation_that_fails_leaves_nothing_older_than_what_waits_to_be_written() {
    for by_key in [true, false] {
        let (store, system, pages) = open("writes behind\nscan allow").await;
        pages.put(page("1", "older")).await.unwrap();
        store.faults().only(&BEHIND).down();
        pages.put_behind(page("1", "behind")).await.unwrap();
        until(async || BEHIND.iter().any(|name| store.requests().count(name) > 1)).await;
        let meant = pages.invalidate();
        let meant = if by_key { meant.by("id", "1".to_owned()) } else { meant };
        let plan = meant.plan().await.unwrap();
        store.faults().only(&["BatchWriteItem", "PutItem", "DeleteItem", "GetItem", "Scan", "Query"]).down();
        plan.run().await.unwrap_err();
        store.faults().reset();
        system.drain(LONG).await.expect_empty();
        assert_eq!(text(&pages).await.as_deref(), Some("behind"), "by key: {by_key}");

        // And again, where nothing fails.
        assert_eq!(plan.run().await.unwrap().removed, 1);
        assert_eq!(text(&pages).await, None);
    }
}

type Loaded = BoxFuture<'static, Result<Load<Fields>, Cause>>;

/// A loader that says when it is called and gives its answer when it is told to.
fn held(
    answer: impl Fn() -> Load<Fields> + Clone + Send + Sync + 'static,
) -> (Arc<Notify>, Arc<Notify>, impl Fn(Fields, larder::Known) -> Loaded + Send + Sync + 'static) {
    let (called, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (tell, wait) = (Arc::clone(&called), Arc::clone(&go));
    let load = move |_: Fields, _: larder::Known| -> Loaded {
        let (tell, wait, answer) = (Arc::clone(&tell), Arc::clone(&wait), answer.clone());
        Box::pin(async move {
            tell.notify_one();
            wait.notified().await;
            Ok(answer())
        })
    };
    (called, go, load)
}

fn loaded() -> Load<Fields> {
    Load::value(fields([("text", Value::from("loaded"))]))
}

#[tokio::test]
async fn a_load_loses_against_what_another_program_has_written_meanwhile() {
    for settings in ["", "l1 1h", "flight 10s", "writes behind", "versions on", "oversize split"] {
        for is_there in [false, true] {
            let (store, [ours_of, _theirs_of], [ours, theirs]) = open_two(settings).await;
            if is_there {
                ours.put(page("1", "old")).await.unwrap();
                store.clock().advance(Duration::from_secs(200));
            }
            let (called, go, load) = held(loaded);
            let loading = tokio::spawn({
                let ours = ours.clone();
                async move { ours.fetch_with(page_key("1"), load).await }
            });
            called.notified().await;
            theirs.put(page("1", "theirs")).await.unwrap();
            go.notify_one();
            let given = loading.await.unwrap().unwrap();
            assert_eq!(text_of(&given.fields), "loaded", "{settings}: whoever asked is given it");
            let _ = ours_of.drain(LONG).await;
            assert_eq!(text(&theirs).await.as_deref(), Some("theirs"), "{settings} {is_there}");
            assert_eq!(
                text(&ours).await.as_deref(),
                Some("theirs"),
                "{settings} {is_there}: nor is it in L1"
            );
        }
    }
}

#[tokio::test]
async fn a_load_does_not_bring_back_what_another_program_has_removed() {
    for settings in
        ["grace 1h", "grace 1h\nwrites behind", "grace 1h\nversions on", "grace 1h\noversize split"]
    {
        for answer in [loaded, Load::not_modified] {
            let (store, [ours_of, _theirs_of], [ours, theirs]) = open_two(settings).await;
            ours.put(page("1", "old")).await.unwrap();
            store.clock().advance(Duration::from_secs(200));
            let (called, go, load) = held(answer);
            let loading = tokio::spawn({
                let ours = ours.clone();
                async move { ours.fetch_with(page_key("1"), load).await }
            });
            called.notified().await;
            theirs.delete(page_key("1")).await.unwrap();
            go.notify_one();
            loading.await.unwrap().unwrap();
            let _ = ours_of.drain(LONG).await;
            assert_eq!(text(&theirs).await, None, "{settings}");
            assert_eq!(text(&ours).await, None, "{settings}: nor is it in L1");
            ours.fetch(page_key("1"), Source::default().numbered()).await.unwrap();
            ours_of.drain(LONG).await.expect_empty();
            assert_eq!(text(&theirs).await.as_deref(), Some("page 1"), "{settings}: the next one is kept");
        }
    }
}

#[tokio::test]
async fn a_renewal_does_not_bring_back_what_another_program_has_written_over() {
    for settings in ["grace 1h", "grace 1h\nwrites behind", "grace 1h\nversions on"] {
        let (store, [ours_of, _theirs_of], [ours, theirs]) = open_two(settings).await;
        ours.put(page("1", "old")).await.unwrap();
        store.clock().advance(Duration::from_secs(200));
        let (called, go, load) = held(Load::not_modified);
        let loading = tokio::spawn({
            let ours = ours.clone();
            async move { ours.fetch_with(page_key("1"), load).await }
        });
        called.notified().await;
        theirs.put(page("1", "theirs")).await.unwrap();
        go.notify_one();
        loading.await.unwrap().unwrap();
        let _ = ours_of.drain(LONG).await;
        assert_eq!(text(&theirs).await.as_deref(), Some("theirs"), "{settings}");
    }
}

#[tokio::test]
async fn a_load_is_kept_over_what_is_old_expired_or_cannot_be_read() {
    for settings in ["", "writes behind", "versions on", "grace 1h", "oversize split", "flight 10s"] {
        let (store, [ours_of, _theirs_of], [ours, theirs]) = open_two(settings).await;
        let source = Source::default();
        for round in 1..4 {
            ours.fetch(page_key("1"), source.numbered()).await.unwrap();
            ours_of.drain(LONG).await.expect_empty();
            assert_eq!(text(&theirs).await, Some(format!("page {round}")), "{settings}");
            store.clock().advance(Duration::from_secs(200));
        }
    }
}

#[tokio::test]
async fn opening_a_system_switches_nothing_off() {
    let store = Store::memory().await;
    let text =
        |settings: &str| pages("", "").replace("pages-{stage}", "pages").replace("ttl   ends", settings);
    let rich = text("ttl   ends\n  stream both\n  pitr on\n  on_delete retain");
    systems::open_text(&rich, &store).await;
    let table = store.list_tables().await.unwrap().remove(0);
    let before = store.describe(&table).await.unwrap().unwrap();
    assert!(before.definition.stream.is_some() && before.definition.deletion_protection);
    systems::open_text(&text("ttl   ends"), &store).await;
    let after = store.describe(&table).await.unwrap().unwrap();
    assert_eq!(after.definition.stream, before.definition.stream);
    assert_eq!(after.definition.deletion_protection, before.definition.deletion_protection);
    assert_eq!((&after.ttl_attribute, after.pitr_days), (&before.ttl_attribute, before.pitr_days));
}

const LOANS: &str = r#"
system loans
table loans {
  key  pk / sk
  entity Loan {
    key  "BOOK#{isbn}" / "LOAN#{number:04}"
    input isbn:   string nonempty
    input number: sequence
    reader:       string nonempty
  }
}
"#;

/// An endpoint that leaves every read of several keys undone.
#[derive(Debug)]
struct Undone(Arc<dyn Inside>);

#[async_trait]
impl Inside for Undone {
    async fn answer(&self, target: &str, body: &[u8]) -> Result<Vec<u8>, ApiError> {
        if !target.ends_with(".BatchGetItem") {
            return self.0.answer(target, body).await;
        }
        let request: serde_json::Value = serde_json::from_slice(body).unwrap();
        let answer = serde_json::json!({ "Responses": {}, "UnprocessedKeys": request["RequestItems"] });
        Ok(answer.to_string().into_bytes())
    }

    async fn look_back(
        &self,
        table: &TableName,
        key: Option<Item>,
        before: Option<u64>,
        most: usize,
    ) -> Result<Lookback, larder::store::Error> {
        self.0.look_back(table, key, before, most).await
    }

    fn expiring(
        &self,
        table: &TableName,
        seconds: i64,
        most: usize,
    ) -> Result<Option<u64>, larder::store::Error> {
        self.0.expiring(table, seconds, most)
    }
}

#[tokio::test(start_paused = true)]
async fn a_free_number_is_not_looked_for_without_end() {
    let below = Store::memory().await;
    let inside: Arc<dyn Inside> = Arc::new(Undone(below.inside().unwrap()));
    let lacks = below.lacks().await.unwrap().clone();
    let store = Store::through(inside, below.clock().clone(), "undone".to_owned(), lacks).observed();
    let system = systems::open_text(LOANS, &store).await;
    let loan = fields([("isbn", Value::from("1")), ("reader", Value::from("Ada"))]);
    let refused = tokio::time::timeout(LONG, shelf(&system, "Loan").create(loan)).await.unwrap();
    assert!(matches!(&refused, Err(Error::Store(error)) if error.is_transient()), "{refused:?}");
    assert!((2..20).contains(&store.requests().count("BatchGetItem")));
}

#[tokio::test(start_paused = true)]
async fn chunks_that_cannot_be_removed_fail_no_write() {
    let (store, system, pages) = open("oversize split").await;
    let large = "x".repeat(900_000);
    for way in ["put", "put_many", "transaction put", "delete", "transaction delete", "forget"] {
        pages.put(page("1", &large)).await.unwrap();
        store.faults().only(&["BatchWriteItem"]).down();
        let expected = overtake(&system, &pages, way).await;
        assert_eq!(text(&pages).await.as_deref(), expected, "{way}");
        store.faults().reset();
    }
}

/// The SDK's way to an engine, on which the answers to some writes are lost.
#[derive(Clone, Debug)]
struct Lossy {
    below: SharedHttpClient,
    losses: Arc<Losses>,
}

/// Which answers to writes of one item are lost: so many, after so many that arrive.
#[derive(Debug, Default)]
struct Losses {
    arriving: AtomicUsize,
    lost: AtomicUsize,
}

const WRITES: [&str; 3] = ["PutItem", "UpdateItem", "DeleteItem"];

impl Losses {
    fn next_is_lost(&self) -> bool {
        let one_less = |counter: &AtomicUsize| {
            counter.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
        };
        !one_less(&self.arriving) && one_less(&self.lost)
    }
}

impl HttpClient for Lossy {
    fn http_connector(
        &self,
        settings: &HttpConnectorSettings,
        components: &RuntimeComponents,
    ) -> SharedHttpConnector {
        let connector = self.below.http_connector(settings, components);
        SharedHttpConnector::new(LossyConnector { connector, losses: Arc::clone(&self.losses) })
    }
}

#[derive(Debug)]
struct LossyConnector {
    connector: SharedHttpConnector,
    losses: Arc<Losses>,
}

impl HttpConnector for LossyConnector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let target = request.headers().get("x-amz-target").unwrap_or_default();
        let is_write = WRITES.iter().any(|write| target.ends_with(&format!(".{write}")));
        let is_lost = is_write && self.losses.next_is_lost();
        let answer = self.connector.call(request);
        HttpConnectorFuture::new(async move {
            let answer = answer.await?;
            match is_lost {
                true => Err(ConnectorError::io("the connection was reset".into())),
                false => Ok(answer),
            }
        })
    }
}

#[tokio::test]
async fn a_sequence_takes_one_number_although_the_first_answer_was_lost() {
    let (losses, stores) = forgetful_stores().await;
    for store in stores {
        let system = systems::open_text(LOANS, &store).await;
        let loans = shelf(&system, "Loan");
        let loan = || fields([("isbn", Value::from("1")), ("reader", Value::from("Ada"))]);
        for number in 1..4 {
            lose_one_answer(&losses, &store);
            let made = loans.create(loan()).await.unwrap();
            assert_eq!(made.fields["number"], Value::from(number), "{}", store.place());
        }
        losses.lost.store(0, Ordering::SeqCst);
        assert_eq!(loans.within(["1"]).count().await.unwrap(), 3, "{}", store.place());
    }
}

/// A store on a client that loses the answers to some writes, and one in memory that is told to.
async fn forgetful_stores() -> (Arc<Losses>, [Store; 2]) {
    let client = Store::memory().await.sdk_client().await.unwrap();
    let losses = Arc::<Losses>::default();
    let below = client.config().http_client().unwrap();
    let config = client.config().to_builder().http_client(Lossy { below, losses: Arc::clone(&losses) });
    let on_client = Store::on_client(aws_sdk_dynamodb::Client::from_conf(config.build()));
    (losses, [on_client, Store::memory().await])
}

/// Has the next write of one item carried out without an answer.
fn lose_one_answer(losses: &Losses, store: &Store) {
    losses.lost.store(1, Ordering::SeqCst);
    if store.place() == "memory:" {
        store.faults().only(&WRITES).fail_next(1, larder::store::Fault::LostAnswer);
    }
}

/// Whether the answer that was to be lost has been.
fn was_lost(losses: &Losses, store: &Store) -> bool {
    store.place() == "memory:" || losses.lost.load(Ordering::SeqCst) == 0
}

#[tokio::test]
async fn a_record_is_created_although_the_first_answer_was_lost() {
    let (losses, stores) = forgetful_stores().await;
    for store in stores {
        for (settings, bytes) in [("", 10), ("oversize split", 10), ("oversize compress", 900_000)] {
            let place = format!("{} {settings}", store.place());
            let system = systems::open_text(&pages("", settings), &store).await;
            let pages = shelf(&system, "Page");
            let new = page("1", &"x".repeat(bytes));
            lose_one_answer(&losses, &store);
            let made = pages.create(new.clone()).await.unwrap_or_else(|error| panic!("{place}: {error}"));
            assert_eq!(text_of(&made.fields).len(), bytes);
            losses.lost.store(0, Ordering::SeqCst);
            let again = pages.create(new.clone()).await;
            assert!(matches!(again, Err(Error::Exists { .. })), "{place}: it is the same, and not ours");
            lose_one_answer(&losses, &store);
            let other = pages.create(page("1", "other")).await;
            assert!(matches!(other, Err(Error::Exists { .. })), "{place}: {other:?}");
        }
    }
}

const RUNS: &str = r#"
system runs
table runs {
  name  "runs-{stage}"
  key   id
  entity Run {
    versions on
    id:    string nonempty
    steps: int default 0
    log:   [string]?
    note:  string?
    lifecycle state {
      state waiting "WAITING"
      state done    "DONE"
      state dropped "DROPPED"
      finish: waiting -> done     set note
      drop:   waiting -> dropped
    }
  }
}
param stage: string = "dev" from ENV
"#;

fn run() -> Fields {
    fields([("id", Value::from("1"))])
}

/// The item of the only record there is, as the store has it.
async fn only_item(store: &Store) -> Item {
    let mut items = Vec::new();
    for table in store.list_tables().await.unwrap() {
        items.extend(store.scan(larder::store::ops::Scan::of(table)).await.unwrap().items);
    }
    assert_eq!(items.len(), 1);
    items.remove(0)
}

fn version_of(read: &Entry) -> i64 {
    read.kept().version().unwrap()
}

fn is_in_doubt(error: &Error) -> bool {
    matches!(error, Error::Store(larder::store::Error::Unanswered { .. }))
}

#[tokio::test]
async fn a_record_that_was_read_is_put_although_the_first_answer_was_lost() {
    let (losses, stores) = forgetful_stores().await;
    for store in stores {
        let place = store.place();
        let runs = shelf(&systems::open_text(RUNS, &store).await, "Run");
        let read = runs.create(run()).await.unwrap();
        let mut mine = read.clone();
        mine.fields.insert("note".to_owned(), Value::from("mine"));
        lose_one_answer(&losses, &store);
        let put = runs.put(mine).await.unwrap_or_else(|error| panic!("{place}: {error}"));
        assert!(was_lost(&losses, &store) && put.changed(), "{place}");
        assert_eq!(runs.get(run()).await.unwrap().unwrap().fields["note"], Value::from("mine"), "{place}");

        lose_one_answer(&losses, &store);
        let late = runs.put(read).await;
        assert!(matches!(late, Err(Error::Conflict { .. })), "{place}: it was read before: {late:?}");
        losses.lost.store(0, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn an_update_whose_answer_was_lost_is_not_made_twice() {
    let (losses, stores) = forgetful_stores().await;
    for store in stores {
        let place = store.place();
        let runs = shelf(&systems::open_text(RUNS, &store).await, "Run");
        let read = runs.create(run()).await.unwrap();

        lose_one_answer(&losses, &store);
        let added = runs.update(run()).add("steps", 1).await.unwrap_err();
        assert!(was_lost(&losses, &store) && is_in_doubt(&added), "{place}: {added}");
        lose_one_answer(&losses, &store);
        let appended = runs.update(run()).append("log", vec!["begun".to_owned()]).await.unwrap_err();
        assert!(is_in_doubt(&appended), "{place}: {appended}");
        let found = runs.get(run()).await.unwrap().unwrap();
        assert_eq!(found.fields["steps"], Value::from(1), "{place}");
        assert_eq!(found.fields["log"], Value::List(vec![Value::from("begun")]), "{place}");

        lose_one_answer(&losses, &store);
        let of_version =
            runs.update(run()).set("note", "x".to_owned()).if_version(version_of(&found)).await.unwrap_err();
        assert!(is_in_doubt(&of_version), "{place}: {of_version}");
        let late =
            runs.update(run()).set("note", "y".to_owned()).if_version(version_of(&read)).await.unwrap_err();
        assert!(matches!(late, Error::Conflict { .. }), "{place}: {late}");

        lose_one_answer(&losses, &store);
        let set = runs.update(run()).set("note", "z".to_owned()).await;
        let set = set.unwrap_or_else(|error| panic!("{place}: it can be made twice: {error}"));
        assert!(was_lost(&losses, &store), "{place}");
        assert_eq!(set.fields["note"], Value::from("z"));
    }
}

#[tokio::test]
async fn a_transition_whose_answer_was_lost_is_its_own_or_in_doubt() {
    let (losses, stores) = forgetful_stores().await;
    for store in stores {
        let place = store.place();
        let runs = shelf(&systems::open_text(RUNS, &store).await, "Run");
        let state = runs.lifecycle("state").unwrap();
        runs.create(run()).await.unwrap();
        lose_one_answer(&losses, &store);
        let finished = state.run(run(), "finish", fields([("note", Value::from("all went well"))])).await;
        let finished = finished.unwrap_or_else(|error| panic!("{place}: {error}"));
        assert!(was_lost(&losses, &store), "{place}");
        assert_eq!(finished.fields["note"], Value::from("all went well"));

        runs.create(fields([("id", Value::from("2"))])).await.unwrap();
        lose_one_answer(&losses, &store);
        // It sets nothing: another's would look the same.
        let dropped = state.run(fields([("id", Value::from("2"))]), "drop", Fields::new()).await.unwrap_err();
        assert!(matches!(dropped, Error::Conflict { .. }), "{place}: {dropped}");
    }
}

#[tokio::test]
async fn what_was_read_is_removed_although_the_first_answer_was_lost() {
    let (losses, stores) = forgetful_stores().await;
    for store in stores {
        let place = store.place();
        let runs = shelf(&systems::open_text(RUNS, &store).await, "Run");
        runs.create(run()).await.unwrap();
        let read = only_item(&store).await;
        lose_one_answer(&losses, &store);
        runs.delete_read(&read).await.unwrap_or_else(|error| panic!("{place}: {error}"));
        assert!(was_lost(&losses, &store), "{place}");
        assert!(runs.get(run()).await.unwrap().is_none(), "{place}");

        runs.create(run()).await.unwrap();
        runs.update(run()).add("steps", 1).await.unwrap();
        lose_one_answer(&losses, &store);
        let late = runs.delete_read(&read).await;
        assert!(matches!(late, Err(Error::Conflict { .. })), "{place}: it has changed");
        losses.lost.store(0, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn who_takes_a_flight_loads_at_once_although_the_answer_was_lost() {
    let (losses, stores) = forgetful_stores().await;
    for store in stores {
        let system = systems::open_text(&pages("", "grace 10h\nflight 1h"), &store).await;
        let pages = shelf(&system, "Page");
        let source = Source::default();
        for round in 1..3 {
            lose_one_answer(&losses, &store);
            let fetching = pages.fetch(page_key("1"), source.numbered());
            let fetched = tokio::time::timeout(LONG, fetching).await;
            let fetched = fetched.unwrap_or_else(|_| panic!("{}: it waits for itself", store.place()));
            assert_eq!(text_of(&fetched.unwrap().fields), format!("page {round}"));
            assert!(was_lost(&losses, &store), "{}", store.place());
            // The time of the first one is over, and it may still be given: the flight is an attribute of its item.
            store.clock().advance(Duration::from_secs(200));
        }
    }
}

#[tokio::test]
async fn a_split_record_keeps_its_chunks_although_an_answer_was_lost() {
    let (losses, [store, _]) = forgetful_stores().await;
    let pages = shelf(&systems::open_text(&pages("", "oversize split"), &store).await, "Page");
    let large = "x".repeat(900_000);
    pages.put(page("1", &large)).await.unwrap();
    let table = store.list_tables().await.unwrap().remove(0);
    let items = store.scan(larder::store::ops::Scan::of(table)).await.unwrap().items;
    // The chunks arrive. The head does too, and nobody hears of it.
    losses.arriving.store(items.len() - 1, Ordering::SeqCst);
    losses.lost.store(1, Ordering::SeqCst);
    pages.put(page("1", &large)).await.unwrap();
    assert!(was_lost(&losses, &store));
    assert_eq!(text(&pages).await, Some(large));
}

#[tokio::test]
async fn two_who_create_the_same_at_once_take_two_numbers() {
    let store = Store::memory().await;
    store.clock().stop();
    let system = systems::open_text(LOANS, &store).await;
    let loans = shelf(&system, "Loan");
    let loan = || fields([("isbn", Value::from("1")), ("reader", Value::from("Ada"))]);
    let made = futures_util::future::join_all((0..8).map(|_| loans.create(loan()))).await;
    let mut numbers: Vec<Value> =
        made.into_iter().map(|made| made.unwrap().fields["number"].clone()).collect();
    numbers.sort_by_key(Value::as_i64);
    assert_eq!(numbers, (1..9).map(Value::from).collect::<Vec<_>>());
}

const HORSES: &str = r#"
system horses
source web { }
table horses {
  key  pk / sk
  ttl  ends
  entity Results from web {
    key     "HORSE#{id}" / "RESULTS"
    ttl     100s
    writes  behind
    input id: string nonempty
    wins:     int
  }
  entity Parents from web {
    key     "HORSE#{id}" / "PARENTS"
    ttl     100s
    writes  behind
    input id: string nonempty
    sire:     string
  }
  collection Horse { Results, Parents }
}
"#;

fn results(wins: i64) -> (String, Fields) {
    ("Results".to_owned(), fields([("id", Value::from("1")), ("wins", Value::from(wins))]))
}

fn parents() -> (String, Fields) {
    ("Parents".to_owned(), fields([("id", Value::from("1")), ("sire", Value::from("Kitasan Black"))]))
}

fn horse_key() -> Fields {
    fields([("id", Value::from("1"))])
}

#[tokio::test]
async fn half_a_collection_is_no_hit_although_that_half_waits_to_be_written() {
    let store = Store::memory().await;
    let system = systems::open_text(HORSES, &store).await;
    let horses = system.collection("Horse").unwrap();
    store.faults().only(&BEHIND).down();
    shelf(&system, "Results").put_behind(results(3).1).await.unwrap();
    assert!(matches!(horses.look(horse_key()).await, larder::Look::Miss(_)), "its parents are missing");
    shelf(&system, "Parents").put_behind(parents().1).await.unwrap();
    let larder::Look::Hit(horse) = horses.look(horse_key()).await else { panic!("both halves wait") };
    assert_eq!(horse.0.len(), 2);
    assert_eq!(horses.get(horse_key()).await.unwrap().map(|horse| horse.0.len()), Some(2));
}

#[tokio::test]
async fn a_collection_is_written_and_removed_after_what_waits_of_its_members() {
    let store = Store::memory().await;
    let system = systems::open_text(HORSES, &store).await;
    let (horses, of_results) = (system.collection("Horse").unwrap(), shelf(&system, "Results"));
    store.requests().take();
    store.faults().only(&BEHIND).delay(1.0, Duration::from_millis(300));
    of_results.put_behind(results(1).1).await.unwrap();
    until(async || BEHIND.iter().any(|name| store.requests().count(name) > 0)).await;
    store.faults().reset();
    horses.put(vec![results(2), parents()]).await.unwrap();
    let _ = system.drain(LONG).await;
    let found = of_results.get(horse_key()).await.unwrap().unwrap();
    assert_eq!(found.fields["wins"], Value::from(2));

    store.faults().only(&BEHIND).fail_next(1, larder::store::Fault::Throttle);
    of_results.put_behind(results(3).1).await.unwrap();
    assert_eq!(horses.delete(horse_key()).await.unwrap(), 2);
    let _ = system.drain(LONG).await;
    assert!(of_results.get(horse_key()).await.unwrap().is_none());
}

type HorseLoading = JoinHandle<Result<Fetched<Entries>, Error>>;

/// Begins a load of a horse that says when its source is asked and goes on when it is told to.
fn load_held(system: &System) -> (Arc<Notify>, Arc<Notify>, HorseLoading) {
    let (called, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (horses, tell, wait) = (system.collection("Horse").unwrap(), Arc::clone(&called), Arc::clone(&go));
    let loading = tokio::spawn(async move {
        let load = move |_: Fields| {
            let (tell, wait) = (Arc::clone(&tell), Arc::clone(&wait));
            async move {
                tell.notify_one();
                wait.notified().await;
                Ok::<_, Cause>(vec![results(1), parents()])
            }
        };
        horses.fetch(horse_key(), load).await
    });
    (called, go, loading)
}

#[tokio::test]
async fn a_loaded_collection_loses_against_a_member_that_another_program_has_written() {
    let store = Store::memory().await;
    let (ours, theirs) = (systems::open_text(HORSES, &store).await, systems::open_text(HORSES, &store).await);
    let (called, go, loading) = load_held(&ours);
    called.notified().await;
    shelf(&theirs, "Results").put(results(7).1).await.unwrap();
    go.notify_one();
    loading.await.unwrap().unwrap();
    let found = shelf(&theirs, "Results").get(horse_key()).await.unwrap().unwrap();
    assert_eq!(found.fields["wins"], Value::from(7));
}

#[tokio::test]
async fn a_drain_waits_for_a_refresh_that_is_under_way() {
    for (settings, closes) in
        [("refresh 50%", false), ("refresh 50%", true), ("refresh 50%\nwrites behind", false)]
    {
        let (store, system, pages) = open(settings).await;
        store.clock().stop();
        pages.put(page("1", "old")).await.unwrap();
        store.clock().advance(Duration::from_secs(60));
        let (called, go, load) = held(loaded);
        assert_eq!(text_of(&pages.fetch_with(page_key("1"), load).await.unwrap().fields), "old");
        called.notified().await;
        let is_drained = Arc::new(AtomicBool::new(false));
        let draining = tokio::spawn({
            let (system, is_drained) = (system.clone(), Arc::clone(&is_drained));
            async move {
                let drained = if closes { system.close().await } else { system.drain(LONG).await };
                is_drained.store(true, Ordering::SeqCst);
                drained
            }
        });
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert!(!is_drained.load(Ordering::SeqCst), "{settings}");
        go.notify_one();
        draining.await.unwrap().expect_empty();
        assert_eq!(text(&pages).await.as_deref(), Some("loaded"), "{settings}");
    }
}

const SHOPS: &str = r#"
system shops
table shops {
  key    id
  index  ByCountry as by_country  country / id
  entity Shop {
    writes  behind
    id:      string nonempty
    country: string nonempty
  }
}
"#;

fn shop(id: &str, country: &str) -> Fields {
    fields([("id", Value::from(id)), ("country", Value::from(country))])
}

#[tokio::test]
async fn an_invalidation_by_an_index_leaves_what_waits_of_others() {
    let store = Store::memory().await;
    let system = systems::open_text(SHOPS, &store).await;
    let shops = shelf(&system, "Shop");
    shops.put(shop("moved", "DE")).await.unwrap();
    store.faults().only(&BEHIND).fail_next(1, larder::store::Fault::Throttle);
    for (id, country) in [("other", "FR"), ("moved", "FR"), ("meant", "DE")] {
        shops.put_behind(shop(id, country)).await.unwrap();
    }
    until(async || BEHIND.iter().any(|name| store.requests().count(name) > 1)).await;
    let plan = shops.invalidate().by("country", "DE".to_owned()).plan().await.unwrap();
    assert!(!plan.is_scan());
    plan.run().await.unwrap();
    system.drain(LONG).await.expect_empty();
    let country = async |id: &str| {
        let found = shops.get(fields([("id", Value::from(id))])).await.unwrap();
        found.map(|found| found.fields["country"].as_str().unwrap().to_owned())
    };
    assert_eq!(country("other").await.as_deref(), Some("FR"));
    assert_eq!(country("moved").await.as_deref(), Some("FR"), "the newer one is none of them");
    assert_eq!(country("meant").await, None);
}

/// Invalidates page 1, by its key or with all others.
async fn invalidate(pages: &Shelf<Entry>, by_key: bool) {
    let meant = pages.invalidate();
    let meant = if by_key { meant.by("id", "1".to_owned()) } else { meant };
    meant.plan().await.unwrap().run().await.unwrap();
}

#[tokio::test]
async fn an_invalidation_forgets_what_this_process_alone_holds() {
    for by_key in [false, true] {
        let settings = "l1 1h\nscan allow\non_error open";
        let (store, _systems, [ours, theirs]) = open_two(settings).await;
        let source = Source::default();
        ours.fetch(page_key("1"), source.numbered()).await.unwrap();
        theirs.delete(page_key("1")).await.unwrap();
        assert_eq!(text(&ours).await.as_deref(), Some("page 1"), "it is in L1");
        invalidate(&ours, by_key).await;
        assert_eq!(text(&ours).await, None, "another has removed it from the store");

        store.faults().only(&["PutItem"]).down();
        ours.fetch(page_key("1"), source.numbered()).await.unwrap();
        store.faults().reset();
        assert_eq!(text(&ours).await.as_deref(), Some("page 2"), "it is in L1");
        invalidate(&ours, by_key).await;
        assert_eq!(text(&ours).await, None, "it never got to the store");
    }
}

#[tokio::test]
async fn a_load_that_is_under_way_does_not_survive_an_invalidation() {
    for by_key in [false, true] {
        for settings in ["scan allow", "l1 1h\nscan allow", "writes behind\nscan allow"] {
            let (_store, system, pages) = open(settings).await;
            let (called, go, load) = held(loaded);
            let loading = tokio::spawn({
                let pages = pages.clone();
                async move { pages.fetch_with(page_key("1"), load).await }
            });
            called.notified().await;
            invalidate(&pages, by_key).await;
            go.notify_one();
            assert_eq!(
                text_of(&loading.await.unwrap().unwrap().fields),
                "loaded",
                "whoever asked is given it"
            );
            system.drain(LONG).await.expect_empty();
            assert_eq!(text(&pages).await, None, "{settings}");
        }
    }
}

#[tokio::test]
async fn an_absence_is_not_remembered_over_what_waits_to_be_written() {
    for settings in ["negative 1h", "negative 1h\nl1 1h"] {
        let (store, system, pages) = open(settings).await;
        let (called, go, load) = held(Load::absent);
        let loading = tokio::spawn({
            let pages = pages.clone();
            async move { pages.fetch_with(page_key("1"), load).await }
        });
        called.notified().await;
        store.faults().only(&BEHIND).fail_next(1, larder::store::Fault::Throttle);
        pages.put_behind(page("1", "behind")).await.unwrap();
        go.notify_one();
        assert!(loading.await.unwrap().is_err(), "{settings}");
        assert_eq!(text(&pages).await.as_deref(), Some("behind"), "{settings}, at once");
        system.drain(LONG).await.expect_empty();
        assert_eq!(text(&pages).await.as_deref(), Some("behind"), "{settings}");
    }
}

#[tokio::test]
async fn a_loaded_collection_takes_the_place_of_half_of_one() {
    let store = Store::memory().await;
    let system = systems::open_text(HORSES, &store).await;
    let horses = system.collection("Horse").unwrap();
    shelf(&system, "Results").put(results(1).1).await.unwrap();
    let load = |_: Fields| async { Ok::<_, Cause>(vec![results(2), parents()]) };
    assert_eq!(horses.fetch(horse_key(), load).await.unwrap().origin(), &larder::Origin::Source);
    assert_eq!(horses.fetch(horse_key(), load).await.unwrap().origin(), &larder::Origin::Store);
}

#[tokio::test]
async fn a_member_that_is_written_behind_while_its_collection_is_loaded_stays() {
    let store = Store::memory().await;
    let system = systems::open_text(HORSES, &store).await;
    let of_results = shelf(&system, "Results");
    let (called, go, loading) = load_held(&system);
    called.notified().await;
    store.faults().only(&BEHIND).fail_next(1, larder::store::Fault::Throttle);
    of_results.put_behind(results(7).1).await.unwrap();
    go.notify_one();
    loading.await.unwrap().unwrap();
    let _ = system.drain(LONG).await;
    let found = of_results.get(horse_key()).await.unwrap().unwrap();
    assert_eq!(found.fields["wins"], Value::from(7));
}

#[tokio::test]
async fn a_transaction_forgets_nothing_that_is_queued_while_it_runs() {
    let store = Store::memory().await;
    let system = systems::open_text(HORSES, &store).await;
    let (of_results, of_parents) = (shelf(&system, "Results"), shelf(&system, "Parents"));
    of_results.put(results(1).1).await.unwrap();
    store.requests().take();
    store.faults().only(&["TransactWriteItems"]).delay(1.0, Duration::from_millis(200));
    let running = {
        let transaction = system.transaction().check(&of_results, horse_key()).put(&of_parents, parents().1);
        tokio::spawn(transaction.run())
    };
    until(async || store.requests().count("TransactWriteItems") > 0).await;
    store.faults().reset().only(&BEHIND).down();
    of_results.put_behind(results(7).1).await.unwrap();
    running.await.unwrap().unwrap();
    store.faults().reset();
    system.drain(LONG).await.expect_empty();
    let found = of_results.get(horse_key()).await.unwrap().unwrap();
    assert_eq!(found.fields["wins"], Value::from(7));
}

#[tokio::test]
async fn a_load_takes_the_place_of_parts_that_do_not_fit_together() {
    for settings in ["oversize split", "oversize split\nversions on"] {
        let (store, _system, pages) = open(settings).await;
        pages.put(page("1", &"x".repeat(900_000))).await.unwrap();
        let table = store.list_tables().await.unwrap().remove(0);
        let items = store.scan(larder::store::ops::Scan::of(table.clone())).await.unwrap().items;
        let chunk = items.iter().find(|item| item.contains(larder_schema::CHUNK)).unwrap();
        let key = [("pk", chunk.get("pk").unwrap().clone())].into_iter().collect();
        let options = larder::store::ops::WriteOptions::default();
        store.delete_item(larder::store::ops::DeleteItem { table, key, options }).await.unwrap();
        let source = Source::default();
        for _ in 0..3 {
            pages.fetch(page_key("1"), source.numbered()).await.unwrap();
        }
        assert_eq!(source.calls(), 1, "{settings}");
        assert_eq!(text(&pages).await.as_deref(), Some("page 1"));
    }
}
