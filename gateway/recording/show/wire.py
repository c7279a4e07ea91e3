"""The wire of a recording as rows of three columns: backend, canonical, clients.

A row holds a received frame, the events that it meant, and the frames sent for them. Rows with pieces of one text are
one row, so a long answer is one row too. In a column, many alike lines are a *fold*.

    frame received -> events -> frames sent          a row
    rows with pieces of the same text                one row
    FOLD_MIN or more alike lines in a column         a fold
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from dragoman.gateway.recording.format import EventLine, FrameLine, Line, tag_of

BACKEND, CANONICAL, CLIENTS = range(3)

TOGETHER = 5_000  # µs between the first and the last line of one row
FOLD_MIN = 6  # alike lines that are shown as one: fewer fit on a screen
ROW_MAX = 25_000  # events of a row to which further pieces are added: a row is kept in memory, 70 MB with 5 clients

LABEL_MAX = 60  # characters of a label, which a peer chose

Stream = tuple[str, str]
"""The kind of the pieces of a text, and the tool call to which they belong."""


class WireRow:
    """A row of the wire: the lines of each column."""

    def __init__(self, first: Line) -> None:
        self.first = first
        self.columns: tuple[list[Line], list[Line], list[Line]] = ([], [], [])

    def add(self, line: Line) -> None:
        self.columns[_column(line)].append(line)

    def add_row(self, other: WireRow) -> None:
        """Add all lines of another row."""
        for mine, others in zip(self.columns, other.columns, strict=True):
            mine.extend(others)

    @property
    def stream(self) -> Stream | None:
        """Return the text of which this row has pieces, None if it has other events or frames that are missing."""
        streams = {_stream(line) for line in self.columns[CANONICAL]}
        frames = (*self.columns[BACKEND], *self.columns[CLIENTS])
        if len(streams) != 1 or any(isinstance(frame, FrameLine) and frame.missing for frame in frames):
            return None
        return streams.pop()


def wire_rows(lines: Iterable[Line]) -> Iterator[WireRow]:
    """Yield the rows of these lines; rows with pieces of one text are one row."""
    last: WireRow | None = None
    stream: Stream | None = None
    for row in _rows(lines):
        following = row.stream
        if last is not None and stream is not None and following == stream and len(last.columns[CANONICAL]) < ROW_MAX:
            last.add_row(row)
            continue
        if last is not None:
            yield last
        last, stream = row, following
    if last is not None:
        yield last


def folded(lines: Sequence[Line]) -> list[list[Line]]:
    """Return the lines of a column in groups: FOLD_MIN or more alike lines together, every other line alone."""
    groups: dict[tuple[str, ...], list[Line]] = {}
    for line in lines:
        groups.setdefault(_likeness(line), []).append(line)
    shown = [
        some
        for group in groups.values()
        for some in ([group] if len(group) >= FOLD_MIN else [[line] for line in group])
    ]
    return sorted(shown, key=lambda group: group[0].seq)


def label_of(line: Line) -> str:
    """Return the type of an event, a command or a frame, "" if a frame does not name it."""
    if not isinstance(line, FrameLine):
        return tag_of(line.item)
    text = line.text if line.parts is None else next((part.text for part in reversed(line.parts) if part.text), None)
    if text is None:
        return line.channel
    try:
        tags = _TAGS.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return line.channel
    tag = next((tag for tag in (tags.event, tags.type, tags.method, tags.action) if isinstance(tag, str)), "")
    return (tag or ("error" if tags.error is not UNSET else "result" if tags.result is not UNSET else ""))[:LABEL_MAX]


class _FrameTags(Struct):
    """The keys of a frame that name its type, in any dialect."""

    event: object = None
    type: object = None
    method: object = None
    action: object = None
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


_TAGS = msgspec.json.Decoder(_FrameTags)


def _rows(lines: Iterable[Line]) -> Iterator[WireRow]:
    row: WireRow | None = None
    for line in lines:
        if row is not None and _begins(line, row):
            yield row
            row = None
        if row is None:
            row = WireRow(line)
        row.add(line)
    if row is not None:
        yield row


def _begins(line: Line, row: WireRow) -> bool:
    """Return True if a received frame begins a new row; frames that one read returned share a row."""
    if line.t - row.first.t > TOGETHER:
        return True
    if not isinstance(line, FrameLine) or line.dir != "receive":
        return False
    column = _column(line)
    only = all(not lines for number, lines in enumerate(row.columns) if number != column)
    return not (only and line.t == row.first.t)


def _column(line: Line) -> int:
    if not isinstance(line, FrameLine):
        return CANONICAL
    return BACKEND if line.upstream else CLIENTS


def _stream(line: Line) -> Stream | None:
    if not isinstance(line, EventLine) or not line.logged or not line.event.streamed:
        return None
    return label_of(line), str(getattr(line.event, "call", ""))


def _likeness(line: Line) -> tuple[str, ...]:
    if isinstance(line, FrameLine):
        own = str(line.seq) if line.missing else ""
        return line.link, line.dir, line.dialect, label_of(line), own
    return line.link, label_of(line), str(getattr(line.item, "call", ""))
