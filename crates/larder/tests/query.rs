//! Queries by index and by the table's own key.

#![expect(clippy::unwrap_used, reason = "the helpers of a test fail with the test")]

mod stores;
mod systems;

use std::pin::pin;
use std::time::Duration;

use futures_util::TryStreamExt as _;
use larder::jiff::Timestamp;
use larder::store::ops::{GetItem, PutItem, ReturnCapacity, WriteOptions};
use larder::{Entry, Error, Fields, Query, Shelf, Store, System, Value};
use proptest::prelude::*;

fn fields<const N: usize>(pairs: [(&str, Value); N]) -> Fields {
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn instant(text: &str) -> Value {
    Value::Instant(text.parse::<Timestamp>().unwrap())
}

fn shelf(system: &System, entity: &str) -> Shelf<Entry> {
    system.entries(entity).unwrap()
}

fn texts(entries: &[Entry], field: &str) -> Vec<String> {
    entries.iter().map(|entry| entry.fields[field].as_str().unwrap().to_owned()).collect()
}

/// Disclosures of one company, an hour apart, from the start of February in Tokyo.
async fn disclosures(store: &Store, count: i64) -> Shelf<Entry> {
    let tdnet = systems::open("tdnet", store).await;
    let shelf = shelf(&tdnet, "Disclosure");
    let start: Timestamp = "2024-01-31T15:00:00Z".parse().unwrap();
    let drafts = (0..count).map(|hour| {
        let at = Timestamp::from_second(start.as_second() + hour * 3600).unwrap();
        fields([
            ("seq", Value::from(hour % 999 + 1)),
            ("company_code", "7203".into()),
            ("company_name", "Toyota Motor".into()),
            ("disclosure_type", "earnings".into()),
            ("title", format!("{hour:03}").as_str().into()),
            ("disclosed_at", Value::Instant(at)),
            ("downloaded_at", Value::Instant(at)),
        ])
    });
    for outcome in shelf.put_many(drafts.collect::<Vec<_>>()).await {
        outcome.unwrap();
    }
    shelf
}

#[test]
fn t5_disclosures_come_in_time_order_both_ways() {
    stores::each(async |store| {
        let shelf = disclosures(&store, 10).await;
        let by_month = || shelf.index("by_month", ["2024-02"]);
        let oldest = texts(&by_month().all().await.unwrap(), "title");
        assert_eq!(oldest, (0..10).map(|hour| format!("{hour:03}")).collect::<Vec<_>>());
        let newest = texts(&by_month().newest_first().limit(3).all().await.unwrap(), "title");
        assert_eq!(newest, ["009", "008", "007"]);
        assert_eq!(shelf.index("by_month", ["2024-01"]).all().await.unwrap(), []);
        let by_company = shelf.index_by("by_company", fields([("company_code", "7203".into())]));
        assert_eq!(by_company.count().await.unwrap(), 10);
    });
}

#[test]
fn t5_ranges_include_their_ends() {
    stores::each(async |store| {
        let shelf = disclosures(&store, 5).await;
        let by_company = || shelf.index("by_company", ["7203"]);
        let (second, fourth) = (instant("2024-01-31T16:00:00Z"), instant("2024-01-31T18:00:00Z"));
        let cases: [(Query<Entry>, &[&str]); 5] = [
            (by_company().at(second.clone()), &["001"]),
            (by_company().from(fourth.clone()), &["003", "004"]),
            (by_company().until(second.clone()), &["000", "001"]),
            (by_company().between(second, fourth), &["001", "002", "003"]),
            (by_company().begins_with("2024-01-31T1"), &["000", "001", "002", "003", "004"]),
        ];
        for (query, titles) in cases {
            assert_eq!(texts(&query.clone().all().await.unwrap(), "title"), titles);
            assert_eq!(query.count().await.unwrap(), titles.len());
        }
    });
}

#[test]
fn t5_pages_follow_each_other_by_cursor() {
    stores::each(async |store| {
        let shelf = disclosures(&store, 25).await;
        for newest_first in [false, true] {
            let mut titles = Vec::new();
            let mut cursor: Option<String> = None;
            for _ in 0..10 {
                let mut query = shelf.index("by_month", ["2024-02"]).limit(7);
                if newest_first {
                    query = query.newest_first();
                }
                if let Some(cursor) = &cursor {
                    query = query.start_at(cursor);
                }
                let page = query.page().await.unwrap();
                titles.extend(texts(&page.items, "title"));
                cursor = page.cursor;
                if cursor.is_none() {
                    break;
                }
            }
            let mut all: Vec<String> = (0..25).map(|hour| format!("{hour:03}")).collect();
            if newest_first {
                all.reverse();
            }
            assert_eq!(titles, all);
        }
    });
}

#[test]
fn t5_a_stream_gives_all_and_ends_at_the_limit() {
    stores::each(async |store| {
        let shelf = disclosures(&store, 12).await;
        let mut stream = pin!(shelf.index("by_month", ["2024-02"]).stream());
        let mut titles = Vec::new();
        while let Some(entry) = stream.try_next().await.unwrap() {
            titles.push(entry.fields["title"].as_str().unwrap().to_owned());
        }
        assert_eq!(titles.len(), 12);
        let limited = shelf.index("by_month", ["2024-02"]).limit(5).stream();
        assert_eq!(limited.try_collect::<Vec<_>>().await.unwrap().len(), 5);
    });
}

#[test]
fn a_cursor_of_something_else_is_refused() {
    stores::run(async {
        let store = Store::memory().await;
        let shelf = disclosures(&store, 5).await;
        let cursor = shelf.index("by_month", ["2024-02"]).limit(2).page().await.unwrap().cursor.unwrap();
        let elsewhere = [
            shelf.index("by_company", ["7203"]).start_at(&cursor),
            shelf.index("by_month", ["2024-03"]).start_at(&cursor),
            shelf.index("by_month", ["2024-02"]).start_at("nonsense!"),
            shelf.index("by_month", ["2024-02"]).start_at(&cursor[1..]),
            shelf.index("by_month", ["2024-02"]).start_at(""),
        ];
        for query in elsewhere {
            let error = query.page().await.unwrap_err();
            assert!(matches!(error, Error::Cursor { .. }), "{error}");
        }
    });
}

#[test]
fn only_what_an_index_answers_can_be_asked() {
    stores::run(async {
        let store = Store::memory().await;
        let shelf = disclosures(&store, 1).await;
        let cases: [(Query<Entry>, &str); 6] = [
            (
                shelf.index("by_title", ["x"]),
                "no index `by_title` holds Disclosure; those that do: by_company, by_month",
            ),
            (shelf.index("by_month", [""; 0]), "`date_partition` is missing"),
            (shelf.index("by_month", ["a", "b"]), "named by date_partition alone"),
            (shelf.index("by_month", ["2024-02"]).consistent(), "only the table itself"),
            (
                shelf.index("by_month", ["2024-02"]).from(5),
                "`disclosed_at` is of type instant, and this value is not",
            ),
            (shelf.within(["20240201_7203_001"]).at("x"), "has no sort key"),
        ];
        for (query, message) in cases {
            let error = query.all().await.unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    });
}

#[test]
fn an_explanation_shows_keys_price_and_request() {
    stores::run(async {
        let store = Store::memory().await;
        let shelf = disclosures(&store, 0).await;
        let explained = shelf.index("by_month", ["2024-02"]).newest_first().limit(20).explain().unwrap();
        assert_eq!(explained.keys, "date_partition = \"2024-02\"");
        assert_eq!(explained.index.as_deref(), Some("GSI_DatePartition"));
        assert!(explained.units.read > 0.0);
        let request: serde_json::Value = serde_json::from_str(&explained.request).unwrap();
        assert_eq!(request["ScanIndexForward"], false);
        assert_eq!(request["ExpressionAttributeValues"][":v0"]["S"], "2024-02");
        assert_eq!(store.requests().count("Query"), 0, "nothing was asked");
    });
}

async fn shops(store: &Store) -> System {
    let system = systems::open("shops", store).await;
    let shops = shelf(&system, "Shop");
    for (domain, country) in [("a.example.de", "DE"), ("b.example.de", "DE"), ("www.example.co.uk", "GB")] {
        shops.put(fields([("domain", domain.into()), ("country", country.into())])).await.unwrap();
    }
    shops.put(fields([("domain", "nowhere.org".into())])).await.unwrap();
    let pages = shelf(&system, "Page");
    for (path, kind) in [("a/1", "product"), ("a/2", "product"), ("b", "category")] {
        let url = format!("https://a.example.de/{path}");
        pages.put(page("a.example.de", &url, kind)).await.unwrap();
    }
    system
}

fn page(domain: &str, url: &str, kind: &str) -> Fields {
    fields([("domain", domain.into()), ("url", url.into()), ("kind", kind.into()), ("status", "ok".into())])
}

#[test]
fn s5_indexes_hold_what_they_project_and_leave_out_what_lacks_their_keys() {
    stores::each(async |store| {
        let system = shops(&store).await;
        let shops = shelf(&system, "Shop");
        let german = shops.index("by_last_crawled", ["DE"]).all().await.unwrap();
        let mut domains = texts(&german, "domain");
        domains.sort_unstable();
        assert_eq!(domains, ["a.example.de", "b.example.de"]);
        assert!(!german[0].fields.contains_key("core_domain_name"), "it is not projected");
        assert!(shops.index("by_last_crawled", ["FR"]).all().await.unwrap().is_empty());
        let started = instant("2024-05-01T00:00:00Z");
        let key = fields([("domain", "a.example.de".into())]);
        shops.update(key).set_value("last_crawled_start", started.clone()).await.unwrap();
        let german = shops.index("by_last_crawled", ["DE"]).begins_with("NEVER#").all().await.unwrap();
        let changed = german.iter().find(|shop| shop.fields["domain"] == "a.example.de".into()).unwrap();
        assert_eq!(changed.fields["last_crawled_start"], started);
    });
}

#[test]
fn s11_pages_of_one_type_within_a_shop() {
    stores::each(async |store| {
        let system = shops(&store).await;
        let pages = shelf(&system, "Page");
        let products = pages.index("by_type", ["a.example.de"]).at("product").all().await.unwrap();
        let mut urls = texts(&products, "url");
        urls.sort_unstable();
        assert_eq!(urls, ["https://a.example.de/a/1", "https://a.example.de/a/2"]);
        let below =
            pages.within(["a.example.de"]).begins_with("https://a.example.de/a/").all().await.unwrap();
        assert_eq!(below.len(), 2);
        let all = pages.within(["a.example.de"]).consistent().newest_first().all().await.unwrap();
        assert_eq!(texts(&all, "kind"), ["category", "product", "product"], "the shop itself is no page");
        let from = pages.within(["a.example.de"]).from("https://a.example.de/a/2").all().await.unwrap();
        assert_eq!(from.len(), 2);
        let until = pages.within(["a.example.de"]).until("https://a.example.de/a/2").all().await.unwrap();
        assert_eq!(until.len(), 2);
    });
}

#[test]
fn s12_domains_that_share_a_core_domain_name() {
    stores::each(async |store| {
        let system = shops(&store).await;
        let siblings = shelf(&system, "Shop").index("siblings", ["example"]).all().await.unwrap();
        assert_eq!(texts(&siblings, "domain"), ["a.example.de", "b.example.de", "www.example.co.uk"]);
    });
}

#[test]
fn s10_a_url_too_long_for_a_key_is_found_by_its_url() {
    stores::each(async |store| {
        let system = shops(&store).await;
        let pages = shelf(&system, "Page");
        let long = |end: &str| format!("https://a.example.de/{}{end}", "x".repeat(1500));
        for end in ["1", "2"] {
            pages.put(page("a.example.de", &long(end), "product")).await.unwrap();
        }
        for end in ["1", "2"] {
            let key = fields([("domain", "a.example.de".into()), ("url", long(end).as_str().into())]);
            let found = pages.get(key).await.unwrap().expect("it has an item of its own");
            assert_eq!(found.fields["url"], long(end).as_str().into());
        }
        let all = pages.within(["a.example.de"]).all().await.unwrap();
        assert_eq!(all.len(), 5);
        assert!(
            all.iter().any(|page| page.fields["url"] == long("2").as_str().into()),
            "URLs come back whole"
        );
    });
}

fn menu(restaurant: &str, week: i64) -> Fields {
    let lunch = [
        ("name", Value::from("Pannkakor")),
        ("price", Value::Number(95.into())),
        ("weekday", "torsdag".into()),
        ("week", Value::from(week)),
        ("place", restaurant.into()),
    ];
    let lunch = Value::Map(lunch.into_iter().map(|(name, value)| (name.to_owned(), value)).collect());
    fields([
        ("restaurant", restaurant.into()),
        ("year", 2025.into()),
        ("week", week.into()),
        ("lunches", Value::List(vec![lunch])),
    ])
}

#[test]
fn l5_a_restaurants_history_comes_newest_first() {
    stores::each(async |store| {
        let lunch = systems::open("lunch", &store).await;
        let menus = shelf(&lunch, "Menu");
        for week in [1, 2, 3] {
            menus.put(menu("niagara", week)).await.unwrap();
            store.clock().advance(Duration::from_secs(3600));
        }
        menus.put(menu("other", 1)).await.unwrap();
        let history = menus.index("history", ["niagara"]).newest_first().all().await.unwrap();
        let weeks: Vec<_> = history.iter().map(|menu| menu.fields["week"].as_i64().unwrap()).collect();
        assert_eq!(weeks, [3, 2, 1]);
    });
}

#[test]
fn what_has_expired_is_left_out_unless_asked_for() {
    stores::run(async {
        let store = Store::memory().await;
        let lunch = systems::open("lunch", &store).await;
        let menus = shelf(&lunch, "Menu");
        menus.put(menu("niagara", 1)).await.unwrap();
        store.clock().advance(Duration::from_secs(14 * 86400 - 60));
        menus.put(menu("niagara", 2)).await.unwrap();
        store.clock().advance(Duration::from_secs(1));
        menus.put(menu("niagara", 3)).await.unwrap();
        store.clock().advance(Duration::from_secs(120));
        let history = || menus.index("history", ["niagara"]);
        assert_eq!(history().count().await.unwrap(), 2);
        assert_eq!(history().limit(1).page().await.unwrap().items[0].fields["week"], 2.into());
        assert_eq!(history().all().await.unwrap().len(), 2);
        // The store may have removed it by now; it is never given twice.
        assert!(history().even_expired().count().await.unwrap() <= 3);
    });
}

#[test]
fn an_index_that_does_not_show_the_ttl_leaves_out_what_has_expired() {
    let schema = r#"
system notes
param table_name: string = "notes" from KEIBA_TABLE_NAME
table notes {
  name  table_name
  key   id
  ttl   ends
  index ByTopic as by_topic  topic / id  project keys
  entity Note {
    ttl 1h
    id:    string nonempty
    topic: string nonempty
  }
}
"#;
    stores::each(async |store| {
        let notes = shelf(&systems::open_text(schema, &store).await, "Note");
        let note = |id: &str| fields([("id", id.into()), ("topic", "food".into())]);
        notes.put(note("old")).await.unwrap();
        store.clock().advance(Duration::from_secs(3000));
        notes.put(note("new")).await.unwrap();
        store.clock().advance(Duration::from_secs(1200));
        let found = notes.index("by_topic", ["food"]).all().await.unwrap();
        assert_eq!(texts(&found, "id"), ["new"]);
        assert_eq!(notes.index("by_topic", ["food"]).count().await.unwrap(), 1);
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    /// Whatever a client sends back as a cursor, the answer is a page or an error.
    #[test]
    fn any_text_is_a_cursor_or_refused(text in ".{0,200}", bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        stores::run(async {
            let store = Store::memory().await;
            let shelf = disclosures(&store, 3).await;
            let real = shelf.index("by_month", ["2024-02"]).limit(1).page().await.unwrap().cursor.unwrap();
            let mut changed: Vec<u8> = real.into_bytes();
            for (at, byte) in bytes.iter().enumerate() {
                let place = at * 7 % changed.len();
                changed[place] = b'A' + byte % 58;
            }
            for cursor in [text.clone(), String::from_utf8_lossy(&changed).into_owned()] {
                match shelf.index("by_month", ["2024-02"]).start_at(&cursor).page().await {
                    Ok(page) => assert!(page.items.len() <= 3),
                    Err(error) => assert!(matches!(error, Error::Cursor { .. } | Error::Store(_)), "{error}"),
                }
            }
        });
    }
}

/// Disclosures as other programs write their moments: without a fraction, as JavaScript and as Python do.
#[test]
fn t14_ranges_find_every_form_that_an_instant_has() {
    stores::each(async |store| {
        let tdnet = systems::open("tdnet", &store).await;
        let shelf = shelf(&tdnet, "Disclosure");
        let forms = [
            "2024-01-31T14:59:59.999Z",
            "2024-01-31T15:00:00Z",
            "2024-01-31T15:00:00.000Z",
            "2024-01-31T15:00:00.123Z",
            "2024-01-31T15:00:00.123456+00:00",
            "2024-01-31T15:00:01+00:00",
            "2024-01-31T15:00:02Z",
        ];
        let draft = |seq: i64| {
            fields([
                ("seq", Value::from(seq)),
                ("company_code", "7203".into()),
                ("company_name", "Toyota Motor".into()),
                ("disclosure_type", "earnings".into()),
                ("title", "A title".into()),
                ("disclosed_at", instant("2024-01-31T15:00:00Z")),
                ("downloaded_at", instant("2024-01-31T15:00:00.5Z")),
            ])
        };
        for (form, seq) in forms.iter().zip(1..) {
            let made = shelf.create(draft(seq)).await.unwrap();
            assert_eq!(made.fields["downloaded_at"], instant("2024-01-31T15:00:00.5Z"), "it is kept whole");
            let tables = store.list_tables().await.unwrap();
            let table = tables.into_iter().rfind(|table| table.as_str().contains("disclosures")).unwrap();
            let request = GetItem {
                table: table.clone(),
                key: made.kept().key().clone(),
                projection: None,
                consistent: true,
                capacity: ReturnCapacity::None,
            };
            let mut item = store.get_item(request).await.unwrap().unwrap();
            item.insert("disclosed_at", *form);
            let request = PutItem { table, item, options: WriteOptions::default() };
            stores::unguarded(&store).put_item(request).await.unwrap();
        }
        let by_company = || shelf.index("by_company", ["7203"]).strict();
        let at = |text: &str| instant(text);
        let count = async |query: Query<Entry>| query.all().await.unwrap().len();
        assert_eq!(count(by_company()).await, 7);
        assert_eq!(count(by_company().at(at("2024-01-31T15:00:00Z"))).await, 2);
        assert_eq!(count(by_company().at(at("2024-01-31T15:00:00.123Z"))).await, 1);
        assert_eq!(count(by_company().from(at("2024-01-31T15:00:00Z"))).await, 6);
        assert_eq!(count(by_company().until(at("2024-01-31T15:00:00Z"))).await, 3);
        assert_eq!(count(by_company().from(at("2024-01-31T15:00:00.1Z"))).await, 4);
        let second = by_company().between(at("2024-01-31T15:00:00Z"), at("2024-01-31T15:00:01Z"));
        assert_eq!(count(second.clone()).await, 5);
        assert_eq!(second.clone().count().await.unwrap(), 5);
        let page = second.limit(3).page().await.unwrap();
        assert_eq!(page.items.len(), 3);
    });
}

#[test]
fn t14_an_instant_is_not_cut_silently() {
    stores::run(async {
        let store = Store::memory().await;
        let shelf = disclosures(&store, 1).await;
        let mut draft: Fields = shelf.index("by_company", ["7203"]).all().await.unwrap().remove(0).fields;
        draft.retain(|name, _| {
            [
                "seq",
                "company_code",
                "company_name",
                "disclosure_type",
                "title",
                "disclosed_at",
                "downloaded_at",
            ]
            .contains(&name.as_str())
        });
        draft.insert("disclosed_at".to_owned(), instant("2024-01-31T15:00:00.123Z"));
        let error = shelf.put(draft).await.unwrap_err().to_string();
        assert!(
            error.contains("Disclosure.disclosed_at: must be no finer than instant tells apart, and it is 2024-01-31T15:00:00.123Z"),
            "{error}"
        );
    });
}

#[test]
fn a_filter_on_what_cannot_be_seen_is_refused_instead_of_answered_wrongly() {
    stores::run(async {
        let text = r#"
system kept

table notes {
  key   pk
  index by_owner_i as by_owner  owner  project keys

  entity Note {
    key "N#{id}"
    id:    string
    owner: string? nonempty
    title: string?
  }
}

table packed {
  key pk / sk

  entity Long {
    key "L#{id}" / "M"
    compress over 1KB
    id:   string
    text: string?
  }
}
"#;
        let system = systems::open_text(text, &Store::memory().await).await;
        let there = |name: &str| larder::store::Condition::Exists(larder_model::Path::attribute(name));
        let (notes, long) = (shelf(&system, "Note"), shelf(&system, "Long"));
        for (refused, parts) in [
            (
                notes.index("by_owner", ["ann"]).filter(there("title")).page().await.err(),
                ["`title`", "by_owner"],
            ),
            (long.within(["1"]).filter(there("text")).page().await.err(), ["`text`", "packed"]),
            (long.scan().at_any_price().filter(there("text")).page().await.err(), ["`text`", "packed"]),
        ] {
            let told = refused.map(|error| error.to_string()).unwrap_or_default();
            assert!(parts.iter().all(|part| told.contains(part)), "{told}");
        }
        notes.index("by_owner", ["ann"]).filter(there("pk")).page().await.unwrap();
        notes.scan().at_any_price().filter(there("title")).page().await.unwrap();
        long.scan().at_any_price().filter(there("sk")).page().await.unwrap();
    });
}
