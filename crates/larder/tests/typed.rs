//! The five systems as a program sees them: through the types that `larder::schema!` makes.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::Duration;

use larder::jiff::civil::{date, datetime};
use larder::jiff::{SignedDuration, Timestamp};
use larder::serde_json::json;
use larder::{Error, Loose, Number, Origin, Rest, Store};

larder::schema!("schemas/keiba.larder");
larder::schema!("schemas/tdnet.larder");
larder::schema!("schemas/weather.larder");
larder::schema!("schemas/shops.larder");
larder::schema!("schemas/lunch.larder");
larder::schema!(pub(crate) mod all = "tests/typed/every.larder");

fn moment(text: &str) -> Timestamp {
    text.parse().expect("it is a moment")
}

fn number(text: &str) -> Number {
    text.parse().expect("it is a number")
}

mod in_keiba {
    use super::keiba::{
        Jockey, JockeyStats, Keiba, NewHorse, NewHorseParents, NewHorseResults, NewRace, Parents,
        PastResults, Race, RaceCard, RaceKey, RaceRef,
    };
    use super::*;

    fn card() -> RaceCard {
        let rest = Rest::from([("going".to_owned(), json!("firm"))]);
        RaceCard { horses: vec![json!({"name": "Deep Impact", "number": 5})], rest }
    }

    #[tokio::test]
    async fn a_race_is_fetched_once_and_then_kept() {
        let keiba = Keiba::open(Store::memory().await).await.unwrap();
        let scrape = |id: String| async move {
            assert_eq!(id, "202405021211");
            Ok::<RaceCard, io::Error>(card())
        };
        let race = keiba.races().fetch("202405021211", scrape).await.unwrap();
        assert_eq!((race.race_id.as_str(), &race.data), ("202405021211", &card()));
        assert_eq!(race.origin(), &Origin::Source);

        let fails = |_| async { Err::<RaceCard, _>(io::Error::other("netkeiba is down")) };
        let again = keiba.races().fetch(race.key(), fails).await.unwrap();
        assert_eq!((again.origin(), &again.data), (&Origin::Store, &card()));
    }

    #[tokio::test]
    async fn a_key_is_made_from_text_and_from_itself() {
        let key = RaceKey { race_id: "1".to_owned() };
        assert_eq!(RaceKey::from("1"), key);
        assert_eq!(RaceKey::from("1".to_owned()), key);
        assert_eq!(RaceKey::from(&key), key);
        assert_eq!(String::from(key), "1");
    }

    #[tokio::test]
    async fn a_record_that_was_read_can_be_changed_and_put_again() {
        let keiba = Keiba::open(Store::memory().await).await.unwrap();
        let races = keiba.races();
        let mut race: Race = races.create(NewRace { race_id: "1".to_owned(), data: card() }).await.unwrap();
        race.data.rest.insert("going".to_owned(), json!("soft"));
        assert!(races.put(race.clone()).await.unwrap().changed());
        assert!(!races.put(race).await.unwrap().changed());
        assert_eq!(races.get("1").await.unwrap().unwrap().data.rest["going"], json!("soft"));
    }

    #[tokio::test]
    async fn k6_a_day_is_a_list_of_races() {
        let keiba = Keiba::open(Store::memory().await).await.unwrap();
        let races = vec![RaceRef {
            track_name: "東京".to_owned(),
            race_number: 11,
            race_id: "202405021211".to_owned(),
        }];
        let found = races.clone();
        let scrape = move |day| {
            assert_eq!(day, date(2024, 5, 26));
            let found = found.clone();
            async move { Ok::<_, io::Error>(found) }
        };
        let day = keiba.race_days().fetch(date(2024, 5, 26), scrape).await.unwrap();
        assert_eq!((day.date, &day.data), (date(2024, 5, 26), &races));
    }

