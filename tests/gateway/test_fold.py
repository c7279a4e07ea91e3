"""Folding: a log alone gives the state that the live path had, and its prelude shows what live clients saw."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import count
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway import registry
from gateway.fold import add_usage, fold
from gateway.runs import Run
from gateway.turn import NormalForm
from mappings.canonical import Batch, Event, SessionState, prelude
from mappings.canonical.events import (
    Alert,
    ErrorReported,
    HistorySnapshot,
    MessageAppended,
    ModelTurnStarted,
    ReasoningDelta,
    ReasoningDone,
    SessionUpdated,
    StatusChanged,
    TextDelta,
    TextDone,
    ToolCallArguments,
    ToolCallFinished,
    ToolCallStarted,
    TurnEnded,
    TurnResult,
    UsageReported,
)
from mappings.canonical.values import Message, Origin, SessionSummary, Usage

OURS = Origin(link="smooth-1", request="r1")
ID = str(UUID(int=0))


class Live:
    """The live path: the normal form with its state, and the log of what it emitted."""

    def __init__(self) -> None:
        numbers = count(1)
        self.state = SessionState(id=ID)
        self.form = NormalForm(self.state, lambda: str(UUID(int=next(numbers))))
        self.log: list[Batch] = []
        self._at = 10**9

    def accept(self, text: str) -> None:
        self._at += 1
        self._append(self.form.accept(OURS, Message(role="user", text=text), self._at))

    def feed(self, events: Sequence[Event]) -> None:
        self._at += 1
        self._append(self.form.feed(events, self._at))

    def _append(self, runs: list[Run]) -> None:
        for run in runs:
            batch = Batch(
                session=ID, epoch=1, first_seq=self.state.seq, events=run.events, turn=run.turn, origin=run.origin,
                at=self._at,
            )  # fmt: skip
            self.state.seq += len(run.events)
            self.state.updated_at = self._at
            self.log.append(batch)

    def folded(self) -> SessionState:
        state = SessionState(id=ID)
        for batch in self.log:
            fold(state, batch)
        return state


CALLS = st.sampled_from(["a", "b"])
TEXTS = st.text(alphabet="xyz", max_size=3)
EVENTS: st.SearchStrategy[Event] = st.one_of(
    st.builds(TextDelta, text=TEXTS),
    st.builds(TextDone, text=TEXTS),
    st.builds(ReasoningDelta, text=TEXTS),
    st.builds(ReasoningDone, text=TEXTS),
    st.builds(ToolCallStarted, call=CALLS, name=st.just("grep")),
    st.builds(ToolCallArguments, call=CALLS, name=st.just("grep"), json=st.just("{}"), done=st.booleans()),
    st.builds(ToolCallFinished, call=CALLS, output=TEXTS, is_error=st.booleans()),
    st.builds(UsageReported, usage=st.builds(Usage, input_tokens=st.none() | st.integers(0, 9))),
    st.builds(ModelTurnStarted, index=st.integers(0, 3)),
    st.builds(TurnResult, end=st.sampled_from(["completed", "cancelled", "rolled_back", "paused"])),
    st.builds(StatusChanged, status=st.sampled_from(["idle", "running", "paused"])),
    st.builds(ErrorReported, cause=st.just("internal"), text=TEXTS),
    st.builds(Alert, level=st.just("warn"), source=st.just("pod"), text=TEXTS),
    st.builds(MessageAppended, message=st.builds(Message, role=st.sampled_from(["user", "system"]), text=TEXTS)),
    st.builds(TurnEnded, end=st.sampled_from(["completed", "failed"]), text=TEXTS),
    st.builds(
        HistorySnapshot,
        items=st.lists(st.builds(Message, role=st.sampled_from(["user", "assistant"]), text=TEXTS), max_size=3).map(
            tuple
        ),
        rotated=st.booleans(),
    ),
)
BURSTS = st.lists(st.one_of(st.lists(EVENTS, max_size=6), st.just(None)), max_size=10)
"""What a backend says, piece by piece; None is its acceptance of an input of ours."""


def played(bursts: Sequence[list[Event] | None]) -> Live:
    live = Live()
    for events in bursts:
        if events is None:
            live.accept("hi")
        elif events:
            live.feed(events)
    return live


@given(BURSTS)
def test_the_log_folds_into_the_live_state(bursts: list[list[Event] | None]) -> None:
    live = played(bursts)
    folded = live.folded()
    if live.state.turn is not None and folded.turn is not None:
        folded.turn.message = live.state.turn.message  # the log tells the answer's id with the end
    assert folded == live.state


@given(BURSTS)
def test_a_prelude_shows_what_who_was_there_saw(bursts: list[list[Event] | None]) -> None:
    live = played(bursts)
    dialect = registry.dialect("smooth")
    shared = dialect.projection("", "")
    frames = [frame for batch in live.log for frame in shared.render(batch).frames]
    turn = live.state.turn
    late = Batch(
        session=ID, epoch=1, first_seq=live.state.seq, events=prelude(live.state),
        turn=turn.id if turn else "", origin=turn.origin if turn else Origin(),
    )  # fmt: skip
    shown = dialect.projection("", "").render(late).frames
    assert content(shown) == content(frames, turn.id if turn else "nobody")


def content(frames: Sequence[bytes], turn: str = "") -> dict[str, Any]:
    """Text, reasoning and tools that smooth frames show, of all turns or of one."""
    said: dict[str, Any] = {"text": "", "reasoning": "", "tools": set()}
    for frame in map(json.loads, frames):
        if turn and frame.get("requestId") != turn:
            continue
        match frame["type"]:
            case "stream_token":
                said["text"] += frame["token"]
            case "stream_reasoning":
                said["reasoning"] += frame["token"]
            case "stream_chunk":
                said["tools"].add(json.dumps(frame["data"]["state"], sort_keys=True))
    return said


def test_there_is_no_prelude_between_turns() -> None:
    live = played([None, [TextDelta(text="x"), TurnResult(end="completed"), StatusChanged(status="idle")]])
    assert prelude(live.state) == []


def test_a_turn_that_is_accepted_later_has_the_origin_of_its_acceptance() -> None:
    live = played([[TextDelta(text="x")], None])
    folded = live.folded()
    assert folded.turn is not None
    assert folded.turn.origin == OURS


def test_a_rollback_after_a_rotation_takes_the_users_message_out_again() -> None:
    live = played(
        [
            [HistorySnapshot(items=())],
            None,
            [HistorySnapshot(items=(Message(role="system", text="summary"),), rotated=True)],
            [TurnResult(end="rolled_back"), StatusChanged(status="idle")],
        ]
    )
    assert [item.text for item in live.state.transcript if isinstance(item, Message)] == ["summary"]


def test_a_named_session_keeps_its_title() -> None:
    live = played([[SessionUpdated(session=SessionSummary(session=ID, title="Orders"))]])
    assert live.folded().title == "Orders"


@pytest.mark.parametrize(
    ("total", "more", "sum_"),
    [
        (None, Usage(input_tokens=1), Usage(input_tokens=1)),
        (Usage(), Usage(input_tokens=1), Usage(input_tokens=1)),
        (Usage(input_tokens=1, cost_usd=0.5), Usage(input_tokens=2), Usage(input_tokens=3, cost_usd=0.5)),
        (Usage(output_tokens=0), Usage(), Usage(output_tokens=0)),
    ],
)
def test_usage_is_summed_where_it_is_known(total: Usage | None, more: Usage, sum_: Usage) -> None:
    assert add_usage(total, more) == sum_
