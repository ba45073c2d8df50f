"""`larder serve --tls --access`: boto3 and the AWS CLI with signatures through TLS, and each way to be refused.

Refusals have AWS's codes and words, and DynamoDB's status for all of them: 400.
"""

import hashlib
import http.client
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time
import warnings
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

import boto3
import botocore.auth
import pytest
from botocore import UNSIGNED
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import ClientError, ConnectionClosedError, SSLError
from conftest import CONFIG, check_crc32

import access

if not os.environ.get("LARDER_BIN"):
    pytest.skip("LARDER_BIN does not name the binary to serve with", allow_module_level=True)

REGION = "us-east-1"
TABLE = "orders"
KEY = {"id": {"S": "o-1"}}
SECONDS = 30
ORDERS = {
    "TableName": TABLE,
    "BillingMode": "PAY_PER_REQUEST",
    "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
    "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
}
MISMATCH = "The request signature we calculated does not match the signature you provided."
UNKNOWN = "The security token included in the request is invalid."


class Door:
    """A server with TLS that lets the administrator in, and nobody else."""

    def __init__(self, url, certificate, file, admin, directory):
        self.url, self.certificate, self.file, self.admin = url, certificate, file, admin
        self.audit, self.credentials_file = directory / "audit.jsonl", directory / "credentials"

    def client(self, key=None, config=CONFIG, region=REGION, verify=None, **changed):
        session = boto3.session.Session(region_name=region)
        session.events.register("before-parse.dynamodb", check_crc32)
        key = (self.admin if key is None else key) | changed
        verify = self.certificate if verify is None else verify
        return session.client("dynamodb", endpoint_url=self.url, config=config, verify=verify, **key)

    def send(self, headers, body, path="/"):
        """Sends what is already signed. Returns status and body."""
        at = urlsplit(self.url)
        context = ssl.create_default_context(cafile=self.certificate)
        connection = http.client.HTTPSConnection(at.hostname, at.port, timeout=SECONDS, context=context)
        try:
            connection.request("POST", path, body=body, headers=headers)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()


@pytest.fixture
def door(tmp_path):
    """Of each test's own, for who gets much wrong is answered late."""
    file = tmp_path / "access.json"
    printed, admin = access.add(file, access.ADMINISTRATOR)
    options = ["--tls", "self-signed", "--access", file, "--audit", tmp_path / "audit.jsonl"]
    with access.serve(tmp_path, *options) as (url, certificate):
        door = Door(url, certificate, file, admin, tmp_path)
        # What is printed is to be pasted: the lines from the profile's name to the next empty one.
        profile = printed[printed.index(f"[{access.ADMINISTRATOR}]") :].split("\n\n")[0]
        door.credentials_file.write_text(profile + "\n", encoding="utf-8")
        client = door.client()
        client.create_table(**ORDERS)
        client.put_item(TableName=TABLE, Item=KEY | {"note": {"S": "hush"}})
        yield door


def until(check):
    """Waits until this is true, half a minute at most."""
    deadline = time.monotonic() + SECONDS
    between = threading.Event()
    while not check():
        assert time.monotonic() < deadline, f"not within {SECONDS} seconds"
        between.wait(0.2)


def refusal(call):
    with pytest.raises(ClientError) as error:
        call()
    answer = error.value.response
    assert answer["ResponseMetadata"]["HTTPStatusCode"] == 400
    return answer["Error"]["Code"], answer["Error"]["Message"]


def test_a_round_of_work(door):
    client = door.client()
    client.create_table(**ORDERS | {"TableName": "round"})
    client.get_waiter("table_exists").wait(TableName="round", WaiterConfig={"Delay": 1, "MaxAttempts": 30})
    items = [{"id": {"S": f"å/{n} +"}, "n": {"N": str(n)}} for n in range(25)]
    client.batch_write_item(RequestItems={"round": [{"PutRequest": {"Item": item}} for item in items]})
    changed = client.update_item(
        TableName="round",
        Key={"id": items[3]["id"]},
        UpdateExpression="ADD n :one",
        ExpressionAttributeValues={":one": {"N": "1"}},
        ReturnValues="UPDATED_NEW",
    )
    assert changed["Attributes"] == {"n": {"N": "4"}}
    pages = client.get_paginator("scan").paginate(TableName="round", PaginationConfig={"PageSize": 10})
    assert sum(page["Count"] for page in pages) == 25
    client.transact_write_items(TransactItems=[{"Delete": {"TableName": "round", "Key": {"id": items[0]["id"]}}}])
    assert "Item" not in client.get_item(TableName="round", Key={"id": items[0]["id"]})
    client.delete_table(TableName="round")
    assert "round" not in client.list_tables()["TableNames"]


