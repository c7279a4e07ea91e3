"""The protocol of one smooth link: we play its server, or its client."""

from mappings.smooth.translator.client import ClientTranslator
from mappings.smooth.translator.server import ServerTranslator

__all__ = ["ClientTranslator", "ServerTranslator"]
