"""G18: what it costs the event loop to receive a published event, ours against zmq.asyncio.

One publisher in a process of its own, on another core, bursts the same events at both over TCP: one after the other in
each round and in another order each time. XPUB with NODROP, so that both get all of them. The benchmark measures
the CPU time of the event loop's thread from the demand for a burst until its last event. `receive` of our transport
gives Parts, `recv_multipart` of zmq.asyncio lists of bytes. Both on uvloop, as the gateway runs.

    python -m tests.bench.zeromq [ROUNDS]
"""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from statistics import median

import uvloop
import zmq
import zmq.asyncio
from msgspec import Struct

from dragoman.adapters.base import TransportLimits
from dragoman.adapters.zeromq import connect
from dragoman.mappings.dialect import Parts
from tests.bench.processes import cores, pin
from tests.transport_reader import receive

BURST = 50_000  # events; about 0.1 s for the cheaper of the two
WARM_UP = 2_000
ROUNDS = 7
TOKEN = (
    b'llm.token\0{"instanceId":"3f0c9a52-6a1e-4c55-9d0b-8a4f0e7d1c11","projectId":"","topic":"llm.token",'
    b'"timestamp":"2026-05-09T21:28:20.123456789Z","payload":{"session_id":"s-1","token":" word"}}'
)

PUBLISHER = """
import sys, zmq
event, context, known = bytes.fromhex(sys.argv[1]), zmq.Context(), set()
publisher, asked = context.socket(zmq.XPUB), context.socket(zmq.ROUTER)
publisher.setsockopt(zmq.XPUB_NODROP, 1)
publisher.setsockopt(zmq.XPUB_VERBOSE, 1)
print(*(socket.bind_to_random_port("tcp://127.0.0.1") for socket in (publisher, asked)), flush=True)
while True:
    identity, _, events = asked.recv_multipart()
    while identity not in known:  # it has to be heard that it subscribed
        if publisher.recv() == bytes([1]):
            known.add(identity)
    for _ in range(int(events)):
        publisher.send(event)
"""


class Sample(Struct, frozen=True, kw_only=True):
    """The result of a round: seconds of the event loop's thread for one event."""

    ours: float
    theirs: float


Receive = Callable[[str, str], Awaitable[float]]
"""Seconds for a burst from these two addresses."""


def measure(rounds: int) -> list[Sample]:
    """The sample of each round."""
    samples = []
    with _publisher() as addresses:
        gc.collect()
        gc.freeze()  # as the gateway does
        for number in range(rounds):
            print(f"zeromq: round {number + 1} of {rounds} ...", file=sys.stderr, flush=True)
            order: list[tuple[str, Receive]] = [("ours", _ours), ("theirs", _theirs)]
            taken = {name: _run(receive, addresses) / BURST for name, receive in order[:: 1 if number % 2 else -1]}
            samples.append(Sample(**taken))
    return samples


def ratio(sample: Sample) -> float:
    """G18 of one round."""
    return sample.ours / sample.theirs


@contextmanager
def _publisher() -> Iterator[tuple[str, str]]:
    """The publisher, and its addresses."""
    pair = cores()
    with subprocess.Popen([sys.executable, "-c", PUBLISHER, TOKEN.hex()], stdout=subprocess.PIPE) as process:
        try:
            if pair is not None:
                pin(pair[0], process.pid)
                pin(pair[1])
            assert process.stdout is not None
            published, asked = process.stdout.readline().split()
            yield f"tcp://127.0.0.1:{int(published)}", f"tcp://127.0.0.1:{int(asked)}"
        finally:
            process.kill()


def _run(receive: Receive, addresses: tuple[str, str]) -> float:
    async def once() -> float:
        return await receive(*addresses)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(once())


async def _ours(published: str, asked: str) -> float:
    transport = await connect(published, asked, TransportLimits())

    async def burst(events: int) -> None:
        await transport.send([b"%d" % events])
        received = 0
        while received < events:
            frames = await receive(transport)
            received += len(frames)
            assert frames[-1] == Parts("pub", b"", (TOKEN,))

    try:
        return await _timed(burst)
    finally:
        await transport.close()


async def _theirs(published: str, asked: str) -> float:
    with zmq.asyncio.Context() as context:
        subscriber, caller = context.socket(zmq.SUB), context.socket(zmq.DEALER)
        subscriber.subscribe(b"")
        subscriber.connect(published)
        caller.connect(asked)

        async def burst(events: int) -> None:
            await caller.send_multipart([b"", b"%d" % events])
            for _ in range(events - 1):
                await subscriber.recv_multipart()
            assert await subscriber.recv_multipart() == [TOKEN]

        seconds = await _timed(burst)
        for socket in (subscriber, caller):
            socket.close(linger=0)
        return seconds


async def _timed(burst: Callable[[int], Awaitable[None]]) -> float:
    await burst(WARM_UP)
    before = time.thread_time()
    await burst(BURST)
    return time.thread_time() - before


def main() -> None:
    samples = measure(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS)
    for name, values in (("ours", [s.ours for s in samples]), ("zmq.asyncio", [s.theirs for s in samples])):
        print(f"{name:12} {median(values) * 1e6:6.2f} us/event [{min(values) * 1e6:.2f}..{max(values) * 1e6:.2f}]")
    taken = [ratio(sample) for sample in samples]
    print(f"{'ratio':12} {median(taken):6.2f} [{min(taken):.2f}..{max(taken):.2f}], goal <= 0.4, stretch <= 0.25")


if __name__ == "__main__":
    main()
