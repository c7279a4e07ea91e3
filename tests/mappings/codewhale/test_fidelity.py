"""The measured fidelity of codewhale's rules is the declared one."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from msgspec import inspect

from dragoman.mappings.canonical import Command, Event, Unmapped
from dragoman.mappings.codewhale import DIALECT
from dragoman.mappings.codewhale.wire.results import Answer, Result
from dragoman.mappings.dialect import Direction
from tests.mappings.golden import GOLDEN, documented, fields_of, said
from tests.mappings.measured import faults, misheard

NAMES = ("events", "commands")
WRITTEN = [
    pytest.param(name, kind, id=kind.__name__)
    for name in NAMES
    for kind in get_args(Event if name == "events" else Command)
    if kind is not Unmapped
]
READ = [
    pytest.param(name, kind, id=kind.__name__) for name in NAMES for kind in getattr(DIALECT, name).to_canonical.entries
]


@pytest.mark.parametrize(("name", "kind"), WRITTEN)
def test_a_rule_from_canonical_does_what_it_declares(name: str, kind: type[Any]) -> None:
    direction: Direction[Any] = getattr(DIALECT, name)
    assert list(faults(DIALECT, direction, kind, direction.from_canonical.entries[kind].fidelity)) == []


@pytest.mark.parametrize(("name", "kind"), READ)
def test_a_rule_to_canonical_does_what_it_declares(name: str, kind: type[Any]) -> None:
    direction: Direction[Any] = getattr(DIALECT, name)
    frames = [frame for frame in GOLDEN["codewhale", name] if type(direction.codec.decode(frame)) is kind]
    assert frames
    assert list(misheard(direction, kind, direction.to_canonical.entries[kind].fidelity, frames)) == []


@pytest.mark.parametrize("name", NAMES)
def test_every_documented_field_stands_in_a_golden_frame(name: str) -> None:
    direction: Direction[Any] = getattr(DIALECT, name)
    seen = {field for frame in GOLDEN["codewhale", name] for field in said(direction.codec.decode(frame))}
    assert documented(direction) - seen == set()


def test_every_documented_field_of_a_result_and_of_its_frames_stands_in_a_golden_frame() -> None:
    seen = {field for frame in GOLDEN["codewhale", "events"] for field in said(DIALECT.events.codec.decode(frame))}
    for kind in (*get_args(Result), Answer):
        shape = inspect.type_info(kind)
        assert set(fields_of(shape)) - seen == set()
