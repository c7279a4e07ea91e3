"""Report the moments of each turn to the log and to traces: accepted, first text, tools, questions, end.

    on_run(session, run) --> TurnWatch --> debug lines of the logger `dragoman.turn`
                                       --> a span with events, if OpenTelemetry is configured (tracing.py)

Text that streams is not seen here, so a token costs nothing. A line has no content, unless `--log-content` asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import structlog
from msgspec import Struct, field

from dragoman.gateway.observability import logs
from dragoman.gateway.observability.trace_context import TraceContext, trace_id
from dragoman.gateway.session.runs import Run
from dragoman.gateway.session.session import Session
from dragoman.mappings.canonical import Event, events
from dragoman.mappings.rfc3339 import NS

log = structlog.get_logger("dragoman.turn")


class Moment(Struct, frozen=True, kw_only=True):
    """A moment of a turn: its name, facts without content, and the content."""

    name: str
    facts: dict[str, Any] = {}
    content: str = ""


class WatchedTurn(Struct, kw_only=True):
    """A turn that is followed. `facts` are the same for all its moments."""

    facts: dict[str, Any]
    began: int
    trace: TraceContext | None = None
    spoke: bool = False
    tools: dict[str, str] = field(default_factory=dict)
    """The names of the tools of the turn, by call."""


class TurnSpans(Protocol):
    """The spans of open turns."""

    def begin(self, turn: str, watched: WatchedTurn) -> None:
        """Begin the span of a turn."""

    def note(self, turn: str, moment: Moment) -> None:
        """Add a moment to the span of a turn."""

    def end(self, turn: str, end: str, failure: str) -> None:
        """End the span of a turn."""


class TurnWatch:
    """Follows the turns of all sessions. `clock` returns nanoseconds, `trace_of` the trace of a link by its id."""

    def __init__(
        self, clock: Callable[[], int], trace_of: Callable[[str], TraceContext | None], spans: TurnSpans | None
    ) -> None:
        self._clock = clock
        self._trace_of = trace_of
        self._spans = spans
        self._turns: dict[str, WatchedTurn] = {}

    def note_run(self, session: Session, run: Run) -> None:
        if not run.turn or (self._spans is None and not logs.LEVEL.passes("turn", "debug")):
            if run.ended:
                self._turns.pop(run.turn, None)
            return
        watched = self._turns.get(run.turn)
        if watched is None:
            watched = self._turns[run.turn] = self._begin(session, run)
        for event in run.events:
            for moment in _moments(event, watched):
                self._log_moment(run.turn, watched, moment)
        last = run.events[-1]
        if run.ended and isinstance(last, events.TurnEnded):
            del self._turns[run.turn]
            if self._spans is not None:
                self._spans.end(run.turn, last.end, last.failure.text if last.failure is not None else "")

    def _begin(self, session: Session, run: Run) -> WatchedTurn:
        state, link = session.state, run.origin.link
        trace = self._trace_of(link) or state.trace
        facts = {"session": state.id, "link": link, "principal": state.owner, "trace": trace_id(trace)}
        facts = {name: text for name, text in (*facts.items(), ("turn", run.turn)) if text}
        watched = WatchedTurn(facts=facts, began=self._clock(), trace=trace)
        if self._spans is not None:
            self._spans.begin(run.turn, watched)
        return watched

    def _log_moment(self, turn: str, watched: WatchedTurn, moment: Moment) -> None:
        if self._spans is not None:
            self._spans.note(turn, moment)
        if logs.LEVEL.passes("turn", "debug"):
            content = {"content": moment.content} if moment.content and logs.LEVEL.shows_content else {}
            after = round((self._clock() - watched.began) / NS, 3)
            log.debug(moment.name, **watched.facts, after=after, **moment.facts, **content)


def _moments(event: Event, watched: WatchedTurn) -> Iterator[Moment]:
    """Yield the moments that an event of a turn shows. Most events show none."""
    match event:
        case events.MessageAppended() if event.message.role == "user":
            text = event.message.text
            yield Moment(name="input", facts={"characters": len(text)}, content=text)
        case events.TurnAccepted():
            yield Moment(name="turn accepted")
        case events.TextDelta() if not watched.spoke:
            watched.spoke = True
            yield Moment(name="first text")
        case events.ToolCallStarted():
            watched.tools[event.call] = event.name
            yield Moment(name="tool started", facts={"tool": event.name})
        case events.ToolCallArguments() if event.done:
            tool = event.name or watched.tools.get(event.call, "")
            yield Moment(name="tool called", facts={"tool": tool}, content=event.json)
        case events.ToolCallFinished():
            tool = event.name or watched.tools.get(event.call, "")
            facts = {"tool": tool, "failed": event.is_error}
            yield Moment(name="tool finished", facts=facts, content=event.output or "")
        case events.ApprovalRequested() | events.OtpRequired():
            yield Moment(name="question", facts={"tool": event.tool}, content=event.description)
        case events.InteractionRequired():
            yield Moment(name="question", facts={"kind": event.kind}, content=event.reason)
        case events.ApprovalResolved():
            yield Moment(name="answer", facts={"approved": event.approved})
        case events.InteractionResolved():
            yield Moment(name="answer", facts={"declined": event.declined})
        case events.TurnEnded():
            failed = {"cause": event.failure.cause} if event.failure is not None else {}
            yield Moment(name="turn ended", facts={"end": event.end, **failed}, content=event.text)
        case _:
            pass
