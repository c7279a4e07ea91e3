"""A link: one live peer, with its transport, its translator and its outbox.

The same class serves both roles: downstream the sink is the router, upstream the session. A link's failure ends that
link alone; this is the one place where any exception is caught.

A link ends by itself when its peer leaves, or by one of these calls. Then nothing more is read, what waits is written
for a short time, and the transport is closed:

    end         the translator writes its last frames
    _refuse     the peer is told why in its dialect, then as `end`
    cut         as `_refuse`; if the peer does not read, what waits for it is dropped
    fail        a fault of ours is logged, then as `end`
"""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import structlog
from msgspec import Struct

from dragoman.adapters.base import CloseReason, Transport, do_nothing
from dragoman.adapters.flag import Flag
from dragoman.adapters.hops import count_hops
from dragoman.gateway.intake import FrameIntake
from dragoman.gateway.observability.log_throttle import FaultLog
from dragoman.gateway.observability.trace_context import TraceContext, read_trace, trace_id, trace_of_metadata
from dragoman.gateway.outbox import Outbox
from dragoman.gateway.overload.fair_queue import FRAME, SlicedWork
from dragoman.gateway.overload.memory import MemoryBudget
from dragoman.gateway.peer import Peer
from dragoman.gateway.services import Services
from dragoman.gateway.timers import Deadline
from dragoman.mappings.canonical import Batch, Event, SessionState
from dragoman.mappings.canonical.commands import OpenSession, ResumeSession
from dragoman.mappings.canonical.events import Reply
from dragoman.mappings.canonical.values import Cause, Failure
from dragoman.mappings.dialect import Alarm, Burst, Frame, Step, Translator
from dragoman.mappings.errors import PeerError, PeerErrorCode

if TYPE_CHECKING:
    from dragoman.gateway.recording.recorder import Tap

T = TypeVar("T")
Sent = TypeVar("Sent")

LAST_ANSWERS = 3600.0  # seconds for what a peer asked that says no more: as long as a session lives without links
CREDENTIAL_CHECK = 60.0  # seconds between two checks of its expiry: the clock may be set, a machine may sleep
LOOK = 1.0  # seconds between two checks whether the peer still reads
COUNTED = 64  # work (units) of an item of a history whose messages are counted for an answer: 0.3 to 0.5 us
FLUSH_DEADLINE = 2.0  # seconds that a peer which is sent away has to read what waits for it, and a client to close
NEVER = contextlib.nullcontext()  # one for all links: a context of its own takes 0.5 KB

FLOODING = PeerError("flooding", "sends requests and does not read the answers (`outbox_hard`)", can_continue=False)

log = structlog.get_logger("dragoman.link")


class LinkEvents(Struct, Generic[T], frozen=True, kw_only=True):
    """Functions that a link calls. The sink takes what the peer said: commands of a client, events of a backend."""

    sink: Callable[[Link, list[Burst[T]]], None]
    drained: Callable[[Link], None] = do_nothing
    """Called when every frame in the outbox was written."""
    over: Callable[[Link], None] = do_nothing
    """The peer is gone, and its transport is about to be closed; called once."""
    refused: Callable[[Link, str], None] = do_nothing
    """Tells the peer in its dialect, with this text, that it is disconnected for its memory or its rates."""
    understands: Callable[[Sequence[Frame]], bool] = lambda _frames: True
    """Asked about the frames of the peer until it returns True."""


class Reading:
    """A block of code that its task leaves when `end` is called."""

    __slots__ = ("_timeout",)

    def __init__(self) -> None:
        self._timeout: asyncio.Timeout | None = None

    def end(self) -> None:
        """Make the task leave the block, if it is inside."""
        if self._timeout is not None and self._timeout.when() is None:
            self._timeout.reschedule(0)

    async def __aenter__(self) -> None:
        self._timeout = await asyncio.timeout(None).__aenter__()

    async def __aexit__(self, *raised: Any) -> bool:
        timeout, self._timeout = self._timeout, None
        try:
            if timeout is not None:
                await timeout.__aexit__(*raised)
        except TimeoutError:  # of `end`: one from inside of the block is not raised here
            return True
        return False


