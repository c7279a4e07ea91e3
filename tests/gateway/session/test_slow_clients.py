"""Slow clients: one that does not read costs bounded memory, delays no other, and catches up when it reads."""

from __future__ import annotations

import asyncio
from itertools import pairwise

from dragoman.adapters.base import CloseReason
from dragoman.gateway.overload.fair_queue import QUANTUM, STEP
from dragoman.gateway.recording.session_recorder import SessionRecorder
from dragoman.mappings.canonical import OpenTurn
from dragoman.mappings.canonical.events import (
    ModelTurnStarted,
    Preamble,
    TextDelta,
    ToolCallArguments,
    ToolCallFinished,
)
from dragoman.mappings.canonical.state import CallBlock
from tests.gateway.recording.recorded_session import RecorderHarness
from tests.gateway.session.delivery_stage import TURN, DeliveryStage, shown, stage, text
from tests.idle import run_turns, settle


async def test_a_stalled_client_holds_bounded_frames_and_disturbs_nobody() -> None:
    async with stage(soft=10_000) as made:
        slow, stalled = made.join("slow", reads=False)
        _, fast = made.join("fast")
        made.begin()
        expected = ""
        for number in range(5_000):
            made.play(TextDelta(text=f"{number} "))
            expected += f"{number} "
            if number % 50 == 0:
                await settle()
                assert slow.outbox.size < 40_000
        made.end(expected)
        await settle()
        assert text(fast, TURN) == expected
        assert len([f for f in shown(fast) if f["type"] == "stream_token"]) == 5_000
        stalled.reading.set()
        while not any(f["type"] == "eventual_response" for f in shown(stalled)):
            await settle()
        assert text(stalled, TURN) == expected
        assert shown(stalled)[-1]["type"] == "eventual_response"
        assert made.services.ledger.counters["events_merged"] > 1_000
        assert made.delivery.attachments["slow"].behind is None, "it has caught up and shares the rendering again"


async def test_a_client_that_was_behind_at_the_start_of_its_turn_gets_it_under_its_request_id() -> None:
    async with stage(soft=1_000) as made:
        _, stalled = made.join("slow", reads=False)
        made.begin()
        for _ in range(100):
            made.play(TextDelta(text="x"))
            await settle()
        made.end("x" * 100)
        second = "5f0c4b1e-0000-4000-8000-00000000000b"
        made.begin("slow", "r2", turn=second)
        made.play(TextDelta(text="mine"), turn=second)
        made.end("mine", turn=second)
        stalled.reading.set()
        while len([f for f in shown(stalled) if f["type"] == "eventual_response"]) < 2:
            await settle()
        assert text(stalled, TURN) == "x" * 100
        assert text(stalled, "r2") == "mine"
        assert [f["type"] for f in shown(stalled) if f["requestId"] == "r2"] == [
            "immediate_response",
            "stream_token",
            "eventual_response",
        ]


async def test_the_frames_that_a_client_missed_are_recorded_in_their_session_and_nothing_else_is() -> None:
    recording = RecorderHarness()
    acting: list[SessionRecorder] = []
    async with stage(soft=1_000, recorder=recording.recorder) as made:
        link, stalled = made.join("slow", reads=False)
        made.begin()
        await made.fill_outbox(link)
        made.play(TextDelta(text="missed"))
        recording.call.on_acting = acting.append
        await stalled.reads_on()
        assert "missed" in text(stalled, TURN)
        assert (acting, recording.call.session) == ([recording.recorder], None)


async def test_a_client_whose_missed_events_were_dropped_for_memory_is_disconnected_once_it_reads() -> None:
    async with stage(soft=1_000) as made:
        _, stalled = made.join("slow", reads=False)
        made.begin()
        for number in range(200):
            made.play(Preamble(text=f"{number} "))
            await settle()
        made.log.drop_half()
        assert stalled.is_open()
        stalled.reading.set()
        while stalled.closed is None:
            await settle()
        assert stalled.closed.name == "TOO_SLOW"


