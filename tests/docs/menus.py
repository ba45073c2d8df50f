"""Twelve menus as the guard's guide supposes them, two of them with a count that is wrong, in a server on port 8000."""

import time

import boto3

TABLE = boto3.resource(
    "dynamodb", endpoint_url="http://127.0.0.1:8000", region_name="us-east-1", aws_access_key_id="any", aws_secret_access_key="any"
).Table("lunch-cache-dev")
LUNCHES = [{"name": name, "price": 125, "weekday": "måndag", "week": 3, "place": "Niagara"} for name in ("Soppa", "Sallad")]

for week in range(3, 15):
    TABLE.put_item(Item={
        "pk": f"niagara-2025-{week:02}", "restaurant": "niagara", "year": 2025, "week": week, "lunches": LUNCHES, "cachedAt": "2025-01-13T08:00:00.000Z",
        "lunchCount": 2 if week > 4 else week, "ttl": int(time.time()) + 600_000})
