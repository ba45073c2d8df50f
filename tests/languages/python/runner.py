"""Runs the scenarios of ../scenarios.json through either face of the package."""

from __future__ import annotations

import asyncio
import base64
import inspect
import json
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import larder

HERE = Path(__file__).parent.parent
SCHEMA = HERE / "scenarios.larder"
FILE = json.loads((HERE / "scenarios.json").read_text())
SCENARIOS = {scenario["name"]: scenario["steps"] for scenario in FILE["scenarios"]}
EXCHANGE = FILE["exchange"]

DATES, MOMENTS, DECIMALS, BYTES, SETS = {"due", "day"}, {"at", "seen_at", "crawled_at"}, {"price", "seconds"}, {"raw"}, {"tags"}


class OwnError(Exception):
    """An error of the program's own."""


def given(name: str, value: Any) -> Any:
    """A value of the file as a program would give it."""
    if isinstance(value, dict) and "$repeat" in value:
        return repeated(value)
    if value is None or not isinstance(value, (str, int, float, list)):
        return value
    if name in DATES:
        return date.fromisoformat(value)
    if name in MOMENTS:
        return datetime.fromisoformat(value.replace("Z", "+00:00"))
    if name in DECIMALS:
        return Decimal(value)
    if name in BYTES:
        return base64.b64decode(value)
    if name in SETS:
        return set(value)
    return value


def repeated(value: dict[str, Any]) -> list[str]:
    repeat = value["$repeat"]
    return [repeat["text"] * repeat["times"]] * repeat["members"]


def fields(values: dict[str, Any]) -> dict[str, Any]:
    return {name: given(name, value) for name, value in values.items()}


def told(value: Any) -> Any:
    """A value as `larder get --json` prints it."""
    if isinstance(value, datetime):
        assert value.tzinfo is timezone.utc
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        if value == value.to_integral_value() and abs(value) < 2**63:
            return int(value)
        return float(value) if Decimal(repr(float(value))) == value else str(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, set):
        return sorted(told(member) for member in value)
    if isinstance(value, list):
        return [told(member) for member in value]
    if isinstance(value, dict):
        return {name: told(member) for name, member in value.items()}
    return value


def expected(value: Any) -> Any:
    return repeated(value) if isinstance(value, dict) and "$repeat" in value else value


