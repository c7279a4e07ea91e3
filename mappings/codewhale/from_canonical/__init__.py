"""Rules from canonical items to codewhale messages: the mirror of to_canonical, in the same order."""

from dragoman.mappings.codewhale.from_canonical.commands import FROM_COMMAND, brought_along, taken_along
from dragoman.mappings.codewhale.from_canonical.context import Context
from dragoman.mappings.codewhale.from_canonical.events import FROM_EVENT
from dragoman.mappings.codewhale.from_canonical.replies import public_ids

__all__ = ["FROM_COMMAND", "FROM_EVENT", "Context", "brought_along", "public_ids", "taken_along"]
