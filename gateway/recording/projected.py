"""A recording as clients of a dialect would see it: the frames that its projection broadcasts, batch by batch.

They are those of the client that began each turn. What is said to one client alone when it attaches (a snapshot, the
answer to its command) is no part of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dragoman.gateway.recording.lines import EventLine, Line
from dragoman.gateway.recording.reader import batches
from dragoman.mappings.canonical.events import TurnAccepted, TurnEnded
from dragoman.mappings.dialect import Dialect, Rendered

__all__ = ["projected"]


def projected(dialect: Dialect, session: str, lines: Iterable[Line]) -> Iterator[Rendered]:
    """What a client of `dialect` sees of these lines, and what it does not."""
    projection = dialect.projection("", "")
    for batch in batches(session, (line for line in lines if isinstance(line, EventLine))):
        if dialect.has_request_ids and any(isinstance(event, TurnAccepted) for event in batch.events):
            projection = projection.copy(batch.origin.request)
        yield projection.render(batch)
        if dialect.has_request_ids and isinstance(batch.events[-1], TurnEnded):
            projection = dialect.projection("", "")
