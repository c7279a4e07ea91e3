"""The protocol of one smooth link, as its server or as its client."""

from dragoman.mappings.smooth.translator.client import ClientTranslator
from dragoman.mappings.smooth.translator.server import ServerTranslator

__all__ = ["ClientTranslator", "ServerTranslator"]
