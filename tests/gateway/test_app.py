"""The gateway as a whole, on real sockets: start, shutdown in order, and failures that stay with one peer."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import aiohttp
import pytest
from structlog.testing import capture_logs

from dragoman.adapters.base import Accept, CloseReason
from dragoman.adapters.meter import Meter
from dragoman.gateway import registry
from dragoman.gateway.app import App
from dragoman.gateway.config.model import Config, Limits, Route
from dragoman.gateway.demo.backend import demo_backend
from dragoman.gateway.endpoint import Endpoint, parse
from dragoman.gateway.session.ports import BackendEvents
from dragoman.gateway.session.session import Session
from dragoman.gateway.transports.spec import ListenerCallbacks
from dragoman.mappings.canonical.events import HistorySnapshot, StatusChanged, TextDelta, TurnAccepted, TurnResult
from dragoman.mappings.errors import ConfigError
from tests.gateway.played_backend import PlayedBackend
from tests.idle import settle
from tests.memory_transport import MemoryTransport
from tests.pairs.gateway import DEADLINE, SmoothClient, bridged, serving

LISTEN = "smooth+ws://127.0.0.1:0/ws"


class Backends:
    """A factory that makes the backend of an app's only session and keeps it."""

    def __init__(self) -> None:
        self.one: PlayedBackend

    def __call__(self, session: BackendEvents) -> PlayedBackend:
        assert isinstance(session, Session)
        self.one = PlayedBackend(session)
        return self.one


def app_of(*listen: str, limits: Limits = Limits(), upstream: str = "pod+unix:/nowhere/sock") -> App:  # noqa: B008  # frozen
    route = Route(name="test", listen=tuple(map(parse, listen)), upstream=parse(upstream))
    return App(Config(routes=(route,), limits=limits))


@asynccontextmanager
async def turn(limits: Limits) -> AsyncIterator[tuple[App, PlayedBackend, SmoothClient, str]]:
    """Run an app with a client whose turn runs."""
    backends = Backends()
    async with (
        bridged("pod+unix:/played", limits=limits, make_backend=backends) as (app, url),
        Watched.connected(url) as client,
    ):
        backend = backends.one
        backend.sends(HistorySnapshot(items=(), status="idle"))
        await client.say("Hi")
        command = await backend.asked.get()
        backend.sends(TurnAccepted(request=command.request), StatusChanged(status="running"), TextDelta(text="He"))
        await client.until(lambda: client.frames[-1]["type"] == "stream_token")
        yield app, backend, client, url


class Watched(SmoothClient):
    """A client that reports when its socket was closed."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        super().__init__(socket)
        self.gone = asyncio.Event()

    async def _read(self) -> None:
        await super()._read()
        self.gone.set()


async def closed(client: SmoothClient) -> int | None:
    """Return the code with which the client's socket was closed."""
    assert isinstance(client, Watched)
    async with asyncio.timeout(DEADLINE):
        await client.gone.wait()
    return client.socket.close_code


async def takes_clients(url: str) -> bool:
    """Return True if a server listens at this path."""
    async with aiohttp.ClientSession() as http:
        try:
            async with http.ws_connect(url):
                return True
        except aiohttp.ClientError:  # also one whom the listener, as it closed, let wait in vain
            return False


# -- the beginning -----------------------------------------------------------------------------------


async def test_each_listener_is_reported_with_its_chosen_port(tmp_path: Path) -> None:
    app, told = app_of(LISTEN, f"pod+unix:{tmp_path}/sock"), asyncio.Queue[str]()
    async with asyncio.TaskGroup() as group:
        group.create_task(app.run(told.put_nowait), name="app")
        first, second = await told.get(), await told.get()
        app.stop.set()
    assert first.startswith("smooth+ws://127.0.0.1:")
    assert int(first.removeprefix("smooth+ws://127.0.0.1:").removesuffix("/ws")) > 0
    assert second == f"pod+unix:{tmp_path}/sock"


