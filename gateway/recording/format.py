"""The format of a recording, version 4 (docs/recording.md).

JSON Lines. The first line is a Header, every further one a StepLine: the frames, events and commands that one read of a
connection (or one timer) brought about. A text that streams is many alike steps; they are folded into one StepLine
with `rounds`. Readers skip unknown keys. Other versions of the format are refused by name.

    StepLine   = frames received, then commands and events in the order of their cursors, then frames sent
    with rounds = the same for each round: frames received, events, frames sent

Each frame, command and event has a number in that order. The first has the `seq` of its StepLine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from dragoman.gateway.recording.lines import Cursor, EventLine, FrameLine, Micros, Part
from dragoman.gateway.recording.runs import DELTAS, FrameRun, Item, Round, Stream, StreamFrames, count
from dragoman.mappings.canonical import Command, Event
from dragoman.mappings.canonical.values import Origin
from dragoman.mappings.errors import ConfigError

__all__ = [
    "FORMAT",
    "VERSION",
    "Header",
    "LineError",
    "RecordingError",
    "StepLine",
    "VersionError",
    "decode_header",
    "decode_line",
    "encode",
    "encode_lines",
    "packed",
]

FORMAT = "dragoman-recording"
VERSION = 4


class RecordingError(ConfigError):
    """A file that is no recording, or one that this program cannot read. The text says what to do."""


class VersionError(RecordingError):
    """A recording in another version of the format."""


class LineError(ValueError):
    """A line of a recording that cannot be read. `unknown` is its kind, if it has a kind that is not known here."""

    def __init__(self, text: str, unknown: str = "") -> None:
        super().__init__(text)
        self.unknown = unknown


class Header(Struct, frozen=True, kw_only=True, tag_field="kind", tag="header"):
    """The first line of a recording.

    `started_at` is the wall clock (ns since the Unix epoch) at t = 0 of the first part. `part` counts the parts of a
    rotated recording from 0, and `seq` is the number of the part's first item. An empty `session` means frames of the
    route that belong to no session. `dialects` maps each dialect of the route to its generation ("" is the default).
    `upstream` is the endpoint without its token. `lost` items were not written before this part began.
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


# -- one step ---------------------------------------------------------------------------------------------------


