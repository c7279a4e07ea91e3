"""The tables of rules of each dialect are complete: every type has exactly one entry, which says what it writes."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest

from dragoman.gateway import registry
from dragoman.mappings.canonical import Command, Event
from dragoman.mappings.codewhale.to_canonical.frames import TO_FRAME
from dragoman.mappings.codewhale.wire.frames import EventFrame
from dragoman.mappings.dialect import Direction
from dragoman.mappings.losses import find_ext
from dragoman.mappings.rules import Nothing, RuleTable
from tests.mappings.golden import golden
from tests.mappings.round_trip import back_and_forth

INSIDE = {msgspec.Raw, *get_args(EventFrame)}
"""The types of what rules write inside of a message."""

dialects = pytest.mark.parametrize("name", registry.OURS)


def from_canonical(name: str) -> list[RuleTable]:
    dialect = registry.dialect(name)
    return [dialect.events.from_canonical, dialect.commands.from_canonical]


@dialects
def test_exactly_the_known_types_have_an_entry(name: str) -> None:
    dialect = registry.dialect(name)
    to_canonical = (dialect.events.to_canonical, dialect.commands.to_canonical)
    assert tuple(set(table.entries) for table in to_canonical) == (golden(name).event_types, golden(name).command_types)
    assert [set(table.entries) for table in from_canonical(name)] == [set(get_args(Event)), set(get_args(Command))]


def test_exactly_the_known_frames_of_codewhale_have_an_entry() -> None:
    assert set(TO_FRAME.entries) == set(get_args(EventFrame))


@dialects
def test_every_wire_type_is_written_by_some_rule(name: str) -> None:
    written = {kind for table in from_canonical(name) for entry in table.entries.values() for kind in entry.produces}
    assert written - INSIDE == golden(name).event_types | golden(name).command_types


@dialects
def test_rules_produce_canonical_types_only(name: str) -> None:
    dialect = registry.dialect(name)
    for direction, union in ((dialect.events, Event), (dialect.commands, Command)):
        for source, entry in direction.to_canonical.entries.items():
            assert set(entry.produces) <= set(get_args(union)), source


@dialects
@pytest.mark.parametrize("side", ["events", "commands"])
def test_rules_read_and_write_what_they_declare(name: str, side: str) -> None:
    direction: Direction[Any] = getattr(registry.dialect(name), side)
    for frame in golden(name).frames(side):
        step, frames = back_and_forth(direction, frame)
        read = {type(item) for burst in step.bursts for item in burst.items}
        assert read <= set(direction.to_canonical.entries[type(direction.codec.decode(frame))].produces)
        declared = {kind for item in read for kind in direction.from_canonical.entries[item].produces}
        assert {type(direction.codec.decode(out)) for out in frames} <= declared


@dialects
@pytest.mark.parametrize("side", ["events", "commands"])
def test_each_field_of_ext_is_declared_as_content_or_is_a_spelling(name: str, side: str) -> None:
    direction: Direction[Any] = getattr(registry.dialect(name), side)
    items = [
        item
        for frame in golden(name).frames(side)
        for burst in back_and_forth(direction, frame)[0].bursts
        for item in burst.items
    ]
    kept = {field.partition(".")[2] for item in items for field in getattr(item, "ext", None) or ()}
    own = direction.to_canonical.ext
    lost = {field for item in items for field in find_ext(item.ext or {}, name, own.get(type(item), ()))}
    declared = {f"ext.{field}" for fields in own.values() for field in fields}
    assert lost == declared
    assert kept - golden(name).spellings(side) == {field.split(".")[1] for field in declared}


@dialects
def test_an_item_without_a_form_in_the_dialect_has_a_reason(name: str) -> None:
    grades = [entry.fidelity for table in from_canonical(name) for entry in table.entries.values()]
    reasons = [grade.why for grade in grades if isinstance(grade, Nothing)]
    assert reasons
    assert all(reasons)
