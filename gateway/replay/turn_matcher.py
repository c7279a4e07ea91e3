"""Find the recorded turn for an input, or the recorded answer for another command, and track which were used.

Each turn is played once in a session. Among equally similar turns the next unused one after the last is taken. An input
that matches a used turn better than `near` is refused as used, so that no merely similar turn takes its place.
"""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.gateway.replay.matching import Likeness, means, nearest
from dragoman.gateway.replay.reports import Candidate, Outcome, Report, named
from dragoman.gateway.replay.scenes import Passage, Play, Scene
from dragoman.mappings.canonical import Command

__all__ = ["TurnMatcher"]


class TurnMatcher:
    """The used and unused turns of a recording in one session."""

    def __init__(self, play: Play) -> None:
        self._inputs = [scene for scene in play.scenes if scene.input is not None]
        self._loose = play.loose
        self._used: set[int] = set()  # numbers of turns
        self._answered: set[int] = set()  # seqs of commands outside of turns
        self._last = 0

    @property
    def left(self) -> list[Scene]:
        """The turns that were not played yet, in order."""
        return [scene for scene in self._inputs if scene.number not in self._used]

    def use(self, scene: Scene) -> None:
        """Mark this turn as played."""
        self._used.add(scene.number)
        self._last = scene.number

    def input(self, command: Command) -> tuple[Scene | None, Report]:
        """Return the turn for an input, or None, with a report."""
        unused, used = self._in_order(self.left), [s for s in self._inputs if s.number in self._used]
        found = _candidates(unused, command)
        if not found or found[0][1].rung in ("near", "other"):
            again = _candidates(used, command)
            if again and again[0][1].rung in ("exact", "same"):
                return None, _report(command, "used", again + found, self._used)
        for scene, likeness in found[:1]:
            if likeness.rung != "other":
                self.use(scene)
                return scene, _report(command, likeness.rung, found, self._used - {scene.number}, scene.number)
        return None, _report(command, "not_recorded", [*found, *_candidates(used, command)], self._used)

    def _in_order(self, scenes: list[Scene]) -> list[Scene]:
        later = [scene for scene in scenes if scene.number > self._last]
        return later + [scene for scene in scenes if scene.number <= self._last]

    def loose(self, command: Command) -> tuple[Passage | None, Report]:
        """Return the first unused recorded command that is equal, else the last used one, with a report."""
        alike = [passage for passage in self._loose if passage.command is not None and means(passage.command, command)]
        if not alike:
            return None, Report(words=named(command), outcome="not_here")
        passage = next((one for one in alike if one.seq not in self._answered), alike[-1])
        self._answered.add(passage.seq)
        return passage, Report(words=named(command), outcome="exact")


def _candidates(scenes: Sequence[Scene], command: Command) -> list[tuple[Scene, Likeness]]:
    inputs = [scene.input for scene in scenes]
    return [(scenes[place], likeness) for place, likeness in nearest([i for i in inputs if i is not None], command)]


def _report(
    command: Command, outcome: Outcome, found: list[tuple[Scene, Likeness]], used: set[int], scene: int = 0
) -> Report:
    candidates = tuple(
        Candidate(
            scene=one.number,
            words=named(one.input),
            ratio=likeness.ratio,
            used=one.number in used,
            differences=likeness.differences,
        )
        for one, likeness in found
        if one.input is not None
    )
    return Report(words=named(command), outcome=outcome, scene=scene, candidates=candidates)
