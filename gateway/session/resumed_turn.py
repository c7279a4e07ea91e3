"""Filter the events of a turn that continues after its connection was lost (docs/translation.md, rule 4.10).

A gateway that serves as a pod shows a turn in progress from its beginning to every link that attaches. A real pod
continues where it is, perhaps in the middle of a block, and the events that it sent meanwhile are missing. So the first
events after a new connection are read in this order, until one ends the stage:

    stage       event                                    becomes
    REPEATED    the next known event, again              nothing; after the last one: NEW
                the text of the open block, and more     the new text: NEW
                any other                                as in CUT: nothing is repeated
    CUT         text of the block that was cut           nothing yet: it waits for the done text, which has all text
                the done text of this block              itself: NEW
                the end of the block without it          a Gap, the text that waited, itself: NEW
    NEW         any                                      itself

Arguments of a call that had begun wait, in any stage, for their end, which has all of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from enum import Enum, auto
from typing import Any

from msgspec import structs

from dragoman.gateway.session.turn_recovery import as_events, items_of_earlier_turns
from dragoman.mappings.canonical import Event, SessionState, events, prelude
from dragoman.mappings.canonical.state import ReasoningBlock, TextBlock

CONTENT = frozenset(
    {
        events.TextDelta,
        events.TextDone,
        events.ReasoningStarted,
        events.ReasoningDelta,
        events.ReasoningDone,
        events.ToolCallStarted,
        events.ToolCallArguments,
        events.ToolCallFinished,
    }
)

DONE: dict[type, type] = {TextBlock: events.TextDone, ReasoningBlock: events.ReasoningDone}
DONE_OF_DELTA: dict[type, type] = {events.TextDelta: events.TextDone, events.ReasoningDelta: events.ReasoningDone}
BOUNDARIES = CONTENT | {
    events.ModelTurnStarted,
    events.ModelTurnEnded,
    events.TurnResult,
    events.StatusChanged,
    events.TurnEnded,
}
"""Events that show that the open block has ended, unless they are its own deltas or its done event."""

HELD_MAX = 256 * 1024
"""Characters of a block that wait for its done text. A longer text is sent without its missing part."""

MISSED = events.Gap(text="a part of the answer may be missing: the connection to the backend was lost meanwhile")


class Stage(Enum):
    """The kind of event that the backend is expected to send next."""

    REPEATED = auto()
    CUT = auto()
    NEW = auto()


class ResumedTurn:
    """The open turn of `state` after the connection was lost and made again.

    `logged` is True if the log of the backend had the text of the open block, at least up to now.
    """

    def __init__(self, state: SessionState, *, logged: bool = False) -> None:
        self._state = state
        self._turn = state.turn.id if state.turn is not None else ""
        heard = [*as_events(items_of_earlier_turns(state)), *prelude(state)]
        self._seen: deque[Event] = deque(event for event in heard if type(event) in CONTENT)
        self._stage = Stage.REPEATED if self._seen else Stage.CUT
        self._logged = logged
        self.held: list[events.TextDelta | events.ReasoningDelta] = []
        """Deltas of the block that was cut, which wait for its done text."""
        self._weight = 0
        calls = state.turn.calls.values() if state.turn is not None else ()
        self.unfinished = {block.call: 0 for block in calls if block.arguments is None}
        """Calls whose arguments had begun: the number of fragments that were dropped since, after the missed part."""

    @property
    def expected(self) -> bool:
        """True while the turn is open and its next event may be repeated, or belong to a block with a missed part."""
        turn = self._state.turn
        is_filtered = self._stage is not Stage.NEW or bool(self.unfinished)
        return is_filtered and (turn.id if turn is not None else "") == self._turn

    def new_events(self, events: Sequence[Any]) -> list[Any]:
        """Return the new events, and the new part of a text of which a part is known."""
        return [new for event in events for new in self._new(event)]

    def _new(self, event: Any) -> Sequence[Any]:
        if type(event) not in BOUNDARIES or (type(event) is events.StatusChanged and event.status == "running"):
            return (event,)
        if self._stage is Stage.REPEATED:
            new = self._repeated(event)
            if new is not None:
                self._stage = Stage.REPEATED if self._seen else Stage.NEW
                return new
            self._stage = Stage.CUT
        if type(event) is events.ToolCallArguments and event.call in self.unfinished:
            if not event.done:
                self.unfinished[event.call] += 1
                return ()
            del self.unfinished[event.call]
        return self._continued(event) if self._stage is Stage.CUT else (event,)

    def _repeated(self, event: Any) -> Sequence[Any] | None:
        """Return the new part of an event that repeats the next known one; None if it does not repeat it."""
        heard: Any = self._seen.popleft()
        if type(heard) is not type(event):
            return None
        match heard:
            case events.TextDelta() | events.ReasoningDelta() if event.text.startswith(heard.text):
                return _more(event, "text", event.text[len(heard.text) :])
            case events.ToolCallArguments(call=event.call, done=False) if not event.done:
                if event.json.startswith(heard.json):
                    return _more(event, "json", event.json[len(heard.json) :])
            case events.TextDone() | events.ReasoningDone() if event.text == heard.text:
                return ()
            case events.ReasoningStarted():
                return ()
            case events.ToolCallStarted() | events.ToolCallArguments() | events.ToolCallFinished() if (
                event.call == heard.call
            ):
                return () if getattr(event, "done", True) == getattr(heard, "done", True) else (event,)
        return None

    def _continued(self, event: Any) -> Sequence[Any]:
        """Return the events of a block of which a part was missed, once the block has ended."""
        kind = type(event)
        if kind in DONE_OF_DELTA and (not self.held or type(self.held[0]) is kind):
            if event.text:  # so the bound of the text bounds their number, too
                self.held.append(event)
            self._weight += len(event.text)
            return () if self._weight <= HELD_MAX else self._released()
        block = self._state.turn.open if self._state.turn is not None else None
        streamed = DONE_OF_DELTA.get(type(self.held[0])) if self.held else kind
        if kind is not streamed or kind not in DONE.values():
            return (*self._released(), event)
        self._stage = Stage.NEW
        self.held.clear()
        sent = "".join(block.parts) if block is not None else ""
        if block is None or DONE[type(block)] is kind:
            is_next = self._logged and not event.text.startswith(sent)
            return (events.TextDone(text=sent), event) if is_next else (event,)
        ended = DONE[type(block)](text=sent)
        return (ended, event) if self._logged else (MISSED, ended, event)

    def _released(self) -> Sequence[Any]:
        """Return the deltas that waited, after a Gap if a part of their block may be missing."""
        self._stage = Stage.NEW
        is_cut = self._state.turn is not None and self._state.turn.open is not None and not self._logged
        released = [*self.held]
        self.held.clear()
        return [MISSED, *released] if released or is_cut else []


def _more(event: Any, field: str, rest: str) -> Sequence[Any]:
    return (structs.replace(event, **{field: rest}),) if rest else ()
