"""Scripts: canonical events as JSON Lines, each with an optional `delay_ms`; a `turn_ended` line ends a turn.

The bundled ones stand in `scripts/`: `conversation` plays turn after turn, each other one plays when an input begins
with its name. `count N` is made here: N tokens at full speed.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from itertools import cycle
from typing import Any

import msgspec
from msgspec import Struct

from mappings.canonical import Event
from mappings.canonical.events import ModelTurnStarted, TextDelta, TurnEnded
from mappings.errors import ConfigError

__all__ = ["Line", "Scripts", "read"]

COUNT_MAX = 1_000_000  # a demo backend is no load generator
DIGITS = 9  # of a number that are read: more is above COUNT_MAX anyway


class Line(Struct, frozen=True, kw_only=True):
    """One event of a script and how long to wait before it, in seconds."""

    event: Any
    delay: float = 0.0


def read(text: str, name: str) -> list[list[Line]]:
    """The turns of a script; ConfigError names the line that is wrong."""
    turns: list[list[Line]] = [[]]
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            fields = msgspec.json.decode(line, type=dict[str, Any])
            delay = msgspec.convert(fields.pop("delay_ms", 0), float) / 1000
            event: Any = msgspec.convert(fields, Event)
        except msgspec.MsgspecError as error:
            raise ConfigError(f"{name}:{number}: {error}") from error
        turns[-1].append(Line(event=event, delay=delay))
        if isinstance(event, TurnEnded):
            turns.append([])
    if turns[-1]:
        raise ConfigError(f"{name}: the last turn has no `turn_ended` line")
    return turns[:-1]


class Scripts:
    """What the demo backend says to which input."""

    def __init__(self) -> None:
        folder = files("gateway.demo") / "scripts"
        turns = {
            entry.name.removesuffix(".jsonl"): read(entry.read_text("utf-8"), entry.name)
            for entry in folder.iterdir()
            if entry.name.endswith(".jsonl")
        }
        self._conversation = cycle(turns.pop("conversation"))
        self._named = {name: cycle(script) for name, script in turns.items()}

    def turn(self, text: str) -> Iterator[Line]:
        """The turn that answers `text`."""
        words = text.split()
        if len(words) > 1 and words[0] == "count" and words[1].isdecimal():
            return _count(min(int(words[1][:DIGITS]), COUNT_MAX))
        script = self._named.get(words[0].lower(), self._conversation) if words else self._conversation
        return iter(next(script))


def _count(tokens: int) -> Iterator[Line]:
    yield Line(event=ModelTurnStarted())
    for number in range(tokens):
        yield Line(event=TextDelta(text=f"{number} "))
    yield Line(event=TurnEnded(end="completed"))
