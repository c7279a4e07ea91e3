"""Processes that a child starts in other process sessions, and what happens to them when the child ends."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest
from structlog.testing import capture_logs

from dragoman.adapters.base import TransportLimits
from dragoman.adapters.stdio import ChildLimits, Children, ChildSettings
from tests.adapters.stdio.programs import DEADLINE, ENV, python, reap, running, until
from tests.transport_reader import receive

pytestmark = pytest.mark.usefixtures("_orphans_are_ours")

SHORT = ChildLimits(eof_wait=1.0, term_wait=0.2, kill_wait=1.0)
DAEMON = """
    import subprocess, sys
    waits = "import signal; " + sys.argv[2] + "; print('up', flush=True); signal.pause()"
    argv = [sys.executable, "-I", "-S", "-c", waits, sys.argv[1]]
    daemon = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True)
    daemon.stdout.readline()
    print("started", flush=True)
    sys.stdin.read()
"""
DEAF = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"


async def leave_daemon(mark: str, manners: str, *, reap_all: bool) -> list[str]:
    """Start a child that starts a daemon, end the child, and return the log lines that name a remaining process."""
    with capture_logs() as logs:
        async with asyncio.timeout(DEADLINE), Children(1, SHORT) as children:
            settings = ChildSettings(env=ENV, reap_all=reap_all)
            transport = await children.spawn(python(DAEMON, mark, manners), TransportLimits(), settings)
            assert await receive(transport) == [b"started"]
            await transport.close()
    return [entry["event"] for entry in logs if "left" in entry]


async def test_a_daemon_of_a_child_is_logged_and_runs_on(mark: str) -> None:
    (line,) = await leave_daemon(mark, "pass", reap_all=False)
    assert "run in sessions of their own" in line
    (daemon,) = running(mark)
    os.kill(daemon, signal.SIGKILL)
    await until(lambda: not running(mark))
    reap()


@pytest.mark.parametrize("manners", ["pass", DEAF])
async def test_reap_all_ends_the_daemons_of_a_child(mark: str, manners: str) -> None:
    (line,) = await leave_daemon(mark, manners, reap_all=True)
    assert line.startswith("end the processes")
    assert running(mark) == []
    reap()


async def test_a_child_without_daemons_logs_nothing(mark: str) -> None:
    with capture_logs() as logs:
        async with asyncio.timeout(DEADLINE), Children(1, SHORT) as children:
            code = "import sys; sys.stdin.read()"
            await children.spawn(python(code, mark), TransportLimits(), ChildSettings(env=ENV))
    assert [entry for entry in logs if entry["log_level"] == "warning"] == []
