//! Lifecycles: who may change a state, what is due, who holds what.

#![expect(clippy::unwrap_used, reason = "the helpers of a test fail with the test")]

#[macro_use]
mod stores;
mod systems;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use larder::jiff::Timestamp;
use larder::store::Fault;
use larder::store::ops::{GetItem, ReturnCapacity};
use larder::{Entry, Error, Fields, Lease, Lifecycle, Shelf, Store, System, Value};
use larder_model::{AttributeValue, Item};

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);
const BOUND: Duration = Duration::from_secs(30);

fn fields<const N: usize>(pairs: [(&str, Value); N]) -> Fields {
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn key<const N: usize>(pairs: [(&str, &str); N]) -> Fields {
    fields(pairs.map(|(name, value)| (name, Value::from(value))))
}

fn shelf(system: &System, entity: &str) -> Shelf<Entry> {
    system.entries(entity).expect("the entity is there")
}

fn lifecycle(system: &System, entity: &str, name: &str) -> Lifecycle<Entry> {
    shelf(system, entity).lifecycle(name).expect("the lifecycle is there")
}

fn domain(entry: &Entry) -> String {
    entry.fields["domain"].as_str().expect("it is a text").to_owned()
}

fn execution(number: u32) -> Fields {
    key([("execution_id", &format!("00000000-0000-4000-8000-{number:012}"))])
}

fn shop(domain: &str) -> Fields {
    key([("domain", domain)])
}

async fn open_shops(store: &Store, shops: &[(&str, &str)]) -> System {
    let system = systems::open("shops", store).await;
    for (domain, country) in shops {
        let given = key([("domain", *domain), ("country", *country)]);
        shelf(&system, "Shop").create(given).await.unwrap();
    }
    system
}

/// The item of a shop as it is stored.
async fn stored(store: &Store, domain: &str) -> Item {
    let table = store.list_tables().await.unwrap().remove(0);
    let pk = ("pk".to_owned(), AttributeValue::S(format!("SHOP#{domain}")));
    let key = Item::from_iter([pk, ("sk".to_owned(), AttributeValue::from("META#"))]);
    let request = GetItem { table, key, projection: None, consistent: true, capacity: ReturnCapacity::None };
    store.get_item(request).await.unwrap().expect("the shop is there")
}

fn text_of<'a>(item: &'a Item, name: &str) -> &'a str {
    item.get(name).and_then(|value| value.as_str()).unwrap_or_default()
}

async fn domains_due(crawl: &Lifecycle<Entry>, country: &str) -> Vec<String> {
    crawl.due(country).await.unwrap().iter().map(|due| domain(due)).collect()
}

async fn next(crawl: &Lifecycle<Entry>, country: &str) -> Option<Lease<Entry>> {
    crawl.claim(country).take(1).await.unwrap().next().await.unwrap()
}

async fn t6_only_declared_transitions_happen(store: Store) {
    let tdnet = systems::open("tdnet", &store).await;
    let status = lifecycle(&tdnet, "Execution", "status");
    shelf(&tdnet, "Execution").create(execution(1)).await.unwrap();

    let error = status.run(execution(1), "complete", Fields::new()).await.unwrap_err();
    let Error::State { found, wanted, .. } = &error else { panic!("{error}") };
    assert_eq!((found.as_str(), wanted.as_str()), ("pending", "running"));
    status.run(execution(1), "start", Fields::new()).await.unwrap();
    let done = status.run(execution(1), "complete", Fields::new()).await.unwrap();
    assert_eq!(done.fields["progress"], Value::from(100));
    assert!(done.fields["completed_at"].as_instant().is_some());
    for transition in ["start", "complete", "fail"] {
        let error = status.run(execution(1), transition, Fields::new()).await.unwrap_err();
        assert!(matches!(&error, Error::State { found, .. } if found == "completed"), "{error}");
    }
    let error = status.run(execution(1), "restart", Fields::new()).await.unwrap_err();
    assert!(error.to_string().contains("there are start, complete, fail"), "{error}");
    let error = status.run(execution(2), "start", Fields::new()).await.unwrap_err();
    assert!(matches!(error, Error::Missing { .. }), "{error}");
    assert_eq!(status.standing(execution(1)).await.unwrap().unwrap().state, "completed");
}

