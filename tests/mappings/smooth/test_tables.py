"""Every type has exactly one entry in each table, and internal events have no form."""

from __future__ import annotations

from typing import get_args

import msgspec
import pytest

from dragoman.mappings.canonical import Command, Event, Unmapped
from dragoman.mappings.rules import RuleTable
from dragoman.mappings.smooth.from_canonical import FROM_COMMAND, FROM_EVENT
from dragoman.mappings.smooth.to_canonical import TO_COMMAND, TO_EVENT
from dragoman.mappings.smooth.wire import AnyAction, AnyEvent, events


@pytest.mark.parametrize(
    ("rules", "union"),
    [(TO_EVENT, AnyEvent), (TO_COMMAND, AnyAction), (FROM_EVENT, Event), (FROM_COMMAND, Command)],
    ids=lambda value: value.name if isinstance(value, RuleTable) else "",
)
def test_a_table_has_one_entry_for_each_type_and_no_other(rules: RuleTable, union: object) -> None:
    assert set(rules.entries) == set(get_args(union))


def test_internal_events_have_no_form_in_smooth() -> None:
    internal = {t for t in get_args(Event) if t.visibility == "internal"} - {Unmapped}
    assert {t for t in internal if FROM_EVENT.entries[t].fidelity.kind != "none"} == set()


def test_reasoning_becomes_only_stream_reasoning() -> None:
    made = [FROM_EVENT.entries[t].produces for t in get_args(Event) if t.visibility == "reasoning"]
    assert {struct for produces in made for struct in produces} == {events.StreamReasoning}


def test_rules_produce_canonical_types_only() -> None:
    for entry in TO_EVENT.entries.values():
        assert set(entry.produces) <= set(get_args(Event)), entry.source
    for entry in TO_COMMAND.entries.values():
        assert set(entry.produces) <= set(get_args(Command)), entry.source


@pytest.mark.parametrize("struct", get_args(AnyEvent) + get_args(AnyAction), ids=lambda s: s.__name__)
def test_wire_structs_are_closed_and_omit_what_is_absent(struct: type[msgspec.Struct]) -> None:
    config = struct.__struct_config__
    assert (config.frozen, config.forbid_unknown_fields, config.omit_defaults, config.gc) == (True, True, True, False)
