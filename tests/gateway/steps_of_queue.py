"""The calls of a method in each step of the fair queue, counted by the test."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.gateway.overload.fair_queue import FairQueue


def count_in_steps(monkeypatch: pytest.MonkeyPatch, owner: type, method: str) -> list[int]:
    """Return a list that gets an item with each further step: how often the method was called until the next one."""
    counts = [0]
    step, call = FairQueue._step, getattr(owner, method)

    def count_step(queue: FairQueue) -> None:
        counts.append(0)
        step(queue)

    def count_call(*arguments: Any, **options: Any) -> Any:
        counts[-1] += 1
        return call(*arguments, **options)

    monkeypatch.setattr(FairQueue, "_step", count_step)
    monkeypatch.setattr(owner, method, count_call)
    return counts
