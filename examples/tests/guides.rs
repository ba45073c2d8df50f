//! The Rust of README and of the five guides, as it stands there: `./test docs` looks for their lines here and in the programs.

use std::error::Error;
use std::time::Duration;

use larder::serde_json::json;
use larder::{Address, Loose, Store};
use larder_examples::Options;
use larder_examples::keiba::Keiba;
use larder_examples::lunch::LunchSystem;
use larder_examples::shops::{NewShop, Shops};
use larder_examples::source::lunch::{Restaurants, new_menu};
use larder_examples::source::netkeiba::Netkeiba;
use larder_examples::source::openweather::{OpenWeather, PLACES};
use larder_examples::source::shop::Shopfront;
use larder_examples::tdnet::Tdnet;
use larder_examples::weather::WeatherSystem;

type Outcome = Result<(), Box<dyn Error>>;

mod scrape {
    use larder_examples::keiba::RaceCard;

    pub(crate) async fn race(_id: String) -> Result<RaceCard, std::io::Error> {
        Ok(RaceCard::new(Vec::new()))
    }
}

/// One after the other, because the directory that a process is in is one for all.
#[tokio::test]
async fn what_the_guides_show_runs() -> Outcome {
    let options =
        Options { store: Address::Memory, base_url: None, delay: 0, error_rate: 0.0, per_second: None };
    let (_origin, url) = options.origin().await?;
    let _keiba = enter()?;
    keiba(&url).await?;
    keiba_in_readme().await?;
    let _tdnet = enter()?;
    tdnet().await?;
    let _weather = enter()?;
    weather(&url).await?;
    let _shops = enter()?;
    shops(&url).await?;
    let _lunch = enter()?;
    lunch(&url).await
}

/// An empty directory, and the process in it: `Store::from_env` makes its store there.
fn enter() -> std::io::Result<tempfile::TempDir> {
    let directory = tempfile::tempdir()?;
    std::env::set_current_dir(&directory)?;
    Ok(directory)
}

async fn keiba(url: &str) -> Outcome {
    let site = Netkeiba::new(url, url)?;
    let keiba = Keiba::open(Store::from_env().await?).await?;

    let id = "202405021211";
    let (races, horses) = (keiba.races().loaded_by(site.clone()), keiba.horses().loaded_by(site.clone()));
    let race = races.fetch(id).await?;
    println!("{} horses, from {}, {} old", race.data.horses.len(), race.origin(), race.age());
    assert_eq!(race.data.horses.len(), 3);

    let id = "2021100001";
    let horse = horses.fetch(id).await?;
    assert!(horse.parents.is_some() && horse.results.is_some());
    Ok(())
}

async fn keiba_in_readme() -> Outcome {
    let keiba = Keiba::open(Store::from_env().await?).await?;
    let race = keiba.races().fetch("202405021211", scrape::race).await?;
    println!("{} horses, from {}, {} old", race.data.horses.len(), race.origin(), race.age());
    assert_eq!(race.data.horses.len(), 3, "it was kept");
    Ok(())
}

async fn tdnet() -> Outcome {
    let tdnet = Tdnet::open(Store::from_env().await?).await?;
    let (company, month) = ("7203", "2024-01".to_owned());
    let newest = tdnet.disclosures().by_company(company).newest_first().limit(5).all().await?;
    let all = tdnet.disclosures().by_month(&*month).newest_first().all().await?;
    assert!(newest.is_empty() && all.is_empty());

    let month = tdnet.disclosures().by_month("2024-01").newest_first().limit(50).stream();
    assert_eq!(futures_util::StreamExt::count(month).await, 0);
    Ok(())
}

async fn weather(url: &str) -> Outcome {
    let source = OpenWeather::new(url, "none")?;
    let weather = WeatherSystem::open(Store::from_env().await?).await?;
    let ((lat, lon), at) = (PLACES[0], weather.now());

    let forecast = weather.forecasts().loaded_by(source).fetch((lat, lon, at)).await?;
    println!(
        "{:.1} °C, {}, from {}",
        forecast.data.temperature,
        forecast.data.weather_description,
        forecast.origin()
    );
    println!("{}", weather.drain(Duration::from_secs(5)).await);

    let stats = weather.forecasts().stats();
    println!("${:.4} spent, ${:.4} saved", stats.dollars_spent(), stats.dollars_saved());
    assert_eq!(stats.loads, 1);

    let counted = [("Forecast", weather.forecasts().stats())];
    println!("{}", larder::price::measured("weather", Duration::from_secs(3600), counted));

    let plan = weather.forecasts().invalidate().lat(lat).lon(lon).plan().await?;
    println!("to invalidate {lat}, {lon}: {plan}");
    plan.run().await?;
    assert!(weather.forecasts().get((lat, lon, at)).await?.is_none());
    Ok(())
}

async fn shops(url: &str) -> Outcome {
    let front = Shopfront::new(url)?;
    let name = "one";
    let shops = Shops::open(Store::from_env().await?).await?;
    shops.shops().create(NewShop::new("antik.example").country("DE")).await?;

    let mut claims = shops.crawl().claim("DE").groups(["AT"]).owner(name).await?;
    while let Some(lease) = claims.next().await? {
        let domain = lease.domain.clone();
        match lease.work(pages(&shops, &front, &domain)).await? {
            Ok(_) => {
                lease.finish().await?;
            }
            Err(error) => lease.retry(error).await?,
        }
    }
    assert!(shops.crawl().due("DE").await?.is_empty());

    let core = "antik".to_owned();
    let siblings = shops.shops().siblings(&*core).all().await?;
    assert_eq!(siblings.len(), 1);

    // README's, which finds nothing that is due any more.
    let mut due = shops.crawl().claim("DE").take(10).await?;
    while let Some(lease) = due.next().await? {
        lease.work(crawl(&lease)).await??;
        lease.finish().await?;
    }
    Ok(())
}

async fn crawl(_lease: &larder::Lease<larder_examples::shops::Shop>) -> Result<(), std::io::Error> {
    Ok(())
}

async fn pages(shops: &Shops, front: &Shopfront, domain: &str) -> Outcome {
    for url in front.sitemap(domain).await? {
        let Some(offer) = front.page(&url).await? else { continue };
        let changed = shops.pages().put(offer.at(domain, url)).await?.changed();
        assert!(changed, "nothing was kept of it before");
    }
    Ok(())
}

async fn lunch(url: &str) -> Outcome {
    let source = Restaurants::new(url)?;
    let lunch = LunchSystem::open(Store::from_env().await?).await?;
    let (restaurant, year, week) = ("niagara", 2025, 3);
    let mut lunches = source.menu(restaurant, week).await?.ok_or("it has a menu")?;

    let came = Loose::came(json!({"name": "Soppa", "price": "on request", "weekday": "monday"}));
    lunches.push(came);
    let menu = lunch.menus().put(new_menu(restaurant, year, week, lunches)).await?;
    let faults = menu.validation_errors.as_ref().map_or(0, Vec::len);
    assert!(faults >= 3, "{:?}", menu.validation_errors);

    let history = lunch.menus().history(restaurant).newest_first().limit(10).all().await?;
    assert_eq!(history.len(), 1);
    Ok(())
}
