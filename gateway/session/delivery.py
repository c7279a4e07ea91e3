"""Deliver the events of a session: render them once for all links that see the same, put the frames, never wait
(docs/design.md, section 6).

Attachments that see the same share a projection. One whose outbox is full leaves its group, and joins it again once
SlowClients has shown it the rest of the log. The projection counts what it cannot represent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dragoman.adapters.base import CloseReason
from dragoman.gateway.observability.ledger import Ledger
from dragoman.gateway.observability.traffic import timed
from dragoman.gateway.overload.fair_queue import DELIVER, TURN
from dragoman.gateway.session.attachments import Attachment, DeliveryContext, Group, is_own
from dragoman.gateway.session.groups import Groups
from dragoman.gateway.session.ports import Client
from dragoman.gateway.session.slow_clients import OVER, SlowClients
from dragoman.mappings.canonical import Batch, Event, SessionState, events, prelude
from dragoman.mappings.canonical.values import ANSWERED
from dragoman.mappings.dialect import Dialect, Rendered


def time_render(group: Group, batch: Batch, ledger: Ledger) -> Rendered:
    """Render a batch for a group, and count how long that took."""
    traffic = ledger.traffic_of(group.dialect.name, "client")
    return timed(group.projection.render, traffic.render_seconds)(batch)


class Delivery:
    """The attachments of one session and their groups."""

    __slots__ = ("_context", "_recorder", "_slow", "_state", "attachments", "groups", "publications")

    def __init__(self, context: DeliveryContext) -> None:
        self._context, self._state, self._recorder = context, context.state, context.recorder
        self.groups = Groups(context)
        self.attachments: dict[str, Attachment] = {}
        self.publications: dict[str, None] = {}  # ids of attached links that stand for all subscribers
        self._slow = SlowClients(context, self.groups)

    @property
    def links(self) -> list[Client]:
        return [attachment.link for attachment in self.attachments.values()]

    def enter(self) -> None:
        """Record the frames that a link has just received as a part of this session."""
        if self._recorder is not None:
            self._recorder.enter()

    # -- who is there --------------------------------------------------------------------------------

    def attach(self, link: Client, request: str) -> None:
        """Show the session to a link: a reply or snapshot, then the turn in progress, then further events."""
        before = self._recorder.enter() if self._recorder is not None else None
        attachment = Attachment(link=link, cursor=self._state.seq)
        self.attachments[link.id] = attachment
        if link.publishes:
            self.publications[link.id] = None
        link.attach(self._state, request)
        attachment.view = link.view  # read after `attach`, because the view may depend on the session
        if self._state.turn is not None:
            # The projection may hold events back, for example an open call; its group goes on with them.
            self._slow.show_turn(attachment, _turn_so_far(self._state, link.dialect))
        else:
            self.groups.join(attachment)
        if self._recorder is not None:
            self._recorder.leave(before)

    def show(self, link: Client, events: list[Event]) -> None:
        """Send events again to one link only, unless it has yet to get them."""
        if not self.has_seen_all(link):
            return
        rendered = link.dialect.projection("", link.view).render(self._context.log.unlogged(events))
        link.put(rendered.frames)

    def has_seen_all(self, link: Client) -> bool:
        """Return True if every event was rendered for this link."""
        attachment = self.attachments.get(link.id)
        return attachment is not None and attachment.behind is None

    def knows(self, link: Client, seq: int) -> bool:
        """Return True if the events before `seq` were rendered for this link, or are older than its attachment."""
        attachment = self.attachments.get(link.id)
        return attachment is not None and (attachment.behind is None or attachment.cursor >= seq)

    def detach(self, link: Client) -> None:
        attachment = self.attachments.pop(link.id, None)
        if attachment is not None:
            self.publications.pop(link.id, None)
            self._slow.forget(attachment)
            self.groups.leave(attachment)
            attachment.behind = None

    def detach_ended(self, link: Client) -> None:
        """Forget a link because the session has ended.

        A link that lags is disconnected: the rest of its turn is lost, and it would wait for the end forever. A
        publication stays for the other sessions.
        """
        lags = link.id in self.attachments and not self.has_seen_all(link)
        self.detach(link)
        if lags and link.alive and not link.publishes and not self._context.services.stop.is_set():
            link.cut(OVER)

    # -- what happens ----------------------------------------------------------------------------------

    def deliver(self, batch: Batch, *, plain: bool = False) -> Sequence[Attachment]:
        """Render a batch of the log for every client; `plain` is True if it has nothing but text.

        Return the links whose run it ends. Call `notify_finished` with them last, because each may then send its next
        command.
        """
        finished: Sequence[Attachment] = ()
        last = type(batch.events[-1])
        opened, ended = type(batch.events[0]) is events.TurnAccepted, last is events.TurnEnded
        before = self._recorder.batch(batch) if self._recorder is not None else None
        if opened:
            self._begin_turn(batch)
        for group in list(self.groups.by_key.values()):
            for attachment in group.members:
                if attachment.link.outbox.full:
                    self._slow.set_behind(group, batch)
                    break
            if group.members:
                self._broadcast(group, batch, plain)
        if opened or ended or last is events.QuestionAsked:
            finished = self._show_runs(batch, opened)
            self._context.services.queue.spend(TURN)
            self._context.services.queue.budget.unassigned += TURN
        elif not plain and last in _NATIVE_QUESTIONS:
            self._context.services.queue.spend(TURN)  # a backend may ask without end
        elif not plain:
            self._context.services.queue.budget.left -= DELIVER * len(batch.events)
        if ended:
            self._end_turn(batch)
        if self._slow.lagging:
            self._slow.cut_unreachable()
        if self._recorder is not None and before is not self._recorder:  # unequal for nearly every token
            self._recorder.leave(before)
        return finished

    def notify_finished(self, finished: Sequence[tuple[Attachment, Batch]]) -> None:
        """Tell the links that `deliver` returned that their run has ended, or waits for an answer in words."""
        if self._state.turn is None and not self._slow.lagging:
            self.groups.clear_log()
        before = self._recorder.enter() if self._recorder is not None else None
        for attachment, batch in finished:
            attachment.link.on_delivered(batch)
        if self._recorder is not None:
            self._recorder.leave(before)

    def _show_runs(self, batch: Batch, opened: bool) -> Sequence[Attachment]:
        """Tell the links whose run begins with this batch, or return those whose run it ends."""
        if opened and self._state.forgotten is not None:
            self._announce_forgotten(self._state.forgotten, batch.turn)
        own = [a for a in self.attachments.values() if a.behind is None and is_own(a, batch)]
        if type(batch.events[-1]) in (events.TurnEnded, events.QuestionAsked):
            return own
        for attachment in own:
            attachment.link.on_delivered(batch)
        return ()

    def catch_up(self, link: Client) -> Iterator[None]:
        """Deliver the missed events to a link that has written everything; yield after each slice."""
        attachment = self.attachments.get(link.id)
        return self._slow.catch_up(attachment) if attachment is not None else iter(())

    def _broadcast(self, group: Group, batch: Batch, plain: bool) -> None:
        """Render a batch once, and put the frames for each member of the group."""
        ledger, source = self._context.services.ledger, self._context.upstream
        try:
            rendered = time_render(group, batch, ledger) if ledger.times else group.projection.render(batch)
        except Exception:  # noqa: BLE001  # a rule of one dialect failed: only its clients are disconnected
            next(iter(group.members)).link.log.exception("cannot render events for clients, disconnecting them")
            for attachment in list(group.members):
                attachment.link.end(CloseReason.INTERNAL)
                self.detach(attachment.link)
            return
        if rendered.losses:
            ledger.record(rendered.losses, session=self._state.id, source=source.name, target=group.dialect.name)
        if not plain:
            ledger.count_partial(source, group.dialect, batch.events, rendered.losses)
        for attachment in group.members:
            attachment.link.put(rendered.frames)

    def _announce_forgotten(self, gap: events.Gap, turn: str) -> None:
        """Announce to each client, at the start of its next turn, that the model has forgotten the conversation.

        A pod client was told by an alert. Clients of a dialect whose frames carry a request id are told in a turn of
        their own, all others in any turn; in words where their dialect has no form for a gap (docs/translation.md, rule
        4.11).
        """
        words: list[Event] = [events.ModelTurnStarted(), events.TextDelta(text=f"[{gap.text}]\n\n")]
        for group in list(self.groups.by_key.values()):
            dialect = group.dialect
            own = not dialect.has_request_ids or bool(next(iter(group.members)).request)
            if own and not dialect.single_session and any(member.shown_gap is not gap for member in group.members):
                shown: list[Event] = [gap] if dialect.events.can_write_type(events.Gap) else words
                self._broadcast(group, self._context.log.unlogged(shown), plain=False)
                for member in group.members:
                    member.shown_gap, member.shown_gap_turn = gap, turn

    def _begin_turn(self, batch: Batch) -> None:
        """Show the turn, under its own request id, to the link that began it."""
        own = self.attachments.get(batch.origin.link)
        group = self.groups.find_group(own) if own is not None and own.behind is None else None
        if own is not None and group is not None and group.dialect.has_request_ids:
            own.behind = group.projection.copy(batch.origin.request)
            self.groups.leave(own)
            own.request = batch.origin.request
            self.groups.join(own)

    def _end_turn(self, batch: Batch) -> None:
        """Return the links that had a turn of their own to their groups."""
        last = batch.events[-1]
        answered = isinstance(last, events.TurnEnded) and last.end in ANSWERED
        for attachment in self.attachments.values():
            if not answered and attachment.shown_gap_turn == batch.turn:
                attachment.shown_gap = None  # its client is shown it again before its first answer
            if attachment.request and attachment.behind is None:
                self.groups.leave(attachment)
                attachment.request = ""
                self.groups.join(attachment)


_NATIVE_QUESTIONS = frozenset({events.ApprovalRequested, events.InteractionRequired})
"""Questions that clients are asked in a form of their dialect. Each ends its batch, and starts its deadline."""


def _turn_so_far(state: SessionState, dialect: Dialect) -> list[Event]:
    """Return the events that show the open turn to a client of this dialect which joins."""
    shown = prelude(state)
    if dialect.single_session:
        # its clients may wait for the start of their own turn (docs/dialects/pod.md, section 11)
        shown = [event for event in shown if type(event) is not events.ModelTurnStarted]
    return shown
