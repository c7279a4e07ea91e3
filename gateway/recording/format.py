"""The lines of a recording, version 2 (docs/recording.md).

JSON Lines. The first line is a Header; each further one is a FrameLine (what stood on a wire) or an EventLine (what it
meant: a canonical event or command). Both kinds share one count, `seq`, and one clock, `t`: microseconds since the
header's `started_at`, which never go back. Several of a kind that came at one time are stored as one, a FrameRun or an
EventRun: who reads a recording need not know, `lines_of` takes them apart. Keys that nobody knows are skipped, older
versions are brought up to date by CONVERTERS, and a version that is newer than this program is refused.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from mappings.canonical import Command, Event
from mappings.canonical.values import Origin
from mappings.dialect import Frame, Missed, Oversize, Parts
from mappings.errors import ConfigError

__all__ = [
    "CONVERTERS",
    "FORMAT",
    "UP",
    "VERSION",
    "EventLine",
    "EventRun",
    "FrameLine",
    "FrameRun",
    "Header",
    "Line",
    "LineError",
    "Part",
    "RecordingError",
    "Stored",
    "count",
    "decode_header",
    "decode_line",
    "encode",
    "encode_lines",
    "frame_line",
    "lines_of",
]

FORMAT = "dragoman-recording"
VERSION = 2
UP = "up"
"""The link of a session to its backend, in every recording; the others have the ids of the gateway's links."""

Convert = Callable[[dict[str, Any]], dict[str, Any]]

CONVERTERS: dict[int, Convert] = {
    1: lambda line: {**line, "version": 2} if "version" in line else line,  # version 2 added the runs
}
"""Version -> what makes a line of it, header or not, one of the next version. Nothing is ever taken out of here."""


class RecordingError(ConfigError):
    """A file is no recording, or none that this program can read; the text says what to do."""


class LineError(ValueError):
    """A line of a recording that cannot be read. `unknown` is its kind, where it has one that nobody knows."""

    def __init__(self, text: str, unknown: str = "") -> None:
        super().__init__(text)
        self.unknown = unknown


class Header(Struct, frozen=True, kw_only=True, tag_field="kind", tag="header"):
    """The first line.

    `started_at` is the wall clock (ns since the Unix epoch) at t = 0, of the first part where a recording was rotated:
    `part` counts them from 0, and `seq` is that of the part's first line. `session` "" means the route's own frames.
    `dialects` are those of the route's endpoints with the generation that they name ("" is the dialect's default), and
    `upstream` is the endpoint, without its token. `lost` lines were not written before this part began.
    """

    format: str = FORMAT
    version: int = VERSION
    gateway: str = ""
    started_at: int = 0
    route: str = ""
    session: str = ""
    dialects: dict[str, str] = {}
    upstream: str = ""
    part: int = 0
    seq: int = 0
    lost: int = 0


