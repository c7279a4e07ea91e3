"""Fields in `ext` come back as the same JSON."""

from __future__ import annotations

from msgspec import UNSET, Raw

from dragoman.mappings.extras import Extras, as_json, raw, read_raw

EXTRAS = Extras("small")


def test_a_kept_field_is_given_back() -> None:
    ext = EXTRAS.keep(skill="meteo", details={"a": [None]}, stream=False)
    read = [EXTRAS.given(ext, name, object, UNSET) for name in ("skill", "details", "stream")]
    assert read == ["meteo", {"a": [None]}, False]
    assert EXTRAS.carried(ext, "skill") == raw("meteo")


def test_null_is_kept_and_unset_is_not() -> None:
    assert EXTRAS.keep(directive=None) == {"small.directive": Raw(b"null")}
    assert EXTRAS.keep(directive=UNSET) is None


def test_a_field_that_was_not_kept_is_absent() -> None:
    for ext in (None, {}, {"pod.skill": raw("x")}):
        assert EXTRAS.carried(ext, "skill") is None
        assert EXTRAS.given(ext, "skill", str, "usual") == "usual"


def test_a_value_of_another_shape_is_the_default() -> None:
    assert EXTRAS.given(EXTRAS.keep(count="x"), "count", int, 7) == 7


def test_json_that_is_missing_or_of_another_shape_is_read_as_none() -> None:
    assert read_raw(raw({"a": 1}), dict[str, int]) == {"a": 1}
    assert [read_raw(json, dict[str, int]) for json in (None, UNSET, raw([]), raw({"a": "x"}), Raw(b"{"))] == [None] * 5


def test_json_text_is_compact() -> None:
    assert as_json({"a": [1, "ü"]}) == '{"a":[1,"ü"]}'
