"""The thread that redacts, and what closing does while it works."""

from __future__ import annotations

import asyncio
import threading

import pytest

from dragoman.gateway.recording import redaction_worker
from dragoman.gateway.recording.redaction_worker import RedactionWorker


def started() -> RedactionWorker:
    worker = RedactionWorker(asyncio.get_running_loop().call_soon_threadsafe)
    worker.start()
    return worker


async def test_closing_waits_for_the_thread() -> None:
    worker = started()
    done = list[int]()
    for number in range(3):
        worker.add(1, lambda: None, lambda number=number: done.append(number))  # type: ignore[misc]  # mypy infers no default
    await worker.close()
    assert done == [0, 1, 2]


async def test_closing_gives_up_on_a_thread_that_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction_worker, "CLOSE_DEADLINE", 0.01)
    worker, go = started(), threading.Event()

    def work() -> None:
        go.wait(20)

    worker.add(1, work, lambda: None)
    await worker.close()
    assert not worker.busy
    go.set()


async def test_discarded_work_is_reported_and_not_executed() -> None:
    worker, begun, go = (
        started(),
        threading.Event(),
        threading.Event(),
    )
    worked, done = list[int](), list[int]()

    def work() -> None:
        begun.set()
        go.wait(20)
        worked.append(1)

    worker.add(10, work, lambda: done.append(1))
    worker.add(5, lambda: worked.append(2), lambda: done.append(2))
    assert await asyncio.to_thread(begun.wait, 20)
    worker.discard()
    assert worker.backlog == 10
    go.set()
    await worker.close()
    assert (worked, done, worker.backlog) == ([1], [1, 2], 0)
