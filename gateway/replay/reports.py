"""Report how a replay matched each command, or why it did not, and which candidates were similar.

Each command gives one log line and one counter. With `explain` there is every candidate with its differences, for
debugging.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import structlog
from msgspec import Struct

from dragoman.gateway.ledger import Ledger
from dragoman.gateway.recording.redaction.shown import shown
from dragoman.gateway.replay.matching import Difference
from dragoman.mappings.canonical import Command
from dragoman.mappings.canonical.commands import SubmitInput
from dragoman.mappings.canonical.values import flatten, snake_case

__all__ = ["WHY", "Candidate", "Outcome", "Report", "Reporter", "named"]

SHOWN_MAX = 3  # candidates in an explanation
SAMPLE = 60  # characters of an input in a line

Outcome = Literal["exact", "same", "near", "not_recorded", "used", "not_here", "another_answer", "playing", "passed_on"]

WHY: dict[Outcome, str] = {
    "not_recorded": "the recording has nothing like it",
    "used": "the recording has it, and it was played already",
    "not_here": "the recording has none at this point",
    "another_answer": "the recording goes on only for the answer that was given in it",
    "playing": "this replay plays by itself and takes no commands",
}

log = structlog.get_logger("dragoman.replay")


class Candidate(Struct, frozen=True, kw_only=True):
    """A similar recorded command: its turn, its similarity, and whether it was played already."""

    scene: int
    words: str
    ratio: float
    used: bool = False
    differences: tuple[Difference, ...] = ()


class Report(Struct, frozen=True, kw_only=True):
    """The outcome of one command. `scene` is the matched turn, 0 for none."""

    words: str
    outcome: Outcome
    scene: int = 0
    candidates: tuple[Candidate, ...] = ()

    @property
    def refused(self) -> bool:
        """True if the command was refused."""
        return self.outcome in WHY

    def explained(self) -> list[str]:
        """Return the report as lines for people."""
        if self.refused:
            lines = [f"{self.words}: refused, {WHY[self.outcome]}"]
        elif self.outcome == "passed_on":
            lines = [f"{self.words}: passed on to the live backend"]
        else:
            lines = [f"{self.words}: matched with input {self.scene} ({self.outcome})"]
        for candidate in self.candidates[: SHOWN_MAX if self.outcome != "exact" else 0]:
            used = ", played already" if candidate.used else ""
            lines.append(f"  candidate {candidate.scene}: {candidate.words}, {candidate.ratio:.0%} alike{used}")
            for d in candidate.differences:
                recorded, said = shown(d.recorded, cut=True), shown(d.said, cut=True)
                lines.append(f"    {d.field}: recorded {recorded!r}, said {said!r}")
        return lines


class Reporter:
    """Counts and logs reports; `tell` gets the lines of explanations, if they are wanted."""

    def __init__(self, ledger: Ledger, *, tell: Callable[[str], None] | None = None) -> None:
        self._ledger = ledger
        self._tell = tell
        self.heard: Callable[[Report], None] = lambda _report: None

    def report(self, report: Report) -> None:
        """Count the report, log it unless it is exact, and explain it if that is wanted."""
        self._ledger.counters[f"replay_{report.outcome}"] += 1
        self.heard(report)
        if report.refused:
            log.warning("command refused", command=report.words, why=WHY[report.outcome])
        elif report.outcome == "near":
            log.warning("command matched with a similar one", command=report.words, input=report.scene)
        elif report.outcome == "same":
            log.info("command matched except for ids, times and white space", command=report.words, input=report.scene)
        if self._tell is not None:
            for line in report.explained():
                self._tell(line)


def named(command: Command) -> str:
    """Return a command in a few words without secrets."""
    kind = snake_case(type(command).__name__)
    if not isinstance(command, SubmitInput):
        return kind
    text = " ".join(shown(flatten(command.segments)).split())
    return f"{kind} {text if len(text) <= SAMPLE else text[: SAMPLE - 1] + '…'}"
