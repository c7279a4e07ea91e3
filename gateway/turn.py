"""The normal form of a turn (design.md, section 3; translation.md 3.6, 3.7, 3.17).

Each message maps by itself to what it says; this module adds what its backend did not say, so that every dialect can
rely on it: a turn is opened by our own accepted input or by the backend's content, its text and reasoning blocks are
closed with their full text, its tool calls have complete arguments before their result, and it ends with TurnResult,
StatusChanged and exactly one TurnEnded. Pure: events in, runs of events out, each run within one turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import structs

from gateway.history import renew
from gateway.runs import Run, Runs
from mappings.canonical import OpenTurn, SessionState
from mappings.canonical.events import (
    Alert,
    ApprovalRequested,
    ErrorReported,
    Event,
    Gap,
    HistorySnapshot,
    InteractionRequired,
    MessageAppended,
    ModelCallEnded,
    ModelCallStarted,
    ModelContinuation,
    ModelRetry,
    ModelTurnEnded,
    ModelTurnStarted,
    OtpRequired,
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
from mappings.canonical.state import CallBlock, ReasoningBlock, TextBlock
from mappings.canonical.values import End, Failure, Message, Origin, Status
from mappings.dialect import Loss, NewId

__all__ = ["NormalForm"]

_ONLY_TEXT = frozenset({TextDelta})


class NormalForm:
    """Normalises one session's events and folds them into its state as they are emitted."""

    def __init__(self, state: SessionState, new_id: NewId, *, tells_model_turns: bool = True) -> None:
        self._state = state
        self._new_id = new_id
        self._runs = Runs(state)
        self._emit = self._runs.emit
        self._at = 0
        self._model_turns = 0  # those that we said ourselves
        self._tells_model_turns = tells_model_turns  # else a turn has one, said here: a pod's parent waits for it
        self._forced = ""  # text of the block that we closed before its backend did
        self.discarding = False  # a turn was ended for the clients while its backend still runs it (3.4)
        self.losses: list[Loss] = []

    def feed(self, events: Sequence[Event], at: int) -> list[Run]:
        """Normalise `events`, said at `at` (ns)."""
        if not self.discarding and _ONLY_TEXT.issuperset(map(type, events)):
            run = self._more_text(events)
            if run is not None:
                return [run]
        self._begin(at)
        for event in events:
            if self.discarding and self._discard(event):
                continue
            handler = _HANDLERS.get(type(event))
            if handler is None:
                self._emit(event)
            else:
                handler(self, event)
        return self._runs.finish()

    def _more_text(self, events: Sequence[Any]) -> Run | None:
        """Text deltas of a block that is open already: nothing to add, and a fifth of the cost of one by one."""
        turn = self._state.turn
        if turn is None or type(turn.open) is not TextBlock:
            return None
        turn.open.parts += [event.text for event in events]
        return Run(turn=turn.id, origin=turn.origin, events=list(events))

    def accept(self, origin: Origin, message: Message, at: int) -> list[Run]:
        """The backend took an input of ours: its turn begins, or the one that is open turns out to be it."""
        self._begin(at)
        turn = self._state.turn
        if turn is not None and not turn.accepted and not turn.origin.link:
            turn.origin = origin
            self._runs.split()
        else:
            self._open(origin)
        self._emit(TurnAccepted(request=origin.request))
        self._emit(MessageAppended(message=structs.replace(message, id=message.id or self._new_id(), at=at)))
        self._running()
        return self._runs.finish()

    def end(self, end: End, failure: Failure | None, at: int, *, discard: bool = False) -> list[Run]:
        """End the open turn ourselves; with `discard` its backend goes on and what it says is dropped and counted."""
        self._begin(at)
        if self._state.turn is not None:
            self._end(end, failure, "idle")
            self.discarding = discard
        elif failure is not None and self._state.status == "running":  # a run of which nothing was heard yet
            self._emit(ErrorReported(cause=failure.cause, text=failure.text, ext=failure.ext))
            self._emit(StatusChanged(status="idle"))
        return self._runs.finish()

    # -- turns --------------------------------------------------------------------------------------

    def _begin(self, at: int) -> None:
        self._at = at
        self._runs.begin()

    def _open(self, origin: Origin = Origin()) -> OpenTurn:  # noqa: B008  # frozen
        if self._state.turn is not None:  # a new turn cannot begin inside another: the old one lost its end
            self._end("completed", None, "running")
        turn = OpenTurn(id=self._new_id(), message=self._new_id(), origin=origin, started_at=self._at)
        self._runs.open(turn)
        self._forced = ""
        return turn

    def _turn(self) -> OpenTurn:
        """The open turn; content that comes without one opens one of the backend's own (3.17)."""
        turn = self._state.turn
        if turn is None:
            turn = self._open()
            self._running()
        return turn

    def _running(self) -> None:
        if self._state.status != "running":
            self._emit(StatusChanged(status="running"))
        turn = self._state.turn
        if not self._tells_model_turns and turn is not None and turn.model_turn is None:
            self._emit(ModelTurnStarted(index=self._model_turns))  # numbered here: projections come and go
            self._model_turns += 1

    def _discard(self, event: Event) -> bool:
        if type(event) is TurnEnded or (isinstance(event, StatusChanged) and event.status != "running"):
            self.discarding = False
            return True
        if type(event) not in _OF_A_TURN:
            return False
        self.losses.append(Loss(kind=type(event).__name__, why="after the turn was cancelled for its client"))
        return True

    # -- blocks -------------------------------------------------------------------------------------

    def _text_delta(self, event: TextDelta) -> None:
        turn = self._state.turn or self._turn()
        if type(turn.open) is ReasoningBlock:
            self._close_block()
        self._emit(event)

    def _text_done(self, event: TextDone) -> None:
        if self._state.turn is None and not event.text:
            return  # nothing said opens no turn
        turn = self._turn()
        if type(turn.open) is ReasoningBlock:
            self._close_block()
        block = turn.open
        if block is None and (not event.text or event.text == self._forced):
            self._forced = ""
            return  # nothing new: an empty block, or one that we closed already
        sent = "".join(block.parts) if block is not None else ""
        self._rest(sent, event.text, TextDelta)
        self._emit(event)

    def _reasoning_started(self, event: ReasoningStarted) -> None:
        self._turn()
        self._close_block()
        self._emit(event)

    def _reasoning_delta(self, event: ReasoningDelta) -> None:
        turn = self._turn()
        if type(turn.open) is not ReasoningBlock:
            self._close_block()
            self._emit(ReasoningStarted())
        self._emit(event)

    def _reasoning_done(self, event: ReasoningDone) -> None:
        if self._state.turn is None and not event.text:
            return
        turn = self._turn()
        if type(turn.open) is not ReasoningBlock:
            if not event.text:
                return
            self._close_block()
            self._emit(ReasoningStarted())
        sent = "".join(turn.open.parts) if turn.open is not None else ""
        if event.text:
            self._rest(sent, event.text, ReasoningDelta)
        self._emit(event if event.text or not sent else structs.replace(event, text=sent))

    def _rest(self, sent: str, text: str, delta: type[TextDelta | ReasoningDelta]) -> None:
        """Send what a done block has beyond its deltas; a block that contradicts them is a Gap (3.7)."""
        if text == sent:
            return
        if text.startswith(sent):
            self._emit(delta(text=text[len(sent) :]))
        else:
            self._emit(Gap(text="a finished block contradicts what was streamed of it"))

    def _close_block(self) -> None:
        """Close the open text or reasoning block with what was said of it."""
        turn = self._state.turn
        if turn is None or turn.open is None:
            return
        text = "".join(turn.open.parts)
        if isinstance(turn.open, TextBlock):
            self._forced = text
            self._emit(TextDone(text=text))
        else:
            self._emit(ReasoningDone(text=text))

    # -- tools --------------------------------------------------------------------------------------

    def _call_started(self, event: ToolCallStarted) -> None:
        turn = self._turn()
        if event.call and event.call in turn.calls:
            return  # pando says it twice; the second brings the arguments
        self._close_block()
        self._emit(event if event.call else structs.replace(event, call=f"{turn.id}/{len(turn.calls)}"))

    def _call_arguments(self, event: ToolCallArguments) -> None:
        turn = self._turn()
        block = self._call(turn, event.call, event.name, finished=False)
        if block is None and not event.done:  # heard from its middle on: its whole arguments, with its name, follow
            self.losses.append(Loss(kind="ToolCallArguments", why="a fragment of a call whose beginning was not heard"))
            return
        if block is None:
            self._call_started(ToolCallStarted(call=event.call, name=event.name))
            block = turn.calls[event.call or f"{turn.id}/{len(turn.calls) - 1}"]
        if block.arguments is None:
            self._emit(structs.replace(event, call=block.call, name=block.name))

    def _call_finished(self, event: ToolCallFinished) -> None:
        turn = self._turn()
        block = self._call(turn, event.call, event.name, finished=True)
        if block is None:
            self._emit(structs.replace(event, name=event.name or self._state.unanswered.get(event.call, "")))
            return
        if block.result is not None:
            if (event.output, event.summary) != (block.result.output, block.result.summary):
                self.losses.append(Loss(kind="ToolCallFinished", why="a second result of the same call"))
            return
        self._complete_arguments(block)
        self._emit(structs.replace(event, call=block.call, name=block.name))

    def _call(self, turn: OpenTurn, call: str, name: str, *, finished: bool) -> CallBlock | None:
        """The call that is meant: by its id, else the first open one of that name (3.1)."""
        if call:
            return turn.calls.get(call)
        for block in turn.calls.values():
            if block.name == name and block.result is None and (finished or block.arguments is None):
                return block
        return None

    def _complete_arguments(self, block: CallBlock) -> None:
        if block.arguments is None:
            self._emit(ToolCallArguments(call=block.call, name=block.name, json="".join(block.parts), done=True))

    # -- what else belongs to a turn -----------------------------------------------------------------

    def _alert(self, event: Alert) -> None:
        if event not in self._state.alerts:  # a pod says all of its alerts again to whoever connects again
            self._emit(event)

    def _content(self, event: Event) -> None:
        self._turn()
        self._emit(event)

    def _message(self, event: MessageAppended) -> None:
        if not event.message.id:
            event = structs.replace(event, message=structs.replace(event.message, id=self._new_id()))
        self._emit(event)

    def _history(self, event: HistorySnapshot) -> None:
        self._emit(renew(event, self._state, self._new_id))

    # -- ends ---------------------------------------------------------------------------------------

    def _result(self, event: TurnResult) -> None:
        self._close_everything()
        self._emit(event)

    def _status(self, event: StatusChanged) -> None:
        turn = self._state.turn
        if turn is None:
            self._emit(event)
        elif event.status == "running":
            if self._state.status != "running":
                self._emit(event)
        else:
            end, failure = _verdict(turn, event.status)
            self._end(end, failure, event.status, said=event)

    def _ended(self, event: TurnEnded) -> None:
        turn = self._turn()
        if event.text and event.text != turn.text():
            self._final_text(turn, event.text)
        turn.usage = turn.usage or event.usage
        self._end(event.end, event.failure, "paused" if event.end == "paused" else "idle", said_end=event)

    def _final_text(self, turn: OpenTurn, text: str) -> None:
        sent = turn.text()
        if text.startswith(sent):
            if type(turn.open) is ReasoningBlock:
                self._close_block()
            self._emit(TextDelta(text=text[len(sent) :]))
        else:
            self._emit(Gap(text="the final text contradicts what was streamed of it"))

    def _end(
        self, end: End, failure: Failure | None, status: Status, *,
        said: StatusChanged | None = None, said_end: TurnEnded | None = None,
    ) -> None:  # fmt: skip
        """The end of the open turn, in its one order; `said...` are the backend's own words, kept for their ext."""
        turn = self._state.turn
        if turn is None:
            return
        self._close_everything()
        if failure is not None and not any(e.cause == failure.cause and e.text == failure.text for e in turn.errors):
            self._emit(ErrorReported(cause=failure.cause, text=failure.text, ext=failure.ext))
        if not self._tells_model_turns and end == "completed":
            self._emit(ModelTurnEnded(index=self._model_turns - 1))
        if turn.result is None:
            self._emit(TurnResult(end=end))
        if said is not None or self._state.status != status:
            self._emit(said or StatusChanged(status=status))
        terminal = said_end or TurnEnded(end=end)
        self._runs.end(
            structs.replace(
                terminal, text=turn.text(), message=terminal.message or turn.message, usage=turn.usage, failure=failure
            )
        )

    def _close_everything(self) -> None:
        turn = self._state.turn
        if turn is None:
            return
        self._close_block()
        for block in turn.calls.values():
            self._complete_arguments(block)


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


