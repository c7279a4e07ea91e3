"""Look at the bytes of a client's command before it is decoded: refuse what is too large, and expect costly work.

Decoding builds an object for each JSON value, and holds the interpreter until it is done (docs/performance.md, "The
work of one step"). A refused frame becomes Oversize, so the client gets its dialect's own error and stays connected.
"""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.adapters.inbound import memory
from dragoman.gateway.config.model import Limits
from dragoman.gateway.overload.fair_queue import QUANTUM
from dragoman.mappings.dialect import HEAD, Dialect, Frame, Oversize, Parts
from dragoman.mappings.errors import PeerError
from dragoman.mappings.value_count import check_value_count


class CommandLimits:
    """The limits `max_command` and `message_values` for clients of one dialect."""

    __slots__ = ("_large_part", "_size", "_values", "unchecked")

    def __init__(self, limits: Limits, dialect: Dialect) -> None:
        self.unchecked = min(limits.max_command, limits.message_values)
        """Size (bytes) up to which a frame needs no check: each value has at least one byte."""
        self._size = limits.max_command
        self._values = limits.message_values
        self._large_part = dialect.cost.large_part

    def check(self, frame: Frame) -> Frame:
        """Return the frame, or an Oversize in its place."""
        parts = _parts(frame)
        size = sum(map(len, parts))
        if size <= self.unchecked:
            return frame
        if size > self._size and size - sum(map(self._large_part, parts)) > self._size:
            return Oversize(size=size, limit=self._size, name="max_command", head=parts[-1][:HEAD])
        try:
            for part in parts:
                check_value_count(part, self._values)
        except PeerError:
            return Oversize(size=size, limit=self._values, name="message_values", head=parts[-1][:HEAD])
        return frame


def expected_work(inputs: Sequence[bytes], frame: Frame) -> int:
    """Return the least work (units) that a frame is expected to take: a quantum for an input, else that of its bytes.

    `inputs` are the words by which a dialect's inputs are known (`CommandCost.inputs`).
    """
    return QUANTUM if any(word in part for part in _parts(frame) for word in inputs) else memory(frame)


def _parts(frame: Frame) -> Sequence[bytes]:
    return frame.parts if isinstance(frame, Parts) else (frame,) if isinstance(frame, bytes) else ()
