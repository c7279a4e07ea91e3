"""Captures of other tools as recordings: the frames of one conversation, told through the normal form of a turn.

A capture is JSON Lines: `t` (seconds), `dir` (`c2s`, `s2c`, `pub`), `frame` or, for ZeroMQ, `frames`, and `conn` where
there are several connections; a first line without `dir` is a header and may name the `dialect`. A line with `event`
"close" says that the connection is; others without a frame say nothing here. The gateway's place is that of the tool
that captured: what a client said went to the backend as it stood, and its connection was the session's own. Of several
clients that were told the same the one counts that was told most.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, TypeVar
from uuid import NAMESPACE_URL, uuid5

import msgspec
from msgspec import Meta, Struct

from dragoman.gateway.recording.format import FORMAT, Header, RecordingError
from dragoman.gateway.recording.lines import UP, EventLine, Line, frame_line
from dragoman.gateway.session.commands import answers_one
from dragoman.gateway.session.normal_form import Given, NormalForm
from dragoman.gateway.session.runs import Run
from dragoman.mappings.canonical import SessionState
from dragoman.mappings.canonical.commands import AnswerApproval, AnswerInteraction, SubmitInput
from dragoman.mappings.canonical.events import (
    ApprovalResolved,
    ErrorReported,
    InteractionResolved,
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
from dragoman.mappings.dialect import Burst, Dialect, Direction, Frame, Parts, Step

__all__ = ["Capture", "Import", "Said", "read_capture"]

T = TypeVar("T")  # Event or Command

BEGINS = frozenset(
    {RunStarted, ModelTurnStarted, TextDelta, ReasoningStarted, ReasoningDelta, ToolCallStarted, TurnEnded}
)
"""What shows that a waiting input's turn has begun, where a backend answers when it is over
(docs/dialects/codewhale.md).
"""

LINE_MAX = 64 << 20  # bytes: four of the largest messages


class _Raw(Struct):
    """A line as it is written; what else it has is of no interest. `format` is that of a recording's header."""

    t: Annotated[float, Meta(le=9e9)] = 0.0  # 285 years, as in a recording
    dir: str = ""
    format: Any = None
    conn: str | None = None
    frame: str | None = None
    frames: list[str] | None = None
    event: str = ""
    dialect: str = ""


class Said(Struct, frozen=True):
    """One frame of a capture: in which line it stands, when (µs), on which connection, which way.

    Without a frame it says that the connection was closed.
    """

    number: int
    t: int
    conn: str
    dir: str
    frame: Frame | None


class Capture:
    """A capture that can be read any number of times. `dialect_name` is what its header says, or ""."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.progress: Callable[[int], None] = lambda _bytes: None
        self.dialect_name = next((raw.dialect for _, raw in self._raw()), "")

    def frames(self) -> Iterator[Said]:
        """Its frames, in their order, and where connections were closed."""
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
            yield Said(number, int(raw.t * 1e6), raw.conn or "client", raw.dir, frame)

    def _raw(self) -> Iterator[tuple[int, _Raw]]:
        decoder = msgspec.json.Decoder(_Raw)
        with self.path.open("rb") as file:
            number = 0
            while line := file.readline(LINE_MAX):
                number += 1
                self.progress(file.tell())
                if not line.strip():
                    continue
                try:
                    raw = decoder.decode(line)
                except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                    raise RecordingError(f"{self.path}:{number} is no line of a capture: {error}") from None
                if raw.format == FORMAT:
                    raise RecordingError(f"{self.path} is no capture but a recording already")
                yield number, raw


def read_capture(capture: Capture, dialect: Dialect, *, session: str = "", gateway: str = "") -> tuple[Header, Import]:
    """The header of a capture's recording, and its lines to iterate. `session` names one where it has several."""
    of = Import(capture, dialect)
    of.look(session)
    header = Header(
        gateway=gateway,
        started_at=of.started_at,
        route=capture.path.stem,
        session=of.session,
        dialects={dialect.name: ""},
        upstream=f"capture:{capture.path.name}",
    )
    return header, of


