"""`larder mcp` as an assistant meets it: started by a client, asked by tools, on a store of its own."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from mcp import ClientSession, StdioServerParameters, stdio_client

LARDER = os.environ["LARDER_BIN"]
SCHEMAS = Path(__file__).parent.parent.parent / "schemas"
READING = ["schema", "check", "explain", "get", "query", "due", "stuck", "cost", "drift"]
WRITING = ["put", "rm", "transition", "release"]
BYTES_MAX = 48 * 1024
RUN = "7d444840-9dc0-41d1-b245-5ffdce74fad2"

LIBRARY = """system library
table books {
  key  pk
  index ByAuthor as by_author  author / year
  entity Book {
    key  "BOOK#{isbn}"
    isbn:    string nonempty
    author:  string nonempty
    year:    int in 1450..=2100
    text:    string?
    token:   string? secret
      pages:   [string] default []
  }
}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A directory with schemas of ours and of the five systems, and no store."""
    (tmp_path / "schemas").mkdir()
    for schema in SCHEMAS.glob("*.larder"):
        (tmp_path / "schemas" / schema.name).write_text(schema.read_text())
    (tmp_path / "schemas" / "library.larder").write_text(LIBRARY)
    return tmp_path


def larder(project: Path, *arguments: str, given: str | None = None) -> str:
    done = subprocess.run(
        [LARDER, *arguments], cwd=project, input=given, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def add(project: Path, isbn: str, year: int, **fields: str) -> None:
    given = {"isbn": isbn, "author": "Austen", "year": year, **fields}
    larder(project, "put", "library.Book", "--file", "-", given=json.dumps(given))


class Tools:
    """What is asked, and what comes of it; nothing may be larger than it says."""

    def __init__(self, session: ClientSession) -> None:
        self.session = session

    async def ask(self, name: str, /, **arguments: Any) -> tuple[str, dict[str, Any]]:
        result = await self.session.call_tool(name, arguments)
        (content,) = result.content
        assert not result.is_error, content.text
        assert len(content.text.encode()) <= BYTES_MAX
        assert len(json.dumps(result.structured_content, ensure_ascii=False).encode()) <= BYTES_MAX + 1024
        return content.text, result.structured_content

    async def refused(self, name: str, /, **arguments: Any) -> str:
        result = await self.session.call_tool(name, arguments)
        (content,) = result.content
        assert result.is_error, content.text
        return content.text


@asynccontextmanager
async def started(project: Path, *arguments: str) -> AsyncIterator[tuple[Any, Tools]]:
    environment = {"PATH": os.environ["PATH"], "HOME": str(project), "NO_COLOR": "1"}
    server = StdioServerParameters(
        command=LARDER, args=["mcp", "--project", str(project), *arguments], env=environment
    )
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        hello = await session.initialize()
        yield hello, Tools(session)


def run(project: Path, work: Callable[[Tools], Awaitable[None]], *arguments: str) -> None:
    async def main() -> None:
        async with asyncio.timeout(60), started(project, *arguments) as (_, tools):
            await work(tools)

    asyncio.run(main())


def test_it_says_who_it_is_what_there_is_and_what_it_can_do(project: Path) -> None:
    async def main() -> None:
        async with started(project) as (hello, tools):
            assert hello.server_info.name == "larder"
            assert "library.Book  key isbn; by_author author" in hello.instructions
            assert "Nothing can be written." in hello.instructions
            given = (await tools.session.list_tools()).tools
            assert [tool.name for tool in given] == READING
            for tool in given:
                assert tool.annotations.read_only_hint, tool.name
                jsonschema.Draft202012Validator.check_schema(tool.input_schema)
        async with started(project, "--write") as (hello, tools):
            assert "Writes are checked by the schema." in hello.instructions
            given = (await tools.session.list_tools()).tools
            assert [tool.name for tool in given] == READING + WRITING
            assert not any(tool.annotations.read_only_hint for tool in given if tool.name in WRITING)

    asyncio.run(main())


def test_a_record_is_given_as_the_command_gives_it_without_its_secrets(project: Path) -> None:
    add(project, "1", 1811, token="hunter2", text="Sense\nand Sensibility")
    as_told = json.loads(larder(project, "get", "library.Book", "isbn=1", "--json"))

    async def work(tools: Tools) -> None:
        text, told = await tools.ask("get", entity="library.Book", fields={"isbn": "1"})
        assert told == {"record": as_told}
        assert json.loads(text) == as_told
        assert as_told["token"] == {"secret": "not shown"}
        assert "hunter2" not in text
        text, told = await tools.ask("get", entity="library.Book", key="BOOK#1", field="text")
        assert (text, told) == ("Sense\nand Sensibility", {"field": "text", "bytes": 21})
        text, _ = await tools.ask("get", entity="library.Book", fields={"isbn": 1}, field="token")
        assert "hunter2" not in text

    run(project, work)


def test_a_query_has_its_price_and_goes_on_at_its_cursor(project: Path) -> None:
    for nth in range(7):
        add(project, str(nth), 1800 + nth)
    asked = {"entity": "library.Book", "index": "by_author", "partition": {"author": "Austen"}}

    async def work(tools: Tools) -> None:
        text, told = await tools.ask("query", **asked, limit=5)
        assert [record["isbn"] for record in told["records"]] == ["0", "1", "2", "3", "4"]
        assert [json.loads(line) for line in text.splitlines() if line.startswith("{")] == told["records"]
        assert told["read_units"] == 0.5 and 0 < told["dollars"] < 1e-6
        assert "it took 0.5 read units" in text and told["cursor"] in text
        _, rest = await tools.ask("query", **asked, limit=5, cursor=told["cursor"])
        assert [record["isbn"] for record in rest["records"]] == ["5", "6"]
        assert "cursor" not in rest
        _, newest = await tools.ask("query", **asked, **{"from": "1803"}, until=1805, newest_first=True)
        assert [record["year"] for record in newest["records"]] == [1805, 1804, 1803]
        text, told = await tools.ask("query", **asked, explain=True)
        assert told["keys"] == 'author = "Austen"' and told["index"] == "ByAuthor"
        assert told["read_units"] == 128 and "costs  at most" in text
        text, told = await tools.ask("query", entity="library.Book", index="by_author", partition={"author": "Nobody"})
        assert told["records"] == [] and text.startswith("nothing is there")

    run(project, work)


def test_large_records_are_given_in_pages_and_parts(project: Path) -> None:
    texts = {str(nth): f"{nth}é\n" * 6_000 for nth in range(4)}
    texts["9"] = "".join(f"{nth}字\n" for nth in range(30_000))
    for isbn, text in texts.items():
        add(project, isbn, 1800 + int(isbn), text=text)

    async def work(tools: Tools) -> None:
        asked = {"entity": "library.Book", "index": "by_author", "partition": {"author": "Austen"}}
        found: dict[str, Any] = {}
        cursor, pages = None, 0
        while True:
            text, told = await tools.ask("query", **asked, cursor=cursor)
            found.update({record["isbn"]: record for record in told["records"]})
            pages += 1
            cursor = told.get("cursor")
            if cursor is None:
                break
        assert sorted(found) == sorted(texts) and pages == 4
        assert found["3"]["text"] == texts["3"]
        assert "text" not in found["9"] and "left out, because it is large: `text`" in text

        _, told = await tools.ask("get", entity="library.Book", fields={"isbn": "9"})
        assert "text" not in told["record"] and "left out" in told["notes"][0]
        parts, cursor = [], None
        while True:
            text, told = await tools.ask("get", entity="library.Book", fields={"isbn": "9"}, field="text", cursor=cursor)
            cursor = told.get("cursor")
            parts.append(text if cursor is None else text[: text.rindex("\n[")])
            if cursor is None:
                break
        assert "".join(parts) == texts["9"] and len(parts) > 5

    run(project, work)


def test_errors_are_worded_as_the_command_words_them(project: Path) -> None:
    def told(*arguments: str) -> str:
        done = subprocess.run([LARDER, *arguments], cwd=project, capture_output=True, text=True, check=False)
        return done.stderr.removeprefix("larder: ").strip()

    async def work(tools: Tools) -> None:
        nothing = await tools.refused("get", entity="library.Book", fields={"isbn": "1"})
        assert nothing == told("get", "library.Book", "isbn=1") and "there is no store in" in nothing
        add(project, "1", 1811)
        for entity, fields in [
            ("library.Book", {"isbn": "2"}),
            ("library.Book", {"isnb": "2"}),
            ("library.Bok", {"isbn": "2"}),
            ("libary.Book", {"isbn": "2"}),
            ("Book", {"isbn": "2"}),
        ]:
            refused = await tools.refused("get", entity=entity, fields=fields)
            assert refused == told("get", entity, *(f"{name}={text}" for name, text in fields.items()))
        refused = await tools.refused("query", entity="library.Book", index="by_autor", partition={"author": "A"})
        assert refused == told("query", "library.Book", "by_autor", "author=A")
        assert await tools.refused("explain", name="L9") == told("explain", "L9")

        assert "limit is 100 records" in await tools.refused("query", entity="library.Book", partition={"isbn": "1"}, limit=101)
        assert "did you mean `limit`?" in await tools.refused("query", entity="library.Book", partition={"isbn": "1"}, limt=1)
        assert "cannot be used with" in await tools.refused("query", entity="library.Book", partition={"isbn": "1"}, at="1", until="2")
        assert await tools.refused("schema", system="../secrets") == "`../secrets` is no name of a system; `schema` lists them"
        refused = await tools.refused("put", entity="library.Book", record={})
        assert refused == "`put` writes: start `larder mcp` with --write to allow that"
        assert "Austen" in (await tools.ask("get", entity="library.Book", fields={"isbn": "1"}))[0]

    run(project, work)


def test_the_schemas_are_told_and_what_is_wrong_with_them(project: Path) -> None:
    canonical = json.loads(larder(project, "schema", "library", "--json"))

    async def work(tools: Tools) -> None:
        text, told = await tools.ask("schema")
        assert {one["system"] for one in told["systems"]} == {"keiba", "library", "lunch", "shops", "tdnet", "weather"}
        (library,) = (one for one in told["systems"] if one["system"] == "library")
        (book,) = library["entities"]
        assert book["key"] == ["isbn"] and book["indexes"][0]["partition"] == ["author"]
        text, told = await tools.ask("schema", system="library")
        assert (text, told) == (LIBRARY, canonical)
        _, told = await tools.ask("check")
        assert told["ok"]
        text, _ = await tools.ask("explain", name="L0110")
        assert text == larder(project, "explain", "L0110")

        (project / "schemas" / "library.larder").write_text(LIBRARY.replace("int in", "itn in"))
        refused = await tools.refused("get", entity="library.Book", fields={"isbn": "1"})
        assert "error[L0201]" in refused and "did you mean `int`?" in refused
        text, told = await tools.ask("check")
        assert not told["ok"] and "L0201" in text

    run(project, work)


def test_what_it_costs_and_what_has_drifted(project: Path) -> None:
    async def work(tools: Tools) -> None:
        text, told = await tools.ask("cost", system="weather")
        assert text == larder(project, "cost", "weather")
        assert told["systems"] == [json.loads(larder(project, "cost", "weather", "--json"))]
        _, more = await tools.ask("cost", system="weather", requests="5M", hit_rate=0.5)
        assert float(more["systems"][0]["store_usd"]) > float(told["systems"][0]["store_usd"])
        _, told = await tools.ask("drift")
        assert not told["settled"]
        larder(project, "apply", "--yes")
        text, told = await tools.ask("drift")
        assert told["settled"] and "books  unchanged" in text

    run(project, work)


def test_what_is_allowed_is_written_and_checked(project: Path) -> None:
    async def work(tools: Tools) -> None:
        book = {"isbn": "1", "author": "Austen", "year": 1811, "pages": ["It is", "a truth"], "token": "hunter2"}
        text, told = await tools.ask("put", entity="library.Book", record=book)
        assert told["record"]["pages"] == book["pages"] and told["notes"] == ["written: BOOK#1"]
        assert "hunter2" not in text
        assert "hunter2" in larder(project, "get", "library.Book", "isbn=1", "--json", "--show-secrets")
        refused = await tools.refused("put", entity="library.Book", record={"isbn": "1", "year": 1215})
        assert "Book.author: is required" in refused and "must be in 1450..=2100" in refused
        # What was hidden is not written back as if it were the value.
        assert "not shown" in await tools.refused("put", entity="library.Book", record=told["record"])
        assert "exists" in await tools.refused("put", entity="library.Book", record=book, new=True)
        _, told = await tools.ask("rm", entity="library.Book", fields={"isbn": "1"})
        assert told["record"]["isbn"] == "1"
        assert await tools.refused("rm", entity="library.Book", fields={"isbn": "1"}) == "there is no library.Book isbn=1"

    run(project, work, "--write")


def test_lifecycles_are_listed_and_stepped_through(project: Path) -> None:
    larder(project, "put", "shops.Shop", "domain=example.de", "country=DE")

    async def work(tools: Tools) -> None:
        text, told = await tools.ask("due", entity="shops.Shop", lifecycle="crawl", group={"country": "DE"})
        assert [one["record"]["domain"] for one in told["records"]] == ["example.de"]
        assert told["records"][0]["state"] == "never"
        line = larder(project, "due", "shops.Shop", "crawl", "country=DE", "--json")
        assert text == line
        _, told = await tools.ask("stuck", entity="shops.Shop", lifecycle="crawl", group={"country": "DE"})
        assert told["records"] == []
        missing = await tools.refused("due", entity="shops.Shop", lifecycle="crawl")
        assert missing == "`country` is missing: a group is named by country"
        # A state with a lease is a worker's.
        assert await tools.refused(
            "transition", entity="shops.Shop", lifecycle="crawl", transition="begin", fields={"domain": "example.de"}
        )
        _, told = await tools.ask("put", entity="tdnet.Execution", record={"execution_id": RUN})
        assert told["record"]["status"] == "pending"
        asked = {"entity": "tdnet.Execution", "lifecycle": "status", "fields": {"execution_id": RUN}}
        _, told = await tools.ask("transition", **asked, transition="fail", params={"error_message": "no answer = no data"})
        assert told["record"]["status"] == "failed" and told["record"]["error_message"] == "no answer = no data"
        assert told["notes"] == [f"failed: {RUN}"]
        assert "did you mean `start`?" in await tools.refused("transition", **asked, transition="strat")

    run(project, work, "--write")


def test_calls_may_come_together_and_no_other_program_waits_for_long(project: Path) -> None:
    add(project, "1", 1811)

    async def work(tools: Tools) -> None:
        asked = [tools.ask("get", entity="library.Book", fields={"isbn": "1"}) for _ in range(8)]
        for _, told in await asyncio.gather(*asked):
            assert told["record"]["year"] == 1811
        # The store is let go after each call.
        add(project, "2", 1813)
        _, told = await tools.ask("get", entity="library.Book", fields={"isbn": "2"})
        assert told["record"]["year"] == 1813

    run(project, work)


def test_a_directory_that_is_served_is_reached_through_its_server(project: Path) -> None:
    add(project, "1", 1811)
    command = [LARDER, "serve", "--dynamodb", "127.0.0.1:0", "--no-console"]
    with subprocess.Popen(command, cwd=project, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert any("listening on" in line for line in server.stdout)

            async def work(tools: Tools) -> None:
                _, told = await tools.ask("get", entity="library.Book", fields={"isbn": "1"})
                assert told["record"]["year"] == 1811

            run(project, work)
        finally:
            server.terminate()


def test_a_store_in_memory_is_refused_at_the_start(project: Path) -> None:
    done = subprocess.run([LARDER, "mcp", "--store", "memory:"], cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "memory: is empty for each call" in done.stderr
    gone = subprocess.run([LARDER, "mcp", "--project", "nowhere"], cwd=project, capture_output=True, text=True, check=False)
    assert gone.returncode == 1 and "cannot work in nowhere" in gone.stderr
