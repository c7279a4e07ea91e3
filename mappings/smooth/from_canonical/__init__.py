"""Rules from canonical items to smooth messages: the mirror of to_canonical, in the same order."""

from dragoman.mappings.smooth.from_canonical.commands import FROM_COMMAND
from dragoman.mappings.smooth.from_canonical.context import Context, error_event
from dragoman.mappings.smooth.from_canonical.events import FROM_EVENT
from dragoman.mappings.smooth.from_canonical.replies import derived, public_ids

__all__ = ["FROM_COMMAND", "FROM_EVENT", "Context", "derived", "error_event", "public_ids"]
