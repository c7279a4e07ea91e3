"""The ZeroMQ client against plain pyzmq sockets as primaries, well behaved and not."""

from __future__ import annotations

import asyncio
import socket
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from threading import Thread

import pytest
import zmq
from msgspec import structs

from dragoman.adapters.base import TransportLimits
from dragoman.adapters.zeromq import client as client_module
from dragoman.adapters.zeromq import sockets
from dragoman.adapters.zeromq.client import UNREAD, DialledSockets, connect
from dragoman.adapters.zeromq.polled import BYTES
from dragoman.adapters.zeromq.sockets import HARD_LIMIT
from dragoman.mappings.dialect import Frame, Missed, Oversize, Parts
from tests.adapters.zeromq.peers import (
    DEADLINE,
    LIMITS,
    PATIENCE,
    bound,
    dialled,
    local_connections,
    make_deaf,
    peer,
    primary,
)
from tests.awaited import until
from tests.transport_reader import receive, receive_all

Socket = zmq.Socket[bytes]


@asynccontextmanager
async def connected(
    limits: TransportLimits = LIMITS, /, **options: int
) -> AsyncIterator[tuple[DialledSockets, Socket, Socket]]:
    """Return our transport, and the XPUB and ROUTER at its other end, which has received the subscription. `options`
    are those of the XPUB.
    """
    async with asyncio.timeout(DEADLINE):
        with peer(zmq.XPUB, XPUB_NODROP=1, **options) as publisher, peer(zmq.ROUTER) as router:
            transport = await connect(bound(publisher), bound(router), limits)
            try:
                assert await asyncio.to_thread(publisher.recv) == b"\x01"
                yield transport, publisher, router
            finally:
                await transport.close()


