"""A hit in Python, beside others that keep data: one run, one table.

    python tests/languages/bench.py            seconds for each: 1
    python tests/languages/bench.py --quick    0.1

Each is asked for one value of 300 bytes again and again: Larder from memory (L1), from its store in a directory and through its
endpoint; diskcache in a directory; cashews in memory; a bare `get_item` of boto3 on the same endpoint. Then 1,000 tasks ask for one cold key. What
is not installed is left out.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from typing import Any, Awaitable, Callable, Iterator
from contextlib import contextmanager

import larder

SCHEMA = """
system bench
source web
table bench_pages {
  key  pk
  ttl  ends
  entity Hot from web {
    key  "HOT#{url}"
    ttl  1d
    l1   1h
    input url: string nonempty
    text:      string
  }
  entity Cold from web {
    key  "COLD#{url}"
    ttl  1d
    input url: string nonempty
    text:      string
  }
}
"""
TEXT = "x" * 300


def rate(call: Callable[[], object], seconds: float) -> float:
    """Microseconds a call, the median of five rounds."""
    call()
    rounds = []
    for _ in range(5):
        count, started = 0, time.perf_counter()
        while time.perf_counter() - started < seconds / 5:
            for _ in range(20):
                call()
            count += 20
        rounds.append((time.perf_counter() - started) / count * 1e6)
    return sorted(rounds)[2]


async def async_rate(call: Callable[[], Awaitable[object]], seconds: float) -> float:
    await call()
    rounds = []
    for _ in range(5):
        count, started = 0, time.perf_counter()
        while time.perf_counter() - started < seconds / 5:
            for _ in range(20):
                await call()
            count += 20
        rounds.append((time.perf_counter() - started) / count * 1e6)
    return sorted(rounds)[2]


@contextmanager
def endpoint() -> Iterator[str]:
    larder_command = [os.environ["LARDER_BIN"]] if "LARDER_BIN" in os.environ else [sys.executable, "-m", "larder._cli"]
    command = [*larder_command, "serve", "--memory", "--dynamodb", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield next(line for line in server.stdout if "listening on" in line).split("listening on ")[1].strip()
        finally:
            server.terminate()


def load(url: str) -> str:
    return TEXT


async def herd(directory: str) -> tuple[int, float]:
    loads = []

    async def slow(url: str) -> str:
        loads.append(url)
        await asyncio.sleep(0.05)
        return TEXT

    async with await larder.aio.open("bench.larder", directory, text=SCHEMA) as system:
        started = time.perf_counter()
        await asyncio.gather(*(system["Cold"].fetch("herd", slow) for _ in range(1000)))
        return len(loads), time.perf_counter() - started


async def in_loop(directory: str, seconds: float) -> float:
    async with await larder.aio.open("bench.larder", directory, text=SCHEMA) as system:
        async def slow(url: str) -> str:
            return TEXT

        return await async_rate(lambda: system["Hot"].fetch("a", slow), seconds)


async def cashews(seconds: float) -> float:
    from cashews import Cache  # type: ignore[import-not-found, unused-ignore]

    cache = Cache()
    cache.setup("mem://")

    @cache(ttl="1d", key="page:{url}")
    async def page(url: str) -> str:
        return TEXT

    return await async_rate(lambda: page("a"), seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    seconds = 0.1 if parser.parse_args().quick else 1.0
    os.environ.update(AWS_ACCESS_KEY_ID="any", AWS_SECRET_ACCESS_KEY="any", AWS_REGION="us-east-1")
    rows: list[tuple[str, str, float]] = []
    with tempfile.TemporaryDirectory() as directory, endpoint() as address:
        with larder.open("bench.larder", f"{directory}/larder", text=SCHEMA) as system:
            rows.append(("larder, fetch", "memory (L1), on disk too", rate(lambda: system["Hot"].fetch("a", load), seconds)))
            rows.append(("larder, fetch", "disk", rate(lambda: system["Cold"].fetch("a", load), seconds)))
        rows.append(("larder.aio, fetch", "memory (L1), on disk too", asyncio.run(in_loop(f"{directory}/aio", seconds))))
        with larder.open("bench.larder", f"dynamodb:{address}", text=SCHEMA, provision=True) as system:
            rows.append(("larder, fetch", "endpoint", rate(lambda: system["Cold"].fetch("a", load), seconds)))
        try:
            import diskcache  # type: ignore[import-not-found, import-untyped, unused-ignore]

            disk = diskcache.Cache(f"{directory}/diskcache")
            disk.set("a", TEXT, expire=86400)
            rows.append(("diskcache, get", "disk", rate(lambda: disk.get("a"), seconds)))
            disk.close()
        except ImportError:
            pass
        try:
            rows.append(("cashews, decorator", "memory alone", asyncio.run(cashews(seconds))))
        except ImportError:
            pass
        try:
            import boto3  # type: ignore[import-not-found, import-untyped, unused-ignore]

            table: Any = boto3.resource("dynamodb", endpoint_url=address, region_name="us-east-1").Table("bench_pages")
            rows.append(("boto3, get_item", "endpoint", rate(lambda: table.get_item(Key={"pk": "COLD#a"})["Item"], seconds)))
        except ImportError:
            pass
        loads, took = asyncio.run(herd(f"{directory}/herd"))
    print(f"{'a hit':22}{'from':28}{'µs':>10}")
    for name, place, micros in rows:
        print(f"{name:22}{place:28}{micros:10.1f}")
    print(f"1000 tasks, one cold key: {loads} load, {took * 1000:.0f} ms")
    assert loads == 1


if __name__ == "__main__":
    main()
