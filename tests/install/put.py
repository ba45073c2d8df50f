"""Puts an item with boto3 and reads it back: put.py ENDPOINT."""

import sys

import boto3

client = boto3.client("dynamodb", endpoint_url=sys.argv[1], region_name="us-east-1", aws_access_key_id="any", aws_secret_access_key="any")
key = {"pk": {"S": "installed"}}
client.create_table(TableName="things", BillingMode="PAY_PER_REQUEST", KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
                    AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}])
client.put_item(TableName="things", Item=key | {"n": {"N": "1"}})
got = client.get_item(TableName="things", Key=key, ConsistentRead=True).get("Item")
if got != key | {"n": {"N": "1"}}:
    sys.exit(f"an item was put, and {got} was got")
