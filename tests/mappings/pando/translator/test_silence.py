"""The silence that is allowed in a turn of a primary; test_followed_session.py tests what follows from it."""

from __future__ import annotations

import pytest

from dragoman.mappings.canonical import events
from dragoman.mappings.canonical.values import Message, SessionSummary
from dragoman.mappings.pando.translator.known_messages import KnownMessages
from dragoman.mappings.pando.translator.output import LatestCall, Output, StreamedOutput
from dragoman.mappings.pando.translator.silence import (
    TOOL_MAX,
    TURN_QUIET,
    UPDATE_QUIET,
    UPDATE_SKEW,
    Silence,
)
from dragoman.mappings.rfc3339 import NS

UPDATED = SessionSummary(session="s", messages=2)
START = events.ToolCallStarted(call="c", name="ls")
WHOLE = events.ToolCallArguments(call="c", name="ls", json="{}", done=True)


def allowed(
    silence: Silence,
    *said: Output,
    listed: tuple[Message, ...] = (),
    late: bool = False,
    after_update: bool = False,
    ours: bool = False,
) -> float:
    output = StreamedOutput(LatestCall())
    for event in said:
        output.take(event)
    known = KnownMessages()
    return silence.allowed(output, known, listed, late=late, after_update=after_update, ours=ours)


def test_a_turn_without_calls_is_checked_after_its_silence_and_sooner_after_an_update_of_our_run() -> None:
    silence = Silence()
    assert allowed(silence) == TURN_QUIET
    assert allowed(silence, after_update=True) == TURN_QUIET
    assert allowed(silence, after_update=True, ours=True) == UPDATE_QUIET
    assert allowed(silence, late=True) == UPDATE_QUIET


@pytest.mark.parametrize(
    ("updated", "seconds"),
    [(10.0, TOOL_MAX), (10.0 - UPDATE_SKEW, TOOL_MAX), (9.9 - UPDATE_SKEW, TURN_QUIET)],
)
def test_a_call_runs_only_if_the_session_was_updated_with_it(updated: float, seconds: float) -> None:
    silence = Silence()
    silence.note_update(UPDATED, int(updated * NS))
    silence.note_output(START, StreamedOutput(LatestCall()), 10 * NS)
    assert allowed(silence, START, WHOLE) == seconds


def test_publications_may_be_missed_until_the_subscription_of_a_new_connection_has_taken_effect() -> None:
    silence = Silence()
    assert not silence.may_miss(0)
    silence.note_reconnected(10 * NS)
    assert silence.may_miss(9 * NS)
    assert not silence.may_miss(11 * NS)
    silence.end_reconnect(int((10 + UPDATE_QUIET) * NS) - 1)
    assert silence.may_miss(9 * NS)
    silence.end_reconnect(int((10 + UPDATE_QUIET) * NS))
    assert not silence.may_miss(9 * NS)


def test_no_call_takes_longer_than_the_longest() -> None:
    silence = Silence()
    assert not silence.is_over(int(TOOL_MAX * NS) - 1)
    assert silence.is_over(int(TOOL_MAX * NS))
