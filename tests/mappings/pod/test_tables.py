"""The rules of both directions are complete, and each does what it declares."""

from __future__ import annotations

from typing import Any

from dragoman.mappings.dialect import Step
from dragoman.mappings.pod import DIALECT
from dragoman.mappings.pod.to_canonical.commands import TO_COMMAND
from dragoman.mappings.pod.to_canonical.events import TO_EVENT
from tests.mappings.pod.data import VECTORS, direction_of


def test_every_wire_type_has_a_rule() -> None:
    assert len(TO_EVENT.entries) == 34
    assert len(TO_COMMAND.entries) == 12


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


def test_the_dialect_is_one_session_without_ids() -> None:
    assert (DIALECT.name, DIALECT.public_ids("x", None)) == ("pod", ())
    assert DIALECT.single_session
    assert not DIALECT.has_request_ids
