"""What one language writes the others read: records by Python and by the command, which is Rust, in one directory.

`exchange.py write DIRECTORY` and `exchange.py read DIRECTORY` do Python's part for others.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from runner import EXCHANGE, SCHEMA, expected, fields, told

import larder


def key_of(shelf: Any, values: dict[str, Any]) -> dict[str, Any]:
    return {name: values[name] for name in shelf._native.names()[1]}


def write(place: str) -> None:
    with larder.open(SCHEMA, place) as system:
        for record in EXCHANGE:
            system[record["entity"]].put(fields(record["fields"]))


def read(place: str) -> None:
    with larder.open(SCHEMA, place) as system:
        for record in EXCHANGE:
            shelf, values = system[record["entity"]], fields(record["fields"])
            found = shelf.get(key_of(shelf, values))
            assert found is not None, record["entity"]
            for name, value in values.items():
                assert found[name] == value, f"{record['entity']}.{name}"


def command(*arguments: str) -> str:
    done = subprocess.run([sys.executable, "-m", "larder._cli", *arguments], capture_output=True, text=True, timeout=60, cwd=SCHEMA.parent)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_what_python_writes_the_command_reads(tmp_path: Path) -> None:
    place = str(tmp_path / "data")
    write(place)
    read(place)
    names = {}
    with larder.open(SCHEMA, "memory:") as system:
        for record in EXCHANGE:
            names[record["entity"]] = key_of(system[record["entity"]], record["fields"])
    for record in EXCHANGE:
        key = [f"{name}={value}" for name, value in names[record["entity"]].items()]
        shown = json.loads(command("get", f"{SCHEMA}.{record['entity']}", "--store", place, "--json", *key))
        for name, value in fields(record["fields"]).items():
            assert shown[name] == told(value), name


def test_what_the_command_writes_python_reads(tmp_path: Path) -> None:
    place = str(tmp_path / "data")
    for at, record in enumerate(EXCHANGE):
        document = {name: told(expected(value)) for name, value in record["fields"].items()}
        file = tmp_path / f"{at}.json"
        file.write_text(json.dumps(document))
        command("put", f"{SCHEMA}.{record['entity']}", "--store", place, "--file", str(file))
    read(place)
