"""What the native module does in an event loop."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any, Callable

_loading: set[asyncio.Future[Any]] = set()


def give(future: asyncio.Future[Any], value: Any) -> None:
    if not future.done():
        future.set_result(value)


def fail(future: asyncio.Future[Any], error: BaseException) -> None:
    if future.done():
        return
    if isinstance(error, StopIteration):
        # A future takes none, as it would end the coroutine that waits for it.
        told = RuntimeError("a loader raised StopIteration")
        told.__cause__ = error
        error = told
    future.set_exception(error)


def start(load: Callable[..., Any], arguments: tuple[Any, ...], answer: Callable[[Any, BaseException | None], None]) -> None:
    """Calls a loader, and tells what it came to."""
    try:
        got = load(*arguments)
        if not inspect.isawaitable(got):
            answer(got, None)
            return
        task = asyncio.ensure_future(got)
    except (SystemExit, KeyboardInterrupt) as error:
        answer(None, error)
        raise
    except BaseException as error:
        answer(None, error)
        return
    # A loop keeps no task that nobody else keeps.
    _loading.add(task)

    def done(task: asyncio.Future[Any]) -> None:
        _loading.discard(task)
        if task.cancelled():
            answer(None, asyncio.CancelledError())
        elif (error := task.exception()) is not None:
            answer(None, error)
        else:
            answer(task.result(), None)

    task.add_done_callback(done)
