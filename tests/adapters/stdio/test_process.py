"""A child from its start until no process of its group is left."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from dragoman.adapters.stdio.process import ChildLimits, Process
from dragoman.mappings.errors import ConfigError
from tests.adapters.stdio.programs import DEADLINE, ENV, family, open_files, python, running, unreaped
from tests.awaited import until

pytestmark = pytest.mark.usefixtures("_adopts_processes")

SHORT = ChildLimits(eof_wait=0.1, term_wait=0.1, kill_wait=5.0)
LONG = ChildLimits(eof_wait=DEADLINE, term_wait=DEADLINE, kill_wait=DEADLINE)  # what has to end by itself

STUBBORN = """
    import signal, sys
    for name in ("SIGTERM", "SIGINT", "SIGHUP"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    print("up", flush=True)
    while True:
        signal.pause()
"""


class Ended:
    """Counts the calls of `ended`."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1


@asynccontextmanager
async def spawned(argv: list[str], bounds: ChildLimits, ended: Ended | None = None) -> AsyncIterator[Process]:
    """Start a process; end it and close its pipes at the end of the block."""
    async with asyncio.timeout(DEADLINE):
        process = Process(argv, ENV, None, bounds, ended or Ended())
        try:
            yield process
        finally:
            process.kill()
            await process.end()
            for file in (process.streams.stdin, process.streams.stdout, process.streams.stderr):
                file.close()


async def end_input(process: Process) -> None:
    """Close the input of a child, and end it."""
    process.streams.stdin.close()
    await process.end()


async def said(process: Process, words: bytes) -> None:
    """Wait until the process has written all of this to its stdout."""
    heard = b""

    def all_there() -> bool:
        nonlocal heard
        try:
            heard += os.read(process.streams.stdout.fileno(), 1000)
        except BlockingIOError:
            return False
        return all(word in heard.split() for word in words.split())

    await until(all_there)


# -- the way to the end --------------------------------------------------------------------------------


async def test_a_child_that_exits_at_eof_gets_no_signal(mark: str) -> None:
    async with spawned(python("import sys; sys.stdin.read(); sys.exit(7)", mark), LONG) as process:
        await end_input(process)
        assert process.status() == "exited with status 7"


async def test_a_child_that_ignores_eof_gets_sigterm(mark: str) -> None:
    code = "import signal; print('up', flush=True); signal.pause()"
    async with spawned(python(code, mark), ChildLimits(eof_wait=0.1, term_wait=DEADLINE)) as process:
        await said(process, b"up")
        await end_input(process)
        assert process.status() == "was ended by SIGTERM"


async def test_a_child_that_ignores_eof_and_sigterm_is_killed(mark: str) -> None:
    async with spawned(python(STUBBORN, mark), SHORT) as process:
        await said(process, b"up")
        await end_input(process)
        assert process.status() == "was ended by SIGKILL"


async def test_a_stopped_child_is_killed(mark: str) -> None:
    async with spawned(python("import sys; sys.stdin.read()", mark), SHORT) as process:
        os.kill(process.pid, signal.SIGSTOP)
        # A signal is taken when the child runs next, and SIGTERM before SIGSTOP if both wait.
        await asyncio.to_thread(os.waitid, os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        await end_input(process)
        assert process.status() == "was ended by SIGKILL"


async def test_ending_a_child_takes_no_longer_than_the_sum_of_its_waits(mark: str) -> None:
    async with spawned(python(STUBBORN, mark), SHORT) as process:
        await said(process, b"up")
        before = asyncio.get_running_loop().time()
        await process.end()
        took = asyncio.get_running_loop().time() - before
        assert 0.2 <= took < 5.0, "EOF and TERM had their time, KILL needed none"


async def test_ending_twice_at_once_ends_once(mark: str) -> None:
    ended = Ended()
    async with spawned(python(STUBBORN, mark), SHORT, ended) as process:
        await said(process, b"up")
        async with asyncio.TaskGroup() as group:
            group.create_task(process.end())
            group.create_task(process.end())
        await process.end()
    assert ended.count == 1


async def test_an_end_that_is_cancelled_kills_and_reaps(mark: str) -> None:
    async with spawned(python(STUBBORN, mark), LONG) as process:
        await said(process, b"up")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await process.end()
        assert process.status() == "was ended by SIGKILL"
        assert running(mark) == []


async def test_an_end_that_is_cancelled_twice_kills_and_the_loop_reaps(mark: str) -> None:
    async with spawned(python(STUBBORN, mark), LONG) as process:
        await said(process, b"up")
        async with asyncio.TaskGroup() as group:
            ending = group.create_task(process.end())
            await asyncio.sleep(0)
            ending.cancel()
            await asyncio.sleep(0)
            ending.cancel()
        await process.exited.wait()
        assert process.status() == "was ended by SIGKILL"


# -- its group -----------------------------------------------------------------------------------------


async def test_a_child_leads_a_group_and_a_session_of_its_own(mark: str) -> None:
    async with spawned(python("import sys; sys.stdin.read()", mark), LONG) as process:
        assert os.getpgid(process.pid) == os.getsid(process.pid) == process.pid
        await end_input(process)


@pytest.mark.parametrize("manners", ["orderly", "deaf"])
async def test_a_grandchild_ends_with_its_child(mark: str, manners: str) -> None:
    async with spawned(family(mark, manners), SHORT) as process:
        await said(process, b"child grandchild")
        assert len(running(mark)) == 2
        await end_input(process)
        assert running(mark) == []


@pytest.mark.parametrize("manners", ["orderly", "deaf"])
async def test_a_grandchild_does_not_outlive_a_child_that_crashed(mark: str, manners: str) -> None:
    async with spawned(family(mark, manners), SHORT) as process:
        await said(process, b"child grandchild")
        os.kill(process.pid, signal.SIGKILL)
        await process.exited.wait()
        await process.end()
        assert running(mark) == []


async def test_a_grandchild_that_obeys_sigterm_ends_as_soon_as_its_child_has_ended(mark: str) -> None:
    async with spawned(family(mark, "orderly"), SHORT) as process:
        await said(process, b"child grandchild")
        os.kill(process.pid, signal.SIGKILL)
        await until(lambda: running(mark) == [])  # nobody called `end`


async def test_no_signal_is_sent_once_the_group_is_gone(mark: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with spawned(python("pass", mark), LONG) as process:
        await process.exited.wait()
        await process.end()
        monkeypatch.setattr(os, "killpg", lambda *_: pytest.fail("the number may be somebody else's by now"))
        process.kill()
        await process.end()


# -- how it ended --------------------------------------------------------------------------------------


async def test_the_end_is_reported_once_and_after_the_child_was_reaped(mark: str) -> None:
    ended = Ended()
    async with spawned(python("import sys; sys.exit(3)", mark), LONG, ended) as process:
        await process.exited.wait()
        assert process.status() == "exited with status 3"
        assert unreaped() == []
    assert ended.count == 1


async def test_a_child_that_has_not_exited_counts_as_running(mark: str) -> None:
    async with spawned(python("import sys; sys.stdin.read()", mark), LONG) as process:
        assert process.status() == "runs"
        await end_input(process)


async def test_a_signal_without_a_name_is_reported_by_its_number(mark: str) -> None:
    code = "import os, signal; os.kill(os.getpid(), signal.SIGRTMIN + 3)"
    async with spawned(python(code, mark), LONG) as process:
        await process.exited.wait()
        assert process.status() == f"was ended by signal {signal.SIGRTMIN + 3}"


async def test_a_child_is_watched_also_without_pidfd(mark: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    async with spawned(family(mark, "deaf"), SHORT) as process:
        await said(process, b"child grandchild")
        await end_input(process)
        assert process.status() == "was ended by SIGKILL"
        assert running(mark) == []


# -- spawning ------------------------------------------------------------------------------------------


async def test_arguments_are_not_interpreted_by_a_shell(mark: str) -> None:
    code = "import sys; print(sys.argv[1:], flush=True)"
    async with spawned(python(code, mark, "a b", "$HOME", "*", ";ls"), LONG) as process:
        await process.exited.wait()
        told = os.read(process.streams.stdout.fileno(), 1000)
        assert told == repr([mark, "a b", "$HOME", "*", ";ls"]).encode() + b"\n"


async def test_a_child_has_exactly_the_given_environment(mark: str) -> None:
    code = "import os; print(sorted(n for n in os.environ if n != 'LC_CTYPE'), flush=True)"  # Python sets that itself
    async with asyncio.timeout(DEADLINE):
        process = Process(python(code, mark), {"ONLY": "this"}, None, LONG, Ended())
        await process.exited.wait()
        assert os.read(process.streams.stdout.fileno(), 1000) == b"['ONLY']\n"
        for file in (process.streams.stdin, process.streams.stdout, process.streams.stderr):
            file.close()


async def test_no_other_descriptor_is_inherited(mark: str) -> None:
    code = "import os; print([n for n in sorted(map(int, os.listdir('/proc/self/fd')))[:-1]], flush=True)"
    async with spawned(python("import sys; sys.stdin.read()", mark), LONG) as other:
        async with spawned(python(code, mark), LONG) as process:
            await process.exited.wait()
            assert os.read(process.streams.stdout.fileno(), 1000) == b"[0, 1, 2]\n"
        other.streams.stdin.close()
        await other.end()


@pytest.mark.parametrize(
    ("program", "content", "mode", "advice"),
    [
        ("dragoman-has-no-such-program", None, 0, "no such program in PATH; install it"),
        ("{folder}/nothing", None, 0, "no such program; check its path"),
        ("{folder}/file", "x", 0o644, "not executable; use chmod"),
        ("{folder}/file", "#!/no/interpreter\n", 0o755, "interpreter named in its first line does not exist"),
        ("{folder}/file", "no program", 0o755, "name its interpreter in its first line"),
    ],
)
async def test_the_error_of_a_program_that_cannot_be_spawned_says_what_to_do(
    tmp_path: Path, program: str, content: str | None, mode: int, advice: str
) -> None:
    if content is not None:
        (tmp_path / "file").write_text(content)
        (tmp_path / "file").chmod(mode)
    before = open_files()
    argv = [program.format(folder=tmp_path)]
    with pytest.raises(OSError, match=advice) as refused:
        Process(argv, ENV, None, LONG, Ended())
    assert refused.value.filename == argv[0]
    assert open_files() == before


async def test_the_error_of_a_missing_working_directory_names_it() -> None:
    with pytest.raises(FileNotFoundError, match="/no/where does not exist"):
        Process(["cat"], ENV, "/no/where", LONG, Ended())


async def test_a_child_runs_in_the_given_directory(mark: str, tmp_path: Path) -> None:
    async with asyncio.timeout(DEADLINE):
        process = Process(python("import os; print(os.getcwd(), flush=True)", mark), ENV, str(tmp_path), LONG, Ended())
        await process.exited.wait()
        assert os.read(process.streams.stdout.fileno(), 1000).decode() == f"{tmp_path}\n"
        for file in (process.streams.stdin, process.streams.stdout, process.streams.stderr):
            file.close()


async def test_a_child_has_the_given_resource_limits(mark: str) -> None:
    code = "import resource, sys; sys.stdin.readline(); print(resource.getrlimit(resource.RLIMIT_NOFILE), flush=True)"
    async with asyncio.timeout(DEADLINE):
        rlimits = {resource.RLIMIT_NOFILE: (64, 128), resource.RLIMIT_CORE: (0, resource.RLIM_INFINITY)}
        process = Process(python(code, mark), ENV, None, LONG, Ended(), rlimits=rlimits)
        os.write(process.streams.stdin.fileno(), b"\n")
        await process.exited.wait()
        assert os.read(process.streams.stdout.fileno(), 1000) == b"(64, 128)\n"
        for file in (process.streams.stdin, process.streams.stdout, process.streams.stderr):
            file.close()


async def test_a_resource_limit_above_our_own_becomes_ours(mark: str) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    async with spawned(python("import sys; sys.stdin.read()", mark), LONG) as process:
        process._set_rlimits({resource.RLIMIT_NOFILE: (soft, hard + 1 if hard > 0 else hard)})
        assert resource.prlimit(process.pid, resource.RLIMIT_NOFILE) == (soft, hard)
        await end_input(process)


@pytest.mark.parametrize("may_signal", [True, False])
async def test_a_child_whose_resources_we_may_not_limit_is_refused_and_ended(
    may_signal: bool, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*_call: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(resource, "prlimit", forbidden)
    if not may_signal:
        monkeypatch.setattr(os, "killpg", forbidden)
    before = open_files()
    with pytest.raises(PermissionError, match="it runs as another user"):
        Process(python("import sys; sys.stdin.read()", mark), ENV, None, LONG, Ended(), rlimits={7: (64, 128)})
    await until(lambda: (running(mark), unreaped(), open_files()) == ([], [], before))


async def test_too_many_open_files_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def full() -> tuple[int, int]:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "pipe", full)
    with pytest.raises(OSError, match="raise the limit"):
        Process(["cat"], ENV, None, LONG, Ended())


async def test_an_empty_argv_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match="no program to start"):
        Process([], ENV, None, LONG, Ended())


async def test_an_argument_with_a_nul_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match="NUL"):
        Process(["cat", "a\0b"], ENV, None, LONG, Ended())


async def test_no_file_descriptor_stays_open(mark: str) -> None:
    async def once() -> None:
        async with spawned(python("import sys; sys.stdin.read()", mark), LONG) as process:
            await end_input(process)

    await once()  # a loop opens what it needs for the first one
    before = open_files()
    await once()
    assert open_files() == before
