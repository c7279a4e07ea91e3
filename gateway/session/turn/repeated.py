"""What a gateway in a pod's place tells again of an open turn, once it is found again (docs/translation.md, rule 4.10).

A pod goes on where it is. A gateway shows the turn in progress to every link that attaches, in the order of its blocks:
what was heard before the connection was lost comes once more. It is known by being the very same from its beginning.

    the next of what was heard, again               dropped
    the open block's text with more behind it       only what is new
    anything else                                   no repetition, or the end of it: everything passes from here on
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from msgspec import structs

from dragoman.mappings.canonical import SessionState, prelude
from dragoman.mappings.canonical.events import (
    Event,
    ReasoningDelta,
    ReasoningDone,
    ReasoningStarted,
    TextDelta,
    TextDone,
    ToolCallArguments,
    ToolCallFinished,
    ToolCallStarted,
)

__all__ = ["Repeated"]

CONTENT = frozenset({
    TextDelta, TextDone, ReasoningStarted, ReasoningDelta, ReasoningDone, ToolCallStarted, ToolCallArguments,
    ToolCallFinished,
})  # fmt: skip


class Repeated:
    """What was heard of the open turn, as far as it may come again."""

    def __init__(self, state: SessionState) -> None:
        self._turn = state.turn.id if state.turn is not None else ""
        self._heard: deque[Event] = deque(event for event in prelude(state) if type(event) in CONTENT)

    def expected(self, state: SessionState) -> bool:
        """Return True while more of it may come: that turn is open, and nothing else was said of it."""
        return bool(self._heard) and state.turn is not None and state.turn.id == self._turn

    def without(self, events: Sequence[Any]) -> list[Any]:
        """Return what of these events is new."""
        return [new for event in events for new in self._new(event)]

    def _new(self, event: Any) -> Sequence[Any]:
        if not self._heard or type(event) not in CONTENT:
            return (event,)
        heard: Any = self._heard.popleft()
        if type(heard) is type(event):
            match heard:
                case TextDelta() | ReasoningDelta() if event.text.startswith(heard.text):
                    return _more(event, "text", event.text[len(heard.text) :])
                case ToolCallArguments(call=event.call, done=False) if not event.done:
                    if event.json.startswith(heard.json):
                        return _more(event, "json", event.json[len(heard.json) :])
                case TextDone() | ReasoningDone() if event.text == heard.text:
                    return ()
                case ReasoningStarted():
                    return ()
                case ToolCallStarted() | ToolCallArguments() | ToolCallFinished() if event.call == heard.call:
                    return () if getattr(event, "done", True) == getattr(heard, "done", True) else (event,)
        self._heard.clear()
        return (event,)


def _more(event: Any, field: str, rest: str) -> Sequence[Any]:
    return (structs.replace(event, **{field: rest}),) if rest else ()
