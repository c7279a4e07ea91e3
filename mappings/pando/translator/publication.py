"""The link that publishes to all subscribers of a listener (docs/design.md, section 5).

Subscribers send no messages. The link lives as long as its listener, and publishes a heartbeat every 5 seconds.
"""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.mappings.canonical import Command, Event, SessionState, events
from dragoman.mappings.dialect import Alarm, Clock, Frame, Instance, Loss, NewId, Step, Translator
from dragoman.mappings.errors import PeerError
from dragoman.mappings.pando.from_canonical.context import NOBODY, Context
from dragoman.mappings.pando.from_canonical.events import FROM_EVENT
from dragoman.mappings.pando.from_canonical.replies import described
from dragoman.mappings.pando.wire import topics as wire
from dragoman.mappings.pando.wire.codecs import EVENTS
from dragoman.mappings.pando.wire.values import duration, rfc3339

HEARTBEAT = 5.0
"""Seconds between two heartbeats, and before the first one (docs/dialects/pando.md, section 8)."""


class PublicationTranslator(Translator[Command, Event]):
    """The protocol state of the link to all subscribers."""

    def __init__(self, clock: Clock, new_id: NewId, instance: Instance = NOBODY) -> None:
        self._clock = clock
        self._instance = instance

    def opened(self) -> Step[Command]:
        """Return a step that starts the heartbeat timer."""
        return Step(alarm=Alarm(HEARTBEAT, self._beat))

    def receive(self, frames: Sequence[Frame]) -> Step[Command]:
        """Return a fault for every frame, because subscribers must not send any."""
        return Step(faults=[PeerError("invalid", "a subscriber sends no frames") for _ in frames])

    def send(self, items: Sequence[Event]) -> Step[Command]:
        """Publish changes of the store; drop answers, which go to their callers by other links."""
        step: Step[Command] = Step()
        context = self._context()
        for item in items:
            if isinstance(item, events.StoreChanged):
                step.frames += [EVENTS.encode(message) for message in FROM_EVENT.functions[type(item)](item, context)]
            else:
                step.losses.append(Loss(kind=type(item).__name__, why="an answer is not published"))
        step.losses += context.take_losses()
        return step

    def attach(self, state: SessionState, request: str = "") -> Step[Command]:
        """Announce a session to subscribers, if there are any; they request its messages themselves."""
        if not self._instance.topics:
            return Step()
        return Step(frames=[EVENTS.encode(wire.SessionUpdate(payload=described(state), **self._context().envelope))])

    def closed(self, cause: str) -> Step[Command]:
        """Publish the shutdown, which real clients rarely read in time (docs/dialects/pando.md, section 4)."""
        shutdown = wire.InstanceShutdown.Payload(instance_id=self._instance.id, reason="graceful shutdown")
        return Step(frames=[EVENTS.encode(wire.InstanceShutdown(payload=shutdown, **self._context().envelope))])

    def _beat(self) -> Step[Command]:
        now, started = self._clock(), self._instance.started_at
        pulse = wire.InstanceHeartbeat.Payload(
            instance_id=self._instance.id,
            session_count=self._instance.sessions(),
            uptime=duration(now - started),
            started_at=rfc3339(started),
        )
        beat = wire.InstanceHeartbeat(payload=pulse, **self._context().envelope)
        return Step(frames=[EVENTS.encode(beat)], alarm=Alarm(HEARTBEAT, self._beat))

    def _context(self) -> Context:
        return Context(self._instance, at=self._clock())
