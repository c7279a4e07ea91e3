"""Rules from codewhale messages to canonical items: one function for each, in the order of the wire modules."""

from dragoman.mappings.codewhale.to_canonical.commands import TO_COMMAND
from dragoman.mappings.codewhale.to_canonical.events import TO_EVENT, envelope, place

__all__ = ["TO_COMMAND", "TO_EVENT", "envelope", "place"]
