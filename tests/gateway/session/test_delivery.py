"""Delivery: all clients see the same events, each in its own view and under its own request ids."""

from __future__ import annotations

import pytest

from dragoman.gateway.overload.fair_queue import DELIVER
from dragoman.gateway.overload.fair_queue import TURN as TURN_WORK
from dragoman.mappings.canonical.events import (
    ApprovalRequested,
    ModelTurnStarted,
    TextDelta,
    ToolCallStarted,
)
from tests.gateway.session.delivery_stage import TURN, shown, stage
from tests.idle import settle


async def test_the_link_that_began_a_turn_sees_its_own_request_id_and_the_others_the_turns() -> None:
    async with stage() as made:
        _, mine = made.join("mine")
        _, other = made.join("other")
        made.begin("mine", "r1")
        made.play(TextDelta(text="a"))
        made.end("a")
        await settle()
        assert [f["type"] for f in shown(mine)] == ["immediate_response", "stream_token", "eventual_response"]
        assert {f["requestId"] for f in shown(mine)} == {"r1"}
        assert [f["type"] for f in shown(other)] == ["stream_token", "eventual_response"]
        assert {f["requestId"] for f in shown(other)} == {TURN}


async def test_the_start_and_the_end_of_a_turn_count_as_work_of_the_step() -> None:
    async with stage() as made:
        budget = made.services.queue.budget
        before = budget.left
        made.begin()
        begun = budget.left
        made.play(TextDelta(text="a"))
        streamed = budget.left
        made.end("a")
        assert (before - begun, begun - streamed, streamed - budget.left) == (TURN_WORK, 0, TURN_WORK)


async def test_each_event_that_is_no_text_counts_as_work_of_the_step() -> None:
    async with stage() as made:
        budget = made.services.queue.budget
        made.begin()
        before = budget.left
        made.play(*(ToolCallStarted(call=f"c{number}", name="t") for number in range(3)))
        assert before - budget.left == 3 * DELIVER


async def test_each_question_of_a_backend_counts_as_work_of_the_step_and_of_the_backend() -> None:
    async with stage() as made:
        budget = made.services.queue.budget
        made.begin()
        before, unassigned = budget.left, budget.unassigned
        made.play(ApprovalRequested(question="q", tool="t", description="d"))
        assert (before - budget.left, budget.unassigned) == (TURN_WORK, unassigned)


@pytest.mark.parametrize(("source", "counted"), [("pod", {"TurnEnded": 2}), ("smooth", {})])
async def test_fields_that_are_lost_in_rendering_are_counted_once_per_rendering(
    source: str, counted: dict[str, int]
) -> None:
    """Every lossy translation counts (docs/design.md, section 6); a message loses nothing in its own dialect."""
    async with stage(source=source) as made:
        for name in ("one", "other"):  # who see the same, and so share a rendering
            made.join(name)
        for turn in ("t1", "t2"):
            made.begin(turn=turn)
            made.play(TextDelta(text="a"), turn=turn)
            made.end("a", turn=turn, end="limit_reached")
        await settle()
        assert {entry.kind: entry.count for entry in made.ledger.partial()} == counted
        assert {(entry.source, entry.target) for entry in made.ledger.partial()} <= {("pod", "smooth")}


async def test_events_that_a_dialect_does_not_have_are_counted_with_both_dialects() -> None:
    async with stage(source="pod") as made:
        made.join("one")
        made.begin()
        made.play(ModelTurnStarted(index=0))
        await settle()
        rows = [(entry.source, entry.target, entry.kind) for entry in made.ledger.entries()]
        assert rows == [("pod", "smooth", "ModelTurnStarted")]
