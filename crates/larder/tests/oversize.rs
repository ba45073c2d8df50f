//! Items over 400 KB: split, compressed, skipped or refused, and always read back whole.

#![expect(clippy::unwrap_used, reason = "the helpers of a test fail with the test")]

mod stores;
mod systems;

use std::collections::BTreeMap;
use std::time::Duration;

use larder::store::ops::{DeleteItem, Scan, WriteOptions};
use larder::{Entry, Error, Fields, Shelf, Store, System, Value};
use larder_model::{AttributeValue, Item, TableName};
use proptest::prelude::*;

const KB: usize = 1024;

/// A race card of about so many bytes, which no compression makes smaller.
fn race(id: &str, bytes: usize) -> Fields {
    let mut random = fastrand(bytes as u64);
    let horse = |random: &mut dyn FnMut() -> u64| {
        let text: String = (0..512).map(|_| format!("{:016x}", random())).collect();
        Value::Raw(AttributeValue::S(text))
    };
    let horses = (0..bytes.div_ceil(8 * KB)).map(|_| horse(&mut random)).collect();
    card(id, Value::List(horses))
}

fn card(id: &str, horses: Value) -> Fields {
    let data = Value::Map(BTreeMap::from([("horses".to_owned(), horses)]));
    Fields::from([("race_id".to_owned(), id.into()), ("data".to_owned(), data)])
}

/// Numbers that look random and are the same each time.
fn fastrand(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    }
}

fn id(id: &str) -> Fields {
    Fields::from([("race_id".to_owned(), id.into())])
}

fn races(system: &System) -> Shelf<Entry> {
    system.entries("Race").unwrap()
}

/// Every stored item, whatever it is.
async fn stored(store: &Store) -> Vec<(TableName, Item)> {
    let mut all = Vec::new();
    for table in store.list_tables().await.unwrap() {
        let mut start = None;
        loop {
            let request = Scan { start, consistent: true, ..Scan::of(table.clone()) };
            let page = store.scan(request).await.unwrap();
            all.extend(page.items.into_iter().map(|item| (table.clone(), item)));
            start = page.last_key;
            if start.is_none() {
                break;
            }
        }
    }
    all
}

#[test]
fn k11_oversize_race_is_split_and_rejoined() {
    stores::each(async |store| {
        let keiba = systems::open("keiba", &store).await;
        let races = races(&keiba);
        let race = race("1", 1000 * KB);
        races.put(race.clone()).await.unwrap();

        let items = stored(&store).await;
        assert_eq!(items.len(), 4, "a head and three chunks");
        assert!(items.iter().all(|(_, item)| item.size() <= 400 * KB));
        let ttls: Vec<_> = items.iter().map(|(_, item)| item.get("ttl").cloned()).collect();
        assert!(ttls[0].is_some() && ttls.iter().all(|ttl| *ttl == ttls[0]), "{ttls:?}");

        let read = races.get(id("1")).await.unwrap().expect("it is there");
        assert_eq!(read.fields["data"], race["data"]);
        let read = races.within(["1"]).all().await.unwrap();
        assert_eq!(read.len(), 1, "chunks are no races");
        assert_eq!(read[0].fields["data"], race["data"]);
        let many = races.get_many([id("1")]).await;
        assert_eq!(many[0].1.as_ref().unwrap().as_ref().unwrap().fields["data"], race["data"]);
    });
}

#[test]
fn k11_a_smaller_overwrite_and_a_delete_leave_no_orphans() {
    stores::each(async |store| {
        let keiba = systems::open("keiba", &store).await;
        let races = races(&keiba);
        races.put(race("1", 900 * KB)).await.unwrap();
        races.put(race("1", 500 * KB)).await.unwrap();
        assert_eq!(stored(&store).await.len(), 3, "a head and two chunks");
        races.put(race("1", 8 * KB)).await.unwrap();
        assert_eq!(stored(&store).await.len(), 1);
        races.put(race("1", 500 * KB)).await.unwrap();
        races.delete(id("1")).await.unwrap();
        assert_eq!(stored(&store).await.len(), 0);
    });
}

#[test]
fn k11_what_is_torn_is_absent() {
    stores::each(async |store| {
        let keiba = systems::open("keiba", &store).await;
        let races = races(&keiba);
        races.put(race("1", 900 * KB)).await.unwrap();
        let items = stored(&store).await;
        let (table, chunk) = items.iter().find(|(_, item)| item.contains("larder_chunk")).unwrap();
        let key: Item =
            ["PK", "SK"].into_iter().map(|name| (name, chunk.get(name).unwrap().clone())).collect();
        store
            .delete_item(DeleteItem { table: table.clone(), key, options: WriteOptions::default() })
            .await
            .unwrap();
        assert_eq!(races.get(id("1")).await.unwrap(), None);
        assert!(races.within(["1"]).all().await.unwrap().is_empty());
    });
}

