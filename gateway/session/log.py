"""The log of one session: the newest batches of events, bounded by number and size.

A client that reads slowly has a cursor into it, and is disconnected if the log no longer reaches back to its cursor.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from msgspec import structs

from dragoman.adapters.meter import STEP
from dragoman.gateway.config.model import Limits
from dragoman.mappings.canonical import Batch, Event, SessionState
from dragoman.mappings.canonical.events import QuestionAsked
from dragoman.mappings.canonical.values import Origin

__all__ = ["Log"]

EVENT_SIZE = 256  # bytes of an event beside its text: a flood of tiny deltas is counted as its memory


class Log:
    """The newest batches of a session. `turn_weight` counts the characters of the open turn so far."""

    def __init__(self, state: SessionState, limits: Limits) -> None:
        self._state = state
        self._events_max = limits.log_max
        self._weight_max = limits.log_bytes
        self._batches: deque[tuple[Batch, int]] = deque()  # each with its weight
        self._count = 0
        self._weight = 0
        self._grown = 0  # bytes appended since `_on_growth` was called
        self._on_growth: Callable[[], None] = _nothing
        self.turn_weight = 0

    @property
    def size(self) -> int:
        """The memory of the log, in bytes."""
        return self._weight + EVENT_SIZE * self._count

    def watch(self, on_growth: Callable[[], None] = lambda: None) -> None:
        """Call `on_growth` each time after the log took in another STEP of bytes; without an argument, call nobody.

        It may drop a part of the log.
        """
        self._on_growth = on_growth

    def append(self, events: list[Event], turn: str, origin: Origin, at: int, weight: int) -> Batch:
        """Append events of one turn, which weigh so many characters, and return their batch."""
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
        self.turn_weight += weight
        self._batches.append((batch, weight))
        self._count += len(events)
        self._weight += weight
        while (self._count > self._events_max or self._weight > self._weight_max) and len(self._batches) > 1:
            self._drop_oldest()
        self._grown += weight + EVENT_SIZE * len(events)
        if self._grown >= STEP:
            self._grown = 0
            self._on_growth()
        return batch

    def drop_half(self) -> None:
        """Drop the oldest batches until half of the memory is free; a client that still needs them is disconnected."""
        goal = self.size // 2
        while self.size > goal and len(self._batches) > 1:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        oldest, weight = self._batches.popleft()
        self._count -= len(oldest.events)
        self._weight -= weight

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
        """Weigh the next turn from zero."""
        self.turn_weight = 0

    def reaches(self, cursor: int) -> bool:
        """Return True if no event from `cursor` on was dropped."""
        return not self._batches or cursor >= self._batches[0][0].first_seq

    def batches_from(self, cursor: int, limit: int) -> Iterator[Batch]:
        """Yield the log from `cursor`, at most about `limit` events; neighbours of one turn are joined."""
        joined: Batch | None = None
        for batch, _ in tuple(self._batches):  # whoever delivers them may have the log shortened
            if batch.first_seq + len(batch.events) <= cursor:
                continue
            if limit <= 0:
                break
            limit -= len(batch.events)
            if joined is not None and _are_of_one_turn(joined, batch):
                joined.events.extend(batch.events)
                continue
            if joined is not None:
                yield joined
            joined = structs.replace(batch, events=list(batch.events))
        if joined is not None:
            yield joined


def _are_of_one_turn(one: Batch, other: Batch) -> bool:
    """Return True if two batches may be joined: an input may be accepted after its turn began, a question ends one."""
    if type(one.events[-1]) is QuestionAsked:
        return False
    return (one.turn, one.origin, one.epoch) == (other.turn, other.origin, other.epoch)


def _nothing() -> None:
    """Do nothing: nobody counts the memory of this log."""
