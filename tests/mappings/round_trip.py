"""The round trip of one message: it is read, and what it means is written again."""

from __future__ import annotations

from typing import Any

from dragoman.mappings.dialect import Direction, Frame, Step


def back_and_forth(direction: Direction[Any], frame: Frame) -> tuple[Step[Any], list[bytes]]:
    """Read one message and write it again; return the step and the written frames."""
    step: Step[Any] = Step()
    direction.receive([frame], step)
    return step, [out for burst in step.bursts for out in direction.write(burst).frames]