def test_a_wrong_key(door):
    client = door.client(aws_access_key_id="LKIA0000000000000000")
    assert refusal(client.list_tables) == ("UnrecognizedClientException", UNKNOWN)


def test_a_wrong_secret(door):
    code, message = refusal(door.client(aws_secret_access_key="wrong").list_tables)
    assert code == "InvalidSignatureException"
    assert message.startswith(MISMATCH)
    assert door.admin["aws_secret_access_key"] not in message


def test_a_session_token_of_somebody_else(door):
    client = door.client(aws_session_token="IQoJb3JpZ2luX2VjEHgaCXVzLWVhc3QtMSJHMEUC")
    assert refusal(client.list_tables) == ("UnrecognizedClientException", UNKNOWN)


def test_a_body_that_was_changed_after_it_was_signed(door):
    client = door.client()

    def change(request, **_):
        request.body = request.body.replace(b"o-1", b"o-2")

    client.meta.events.register("before-send.dynamodb.DeleteItem", change)
    code, message = refusal(lambda: client.delete_item(TableName=TABLE, Key=KEY))
    assert code == "InvalidSignatureException"
    assert message.startswith(MISMATCH)
    assert client.get_item(TableName=TABLE, Key=KEY)["Item"]["note"] == {"S": "hush"}


