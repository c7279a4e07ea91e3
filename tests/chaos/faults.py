"""The faults that the proxy injects into a byte stream, chosen by a seeded random generator."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from random import Random
from typing import Literal

from msgspec import Struct

Side = Literal["client", "backend"]
"""The connection with the fault: between client and gateway, or between gateway and backend."""

Way = Literal["up", "down"]
"""The direction of the bytes: `up` from the client to the backend, `down` back."""

SIDES: tuple[Side, ...] = ("client", "backend")
SPAN: dict[Way, int] = {"up": 150, "down": 1500}  # bytes of a turn: a fault strikes somewhere in them
BEFORE_OPEN = 0.25  # of the rounds


class FaultKind(StrEnum):
    """A way in which a connection misbehaves."""

    DELAY = "delay"  # each read arrives later
    STALL = "stall"  # nothing arrives for a while
    ONE_BYTE = "one byte at a time"
    DUPLICATE = "duplicate"  # one read arrives twice
    TRUNCATE = "truncate"  # half of a read arrives, then the stream ends
    CUT = "cut"  # the connection is reset


FAULTS = tuple(FaultKind)


class Fault(Struct, frozen=True, kw_only=True):
    """A fault of a connection. It strikes at byte `after` of the direction `way`, counted from the moment when it is
    armed.
    """

    kind: FaultKind
    side: Side
    way: Way
    after: int

    @property
    def title(self) -> str:
        """The title of the report's row that counts this fault."""
        return f"{self.kind}, {self.side} side"


class Round(Struct, frozen=True, kw_only=True):
    """A fault, armed before the client connects or right before it begins a turn."""

    fault: Fault
    before_open: bool


def choose_rounds(dice: Random, rounds: int, kinds: Sequence[FaultKind] = FAULTS) -> list[Round]:
    """Return `count` rounds: each kind equally often on each side, a quarter armed before the client connects."""
    chosen = [(kind, side) for kind in kinds for side in SIDES]
    return [
        Round(fault=_choose_fault(dice, *chosen[number % len(chosen)]), before_open=dice.random() < BEFORE_OPEN)
        for number in range(rounds)
    ]


def _choose_fault(dice: Random, kind: FaultKind, side: Side) -> Fault:
    """Return a fault of this kind at a random place. Bytes from the gateway to a client are never duplicated, because
    that would test only the client.
    """
    way: Way = "up" if (kind, side) == (FaultKind.DUPLICATE, "client") else dice.choice(("up", "down"))
    return Fault(kind=kind, side=side, way=way, after=dice.randrange(SPAN[way]))
