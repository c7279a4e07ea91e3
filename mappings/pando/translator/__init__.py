"""The protocol of one pando link: in `client` the peer is a primary, in `server` it is a caller of ours, and in
`publication` everybody who subscribes to us.
"""

from dragoman.mappings.pando.translator.client import ClientTranslator
from dragoman.mappings.pando.translator.publication import PublicationTranslator
from dragoman.mappings.pando.translator.server import ServerTranslator

__all__ = ["ClientTranslator", "PublicationTranslator", "ServerTranslator"]