class Link:
    """A live peer with its transport, its translator and its outbox. `tap` records its frames."""

    __slots__ = (  # with so many attributes a dict would take 1.6 KB
        "__weakref__",
        "_alarm",
        "_budget",
        "_ended",
        "_events",
        "_faults",
        "_reading",
        "_reason",
        "_services",
        "_translator",
        "_transport",
        "_why",
        "_work",
        "alive",
        "answered",
        "attaches",
        "behind",
        "dialect",
        "fault",
        "hops",
        "id",
        "ingress",
        "intake",
        "meter",
        "outbox",
        "peer",
        "principal",
        "publishes",
        "put",
        "roles",
        "sessions",
        "tap",
        "trace",
    )

    def __init__(
        self,
        peer: Peer,
        transport: Transport,
        translator: Translator[T, Sent],
        services: Services,
        events: LinkEvents[T],
        tap: Tap | None = None,
    ) -> None:
        self.id, self.dialect, self.principal, self.roles = peer.id, peer.dialect, peer.principal.name, peer.roles
        self.ingress, self.attaches, self.publishes = peer.ingress, peer.attaches, peer.publishes
        self.sessions: dict[str, None] = {}  # ids of sessions to which the peer is attached or waits to be
        self.behind: dict[str, None] = {}  # ids of sessions with events that the peer was not sent
        self.alive, self._ended = True, False
        self.fault: PeerError | None = None  # the fault for which the peer was disconnected
        self._transport, self.tap, self.peer, self.meter = transport, tap, transport.peer, transport.meter
        self._translator: Translator[Any, Any] = translator
        self._events: LinkEvents[Any] = events
        self._services, self._budget, limits = services, services.queue.budget, services.limits
        self.outbox = Outbox(limits.outbox_soft, limits.outbox_hard, transport, self._budget, peer.traffic)
        # An attribute, because a method would be one more call for each write.
        self.put = self.outbox.put if tap is None else partial(_put_recorded, tap, self.outbox)
        self.intake = FrameIntake(peer, transport, translator, services, self.outbox, tap, events.understands)
        self._alarm, self._reading = Deadline(services.schedule), Reading()
        self._reason, self._why = CloseReason.DONE, ""  # of the close, and its cause
        self._work: SlicedWork | None = None  # most links have none
        self.answered: Flag | None = None  # set when the peer, which says no more, may have its answers
        self.trace, self.hops = _read_handshake(transport)
        self._faults = FaultLog(peer.dialect.name, weakref.proxy(self), services.ledger.counters, services.monotonic)

    @property
    def log(self) -> Any:
        """Return a logger whose lines name the link, made at each use: it takes 1 KB, and most links log nothing."""
        traced = {"trace": trace_id(self.trace)} if self.trace is not None else {}
        return log.bind(link=self.id, dialect=self.dialect.name, peer=self.peer, principal=self.principal, **traced)

    async def run(self, begin: Callable[[Link], None] = do_nothing) -> None:
        """Call `begin`, then serve the peer until it leaves or is disconnected; a failure ends this link alone."""
        left: float | None = None  # seconds for the close; None means those of the transport
        try:
            self._services.memory.watch(self._transport.meter, self._relieve)
            self.outbox.serve(self._start_writer)
            try:
                begin(self)
                async with self._reading:
                    sink = self.intake.sink(self._services, self._apply, self._faults, self._refuse)
                    # A refused peer may have written: closing with that unread would drop our last frames.
                    await (asyncio.sleep(0) if self._ended else self._transport.run(sink))
                    if not self._ended:
                        self.answered = Flag()
                        await _last_answers(self.answered, self._translator, self._transport)
                        await self._services.queue.departures.wait_for_turn()  # thousands of peers may leave at once
            finally:
                if not self._ended:
                    self._finish()  # waiting frames are still written: the peer may have closed its own direction
            self._report_over()
            left = await _flush(self.outbox.writer, 0.0 if self._reason is CloseReason.TOO_SLOW else FLUSH_DEADLINE)
        except Exception:
            self.log.exception("link failed, disconnecting the peer")
            self._reason = CloseReason.INTERNAL
        finally:
            self._report_over()
            self.intake.close()
            self._faults.flush()
            self.outbox.discard()
            seconds = left if self.intake.is_limited else None
            try:
                await _end(self.outbox.writer)
            finally:
                await _close(self._transport, self._reason, self._why, seconds, self._services.memory)

    def _report_over(self) -> None:
        if self.alive:
            self.alive = False
            if self._work is not None:
                self._work.stop()
            self._events.over(self)

    def end(self, reason: CloseReason, cause: str = "") -> None:
        """Disconnect the peer: write the frames that wait for it, then close the transport."""
        if not self._ended:
            self._reason = reason
            self._apply(_last_step(self, self._translator, cause))
            self._finish()

    def fail(self, error: Exception) -> None:
        """Log an exception of our own code, and disconnect the peer."""
        self.log.error("link failed, disconnecting the peer", exc_info=error)
        self.end(CloseReason.INTERNAL)

    def add_work(self, slices: Iterator[None]) -> None:
        """Do work for this peer in slices, after its earlier work; other links are served between them."""
        self._work = self._work or SlicedWork(self._services.queue, partial(Link.fail, weakref.proxy(self)))
        self._work.add_work(slices)

    def cut(self, fault: PeerError) -> None:
        """Disconnect the peer for this fault. Tell it the reason, or drop the waiting frames if it does not read."""
        if self.outbox.empty:
            self._refuse(fault.code, fault.text)
            return
        self._note_cut(fault.code, fault.text)
        self._reason = CloseReason.TOO_SLOW
        self._finish()
        self.outbox.discard()

    def _relieve(self) -> None:
        """Disconnect the peer to free memory: the budget is exhausted, and no other peer holds more."""
        text = f"the gateway is out of memory (`memory`): this client made it hold {self._transport.meter.size} bytes"
        self._transport.discard()
        self.outbox.clear()
        self._services.memory.release(self._transport.meter)  # the rest is freed when the connection closes
        self._refuse("out_of_memory", text)

    def _refuse(self, code: PeerErrorCode, text: str) -> None:
        """Tell the peer why it is disconnected, and disconnect it."""
        if not self._ended:
            self._note_cut(code, text)
            self._events.refused(self, text)
            self.end(CloseReason.FULL, code)

    def _note_cut(self, code: str, text: str) -> None:
        self._why = text
        self.log.warning("peer disconnected", code=code, reason=text)
        self._services.ledger.counters[f"links_cut_{code}"] += 1

    def _finish(self) -> None:
        """Mark the link as over: nothing more is read, and only what waits now is still written."""
        self._ended = True
        self.outbox.close()  # the end of a turn would answer the request again that was just refused
        self._reading.end()
        self._alarm.stop()
        self.intake.stop()
        if self.outbox.crowded:
            self._transport.resume()  # the frames that it holds back are counted

    def greet(self) -> None:
        """Send the frames with which the dialect begins a connection."""
        self._apply(self._translator.opened())

    def send(self, items: Sequence[Any]) -> None:
        if self.tap is not None:
            self.tap.record_items(items)
        self._apply(self._translator.send(items))

    def refuse(self, request: str, cause: Cause, text: str) -> None:
        self.send([Reply(request=request, failure=Failure(cause=cause, text=text))])

    def attach(self, state: SessionState, request: str) -> None:
        if self.tap is not None:
            self.tap.note_attached(state.id)
        if not (self.attaches or self.publishes):  # the answer to its call tells the number of messages
            self._services.queue.spend(COUNTED * len(state.transcript))
        self._apply(self._translator.attach(state, request))

    def on_delivered(self, batch: Batch) -> None:
        """Tell the translator that a batch went out which begins or ends a turn of this peer."""
        self._apply(self._translator.on_delivered(batch))
        if self.answered is not None:
            self.answered.set()  # the projection wrote the answer: this translator has no frames to send

    @property
    def view(self) -> str:
        return self._translator.view

    def can_be_asked(self, question: Event) -> bool:
        return self._translator.can_be_asked(question)

    def _start_writer(self) -> asyncio.Task[None]:
        return self._services.start_task(self._write(), f"{self.id}:write")

    async def _write(self) -> None:
        try:
            await self.outbox.write(partial(self._events.drained, self))
        except ConnectionError as error:  # frames that the peer sent before it closed are still read
            self.log.debug("cannot write to the peer any more", error=str(error))
        except Exception as error:  # noqa: BLE001  # no caller is above the task: the failure ends this link alone
            self.fail(error)

    def _apply(self, step: Step[Any]) -> None:
        if step.frames:
            if self.answered is not None:
                self.answered.set()
            was_over = self.outbox.over  # one answer may be as large as it is
            self.put(step.frames)
            self._budget.left -= sum(map(len, step.frames))
            if was_over:
                self.cut(FLOODING)
                self.intake.count_dropped(len(step.bursts))
                step.bursts = []
        if step.losses:
            self._services.ledger.record(step.losses, source=self.dialect.name)
        self._budget.left -= FRAME * (step.mended + len(step.faults) + len(step.losses))
        if step.faults:
            self._faults.note_all(step.faults)
        if step.bursts:
            self._events.sink(self, step.bursts)
        if step.alarm is not None and not self._ended:
            self._alarm.start(step.alarm.after, partial(self._on_alarm, step.alarm))
        fatal = next((fault for fault in step.faults if not fault.can_continue), None) if step.faults else None
        if fatal is not None:
            self.fault = fatal
            self.end(CloseReason.PROTOCOL, fatal.code)

    def _on_alarm(self, alarm: Alarm[Any]) -> None:
        if (ahead := self.intake.ahead) is not None:  # the translator read that frame before: what it says comes first
            ahead.alarm = ahead.alarm or Alarm(0.0, alarm.callback)
            return
        try:
            self._apply(alarm.callback())
        except Exception as error:  # noqa: BLE001  # no caller is above a timer: the failure ends this link alone
            self.fail(error)


