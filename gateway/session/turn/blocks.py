"""Text and reasoning in normal form: blocks that open, grow and are closed with all of their text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from dragoman.mappings.canonical.events import (
    ReasoningDelta,
    ReasoningDone,
    ReasoningStarted,
    TextDelta,
    TextDone,
)
from dragoman.mappings.canonical.state import ReasoningBlock, TextBlock

if TYPE_CHECKING:
    from dragoman.gateway.session.turn.normal_form import NormalForm

__all__ = ["close", "reasoning_delta", "reasoning_done", "reasoning_started", "text_delta", "text_done"]


def text_delta(form: NormalForm, event: TextDelta) -> None:
    """More visible text."""
    turn = form.state.turn or form.turn()
    if type(turn.open) is ReasoningBlock:
        close(form)
    form.emit(event)


def text_done(form: NormalForm, event: TextDone) -> None:
    """A text block is complete: what its deltas left out is said first."""
    if form.state.turn is None and not event.text:
        return  # nothing said opens no turn
    turn = form.turn()
    if type(turn.open) is ReasoningBlock:
        close(form)
    block = turn.open
    if block is None and (not event.text or event.text == form.forced):
        form.forced = ""
        return  # nothing new: an empty block, or one that we closed already
    sent = "".join(block.parts) if block is not None else ""
    _rest(form, sent, event.text, TextDelta)
    form.emit(event)


def reasoning_started(form: NormalForm, event: ReasoningStarted) -> None:
    """A block of reasoning begins."""
    form.turn()
    close(form)
    form.emit(event)


def reasoning_delta(form: NormalForm, event: ReasoningDelta) -> None:
    """More reasoning."""
    turn = form.turn()
    if type(turn.open) is not ReasoningBlock:
        close(form)
        form.emit(ReasoningStarted())
    form.emit(event)


def reasoning_done(form: NormalForm, event: ReasoningDone) -> None:
    """A block of reasoning is complete; its text may stay with the backend."""
    if form.state.turn is None and not event.text:
        return
    turn = form.turn()
    if type(turn.open) is not ReasoningBlock:
        if not event.text:
            return
        close(form)
        form.emit(ReasoningStarted())
    sent = "".join(turn.open.parts) if turn.open is not None else ""
    if event.text:
        _rest(form, sent, event.text, ReasoningDelta)
    form.emit(event if event.text or not sent else structs.replace(event, text=sent))


def _rest(form: NormalForm, sent: str, text: str, delta: type[TextDelta | ReasoningDelta]) -> None:
    """Send what a done block has beyond its deltas; where it contradicts them it is right, and a Gap is told (3.7)."""
    if text == sent:
        return
    if text.startswith(sent):
        form.emit(delta(text=text[len(sent) :]))
    else:
        form.gap("a finished block contradicts what was streamed of it")


def close(form: NormalForm) -> None:
    """Close the open text or reasoning block with what was said of it."""
    turn = form.state.turn
    if turn is None or turn.open is None:
        return
    text = "".join(turn.open.parts)
    if isinstance(turn.open, TextBlock):
        form.forced = text
        form.emit(TextDone(text=text))
    else:
        form.emit(ReasoningDone(text=text))
