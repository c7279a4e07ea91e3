"""The watchdog: which processes it ends when the pipe closes, which it leaves alone, and which files it holds."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from dragoman.adapters.stdio.watchdog import Watchdog
from tests.adapters.stdio.programs import DEADLINE, family, open_files, python, reap, running, unreaped
from tests.awaited import until

pytestmark = pytest.mark.usefixtures("_adopts_processes")

MARK = f"gateway={os.getpid()}"
"""An argument of the watchdog of this process."""
WAITS = "import signal; print('up', flush=True); signal.pause()"


@pytest.fixture
def watchdog() -> Iterator[Watchdog]:
    made = Watchdog()
    made.start()
    yield made
    made.close()
    assert unreaped() == []


@contextmanager
def group(argv: list[str], lines: int = 1, env: dict[str, str] | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """Start a program in its own process group, and wait until it has written this many lines."""
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, env=env, start_new_session=True) as process:
        assert process.stdout is not None
        for _ in range(lines):
            process.stdout.readline()
        try:
            yield process
        finally:
            with_group(process.pid, signal.SIGKILL)


def with_group(number: int, sent: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(number, sent)


def watchdog_pid() -> int:
    """Return the process of the only watchdog, which shows its arguments once it runs its own program."""
    asyncio.run(until(lambda: bool(running(MARK))))
    (pid,) = running(MARK)
    return pid


def die(watchdog: Watchdog, *children: subprocess.Popen[bytes]) -> list[int]:
    """Close the pipe, as the kernel does when the gateway is killed; return how the watchdog has ended the children.

    They are reaped at once: the watchdog would wait for a child that has ended and that its parent does not reap.
    """
    pid = watchdog_pid()
    os.close(watchdog._pipe)
    watchdog._pipe = -1
    codes = [child.wait(DEADLINE) for child in children]
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    return codes


def test_watched_groups_end_when_the_pipe_closes(watchdog: Watchdog, mark: str) -> None:
    with group(python(WAITS, mark)) as process:
        watchdog.watch(process.pid)
        assert die(watchdog, process) == [-signal.SIGTERM]


def test_a_group_that_ignores_sigterm_is_killed_with_its_own_children(watchdog: Watchdog, mark: str) -> None:
    with group(family(mark, "deaf"), lines=2) as process:
        watchdog.watch(process.pid)
        assert die(watchdog, process) == [-signal.SIGKILL]
        reap()
        assert running(mark) == []


def test_processes_with_the_mark_of_a_watched_group_end_with_it(watchdog: Watchdog, mark: str) -> None:
    marked = {**os.environ, "DRAGOMAN_CHILD": mark}
    with group(python(WAITS, mark)) as process, group(python(WAITS, mark), env=marked) as daemon:
        watchdog.watch(process.pid, mark)
        assert die(watchdog, process, daemon) == [-signal.SIGTERM] * 2


def test_a_group_that_has_ended_is_left_alone(watchdog: Watchdog, mark: str) -> None:
    with group(python(WAITS, mark)) as process:
        watchdog.watch(process.pid)
        watchdog.forget(process.pid)
        die(watchdog)
        assert process.poll() is None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT])
def test_no_signal_ends_the_watchdog_before_the_gateway(watchdog: Watchdog, mark: str, number: signal.Signals) -> None:
    with group(python(WAITS, mark)) as process:
        watchdog.watch(process.pid)
        pid = watchdog_pid()
        asyncio.run(until(lambda: ignores(pid, number)))
        os.kill(pid, number)
        assert die(watchdog, process) == [-signal.SIGTERM]


def ignores(pid: int, number: signal.Signals) -> bool:
    """Return True if the process has begun to ignore this signal."""
    (line,) = [line for line in Path(f"/proc/{pid}/status").read_text("ascii").splitlines() if line[:7] == "SigIgn:"]
    return bool(int(line.split()[1], 16) & 1 << (number - 1))


def test_a_killed_watchdog_is_started_again_and_knows_all_groups(watchdog: Watchdog, mark: str) -> None:
    with group(python(WAITS, mark)) as first, group(python(WAITS, mark)) as second:
        watchdog.watch(first.pid)
        pid = watchdog_pid()
        os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        watchdog.watch(second.pid)
        assert die(watchdog, first, second) == [-signal.SIGTERM] * 2


def test_the_watchdog_holds_no_descriptor_but_its_end_of_the_pipe() -> None:
    with socket.create_server(("127.0.0.1", 0)):
        watchdog = Watchdog()
        watchdog.start()
        try:
            pid = watchdog_pid()
            asyncio.run(until(lambda: ignores(pid, signal.SIGTERM)))
            folder = f"/proc/{pid}/fd"
            held = {name: os.readlink(f"{folder}/{name}") for name in os.listdir(folder)}
            assert os.getsid(pid) == pid
        finally:
            watchdog.close()
    assert set(held) == {"0", "1", "2"}
    assert held["0"].startswith("pipe:")
    assert (held["1"], held["2"]) == ("/dev/null", "/dev/null")


def test_the_watchdog_leaves_no_process_and_no_descriptor() -> None:
    before = open_files()
    watchdog = Watchdog()
    watchdog.start()
    watchdog.close()
    watchdog.close()
    assert open_files() == before
    assert running(MARK) == []
    assert unreaped() == []


def test_a_group_that_ends_after_the_close_starts_no_other_watchdog(watchdog: Watchdog) -> None:
    watchdog.close()
    watchdog.forget(1)
    assert running(MARK) == []
