"""What is noted of a session at once: as little as can be, its lines are made later."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from msgspec import Struct

from dragoman.gateway.recording.lines import EventLine
from dragoman.mappings.canonical import Batch
from dragoman.mappings.dialect import Frame

__all__ = ["FramesNote", "Note", "Step", "Tapped"]


class Tapped(NamedTuple):
    """Where frames were seen: one direction of one link, and what is spoken there."""

    link: str
    dir: Literal["receive", "send"]
    dialect: str


class FramesNote(Struct, gc=False):
    """These frames went by there."""

    tapped: Tapped
    frames: Sequence[Frame]


Note = FramesNote | Batch | EventLine
"""Frames; events that were added to the session's log; any other command or event, whose seq and t come later."""


class Step(Struct, gc=False):
    """What happened at `t` (µs)."""

    t: int
    notes: Sequence[Note]
