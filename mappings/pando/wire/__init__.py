"""The wire of pando: its structs, and one codec for each direction."""

from dragoman.mappings.pando.wire.codecs import EVENTS, REQUESTS

__all__ = ["EVENTS", "REQUESTS"]
