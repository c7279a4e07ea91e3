"""The normal form of a turn (docs/design.md, section 3; docs/translation.md, rules 3.6, 3.7, 3.17).

Each message maps by itself to what it says; this module adds what its backend did not say, so that every dialect can
rely on it: a turn is opened by our own accepted input or by the backend's content, its text and reasoning blocks are
closed with their full text, its tool calls have complete arguments before their result, and it ends with TurnResult,
StatusChanged and exactly one TurnEnded. Pure: events in, runs of events out, each run within one turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import structs

from dragoman.gateway.session.history import renew
from dragoman.gateway.session.merging import fold_in
from dragoman.gateway.session.runs import Run, Runs
from dragoman.gateway.session.turn import blocks, calls, ends, questions
from dragoman.mappings.canonical import OpenTurn, SessionState
from dragoman.mappings.canonical.events import (
    Alert,
    ApprovalRequested,
    ApprovalResolved,
    ErrorReported,
    Event,
    Gap,
    HistorySnapshot,
    InteractionRequired,
    InteractionResolved,
    MessageAppended,
    ModelCallEnded,
    ModelCallStarted,
    ModelContinuation,
    ModelRetry,
    ModelTurnEnded,
    ModelTurnStarted,
    OtpRequired,
    OtpSent,
    Preamble,
    ReasoningDelta,
    ReasoningDone,
    ReasoningStarted,
    StateSnapshot,
    StatusChanged,
    TextDelta,
    TextDone,
    ToolCallArguments,
    ToolCallFinished,
    ToolCallStarted,
    ToolOutputDelta,
    TurnAccepted,
    TurnEnded,
    TurnResult,
    UsageReported,
)
from dragoman.mappings.canonical.values import End, Failure, Message, Origin, Segment
from dragoman.mappings.dialect import Loss, NewId

__all__ = ["NormalForm"]

Question = ApprovalRequested | InteractionRequired


class NormalForm:
    """Normalises one session's events and folds them into its state as they are emitted."""

    def __init__(
        self, state: SessionState, new_id: NewId, *, tells_model_turns: bool = True, tells_calls: bool = True
    ) -> None:  # fmt: skip
        self.state = state
        self.new_id = new_id
        self._runs = Runs(state)
        self.emit = self._runs.emit
        self._at = 0
        self.model_turns = 0  # those that we said ourselves
        self.tells_model_turns = tells_model_turns  # else a turn has one, said here: a pod's parent waits for it
        self._tells_calls = tells_calls  # else a history has messages alone, and is folded into ours
        self.forced = ""  # text of the block that we closed before its backend did
        self.discarding = False  # a turn was ended for the clients while its backend still runs it (3.4)
        self.unwanted: list[Question] = []  # asked in such a turn: nobody will answer them
        self.puts_in_words: Callable[[Question], bool] = lambda _question: True
        self.given: Callable[[], questions.Given | None] = lambda: None  # the answer that is on its way to the backend
        self.losses: list[Loss] = []

    def feed(self, events: Sequence[Event], at: int) -> list[Run]:
        """Normalise `events`, said at `at` (ns)."""
        self._begin(at)
        for event in events:
            if self.discarding and self._discard(event):
                continue
            if self.state.turn is not None and self.state.turn.question is not None and _goes_on(event):
                questions.over(self)
            handler = _HANDLERS.get(type(event))
            if handler is None:
                self.emit(event)
            else:
                handler(self, event)
        return self._runs.finish()

    def accept(self, origin: Origin, message: Message, at: int) -> list[Run]:
        """The backend took an input of ours: its turn begins, or the one that is open turns out to be it."""
        self._begin(at)
        turn = self.state.turn
        if turn is not None and not turn.accepted and not turn.origin.link:
            turn.origin = origin
            self._runs.split()
        else:
            self._open(origin)
        self.emit(TurnAccepted(request=origin.request))
        self.emit(MessageAppended(message=structs.replace(message, id=message.id or self.new_id(), at=at)))
        self._running()
        return self._runs.finish()

    def end(self, end: End, failure: Failure | None, at: int, *, discard: bool = False) -> list[Run]:
        """End the open turn ourselves; with `discard` its backend goes on and what it says is dropped and counted."""
        self._begin(at)
        turn = self.state.turn
        if turn is not None:
            if discard and turn.question is not None:
                self.unwanted.append(turn.question.asked)  # its backend still waits
            ends.finish(self, end, failure, "idle")
            self.discarding = discard
        elif failure is not None and self.state.status == "running":  # a run of which nothing was heard yet
            self.emit(ErrorReported(cause=failure.cause, text=failure.text, ext=failure.ext))
            self.emit(StatusChanged(status="idle"))
        return self._runs.finish()

    # -- questions: what the session knows of them -----------------------------------------------------

    def answered(self, given: questions.Given, at: int) -> list[Run]:
        """The open question is answered."""
        self._begin(at)
        questions.answered(self, given)
        return self._runs.finish()

    def asked_again(self, text: str, at: int, *, segments: tuple[Segment, ...], origin: Origin) -> list[Run]:
        """Typed `segments` were taken and the open question goes on with `text`."""
        self._begin(at)
        questions.asked_again(self, text, segments, origin)
        return self._runs.finish()

    def noted(self, text: str, at: int, *, segments: tuple[Segment, ...]) -> list[Run]:
        """Typed `segments` are answered with `text`, outside of any turn."""
        self._begin(at)
        questions.noted(self, text, segments)
        return self._runs.finish()

    # -- for the modules beside this one ---------------------------------------------------------------

    def split(self) -> None:
        """What comes next has another origin."""
        self._runs.split()

    def end_turn(self, event: TurnEnded) -> None:
        """The terminal of the open turn."""
        self._runs.end(event)

    def lose(self, event: Event, why: str) -> None:
        """Count an event that goes nowhere."""
        self.losses.append(Loss(kind=type(event).__name__, why=why))

    def gap(self, text: str) -> None:
        """Tell everybody that something is lost, and count it: not every dialect has a word for it."""
        self._gap(Gap(text=text))

    # -- turns --------------------------------------------------------------------------------------

    def _begin(self, at: int) -> None:
        self._at = at
        self._runs.begin(at)

    def _open(self, origin: Origin = Origin()) -> OpenTurn:  # noqa: B008  # frozen
        if self.state.turn is not None:  # a new turn cannot begin inside another: the old one lost its end
            ends.finish(self, "completed", None, "running")
        turn = OpenTurn(id=self.new_id(), message=self.new_id(), origin=origin, started_at=self._at)
        self._runs.open(turn)
        self.forced = ""
        return turn

    def turn(self) -> OpenTurn:
        """The open turn; content that comes without one opens one of the backend's own (3.17)."""
        turn = self.state.turn
        if turn is None:
            turn = self._open()
            self._running()
        return turn

    def _running(self) -> None:
        if self.state.status != "running":
            self.emit(StatusChanged(status="running"))
        turn = self.state.turn
        if not self.tells_model_turns and turn is not None and turn.model_turn is None:
            self.emit(ModelTurnStarted(index=self.next_model_turn()))

    def next_model_turn(self) -> int | None:
        """The number of one that we say ourselves: projections come and go. None where the backend numbers its own."""
        if self.tells_model_turns:
            return None
        self.model_turns += 1
        return self.model_turns - 1

    def _discard(self, event: Event) -> bool:
        if isinstance(event, TurnEnded) or (isinstance(event, StatusChanged) and event.status != "running"):
            self.discarding = False
            return True
        if type(event) not in _OF_A_TURN:
            return False
        if isinstance(event, ApprovalRequested | InteractionRequired):
            self.unwanted.append(event)
        self.lose(event, "after the turn was cancelled for its client")
        return True

    # -- what else belongs to a turn -----------------------------------------------------------------

    def _alert(self, event: Alert) -> None:
        if event not in self.state.alerts:  # a pod says all of its alerts again to whoever connects again
            self.emit(event)

    def _gap(self, event: Gap) -> None:
        self.losses.append(Loss(kind="Gap", why=event.text, count=max(1, event.count)))
        if event.context:
            self.state.epoch += 1  # what the log says from here on does not follow from what it said (3.15)
        self.emit(event)

    def _content(self, event: Event) -> None:
        self.turn()
        self.emit(event)

    def _message(self, event: MessageAppended) -> None:
        message = event.message
        if not message.id or not message.at:
            seen = structs.replace(message, id=message.id or self.new_id(), at=message.at or self._at)
            event = structs.replace(event, message=seen)
        self.emit(event)

    def _history(self, event: HistorySnapshot) -> None:
        if self._tells_calls or not self.state.transcript:
            self.emit(renew(event, self.state, self.new_id))
        elif (items := fold_in(event.items, self.state.transcript, self.new_id)) is not None:
            self.emit(structs.replace(event, items=tuple(items)))


