"""Our client against the server of the websockets library, and against raw TCP servers that behave badly."""

from __future__ import annotations

import asyncio
import base64
import gc
import hashlib
import re
import socket
import ssl
import threading
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientResponse, ClientSession
from aiohttp.connector import Connection
from websockets.asyncio.server import ServerConnection, serve

from dragoman.adapters.base import CloseReason, TransportLimits
from dragoman.adapters.websocket import DialledTransport, client, connect
from tests.adapters.websocket.peers import (
    DEADLINE,
    LIMITS,
    RawPeer,
    flood,
    refused,
    serving,
    some,
    stalled,
)
from tests.reserved_ports import reserved_port
from tests.transport_reader import receive, receive_all

PEM = Path(__file__).parent / "localhost.pem"
MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455, section 1.3


@asynccontextmanager
async def nothing_left() -> AsyncIterator[None]:
    """Check that the block ends within the deadline and leaves no task and no unclosed resource, which would warn when
    collected.
    """
    before = asyncio.all_tasks()
    async with asyncio.timeout(DEADLINE):
        yield
        if left := asyncio.all_tasks() - before:  # of the servers, whose connections have just ended
            await asyncio.wait(left)
    gc.collect()


@asynccontextmanager
async def other(
    tls: ssl.SSLContext | None = None, host: str = "127.0.0.1"
) -> AsyncIterator[tuple[str, asyncio.Queue[ServerConnection]]]:
    """Run a server of the websockets library with its own defaults; yield its address and its connections."""
    connections: asyncio.Queue[ServerConnection] = asyncio.Queue()

    async def handle(connection: ServerConnection) -> None:
        connections.put_nowait(connection)
        await connection.wait_closed()

    async with nothing_left(), serve(handle, host, 0, max_size=None, ping_interval=None, ssl=tls) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        yield f"{'wss' if tls else 'ws'}://{host}:{port}/ws?token=secret", connections


@asynccontextmanager
async def dialled(limits: TransportLimits = LIMITS) -> AsyncIterator[tuple[ServerConnection, DialledTransport]]:
    """Yield a connection of the websockets library, and the transport of ours that dialled it."""
    async with other() as (url, connections):
        ours = await connect(url, limits)
        try:
            yield await connections.get(), ours
        finally:
            await ours.close()
            assert ours._session.closed


Answer = Callable[[RawPeer, bytes], Awaitable[None]]


@asynccontextmanager
async def answering(answer: Answer) -> AsyncIterator[str]:
    """Run a TCP server that answers each request with the given bytes; the answer may depend on the request's head."""
    writers: list[asyncio.StreamWriter] = []

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            await answer(RawPeer(reader, writer, masks=False), await reader.readuntil(b"\r\n\r\n"))

    async with nothing_left():
        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        try:
            yield f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/ws?token=secret"
        finally:
            server.close()
            for writer in writers:
                writer.transport.abort()
                with suppress(ConnectionError):
                    await writer.wait_closed()


def upgrade(request: bytes) -> bytes:
    key = re.search(rb"(?i)sec-websocket-key: *(\S+)", request)
    assert key is not None
    accept = base64.b64encode(hashlib.sha1(key[1] + MAGIC).digest())
    head = (b"HTTP/1.1 101 x", b"Upgrade: websocket", b"Connection: Upgrade", b"Sec-WebSocket-Accept: " + accept)
    return b"\r\n".join((*head, b"", b""))


@asynccontextmanager
async def raw(limits: TransportLimits = LIMITS) -> AsyncIterator[tuple[RawPeer, DialledTransport]]:
    peers: asyncio.Queue[RawPeer] = asyncio.Queue()

    async def answer(peer: RawPeer, request: bytes) -> None:
        peer.writer.write(upgrade(request))
        peers.put_nowait(peer)

    async with answering(answer) as url:
        ours = await connect(url, limits)
        peer = await peers.get()
        try:
            yield peer, ours
        finally:
            peer.writer.transport.abort()
            await ours.close()
            assert ours._session.closed


