"""Show the gateway as a sidecar: `make demo-sidecar`.

Run the demo agent and `dragoman serve` with a token, TLS of its own making, an ops port and recordings. Then an
authorised client talks and strangers are refused. A route is reloaded under a running turn, the agent dies and comes
back, and the gateway drains. Each step prints what was seen, and fails if it is not what it should be.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import aiohttp

from tests.awaited import spawned

DEADLINE = 60.0  # seconds for the whole demo, which takes nine
POLL = 0.05  # seconds between two looks at /readyz
SHOWN = ("dragoman_sessions{", "dragoman_turns_total{", "dragoman_refused_total{", "dragoman_backend_failures_total{")

CONFIG = """
[[route]]
name = "assistant"
listen = [
    "smooth+wss://127.0.0.1:0/ws?cert=server.crt&key=server.key",
    "pod+unix:pod.sock?uid={us}",
    "pod+unix:pod-of-another-user.sock?uid={other}",
    "codewhale+unix:codewhale.sock?uid={us}",
    "codewhale+unix:codewhale-of-another-user.sock?uid={other}",
]
upstream = "smooth+ws://127.0.0.1:{agent}/ws"
approvals = "{approvals}"

[limits]
auth_delay = 0.1
drain_deadline = 1.0

[auth.tokens]
alice = "file:alice.token"

[recording]
path = "recordings/"

[ops]
listen = "http://127.0.0.1:0"
"""


def say(label: str, text: str) -> None:
    """Print a step of the demo."""
    print(f"{label:<11} {text}", flush=True)  # noqa: T201  # a demo prints


def expect(seen: object, wanted: object) -> None:
    """Raise RuntimeError if the demo did not see what it should show."""
    if seen != wanted:
        raise RuntimeError(f"expected {wanted!r}, saw {seen!r}")


class Program:
    """A dragoman command in a process of its own, with the lines of its stderr."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def read_until(self, *words: str) -> str:
        """Return the next line that contains one of these words."""
        assert self.process.stderr is not None
        while line := (await self.process.stderr.readline()).decode():
            if any(word in line for word in words):
                return line.strip()
        raise RuntimeError(f"the program ended before it said {words}")


@asynccontextmanager
async def running(*arguments: str) -> AsyncIterator[Program]:
    """Run a dragoman command, and kill it at the end."""
    command = (sys.executable, "-m", "dragoman", *arguments)
    async with spawned(*command, stderr=asyncio.subprocess.PIPE) as process:
        yield Program(process)