async fn t6_a_transition_is_made_once_by_many_at_once(store: Store) {
    let tdnet = systems::open("tdnet", &store).await;
    let status = lifecycle(&tdnet, "Execution", "status");
    shelf(&tdnet, "Execution").create(execution(1)).await.unwrap();
    let start =
        |status: Lifecycle<Entry>| async move { status.run(execution(1), "start", Fields::new()).await };
    let tasks: Vec<_> = (0..8).map(|_| tokio::spawn(start(status.clone()))).collect();
    let mut made = 0;
    for task in tasks {
        match task.await.unwrap() {
            Ok(_) => made += 1,
            Err(Error::State { found, .. }) => assert_eq!(found, "running"),
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(made, 1);
}

async fn t6_parameters_are_checked_and_secrets_not_shown(store: Store) {
    let tdnet = systems::open("tdnet", &store).await;
    let status = lifecycle(&tdnet, "Export", "status");
    let id = || key([("export_id", "00000000-0000-4000-8000-000000000001")]);
    shelf(&tdnet, "Export").create(id()).await.unwrap();
    status.run(id(), "start", Fields::new()).await.unwrap();

    let wrong = key([("download_url", "hunter2")]);
    let error = status.run(id(), "complete", wrong).await.unwrap_err();
    assert!(matches!(error, Error::Invalid(_)), "{error}");
    assert!(!error.to_string().contains("hunter2"), "{error}");
    let strange = key([("download_url", "https://a.jp/x"), ("title", "x")]);
    let error = status.run(id(), "complete", strange).await.unwrap_err();
    assert!(error.to_string().contains("is not a parameter of `complete`"), "{error}");
    assert_eq!(status.standing(id()).await.unwrap().unwrap().state, "processing");

    let done = status.run(id(), "complete", key([("download_url", "https://a.jp/x")])).await.unwrap();
    assert_eq!(done.fields["download_url"], Value::from("https://a.jp/x"));
}

async fn t7_a_transition_leaves_the_end_where_it_was(store: Store) {
    let tdnet = systems::open("tdnet", &store).await;
    let created = shelf(&tdnet, "Execution").create(execution(1)).await.unwrap();
    store.clock().advance(DAY);
    let started: Entry = created.kept().run("status", "start", Fields::new()).await.unwrap();
    assert_eq!(started.kept().expires(), created.kept().expires());
    store.clock().advance(30 * DAY);
    let late = started.kept().run::<Entry>("status", "complete", Fields::new()).await.unwrap_err();
    assert!(matches!(late, Error::Missing { .. }), "{late}");
}

async fn t9_a_state_is_listed_in_time_order(store: Store) {
    let tdnet = systems::open("tdnet", &store).await;
    let status = lifecycle(&tdnet, "Execution", "status");
    for number in [3, 1, 2, 4] {
        shelf(&tdnet, "Execution").create(execution(number)).await.unwrap();
        store.clock().advance(HOUR);
        if number != 4 {
            status.run(execution(number), "start", Fields::new()).await.unwrap();
        }
    }
    let ids = |listed: Vec<larder::Standing<Entry>>| -> Vec<String> {
        let ids = listed.iter().map(|one| one.fields["execution_id"].as_str().unwrap().to_owned());
        ids.map(|id| id[id.len() - 1..].to_owned()).collect()
    };
    assert_eq!(ids(status.in_state("running").await.unwrap()), ["3", "1", "2"]);
    assert_eq!(ids(status.in_state("running").newest_first().limit(2).await.unwrap()), ["2", "1"]);
    assert_eq!(ids(status.in_state("pending").await.unwrap()), ["4"]);
    assert!(status.in_state("failed").await.unwrap().is_empty());
    let error = status.in_state("lost").await.unwrap_err();
    assert!(error.to_string().contains("there are pending, running, completed, failed"), "{error}");
}

async fn s6_a_shop_goes_from_never_through_progress_to_done(store: Store) {
    let shops = open_shops(&store, &[("a.de", "DE")]).await;
    let crawl = lifecycle(&shops, "Shop", "crawl");
    assert_eq!(text_of(&stored(&store, "a.de").await, "gsi2_sk"), "NEVER#");

    let lease = next(&crawl, "DE").await.expect("a shop is due");
    let running = stored(&store, "a.de").await;
    let start = text_of(&running, "last_crawled_start").to_owned();
    assert!(start.parse::<Timestamp>().is_ok());
    assert_eq!(text_of(&running, "gsi2_sk"), format!("PROGRESS#{start}"));
    assert_eq!(text_of(&running, "gsi3_sk"), "NEVER#");
    assert_eq!(text_of(&running, "crawl_owner"), lease.owner());

    store.clock().advance(HOUR);
    lease.finish().await.unwrap();
    let done = stored(&store, "a.de").await;
    let end = text_of(&done, "last_crawled_end");
    assert!(start.as_str() < end);
    assert_eq!(text_of(&done, "gsi2_sk"), format!("DONE#{end}"));
    assert_eq!(text_of(&done, "gsi2_pk"), "COUNTRY#DE");
    for gone in ["crawl_owner", "crawl_until", "crawl_attempts", "larder_crawl_from"] {
        assert!(!done.contains(gone), "{gone}");
    }
}

async fn s7_never_crawled_shops_come_first_then_the_oldest(store: Store) {
    let shops = open_shops(&store, &[("b.de", "DE"), ("a.de", "DE"), ("c.de", "DE"), ("x.se", "SE")]).await;
    let crawl = lifecycle(&shops, "Shop", "crawl");
    for name in ["c.de", "a.de"] {
        crawl.hold(shop(name)).await.unwrap().finish().await.unwrap();
        store.clock().advance(HOUR);
    }
    assert_eq!(domains_due(&crawl, "DE").await, ["b.de"], "the others were crawled today");
    store.clock().advance(2 * DAY);
    assert_eq!(domains_due(&crawl, "DE").await, ["b.de", "c.de", "a.de"]);
    let held = next(&crawl, "DE").await.unwrap();
    assert_eq!(domain(&held), "b.de");
    assert_eq!(domains_due(&crawl, "DE").await, ["c.de", "a.de"], "running ones are excluded");
    let old = crawl.due("DE").older_than(2 * DAY + HOUR + HOUR / 2).await.unwrap();
    assert_eq!(old.iter().map(|due| domain(due)).collect::<Vec<_>>(), ["c.de"]);

    let mut rest = crawl.claim("DE").older_than(DAY).await.unwrap();
    let mut claimed = Vec::new();
    while let Some(lease) = rest.next().await.unwrap() {
        claimed.push(domain(&lease));
        lease.finish().await.unwrap();
    }
    assert_eq!(claimed, ["c.de", "a.de"]);
}

async fn s7_countries_take_turns(store: Store) {
    let shops: Vec<(String, &str)> = (0..6)
        .map(|number| (format!("{number}.de"), "DE"))
        .chain([("a.se".to_owned(), "SE"), ("b.se".to_owned(), "SE"), ("a.fr".to_owned(), "FR")])
        .collect();
    let shops: Vec<(&str, &str)> =
        shops.iter().map(|(domain, country)| (domain.as_str(), *country)).collect();
    let shops = open_shops(&store, &shops).await;
    let crawl = lifecycle(&shops, "Shop", "crawl");
    let mut claims = crawl.claim("DE").groups(["SE", "FR"]).take(7).await.unwrap();
    let mut countries = Vec::new();
    let mut held = Vec::new();
    while let Some(lease) = claims.next().await.unwrap() {
        countries.push(domain(&lease)[2..].to_owned());
        held.push(lease);
    }
    assert_eq!(countries, ["de", "se", "fr", "de", "se", "de", "de"]);
}

async fn s8_two_workers_never_hold_one_shop(store: Store) {
    let names: Vec<String> = (0..5).map(|number| format!("{number}.de")).collect();
    let pairs: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "DE")).collect();
    let shops = open_shops(&store, &pairs).await;
    let crawl = lifecycle(&shops, "Shop", "crawl");
    let worker = |crawl: Lifecycle<Entry>, number: u32| async move {
        let mut claims = crawl.claim("DE").owner(format!("worker {number}")).await.unwrap();
        let mut held = Vec::new();
        while let Some(lease) = claims.next().await.unwrap() {
            held.push(lease);
        }
        held
    };
    let tasks: Vec<_> = (0..6).map(|number| tokio::spawn(worker(crawl.clone(), number))).collect();
    let mut holders: BTreeMap<String, String> = BTreeMap::new();
    let mut leases = Vec::new();
    for task in tasks {
        for lease in task.await.unwrap() {
            let other = holders.insert(domain(&lease), lease.owner().to_owned());
            assert_eq!(other, None, "{}", domain(&lease));
            leases.push(lease);
        }
    }
    assert_eq!(holders.into_keys().collect::<Vec<_>>(), names);
    for lease in leases {
        let standing = crawl.standing(shop(&domain(&lease))).await.unwrap().unwrap();
        assert_eq!((standing.owner.as_deref(), standing.fence), (Some(lease.owner()), lease.fence()));
        lease.finish().await.unwrap();
    }
}

