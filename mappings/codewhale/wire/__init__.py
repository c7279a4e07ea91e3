"""The wire format of codewhale: structs with the names of the wire, and one codec for each direction."""

from dragoman.mappings.codewhale.wire.codecs import EVENTS, REQUESTS

__all__ = ["EVENTS", "REQUESTS"]
