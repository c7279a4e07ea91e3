"""Find every mismatch between a TOML table and a struct, not only the first one; read what has the right shape."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, time
from difflib import get_close_matches
from functools import cache
from inspect import get_annotations
from types import UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct

from dragoman.gateway.config.lines import Found, KeyPath
from dragoman.gateway.endpoint import masked_text

SHOWN = 60  # characters of a wrong value in an error

INSTEAD = {
    "publish": "delete the line: this option of earlier versions had no effect",
    "stray_rate": "delete the line: `fault_rate` and `message_rate` bound these frames",
    "stray_burst": "delete the line: `fault_rate` and `message_rate` bound these frames",
    "failover": 'write all upstreams in one list: `upstream = ["...", "..."]`',
    "tls": "write `?cert=FILE&key=FILE` after a `wss:` endpoint",
}
"""A key that users write by mistake, or that earlier versions had -> what to write instead."""

PLAIN = {
    "int": "a whole number",
    "float": "a number",
    "str": "text in quotes",
    "bool": "true or false",
    "array": "a list in brackets",
    "object": "a table",
}
"""msgspec's name of a type -> the words for a user."""


def faults(
    value: Any, wanted: Any, path: KeyPath = (), tables: Mapping[str, Sequence[str]] | None = None
) -> Iterator[Found]:
    """Yield each mismatch of `value`, parsed from TOML, with the type `wanted`: its key path and what to write.

    `tables` names the tables that have a key; without it, they are those of `wanted`.
    """
    tables = _tables_by_key(wanted) if tables is None else tables
    if isinstance(wanted, UnionType):  # X | None: TOML has no null, so an optional key is left out
        options = [option for option in get_args(wanted) if option is not type(None)]
        # An option may be a text or a list of texts: the value is compared with the one that it looks like.
        wanted = next((one for one in options if isinstance(value, list) and get_origin(one) is list), options[0])
    if isinstance(wanted, type) and issubclass(wanted, Struct):
        if isinstance(value, dict):
            yield from _faults_of_table(value, wanted, path, tables)
        else:
            yield path, f"expected a table, got {_shown(value)}"
    elif get_origin(wanted) in (list, tuple) and isinstance(value, list):
        for index, item in enumerate(value):
            yield from faults(item, get_args(wanted)[0], (*path, index), tables)
    elif get_origin(wanted) is dict and isinstance(value, dict):
        names, kind = get_args(wanted)
        for name, item in value.items():
            if get_origin(names) is Literal and name not in get_args(names):
                yield (*path, name), f"unknown key {name!r}; {nearest(name, get_args(names))}"
            else:
                yield from faults(item, kind, (*path, name), tables)
    else:
        yield from ((path, text) for text in _faults_of_value(value, wanted))


def _faults_of_table(
    table: dict[str, Any], wanted: type[Struct], path: KeyPath, tables: Mapping[str, Sequence[str]]
) -> Iterator[Found]:
    hints = _hints(wanted)
    for key, value in table.items():
        if key in hints:
            yield from faults(value, hints[key], (*path, key), tables)
        elif key in tables:
            yield (*path, key), f"unknown key {key!r} here; it belongs {join_words(tables[key])}"
        elif path[:1] == ("route",) and _is_of_endpoints(key):
            yield (*path, key), f"unknown key {key!r}; it is an option of an endpoint: write `?{key}=...` after that"
        elif key in INSTEAD:
            yield (*path, key), f"unknown key {key!r}; {INSTEAD[key]}"
        else:
            yield (*path, key), f"unknown key {key!r}; {nearest(key, _keys_of(wanted))}"
    for name in _required_keys(wanted):
        if name not in table:
            yield path, f"the key {name!r} is missing"


def _is_of_endpoints(key: str) -> bool:
    from dragoman.gateway import registry  # only a wrong file needs to know

    return registry.has_option(key)


@cache
def _hints(wanted: type[Struct]) -> dict[str, Any]:
    return get_type_hints(wanted, include_extras=True)


@cache
def _required_keys(wanted: type[Struct]) -> list[str]:
    return [field.name for field in msgspec.structs.fields(wanted) if field.required]


@cache
def _keys_of(wanted: type[Struct]) -> list[str]:
    """Return the keys of a table: its own before those that its struct inherits."""
    return [key for owner in wanted.__mro__ for key in get_annotations(owner)]


def _tables_by_key(wanted: Any, heading: str = "", bracket: str = "[{}]") -> dict[str, list[str]]:
    """Return the headings of the tables below a type that have a key, by this key."""
    found: dict[str, list[str]] = {}
    hints = get_type_hints(wanted, include_extras=True) if isinstance(wanted, type) else {}
    for key, hint in hints.items():
        found.setdefault(key, []).append(f"in {bracket.format(heading)}" if heading else "at the top of the file")
        for option in (hint, *get_args(hint)):
            if isinstance(option, type) and issubclass(option, Struct):
                below = f"{heading}.{key}".removeprefix(".")
                form = "[[{}]]" if get_origin(hint) is list else "[{}]"
                for name, places in _tables_by_key(option, below, form).items():
                    found.setdefault(name, []).extend(places)
    return found


def _faults_of_value(value: Any, wanted: Any) -> Iterator[str]:
    if get_origin(wanted) is Literal and value not in get_args(wanted):
        yield f"{_shown(value)} is not one of {', '.join(get_args(wanted))}"
        return
    if isinstance(value, float) and not math.isfinite(value):
        yield f"expected a finite number, got {value}"
        return
    try:
        msgspec.convert(value, wanted)
    except msgspec.ValidationError as error:
        yield f"expected {_expected(error, _unit_of(wanted))}, got {_shown(value)}"


def table_at(value: Any, *keys: str) -> dict[str, Any]:
    """Return the table at these keys of a parsed value, or an empty one if the value there is not a table.

    `faults` reports a value of a wrong type. So a rule about the meaning of values need not check their types again.
    """
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def texts_in(value: Any) -> list[tuple[int, str]]:
    """Return the texts of a parsed list with their indices. Other values are left out: `faults` reports them."""
    return [(at, text) for at, text in enumerate(value) if isinstance(text, str)] if isinstance(value, list) else []


def nearest(word: str, known: Iterable[str]) -> str:
    """Return a hint with the known word closest to `word`, or with all known words."""
    words = list(known)
    close = get_close_matches(word, words, n=1)
    return f"did you mean {close[0]!r}?" if close else f"write one of {', '.join(words)}"


def join_words(words: Iterable[str]) -> str:
    """Return the words as a list for people: `ask, deny or approve`."""
    *some, last = map(str, words)
    return f"{', '.join(some)} or {last}" if some else last


def _unit_of(wanted: Any) -> str:
    return next(((one.extra or {}).get("unit", "") for one in get_args(wanted) if isinstance(one, msgspec.Meta)), "")


def _expected(error: msgspec.ValidationError, unit: str) -> str:
    kind, _, bound = (
        str(error)
        .replace(" | null", "")
        .removeprefix("Expected ")
        .partition(", got ")[0]
        .replace("`", "")
        .partition(" ")
    )
    return f"{PLAIN.get(kind, kind)} {bound} {unit if bound else ''}".rstrip()


def _shown(value: Any) -> str:
    text = str(value).lower() if isinstance(value, bool | date | time) else masked_text(repr(value))
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
