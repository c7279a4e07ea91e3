"""The wire of codewhale: its structs, and one codec for each direction."""

from dragoman.mappings.codewhale.wire.codecs import EVENTS, REQUESTS

__all__ = ["EVENTS", "REQUESTS"]