@pytest.mark.parametrize(
    "minutes, says", [(-16, "Signature expired: "), (16, "Signature not yet current: ")], ids=["old", "future"]
)
def test_a_date_that_is_not_now(door, monkeypatch, minutes, says):
    now = botocore.auth.get_current_datetime
    client = door.client()
    for shift in (minutes, minutes // 2):
        monkeypatch.setattr(botocore.auth, "get_current_datetime", lambda: now() + timedelta(minutes=shift))
        if shift == minutes:
            code, message = refusal(client.list_tables)
            assert code == "InvalidSignatureException"
            assert message.startswith(says)
        else:
            assert client.list_tables()["TableNames"] == [TABLE]


def test_no_signature(door):
    client = door.client(config=CONFIG.merge(Config(signature_version=UNSIGNED)))
    code, message = refusal(client.list_tables)
    assert (code, message) == ("MissingAuthenticationTokenException", "Request is missing Authentication Token")


def test_half_a_signature(door):
    for part in ("Credential", "SignedHeaders", "Signature"):
        client = door.client()

        def cut(request, part=part, **_):
            kept = [text for text in request.headers["Authorization"].decode().split(", ") if f"{part}=" not in text]
            request.headers["Authorization"] = ("AWS4-HMAC-SHA256 " if part == "Credential" else "") + ", ".join(kept)

        client.meta.events.register("before-send.dynamodb", cut)
        code, message = refusal(client.list_tables)
        assert code == "IncompleteSignatureException"
        assert f"'{part}'" in message


def test_no_date(door):
    client = door.client()

    def cut(request, **_):
        del request.headers["X-Amz-Date"]

    client.meta.events.register("before-send.dynamodb", cut)
    code, message = refusal(client.list_tables)
    assert code == "IncompleteSignatureException"
    assert "'X-Amz-Date'" in message


def test_a_signed_header_that_is_missing(door):
    client = door.client()

    def note(request, **_):
        request.headers["X-Amz-Note"] = "n"

    def cut(request, **_):
        del request.headers["X-Amz-Note"]

    client.meta.events.register("before-sign.dynamodb", note)
    assert client.list_tables()["TableNames"] == [TABLE]
    client.meta.events.register("before-send.dynamodb", cut)
    code, message = refusal(client.list_tables)
    assert code == "InvalidSignatureException"
    assert "'x-amz-note' is a 'SignedHeader'" in message


class Presign(botocore.auth.SigV4QueryAuth):
    """A presigned address for a request with a body. botocore's own are for those that have none."""

    body = json.dumps({"TableName": TABLE, "Key": KEY}).encode()
    headers = {"X-Amz-Target": "DynamoDB_20120810.GetItem", "Content-Type": "application/x-amz-json-1.0"}

    def payload(self, request):
        return hashlib.sha256(self.body).hexdigest()

    @classmethod
    def path(cls, door, seconds):
        request = AWSRequest("POST", door.url + "/", headers=cls.headers)
        key = Credentials(door.admin["aws_access_key_id"], door.admin["aws_secret_access_key"])
        cls(key, "dynamodb", REGION, expires=seconds).add_auth(request)
        return request.url.removeprefix(door.url)

    @classmethod
    def use(cls, door, path, body=None):
        status, answer = door.send(cls.headers, body or cls.body, path)
        return status, answer.get("__type", "").rpartition("#")[2], answer


def test_a_presigned_address_is_good_for_its_lifetime(door, monkeypatch):
    now = botocore.auth.get_current_datetime
    path = Presign.path(door, 60)
    for _ in range(2):
        status, _, answer = Presign.use(door, path)
        assert (status, answer["Item"]["note"]) == (200, {"S": "hush"})
    status, code, _ = Presign.use(door, path, Presign.body.replace(b"o-1", b"o-2"))
    assert (status, code) == (400, "InvalidSignatureException")
    status, code, answer = Presign.use(door, path.replace("X-Amz-Expires=60", "X-Amz-Expires=600"))
    assert (status, code) == (400, "InvalidSignatureException")
    monkeypatch.setattr(botocore.auth, "get_current_datetime", lambda: now() - timedelta(minutes=2))
    status, code, answer = Presign.use(door, Presign.path(door, 60))
    assert (status, code) == (400, "InvalidSignatureException")
    assert answer["message"].startswith("Signature expired: ")
    assert Presign.use(door, Presign.path(door, 600))[0] == 200, "it lives for ten minutes"


def recorded(client):
    """What this client sends from now on: headers and body."""
    sent = []

    def record(request, **_):
        text = {name: value.decode() if isinstance(value, bytes) else value for name, value in request.headers.items()}
        sent.append((text, request.body))

    client.meta.events.register("before-send.dynamodb", record)
    return sent


def test_a_request_can_be_repeated_while_its_date_is_good(door):
    client = door.client()
    sent = recorded(client)
    client.get_item(TableName=TABLE, Key=KEY)
    for _ in range(2):
        assert door.send(*sent[0])[0] == 200


def test_somebody_without_a_policy_may_do_nothing(door):
    printed = access.larder("access", "add", "guest", "--access", str(door.file))
    client = door.client(access.key(printed))

    def answer():
        return refusal(client.list_tables)

    until(lambda: answer()[0] != "UnrecognizedClientException")
    assert answer() == (
        "AccessDeniedException",
        "User: arn:aws:iam::000000000000:user/guest is not authorized to perform: dynamodb:ListTables on resource: "
        "arn:aws:dynamodb:us-east-1:000000000000:table/* because no identity-based policy allows the dynamodb:ListTables action",
    )


def test_a_key_is_rotated_and_the_old_one_removed(door):
    def code(client):
        try:
            client.list_tables()
        except ClientError as error:
            return error.response["Error"]["Code"]
        return "served"

    _, key = access.add(door.file, "app")
    old = door.client(key)
    until(lambda: code(old) == "served")
    new = door.client(access.key(access.larder("access", "rotate", "app", "--access", str(door.file))))
    until(lambda: code(new) == "served")
    assert code(old) == "served"
    access.larder("access", "remove", key["aws_access_key_id"], "--access", str(door.file))
    until(lambda: code(old) == "UnrecognizedClientException")
    assert code(new) == "served"
    access.larder("access", "remove", "app", "--access", str(door.file))
    until(lambda: code(new) == "UnrecognizedClientException")
    assert code(door.client()) == "served"


def test_wrong_signatures_are_answered_ever_later(door):
    client = door.client(aws_secret_access_key="wrong")
    sent = recorded(client)
    refusal(client.list_tables)
    waited = []
    for _ in range(7):
        began = time.monotonic()
        status, answer = door.send(*sent[0])
        waited.append(time.monotonic() - began)
        assert (status, answer["__type"]) == (400, "com.amazon.coral.service#InvalidSignatureException")
    assert all(seconds >= 0.1 for seconds in waited[5:]), waited


def test_a_client_that_does_not_trust_the_certificate_ends_there(door):
    with pytest.raises(SSLError, match="certificate verify failed"):
        door.client(verify=True).list_tables()


#: The AWS CLI as its `-m awscli` is, behind a line that changes something of it.
ALTERED = """
import sys
from datetime import timedelta
import botocore.auth, botocore.httpsession
now, send = botocore.auth.get_current_datetime, botocore.httpsession.URLLib3Session.send
def shift(minutes):
    botocore.auth.get_current_datetime = lambda: now() + timedelta(minutes=minutes)
def change(alter):
    botocore.httpsession.URLLib3Session.send = lambda self, request: (alter(request), send(self, request))[1]
def without(name):
    change(lambda request: request.headers.__delitem__(name))
def body(request):
    request.body = request.body.replace(b"o-1", b"o-2")
{line}
sys.argv[0] = "aws"
from awscli.clidriver import main
sys.exit(main())
"""


def aws(door, environment, *arguments, altered=None):
    """The AWS CLI with nothing of AWS in its environment but how to reach and trust the server, and what this says."""
    program = ["-m", "awscli"] if altered is None else ["-c", ALTERED.replace("{line}", altered)]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    ours = {"AWS_CA_BUNDLE": door.certificate, "AWS_DEFAULT_REGION": REGION, "AWS_MAX_ATTEMPTS": "1"}
    nowhere = {"AWS_CONFIG_FILE": os.devnull, "AWS_SHARED_CREDENTIALS_FILE": os.devnull, "AWS_PAGER": ""}
    return subprocess.run(
        [sys.executable, *program, "--endpoint-url", door.url, "--output", "json", "dynamodb", *arguments],
        env={name: value for name, value in (kept | ours | nowhere | environment).items() if value is not None},
        capture_output=True,
        text=True,
        timeout=90,
    )


def test_the_cli_works_with_the_profile_that_was_printed(door):
    profile = {"AWS_PROFILE": access.ADMINISTRATOR, "AWS_SHARED_CREDENTIALS_FILE": str(door.credentials_file)}
    put = aws(door, profile, "put-item", "--table-name", TABLE, "--item", '{"id": {"S": "cli"}, "å": {"N": "1"}}')
    assert put.returncode == 0, put.stderr
    got = aws(door, profile, "get-item", "--table-name", TABLE, "--key", '{"id": {"S": "cli"}}')
    assert json.loads(got.stdout)["Item"] == {"id": {"S": "cli"}, "å": {"N": "1"}}, got.stderr


@pytest.mark.parametrize(
    "environment, says",
    [
        ({"AWS_ACCESS_KEY_ID": "LKIA0000000000000000"}, f"(UnrecognizedClientException) * {UNKNOWN}"),
        ({"AWS_SECRET_ACCESS_KEY": "wrong"}, f"(InvalidSignatureException) * {MISMATCH}"),
        ({"AWS_SESSION_TOKEN": "IQoJb3JpZ2luX2VjEHga"}, f"(UnrecognizedClientException) * {UNKNOWN}"),
        ({"AWS_CA_BUNDLE": None}, "SSL validation failed * certificate verify failed"),
    ],
    ids=["key", "secret", "token", "certificate"],
)
def test_the_cli_says_why_it_was_refused(door, environment, says):
    key = {name.upper(): value for name, value in door.admin.items()}
    done = aws(door, key | environment, "list-tables")
    assert done.returncode != 0
    for part in says.split(" * "):
        assert part in done.stderr


@pytest.mark.parametrize(
    "altered, says",
    [
        ("pass", None),
        ("shift(-16)", "(InvalidSignatureException) * Signature expired: "),
        ("shift(16)", "(InvalidSignatureException) * Signature not yet current: "),
        ("change(body)", f"(InvalidSignatureException) * {MISMATCH}"),
        ("without('X-Amz-Date')", "(IncompleteSignatureException) * 'X-Amz-Date'"),
        ("without('X-Amz-Target')", "(InvalidSignatureException) * 'x-amz-target'"),
        ("without('Authorization')", "(MissingAuthenticationTokenException)"),
    ],
    ids=["nothing", "old", "future", "body", "date", "header", "signature"],
)
def test_what_the_cli_sends_is_taken_as_it_was_signed(door, altered, says):
    key = {name.upper(): value for name, value in door.admin.items()}
    done = aws(door, key, "get-item", "--table-name", TABLE, "--key", json.dumps(KEY), altered=altered)
    if says is None:
        assert json.loads(done.stdout)["Item"]["note"] == {"S": "hush"}, done.stderr
        return
    assert done.returncode != 0 and not done.stdout
    for part in says.split(" * "):
        assert part in done.stderr


def test_the_cli_without_a_signature(door):
    done = aws(door, {}, "list-tables", "--no-sign-request")
    assert done.returncode != 0 and "(MissingAuthenticationTokenException)" in done.stderr


def openssl(directory, *arguments):
    done = subprocess.run(
        ["openssl", *arguments], cwd=directory, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr


def authority(directory, name):
    """Makes an authority, and a certificate of it, for clients and for 127.0.0.1. Returns the files of the latter."""
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    ca = f"{name}-ca"
    made = ["-days", "2", "-subj", f"/CN={ca}", "-keyout", f"{ca}.key", "-out", f"{ca}.pem"]
    openssl(directory, "req", "-x509", *curve, *made)
    openssl(directory, "req", *curve, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
    extensions = "basicConstraints=CA:FALSE\nextendedKeyUsage=clientAuth,serverAuth\nsubjectAltName=IP:127.0.0.1\n"
    (directory / "v3.ext").write_text(extensions, encoding="utf-8")
    signed = ["-CA", f"{ca}.pem", "-CAkey", f"{ca}.key", "-CAcreateserial", "-extfile", "v3.ext"]
    openssl(directory, "x509", "-req", "-in", f"{name}.csr", *signed, "-days", "2", "-out", f"{name}.pem")
    return str(directory / f"{name}.pem"), str(directory / f"{name}.key")


def test_a_server_can_ask_for_a_client_certificate(tmp_path):
    ours, theirs = authority(tmp_path, "ours"), authority(tmp_path, "theirs")
    file = tmp_path / "access.json"
    _, admin = access.add(file, access.ADMINISTRATOR)
    options = ["--tls", "self-signed", "--tls-client-ca", tmp_path / "ours-ca.pem", "--access", file]
    with access.serve(tmp_path, *options) as (url, certificate):
        door = Door(url, certificate, file, admin, tmp_path)
        with_ours, with_theirs = (CONFIG.merge(Config(client_cert=files)) for files in (ours, theirs))
        assert door.client(config=with_ours).list_tables()["TableNames"] == []
        # With TLS 1.3 a client has sent its request before it hears that it is refused.
        for config in (CONFIG, with_theirs):
            with pytest.raises((SSLError, ConnectionClosedError)):
                door.client(config=config).list_tables()
        code, _ = refusal(door.client(config=with_ours, aws_secret_access_key="wrong").list_tables)
        assert code == "InvalidSignatureException", "a certificate is no signature"


def test_a_certificate_that_was_replaced_is_shown_from_then_on(tmp_path):
    authority(tmp_path, "ours"), authority(tmp_path, "theirs")
    file = tmp_path / "access.json"
    _, admin = access.add(file, access.ADMINISTRATOR)
    certificate, key = tmp_path / "server.pem", tmp_path / "server.key"

    def install(name):
        # One after the other: for a moment the key is not that of the certificate.
        shutil.copy(tmp_path / f"{name}.pem", certificate)
        shutil.copy(tmp_path / f"{name}.key", key)

    install("ours")
    with access.serve(tmp_path, "--tls-cert", certificate, "--tls-key", key, "--access", file) as (url, _):

        def trusts(name):
            try:
                Door(url, str(tmp_path / f"{name}-ca.pem"), file, admin, tmp_path).client().list_tables()
            except SSLError:
                return False
            return True

        assert (trusts("ours"), trusts("theirs")) == (True, False)
        install("theirs")
        until(lambda: trusts("theirs"))
        assert not trusts("ours")


@pytest.mark.parametrize(
    "version, served",
    [("TLSv1_3", True), ("TLSv1_2", True), ("TLSv1_1", False), ("TLSv1", False)],
)
def test_tls_is_1_3_or_1_2(door, version, served):
    context = ssl.create_default_context(cafile=door.certificate)
    # What Python would not do by itself, so that it is the server who refuses.
    context.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = context.maximum_version = ssl.TLSVersion[version]
    at = urlsplit(door.url)
    with socket.create_connection((at.hostname, at.port), timeout=SECONDS) as connection:
        if not served:
            with pytest.raises(ssl.SSLError, match="ALERT"):
                context.wrap_socket(connection, server_hostname=at.hostname)
            return
        with context.wrap_socket(connection, server_hostname=at.hostname) as secured:
            assert secured.version() == version.replace("_", ".")


def test_the_audit_log_says_who_and_what_and_no_secret(door):
    door.client().get_item(TableName=TABLE, Key=KEY)
    refusal(door.client(aws_access_key_id="LKIA0000000000000000").list_tables)

    def seen():
        text = door.audit.read_text(encoding="utf-8")
        lines = [json.loads(line) for line in text.splitlines()]
        mine = {"who": "arn:aws:iam::000000000000:user/administrator", "allowed": True, "tls": True}
        place = f"arn:aws:dynamodb:us-east-1:000000000000:table/{TABLE}"
        did = [{"action": "dynamodb:GetItem", "resource": place}]
        assert door.admin["aws_secret_access_key"] not in text and "hush" not in text
        return any(line.items() >= mine.items() and line["did"] == did for line in lines) and any(
            not line["allowed"] and line["code"] == "UnrecognizedClientException" for line in lines
        )

    until(seen)
