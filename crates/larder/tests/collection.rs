//! Collections: written in one transaction, read in one query.

#![expect(clippy::unwrap_used, reason = "the helpers of a test fail with the test")]

mod stores;
mod systems;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use larder::{Collection, Entries, Error, Fields, Load, Look, Origin, Store, System, Value};
use larder_model::AttributeValue;

fn id() -> Fields {
    Fields::from([("horse_id".to_owned(), "2019105219".into())])
}

fn map<const N: usize>(pairs: [(&str, Value); N]) -> Value {
    Value::Map(pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<BTreeMap<_, _>>())
}

/// A horse as a source gives it, with so many bytes of results.
fn horse(bytes: usize) -> Vec<(String, Fields)> {
    let race = Value::Raw(AttributeValue::S("x".repeat(bytes)));
    let results = map([("results", Value::List(vec![race]))]);
    let parents = map([("sire", "Kitasan Black".into()), ("dam", "Chateau Blanche".into())]);
    vec![
        ("HorseResults".to_owned(), Fields::from([("data".to_owned(), results)])),
        ("HorseParents".to_owned(), Fields::from([("data".to_owned(), parents)])),
    ]
}

/// The same with its key, as it is put.
fn whole(bytes: usize) -> Vec<(String, Fields)> {
    let mut horse = horse(bytes);
    for (_, fields) in &mut horse {
        fields.extend(id());
    }
    horse
}

fn horses(system: &System) -> Collection<Entries> {
    system.collection("Horse").unwrap()
}

const ALBUMS: &str = r#"
system albums
source web { }
table albums {
  name  "albums-{stage}"
  key   pk / sk
  ttl   ends
  entity Cover from web {
    key   "ALBUM#{id}" / "COVER"
    ttl   100s
    grace 1h
    input id: string nonempty
    artist:   string
  }
  entity Tracks from web {
    key   "ALBUM#{id}" / "TRACKS"
    ttl   100s
    grace 1h
    input id: string nonempty
    count:    int
  }
  collection Album { Cover, Tracks }
}
param stage: string = "dev" from ENV
"#;

#[test]
fn a_collection_whose_source_says_not_modified_is_renewed() {
    stores::run(async {
        let store = Store::memory().await;
        let albums: Collection<Entries> =
            systems::open_text(ALBUMS, &store).await.collection("Album").unwrap();
        let key = || Fields::from([("id".to_owned(), "1".into())]);
        let given = Arc::new(AtomicUsize::new(0));
        let load = {
            let given = Arc::clone(&given);
            move |_: Fields, known: larder::Known| {
                let answer = match known.etag() {
                    Some("v1") => Load::not_modified(),
                    _ => {
                        given.fetch_add(1, Ordering::SeqCst);
                        let cover = Fields::from([("artist".to_owned(), "Nina".into())]);
                        let tracks = Fields::from([("count".to_owned(), Value::from(9))]);
                        Load::value(vec![("Cover".to_owned(), cover), ("Tracks".to_owned(), tracks)])
                            .etag("v1")
                    }
                };
                async { Ok::<_, std::io::Error>(answer) }
            }
        };
        let first = albums.fetch_with(key(), load.clone()).await.unwrap();
        assert_eq!((first.origin(), given.load(Ordering::SeqCst)), (&Origin::Source, 1));
        store.clock().advance(Duration::from_secs(200));
        let again = albums.fetch_with(key(), load.clone()).await.unwrap();
        assert_eq!((again.origin(), given.load(Ordering::SeqCst)), (&Origin::Source, 1));
        assert_eq!(again.0.len(), 2);
        assert_eq!(albums.fetch_with(key(), load).await.unwrap().origin(), &Origin::Store);
    });
}

#[test]
fn k5_a_horse_is_written_in_one_transaction_and_read_in_one_query() {
    stores::each_with_transactions(async |store| {
        let keiba = systems::open("keiba", &store).await;
        let horses = horses(&keiba);
        assert!(horses.get(id()).await.unwrap().is_none());
        store.requests().take();
        horses.put(whole(10)).await.unwrap();
        assert_eq!(store.requests().count("TransactWriteItems"), 1);
        assert_eq!(store.requests().count("PutItem"), 0);

        store.requests().take();
        let horse = horses.get(id()).await.unwrap().unwrap();
        let requests = store.requests().take();
        assert_eq!(requests.len(), 1, "{requests:?}");
        let names: Vec<&str> = horse.0.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["HorseParents", "HorseResults"]);
        assert_eq!(horse.of("HorseParents").next().unwrap().fields["data"], whole(10)[1].1["data"]);

        assert_eq!(horses.delete(id()).await.unwrap(), 2);
        assert!(horses.get(id()).await.unwrap().is_none());
    });
}

#[test]
fn k5_nothing_of_a_horse_is_written_when_part_of_it_is_wrong() {
    stores::each(async |store| {
        let keiba = systems::open("keiba", &store).await;
        let horses = horses(&keiba);
        let mut wrong = whole(10);
        wrong[1].1.insert("data".to_owned(), map([("sire", "Kitasan Black".into())]));
        assert!(matches!(horses.put(wrong).await, Err(Error::Invalid(_))));
        let mut apart = whole(10);
        apart[1].1.insert("horse_id".to_owned(), "other".into());
        assert!(matches!(horses.put(apart).await, Err(Error::NotAllowed(_))));
        assert!(horses.get(id()).await.unwrap().is_none());
    });
}

