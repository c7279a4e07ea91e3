"""The translators of a codewhale link: `client` talks to a server that we launched, `server` to a client of ours."""

from dragoman.mappings.codewhale.translator.client import ClientTranslator
from dragoman.mappings.codewhale.translator.server import ServerTranslator

__all__ = ["ClientTranslator", "ServerTranslator"]
