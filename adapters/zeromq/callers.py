"""The callers of a primary: one ROUTER socket, and a transport for each identity.

ROUTER does not report when a peer goes away. The views of a real client open a connection for a call and abandon it
(docs/dialects/pando.md, section 5). So an identity that has its answers and was silent for `answered` seconds is
removed, and one that waits for an answer after `idle` seconds. If it sends again, it is a new caller. The number of
callers is bounded: the one that was silent longest is removed first, unless it waits for an answer.

ROUTER cannot disconnect a peer either. So the calls of a caller that was disconnected for a limit are dropped and
counted for `idle` seconds. A new connection has another identity, and is served at once.

ROUTER_MANDATORY is on (docs/dialects/pando.md, section 9). Without it, an answer to a caller that is gone or does not
read is dropped silently. With it, the first case is a ConnectionError, and in the second `send` waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import islice, takewhile

import zmq

from dragoman.adapters.base import CloseReason, Transport, do_nothing
from dragoman.adapters.inbound import Inbound
from dragoman.adapters.zeromq.polled import BATCH, Message
from dragoman.adapters.zeromq.sockets import PrimaryEvents, Sockets, ZeroMQLimits, oversize
from dragoman.mappings.bounded import remember
from dragoman.mappings.dialect import Frame, Loss, Parts

NAME_MAX = 64  # characters of an identity in logs: the peer chooses that text
# messages of a connection that libzmq reads ahead, which `memory` does not count: with 16 a call takes 5 % less CPU,
# and 100 callers with calls of 900 KB hold 2.4 times as much; with 1 a call takes 20 % more CPU
UNREAD = 4
CALLS = 8  # calls that are read in a row: each may be the first of a caller, which takes 0.5 to 1 ms with its log lines
EXPIRED = 16  # callers that are removed at once: the end of a link takes up to 0.5 ms with its log line


class Callers:
    """The ROUTER socket and its callers. The socket stays open while `sockets` has a holder."""

    def __init__(self, sockets: Sockets, bounds: ZeroMQLimits, events: PrimaryEvents) -> None:
        self._refusing = False  # new callers
        self._sockets = sockets
        self._limits = sockets.limits
        self._events = events
        self._answered = min(bounds.answered, bounds.idle)
        self._idle = bounds.idle
        self._most = bounds.callers
        self._known: dict[bytes, Caller] = {}  # ordered by the time of the last message, oldest first
        self._banned: dict[bytes, float] = {}  # identity -> until when its calls are dropped, the earliest first
        self._waiting = 0  # memory (bytes) of the frames that links have not taken
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self.socket = sockets.socket(zmq.ROUTER, {zmq.ROUTER_MANDATORY: 1, zmq.RCVHWM: UNREAD})
        self._polled = sockets.poll(self.socket, self._arrived, batch=CALLS)
        sockets.watch_port(self._polled, bounds, events, do_nothing)

    def __len__(self) -> int:
        return len(self._known)

    # -- for the callers -------------------------------------------------------------------------------

    def note_waiting(self, size: int) -> None:
        """Add `size` bytes to the memory of frames that wait for their link; a negative `size` subtracts."""
        self._waiting += size
        if not self._too_much:
            self._polled.resume()

    def write(self, caller: Caller, frame: bytes) -> bool:
        """Write one answer; return False if there is no room, raise ConnectionError if the caller is gone."""
        try:
            return self._polled.send((caller.identity, b"", frame))
        except zmq.ZMQError as error:  # EHOSTUNREACH
            raise ConnectionResetError(f"{caller.peer} is gone") from error

    def wrote(self, caller: Caller) -> None:
        """Update the caller's time and re-arm reading, after its answers were written."""
        self._touch(caller)
        self._polled.sent()

    def ban(self, caller: Caller) -> None:
        """Drop the calls of a caller that was disconnected for exceeding a limit, for `idle` seconds."""
        self._banned.pop(caller.identity, None)
        remember(self._banned, caller.identity, self._loop.time() + self._idle, self._most)

    async def room(self) -> None:
        """Wait until the socket may have room for an answer again."""
        await self._polled.wait_for_activity()

    def refuse_new(self) -> None:
        """Refuse new callers from now on, and drop their calls."""
        self._refusing = True

    async def forget(self, caller: Caller) -> None:
        """Remove a caller whose link has closed."""
        if self._known.get(caller.identity) is caller:
            del self._known[caller.identity]
        if not self._known and self._timer is not None:
            self._timer.cancel()
            self._timer = None
        await self._sockets.release()

    # --------------------------------------------------------------------------------------------------

    @property
    def _too_much(self) -> bool:
        return self._waiting > self._limits.receive_high

    def _arrived(self, messages: list[Message]) -> None:
        arrived: dict[Caller, list[Frame]] = {}
        dropped = 0
        for identity, *parts in messages:
            if identity in self._banned and self._is_banned(identity):
                dropped += 1
                continue
            caller = self._known.get(identity) or self._new(identity)
            if caller is None:
                continue
            self._touch(caller)
            message = tuple(parts)
            arrived.setdefault(caller, []).append(oversize(message, self._limits) or Parts("rpc", identity, message))
        if dropped:
            self._events.lost(Loss(kind="call", why="the caller was disconnected for a limit", count=dropped))
        for caller, frames in arrived.items():
            caller.take(frames)
        if self._too_much:
            self._polled.pause()

    def _is_banned(self, identity: bytes) -> bool:
        if self._banned[identity] > self._loop.time():
            return True
        del self._banned[identity]
        return False

    def _new(self, identity: bytes) -> Caller | None:
        if self._refusing or not self._make_room():
            why = "the gateway is stopping" if self._refusing else "too many callers wait for answers (`callers`)"
            self._events.lost(Loss(kind="call", why=why))
            return None
        caller = self._known[identity] = Caller(identity, self)
        caller.heard = self._loop.time()
        self._sockets.hold()
        if self._timer is None:
            self._timer = self._loop.call_later(self._answered, self._expire)
        self._events.accept(caller)
        return caller

    def _make_room(self) -> bool:
        if len(self._known) < self._most:
            return True
        silent = next((caller for caller in self._known.values() if not caller.owed), None)
        if silent is not None:
            self._end(silent)
        return silent is not None

    def _touch(self, caller: Caller) -> None:
        if self._known.get(caller.identity) is caller:
            self._known[caller.identity] = self._known.pop(caller.identity)
            caller.heard = self._loop.time()

    def _expire(self) -> None:
        """Remove at most EXPIRED callers that were silent for too long, and schedule the next check."""
        now = self._loop.time()
        silent = takewhile(lambda caller: caller.heard + self._answered <= now, self._known.values())
        over = (caller for caller in silent if not caller.owed or caller.heard + self._idle <= now)
        ended = [*islice(over, EXPIRED)]
        for caller in ended:
            self._end(caller)
        pause = 0 if len(ended) == EXPIRED else self._answered
        self._timer = self._loop.call_later(pause, self._expire) if self._known else None

    def _end(self, caller: Caller) -> None:
        del self._known[caller.identity]
        caller.end()


