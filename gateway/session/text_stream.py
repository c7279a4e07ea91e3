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

from dragoman.gateway.observability.traffic import timed_writer
from dragoman.gateway.outbox import Outbox
from dragoman.gateway.session.attachments import DeliveryContext, Group
from dragoman.mappings.alike import Around, strings_around, writer_of
from dragoman.mappings.canonical import OpenTurn
from dragoman.mappings.dialect import DeltaType, TextWriter

EVENTS_MAX = 256  # pieces of one batch of the log: one in 100 that is slow would be the 99th percentile of their delay
WEIGHT_MAX = 16 * 1024  # characters: the memory budget hears of them when the stream is closed


class TextStream:
    """The open block of a turn, with pieces of the type `delta`. `count` pieces of `weight` characters were added.

    Each of `writers` renders a further piece for the links of one of `groups`.
    """

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
        self,
        context: DeliveryContext,
        turn: OpenTurn,
        delta: DeltaType,
        groups: Sequence[Group],
        writers: Sequence[TextWriter],
    ) -> None:
        log, services, recorder = context.log, context.services, context.recorder
        self.open, self.delta = True, delta
        self.count = self.weight = 0
        self._state, self._turn, self._clock = context.state, turn, services.clock
        self._events_max, weight_max = log.open_text(delta, EVENTS_MAX, WEIGHT_MAX, self._close)
        self._weight_max = min(weight_max, services.limits.transcript_max - log.turn_weight)
        self._parts: list[str] = turn.open.parts if turn.open is not None else []
        self._first = len(self._parts)
        self._writers: list[TextWriter] = []
        # Each outbox, behind the place of its writer. In one list, because a loop within a loop is slower.
        self._outboxes: list[tuple[int, Outbox]] = []
        links, around = list[list[str]](), list[Around | None]()
        for place, (group, write) in enumerate(zip(groups, writers, strict=True)):
            around.append(strings := strings_around(write))
            fast = write if strings is None else writer_of(strings)
            if services.ledger.times:
                fast = timed_writer(fast, services.ledger.traffic_of(group.dialect.name, "client"))
            self._writers.append(fast)
            ids = list[str]()
            for member in group.members:
                ids.append(member.link.id)
                self._outboxes.append((place, member.link.outbox))
            links.append(ids)
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
