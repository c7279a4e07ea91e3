"""Make recordings of captures, which other tools write: the frames of one conversation.

A capture is JSON Lines: `t` (seconds), `dir` (`c2s`, `s2c`, `pub`), `frame` or, for ZeroMQ, `frames`, and `conn` if
there are several connections. A first line without `dir` is a header and may name the `dialect`. A line with `event`
"close" closes its connection; other lines without a frame are ignored.

The recording is the one that a gateway in the position of the capturing tool would have written. Each frame of a client
went to the backend unchanged, over a connection of the session's own. If the backend broadcasts to several clients, the
connection with the most frames is taken.
"""

from __future__ import annotations

import stat
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, TypeVar
from uuid import NAMESPACE_URL, uuid5

import msgspec
from msgspec import Meta, Struct, structs

from dragoman.gateway.recording.format import (
    FORMAT,
    UP,
    CommandLine,
    EventLine,
    Header,
    Line,
    RecordingError,
    frame_line,
)
from dragoman.gateway.session.commands import answers_command
from dragoman.gateway.session.normal_form import NormalForm
from dragoman.gateway.session.question_form import Given, resolution_of
from dragoman.gateway.session.runs import Run
from dragoman.mappings.canonical import SessionState
from dragoman.mappings.canonical.commands import Answer, SubmitInput
from dragoman.mappings.canonical.events import (
    ErrorReported,
    MessageAppended,
    ModelTurnStarted,
    ReasoningDelta,
    ReasoningStarted,
    Reply,
    RunStarted,
    TextDelta,
    ToolCallStarted,
    TurnAccepted,
    TurnEnded,
)
from dragoman.mappings.canonical.values import Failure, Message, Origin, flatten
from dragoman.mappings.codec import MALFORMED
from dragoman.mappings.dialect import Burst, Dialect, Direction, Frame, Parts, Step

T = TypeVar("T")  # Event or Command

BEGINS = frozenset(
    {RunStarted, ModelTurnStarted, TextDelta, ReasoningStarted, ReasoningDelta, ToolCallStarted, TurnEnded}
)
"""Events that show that the turn of a waiting input began, if the backend answers the input only at its end
(docs/dialects/codewhale.md).
"""

LINE_MAX = 64 << 20  # bytes: four of the largest messages
STARTED_MAX = (1 << 63) - 1  # ns since the Unix epoch, as in the header of a recording


class _CaptureLine(Struct):
    """A line of a capture; other keys are ignored. A recording has `format` in its first line."""

    t: Annotated[float, Meta(ge=-9e9, le=9e9)] = 0.0  # 285 years, as in a recording
    dir: str = ""
    format: Any = None
    conn: str | None = None
    frame: str | None = None
    frames: list[str] | None = None
    event: str = ""
    dialect: str = ""


class CapturedFrame(Struct, frozen=True):
    """A frame of a capture, with its line number, time (µs), connection and direction.

    Without a frame the connection was closed.
    """

    number: int
    t: int
    conn: str
    dir: str
    frame: Frame | None


class Capture:
    """A capture, which can be read any number of times. `dialect_name` comes from its header, or is ""."""

    def __init__(self, path: Path) -> None:
        if not stat.S_ISREG(path.stat().st_mode):
            raise RecordingError(f"{path} is not a regular file: a capture is read more than once")
        self.path = path
        self._progress: Callable[[int], None] = lambda _bytes: None
        self.dialect_name = next((raw.dialect for _, raw in self._raw()), "")

    def report_progress(self, progress: Callable[[int], None]) -> None:
        """Call `progress` with the number of bytes read so far, whenever the capture is read."""
        self._progress = progress

    def frames(self) -> Iterator[CapturedFrame]:
        """Yield the frames of the capture in order, and the ends of connections."""
        for number, raw in self._raw():
            frame: Frame | None = None
            if raw.frames is not None:
                channel = "sub" if raw.dir == "pub" else "rpc"
                frame = Parts(channel, b"", tuple(part.encode() for part in raw.frames))
            elif raw.frame is not None:
                frame = raw.frame.encode()
            elif raw.event != "close":
                continue
            if raw.dir not in ("c2s", "s2c", "pub"):
                raise RecordingError(f"{self.path}:{number}: `dir` is c2s, s2c or pub, not {raw.dir!r}")
            yield CapturedFrame(number, int(raw.t * 1e6), raw.conn or "client", raw.dir, frame)

    def _raw(self) -> Iterator[tuple[int, _CaptureLine]]:
        decoder = msgspec.json.Decoder(_CaptureLine)
        with self.path.open("rb") as file:
            number = 0
            while line := file.readline(LINE_MAX):
                number += 1
                self._progress(file.tell())
                if not line.strip():
                    continue
                try:
                    raw = decoder.decode(line)
                except MALFORMED as error:
                    raise RecordingError(f"{self.path}:{number} is not a line of a capture: {error}") from None
                if raw.format == FORMAT:
                    raise RecordingError(f"{self.path} is already a recording, not a capture")
                yield number, raw


