//! Records that are kept with their faults: as they came, every violation listed, the same for everyone who reads them.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

#[macro_use]
mod stores;
mod systems;

use larder::serde_json::{Value as Json, json};
use larder::store::ops::{GetItem, ReturnCapacity};
use larder::{Error, FieldType as _, Fields, Loose, Store, Value};
use larder_model::{AttributeValue, Item, TableName};
use lunch::{Lunch, LunchSystem, NewMenu, Weekday};

larder::schema!("schemas/lunch.larder");

/// The fault of the lunch document: a price that is no number, and days that are none.
fn faulty() -> [Json; 3] {
    [
        json!({"name": "Ärtsoppa", "price": "on request", "weekday": "monday", "week": 3, "place": "Niagara"}),
        json!({"price": -5, "weekday": "tisdag", "week": 54, "place": "Niagara", "spicy": true}),
        json!("closed"),
    ]
}

fn good() -> Lunch {
    Lunch {
        name: "Pannkakor".to_owned(),
        description: "Med sylt".to_owned(),
        price: 95.into(),
        weekday: Weekday::Torsdag,
        week: 3,
        place: "Niagara".to_owned(),
    }
}

fn menu(lunches: Vec<Loose<Lunch>>) -> NewMenu {
    NewMenu {
        restaurant: "niagara".to_owned(),
        year: 2025,
        week: 3,
        lunches,
        metadata: None,
        validation_errors: None,
        data_quality: Some(Loose::came(json!({"completeness": "most", "accuracy": 2}))),
        last_updated: Some(Loose::came(json!("yesterday"))),
    }
}

async fn open(store: Store) -> (LunchSystem, TableName) {
    let environment = systems::environment();
    let table = TableName::new(format!("lunch-cache-{}", environment["ENVIRONMENT"])).unwrap();
    let lunch = LunchSystem::open_with(store, environment).await.unwrap();
    lunch.provision().await.unwrap();
    (lunch, table)
}

const FAULTS: [(&str, &str); 10] = [
    ("lunches[1].price", "must be of type decimal, and it is \"on request\""),
    (
        "lunches[1].weekday",
        "must be of type \"måndag\" | \"tisdag\" | \"onsdag\" | \"torsdag\" | \"fredag\" | \"lördag\" | \"söndag\", and it is \
         \"monday\"",
    ),
    ("lunches[2].name", "is required, and it is missing"),
    ("lunches[2].price", "must be positive, and it is -5"),
    ("lunches[2].week", "must be in 1..=53, and it is 54"),
    ("lunches[2].spicy", "there is no such field, and it is given"),
    ("lunches[3]", "must be of type Lunch, and it is \"closed\""),
    ("dataQuality.completeness", "must be of type float, and it is \"most\""),
    ("dataQuality.accuracy", "must be in 0..=1, and it is 2"),
    ("lastUpdated", "must be of type instant ms such as 2026-01-15T10:00:00Z, and it is \"yesterday\""),
];

async fn l17_a_menu_with_faults_is_kept_as_it_came(store: Store) {
    let (lunch, table) = open(store).await;
    let menus = lunch.menus();
    let given = std::iter::once(Loose::Fits(good())).chain(faulty().map(Loose::came));
    let put = menus.put(menu(given.collect())).await.unwrap().into_record();
    let got = menus.get(("niagara", 2025, 3)).await.unwrap().unwrap();
    let history = menus.history("niagara").strict().all().await.unwrap();
    let scanned = menus.scan().strict().all().await.unwrap();
    for menu in [&put, &got, &history[0], &scanned[0]] {
        let issues: Vec<(&str, &str)> =
            menu.validation_errors.iter().flatten().map(|issue| (&*issue.field, &*issue.message)).collect();
        assert_eq!(issues, FAULTS);
        assert_eq!((menu.lunch_count, menu.lunches[0].get()), (4, Some(&good())));
        for (lunch, came) in menu.lunches[1..].iter().zip(faulty()) {
            assert_eq!((lunch.get(), lunch.odd()), (None, Some(came)));
        }
        assert_eq!(menu.last_updated.as_ref().unwrap().odd(), Some(json!("yesterday")));
    }
    // By field names it is the same.
    let key: Fields = [("restaurant", "niagara".into()), ("year", 2025.into()), ("week", Value::from(3))]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
    let entry = lunch.entries("Menu").unwrap().get(key).await.unwrap().unwrap();
    let Value::List(lunches) = &entry.fields["lunches"] else { panic!("{entry:?}") };
    assert_eq!(Json::from_value(lunches[3].clone()), Some(json!("closed")));
    // And in the store it is what came.
    let key = Item::from_iter([("pk".to_owned(), AttributeValue::from("niagara-2025-03"))]);
    let request = GetItem { table, key, projection: None, consistent: true, capacity: ReturnCapacity::None };
    let item = lunch.store().get_item(request).await.unwrap().unwrap();
    let Some(AttributeValue::L(stored)) = item.get("lunches") else { panic!("{item:?}") };
    let came = faulty().map(|json| match json.to_value() {
        Value::Raw(stored) => stored,
        value => panic!("{value:?}"),
    });
    assert_eq!(stored[1..], came);
    let census = lunch.census("cache", |_| ()).await.unwrap().unwrap();
    assert_eq!((census.entities["Menu"].items, census.strangers.items), (1, 0));

    // Written again it is what it was, and mended it has no faults.
    let again = menus.put(got.clone()).await.unwrap();
    assert!(!again.changed(), "{again:?}");
    let mended = menus.update(("niagara", 2025, 3)).lunches(Loose::each([good()]));
    let mended = mended.clear_data_quality().clear_last_updated().await.unwrap();
    assert_eq!((mended.lunch_count, &mended.validation_errors), (1, &None));
}

async fn t15_what_the_record_rests_on_is_refused_with_all_that_is_wrong(store: Store) {
    let (lunch, _) = open(store).await;
    let menus = lunch.entries("Menu").unwrap();
    let raw = |json: Json| json.to_value();
    let given = |lunches: Json| {
        let fields = [
            ("restaurant", Value::from("Niagara")),
            ("year", Value::from(2025)),
            ("week", raw(json!("later"))),
            ("lunches", raw(lunches)),
        ];
        fields.map(|(name, value)| (name.to_owned(), value)).into_iter().collect::<Fields>()
    };
    let error = menus.put(given(json!("closed this week"))).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "Menu is not valid:\n  Menu.restaurant: must be in lower case, and it is \"Niagara\"\n  \
         Menu.week: must be of type int, and it is \"later\"\n  \
         Menu.lunches: must be of type [Lunch], and it is \"closed this week\""
    );
    // What is raw and fits is read.
    let mut fits = given(json!([{"name": "A", "price": 1, "weekday": "fredag", "week": 3, "place": "B"}]));
    fits.extend([("restaurant".to_owned(), Value::from("niagara")), ("week".to_owned(), raw(json!(3)))]);
    let menu = menus.put(fits).await.unwrap();
    assert_eq!(
        (&menu.fields["week"], menu.fields.contains_key("validation_errors")),
        (&Value::from(3), false)
    );
    assert!(matches!(menus.put(given(json!([]))).await, Err(Error::Invalid(_))));
}

on_each_store! {
    l17_a_menu_with_faults_is_kept_as_it_came,
    t15_what_the_record_rests_on_is_refused_with_all_that_is_wrong,
}
