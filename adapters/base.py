"""The interface between the gateway and its transports.

A *transport* exchanges frames with one connected peer. A *listener* waits for peers and hands each one to `accept`,
which must not block. The gateway runs each link as a task of its own. Transports push frames: a frame reaches the link
in the call that read it. Nothing is unbounded: reading pauses when the gateway falls behind, sending waits when the
peer does, and closing has a deadline.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from enum import IntEnum
from typing import Any, Protocol

from msgspec import Struct

from dragoman.adapters.meter import Meter
from dragoman.mappings.dialect import Frame

MAX_MESSAGE = 16 * 1024 * 1024  # the largest tool results seen are below 4 MiB
MAX_PARTS = 64  # parts of a ZeroMQ message: real ones have at most three
SEND_HIGH = 256 * 1024  # one full socket buffer ahead of the kernel's own: more only hides a peer that does not read
RECEIVE_HIGH = 1024 * 1024  # four full reads of asyncio, so that a busy gateway seldom pauses its peer
CLOSE_DEADLINE = 2.0  # a peer that reads answers a close at once; below a supervisor's usual 10 s for the whole process
HANDSHAKE_DEADLINE = 10.0  # the slowest real client gives up after this time too (websockets' open_timeout)
HEARTBEAT = 20.0  # docs/dialects/smooth.md, section 1: its own servers ping every 20 s
BACKLOG = 1024  # clients that connect at once after a restart; 5,000 sessions arrive at about 2,000 a second


Spawn = Callable[[Coroutine[Any, Any, None], str], object]
"""Runs a coroutine as a task of the program, under this name."""

NOT_LISTENING = "nothing listens there; start the backend, or correct the address"


def connect_reason(number: int) -> str:
    """Return why a connect failed with this `errno`, and what to do."""
    return NOT_LISTENING if number == errno.ECONNREFUSED else os.strerror(number)


class CloseReason(IntEnum):
    """The reason for closing a connection. The value is the WebSocket close code; a byte stream just ends."""

    DONE = 1000
    GOING_AWAY = 1001
    PROTOCOL = 1002
    POLICY = 1008
    INTERNAL = 1011
    TOO_SLOW = 1013
    FULL = 1013  # the code of TOO_SLOW, too: it means "try again later"


class TransportLimits(Struct, frozen=True, kw_only=True, gc=False):
    """The bounds of one transport. Sizes are in bytes, times in seconds.

    `max_message`: size of one message; a longer one is delivered as Oversize. `max_parts`: parts of one message, for
    transports with parts; a message with more is delivered as Oversize. `send_high`: bytes written but not yet taken by
    the kernel; above it `send` waits. `receive_high`: bytes received but not yet taken by the sink; above it reading
    pauses. `heartbeat`: silence before a ping, for transports with pings; 0 disables it. `handshake_deadline`: time for
    the peer's whole handshake, for transports with one.
    """

    max_message: int = MAX_MESSAGE
    max_parts: int = MAX_PARTS
    send_high: int = SEND_HIGH
    receive_high: int = RECEIVE_HIGH
    close_deadline: float = CLOSE_DEADLINE
    heartbeat: float = HEARTBEAT
    handshake_deadline: float = HANDSHAKE_DEADLINE


Sink = Callable[[Sequence[Frame]], int]
"""Take the frames that one read completed, in order, and return how many were taken.

