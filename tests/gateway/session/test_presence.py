"""Presence: callers and subscribers keep no session awake, and a session without clients is suspended after a while."""

from __future__ import annotations

import json

import pytest
from structlog.testing import capture_logs

from dragoman.adapters.base import CloseReason
from dragoman.gateway.link import COUNTED
from dragoman.gateway.session.delivery import Delivery
from dragoman.gateway.session.ports import Client
from dragoman.gateway.session.session import Session
from dragoman.mappings.canonical.values import Message
from tests.gateway.backends.in_memory_pando import InMemoryPandoGateway, frames, in_memory_pando_gateway, row
from tests.gateway.in_memory import in_memory_gateway
from tests.gateway.pod_messages import answer_entry, snapshot
from tests.idle import settle
from tests.memory_transport import MemoryTransport

ONE = "0b0e9b0e-0000-4000-8000-000000000001"
TTL = 3600.0  # docs/design.md, section 5


async def called(made: InMemoryPandoGateway, method: str, **params: object) -> MemoryTransport:
    caller = made.join("pando")
    await caller.says(json.dumps({"jsonrpc": "2.0", "id": "1", "method": method, "params": params}).encode())
    return caller


async def test_a_caller_is_answered_and_attached_to_nothing() -> None:
    async with in_memory_pando_gateway() as made:
        caller = await called(made, "session.get", session_id=ONE)
        await made.begins(row(ONE))
        (session,) = made.router.sessions
        (reply,) = frames(caller)
        assert (reply["id"], reply["result"]["id"]) == ("1", ONE)
        assert session.presence.links == []


async def test_a_call_that_counts_the_messages_of_a_session_takes_their_work(monkeypatch: pytest.MonkeyPatch) -> None:
    spent: list[int] = []
    async with in_memory_pando_gateway() as made:
        await called(made, "session.get", session_id=ONE)
        await made.begins(row(ONE))
        (session,) = made.router.sessions
        session.state.transcript += [Message(role="user", text="x")] * 1000
        monkeypatch.setattr(made.services.queue, "spend", spent.append)
        caller = await called(made, "session.get", session_id=ONE)
        assert frames(caller)[-1]["result"]["message_count"] == 1000
        assert sum(spent) >= 1000 * COUNTED > 0


async def test_a_session_that_a_caller_only_read_rests_after_its_time() -> None:
    async with in_memory_pando_gateway() as made:
        await called(made, "session.get", session_id=ONE)
        await made.begins(row(ONE))
        (session,) = made.router.sessions
        suspended: list[Session] = []
        made.router.watch(suspended.append)
        made.time.passes(TTL - 1)
        assert suspended == []
        made.time.passes(1)
        assert suspended == [session]


async def test_a_subscriber_to_everything_keeps_no_session_awake() -> None:
    async with in_memory_pando_gateway() as made:
        await called(made, "session.list")
        await made.begins()
        await made.publishes("session.update", **row(ONE))
        made.join("pando", publishes=True)
        await settle()
        (session,) = made.router.sessions
        assert (len(session.presence.links), session.presence.has_no_clients) == (1, True)
        assert made.asked() == [], "nobody looks at it: its history is not asked for"


async def test_a_pod_client_keeps_its_session_awake() -> None:
    async with in_memory_pando_gateway() as made:
        made.join("pod")
        await made.opens([], row(ONE))
        (session,) = made.router.sessions
        assert not session.presence.has_no_clients
        assert TTL not in made.time.waiting


async def test_a_client_that_cannot_be_shown_a_session_is_disconnected_and_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    attach = Delivery.attach

    def fail_for_pods(delivery: Delivery, link: Client, request: str) -> None:
        if link.dialect.name == "pod":
            raise ValueError("a rule of pod is wrong")
        attach(delivery, link, request)

    monkeypatch.setattr(Delivery, "attach", fail_for_pods)
    async with in_memory_pando_gateway() as made:
        pod, subscriber = made.join("pod"), made.join("pando", publishes=True)
        with capture_logs() as logs:
            await made.begins(row(ONE))
            await made.time.elapses(made.services.limits.snapshot_wait)
        assert (pod.closed, subscriber.closed) == (CloseReason.INTERNAL, None)
        assert "cannot show a session to a client, disconnecting it" in [line["event"] for line in logs]
        (session,) = made.router.sessions
        assert len(session.presence.links) == 1


async def test_a_client_that_waits_to_be_shown_a_session_and_is_attached_meanwhile_is_shown_it_once() -> None:
    async with in_memory_pando_gateway() as made:
        first = made.join("pod")
        await made.opens([], row(ONE))
        (session,) = made.router.sessions
        (link,) = session.presence.links
        session.presence.detach(link)
        shown = len(frames(first))
        made.services.queue.budget.left = 0
        session.presence.enter(link)
        assert session.presence.links == []
        session.presence.attach(link)
        await settle()
        assert [frame["event"] for frame in frames(first)[shown:]].count("segment_rotated") == 1


async def test_pod_clients_that_join_a_long_history_share_its_rendering_and_are_shown_it_before_their_answers() -> None:
    async with in_memory_gateway() as gateway:
        first = gateway.join("first", dialect="pod")
        await gateway.settle()
        gateway.pod.sends(snapshot(*(answer_entry("x" * 100_000) for _ in range(20))))
        await gateway.settle()
        others = [gateway.join(f"pod-{number}", dialect="pod") for number in range(3)]
        for other in others:
            other.sends({"method": "list_completions", "params": {"kind": "file", "prefix": "x"}})
        await gateway.settle()
        line = first.transport.got[0]
        assert (len(line) > 2_000_000, line.startswith(b'{"event":"snapshot"')) == (True, True)
        assert all(other.transport.got[0] is line for other in others)
        asked = [frame for frame in gateway.pod.news() if frame.get("method") == "list_completions"]
        assert len(asked) == len(others)
        assert list(gateway.session.state.rendered) == ["pod"]
        for client in (first, *others):
            client.transport.hang_up()
        await gateway.settle()
        assert (gateway.session.presence.has_no_clients, gateway.session.state.rendered) == (True, {})
