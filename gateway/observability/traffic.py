"""Count the frames, bytes and translation time of all links of one dialect and role."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Generic, Literal, TypeVar

from msgspec import Struct, field

from dragoman.adapters.base import Sink, Transport
from dragoman.adapters.inbound import memory
from dragoman.adapters.wrapped import WrappedTransport
from dragoman.gateway.observability.histogram import Histogram
from dragoman.mappings.dialect import Frame, TextReader, TextSink, TextWriter, Translator

Role = Literal["client", "backend"]
Given = TypeVar("Given")
Result = TypeVar("Result")
Heard = TypeVar("Heard")
Said = TypeVar("Said")


# Seconds: a token takes 20 us, a step of the event loop 10 ms.
BOUNDS = (0.00001, 0.00002, 0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 1.0)


class Traffic(Struct, kw_only=True):
    """Totals since the start: `received` from the peers and `sent` to them. Only counted with an ops port."""

    frames_received: int = 0
    bytes_received: int = 0
    frames_sent: int = 0
    bytes_sent: int = 0
    read_seconds: Histogram = field(default_factory=lambda: Histogram(BOUNDS))
    """The time to decode and translate each read, which has one frame or several."""
    render_seconds: Histogram = field(default_factory=lambda: Histogram(BOUNDS))
    """The time to render and encode each batch for clients."""


def timed(function: Callable[[Given], Result], times: Histogram) -> Callable[[Given], Result]:
    """Return a function that does the same and counts how many seconds each call took."""
    clock, add_value = time.perf_counter, times.add_value

    def measured(given: Given) -> Result:
        start = clock()
        result = function(given)
        add_value(clock() - start)
        return result

    return measured


def timed_writer(write: TextWriter, times: Histogram) -> TextWriter:
    """Return a writer of further text that counts how many seconds each call took."""
    clock, add_value = time.perf_counter, times.add_value

    def measured(text: str, at: int) -> list[bytes]:
        start = clock()
        frames = write(text, at)
        add_value(clock() - start)
        return frames

    return measured


def timed_reader(read: TextReader, times: Histogram) -> TextReader:
    """Return a reader of further text that counts how many seconds it took to read each piece that was taken."""
    clock, add_value = time.perf_counter, times.add_value

    def measured(frame: Frame, add_text: TextSink) -> bool:
        start = clock()

        def timed_sink(text: str, at: int, session: str) -> bool:
            end = clock()
            taken = add_text(text, at, session)
            if taken:
                add_value(end - start)
            return taken

        return read(frame, timed_sink)

    return measured


def observed(
    transport: Transport, translator: Translator[Heard, Said], traffic: Traffic
) -> tuple[Transport, Translator[Heard, Said]]:
    """Return a transport and a translator that do the same and count their traffic and times."""
    return ObservedTransport(transport, traffic), TimedTranslator(translator, traffic)


class ObservedTransport(WrappedTransport):
    """A transport whose frames are counted."""

    def __init__(self, transport: Transport, traffic: Traffic) -> None:
        super().__init__(transport)
        self._traffic = traffic

    async def run(self, sink: Sink) -> None:
        """Push frames to the sink, and count those that it took."""
        traffic = self._traffic

        def count(frames: Sequence[Frame]) -> int:
            taken = sink(frames)
            traffic.frames_received += taken
            if taken == len(frames) == 1 and type(frame := frames[0]) is bytes:
                traffic.bytes_received += len(frame)
            else:
                traffic.bytes_received += size_of_frames(frames[:taken])
            return taken

        await self._transport.run(count)

    async def send(self, frames: Sequence[bytes]) -> None:
        """Write these frames, and count them."""
        self._traffic.frames_sent += len(frames)
        self._traffic.bytes_sent += sum(map(len, frames))
        await self._transport.send(frames)

    def try_send(self, frames: Sequence[bytes]) -> bool:
        """Write these frames now if that is possible, and count them."""
        written = self._transport.try_send(frames)
        if written:
            self._traffic.frames_sent += len(frames)
            self._traffic.bytes_sent += sum(map(len, frames))
        return written


class TimedTranslator(Generic[Heard, Said]):
    """A translator whose work on received frames is timed. All else is that of the translator itself."""

    def __init__(self, translator: Translator[Heard, Said], traffic: Traffic) -> None:
        self._translator, self._times = translator, traffic.read_seconds
        self.receive = timed(translator.receive, traffic.read_seconds)
        self.limit_requests = translator.limit_requests
        self.opened = translator.opened
        self.send = translator.send
        self.attach = translator.attach
        self.detach = translator.detach
        self.on_delivered = translator.on_delivered
        self.can_be_asked = translator.can_be_asked
        self.closed = translator.closed

    @property
    def view(self) -> str:
        """Return the view of the translator itself, which may change."""
        return self._translator.view

    def text_reader(self) -> TextReader | None:
        """Return the reader of the translator itself, timed."""
        read = self._translator.text_reader()
        return timed_reader(read, self._times) if read is not None else None

    @property
    def has_pending_replies(self) -> bool:
        """Return True if the peer still waits for replies."""
        return self._translator.has_pending_replies


def size_of_frames(frames: Sequence[Frame]) -> int:
    """Return the bytes of these frames, with all parts of a ZeroMQ message."""
    return sum(len(frame) if type(frame) is bytes else memory(frame) for frame in frames)
