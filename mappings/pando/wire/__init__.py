"""The wire format of pando: structs with the names of the wire, and one codec for each direction."""

from dragoman.mappings.pando.wire.codecs import EVENTS, REQUESTS

__all__ = ["EVENTS", "REQUESTS"]
