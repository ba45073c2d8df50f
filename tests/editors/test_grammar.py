"""The tree-sitter grammar reads what `larder` reads, and nothing else; and its corpus."""

from __future__ import annotations

import ctypes
import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from tree_sitter import Language, Parser, Query, QueryCursor

ROOT = Path(__file__).parent.parent.parent
GRAMMAR = Path(os.environ["LARDER_GRAMMAR"])
FIVE = sorted((ROOT / "schemas").glob("*.larder"))
# What the grammar of a line has no say in: how large and deep a file is, and what a number means.
NOT_SYNTAX = {"L0005", "L0006"}
SYNTAX = {"L0001", "L0002", "L0003", "L0004", "L0007"}


def language() -> Language:
    library = ctypes.CDLL(os.environ["LARDER_PARSER"])
    library.tree_sitter_larder.restype = ctypes.c_void_p
    capsule = ctypes.pythonapi.PyCapsule_New
    capsule.restype = ctypes.py_object
    capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return Language(capsule(library.tree_sitter_larder(), b"tree_sitter.Language", None))


LARDER = language()
PARSER = Parser(LARDER)


@pytest.mark.parametrize("schema", FIVE, ids=lambda path: path.stem)
def test_the_five_are_read_without_an_error(schema: Path) -> None:
    tree = PARSER.parse(schema.read_bytes())
    assert not tree.root_node.has_error
    assert {"system", "table"} <= {child.type for child in tree.root_node.children}


def test_the_grammar_reads_what_larder_reads_and_no_more() -> None:
    tracked = subprocess.run(["git", "ls-files", "*.larder"], cwd=ROOT, capture_output=True, text=True, check=True)
    files = [ROOT / name for name in tracked.stdout.split()]
    assert len(files) > 150
    differing, wrong = [], 0
    for file in files:
        told = subprocess.run([os.environ["LARDER_BIN"], "check", "--json", file], capture_output=True, text=True, check=False)
        codes = {one["code"] for schema in json.loads(told.stdout)["schemas"] for one in schema["diagnostics"]}
        if codes & NOT_SYNTAX:
            continue
        is_wrong = bool(codes & SYNTAX)
        wrong += is_wrong
        if PARSER.parse(file.read_bytes()).root_node.has_error != is_wrong:
            differing.append((file.name, sorted(codes)))
    assert differing == []
    assert wrong > 5


def corpus() -> list[tuple[str, bool, str, str]]:
    cases = []
    for file in sorted((GRAMMAR / "test" / "corpus").glob("*.txt")):
        parts = re.split(r"^=+\n((?:.*\n)+?)=+\n", file.read_text(), flags=re.MULTILINE)
        for title, body in zip(parts[1::2], parts[2::2], strict=True):
            name, *marks = title.strip().splitlines()
            source, _, tree = body.partition("\n---\n")
            cases.append((name, ":error" in marks, source.removeprefix("\n"), tree.strip()))
    return cases


@pytest.mark.parametrize(("is_error", "source", "expected"), [case[1:] for case in corpus()], ids=[case[0] for case in corpus()])
def test_corpus(is_error: bool, source: str, expected: str) -> None:
    root = PARSER.parse(source.encode()).root_node
    assert root.has_error == is_error
    if not is_error:
        shape = re.sub(r"\w+: ", "", str(root))
        assert shape == re.sub(r"\s+", " ", re.sub(r"\s+\)", ")", expected))


def test_every_colour_is_found_in_the_five() -> None:
    query = Query(LARDER, (GRAMMAR / "queries" / "highlights.scm").read_text())
    found: set[str] = set()
    for schema in FIVE:
        found |= QueryCursor(query).captures(PARSER.parse(schema.read_bytes()).root_node).keys()
    named = {query.capture_name(at) for at in range(query.capture_count)}
    assert named - found == {"string.escape", "boolean", "keyword.operator"}
