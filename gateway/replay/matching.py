"""Find the recorded turn for an input, or the recorded answer for another command, and report the kind of the match.

A command matches on the highest level of similarity that any candidate reaches, and there the first candidate.

Each turn is played once in a session. Among equally similar turns the next unused one after the last is taken. An input
that matches a used turn better than `near` is refused as used, so that no merely similar turn takes its place. Each
command gives one log line and one counter. `explain` also prints every candidate with its differences.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import structlog
from msgspec import Struct

from dragoman.gateway.observability.ledger import Ledger
from dragoman.gateway.overload.fair_queue import STEP
from dragoman.gateway.recording.printable import sample
from dragoman.gateway.recording.redaction.rules import redact_text
from dragoman.gateway.replay.plan import RecordedTurn, ReplayPlan, TurnPart
from dragoman.gateway.replay.similarity import (
    ComparedCommand,
    FieldDifference,
    Likeness,
    is_same_command,
    nearest_commands,
)
from dragoman.mappings.canonical import Command
from dragoman.mappings.canonical.commands import SubmitInput
from dragoman.mappings.canonical.values import flatten, snake_case

SHOWN_MAX = 3  # candidates in an explanation
SAMPLE = 60  # characters of an input in a line
SAMPLED = 1_000  # characters of an input that are redacted for it

Outcome = Literal["exact", "same", "near", "not_recorded", "used", "not_here", "another_answer", "playing", "passed_on"]

WHY: dict[Outcome, str] = {
    "not_recorded": "the recording has no similar input",
    "used": "the recorded turn of this input was played already",
    "not_here": "the recording has no such command at this point",
    "another_answer": "the recording continues only after the recorded answer",
    "playing": "this replay plays by itself and takes no commands",
}
"""The reason to refuse a command with this outcome; the command is answered for any other outcome."""

log = structlog.get_logger("dragoman.replay")


class MatchCandidate(Struct, frozen=True, kw_only=True):
    """A similar recorded command: its turn, its similarity, and whether it was played already."""

    turn: int
    words: str
    ratio: float
    used: bool = False
    differences: tuple[FieldDifference, ...] = ()


class MatchReport(Struct, frozen=True, kw_only=True):
    """The outcome of one command. `turn` is the number of the matched turn, 0 for none."""

    words: str
    outcome: Outcome
    turn: int = 0
    candidates: tuple[MatchCandidate, ...] = ()

    @property
    def refused(self) -> bool:
        return self.outcome in WHY

    def explained(self) -> list[str]:
        """Return the report as lines for people."""
        if self.refused:
            lines = [f"{self.words}: refused, {WHY[self.outcome]}"]
        elif self.outcome == "passed_on":
            lines = [f"{self.words}: passed on to the live backend"]
        else:
            lines = [f"{self.words}: matched with input {self.turn} ({self.outcome})"]
        for candidate in self.candidates[: SHOWN_MAX if self.outcome != "exact" else 0]:
            used = ", played already" if candidate.used else ""
            lines.append(f"  candidate {candidate.turn}: {candidate.words}, {candidate.ratio:.0%} alike{used}")
            for d in candidate.differences:
                recorded, new = redact_text(d.recorded, cut=True), redact_text(d.new, cut=True)
                lines.append(f"    {d.field}: recorded {recorded!r}, said {new!r}")
        return lines


class Reporter:
    """Counts and logs reports.

    `explain` is called with each line of an explanation, `spend` with the work (units) of each comparison.
    """

    def __init__(
        self,
        ledger: Ledger,
        *,
        explain: Callable[[str], None] | None = None,
        spend: Callable[[int], None] = lambda _units: None,
    ) -> None:
        self._ledger = ledger
        self._explain = explain
        self._spend = spend
        self._observe: Callable[[MatchReport], None] = lambda _report: None
        self.asked = False  # a client sent a command, which need not have a report

    def notify(self, observe: Callable[[MatchReport], None]) -> None:
        """Call `observe` with each report from now on."""
        self._observe = observe

    def note_command(self) -> None:
        """Note that a client sent a command."""
        self.asked = True

    def report(self, report: MatchReport) -> None:
        """Count the report, log it unless it is exact, and explain it if that is wanted."""
        self._spend(STEP)  # a command is compared with all recorded ones: others are served before the next
        self._ledger.counters[f"replay_{report.outcome}"] += 1
        self._observe(report)
        if report.refused:
            log.warning("command refused", command=report.words, why=WHY[report.outcome])
        elif report.outcome == "near":
            log.warning(
                "the command is not recorded; a similar recorded command is used",
                command=report.words,
                input=report.turn,
            )
        elif report.outcome == "same":
            log.info("command matched except for ids, times and white space", command=report.words, input=report.turn)
        if self._explain is not None:
            for line in report.explained():
                self._explain(line)


class TurnMatcher:
    """The used and unused turns of a recording in one session."""

    def __init__(self, plan: ReplayPlan) -> None:
        self._plan = plan
        self._used: set[int] = set()  # numbers of turns
        self._answered: set[int] = set()  # seqs of commands outside of turns
        self._last = 0

    @property
    def unused(self) -> list[RecordedTurn]:
        """The turns that were not played yet, in order."""
        return [turn for turn in self._plan.inputs if turn.number not in self._used]

    def use(self, turn: RecordedTurn) -> None:
        """Mark this turn as played."""
        self._used.add(turn.number)
        self._last = turn.number

    def match_input(self, command: Command) -> tuple[RecordedTurn | None, MatchReport]:
        """Return the turn for an input, or None, with a report."""
        new = ComparedCommand(command)
        unused = sorted(self.unused, key=lambda turn: turn.number <= self._last)  # later turns first
        used = [turn for turn in self._plan.inputs if turn.number in self._used]
        found = _similar(unused, new)
        if not found or found[0][1].level in ("near", "other"):
            again = _similar(used, new)
            if again and again[0][1].level in ("exact", "same"):
                return None, self._report(command, "used", again + found)
        if found and (level := found[0][1].level) != "other":
            turn = found[0][0]
            report = self._report(command, level, found, turn.number)
            self.use(turn)
            return turn, report
        return None, self._report(command, "not_recorded", [*found, *_similar(used, new)])

    def match_other(self, command: Command) -> tuple[TurnPart | None, MatchReport]:
        """Return the first unused equal command outside of turns, else the last used one, with a report."""
        new = ComparedCommand(command)
        same = [part for part in self._plan.others if part.compared and is_same_command(part.compared, new)]
        if not same:
            return None, MatchReport(words=named(command), outcome="not_here")
        part = next((one for one in same if one.seq not in self._answered), same[-1])
        self._answered.add(part.seq)
        return part, MatchReport(words=named(command), outcome="exact")

    def _report(
        self, command: Command, outcome: Outcome, found: list[tuple[RecordedTurn, Likeness]], turn: int = 0
    ) -> MatchReport:
        candidates = tuple(
            MatchCandidate(
                turn=one.number,
                words=named(one.input),
                ratio=likeness.ratio,
                used=one.number in self._used,
                differences=likeness.differences,
            )
            for one, likeness in found
            if one.input is not None
        )
        return MatchReport(words=named(command), outcome=outcome, turn=turn, candidates=candidates)


def _similar(turns: Sequence[RecordedTurn], new: ComparedCommand) -> list[tuple[RecordedTurn, Likeness]]:
    inputs = [turn.parts[0].compared for turn in turns if turn.parts[0].compared is not None]
    return [(turns[place], likeness) for place, likeness in nearest_commands(inputs, new)]


def named(command: Command) -> str:
    """Return a short description of a command, without secrets."""
    kind = snake_case(type(command).__name__)
    if not isinstance(command, SubmitInput):
        return kind
    text = flatten(command.segments)
    return f"{kind} {sample(redact_text(text[:SAMPLED], cut=len(text) > SAMPLED), SAMPLE)}"
