"""Parse what a client sends: its pings, fragments and parts of messages in pieces, in turns with other clients.

One iteration of the event loop may read from all clients, and each read may have thousands of tiny frames. So the
frames of a read are counted, and then parsed, in pieces. What was read waits here meanwhile, and the connection is not
read. A whole message in one read is parsed at once, because its link takes turns.

Frames are checked and counted from their headers, before aiohttp parses them. aiohttp does not refuse a frame without a
mask, and not each message that begins inside of another (RFC 6455, sections 5.1 and 5.4). It bounds the bytes of a
message, but not its fragments, nor pings and pongs. Empty ones add no bytes: one read of 256 KiB has 43,690 of them,
which take its parser 10 ms (pings) to 130 ms (fragments).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from aiohttp import WSCloseCode
from aiohttp.http_websocket import WebSocketError

from dragoman.adapters.base import NewWork, Work
from dragoman.adapters.meter import Meter
from dragoman.adapters.websocket.message_parser import Message, MessageParser, Receiver

FINAL_MESSAGES = (0x81, 0x82)


class ClientReader(MessageParser):
    """The parser of a client's connection. `new_work` makes the Work by which it takes turns with other connections."""

    control_header = 6

    __slots__ = ("_counter", "_new_work", "_waits", "_work")

    def __init__(self, receiver: Receiver, meter: Meter, limit: int, new_work: NewWork) -> None:
        super().__init__(receiver, meter, limit)
        self._counter = FrameCounter()
        self._new_work = new_work
        self._waits = False  # data waits for its turn
        self._work: Work | None = None  # of data that is parsed in turns

    def feed_data(self, data: bytes) -> Sequence[Message]:
        """Parse a read with one whole message at once, and any other read in its turn."""
        if (  # one final frame between two messages: the fast path of a token
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


# A message of 16 MiB in pieces of 4 KiB has as many; they take aiohttp's parser about 10 ms.
FRAGMENTS_MAX = 4096
# Control frames in one read. Clients send a ping every few seconds; 1,024 take 0.4 ms here and 0.3 ms in the parser.
CONTROL_MAX = 1024
CONTROL_SIZE = 125  # bytes of a control frame at most (RFC 6455, section 5.5)
CONTROL_UNITS = 2048  # units of work of a ping or pong: 10 to 20 us, with its answer
FRAME_UNITS = 256  # units of work of any other frame: 1 to 3 us in the parser
BYTES_OF_UNIT = 16  # bytes of a read that cost one unit: 256 KiB take 100 us, and as long to unmask
PIECE = 64 * 1024  # units of one piece: 256 frames, or 32 pings
DATA = frozenset((0x0, 0x1, 0x2))  # opcodes: the others may stand between two fragments
OPCODES = DATA | {0x8, 0x9, 0xA}


class FrameCounter:
    """Checks and counts the frames of one client by their headers.

    `error` is set at a frame that the client must not send.
    """

    __slots__ = ("_control", "_fragments", "_header", "_skip", "between", "error", "units")

    def __init__(self) -> None:
        self.units = 0
        """The work (units) of the last piece."""
        self.error: WebSocketError | None = None
        """The error that must close the connection: the next frame is one that no client may send, or one too many."""
        self._header = b""  # the beginning of a header whose rest is still to come
        self._skip = 0  # bytes of the current frame that are still to come
        self._fragments = 0  # of the unfinished message
        self._control = 0  # control frames of this read
        self.between = True
        """True if the next byte begins a frame and no message is unfinished: whole messages need no count then."""

    def count_piece(self, data: bytes, begin: int = 0) -> int:
        """Count the next frames of a read from the byte `begin`, and return the end of the piece that they form.

        The piece ends at the end of the read, before a frame for which `error` is set, or after PIECE units.
        """
        known = len(self._header)  # these bytes came with an earlier read
        if known:
            data, self._header = self._header + data, b""
        if not begin:
            self._control = 0
        at, size = begin + self._skip, len(data)
        units = 0
        while at < size and units < PIECE:
            if size - at < 2 or (data[at + 1] >= 0x80 and size - at < _header_size(data[at + 1])):
                self._header, at = data[at:], size
                break
            first, second = data[at], data[at + 1]
            self.error = self._error(first, second)
            if self.error is not None:
                break
            units += FRAME_UNITS if first & 0x0F in DATA else CONTROL_UNITS
            start, length = _header_size(second), second & 0x7F
            at += start + (length if length < 126 else int.from_bytes(data[at + 2 : at + start - 4]))
        self._skip = max(0, at - size)
        self.between = not (self._skip or self._header or self._fragments or self.error)
        end = max(begin, min(at, size) - known)
        self.units = units + (end - begin) // BYTES_OF_UNIT
        return end

    def _error(self, first: int, second: int) -> WebSocketError | None:
        """Count the frame with these first two bytes, or return why the client must not send it here."""
        opcode, is_final = first & 0x0F, first >= 0x80
        if opcode not in OPCODES or first & 0x70:
            return WebSocketError(WSCloseCode.PROTOCOL_ERROR, "unknown opcode, or a reserved bit is set")
        if second < 0x80:
            return WebSocketError(WSCloseCode.PROTOCOL_ERROR, "a client must mask its frames")
        if opcode not in DATA:
            if not is_final or second & 0x7F > CONTROL_SIZE:
                return WebSocketError(WSCloseCode.PROTOCOL_ERROR, "control frame in fragments, or too long")
            self._control += 1
            if self._control > CONTROL_MAX:
                return WebSocketError(WSCloseCode.MESSAGE_TOO_BIG, f"more than {CONTROL_MAX} pings or pongs at once")
            return None
        if (opcode == 0) != (self._fragments > 0):
            return WebSocketError(WSCloseCode.PROTOCOL_ERROR, "message inside of another, or a part of none")
        self._fragments = 0 if is_final else self._fragments + 1
        if self._fragments > FRAGMENTS_MAX:
            return WebSocketError(WSCloseCode.MESSAGE_TOO_BIG, f"message of more than {FRAGMENTS_MAX} fragments")
        return None


def _header_size(second: int) -> int:
    """Return the size of a masked frame's header, which its second byte determines."""
    return 6 + {126: 2, 127: 8}.get(second & 0x7F, 0)
