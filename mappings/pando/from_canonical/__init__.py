"""Rules from canonical items to pando messages: the mirror of to_canonical, in the same order."""

from dragoman.mappings.pando.from_canonical.commands import FROM_COMMAND
from dragoman.mappings.pando.from_canonical.context import Context
from dragoman.mappings.pando.from_canonical.events import FROM_EVENT
from dragoman.mappings.pando.from_canonical.replies import public_ids

__all__ = ["FROM_COMMAND", "FROM_EVENT", "Context", "public_ids"]
