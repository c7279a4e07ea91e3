"""A dict of bounded size forgets its oldest entry."""

from __future__ import annotations

from dragoman.mappings.bounded import remember


def test_the_oldest_entry_is_forgotten_at_the_limit() -> None:
    known = {"a": 1, "b": 2}
    remember(known, "c", 3, most=2)
    assert known == {"b": 2, "c": 3}


def test_a_known_key_forgets_no_other_entry_and_becomes_the_newest() -> None:
    known = {"a": 1, "b": 2}
    remember(known, "a", 3, most=2)
    assert list(known.items()) == [("b", 2), ("a", 3)]


def test_a_smaller_limit_forgets_all_entries_above_it() -> None:
    known = {"a": 1, "b": 2, "c": 3}
    remember(known, "d", 4, most=2)
    assert known == {"c": 3, "d": 4}
