"""A pod's parent waits for `turn_end`: the events at the end of a run, in front of each backend.

docs/dialects/pod.md, section 7: `usage` precedes `turn_end`, which stands right before `run_end{finished}`.
"""

from __future__ import annotations

from typing import Any

from tests.gateway.backends.in_memory_pando import InMemoryPandoGateway, frames, in_memory_pando_gateway, row
from tests.gateway.codewhale_messages import answers, editor_with_thread, line, refuses, shown
from tests.gateway.in_memory import InMemoryGateway, InMemoryPeer, in_memory_gateway
from tests.gateway.pod_messages import run, say, snapshot
from tests.gateway.smooth_server_messages import answered, said, taken
from tests.idle import settle
from tests.oracle import PodOracle

Frame = dict[str, Any]

ID = "0b0e9b0e-0000-4000-8000-000000000001"
THREAD = f"thread-{ID}"
ENDED = ["turn_end", "run_end", "status"]


def names(told: list[Frame]) -> list[str]:
    return [frame["event"] for frame in told]


async def published(made: InMemoryPandoGateway, *said: tuple[str, Frame]) -> list[Frame]:
    """Return the events of a pod client when a primary publishes these messages and lists the answer `Hi`."""
    pod = made.join("pod")
    await made.opens([], row(ID))
    for number, (topic, payload) in enumerate(said):
        await made.publishes(topic, session_id=ID, **payload)
        if number == 0:  # the primary is asked who began the run
            await made.answers("message.list", [])
    await made.answers("message.list", [{"id": "m1", "role": "assistant", "content": "Hi", "created_at": ""}])
    oracle = PodOracle()
    for frame in frames(pod):
        oracle.got(frame)
    return frames(pod)


END = ("llm.end", {"tokens_in": 7, "tokens_out": 3})


async def test_the_model_turn_of_a_pando_backend_ends_before_its_run() -> None:
    async with in_memory_pando_gateway() as made:
        seen = names(await published(made, ("llm.start", {}), ("llm.token", {"token": "Hi"}), END))
        assert seen[-6:] == ["text_delta", "usage", "text_done", *ENDED]


async def test_a_pando_tool_call_without_a_start_gets_one_for_every_client() -> None:
    call = {"tool_name": "ls", "call_id": "c1", "result": "a b", "is_error": False}
    async with in_memory_pando_gateway() as made:
        seen = await published(made, ("tool.end", call), ("llm.token", {"token": "Hi"}), END)
        begun = next(frame for frame in seen if frame["event"] == "tool_call_start")
        assert begun["data"] == {"id": "c1", "name": "ls"}
        calls = [name for name in names(seen) if name.startswith("tool_")]
        assert calls == ["tool_call_start", "tool_call_done", "tool_result"]
        assert names(seen)[-3:] == ENDED


async def pod_with_run(made: InMemoryGateway) -> InMemoryPeer:
    """Return a pod client whose first input has started a thread of the codewhale behind it."""
    pod = made.join("p", dialect="pod")
    await settle()
    pod.sends(run("Hi"))
    await answers(made, "thread/start", **shown(THREAD, "started"))
    return pod


async def test_the_model_turn_of_a_codewhale_backend_ends_before_its_run() -> None:
    async with in_memory_gateway(upstream="codewhale") as made:
        pod = await pod_with_run(made)
        await settle()
        made.pod.sends({"type": "response_start", "response_id": "r"})
        made.pod.sends({"type": "response_delta", "response_id": "r", "delta": "Hello"})
        made.pod.sends({"type": "response_end", "response_id": "r"})
        await answers(made, "thread/message", thread_id=THREAD, status="accepted", data={"turn_id": "t"})
        assert names(pod.frames())[-5:] == ["text_delta", "text_done", *ENDED]


