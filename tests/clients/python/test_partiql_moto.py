"""PartiQL held against moto, another implementation: random statements of the part that moto knows, and what moto gets wrong.

Both sides execute the same statements on the same items, and have the same items afterwards; a run is its seed. What moto
answers otherwise is in `WRONG`, by statement: there the documentation is on our side. A statement of that list must stay
wrong, or it is to be moved to the random part.
"""

import json
import random

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

TABLE = {
    "AttributeDefinitions": [
        {"AttributeName": "pk", "AttributeType": "S"},
        {"AttributeName": "sk", "AttributeType": "S"},
    ],
    "KeySchema": [
        {"AttributeName": "pk", "KeyType": "HASH"},
        {"AttributeName": "sk", "KeyType": "RANGE"},
    ],
    "BillingMode": "PAY_PER_REQUEST",
}


class Side:
    def __init__(self, client, table):
        self.client, self.table = client, table
        client.create_table(TableName=table, **TABLE)
        client.get_waiter("table_exists").wait(TableName=table)

    def put(self, item):
        self.client.put_item(TableName=self.table, Item=item)

    def stored(self):
        return ordered(self.client.scan(TableName=self.table)["Items"])

    def executed(self, statement, parameters=()):
        """Its items, or the name of the error."""
        more = {"Parameters": list(parameters)} if parameters else {}
        try:
            answer = self.client.execute_statement(Statement=statement.replace("@", f'"{self.table}"'), **more)
        except ClientError as error:
            return error.response["Error"]["Code"]
        except (AssertionError, ArithmeticError, AttributeError, TypeError) as error:
            # From within moto, which runs in this process.
            return type(error).__name__
        return ordered(answer["Items"])


def ordered(items):
    return sorted(items, key=lambda item: json.dumps(item, sort_keys=True))


@pytest.fixture
def sides(client, name):
    """This endpoint and moto, with the same items."""
    with mock_aws():
        moto = boto3.client("dynamodb", region_name="us-east-1")
        sides = [Side(client, name("moto")), Side(moto, "moto")]
        for side in sides:
            for pk in "abc":
                for sk in range(4):
                    item = {"pk": {"S": pk}, "sk": {"S": str(sk)}, "r": {"N": str(sk * 10)}}
                    if sk > 0:
                        item |= {"n": {"N": str(sk)}, "x": {"S": "odd" if sk % 2 else "even"}}
                    side.put(item)
        yield sides


class Statements:
    """Random ones, whose table is `@`, with their parameters."""

    def __init__(self, seed):
        self.chance = random.Random(seed)
        self.inserted = 0

    def condition(self):
        parameters = []
        # One value of it: two overlap, which DynamoDB refuses and moto does not know of.
        partition = ["pk", "pk"]

        def test(plain=False):
            kinds = [*partition, "sk", "x", "x ?", "n ?"] + ([] if plain else ["r", "missing"])
            kind = self.chance.choice(kinds)
            if kind == "pk":
                partition.clear()
            match kind:
                case "pk":
                    return f"pk = '{self.chance.choice('abcd')}'"
                case "sk":
                    return f"sk = '{self.chance.randrange(4)}'"
                case "x":
                    return f"x = '{self.chance.choice(['odd', 'even', 'new'])}'"
                case "x ?":
                    parameters.append({"S": self.chance.choice(["odd", "even", "new"])})
                    return "x = ?"
                case "n ?":
                    parameters.append({"N": str(self.chance.randrange(4))})
                    return "n = ?"
                case "r":
                    return f"r {self.chance.choice(['<', '<=', '>', '>='])} {self.chance.randrange(0, 40, 5)}"
                case _:
                    return self.chance.choice(["x IS MISSING", "x IS NOT MISSING"])

        words = self.chance.choice([("AND", "OR"), ("OR", "AND")])
        tests = [test() for _ in range(self.chance.randrange(1, 4))]
        if self.chance.randrange(3) == 0:
            tests.append(f"({test(plain=True)} {words[1]} {test(plain=True)})")
        return f" {words[0]} ".join(tests), parameters

    def select(self):
        columns = self.chance.choice(["*", "pk, sk", "x", "pk, n, x, none"])
        condition, parameters = self.condition()
        return f"SELECT {columns} FROM @ WHERE {condition}", parameters

    def write(self, stored):
        """Of an item that is there, or a new one."""
        item = self.chance.choice(stored)
        where = f"WHERE pk = '{item['pk']['S']}' AND sk = '{item['sk']['S']}'"
        text, number = self.chance.choice(["odd", "even", "new"]), self.chance.randrange(4)
        match self.chance.randrange(6):
            case 0:
                self.inserted += 1
                return f"INSERT INTO @ VALUE {{'pk': 'd', 'sk': '{self.inserted}', 'r': {number}, 'x': '{text}'}}", []
            case 1:
                return f"UPDATE @ SET x = '{text}' {where}", []
            case 2:
                return f"UPDATE @ SET n = ?, x = ? {where}", [{"N": str(number)}, {"S": text}]
            case 3:
                return f"UPDATE @ REMOVE n {where}", []
            case 4:
                return f"UPDATE @ REMOVE x {where}", []
            case _:
                return f"DELETE FROM @ {where}", []


