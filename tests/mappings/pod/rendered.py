"""Events as rendered for pod clients."""

from __future__ import annotations

from typing import Any

from msgspec import json

from dragoman.mappings.canonical import Batch, Event
from dragoman.mappings.pod.projection import Projection

SESSION = "0192f0e8-4d84-7d6e-a000-0000000000aa"


def batch(*events: Event, at: int = 9_000_000) -> Batch:
    """Return a batch of these events in one turn."""
    return Batch(session=SESSION, epoch=1, first_seq=0, events=list(events), turn="t", at=at)


def lines(projection: Projection, *events: Event) -> list[Any]:
    """Return the lines that a projection writes for these events."""
    return [json.decode(frame) for frame in projection.render(batch(*events)).frames]


def said(*events: Event) -> list[Any]:
    """Return the lines that a new projection writes for these events."""
    return lines(Projection(), *events)
