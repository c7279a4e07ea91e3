"""Which events go to the link that asked."""

from __future__ import annotations

from typing import get_args

from gateway.session.answers import ADDRESSED, answers_one
from mappings.canonical import Event
from mappings.canonical.events import Heartbeat, HistorySnapshot, TextDelta


def test_a_history_that_was_asked_for_answers_and_one_that_is_told_does_not() -> None:
    assert answers_one(HistorySnapshot(items=(), request="r"))
    assert not answers_one(HistorySnapshot(items=()))
    assert not answers_one(TextDelta(text="a"))


def test_every_event_with_a_request_is_addressed() -> None:
    named = {kind for kind in get_args(Event) if "request" in kind.__struct_fields__ and kind is not Heartbeat}
    assert {kind.__name__ for kind in named} - {"Unmapped"} == {kind.__name__ for kind in ADDRESSED}
