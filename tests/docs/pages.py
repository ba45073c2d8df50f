"""Runs what the pages show, and compares what it prints with what they say.

    pages.py LARDER PAGE…           UPDATE_DOCS=1 writes what was printed into the pages

Each page has a shell, an empty directory, an empty /mnt and a network of its own, so that its ports are free and nothing reaches the internet. The
commands of its `console` blocks are run from top to bottom; one that begins with `larder serve` stays until the page ends or says
`stop`. A snippet in another language has to say how it is tested. Both are said by a comment in front of a block, which no reader sees:

    <!-- test: skip WHY -->         it is not run; that `larder` knows its commands and options is checked all the same
    <!-- test: file PATH -->        it is written to PATH before what follows is run
    <!-- test: is PATH -->          it is that file of the repository; `is PATH s|A|B|` with B for A
    <!-- test: part of PATH -->     each of its lines is in these files of the repository, comments and spaces aside
    <!-- test: run COMMANDS -->     these commands are run, too, and must succeed; may be of several lines
    <!-- test: serve OPTIONS -->    `larder serve OPTIONS` runs, unseen
    <!-- test: stop -->             what stays is stopped
    <!-- test: needs NAME -->       what follows, up to the next block, is left out where the environment has no NAME

What a page says is what was printed, but for `...`, which stands for anything, and for what no two runs share: how long something took, moments
of now, random ids, some bytes of a size, and how much of the disk is free.
"""

import datetime
import difflib
import functools
import os
import queue
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COMMAND_SECONDS = 60
SERVER_SECONDS = 20
NOW_DAYS = 40
# A number that ends in zeros is stored in fewer bytes, so the size of an item with a moment in it varies.
SIZE_BYTES = 8
# What pages may need, and `run` may have.
NEEDED = ("DOCS_NODE", "DYNAMODB_LOCAL_DIR", "LARDER_WHEEL", "PODCASTS")
# A network without a way out, and a /mnt of its own.
ALONE = ["unshare", "--user", "--map-root-user", "--net", "--mount"]
MAKE_ALONE = "ip link set lo up && mount -t tmpfs none /mnt"

FENCE = re.compile(r"^```(\S*)\s*$")
DIRECTIVE = re.compile(r"<!-- test: (\w+)(.*?)-->", re.S)
# What no two runs share. Two that are alike count as the same; a moment only if it is one of now.
VARYING = re.compile(
    r"(?P<moment>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z?|\d{8}T\d{6}Z|\b1[6-9]\d{8}\b)"
    r"|(?P<uuid>\b[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}\b)"
    r"|(?P<time>\b\d+(?:\.\d+)? ?(?:ns|µs|ms|s)\b)"
    r"|(?P<size>\b[\d,]+ bytes *)"
    r"|(?P<room>\b\d+(?:\.\d+)? [KMGT]B free\b)"
)


class Wrong(Exception):
    pass


class Block:
    """A fenced block: its language, its lines, and what was said in front of it."""

    def __init__(self, language, first, lines, directives):
        self.language, self.first, self.lines, self.directives = language, first, lines, directives


def blocks(text):
    """The fenced blocks of a page, and what is to be run between them."""
    lines, said, at = text.split("\n"), [], 0
    while at < len(lines):
        if lines[at].startswith("<!-- test:"):
            last = next(i for i in range(at, len(lines)) if "-->" in lines[i])
            found = DIRECTIVE.match("\n".join(lines[at : last + 1]))
            if not found:
                raise Wrong(f"line {at + 1}: this is not understood: {lines[at]}")
            said.append((found[1], found[2].strip()))
            at = last + 1
            continue
        fence = FENCE.match(lines[at])
        if fence:
            end = next(i for i in range(at + 1, len(lines)) if lines[i] == "```")
            yield Block(fence[1], at + 1, lines[at + 1 : end], said)
            said, at = [], end + 1
            continue
        if said and lines[at].strip():
            yield Block("", at, [], said)
            said = []
        at += 1
    yield Block("", len(lines), [], said)


