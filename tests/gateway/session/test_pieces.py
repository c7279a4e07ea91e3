"""Pieces of streamed content: neighbours of one stream are joined, and nothing else."""

from __future__ import annotations

import pytest

from dragoman.gateway.session.pieces import join_pieces, stream_of_all
from dragoman.mappings.canonical import Event
from dragoman.mappings.canonical.events import (
    ReasoningDelta,
    TextDelta,
    TextDone,
    ToolCallArguments,
    ToolOutputDelta,
)


@pytest.mark.parametrize(
    ("pieces", "joined"),
    [
        ([TextDelta(text="a"), TextDelta(text="b")], TextDelta(text="ab")),
        ([ReasoningDelta(text="a"), ReasoningDelta(text="b")], ReasoningDelta(text="ab")),
        (
            [ToolCallArguments(call="c", name="n", json='{"a'), ToolCallArguments(call="c", name="n", json='":1}')],
            ToolCallArguments(call="c", name="n", json='{"a":1}'),
        ),
        (
            [ToolOutputDelta(call="c", text="a"), ToolOutputDelta(call="c", text="b")],
            ToolOutputDelta(call="c", text="ab"),
        ),
    ],
)
def test_adjacent_pieces_of_one_stream_are_joined(pieces: list[Event], joined: Event) -> None:
    assert join_pieces(pieces) == [joined]
    assert stream_of_all(pieces) is not None


@pytest.mark.parametrize(
    "events",
    [
        [TextDelta(text="a"), ReasoningDelta(text="b"), TextDelta(text="c")],
        [ToolOutputDelta(call="c", text="a"), ToolOutputDelta(call="d", text="b")],
        [ToolCallArguments(call="c", json="{"), ToolCallArguments(call="c", json="{}", done=True)],
        [TextDelta(text="a"), TextDone(text="a"), TextDelta(text="b")],
    ],
)
def test_events_of_different_streams_stay_as_they_are(events: list[Event]) -> None:
    assert join_pieces(events) == events
    assert stream_of_all(events) is None
