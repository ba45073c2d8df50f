//! What must hold at the edges: odd numbers, long appends, races of a read, a load and a write.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod sources;
mod systems;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use larder::{Entry, Error, Fields, Load, Number, Shelf, Store, System, Value, ViolationFault};
use larder_model::AttributeValue;
use tokio::sync::Notify;

use sources::{Cause, Source, fields, page_key, pages, shelf, stored, text_of, until};

const LONG: Duration = Duration::from_secs(60);

async fn open(body: &str) -> (Store, System, Shelf<Entry>) {
    let text = format!(
        "system things\nparam stage: string = \"test\" from ENVIRONMENT\ntable things {{\n  name \"things-{{stage}}\"\n  key id\n  ttl ends\n  entity Thing {{\n    id: string nonempty\n{body}\n  }}\n}}\ntype Issue {{ field: string, message: string }}\n"
    );
    let store = Store::memory().await;
    store.clock().stop();
    let system = systems::open_text(&text, &store).await;
    let things = shelf(&system, "Thing");
    (store, system, things)
}

fn id(id: &str) -> Fields {
    fields([("id", Value::from(id))])
}

fn thing<const N: usize>(pairs: [(&str, Value); N]) -> Fields {
    let mut all = id("1");
    all.extend(fields(pairs));
    all
}

fn number(text: &str) -> Number {
    text.parse().unwrap()
}

#[tokio::test]
async fn a_fraction_is_not_added_to_a_whole_number() {
    let (_, _, things) = open("count: int default 0").await;
    things.create(id("1")).await.unwrap();
    let added = things.update(id("1")).add("count", number("0.5")).await;
    assert!(matches!(added, Err(Error::Invalid(_))), "{added:?}");
    assert_eq!(things.get(id("1")).await.unwrap().unwrap().fields["count"], Value::from(0));
}

/// The kind of what is wrong with one field.
fn fault(refused: Result<Entry, Error>) -> ViolationFault {
    let Err(Error::Invalid(invalid)) = refused else { panic!("{refused:?}") };
    assert_eq!(invalid.violations.len(), 1, "{invalid}");
    invalid.violations[0].fault
}

#[tokio::test]
async fn what_is_wrong_with_a_change_has_its_kind() {
    let body = "count: int default 0\ntext: string\ntags: [string]? len 0..=2\nletters = text.len()\n\
        lifecycle state {\nstate new \"NEW\"\nstate old \"OLD\"\nage: new -> old set text\n}";
    let (_, _, things) = open(body).await;
    things.create(thing([("text", Value::from("x"))])).await.unwrap();
    let update = || things.update(id("1"));
    let one = || vec!["a".to_owned()];
    assert_eq!(fault(update().set("unheard", 1).await), ViolationFault::Unknown);
    assert_eq!(fault(update().clear("text").await), ViolationFault::Missing);
    assert_eq!(fault(update().set("count", "many".to_owned()).await), ViolationFault::Type);
    assert_eq!(fault(update().add("count", number("0.5")).await), ViolationFault::Type);
    assert_eq!(fault(update().append("text", one()).await), ViolationFault::Type);
    assert_eq!(fault(update().insert("text", one()).await), ViolationFault::Type);
    assert_eq!(fault(update().set("id", "2".to_owned()).await), ViolationFault::Check);
    assert_eq!(fault(update().set("letters", 2).await), ViolationFault::Check);
    assert_eq!(fault(update().set("tags", one()).append("tags", one()).await), ViolationFault::Check);
    assert_eq!(fault(update().append("tags", vec!["a".to_owned(); 3]).await), ViolationFault::Check);
    let state = things.lifecycle("state").unwrap();
    assert_eq!(fault(state.run(id("1"), "age", Fields::new()).await), ViolationFault::Missing);
    let strange = fields([("text", Value::from("y")), ("unheard", Value::from(1))]);
    assert_eq!(fault(state.run(id("1"), "age", strange).await), ViolationFault::Unknown);
    let wrong = fields([("text", Value::from(1))]);
    assert_eq!(fault(state.run(id("1"), "age", wrong).await), ViolationFault::Type);
}

