"""Cancelling a turn (docs/translation.md, rule 3.4): by the backend, or by the gateway if the backend cannot."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.gateway.backends.upstream import Upstream
from dragoman.gateway.config.model import Limits
from tests.gateway.backends.in_memory_pando import InMemoryPandoGateway, frames, in_memory_pando_gateway, row
from tests.gateway.codewhale_messages import line
from tests.gateway.in_memory import InMemoryGateway, Script, in_memory_gateway
from tests.gateway.pod_messages import CANCEL, delta, echo, problem, run, run_entries, say, snapshot, status, took
from tests.gateway.smooth_client_messages import CREATE, accepted, ask, cancel, cancelled, send, token
from tests.gateway.smooth_server_messages import (
    CREATED,
    acknowledged,
    answered,
    looked_up,
    page,
    read_newest,
    said,
    stopped,
    taken,
    told,
)
from tests.gateway.smooth_server_messages import problem as refused
from tests.idle import settle
from tests.memory_transport import MemoryTransport

Frame = dict[str, Any]

CANCELLED = (problem("internal", "Cancelled"), status("idle"))


def begun(made: InMemoryGateway) -> Script:
    """Return a pod client `p` whose turn runs at a pod."""
    return (
        made.connects("p", dialect="pod")
        .pod_sends(snapshot())
        .receives("p", say("snapshot"))
        .sends("p", run("Hi"))
        .pod_receives(run("Hi"))
        .pod_sends(*took("Hi"))
        .receives("p", echo("Hi"), status("running"))
    )


def begun_at_server(made: InMemoryGateway) -> Script:
    """Return a pod client `p` whose turn "$t" runs at a smooth server."""
    return (
        made.asks_server("p", "Hi")
        .server_sends(taken("$t"))
        .receives("p", echo("Hi"), status("running"), say("turn_start"))
    )


async def test_a_turn_that_is_lost_while_it_is_cancelled_ends_with_one_error() -> None:
    """A pod client reads a second error as the refusal of its next input."""
    lost = problem("internal", "the connection to the backend was lost")
    async with in_memory_gateway() as made:
        await (
            begun(made)
            .sends("p", CANCEL)
            .pod_receives(CANCEL)
            .pod_dies()
            .receives("p")
            .passes(Limits().reconnect_grace)
            .receives("p", say("turn_start"), lost, status("idle"))
        )


async def test_without_a_turn_there_is_nothing_to_cancel() -> None:
    async with in_memory_gateway() as made:
        await (
            made.connects("p", dialect="pod")
            .pod_sends(snapshot())
            .receives("p", say("snapshot"))
            .sends("p", CANCEL)
            .receives("p", say("error", code="not_running"))
            .pod_receives()
        )


async def test_a_pod_client_cancels_the_turn_of_any_client() -> None:
    async with in_memory_gateway() as made:
        await (
            begun(made)
            .connects("q", dialect="pod")
            .receives("q", say("snapshot"))
            .sends("q", CANCEL)
            .pod_receives(CANCEL)
            .pod_sends(*CANCELLED)
            .receives("p", *CANCELLED)
            .receives("q", *CANCELLED)
        )
        assert made.time.waiting == []


async def test_a_smooth_client_that_comes_back_cancels_the_turn_that_it_left() -> None:
    async with in_memory_gateway() as made:
        await (
            made.opens("a")
            .submits("a", "r1", "Hi")
            .pod_sends(*took("Hi"))
            .receives("a", accepted("r1"))
            .leaves("a")
            .connects("b")
            .sends("b", cancel("r1"))
            .pod_receives(CANCEL)
            .pod_sends(*CANCELLED)
            .receives("b", cancelled("$turn"))
        )


@pytest.mark.parametrize("heard", [True, False])
async def test_a_smooth_client_cancels_a_turn_that_runs_since_before_the_gateway(heard: bool) -> None:
    """The client may have begun the turn through a gateway that was replaced by this one."""
    news = (delta("Hel"),) if heard else ()
    async with in_memory_gateway() as made:
        await (
            made.connects("a")
            .sends("a", CREATE)
            .pod_sends(snapshot(*run_entries("Hi"), status="running"), *news)
            .ignores("a")
            .sends("a", cancel("r1"))
            .pod_receives(CANCEL)
            .pod_sends(*CANCELLED)
            .ignores("a")
            .submits("a", "r2", "Next")
        )
        assert made.session.state.found_running is None


async def test_a_cancel_before_the_history_of_a_pod_reaches_it_before_the_next_input() -> None:
    async with in_memory_gateway() as made:
        await (
            made.connects("a")
            .sends("a", CREATE, cancel("r1"), send("r2", "Next"))
            .pod_receives(CANCEL, run("Next"))
            .ignores("a")
            .pod_sends(snapshot(*run_entries("Hi"), status="running"), *CANCELLED, *took("Next"))
            .receives("a", accepted("r2"))
        )


async def test_a_cancel_before_the_history_of_an_idle_pod_is_answered_by_the_pod() -> None:
    async with in_memory_gateway() as made:
        await (
            made.connects("p", dialect="pod")
            .passes(Limits().snapshot_wait)
            .receives("p", say("snapshot"))
            .sends("p", CANCEL)
            .pod_receives(CANCEL)
            .pod_sends(snapshot(), problem("not_running", "no turn"))
            .receives("p", say("segment_rotated"), status("idle"), problem("not_running", "no turn"))
        )


async def test_a_smooth_client_does_not_cancel_a_turn_that_another_program_began_at_the_pod() -> None:
    async with in_memory_gateway() as made:
        await (
            made.opens("a")
            .pod_sends(*took("Hi"), delta("Hel"))
            .receives("a", token("$t", "Hel"))
            .sends("a", cancel("r1"))
            .receives("a")
            .pod_receives()
        )


async def test_a_smooth_cancel_of_a_session_without_a_turn_is_not_answered() -> None:
    async with in_memory_gateway() as made:
        await made.opens("a").sends("a", cancel("r1")).receives("a").pod_receives()


async def test_the_deadline_of_a_cancel_begins_with_the_first_one() -> None:
    async with in_memory_gateway() as made:
        await (
            begun(made)
            .sends("p", CANCEL)
            .passes(Limits().cancel_deadline - 1)
            .sends("p", CANCEL)
            .pod_receives(CANCEL, CANCEL)
            .passes(1)
            .receives("p", *CANCELLED)
        )


async def test_the_cancel_of_a_second_turn_has_a_deadline_too() -> None:
    async with in_memory_gateway() as made:
        await begun(made).sends("p", CANCEL).pod_receives(CANCEL).pod_sends(*CANCELLED).receives("p", *CANCELLED)
        said = made.script().sends("p", run("Next")).pod_receives(run("Next")).pod_sends(*took("Next"))
        said = said.receives("p", echo("Next"), status("running")).sends("p", CANCEL).pod_receives(CANCEL)
        await said.passes(Limits().cancel_deadline).receives("p", *CANCELLED)


async def test_a_backend_without_cancel_stays_busy_until_its_turn_ends() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await (
            begun_at_server(made)
            .sends("p", CANCEL)
            .server_receives({"action": "cancel", "requestId": "$x"})
            .server_sends(refused("$x", "UNSUPPORTED_ACTION"))
            .receives("p", *CANCELLED)
            .server_sends(said("$t", "still here"))
            .sends("p", run("Next"))
            .receives("p", say("error", code="already_running", message="$why"))
            .server_receives()
            .server_sends(answered("$t", "still here"))
            .sends("p", run("Next"))
            .server_receives(told("$u", "Next"))
        )
        assert made.losses("TextDelta") == 1


async def test_a_pause_is_a_cancel_if_the_route_says_so() -> None:
    async with in_memory_gateway(upstream="smooth", pause="cancel") as made:
        await (
            begun_at_server(made)
            .sends("p", {"method": "pause"})
            .server_receives({"action": "cancel"})
            .server_sends(stopped("$t"))
            .receives("p", *CANCELLED)
        )


async def test_a_pause_is_refused_if_the_backend_has_none() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await (
            begun_at_server(made)
            .sends("p", {"method": "pause"})
            .receives("p", say("error", code="invalid_request", message="this backend cannot pause; cancel instead"))
            .server_receives()
        )


# -- a backend that refuses ---------------------------------------------------------------------------

ID = "0b0e9b0e-0000-4000-8000-000000000001"
REFUSED = "session.interrupt: agent interrupter not available on this instance"
"""The answer of a shipped pando to every cancel (docs/dialects/pando.md, section 6)."""

ASKS_TO_STOP: dict[str, Frame] = {
    "smooth": ask("cancel", "r1", sessionId=ID),
    "pod": CANCEL,
    "pando": {"jsonrpc": "2.0", "id": "1", "method": "session.interrupt", "params": {"session_id": ID}},
    "codewhale": line(9, "thread/interrupt", thread_id=f"thread-{ID}"),
}

IS_REFUSED: dict[str, Frame] = {
    "smooth": {"type": "error", "requestId": None, "error": {"message": REFUSED}},
    "pod": {"event": "error", "data": {"code": "invalid_request", "message": REFUSED}},
    "pando": {"id": "1", "error": {"code": -32000, "message": REFUSED}},
    "codewhale": {"id": 9, "error": {"code": -32603, "message": REFUSED}},
}


async def everybody(made: InMemoryPandoGateway) -> dict[str, MemoryTransport]:
    """Return clients of all dialects in a session of a pando with an open run; the smooth client began it as `r1`."""
    clients = {name: made.join(name) for name in ("smooth", "pod", "codewhale", "pando")}
    clients["subscribers"] = made.join("pando", publishes=True)
    sends(clients["smooth"], ask("get_session", "open", sessionId=ID))
    await made.opens([], row(ID))
    sends(clients["codewhale"], line(1, "thread/resume", thread_id=f"thread-{ID}"))
    sends(clients["smooth"], ask("send_message", "r1", sessionId=ID, message="Hi"))
    await settle()
    await made.answers("message.send", {"ok": True})
    await made.publishes("llm.token", session_id=ID, token="Hel")
    return clients


def sends(client: MemoryTransport, frame: Frame) -> None:
    client.say(json.dumps(frame).encode())


def holds(part: Frame, frame: Frame) -> bool:
    """Return True if a frame has all these fields; None means that a field is absent."""
    same = (holds(v, frame[k]) if isinstance(v, dict) and k in frame else frame.get(k) == v for k, v in part.items())
    return all(same)


@pytest.mark.parametrize("asker", ASKS_TO_STOP)
async def test_a_cancel_refused_by_the_backend_is_reported_to_its_sender_and_the_turn_goes_on(asker: str) -> None:
    async with in_memory_pando_gateway() as made:
        clients = await everybody(made)
        before = {name: len(client.got) for name, client in clients.items()}
        sends(clients[asker], ASKS_TO_STOP[asker])
        await settle()
        await made.answers("session.interrupt", problem=REFUSED)
        news = {name: frames(client)[before[name] :] for name, client in clients.items()}
        (refusal,) = news.pop(asker)
        assert holds(IS_REFUSED[asker], refusal)
        assert not any(news.values()), "nobody else hears of it"
        made.time.passes(Limits().cancel_deadline)
        await made.publishes("llm.token", session_id=ID, token="lo")
        whole = {"id": "m2", "role": "assistant", "content": "Hello", "created_at": ""}
        stored = [{**whole, "id": "m1", "role": "user", "content": "Hi"}, whole]
        await made.answers("message.list", stored)  # whose text is it, after this silence?
        await made.publishes("llm.end", session_id=ID, tokens_in=0, tokens_out=0)
        await made.answers("message.list", stored)
        terminal = frames(clients["smooth"])[-1]
        assert terminal["data"]["data"]["response"]["responseParts"] == ["Hello"]
        assert [f["data"]["text"] for f in frames(clients["pod"]) if f["event"] == "text_done"] == ["Hello"]
        (session,) = made.router.sessions
        assert [(m.role, m.text) for m in session.state.messages()] == [("user", "Hi"), ("assistant", "Hello")]


async def test_a_cancel_that_a_server_does_not_know_ends_the_turn_in_the_gateway() -> None:
    """An unknown action is not a refusal (docs/translation.md, rule 3.4)."""
    async with in_memory_pando_gateway() as made:
        clients = await everybody(made)
        sends(clients["pod"], CANCEL)
        await settle()
        await made.replies("session.interrupt", {"error": {"code": -32601, "message": "ipc: method not found"}})
        assert [f["event"] for f in frames(clients["pod"])][-2:] == ["error", "status"]
        assert frames(clients["smooth"])[-1]["type"] == "cancelled"


# -- a cancelled turn that its backend does not end ------------------------------------------------------


LONG = "x" * 3_000
ENDLESS = (
    say("text_delta", text=LONG),
    say("text_done", text=LONG),
    say("error", code="invalid_request"),
    status("idle"),
)


def cut(made: InMemoryGateway) -> Script:
    """Return a pod client `p` whose turn "$t" was cancelled, and goes on at the smooth server after the deadline."""
    return (
        begun_at_server(made)
        .sends("p", CANCEL)
        .server_receives({"action": "cancel", "requestId": "$x"})
        .passes(Limits().cancel_deadline)
        .receives("p", *CANCELLED)
    )


async def test_the_connection_of_a_turn_that_never_ends_is_closed_and_the_next_input_gets_a_new_one() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await (
            cut(made)
            .passes(Limits().accept_deadline - 1)
            .sends("p", run("Next"))
            .receives("p", say("error", code="already_running", message="$why"))
            .passes(1)
            .sends("p", run("Next"))
            .server_receives(looked_up())
            .server_sends(acknowledged("$get", **CREATED))
            .server_receives({"action": "cancel", "requestId": "$t"}, read_newest())
            .server_sends(page())
            .server_receives(told("$u", "Next"))
        )
        assert len(made.pods) == 2


async def test_the_connection_stays_if_the_turn_ends_before_that() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await (
            cut(made)
            .server_sends(answered("$t", "late"))
            .sends("p", run("Next"))
            .server_receives(told("$u", "Next"))
            .server_sends(taken("$u"))
            .receives("p", echo("Next"), status("running"), say("turn_start"))
            .passes(Limits().accept_deadline)
            .receives("p")
        )
        assert len(made.pods) == 1


async def test_the_connection_of_an_endless_turn_is_closed_too() -> None:
    async with in_memory_gateway(upstream="smooth", limits=Limits(transcript_max=2_000)) as made:
        await (
            made.asks_server("p", "Hi")
            .server_sends(taken("$t"), said("$t", LONG))
            .receives("p", echo("Hi"), status("running"), say("turn_start"), *ENDLESS)
            .server_receives({"action": "cancel", "requestId": "$x"})
            .server_sends(said("$t", "still here"))
            .passes(Limits().accept_deadline)
            .sends("p", run("Next"))
            .server_receives(looked_up())
        )


async def test_a_connection_that_other_sessions_need_is_closed_a_deadline_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await cut(made)
        with monkeypatch.context() as patched:
            patched.setattr(Upstream, "suspend", lambda _self: True)
            await made.script().passes(Limits().accept_deadline)
        assert made.pods[0].transport.is_open()
        await made.script().passes(Limits().accept_deadline)
        assert not made.pods[0].transport.is_open()
