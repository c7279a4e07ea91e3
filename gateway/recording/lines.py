"""The lines of a recording: what stood on a wire, and what it meant (docs/recording.md)."""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Annotated, Literal

from msgspec import Meta, Struct

from dragoman.mappings.canonical import Command, Event
from dragoman.mappings.canonical.values import Origin
from dragoman.mappings.dialect import Frame, Missed, Oversize, Parts

__all__ = ["UP", "Cursor", "EventLine", "FrameLine", "Line", "Micros", "Part", "frame_line"]

UP = "up"
"""The link of a session to its backend, in every recording; the others have the ids of the gateway's links."""

Cursor = Annotated[str, Meta(pattern=r"^[0-9]{1,18}:[0-9]{1,18}$")]
"""`epoch:seq`. What a file says is checked where it is read: nobody behind that must expect a number to be none."""

Micros = Annotated[int, Meta(ge=0, le=1 << 53)]
"""Microseconds since a recording began: 285 years at most, so that every time of it is one of the calendar."""


class Part(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One part of a ZeroMQ message: as text, else as base64."""

    text: str | None = None
    base64: str | None = None


class FrameLine(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What stood on a wire, seen from the gateway: received or sent.

    It stands in `text`; in `base64` if it is not UTF-8; in `parts` if it is a ZeroMQ message, of that `channel`. With
    none of them `missing` says why: it was too large, or dropped. `redacted`: it was changed or taken out, so that the
    events are the truth.
    """

    seq: int
    t: Micros
    link: str
    dir: Literal["receive", "send"]
    dialect: str
    text: str | None = None
    base64: str | None = None
    channel: str = ""
    parts: tuple[Part, ...] | None = None
    missing: str = ""
    redacted: bool = False

    @property
    def upstream(self) -> bool:
        """Whether it stood between the gateway and the backend."""
        return self.link == UP

    def frame(self) -> bytes | Parts | None:
        """The frame itself, None if it is not there. The identity of a ZeroMQ peer is not recorded."""
        if self.parts is not None:
            return Parts(self.channel, b"", tuple(_bytes(part.text, part.base64) or b"" for part in self.parts))
        return _bytes(self.text, self.base64)


class EventLine(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A canonical `event` or `command`: one of the two.

    An event of the session's log stands there at `cursor` ("epoch:seq"), and has the `turn`, `origin` and time `at`
    (ns) of its batch. One with a `link` answered that link alone; its cursor, like that of a command, is that of the
    next event of the log. A command has the `link` that said it; with the link UP it is what the backend was asked.
    """

    seq: int
    t: Micros
    cursor: Cursor
    event: Event | None = None
    command: Command | None = None
    link: str = ""
    turn: str = ""
    origin: Origin = Origin()
    at: int = 0
    redacted: bool = False

    @property
    def logged(self) -> bool:
        """Whether it is an event of the session's log: what all of its clients were shown."""
        return self.event is not None and not self.link

    @property
    def position(self) -> tuple[int, int]:
        """Epoch and seq of the cursor."""
        epoch, _, seq = self.cursor.partition(":")
        return int(epoch), int(seq)


Line = FrameLine | EventLine


def frame_line(seq: int, t: int, link: str, dir: Literal["receive", "send"], dialect: str, frame: Frame) -> FrameLine:
    """The line of a frame, as an adapter gave or takes it."""
    if isinstance(frame, bytes):
        try:
            return FrameLine(seq=seq, t=t, link=link, dir=dir, dialect=dialect, text=frame.decode())
        except UnicodeDecodeError:
            return FrameLine(seq=seq, t=t, link=link, dir=dir, dialect=dialect, base64=_base64(frame))
    if isinstance(frame, Parts):
        parts = tuple(map(_part, frame.parts))
        return FrameLine(seq=seq, t=t, link=link, dir=dir, dialect=dialect, channel=frame.channel, parts=parts)
    return FrameLine(seq=seq, t=t, link=link, dir=dir, dialect=dialect, missing=_why(frame))


def _why(frame: Oversize | Missed) -> str:
    if isinstance(frame, Oversize):
        return f"too large: {frame.size} {frame.unit}, over the limit of {frame.limit}"
    return f"{frame.count} messages of {frame.channel} were not read in time"


def _part(part: bytes) -> Part:
    try:
        return Part(text=part.decode())
    except UnicodeDecodeError:
        return Part(base64=_base64(part))


def _base64(data: bytes) -> str:
    return b64encode(data).decode("ascii")


def _bytes(text: str | None, base64: str | None) -> bytes | None:
    if text is not None:
        return text.encode()
    return b64decode(base64) if base64 is not None else None
