"""The codewhale wire: structs exactly as on the wire, one codec for each direction."""

from mappings.codewhale.wire.answers import EVENTS
from mappings.codewhale.wire.calls import REQUESTS

__all__ = ["EVENTS", "REQUESTS"]