async def test_a_context_without_threads_is_a_failed_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system refuses them at a limit of processes, and libzmq would end this process."""

    def refuse(_thread: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(sockets, "Thread", type("Refused", (Thread,), {"start": refuse}))
    with pytest.raises(OSError, match="the system cannot start a thread"):
        await connect("tcp://127.0.0.1:1", "tcp://127.0.0.1:2", LIMITS)


def publish(publisher: Socket, count: int, size: int = 100) -> None:
    for number in range(count):
        publisher.send(b"llm.token\0%d" % number + b" " * size)


def published(frame: object) -> bytes:
    assert isinstance(frame, Parts)
    assert (frame.channel, frame.identity, len(frame.parts)) == ("pub", b"", 1)
    return frame.parts[0]


async def test_a_client_subscribes_to_everything_and_receives_the_publications() -> None:
    async with connected() as (transport, publisher, _):
        await asyncio.to_thread(publisher.send, b"llm.end\0{}")
        assert await receive(transport) == [Parts("pub", b"", (b"llm.end\0{}",))]


async def test_a_client_with_topics_subscribes_only_to_them() -> None:
    async with asyncio.timeout(DEADLINE):
        with peer(zmq.XPUB) as publisher, peer(zmq.ROUTER) as router:
            transport = await connect(bound(publisher), bound(router), LIMITS, [b"llm."])
            assert await asyncio.to_thread(publisher.recv) == b"\x01llm."
            for topic in (b"db.session.created", b"llm.end"):
                await asyncio.to_thread(publisher.send, topic)
            assert await receive(transport) == [Parts("pub", b"", (b"llm.end",))]
            await transport.close()


async def test_a_call_goes_out_behind_an_empty_frame_and_its_answer_comes_part_by_part() -> None:
    async with connected() as (transport, _, router):
        await transport.send([b'{"id":"1"}'])
        identity, *call = await asyncio.to_thread(router.recv_multipart)
        assert call == [b"", b'{"id":"1"}']
        await asyncio.to_thread(router.send_multipart, [identity, b"", b'{"id":"1","result":{}}'])
        assert await receive(transport) == [Parts("rpc", b"", (b"", b'{"id":"1","result":{}}'))]


async def test_many_calls_in_one_send_arrive_in_order() -> None:
    calls = [b"%d" % number for number in range(5_000)]
    async with connected() as (transport, _, router), asyncio.TaskGroup() as group:
        group.create_task(transport.send(calls))
        for call in calls:
            assert (await asyncio.to_thread(router.recv_multipart))[-1] == call


async def test_a_link_that_does_not_read_stalls_no_publisher_and_learns_how_much_it_missed() -> None:
    limits = structs.replace(LIMITS, receive_high=64 * 1024)
    async with connected(limits) as (transport, publisher, _):
        await asyncio.to_thread(publish, publisher, 20_000)  # would time out if we were not read
        await until(lambda: transport._published._dropped + len(transport._published._frames) == 20_000)
        *frames, missed = await receive(transport)
        assert [int(published(frame)[10:]) for frame in frames] == list(range(len(frames)))
        assert missed == Missed(channel="pub", count=20_000 - len(frames))
        assert sum(len(published(frame)) for frame in frames) <= 64 * 1024
        await asyncio.to_thread(publisher.send, b"llm.end\0{}")
        assert await receive(transport) == [Parts("pub", b"", (b"llm.end\0{}",))]


async def test_a_link_that_takes_every_publication_misses_none() -> None:
    """A batch of them may be above `receive_high`, with the memory of its objects."""
    heard: list[Frame] = []

    def take(frames: Sequence[Frame]) -> int:
        heard.extend(frames)
        return len(frames)

    async with connected(structs.replace(LIMITS, receive_high=1024)) as (transport, publisher, _):
        async with asyncio.TaskGroup() as group:
            reading = group.create_task(transport.run(take))
            await asyncio.to_thread(publish, publisher, 2_000)
            await until(lambda: transport._published._dropped + len(heard) == 2_000)
            reading.cancel()
        assert [int(published(frame)[10:]) for frame in heard] == list(range(2_000))


async def test_a_flood_of_publications_loses_no_answer() -> None:
    limits = structs.replace(LIMITS, receive_high=1024)
    async with connected(limits) as (transport, publisher, router):
        await transport.send([b"call"])
        identity, *_ = await asyncio.to_thread(router.recv_multipart)
        await asyncio.to_thread(publish, publisher, 1_000)
        await until(lambda: transport._published._dropped > 0)
        await asyncio.to_thread(router.send_multipart, [identity, b"", b"answer"])
        answer = Parts("rpc", b"", (b"", b"answer"))
        await until(lambda: answer in transport._answered._frames)
        assert answer in await receive(transport)


async def test_a_message_over_the_limit_comes_as_oversize_and_the_next_one_unchanged() -> None:
    async with connected(structs.replace(LIMITS, max_message=100)) as (transport, publisher, _):
        await asyncio.to_thread(publisher.send, b"x" * 101)
        assert await receive(transport) == [Oversize(size=101, limit=100, head=b"x" * 101)]
        await asyncio.to_thread(publisher.send, b"x" * 100)
        assert await receive(transport) == [Parts("pub", b"", (b"x" * 100,))]


async def test_a_message_far_over_the_limit_ends_the_connection() -> None:
    async with connected(structs.replace(LIMITS, max_message=100)) as (transport, publisher, _):
        await asyncio.to_thread(publisher.send, b"x" * (100 * HARD_LIMIT + 1))
        assert await receive_all(transport) == []


async def test_many_tiny_parts_count_as_a_large_message() -> None:
    async with connected(structs.replace(LIMITS, max_message=1_000)) as (transport, publisher, _):
        await asyncio.to_thread(publisher.send_multipart, [b"x"] * 20)
        (frame,) = await receive(transport)
        assert isinstance(frame, Oversize)
        assert frame.name == "max_message"


async def test_a_message_of_too_many_parts_comes_as_oversize_and_the_next_one_unchanged() -> None:
    async with connected() as (transport, publisher, _):
        await asyncio.to_thread(publisher.send_multipart, [b"x"] * 5_000)
        (frame,) = await receive(transport)
        assert isinstance(frame, Oversize)
        assert (frame.size > 64, frame.limit, frame.name) == (True, 64, "message_parts")
        await asyncio.to_thread(publisher.send_multipart, [b"x"] * 64)
        assert await receive(transport) == [Parts("pub", b"", (b"x",) * 64)]


async def test_a_message_of_many_parts_is_read_completely_after_its_connection_is_lost() -> None:
    async with connected() as (transport, publisher, router):
        for intake in transport._intakes:
            intake.polled.pause()
        await asyncio.to_thread(publisher.send_multipart, [b"x"] * 5_000)
        await asyncio.to_thread(transport._published.polled.socket.poll, 10_000)
        router.close(linger=0)
        (frame,) = await receive_all(transport)
        assert isinstance(frame, Oversize)


@pytest.mark.parametrize("kind", [zmq.XPUB, zmq.ROUTER])
async def test_losing_either_connection_ends_the_transport_after_all_received_messages(kind: int) -> None:
    async with connected() as (transport, publisher, router):
        await asyncio.to_thread(publish, publisher, 500)
        await until(lambda: len(transport._published._frames) == 500)
        (publisher if kind == zmq.XPUB else router).close(linger=0)
        frames = await receive_all(transport)
        assert [int(published(frame)[10:]) for frame in frames] == list(range(500))
        with pytest.raises(ConnectionError):
            await transport.send([b"anybody?"])


async def test_the_last_messages_of_a_dying_primary_are_delivered_completely() -> None:
    """The test sends far more than `receive_high`: a dead primary cannot be stalled, so nothing has to be dropped."""
    async with connected(structs.replace(LIMITS, receive_high=64 * 1024)) as (transport, publisher, _):
        async with asyncio.TaskGroup() as group:
            reading = group.create_task(receive_all(transport))
            await asyncio.to_thread(publish, publisher, 30_000)
            publisher.close(linger=PATIENCE)
        frames = reading.result()
        missed = sum(frame.count for frame in frames if isinstance(frame, Missed))
        assert len([frame for frame in frames if isinstance(frame, Parts)]) + missed == 30_000


async def test_the_large_messages_of_a_lost_primary_are_read_in_several_iterations_of_the_event_loop() -> None:
    async with connected() as (transport, publisher, router):
        transport._published.polled.pause()
        await asyncio.to_thread(publish, publisher, UNREAD // 2, 2 * BYTES)
        for socket_ in (publisher, router):
            socket_.close(linger=PATIENCE)
        turns: Counter[int] = Counter()
        turn = 0

        def sink(frames: Sequence[Frame]) -> int:
            turns[turn] += len(frames)
            return len(frames)

        async with asyncio.TaskGroup() as group:
            reading = group.create_task(transport.run(sink))
            while not reading.done():
                turn += 1
                await asyncio.sleep(0)
        assert turns.total() == UNREAD // 2
        assert max(turns.values()) == 1


def fill(publisher: Socket, most: int) -> int:
    """Send large publications until the buffers are full; return how many were sent."""
    for number in range(most):
        try:
            publish(publisher, 1, BYTES)
        except zmq.Again:
            return number
    return most


async def test_for_a_link_that_waits_libzmq_holds_only_a_few_publications() -> None:
    heard: list[Frame] = []
    is_its_turn = False

    def take(frames: Sequence[Frame]) -> int:
        heard.extend(frames if is_its_turn else ())
        return len(frames) if is_its_turn else 0

    async with connected(SNDHWM=1, SNDTIMEO=300) as (transport, publisher, _), asyncio.TaskGroup() as group:
        reading = group.create_task(transport.run(take))
        await asyncio.to_thread(publish, publisher, 1)
        await until(lambda: len(transport._published._frames) == 1)
        sent = await asyncio.to_thread(fill, publisher, 4 * UNREAD)
        assert UNREAD < sent < 4 * UNREAD  # the buffers of the system are full, too
        assert len(transport._published._frames) == 1
        is_its_turn = True
        transport.resume()
        await until(lambda: len(heard) == 1 + sent)
        reading.cancel()


@pytest.mark.parametrize("size", [100, 10_000])
async def test_the_publications_that_a_dead_primary_left_with_the_system_are_delivered(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection for calls is lost at once, the other one only after a megabyte of publications."""
    monkeypatch.setattr(client_module, "QUIET", DEADLINE)
    async with connected(structs.replace(LIMITS, receive_high=1 << 30)) as (transport, publisher, router):
        transport._published.polled.pause()
        await asyncio.to_thread(publish, publisher, 1_000_000 // size, size)
        router.close(linger=0)
        publisher.close(linger=PATIENCE)
        await until(lambda: transport._answered.is_lost)
        transport._published.polled.resume()
        assert len(await receive_all(transport)) == 1_000_000 // size


async def test_a_connection_for_calls_that_are_not_confirmed_ends_while_publications_arrive(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client_module, "CONFIRMED", 100)
    async with connected() as (transport, publisher, router):
        address = router.getsockopt_string(zmq.LAST_ENDPOINT)
        for connection in local_connections(int(address.rpartition(":")[2])):
            make_deaf(connection)
        await transport.send([b"a call"])
        publish(publisher, 10)
        assert len(await receive_all(transport)) == 10


async def test_both_ends_of_an_idle_connection_are_kept_alive() -> None:
    async with primary() as ours, dialled(ours):
        accepting = [ours.listener.publish_port, ours.listener.call_port]
        dialling = [end.getpeername()[1] for port in accepting for end in local_connections(port)]
        for port in accepting + dialling:
            kept = [
                (
                    end.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE),
                    end.getsockopt(socket.SOL_TCP, socket.TCP_KEEPIDLE),
                )
                for end in local_connections(port)
            ]
            assert kept == [(1, 60)]