class Demo:
    """The demo in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.token = secrets.token_hex(16)
        self.agent_port = 0
        self.url = self.ops = ""
        self.http: aiohttp.ClientSession
        self.tls: ssl.SSLContext

    def write_secrets(self) -> None:
        """Make a token and a certificate."""
        (self.folder / "alice.token").write_text(self.token)
        subject = ("-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "1")
        files = ("-keyout", str(self.folder / "server.key"), "-out", str(self.folder / "server.crt"))
        curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
        command = ("openssl", "req", "-x509", *curve, *files, *subject)
        subprocess.run(command, check=True, capture_output=True, timeout=DEADLINE)
        self.tls = ssl.create_default_context(cafile=str(self.folder / "server.crt"))

    def write_config(self, approvals: str) -> Path:
        """Write the configuration with this value of the key that is changed later."""
        file, us = self.folder / "config.toml", os.getuid()
        file.write_text(CONFIG.format(us=us, other=us + 1, agent=self.agent_port, approvals=approvals))
        return file

    async def start_agent(self, stack: AsyncExitStack) -> Program:
        """Start the demo agent, at the same port each time."""
        agent = await stack.enter_async_context(running("demo-backend", f"smooth+ws://127.0.0.1:{self.agent_port}/ws"))
        self.agent_port = int((await agent.read_until("listening ")).rpartition(":")[2].split("/")[0])
        return agent

    async def start_gateway(self, stack: AsyncExitStack) -> Program:
        """Start the gateway, and find its addresses."""
        config = str(self.write_config("ask"))
        gateway = await stack.enter_async_context(running("serve", "--config", config))
        self.ops = (await gateway.read_until("ops http")).split()[1]
        self.url = (await gateway.read_until("listening smooth")).split()[1].removeprefix("smooth+")
        for _ in range(4):
            await gateway.read_until("listening ")
        say("gateway", f"{self.url}, two pod and two codewhale sockets, ops port {self.ops}")
        return gateway

    # -- who may talk ------------------------------------------------------------------------------------

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[tuple[aiohttp.ClientWebSocketResponse, str]]:
        """Connect as alice over TLS; yield the socket and a new session."""
        headers = {"Authorization": f"Bearer {self.token}"}
        async with self.http.ws_connect(self.url, ssl=self.tls, headers=headers) as socket:
            opened = await ask(socket, "create_conversation_session", agentId=str(uuid4()))
            yield socket, opened["data"]["sessionId"]

    async def show_access(self) -> None:
        """Let an authorised client talk in each dialect, and strangers be refused."""
        async with self.connected() as (socket, session):
            text = await turn(socket, session, "Where is my order A-1042?")
            say("smooth", f"alice, with her token over TLS, is answered: {text[:60]}...")
        try:
            async with self.http.ws_connect(self.url, ssl=self.tls):
                raise RuntimeError("a stranger was accepted")
        except aiohttp.WSServerHandshakeError as error:
            expect(error.status, 401)
            say("smooth", f"a stranger without a token is refused: {error.status}")
        for dialect, first in (("pod", b""), ("codewhale", HEALTH)):
            line = await asyncio.to_thread(first_line, self.folder / f"{dialect}.sock", first)
            say(dialect, f"uid {os.getuid()} is served: {line[:70]}")
            line = await asyncio.to_thread(first_line, self.folder / f"{dialect}-of-another-user.sock", first)
            if "not allowed" not in line and "error" not in line:
                raise RuntimeError(f"a stranger was accepted: {line}")
            say(dialect, f"a stranger is refused: {line[:90]}")
        self.show_pando()

    def show_pando(self) -> None:
        """Show that a pando listener, which cannot tell clients apart, is refused beside authenticated ones."""
        file = self.folder / "pando.toml"
        text = self.write_config("ask").read_text()
        file.write_text(text.replace("listen = [\n", 'listen = [\n    "pando+tcp://127.0.0.1:48254",\n', 1))
        command = (sys.executable, "-m", "dragoman", "check", str(file))
        done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE, check=False)
        expect(done.returncode, 2)
        words = (done.stdout + done.stderr).strip().splitlines()[0]
        say("pando", f"is refused by check: {words.rpartition('pando.toml')[2][:110]}")

    # -- operation ---------------------------------------------------------------------------------------

    async def show_reload(self, gateway: Program, socket: aiohttp.ClientWebSocketResponse, session: str) -> None:
        """Reload a changed route while a turn streams."""
        await send(socket, "send_message", sessionId=session, message="slow")
        await until_token(socket)
        self.write_config("deny")
        gateway.process.send_signal(signal.SIGHUP)
        line = await gateway.read_until("configuration reloaded", "configuration refused")
        say("reload", line.partition("event=")[2])
        await until_token(socket)
        expect("generation=2" in line, True)
        say("reload", "the turn goes on: a further token has come")

    async def show_readiness(self, agent: Program, stack: AsyncExitStack) -> None:
        """Kill the agent and start it again, and show /readyz."""
        await self.until_ready(200)
        agent.process.kill()
        found = await self.until_ready(503)
        say("readyz", f"503 once the agent is dead: {found['checks'][0]['cause'][:90]}")
        await self.start_agent(stack)
        await self.until_ready(200)
        say("readyz", "200 once it is back")

    async def until_ready(self, status: int) -> Any:
        """Ask /readyz until it has this status, and return the answer."""
        while True:
            async with self.http.get(f"{self.ops}/readyz") as answer:
                if answer.status == status:
                    return await answer.json()
            await asyncio.sleep(POLL)

    async def show_metrics(self) -> None:
        """Print some lines of /metrics, and the recordings."""
        async with self.http.get(f"{self.ops}/metrics") as answer:
            lines = (await answer.text()).splitlines()
        for line in lines:
            if line.startswith(SHOWN) and not line.endswith(" 0.0"):
                say("metrics", line)
        files = list((self.folder / "recordings").glob("*.jsonl*"))
        say("recordings", f"{len(files)} files, {sum(file.stat().st_size for file in files)} bytes, without secrets")

    async def show_drain(self, gateway: Program) -> None:
        """Stop the gateway while a turn runs."""
        async with self.connected() as (socket, session):
            await send(socket, "send_message", sessionId=session, message="slow")
            await until_token(socket)
            gateway.process.send_signal(signal.SIGTERM)
            found = await self.until_ready(503)
            say("drain", f"/readyz says {found['status']}, and the turn goes on")
            await until_token(socket)
            while (message := await socket.receive()).type != aiohttp.WSMsgType.CLOSE:
                pass
            say("drain", f"after drain_deadline the client is told: close {message.data} {message.extra}")
        await gateway.process.communicate()
        expect(gateway.process.returncode, 0)
        expect([path.name for path in self.folder.glob("*.sock")], [])
        say("drain", "the gateway has ended with 0, its sockets are removed")

    async def run(self) -> None:
        """Run all steps."""
        self.write_secrets()
        async with AsyncExitStack() as stack:
            self.http = await stack.enter_async_context(aiohttp.ClientSession())
            agent = await self.start_agent(stack)
            gateway = await self.start_gateway(stack)
            await self.show_access()
            async with self.connected() as (socket, session):
                await self.show_reload(gateway, socket, session)
                await self.show_readiness(agent, stack)
            await self.show_metrics()
            await self.show_drain(gateway)


HEALTH = b'{"jsonrpc":"2.0","id":1,"method":"healthz"}\n'


async def send(socket: aiohttp.ClientWebSocketResponse, action: str, **fields: str) -> None:
    """Send a smooth request."""
    await socket.send_json({"action": action, "requestId": str(uuid4()), **fields})


async def ask(socket: aiohttp.ClientWebSocketResponse, action: str, **fields: str) -> Any:
    """Send a smooth request and return the next message."""
    await send(socket, action, **fields)
    return await socket.receive_json()


async def turn(socket: aiohttp.ClientWebSocketResponse, session: str, text: str) -> str:
    """Return the text of a whole turn."""
    await send(socket, "send_message", sessionId=session, message=text)
    said = ""
    while (frame := await socket.receive_json())["type"] != "eventual_response":
        said += frame["token"] if frame["type"] == "stream_token" else ""
    return said


async def until_token(socket: aiohttp.ClientWebSocketResponse) -> None:
    """Wait for a further token of the running turn."""
    while (await socket.receive_json())["type"] != "stream_token":
        pass


def first_line(path: Path, request: bytes) -> str:
    """Return the first line from a Unix socket after this request, which a gateway may refuse before it is written."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(DEADLINE)
        client.connect(str(path))
        with contextlib.suppress(BrokenPipeError):
            client.sendall(request)
        return client.makefile("rb").readline().decode().strip()


async def main() -> None:
    """Run the demo in a folder that is deleted afterwards."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="dragoman-") as folder:
        async with asyncio.timeout(DEADLINE):
            await Demo(Path(folder)).run()
    say("done", f"in {time.monotonic() - began:.1f} s")


if __name__ == "__main__":
    asyncio.run(main())
