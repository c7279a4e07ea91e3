"""A turn that a lost connection to a smooth server left behind (docs/translation.md, rule 3.15).

The server in Rust goes on with such a turn, and takes no further input of its conversation until the turn ends. It ends
the turn at a `cancel` that names the session. The servers whose turns end with their socket ignore that cancel.
"""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.mappings.canonical.values import Message
from tests.gateway.codewhale_messages import answers, editor_with_thread, line
from tests.gateway.in_memory import InMemoryGateway, Script, in_memory_gateway
from tests.gateway.pod_messages import CANCEL, delta, done, echo, problem, run, run_end, say, status
from tests.gateway.smooth_client_messages import CREATE, answer, ask, error, reply, token
from tests.gateway.smooth_server_messages import (
    CONVERSATION,
    CREATED,
    SERVER_SESSION,
    acknowledged,
    answered,
    confirmed,
    create,
    looked_up,
    page,
    read_newest,
    said,
    stopped,
    taken,
    told,
)
from tests.gateway.smooth_server_messages import problem as server_problem

Frame = dict[str, Any]

THREAD = "thread-0198c3a1-0000-4000-8000-0000000000d1"

LOST = "the connection to the backend was lost"
FAILED = (problem("internal", LOST), status("idle"))
GET = looked_up()
FOUND = acknowledged("$get", **CREATED)
CANCELLED_TURN: Frame = {"action": "cancel", "requestId": "$t", "sessionId": SERVER_SESSION}


def abandoned(made: InMemoryGateway) -> Script:
    """Return a client `p` whose turn "$t" has streamed `Hel` when the connection to the server is lost."""
    return (
        made.asks_server("p", "Hi")
        .server_sends(taken("$t"), said("$t", "Hel"))
        .receives("p", echo("Hi"), status("running"), say("turn_start"), delta("Hel"))
        .server_dies()
        .receives("p", done("Hel"), *FAILED)
    )


def answers_again(script: Script) -> Script:
    """Let the client send an input, which the server accepts and answers."""
    return (
        script.sends("p", run("And?"))
        .server_receives(told("$n", "And?"))
        .server_sends(taken("$n"), said("$n", "Yes"), answered("$n", "Yes"))
        .receives("p", echo("And?"), status("running"), say("turn_start"), delta("Yes"), done("Yes"), *ENDED)
    )


ENDED = (say("turn_end"), run_end("finished"), status("idle"))


async def test_the_abandoned_turn_is_cancelled_over_the_next_connection() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        script = abandoned(made).server_receives(GET).server_sends(FOUND)
        script = script.server_receives(CANCELLED_TURN, read_newest()).server_sends(page())
        await answers_again(script.server_sends(stopped("$t")).receives("p"))


@pytest.mark.parametrize("code", [None, "UNSUPPORTED_ACTION", "INTERNAL_ERROR"])
async def test_no_client_learns_how_a_server_answers_to_that_cancel(code: str | None) -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        script = abandoned(made).server_receives(GET).server_sends(FOUND)
        script = script.server_receives(CANCELLED_TURN, read_newest()).server_sends(page())
        if code is not None:
            script = script.server_sends(server_problem("$t", code)).receives("p")
        await answers_again(script)


async def test_an_input_that_waited_for_the_connection_follows_the_cancel() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await (
            abandoned(made)
            .server_receives(GET)
            .sends("p", run("And?"))
            .server_sends(FOUND)
            .server_receives(CANCELLED_TURN, read_newest())
            .server_sends(stopped("$t"), page())
            .server_receives(told("$n", "And?"))
            .server_sends(taken("$n"))
            .receives("p", echo("And?"), status("running"), say("turn_start"))
        )


async def test_an_input_that_was_written_and_not_accepted_is_cancelled_too() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await (
            made.asks_server("p", "Hi")
            .server_dies()
            .receives("p", problem("internal", LOST))
            .server_receives(GET)
            .server_sends(FOUND)
            .server_receives(CANCELLED_TURN, read_newest())
        )


async def test_a_connection_lost_before_the_cancel_leaves_it_to_the_next() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await (
            abandoned(made)
            .server_receives(GET)
            .server_dies()
            .server_receives(looked_up("$get2"))
            .server_sends(server_problem("$get2", "SESSION_NOT_FOUND"))
            .server_receives({**create("$again"), "conversationId": CONVERSATION})
            .server_sends(acknowledged("$again", **CREATED))
            .server_receives(CANCELLED_TURN, read_newest())
            .server_dies()
            .server_receives(looked_up("$get3"))
            .server_sends(acknowledged("$get3", **CREATED))
            .server_receives(read_newest("$page3"))
            .receives("p")
        )


