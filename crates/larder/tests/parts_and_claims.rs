//! Cases that ordinary use seldom meets: races with a slow source, answers lost halfway, items kept in parts.

#![expect(clippy::unwrap_used, reason = "the helpers of a test fail with the test")]

mod systems;

use std::sync::Arc;
use std::time::Duration;

use larder::store::Fault;
use larder::store::ops::Scan;
use larder::{Entry, Error, Fields, Look, Shelf, Store, System, Value};
use larder_model::Item;
use tokio::sync::Notify;

const CRAWLED: &str = r#"
system shops
source web { cost $0.01 per call }
table data {
  key  pk / sk
  ttl  ends
  index ByCrawl as by_crawl  country / crawled
  entity Shop from web {
    key  "SHOP#{domain}" / "META#"
    ttl  1h
    OPTIONS
    input domain: string nonempty
    country:      string nonempty
    crawled_at:   instant?
    lifecycle crawl in crawled {
      state never     "NEVER#"
      state progress  "PROGRESS#{crawled_at}"  lease 2h
      state done      "DONE#{crawled_at}"      due 2d
      begin:   never | done -> progress  set crawled_at = now
      finish:  progress -> done          set crawled_at = now
    }
  }
  entity About from web {
    key  "SHOP#{domain}" / "ABOUT"
    ttl  1h
    input domain: string nonempty
    text:         string
  }
  collection Whole { Shop, About }
}
"#;

const NOTES: &str = r#"
system notes
table notes {
  key  id
  entity Note {
    id:     string nonempty
    OPTIONS
  }
}
"#;

fn fields<const N: usize>(pairs: [(&str, Value); N]) -> Fields {
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

async fn open(text: &str, options: &str, store: &Store) -> System {
    systems::open_text(&text.replace("OPTIONS", options), store).await
}

fn shelf(system: &System, entity: &str) -> Shelf<Entry> {
    system.entries(entity).unwrap()
}

/// A text of so many bytes that no compression makes smaller.
fn noise(bytes: usize) -> String {
    let mut random = fastrand_like(bytes as u64);
    let mut text = String::new();
    while text.len() < bytes {
        text.push_str(&format!("{:016x}", random()));
    }
    text
}

fn fastrand_like(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    }
}

/// Every stored item, whatever it is.
async fn stored(store: &Store) -> Vec<Item> {
    let table = store.list_tables().await.unwrap().remove(0);
    let request = Scan { consistent: true, ..Scan::of(table) };
    store.scan(request).await.unwrap().items
}

