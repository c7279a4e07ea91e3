"""A recording as the backend of one session (docs/design.md, section 7).

It sends the events that all clients received, and the session makes its normal form again. So events that the session
adds itself are left out (replayed_events.py). An input begins a recorded turn, which is played in parts
(part_player.py). If there is a recorded command between two parts, the replay waits for that command.

This module has no I/O except reading the recording; `later` is injected.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import UNSET, structs

from dragoman.gateway.replay.matching import (
    WHY,
    MatchReport,
    Outcome,
    Reporter,
    TurnMatcher,
    named,
)
from dragoman.gateway.replay.part_player import Pace, PartPlayer
from dragoman.gateway.replay.plan import RecordedTurn, ReplayPlan, TurnPart
from dragoman.gateway.replay.replayed_events import ReplayedEvents
from dragoman.gateway.replay.similarity import ComparedCommand, is_same_command
from dragoman.gateway.session.history import answer_page
from dragoman.gateway.session.ports import BackendEvents
from dragoman.gateway.timers import Schedule
from dragoman.mappings.canonical import Command, Event, commands, events
from dragoman.mappings.canonical.values import Cause, Failure
from dragoman.mappings.dialect import Burst

CAUSES: dict[Outcome, Cause] = {"used": "invalid", "not_recorded": "invalid", "playing": "unsupported"}
"""Outcome -> cause of the refusal; `unsupported` for any other."""

AHEAD_MAX = 256  # parts of a turn in which a command is looked for, in one step: a person causes far fewer

NO_TURN = RecordedTurn(number=0, parts=())
"""The turn of a replay that waits for an input."""


class ReplayBackend:
    """A backend that answers a session's commands from a recording, or plays everything by itself (`events.auto`)."""

    def __init__(
        self,
        session: BackendEvents,
        plan: ReplayPlan,
        *,
        pace: Pace,
        later: Schedule,
        reporter: Reporter,
        events: ReplayedEvents,
    ) -> None:
        self._session = session
        self._plan = plan
        self._reporter = reporter
        self._events = events
        self._matcher = TurnMatcher(plan)
        self._player = PartPlayer(plan, events, pace, later, self._send_events, self._end_part)
        self._pass_on: Callable[[Command], None] | None = None
        self._at_end: Callable[[], None] = lambda: None
        self._turn = NO_TURN
        self._place = 0  # index of the current part in its turn
        self._started = False

    def pass_unrecorded_to(self, take: Callable[[Command], None]) -> None:
        """Pass commands that are not in the recording to `take`, instead of refusing them."""
        self._pass_on = take

    def call_at_end(self, at_end: Callable[[], None]) -> None:
        """Call `at_end` when nothing is left to play."""
        self._at_end = at_end

    def start(self) -> None:
        if not self._started:
            self._started = True
            self._begin_turn(self._plan.turns[0])

    def suspend(self) -> bool:
        return False  # an idle replay needs no resources

    def stop(self) -> None:
        self._player.stop()

    def send(self, items: Sequence[Command]) -> None:
        self._reporter.note_command()
        for command in items:
            match command:
                case commands.OpenSession() | commands.ResumeSession() | commands.GetSession():
                    self._open_session(command)
                case commands.GetHistory():
                    self._send_events(answer_page(self._session.state, command))
                case commands.ListSessions():
                    self._send_events(events.SessionsListed(request=command.request, sessions=()))
                case commands.ShutdownBackend():
                    self._send_events(events.Reply(request=command.request))
                case _ if self._events.auto:
                    self._refuse(command, "playing")
                case commands.SubmitInput():
                    self._take_input(command)
                case _:
                    self._take_command(command)

    # -- what a session needs --------------------------------------------------------------------------

    def _open_session(self, command: commands.OpeningCommand) -> None:
        """Open the recorded conversation as the session, also for a client that resumes another one."""
        known = self._plan.recording.header.session
        if isinstance(command, commands.GetSession) and not (known and command.session.endswith(known)):
            text = f"session {command.session!r} not found"
            self._send_events(events.Reply(request=command.request, failure=Failure(cause="not_found", text=text)))
            return
        agent = "" if isinstance(command, commands.GetSession) else command.agent
        self._send_events(
            events.SessionOpened(request=command.request, session=self._session.state.id, agent=agent, ext={})
        )

    def _refuse(self, command: Command, outcome: Outcome, report: MatchReport | None = None) -> None:
        if self._pass_on is not None:
            self._pass_on(command)
            return
        self._reporter.report(report or MatchReport(words=named(command), outcome=outcome))
        failure = Failure(cause=CAUSES.get(outcome, "unsupported"), text=f"replay: {WHY[outcome]}")
        self._send_events(events.Reply(request=command.request, failure=failure))

    # -- commands --------------------------------------------------------------------------------------

    def _take_input(self, command: commands.SubmitInput) -> None:
        self.start()
        if self._events.turn or self._player.has_early_command:
            failure = Failure(cause="busy", text="a turn of the recording is being played")
            self._send_events(events.Reply(request=command.request, failure=failure))
            return
        turn, report = self._matcher.match_input(command)
        if turn is None:
            self._refuse(command, report.outcome, report)
            return
        self._reporter.report(report)
        self._player.skip_pauses(lambda: self._begin_turn(turn, command))

    def _take_command(self, command: Command) -> None:
        """Handle a command within a turn: the next recorded one, or one that was recorded at any time."""
        self.start()
        place = self._find_part(command)
        if place is not None and not self._player.has_early_command:
            self._reporter.report(MatchReport(words=named(command), outcome="exact"))
            self._player.skip_pauses(lambda: self._begin_part(place, command))
        elif isinstance(command, commands.Answer) and self._open_question and not self._player.has_early_command:
            self._fail_after_another_answer(command)
        else:
            part, report = self._matcher.match_other(command)
            if part is None:
                self._refuse(command, report.outcome, report)
            else:
                self._send_answer(command, part.answer)

    def _parts_ahead(self) -> list[tuple[int, TurnPart]]:
        """Return the next parts of this turn, at most AHEAD_MAX."""
        begin = self._place + 1
        return list(enumerate(self._turn.parts[begin : begin + AHEAD_MAX], begin))

    @property
    def _open_question(self) -> str:
        """Return the id of the next or current question that has an answer in the recording."""
        return next((part.question for _, part in self._parts_ahead() if isinstance(part.command, commands.Answer)), "")

    def _find_part(self, command: Command) -> int | None:
        """Return the index of the part that this command begins, or None. An answer fits only the open question."""
        question, new = self._open_question, ComparedCommand(command)
        for place, part in self._parts_ahead():
            if isinstance(command, commands.Answer) and part.question != question:
                continue
            if part.compared is not None and is_same_command(part.compared, new):
                return place
        return None

    def _fail_after_another_answer(self, command: Command) -> None:
        """Fail the turn after an answer that differs from the recorded one, because its continuation is unknown."""
        self._player.drop_rest()
        self._reporter.report(MatchReport(words=named(command), outcome="another_answer"))
        self._turn = NO_TURN
        self._send_events(events.Reply(request=command.request))
        failure = Failure(cause="unsupported", text=f"replay: {WHY['another_answer']}")
        self._send_events(*self._events.begin_forced_end(), events.TurnEnded(end="failed", failure=failure))
        self._end_turn()

    def _send_answer(self, command: Command, answer: Event | None) -> None:
        self._send_events(structs.replace(answer or events.Reply(request=""), request=command.request))

    # -- turns and parts -----------------------------------------------------------------------------

    def _begin_turn(self, turn: RecordedTurn, command: commands.SubmitInput | None = None) -> None:
        self._turn = turn
        self._begin_part(0, command)

    def _begin_part(self, place: int, command: Command | None) -> None:
        """Play a part that `command` begins, leaving out recorded commands that were skipped."""
        self._place = place
        part = self._turn.parts[place]
        self._player.begin(part)
        is_refused = isinstance(command, commands.SubmitInput) and not _accepted(part.answer)
        self._events.begin_part(None if is_refused else command)
        if command is not None and (is_refused or not isinstance(command, commands.SubmitInput)):
            self._send_answer(command, _without_result(part.answer))
        if part.command is None:
            self._player.send_history()
        self._player.play()

    def _end_part(self) -> None:
        """Continue after a part without an early command: with the next part if `auto`, else wait."""
        if self._events.auto:
            self._play_next()
        elif not self._parts_ahead():
            self._end_turn()

    def _end_turn(self) -> None:
        """End the turn. After the last turn end the replay, too."""
        if self._events.turn or self._events.input_pending:
            failure = Failure(cause="upstream_lost", text="the recording ends in the middle of this turn")
            self._send_events(*self._events.begin_forced_end(), events.TurnEnded(end="failed", failure=failure))
        if not self._matcher.unused:
            self._at_end()

    def _play_next(self) -> None:
        coming = self._parts_ahead()
        if coming:
            self._player.wait_for(coming[0][1], lambda: self._begin_part(coming[0][0], None))
        elif left := self._matcher.unused:
            self._matcher.use(left[0])
            self._player.wait_for(left[0].parts[0], lambda: self._begin_turn(left[0]))
        else:
            self._end_turn()

    def _send_events(self, *events: Event) -> None:
        if events:
            self._session.receive([Burst(items=list(events))])


def _accepted(answer: Event | None) -> bool:
    """Return True if an input was accepted: its answer in the log is then TurnAccepted."""
    return not isinstance(answer, events.Reply) or answer.failure is None


def _without_result(answer: Event | None) -> Event | None:
    """Return a recorded answer without its result, which names the recorded session and question."""
    return structs.replace(answer, result=UNSET) if isinstance(answer, events.Reply) else answer
