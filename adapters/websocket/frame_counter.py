"""Count frames of a client that aiohttp does not bound, from the headers of the frames.

aiohttp bounds the bytes of a message, but not its fragments, nor pings and pongs. Empty ones add no bytes: one read of
256 KiB has 43,690 of them, which take its parser 10 ms (pings) to 130 ms (fragments).
"""

from __future__ import annotations

from dragoman.adapters.base import NewWork

# A message of 16 MiB in pieces of 4 KiB has as many; they take aiohttp's parser about 10 ms.
FRAGMENTS_MAX = 4096
# Control frames in one read. Clients send a ping every few seconds; 1,024 take 0.4 ms here and 0.3 ms in the parser.
CONTROL_MAX = 1024
CONTROL_UNITS = 2048  # units of work of a ping or pong: 10 to 20 us, with its answer
FRAME_UNITS = 256  # units of work of any other frame: 1 to 3 us in the parser
BYTES_OF_UNIT = 16  # bytes of a read that cost one unit: 256 KiB take 100 us, and as long to unmask
DATA = frozenset((0x0, 0x1, 0x2))  # opcodes: the others may stand between two fragments
OPCODES = DATA | {0x8, 0x9, 0xA}


class FrameCounter:
    """Follows the frames of one client. `early` was received together with its handshake.

    `new_work` makes the work of this connection; without it what was read is parsed at once.

    If a header is impossible, the parser refuses it, and the counter stops.
    """

    __slots__ = ("_fragments", "_header", "_skip", "_stopped", "between", "new_work", "units")

    def __init__(self, early: bytes = b"", new_work: NewWork | None = None) -> None:
        self.new_work = new_work
        self.units = 0
        """The work (units) that the data of the last `refusal` costs."""
        self._header = b""  # the beginning of a header whose rest is still to come
        self._skip = 0  # bytes of the current frame that are still to come
        self._fragments = 0  # of the unfinished message
        self._stopped = False
        self.between = True
        """True if the next byte begins a frame and no message is unfinished: whole messages may be left out."""
        self.refusal(early)

    def refusal(self, data: bytes) -> str:
        """Read the next data. Return what the client did wrong if it sent too many frames, and "" otherwise."""
        if self._stopped:
            return ""
        if self._header:
            data, self._header = self._header + data, b""
        at, size, control = self._skip, len(data), 0
        self.units = size // BYTES_OF_UNIT
        while at < size:
            if size - at < 2 or size - at < (start := _header_size(data[at + 1])):
                self._header, at = data[at:], size
                break
            first, second = data[at], data[at + 1]
            if first & 0x0F not in OPCODES or first & 0x70 or second < 0x80:
                self._stopped, self.between = True, False
                return ""
            if first & 0x0F in DATA:
                self._fragments = 0 if first & 0x80 else self._fragments + 1
                if self._fragments > FRAGMENTS_MAX:
                    return f"message of more than {FRAGMENTS_MAX} fragments"
            else:
                control += 1
                if control > CONTROL_MAX:
                    return f"more than {CONTROL_MAX} pings or pongs at once"
            self.units += FRAME_UNITS if first & 0x0F in DATA else CONTROL_UNITS
            length = second & 0x7F
            at += start + (length if length < 126 else int.from_bytes(data[at + 2 : at + start - 4]))
        self._skip = at - size
        self.between = not (self._skip or self._header or self._fragments)
        return ""


def _header_size(second: int) -> int:
    """Return the size of a masked frame's header, which its second byte tells."""
    return 6 + {126: 2, 127: 8}.get(second & 0x7F, 0)
