"""The protocol state of one smooth link: `server` for a link with a client, `client` for a link with a server."""

from dragoman.mappings.smooth.translator.client import ClientTranslator
from dragoman.mappings.smooth.translator.server import ServerTranslator

__all__ = ["ClientTranslator", "ServerTranslator"]
