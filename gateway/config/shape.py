"""Everything that does not fit where a table is read as a struct, not only the first of it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from types import UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct

from dragoman.gateway.config.lines import KeyPath

__all__ = ["either", "faults", "nearest"]

SHOWN = 60  # characters of a wrong value that an error repeats

PLAIN = {
    "int": "a whole number",
    "float": "a number",
    "str": "text in quotes",
    "bool": "true or false",
    "array": "a list in brackets",
}
"""msgspec's name of a type -> what its user is asked to write."""


def faults(value: Any, wanted: Any, path: KeyPath = ()) -> Iterator[tuple[KeyPath, str]]:
    """What keeps `value`, parsed from TOML, from being a `wanted`: where it stands, and what to write instead."""
    if isinstance(wanted, UnionType):  # X | None: TOML has no null, what is not written is left out
        (wanted,) = (option for option in get_args(wanted) if option is not type(None))
    if isinstance(wanted, type) and issubclass(wanted, Struct):
        if isinstance(value, dict):
            yield from _faults_of_table(value, wanted, path)
        else:
            yield path, f"{_shown(value)} is no table"
    elif get_origin(wanted) is list and isinstance(value, list):
        for index, item in enumerate(value):
            yield from faults(item, get_args(wanted)[0], (*path, index))
    else:
        yield from ((path, text) for text in _faults_of_value(value, wanted))


def _faults_of_table(table: dict[str, Any], wanted: type[Struct], path: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    hints = get_type_hints(wanted, include_extras=True)
    for key, value in table.items():
        if key in hints:
            yield from faults(value, hints[key], (*path, key))
        else:
            yield (*path, key), f"unknown key {key!r}; {nearest(key, hints)}"
    for field in msgspec.structs.fields(wanted):
        if field.required and field.name not in table:
            yield path, f"the key {field.name!r} is missing"


def _faults_of_value(value: Any, wanted: Any) -> Iterator[str]:
    if get_origin(wanted) is Literal and value not in get_args(wanted):
        yield f"{_shown(value)} is no choice here; write {either(get_args(wanted))}"
        return
    try:
        msgspec.convert(value, wanted)
    except msgspec.ValidationError as error:
        yield f"{_shown(value)} does not fit here; write {_expected(error)}"
    else:
        if isinstance(value, float) and not math.isfinite(value):
            yield f"{value} does not fit here; write a number that ends"


def nearest(word: str, known: Iterable[str]) -> str:
    """What was probably meant by `word`, else all that it could be."""
    words = list(known)
    close = get_close_matches(word, words, n=1)
    return f"did you mean {close[0]!r}?" if close else f"there are {', '.join(words)}"


def either(words: Iterable[str]) -> str:
    """`ask, deny or approve`."""
    *some, last = map(str, words)
    return f"{', '.join(some)} or {last}" if some else last


def _expected(error: msgspec.ValidationError) -> str:
    kind, _, bound = str(error).removeprefix("Expected ").partition(", got ")[0].replace("`", "").partition(" ")
    return f"{PLAIN.get(kind, kind)} {bound}".rstrip()


def _shown(value: Any) -> str:
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
