"""The sessions of a backend that carries many: known from its lists, and not requested without need."""

from __future__ import annotations

import json

import pytest

from dragoman.gateway.backends.asking import HELD_MAX
from dragoman.gateway.backends.shared import SharedKind
from dragoman.gateway.config.model import Limits
from dragoman.gateway.ingress import Ingress
from dragoman.gateway.session.session import Session
from dragoman.mappings.canonical.events import Heartbeat
from tests.gateway.backends.in_memory_pando import InMemoryPandoGateway, frames, in_memory_pando_gateway, row, send
from tests.gateway.codewhale_messages import line
from tests.gateway.pod_messages import run
from tests.gateway.smooth_client_messages import CREATE, ask
from tests.idle import settle

ONE, OTHER = "0b0e9b0e-0000-4000-8000-000000000001", "0b0e9b0e-0000-4000-8000-000000000002"


async def test_a_list_waits_for_the_list_of_the_backend_and_includes_all_of_it() -> None:
    async with in_memory_pando_gateway() as made:
        client = made.join("smooth")
        await send(client, ask("list_conversations", "r1"))
        assert frames(client) == []
        await made.begins(row(ONE, "First"), row(OTHER, "Second"))
        (answer,) = frames(client)
        assert {c["title"] for c in answer["data"]["conversations"]} == {"First", "Second"}


async def test_the_wait_for_the_list_of_the_backend_is_bounded() -> None:
    async with in_memory_pando_gateway() as made:
        client = made.join("smooth")
        await send(client, ask("list_conversations", "r1"))
        for wait in (Limits().snapshot_wait, Limits().open_deadline):
            assert frames(client) == []
            await made.time.elapses(wait)
        (answer,) = frames(client)
        assert answer["data"]["conversations"] == []


@pytest.mark.parametrize("wanted", ["", "latest"])
async def test_a_client_that_names_no_session_is_shown_the_newest(wanted: str) -> None:
    async with in_memory_pando_gateway() as made:
        made.join("pod", ingress=Ingress(session=wanted))
        await made.begins(row(ONE, updated="2026-05-09T21:28:20Z"), row(OTHER, updated="2026-05-10T21:28:20Z"))
        assert made.asked() == ["message.list"]
        assert (await made.answers("message.list", []))["session_id"] == OTHER


@pytest.mark.parametrize("listed", [[row(ONE), row(OTHER)], [row(OTHER)]], ids=["listed", "unlisted"])
async def test_a_pod_listener_leads_to_the_session_of_its_id(listed: list[dict[str, object]]) -> None:
    """A list of a pando may lack sessions (docs/dialects/pando.md, section 6)."""
    async with in_memory_pando_gateway() as made:
        made.join("pod", ingress=Ingress(session=ONE))
        await made.begins(*listed)
        assert (await made.answers("message.list", []))["session_id"] == ONE


async def test_a_pod_listener_leads_to_the_session_of_its_id_also_if_the_primary_comes_later() -> None:
    async with in_memory_pando_gateway() as made:
        pod = made.join("pod", ingress=Ingress(session=ONE))
        await settle()
        made.time.passes(0.4)
        await made.begins(row(ONE), row(OTHER))
        said = {"id": "m-1", "role": "user", "content": "Kept?", "created_at": "2026-05-09T21:28:20Z"}
        assert (await made.answers("message.list", [said]))["session_id"] == ONE
        assert "Kept?" in json.dumps(frames(pod)[-1])
        await pod.says(json.dumps(run("Hello")).encode())
        assert (await made.answers("message.send", {"ok": True}))["session_id"] == ONE


async def test_the_first_input_at_a_pod_listener_of_new_sessions_opens_one() -> None:
    async with in_memory_pando_gateway() as made:
        pod = made.join("pod", ingress=Ingress(session="new"))
        await made.begins(row(ONE))
        await pod.says(json.dumps(run("Hello")).encode())
        await made.answers("session.interrupt", {"ok": True})
        await made.answers("CreateSession", {"id": OTHER})
        await made.answers("message.list", [])
        assert (await made.answers("message.send", {"ok": True}))["session_id"] == OTHER


async def test_a_client_that_names_no_session_is_never_shown_that_of_a_sub_agent() -> None:
    """A real pando has a session for each sub-agent, under the id of its tool call, and one for each title that it
    generates.
    """
    async with in_memory_pando_gateway() as made:
        await made.lists(row(ONE))
        for child in ("toolu_01", f"title-{ONE}"):
            await made.publishes("session.update", **row(child, updated="2026-05-09T23:00:00Z"))
        made.join("pod")
        await settle()
        assert (await made.answers("message.list", []))["session_id"] == ONE


