"""A recording as frames of a dialect: those that its projection broadcasts, batch by batch.

The frames are those for the client that began each turn. Frames for one client alone are left out: the snapshot when
it attaches, and the answers to its commands.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dragoman.gateway.recording.lines import EventLine, Line
from dragoman.gateway.recording.reader import batches
from dragoman.mappings.canonical import Batch
from dragoman.mappings.canonical.events import TurnAccepted, TurnEnded
from dragoman.mappings.dialect import Dialect, Rendered


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
    for batch in batches(session, (line for line in lines if isinstance(line, EventLine))):
        yield seen.render(batch)
