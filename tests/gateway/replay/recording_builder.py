"""A recording written line by line, and a replay of it on a clock that the test controls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec import structs

from dragoman.gateway.observability.ledger import Ledger
from dragoman.gateway.recording.format import UP, CommandLine, EventLine, FrameLine, Header, Line
from dragoman.gateway.recording.reader import open_recording
from dragoman.gateway.replay.backend import ReplayBackend
from dragoman.gateway.replay.matching import MatchReport, Reporter
from dragoman.gateway.replay.part_player import Pace
from dragoman.gateway.replay.plan import ReplayPlan, read_plan
from dragoman.gateway.replay.replayed_events import ReplayedEvents
from dragoman.mappings.canonical import Command, Event, SessionState
from dragoman.mappings.canonical.commands import SubmitInput
from dragoman.mappings.canonical.events import (
    MessageAppended,
    Reply,
    StatusChanged,
    TurnAccepted,
    TurnEnded,
    TurnResult,
)
from dragoman.mappings.canonical.values import End, Failure, Message, Origin, Text
from dragoman.mappings.dialect import Burst
from tests.gateway.in_memory import ManualClock
from tests.gateway.recording.lines import HEADER, written

SESSION = "5b1c8c7e-0d4e-5c1a-9f0e-2f6a3c1d7e90"
OF_A_POD = Header(
    gateway=HEADER.gateway,
    started_at=HEADER.started_at,
    route="test",
    session=SESSION,
    dialects={"pod": "seed"},
    upstream="pod+unix:/pod",
)


def said(text: str, request: str = "r") -> SubmitInput:
    """Return an input with this text."""
    return SubmitInput(request=request, segments=(Text(text=text),))


def types(events: list[Any]) -> list[str]:
    """Return the kinds of these events."""
    return [type(event).__name__ for event in events]


class RecordingBuilder:
    """Lines of a recording, each `every` µs after the previous one unless the time is `at` (ms)."""

    def __init__(self, header: Header = OF_A_POD, *, asks_backend: bool = True, turns: int = 0) -> None:
        self._header = header
        self.asks_backend = asks_backend  # else it is played in process: only what clients say is recorded
        self._lines: list[Line] = []
        self._t = 0
        self._turn = turns  # the number of the last turn
        self._open = ""
        self._requests = 0
        self._logged = 0

    def at(self, ms: float) -> RecordingBuilder:
        """Set the time of the lines that follow, in milliseconds."""
        self._t = int(ms * 1000)
        return self

    @property
    def last(self) -> int:
        """The seq of the last line."""
        return len(self._lines)

    def add_line(self, **fields: Any) -> None:
        kind = CommandLine if "command" in fields else EventLine
        self._lines.append(kind(seq=self.last + 1, t=self._t, cursor=f"1:{self._logged}", **fields))

    def client(self, command: Any) -> str:
        """Add a command of a client that does not reach the backend; return its request id."""
        self._requests += 1
        request = f"c{self._requests}"
        self.add_line(command=_asked_by(command, request), link="smooth-1")
        return request

    def asks(self, command: Any, *answers: Event) -> RecordingBuilder:
        """Add a command to the backend and its answer, whose request id is filled in."""
        request = self.client(command)
        if self.asks_backend:
            self.backend(command)
        for answer in answers:
            self.add_line(event=_asked_by(answer, request), link="smooth-1")
        return self

    def backend(self, command: Command) -> RecordingBuilder:
        """Add a command to the backend."""
        self._requests += 1
        self.add_line(command=_asked_by(command, f"u{self._requests}"), link=UP)
        return self

    def sends(self, *events: Event) -> RecordingBuilder:
        """Add events to the log, in the open turn if there is one."""
        for event in events:
            self.add_line(event=event, turn=self._open, at=1)
            self._logged += 1
        return self

    def turn(
        self, text: str, *events: Event, end: End | None = "completed", failure: Failure | None = None
    ) -> RecordingBuilder:
        """Add a client's turn in normal form, from its input to its end; leave it open if `end` is None."""
        self.asks(said(text)).begins()
        request = f"c{self._requests - 1 if self.asks_backend else self._requests}"
        origin = Origin(link="smooth-1", request=request)
        message = Message(role="user", text=text, id="m", segments=(Text(text=text),))
        for event in (TurnAccepted(request=request), MessageAppended(message=message)):
            self.add_line(event=event, turn=self._open, origin=origin, at=1)
            self._logged += 1
        self.sends(StatusChanged(status="running"))
        return self.sends(*events).ends(end, failure) if end is not None else self.sends(*events)

    def begins(self) -> RecordingBuilder:
        """Open a turn."""
        self._turn += 1
        self._open = f"turn {self._turn}"
        return self

    def ends(self, end: End = "completed", failure: Failure | None = None) -> RecordingBuilder:
        """End the open turn in normal form."""
        status = StatusChanged(status="paused" if end == "paused" else "idle")
        self.sends(TurnResult(end=end), status, TurnEnded(end=end, message="answer", failure=failure))
        self._open = ""
        return self

    def refused(self, text: str, failure: Failure) -> RecordingBuilder:
        """Add an input that the backend refused."""
        return self.asks(said(text), Reply(request="", failure=failure))

    def frame(self, text: str = "{}") -> RecordingBuilder:
        """Add a line with a frame of a wire."""
        self._lines.append(FrameLine(seq=self.last + 1, t=self._t, link=UP, dir="receive", dialect="pod", text=text))
        return self

    def write(self, folder: Path, name: str = "tape.jsonl") -> Path:
        """Write the file; return its path."""
        return written(folder / name, self._lines, self._header)

    def plan(self, folder: Path) -> ReplayPlan:
        """Return the plan of a replay."""
        return read_plan(open_recording(self.write(folder)))


def _asked_by(item: Any, request: str) -> Any:
    return structs.replace(item, request=request)


class WatchedSession:
    """A session that notes its events in place of a client."""

    def __init__(self, state: SessionState) -> None:
        self.state = state
        self.events: list[Any] = []

    def connected(self) -> None: ...

    def receive(self, bursts: list[Burst[Any]]) -> None:
        for burst in bursts:
            self.events += burst.items

    def lost(self, text: str, unsent: Any, cause: Any = "upstream_lost") -> bool:
        raise AssertionError(f"a replay cannot be lost: {text}")


class WatchedReplay(WatchedSession):
    """A session that receives a replay: `events` are all of its events, `news` those since the last call."""

    def __init__(
        self,
        plan: ReplayPlan,
        *,
        speed: float = 0.0,
        idle_cap: float | None = None,
        auto: bool = False,
        tells: bool = True,
    ) -> None:
        super().__init__(SessionState(id="00000000-0000-4000-8000-000000000001"))
        self.time = ManualClock()
        self.ledger = Ledger()
        self.reports: list[MatchReport] = []
        self.told: list[str] = []
        self._seen = 0
        reporter = Reporter(self.ledger, explain=self.told.append)
        reporter.notify(self.reports.append)
        self.backend = ReplayBackend(
            self,
            plan,
            pace=Pace(lambda: self.time.seconds, speed, idle_cap),
            later=self.time.later,
            reporter=reporter,
            events=ReplayedEvents(self.state, sends_model_turns=tells, auto=auto),
        )

    def asks(self, command: Command) -> list[Any]:
        """Send this command; return the events until nothing more is due."""
        self.backend.send([command])
        return self.news()

    def news(self, after: float = 0.0) -> list[Any]:
        """Let this many seconds pass and return the events since the last call."""
        self.time.passes(after)
        news, self._seen = self.events[self._seen :], len(self.events)
        return news