async def test_a_session_that_was_never_listed_is_created_by_its_first_event() -> None:
    async with in_memory_pando_gateway() as made:
        await made.lists()
        assert made.router.sessions == []
        await made.publishes("session.update", **row(ONE))
        assert [session.state.id for session in made.router.sessions] == [ONE]


async def test_clients_above_the_limit_that_wait_for_the_first_list_are_disconnected() -> None:
    async with in_memory_pando_gateway() as made:
        client = made.join("codewhale")
        await client.says(*[json.dumps(line(n, "thread/list")).encode() for n in range(HELD_MAX + 1)])
        assert client.closed is not None


# -- another backend answers ----------------------------------------------------------------------------

NO_ROWS = "session.get: sql: no rows in result set"


async def test_a_session_missing_from_the_next_list_is_requested_and_stays_if_it_exists() -> None:
    async with in_memory_pando_gateway() as made:
        pod = made.join("pod")
        await made.opens([], row(ONE))
        await made.replaced(row(OTHER))
        await made.answers("message.list", [])
        assert (await made.answers("session.get", row(ONE)))["session_id"] == ONE
        assert [session.state.id for session in made.router.sessions] == [ONE]
        await send(pod, run("Hello"))
        assert (await made.answers("message.send", {"ok": True}))["session_id"] == ONE


async def runs_unused(made: InMemoryPandoGateway) -> Session:
    """Let the primary run a turn in a session that no client has opened."""
    await made.lists(row(ONE))
    await made.publishes("llm.token", session_id=ONE, token="Hel")
    await made.answers("message.list", [])
    (session,) = made.router.sessions
    assert session.state.turn is not None
    return session


async def test_the_turn_of_a_session_that_nobody_uses_goes_on_over_the_next_connection() -> None:
    async with in_memory_pando_gateway() as made:
        session = await runs_unused(made)
        await made.replaced(row(ONE))
        while made.asked():
            assert (await made.answers("message.list", []))["session_id"] == ONE
        await made.publishes("llm.token", session_id=ONE, token="lo")
        assert session.state.turn is not None
        assert session.state.turn.text() == "Hello"


async def test_the_turn_of_a_session_that_nobody_uses_fails_if_its_primary_stays_away() -> None:
    async with in_memory_pando_gateway() as made:
        session = await runs_unused(made)
        await made.primaries[-1].hangs_up()
        made.time.passes(Limits().reconnect_grace + 1)
        assert (session.state.status, session.state.turn) == ("idle", None)


async def test_a_pod_client_whose_session_is_gone_is_rotated_to_the_newest_session() -> None:
    async with in_memory_pando_gateway() as made:
        pod = made.join("pod")
        await made.opens([], row(ONE))
        await made.replaced(row(OTHER))
        await made.answers("message.list", [])
        await made.answers("session.get", problem=NO_ROWS)
        assert [session.state.id for session in made.router.sessions] == [OTHER]
        said = {"id": "m-1", "role": "user", "content": "Kept?", "created_at": "2026-05-09T21:28:20Z"}
        assert (await made.answers("message.list", [said]))["session_id"] == OTHER
        names = [event["event"] for event in frames(pod)]
        assert names.count("snapshot") == 1
        assert "Kept?" in json.dumps(frames(pod)[-1])
        await send(pod, run("Hello"))
        assert (await made.answers("message.send", {"ok": True}))["session_id"] == OTHER


async def test_an_input_of_a_pod_client_whose_session_is_gone_opens_another_if_there_is_none() -> None:
    async with in_memory_pando_gateway() as made:
        pod = made.join("pod")
        await made.opens([], row(ONE))
        await made.replaced()
        await made.answers("message.list", [])
        await made.answers("session.get", problem=NO_ROWS)
        await send(pod, run("Hello"))
        await made.answers("session.interrupt", {"ok": True})
        assert made.asked() == ["CreateSession"]


async def test_a_pod_client_of_an_empty_primary_follows_its_first_session() -> None:
    async with in_memory_pando_gateway() as made:
        pod = made.join("pod")
        await made.begins()
        await settle()
        await made.publishes("session.update", **row(ONE))
        await made.answers("message.list", [])
        await made.publishes("llm.token", session_id=ONE, token="Hi")
        await made.answers("message.list", [])
        events = frames(pod)
        assert [e["event"] for e in events].count("snapshot") == 1
        assert [e["data"]["text"] for e in events if e["event"] == "text_delta"] == ["Hi"]
        assert [session.state.id for session in made.router.sessions] == [ONE], "what was made up is gone"


