"""The code of the systems' documents, as it stands there, and how it is run.

`blocks` gives what is in `snippets/SYSTEM.md`. The endpoint is the only change, and it is made outside the code: by
`AWS_ENDPOINT_URL_DYNAMODB`, which every SDK reads.
"""

import ast
import inspect
import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

SNIPPETS = Path(__file__).resolve().parents[1] / "snippets"


@dataclass
class Block:
    title: str
    language: str
    text: str


def blocks(system, language):
    """The blocks of one language, in order."""
    text = (SNIPPETS / f"{system}.md").read_text(encoding="utf-8")
    found = re.findall(r"^## (.*?)\n\n```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [Block(*each) for each in found if each[1] == language]


def titled(system, language, title):
    return [block for block in blocks(system, language) if block.title == title]


def compiled(block):
    """Code that may wait and return at its top, as the inside of a function; None when it is no Python."""
    try:
        return compile(block.text, block.title, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    except SyntaxError:
        pass
    body = textwrap.indent(block.text, "    ")
    try:
        return compile(f"async def inside():\n{body}\n", block.title, "exec")
    except SyntaxError:
        return None


async def run(block, names):
    """Runs a block among these names, and adds to them what it defines."""
    code = compiled(block)
    assert code is not None, f"{block.title} is no Python"
    names.pop("inside", None)
    outcome = eval(code, names)
    if inspect.iscoroutine(outcome):
        await outcome
    elif "inside" in names:
        # What is assigned inside is seen by nobody, so names have to be there before.
        return await bound(names["inside"], names)()
    return None


def bound(function, names):
    """The function, with the names it assigns taken from where it stands."""
    return type(function)(function.__code__, names)
