"""A smooth server that lost a conversation: every client of its session is told (docs/translation.md, section
4.11).

The server restarts: it does not know the session, and begins another conversation when it is asked to go on with it.
"""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.mappings.canonical.values import Message
from tests.gateway.in_memory import InMemoryGateway, Script, in_memory_gateway
from tests.gateway.pod_messages import delta, done, echo, run_end, say, status
from tests.gateway.smooth_client_messages import AGENT, accepted, answer, reply, token
from tests.gateway.smooth_server_messages import (
    CONVERSATION,
    CREATED,
    SERVER_SESSION,
    acknowledged,
    answered,
    looked_up,
    page,
    problem,
    read_newest,
    said,
    taken,
    told,
)

Frame = dict[str, Any]

ELSE = "0198c3a1-0000-4000-8000-0000000000c1"
FRESH = CREATED | {"sessionId": ELSE, "conversationId": "0198c3a1-0000-4000-8000-0000000000c2"}
GONE = "the backend has forgotten the conversation: it knows nothing of what was said before"
LINE = f"[{GONE}]\n\n"
OPEN: Frame = {"action": "create_conversation_session", "requestId": "open", "agentId": AGENT}


def send(request: str, text: str) -> Frame:
    """Send an input as the smooth client, with the session id that it first received."""
    return {"action": "send_message", "requestId": request, "sessionId": SERVER_SESSION, "message": text}


def together(made: InMemoryGateway) -> Script:
    """Connect a smooth client `a`, a pod client `p` and a pando's subscribers `v`, and run one turn."""
    return (
        made.script()
        .asks_server("p", "Hi")
        .server_sends(taken("$t"), said("$t", "Yes"), answered("$t", "Yes"))
        .receives("p", echo("Hi"), status("running"), say("turn_start"), delta("Yes"), done("Yes"), *ENDED)
        .connects("a")
        .sends("a", OPEN | {"conversationId": CONVERSATION})
        .receives("a", {"type": "immediate_response", "status": 200})
        .connects("v", dialect="pando")
        .receives("v", topic("session.update"))
    )


ENDED = (say("turn_end"), run_end("finished"), status("idle"))


def topic(name: str, **payload: Any) -> Frame:
    """Return a publication."""
    return {"topic": name, "payload": payload}


def restarted(script: Script) -> Script:
    """Restart the server, which then begins another conversation."""
    return (
        script.server_dies()
        .server_receives(looked_up())
        .server_sends(problem("$get", "SESSION_NOT_FOUND"))
        .server_receives({"requestId": "$again", "conversationId": CONVERSATION})
        .server_sends(acknowledged("$again", **FRESH))
        .server_receives(read_newest(session=ELSE))
        .server_sends(page())
    )


def forgotten(script: Script) -> Script:
    """Restart the server of a conversation with messages; only a pod has a form to tell that at once."""
    return restarted(script).receives("p", say("alert", level="warn", message=GONE)).receives("a").receives("v")


def again(request: str, text: str) -> Frame:
    """Return an input to the server in its new session."""
    return told(request, text) | {"sessionId": ELSE}


async def test_a_conversation_without_a_message_had_no_context_to_lose() -> None:
    """The server in Rust stores a conversation with its first message."""
    async with in_memory_gateway(upstream="smooth") as made:
        opened = (
            made.script()
            .connects("a")
            .sends("a", OPEN)
            .server_receives({"action": "create_conversation_session", "requestId": "$open"})
            .server_sends(acknowledged("$open", **CREATED))
            .receives("a", {"type": "immediate_response", "status": 200})
        )
        await (
            restarted(opened)
            .sends("a", send("r1", "Hi"))
            .server_receives(again("$n", "Hi"))
            .server_sends(taken("$n"), said("$n", "Yes"), answered("$n", "Yes"))
            .receives("a", accepted("r1"), token("r1", "Yes"), answer("r1", "Yes"))
            .done()
        )
        assert made.gaps == 0


@pytest.mark.parametrize(
    "resuming",
    [
        OPEN | {"conversationId": CONVERSATION},
        {"action": "get_session", "requestId": "open", "sessionId": SERVER_SESSION},
    ],
)
async def test_a_resumed_conversation_has_context_that_the_gateway_never_saw(resuming: Frame) -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        resumed = (
            made.script()
            .connects("a")
            .sends("a", resuming)
            .server_receives({"action": resuming["action"], "requestId": "$open"})
            .server_sends(acknowledged("$open", **CREATED))
            .server_receives({"action": "get_conversation_messages", "requestId": "$history"})
            .server_sends(problem("$history", "STORAGE_ERROR"))
            .receives("a", {"type": "immediate_response", "status": 200})
        )
        await restarted(resumed).done()
        assert made.gaps == 1


async def test_clients_without_a_form_for_lost_context_are_told_once_before_the_first_answer() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await (
            forgotten(together(made))
            .sends("a", send("r1", "And now?"))
            .server_receives(again("$n", "And now?"))
            .server_sends(taken("$n"), said("$n", "Well"), said("$n", "."), answered("$n", "Well."))
            .receives(
                "a", accepted("r1"), token("r1", LINE), token("r1", "Well"), token("r1", "."), answer("r1", "Well.")
            )
            .receives(
                "v",
                topic("message.append", content="And now?"),
                topic("llm.start"),
                topic("llm.token", token=LINE),
                topic("llm.token", token="Well"),
                topic("llm.token", token="."),
                topic("llm.end"),
                topic("session.update"),
            )
            .receives(
                "p",
                echo("And now?"),
                status("running"),
                say("turn_start"),
                delta("Well"),
                delta("."),
                done("Well."),
                *ENDED,
            )
            .sends("a", send("r2", "Sure?"))
            .server_receives(again("$m", "Sure?"))
            .server_sends(taken("$m"), said("$m", "Yes"), answered("$m", "Yes"))
            .receives("a", accepted("r2"), token("r2", "Yes"), answer("r2", "Yes"))
            .ignores("v", "p")
            .done()
        )
        state = made.session.state
        texts = [item.text for item in state.transcript if isinstance(item, Message)]
        assert texts == ["Hi", "Yes", "And now?", "Well.", "Sure?", "Yes"], "the line is no part of the conversation"
        assert state.epoch == 2
        assert made.gaps == 1


async def test_the_history_of_a_lost_conversation_is_what_the_gateway_saw_and_a_list_counts_its_messages() -> None:
    history = {"action": "get_conversation_messages", "requestId": "h", "sessionId": SERVER_SESSION}
    async with in_memory_gateway(upstream="smooth") as made:
        await (
            forgotten(together(made))
            .sends("a", send("r1", "And now?"))
            .server_receives(again("$n", "And now?"))
            .server_sends(taken("$n"), said("$n", "Well."), answered("$n", "Well."))
            .ignores("a", "v", "p")
            .sends("a", history)
            .server_receives()
            .receives("a", reply("h", messages=[page_row(text) for text in ("Well.", "And now?", "Yes", "Hi")]))
            .done()
        )
        assert made.session.summary().messages == 4


def page_row(text: str) -> Frame:
    """Return a message on a page of the history."""
    return {"content": {"text": text}}


async def test_an_answer_only_in_its_terminal_comes_after_the_line_about_lost_context() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await (
            forgotten(together(made))
            .sends("a", send("r1", "And now?"))
            .server_receives(again("$n", "And now?"))
            .server_sends(taken("$n"), answered("$n", "Well."))
            .receives("a", accepted("r1"), token("r1", LINE), token("r1", "Well."), answer("r1", "Well."))
            .ignores("v", "p")
            .done()
        )