/// A worker that comes back to an old page does not try one after the other what others have taken meanwhile.
async fn whoever_finds_something_taken_on_an_old_page_reads_on_anew(store: Store) {
    const OTHERS: usize = 8;
    let names: Vec<String> = (0..56).map(|number| format!("{number:02}.de")).collect();
    let pairs: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "DE")).collect();
    let shops = open_shops(&store, &pairs).await;
    let crawl = lifecycle(&shops, "Shop", "crawl");
    let order = domains_due(&crawl, "DE").await;
    let mut slow = crawl.claim("DE").await.unwrap();
    assert_eq!(domain(&slow.next().await.unwrap().unwrap()), order[0]);
    let mut others = crawl.claim("DE").take(OTHERS).await.unwrap();
    while others.next().await.unwrap().is_some() {}

    store.clock().advance(HOUR);
    let tried = || store.requests().count("GetItem") + store.requests().count("UpdateItem");
    let before = tried();
    let mut rest = vec![domain(&slow.next().await.unwrap().unwrap())];
    assert_eq!(tried() - before, 3, "one that is taken is looked at, then the next is, and is claimed");
    while let Some(lease) = slow.next().await.unwrap() {
        rest.push(domain(&lease));
    }
    assert_eq!(rest, order[1 + OTHERS..], "nothing is left out, in order, beyond the end of the page");
}

