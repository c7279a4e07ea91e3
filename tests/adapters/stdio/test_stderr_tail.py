"""The last lines that a child writes to stderr."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager

from structlog.testing import capture_logs

from dragoman.adapters.stdio.stderr_tail import LINES_OF_READ, StderrTail


@contextmanager
def saying(most: int = 1000) -> Iterator[tuple[StderrTail, int]]:
    source, writes = os.pipe()
    os.set_blocking(source, False)
    words = StderrTail(os.fdopen(source, "rb", 0), most, pid=7)
    try:
        yield words, writes
    finally:
        words.close()
        os.close(writes)


async def test_the_last_five_lines_are_joined_into_one() -> None:
    with saying() as (words, writes):
        os.write(writes, b"".join(b"line %d\n" % n for n in range(9)))
        words.finish()
        assert words.text() == "line 4 / line 5 / line 6 / line 7 / line 8"


async def test_a_last_line_without_newline_counts() -> None:
    with saying() as (words, writes):
        os.write(writes, b"one\npanic: two")
        words.finish()
        assert words.text() == "one / panic: two"


async def test_without_output_the_tail_is_empty() -> None:
    with saying() as (words, _):
        words.finish()
        assert words.text() == ""


async def test_the_kept_bytes_of_stderr_are_bounded() -> None:
    with saying(most=1000) as (words, writes):
        for _ in range(100):
            os.write(writes, b"x" * 99 + b"\n")
        words.finish()
        assert words._size == 990, "ten lines of 99"


async def test_a_line_over_the_limit_is_replaced_by_its_size() -> None:
    with saying(most=1000) as (words, writes):
        os.write(writes, b"x" * 1001 + b"\nnext\n")
        words.finish()
        assert words.text() == "(a line of 1001 bytes) / next"


async def test_the_tail_is_short_and_printable() -> None:
    with saying() as (words, writes):
        os.write(writes, b"\x1b[31mred\x07 \xff\n" + b"! " * 450 + b"\n")
        words.finish()
        assert words.text() == " [31mred  \N{REPLACEMENT CHARACTER} / " + "! " * 100 + "…"


async def test_a_long_line_ends_before_the_word_that_is_cut_as_it_may_be_a_secret() -> None:
    with saying() as (words, writes):
        os.write(writes, b"e" * 150 + b' {"key":"ghp_' + b"Xa9" * 20 + b'"}\nnext\n')
        words.finish()
        assert words.text() == "e" * 150 + ' {"key":"… / next'


async def test_the_lines_of_a_private_key_are_neither_kept_nor_logged() -> None:
    body = "Proc-Type: 4,ENCRYPTED\n\nMIIEpAIBAAKCAQEA7bq0\nZk2m=="
    key = f"-----BEGIN RSA PRIVATE KEY-----\n{body}\n-----END RSA PRIVATE KEY-----"
    with capture_logs() as logs, saying() as (words, writes):
        os.write(writes, f"bad key:\n{key}\nbye\n".encode())
        words.finish()
        assert words.text() == "bad key: / -----BEGIN RSA PRIVATE KEY----- / -----END RSA PRIVATE KEY----- / bye"
    assert "MIIE" not in str(logs)


async def test_a_key_without_an_end_hides_no_other_line() -> None:
    with saying() as (words, writes):
        os.write(writes, b"-----BEGIN PRIVATE KEY-----\nMIIEpAIBAAKC\npanic: memory\nabc\n")
        words.finish()
        assert words.text() == "-----BEGIN PRIVATE KEY----- / panic: memory / abc"


async def test_every_line_is_logged_at_debug_level() -> None:
    with capture_logs() as logs, saying() as (words, writes):
        os.write(writes, b"one\ntwo\n")
        words.finish()
        said = [(entry["log_level"], entry["line"], entry["pid"]) for entry in logs]
        assert said == [("debug", "one", 7), ("debug", "two", 7)]


async def test_only_the_last_lines_of_a_read_with_very_many_are_looked_at() -> None:
    with capture_logs() as logs, saying() as (words, writes):
        os.write(writes, b"begun ")
        await asyncio.sleep(0)
        os.write(writes, b"".join(b"%d\n" % n for n in range(10_000)) + b"last")
        words.finish()
        omitted = [entry["count"] for entry in logs if "line" not in entry]
        assert omitted == [10_000 - LINES_OF_READ]
        lines = [entry["line"] for entry in logs if "line" in entry]
        assert lines == [*(str(n) for n in range(10_000 - LINES_OF_READ, 10_000)), "last"]
        assert words.text() == "9996 / 9997 / 9998 / 9999 / last"


async def test_stderr_is_read_although_nobody_asks_for_it() -> None:
    with saying() as (words, writes):
        os.set_blocking(writes, False)
        written = 0
        async with asyncio.timeout(20):
            while written < 1_000_000:
                try:
                    written += os.write(writes, b"x" * 99 + b"\n")
                except BlockingIOError:
                    await asyncio.sleep(0)
        assert words._size <= 1000


async def test_the_end_does_not_wait_for_a_process_that_inherited_stderr() -> None:
    with saying() as (words, writes):
        os.write(writes, b"one\n")
        words.finish()  # `writes` is still open
        assert words.text() == "one"
