"""The five systems as their users set them up: tables that `larder apply` makes, and items all sides agree on.

`ITEMS` are items in DynamoDB's JSON, all written at `NOW`: the programs here write exactly these and read
them, and so does the data layer (`crates/larder/tests/seeds.rs`). `NOW` is far ahead, so that no server
takes an item of that moment for an expired one.

On a server with `--access`, ACCESS names its access file: the programs sign as their system, and what is done around
them is the administrator's.

With `--throttle`, THROTTLES names a file. The tables then get few units, everybody tries again as their SDK has it, and what
was counted of each table is noted in the file, before its program and after it.
"""

import json
import os
import subprocess
import urllib.request
import uuid
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
SCHEMAS = HERE.parents[2] / "schemas"
ITEMS = json.loads((HERE / "items.json").read_text(encoding="utf-8"))
NOW = datetime.fromisoformat(ITEMS.pop("now").replace("Z", "+00:00"))


THROTTLES = os.environ.get("THROTTLES")
# One attempt, so that an error a retry would have hidden is seen. Otherwise as boto3 has it unasked: many at once are not
# kept by a quota from trying again.
RETRIES = {"mode": "legacy", "total_max_attempts": 12} if THROTTLES else {"mode": "standard", "total_max_attempts": 1}
# Units a second of each system's tables: too few for what its program does at once.
UNITS = {"weather": 5}


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
        if THROTTLES:
            starve(client, system, name)
        yield name
        if THROTTLES:
            note(system, name, "after")
    finally:
        client.delete_table(TableName=name)


def starve(client, system, table):
    """Leaves a table with few units. It was written to before, so that what is counted of it is there to be read."""
    described = client.describe_table(TableName=table)["Table"]
    key = {element["AttributeName"]: {"S": "first"} for element in described["KeySchema"]}
    client.put_item(TableName=table, Item=key)
    client.delete_item(TableName=table, Key=key)
    units = UNITS.get(system, 2)
    throughput = {"ReadCapacityUnits": units, "WriteCapacityUnits": units}
    indexes = [
        {"Update": {"IndexName": index["IndexName"], "ProvisionedThroughput": throughput}}
        for index in described.get("GlobalSecondaryIndexes", [])
    ]
    more = {"GlobalSecondaryIndexUpdates": indexes} if indexes else {}
    client.update_table(TableName=table, BillingMode="PROVISIONED", ProvisionedThroughput=throughput, **more)
    note(system, table, "before")


def note(system, table, when):
    """Notes what was turned away of a table, by operation, as the server has counted it."""
    with urllib.request.urlopen(f"{os.environ['ENDPOINT']}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    begin = f'larder_throttled_requests_total{{table="{table}",'
    rows = [line.rsplit(" ", 1) for line in lines if line.startswith(begin)]
    with Path(THROTTLES).open("a", encoding="utf-8") as file:
        for series, value in rows:
            file.write(f"{system}\t{when}\t{series}\t{value}\n")


def stored(client, table, key):
    """An item as it is stored, in DynamoDB's JSON."""
    return client.get_item(TableName=table, Key=key, ConsistentRead=True).get("Item")
