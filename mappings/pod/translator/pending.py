"""The commands that a pod has not answered yet, and the matching of events with them.

Pods have no request ids, so an answer is matched by kind and order (docs/translation.md, rule 3.17). A pod handles the
methods of one connection in order. It sends answers and errors for other clients to us too: an event that matches none
of our commands belongs to another client.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct, field

from dragoman.mappings.canonical import Command, commands
from dragoman.mappings.canonical.values import Segment

PENDING_MAX = 64  # twice the method queue of a pod (docs/dialects/pod.md, section 3), which then stops reading

LOOKUPS: tuple[type, ...] = (commands.Compact, commands.ListSessions, commands.GetSession, commands.ResumeSession)
TRACKED = frozenset((commands.SubmitInput, commands.ResumeTurn, commands.ListCompletions, *commands.STOPS, *LOOKUPS))
"""The kinds of commands with an answer."""


class PendingMethod(Struct, kw_only=True):
    """A command to a pod that has no answer yet.

    `running` is True for a stop of a run: one that was sent during a run, or before status{running} came.
    """

    request: str
    kind: type
    segments: tuple[Segment, ...] = ()
    running: bool = False


class PendingMethods(Struct):
    """The commands of one link that have no answer, oldest first.

    `late` counts the stops that the end of a run has answered, and those that were written again. For each the pod may
    still send an error.
    """

    entries: list[PendingMethod] = field(default_factory=list)
    late: int = 0

    def is_full(self) -> bool:
        """Return True if one more command would be too many."""
        return len(self.entries) >= PENDING_MAX

    def add_command(self, command: Command, *, running: bool) -> None:
        """Add a command that was sent; `running` is True if a run was open then."""
        kind = type(command)
        segments = command.segments if isinstance(command, commands.SubmitInput) else ()
        is_running = running and kind in commands.STOPS
        if kind in commands.STOPS and not running and commands.SubmitInput not in {one.kind for one in self.entries}:
            self.late = 0  # the next error answers this stop, even if the pod means another one
        self.entries.append(PendingMethod(request=command.request, kind=kind, segments=segments, running=is_running))

    def take_oldest(self, *kinds: type) -> PendingMethod | None:
        """Remove and return the oldest command of these kinds, because its answer has come."""
        for entry in self.entries:  # a plain loop is faster than a generator: usually there is at most one entry
            if entry.kind in kinds:
                self.entries.remove(entry)
                return entry
        return None

    def take_all(self) -> list[PendingMethod]:
        """Remove and return all commands, because no more answers will come."""
        entries, self.entries, self.late = self.entries, [], 0
        return entries

    # -- matching events with commands ------------------------------------------------------------------

    def take_accepted_run(self, segments: tuple[Segment, ...]) -> PendingMethod | None:
        """Remove and return the `run` command whose input this user_message repeats, if any.

        A pod handles the runs of one connection in order, so it has lost all earlier ones (docs/dialects/pod.md,
        section 1.2).
        """
        runs = [entry for entry in self.entries if entry.kind is commands.SubmitInput]
        for number, run in enumerate(runs, 1):
            if run.segments == segments:
                for over in runs[:number]:
                    self.entries.remove(over)
                return run
        return None

    def begin_run(self) -> None:
        """Note that status{running} came: stops that were sent before it apply to this run."""
        self.late = 0
        for entry in self.entries:
            if entry.kind in commands.STOPS:
                entry.running = True

    def repeat_stops(self) -> list[type]:
        """Return the kinds of the stops that have no answer: they are written again."""
        kinds: list[type] = [entry.kind for entry in self.entries if entry.kind in commands.STOPS]
        self.late += len(kinds)
        return kinds

    def end_run(self) -> Iterator[PendingMethod]:
        """Remove and yield the stops that came too late for the run; the pod will still send `not_running` for each."""
        for entry in [e for e in self.entries if e.kind in commands.STOPS and e.running]:
            self.entries.remove(entry)
            self.late += 1
            yield entry

    def take_refused(self, code: str) -> PendingMethod | None:
        """Remove and return the command that an error with this code answers, if any."""
        if code == "already_running":
            return self.take_oldest(commands.SubmitInput) or self.take_oldest(commands.ResumeTurn, *LOOKUPS)
        if code == "not_running":
            return self.take_oldest(*commands.STOPS)
        if code == "not_paused":
            return self.take_oldest(commands.ResumeTurn)
        if code == "invalid_request":
            return self.take_oldest(commands.SubmitInput, *LOOKUPS)
        return None
