"""A recording as the backend of one session (docs/design.md, section 7).

It sends what all clients received then, and the session makes its normal form again. So events that the session itself
adds are left out (lines.py). An input begins a recorded turn, which is played in parts. If a recorded command stands
between two parts, the play waits for that command. A command that comes early makes the rest before it follow at once.
This module has no I/O except reading the recording; `later` is injected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec import UNSET, structs

from dragoman.gateway.recording.lines import EventLine
from dragoman.gateway.replay.lines import Lines
from dragoman.gateway.replay.matching import ANSWERS, means
from dragoman.gateway.replay.pace import Pace
from dragoman.gateway.replay.reports import WHY, Outcome, Report, Reporter, named
from dragoman.gateway.replay.scenes import Passage, Play, Scene
from dragoman.gateway.replay.turn_matcher import TurnMatcher
from dragoman.gateway.session.history import page
from dragoman.gateway.session.ports import BackendEvents
from dragoman.gateway.timers import Later, Timer
from dragoman.mappings.canonical import Command, Event
from dragoman.mappings.canonical.commands import (
    GetHistory,
    GetSession,
    ListSessions,
    OpenSession,
    Ping,
    ResumeSession,
    ShutdownBackend,
    SubmitInput,
)
from dragoman.mappings.canonical.events import Pong, Reply, SessionOpened, SessionsListed, TurnEnded
from dragoman.mappings.canonical.values import Cause, Failure
from dragoman.mappings.dialect import Burst

__all__ = ["ReplayBackend"]

BURST = 512  # events sent at once if there are no pauses
PAGE = 50  # messages of a page without a requested number: docs/dialects/smooth.md, section 5

CAUSES: dict[Outcome, Cause] = {"used": "invalid", "not_recorded": "invalid", "playing": "unsupported"}
"""Outcome -> cause of the refusal; `unsupported` for any other."""


class ReplayBackend:
    """A backend that answers a session's commands from a recording; with `auto` it plays everything by itself.

    `passes_on`, if set, takes commands that are not in the recording. `ended` is called when nothing is left to play.
    """

    passes_on: Callable[[Command], None] | None = None

    def __init__(
        self,
        session: BackendEvents,
        play: Play,
        *,
        pace: Pace,
        later: Later,
        reporter: Reporter,
        lines: Lines,
        auto: bool = False,
    ) -> None:
        self._session = session
        self._play = play
        self._pace = pace
        self._later = later
        self._reporter = reporter
        self._lines = lines
        self._auto = auto
        self._matcher = TurnMatcher(play)
        self.ended: Callable[[], None] = lambda: None
        self._scene: Scene | None = None
        self._place = 0  # of the passage in its scene
        self._rest: Iterator[tuple[EventLine, Event]] = iter(())
        self._next: tuple[EventLine, Event] | None = None
        self._then: Callable[[], None] | None = None  # a command that came early
        self._timer: Timer | None = None
        self._playing = False
        self._started = False
        self._stopped = False

    def start(self) -> None:
        if not self._started:
            self._started = True
            self._begin(self._play.scenes[0])

    def rest(self) -> None:
        """Do nothing: an idle replay needs no resources."""

    def stop(self) -> None:
        self._stopped = True
        self._call_off()

    def send(self, commands: Sequence[Command]) -> None:
        for command in commands:
            match command:
                case OpenSession() | ResumeSession() | GetSession():
                    self._open(command)
                case GetHistory():
                    self._page(command)
                case ListSessions():
                    self._say(SessionsListed(request=command.request, sessions=()))
                case Ping():
                    self._say(Pong(request=command.request))
                case ShutdownBackend():
                    self._say(Reply(request=command.request))
                case _ if self._auto:
                    self._refuse(command, "playing")
                case SubmitInput():
                    self._input(command)
                case _:
                    self._steer(command)

    # -- what a session needs --------------------------------------------------------------------------

    def _open(self, command: OpenSession | ResumeSession | GetSession) -> None:
        """Open the recorded conversation as the session, also for a client that resumes another one."""
        known = self._play.recording.header.session
        if isinstance(command, GetSession) and not (known and command.session.endswith(known)):
            text = f"session {command.session!r} not found"
            self._say(Reply(request=command.request, failure=Failure(cause="not_found", text=text)))
            return
        agent = "" if isinstance(command, GetSession) else command.agent
        self._say(SessionOpened(request=command.request, session=self._session.connected().id, agent=agent, ext={}))

    def _page(self, command: GetHistory) -> None:
        answer = page(self._session.connected(), command.request, command.limit or PAGE, command.cursor)
        text = f"unknown cursor {command.cursor!r}"
        self._say(answer or Reply(request=command.request, failure=Failure(cause="invalid", text=text)))

    def _refuse(self, command: Command, outcome: Outcome, report: Report | None = None) -> None:
        if self.passes_on is not None:
            self.passes_on(command)
            return
        self._reporter.report(report or Report(words=named(command), outcome=outcome))
        failure = Failure(cause=CAUSES.get(outcome, "unsupported"), text=f"replay: {WHY[outcome]}")
        self._say(Reply(request=command.request, failure=failure))

    # -- commands --------------------------------------------------------------------------------------

    def _input(self, command: SubmitInput) -> None:
        self.start()
        if self._lines.turn or self._then is not None:
            failure = Failure(cause="busy", text="a turn of the recording is being played")
            self._say(Reply(request=command.request, failure=failure))
            return
        scene, report = self._matcher.input(command)
        if scene is None:
            self._refuse(command, report.outcome, report)
            return
        self._reporter.report(report)
        self._when_over(lambda: self._begin(scene, command))

    def _steer(self, command: Command) -> None:
        """Handle a command within a turn: the next recorded one, or one that was recorded at any time."""
        self.start()
        place = self._gate(command)
        if place is not None and self._then is None:
            self._reporter.report(Report(words=named(command), outcome="exact"))
            self._when_over(lambda: self._enter(place, command))
        elif isinstance(command, ANSWERS) and self._question and self._then is None:
            self._another(command)
        else:
            passage, report = self._matcher.loose(command)
            if passage is None:
                self._refuse(command, report.outcome, report)
            else:
                self._answer(command, passage.answer)

    def _coming(self) -> list[tuple[int, Passage]]:
        """Return the parts of this turn that were not reached yet."""
        return list(enumerate(self._scene.passages))[self._place + 1 :] if self._scene is not None else []

    @property
    def _question(self) -> str:
        """The id of the next or current question in the recording that has an answer there."""
        return next((passage.question for _, passage in self._coming() if isinstance(passage.command, ANSWERS)), "")

    def _gate(self, command: Command) -> int | None:
        """Return the place of this command in the rest of the turn; an answer fits only the open question."""
        question = self._question
        for place, passage in self._coming():
            if isinstance(command, ANSWERS) and passage.question != question:
                continue
            if passage.command is not None and means(passage.command, command):
                return place
        return None

    def _another(self, command: Command) -> None:
        """Fail the turn after an answer that differs from the recorded one, because its continuation is unknown."""
        self._call_off()
        self._reporter.report(Report(words=named(command), outcome="another_answer"))
        self._scene, self._next, self._rest = None, None, iter(())
        self._say(Reply(request=command.request))
        failure = Failure(cause="unsupported", text=f"replay: {WHY['another_answer']}")
        self._say(*self._lines.ended(), TurnEnded(end="failed", failure=failure))
        self._end()

    def _answer(self, command: Command, answer: Event | None) -> None:
        """Send the recorded answer."""
        said = answer if answer is not None else Reply(request=command.request)
        self._say(structs.replace(said, request=command.request))

    # -- scenes and passages -----------------------------------------------------------------------------

    def _begin(self, scene: Scene, command: SubmitInput | None = None) -> None:
        self._scene = scene
        self._enter(0, command)

    def _enter(self, place: int, command: Command | None) -> None:
        """Play a part that `command` begins, leaving out recorded commands that were skipped."""
        if self._scene is None:
            return
        self._place = place
        passage = self._scene.passages[place]
        self._pace.begin(passage.t)
        self._rest = self._play.events(passage)
        self._next = next(self._rest, None)
        self._lines.begin(command, auto=self._auto)
        if command is not None and not (isinstance(command, SubmitInput) and _accepted(passage.answer)):
            self._answer(command, _well(passage.answer))
        if passage.command is None:
            self._open_with_history()
        self._go_on()

    def _open_with_history(self) -> None:
        """Send the events before the first turn at once, so that they are in the first client's snapshot."""
        events: list[Event] = []
        while self._next is not None and not self._next[0].turn:
            self._pace.begin(self._next[0].t)
            events += self._lines.say(*self._next)
            self._next = next(self._rest, None)
        self._say(*events)

    def _when_over(self, then: Callable[[], None]) -> None:
        """Call `then` after the rest of this part, which follows at once."""
        self._then = then
        self._call_off()
        if not self._playing:
            self._go_on()

    def _go_on(self) -> None:
        self._timer = None
        if self._playing or self._stopped:
            return
        self._playing = True
        events: list[Event] = []
        try:
            while self._next is not None and len(events) < BURST and self._due(self._next[0]):
                events += self._lines.say(*self._next)
                self._next = next(self._rest, None)
            self._say(*events)
        finally:
            self._playing = False
        if self._next is None:
            self._over()
        else:
            wait = 0.0 if self._then is not None else self._pace.wait(self._next[0].t)
            self._timer = self._later(max(wait, 0.0), self._go_on)

    def _due(self, line: EventLine) -> bool:
        if self._pace.instant:
            return True
        if self._then is None and self._pace.wait(line.t) > 0:
            return False
        self._pace.reached(line.t)
        return True

    def _over(self) -> None:
        """Continue after a part: with an early command, with the next part if `auto`, else wait."""
        then, self._then = self._then, None
        if then is not None:
            then()
        elif self._auto:
            self._play_on()
        elif not self._coming():
            self._end()

    def _end(self) -> None:
        """End the turn, and the play after the last one."""
        if self._lines.turn or self._lines.waits:
            failure = Failure(cause="upstream_lost", text="the recording ends in the midst of this turn")
            self._say(*self._lines.ended(), TurnEnded(end="failed", failure=failure))
        if not self._matcher.left:
            self.ended()

    def _play_on(self) -> None:
        coming = self._coming()
        if coming:
            self._wait_for(coming[0][1], lambda: self._enter(coming[0][0], None))
        elif left := self._matcher.left:
            self._matcher.use(left[0])
            self._wait_for(left[0].passages[0], lambda: self._begin(left[0]))
        else:
            self._end()

    def _wait_for(self, passage: Passage, then: Callable[[], None]) -> None:
        wait = self._pace.wait(passage.t)
        self._timer = self._later(max(wait, 0.0), lambda: None if self._stopped else then())

    def _call_off(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _say(self, *events: Event) -> None:
        if events:
            self._session.receive([Burst(items=list(events))])


def _accepted(answer: Event | None) -> bool:
    """Return True if an input was accepted: its answer in the log is then TurnAccepted."""
    return not isinstance(answer, Reply) or answer.failure is None


def _well(answer: Event | None) -> Event | None:
    """Return a recorded answer without its result, which names the recorded session and question."""
    return structs.replace(answer, result=UNSET) if isinstance(answer, Reply) else answer