async def had(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


class Runner:
    """One scenario on one system, of either face."""

    def __init__(self, system: Any, options: dict[str, Any]) -> None:
        self.system = system
        self.options = options
        self.is_async = isinstance(system, larder.aio.System)
        self.leases: dict[str, Any] = {}
        self.cursor: str | None = None

    async def run(self, steps: list[dict[str, Any]]) -> None:
        for at, step in enumerate(steps):
            try:
                await getattr(self, step["do"])(step, step.get("expect", {}))
            except AssertionError as error:
                raise AssertionError(f"step {at}, {step}: {error}") from error

    def shelf(self, step: dict[str, Any]) -> Any:
        return self.system[step["entity"]]

    # What comes of a call: its value, or an error that was expected.
    async def outcome(self, call: Any, expect: dict[str, Any]) -> Any:
        try:
            got = await had(call())
        except larder.LarderError as error:
            assert "error" in expect, f"{type(error).__name__}: {error}"
            self.check_error(error, expect["error"])
            return None
        assert "error" not in expect, f"{got!r} instead of an error"
        return got

    def check_error(self, error: larder.LarderError, expect: dict[str, Any]) -> None:
        for name, wanted in expect.items():
            if name == "violations":
                assert isinstance(error, larder.InvalidError)
                found = {(violation.field, violation.rule) for violation in error.violations}
                assert found == {(violation["field"], violation["rule"]) for violation in wanted}, found
            elif name == "obstacles":
                assert isinstance(error, larder.CancelledError)
                for obstacle, want in zip(error.obstacles, wanted, strict=True):
                    assert all(getattr(obstacle, key) == value for key, value in want.items()), obstacle
            else:
                assert getattr(error, name) == wanted, f"{name}: {getattr(error, name)!r} of {error}"

    def check_record(self, record: Any, expect: dict[str, Any]) -> None:
        if "record" in expect:
            if expect["record"] is None:
                assert record is None, record
                return
            assert record is not None, "there is no record"
            for name, wanted in expect["record"].items():
                assert told(record[name]) == expected(wanted), f"{name}: {told(record[name])!r}"[:200]
        for name in ("version", "changed", "origin", "stale_reason"):
            if name in expect:
                assert getattr(record.meta, name) == expect[name], f"{name}: {getattr(record.meta, name)!r}"
        if "store_error" in expect:
            assert (record.meta.store_error is not None) == expect["store_error"]
        for lifecycle, state in expect.get("state", {}).items():
            assert record.meta.states[lifecycle] == state, record.meta.states

    def loader(self, source: dict[str, Any], loads: list[Any], slow: bool = False) -> Any:
        def answer() -> Any:
            if "fails" in source:
                raise OwnError(source["fails"])
            if source.get("absent"):
                return None
            (only,) = fields(source["value"]).values()
            return only

        def load(*key: Any) -> Any:
            loads.append(key)
            if slow:
                time.sleep(0.05)
            return answer()

        async def load_in_loop(*key: Any) -> Any:
            loads.append(key)
            await asyncio.sleep(0.05 if slow else 0)
            return answer()

        return load_in_loop if self.is_async else load

    async def advance(self, step: dict[str, Any], _: Any) -> None:
        self.system.store.clock.advance(step["seconds"])

    async def down(self, *_: Any) -> None:
        self.system.store.faults.down()

    async def up(self, *_: Any) -> None:
        self.system.store.faults.up()

    async def fetch(self, step: dict[str, Any], expect: dict[str, Any]) -> None:
        deadline = time.monotonic() + 10
        while True:
            try:
                await self.fetch_once(step, expect)
                return
            except AssertionError:
                if not step.get("eventually") or time.monotonic() > deadline:
                    raise
                await asyncio.sleep(0.01)

    async def fetch_once(self, step: dict[str, Any], expect: dict[str, Any]) -> None:
        loads: list[Any] = []
        load = self.loader(step["source"], loads)
        shelf, key = self.shelf(step), fields(step["key"])
        if "raises" in expect:
            try:
                await had(shelf.fetch(key, load))
                raise AssertionError("it did not raise")
            except OwnError as error:
                assert str(error) == expect["raises"]
        else:
            record = await self.outcome(lambda: shelf.fetch(key, load), expect)
            self.check_record(record, expect)
        if "loads" in expect:
            assert len(loads) == expect["loads"], loads
        if loads:
            assert all(key_values == tuple(key.values()) for key_values in loads), loads

    async def fetch_together(self, step: dict[str, Any], expect: dict[str, Any]) -> None:
        loads: list[Any] = []
        load = self.loader(step["source"], loads, slow=True)
        shelf, key = self.shelf(step), fields(step["key"])
        if self.is_async:
            records = await asyncio.gather(*(shelf.fetch(key, load) for _ in range(step["tasks"])))
        else:
            with ThreadPoolExecutor(step["tasks"]) as pool:
                records = list(pool.map(lambda _: shelf.fetch(key, load), range(step["tasks"])))
        for record in records:
            self.check_record(record, expect)
        assert len(loads) == expect["loads"], loads

    async def look(self, step: dict[str, Any], expect: dict[str, Any]) -> None:
        looked = await had(self.shelf(step).look(fields(step["key"])))
        assert isinstance(looked, larder.Miss) and looked.why == expect["miss"], looked

    async def one(self, call: Any, expect: dict[str, Any]) -> None:
        record = await self.outcome(call, expect)
        if "error" not in expect:
            self.check_record(record, expect)

    async def get(self, step: dict[str, Any], expect: dict[str, Any]) -> None:
        await self.one(lambda: self.shelf(step).get(fields(step["key"])), expect)

    async def create(self, step: dict[str, Any], expect: dict[str, Any]) -> None:
        await self.one(lambda: self.shelf(step).create(fields(step["fields"])), expect)

    async def put(self, step: dict[str, Any], expect: dict[str, Any]) -> None:
        await self.one(lambda: self.shelf(step).put(fields(step["fields"])), expect)

    async def put_earlier(self, step: dict[str, Any], expect: dict[str, Any]) -> None:
        with larder.open(HERE / "earlier" / "scenarios.larder", self.system.store, **self.options) as earlier:
            earlier[step["entity"]].put(fields(step["fields"]))

    async def put_shown(self, step: dict[str, Any], expect: dict[str, Any]) -> None:
        shelf = self.shelf(step)
        (shown, *_) = await had(shelf.index(step["index"], **fields(step["partition"])).all())
        assert shown.meta.is_part
        for put in (shelf.put, shelf.create, shelf.put_behind, self.system.transaction().put(shelf, shown).run):
            await self.outcome(lambda: put() if put.__name__ == "run" else put(shown), expect)
        with pytest.raises(larder.ManyError) as caught:
            await had(shelf.put_many([shown]))
        self.check_error(caught.value.outcomes[0], expect["error"])

    async def put_behind(self, step: dict[str, Any], expect: dict[str, Any]) -> None:
        await self.one(lambda: self.shelf(step).put_behind(fields(step["fields"])), expect)

    async def delete(self, step: dict[str, Any], expect: dict[str, Any]) -> None:
        await self.one(lambda: self.shelf(step).delete(fields(step["key"])), expect)

    async def forget(self, step: dict[str, Any], expect: dict[str, Any]) -> None:
        await had(self.shelf(step).forget(fields(step["key"])))

    async def update(self, step: dict[str, Any], expect: dict[str, Any]) -> None:
        changes = {
            "add": fields(step.get("add", {})), "clear": step.get("clear", ()), "if_version": step.get("if_version"),
        }  # fmt: skip
        key, values = fields(step["key"]), fields(step.get("set", {}))
        await self.one(lambda: self.shelf(step).update(key, values, **changes), expect)

    async def put_many(self, step: dict[str, Any], expect: dict[str, Any]) -> None:
        written = await had(self.shelf(step).put_many([fields(record) for record in step["records"]]))
        assert len(written) == expect["written"]

    async def get_many(self, step: dict[str, Any], expect: dict[str, Any]) -> None:
        found = await had(self.shelf(step).get_many([fields(key) for key in step["keys"]]))
        assert [None if record is None else told(record[step["field"]]) for record in found] == expect["values"]

    async def delete_many(self, step: dict[str, Any], expect: dict[str, Any]) -> None:
        await had(self.shelf(step).delete_many([fields(key) for key in step["keys"]]))

    async def query(self, step: dict[str, Any], expect: dict[str, Any]) -> None:
        shelf, partition = self.shelf(step), fields(step["partition"])
        query = shelf.index(step["index"], **partition) if "index" in step else shelf.within(**partition)
        for name in ("from", "until", "at"):
            if name in step:
                query = getattr(query, {"from": "from_"}.get(name, name))(step[name])
        if step.get("newest_first"):
            query = query.newest_first()
        if "limit" not in step:
            found = await self.outcome(query.all, expect)
        else:
            query = query.limit(step["limit"])
            page = await had((query.start_at(self.cursor) if step.get("next") else query).page())
            found, self.cursor = page.items, page.cursor
            assert (self.cursor is not None) == expect["more"]
        if "values" in expect:
            assert [told(record[step["field"]]) for record in found] == expect["values"]
            if "limit" not in step:
                assert await had(query.count()) == len(expect["values"])

    async def transaction(self, step: dict[str, Any], expect: dict[str, Any]) -> None:
        transaction = self.system.transaction()
        for part in step["steps"]:
            for what in ("create", "put", "update", "delete", "check"):
                if what in part:
                    shelf, key = self.system[part[what]], fields(part.get("key", {}))
                    arguments = [fields(part["fields"])] if "fields" in part else [key]
                    if what == "update":
                        arguments.append(fields(part["set"]))
                    getattr(transaction, what)(shelf, *arguments)
        await self.outcome(transaction.run, expect)

    async def collection_put(self, step: dict[str, Any], expect: dict[str, Any]) -> None:
        members = {entity: [fields(record) for record in records] for entity, records in step["members"].items()}
        await had(self.system.collection(step["collection"]).put(members))

    async def collection_fetch(self, step: dict[str, Any], expect: dict[str, Any]) -> None:
        loads: list[Any] = []
        source = step["source"]

        def load(*key: Any) -> Any:
            loads.append(key)
            if "fails" in source:
                raise OwnError(source["fails"])
            if "absent" in source:
                return None
            return {entity: [fields(record) for record in records] for entity, records in source["members"].items()}

        async def load_in_loop(*key: Any) -> Any:
            return load(*key)

        collection, key = self.system.collection(step["collection"]), fields(step["key"])
        try:
            call = lambda: collection.fetch(key, load_in_loop if self.is_async else load)  # noqa: E731
            found = await self.outcome(call, expect)
        except OwnError as error:
            assert str(error) == expect["raises"]
        else:
            assert "raises" not in expect
            self.check_members(found or {}, expect.get("members", {}))
            for records in (found or {}).values():
                assert all(record.meta.origin == expect["origin"] for record in records)
        assert len(loads) == expect["loads"] and all(asked == tuple(key.values()) for asked in loads), loads

    async def collection_get(self, step: dict[str, Any], expect: dict[str, Any]) -> None:
        found = await had(self.system.collection(step["collection"]).get(fields(step["key"])))
        if expect["members"] is None:
            assert found is None
            return
        self.check_members(found, expect["members"])

    def check_members(self, found: dict[str, Any], expect: dict[str, Any]) -> None:
        assert set(found) == set(expect)
        for entity, records in expect.items():
            for record, wanted in zip(found[entity], records, strict=True):
                self.check_record(record, {"record": wanted})

    async def collection_delete(self, step: dict[str, Any], expect: dict[str, Any]) -> None:
        assert await had(self.system.collection(step["collection"]).delete(fields(step["key"]))) == expect["deleted"]

    def lifecycle(self, step: dict[str, Any]) -> Any:
        return self.shelf(step).lifecycle(step["lifecycle"])

    def check_lease(self, lease: Any, expect: dict[str, Any]) -> None:
        self.check_record(None if lease is None else lease.record, {key: expect[key] for key in ("record",) if key in expect})
        for name in ("fence", "attempts"):
            if name in expect:
                assert getattr(lease, name) == expect[name]

    async def claim(self, step: dict[str, Any], expect: dict[str, Any]) -> None:
        claims = self.lifecycle(step).claim(step["group"], take=step["take"])
        lease = None
        if self.is_async:
            async for lease in claims:
                break
        else:
            lease = next(claims, None)
        self.check_lease(lease, expect)
        self.leases[step["as"]] = lease

    async def hold(self, step: dict[str, Any], expect: dict[str, Any]) -> None:
        lease = await self.outcome(lambda: self.lifecycle(step).hold(fields(step["key"])), expect)
        self.check_lease(lease, expect)
        self.leases[step["as"]] = lease

    async def finish(self, step: dict[str, Any], expect: dict[str, Any]) -> None:
        await self.one(self.leases[step["lease"]].finish, expect)

    async def release(self, step: dict[str, Any], expect: dict[str, Any]) -> None:
        await self.one(self.leases[step["lease"]].release, expect)

    async def transition(self, step: dict[str, Any], expect: dict[str, Any]) -> None:
        key, params = fields(step["key"]), fields(step.get("params", {}))
        await self.one(lambda: self.lifecycle(step).run(key, step["name"], **params), expect)

    async def drain(self, step: dict[str, Any], expect: dict[str, Any]) -> None:
        drained = await had(self.system.drain(step["seconds"]))
        assert (drained.lost, drained.waiting) == (expect["lost"], expect["waiting"]), drained

    async def invalidate(self, step: dict[str, Any], expect: dict[str, Any]) -> None:
        plan = await had(self.shelf(step).invalidate(label=step.get("label"), **fields(step.get("by", {}))))
        assert (plan.items, plan.is_scan) == (expect["planned"], expect["is_scan"]), str(plan)
        assert await had(plan.run()) == expect["removed"]

    async def stats(self, step: dict[str, Any], expect: dict[str, Any]) -> None:
        stats = self.shelf(step).stats()
        for name, wanted in expect.items():
            assert getattr(stats, name) == wanted, stats
