"""Distinguish a backend that speaks another dialect, or refuses the connection, from one that is slow or silent.

A backend is wrong if its first frame is no message of its dialect and none that follows within a second is one. So a
banner before the first message, or an answer that takes minutes, never counts as wrong. Nor does a very long frame: it
would be decoded twice, here and by its link, and a pod begins with its whole history.

A backend refuses the connection if it sends an error that answers no request, and then closes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from importlib import import_module

import structlog

from dragoman.adapters.base import do_nothing
from dragoman.adapters.inbound import memory
from dragoman.gateway.endpoint import masked_text
from dragoman.gateway.timers import Schedule
from dragoman.mappings.canonical import Event, Unmapped
from dragoman.mappings.canonical.events import ErrorReported, Reply
from dragoman.mappings.canonical.values import Failure
from dragoman.mappings.dialect import Burst, Dialect, Frame, Parts, Step

PATIENCE = 1.0  # seconds for a good frame after a bad one: a backend writes its banner and its first message together
READ_MAX = 64 * 1024  # bytes of a frame that is decoded here: 1 ms
QUOTED = 120  # characters of the first frame, or of a refusal, that is shown

log = structlog.get_logger("dragoman.upstream")


class FirstFrames:
    """The frames of one backend up to the first good one.

    `dialects` returns those that a wrong frame is compared with. `give_up` is called with this object if the backend is
    wrong, even if the connection has ended. `prepare` is called at the first wrong frame: it may import in a thread
    what `complaint` needs, in 0.1 to 0.3 s.
    """

    def __init__(
        self,
        dialect: Dialect,
        dialects: Callable[[], Mapping[str, Dialect]],
        schedule: Schedule,
        give_up: Callable[[FirstFrames], None],
        prepare: Callable[[], object] = do_nothing,
    ) -> None:
        self._dialect = dialect
        self._dialects = dialects
        self._schedule = schedule
        self._give_up = give_up
        self._prepare = prepare
        self._first: bytes | Parts = b""
        self.are_wrong = False
        """True from the first frame, if it is bad, until a good one."""
        self.refusal = ""
        """The text of an error that answers no request, if the backend has sent no other message."""

    def take(self, frames: Sequence[Frame]) -> bool:
        """Return True if one of these frames is a message of the dialect other than a refusal.

        Then no further frames are needed.
        """
        filled = [frame for frame in frames if isinstance(frame, Parts) or (isinstance(frame, bytes) and frame.strip())]
        if not filled:  # empty lines, or a message over the size limit
            return False
        self.are_wrong = not any(map(self._may_be_ours, filled))
        if self.are_wrong and not self._first:
            self._first = filled[0]
            self._prepare()
            self._schedule(PATIENCE, self._look)
        if isinstance(last := filled[-1], bytes):
            self.refusal = self._refusal(last) if b'"error"' in last and not self.are_wrong else ""
        return not self.are_wrong and not self.refusal

    def _may_be_ours(self, frame: Frame) -> bool:
        return memory(frame) > READ_MAX or self._dialect.events.can_read(frame)

    def _refusal(self, frame: bytes) -> str:
        match _bursts(self._dialect, frame[:READ_MAX]):
            case [Burst(request="" | "null", items=[ErrorReported(text=text) | Reply(failure=Failure(text=text))])]:
                return text
        return ""

    def _look(self) -> None:
        if self.are_wrong:
            self._give_up(self)

    def complaint(self, *, quoted: bool) -> str:
        """Return a text that says what is wrong with the backend.

        `quoted` adds the first frame, which clients must not see.
        """
        text, others = f"speaks something else than {self._dialect.name}", self._other_dialects
        if quoted:
            from dragoman.gateway.recording.redaction.rules import redact_text  # 30 ms that no good backend needs

            first = masked_text(self._data[: 4 * QUOTED].decode("utf-8", "replace"))
            text += f"; its first frame is {redact_text(first[:QUOTED], cut=len(first) > QUOTED)}"
        return f"{text}: if it is {' or '.join(others)}, name that in the endpoint" if others else text

    @property
    def _data(self) -> bytes:
        return self._first.parts[-1] if isinstance(self._first, Parts) else self._first

    @cached_property
    def _other_dialects(self) -> list[str]:
        """Return the names of the other dialects that have the first frame; none if they cannot be imported."""
        others = [one for one in _load(self._dialects).values() if one.name != self._dialect.name]
        return [one.name for one in others if _is_message_of(one, self._data)]


async def import_others(dialects: Callable[[], Mapping[str, Dialect]]) -> None:
    """Import, in a thread, the modules that a complaint needs. A failure is only logged."""
    await asyncio.to_thread(_load, dialects)


def _load(dialects: Callable[[], Mapping[str, Dialect]]) -> Mapping[str, Dialect]:
    """Import what a complaint needs, and return the dialects; none if that fails, which is logged."""
    try:
        import_module("dragoman.gateway.recording.redaction.rules")
        return dialects()
    except Exception:  # a module that was replaced while the gateway ran may raise anything
        log.warning("the other dialects cannot be imported: restart the gateway", exc_info=True)
        return {}


def _is_message_of(dialect: Dialect, data: bytes) -> bool:
    """Return True if this frame is a known message of `dialect`. Dialects over ZeroMQ are not compared."""
    if dialect.events.unwrap is not None:
        return False
    items = [item for burst in _bursts(dialect, data) for item in burst.items]
    return bool(items) and not any(isinstance(item, Unmapped) for item in items)


def _bursts(dialect: Dialect, data: bytes) -> list[Burst[Event]]:
    """Return the events of a frame; none if it is no message of the dialect."""
    step: Step[Event] = Step()
    dialect.events.receive([data], step)
    return [] if step.faults else step.bursts