async fn s8_a_dead_workers_shop_comes_back(store: Store) {
    let shops = open_shops(&store, &[("a.de", "DE")]).await;
    let crawl = lifecycle(&shops, "Shop", "crawl");
    let slow = next(&crawl, "DE").await.unwrap();
    assert!(next(&crawl, "DE").await.is_none());
    store.clock().advance(HOUR + HOUR / 2);
    assert!(next(&crawl, "DE").await.is_none(), "its lease is two hours long");
    slow.renew().await.unwrap();
    store.clock().advance(HOUR + HOUR / 2);
    assert!(next(&crawl, "DE").await.is_none(), "it lives");
    assert!(crawl.stuck("DE").await.unwrap().is_empty());
    let error = crawl.hold(shop("a.de")).await.unwrap_err();
    assert!(error.to_string().contains(slow.owner()), "{error}");

    store.clock().advance(HOUR);
    let other = next(&crawl, "DE").await.expect("its lease ran out");
    assert_eq!((other.fence(), other.attempts()), (slow.fence() + 1, 2));
    assert!(matches!(slow.renew().await, Err(Error::LeaseLost { .. })));
    let error = slow.finish().await.unwrap_err();
    assert!(matches!(&error, Error::LeaseLost { cause, .. } if cause.contains(other.owner())), "{error}");
    other.finish().await.unwrap();
    assert_eq!(crawl.standing(shop("a.de")).await.unwrap().unwrap().state, "done");
}

