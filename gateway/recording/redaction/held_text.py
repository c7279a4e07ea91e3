"""A streamed text that is held back, searched as a whole, and released again in its deltas.

A delta is released once its content is decided: at the end of the text, or earlier when it is overdue and no secret can
begin in it any more. Released text is remembered as far back as a secret may begin. So the rest of a secret is removed
even if its first letters were released. A text that is overdue in the middle of a secret is released with a placeholder
for the part that came. Together the released deltas are what `replaced` makes of the whole text.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, pairwise
from operator import attrgetter

from msgspec import Struct

from dragoman.gateway.recording.redaction.finder import HIDDEN, Finder
from dragoman.gateway.recording.redaction.spans import Mark, Span, merged, overlapping, replaced_in_pieces

BEHIND = 512  # characters of released text that are searched again: a name, its sign and the start of its value
BEHIND_MAX = 64 * 1024  # likewise, for one long secret

TEXT, TIME, CHANGED = map(attrgetter, ("text", "t", "changed"))  # of a HeldDelta; `map` with them makes no Python calls


class HeldDelta(Struct, eq=False):
    """A piece of a text that came at `t`; it `waits` until its content is decided and it is released.

    Deltas that came together are one, with the text of each in `pieces`. If it has secrets, `changed` has the new text
    of each piece, with the secrets that begin in it.
    """

    text: str
    t: int
    pieces: Sequence[str] = ()
    waits: bool = True
    changed: Iterator[tuple[str, Sequence[Span]]] | None = None


class HeldText:
    """A text that streams. `whole` finds the secrets of a complete text, `finder` those of a part of it."""

    __slots__ = ("_begun", "_behind", "_deltas", "_finder", "_mark", "_marked", "_whole", "held")

    def __init__(self, finder: Finder, whole: Callable[[str], list[Span]], mark: Mark) -> None:
        self._finder = finder
        self._whole = whole
        self._mark = mark
        self._behind = ""  # the end of the released text
        self._marked = 0  # index in it up to which secrets have their placeholders
        self._begun = False  # True once some of the text was released
        self._deltas: list[HeldDelta] = []
        self.held = 0  # characters

    def count_before_last(self, characters: int) -> int:
        """Return the number of deltas that are followed by at least `characters` characters."""
        left, count = self.held, 0
        for delta in self._deltas:
            left -= len(delta.text)
            if left < characters:
                break
            count += 1
        return count

    def add(self, delta: HeldDelta) -> None:
        """Hold the next delta of the text."""
        self._deltas.append(delta)
        self.held += len(delta.text)

    def finish(self) -> None:
        """Release everything that is held: the text is complete."""
        text, ends = self._joined()
        spans = self._finder.find(text) if self._begun else self._whole(text)
        self._release(text, spans, ends)

    def release_held_since(self, since: int, until: int) -> None:
        """Release decided deltas if the oldest delta came by `since`, and in any case those that came by `until`."""
        if self._deltas and self._deltas[0].t <= since:
            self.release(bisect_right(self._deltas, until, key=TIME))

    def release(self, overdue: int) -> None:
        """Release decided deltas, and in any case the first `overdue` ones."""
        text, ends = self._joined()
        spans = self._finder.find(text)
        unfinished = self._finder.find_open(text)
        safe = min(unfinished.start if unfinished is not None else len(text), len(text) - self._finder.reach)
        count = bisect_right(ends, safe, lo=1) - 1
        for span in reversed(spans):
            if count and span.start < ends[count] < span.end:
                count = bisect_right(ends, span.start, lo=1) - 1
        if count < overdue:
            count = overdue
            if unfinished is not None and unfinished.end - unfinished.start >= HIDDEN:
                spans = merged([*spans, unfinished])
        self._release(text, spans, ends[: count + 1], unfinished)

    def _joined(self) -> tuple[str, list[int]]:
        """Return the remembered text with the held one, the end of the first, and the end of each delta."""
        texts = [*map(TEXT, self._deltas)]
        return self._behind + "".join(texts), [*accumulate(map(len, texts), initial=len(self._behind))]

    def _release(self, text: str, spans: list[Span], ends: list[int], unfinished: Span | None = None) -> None:
        """Release the first deltas, up to the last of their `ends`, without these secrets."""
        deltas = self._deltas[: len(ends) - 1]
        del self._deltas[: len(deltas)]
        at = ends[-1]
        self.held -= at - ends[0]
        for delta in deltas:
            delta.waits = False
        if spans:
            for place, inside in enumerate(overlapping(spans, pairwise(ends))):
                if inside:
                    delta = deltas[place]
                    pieces = list(pairwise(accumulate(map(len, delta.pieces or (delta.text,)), initial=ends[place])))
                    delta.changed = iter([*replaced_in_pieces(text, pieces, inside, self._mark, self._marked)])
                    self._marked = max(self._marked, inside[-1].end)
        self._begun = self._begun or bool(deltas)
        begin = at if unfinished is None else min(at, unfinished.start)  # where something may go on
        for span in spans:
            if span.end > at:
                begin = min(begin, span.start)
        start = max(0, begin - max(BEHIND, self._finder.reach), at - BEHIND_MAX)
        self._behind = text[start:at]
        self._marked = max(0, self._marked - start)
