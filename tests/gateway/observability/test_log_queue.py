"""A queue of log lines before a pipe that is read, never read, or read later."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import Mock

import pytest

from dragoman.gateway.observability.log_queue import BYTES_MAX, LINES_MAX, LogQueue

DEADLINE = 100.0  # longer than a test may take: nobody who waits is helped by the deadline
SMALL = 4096  # bytes: the smallest pipe there is


def report(count: int) -> str:
    return f"dropped {count}"


@contextmanager
def piped() -> Iterator[tuple[LogQueue, int]]:
    """Return a queue before a small pipe, and the pipe's read end."""
    source, sink = os.pipe()
    fcntl.fcntl(sink, fcntl.F_SETPIPE_SZ, SMALL)
    queue = LogQueue(sink, report)
    try:
        yield queue, source
    finally:
        os.close(source)  # whatever is still being written fails now
        assert queue.flush(DEADLINE)
        os.close(sink)


def read_until(source: int, last: str) -> list[str]:
    """Read lines up to the one that is `last`."""
    data = b""
    while not data.endswith(last.encode() + b"\n"):
        data += os.read(source, 1 << 16)
    return data.decode().splitlines()


def test_lines_are_written_in_order() -> None:
    with piped() as (queue, source):
        for number in range(100):
            queue.put(f"line {number}")
        assert read_until(source, "line 99") == [f"line {number}" for number in range(100)]
        assert queue.flush(DEADLINE)


def test_dropped_lines_are_counted_and_reported_once_possible() -> None:
    count = 3 * LINES_MAX
    with piped() as (queue, source), os.fdopen(os.dup(source), "rb") as lines:
        for number in range(count):
            queue.put(str(number))
        kept: list[int] = []
        dropped = 0
        while len(kept) + dropped < count:
            line = next(lines).decode()
            if line.startswith("dropped"):
                dropped += int(line.split()[1])
            else:
                kept.append(int(line))
    assert dropped
    assert kept == sorted(set(kept))


def test_the_queue_is_bounded_in_bytes_too() -> None:
    with piped() as (queue, _):
        for _ in range(10):
            queue.put("x" * (BYTES_MAX // 2))
        assert queue._size <= BYTES_MAX
        assert queue._dropped >= 7


def test_a_line_is_written_where_no_thread_can_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("threading.Thread.start", Mock(side_effect=RuntimeError("can't start new thread")))
    with piped() as (queue, source):
        queue.put("error: the limit of processes is too low")
        assert read_until(source, "error: the limit of processes is too low")


def test_a_flush_gives_up_at_its_deadline_when_nobody_reads() -> None:
    with piped() as (queue, _):
        queue.put("x" * 2 * SMALL)
        assert not queue.flush(0)


def test_a_pipe_without_a_reader_loses_only_the_lines() -> None:
    source, sink = os.pipe()
    os.close(source)
    queue = LogQueue(sink, report)
    queue.put("lost")
    assert queue.flush(DEADLINE)
    queue.put("lost too")
    assert queue.flush(DEADLINE)
    os.close(sink)


def test_the_queue_waits_for_a_nonblocking_descriptor() -> None:
    with piped() as (queue, source):
        os.set_blocking(queue._descriptor, False)
        queue.put("x" * 3 * SMALL)
        assert read_until(source, "x") == ["x" * 3 * SMALL]


def test_a_character_that_utf_8_cannot_encode_is_escaped() -> None:
    with piped() as (queue, source):
        queue.put("a\udcffb")
        assert read_until(source, "b") == ["a\\udcffb"]
