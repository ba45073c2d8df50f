//! Weather: people ask for the forecast of their city. Now and then the store fails, and they do not notice.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use larder::jiff::{Span, Timestamp, ToSpan};
use larder::{Environment, Store};
use larder_examples::origin::{Manners, Origin};
use larder_examples::source::openweather::{OpenWeather, PLACES};
use larder_examples::weather::WeatherSystem;
use tokio::task::JoinSet;

use super::Fault;
use super::world::{Part, Tally, World, see_out, stateless};

pub(super) const NAME: &str = "weather";
/// As slow as the schema says OpenWeather is.
const MANNERS: Manners = Manners {
    delay: Duration::from_millis(200),
    spread: Duration::from_millis(300),
    error_rate: 0.02,
    per_second: None,
};
const ASK_EVERY: Duration = Duration::from_millis(12);
const ASKERS_MAX: usize = 256;
/// When the store fails, and for how long.
const SOUND: Duration = Duration::from_secs(10);
const FAILING: Duration = Duration::from_secs(1);

#[derive(Clone, Debug)]
pub(super) struct Askers {
    weather: WeatherSystem,
    source: OpenWeather,
    tally: Arc<Tally>,
}

/// The faults are of this system's handle alone: the others are on the same store and have none.
pub(super) async fn open(store: &Store) -> Result<(Part, Askers), Fault> {
    let origin = Origin::start(MANNERS).await?;
    let source = OpenWeather::new(&origin.url(), "none")?;
    let weather = WeatherSystem::open_with(store.observed(), Environment::new()).await?;
    let tally = Arc::<Tally>::default();
    let counted = source.clone();
    let part = Part {
        name: NAME,
        system: (*weather).clone(),
        origin,
        tally: Some(Arc::clone(&tally)),
        sent: Box::new(move || (counted.calls(), counted.waits())),
        states: stateless,
    };
    Ok((part, Askers { weather, source, tally }))
}

impl Askers {
    pub(super) async fn run(self, world: World) {
        tokio::join!(self.ask(&world), self.fail(&world));
        // What is written behind is on its way until it is waited for. What is lost is counted.
        let _ = self.weather.close().await;
    }

    async fn ask(&self, world: &World) {
        let mut random = world.random(NAME);
        let mut askers = JoinSet::new();
        while world.pause(ASK_EVERY).await {
            see_out(&mut askers);
            if askers.len() < ASKERS_MAX {
                askers.spawn(self.clone().forecast(random.fork()));
            }
        }
        askers.join_all().await;
    }

    /// The forecast for noon or evening of today or tomorrow. Large cities are asked for more often.
    async fn forecast(self, mut random: Rng) {
        let (lat, lon) = PLACES[random.usize(..PLACES.len()).min(random.usize(..PLACES.len()))];
        let hours = [12, 20, 36][random.usize(..3)];
        let Some(at) = after_midnight(self.weather.now(), hours.hours()) else { return };
        let (source, call) = (self.source.clone(), self.tally.call());
        let load = call.around(move |asked| {
            let source = source.clone();
            async move { source.forecast(asked).await }
        });
        call.ended(self.weather.forecasts().fetch((lat, lon, at), load).await);
    }

    async fn fail(&self, world: &World) {
        let store = self.weather.store();
        while world.pause(SOUND).await {
            store.faults().down();
            world.tell(NAME, "the store fails: forecasts come from the source");
            world.pause(FAILING).await;
            store.faults().up();
            world.tell(NAME, "the store is back: what was fetched meanwhile is written");
            // Nobody looks at what the store was asked.
            drop(store.requests().take());
        }
    }
}

fn after_midnight(now: Timestamp, span: Span) -> Option<Timestamp> {
    const DAY_SECONDS: i64 = 24 * 60 * 60;
    let midnight = now.as_second().div_euclid(DAY_SECONDS) * DAY_SECONDS;
    Timestamp::from_second(midnight).ok()?.checked_add(span).ok()
}
