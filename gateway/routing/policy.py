"""The sessions that a principal may see, open and answer on a route, and how many it may have
(docs/design.md, section 5, "Identity").

A session belongs to the principal that opened it; the owner "" means that it has none yet. A principal that may not see
a session is answered as if the session did not exist. The quota is checked when a session is created for a client, so a
client that uses an existing session is never refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from dragoman.gateway.config.model import RouteOptions
from dragoman.gateway.observability import audit
from dragoman.gateway.services import Services
from dragoman.gateway.session.ports import Client
from dragoman.mappings.canonical import Command, SessionState
from dragoman.mappings.canonical.events import Reply
from dragoman.mappings.canonical.values import Failure
from dragoman.mappings.dialect import Dialect


class Policy:
    """The rules of one route; `upstream` is the dialect of its backends."""

    def __init__(self, route: RouteOptions, upstream: Dialect) -> None:
        self._upstream = upstream
        self._options: tuple[str, ...] = ()
        self._watchers: list[Callable[[], None]] = []
        self.change_route(route)

    def watch(self, watcher: Callable[[], None]) -> None:
        """Call `watcher` when a reload has changed a rule."""
        self._watchers.append(watcher)

    def change_route(self, route: RouteOptions) -> None:
        """Apply the options of a route from now on, also to sessions that are open."""
        before, self._options = self._options, (route.share, route.open)
        self.shared = route.share != "owner"
        self._open_to_all = self._upstream.single_session and route.open == "attach"
        self.sees_all = self.shared or self._open_to_all
        """True if each principal sees every session."""
        if self._options != before:
            for watcher in self._watchers:
                watcher()

    def sees(self, principal: str, state: SessionState) -> bool:
        """Return True if the principal may see the session, attach to it and answer its questions."""
        return self.sees_all or self.opens(principal, state)

    def publishes(self, state: SessionState) -> bool:
        """Return True if the session is published to all subscribers: the policy hides no session, and the backend has
        opened it.

        A subscriber has no principal. A backend that is one session is open from the beginning.
        """
        opened = self._upstream.single_session or state.backend_ids is not None
        return opened and self.sees("", state)

    def opens(self, principal: str, state: SessionState) -> bool:
        """Return True if the principal may get this session when it opens a session and the backend has no other."""
        return self._open_to_all or state.owner in ("", principal)


class Refused(Exception):  # noqa: N818  # an answer to a client, not an error
    """Raised to refuse a client's command, with the failure for the client."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.text)
        self.failure = failure

    def send_to(self, client: Client, command: Command) -> None:
        """Send the failure as the answer to the command, and write a line of the audit log."""
        audit.refuse(client, self.failure.text, command=type(command).__name__)
        client.send([Reply(request=command.request, failure=self.failure)])


class SessionQuota:
    """The number of sessions that each principal owns on a route. `services` returns those with the limits in force."""

    def __init__(self, services: Callable[[], Services]) -> None:
        self._services = services
        self._owners: dict[str, str] = {}  # session -> its owner
        self._counts: Counter[str] = Counter()

    @property
    def has_owners(self) -> bool:
        return bool(self._owners)

    def check(self, principal: str, opening: int = 0) -> None:
        """Raise Refused if no session may be made for a client of this principal now.

        `opening` is the number of sessions of this client that wait for their backend.
        """
        services = self._services()
        most, opening_max = services.limits.principal_sessions, services.limits.opening_sessions
        if text := services.memory.refusal():
            self._refuse("memory", text)
        if self._counts[principal] >= most:
            self._refuse("principal_sessions", f"you have too many sessions: the limit `principal_sessions` is {most}")
        if opening >= opening_max:
            text = f"too many of your sessions are being opened: the limit `opening_sessions` is {opening_max}"
            self._refuse("opening_sessions", f"{text}; try again later")

    def _refuse(self, reason: str, text: str) -> None:
        self._services().ledger.counters[f"refused_session_{reason}"] += 1
        raise Refused(Failure(cause="busy", text=text))

    def note_owner(self, state: SessionState) -> None:
        """Count a session for its owner, if it has one."""
        if self._owners.get(state.id, "") != state.owner:
            self.forget(state.id)
            if state.owner:
                self._owners[state.id] = state.owner
                self._counts[state.owner] += 1

    def forget(self, session: str) -> None:
        """Stop counting a session that has ended, or that has another id now."""
        owner = self._owners.pop(session, None)
        if owner is None:
            return
        self._counts[owner] -= 1
        if not self._counts[owner]:
            del self._counts[owner]