async def test_the_error_names_a_port_in_use_and_no_process_stays(tmp_path: Path) -> None:
    before = asyncio.all_tasks()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        app = app_of(f"pod+unix:{tmp_path}/sock", f"smooth+ws://127.0.0.1:{port}/ws")
        with pytest.RaisesGroup(pytest.RaisesExc(OSError, match=str(port))):
            await app.run()
    assert asyncio.all_tasks() == before
    assert not (tmp_path / "sock").exists(), "the listener that stood is closed"


async def test_the_error_names_the_missing_directory_of_a_socket(tmp_path: Path) -> None:
    path = f"{tmp_path}/missing/sock"
    app = app_of(LISTEN, f"pod+unix:{path}")
    told: list[str] = []
    with pytest.RaisesGroup(pytest.RaisesExc(ConfigError, match=path)):
        await app.run(told.append)
    assert not await takes_clients(told[0].removeprefix("smooth+"))


async def test_the_socket_of_a_live_process_is_not_replaced(tmp_path: Path) -> None:
    async with bridged("pod+unix:/nowhere/sock", listen=f"pod+unix:{tmp_path}/sock"):
        with pytest.RaisesGroup(pytest.RaisesExc(OSError, match="another process listens here")):
            await app_of(f"pod+unix:{tmp_path}/sock").run()
        assert (tmp_path / "sock").exists()


async def test_a_gateway_in_another_program_leaves_the_garbage_collection_of_that_program_alone() -> None:
    frozen, thresholds = gc.get_freeze_count(), gc.get_threshold()
    async with bridged("pod+unix:/nowhere/sock"):
        assert gc.get_freeze_count() <= frozen, "frozen objects may be freed, but no further ones are frozen"
        assert gc.get_threshold() == thresholds


# -- the end -----------------------------------------------------------------------------------------


async def test_a_stopping_app_tells_its_clients_that_it_goes_away() -> None:
    async with bridged("pod+unix:/nowhere/sock") as (app, url), Watched.connected(url) as client:
        app.stop.set()
        assert await closed(client) == CloseReason.GOING_AWAY


async def test_a_stopping_app_lets_an_open_turn_finish_and_takes_no_new_clients() -> None:
    async with turn(Limits(drain_deadline=DEADLINE)) as (app, backend, client, url):
        app.stop.set()
        while await takes_clients(url):
            await settle()
        backend.sends(TextDelta(text="llo"), TurnResult(end="completed"), StatusChanged(status="idle"))
        assert await closed(client) == CloseReason.GOING_AWAY
        (terminal,) = client.terminals()
        assert terminal["data"]["data"]["response"]["responseParts"] == ["Hello"]
        assert backend.stopped


async def test_a_stopping_app_does_not_wait_for_a_turn_past_its_deadline() -> None:
    async with turn(Limits(drain_deadline=0.05)) as (app, backend, client, _):
        app.stop.set()
        assert await closed(client) == CloseReason.GOING_AWAY
        assert [end["error"]["message"] for end in client.terminals()] == ["the gateway stops"]
        assert backend.stopped


@asynccontextmanager
async def signals() -> AsyncIterator[None]:
    """Remove the signal handlers that an app sets, and the timer that would end the process."""
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
            asyncio.get_running_loop().remove_signal_handler(number)


async def test_a_quit_signal_ends_the_app_at_once_and_removes_its_socket(tmp_path: Path) -> None:
    app = app_of(f"pod+unix:{tmp_path}/sock", limits=Limits(drain_deadline=DEADLINE * 10))

    async def main() -> None:
        app.on_signals()
        await app.run()

    async with signals(), asyncio.TaskGroup() as group:
        running = group.create_task(main(), name="app")
        await app.ready.wait()
        assert (tmp_path / "sock").exists()
        os.kill(os.getpid(), signal.SIGQUIT)
        async with asyncio.timeout(DEADLINE):
            await asyncio.wait([running])
    assert running.cancelled()
    assert not (tmp_path / "sock").exists()


