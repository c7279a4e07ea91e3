"""The frames, events and commands of a recording (docs/recording.md).

In a file they stand in their StepLine, which has their number and time. Outside of it each has its own `seq` and `t`.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, structs

from dragoman.mappings.canonical import Command, Event
from dragoman.mappings.canonical.values import Origin
from dragoman.mappings.dialect import Frame, Missed, Oversize, Parts

UP = "up"
"""The link of a session to its backend, in every recording. Clients' links have the ids that the gateway gave them."""

Cursor = Annotated[str, Meta(pattern=r"^[0-9]{1,18}:[0-9]{1,18}$")]
"""`epoch:seq`. Its digits are checked where a file is read, so that no later code has to."""

Micros = Annotated[int, Meta(ge=0, le=1 << 53)]
"""Microseconds since a recording began: 285 years at most, so that `started_at` plus it is a date."""

Direction = Literal["receive", "send"]


class Part(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A part of a ZeroMQ message: as text, or as base64 if it is not UTF-8."""

    text: str | None = None
    base64: str | None = None


class FrameLine(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A frame that the gateway received or sent on a link; or, with `words`, one frame for each word.

    The frame is in `text`, in `base64` if it is not UTF-8, or in `parts` if it is a ZeroMQ message of that `channel`.
    If it has none of them, `missing` says why it is not recorded. `redacted` frames were changed or emptied: the events
    are the truth then. A frame of `words` is the word, with its escapes, joined by the strings `around` it.

    In a StepLine with `rounds` only `around` is set: see there.
    """

    seq: int = 0
    t: Micros = 0
    link: str
    dir: Direction
    dialect: str
    text: str | None = None
    base64: str | None = None
    channel: str = ""
    parts: tuple[Part, ...] | None = None
    missing: str = ""
    redacted: bool = False
    words: list[str] = []
    around: list[Annotated[list[str], Meta(min_length=1)]] = []

    @property
    def upstream(self) -> bool:
        """Return True for a frame between the gateway and the backend."""
        return self.link == UP

    @property
    def count(self) -> int:
        """Return the number of frames."""
        return len(self.words) or 1

    def frame(self) -> bytes | Parts | None:
        """Return the frame, or None if it is not recorded. The identity of a ZeroMQ peer never is."""
        if self.parts is not None:
            return Parts(self.channel, b"", tuple(_bytes(part.text, part.base64) or b"" for part in self.parts))
        return _bytes(self.text, self.base64)

    def around_at(self, at: int) -> list[str]:
        """Return the strings around the text of a frame whose batch has the time `at` (ns)."""
        time = str(at // 1_000_000)
        return [time.join(pieces) for pieces in self.around]

    def texts(self) -> list[str]:
        """Return the frames of all words."""
        around = self.around_at(0)
        return [word.join(around) for word in self.words]

    def lines(self) -> Sequence[FrameLine]:
        """Return each frame as a line of its own."""
        if not self.words:
            return (self,)
        return list(self.with_texts(self.seq, self.t, self.texts()))

    def with_texts(self, seq: int, t: int, texts: Sequence[str]) -> Iterator[FrameLine]:
        """Return one frame of this link and direction for each text; the first has the number `seq`."""
        for number, text in enumerate(texts, seq):
            yield FrameLine(seq=number, t=t, link=self.link, dir=self.dir, dialect=self.dialect, text=text)


class EventLine(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A canonical `event` or a `command`.

    An event without a `link` is one of the session's log, at `cursor` ("epoch:seq"), with the `turn`, `origin` and time
    `at` (ns) of its batch. An event with a `link` was the answer to that link alone. A command has the link of the
    client that gave it, or UP if the gateway gave it to the backend. The cursor of what is not in the log is that of
    the next event of the log.

    Only in a StepLine it may have `texts`: then it stands for one event for each text.
    """

    seq: int = 0
    t: Micros = 0
    cursor: Cursor
    event: Event | None = None
    command: Command | None = None
    link: str = ""
    turn: str = ""
    origin: Origin = Origin()
    at: int = 0
    redacted: bool = False
    texts: list[str] = []

    @property
    def item(self) -> Any:
        """Return the event or the command."""
        return self.event if self.event is not None else self.command

    @property
    def tag(self) -> str:
        """Return the type of the event or the command, as it is written."""
        return str(self.item.__struct_config__.tag)

    @property
    def logged(self) -> bool:
        """Return True for an event of the session's log, which was sent to all clients."""
        return self.event is not None and not self.link

    @property
    def position(self) -> tuple[int, int]:
        """Return the epoch and seq of the cursor."""
        epoch, _, seq = self.cursor.partition(":")
        return int(epoch), int(seq)

    @property
    def count(self) -> int:
        """Return the number of events or commands."""
        return len(self.texts) or 1

    def lines(self) -> Sequence[EventLine]:
        """Return each event or command as a line of its own."""
        if not self.texts:
            return (self,)
        return list(self.with_texts(self.seq, self.t, self.at, self.texts, 0))

    def with_texts(self, seq: int, t: int, at: int, texts: Sequence[str], first: int) -> Iterator[EventLine]:
        """Return one event for each text: the first has the number `seq` and stands `first` places behind `cursor`."""
        epoch, position = self.position
        for number, text in enumerate(texts):
            yield EventLine(
                seq=seq + number,
                t=t,
                cursor=f"{epoch}:{position + first + number}",
                event=structs.replace(self.event, text=text),  # type: ignore[type-var]  # a delta: format.py checked
                turn=self.turn,
                origin=self.origin,
                at=at,
            )


Line = FrameLine | EventLine


def frame_line(seq: int, t: int, link: str, dir: Direction, dialect: str, frame: Frame) -> FrameLine:
    """Return the line of a frame that an adapter received or sent."""
    if isinstance(frame, bytes):
        try:
            return FrameLine(seq=seq, t=t, link=link, dir=dir, dialect=dialect, text=frame.decode())
        except UnicodeDecodeError:
            return FrameLine(seq=seq, t=t, link=link, dir=dir, dialect=dialect, base64=_base64(frame))
    if isinstance(frame, Parts):
        parts = tuple(map(_part, frame.parts))
        return FrameLine(seq=seq, t=t, link=link, dir=dir, dialect=dialect, channel=frame.channel, parts=parts)
    return FrameLine(seq=seq, t=t, link=link, dir=dir, dialect=dialect, missing=_why_missing(frame))


def _why_missing(frame: Oversize | Missed) -> str:
    if isinstance(frame, Oversize):
        if frame.unit == "values":
            return f"too large: {frame.text}"
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
