"""The rendering of one session for all pod clients that are attached to it.

It keeps no text, because the session's normal form has whole blocks and ids for tool calls. It keeps counters of model
turns and model calls, which other dialects do not send. It holds the events that wait for the answer to a question.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dragoman.mappings.canonical import Batch
from dragoman.mappings.canonical.events import ReasoningDelta, TextDelta
from dragoman.mappings.dialect import DeltaType, Rendered, TextWriter
from dragoman.mappings.in_words import ParkedTurn
from dragoman.mappings.pod.from_canonical.context import Context, Counter
from dragoman.mappings.pod.from_canonical.events import FROM_EVENT
from dragoman.mappings.pod.wire import events as wire
from dragoman.mappings.pod.wire.codecs import EVENTS


class Projection(Context):
    """The rendering of one session; `alone` is True if each line is translated without the others (`translate`)."""

    def __init__(self, _request: str = "", _view: str = "", *, alone: bool = False) -> None:
        super().__init__(alone=alone)
        self._parked_turn = ParkedTurn()

    def render(self, batch: Batch) -> Rendered:
        """Return the lines that broadcast this batch."""
        self.session = batch.session
        self.turn = batch.turn
        return self.write(self._parked_turn.admit_events(batch.events, self.lose), batch.at)

    def text_writer(self, delta: DeltaType) -> TextWriter | None:
        """Return a fast writer for further pieces of a block; None while a question parks the turn."""
        return None if self._parked_turn.parked else WRITERS[delta]

    def write(self, items: Iterable[Any], at: int) -> Rendered:
        """Return the items as lines, in order, and the losses."""
        self.at = at
        functions, encode = FROM_EVENT.functions, EVENTS.encode
        frames = [encode(message) for item in items for message in functions[type(item)](item, self)]
        return Rendered(frames=frames, losses=self.take_losses())

    def copy(self, _request: str | None = None) -> Projection:
        """Return an independent copy; all pod clients get the same frames, whoever owns the run."""
        twin = Projection(alone=self.alone)
        twin.session, twin.turn, twin.at = self.session, self.turn, self.at
        twin.parked, twin._parked_turn = self.parked, self._parked_turn.copy()
        twin.turns, twin.model_calls = Counter(last=self.turns.last), Counter(last=self.model_calls.last)
        return twin


def write_text(text: str, _at: int) -> list[bytes]:
    """Return a piece of text as a `text_delta` line."""
    return [EVENTS.encode(wire.TextDelta(data=wire.TextData(text=text)))]


def write_thinking(text: str, _at: int) -> list[bytes]:
    """Return a piece of reasoning as a `thinking_delta` line."""
    return [EVENTS.encode(wire.ThinkingDelta(data=wire.TextData(text=text)))]


WRITERS: dict[DeltaType, TextWriter] = {TextDelta: write_text, ReasoningDelta: write_thinking}
