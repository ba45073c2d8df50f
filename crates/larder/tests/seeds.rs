//! The five systems' items as programs without Larder write them: the layer writes the same, and reads theirs.
//!
//! `tests/clients/systems/items.json` holds the items in DynamoDB's JSON, all of one moment. The programs in
//! `tests/clients` are held to the same file, so what either side writes the other reads.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

#[macro_use]
mod stores;

use std::fmt::Debug;
use std::path::Path;
use std::time::Duration;

use larder::jiff::Timestamp;
use larder::jiff::civil::{date, datetime};
use larder::serde_json::{self, json};
use larder::store::ops::{GetItem, PutItem, Request, ReturnCapacity};
use larder::{Draft, Loose, Record, Rest, Shelf, Store};
use larder_model::{AttributeValue, Item, TableName};

larder::schema!("schemas/keiba.larder");
larder::schema!("schemas/tdnet.larder");
larder::schema!("schemas/weather.larder");
larder::schema!("schemas/shops.larder");
larder::schema!("schemas/lunch.larder");

/// The items of one system, and a store whose clock stands at their moment.
struct Items {
    store: Store,
    items: serde_json::Value,
}

impl Items {
    fn of(system: &str, store: Store) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/clients/systems/items.json");
        let file = std::fs::read_to_string(path).unwrap();
        let file: serde_json::Value = serde_json::from_str(&file).unwrap();
        let now = moment(file["now"].as_str().unwrap()).as_millisecond();
        store.clock().stop();
        let ahead = u64::try_from(now - store.clock().now().millis()).unwrap();
        store.clock().advance(Duration::from_millis(ahead));
        Self { store, items: file[system].clone() }
    }

    fn item(&self, name: &str) -> Item {
        let request = json!({"TableName": "any", "Item": self.items[name]}).to_string();
        match larder_wire::decode("DynamoDB_20120810.PutItem", request.as_bytes()).unwrap() {
            Request::PutItem(put) => put.item,
            other => panic!("{other:?} is not what was asked for"),
        }
    }

    /// Puts an item as another program would.
    async fn lay(&self, table: &str, item: Item) {
        let put = PutItem { table: TableName::new(table).unwrap(), item, options: Default::default() };
        self.store.put_item(put).await.unwrap();
    }

    async fn stored(&self, table: &str, key: &Item) -> Item {
        let request = GetItem {
            table: TableName::new(table).unwrap(),
            key: key.clone(),
            projection: None,
            consistent: true,
            capacity: ReturnCapacity::None,
        };
        self.store.get_item(request).await.unwrap().expect("it is stored")
    }

    /// What the layer writes is the item, and the item laid by another program is what the layer reads.
    async fn check<R>(&self, table: &str, name: &str, shelf: &Shelf<R>, new: impl Draft<R>, key: R::Key)
    where
        R: Record + PartialEq + Debug,
    {
        let item = self.item(name);
        let written = shelf.create(new).await.unwrap();
        let stored = self.stored(table, &key_of(&item)).await;
        assert_eq!(stored, item, "{name}");

        shelf.delete(key.clone()).await.unwrap();
        self.lay(table, item).await;
        assert_eq!(shelf.get(key).await.unwrap(), Some(written), "{name}");
    }
}

