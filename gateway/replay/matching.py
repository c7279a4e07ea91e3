"""Find the recorded turn for an input, or the recorded answer for another command, and report how it was found.

A client's command is compared with recorded commands, in three levels of similarity:

    exact   equal except for request, session and `ext`, which no other client can repeat
    same    equal after removing ids, times and white space; redacted text matches anything
    near    the same kind, and only texts differ slightly

A command matches on the highest level that any candidate reaches, and there the first candidate. The cost of `near` is
quadratic in the length, so only some candidates and the beginnings of their texts are compared.

Each turn is played once in a session. Among equally similar turns the next unused one after the last is taken. An input
that matches a used turn better than `near` is refused as used, so that no merely similar turn takes its place. Each
command gives one log line and one counter. `explain` also prints every candidate with its differences.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from typing import Any, Literal

import msgspec
import structlog
from msgspec import UNSET, Raw, Struct

from dragoman.gateway.observability.ledger import Ledger
from dragoman.gateway.overload.fair_queue import STEP
from dragoman.gateway.recording.printable import sample
from dragoman.gateway.recording.redaction.rules import redact_text
from dragoman.gateway.replay.plan import ANSWERS, RecordedTurn, ReplayPlan, TurnPart
from dragoman.mappings.canonical import Command
from dragoman.mappings.canonical.commands import SubmitInput
from dragoman.mappings.canonical.values import flatten, snake_case

MatchLevel = Literal["exact", "same", "near", "other"]

NEAR = 0.8  # ratio: allows one word or a few typing errors in a sentence; "yes" and "yet" differ
TEXT_MAX = 400  # characters compared for `near`: about ten milliseconds at worst
TRIED_MAX = 8  # candidates compared for `near`, the most similar by a cheap estimate
FIELD_SAMPLE = 80  # characters of a differing field in a report

NOT_COMPARED = frozenset({"request", "session", "ext"})
OF_THE_QUESTION = frozenset({"question", "kind"})  # some clients leave these out; plan.py knows the open question

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
"""The reason to refuse a command with this outcome; the command is answered for any other outcome."""

_UUID = re.compile(r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b")
_DAY, _CLOCK, _ZONE = r"\d{4}-\d{2}-\d{2}", r"\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?", r"(?:Z|[+-]\d{2}:?\d{2})?"
_TIME = re.compile(rf"\b{_DAY}(?:[T ]{_CLOCK}{_ZONE})?(?!\w)|\b\d{{10,19}}\b")  # the latter: since the epoch
_REDACTED = re.compile(r"\[redacted:[^\]\s]*\]")

log = structlog.get_logger("dragoman.replay")


class FieldDifference(Struct, frozen=True, kw_only=True):
    """A field in which two commands differ: the recorded and the new text, both shortened."""

    field: str
    recorded: str
    new: str


class Likeness(Struct, frozen=True, kw_only=True):
    """The similarity of two commands: the level, the ratio (1.0 is equal), and the differences."""

    level: MatchLevel
    ratio: float
    differences: tuple[FieldDifference, ...] = ()


def compare_commands(recorded: Command, new: Command, *, ratio: bool = True) -> Likeness:
    """Compare `new` with a recorded command; without `ratio` the level `near` is not computed."""
    if type(recorded) is not type(new):
        return Likeness(level="other", ratio=0.0)
    one, other = _fields(recorded), _fields(new)
    if one.get("values", "") is None and not one["declined"]:
        one["values"] = other["values"]  # values typed in words are not recorded
    unlike = [name for name in one if one[name] != other[name]]
    if not unlike:
        return Likeness(level="exact", ratio=1.0)
    differing = [name for name in unlike if not _same(one[name], other[name])]
    told = tuple(
        FieldDifference(field=name, recorded=_sample(one[name]), new=_sample(other[name]))
        for name in differing or unlike
    )
    if not differing:
        return Likeness(level="same", ratio=1.0, differences=told)
    near = min(_ratio(one[name], other[name]) for name in differing) if ratio else 0.0
    return Likeness(level="near" if near >= NEAR else "other", ratio=near, differences=told)


def is_same_command(recorded: Command, new: Command) -> bool:
    """Return True if `new` equals the recorded command except for ids, times and white space."""
    return compare_commands(recorded, new, ratio=False).level in ("exact", "same")


def nearest_commands(recorded: Sequence[Command], new: Command) -> list[tuple[int, Likeness]]:
    """Return the recorded commands most similar to `new`, best first, as index and likeness, at most TRIED_MAX.

    Among equal ones the earlier comes first. Only the first can be above the level `near`.
    """
    found = [(place, compare_commands(command, new, ratio=False)) for place, command in enumerate(recorded)]
    for level in ("exact", "same"):
        first = next((pair for pair in found if pair[1].level == level), None)
        if first is not None:
            return [first]
    kin = [place for place, command in enumerate(recorded) if type(command) is type(new)]
    kin.sort(key=lambda place: -_glance(recorded[place], new))
    tried = [(place, compare_commands(recorded[place], new)) for place in kin[:TRIED_MAX]]
    return sorted(tried, key=lambda pair: (-pair[1].ratio, pair[0]))


def _fields(command: Command) -> dict[str, Any]:
    """Return the compared fields of a command; the segments of an input become one text."""
    fields: dict[str, Any] = {}
    for name in command.__struct_fields__:
        value = getattr(command, name)
        if name in NOT_COMPARED or (name in OF_THE_QUESTION and isinstance(command, ANSWERS)):
            continue
        if name == "segments":
            attached = [msgspec.to_builtins(s) for s in value if not flatten((s,))]
            fields["text"], fields["attached"] = flatten(value), attached
        else:
            fields[name] = msgspec.json.decode(value) if isinstance(value, Raw) else None if value is UNSET else value
    return fields


def _same(recorded: Any, new: Any) -> bool:
    """Return True if two values are equal except for ids, times, white space and redacted parts."""
    if isinstance(recorded, str) and isinstance(new, str):
        return _fits(_plain(recorded), _plain(new))
    if isinstance(recorded, dict) and isinstance(new, dict):
        return recorded.keys() == new.keys() and all(_same(value, new[key]) for key, value in recorded.items())
    if isinstance(recorded, list | tuple) and isinstance(new, list | tuple):
        return len(recorded) == len(new) and all(map(_same, recorded, new))
    return bool(recorded == new)


# An input is compared with each recorded one, and one of a megabyte takes 0.1 s. Four texts stay in memory: recorded
# ones, which the plan holds anyway, and inputs, which `max_command` bounds.
@lru_cache(maxsize=4)
def _plain(text: str) -> str:
    text = _TIME.sub("<time>", _UUID.sub("<id>", text))
    return " ".join(text.split())


def _fits(recorded: str, new: str) -> bool:
    """Return True if a text equals the recorded one, where redacted parts match any text."""
    first, *rest = _REDACTED.split(recorded)
    if not rest:
        return recorded == new
    if not new.startswith(first):
        return False
    at = len(first)
    for piece in rest[:-1]:
        found = new.find(piece, at)
        if found < 0:
            return False
        at = found + len(piece)
    return new.endswith(rest[-1]) and len(new) - len(rest[-1]) >= at


def _ratio(recorded: Any, new: Any) -> float:
    if not isinstance(recorded, str) or not isinstance(new, str):
        return 0.0
    one, other = (_plain(text[: 4 * TEXT_MAX])[:TEXT_MAX] for text in (recorded, new))
    if not one or not other:
        return 0.0
    return SequenceMatcher(None, one, other, autojunk=False).ratio()


def _glance(recorded: Command, new: Command) -> float:
    """Return a cheap upper bound of the ratio of two commands."""
    one, other = _fields(recorded), _fields(new)
    texts = [
        _glance_at_texts(one[name][:TEXT_MAX], other[name][:TEXT_MAX])
        for name in one
        if one[name] != other[name] and isinstance(one[name], str) and isinstance(other[name], str)
    ]
    return min(texts, default=0.0)


def _glance_at_texts(one: str, other: str) -> float:
    """Return `SequenceMatcher.quick_ratio` of two texts, counted in C."""
    length = len(one) + len(other)
    return 2 * (Counter(one) & Counter(other)).total() / length if length else 1.0


def _sample(value: Any) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= FIELD_SAMPLE else f"{text[: FIELD_SAMPLE - 1]}…"


# -- turns ------------------------------------------------------------------------------------------------------


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
    """Counts and logs reports. `tell` gets the lines of explanations, `spend` the work of each comparison (units)."""

    def __init__(
        self,
        ledger: Ledger,
        *,
        tell: Callable[[str], None] | None = None,
        spend: Callable[[int], None] = lambda _units: None,
    ) -> None:
        self._ledger = ledger
        self._tell = tell
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
        if self._tell is not None:
            for line in report.explained():
                self._tell(line)


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
        unused = sorted(self.unused, key=lambda turn: turn.number <= self._last)  # later turns first
        used = [turn for turn in self._plan.inputs if turn.number in self._used]
        found = _similar(unused, command)
        if not found or found[0][1].level in ("near", "other"):
            again = _similar(used, command)
            if again and again[0][1].level in ("exact", "same"):
                return None, self._report(command, "used", again + found)
        if found and (level := found[0][1].level) != "other":
            turn = found[0][0]
            report = self._report(command, level, found, turn.number)
            self.use(turn)
            return turn, report
        return None, self._report(command, "not_recorded", [*found, *_similar(used, command)])

    def match_other(self, command: Command) -> tuple[TurnPart | None, MatchReport]:
        """Return the first unused equal command outside of turns, else the last used one, with a report."""
        same = [part for part in self._plan.others if part.command and is_same_command(part.command, command)]
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


def _similar(turns: Sequence[RecordedTurn], command: Command) -> list[tuple[RecordedTurn, Likeness]]:
    inputs = [turn.input for turn in turns if turn.input is not None]
    return [(turns[place], likeness) for place, likeness in nearest_commands(inputs, command)]


def named(command: Command) -> str:
    """Return a command in a few words without secrets."""
    kind = snake_case(type(command).__name__)
    if not isinstance(command, SubmitInput):
        return kind
    return f"{kind} {sample(redact_text(flatten(command.segments)), SAMPLE)}"
