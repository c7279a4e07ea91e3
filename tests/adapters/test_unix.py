"""The Unix socket adapter: both sides, and raw sockets as peers that behave badly."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import stat
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dragoman.adapters.base import CloseReason, Listener, Transport, TransportLimits
from dragoman.adapters.lines import LineSplitter
from dragoman.adapters.unix import (
    LINGER_BYTES,
    LINGERING_MAX,
    READ_SIZE,
    SUN_PATH,
    SocketFile,
    UnixTransport,
    alive,
    bind_socket,
    connect,
    listen,
)
from dragoman.mappings.dialect import Frame, Oversize
from dragoman.mappings.errors import ConfigError
from tests.idle import run_turns, settle
from tests.transport_reader import receive, receive_all

DEADLINE = 20.0  # what should happen at once happens far below
LIMITS = TransportLimits(close_deadline=1.0)


class Server:
    """A listener, and the transports that it has accepted."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.accepted: asyncio.Queue[Transport] = asyncio.Queue()
        self.transports: list[Transport] = []
        self.listener: Listener

    def accept(self, transport: Transport) -> None:
        self.transports.append(transport)
        self.accepted.put_nowait(transport)

    async def next(self) -> UnixTransport:
        transport = await self.accepted.get()
        assert isinstance(transport, UnixTransport)
        return transport


@asynccontextmanager
async def serving(
    folder: Path, limits: TransportLimits = LIMITS, accept: Callable[[Transport], None] | None = None
) -> AsyncIterator[Server]:
    """Run a listener; close its transports at the end within the deadline, and check that no task is left."""
    before = asyncio.all_tasks()
    async with asyncio.timeout(DEADLINE):
        server = Server(str(folder / "sock"))
        server.listener = await listen(server.path, limits, accept or server.accept)
        try:
            yield server
        finally:
            await server.listener.close()
            for transport in server.transports:
                await transport.close()
        if left := asyncio.all_tasks() - before:  # asyncio's own task that accepts; it ends by itself
            await asyncio.wait(left)


@asynccontextmanager
async def dialled(
    server: Server, limits: TransportLimits = LIMITS
) -> AsyncIterator[tuple[UnixTransport, UnixTransport]]:
    """Connect; return our client's transport and the accepted one."""
    client = await connect(server.path, limits)
    try:
        yield client, await server.next()
    finally:
        await client.close()


def raw(path: str) -> socket.socket:
    peer = socket.socket(socket.AF_UNIX)
    peer.connect(path)
    return peer


async def refused(sending: Coroutine[None, None, None]) -> None:
    with pytest.raises(ConnectionError):
        await sending


async def send_forever(transport: Transport) -> None:
    while True:
        await transport.send([b"anybody?"])
        await run_turns(1)


async def test_frames_go_both_ways(tmp_path: Path) -> None:
    async with serving(tmp_path) as server, dialled(server) as (client, ours):
        await client.send([b'{"method":"run"}'])
        assert await receive(ours) == [b'{"method":"run"}']
        await ours.send([b'{"event":"status"}'])
        assert await receive(client) == [b'{"event":"status"}']


async def test_all_frames_of_one_send_arrive_in_order(tmp_path: Path) -> None:
    frames = [b'{"n":%d}' % n for n in range(10_000)]
    async with serving(tmp_path) as server, dialled(server) as (client, ours):
        async with asyncio.TaskGroup() as group:
            reading = group.create_task(receive_all(client))
            for start in range(0, len(frames), 100):
                await ours.send(frames[start : start + 100])
            await ours.close()
        assert reading.result() == frames


async def test_try_send_writes_at_once_until_the_peer_stops_reading(tmp_path: Path) -> None:
    frame = b"x" * 100_000
    async with serving(tmp_path) as server, dialled(server) as (client, ours):
        taken = 0
        while ours.try_send([b"%d" % taken, frame]):
            taken += 1
        assert taken > 0
        async with asyncio.TaskGroup() as group:
            reading = group.create_task(receive_all(client))
            await ours.send([b"last"])
            await ours.close()
        assert reading.result() == [f for n in range(taken) for f in (b"%d" % n, frame)] + [b"last"]
        assert not ours.try_send([b"late"])


