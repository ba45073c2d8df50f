"""The five systems as their users set them up: tables that `larder apply` makes, and items all sides agree on.

`ITEMS` are items in DynamoDB's JSON, all written at `NOW`: the programs here write exactly these and read
them, and so does the data layer (`crates/larder/tests/seeds.rs`). `NOW` is far ahead, so that no server
takes an item of that moment for an expired one.

On a server with `--access`, ACCESS names its access file: the programs sign as their system, and what is done around
them is the administrator's.
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


def credentials(name="administrator"):
    """The key of somebody in the access file. Without a file any key is good."""
    file = os.environ.get("ACCESS")
    if not file:
        return {"aws_access_key_id": "larderclients", "aws_secret_access_key": "secret"}
    for principal in json.loads(Path(file).read_text(encoding="utf-8"))["principals"]:
        if principal["name"] == name:
            key = principal["keys"][0]
            return {"aws_access_key_id": key["id"], "aws_secret_access_key": key["secret"]}
    raise LookupError(f"{file} has no {name}")


def denied(name, resource):
    """What botocore says when somebody lacks the permission that their name ends with."""
    action = f"dynamodb:{name.rpartition('.')[2]}"
    return (
        f"An error occurred (AccessDeniedException) when calling the {action.removeprefix('dynamodb:')} operation "
        f"(reached max retries: 0): User: arn:aws:iam::000000000000:user/{name} is not authorized to perform: {action} "
        f"on resource: arn:aws:dynamodb:{resource} because no identity-based policy allows the {action} action"
    )


needs_access = pytest.mark.skipif("ACCESS" not in os.environ, reason="the server has no --access")


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
    key = {variable.upper(): value for variable, value in credentials().items()}
    subprocess.run(
        [binary, "apply", SCHEMAS / f"{system}.larder", "--yes", "--store", store],
        env=os.environ
        | key
        | {"AWS_REGION": client.meta.region_name, "AWS_EC2_METADATA_DISABLED": "true", variable: value},
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