async def test_a_client_that_reads_nothing_at_all_is_disconnected_when_the_log_drops_what_it_has_not_got() -> None:
    async with stage(soft=1_000, log_bytes=200) as made:
        _, stalled = made.join("slow", reads=False)
        _, fast = made.join("fast")
        made.begin()
        for number in range(1_000):
            made.play(TextDelta(text=f"{number} "))
            if number % 20 == 0:
                await settle()
        assert stalled.closed is not None
        assert stalled.closed.name == "TOO_SLOW"
        assert (
            stalled.close_text == "read too slowly: text that it had not received was dropped (`log_bytes`, `log_max`)"
        )
        made.end("".join(f"{n} " for n in range(1_000)))
        await settle()
        assert shown(fast)[-1]["type"] == "eventual_response"


async def test_a_client_that_is_behind_when_its_session_ends_is_disconnected() -> None:
    async with stage(soft=1_000) as made:
        link, stalled = made.join("slow", reads=False)
        other, _ = made.join("fast")
        made.begin()
        await made.fill_outbox(link)
        made.play(TextDelta(text="x"))
        for one in (link, other):
            made.delivery.detach_ended(one)
        assert other.alive
        await stalled.reads_on()
        assert stalled.closed is CloseReason.TOO_SLOW


async def test_a_client_that_reads_one_frame_at_a_time_gets_the_whole_text_of_20000_tokens() -> None:
    async with stage(soft=1_000) as made:
        _, slow = made.join("slow")
        slow.reading.clear()
        made.begin()
        for number in range(200):
            made.play(*(TextDelta(text=f"{number} ") for _ in range(100)))
            if number % 10 == 0:
                slow.reading.set()
                await asyncio.sleep(0)
                slow.reading.clear()
        whole = "".join(f"{number} " * 100 for number in range(200))
        made.end(whole)
        await slow.reads_on()
        assert text(slow, TURN) == whole
        assert slow.closed is None


async def test_with_overflow_disconnect_a_slow_client_is_disconnected_at_once() -> None:
    async with stage(soft=1_000, coalesce=False) as made:
        _, stalled = made.join("slow", reads=False)
        made.begin()
        for _ in range(200):
            made.play(TextDelta(text="x"))
            await settle()
        while stalled.closed is None:
            await settle()
        assert stalled.closed.name == "TOO_SLOW"
        assert (
            stalled.close_text
            == "does not read fast enough: more than `outbox_soft` waits, and `overflow` is disconnect"
        )


async def test_a_slow_client_gets_the_turn_end_after_many_events_hidden_from_it() -> None:
    async with stage(soft=1_000) as made:
        slow, stalled = made.join("slow", reads=False)
        made.begin()
        await made.fill_outbox(slow)
        for _ in range(500):  # several slices of the log that smooth has no frame for
            made.play(ToolCallArguments(call="c", name="grep", json="1"))
        made.end("x")
        await stalled.reads_on()
        assert shown(stalled)[-1]["type"] == "eventual_response"
        assert made.delivery.attachments["slow"].behind is None


async def test_an_innocent_client_is_served_between_two_slices_of_a_client_that_catches_up() -> None:
    async with stage(soft=1_000) as made:
        slow, stalled = made.join("slow", reads=False)
        _, innocent = made.join("innocent")
        made.begin()
        await made.fill_outbox(slow)
        for _ in range(6_000):
            made.play(ToolCallArguments(call="c", name="grep", json="1"))
            made.play(ToolCallArguments(call="d", name="grep", json="1"))
        stalled.reading.set()
        while made.seen.count("slice of slow") < 3:
            await run_turns(1)
        await innocent.says(b'{"action":"ping","requestId":"p"}')
        heard = made.seen.index("innocent")
        assert heard <= 3 + 2 * STEP // QUANTUM
        assert len(made.seen) > heard + 100
        assert made.delivery.attachments["slow"].behind is None


CALLS = 2_000


def hold_long_turn(made: DeliveryStage) -> list[str]:
    """Let the session have an open turn of many calls; return the names of their tools."""
    names = [f"tool{number}" for number in range(CALLS)]
    blocks = [CallBlock(call=name, name=name, arguments="{}") for name in names]
    made.state.turn = OpenTurn(id=TURN, message="", blocks=[*blocks])
    made.log.turn_weight = 100 * CALLS
    return names


async def test_a_client_that_joins_a_long_turn_is_shown_it_in_slices_and_then_what_came_meanwhile() -> None:
    async with stage() as made:
        names = hold_long_turn(made)
        link, late = made.join("late")
        made.play(TextDelta(text="live"))
        got = [0]
        while made.delivery.attachments["late"].behind is not None:
            await run_turns(1)
            got.append(len(late.got))
        assert max(after - before for before, after in pairwise(got)) < CALLS // 4
        called = [frame["node"] for frame in shown(late) if frame["type"] == "stream_chunk"]
        assert (called, text(late, TURN)) == (names, "live")
        assert link.meter.size == 0


