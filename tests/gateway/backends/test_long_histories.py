"""A long history is read page by page, delivered once and whole, and bounded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec import structs

from dragoman.gateway.backends.history_loader import HistoryLoader
from dragoman.gateway.backends.long_histories import PAGE
from dragoman.gateway.config.model import Limits
from dragoman.gateway.observability.ledger import Ledger
from dragoman.gateway.session.weight import ITEM
from dragoman.mappings.canonical import Command, Event, SessionState
from dragoman.mappings.canonical.commands import GetHistory, Ping
from dragoman.mappings.canonical.events import HistorySnapshot, Pong, Reply
from dragoman.mappings.canonical.values import Cause, Failure, Message
from dragoman.mappings.dialect import Burst
from tests.gateway.in_memory import ManualClock
from tests.services import services

WHOLE = GetHistory(request="h", limit=1 << 30)
MOST = 1 << 20


class Store:
    """A loader between a session and a backend with `size` messages, "0" the oldest; `step` answers one request."""

    def __init__(self, size: int, *, most: int = MOST) -> None:
        self.ledger, self.time = Ledger(), ManualClock()
        provided = services(self.time, ledger=self.ledger, limits=Limits(transcript_max=most))
        self.loader = HistoryLoader(self, provided, lambda _events: self)
        self.size = size
        self.asked: list[Command] = []
        self.open: list[Command] = []
        self.told: list[Event] = []
        self.failed: list[list[str]] = []
        self.calls: list[str] = []

    def send(self, commands: Sequence[Command]) -> None:
        self.asked += commands
        self.open += commands

    def start(self) -> None:
        self.calls.append("start")

    def rest(self) -> bool:
        self.calls.append("rest")
        return False

    def stop(self) -> None:
        self.calls.append("stop")

    @property
    def state(self) -> SessionState:
        return SessionState(id="s")

    def connected(self) -> None: ...

    def receive(self, bursts: list[Burst[Any]]) -> None:
        self.told += [item for burst in bursts for item in burst.items]

    def lost(self, text: str, unsent: Sequence[Command], cause: Cause = "upstream_lost") -> bool:
        self.failed.append([command.request for command in unsent])
        return False

    def sends(self, *events: Event) -> None:
        self.loader.receive([Burst(items=list(events))])

    def step(self) -> None:
        """Answer the oldest open request with a page."""
        asked = self.open.pop(0)
        assert isinstance(asked, GetHistory)
        newest = int(asked.cursor) if asked.cursor else self.size
        numbers = range(newest - 1, max(newest - asked.limit, 0) - 1, -1)
        items = tuple(Message(role="user", text=str(n), id=str(n)) for n in numbers)
        cursor = str(numbers[-1]) if numbers and numbers[-1] > 0 else None
        self.sends(HistorySnapshot(request=asked.request, items=items, next_cursor=cursor))

    def run(self) -> None:
        while self.open:
            self.step()


def texts(event: Event) -> list[str]:
    assert isinstance(event, HistorySnapshot)
    return [item.text for item in event.items if isinstance(item, Message)]


@pytest.mark.parametrize("size", [0, 1, PAGE, PAGE + 1, 2 * PAGE, 3 * PAGE + 7])
def test_a_whole_history_is_requested_in_pages_and_answered_once(size: int) -> None:
    store = Store(size)
    store.loader.send([WHOLE])
    store.run()
    assert {asked.limit for asked in store.asked if isinstance(asked, GetHistory)} == {PAGE}
    (answer,) = store.told
    assert texts(answer) == [str(n) for n in reversed(range(size))]
    assert isinstance(answer, HistorySnapshot)
    assert (answer.request, answer.next_cursor) == ("h", None)
    assert len(store.asked) == max(1, -(-size // PAGE))


def test_no_more_messages_are_requested_than_the_client_wants() -> None:
    store = Store(500)
    store.loader.send([GetHistory(request="h", limit=150)])
    store.run()
    assert [asked.limit for asked in store.asked if isinstance(asked, GetHistory)] == [100, 50]
    (answer,) = store.told
    assert isinstance(answer, HistorySnapshot)
    assert (len(answer.items), answer.next_cursor) == (150, "350")


@pytest.mark.parametrize("limit", [0, 1, PAGE])
def test_a_requested_page_is_passed_on_unchanged(limit: int) -> None:
    store = Store(500)
    page = GetHistory(request="h", limit=limit, cursor="7")
    store.loader.send([page])
    assert store.asked == [page]
    answer = HistorySnapshot(request="h", items=(), next_cursor="6")
    store.sends(answer)
    assert store.told == [answer]


def test_other_events_are_passed_on_at_once_meanwhile() -> None:
    store = Store(500)
    store.loader.send([WHOLE, Ping(request="p")])
    store.sends(Pong(request="p", at=1))
    assert store.told == [Pong(request="p", at=1)]


def test_two_histories_requested_together_are_both_answered() -> None:
    store = Store(150)
    store.loader.send([WHOLE, structs.replace(WHOLE, request="i")])
    store.run()
    assert [(event.request, len(event.items)) for event in store.told if isinstance(event, HistorySnapshot)] == [
        ("h", 150),
        ("i", 150),
    ]


def test_the_refusal_of_a_page_is_the_answer() -> None:
    store = Store(500)
    store.loader.send([WHOLE])
    store.step()
    refused = Reply(request="h", failure=Failure(cause="internal", text="no"))
    store.sends(refused)
    assert store.told == [refused]
    assert len(store.asked) == 2


def test_a_history_larger_than_is_kept_ends_with_a_cursor_and_is_counted() -> None:
    store = Store(10_000, most=3 * PAGE * ITEM)
    store.loader.send([WHOLE])
    store.run()
    (answer,) = store.told
    assert isinstance(answer, HistorySnapshot)
    assert (len(answer.items), answer.next_cursor) == (3 * PAGE, str(10_000 - 3 * PAGE))
    assert [entry.kind for entry in store.ledger.entries()] == ["HistorySnapshot"]


def test_an_empty_page_with_a_cursor_ends_the_history() -> None:
    store = Store(0)
    store.loader.send([WHOLE])
    store.sends(HistorySnapshot(request="h", items=(), next_cursor="again"))
    assert len(store.told) == 1
    assert len(store.asked) == 1


@pytest.mark.parametrize("written", [True, False])
def test_no_part_of_a_history_follows_a_lost_connection(written: bool) -> None:
    store = Store(500)
    store.loader.send([WHOLE])
    store.loader.lost("gone", [] if written else [WHOLE])
    assert store.failed == [[] if written else ["h"]]
    late = HistorySnapshot(request="h", items=(), next_cursor="7")
    store.sends(late)
    assert (store.told, len(store.asked)) == ([late], 1)


def test_a_history_is_read_no_longer_than_its_client_waits_for_it() -> None:
    store = Store(500)
    store.loader.send([WHOLE])
    store.time.passes(Limits().accept_deadline)
    store.step()
    (late,) = store.told  # the page is passed on as it came, and nothing more is asked
    assert isinstance(late, HistorySnapshot)
    assert (late.next_cursor, len(store.asked)) == ("400", 1)
    assert store.time.waiting == []


def test_start_rest_and_stop_are_passed_to_the_backend() -> None:
    store = Store(0)
    store.loader.start()
    store.loader.rest()
    store.loader.stop()
    assert store.calls == ["start", "rest", "stop"]
    assert store.loader.state.id == "s"
