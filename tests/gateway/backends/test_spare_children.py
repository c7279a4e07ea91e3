"""The children of all routes: which one is ended when a session needs a further child (docs/design.md, section 6)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import ExitStack

import pytest

from dragoman.gateway.backends.spare_children import SpareChildren
from dragoman.mappings.canonical import Command, Event, SessionState
from dragoman.mappings.dialect import Frame, Step, Translator
from tests.idle import settle


class Peer(Translator[Event, Command]):
    """The translator of a link with a child; other children depend on one that `serves`."""

    def __init__(self, *, serves: bool, waits: bool) -> None:
        self._serves, self._waits = serves, waits

    def receive(self, frames: Sequence[Frame]) -> Step[Event]:
        raise NotImplementedError

    def send(self, items: Sequence[Command]) -> Step[Event]:
        raise NotImplementedError

    def is_waiting(self) -> bool:
        return self._waits

    def serves_others(self) -> bool:
        return self._serves


class Connection:
    """A connection whose session was used at this time; its child runs until the test ends it."""

    def __init__(
        self, children: SpareChildren, used_at: int, *, is_spare: bool = True, serves: bool = False, waits: bool = False
    ) -> None:
        self.state = SessionState(id="s", updated_at=used_at)
        self.is_spare = is_spare
        self.suspended = False
        self._running = ExitStack()
        self._running.enter_context(children.holding(self, Peer(serves=serves, waits=waits)))

    def suspend(self) -> bool:
        self.suspended, self.is_spare = True, False
        return False

    def ends(self) -> None:
        self._running.close()


async def test_the_child_whose_session_was_used_least_recently_is_ended() -> None:
    children = SpareChildren()
    used = [Connection(children, at) for at in (5, 3, 7)]
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        ended = group.create_task(children.end_one(), name="end")
        await settle()
        assert [connection.suspended for connection in used] == [False, True, False]
        assert not ended.done(), "its process still runs"
        used[1].ends()
        assert await ended is True


async def test_no_child_is_ended_that_its_session_needs() -> None:
    children = SpareChildren()
    needed = Connection(children, 1, is_spare=False)
    assert await children.end_one() is False
    assert not needed.suspended


async def test_a_child_that_has_ended_is_not_ended_again() -> None:
    children = SpareChildren()
    Connection(children, 1).ends()
    assert await children.end_one() is False


async def test_two_sessions_that_need_a_child_at_once_end_two_children() -> None:
    children = SpareChildren()
    used = [Connection(children, at) for at in (1, 2, 3)]
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        both = [group.create_task(children.end_one(), name=f"end {n}") for n in range(2)]
        await settle()
        assert [connection.suspended for connection in used] == [True, True, False]
        for connection in used[:2]:
            connection.ends()
        assert [await task for task in both] == [True, True]


@pytest.mark.parametrize(
    ("serves", "waits", "other_waits", "needed"),
    [(True, False, True, True), (True, True, False, False), (False, False, True, False)],
)
async def test_a_child_is_needed_while_another_one_that_depends_on_it_waits(
    *, serves: bool, waits: bool, other_waits: bool, needed: bool
) -> None:
    children = SpareChildren()
    owner = Connection(children, 1, serves=serves, waits=waits)
    guest = Connection(children, 2, waits=other_waits)
    assert children.is_needed(owner) is needed
    assert not children.is_needed(guest)
    guest.ends()
    assert not children.is_needed(owner)
    owner.ends()
    assert not children.is_needed(owner)