def _read_handshake(transport: Transport) -> tuple[TraceContext | None, int]:
    """Return the trace context of a peer's handshake, and the number of other gateways that it came through."""
    headers: Mapping[str, str] = getattr(transport, "headers", {})  # only a WebSocket has them
    return read_trace(headers), count_hops(headers)


def opening_trace(link: Link, command: OpenSession | ResumeSession) -> TraceContext | None:
    """Return the trace context in which a client opens a session: that of the command, or of the client's handshake."""
    return trace_of_metadata(command.metadata) or link.trace


def expiring(link: Link, expires: float | None, services: Services) -> contextlib.AbstractContextManager[None]:
    """Return a context in which the peer is disconnected at `expires` (seconds since 1970), or never (None)."""
    return _expiring(link, expires, services) if expires is not None else NEVER


@contextlib.contextmanager
def _expiring(link: Link, expires: float, services: Services) -> Iterator[None]:
    deadline = Deadline(services.schedule)

    def check() -> None:
        left = expires - services.clock() / 1e9
        if left > 0:
            deadline.start(min(left, CREDENTIAL_CHECK), check)
        else:
            link.log.info("credential expired")
            end_denied(link, "the token or certificate has expired: connect again with a new one")

    deadline.start(0.0, check)
    try:
        yield
    finally:
        deadline.stop()


