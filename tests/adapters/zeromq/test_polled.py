"""The edge-triggered descriptor: no message is left unread, whoever consumes its signal."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import pytest
import zmq

from dragoman.adapters.zeromq.polled import BATCH, BYTES, SLICE, Message, Polled
from tests.adapters.zeromq.peers import DEADLINE, bound, peer
from tests.awaited import until

Socket = zmq.Socket[bytes]

MOST_PARTS = 8


@contextmanager
def polling(socket: Socket) -> Iterator[tuple[Polled, list[Message]]]:
    received: list[Message] = []
    polled = Polled(socket, received.extend, MOST_PARTS)
    try:
        yield polled, received
    finally:
        polled.close(0)


async def read(socket: Socket) -> list[bytes]:
    return await asyncio.to_thread(socket.recv_multipart)


@pytest.fixture
async def dealer_and_router() -> AsyncIterator[tuple[Socket, Socket, bytes]]:
    """Return a connected DEALER and ROUTER, and the identity of the DEALER at the ROUTER."""
    async with asyncio.timeout(DEADLINE):
        with peer(zmq.ROUTER, ROUTER_MANDATORY=1) as router, peer(zmq.DEALER) as dealer:
            dealer.connect(bound(router))
            dealer.send(b"hello")
            identity, _ = await read(router)
            yield dealer, router, identity


Pair = tuple[Socket, Socket, bytes]


async def test_messages_that_arrived_before_the_poll_are_taken(dealer_and_router: Pair) -> None:
    dealer, router, identity = dealer_and_router
    router.send_multipart([identity, b"early"])
    await asyncio.to_thread(dealer.poll, 10_000)
    with polling(dealer) as (_, received):
        await until(lambda: received == [(b"early",)])


async def test_a_lone_message_is_taken_without_a_receive_that_fails(
    dealer_and_router: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    dealer, router, identity = dealer_and_router
    log: list[str] = []
    receive = dealer.recv

    def logged(flags: int, *, copy: bool) -> bytes | zmq.Frame:
        try:
            frame = receive(flags, copy=copy)
        except zmq.Again:
            log.append("nothing")
            raise
        log.append("message")
        return frame

    monkeypatch.setattr(dealer, "recv", logged)
    polled = Polled(dealer, lambda _messages: log.append("taken"), MOST_PARTS)
    try:
        await until(lambda: log == ["nothing"])
        router.send_multipart([identity, b"lone"])
        await until(lambda: "taken" in log)
        assert log[log.index("message") :][:2] == ["message", "taken"]
    finally:
        polled.close(0)


async def test_more_than_a_batch_arrives_without_another_signal(dealer_and_router: Pair) -> None:
    dealer, router, identity = dealer_and_router
    for number in range(3 * BATCH):
        router.send_multipart([identity, b"%d" % number])
    with polling(dealer) as (_, received):
        await until(lambda: len(received) == 3 * BATCH)
    assert received == [(b"%d" % number,) for number in range(3 * BATCH)]


async def test_a_socket_with_costly_messages_takes_fewer_of_them_at_once(dealer_and_router: Pair) -> None:
    dealer, router, identity = dealer_and_router
    sizes: list[int] = []
    for number in range(BATCH):
        router.send_multipart([identity, b"%d" % number])
    await asyncio.to_thread(dealer.poll, 10_000)
    polled = Polled(dealer, lambda messages: sizes.append(len(messages)), MOST_PARTS, batch=8)
    try:
        await until(lambda: sum(sizes) == BATCH)
        assert max(sizes) == 8
    finally:
        polled.close(0)


async def test_large_messages_are_taken_a_few_at_once(dealer_and_router: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    dealer, router, identity = dealer_and_router
    router.send_multipart([identity, b"waits, so that the socket says that there is more"])
    await asyncio.to_thread(dealer.poll, 10_000)
    monkeypatch.setattr(dealer, "recv", lambda _flags, *, copy: zmq.Frame(bytes(BYTES // 4), copy=copy))
    with polling(dealer) as (polled, _):
        messages, more = polled.receive()
    assert [len(part) for (part,) in messages] == [BYTES // 4] * 5
    assert more


async def test_the_first_parts_of_a_message_with_too_many_parts_are_kept(dealer_and_router: Pair) -> None:
    dealer, router, identity = dealer_and_router
    with polling(dealer) as (_, received):
        router.send_multipart([identity, *[b"%d" % number for number in range(3 * SLICE)]])
        router.send_multipart([identity, b"next"])
        await until(lambda: len(received) == 2)
    assert received == [tuple(b"%d" % number for number in range(MOST_PARTS)), (b"next",)]


async def test_a_message_of_many_parts_is_read_in_bounded_slices(dealer_and_router: Pair) -> None:
    dealer, router, identity = dealer_and_router
    with polling(dealer) as (polled, _):
        polled.pause()
        router.send_multipart([identity, *[b""] * (3 * SLICE)])
        await asyncio.to_thread(dealer.poll, 10_000)
        assert [polled.receive() for _ in range(3)] == [([], True), ([], True), ([(b"",) * MOST_PARTS], False)]
        assert polled.receive() == ([], False)


async def test_a_message_is_noticed_although_a_send_consumed_its_signal(dealer_and_router: Pair) -> None:
    dealer, router, identity = dealer_and_router
    with polling(dealer) as (polled, received):
        for number in range(20):
            router.send_multipart([identity, b"%d" % number])
            while not int(dealer.getsockopt(zmq.EVENTS)) & zmq.POLLIN:  # takes the signal, as a send would
                pass
            polled.sent()
            await until(lambda expected=number + 1: len(received) == expected)  # type: ignore[misc]  # binds now


async def test_a_message_is_noticed_although_a_failed_send_consumed_its_signal() -> None:
    async with asyncio.timeout(DEADLINE):
        with peer(zmq.ROUTER, ROUTER_MANDATORY=1, SNDHWM=1) as router:
            address = bound(router)
            with peer(zmq.DEALER, address, RCVHWM=1, RCVBUF=4096) as deaf, peer(zmq.DEALER, address) as other:
                deaf.send(b"hello")
                full, _ = await read(router)
                with polling(router) as (polled, received):
                    await fill(polled, (full, b"x" * 100_000))
                    for number in range(5):
                        other.send(b"%d" % number)
                        end = time.monotonic() + 0.05
                        while time.monotonic() < end:  # surely takes the signal
                            polled.send((full, b"x"))
                        while polled.send((full, b"x")):  # what the kernel took meanwhile made room again
                            pass
                        await until(lambda expected=number + 1: len(received) == expected)  # type: ignore[misc]  # binds


async def fill(polled: Polled, message: Message) -> None:
    """Send until there is no room for a while, because the kernel buffers fill up too."""
    refused = 0
    while refused < 5:
        if polled.send(message):
            refused = 0
        else:
            refused += 1
            await polled.wait_for_activity()


async def test_a_sender_that_waits_for_room_continues_when_there_is_room(dealer_and_router: Pair) -> None:
    dealer, router, _ = dealer_and_router
    with polling(dealer) as (polled, _):
        async with asyncio.TaskGroup() as group:
            sending = group.create_task(send_all(polled, 5_000))
            await until(lambda: bool(polled._waiters) or sending.done())
            await asyncio.to_thread(lambda: [router.recv_multipart() for _ in range(5_000)])


async def send_all(polled: Polled, count: int) -> None:
    for number in range(count):
        while not polled.send((b"%d" % number + b" " * 10_000,)):
            await polled.wait_for_activity()


async def test_a_sender_waits_for_room_no_longer_than_its_deadline(dealer_and_router: Pair) -> None:
    dealer, _, _ = dealer_and_router
    with polling(dealer) as (polled, _):
        await until(lambda: polled._again is None)
        began = time.monotonic()
        await polled.wait_for_activity(DEADLINE)
        assert time.monotonic() - began < DEADLINE / 2
        assert polled._waiters == []


async def test_a_paused_socket_is_read_only_after_it_is_resumed(dealer_and_router: Pair) -> None:
    dealer, router, identity = dealer_and_router
    with polling(dealer) as (polled, received):
        polled.pause()
        router.send_multipart([identity, b"wait"])
        await asyncio.to_thread(dealer.poll, 10_000)
        assert received == []
        polled.resume()
        await until(lambda: received == [(b"wait",)])


async def test_close_wakes_waiting_senders_and_may_be_repeated(dealer_and_router: Pair) -> None:
    dealer, _, _ = dealer_and_router
    with polling(dealer) as (polled, _):
        async with asyncio.TaskGroup() as group:
            group.create_task(polled.wait_for_activity())
            await until(lambda: bool(polled._waiters))
            polled.close(0)
            polled.close(0)
        polled.sent()
        polled.resume()
        assert polled.receive() == ([], False)
