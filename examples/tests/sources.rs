//! Each source reads its page from the local origin, and says clearly what is wrong with one that it cannot read.

use std::time::Duration;

use larder::Loose;
use larder::jiff::Timestamp;
use larder::jiff::civil::date;
use larder::serde_json::json;
use larder_examples::lunch::{Lunch, Weekday};
use larder_examples::origin::{Manners, Origin};
use larder_examples::source::lunch::Restaurants;
use larder_examples::source::netkeiba::Netkeiba;
use larder_examples::source::openweather::OpenWeather;
use larder_examples::source::shop::{Offer, Shopfront};
use larder_examples::source::tdnet::Tdnet;
use larder_examples::source::{Error, lunch, netkeiba, openweather, shop, tdnet};

async fn origin() -> Origin {
    Origin::start(Manners::default()).await.expect("there is a free port")
}

fn moment(text: &str) -> Timestamp {
    text.parse().expect("it is a moment")
}

#[tokio::test]
async fn netkeiba_lists_the_races_of_a_day_at_all_tracks() {
    let origin = origin().await;
    let netkeiba = Netkeiba::new(&origin.url(), &origin.url()).unwrap();
    assert!(netkeiba.day(date(2024, 5, 26)).await.unwrap().is_some());
    assert!(netkeiba.day(date(2024, 5, 27)).await.unwrap().is_none());

    let races = netkeiba::day(include_str!("../pages/keiba/day.html")).unwrap();
    let shown: Vec<(&str, i64, &str)> =
        races.iter().map(|race| (&*race.track_name, race.race_number, &*race.race_id)).collect();
    assert_eq!(
        shown,
        [("東京", 11, "202405021211"), ("東京", 12, "202405021212"), ("京都", 12, "202408031012")]
    );
}

#[tokio::test]
async fn netkeiba_gives_the_horses_of_a_race_and_the_going() {
    let origin = origin().await;
    let netkeiba = Netkeiba::new(&origin.url(), &origin.url()).unwrap();
    let race = netkeiba.race("202405021211").await.unwrap().unwrap();
    assert_eq!(race.rest["name"], json!("緑風ステークス"));
    assert_eq!(race.rest["going"], json!("良"));
    assert_eq!(race.horses.len(), 3);
    assert_eq!(
        race.horses[0],
        json!({"number": 1, "horse_id": "2021100001", "name": "ミドリノカゼ", "jockey_id": "05339", "jockey": "春田"})
    );
    assert!(netkeiba.race("202408031012").await.unwrap().is_none());
}

#[tokio::test]
async fn netkeiba_gives_a_horse_from_two_pages() {
    let origin = origin().await;
    let horse =
        Netkeiba::new(&origin.url(), &origin.url()).unwrap().horse("2021100001").await.unwrap().unwrap();
    let (results, parents) = (horse.results.unwrap().data, horse.parents.unwrap().data);
    assert_eq!((&*parents.sire, &*parents.dam), ("オオカゼ", "ミドリ"));
    assert_eq!(results.results[0]["place"], json!(1));
    assert_eq!(results.results[2]["place"], json!(null));
    assert_eq!(origin.requests(), 2);
}

#[tokio::test]
async fn netkeiba_gives_the_rates_of_a_jockeys_career() {
    let origin = origin().await;
    let netkeiba = Netkeiba::new(&origin.url(), &origin.url()).unwrap();
    let jockey = netkeiba.jockey("05339").await.unwrap().unwrap();
    assert_eq!((jockey.win_rate, jockey.place_rate), (0.160, 0.413));
}

#[tokio::test]
async fn a_widened_origin_has_pages_of_every_day() {
    let origin = origin().await;
    origin.widen();
    let netkeiba = Netkeiba::new(&origin.url(), &origin.url()).unwrap();
    let races = netkeiba.day(date(2026, 11, 15)).await.unwrap().unwrap();
    assert_eq!(races.len(), 24);
    let race = netkeiba.race(&races[0].race_id).await.unwrap().unwrap();
    assert_eq!(race, netkeiba.race(&races[0].race_id).await.unwrap().unwrap());
    assert!(netkeiba.race(&races[23].race_id).await.unwrap().is_none());

    let site = Tdnet::new(&origin.url()).unwrap();
    assert_eq!(site.day(date(2026, 11, 16)).await.unwrap().len(), 6);
    assert_eq!(site.day(date(2026, 11, 15)).await.unwrap(), [], "it is a Sunday");
    assert!(Restaurants::new(&origin.url()).unwrap().menu("closed", 3).await.unwrap().is_some());
}

