"""The weather cache: forecasts of OpenWeather, kept for three hours, in place of `DynamoDBCache`."""

from __future__ import annotations

from datetime import datetime
from typing import Awaitable, Callable

from weather_types import AsyncWeatherSystem, Weather


class WeatherCache:
    """Forecasts by place and hour, bought once. They are written after the answer; `close` waits for them."""

    def __init__(self, weather: AsyncWeatherSystem) -> None:
        self.weather = weather

    @classmethod
    async def open(cls, store: str | None = None) -> WeatherCache:
        return cls(await AsyncWeatherSystem.open(store))

    async def forecast(
        self, lat: float, lon: float, at: datetime, buy: Callable[[float, float, datetime], Awaitable[Weather]]
    ) -> Weather:
        return (await self.weather.forecasts.fetch((lat, lon, at), buy)).data

    async def invalidate(self, lat: float, lon: float, at: datetime) -> None:
        await self.weather.forecasts.forget((lat, lon, at))

    async def invalidate_place(self, lat: float, lon: float) -> int:
        """All hours of a place. It reads the whole table, and says what that costs."""
        plan = await self.weather.forecasts.invalidate(lat=lat, lon=lon)
        print(plan)
        return await plan.run()

    async def close(self) -> None:
        await self.weather.close()
