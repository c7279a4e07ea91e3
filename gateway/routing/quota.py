"""The sessions that a principal may have at once, and whether the gateway has memory for a new one.

Both are asked where a session is made for a client. So a client that uses an existing session is never refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from dragoman.gateway.services import Services
from dragoman.mappings.canonical import SessionState
from dragoman.mappings.canonical.values import Failure


class Refused(Exception):  # noqa: N818  # an answer to a client, and no error of ours
    """The refusal of what a client asked for, with the failure that the client is told."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.text)
        self.failure = failure


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
        """Count a session as one of its owner, if it has one now."""
        if self._owners.get(state.id, "") != state.owner:
            self.forget(state.id)
            if state.owner:
                self._owners[state.id] = state.owner
                self._counts[state.owner] += 1

    def forget(self, session: str) -> None:
        """Stop counting a session: it is over, or has another id now."""
        owner = self._owners.pop(session, None)
        if owner is None:
            return
        self._counts[owner] -= 1
        if not self._counts[owner]:
            del self._counts[owner]
