"""Limit the number of log lines of each kind, so that no peer can cause lines without end.

A kind is one place in the code that logs, for one principal: a flood of one principal hides no line of another. A line
too many is dropped, and the next one of its kind tells by `omitted` how many are missing before it. The level debug has
no bound: whoever chooses it wants every line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from typing import Any

import structlog
from msgspec import Struct

from dragoman.gateway.overload.rates import TokenBucket
from dragoman.mappings.bounded import remember

LINE_RATE = 20.0  # lines of one kind a second: 200 busy clients that come and go cause 16
LINE_BURST = 1_000  # so many at once: the clients of one principal that come back after a restart
KINDS_MAX = 1_000  # kinds that are remembered: there are about 100 places that log, for each principal

Kind = tuple[object, ...]


class KnownKind(Struct):
    """The lines of a kind that may be written, and the number of those that were not since the last one."""

    bucket: TokenBucket
    omitted: int = 0


class LineLimit:
    """The processor of structlog that drops a line if there were too many of its kind. `clock` returns nanoseconds."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._kinds: dict[Kind, KnownKind] = {}

    def __call__(self, logger: object, method: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        omitted = self.admit(getattr(logger, "component", ""), line) if method != "debug" else 0
        if omitted is None:
            raise structlog.DropEvent
        if omitted:
            line["omitted"] = omitted
        return line

    def admit(self, component: str, line: Mapping[str, Any]) -> int | None:
        """Return how many lines of this kind were omitted before this one, or None to omit this one too."""
        kind = _kind_of(component, line)
        known = self._kinds.get(kind)
        if known is None:
            known = KnownKind(TokenBucket(LINE_RATE, LINE_BURST, self._clock))
            remember(self._kinds, kind, known, KINDS_MAX)
        if not known.bucket.take():
            known.omitted += 1
            return None
        omitted, known.omitted = known.omitted, 0
        return omitted


def _kind_of(component: str, line: Mapping[str, Any]) -> Kind:
    """Return the part of a line that no peer chooses: the text of a library may contain words of a peer."""
    text = line.get("event") if component.startswith("dragoman") else ""
    return component, text, line.get("action"), line.get("outcome") == "done", line.get("principal")
