//! The cache: what is asked of whom, what is given when something fails, and what is stored.

#![allow(clippy::unwrap_used, reason = "a test that fails may panic")]

mod sources;
#[macro_use]
mod stores;
mod systems;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use larder::store::Fault;
use larder::store::ops::{PutItem, Request, WriteOptions};
use larder::{Error, Fields, Known, Load, Look, Origin, Permanent, StaleReason, Store, Value, Why};
use larder_model::{AttributeValue, Item};
use tokio::sync::Notify;

use sources::{
    Cause, Source, fields, forecast_data, forecast_key, page_key, pages, race_data, race_key, shelf, stored,
    text_of,
};

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn number(item: &Item, name: &str) -> i64 {
    item.get(name)
        .and_then(AttributeValue::as_number)
        .and_then(larder::Number::to_i64)
        .expect("a whole number")
}

fn names(item: &Item) -> Vec<&str> {
    item.names().collect()
}

async fn k2_a_fetched_race_is_stored_with_its_data_when_and_until_when(store: Store) {
    let keiba = systems::open("keiba", &store).await;
    store.clock().stop();
    let source = Source::default();
    let race =
        shelf(&keiba, "Race").fetch(race_key("202405021211"), source.gives(race_data())).await.unwrap();
    let item = stored(&store, race.kept().key()).await.unwrap();
    assert_eq!(names(&item), ["PK", "SK", "data", "fetched_at", "ttl"]);
    assert_eq!(item.get("PK"), Some(&AttributeValue::from("RACE#202405021211")));
    assert_eq!(item.get("SK"), Some(&AttributeValue::from("METADATA")));
    assert_eq!(number(&item, "fetched_at"), store.clock().now().seconds());
    let AttributeValue::M(data) = item.get("data").unwrap() else { panic!("{item:?}") };
    assert_eq!(data.get("track"), Some(&AttributeValue::from("Tokyo")));
}

async fn k3_a_race_is_kept_a_week_and_the_races_of_a_day_one_day(store: Store) {
    let keiba = systems::open("keiba", &store).await;
    store.clock().stop();
    let source = Source::default();
    let now = store.clock().now().seconds();
    let race = shelf(&keiba, "Race").fetch(race_key("1"), source.gives(race_data())).await.unwrap();
    assert_eq!(number(&stored(&store, race.kept().key()).await.unwrap(), "ttl"), now + 7 * 86_400);
    let date = fields([("date", Value::Date("2024-05-26".parse().unwrap()))]);
    let none = fields([("data", Value::List(Vec::new()))]);
    let day = shelf(&keiba, "RaceDay").fetch(date, source.gives(none)).await.unwrap();
    let item = stored(&store, day.kept().key()).await.unwrap();
    assert_eq!(number(&item, "ttl"), now + 86_400);
    assert_eq!(item.get("PK"), Some(&AttributeValue::from("DATE#20240526")));
}

async fn k7_a_hit_does_not_call_the_source(store: Store) {
    let keiba = systems::open("keiba", &store).await;
    let (races, source) = (shelf(&keiba, "Race"), Source::default());
    let first = races.fetch(race_key("1"), source.gives(race_data())).await.unwrap();
    assert_eq!((first.origin(), source.calls()), (&Origin::Source, 1));
    store.clock().advance(seconds(60));
    let second = races.fetch(race_key("1"), source.gives(race_data())).await.unwrap();
    assert_eq!((second.origin(), source.calls()), (&Origin::Store, 1));
    assert_eq!(first.fields["data"], second.fields["data"]);
    assert!((60..=61).contains(&second.age().as_secs()), "{}", second.age());
    assert!(second.age().to_string().starts_with("1m"), "{}", second.age());
}

async fn k7_absent_and_expired_races_are_loaded(store: Store) {
    let keiba = systems::open("keiba", &store).await;
    store.clock().stop();
    let (races, source) = (shelf(&keiba, "Race"), Source::default());
    races.fetch(race_key("1"), source.gives(race_data())).await.unwrap();
    store.clock().advance(seconds(7 * 86_400));
    let last = races.fetch(race_key("1"), source.gives(race_data())).await.unwrap();
    assert_eq!((last.origin(), source.calls()), (&Origin::Store, 1));
    store.clock().advance(seconds(1));
    let over = races.fetch(race_key("1"), source.gives(race_data())).await.unwrap();
    assert_eq!((over.origin(), source.calls()), (&Origin::Source, 2));
    races.fetch(race_key("2"), source.gives(race_data())).await.unwrap();
    assert_eq!(source.calls(), 3);
}

