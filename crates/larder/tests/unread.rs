//! What another program wrote and nobody can read: it hides no other record, is told, and is the same for everyone.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

#[macro_use]
mod stores;
mod systems;

use futures_util::TryStreamExt as _;
use larder::store::ops::{GetItem, PutItem, ReturnCapacity, WriteOptions};
use larder::{Deleted, Entry, Error, Fields, Store, Value};
use larder_model::{AttributeValue, Item, TableName};
use shops::{CrawlState, NewShop, Shops};

larder::schema!("schemas/shops.larder");

fn text(text: &str) -> AttributeValue {
    AttributeValue::S(text.to_owned())
}

/// Shops in a table of their own.
struct Place {
    shops: Shops,
    table: TableName,
}

impl std::ops::Deref for Place {
    type Target = Shops;

    fn deref(&self) -> &Shops {
        &self.shops
    }
}

async fn open(store: Store) -> Place {
    let environment = systems::environment();
    let table = TableName::new(environment["DYNAMODB_TABLE_NAME"].as_str()).unwrap();
    let shops = Shops::open_with(store, environment).await.unwrap();
    shops.provision().await.unwrap();
    Place { shops, table }
}

async fn write(place: &Place, item: Item) {
    let request = PutItem { table: place.table.clone(), item, options: WriteOptions::default() };
    stores::unguarded(place.store()).put_item(request).await.unwrap();
}

async fn stored(place: &Place, domain: &str) -> Option<Item> {
    let key = Item::from_iter([
        ("pk".to_owned(), text(&format!("SHOP#{domain}"))),
        ("sk".to_owned(), text("META#")),
    ]);
    let (table, capacity) = (place.table.clone(), ReturnCapacity::None);
    let request = GetItem { table, key, projection: None, consistent: true, capacity };
    place.store().get_item(request).await.unwrap()
}

/// Three German shops that were never crawled; of the second another program wrote a name that is a number.
async fn open_shops(store: Store) -> Place {
    let shops = open(store).await;
    for domain in ["a.de", "b.de", "c.de"] {
        let shop = NewShop { country: Some("DE".to_owned()), ..NewShop::new(domain) };
        shops.shops().create(shop).await.unwrap();
    }
    let mut bad = stored(&shops, "b.de").await.unwrap();
    bad.insert("shop_name", 7);
    write(&shops, bad).await;
    shops
}

async fn s16_due_leaves_out_what_cannot_be_read(store: Store) {
    let shops = open_shops(store).await;
    let due = shops.crawl().due("DE").await.unwrap();
    let mut domains: Vec<&str> = due.iter().map(|shop| &*shop.domain).collect();
    domains.sort_unstable();
    assert_eq!(domains, ["a.de", "c.de"]);
    let (due, unread) = shops.crawl().due("DE").with_unread().await.unwrap();
    assert_eq!((due.len(), unread.count), (2, 1));
    let first = unread.first.unwrap();
    assert_eq!(first.key, "SHOP#b.de / META#");
    assert_eq!(first.why, "`shop_name` does not hold a string");
    let error = shops.crawl().due("DE").strict().await.unwrap_err();
    assert!(matches!(error, Error::Corrupt { .. }), "{error}");
}

async fn s16_a_state_that_is_none_is_told_and_not_passed_over_in_silence(store: Store) {
    let shops = open_shops(store).await;
    // As JavaScript's `toISOString()` writes a moment; the schema writes whole seconds.
    let mut odd = stored(&shops, "c.de").await.unwrap();
    odd.insert("gsi2_sk", "DONE#2020-01-12T12:00:00.000Z");
    write(&shops, odd).await;
    let (due, unread) = shops.crawl().due("DE").with_unread().await.unwrap();
    assert_eq!((due.len(), unread.count), (1, 2));
    let (in_done, unread) = shops.crawl().in_state(CrawlState::Done).group("DE").with_unread().await.unwrap();
    assert_eq!((in_done.len(), unread.count), (0, 1));
    let first = unread.first.unwrap();
    assert_eq!(first.key, "SHOP#c.de / META#");
    assert_eq!(first.why, "`gsi2_sk` holds \"DONE#2020-01-12T12:00:00.000Z\", which is no state of crawl");
    let mut claims = shops.crawl().claim("DE").await.unwrap();
    let mut worked = 0;
    while let Some(lease) = claims.next().await.unwrap() {
        assert_eq!(lease.domain, "a.de");
        lease.finish().await.unwrap();
        worked += 1;
    }
    assert_eq!((worked, claims.unread().count), (1, 2));
}

async fn s16_a_worker_passes_over_what_it_cannot_read(store: Store) {
    let shops = open_shops(store).await;
    let mut claims = shops.crawl().claim("DE").await.unwrap();
    let mut worked = Vec::new();
    while let Some(lease) = claims.next().await.unwrap() {
        worked.push(lease.domain.clone());
        lease.finish().await.unwrap();
    }
    worked.sort_unstable();
    assert_eq!(worked, ["a.de", "c.de"]);
    assert_eq!(claims.unread().count, 1);
    assert_eq!(shops.shops().stats().unread, 1);
    // It is left as it is: nobody holds it, and it does not count as tried.
    let item = stored(&shops, "b.de").await.unwrap();
    assert_eq!(item.get("gsi2_sk"), Some(&text("NEVER#")));
    assert!(!item.contains("crawl_owner") && !item.contains("crawl_attempts"), "{item:?}");

    let mut claims = shops.crawl().claim("DE").strict().await.unwrap();
    let error = claims.next().await.unwrap_err();
    assert!(matches!(&error, Error::Corrupt { key, .. } if key == "SHOP#b.de / META#"), "{error}");
    assert!(shops.crawl().hold("b.de").await.is_err());
    assert_eq!(stored(&shops, "b.de").await.unwrap(), item, "an error changes nothing");
}

