"""Both directions are complete: every type has exactly one entry."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from dragoman.mappings.canonical import Command, Event
from dragoman.mappings.codewhale.from_canonical import FROM_COMMAND, FROM_EVENT
from dragoman.mappings.codewhale.to_canonical import TO_COMMAND, TO_EVENT
from dragoman.mappings.codewhale.to_canonical.frames import TO_FRAME
from dragoman.mappings.codewhale.wire.frames import EventFrame
from dragoman.mappings.codewhale.wire.lines import Line
from dragoman.mappings.codewhale.wire.requests import REQUESTS
from dragoman.mappings.codewhale.wire.results import Answer
from dragoman.mappings.rules import Nothing, RuleTable


@pytest.mark.parametrize(
    ("table", "kinds"),
    [
        (TO_EVENT, {*get_args(Line), Answer}),
        (TO_FRAME, set(get_args(EventFrame))),
        (TO_COMMAND, set(REQUESTS)),
        (FROM_EVENT, set(get_args(Event))),
        (FROM_COMMAND, set(get_args(Command))),
    ],
    ids=["to_event", "to_frame", "to_command", "from_event", "from_command"],
)
def test_exactly_the_known_types_have_an_entry(table: RuleTable, kinds: set[Any]) -> None:
    assert set(table.entries) == kinds


def test_every_line_and_request_is_written_by_some_rule() -> None:
    written = {kind for t in (FROM_EVENT, FROM_COMMAND) for entry in t.entries.values() for kind in entry.produces}
    assert written - set(get_args(EventFrame)) == {*get_args(Line), Answer, *REQUESTS}


def test_only_text_and_hooks_of_old_releases_are_bare_lines() -> None:
    """Clients would show a bare line of reasoning as text (docs/dialects/codewhale.md, section 11)."""
    spoken = {
        kind.__name__
        for kind, entry in FROM_EVENT.entries.items()
        if not set(get_args(Line)).isdisjoint(entry.produces)
    }
    assert spoken == {"ModelTurnStarted", "TextDelta", "TurnResult", "LifecycleReport", "QuestionAsked"}


def test_an_item_without_a_codewhale_form_is_declared_with_a_reason() -> None:
    whys = [
        e.fidelity.why
        for t in (FROM_EVENT, FROM_COMMAND)
        for e in t.entries.values()
        if isinstance(e.fidelity, Nothing)
    ]
    assert whys
    assert all(whys)
