"""The normal form of a turn (docs/design.md, section 3; docs/translation.md, rules 3.6, 3.7, 3.17).

Each message maps by itself to what it says; this module adds what its backend did not say, so that every dialect can
rely on it: a turn is opened by our own accepted input or by the backend's content, its text and reasoning blocks are
closed with their full text, its tool calls have complete arguments before their result, and it ends with TurnResult,
StatusChanged and exactly one TurnEnded. Pure: events in, runs of events out, each run within one turn.

A question has an id, is put in words beside the backend's own form, and is over before its turn is. Nothing but the
call that waits for the answer may come while one is open: whatever else its backend says shows that it asks no more,
and the question is closed as denied (docs/translation.md, rule 3.3).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct, structs

from dragoman.gateway.session import wording
from dragoman.gateway.session.content import Content
from dragoman.gateway.session.history import renew
from dragoman.gateway.session.merging import fold_in
from dragoman.gateway.session.runs import Run
from dragoman.gateway.session.turn_states import Trigger, TurnState
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
    QuestionAnswered,
    QuestionAsked,
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
from dragoman.mappings.canonical.state import ReasoningBlock, TextBlock
from dragoman.mappings.canonical.values import End, Failure, Message, Origin, Segment, Status
from dragoman.mappings.dialect import NewId

__all__ = ["Given", "NormalForm", "denied"]

Question = ApprovalRequested | InteractionRequired
Resolved = ApprovalResolved | InteractionResolved


class Given(Struct, frozen=True, kw_only=True):
    """An answer, and what it makes of the question.

    By typed `segments` the turn goes on as a run of the link in `origin`.
    """

    resolved: Resolved
    segments: tuple[Segment, ...] = ()
    origin: Origin | None = None


def denied(asked: Question) -> Resolved:
    """Return what becomes of a question that nobody answered."""
    if isinstance(asked, ApprovalRequested):
        return ApprovalResolved(question=asked.question, approved=False)
    return InteractionResolved(question=asked.question, declined=True)


class QuestionForm(Content):
    """Brings questions into their normal form.

    `puts_in_words` returns True if clients without a form for a question are asked in words; else the route answers
    for them. `given` returns the answer that is on its way to the backend, which may go on before it says that it took
    it.
    """

    def __init__(
        self,
        state: SessionState,
        new_id: NewId,
        *,
        tells_model_turns: bool,
        puts_in_words: Callable[[Question], bool],
        given: Callable[[], Given | None],
    ) -> None:
        super().__init__(state, new_id, tells_model_turns=tells_model_turns)
        self._puts_in_words = puts_in_words
        self._given = given

    # -- what the session knows of a question ------------------------------------------------------------

    def answered(self, given: Given, at: int) -> list[Run]:
        """Answer the open question."""
        self.begin(at)
        self._answer(given)
        return self.finish()

    def asked_again(self, text: str, at: int, *, segments: tuple[Segment, ...], origin: Origin) -> list[Run]:
        """Go on with the open question by `text`, the next field or the same once more, as `segments` were typed."""
        self.begin(at)
        turn = self.state.turn
        if turn is not None and turn.question is not None and turn.question.words is not None:
            self._begin_run(origin)
            self.emit(self._answer_to(turn.question.words, segments))
            self._put(turn.question.asked, text, turn)
        return self.finish()

    def noted(self, text: str, at: int, *, segments: tuple[Segment, ...]) -> list[Run]:
        """Answer typed `segments` with `text` outside of any turn: a run of its own that is over at once."""
        self.begin(at)
        self._note(text, segments)
        return self.finish()

    # -- what the backend says ---------------------------------------------------------------------------

    def _asked(self, event: Question) -> None:
        """Park the turn by a question; a further one takes the place of the one before."""
        turn = self._turn()
        self._question_over()
        self._close_block()
        event = event if event.question else structs.replace(event, question=self._new_id())
        self.states.on(Trigger.ASKED)
        self.emit(event)
        if self._puts_in_words(event):
            self._put(event, wording.in_words(event), turn)

    def _resolved(self, event: Resolved) -> None:
        """Close the question as the backend says itself."""
        turn = self.state.turn
        if turn is None or turn.question is None:
            self._lose(event, "no question is open")
        else:
            self._close_question(structs.replace(event, question=turn.question.asked.question), ())

    def _question_over(self) -> None:
        """Close an open question by the answer that is on its way, else as denied: the backend waits no more."""
        turn = self.state.turn
        if turn is not None and turn.question is not None:
            self._answer(self._given() or Given(resolved=denied(turn.question.asked)))

    def _code_wanted(self, event: OtpRequired) -> None:
        """Ask for a one-time code: no park, the turn goes on to its end."""
        turn = self._turn()
        self._close_block()
        self.emit(event)
        self.emit(QuestionAsked(text=wording.code_wanted(event), after_text=turn.spoke))

    def _code_sent(self, event: OtpSent) -> None:
        """Say that a one-time code is on its way."""
        turn = self.state.turn
        if turn is not None:
            self._close_block()
            self.emit(event)
            self.emit(QuestionAsked(text=wording.code_sent(event), after_text=turn.spoke))
        else:
            self.emit(event)
            self._note(wording.code_sent(event), ())

    # ----------------------------------------------------------------------------------------------------

    def _answer(self, given: Given) -> None:
        self._begin_run(given.origin)
        self._close_question(given.resolved, given.segments)

    def _note(self, text: str, segments: tuple[Segment, ...]) -> None:
        self.emit(QuestionAnswered(model_turn=self.next_model_turn(), segments=segments))
        self.emit(QuestionAsked(text=text))

    def _put(self, asked: Question, text: str, turn: OpenTurn) -> None:
        """Ask in words."""
        kind = asked.kind if isinstance(asked, InteractionRequired) else ""
        words = QuestionAsked(
            question=asked.question,
            kind=kind,
            text=text,
            before=turn.text(),
            number=turn.asked + 1,
            parked=True,
            after_text=turn.spoke,
        )
        self.emit(words)
        self.split()  # it is the last of its batch: what its clients are not shown yet begins with the next

    def _begin_run(self, origin: Origin | None) -> None:
        turn = self.state.turn
        if origin is not None and turn is not None:
            turn.origin = origin
            self.split()
            self.emit(TurnAccepted(request=origin.request))

    def _close_question(self, event: Resolved, segments: tuple[Segment, ...]) -> None:
        turn = self.state.turn
        if turn is None or turn.question is None:
            return
        words = turn.question.words
        self.states.on(Trigger.ANSWERED)
        self.emit(event)
        if words is not None:
            self.emit(self._answer_to(words, segments))

    def _answer_to(self, words: QuestionAsked, segments: tuple[Segment, ...]) -> QuestionAnswered:
        return QuestionAnswered(
            question=words.question,
            kind=words.kind,
            before=words.before,
            number=words.number,
            model_turn=self.next_model_turn(),
            segments=segments,
        )


class NormalForm(QuestionForm):
    """Normalises one session's events and folds them into its state as they are emitted."""

    def __init__(
        self,
        state: SessionState,
        new_id: NewId,
        *,
        tells_model_turns: bool = True,
        tells_calls: bool = True,
        puts_in_words: Callable[[Question], bool] = lambda _question: True,
        given: Callable[[], Given | None] = lambda: None,
    ) -> None:
        super().__init__(state, new_id, tells_model_turns=tells_model_turns, puts_in_words=puts_in_words, given=given)
        self._tells_calls = tells_calls  # else a history has messages alone, and is folded into ours
        self.unwanted: list[Question] = []
        """Questions that were asked in a turn which is over for its clients: nobody will answer them."""

    def feed(self, events: Sequence[Event], at: int) -> list[Run]:
        """Normalise `events`, said at `at` (ns)."""
        self.begin(at)
        for event in events:
            if self.states.turn is TurnState.DISCARDED and self._discard(event):
                continue
            if self.states.turn is TurnState.PARKED and _goes_on(event):
                self._question_over()
            handler = _HANDLERS.get(type(event))
            if handler is None:
                self.emit(event)
            else:
                handler(self, event)
        return self.finish()

    def accept(self, origin: Origin, message: Message, at: int) -> list[Run]:
        """Begin the turn of an input that the backend took, or learn that the open turn is its own."""
        self.begin(at)
        turn = self.state.turn
        if turn is not None and not turn.accepted and not turn.origin.link:
            turn.origin = origin
            self.split()
        else:
            if turn is not None:  # a new turn cannot begin inside another: the old one lost its end
                self._finish_turn("completed", None, "running")
            self._open(origin)
        self.emit(TurnAccepted(request=origin.request))
        self.emit(MessageAppended(message=structs.replace(message, id=message.id or self._new_id(), at=at)))
        self._running()
        return self.finish()

    def cut(self, end: End, failure: Failure | None, at: int, *, discard: bool = False) -> list[Run]:
        """End the open turn ourselves; with `discard` its backend goes on, and what it says is dropped and counted."""
        self.begin(at)
        turn = self.state.turn
        if turn is not None:
            if discard and turn.question is not None:
                self.unwanted.append(turn.question.asked)  # its backend still waits
            if discard:
                self.states.on(Trigger.CUT)
            self._finish_turn(end, failure, "idle")
        elif failure is not None and self.state.status == "running":  # a run of which nothing was heard yet
            self.emit(ErrorReported(cause=failure.cause, text=failure.text, ext=failure.ext))
            self.emit(StatusChanged(status="idle"))
        return self.finish()

    def _discard(self, event: Event) -> bool:
        """Return True if an event belongs to the turn that is over for its clients; it goes nowhere."""
        if isinstance(event, TurnEnded) or (isinstance(event, StatusChanged) and event.status != "running"):
            self.states.on(Trigger.RAN_OUT)
            return True
        if not event.of_a_turn:
            return False
        if isinstance(event, ApprovalRequested | InteractionRequired):
            self.unwanted.append(event)
        self._lose(event, "after the turn was cancelled for its client")
        return True

    # -- the end of a turn -------------------------------------------------------------------------------

    def _result(self, event: TurnResult) -> None:
        """Close everything: the output is over."""
        self._close_everything(event.end)
        self.emit(event)

    def _status(self, event: StatusChanged) -> None:
        """Take note that the backend runs, or end the open turn because it runs no more."""
        turn = self.state.turn
        if turn is None:
            self.emit(event)
        elif event.status == "running":
            if self.state.status != "running":
                self.emit(event)
        else:
            end, failure = _verdict(turn, event.status)
            self._finish_turn(end, failure, event.status, said=event)

    def _ended(self, event: TurnEnded) -> None:
        """End the turn as the backend says itself."""
        turn = self._turn()
        if event.text and event.text != turn.text():
            self._final_text(turn, event.text)
        status: Status = "paused" if event.end == "paused" else "idle"
        self._finish_turn(event.end, event.failure, status, said_end=event)

    def _final_text(self, turn: OpenTurn, text: str) -> None:
        """Send what the whole text of a turn has beyond what was streamed; where both differ the whole is right."""
        sent = turn.text()
        if text.startswith(sent):
            if type(turn.open) is ReasoningBlock:
                self._close_block()
            self.emit(TextDelta(text=text[len(sent) :]))
            return
        self._tell_gap(Gap(text="the final text contradicts what was streamed of it"))
        if type(turn.open) is TextBlock:
            before = sent.removesuffix("".join(turn.open.parts))
            if text.startswith(before):
                self.emit(TextDone(text=text[len(before) :]))

    def _finish_turn(
        self,
        end: End,
        failure: Failure | None,
        status: Status,
        *,
        said: StatusChanged | None = None,
        said_end: TurnEnded | None = None,
    ) -> None:
        """End the open turn, in its one order; `said...` are the backend's own words, kept for their ext."""
        turn = self.state.turn
        if turn is None:
            return
        self._question_over()
        self._close_block()
        used = said_end.usage if said_end is not None and turn.usage is None else None
        if used is not None and turn.result is None:  # usage stands before the end of the output
            self.emit(UsageReported(usage=used))
        self._close_everything(end)
        failure = self._tell_failure(turn, end, failure)
        if turn.result is None:
            self.emit(TurnResult(end=end))
        if said is not None or self.state.status != status:
            self.emit(said or StatusChanged(status=status))
        terminal = said_end or TurnEnded(end=end)
        self.states.on(Trigger.ENDED)
        self.end(
            structs.replace(
                terminal,
                text=terminal.text or turn.text(),
                message=terminal.message or turn.message,
                usage=turn.usage or used,
                failure=failure,
            )
        )

    def _tell_failure(self, turn: OpenTurn, end: End, failure: Failure | None) -> Failure | None:
        """Report why the turn failed, unless it was reported, and return it."""
        if end == "failed" and turn.model_turn is None and not turn.errors:  # refused: for a pod's parent it began
            self.emit(ModelTurnStarted(index=self.next_model_turn()))
        if end == "failed" and failure is None and not turn.errors:  # in every dialect a failure has a cause
            failure = Failure(cause="internal", text="the turn failed")
        if failure is not None and not any(e.cause == failure.cause and e.text == failure.text for e in turn.errors):
            self.emit(ErrorReported(cause=failure.cause, text=failure.text, ext=failure.ext))
        return failure

    def _close_everything(self, end: End) -> None:
        """Close what is open in the turn; its model turn only where the output is complete
        (docs/translation.md, rule 4.3).
        """
        turn = self.state.turn
        if turn is None:
            return
        self._close_block()
        for block in turn.calls.values():
            self._complete(block)
        if end == "completed" and turn.in_model_turn and turn.model_turn is not None:
            index = turn.model_turn.index if self._tells_model_turns else self._model_turns - 1
            self.emit(ModelTurnEnded(index=index))

    # -- what else is said ---------------------------------------------------------------------------------

    def _alert(self, event: Alert) -> None:
        if event not in self.state.alerts:  # a pod says all of its alerts again to whoever connects again
            self.emit(event)

    def _other_content(self, event: Event) -> None:
        self._turn()
        self.emit(event)

    def _message(self, event: MessageAppended) -> None:
        message = event.message
        if not message.id or not message.at:
            seen = structs.replace(message, id=message.id or self._new_id(), at=message.at or self.at)
            event = structs.replace(event, message=seen)
        self.emit(event)

    def _history(self, event: HistorySnapshot) -> None:
        if self._tells_calls or not self.state.transcript:
            self.emit(renew(event, self.state, self._new_id))
        elif (items := fold_in(event.items, self.state.transcript, self._new_id)) is not None:
            self.emit(structs.replace(event, items=tuple(items)))


