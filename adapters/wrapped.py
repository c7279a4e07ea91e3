"""The common part of transports that wrap another transport and change some of its frames."""

from __future__ import annotations

from dragoman.adapters.base import Transport


class WrappedTransport:
    """Passes all calls on to `transport` but `run`, `send` and `try_send`, which each subclass defines.

    The methods are those of `transport` itself, so that a wrapper costs no further call.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.peer = transport.peer
        self.meter = transport.meter
        self.resume = transport.resume
        self.peer_can_read = transport.peer_can_read
        self.discard = transport.discard
        self.close = transport.close
        self.headers = getattr(transport, "headers", {})  # only a WebSocket has these two
        self.watch_pings = getattr(transport, "watch_pings", None)
