"""Every client of a session is told when the model has lost the context of the conversation (docs/translation.md,
rule 4.11).

A smooth server restarts: it does not know the session, and begins another conversation when it is asked to go on.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.gateway.ingress import Ingress
from dragoman.mappings.canonical.values import Message
from tests.gateway.codewhale_messages import answers, asked, line, refuses, shown
from tests.gateway.in_memory import InMemoryGateway, InMemoryPeer, Script, in_memory_gateway
from tests.gateway.pod_messages import delta, done, echo, run_end, say, status
from tests.gateway.smooth_client_messages import AGENT, accepted, answer, ask, reply, token
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
from tests.idle import settle

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
        made.asks_server("p", "Hi")
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


@pytest.mark.parametrize("names_user", [False, True])
async def test_a_conversation_without_a_message_had_no_context_to_lose(names_user: bool) -> None:
    """The server in Rust stores a conversation with its first message."""
    async with in_memory_gateway(upstream="smooth") as made:
        opened = made.connects("a")
        for further in [{}, {"conversationId": CONVERSATION, "userName": "Ann"}][: 1 + names_user]:
            opened = (
                opened.sends("a", OPEN | further)
                .server_receives({"action": "create_conversation_session", "requestId": f"$open{len(further)}"})
                .server_sends(acknowledged(f"$open{len(further)}", **CREATED))
                .receives("a", {"type": "immediate_response", "status": 200})
            )
        await (
            restarted(opened)
            .sends("a", send("r1", "Hi"))
            .server_receives(again("$n", "Hi"))
            .server_sends(taken("$n"), said("$n", "Yes"), answered("$n", "Yes"))
            .receives("a", accepted("r1"), token("r1", "Yes"), answer("r1", "Yes"))
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
            made.connects("a")
            .sends("a", resuming)
            .server_receives({"action": resuming["action"], "requestId": "$open"})
            .server_sends(acknowledged("$open", **CREATED))
            .server_receives({"action": "get_conversation_messages", "requestId": "$history"})
            .server_sends(problem("$history", "STORAGE_ERROR"))
            .receives("a", {"type": "immediate_response", "status": 200})
        )
        await restarted(resumed)
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
        )


# -- a child that knows nothing of the thread ------------------------------------------------------


SESSION = "0198c3a1-0000-4000-8000-0000000000d1"
KEPT = f"thread-{SESSION}"
LOST = "knows nothing of what was said before"


async def editor(made: InMemoryGateway, name: str = "editor") -> InMemoryPeer:
    """Connect a codewhale client that resumes the thread, which a restarted gateway knows only from the store."""
    client = made.join(name, dialect="codewhale")
    await client.says(line(1, "thread/resume", thread_id=KEPT))
    if len(made.router.sessions) == 0:
        await answers(made, "thread/resume", **shown(KEPT))
        await answers(made, "thread/read", **shown(KEPT, "ok"))
    client.news()
    return client


async def widget(made: InMemoryGateway, name: str = "widget") -> InMemoryPeer:
    """Connect a smooth client to the same session."""
    client = made.join(name)
    await client.says(ask("create_conversation_session", "c", conversationId=SESSION, agentId=SESSION))
    client.news()
    return client


async def child_answers(made: InMemoryGateway, text: str = "Hello") -> None:
    """Answer the last message as the child."""
    await settle()
    for word in ({"type": "response_start"}, {"type": "response_delta", "delta": text}, {"type": "response_end"}):
        made.pod.sends({"response_id": "r", **word})
    await answers(made, "thread/message", thread_id=KEPT, status="accepted", data={"turn_id": "t"})


def sends(client: InMemoryPeer, number: int, text: str = "Hi") -> None:
    """Begin a turn as this client."""
    if client.link.dialect.name == "smooth":
        client.sends(ask("send_message", f"m{number}", sessionId=sent_to(client), message=text))
    else:
        client.sends(line(number, "thread/message", thread_id=KEPT, input=text))


async def turn(made: InMemoryGateway, client: InMemoryPeer, number: int, text: str = "Hi") -> None:
    """Begin a turn as this client, and let the child answer it."""
    sends(client, number, text)
    await child_answers(made)


def sent_to(client: InMemoryPeer) -> Any:
    return next(frame["data"]["sessionId"] for frame in client.frames() if "sessionId" in frame.get("data", {}))


def errors(client: InMemoryPeer) -> list[str]:
    """Return the EventFrames of the kind `error` in the results of a codewhale client."""
    events = [event for frame in client.news() for event in frame.get("result", {}).get("events", [])]
    return [event["message"] for event in events if event["event"] == "error"]


async def test_a_codewhale_client_learns_of_lost_context_once_in_the_result_of_its_next_turn() -> None:
    async with in_memory_gateway(upstream="codewhale") as made:
        client = await editor(made)
        await turn(made, client, 2)
        (told,) = errors(client)
        assert LOST in told
        await turn(made, client, 3)
        assert errors(client) == []


async def test_a_codewhale_client_whose_turn_failed_learns_of_lost_context_in_the_next_one() -> None:
    async with in_memory_gateway(upstream="codewhale") as made:
        client = await editor(made)
        sends(client, 2)
        await refuses(made, "thread/message", -32603, "turn failed")
        client.news()
        await turn(made, client, 3)
        assert len(errors(client)) == 1


async def test_clients_that_learned_of_lost_context_are_not_told_again_when_a_later_turn_fails() -> None:
    async with in_memory_gateway(upstream="codewhale") as made:
        first, second, viewer = await editor(made), await widget(made), made.join("viewer", dialect="pando")
        await settle()
        await turn(made, second, 2)
        sends(first, 3)
        await refuses(made, "thread/message", -32603, "turn failed")
        await turn(made, second, 4)
        for client in (second, viewer):
            assert len([frame for frame in client.frames() if LOST in json.dumps(frame)]) == 1


async def test_a_smooth_client_reads_of_lost_context_in_a_line_before_its_answer_only() -> None:
    async with in_memory_gateway(upstream="codewhale") as made:
        await editor(made)
        client = await widget(made)
        await turn(made, client, 2)
        accepted, line_of, token, terminal = client.news()
        assert accepted["status"] == 202
        assert LOST in line_of["token"]
        assert token["token"] == "Hello"
        assert LOST not in json.dumps(terminal)
        (session,) = made.router.sessions
        assert [message.text for message in session.state.messages()] == ["Hi", "Hello"]
        await turn(made, client, 3)
        assert [frame["token"] for frame in client.news() if frame["type"] == "stream_token"] == ["Hello"]


async def test_each_client_learns_of_lost_context_in_a_turn_of_its_own() -> None:
    async with in_memory_gateway(upstream="codewhale") as made:
        first, second = await editor(made), await widget(made)
        await turn(made, first, 2)
        assert len(errors(first)) == 1
        second.news()
        await turn(made, second, 3)
        assert len([f for f in second.news() if f["type"] == "stream_token" and LOST in f["token"]]) == 1


async def test_a_subscriber_to_everything_reads_of_lost_context_once_after_the_start_of_a_turn() -> None:
    async with in_memory_gateway(upstream="codewhale") as made:
        client, viewer = await editor(made), made.join("viewer", dialect="pando")
        await settle()
        viewer.news()
        await turn(made, client, 2)
        told = [(f["topic"], f["payload"].get("token", "")) for f in viewer.news() if f["topic"].startswith("llm.")]
        assert [topic for topic, _ in told] == ["llm.start", "llm.token", "llm.token", "llm.end"]
        assert [LOST in token for _, token in told] == [False, True, False, False]


async def test_a_pod_client_is_alerted_at_once_and_a_later_one_before_its_snapshot() -> None:
    async with in_memory_gateway(upstream="codewhale") as made:
        client = await editor(made)
        late = made.join("late", dialect="pod", ingress=Ingress(endpoint="pod", session=SESSION))
        await settle()
        assert [frame["event"] for frame in late.frames()] == ["alert", "snapshot"]
        await turn(made, client, 2)
        await made.pod.transport.hangs_up()
        late.news()
        sends(client, 3)
        await answers(made, "thread/resume", **shown(KEPT))
        assert [LOST in f["data"]["message"] for f in late.news() if f["event"] == "alert"] == [True]
        await child_answers(made)


async def test_every_client_learns_again_of_lost_context_after_each_replaced_child() -> None:
    async with in_memory_gateway(upstream="codewhale") as made:
        client = await editor(made)
        await turn(made, client, 2)
        client.news()
        await made.pod.transport.hangs_up()
        sends(client, 3)
        await answers(made, "thread/resume", **shown(KEPT))
        await answers(made, "thread/read", **shown(KEPT, "ok"))
        await child_answers(made)
        assert len(errors(client)) == 1
        gaps = [entry for entry in made.ledger.entries() if (entry.kind, entry.target) == ("Gap", "codewhale")]
        assert gaps == [], "it is not counted as left out"
        assert len(asked(made, "thread/message")) == 2


async def test_no_client_is_told_of_lost_context_in_a_new_thread() -> None:
    async with in_memory_gateway(upstream="codewhale") as made:
        client = made.join("editor", dialect="codewhale")
        client.sends(line(1, "thread/start"))
        await answers(made, "thread/start", **shown(KEPT, "started"))
        await turn(made, client, 2)
        assert errors(client) == []
