"""Further text of an open block: added to the log and the turn at once, and counted when something else happens."""

from __future__ import annotations

import gc
import json

import pytest

from dragoman.mappings.canonical.events import ReasoningDelta, ReasoningDone, TextDelta
from tests.gateway.in_memory import InMemoryGateway, Script, in_memory_gateway
from tests.gateway.pod_messages import delta
from tests.gateway.smooth_client_messages import token
from tests.gateway.talked import begun


def streaming(made: InMemoryGateway) -> Script:
    """Return a client `a` whose turn r1 streams text: the first piece opened its block, the second is lone text."""
    said = begun(made)
    for text in ("a", "b"):
        said = said.pod_sends(delta(text)).receives("a", token("r1", text))
    return said


async def test_a_further_piece_is_logged_and_belongs_to_the_turn() -> None:
    async with in_memory_gateway() as made:
        await streaming(made)
        before = made.session.state.seq
        await made.script().pod_sends(delta("c")).receives("a", token("r1", "c"))
        assert [one.count for one in [made.session.delivery.groups.text] if one is not None] == [1]
        assert [turn.text() for turn in [made.session.state.turn] if turn is not None] == ["abc"]
        ((batch, after),) = made.session.log.batches_from(before - 1, 100)
        assert batch.events == [TextDelta(text="b"), TextDelta(text="c")]
        assert after == before + 1


async def test_each_client_that_shares_a_rendering_receives_each_piece() -> None:
    async with in_memory_gateway() as made:
        await begun(made).opens("b").opens("c")
        for text in ("a", "b", "c"):
            said = made.script().pod_sends(delta(text)).receives("a", token("r1", text))
            await said.receives("b", token("$turn", text)).receives("c", token("$turn", text))
        assert made.session.delivery.groups.text is not None


async def test_reasoning_streams_like_text_and_text_ends_it() -> None:
    async with in_memory_gateway() as made:
        await begun(made)
        for text in ("a", "b", "c"):
            thought = {"event": "thinking_delta", "data": {"text": text}}
            await made.script().pod_sends(thought).receives("a", token("r1", text) | {"type": "stream_reasoning"})
        stream = made.session.delivery.groups.text
        assert stream is not None
        assert (stream.delta, stream.count, stream.open) == (ReasoningDelta, 1, True)
        await made.script().pod_sends(delta("said")).receives("a", token("r1", "said"))
        assert not stream.open
        logged = [event for batch, _ in made.session.log.batches_from(0, 100) for event in batch.events]
        thoughts = [ReasoningDelta(text=text) for text in ("a", "b", "c")]
        assert logged[-5:] == [*thoughts, ReasoningDone(text="abc"), TextDelta(text="said")]


async def test_several_pieces_at_once_stand_behind_the_lone_ones_in_the_log() -> None:
    """A client that reads slowly is sent what the log has."""
    async with in_memory_gateway() as made:
        await streaming(made).pod_sends(delta("c")).receives("a", token("r1", "c"))
        before = made.session.state.seq
        await made.script().pod_sends(delta("d"), delta("e")).ignores("a")
        logged = [event for batch, _ in made.session.log.batches_from(before - 2, 100) for event in batch.events]
        assert logged == [TextDelta(text=text) for text in "bcde"]


async def test_the_log_counts_the_pieces_when_the_stream_is_closed() -> None:
    async with in_memory_gateway() as made:
        await streaming(made)
        size = made.session.log.size
        for text in ("c", "d"):
            await made.script().pod_sends(delta(text)).receives("a", token("r1", text))
        made.session.log.close_text()
        assert made.session.log.size == size + 2 * 256 + 2


@pytest.mark.parametrize("text", ["", "x" * 20_000])
async def test_a_piece_without_room_takes_the_general_path(text: str) -> None:
    async with in_memory_gateway() as made:
        await streaming(made)
        stream = made.session.delivery.groups.text
        assert stream is not None
        assert not stream.add_text(text, 0)
        assert stream.count == 0


async def test_nothing_that_the_garbage_collector_tracks_is_kept_for_a_piece() -> None:
    async with in_memory_gateway() as made:
        await streaming(made)
        lines = [json.dumps(delta(f"{number}")).encode() for number in range(60)]
        stream = made.session.delivery.groups.text
        assert stream is not None
        gc.disable()
        before = 0
        try:
            for line in lines:
                await made.pods[-1].transport.says(line)
                if stream.count == 20:
                    before = len(gc.get_objects())
            kept = len(gc.get_objects()) - before
        finally:
            gc.enable()
        assert stream.count == len(lines)
        assert kept < 10, "of 40 pieces"