_CONTENT = (
    Preamble, ToolOutputDelta, StateSnapshot, ApprovalRequested, OtpRequired, InteractionRequired, UsageReported,
    ModelTurnStarted, ModelTurnEnded, ModelCallStarted, ModelCallEnded, ModelRetry, ModelContinuation,
)  # fmt: skip

_HANDLERS: dict[type, Callable[[NormalForm, Any], None]] = {
    TextDelta: NormalForm._text_delta,
    TextDone: NormalForm._text_done,
    ReasoningStarted: NormalForm._reasoning_started,
    ReasoningDelta: NormalForm._reasoning_delta,
    ReasoningDone: NormalForm._reasoning_done,
    ToolCallStarted: NormalForm._call_started,
    ToolCallArguments: NormalForm._call_arguments,
    ToolCallFinished: NormalForm._call_finished,
    MessageAppended: NormalForm._message,
    HistorySnapshot: NormalForm._history,
    TurnResult: NormalForm._result,
    StatusChanged: NormalForm._status,
    TurnEnded: NormalForm._ended,
    Alert: NormalForm._alert,
    **dict.fromkeys(_CONTENT, NormalForm._content),
}

_OF_A_TURN = frozenset(_HANDLERS) - {MessageAppended, HistorySnapshot, StatusChanged, Alert} | {ErrorReported}
