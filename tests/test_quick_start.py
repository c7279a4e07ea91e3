"""The quick start of the README runs as it is written; only its ports and its folder are replaced."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
import tempfile
from pathlib import Path

from tests.demo_sidecar import Program
from tests.reserved_ports import reserved_port
from tests.test_layout import ROOT

SERVERS = ("dragoman demo-backend ", "dragoman bridge ", "dragoman serve ", "dragoman replay ")
SHOWN = {
    "dragoman chat": "0 1 2",
    "dragoman sessions": "assistant",
    "dragoman show": "input     Where is my order?",
    "dragoman drive": "1 turn, the same as in atlas.jsonl",
}
"""The words that the output of a block with this command has."""


def blocks() -> list[str]:
    """Return the shell code of the quick start, one block for each thing to paste."""
    section = (ROOT / "README.md").read_text("utf-8").partition("\n## Quick start\n")[2].partition("\n## ")[0]
    return re.findall(r"^```sh\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)


async def start(code: str, folder: str) -> asyncio.subprocess.Process:
    """Start shell code in a process group of its own, with the `dragoman` of this environment."""
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(
        *("bash", "-e", "-c", code),
        cwd=folder,
        env=environment,
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        start_new_session=True,
    )


async def stop(server: asyncio.subprocess.Process) -> None:
    """Stop a server as Ctrl-C does."""
    os.killpg(server.pid, signal.SIGINT)
    await server.communicate()


async def test_each_block_of_the_quick_start_runs() -> None:
    servers: list[asyncio.subprocess.Process] = []
    seen: dict[str, str] = {}
    # The path of a socket is limited, so the folder is not that of pytest.
    with reserved_port() as gateway, reserved_port() as ops, tempfile.TemporaryDirectory() as folder:
        try:
            for block in blocks():
                code = block.replace("8787", str(gateway)).replace("8790", str(ops)).replace("/tmp/", f"{folder}/")
                is_server = block.splitlines()[-1].startswith(SERVERS)
                if is_server and len(servers) > 1:  # the demo backend, which comes first, goes on
                    await stop(servers.pop())
                process = await start(code, folder)
                if is_server:
                    servers.append(process)
                    await Program(process).read_until("listening ")
                else:
                    out, errors = await process.communicate(b"count 3\n")
                    assert process.returncode == 0, f"{block}{errors.decode()}"
                    seen[block] = out.decode()
        finally:
            while servers:
                await stop(servers.pop())
    for command, words in SHOWN.items():
        assert any(words in shown for block, shown in seen.items() if command in block), f"{command}: {seen}"
