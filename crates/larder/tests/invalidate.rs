//! Invalidation of families of records, and sweeping: planned, priced, resumable.

#![expect(clippy::unwrap_used, reason = "the helpers of a test fail with the test")]

mod stores;
mod systems;

use std::collections::BTreeMap;
use std::time::Duration;

use larder::jiff::Timestamp;
use larder::{Entry, Error, Fields, Shelf, Store, System, Value};

fn forecast(lat: f64, hour: i64) -> Fields {
    let weather = [
        ("temperature", Value::Float(21.5)),
        ("humidity", Value::Float(60.0)),
        ("windSpeed", Value::Float(3.2)),
        ("rainfallIntensity", Value::Float(0.0)),
        ("weatherDescription", "clear sky".into()),
        ("timestamp", Value::Datetime("2025-11-26T15:00:00".parse().unwrap())),
    ];
    let weather =
        weather.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<BTreeMap<_, _>>();
    let mut fields = place(lat, hour);
    fields.insert("data".to_owned(), Value::Map(weather));
    fields
}

fn place(lat: f64, hour: i64) -> Fields {
    Fields::from([
        ("lat".to_owned(), Value::Float(lat)),
        ("lon".to_owned(), Value::Float(-49.9439)),
        ("at".to_owned(), Value::Instant(Timestamp::from_second(1_764_169_200 + hour * 3600).unwrap())),
    ])
}

/// Two places, so many hours each.
async fn forecasts(store: &Store, hours: i64) -> Shelf<Entry> {
    let weather = systems::open("weather", store).await;
    let shelf = weather.entries("Forecast").unwrap();
    let all = (0..hours).flat_map(|hour| [forecast(-22.7572, hour), forecast(10.5, hour)]);
    for outcome in shelf.put_many(all.collect::<Vec<_>>()).await {
        outcome.unwrap();
    }
    shelf
}

#[test]
fn w10_a_place_is_invalidated_for_all_hours() {
    stores::each(async |store| {
        let forecasts = forecasts(&store, 40).await;
        let plan = forecasts.invalidate().by("lat", -22.7572).by("lon", -49.9439).plan().await.unwrap();
        assert!(plan.is_scan());
        assert_eq!((plan.items(), plan.is_exact()), (40, true));
        let shown = plan.to_string();
        assert!(
            shown.contains("40 items by a scan of") && shown.contains("read unit") && shown.contains('$'),
            "{shown}"
        );
        assert!(forecasts.get(place(-22.7572, 0)).await.unwrap().is_some(), "a plan removes nothing");

        let mut told = 0;
        let done = plan.run_with(|progress| told = progress.removed).await.unwrap();
        assert_eq!((done.removed, told), (40, 40));
        assert!(forecasts.get(place(-22.7572, 0)).await.unwrap().is_none());
        assert!(forecasts.get(place(10.5, 0)).await.unwrap().is_some());
        assert_eq!(plan.run().await.unwrap(), done, "it is over");
    });
}

#[test]
fn w9_all_fields_of_a_key_name_one_item() {
    stores::each(async |store| {
        let forecasts = forecasts(&store, 3).await;
        // 20 minutes into the hour, and a coordinate with more digits than the key keeps.
        let at = Timestamp::from_second(1_764_169_200 + 3600 + 1200).unwrap();
        let plan = forecasts
            .invalidate()
            .by("lat", -22.757_203)
            .by("lon", -49.9439)
            .by("at", at)
            .plan()
            .await
            .unwrap();
        assert!(!plan.is_scan());
        assert_eq!(plan.items(), 1, "{plan}");
        assert_eq!(plan.run().await.unwrap().removed, 1);
        assert!(forecasts.get(place(-22.7572, 1)).await.unwrap().is_none());
        assert!(forecasts.get(place(-22.7572, 2)).await.unwrap().is_some());
    });
}

#[test]
fn w10_one_hour_is_invalidated_for_all_places() {
    stores::each(async |store| {
        let forecasts = forecasts(&store, 3).await;
        let at = Timestamp::from_second(1_764_169_200).unwrap();
        let plan = forecasts.invalidate().by("at", at).plan().await.unwrap();
        assert_eq!(plan.run().await.unwrap().removed, 2);
        assert!(forecasts.get(place(10.5, 0)).await.unwrap().is_none());
        assert!(forecasts.get(place(10.5, 1)).await.unwrap().is_some());
    });
}

#[test]
fn w10_a_scan_needs_a_plan_or_a_word_in_the_schema() {
    stores::run(async {
        let store = Store::memory().await;
        let forecasts = forecasts(&store, 3).await;
        let error = forecasts.invalidate().by("lat", 10.5).run().await.unwrap_err();
        assert!(error.to_string().contains("look at its plan"), "{error}");
        assert!(
            forecasts
                .invalidate()
                .by("lat", 10.5)
                .by("lon", -49.9439)
                .plan()
                .await
                .unwrap()
                .run()
                .await
                .is_ok()
        );

        let keiba = systems::open("keiba", &store).await;
        let error = keiba.entries("Race").unwrap().invalidate().plan().await.unwrap_err();
        assert!(matches!(&error, Error::NotAllowed(text) if text.contains("`scan ask`")), "{error}");
        let error = forecasts.invalidate().by("city", "x".to_owned()).plan().await.unwrap_err();
        assert!(error.to_string().contains("has no field `city`"), "{error}");
        let error = forecasts.invalidate().label("x").plan().await.unwrap_err();
        assert!(error.to_string().contains("has no labels"), "{error}");
    });
}

