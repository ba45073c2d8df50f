//! Sets and maps of typed values: kept as DynamoDB keeps them, on every store, and changed in part.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

#[macro_use]
mod stores;
mod systems;

use std::collections::{BTreeMap, BTreeSet};

use larder::store::ops::{GetItem, ReturnCapacity};
use larder::{Entry, Error, Fields, Shelf, Store, System, Value};
use larder_model::{AttributeValue, Item};

const PARCELS: &str = r#"
system parcels

param table: string = "parcels" from ENV

table parcels {
  name  "{table}-parcels"
  key   pk

  index ByOwner as by_owner  owner / number  project places, seals, steps

  entity Parcel {
    key  "PARCEL#{number}"

    number:    string nonempty
    /// Where it was seen.
    places:    set<string>
    weights:   set<decimal> len ..=2
    seals:     set<bytes> nonempty
    charges:   map<string, decimal>
    steps:     map<string, Step>? len ..=2
    // Nothing rests on these.
    tags:      set<string>
    notes:     map<string, string>?
    owner:     string? nonempty
    seen_in  = places.len()
  }

  entity Loose {
    key     "LOOSE#{number}"
    checks  record faults

    number: string nonempty
    marks:  set<int>
    sizes:  set<int> nonempty
    prices: map<string, decimal>
    groups: map<string, set<int>> default []
    seen:   [int] default []
    faults: [Issue] default []
  }
}

type Step { at: instant, by: string, flags: set<string> }
type Issue { field: string, message: string }
"#;

async fn open(store: &Store) -> (System, Shelf<Entry>) {
    let system = systems::open_text(PARCELS, store).await;
    let parcels = system.entries("Parcel").expect("the entity is there");
    (system, parcels)
}

fn number(text: &str) -> Value {
    Value::Number(text.parse().expect("it is a number"))
}

fn list<const N: usize>(values: [Value; N]) -> Value {
    Value::List(values.into())
}

