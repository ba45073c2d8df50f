"""The lines that the guide gives to programs that stay with boto3, as they stand there, beside the layer: they read the same, and judge
freshness alike, at every moment of a clock that is moved."""

from __future__ import annotations

import os
import types
import uuid
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Iterator

import pytest
from conftest import ROOT

import larder

boto3 = pytest.importorskip("boto3")

HOUR = 3600
#: For how many seconds each entity may be given past its time, as `larder docs` says of without.larder.
STALE = {"Plain": 0, "Grace": 24 * HOUR, "Stale": 600, "Both": 24 * HOUR, "Endless": 0, "Split": HOUR, "Packed": 0}


@pytest.fixture(scope="module")
def page() -> Any:
    """The lines of the guide, run."""
    guide = (ROOT / "docs" / "guides" / "python.md").read_text()
    (code,) = [block for block in guide.split("\n```") if block.startswith("python\n") and "def whole(" in block]
    module = types.ModuleType("page")
    exec(compile(code.removeprefix("python\n"), "python.md", "exec"), module.__dict__)
    return module


@pytest.fixture
def kept(endpoint: str) -> Iterator[tuple[Any, Any]]:
    """A system whose clock stands still, and its table as boto3 has it."""
    os.environ.update(AWS_ACCESS_KEY_ID="any", AWS_SECRET_ACCESS_KEY="any", AWS_REGION="us-east-1")
    stage = uuid.uuid4().hex[:8]
    store = larder.Store(f"dynamodb:{endpoint}", observed=True)
    store.clock.stop()
    schema = ROOT / "tests" / "languages" / "without.larder"
    with larder.open(schema, store, environment={"WITHOUT_STAGE": stage}, provision=True) as system:
        yield system, boto3.resource("dynamodb", endpoint_url=endpoint, region_name="us-east-1").Table(f"without-{stage}")


def key_of(entity: str, id: str) -> dict[str, str]:
    return {"pk": f"{entity.upper()}#{id}", "sk": entity.upper()}


def stored(table: Any, entity: str, id: str) -> dict[str, Any]:
    item: dict[str, Any] = table.get_item(Key=key_of(entity, id), ConsistentRead=True)["Item"]
    return item


class Down(Exception):
    pass


def down(id: str) -> Any:
    raise Down


def of_the_layer(shelf: Any, id: str) -> str:
    """What the layer makes of a record when its source is down."""
    is_hit = not isinstance(shelf.look(id), larder.Miss)
    try:
        fetched = shelf.fetch(id, down)
    except (Down, larder.AbsentError):
        return "gone"
    assert fetched.meta.origin == ("store" if is_hit else "stale")
    return "fresh" if is_hit else "stale"


def test_an_item_is_fresh_stale_or_gone_as_the_layer_has_it(page: Any, kept: tuple[Any, Any]) -> None:
    system, table = kept
    ids = [(entity, "kept") for entity in STALE]
    for entity, id in ids:
        system[entity].put({"id": id, "text": "x"})
    with pytest.raises(larder.AbsentError):
        system["Grace"].fetch("absent", lambda id: None)
    # What another program put is judged by its own time, if it is one.
    others: dict[str, dict[str, Any]] = {"text": {"ends": "1"}, "fraction": {"ends": Decimal("1.5")}, "none": {}}
    for id, ends in others.items():
        table.put_item(Item={**key_of("Plain", id), "text": "x", **ends})
        ids.append(("Plain", id))
    ids.append(("Grace", "absent"))
    began = system.now().replace(microsecond=0)
    said: dict[str, list[str]] = {}
    for second in (0, *(end + more for end in (HOUR, HOUR + 600, 2 * HOUR, 25 * HOUR) for more in (0, 1))):
        system.store.clock.advance(began + timedelta(seconds=second, milliseconds=999) - system.now())
        for entity, id in ids:
            found = page.freshness(stored(table, entity, id), system.now(), "ends", STALE[entity])
            assert found == of_the_layer(system[entity], id), (entity, id, second)
            so_far = said.setdefault(f"{entity} {id}", [])
            if found not in so_far:
                so_far.append(found)
    assert said == {
        "Plain kept": ["fresh", "gone"],
        "Grace kept": ["fresh", "stale", "gone"],
        "Stale kept": ["fresh", "stale", "gone"],
        "Both kept": ["fresh", "stale", "gone"],
        "Endless kept": ["fresh"],
        "Split kept": ["fresh", "stale", "gone"],
        "Packed kept": ["fresh", "gone"],
        "Plain text": ["fresh"],
        "Plain fraction": ["fresh"],
        "Plain none": ["fresh"],
        "Grace absent": ["gone"],
    }


#: One of each type, each long enough to be packed.
VALUES: dict[str, Any] = {
    "more": {"list": [1, Decimal("-2.5"), None, True, False, "t" * 2000, {"deep": ["長い話"]}], "none": {}, "empty": []},
    "tags": {f"tag {number}" for number in range(500)},
    "counts": {number * 1000 for number in range(1000)},
    "raw": bytes(number % 256 for number in range(2000)),
}
FEW = {"tags": {"a"}, "counts": {1}}


@pytest.mark.parametrize(
    "entity, text, values, mark",
    [
        ("Split", "長い話 " * 60_000, VALUES, "larder_parts"),
        ("Packed", "lorem ipsum " * 1000, VALUES, "larder_packed"),
        ("Packed", "short", FEW, None),
    ],
)
def test_packed_and_split_items_are_read_as_the_layer_reads_them(
    page: Any, kept: tuple[Any, Any], entity: str, text: str, values: dict[str, Any], mark: str | None
) -> None:
    system, table = kept
    system[entity].put({"id": "parts", "text": text, **values})
    key, first = key_of(entity, "parts"), stored(table, entity, "parts")
    assert (mark in first) if mark else ("larder_parts" not in first)

    def same() -> Any:
        whole = page.whole(table, stored(table, entity, "parts"))
        record = system[entity].get("parts")
        if whole is None:
            assert record is None
            return None
        read = {name: bytes(value) if name == "raw" else value for name, value in whole.items()}
        read = {name: value for name, value in read.items() if name != "ends" and not name.startswith("larder_")}
        fields = {name: getattr(record, name) for name in ("text", "more", "tags", "counts", "raw")}
        assert read == {**key, **{name: value for name, value in fields.items() if value is not None}}
        return read

    assert same() == {**key, "text": text, **values}
    # What somebody has written into the item itself is newer than its parts.
    names: dict[str, Any] = {"ExpressionAttributeNames": {"#text": "text"}, "ExpressionAttributeValues": {":text": "newer"}}
    table.update_item(Key=key, UpdateExpression="SET #text = :text", **names)
    assert same()["text"] == "newer"
    if entity == "Split":
        # A part that is gone takes the whole of it along.
        table.delete_item(Key={**key, "sk": f"{key['sk']}#larder#{first['larder_parts']['version']}#0"})
        assert same() is None