async def test_a_second_signal_ends_the_app_during_a_turn_and_closes_everything(tmp_path: Path) -> None:
    backends, told = Backends(), asyncio.Queue[str]()
    route = Route(name="test", listen=(parse(f"pod+unix:{tmp_path}/sock"),), upstream=parse("pod+unix:/played"))
    app = App(Config(routes=(route,), limits=Limits(drain_deadline=DEADLINE * 10)), make_backend=backends)

    async def main() -> None:
        app.on_signals()
        await app.run(told.put_nowait)

    async with signals(), asyncio.TaskGroup() as group:
        running = group.create_task(main(), name="app")
        await told.get()
        reader, writer = await asyncio.open_unix_connection(tmp_path / "sock")
        assert b"snapshot" in await reader.readline()
        backends.one.sends(TextDelta(text="endless"))
        assert b"endless" in await reader.readuntil(b"endless")
        os.kill(os.getpid(), signal.SIGTERM)
        async with asyncio.timeout(DEADLINE):
            await app.stop.wait()
            assert not running.done()
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.wait([running])
            await reader.read()
        writer.close()
    assert running.cancelled()
    assert backends.one.stopped
    assert not (tmp_path / "sock").exists()


# -- faults ------------------------------------------------------------------------------------------


class InMemoryListener:
    """A listener in memory, to which the test connects peers."""

    address = "memory:"

    def __init__(self) -> None:
        self.accept: Accept
        self.is_open = True

    async def listen(self, endpoint: Endpoint, limits: Limits, callbacks: ListenerCallbacks) -> InMemoryListener:
        self.accept = callbacks.accept
        return self

    async def close(self) -> None:
        self.is_open = False

    def connect(self) -> MemoryTransport:
        peer = MemoryTransport()
        self.accept(peer)
        return peer

    async def connects(self) -> MemoryTransport:
        """Connect a peer, and let the gateway serve or refuse it."""
        peer = self.connect()
        await settle()
        return peer


@asynccontextmanager
async def entered(
    monkeypatch: pytest.MonkeyPatch,
    backends: Backends,
    limits: Limits = Limits(),  # noqa: B008  # frozen
    listen: str = "pod+unix:/memory",
) -> AsyncIterator[tuple[App, InMemoryListener]]:
    """Run an app whose listener is in memory."""
    listener = InMemoryListener()
    monkeypatch.setattr(registry, "listen", listener.listen)
    route = Route(name="test", listen=(parse(listen),), upstream=parse("pod+unix:/played"))
    app = App(Config(routes=(route,), limits=limits), make_backend=backends)
    async with asyncio.timeout(DEADLINE), asyncio.TaskGroup() as group:
        group.create_task(app.run(), name="app")
        await settle()
        yield app, listener
        app.stop.set()


async def test_a_client_above_the_limit_is_refused_and_counted_until_another_one_leaves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    backends = Backends()
    async with entered(monkeypatch, backends, Limits(links=1)) as (app, listener):
        backends.one.session.pending.note_history()
        inside = listener.connect()
        refused = await listener.connects()
        assert inside.is_open()
        assert refused.closed is CloseReason.FULL
        (error,) = [json.loads(frame) for frame in refused.got]
        assert (error["event"], error["data"]["code"]) == ("error", "already_running")
        assert "`links`" in error["data"]["message"]
        (row,) = [entry for entry in app.ledger.entries() if entry.kind == "link"]
        assert (row.target, row.count) == ("pod", 1)
        await inside.hangs_up()
        later = await listener.connects()
        assert later.is_open()
        assert b'"snapshot"' in later.got[0]


