"""What is told to people holds: keys as `larder docs` has them, examples shorter than what they replace, code that the guide prints."""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from conftest import ROOT

import larder

AT = datetime(2026, 1, 5, 16, 20, 30, tzinfo=timezone.utc)
#: Of each entity what its key is made of, and what `larder docs` calls what is worked out of that.
KEYS: dict[str, dict[str, tuple[dict[str, Any], dict[str, Any]]]] = {
    "keiba": {
        "Race": ({"race_id": "202405021211"}, {}),
        "HorseResults": ({"horse_id": "2021105414"}, {}),
        "HorseParents": ({"horse_id": "2021105414"}, {}),
        "Jockey": ({"jockey_id": "05339"}, {}),
        "RaceDay": ({"date": date(2026, 1, 5)}, {}),
    },
    "weather": {
        "Forecast": ({"lat": Decimal("35.0116"), "lon": Decimal("-0.5"), "at": AT}, {"hour": AT.replace(minute=0, second=0)}),
    },
    "shops": {
        "Shop": ({"domain": "shop.example.co.uk"}, {}),
        "Page": ({"domain": "shop.example.co.uk", "url": "https://shop.example.co.uk/a"}, {}),
    },
    "lunch": {"Menu": ({"restaurant": "niagara", "year": 2026, "week": 3}, {})},
    "tdnet": {
        # Its key is worked out when it is made.
        "Disclosure": (
            {"disclosed_at": AT, "company_code": "7203", "company_name": "トヨタ", "disclosure_type": "決算短信", "title": "t", "downloaded_at": AT},
            {"jst": AT.astimezone(ZoneInfo("Asia/Tokyo")), "seq": 1},
        ),
        "Execution": ({"execution_id": "exec_1"}, {}),
        "Export": ({"export_id": "7f9c24e8-3b12-4c1e-9f0a-52d7b6c0e1a4"}, {}),
    },
}


def documented(system: str) -> str:
    command = [sys.executable, "-m", "larder._cli", "docs", str(ROOT / "schemas" / f"{system}.larder")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("system", KEYS)
def test_keys_are_made_as_the_page_of_a_system_says(system: str) -> None:
    (code,) = re.findall(r"## Without the layer\n.*?```python\n(.*?)```", documented(system), re.DOTALL)
    builders: dict[str, Any] = {}
    exec(code, builders)
    told = {name for name in builders if name.endswith("_key")}
    with larder.open(ROOT / "schemas" / f"{system}.larder", "memory:") as opened:
        for entity, (fields, worked_out) in KEYS[system].items():
            name = re.sub(r"(?<!^)(?=[A-Z])", "_", entity).lower() + "_key"
            builder = builders[name]
            names = builder.__code__.co_varnames[: builder.__code__.co_argcount]
            given = {**fields, **worked_out}
            shelf = opened[entity]
            wanted = shelf.create(fields).meta.stored_key if entity == "Disclosure" else shelf.stored_key(fields)
            assert builder(**{name: given[name] for name in names}) == wanted
            told.remove(name)
    assert not told, "each builder is tried"


@pytest.mark.parametrize(
    "example, theirs, name",
    [
        ("keiba_cache", "python/test_keiba.py", "KeibaCache"),
        ("shop_table", "python/test_shops.py", "ShopTable"),
        ("weather_cache", "python-async/test_weather.py", "DynamoDBCache"),
    ],
)
def test_an_example_is_shorter_than_the_class_it_replaces(example: str, theirs: str, name: str) -> None:
    def lines(text: str) -> int:
        return sum(1 for line in text.splitlines() if line.strip())

    whole = (ROOT / "tests" / "clients" / theirs).read_text()
    (found,) = re.findall(rf"^class {name}.*?(?=^\S)", whole, re.DOTALL | re.MULTILINE)
    ours = (ROOT / "examples" / "python" / f"{example}.py").read_text()
    assert "\nclass " in ours and lines(ours) < lines(found), (lines(ours), lines(found))


def test_the_guide_prints_the_lines_that_read_items_in_parts() -> None:
    code = (ROOT / "examples" / "python" / "larder_parts.py").read_text()
    guide = Path(ROOT / "docs" / "guides" / "python.md").read_text()
    assert code[code.index("import gzip") :] in guide
