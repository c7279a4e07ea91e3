"""A link: one live peer, with its transport, its translator and its outbox.

The same class serves both roles: downstream the sink is the router, upstream the session. A link's failure ends that
link alone; this is the one place where any exception is caught.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import structlog
from msgspec import Struct

from dragoman.adapters.base import CloseReason, Sink, Transport
from dragoman.adapters.flag import Flag
from dragoman.adapters.inbound import memory
from dragoman.gateway.config.model import Role
from dragoman.gateway.identity.principal import LOCAL, Principal
from dragoman.gateway.ingress import Ingress
from dragoman.gateway.observability.faults import FaultLog
from dragoman.gateway.observability.ledger import Ledger
from dragoman.gateway.observability.trace_context import TraceContext, read_trace, trace_id, trace_of_metadata
from dragoman.gateway.observability.traffic import Traffic, counted_sink, timed_reading
from dragoman.gateway.outbox import Outbox
from dragoman.gateway.overload.admission import ClientRates
from dragoman.gateway.overload.command_limits import CommandLimits, make_turns
from dragoman.gateway.overload.fair_queue import EVENT, FEW, FRAME, PUT, QUANTUM, STEP, Turns
from dragoman.gateway.services import Services
from dragoman.gateway.timers import Deadline
from dragoman.mappings.canonical import Batch, Event, SessionState
from dragoman.mappings.canonical.commands import OpenSession, ResumeSession
from dragoman.mappings.canonical.events import Reply
from dragoman.mappings.canonical.values import Cause, Failure
from dragoman.mappings.dialect import Alarm, Burst, Dialect, Frame, Loss, Parts, Step, TextReader, TextSink, Translator
from dragoman.mappings.errors import PeerError, PeerErrorCode

if TYPE_CHECKING:
    from dragoman.gateway.recording.recorder import Tap

T = TypeVar("T")
Said = TypeVar("Said")

WHOLE = (bytes, Parts)  # a message: other frames stand for those that are missing
LAST_ANSWERS = 3600.0  # seconds for what a peer asked that says no more: as long as a session lives without links
LOOK = 1.0  # seconds between two looks whether it still reads
FLUSH_DEADLINE = 2.0  # seconds that a peer which is sent away has to read what waits for it, and a client to close
NEVER = contextlib.nullcontext()  # one for all links: a context of its own takes 0.5 KB
DISCONNECTED = "came from a peer that was disconnected"

log = structlog.get_logger("dragoman.link")


class Peer(Struct, frozen=True, kw_only=True):
    """The program at the other end of a link.

    `id` is unique in this process. `ingress` is the listener by which the peer came. A peer that does not `attaches`
    makes calls, and is shown nothing of a session but their answers; one that `publishes` stands for all subscribers.
    """

    id: str
    dialect: Dialect
    principal: Principal = LOCAL
    """The user; `local` without authentication."""
    roles: frozenset[Role] | None = None
    """What the user may do; None allows everything."""
    ingress: Ingress = Ingress()
    attaches: bool = True
    publishes: bool = False
    limited: bool = False
    """True for clients: `Limits` bounds each message, and more messages or faults in a time end the link."""
    traffic: Traffic | None = None
    """Totals to which the link adds its frames and the time of their translation."""


class LinkEvents(Struct, Generic[T], frozen=True, kw_only=True):
    """Functions that a link calls. The sink takes what the peer said: commands of a client, events of a backend."""

    sink: Callable[[Link, list[Burst[T]]], None]
    drained: Callable[[Link], None] | None = None
    """Everything is written that was put, and the peer is behind in some session."""
    over: Callable[[Link], None] = lambda _link: None
    """The peer is gone, and its transport is about to be closed; called once."""
    refused: Callable[[Link, str], None] = lambda _link, _text: None
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


def _read_nothing(_frame: Frame, _add_text: TextSink) -> bool:
    """Read no text: there is no text to which a piece could be added."""
    return False


_ATTRIBUTES = (
    "__weakref__",
    "_add_text",
    "_alarm",
    "_budget",
    "_each",
    "_ended",
    "_events",
    "_faults",
    "_flush",
    "_group",
    "_ledger",
    "_memory",
    "_rates",
    "_read_text",
    "_reading",
    "_reason",
    "_receive",
    "_text_reader",
    "_translator",
    "_transport",
    "_turns",
    "_unchecked",
    "_why",
    "alive",
    "answered",
    "attaches",
    "behind",
    "dialect",
    "fault",
    "heard",
    "id",
    "ingress",
    "meter",
    "outbox",
    "peer",
    "principal",
    "publishes",
    "roles",
    "sessions",
    "tap",
    "trace",
    "traffic",
)
"""The attributes of a link: with so many, its dict would take 1.6 KB."""


class Link:
    """A live peer with its transport, its translator and its outbox. `tap` records its frames."""

    __slots__ = _ATTRIBUTES

    def __init__(
        self,
        peer: Peer,
        transport: Transport,
        translator: Translator[T, Said],
        services: Services,
        events: LinkEvents[T],
        tap: Tap | None = None,
    ) -> None:
        self.id, self.dialect, self.principal, self.roles = peer.id, peer.dialect, peer.principal.name, peer.roles
        self.ingress, self.attaches, self.publishes = peer.ingress, peer.attaches, peer.publishes
        self.outbox = Outbox(services.limits.outbox_soft, services.limits.outbox_hard, transport)
        self.sessions: dict[str, None] = {}  # ids of sessions to which the peer is attached or waits to be
        self.behind: dict[str, None] = {}  # ids of sessions with events that the peer was not sent
        self.alive, self.heard, self._ended = True, False, False  # `heard`: `understands` has accepted a frame
        self.fault: PeerError | None = None  # the fault for which the peer was disconnected
        self._transport, self.tap, self.peer, self.meter = transport, tap, transport.peer, transport.meter
        self._translator: Translator[Any, Any] = translator
        self._receive, self._text_reader = timed_reading(translator, peer.traffic)
        self._events: LinkEvents[Any] = events
        self._ledger, self._memory, self._budget = services.ledger, services.memory, services.queue.budget
        self.stream_text(None)
        limits = CommandLimits(services.limits, peer.dialect) if peer.limited else None
        self._unchecked, self._each = (limits.unchecked, limits.work) if limits else (sys.maxsize, EVENT)
        self._turns = make_turns(services.queue, transport.resume, limits)
        self._alarm, self._reason, self._why = Deadline(services.schedule), CloseReason.DONE, ""  # and its cause
        self._flush, self._reading = FLUSH_DEADLINE, Reading()  # in the task of the link: one of its own takes 1 KB
        self._group, self.traffic = asyncio.TaskGroup(), peer.traffic  # the group is of the writer
        self.answered: Flag | None = None  # set when the peer, which says no more, may have its answers
        self.trace: TraceContext | None = read_trace(getattr(transport, "headers", {}))
        self._rates = ClientRates(services.limits, services.monotonic) if peer.limited else None
        self._faults = FaultLog(peer.dialect.name, weakref.proxy(self), services)

    @property
    def log(self) -> Any:
        """Return the log of this link, bound now: most links say nothing, and it takes 1 KB."""
        return _bound_log(self)

    async def run(self, begin: Callable[[Link], None] = lambda _link: None) -> None:
        """Call `begin`, then serve the peer until it leaves or is disconnected; a failure ends this link alone."""
        left: float | None = None  # seconds for the close; None means those of the transport
        try:
            self._memory.watch(self._transport.meter, self._relieve)
            async with self._group:
                self.outbox.serve(self._start_writer)
                try:
                    begin(self)
                    async with self._reading:
                        # A refused peer may have written: closing with that unread would drop our last frames.
                        await (self._transport.run(self._limited_sink()) if not self._ended else asyncio.sleep(0))
                        if not self._ended:
                            await _last_answers(self, self._translator, self._transport, self._turns)
                finally:
                    self._finish()  # waiting frames are still written: the peer may have closed its own direction only
                    self.outbox.close()
                self._die()
                left = await _flush(self.outbox.writer, self._flush)
        except Exception:
            self.log.exception("link failed, disconnecting the peer")
            self._reason = CloseReason.INTERNAL
        finally:
            self._die()
            self._alarm.stop()
            self._faults.flush()
            self.outbox.discard()
            with self._memory.until_closed(self._transport.meter):
                await _close(self._transport, self._reason, self._why, left if self._each > EVENT else None)

    def _die(self) -> None:
        if self.alive:
            self.alive = False
            self._events.over(self)

    def end(self, reason: CloseReason, cause: str = "") -> None:
        """Disconnect the peer: write the frames that wait for it, then close the transport."""
        if not self._ended:
            self._reason = reason
            self._apply(self._translator.closed(cause))
            self._finish()

    def cut(self, fault: PeerError) -> None:
        """Disconnect the peer for this fault. Frames that wait are dropped: it does not read. Else it is told why."""
        if self.outbox.empty:
            self._refuse(fault.code, fault.text)
            return
        self._note_cut(fault.code, fault.text)
        self._reason, self._flush = CloseReason.TOO_SLOW, 0.0
        self._finish()
        self.outbox.discard()

    def _relieve(self) -> None:
        """Free what this peer makes the gateway hold, and disconnect it: no other holds more, and there is no room."""
        text = f"the gateway is out of memory (`memory`): this client made it hold {self._transport.meter.size} bytes"
        self._transport.discard()
        self.outbox.clear()
        self._memory.release(self._transport.meter)  # the rest is freed when the connection closes, within seconds
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
        self._ledger.counters[f"links_cut_{code}"] += 1

    def _finish(self) -> None:
        """Mark the link as over: the peer is gone or is disconnected, and its waiting frames are dropped."""
        self._ended = True
        self._reading.end()
        self._alarm.stop()
        self._turns.stop()
        if self.outbox.crowded:
            self._transport.resume()  # the frames that it holds back are counted

    def open(self) -> None:
        """Send the frames with which the dialect begins a connection."""
        self._apply(self._translator.opened())

    def send(self, items: Sequence[Any]) -> None:
        """Send these canonical items to this peer alone."""
        if self.tap is not None:
            self.tap.send(items)
        self._apply(self._translator.send(items))

    def refuse(self, request: str, cause: Cause, text: str) -> None:
        """Answer a command of this peer with an error."""
        self.send([Reply(request=request, failure=Failure(cause=cause, text=text))])

    def attach(self, state: SessionState, request: str) -> None:
        """Show a session to the peer."""
        if self.tap is not None:
            self.tap.attach(state.id)
        self._apply(self._translator.attach(state, request))

    def on_delivered(self, batch: Batch) -> None:
        """Tell the translator that a batch went out which begins or ends a turn of this peer."""
        self._apply(self._translator.on_delivered(batch))
        if self.answered is not None:
            self.answered.set()  # the projection wrote the answer: this translator has no frames to send

    @property
    def view(self) -> str:
        """Name of the peer's view of a session: links of one view share a rendering."""
        return self._translator.view

    def can_be_asked(self, question: Event) -> bool:
        """Return True if the peer's dialect has a form for this question; else the peer is asked in words."""
        return self._translator.can_be_asked(question)

    def put(self, frames: Sequence[bytes], *, noted: bool = False) -> None:
        """Write or queue rendered frames, and record them unless `noted`. A broadcast checks `outbox.full` first."""
        if self.tap is not None and frames and not noted:
            self.tap.put(frames)
        self._budget.left -= PUT
        if frames and not (self.outbox.idle and self._transport.try_send(frames)):
            self.outbox.put(frames)
        elif self.traffic is not None:
            self.traffic.add_sent(frames)

    def _limited_sink(self) -> Sink:
        rates, self._rates = self._rates, None  # the transport refers to it while it reads: no cycle is left
        hear = counted_sink(self._hear, self.traffic)
        return rates.limited(self._transport, hear, self._faults, self._refuse) if rates else hear

    def _hear(self, frames: Sequence[Frame]) -> int:  # noqa: C901  # each frame would pay for a further call
        """Act on frames in the call that read them; return how many were taken. The others wait in the transport."""
        if self._ended:
            return _count_dropped(self._ledger, self.dialect, len(frames))
        if self.outbox.crowded and self._each > EVENT:  # the client has many answers to read
            return 0
        given, budget, size, taken = len(frames), self._budget, 0, 0
        before, debt = budget.left, STEP if self._each == EVENT else 0
        if given == 1 and before > budget.turn_end - debt and type(frame := frames[0]) in WHOLE:
            size = len(frame) if type(frame) is bytes else memory(frame)
        if 0 < size <= self._unchecked:
            budget.left -= self._each + size
        elif not (frames := self._turns.admit(frames)):
            return 0
        tap, add_text = self.tap, self._add_text
        if add_text is not None and given == 1:
            if tap is not None:
                tap.call.reading = frames[0]  # no call: for each token
            if self._read_text(frames[0], add_text):
                return 1
        for some in (frames,) if given <= self._turns.piece else self._turns.pieces(frames):
            self.heard = self.heard or self._events.understands(some)
            if tap is None:
                self._apply(self._receive(some))
            else:
                _record(tap, some, lambda some: self._apply(self._receive(some)))
            taken += len(some)
            if self._ended:
                return taken + _count_dropped(self._ledger, self.dialect, given - taken)  # type: ignore[unreachable]  # a step may end it
        if self._each > EVENT:
            self._turns.usual = min(before - budget.left, QUANTUM)
        elif given > FEW:
            self._turns.note_cost(taken, before - budget.left)
        return taken

    def _start_writer(self) -> asyncio.Task[None]:
        return self._group.create_task(_write(self, self._transport, self._events.drained), name=f"{self.id}:write")

    def stream_text(self, add_text: TextSink | None) -> None:
        """Give lone further pieces of the text that the peer just said to this sink; None ends that."""
        read = self._text_reader() if add_text is not None else None
        self._add_text = add_text if read is not None else None
        self._read_text: TextReader = read or _read_nothing

    def _apply(self, step: Step[Any]) -> None:
        if step.frames:
            if self.answered is not None:
                self.answered.set()
            was_over = self.outbox.over  # one answer may be as large as it is
            self.put(step.frames)
            self._budget.left -= sum(map(len, step.frames))
            if was_over:
                self.cut(PeerError("flooding", "sends requests and does not read the answers", can_continue=False))
                _count_dropped(self._ledger, self.dialect, len(step.bursts))
                step.bursts = []
        if step.losses:
            self._ledger.record(step.losses, source=self.dialect.name)
        self._budget.left -= FRAME * (step.mended + len(step.faults))
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
        try:
            self._apply(alarm.callback())
        except Exception:  # no caller is above a timer: the link's failure ends this link alone
            self.log.exception("link failed at a timer, disconnecting the peer")
            self._reason = CloseReason.INTERNAL
            self._finish()