/// A shop is claimed while the source is asked for it. What the source gives does not undo the claim.
async fn a_claim_survives(options: &str, whole: bool) {
    let store = Store::memory().await;
    let system = open(CRAWLED, options, &store).await;
    let shops = shelf(&system, "Shop");
    let domain = fields([("domain", "a.de".into())]);
    let shop = fields([("domain", "a.de".into()), ("country", "DE".into())]);
    shops.create(shop).await.unwrap();
    store.clock().advance(Duration::from_secs(1800));
    let crawl = shops.lifecycle("crawl").unwrap();

    let (asked, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let gate = {
        let (asked, go) = (Arc::clone(&asked), Arc::clone(&go));
        move || {
            let (asked, go) = (Arc::clone(&asked), Arc::clone(&go));
            async move {
                asked.notify_one();
                go.notified().await;
            }
        }
    };
    let fetching = {
        let (system, shops, domain) = (system.clone(), shops.clone(), domain.clone());
        tokio::spawn(async move {
            let country = fields([("country", "SE".into())]);
            if whole {
                let load = move |_: Fields| {
                    let (waiting, country) = (gate(), country.clone());
                    async move {
                        waiting.await;
                        let about = fields([("text", "shoes".into())]);
                        let all = vec![("Shop".to_owned(), country), ("About".to_owned(), about)];
                        Ok::<_, std::io::Error>(all)
                    }
                };
                drop(system.collection("Whole").unwrap().fetch(domain, load).await.unwrap());
            } else {
                let load = move |_: Fields| {
                    let (waiting, country) = (gate(), country.clone());
                    async move {
                        waiting.await;
                        Ok::<_, std::io::Error>(country)
                    }
                };
                drop(shops.fetch(domain, load).await.unwrap());
            }
        })
    };
    let bound = Duration::from_secs(10);
    tokio::time::timeout(bound, asked.notified()).await.unwrap();
    let mine = crawl.hold(domain.clone()).await.unwrap();
    store.requests().take();
    go.notify_one();
    tokio::time::timeout(bound, fetching).await.unwrap().unwrap();
    // A refresh ahead goes on after the answer. Overtaken by the claim, it may be kept or not.
    let loaded = async {
        while shops.stats().loads == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // Time for the write that must not happen; nothing tells that there is none.
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    tokio::time::timeout(bound, loaded).await.unwrap();
    system.drain(Duration::from_secs(5)).await.expect_empty();

    let standing = crawl.standing(domain.clone()).await.unwrap().unwrap();
    assert_eq!((standing.state.as_str(), standing.fence), ("progress", 1), "{standing:?}");
    assert!(crawl.hold(domain.clone()).await.is_err(), "two hold one shop");
    let Look::Hit(kept) = shops.look(domain.clone()).await else { panic!("it is kept") };
    assert!(kept.fields.contains_key("crawled_at"), "L1 holds it as it was before the claim");
    mine.finish().await.unwrap();
}

#[tokio::test]
async fn a_claim_survives_the_fetch_of_a_collection_that_began_before_it() {
    a_claim_survives("", true).await;
}

#[tokio::test]
async fn a_claim_survives_a_fetch_that_began_before_it() {
    a_claim_survives("refresh 10%\n    l1 30m", false).await;
}

#[tokio::test]
async fn a_claim_survives_a_write_behind_that_was_fetched_before_it() {
    a_claim_survives("refresh 10%\n    writes behind", false).await;
}

#[tokio::test]
async fn a_limit_larger_than_any_page_reads_all() {
    let store = Store::memory().await;
    let text = "system notes\ntable notes {\n  key id / at\n  entity Note {\n    id: string nonempty\n    at: int\n    text: string\n  }\n}";
    let system = systems::open_text(text, &store).await;
    let notes = shelf(&system, "Note");
    for at in 0..8 {
        let note = fields([
            ("id", "a".into()),
            ("at", i64::from(at).into()),
            ("text", "x".repeat(300_000).as_str().into()),
        ]);
        notes.put(note).await.unwrap();
    }
    assert_eq!(notes.within(["a"]).limit(usize::MAX).all().await.unwrap().len(), 8);
    assert_eq!(notes.within(["a"]).limit(usize::MAX).page().await.unwrap().items.len(), 8);
}

#[tokio::test]
async fn of_two_records_with_one_key_the_later_is_written_also_one_by_one() {
    let store = Store::memory().await;
    let system = open(NOTES, "oversize split\n    text: string", &store).await;
    let notes = shelf(&system, "Note");
    let note = |text: String| fields([("id", "a".into()), ("text", text.as_str().into())]);
    for outcome in notes.put_many([note(noise(1_500_000)), note("later".to_owned())]).await {
        outcome.unwrap();
    }
    let found = notes.get(fields([("id", "a".into())])).await.unwrap().unwrap();
    assert_eq!(found.fields["text"].as_str().unwrap().len(), 5);
    assert_eq!(stored(&store).await.len(), 1, "no chunk is left");
}

#[tokio::test]
async fn what_is_kept_in_parts_is_invalidated_by_what_is_not_in_its_head() {
    for options in ["compress over 1KB", "oversize split", "oversize compress"] {
        let store = Store::memory().await;
        let options =
            format!("{options}\n    scan allow\n    label tags\n    tags: [string]\n    text: string");
        let system = open(NOTES, &options, &store).await;
        let notes = shelf(&system, "Note");
        let tags: Vec<Value> =
            (0..20_000).map(|at| format!("a long tag with number {at}").as_str().into()).collect();
        let note = fields([("id", "a".into()), ("tags", Value::List(tags)), ("text", "hello".into())]);
        notes.put(note.clone()).await.unwrap();
        let label = "a long tag with number 7";
        assert_eq!(notes.invalidate().label(label).run().await.unwrap().removed, 1, "{options}");
        assert!(stored(&store).await.is_empty(), "{options}");
        let text = noise(600_000);
        let mut note = note;
        note.insert("text".to_owned(), text.as_str().into());
        if options.contains("split") {
            notes.put(note).await.unwrap();
            assert_eq!(notes.invalidate().by("text", text).run().await.unwrap().removed, 1, "{options}");
            assert!(stored(&store).await.is_empty(), "{options}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_transaction_whose_answer_was_lost_keeps_its_parts() {
    let store = Store::memory().await;
    let system = open(NOTES, "oversize split\n    text: string", &store).await;
    let notes = shelf(&system, "Note");
    let note = fields([("id", "a".into()), ("text", noise(900_000).as_str().into())]);
    store.faults().only(&["TransactWriteItems"]).fail_next(1, Fault::LostAnswer).throttle(1.0);
    let outcome = system.transaction().put(&notes, note).run().await;
    store.faults().reset();
    assert!(outcome.is_err());
    let found = notes.get(fields([("id", "a".into())])).await.unwrap();
    assert!(found.is_some(), "it was written, and its parts were removed");
}

#[tokio::test]
async fn parts_whose_head_was_never_sent_are_removed() {
    let store = Store::memory().await;
    let system = open(NOTES, "oversize split\n    text: string", &store).await;
    let notes = shelf(&system, "Note");
    let note = fields([("id", "a".into()), ("text", noise(900_000).as_str().into())]);
    store.faults().only(&["PutItem"]).fail_next(1, Fault::LostAnswer);
    assert!(notes.put(note).await.is_err());
    assert!(stored(&store).await.is_empty(), "parts are left that nobody will find");
}

#[tokio::test]
async fn a_record_is_put_over_one_whose_transition_set_a_long_text() {
    let store = Store::memory().await;
    let options = "compress over 1KB
    title: string
    error: string?
    lifecycle status {
      state pending, failed
      fail: pending -> failed  set error
    }";
    let system = open(NOTES, options, &store).await;
    let notes = shelf(&system, "Note");
    let id = fields([("id", "a".into())]);
    let note = |title: &str| fields([("id", "a".into()), ("title", title.into())]);
    notes.create(note("one")).await.unwrap();
    let error = "trace ".repeat(1000);
    let status = notes.lifecycle("status").unwrap();
    status.run(id.clone(), "fail", fields([("error", error.as_str().into())])).await.unwrap();
    notes.put(note("one")).await.unwrap();
    notes.put(note("two")).await.unwrap();
    let found = notes.get(id).await.unwrap().unwrap();
    assert_eq!(
        (found.fields["title"].clone(), found.fields["error"].clone()),
        ("two".into(), error.as_str().into())
    );
}

#[tokio::test]
async fn a_claim_sees_what_ready_rests_on_in_what_is_kept_compressed() {
    let store = Store::memory().await;
    let text = r#"
system notes
table notes {
  key  id
  index ByWork as by_work  kind / work
  entity Note {
    compress over 1KB
    id:    string nonempty
    kind:  string nonempty
    text:  string?
    lifecycle work {
      state fresh
      state busy  lease 1h
      state done
      ready when text.len() > 10
      begin:  fresh -> busy
      finish: busy -> done
    }
  }
}
"#;
    let system = systems::open_text(text, &store).await;
    let notes = shelf(&system, "Note");
    let long = "long ".repeat(1000);
    notes
        .create(fields([("id", "a".into()), ("kind", "k".into()), ("text", long.as_str().into())]))
        .await
        .unwrap();
    let work = notes.lifecycle("work").unwrap();
    assert_eq!(work.due("k").await.unwrap().len(), 1);
    assert!(work.claim("k").await.unwrap().next().await.unwrap().is_some());
}

#[tokio::test]
async fn a_renewed_lease_makes_no_new_version() {
    let store = Store::memory().await;
    let options = "versions on
    title: string
    lifecycle work {
      state fresh
      state busy  lease 1h
      state done
      begin:  fresh -> busy
      finish: busy -> done
    }";
    let system = open(NOTES, options, &store).await;
    let notes = shelf(&system, "Note");
    let id = fields([("id", "a".into())]);
    notes.create(fields([("id", "a".into()), ("title", "one".into())])).await.unwrap();
    let work = notes.lifecycle("work").unwrap();
    let lease = work.hold(id.clone()).await.unwrap();
    let seen = notes.get(id.clone()).await.unwrap().unwrap();
    lease.renew().await.unwrap();
    notes.put(seen).await.unwrap();
    lease.finish().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_append_that_races_with_a_split_loses_nothing() {
    let store = Store::memory().await;
    let system = open(NOTES, "oversize split\n    title: string\n    log: [string]", &store).await;
    let notes = shelf(&system, "Note");
    let id = fields([("id", "a".into())]);
    let note =
        |log: Vec<Value>| fields([("id", "a".into()), ("title", "t".into()), ("log", Value::List(log))]);
    notes.put(note(vec!["short".into()])).await.unwrap();
    store.faults().only(&["UpdateItem"]).delay(1.0, Duration::from_secs(5));
    let appending = {
        let (notes, id) = (notes.clone(), id.clone());
        tokio::spawn(async move { notes.update(id).append("log", vec!["last".to_owned()]).send().await })
    };
    while store.requests().count("UpdateItem") == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // Time stands still while something blocks.
    let (done, wait) = std::sync::mpsc::channel::<()>();
    let still = tokio::task::spawn_blocking(move || wait.recv());
    let large: Vec<Value> = (0..60_u64).map(|_| noise(10_000).as_str().into()).collect();
    notes.put(note(large)).await.unwrap();
    drop(done);
    drop(still.await);
    appending.await.unwrap().unwrap();
    let found = notes.get(id).await.unwrap().unwrap();
    let Value::List(log) = &found.fields["log"] else { panic!() };
    assert_eq!(log.len(), 61);
}

#[tokio::test]
async fn a_cursor_outside_the_range_is_refused() {
    let store = Store::memory().await;
    let text = "system notes\ntable notes {\n  key id / at\n  entity Note {\n    id: string nonempty\n    at: int\n  }\n}";
    let system = systems::open_text(text, &store).await;
    let notes = shelf(&system, "Note");
    for at in 0..8 {
        notes.put(fields([("id", "a".into()), ("at", i64::from(at).into())])).await.unwrap();
    }
    let cursor = notes.within(["a"]).limit(2).page().await.unwrap().cursor.unwrap();
    let page = notes.within(["a"]).from(Value::from(5)).start_at(&cursor).page().await;
    assert!(matches!(page, Err(Error::Cursor { .. })), "{page:?}");
    let page = notes.within(["a"]).until(Value::from(5)).start_at(&cursor).page().await.unwrap();
    assert_eq!(page.items.len(), 4);
}
