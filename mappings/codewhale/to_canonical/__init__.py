"""Rules from codewhale to canonical: one small function for each message, in the order of the wire modules."""

from dragoman.mappings.codewhale.to_canonical.commands import TO_COMMAND
from dragoman.mappings.codewhale.to_canonical.events import TO_EVENT, envelope, place

__all__ = ["TO_COMMAND", "TO_EVENT", "envelope", "place"]