def _record(tap: Tap, frames: Sequence[Frame], receive: Callable[[Sequence[Frame]], None]) -> None:
    """Receive frames, and note for the recording what they lead to."""
    if tap.session:
        tap.begin_step(frames)
        try:
            receive(frames)
        finally:
            tap.end_step()
    else:
        tap.receive(frames, receive)


def _count_dropped(ledger: Ledger, dialect: Dialect, count: int) -> int:
    """Count frames, or commands, of a disconnected peer as lost; return how many."""
    losses = [Loss(kind="frame", why=DISCONNECTED, count=count)] if count else []
    ledger.record(losses, source=dialect.name)
    return count


def _bound_log(link: Link) -> Any:
    """Return a log whose lines name the link and the trace of its handshake."""
    traced = {"trace": trace_id(link.trace)} if link.trace is not None else {}
    return log.bind(link=link.id, dialect=link.dialect.name, peer=link.peer, principal=link.principal, **traced)


def opening_trace(link: Link, command: OpenSession | ResumeSession) -> TraceContext | None:
    """Return the trace context in which a client opens a session: that of the command, or of the client's handshake."""
    return trace_of_metadata(command.metadata) or link.trace


def expiring(link: Link, expires: float | None, services: Services) -> contextlib.AbstractContextManager[None]:
    """Disconnect a peer, in this context, when its credential ends, and tell it so. None: it does not end."""
    return _expiring(link, expires, services) if expires is not None else NEVER


