"""Signals end each command with its documented exit code, without a socket file, a child or a traceback.

The table is that of docs/operations.md, section 8. Cells that could fail only together with another one are left out.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.awaited import spawned
from tests.data_files import DATA
from tests.forked_program import dragoman, forked_server

DEADLINE = 40.0  # seconds for one command on a busy machine
RECORDING = DATA / "recordings" / "v4.jsonl"
CHILD = f"codewhale+stdio:{sys.executable} -m dragoman demo-backend codewhale+stdio:"
THREAD = b'{"jsonrpc":"2.0","id":1,"method":"thread/start","params":{}}\n'

LISTENERS = {
    "serve": ("serve", "--config", "{folder}/config.toml"),
    "bridge": ("bridge", "pod+unix:{folder}/front", "pod+unix:{folder}/agent"),
    "replay": ("replay", str(RECORDING), "--listen", "pod+unix:{folder}/front"),
    "demo-backend": ("demo-backend", "pod+unix:{folder}/front"),
    "stdio": ("bridge", "codewhale+stdio:", CHILD),
}
CELLS = [
    ("serve", "INT", 0),
    ("serve", "QUIT", 1),
    ("bridge", "INT", 0),
    ("bridge", "HUP", 0),
    ("bridge", "QUIT", 1),
    ("bridge", "PIPE TERM", 0),
    ("replay", "HUP", 0),
    ("demo-backend", "TERM", 0),
    ("stdio", "INT", 0),
    ("stdio", "TERM", 0),
    ("stdio", "HUP", 0),
    ("stdio", "QUIT", 1),
]


@asynccontextmanager
async def started(folder: Path, *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    pipe = asyncio.subprocess.PIPE
    command = (sys.executable, "-m", "dragoman", *(one.format(folder=folder) for one in arguments))
    async with spawned(*command, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True) as process:
        yield process


async def wait_ready(process: asyncio.subprocess.Process, command: str) -> None:
    """Return once a command listens, or has started its child."""
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    if command == "stdio":
        process.stdin.write(THREAD)
        await process.stdout.readuntil(b"result")
    else:
        await process.stderr.readuntil(b"listening ")


def processes_of(session: int) -> list[int]:
    """Return the processes of a process session, which its leader began."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text("utf-8").rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        if int(fields[3]) == session and fields[0] != "Z":
            found.append(int(stat.parent.name))
    return found


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the processes of a session are found in /proc")
@pytest.mark.parametrize(("command", "names", "code"), CELLS)
async def test_a_signal_ends_a_listening_command_with_its_code_and_leaves_nothing(
    tmp_path: Path, command: str, names: str, code: int
) -> None:
    route = f'[[route]]\nlisten = ["pod+unix:{tmp_path}/front"]\nupstream = "pod+unix:{tmp_path}/agent"\n'
    (tmp_path / "config.toml").write_text(route, "utf-8")
    async with asyncio.timeout(DEADLINE), started(tmp_path, *LISTENERS[command]) as process:
        await wait_ready(process, command)
        for name in names.split():
            process.send_signal(getattr(signal, f"SIG{name}"))
        output, errors = await process.communicate()
    assert process.returncode == code
    assert b"Traceback" not in output + errors
    assert not (tmp_path / "front").exists()
    assert processes_of(process.pid) == []


@pytest.mark.parametrize(("name", "code"), [("INT", 130), ("TERM", 143), ("HUP", 129)])
async def test_a_signal_cancels_the_turn_of_send_in_its_backend(tmp_path: Path, name: str, code: int) -> None:
    with forked_server("demo-backend", f"pod+unix:{tmp_path}/front") as backend:
        async with asyncio.timeout(DEADLINE), started(tmp_path, "send", backend, "count 4000000") as process:
            assert process.stdout is not None
            await process.stdout.readuntil(b"0 1 2")
            process.send_signal(getattr(signal, f"SIG{name}"))
            _, errors = await process.communicate()
        assert process.returncode == code
        assert b"Traceback" not in errors
        further = dragoman("send", backend, "count 3")
        assert (further.returncode, further.stdout, further.stderr) == (0, "0 1 2 \n", ""), "the backend is not busy"


async def test_a_command_for_scripts_that_a_signal_ends_prints_one_json_value(tmp_path: Path) -> None:
    asked: asyncio.Queue[asyncio.StreamWriter] = asyncio.Queue()

    async def hold(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.put_nowait(writer)

    async with (
        asyncio.timeout(DEADLINE),
        await asyncio.start_unix_server(hold, tmp_path / "ops"),
        started(tmp_path, "status", "--ops", "unix:{folder}/ops", "--json") as process,
    ):
        writer = await asked.get()
        process.send_signal(signal.SIGTERM)
        out, _ = await process.communicate()
        writer.close()
    assert (process.returncode, out) == (143, b'{"error":"interrupted"}\n')