/// The key of an item of any of the five systems.
fn key_of(item: &Item) -> Item {
    let keys = ["PK", "SK", "pk", "sk", "cacheKey", "disclosure_id", "execution_id", "export_id"];
    item.iter()
        .filter(|(name, _)| keys.contains(&name.as_str()))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

fn moment(text: &str) -> Timestamp {
    text.parse().expect("it is a moment")
}

async fn keiba_items_are_those_of_its_cache(store: Store) {
    use keiba::{
        JockeyStats, Keiba, NewHorseParents, NewHorseResults, NewJockey, NewRace, NewRaceDay, Parents,
        PastResults, RaceCard, RaceRef,
    };
    let items = Items::of("keiba", store);
    let keiba = Keiba::open(items.store.clone()).await.unwrap();
    keiba.provision().await.unwrap();
    let table = "keiba_data";

    let race = NewRace {
        race_id: "202405021211".to_owned(),
        data: RaceCard {
            horses: vec![json!({"number": 5, "name": "ジャスティンミラノ", "weight": 57.5})],
            rest: Rest::from([("race_name".to_owned(), json!("東京優駿"))]),
        },
    };
    items.check(table, "race", &keiba.races(), race, "202405021211".into()).await;

    let horse_id = || "2021105857".to_owned();
    let results =
        PastResults { results: vec![json!({"race_id": "202405021211", "place": 2})], rest: Rest::new() };
    let results = NewHorseResults { horse_id: horse_id(), data: results };
    items.check(table, "horse_results", &keiba.horse_results(), results, horse_id().into()).await;

    let (sire, dam) = ("キズナ".to_owned(), "マーゴットディド".to_owned());
    let parents = NewHorseParents { horse_id: horse_id(), data: Parents { sire, dam, rest: Rest::new() } };
    items.check(table, "horse_parents", &keiba.horse_parents(), parents, horse_id().into()).await;

    let both = keiba.horses().get(horse_id()).await.unwrap().unwrap();
    assert!(both.results.is_some() && both.parents.is_some());

    let rest = Rest::from([("rides".to_owned(), json!(812))]);
    let jockey = NewJockey {
        jockey_id: "05339".to_owned(),
        data: JockeyStats { win_rate: 0.213, place_rate: 0.5, rest },
    };
    items.check(table, "jockey", &keiba.jockeys(), jockey, "05339".into()).await;

    let day = date(2024, 5, 26);
    let (track_name, race_id) = ("東京".to_owned(), "202405021211".to_owned());
    let race_day = NewRaceDay { date: day, data: vec![RaceRef { track_name, race_number: 11, race_id }] };
    items.check(table, "race_day", &keiba.race_days(), race_day, day.into()).await;
}

async fn tdnet_items_are_those_of_its_collector(store: Store) {
    use tdnet::{NewDisclosure, NewExecution, NewExport, Tdnet};
    let items = Items::of("tdnet", store);
    let tdnet = Tdnet::open(items.store.clone()).await.unwrap();
    tdnet.provision().await.unwrap();

    let disclosure = NewDisclosure {
        seq: None,
        company_code: "7203".to_owned(),
        company_name: "トヨタ自動車株式会社".to_owned(),
        disclosure_type: "決算短信".to_owned(),
        title: "2024年3月期 第3四半期決算短信".to_owned(),
        disclosed_at: moment("2024-01-31T15:00:00Z"),
        pdf_url: Some("https://www.release.tdnet.info/inbs/140120240131.pdf".to_owned()),
        pdf_s3_key: Some("pdf/2024/02/20240201_7203_001.pdf".to_owned()),
        downloaded_at: moment("2100-01-15T10:30:00Z"),
    };
    let key = "20240201_7203_001".into();
    items.check("tdnet_disclosures_dev", "disclosure", &tdnet.disclosures(), disclosure, key).await;

    let id = "6f1f0a4e-8c5b-4b6e-9f0a-2f1f0a4e8c5b";
    let run = NewExecution::new(id);
    items.check("tdnet_executions_dev", "execution", &tdnet.executions(), run, id.into()).await;
    let id = "0b0e7f8a-3c1d-4e5f-8a9b-0c1d2e3f4a5b";
    let export = NewExport::new(id);
    items.check("tdnet_export_status_dev", "export", &tdnet.exports(), export, id.into()).await;
}

async fn weather_items_are_those_of_its_cache(store: Store) {
    use weather::{ForecastKey, NewForecast, Weather, WeatherSystem};
    let items = Items::of("weather", store);
    let system = WeatherSystem::open(items.store.clone()).await.unwrap();
    system.provision().await.unwrap();
    let table = "weather-forecast-cache-prod";

    let (lat, lon, at) = (-22.7572, -49.9439, moment("2025-11-26T15:23:45Z"));
    let data = Weather {
        temperature: 28.3,
        humidity: 65.0,
        wind_speed: 12.5,
        rainfall_intensity: 35.5,
        weather_description: "Parcialmente nublado".to_owned(),
        timestamp: datetime(2025, 11, 26, 15, 0, 0, 0),
    };
    let key = ForecastKey { lat, lon, at };
    let forecast = NewForecast { lat, lon, at, data };
    items.check(table, "forecast", &system.forecasts(), forecast, key.clone()).await;

    // Python's `isoformat` writes the zone as an offset.
    let read = system.forecasts().get(key.clone()).await.unwrap();
    let mut item = items.item("forecast");
    let created = AttributeValue::from("2100-01-15T10:30:00.123000+00:00");
    item.insert("createdAt".to_owned(), created);
    items.lay(table, item).await;
    assert_eq!(system.forecasts().get(key).await.unwrap(), read);
}

async fn shop_items_are_those_of_its_crawler(store: Store) {
    use shops::{CrawlState, NewPage, NewShop, Shops};
    let items = Items::of("shops", store);
    let shops = Shops::open(items.store.clone()).await.unwrap();
    shops.provision().await.unwrap();
    let table = "aura-historia-data";
    let domain = "shop.example.co.uk";

    let shop = NewShop {
        shop_name: Some("Example Shop".to_owned()),
        country: Some("DE".to_owned()),
        ..NewShop::new(domain)
    };
    items.check(table, "shop", &shops.shops(), shop, domain.into()).await;
    let url = format!("https://{domain}/products/item-123");
    let page = NewPage {
        domain: domain.to_owned(),
        url: url.clone(),
        kind: "product".to_owned(),
        status: "in stock".to_owned(),
        price: Some("19.99".to_owned()),
    };
    items.check(table, "page", &shops.pages(), page, (domain, url).into()).await;

    // Their states are the layer's states: one that is late is stuck, and it and one that is old are due.
    items.lay(table, items.item("crawling_shop")).await;
    items.lay(table, items.item("crawled_shop")).await;
    let crawl = shops.crawl();
    assert_eq!(crawl.state("slow.example.de").await.unwrap(), Some(CrawlState::Progress));
    let names = |found: Vec<larder::Standing<shops::Shop>>| -> Vec<String> {
        found.into_iter().map(|one| one.record.domain).collect()
    };
    assert_eq!(names(crawl.stuck("DE").await.unwrap()), ["slow.example.de"]);
    assert_eq!(names(crawl.due("DE").await.unwrap()), [domain, "slow.example.de", "old.example.de"]);
    assert_eq!(names(shops.scrape().due("DE").await.unwrap()), ["old.example.de"]);

    // What the layer crawls is what they would have written, and who held the lease.
    let mut expected = items.item("shop");
    for name in ["last_crawled_start", "last_crawled_end"] {
        expected.insert(name.to_owned(), AttributeValue::from("2100-01-15T10:30:00Z"));
    }
    expected.insert("gsi2_sk".to_owned(), AttributeValue::from("DONE#2100-01-15T10:30:00Z"));
    crawl.hold(domain).await.unwrap().finish().await.unwrap();
    let stored = items.stored(table, &key_of(&expected)).await.into_iter();
    let theirs: Item = stored.filter(|(name, _)| !name.starts_with("crawl_")).collect();
    assert_eq!(theirs, expected);
}

async fn lunch_items_are_those_of_its_cache(store: Store) {
    use lunch::{Lunch, LunchSystem, Metadata, NewMenu, Quality, Weekday};
    let items = Items::of("lunch", store);
    let lunch = LunchSystem::open(items.store.clone()).await.unwrap();
    lunch.provision().await.unwrap();

    let meal = |name: &str, description: &str, price: &str, weekday| Lunch {
        name: name.to_owned(),
        description: description.to_owned(),
        price: price.parse().unwrap(),
        weekday,
        week: 3,
        place: "Niagara".to_owned(),
    };
    let menu = NewMenu {
        restaurant: "niagara".to_owned(),
        year: 2025,
        week: 3,
        lunches: Loose::each([
            meal(
                "Köttbullar med gräddsås",
                "Serveras med kokt potatis och lingonsylt",
                "125",
                Weekday::Måndag,
            ),
            meal("Pannkakor", "Med sylt och grädde", "129.50", Weekday::Torsdag),
        ]),
        metadata: Some(Loose::Fits(Metadata {
            version: "1.0".to_owned(),
            source: "niagara-parser".to_owned(),
            rest: Rest::new(),
        })),
        validation_errors: None,
        data_quality: Some(Loose::Fits(Quality { completeness: 0.95, accuracy: 0.98 })),
        last_updated: Some(Loose::Fits(moment("2025-01-20T08:00:00Z"))),
    };
    let key = ("niagara", 2025, 3).into();
    items.check("lunch-cache-dev", "menu", &lunch.menus(), menu, key).await;
}

on_each_store! {
    keiba_items_are_those_of_its_cache,
    tdnet_items_are_those_of_its_collector,
    weather_items_are_those_of_its_cache,
    shop_items_are_those_of_its_crawler,
    lunch_items_are_those_of_its_cache,
}