@contextlib.contextmanager
def _expiring(link: Link, expires: float, services: Services) -> Iterator[None]:

    def expire() -> None:
        text = "the token has expired: connect again with a new one"
        link.log.info("token expired")
        link.refuse("", "denied", text)
        link.end(CloseReason.POLICY, text)

    timer = services.schedule(max(0.0, expires - services.clock() / 1e9), expire)
    try:
        yield
    finally:
        timer.cancel()


async def _write(link: Link, transport: Transport, drained: Callable[[Link], None] | None) -> None:
    """Write what waits in the outbox of a link; call `drained` when all is written and the link is behind."""
    outbox, traffic = link.outbox, link.traffic
    was_crowded = outbox.crowded
    try:
        while frames := outbox.take():
            if traffic is not None:
                traffic.add_sent(frames)
            await transport.send(frames)
            del frames  # a frame may hold a whole history, and the next `take` may wait for long
            if was_crowded and not outbox.crowded:
                transport.resume()
            was_crowded = outbox.crowded
            if link.behind and outbox.empty and drained is not None:
                drained(link)
    except ConnectionError as error:
        # The peer may have written before it closed: what it said is still read and acted on.
        link.log.debug("cannot write to the peer any more", error=str(error))
        outbox.discard()
        if was_crowded:
            transport.resume()


async def _flush(writer: asyncio.Task[None] | None, seconds: float) -> float | None:
    """Let the writer of a link end in this time; return what is left of the time, None if there was no need of it."""
    if writer is None:
        return None
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    await asyncio.wait((writer,), timeout=seconds)
    writer.cancel()
    return max(0.0, until - loop.time()) if seconds else None


async def _close(transport: Transport, reason: CloseReason, text: str, seconds: float | None) -> None:
    """Close a transport; one that is not closed in this time is cut off."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await transport.close(reason, text)


async def _last_answers(link: Link, translator: Translator[Any, Any], transport: Transport, turns: Turns) -> None:
    """Wait until a peer that has stopped sending has its answers, as a script at the other end of a pipe needs.

    Then wait until its link may end: thousands of peers may leave at once.
    """
    answered = link.answered = Flag()
    until = asyncio.get_running_loop().time() + LAST_ANSWERS
    while translator.has_pending_replies and transport.peer_can_read() and asyncio.get_running_loop().time() < until:
        answered.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOOK):
                await answered.wait()
    await turns.wait_to_leave()
