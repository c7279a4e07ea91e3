"""Render the events of a recording again for a dialect, to show its frames or to find the losses of its clients.

The frames are those for the client that began each turn. Frames for one client alone are left out: the snapshot when
it attaches, and the answers to its commands.

A recording holds no ledger. A dialect counts from the first recorded frame of a client that speaks it. An event that
came in the dialect of the backend reaches clients of this dialect with all of its fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from typing import Any

from dragoman.gateway.recording.format import EventLine, FrameLine, Line
from dragoman.mappings.canonical import Batch
from dragoman.mappings.canonical.events import QuestionAnswered, QuestionAsked, TurnAccepted, TurnEnded
from dragoman.mappings.dialect import Dialect, Loss, Rendered
from dragoman.mappings.errors import ConfigError
from dragoman.mappings.losses import find_ext


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


Losses = Mapping[int, Sequence[str]]
"""Seq of an event -> texts, one for each dialect and reason, about the fields that clients did not get."""


def find_losses(session: str, lines: Iterable[Line], find_dialect: Callable[[str], Dialect]) -> Losses:
    """Return the losses of clients in the events of these lines."""
    finder = _LossFinder(find_dialect)
    for events in _delivered_together(finder.noting_dialects(lines)):
        finder.note_batch(_batch(session, events), events)
    return finder.lost


class _LossFinder:
    """Renders batches for the dialects of clients, in order, and notes the losses."""

    def __init__(self, find_dialect: Callable[[str], Dialect]) -> None:
        self._find_dialect = find_dialect
        self._clients: dict[str, tuple[int, Dialect, ProjectedSession] | None] = {}  # with the seq of the first frame
        self._backend = ""
        self._own: Mapping[type, tuple[str, ...]] = {}  # the fields of `ext` with content, by the kind of an event
        self.lost: dict[int, list[str]] = {}

    def noting_dialects(self, lines: Iterable[Line]) -> Iterator[Line]:
        """Yield these lines, and note the dialects of the frames among them."""
        for line in lines:
            if isinstance(line, FrameLine):
                self._note_dialect(line)
            yield line

    def note_batch(self, batch: Batch, events: Sequence[EventLine]) -> None:
        for name, client in self._clients.items():
            if client is not None and client[0] < events[-1].seq:
                self._note_losses(name, *client[1:], batch, events)

    def _note_dialect(self, frame: FrameLine) -> None:
        with suppress(ConfigError):  # a dialect that is not installed here
            if frame.upstream and frame.dialect != self._backend:
                self._backend = frame.dialect
                self._own = self._find_dialect(frame.dialect).events.to_canonical.ext
            elif not frame.upstream and frame.dialect not in self._clients:
                self._clients[frame.dialect] = None
                dialect = self._find_dialect(frame.dialect)
                self._clients[frame.dialect] = frame.seq, dialect, ProjectedSession(dialect)

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
            event: Any = line.event
            rule = dialect.events.from_canonical.lossy.get(type(event))
            fields = rule.find_lost(event) if rule is not None else ()
            own = self._own.get(type(event), ())
            fields += find_ext(event.ext, self._backend, own) if own and event.ext is not None else ()
            if fields and type(event).__name__ not in lost:
                self._add(line, f"{name} clients get it without {', '.join(fields)}")

    def _note_loss(self, name: str, loss: Loss, events: Sequence[EventLine]) -> None:
        text = f"{name} clients get it without {loss.field}" if loss.field else f"{name} clients do not get it"
        text = f"{text}: {loss.why}" if loss.why else text
        concerned = [line for line in events if type(line.event).__name__ == loss.kind]
        for line in concerned or events[-1:]:
            self._add(line, text)

    def _add(self, line: EventLine, text: str) -> None:
        texts = self.lost.setdefault(line.seq, [])
        if text not in texts:
            texts.append(text)


# -- batches --------------------------------------------------------------------------------------------------


def batches(session: str, lines: Iterable[Line]) -> Iterator[Batch]:
    """Return the events of the log in batches, as they were delivered."""
    return (_batch(session, events) for events in _delivered_together(lines))


def _delivered_together(lines: Iterable[Line]) -> Iterator[list[EventLine]]:
    """Yield the events of the log that were delivered together: of one time and one turn, up to a question."""
    logged = (line for line in lines if isinstance(line, EventLine) and line.logged)
    for _, together in groupby(logged, _batch_key):
        some: list[EventLine] = []
        for line in together:
            some.append(line)
            if isinstance(line.event, QuestionAsked | QuestionAnswered):  # a client's run ends there
                yield some
                some = []
        if some:
            yield some


def _batch_key(line: EventLine) -> tuple[object, ...]:
    return line.t, line.turn, line.origin, line.at, line.position[0]


def _batch(session: str, lines: Sequence[EventLine]) -> Batch:
    first, events = lines[0], [line.event for line in lines]
    epoch, seq = first.position
    return Batch(
        session=session, epoch=epoch, first_seq=seq, events=events, turn=first.turn, origin=first.origin, at=first.at
    )
