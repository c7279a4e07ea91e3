"""Both directions are complete: every type has exactly one entry."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest

from dragoman.mappings.canonical import Command, Event
from dragoman.mappings.pando.from_canonical import FROM_COMMAND, FROM_EVENT
from dragoman.mappings.pando.to_canonical import TO_COMMAND, TO_EVENT
from dragoman.mappings.pando.wire.replies import Reply
from dragoman.mappings.pando.wire.requests import Request
from dragoman.mappings.pando.wire.topics import ChangeTopic, Topic
from dragoman.mappings.rules import Nothing, RuleTable

FROM_SERVER = {*get_args(Topic), Reply}


@pytest.mark.parametrize(
    ("table", "kinds"),
    [
        (TO_EVENT, FROM_SERVER),
        (TO_COMMAND, set(get_args(Request))),
        (FROM_EVENT, set(get_args(Event))),
        (FROM_COMMAND, set(get_args(Command))),
    ],
    ids=["to_event", "to_command", "from_event", "from_command"],
)
def test_exactly_the_known_types_have_an_entry(table: RuleTable, kinds: set[Any]) -> None:
    assert set(table.entries) == kinds


def test_every_wire_type_is_written_by_some_rule() -> None:
    written = {kind for t in (FROM_EVENT, FROM_COMMAND) for entry in t.entries.values() for kind in entry.produces}
    assert written - {msgspec.Raw} == FROM_SERVER | set(get_args(Request))


def test_the_topics_of_the_store_are_those_that_a_pando_has() -> None:
    assert len(get_args(ChangeTopic)) == 13
    assert all(topic.startswith("db.") and topic.count(".") == 2 for topic in get_args(ChangeTopic))


def test_reasoning_and_internal_events_are_not_published_but_for_what_pando_has() -> None:
    shown = {
        kind.__name__
        for kind in get_args(Event)
        if kind.visibility != "public" and FROM_EVENT.entries[kind].fidelity.kind != "none"
    }
    assert shown == {"StoreChanged", "Unmapped"}


def test_an_item_without_a_pando_form_is_declared_with_a_reason() -> None:
    whys = [
        e.fidelity.why
        for t in (FROM_EVENT, FROM_COMMAND)
        for e in t.entries.values()
        if isinstance(e.fidelity, Nothing)
    ]
    assert whys
    assert all(whys)