async def test_a_pod_client_whose_session_is_gone_follows_the_newest_of_a_later_list() -> None:
    async with in_memory_pando_gateway() as made:
        pod = made.join("pod")
        await made.opens([], row(ONE))
        await made.replaced()
        await made.answers("message.list", [])
        await made.answers("session.get", problem=NO_ROWS)
        await made.replaced(row(ONE, updated="2026-05-09T21:28:20Z"), row(OTHER, updated="2026-05-09T21:30:00Z"))
        assert (await made.answers("message.list", []))["session_id"] == OTHER
        await made.publishes("llm.token", session_id=OTHER, token="Hi")
        await made.answers("message.list", [])
        assert [e["data"]["text"] for e in frames(pod) if e["event"] == "text_delta"] == ["Hi"]


async def test_the_newest_session_is_not_looked_for_once_an_input_has_opened_that_of_each_client(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with in_memory_pando_gateway() as made:
        pod = made.join("pod")
        await made.begins()
        await send(pod, run("Hello"))
        await made.answers("session.interrupt", {"ok": True})
        await made.answers("CreateSession", {"id": ONE})
        await made.answers("message.list", [])
        monkeypatch.setattr(SharedKind, "_newest", lambda _kind: pytest.fail("all sessions were looked through"))
        await made.publishes("session.update", **row(OTHER))
        assert len(made.router.sessions) == 2


async def test_a_pod_client_whose_input_opened_a_session_stays_there() -> None:
    async with in_memory_pando_gateway() as made:
        pod = made.join("pod")
        await made.begins()
        await send(pod, run("Hello"))
        await made.answers("session.interrupt", {"ok": True})
        await made.publishes("session.update", **row(OTHER))
        await made.answers("CreateSession", {"id": ONE})
        await made.answers("message.list", [])
        assert (await made.answers("message.send", {"ok": True}))["session_id"] == ONE


async def test_inputs_sent_before_the_new_backend_listed_its_sessions_wait_for_the_list() -> None:
    async with in_memory_pando_gateway() as made:
        pod = made.join("pod")
        await made.opens([], row(ONE))
        await made.primaries[-1].hangs_up()
        await send(pod, run("Hello"))
        while len(made.primaries) < 2:
            await settle()
        await made.opens([])
        assert made.asked() == ["session.get"], "and the words wait"
        await made.answers("session.get", problem=NO_ROWS)
        await made.answers("session.interrupt", {"ok": True})
        assert made.asked() == ["CreateSession"]


async def test_not_every_command_waits_for_a_backend_that_stays_away() -> None:
    async with in_memory_pando_gateway() as made:
        client = await made.lists(row(ONE))
        await made.primaries[-1].hangs_up()
        for request in ("r2", "r3"):
            await send(client, ask("list_conversations", request))
            for wait in (Limits().snapshot_wait, Limits().open_deadline) if request == "r2" else ():
                await made.time.elapses(wait)
        assert [frame["requestId"] for frame in frames(client)] == ["r0", "r2", "r3"]


async def test_a_deleted_session_is_unknown_to_its_clients_and_reported_to_subscribers() -> None:
    async with in_memory_pando_gateway() as made:
        smooth, pando = made.join("smooth"), made.join("pando", publishes=True)
        await send(smooth, ask("get_session", "open", sessionId=ONE))
        await made.opens([], row(ONE))
        await made.replaced()
        await made.answers("message.list", [])
        await made.answers("session.get", problem=NO_ROWS)
        assert [(f["topic"], f["payload"]["id"]) for f in frames(pando)][-1] == ("session.deleted", ONE)
        await send(smooth, ask("send_message", "r1", sessionId=ONE, message="Hello"))
        assert frames(smooth)[-1]["error"]["code"] == "SESSION_NOT_FOUND"


async def test_a_session_that_the_backend_deletes_twice_is_removed_once() -> None:
    async with in_memory_pando_gateway() as made:
        pod = made.join("pod")
        await made.opens([], row(ONE))
        await made.publishes("llm.token", session_id=ONE, token="Hi")
        await made.publishes("session.deleted", **row(ONE))
        await made.publishes("session.deleted", **row(ONE))
        assert [session.state.id == ONE for session in made.router.sessions] == [False], "the one that the pod is shown"
        assert [e["data"]["status"] for e in frames(pod) if e["event"] == "status"][-1] == "idle"
        assert frames(pod)[-1]["event"] == "segment_rotated"


async def test_the_run_of_a_deleted_session_makes_no_session_until_the_backend_has_it_again() -> None:
    """A pando goes on with the run of a session that was deleted, and publishes its tokens."""
    async with in_memory_pando_gateway() as made:
        smooth, pando = made.join("smooth"), made.join("pando", publishes=True)
        await send(smooth, ask("get_session", "open", sessionId=ONE))
        await made.opens([], row(ONE))
        await made.publishes("llm.token", session_id=ONE, token="Hi")
        await made.publishes("session.deleted", **row(ONE))
        told = len(frames(pando))
        await made.publishes("llm.token", session_id=ONE, token=" there")
        await made.answers("message.list", [])
        assert (made.router.sessions, len(frames(pando))) == ([], told)
        await made.publishes("session.update", **row(ONE))
        assert [session.state.id for session in made.router.sessions] == [ONE]


async def test_a_session_created_again_under_the_id_of_a_deleted_one_counts_as_any_other() -> None:
    async with in_memory_pando_gateway() as made:
        smooth = await made.lists(row(ONE))
        await made.publishes("session.deleted", **row(ONE))
        await send(smooth, CREATE)
        await made.answers("CreateSession", {"id": ONE})
        await made.publishes("session.update", **row(ONE))
        for session in made.router.sessions:
            session.presence.suspend("session_ttl")
        assert made.router.sessions == []
        await made.publishes("llm.token", session_id=ONE, token="Hi")
        await made.answers_each("message.list", [])
        assert [session.state.id for session in made.router.sessions] == [ONE]


async def test_the_pod_folder_of_a_session_is_removed_with_it() -> None:
    async with in_memory_pando_gateway() as made:
        folder = Ingress(endpoint="pod+unix:/pods/one/sock", session=ONE, about_pods=lambda *_asked: Heartbeat())
        pod = made.join("pod", ingress=folder)
        await made.opens([], row(ONE), row(OTHER))
        await made.publishes("session.deleted", **row(ONE))
        assert frames(pod)[-1] == {"event": "shutdown"}
        assert pod.closed is not None


async def test_an_unknown_session_is_not_announced() -> None:
    async with in_memory_pando_gateway() as made:
        smooth, pando = made.join("smooth"), made.join("pando", publishes=True)
        await send(smooth, ask("get_session", "r1", sessionId=ONE))
        await made.begins()
        await made.answers("session.get", problem=NO_ROWS)
        assert frames(smooth)[-1]["error"]["code"] == "SESSION_NOT_FOUND"
        assert frames(pando) == []


async def test_a_session_is_unknown_to_each_client_that_asks_for_it_at_the_same_time() -> None:
    async with in_memory_pando_gateway() as made:
        first, second = made.join("smooth"), made.join("smooth")
        for client in (first, second):
            await send(client, ask("get_session", "r1", sessionId=ONE))
        await settle()
        await made.begins()
        while made.asked():
            await made.answers("session.get", problem=NO_ROWS)
        assert [frames(client)[-1]["error"]["code"] for client in (first, second)] == ["SESSION_NOT_FOUND"] * 2


async def test_a_session_that_the_backend_tells_of_before_it_answers_a_client_is_opened_once() -> None:
    async with in_memory_pando_gateway() as made:
        client = made.join("smooth")
        await send(client, ask("get_session", "r1", sessionId="call_1"))
        await made.begins()
        assert made.asked() == ["session.get"]
        await made.publishes("session.update", **row("call_1", "A child"))
        await made.answers("session.get", row("call_1", "A child"))
        assert frames(client)[-1]["type"] == "immediate_response"
        await made.answers("message.list", [])
        made.time.passes(0)
        assert len(made.router.sessions) == 1
        beat = {"instanceId": "i-2", "projectId": "", "topic": "instance.heartbeat", "payload": {"instance_id": "i-2"}}
        await made.primaries[-1].says(b"instance.heartbeat\0" + json.dumps(beat).encode())
        assert "message.list" in made.asked(), "the history of a session with a client is read again"


async def test_a_session_without_messages_is_not_listed_until_it_has_one() -> None:
    async with in_memory_pando_gateway() as made:
        client = await made.lists(row(ONE, "Old"))
        for count, titles in ((0, {"Old"}), (1, {"Old", "New"})):
            await made.publishes("session.update", **row(OTHER, "New", messages=count))
            await send(client, ask("list_conversations", "r2"))
            assert {c["title"] for c in frames(client)[-1]["data"]["conversations"]} == titles


async def test_reading_a_session_does_not_make_it_the_newest() -> None:
    async with in_memory_pando_gateway() as made:
        client = made.join("smooth")
        await send(client, ask("get_session", "r1", sessionId=ONE))
        await made.opens(
            [{"id": "m", "role": "user", "content": "Hi", "created_at": ""}],
            row(ONE, updated="2023-05-09T21:28:20Z"),
            row(OTHER, updated="2023-05-10T21:28:20Z"),
        )
        made.join("pod")
        await settle()
        assert (await made.answers("message.list", []))["session_id"] == OTHER
