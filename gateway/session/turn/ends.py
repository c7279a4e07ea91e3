"""The end of a turn in normal form: everything closed, TurnResult, StatusChanged and exactly one TurnEnded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from dragoman.gateway.session.turn import blocks, calls, questions
from dragoman.mappings.canonical import OpenTurn
from dragoman.mappings.canonical.events import (
    ErrorReported,
    ModelTurnEnded,
    ModelTurnStarted,
    StatusChanged,
    TextDelta,
    TextDone,
    TurnEnded,
    TurnResult,
    UsageReported,
)
from dragoman.mappings.canonical.state import ReasoningBlock, TextBlock
from dragoman.mappings.canonical.values import End, Failure, Status

if TYPE_CHECKING:
    from dragoman.gateway.session.turn.normal_form import NormalForm

__all__ = ["ended", "finish", "result", "status"]


def result(form: NormalForm, event: TurnResult) -> None:
    """The output is over."""
    _close_everything(form, event.end)
    form.emit(event)


def status(form: NormalForm, event: StatusChanged) -> None:
    """The backend runs, or runs no more: then the open turn is over."""
    turn = form.state.turn
    if turn is None:
        form.emit(event)
    elif event.status == "running":
        if form.state.status != "running":
            form.emit(event)
    else:
        end, failure = _verdict(turn, event.status)
        finish(form, end, failure, event.status, said=event)


def ended(form: NormalForm, event: TurnEnded) -> None:
    """The backend says itself that the turn is over."""
    turn = form.turn()
    if event.text and event.text != turn.text():
        _final_text(form, turn, event.text)
    finish(form, event.end, event.failure, "paused" if event.end == "paused" else "idle", said_end=event)


def _final_text(form: NormalForm, turn: OpenTurn, text: str) -> None:
    """Send what the whole text of a turn has beyond what was streamed; where both differ the whole text is right."""
    sent = turn.text()
    if text.startswith(sent):
        if type(turn.open) is ReasoningBlock:
            blocks.close(form)
        form.emit(TextDelta(text=text[len(sent) :]))
        return
    form.gap("the final text contradicts what was streamed of it")
    if type(turn.open) is TextBlock:
        before = sent.removesuffix("".join(turn.open.parts))
        if text.startswith(before):
            form.emit(TextDone(text=text[len(before) :]))


def finish(
    form: NormalForm, end: End, failure: Failure | None, status: Status, *,
    said: StatusChanged | None = None, said_end: TurnEnded | None = None,
) -> None:  # fmt: skip
    """The end of the open turn, in its one order; `said...` are the backend's own words, kept for their ext."""
    turn = form.state.turn
    if turn is None:
        return
    questions.over(form)
    blocks.close(form)
    used = said_end.usage if said_end is not None and turn.usage is None else None
    if used is not None and turn.result is None:  # usage stands before the end of the output
        form.emit(UsageReported(usage=used))
    _close_everything(form, end)
    if end == "failed" and turn.model_turn is None and not turn.errors:  # it was refused: for a pod's parent it began
        form.emit(ModelTurnStarted(index=form.next_model_turn()))
    if end == "failed" and failure is None and not turn.errors:  # in every dialect a failure has a cause
        failure = Failure(cause="internal", text="the turn failed")
    if failure is not None and not any(e.cause == failure.cause and e.text == failure.text for e in turn.errors):
        form.emit(ErrorReported(cause=failure.cause, text=failure.text, ext=failure.ext))
    if turn.result is None:
        form.emit(TurnResult(end=end))
    if said is not None or form.state.status != status:
        form.emit(said or StatusChanged(status=status))
    terminal = said_end or TurnEnded(end=end)
    form.end_turn(
        structs.replace(
            terminal,
            text=terminal.text or turn.text(),
            message=terminal.message or turn.message,
            usage=turn.usage or used,
            failure=failure,
        )
    )


def _close_everything(form: NormalForm, end: End) -> None:
    """Close what is open in the turn; its model turn only where the output is complete
    (docs/translation.md, rule 4.3).
    """
    turn = form.state.turn
    if turn is None:
        return
    blocks.close(form)
    for block in turn.calls.values():
        calls.complete(form, block)
    if end == "completed" and turn.in_model_turn and turn.model_turn is not None:
        form.emit(ModelTurnEnded(index=turn.model_turn.index if form.tells_model_turns else form.model_turns - 1))


def _verdict(turn: OpenTurn, status: Status) -> tuple[End, Failure | None]:
    """How a turn ended whose backend only says that it runs no more: its result, else its error (3.6)."""
    if turn.result is not None and turn.result != "failed":
        return turn.result, None
    if turn.errors:
        error = turn.errors[-1]
        return "failed", Failure(cause=error.cause, text=error.text, ext=error.ext)
    if turn.result == "failed":
        return "failed", Failure(cause="internal", text="the backend said that the turn failed, not why")
    return ("paused" if status == "paused" else "completed"), None
