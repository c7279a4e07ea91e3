"""What is wrong with params, in the words of the real server (docs/dialects/codewhale.md, section 1.2)."""

from __future__ import annotations

import json
import re

import msgspec

TEXT_MAX = 500  # characters: it may quote what the peer sent

MISSING = re.compile(r"Object missing required field `(\w+)`")
WRONG_TYPE = re.compile(r"Expected `([^`]+)`, got `[^`]+`(?: - at `\$([^`]*)`)?")
TOO_SMALL = re.compile(r"Expected `int` >= 0 - at `\$([^`]*)`")

EXPECTED = {"str": "a string", "bool": "a boolean", "int": "i64", "array": "a sequence", "object": "a map"}

UNSIGNED = ".limit"  # the one member that counts: all other integers are i64


def in_words(error: str, params: object) -> str:
    """The text of an error about `params`."""
    if found := MISSING.search(error):
        return f"missing field `{found[1]}`"
    if found := TOO_SMALL.search(error):
        return f"invalid value: {said_as(_at(params, found[1]))}, expected usize"
    if found := WRONG_TYPE.search(error):
        expected = EXPECTED.get(found[1].removesuffix(" | null"), found[1])
        expected = "usize" if (found[2] or "").endswith(UNSIGNED) else expected
        return f"invalid type: {said_as(_at(params, found[2] or ''))}, expected {expected}"[:TEXT_MAX]
    return error[:TEXT_MAX]


def _at(value: object, path: str) -> object:
    """The member at a path of names; indices are not followed."""
    for name in path.split(".")[1:]:
        value = value.get(name) if isinstance(value, dict) else value
    return value


def said_as(value: object) -> str:
    """A value of a wrong type, as an error names it."""
    match value:
        case None:
            return "null"
        case bool():
            return f"boolean `{json.dumps(value)}`"
        case int():
            return f"integer `{value}`"
        case float():
            return f"floating point `{msgspec.json.encode(value).decode()}`"
        case str():
            return f"string {json.dumps(value, ensure_ascii=False)}"
        case list():
            return "sequence"
        case _:
            return "map"
