"""The ends of a pipe, and the other files that may take its place."""

from __future__ import annotations

import asyncio
import os
import pty
import socket
import tty
from collections.abc import Callable
from pathlib import Path

import pytest

from dragoman.adapters.stdio.ends import ReadEnd, WriteEnd
from tests.idle import run_turns

DEADLINE = 20.0
MUCH = b"0123456789abcdef" * 64 * 1024  # a megabyte: far more than a pipe or a socket holds


def pipe() -> tuple[int, int]:
    return os.pipe()


def socketpair() -> tuple[int, int]:
    reader, writer = socket.socketpair()
    return reader.detach(), writer.detach()


def terminal() -> tuple[int, int]:
    """Open a terminal in raw mode: it neither echoes nor waits for whole lines."""
    master, slave = pty.openpty()
    tty.setraw(slave)
    return master, slave


class Reading:
    """A read end, and all bytes that it delivered."""

    def __init__(self, fd: int) -> None:
        self.data = b""
        self.over = asyncio.Event()
        self.ends = 0
        self.end = ReadEnd(os.fdopen(fd, "rb", 0), self._take, self._ended)
        self.end.resume()

    def _take(self, data: bytes) -> None:
        self.data += data

    def _ended(self) -> None:
        self.ends += 1
        self.over.set()

    async def everything(self) -> bytes:
        async with asyncio.timeout(DEADLINE):
            await self.over.wait()
        return self.data


def sink(fd: int, high: int = 1024, *, patient: bool = False) -> WriteEnd:
    return WriteEnd(os.fdopen(fd, "wb", 0), high, patient=patient)


@pytest.mark.parametrize("patient", [False, True])
@pytest.mark.parametrize("make", [pipe, socketpair])
async def test_a_megabyte_goes_through_unchanged(make: Callable[[], tuple[int, int]], patient: bool) -> None:
    source, target = make()
    if not patient:
        os.set_blocking(target, False)
    reading, writing = Reading(source), sink(target, patient=patient)
    writing.write(MUCH)
    assert writing._waiting > 0, "the kernel could not take it at once"
    async with asyncio.timeout(DEADLINE):
        await writing.flushed()
    writing.close()
    assert await reading.everything() == MUCH


async def test_a_polling_pipe_end_does_not_change_the_flags_of_its_descriptor() -> None:
    source, target = os.pipe()
    reading, writing = Reading(source), sink(target, patient=True)
    writing.write(MUCH)
    await run_turns()
    assert os.get_blocking(source)
    assert os.get_blocking(target)
    await writing.flushed()
    writing.close()
    assert len(await reading.everything()) == len(MUCH)


async def test_a_polling_pipe_end_never_blocks_on_a_full_pipe() -> None:
    source, target = os.pipe()
    writing = sink(target, patient=True)
    writing.write(MUCH)  # would hang here: nobody reads
    assert 0 < writing._waiting < len(MUCH)
    writing.close()
    os.close(source)


async def test_a_terminal_can_be_read_and_written() -> None:
    master, slave = terminal()
    reading, writing = Reading(master), sink(slave, patient=True)
    writing.write(b"hello")
    async with asyncio.timeout(DEADLINE):
        while reading.data != b"hello":
            await run_turns(1)
    writing.close()  # the last one: a master whose slave is gone reads EIO
    assert await reading.everything() == b"hello"


async def test_a_terminal_that_can_also_be_read_does_not_count_as_a_gone_reader() -> None:
    master, slave = terminal()
    writing = sink(slave)
    os.write(master, b"typed")
    await run_turns()
    assert not writing.closed
    writing.write(b"still here")
    assert os.read(master, 100) == b"still here"
    writing.close()
    os.close(master)


async def test_a_file_is_read_to_its_end(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(MUCH)
    reading = Reading(os.open(tmp_path / "file", os.O_RDONLY))
    assert await reading.everything() == MUCH


async def test_a_paused_file_is_not_read_on(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(MUCH)
    reading = Reading(os.open(tmp_path / "file", os.O_RDONLY))
    while not reading.data:
        await run_turns(1)
    reading.end.pause()
    got = len(reading.data)
    await run_turns()
    assert len(reading.data) == got < len(MUCH)
    reading.end.resume()
    assert await reading.everything() == MUCH


async def test_reading_dev_null_ends_at_once() -> None:
    assert await Reading(os.open(os.devnull, os.O_RDONLY)).everything() == b""


async def test_a_file_is_written(tmp_path: Path) -> None:
    writing = sink(os.open(tmp_path / "file", os.O_WRONLY | os.O_CREAT), patient=True)
    writing.write(MUCH)
    writing.write(b"end")
    await writing.flushed()
    writing.close()
    assert (tmp_path / "file").read_bytes() == MUCH + b"end"


async def test_the_end_of_the_connection_is_reported_once() -> None:
    source, target = os.pipe()
    reading = Reading(source)
    os.close(target)
    await reading.everything()
    reading.end.close()
    assert reading.ends == 1


async def test_a_paused_pipe_end_reads_nothing() -> None:
    source, target = os.pipe()
    reading = Reading(source)
    reading.end.pause()
    os.write(target, b"late")
    await run_turns()
    assert reading.data == b""
    reading.end.resume()
    os.close(target)
    assert await reading.everything() == b"late"


async def test_a_reader_that_is_gone_is_a_connection_error() -> None:
    source, target = os.pipe()
    writing = sink(target)
    os.close(source)
    writing.write(b"anybody?")
    with pytest.raises(ConnectionError):
        await writing.wait_writable()
    assert writing.closed


async def test_a_waiting_writer_is_told_that_the_reader_is_gone() -> None:
    source, target = os.pipe()
    os.set_blocking(target, False)
    writing = sink(target)
    writing.write(MUCH)
    async with asyncio.timeout(DEADLINE), asyncio.TaskGroup() as group:
        waiting = group.create_task(refused(writing))
        await run_turns()
        assert not waiting.done()
        os.close(source)


async def refused(writing: WriteEnd) -> None:
    with pytest.raises(ConnectionError):
        await writing.wait_writable()


async def test_a_waiting_writer_goes_on_when_a_quarter_of_the_mark_is_left() -> None:
    source, target = os.pipe()
    os.set_blocking(target, False)
    writing = sink(target, high=100_000)
    writing.write(MUCH)
    async with asyncio.timeout(DEADLINE), asyncio.TaskGroup() as group:
        waiting = group.create_task(writing.wait_writable())
        while not waiting.done():
            os.read(source, 4096)
            await run_turns(3)
    assert writing._waiting <= 25_000
    writing.close()
    os.close(source)


async def test_bytes_written_to_a_closed_end_are_dropped() -> None:
    source, target = os.pipe()
    writing = sink(target)
    writing.close()
    writing.write(b"late")
    assert writing._waiting == 0
    assert os.read(source, 100) == b""
    os.close(source)
