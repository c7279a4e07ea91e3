"""A recording as frames of a dialect: those that its projection broadcasts, batch by batch.

The frames are those for the client that began each turn. Frames for one client alone are left out: the snapshot when
it attaches, and the answers to its commands.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dragoman.gateway.recording.lines import EventLine, Line
from dragoman.gateway.recording.reader import batches
from dragoman.mappings.canonical.events import TurnAccepted, TurnEnded
from dragoman.mappings.dialect import Dialect, Rendered

__all__ = ["projected"]


def projected(dialect: Dialect, session: str, lines: Iterable[Line]) -> Iterator[Rendered]:
    """Yield the frames that a client of `dialect` gets for these lines, with the losses."""
    projection = dialect.projection("", "")
    for batch in batches(session, (line for line in lines if isinstance(line, EventLine))):
        if dialect.has_request_ids and any(isinstance(event, TurnAccepted) for event in batch.events):
            projection = projection.copy(batch.origin.request)
        yield projection.render(batch)
        if dialect.has_request_ids and isinstance(batch.events[-1], TurnEnded):
            projection = dialect.projection("", "")
