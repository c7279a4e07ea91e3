"""Every client of a session is told when the model has lost the context of the conversation
(docs/translation.md, rule 4.11).
"""

from __future__ import annotations

import json
from typing import Any

from dragoman.gateway.ingress import Ingress
from tests.gateway.codewhale_messages import answers, asked, line, refuses, shown
from tests.gateway.in_memory import InMemoryGateway, InMemoryPeer, in_memory_gateway
from tests.gateway.smooth_client_messages import ask
from tests.idle import settle

SESSION = "0198c3a1-0000-4000-8000-0000000000d1"
KEPT = f"thread-{SESSION}"
LOST = "knows nothing of what was said before"


async def editor(made: InMemoryGateway, name: str = "editor") -> InMemoryPeer:
    """Connect a codewhale client that resumes the thread, which a restarted gateway knows only from the store."""
    client = made.join(name, dialect="codewhale")
    client.sends(line(1, "thread/resume", thread_id=KEPT))
    await settle()
    if len(made.router.sessions) == 0:
        await answers(made, "thread/resume", **shown(KEPT))
        await answers(made, "thread/read", **shown(KEPT, "ok"))
    client.news()
    return client


async def widget(made: InMemoryGateway, name: str = "widget") -> InMemoryPeer:
    """Connect a smooth client to the same session."""
    client = made.join(name)
    client.sends(ask("create_conversation_session", "c", conversationId=SESSION, agentId=SESSION))
    await settle()
    client.news()
    return client


async def answered(made: InMemoryGateway, text: str = "Hello") -> None:
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


def sent_to(client: InMemoryPeer) -> Any:
    return next(frame["data"]["sessionId"] for frame in client.frames() if "sessionId" in frame.get("data", {}))


def errors(client: InMemoryPeer) -> list[str]:
    """Return the EventFrames of the kind `error` in the results of a codewhale client."""
    events = [event for frame in client.news() for event in frame.get("result", {}).get("events", [])]
    return [event["message"] for event in events if event["event"] == "error"]


async def test_a_codewhale_client_learns_of_lost_context_once_in_the_result_of_its_next_turn() -> None:
    async with in_memory_gateway(upstream="codewhale") as made:
        client = await editor(made)
        sends(client, 2)
        await answered(made)
        (told,) = errors(client)
        assert LOST in told
        sends(client, 3)
        await answered(made)
        assert errors(client) == []


async def test_a_codewhale_client_whose_turn_failed_learns_of_lost_context_in_the_next_one() -> None:
    async with in_memory_gateway(upstream="codewhale") as made:
        client = await editor(made)
        sends(client, 2)
        await refuses(made, "thread/message", -32603, "turn failed")
        client.news()
        sends(client, 3)
        await answered(made)
        assert len(errors(client)) == 1


async def test_a_smooth_client_reads_of_lost_context_in_a_line_before_its_answer_only() -> None:
    async with in_memory_gateway(upstream="codewhale") as made:
        await editor(made)
        client = await widget(made)
        sends(client, 2)
        await answered(made)
        accepted, line_of, token, terminal = client.news()
        assert accepted["status"] == 202
        assert LOST in line_of["token"]
        assert token["token"] == "Hello"
        assert LOST not in json.dumps(terminal)
        (session,) = made.router.sessions
        assert [message.text for message in session.state.messages()] == ["Hi", "Hello"]
        sends(client, 3)
        await answered(made)
        assert [frame["token"] for frame in client.news() if frame["type"] == "stream_token"] == ["Hello"]


async def test_each_client_learns_of_lost_context_in_a_turn_of_its_own() -> None:
    async with in_memory_gateway(upstream="codewhale") as made:
        first, second = await editor(made), await widget(made)
        sends(first, 2)
        await answered(made)
        assert len(errors(first)) == 1
        second.news()
        sends(second, 3)
        await answered(made)
        assert len([f for f in second.news() if f["type"] == "stream_token" and LOST in f["token"]]) == 1


async def test_a_subscriber_to_everything_reads_of_lost_context_once_after_the_start_of_a_turn() -> None:
    async with in_memory_gateway(upstream="codewhale") as made:
        client, viewer = await editor(made), made.join("viewer", dialect="pando")
        await settle()
        viewer.news()
        sends(client, 2)
        await answered(made)
        told = [(f["topic"], f["payload"].get("token", "")) for f in viewer.news() if f["topic"].startswith("llm.")]
        assert [topic for topic, _ in told] == ["llm.start", "llm.token", "llm.token", "llm.end"]
        assert [LOST in token for _, token in told] == [False, True, False, False]


async def test_a_pod_client_is_alerted_at_once_and_a_later_one_before_its_snapshot() -> None:
    async with in_memory_gateway(upstream="codewhale") as made:
        client = await editor(made)
        late = made.join("late", dialect="pod", ingress=Ingress(endpoint="pod", session=SESSION))
        await settle()
        assert [frame["event"] for frame in late.frames()] == ["alert", "snapshot"]
        sends(client, 2)
        await answered(made)
        made.pod.transport.hang_up()
        await settle()
        late.news()
        sends(client, 3)
        await answers(made, "thread/resume", **shown(KEPT))
        assert [LOST in f["data"]["message"] for f in late.news() if f["event"] == "alert"] == [True]
        await answered(made)


async def test_every_client_learns_again_of_lost_context_after_each_replaced_child() -> None:
    async with in_memory_gateway(upstream="codewhale") as made:
        client = await editor(made)
        sends(client, 2)
        await answered(made)
        client.news()
        made.pod.transport.hang_up()
        await settle()
        sends(client, 3)
        await answers(made, "thread/resume", **shown(KEPT))
        await answered(made)
        assert len(errors(client)) == 1
        gaps = [entry for entry in made.ledger.entries() if (entry.kind, entry.target) == ("Gap", "codewhale")]
        assert gaps == [], "it is not counted as left out"
        assert len(asked(made, "thread/message")) == 2


async def test_no_client_is_told_of_lost_context_in_a_new_thread() -> None:
    async with in_memory_gateway(upstream="codewhale") as made:
        client = made.join("editor", dialect="codewhale")
        client.sends(line(1, "thread/start"))
        await answers(made, "thread/start", **shown(KEPT, "started"))
        sends(client, 2)
        await answered(made)
        assert errors(client) == []
