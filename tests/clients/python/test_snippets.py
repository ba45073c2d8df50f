"""The code of the shops and lunch documents, run as it stands there against the endpoint."""

import json
import os
import re
import subprocess
from datetime import datetime, timedelta, timezone

import pytest

import snippets
import systems

COUNTRY = "COUNTRY#DE"
# Every state of the two lifecycles, as the document's examples write them, and one that is not due yet.
STATES = {
    "never": "NEVER#",
    "stuck": "PROGRESS#2026-01-15T07:00:00Z",
    "working": "PROGRESS#2026-01-15T10:00:00Z",
    "old": "DONE#2026-01-12T12:00:00Z",
    "new": "DONE#2026-01-15T12:00:00Z",
}
DUE = {"never", "old"}


@pytest.fixture
def shops(client, resource):
    with systems.applied(client, "shops", "DYNAMODB_TABLE_NAME", "snippets-shops-") as name:
        yield resource.Table(name)


@pytest.fixture
def lunch(client, resource):
    with systems.applied(client, "lunch", "ENVIRONMENT", "lunch-cache-") as name:
        yield resource.Table(name)


def test_the_items_of_the_shops_document_are_kept_as_they_stand(shops):
    for block in snippets.blocks("shops", "json"):
        item = json.loads(block.text)
        shops.put_item(Item=item)
        key = {"pk": item["pk"], "sk": item["sk"]}
        assert shops.get_item(Key=key)["Item"] == item
    both = shops.query(KeyConditionExpression="pk = :pk", ExpressionAttributeValues={":pk": item["pk"]})
    assert [found["sk"] for found in both["Items"]] == ["META#", "URL#https://example.com/products/item-123"]


def shop(name, number, state, **more):
    return {
        "pk": f"SHOP#{name}",
        "sk": "META#",
        "domain": name,
        f"gsi{number}_pk": COUNTRY,
        f"gsi{number}_sk": state,
    } | more


def conditions(block):
    """The document's conditions with their filters. Texts in them become placeholders, which is how they are sent."""
    found = re.findall(r"^((?:begins_with|gsi).*)\n(?:# \+ Filter: (.*?) \()?", block.text + "\n", re.MULTILINE)
    for condition, rule in found:
        values = {}

        def placeholder(text):
            values[f":v{len(values)}"] = text[1]
            return f":v{len(values) - 1}"

        condition = re.sub(r"'([^']*)'", placeholder, condition)
        rule = re.sub(r"^(\w+) exists$", r"attribute_exists(\1)", rule)
        yield condition, values, {"FilterExpression": rule} if rule else {}


def queries(number):
    """The blocks about an index: what is due, and what is stuck."""
    all_of_them = snippets.titled("shops", "python", "Query Strategies:")
    return [block for block in all_of_them if f"gsi{number}_sk" in block.text]


@pytest.mark.parametrize("number, index", [(2, "CountryLastCrawledIndex"), (3, "CountryLastScrapedIndex")])
def test_the_queries_of_the_document_find_what_is_due_and_what_is_stuck(shops, number, index):
    crawled = {"last_crawled_end": "2026-01-14T00:00:00Z", "last_scraped_end": "2026-01-12T12:00:00Z"}
    for name, state in STATES.items():
        # What was never scraped is due once it was crawled.
        given = crawled | ({} if name != "never" else {"last_scraped_end": "2020-01-01T00:00:00Z"})
        shops.put_item(Item=shop(name, number, state, **given))
    shops.put_item(Item=shop("uncrawled", number, "NEVER#"))

    def ask(block):
        found = set()
        for condition, values, filtered in conditions(block):
            page = shops.query(
                IndexName=index,
                KeyConditionExpression=f"gsi{number}_pk = :country AND {condition}",
                ExpressionAttributeValues={":country": COUNTRY} | values,
                **filtered,
            )
            found |= {item["domain"] for item in page["Items"]}
        return found

    due, stuck = queries(number)
    assert ask(due) == DUE | ({"uncrawled"} if number == 2 else set())
    assert ask(stuck) == {"stuck"}


