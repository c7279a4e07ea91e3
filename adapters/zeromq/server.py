"""Serve as a primary: bind XPUB for publications and ROUTER for calls.

`accept` is called at once with the Publication, and with a Caller for each identity that sends. They share the sockets,
which are closed after the listener and every transport have closed.
"""

from __future__ import annotations

import errno
import os

import zmq

from dragoman.adapters.base import TransportLimits
from dragoman.adapters.zeromq.callers import Callers
from dragoman.adapters.zeromq.curve import CurveServer
from dragoman.adapters.zeromq.publication import Publication
from dragoman.adapters.zeromq.sockets import (
    SOCKETS_MAX,
    CountedContext,
    PrimaryEvents,
    Sockets,
    ZeroMQLimits,
    shared_context,
    tcp_address,
    use_ipv6,
)

PORT_TRIES = 512  # one is enough, unless thousands of connections of this machine have most of the next ports
DEFAULTS = ZeroMQLimits()


class ZeroMQListener:
    """The listener over both bound sockets.

    Unbinding a socket would disconnect its peers. So after `close` the ports stay bound until the last transport is
    closed, and only new callers are refused.
    """

    is_reachable = True
    certificate_end = None

    def __init__(self, sockets: Sockets, publication: Publication, callers: Callers) -> None:
        self.address = _last_endpoint(publication.socket)
        self.publish_port, self.call_port = _port(self.address), _port(_last_endpoint(callers.socket))
        if self.call_port != self.publish_port + 1:
            self.address += f"?rpc={self.call_port}"
        self._sockets = sockets
        self._callers = callers
        self._open = True

    async def close(self) -> None:
        if self._open:
            self._open = False
            self._callers.refuse_new()
            await self._sockets.release()


async def listen(
    host: str,
    port: int,
    call_port: int | None,
    limits: TransportLimits,
    events: PrimaryEvents,
    bounds: ZeroMQLimits = DEFAULTS,
    curve: CurveServer | None = None,
) -> ZeroMQListener:
    """Publish at `port` and take calls at `call_port`; None is the next port, and the OS chooses port 0.

    With `curve` only the clients that it accepts can connect. Raise OSError if a port is in use, or if there are too
    many sockets.
    """
    sockets = Sockets(limits, shared_context() if curve is None else CountedContext(SOCKETS_MAX), curve)
    try:
        publication = Publication(sockets, bounds, events)
        callers = Callers(sockets, bounds, events)
        _bind_both(publication.socket, callers.socket, host, port, call_port)
    except zmq.ZMQError as error:
        await sockets.release(0)
        raise OSError(error.errno, error.strerror, f"{host}:{port}") from error
    except BaseException:
        await sockets.release(0)
        raise
    sockets.hold()  # the publication; the listener is the first holder
    events.accept(publication)
    return ZeroMQListener(sockets, publication, callers)


def _bind_both(
    publication: zmq.Socket[bytes], calls: zmq.Socket[bytes], host: str, port: int, call_port: int | None
) -> None:
    for tries in range(PORT_TRIES, 0, -1):
        _bind(publication, host, port)
        chosen = _last_endpoint(publication)
        try:
            _bind(calls, host, _port(chosen) + 1 if call_port is None else call_port)
        except OSError as error:
            if tries == 1 or port != 0 or call_port is not None or error.errno != errno.EADDRINUSE:
                raise
            publication.unbind(chosen)
        else:
            return


def _bind(socket: zmq.Socket[bytes], host: str, port: int) -> None:
    address = tcp_address(host, port)
    use_ipv6(socket, address)
    try:
        socket.bind(address)
    except zmq.ZMQError as error:
        number = error.errno or errno.EIO
        raise OSError(number, os.strerror(number), address) from error


def _last_endpoint(socket: zmq.Socket[bytes]) -> str:
    return bytes(socket.getsockopt(zmq.LAST_ENDPOINT)).rstrip(b"\0").decode()


def _port(endpoint: str) -> int:
    return int(endpoint.rpartition(":")[2])
