"""The content of a turn in normal form: text and reasoning blocks, and tool calls.

Blocks open, grow and are closed with all of their text. A tool call has an id, its complete arguments and one result.
"""

from __future__ import annotations

from msgspec import structs

from dragoman.gateway.session.runs import Runs
from dragoman.mappings.canonical import OpenTurn, events
from dragoman.mappings.canonical.state import CallBlock, ReasoningBlock, TextBlock

INCOMPLETE_MAX = 256  # calls of a turn whose whole arguments were not sent: the end of the turn sends them in one step
TOO_MANY_INCOMPLETE = f"the oldest of more than {INCOMPLETE_MAX} calls without their whole arguments was completed"


class Content:
    """Brings the content of a turn into its normal form.

    Content without an open turn opens a turn that the backend began.
    """

    __slots__ = ("_closed", "_runs", "_state")

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._state = runs.state
        self._closed = ("", "")  # turn and text of the block that we closed before its backend did

    # -- text and reasoning ----------------------------------------------------------------------------

    def text_delta(self, event: events.TextDelta) -> None:
        turn = self._state.turn or self._runs.require_turn()
        if type(turn.open) is ReasoningBlock:
            self.close_block()
        self._runs.emit(event)

    def text_done(self, event: events.TextDone) -> None:
        """Close a text block. If its deltas left out a part of the text, send that part first."""
        if self._state.turn is None and not event.text:
            return  # an empty text opens no turn
        turn = self._runs.require_turn()
        if type(turn.open) is ReasoningBlock:
            self.close_block()
        block = turn.open
        if block is None and (not event.text or (turn.id, event.text) == self._closed):
            self._closed = ("", "")
            return  # nothing new: an empty block, or one that we closed already
        sent = "".join(block.parts) if block is not None else ""
        self._rest(sent, event.text, events.TextDelta)
        self._runs.emit(event)

    def reasoning_started(self, event: events.ReasoningStarted) -> None:
        self._runs.require_turn()
        self.close_block()
        self._runs.emit(event)

    def reasoning_delta(self, event: events.ReasoningDelta) -> None:
        turn = self._runs.require_turn()
        if type(turn.open) is not ReasoningBlock:
            self.close_block()
            self._runs.emit(events.ReasoningStarted())
        self._runs.emit(event)

    def reasoning_done(self, event: events.ReasoningDone) -> None:
        """Complete a block of reasoning. The backend may keep its text to itself."""
        if self._state.turn is None and not event.text:
            return
        turn = self._runs.require_turn()
        if type(turn.open) is not ReasoningBlock:
            if not event.text:
                return
            self.close_block()
            self._runs.emit(events.ReasoningStarted())
        sent = "".join(turn.open.parts) if turn.open is not None else ""
        if event.text:
            self._rest(sent, event.text, events.ReasoningDelta)
        self._runs.emit(event if event.text or not sent else structs.replace(event, text=sent))

    def _rest(self, sent: str, text: str, delta: type[events.TextDelta | events.ReasoningDelta]) -> None:
        """Send the text of a done block that follows its deltas; report a Gap for the text before them.

        If the gateway connected while a block was streaming, it received only the end of its deltas.
        """
        if text == sent:
            return
        if text.startswith(sent):
            self._runs.emit(delta(text=text[len(sent) :]))
        elif text.endswith(sent):
            self._runs.emit_gap(events.Gap(text="the beginning of a block was not received"))
        else:
            self._runs.emit_gap(events.Gap(text="a finished block contradicts what was streamed of it"))

    def close_block(self) -> None:
        """Close the open text or reasoning block with the text that was streamed."""
        turn = self._state.turn
        if turn is None or turn.open is None:
            return
        text = "".join(turn.open.parts)
        if isinstance(turn.open, TextBlock):
            self._closed = (turn.id, text)
            self._runs.emit(events.TextDone(text=text))
        else:
            self._runs.emit(events.ReasoningDone(text=text))

    def model_continued(self, event: events.ModelContinuation) -> None:
        """End the open block, because the stream of the model broke inside it: the model begins its answer again."""
        self._runs.require_turn()
        self.close_block()
        self._runs.emit(event)

    def model_turn_started(self, event: events.ModelTurnStarted) -> None:
        """Number the model turn. If no turn is open, it opens one that the backend began."""
        self._runs.require_turn()
        self._runs.start_model_turn(event)

    def model_turn_ended(self, event: events.ModelTurnEnded) -> None:
        """End the model turn, after closing a block that a broken stream of the model left open."""
        turn = self._runs.require_turn()
        self.close_block()
        self.complete_calls(turn)
        self._runs.emit(event)

    # -- tool calls ------------------------------------------------------------------------------------

    def call_started(self, event: events.ToolCallStarted) -> None:
        """Begin a call, with an id of ours if its dialect has none."""
        turn = self._runs.require_turn()
        known = turn.calls.get(event.call)
        if known is not None and known.result is None:
            return  # pando sends it twice; the second has the arguments
        self.close_block()
        self._runs.emit(event if event.call else structs.replace(event, call=f"{turn.id}/{len(turn.calls)}"))
        if len(turn.incomplete) > INCOMPLETE_MAX:
            self.complete(next(iter(turn.incomplete.values())))
            self._runs.lose(event, TOO_MANY_INCOMPLETE)

    def _begin_call(self, turn: OpenTurn, event: events.ToolCallArguments | events.ToolCallFinished) -> CallBlock:
        """Begin and return a call whose start the backend did not report."""
        self.call_started(events.ToolCallStarted(call=event.call, name=event.name))
        return turn.calls[event.call or f"{turn.id}/{len(turn.calls) - 1}"]

    def call_arguments(self, event: events.ToolCallArguments) -> None:
        """Add a fragment of the arguments, or all of them. Begin the call if its start was not reported."""
        turn = self._runs.require_turn()
        block = _find_call(turn, event.call, event.name, finished=False)
        if block is None and not event.done:  # the gateway missed its start: its whole arguments, with its name, follow
            self._runs.lose(event, "a fragment of a call whose beginning was not received")
            return
        block = block or self._begin_call(turn, event)
        if block.arguments is None:
            self._runs.emit(structs.replace(event, call=block.call, name=block.name))

    def call_finished(self, event: events.ToolCallFinished) -> None:
        """Send the only result of a call, after its arguments. Some pandos report only the ends of calls."""
        turn = self._runs.require_turn()
        block = _find_call(turn, event.call, event.name, finished=True)
        if block is None and (known := self._find_earlier_call(event)):
            name = event.name or self._state.earlier_calls.get(known) or ""
            self._runs.emit(structs.replace(event, call=known, name=name))
            return
        block = block or self._begin_call(turn, event)
        if block.result is not None:
            if (event.output, event.summary) != (block.result.output, block.result.summary):
                self._runs.lose(event, "a second result of the same call")
            return
        self.complete(block)
        self._runs.emit(structs.replace(event, call=block.call, name=block.name))

    def _find_earlier_call(self, event: events.ToolCallFinished) -> str:
        """Return the open call of an earlier turn that this finishes, by id or else by name; "" if there is none."""
        calls = self._state.earlier_calls
        if not event.call:
            return next((call for call, unanswered in calls.items() if unanswered == event.name), "")
        return event.call if calls.get(event.call) is not None else ""

    def complete_calls(self, turn: OpenTurn, *, is_cut: bool = False) -> None:
        """Send the whole arguments of each call whose arguments are incomplete.

        If the turn was cut off inside the arguments of a call (`is_cut`), that call was never made, and nothing is sent
        for it.
        """
        for block in list(turn.incomplete.values()):
            if not (is_cut and block.parts):
                self.complete(block)

    def complete(self, block: CallBlock) -> None:
        """Send the whole arguments of a call, unless they were sent."""
        if block.arguments is None:
            arguments = "".join(block.parts) or "{}"  # missing arguments are JSON too, for clients that parse them
            self._runs.emit(events.ToolCallArguments(call=block.call, name=block.name, json=arguments, done=True))


def _find_call(turn: OpenTurn, call: str, name: str, *, finished: bool) -> CallBlock | None:
    """Return the call with this id, else the first open one of this name (docs/translation.md, rule 3.1)."""
    if call:
        return turn.calls.get(call)
    open_ones = turn.running.get(name, {}) if finished else turn.incomplete
    return next((block for block in open_ones.values() if block.name == name), None)
