"""Six ways in which a gateway with children and grandchildren ends: none of them is left.

The children are deaf: neither EOF nor TERM ends them, nor their own children. Where we are killed the watchdog ends
them, also those that would have ended in order.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.adapters.stdio.parent import CHILDREN, LOOPS
from tests.adapters.stdio.programs import DEADLINE, running, until

FAMILY = 2 * CHILDREN  # each with a child of its own


class Gateway:
    """The parent of parent.py as a process, with its pipes."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self.process, self.stdin, self.stdout, self.stderr = process, process.stdin, process.stdout, process.stderr
        self._said = b""

    def begin(self) -> None:
        """Wait until the process is ready."""
        while not self._said.endswith(b"ready\n"):
            piece = os.read(self.stderr.fileno(), 1000)
            assert piece, self._said.decode()
            self._said += piece

    def ask(self, line: bytes) -> None:
        os.write(self.stdin.fileno(), line + b"\n")

    def wait(self) -> int:
        return self.process.wait(DEADLINE)

    def said(self) -> str:
        """Return everything that the process wrote to stderr before it ended."""
        return (self._said + self.stderr.read()).decode()


@contextmanager
def gateway(loop: str, mark: str, manners: str) -> Iterator[Gateway]:
    argv = [sys.executable, "-m", "tests.adapters.stdio.parent", loop, mark, manners]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0) as process:
        try:
            parent = Gateway(process)
            parent.begin()
            assert len(running(mark)) == FAMILY + 1
            yield parent
        finally:
            process.kill()


@pytest.fixture(params=sorted(LOOPS))
def loop(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_no_child_outlives_a_gateway_that_gets_sigterm(loop: str, mark: str, number: signal.Signals) -> None:
    with gateway(loop, mark, "deaf") as parent:
        parent.process.send_signal(number)
        assert parent.wait() == 0
        assert running(mark) == []
        assert f"ends: {number.name}" in parent.said()


@pytest.mark.parametrize("manners", ["orderly", "deaf"])
def test_no_child_outlives_a_gateway_that_is_killed(loop: str, mark: str, manners: str) -> None:
    with gateway(loop, mark, manners) as parent:
        parent.process.kill()
        assert parent.wait() == -signal.SIGKILL
        asyncio.run(until(lambda: running(mark) == []))


def test_no_child_outlives_the_end_of_our_stdin(loop: str, mark: str) -> None:
    with gateway(loop, mark, "deaf") as parent:
        parent.stdin.close()
        assert parent.wait() == 0
        assert running(mark) == []
        assert "ends: the client is gone" in parent.said()


def test_no_child_outlives_a_client_that_stops_reading_and_keeps_our_stdin_open(loop: str, mark: str) -> None:
    with gateway(loop, mark, "deaf") as parent:
        parent.stdout.close()
        parent.ask(b"anybody?")
        assert parent.wait() == 0
        assert running(mark) == []
        assert "ends: the reader has closed its end" in parent.said()


def test_no_grandchild_outlives_a_child_that_crashes(loop: str, mark: str) -> None:
    with gateway(loop, mark, "deaf") as parent:
        parent.ask(b"crash")
        assert parent.wait() == 0
        assert running(mark) == []
        assert "ends: the child is gone" in parent.said()


def test_only_protocol_frames_reach_stdout(loop: str, mark: str) -> None:
    with gateway(loop, mark, "orderly") as parent:
        parent.ask(b'{"id":1}')
        assert parent.stdout.read(1000) == b'{"id":1}\n'
        parent.stdin.close()
        assert parent.wait() == 0
        assert parent.stdout.read() == b""
        assert "this is not protocol" in parent.said()
