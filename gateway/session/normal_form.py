"""The normal form of a turn (docs/design.md, section 3; docs/translation.md, rules 3.6, 3.7, 3.17).

Each message maps by itself to what it says. This module adds what its backend left out, so that every dialect can
rely on it:

    turn        opened by our own accepted input or by the backend's content; ends with TurnResult, StatusChanged
                and exactly one TurnEnded
    blocks      text and reasoning are closed with their full text
    tool calls  have complete arguments before their result
    question    has an id, is put in words beside the backend's own form, and is over before its turn ends

Only the call that waits for the answer may come while a question is open. Any other content shows that the backend
asks no more, and the question is closed as denied (docs/translation.md, rule 3.3).

Pure: events in, runs of events out, each run within one turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from msgspec import Struct, structs

from dragoman.gateway.session import wording
from dragoman.gateway.session.content import Content
from dragoman.gateway.session.history import fold_in, renew
from dragoman.gateway.session.runs import Run, Runs
from dragoman.gateway.session.turn_states import Trigger, TurnState
from dragoman.mappings.canonical import Event, OpenTurn, SessionState, events
from dragoman.mappings.canonical.state import Question, ReasoningBlock, Resolution, TextBlock
from dragoman.mappings.canonical.values import End, Failure, Message, Origin, Segment, Status
from dragoman.mappings.dialect import NewId


class Given(Struct, frozen=True, kw_only=True):
    """An answer to a question. With typed `segments` the turn goes on as a run of the link in `origin`."""

    resolved: Resolution
    segments: tuple[Segment, ...] = ()
    origin: Origin | None = None


def denied(asked: Question) -> Resolution:
    """Return the event that closes a question which nobody answered."""
    if isinstance(asked, events.ApprovalRequested):
        return events.ApprovalResolved(question=asked.question, approved=False)
    return events.InteractionResolved(question=asked.question, declined=True)


_CONTENT = (
    events.Preamble,
    events.ToolOutputDelta,
    events.StateSnapshot,
    events.UsageReported,
    events.ModelTurnStarted,
    events.ModelTurnEnded,
    events.ModelCallStarted,
    events.ModelCallEnded,
    events.ModelRetry,
)


class QuestionForm:
    """Brings questions into their normal form.

    `puts_in_words` returns True if clients without a form for a question are asked in words; else the route answers
    for them. `given` returns the answer that is on its way to the backend, which may go on before it confirms it.
    """

    __slots__ = ("_content", "_given", "_puts_in_words", "_runs", "_state")

    def __init__(
        self, runs: Runs, content: Content, puts_in_words: Callable[[Question], bool], given: Callable[[], Given | None]
    ) -> None:
        self._runs = runs
        self._state = runs.state
        self._content = content
        self._puts_in_words = puts_in_words
        self._given = given

    # -- what the session knows of a question ------------------------------------------------------------

    def answered(self, given: Given, at: int) -> list[Run]:
        """Answer the open question."""
        self._runs.begin(at)
        self._answer(given)
        return self._runs.finish()

    def asked_again(self, text: str, at: int, *, segments: tuple[Segment, ...], origin: Origin) -> list[Run]:
        """Ask the open question again by `text`, the next field or the same once more, after `segments` were typed."""
        self._runs.begin(at)
        turn = self._state.turn
        if turn is not None and turn.question is not None and turn.question.words is not None:
            self._begin_run(origin)
            self._runs.emit(self._answer_to(turn.question.words, segments))
            self._put(turn.question.asked, text, turn)
        return self._runs.finish()

    def noted(self, text: str, at: int, *, segments: tuple[Segment, ...]) -> list[Run]:
        """Answer typed `segments` with `text` outside of any turn: a run of its own that is over at once."""
        self._runs.begin(at)
        self._note(text, segments)
        return self._runs.finish()

    # -- what the backend says ---------------------------------------------------------------------------

    def asked(self, event: Question) -> None:
        """Park the turn by a question; a further question replaces it."""
        turn = self._runs.require_turn()
        self.close()
        self._content.close_block()
        event = event if event.question else structs.replace(event, question=self._runs.new_id())
        self._runs.states.on(Trigger.ASKED)
        self._runs.emit(event)
        if self._puts_in_words(event):
            self._put(event, wording.in_words(event), turn)

    def resolved(self, event: Resolution) -> None:
        """Close the question as the backend told."""
        turn = self._state.turn
        if turn is None or turn.question is None:
            self._runs.lose(event, "no question is open")
        else:
            self._close_question(structs.replace(event, question=turn.question.asked.question), ())

    def close(self) -> None:
        """Close an open question by the answer that is on its way, else as denied: the backend no longer waits."""
        turn = self._state.turn
        if turn is not None and turn.question is not None:
            self._answer(self._given() or Given(resolved=denied(turn.question.asked)))

    def code_wanted(self, event: events.OtpRequired) -> None:
        """Ask for a one-time code. The turn is not parked, it goes on to its end."""
        turn = self._runs.require_turn()
        self._content.close_block()
        self._runs.emit(event)
        self._runs.emit(events.QuestionAsked(text=wording.code_wanted(event), after_text=turn.spoke))

    def code_sent(self, event: events.OtpSent) -> None:
        """Say that a one-time code is on its way."""
        turn = self._state.turn
        if turn is not None:
            self._content.close_block()
            self._runs.emit(event)
            self._runs.emit(events.QuestionAsked(text=wording.code_sent(event), after_text=turn.spoke))
        else:
            self._runs.emit(event)
            self._note(wording.code_sent(event), ())

    # ----------------------------------------------------------------------------------------------------

    def _answer(self, given: Given) -> None:
        self._begin_run(given.origin)
        self._close_question(given.resolved, given.segments)

    def _note(self, text: str, segments: tuple[Segment, ...]) -> None:
        self._runs.emit(events.QuestionAnswered(model_turn=self._runs.next_model_turn(), segments=segments))
        self._runs.emit(events.QuestionAsked(text=text))

    def _put(self, asked: Question, text: str, turn: OpenTurn) -> None:
        """Ask the open question in words."""
        kind = asked.kind if isinstance(asked, events.InteractionRequired) else ""
        words = events.QuestionAsked(
            question=asked.question,
            kind=kind,
            text=text,
            before=turn.text(),
            number=turn.asked + 1,
            parked=True,
            after_text=turn.spoke,
        )
        self._runs.emit(words)
        self._runs.split()  # a question ends its batch, so that a client in words is shown nothing behind it

    def _begin_run(self, origin: Origin | None) -> None:
        turn = self._state.turn
        if origin is not None and turn is not None:
            turn.origin = origin
            self._runs.split()
            self._runs.emit(events.TurnAccepted(request=origin.request))

    def _close_question(self, event: Resolution, segments: tuple[Segment, ...]) -> None:
        turn = self._state.turn
        if turn is None or turn.question is None:
            return
        words = turn.question.words
        self._runs.states.on(Trigger.ANSWERED)
        self._runs.emit(event)
        if words is not None:
            self._runs.emit(self._answer_to(words, segments))

    def _answer_to(self, words: events.QuestionAsked, segments: tuple[Segment, ...]) -> events.QuestionAnswered:
        return events.QuestionAnswered(
            question=words.question,
            kind=words.kind,
            before=words.before,
            number=words.number,
            model_turn=self._runs.next_model_turn(),
            segments=segments,
        )


class NormalForm:
    """Normalises one session's events, and folds them into its state as they are emitted."""

    __slots__ = (
        "_content",
        "_runs",
        "_state",
        "_tells_calls",
        "losses",
        "next_model_turn",
        "questions",
        "states",
        "unwanted",
    )

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
        self._state = state
        self._runs = runs = Runs(state, new_id, tells_model_turns=tells_model_turns)
        self._content = content = Content(runs)
        self.questions = QuestionForm(runs, content, puts_in_words, given)
        self.states = runs.states
        self.losses = runs.losses
        self.next_model_turn = runs.next_model_turn
        self._tells_calls = tells_calls  # False if the backend's history has messages alone: it is folded into ours
        self.unwanted: list[Question] = []
        """Questions that were asked in a turn which is over for its clients: nobody will answer them."""

    def feed(self, events: Sequence[Event], at: int) -> list[Run]:
        """Normalise the `events` of a backend at the time `at` (ns)."""
        self._runs.begin(at)
        for event in events:
            if self._runs.states.turn is TurnState.DISCARDED and self._discard(event):
                continue
            if self._runs.states.turn is TurnState.PARKED and _goes_on(event):
                self.questions.close()
            handler = self._HANDLERS.get(type(event))
            if handler is None:
                self._runs.emit(event)
            else:
                part, handle = handler
                handle(getattr(self, part) if part else self, event)
        return self._runs.finish()

    def accept(self, origin: Origin, message: Message, at: int) -> list[Run]:
        """Begin the turn of an input that the backend took, or learn that the open turn is its own."""
        self._runs.begin(at)
        turn = self._state.turn
        if turn is not None and not turn.accepted and not turn.origin.link:
            turn.origin = origin
            self._runs.split()
        else:
            if turn is not None:  # a new turn cannot begin inside another: the old one lost its end
                self._finish_turn("completed", None, "running")
            self._runs.open_turn(origin)
        self._runs.emit(events.TurnAccepted(request=origin.request))
        self._runs.emit(
            events.MessageAppended(message=structs.replace(message, id=message.id or self._runs.new_id(), at=at))
        )
        self._runs.say_running()
        return self._runs.finish()

    def cut(self, end: End, failure: Failure | None, at: int, *, discard: bool = False) -> list[Run]:
        """End the open turn without its backend; with `discard` further events of it are dropped and counted."""
        self._runs.begin(at)
        turn = self._state.turn
        if turn is not None:
            if discard and turn.question is not None:
                self.unwanted.append(turn.question.asked)  # its backend still waits
            if discard:
                self._runs.states.on(Trigger.CUT)
            self._finish_turn(end, failure, "idle")
        elif failure is not None and self._state.status == "running":  # a run of which nothing was heard yet
            self._runs.emit(events.ErrorReported(cause=failure.cause, text=failure.text, ext=failure.ext))
            self._runs.emit(events.StatusChanged(status="idle"))
        return self._runs.finish()

    def _discard(self, event: Event) -> bool:
        """Return True if an event belongs to the turn that is over for its clients; it goes nowhere."""
        if isinstance(event, events.TurnEnded) or (
            isinstance(event, events.StatusChanged) and event.status != "running"
        ):
            self._runs.states.on(Trigger.RAN_OUT)
            return True
        if not event.of_a_turn:
            return False
        if isinstance(event, Question):
            self.unwanted.append(event)
        self._runs.lose(event, "after the turn was cancelled for its client")
        return True

    # -- the end of a turn -------------------------------------------------------------------------------

    def _result(self, event: events.TurnResult) -> None:
        """Close every block and call: the output is over."""
        self._close_everything(event.end)
        self._runs.emit(event)

    def _status(self, event: events.StatusChanged) -> None:
        """Tell that the backend runs, or end the open turn because it has stopped."""
        turn = self._state.turn
        if turn is None:
            self._runs.emit(event)
        elif event.status == "running":
            if self._state.status != "running":
                self._runs.emit(event)
        else:
            end, failure = _verdict(turn, event.status)
            self._finish_turn(end, failure, event.status, said_status=event)

    def _ended(self, event: events.TurnEnded) -> None:
        """End the turn as the backend told."""
        turn = self._runs.require_turn()
        if event.text and not turn.text().endswith(event.text):
            self._final_text(turn, event.text)
        status: Status = "paused" if event.end == "paused" else "idle"
        self._finish_turn(event.end, event.failure, status, said_end=event)

    def _final_text(self, turn: OpenTurn, text: str) -> None:
        """Send the text that the whole text of a turn has beyond its deltas; report a Gap if they contradict."""
        sent = turn.text()
        if text.startswith(sent):
            if type(turn.open) is ReasoningBlock:
                self._content.close_block()
            self._runs.emit(events.TextDelta(text=text[len(sent) :]))
            return
        self._runs.tell_gap(events.Gap(text="the final text contradicts what was streamed of it"))
        if type(turn.open) is TextBlock:
            before = sent.removesuffix("".join(turn.open.parts))
            if text.startswith(before):
                self._runs.emit(events.TextDone(text=text[len(before) :]))

    def _finish_turn(
        self,
        end: End,
        failure: Failure | None,
        status: Status,
        *,
        said_status: events.StatusChanged | None = None,
        said_end: events.TurnEnded | None = None,
    ) -> None:
        """End the open turn, in its one order; `said_status` and `said_end` are the backend's own events."""
        turn = self._state.turn
        if turn is None:
            return
        self.questions.close()
        used = said_end.usage if said_end is not None and turn.usage is None else None
        if used is not None and turn.result is None:  # usage stands between the last text and the end of the output
            self._content.close_block()
            self._runs.emit(events.UsageReported(usage=used))
        self._close_everything(end)
        failure = self._tell_failure(turn, end, failure)
        if turn.result is None:
            self._runs.emit(events.TurnResult(end=end))
        if said_status is not None or self._state.status != status:
            self._runs.emit(said_status or events.StatusChanged(status=status))
        terminal = said_end or events.TurnEnded(end=end)
        self._runs.end_turn(
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
            self._runs.emit(events.ModelTurnStarted(index=self._runs.next_model_turn()))
        if end == "failed" and failure is None and not turn.errors:  # in every dialect a failure has a cause
            failure = Failure(cause="internal", text="the turn failed")
        if failure is not None and not any(
            (error.cause, error.text) == (failure.cause, failure.text) for error in turn.errors
        ):
            self._runs.emit(events.ErrorReported(cause=failure.cause, text=failure.text, ext=failure.ext))
        return failure

    def _close_everything(self, end: End) -> None:
        """Close the blocks and calls of the turn, and its model turn if the output is complete
        (docs/translation.md, rule 4.3).
        """
        turn = self._state.turn
        if turn is None:
            return
        self._content.close_block()
        for block in turn.calls.values():
            self._content.complete(block)
        if end == "completed" and turn.in_model_turn and turn.model_turn is not None:
            self._runs.emit(events.ModelTurnEnded(index=self._runs.last_model_turn(turn.model_turn)))

    # -- what else is said ---------------------------------------------------------------------------------

    def _alert(self, event: events.Alert) -> None:
        if event not in self._state.alerts:  # a pod says all of its alerts again to whoever connects again
            self._runs.emit(event)

    def _other_content(self, event: Event) -> None:
        self._runs.require_turn()
        self._runs.emit(event)

    def _message(self, event: events.MessageAppended) -> None:
        message = event.message
        if not message.id or not message.at:
            seen = structs.replace(message, id=message.id or self._runs.new_id(), at=message.at or self._runs.at)
            event = structs.replace(event, message=seen)
        self._runs.emit(event)

    def _history(self, event: events.HistorySnapshot) -> None:
        if self._tells_calls or not self._state.transcript:
            self._runs.emit(renew(event, self._state, self._runs.new_id))
        elif (items := fold_in(event.items, self._state.transcript, self._runs.new_id)) is not None:
            self._runs.emit(structs.replace(event, items=tuple(items)))

    _HANDLERS: ClassVar[dict[type, tuple[str, Callable[[Any, Any], None]]]] = {
        events.TextDelta: ("_content", Content.text_delta),
        events.TextDone: ("_content", Content.text_done),
        events.ReasoningStarted: ("_content", Content.reasoning_started),
        events.ReasoningDelta: ("_content", Content.reasoning_delta),
        events.ReasoningDone: ("_content", Content.reasoning_done),
        events.ToolCallStarted: ("_content", Content.call_started),
        events.ToolCallArguments: ("_content", Content.call_arguments),
        events.ToolCallFinished: ("_content", Content.call_finished),
        events.ModelContinuation: ("_content", Content.model_continued),
        events.ApprovalRequested: ("questions", QuestionForm.asked),
        events.InteractionRequired: ("questions", QuestionForm.asked),
        events.ApprovalResolved: ("questions", QuestionForm.resolved),
        events.InteractionResolved: ("questions", QuestionForm.resolved),
        events.OtpRequired: ("questions", QuestionForm.code_wanted),
        events.OtpSent: ("questions", QuestionForm.code_sent),
        events.MessageAppended: ("", _message),
        events.HistorySnapshot: ("", _history),
        events.TurnResult: ("", _result),
        events.StatusChanged: ("", _status),
        events.TurnEnded: ("", _ended),
        events.Alert: ("", _alert),
        events.Gap: ("_runs", Runs.tell_gap),
        **dict.fromkeys(_CONTENT, ("", _other_content)),
    }
    """The part and its method for each type of event that is not just emitted; "" is the normal form itself."""


def _verdict(turn: OpenTurn, status: Status) -> tuple[End, Failure | None]:
    """Return how a turn ended if its backend only tells an idle status: by its result, else its error (3.6)."""
    if turn.result is not None and turn.result != "failed":
        return turn.result, None
    if turn.errors:
        error = turn.errors[-1]
        return "failed", Failure(cause=error.cause, text=error.text, ext=error.ext)
    if turn.result == "failed":
        return "failed", Failure(cause="internal", text="the turn failed, and the backend gave no reason")
    return ("paused" if status == "paused" else "completed"), None


def _goes_on(event: Event) -> bool:
    """Return True if an event shows that the turn no longer waits for an answer."""
    return type(event) in _GOES_ON or (isinstance(event, events.StatusChanged) and event.status != "running")


_GOES_ON = frozenset(
    {
        events.ModelTurnStarted,
        events.TextDelta,
        events.TextDone,
        events.ReasoningStarted,
        events.ReasoningDelta,
        events.ReasoningDone,
        events.Preamble,
        events.ToolCallFinished,
        events.TurnResult,
    }
)
