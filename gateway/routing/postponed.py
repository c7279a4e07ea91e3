"""Hold the actions of clients until a backend has listed its sessions, or a pod is found.

The commands of an action count as memory of their client, and are dropped when the client is gone. Many clients may
each send a large attachment in the seconds for which a backend does not answer.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from dragoman.gateway.link import Link
from dragoman.gateway.session.weight import of_values
from dragoman.mappings.canonical import Command

Action = Callable[[], None]


class PostponedActions:
    """Holds the actions of all clients of a route that wait for the sessions of a backend."""

    def __init__(self) -> None:
        self.waiting: dict[str, dict[int, tuple[Action, int]]] = {}
        """Id of a link -> its actions, each with the size (bytes) of its commands."""
        self._numbers = count()

    def postpone(self, link: Link, action: Action, *commands: Command | None) -> Action:
        """Return a call of `action` for later, which does nothing once `link` is gone.

        `commands` are the commands on which `action` acts. They count as memory of `link` until the call. The call is
        recorded with the frame that is read now, which led to it.
        """
        if link.tap is not None:
            action = link.tap.postpone(action)
        number, size = next(self._numbers), of_values(*commands)
        self.waiting.setdefault(link.id, {})[number] = action, size
        link.meter.add(size)

        def act_later() -> None:
            actions = self.waiting.get(link.id, {})
            act, _ = actions.pop(number, (None, 0))
            if act is None:  # the client is gone
                return
            if not actions:
                del self.waiting[link.id]
            link.meter.add(-size)
            act()

        return act_later

    def drop(self, link: Link) -> None:
        """Drop the actions of a client that is gone, and count them as lost."""
        dropped = self.waiting.pop(link.id, {})
        link.meter.add(-sum(size for _, size in dropped.values()))
        link.intake.count_dropped(sum(size > 0 for _, size in dropped.values()))  # without a command nothing is lost
