//! Scans: every record of an entity and nothing else, priced first; and whole items moved from store to store.

#![expect(clippy::unwrap_used, reason = "the helpers of a test fail with the test")]

mod stores;
mod systems;

use std::collections::BTreeSet;

use futures_util::{StreamExt as _, TryStreamExt as _};
use larder::store::ops::{PutItem, WriteOptions};
use larder::{Entry, Error, Fields, Restored, Shelf, Store, Stored, System, Value};
use larder_model::{AttributeValue, Item};

const LIBRARY: &str = r#"
system library
param name: string = "library" from ENV

table library {
  name  "library-{name}"
  key   pk / sk
  ttl   ttl

  entity Book {
    key       "BOOK#{isbn}" / "BOOK"
    ttl       30d
    scan      allow
    oversize  split

    input isbn: string nonempty
    title:      string
    pages:      int in 1..
  }

  entity Loan {
    key  "BOOK#{isbn}" / "LOAN#{number:03}"
    input isbn:   string nonempty
    input number: int in 1..=999
    reader:       string
  }
}

workload { stored 300MB }
"#;

async fn library(store: &Store) -> System {
    systems::open_text(LIBRARY, store).await
}

fn book(isbn: usize, title: &str) -> Fields {
    Fields::from([
        ("isbn".to_owned(), format!("{isbn:04}").as_str().into()),
        ("title".to_owned(), title.into()),
        ("pages".to_owned(), 300.into()),
    ])
}

fn loan(isbn: usize) -> Fields {
    Fields::from([
        ("isbn".to_owned(), format!("{isbn:04}").as_str().into()),
        ("number".to_owned(), 1.into()),
        ("reader".to_owned(), "Ada".into()),
    ])
}

/// So many books, each with a loan.
async fn filled(store: &Store, count: usize) -> (System, Shelf<Entry>) {
    let system = library(store).await;
    let books = system.entries("Book").unwrap();
    for outcome in books.put_many((0..count).map(|at| book(at, "Emma")).collect::<Vec<_>>()).await {
        outcome.unwrap();
    }
    let loans = system.entries("Loan").unwrap();
    for outcome in loans.put_many((0..count).map(loan).collect::<Vec<_>>()).await {
        outcome.unwrap();
    }
    (system, books)
}

/// Writes an item as a program without a schema would.
async fn plant(system: &System, attributes: &[(&str, AttributeValue)]) {
    let item: Item = attributes.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    let tables = system.store().list_tables().await.unwrap();
    let own = system.schema().tables(&Default::default()).unwrap();
    let prefix = own[0].definition.name.as_str().trim_end_matches("library").to_owned();
    // Another test may have its own in the same store.
    let table = tables.into_iter().rfind(|table| table.as_str().starts_with(&prefix)).unwrap();
    let request = PutItem { table, item, options: WriteOptions::default() };
    stores::unguarded(system.store()).put_item(request).await.unwrap();
}

fn s(text: &str) -> AttributeValue {
    AttributeValue::S(text.to_owned())
}

async fn plant_odd_items(system: &System) {
    // Expired so long ago that no store removes it.
    plant(
        system,
        &[
            ("pk", s("BOOK#old")),
            ("sk", s("BOOK")),
            ("title", s("Evelina")),
            ("pages", AttributeValue::from(1)),
            ("ttl", AttributeValue::from(1)),
        ],
    )
    .await;
    plant(system, &[("pk", s("BOOK#bad")), ("sk", s("BOOK")), ("title", AttributeValue::from(7))]).await;
    plant(system, &[("pk", s("SHELF#1")), ("sk", s("BOOK")), ("any", AttributeValue::Null)]).await;
}