async def test_one_receive_returns_all_ready_frames(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        with raw(server.path) as peer:
            peer.sendall(b"one\ntwo\nthree\n")
            assert await receive(await server.next()) == [b"one", b"two", b"three"]


async def test_a_line_in_two_writes_is_one_frame(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        with raw(server.path) as peer:
            ours = await server.next()
            peer.sendall(b'{"method":"run"}')
            await run_turns()
            peer.sendall(b"\n")
            assert await receive(ours) == [b'{"method":"run"}']


async def test_an_oversized_line_loses_only_that_line(tmp_path: Path) -> None:
    async with serving(tmp_path, TransportLimits(max_message=100)) as server:
        with raw(server.path) as peer:
            peer.sendall(b"x" * 101 + b"\nnext\n")
            peer.shutdown(socket.SHUT_WR)
            assert await receive_all(await server.next()) == [Oversize(size=101, limit=100, head=b"x" * 101), b"next"]


# -- the end -------------------------------------------------------------------------------------------


async def test_the_end_delivers_an_unterminated_last_line_and_then_nothing(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        with raw(server.path) as peer:
            peer.sendall(b"one\ntwo")
        assert await receive_all(await server.next()) == [b"one", b"two"]


async def test_a_peer_that_closed_only_its_writing_side_still_gets_answers(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        with raw(server.path) as peer:
            peer.sendall(b"ask\n")
            peer.shutdown(socket.SHUT_WR)
            ours = await server.next()
            assert await receive_all(ours) == [b"ask"]
            await ours.send([b"answer"])
            await run_turns()
            assert peer.recv(100) == b"answer\n"


async def test_a_probe_that_connects_and_disconnects_causes_no_error(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        raw(server.path).close()
        ours = await server.next()
        assert await receive_all(ours) == []
        assert await receive(ours) == []


async def test_sending_to_a_gone_peer_raises_connection_error(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        raw(server.path).close()
        ours = await server.next()
        await refused(send_forever(ours))


async def test_sending_after_our_own_close_raises_connection_error(tmp_path: Path) -> None:
    async with serving(tmp_path) as server, dialled(server) as (client, _):
        await client.close()
        with pytest.raises(ConnectionError):
            await client.send([b"late"])


async def test_frames_of_a_gone_peer_are_read_although_our_write_failed_first(tmp_path: Path) -> None:
    accepted: asyncio.Queue[UnixTransport] = asyncio.Queue()

    def write_before_the_first_read(transport: Transport) -> None:
        assert isinstance(transport, UnixTransport)
        transport._transport.write(b'{"event":"snapshot"}\n')
        accepted.put_nowait(transport)

    async with serving(tmp_path, accept=write_before_the_first_read) as server:
        with raw(server.path) as peer:
            peer.sendall(b'{"method":"run"}\n{"method":"cancel"}')
        ours = await accepted.get()
        assert await receive_all(ours) == [b'{"method":"run"}', b'{"method":"cancel"}']
        with pytest.raises(ConnectionError):
            await ours.send([b"more"])
        await ours.close()


async def test_frames_of_a_gone_peer_are_read_although_reading_was_paused(tmp_path: Path) -> None:
    async with serving(tmp_path, TransportLimits(receive_high=1)) as server:
        with raw(server.path) as peer:
            ours = await server.next()
            peer.sendall(b"one\n")
            await run_turns()
            assert ours._inbound.full
            peer.sendall(b"two\nthree\n")
        await refused(send_forever(ours))
        await ours._lost.wait()
        assert await receive_all(ours) == [b"one", b"two", b"three"]


async def test_close_writes_the_pending_frames(tmp_path: Path) -> None:
    frame = b"x" * 150_000
    async with serving(tmp_path) as server, dialled(server) as (client, ours):
        async with asyncio.TaskGroup() as group:
            reading = group.create_task(receive_all(client))
            await ours.send([frame, frame])
            await ours.close()
        assert reading.result() == [frame, frame]


async def test_close_is_idempotent(tmp_path: Path) -> None:
    async with serving(tmp_path) as server, dialled(server) as (client, ours):
        async with asyncio.TaskGroup() as group:
            group.create_task(ours.close())
            group.create_task(ours.close())
        await ours.close()
        assert await receive_all(client) == []


async def test_close_gives_up_on_a_peer_that_does_not_read(tmp_path: Path) -> None:
    async with serving(tmp_path, TransportLimits(close_deadline=0.05, send_high=8 * 1024 * 1024)) as server:
        with raw(server.path):
            ours = await server.next()
            await ours.send([b"x" * 4 * 1024 * 1024])
            await ours.close()
            assert await receive_all(ours) == []


async def test_a_close_that_is_cancelled_drops_what_a_peer_that_does_not_read_was_sent(tmp_path: Path) -> None:
    limits = TransportLimits(close_deadline=3600, send_high=8 * 1024 * 1024)
    async with serving(tmp_path, limits) as server, asyncio.TaskGroup() as group:
        with raw(server.path):
            ours = await server.next()
            await ours.send([b"x" * 4 * 1024 * 1024])
            closing = group.create_task(ours.close())
            await run_turns()
            closing.cancel()
            await asyncio.wait((closing,))
            async with asyncio.timeout(DEADLINE):
                await ours._lost.wait()


# -- back-pressure -------------------------------------------------------------------------------------


async def test_send_waits_for_a_peer_that_does_not_read(tmp_path: Path) -> None:
    limits = TransportLimits(send_high=64 * 1024)
    frame = b"x" * 1024 * 1024
    async with serving(tmp_path, limits) as server:
        with raw(server.path) as peer:
            peer.setblocking(False)
            ours = await server.next()
            async with asyncio.TaskGroup() as group:
                sending = group.create_task(ours.send([frame]))
                more = group.create_task(ours.send([frame]))
                await run_turns()
                assert not sending.done()
                assert ours._transport.get_write_buffer_size() <= len(frame) + 1, "the second batch was not written yet"
                received = 0
                while received < 2 * (len(frame) + 1):
                    received += len(await asyncio.get_running_loop().sock_recv(peer, 1 << 20))
                await asyncio.wait((sending, more))
            assert ours._transport.get_write_buffer_size() == 0


async def test_a_send_that_waits_ends_when_the_peer_goes(tmp_path: Path) -> None:
    async with serving(tmp_path, TransportLimits(send_high=1024)) as server:
        with raw(server.path) as peer:
            ours = await server.next()
            async with asyncio.TaskGroup() as group:
                sending = group.create_task(refused(ours.send([b"x" * 1024 * 1024])))
                await run_turns()
                assert not sending.done()
                peer.close()


async def test_a_gateway_that_does_not_receive_stops_the_peer(tmp_path: Path) -> None:
    limits = TransportLimits(receive_high=128 * 1024)
    line = b"x" * 999 + b"\n"
    async with serving(tmp_path, limits) as server:
        with raw(server.path) as peer:
            peer.setblocking(False)
            ours = await server.next()
            sent = stopped = 0
            while stopped < 100:
                try:
                    sent += peer.send(line)
                except BlockingIOError:
                    stopped += 1
                await asyncio.sleep(0)
            held = sum(len(frame) for frame in ours._inbound._frames if isinstance(frame, bytes))
            assert held < limits.receive_high + 256 * 1024, "at most the mark and one read"
            assert sent < 4 * 1024 * 1024, "the kernel's buffer and ours"
            peer.shutdown(socket.SHUT_WR)
            frames = await receive_all(ours)
            assert sum(len(frame) + 1 for frame in frames if isinstance(frame, bytes)) in (sent, sent + 1)


async def test_a_line_longer_than_the_receive_mark_still_arrives(tmp_path: Path) -> None:
    line = b"x" * 3_000_000
    async with serving(tmp_path, TransportLimits(receive_high=1024)) as server, dialled(server) as (client, ours):
        _, received = await asyncio.gather(client.send([line]), receive(ours))
        assert received == [line]


# -- listening and dialling ----------------------------------------------------------------------------


async def test_the_address_with_its_dialect_is_the_endpoint(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        assert server.listener.address == f"unix:{tmp_path}/sock"


async def test_only_the_owner_may_use_the_socket_file(tmp_path: Path) -> None:
    before = os.umask(0)
    os.umask(before)
    async with serving(tmp_path) as server:
        assert stat.S_IMODE(os.stat(server.path).st_mode) == 0o600
    after = os.umask(before)
    assert after == before


@pytest.mark.skipif(sys.platform != "linux", reason="SO_PEERCRED is Linux's")
async def test_the_peer_is_named_by_its_credentials(tmp_path: Path) -> None:
    async with serving(tmp_path) as server, dialled(server) as (client, ours):
        assert ours.peer == client.peer == f"uid={os.getuid()} pid={os.getpid()}"


async def test_a_stale_socket_file_is_replaced(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / "sock"))
    async with serving(tmp_path) as server, dialled(server) as (client, ours):
        await client.send([b"hello"])
        assert await receive(ours) == [b"hello"]


async def test_listening_at_a_live_socket_is_refused_and_leaves_it_alone(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        with pytest.raises(OSError, match=r"another process listens here.*sock") as refused:
            await listen(server.path, LIMITS, server.accept)
        assert refused.value.errno == errno.EADDRINUSE
        await (await server.next()).close()  # the probe
        async with dialled(server) as (client, ours):
            await client.send([b"still here"])
            assert await receive(ours) == [b"still here"]


async def test_listening_at_a_file_that_is_no_socket_is_refused_and_leaves_it_alone(tmp_path: Path) -> None:
    path = tmp_path / "sock"
    path.write_text("precious")
    with pytest.raises(FileExistsError, match="not a socket"):
        await listen(str(path), LIMITS, lambda _: None)
    assert path.read_text() == "precious"


async def test_a_path_that_is_too_long_is_refused_with_the_limit(tmp_path: Path) -> None:
    path = str(tmp_path / ("x" * SUN_PATH))
    with pytest.raises(ConfigError, match=f"at most {SUN_PATH} bytes"):
        await listen(path, LIMITS, lambda _: None)
    with pytest.raises(OSError, match=f"at most {SUN_PATH} bytes"):
        await connect(path, LIMITS)


async def test_a_client_reaches_a_socket_path_of_the_maximum_length(tmp_path: Path) -> None:
    path = f"{tmp_path}/"
    path += "x" * (SUN_PATH - len(path))
    accepted: asyncio.Queue[Transport] = asyncio.Queue()
    listener = await listen(path, LIMITS, accepted.put_nowait)
    client = await connect(path, LIMITS)
    async with asyncio.timeout(DEADLINE):
        ours = await accepted.get()
    for closable in (client, ours, listener):
        await closable.close()


async def test_closing_a_listener_removes_its_file_and_keeps_its_peers(tmp_path: Path) -> None:
    async with serving(tmp_path) as server, dialled(server) as (client, ours):
        await server.listener.close()
        await server.listener.close()
        assert not os.path.exists(server.path)
        with pytest.raises(FileNotFoundError, match="sock"):
            await connect(server.path, LIMITS)
        await client.send([b"still here"])
        assert await receive(ours) == [b"still here"]


async def test_a_listener_whose_file_cannot_be_removed_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)

    async with serving(tmp_path) as server:
        with monkeypatch.context() as patched:
            patched.setattr("os.unlink", refuse)
            await server.listener.close()
        with pytest.raises(ConnectionRefusedError):
            await connect(server.path, LIMITS)


async def test_closing_a_listener_leaves_a_file_that_is_not_its_own(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        os.unlink(server.path)
        with socket.socket(socket.AF_UNIX) as other:
            other.bind(server.path)
            await server.listener.close()
            assert os.path.exists(server.path)


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("missing", "the socket does not exist; start the backend, or correct the path"),
        ("stale", "nothing listens there; start the backend, or correct the address"),
        ("file", "this is not a stream socket; correct the path"),
        ("under a file", "a part of the path is not a folder; correct the path"),
        ("long", f"the path of a socket has at most {SUN_PATH} bytes; choose a shorter folder"),
    ],
)
async def test_the_error_of_a_failed_connect_says_where_and_what_to_do(kind: str, why: str, tmp_path: Path) -> None:
    path = tmp_path / ("x" * SUN_PATH if kind == "long" else "sock")
    if kind == "stale":
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(str(path))
    elif kind in ("file", "under a file"):
        path.touch()
    path = path / "sock" if kind == "under a file" else path
    with pytest.raises(OSError, match=why) as caught:
        await connect(str(path), LIMITS)
    assert (caught.value.strerror, caught.value.filename) == (why, str(path))


@pytest.mark.parametrize(
    ("number", "why"),
    [
        (errno.EACCES, "this user may not connect; run as the socket's owner, or change its mode"),
        (errno.EPROTOTYPE, "this is not a stream socket; correct the path"),
        (errno.ENOTSOCK, "this is not a stream socket; correct the path"),
    ],
)
async def test_a_connect_that_the_kernel_refuses_is_explained(
    number: int, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_arguments: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(asyncio.get_running_loop(), "create_unix_connection", refuse)
    with pytest.raises(OSError, match=why):
        await connect(str(tmp_path / "sock"), LIMITS)


async def test_a_socket_is_alive_while_a_process_listens_at_it(tmp_path: Path) -> None:
    path = str(tmp_path / "sock")
    assert not alive(path)
    probes: list[Transport] = []
    listener = await listen(path, TransportLimits(), probes.append)
    (tmp_path / "link").symlink_to(path)
    assert alive(path)
    assert alive(str(tmp_path / "link"))
    await listener.close()
    assert not alive(path)
    for probe in probes:
        await probe.close()
    assert len(probes) == 2, "who was accepted before the end is served"


@pytest.mark.parametrize("kind", ["file", "stale", "long"])
def test_a_socket_without_a_listener_is_not_alive(kind: str, tmp_path: Path) -> None:
    path = tmp_path / ("x" * SUN_PATH if kind == "long" else "sock")
    if kind == "file":
        path.touch()
    elif kind == "stale":
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(str(path))
    assert not alive(str(path))


# -- memory --------------------------------------------------------------------------------------------


async def test_the_meter_counts_what_the_peer_does_not_read_until_it_reads_or_is_gone(tmp_path: Path) -> None:
    async with serving(tmp_path, TransportLimits(send_high=1024, close_deadline=0.05)) as server:
        with raw(server.path):
            ours = await server.next()
            assert ours.try_send([b"x" * 4 * 1024 * 1024])
            assert ours.meter.size == ours._transport.get_write_buffer_size() > 3 * 1024 * 1024
            await ours.close()
            assert ours.meter.size == 0


async def test_a_connection_that_gets_no_memory_for_its_bytes_ends_and_holds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(splitter: LineSplitter, data: bytes) -> list[Frame]:
        if splitter._begun:
            raise MemoryError
        return splitter._split(data)

    monkeypatch.setattr(LineSplitter, "feed", fail)
    async with serving(tmp_path) as server:
        with raw(server.path) as peer:
            ours = await server.next()
            peer.sendall(b"x" * 50_000)
            await run_turns()
            peer.sendall(b"more")
            assert await receive_all(ours) == []
            assert ours.meter.size == 0


async def test_discarded_frames_and_later_ones_are_not_held(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        with raw(server.path) as peer:
            ours = await server.next()
            peer.sendall(b"whole\n" + b"x" * 50_000)
            await run_turns()
            assert ours.meter.size > 50_000
            ours.discard()
            assert ours.meter.size == 0
            peer.sendall(b"more\nand more")
            peer.close()
            assert await receive_all(ours) == []
            assert ours.meter.size == 0


async def test_nobody_can_connect_to_a_socket_before_it_has_its_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chown, path = os.chown, tmp_path / "sock"
    seen: list[bool] = []

    def watched(*changed: Any, **options: Any) -> None:
        seen.append(alive(str(path)))
        chown(*changed, **options)

    monkeypatch.setattr(os, "chown", watched)
    file = SocketFile(mode=0o660, gid=os.getgid())
    listener = await listen(str(path), LIMITS, lambda _transport: None, file)
    mode = stat.S_IMODE(path.stat().st_mode)
    await listener.close()
    assert (seen, mode) == ([False], 0o660)


async def test_a_link_that_replaces_a_new_socket_leads_to_no_change_of_another_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, path = tmp_path / "other", tmp_path / "sock"
    other.touch(mode=0o600)
    bind = bind_socket

    def bind_and_replace(*options: Any) -> socket.socket:
        bound = bind(*options)
        path.unlink()
        path.symlink_to(other)
        return bound

    monkeypatch.setattr("dragoman.adapters.unix.bind_socket", bind_and_replace)
    before = other.stat()
    listener = await listen(str(path), LIMITS, lambda _transport: None, SocketFile(mode=0o666, gid=os.getgid()))
    await listener.close()
    assert (other.stat().st_mode, other.stat().st_ctime_ns) == (before.st_mode, before.st_ctime_ns)


async def test_a_socket_whose_group_cannot_be_set_is_removed_and_the_error_tells_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_path: str, _uid: int, _gid: int, **_options: bool) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "chown", refuse)
    with pytest.raises(PermissionError, match="its owner or group cannot be changed by this user"):
        await listen(f"{tmp_path}/sock", LIMITS, lambda _transport: None, SocketFile(gid=os.getgid()))
    assert list(tmp_path.iterdir()) == []


@asynccontextmanager
async def refusing(folder: Path) -> AsyncIterator[Server]:
    """Run a listener that refuses every peer with the frame `no`."""
    async with asyncio.TaskGroup() as group, serving(folder) as server:

        async def refuse(transport: Transport) -> None:
            await transport.send([b"no"])
            await transport.close(CloseReason.FULL)

        def accept(transport: Transport) -> None:
            group.create_task(refuse(transport), name="refusing")
            server.transports.append(transport)

        await server.listener.close()
        server.listener = await listen(server.path, LIMITS, accept)
        yield server


async def test_a_refused_peer_that_writes_late_still_reads_why(tmp_path: Path) -> None:
    async with refusing(tmp_path) as server:
        reader, writer = await asyncio.open_unix_connection(server.path)
        assert await reader.readline() == b"no\n"
        for _ in range(3):
            writer.write(b"a request\n")
            await writer.drain()
        assert await reader.read() == b"", "the end of the connection, not a reset"
        writer.close()
        await writer.wait_closed()
        assert isinstance(server.transports[0], UnixTransport)
        await server.transports[0]._lost.wait()


async def test_a_refused_peer_that_writes_without_end_is_disconnected(tmp_path: Path) -> None:
    async with refusing(tmp_path) as server:
        with raw(server.path) as peer:
            peer.setblocking(False)
            loop = asyncio.get_running_loop()
            with pytest.raises(ConnectionError):
                await loop.sock_sendall(peer, b"x" * 2 * (LINGER_BYTES + READ_SIZE))


async def test_only_so_many_refused_peers_linger_and_none_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.adapters.unix.LINGER", 0.5)
    async with refusing(tmp_path) as server:
        peers = [raw(server.path) for _ in range(LINGERING_MAX + 1)]
        while len(server.transports) < len(peers):
            await settle()
        transports = [each for each in server.transports if isinstance(each, UnixTransport)]
        await transports[-1]._lost.wait()
        assert [each._lost.is_set for each in transports[:-1]] == [False] * LINGERING_MAX
        for each in transports:
            await each._lost.wait()
        for peer in peers:
            assert peer.recv(64) == b"no\n"
            peer.close()
