"""A dict of bounded size forgets its oldest entry."""

from __future__ import annotations

from dragoman.mappings.bounded import remember


def test_the_oldest_entry_is_forgotten_at_the_limit() -> None:
    known = {"a": 1, "b": 2}
    remember(known, "c", 3, most=2)
    assert known == {"b": 2, "c": 3}


def test_a_known_key_forgets_no_other_entry() -> None:
    known = {"a": 1, "b": 2}
    remember(known, "a", 3, most=2)
    assert known == {"a": 3, "b": 2}
