"""Fixtures for pytest: systems on stores in memory, closed after the test.

    def test_a_race_is_scraped_once(larder_memory):
        keiba = larder_memory("schemas/keiba.larder")
        keiba["Race"].fetch("1", lambda race_id: {"horses": []})
        keiba.store.clock.advance(3600)
        keiba.store.faults.down()
"""

from __future__ import annotations

from os import PathLike
from typing import Any, Callable, Iterator

import pytest


@pytest.fixture
def larder_memory() -> Iterator[Callable[..., Any]]:
    """Opens a schema, or a system of a module that `larder export python` wrote, on an observed store in memory whose clock stands still."""
    from . import Store
    from . import open as open_system

    opened: list[Any] = []

    def memory(schema: str | PathLike[str] | Any, **options: Any) -> Any:
        store = Store("memory:")
        store.clock.stop()
        if isinstance(schema, (str, PathLike)):
            system = open_system(schema, store, **options)
        else:
            system = schema.open(store, **options)
        opened.append(system)
        return system

    yield memory
    for system in opened:
        system.close()