async fn s8_stuck_shops_are_listed_and_released(store: Store) {
    let shops = open_shops(&store, &[("a.de", "DE"), ("b.de", "DE"), ("c.de", "DE")]).await;
    let crawl = lifecycle(&shops, "Shop", "crawl");
    crawl.hold(shop("b.de")).await.unwrap().finish().await.unwrap();
    let crawled = text_of(&stored(&store, "b.de").await, "gsi2_sk").to_owned();
    store.clock().advance(DAY);
    for name in ["a.de", "b.de"] {
        drop(crawl.hold(shop(name)).await.unwrap());
    }
    assert!(crawl.stuck("DE").await.unwrap().is_empty());
    store.clock().advance(2 * HOUR + Duration::from_secs(2));
    let _live = crawl.hold(shop("c.de")).await.unwrap();
    let stuck = crawl.stuck("DE").await.unwrap();
    let names: BTreeSet<String> = stuck.iter().map(|one| domain(one)).collect();
    assert_eq!(names.into_iter().collect::<Vec<_>>(), ["a.de", "b.de"]);
    assert!(stuck.iter().all(|one| one.state == "progress" && one.since.is_some() && one.owner.is_some()));

    for name in ["a.de", "b.de"] {
        crawl.release(shop(name)).await.unwrap();
    }
    assert_eq!(text_of(&stored(&store, "a.de").await, "gsi2_sk"), "NEVER#");
    assert_eq!(text_of(&stored(&store, "b.de").await, "gsi2_sk"), crawled, "it is where it was");
    assert!(crawl.stuck("DE").await.unwrap().is_empty());
    let error = crawl.release(shop("c.de")).await.unwrap_err();
    assert!(matches!(error, Error::Conflict { .. }), "{error}");
    let error = crawl.release(shop("a.de")).await.unwrap_err();
    assert!(matches!(&error, Error::State { found, .. } if found == "never"), "{error}");
}

/// A shop that a program without leases left in progress.
async fn s8_progress_without_a_lease_is_stuck_after_two_hours(store: Store) {
    let shops = open_shops(&store, &[("a.de", "DE")]).await;
    let crawl = lifecycle(&shops, "Shop", "crawl");
    drop(crawl.hold(shop("a.de")).await.unwrap());
    let table = store.list_tables().await.unwrap().remove(0);
    let item = stored(&store, "a.de").await.into_iter();
    let item = item.filter(|(name, _)| !name.starts_with("crawl_") && !name.starts_with("larder_")).collect();
    let put = larder::store::ops::PutItem { table, item, options: Default::default() };
    stores::unguarded(&store).put_item(put).await.unwrap();

    store.clock().advance(HOUR);
    assert!(crawl.stuck("DE").await.unwrap().is_empty());
    assert!(next(&crawl, "DE").await.is_none());
    store.clock().advance(HOUR + Duration::from_secs(2));
    assert_eq!(crawl.stuck("DE").await.unwrap().len(), 1);
    next(&crawl, "DE").await.expect("it is taken over").release().await.unwrap();
    assert_eq!(text_of(&stored(&store, "a.de").await, "gsi2_sk"), "NEVER#");
}

async fn s9_a_shop_is_scraped_when_it_was_crawled_since(store: Store) {
    let shops = open_shops(&store, &[("a.de", "DE"), ("b.de", "DE")]).await;
    let (crawl, scrape) = (lifecycle(&shops, "Shop", "crawl"), lifecycle(&shops, "Shop", "scrape"));
    assert!(domains_due(&scrape, "DE").await.is_empty(), "none was crawled");
    assert!(next(&scrape, "DE").await.is_none());

    crawl.hold(shop("a.de")).await.unwrap().finish().await.unwrap();
    assert_eq!(domains_due(&scrape, "DE").await, ["a.de"]);
    store.clock().advance(HOUR);
    next(&scrape, "DE").await.expect("it was crawled").finish().await.unwrap();
    store.clock().advance(3 * DAY);
    assert!(domains_due(&scrape, "DE").await.is_empty(), "it was not crawled since");
    assert!(next(&scrape, "DE").await.is_none());

    next(&crawl, "DE").await.expect("b.de never was").release().await.unwrap();
    crawl.hold(shop("a.de")).await.unwrap().finish().await.unwrap();
    assert_eq!(domain(&next(&scrape, "DE").await.expect("it was crawled again")), "a.de");
}