#[test]
fn w10_a_run_that_fails_goes_on_where_it_stopped() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = Store::memory().await;
        let forecasts = forecasts(&store, 60).await;
        let plan = forecasts.invalidate().plan().await.unwrap();
        store.faults().only(&["BatchWriteItem"]).down();
        tokio::time::pause();
        assert!(plan.run().await.is_err());
        store.faults().up();
        store.faults().reset();
        let done = plan.run().await.unwrap();
        assert_eq!(done.removed, 120);
    });
}

async fn shops(store: &Store) -> System {
    let system = systems::open("shops", store).await;
    for (domain, country) in [("a.example.de", "DE"), ("b.example.de", "DE"), ("c.fr", "FR")] {
        let shop = [("domain", domain), ("country", country)];
        let shop: Fields = shop.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
        system.entries("Shop").unwrap().put(shop).await.unwrap();
        for path in ["1", "2"] {
            let url = format!("https://{domain}/{path}");
            let page = [("domain", domain), ("url", &*url), ("kind", "product"), ("status", "ok")];
            let page: Fields =
                page.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
            system.entries("Page").unwrap().put(page).await.unwrap();
        }
    }
    system
}

#[test]
fn w10_a_query_is_used_where_a_key_or_index_allows_one() {
    stores::each(async |store| {
        let system = shops(&store).await;
        let (shops, pages) = (system.entries("Shop").unwrap(), system.entries("Page").unwrap());
        let plan = pages.invalidate().by("domain", "a.example.de".to_owned()).plan().await.unwrap();
        assert!(!plan.is_scan() && plan.to_string().contains("by a query of its partition"), "{plan}");
        assert_eq!((plan.items(), plan.run().await.unwrap().removed), (2, 2));

        let plan = shops.invalidate().by("country", "DE".to_owned()).plan().await.unwrap();
        assert!(plan.to_string().contains("by a query of by_last_crawled"), "{plan}");
        assert_eq!((plan.items(), plan.run().await.unwrap().removed), (2, 2));

        let left = shops.index("by_last_crawled", ["FR"]).all().await.unwrap();
        assert_eq!(left.len(), 1);
        assert_eq!(pages.within(["b.example.de"]).count().await.unwrap(), 2, "pages are not shops");
    });
}

#[test]
fn records_are_invalidated_by_label() {
    let schema = r#"
system articles
param table_name: string = "articles" from KEIBA_TABLE_NAME
table articles {
  name  table_name
  key   id
  entity Article {
    scan   allow
    label  author, "topic-{topic}"
    id:     string nonempty
    author: string
    topic:  string
  }
}
"#;
    stores::each(async |store| {
        let articles = systems::open_text(schema, &store).await.entries("Article").unwrap();
        for (id, author, topic) in [("1", "ada", "food"), ("2", "bob", "food"), ("3", "ada", "rain")] {
            let article = [("id", id), ("author", author), ("topic", topic)];
            let article: Fields =
                article.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
            articles.put(article).await.unwrap();
        }
        assert_eq!(articles.invalidate().label("topic-food").plan().await.unwrap().items(), 2);
        assert_eq!(articles.invalidate().label("ada").run().await.unwrap().removed, 2);
        assert_eq!(articles.invalidate().run().await.unwrap().removed, 1);
    });
}

#[test]
fn l6_expired_entries_are_swept_and_renewed_ones_stay() {
    stores::each(async |store| {
        let lunch = systems::open("lunch", &store).await;
        let menus = lunch.entries("Menu").unwrap();
        let menu = |week: i64| {
            Fields::from([
                ("restaurant".to_owned(), "niagara".into()),
                ("year".to_owned(), 2025.into()),
                ("week".to_owned(), week.into()),
                ("lunches".to_owned(), Value::List(Vec::new())),
            ])
        };
        for week in 1..=30 {
            menus.put(menu(week)).await.unwrap();
        }
        store.clock().advance(Duration::from_secs(15 * 86400));
        menus.put(menu(1)).await.unwrap();
        let plan = menus.sweep().plan().await.unwrap();
        // A store that removes what has expired by itself may have begun.
        assert!(plan.items() <= 29, "{plan}");
        assert!(plan.run().await.unwrap().removed <= 29);
        let left = menus.index("history", ["niagara"]).even_expired().all().await.unwrap();
        assert_eq!(left.len(), 1);
        assert_eq!(left[0].fields["week"], 1.into());
    });
}
