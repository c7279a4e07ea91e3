"""Play one part of a recorded turn at the pace of the replay (docs/design.md, section 7).

Each recorded pause is first cut to `idle_cap`, then divided by `speed`; at speed 0 there are no pauses. Delays do not
add up: the next pause counts from the time when this event was due. A command that comes early makes the rest of the
part follow at once, before the command takes effect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from dragoman.gateway.recording.format import EventLine
from dragoman.gateway.replay.plan import ReplayPlan, TurnPart
from dragoman.gateway.replay.replayed_events import ReplayedEvents
from dragoman.gateway.timers import Deadline, Schedule
from dragoman.mappings.canonical import Event

BURST = 512  # events that are read at once if there are no pauses; not all of them are sent


class Pace:
    """The pace of one replay. `clock` is monotonic, in seconds; `idle_cap` None keeps all pauses."""

    def __init__(self, clock: Callable[[], float], speed: float = 1.0, idle_cap: float | None = None) -> None:
        self._clock = clock
        self._speed = speed
        self._idle_cap = idle_cap
        self._last = 0  # time in the recording, in µs
        self._due = 0.0

    def begin(self, t: int) -> None:
        """Set the current time in the recording to `t` (µs)."""
        self._last, self._due = t, self._clock()

    def seconds_until(self, t: int) -> float:
        """Return the seconds until the event at `t` is due, 0 or less if it is."""
        return self._at(t) - self._clock() if self._speed else 0.0

    def reached(self, t: int) -> None:
        """Note that the event at `t` was sent."""
        self._due = self._at(t) if self._speed else self._due
        self._last = max(self._last, t)

    def _at(self, t: int) -> float:
        pause = max(0, t - self._last) / 1e6
        if self._idle_cap is not None:
            pause = min(pause, self._idle_cap)
        return self._due + pause / self._speed


class PartPlayer:
    """Sends the events of the current part to `send`, and calls `ended` after the last one."""

    def __init__(
        self,
        plan: ReplayPlan,
        events: ReplayedEvents,
        pace: Pace,
        later: Schedule,
        send: Callable[..., None],
        ended: Callable[[], None],
    ) -> None:
        self._plan = plan
        self._events = events
        self._pace = pace
        self._send = send
        self._ended = ended
        self._rest: Iterator[EventLine] = iter(())
        self._next: EventLine | None = None
        self._on_done: Callable[[], None] | None = None  # a command that came early
        self._due = Deadline(later)
        self._playing = False
        self._stopped = False

    @property
    def has_early_command(self) -> bool:
        """True if a command waits for the end of the part."""
        return self._on_done is not None

    def begin(self, part: TurnPart) -> None:
        """Set the current part, whose events `play` sends."""
        self._pace.begin(part.t)
        self._rest = self._plan.events(part)
        self._next = next(self._rest, None)

    def send_history(self) -> None:
        """Send the events before the first turn at once, so that they are in the first client's snapshot."""
        events: list[Event] = []
        while self._next is not None and not self._next.turn:
            self._pace.begin(self._next.t)
            events += self._take(self._next)
        self._send(*events)

    def play(self) -> None:
        """Send the events that are due, and wait for the next one or end the part."""
        if self._playing or self._stopped:
            return
        self._playing = True
        events: list[Event] = []
        try:
            for _ in range(BURST):
                if self._next is None or not self._is_due(self._next):
                    break
                events += self._take(self._next)
            self._send(*events)
        finally:
            self._playing = False
        if self._next is not None:
            wait = 0.0 if self._on_done is not None else self._pace.seconds_until(self._next.t)
            self._due.start(max(wait, 0.0), self.play)
            return
        on_done, self._on_done = self._on_done, None
        (on_done or self._ended)()

    def skip_pauses(self, on_done: Callable[[], None]) -> None:
        """Send the rest of this part at once, and call `on_done` after it."""
        self._on_done = on_done
        self._due.stop()
        if not self._playing:
            self.play()

    def wait_for(self, part: TurnPart, on_done: Callable[[], None]) -> None:
        """Call `on_done` when this part is due."""
        wait = max(self._pace.seconds_until(part.t), 0.0)
        self._due.start(wait, on_done)

    def drop_rest(self) -> None:
        """Forget the rest of the current part."""
        self._due.stop()
        self._next, self._rest = None, iter(())

    def stop(self) -> None:
        """Stop playing; it cannot be resumed."""
        self._stopped = True
        self._due.stop()

    def _take(self, line: EventLine) -> list[Event]:
        """Return the events to send for the next line, and go on to the one after it."""
        self._next = next(self._rest, None)
        return self._events.select(line)

    def _is_due(self, line: EventLine) -> bool:
        if self._on_done is None and self._pace.seconds_until(line.t) > 0:
            return False
        self._pace.reached(line.t)
        return True
