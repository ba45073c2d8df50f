"""mypy --strict and pyright: what is right passes, and ten typical mistakes do not."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from conftest import ROOT

HERE = Path(__file__).parent
EXAMPLES = ROOT / "examples" / "python"
RIGHT = [EXAMPLES / name for name in ("keiba_cache.py", "shop_table.py", "weather_cache.py", "larder_parts.py", "test_examples.py")]
WRONG = HERE / "mistakes.py"


def checked(*command: str) -> str:
    environment = {**os.environ, "MYPYPATH": str(EXAMPLES), "PYTHONPATH": str(EXAMPLES)}
    done = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, env=environment, cwd=EXAMPLES, timeout=600)
    return done.stdout + done.stderr


def marked() -> set[int]:
    return {at for at, line in enumerate(WRONG.read_text().splitlines(), 1) if line.endswith("# wrong")}


def mypy(*files: Path) -> str:
    return checked("mypy", "--strict", "--no-error-summary", *map(str, files))


def pyright(*files: Path) -> list[dict[str, object]]:
    project = ["--pythonpath", sys.executable, "--outputjson"]
    told = json.loads(checked("pyright", *project, *map(str, files)))
    return [found for found in told["generalDiagnostics"] if found["severity"] == "error"]


def test_mypy_passes_the_examples_and_what_is_exported() -> None:
    assert mypy(*RIGHT) == ""


def test_mypy_passes_the_package() -> None:
    assert mypy(*sorted((ROOT / "crates/python/python/larder").glob("*.py"))) == ""


def test_mypy_refuses_ten_mistakes() -> None:
    found = {int(line) for line in re.findall(r"mistakes\.py:(\d+): error", mypy(WRONG))}
    assert len(marked()) == 10
    assert found == marked(), mypy(WRONG)


def test_pyright_passes_the_examples_and_what_is_exported() -> None:
    assert pyright(*RIGHT) == []


def test_pyright_refuses_ten_mistakes() -> None:
    found = pyright(WRONG)
    lines = {error["range"]["start"]["line"] + 1 for error in found}  # type: ignore[index]
    assert lines == marked(), found


def test_what_is_exported_is_what_the_command_writes_today() -> None:
    for system in ("keiba", "shops", "weather"):
        command = [sys.executable, "-m", "larder._cli", "export", "python", system]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=60)
        assert done.returncode == 0, done.stderr
        committed = (EXAMPLES / f"{system}_types.py").read_text()
        assert done.stdout == committed, f"{system}_types.py is old: larder export python {system} --out examples/python/{system}_types.py"