    fn horse(id: &str) -> NewHorse {
        let parents = Parents {
            sire: "Kitasan Black".to_owned(),
            dam: "Chateau Blanche".to_owned(),
            rest: Rest::new(),
        };
        let results = PastResults { results: vec![json!({"place": 1})], rest: Rest::new() };
        NewHorse {
            results: Some(NewHorseResults { horse_id: id.to_owned(), data: results }),
            parents: Some(NewHorseParents { horse_id: id.to_owned(), data: parents }),
        }
    }

    #[tokio::test]
    async fn k5_a_horse_is_two_records_read_as_one() {
        let keiba = Keiba::open(Store::memory().await).await.unwrap();
        keiba.horses().put(horse("2019105219")).await.unwrap();
        let read = keiba.horses().get("2019105219").await.unwrap().unwrap();
        assert_eq!(read.parents.unwrap().data.sire, "Kitasan Black");
        assert_eq!(read.results.unwrap().data.results.len(), 1);
        assert_eq!(
            keiba.horse_parents().get("2019105219").await.unwrap().unwrap().data.dam,
            "Chateau Blanche"
        );

        let scrape = |id: String| async move { Ok::<_, io::Error>(horse(&id)) };
        let fetched = keiba.horses().fetch("2016104854", scrape).await.unwrap();
        assert_eq!((fetched.origin(), fetched.results.is_some()), (&Origin::Source, true));
    }

    #[tokio::test]
    async fn the_handle_of_every_entity_is_called_like_many_of_them() {
        let keiba = Keiba::open(Store::memory().await).await.unwrap();
        assert!(keiba.horse_results().get("1").await.unwrap().is_none());
        assert!(keiba.horse_parents().get("1").await.unwrap().is_none());
        let stats = JockeyStats { win_rate: 0.25, place_rate: 0.5, rest: Rest::new() };
        let ask = |_| async {
            Ok::<_, io::Error>(JockeyStats { win_rate: 0.25, place_rate: 0.5, rest: Rest::new() })
        };
        keiba.jockeys().fetch("05339", ask).await.unwrap();
        let jockey: Jockey = keiba.jockeys().get("05339").await.unwrap().unwrap();
        assert_eq!(jockey.data, stats);
    }
}

mod in_tdnet {
    use super::tdnet::{ExecutionStatus, ExportStatus, NewDisclosure, NewExecution, NewExport, Tdnet};
    use super::*;

    const ID: &str = "6f1f0a4e-8c5b-4b6e-9f0a-2f1f0a4e8c5b";

    fn disclosure(at: &str, title: &str) -> NewDisclosure {
        NewDisclosure {
            seq: None,
            company_code: "7203".to_owned(),
            company_name: "Toyota".to_owned(),
            disclosure_type: "earnings".to_owned(),
            title: title.to_owned(),
            disclosed_at: moment(at),
            pdf_url: None,
            pdf_s3_key: None,
            downloaded_at: moment(at),
        }
    }

    #[tokio::test]
    async fn t3_a_sequence_that_is_left_out_takes_the_next_number() {
        let tdnet = Tdnet::open(Store::memory().await).await.unwrap();
        for seq in 1..=2 {
            let made = tdnet.disclosures().create(disclosure("2024-01-31T15:00:00Z", "Q3")).await.unwrap();
            assert_eq!((made.seq, made.disclosure_id), (seq, format!("20240201_7203_00{seq}")));
        }
        let read = tdnet.disclosures().get("20240201_7203_002").await.unwrap().unwrap();
        assert_eq!((read.date_partition.as_str(), read.seq), ("2024-02", 2));
    }

    #[tokio::test]
    async fn t5_an_index_is_a_method_and_its_range_is_typed() {
        let tdnet = Tdnet::open(Store::memory().await).await.unwrap();
        let disclosures = tdnet.disclosures();
        for (at, title) in [("2024-01-10T01:00:00Z", "first"), ("2024-01-20T01:00:00Z", "second")] {
            disclosures.create(disclosure(at, title)).await.unwrap();
        }
        let titles = |found: Vec<tdnet::Disclosure>| found.into_iter().map(|it| it.title).collect::<Vec<_>>();
        let month = disclosures.by_month("2024-01").newest_first().all().await.unwrap();
        assert_eq!(titles(month), ["second", "first"]);
        let later = disclosures.by_company("7203").from(moment("2024-01-15T00:00:00Z")).all().await.unwrap();
        assert_eq!(titles(later), ["second"]);
    }

