"""Deliver missed events to clients that read slowly, once they read again (docs/design.md, section 6).

An attachment whose outbox is full leaves its group with a copy of the projection and a cursor into the log. When its
writer has drained, the rest of the log is rendered for it, with adjacent pieces joined. Once it has caught up, it joins
its group again. It is disconnected when the log drops events that it has not got, also if it reads nothing at all. A
client that joins in the middle of a long turn is shown the turn in the same way, and then the log.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import structs

from dragoman.gateway.overload.fair_queue import EVENT, FRAME
from dragoman.gateway.session.attachments import Attachment, DeliveryContext, Group, is_own
from dragoman.gateway.session.groups import Groups
from dragoman.gateway.session.log import join_pieces
from dragoman.mappings.canonical import Batch, Event, events
from dragoman.mappings.dialect import SessionProjection
from dragoman.mappings.errors import PeerError

GONE = PeerError(
    "too_slow",
    "read too slowly: text that it had not received was dropped (`log_bytes`, `log_max`)",
    can_continue=False,
)

OVER = PeerError("too_slow", "read too slowly: its session ended before it had received everything", can_continue=False)

FULL = PeerError(
    "too_slow",
    "does not read fast enough: more than `outbox_soft` waits, and `overflow` is disconnect",
    can_continue=False,
)


class SlowClients:
    """Renders the log for single attachments of a session, unless a client whose outbox is full is disconnected."""

    __slots__ = ("_context", "_groups", "lagging")

    def __init__(self, context: DeliveryContext, groups: Groups) -> None:
        self._context, self._groups = context, groups
        self.lagging: dict[str, Attachment] = {}
        """The attachments with a cursor, by the id of their link, roughly in the order of the cursors."""

    def set_behind(self, group: Group, batch: Batch) -> None:
        """Move the members with a full outbox out of the group: they get this batch from the log later."""
        for attachment in [a for a in group.members if a.link.outbox.full]:
            if self._context.route.overflow == "disconnect":
                self._groups.leave(attachment)
                attachment.link.cut(FULL)
                continue
            attachment.behind = group.projection.copy()
            attachment.cursor = batch.first_seq
            self._keep_behind(attachment)
            self._groups.leave(attachment)
            attachment.link.log.info("client is slow, merging its text deltas")

    def show_turn(self, attachment: Attachment, turn: list[Event]) -> None:
        """Send the open turn so far to a client that joins: one slice immediately, the others as the client reads."""
        context, link = self._context, attachment.link
        batches = [context.log.unlogged(part) for part in slices_of(turn, context.services.limits.catch_up)]
        attachment.earlier, attachment.held = batches[::-1], context.log.turn_weight
        link.meter.add(attachment.held)
        context.services.queue.budget.left -= EVENT * len(turn)
        self._catch_up_a_slice(attachment, link.dialect.projection("", attachment.view))
        if attachment.behind is not None:
            link.add_work(self.catch_up(attachment))

    def _keep_behind(self, attachment: Attachment) -> None:
        attachment.link.behind[self._context.state.id] = None
        self.lagging[attachment.link.id] = attachment

    def forget(self, attachment: Attachment) -> None:
        """Drop everything that is held for a client that has caught up or leaves."""
        link = attachment.link
        link.behind.pop(self._context.state.id, None)
        self.lagging.pop(link.id, None)
        link.meter.add(-attachment.held)
        attachment.earlier, attachment.held = [], 0

    def cut_unreachable(self) -> None:
        """Disconnect the clients whose missed events the log no longer has.

        They are the first in `lagging`, so no others are checked.
        """
        while self.lagging:
            attachment = next(iter(self.lagging.values()))
            if self._context.log.reaches(attachment.cursor):
                return
            del self.lagging[attachment.link.id]
            attachment.link.cut(GONE)

    def catch_up(self, attachment: Attachment) -> Iterator[None]:
        """Deliver the missed events to a link that has written everything; yield after each slice.

        It continues after a slice without frames, because no writer would ask for the next one.
        """
        link, recorder = attachment.link, self._context.recorder
        while attachment.behind is not None and link.outbox.empty and link.alive:
            if not self._context.log.reaches(attachment.cursor):
                link.cut(GONE)
                return
            before = recorder.enter() if recorder is not None else None
            self._catch_up_a_slice(attachment, attachment.behind)
            if recorder is not None:
                recorder.leave(before)
            yield

    def _catch_up_a_slice(self, attachment: Attachment, projection: SessionProjection) -> None:
        link, context = attachment.link, self._context
        left = context.services.limits.catch_up
        while attachment.earlier and left > 0:
            batch = attachment.earlier.pop()
            self.render(attachment, projection, batch, len(batch.events))
            left -= len(batch.events)
        for batch, after in context.log.batches_from(attachment.cursor, left):
            projection = turn_projection(attachment, projection, batch)
            self.render(attachment, projection, batch, after - batch.first_seq)
            attachment.cursor = after
            if not _BOUNDARY.isdisjoint(map(type, batch.events)) and is_own(attachment, batch):
                link.on_delivered(batch)
            if isinstance(batch.events[-1], events.TurnEnded) and attachment.request:
                attachment.request, projection = "", link.dialect.projection("", attachment.view)
        attachment.behind = projection
        if attachment.cursor >= context.state.seq and not attachment.earlier:
            self.forget(attachment)
            self._groups.join(attachment)
        else:
            self.lagging.pop(link.id, None)  # it is added after those that lack more
            self._keep_behind(attachment)

    def render(self, attachment: Attachment, projection: SessionProjection, batch: Batch, count: int) -> None:
        """Render a batch for one link. It stands for `count` events, some of which the log may have merged."""
        merged = join_pieces(batch.events)
        rendered = projection.render(structs.replace(batch, events=merged))
        target, source, services = attachment.link.dialect, self._context.upstream, self._context.services
        ledger = services.ledger
        if rendered.losses:
            ledger.record(rendered.losses, session=self._context.state.id, source=source.name, target=target.name)
        ledger.count_partial(source, target, merged, rendered.losses)
        services.queue.budget.left -= EVENT * count + FRAME * len(merged) + sum(map(len, rendered.frames))
        services.ledger.counters["events_merged"] += count - len(merged)
        attachment.link.put(rendered.frames)


def turn_projection(attachment: Attachment, projection: SessionProjection, batch: Batch) -> SessionProjection:
    """Return the projection for a batch of a slow link; the link's own turn uses its request id."""
    own = batch.origin.link == attachment.link.id
    request = batch.origin.request if own else attachment.request  # an answer may have made it the turn of another link
    if not attachment.link.dialect.has_request_ids or request == attachment.request:
        return projection
    attachment.request = request
    return projection.copy(request)


def slices_of(turn: list[Event], size: int) -> Iterator[list[Event]]:
    """Yield events in batches as they are delivered live: a question or an answer is the last of its batch.

    No batch has more than `size` events.
    """
    start = 0
    while some := turn[start : start + size]:
        if not _RUN_ENDS.isdisjoint(map(type, some)):
            some = some[: next(end for end, event in enumerate(some, 1) if type(event) in _RUN_ENDS)]
        yield some
        start += len(some)


_RUN_ENDS = frozenset({events.QuestionAsked, events.QuestionAnswered})
_BOUNDARY = frozenset({events.TurnAccepted, events.QuestionAsked, events.TurnEnded})
"""Events with which a run that a link began begins or ends."""