#[test]
fn k11_an_oversize_member_is_split_within_the_transaction() {
    stores::each_with_transactions(async |store| {
        let keiba = systems::open("keiba", &store).await;
        let horses = horses(&keiba);
        horses.put(whole(900_000)).await.unwrap();
        horses.put(whole(500_000)).await.unwrap();
        let read = horses.get(id()).await.unwrap().unwrap();
        assert_eq!(read.0.len(), 2);
        assert!(read.of("HorseResults").next().unwrap().fields["data"] == whole(500_000)[0].1["data"]);
        horses.delete(id()).await.unwrap();
        let left = keiba.entries("HorseResults").unwrap().within(["2019105219"]).even_expired().count().await;
        assert_eq!(left.unwrap(), 0);
    });
}

#[test]
fn k5_k7_a_fetched_horse_is_kept_and_the_source_is_called_once() {
    stores::each_with_transactions(async |store| {
        let keiba = systems::open("keiba", &store).await;
        let horses = horses(&keiba);
        let calls = Arc::new(AtomicUsize::new(0));
        let fetch = || {
            let calls = Arc::clone(&calls);
            horses.fetch(id(), move |_: Fields| {
                calls.fetch_add(1, Ordering::Relaxed);
                async { Ok::<_, std::io::Error>(horse(10)) }
            })
        };
        assert!(matches!(horses.look(id()).await, Look::Miss(_)));
        let first = fetch().await.unwrap();
        assert_eq!((first.origin(), first.0.len()), (&Origin::Source, 2));
        let second = fetch().await.unwrap();
        assert_eq!((second.origin(), second.0.len()), (&Origin::Store, 2));
        assert!(matches!(horses.look(id()).await, Look::Hit(_)));
        assert_eq!(calls.load(Ordering::Relaxed), 1);

        keiba.entries("HorseParents").unwrap().delete(id()).await.unwrap();
        fetch().await.unwrap();
        assert_eq!(calls.load(Ordering::Relaxed), 2, "half a horse is a miss");
        store.clock().advance(Duration::from_secs(8 * 86400));
        fetch().await.unwrap();
        assert_eq!(calls.load(Ordering::Relaxed), 3, "an expired one too");
    });
}

#[test]
fn s1_one_query_gives_a_shop_with_its_pages() {
    stores::each(async |store| {
        let system = systems::open("shops", &store).await;
        let domain = || Fields::from([("domain".to_owned(), "example.de".into())]);
        let page = |path: &str| {
            let mut page = domain();
            let url = format!("https://example.de/{path}");
            page.extend([
                ("url".to_owned(), url.as_str().into()),
                ("kind".to_owned(), "product".into()),
                ("status".to_owned(), "ok".into()),
            ]);
            page
        };
        system.entries("Shop").unwrap().put(domain()).await.unwrap();
        for written in system.entries("Page").unwrap().put_many((0..60).map(|at| page(&at.to_string()))).await
        {
            written.unwrap();
        }
        let shops = system.collection("ShopWithPages").unwrap();
        store.requests().take();
        let shop = shops.get(domain()).await.unwrap().unwrap();
        assert_eq!(store.requests().take().len(), 1);
        assert_eq!((shop.of("Shop").count(), shop.of("Page").count()), (1, 60));
        assert!(shops.get(Fields::from([("domain".to_owned(), "other.de".into())])).await.unwrap().is_none());
    });
}

#[test]
fn a_store_without_transactions_says_so() {
    stores::each(async |store| {
        if stores::knows_transactions(&store).await {
            return;
        }
        let keiba = systems::open("keiba", &store).await;
        let error = horses(&keiba).put(whole(10)).await.unwrap_err();
        assert!(matches!(error, Error::Store(larder::store::Error::Unsupported(_))), "{error}");
    });
}

#[test]
fn an_unknown_collection_is_none() {
    stores::run(async {
        let keiba = systems::open("keiba", &Store::memory().await).await;
        assert!(keiba.collection("Cow").is_none());
    });
}

#[test]
fn k6_a_days_races_are_a_list_of_track_number_and_race() {
    stores::each(async |store| {
        let keiba = systems::open("keiba", &store).await;
        let days = keiba.entries("RaceDay").unwrap();
        let date = || Fields::from([("date".to_owned(), Value::Date("2024-05-26".parse().unwrap()))]);
        let race = |track: &str, number: i64| {
            map([
                ("track_name", track.into()),
                ("race_number", number.into()),
                ("race_id", format!("2024050212{number:02}").as_str().into()),
            ])
        };
        let mut day = date();
        day.insert("data".to_owned(), Value::List(vec![race("Tokyo", 11), race("Kyoto", 12)]));
        days.put(day.clone()).await.unwrap();
        assert_eq!(days.get(date()).await.unwrap().unwrap().fields["data"], day["data"]);

        day.insert("data".to_owned(), Value::List(vec![race("Tokyo", 0)]));
        let error = days.put(day).await.unwrap_err();
        assert!(error.to_string().contains("RaceDay.data[0].race_number"), "{error}");
    });
}