    #[test]
    fn t2_everything_that_is_wrong_is_told_at_construction() {
        let wrong = NewDisclosure {
            company_code: "72O3".to_owned(),
            title: String::new(),
            ..disclosure("2024-01-31T15:00:00Z", "")
        };
        let paths: Vec<String> =
            wrong.check().unwrap_err().violations.into_iter().map(|it| it.path).collect();
        assert_eq!(paths, ["Disclosure.company_code", "Disclosure.title"]);
        assert_eq!(disclosure("2024-01-31T15:00:00Z", "Q3").check(), Ok(()));
    }

    #[tokio::test]
    async fn t6_transitions_are_methods_and_others_are_refused() {
        let tdnet = Tdnet::open(Store::memory().await).await.unwrap();
        let executions = tdnet.executions();
        let run = executions.create(NewExecution::new(ID)).await.unwrap();
        assert_eq!(run.progress, 0);
        assert_eq!(executions.status().state(ID).await.unwrap(), Some(ExecutionStatus::Pending));
        let run = run.start().await.unwrap();
        assert_eq!(executions.status().state(ID).await.unwrap(), Some(ExecutionStatus::Running));

        let half = executions.update(ID).progress(50).add_success_count(2).await.unwrap();
        assert_eq!((half.progress, half.success_count), (50, 2));
        assert_eq!(executions.by_status(ExecutionStatus::Running).all().await.unwrap(), [half]);

        let failed = executions.status().fail(ID, "no network").await.unwrap();
        assert_eq!(failed.error_message.as_deref(), Some("no network"));
        assert!(matches!(run.complete().await, Err(Error::State { .. })));
    }

    #[tokio::test]
    async fn t8_a_secret_is_not_shown() {
        let tdnet = Tdnet::open(Store::memory().await).await.unwrap();
        let new =
            NewExport { download_url: Some("https://example.com/signed".to_owned()), ..NewExport::new(ID) };
        assert!(!format!("{new:?}").contains("signed"));
        let export = tdnet.exports().create(NewExport::new(ID)).await.unwrap();
        let export = export.start().await.unwrap().complete("https://example.com/signed").await.unwrap();
        assert_eq!(tdnet.exports().status().state(ID).await.unwrap(), Some(ExportStatus::Completed));
        assert_eq!(export.download_url.as_deref(), Some("https://example.com/signed"));
        let shown = format!("{export:?}");
        assert!(shown.contains("download_url: Some(a secret)") && !shown.contains("signed"), "{shown}");
    }
}

mod in_weather {
    use super::weather::{ForecastKey, Weather};
    use super::*;

    fn sunny() -> Weather {
        Weather {
            temperature: 28.5,
            humidity: 60.0,
            wind_speed: 3.25,
            rainfall_intensity: 0.0,
            weather_description: "clear sky".to_owned(),
            timestamp: datetime(2025, 11, 26, 15, 0, 0, 0),
        }
    }

    #[tokio::test]
    async fn w1_a_forecast_is_asked_for_by_place_and_time() {
        let system = weather::WeatherSystem::open(Store::memory().await).await.unwrap();
        let at = moment("2025-11-26T15:23:45Z");
        let ask = move |asked: (f64, f64, Timestamp)| async move {
            assert_eq!(asked, (-22.7572, -49.9439, at));
            Ok::<_, io::Error>(sunny())
        };
        let forecast = system.forecasts().fetch((-22.7572, -49.9439, at), ask).await.unwrap();
        assert_eq!((forecast.lat, forecast.lon, &forecast.data), (-22.7572, -49.9439, &sunny()));
        assert_eq!(forecast.hour, moment("2025-11-26T15:00:00Z"));
        system.drain(Duration::from_secs(5)).await.expect_empty();

        let later = ForecastKey { lat: -22.7572, lon: -49.9439, at: moment("2025-11-26T15:47:00Z") };
        let stored = system.forecasts().get(later).await.unwrap().unwrap();
        assert_eq!(stored.data.wind_speed, 3.25);
    }
}

