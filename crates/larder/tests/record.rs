//! Records: what is written, what is refused, what stays true.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

#[macro_use]
mod stores;
mod systems;

use larder::jiff::Timestamp;
use larder::{Entry, Error, Fields, Shelf, Store, System, Value};

fn fields<const N: usize>(pairs: [(&str, Value); N]) -> Fields {
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn text(text: &str) -> Value {
    Value::from(text)
}

fn instant(text: &str) -> Value {
    Value::Instant(text.parse::<Timestamp>().expect("a moment"))
}

fn shelf(system: &System, entity: &str) -> Shelf<Entry> {
    system.entries(entity).expect("the entity is there")
}

fn disclosure(company: &str, at: &str) -> Fields {
    fields([
        ("company_code", text(company)),
        ("company_name", text("Toyota Motor")),
        ("disclosure_type", text("earnings")),
        ("title", text("Third quarter")),
        ("disclosed_at", instant(at)),
        ("downloaded_at", instant("2024-02-01T00:10:00Z")),
    ])
}

fn key<const N: usize>(pairs: [(&str, &str); N]) -> Fields {
    pairs.into_iter().map(|(name, value)| (name.to_owned(), text(value))).collect()
}

async fn t2_every_violation_is_named_before_anything_is_written(store: Store) {
    let tdnet = systems::open("tdnet", &store).await;
    let mut wrong = disclosure("72O3", "2024-01-31T15:00:00Z");
    wrong.insert("title".to_owned(), text(""));
    wrong.insert("pdf_url".to_owned(), text("not a url"));
    wrong.remove("company_name");
    let error = shelf(&tdnet, "Disclosure").create(wrong).await.unwrap_err();
    let Error::Invalid(invalid) = &error else { panic!("{error}") };
    let mut paths: Vec<&str> = invalid.violations.iter().map(|violation| &*violation.path).collect();
    paths.sort_unstable();
    assert_eq!(
        paths,
        ["Disclosure.company_code", "Disclosure.company_name", "Disclosure.pdf_url", "Disclosure.title"]
    );
    assert!(error.to_string().contains("must match /[0-9]{4}/, and it is \"72O3\""), "{error}");

    let executions = shelf(&tdnet, "Execution");
    let wrong = fields([("execution_id", text("not-a-uuid")), ("progress", Value::from(101))]);
    let error = executions.create(wrong).await.unwrap_err();
    let Error::Invalid(invalid) = &error else { panic!("{error}") };
    assert_eq!(invalid.violations.len(), 2, "{error}");
}

async fn t3_a_second_disclosure_of_the_same_id_is_refused(store: Store) {
    let tdnet = systems::open("tdnet", &store).await;
    let disclosures = shelf(&tdnet, "Disclosure");
    let mut first = disclosure("7203", "2024-01-31T15:00:00Z");
    first.insert("seq".to_owned(), Value::from(1));
    let created = disclosures.create(first.clone()).await.unwrap();
    assert_eq!(created.fields["disclosure_id"], text("20240201_7203_001"));
    assert!(matches!(disclosures.create(first).await, Err(Error::Exists { .. })));
}

async fn t3_concurrent_creates_take_every_number_once(store: Store) {
    let tdnet = systems::open("tdnet", &store).await;
    let disclosures = shelf(&tdnet, "Disclosure");
    let tasks: Vec<_> = (0..12)
        .map(|_| {
            let disclosures = disclosures.clone();
            tokio::spawn(async move { disclosures.create(disclosure("7203", "2024-01-31T15:00:00Z")).await })
        })
        .collect();
    let mut ids = Vec::new();
    for task in tasks {
        let entry = task.await.unwrap().unwrap();
        ids.push(entry.fields["disclosure_id"].as_str().unwrap().to_owned());
    }
    ids.sort();
    let wanted: Vec<String> = (1..=12).map(|number| format!("20240201_7203_{number:03}")).collect();
    assert_eq!(ids, wanted);
    let next = disclosures.next_sequence(disclosure("7203", "2024-01-31T15:00:00Z")).await.unwrap();
    assert_eq!(next, 13);
}

async fn t4_the_month_is_that_of_tokyo(store: Store) {
    let tdnet = systems::open("tdnet", &store).await;
    let created =
        shelf(&tdnet, "Disclosure").create(disclosure("7203", "2024-01-31T15:00:00Z")).await.unwrap();
    assert_eq!(created.fields["date_partition"], text("2024-02"));
}

const EXECUTION: &str = "0b0e7a52-4d6b-4c1b-9d3c-0d2b7a1c9f10";

async fn t6_counters_are_added_to_by_many_at_once(store: Store) {
    let tdnet = systems::open("tdnet", &store).await;
    let executions = shelf(&tdnet, "Execution");
    executions.create(key([("execution_id", EXECUTION)])).await.unwrap();
    let tasks: Vec<_> = (0..20)
        .map(|_| {
            let executions = executions.clone();
            tokio::spawn(async move {
                executions.update(key([("execution_id", EXECUTION)])).add("success_count", 1).await
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    let found = executions.get(key([("execution_id", EXECUTION)])).await.unwrap().unwrap();
    assert_eq!(found.fields["success_count"], Value::from(20));
}

async fn t2_a_counter_never_leaves_its_range(store: Store) {
    let tdnet = systems::open("tdnet", &store).await;
    let executions = shelf(&tdnet, "Execution");
    executions.create(key([("execution_id", EXECUTION)])).await.unwrap();
    let add =
        |number: i64| executions.update(key([("execution_id", EXECUTION)])).add("progress", number).send();
    assert_eq!(add(100).await.unwrap().fields["progress"], Value::from(100));
    assert!(add(1).await.is_err());
    assert!(add(-101).await.is_err());
    assert_eq!(add(-100).await.unwrap().fields["progress"], Value::from(0));
}

async fn t7_executions_end_thirty_days_after_creation(store: Store) {
    let tdnet = systems::open("tdnet", &store).await;
    let executions = shelf(&tdnet, "Execution");
    let created = executions.create(key([("execution_id", EXECUTION)])).await.unwrap();
    let ends = created.kept().expires().unwrap();
    let age = ends.seconds() - store.clock().now().seconds();
    assert!((30 * 86_400 - 60..=30 * 86_400).contains(&age), "{age}");
    store.clock().advance(std::time::Duration::from_secs(86_400));
    let changed = executions.update(key([("execution_id", EXECUTION)])).set("progress", 5_i64).await.unwrap();
    assert_eq!(changed.kept().expires(), Some(ends));
    let put = executions.put(changed).await.unwrap();
    assert_eq!(put.fields["started_at"], created.fields["started_at"], "a put keeps when it was created");
}

async fn t8_a_download_url_is_gone_after_a_week(store: Store) {
    let tdnet = systems::open("tdnet", &store).await;
    let exports = shelf(&tdnet, "Export");
    let id = key([("export_id", EXECUTION)]);
    exports.create(id.clone()).await.unwrap();
    let url = "https://example.com/export?signature=secret";
    let now = Timestamp::from_millisecond(store.clock().now().millis()).unwrap();
    let changed = exports
        .update(id.clone())
        .set("completed_at", now)
        .set("download_url", url.to_owned())
        .await
        .unwrap();
    assert_eq!(changed.fields["download_url"], text(url));
    store.clock().advance(std::time::Duration::from_secs(7 * 86_400 - 60));
    assert!(exports.get(id.clone()).await.unwrap().unwrap().fields.contains_key("download_url"));
    store.clock().advance(std::time::Duration::from_secs(120));
    assert!(!exports.get(id).await.unwrap().unwrap().fields.contains_key("download_url"));
}

async fn t8_a_secret_is_not_in_an_error(store: Store) {
    let tdnet = systems::open("tdnet", &store).await;
    let exports = shelf(&tdnet, "Export");
    let wrong = fields([("export_id", text(EXECUTION)), ("download_url", text("hunter2 is no url"))]);
    let error = exports.create(wrong).await.unwrap_err().to_string();
    assert!(error.contains("download_url") && !error.contains("hunter2"), "{error}");
}

async fn s4_a_put_says_whether_the_page_changed(store: Store) {
    let shops = systems::open("shops", &store).await;
    let pages = shelf(&shops, "Page");
    let page = |price: &str| {
        fields([
            ("domain", text("example.com")),
            ("url", text("https://example.com/item")),
            ("kind", text("product")),
            ("status", text("available")),
            ("price", text(price)),
        ])
    };
    assert!(pages.put(page("10")).await.unwrap().changed());
    assert!(!pages.put(page("10")).await.unwrap().changed());
    let changed = pages.put(page("12")).await.unwrap();
    assert!(changed.changed());
    // sha256 of "available12"
    assert_eq!(
        changed.fields["hash"],
        text("cf059f48bf4000ee15dec5a2d0ee230ff71f9c576b120b2d8449e15d4e92c81b")
    );
}

async fn s4_the_hash_needs_both_of_its_inputs(store: Store) {
    let shops = systems::open("shops", &store).await;
    let pages = shelf(&shops, "Page");
    let page = fields([
        ("domain", text("example.com")),
        ("url", text("https://example.com/item")),
        ("kind", text("product")),
        ("status", text("available")),
    ]);
    pages.put(page).await.unwrap();
    let at = || key([("domain", "example.com"), ("url", "https://example.com/item")]);
    let error = pages.update(at()).set("price", "3".to_owned()).await.unwrap_err().to_string();
    assert!(error.contains("Page.status"), "{error}");
    let both = pages.update(at()).set("price", "3".to_owned()).set("status", "sold".to_owned()).await;
    assert!(both.is_ok(), "{both:?}");
}

async fn s5_index_attributes_are_right_after_every_partial_update(store: Store) {
    let shops = systems::open("shops", &store).await;
    let shelf = shelf(&shops, "Shop");
    shelf.create(key([("domain", "www.example.co.uk")])).await.unwrap();
    let at = || key([("domain", "www.example.co.uk")]);
    let found = shelf.get(at()).await.unwrap().unwrap();
    assert_eq!(found.fields["core_domain_name"], text("example"));
    assert!(!found.fields.contains_key("gsi2_pk"), "no country, no place in the index");
    let changed = shelf.update(at()).set("country", "DE".to_owned()).await.unwrap();
    assert_eq!(changed.fields["shop_country"], text("COUNTRY#DE"));
    assert_eq!(changed.fields["gsi2_pk"], text("COUNTRY#DE"));
    assert_eq!(changed.fields["gsi3_pk"], text("COUNTRY#DE"));
    assert_eq!(changed.fields["country"], text("DE"));
    let named = shelf.update(at()).set("shop_name", "Example".to_owned()).await.unwrap();
    assert_eq!(named.fields["gsi2_pk"], text("COUNTRY#DE"));
    let cleared = shelf.update(at()).clear("country").await.unwrap();
    assert!(!cleared.fields.contains_key("gsi2_pk") && !cleared.fields.contains_key("shop_country"));
}

async fn s6_a_new_shop_is_in_its_first_states_and_a_put_keeps_them(store: Store) {
    let shops = systems::open("shops", &store).await;
    let shelf = shelf(&shops, "Shop");
    let draft = key([("domain", "example.com"), ("country", "DE")]);
    shelf.create(draft.clone()).await.unwrap();
    let crawled = || shelf.lifecycle("crawl").expect("it is declared");
    let at = || key([("domain", "example.com")]);
    let _lease = crawled().hold(at()).await.unwrap();
    shelf.put(draft).await.unwrap();
    let found = shelf.get(at()).await.unwrap().unwrap();
    assert_eq!(crawled().state_of(&found).await.unwrap().as_deref(), Some("progress"));
}

const LUNCH: &str = "niagara";

fn lunch(name: &str, price: i64) -> Value {
    let pairs = [
        ("name", text(name)),
        ("description", text("Med bröd")),
        ("price", Value::from(price)),
        ("weekday", text("måndag")),
        ("week", Value::from(3)),
        ("place", text("Malmö")),
    ];
    Value::Map(pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

fn menu(lunches: Vec<Value>) -> Fields {
    fields([
        ("restaurant", text(LUNCH)),
        ("year", Value::from(2025)),
        ("week", Value::from(3)),
        ("lunches", Value::List(lunches)),
    ])
}

fn menu_key() -> Fields {
    fields([("restaurant", text(LUNCH)), ("year", Value::from(2025)), ("week", Value::from(3))])
}

async fn l1_the_key_of_a_menu(store: Store) {
    let system = systems::open("lunch", &store).await;
    let put = shelf(&system, "Menu").put(menu(vec![lunch("Soppa", 95)])).await.unwrap();
    let stored = put.kept().key().get("pk").and_then(|value| value.as_str().map(str::to_owned));
    assert_eq!(stored.as_deref(), Some("niagara-2025-03"));
}

async fn l3_the_count_is_the_length_of_the_list_after_every_write(store: Store) {
    let system = systems::open("lunch", &store).await;
    let menus = shelf(&system, "Menu");
    let put = menus.put(menu(vec![lunch("Soppa", 95)])).await.unwrap();
    assert_eq!(put.fields["lunch_count"], Value::from(1));
    let set = menus.update(menu_key()).set_value("lunches", Value::List(vec![lunch("A", 1), lunch("B", 2)]));
    assert_eq!(set.await.unwrap().fields["lunch_count"], Value::from(2));
    let tasks: Vec<_> = (0..8)
        .map(|at| {
            let menus = menus.clone();
            tokio::spawn(async move {
                let lunch = Appended(lunch(&format!("Lunch {at}"), 100));
                menus.update(menu_key()).append("lunches", vec![lunch]).await
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    let found = menus.get(menu_key()).await.unwrap().unwrap();
    assert_eq!(found.fields["lunch_count"], Value::from(10));
    let Value::List(lunches) = &found.fields["lunches"] else { panic!("a list") };
    assert_eq!(lunches.len(), 10);
}

/// A value of the schema's own kind, for `append`.
struct Appended(Value);

impl larder::FieldType for Appended {
    const NAME: &'static str = "lunch";

    fn to_value(self) -> Value {
        self.0
    }

    fn from_value(value: Value) -> Option<Self> {
        Some(Self(value))
    }
}

async fn l4_a_menu_is_kept_with_what_it_breaks(store: Store) {
    let system = systems::open("lunch", &store).await;
    let menus = shelf(&system, "Menu");
    let put = menus.put(menu(vec![lunch("Sallad", -5), lunch("Soppa", 0)])).await.unwrap();
    let Value::List(issues) = &put.fields["validation_errors"] else { panic!("a list") };
    assert_eq!(issues.len(), 2, "{issues:?}");
    let fixed =
        menus.update(menu_key()).set_value("lunches", Value::List(vec![lunch("Soppa", 95)])).await.unwrap();
    assert!(!fixed.fields.contains_key("validation_errors"), "{:?}", fixed.fields);
    let wrong =
        fields([("restaurant", text("Niagara")), ("year", Value::from(2025)), ("week", Value::from(3))]);
    assert!(menus.put(wrong).await.is_err(), "a key is never wrong");
}

const VERSIONED: &str = r#"
system notes
param stage: string = "x" from ENV
table notes {
  name  "notes-{stage}"
  key   pk
  entity Note {
    key       "NOTE#{id}"
    versions  on
    input id: string nonempty
    text:     string
    words:    int in 0..
    long    = words > 100
  }
}
"#;

async fn an_older_version_never_overwrites_a_newer_one(store: Store) {
    let system = systems::open_text(VERSIONED, &store).await;
    let notes = shelf(&system, "Note");
    let draft = fields([("id", text("a")), ("text", text("one")), ("words", Value::from(1))]);
    notes.create(draft).await.unwrap();
    let mine = notes.get(key([("id", "a")])).await.unwrap().unwrap();
    let mut theirs = mine.clone();
    theirs.fields.insert("text".to_owned(), text("two"));
    let theirs = notes.put(theirs).await.unwrap();
    assert_eq!(theirs.kept().version(), Some(2));
    assert!(matches!(notes.put(mine.clone()).await, Err(Error::Conflict { .. })));
    let update = notes.update(key([("id", "a")])).set("text", "three".to_owned());
    assert!(matches!(update.if_version(1).await, Err(Error::Conflict { .. })));
    let update = notes.update(key([("id", "a")])).set("text", "three".to_owned());
    assert_eq!(update.if_version(2).await.unwrap().kept().version(), Some(3));
    notes.delete(key([("id", "a")])).await.unwrap();
    assert!(matches!(notes.put(mine).await, Err(Error::Conflict { .. })));
}

async fn an_update_of_what_is_not_there_creates_nothing(store: Store) {
    let system = systems::open_text(VERSIONED, &store).await;
    let notes = shelf(&system, "Note");
    let update = notes.update(key([("id", "a")])).set("text", "x".to_owned());
    assert!(matches!(update.await, Err(Error::Missing { .. })));
    let update = notes.update(key([("id", "a")])).add("words", 1);
    assert!(matches!(update.await, Err(Error::Missing { .. })));
    assert!(notes.get(key([("id", "a")])).await.unwrap().is_none());
}

async fn an_equation_holds_under_concurrent_partial_updates(store: Store) {
    let system = systems::open_text(VERSIONED, &store).await;
    let notes = shelf(&system, "Note");
    let draft = fields([("id", text("a")), ("text", text("one")), ("words", Value::from(95))]);
    notes.create(draft).await.unwrap();
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let notes = notes.clone();
            tokio::spawn(async move { notes.update(key([("id", "a")])).add("words", 1).await })
        })
        .collect();
    for task in tasks {
        let after = task.await.unwrap().unwrap();
        let words = after.fields["words"].as_i64().unwrap();
        assert_eq!(after.fields["long"], Value::Bool(words > 100), "{words}");
    }
    let found = notes.get(key([("id", "a")])).await.unwrap().unwrap();
    assert_eq!((found.fields["words"].as_i64(), &found.fields["long"]), (Some(103), &Value::Bool(true)));
}

async fn what_has_expired_is_absent_and_its_key_is_free(store: Store) {
    let tdnet = systems::open("tdnet", &store).await;
    let executions = shelf(&tdnet, "Execution");
    let id = || key([("execution_id", EXECUTION)]);
    executions.create(id()).await.unwrap();
    store.clock().advance(std::time::Duration::from_secs(31 * 86_400));
    assert!(executions.get(id()).await.unwrap().is_none());
    assert!(matches!(executions.update(id()).add("progress", 1).await, Err(Error::Missing { .. })));
    let again = executions.create(id()).await.unwrap();
    assert_eq!(again.fields["progress"], Value::from(0));
    let deleted = executions.delete(id()).await.unwrap();
    assert!(deleted.record().is_some());
    assert!(executions.delete(id()).await.unwrap().is_none());
}

on_each_store! {
    t2_every_violation_is_named_before_anything_is_written,
    t3_a_second_disclosure_of_the_same_id_is_refused,
    t3_concurrent_creates_take_every_number_once,
    t4_the_month_is_that_of_tokyo,
    t6_counters_are_added_to_by_many_at_once,
    t2_a_counter_never_leaves_its_range,
    t7_executions_end_thirty_days_after_creation,
    t8_a_download_url_is_gone_after_a_week,
    t8_a_secret_is_not_in_an_error,
    s4_a_put_says_whether_the_page_changed,
    s4_the_hash_needs_both_of_its_inputs,
    s5_index_attributes_are_right_after_every_partial_update,
    s6_a_new_shop_is_in_its_first_states_and_a_put_keeps_them,
    l1_the_key_of_a_menu,
    l3_the_count_is_the_length_of_the_list_after_every_write,
    l4_a_menu_is_kept_with_what_it_breaks,
    an_older_version_never_overwrites_a_newer_one,
    an_update_of_what_is_not_there_creates_nothing,
    an_equation_holds_under_concurrent_partial_updates,
    what_has_expired_is_absent_and_its_key_is_free,
}
