"""Programs that stay with boto3 read what the layer keeps, packed and split items too; and JSON Schema says what both see."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import types
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT

import larder

boto3 = pytest.importorskip("boto3")
jsonschema = pytest.importorskip("jsonschema")
sys.path.insert(0, str(ROOT / "examples" / "python"))
whole = importlib.import_module("larder_parts").whole


def seed_class(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The keiba team's own class, from the program that the clients' tests run."""
    monkeypatch.syspath_prepend(str(ROOT / "tests" / "clients" / "systems"))
    module = types.ModuleType("keiba_program")
    source = (ROOT / "tests" / "clients" / "python" / "test_keiba.py").read_text()
    exec(compile(source.split("@pytest.fixture")[0], "test_keiba.py", "exec"), module.__dict__)
    return module.KeibaCache  # type: ignore[attr-defined]


@pytest.fixture
def tables(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    os.environ.update(AWS_ACCESS_KEY_ID="any", AWS_SECRET_ACCESS_KEY="any", AWS_REGION="us-east-1")
    return boto3.resource("dynamodb", endpoint_url=endpoint, region_name="us-east-1")


def test_k13_the_team_s_class_reads_split_items_with_a_few_lines(
    endpoint: str, tables: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"keiba_data-{uuid.uuid4().hex[:8]}"
    monkeypatch.setenv("KEIBA_TABLE_NAME", name)
    horses = [{"number": Decimal(number), "note": "長い話 " * 20_000} for number in range(10)]
    with larder.open(ROOT / "schemas" / "keiba.larder", f"dynamodb:{endpoint}", provision=True) as keiba:
        # Not fetched: what is fetched is given without being kept when the store takes longer than 300 ms.
        keiba["Race"].put({"race_id": "202405021211", "data": {"horses": horses, "tags": {"a", "b"}, "odds": 1.5, "raw": b"\0"}})
        keiba["Race"].put({"race_id": "1", "data": {"horses": []}})
    stored = tables.Table(name).get_item(Key={"PK": "RACE#202405021211", "SK": "METADATA"})["Item"]
    assert "larder_parts" in stored and "data" not in stored

    class Reads(seed_class(monkeypatch)):  # type: ignore[misc]
        def __init__(self, dynamodb: Any) -> None:
            super().__init__(dynamodb)
            get_item = self.table.get_item

            def joined(Key: Any) -> dict[str, Any]:
                found = get_item(Key=Key).get("Item")
                return {"Item": found and whole(tables.Table(name), found)}

            self.table = types.SimpleNamespace(get_item=joined)

    def scrape() -> Any:
        raise AssertionError("it is kept")

    cache = Reads(tables)
    race = cache.race("202405021211", scrape)
    assert race["horses"] == horses
    assert (race["tags"], race["odds"], race["raw"]) == ({"a", "b"}, Decimal("1.5"), b"\0")
    assert cache.race("1", scrape) == {"horses": []}


PACKED = """
system packed
table packed_pages {
  name  "packed-{stage}"
  key   url
  entity Page {
    compress  over 1KB
    url:   string nonempty
    text:  string
    more:  json?
  }
}
param stage: string = "dev" from PACKED_STAGE
"""


def test_packed_items_are_read_with_the_same_lines(endpoint: str, tables: Any) -> None:
    stage = uuid.uuid4().hex[:8]
    options: dict[str, Any] = {"environment": {"PACKED_STAGE": stage}, "provision": True}
    with larder.open("packed.larder", f"dynamodb:{endpoint}", text=PACKED, **options) as system:
        more = {"list": [1, None, True, False, "t" * 2000, {"deep": [Decimal("0.25")]}]}
        system["Page"].put({"url": "a", "text": "lorem ipsum " * 1000, "more": more})
    table = tables.Table(f"packed-{stage}")
    stored = table.get_item(Key={"url": "a"})["Item"]
    assert "larder_packed" in stored
    read = whole(table, stored)
    assert read == {"url": "a", "text": "lorem ipsum " * 1000, "more": more}


def exported(system: str) -> Any:
    command = [sys.executable, "-m", "larder._cli", "export", "jsonschema", str(ROOT / "schemas" / f"{system}.larder")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def plain(value: Any) -> Any:
    """A stored value as JSON."""
    if isinstance(value, dict) and len(value) == 1:
        ((kind, inner),) = value.items()
        if kind == "N":
            return float(inner) if "." in inner else int(inner)
        if kind in ("S", "BOOL"):
            return inner
        if kind == "M":
            return {name: plain(member) for name, member in inner.items()}
        if kind == "L":
            return [plain(member) for member in inner]
    raise AssertionError(value)


@pytest.mark.parametrize("system", ["keiba", "tdnet", "weather", "shops", "lunch"])
def test_the_items_of_the_five_programs_are_what_the_json_schema_says(system: str) -> None:
    schema = exported(system)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker())
    items = json.loads((ROOT / "tests" / "clients" / "systems" / "items.json").read_text())[system]
    items = items if isinstance(items, list) else [item for part in items.values() for item in (part if isinstance(part, list) else [part])]
    assert items
    for item in items:
        json_item = {name: plain(value) for name, value in item.items()}
        assert not list(validator.iter_errors(json_item)), json_item
        for name in json_item:
            broken = {key: value for key, value in json_item.items() if key != name}
            broken["unheard_of"] = 1
            if system != "lunch":
                assert list(validator.iter_errors(broken)), "a strict table has no other attributes"


@pytest.mark.parametrize("system", ["keiba", "tdnet", "weather", "shops", "lunch"])
def test_pydantic_models_are_made_of_it(system: str, tmp_path: Path) -> None:
    pytest.importorskip("datamodel_code_generator")
    (tmp_path / "schema.json").write_text(json.dumps(exported(system)))
    command = [sys.executable, "-m", "datamodel_code_generator", "--input", "schema.json", "--input-file-type", "jsonschema"]
    command += ["--output", "models.py", "--output-model-type", "pydantic_v2.BaseModel", "--use-annotated", "--disable-timestamp"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=120)
    assert done.returncode == 0, done.stderr
    sys.path.insert(0, str(tmp_path))
    try:
        sys.modules.pop("models", None)
        models = importlib.import_module("models")
    finally:
        sys.path.remove(str(tmp_path))
    if system == "weather":
        read = {
            "lat": 35.0, "lon": 135.8, "hour": "2026-01-15T10:00:00Z", "created_at": "2026-01-15T10:00:00.000000Z",
            "data": {"temperature": 1.0, "humidity": 65.0, "wind_speed": 1, "rainfall_intensity": 0, "weather_description": "x",
                     "timestamp": "2026-01-15T10:00:00"},
        }  # fmt: skip
        assert models.Forecast.model_validate(read).data.humidity == 65.0
        read["data"]["humidity"] = 101  # type: ignore[index]
        with pytest.raises(Exception, match="less than or equal to 100"):
            models.Forecast.model_validate(read)