mod in_shops {
    use super::shops::{CrawlState, NewPage, NewShop, Shops};
    use super::*;

    fn shop(domain: &str) -> NewShop {
        NewShop { country: Some("DE".to_owned()), ..NewShop::new(domain) }
    }

    #[tokio::test]
    async fn s8_a_claim_gives_leases_of_typed_records() {
        let shops = Shops::open(Store::memory().await).await.unwrap();
        shops.shops().create(shop("example.de")).await.unwrap();
        let mut due = shops.crawl().claim("DE").take(10).await.unwrap();
        let lease = due.next().await.unwrap().unwrap();
        assert_eq!(lease.domain, "example.de");
        assert_eq!(shops.crawl().state("example.de").await.unwrap(), Some(CrawlState::Progress));
        let done = lease.finish().await.unwrap();
        assert_eq!(shops.crawl().state(done.key()).await.unwrap(), Some(CrawlState::Done));
        assert!(done.last_crawled_end.is_some());
    }

    #[tokio::test]
    async fn s5_an_index_gives_what_it_holds() {
        let shops = Shops::open(Store::memory().await).await.unwrap();
        for domain in ["www.example.co.uk", "example.de", "other.de"] {
            shops.shops().create(shop(domain)).await.unwrap();
        }
        let siblings = shops.shops().siblings("example").all().await.unwrap();
        let domains: Vec<&str> = siblings.iter().map(|shop| shop.domain.as_str()).collect();
        assert_eq!(domains, ["example.de", "www.example.co.uk"]);
        let whole = shops.shops().get(siblings[0].key()).await.unwrap().unwrap();
        assert_eq!(whole.country.as_deref(), Some("DE"));
        let waiting = shops.shops().by_last_crawled("DE").begins_with("NEVER#").count().await.unwrap();
        assert_eq!(waiting, 3);
    }

    #[tokio::test]
    async fn pages_of_a_shop_are_a_range_of_the_table() {
        let shops = Shops::open(Store::memory().await).await.unwrap();
        for path in ["a/1", "a/2", "b/1"] {
            let page = NewPage {
                domain: "example.de".to_owned(),
                url: format!("https://example.de/{path}"),
                kind: "product".to_owned(),
                status: "in stock".to_owned(),
                price: Some("9.99".to_owned()),
            };
            shops.pages().put(page).await.unwrap();
        }
        let found =
            shops.pages().within("example.de").begins_with("https://example.de/a/").all().await.unwrap();
        assert_eq!(found.len(), 2);
        shops.shops().create(shop("example.de")).await.unwrap();
        let whole = shops.shop_with_pages().get("example.de").await.unwrap().unwrap();
        assert_eq!((whole.shop.is_some(), whole.pages.len()), (true, 3));
        let page = shops.pages().get(("example.de", "https://example.de/b/1")).await.unwrap().unwrap();
        assert_eq!(page.kind, "product");
    }
}

mod in_lunch {
    use super::lunch::{Lunch, LunchSystem, NewMenu, Weekday};
    use super::*;

    fn meal(name: &str, weekday: Weekday) -> Lunch {
        Lunch {
            name: name.to_owned(),
            description: String::new(),
            price: number("129.50"),
            weekday,
            week: 3,
            place: "Malmö".to_owned(),
        }
    }

