"""The end of a program: what is written behind is waited for, or told."""

from __future__ import annotations

import atexit
import logging
import os
import sys
from typing import Any

from . import _native

#: How long loaders that run behind an answer are waited for.
LOADERS_SECONDS = 5.0

#: How long threads that are in Python at its end are waited for.
THREADS_SECONDS = 1.0

#: Those that may have something to write, which the program need not hold.
_held: set[Any] = set()
_owner = os.getpid()
_is_child = False


def remember(system: _native.System) -> None:
    if system.writes_behind():
        hold(system)


def hold(system: _native.System) -> None:
    global _is_child
    _held.add(system)
    # A child of multiprocessing ends by `os._exit`, without atexit, unless it was spawned.
    processes, util = sys.modules.get("multiprocessing.process"), sys.modules.get("multiprocessing.util")
    if not _is_child and processes and util and processes.parent_process() is not None:
        _is_child = True
        util.Finalize(None, _drain, exitpriority=0)


def forget(system: _native.System) -> None:
    _held.discard(system)


def tell(name: str, drained: Any) -> None:
    """Says what was not written, where nobody else would."""
    if drained.is_empty:
        return
    lines = [f"{entity} {key}: {reason}" for entity, key, reason in drained.unwritten]
    count = drained.waiting + drained.lost
    logging.getLogger("larder").error("%s: %d writes behind were not written: %s", name, count, "; ".join(lines))
    print(f"larder: {name}: {count} writes behind were not written", *lines, sep="\n  ", file=sys.stderr)


def _drain() -> int:
    """Waits for loaders, and for what they and the program wrote behind; how many loaders still run."""
    from ._core import Drained

    loaders = _native.wait_for_loaders(LOADERS_SECONDS)
    while _held:
        system = _held.pop()
        try:
            name, drained = system.name, Drained(**system.drain(None))
        except Exception as error:  # what is closed has drained already
            if getattr(error, "kind", None) != "closed":
                print(f"larder: {error}", file=sys.stderr)
            continue
        tell(name, drained)
    return loaders


@atexit.register
def _end() -> None:
    if os.getpid() != _owner:
        return
    from . import _log

    loaders = _drain()
    _log.stop()
    # One that still runs is not waited for again.
    _native.end(0.0 if loaders else THREADS_SECONDS)


def _forked() -> None:
    global _owner, _is_child
    _owner, _is_child = os.getpid(), False
    _native.forked()
    # What they hold belongs to the other process, which ends it.
    _held.clear()


os.register_at_fork(after_in_child=_forked)
