"""Links that wait for the history: each attaches once, when it is known, when the link sends, or after a deadline."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import structs

from dragoman.gateway.config.model import Limits
from dragoman.gateway.session.presence import PendingAttach
from tests.services import services


class Stage:
    """A PendingAttach with a timer that the test fires."""

    def __init__(self) -> None:
        self.inside: list[str] = []
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.off = 0
        own = structs.replace(services(limits=Limits(snapshot_wait=0.4)), schedule=self._later)
        self.pending = PendingAttach(lambda link: self.inside.append(link.id), own)

    def _later(self, seconds: float, ring: Callable[[], None]) -> Any:
        self.timers.append((seconds, ring))
        return SimpleNamespace(cancel=self._cancel)

    def _cancel(self) -> None:
        self.off += 1


def link(name: str) -> Any:
    return SimpleNamespace(id=name)


def test_links_wait_until_the_history_is_known_and_attach_once() -> None:
    stage = Stage()
    one, two = link("one"), link("two")
    stage.pending.enter(one)
    stage.pending.enter(two)
    assert stage.pending.waiting == [one, two]
    assert (stage.inside, [seconds for seconds, _ in stage.timers]) == ([], [0.4, 0.4])
    stage.pending.open()
    stage.pending.open()
    stage.pending.admit(one)
    assert (stage.inside, stage.off) == (["one", "two"], 2)


def test_a_link_attaches_when_its_wait_is_over() -> None:
    stage = Stage()
    stage.pending.enter(link("one"))
    stage.timers[0][1]()
    stage.pending.open()
    assert stage.inside == ["one"]


def test_a_link_attaches_when_it_sends_a_command() -> None:
    stage = Stage()
    one = link("one")
    stage.pending.enter(one)
    stage.pending.admit(one)
    assert stage.inside == ["one"]


def test_no_link_waits_once_the_history_is_known() -> None:
    stage = Stage()
    stage.pending.open()
    stage.pending.enter(link("one"))
    assert (stage.inside, stage.timers) == (["one"], [])


@pytest.mark.parametrize("close", [False, True])
def test_a_link_that_leaves_while_it_waits_never_attaches(close: bool) -> None:
    stage = Stage()
    one = link("one")
    stage.pending.enter(one)
    if close:
        stage.pending.close()
    else:
        assert stage.pending.leave(one)
    stage.pending.open()
    assert (stage.inside, stage.off) == ([], 1)