async def test_a_lost_connection_is_not_reconnected_by_libzmq() -> None:
    async with connected() as (transport, publisher, _):
        address = publisher.getsockopt(zmq.LAST_ENDPOINT)
        publisher.close(linger=0)
        assert await receive_all(transport) == []
        with peer(zmq.XPUB, RCVTIMEO=300) as again:
            await rebind(again, bytes(address).rstrip(b"\0").decode())
            with pytest.raises(zmq.Again):
                await asyncio.to_thread(again.recv)


async def rebind(socket: Socket, address: str) -> None:
    """Bind to an address whose previous socket may still be closing."""
    while True:
        try:
            socket.bind(address)
        except zmq.ZMQError:
            await asyncio.sleep(0)
        else:
            return


async def test_the_addresses_of_a_host_are_looked_up_before_libzmq_gets_them_and_tried_in_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = list[str]()

    async def find(host: str) -> list[tuple[int, str]]:
        asked.append(host)
        return [(socket.AF_INET6, "::1"), (socket.AF_INET, "127.0.0.1")]

    monkeypatch.setattr(client_module, "look_up", find)
    with peer(zmq.XPUB) as publisher, peer(zmq.ROUTER) as router:
        publications, calls = (bound(one).replace("127.0.0.1", "a.example") for one in (publisher, router))
        transport = await connect(publications, calls, LIMITS)
        await transport.close()
    assert asked == ["a.example"]