#[tokio::test]
async fn a_whole_number_never_grows_past_what_it_can_be_read_as() {
    let (_, _, things) = open("count: int default 0").await;
    things.create(thing([("count", Value::from(i64::MAX))])).await.unwrap();
    let added = things.update(id("1")).add("count", 1).await;
    assert!(matches!(added, Err(Error::Invalid(_))), "{added:?}");
    assert_eq!(things.get(id("1")).await.unwrap().unwrap().fields["count"], Value::from(i64::MAX));
}

#[tokio::test]
async fn a_number_that_is_not_there_yet_is_not_added_to_past_its_range() {
    let (_, _, things) = open("progress: int? in 0..=100").await;
    things.create(id("1")).await.unwrap();
    for number in [150, -1] {
        let added = things.update(id("1")).add("progress", number).await;
        assert!(matches!(added, Err(Error::Invalid(_))), "{added:?}");
    }
    let added = things.update(id("1")).add("progress", 100).await.unwrap();
    assert_eq!(added.fields["progress"], Value::from(100));
}

#[tokio::test]
async fn a_positive_number_stays_positive() {
    let (_, _, things) = open("price: decimal positive").await;
    things.create(thing([("price", Value::from(5))])).await.unwrap();
    let added = things.update(id("1")).add("price", -5).await;
    assert!(matches!(added, Err(Error::Invalid(_))), "{added:?}");
    assert_eq!(things.update(id("1")).add("price", -4).await.unwrap().fields["price"], Value::from(1));
}

#[tokio::test]
async fn a_number_out_of_its_range_is_not_called_somebody_elses_change() {
    let (_, _, things) = open("progress: int in 0..=100 default 0").await;
    things.create(id("1")).await.unwrap();
    let error = things.update(id("1")).add("progress", 101).await.unwrap_err();
    assert!(matches!(error, Error::Invalid(_)), "{error}");
    assert!(error.to_string().contains("Thing.progress: must be in 0..=100, and it is 101"), "{error}");
}

#[tokio::test]
async fn no_append_makes_a_list_longer_than_it_may_be() {
    let (_, _, things) = open("tags: [string]? len 0..=3").await;
    things.create(id("1")).await.unwrap();
    let four = || vec!["a".to_owned(), "b".to_owned(), "c".to_owned(), "d".to_owned()];
    let appended = things.update(id("1")).append("tags", four()).await;
    assert!(matches!(appended, Err(Error::Invalid(_))), "{appended:?}");
    things.update(id("1")).append("tags", vec!["a".to_owned(), "b".to_owned()]).await.unwrap();
    let appended = things.update(id("1")).append("tags", vec!["c".to_owned(), "d".to_owned()]).await;
    assert!(matches!(appended, Err(Error::Invalid(_))), "{appended:?}");
    things.update(id("1")).append("tags", vec!["c".to_owned()]).await.unwrap();
}

#[tokio::test]
async fn what_follows_from_recorded_violations_is_right_after_an_update() {
    let body = "checks record issues\nprice: int in 1..=10\nissues: [Issue]?\nissue_count = issues.len()";
    let (_, _, things) = open(body).await;
    let made = things.create(thing([("price", Value::from(99))])).await.unwrap();
    assert_eq!(made.fields["issue_count"], Value::from(1));
    let mended = things.update(id("1")).set("price", 5_i64).await.unwrap();
    assert!(!mended.fields.contains_key("issues"), "{mended:?}");
    assert_eq!(mended.fields.get("issue_count"), None, "{mended:?}");
    let broken = things.update(id("1")).set("price", 50_i64).await.unwrap();
    assert_eq!(broken.fields.get("issue_count"), Some(&Value::from(1)), "{broken:?}");
}

