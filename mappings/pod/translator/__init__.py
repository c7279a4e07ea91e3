"""The protocol state of one pod link: `server` for a link with a client, `client` for a link with a pod."""

from dragoman.mappings.pod.translator.client import ClientTranslator
from dragoman.mappings.pod.translator.server import ServerTranslator

__all__ = ["ClientTranslator", "ServerTranslator"]
