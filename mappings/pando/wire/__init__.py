"""The pando wire: structs exactly as on the wire, one codec for each direction."""

from mappings.pando.wire.codecs import EVENTS, REQUESTS

__all__ = ["EVENTS", "REQUESTS"]