def _verdict(turn: OpenTurn, status: Status) -> tuple[End, Failure | None]:
    """Return how a turn ended whose backend only says that it runs no more: its result, else its error (3.6)."""
    if turn.result is not None and turn.result != "failed":
        return turn.result, None
    if turn.errors:
        error = turn.errors[-1]
        return "failed", Failure(cause=error.cause, text=error.text, ext=error.ext)
    if turn.result == "failed":
        return "failed", Failure(cause="internal", text="the backend said that the turn failed, not why")
    return ("paused" if status == "paused" else "completed"), None


def _goes_on(event: Event) -> bool:
    """Return True if an event shows that the turn waits for no answer any more."""
    return type(event) in _GOES_ON or (isinstance(event, StatusChanged) and event.status != "running")


_GOES_ON = frozenset(
    {
        ModelTurnStarted,
        TextDelta,
        TextDone,
        ReasoningStarted,
        ReasoningDelta,
        ReasoningDone,
        Preamble,
        ToolCallFinished,
        TurnResult,
    }
)

_CONTENT = (
    Preamble,
    ToolOutputDelta,
    StateSnapshot,
    UsageReported,
    ModelTurnStarted,
    ModelTurnEnded,
    ModelCallStarted,
    ModelCallEnded,
    ModelRetry,
    ModelContinuation,
)

_HANDLERS: dict[type, Callable[[NormalForm, Any], None]] = {
    TextDelta: NormalForm._text_delta,
    TextDone: NormalForm._text_done,
    ReasoningStarted: NormalForm._reasoning_started,
    ReasoningDelta: NormalForm._reasoning_delta,
    ReasoningDone: NormalForm._reasoning_done,
    ToolCallStarted: NormalForm._call_started,
    ToolCallArguments: NormalForm._call_arguments,
    ToolCallFinished: NormalForm._call_finished,
    ApprovalRequested: NormalForm._asked,
    InteractionRequired: NormalForm._asked,
    ApprovalResolved: NormalForm._resolved,
    InteractionResolved: NormalForm._resolved,
    OtpRequired: NormalForm._code_wanted,
    OtpSent: NormalForm._code_sent,
    MessageAppended: NormalForm._message,
    HistorySnapshot: NormalForm._history,
    TurnResult: NormalForm._result,
    StatusChanged: NormalForm._status,
    TurnEnded: NormalForm._ended,
    Alert: NormalForm._alert,
    Gap: NormalForm._tell_gap,
    **dict.fromkeys(_CONTENT, NormalForm._other_content),
}