async fn s16_one_bad_page_hides_no_other(store: Store) {
    let shops = open(store).await;
    for url in ["https://a.de/1", "https://a.de/2", "https://a.de/3", "https://a.de/4"] {
        let page = shops::NewPage {
            domain: "a.de".to_owned(),
            url: url.to_owned(),
            kind: "product".to_owned(),
            status: "on sale".to_owned(),
            price: None,
        };
        shops.pages().put(page).await.unwrap();
    }
    let item =
        [("pk", text("SHOP#a.de")), ("sk", text("URL#https://a.de/2")), ("url", text("https://a.de/2"))];
    let item = item.into_iter().chain([("gsi1_pk", text("SHOP#a.de")), ("gsi1_sk", text("product"))]);
    write(&shops, item.map(|(name, value)| (name.to_owned(), value)).collect()).await;

    let urls = |pages: Vec<shops::Page>| pages.into_iter().map(|page| page.url).collect::<Vec<_>>();
    let whole = ["https://a.de/1", "https://a.de/3", "https://a.de/4"];
    let within = || shops.pages().within("a.de");
    assert_eq!(urls(within().all().await.unwrap()), whole);
    assert_eq!(urls(within().stream().try_collect().await.unwrap()), whole);
    assert_eq!(urls(shops.pages().by_type("a.de").all().await.unwrap()).len(), 3);
    // A limit counts what is given, and a cursor goes on behind it.
    let page = within().limit(2).page().await.unwrap();
    assert_eq!(page.unread.count, 1);
    assert_eq!(urls(page.items), whole[..2]);
    let rest = within().start_at(page.cursor.unwrap()).page().await.unwrap();
    assert!(rest.unread.is_empty());
    assert_eq!(urls(rest.items), whole[2..]);
    for error in [within().strict().all().await.err(), within().strict().page().await.err()] {
        let error = error.unwrap();
        assert_eq!(
            error.to_string(),
            "Page SHOP#a.de / URL#https://a.de/2 cannot be read: `type` is missing"
        );
    }
    let gathered = shops.shop_with_pages().get("a.de").await.unwrap().unwrap();
    assert_eq!(gathered.pages.len(), 3);
}

async fn everyone_agrees_on_what_can_be_read(store: Store) {
    let shops = open_shops(store).await;
    let whole = stored(&shops, "a.de").await.unwrap();
    let changes: [(&str, Option<AttributeValue>, bool); 7] = [
        ("shop_name", Some(text("A")), true),
        ("domain", None, true), // the key has it
        ("domain", Some(7.into()), false),
        ("last_crawled_end", Some(text("yesterday")), false),
        ("unheard_of", Some(7.into()), true),
        ("core_domain_name", None, true),
        ("gsi4_sk", None, true), // an equation has it
    ];
    for (name, value, readable) in changes {
        let mut item = whole.clone();
        match value {
            Some(value) => drop(item.insert(name, value)),
            None => drop(item.remove(name)),
        }
        write(&shops, item.clone()).await;
        let entries = shops.entries("Shop").unwrap();
        let key = Fields::from([("domain".to_owned(), Value::from("a.de"))]);
        let typed = shops.shops().look("a.de").await;
        let untyped = entries.look(key.clone()).await;
        assert_eq!(matches!(typed, larder::Look::Hit(_)), readable, "{name} {typed:?}");
        assert_eq!(matches!(untyped, larder::Look::Hit(_)), readable, "{name} {untyped:?}");
        assert_eq!(shops.shops().read_stored(&item).is_ok(), readable, "{name}");
        let scanned: Vec<Entry> = entries.scan().at_any_price().all().await.unwrap();
        assert_eq!(scanned.len(), if readable { 2 } else { 1 }, "{name}");
        let census = shops.census("data", |_| ()).await.unwrap().unwrap();
        assert_eq!(census.entities["Shop"].items, if readable { 2 } else { 1 }, "{name}");
    }
}

async fn a_delete_says_what_it_did(store: Store) {
    let shops = open_shops(store).await;
    let deleted = shops.shops().delete("b.de").await.unwrap();
    assert!(matches!(&deleted, Deleted::Unreadable(Error::Corrupt { .. })), "{deleted:?}");
    assert!(stored(&shops, "b.de").await.is_none());
    assert!(matches!(shops.shops().delete("b.de").await.unwrap(), Deleted::Nothing));
    assert!(
        matches!(shops.shops().delete("a.de").await.unwrap(), Deleted::Record(shop) if shop.domain == "a.de")
    );
}

on_each_store! {
    s16_due_leaves_out_what_cannot_be_read,
    s16_a_worker_passes_over_what_it_cannot_read,
    s16_a_state_that_is_none_is_told_and_not_passed_over_in_silence,
    s16_one_bad_page_hides_no_other,
    everyone_agrees_on_what_can_be_read,
    a_delete_says_what_it_did,
}
