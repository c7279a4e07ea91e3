"""A dict of bounded size."""

from __future__ import annotations

from typing import TypeVar

Key = TypeVar("Key")
Known = TypeVar("Known")


def remember(known: dict[Key, Known], key: Key, value: Known, most: int) -> None:
    """Set `known[key] = value`. If the dict already has `most` entries, remove the oldest one first."""
    if key not in known and len(known) >= most:
        del known[next(iter(known))]
    known[key] = value
