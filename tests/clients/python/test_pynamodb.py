"""PynamoDB, an object mapper: models, indexes, updates, versions, batches, transactions."""

import os
import uuid
from datetime import datetime, timezone

import pytest
from pynamodb.attributes import (
    BinaryAttribute,
    BooleanAttribute,
    JSONAttribute,
    ListAttribute,
    MapAttribute,
    NumberAttribute,
    TTLAttribute,
    UnicodeAttribute,
    UnicodeSetAttribute,
    UTCDateTimeAttribute,
    VersionAttribute,
)
from pynamodb.connection import Connection
from pynamodb.exceptions import (
    DoesNotExist,
    PutError,
    TableError,
    TransactWriteError,
    UpdateError,
    VerboseClientError,
)
from pynamodb.indexes import (
    AllProjection,
    GlobalSecondaryIndex,
    KeysOnlyProjection,
    LocalSecondaryIndex,
)
from pynamodb.models import Model
from pynamodb.transactions import TransactGet, TransactWrite

REGION = "us-east-1"


class Size(MapAttribute):
    width = NumberAttribute()
    height = NumberAttribute(null=True)


@pytest.fixture
def book(name):
    """A model of its own table, as its class."""
    table = name("books")

    class ByGenre(GlobalSecondaryIndex):
        class Meta:
            index_name = "by_genre"
            projection = AllProjection()

        genre = UnicodeAttribute(hash_key=True)
        pages = NumberAttribute(range_key=True)

    class ByYear(LocalSecondaryIndex):
        class Meta:
            index_name = "by_year"
            projection = KeysOnlyProjection()

        author = UnicodeAttribute(hash_key=True)
        year = NumberAttribute(range_key=True)

    class Book(Model):
        class Meta:
            table_name = table
            host = os.environ["ENDPOINT"]
            region = REGION
            billing_mode = "PAY_PER_REQUEST"
            max_retry_attempts = 0

        author = UnicodeAttribute(hash_key=True)
        title = UnicodeAttribute(range_key=True)
        genre = UnicodeAttribute(null=True)
        pages = NumberAttribute(default=0)
        year = NumberAttribute(null=True)
        lent = BooleanAttribute(default=False)
        tags = UnicodeSetAttribute(null=True)
        cover = BinaryAttribute(null=True, legacy_encoding=False)
        size = Size(null=True)
        chapters = ListAttribute(null=True)
        facts = JSONAttribute(null=True)
        bought = UTCDateTimeAttribute(null=True)
        expires = TTLAttribute(null=True)
        by_genre = ByGenre()
        by_year = ByYear()

    Book.create_table(wait=True)
    return Book


def fill(book, count=12):
    with book.batch_write() as batch:
        for i in range(count):
            batch.save(
                book("Lem", f"t{i:02}", genre=["sf", "essay"][i % 2], pages=100 + i, year=1980 - i)
            )


def test_a_table_exists_from_its_making_to_its_end(book):
    assert book.exists()
    assert book.describe_table()["TableStatus"] == "ACTIVE"
    # Making it again is no error for a mapper, though DynamoDB says that its TTL is on already.
    book.create_table(wait=True, ignore_update_ttl_errors=True)
    with pytest.raises(TableError, match="already enabled"):
        book.update_ttl(ignore_update_ttl_errors=False)
    book.delete_table()
    assert not book.exists()
    with pytest.raises(PutError) as caught:
        book("a", "b").save()
    assert caught.value.cause_response_code == "ResourceNotFoundException"


def test_a_saved_model_comes_back_whole(book):
    saved = book(
        "Tove",
        "Sommarboken",
        genre="novel",
        pages=170,
        year=1972,
        lent=True,
        tags={"island", "summer"},
        cover=b"\x00\xff",
        size=Size(width=13.5),
        chapters=["one", 2, None, {"three": [4]}],
        facts={"isbn": "91", "prints": [1, 2]},
        bought=datetime(2024, 5, 2, 12, 30, tzinfo=timezone.utc),
        expires=datetime(2099, 1, 1, tzinfo=timezone.utc),
    )
    saved.save()
    found = book.get("Tove", "Sommarboken", consistent_read=True)
    assert found.attribute_values.keys() == saved.attribute_values.keys()
    assert found.serialize() == saved.serialize()
    assert found.size.width == 13.5
    assert found.bought == saved.bought

    found.lent = False
    found.save()
    saved.refresh()
    assert saved.lent is False
    saved.delete()
    with pytest.raises(DoesNotExist):
        book.get("Tove", "Sommarboken")


def test_queries_page_filter_and_count(book):
    fill(book)
    assert book.count("Lem") == 12
    assert [b.title for b in book.query("Lem", limit=3)] == ["t00", "t01", "t02"]
    assert [b.title for b in book.query("Lem", book.title.between("t03", "t05"))] == [
        "t03",
        "t04",
        "t05",
    ]
    found = book.query("Lem", book.title.startswith("t0"), scan_index_forward=False, page_size=2)
    assert [b.title for b in found] == [f"t{i:02}" for i in range(9, -1, -1)]
    found = book.query("Lem", filter_condition=(book.pages > 105) & book.genre.is_in("essay"))
    assert [b.title for b in found] == ["t07", "t09", "t11"]

    # The iterator's own key resumes.
    first = book.query("Lem", limit=5, page_size=5)
    titles = [b.title for b in first]
    titles += [b.title for b in book.query("Lem", last_evaluated_key=first.last_evaluated_key)]
    assert titles == [f"t{i:02}" for i in range(12)]

    scanned = book.scan(book.genre == "sf", page_size=4, attributes_to_get=["title"])
    assert sorted(b.title for b in scanned) == [f"t{i:02}" for i in range(0, 12, 2)]