async fn s8_a_lost_answer_loses_no_shop(store: Store) {
    let shops = open_shops(&store, &[("a.de", "DE")]).await;
    let crawl = lifecycle(&shops, "Shop", "crawl");
    let lose = || drop(store.faults().only(&["UpdateItem"]).fail_next(1, Fault::LostAnswer).clone());
    lose();
    let lease = next(&crawl, "DE").await.expect("it is ours though the answer was lost");
    assert_eq!(lease.fence(), 1);
    lose();
    lease.release().await.unwrap();
    let standing = crawl.standing(shop("a.de")).await.unwrap().unwrap();
    assert_eq!((standing.state.as_str(), standing.attempts), ("never", 0));

    drop(next(&crawl, "DE").await.unwrap());
    store.clock().advance(3 * HOUR);
    lose();
    crawl.release(shop("a.de")).await.unwrap();
    assert_eq!(crawl.standing(shop("a.de")).await.unwrap().unwrap().state, "never");

    let lease = next(&crawl, "DE").await.unwrap();
    lose();
    lease.finish().await.unwrap();
    assert_eq!(crawl.standing(shop("a.de")).await.unwrap().unwrap().state, "done");
}

async fn t6_a_transition_whose_answer_was_lost_is_done_or_in_doubt(store: Store) {
    let tdnet = systems::open("tdnet", &store).await;
    let status = lifecycle(&tdnet, "Execution", "status");
    shelf(&tdnet, "Execution").create(execution(1)).await.unwrap();
    let lose = || drop(store.faults().only(&["UpdateItem"]).fail_next(1, Fault::LostAnswer).clone());
    lose();
    // It sets nothing, so another's start looks the same.
    let error = status.run(execution(1), "start", Fields::new()).await.unwrap_err();
    assert!(matches!(error, Error::Conflict { .. }), "{error}");
    lose();
    status.run(execution(1), "complete", Fields::new()).await.unwrap();
}

const JOBS: &str = r#"
system jobs
table jobs {
  name  "jobs-{stage}"
  key   id
  index ByState as by_state  queue / state
  entity Job {
    id:         string nonempty
    queue:      string nonempty
    started_at: instant?
    worker:     string?
    error:      string?
    lifecycle state {
      state waiting   "WAITING"
      state running   "RUNNING#{started_at}"  lease 900ms
      state done      "DONE"
      state failed    "FAILED"
      owner worker
      retry 2 backoff 1m..90s
      begin:   waiting -> running  set started_at = now
      finish:  running -> done
      fail:    running -> failed   set error
    }
  }
}
param stage: string = "dev" from ENV
"#;

async fn open_jobs(store: &Store, text: &str) -> Lifecycle<Entry> {
    let system = systems::open_text(text, store).await;
    shelf(&system, "Job").create(key([("id", "a"), ("queue", "q")])).await.unwrap();
    lifecycle(&system, "Job", "state")
}

async fn work_that_fails_is_tried_again_after_growing_pauses(store: Store) {
    let jobs = open_jobs(&store, JOBS).await;
    for (attempt, pause) in [(1, 60), (2, 90)] {
        let lease = next(&jobs, "q").await.expect("it is due");
        assert_eq!(lease.attempts(), attempt);
        lease.retry("the page is down").await.unwrap();
        let standing = jobs.standing(key([("id", "a")])).await.unwrap().unwrap();
        assert_eq!((standing.state.as_str(), standing.owner.clone()), ("waiting", None));
        assert_eq!(standing.error.as_deref(), Some("the page is down"));
        assert!(standing.pauses && !standing.stuck);
        store.clock().advance(Duration::from_secs(pause - 5));
        assert!(jobs.due("q").await.unwrap().is_empty(), "it pauses");
        assert!(next(&jobs, "q").await.is_none(), "it pauses");
        store.clock().advance(Duration::from_secs(7));
    }
    next(&jobs, "q").await.expect("it is due").retry("the page is gone").await.unwrap();
    let standing = jobs.standing(key([("id", "a")])).await.unwrap().unwrap();
    assert_eq!(standing.state, "failed");
    assert_eq!(standing.fields["error"], Value::from("the page is gone"));
    assert!(!standing.fields.contains_key("worker"));
    assert_eq!(standing.error, None, "the state has it now");
}

