"""Where links wait for the history of a session that its backend is about to tell.

A pod client is shown a history once; what comes later is a rotation to it. So it waits for the backend, at the latest
until `snapshot_wait`, or until it speaks itself (docs/design.md, section 5).
"""

from __future__ import annotations

from collections.abc import Callable

from dragoman.gateway.link import Link
from dragoman.gateway.services import Services
from dragoman.gateway.timers import Timer

__all__ = ["Lobby"]


class Lobby:
    """The links that wait for one session. `attach` is called for each, once, unless it leaves before.

    Actions that need no link wait in the same way.
    """

    def __init__(self, attach: Callable[[Link], None], services: Services) -> None:
        self._attach = attach
        self._schedule = services.schedule
        self._wait = services.limits.snapshot_wait
        self._waiting: dict[str, tuple[Link, Timer]] = {}
        self._actions: list[tuple[Callable[[], None], Timer]] = []
        self._open = False

    @property
    def waiting(self) -> list[Link]:
        """Who waits now."""
        return [link for link, _timer in self._waiting.values()]

    def enter(self, link: Link) -> None:
        """Wait, or go in if there is nothing to wait for."""
        if self._open:
            self._attach(link)
        else:
            self._waiting[link.id] = (link, self._schedule(self._wait, lambda: self.admit(link)))

    def when_open(self, action: Callable[[], None]) -> None:
        """Call `action` once the history is known, or would have kept a link waiting for too long."""
        if self._open:
            action()
        else:
            self._actions.append((action, self._schedule(self._wait, self._act)))

    def _act(self) -> None:
        actions, self._actions = self._actions, []
        for action, timer in actions:
            timer.cancel()
            action()

    def admit(self, link: Link) -> None:
        """Let `link` in now, if it waits."""
        if self.leave(link):
            self._attach(link)

    def leave(self, link: Link) -> bool:
        """`link` waits no more; whether it did."""
        waiting = self._waiting.pop(link.id, None)
        if waiting is None:
            return False
        waiting[1].cancel()
        return True

    def open(self) -> None:
        """The history is known, or will not come: let everybody in."""
        self._open = True
        for link, _timer in list(self._waiting.values()):
            self.admit(link)
        self._act()

    def close(self) -> None:
        """Nobody is let in any more."""
        for link, _timer in list(self._waiting.values()):
            self.leave(link)
        for _action, timer in self._actions:
            timer.cancel()
        self._actions.clear()
