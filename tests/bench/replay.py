"""The speed of a recording that is read, played by the backend, and taken by a session.

One recording of a long turn is written once. Each round reads its events, plays it instantly into nothing, and plays it
into a session (normal form, log, state), in another order each time; all in this process, CPU time of each.

    python -m tests.bench --only replay
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from dragoman.gateway import registry
from dragoman.gateway.config.model import RouteOptions
from dragoman.gateway.endpoint import parse
from dragoman.gateway.recording.reader import Reader, open_recording
from dragoman.gateway.replay.playing import Replay, plan_of
from dragoman.gateway.session.session import Session
from dragoman.mappings.canonical import Command, SessionState
from dragoman.mappings.canonical.commands import SubmitInput
from dragoman.mappings.canonical.events import TextDelta
from dragoman.mappings.canonical.values import Cause, Text
from dragoman.mappings.dialect import Burst
from tests.gateway.in_memory import ManualClock
from tests.gateway.replay.recording_builder import RecordingBuilder
from tests.services import services

EVENTS, QUICK_EVENTS = 50_000, 10_000
INPUT = SubmitInput(request="r", segments=(Text(text="one"),))


class Sample(Struct, frozen=True, kw_only=True):
    """The result of a round: seconds for one event to be read, to be played, and to be played into a session."""

    read: float
    played: float
    taken: float


class Nobody:
    """Hears a replay and does nothing with it."""

    def __init__(self) -> None:
        self.heard = 0
        self.state = SessionState(id="s")

    def connected(self) -> None: ...

    def receive(self, bursts: list[Burst[Any]]) -> None:
        self.heard += sum(len(burst.items) for burst in bursts)

    def lost(self, text: str, unsent: Sequence[Command], cause: Cause = "upstream_lost") -> bool:
        raise AssertionError(text)


def measure(rounds: int, quick: bool) -> list[Sample]:
    """Run this many rounds, each in another order."""
    events = QUICK_EVENTS if quick else EVENTS
    with tempfile.TemporaryDirectory() as folder:
        deltas = [TextDelta(text=f"word {number} ") for number in range(events)]
        path = RecordingBuilder().turn("one", *deltas).write(Path(folder))
        kinds: dict[str, Callable[[], Any]] = {
            "read": lambda: _read(open_recording(path)),
            "played": lambda: _played(path, lambda connect: connect(Nobody())),
            "taken": lambda: _played(path, lambda connect: _session(connect).backend),
        }
        samples = []
        for number in range(rounds + 1):
            names = sorted(kinds, key=lambda name: (name > "q", name) if number % 2 else (name < "q", name))
            spent = {name: _timed(kinds[name]) / events for name in names}
            samples.append(Sample(**spent))
    return samples[1:]  # the first one warms up


def _timed(work: Callable[[], Any]) -> float:
    before = time.process_time()
    work()
    return time.process_time() - before


def _read(recording: Reader) -> int:
    return sum(1 for _ in recording.events())


def _played(path: Path, connected: Callable[[Callable[[Any], Any]], Any]) -> None:
    clock = ManualClock()
    endpoint = parse(f"replay+file:{path}?speed=instant")
    replay = Replay(endpoint, registry.dialect("pod"), plan_of(endpoint), services(clock))
    connected(replay.backend).send([INPUT])
    clock.passes(0)


def _session(connect: Callable[[Any], Any]) -> Session:
    return Session(
        SessionState(id="s"), RouteOptions(), registry.dialect("pod"), services(ManualClock()), connect=connect
    )
