"""The protocol of one smooth link: we play its server, or its client."""

from dragoman.mappings.smooth.translator.client import ClientTranslator
from dragoman.mappings.smooth.translator.server import ServerTranslator

__all__ = ["ClientTranslator", "ServerTranslator"]
