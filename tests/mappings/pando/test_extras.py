"""What `ext` carries of a pando's fields."""

from __future__ import annotations

from msgspec import UNSET, Raw

from dragoman.mappings.pando.extras import given, keep, raw


def test_fields_that_are_set_are_kept_and_given_back() -> None:
    ext = keep(a=1, b=UNSET, c=None)
    assert ext is not None
    assert set(ext) == {"pando.a", "pando.c"}
    assert given(ext, "a", int, 0) == 1


def test_nothing_to_keep_is_no_ext() -> None:
    assert keep(a=UNSET) is None


def test_what_is_not_there_or_of_another_shape_is_the_default() -> None:
    assert given(None, "a", int, 7) == given({}, "a", int, 7) == given({"pando.a": Raw(b'"x"')}, "a", int, 7) == 7
    assert bytes(raw({"x": 1})) == b'{"x":1}'
