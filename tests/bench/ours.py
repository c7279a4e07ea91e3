"""Our translation, twice: the bare one that G1 and G2 speak of, and as the live gateway runs it.

Bare is the pod's `Direction.receive`, a batch, the smooth projection's `render`. Live puts the link's translator (which
event answers which command) before it and the session's normal form between: work that no peer of codec.py does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from dragoman.gateway.session.normal_form import NormalForm
from dragoman.mappings.canonical import Batch, SessionState
from dragoman.mappings.canonical.events import Event
from dragoman.mappings.dialect import Step
from dragoman.mappings.pod import DIALECT as POD
from dragoman.mappings.smooth import DIALECT as SMOOTH
from tests.bench.material import MESSAGE, REQUEST

__all__ = ["Bare", "Live"]

SESSION = "5e550000-0000-4000-8000-000000000001"
TURN = "70a70000-0000-4000-8000-000000000001"
NS_PER_MS = 1_000_000

Added = Callable[[list[Event]], Iterator[Event]]


class Bare:
    """Without link and session; `added` stands for what the session would add to this kind."""

    def __init__(self, added: Added | None) -> None:
        self._added = added
        self._smooth = SMOOTH.projection(REQUEST, "")

    def translate(self, frames: Sequence[bytes], now: int) -> list[bytes]:
        step: Step[Any] = Step()
        POD.events.receive(frames, step)
        written: list[bytes] = []
        for burst in step.bursts:
            events = burst.items if self._added is None else list(self._added(burst.items))
            batch = Batch(session=SESSION, epoch=1, first_seq=0, events=events, turn=TURN, at=now * NS_PER_MS)
            written += self._smooth.render(batch).frames
        return written


class Live:
    """With the link's translator and the session's normal form and state; one object a turn."""

    def __init__(self) -> None:
        self._pod = POD.client(lambda: 0, lambda: MESSAGE)
        self._smooth = SMOOTH.projection(REQUEST, "")
        self._form = NormalForm(SessionState(id=SESSION), lambda: MESSAGE)

    def translate(self, frames: Sequence[bytes], now: int) -> list[bytes]:
        at = now * NS_PER_MS
        written: list[bytes] = []
        for burst in self._pod.receive(frames).bursts:
            for run in self._form.feed(burst.items, at):
                batch = Batch(session=SESSION, epoch=1, first_seq=0, events=run.events, turn=run.turn, at=at)
                written += self._smooth.render(batch).frames
        return written
