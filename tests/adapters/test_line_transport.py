"""Lines over a stream: both sides of a Unix socket, and raw sockets as peers that behave badly."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from dragoman.adapters.base import CloseReason, Transport, TransportLimits
from dragoman.adapters.line_transport import LINGER_BYTES, LINGERING_MAX, READ_SIZE, LineTransport
from dragoman.adapters.lines import LineSplitter
from dragoman.adapters.unix import UnixTransport, listen
from dragoman.mappings.dialect import Frame, Oversize
from tests.adapters.unix_server import DEADLINE, LIMITS, Server, dialled, raw, serving
from tests.awaited import until
from tests.idle import run_turns, settle
from tests.transport_reader import receive, receive_all


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
            assert ours.full
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
            held = sum(len(frame) for frame in ours._frames if isinstance(frame, bytes))
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
            await run_turns()
            assert ours.meter.size == 0
            peer.close()
            assert await receive_all(ours) == []
            assert ours.meter.size == 0


# -- refused peers ------------------------------------------------------------------------------------


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
        assert isinstance(server.transports[0], LineTransport)
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
    monkeypatch.setattr("dragoman.adapters.line_transport.LINGER", 0.5)
    async with refusing(tmp_path) as server:
        peers = [raw(server.path) for _ in range(LINGERING_MAX + 1)]
        while len(server.transports) < len(peers):
            await settle()
        transports = [each for each in server.transports if isinstance(each, LineTransport)]
        await transports[-1]._lost.wait()
        assert [each._lost.is_set for each in transports[:-1]] == [False] * LINGERING_MAX
        for each in transports:
            await each._lost.wait()
        for peer in peers:
            assert peer.recv(64) == b"no\n"
            peer.close()


@pytest.mark.parametrize("has_ended", [False, True], ids=["served before", "ended by the peer"])
async def test_a_peer_that_cannot_miss_its_refusal_is_disconnected_at_once(
    has_ended: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A served peer has written before, and one that has closed its own direction writes no more."""
    monkeypatch.setattr("dragoman.adapters.line_transport.LINGER", 3600.0)
    async with serving(tmp_path, TransportLimits(close_deadline=3600.0)) as server:
        with raw(server.path) as peer:
            ours = await server.next()
            if has_ended:
                peer.shutdown(socket.SHUT_WR)
                await until(lambda: ours._ended)
            else:
                peer.sendall(b"one\n")
                assert await receive(ours) == [b"one"]
            await ours.send([b"no"])
            await ours.close(CloseReason.FULL)
            assert peer.recv(64) == b"no\n"
