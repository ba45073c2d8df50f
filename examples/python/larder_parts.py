"""For programs that stay with boto3: reads what Larder keeps packed or split over several items, and judges how fresh an item is."""

import gzip
import io
import zlib
from datetime import datetime
from decimal import Decimal
from typing import Any


def whole(table: Any, item: dict[str, Any]) -> dict[str, Any] | None:
    """An item as it was put, of the one that the store has; `None` if its parts are not there any more."""
    parts, names = item.pop("larder_parts", None), [key["AttributeName"] for key in table.key_schema]
    if parts is None:
        return item
    if "count" in parts:
        ends = [f"{item[names[-1]]}#larder#{parts['version']}#{number}" for number in range(int(parts["count"]))]
        keys = [{**{name: item[name] for name in names}, names[-1]: end} for end in ends]
        chunks = [table.get_item(Key=key, ConsistentRead=True).get("Item") for key in keys]
        joined = b"".join(bytes(chunk["larder_chunk"]) for chunk in chunks if chunk)
        if zlib.crc32(joined) != parts["checksum"]:
            return None
        item = unpacked(joined) | item
    elif "larder_packed" not in item:
        return None
    packed = item.pop("larder_packed", None)
    return unpacked(gzip.decompress(bytes(packed))) | item if packed else item


def unpacked(data: bytes) -> dict[str, Any]:
    """Attributes of bytes: a version, their size, and names with tagged values."""
    left = io.BytesIO(data[1:])

    def size() -> int:
        byte = left.read(1)[0]
        return byte if byte < 128 else (byte & 127) | size() << 7

    def text() -> str:
        return left.read(size()).decode()

    def value() -> Any:
        tag = left.read(1)[0]
        left.read(4 if tag > 6 else 0)
        return [
            text, lambda: Decimal(text()), lambda: left.read(size()), lambda: False, lambda: True, lambda: None,
            lambda: {text() for _ in range(size())}, lambda: {Decimal(text()) for _ in range(size())},
            lambda: {left.read(size()) for _ in range(size())}, lambda: [value() for _ in range(size())], members,
        ][tag - 1]()  # fmt: skip

    def members() -> dict[str, Any]:
        return {text(): value() for _ in range(size())}

    size()
    return members()


def freshness(item: dict[str, Any], now: datetime, ttl: str = "ttl", stale: float = 0) -> str:
    """Whether a stored item may be given: "fresh"; "stale", if there is nothing better; "gone". `ttl` is the table's, and `stale` so many seconds."""
    until = item.get("larder_fresh_until", item.get(ttl))
    past = int(now.timestamp()) - until if isinstance(until, Decimal) and until == int(until) else 0
    if "larder_absent" in item or past > stale:
        return "gone"
    return "stale" if past > 0 else "fresh"
