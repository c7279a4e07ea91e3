"""Questions in normal form: with an id, in words beside the backend's own form, and over before their turn is.

Nothing but the call that waits for the answer may come while a question is open: whatever else its backend says shows
that it asks no more, and the question is closed as denied (translation.md 3.3).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import structs

from gateway import wording
from gateway.turn import blocks
from mappings.canonical import OpenTurn
from mappings.canonical.events import (
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
from mappings.canonical.values import Origin, Segment

if TYPE_CHECKING:
    from gateway.turn.normal_form import NormalForm

__all__ = ["answered", "asked", "asked_again", "code_sent", "code_wanted", "noted", "over", "resolved"]

Resolved = ApprovalResolved | InteractionResolved


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
    """The backend waits no more: a question that is still open is closed as denied."""
    turn = form.state.turn
    if turn is not None and turn.question is not None:
        _close(form, denied(turn.question.asked), ())


def code_wanted(form: NormalForm, event: OtpRequired) -> None:
    """A one-time code is wanted: no park, the turn goes on to its end."""
    form.turn()
    blocks.close(form)
    form.emit(event)
    form.emit(QuestionAsked(text=wording.code_wanted(event)))


def code_sent(form: NormalForm, event: OtpSent) -> None:
    """A one-time code is on its way."""
    form.emit(event)
    if form.state.turn is not None:
        blocks.close(form)
    form.emit(QuestionAsked(text=wording.code_sent(event)))


# -- what the session knows --------------------------------------------------------------------------


def answered(form: NormalForm, event: Resolved, segments: tuple[Segment, ...], origin: Origin | None) -> None:
    """The open question is answered; by typed `segments` it goes on as a run of the link in `origin`."""
    _begin_run(form, origin)
    _close(form, event, segments)


def asked_again(form: NormalForm, text: str, segments: tuple[Segment, ...], origin: Origin) -> None:
    """Typed `segments` were taken, and the open question goes on with `text`: the next field, or the same once more."""
    turn = form.state.turn
    if turn is None or turn.question is None:
        return
    _begin_run(form, origin)
    asked = turn.question.asked
    _go_on(form, QuestionAnswered(question=asked.question, before=turn.text(), segments=segments))
    _put(form, asked, text, turn)


def _put(form: NormalForm, asked: ApprovalRequested | InteractionRequired, text: str, turn: OpenTurn) -> None:
    kind = asked.kind if isinstance(asked, InteractionRequired) else ""
    form.emit(QuestionAsked(question=asked.question, kind=kind, text=text, before=turn.text(), parked=True))
    form.split()  # it is the last of its batch: what its clients are not shown yet begins with the next


def noted(form: NormalForm, text: str, segments: tuple[Segment, ...]) -> None:
    """Typed `segments` are answered with `text`, outside of any turn: a run of its own that is over at once."""
    _go_on(form, QuestionAnswered(segments=segments))
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


def _close(form: NormalForm, event: Resolved, segments: Sequence[Segment]) -> None:
    turn = form.state.turn
    if turn is None or turn.question is None:
        return
    in_words = turn.question.words is not None
    form.emit(event)
    if in_words:
        _go_on(form, QuestionAnswered(question=event.question, before=turn.text(), segments=tuple(segments)))


def _go_on(form: NormalForm, event: QuestionAnswered) -> None:
    """A run of its own, in which a pod client sees a model turn begin: it has a number like every other."""
    form.emit(event)
    form.model_turns += 1
