"""Split a byte stream into newline-delimited frames, without I/O.

`feed` takes one chunk and returns every line that it completes: splitting a whole read costs a tenth of reading line by
line. A line above the limit is discarded up to its newline and replaced by Oversize. It costs the peer one message, and
only its first bytes are kept. A line of ENDLESS times the limit is reported before its end, and ends the link: to
discard it for ever would take half a core. Lines are trimmed of Unicode white space and blank lines are skipped
(docs/dialects/pod.md, section 1; docs/dialects/codewhale.md, section 1). At EOF an unterminated last line counts.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from dragoman.adapters.meter import Meter
from dragoman.mappings.dialect import HEAD, Frame, Oversize

LINES_AT_ONCE = 4096  # lines of a read that are split at once: about 0.4 ms; one read may have 262,144

LARGE = 64 * 1024  # bytes of a line that is written without a copy; shorter ones are joined, which is cheaper

ENDLESS = 16  # times the limit: 256 MiB; the largest messages seen are below 4 MiB

WHITE_SPACE = (
    "\t\n\x0b\x0c\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004"
    "\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)
"""Unicode's White_Space, which the peers trim; `str.strip` would also remove U+001C to U+001F."""


class LineSplitter:
    """The line buffer of one stream. Its unfinished line has at most `max_line` bytes; `meter` counts what it holds.

    `feed` returns about `lines_at_once` lines at most. The rest of the data waits in `unsplit`, and `more` splits it.
    """

    __slots__ = ("_begun", "_lines_at_once", "_meter", "_size", "max_line", "unsplit")

    def __init__(self, max_line: int, meter: Meter | None = None, lines_at_once: int = sys.maxsize) -> None:
        self.max_line = max_line
        self._meter = meter or Meter()
        self.unsplit: list[bytes] = []  # few: a deque would take 760 bytes of an idle link
        self._lines_at_once = lines_at_once
        self._begun = bytearray()  # appending stays linear even if a long line arrives byte by byte
        self._size = 0  # bytes of the unfinished line, including those discarded above the limit

    def feed(self, data: bytes) -> list[Frame]:
        """Return the lines that `data` completes, or the first of them."""
        if self.unsplit:
            self.unsplit.append(data)
            self._meter.add(len(data))
            return []
        if not self._size and data.find(b"\n") == len(data) - 1 and len(data) <= self.max_line and data.isascii():
            line = data.strip()  # the fast path: a read with one line, as when tokens arrive one by one
            return [line] if line else []
        return self._split(data)

    def more(self) -> list[Frame]:
        """Return further lines of the data in `unsplit`; none if these were blank."""
        data = self.unsplit.pop(0)
        self._meter.add(-len(data))
        return self._split(data)

    def _split(self, data: bytes) -> list[Frame]:
        """Return the first lines of `data`; the rest goes back to `unsplit`."""
        if len(data) > self._lines_at_once and not self._size:
            data = data.lstrip()  # a flood of blank lines is not worth a split
        lines = data.split(b"\n", self._lines_at_once)
        rest = lines.pop()
        if len(lines) == self._lines_at_once and b"\n" in rest:
            self.unsplit.insert(0, rest)
            self._meter.add(len(rest))
            rest = b""
        frames: list[Frame] = []
        if lines and self._size:
            self._hold(lines.pop(0))
            frames += self.finish()
        if len(data) <= self.max_line:
            frames += _trimmed(lines, plain=data.isascii())
        else:
            for line in lines:
                self._hold(line)
                frames += self.finish()
        begun, endless = self._size, ENDLESS * self.max_line
        self._hold(rest)
        if begun <= endless < self._size:
            frames.append(Oversize(size=self._size, limit=self.max_line, endless=True, head=bytes(self._begun)))
        return frames

    def finish(self) -> list[Frame]:
        """Return the unfinished line as one frame, as if its newline had arrived, or no frame."""
        size, self._size = self._size, 0
        line = bytes(self._begun)
        self._forget()
        if size > self.max_line:
            return [Oversize(size=size, limit=self.max_line, head=line)]
        return [*_trimmed([line], plain=line.isascii())]

    def clear(self) -> None:
        """Drop the unfinished line and the data that is not split yet."""
        self._size = 0
        self._meter.add(-sum(map(len, self.unsplit)))
        self.unsplit.clear()
        self._forget()

    def _hold(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size <= self.max_line:
            self._begun += piece
            self._meter.add(len(piece))
        else:
            head = bytes(self._begun[:HEAD]) + piece[: max(0, HEAD - len(self._begun))]
            self._forget()
            self._begun += head
            self._meter.add(len(head))

    def _forget(self) -> None:
        held = len(self._begun)
        if held:
            self._begun.clear()
            self._meter.add(-held)


def join(frames: Sequence[bytes]) -> bytes:
    """Return the frames as lines, each with its newline."""
    return b"\n".join((*frames, b""))


def line_buffers(frames: Sequence[bytes]) -> Sequence[bytes]:
    """Return the frames as lines, in buffers. Large ones are not copied: many clients may be sent the same history."""
    if len(frames) == 1 and len(frames[0]) < LARGE:
        return (frames[0] + b"\n",)  # for each token: a join takes five times the instructions
    if max(map(len, frames), default=0) < LARGE:
        return (b"\n".join((*frames, b"")),)
    buffers: list[bytes] = []
    start = 0
    for number, frame in enumerate(frames):
        if len(frame) >= LARGE:
            buffers += (join(frames[start:number]), frame, b"\n")
            start = number + 1
    return [*filter(None, buffers), join(frames[start:])]


def _trimmed(lines: list[bytes], *, plain: bool) -> list[bytes]:
    lines = [*filter(None, map(bytes.strip, lines))]
    if plain:
        return lines
    return [line for raw in lines if (line := raw if raw[0] < 0x80 and raw[-1] < 0x80 else _trimmed_unicode(raw))]


def _trimmed_unicode(line: bytes) -> bytes:
    try:
        return line.decode().strip(WHITE_SPACE).encode()
    except UnicodeDecodeError:
        return line  # not UTF-8: the dialect refuses it
