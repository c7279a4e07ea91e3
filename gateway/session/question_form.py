"""The normal form of a question: it has an id, is also put in words, and is closed before its turn ends
(docs/translation.md, rule 3.3).
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import UNSET, Struct, structs

from dragoman.gateway.session import wording
from dragoman.gateway.session.content import Content
from dragoman.gateway.session.runs import Run, Runs
from dragoman.gateway.session.turn_states import Trigger
from dragoman.mappings.canonical import OpenTurn, events
from dragoman.mappings.canonical.commands import Answer, AnswerApproval
from dragoman.mappings.canonical.state import Question, Resolution
from dragoman.mappings.canonical.values import Origin, Segment


class Given(Struct, frozen=True, kw_only=True):
    """An answer to a question.

    `giver` identifies its client (`_seat` in questions.py), None for the gateway. With typed `segments` the turn
    continues as a run of the link in `origin`.
    """

    resolved: Resolution
    giver: str | None = None
    segments: tuple[Segment, ...] = ()
    origin: Origin | None = None


def denied(asked: Question) -> Resolution:
    """Return the event that closes an unanswered question as denied."""
    if isinstance(asked, events.ApprovalRequested):
        return events.ApprovalResolved(question=asked.question, approved=False)
    return events.InteractionResolved(question=asked.question, declined=True)


def resolution_of(command: Answer) -> Resolution:
    """Return the event that closes a question which this command answers; a form without values is declined."""
    if isinstance(command, AnswerApproval):
        return events.ApprovalResolved(question=command.question, approved=command.approved)
    return events.InteractionResolved(question=command.question, declined=command.declined or command.values is UNSET)


class QuestionForm:
    """Brings questions into their normal form.

    `puts_in_words` returns True if clients without a form for a question are asked in words; else the route answers for
    them. `given` returns the answer that was sent to the backend and is not confirmed; the backend may continue before
    it confirms it.
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
        self._runs.begin(at)
        self._answer(given)
        return self._runs.finish()

    def asked_again(self, text: str, at: int, *, segments: tuple[Segment, ...], origin: Origin) -> list[Run]:
        """Ask the open question again by `text`, for the next or the same field, after a client typed `segments`."""
        self._runs.begin(at)
        turn = self._state.turn
        if turn is not None and turn.question is not None and turn.question.words is not None:
            self._begin_run(origin)
            self._runs.emit(self._answer_to(turn.question.words, segments))
            self._put(turn.question.asked, text, turn)
        return self._runs.finish()

    def noted(self, text: str, at: int, *, segments: tuple[Segment, ...]) -> list[Run]:
        """Answer typed `segments` with `text` outside of any turn, as a run that ends immediately."""
        self._runs.begin(at)
        self._note(text, segments)
        return self._runs.finish()

    # -- what the backend says ---------------------------------------------------------------------------

    def open_question(self, event: Question) -> None:
        """Park the turn by a question; a further question replaces it."""
        turn = self._runs.require_turn()
        self.close_question()
        self._content.close_block()
        event = event if event.question else structs.replace(event, question=self._runs.new_id())
        self._runs.states.on(Trigger.ASKED)
        self._runs.emit(event)
        if self._puts_in_words(event):
            self._put(event, wording.in_words(event), turn)

    def resolve_question(self, event: Resolution) -> None:
        """Close the question by the backend's event."""
        turn = self._state.turn
        if turn is None or turn.question is None:
            self._runs.lose(event, "no question is open")
        else:
            self._resolve(structs.replace(event, question=turn.question.asked.question), ())

    def close_question(self) -> None:
        """Close an open question, because the backend no longer waits: by the answer that was sent, else as denied."""
        turn = self._state.turn
        if turn is not None and turn.question is not None:
            self._answer(self._given() or Given(resolved=denied(turn.question.asked)))

    def close_answered(self) -> None:
        """Close an open question if an answer was sent, because the backend has accepted it."""
        if self._given() is not None:
            self.close_question()

    def code_wanted(self, event: events.OtpRequired) -> None:
        """Ask for a one-time code. The turn is not parked: it continues to its end."""
        turn = self._runs.require_turn()
        self._content.close_block()
        self._runs.emit(event)
        self._runs.emit(events.QuestionAsked(text=wording.code_wanted(event), after_text=turn.spoke))

    def code_sent(self, event: events.OtpSent) -> None:
        """Tell clients in words that a one-time code was sent."""
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
        self._resolve(given.resolved, given.segments)

    def _note(self, text: str, segments: tuple[Segment, ...]) -> None:
        self._runs.emit(events.QuestionAnswered(model_turn=self._runs.next_model_turn(), segments=segments))
        self._runs.emit(events.QuestionAsked(text=text))

    def _put(self, asked: Question, text: str, turn: OpenTurn) -> None:
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
        self._runs.split()  # a question ends its batch, so that a client in words is shown nothing after it

    def _begin_run(self, origin: Origin | None) -> None:
        turn = self._state.turn
        if origin is not None and turn is not None:
            turn.origin = origin
            self._runs.split()
            self._runs.emit(events.TurnAccepted(request=origin.request))

    def _resolve(self, event: Resolution, segments: tuple[Segment, ...]) -> None:
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
