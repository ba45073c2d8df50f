"""What a loader may say besides the value itself."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Generic, Mapping, NamedTuple, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Load(Generic[T]):
    """A value with what the source said of it: `Load(page, etag="v7", ttl=timedelta(minutes=5))`."""

    value: T | None = None
    etag: str | None = None
    last_modified: str | None = None
    #: How long it is fresh, instead of what the schema says.
    ttl: timedelta | None = None
    answer: str = "value"

    @classmethod
    def absent(cls) -> Load[T]:
        """There is no such thing. Returning `None` says the same."""
        return cls(answer="absent")

    @classmethod
    def not_modified(cls) -> Load[T]:
        """What `Known` spoke of has not changed: it is kept for another while."""
        return cls(answer="not_modified")


class Known(NamedTuple):
    """What is kept already, for a source that can say "not changed"."""

    etag: str | None
    last_modified: str | None


def members(given: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """The members of a collection, from a dict of one or many by entity. Called by the native module."""
    from ._core import TypedRecord, drafted

    out: list[tuple[str, Any, Any]] = []
    for entity, records in given.items():
        if isinstance(records, (Mapping, TypedRecord)):
            records = [records]
        out.extend((entity, *drafted(record)) for record in records)
    return out
