"""A dict of bounded size."""

from __future__ import annotations

from typing import TypeVar

Key = TypeVar("Key")
Known = TypeVar("Known")


def remember(known: dict[Key, Known], key: Key, value: Known, most: int) -> None:
    """Set `known[key]`. Forget the oldest entry first, if the dict has `most` entries already."""
    if key not in known and len(known) >= most:
        del known[next(iter(known))]
    known[key] = value
