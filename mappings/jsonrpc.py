"""JSON-RPC 2.0 for one link, in both directions.

    Envelope    a message whose content is not decoded yet: a request, a notification or a response
    Calls       the requests of this side that wait for a response
    Replies     the requests of the peer, in the order in which they must be answered

A link whose peer only answers needs Calls, a link whose peer only asks needs Replies. A dialect whose server also asks
its client gives both to each translator; `Envelope.kind` decides which of them a message is for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Generic, Literal, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from dragoman.mappings.canonical import Command, events
from dragoman.mappings.dialect import Direction, Frame, Step
from dragoman.mappings.errors import PeerError

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
NO_METHOD = -32601
INVALID_PARAMS = -32602

# The limits of unanswered calls and requests are not configurable, because mappings do not know the configuration. No
# real peer comes near 1,024 requests, which take 0.4 MiB beside the content of their commands.
WAITING_MAX = 1024  # calls without a response: a peer that answers none of them will not answer the next one
PENDING_MAX = 1024  # requests of one peer without a reply: none may be left out, so the peer is disconnected

TYPED_ANSWERS = (
    events.SessionOpened,
    events.SessionsListed,
    events.HistorySnapshot,
    events.TurnAccepted,
    events.Pong,
)
"""Answers that the translator of a client makes from a response, because it knows the command that was called."""

T = TypeVar("T")
S = TypeVar("S")


class Envelope(Struct, frozen=True, kw_only=True, gc=False, forbid_unknown_fields=True):
    """A JSON-RPC message whose params, result and error are still JSON."""

    jsonrpc: str | UnsetType | None = UNSET
    id: Raw | UnsetType = UNSET
    method: str | UnsetType = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET

    @property
    def kind(self) -> Literal["request", "notification", "response"]:
        """The kind of the message, recognised by its members; raises DecodeError if they fit no kind."""
        answers = self.result is not UNSET or self.error is not UNSET
        if self.method is UNSET and self.params is UNSET:
            return "response"
        if self.method is UNSET or answers:
            raise msgspec.DecodeError("neither a request nor a response")
        return "notification" if self.id is UNSET else "request"


decode_envelope = msgspec.json.Decoder(Envelope).decode


class Calls(dict[str, T]):
    """The requests of this side without a response: request id -> what was asked, oldest first."""

    def __init__(self, new_id: Callable[[], str]) -> None:
        super().__init__()
        self.new_id = new_id

    @property
    def full(self) -> bool:
        """Return True if no further request may be sent until one is answered."""
        return len(self) >= WAITING_MAX

    def drain(self) -> list[T]:
        """Forget all requests, and return what they asked for."""
        asked = list(self.values())
        self.clear()
        return asked


class PeerCall(Struct, kw_only=True, eq=False):
    """A request of the peer: the peer's id, our unique id, its command, and its reply once it is known.

    An empty reply means that another frame has already answered. `size` is in bytes, 0 if it is not counted.
    """

    peer_id: str
    id: str = ""
    command: Command | None = None
    reply: tuple[bytes, ...] | None = None
    size: int = 0


R = TypeVar("R", bound=PeerCall)


class Replies(Generic[R]):
    """The peer's requests that are not answered yet; replies go out in the order of the requests."""

    def __init__(self) -> None:
        self._refusal = ""  # the reason why the peer is about to be disconnected
        self._count: Callable[[int], None] | None = None
        self._order: deque[R] = deque()
        self.waiting: dict[str, R] = {}
        """Our id -> the request that was passed on under it, and waits for the answer."""

    @property
    def head(self) -> R | None:
        """The oldest request without a written reply."""
        return self._order[0] if self._order else None

    def count_bytes(self, count: Callable[[int], None]) -> None:
        """Call `count` with the size of each added request, and with its negative when the reply is written."""
        self._count = count

    def add(self, request: R) -> None:
        """Add a request after the others."""
        self._order.append(request)
        if self._count is not None and request.size:
            self._count(request.size)

    def flush(self) -> list[bytes]:
        """Remove and return the replies that may be written now: all before the first request without a reply."""
        frames: list[bytes] = []
        while self._order and (reply := self._order[0].reply) is not None:
            frames += reply
            request = self._order.popleft()
            if self._count is not None and request.size:
                self._count(-request.size)
        return frames

    def note_refusal(self, text: str) -> None:
        """Remember why the peer is about to be disconnected."""
        self._refusal = text

    def close(self, cause: str, refuse: Callable[[R, str], tuple[bytes, ...]]) -> list[bytes]:
        """Remove and return all remaining replies, with a refusal and its reason for each request that has none."""
        text = self._refusal or (f"the gateway closes: {cause}" if cause else "the gateway closes")
        self.waiting.clear()
        for request in self._order:
            request.reply = refuse(request, text) if request.reply is None else request.reply
        return self.flush()

    def check_flood(self, step: Step[T]) -> None:
        """Add a fault that ends the link if too many requests wait for a reply."""
        if len(self._order) > PENDING_MAX:
            self.note_refusal(f"more than {PENDING_MAX} requests wait for a reply (PENDING_MAX)")
            step.add_fault(PeerError("flooding", self._refusal, can_continue=False))


def read_frame(direction: Direction[S], frame: Frame, step: Step[T]) -> Iterator[S | PeerError]:
    """Yield the items and the faults of one frame, and note its faults and losses in `step`."""
    read: Step[S] = Step()
    direction.receive((frame,), read)
    step.faults += read.faults
    step.losses += read.losses
    step.mended += read.mended
    yield from read.faults
    for burst in read.bursts:
        yield from burst.items
