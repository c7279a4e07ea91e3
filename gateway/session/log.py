"""The log of one session: the newest batches of events, bounded by number and size.

A client that reads slowly has a cursor into it, and is disconnected if the log no longer reaches back to its cursor.
Before anything is dropped for its number, old pieces of text, reasoning, tool arguments and tool output are merged. A
run of them becomes one event, which keeps where the text of each seq ends. So a cursor inside it still finds exactly
the rest of its text. Between turns, a log that no client needs is empty: clients that attach then are shown the
transcript.

    over `log_max` events   merge the oldest pieces; if that helps nothing, drop the oldest batch
    over `log_bytes`        drop the oldest batch: merging saves no text
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, chain, groupby

from msgspec import Struct, structs

from dragoman.adapters.base import do_nothing
from dragoman.adapters.meter import STEP
from dragoman.gateway.config.model import Limits
from dragoman.gateway.session.weight import of_text
from dragoman.mappings.canonical import Batch, Event, SessionState
from dragoman.mappings.canonical.events import (
    QuestionAsked,
    ReasoningDelta,
    TextDelta,
    ToolCallArguments,
    ToolOutputDelta,
)
from dragoman.mappings.canonical.values import Origin
from dragoman.mappings.dialect import DeltaType

EVENT_SIZE = 256  # bytes of an event besides its text, so that a flood of tiny deltas is counted as its memory
MERGED_AT_ONCE = 4096  # events: about 1 ms of work
MERGED_MIN = 2  # pieces of a run
PARTS = 4  # open text is at most a quarter of the log, because a batch is dropped as a whole


Stream = tuple[str, ...]
"""The stream that a piece belongs to. Pieces of one stream may be joined if nothing is between them."""

_TEXT: Stream = ("text",)
_CONTENT_FIELD = {TextDelta: "text", ReasoningDelta: "text", ToolOutputDelta: "text", ToolCallArguments: "json"}


class LogEntry(Struct, kw_only=True):
    """A batch of the log with its weight. For a merged run of pieces `ends` has the end of the text of each seq."""

    batch: Batch
    weight: int
    ends: array[int] | None = None

    def batch_from(self, seq: int) -> Batch:
        """Return the batch without its events and text before this seq."""
        skipped = seq - self.batch.first_seq
        if skipped <= 0:
            return self.batch
        events = self.batch.events[skipped:]
        if self.ends is not None:
            (piece,) = self.batch.events
            events = [with_content(piece, content_of_piece(piece)[self.ends[skipped - 1] :])]
        return structs.replace(self.batch, first_seq=seq, events=events)


NOTHING_MERGED: deque[LogEntry] = deque(maxlen=0)
NO_BATCHES: deque[LogEntry] = deque(maxlen=0)
"""Containers that all empty logs share: a deque takes 760 bytes, and an idle session would have two."""


class Log:
    """The newest batches of a session. `turn_weight` counts the bytes that a new client is sent of the open turn."""

    __slots__ = (
        "_batches",
        "_close_text",
        "_count",
        "_delta",
        "_events_max",
        "_grown",
        "_merged",
        "_on_growth",
        "_state",
        "_weight",
        "_weight_max",
        "text_is_open",
        "turn_weight",
    )

    def __init__(self, state: SessionState, limits: Limits) -> None:
        self._state = state
        self._events_max = limits.log_max
        self._weight_max = limits.log_bytes
        self._merged = NOTHING_MERGED  # the oldest
        self._batches = NO_BATCHES  # the others, in which nothing is merged yet
        self._count = 0
        self._weight = 0
        self._grown = 0  # bytes appended since `_on_growth` was called
        self._on_growth: Callable[[], None] = do_nothing
        self._close_text: Callable[[], Sequence[str]] | None = None
        self._delta: DeltaType = TextDelta  # of the pieces that it returns
        self.text_is_open = False  # more text may be added to the newest batch
        self.turn_weight = 0

    @property
    def size(self) -> int:
        return self._weight + EVENT_SIZE * self._count

    def watch(self, on_growth: Callable[[], None] = do_nothing) -> None:
        """Call `on_growth` whenever the log has grown by another STEP of bytes; without an argument, stop that.

        It may drop a part of the log.
        """
        self._on_growth = on_growth

    def append(self, events: list[Event], turn: str, origin: Origin, at: int, weight: int, in_turn: int = 0) -> Batch:
        """Append events of one turn, with their weight and the bytes that they add to the turn; return their batch."""
        if self.text_is_open:
            self.close_text()
        state = self._state
        ids = state.chosen_ids if state.backend_ids is None else state.backend_ids  # no property: for each token
        batch = Batch(
            session=state.id,
            epoch=state.epoch,
            first_seq=state.seq,
            events=events,
            turn=turn,
            origin=origin,
            at=at,
            ids=ids,
        )
        state.seq += len(events)
        if self._batches is NO_BATCHES:
            self._batches = deque()
        self._batches.append(LogEntry(batch=batch, weight=weight))
        self.turn_weight += in_turn
        self._grow(len(events), weight)
        return batch

    def open_text(
        self, delta: DeltaType, events: int, weight: int, close: Callable[[], Sequence[str]]
    ) -> tuple[int, int]:
        """Return how many further pieces of the type `delta` the caller may collect for the newest batch, and how many
        characters.

        Room is made for them. `close` is called before any other change of the log, and returns the collected pieces.
        """
        self.close_text()
        self._delta, self._close_text, self.text_is_open = delta, close, True
        events, weight = min(events, self._events_max // PARTS), min(weight, self._weight_max // PARTS)
        self._make_room(events, weight)
        return events, weight

    def close_text(self) -> None:
        """Add the collected text to the newest batch; no more is collected."""
        close, self._close_text, self.text_is_open = self._close_text, None, False
        pieces = close() if close is not None else ()
        if not pieces:
            return
        text = "".join(pieces)
        self.turn_weight += of_text(text)
        newest = self._batches[-1]
        events = [*newest.batch.events, *[self._delta(text=piece) for piece in pieces]]
        newest.batch = structs.replace(newest.batch, events=events)  # others may still have the batch
        newest.weight += len(text)
        self._grow(len(pieces), len(text))

    def clear(self) -> None:
        """Drop all batches, because no client needs them."""
        if self.text_is_open:
            self.close_text()
        self._merged, self._batches = NOTHING_MERGED, NO_BATCHES
        self._count = self._weight = 0

    def drop_half(self) -> None:
        """Merge, then drop the oldest batches until half of the memory is free.

        A client that still needs what was dropped is disconnected.
        """
        goal = self.size // 2
        while self.size > goal and len(self._batches) > 1 and self._merge_oldest():
            pass
        while self.size > goal and len(self._merged) + len(self._batches) > 1:
            self._drop_oldest()

    def _grow(self, count: int, weight: int) -> None:
        self._count += count
        self._weight += weight
        if self._count > self._events_max or self._weight > self._weight_max:
            self._make_room()
        self._grown += weight + EVENT_SIZE * count
        if self._grown >= STEP:
            self._grown = 0
            self._on_growth()

    def _make_room(self, count: int = 0, weight: int = 0) -> None:
        """Shorten the log until this much more fits, or only the newest batch is left."""
        events_max, weight_max = self._events_max - count, self._weight_max - weight
        while (self._count > events_max or self._weight > weight_max) and len(self._batches) > 1:
            if self._weight > weight_max or not self._merge_oldest():
                self._drop_oldest()

    def _merge_oldest(self) -> bool:
        """Merge the oldest pieces of which none was merged yet; return False if there were no two of a run."""
        before, left = self._count, max(2, min(MERGED_AT_ONCE, self._events_max // 2))
        run: list[LogEntry] = []
        if self._merged is NOTHING_MERGED:
            self._merged = deque()
        stream: Stream | None = None  # the stream of the current run
        while left > 0 and len(self._batches) > 1:
            entry = self._batches.popleft()
            left -= len(entry.batch.events)
            own = stream_of_all(entry.batch.events)
            if run and not (own is not None and own == stream and _are_of_one_turn(run[-1].batch, entry.batch)):
                self._merge_run(run, stream)
                run = []
            run.append(entry)
            stream = own
        self._merge_run(run, stream)
        return self._count < before

    def _merge_run(self, run: list[LogEntry], stream: Stream | None) -> None:
        """Replace these entries by one, if all of their events are pieces of one stream."""
        pieces = [event for entry in run for event in entry.batch.events]
        if stream is None or len(pieces) < MERGED_MIN:
            self._merged += run
            return
        texts = [*map(content_of_piece, pieces)]
        batch = structs.replace(run[0].batch, events=[with_content(pieces[0], "".join(texts))])
        ends = array("I", accumulate(map(len, texts)))
        added = ends.itemsize * len(ends)
        self._merged.append(LogEntry(batch=batch, weight=sum(entry.weight for entry in run) + added, ends=ends))
        self._weight += added
        self._count -= len(pieces) - 1

    def _drop_oldest(self) -> None:
        oldest = self._merged.popleft() if self._merged else self._batches.popleft()
        self._count -= len(oldest.batch.events)
        self._weight -= oldest.weight

    def unlogged(self, events: list[Event]) -> Batch:
        """Return events of the open turn as a batch for one client, which is not in the log."""
        state, turn = self._state, self._state.turn
        return Batch(
            session=state.id,
            epoch=state.epoch,
            first_seq=state.seq,
            events=events,
            turn=turn.id if turn else "",
            origin=turn.origin if turn else Origin(),
            at=state.updated_at,
            ids=state.ids,
        )

    def end_turn(self) -> None:
        """Start to count the size of the next turn at zero."""
        self.turn_weight = 0

    def reaches(self, cursor: int) -> bool:
        oldest = next(chain(self._merged, self._batches), None)
        return oldest is None or cursor >= oldest.batch.first_seq

    def batches_from(self, cursor: int, limit: int) -> Iterator[tuple[Batch, int]]:
        """Yield the log from `cursor`, at most about `limit` events, each batch with the seq after it.

        Neighbours of one turn are joined. A merged event stands for several seqs.
        """
        if self.text_is_open:
            self.close_text()
        joined: Batch | None = None
        after = cursor
        # Copied, because the delivery of these may shorten the log.
        for entry in (*_from_cursor(self._merged, cursor, limit), *_from_cursor(self._batches, cursor, limit)):
            end = _seq_after(entry)
            if limit <= 0:
                break
            batch = entry.batch_from(cursor)
            limit -= end - batch.first_seq
            if joined is not None and _are_of_one_turn(joined, batch):
                joined.events.extend(batch.events)
            else:
                if joined is not None:
                    yield joined, after
                joined = structs.replace(batch, events=list(batch.events))
            after = end
        if joined is not None:
            yield joined, after


def _from_cursor(entries: Sequence[LogEntry], cursor: int, limit: int) -> list[LogEntry]:
    """Return the entries with the event at the cursor and with the next events, as many as `limit` events need."""
    start = bisect_right(entries, cursor, key=_seq_after)
    return [entries[at] for at in range(start, min(start + limit + 1, len(entries)))]


def _seq_after(entry: LogEntry) -> int:
    return entry.batch.first_seq + len(entry.batch.events if entry.ends is None else entry.ends)


def _are_of_one_turn(one: Batch, other: Batch) -> bool:
    """Return True if two batches may be joined: an input may be accepted after its turn began, a question ends one."""
    if type(one.events[-1]) is QuestionAsked:
        return False
    return (one.turn, one.origin, one.epoch) == (other.turn, other.origin, other.epoch)


# -- pieces of streamed content, and how neighbours are joined -----------------------------------------


def stream_of(event: Event) -> Stream | None:
    """Return the stream of an event, None if it is no piece of any."""
    match event:
        case TextDelta():
            return _TEXT
        case ReasoningDelta():
            return ("reasoning",)
        case ToolCallArguments(done=False):
            return ("arguments", event.call, event.name)
        case ToolOutputDelta():
            return ("output", event.call)
        case _:
            return None


def stream_of_all(events: Sequence[Event]) -> Stream | None:
    """Return the stream to which all of these events belong, None if they do not belong to one."""
    stream = stream_of(events[0]) if events else None
    return stream if stream is not None and all(stream_of(event) == stream for event in events) else None


def content_of_piece(piece: Event) -> str:
    content: str = getattr(piece, _CONTENT_FIELD[type(piece)])
    return content


def with_content(piece: Event, content: str) -> Event:
    """Return a piece of the same stream with this content."""
    return structs.replace(piece, **{_CONTENT_FIELD[type(piece)]: content, "ext": None})


def join_pieces(events: Sequence[Event]) -> list[Event]:
    """Return the events, with adjacent pieces of each stream joined."""
    joined: list[Event] = []
    for stream, group in groupby(events, stream_of):
        some = [*group]
        if stream is None or len(some) == 1:
            joined += some
        else:
            joined.append(with_content(some[0], "".join(map(content_of_piece, some))))
    return joined
