//! OpenWeather: the forecast of five days in steps of three hours. JSON.

use larder::jiff::Timestamp;
use larder::jiff::tz::TimeZone;
use larder::{BoxError, IntoLoad as _, Known, Load, Loader};
use serde::Deserialize;

use super::{Error, Web};
use crate::weather::{Forecast, ForecastValue, Weather, WeatherRequired};

/// Twenty cities of Brazil, by latitude and longitude.
pub const PLACES: [(f64, f64); 20] = [
    (-22.7572, -49.9439),
    (-23.5505, -46.6333),
    (-22.9068, -43.1729),
    (-19.9167, -43.9345),
    (-15.7939, -47.8828),
    (-12.9714, -38.5014),
    (-8.0476, -34.877),
    (-3.7319, -38.5267),
    (-3.119, -60.0217),
    (-1.4558, -48.5044),
    (-30.0346, -51.2177),
    (-25.4284, -49.2733),
    (-27.5949, -48.5482),
    (-16.6869, -49.2648),
    (-20.4697, -54.6201),
    (-15.601, -56.0974),
    (-9.6498, -35.7089),
    (-5.7945, -35.211),
    (-20.3155, -40.3128),
    (-10.9472, -37.0731),
];

#[derive(Clone, Debug)]
pub struct OpenWeather(Web);

impl OpenWeather {
    pub fn new(base: &str, api_key: &str) -> Result<Self, Error> {
        Ok(Self(Web::new(base)?.with_secret("appid", api_key)))
    }

    /// How many calls were made, and are to be paid.
    pub fn calls(&self) -> u64 {
        self.0.calls()
    }

    /// How many of them were made again, because there were too many.
    pub fn waits(&self) -> u64 {
        self.0.waits()
    }

    /// The forecast of a place that is nearest to a moment.
    pub async fn forecast(&self, (lat, lon, at): (f64, f64, Timestamp)) -> Result<Option<Weather>, Error> {
        let path = format!("/data/2.5/forecast?lat={lat}&lon={lon}&units=metric&lang=pt_br");
        self.0.read(&path, "UTF-8", |json| nearest(json, at)).await
    }
}

impl Loader<Forecast> for OpenWeather {
    async fn load(&self, asked: (f64, f64, Timestamp), _: Known) -> Result<Load<ForecastValue>, BoxError> {
        Ok(self.forecast(asked).await?.into_load())
    }
}

#[derive(Deserialize)]
struct Page {
    list: Vec<Step>,
}

#[derive(Deserialize)]
struct Step {
    dt: i64,
    main: Main,
    weather: Vec<Condition>,
    wind: Wind,
    #[serde(default)]
    rain: Rain,
}

#[derive(Deserialize)]
struct Main {
    temp: f64,
    humidity: f64,
}

#[derive(Deserialize)]
struct Condition {
    description: String,
}

#[derive(Deserialize)]
struct Wind {
    speed: f64,
}

#[derive(Default, Deserialize)]
struct Rain {
    #[serde(default, rename = "3h")]
    millimetres_in_three_hours: f64,
}

/// Reads the step of a forecast that is nearest to a moment.
pub fn nearest(json: &str, at: Timestamp) -> Result<Weather, String> {
    let page: Page = larder::serde_json::from_str(json).map_err(|error| error.to_string())?;
    let distance = |step: &Step| step.dt.abs_diff(at.as_second());
    let step = page.list.into_iter().min_by_key(distance).ok_or("the forecast has no steps")?;
    let timestamp = Timestamp::from_second(step.dt).map_err(|error| error.to_string())?;
    Ok(Weather::new(WeatherRequired {
        temperature: step.main.temp,
        humidity: step.main.humidity,
        wind_speed: step.wind.speed,
        rainfall_intensity: step.rain.millimetres_in_three_hours / 3.0,
        weather_description: step.weather.into_iter().next().map(|it| it.description).unwrap_or_default(),
        timestamp: TimeZone::UTC.to_datetime(timestamp),
    }))
}