#[tokio::test]
async fn an_end_that_is_moved_by_an_update_is_the_end() {
    for settings in ["", "grace 1h", "jitter 10%"] {
        let (store, _, things) = open(&format!("ttl until\n{settings}\nuntil: epoch?")).await;
        let at = |seconds: u64| {
            let moment = store.clock().now().plus(Duration::from_secs(seconds));
            Value::Instant(larder::jiff::Timestamp::from_second(moment.millis() / 1000).unwrap())
        };
        things.create(thing([("until", at(100))])).await.unwrap();
        things.update(id("1")).set_value("until", at(1000)).await.unwrap();
        store.clock().advance(Duration::from_secs(500));
        assert!(things.get(id("1")).await.unwrap().is_some(), "{settings}: it was put off");
        things.update(id("1")).set_value("until", at(10)).await.unwrap();
        store.clock().advance(Duration::from_secs(20));
        assert!(things.get(id("1")).await.unwrap().is_none(), "{settings}: it was brought forward");
        things.create(thing([("until", at(100))])).await.unwrap();
        things.update(id("1")).clear("until").await.unwrap();
        store.clock().advance(Duration::from_secs(200_000));
        assert!(things.get(id("1")).await.unwrap().is_some(), "{settings}: it has no end any more");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_equation_over_unstored_values_holds_after_racing_updates() {
    let body = "a: int\nb: int\nlet doubled = a + a\ntotal = doubled + b";
    let (_, _, things) = open(body).await;
    things.create(thing([("a", Value::from(0)), ("b", Value::from(0))])).await.unwrap();
    for round in 1..300_i64 {
        let one = tokio::spawn(things.update(id("1")).set("a", round).send());
        let other = tokio::spawn(things.update(id("1")).set("b", round).send());
        one.await.unwrap().unwrap();
        other.await.unwrap().unwrap();
        let found = things.get(id("1")).await.unwrap().unwrap();
        assert_eq!(found.fields["total"], Value::from(3 * round), "{found:?}");
    }
}

fn page(id: &str, text: &str) -> Fields {
    let mut page = page_key(id);
    page.insert("text".to_owned(), Value::from(text));
    page
}

async fn open_pages(source: &str, settings: &str) -> (Store, System, Shelf<Entry>) {
    let store = Store::memory().await;
    store.clock().stop();
    let system = systems::open_text(&pages(source, settings), &store).await;
    let pages = shelf(&system, "Page");
    (store, system, pages)
}

#[tokio::test]
async fn an_update_changes_what_waits_to_be_written() {
    let (store, system, pages) = open_pages("", "writes behind\n    note: string?").await;
    pages.put(page("1", "old")).await.unwrap();
    store.faults().only(&["BatchWriteItem"]).delay(1.0, Duration::from_millis(200));
    pages.put_behind(page("0", "keeps the worker busy")).await.unwrap();
    tokio::task::yield_now().await;
    pages.put_behind(page("1", "new")).await.unwrap();
    let updated = pages.update(page_key("1")).set("note", "seen".to_owned()).await.unwrap();
    assert_eq!(text_of(&updated.fields), "new");
    pages.put_behind(page("2", "made behind")).await.unwrap();
    let updated = pages.update(page_key("2")).set("note", "seen".to_owned()).await.unwrap();
    assert_eq!(text_of(&updated.fields), "made behind");
    system.drain(LONG).await.expect_empty();
    let found = pages.get(page_key("1")).await.unwrap().unwrap();
    assert_eq!((text_of(&found.fields), &found.fields["note"]), ("new", &Value::from("seen")));
    pages.put_behind(page("3", "taken")).await.unwrap();
    assert!(matches!(pages.create(page("3", "second")).await, Err(Error::Exists { .. })));
}

#[tokio::test]
async fn a_write_behind_that_is_under_way_never_lands_on_a_newer_write() {
    let (store, system, pages) = open_pages("", "writes behind").await;
    for delete in [false, true] {
        store.faults().only(&["BatchWriteItem"]).delay(1.0, Duration::from_millis(100));
        pages.put_behind(page("1", "older")).await.unwrap();
        until(|| async { store.requests().count("BatchWriteItem") > 0 }).await;
        store.requests().take();
        if delete {
            pages.delete(page_key("1")).await.unwrap();
        } else {
            pages.put(page("1", "newer")).await.unwrap();
        }
        system.drain(LONG).await.expect_empty();
        store.faults().reset();
        let found = pages.get(page_key("1")).await.unwrap();
        let text = found.as_ref().map(|found| text_of(&found.fields));
        assert_eq!(text, (!delete).then_some("newer"));
    }
}

#[tokio::test]
async fn a_field_whose_own_time_is_over_does_not_come_out_of_l1() {
    let (store, _, things) = open("l1 2h\nissued_at: epoch\nlink: string? valid 1h from issued_at").await;
    let now = larder::jiff::Timestamp::from_second(store.clock().now().millis() / 1000).unwrap();
    things.put(thing([("issued_at", Value::Instant(now)), ("link", Value::from("here"))])).await.unwrap();
    assert!(things.get(id("1")).await.unwrap().unwrap().fields.contains_key("link"));
    store.clock().advance(Duration::from_secs(3600 + 60));
    let found = things.get(id("1")).await.unwrap().unwrap();
    assert!(!found.fields.contains_key("link"), "{found:?}");
}

type Loading = BoxFuture<'static, Result<Load<Fields>, Cause>>;

/// A loader that says when it was called, and answers when it is told: with a text, or that there is none.
fn held(
    text: &'static str,
) -> (Arc<Notify>, Arc<Notify>, impl Fn(Fields) -> Loading + Send + Sync + 'static) {
    let (called, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (in_called, in_go) = (Arc::clone(&called), Arc::clone(&go));
    let load = move |_: Fields| -> Loading {
        let (called, go) = (Arc::clone(&in_called), Arc::clone(&in_go));
        Box::pin(async move {
            called.notify_one();
            go.notified().await;
            Ok(if text.is_empty() {
                Load::absent()
            } else {
                Load::value(fields([("text", Value::from(text))]))
            })
        })
    };
    (called, go, load)
}

#[tokio::test]
async fn a_load_does_not_undo_what_was_written_while_it_ran() {
    for (settings, text) in
        [("", "loaded"), ("l1 1h", "loaded"), ("negative 1h", ""), ("writes behind", "loaded")]
    {
        let (_, system, pages) = open_pages("", settings).await;
        let (called, go, load) = held(text);
        let loading = tokio::spawn({
            let pages = pages.clone();
            async move { pages.fetch(page_key("1"), load).await }
        });
        called.notified().await;
        pages.put(page("1", "put")).await.unwrap();
        go.notify_one();
        let _ = loading.await.unwrap();
        system.drain(LONG).await.expect_empty();
        let found = pages.get(page_key("1")).await.unwrap();
        let found = found.expect("what was put is there");
        assert_eq!(text_of(&found.fields), "put", "{settings}");
    }
}

#[tokio::test]
async fn what_is_forgotten_while_it_is_loaded_is_loaded_again() {
    for settings in ["", "l1 1h", "writes behind"] {
        let (_, system, pages) = open_pages("", settings).await;
        let (called, go, load) = held("before");
        let loading = tokio::spawn({
            let pages = pages.clone();
            async move { pages.fetch(page_key("1"), load).await }
        });
        called.notified().await;
        pages.forget(page_key("1")).await.unwrap();
        go.notify_one();
        let _ = loading.await.unwrap();
        system.drain(LONG).await.expect_empty();
        let source = Source::default();
        let again = pages.fetch(page_key("1"), source.gives(fields([("text", Value::from("after"))]))).await;
        assert_eq!(text_of(&again.unwrap().fields), "after", "{settings}");
    }
}

#[tokio::test]
async fn a_refresh_does_not_take_a_version_back() {
    let store = Store::memory().await;
    store.clock().stop();
    let text = pages("", "refresh 50%\nversions on\nnote: string?").replace("pages-{stage}", "pages");
    let (ours, theirs) = (systems::open_text(&text, &store).await, systems::open_text(&text, &store).await);
    let (pages, theirs) = (shelf(&ours, "Page"), shelf(&theirs, "Page"));
    let source = Source::default();
    pages.fetch(page_key("1"), source.numbered()).await.unwrap();
    store.clock().advance(Duration::from_secs(60));
    let (called, go, load) = held("refreshed");
    pages.fetch(page_key("1"), load).await.unwrap();
    called.notified().await;
    // Of another program: one of this process would be told to the load.
    for _ in 0..3 {
        theirs.update(page_key("1")).set("note", "seen".to_owned()).await.unwrap();
    }
    let before = theirs.get(page_key("1")).await.unwrap().unwrap();
    go.notify_one();
    ours.drain(LONG).await.expect_empty();
    let after = theirs.get(page_key("1")).await.unwrap().unwrap();
    assert_eq!(after.kept().version(), before.kept().version());
    assert_eq!(after.fields.get("note"), Some(&Value::from("seen")));
}

#[tokio::test]
async fn a_drain_without_an_end_is_no_panic() {
    let (_, system, pages) = open_pages("", "writes behind").await;
    pages.put_behind(page("1", "text")).await.unwrap();
    system.drain(Duration::MAX).await.expect_empty();
}

#[tokio::test]
async fn members_of_a_secret_list_are_not_shown_in_errors() {
    let (_, _, things) = open("keys: [uuid] secret").await;
    let keys = Value::List(vec![Value::from("hunter2")]);
    let error = things.create(thing([("keys", keys)])).await.unwrap_err();
    assert!(matches!(error, Error::Invalid(_)));
    assert!(!error.to_string().contains("hunter2") && !format!("{error:?}").contains("hunter2"), "{error}");
}

#[tokio::test]
async fn a_record_in_parts_that_is_put_again_is_unchanged() {
    for settings in ["oversize split", "oversize compress", "compress over 1KB"] {
        let (_, _, things) = open(&format!("{settings}\ntext: string")).await;
        let text = |last: &str| Value::Text(format!("{}{last}", "all work and no play ".repeat(25_000)));
        assert!(things.put(thing([("text", text("a"))])).await.unwrap().changed());
        assert!(!things.put(thing([("text", text("a"))])).await.unwrap().changed(), "{settings}");
        assert!(things.put(thing([("text", text("b"))])).await.unwrap().changed(), "{settings}");
    }
}

#[tokio::test]
async fn a_put_behind_keeps_the_state_of_a_lifecycle() {
    let body = "note: string?\nlifecycle work {\n state open\n state closed\n close: open -> closed\n}";
    let (store, system, things) = open(body).await;
    let made = things.create(id("1")).await.unwrap();
    things.lifecycle("work").unwrap().run(id("1"), "close", Fields::new()).await.unwrap();
    things.put_behind(thing([("note", Value::from("seen"))])).await.unwrap();
    system.drain(LONG).await.expect_empty();
    let item = stored(&store, made.kept().key()).await.unwrap();
    assert_eq!(item.get("work"), Some(&AttributeValue::from("closed")));
}

#[tokio::test]
async fn an_update_that_makes_a_record_too_large_splits_it() {
    for settings in ["oversize split", "oversize compress", "compress over 1KB"] {
        let (_, _system, things) = open(&format!("{settings}\ntext: string\nlength = text.len()")).await;
        things.create(thing([("text", Value::from("short"))])).await.unwrap();
        let long = "all work and no play ".repeat(25_000);
        things.update(id("1")).set("text", long.clone()).await.unwrap();
        let found = things.get(id("1")).await.unwrap().unwrap();
        assert!(found.fields["text"] == Value::Text(long.clone()), "{settings}");
        assert_eq!(found.fields["length"], Value::from(i64::try_from(long.len()).unwrap()));
    }
}

#[tokio::test]
async fn an_absence_does_not_erase_what_another_process_has_written() {
    for settings in ["negative 1h", "refresh 50%"] {
        let store = Store::memory().await;
        store.clock().stop();
        let text = pages("", settings).replace("pages-{stage}", "pages");
        let (ours, theirs) =
            (systems::open_text(&text, &store).await, systems::open_text(&text, &store).await);
        let (ours, theirs) = (shelf(&ours, "Page"), shelf(&theirs, "Page"));
        ours.put(page("1", "old")).await.unwrap();
        store.clock().advance(Duration::from_secs(if settings.starts_with("neg") { 200 } else { 60 }));
        let (called, go, load) = held("");
        let loading = tokio::spawn({
            let ours = ours.clone();
            async move { ours.fetch(page_key("1"), load).await }
        });
        called.notified().await;
        theirs.put(page("1", "theirs")).await.unwrap();
        go.notify_one();
        let _ = loading.await.unwrap();
        for _ in 0..1000 {
            tokio::task::yield_now().await;
        }
        let found = theirs.get(page_key("1")).await.unwrap();
        assert_eq!(found.as_ref().map(|found| text_of(&found.fields)), Some("theirs"), "{settings}");
    }
}

#[tokio::test]
async fn what_follows_from_a_secret_is_not_shown() {
    let (_, _, things) = open("token: string secret\nlink = \"https://example.com/?token={token}\"").await;
    let made = things.create(thing([("token", Value::from("hunter2"))])).await.unwrap();
    assert!(!format!("{made:?}").contains("hunter2"), "{made:?}");
}

#[tokio::test]
async fn a_changed_field_is_changed_in_one_way() {
    let (_, _, things) = open("count: int default 0\ntags: [string]?").await;
    things.create(id("1")).await.unwrap();
    let twice = things.update(id("1")).set("count", 5_i64).add("count", 1).await;
    assert!(matches!(twice, Err(Error::Invalid(_))), "{twice:?}");
    let twice = things.update(id("1")).clear("tags").append("tags", vec!["a".to_owned()]).await;
    assert!(matches!(twice, Err(Error::Invalid(_))), "{twice:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_updates_of_one_record_all_happen() {
    let (_, _, things) = open("count: int default 0\ndoubled = count + count").await;
    things.create(id("1")).await.unwrap();
    let updates: Vec<_> =
        (0..200).map(|_| tokio::spawn(things.update(id("1")).add("count", 1).send())).collect();
    for update in updates {
        update.await.unwrap().unwrap();
    }
    let found = things.get(id("1")).await.unwrap().unwrap();
    assert_eq!(found.fields["doubled"], Value::from(400));
}

#[tokio::test]
async fn a_read_after_a_write_does_not_join_an_older_load() {
    let (_, _, pages) = open_pages("", "").await;
    let (called, go, load) = held("loaded");
    let loading = tokio::spawn({
        let pages = pages.clone();
        async move { pages.fetch(page_key("1"), load).await }
    });
    called.notified().await;
    pages.put(page("1", "put")).await.unwrap();
    let source = Source::default();
    let reading = pages.fetch(page_key("1"), source.numbered());
    let found = tokio::time::timeout(Duration::from_secs(2), reading).await;
    go.notify_one();
    let _ = loading.await.unwrap();
    assert_eq!(text_of(&found.expect("it does not wait for the load").unwrap().fields), "put");
}

#[tokio::test]
async fn an_input_that_is_not_stored_must_be_given_again_however_the_item_is_kept() {
    for kept in ["versions on", "compress over 1KB"] {
        let text = format!(
            "system pages\ntable pages {{\n  key pk\n  entity Page {{\n    key \"PAGE#{{id}}\"\n    {kept}\n    \
             input id: string nonempty\n    input status: string\n    input price: string?\n    \
             hash = sha256(\"{{status}}{{price}}\")\n  }}\n}}\n"
        );
        let system = systems::open_text(&text, &larder::Store::memory().await).await;
        let pages = system.entries("Page").unwrap();
        let fields = |pairs: &[(&str, &str)]| -> larder::Fields {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), larder::Value::from(*value))).collect()
        };
        let page = fields(&[("id", "1"), ("status", "available"), ("price", "10")]);
        let hash = pages.put(page).await.unwrap().fields["hash"].clone();
        let error = pages.update(fields(&[("id", "1")])).set("price", "3".to_owned()).await.unwrap_err();
        assert!(error.to_string().contains("Page.status"), "{kept}: {error}");
        assert_eq!(pages.get(fields(&[("id", "1")])).await.unwrap().unwrap().fields["hash"], hash, "{kept}");
    }
}