    #[tokio::test]
    async fn l3_the_count_follows_an_append() {
        let lunch = LunchSystem::open(Store::memory().await).await.unwrap();
        let menu = NewMenu {
            restaurant: "niagara".to_owned(),
            year: 2025,
            week: 3,
            lunches: Loose::each([meal("Köttbullar", Weekday::Måndag)]),
            metadata: None,
            validation_errors: None,
            data_quality: None,
            last_updated: None,
        };
        let made = lunch.menus().create(menu).await.unwrap();
        assert_eq!(made.lunch_count, 1);
        let more = vec![meal("Pannkakor", Weekday::Torsdag)];
        let menu = lunch.menus().update(("niagara", 2025, 3)).append_lunches(more).await.unwrap();
        assert_eq!((menu.lunch_count, menu.lunches[1].get().unwrap().weekday), (2, Weekday::Torsdag));
        let history = lunch.menus().history("niagara").newest_first().all().await.unwrap();
        assert_eq!(history, [menu]);
    }

    #[test]
    fn a_choice_is_an_enum_that_reads_and_writes_its_text() {
        assert_eq!(Weekday::ALL.len(), 7);
        for day in Weekday::ALL {
            assert_eq!(day.to_string().parse(), Ok(day));
        }
        assert_eq!(Weekday::Söndag.as_str(), "söndag");
        assert!("sunday".parse::<Weekday>().is_err());
    }
}

mod in_all {
    use super::all::{
        Colour, ColourOf, Colours, Every, Inner, NewFind, NewJob, NewOption, NewResult, Part, Result, Shade,
        Shades, WorkState,
    };
    use super::*;

    #[tokio::test]
    async fn every_transition_is_a_method() {
        let every = Every::open(Store::memory().await).await.unwrap();
        let work = every.work();
        for job in ["a", "b"] {
            every.jobs().create(NewJob::new(job)).await.unwrap();
        }
        let lease = work.start("a", "one").await.unwrap();
        assert_eq!((lease.worker.as_deref(), lease.attempts()), (Some("one"), 1));
        let job = work.fail(lease, "it rained").await.unwrap();
        assert_eq!((job.work(), job.reason.as_deref()), (Some(WorkState::Waiting), Some("it rained")));
        let lease = work.start("a", "two").await.unwrap();
        assert!(work.start("a", "three").await.is_err(), "two has it");
        let job = work.finish(lease).await.unwrap();
        assert_eq!(job.work(), Some(WorkState::Done));
        assert!(matches!(work.start("a", "four").await, Err(Error::State { .. })), "it is done");

        let job = work.drop("b", "nobody wants it").await.unwrap();
        assert_eq!(job.work(), Some(WorkState::Dropped));
        every.jobs().create(NewJob::new("c")).await.unwrap();
        let lease = work.start("c", "one").await.unwrap();
        let job = work.drop_held(lease, "nor this").await.unwrap();
        assert_eq!(job.work(), Some(WorkState::Dropped));
    }

    fn part(pin: Option<&str>) -> Part {
        Part {
            long_name: "wheel".to_owned(),
            rest: Some(4),
            label: "round".to_owned(),
            pin: pin.map(str::to_owned),
            inner: Some(Inner { at: moment("2026-01-15T10:00:00.125Z"), sizes: vec![0.1, 2.0] }),
            rest_: Rest::from([("unknown".to_owned(), json!({"deep": [1, null, "x"]}))]),
        }
    }