def is_complete(command):
    """Whether the shell waits for no further line."""
    return not command.endswith("\\") and subprocess.run(["bash", "-n"], input=command, text=True, capture_output=True).returncode == 0


def commands(block):
    """(line, command, what it is said to print) of each command of a console."""
    at, lines = 0, block.lines
    while at < len(lines):
        if not lines[at].startswith("$ "):
            raise Wrong(f"line {block.first + at + 1}: a console begins with a command: {lines[at]}")
        first, command = at, lines[at][2:]
        at += 1
        while not is_complete(command):
            if at == len(lines):
                raise Wrong(f"line {block.first + first + 1}: the command has no end: {command}")
            command += "\n" + lines[at]
            at += 1
        printed = []
        while at < len(lines) and not lines[at].startswith("$ "):
            printed.append(lines[at])
            at += 1
        yield block.first + first, command, printed


def stripped(lines):
    while lines and not lines[-1].strip():
        lines = lines[:-1]
    return [line.rstrip() for line in lines]


def same_line(said, printed):
    pattern, groups, at = "", [], 0

    def literal(text):
        return ".*".join(re.escape(part) for part in text.split("..."))

    for found in VARYING.finditer(said):
        pattern += literal(said[at : found.start()]) + f"({VARYING.pattern.replace('?P<', '?P<_' + str(len(groups)) + '_')})"
        groups.append(found)
        at = found.end()
    matched = re.fullmatch(pattern + literal(said[at:]), printed)
    if not matched:
        return False
    for number, found in enumerate(groups):
        kind = found.lastgroup
        now = matched[f"_{number}_{kind}"]
        if now is None or (kind == "moment" and now != found[0] and not is_of_now(now)):
            return False
        if kind == "size" and abs(number_of(now) - number_of(found[0])) > SIZE_BYTES:
            return False
    return True


def number_of(size):
    return int(re.sub(r"\D", "", size))


def is_of_now(text):
    if re.fullmatch(r"1\d{9}", text):
        moment = datetime.datetime.fromtimestamp(int(text), datetime.timezone.utc)
    else:
        digits = re.sub(r"\D", "", text)[:14]
        moment = datetime.datetime.strptime(digits, "%Y%m%d%H%M%S").replace(tzinfo=datetime.timezone.utc)
    return abs(moment - datetime.datetime.now(datetime.timezone.utc)) < datetime.timedelta(days=NOW_DAYS)


def same(said, printed):
    """Whether lines were printed as they are said; `...` on a line of its own stands for any number of lines."""
    if not said:
        return not printed
    if said[0].strip() in ("...", "…"):
        return any(same(said[1:], printed[skipped:]) for skipped in range(len(printed) + 1))
    return bool(printed) and same_line(said[0], printed[0]) and same(said[1:], printed[1:])


