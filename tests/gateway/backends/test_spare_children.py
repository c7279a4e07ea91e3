"""The children of all routes: which one is ended when a session needs a further child (docs/design.md, section 6)."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

from dragoman.gateway.backends.spare_children import SpareChildren
from dragoman.mappings.canonical import SessionState
from tests.idle import settle


class Connection:
    """A connection whose session was used at this time; its child runs until the test ends it."""

    def __init__(self, children: SpareChildren, used_at: int, *, is_spare: bool = True) -> None:
        self.state = SessionState(id="s", updated_at=used_at)
        self.is_spare = is_spare
        self.rested = False
        self._running = ExitStack()
        self._running.enter_context(children.holding(self))

    def rest(self) -> None:
        self.rested, self.is_spare = True, False

    def ends(self) -> None:
        self._running.close()


async def test_the_child_whose_session_was_used_least_recently_is_ended() -> None:
    children = SpareChildren()
    used = [Connection(children, at) for at in (5, 3, 7)]
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        ended = group.create_task(children.end_one(), name="end")
        await settle()
        assert [connection.rested for connection in used] == [False, True, False]
        assert not ended.done(), "its process still runs"
        used[1].ends()
        assert await ended is True


async def test_no_child_is_ended_that_its_session_needs() -> None:
    children = SpareChildren()
    needed = Connection(children, 1, is_spare=False)
    assert await children.end_one() is False
    assert not needed.rested


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
        assert [connection.rested for connection in used] == [True, True, False]
        for connection in used[:2]:
            connection.ends()
        assert [await task for task in both] == [True, True]
