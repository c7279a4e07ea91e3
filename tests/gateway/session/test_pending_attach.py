"""Links that wait for the history: each attaches once, when it is known, when the link sends, or after a deadline."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import structs

from dragoman.gateway.config.model import Limits
from dragoman.gateway.overload.fair_queue import STEP, FairQueue
from dragoman.gateway.session.presence import PendingAttach
from dragoman.mappings.canonical import SessionState
from tests.services import services


class PendingAttachStage:
    """A PendingAttach with a timer that the test fires."""

    def __init__(self) -> None:
        self.inside: list[str] = []
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.off = 0
        self.steps: deque[Callable[[], None]] = deque()
        self.queue = FairQueue(self.steps.append)
        own = services(limits=Limits(snapshot_wait=0.4), queue=self.queue)
        own = structs.replace(own, schedule=self._later)
        self.cost = 0  # work (units) of showing the session to one link
        self.rendered = 0  # slices that were rendered
        self.slices = 0  # slices of the history, of a quarter of a step each
        self.pending = PendingAttach(SessionState(id="s"), self._attach, own)

    def _attach(self, link: Any) -> None:
        self.inside.append(link.id)
        self.queue.budget.left -= self.cost

    def render(self, _state: SessionState) -> Iterator[int]:
        """Render the slices that are left, as a dialect does."""
        while self.rendered < self.slices:
            self.rendered += 1
            yield STEP // 4

    def link(self, name: str) -> Any:
        """Return a client of a dialect that shows a history in slices; `held` says whether its commands wait."""
        client = link(name)
        client.dialect = SimpleNamespace(name="pod", render_history=self.render)
        return client

    def _later(self, seconds: float, ring: Callable[[], None]) -> Any:
        self.timers.append((seconds, ring))
        return SimpleNamespace(cancel=self._cancel)

    def _cancel(self) -> None:
        self.off += 1


def link(name: str) -> Any:
    """Return a client; `held` says whether its commands wait."""
    client = SimpleNamespace(id=name, held=False, dialect=SimpleNamespace(name="smooth", render_history=None))
    client.outbox = SimpleNamespace(
        hold_commands=partial(setattr, client, "held", True), release_commands=partial(setattr, client, "held", False)
    )
    return client


def test_links_wait_until_the_history_is_known_and_attach_once() -> None:
    stage = PendingAttachStage()
    one, two = link("one"), link("two")
    stage.pending.enter(one)
    stage.pending.enter(two)
    assert stage.pending.waiting == [one, two]
    assert (stage.inside, [seconds for seconds, _ in stage.timers]) == ([], [0.4, 0.4])
    stage.pending.note_history()
    stage.pending.note_history()
    stage.pending.admit(one)
    assert (stage.inside, stage.off) == (["one", "two"], 2)


def test_a_link_attaches_when_its_wait_is_over() -> None:
    stage = PendingAttachStage()
    stage.pending.enter(link("one"))
    stage.timers[0][1]()
    stage.pending.note_history()
    assert stage.inside == ["one"]


def test_a_link_attaches_when_it_sends_a_command() -> None:
    stage = PendingAttachStage()
    one = link("one")
    stage.pending.enter(one)
    stage.pending.admit(one)
    assert stage.inside == ["one"]


def test_no_link_waits_once_the_history_is_known() -> None:
    stage = PendingAttachStage()
    stage.pending.note_history()
    stage.pending.enter(link("one"))
    assert (stage.inside, stage.timers) == (["one"], [])


@pytest.mark.parametrize("close", [False, True])
def test_a_link_that_leaves_while_it_waits_never_attaches(close: bool) -> None:
    stage = PendingAttachStage()
    one = link("one")
    stage.pending.enter(one)
    if close:
        stage.pending.close()
    else:
        assert stage.pending.leave(one)
    stage.pending.note_history()
    assert (stage.inside, stage.off) == ([], 1)


@pytest.mark.parametrize("moment", ["known", "over", "later"])
def test_links_of_a_long_history_attach_in_a_step_each(moment: str) -> None:
    stage = PendingAttachStage()
    stage.cost = STEP
    names = [str(number) for number in range(5)]
    if moment == "later":
        stage.pending.note_history()
    for name in names:
        stage.pending.enter(link(name))
    if moment == "known":
        stage.pending.note_history()
    elif moment == "over":
        for _, ring in stage.timers:
            ring()
    attached = [len(stage.inside)]
    while stage.steps:
        stage.steps.popleft()()
        attached.append(len(stage.inside))
    assert (stage.inside, attached) == (names, [1, 2, 3, 4, 5])


def test_a_link_that_leaves_while_it_waits_for_its_step_never_attaches() -> None:
    stage = PendingAttachStage()
    stage.pending.note_history()
    stage.queue.budget.left = 0
    one = link("one")
    stage.pending.enter(one)
    assert stage.pending.leave(one)
    stage.steps.popleft()()
    assert stage.inside == []


def test_a_long_history_is_rendered_in_several_steps_and_once_for_all_clients() -> None:
    stage = PendingAttachStage()
    stage.slices = 10
    stage.pending.note_history()
    for number in range(50):
        stage.pending.enter(stage.link(str(number)))
    rendered = [stage.rendered]
    while stage.steps:
        stage.steps.popleft()()
        rendered.append(stage.rendered)
    assert max(after - before for before, after in pairwise([0, *rendered])) <= 4
    assert (stage.rendered, len(stage.inside)) == (10, 50)


def test_commands_of_a_client_wait_until_it_is_shown_a_long_history() -> None:
    stage = PendingAttachStage()
    stage.slices = 10
    stage.pending.note_history()
    one = stage.link("one")
    stage.pending.enter(one)
    held = []
    while stage.steps:
        held.append(one.held)
        stage.steps.popleft()()
    assert (set(held), one.held, stage.inside) == ({True}, False, ["one"])


@pytest.mark.parametrize("slices", [0, 1])
def test_commands_of_a_client_never_wait_for_a_short_history(slices: int) -> None:
    stage = PendingAttachStage()
    stage.slices = slices
    stage.pending.note_history()
    one = stage.link("one")
    stage.pending.enter(one)
    assert (stage.inside, one.held, list(stage.steps)) == (["one"], False, [])


def test_commands_of_a_client_are_released_if_the_session_ends_while_its_history_is_rendered() -> None:
    stage = PendingAttachStage()
    stage.slices = 10
    stage.pending.note_history()
    one = stage.link("one")
    stage.pending.enter(one)
    stage.pending.close()
    assert not one.held


def test_the_slices_of_a_history_are_dropped_with_the_last_client_that_waits() -> None:
    stage = PendingAttachStage()
    stage.slices = 10
    stage.pending.note_history()
    one = stage.link("one")
    stage.pending.enter(one)
    before = stage.rendered
    stage.pending.leave(one)
    while stage.steps:
        stage.steps.popleft()()
    assert (before < 10, stage.rendered) == (True, before)
