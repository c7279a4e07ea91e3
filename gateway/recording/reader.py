"""Reading a recording: one file, or all the parts of one that was rotated, in their order.

Any part stands for the whole, and so does a folder that holds one session. The parts are found by their names and told
from others by their headers. One that is not there, and lines that could not be written before a part, are a *gap*:
said where it is, for who reads on must know.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from dragoman.gateway.recording.format import Header, Item, RecordingError, StepLine, VersionError
from dragoman.gateway.recording.lines import UP, EventLine, FrameLine, Line
from dragoman.gateway.recording.part_file import PartFile, Problems, open_part
from dragoman.gateway.recording.places import is_named_as_one, siblings
from dragoman.mappings.canonical import Batch, Command, Event
from dragoman.mappings.canonical.events import QuestionAnswered, QuestionAsked

__all__ = ["Missing", "Recording", "batches", "open_recording"]


class Missing(Struct, frozen=True):
    """What should stand before the line `seq` and does not, in words."""

    seq: int
    text: str


class Recording:
    """What was recorded of a session, read any number of times; `problems` are those of the last time.

    `header` and `path` are those of its first part. `missing` is what is known not to be in it. `progress` hears how
    many bytes (of `size`) were read so far.
    """

    def __init__(self, parts: Sequence[PartFile]) -> None:
        self.parts = tuple(parts)
        self.path = parts[0].path
        self.header = parts[0].header
        self.missing = tuple(_missing(parts))
        self.problems = Problems()
        self.progress: Callable[[int], None] = lambda _bytes: None

    @property
    def size(self) -> int:
        """Bytes of all its files."""
        return sum(part.size for part in self.parts)

    @property
    def compressed(self) -> bool:
        """Whether its last file is, so that nothing can be added to it."""
        return self.parts[-1].compressed

    def part_of(self, seq: int) -> int:
        """In which of the parts the line `seq` stands, or would."""
        return max(bisect_right(self.parts, seq, key=lambda part: part.header.seq) - 1, 0)

    def lines(self, *, seq: int = 0, t: int = 0) -> Iterator[Line]:
        """Return its frames, events and commands one by one, from the first with at least this `seq` and this `t`."""
        return (line for step in self.steps(seq=seq, t=t) for line in step.lines() if line.seq >= seq and line.t >= t)

    def items(self, *, seq: int = 0, t: int = 0) -> Iterator[Item]:
        """Return the items of the steps from `steps`, alike ones together."""
        for step in self.steps(seq=seq, t=t):
            yield from step.items()

    def steps(self, *, seq: int = 0, t: int = 0) -> Iterator[StepLine]:
        """Return the lines of its files, from the first that has an item with at least this `seq` and this `t`."""
        self.problems = Problems(gap.text for gap in self.missing)
        first = self._entered(seq, t)
        done = sum(part.size for part in self.parts[:first])
        for number, part in enumerate(self.parts[first:]):
            wanted = (seq, t) if number == 0 else (0, 0)  # all of the further ones is wanted
            yield from self._part(part, *wanted, done)
            done += part.size

    def events(self, *, seq: int = 0, t: int = 0) -> Iterator[tuple[EventLine, Event]]:
        """The events of the session's log, each once."""
        for line in self.lines(seq=seq, t=t):
            if isinstance(line, EventLine) and line.event is not None and not line.link:
                yield line, line.event

    def commands(self, *, seq: int = 0, t: int = 0) -> Iterator[tuple[EventLine, Command]]:
        """The commands as clients said them."""
        for line in self.lines(seq=seq, t=t):
            if isinstance(line, EventLine) and line.command is not None and line.link != UP:
                yield line, line.command

    def asked(self, *, seq: int = 0, t: int = 0) -> Iterator[tuple[EventLine, Command]]:
        """The commands as the backend was asked them, by clients or by the gateway itself."""
        for line in self.lines(seq=seq, t=t):
            if isinstance(line, EventLine) and line.command is not None and line.link == UP:
                yield line, line.command

    def frames(self, *, seq: int = 0, t: int = 0) -> Iterator[FrameLine]:
        """What stood on the wires."""
        return (line for line in self.lines(seq=seq, t=t) if isinstance(line, FrameLine))

    def _part(self, part: PartFile, seq: int, t: int, done: int) -> Iterator[StepLine]:
        return part.steps(self.problems, seq=seq, t=t, progress=lambda read: self.progress(done + read))

    def _entered(self, seq: int, t: int) -> int:
        """The last part before whose first line nothing is wanted; of the others none is read through for it."""

        def begins_later(part: PartFile) -> bool:
            if seq and part.header.seq <= seq:
                return False
            # Several lines have one time: some of them may stand at the end of the part before.
            return not t or (first := next(part.steps(Problems()), None)) is None or first.t >= t

        return bisect_left(self.parts[1:], True, key=begins_later)


