"""What rides in ext."""

from __future__ import annotations

from msgspec import UNSET, Raw

from dragoman.mappings.codewhale.extras import carried, given, keep, raw


def test_only_fields_that_are_set_are_kept() -> None:
    assert keep(a=UNSET) is None
    assert keep(a=None, b=UNSET) == {"codewhale.a": Raw(b"null")}


def test_what_was_kept_is_given_and_what_was_not_or_does_not_fit_is_the_default() -> None:
    ext = keep(a=1)
    assert [given(e, f, t, d) for e, f, t, d in ((ext, "a", int, 0), (ext, "b", int, 2), (None, "a", int, 3))] == [
        1,
        2,
        3,
    ]
    assert given(ext, "a", str, "x") == "x"
    assert (carried(ext, "a"), carried(ext, "b"), carried(None, "a")) == (raw(1), None, None)