@pytest.mark.parametrize("at, number", [(0, 2), (1, 3)])
def test_the_lifecycle_of_the_document_is_written_state_by_state(shops, at, number):
    block = snippets.titled("shops", "python", "Lifecycle Example:")[at]
    seen = []
    for line in block.text.splitlines():
        given = {}
        exec(line, given)
        state = given.get(f"gsi{number}_sk")
        if state is None:
            continue
        shops.put_item(Item=shop("example.com", number, state))
        item = shops.get_item(Key={"pk": "SHOP#example.com", "sk": "META#"})["Item"]
        assert item[f"gsi{number}_sk"] == state
        seen.append(state.partition("#")[0])
    assert seen[:3] == ["NEVER", "PROGRESS", "DONE"]


def test_what_starts_a_local_store_in_the_document_is_the_server_here(client):
    [block] = snippets.blocks("shops", "bash")
    assert block.text == "docker-compose up\n"
    assert client.list_tables()["TableNames"] is not None


def menu():
    [lunch] = [json.loads(block.text) for block in snippets.titled("lunch", "json", "Lunch Object Schema")]
    ahead = datetime.now(timezone.utc) + timedelta(days=14)
    return {
        "pk": "niagara-2025-03",
        "restaurant": "niagara",
        "week": 3,
        "year": 2025,
        "lunches": [lunch],
        "lunchCount": 1,
        "cachedAt": "2025-01-20T10:30:00.000Z",
        "ttl": int(ahead.timestamp()),
    }


def test_the_access_patterns_of_the_lunch_document(lunch, client):
    told = [block.text.strip() for block in snippets.blocks("lunch", "")]
    item = menu()
    key = re.search(r'"(.*)"', told[0])[1]
    assert (key, re.search(r'"(.*)"', told[1])[1]) == (item["pk"], item["pk"])
    lunch.put_item(Item=item)
    assert lunch.get_item(Key={"pk": key})["Item"] == item

    index, restaurant = re.search(r'GSI: (\w+), restaurant: "(\w+)"', told[2]).groups()
    lunch.put_item(Item=item | {"pk": "niagara-2025-04", "cachedAt": "2025-01-27T10:30:00.000Z"})
    history = lunch.query(
        IndexName=index,
        KeyConditionExpression="restaurant = :restaurant",
        ExpressionAttributeValues={":restaurant": restaurant},
        ScanIndexForward=False,
    )
    assert [found["pk"] for found in history["Items"]] == ["niagara-2025-04", "niagara-2025-03"]

    # `ttl` is a reserved word of DynamoDB: the filter is refused as it stands, with DynamoDB's own words.
    rule = re.search(r'"(.*)"', told[3])[1]
    values = {":now": int(datetime.now(timezone.utc).timestamp())}
    with pytest.raises(client.exceptions.ClientError) as refused:
        lunch.scan(FilterExpression=rule, ExpressionAttributeValues=values)
    assert "Attribute name is a reserved keyword; reserved keyword: ttl" in str(refused.value)
    named = {"ExpressionAttributeNames": {"#ttl": "ttl"}}
    rule = rule.replace("ttl", "#ttl")
    assert lunch.scan(FilterExpression=rule, ExpressionAttributeValues=values, **named)["Count"] == 0

    assert told[4] == "PutItem + GetItem + DeleteItem (test operations)"
    probe = {"pk": "health-check", "restaurant": "none", "cachedAt": "2025-01-20T10:30:00.000Z"}
    lunch.put_item(Item=probe)
    assert lunch.get_item(Key={"pk": "health-check"}, ConsistentRead=True)["Item"] == probe
    lunch.delete_item(Key={"pk": "health-check"})
    assert "Item" not in lunch.get_item(Key={"pk": "health-check"}, ConsistentRead=True)


def test_what_the_lunch_document_allows_the_exported_policy_allows():
    binary = os.environ.get("LARDER_BIN")
    if not binary:
        pytest.skip("LARDER_BIN does not name the binary that writes policies")
    [wanted] = [json.loads(block.text) for block in snippets.titled("lunch", "json", "IAM Permissions")]
    schema = systems.SCHEMAS / "lunch.larder"
    done = subprocess.run(
        [binary, "export", "iam", schema], capture_output=True, text=True, check=True, timeout=60
    )
    ours = json.loads(done.stdout)
    actions = {action for statement in ours["Statement"] for action in statement["Action"]}
    [statement] = wanted["Statement"]
    assert set(statement["Action"]) <= actions