async def test_an_unknown_host_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    async def find(_host: str) -> list[tuple[int, str]]:
        raise socket.gaierror(socket.EAI_NONAME, "no such name")

    monkeypatch.setattr(client_module, "look_up", find)
    with pytest.raises(OSError, match=r"^\[Errno \d+\] unknown host: no such name$"):
        await connect("tcp://a.example:1", "tcp://a.example:2", LIMITS)


async def test_a_closed_port_is_refused_at_once_with_its_address() -> None:
    began = time.monotonic()
    with pytest.raises(ConnectionRefusedError, match=r"127\.0\.0\.1:1:"):
        await connect("tcp://127.0.0.1:1", "tcp://127.0.0.1:2", LIMITS)
    assert time.monotonic() - began < client_module.CONNECT_DEADLINE


async def test_a_primary_without_its_rpc_socket_is_refused_with_the_address_of_that_socket() -> None:
    with peer(zmq.XPUB) as publisher, pytest.raises(ConnectionRefusedError, match=r"127\.0\.0\.1:1:"):
        await connect(bound(publisher), "tcp://127.0.0.1:1", LIMITS)


async def test_a_socket_of_another_kind_is_refused() -> None:
    with peer(zmq.REP) as wrong, pytest.raises(ConnectionAbortedError):
        await connect(bound(wrong), bound(wrong), LIMITS)


async def test_a_peer_that_does_not_speak_zmtp_is_refused() -> None:
    def talk(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 10)
        writer.close()

    async with served(talk) as address:
        with pytest.raises(OSError, match="127"):
            await connect(address, address, LIMITS)


async def test_a_silent_peer_is_given_up_at_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "CONNECT_DEADLINE", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(TimeoutError, match="handshake"):
            await connect(address, address, LIMITS)


@asynccontextmanager
async def served(talk: Callable[[asyncio.StreamReader, asyncio.StreamWriter], None]) -> AsyncIterator[str]:
    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    try:
        yield f"tcp://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


async def test_close_still_sends_the_last_call() -> None:
    async with connected(structs.replace(LIMITS, close_deadline=DEADLINE)) as (transport, _, router):
        await transport.send([b"session.interrupt"])
        await transport.close()
        assert (await asyncio.to_thread(router.recv_multipart))[-1] == b"session.interrupt"


async def test_close_ends_at_its_deadline_if_the_primary_does_not_read() -> None:
    limits = structs.replace(LIMITS, close_deadline=0.3)
    async with asyncio.timeout(DEADLINE):
        with peer(zmq.XPUB) as publisher, peer(zmq.ROUTER, RCVHWM=1, RCVBUF=4096) as router:
            transport = await connect(bound(publisher), bound(router), limits)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.5):
                    await transport.send([b"x" * 10_000] * 10_000)
            began = time.monotonic()
            await transport.close()
            assert 0.2 < time.monotonic() - began < DEADLINE / 2


async def test_two_calls_of_close_wait_for_the_same_end() -> None:
    async with connected() as (transport, _, _):
        async with asyncio.TaskGroup() as group:
            for _ in range(2):
                group.create_task(transport.close())
        assert await receive(transport) == []
