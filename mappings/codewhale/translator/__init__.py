"""The protocol state of a codewhale link: `client` to a server that we launched, `server` to a client."""

from dragoman.mappings.codewhale.translator.client import ClientTranslator
from dragoman.mappings.codewhale.translator.server import ServerTranslator

__all__ = ["ClientTranslator", "ServerTranslator"]
