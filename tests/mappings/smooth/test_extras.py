"""What rides in ext comes back as the JSON that it was."""

from __future__ import annotations

from msgspec import UNSET, Raw

from dragoman.mappings.smooth.extras import as_json, given, keep, raw


def test_what_is_kept_is_given_back() -> None:
    ext = keep(skill="meteo", details={"a": [None]}, stream=False)
    assert (given(ext, "skill"), given(ext, "details"), given(ext, "stream")) == ("meteo", {"a": [None]}, False)


def test_null_is_kept_and_unset_is_not() -> None:
    assert keep(directive=None) == {"smooth.directive": Raw(b"null")}
    assert keep(directive=UNSET) is None


def test_what_was_not_kept_is_unset() -> None:
    assert given(None, "skill") is UNSET
    assert given({"pod.skill": raw("x")}, "skill") is UNSET


def test_json_text_is_compact() -> None:
    assert as_json({"a": [1, "ü"]}) == '{"a":[1,"ü"]}'