async def test_above_four_fifths_of_the_memory_a_new_client_is_refused_and_the_others_are_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    backends = Backends()
    async with entered(monkeypatch, backends, Limits(memory=1024 * 1024)) as (_, listener):
        backends.one.session.pending.note_history()
        inside = await listener.connects()
        inside.meter.add(900 * 1024)
        refused = await listener.connects()
        assert (inside.is_open(), refused.closed) == (True, CloseReason.FULL)
        (error,) = [json.loads(frame) for frame in refused.got]
        assert error["data"]["code"] == "already_running"
        assert "`memory`" in error["data"]["message"]
        inside.meter.add(-900 * 1024)
        later = await listener.connects()
        assert later.is_open()


async def test_the_time_in_which_the_listeners_close_is_a_part_of_the_drain_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop, late = asyncio.get_running_loop(), DEADLINE / 2
    backends, limits, clock = Backends(), Limits(drain_deadline=late), loop.time

    async def close_slowly(listener: InMemoryListener) -> None:
        listener.is_open = False
        monkeypatch.setattr(loop, "time", lambda: clock() + late)

    monkeypatch.setattr(InMemoryListener, "close", close_slowly)
    async with entered(monkeypatch, backends, limits) as (app, listener):
        backends.one.session.pending.note_history()
        peer = await listener.connects()
        backends.one.sends(TextDelta(text="endless"))
        app.stop.set()
        while peer.is_open():
            await settle()


async def test_at_the_limit_the_largest_client_gets_the_reason_and_is_disconnected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    backends = Backends()
    async with entered(monkeypatch, backends, Limits(memory=1024 * 1024)) as (app, listener):
        backends.one.session.pending.note_history()
        innocent, greedy = listener.connect(), await listener.connects()
        innocent.meter.add(300 * 1024)
        greedy.meter.add(800 * 1024)
        await settle()
        assert (innocent.is_open(), greedy.closed, greedy.discarded) == (True, CloseReason.FULL, True)
        said = [json.loads(frame) for frame in greedy.got]
        assert said[1]["data"]["code"] == "already_running"
        assert "`memory`" in said[1]["data"]["message"]
        assert "`memory`" in greedy.close_text
        assert app.ledger.counters["links_cut_out_of_memory"] == 1
        assert app.memory.used < 1024 * 1024


async def test_an_address_that_connects_too_often_is_refused_before_its_handshake() -> None:
    limits = Limits(connection_rate=0.001, connection_burst=2)
    async with bridged("pod+unix:/nowhere/sock", limits=limits) as (_, url), aiohttp.ClientSession() as http:
        for _ in range(2):
            async with http.ws_connect(url):
                pass
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await http.ws_connect(url)
        assert refused.value.status == 503


async def test_a_codewhale_client_too_many_gets_an_error_line_without_an_id(monkeypatch: pytest.MonkeyPatch) -> None:
    async with entered(monkeypatch, Backends(), Limits(address_links=1), "codewhale+unix:/memory") as (_, listener):
        first, refused = listener.connect(), await listener.connects()
        assert (first.is_open(), refused.closed) == (True, CloseReason.FULL)
        line = json.loads(refused.got[0])
        assert (line["id"], line["error"]["code"]) == (None, -32603)
        assert "`address_links`" in line["error"]["message"]


async def test_an_address_with_too_many_clients_is_refused_until_one_of_them_leaves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    backends = Backends()
    async with entered(monkeypatch, backends, Limits(address_links=1)) as (_, listener):
        backends.one.session.pending.note_history()
        first, refused = listener.connect(), await listener.connects()
        assert (first.is_open(), refused.closed) == (True, CloseReason.FULL)
        assert b"`address_links`" in refused.got[0]
        await first.hangs_up()
        later = await listener.connects()
        assert later.is_open()