@pytest.mark.parametrize("seed", range(25))
def test_random_statements_do_the_same(sides, seed):
    ours, theirs = sides
    statements, found = Statements(seed), 0
    for _ in range(12):
        for statement, parameters in [statements.write(ours.stored()), statements.select(), statements.select()]:
            answers = [side.executed(statement, parameters) for side in sides]
            assert answers[0] == answers[1], f"seed {seed}: {statement} {parameters}"
            found += len(answers[0])
        assert ours.stored() == theirs.stored(), f"seed {seed}: {statement} {parameters}"
    assert found > 0


# By statement: what it answers as the documentation has it, and what moto answers.
FIRST = {"pk": {"S": "a"}, "sk": {"S": "0"}}
OF_A = "SELECT sk FROM @ WHERE pk = 'a' AND "
KEY = "WHERE pk = 'a' AND sk = '1'"


def sorts(*numbers):
    return [{"sk": {"S": str(number)}} for number in numbers]


WRONG = [
    # A number that is written out is none of an item's numbers.
    (f"{OF_A}r = 10", sorts(1), []),
    (f"{OF_A}n <> 1", sorts(0, 2, 3), []),
    (f"{OF_A}r BETWEEN 5 AND 15", sorts(1), []),
    # What is missing cannot be compared with, and texts have no order.
    (f"{OF_A}n > 1", sorts(2, 3), "AttributeError"),
    ("SELECT sk FROM @ WHERE pk <= 'a'", sorts(0, 1, 2, 3), "InvalidOperation"),
    # Other operators and functions are taken for equality, or for nothing.
    (f"{OF_A}x <> 'odd'", sorts(0, 2), sorts(1, 3)),
    (f"{OF_A}x IN ['new', 'odd']", sorts(1, 3), []),
    (f"{OF_A}NOT x = 'odd'", sorts(0, 2), []),
    (f"{OF_A}begins_with(x, 'o')", sorts(1, 3), sorts(0, 1, 2, 3)),
    (f"{OF_A}size(x) = 3", sorts(1, 3), []),
    ("SELECT sk FROM @ WHERE begins_with(x, 'o') AND pk = 'a'", sorts(1, 3), []),
    # AND binds closer than OR.
    ("SELECT sk FROM @ WHERE pk = 'a' OR pk = 'b' AND sk = '9'", sorts(0, 1, 2, 3), []),
    # An INSERT takes the place of what is there, and an UPDATE of nothing does nothing.
    ("INSERT INTO @ VALUE {'pk': 'a', 'sk': '0'}", "DuplicateItemException", []),
    ("UPDATE @ SET x = 'y' WHERE pk = 'a' AND sk = '9'", "ConditionalCheckFailedException", []),
    (f"UPDATE @ SET x = 'y' {KEY} AND x = 'even'", "ConditionalCheckFailedException", []),
    (f"UPDATE @ SET n = n + 1 {KEY}", [], "AssertionError"),
    (f"UPDATE @ SET n = 6 {KEY}", [], "AssertionError"),
]


@pytest.mark.parametrize("statement, ours, theirs", WRONG)
def test_what_moto_gets_wrong_stays_wrong(sides, statement, ours, theirs):
    answers = [side.executed(statement) for side in sides]
    assert answers == [ours, theirs]
