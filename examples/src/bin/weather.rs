//! Forecasts of twenty places, bought once and kept for three hours.
//!
//! Shows a cache that writes behind: answers do not wait for the store, `drain` waits for what is still
//! on its way, calls that were not made are counted in dollars, and a source that is down is one clear error.
//! A place is invalidated by a plan that shows its price first.
//!
//! ```console
//! $ cargo run -p larder-examples --bin weather
//! $ OPENWEATHER_API_KEY=… cargo run -p larder-examples --bin weather -- --base-url https://api.openweathermap.org
//! ```

use std::error::Error;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use futures_util::future::join_all;
use larder::Fetched;
use larder_examples::Options;
use larder_examples::source::openweather::{OpenWeather, PLACES};
use larder_examples::weather::{Forecast, WeatherSystem};

/// Fetches the forecasts of twenty places.
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    options: Options,
    /// The key of the account that pays.
    #[arg(long, env = "OPENWEATHER_API_KEY", hide_env_values = true, default_value = "none")]
    api_key: String,
    /// How many ask for each place at once.
    #[arg(long, value_name = "COUNT", default_value_t = 5)]
    askers: usize,
}

const NOWHERE: (f64, f64) = (0.0, -30.0);

#[tokio::main]
async fn main() -> ExitCode {
    larder_examples::end(run(Arguments::parse()).await)
}

async fn run(arguments: Arguments) -> Result<(), Box<dyn Error>> {
    let Arguments { options, api_key, askers } = arguments;
    let (origin, url) = options.origin().await?;
    let source = OpenWeather::new(&url, &api_key)?;
    let weather = WeatherSystem::open(options.store().await?).await?;
    let forecasts = weather.forecasts().loaded_by(source.clone());
    let now = weather.now();

    for round in ["cold", "warm"] {
        let (begun, calls) = (Instant::now(), source.calls());
        let places = PLACES.iter().flat_map(|place| std::iter::repeat_n(*place, askers));
        let fetched = join_all(places.map(|(lat, lon)| forecasts.fetch((lat, lon, now)))).await;
        let failed = fetched.iter().filter(|forecast| forecast.is_err()).count();
        let (calls, millis) = (source.calls() - calls, begun.elapsed().as_millis());
        println!("{round}: {:>3} asked, {failed:>2} failed, {calls:>2} calls, {millis:>3} ms", fetched.len());

        // What a Lambda does before it returns.
        println!("      {}", weather.drain(Duration::from_secs(5)).await);
    }
    let stats = weather.forecasts().stats();
    println!(
        "\n{:.0} % hits, {} calls of the source: ${:.4} spent, ${:.4} saved",
        stats.hit_rate() * 100.0,
        stats.loads,
        stats.dollars_spent(),
        stats.dollars_saved()
    );

    if let Some(origin) = origin {
        origin.go_down();
        println!("\nthe source goes down");
        for (name, (lat, lon)) in [("known place", PLACES[0]), ("new place", NOWHERE)] {
            match forecasts.fetch((lat, lon, now)).await {
                Ok(forecast) => println!("  {name:<12} {}", line(&forecast)),
                Err(error) => println!("  {name:<12} {error}"),
            }
        }
    }

    let (lat, lon) = PLACES[0];
    let plan = weather.forecasts().invalidate().lat(lat).lon(lon).plan().await?;
    println!("\nto invalidate {lat}, {lon}: {plan}");
    println!("  {} removed", plan.run().await?.removed);
    Ok(())
}

fn line(forecast: &Fetched<Forecast>) -> String {
    let data = &forecast.data;
    format!("{:.1} °C, {}, from {}", data.temperature, data.weather_description, forecast.origin())
}