    fn thing() -> NewResult {
        NewResult {
            name: "one".to_owned(),
            day: date(2026, 1, 15),
            count: -7,
            ratio: 0.1,
            exact: number("0.1234567890123456789"),
            flag: true,
            raw: vec![0, 255],
            document: json!({"a": [1, 2.5, null, "x", {"b": false}]}),
            id: "6f1f0a4e-8c5b-4b6e-9f0a-2f1f0a4e8c5b".to_owned(),
            link: "https://example.com/".to_owned(),
            local: datetime(2026, 1, 15, 10, 0, 0, 0),
            moment: moment("2026-01-15T10:00:00Z"),
            fine_moment: moment("2026-01-15T10:00:00.123456Z"),
            seconds: moment("2026-01-15T10:00:01Z"),
            lasts: SignedDuration::from_millis(90_500),
            texts: vec!["a".to_owned(), String::new()],
            colour: Colour::DarkRed,
            colours: vec![Colours::_2nd, Colours::Blue],
            part: part(Some("1234")),
            parts: vec![part(None)],
            words: Some(["b".to_owned(), "a".to_owned()].into()),
            numbers: Some([number("2.50"), number("-1")].into()),
            blobs: Some([vec![0, 255]].into()),
            days: [date(2026, 1, 15), date(2025, 12, 31)].into(),
            shades: Some([Shades::Dark].into()),
            ratios: [("height".to_owned(), 0.1)].into(),
            by_name: Some([("wheel".to_owned(), part(Some("4321")))].into()),
            colour_of: Some([("sky".to_owned(), ColourOf::Blue)].into()),
            groups: Some([("odd".to_owned(), [1, 3].into())].into()),
            r#type: Some("Kind".to_owned()),
            self_: Some("me".to_owned()),
            kept: None,
            note: None,
            level: None,
            share: None,
            pause: None,
            open: None,
            since: None,
            tags: None,
            shade: None,
            token: Some("abc".to_owned()),
        }
    }

