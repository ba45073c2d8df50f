"""Forecasts bought from OpenWeather, cached for as long as they stay current.

Made by `larder export python weather`: make it again instead of changing it.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, Mapping, NoReturn, TypedDict

import larder
from larder import aio

if TYPE_CHECKING:
    from typing_extensions import NotRequired


class Weather(TypedDict):
    temperature: float
    humidity: float
    wind_speed: float
    rainfall_intensity: float
    weather_description: str
    timestamp: datetime


@dataclass
class Forecast(larder.TypedRecord):
    lat: float
    lon: float
    hour: datetime
    data: Weather
    created_at: datetime
    meta: larder.Meta = dataclasses.field(repr=False, compare=False)


class NewForecast(TypedDict):
    """What is given to make a `Forecast`."""
    lat: float
    lon: float
    at: datetime
    data: Weather


class SetForecast(TypedDict):
    """What an update may set of a `Forecast`."""
    data: NotRequired[Weather]


class AddForecast(TypedDict):
    """What an update may add to in a `Forecast`."""


class ForecastShelf(larder.Shelf[Forecast, tuple[float, float, datetime], [float, float, datetime], Weather, NewForecast, SetForecast, AddForecast, NoReturn]):
    """The records of `Forecast`."""


class AsyncForecastShelf(aio.Shelf[Forecast, tuple[float, float, datetime], [float, float, datetime], Weather, NewForecast, SetForecast, AddForecast, NoReturn]):
    """The records of `Forecast`."""


_RECORDS: dict[str, Any] = {"Forecast": Forecast}


class WeatherSystem(larder.System):
    """Forecasts bought from OpenWeather, cached for as long as they stay current."""

    @classmethod
    def open(
        cls,
        store: str | larder.Store | None = None,
        *,
        environment: Mapping[str, str] | None = None,
        provision: bool = False,
    ) -> WeatherSystem:
        """Opens it on a store; see `larder.open`."""
        opened = larder.open("schemas/weather.larder", store, text=FILES, environment=environment, provision=provision)
        return cls(opened._native, opened.store, opened._owns_store)

    @property
    def forecasts(self) -> ForecastShelf:
        return ForecastShelf(self, self._native.shelf("Forecast"), Forecast._read)

    def _record(self, entity: str, fields: dict[str, Any], meta: Any) -> Any:
        return _RECORDS[entity]._read(fields, meta)


class AsyncWeatherSystem(aio.System):
    """Forecasts bought from OpenWeather, cached for as long as they stay current."""

    @classmethod
    async def open(
        cls,
        store: str | larder.Store | None = None,
        *,
        environment: Mapping[str, str] | None = None,
        provision: bool = False,
    ) -> AsyncWeatherSystem:
        """Opens it on a store; see `larder.open`."""
        opened = await aio.open("schemas/weather.larder", store, text=FILES, environment=environment, provision=provision)
        return cls(opened._native, opened.store, opened._owns_store)

    @property
    def forecasts(self) -> AsyncForecastShelf:
        return AsyncForecastShelf(self, self._native.shelf("Forecast"), Forecast._read)

    def _record(self, entity: str, fields: dict[str, Any], meta: Any) -> Any:
        return _RECORDS[entity]._read(fields, meta)


#: The schema.
FILES = {
    "schemas/weather.larder": """\
/// Forecasts bought from OpenWeather, cached for as long as they stay current.
system weather

naming camel   // wind_speed here, windSpeed in the store

param stage:     string   = "prod" from ENVIRONMENT
param cache_ttl: duration = 3h     from CACHE_TTL_HOURS in hours

source openweather {
  cost     $0.0001 per call
  latency  200ms..500ms
}

table forecasts {
  name     "weather-forecast-cache-{stage}"
  region   "sa-east-1"
  key      cache_key
  ttl      ttl
  billing  on_demand
  strict
  tags     Name "Weather Forecast Cache", Environment stage

  entity Forecast from openweather {
    key       "weather_{lat:.4f}_{lon:.4f}_{hour:unix}"
    ttl       cache_ttl
    writes    behind drain 5s   // a Lambda waits for its own writes before it returns
    on_error  open
    log       hit, miss, write, invalidate
    scan      ask               // invalidation by pattern shows its price first

    input lat: float in -90..=90
    input lon: float in -180..=180
    input at:  instant
    let hour = at.floor(1h)   // 15:23 and 15:47 are one forecast

    data:       Weather
    created_at: instant us = now
  }
}

type Weather {
  temperature:         float
  humidity:            float in 0..=100
  wind_speed:          float in 0..
  rainfall_intensity:  float in 0..
  weather_description: string
  timestamp:           datetime
}

metrics "WeatherForecastAPI" {
  hit      CacheHit
  miss     CacheMiss
  latency  CacheLatency
}

workload {
  requests   1_000_000 per month
  hit_rate   80%
  item_size  300B
  stored     300MB
}
""",
}
