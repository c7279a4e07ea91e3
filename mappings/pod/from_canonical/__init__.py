"""Rules from canonical items to pod messages: the mirror of to_canonical, in the same order."""

from dragoman.mappings.pod.from_canonical.commands import FROM_COMMAND
from dragoman.mappings.pod.from_canonical.events import FROM_EVENT

__all__ = ["FROM_COMMAND", "FROM_EVENT"]