def _missing(parts: Sequence[PartFile]) -> Iterator[Missing]:
    expected = 0
    for part in parts:
        header = part.header
        if header.part == expected + 1:
            yield Missing(header.seq, f"part {expected} is missing")
        elif header.part > expected:
            yield Missing(header.seq, f"parts {expected} to {header.part - 1} are missing")
        if header.lost:
            yield Missing(header.seq, f"{header.lost} lines were not recorded")
        expected = header.part + 1


# -- the files of a recording ---------------------------------------------------------------------------------


def open_recording(path: Path) -> Recording:
    """The recording of which this file is a part, or of the one session in a folder.

    RecordingError if there is none, more than one, or it has another version. OSError if it cannot be read.
    """
    return Recording(_only_session(path) if path.is_dir() else _parts(path))


def _parts(path: Path) -> list[PartFile]:
    """All parts of one recording, with the one that is named."""
    named = open_part(path)
    found = {named.header.part: named}
    real = path.resolve()
    for other in siblings(real, named.header.part):
        if other == real:
            continue
        with suppress(RecordingError, OSError):  # what is none of it, or was not begun when a gateway was killed
            part = open_part(other)
            if _whose(part.header) == _whose(named.header):
                found.setdefault(part.header.part, part)
    return [found[number] for number in sorted(found)]


def _whose(header: Header) -> tuple[str, str, int]:
    return header.route, header.session, header.started_at


def _only_session(folder: Path) -> list[PartFile]:
    found: list[list[PartFile]] = []
    known: set[Path] = set()
    for path in sorted(folder.iterdir()):
        if path.resolve() in known or not is_named_as_one(path):
            continue
        try:
            parts = _parts(path)
        except VersionError:
            raise  # it may be the one that is meant
        except RecordingError:
            continue
        known.update(part.path.resolve() for part in parts)
        if parts[0].header.session:
            found.append(parts)
        if len(found) > 1:
            names = " or ".join(parts[0].path.name for parts in found)
            raise RecordingError(f"{folder} holds several sessions: name a file in it, such as {names}")
    if not found:
        raise RecordingError(f"{folder} holds no recording of a session")
    return found[0]


# -- batches --------------------------------------------------------------------------------------------------


def batches(session: str, lines: Iterable[EventLine]) -> Iterator[Batch]:
    """The events of the log as they were delivered: what came at one time, of one turn, and up to a question."""
    some: list[Event] = []
    first: EventLine | None = None
    for line in lines:
        if line.event is None or line.link:
            continue
        if first is not None and (_key(line) != _key(first) or _ends(some[-1])):
            yield _batch(session, first, some)
            some, first = [], None
        first = first or line
        some.append(line.event)
    if first is not None:
        yield _batch(session, first, some)


def _ends(event: Event) -> bool:
    """A question is the last of its batch, and so is an answer, for a client's run ends there."""
    return isinstance(event, QuestionAsked | QuestionAnswered)


def _key(line: EventLine) -> Sequence[object]:
    return line.t, line.turn, line.origin, line.at, line.position[0]


def _batch(session: str, first: EventLine, events: list[Event]) -> Batch:
    epoch, seq = first.position
    return Batch(
        session=session, epoch=epoch, first_seq=seq, events=events, turn=first.turn, origin=first.origin, at=first.at
    )