async fn what_pauses_is_tried_again_at_once_when_somebody_says_so(store: Store) {
    let jobs = open_jobs(&store, JOBS).await;
    let job = || key([("id", "a")]);
    let lease = next(&jobs, "q").await.expect("it is due");
    assert!(matches!(jobs.retry_now(job()).await, Err(Error::State { .. })), "somebody works on it");
    lease.retry(format!("see https://me:pass@host/a?key=hush {}", "x".repeat(5000))).await.unwrap();
    let kept = jobs.standing(job()).await.unwrap().unwrap().error.expect("it is kept");
    assert!(kept.starts_with("see https://host/a?… xxx") && kept.len() <= 1024, "{kept}");

    jobs.retry_now(job()).await.unwrap();
    let standing = jobs.standing(job()).await.unwrap().unwrap();
    assert_eq!((standing.pauses, standing.attempts, standing.until), (false, 1, None));
    assert_eq!(standing.error, Some(kept), "it says why until the next attempt");
    jobs.retry_now(job()).await.unwrap();

    let lease = next(&jobs, "q").await.expect("it is due at once");
    assert_eq!((lease.attempts(), lease.fence()), (2, 2));
    let standing = jobs.standing(job()).await.unwrap().unwrap();
    assert_eq!((standing.error, standing.stuck), (None, false));
    lease.retry("no").await.unwrap();
    jobs.retry_now(job()).await.unwrap();
    next(&jobs, "q").await.expect("it is due").release().await.unwrap();
    assert_eq!(jobs.standing(job()).await.unwrap().unwrap().error, None, "it was given back untouched");
    assert!(matches!(jobs.retry_now(key([("id", "none")])).await, Err(Error::Missing { .. })));
}

async fn work_without_a_failed_state_stays_stuck_until_it_is_released(store: Store) {
    let text = JOBS
        .replace("      fail:    running -> failed   set error\n", "")
        .replace("      state failed    \"FAILED\"\n", "");
    let jobs = open_jobs(&store, &text).await;
    for _ in 0..3 {
        next(&jobs, "q").await.expect("it is due").retry("no").await.unwrap();
        store.clock().advance(HOUR);
    }
    assert!(next(&jobs, "q").await.is_none());
    let stuck = jobs.stuck("q").await.unwrap();
    assert_eq!((stuck.len(), stuck[0].exhausted, stuck[0].attempts), (1, true, 3));
    assert_eq!((stuck[0].stuck, stuck[0].error.as_deref()), (true, Some("no")));
    jobs.release(key([("id", "a")])).await.unwrap();
    assert_eq!(next(&jobs, "q").await.expect("it is due").attempts(), 1);
}

async fn a_worker_that_dies_too_often_leaves_it_exhausted(store: Store) {
    let jobs = open_jobs(&store, JOBS).await;
    for _ in 0..3 {
        drop(next(&jobs, "q").await.expect("it comes back"));
        store.clock().advance(HOUR);
    }
    assert!(next(&jobs, "q").await.is_none());
    let stuck = jobs.stuck("q").await.unwrap();
    assert_eq!((stuck[0].exhausted, stuck[0].attempts), (true, 3));
}

