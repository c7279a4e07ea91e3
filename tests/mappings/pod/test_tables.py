"""The rules of both directions are complete, and each does what it declares."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from dragoman.mappings.canonical import Command, Event
from dragoman.mappings.dialect import Step
from dragoman.mappings.pod import DIALECT
from dragoman.mappings.pod.from_canonical.commands import FROM_COMMAND
from dragoman.mappings.pod.from_canonical.events import FROM_EVENT
from dragoman.mappings.pod.to_canonical.commands import TO_COMMAND
from dragoman.mappings.pod.to_canonical.events import TO_EVENT
from dragoman.mappings.pod.wire.events import Event as WireEvent
from dragoman.mappings.pod.wire.methods import Method
from dragoman.mappings.rules import Nothing, RuleTable
from tests.mappings.pod.data import VECTORS, direction_of


@pytest.mark.parametrize(
    ("table", "union"),
    [(TO_EVENT, WireEvent), (TO_COMMAND, Method), (FROM_EVENT, Event), (FROM_COMMAND, Command)],
    ids=["to_event", "to_command", "from_event", "from_command"],
)
def test_the_types_with_a_rule_are_those_of_the_union(table: RuleTable, union: Any) -> None:
    assert set(table.entries) == set(get_args(union))


def test_every_wire_type_has_a_rule() -> None:
    assert len(TO_EVENT.entries) == 34
    assert len(TO_COMMAND.entries) == 12


def test_every_wire_type_is_written_by_some_rule() -> None:
    written = {
        kind for table in (FROM_EVENT, FROM_COMMAND) for entry in table.entries.values() for kind in entry.produces
    }
    assert written == set(get_args(WireEvent)) | set(get_args(Method))


def test_rules_read_what_they_declare() -> None:
    for row in (row for row in VECTORS if row["accept"]):
        direction = direction_of(row["direction"])
        message = direction.codec.decode(row["canonical"])
        items = direction.to_canonical.functions[type(message)](message)
        assert {type(item) for item in items} <= set(direction.to_canonical.entries[type(message)].produces)


def test_rules_write_what_they_declare() -> None:
    for row in (row for row in VECTORS if row["accept"]):
        direction = direction_of(row["direction"])
        step: Step[Any] = Step()
        direction.receive([row["wire"].encode()], step)
        item = step.bursts[0].items[0]
        for frame in direction.write(step.bursts[0]).frames:
            assert type(direction.codec.decode(frame)) in direction.from_canonical.entries[type(item)].produces


def test_each_none_entry_has_a_reason() -> None:
    whys = [
        e.fidelity.why
        for t in (FROM_EVENT, FROM_COMMAND)
        for e in t.entries.values()
        if isinstance(e.fidelity, Nothing)
    ]
    assert whys
    assert all(whys)


def test_the_dialect_is_one_session_without_ids() -> None:
    assert (DIALECT.name, DIALECT.public_ids("x", None)) == ("pod", ())
    assert DIALECT.single_session
    assert not DIALECT.has_request_ids
