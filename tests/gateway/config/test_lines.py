"""The line of a key, for every form in which TOML can write it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tomli

from dragoman.gateway.config.lines import KeyPath, TomlLines, format_key

EXAMPLE = Path(__file__).parents[3] / "config.example.toml"


@pytest.mark.parametrize(
    ("text", "path", "line"),
    [
        ("a = 1\nb = 2\n", ("b",), 2),
        ("a = 1\r\nb = 2\r\n", ("b",), 2),
        ("\n# a = 1\n\na = 1", ("a",), 4),
        ("[limits]\nheartbeat = 3\n", ("limits", "heartbeat"), 2),
        ("[limits]\nheartbeat = 3\n", ("limits",), 1),
        ("limits.heartbeat = 3\nlimits.log_max = 4\n", ("limits", "log_max"), 2),
        ("limits = { heartbeat = 3, log_max = 4 }\n", ("limits", "log_max"), 1),
        ('"odd key" = 1\n[x]\n"a.b" = 2\n', ("x", "a.b"), 3),
        ('[[route]]\nname = "a"\n\n[[route]]\nname = "b"\n', ("route", 1, "name"), 5),
        ('[[route]]\nname = "a"\n\n[[route]]\nname = "b"\n', ("route", 1), 4),
        ('route = [\n  { name = "a" },\n  { name = "b" },\n]\n', ("route", 1, "name"), 3),
        ('[[route]]\nlisten = [\n  "a", # one\n  "b",\n]\nx = 1\n', ("route", 0, "listen", 1), 4),
        ('[[route]]\nlisten = [\n  "a",\n]\nx = 1\n', ("route", 0, "listen"), 2),
        ('[[route]]\nlisten = [\n  "a",\n]\nx = 1\n', ("route", 0, "x"), 5),
        ('a = """\nb = 1\n"""\nb = 2\n', ("b",), 4),
        ("a = '''\n[c]\nb = 1\n'''\n[c]\nb = 2\n", ("c", "b"), 6),
    ],
)
def test_the_line_of_a_key_is_found(text: str, path: KeyPath, line: int) -> None:
    tomli.loads(text)
    assert TomlLines(text).of(path) == line


@pytest.mark.parametrize(
    ("path", "line"),
    [(("route", 0, "upstream"), 2), (("route", 0, "listen", 7), 3), (("route", 4), 2), (("limits", "x"), 1), ((), 1)],
)
def test_a_missing_key_has_the_line_of_its_nearest_existing_parent(path: KeyPath, line: int) -> None:
    assert TomlLines('# no limits\n[[route]]\nlisten = ["a"]\n').of(path) == line


def values(table: Any, path: KeyPath = ()) -> Iterator[KeyPath]:
    if isinstance(table, dict):
        for key, value in table.items():
            yield from values(value, (*path, key))
    elif isinstance(table, list) and table and isinstance(table[0], dict):
        for index, value in enumerate(table):
            yield from values(value, (*path, index))
    else:
        yield path


def test_every_key_of_the_example_is_found_on_its_line() -> None:
    text = EXAMPLE.read_text("utf-8")
    lines = TomlLines(text)
    paths = list(values(tomli.loads(text)))
    assert len(paths) > 20
    for path in paths:
        assert f"{path[-1]} = " in text.split("\n")[lines.of(path) - 1]


def test_a_key_path_is_written_with_dots_and_brackets() -> None:
    assert format_key(("route", 0, "listen", 1)) == "route[0].listen[1]"
    assert format_key(("limits", "heartbeat")) == "limits.heartbeat"
    assert format_key(()) == ""
