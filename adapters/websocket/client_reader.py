"""Parse what a client sends: its pings, fragments and parts of messages in pieces, in turns with other clients.

One iteration of the event loop may read from all clients, and each read may have thousands of tiny frames. So the
frames of a read are counted, and then parsed, in pieces. What was read waits here meanwhile, and the connection is not
read. A whole message in one read is parsed at once, because its link takes turns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dragoman.adapters.base import NewWork, Work
from dragoman.adapters.meter import Meter
from dragoman.adapters.websocket.frame_counter import FrameCounter
from dragoman.adapters.websocket.message_parser import Message, MessageParser, Receiver

FINAL_MESSAGES = (0x81, 0x82)


class ClientReader(MessageParser):
    """The parser of a client's connection; `new_work` makes the work by which it takes turns."""

    control_header = 6

    __slots__ = ("_counter", "_new_work", "_waits", "_work")

    def __init__(self, receiver: Receiver, meter: Meter, limit: int, new_work: NewWork) -> None:
        super().__init__(receiver, meter, limit)
        self._counter = FrameCounter()
        self._new_work = new_work
        self._waits = False  # data waits for its turn
        self._work: Work | None = None  # of data that is parsed in turns

    def feed_data(self, data: bytes) -> Sequence[Message]:
        """Parse one whole message, as most reads are, at once, and anything else in its turn."""
        if (  # one final frame between two messages: a call for each would be felt
            self._work is None
            and self._counter.between
            and len(data) > 8
            and data[0] in FINAL_MESSAGES
            and data[1] != 255
            and len(data) == (data[1] - 122 if data[1] < 254 else (data[2] << 8 | data[3]) + 8)
        ) or self._parser is None:
            return super().feed_data(data)
        if self._work is None:
            self._work = self._new_work(self._fail)
        self._kept += len(data)
        self._work.add_work(self._parse_in_turn(self._work, data))
        if self._kept:
            self._waits = True
            self._receiver.hold(waits=True)
            self._count()
        return ()

    def feed_eof(self) -> None:
        """End the stream after the bytes that wait for their turn."""
        if self._work is not None:
            self._work.add_work(self._end_in_turn())
        else:
            self._new_work(self._fail).end_link(super().feed_eof)

    def discard(self) -> None:
        if self._work is not None:
            self._work.stop()
            self._work = None
        super().discard()

    def _parse_in_turn(self, work: Work, data: bytes) -> Iterator[None]:
        """Parse what was read in pieces, one for each turn. End the stream at a frame that is not allowed."""
        counter, at, size = self._counter, 0, len(data)
        while at < size and self._parser is not None:
            end = counter.count_piece(data, at)
            self._kept -= end - at
            if end > at:
                super().feed_data(data if end - at == size else data[at:end])
            if counter.error is not None:
                self._end(counter.error)
            at = end
            work.count(counter.units)
            if self._kept:
                yield
        if not self._kept:
            self._work = None  # it refers to us, and takes 0.8 KB of an idle connection, which answers our pings
            if self._waits and self._parser is not None:
                self._waits = False
                self._receiver.hold(waits=False)

    def _end_in_turn(self) -> Iterator[None]:
        super().feed_eof()
        yield from ()
