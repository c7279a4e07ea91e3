"""Questions in normal form: with an id, in words beside the backend's own form, and over before their turn is.

Nothing but the call that waits for the answer may come while a question is open: whatever else its backend says shows
that it asks no more, and the question is closed as denied (docs/translation.md, rule 3.3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, structs

from dragoman.gateway.session import wording
from dragoman.gateway.session.turn import blocks
from dragoman.mappings.canonical import OpenTurn
from dragoman.mappings.canonical.events import (
    ApprovalRequested,
    ApprovalResolved,
    InteractionRequired,
    InteractionResolved,
    OtpRequired,
    OtpSent,
    QuestionAnswered,
    QuestionAsked,
    TurnAccepted,
)
from dragoman.mappings.canonical.values import Origin, Segment

if TYPE_CHECKING:
    from dragoman.gateway.session.turn.normal_form import NormalForm

__all__ = [
    "Given",
    "answered",
    "asked",
    "asked_again",
    "code_sent",
    "code_wanted",
    "denied",
    "noted",
    "over",
    "resolved",
]

Resolved = ApprovalResolved | InteractionResolved


class Given(Struct, frozen=True, kw_only=True):
    """An answer, and what it makes of the question.

    By typed `segments` the turn goes on as a run of the link in `origin`.
    """

    resolved: Resolved
    segments: tuple[Segment, ...] = ()
    origin: Origin | None = None


# -- what the backend says ---------------------------------------------------------------------------


def asked(form: NormalForm, event: ApprovalRequested | InteractionRequired) -> None:
    """A question that parks the turn; a further one takes the place of the one before."""
    turn = form.turn()
    over(form)
    blocks.close(form)
    event = event if event.question else structs.replace(event, question=form.new_id())
    form.emit(event)
    if form.puts_in_words(event):
        _put(form, event, wording.in_words(event), turn)


def resolved(form: NormalForm, event: Resolved) -> None:
    """The backend says itself what came of the question."""
    turn = form.state.turn
    if turn is None or turn.question is None:
        form.lose(event, "no question is open")
        return
    _close(form, structs.replace(event, question=turn.question.asked.question), ())


def over(form: NormalForm) -> None:
    """The backend waits no more: for the answer that is on its way to it, else the question is closed as denied."""
    turn = form.state.turn
    if turn is not None and turn.question is not None:
        answered(form, form.given() or Given(resolved=denied(turn.question.asked)))


def code_wanted(form: NormalForm, event: OtpRequired) -> None:
    """A one-time code is wanted: no park, the turn goes on to its end."""
    turn = form.turn()
    blocks.close(form)
    form.emit(event)
    form.emit(QuestionAsked(text=wording.code_wanted(event), after_text=turn.spoke))


def code_sent(form: NormalForm, event: OtpSent) -> None:
    """A one-time code is on its way."""
    turn = form.state.turn
    if turn is not None:
        blocks.close(form)
        form.emit(event)
        form.emit(QuestionAsked(text=wording.code_sent(event), after_text=turn.spoke))
    else:
        form.emit(event)
        noted(form, wording.code_sent(event), ())


# -- what the session knows --------------------------------------------------------------------------


def answered(form: NormalForm, given: Given) -> None:
    """The open question is answered."""
    _begin_run(form, given.origin)
    _close(form, given.resolved, given.segments)


def asked_again(form: NormalForm, text: str, segments: tuple[Segment, ...], origin: Origin) -> None:
    """Typed `segments` were taken, and the open question goes on with `text`: the next field, or the same once more."""
    turn = form.state.turn
    if turn is None or turn.question is None or turn.question.words is None:
        return
    _begin_run(form, origin)
    form.emit(_answer_to(form, turn.question.words, segments))
    _put(form, turn.question.asked, text, turn)


def _put(form: NormalForm, asked: ApprovalRequested | InteractionRequired, text: str, turn: OpenTurn) -> None:
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
    form.emit(words)
    form.split()  # it is the last of its batch: what its clients are not shown yet begins with the next


def noted(form: NormalForm, text: str, segments: tuple[Segment, ...]) -> None:
    """Typed `segments` are answered with `text`, outside of any turn: a run of its own that is over at once."""
    form.emit(QuestionAnswered(model_turn=form.next_model_turn(), segments=segments))
    form.emit(QuestionAsked(text=text))


def denied(asked: ApprovalRequested | InteractionRequired) -> Resolved:
    """What becomes of a question that nobody answered."""
    if isinstance(asked, ApprovalRequested):
        return ApprovalResolved(question=asked.question, approved=False)
    return InteractionResolved(question=asked.question, declined=True)


def _begin_run(form: NormalForm, origin: Origin | None) -> None:
    turn = form.state.turn
    if origin is not None and turn is not None:
        turn.origin = origin
        form.split()
        form.emit(TurnAccepted(request=origin.request))


def _close(form: NormalForm, event: Resolved, segments: tuple[Segment, ...]) -> None:
    turn = form.state.turn
    if turn is None or turn.question is None:
        return
    words = turn.question.words
    form.emit(event)
    if words is not None:
        form.emit(_answer_to(form, words, segments))


def _answer_to(form: NormalForm, words: QuestionAsked, segments: tuple[Segment, ...]) -> QuestionAnswered:
    return QuestionAnswered(
        question=words.question, kind=words.kind, before=words.before, number=words.number,
        model_turn=form.next_model_turn(), segments=segments,
    )  # fmt: skip