def _goes_on(event: Event) -> bool:
    """Whether an event shows that the turn waits for no answer any more."""
    return type(event) in _GOES_ON or (isinstance(event, StatusChanged) and event.status != "running")


_GOES_ON = frozenset({
    ModelTurnStarted, TextDelta, TextDone, ReasoningStarted, ReasoningDelta, ReasoningDone, Preamble, ToolCallFinished,
    TurnResult,
})  # fmt: skip

_CONTENT = (
    Preamble, ToolOutputDelta, StateSnapshot, UsageReported, ModelTurnStarted, ModelTurnEnded, ModelCallStarted,
    ModelCallEnded, ModelRetry, ModelContinuation,
)  # fmt: skip

_HANDLERS: dict[type, Callable[[NormalForm, Any], None]] = {
    TextDelta: blocks.text_delta,
    TextDone: blocks.text_done,
    ReasoningStarted: blocks.reasoning_started,
    ReasoningDelta: blocks.reasoning_delta,
    ReasoningDone: blocks.reasoning_done,
    ToolCallStarted: calls.started,
    ToolCallArguments: calls.arguments,
    ToolCallFinished: calls.finished,
    ApprovalRequested: questions.asked,
    InteractionRequired: questions.asked,
    ApprovalResolved: questions.resolved,
    InteractionResolved: questions.resolved,
    OtpRequired: questions.code_wanted,
    OtpSent: questions.code_sent,
    MessageAppended: NormalForm._message,
    HistorySnapshot: NormalForm._history,
    TurnResult: ends.result,
    StatusChanged: ends.status,
    TurnEnded: ends.ended,
    Alert: NormalForm._alert,
    Gap: NormalForm._gap,
    **dict.fromkeys(_CONTENT, NormalForm._content),
}

_OF_A_TURN = frozenset(_HANDLERS) - {MessageAppended, HistorySnapshot, StatusChanged, Alert, Gap} | {ErrorReported}
