"""The commands of ours that a pod has not answered, and which of them an event answers
(docs/translation.md, rule 3.17).

Pods have no request ids: a method is matched by kind and order. Methods of one connection are handled in order, and
the answers and errors of other clients reach us too; what fits nothing of ours belongs to them.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct, field

from dragoman.mappings.canonical.commands import (
    CancelTurn,
    Command,
    Compact,
    GetSession,
    ListCompletions,
    ListSessions,
    PauseTurn,
    ResumeSession,
    ResumeTurn,
    SubmitInput,
)
from dragoman.mappings.canonical.values import Segment

__all__ = ["PENDING_MAX", "TRACKED", "Entry", "Pending"]

PENDING_MAX = 64  # twice the method queue of a pod (docs/dialects/pod.md, section 3): more than that it would not read

LOOKUPS: tuple[type, ...] = (Compact, ListSessions, GetSession, ResumeSession)
STOPS: tuple[type, ...] = (CancelTurn, PauseTurn)
TRACKED = frozenset((SubmitInput, ResumeTurn, ListCompletions, *STOPS, *LOOKUPS))  # completions never fail


class Entry(Struct, kw_only=True):
    """One command without an answer.

    `echoed`: its user_message came. `running`: status{running} came since, or a stop was sent into a run.
    """

    request: str
    kind: type
    segments: tuple[Segment, ...] = ()
    echoed: bool = False
    running: bool = False


class Pending(Struct):
    """All of them, oldest first. `late` counts stops that were answered by a run's own end: their errors still come."""

    entries: list[Entry] = field(default_factory=list)
    late: int = 0

    def full(self) -> bool:
        """Whether one more would be too many."""
        return len(self.entries) >= PENDING_MAX

    def add(self, command: Command, *, running: bool) -> None:
        """This command was sent, into a run or not."""
        kind = type(command)
        segments = command.segments if isinstance(command, SubmitInput) else ()
        is_running = running and kind in STOPS
        self.entries.append(Entry(request=command.request, kind=kind, segments=segments, running=is_running))

    def oldest(self, *kinds: type) -> Entry | None:
        """The oldest of these kinds; it stays."""
        return next((entry for entry in self.entries if entry.kind in kinds), None)

    def take(self, *kinds: type) -> Entry | None:
        """The oldest of these kinds; it is answered now."""
        entry = self.oldest(*kinds)
        if entry is not None:
            self.entries.remove(entry)
        return entry

    def drain(self) -> list[Entry]:
        """All of them: no answer will come any more."""
        entries, self.entries, self.late = self.entries, [], 0
        return entries

    # -- what an event means for them -------------------------------------------------------------------

    def echo(self, segments: tuple[Segment, ...]) -> Entry | None:
        """A user_message came: the run that it echoes, if any.

        A pod takes the runs of one connection in order, so those before it were lost on the way
        (docs/dialects/pod.md, section 1.2).
        """
        runs = [entry for entry in self.entries if entry.kind is SubmitInput]
        run = next((entry for entry in runs if entry.segments == segments and not entry.echoed), None)
        if run is None or any(entry.echoed for entry in runs):
            return None
        for lost in runs[: runs.index(run)]:
            self.entries.remove(lost)
            run.running = run.running or lost.running
        run.echoed = True
        return run

    def accepted(self) -> Entry | None:
        """The oldest run, once both its echo and status{running} have come; taken."""
        run = self.oldest(SubmitInput)
        return self.take(SubmitInput) if run is not None and run.echoed and run.running else None

    def run_began(self) -> None:
        """status{running} came: stops sent ahead of it stop this run."""
        self.late = 0
        run = self.oldest(SubmitInput)
        if run is not None:
            run.running = True
        for entry in self.entries:
            if entry.kind in STOPS:
                entry.running = True

    def run_ended(self) -> Iterator[Entry]:
        """The run is over: the stops that came too late for it, taken. Their `not_running` is still to come."""
        run = self.oldest(SubmitInput)
        if run is not None:
            run.running = False
        for entry in [e for e in self.entries if e.kind in STOPS and e.running]:
            self.entries.remove(entry)
            self.late += 1
            yield entry

    def refused(self, code: str) -> Entry | None:
        """An error came: the command that it answers, taken."""
        if code == "already_running":
            return self.take(SubmitInput) or self.take(ResumeTurn, *LOOKUPS)
        if code == "not_running":
            return self.take(*STOPS)
        if code == "not_paused":
            return self.take(ResumeTurn)
        if code == "invalid_request":
            return self.take(SubmitInput, *LOOKUPS)
        return None
