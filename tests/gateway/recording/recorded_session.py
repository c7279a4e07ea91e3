"""A session recorder with a disk, a clock and timers that a test controls."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import cast

from dragoman.gateway.observability.ledger import Ledger
from dragoman.gateway.overload.memory import MemoryBudget
from dragoman.gateway.recording.format import UP, Header, Line, decode_header
from dragoman.gateway.recording.pending import FramesNote, TapPoint
from dragoman.gateway.recording.places import Folder, Place
from dragoman.gateway.recording.recordings import FLUSH, Recordings
from dragoman.gateway.recording.redaction.redactor import Redactor
from dragoman.gateway.recording.redaction.rules import RedactionRules
from dragoman.gateway.recording.redaction_worker import RedactionWorker
from dragoman.gateway.recording.session_recorder import CurrentCall, SessionRecorder
from dragoman.gateway.recording.writer import OutputFile, Writer
from dragoman.mappings.canonical import Batch, Event, SessionState
from dragoman.mappings.canonical.events import TextDelta
from dragoman.mappings.canonical.values import Origin
from tests.gateway.in_memory import ManualClock
from tests.gateway.recording.lines import HEADER, decoded


class Disk:
    """A writer that keeps bytes in `files`, and takes nothing while it is `full`."""

    def __init__(self, place: Place, rotate_bytes: int = 0) -> None:
        self.place = place
        self.rotate_bytes = rotate_bytes
        self.backlog = 0
        self.files: dict[OutputFile, bytes] = {}
        self.finished: list[OutputFile] = []
        self.full = False

    def put(self, file: OutputFile, data: bytes, lines: int) -> bool:
        if self.full:
            return False
        self.files[file] = self.files.get(file, b"") + data
        file.size += len(data)
        file.lines += lines
        return True

    def flush(self) -> None:
        pass

    def close(self) -> bool:
        """Return True: everything is written."""
        return True

    def discard(self) -> None:
        pass

    def finish(self, file: OutputFile) -> None:
        self.finished.append(file)

    def parts(self) -> list[tuple[Header, list[Line]]]:
        found = []
        for data in self.files.values():
            first, *rest = data.splitlines()
            found.append((decode_header(first), decoded(rest)))
        return found

    @property
    def data(self) -> bytes:
        return b"".join(self.files.values())

    def lines(self) -> list[Line]:
        return [line for _, lines in self.parts() for line in lines]


class InLoop:
    """A worker that redacts at once, in the loop."""

    busy = False
    backlog = 0

    def has_room(self, _size: int) -> bool:
        return True

    def add(self, _size: int, work: Callable[[], None], done: Callable[[], None]) -> None:
        work()
        done()

    def discard(self) -> None:
        """Do nothing: no work waits."""

    async def close(self) -> None:
        """Do nothing: all work is done."""


IN_LOOP = cast("RedactionWorker", InLoop())
GATHER = 1.75
"""Seconds that pieces of a text wait: seven eighths of the window."""


def default_redactor() -> Redactor:
    """Return a redactor with the rules of the default."""
    return Redactor(RedactionRules(), b"salt")


class RecorderHarness:
    """A session recorder with its disk, its clock and its timers."""

    def __init__(
        self,
        rotate_bytes: int = 0,
        *,
        worker: RedactionWorker = IN_LOOP,
        place: Place = Folder(Path("/rec")),  # noqa: B008  # has no state
        window: float = 2.0,
    ) -> None:
        self.disk = Disk(place, rotate_bytes)
        self.ledger = Ledger()
        self.memory = MemoryBudget()
        self.time = ManualClock()
        self.state = SessionState(id="s", seq=7, epoch=2)
        compiled = RedactionRules(window_micros=int(window * 1e6))
        self.recordings = Recordings(
            cast("Writer", self.disk),
            worker,
            self.ledger,
            self.memory,
            self.time.later,
            redactor=lambda: Redactor(compiled, b"salt"),
        )
        self.call = CurrentCall()
        self.recorder = SessionRecorder(
            self.recordings, self.call, HEADER, self.state, clock=lambda: 1234, monotonic=self.time.monotonic
        )

    def passes(self, seconds: float) -> None:
        self.time.passes(seconds)

    def flushes(self) -> None:
        """Let the time pass after which a text that streams is flushed."""
        self.passes(GATHER)
        self.passes(FLUSH)

    def happens(self, *events: Event, origin: Origin = Origin(), turn: str = "t") -> None:  # noqa: B008  # frozen
        seq = self.state.seq
        batch = Batch(session="s", epoch=2, first_seq=seq, events=list(events), turn=turn, origin=origin, at=99)
        self.recorder.leave(self.recorder.batch(batch))
        self.state.seq += len(events)

    def writes_text(self, text: str) -> None:
        """Let a piece of text happen, and the time pass after which it is flushed."""
        self.happens(TextDelta(text=text))
        self.flushes()

    def adds_text(self, text: str) -> None:
        """Let two pieces of a text arrive, a word and a further one alone."""
        self.recorder.step.append(FramesNote(TapPoint(UP, "receive", "pod"), [b"so"]))
        self.happens(TextDelta(text="so"))
        self.call.reading = text.encode()
        assert self.recorder.open_text([], []).add_text(text, self.state.seq, 99, [])
        self.state.seq += 1