class Import:
    """The lines of a recording, made from a capture. `problems` are what could not be read, by line of the capture."""

    def __init__(self, capture: Capture, dialect: Dialect) -> None:
        self.session = ""
        self.started_at = 0
        self.problems: list[str] = []
        self.others = 0  # frames that told other clients, or of other sessions
        self._capture = capture
        self._dialect = dialect
        self._told = ""  # the connection whose frames tell the session's events
        self._numbers = 0
        self._seq = 0
        self._t = 0
        self._waiting: dict[str, tuple[str, SubmitInput]] = {}
        self._begun: set[str] = set()  # inputs whose turns began though nothing said that they were accepted
        self._given: Given | None = None
        self._given_by = ""  # the request of that answer

    def look(self, session: str) -> None:
        """Which session, when it began, and who was told of it most. RecordingError if nobody said anything, or nobody
        of that session.
        """
        told: Counter[str] = Counter()
        named: Counter[str] = Counter()  # by what the backend says of it, else by what it is asked
        asked: Counter[str] = Counter()
        empty = True
        for said in self._capture.frames():
            if said.frame is None:
                continue
            empty = False
            if said.dir == "c2s":
                items = (item for burst in self._bursts(said, self._dialect.commands) for item in burst.items)
                asked.update(item.session for item in items if item.session)
                continue
            told[said.conn] += 1
            for burst in self._bursts(said, self._dialect.events):
                if not self.started_at and burst.at:
                    self.started_at = max(0, burst.at - said.t * 1000)
                if burst.session:
                    named[burst.session] += 1
        if empty:
            raise RecordingError(f"{self._capture.path} holds no frames: a line of a capture has `frame` or `frames`")
        known = {**named, **asked}
        if session and known and session not in known:
            raise RecordingError(f"{self._capture.path} has no session {session!r}: there are {', '.join(known)}")
        self._told = _most(told)
        self.session = session or _most(named) or _most(asked) or str(uuid5(NAMESPACE_URL, self._capture.path.name))
        self.started_at = self.started_at or self._capture.path.stat().st_mtime_ns
        self.problems.clear()  # they are told when the lines are made

    def __iter__(self) -> Iterator[Line]:
        self._state = SessionState(id=self.session, opened_at=self.started_at)
        self._form = NormalForm(self._state, self._new_id, given=lambda: self._given)
        for said in self._capture.frames():
            self._t = max(self._t, said.t)
            if said.frame is None:
                yield from self._closed(said)
            elif said.dir == "c2s":
                yield from self._client_says(said, said.frame)
            else:
                yield from self._backend_says(said, said.frame)

    # -- the client's side -----------------------------------------------------------------------------

    def _client_says(self, said: Said, frame: Frame) -> Iterator[Line]:
        commands = [item for burst in self._bursts(said, self._dialect.commands) for item in burst.items]
        for command in commands:
            if isinstance(command, SubmitInput):
                self._waiting[command.request] = said.conn, command
            elif isinstance(command, AnswerApproval):
                self._given = Given(resolved=ApprovalResolved(approved=command.approved))
                self._given_by = command.request
            elif isinstance(command, AnswerInteraction):
                self._given = Given(resolved=InteractionResolved(question=command.question, declined=command.declined))
                self._given_by = command.request
            yield self._line(command=command, link=said.conn)
        for command in commands:
            yield self._line(command=command, link=UP)
        yield self._frame(frame, "send")

    def _closed(self, said: Said) -> Iterator[Line]:
        """A connection was closed: with one that is a session's own its turn is lost (docs/design.md, section 5)."""
        turn = self._state.turn
        if self._dialect.single_session or self._dialect.session_ref is not None or turn is None:
            return
        if turn.origin.link == said.conn:
            self._given = None
            at = self.started_at + self._t * 1000
            failure = Failure(cause="upstream_lost", text="the connection was closed")
            yield from self._runs(self._form.cut("failed", failure, at), at)

    # -- the backend's side ----------------------------------------------------------------------------

    def _backend_says(self, said: Said, frame: Frame) -> Iterator[Line]:
        broadcast = said.dir == "pub" or self._dialect.single_session
        if broadcast and said.conn != self._told:
            self.others += 1
            return
        yield self._frame(frame, "receive")
        for burst in self._bursts(said, self._dialect.events):
            if burst.session and burst.session != self.session:
                self.others += 1
                continue
            at = burst.at or self.started_at + self._t * 1000
            if burst.request == self._given_by and any(isinstance(item, ErrorReported) for item in burst.items):
                self._given = None  # that answer was refused
            for item in burst.items:
                yield from self._item(said.conn, item, at)
                if isinstance(item, ErrorReported) and self._is_open(burst.request):
                    failure = Failure(cause=item.cause, text=item.text, ext=item.ext)
                    yield from self._runs(self._form.cut("failed", failure, at), at)

    def _is_open(self, request: str) -> bool:
        """Whether the open turn was asked for under this request: an error under it ends it
        (docs/translation.md, rule 3.11).
        """
        turn = self._state.turn
        return bool(request) and turn is not None and turn.origin.request == request

    def _item(self, conn: str, item: Any, at: int) -> Iterator[Line]:
        accepted = self._accepted(item)
        if accepted is not None:
            yield from self._accept(*accepted, at)
        elif answers_one(item):
            yield self._line(event=item, link=conn)
            if isinstance(item, Reply) and item.request in self._begun:
                self._begun.discard(item.request)
                if item.failure is not None:
                    yield from self._runs(self._form.cut("failed", item.failure, at), at)
        else:
            if self._waiting and self._state.turn is None and type(item) in BEGINS and not self._dialect.single_session:
                conn, command = self._waiting.pop(next(iter(self._waiting)))
                self._begun.add(command.request)  # it is answered when it is over
                yield from self._accept(conn, command, at)
            yield from self._runs(self._form.feed([item], at), at)
            if self._state.turn is None or self._state.turn.question is None:
                self._given = None

    def _accept(self, conn: str, command: SubmitInput, at: int) -> Iterator[Line]:
        """The input's turn begins."""
        message = Message(role="user", text=flatten(command.segments), segments=command.segments)
        yield from self._runs(self._form.accept(Origin(link=conn, request=command.request), message, at), at)

    def _accepted(self, item: Any) -> tuple[str, SubmitInput] | None:
        """Whose input begins a turn by this: said so, answered well, or, where answers have no ids, heard again."""
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

    def _bursts(self, said: Said, direction: Direction[T]) -> list[Burst[T]]:
        step: Step[T] = Step()
        direction.receive([said.frame] if said.frame is not None else [], step)
        self.problems += [f"{self._capture.path}:{said.number}: {fault.text}" for fault in step.faults]
        return step.bursts

    def _runs(self, runs: list[Run], at: int) -> Iterator[Line]:
        for run in runs:
            for event in run.events:
                yield self._line(event=event, turn=run.turn, origin=run.origin, at=at)
                self._state.seq += 1

    def _line(self, **fields: Any) -> EventLine:
        self._seq += 1
        return EventLine(seq=self._seq, t=self._t, cursor=f"{self._state.epoch}:{self._state.seq}", **fields)

    def _frame(self, frame: Frame, way: Any) -> Line:
        self._seq += 1
        return frame_line(self._seq, self._t, UP, way, self._dialect.name, frame)

    def _new_id(self) -> str:
        self._numbers += 1
        return str(uuid5(NAMESPACE_URL, f"{self.session}#{self._numbers}"))


def _most(counted: Counter[str]) -> str:
    """What was counted most, the first of equals; "" of nothing."""
    return max(counted, key=lambda key: counted[key], default="")
