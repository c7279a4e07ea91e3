"""Pass received frames of a link from its transport to its translator (docs/design.md, section 3).

The transport passes the frames of a read to the sink, and keeps those that were not taken until `resume` is called:

    over        the link has ended: frames are counted as lost
    crowded     a client has many answers to read: none is taken now
    checked     a client's message above its limits becomes Oversize, so that it gets its dialect's own error
    text        a few further pieces of the text that streams go straight to its session, as waiting costs more
    in turn     no room is left in this step: the others wait for their turn
    large       a large frame: the translator reads it now, and the link acts on it in a later step
    the rest    the translator reads it, and the link acts on the step, as much at once as the step has room for
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from dragoman.adapters.base import Sink, Transport, do_nothing
from dragoman.adapters.inbound import memory
from dragoman.gateway.observability.log_throttle import FaultLog
from dragoman.gateway.observability.traffic import counted_sink, timed_reading
from dragoman.gateway.outbox import Outbox
from dragoman.gateway.overload.admission import ClientRates, CommandLimits, expected_work
from dragoman.gateway.overload.fair_queue import EVENT, FEW, FRAME, QUANTUM, STEP, STREAMED, Turns
from dragoman.gateway.peer import Peer
from dragoman.gateway.services import Services
from dragoman.mappings.dialect import Frame, Loss, Parts, Step, StreamedBlock, TextReader, TextSink, Translator
from dragoman.mappings.errors import PeerErrorCode

if TYPE_CHECKING:
    from dragoman.gateway.recording.recorder import Tap

Act = Callable[[Step[Any]], None]
"""Acts on what the translator made of some frames."""

TEXT_MAX = 16 * 1024  # bytes of a piece of text that goes straight to its session
LARGE = 2 * STEP  # units of a frame that takes two steps: to read a history of 1 MiB may take 50 ms
TEXT_DEBT = 8 * STEP  # units by which such pieces may exceed a step: about 3,000 pieces, which take 0.1 to 0.2 s
WHOLE = (bytes, Parts)  # frames with a message: Oversize and Missed are placeholders
DISCONNECTED = "came from a peer that was disconnected"


def _read_nothing(_frame: Frame, _add_text: TextSink) -> bool:
    """Read no text: there is no text to which a piece could be added."""
    return False


class FrameIntake:
    """Passes a peer's frames to its translator. `understands` is called with them until it returns True."""

    __slots__ = (
        "_act",
        "_add_text",
        "_budget",
        "_dialect",
        "_each",
        "_ledger",
        "_outbox",
        "_over",
        "_queue",
        "_read",
        "_read_text",
        "_receive",
        "_receive_now",
        "_tap",
        "_text_reader",
        "_traffic",
        "_transport",
        "_unchecked",
        "_understands",
        "ahead",
        "heard",
        "is_limited",
        "turns",
    )

    def __init__(
        self,
        peer: Peer,
        transport: Transport,
        translator: Translator[Any, Any],
        services: Services,
        outbox: Outbox,
        tap: Tap | None,
        understands: Callable[[Sequence[Frame]], bool],
    ) -> None:
        self._transport = transport
        if peer.limited:
            limits = CommandLimits(services.limits, peer.dialect)
            self._unchecked, self._each = limits.unchecked, FRAME * peer.dialect.cost.work
            expect = partial(expected_work, peer.dialect.cost.inputs)
            self.turns = Turns(services.queue, transport.resume, limits.check, self._each, expect)
        else:
            self._unchecked, self._each = sys.maxsize, EVENT
            self.turns = Turns(services.queue, transport.resume, each=EVENT)
        self._receive_now, self._text_reader = timed_reading(translator, peer.traffic)
        self._receive = self._receive_now
        self._queue, self._budget, self._ledger = services.queue, services.queue.budget, services.ledger
        self._dialect, self._traffic = peer.dialect, peer.traffic
        self._outbox, self._tap, self._understands = outbox, tap, understands
        self._act: Act = do_nothing
        self._over, self.is_limited = False, peer.limited
        self.ahead: Step[Any] | None = None
        """The step that the translator made of a frame on which the link has not acted."""
        self._read: Frame | None = None  # that frame
        self.heard = False
        """True once `understands` has accepted a frame."""
        self._add_text: TextSink | None = None
        self._read_text: TextReader = _read_nothing

    def sink(
        self, services: Services, act: Act, faults: FaultLog, refuse: Callable[[PeerErrorCode, str], None]
    ) -> Sink:
        """Return the sink for the frames of the transport. `act` is referred to until `close` is called.

        `refuse` is called if a client sends too many messages or faults in a time. Its pings and pongs count as
        messages, too: they are read and answered.
        """
        self._act = act
        sink = counted_sink(self._take_frames, self._traffic)
        if not self.is_limited:
            return sink
        rates = ClientRates(services, sink, faults, refuse)
        watch_pings = getattr(self._transport, "watch_pings", None)  # only a WebSocket has them
        if watch_pings is not None:
            watch_pings(rates.count)
        return rates.take

    def _take_frames(self, frames: Sequence[Frame]) -> int:  # noqa: C901  # each frame would pay for a further call
        """Act on frames in the call that read them; return how many were taken. The others wait in the transport."""
        if self._over:
            return self.count_dropped(len(frames))
        if self.is_limited and self._outbox.crowded:  # the client has many answers to read
            return 0
        given, taken, add_text = len(frames), 0, self._add_text
        budget, tap = self._budget, self._tap
        if add_text is not None and 0 < given <= STREAMED:
            for frame in frames:
                size = len(frame) if type(frame) is bytes else memory(frame)
                if size > TEXT_MAX or budget.left <= -TEXT_DEBT or type(frame) not in WHOLE:
                    break
                if tap is not None:
                    tap.call.reading = frame  # no call: for each token
                if not self._read_text(frame, add_text):
                    break
                budget.left -= EVENT + size
                taken += 1
            if taken and budget.left < 0:
                self._queue.spend(0)  # or the next frame would wait although no other link does
            if taken == given:
                return taken
            frames = frames[taken:]
        lone = frames[0] if len(frames) == 1 else None
        size = len(lone) if type(lone) is bytes else memory(lone) if type(lone) is Parts else 0
        before, debt = budget.left, 0 if self.is_limited else STEP
        if self.ahead is not None:
            if not (frames := self._take_large(frames)):
                return 0
        elif 0 < size <= self._unchecked and before > budget.turn_end - debt:
            budget.left -= self._each + size
        elif not (frames := self.turns.admit(frames)):
            return taken
        if before - budget.left > LARGE and self.ahead is None and len(frames) == 1 and type(frames[0]) in WHOLE:
            self._read_ahead(frames)
            return taken
        for some in (frames,) if given <= self.turns.piece else self.turns.pieces(frames):
            self.heard = self.heard or self._understands(some)
            if tap is None:
                self._act(self._receive(some))
            else:
                self._receive_recorded(tap, some)
            taken += len(some)
            if self._over:
                return taken + self.count_dropped(given - taken)  # type: ignore[unreachable]  # a step may end it
        if self.is_limited:
            self.turns.usual = min(before - budget.left, QUANTUM)
        elif given > FEW:
            self.turns.note_cost(taken, before - budget.left)
        return taken

    def _take_large(self, frames: Sequence[Frame]) -> Sequence[Frame]:
        """Return the frame that was read ahead, if it is the first one. All others wait for their turn.

        A pando has two connections, so frames of the other one may come first.
        """
        is_own = frames[0] is self._read
        if is_own:
            self._budget.left -= memory(frames[0])
        if rest := frames[is_own:]:
            self.turns.wait(rest)
        return frames[:is_own]

    def _read_ahead(self, frames: Sequence[Frame]) -> None:
        """Let the translator read a frame that waits in the transport.

        The link acts on it when the transport passes it again. Frames that come meanwhile wait behind it.
        """
        step = self.ahead = self._receive_now(frames)
        self._read = frames[0]
        self.stream_text(None)

        def receive(_frames: Sequence[Frame]) -> Step[Any]:
            self._receive, self.ahead, self._read = self._receive_now, None, None
            return step

        self._receive = receive
        self.turns.wait(frames, has_read=True)

    def _receive_recorded(self, tap: Tap, frames: Sequence[Frame]) -> None:
        """Receive frames, and note for the recording what they lead to."""
        if not tap.session:
            tap.receive(frames, lambda some: self._act(self._receive(some)))
            return
        tap.begin_step(frames)
        try:
            self._act(self._receive(frames))
        finally:
            tap.end_step()

    def stream_text(self, block: StreamedBlock | None) -> None:
        """Give further pieces to this block, of which the peer has just sent some; None ends that."""
        read = self._text_reader(block.delta) if block is not None else None
        self._add_text = block.add_text if block is not None and read is not None else None
        self._read_text = read or _read_nothing

    def count_dropped(self, count: int) -> int:
        """Count frames, or commands, of a disconnected peer as lost; return how many."""
        losses = [Loss(kind="frame", why=DISCONNECTED, count=count)] if count else []
        self._ledger.record(losses, source=self._dialect.name)
        return count

    def stop(self) -> None:
        """Count further frames as lost, and those that wait for a turn: the link is over."""
        self._over = True
        self.turns.stop()

    def close(self) -> None:
        """Drop the references to the link, whose transport has stopped reading."""
        self._act = do_nothing
