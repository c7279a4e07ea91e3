"""The pod wire: structs exactly as on the wire, one codec for each direction."""

from dragoman.mappings.pod.wire.codecs import EVENTS, MAX_DEPTH, METHODS

__all__ = ["EVENTS", "MAX_DEPTH", "METHODS"]