def row(number: int, direction: str, text: str) -> Frame:
    """Return a message on a page of the server."""
    about = {"id": f"0198c3a1-0000-4000-8000-0000000001b{number}", "createdAt": f"2026-05-09T21:28:2{number}Z"}
    return {**about, "direction": direction, "content": {"text": text}}


@pytest.mark.parametrize(
    ("rest", "answer"),
    [([], "Hel"), ([row(2, "outbound", "Hello")], "Hello")],
    ids=["the answer was cancelled", "the server went on with the turn"],
)
async def test_messages_of_others_while_the_connection_was_lost_reach_pod_clients_as_another_history(
    rest: list[Frame], answer: str
) -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        rows = [row(4, "outbound", "No"), row(3, "inbound", "Sure?"), *rest, row(1, "inbound", "Hi")]
        script = abandoned(made).server_receives(GET).server_sends(FOUND)
        script = script.server_receives(CANCELLED_TURN, read_newest()).server_sends(page("$page", *rows))
        await answers_again(script.receives("p", say("segment_rotated")))
        texts = [item.text for item in made.session.state.transcript if isinstance(item, Message)]
        assert texts == ["Hi", answer, "Sure?", "No", "And?", "Yes"]


async def test_no_turn_is_cancelled_after_a_loss_without_a_turn() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await (
            made.asks_server("p", "Hi")
            .server_sends(taken("$t"), answered("$t", ""))
            .receives("p", echo("Hi"), status("running"), say("turn_start"), *ENDED)
            .server_dies()
            .server_receives(GET)
            .server_sends(FOUND)
            .server_receives(read_newest())
        )


async def test_a_question_that_was_asked_before_the_gateway_began_is_answered_at_the_server() -> None:
    """The server in Rust knows its questions over any connection, and stores them (docs/dialects/smooth.md, section
    6).
    """
    async with in_memory_gateway(upstream="smooth") as made:
        await (
            made.connects("a")
            .sends("a", CREATE)
            .server_receives({"action": "create_conversation_session", "requestId": "$open"})
            .server_sends(acknowledged("$open", **CREATED))
            .receives("a", reply("open", sessionId=SERVER_SESSION))
            .sends("a", {**ask("confirm_tool_action", "yes", approved=True), "sessionId": SERVER_SESSION})
            .server_receives(confirmed("$c", approved=True))
            .server_sends(taken("$c"), said("$c", "Deleted."), answered("$c", "Deleted."))
            .receives("a", reply("yes", approved=True), token("$turn", "Deleted."), answer("$turn", "Deleted."))
            .sends("a", {**ask("confirm_tool_action", "no", approved=False), "sessionId": SERVER_SESSION})
            .server_receives(confirmed("$d", approved=False))
            .server_sends(server_problem("$d", "NO_PENDING_CONFIRMATION"))
            .receives("a", error("no", "NO_PENDING_CONFIRMATION"))
        )


async def test_a_turn_that_began_before_the_gateway_is_cancelled_by_any_client() -> None:
    """The gateway was started again while the turn ran: it knows of no turn, but the server takes no input."""
    async with in_memory_gateway(upstream="smooth") as made:
        script = (
            made.asks_server("p", "Hi")
            .server_sends(server_problem("$t", "TURN_IN_PROGRESS"))
            .receives("p", say("error", code="already_running"))
            .sends("p", CANCEL)
            .server_receives({"action": "cancel", "requestId": "$c", "sessionId": SERVER_SESSION})
            .receives("p", say("error", code="not_running"))
            .server_sends(stopped("earlier"))
            .receives("p")
        )
        await answers_again(script)
        assert made.losses("TurnEnded") == 0


async def test_an_interrupt_without_a_known_turn_reaches_a_codewhale_and_its_answer_the_client() -> None:
    """A gateway behind this one was started again: it finds the turn at its own backend, if there is one."""
    async with in_memory_gateway(upstream="codewhale") as made:
        editor = await editor_with_thread(made, THREAD)
        editor.sends(line(2, "thread/interrupt", thread_id=THREAD))
        await answers(made, "thread/interrupt", thread_id=THREAD, interrupted=True)
        assert [frame["result"] for frame in editor.news()] == [{"thread_id": THREAD, "interrupted": True}]
