"""The format of a recording, version 4 (docs/recording.md).

JSON Lines. The first line is a Header, every further one a StepLine: the frames, events and commands that one read of a
connection (or one timer) brought about. A text that streams makes many steps of the same form, which are folded into
one StepLine with `rounds`. Readers skip unknown keys. Other versions of the format are refused by name.

    StepLine     frames received, then commands and events in the order of their cursors, then frames sent
    with rounds  the same for each round: frames received, events, frames sent

Frames, events and commands are numbered in that order; the first has the `seq` of its StepLine. In a file they have the
number and the time of their StepLine. Outside of it each has its own `seq` and `t`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import chain, count, groupby, islice
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct, structs

from dragoman.mappings.canonical import Command, Event
from dragoman.mappings.canonical.values import Origin
from dragoman.mappings.codec import MALFORMED
from dragoman.mappings.dialect import Frame, Missed, Oversize, Parts
from dragoman.mappings.errors import ConfigError

FORMAT = "dragoman-recording"
VERSION = 4

UNFOLDED_MAX = 1 << 30  # characters of the frames of a line: a file of a few KiB must not keep its reader busy for long
LINE_MAX = 128 << 20  # bytes: the largest message as JSON in JSON, with each byte escaped as six; more is garbage
TIME_MAX = 13  # digits of a time in ms


class RecordingError(ConfigError):
    """A file that is not a recording, or a recording that this program cannot read. The text says what to do."""


class VersionError(RecordingError):
    """A recording in another version of the format."""


class LineError(ValueError):
    """A line of a recording that cannot be read. `unknown` is its kind if this program does not know that kind."""

    def __init__(self, text: str, unknown: str) -> None:
        super().__init__(text)
        self.unknown = unknown


class Header(Struct, frozen=True, kw_only=True, tag_field="kind", tag="header"):
    """The first line of a recording.

    `started_at` is the wall clock (ns since the Unix epoch) at t = 0 of the first part. `part` counts the parts of a
    rotated recording from 0, and `seq` is the number of the part's first item. An empty `session` means frames of the
    route that belong to no session. `dialects` maps each dialect of the route to its generation ("" is the default).
    `upstream` is the endpoint without its token. `lost` is the number of items that were not written before this part
    began. `shown_as` has the other ids under which clients knew the session when this part began.
    """

    format: str = FORMAT
    version: int = VERSION
    gateway: str = ""
    started_at: Annotated[int, Meta(ge=0, le=(1 << 63) - 1)] = 0  # until the year 2262
    route: str = ""
    session: str = ""
    dialects: dict[str, str] = {}
    upstream: str = ""
    part: int = 0
    seq: int = 0
    lost: int = 0
    shown_as: list[str] = []

    @property
    def began(self) -> datetime:
        """The time of t = 0 of the first part."""
        return datetime.fromtimestamp(self.started_at / 1e9, UTC)


# -- frames, events and commands -----------------------------------------------------------------------------------

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
    base64: bytes | None = None


class FrameLine(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A frame that the gateway received or sent on a link.

    The frame is in `text`, in `base64` if it is not UTF-8, or in `parts` if it is a ZeroMQ message of that `channel`.
    If it has none of them, `missing` says why it is not recorded. A `redacted` frame was emptied, and only the events
    have its meaning. In a StepLine with `rounds` only `around` is set: the strings around each text.
    """

    seq: int = 0
    t: Micros = 0
    link: str
    dir: Direction
    dialect: str
    text: str | None = None
    base64: bytes | None = None
    channel: str = ""
    parts: tuple[Part, ...] | None = None
    missing: str = ""
    redacted: bool = False
    around: list[Annotated[list[str], Meta(min_length=1)]] = []

    @property
    def upstream(self) -> bool:
        """Return True for a frame between the gateway and the backend."""
        return self.link == UP

    def frame(self) -> bytes | Parts | None:
        """Return the frame, or None if it is not recorded. The identity of a ZeroMQ peer never is."""
        if self.parts is not None:
            return Parts(self.channel, b"", tuple(_bytes(part) or b"" for part in self.parts))
        return _bytes(self)

    def around_at(self, at: int) -> list[str]:
        """Return the strings around the text of a frame whose batch has the time `at` (ns)."""
        time = str(at // 1_000_000)
        return [time.join(pieces) for pieces in self.around]

    def with_text(self, seq: int, t: int, text: str) -> FrameLine:
        """Return a frame of this link and direction with the number `seq`."""
        return FrameLine(seq=seq, t=t, link=self.link, dir=self.dir, dialect=self.dialect, text=text)


class EventLine(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A canonical event.

    Without a `link` it is one of the session's log, at `cursor` ("epoch:seq"), with the `turn`, `origin` and time `at`
    (ns) of its batch. With a `link` it was the answer to that link alone, and has the cursor of the next event of the
    log.

    In a StepLine with `rounds` it stands for one event for each of its `texts`.
    """

    seq: int = 0
    t: Micros = 0
    cursor: Cursor
    event: Event
    link: str = ""
    turn: str = ""
    origin: Origin = Origin()
    at: int = 0
    redacted: bool = False
    texts: list[str] = []

    @property
    def item(self) -> Event:
        """Return the event."""
        return self.event

    @property
    def logged(self) -> bool:
        """Return True for an event of the session's log, which was sent to all clients."""
        return not self.link

    @property
    def position(self) -> tuple[int, int]:
        """Return the epoch and seq of the cursor."""
        epoch, _, seq = self.cursor.partition(":")
        return int(epoch), int(seq)

    def with_text(self, seq: int, t: int, at: int, text: str, place: int) -> EventLine:
        """Return the event with this text and the number `seq`, at the `place`-th position after `cursor`."""
        epoch, position = self.position
        return EventLine(
            seq=seq,
            t=t,
            cursor=f"{epoch}:{position + place}",
            event=structs.replace(self.event, text=text),  # a delta: _check_rounds refuses others
            turn=self.turn,
            origin=self.origin,
            at=at,
        )


class CommandLine(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A canonical command, with the cursor of the next event of the log.

    `link` is that of the client that gave it, or UP if the gateway gave it to the backend.
    """

    seq: int = 0
    t: Micros = 0
    cursor: Cursor
    command: Command
    link: str = ""
    redacted: bool = False

    @property
    def item(self) -> Command:
        """Return the command."""
        return self.command


Line = FrameLine | EventLine | CommandLine


def tag_of(item: Event | Command) -> str:
    """Return the type of an event or a command, as it is written."""
    return str(item.__struct_config__.tag)


def frame_line(link: str, dir: Direction, dialect: str, frame: Frame) -> FrameLine:
    """Return the line of a frame that an adapter received or sent."""
    if isinstance(frame, bytes):
        try:
            return FrameLine(link=link, dir=dir, dialect=dialect, text=frame.decode())
        except UnicodeDecodeError:
            return FrameLine(link=link, dir=dir, dialect=dialect, base64=frame)
    if isinstance(frame, Parts):
        parts = tuple(map(_part, frame.parts))
        return FrameLine(link=link, dir=dir, dialect=dialect, channel=frame.channel, parts=parts)
    return FrameLine(link=link, dir=dir, dialect=dialect, missing=_why_missing(frame))


def _why_missing(frame: Oversize | Missed) -> str:
    if isinstance(frame, Oversize):
        return f"too large: {frame.text}"
    return f"{frame.count} messages of {frame.channel} were not read in time"


def _part(part: bytes) -> Part:
    try:
        return Part(text=part.decode())
    except UnicodeDecodeError:
        return Part(base64=part)


def _bytes(written: FrameLine | Part) -> bytes | None:
    return written.text.encode() if written.text is not None else written.base64


# -- one step ---------------------------------------------------------------------------------------------------


class Round(Struct, frozen=True, array_like=True, gc=False):
    """A step of a folded text: the number of its deltas, its `t` (µs), and the time `at` (ns) of its batch."""

    count: Annotated[int, Meta(ge=1)]
    t: Micros
    at: int


class StepLine(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="step"):
    """The step that one read of a connection, or one timer, caused at `t` (µs). `seq` is the number of its first item.

    With `rounds` it stands for many steps of the same form: one event for each text of its only event, and as many
    frames of each entry of `frames`. Such a frame is the text as JSON, joined by the strings `around` it. A string that
    contains the time of the batch (ms since the Unix epoch) is split there into pieces.
    """

    seq: int
    t: Micros
    frames: list[FrameLine] = []
    events: list[EventLine] = []
    commands: list[CommandLine] = []
    rounds: list[Round] = []

    @property
    def count(self) -> int:
        """Return the number of its frames, events and commands."""
        if self.rounds:
            return len(self.events[0].texts) * (len(self.frames) + 1)
        return len(self.frames) + len(self.events) + len(self.commands)

    @property
    def last_t(self) -> int:
        """Return the time (µs) of its last item."""
        return self.rounds[-1].t if self.rounds else self.t

    @property
    def texts(self) -> list[str]:
        """Return the texts of its rounds."""
        return self.events[0].texts

    def lines(self) -> Iterator[Line]:
        """Return each frame, event and command in order, as a line of its own."""
        if self.rounds:
            yield from self._lines_of_rounds()
            return
        entries: list[Line] = [*self.frames, *self.commands, *self.events]
        for seq, entry in enumerate(sorted(entries, key=_rank), self.seq):
            yield structs.replace(entry, seq=seq, t=self.t)

    def frame_texts(self, frame: FrameLine) -> Iterator[str]:
        """Return the frames of all rounds for one of its `frames`."""
        quoted = iter(_ENCODER.encode_lines(self.texts).decode().split("\n"))  # JSON has no newline in a text
        for some in self.rounds:
            around = frame.around_at(some.at)
            for text in islice(quoted, some.count):
                yield text.join(around)

    def _lines_of_rounds(self) -> Iterator[Line]:
        frames = [(frame, self.frame_texts(frame)) for frame in self.frames]
        received = [(frame, texts) for frame, texts in frames if frame.dir == "receive"]
        sent = [(frame, texts) for frame, texts in frames if frame.dir == "send"]
        numbers, first = count(self.seq), 0
        for some in self.rounds:
            end = first + some.count
            for frame, texts in received:
                for text in islice(texts, some.count):
                    yield frame.with_text(next(numbers), some.t, text)
            for place, text in enumerate(self.texts[first:end], first):
                yield self.events[0].with_text(next(numbers), some.t, some.at, text, place)
            for frame, texts in sent:
                for text in islice(texts, some.count):
                    yield frame.with_text(next(numbers), some.t, text)
            first = end


Rank = tuple[int, int, int, bool]
RECEIVED, SENT = (0, 0, 0, False), (2, 0, 0, False)


def _rank(entry: Line) -> Rank:
    """Return the sort key of an entry in its step. Entries with equal keys keep their order."""
    if isinstance(entry, FrameLine):
        return RECEIVED if entry.dir == "receive" else SENT
    epoch, _, seq = entry.cursor.partition(":")
    return 1, int(epoch), int(seq), type(entry) is EventLine


def in_steps(seq: int, t: int, entries: Iterable[Line]) -> list[StepLine]:
    """Return entries of the time `t`, numbered from `seq`, in as few StepLines as preserve their order."""
    steps: list[StepLine] = []
    last = RECEIVED
    for number, entry in enumerate(entries, seq):
        rank = _rank(entry)
        if not steps or rank < last:
            steps.append(StepLine(seq=number, t=t))
        step, last = steps[-1], rank
        if isinstance(entry, FrameLine):
            step.frames.append(entry)
        elif isinstance(entry, EventLine):
            step.events.append(entry)
        else:
            step.commands.append(entry)
    return steps


def readable(step: StepLine) -> list[StepLine]:
    """Return the step, with frames that are too large for readers replaced by a `missing` text."""
    if _unfolded_size(step) <= UNFOLDED_MAX:
        return [step]
    missing = [
        FrameLine(link=frame.link, dir=frame.dir, dialect=frame.dialect, missing=f"over {UNFOLDED_MAX} characters")
        for frame in step.frames
    ]
    before, rest = StepLine(seq=step.seq, t=step.t, frames=missing), structs.replace(step, frames=[])
    return [before, structs.replace(rest, seq=step.seq + step.count - rest.count)] if rest.count else [before]


def packed(lines: Iterable[Line]) -> Iterator[StepLine]:
    """Return the StepLines of frames, events and commands. Those of one time share a StepLine as far as they can."""
    # Consecutive numbers have the same difference to their places.
    for (t, _), some in groupby(enumerate(lines), lambda placed: (placed[1].t, placed[1].seq - placed[0])):
        together = [line for _, line in some]
        yield from in_steps(together[0].seq, t, [structs.replace(line, seq=0, t=0) for line in together])


# -- bytes ------------------------------------------------------------------------------------------------------

_ENCODER = msgspec.json.Encoder()
_LINE = msgspec.json.Decoder(StepLine)
_HEADER = msgspec.json.Decoder(Header)


class _Stamp(Struct):
    """The keys of a line that show whether the rest of it can be decoded."""

    format: str = ""
    version: int = 0
    kind: str = ""


_STAMP = msgspec.json.Decoder(_Stamp)


def encode(line: Header | StepLine) -> bytes:
    """Return a line as bytes, without its newline."""
    return _ENCODER.encode(line)


def encode_lines(lines: Iterable[StepLine]) -> bytes:
    """Return lines as bytes, each with its newline."""
    return _ENCODER.encode_lines(lines)


def decode_header(line: bytes, name: str = "this file") -> Header:
    """Return the first line of a recording.

    Raise RecordingError if it is no header, VersionError if it is one of another version.
    """
    try:
        stamp = _STAMP.decode(line)
    except MALFORMED:
        stamp = _Stamp()
    if stamp.format != FORMAT:
        raise RecordingError(f"{name} is not a recording: its first line is not a header of format {FORMAT!r}")
    if stamp.version > VERSION:
        raise VersionError(
            f"{name} is a recording of version {stamp.version}, and this dragoman reads version {VERSION}: "
            "read it with a newer dragoman"
        )
    if stamp.version < VERSION:
        raise VersionError(
            f"{name} is a recording of version {stamp.version}, which no release of dragoman wrote: "
            f"this dragoman reads version {VERSION}, so record the session again"
        )
    try:
        return _HEADER.decode(line)
    except MALFORMED as error:
        raise RecordingError(f"{name}: its header cannot be read: {error}") from error


def decode_line(line: bytes) -> StepLine:
    """Return a further line of a recording. Raise LineError if it cannot be read."""
    try:
        step = _LINE.decode(line)
        _check(step)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise LineError(str(error), _unknown_kind(line)) from None
    return step


def _unknown_kind(line: bytes) -> str:
    try:
        kind = _STAMP.decode(line).kind
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ""
    return "" if kind == "step" else kind


def _check(step: StepLine) -> None:
    """Raise ValueError if the parts of a step contradict each other."""
    if not (step.frames or step.events or step.commands):
        raise ValueError("a step without frames, events and commands")
    if step.rounds:
        _check_rounds(step)
    elif any(frame.around for frame in step.frames) or any(entry.texts for entry in step.events):
        raise ValueError("`around` or `texts` without `rounds`")


def _unfolded_size(step: StepLine) -> int:
    """Return how many characters the frames of all rounds have at most."""
    if not step.rounds:
        return 0
    texts = step.events[0].texts
    length, size = len("".join(texts)), 0  # a third of the time of a sum of lengths
    for frame in step.frames:
        pieces = [*chain.from_iterable(frame.around)]
        size += length * len(frame.around) + (len("".join(pieces)) + TIME_MAX * len(pieces)) * len(texts)
    return size


def _check_rounds(step: StepLine) -> None:
    if len(step.events) != 1 or step.commands or step.rounds[0].t != step.t:
        raise ValueError("`rounds` need one event, no command and the `t` of the first round")
    entry = step.events[0]
    event = entry.event
    if not event.streamed or event.text or event.ext is not None:  # type: ignore[union-attr]  # streamed events have a text
        raise ValueError("`texts` without an empty delta")
    if entry.link or entry.redacted:
        raise ValueError("`texts` of an event that was redacted or sent to one link")
    if sum(some.count for some in step.rounds) != len(step.texts):
        raise ValueError("the rounds have another number of texts")
    if any(len(frame.around) < 2 for frame in step.frames):
        raise ValueError("a frame without strings around its texts")
    if len({(frame.link, frame.dir) for frame in step.frames}) != len(step.frames):
        raise ValueError("the same link and direction twice")
    if _unfolded_size(step) > UNFOLDED_MAX:
        raise ValueError(f"its frames have over {UNFOLDED_MAX} characters")
