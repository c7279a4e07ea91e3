"""`dragoman demo`: a backend, the gateway and a client in one process, and what the client sees, as it streams."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

import aiohttp
import msgspec
from rich.console import Console

from gateway import registry
from gateway.app import App
from gateway.config.model import Config, Limits, Route
from gateway.demo.backend import DemoBackend
from gateway.demo.script import Line, Scripts
from gateway.endpoint import Endpoint, parse

__all__ = ["demo", "demo_backend"]

QUESTIONS = ("Where is my order A-1042?", "Thank you!")
DEADLINE = 30.0  # seconds for the whole conversation: it takes about six

NEXT = """
[bold]How to go on[/]
  serve this backend alone:   dragoman demo-backend pod+unix:/tmp/demo.sock
  bridge your own backend:    dragoman bridge smooth+ws://127.0.0.1:8787/ws pod+unix:/path/to/pod/sock
  then connect any smooth-operator client to ws://127.0.0.1:8787/ws
  more:                       dragoman --help
"""


def demo_backend(endpoint: Endpoint, turns: Sequence[list[Line]] = ()) -> App:
    """An app that serves the scripted backend on `endpoint`; `turns` of the user's own instead of the bundled ones.

    It holds as many sessions as backends of that dialect do: a pod is one conversation, whoever asks.
    """
    one = registry.dialect(endpoint.dialect).one_session
    nowhere = Endpoint(dialect="pod" if one else "smooth", transport="demo", address="conversation")
    registry.check_listen(endpoint)
    route = Route(name="demo-backend", listen=(endpoint,), upstream=nowhere)
    app = App(Config(routes=(route,)), make_backend=lambda session: DemoBackend(session, app.spawn, Scripts(turns)))
    return app


async def demo(console: Console) -> None:
    """Hold a conversation through the gateway and print it; ends by itself."""
    with tempfile.TemporaryDirectory(prefix="dragoman-") as folder:
        socket = Path(folder) / "sock"
        pod = parse(f"pod+unix:{socket}")
        backend = demo_backend(pod)
        listen = parse("smooth+ws://127.0.0.1:0/ws")
        gateway = App(Config(routes=(Route(name="demo", listen=(listen,), upstream=pod),), limits=Limits()))
        async with asyncio.timeout(DEADLINE), asyncio.TaskGroup() as group:
            ready: asyncio.Queue[str] = asyncio.Queue()
            group.create_task(backend.run(ready.put_nowait), name="demo:backend")
            console.print(f"[dim]backend  [/] {await ready.get()}   a scripted pod on a Unix socket")
            group.create_task(gateway.run(ready.put_nowait), name="demo:gateway")
            address = await ready.get()
            console.print(
                f"[dim]gateway  [/] {address}   speaks smooth to clients and pod to the backend", soft_wrap=True
            )
            await _converse(console, address.removeprefix("smooth+"))
            gateway.stop.set()
            backend.stop.set()
    console.print(NEXT, soft_wrap=True)


async def _converse(console: Console, url: str) -> None:
    async with aiohttp.ClientSession() as http, http.ws_connect(url) as socket:
        await socket.send_json(
            {"action": "create_conversation_session", "requestId": "open", "agentId": str(uuid4()), "userName": "You"}
        )
        session = (await socket.receive_json())["data"]["sessionId"]
        console.print(f"[dim]client   [/] connected, session {session}\n")
        for number, question in enumerate(QUESTIONS, start=1):
            console.print(f"[bold cyan]you[/]       {question}")
            await socket.send_json(
                {"action": "send_message", "requestId": f"turn-{number}", "sessionId": session, "message": question}
            )
            await _show_turn(console, socket)


async def _show_turn(console: Console, socket: aiohttp.ClientWebSocketResponse) -> None:
    speaking = ""
    labels = {"stream_reasoning": "[dim]thinks[/]   ", "stream_token": "[bold green]agent[/]    "}
    async for message in socket:
        event = msgspec.json.decode(message.data)
        kind = event["type"]
        if kind in labels:
            if kind != speaking:
                console.print(("\n" if speaking else "") + labels[kind], end=" ")
            console.print(
                event["token"], end="", markup=False, highlight=False, style="dim" if "reason" in kind else None
            )
            speaking = kind
            continue
        if speaking:
            console.print()
        speaking = ""
        if kind == "stream_chunk":
            _show_chunk(console, event["data"]["state"].get("rawResponse") or {})
        elif kind == "eventual_response":
            usage = event["data"]["data"].get("usage") or {}
            tokens = f"{usage.get('promptTokens', '?')} tokens in, {usage.get('completionTokens', '?')} out"
            console.print(f"[dim]done      {tokens}[/]\n")
            return
        elif kind in ("error", "cancelled"):
            raise RuntimeError(f"the demo's turn did not complete: {event}")


def _show_chunk(console: Console, chunk: dict[str, dict[str, object]]) -> None:
    if call := chunk.get("toolCall"):
        console.print(f"[yellow]tool[/]      {call['name']} {call['arguments']}", highlight=False)
    if result := chunk.get("toolResult"):
        console.print(f"[yellow]result[/]    {result['result']}", highlight=False)