class ImportedCapture:
    """A capture as a recording: its header, and its lines, which can be iterated once.

    `problems` has the frames that could not be read. `session` chooses a session if there are several. Raise
    RecordingError if there are no frames, or none of that session.
    """

    def __init__(self, capture: Capture, dialect: Dialect, session: str = "") -> None:
        self._session = session
        self._started_at = 0
        self.problems: list[str] = []
        self.others = 0  # frames to other clients, or of other sessions
        self._capture = capture
        self._dialect = dialect
        self._broadcaster = ""  # the connection from which broadcast events are taken
        self._numbers = 0
        self._t = 0
        self._waiting: dict[str, tuple[str, SubmitInput]] = {}
        self._begun: set[str] = set()  # inputs whose turns began without an answer
        self._given: Given | None = None
        self._given_by = ""  # the request of that answer
        self._look()
        self._state = SessionState(id=self._session, opened_at=self._started_at)
        self._form = NormalForm(self._state, self._new_id, given=lambda: self._given)

    @property
    def header(self) -> Header:
        return Header(
            started_at=self._started_at,
            route=self._capture.path.stem,
            session=self._session,
            dialects={self._dialect.name: ""},
            upstream=f"capture:{self._capture.path.name}",
        )

    def _look(self) -> None:
        """Find the session, its start, and the connection with the most frames."""
        broadcasts: Counter[str] = Counter()
        named: Counter[str] = Counter()  # in frames of the backend; `asked` counts commands
        asked: Counter[str] = Counter()
        frames = 0
        for captured in self._capture.frames():
            if captured.frame is None:
                continue
            frames += 1
            if captured.dir == "c2s":
                commands = self._bursts(captured, self._dialect.commands)
                asked.update(item.session for burst in commands for item in burst.items if item.session)
            else:
                broadcasts[captured.conn] += 1
                events = self._bursts(captured, self._dialect.events)
                named.update(burst.session for burst in events if burst.session)
                starts = (max(0, burst.at - captured.t * 1000) for burst in events if burst.at)
                self._started_at = self._started_at or next(filter(None, starts), 0)
        if not frames:
            raise RecordingError(f"{self._capture.path} holds no frames: a line of a capture has `frame` or `frames`")
        self._broadcaster = _most(broadcasts)
        self._session = self._session_among(named, asked)
        started_at = self._started_at or self._capture.path.stat().st_mtime_ns
        self._started_at = min(max(0, started_at), STARTED_MAX)
        self.problems.clear()  # they are found again when the lines are read

    def _session_among(self, named: Counter[str], asked: Counter[str]) -> str:
        """Return the id of the session to import: the wanted one, else the one that is named most often."""
        known, path = {**named, **asked}, self._capture.path
        if self._session and known and self._session not in known:
            raise RecordingError(f"{path} has no session {self._session!r}; its sessions are {', '.join(known)}")
        return self._session or _most(named) or _most(asked) or str(uuid5(NAMESPACE_URL, path.name))

    def __iter__(self) -> Iterator[Line]:
        for seq, line in enumerate(self._lines(), 1):
            yield structs.replace(line, seq=seq, t=self._t)

    def _lines(self) -> Iterator[Line]:
        for captured in self._capture.frames():
            self._t = max(self._t, captured.t)
            if captured.frame is None:
                yield from self._closed(captured)
            elif captured.dir == "c2s":
                yield from self._client_lines(captured, captured.frame)
            else:
                yield from self._backend_lines(captured, captured.frame)

    # -- the client's side -----------------------------------------------------------------------------

    def _client_lines(self, captured: CapturedFrame, frame: Frame) -> Iterator[Line]:
        commands = [item for burst in self._bursts(captured, self._dialect.commands) for item in burst.items]
        for command in commands:
            if isinstance(command, SubmitInput):
                self._waiting[command.request] = captured.conn, command
            elif isinstance(command, Answer):
                self._given, self._given_by = Given(resolved=resolution_of(command)), command.request
            yield CommandLine(cursor=self._cursor, command=command, link=captured.conn)
        for command in commands:
            yield CommandLine(cursor=self._cursor, command=command, link=UP)
        yield frame_line(UP, "send", self._dialect.name, frame)

    def _closed(self, captured: CapturedFrame) -> Iterator[Line]:
        """Fail the turn of a session whose own connection was closed (docs/design.md, section 5)."""
        turn = self._state.turn
        if self._dialect.single_session or self._dialect.session_ref is not None or turn is None:
            return
        if turn.origin.link == captured.conn:
            self._given = None
            at = self._started_at + self._t * 1000
            failure = Failure(cause="upstream_lost", text="the connection was closed")
            yield from self._runs(self._form.cut("failed", failure, at), at)

    # -- the backend's side ----------------------------------------------------------------------------

    def _backend_lines(self, captured: CapturedFrame, frame: Frame) -> Iterator[Line]:
        broadcast = captured.dir == "pub" or self._dialect.single_session
        if broadcast and captured.conn != self._broadcaster:
            self.others += 1
            return
        yield frame_line(UP, "receive", self._dialect.name, frame)
        for burst in self._bursts(captured, self._dialect.events):
            if burst.session and burst.session != self._session:
                self.others += 1
                continue
            at = burst.at or self._started_at + self._t * 1000
            if burst.request == self._given_by and any(isinstance(item, ErrorReported) for item in burst.items):
                self._given = None  # that answer was refused
            for item in burst.items:
                yield from self._item(captured.conn, item, at)
                if isinstance(item, ErrorReported) and self._is_open(burst.request):
                    failure = Failure(cause=item.cause, text=item.text, ext=item.ext)
                    yield from self._runs(self._form.cut("failed", failure, at), at)

    def _is_open(self, request: str) -> bool:
        """Return True if this request began the open turn; an error for that request ends the turn
        (docs/translation.md, rule 3.11).
        """
        turn = self._state.turn
        return bool(request) and turn is not None and turn.origin.request == request

    def _item(self, conn: str, item: Any, at: int) -> Iterator[Line]:
        accepted = self._accepted(item)
        if accepted is not None:
            yield from self._accept(*accepted, at)
        elif answers_command(item):
            yield EventLine(cursor=self._cursor, event=item, link=conn)
            if isinstance(item, Reply) and item.request in self._begun:
                self._begun.discard(item.request)
                if item.failure is not None:
                    yield from self._runs(self._form.cut("failed", item.failure, at), at)
        else:
            if self._waiting and self._state.turn is None and type(item) in BEGINS and not self._dialect.single_session:
                conn, command = self._waiting.pop(next(iter(self._waiting)))
                self._begun.add(command.request)  # the answer comes when the turn is over
                yield from self._accept(conn, command, at)
            yield from self._runs(self._form.feed([item], at), at)
            if self._state.turn is None or self._state.turn.question is None:
                self._given = None

    def _accept(self, conn: str, command: SubmitInput, at: int) -> Iterator[Line]:
        """Begin the turn of an input."""
        message = Message(role="user", text=flatten(command.segments), segments=command.segments)
        yield from self._runs(self._form.accept(Origin(link=conn, request=command.request), message, at), at)

    def _accepted(self, item: Any) -> tuple[str, SubmitInput] | None:
        """Return the pending input that this event accepts: by TurnAccepted, by a successful reply, or by its echo."""
        if isinstance(item, TurnAccepted) or (isinstance(item, Reply) and item.failure is None):
            return self._waiting.pop(item.request, None)
        if isinstance(item, Reply):
            self._waiting.pop(item.request, None)
        elif isinstance(item, MessageAppended) and item.message.role == "user":
            _, command = self._waiting.get("", ("", None))
            if command is not None and flatten(command.segments) == item.message.text:
                return self._waiting.pop("")
        return None

    # -- lines -----------------------------------------------------------------------------------------

    def _bursts(self, captured: CapturedFrame, direction: Direction[T]) -> list[Burst[T]]:
        step: Step[T] = Step()
        direction.receive([captured.frame] if captured.frame is not None else [], step)
        self.problems += [f"{self._capture.path}:{captured.number}: {fault.text}" for fault in step.faults]
        return step.bursts

    def _runs(self, runs: list[Run], at: int) -> Iterator[Line]:
        for run in runs:
            for event in run.events:
                yield EventLine(cursor=self._cursor, event=event, turn=run.turn, origin=run.origin, at=at)
                self._state.seq += 1

    @property
    def _cursor(self) -> str:
        return f"{self._state.epoch}:{self._state.seq}"

    def _new_id(self) -> str:
        self._numbers += 1
        return str(uuid5(NAMESPACE_URL, f"{self._session}#{self._numbers}"))


def _most(counted: Counter[str]) -> str:
    """Return the key with the highest count, the first of equals; "" if there is none."""
    return max(counted, key=lambda key: counted[key], default="")