class Caller(Inbound, Transport):
    """The transport of one ROUTER identity: receives Parts of the channel `rpc` and sends answers."""

    def __init__(self, identity: bytes, callers: Callers) -> None:
        super().__init__(0)
        self.identity = identity
        self.peer = _name(identity)
        self.heard = 0.0
        """Time (s, event loop) of the last message in either direction."""
        self.owed = 0
        """Number of answers that the caller waits for: one for each message (docs/dialects/pando.md, section 5)."""
        self._callers = callers
        self._waiting = 0  # memory (bytes) of the frames that the link had not taken when that was noted last
        self._closed = False

    async def send(self, frames: Sequence[bytes]) -> None:
        try:
            for number, frame in enumerate(frames, 1):
                while not self._write(frame):
                    await self._callers.room()
                self.owed = max(0, self.owed - 1)
                if number % BATCH == 0:
                    await asyncio.sleep(0)
        finally:  # an answer to a caller that is gone may have cleared the signal for a call of another one
            self._callers.wrote(self)

    async def close(self, reason: CloseReason = CloseReason.DONE, text: str = "") -> None:
        if not self._closed:
            self._closed = True
            if reason is CloseReason.FULL:
                self._callers.ban(self)
            self.end()
            self.discard()
            self._note_waiting()
            await self._callers.forget(self)

    def take(self, frames: list[Frame]) -> None:
        """Push frames of this caller to its link."""
        self.owed += len(frames)
        self.push(frames)
        self._note_waiting()

    def _control_reading(self) -> None:
        if not self.full:
            self._note_waiting()

    def _note_waiting(self) -> None:
        change, self._waiting = self.size - self._waiting, self.size
        self._callers.note_waiting(change)

    def _write(self, frame: bytes) -> bool:
        if self._ended:
            raise ConnectionResetError(f"{self.peer} was removed: it was silent for too long, or its link is closed")
        return self._callers.write(self, frame)


def _name(identity: bytes) -> str:
    text = identity.decode("ascii", "replace")
    return text[:NAME_MAX] if text.isprintable() and text.isascii() else identity.hex()[:NAME_MAX]
