"""The codewhale wire: structs exactly as on the wire, one codec for each direction."""

from dragoman.mappings.codewhale.wire.answers import EVENTS
from dragoman.mappings.codewhale.wire.calls import REQUESTS

__all__ = ["EVENTS", "REQUESTS"]