fn map<const N: usize>(values: [(&str, Value); N]) -> Value {
    Value::Map(values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

fn fields<const N: usize>(pairs: [(&str, Value); N]) -> Fields {
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn key(number: &str) -> Fields {
    fields([("number", number.into())])
}

fn parcel(number: &str) -> Fields {
    let seal = Value::Bytes(vec![7, 0]);
    fields([("number", number.into()), ("seals", list([seal])), ("charges", map([]))])
}

/// The item as it is stored.
async fn stored(store: &Store, key: &str) -> Item {
    let table = store.list_tables().await.unwrap().remove(0);
    let key = Item::from_iter([("pk".to_owned(), key)]);
    let request = GetItem { table, key, projection: None, consistent: true, capacity: ReturnCapacity::None };
    store.get_item(request).await.unwrap().expect("it is there")
}

async fn what_is_put_comes_back(store: Store) {
    let (_, parcels) = open(&store).await;
    let at = Value::Instant("2026-01-15T10:00:00Z".parse().unwrap());
    let step = map([("at", at.clone()), ("by", "post".into()), ("flags", list([]))]);
    let mut given = parcel("1");
    given.extend(fields([
        ("places", list(["Lund".into(), "Kiruna".into(), "Lund".into()])),
        ("weights", list([number("2.5"), number("10")])),
        ("charges", map([("customs", number("12.50")), ("a.b \"c\"", number("0"))])),
        ("steps", map([("sent", step)])),
    ]));
    parcels.create(given).await.unwrap();
    let read = parcels.get(key("1")).await.unwrap().unwrap();
    assert_eq!(read.fields["places"], list(["Kiruna".into(), "Lund".into()]));
    assert_eq!(read.fields["weights"], list([number("2.5"), number("10")]));
    assert_eq!(read.fields["seals"], list([Value::Bytes(vec![7, 0])]));
    assert_eq!(read.fields["charges"], map([("customs", number("12.5")), ("a.b \"c\"", number("0"))]));
    assert_eq!(read.fields["seen_in"], 2.into());
    let sent = map([("at", at), ("by", "post".into())]);
    assert_eq!(read.fields["steps"], map([("sent", sent)]));

    let item = stored(&store, "PARCEL#1").await;
    assert_eq!(item.get("places"), Some(&AttributeValue::Ss(["Kiruna".into(), "Lund".into()].into())));
    assert!(matches!(item.get("weights"), Some(AttributeValue::Ns(_))));
    assert!(matches!(item.get("seals"), Some(AttributeValue::Bs(_))));
    assert!(matches!(item.get("charges"), Some(AttributeValue::M(_))));
}

async fn an_empty_set_is_left_out_and_read_back_as_empty(store: Store) {
    let (_, parcels) = open(&store).await;
    parcels.create(parcel("1")).await.unwrap();
    assert!(!stored(&store, "PARCEL#1").await.contains("places"));
    let read = parcels.get(key("1")).await.unwrap().unwrap();
    assert_eq!((&read.fields["places"], &read.fields["seen_in"]), (&list([]), &0.into()));

    let whole = parcels.update(key("1")).set_value("places", list(["Lund".into()])).await.unwrap();
    assert_eq!(whole.fields["seen_in"], 1.into());
    let none = parcels.update(key("1")).set_value("places", list([])).await.unwrap();
    assert_eq!((&none.fields["places"], &none.fields["seen_in"]), (&list([]), &0.into()));
    assert!(!stored(&store, "PARCEL#1").await.contains("places"));

    let mut read = parcels.get(key("1")).await.unwrap().unwrap();
    read.fields.insert("places".to_owned(), list(["Umeå".into()]));
    assert!(parcels.put(read.clone()).await.unwrap().changed());
    read.fields.insert("places".to_owned(), list([]));
    assert!(parcels.put(read.clone()).await.unwrap().changed());
    assert!(!parcels.put(read).await.unwrap().changed());
}

async fn what_is_wrong_is_named_before_anything_is_written(store: Store) {
    let (_, parcels) = open(&store).await;
    let mut wrong = parcel("1");
    wrong.extend(fields([
        ("places", list(["a".into(), "b".into(), 3.into()])),
        ("seals", list([])),
        ("charges", map([("mon", "much".into())])),
    ]));
    let told = parcels.create(wrong).await.unwrap_err().to_string();
    for named in [
        "Parcel.places[2]: must be of type string, and it is 3",
        "Parcel.seals: must not be empty",
        r#"Parcel.charges["mon"]: must be of type decimal, and it is "much""#,
    ] {
        assert!(told.contains(named), "{told}");
    }
    assert!(parcels.get(key("1")).await.unwrap().is_none());

    parcels.create(parcel("1")).await.unwrap();
    let told = parcels.update(key("1")).insert("places", [4_i64]).await.unwrap_err().to_string();
    assert!(told.contains("Parcel.places[0]: must be of type string"), "{told}");
    let told = parcels.update(key("1")).insert_at("charges", "mon", true).await.unwrap_err().to_string();
    assert!(told.contains(r#"Parcel.charges["mon"]: must be of type decimal"#), "{told}");
    let told = parcels.update(key("1")).insert("charges", [4_i64]).await.unwrap_err().to_string();
    assert!(told.contains("must be a set"), "{told}");
    let told = parcels.update(key("1")).remove_at("places", "x").await.unwrap_err().to_string();
    assert!(told.contains("must be a map"), "{told}");
    let both = parcels.update(key("1")).insert("places", ["a".to_owned()]).remove("places", ["b".to_owned()]);
    let told = both.await.unwrap_err().to_string();
    assert!(told.contains("must be changed in one way"), "{told}");
}

async fn members_of_a_set_are_put_in_and_taken_out(store: Store) {
    let (_, parcels) = open(&store).await;
    parcels.create(parcel("1")).await.unwrap();
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let update = |members: &[&str]| parcels.update(key("1")).insert("places", texts(members));
    let read = update(&["Lund", "Umeå"]).await.unwrap();
    assert_eq!(read.fields["seen_in"], 2.into());
    let read = update(&["Umeå", "Kiruna"]).await.unwrap();
    assert_eq!(read.fields["places"], list(["Kiruna".into(), "Lund".into(), "Umeå".into()]));
    assert_eq!(read.fields["seen_in"], 3.into());
    update(&[]).await.unwrap();
    let gone = parcels.update(key("1")).remove("places", texts(&["Lund", "Umeå", "Kiruna", "Rom"]));
    let read = gone.await.unwrap();
    assert_eq!((&read.fields["places"], &read.fields["seen_in"]), (&list([]), &0.into()));
    assert!(!stored(&store, "PARCEL#1").await.contains("places"));

    // How many there are is known from what is there: two, of which one is put in again.
    let weights = |weights: &[i64]| parcels.update(key("1")).insert("weights", weights.to_vec());
    weights(&[1, 2]).await.unwrap();
    weights(&[2]).await.unwrap();
    let told = weights(&[3]).await.unwrap_err();
    assert!(matches!(told, Error::Invalid(_)), "{told}");
    let told = parcels.update(key("1")).remove("seals", [vec![7_u8, 0]]).await.unwrap_err().to_string();
    assert!(told.contains("Parcel.seals: must not be empty"), "{told}");
}

async fn one_entry_of_a_map_is_set_and_removed(store: Store) {
    let (_, parcels) = open(&store).await;
    parcels.create(parcel("1")).await.unwrap();
    let charge = |name: &str, amount: i64| parcels.update(key("1")).insert_at("charges", name, amount);
    charge("customs", 12).await.unwrap();
    charge("a.b", 1).await.unwrap();
    let read = charge("customs", 13).insert_at("charges", "late", 2_i64).await.unwrap();
    let charges = map([("a.b", 1.into()), ("customs", 13.into()), ("late", 2.into())]);
    assert_eq!(read.fields["charges"], charges);
    let removed = parcels.update(key("1")).remove_at("charges", "a.b").remove_at("charges", "none");
    assert_eq!(removed.await.unwrap().fields["charges"], map([("customs", 13.into()), ("late", 2.into())]));

    // A map that is not there yet is made, and is not made by taking something out of it.
    let read = parcels.update(key("1")).remove_at("steps", "sent").await.unwrap();
    assert!(!read.fields.contains_key("steps"));
    let at = Value::Instant("2026-01-15T10:00:00Z".parse().unwrap());
    let step = BTreeMap::from([("at".to_owned(), at), ("by".to_owned(), "post".into())]);
    let step = |name: &str| parcels.update(key("1")).insert_at("steps", name, Raw(Value::Map(step.clone())));
    step("sent").await.unwrap();
    let read = step("seen").await.unwrap();
    let Value::Map(steps) = &read.fields["steps"] else { panic!("{:?}", read.fields) };
    assert_eq!(steps.keys().collect::<Vec<_>>(), ["seen", "sent"]);
    let told = step("lost").await.unwrap_err().to_string();
    assert!(told.contains("Parcel.steps: must have a length in 0..=2"), "{told}");
}

struct Raw(Value);

impl larder::FieldType for Raw {
    const NAME: &'static str = "anything";

    fn to_value(self) -> Value {
        self.0
    }

    fn from_value(value: Value) -> Option<Self> {
        Some(Self(value))
    }
}

async fn parts_that_nothing_rests_on_are_changed_where_they_are(store: Store) {
    let (_, parcels) = open(&store).await;
    parcels.create(parcel("1")).await.unwrap();
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let update = || parcels.update(key("1"));
    let read = update().insert("tags", texts(&["red", "blue", "red"])).await.unwrap();
    assert_eq!(read.fields["tags"], list(["blue".into(), "red".into()]));
    let read = update().insert("tags", texts(&["red", "green"])).await.unwrap();
    assert_eq!(read.fields["tags"], list(["blue".into(), "green".into(), "red".into()]));
    let stored_tags = AttributeValue::Ss(["blue".into(), "green".into(), "red".into()].into());
    assert_eq!(stored(&store, "PARCEL#1").await.get("tags"), Some(&stored_tags));
    update().remove("tags", texts(&["blue", "none", "blue"])).await.unwrap();
    update().remove("tags", texts(&[])).await.unwrap();
    let read = update().remove("tags", texts(&["red", "green"])).await.unwrap();
    assert_eq!(read.fields["tags"], list([]));
    assert!(!stored(&store, "PARCEL#1").await.contains("tags"));
    update().remove("tags", texts(&["red"])).await.unwrap();

    let read = update().remove_at("notes", "mon").await.unwrap();
    assert!(!read.fields.contains_key("notes"));
    let read = update().insert_at("notes", "mon", "wet".to_owned()).remove_at("notes", "tue").await.unwrap();
    assert_eq!(read.fields["notes"], map([("mon", "wet".into())]));
    let more =
        update().insert_at("notes", "a.b", "dry".to_owned()).insert_at("notes", "mon", "dry".to_owned());
    assert_eq!(more.await.unwrap().fields["notes"], map([("a.b", "dry".into()), ("mon", "dry".into())]));
    let read = update().remove_at("notes", "mon").remove_at("notes", "a.b").await.unwrap();
    assert_eq!(read.fields["notes"], map([]));

    let told = parcels.update(key("2")).insert("tags", texts(&["red"])).await.unwrap_err();
    assert!(matches!(told, Error::Missing { .. }), "{told}");
    let told = parcels.update(key("2")).insert_at("notes", "mon", "wet".to_owned()).await.unwrap_err();
    assert!(matches!(told, Error::Missing { .. }), "{told}");
}

async fn plain_inserts_that_race_lose_nothing(store: Store) {
    let (_, parcels) = open(&store).await;
    parcels.create(parcel("1")).await.unwrap();
    let names: BTreeSet<String> = (0..8).map(|at| format!("name {at}")).collect();
    // The first entry makes the map, whoever comes first.
    let updates = names.iter().map(|name| {
        let update = parcels.update(key("1")).insert("tags", [name.clone()]);
        async move { update.insert_at("notes", name.clone(), "seen".to_owned()).await }
    });
    for done in futures_util::future::join_all(updates).await {
        done.unwrap();
    }
    let read = parcels.get(key("1")).await.unwrap().unwrap();
    let Value::List(tags) = &read.fields["tags"] else { panic!("{:?}", read.fields) };
    let Value::Map(notes) = &read.fields["notes"] else { panic!("{:?}", read.fields) };
    assert_eq!((tags.len(), notes.len()), (8, 8));
}

#[test]
fn a_transaction_changes_sets_and_maps() {
    stores::each_with_transactions(async |store| {
        let (system, parcels) = open(&store).await;
        parcels.create(parcel("1")).await.unwrap();
        parcels.create(parcel("2")).await.unwrap();
        // Of a map that is not there yet, the first entry makes one.
        let one = parcels.update(key("1")).insert_at("notes", "mon", "wet".to_owned());
        let one = one.insert("tags", ["red".to_owned(), "red".to_owned()]);
        let two = parcels.update(key("2")).remove_at("notes", "mon");
        let two = two.insert("places", ["Lund".to_owned(), "Lund".to_owned()]);
        system.transaction().update(one).update(two).run().await.unwrap();
        let read = parcels.get(key("1")).await.unwrap().unwrap();
        assert_eq!(read.fields["notes"], map([("mon", "wet".into())]));
        assert_eq!(read.fields["tags"], list(["red".into()]));
        let read = parcels.get(key("2")).await.unwrap().unwrap();
        assert!(!read.fields.contains_key("notes"));
        assert_eq!(read.fields["seen_in"], 1.into());

        let one = parcels.update(key("1")).insert_at("notes", "tue", "dry".to_owned());
        let one = one.remove("tags", ["red".to_owned()]);
        system.transaction().update(one.remove_at("notes", "mon")).run().await.unwrap();
        let read = parcels.get(key("1")).await.unwrap().unwrap();
        assert_eq!(read.fields["notes"], map([("tue", "dry".into())]));
        assert_eq!(read.fields["tags"], list([]));
    });
}

async fn what_is_given_twice_counts_once(store: Store) {
    let (_, parcels) = open(&store).await;
    parcels.create(parcel("1")).await.unwrap();
    let update = || parcels.update(key("1"));
    let read = update().insert("places", ["Umeå", "Lund", "Umeå"].map(str::to_owned)).await.unwrap();
    assert_eq!(read.fields["seen_in"], 2.into());
    let read = update().set("places", vec!["Lund".to_owned(), "Lund".to_owned()]).await.unwrap();
    assert_eq!((&read.fields["places"], &read.fields["seen_in"]), (&list(["Lund".into()]), &1.into()));
    let read = update().remove("places", ["Lund".to_owned(), "Lund".to_owned()]).await.unwrap();
    assert_eq!(read.fields["seen_in"], 0.into());
    let read = update().insert("weights", [1_i64, 2, 2]).await.unwrap();
    assert_eq!(read.fields["weights"], list([1.into(), 2.into()]));
    update().set_value("weights", list([2.into(), 1.into(), 2.into()])).await.unwrap();
}

async fn an_index_shows_the_empty_sets_it_holds(store: Store) {
    let (_, parcels) = open(&store).await;
    let mut given = parcel("1");
    given.insert("owner".to_owned(), "ann".into());
    parcels.create(given).await.unwrap();
    let found = parcels.index("ByOwner", ["ann"]).all().await.unwrap().remove(0);
    assert_eq!(found.fields["places"], list([]));
    assert_eq!(found.fields["seals"], list([Value::Bytes(vec![7, 0])]));
    // Of what it does not hold it knows nothing.
    assert!(!found.fields.contains_key("tags") && !found.fields.contains_key("weights"));
}

async fn updates_of_one_set_lose_nothing(store: Store) {
    let (_, parcels) = open(&store).await;
    parcels.create(parcel("1")).await.unwrap();
    let places: BTreeSet<String> = (0..8).map(|at| format!("place {at}")).collect();
    let updates = places.iter().map(|place| {
        let update = parcels.update(key("1")).insert("places", [place.clone()]);
        async move { update.insert_at("charges", place.clone(), 1_i64).await }
    });
    for done in futures_util::future::join_all(updates).await {
        done.unwrap();
    }
    let read = parcels.get(key("1")).await.unwrap().unwrap();
    let Value::List(found) = &read.fields["places"] else { panic!("{:?}", read.fields) };
    let Value::Map(charges) = &read.fields["charges"] else { panic!("{:?}", read.fields) };
    assert_eq!((found.len(), charges.len(), &read.fields["seen_in"]), (8, 8, &8.into()));
}

async fn faults_are_kept_where_the_schema_says_so(store: Store) {
    let (system, _) = open(&store).await;
    let loose = system.entries("Loose").unwrap();
    let odd = fields([
        ("number", "1".into()),
        ("marks", list([1.into(), "two".into()])),
        ("sizes", list([1.into()])),
        ("prices", map([("mon", number("1.5")), ("tue", "ask".into())])),
    ]);
    let made = loose.create(odd).await.unwrap();
    let Value::List(faults) = &made.fields["faults"] else { panic!("{:?}", made.fields) };
    let told = format!("{faults:?}");
    assert!(told.contains("marks[1]") && told.contains(r#"prices[\"tue\"]"#), "{told}");
    let read = loose.get(key("1")).await.unwrap().unwrap();
    assert_eq!(read.fields, made.fields);
    // What is no set is kept as the list that came; mended, it is a set.
    assert!(matches!(stored(&store, "LOOSE#1").await.get("marks"), Some(AttributeValue::L(_))));
    let mended = loose.update(key("1")).set_value("marks", list([1.into(), 2.into()])).await.unwrap();
    let Value::List(faults) = &mended.fields["faults"] else { panic!("{:?}", mended.fields) };
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert!(matches!(stored(&store, "LOOSE#1").await.get("marks"), Some(AttributeValue::Ns(_))));
}

fn loose(number: &str) -> Fields {
    fields([("number", number.into()), ("sizes", list([1.into()])), ("prices", map([]))])
}

fn faults(entry: &Entry) -> usize {
    let Value::List(faults) = &entry.fields["faults"] else { panic!("{:?}", entry.fields) };
    faults.len()
}

async fn an_update_keeps_the_faults_that_a_new_record_may_have(store: Store) {
    let (system, _) = open(&store).await;
    let entries = system.entries("Loose").unwrap();
    entries.create(loose("1")).await.unwrap();
    let update = || entries.update(key("1"));
    let read = update().set_value("marks", list([1.into(), "two".into()])).await.unwrap();
    assert_eq!(faults(&read), 1, "{:?}", read.fields);
    let read = update().set_value("marks", list([1.into()])).await.unwrap();
    assert_eq!((faults(&read), &read.fields["marks"]), (0, &list([1.into()])));
    let read = update().insert("marks", ["two".to_owned()]).await.unwrap();
    assert_eq!(faults(&read), 1, "{:?}", read.fields);
    let read = update().remove("marks", ["two".to_owned()]).await.unwrap();
    assert_eq!((faults(&read), &read.fields["marks"]), (0, &list([1.into()])));
    let read = update().insert_at("prices", "tue", "ask".to_owned()).await.unwrap();
    assert_eq!(faults(&read), 1, "{:?}", read.fields);
    let read = update().insert_at("prices", "tue", 3_i64).await.unwrap();
    assert_eq!((faults(&read), &read.fields["prices"]), (0, &map([("tue", 3.into())])));
    let read = update().append("seen", vec!["once".to_owned()]).await.unwrap();
    assert_eq!(faults(&read), 1, "{:?}", read.fields);
    assert_eq!(entries.get(key("1")).await.unwrap().unwrap().fields, read.fields);
}

async fn a_set_that_may_not_be_empty_is_never_kept_without_members(store: Store) {
    let (system, _) = open(&store).await;
    let entries = system.entries("Loose").unwrap();
    let mut empty = loose("1");
    empty.insert("sizes".to_owned(), list([]));
    let told = entries.create(empty).await.unwrap_err();
    assert!(matches!(&told, Error::Invalid(_)), "{told}");
    assert!(told.to_string().contains("Loose.sizes: must not be empty"), "{told}");
    entries.create(loose("1")).await.unwrap();
    let told = entries.update(key("1")).remove("sizes", [1_i64]).await.unwrap_err().to_string();
    assert!(told.contains("Loose.sizes: must not be empty"), "{told}");
    assert_eq!(entries.get(key("1")).await.unwrap().unwrap().fields["sizes"], list([1.into()]));

    // One inside a map is kept as it came.
    let grouped = entries.update(key("1")).set_value("groups", map([("a", list([]))])).await.unwrap();
    assert_eq!(faults(&grouped), 1, "{:?}", grouped.fields);
    let read = entries.get(key("1")).await.unwrap().unwrap();
    assert_eq!(read.fields["groups"], map([("a", list([]))]));
}

async fn what_is_no_set_is_not_lost_by_putting_something_in(store: Store) {
    let (system, _) = open(&store).await;
    let entries = system.entries("Loose").unwrap();
    let mut odd = loose("1");
    odd.insert("marks".to_owned(), "many".into());
    let made = entries.create(odd).await.unwrap();
    for update in
        [entries.update(key("1")).insert("marks", [1_i64]), entries.update(key("1")).remove("marks", [1_i64])]
    {
        let told = update.await.unwrap_err().to_string();
        assert!(told.contains("`marks` is not a set<int>"), "{told}");
    }
    assert_eq!(entries.get(key("1")).await.unwrap().unwrap().fields, made.fields);
}

on_each_store! {
    what_is_put_comes_back,
    an_empty_set_is_left_out_and_read_back_as_empty,
    what_is_wrong_is_named_before_anything_is_written,
    members_of_a_set_are_put_in_and_taken_out,
    one_entry_of_a_map_is_set_and_removed,
    parts_that_nothing_rests_on_are_changed_where_they_are,
    plain_inserts_that_race_lose_nothing,
    what_is_given_twice_counts_once,
    an_index_shows_the_empty_sets_it_holds,
    updates_of_one_set_lose_nothing,
    an_update_keeps_the_faults_that_a_new_record_may_have,
    a_set_that_may_not_be_empty_is_never_kept_without_members,
    what_is_no_set_is_not_lost_by_putting_something_in,
    faults_are_kept_where_the_schema_says_so,
}
