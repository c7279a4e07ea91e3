"""Play the scripts of the demo backend ten times as fast, except `slow` and `wait`, which tests interrupt.

A publication waits for slow subscribers as long as a test does, because subscribers may get the processor late.
"""

from __future__ import annotations

from functools import partial

import pytest
from msgspec import structs

from dragoman.adapters import zeromq
from dragoman.gateway.demo import script
from tests.pairs.gateway import DEADLINE

UNHURRIED = ("slow", "wait")
QUICK = {
    name: turns
    if name in UNHURRIED
    else [[structs.replace(line, delay=line.delay / 10) for line in turn] for turn in turns]
    for name, turns in script._bundled().items()
}


@pytest.fixture(autouse=True)
def _stories_are_told_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script, "_bundled", lambda: QUICK)


@pytest.fixture(autouse=True)
def _subscribers_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zeromq, "ZeroMQLimits", partial(zeromq.ZeroMQLimits, publish_wait=DEADLINE))
