"""The codewhale wire: structs exactly as on the wire, one codec for each direction."""

from dragoman.mappings.codewhale.wire.codecs import EVENTS, REQUESTS

__all__ = ["EVENTS", "REQUESTS"]
