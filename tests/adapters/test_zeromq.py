"""ZeroMQ end to end: our client against our primary, and what both leave behind when they end."""

from __future__ import annotations

import asyncio
import os
import resource
import threading
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import zmq
from msgspec import structs

from dragoman.adapters.zeromq import sockets
from dragoman.mappings.dialect import Missed, Parts
from tests.adapters.zeromq.peers import BOUNDS, DEADLINE, LIMITS, dialled, peer, primary, send_forever
from tests.awaited import until
from tests.reserved_ports import reserved_port
from tests.transport_reader import receive, receive_all


def numbered(count: int) -> list[bytes]:
    return [b"llm.token\0%d" % number for number in range(count)]


async def test_events_go_one_way_calls_and_answers_go_both_ways() -> None:
    async with primary() as ours, dialled(ours) as client:
        await ours.publication.send([b"session.update\0{}"])
        assert await receive(client) == [Parts("pub", b"", (b"session.update\0{}",))]
        await client.send([b"call"])
        caller = await ours.accepted.get()
        assert await receive(caller) == [Parts("rpc", caller.identity, (b"", b"call"))]
        await caller.send([b"answer"])
        assert await receive(client) == [Parts("rpc", b"", (b"", b"answer"))]


async def test_a_burst_of_10_000_frames_arrives_completely_at_a_link_that_reads() -> None:
    limits, bounds = structs.replace(LIMITS, close_deadline=DEADLINE), structs.replace(BOUNDS, publish_wait=DEADLINE)
    async with primary(limits, bounds) as ours, dialled(ours) as client:
        async with asyncio.TaskGroup() as group:
            reading = group.create_task(receive_all(client))
            await ours.publication.send(numbered(10_000))
            await ours.close()
        assert reading.result() == [Parts("pub", b"", (frame,)) for frame in numbered(10_000)]


async def test_a_link_that_does_not_read_misses_exactly_the_reported_number_of_frames() -> None:
    async with primary() as ours, dialled(ours, structs.replace(LIMITS, receive_high=100_000)) as client:
        await ours.publication.send(numbered(20_000))
        intake = client._published
        await until(lambda: len(intake._frames) + intake._dropped + ours.lost == 20_000)
        frames = await receive(client)
        missed = frames[-1]
        assert isinstance(missed, Missed)
        assert len(frames) - 1 + missed.count + ours.lost == 20_000


async def test_no_socket_sends_zmtp_heartbeats() -> None:
    """A Go peer does not answer ZMTP heartbeats, and takes them for calls (docs/dialects/pando.md, section 9)."""
    async with primary() as ours, dialled(ours) as client:
        sockets = [polled.socket for each in (ours.listener._sockets, client._sockets) for polled in each._polled]
        assert {socket.type for socket in sockets} >= {zmq.XPUB, zmq.ROUTER, zmq.SUB, zmq.DEALER}
        assert {socket.getsockopt(zmq.HEARTBEAT_IVL) for socket in sockets} == {0}


async def test_connections_of_clients_end_with_their_primary() -> None:
    async with primary() as ours, dialled(ours) as client:
        await ours.close()
        assert await receive_all(client) == []


async def test_a_primary_detects_that_a_client_has_disconnected() -> None:
    async with primary() as ours:
        async with dialled(ours) as client:
            await client.send([b"call"])
            caller = await ours.accepted.get()
        await until(lambda: not len(ours.publication.subscribers))
        with pytest.raises(ConnectionError):
            await send_forever(caller)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="counts descriptors in /proc")
