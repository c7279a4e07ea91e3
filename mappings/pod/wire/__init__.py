"""The wire format of pod: structs with the names of the wire, and one codec for each direction."""

from dragoman.mappings.pod.wire.codecs import EVENTS, METHODS

__all__ = ["EVENTS", "METHODS"]
