"""What a transport is to the gateway, whatever carries it.

A *transport* is one live peer as frames. A *listener* waits for peers and hands each of them to `accept`, which must
not block: the gateway starts a task for the link in its own TaskGroup, so an adapter owns no task that could outlive
its link. Frames are pushed: they reach the link in the call that read them. Nothing is unbounded: reading pauses when
the gateway falls behind, sending waits when the peer does, closing has a deadline.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Protocol

from msgspec import Struct

from dragoman.mappings.dialect import Frame

__all__ = [
    "BACKLOG",
    "CLOSE_DEADLINE",
    "HANDSHAKE_DEADLINE",
    "HEARTBEAT",
    "MAX_MESSAGE",
    "MAX_PARTS",
    "RECEIVE_HIGH",
    "SEND_HIGH",
    "Accept",
    "CloseReason",
    "Limits",
    "Listener",
    "Sink",
    "Transport",
]

MAX_MESSAGE = 16 * 1024 * 1024  # the largest tool results seen are below 4 MiB
MAX_PARTS = 64  # of a ZeroMQ message: real ones have at most three
SEND_HIGH = 256 * 1024  # one full socket buffer ahead of the kernel's own: more only hides a peer that does not read
RECEIVE_HIGH = 1024 * 1024  # four whole reads of asyncio: a busy gateway does not stop and start its peer
CLOSE_DEADLINE = 2.0  # a peer that reads answers a close at once; below a supervisor's usual 10 s for the whole process
HANDSHAKE_DEADLINE = 10.0  # the slowest of real clients gives up on its own side then (websockets' open_timeout)
HEARTBEAT = 20.0  # docs/dialects/smooth.md, section 1: its own servers ping every 20 s
BACKLOG = 1024  # clients that connect at once after a restart; 5,000 sessions arrive at about 2,000 a second


class CloseReason(IntEnum):
    """Why we close; the value is the WebSocket close code, a byte stream just ends."""

    DONE = 1000
    GOING_AWAY = 1001
    PROTOCOL = 1002
    INTERNAL = 1011
    TOO_SLOW = 1013
    FULL = 1013  # "try again later" says both


class Limits(Struct, frozen=True, kw_only=True, gc=False):
    """The bounds of one transport. Sizes in bytes, times in seconds.

    `max_message`: one message; what is longer arrives as Oversize. `max_parts`: the parts of one message, where
    messages have parts; one with more arrives as Oversize. `send_high`: written and not yet taken by the kernel, past
    which `send` waits. `receive_high`: received and not yet taken, past which reading pauses. `heartbeat`: the
    silence before a ping, for transports that have pings; 0 is none. `handshake_deadline`: a whole handshake from the
    peer, where there is one.
    """

    max_message: int = MAX_MESSAGE
    max_parts: int = MAX_PARTS
    send_high: int = SEND_HIGH
    receive_high: int = RECEIVE_HIGH
    close_deadline: float = CLOSE_DEADLINE
    heartbeat: float = HEARTBEAT
    handshake_deadline: float = HANDSHAKE_DEADLINE


Sink = Callable[[Sequence[Frame]], int]
"""Takes the frames of one peer, all that one read completed, and returns how many it took, from the first on.

The transport keeps the others and pauses reading until `resume`.
"""


class Transport(Protocol):
    """One live peer as frames."""

    peer: str
    """Who it is, for logs: `uid=1000 pid=123`, `127.0.0.1:5555`."""

    async def run(self, sink: Sink) -> None:
        """Give `sink` each frame in the call that read it, until the peer is gone and all that it said was taken.

        Called once. What the sink raises ends the reading and is raised here. Frames that came before are given first.
        """

    def resume(self) -> None:
        """Give the sink the frames that it left, and read on; never called from within the sink."""

    async def send(self, frames: Sequence[bytes]) -> None:
        """Write these frames at once; returns when the peer keeps up. ConnectionError when it is gone."""

    def try_send(self, frames: Sequence[bytes]) -> bool:
        """Write these frames now if that needs no waiting and nothing that was sent before waits; return if it did.

        A writer task that is woken for each event of a quiet link costs as much as the write itself.
        """

    def peer_can_read(self) -> bool:
        """Return, once `run` is over, whether the peer may still read: it has ended its own direction alone."""

    async def close(self, reason: CloseReason = CloseReason.DONE, text: str = "") -> None:
        """Write what waits, say why where the transport can, and end; idempotent, and over after the close deadline."""


class Listener(Protocol):
    """Where peers connect to us."""

    address: str
    """The real one, with the port that was chosen; with `DIALECT+` before it, the endpoint
    (docs/design.md, section 7).
    """

    async def close(self) -> None:
        """Stop accepting. Peers that are connected stay: their links close them."""


Accept = Callable[[Transport], None]
"""Called for each peer that connects; returns at once."""
