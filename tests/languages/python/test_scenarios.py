"""The scenarios that every language runs, through both faces, on every kind of store."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from runner import SCENARIOS, SCHEMA, Runner

import larder


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario_of_the_blocking_face(name: str, store: larder.Store, options: dict[str, Any]) -> None:
    with larder.open(SCHEMA, store, **options) as system:
        asyncio.run(Runner(system, options).run(SCENARIOS[name]))


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario_of_the_face_for_asyncio(name: str, store: larder.Store, options: dict[str, Any]) -> None:
    async def run() -> None:
        async with await larder.aio.open(SCHEMA, store, **options) as system:
            await Runner(system, options).run(SCENARIOS[name])

    asyncio.run(run())