async def test_no_thread_and_no_descriptor_outlives_its_connection() -> None:
    async with asyncio.timeout(DEADLINE):
        await one_conversation()
        before, threads = descriptors(), native_threads()
        for _ in range(20):
            await one_conversation()
        assert descriptors() <= before
        assert native_threads() - threads < 20  # asyncio's own pool may have grown; contexts would be 80


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="counts threads in /proc")
async def test_a_hundred_dialled_connections_need_no_more_threads_than_one() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    async with primary() as ours, dialled(ours), AsyncExitStack() as others:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))  # both ends take 1,000 descriptors
        others.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        threads = native_threads()
        for _ in range(99):
            await others.enter_async_context(dialled(ours))
        assert native_threads() - threads < 20  # asyncio's own pool may have grown; contexts would be 198


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="counts threads in /proc")
async def test_twenty_listeners_need_no_more_threads_than_one() -> None:
    async with primary(), AsyncExitStack() as others:
        threads = native_threads()
        for _ in range(19):
            await others.enter_async_context(primary())
        assert native_threads() - threads < 20  # asyncio's own pool may have grown; contexts would be 38


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="counts descriptors in /proc")
async def test_a_closed_listener_frees_its_descriptors_while_another_is_open() -> None:
    async with primary():
        async with primary():
            pass
        before = descriptors()
        for _ in range(10):
            async with primary():
                pass
        await until(lambda: descriptors() <= before)  # the receivers of the last events close a moment later


async def test_the_ports_of_a_listener_that_closes_with_subscribers_are_free_while_another_is_open() -> None:
    with reserved_port(neighbours=1) as port:
        async with primary():
            for _ in range(3):
                async with primary(port=port) as ours, dialled(ours) as client:
                    await ours.publication.send([b"llm.end\0{}"])
                    await ours.close()
                    assert await receive_all(client) == [Parts("pub", b"", (b"llm.end\0{}",))]


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="counts descriptors in /proc")
async def test_a_closed_connection_frees_its_descriptors_while_another_is_open() -> None:
    async with primary() as ours, dialled(ours):
        await until(lambda: len(ours.publication.subscribers) == 1)
        before = descriptors()
        for _ in range(20):
            async with dialled(ours) as client:
                await client.send([b"call"])
        await until(lambda: descriptors() <= before)


async def test_a_closed_connection_still_sends_its_last_call_while_another_is_open() -> None:
    async with primary() as ours, dialled(ours):
        client = await ours.dial()
        await client.send([b"last"])
        await client.close()
        caller = await ours.accepted.get()
        assert await receive(caller) == [Parts("rpc", caller.identity, (b"", b"last"))]


async def test_a_connection_is_dialled_while_the_last_one_ends() -> None:
    async with primary() as ours, asyncio.TaskGroup() as group:
        client = await ours.dial()
        group.create_task(client.close())
        await asyncio.sleep(0)  # the close has begun
        async with dialled(ours) as other:
            await ours.publication.send([b"llm.end\0{}"])
            assert await receive(other) == [Parts("pub", b"", (b"llm.end\0{}",))]


async def test_a_dial_without_a_free_socket_fails_and_leaves_the_other_connections_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sockets, "SOCKETS_MAX", 14)  # a primary and a connection need six each
    async with primary() as ours, dialled(ours) as client:
        with pytest.raises(OSError, match=ours.publications):
            await ours.dial()
        await ours.publication.send([b"llm.end\0{}"])
        assert await receive(client) == [Parts("pub", b"", (b"llm.end\0{}",))]


def native_threads() -> int:
    return len(os.listdir("/proc/self/task"))


async def one_conversation() -> None:
    async with primary() as ours, dialled(ours) as client, dialled(ours):
        await client.send([b"call"])
        caller = await ours.accepted.get()
        await receive(caller)
        await ours.publication.send(numbered(10))


async def test_a_failed_dial_leaves_no_socket_open() -> None:
    async with primary() as ours:
        await ours.close()
        threads = threading.active_count()
        with pytest.raises(ConnectionRefusedError):
            await ours.dial()
        assert threading.active_count() <= threads + 1  # asyncio's own, in which the context was terminated


async def test_a_primary_reads_on_after_a_pause() -> None:
    async with primary() as ours:
        polled = ours.listener._callers._polled
        polled.pause()
        with peer(zmq.DEALER, ours.calls) as dealer:
            dealer.send(b"ping")
            await asyncio.to_thread(dealer.poll, 50)
            assert ours.accepted.empty()
            polled.resume()
            caller = await ours.accepted.get()
            assert await receive(caller) == [Parts("rpc", caller.identity, (b"ping",))]
