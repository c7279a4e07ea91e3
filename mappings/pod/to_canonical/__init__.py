"""Rules from pod messages to canonical items: one function for each message, in the order of docs/dialects/pod.md."""

from dragoman.mappings.pod.to_canonical.commands import TO_COMMAND
from dragoman.mappings.pod.to_canonical.events import TO_EVENT

__all__ = ["TO_COMMAND", "TO_EVENT"]
