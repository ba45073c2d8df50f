"""The policies that the five schemas export, enforced: each permission taken away is missed by the calls that need it.

For each permission the access file has the system's principal without it (`systems/access.py`). Each principal tries
every call on every table of its system: what its policy names is served, and all else is refused by name.
"""

import json
import os
import subprocess
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import boto3
import pytest
from botocore.exceptions import ClientError
from conftest import CONFIG, ENDPOINT

import access
import systems

if "ACCESS" not in os.environ:
    pytest.skip("the server has no --access", allow_module_level=True)

POLICIES = {
    principal["name"]: next(iter(principal["policies"].values()))
    for principal in json.loads(Path(os.environ["ACCESS"]).read_text(encoding="utf-8"))["principals"]
}
WITHOUT = [name for name in POLICIES if "." in name]


@cache
def client_of(name, region):
    key = systems.credentials(name)
    return boto3.client("dynamodb", endpoint_url=ENDPOINT, region_name=region, config=CONFIG, **key)


def table_and_region(statement):
    """The pattern of the name of a statement's table, and the region it is in."""
    _, _, _, region, _, table = statement["Resource"][0].split(":")
    return table.removeprefix("table/"), "us-east-1" if region == "*" else region


@pytest.fixture(scope="module")
def tables():
    """Every statement's table, as DescribeTable tells of it. The server is gone after this, and they with it."""
    key = {variable.upper(): value for variable, value in systems.credentials().items()}
    found = {}
    for system in access.SYSTEMS:
        _, region = table_and_region(POLICIES[system]["Statement"][0])
        schema = systems.SCHEMAS / f"{system}.larder"
        subprocess.run(
            [os.environ["LARDER_BIN"], "apply", schema, "--yes", "--store", f"dynamodb:{ENDPOINT}"],
            env=os.environ | key | {"AWS_REGION": region},
            check=True,
            timeout=60,
            stdout=subprocess.DEVNULL,
        )
        for at, statement in enumerate(POLICIES[system]["Statement"]):
            pattern, region = table_and_region(statement)
            client = client_of("administrator", region)
            (name,) = [name for name in client.list_tables()["TableNames"] if fnmatchcase(name, pattern)]
            found[system, at] = client.describe_table(TableName=name)["Table"]
    return found


def calls(table, region):
    """Every call that a policy of a schema can be about: its action, its resource, and how it is made."""
    name, arn = table["TableName"], f"arn:aws:dynamodb:{region}:000000000000:table/{table['TableName']}"
    types = {attribute["AttributeName"]: attribute["AttributeType"] for attribute in table["AttributeDefinitions"]}

    def value(attribute):
        return {types[attribute]: {"S": "probe", "N": "1"}[types[attribute]]}

    def partition(schema):
        attribute = schema[0]["AttributeName"]
        return {
            "KeyConditionExpression": "#key = :key",
            "ExpressionAttributeNames": {"#key": attribute},
            "ExpressionAttributeValues": {":key": value(attribute)},
        }

    key = {part["AttributeName"]: value(part["AttributeName"]) for part in table["KeySchema"]}
    sets = {"UpdateExpression": "SET note = :note", "ExpressionAttributeValues": {":note": {"S": "probe"}}}
    yield "GetItem", arn, lambda client: client.get_item(TableName=name, Key=key)
    yield "BatchGetItem", arn, lambda client: client.batch_get_item(RequestItems={name: {"Keys": [key]}})
    yield "PutItem", arn, lambda client: client.put_item(TableName=name, Item=key)
    yield "UpdateItem", arn, lambda client: client.update_item(TableName=name, Key=key, **sets)
    yield "DeleteItem", arn, lambda client: client.delete_item(TableName=name, Key=key)
    put = {"PutRequest": {"Item": key}}
    yield "BatchWriteItem", arn, lambda client: client.batch_write_item(RequestItems={name: [put]})
    yield "Query", arn, lambda client: client.query(TableName=name, **partition(table["KeySchema"]))
    yield "Scan", arn, lambda client: client.scan(TableName=name)
    yield "DescribeTable", arn, lambda client: client.describe_table(TableName=name)
    yield "DeleteTable", arn, lambda client: client.delete_table(TableName=name)
    for index in table.get("GlobalSecondaryIndexes", []):
        schema, index = index["KeySchema"], index["IndexName"]
        at = {"TableName": name, "IndexName": index}
        yield "Query", f"{arn}/index/{index}", lambda client, at=at, of=schema: client.query(**at, **partition(of))
        yield "Scan", f"{arn}/index/{index}", lambda client, at=at: client.scan(**at)