class Shell:
    """One shell of a page; `cd`, variables and functions last."""

    def __init__(self, work, environment, alone):
        self.work = work
        self.servers = []
        command = ["bash", "--noprofile", "--norc"]
        if alone:
            command = [*ALONE, "bash", "--noprofile", "--norc"]
        self.process = subprocess.Popen(
            command, cwd=work / "here", env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, start_new_session=True,
        )
        self.told = queue.Queue()
        threading.Thread(target=self.listen, daemon=True).start()
        if alone:
            self.run(MAKE_ALONE)

    def listen(self):
        for line in self.process.stdout:
            self.told.put(line)
        self.told.put("")

    def run(self, command):
        """The status of a command, and what it printed."""
        output = self.work / "output"
        self.process.stdin.write(f"{{ {command}\n}} >'{output}' 2>&1 </dev/null; echo $?\n")
        self.process.stdin.flush()
        try:
            status = self.told.get(timeout=COMMAND_SECONDS)
        except queue.Empty:
            raise Wrong(f"it is not done after {COMMAND_SECONDS} s; until then it printed\n{output.read_text()}") from None
        if not status:
            raise Wrong("the shell has ended")
        return int(status), output.read_text(errors="replace")

    def start(self, command, said):
        """Starts what stays, and waits until it has printed what it is said to print first."""
        output = self.work / f"server-{len(self.servers)}"
        # `exec`, so that the number is that of the server and not of a shell around it.
        command = re.sub(r"^larder", "exec larder", command)
        self.process.stdin.write(f"{{ {command}\n}} >'{output}' 2>&1 </dev/null & echo $!\n")
        self.process.stdin.flush()
        self.servers.append(self.told.get(timeout=COMMAND_SECONDS).strip())
        wanted = said or ["listening on ..."]
        deadline = time.monotonic() + SERVER_SECONDS
        while True:
            printed = stripped(output.read_text().split("\n")) if output.exists() else []
            if len(printed) >= len(wanted) and same(wanted, printed[: len(wanted)]):
                return printed[: len(said)]
            if time.monotonic() > deadline:
                return printed
            time.sleep(0.02)

    def stop(self):
        for server in self.servers:
            self.run(f"kill -TERM {server}; wait {server} || true")
        self.servers = []

    def end(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()


class Page:
    def __init__(self, path, larder, alone):
        self.path, self.larder, self.alone = path, larder, alone
        self.text = path.read_text()
        self.wrong = []
        self.ran = 0
        self.lacks = set()
        self.changes = []  # (first line, last line, new lines)

    def check(self):
        work = Path(tempfile.mkdtemp(prefix="larder-docs-"))
        for name in ("here", "home"):
            (work / name).mkdir()
        shell = Shell(work, environment(work, self.larder), self.alone)
        try:
            for block in blocks(self.text):
                self.block(block, shell, work / "here")
        except Wrong as wrong:
            self.wrong.append(str(wrong))
        finally:
            shell.end()
            shutil.rmtree(work, ignore_errors=True)
        return self

    def block(self, block, shell, here):
        treated = False
        for name, rest in block.directives:
            if name == "needs":
                if rest not in os.environ:
                    self.lacks.add(rest)
                    treated = True
                    break
            elif name == "stop":
                shell.stop()
            elif name == "serve":
                shell.start(f"larder serve {rest}", [])
            elif name == "run":
                status, printed = shell.run(rest)
                if status:
                    raise Wrong(f"before line {block.first}: what is run unseen ended with {status}:\n{rest}\n{printed}")
            elif name == "skip":
                if not rest:
                    raise Wrong(f"line {block.first}: it is not said why this is skipped")
                treated = True
            elif name == "file":
                file = here / rest
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text("\n".join(block.lines) + "\n")
                treated = True
            elif name == "is":
                name, _, other = rest.partition(" ")
                text = (ROOT / name).read_text()
                if other:
                    text = text.replace(*other.removeprefix("s|").split("|")[:2])
                if stripped(text.split("\n")) != stripped(block.lines):
                    self.wrong.append(f"line {block.first}: this is not what {name} holds")
                    self.changes.append((block.first, block.first + len(block.lines), stripped(text.split("\n"))))
                treated = True
            elif name == "part":
                self.part_of(block, rest.removeprefix("of "))
                treated = True
            else:
                raise Wrong(f"line {block.first}: there is no directive {name}")
        if block.language == "console":
            for line, command, said in commands(block):
                self.known(line, command)
                if not treated:
                    self.command(line, command, said, shell)
        elif block.language and not treated:
            self.wrong.append(f"line {block.first}: nothing tests this {block.language}")

    def command(self, line, command, said, shell):
        said = stripped(said)
        self.ran += 1
        if re.match(r"(cargo run --release --|larder) serve\b(?!.*--help)", command):
            printed = shell.start(command, said)
        else:
            _, printed = shell.run(command)
            printed = stripped(printed.split("\n"))
        if same(said, printed):
            return
        first = line + 1 + command.count("\n")
        self.changes.append((first, first + len(said), printed))
        self.wrong.append(f"line {line + 1}: $ {command}\n{difference(said, printed)}")

    def known(self, line, command):
        """`larder` knows what is asked of it, also where it is not run."""
        for arguments in invocations(command):
            told = misunderstood(self.larder, arguments)
            if told:
                self.wrong.append(f"line {line + 1}: $ {command}\n{told}")

    def part_of(self, block, names):
        whole = "".join(bare((ROOT / name).read_text()) for name in names.split())
        for line in block.lines:
            for piece in re.split(r"…|\.\.\.", bare(line)):
                if piece not in whole:
                    self.wrong.append(f"line {block.first}: not in {names}: {line.strip()}")

    def update(self):
        lines = self.text.split("\n")
        for first, last, printed in reversed(self.changes):
            lines[first:last] = printed
        self.path.write_text("\n".join(lines))


def bare(code):
    """Code without comments and spaces."""
    code = re.sub(r"(?m)(^|\s)(//|#)(?!\[).*$", "", code)
    return re.sub(r"[\s,]+", "", code)


def difference(said, printed):
    return "\n".join(difflib.unified_diff(said, printed, "the page", "printed", lineterm="", n=2))


def invocations(command):
    """The arguments of each `larder` in a command."""
    words = shlex.shlex(command.replace("\\\n", ""), posix=True, punctuation_chars="|;&<>()")
    words.whitespace_split = True
    found, current, at_start = [], None, True
    for word in words:
        if set(word) <= set("|;&()"):
            current, at_start = None, True
        elif set(word) <= set("<>"):
            current, at_start = None, False
        elif at_start and word == "larder":
            current, at_start = [], False
            found.append(current)
        elif current is not None:
            current.append(word)
        elif "=" not in word:
            at_start = False
    return [tuple(arguments) for arguments in found]


@functools.cache
def misunderstood(larder, arguments):
    """What `larder` has against these arguments, if anything: asked for help, it says that before it helps."""
    asked = subprocess.run([larder, *arguments, "--help"], text=True, capture_output=True)
    return asked.stderr.partition("\n")[0] if asked.returncode else None


def environment(work, larder):
    kept = {name: os.environ[name] for name in NEEDED if name in os.environ}
    return kept | {
        "PATH": f"{Path(larder).parent}:{os.environ['PATH']}", "HOME": str(work / "home"), "TMPDIR": str(work), "NO_COLOR": "1", "TERM": "dumb",
        "TZ": "UTC", "LC_ALL": "C.UTF-8", "REPOSITORY": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", "AWS_EC2_METADATA_DISABLED": "true",
    }


def can_be_alone():
    """Whether each page can have a network and a /mnt of its own."""
    try:
        asked = subprocess.run([*ALONE, "bash", "-ec", MAKE_ALONE], capture_output=True)
    except FileNotFoundError:
        return False
    return asked.returncode == 0


def main():
    larder, pages = os.path.realpath(sys.argv[1]), [Path(page).resolve() for page in sys.argv[2:]]
    alone = can_be_alone()
    if not alone:
        print("`unshare` gives no network here: the pages share ports 8000, 8001 and 8010 of this machine, one after the other")
    failed = False
    with ThreadPoolExecutor(os.cpu_count() if alone else 1) as pool:
        for page in pool.map(lambda path: Page(path, larder, alone).check(), pages):
            name = page.path.relative_to(ROOT)
            without = f"; what needs {', '.join(sorted(page.lacks))} was left out" if page.lacks else ""
            print(f"{'FAILED' if page.wrong else 'ok':6}  {name}: {page.ran} commands{without}", flush=True)
            for wrong in page.wrong:
                print(f"  {name}, {wrong}\n")
            failed |= bool(page.wrong)
            if page.changes and os.environ.get("UPDATE_DOCS"):
                page.update()
    sys.exit(failed)


main()
