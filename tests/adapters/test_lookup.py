"""Looking up the addresses of hosts, some of which take long."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from dragoman.adapters.lookup import look_up

ANSWER = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.7", 0))


@contextmanager
def name_server(monkeypatch: pytest.MonkeyPatch, slow: str) -> Iterator[tuple[list[str], threading.Event]]:
    """Answer each name; lookups of the slow one wait for the event. Return the names that were looked up."""
    asked, answers = list[str](), threading.Event()

    def find(host: str, *_: Any, **__: Any) -> list[Any]:
        asked.append(host)
        if host == slow:
            assert answers.wait(20)
        if host == "unknown.example":
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        return [ANSWER]

    monkeypatch.setattr("socket.getaddrinfo", find)
    try:
        yield asked, answers
    finally:
        answers.set()
        for thread in threading.enumerate():
            if thread.name == "lookup":
                thread.join()  # a later lookup of the same name would wait for this one


async def test_a_slow_name_delays_no_other_and_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with name_server(monkeypatch, "slow.example") as (asked, answers):
        async with asyncio.TaskGroup() as group:
            slow = [group.create_task(look_up("slow.example")) for _ in range(40)]
            await asyncio.sleep(0)
            for number in range(10):
                assert await look_up(f"{number}.example") == [(socket.AF_INET, "192.0.2.7")]
            assert asked.count("slow.example") == 1
            assert not any(task.done() for task in slow)
            answers.set()
        assert {task.result()[0] for task in slow} == {(socket.AF_INET, "192.0.2.7")}


async def test_the_end_of_the_program_does_not_wait_for_a_lookup(monkeypatch: pytest.MonkeyPatch) -> None:
    with name_server(monkeypatch, "slow.example"):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(look_up("slow.example"), 0.01)
        running = [thread for thread in threading.enumerate() if thread.name == "lookup"]
        assert running
        assert all(thread.daemon for thread in running)


async def test_an_unknown_name_is_an_error_for_whoever_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    with name_server(monkeypatch, "") as (asked, _):
        for _ in range(2):
            with pytest.raises(OSError, match="no such name"):
                await look_up("unknown.example")
        assert asked == ["unknown.example"] * 2, "an answer is not kept"


@pytest.mark.parametrize("name", ["a" * 64 + ".example", "a..example"])
async def test_a_name_that_no_host_can_have_is_an_error_of_the_system(name: str) -> None:
    with pytest.raises(OSError, match="not a valid host name"):
        await look_up(name)


async def test_a_lookup_without_a_thread_fails_and_the_next_one_gets_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with name_server(monkeypatch, ""):
        with monkeypatch.context() as patch:
            patch.setattr("threading.Thread.start", refuse)
            with pytest.raises(OSError, match="cannot start a thread"):
                await look_up("a.example")
        assert await look_up("a.example") == [(socket.AF_INET, "192.0.2.7")]


async def test_a_link_local_address_keeps_its_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("fe80::1", 0, 0, 2))
    monkeypatch.setattr("socket.getaddrinfo", lambda *_, **__: [answer])
    assert await look_up("a.example") == [(socket.AF_INET6, "fe80::1%2")]
