"""The protocol of one codewhale link: in `client` the peer is a child that we drive, in `server` a client of ours."""

from dragoman.mappings.codewhale.translator.client import ClientTranslator
from dragoman.mappings.codewhale.translator.server import ServerTranslator

__all__ = ["ClientTranslator", "ServerTranslator"]
