"""The publication of a ZeroMQ listener to plain SUB sockets that read, stop, connect and disconnect."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import zmq
from msgspec import structs

from dragoman.adapters.zeromq.curve import CurveServer
from dragoman.adapters.zeromq.polled import BATCH
from dragoman.adapters.zeromq.publication import TOPIC_MAX
from dragoman.adapters.zeromq.sockets import ZeroMQLimits
from dragoman.mappings.dialect import Loss
from tests.adapters.zeromq.peers import BOUNDS, DEADLINE, LIMITS, PATIENCE, Primary, peer, primary
from tests.awaited import until
from tests.transport_reader import receive

Socket = zmq.Socket[bytes]

QUICK = structs.replace(BOUNDS, publish_wait=0.05, send_hwm=100)
SLUGGISH = {"RCVHWM": 1, "RCVBUF": 4096}  # what it does not read is soon in our way
END = b"the end"


@asynccontextmanager
async def subscribed(ours: Primary, topic: bytes = b"", /, **options: int) -> AsyncIterator[Socket]:
    """Open a SUB socket; return when the publication has received its subscription."""
    before = ours.subscriptions
    with peer(zmq.SUB, **options) as subscriber:
        subscriber.subscribe(topic)
        subscriber.connect(ours.publications)
        await until(lambda: ours.subscriptions > before)
        yield subscriber


def numbered(count: int, size: int = 1_000) -> list[bytes]:
    return [b"%d " % number + b" " * size for number in range(count)]


def read_to_end(subscriber: Socket) -> list[int]:
    """Read as a subscriber in its own thread up to the end mark; return the numbers of the messages."""
    numbers: list[int] = []
    while (message := subscriber.recv()) != END:
        numbers.append(int(message.split()[0]))
    return numbers


async def publish_end(ours: Primary) -> None:
    """Publish the end mark again until no subscriber refuses it; refused copies are not counted."""
    reported = len(ours.losses)
    await ours.publication.send([END])
    while len(ours.losses) > reported:
        del ours.losses[reported:]
        await ours.publication.send([END])


async def test_publications_arrive_as_one_part_in_order() -> None:
    async with primary() as ours, subscribed(ours) as subscriber:
        await ours.publication.send([b"llm.token\0{}", b"llm.end\0{}"])
        for expected in (b"llm.token\0{}", b"llm.end\0{}"):
            assert await asyncio.to_thread(subscriber.recv_multipart) == [expected]


async def test_each_subscription_of_an_encrypted_subscriber_counts() -> None:
    (server, secret), (client, own) = zmq.curve_keypair(), zmq.curve_keypair()
    keys = {"CURVE_SERVERKEY": server, "CURVE_PUBLICKEY": client, "CURVE_SECRETKEY": own}
    with peer(zmq.SUB, **keys) as subscriber:
        async with primary(curve=CurveServer(secret=secret, accepts=lambda key: key == client)) as ours:
            subscriber.connect(ours.publications)
            for topic in (b"llm", b"tool", b"session"):
                subscriber.subscribe(topic)
            await until(lambda: ours.subscriptions == 3)
            await ours.publication.send([b"tool.end\0{}"])
            assert await asyncio.to_thread(subscriber.recv_multipart) == [b"tool.end\0{}"]


async def test_a_slow_subscriber_that_keeps_reading_loses_nothing() -> None:
    """The queue fills up again and again, but half of it is read each time before the subscriber is disconnected."""
    bounds = structs.replace(BOUNDS, publish_wait=10.0, send_hwm=10)
    async with primary(bounds=bounds) as ours, subscribed(ours, **SLUGGISH) as subscriber:
        async with asyncio.TaskGroup() as group:
            reading = group.create_task(asyncio.to_thread(read_to_end, subscriber))
            await ours.publication.send([*numbered(5_000), END])
        assert reading.result() == list(range(5_000))
        assert ours.losses == []


async def test_frames_received_by_a_stalled_subscriber_plus_counted_losses_are_all_publications() -> None:
    async with primary(bounds=QUICK) as ours, subscribed(ours, **SLUGGISH) as subscriber:
        frames = numbered(5_000)
        for start in range(0, len(frames), 500):
            await ours.publication.send(frames[start : start + 500])
        assert ours.lost > 0
        async with asyncio.TaskGroup() as group:
            reading = group.create_task(asyncio.to_thread(read_to_end, subscriber))
            await publish_end(ours)
        assert len(reading.result()) + ours.lost == 5_000
        assert ours.losses[0] == Loss(kind="publication", why="a subscriber does not read", count=ours.losses[0].count)


async def test_a_full_publication_waits_once_per_send_and_not_per_frame() -> None:
    async with primary(bounds=QUICK) as ours, subscribed(ours, **SLUGGISH):
        while not ours.lost:
            await ours.publication.send(numbered(500))
        began = time.monotonic()
        await ours.publication.send(numbered(500))
        assert QUICK.publish_wait <= time.monotonic() - began < 500 * QUICK.publish_wait / 2


async def test_a_cancelled_send_counts_the_frames_that_it_did_not_write() -> None:
    bounds = structs.replace(QUICK, publish_wait=60.0)
    async with primary(bounds=bounds) as ours, subscribed(ours, **SLUGGISH) as subscriber:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await ours.publication.send(numbered(5_000))
        assert ours.lost > 0
        async with asyncio.TaskGroup() as group:
            reading = group.create_task(asyncio.to_thread(read_to_end, subscriber))
            await publish_end(ours)
        assert len(reading.result()) + ours.lost == 5_000


async def test_publications_without_a_subscriber_do_not_count_as_lost() -> None:
    async with primary() as ours, subscribed(ours, b"db."):
        await ours.publication.send(numbered(5_000))
        assert ours.losses == []


async def test_a_full_subscriber_of_one_topic_does_not_delay_another_topic() -> None:
    async with (
        primary(bounds=QUICK) as ours,
        subscribed(ours, b"db.", **SLUGGISH),
        subscribed(ours, b"llm.") as reader,
    ):
        while not ours.lost:
            await ours.publication.send([b"db." + frame for frame in numbered(500)])
        lost = ours.lost
        await ours.publication.send([b"llm.end"])
        assert await asyncio.to_thread(reader.recv) == b"llm.end"
        assert ours.lost == lost


async def test_several_subscribers_that_read_get_all_publications() -> None:
    async with primary() as ours, subscribed(ours) as one, subscribed(ours) as two, asyncio.TaskGroup() as group:
        reading = [group.create_task(asyncio.to_thread(read_to_end, reader)) for reader in (one, two)]
        await ours.publication.send(numbered(5_000, 10))
        await publish_end(ours)
        for reader in reading:
            assert len(await reader) + ours.lost == 5_000


async def test_a_stalled_subscriber_is_disconnected_at_its_deadline_and_others_get_everything() -> None:
    bounds = structs.replace(QUICK, stall_deadline=0.3)
    async with (
        primary(bounds=bounds) as ours,
        subscribed(ours) as reader,
        subscribed(ours, **SLUGGISH, RECONNECT_IVL=-1),
    ):
        async with asyncio.TaskGroup() as group:
            sent = 0
            reading = group.create_task(asyncio.to_thread(read_to_end, reader))
            while len(ours.publication.subscribers) == 2:
                await ours.publication.send(numbered(100))
                sent += 100
            ours.publication._publish_wait = DEADLINE  # libzmq's thread sees the end of a connection when it runs
            lost = ours.lost
            await ours.publication.send(numbered(50))
            assert ours.lost == lost
            await publish_end(ours)
        assert len(reading.result()) == sent - lost + 50


async def test_the_only_subscriber_is_never_disconnected() -> None:
    bounds = structs.replace(QUICK, stall_deadline=0.1)
    async with primary(bounds=bounds) as ours, subscribed(ours, **SLUGGISH):
        began = time.monotonic()
        while time.monotonic() - began < 0.5:
            await ours.publication.send(numbered(100))
        assert ours.lost > 0
        assert (ours.subscriptions, len(ours.publication.subscribers)) == (1, 1), "it would have connected again"


async def test_a_subscriber_that_connects_and_disconnects_is_detected() -> None:
    async with primary() as ours:
        for topic in (b"llm.", b"", b"db."):
            async with subscribed(ours, topic):
                assert ours.topics == {topic}
            await until(lambda: not ours.topics and not len(ours.publication.subscribers))
        await ours.publication.send(numbered(2_000))
        assert ours.lost == 0


async def test_a_full_subscriber_that_disconnects_makes_room() -> None:
    async with primary(bounds=QUICK) as ours:
        async with subscribed(ours, **SLUGGISH):
            while not ours.lost:
                await ours.publication.send(numbered(500))
        await until(lambda: not ours.topics)
        async with subscribed(ours) as reader:
            lost = ours.lost
            await ours.publication.send([b"again"])
            assert await asyncio.to_thread(reader.recv) == b"again"
            assert ours.lost == lost


async def test_garbage_from_a_subscriber_is_ignored() -> None:
    async with primary() as ours, subscribed(ours) as reader:
        with peer(zmq.XSUB, ours.publications) as rude:
            for message in ([b""], [b"\x02"], [b"\x01", b"more"], [b"hello", b"world"], [b"\x01last"]):
                rude.send_multipart(message)
            await until(lambda: b"last" in ours.topics)
        await ours.publication.send([b"llm.end"])
        assert await asyncio.to_thread(reader.recv) == b"llm.end"


async def test_only_the_subscriber_with_an_oversized_topic_is_disconnected() -> None:
    """libzmq keeps about 100 bytes of memory for each byte of a topic."""
    async with primary() as ours, subscribed(ours) as reader:
        with peer(zmq.XSUB, ours.publications) as rude:
            await until(lambda: len(ours.publication.subscribers) == 2)
            rude.send(b"\x01" + b"t" * TOPIC_MAX)
            await until(lambda: b"t" * TOPIC_MAX in ours.topics)
            rude.setsockopt(zmq.RECONNECT_IVL, 3_600_000)
            rude.send(b"\x01" + b"t" * (TOPIC_MAX + 1))
            await until(lambda: len(ours.publication.subscribers) == 1)
        assert max(map(len, ours.topics), default=0) <= TOPIC_MAX
        await ours.publication.send([b"llm.end" + b"x" * 2 * TOPIC_MAX])
        assert await asyncio.to_thread(reader.recv) == b"llm.end" + b"x" * 2 * TOPIC_MAX


async def test_close_still_sends_the_last_publications() -> None:
    async with primary(structs.replace(LIMITS, close_deadline=DEADLINE)) as ours, subscribed(ours) as subscriber:
        await ours.publication.send([*numbered(900), END])
        await ours.publication.close()
        assert len(await asyncio.to_thread(read_to_end, subscriber)) == 900


async def test_close_ends_at_its_deadline_if_a_subscriber_does_not_read() -> None:
    bounds = ZeroMQLimits(publish_wait=0.05)
    async with primary(structs.replace(LIMITS, close_deadline=0.3), bounds) as ours, subscribed(ours, **SLUGGISH):
        while not ours.lost:
            await ours.publication.send(numbered(500, 10_000))
        began = time.monotonic()
        await ours.close()
        assert 0.2 < time.monotonic() - began < DEADLINE / 2


async def test_a_subscriber_with_too_many_topics_is_disconnected_and_the_others_get_everything() -> None:
    bounds = structs.replace(BOUNDS, subscriptions=50)
    async with primary(bounds=bounds) as ours, subscribed(ours) as reader:
        with peer(zmq.XSUB, ours.publications, RECONNECT_IVL=3_600_000) as greedy:
            for number in range(50):
                greedy.send(b"\x01topic %d" % number)
            await until(lambda: ours.subscriptions == 51)
            assert len(ours.publication.subscribers) == 2
            greedy.send(b"\x01one more")
            await until(lambda: len(ours.publication.subscribers) == 1)
        (loss,) = ours.losses
        assert (loss.kind, "`subscriptions`" in loss.why) == ("subscriber", True)
        await ours.publication.send([b"llm.end"])
        assert await asyncio.to_thread(reader.recv) == b"llm.end"


async def test_a_topic_counts_for_its_connection_although_the_event_loop_has_not_heard_of_that() -> None:
    async with primary(bounds=structs.replace(BOUNDS, subscriptions=1)) as ours:
        with peer(zmq.XSUB, ours.publications, RECONNECT_IVL=3_600_000) as greedy:
            greedy.send(b"\x01one")
            assert ours.publication.socket.poll(PATIENCE)  # the event loop stands meanwhile
            await ours.publication.send([])  # which then reads from this socket first
            await until(lambda: ours.subscriptions == 1)
            greedy.send(b"\x01two")
            await until(lambda: len(ours.losses) == 1)


async def test_a_flood_of_topics_is_ended_before_libzmq_has_taken_much_of_it() -> None:
    async with primary(bounds=structs.replace(BOUNDS, subscriptions=50)) as ours:
        with peer(zmq.XSUB, ours.publications, RECONNECT_IVL=3_600_000, SNDHWM=0) as greedy:
            for number in range(50_000):
                greedy.send(b"\x01%050d" % number)
            await until(lambda: len(ours.losses) == 1)
            assert ours.subscriptions < 50 + 4 * BATCH


async def test_a_closed_publication_neither_receives_nor_sends() -> None:
    async with primary() as ours:
        await ours.publication.close()
        assert await receive(ours.publication) == []
        with pytest.raises(ConnectionError):
            await ours.publication.send([b"anybody?"])
        assert ours.lost == 1


async def test_a_new_subscriber_is_reported() -> None:
    async with primary() as ours, subscribed(ours), subscribed(ours, b"llm."):
        assert ours.subscriptions == 2