async def failure(url: str) -> OSError:
    with pytest.raises(OSError, match="ws") as caught:
        await connect(url, LIMITS)
    return caught.value


# -- frames --------------------------------------------------------------------------------------------


async def test_frames_go_both_ways_as_text() -> None:
    async with dialled() as (peer, ours):
        await ours.send([b'{"action":"ping"}', "é".encode()])
        assert [await peer.recv(), await peer.recv()] == ['{"action":"ping"}', "é"]
        await peer.send('{"type":"pong"}')
        assert await receive(ours) == [b'{"type":"pong"}']


async def test_the_largest_limit_that_a_configuration_may_set_works_at_both_ends() -> None:
    limits = TransportLimits(max_message=1 << 29)
    async with serving(limits) as server:
        ours = await connect(server.url, limits)
        await ours.send([b"{}"])
        assert await receive(await server.next()) == [b"{}"]
        await ours.close()


async def test_frames_that_come_with_the_answer_to_the_handshake_are_not_lost() -> None:
    async def answer(peer: RawPeer, request: bytes) -> None:
        peer.writer.write(upgrade(request) + b"\x81\x03one\x81\x03two")

    async with answering(answer) as url:
        ours = await connect(url, TransportLimits(close_deadline=0.05))
        assert await some(ours, 2) == [b"one", b"two"]
        await ours.close()


# -- the end -------------------------------------------------------------------------------------------


async def test_a_close_that_is_cancelled_leaves_nothing_open() -> None:
    async with raw(TransportLimits(close_deadline=DEADLINE)) as (peer, ours), asyncio.TaskGroup() as group:
        closing = group.create_task(ours.close())
        await peer.reader.readexactly(8)
        closing.cancel()
        await asyncio.wait((closing,))
        assert ours._session.closed
        assert await peer.until_end() == b""


async def test_after_the_end_the_same_server_is_dialled_again() -> None:
    async with other() as (url, connections):
        for reason in (CloseReason.DONE, CloseReason.GOING_AWAY):
            ours = await connect(url, LIMITS)
            peer = await connections.get()
            await peer.send("hello")
            assert await receive(ours) == [b"hello"]
            peer.transport.abort()
            assert await receive(ours) == []
            await ours.close(reason)


# -- back-pressure -------------------------------------------------------------------------------------


async def test_send_does_not_return_while_more_than_the_mark_waits() -> None:
    limits = TransportLimits(send_high=64 * 1024, close_deadline=0.05)
    async with raw(limits) as (peer, ours), asyncio.TaskGroup() as group:
        first = group.create_task(flood(ours))
        await stalled(ours, limits.send_high)
        first.cancel()
        sending = group.create_task(ours.send([b"one"]))
        await asyncio.sleep(0)
        waiting = ours._tcp.get_write_buffer_size()  # on a busy machine the kernel may take more only now
        assert not sending.done() or waiting <= limits.send_high
        while not sending.done():
            await peer.reader.read(1 << 16)
        assert ours._tcp.get_write_buffer_size() <= limits.send_high


# -- the handshake -------------------------------------------------------------------------------------


async def test_the_request_has_the_token_and_neither_origin_nor_extensions() -> None:
    async with dialled() as (peer, _):
        assert peer.request is not None
        assert peer.request.path == "/ws?token=secret"
        assert "Origin" not in peer.request.headers
        assert "Sec-WebSocket-Extensions" not in peer.request.headers


async def test_a_name_is_looked_up_in_a_thread_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[str] = []

    def find(*_: object, **__: object) -> list[object]:
        threads.append(threading.current_thread().name)
        raise socket.gaierror(socket.EAI_NONAME, "no such name")

    monkeypatch.setattr("socket.getaddrinfo", find)
    with pytest.raises(OSError, match="no such name"):
        await connect("ws://backend.example:1/ws", LIMITS)
    assert threads == ["lookup"]


