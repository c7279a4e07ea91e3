"""A child as a peer: real processes that behave and that do not."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from msgspec import structs
from structlog.testing import capture_logs

from dragoman.adapters.base import TransportLimits
from dragoman.adapters.stdio import ChildLimits, Children, ChildSettings, ChildTransport
from dragoman.mappings.dialect import Frame
from tests.adapters.stdio.programs import DEADLINE, ENV, family, open_files, python, running
from tests.awaited import until
from tests.transport_reader import receive, receive_all

pytestmark = pytest.mark.usefixtures("_adopts_processes")

LIMITS = TransportLimits(close_deadline=0.2)
SHORT = ChildLimits(eof_wait=0.2, term_wait=0.1, kill_wait=5.0)

ECHO = """
    import sys
    for line in sys.stdin.buffer:
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
"""


@asynccontextmanager
async def child(
    argv: list[str], limits: TransportLimits = LIMITS, bounds: ChildLimits = SHORT
) -> AsyncIterator[ChildTransport]:
    """Start a child; close it at the end of the block and check that no task is left."""
    before = asyncio.all_tasks()
    async with asyncio.timeout(DEADLINE):
        async with Children(1, bounds) as children:
            yield await children.spawn(argv, limits, ChildSettings(env=ENV))
        assert len(children) == 0
    assert asyncio.all_tasks() == before


async def exactly(transport: ChildTransport, count: int) -> list[Frame]:
    frames: list[Frame] = []
    while len(frames) < count:
        received = await receive(transport)
        assert received, f"ended after {len(frames)}: {transport.reason}"
        frames += received
    return frames


async def said(transport: ChildTransport, *words: bytes) -> None:
    """Wait for these lines, in any order, and for nothing else."""
    assert sorted(str(frame) for frame in await exactly(transport, len(words))) == sorted(str(word) for word in words)


# -- what is said --------------------------------------------------------------------------------------


async def test_frames_go_both_ways(mark: str) -> None:
    async with child(python(ECHO, mark)) as transport:
        await transport.send([b'{"id":1}', b'{"id":2}'])
        assert await exactly(transport, 2) == [b'{"id":1}', b'{"id":2}']


async def test_a_megabyte_in_one_line_goes_both_ways(mark: str) -> None:
    frame = b"x" * 1_000_000
    async with child(python(ECHO, mark)) as transport:
        _, received = await asyncio.gather(transport.send([frame]), receive(transport))
        assert received == [frame]


async def test_ten_thousand_frames_come_back_in_order(mark: str) -> None:
    frames = [b'{"n":%d}' % n for n in range(10_000)]
    async with child(python(ECHO, mark)) as transport, asyncio.TaskGroup() as group:
        reading = group.create_task(exactly(transport, len(frames)))
        for start in range(0, len(frames), 100):
            await transport.send(frames[start : start + 100])
        assert await reading == frames


async def test_the_peer_is_named_by_its_program_and_number(mark: str) -> None:
    async with child(python(ECHO, mark)) as transport:
        assert transport.peer.startswith("python")
        assert transport.peer.endswith(f" pid={running(mark)[0]}")


async def test_the_pipes_of_a_child_can_be_opened_by_their_names(mark: str) -> None:
    code = "print(open('/dev/stdin').readline(), end='', file=open('/dev/stdout', 'w'), flush=True)"
    async with child(python(code, mark)) as transport:
        await transport.send([b"sockets could not be"])
        assert await receive_all(transport) == [b"sockets could not be"]


# -- its end -------------------------------------------------------------------------------------------


async def test_output_before_the_exit_is_received_first(mark: str) -> None:
    code = "import sys; sys.stdin.readline(); print('one'); print('two', end='')"
    async with child(python(code, mark)) as transport:
        await transport.send([b"go"])
        assert await receive_all(transport) == [b"one", b"two"]
        assert await receive(transport) == []


async def test_output_before_the_exit_is_received_although_reading_was_paused(mark: str) -> None:
    code = "import sys; sys.stdin.readline(); [print(n) for n in range(5000)]"
    async with child(python(code, mark), TransportLimits(receive_high=1)) as transport:
        await transport.send([b"go"])
        await transport._process.exited.wait()
        assert await receive_all(transport) == [b"%d" % n for n in range(5000)]


async def test_a_child_that_exited_is_gone_although_a_grandchild_holds_its_stdout(mark: str) -> None:
    async with child(family(mark, "deaf")) as transport:
        await said(transport, b"child", b"grandchild")
        await transport.send([b"last", b"crash"])
        assert await receive_all(transport) == [b"last"]
        assert transport.reason.endswith("was ended by SIGKILL")
        assert len(running(mark)) == 1, "the grandchild, until we close"
        await transport.close()
        assert running(mark) == []


async def test_a_grandchild_that_writes_for_ever_does_not_keep_an_exited_child(mark: str) -> None:
    code = """
        import os, signal, subprocess, sys
        flood = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\\nwhile True: print('x' * 50, flush=True)"
        subprocess.Popen([sys.executable, "-I", "-S", "-c", flood, sys.argv[1]])
        sys.stdin.readline()
    """
    async with child(python(code, mark)) as transport:
        await receive(transport)
        await transport.send([b"go"])
        assert set(await receive_all(transport)) - {b"x" * 50} <= {b"x" * n for n in range(50)}
        await transport.close()
        assert running(mark) == []


async def test_the_reason_of_an_end_is_the_exit_status_and_the_last_stderr_lines(mark: str) -> None:
    code = "import sys; sys.stdin.readline(); sys.exit('error: the store is locked')"
    async with child(python(code, mark)) as transport:
        await transport.send([b"go"])
        assert await receive_all(transport) == []
        assert transport.reason.endswith("exited with status 1: error: the store is locked")


async def test_the_error_of_sending_to_an_exited_child_says_why_it_ended(mark: str) -> None:
    code = "import sys; sys.stdin.readline(); sys.exit('error: the store is locked')"
    async with child(python(code, mark)) as transport:
        await transport.send([b"go"])
        await receive_all(transport)
        with pytest.raises(ConnectionError, match="exited with status 1: error: the store is locked"):
            await transport.send([b"more"])


async def test_a_child_that_closes_its_stdout_is_gone_and_ended(mark: str) -> None:
    code = "import os, signal; os.write(1, b'bye\\n'); os.close(1); signal.pause()"
    async with child(python(code, mark)) as transport:
        assert await receive_all(transport) == [b"bye"]
        assert transport.reason.endswith("closed its stdout")
        assert len(running(mark)) == 1
        await transport.close()
        assert running(mark) == []


async def test_the_output_of_a_child_that_closed_its_stdin_is_received_until_a_command_finds_it_gone(mark: str) -> None:
    code = "import os, signal; os.read(0, 99); os.close(0); os.write(1, b'closed\\n'); signal.pause()"
    async with child(python(code, mark)) as transport:
        await transport.send([b"go"])
        assert await receive(transport) == [b"closed"]
        with pytest.raises(ConnectionError, match="runs"):
            await transport.send([b"more"])
        assert await receive_all(transport) == []
        assert transport.reason.endswith("closed its stdin")


# -- back-pressure -------------------------------------------------------------------------------------


async def test_send_waits_for_a_child_that_never_reads(mark: str) -> None:
    code = "import signal; print('up', flush=True); signal.pause()"
    async with child(python(code, mark), TransportLimits(send_high=1024, close_deadline=0.1)) as transport:
        await said(transport, b"up")
        async with asyncio.TaskGroup() as group:
            sending = group.create_task(transport.send([b"x" * 200_000]))
            done, _ = await asyncio.wait((sending,), timeout=0.1)
            assert not done
            assert transport._out._waiting < 200_000
            sending.cancel()
        await transport.close()
        assert running(mark) == []


async def test_a_send_that_waits_ends_when_the_child_does(mark: str) -> None:
    code = "import signal; print('up', flush=True); signal.pause()"
    async with child(python(code, mark), TransportLimits(send_high=1024)) as transport:
        await said(transport, b"up")
        async with asyncio.TaskGroup() as group:
            sending = group.create_task(refused(transport))
            await asyncio.sleep(0)
            os.kill(transport.pid, signal.SIGKILL)
            await sending


async def refused(transport: ChildTransport) -> None:
    with pytest.raises(ConnectionError, match="SIGKILL"):
        await transport.send([b"x" * 200_000])


async def test_a_childs_output_is_not_read_while_no_task_receives_it(mark: str) -> None:
    code = "import sys\nfor n in range(100_000): print('x' * 99)\nprint('all', file=sys.stderr)"
    async with child(python(code, mark), TransportLimits(receive_high=64 * 1024)) as transport:
        await until(lambda: not transport._in._reading)
        held = len(transport._frames)
        assert held * 99 < 192 * 1024, "the mark and a read or two"
        assert not transport._process.exited.is_set()
        assert len(await receive_all(transport)) == 100_000


async def test_a_flood_on_stderr_does_not_stop_a_child(mark: str) -> None:
    code = """
        import sys
        for line in sys.stdin:
            for _ in range(20_000):
                print("x" * 99, file=sys.stderr)
            print("done", flush=True)
    """
    async with child(python(code, mark), bounds=ChildLimits(stderr=10_000)) as transport:
        await transport.send([b"go"])
        assert await receive(transport) == [b"done"]
        assert transport._stderr._size <= 10_000


# -- close ---------------------------------------------------------------------------------------------


async def test_close_sends_eof_and_lets_the_child_finish(mark: str) -> None:
    code = "import sys; n = len(sys.stdin.read()); print('x' * 500_000); sys.exit(n)"
    async with child(python(code, mark), bounds=ChildLimits(eof_wait=DEADLINE)) as transport:
        await transport.send([b"12345"])
        await transport.close()
        assert transport.reason.endswith("exited with status 6"), "it could write although nobody wanted it"


async def test_close_writes_the_pending_frames(mark: str) -> None:
    code = "import sys; sys.exit(len(sys.stdin.read()) == 500_001)"
    limits = TransportLimits(send_high=1 << 20, close_deadline=DEADLINE)
    async with child(python(code, mark), limits, ChildLimits(eof_wait=DEADLINE)) as transport:
        await transport.send([b"x" * 500_000])
        await transport.close()
        assert transport.reason.endswith("exited with status 1")


async def test_close_is_idempotent_and_can_be_called_twice_at_once(mark: str) -> None:
    async with child(family(mark, "deaf")) as transport:
        await said(transport, b"child", b"grandchild")
        async with asyncio.TaskGroup() as group:
            group.create_task(transport.close())
            group.create_task(transport.close())
        await transport.close()
        assert running(mark) == []


async def test_a_cancelled_close_leaves_no_process(mark: str) -> None:
    async with child(family(mark, "deaf"), bounds=ChildLimits(eof_wait=DEADLINE)) as transport:
        await said(transport, b"child", b"grandchild")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await transport.close()
        assert running(mark) == []


async def test_a_close_cancelled_while_it_writes_leaves_no_process(mark: str) -> None:
    limits = TransportLimits(send_high=1 << 20, close_deadline=DEADLINE)
    async with child(family(mark, "deaf"), limits, ChildLimits(eof_wait=DEADLINE)) as transport:
        await said(transport, b"child", b"grandchild")
        os.kill(transport.pid, signal.SIGSTOP)
        await transport.send([b"x" * 500_000])
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await transport.close()
        assert running(mark) == []


async def test_receive_ends_after_close(mark: str) -> None:
    async with child(python(ECHO, mark)) as transport:
        async with asyncio.TaskGroup() as group:
            receiving = group.create_task(receive(transport))
            await asyncio.sleep(0)
            await transport.close()
        assert receiving.result() == []


async def test_sending_after_close_raises_connection_error(mark: str) -> None:
    async with child(python(ECHO, mark)) as transport:
        await transport.close()
        with pytest.raises(ConnectionError):
            await transport.send([b"late"])


async def test_no_file_descriptor_stays_open(mark: str) -> None:
    async def once() -> None:
        async with child(python(ECHO, mark)) as transport:
            await transport.send([b"hello"])
            await receive(transport)

    await once()  # a loop opens what it needs for the first one
    before = open_files()
    await once()
    assert open_files() == before


async def test_a_child_that_ends_silently_is_logged_with_the_variables_it_did_not_get(mark: str) -> None:
    patient = structs.replace(SHORT, start_watch=DEADLINE)  # a busy machine may take a while to start a program
    with capture_logs() as logs:
        async with asyncio.timeout(DEADLINE), Children(1, patient) as children:
            settings = ChildSettings(env=ENV, withheld=("API_KEY", "MODEL"))
            with pytest.raises(OSError, match="exited at once"):
                await children.spawn(python("raise SystemExit(3)", mark), LIMITS, settings)
    assert [entry["variables"] for entry in logs if "variables" in entry] == ["API_KEY, MODEL"]


@pytest.mark.parametrize(
    ("code", "output"),
    [("import sys; sys.stdin.read()", []), ("print('hello')", [b"hello"])],
    ids=["ended by the gateway", "wrote output"],
)
async def test_the_log_names_missing_variables_only_for_a_child_that_failed(
    code: str, output: list[bytes], mark: str
) -> None:
    with capture_logs() as logs:
        async with asyncio.timeout(DEADLINE), Children(1, SHORT) as children:
            settings = ChildSettings(env=ENV, withheld=("API_KEY",))
            transport = await children.spawn(python(code, mark), LIMITS, settings)
            if output:
                assert await receive_all(transport) == output
            else:
                await transport.close()
    assert [entry for entry in logs if "variables" in entry] == []