The transport keeps the others and pauses reading until `resume` is called.
"""


class Work(Protocol):
    """The queued work of one connection, which takes turns with that of other connections.

    A unit of work is about the time to parse one byte of JSON.
    """

    waiting: int
    """Number of queued pieces of work, including those that the current turn does."""

    def add_work(self, work: Iterator[None]) -> None:
        """Queue work, one piece for each item of the iterator. It is done now or in a later step of the event loop."""

    def count(self, units: int) -> None:
        """Count units of work that were done."""

    def end_link(self, act: Callable[[], None]) -> None:
        """Queue `act`, which ends the connection: thousands of connections may be lost at once."""

    def stop(self) -> None:
        """Drop the queued work."""


NewWork = Callable[[Callable[[Exception], None]], Work]
"""Factory of the Work of a new connection. Its argument is called with the exception of a piece of work that fails."""


def do_nothing(*_arguments: object) -> None:
    """Do nothing. Replaces a callback that is not needed, or no longer needed, so that its owner can be freed."""


class Transport(Protocol):
    """A connected peer with which frames are exchanged."""

    peer: str
    """The peer's name for logs: `uid=1000 pid=123`, `127.0.0.1:5555`."""
    meter: Meter
    """Counts what the peer makes the gateway hold: unfinished messages, frames that wait, unread bytes."""

    async def run(self, sink: Sink) -> None:
        """Push each frame to `sink` in the call that read it, until the peer is gone and every frame was taken.

        Call it once. Frames that arrived earlier are pushed first. An exception of the sink ends the reading and is
        raised here.
        """

    def resume(self) -> None:
        """Push the frames that the sink left, and continue reading. The sink must not call this itself."""

    async def send(self, frames: Sequence[bytes]) -> None:
        """Write these frames at once and return when the peer keeps up; raise ConnectionError if the peer is gone."""

    def try_send(self, frames: Sequence[bytes]) -> bool:
        """Write these frames now and return True, unless the write or an earlier one would have to wait.

        A writer task that wakes for each event of a quiet link would cost as much as the write itself. Messages of
        several parts may always have to wait.
        """
        return False

    def peer_can_read(self) -> bool:
        """Return True if the peer, after `run` has ended, may still read: it closed only its own direction."""
        return False

    def discard(self) -> None:
        """Drop at once what was received and not taken, and all that still arrives; the transport is about to close."""

    async def close(self, reason: CloseReason = CloseReason.DONE, text: str = "") -> None:
        """Flush, send the reason if the transport can, and disconnect. Idempotent; ends within the close deadline."""


class Listener(Protocol):
    """An address at which peers connect to the gateway."""

    address: str
    """The bound address, with the port that was chosen. Prefixed with `DIALECT+` it is the endpoint (docs/design.md,
    section 7).
    """

    @property
    def is_reachable(self) -> bool:
        """Return False if clients cannot connect any more: the file of a Unix socket was removed or replaced."""

    @property
    def certificate_end(self) -> float | None:
        """Return the time at which the TLS certificate expires, in seconds since 1970; None without a certificate."""

    async def close(self) -> None:
        """Stop accepting. Connected peers stay; their links close them."""


class PeerFacts(Struct, frozen=True, kw_only=True, gc=False):
    """The facts that a listener knows of a peer before it is accepted. `token` is a secret: it is never logged.

    `several_tokens` says that it presented different ones, none of which counts.

    `address` is a host and port, or the user at a Unix socket. `uid` and `gid` are of the process at the other end of
    such a socket. `certificate` is the subject of a client certificate that was verified, `certificate_end` the time at
    which it expires, in seconds since 1970.
    """

    address: str = ""
    token: str = ""
    several_tokens: bool = False
    uid: int | None = None
    gid: int | None = None
    certificate: str = ""
    certificate_end: float | None = None


Accept = Callable[[Transport], None]
"""Handle a peer that connected; must not block."""

Admission = Accept | Awaitable[Accept | str]
"""The result of an authentication: the function that accepts the peer, or an awaitable if the authentication has to
wait. The awaitable returns that function, or the reason why the peer is refused.
"""


class ConnectionCallbacks(Struct, frozen=True, kw_only=True):
    """The functions by which a listener counts its connections and authenticates their peers.

    `connect` counts a connection of this peer, or returns why it is not accepted now; `disconnect` stops counting it.
    `admit` authenticates a peer. `bad_request` is called with the kind of each HTTP request that is refused as
    malformed or foreign, and of each TLS handshake that fails. `spawn` runs handshakes that have to wait. `work` makes
    the Work of a connection, whose input is parsed in turns with that of others.
    """

    admit: Callable[[PeerFacts], Admission]
    spawn: Spawn
    work: NewWork
    connect: Callable[[str], str] = lambda _peer: ""
    disconnect: Callable[[str], None] = do_nothing
    bad_request: Callable[[str], None] = do_nothing