async fn a_live_lease_renews_itself(store: Store) {
    let jobs = open_jobs(&store, JOBS).await;
    let lease = next(&jobs, "q").await.unwrap();
    store.clock().advance(HOUR);
    let renewed = store.clock().now();
    tokio::time::timeout(BOUND, async {
        while lease.until().expect("it is held").millis() < renewed.millis() {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("it is renewed in time");
    let standing = jobs.standing(key([("id", "a")])).await.unwrap().unwrap();
    assert_eq!(standing.owner.as_deref(), Some(lease.owner()));
    assert!(standing.until >= Some(renewed));
    lease.finish().await.unwrap();
}

async fn a_lease_that_another_took_cancels_the_work(store: Store) {
    let jobs = open_jobs(&store, JOBS).await;
    let slow = next(&jobs, "q").await.unwrap();
    // The slow one may renew in between, and then it takes another hour.
    let other = tokio::time::timeout(BOUND, async {
        loop {
            store.clock().advance(HOUR);
            if let Some(lease) = next(&jobs, "q").await {
                return lease;
            }
        }
    });
    let other = other.await.expect("it is taken over in time");
    let cancelled = tokio::time::timeout(BOUND, slow.work(std::future::pending::<()>()));
    let error = cancelled.await.expect("it is found out in time").unwrap_err();
    assert!(matches!(&error, Error::LeaseLost { cause, .. } if cause.contains(other.owner())), "{error}");
    assert!(slow.is_lost());
    assert!(matches!(slow.finish().await, Err(Error::LeaseLost { .. })));
    other.finish().await.unwrap();
}

async fn a_lease_that_cannot_be_renewed_is_lost(store: Store) {
    let jobs = open_jobs(&store, JOBS).await;
    let lease = next(&jobs, "q").await.unwrap();
    store.faults().down();
    let cancelled = tokio::time::timeout(BOUND, lease.work(std::future::pending::<()>()));
    let error = cancelled.await.expect("it is found out in time").unwrap_err();
    store.faults().up();
    assert!(error.to_string().contains("could not be renewed"), "{error}");
}

async fn a_lease_given_back_is_as_due_as_it_was(store: Store) {
    let jobs = open_jobs(&store, JOBS).await;
    for _ in 0..5 {
        let lease = next(&jobs, "q").await.expect("it is due");
        assert_eq!(lease.attempts(), 1);
        lease.release().await.unwrap();
    }
    let lease = next(&jobs, "q").await.unwrap();
    assert_eq!(lease.fence(), 6);
    assert_eq!(lease.work(async { 7 }).await.unwrap(), 7);
    let error = lease.run("begin", Fields::new()).await.unwrap_err();
    assert!(matches!(error, Error::State { .. }), "{error}");
}

async fn a_leased_state_is_entered_and_left_by_a_lease_alone(store: Store) {
    let jobs = open_jobs(&store, JOBS).await;
    for (transition, way_out) in
        [("begin", "it is made by a claim"), ("finish", "it is made through the lease")]
    {
        let error = jobs.run(key([("id", "a")]), transition, Fields::new()).await.unwrap_err();
        assert!(error.to_string().contains(way_out), "{error}");
    }
    let error = jobs.claim(()).await.unwrap_err();
    assert!(error.to_string().contains("is asked with queue"), "{error}");
    let tdnet = systems::open("tdnet", &store).await;
    let error = lifecycle(&tdnet, "Execution", "status").claim(()).await.unwrap_err();
    assert!(error.to_string().contains("no state has a lease"), "{error}");
}

on_each_store! {
    t6_only_declared_transitions_happen,
    t6_a_transition_is_made_once_by_many_at_once,
    t6_parameters_are_checked_and_secrets_not_shown,
    t6_a_transition_whose_answer_was_lost_is_done_or_in_doubt,
    t7_a_transition_leaves_the_end_where_it_was,
    t9_a_state_is_listed_in_time_order,
    s6_a_shop_goes_from_never_through_progress_to_done,
    s7_never_crawled_shops_come_first_then_the_oldest,
    s7_countries_take_turns,
    s8_two_workers_never_hold_one_shop,
    s8_a_dead_workers_shop_comes_back,
    s8_stuck_shops_are_listed_and_released,
    s8_progress_without_a_lease_is_stuck_after_two_hours,
    s8_a_lost_answer_loses_no_shop,
    s9_a_shop_is_scraped_when_it_was_crawled_since,
    whoever_finds_something_taken_on_an_old_page_reads_on_anew,
    work_that_fails_is_tried_again_after_growing_pauses,
    what_pauses_is_tried_again_at_once_when_somebody_says_so,
    work_without_a_failed_state_stays_stuck_until_it_is_released,
    a_worker_that_dies_too_often_leaves_it_exhausted,
    a_live_lease_renews_itself,
    a_lease_that_another_took_cancels_the_work,
    a_lease_that_cannot_be_renewed_is_lost,
    a_lease_given_back_is_as_due_as_it_was,
    a_leased_state_is_entered_and_left_by_a_lease_alone,
}
