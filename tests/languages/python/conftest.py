"""Stores for the tests: in memory, a directory, and Larder's endpoint, served by the command that the wheel brings."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any, Iterator

import pytest

import larder

ROOT = Path(__file__).parent.parent.parent.parent


@pytest.fixture(scope="session")
def endpoint() -> Iterator[str]:
    """A server in memory, and its address."""
    command = [sys.executable, "-m", "larder._cli", "serve", "--memory", "--dynamodb", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            line = next(line for line in server.stdout if "listening on" in line)
            yield line.split("listening on ")[1].strip()
        finally:
            server.terminate()
            server.wait(10)


@pytest.fixture(params=["memory", "directory", "endpoint"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> larder.Store:
    """An observed store of each kind."""
    if request.param == "memory":
        return larder.Store("memory:")
    if request.param == "directory":
        return larder.Store(str(tmp_path / "data"), observed=True)
    os.environ.update(AWS_ACCESS_KEY_ID="any", AWS_SECRET_ACCESS_KEY="any", AWS_REGION="us-east-1")
    return larder.Store("dynamodb:" + request.getfixturevalue("endpoint"), observed=True)


@pytest.fixture
def options() -> dict[str, Any]:
    """How a system is opened that has its tables to itself."""
    return {"environment": {"SCENARIOS_STAGE": uuid.uuid4().hex[:12]}, "provision": True}
