"""Tool calls in normal form: each with an id, its complete arguments and one result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from dragoman.gateway.session.turn import blocks
from dragoman.mappings.canonical import OpenTurn
from dragoman.mappings.canonical.events import ToolCallArguments, ToolCallFinished, ToolCallStarted
from dragoman.mappings.canonical.state import CallBlock
from dragoman.mappings.canonical.values import ToolCall
from dragoman.mappings.dialect import Loss

if TYPE_CHECKING:
    from dragoman.gateway.session.turn.normal_form import NormalForm

__all__ = ["arguments", "complete", "finished", "started"]


def started(form: NormalForm, event: ToolCallStarted) -> None:
    """A call began; where its dialect has no ids it gets one."""
    turn = form.turn()
    if event.call and event.call in turn.calls:
        return  # pando says it twice; the second brings the arguments
    blocks.close(form)
    form.emit(event if event.call else structs.replace(event, call=f"{turn.id}/{len(turn.calls)}"))


def arguments(form: NormalForm, event: ToolCallArguments) -> None:
    """A fragment, or all; a call that was not begun is begun."""
    turn = form.turn()
    block = _meant(turn, event.call, event.name, finished=False)
    if block is None and not event.done:  # heard from its middle on: its whole arguments, with its name, follow
        form.lose(event, "a fragment of a call whose beginning was not heard")
        return
    if block is None:
        started(form, ToolCallStarted(call=event.call, name=event.name))
        block = turn.calls[event.call or f"{turn.id}/{len(turn.calls) - 1}"]
    if block.arguments is None:
        form.emit(structs.replace(event, call=block.call, name=block.name))


def finished(form: NormalForm, event: ToolCallFinished) -> None:
    """The one result of a call, after its arguments; a call that nobody began is begun, some pandos tell only ends."""
    turn = form.turn()
    block = _meant(turn, event.call, event.name, finished=True)
    if block is None and (known := _of_before(form, event)):
        form.emit(structs.replace(event, call=known, name=event.name or form.state.unanswered.get(known, "")))
        return
    if block is None:
        started(form, ToolCallStarted(call=event.call, name=event.name))
        block = turn.calls[event.call or f"{turn.id}/{len(turn.calls) - 1}"]
    if block.result is not None:
        if (event.output, event.summary) != (block.result.output, block.result.summary):
            form.losses.append(Loss(kind="ToolCallFinished", why="a second result of the same call"))
        return
    complete(form, block)
    form.emit(structs.replace(event, call=block.call, name=block.name))


def _of_before(form: NormalForm, event: ToolCallFinished) -> str:
    """The call of an earlier turn that is meant, "" if none: by its id, else the first open one of that name."""
    unanswered = form.state.unanswered
    if not event.call:
        return next((call for call, called in unanswered.items() if called == event.name), "")
    is_known = event.call in unanswered or any(
        isinstance(item, ToolCall) and item.call == event.call for item in form.state.transcript
    )
    return event.call if is_known else ""


def complete(form: NormalForm, block: CallBlock) -> None:
    """Say the whole arguments, if nobody did."""
    if block.arguments is None:
        form.emit(ToolCallArguments(call=block.call, name=block.name, json="".join(block.parts), done=True))


def _meant(turn: OpenTurn, call: str, name: str, *, finished: bool) -> CallBlock | None:
    """The call that is meant: by its id, else the first open one of that name (docs/translation.md, rule 3.1)."""
    if call:
        return turn.calls.get(call)
    for block in turn.calls.values():
        if block.name == name and block.result is None and (finished or block.arguments is None):
            return block
    return None