def allowed(policy, action, resource):
    """Whether a statement names this: exported policies have no `Deny`, no conditions and no wildcards in actions."""
    return any(
        f"dynamodb:{action}" in statement["Action"]
        and any(fnmatchcase(resource, pattern) for pattern in statement["Resource"])
        for statement in policy["Statement"]
    )


def refused(tables, name):
    """Makes every call as somebody. Returns what was refused, having seen that nothing else was, nor otherwise."""
    found = set()
    for (system, at), table in tables.items():
        if system != name.partition(".")[0]:
            continue
        _, region = table_and_region(POLICIES[system]["Statement"][at])
        client = client_of(name, region)
        for action, resource, call in calls(table, region):
            if allowed(POLICIES[name], action, resource):
                assert call(client)["ResponseMetadata"]["HTTPStatusCode"] == 200
                continue
            with pytest.raises(ClientError) as error:
                call(client)
                pytest.fail(f"{name} may do {action} on {resource}")
            answer = error.value.response
            assert answer["Error"]["Code"] == "AccessDeniedException"
            assert answer["ResponseMetadata"]["HTTPStatusCode"] == 400
            assert answer["Error"]["Message"] == (
                f"User: arn:aws:iam::000000000000:user/{name} is not authorized to perform: dynamodb:{action} on "
                f"resource: {resource} because no identity-based policy allows the dynamodb:{action} action"
            )
            found.add((at + 1, action, resource))
    return found


@pytest.fixture(scope="module")
def whole(tables):
    """What is refused to each system with its whole policy."""
    return {system: refused(tables, system) for system in access.SYSTEMS}


@pytest.mark.parametrize("name", WITHOUT)
def test_each_permission_taken_away_is_missed(tables, whole, name):
    system, statement, permission = name.split(".")
    missed = refused(tables, name) - whole[system]
    assert missed, f"{name} may do all that {system} may"
    assert {at for at, _, _ in missed} == {int(statement)}
    if permission in ("table", "index"):
        assert {"index" if "/index/" in resource else "table" for _, _, resource in missed} == {permission}
    else:
        assert {action for _, action, _ in missed} == {permission}


@pytest.mark.parametrize("system", access.SYSTEMS)
def test_a_policy_allows_no_more_than_it_names(whole, system):
    actions = {action for _, action, _ in whole[system]}
    assert {"DescribeTable", "DeleteTable"} <= actions


@pytest.mark.parametrize("system", access.SYSTEMS)
def test_every_permission_of_the_policy_is_tried(system):
    tried = {name.removeprefix(f"{system}.") for name in WITHOUT if name.startswith(f"{system}.")}
    named = {
        f"{at + 1}.{action.removeprefix('dynamodb:')}"
        for at, statement in enumerate(POLICIES[system]["Statement"])
        for action in statement["Action"]
    }
    assert named <= tried


@pytest.mark.parametrize("system", access.SYSTEMS)
def test_a_system_knows_nothing_of_the_tables_of_others(tables, system):
    for (other, at), table in tables.items():
        if other == system:
            continue
        _, region = table_and_region(POLICIES[other]["Statement"][at])
        client = client_of(system, region)
        for action, resource, call in calls(table, region):
            with pytest.raises(ClientError) as error:
                call(client)
            assert error.value.response["Error"]["Code"] == "AccessDeniedException", (action, resource)
