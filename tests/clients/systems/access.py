"""Servers with `--access`, and who may do what there.

    access.py FILE

makes an access file of an administrator, of the five systems, each with the policy that its schema exports, and of each
system once more for every permission, without it: `keiba.1.PutItem` may do all that `keiba` may, but for what the
first statement says of PutItem, and `shops.1.index` all but on indexes.
"""

import copy
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path

SCHEMAS = Path(__file__).resolve().parents[3] / "schemas"
SYSTEMS = ["keiba", "lunch", "shops", "tdnet", "weather"]
ADMINISTRATOR = "administrator"
START_SECONDS = 30


def larder(*arguments):
    done = subprocess.run(
        [os.environ["LARDER_BIN"], *arguments], capture_output=True, text=True, timeout=START_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def add(file, name, policy="all", *options):
    """Lets somebody in, with a policy or with `all`. Returns what is printed, and the key in it."""
    with tempfile.TemporaryDirectory() as directory:
        if policy != "all":
            path = Path(directory, "policy.json")
            path.write_text(json.dumps(policy), encoding="utf-8")
            policy = str(path)
        printed = larder("access", "add", name, "--policy", policy, "--access", str(file), *options)
    return printed, key(printed)


def key(printed):
    """The key in what `add` and `rotate` print, as boto3 takes it."""
    return dict(re.findall(r"^(aws_access_key_id|aws_secret_access_key) = (\S+)$", printed, re.MULTILINE))


@contextmanager
def serve(directory, *options):
    """The address of a server with TLS, and the file with its certificate, which are in this directory."""
    server = subprocess.Popen(
        [os.environ["LARDER_BIN"], "serve", "--memory", "--dynamodb", "127.0.0.1:0", "--no-console", *options],
        env=os.environ | {"XDG_DATA_HOME": str(directory)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    late = threading.Timer(START_SECONDS, server.kill)
    try:
        late.start()
        url = server.stdout.readline().removeprefix("listening on ").strip()
        late.cancel()
        assert url.startswith("https://"), f"it does not listen with TLS: {url!r}"
        yield url, str(Path(directory, "larder/tls/certificate.pem"))
    finally:
        late.cancel()
        server.terminate()
        try:
            status = server.wait(timeout=START_SECONDS)
        except subprocess.TimeoutExpired:
            server.kill()
            raise
        assert status == 0, f"the server left with status {status}"


def permissions(policy):
    """What can be taken away from a policy: the number of the statement, the name, and the policy without it."""
    for at, statement in enumerate(policy["Statement"]):
        taken = [("Action", action, action.removeprefix("dynamodb:")) for action in statement["Action"]]
        table, *indexes = statement["Resource"]
        # Without its one resource a statement says nothing of any action, each of which is taken away already.
        taken += [("Resource", table, "table") for _ in indexes]
        # In IAM `*` stands for slashes too: a table whose name ends so has its indexes with it.
        taken += [("Resource", index, "index") for index in indexes if not table.endswith("*")]
        for part, value, name in taken:
            without = copy.deepcopy(policy)
            without["Statement"][at][part].remove(value)
            yield at + 1, name, without


def main(file):
    add(file, ADMINISTRATOR)
    for system in SYSTEMS:
        policy = json.loads(larder("export", "iam", str(SCHEMAS / f"{system}.larder")))
        add(file, system, policy)
        for statement, name, without in permissions(policy):
            add(file, f"{system}.{statement}.{name}", without)


if __name__ == "__main__":
    main(sys.argv[1])