async def test_the_rest_of_a_long_turn_counts_as_memory_of_the_client_that_joins_and_does_not_read() -> None:
    async with stage() as made:
        hold_long_turn(made)
        link, _ = made.join("late", reads=False)
        await settle()
        assert link.meter.size >= 100 * CALLS
        made.delivery.detach(link)
        assert link.meter.size == link.outbox.size
        assert not link.behind


async def test_a_client_that_was_behind_at_the_end_of_its_turn_sees_later_turns_under_their_ids() -> None:
    async with stage(soft=1_000) as made:
        slow, stalled = made.join("slow", reads=False)
        made.begin("slow", "r1")
        await made.fill_outbox(slow)
        made.end("x")
        second = "5f0c4b1e-0000-4000-8000-00000000000b"
        made.begin(turn=second)
        made.play(TextDelta(text="not mine"), turn=second)
        await stalled.reads_on()
        made.play(TextDelta(text=", live"), turn=second)
        made.end("not mine, live", turn=second)
        await settle()
        assert text(stalled, second) == "not mine, live"
        assert "not mine" not in text(stalled, "r1")
        assert [f["requestId"] for f in shown(stalled) if f["type"] == "eventual_response"] == ["r1", second]


async def test_a_client_that_is_behind_gets_the_202_of_an_input_accepted_during_a_turn() -> None:
    async with stage(soft=1_000) as made:
        slow, stalled = made.join("slow", reads=False)
        made.play(TextDelta(text="early"))
        await made.fill_outbox(slow)
        made.play(TextDelta(text="before"))
        made.begin("slow", "r1")
        made.play(TextDelta(text="after"))
        made.end("all")
        await stalled.reads_on()
        assert [f["type"] for f in shown(stalled) if f["requestId"] == "r1"] == [
            "immediate_response",
            "stream_token",
            "eventual_response",
        ]
        assert text(stalled, TURN).endswith("before")


async def test_losses_of_a_client_that_is_behind_are_counted_when_it_catches_up() -> None:
    async with stage(soft=1) as made:
        slow, stalled = made.join("slow", reads=False)
        made.begin()
        made.play(TextDelta(text="a" * 1000))
        await settle()
        made.play(TextDelta(text="b" * 1000))
        made.play(ModelTurnStarted(index=0))
        made.end("a", end="limit_reached")
        assert (made.ledger.partial(), made.ledger.entries()) == ([], [])
        stalled.reading.set()
        while slow.outbox.full or made.delivery.attachments["slow"].behind is not None:
            await settle()
        assert [(entry.kind, entry.count) for entry in made.ledger.partial()] == [("TurnEnded", 1)]
        rows = [(entry.source, entry.target, entry.kind) for entry in made.ledger.entries()]
        assert rows == [("pod", "smooth", "ModelTurnStarted")]


async def test_fields_that_a_client_does_not_get_are_counted_also_in_slices_without_frames() -> None:
    async with stage(soft=1) as made:
        slow, stalled = made.join("slow", reads=False, dialect="codewhale")
        for turn in ("first", "second", "third"):
            made.begin("slow", "1", turn=turn)
            for number in range(100):
                made.play(ToolCallFinished(call=f"c{number}", summary="one"), turn=turn)
            made.end("a", turn=turn)
            await settle()
        stalled.reading.set()
        while slow.outbox.full or made.delivery.attachments["slow"].behind is not None:
            await settle()
        assert {entry.kind: entry.count for entry in made.ledger.partial()}["ToolCallFinished"] == 300


async def test_a_client_that_leaves_the_session_while_it_catches_up_is_shown_no_more_of_it() -> None:
    async with stage(soft=1_000) as made:
        link, _ = made.join("slow", reads=False)
        made.begin()
        await made.fill_outbox(link)
        for number in range(200):
            made.play(TextDelta(text=f"{number} "))
        link.outbox.clear()
        slices = made.delivery.catch_up(link)
        next(slices)
        assert not link.outbox.empty
        link.outbox.clear()
        made.delivery.detach(link)
        assert list(slices) == []
        assert link.outbox.empty
