"""Check and count the frames of a client, from their headers, before aiohttp parses them.

aiohttp does not refuse a frame without a mask, and not each message that begins inside of another (RFC 6455, sections
5.1 and 5.4). It bounds the bytes of a message, but not its fragments, nor pings and pongs. Empty ones add no bytes: one
read of 256 KiB has 43,690 of them, which take its parser 10 ms (pings) to 130 ms (fragments). So a read is counted, and
then parsed, in pieces.
"""

from __future__ import annotations

from aiohttp import WSCloseCode
from aiohttp.http_websocket import WebSocketError

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
    """Follows the frames of one client."""

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
    """Return the size of a masked frame's header, which its second byte tells."""
    return 6 + {126: 2, 127: 8}.get(second & 0x7F, 0)