#[tokio::test]
async fn tdnet_lists_a_day_over_all_its_pages_in_utc() {
    let origin = origin().await;
    let site = Tdnet::new(&origin.url()).unwrap();
    let listed = site.day(date(2024, 1, 31)).await.unwrap();
    assert_eq!(listed.len(), 6);
    let first = &listed[0];
    assert_eq!((&*first.company_code, &*first.company_name), ("7203", "東海自動車"));
    assert_eq!(first.disclosed_at, moment("2024-01-31T06:30:00Z"));
    assert_eq!(first.pdf_url, format!("{}/inbs/140120240131000001.pdf", origin.url()));
    let kinds: Vec<&str> = listed.iter().map(tdnet::Listed::kind).collect();
    assert_eq!(kinds, ["決算短信", "業績予想", "決算短信", "適時開示", "自己株式", "配当"]);
    assert_eq!(site.day(date(2024, 2, 1)).await.unwrap(), []);
}

#[tokio::test]
async fn openweather_gives_the_step_nearest_to_a_moment() {
    let origin = origin().await;
    let source = OpenWeather::new(&origin.url(), "key").unwrap();
    let given = source.forecast((-22.7572, -49.9439, Timestamp::now())).await.unwrap().unwrap();
    assert!(given.temperature > 20.0);

    let page = include_str!("../pages/weather/forecast.json");
    let rain = openweather::nearest(page, moment("2025-11-26T20:40:00Z")).unwrap();
    assert_eq!((rain.temperature, rain.humidity, rain.wind_speed), (23.47, 82.0, 2.1));
    assert_eq!((rain.rainfall_intensity, &*rain.weather_description), (0.5, "chuva leve"));
    assert_eq!(rain.timestamp.to_string(), "2025-11-26T21:00:00");
    let dry = openweather::nearest(page, moment("2025-11-26T15:23:45Z")).unwrap();
    assert_eq!(dry.rainfall_intensity, 0.0);
}

#[tokio::test]
async fn a_shop_has_a_sitemap_and_pages_that_say_what_they_offer() {
    let origin = origin().await;
    let front = Shopfront::new(&origin.url()).unwrap();
    let urls = front.sitemap("antik.example").await.unwrap();
    assert_eq!(
        urls,
        [
            "https://antik.example/c/furniture",
            "https://antik.example/p/chair",
            "https://antik.example/p/clock"
        ]
    );
    let listing = front.page(&urls[0]).await.unwrap().unwrap();
    assert_eq!(listing, Offer { kind: "listing".to_owned(), status: String::new(), price: None });
    let clock = |price: &str| {
        let (kind, status) = ("product".to_owned(), "InStock".to_owned());
        Offer { kind, status, price: Some(price.to_owned()) }
    };
    assert_eq!(front.page(&urls[2]).await.unwrap(), Some(clock("480.00")));
    origin.change();
    assert_eq!(front.page(&urls[2]).await.unwrap(), Some(clock("450.00")));
    assert_eq!(front.page("https://antik.example/gone").await.unwrap(), None);
}

#[tokio::test]
async fn a_restaurant_has_a_menu_and_a_price_that_is_none_is_kept_as_it_came() {
    let origin = origin().await;
    let source = Restaurants::new(&origin.url()).unwrap();
    let lunches = source.menu("niagara", 3).await.unwrap().unwrap();
    let lunches: Vec<&Lunch> = lunches.iter().filter_map(Loose::get).collect();
    let prices: Vec<String> = lunches.iter().map(|lunch| lunch.price.to_string()).collect();
    assert_eq!(prices, ["125", "115", "119.5"]);
    assert_eq!((lunches[2].weekday, lunches[2].week, &*lunches[2].place), (Weekday::Torsdag, 3, "niagara"));
    let lunches = source.menu("kajen", 3).await.unwrap().unwrap();
    assert_eq!(lunches[0].get().unwrap().name, "Stekt strömming");
    let odd = lunches[1].odd().unwrap();
    assert_eq!((&odd["name"], &odd["price"]), (&json!("Kockens val"), &json!("fråga oss")));
    assert!(source.menu("closed", 3).await.unwrap().is_none());
}

