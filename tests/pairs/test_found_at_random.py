"""Faults that random sessions found, each as an ordinary conversation."""

from __future__ import annotations

import json
from itertools import count

from dragoman.gateway.config.model import Limits
from dragoman.gateway.session.normal_form import NormalForm
from dragoman.gateway.session.turn_states import TurnState
from dragoman.mappings.canonical import Event, SessionState
from dragoman.mappings.canonical.commands import SubmitInput
from dragoman.mappings.canonical.events import (
    ErrorReported,
    ModelTurnEnded,
    ModelTurnStarted,
    Reply,
    TextDelta,
    TurnEnded,
)
from dragoman.mappings.canonical.values import Message, Origin, Text
from dragoman.mappings.pod import DIALECT as POD
from tests.gateway.in_memory import NEVER, InMemoryGateway, Script, in_memory_gateway
from tests.gateway.pod_messages import delta, echo, problem, run, run_end, say, snapshot, status, took
from tests.gateway.smooth_client_messages import CREATE, error, opened, send
from tests.idle import settle

FAR = Limits(backoff_first=NEVER, backoff_max=NEVER)  # nobody connects again by himself
CALL = {"kind": "tool_call", "call_id": "c", "name": "lookup", "arguments": "{}"}
CALLED = {"kind": "assistant_item", "item": CALL, "ts": 1}


async def with_a_pod_client(made: InMemoryGateway) -> Script:
    """Connect a smooth client `a` and a pod client `p` to an idle pod."""
    await made.opens("a")
    made.join("p", dialect="pod")
    await settle()
    await made.script().receives("p", {"event": "snapshot"})
    return made.script()


def form(state: SessionState) -> NormalForm:
    """Return the normal form of a smooth server's frames."""
    numbers = count(1)
    return NormalForm(state, lambda: f"id {next(numbers)}", sends_model_turns=False)


def fed(normal: NormalForm, *events: Event) -> list[Event]:
    return [event for run in normal.feed(events, 1) for event in run.events]


# -- runs of which nothing was heard -----------------------------------------------------------------


async def test_a_run_without_output_ends_for_pod_clients_when_the_pod_is_lost() -> None:
    async with in_memory_gateway(limits=FAR) as made:
        script = await with_a_pod_client(made)
        await (
            script.pod_sends(status("running"))
            .receives("p", status("running"))
            .pod_dies()
            .passes(FAR.reconnect_grace)
            .receives("p", {"event": "error"}, status("idle"))
            .receives("a", {"type": "error", "requestId": None})
        )


async def test_a_paused_pod_that_comes_back_idle_is_idle_for_its_clients() -> None:
    async with in_memory_gateway() as made:
        script = await with_a_pod_client(made)
        await (
            script.pod_sends(status("running"), run_end("paused"), status("paused"))
            .receives("p", status("running"), run_end("paused"), status("paused"))
            .pod_dies()
            .pod_sends(snapshot())
            .receives("p", {"event": "segment_rotated"}, status("idle"))
        )


# -- what a pod went on with while nobody listened ---------------------------------------------------


async def test_a_result_has_the_name_of_its_call_in_the_history() -> None:
    async with in_memory_gateway() as made:
        await (
            made.connects("a")
            .sends("a", CREATE)
            .pod_sends(snapshot(CALLED, status="paused"))
            .receives("a", opened("open"))
            .pod_sends(status("running"), say("tool_result", id="c", summary="s", is_error=False))
            .receives("a", {"type": "stream_chunk", "node": "lookup"})
        )


async def test_a_call_received_from_its_middle_has_its_name_and_all_of_its_arguments() -> None:
    async with in_memory_gateway() as made:
        script = await with_a_pod_client(made)
        whole = say("tool_call_done", id="c", name="lookup", arguments='{"a":1}')
        await (
            script.pod_dies()
            .pod_sends(snapshot(status="running"))
            .receives("p", {"event": "segment_rotated"}, status("running"))
            .pod_sends(say("tool_call_args_delta", id="c", json="1}"), whole)
            .receives("p", say("tool_call_start", id="c", name="lookup"), whole)
            .receives("a", {"type": "stream_chunk", "node": "lookup"})
            .sees("the fragment was counted", lambda: made.losses("ToolCallArguments") == 1)
        )


# -- smooth servers ----------------------------------------------------------------------------------


def test_events_of_a_smooth_server_count_again_after_a_late_end() -> None:
    state = SessionState(id="s")
    normal = form(state)
    normal.accept(Origin(link="a", request="r"), Message(role="user", text="Hi"), 1)
    normal.cut("cancelled", None, 1, discard=True)
    assert fed(normal, TextDelta(text="late"), TurnEnded(end="cancelled")) == []
    assert normal.states.turn is TurnState.NONE
    assert TextDelta(text="new") in fed(normal, TextDelta(text="new"))


def test_the_model_turns_of_a_smooth_server_are_numbered_over_the_session() -> None:
    normal = form(SessionState(id="s"))
    told = [event for text in "ab" for event in fed(normal, TextDelta(text=text), TurnEnded(end="completed"))]
    assert [e.index for e in told if isinstance(e, ModelTurnStarted)] == [0, 1]
    assert [e.index for e in told if isinstance(e, ModelTurnEnded)] == [0, 1]


# -- inputs that the pod took late --------------------------------------------------------------------


def test_an_input_refused_during_its_run_does_not_refuse_the_waiting_one() -> None:
    link = POD.client(lambda: 0, lambda: "id", lambda: 0)
    link.send([SubmitInput(request=name, segments=(Text(text=name),)) for name in ("one", "two")])
    lines = (echo("one"), status("running"), problem("invalid_request", "no such workflow"))
    step = link.receive([json.dumps(line).encode() for line in lines])
    events = [event for burst in step.bursts for event in burst.items]
    assert not [event for event in events if isinstance(event, Reply)]
    assert [event.text for event in events if isinstance(event, ErrorReported)] == ["no such workflow"]


async def test_an_input_given_up_and_then_accepted_is_in_the_transcript() -> None:
    async with in_memory_gateway() as made:
        await (
            made.opens("a")
            .sends("a", send("r1", "Hi"))
            .pod_receives(run("Hi"))
            .passes(31)
            .receives("a", error("r1", "INTERNAL_ERROR"))
            .pod_sends(*took("Hi"), delta("x"))
            .receives("a", {"type": "stream_token"})
        )
        assert [message.text for message in made.session.state.messages()] == ["Hi"]