async fn k10_a_store_that_fails_in_any_way_is_a_miss(store: Store) {
    let keiba = systems::open("keiba", &store).await;
    let (races, source) = (shelf(&keiba, "Race"), Source::default());
    races.fetch(race_key("1"), source.gives(race_data())).await.unwrap();
    for fault in [Fault::Throttle, Fault::Error, Fault::Unreachable, Fault::LostAnswer] {
        let before = source.calls();
        store.faults().fail_next(u64::MAX, fault);
        let race = races.fetch(race_key("1"), source.gives(race_data())).await.unwrap();
        store.faults().reset();
        assert_eq!((race.origin(), source.calls()), (&Origin::Source, before + 1), "{fault:?}");
        assert!(matches!(race.store_error(), Some(Error::Store(_))), "{fault:?}: {:?}", race.store_error());
    }
    // A store that is reached over a network is left alone by now; a write always tries, and lets the reads back.
    let mut draft = race_data();
    draft.extend(race_key("1"));
    races.put(draft).await.unwrap();
    let race = races.fetch(race_key("1"), source.gives(race_data())).await.unwrap();
    assert!(race.origin() == &Origin::Store && race.store_error().is_none());
}

async fn k10_an_item_that_cannot_be_read_is_a_miss_and_is_replaced(store: Store) {
    let keiba = systems::open("keiba", &store).await;
    let (races, source) = (shelf(&keiba, "Race"), Source::default());
    let race = races.fetch(race_key("1"), source.gives(race_data())).await.unwrap();
    let mut item = stored(&store, race.kept().key()).await.unwrap();
    item.insert("data", "no map at all");
    let table = store.list_tables().await.unwrap().remove(0);
    let request = PutItem { table, item, options: WriteOptions::default() };
    stores::unguarded(&store).put_item(request).await.unwrap();

    assert!(matches!(races.look(race_key("1")).await, Look::Miss(Why::Unreachable(Error::Corrupt { .. }))));
    let mended = races.fetch(race_key("1"), source.gives(race_data())).await.unwrap();
    assert_eq!((mended.origin(), source.calls()), (&Origin::Source, 2));
    assert!(matches!(mended.store_error(), Some(Error::Corrupt { .. })));
    let again = races.fetch(race_key("1"), source.gives(race_data())).await.unwrap();
    assert_eq!(again.origin(), &Origin::Store);
}

async fn k10_a_failed_write_does_not_fail_the_read(store: Store) {
    let keiba = systems::open("keiba", &store).await;
    let (races, source) = (shelf(&keiba, "Race"), Source::default());
    store.faults().only(&["PutItem"]).fail_next(u64::MAX, Fault::Error);
    let race = races.fetch(race_key("1"), source.gives(race_data())).await.unwrap();
    assert_eq!(race.origin(), &Origin::Source);
    assert!(race.store_error().is_some());
    store.faults().reset();
    assert!(races.get(race_key("1")).await.unwrap().is_none());
}

