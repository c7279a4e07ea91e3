from __future__ import annotations

import json

import pytest

from dragoman.gateway.recording.redaction.paths import JsonPaths, json_path
from dragoman.gateway.recording.redaction.spans import replaced
from dragoman.mappings.errors import ConfigError

DOCUMENT = {
    "user": {"name": "Ada", "ids": [1, 2.50, None], "home": {"street": "Main St", "no": 7}},
    "cards": [{"pan": "4111", "ok": True}, {"pan": "4222", "ok": False}],
    "a.b": "dotted",
}


def without(path: str, text: str, base: tuple[str | int, ...] = ()) -> str:
    return replaced(text, JsonPaths([json_path(path)]).find(text, base), lambda kind, _secret: f"<{kind}>")


@pytest.mark.parametrize(
    ("path", "keys"),
    [
        ("$.user.name", [("user", "name")]),
        ("$.user.home", [("user", "home")]),
        ("$['a.b']", [("a.b",)]),
        ("$.user.ids", [("user", "ids")]),
        ("$.user.ids[1]", [("user", "ids", 1)]),
        ("$.user.home.no", [("user", "home", "no")]),
        ("$.user.*.no", [("user", "home", "no")]),
        ("$..street", [("user", "home", "street")]),
        ("$..home..no", [("user", "home", "no")]),
        ("$.cards[0].ok", [("cards", 0, "ok")]),
        ("$.cards[*].pan", [("cards", 0, "pan"), ("cards", 1, "pan")]),
        ("$..pan", [("cards", 0, "pan"), ("cards", 1, "pan")]),
        ("$.name", []),
        ("$.user.name.first", []),
        ("$.cards[2].pan", []),
    ],
)
def test_a_path_removes_the_value_that_it_leads_to(path: str, keys: list[tuple[str | int, ...]]) -> None:
    expected = json.loads(json.dumps(DOCUMENT))
    for one in keys:
        at = expected
        for key in one[:-1]:
            at = at[key]
        at[one[-1]] = "<path>"
    for text in (json.dumps(DOCUMENT), json.dumps(DOCUMENT, indent=1), json.dumps(DOCUMENT, separators=(",", ":"))):
        assert json.loads(without(path, text)) == expected


def test_json_in_a_string_is_searched_and_stays_json() -> None:
    for levels in range(1, 4):
        text = json.dumps(DOCUMENT)
        for _ in range(levels):
            text = json.dumps({"text": text})
        found = without("$.user.home", text)
        for _ in range(levels):
            found = json.loads(found)["text"]
        assert json.loads(found)["user"] == {"name": "Ada", "ids": [1, 2.5, None], "home": "<path>"}


def test_an_event_s_field_is_the_first_step() -> None:
    assert without("$.arguments.pin", '{"pin": 12}', ("arguments",)) == '{"pin": "<path>"}'
    assert without("$.arguments.pin", '{"pin": 12}', ("result",)) == '{"pin": 12}'


def test_keys_are_compared_as_what_they_mean() -> None:
    assert without("$.pin", '{"p\\u0069n": "12"}') == '{"p\\u0069n": "<path>"}'


@pytest.mark.parametrize("end", range(1, 40))
def test_truncated_json_shows_no_part_of_the_value(end: int) -> None:
    text = '{"a": [1, {"pin": "on the street"}]}'[:end]
    assert "street" not in without("$..pin", text)


@pytest.mark.parametrize(
    "text", ["}", "]", ",", '"', '{"a"', "{,}", "[}", '{"a":}', "{1:2}", "no JSON", "[[[[", "{" * 999]
)
def test_text_that_is_no_json_is_not_changed(text: str) -> None:
    assert without("$.a.b", text) == text


@pytest.mark.parametrize(
    "text", ["", "a", "a.b", "$", "$.*", "$[0]", "$.", "$.a b", "$[", "$['a]", "$.a[-1]", "$.a[?(@.b)]"]
)
def test_an_invalid_path_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        json_path(text)
