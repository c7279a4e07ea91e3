"""Render the events of a recording again for a dialect: for its frames, or to find what clients did not get.

The frames are those for the client that began each turn. Frames for one client alone are left out: the snapshot when
it attaches, and the answers to its commands.

A recording holds no ledger. A dialect counts from the first recorded frame of a client that speaks it. An event that
came in the dialect of the backend reaches clients of this dialect with all of its fields.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby

from dragoman.gateway.recording.format import EventLine, FrameLine, Line
from dragoman.mappings.canonical import Batch
from dragoman.mappings.canonical.events import QuestionAnswered, QuestionAsked, TurnAccepted, TurnEnded
from dragoman.mappings.dialect import Dialect, Loss, Rendered
from dragoman.mappings.errors import ConfigError


class ProjectedSession:
    """A session as it is rendered for a client of one dialect that begins every turn."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._projection = dialect.projection("", "")

    def render(self, batch: Batch) -> Rendered:
        """Return the frames that such a client gets for a batch, with the losses."""
        has_request_ids = self._dialect.has_request_ids
        if has_request_ids and any(isinstance(event, TurnAccepted) for event in batch.events):
            self._projection = self._projection.copy(batch.origin.request)
        rendered = self._projection.render(batch)
        if has_request_ids and isinstance(batch.events[-1], TurnEnded):
            self._projection = self._dialect.projection("", "")
        return rendered


def projected(dialect: Dialect, session: str, lines: Iterable[Line]) -> Iterator[Rendered]:
    """Yield the frames that a client of `dialect` gets for these lines, with the losses."""
    seen = ProjectedSession(dialect)
    for batch in batches(session, lines):
        yield seen.render(batch)


class LossFinder:
    """Finds what clients did not get of the events of one recording."""

    def __init__(self, session: str, find_dialect: Callable[[str], Dialect]) -> None:
        self._session = session
        self._find_dialect = find_dialect
        self._clients: dict[str, tuple[Dialect, ProjectedSession] | None] = {}
        self._backend = ""
        self._lost: dict[int, list[str]] = {}

    def lines(self, lines: Iterable[Line]) -> Iterator[Line]:
        """Yield these lines, each event after its losses are known."""
        held: deque[Line] = deque()

        def noted() -> Iterator[Line]:
            for line in lines:
                held.append(line)
                yield line

        for batch in batches(self._session, noted()):
            yield from self._of_batch(batch, held)
        yield from held

    def take(self, seq: int) -> list[str]:
        """Return the losses of the event `seq` in words, one for each dialect and reason, and forget them."""
        return self._lost.pop(seq, [])

    def _of_batch(self, batch: Batch, held: deque[Line]) -> Iterator[Line]:
        """Yield the held lines up to the end of this batch, after the losses of its events are known."""
        passed: list[Line] = []
        events: list[EventLine] = []
        while len(events) < len(batch.events):
            line = held.popleft()
            passed.append(line)
            if isinstance(line, FrameLine):
                self._note_dialect(line)
            elif line.logged:
                events.append(line)
        for name, client in self._clients.items():
            if client is not None:
                self._note_losses(name, *client, batch, events)
        yield from passed

    def _note_dialect(self, frame: FrameLine) -> None:
        if frame.upstream:
            self._backend = frame.dialect
        elif frame.dialect not in self._clients:
            try:
                dialect = self._find_dialect(frame.dialect)
            except ConfigError:  # a dialect that is not installed here
                self._clients[frame.dialect] = None
            else:
                self._clients[frame.dialect] = dialect, ProjectedSession(dialect)

    def _note_losses(
        self, name: str, dialect: Dialect, client: ProjectedSession, batch: Batch, events: Sequence[EventLine]
    ) -> None:
        try:
            losses = client.render(batch).losses
        except Exception:  # noqa: BLE001  # events in an order that no session has: the recording is shown all the same
            self._clients[name] = None
            return
        for loss in losses:
            self._note_loss(name, loss, events)
        if name == self._backend:
            return
        lost = {loss.kind for loss in losses}
        for line in events:
            rule = dialect.events.from_canonical.lossy.get(type(line.event))
            if rule is not None and type(line.event).__name__ not in lost and (fields := rule.find_lost(line.event)):
                self._add(line, f"{name} clients get it without {', '.join(fields)}")

    def _note_loss(self, name: str, loss: Loss, events: Sequence[EventLine]) -> None:
        text = f"{name} clients get it without {loss.field}" if loss.field else f"{name} clients do not get it"
        text = f"{text}: {loss.why}" if loss.why else text
        concerned = [line for line in events if type(line.event).__name__ == loss.kind]
        for line in concerned or events[-1:]:
            self._add(line, text)

    def _add(self, line: EventLine, text: str) -> None:
        texts = self._lost.setdefault(line.seq, [])
        if text not in texts:
            texts.append(text)


# -- batches --------------------------------------------------------------------------------------------------


def batches(session: str, lines: Iterable[Line]) -> Iterator[Batch]:
    """Return the events of the log in batches, as they were delivered: of one time and one turn, up to a question."""
    logged = (line for line in lines if isinstance(line, EventLine) and line.logged)
    for _, together in groupby(logged, _batch_key):
        some: list[EventLine] = []
        for line in together:
            some.append(line)
            if isinstance(line.event, QuestionAsked | QuestionAnswered):  # a client's run ends there
                yield _batch(session, some)
                some = []
        if some:
            yield _batch(session, some)


def _batch_key(line: EventLine) -> tuple[object, ...]:
    return line.t, line.turn, line.origin, line.at, line.position[0]


def _batch(session: str, lines: Sequence[EventLine]) -> Batch:
    first, events = lines[0], [line.event for line in lines if line.event is not None]
    epoch, seq = first.position
    return Batch(
        session=session, epoch=epoch, first_seq=seq, events=events, turn=first.turn, origin=first.origin, at=first.at
    )