    #[tokio::test]
    async fn every_type_comes_back_as_it_was_given() {
        let all = Every::open(Store::memory().await).await.unwrap();
        let new = thing();
        let made: Result = all.results().create(new.clone()).await.unwrap();
        let read = all.results().get(made.key()).await.unwrap().unwrap();
        assert_eq!(read, made);
        assert_eq!((read.name, read.day, read.count), (new.name, new.day, new.count));
        assert_eq!((read.ratio, read.exact, read.flag), (new.ratio, new.exact, new.flag));
        assert_eq!((read.raw, read.document, read.id), (new.raw, new.document, new.id));
        assert_eq!((read.link, read.local, read.moment), (new.link, new.local, new.moment));
        assert_eq!((read.fine_moment, read.seconds), (new.fine_moment, new.seconds));
        assert_eq!((read.lasts, read.texts), (new.lasts, new.texts));
        assert_eq!((read.colour, read.colours), (new.colour, new.colours));
        assert_eq!((read.part, read.parts), (new.part, new.parts));
        assert_eq!((Some(read.words), Some(read.numbers)), (new.words, new.numbers));
        assert_eq!((Some(read.blobs), read.days), (new.blobs, new.days));
        assert_eq!((Some(read.shades), read.ratios), (new.shades, new.ratios));
        assert_eq!((read.by_name, Some(read.colour_of)), (new.by_name, new.colour_of));
        assert_eq!(Some(read.groups), new.groups);
        assert_eq!((read.r#type, read.self_), (new.r#type, new.self_));
        assert_eq!((read.double, read.shout.as_deref()), (Some(-14), Some("kind")));
    }

    #[tokio::test]
    async fn what_is_left_out_is_its_default() {
        let all = Every::open(Store::memory().await).await.unwrap();
        let made = all.results().create(thing()).await.unwrap();
        assert_eq!((made.note.as_str(), made.level, made.share), ("none", 3, number("0.5")));
        assert_eq!((made.pause, made.open), (SignedDuration::from_secs(90), true));
        assert_eq!((made.since, made.tags.len(), made.shade), (date(2026, 1, 15), 0, Shade::Dark));
        assert_eq!(made.twice_noted, "none3");
    }

    #[tokio::test]
    async fn secrets_are_not_shown_wherever_they_are() {
        let shown = format!("{:?}", thing());
        assert!(!shown.contains("1234\"") && !shown.contains("4321") && !shown.contains("abc"), "{shown}");
    }

    #[tokio::test]
    async fn an_index_of_some_attributes_gives_a_view() {
        let all = Every::open(Store::memory().await).await.unwrap();
        let made = all.results().create(thing()).await.unwrap();
        let found = all.results().by_colour(Colour::DarkRed).from(-10).all().await.unwrap();
        assert_eq!((found[0].count, found[0].note.as_str(), found[0].key()), (-7, "none", made.key()));
    }

    #[tokio::test]
    async fn sets_and_maps_are_kept_with_their_faults() {
        let all = Every::open(Store::memory().await).await.unwrap();
        let finds = all.finds();
        let prices = BTreeMap::from([
            ("mon".to_owned(), Loose::Fits(number("1.5"))),
            ("tue".to_owned(), Loose::came(json!("ask"))),
        ]);
        let new = NewFind {
            find: "1".to_owned(),
            marks: Some(Loose::came(json!([1, "two"]))),
            sizes: Loose::Fits(BTreeSet::from([1])),
            tags: None,
            prices: prices.clone(),
            groups: None,
            places: None,
            faults: None,
        };
        let made = finds.create(new).await.unwrap();
        assert_eq!((made.marks.get(), made.marks.odd()), (None, Some(json!([1, "two"]))));
        assert_eq!((made.sizes.get(), &made.prices), (Some(&BTreeSet::from([1])), &prices));
        assert_eq!((made.tags.get(), made.groups.len(), made.faults.len()), (Some(&BTreeSet::new()), 0, 2));

        let mended =
            finds.update("1").marks(BTreeSet::from([2])).insert_prices("tue", number("2")).await.unwrap();
        assert_eq!((mended.marks.get(), mended.faults.len()), (Some(&BTreeSet::from([2])), 0));
        let more =
            finds.update("1").insert_marks([3]).remove_marks([2]).insert_groups("a", BTreeSet::from([1]));
        let told = more.await.unwrap_err().to_string();
        assert!(told.contains("must be changed in one way"), "{told}");
        let more = finds.update("1").insert_marks([3]).insert_groups("a", BTreeSet::from([1]));
        let more = more.remove_prices("mon").await.unwrap();
        assert_eq!(more.marks.get(), Some(&BTreeSet::from([2, 3])));
        assert_eq!(more.groups["a"].get(), Some(&BTreeSet::from([1])));
        assert_eq!(finds.get("1").await.unwrap().unwrap().prices.into_keys().collect::<Vec<_>>(), ["tue"]);
    }

    #[tokio::test]
    async fn a_record_without_required_fields_has_a_default() {
        let all = Every::open(Store::memory().await).await.unwrap();
        all.options().create(NewOption::default()).await.unwrap();
        let changed = all.options().update(()).value("x").await.unwrap();
        assert_eq!(changed.value.as_deref(), Some("x"));
        assert_eq!(all.options().update(()).clear_value().await.unwrap().value, None);
    }
}

mod in_weather_again {
    use super::weather::{Weather, WeatherSystem};
    use super::*;

    #[tokio::test]
    async fn w10_a_place_is_invalidated_at_all_hours() {
        let store = Store::memory().await;
        let system = WeatherSystem::open(store.clone()).await.unwrap();
        let load = |_| async {
            Ok::<_, io::Error>(Weather {
                temperature: 28.5,
                humidity: 65.0,
                wind_speed: 3.2,
                rainfall_intensity: 0.0,
                weather_description: "clear sky".to_owned(),
                timestamp: datetime(2025, 11, 26, 15, 0, 0, 0),
            })
        };
        for hour in 10..15 {
            let at = moment(&format!("2025-11-26T{hour}:00:00Z"));
            for lat in [-22.7572, 10.0] {
                system.forecasts().fetch((lat, -49.9439, at), load).await.unwrap();
            }
        }
        system.drain(Duration::from_secs(10)).await.expect_empty();
        let plan = system.forecasts().invalidate().lat(-22.7572).lon(-49.9439).plan().await.unwrap();
        assert_eq!((plan.items(), plan.is_scan()), (5, true));
        assert_eq!(plan.run().await.unwrap().removed, 5);
        assert_eq!(system.forecasts().stats().loads, 10);
    }
}
