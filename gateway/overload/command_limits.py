"""Look at the bytes of a client's command before it is decoded: refuse what is too large, and expect costly work.

Decoding builds an object for each JSON value, and holds the interpreter until it is done (docs/performance.md, "The
work of one step"). A refused frame becomes Oversize, so the client gets its dialect's own error and stays connected.
"""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.adapters.inbound import memory
from dragoman.gateway.config.model import Limits
from dragoman.gateway.overload.fair_queue import FRAME, QUANTUM
from dragoman.mappings.dialect import Dialect, Frame, Oversize, Parts
from dragoman.mappings.errors import PeerError
from dragoman.mappings.value_count import check_value_count


class CommandLimits:
    """The limits `max_command` and `message_values` for clients of one dialect."""

    __slots__ = ("_inputs", "_large_part", "_size", "_values", "unchecked", "work")

    def __init__(self, limits: Limits, dialect: Dialect) -> None:
        self.unchecked = min(limits.max_command, limits.message_values)
        """Size (bytes) up to which a frame needs no check: each value has at least one byte."""
        self.work = FRAME * dialect.request_work
        """Work (units) of a frame beside its bytes."""
        self._size = limits.max_command
        self._values = limits.message_values
        self._large_part = dialect.large_part
        self._inputs = dialect.input_commands

    def expected_work(self, frame: Frame) -> int:
        """Return the least work (units) that a frame is expected to take: its bytes, or those of an input."""
        return QUANTUM if _contains(_parts(frame), self._inputs) else memory(frame)

    def check(self, frame: Frame) -> Frame:
        """Return the frame, or an Oversize in its place."""
        parts = _parts(frame)
        size = sum(map(len, parts))
        if size <= self.unchecked:
            return frame
        if size > self._size and size - sum(map(self._large_part, parts)) > self._size:
            return Oversize(size=size, limit=self._size)
        try:
            for part in parts:
                check_value_count(part, self._values)
        except PeerError:
            return Oversize(size=size, limit=self._values, unit="values")
        return frame


def _parts(frame: Frame) -> Sequence[bytes]:
    return frame.parts if isinstance(frame, Parts) else (frame,) if isinstance(frame, bytes) else ()


def _contains(parts: Sequence[bytes], words: Sequence[bytes]) -> bool:
    return any(word in part for part in parts for word in words)