#[test]
fn k11_a_head_that_is_refused_leaves_no_chunks() {
    stores::each(async |store| {
        let keiba = systems::open("keiba", &store).await;
        let races = races(&keiba);
        races.create(race("1", 500 * KB)).await.unwrap();
        let before = stored(&store).await.len();
        let error = races.create(race("1", 900 * KB)).await.unwrap_err();
        assert!(matches!(error, Error::Exists { .. }), "{error}");
        assert_eq!(stored(&store).await.len(), before);
    });
}

#[test]
fn k11_a_failing_chunk_fails_the_write_and_keeps_what_was_there() {
    stores::run(async {
        let store = Store::memory().await;
        let keiba = systems::open("keiba", &store).await;
        let races = races(&keiba);
        let before = race("1", 500 * KB);
        races.put(before.clone()).await.unwrap();
        store.faults().only(&["PutItem"]).fail_next(1, larder::store::Fault::Error);
        let put = races.put(race("1", 900 * KB)).await.unwrap();
        assert!(put.store_error().is_some(), "keiba fails open");
        store.faults().reset();
        assert_eq!(stored(&store).await.len(), 3);
        let read = races.get(id("1")).await.unwrap().unwrap();
        assert_eq!(read.fields["data"], before["data"]);
    });
}

#[test]
fn k11_a_reader_never_joins_halves_of_two_writes() {
    stores::each(async |store| {
        let keiba = systems::open("keiba", &store).await;
        let races = races(&keiba);
        let values = [race("1", 450 * KB), race("1", 850 * KB)];
        races.put(values[0].clone()).await.unwrap();
        let write = async {
            for round in 0..10 {
                races.put(values[round % 2].clone()).await.unwrap();
            }
        };
        let read = async {
            for _ in 0..20 {
                if let Some(read) = races.get(id("1")).await.unwrap() {
                    assert!(values.iter().any(|value| value["data"] == read.fields["data"]));
                }
            }
        };
        tokio::join!(write, read);
        assert_eq!(stored(&store).await.len(), 4, "a head and three chunks");
    });
}

#[test]
fn k11_split_items_expire_as_one() {
    stores::run(async {
        let store = Store::memory().await;
        let keiba = systems::open("keiba", &store).await;
        let races = races(&keiba);
        races.put(race("1", 500 * KB)).await.unwrap();
        store.clock().advance(Duration::from_secs(8 * 86400));
        assert_eq!(races.get(id("1")).await.unwrap(), None);
    });
}

const SCHEMA: &str = r#"
system notes
param table_name: string = "notes" from KEIBA_TABLE_NAME
table notes {
  name  table_name
  key   id
  entity Note {
    OVERSIZE
    id:     string nonempty
    topic:  string?
    text:   string
  }
}
"#;

async fn notes(oversize: &str, store: &Store) -> Shelf<Entry> {
    systems::open_text(&SCHEMA.replace("OVERSIZE", oversize), store).await.entries("Note").unwrap()
}

fn note(id: &str, text: &str) -> Fields {
    Fields::from([("id".to_owned(), id.into()), ("text".to_owned(), text.into())])
}

fn note_id(id: &str) -> Fields {
    Fields::from([("id".to_owned(), id.into())])
}

#[test]
fn l14_long_texts_are_compressed_where_the_schema_says_so() {
    stores::each(async |store| {
        let notes = notes("compress over 1KB", &store).await;
        let long = "lunch ".repeat(5000);
        notes.put(note("a", &long)).await.unwrap();
        notes.put(note("b", "short")).await.unwrap();
        for (_, item) in stored(&store).await {
            assert!(item.size() < 2 * KB, "{} bytes", item.size());
            assert_eq!(
                item.contains("text"),
                item.get("id") == Some(&"b".into()),
                "it is readable when short"
            );
        }
        assert_eq!(notes.get(note_id("a")).await.unwrap().unwrap().fields["text"], long.as_str().into());

        let updated = notes.update(note_id("a")).set("topic", "food".to_owned()).await.unwrap();
        assert_eq!(updated.fields["text"], long.as_str().into());
        let read = notes.get(note_id("a")).await.unwrap().unwrap();
        assert_eq!((&read.fields["topic"], &read.fields["text"]), (&"food".into(), &long.as_str().into()));
    });
}

