"""A dict of bounded size."""

from __future__ import annotations

from typing import TypeVar

Key = TypeVar("Key")
Known = TypeVar("Known")


def remember(known: dict[Key, Known], key: Key, value: Known, most: int) -> None:
    """Set `known[key] = value` as the newest entry, and keep only the `most` newest ones."""
    known.pop(key, None)
    known[key] = value
    while len(known) > most:
        del known[next(iter(known))]
