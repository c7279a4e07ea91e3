"""Find out how a turn went on whose connection to the backend was lost (docs/translation.md, rule 4.10).

A backend that outlives its connections shows its history to each new one. `find_turn` finds the input of the open turn
there, and returns how that turn stands:

    running   its run goes on         its events follow; `missed` are told now
    ended     its run has an end      `missed` are told now, then that end
    unknown   the history tells none  the turn is lost

The log of a backend has whole blocks only. A block that still streams goes on by deltas, and its done text is right.

A pod goes on where it is. A gateway in its place shows a turn in progress from its beginning to every link that
attaches. `RepeatedEvents` compares what comes with what was heard:

    the next event that was heard, again            is dropped
    the text of the open block, and more            becomes the new text alone
    anything else                                   ends the repetition: all that follows passes
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from msgspec import Struct, structs

from dragoman.mappings.canonical import OpenTurn, SessionState, prelude
from dragoman.mappings.canonical import events as e
from dragoman.mappings.canonical.state import ReasoningBlock, TextBlock
from dragoman.mappings.canonical.values import End, Failure, Item, Message, PastRun, Reasoning, ToolCall, ToolResult


class FoundTurn(Struct, frozen=True, kw_only=True):
    """The state of a turn. `own` are the items of its run behind its input, as far as the history has them."""

    verdict: Literal["running", "ended", "unknown"]
    own: tuple[Item, ...] = ()
    end: End = "completed"
    failure: Failure | None = None

    def ending_events(self) -> list[e.Event]:
        """Return the events that end the turn as the history says."""
        status = e.StatusChanged(status="paused" if self.end == "paused" else "idle")
        if self.failure is not None:
            return [e.ErrorReported(cause=self.failure.cause, text=self.failure.text), status]
        return [e.TurnResult(end=self.end), status]


UNKNOWN = FoundTurn(verdict="unknown")


def find_turn(state: SessionState, text: str | None, history: e.HistorySnapshot) -> FoundTurn:
    """Return how the turn of the input `text` stands in `history`; None is a turn without an input of its own.

    `state` is as it was when the connection was lost: with that turn open, or with the input not accepted yet.
    """
    if state.conversation and history.conversation and state.conversation != history.conversation:
        return UNKNOWN
    if text is None:
        runs = _new_runs(state, history)
        if not runs and history.status == "running":
            return FoundTurn(verdict="running")
        return _state_of_run(runs[0], runs[0].first, history) if len(runs) == 1 else UNKNOWN
    at, is_known = _find_input(state, text, history)
    if at is not None:
        run = next((run for run in history.runs if run.last > at), None)
        return _state_of_run(run, at + 1, history)
    is_untouched = state.turn is not None and state.turn.accepted and not state.turn.blocks
    if is_known and is_untouched:  # a pod takes an input back that it had not begun to answer
        return FoundTurn(verdict="ended", end="rolled_back")
    return UNKNOWN


def _state_of_run(run: PastRun | None, first: int, history: e.HistorySnapshot) -> FoundTurn:
    is_last = run is None or run is history.runs[-1]
    own = history.items[first : run.last if run is not None else None]
    if history.status == "running" and is_last:
        return FoundTurn(verdict="running", own=own)
    if run is None or run.end is None:
        return UNKNOWN
    is_paused = run.end == "cancelled" and is_last and history.status == "paused"  # a pod's log has one entry for both
    return FoundTurn(verdict="ended", own=own, end="paused" if is_paused else run.end, failure=run.failure)


def _new_runs(state: SessionState, history: e.HistorySnapshot) -> list[PastRun]:
    """Return the runs behind everything that was known before the turn."""
    known, told = _spoken(state.transcript[: state.fresh]), _spoken(history.items)
    if told[: len(known)] != known:
        return []
    return [run for run in history.runs if len(_spoken(history.items[: run.first])) >= len(known)]


def _spoken(items: Sequence[Item]) -> list[tuple[str, str]]:
    return [(item.role, item.text) for item in items if isinstance(item, Message) and item.role != "system"]


def _find_input(state: SessionState, text: str, history: e.HistorySnapshot) -> tuple[int | None, bool]:
    """Return the index of the input, and True if the history is known to agree with the transcript before it.

    A history that was rewritten meanwhile is searched from its end.
    """
    items = history.items
    inputs = [i for i, item in enumerate(items) if isinstance(item, Message) and item.role == "user"]
    known = [text for role, text in _spoken(state.transcript[: state.fresh]) if role == "user"]
    told = [text for role, text in _spoken(items) if role == "user"]
    if told[: len(known)] == known:
        rest = inputs[len(known) :]
        is_there = bool(rest) and told[len(known)] == text
        return (rest[0] if is_there else None), bool(known or history.conversation)
    return next((i for i, said in zip(reversed(inputs), reversed(told), strict=True) if said == text), None), False


# -- what was missed of a run ------------------------------------------------------------------------


def missed_events(turn: OpenTurn, known: Sequence[Item], own: Sequence[Item]) -> list[e.Event]:
    """Return events for what `own`, the items of the turn's run, have beyond the events that were heard.

    `known` are the items of the transcript that came with the turn.
    """
    heard = [(item.role, item.text) for item in known if isinstance(item, Message)]
    texts = deque(block for block in turn.blocks if isinstance(block, TextBlock))
    thoughts = deque(block for block in turn.blocks if isinstance(block, ReasoningBlock))
    events: list[e.Event] = []
    for item in own:
        if isinstance(item, Message) and item.role != "assistant":
            if (item.role, item.text) in heard:
                heard.remove((item.role, item.text))
            elif item.role == "user" and (turn.blocks or turn.model_turn is not None):
                events.append(e.Gap(text="the message that this turn answers was missed"))  # too late to show it
            else:
                events.append(e.MessageAppended(message=item))
        elif isinstance(item, Message):
            events += [e.TextDone(text=text) for text in _rest(texts, item.text)]
        elif isinstance(item, Reasoning):
            events += [e.ReasoningDone(text=text) for text in _rest(thoughts, item.text)]
        elif isinstance(item, ToolCall):
            called = turn.calls.get(item.call)
            if called is None or called.arguments is None:
                events.append(e.ToolCallArguments(call=item.call, name=item.name, json=item.arguments, done=True))
        else:
            events += _result(turn, item)
    return events


def _rest(heard: deque[TextBlock] | deque[ReasoningBlock], text: str) -> Iterator[str]:
    """Yield the text of a block that was not heard to its end; the heard blocks that it matches are used up."""
    while heard and text:
        block = heard.popleft()
        said = "".join(block.parts)
        if not block.done:
            yield text
            return
        if not text.startswith(said):  # parts were missed in between: the text that was heard stays
            return
        text = text[len(said) :]
    if text:
        yield text


def _result(turn: OpenTurn, item: ToolResult) -> list[e.Event]:
    called = turn.calls.get(item.call)
    if called is not None and called.result is not None:
        return []
    return [
        e.ToolCallFinished(
            call=item.call, name=item.name, summary=item.summary, output=item.output, is_error=item.is_error
        )
    ]


# -- what is told again -------------------------------------------------------------------------------

CONTENT = frozenset(
    {
        e.TextDelta,
        e.TextDone,
        e.ReasoningStarted,
        e.ReasoningDelta,
        e.ReasoningDone,
        e.ToolCallStarted,
        e.ToolCallArguments,
        e.ToolCallFinished,
    }
)


class RepeatedEvents:
    """The events of the open turn that were heard, and may come again."""

    def __init__(self, state: SessionState) -> None:
        self._turn = state.turn.id if state.turn is not None else ""
        self._heard: deque[e.Event] = deque(event for event in prelude(state) if type(event) in CONTENT)

    def expected(self, state: SessionState) -> bool:
        """Return True while more may come again: the turn is open, and nothing new was said of it."""
        return bool(self._heard) and state.turn is not None and state.turn.id == self._turn

    def without(self, events: Sequence[Any]) -> list[Any]:
        """Return the events that are new, and the new part of a text that was heard in part."""
        return [new for event in events for new in self._new(event)]

    def _new(self, event: Any) -> Sequence[Any]:
        if not self._heard or type(event) not in CONTENT:
            return (event,)
        heard: Any = self._heard.popleft()
        if type(heard) is type(event):
            match heard:
                case e.TextDelta() | e.ReasoningDelta() if event.text.startswith(heard.text):
                    return _more(event, "text", event.text[len(heard.text) :])
                case e.ToolCallArguments(call=event.call, done=False) if not event.done:
                    if event.json.startswith(heard.json):
                        return _more(event, "json", event.json[len(heard.json) :])
                case e.TextDone() | e.ReasoningDone() if event.text == heard.text:
                    return ()
                case e.ReasoningStarted():
                    return ()
                case e.ToolCallStarted() | e.ToolCallArguments() | e.ToolCallFinished() if event.call == heard.call:
                    return () if getattr(event, "done", True) == getattr(heard, "done", True) else (event,)
        self._heard.clear()
        return (event,)


def _more(event: Any, field: str, rest: str) -> Sequence[Any]:
    return (structs.replace(event, **{field: rest}),) if rest else ()