def test_indexes_answer_in_their_own_order(book):
    fill(book)
    found = list(book.by_genre.query("sf", book.pages >= 106, scan_index_forward=False))
    assert [b.pages for b in found] == [110, 108, 106]
    assert found[0].year == 1970
    assert book.by_genre.count("essay") == 6
    assert [b.title for b in book.by_year.query("Lem", book.year < 1972)] == ["t11", "t10", "t09"]
    assert len(list(book.by_genre.scan(page_size=5))) == 12


def test_update_actions_change_the_item_and_the_model(book):
    lent = book("Lem", "Solaris", pages=200, tags={"a", "b"}, chapters=["one"], size=Size(width=1))
    lent.save()
    lent.update(
        actions=[
            book.pages.set(book.pages + 10),
            book.genre.set("sf"),
            book.year.set(book.year | 1961),
            book.tags.delete({"a"}),
            book.chapters.set(book.chapters.append(["two"])),
            book.size.height.set(2),
            book.lent.remove(),
        ],
        condition=(book.pages == 200) & book.genre.does_not_exist() & (book.tags.contains("b")),
    )
    assert (lent.pages, lent.genre, lent.year, lent.tags) == (210, "sf", 1961, {"b"})
    found = book.get("Lem", "Solaris")
    assert found.serialize() == lent.serialize()
    assert found.chapters == ["one", "two"]
    assert (found.size.width, found.size.height) == (1, 2)
    lent.update(actions=[book.pages.add(5)])
    assert lent.pages == 215


def test_a_failed_condition_raises_with_its_cause(book):
    book("Lem", "Solaris", pages=1).save(condition=book.author.does_not_exist())
    with pytest.raises(PutError) as caught:
        book("Lem", "Solaris", pages=2).save(condition=book.author.does_not_exist())
    assert caught.value.cause_response_code == "ConditionalCheckFailedException"
    with pytest.raises(UpdateError) as caught:
        book("Lem", "Solaris").update([book.pages.set(3)], condition=book.pages > 5)
    assert caught.value.cause_response_code == "ConditionalCheckFailedException"
    assert book.get("Lem", "Solaris").pages == 1


def test_batches_write_and_get_more_than_one_request_holds(book):
    fill(book, 60)
    keys = [("Lem", f"t{i:02}") for i in range(60)] + [("Lem", "absent")]
    assert len(list(book.batch_get(keys, consistent_read=True))) == 60
    with book.batch_write() as batch:
        for found in book.query("Lem"):
            batch.delete(found)
    assert book.count("Lem") == 0


def test_transactions_are_all_or_none(book):
    connection = Connection(region=REGION, host=os.environ["ENDPOINT"], max_retry_attempts=0)
    book("Lem", "one", pages=1).save()
    book("Lem", "two", pages=2).save()
    with TransactWrite(connection=connection, client_request_token=uuid.uuid4().hex) as write:
        write.condition_check(book, "Lem", "one", condition=book.pages == 1)
        write.update(book("Lem", "two"), actions=[book.pages.add(20)])
        write.save(book("Lem", "three", pages=3), condition=book.author.does_not_exist())
    with TransactGet(connection=connection) as get:
        two = get.get(book, "Lem", "two")
        three = get.get(book, "Lem", "three")
    assert (two.get().pages, three.get().pages) == (22, 3)

    with pytest.raises(TransactWriteError) as caught:
        with TransactWrite(connection=connection) as write:
            write.delete(book("Lem", "one"))
            write.save(book("Lem", "three"), condition=book.author.does_not_exist())
    assert caught.value.cause_response_code == "TransactionCanceledException"
    reasons = caught.value.cancellation_reasons
    assert reasons[0] is None
    assert reasons[1].code == "ConditionalCheckFailed"
    assert book.get("Lem", "one").pages == 1


def test_a_version_lets_one_of_two_writers_through(name):
    table = name("versioned")

    class Versioned(Model):
        class Meta:
            table_name = table
            host = os.environ["ENDPOINT"]
            region = REGION
            billing_mode = "PAY_PER_REQUEST"
            max_retry_attempts = 0

        pk = UnicodeAttribute(hash_key=True)
        value = NumberAttribute(default=0)
        version = VersionAttribute()

    Versioned.create_table(wait=True)
    mine = Versioned("a")
    mine.save()
    theirs = Versioned.get("a")
    mine.value = 1
    mine.save()
    theirs.value = 2
    with pytest.raises(PutError):
        theirs.save()
    found = Versioned.get("a")
    assert (found.value, found.version) == (1, 2)


def test_statements_go_through_its_connection(book):
    """PynamoDB has no PartiQL of its own; what it sends for a program, with its errors, is any operation."""
    connection = Connection(region=REGION, host=os.environ["ENDPOINT"], max_retry_attempts=0)
    book("Lem", "one", pages=1).save()
    table = f'"{book.Meta.table_name}"'

    def execute(text, *parameters):
        return connection.dispatch("ExecuteStatement", {"Statement": text, "Parameters": list(parameters)})

    where = "WHERE author = ? AND title = ?"
    key = {"S": "Lem"}, {"S": "one"}
    execute(f"UPDATE {table} SET pages = pages + 7 {where}", *key)
    answer = execute(f"SELECT pages FROM {table} {where}", *key)
    assert answer["Items"] == [{"pages": {"N": "8"}}]
    # It asks for capacity by itself.
    assert answer["ConsumedCapacity"]["CapacityUnits"] == 0.5
    assert book.get("Lem", "one").pages == 8
    with pytest.raises(VerboseClientError) as refused:
        execute(f"UPDATE {table} SET pages = 1 {where} AND pages = 1", *key)
    assert refused.value.response["Error"]["Code"] == "ConditionalCheckFailedException"
