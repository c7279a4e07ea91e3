"""The program `dragoman-pod` before the real smooth server: its conversation outlives its process, and its parent gets
reports.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.awaited import spawned
from tests.gateway.pod_messages import snapshot
from tests.pairs.pod_client import PodClient
from tests.pairs.pod_parent import read_output, said
from tests.peers.smooth_server import RealServer

START = 20.0  # seconds that a TUI waits for the ready line (docs/dialects/pod.md, section 2)
PROGRAM = (sys.executable, "-c", "from dragoman.gateway.entry import pod; pod()")


@asynccontextmanager
async def pod(server: RealServer, folder: Path, *arguments: str) -> AsyncIterator[str]:
    """Launch the program as `atlas`; yield its socket; end it in order when the block is left."""
    config = folder / "config.toml"
    limits = f"[limits]\nsnapshot_wait = {START}\n"  # a busy machine may need more than the default for a history
    config.write_text(f'[[route]]\nname = "assistant"\nupstream = "{server.endpoint}"\n\n{limits}')
    places = {"DRAGOMAN_CONFIG": str(config), "INSOMNIA_HOME": str(folder)}
    pipe = asyncio.subprocess.PIPE
    async with spawned(*PROGRAM, *arguments, env=os.environ | places, stderr=pipe) as process:
        assert process.stderr is not None
        async with asyncio.timeout(START):
            ready = (await process.stderr.readline()).decode().rstrip("\n").split("\t")
        assert ready[:2] == ["INSOMNIA-READY", "atlas"]
        yield ready[2]
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0


async def talk(path: str, text: str) -> None:
    async with PodClient.connected(path) as client:
        await client.turn(text)


async def test_a_pod_launched_again_by_its_name_continues_its_conversation(server: RealServer, tmp_path: Path) -> None:
    server.model.push_text("You said one.")
    async with pod(server, tmp_path, "--overlay", 'pod.name = "atlas"') as path:
        await talk(path, "one")
    server.model.push_text("You said two.")
    async with pod(server, tmp_path, "--pod", "atlas", "--require-pod-state") as path:
        assert said(await read_output(path)) == ["one", "You said one."]
        await talk(path, "two")
        assert said(await read_output(path)) == ["one", "You said one.", "two", "You said two."]


async def test_a_parent_learns_of_the_end_of_a_run_and_of_the_program(server: RealServer, tmp_path: Path) -> None:
    told: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(json.dumps(snapshot()).encode() + b"\n")
        for line in (await reader.read()).splitlines():
            told.put_nowait(json.loads(line)["params"])
        writer.close()

    server.model.push_text("Done.")
    async with await asyncio.start_unix_server(accept, tmp_path / "parent"):
        child = ("--adopt", "--callback", str(tmp_path / "parent"), "--overlay", 'pod.name = "atlas"')
        async with pod(server, tmp_path, *child) as path:
            await talk(path, "do it")
        assert await told.get() == {"kind": "turn_ended", "pod_name": "atlas"}
        assert await told.get() == {"kind": "shut_down", "pod_name": "atlas"}
