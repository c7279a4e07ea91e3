"""Read scripts: canonical events as JSON Lines, where a `turn_ended` line ends a turn.

Beside the event's own keys a line may have two more. `delay_ms` is a pause before the line. `when` limits a line after
a question to one answer (approved, denied, submitted, declined). The bundled scripts are in `scripts/`: `conversation`
plays turn after turn; each other script plays when an input begins with its name. `count N` streams N tokens at full
speed. A script of the user answers every input, turn after turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files
from itertools import cycle
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec
from msgspec import Struct

from dragoman.gateway.config.shape import join_words, nearest
from dragoman.gateway.config.source import read_small
from dragoman.mappings.canonical import Event, Unmapped
from dragoman.mappings.canonical.events import ModelTurnStarted, TextDelta, TurnEnded
from dragoman.mappings.errors import ConfigError

COUNT_MAX = 1_000_000  # a demo backend is no load generator
DIGITS = 9  # digits of a number that are read: any longer number is above COUNT_MAX
SCRIPT_MAX = 16 * 1024 * 1024  # bytes of a script: its events take 20 times as much memory
DELAY_MAX = 3_600_000  # ms: an hour between two lines is a mistake

Outcome = Literal["", "approved", "denied", "submitted", "declined"]
"""The outcome of the last question, "" before any."""

OUTCOMES = tuple(filter(None, get_args(Outcome)))
OWN = ("type", "delay_ms", "when")

EVENTS = {
    kind.__struct_config__.tag: kind for kind in get_args(Event) if kind.answers != "always" and kind is not Unmapped
}
"""Tag -> event that a script may contain. Responses to commands are not among them; the backend creates them."""


class Line(Struct, frozen=True, kw_only=True):
    """An event of a demo script, the pause before it (s), and the outcome that it needs."""

    event: Any
    delay: float = 0.0
    when: Outcome = ""


def load(path: Path) -> list[list[Line]]:
    """Return the turns of a script file; raise ConfigError with the line and the fault."""
    try:
        text = read_small(path, SCRIPT_MAX).decode("utf-8")
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8: {error.reason}") from error
    return read(text, str(path))


def read(text: str, name: str) -> list[list[Line]]:
    """Return the turns of a script; raise ConfigError with the line and the fault."""
    turns: list[list[Line]] = [[]]
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            turns[-1].append(_line(line))
        except (ConfigError, msgspec.MsgspecError) as error:
            raise ConfigError(f"{name}:{number}: {error}") from error
        if isinstance(turns[-1][-1].event, TurnEnded):
            turns.append([])
    if turns[-1]:
        raise ConfigError(f"{name}: the last turn has no `turn_ended` line")
    if not turns[0]:
        raise ConfigError(f"{name}: the script has no turn: write events, one a line, the last one `turn_ended`")
    return turns[:-1]


def _line(text: str) -> Line:
    try:
        fields = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ConfigError(f"not JSON: {error}") from error
    if not isinstance(fields, dict) or not isinstance(fields.get("type"), str):
        raise ConfigError('no event: write {"type": "text_delta", "text": "..."}')
    kind = EVENTS.get(fields["type"])
    if kind is None:
        raise ConfigError(f"invalid type {fields['type']!r}; {_near_event(fields['type'])}")
    for key in fields:
        if key not in (*OWN, *kind.__struct_fields__):
            raise ConfigError(f"{fields['type']} has no {key!r}; {nearest(key, (*kind.__struct_fields__, *OWN[1:]))}")
    delay, when = fields.pop("delay_ms", 0), fields.pop("when", "")
    if isinstance(delay, bool) or not isinstance(delay, int | float) or not 0 <= delay <= DELAY_MAX:
        raise ConfigError(f"delay_ms {delay!r}: write milliseconds, from 0 to {DELAY_MAX}")
    if when and when not in OUTCOMES:
        raise ConfigError(f"when {when!r}: write {join_words(OUTCOMES)}")
    event = msgspec.json.decode(msgspec.json.encode(fields), type=kind)
    return Line(event=event, delay=delay / 1000, when=when)


def _near_event(tag: str) -> str:
    near = nearest(tag, EVENTS)
    return near if near.startswith("did") else "`dragoman schema events` lists the events"


@cache
def _bundled() -> dict[str, list[list[Line]]]:
    folder = files("dragoman.gateway.demo") / "scripts"
    return {
        entry.name.removesuffix(".jsonl"): read(entry.read_text("utf-8"), entry.name)
        for entry in folder.iterdir()
        if entry.name.endswith(".jsonl")
    }


class Scripts:
    """The answers of the demo backend: the bundled scripts, or only the `own` turns."""

    def __init__(self, own: Sequence[list[Line]] = ()) -> None:
        bundled = {} if own else _bundled()
        self._own = bool(own)
        self._conversation = cycle(own or bundled["conversation"])
        self._named = {name: cycle(script) for name, script in bundled.items() if name != "conversation"}

    def turn(self, text: str) -> Iterator[Line]:
        words = text.split()
        if not self._own and len(words) > 1 and words[0] == "count" and words[1].isdecimal():
            return _count(min(int(words[1][:DIGITS]), COUNT_MAX))
        script = self._named.get(words[0].lower(), self._conversation) if words else self._conversation
        return iter(next(script))


def _count(tokens: int) -> Iterator[Line]:
    yield Line(event=ModelTurnStarted())
    for number in range(tokens):
        yield Line(event=TextDelta(text=f"{number} "))
    yield Line(event=TurnEnded(end="completed"))