def end_denied(link: Link, text: str) -> None:
    """Tell a peer that its credential is not valid any more, and disconnect it."""
    link.refuse("", "denied", text)
    link.end(CloseReason.POLICY, text)


def _put_recorded(tap: Tap, outbox: Outbox, frames: Sequence[bytes]) -> None:
    if frames:
        tap.record_frames(frames)
    outbox.put(frames)


def _last_step(link: Link, translator: Translator[Any, Any], cause: str) -> Step[Any]:
    """Return the last step of a translator; an empty one, with a line in the log, if it fails."""
    try:
        return translator.closed(cause)
    except Exception:
        link.log.exception("link failed, disconnecting the peer without its last frames")
        return Step()


async def _end(writer: asyncio.Task[None] | None) -> None:
    """End the writer of a link: no task is left."""
    if writer is not None:
        writer.cancel()
        await asyncio.wait((writer,))


async def _flush(writer: asyncio.Task[None] | None, seconds: float) -> float | None:
    """Wait for the writer of a link for at most `seconds`; return the seconds that are left, None without a writer."""
    if writer is None:
        return None
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    await asyncio.wait((writer,), timeout=seconds)
    return max(0.0, until - loop.time()) if seconds else None


async def _close(
    transport: Transport, reason: CloseReason, text: str, seconds: float | None, memory: MemoryBudget
) -> None:
    """Close a transport within `seconds`, then stop counting its memory. A transport that takes longer is cancelled."""
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds) if seconds is not None else NEVER:
                await transport.close(reason, text)
    finally:
        memory.release(transport.meter)


async def _last_answers(answered: Flag, translator: Translator[Any, Any], transport: Transport) -> None:
    """Wait until a peer that has closed only its sending side has its answers.

    `answered` is set when an answer was written.
    """
    time = asyncio.get_running_loop().time
    until = time() + LAST_ANSWERS
    while translator.has_pending_replies and transport.peer_can_read() and time() < until:
        answered.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOOK):
                await answered.wait()