#[test]
fn a_broken_page_says_what_is_missing() {
    let cases = [
        (netkeiba::day("<p>maintenance</p>").unwrap_err(), "nothing in it is `.RaceList_DataList`"),
        (netkeiba::race("<p>maintenance</p>").unwrap_err(), "`.RaceName` is missing"),
        (netkeiba::jockey("").unwrap_err(), "nothing in it is `.race_table_01 thead th`"),
        (netkeiba::results_of("").unwrap_err(), "nothing in it is `.db_h_race_results tbody tr`"),
        (netkeiba::parents_of("").unwrap_err(), "`.blood_table td.b_ml[rowspan='16'] a` is missing"),
        (
            tdnet::list("<table id=main-list-table><tr><td class=kjTime>noon</table>", date(2024, 1, 31), "")
                .unwrap_err(),
            "`noon` is not a time",
        ),
        (
            openweather::nearest(r#"{"list": []}"#, Timestamp::UNIX_EPOCH).unwrap_err(),
            "the forecast has no steps",
        ),
        (
            openweather::nearest("{}", Timestamp::UNIX_EPOCH).unwrap_err(),
            "missing field `list` at line 1 column 2",
        ),
        (shop::urls("<html></html>").unwrap_err(), "it has no <urlset>"),
        (
            shop::offer("<script type='application/ld+json'>{</script>").unwrap_err(),
            "its JSON-LD is broken: EOF while parsing an object at line 1 column 1",
        ),
        (lunch::menu("<h1>Semester</h1>", "kajen", 3).unwrap_err(), "nothing in it is `section.day`"),
        (
            lunch::menu("<section class=day><h2>Monday</h2></section>", "kajen", 3).unwrap_err(),
            "`Monday` is not a weekday",
        ),
    ];
    for (told, expected) in cases {
        assert_eq!(told, expected);
    }
}

#[tokio::test]
async fn a_page_that_is_not_what_it_should_be_is_named() {
    let origin = origin().await;
    // A base that leads to another page than the one asked for.
    let front = Shopfront::new(&format!("{}/antik.example/p/chair?", origin.url())).unwrap();
    let error = front.sitemap("antik.example").await.unwrap_err();
    assert!(error.to_string().starts_with(&origin.url()), "{error}");
    assert!(error.to_string().contains(" is not the page it should be: "), "{error}");
}

#[tokio::test]
async fn a_server_that_fails_is_an_error_with_its_status_in_every_source() {
    let origin = origin().await;
    origin.go_down();
    let url = origin.url();
    let netkeiba = Netkeiba::new(&url, &url).unwrap();
    let failures = [
        netkeiba.day(date(2024, 5, 26)).await.map(drop).unwrap_err(),
        netkeiba.race("202405021211").await.map(drop).unwrap_err(),
        netkeiba.horse("2021100001").await.map(drop).unwrap_err(),
        Tdnet::new(&url).unwrap().day(date(2024, 1, 31)).await.map(drop).unwrap_err(),
        OpenWeather::new(&url, "top-secret")
            .unwrap()
            .forecast((1.0, 2.0, Timestamp::now()))
            .await
            .map(drop)
            .unwrap_err(),
        Shopfront::new(&url).unwrap().sitemap("antik.example").await.map(drop).unwrap_err(),
        Restaurants::new(&url).unwrap().menu("kajen", 3).await.map(drop).unwrap_err(),
    ];
    for error in failures {
        assert!(matches!(error, Error::Status { status: 500, .. }), "{error}");
        assert!(
            error.to_string().starts_with(&url) && error.to_string().ends_with(" answers 500"),
            "{error}"
        );
        assert!(!error.to_string().contains("top-secret"), "{error}");
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unreachable_and_the_key_stays_secret() {
    let url = origin().await.url();
    let source = OpenWeather::new(&url, "top-secret").unwrap();
    assert!(!format!("{source:?}").contains("top-secret"));
    let error = source.forecast((1.0, 2.0, Timestamp::UNIX_EPOCH)).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
    assert!(!error.to_string().contains("top-secret"), "{error}");
}

#[tokio::test]
async fn a_rate_limit_is_waited_for() {
    let origin = origin().await;
    origin.behave(Manners { per_second: Some(1), ..Manners::default() });
    let front = Shopfront::new(&origin.url()).unwrap();
    let both = async { tokio::try_join!(front.sitemap("a.example"), front.sitemap("b.example")) };
    let (a, b) = tokio::time::timeout(Duration::from_secs(10), both).await.unwrap().unwrap();
    assert_eq!((a.len(), b.len()), (3, 3));
    assert!(origin.requests() > 2, "one was turned away and came again");
}

#[tokio::test]
async fn failures_are_spread_evenly() {
    let origin = origin().await;
    origin.behave(Manners { error_rate: 0.25, ..Manners::default() });
    let front = Shopfront::new(&origin.url()).unwrap();
    let mut failed = 0;
    for _ in 0..20 {
        failed += usize::from(front.sitemap("a.example").await.is_err());
    }
    assert_eq!(failed, 5);
}
