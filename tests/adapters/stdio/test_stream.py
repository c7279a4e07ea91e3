"""Frames over two stream ends, with a raw pipe on the other side."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from dragoman.adapters.base import TransportLimits
from dragoman.adapters.stdio.stream import LineStream
from dragoman.mappings.dialect import Frame, Oversize
from tests.idle import run_turns
from tests.transport_reader import receive, receive_all

DEADLINE = 20.0


class Peer:
    """A stream, and the far ends of its two pipes."""

    def __init__(self, limits: TransportLimits) -> None:
        source, self.writes = os.pipe()
        self.reads, sink = os.pipe()
        for fd in (source, sink, self.writes, self.reads):
            os.set_blocking(fd, False)
        self.stream = LineStream(os.fdopen(source, "rb", 0), os.fdopen(sink, "wb", 0), limits)

    def say(self, data: bytes) -> int:
        """Write as much as the pipe takes."""
        try:
            return os.write(self.writes, data)
        except BlockingIOError:
            return 0

    def hear(self) -> bytes:
        try:
            return os.read(self.reads, 1 << 20)
        except BlockingIOError:
            return b""

    def hang_up(self) -> None:
        os.close(self.writes)
        self.writes = -1


@contextmanager
def peer(limits: TransportLimits = TransportLimits()) -> Iterator[Peer]:  # noqa: B008  # frozen
    made = Peer(limits)
    try:
        yield made
    finally:
        made.stream._in.close()
        made.stream._out.close()
        for fd in (made.reads, made.writes):
            if fd >= 0:
                os.close(fd)


async def test_one_receive_returns_all_ready_frames() -> None:
    with peer() as other:
        other.say(b"one\ntwo\n\nthree\nfo")
        assert await receive(other.stream) == [b"one", b"two", b"three"]


async def test_a_line_in_two_writes_is_one_frame() -> None:
    with peer() as other:
        other.say(b"one and ")
        await run_turns()
        other.say(b"a half\n")
        assert await receive(other.stream) == [b"one and a half"]


async def test_frames_that_the_sink_left_are_given_again_when_the_link_resumes() -> None:
    taken: list[Frame] = []
    room = [1, 2]

    def take(frames: Sequence[Frame]) -> int:
        some = frames[: room.pop(0)] if room else frames
        taken.extend(some)
        return len(some)

    with peer() as other:
        other.say(b"one\ntwo\nthree\n")
        async with asyncio.timeout(DEADLINE), asyncio.TaskGroup() as group:
            reading = group.create_task(other.stream.run(take))
            await run_turns()
            assert taken == [b"one"]
            other.stream.resume()
            assert taken == [b"one", b"two", b"three"]
            other.hang_up()
            await reading


async def test_a_discarded_peer_is_read_on_so_that_it_can_write_and_nothing_of_it_is_held() -> None:
    with peer(TransportLimits(receive_high=1)) as other:
        other.say(b"one\n" + b"x" * 50_000)
        await run_turns()
        assert other.stream.meter.size > 0
        other.stream.discard()
        async with asyncio.timeout(DEADLINE):
            sent = 0
            while sent < 1 << 20:
                sent += other.say(b"y" * 10_000)
                await asyncio.sleep(0)
        other.hang_up()
        assert await receive_all(other.stream) == []
        assert other.stream.meter.size == 0


async def test_a_peer_that_closed_its_input_can_read_nothing_more() -> None:
    with peer() as other:
        assert other.stream.peer_can_read()
        os.close(other.reads)
        other.reads = -1
        assert not other.stream.peer_can_read()


async def test_an_unterminated_last_line_is_a_frame() -> None:
    with peer() as other:
        other.say(b"one\ntwo")
        other.hang_up()
        assert await receive_all(other.stream) == [b"one", b"two"]
        assert await receive(other.stream) == []


async def test_an_oversized_line_loses_only_that_line() -> None:
    with peer(TransportLimits(max_message=100)) as other:
        other.say(b"x" * 101 + b"\nnext\n")
        other.hang_up()
        assert await receive_all(other.stream) == [Oversize(size=101, limit=100, head=b"x" * 101), b"next"]


async def test_one_send_is_one_write() -> None:
    with peer() as other:
        await other.stream.send([b"one", b"two"])
        assert other.hear() == b"one\ntwo\n"


async def test_a_peer_is_stopped_while_nobody_receives() -> None:
    line = b"x" * 999 + b"\n"
    limits = TransportLimits(receive_high=128 * 1024)
    with peer(limits) as other:
        sent = stopped = 0
        while stopped < 100:
            written = other.say(line)
            sent += written
            stopped += not written
            await asyncio.sleep(0)
        held = sum(len(frame) for frame in other.stream._frames if isinstance(frame, bytes))
        assert held < limits.receive_high + 64 * 1024, "at most the mark and one read"
        assert sent < 512 * 1024, "the pipe and ours"
        other.hang_up()
        frames = await receive_all(other.stream)
        assert sum(len(frame) + 1 for frame in frames if isinstance(frame, bytes)) in (sent, sent + 1)


async def test_tiny_lines_count_with_the_memory_that_they_take() -> None:
    with peer(TransportLimits(receive_high=128 * 1024)) as other:
        other.say(b"x\n" * 30_000)
        await run_turns()
        assert not other.stream._in._reading


async def test_send_waits_for_a_peer_that_does_not_read() -> None:
    with peer(TransportLimits(send_high=64 * 1024)) as other:
        frame = b"x" * 1024 * 1024
        async with asyncio.timeout(DEADLINE), asyncio.TaskGroup() as group:
            sending = group.create_task(other.stream.send([frame]))
            more = group.create_task(other.stream.send([frame]))
            await run_turns()
            assert not sending.done()
            assert other.stream._out._waiting <= len(frame) + 1, "the second batch was not written yet"
            received = 0
            while received < 2 * (len(frame) + 1):
                received += len(other.hear())
                await asyncio.sleep(0)
            await asyncio.wait((sending, more))


async def test_try_send_writes_at_once_to_a_peer_that_keeps_up() -> None:
    with peer() as other:
        assert other.stream.try_send([b"one", b"two"])
        assert other.hear() == b"one\ntwo\n"


async def test_try_send_fails_if_the_peer_does_not_keep_up() -> None:
    with peer(TransportLimits(send_high=1024)) as other:
        assert other.stream.try_send([b"x" * 1024 * 1024])
        waiting = other.stream._out._waiting
        assert not other.stream.try_send([b"more"])
        assert other.stream._out._waiting == waiting > 1024, "nothing of it was written"


async def test_try_send_fails_if_the_peer_is_gone() -> None:
    with peer() as other:
        os.close(other.reads)
        other.reads = -1
        assert other.stream.try_send([b"this finds it out"])
        assert not other.stream.try_send([b"anybody?"])


async def test_sending_to_a_gone_peer_raises_connection_error() -> None:
    with peer() as other:
        os.close(other.reads)
        other.reads = -1
        with pytest.raises(ConnectionError):
            await other.stream.send([b"anybody?"])


async def test_frames_of_a_peer_that_stopped_reading_are_received() -> None:
    with peer() as other:
        other.say(b"my last words\n")
        os.close(other.reads)
        other.reads = -1
        with pytest.raises(ConnectionError):
            await other.stream.send([b"anybody?"])
        other.hang_up()
        assert await receive_all(other.stream) == [b"my last words"]


async def test_the_end_writes_pending_frames_and_reads_meanwhile_so_that_the_peer_can_read() -> None:
    with peer(TransportLimits(receive_high=1)) as other:
        async with asyncio.timeout(DEADLINE), asyncio.TaskGroup() as group:
            frame = b"x" * 200_000
            other.stream._out.write(frame)
            finishing = group.create_task(other.stream._finish_writing())
            heard = b""
            while not finishing.done():
                heard += other.hear()
                other.say(b"y" * 10_000 + b"\n")
                await asyncio.sleep(0)
        assert heard + other.hear() == frame
        assert other.stream._out.closed


async def test_the_end_does_not_wait_longer_than_the_deadline() -> None:
    with peer(TransportLimits(close_deadline=0.05)) as other:
        other.stream._out.write(b"x" * 1024 * 1024)
        async with asyncio.timeout(DEADLINE):
            await other.stream._finish_writing()
        assert other.stream._out.closed
