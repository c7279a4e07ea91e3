"""The gateway bounds the number of its children, and ends all of them and the processes that they left behind."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import sys

import pytest
from structlog.testing import capture_logs

from dragoman.adapters.base import TransportLimits
from dragoman.adapters.stdio import ChildLimits, Children, ChildSettings, ChildTransport
from tests.adapters.stdio.programs import DEADLINE, ENV, family, open_files, python, reap, running
from tests.awaited import until
from tests.transport_reader import receive

pytestmark = pytest.mark.usefixtures("_adopts_processes")

LIMITS = TransportLimits(close_deadline=0.2)
SHORT = ChildLimits(eof_wait=0.2, term_wait=0.1, kill_wait=5.0)
SLOW_START = ChildLimits(start_watch=DEADLINE)
READS = "import sys; sys.stdin.read()"


# -- a child that dies at its start --------------------------------------------------------------------


async def test_a_child_that_dies_at_its_start_is_an_os_error_with_its_last_stderr_lines(mark: str) -> None:
    async with Children(1, SLOW_START) as children:
        with pytest.raises(OSError, match=r"exited with status 1: reading config / error: no provider"):
            await children.spawn(
                python("import sys; print('reading config', file=sys.stderr); sys.exit('error: no provider')", mark),
                LIMITS,
                ChildSettings(env=ENV),
            )
        assert len(children) == 0


async def test_a_child_that_exits_with_0_at_its_start_without_output_has_failed_to_start(mark: str) -> None:
    async with Children(1, SLOW_START) as children:
        with pytest.raises(OSError, match="exited with status 0"):
            await children.spawn(python("pass", mark), LIMITS, ChildSettings(env=ENV))


async def test_output_of_a_child_that_ended_at_its_start_is_received(mark: str) -> None:
    async with Children(1, SLOW_START) as children:
        transport = await children.spawn(python("print('hello')", mark), LIMITS, ChildSettings(env=ENV))
        assert await receive(transport) == [b"hello"]
        assert await receive(transport) == []


async def test_a_silent_child_counts_as_started_after_the_start_watch(mark: str) -> None:
    async with Children(1, ChildLimits(start_watch=0.01)) as children:
        transport = await children.spawn(python(READS, mark), LIMITS, ChildSettings(env=ENV))
        await until(lambda: len(running(mark)) == 1)
        await transport.close()


async def test_a_cancelled_spawn_leaves_no_process(mark: str) -> None:
    async with Children(1, SLOW_START) as children:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await children.spawn(python(READS, mark), LIMITS, ChildSettings(env=ENV))
        assert running(mark) == []
        assert len(children) == 0


async def test_a_failed_spawn_takes_no_place() -> None:
    async with Children(1) as children:
        with pytest.raises(FileNotFoundError):
            await children.spawn(["dragoman-has-no-such-program"], LIMITS, ChildSettings(env=ENV))
        assert len(children) == 0


# -- the bound -----------------------------------------------------------------------------------------


async def test_fifty_spawns_at_once_at_a_limit_of_ten_are_ten_children_and_forty_refusals(mark: str) -> None:
    async with asyncio.timeout(DEADLINE), Children(10) as children:
        async with asyncio.TaskGroup() as group:
            tries = [group.create_task(attempt(children, mark)) for _ in range(50)]
        got = [each.result() for each in tries]
        assert sum(isinstance(each, ChildTransport) for each in got) == len(children) == 10
        await until(lambda: len(running(mark)) == 10)
        refusals = [each for each in got if isinstance(each, OSError)]
        assert {(each.errno, each.strerror) for each in refusals} == {
            (errno.EBUSY, "busy: all 10 child processes are in use (`children` in `[limits]`); try again later")
        }
        assert len(refusals) == 40


async def attempt(children: Children, mark: str) -> ChildTransport | OSError:
    try:
        return await children.spawn(python(READS, mark), LIMITS, ChildSettings(env=ENV))
    except OSError as error:
        return error


async def test_a_child_counts_against_the_limit_until_its_group_has_ended(mark: str) -> None:
    async with asyncio.timeout(DEADLINE), Children(1, SHORT) as children:
        transport = await children.spawn(family(mark, "deaf"), LIMITS, ChildSettings(env=ENV))
        async with asyncio.TaskGroup() as group:
            closing = group.create_task(transport.close())
            await asyncio.sleep(0)
            assert len(children) == 1
            await closing
        assert len(children) == 0
        again = await children.spawn(python(READS, mark), LIMITS, ChildSettings(env=ENV))
        assert running(mark) == [again.pid]


# -- the end of all ------------------------------------------------------------------------------------


async def test_leaving_the_block_ends_all_children_at_once(mark: str, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    close = ChildTransport.close

    async def noted(self: ChildTransport) -> None:
        order.append("begins")
        await close(self)
        order.append("is over")

    monkeypatch.setattr(ChildTransport, "close", noted)
    async with asyncio.timeout(DEADLINE):
        async with Children(5, SHORT) as children:
            for _ in range(5):
                await children.spawn(family(mark, "deaf"), LIMITS, ChildSettings(env=ENV))
        assert order == ["begins"] * 5 + ["is over"] * 5, "not one after the other"
        assert running(mark) == []


async def test_a_cancelled_end_leaves_no_process(mark: str) -> None:
    async with Children(3, ChildLimits(eof_wait=DEADLINE)) as children:
        for _ in range(3):
            await children.spawn(family(mark, "deaf"), LIMITS, ChildSettings(env=ENV))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await children.close()
        assert running(mark) == []


async def test_an_error_in_the_block_ends_the_children_too(mark: str) -> None:
    async def fails() -> None:
        async with Children(1, SHORT) as children:
            await children.spawn(family(mark, "deaf"), LIMITS, ChildSettings(env=ENV))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fails()
    assert running(mark) == []


async def test_after_the_end_no_child_is_spawned(mark: str) -> None:
    async with Children(1) as children:
        await children.close()
        with pytest.raises(OSError, match="the gateway is stopping"):
            await children.spawn(python(READS, mark), LIMITS, ChildSettings(env=ENV))


async def test_a_child_that_is_being_spawned_at_the_shutdown_is_ended(mark: str) -> None:
    async with asyncio.timeout(DEADLINE), Children(1, SLOW_START) as children, asyncio.TaskGroup() as group:
        spawning = group.create_task(attempt(children, mark))
        await until(lambda: len(children) == 1)
        await children.close()
        assert isinstance(await spawning, OSError)
        assert running(mark) == []


async def test_children_of_a_process_that_ends_without_leaving_the_block_are_killed(mark: str) -> None:
    """The process calls `sys.exit` and abandons its loop, so no `finally` of ours runs."""
    code = f"""
        import asyncio, sys
        sys.path.insert(0, {sys.path[0]!r})
        from dragoman.adapters.base import TransportLimits
        from dragoman.adapters.stdio import Children, ChildSettings
        from tests.adapters.stdio.programs import ENV, family
        from tests.transport_reader import receive
        loop = asyncio.new_event_loop()
        async def begin():
            children = await Children(1).__aenter__()
            child = await children.spawn(family(sys.argv[1], "deaf"), TransportLimits(), ChildSettings(env=ENV))
            told = []
            while len(told) < 2:
                told += await receive(child)
        loop.run_until_complete(begin())
        sys.exit(3)
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-W",
        "ignore",
        "-c",
        "\n".join(line[8:] for line in code.splitlines()),
        mark,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(DEADLINE):
        _, said = await process.communicate()
    assert process.returncode == 3, said.decode()
    reap()  # would wait for ever for one that lives


async def test_no_file_descriptor_stays_open(mark: str) -> None:
    async def once() -> None:
        async with Children(1, SLOW_START) as children:
            with pytest.raises(OSError, match="status 0"):
                await children.spawn(python("pass", mark), LIMITS, ChildSettings(env=ENV))
            with pytest.raises(FileNotFoundError):
                await children.spawn(["dragoman-has-no-such-program"], LIMITS, ChildSettings(env=ENV))

    await once()
    before = open_files()
    await once()
    assert open_files() == before


# -- processes that a child starts in other process sessions ---------------------------------------


STRAY_LIMITS = ChildLimits(eof_wait=1.0, term_wait=0.2, kill_wait=1.0)
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
        async with asyncio.timeout(DEADLINE), Children(1, STRAY_LIMITS) as children:
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
        async with asyncio.timeout(DEADLINE), Children(1, STRAY_LIMITS) as children:
            code = "import sys; sys.stdin.read()"
            await children.spawn(python(code, mark), TransportLimits(), ChildSettings(env=ENV))
    assert [entry for entry in logs if entry["log_level"] == "warning"] == []