async def test_dialling_a_port_without_a_listener_raises_connection_refused() -> None:
    async with other() as (url, _):
        pass
    error = await failure(url)
    assert isinstance(error, ConnectionRefusedError)
    assert error.strerror == "nothing listens there; start the backend, or correct the address"
    assert error.filename == url.replace("secret", "***")


@pytest.mark.parametrize(
    "url", ["ws:///ws", "ws://host:99999/", "ws://[::1/", "http://127.0.0.1:1/", "tcp://host:1", ""]
)
async def test_an_invalid_websocket_url_is_reported_as_such(url: str) -> None:
    with pytest.raises(OSError, match=re.escape(f"{url}: this is not a WebSocket URL")):
        await connect(url, LIMITS)


async def test_an_impossible_host_name_is_an_os_error() -> None:
    assert str(await failure(f"ws://{'a' * 64}.example:1/")).startswith(f"ws://{'a' * 64}.example:1/: ")


def answered(status: str, *headers: str, body: str = "") -> bytes:
    return "\r\n".join((f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(body)}", "", body)).encode()


PLAIN, UPGRADE = "Content-Type: text/plain", ("Upgrade: websocket", "Connection: Upgrade")
NONE = "the server did not answer with a WebSocket: "
REFUSALS = {
    "its first line": (answered("404 Not Found", PLAIN, body="one\ntwo"), "refused with HTTP 404 Not Found: one"),
    "no page": (answered("401 No", "Content-Type: text/html", body="<html>"), "refused with HTTP 401 No"),
    "no body": (answered("200 OK"), "refused with HTTP 200 OK"),
    "no token": (answered("401 No", PLAIN, body="token=secret?"), "refused with HTTP 401 No: token=***"),
    "no end": (answered("403 No", PLAIN, body="\x1b[1m" + "x" * 5000), "refused with HTTP 403 No: "),
    "elsewhere": (
        answered("302 Found", "Location: wss://other/ws?token=secret"),
        "refused with HTTP 302 Found: go to wss://other/ws?token=***",
    ),
    "no handshake": (
        answered("101 x", *UPGRADE),
        NONE + "its `Sec-WebSocket-Accept` does not fit the request",
    ),
    "no HTTP": (b"SSH-2.0-OpenSSH\r\n\r\n", NONE + "Bad status line"),
}


@pytest.mark.parametrize(("answer", "said"), REFUSALS.values(), ids=REFUSALS)
async def test_the_error_of_a_refused_handshake_quotes_the_server_in_one_line(answer: bytes, said: str) -> None:
    async def refuse(peer: RawPeer, _: bytes) -> None:
        peer.writer.write(answer)

    async with answering(refuse) as url:
        text = str(await failure(url))
        assert text.startswith(f"{url.replace('secret', '***')}: {said}")
        assert "secret" not in text
        assert text.isprintable()
        assert len(text) < 300


async def test_a_refused_handshake_without_its_body_is_still_reported() -> None:
    async def refuse(peer: RawPeer, _: bytes) -> None:
        peer.writer.write(b"HTTP/1.1 401 x\r\nContent-Length: 9\r\nContent-Type: text/plain\r\n\r\n")

    async with answering(refuse) as url:
        with pytest.raises(OSError, match=r"refused with HTTP 401 x$"):
            await connect(url, TransportLimits(close_deadline=0.05))


async def test_a_server_that_sends_interim_responses_without_end_is_given_up() -> None:
    async def go_on(peer: RawPeer, _: bytes) -> None:
        with suppress(ConnectionError):
            while True:
                peer.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n" * 1000)
                await peer.writer.drain()

    async with answering(go_on) as url:
        assert str(await failure(url)).endswith(f": {NONE}its response is larger than 16384 bytes")


async def test_frames_behind_a_large_answer_to_the_handshake_are_not_lost() -> None:
    async def answer(peer: RawPeer, request: bytes) -> None:
        peer.writer.write(b"HTTP/1.1 103 x\r\n\r\n" + upgrade(request) + b"\x81\x03one" * 4096)

    async with answering(answer) as url:
        ours = await connect(url, TransportLimits(close_deadline=0.05))
        assert await some(ours, 4096) == [b"one"] * 4096
        await ours.close()


async def test_our_own_listener_names_the_right_path() -> None:
    async with nothing_left(), serving() as server:
        text = str(await failure(server.url + "/other?token=secret"))
        assert "HTTP 404 Not Found: nothing at '/ws/other': open a WebSocket at /ws" in text


async def test_a_server_that_disconnects_instead_of_answering_is_reported() -> None:
    async def vanish(peer: RawPeer, _: bytes) -> None:
        peer.writer.close()

    async with answering(vanish) as url:
        told = "the server closed the connection during the handshake; is it a wss: address?"
        assert str(await failure(url)).endswith(f": {told}")


@pytest.mark.parametrize("how", ["close", "abort"])
async def test_a_server_that_disconnects_right_after_its_answer_raises_no_other_exception(how: str) -> None:
    async def vanish(peer: RawPeer, request: bytes) -> None:
        peer.writer.write(upgrade(request) + b"\x81\x03one")
        getattr(peer.writer.transport, how)()

    async with answering(vanish) as url:
        try:
            ours = await connect(url, LIMITS)
        except OSError as error:
            said = str(error)
            assert "it closed the connection" in said or "Connection reset" in said
        else:
            assert await receive_all(ours) in ([b"one"], [])
            await refused(ours.send([b"anybody?"]))
            await ours.close()


async def test_frames_of_a_server_that_is_gone_before_connect_returns_are_received(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    original = ClientSession._request

    async def late(self: ClientSession, method: str, url: str, **options: Any) -> ClientResponse:
        made = await original(self, method, url, **options)
        assert made.connection is not None
        while made.connection.transport is not None:  # noqa: ASYNC110  # its future must not be made here
            await asyncio.sleep(0)
        return made

    async def vanish(peer: RawPeer, request: bytes) -> None:
        peer.writer.write(upgrade(request) + b"\x81\x03one")
        peer.writer.transport.abort()

    monkeypatch.setattr(ClientSession, "_request", late)
    async with answering(vanish) as url:
        ours = await connect(url, LIMITS)
        assert await receive_all(ours) == [b"one"]
        await refused(ours.send([b"anybody?"]))
        await ours.close()


async def test_a_server_that_is_gone_before_its_answer_is_read_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    original = ClientResponse.start

    async def late(self: ClientResponse, connection: Connection) -> ClientResponse:
        response = await original(self, connection)
        while connection.transport is not None:  # noqa: ASYNC110  # nobody sets an event for it
            await asyncio.sleep(0)
        return response

    async def vanish(peer: RawPeer, request: bytes) -> None:
        peer.writer.write(upgrade(request))
        peer.writer.transport.abort()

    monkeypatch.setattr(ClientResponse, "start", late)
    async with answering(vanish) as url:
        assert "the server closed the connection during the handshake" in str(await failure(url))


async def test_an_unknown_host_is_reported_as_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    async def resolve(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr("aiohttp.connector.DefaultResolver.resolve", resolve)
    async with nothing_left():
        text = str(await failure("ws://host.example:1/?token=secret"))
        cause = "unknown host: Name or service not known"
        assert text == f"ws://host.example:1/?token=***: {cause}"


async def test_a_connect_that_is_cancelled_leaves_nothing_open() -> None:
    asked = asyncio.Event()
    ended = asyncio.Event()

    async def never(peer: RawPeer, _: bytes) -> None:
        asked.set()
        await peer.until_end()
        ended.set()

    async with answering(never) as url, asyncio.TaskGroup() as group:
        dialling = group.create_task(connect(url, LIMITS))
        await asked.wait()
        dialling.cancel()
        await ended.wait()
        await asyncio.wait((dialling,))
        assert dialling.cancelled()


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("ws://h:1/?token=a.b-c&x=1", "ws://h:1/?token=***&x=1"),
        ("ws://h:1/?x=1&access_token=a%20b#c", "ws://h:1/?x=1&access_token=***#c"),
        ("ws://h:1/?Token=a", "ws://h:1/?Token=***"),
        ("ws://user:word@h:1/", "ws://***@h:1/"),
    ],
)
async def test_no_error_shows_a_token_or_a_password(url: str, shown: str) -> None:
    with pytest.raises(OSError, match=re.escape(f"http{shown[2:]}: ")):
        await connect(f"http{url[2:]}", LIMITS)


# -- TLS -----------------------------------------------------------------------------------------------


@pytest.fixture
def tls() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(PEM)
    return context


@pytest.fixture
def trusting(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Trust the test's certificate as if an authority of this machine had signed it."""
    monkeypatch.setenv("SSL_CERT_FILE", str(PEM))
    client._certificates.cache_clear()
    yield
    client._certificates.cache_clear()


@pytest.mark.usefixtures("trusting")
async def test_a_server_that_is_trusted_is_dialled_over_tls(tls: ssl.SSLContext) -> None:
    async with other(tls) as (url, connections):
        ours = await connect(url, LIMITS)
        peer = await connections.get()
        await ours.send([b"x" * 100_000, b"two"])
        assert [await peer.recv(decode=False), await peer.recv()] == [b"x" * 100_000, "two"]
        await peer.send("three")
        assert await receive(ours) == [b"three"]
        await ours.close(CloseReason.GOING_AWAY, "because")
        await peer.wait_closed()
        assert (peer.close_code, peer.close_reason) == (1001, "because")


async def test_a_server_that_is_not_trusted_is_refused(tls: ssl.SSLContext) -> None:
    async with other(tls) as (url, _):
        text = str(await failure(url))
        assert "the server's certificate is not accepted: " in text
        assert "self-signed certificate; if you trust who has signed it, name that certificate with ca=FILE" in text
        assert "secret" not in text


@pytest.mark.usefixtures("trusting")
async def test_a_server_whose_certificate_has_another_name_is_refused_with_a_hint(tls: ssl.SSLContext) -> None:
    async with other(tls, "127.0.0.2") as (url, _):
        text = str(await failure(url))
        assert "certificate is not valid for '127.0.0.2'; write the host as the certificate names it" in text


async def test_a_server_that_does_not_speak_tls_is_reported() -> None:
    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()

    async with nothing_left():
        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        text = str(await failure(f"wss://127.0.0.1:{server.sockets[0].getsockname()[1]}/ws?token=secret"))
        server.close()
        assert text.endswith(": the server does not speak TLS; is it a ws: address?")
        assert "secret" not in text


async def test_a_connection_that_the_server_dropped_is_freed_without_the_garbage_collector() -> None:
    async def drop(peer: RawPeer, request: bytes) -> None:
        peer.writer.write(upgrade(request))
        await peer.writer.drain()
        peer.writer.transport.abort()

    async with answering(drop) as url:
        gc.disable()
        try:
            ours = await connect(url, LIMITS)
            freed = weakref.ref(ours)
            assert await receive_all(ours) == []
            await ours.close()
            del ours
            assert freed() is None
        finally:
            gc.enable()


async def test_a_refused_connection_leaves_nothing_to_the_garbage_collector() -> None:
    with reserved_port() as port:
        await failure(f"ws://127.0.0.1:{port}/ws")  # fills caches of libraries
        gc.collect()
        gc.disable()
        try:
            with suppress(OSError):
                await connect(f"ws://127.0.0.1:{port}/ws", LIMITS)
            assert gc.collect() == 0
        finally:
            gc.enable()
