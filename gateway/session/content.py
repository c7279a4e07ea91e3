"""The content of a turn in normal form: text and reasoning blocks, and tool calls.

Blocks open, grow and are closed with all of their text. A tool call has an id, its complete arguments and one result.
"""

from __future__ import annotations

from msgspec import structs

from dragoman.gateway.session.runs import Runs
from dragoman.gateway.session.turn_states import Trigger, TurnStates
from dragoman.mappings.canonical import OpenTurn, SessionState
from dragoman.mappings.canonical.events import (
    Event,
    Gap,
    ModelTurnStarted,
    ReasoningDelta,
    ReasoningDone,
    ReasoningStarted,
    StatusChanged,
    TextDelta,
    TextDone,
    ToolCallArguments,
    ToolCallFinished,
    ToolCallStarted,
)
from dragoman.mappings.canonical.state import CallBlock, ReasoningBlock, TextBlock
from dragoman.mappings.canonical.values import Origin, ToolCall
from dragoman.mappings.dialect import Loss, NewId

__all__ = ["Content"]


class Content(Runs):
    """Brings the content of a turn into its normal form; content without a turn opens one of the backend's own."""

    def __init__(self, state: SessionState, new_id: NewId, *, tells_model_turns: bool) -> None:
        super().__init__(state)
        self.losses: list[Loss] = []
        self.states = TurnStates(state)
        self._new_id = new_id
        self._tells_model_turns = tells_model_turns  # else a turn has one, said here: a pod's parent waits for it
        self._model_turns = 0  # those that we said ourselves
        self._closed = ""  # text of the block that we closed before its backend did

    def next_model_turn(self) -> int | None:
        """Return the number of a model turn that we say ourselves; None where the backend numbers its own."""
        if self._tells_model_turns:
            return None
        self._model_turns += 1
        return self._model_turns - 1

    def _lose(self, event: Event, why: str) -> None:
        """Count an event that goes nowhere."""
        self.losses.append(Loss(kind=type(event).__name__, why=why))

    def _tell_gap(self, event: Gap) -> None:
        """Tell everybody that something is lost, and count it: not every dialect has a form for it."""
        self.losses.append(Loss(kind="Gap", why=event.text, count=max(1, event.count)))
        if event.context:
            self.state.epoch += 1  # what the log says from here on does not follow from what it said (3.15)
        self.emit(event)

    def _open(self, origin: Origin) -> OpenTurn:
        """Open a turn; none is open."""
        turn = OpenTurn(id=self._new_id(), message=self._new_id(), origin=origin, started_at=self.at)
        self.open(turn)
        self.states.on(Trigger.BEGUN)
        self._closed = ""
        return turn

    def _turn(self) -> OpenTurn:
        """Return the open turn; content that comes without one opens one of the backend's own (3.17)."""
        turn = self.state.turn
        if turn is None:
            turn = self._open(Origin())
            self._running()
        return turn

    def _running(self) -> None:
        """Say that the open turn runs, and its model turn where the backend tells none."""
        if self.state.status != "running":
            self.emit(StatusChanged(status="running"))
        turn = self.state.turn
        if not self._tells_model_turns and turn is not None and turn.model_turn is None:
            self.emit(ModelTurnStarted(index=self.next_model_turn()))

    # -- text and reasoning ----------------------------------------------------------------------------

    def _text_delta(self, event: TextDelta) -> None:
        turn = self.state.turn or self._turn()
        if type(turn.open) is ReasoningBlock:
            self._close_block()
        self.emit(event)

    def _text_done(self, event: TextDone) -> None:
        """Complete a text block: what its deltas left out is said first."""
        if self.state.turn is None and not event.text:
            return  # nothing said opens no turn
        turn = self._turn()
        if type(turn.open) is ReasoningBlock:
            self._close_block()
        block = turn.open
        if block is None and (not event.text or event.text == self._closed):
            self._closed = ""
            return  # nothing new: an empty block, or one that we closed already
        sent = "".join(block.parts) if block is not None else ""
        self._rest(sent, event.text, TextDelta)
        self.emit(event)

    def _reasoning_started(self, event: ReasoningStarted) -> None:
        self._turn()
        self._close_block()
        self.emit(event)

    def _reasoning_delta(self, event: ReasoningDelta) -> None:
        turn = self._turn()
        if type(turn.open) is not ReasoningBlock:
            self._close_block()
            self.emit(ReasoningStarted())
        self.emit(event)

    def _reasoning_done(self, event: ReasoningDone) -> None:
        """Complete a block of reasoning; its text may stay with the backend."""
        if self.state.turn is None and not event.text:
            return
        turn = self._turn()
        if type(turn.open) is not ReasoningBlock:
            if not event.text:
                return
            self._close_block()
            self.emit(ReasoningStarted())
        sent = "".join(turn.open.parts) if turn.open is not None else ""
        if event.text:
            self._rest(sent, event.text, ReasoningDelta)
        self.emit(event if event.text or not sent else structs.replace(event, text=sent))

    def _rest(self, sent: str, text: str, delta: type[TextDelta | ReasoningDelta]) -> None:
        """Send what a done block has beyond its deltas; where it contradicts them it is right, and a Gap is told."""
        if text == sent:
            return
        if text.startswith(sent):
            self.emit(delta(text=text[len(sent) :]))
        else:
            self._tell_gap(Gap(text="a finished block contradicts what was streamed of it"))

    def _close_block(self) -> None:
        """Close the open text or reasoning block with what was said of it."""
        turn = self.state.turn
        if turn is None or turn.open is None:
            return
        text = "".join(turn.open.parts)
        if isinstance(turn.open, TextBlock):
            self._closed = text
            self.emit(TextDone(text=text))
        else:
            self.emit(ReasoningDone(text=text))

    # -- tool calls ------------------------------------------------------------------------------------

    def _call_started(self, event: ToolCallStarted) -> None:
        """Begin a call; where its dialect has no ids it gets one."""
        turn = self._turn()
        if event.call and event.call in turn.calls:
            return  # pando says it twice; the second brings the arguments
        self._close_block()
        self.emit(event if event.call else structs.replace(event, call=f"{turn.id}/{len(turn.calls)}"))

    def _begun_call(self, turn: OpenTurn, event: ToolCallArguments | ToolCallFinished) -> CallBlock:
        """Begin the call of an event, which nobody began, and return it."""
        self._call_started(ToolCallStarted(call=event.call, name=event.name))
        return turn.calls[event.call or f"{turn.id}/{len(turn.calls) - 1}"]

    def _call_arguments(self, event: ToolCallArguments) -> None:
        """Add a fragment, or all; a call that was not begun is begun."""
        turn = self._turn()
        block = _meant(turn, event.call, event.name, finished=False)
        if block is None and not event.done:  # heard from its middle on: its whole arguments, with its name, follow
            self._lose(event, "a fragment of a call whose beginning was not heard")
            return
        block = block or self._begun_call(turn, event)
        if block.arguments is None:
            self.emit(structs.replace(event, call=block.call, name=block.name))

    def _call_finished(self, event: ToolCallFinished) -> None:
        """Give a call its one result, after its arguments; some pandos tell only ends."""
        turn = self._turn()
        block = _meant(turn, event.call, event.name, finished=True)
        if block is None and (known := self._call_of_before(event)):
            name = event.name or self.state.unanswered.get(known, "")
            self.emit(structs.replace(event, call=known, name=name))
            return
        block = block or self._begun_call(turn, event)
        if block.result is not None:
            if (event.output, event.summary) != (block.result.output, block.result.summary):
                self._lose(event, "a second result of the same call")
            return
        self._complete(block)
        self.emit(structs.replace(event, call=block.call, name=block.name))

    def _call_of_before(self, event: ToolCallFinished) -> str:
        """Return the call of an earlier turn that is meant: by its id, else the first open one of that name, or ""."""
        unanswered = self.state.unanswered
        if not event.call:
            return next((call for call, called in unanswered.items() if called == event.name), "")
        is_known = event.call in unanswered or any(
            isinstance(item, ToolCall) and item.call == event.call for item in self.state.transcript
        )
        return event.call if is_known else ""

    def _complete(self, block: CallBlock) -> None:
        """Say the whole arguments of a call, if nobody did."""
        if block.arguments is None:
            arguments = "".join(block.parts)
            self.emit(ToolCallArguments(call=block.call, name=block.name, json=arguments, done=True))


def _meant(turn: OpenTurn, call: str, name: str, *, finished: bool) -> CallBlock | None:
    """Return the call meant: by its id, else the first open one of that name (docs/translation.md, rule 3.1)."""
    if call:
        return turn.calls.get(call)
    for block in turn.calls.values():
        if block.name == name and block.result is None and (finished or block.arguments is None):
            return block
    return None
