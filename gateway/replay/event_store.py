"""The events of a recording's log, compressed in memory.

Each session of a replay plays them from the beginning. Reading the file again would take longer than one step of the
event loop may: a line can be long and full of frames, many lines can be damaged, and the file may be gone.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

import msgspec
import zstandard

from dragoman.gateway.recording.format import EventLine

BLOCK = 1 << 16  # bytes of events that are compressed together, and decoded at once: about 0.5 ms

_ENCODER = msgspec.json.Encoder()
_EVENTS = msgspec.json.Decoder(list[EventLine])


class EventStore:
    """The logged events of a recording, in their order. `add` them, then `close`; from then on they can be read."""

    def __init__(self) -> None:
        self._firsts: list[int] = []  # seq of the first event of each block
        self._blocks: list[bytes] = []
        self._open: list[bytes] = []  # encoded events of the block that is being filled
        self._size = 0

    def add(self, line: EventLine) -> None:
        raw = _ENCODER.encode(line)
        if self._size + len(raw) > BLOCK:
            self.close()
        if not self._open:
            self._firsts.append(line.seq)
        self._open.append(raw)
        self._size += len(raw)

    def close(self) -> None:
        """Compress the events that were added last."""
        if self._open:
            self._blocks.append(zstandard.compress(b"[" + b",".join(self._open) + b"]", 1))
        self._open, self._size = [], 0

    def read(self, first: int, last: int) -> Iterator[EventLine]:
        """Yield the events with these numbers, both included."""
        for block in self._blocks[max(bisect_right(self._firsts, first) - 1, 0) :]:
            for line in _EVENTS.decode(zstandard.decompress(block)):
                if line.seq > last:
                    return
                if line.seq >= first:
                    yield line