async def test_a_codewhale_turn_that_fails_ends_its_run_without_an_end_of_its_model_turn() -> None:
    async with in_memory_gateway(upstream="codewhale") as made:
        pod = await pod_with_run(made)
        await settle()
        made.pod.sends({"type": "response_start", "response_id": "r"})
        asked = [frame for frame in made.pod.frames() if frame["method"] == "thread/message"][-1]
        problem = {"code": -32603, "message": "no model", "data": None}
        await made.pod.says({"jsonrpc": "2.0", "id": asked["id"], "error": problem})
        assert names(pod.frames())[-3:] == ["turn_start", "error", "status"]


REFUSED = "runtime API returned 400 Bad Request: the model takes no images"


async def test_a_turn_that_a_codewhale_refuses_has_no_response_for_a_codewhale_client() -> None:
    """A real codewhale writes `response_start` once it takes a turn (docs/dialects/codewhale.md, section 3)."""
    async with in_memory_gateway(upstream="codewhale") as made:
        editor = await editor_with_thread(made, THREAD)
        editor.sends(line(2, "thread/message", thread_id=THREAD, input="Hi"))
        await refuses(made, "thread/message", -32603, REFUSED)
        error = {"code": -32603, "message": REFUSED, "data": None}
        assert editor.news() == [{"jsonrpc": "2.0", "id": 2, "error": error}]


async def test_a_turn_that_a_codewhale_refuses_begins_for_a_pod_client() -> None:
    async with in_memory_gateway(upstream="codewhale") as made:
        pod = await pod_with_run(made)
        await refuses(made, "thread/message", -32603, REFUSED)
        assert names(pod.frames())[-3:] == ["turn_start", "error", "status"]


async def test_an_input_that_a_codewhale_refuses_in_a_turn_of_another_program_leaves_the_history() -> None:
    """The thread does not store it, so a client that joins later must not be shown it."""
    async with in_memory_gateway(upstream="codewhale") as made:
        await pod_with_run(made)
        await refuses(made, "thread/message", -32603, "a turn is already in progress in this thread")
        assert made.session.state.transcript == []


async def test_a_turn_without_a_response_begins_and_ends_for_a_pod_client() -> None:
    """A parent pod waits for `turn_start` after its input (docs/dialects/pod.md, section 11)."""
    async with in_memory_gateway(upstream="codewhale") as made:
        pod = await pod_with_run(made)
        await settle()
        await answers(made, "thread/message", thread_id=THREAD, status="accepted", data={"turn_id": "t"})
        assert names(pod.frames())[-4:] == ["turn_start", *ENDED]


async def test_usage_in_the_terminal_of_a_smooth_server_comes_before_the_end_of_the_model_turn() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        terminal = answered("$t", "Hello")
        terminal["data"]["data"]["usage"] = {"costUsd": 0.5, "promptTokens": 3, "completionTokens": 4}
        await (
            made.asks_server("p", "Hi")
            .server_sends(taken("$t"), said("$t", "Hello"), terminal)
            .receives(
                "p",
                say("user_message"),
                say("status"),
                say("turn_start"),
                say("text_delta"),
                say("text_done"),
                say("usage", input_tokens=3, output_tokens=4),
                *map(say, ENDED),
            )
        )


async def test_a_pod_run_without_the_end_of_its_model_turn_gets_one() -> None:
    async with in_memory_gateway() as made:
        run_of_a_pod = (say("status", status="running"), say("turn_start", turn=4))
        end = (say("run_end", result="finished"), say("status", status="idle"))
        await (
            made.connects("p", dialect="pod")
            .pod_sends(snapshot())
            .receives("p", say("snapshot"))
            .pod_sends(*run_of_a_pod, *end)
            .receives("p", *run_of_a_pod, say("turn_end", turn=4, result="finished"), *end)
        )


async def test_a_run_that_a_limit_ends_has_no_end_of_its_model_turn() -> None:
    async with in_memory_gateway() as made:
        cut = (
            say("status", status="running"),
            say("turn_start", turn=0),
            say("run_end", result="limit_reached"),
            say("status", status="idle"),
        )
        script = made.connects("p", dialect="pod").pod_sends(snapshot()).receives("p", say("snapshot"))
        await script.pod_sends(*cut).receives("p", *cut)
