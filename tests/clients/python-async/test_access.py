"""`larder serve --tls --access` with aioboto3: work that is signed, through TLS, and who is refused."""

import asyncio
import os

import aioboto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, SSLError

import access

if not os.environ.get("LARDER_BIN"):
    pytest.skip("LARDER_BIN does not name the binary to serve with", allow_module_level=True)

CONFIG = Config(connect_timeout=5, read_timeout=30, retries={"mode": "standard", "total_max_attempts": 1})


@pytest.fixture(scope="module")
def door(tmp_path_factory):
    """Where the server is, its certificate, and a key that may do everything."""
    directory = tmp_path_factory.mktemp("door")
    file = directory / "access.json"
    _, key = access.add(file, access.ADMINISTRATOR)
    with access.serve(directory, "--tls", "self-signed", "--access", file) as (url, certificate):
        yield url, certificate, key


def run(door, work, verify=None, **changed):
    """Runs `work(client)`, for a minute at most."""
    url, certificate, key = door

    async def connected():
        session = aioboto3.Session(region_name="us-east-1", **key | changed)
        options = {"endpoint_url": url, "config": CONFIG, "verify": certificate if verify is None else verify}
        async with session.client("dynamodb", **options) as client:
            return await work(client)

    return asyncio.run(asyncio.wait_for(connected(), timeout=60))


def test_a_round_of_work(door):
    async def work(client):
        await client.create_table(
            TableName="round",
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        )
        items = [{"id": {"S": f"å/{n} +"}} for n in range(20)]
        await asyncio.gather(*(client.put_item(TableName="round", Item=item) for item in items))
        found = await asyncio.gather(*(client.get_item(TableName="round", Key=item) for item in items))
        assert [one["Item"] for one in found] == items
        await client.delete_table(TableName="round")
        return (await client.list_tables())["TableNames"]

    assert run(door, work) == []


@pytest.mark.parametrize(
    "changed, code",
    [
        ({"aws_access_key_id": "LKIA0000000000000000"}, "UnrecognizedClientException"),
        ({"aws_secret_access_key": "wrong"}, "InvalidSignatureException"),
        ({"aws_session_token": "of-somebody-else"}, "UnrecognizedClientException"),
    ],
    ids=["key", "secret", "token"],
)
def test_who_signs_otherwise_is_refused(door, changed, code):
    with pytest.raises(ClientError) as error:
        run(door, lambda client: client.list_tables(), **changed)
    answer = error.value.response
    assert (answer["Error"]["Code"], answer["ResponseMetadata"]["HTTPStatusCode"]) == (code, 400)


def test_a_client_that_does_not_trust_the_certificate_ends_there(door):
    with pytest.raises(SSLError, match="CERTIFICATE_VERIFY_FAILED"):
        run(door, lambda client: client.list_tables(), verify=True)