class FrameEntry(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A frame of a step, or many alike frames of one tap point.

    One frame stands in `text`, `base64` or `parts` (see FrameLine). With `words` there is a frame for each word: the
    word joined by `around`. In a step with `rounds` there is a frame for each text: the text as JSON, joined by
    `around`, of which each part is joined by the time in ms.
    """

    link: str
    dir: Literal["receive", "send"]
    dialect: str
    text: str | None = None
    base64: str | None = None
    channel: str = ""
    parts: tuple[Part, ...] | None = None
    missing: str = ""
    redacted: bool = False
    words: list[str] = []
    around: list[Annotated[list[str], Meta(min_length=1)]] = []


class EventEntry(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """An event of a step; with `texts` one event for each text. The fields are those of EventLine."""

    cursor: Cursor
    event: Event
    link: str = ""
    turn: str = ""
    origin: Origin = Origin()
    at: int = 0
    redacted: bool = False
    texts: list[str] = []


class CommandEntry(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A command of a step. The fields are those of EventLine."""

    cursor: Cursor
    command: Command
    link: str = ""
    redacted: bool = False


class StepLine(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="step"):
    """What one read of a connection, or one timer, brought about at `t` (µs). With `rounds`: many alike steps.

    `seq` is the number of its first item.
    """

    seq: int
    t: Micros
    frames: list[FrameEntry] = []
    events: list[EventEntry] = []
    commands: list[CommandEntry] = []
    rounds: list[Round] = []

    @property
    def count(self) -> int:
        """How many frames, events and commands it stands for."""
        if self.rounds:
            return len(self.events[0].texts) * (len(self.frames) + 1)
        frames = sum([len(frame.words) or 1 for frame in self.frames])
        return frames + sum([len(entry.texts) or 1 for entry in self.events]) + len(self.commands)

    @property
    def last_t(self) -> int:
        """Time (µs) of its last item."""
        return self.rounds[-1].t if self.rounds else self.t

    def items(self) -> Iterator[Item]:
        """Return its frames, commands and events in their order; alike ones together."""
        if self.rounds:
            yield self._stream(self.seq, self.events[0], self.rounds, self.frames)
            return
        seq = self.seq
        entries = [frame for frame in self.frames if frame.dir == "receive"]
        sent = [frame for frame in self.frames if frame.dir == "send"]
        for entry in (*entries, *self._canonical(), *sent):
            yield self._item(seq, entry)
            if isinstance(entry, FrameEntry):
                seq += len(entry.words) or 1
            else:
                seq += (len(entry.texts) or 1) if isinstance(entry, EventEntry) else 1

    def _canonical(self) -> Sequence[EventEntry | CommandEntry]:
        """Return the commands and events in the order of their cursors, of equal ones the commands first."""
        if not self.commands or not self.events:
            return self.commands or self.events
        commands, merged = list(reversed(self.commands)), list[EventEntry | CommandEntry]()
        for event in self.events:
            while commands and _position(commands[-1].cursor) <= _position(event.cursor):
                merged.append(commands.pop())
            merged.append(event)
        return [*merged, *reversed(commands)]

    def _item(self, seq: int, entry: FrameEntry | EventEntry | CommandEntry) -> Item:
        if isinstance(entry, CommandEntry):
            return EventLine(
                seq=seq, t=self.t, cursor=entry.cursor, command=entry.command, link=entry.link, redacted=entry.redacted
            )
        if isinstance(entry, EventEntry):
            if entry.texts:
                return self._stream(seq, entry, [Round(len(entry.texts), self.t, entry.at)], ())
            return EventLine(
                seq=seq,
                t=self.t,
                cursor=entry.cursor,
                event=entry.event,
                link=entry.link,
                turn=entry.turn,
                origin=entry.origin,
                at=entry.at,
                redacted=entry.redacted,
            )
        if entry.words:
            around = [part[0] for part in entry.around]
            return FrameRun(
                seq=seq,
                t=self.t,
                link=entry.link,
                dir=entry.dir,
                dialect=entry.dialect,
                around=around,
                words=entry.words,
            )
        return FrameLine(
            seq=seq,
            t=self.t,
            link=entry.link,
            dir=entry.dir,
            dialect=entry.dialect,
            text=entry.text,
            base64=entry.base64,
            channel=entry.channel,
            parts=entry.parts,
            missing=entry.missing,
            redacted=entry.redacted,
        )

    @staticmethod
    def _stream(seq: int, entry: EventEntry, rounds: list[Round], frames: Iterable[FrameEntry]) -> Stream:
        wires = [
            StreamFrames(link=frame.link, dir=frame.dir, dialect=frame.dialect, around=frame.around) for frame in frames
        ]
        return Stream(
            seq=seq,
            cursor=entry.cursor,
            event=entry.event,  # type: ignore[arg-type]  # a delta, as _check_texts saw
            texts=entry.texts,
            rounds=rounds,
            wires=wires,
            turn=entry.turn,
            origin=entry.origin,
        )


def _position(cursor: str) -> tuple[int, int]:
    epoch, _, seq = cursor.partition(":")
    return int(epoch), int(seq)


# -- items as steps ---------------------------------------------------------------------------------------------


def packed(items: Iterable[Item]) -> Iterator[StepLine]:
    """Return the StepLines of items: those of one time together, as far as the step tells their order."""
    step: list[Item] = []
    following = -1
    cursors = ["", ""]  # of the last event and the last command of the step
    for item in items:
        is_command = type(item) is EventLine and item.command is not None
        is_event = type(item) is EventLine and not is_command and not cursors[1]
        alone = type(item) is Stream and (bool(item.wires) or len(item.rounds) > 1)
        if step and (
            alone
            or item.t != step[0].t
            or item.seq != following
            or not ((is_event and type(step[-1]) is EventLine) or _follows(step[-1], cursors, item, is_command))
        ):
            yield _step_line(step)
            step, cursors = [], ["", ""]
        if alone:
            yield _folded(item)  # type: ignore[arg-type]  # a Stream
            continue
        step.append(item)
        following = item.seq + (1 if type(item) in SINGLE else count(item))
        if type(item) is EventLine or type(item) is Stream:
            cursors[is_command] = item.cursor
    if step:
        yield _step_line(step)


SINGLE = (FrameLine, EventLine)


def _follows(last: Item, cursors: Sequence[str], item: Item, is_command: bool) -> bool:
    """Return True if the item can follow in its step: whoever reads the step finds the same order."""
    sends = isinstance(last, FrameLine | FrameRun) and last.dir == "send"
    if isinstance(item, FrameLine | FrameRun):
        return item.dir == "send" or not (sends or any(cursors))
    if sends:
        return False
    event, command = cursors
    if is_command:
        return not event or _position(event) < _position(item.cursor)
    return not command or _position(command) <= _position(item.cursor)


def _step_line(items: Sequence[Item]) -> StepLine:
    frames, events, commands = list[FrameEntry](), list[EventEntry](), list[CommandEntry]()
    for item in items:
        if isinstance(item, FrameLine | FrameRun):
            frames.append(_frame_entry(item))
        elif isinstance(item, Stream) or item.event is not None:
            events.append(_event_entry(item))
        elif item.command is not None:
            commands.append(
                CommandEntry(cursor=item.cursor, command=item.command, link=item.link, redacted=item.redacted)
            )
    return StepLine(seq=items[0].seq, t=items[0].t, frames=frames, events=events, commands=commands)


def _frame_entry(item: FrameLine | FrameRun) -> FrameEntry:
    if isinstance(item, FrameRun):
        around = [[part] for part in item.around]
        return FrameEntry(link=item.link, dir=item.dir, dialect=item.dialect, words=item.words, around=around)
    return FrameEntry(
        link=item.link,
        dir=item.dir,
        dialect=item.dialect,
        text=item.text,
        base64=item.base64,
        channel=item.channel,
        parts=item.parts,
        missing=item.missing,
        redacted=item.redacted,
    )


def _event_entry(item: EventLine | Stream) -> EventEntry:
    if isinstance(item, Stream):
        return EventEntry(
            cursor=item.cursor,
            event=item.event,
            texts=item.texts,
            turn=item.turn,
            origin=item.origin,
            at=item.rounds[0].at,
        )
    return EventEntry(
        cursor=item.cursor,
        event=item.event,  # type: ignore[arg-type]  # the caller saw that it is an event
        link=item.link,
        turn=item.turn,
        origin=item.origin,
        at=item.at,
        redacted=item.redacted,
    )


def _folded(stream: Stream) -> StepLine:
    """Return the StepLine of a text that streamed."""
    frames = [
        FrameEntry(link=wire.link, dir=wire.dir, dialect=wire.dialect, around=wire.around) for wire in stream.wires
    ]
    entry = EventEntry(
        cursor=stream.cursor, event=stream.event, texts=stream.texts, turn=stream.turn, origin=stream.origin
    )
    return StepLine(seq=stream.seq, t=stream.t, frames=frames, events=[entry], rounds=stream.rounds)


# -- bytes ------------------------------------------------------------------------------------------------------

_ENCODER = msgspec.json.Encoder()
_LINE = msgspec.json.Decoder(StepLine)
_HEADER = msgspec.json.Decoder(Header)


class _Stamp(Struct):
    """The format and version of a first line, read before the rest of it is believed."""

    format: str = ""
    version: int = 0


class _Kind(Struct):
    kind: str = ""


_STAMP = msgspec.json.Decoder(_Stamp)
_KIND = msgspec.json.Decoder(_Kind)


def encode(line: Header | StepLine) -> bytes:
    """Return a line as bytes, without its newline."""
    return _ENCODER.encode(line)


def encode_lines(lines: Iterable[StepLine]) -> bytes:
    """Return lines as bytes, each with its newline."""
    return _ENCODER.encode_lines(list(lines))


def decode_header(line: bytes, name: str = "this file") -> Header:
    """Return the first line of a recording.

    Raise RecordingError if it is no header, VersionError if it is one of another version.
    """
    try:
        stamp = _STAMP.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        stamp = _Stamp()
    if stamp.format != FORMAT:
        raise RecordingError(f"{name} is no recording: its first line is no header of format {FORMAT!r}")
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
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
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
        kind = _KIND.decode(line).kind
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ""
    return "" if kind == "step" else kind


def _check(step: StepLine) -> None:
    """Raise ValueError if the parts of a step contradict each other."""
    if not (step.frames or step.events or step.commands):
        raise ValueError("a step in which nothing happened")
    if step.rounds:
        _check_rounds(step)
        return
    for frame in step.frames:
        if (len(frame.around) > 1) is not bool(frame.words) or any(len(part) > 1 for part in frame.around):
            raise ValueError("words without something around them, or the reverse")
    for entry in step.events:
        if entry.texts:
            _check_texts(entry)


def _check_rounds(step: StepLine) -> None:
    if len(step.events) != 1 or step.commands or step.rounds[0].t != step.t:
        raise ValueError("rounds need one event, no command and the `t` of the first round")
    (entry,) = step.events
    _check_texts(entry)
    if sum(some.count for some in step.rounds) != len(entry.texts):
        raise ValueError("the rounds have another number of texts")
    if any(len(frame.around) < 2 or frame.words for frame in step.frames):
        raise ValueError("a frame without something around its texts")
    if len({(frame.link, frame.dir) for frame in step.frames}) != len(step.frames):
        raise ValueError("the same link and direction twice")


def _check_texts(entry: EventEntry) -> None:
    event = entry.event
    if not isinstance(event, DELTAS) or event.text or event.ext is not None or not entry.texts:
        raise ValueError("`texts` without an empty delta")
    if entry.link or entry.redacted:
        raise ValueError("`texts` of an event that was redacted or told to one link")