#[test]
fn k11_oversize_is_compressed_split_skipped_or_refused_as_declared() {
    stores::each(async |store| {
        let (soft, hard) = ("a".repeat(600 * KB), {
            let mut random = fastrand(7);
            (0..40_000).map(|_| format!("{:016x}", random())).collect::<String>()
        });
        let compressed = notes("oversize compress", &store).await;
        compressed.put(note("a", &soft)).await.unwrap();
        assert_eq!(compressed.get(note_id("a")).await.unwrap().unwrap().fields["text"], soft.as_str().into());

        let both = notes("oversize compress else split", &store).await;
        both.put(note("a", &hard)).await.unwrap();
        assert_eq!(both.get(note_id("a")).await.unwrap().unwrap().fields["text"], hard.as_str().into());

        let skipped = notes("oversize skip", &store).await;
        skipped.put(note("a", "small")).await.unwrap();
        let put = skipped.put(note("a", &soft)).await.unwrap();
        assert_eq!(put.fields["text"], soft.as_str().into(), "it is returned");
        assert_eq!(skipped.get(note_id("a")).await.unwrap(), None, "and neither it nor the old one is kept");

        let refused = notes("oversize refuse", &store).await;
        let error = refused.put(note("a", &soft)).await.unwrap_err();
        assert!(matches!(error, Error::TooLarge { bytes, .. } if bytes > 600 * KB), "{error}");
    });
}

#[test]
fn k11_a_key_without_room_for_chunks_falls_back() {
    stores::run(async {
        let store = Store::memory().await;
        let notes = notes("oversize split else refuse", &store).await;
        let long = "k".repeat(2040);
        let error = notes.put(note(&long, &"x".repeat(500 * KB))).await.unwrap_err();
        assert!(matches!(error, Error::TooLarge { .. }), "{error}");
        assert!(stored(&store).await.is_empty());
    });
}

#[test]
fn k11_a_chunk_is_not_read_as_a_record_even_if_its_key_looks_like_one() {
    stores::each(async |store| {
        let notes = notes("oversize split\n    scan allow", &store).await;
        let text = "x".repeat(900 * KB);
        notes.put(note("a", &text)).await.unwrap();
        let chunks = stored(&store).await.into_iter().filter(|(_, item)| item.contains("larder_chunk"));
        for (_, chunk) in chunks {
            let key = chunk.get("id").unwrap().as_str().unwrap().to_owned();
            let read = notes.get_many([note_id(&key)]).await.remove(0).1.unwrap();
            assert_eq!(read, None, "{key}");
        }
        let plan = notes.invalidate().plan().await.unwrap();
        assert_eq!(plan.items(), 1, "{plan}");
        plan.run().await.unwrap();
        assert!(stored(&store).await.is_empty());
    });
}

#[test]
fn k11_an_update_of_a_split_item_keeps_the_rest() {
    stores::each(async |store| {
        let notes = notes("oversize split", &store).await;
        let text = "x".repeat(700 * KB);
        notes.put(note("a", &text)).await.unwrap();
        let updated = notes.update(note_id("a")).set("topic", "long".to_owned()).await.unwrap();
        assert_eq!(updated.fields["text"], text.as_str().into());
        let read = notes.get(note_id("a")).await.unwrap().unwrap();
        assert_eq!((&read.fields["topic"], &read.fields["text"]), (&"long".into(), &text.as_str().into()));
        assert_eq!(stored(&store).await.len(), 3);
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    /// Whatever is written over whatever, what is read is what was written last, and nothing else is stored.
    #[test]
    fn k11_what_is_written_is_what_is_read(
        sizes in proptest::collection::vec((0usize..1200, any::<bool>()), 1..5),
        policy in prop_oneof![
            Just("oversize split"), Just("oversize compress else split"),
            Just("compress over 2KB\n    oversize split"),
        ],
    ) {
        stores::run(async {
            let store = Store::memory().await;
            let notes = notes(policy, &store).await;
            for (kilobytes, soft) in sizes {
                let mut random = fastrand(kilobytes as u64);
                let text: String = if soft {
                    "å".repeat(kilobytes * KB / 2)
                } else {
                    (0..kilobytes * KB / 16).map(|_| format!("{:016x}", random())).collect()
                };
                notes.put(note("a", &text)).await.unwrap();
                let read = notes.get(note_id("a")).await.unwrap().unwrap();
                assert!(read.fields["text"] == text.as_str().into(), "{kilobytes} KB");
                let heads = stored(&store).await.into_iter().filter(|(_, item)| !item.contains("larder_chunk"));
                assert_eq!(heads.count(), 1);
            }
            notes.delete(note_id("a")).await.unwrap();
            assert!(stored(&store).await.is_empty());
        });
    }
}
