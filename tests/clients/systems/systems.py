"""The five systems as their users set them up: tables that `larder apply` makes, and items all sides agree on.

`ITEMS` are items in DynamoDB's JSON, all written at `NOW`: the programs here write exactly these and read
them, and so does the data layer (`crates/larder/tests/seeds.rs`). `NOW` is far ahead, so that no server
takes an item of that moment for an expired one.
"""

import json
import os
import subprocess
import uuid
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
SCHEMAS = HERE.parents[2] / "schemas"
ITEMS = json.loads((HERE / "items.json").read_text(encoding="utf-8"))
NOW = datetime.fromisoformat(ITEMS.pop("now").replace("Z", "+00:00"))


class Stopped(datetime):
    """A `datetime` whose clock stands at `NOW`, to be put in a program's place of it."""

    @classmethod
    def now(cls, tz=None):
        return NOW.astimezone(tz)


@contextmanager
def applied(client, system, variable, prefix):
    """Makes the one table of a system, named by `variable` as in production, and deletes it afterwards."""
    binary = os.environ.get("LARDER_BIN")
    if not binary:
        pytest.skip("LARDER_BIN does not name the binary whose `apply` makes the tables")
    # A server that holds the tables against their schemas knows their names beforehand.
    own = os.environ.get("LARDER_STAGE") or uuid.uuid4().hex
    name = f"{prefix}{own}"
    # Where the variable is the stage, the schema puts the prefix before it.
    value = own if variable == "ENVIRONMENT" else name
    store = f"dynamodb:{os.environ['ENDPOINT']}"
    credentials = {"AWS_ACCESS_KEY_ID": "larderclients", "AWS_SECRET_ACCESS_KEY": "secret"}
    subprocess.run(
        [binary, "apply", SCHEMAS / f"{system}.larder", "--yes", "--store", store],
        env=os.environ | credentials | {"AWS_EC2_METADATA_DISABLED": "true", variable: value},
        check=True,
        timeout=60,
        stdout=subprocess.DEVNULL,
    )
    try:
        yield name
    finally:
        client.delete_table(TableName=name)


def stored(client, table, key):
    """An item as it is stored, in DynamoDB's JSON."""
    return client.get_item(TableName=table, Key=key, ConsistentRead=True).get("Item")
