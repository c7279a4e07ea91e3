"""The demo backend tells its stories here ten times as fast; `slow` and `wait` it tells as ever, to be interrupted."""

from __future__ import annotations

import pytest
from msgspec import structs

from gateway.demo import script

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
