"""The clients of a session, from their wait for the history to their detachment, and the timer of a session without
clients (docs/design.md, section 5). A session without clients whose timer ends after `session_ttl` is forgotten.

A pod client is shown a history once, and reads a later history as a rotation. So it waits until the backend has sent
the history, at most `snapshot_wait`, or until it sends a command. A long history is rendered in slices, and commands of
the client wait meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from dragoman.adapters.base import CloseReason
from dragoman.gateway.observability import audit
from dragoman.gateway.services import Services
from dragoman.gateway.session.context import SessionContext
from dragoman.gateway.session.ports import Client
from dragoman.gateway.timers import Deadline, Timer
from dragoman.mappings.canonical import SessionState
from dragoman.mappings.rfc3339 import NS

TIMER_ERROR = 0.01  # seconds: the timer and the clock may disagree by so much


class PendingAttach:
    """The clients and actions that wait until the backend has sent the history of one session.

    `attach` is called once for each client, unless it leaves before. A client waits for at most `snapshot_wait`, and
    for the clients before it. An action waits for at most `open_deadline`.
    """

    __slots__ = ("_attach", "_is_known", "_limits", "_queue", "_rendering", "_schedule", "_state", "_waiting")

    def __init__(self, state: SessionState, attach: Callable[[Client], None], services: Services) -> None:
        self._state = state
        self._attach = attach
        self._queue = services.queue
        self._rendering: dict[str, Iterator[int]] = {}  # dialect -> the slices of the history that are left
        self._schedule = services.schedule
        self._limits = services.limits
        self._waiting: dict[object, tuple[Client | None, Callable[[], None], Timer | None]] = {}
        self._is_known = False

    @property
    def waiting(self) -> list[Client]:
        return [client for client, _action, _timer in self._waiting.values() if client is not None]

    def enter(self, client: Client) -> None:
        """Attach a client once the history is known and the step has room for it.

        The client's commands wait only for room in the step, not for the history.
        """
        if self._is_known:
            self._waiting[client.id] = (client, lambda: self._attach(client), None)
            self._act_in_turn(client.id)
        else:
            self._await_history(client.id, client, lambda: self._attach(client), self._limits.snapshot_wait)
            client.outbox.release_commands()

    def when_known(self, action: Callable[[], None]) -> None:
        """Call `action`, which answers a request, once the history is known, or after `open_deadline`."""
        if self._is_known:
            action()
        else:
            self._await_history(object(), None, action, self._limits.open_deadline)

    def _await_history(self, key: object, client: Client | None, action: Callable[[], None], limit: float) -> None:
        self._waiting[key] = (client, action, self._schedule(limit, lambda: self._act_in_turn(key)))

    def _act_in_turn(self, key: object) -> None:
        """Perform a waiting action once the step has room: many clients may wait for one history, which may be long."""
        self._queue.arrivals.add_piece(lambda: self._act_alone(key))
        client = self._client(key)
        if client is not None:
            client.outbox.hold_commands()

    def _client(self, key: object) -> Client | None:
        return self._waiting[key][0] if key in self._waiting else None

    def _act_alone(self, key: object) -> None:
        """Perform a waiting action from the event loop. If attaching a client fails, disconnect the client."""
        client = self._client(key)
        try:
            if client is not None and self._render_slice(client):
                self._act_in_turn(key)
                return
            self._act(key)
            if client is not None:
                client.outbox.release_commands()
        except Exception:
            if client is None:
                raise
            client.log.exception("cannot show a session to a client, disconnecting it")
            client.end(CloseReason.INTERNAL)

    def _render_slice(self, client: Client) -> bool:
        """Render a slice of the history for clients of a dialect that are shown all of it; return False if it is done.

        The clients that wait share it.
        """
        name = client.dialect.name
        if name not in self._rendering:
            if client.dialect.render_history is None:
                return False
            self._rendering[name] = client.dialect.render_history(self._state)
        size = next(self._rendering[name], 0)
        self._queue.budget.left -= size
        if not size:
            del self._rendering[name]
        return size > 0

    def _act(self, key: object) -> None:
        if (waited := self._remove(key)) is not None:
            waited()

    def _remove(self, key: object) -> Callable[[], None] | None:
        """Stop waiting, and return the action that waited under this key."""
        waiting = self._waiting.pop(key, None)
        if waiting is None:
            return None
        if not self._waiting:
            self._rendering.clear()
        _client, action, timer = waiting
        if timer is not None:
            timer.cancel()
        return action

    def admit(self, client: Client) -> None:
        self._act(client.id)

    def leave(self, client: Client) -> bool:
        """Forget a client; return True if it waited."""
        return self._remove(client.id) is not None

    def note_history(self) -> None:
        """Attach all waiting clients, because the history is known or will not come."""
        self._is_known = True
        for key in list(self._waiting):
            self._act_in_turn(key)

    def close(self) -> None:
        for key in list(self._waiting):
            client = self._client(key)
            self._remove(key)
            if client is not None:
                client.outbox.release_commands()


class Presence:
    """The links of one session, and the timer that runs while there are none."""

    __slots__ = ("_context", "_expiry", "_pending", "_used_at")

    def __init__(self, context: SessionContext, pending: PendingAttach) -> None:
        self._context = context
        self._pending = pending
        self._expiry = Deadline(context.services.schedule)
        self._used_at = 0

    @property
    def links(self) -> list[Client]:
        return self._context.delivery.links

    @property
    def clients(self) -> list[Client]:
        """The clients that are attached, after those that wait for the history."""
        return self._pending.waiting + self.links

    @property
    def has_no_clients(self) -> bool:
        """True if no client is attached; subscriptions to everything do not count."""
        delivery = self._context.delivery
        return len(delivery.attachments) == len(delivery.publications)

    @property
    def vacant(self) -> bool:
        """True if no client is attached and the session never had any content, as after a probe."""
        state = self._context.state
        never_used = state.ids is None and not self._context.in_flight and not state.transcript
        return never_used and not self._pending.waiting and self.has_no_clients and state.turn is None

    @property
    def unused(self) -> bool:
        """True if no client is attached or waits for anything; a turn that the backend began may be open."""
        return self.has_no_clients and not self._pending.waiting and not self._context.in_flight

    def enter(self, client: Client) -> None:
        client.sessions[self._context.state.id] = None
        self._pending.enter(client)

    def attach(self, client: Client, request: str = "") -> None:
        """Attach a client, also one that has waited: send it the session's state and all further events.

        A client that only makes calls gets only an answer.
        """
        self._pending.leave(client)
        if client.attaches or client.publishes:
            client.sessions[self._context.state.id] = None
        if client.publishes:
            self._context.delivery.attach(client, request)
            return
        self._expiry.stop()
        self._context.effects.backend.start()  # first, so that its first events are in the snapshot
        if client.attaches:
            audit.note("attach", client, session=self._context.state.id)
            self._context.delivery.attach(client, request)
        else:
            client.attach(self._context.state, request)
            self._leave()  # it only makes calls, so it never attaches

    def rename(self, id: str) -> None:
        """Change the id of the session, also in the tables of its clients, which have not seen the former one."""
        former, self._context.state.id = self._context.state.id, id
        for client in self.clients:
            for names in (client.sessions, client.behind):
                if former in names:
                    del names[former]
                    names[id] = None

    def connect_for_query(self) -> None:
        """Connect to the backend for a client that only makes a request; close the connection after `session_ttl`."""
        self._context.effects.backend.start()
        if self.has_no_clients and not self._expiry.is_running:
            self.await_client()

    def detach(self, client: Client) -> None:
        """Forget a client that has left. Its turn continues, and the answers to its commands are dropped."""
        client.sessions.pop(self._context.state.id, None)
        self._pending.leave(client)
        attached = client.id in self._context.delivery.attachments  # a probe never attaches
        self._context.delivery.detach(client)
        if attached and not client.publishes:
            self._leave()

    def _leave(self) -> None:
        if self.has_no_clients:
            self._context.effects.on_last_detach()
            self.await_client()

    def await_client(self) -> None:
        """Start the timer of a session without clients."""
        self.note_use()
        self._expiry.start(self._context.services.limits.session_ttl, self._expire)

    def note_use(self) -> None:
        """Start `session_ttl` again, because a client has left or a turn has ended."""
        self._used_at = self._context.services.monotonic()

    def _expire(self) -> None:
        services = self._context.services
        if self._context.state.turn is not None or self._context.in_flight or self._pending.waiting:
            self._expiry.start(services.limits.session_ttl, self._expire)
            return
        left = services.limits.session_ttl - (services.monotonic() - self._used_at) / NS
        if left > TIMER_ERROR:
            self._expiry.start(left, self._expire)
            return
        self.suspend("session_ttl")

    def suspend(self, reason: str) -> None:
        """Close the connection to the backend of an unused session, and write that to the log and the audit log.

        If other sessions need the connection, try again after `session_ttl`.
        """
        if self._context.effects.backend.suspend():
            self._expiry.start(self._context.services.limits.session_ttl, self._expire)
            return
        self._context.log.info("session idle, closing its backend connection")
        audit.note("close", "gateway", session=self._context.state.id, reason=reason)
        self._context.effects.suspended()

    def suspend_backend(self) -> None:
        """Stop connecting to a lost backend until the next client or command, unless a client or a turn needs it.

        If turns of the backend outlive the connection, a turn that this gateway does not know may still run.
        """
        context = self._context
        waits = context.state.turn is not None or context.in_flight or self._pending.waiting
        if self.has_no_clients and not waits and context.upstream.lost_turn != "goes_on":
            self._context.effects.backend.suspend()

    def close(self) -> None:
        """Detach every client and stop the timer: the session has ended."""
        for client in self.clients:
            client.sessions.pop(self._context.state.id, None)
            self._context.delivery.detach_ended(client)
        self._pending.close()
        self._expiry.stop()
