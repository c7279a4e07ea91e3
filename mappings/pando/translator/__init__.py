"""The protocol state of pando links: `client` to a primary, `server` to one caller, `publication` to subscribers."""

from dragoman.mappings.pando.translator.client import ClientTranslator
from dragoman.mappings.pando.translator.publication import PublicationTranslator
from dragoman.mappings.pando.translator.server import ServerTranslator

__all__ = ["ClientTranslator", "PublicationTranslator", "ServerTranslator"]
