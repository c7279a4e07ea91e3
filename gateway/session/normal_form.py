"""The normal form of a turn (docs/design.md, section 3; docs/translation.md, rules 3.6, 3.7, 3.17).

Each message of a backend is mapped without a context. This module adds what the backend left out, so that every dialect
can rely on it:

    turn        opened by our own accepted input or by the backend's content
    its end     TurnResult, StatusChanged and exactly one TurnEnded (end_form.py)
    blocks      text and reasoning are closed with their full text (content.py)
    tool calls  have complete arguments before their result (content.py)
    question    has an id, is also put in words, and is closed before its turn ends (question_form.py)

Only tool calls may come while a question is open: a backend with several calls at once may report the earlier ones
late. A result closes the question if an answer was sent to the backend. Any other content shows that the backend does
not wait any more, and the question is closed as denied (docs/translation.md, rule 3.3).

Pure: events in, runs of events out, each run within one turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, get_args

from msgspec import structs

from dragoman.gateway.session.addition import add_listed
from dragoman.gateway.session.content import Content
from dragoman.gateway.session.end_form import EndForm
from dragoman.gateway.session.fold import take_back_ended
from dragoman.gateway.session.history import renew, without_cut_off, without_unstored
from dragoman.gateway.session.question_form import Given, QuestionForm
from dragoman.gateway.session.runs import Run, Runs
from dragoman.gateway.session.stored_messages import fold_in
from dragoman.gateway.session.turn_states import Trigger, TurnState
from dragoman.mappings.canonical import Event, SessionState, events
from dragoman.mappings.canonical.state import Question
from dragoman.mappings.canonical.values import End, Failure, Message, Origin, is_chat_message
from dragoman.mappings.dialect import NewId
from dragoman.mappings.handlers import Handlers, handler

_OPENS_A_TURN = frozenset(kind for kind in get_args(Event) if kind.of_a_turn) - {events.ErrorReported}

# The method for each type of event, by the part that has it; `NormalForm._HANDLERS` has its own methods. An event of
# any other type is emitted as it is.

_CONTENT: Handlers[Content, [], None] = dict(
    [
        handler(events.TextDelta, Content.text_delta),
        handler(events.TextDone, Content.text_done),
        handler(events.ReasoningStarted, Content.reasoning_started),
        handler(events.ReasoningDelta, Content.reasoning_delta),
        handler(events.ReasoningDone, Content.reasoning_done),
        handler(events.ToolCallStarted, Content.call_started),
        handler(events.ToolCallArguments, Content.call_arguments),
        handler(events.ModelContinuation, Content.model_continued),
        handler(events.ModelTurnStarted, Content.model_turn_started),
        handler(events.ModelTurnEnded, Content.model_turn_ended),
    ]
)
_QUESTIONS: Handlers[QuestionForm, [], None] = dict(
    [
        handler(events.ApprovalRequested, QuestionForm.open_question),
        handler(events.InteractionRequired, QuestionForm.open_question),
        handler(events.ApprovalResolved, QuestionForm.resolve_question),
        handler(events.InteractionResolved, QuestionForm.resolve_question),
        handler(events.OtpRequired, QuestionForm.code_wanted),
        handler(events.OtpSent, QuestionForm.code_sent),
    ]
)
_END: Handlers[EndForm, [], None] = dict(
    [
        handler(events.TurnResult, EndForm.result),
        handler(events.StatusChanged, EndForm.status),
        handler(events.TurnEnded, EndForm.end_turn),
    ]
)


class NormalForm:
    """Normalises one session's events, and folds them into its state as they are emitted."""

    __slots__ = (
        "_content",
        "_end",
        "_lists_calls",
        "_runs",
        "_state",
        "losses",
        "questions",
        "states",
        "unwanted",
    )

    def __init__(
        self,
        state: SessionState,
        new_id: NewId,
        *,
        sends_model_turns: bool = True,
        lists_calls: bool = True,
        puts_in_words: Callable[[Question], bool] = lambda _question: True,
        given: Callable[[], Given | None] = lambda: None,
    ) -> None:
        self._state = state
        self._runs = runs = Runs(state, new_id, sends_model_turns=sends_model_turns)
        self._content = content = Content(runs)
        self.questions = QuestionForm(runs, content, puts_in_words, given)
        self._end = EndForm(runs, content, self.questions)
        self.states = runs.states
        self.losses = runs.losses
        self._lists_calls = lists_calls  # False if histories have only messages: they are merged
        self.unwanted: list[Question] = []
        """Questions of a turn that has ended for its clients, so that they will get no answer."""

    @property
    def last_model_turn(self) -> int:
        """The index of the model turn that began last, 0 before the first one."""
        return self._runs.last_model_turn

    def feed(self, events: Sequence[Event], at: int) -> list[Run]:
        """Normalise the `events` of a backend at the time `at` (ns)."""
        self._runs.begin(at)
        for event in events:
            if self._runs.states.turn is TurnState.DISCARDED and self._discard(event):
                continue
            if self._runs.states.turn is TurnState.PARKED and _goes_on(event):
                self.questions.close_question()
            kind = type(event)
            if kind in _CONTENT:
                _CONTENT[kind](self._content, event)
            elif kind in _QUESTIONS:
                _QUESTIONS[kind](self.questions, event)
            elif kind in _END:
                _END[kind](self._end, event)
            elif kind in self._HANDLERS:
                self._HANDLERS[kind](self, event)
            else:
                if kind in _OPENS_A_TURN:
                    self._runs.require_turn()
                self._runs.emit(event)
        return self._runs.finish()

    def accept(self, origin: Origin, message: Message, at: int) -> list[Run]:
        """Begin the turn of an input that the backend has accepted, or assign the open turn to that input."""
        self._runs.begin(at)
        turn = self._state.turn
        if turn is not None and not turn.accepted and not turn.origin.link:
            turn.origin = origin
            self._runs.split()
        else:
            if turn is not None:  # turns do not nest: the end of the old one was lost
                self._end.finish(turn, "completed", None, "running")
            self._runs.open_turn(origin)
        self._runs.emit(events.TurnAccepted(request=origin.request))
        self._runs.emit(
            events.MessageAppended(message=structs.replace(message, id=message.id or self._runs.new_id(), at=at))
        )
        self._runs.emit_running()
        return self._runs.finish()

    def cut(self, end: End, failure: Failure | None, at: int, *, discard: bool = False) -> list[Run]:
        """End the open turn without its backend; with `discard` further events of it are dropped and counted."""
        self._runs.begin(at)
        turn = self._state.turn
        if turn is not None:
            if discard and turn.question is not None:
                self.unwanted.append(turn.question.asked)  # the backend still waits for an answer
            if discard:
                self._runs.states.on(Trigger.CUT)
            self._end.finish(turn, end, failure, "idle")
        elif failure is not None and self._state.status == "running":  # a run of which no event came yet
            self._runs.emit(events.ErrorReported(cause=failure.cause, text=failure.text, ext=failure.ext))
            self._runs.emit(events.StatusChanged(status="idle"))
        return self._runs.finish()

    def _discard(self, event: Event) -> bool:
        """Return True if an event belongs to a turn that has ended for the clients, so that it is dropped."""
        if isinstance(event, events.TurnEnded) or (
            isinstance(event, events.StatusChanged) and event.status != "running"
        ):
            self._runs.states.on(Trigger.RAN_OUT)
            return True
        if not event.of_a_turn:
            return False
        if isinstance(event, Question):
            self.unwanted.append(event)
        elif isinstance(event, events.TurnResult) and event.end == "rolled_back":
            take_back_ended(self._state)
        self._runs.lose(event, "after the turn was cancelled for its client")
        return True

    # -- what else is said ---------------------------------------------------------------------------------

    def _alert(self, event: events.Alert) -> None:
        if event not in self._state.alerts:  # a pod repeats all of its alerts on each connection
            self._runs.emit(event)

    def _gap(self, event: events.Gap) -> None:
        self._runs.emit_gap(event)

    def _call_finished(self, event: events.ToolCallFinished) -> None:
        self.questions.close_answered()
        self._content.call_finished(event)

    def _message(self, event: events.MessageAppended) -> None:
        message = event.message
        if not message.id or not message.at:
            seen = structs.replace(message, id=message.id or self._runs.new_id(), at=message.at or self._runs.at)
            event = structs.replace(event, message=seen)
        self._runs.emit(event)

    def _history(self, event: events.HistorySnapshot) -> None:
        known, is_list = self._state.transcript, event.status is None and not event.rotated
        if known and is_list:
            add = add_listed if self._lists_calls else fold_in
            items = add(event.items, known, self._runs.new_id)
            renewed = structs.replace(event, items=tuple(known if items is None else items))
        else:
            renewed = renew(event, self._state, self._runs.new_id)
        # An input of another client has no turn yet. A list that was asked for before it, or a rotation, may lack it.
        is_settled = self._state.fresh == len(known) if is_list else not event.rotated
        if known and self._state.turn is None and is_settled:
            renewed = without_unstored(renewed, event.items)
        if not is_list or (without_cut_off(self._state, event.items) and is_chat_message(event.items[-1], "assistant")):
            self._state.cut_off = ""  # the history has its run
        if not is_list or [*renewed.items] != known:
            self._runs.emit(renewed)

    _HANDLERS: ClassVar[Handlers[NormalForm, [], None]] = dict(
        [
            handler(events.ToolCallFinished, _call_finished),
            handler(events.MessageAppended, _message),
            handler(events.HistorySnapshot, _history),
            handler(events.Alert, _alert),
            handler(events.Gap, _gap),
        ]
    )


def _goes_on(event: Event) -> bool:
    """Return True if an event shows that the turn no longer waits for an answer."""
    return type(event) in _GOES_ON or (isinstance(event, events.StatusChanged) and event.status != "running")


_ANSWERS = {events.ApprovalResolved, events.InteractionResolved}
_GOES_ON = frozenset(kind for kind in _OPENS_A_TURN if not kind.comes_while_parked) - _ANSWERS
