"""The text and the tool calls of one turn, as a primary published them."""

from __future__ import annotations

from typing import get_args

from msgspec import Struct

from dragoman.mappings.bounded import remember
from dragoman.mappings.canonical import Event, events
from dragoman.mappings.in_words import without_runs
from dragoman.mappings.rfc3339 import NS

TEXT_MAX = 4 * 1024 * 1024  # characters of one turn that are kept for comparison; a longer turn is not repaired

CALL_SIZE = 256  # bytes of an open call beside its id and its input
CALL_MAX = 1024  # characters of the id of a call with a result that is kept

FINISHED_KEPT = 256  # newest calls with a result whose ids are kept: some models use an id again

PAUSE = 1.0  # seconds without output after which a turn may have ended unseen
BEFORE_MAX = 64  # turns before this one whose answers are kept; after more of them none is


class LatestCall(Struct):
    """The latest tool call of a primary: `is_hidden` is True if it was published only when it had ended."""

    is_hidden: bool = False


Content = events.TextDelta | events.ToolCallStarted | events.ToolCallArguments | events.ToolCallFinished
Output = events.ModelTurnStarted | Content
"""An event that belongs to a turn and opens one."""

OPENS = get_args(Output)


class StreamedOutput:
    """The published output of one turn; `calls` maps each open tool call id to the input in its first message.

    `latest_call` is shared by all turns of a primary. `before` are the texts of the turns before this one whose answer
    was not stored when they ended: a question in words ended them.
    """

    def __init__(self, latest_call: LatestCall, *, before: tuple[str, ...] = ()) -> None:
        self.latest_call = latest_call
        self.before = before
        self.at = 0
        """The time of the latest output in ns."""
        self.ends_in_result = False
        """True if the latest output is the result of a call."""
        self.length = 0
        """Characters of text so far."""
        self.calls: dict[str, str] = {}
        self._held = 0  # size of `calls`: beyond TEXT_MAX further calls are passed on, and not kept
        self.unfinished: set[str] = set()
        """Open calls whose whole input was not published yet."""
        self._finished: dict[str, None] = {}  # the newest calls with a result
        self.announced = False
        """True if the primary published the start of the turn, which released ones never do."""
        self._text: list[str] = []
        self.started = False
        """True if ModelTurnStarted was passed on."""

    def next(self, *, stored: bool = True) -> StreamedOutput:
        """Return the output of the next turn, which is empty. `stored` is False if no answer to this one was stored."""
        before = () if stored else tuple(filter(None, (*self.before, "".join(self._text))))
        is_kept = len(before) <= BEFORE_MAX and sum(map(len, before)) <= TEXT_MAX
        return StreamedOutput(self.latest_call, before=before if is_kept else ())

    def is_in_doubt(self, event: Event, now: int) -> bool:
        """Return True if an event at `now` (ns) may be output of another run: this one may have ended unseen."""
        if isinstance(event, events.TextDelta) and self.unfinished:
            return True
        is_new = isinstance(event, Content) and getattr(event, "call", "") not in self.calls
        return is_new and now - self.at >= PAUSE * NS and not self.announced

    def note_time(self, now: int) -> None:
        """Note that there is output at `now` (ns), or that it is no longer in doubt."""
        self.at = now

    def accept_unchecked(self, now: int) -> None:
        """Assign the output in doubt to this turn, because the store does not answer."""
        self.note_time(now)
        self.unfinished.clear()

    def go_on(self, now: int) -> None:
        """Assign the output in doubt to this turn, and drop a call whose stream broke inside its input."""
        self.note_time(now)
        if self.unfinished:
            self.drop_calls()

    def streams(self, now: int) -> bool:
        """Return True if text at `now` (ns) only continues the turn: it begins nothing, and is in no doubt."""
        return self.started and not self.unfinished and (now - self.at < PAUSE * NS or self.announced)

    def take(self, event: Output) -> list[Event]:
        """Return the events for a publication; add ModelTurnStarted before the first one if it was not published."""
        if isinstance(event, events.ModelTurnStarted):
            self.started = self.announced = True
            return [event]
        return [*self._start(), *self._take_content(event)]

    def _start(self) -> list[Event]:
        started, self.started = self.started, True
        return [] if started else [events.ModelTurnStarted()]

    def _take_content(self, event: Content) -> list[Event]:
        match event:
            case events.TextDelta():
                self.add_text(event.text, self.at)
                return [event]
            case events.ToolCallFinished():
                return self._finish_call(event)
            case _:
                return self._take_call(event)

    def add_text(self, text: str, now: int) -> None:
        self.at, self.ends_in_result = now, False
        self.length += len(text)
        if self.length <= TEXT_MAX:
            self._text.append(text)

    def _take_call(self, event: events.ToolCallStarted | events.ToolCallArguments) -> list[Event]:
        """Return the events of a tool call: its first message begins it, its second has the whole input."""
        self.latest_call.is_hidden = self.ends_in_result = False
        if event.call not in self.calls:
            return self._begin_call(event)
        if isinstance(event, events.ToolCallStarted):
            return []
        self._held -= len(self.calls[event.call])
        self.calls[event.call] = ""
        self.unfinished.discard(event.call)
        return [event]

    def _begin_call(self, event: events.ToolCallStarted | events.ToolCallArguments) -> list[Event]:
        started = events.ToolCallStarted(call=event.call, name=event.name)
        held = event.json if isinstance(event, events.ToolCallArguments) else ""
        size = CALL_SIZE + len(event.call) + len(held)
        if self._held + size > TEXT_MAX:
            return [started, event] if held else [started]
        self._held += size
        self.calls[event.call] = held
        if not held:
            self.unfinished.add(event.call)
        return [started]

    def _finish_call(self, event: events.ToolCallFinished) -> list[Event]:
        """Return the events of a result. If a hidden call has the id of an earlier call, first begin it."""
        hidden = event.call not in self.calls
        self.latest_call.is_hidden, self.ends_in_result = hidden, True
        arguments = self.calls.pop(event.call, "")
        if not hidden:
            self._held -= CALL_SIZE + len(event.call) + len(arguments)
        self.unfinished.discard(event.call)
        again = hidden and event.call in self._finished
        if len(event.call) <= CALL_MAX:
            remember(self._finished, event.call, None, FINISHED_KEPT)
        if again:
            return [events.ToolCallStarted(call=event.call, name=event.name), event]
        if not arguments:
            return [event]
        complete = events.ToolCallArguments(call=event.call, name=event.name, json=arguments, done=True)
        return [complete, event]

    def drop_calls(self) -> None:
        """Forget the open calls: their results will not come."""
        self.calls.clear()
        self.unfinished.clear()
        self._held = 0

    def is_within(self, stored: str) -> bool:
        """Return True if the published text is the beginning of this stored text."""
        return self.length <= TEXT_MAX and stored.startswith("".join(self._text))

    def is_all_of(self, stored: str) -> bool:
        """Return True if this stored text was published, all of it and nothing else."""
        return self.length == len(stored) and self.is_within(stored)

    def rest(self, stored: str, *, continues: bool = False) -> list[Event]:
        """Return the stored text that was not published, or a gap if the two differ (docs/translation.md, rule 3.7).

        `continues` is True if the stored text begins with the answers of the turns in `before`.
        """
        sent = "".join(self._text)
        stored = without_runs(stored, self.before) if continues else stored
        if self.length > TEXT_MAX or sent.startswith(stored):
            return []
        if stored.startswith(sent):
            return [*self._start(), events.TextDelta(text=stored[len(sent) :])]
        return [events.Gap(text="the stored messages contradict what was streamed of the answer")]
