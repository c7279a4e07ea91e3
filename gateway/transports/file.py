"""`replay+file:` endpoints: a recording as a backend. Nothing is dialled; gateway/replay plays it."""

from __future__ import annotations

from dragoman.gateway.endpoint import Endpoint
from dragoman.gateway.replay.options import OPTIONS, header, read_options
from dragoman.gateway.transports.spec import TransportSpec


def _check(endpoint: Endpoint) -> None:
    """Raise ConfigError if the options are invalid or the recording cannot be read."""
    read_options(endpoint)
    header(endpoint)


FILE = TransportSpec(listen=None, dial_options=OPTIONS, check_upstream=_check)
