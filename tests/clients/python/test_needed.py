"""What the five programs did under the policies that their schemas export, as the server's audit log has it.

A permission that a policy gives and a program never used is more than that program needs. A schema's policy is for
whatever the data layer does with it as well, such as batches and invalidation, which these programs do not do; what they
leave is listed, and the list is all of it.
"""

import json
import os
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

import access

if "AUDIT" not in os.environ:
    pytest.skip("nothing was noted of the programs", allow_module_level=True)

#: By system, `statement.permission`: an action of that statement, or one of its resources.
UNUSED = {
    "keiba": {"1.BatchGetItem", "1.BatchWriteItem", "1.DeleteItem"},
    "lunch": {"1.BatchGetItem", "1.BatchWriteItem", "1.UpdateItem"},
    "shops": {"1.BatchGetItem", "1.BatchWriteItem", "1.DeleteItem", "1.GetItem"},
    "tdnet": {
        "1.BatchGetItem",
        "1.BatchWriteItem",
        "1.DeleteItem",
        "1.UpdateItem",
        "2.BatchWriteItem",
        "2.DeleteItem",
        "2.GetItem",
        "3.BatchWriteItem",
        "3.DeleteItem",
        "3.GetItem",
    },
    "weather": {"1.BatchWriteItem"},
}

POLICIES = {
    principal["name"]: next(iter(principal["policies"].values()))
    for principal in json.loads(Path(os.environ["ACCESS"]).read_text(encoding="utf-8"))["principals"]
}


def done(system):
    """What a program did: pairs of action and resource."""
    name = f"arn:aws:iam::000000000000:user/{system}"
    found = set()
    with open(os.environ["AUDIT"], encoding="utf-8") as log:
        for line in map(json.loads, log):
            if line.get("who") == name and line["allowed"]:
                found |= {(one["action"], one["resource"]) for one in line["did"]}
    return found


def used(statement, done):
    """The actions and the resources of a statement that something was done by."""
    hit = [
        (action, pattern)
        for action, resource in done
        if action in statement["Action"]
        for pattern in statement["Resource"]
        if fnmatchcase(resource, pattern)
    ]
    return {action for action, _ in hit}, {pattern for _, pattern in hit}


@pytest.mark.parametrize("system", access.SYSTEMS)
def test_a_program_needs_what_its_policy_allows(system):
    did = done(system)
    assert did, "the program did nothing"
    unused = set()
    for at, statement in enumerate(POLICIES[system]["Statement"], start=1):
        actions, resources = used(statement, did)
        unused |= {f"{at}.{action.removeprefix('dynamodb:')}" for action in set(statement["Action"]) - actions}
        unused |= {f"{at}.{resource.partition('/')[2]}" for resource in set(statement["Resource"]) - resources}
    assert unused == UNUSED[system]
