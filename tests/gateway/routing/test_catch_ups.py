"""Links that catch up: each waits for at most one next slice."""

from __future__ import annotations

from collections.abc import Iterator

from dragoman.gateway.link import Link
from dragoman.gateway.routing.catch_ups import CatchUps
from tests.gateway.routing.counted_route import CountedRoute


class Slices:
    """Work that the test does by hand."""

    def __init__(self) -> None:
        self.waiting: list[Iterator[None]] = []

    def do_work(self, _link: Link, work: Iterator[None]) -> None:
        self.waiting.append(work)


def lagging() -> tuple[CatchUps, Slices, Link]:
    route, slices = CountedRoute(), Slices()
    link = route.connect("slow")
    session = route.open_session(link)
    link.behind[session.state.id] = None
    return CatchUps(route.sessions.index, slices.do_work), slices, link


def test_a_link_that_is_drained_again_before_its_next_slice_waits_once() -> None:
    catch_ups, slices, link = lagging()
    catch_ups.drained(link)
    catch_ups.drained(link)
    assert len(slices.waiting) == 1


def test_a_link_that_has_done_its_slices_may_be_drained_again() -> None:
    catch_ups, slices, link = lagging()
    catch_ups.drained(link)
    assert list(slices.waiting[0]) == []
    catch_ups.drained(link)
    assert len(slices.waiting) == 2


def test_a_link_that_is_gone_is_forgotten() -> None:
    catch_ups, _slices, link = lagging()
    catch_ups.drained(link)
    catch_ups.stop_link(link)
    assert not catch_ups._running