class Part(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One part of a ZeroMQ message: as text, else as base64."""

    text: str | None = None
    base64: str | None = None


class FrameLine(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag_field="kind", tag="frame"):
    """What stood on a wire, seen from the gateway: received or sent.

    It stands in `text`; in `base64` if it is not UTF-8; in `parts` if it is a ZeroMQ message, of that `channel`. With
    none of them `missing` says why: it was too large, or dropped. `redacted`: it was changed or taken out, so that the
    events are the truth.
    """

    seq: int
    t: int
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


class EventLine(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag_field="kind", tag="event"):
    """A canonical `event` or `command`: one of the two.

    An event of the session's log stands there at `cursor` ("epoch:seq"), and has the `turn`, `origin` and time `at`
    (ns) of its batch. One with a `link` answered that link alone; its cursor, like that of a command, is that of the
    next event of the log. A command has the `link` that said it; with the link UP it is what the backend was asked.
    """

    seq: int
    t: int
    cursor: str
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


class FrameRun(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag_field="kind", tag="frames"):
    """Frames that came or went at one time, the first is line `seq`: for each word the frame `word.join(around)`.

    Words stand here as they stood on the wire, with their escapes.
    """

    seq: int
    t: int
    link: str
    dir: Literal["receive", "send"]
    dialect: str
    around: Annotated[list[str], Meta(min_length=2)]
    words: Annotated[list[str], Meta(min_length=1)]

    @property
    def texts(self) -> list[str]:
        """The frames."""
        around = self.around
        return [word.join(around) for word in self.words]

    def lines(self) -> list[FrameLine]:
        """Each as a line of its own."""
        return [
            FrameLine(seq=seq, t=self.t, link=self.link, dir=self.dir, dialect=self.dialect, text=text)
            for seq, text in enumerate(self.texts, self.seq)
        ]


class EventRun(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag_field="kind", tag="events"):
    """Events of one batch: the first is line `seq` and stands in the session's log at `cursor`."""

    seq: int
    t: int
    cursor: Annotated[str, Meta(pattern=r"^[0-9]{1,18}:[0-9]{1,18}$")]
    events: Annotated[list[Event], Meta(min_length=1)]
    turn: str = ""
    origin: Origin = Origin()
    at: int = 0

    def lines(self) -> list[EventLine]:
        """Each as a line of its own."""
        epoch, _, position = self.cursor.partition(":")
        return [
            EventLine(
                seq=self.seq + n, t=self.t, cursor=f"{epoch}:{int(position) + n}", event=event, turn=self.turn,
                origin=self.origin, at=self.at,
            )
            for n, event in enumerate(self.events)
        ]  # fmt: skip


Line = FrameLine | EventLine
Run = FrameRun | EventRun
Stored = Line | Run
"""A line of the file."""

_ENCODER = msgspec.json.Encoder()
_LINE: msgspec.json.Decoder[Stored] = msgspec.json.Decoder(Stored)
_HEADER = msgspec.json.Decoder(Header)


class _Stamp(Struct):
    """What is read of a first line before anything else of it is believed."""

    format: str = ""
    version: int = 0


class _Kind(Struct):
    kind: str = ""


_STAMP = msgspec.json.Decoder(_Stamp)
_KIND = msgspec.json.Decoder(_Kind)


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


def lines_of(stored: Iterable[Stored]) -> Iterable[Line]:
    """The lines, those of runs each by itself."""
    for line in stored:
        if isinstance(line, FrameLine | EventLine):
            yield line
        else:
            yield from line.lines()


def count(line: Stored) -> int:
    """How many lines it stands for."""
    if isinstance(line, FrameRun):
        return len(line.words)
    return len(line.events) if isinstance(line, EventRun) else 1


def encode(line: Header | Stored) -> bytes:
    """A line as bytes, without its newline."""
    return _ENCODER.encode(line)


def encode_lines(lines: Sequence[Header | Stored]) -> bytes:
    """Lines as bytes, each with its newline."""
    return _ENCODER.encode_lines(lines)


def decode_header(line: bytes, name: str = "this file") -> tuple[Header, int]:
    """The first line of a recording and the version that it was written in; RecordingError if it is none."""
    try:
        stamp = _STAMP.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        stamp = _Stamp()
    if stamp.format != FORMAT:
        raise RecordingError(f"{name} is no recording: its first line is no header of format {FORMAT!r}")
    if stamp.version > VERSION:
        raise RecordingError(
            f"{name} is a recording of version {stamp.version}, and this dragoman reads up to {VERSION}: "
            "read it with a newer dragoman"
        )
    if stamp.version < VERSION and stamp.version not in CONVERTERS:
        raise RecordingError(f"{name} is a recording of version {stamp.version}, which never was")
    try:
        header = _HEADER.decode(upgrade(line, stamp.version))
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise RecordingError(f"{name}: its header cannot be read: {error}") from error
    return header, stamp.version


def decode_line(line: bytes, version: int = VERSION) -> Stored:
    """A further line of a recording of that version; LineError if it cannot be read."""
    try:
        return _LINE.decode(upgrade(line, version))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise LineError(str(error), _unknown_kind(line)) from None


def upgrade(line: bytes, version: int) -> bytes:
    """A line of an older version as one of this."""
    if version == VERSION:
        return line
    value = msgspec.json.decode(line)
    if not isinstance(value, dict):
        raise msgspec.DecodeError("a line is a JSON object")
    for older in range(version, VERSION):
        value = CONVERTERS[older](value)
    return msgspec.json.encode(value)


def _unknown_kind(line: bytes) -> str:
    try:
        kind = _KIND.decode(line).kind
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ""
    return "" if kind in ("frame", "event", "frames", "events") else kind


def _why(frame: Oversize | Missed) -> str:
    if isinstance(frame, Oversize):
        return f"too large: {frame.size} bytes, over the limit of {frame.limit}"
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
