"""The protocol of one pod link: in `server` the peer is a pod client, in `client` the peer is a pod."""

from dragoman.mappings.pod.translator.client import ClientTranslator
from dragoman.mappings.pod.translator.server import ServerTranslator

__all__ = ["ClientTranslator", "ServerTranslator"]
