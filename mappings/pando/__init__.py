"""pando: ZeroMQ between the instances of a coding agent, one primary that publishes and serves calls
(docs/dialects/pando.md).

wire            structs as on the wire     directions   both rule tables, message by message
to_canonical    pando -> canonical         translator   one link's protocol: a client's, a caller's, the publication's
from_canonical  canonical -> pando         projection   one session as it is published
"""

from dragoman.mappings.pando.dialect import DIALECT
from dragoman.mappings.pando.projection import Projection
from dragoman.mappings.pando.translator import ClientTranslator, PublicationTranslator, ServerTranslator

__all__ = ["DIALECT", "ClientTranslator", "Projection", "PublicationTranslator", "ServerTranslator"]