async def test_without_memory_for_it_no_session_is_opened() -> None:
    limits = Limits(memory=1024 * 1024)
    async with (
        bridged("smooth+ws://127.0.0.1:9/ws", limits=limits) as (app, url),
        aiohttp.ClientSession() as http,
        http.ws_connect(url) as client,
    ):
        held = Meter()
        app.memory.watch(held, lambda: None)
        held.add(900 * 1024)
        await client.send_json({"action": "create_conversation_session", "agentId": str(uuid4()), "requestId": "r"})
        refused = await client.receive_json()
        assert refused["type"] == "error"
        assert "`memory`" in json.dumps(refused)
        assert app.routers[0].sessions == []


async def test_a_smooth_client_above_the_limit_is_closed_with_1013() -> None:
    async with (
        bridged("pod+unix:/nowhere/sock", limits=Limits(links=1)) as (_, url),
        Watched.connected(url),
        aiohttp.ClientSession() as http,
        http.ws_connect(url) as late,
    ):
        assert (await late.receive_json())["type"] == "error"
        await late.receive()
        assert late.close_code == 1013


async def test_a_failure_while_attaching_disconnects_only_that_client(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    backends = Backends()
    async with entered(monkeypatch, backends) as (_, listener):
        backends.one.failures = 1
        with capture_logs() as logs:
            unlucky = await listener.connects()
        assert unlucky.closed is CloseReason.INTERNAL
        assert "link failed, disconnecting the peer" in [entry["event"] for entry in logs]
        backends.one.session.pending.note_history()
        lucky = await listener.connects()
        assert lucky.is_open()
        assert b'"snapshot"' in lucky.got[0]
        assert len(backends.one.session.delivery.attachments) == 1


async def test_a_client_that_connects_while_the_app_closes_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    async with entered(monkeypatch, Backends()) as (app, listener):
        inside = await listener.connects()
        closing: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        async def close(reason: CloseReason = CloseReason.DONE, text: str = "") -> None:
            await closing

        inside.close = close  # type: ignore[method-assign]  # a peer that is slow to go
        app.stop.set()
        await settle()
        assert not listener.is_open
        late = await listener.connects()
        assert late.closed is CloseReason.GOING_AWAY
        closing.set_result(None)


async def test_a_disconnected_client_leaves_no_state(monkeypatch: pytest.MonkeyPatch) -> None:
    backends = Backends()
    async with entered(monkeypatch, backends) as (app, listener):
        peer = await listener.connects()
        assert len(app.links) == 1
        await peer.hangs_up()
        assert app.links == []
        assert backends.one.session.delivery.attachments == {}


@pytest.mark.parametrize(
    ("backend", "told"),
    [
        ("pod+unix:{}/b", [("OpenSession", "supports")]),  # which these clients send
        ("smooth+ws://127.0.0.1:0/ws", []),
        ("codewhale+unix:{}/b", [("OpenSession", "agent, supports"), ("SubmitInput", "ext.allowed_tools")]),
    ],
)
async def test_the_log_of_a_chat_without_losses_mentions_no_loss(
    backend: str, told: list[tuple[str, str]], tmp_path: Path
) -> None:
    with capture_logs() as logs:
        async with (
            serving(demo_backend(parse(backend.format(tmp_path)))) as (endpoint,),
            bridged(endpoint) as (_app, url),
            SmoothClient.connected(url) as client,
        ):
            await client.turn("count 3")
    losses = [entry for entry in logs if entry["event"] in ("not delivered", "delivered without some fields")]
    assert [(entry["kind"], entry["field"]) for entry in losses if entry["log_level"] != "debug"] == told


async def test_losses_are_logged_at_the_end() -> None:
    with capture_logs() as logs:
        async with turn(Limits(drain_deadline=0.05)) as (_, backend, _, _):
            backend.sends(TurnAccepted(request="nobody's"))
    assert logs[-1]["event"] == "stopped"
    assert [entry["kind"] for entry in logs if entry["event"] == "not delivered" and entry["log_level"] == "info"] == [
        "TurnAccepted"
    ]
