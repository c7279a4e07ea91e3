"""A streamed text: held back, looked through as a whole, and given out again in its deltas.

A delta leaves when it is known what stands in it: at the end of its block, or before that once it is `overdue` and
nothing that could still become a secret begins in it. What has left is remembered as far as a secret may reach back, so
that one whose first letters are gone is still seen, and the rest of it taken out. A text that is overdue while a secret
is in the middle of being said is given out with a placeholder for what was said of it.

The deltas that are given out are together what `replaced` makes of the whole text: a placeholder stands in the delta in
which its secret began, and the others lack what they had of it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import Generic, TypeVar

from msgspec import Struct

from dragoman.gateway.recording.redaction.finder import Finder
from dragoman.gateway.recording.redaction.spans import Mark, Span, merged

__all__ = ["BEHIND", "BEHIND_MAX", "HIDDEN", "Block", "Delta"]

Slot = TypeVar("Slot")
Find = Callable[[str], list[Span]]

BEHIND = 512  # characters that have left and are looked at again: a name, its sign and the begin of its value
BEHIND_MAX = 64 * 1024  # of one secret that goes on and on
HIDDEN = 4  # characters: fewer of what may become a secret tell nothing


class Delta(Struct, Generic[Slot], eq=False):
    """A piece of the text that came at `t`, and whose it is; it `waits` until what stands in it is known.

    Some that came at one time are one, with the text of each in `pieces`.
    """

    slot: Slot
    text: str
    t: int
    pieces: Sequence[str] = ()
    waits: bool = True


Given = list[tuple[Delta[Slot], Sequence[tuple[str, Sequence[Span]]] | None]]
"""Deltas that leave: with nothing, if they are as they were; else each piece as it is now, and what began in it."""


class Block(Generic[Slot]):
    """One streamed text.

    `whole` finds the secrets of a text that is there from begin to end, `finder` those of a part of one.
    """

    def __init__(self, finder: Finder, whole: Find, mark: Mark) -> None:
        self._finder = finder
        self._whole = whole
        self._mark = mark
        self._behind = ""
        self._marked = 0  # up to where in it secrets have their placeholders
        self._begun = False  # some of it has left
        self._deltas: deque[Delta[Slot]] = deque()
        self.held = 0  # characters

    @property
    def since(self) -> int | None:
        """When the oldest delta that is held came."""
        return self._deltas[0].t if self._deltas else None

    def older(self, *, t: int | None = None, characters: int | None = None) -> int:
        """How many deltas came until `t`, or have so many characters behind them."""
        if t is not None:
            return sum(1 for delta in self._deltas if delta.t <= t)
        left, count = self.held, 0
        for delta in self._deltas:
            left -= len(delta.text)
            if characters is not None and left < characters:
                break
            count += 1
        return count

    def add(self, delta: Delta[Slot]) -> None:
        """More of the text."""
        self._deltas.append(delta)
        self.held += len(delta.text)

    def finish(self) -> Given[Slot]:
        """The text is complete: all that is held, with the secrets that begin in it."""
        text = self._text()
        spans = self._finder.find(text) if self._begun else self._whole(text)
        return self._give(text, spans, len(self._deltas))

    def give(self, overdue: int) -> Given[Slot]:
        """What can leave, and the first `overdue` deltas in any case."""
        text = self._text()
        spans = self._finder.find(text)
        unfinished = self._finder.open(text)
        safe = min(unfinished.start if unfinished is not None else len(text), len(text) - self._finder.reach)
        ends = list(accumulate((len(delta.text) for delta in self._deltas), initial=len(self._behind)))[1:]
        count = bisect_right(ends, safe)
        for span in reversed(spans):
            if count and span.start < ends[count - 1] < span.end:
                count = bisect_right(ends, span.start)
        if count < overdue:
            count = overdue
            if unfinished is not None and unfinished.end - unfinished.start >= HIDDEN:
                spans = merged([*spans, unfinished])
        return self._give(text, spans, count, unfinished)

    def _text(self) -> str:
        return self._behind + "".join(delta.text for delta in self._deltas)

    def _give(self, text: str, spans: list[Span], count: int, unfinished: Span | None = None) -> Given[Slot]:
        """The first deltas leave, without these secrets."""
        at = len(self._behind)
        given: Given[Slot] = []
        waiting = deque(span for span in spans if span.end > at)
        for _ in range(count):
            delta = self._deltas.popleft()
            delta.waits = False
            self.held -= len(delta.text)
            end = at + len(delta.text)
            if waiting and waiting[0].start < end:
                ends = list(accumulate(map(len, delta.pieces or (delta.text,)), initial=at))
                given.append((delta, [self._without(text, start, stop, waiting) for start, stop in pairwise(ends)]))
            else:
                given.append((delta, None))
            at = end
        self._begun = self._begun or bool(given)
        begins = [span.start for span in (*([unfinished] if unfinished is not None else []), *waiting)]
        self._remember(text, at, min([at, *begins]))
        return given

    def _without(self, text: str, start: int, end: int, waiting: deque[Span]) -> tuple[str, list[Span]]:
        parts: list[str] = []
        begun: list[Span] = []
        at = start
        while waiting and waiting[0].start < end:
            span = waiting[0]
            parts.append(text[at : max(at, span.start)])
            if span.start >= self._marked:
                parts += (span.quote, self._mark(span.kind, text[span.start : span.end]), span.quote)
                begun.append(span)
            self._marked = max(self._marked, span.end)
            at = min(span.end, end)
            if span.end > end:
                break
            waiting.popleft()
        parts.append(text[at:end])
        return "".join(parts), begun

    def _remember(self, text: str, at: int, begin: int) -> None:
        """What has left, from well before where something may go on."""
        start = max(0, begin - max(BEHIND, self._finder.reach), at - BEHIND_MAX)
        self._behind = text[start:at]
        self._marked = max(0, self._marked - start)
