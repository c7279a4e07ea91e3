"""canonical -> pod: the mirror of to_canonical, and what a pod's clients are shown of a session."""

from dragoman.mappings.pod.from_canonical.commands import FROM_COMMAND
from dragoman.mappings.pod.from_canonical.events import FROM_EVENT

__all__ = ["FROM_COMMAND", "FROM_EVENT"]