fn isbns(books: &[Entry]) -> BTreeSet<String> {
    books.iter().map(|book| book.fields["isbn"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_scan_gives_all_records_of_its_entity_and_no_others() {
    stores::each(async |store| {
        let (_, books) = filled(&store, 60).await;
        let all = books.scan().all().await.unwrap();
        assert_eq!((all.len(), isbns(&all).len()), (60, 60));
        let parallel = books.scan().in_parallel(4).all().await.unwrap();
        assert_eq!(isbns(&parallel), isbns(&all));
        assert_eq!(books.scan().in_parallel(3).limit(7).all().await.unwrap().len(), 7);
        assert_eq!(books.scan().limit(0).all().await.unwrap().len(), 0);
    });
}

#[test]
fn following_cursors_visits_every_record_once() {
    stores::each(async |store| {
        let (_, books) = filled(&store, 25).await;
        let (mut seen, mut scan, mut pages) = (Vec::new(), books.scan().limit(4), 0);
        loop {
            let page = scan.page().await.unwrap();
            assert!(page.items.len() <= 4);
            seen.extend(page.items);
            pages += 1;
            let Some(cursor) = page.cursor else { break };
            scan = books.scan().limit(4).start_at(cursor);
        }
        assert_eq!((seen.len(), isbns(&seen).len()), (25, 25));
        assert!((7..=8).contains(&pages), "{pages} pages");
    });
}

#[test]
fn a_cursor_of_something_else_is_refused() {
    stores::run(async {
        let (_, books) = filled(&Store::memory().await, 1).await;
        for cursor in ["", "nonsense", "AQ"] {
            let error = books.scan().start_at(cursor).page().await.unwrap_err();
            assert!(matches!(error, Error::Cursor { .. }), "{error}");
        }
    });
}

#[test]
fn what_has_expired_is_left_out_unless_it_is_asked_for() {
    stores::each(async |store| {
        let (system, books) = filled(&store, 3).await;
        plant_odd_items(&system).await;
        let count = async |scan: larder::Scan<Entry>| {
            scan.stream().filter(|record| std::future::ready(record.is_ok())).count().await
        };
        assert_eq!(count(books.scan()).await, 3);
        assert_eq!(count(books.scan().even_expired()).await, 4);
    });
}

#[test]
fn a_record_that_cannot_be_read_is_left_out_and_told() {
    stores::each(async |store| {
        let (system, books) = filled(&store, 20).await;
        plant_odd_items(&system).await;
        assert_eq!(books.scan().all().await.unwrap().len(), 20);
        assert_eq!(books.scan().in_parallel(3).all().await.unwrap().len(), 20);
        let page = books.scan().page().await.unwrap();
        assert_eq!((page.items.len(), page.unread.count), (20, 1));
        let first = page.unread.first.as_ref().unwrap();
        assert_eq!(first.key, "BOOK#bad / BOOK");
        assert_eq!(
            page.unread.to_string(),
            "1 record cannot be read: BOOK#bad / BOOK, because `title` does not hold a string"
        );
        assert_eq!(books.stats().unread, 3);
        let told = larder::prometheus([&system]);
        assert!(
            told.contains("larder_unreadable_records_total{system=\"library\",entity=\"Book\"} 3\n"),
            "{told}"
        );

        let error = books.scan().strict().all().await.unwrap_err();
        assert!(matches!(&error, Error::Corrupt { key, .. } if key == "BOOK#bad / BOOK"), "{error}");
        let all: Vec<Result<Entry, Error>> = books.scan().strict().stream().collect().await;
        assert_eq!(all.iter().filter(|record| record.is_err()).count(), 1);
    });
}

#[test]
fn records_over_the_limit_come_whole_and_once() {
    stores::each(async |store| {
        let (_, books) = filled(&store, 2).await;
        let text: String = (0..90_000).map(|at| format!("{at:07x} ")).collect();
        books.put(book(7, &text)).await.unwrap();
        let all = books.scan().all().await.unwrap();
        assert_eq!(all.len(), 3);
        let large = all.iter().find(|book| book.fields["isbn"] == "0007".into()).unwrap();
        assert_eq!(large.fields["title"], Value::from(text.as_str()));
    });
}

#[test]
fn a_scan_is_priced_before_it_reads_on() {
    stores::each(async |store| {
        let (_, books) = filled(&store, 40).await;
        let scan = books.scan();
        let small = scan.explain().await.unwrap();
        assert_eq!((small.items, small.exact), (40, true));
        assert!(small.units.read > 0.0 && small.units.write == 0.0, "{small}");
        assert!(small.to_string().starts_with("40 items by a scan of "), "{small}");

        let text = "x".repeat(90_000);
        for outcome in books.put_many((0..20).map(|at| book(at, &text)).collect::<Vec<_>>()).await {
            outcome.unwrap();
        }
        let large = scan.explain().await.unwrap();
        assert!(!large.exact && large.bytes > 250_000_000, "{large:?}");
        assert!(large.to_string().starts_with("about "), "{large}");
        let few = scan.limit(3).explain().await.unwrap();
        assert!(few.exact && few.items == 3 && few.bytes < 1_000_000, "{few:?}");
    });
}

#[test]
fn the_schema_says_who_may_scan() {
    stores::run(async {
        let store = Store::memory().await;
        let (system, _) = filled(&store, 3).await;
        let loans = system.entries("Loan").unwrap();
        let error = loans.scan().page().await.unwrap_err();
        assert!(error.to_string().contains("`scan ask` or `scan allow` in Loan"), "{error}");
        assert!(loans.scan().explain().await.is_err());
        assert_eq!(loans.scan().at_any_price().all().await.unwrap().len(), 3);

        let weather = systems::open("weather", &store).await;
        let forecasts = weather.entries("Forecast").unwrap();
        assert!(forecasts.scan().all().await.is_err(), "its price has to be looked at");
        assert!(forecasts.scan().explain().await.is_ok());
        assert!(forecasts.scan().at_any_price().all().await.unwrap().is_empty());
    });
}

#[test]
fn a_store_that_fails_ends_a_scan_with_its_error() {
    stores::run(async {
        let store = Store::memory().await;
        let (_, books) = filled(&store, 3).await;
        store.faults().only(&["Scan"]).down();
        let all: Vec<Result<Entry, Error>> = books.scan().in_parallel(2).stream().collect().await;
        assert_eq!(all.len(), 2);
        assert!(all.iter().all(|outcome| matches!(outcome, Err(Error::Store(_)))), "{all:?}");
    });
}

async fn dumped(system: &System) -> Vec<Stored> {
    let mut items: Vec<Stored> = system.dump("library").try_collect().await.unwrap();
    items.sort_by_key(|stored| format!("{:?}{:?}", stored.item.get("pk"), stored.item.get("sk")));
    items
}

#[test]
fn what_is_dumped_and_restored_dumps_the_same_again() {
    stores::each(async |store| {
        let (system, books) = filled(&store, 5).await;
        plant_odd_items(&system).await;
        let text: String = (0..90_000).map(|at| format!("{at:07x} ")).collect();
        books.put(book(7, &text)).await.unwrap();
        let items = dumped(&system).await;
        assert_eq!(items.len(), 5 + 5 + 3 + 1);
        assert_eq!(items.iter().filter(|stored| stored.entity.is_none()).count(), 1);

        let other = library(&store).await;
        stores::unguarded(&store);
        for (outcomes, wanted) in [
            (other.restore(items.clone()).await, Restored::Created),
            (other.restore(items.clone()).await, Restored::Unchanged),
        ] {
            assert!(
                outcomes.iter().all(|outcome| matches!(outcome, Ok(done) if *done == wanted)),
                "{outcomes:?}"
            );
        }
        assert_eq!(dumped(&other).await, items);
        let whole = other.entries("Book").unwrap().get(book(7, "")).await.unwrap().unwrap();
        assert_eq!(whole.fields["title"], Value::from(text.as_str()));
    });
}

#[test]
fn restoring_over_a_record_in_parts_leaves_none_of_them() {
    stores::each(async |store| {
        let system = library(&store).await;
        let books = system.entries("Book").unwrap();
        books.put(book(1, "short")).await.unwrap();
        let items = dumped(&system).await;
        let text: String = (0..90_000).map(|at| format!("{at:07x} ")).collect();
        books.put(book(1, &text)).await.unwrap();

        let outcomes = system.restore(items.clone()).await;
        assert!(matches!(outcomes[..], [Ok(Restored::Overwritten)]), "{outcomes:?}");
        assert_eq!(dumped(&system).await, items);
        assert_eq!(books.scan().explain().await.unwrap().bytes, 4096, "no part is left to be read");
    });
}

#[test]
fn what_has_no_key_of_its_entity_is_not_restored() {
    stores::run(async {
        let system = library(&Store::memory().await).await;
        let item = |pk: &str| Item::from_iter([("pk".to_owned(), s(pk)), ("sk".to_owned(), s("BOOK"))]);
        let of = |entity: &str, item: Item| Stored {
            table: "library".to_owned(),
            entity: Some(entity.to_owned()),
            item,
        };
        let outcomes = system
            .restore([
                of("Loan", item("BOOK#1")),
                of("Book", Item::from_iter([("pk".to_owned(), s("BOOK#1"))])),
                of("Film", item("BOOK#1")),
                of("Book", item("BOOK#1")),
            ])
            .await;
        let told: Vec<String> = outcomes
            .iter()
            .map(|outcome| outcome.as_ref().map_or_else(ToString::to_string, |done| format!("{done:?}")))
            .collect();
        assert_eq!(
            told,
            [
                "BOOK#1 / BOOK is no key of Loan",
                "the key `sk` is missing, or is not of type S",
                "library has no table `library` with Film in it",
                "Created",
            ]
        );
    });
}