async fn k10_store_and_source_down_is_one_error_that_names_both(store: Store) {
    let keiba = systems::open("keiba", &store).await;
    let (races, source) = (shelf(&keiba, "Race"), Source::default());
    source.down();
    store.faults().down();
    let error = races.fetch(race_key("1"), source.gives(race_data())).await.unwrap_err();
    store.faults().up();
    assert!(matches!(error, Error::Down { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("cannot be reached") && text.contains("the source is down"), "{text}");
    let error = races.fetch(race_key("1"), source.gives(race_data())).await.unwrap_err();
    assert!(matches!(error, Error::Source { .. }), "{error}");
}

async fn w3_an_expired_item_that_is_still_stored_is_a_miss(store: Store) {
    let weather = systems::open("weather", &store).await;
    store.clock().stop();
    let (forecasts, source) = (shelf(&weather, "Forecast"), Source::default());
    let key = || forecast_key(-22.7572, "2025-11-26T15:23:45Z");
    forecasts.fetch(key(), source.gives(forecast_data(28.3))).await.unwrap();
    weather.drain(seconds(60)).await.expect_empty();
    store.clock().advance(seconds(3 * 3600));
    assert!(
        matches!(forecasts.look(key()).await, Look::Hit(_)),
        "`ttl < now` is expired, `ttl = now` is not"
    );
    store.clock().advance(seconds(1));
    assert!(matches!(forecasts.look(key()).await, Look::Miss(Why::Expired)));
    assert!(forecasts.get(key()).await.unwrap().is_none());
    assert!(matches!(
        forecasts.look(forecast_key(1.0, "2025-11-26T15:00:00Z")).await,
        Look::Miss(Why::Absent)
    ));
}

async fn w4_get_put_and_forget_fail_open(store: Store) {
    let weather = systems::open("weather", &store).await;
    let (forecasts, source) = (shelf(&weather, "Forecast"), Source::default());
    let key = || forecast_key(-22.7572, "2025-11-26T15:23:45Z");
    store.faults().down();
    assert!(forecasts.get(key()).await.unwrap().is_none());
    assert!(matches!(forecasts.look(key()).await, Look::Miss(Why::Unreachable(_))));
    forecasts.forget(key()).await.unwrap();
    let mut draft = forecast_data(28.3);
    draft.extend(key());
    let put = forecasts.put(draft.clone()).await.unwrap();
    assert!(put.store_error().is_some_and(Error::is_transient));
    assert!(forecasts.stats().store_errors > 0);
    let forecast = forecasts.fetch(key(), source.gives(forecast_data(28.3))).await.unwrap();
    assert!(forecast.store_error().is_some());
    store.faults().up();
    assert!(forecasts.put(draft).await.unwrap().store_error().is_none());
    assert!(matches!(forecasts.look(key()).await, Look::Hit(_)));
}

async fn a_closed_store_that_fails_is_an_error(store: Store) {
    let pages = systems::open_text(&pages("", "on_error closed"), &store).await;
    let (pages, source) = (shelf(&pages, "Page"), Source::default());
    store.faults().down();
    assert!(matches!(pages.get(page_key("1")).await, Err(Error::Store(_))));
    assert!(matches!(pages.forget(page_key("1")).await, Err(Error::Store(_))));
    assert!(matches!(pages.fetch(page_key("1"), source.numbered()).await, Err(Error::Store(_))));
    assert_eq!(source.calls(), 0);
    store.faults().up();
}

async fn w6_all_three_patterns_are_one_call_on_the_same_entity(store: Store) {
    let weather = systems::open("weather", &store).await;
    let (forecasts, source) = (shelf(&weather, "Forecast"), Source::default());
    let key = |lat| forecast_key(lat, "2025-11-26T15:23:45Z");

    let through = forecasts.fetch(key(1.0), source.gives(forecast_data(1.0))).await.unwrap();
    assert_eq!(through.origin(), &Origin::Source);

    let Look::Miss(why) = forecasts.look(key(2.0)).await else { panic!("nothing was put") };
    assert_eq!(why.to_string(), "absent");
    let mut aside = forecast_data(2.0);
    aside.extend(key(2.0));
    forecasts.put(aside).await.unwrap();
    let Look::Hit(aside) = forecasts.look(key(2.0)).await else { panic!("it was put") };
    assert_eq!(aside.origin(), &Origin::Store);

    let mut behind = forecast_data(3.0);
    behind.extend(key(3.0));
    forecasts.put_behind(behind).await.unwrap();
    weather.drain(seconds(60)).await.expect_empty();
    assert!(forecasts.get(key(3.0)).await.unwrap().is_some());
    assert_eq!(source.calls(), 1);
}

async fn w8_a_stored_forecast_has_the_names_and_forms_of_the_seed(store: Store) {
    let weather = systems::open("weather", &store).await;
    store.clock().stop();
    let (forecasts, source) = (shelf(&weather, "Forecast"), Source::default());
    let key = forecast_key(-22.7572, "2025-11-26T15:23:45Z");
    let forecast = forecasts.fetch(key, source.gives(forecast_data(28.3))).await.unwrap();
    weather.drain(seconds(60)).await.expect_empty();
    let item = stored(&store, forecast.kept().key()).await.unwrap();
    assert_eq!(names(&item), ["cacheKey", "createdAt", "data", "ttl"]);
    assert_eq!(item.get("cacheKey"), Some(&AttributeValue::from("weather_-22.7572_-49.9439_1764169200")));
    assert_eq!(number(&item, "ttl"), store.clock().now().seconds() + 3 * 3600);
    let created = item.get("createdAt").and_then(AttributeValue::as_str).unwrap();
    assert_eq!(created.len(), "2025-11-26T15:12:34.567890Z".len(), "{created}");
    let AttributeValue::M(data) = item.get("data").unwrap() else { panic!("{item:?}") };
    let wanted =
        ["humidity", "rainfallIntensity", "temperature", "timestamp", "weatherDescription", "windSpeed"];
    assert_eq!(names(data), wanted);
}

async fn w9_a_key_that_is_forgotten_is_a_miss(store: Store) {
    let weather = systems::open("weather", &store).await;
    let (forecasts, source) = (shelf(&weather, "Forecast"), Source::default());
    let key = |lat| forecast_key(lat, "2025-11-26T15:23:45Z");
    for lat in [1.0, 2.0] {
        forecasts.fetch(key(lat), source.gives(forecast_data(1.0))).await.unwrap();
    }
    forecasts.forget(key(1.0)).await.unwrap();
    weather.drain(seconds(60)).await.expect_empty();
    assert!(matches!(forecasts.look(key(1.0)).await, Look::Miss(Why::Absent)));
    assert!(matches!(forecasts.look(key(2.0)).await, Look::Hit(_)));
    forecasts.forget(key(2.0)).await.unwrap();
    assert!(matches!(forecasts.look(key(2.0)).await, Look::Miss(Why::Absent)));
}

fn menu(week: i64) -> Fields {
    let mut menu = menu_key(week);
    menu.insert("lunches".to_owned(), Value::List(Vec::new()));
    menu
}

fn menu_key(week: i64) -> Fields {
    fields([("restaurant", Value::from("niagara")), ("year", Value::from(2025)), ("week", Value::from(week))])
}

async fn l14_menus_stay_in_l1_for_an_hour_and_are_read_eventually(store: Store) {
    let lunch = systems::open("lunch", &store).await;
    let menus = shelf(&lunch, "Menu");
    menus.put(menu(3)).await.unwrap();
    store.requests().take();
    let first = menus.get(menu_key(3)).await.unwrap().unwrap();
    let asked = store.requests().take();
    assert!(matches!(&asked[..], [Request::GetItem(get)] if !get.consistent), "{asked:?}");

    store.clock().advance(seconds(3599));
    let Look::Hit(second) = menus.look(menu_key(3)).await else { panic!("it is there") };
    assert_eq!((second.origin(), store.requests().total()), (&Origin::L1, 0));
    assert_eq!(first, *second);

    store.clock().advance(seconds(2));
    let Look::Hit(third) = menus.look(menu_key(3)).await else { panic!("it is there") };
    assert_eq!((third.origin(), store.requests().count("GetItem")), (&Origin::Store, 1));

    menus.put(menu(3)).await.unwrap();
    let Look::Hit(fourth) = menus.look(menu_key(3)).await else { panic!("it is there") };
    assert_eq!(fourth.origin(), &Origin::Store, "a write forgets what L1 has");
    menus.delete(menu_key(3)).await.unwrap();
    assert!(menus.get(menu_key(3)).await.unwrap().is_none());
}

async fn a_thousand_who_ask_for_a_cold_key_call_the_source_once(store: Store) {
    let keiba = systems::open("keiba", &store).await;
    let (races, source) = (shelf(&keiba, "Race"), Source::default());
    let tasks: Vec<_> = (0..1000)
        .map(|_| {
            let (races, load) = (races.clone(), source.gives(race_data()));
            tokio::spawn(async move { races.fetch(race_key("1"), load).await })
        })
        .collect();
    for task in tasks {
        assert_eq!(task.await.unwrap().unwrap().fields["race_id"], Value::from("1"));
    }
    assert_eq!(source.calls(), 1);
}

async fn a_caller_that_goes_away_does_not_stop_the_load(store: Store) {
    let keiba = systems::open("keiba", &store).await;
    let (races, source) = (shelf(&keiba, "Race"), Source::default());
    let (begun, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (told, waited, counted) = (Arc::clone(&begun), Arc::clone(&go), source.clone());
    let load = move |_| {
        let (begun, go, source) = (Arc::clone(&told), Arc::clone(&waited), counted.clone());
        async move {
            begun.notify_one();
            go.notified().await;
            source.call().map(|_| race_data())
        }
    };
    let first = tokio::spawn({
        let races = races.clone();
        async move { races.fetch(race_key("1"), load).await }
    });
    begun.notified().await;
    let second = tokio::spawn({
        let (races, other) = (races.clone(), source.gives(race_data()));
        async move { races.fetch(race_key("1"), other).await }
    });
    first.abort();
    let _ = first.await;
    go.notify_one();
    assert!(second.await.unwrap().is_ok());
    assert_eq!(source.calls(), 1);
}

async fn a_loader_that_panics_is_an_error_and_the_next_one_is_asked(store: Store) {
    let keiba = systems::open("keiba", &store).await;
    let (races, source) = (shelf(&keiba, "Race"), Source::default());
    let broken = |_: Fields| async {
        if true {
            panic!("a bug in the loader");
        }
        Ok::<Fields, Cause>(Fields::new())
    };
    let error = races.fetch(race_key("1"), broken).await.unwrap_err();
    assert!(matches!(error, Error::Source { .. }), "{error}");
    assert!(races.fetch(race_key("1"), source.gives(race_data())).await.is_ok());
}

async fn a_value_that_breaks_its_checks_is_not_kept(store: Store) {
    let keiba = systems::open("keiba", &store).await;
    let (races, source) = (shelf(&keiba, "Race"), Source::default());
    let error = races.fetch(race_key("1"), source.gives(Fields::new())).await.unwrap_err();
    assert!(error.to_string().contains("Race.data"), "{error}");
    assert!(races.get(race_key("1")).await.unwrap().is_none());
}

async fn what_the_source_does_not_have_is_remembered_as_long_as_the_schema_says(store: Store) {
    let system = systems::open_text(&pages("", "negative 10s"), &store).await;
    store.clock().stop();
    let (pages, source) = (shelf(&system, "Page"), Source::default());
    let none = |source: &Source| {
        let source = source.clone();
        move |_| std::future::ready(source.call().map(|_| None::<Fields>))
    };
    for _ in 0..3 {
        assert!(pages.fetch(page_key("1"), none(&source)).await.unwrap_err().is_absent());
    }
    assert_eq!(source.calls(), 1);
    assert!(matches!(pages.look(page_key("1")).await, Look::Miss(Why::Absent)));
    assert!(pages.get(page_key("1")).await.unwrap().is_none());
    store.clock().advance(seconds(11));
    assert!(pages.fetch(page_key("1"), source.numbered()).await.is_ok());
    assert_eq!(source.calls(), 2);

    assert!(pages.fetch(page_key("2"), none(&source)).await.unwrap_err().is_absent());
    let mut page = page_key("2");
    page.insert("text".to_owned(), Value::from("new"));
    pages.create(page).await.expect("a remembered absence is nothing that is there");
    assert!(pages.get(page_key("2")).await.unwrap().is_some());
}

async fn without_negative_an_absence_is_asked_for_again_and_nothing_old_stays(store: Store) {
    let system = systems::open_text(&pages("", "grace 1h"), &store).await;
    let (pages, source) = (shelf(&system, "Page"), Source::default());
    pages.fetch(page_key("1"), source.numbered()).await.unwrap();
    store.clock().advance(seconds(200));
    for _ in 0..2 {
        let none = |_: Fields| std::future::ready(Ok::<_, Cause>(Load::<Fields>::absent()));
        assert!(pages.fetch(page_key("1"), none).await.unwrap_err().is_absent());
    }
    source.down();
    let error = pages.fetch(page_key("1"), source.numbered()).await.unwrap_err();
    assert!(matches!(error, Error::Source { .. }), "what the source disowned is not given in grace: {error}");
}

async fn what_is_stale_is_given_at_once_while_a_new_one_is_fetched(store: Store) {
    for l1 in ["", "l1 1h"] {
        let system = systems::open_text(&pages("", &format!("stale 50s\n{l1}")), &store).await;
        let (pages, source) = (shelf(&system, "Page"), Source::default());
        pages.fetch(page_key("1"), source.numbered()).await.unwrap();
        store.clock().advance(seconds(120));
        assert!(matches!(pages.look(page_key("1")).await, Look::Miss(Why::Expired)), "its time is over");
        assert!(pages.get(page_key("1")).await.unwrap().is_none());
        let stale = pages.fetch(page_key("1"), source.numbered()).await.unwrap();
        assert_eq!(stale.origin(), &Origin::Stale(StaleReason::Refreshing));
        assert_eq!(text_of(&stale.fields), "page 1");
        sources::until(async || matches!(pages.look(page_key("1")).await, Look::Hit(_))).await;
        let fresh = pages.fetch(page_key("1"), source.numbered()).await.unwrap();
        assert_eq!((text_of(&fresh.fields), source.calls()), ("page 2", 2));
        store.clock().advance(seconds(151));
        // The flight of the refresh may end a moment after its value is in L1.
        sources::until(async || {
            let gone = pages.fetch(page_key("1"), source.numbered()).await.unwrap();
            assert_eq!(gone.origin(), &Origin::Source);
            source.calls() == 3
        })
        .await;
    }
}

async fn a_source_that_fails_is_covered_while_the_grace_lasts(store: Store) {
    for l1 in ["", "l1 1h"] {
        let system = systems::open_text(&pages("", &format!("grace 1h\n{l1}")), &store).await;
        let (pages, source) = (shelf(&system, "Page"), Source::default());
        pages.fetch(page_key("1"), source.numbered()).await.unwrap();
        source.down();
        store.clock().advance(seconds(200));
        let stale = pages.fetch(page_key("1"), source.numbered()).await.unwrap();
        let Origin::Stale(StaleReason::SourceFailed(cause)) = stale.origin() else { panic!("{stale:?}") };
        assert!(cause.to_string().contains("the source is down"), "{cause}");
        assert_eq!(text_of(&stale.fields), "page 1");
        store.clock().advance(seconds(3600));
        assert!(matches!(pages.fetch(page_key("1"), source.numbered()).await, Err(Error::Source { .. })));
        source.up();
        let fresh = pages.fetch(page_key("1"), source.numbered()).await.unwrap();
        assert_eq!(fresh.origin(), &Origin::Source);
    }
}

async fn store_and_source_down_is_covered_by_l1_while_the_grace_lasts(store: Store) {
    let system = systems::open_text(&pages("", "grace 1h\nl1 1h\non_error open"), &store).await;
    let (pages, source) = (shelf(&system, "Page"), Source::default());
    pages.fetch(page_key("1"), source.numbered()).await.unwrap();
    source.down();
    store.faults().down();
    store.clock().advance(seconds(200));
    let stale = pages.fetch(page_key("1"), source.numbered()).await.unwrap();
    store.faults().up();
    assert!(matches!(stale.origin(), Origin::Stale(StaleReason::SourceFailed(_))));
    assert!(stale.store_error().is_some());
}

async fn what_is_about_to_end_is_fetched_ahead(store: Store) {
    let system = systems::open_text(&pages("", "refresh 80%"), &store).await;
    store.clock().stop();
    let (pages, source) = (shelf(&system, "Page"), Source::default());
    pages.fetch(page_key("1"), source.numbered()).await.unwrap();
    store.clock().advance(seconds(79));
    pages.fetch(page_key("1"), source.numbered()).await.unwrap();
    assert_eq!(source.calls(), 1);
    store.clock().advance(seconds(1));
    let ahead = pages.fetch(page_key("1"), source.numbered()).await.unwrap();
    assert_eq!((ahead.origin(), text_of(&ahead.fields)), (&Origin::Store, "page 1"), "nobody waits for it");
    sources::until(async || {
        let page = pages.get(page_key("1")).await.unwrap().unwrap();
        text_of(&page.fields) == "page 2"
    })
    .await;
    assert_eq!(source.calls(), 2);
}

async fn a_jitter_makes_lives_differ(store: Store) {
    let system = systems::open_text(&pages("", "jitter 50%"), &store).await;
    store.clock().stop();
    let (pages, source) = (shelf(&system, "Page"), Source::default());
    let mut ends = BTreeSet::new();
    for id in 0..20 {
        let page = pages.fetch(page_key(&id.to_string()), source.numbered()).await.unwrap();
        let left = page.kept().expires().unwrap().seconds() - store.clock().now().seconds();
        assert!((50..=100).contains(&left), "{left}");
        ends.insert(left);
    }
    assert!(ends.len() > 5, "{ends:?}");
}

async fn a_source_may_say_how_long_its_value_lasts(store: Store) {
    let system = systems::open_text(&pages("", ""), &store).await;
    store.clock().stop();
    let (pages, source) = (shelf(&system, "Page"), Source::default());
    let short = |_: Fields| {
        let page = Load::value(fields([("text", Value::from("short"))])).ttl(seconds(5));
        std::future::ready(Ok::<_, Cause>(page))
    };
    pages.fetch(page_key("1"), short).await.unwrap();
    store.clock().advance(seconds(5));
    assert!(pages.get(page_key("1")).await.unwrap().is_some());
    store.clock().advance(seconds(1));
    assert_eq!(pages.fetch(page_key("1"), source.numbered()).await.unwrap().origin(), &Origin::Source);
}

async fn a_value_decides_its_own_end(store: Store) {
    let text = pages("", "")
        .replace("ttl  100s", "ttl  max_age")
        .replace("text:     string", "text: string\nmax_age: duration");
    let system = systems::open_text(&text, &store).await;
    store.clock().stop();
    let pages = shelf(&system, "Page");
    let load = |_: Fields| {
        let max_age = Value::Duration(larder::jiff::SignedDuration::from_secs(7));
        std::future::ready(Ok::<_, Cause>(fields([("text", Value::from("x")), ("max_age", max_age)])))
    };
    let page = pages.fetch(page_key("1"), load).await.unwrap();
    assert_eq!(page.kept().expires().unwrap().seconds(), store.clock().now().seconds() + 7);
}

async fn what_has_not_changed_is_renewed(store: Store) {
    let system = systems::open_text(&pages("", "grace 1h"), &store).await;
    store.clock().stop();
    let (pages, source) = (shelf(&system, "Page"), Source::default());
    let load = |source: &Source| {
        let source = source.clone();
        move |_: Fields, known: Known| {
            let call = source.call();
            std::future::ready(call.map(|call| match known.etag() {
                Some("v1") => {
                    assert_eq!(known.last_modified(), Some("Mon"));
                    Load::not_modified()
                }
                _ => {
                    let page = fields([("text", Value::Text(format!("page {call}")))]);
                    Load::value(page).etag("v1").last_modified("Mon")
                }
            }))
        }
    };
    for (call, advance) in [(1, 0), (1, 50), (2, 101), (2, 100), (3, 101)] {
        store.clock().advance(seconds(advance));
        let page = pages.fetch_with(page_key("1"), load(&source)).await.unwrap();
        assert_eq!((text_of(&page.fields), source.calls()), ("page 1", call));
    }
}

async fn not_modified_without_anything_kept_is_an_error(store: Store) {
    let system = systems::open_text(&pages("", ""), &store).await;
    let pages = shelf(&system, "Page");
    let nothing = |_: Fields| std::future::ready(Ok::<_, Cause>(Load::<Fields>::not_modified()));
    let error = pages.fetch(page_key("1"), nothing).await.unwrap_err();
    assert!(error.to_string().contains("not modified"), "{error}");
}

async fn a_permanent_error_is_not_retried(store: Store) {
    let system = systems::open_text(&pages("retry 3 backoff 1ms..2ms", ""), &store).await;
    let (pages, source) = (shelf(&system, "Page"), Source::default());
    source.down();
    pages.fetch(page_key("1"), source.numbered()).await.unwrap_err();
    assert_eq!(source.calls(), 4);
    let counted = source.clone();
    let load = move |_: Fields| {
        let _ = counted.call();
        std::future::ready(Err::<Fields, _>(Permanent::new("404")))
    };
    pages.fetch(page_key("1"), load).await.unwrap_err();
    assert_eq!(source.calls(), 5);
}

async fn a_slow_source_is_not_waited_for_when_there_is_something_stale(store: Store) {
    let system = systems::open_text(&pages("timeout 20ms..60s", "grace 1h"), &store).await;
    let (pages, source) = (shelf(&system, "Page"), Source::default());
    pages.fetch(page_key("1"), source.numbered()).await.unwrap();
    store.clock().advance(seconds(200));
    let go = Arc::new(Notify::new());
    let (waited, counted) = (Arc::clone(&go), source.clone());
    let slow = move |_: Fields| {
        let (go, source) = (Arc::clone(&waited), counted.clone());
        async move {
            go.notified().await;
            source.call().map(|_| fields([("text", Value::from("late"))]))
        }
    };
    let stale = pages.fetch(page_key("1"), slow).await.unwrap();
    assert_eq!(stale.origin(), &Origin::Stale(StaleReason::SlowSource));
    let stale = pages.fetch(page_key("1"), source.numbered()).await.unwrap();
    assert_eq!(stale.origin(), &Origin::Stale(StaleReason::SlowSource), "the load goes on, once");
    go.notify_one();
    sources::until(async || matches!(pages.look(page_key("1")).await, Look::Hit(_))).await;
    assert_eq!(text_of(&pages.get(page_key("1")).await.unwrap().unwrap().fields), "late");
    assert_eq!(source.calls(), 2);
}

async fn one_of_several_processes_loads_and_the_rest_wait_for_it(store: Store) {
    let text = pages("", "flight 30s");
    let (loader, waiter) = two_processes(&text, &store).await;
    let source = Source::default();
    let (begun, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (told, waited, counted) = (Arc::clone(&begun), Arc::clone(&go), source.clone());
    let load = move |_: Fields| {
        let (begun, go, source) = (Arc::clone(&told), Arc::clone(&waited), counted.clone());
        async move {
            begun.notify_one();
            go.notified().await;
            source.call().map(|_| fields([("text", Value::from("once"))]))
        }
    };
    let first = tokio::spawn(async move { shelf(&loader, "Page").fetch(page_key("1"), load).await });
    begun.notified().await;
    let pages = shelf(&waiter, "Page");
    assert!(matches!(pages.look(page_key("1")).await, Look::Miss(Why::Absent)), "a lease is no record");
    let second = tokio::spawn({
        let (pages, other) = (pages.clone(), source.numbered());
        async move { pages.fetch(page_key("1"), other).await }
    });
    store.requests().take();
    sources::until(async || {
        tokio::time::sleep(Duration::from_millis(1)).await;
        store.requests().count("PutItem") >= 2
    })
    .await;
    go.notify_one();
    assert_eq!(first.await.unwrap().unwrap().origin(), &Origin::Source);
    let second = second.await.unwrap().unwrap();
    assert_eq!((second.origin(), text_of(&second.fields)), (&Origin::Store, "once"));
    assert_eq!(source.calls(), 1);
    let item = stored(&store, second.kept().key()).await.unwrap();
    assert_eq!(names(&item), ["ends", "pk", "text"], "nothing of the lease stays");
}

async fn a_failed_load_gives_its_lease_back(store: Store) {
    let (one, other) = two_processes(&pages("", "flight 30s\ngrace 1h"), &store).await;
    let (one, other, source) = (shelf(&one, "Page"), shelf(&other, "Page"), Source::default());
    source.down();
    one.fetch(page_key("1"), source.numbered()).await.unwrap_err();
    source.up();
    assert_eq!(other.fetch(page_key("1"), source.numbered()).await.unwrap().origin(), &Origin::Source);
    store.clock().advance(seconds(200));
    source.down();
    let stale = one.fetch(page_key("1"), source.numbered()).await.unwrap();
    assert!(matches!(stale.origin(), Origin::Stale(StaleReason::SourceFailed(_))));
    source.up();
    assert_eq!(other.fetch(page_key("1"), source.numbered()).await.unwrap().origin(), &Origin::Source);
}

async fn a_lease_of_a_process_that_died_ends_by_itself(store: Store) {
    let (one, other) = two_processes(&pages("", "flight 30s"), &store).await;
    let (one, other, source) = (shelf(&one, "Page"), shelf(&other, "Page"), Source::default());
    // As if the process had died: its load never ends.
    let begun = Arc::new(Notify::new());
    let told = Arc::clone(&begun);
    let hung = move |_: Fields| {
        let begun = Arc::clone(&told);
        async move {
            begun.notify_one();
            std::future::pending::<Result<Fields, Cause>>().await
        }
    };
    let lost = tokio::spawn(async move { one.fetch(page_key("1"), hung).await });
    begun.notified().await;
    store.clock().advance(seconds(31));
    assert_eq!(other.fetch(page_key("1"), source.numbered()).await.unwrap().origin(), &Origin::Source);
    lost.abort();
}

/// Two systems on the same tables, which know nothing of each other.
async fn two_processes(text: &str, store: &Store) -> (larder::System, larder::System) {
    let environment = larder::Environment::from([("ENVIRONMENT".to_owned(), "shared".to_owned())]);
    let open = async || {
        let loaded = larder::Schema::load("pages.larder", text, &mut larder_schema::NoFiles, &environment);
        let schema = loaded.schema.unwrap_or_else(|| panic!("{:?}", loaded.diagnostics));
        larder::System::open_with(schema, store.clone(), environment.clone()).await.unwrap()
    };
    let first = open().await;
    first.provision().await.unwrap();
    (first, open().await)
}

async fn a_record_with_a_secret_in_it_is_not_kept_in_l1(store: Store) {
    let text = pages("", "l1 1h").replace("text:     string", "text: string\ntoken: string? secret");
    let system = systems::open_text(&text, &store).await;
    let (pages, source) = (shelf(&system, "Page"), Source::default());
    for _ in 0..2 {
        pages.fetch(page_key("1"), source.numbered()).await.unwrap();
    }
    assert_eq!(pages.fetch(page_key("1"), source.numbered()).await.unwrap().origin(), &Origin::Store);
}

async fn an_l1_hit_shares_the_record_and_asks_nobody(store: Store) {
    let system = systems::open_text(&pages("", "l1 1h"), &store).await;
    let (pages, source) = (shelf(&system, "Page"), Source::default());
    let first = pages.fetch(page_key("1"), source.numbered()).await.unwrap().into_arc();
    store.requests().take();
    let second = pages.fetch(page_key("1"), source.numbered()).await.unwrap();
    assert_eq!((second.origin(), store.requests().total()), (&Origin::L1, 0));
    assert!(Arc::ptr_eq(&first, &second.into_arc()));
    store.clock().advance(seconds(101));
    let third = pages.fetch(page_key("1"), source.numbered()).await.unwrap();
    assert_eq!(third.origin(), &Origin::Source, "L1 keeps nothing longer than the item lasts");
}

/// Whatever fails, at random: a value that was fetched, or an error that names what failed.
#[test]
fn a_store_and_a_source_that_fail_at_random_have_only_the_promised_outcomes() {
    stores::run(async {
        // All at once: mostly they wait to try again.
        let seeds: Vec<_> = (0..20).map(|seed| tokio::spawn(fail_at_random(seed))).collect();
        for seed in seeds {
            seed.await.unwrap();
        }
    });
}

async fn fail_at_random(seed: u64) {
    let store = Store::memory().await;
    let text = pages("", "on_error open\ngrace 30s\nstale 10s\nnegative 5s\nl1 20s\nflight 1s\nrefresh 90%");
    let system = systems::open_text(&text, &store).await;
    let pages = shelf(&system, "Page");
    let source = Source::default();
    let mut random = fastrand::Rng::with_seed(seed);
    store.faults().seed(seed).throttle(0.2).fail(0.1).lose_answers(0.1);
    for _ in 0..200 {
        if random.bool() {
            source.up();
        } else {
            source.down();
        }
        store.clock().advance(Duration::from_millis(random.u64(0..60_000)));
        let id = random.u8(0..4).to_string();
        match pages.fetch(page_key(&id), source.numbered()).await {
            Ok(page) => {
                assert!(text_of(&page.fields).starts_with("page "), "seed {seed}");
                assert_eq!(page.fields["id"], Value::from(&*id), "seed {seed}");
                let age = page.age().as_secs();
                let limit = match page.origin() {
                    // The clock may have moved while a load was under way.
                    Origin::Source => u64::MAX,
                    Origin::Stale(_) => 131,
                    _ => 101,
                };
                assert!(age <= limit, "seed {seed}: {age} s, {:?}", page.origin());
            }
            Err(Error::Source { .. } | Error::Down { .. }) => {}
            Err(other) => panic!("seed {seed}: {other}"),
        }
    }
}

on_each_store! {
    k2_a_fetched_race_is_stored_with_its_data_when_and_until_when,
    k3_a_race_is_kept_a_week_and_the_races_of_a_day_one_day,
    k7_a_hit_does_not_call_the_source,
    k7_absent_and_expired_races_are_loaded,
    k10_a_store_that_fails_in_any_way_is_a_miss,
    k10_an_item_that_cannot_be_read_is_a_miss_and_is_replaced,
    k10_a_failed_write_does_not_fail_the_read,
    k10_store_and_source_down_is_one_error_that_names_both,
    w3_an_expired_item_that_is_still_stored_is_a_miss,
    w4_get_put_and_forget_fail_open,
    w6_all_three_patterns_are_one_call_on_the_same_entity,
    w8_a_stored_forecast_has_the_names_and_forms_of_the_seed,
    w9_a_key_that_is_forgotten_is_a_miss,
    l14_menus_stay_in_l1_for_an_hour_and_are_read_eventually,
    a_closed_store_that_fails_is_an_error,
    a_thousand_who_ask_for_a_cold_key_call_the_source_once,
    a_caller_that_goes_away_does_not_stop_the_load,
    a_loader_that_panics_is_an_error_and_the_next_one_is_asked,
    a_value_that_breaks_its_checks_is_not_kept,
    what_the_source_does_not_have_is_remembered_as_long_as_the_schema_says,
    without_negative_an_absence_is_asked_for_again_and_nothing_old_stays,
    what_is_stale_is_given_at_once_while_a_new_one_is_fetched,
    a_source_that_fails_is_covered_while_the_grace_lasts,
    store_and_source_down_is_covered_by_l1_while_the_grace_lasts,
    what_is_about_to_end_is_fetched_ahead,
    a_jitter_makes_lives_differ,
    a_source_may_say_how_long_its_value_lasts,
    a_value_decides_its_own_end,
    what_has_not_changed_is_renewed,
    not_modified_without_anything_kept_is_an_error,
    a_permanent_error_is_not_retried,
    a_slow_source_is_not_waited_for_when_there_is_something_stale,
    one_of_several_processes_loads_and_the_rest_wait_for_it,
    a_failed_load_gives_its_lease_back,
    a_lease_of_a_process_that_died_ends_by_itself,
    a_record_with_a_secret_in_it_is_not_kept_in_l1,
    an_l1_hit_shares_the_record_and_asks_nobody,
}
