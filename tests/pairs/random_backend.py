"""The base of the random backends: text pieces that name their turn, and a record of the played turns.

A random backend speaks wire frames of its dialect without any code of the gateway. At any time it has a list of legal
moves, and the session chooses one. It answers a received frame only when a move says so.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

from msgspec import Struct, field

from tests.pairs.views import SeenTurn

Frame = dict[str, Any]
Move = Callable[[], None]

REASONING = "(thought)"  # part of every reasoning text, and of no other text
INTERNAL = "(internal)"  # part of every text that chat users must not see, and of no other text
COLOUR = ("", "é", "木", '"', "\n", "\\", "\U0001f40b")


class PlayedTurn(Struct):
    """A played turn. `whole` is True while every part of it reached the gateway, `asked` if it had a question."""

    number: int
    seen: SeenTurn = field(default_factory=SeenTurn)
    whole: bool = True
    asked: bool = False


class NumberedText:
    """A generator of unique pieces `[TURN.PIECE]`, each with its position."""

    def __init__(self) -> None:
        self._pieces = 0

    def next(self, turn: int, mark: str = "") -> str:
        """Return the next piece of this turn."""
        self._pieces += 1
        return f"[{turn}.{self._pieces}]{mark}{COLOUR[self._pieces % len(COLOUR)]} "


class RandomBackend(ABC):
    """A backend that makes random legal moves. `out` are the frames that it has not sent yet."""

    dialect: ClassVar[str]

    def __init__(self) -> None:
        self.out: list[Frame] = []
        self.turns: list[PlayedTurn] = []
        self.stopping = False
        """True if a stop was requested and is not done."""
        self._words = NumberedText()

    @property
    @abstractmethod
    def turn(self) -> PlayedTurn | None:
        """The turn that is being played."""

    @abstractmethod
    def connected(self) -> None:
        """Begin a new connection."""

    @abstractmethod
    def lost(self, *, dies: bool) -> None:
        """Lose the connection; with `dies` the running turn is lost too."""

    @abstractmethod
    def hears(self, frame: Frame) -> None:
        """Handle a frame that the gateway sent."""

    @abstractmethod
    def moves(self) -> list[Move]:
        """Return the moves that are legal now."""

    @abstractmethod
    def finish(self) -> None:
        """End open turns, and answer pending requests."""
