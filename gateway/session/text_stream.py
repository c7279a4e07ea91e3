"""The fast path of streamed text or reasoning, while nothing else happens in the session (docs/design.md, section 6).

Most of what a gateway carries is one more piece of such a block. For each of them the general path would touch a
hundred objects to find out that it changes nothing else. So the general path, once it has delivered a piece, makes a
TextStream: the few objects that a further piece changes, and one function for each rendering. Anything but a further
piece takes the general path, which closes the stream first. More than STREAMED pieces in one read take it, too: they
are handled together in less time, with one write to each client.

    made    by Groups, after at most STREAMED pieces were delivered, if each group's projection has a fast writer
    left    by anything but a few pieces of text, by a full outbox, after EVENTS_MAX pieces or WEIGHT_MAX characters
    closed  by the log, which takes its pieces then; the open block has each at once
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from dragoman.gateway.outbox import Outbox
from dragoman.gateway.session.attachments import DeliveryContext
from dragoman.mappings.alike import Around
from dragoman.mappings.canonical import OpenTurn
from dragoman.mappings.dialect import DeltaType, TextWriter

EVENTS_MAX = 256  # pieces of one batch of the log: one in 100 that is slow would be the 99th percentile of their delay
WEIGHT_MAX = 16 * 1024  # characters: the memory budget hears of them when the stream is closed


class TextTarget(Struct, frozen=True, kw_only=True):
    """The ids and outboxes of links that share a rendering, and the function that renders a further piece for them.

    `around` has the strings around the text in its frames, for the recorder; None if the frames differ in more.
    """

    write: TextWriter
    around: Around | None
    links: Sequence[str]
    outboxes: Sequence[Outbox]


class TextStream:
    """The open block of a turn, with pieces of the type `delta`. `count` pieces of `weight` characters were added."""

    __slots__ = (
        "_clock",
        "_events_max",
        "_first",
        "_notes",
        "_outboxes",
        "_parts",
        "_state",
        "_turn",
        "_weight_max",
        "_writers",
        "count",
        "delta",
        "open",
        "weight",
    )

    def __init__(
        self, context: DeliveryContext, turn: OpenTurn, delta: DeltaType, targets: Sequence[TextTarget]
    ) -> None:
        log, services, recorder = context.log, context.services, context.recorder
        self.open, self.delta = True, delta
        self.count = self.weight = 0
        self._state, self._turn, self._clock = context.state, turn, services.clock
        self._events_max, weight_max = log.open_text(delta, EVENTS_MAX, WEIGHT_MAX, self._close)
        self._weight_max = min(weight_max, services.limits.transcript_max - log.turn_weight)
        self._parts: list[str] = turn.open.parts if turn.open is not None else []
        self._first = len(self._parts)
        self._writers = [target.write for target in targets]
        # Each outbox, behind the place of its writer. In one list, because a loop within a loop is slower.
        self._outboxes = [(place, outbox) for place, target in enumerate(targets) for outbox in target.outboxes]
        links, around = [target.links for target in targets], [target.around for target in targets]
        self._notes = recorder.open_text(links, around) if recorder is not None else None

    def add_text(self, text: str, at: int, _session: str = "") -> bool:
        """Log a further piece of the block and send it to every client; `at` is its time (ns), 0 for now.

        Return False, and do nothing, if the piece must take the general path. A link that carries many sessions has
        found this stream by the session's id.
        """
        if not self.open or not text or self.count >= self._events_max:
            return False
        weight = self.weight + len(text)
        if weight > self._weight_max:
            return False
        for _, outbox in self._outboxes:
            if outbox.full:
                return False
        now = at or self._clock()
        rendered: list[list[bytes]] = []
        try:
            for write in self._writers:
                rendered.append(write(text, now))  # noqa: PERF401  # a comprehension is a call, for each token
        except Exception:  # noqa: BLE001  # the general path renders it again, and ends the clients of that dialect
            return False
        seq, notes = self._state.seq, self._notes
        if notes is not None and not notes.add_text(text, seq, now, rendered):
            return False
        self._parts.append(text)
        self.count += 1
        self.weight = weight
        self._state.updated_at = now
        self._state.seq = seq + 1
        for place, outbox in self._outboxes:
            outbox.put(rendered[place])
        return True

    def _close(self) -> Sequence[str]:
        """Close the stream; return the pieces that were added."""
        self.open = False
        if not self.count:
            return ()
        self._turn.now = self._state.updated_at
        # The event that closes the stream may have added its pieces after them already.
        return self._parts[self._first : self._first + self.count]
