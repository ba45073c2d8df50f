"""What the layer tells goes to `logging.getLogger("larder")`, with its fields in `extra` under `larder`."""

from __future__ import annotations

import logging
import os
import threading
import time

from . import _native

_thread: threading.Thread | None = None
_ended = threading.Event()


class _Logger(logging.Logger):
    """A logger that tells the native module what is shown."""

    def setLevel(self, level: int | str) -> None:
        super().setLevel(level)
        refresh()


def _logger() -> logging.Logger:
    manager = logging.Logger.manager
    if isinstance(manager.loggerDict.get("larder"), logging.Logger):
        return logging.getLogger("larder")
    before = manager.loggerClass
    manager.setLoggerClass(_Logger)
    try:
        return logging.getLogger("larder")
    finally:
        manager.loggerClass = before


logger = _logger()


def refresh() -> None:
    """Takes over the level of `logging.getLogger("larder")`. Opening a system does that, and setting that logger's level."""
    global _thread
    if _ended.is_set():
        return
    _native.log_level(min(logging.getLogger("larder").getEffectiveLevel(), 50))
    if _thread is None or not _thread.is_alive():
        _thread = threading.Thread(target=_run, name="larder-log", daemon=True)
        _thread.start()


def _run() -> None:
    while not _ended.is_set():
        if not _take():
            time.sleep(0.2)


def _take() -> bool:
    """Hands on what was told. Not where there is nothing to take it from, as in a process that was forked at a bad moment."""
    lines = _native.logs()
    for level, target, message, fields in lines or ():
        told = dict(fields)
        said = " ".join([message, *(f"{name}={value}" for name, value in fields)])
        name = "larder" if target in ("larder", "") else target.replace("::", ".")
        logging.getLogger(name if name.startswith("larder") else "larder").log(level, said, extra={"larder": told})
    return lines is not None


def stop() -> None:
    _native.drop_logs()
    _ended.set()
    if _thread is not None:
        _thread.join(5)
    _take()


def _forked() -> None:
    global _thread
    _thread = None
    _native.drop_logs()


os.register_at_fork(after_in_child=_forked)
