//! Rows of the five systems that are about what is stored, and where.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

#[macro_use]
mod stores;
mod systems;

use larder::store::ops::{GetItem, ReturnCapacity};
use larder::{Entry, Environment, Fields, Schema, Shelf, Store, System, Value};
use larder_model::{AttributeValue, Item, TableName};
use larder_schema::NoFiles;
use larder_schema::jiff::civil::date;

fn fields<const N: usize>(pairs: [(&str, Value); N]) -> Fields {
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn shelf(system: &System, entity: &str) -> Shelf<Entry> {
    system.entries(entity).unwrap()
}

fn document(name: &str, value: Value) -> Value {
    Value::Map([(name.to_owned(), value)].into())
}

/// The stored form of what was put.
async fn stored(store: &Store, system: &System, entry: &Entry) -> Item {
    let table = system.schema().tables(&Environment::new()).unwrap();
    assert_eq!(table.len(), 1, "the system has one table");
    let names = store.list_tables().await.unwrap();
    let request = GetItem {
        table: names.first().unwrap().clone(),
        key: entry.kept().key().clone(),
        projection: None,
        consistent: true,
        capacity: ReturnCapacity::None,
    };
    store.get_item(request).await.unwrap().unwrap()
}

async fn k1_keys_are_those_of_the_seed(store: Store) {
    let keiba = systems::open("keiba", &store).await;
    let stats = Value::Map(
        [("win_rate".to_owned(), Value::Float(0.2)), ("place_rate".to_owned(), Value::Float(0.5))].into(),
    );
    let parents =
        Value::Map([("sire".to_owned(), Value::from("a")), ("dam".to_owned(), Value::from("b"))].into());
    let empty = || Value::List(Vec::new());
    let cases = [
        (
            "Race",
            ("race_id", Value::from("202405021211")),
            document("horses", empty()),
            "RACE#202405021211",
            "METADATA",
        ),
        ("HorseResults", ("horse_id", Value::from("1")), document("results", empty()), "HORSE#1", "RESULTS"),
        ("HorseParents", ("horse_id", Value::from("1")), parents, "HORSE#1", "PARENT"),
        ("Jockey", ("jockey_id", Value::from("05339")), stats, "JOCKEY#05339", "STATS"),
        ("RaceDay", ("date", Value::Date(date(2024, 5, 2))), empty(), "DATE#20240502", "RACES"),
    ];
    for (entity, key, data, partition, sort) in cases {
        let put = shelf(&keiba, entity).put(fields([key, ("data", data)])).await.unwrap();
        let item = stored(&store, &keiba, &put).await;
        assert_eq!(item.get("PK"), Some(&AttributeValue::from(partition)));
        assert_eq!(item.get("SK"), Some(&AttributeValue::from(sort)));
    }
}

async fn k4_storing_again_overwrites(store: Store) {
    let keiba = systems::open("keiba", &store).await;
    let races = shelf(&keiba, "Race");
    let race = |horses: Vec<Value>| {
        fields([("race_id", Value::from("1")), ("data", document("horses", Value::List(horses)))])
    };
    races.put(race(vec![])).await.unwrap();
    races.put(race(vec![Value::Raw(AttributeValue::from("Deep Impact"))])).await.unwrap();
    let found = races.get(fields([("race_id", Value::from("1"))])).await.unwrap().unwrap();
    let Value::Map(data) = &found.fields["data"] else { panic!("a document") };
    assert!(matches!(&data["horses"], Value::List(horses) if horses.len() == 1));
}

/// The names of the tables that a system makes, by what the environment says.
async fn tables_of(system: &str, environment: &[(&str, &str)], store: &Store) -> Vec<String> {
    let path = format!("{}/../../schemas/{system}.larder", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let environment: Environment =
        environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let schema = Schema::load(system, &text, &mut NoFiles, &environment).schema.unwrap();
    let opened = System::open_with(schema, store.clone(), environment).await.unwrap();
    opened.provision().await.unwrap();
    store.list_tables().await.unwrap().iter().map(ToString::to_string).collect()
}

async fn k8_the_table_is_named_by_the_environment(store: Store) {
    assert_eq!(tables_of("keiba", &[], &store).await, ["keiba_data"]);
    assert_eq!(tables_of("keiba", &[("KEIBA_TABLE_NAME", "other")], &store).await, ["keiba_data", "other"]);
}

async fn k9_the_table_is_on_demand_and_expires_by_ttl(store: Store) {
    tables_of("keiba", &[], &store).await;
    let deployed = store.describe(&TableName::new("keiba_data").unwrap()).await.unwrap().unwrap();
    let lacks = store.lacks().await.unwrap();
    if !lacks.contains_key(&larder::store::Feature::OnDemand) {
        assert_eq!(deployed.definition.billing, larder_model::Billing::OnDemand);
    }
    if !lacks.contains_key(&larder::store::Feature::TimeToLive) {
        assert_eq!(deployed.ttl_attribute.as_deref(), Some("ttl"));
    }
}

async fn t1_three_tables_are_one_system(store: Store) {
    let names = tables_of("tdnet", &[("ENV", "prod")], &store).await;
    assert_eq!(names, ["tdnet_disclosures_prod", "tdnet_executions_prod", "tdnet_export_status_prod"]);
}

async fn s14_the_table_of_shops_is_named_by_the_environment(store: Store) {
    assert_eq!(tables_of("shops", &[], &store).await, ["aura-historia-data"]);
    let names = tables_of("shops", &[("DYNAMODB_TABLE_NAME", "shops-test")], &store).await;
    assert_eq!(names, ["aura-historia-data", "shops-test"]);
}

fn weather_key(at: &str) -> Fields {
    fields([
        ("lat", Value::Float(-22.7572)),
        ("lon", Value::Float(-49.9439)),
        ("at", Value::Instant(at.parse().unwrap())),
    ])
}

fn forecast(at: &str) -> Fields {
    let data = [
        ("temperature", Value::Float(28.5)),
        ("humidity", Value::Float(65.0)),
        ("windSpeed", Value::Float(3.2)),
        ("rainfallIntensity", Value::Float(0.0)),
        ("weatherDescription", Value::from("clear sky")),
        ("timestamp", Value::Datetime("2025-11-26T15:00:00".parse().unwrap())),
    ];
    let data = data.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let mut fields = weather_key(at);
    fields.insert("data".to_owned(), Value::Map(data));
    fields
}

async fn w1_forecasts_of_one_hour_share_an_item(store: Store) {
    let weather = systems::open("weather", &store).await;
    let forecasts = shelf(&weather, "Forecast");
    let put = forecasts.put(forecast("2025-11-26T15:23:45Z")).await.unwrap();
    let key = put.kept().key().get("cacheKey").cloned();
    assert_eq!(key, Some(AttributeValue::from("weather_-22.7572_-49.9439_1764169200")));
    assert!(forecasts.get(weather_key("2025-11-26T15:47:00Z")).await.unwrap().is_some());
    assert!(forecasts.get(weather_key("2025-11-26T16:00:00Z")).await.unwrap().is_none());
}

async fn w2_a_forecast_lives_three_hours_or_what_the_environment_says(store: Store) {
    for (hours, environment) in [(3, None), (5, Some(("CACHE_TTL_HOURS", "5")))] {
        let mut environment: Environment =
            environment.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        environment.insert("ENVIRONMENT".to_owned(), format!("w2-{hours}"));
        let text = include_str!("../../../schemas/weather.larder");
        let schema = Schema::load("weather", text, &mut NoFiles, &environment).schema.unwrap();
        let weather = System::open_with(schema, store.clone(), environment).await.unwrap();
        weather.provision().await.unwrap();
        store.clock().stop();
        let put = shelf(&weather, "Forecast").put(forecast("2025-11-26T15:23:45Z")).await.unwrap();
        let ends = put.kept().expires().unwrap().seconds();
        assert_eq!(ends - store.clock().now().seconds(), hours * 3600);
    }
}

async fn s2_s3_core_domain_and_country_are_stored_as_the_seed_has_them(store: Store) {
    let shops = systems::open("shops", &store).await;
    let draft = fields([("domain", Value::from("www.example.co.uk")), ("country", Value::from("DE"))]);
    let put = shelf(&shops, "Shop").create(draft).await.unwrap();
    assert_eq!(put.fields["country"], Value::from("DE"));
    let item = stored(&store, &shops, &put).await;
    assert_eq!(item.get("core_domain_name"), Some(&AttributeValue::from("example")));
    assert_eq!(item.get("shop_country"), Some(&AttributeValue::from("COUNTRY#DE")));
}

fn lunch<const N: usize>(changed: [(&str, Value); N]) -> Value {
    let mut lunch = fields([
        ("name", Value::from("Soppa")),
        ("description", Value::from("Med bröd")),
        ("price", Value::from(95)),
        ("weekday", Value::from("måndag")),
        ("week", Value::from(3)),
        ("place", Value::from("Malmö")),
    ]);
    lunch.extend(fields(changed));
    Value::Map(lunch)
}

fn menu(lunch: Value) -> Fields {
    fields([
        ("restaurant", Value::from("niagara")),
        ("year", Value::from(2025)),
        ("week", Value::from(3)),
        ("lunches", Value::List(vec![lunch])),
    ])
}

async fn l2_every_field_of_a_lunch_is_checked(store: Store) {
    let system = systems::open("lunch", &store).await;
    let menus = shelf(&system, "Menu");
    for (field, wrong) in [
        ("price", Value::from(0)),
        ("price", Value::from("on request")),
        ("week", Value::from(54)),
        ("week", Value::from(0)),
        ("weekday", Value::from("monday")),
    ] {
        let put = menus.put(menu(lunch([(field, wrong)]))).await.unwrap();
        let Value::List(issues) = &put.fields["validation_errors"] else { panic!("a list") };
        assert!(
            matches!(&issues[..], [Value::Map(issue)] if issue["field"] == Value::Text(format!("lunches[0].{field}"))),
            "{issues:?}"
        );
    }
    assert!(menus.put(menu(lunch([]))).await.is_ok());
}

async fn l7_a_menu_lives_a_fortnight(store: Store) {
    let system = systems::open("lunch", &store).await;
    store.clock().stop();
    let put = shelf(&system, "Menu").put(menu(lunch([]))).await.unwrap();
    let ends = put.kept().expires().unwrap().seconds();
    assert_eq!(ends - store.clock().now().seconds(), 14 * 86_400);
}

/// The actions that the schema's policy allows on the table.
fn granted(system: &System) -> Vec<String> {
    let schema = system.schema();
    let policies = larder_schema::emit::iam(schema, &[], &[], &Environment::new()).unwrap();
    let [policy] = policies.as_slice() else { panic!("one grant, one policy") };
    let actions = policy.document["Statement"][0]["Action"].as_array().unwrap();
    actions.iter().map(|action| action.as_str().unwrap().trim_start_matches("dynamodb:").to_owned()).collect()
}

async fn l9_the_grant_of_lunch_allows_all_that_the_layer_calls(store: Store) {
    let system = systems::open("lunch", &store).await;
    let menus = shelf(&system, "Menu");
    let of_week = |week: i64| [("week".to_owned(), Value::from(week))].into_iter();
    let menu = |week| menu(lunch([])).into_iter().chain(of_week(week)).collect::<Fields>();
    let key = |week: i64| {
        fields([
            ("restaurant", Value::from("niagara")),
            ("year", Value::from(2025)),
            ("week", Value::from(week)),
        ])
    };
    store.requests().take();
    menus.put(menu(1)).await.unwrap();
    for written in menus.put_many([menu(2), menu(3)]).await {
        written.unwrap();
    }
    for (_, read) in menus.get_many([key(1), key(2)]).await {
        assert!(read.unwrap().is_some());
    }
    menus.update(key(1)).set_value("lunches", Value::List(Vec::new())).await.unwrap();
    menus.get(key(1)).await.unwrap();
    for (_, removed) in menus.delete_many([key(2), key(3)]).await {
        removed.unwrap();
    }
    menus.delete(key(1)).await.unwrap();
    let (granted, requests) = (granted(&system), store.requests());
    let called: Vec<usize> = granted.iter().map(|action| requests.count(action)).collect();
    assert_eq!(called.iter().sum::<usize>(), requests.total(), "{called:?} of {granted:?}");
    for action in ["PutItem", "GetItem", "UpdateItem", "DeleteItem", "BatchGetItem", "BatchWriteItem"] {
        assert!(requests.count(action) > 0, "{action}: {called:?} of {granted:?}");
    }
}

on_each_store! {
    l9_the_grant_of_lunch_allows_all_that_the_layer_calls,
    k1_keys_are_those_of_the_seed,
    k4_storing_again_overwrites,
    k8_the_table_is_named_by_the_environment,
    k9_the_table_is_on_demand_and_expires_by_ttl,
    t1_three_tables_are_one_system,
    s14_the_table_of_shops_is_named_by_the_environment,
    w1_forecasts_of_one_hour_share_an_item,
    w2_a_forecast_lives_three_hours_or_what_the_environment_says,
    s2_s3_core_domain_and_country_are_stored_as_the_seed_has_them,
    l2_every_field_of_a_lunch_is_checked,
    l7_a_menu_lives_a_fortnight,
}
