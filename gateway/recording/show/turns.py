"""The turns of a recording in figures: how long each took, when its first token came, and how it ended.

A turn begins when a client gave its input, or with its first event if no such client was recorded. Turns have the same
numbers as in the transcript.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import MappingProxyType

from msgspec import Struct

from dragoman.gateway.recording.format import UP, CommandLine, EventLine, Line
from dragoman.gateway.recording.show.projected import Losses
from dragoman.mappings.canonical import events
from dragoman.mappings.canonical.commands import SubmitInput
from dragoman.mappings.canonical.values import Usage

INPUTS_MAX = 1_000  # inputs without an answer whose time is kept


class TurnFigures(Struct, kw_only=True):
    """The figures of a turn. Times are in µs: `t` since the recording began, the others since `t`.

    `first_token` is None if the turn had no text. `duration` is None, and `end` is "", if the recording ends before the
    turn. `deltas` counts the pieces of text and reasoning; the counts of tokens are those that the backend reported.
    `lost` counts the events of which recorded clients did not get everything.
    """

    turn: int
    seq: int
    t: int
    input: str = ""
    duration: int | None = None
    first_token: int | None = None
    deltas: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    tools: int = 0
    lost: int = 0
    end: str = ""
    failure: str = ""

    @property
    def shown_end(self) -> str:
        """The end of the turn, as people read it."""
        return self.end.replace("_", " ") or "still open"


def shown_duration(micros: int | None) -> str:
    """Return a time in µs as people read it, "" for None."""
    if micros is None:
        return ""
    return f"{micros / 1e6:.3f} s" if micros >= 1000 else f"{micros} µs"


class TurnNumbers:
    """The numbers of turns, from 1, in the order of their first events."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number_of(self, line: EventLine) -> int:
        """Return the number of the turn to which this line belongs, 0 if it belongs to none."""
        return self._numbers.setdefault(line.turn, len(self._numbers) + 1) if line.turn else 0


def turn_figures(lines: Iterable[Line], losses: Losses = MappingProxyType({})) -> list[TurnFigures]:
    numbers = TurnNumbers()
    turns: list[TurnFigures] = []
    inputs: dict[tuple[str, str], int] = {}  # link and request -> when it was given
    before = ""  # an input from elsewhere: a backend tells it before the turn begins
    for line in lines:
        if isinstance(line, CommandLine):
            if isinstance(line.command, SubmitInput) and line.link != UP and len(inputs) < INPUTS_MAX:
                inputs.setdefault((line.link, line.command.request), line.t)
            continue
        if not isinstance(line, EventLine) or not line.logged:
            continue
        number = numbers.number_of(line)
        if number > len(turns):
            given = inputs.pop((line.origin.link, line.origin.request), line.t)
            turns.append(TurnFigures(turn=number, seq=line.seq, t=given, input=before))
            before = ""
        if not number and isinstance(line.event, events.MessageAppended) and line.event.message.role == "user":
            before = line.event.message.text
        if number:
            _count(turns[number - 1], line.t, line.event)
        if line.seq in losses and number and not getattr(line.event, "bookkeeping", False):
            turns[number - 1].lost += 1
    return turns


def _count(turn: TurnFigures, t: int, event: object) -> None:
    """Add an event at the time `t` to the figures of its turn."""
    match event:
        case events.TextDelta() | events.ReasoningDelta():
            turn.deltas += 1
            if turn.first_token is None:
                turn.first_token = t - turn.t
        case events.TextDone() if event.text and turn.first_token is None:
            turn.first_token = t - turn.t
        case events.MessageAppended() if event.message.role == "user":
            turn.input = turn.input or event.message.text
        case events.ToolCallFinished():
            turn.tools += 1
        case events.UsageReported():
            turn.input_tokens = _sum(turn.input_tokens, event.usage.input_tokens)
            turn.output_tokens = _sum(turn.output_tokens, event.usage.output_tokens)
        case events.TurnEnded():
            turn.duration, turn.end = t - turn.t, event.end
            turn.failure = f"{event.failure.cause}: {event.failure.text}" if event.failure is not None else ""
            usage = event.usage or Usage()
            turn.input_tokens = turn.input_tokens if usage.input_tokens is None else usage.input_tokens
            turn.output_tokens = turn.output_tokens if usage.output_tokens is None else usage.output_tokens


def _sum(known: int | None, more: int | None) -> int | None:
    return known if more is None else (known or 0) + more
