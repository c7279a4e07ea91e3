"""`dragoman demo`: a conversation of four clients with one backend, in this process."""

from __future__ import annotations

import asyncio
import contextlib
import re
import shutil
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dragoman.gateway.app import App
from dragoman.gateway.cli.running import run
from dragoman.gateway.config.model import Config, Route
from dragoman.gateway.demo.backend import demo_backend
from dragoman.gateway.demo.clients import DemoClient, ReceivedPiece, connected
from dragoman.gateway.endpoint import parse
from dragoman.gateway.observability import logs
from dragoman.mappings.errors import DragomanError

EXAMPLES = ("dragoman demo",)

QUESTIONS = {"smooth": "Where is my order A-1042?", "codewhale": "Thank you!"}
"""The asking client -> its input."""

DEADLINE = 30.0  # seconds for the whole conversation: it takes about six
FRAME_WIDTH = 58  # characters of a frame that are shown
IDS = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}(:[0-9a-f-]+)?|[0-9a-f]{16,}")

LABELS = {
    "thinks": "[dim]thinks[/]   ",
    "says": "[bold green]agent[/]    ",
    "calls": "[yellow]tool[/]     ",
    "gets": "[yellow]result[/]   ",
}
STREAMED = ("thinks", "says")

NEXT = """
[bold]Next steps[/]
  serve this backend alone:   {program} demo-backend pod+unix:/tmp/demo.sock
  bridge it, or your own:     {program} bridge smooth+ws://127.0.0.1:8787/ws pod+unix:/tmp/demo.sock
  talk to the gateway:        {program} chat smooth+ws://127.0.0.1:8787/ws   (or use any smooth-operator client)
  more:                       {program} --help
"""


def demo() -> None:
    """Show clients of all four dialects talking to one backend through the gateway; no agent is needed."""
    logs.configure("error")
    run(_play(Console(highlight=False)))


async def _play(console: Console) -> None:
    """Hold a conversation through the gateway and print it as it streams."""
    with tempfile.TemporaryDirectory(prefix="dragoman-") as folder:
        pod = parse(f"pod+unix:{folder}/sock")
        listen = (
            "smooth+ws://127.0.0.1:0/ws",
            f"pod+unix:{folder}/demo",
            "pando+tcp://127.0.0.1:0",
            f"codewhale+unix:{folder}/codewhale",
        )
        backend = demo_backend(pod)
        gateway = App(Config(routes=(Route(name="demo", listen=tuple(map(parse, listen)), upstream=pod),)))
        async with asyncio.timeout(DEADLINE), asyncio.TaskGroup() as group:
            ready: asyncio.Queue[str] = asyncio.Queue()
            group.create_task(backend.run(ready.put_nowait), name="demo:backend")
            _print_line(console, "backend", await ready.get())
            group.create_task(gateway.run(ready.put_nowait), name="demo:gateway")
            endpoints = [await ready.get() for _ in listen]
            for number, endpoint in enumerate(endpoints):
                _print_line(console, "" if number else "gateway", endpoint)
            async with contextlib.AsyncExitStack() as stack:
                clients = [await stack.enter_async_context(connected(endpoint)) for endpoint in endpoints]
                _print_line(
                    console, "clients", ", ".join(client.name for client in clients) + ": all in one conversation\n"
                )
                for client in clients:
                    if client.name in QUESTIONS:
                        await _converse(console, client, clients)
            gateway.stop.set()
            backend.stop.set()
    console.print(NEXT.format(program=_find_program(sys.argv[0])), soft_wrap=True)


def _find_program(started: str) -> str:
    """Return how a user starts dragoman again: by its name if PATH has it, else by the path of this start."""
    return started if Path(started).name == "dragoman" and shutil.which("dragoman") is None else "dragoman"


def _print_line(console: Console, label: str, words: str) -> None:
    console.print(f"[dim]{label:<9}[/] {words}", soft_wrap=True, highlight=False)


async def _converse(console: Console, asker: DemoClient, clients: list[DemoClient]) -> None:
    """Hold one turn: print the asking client's messages as they stream, then those of the others."""
    before = {client.name: len(client.received) for client in clients}
    question = QUESTIONS[asker.name]
    console.print(f"[bold cyan]{asker.name:<9}[/] {question}", highlight=False)
    await asker.ask(question)
    await _show(console, asker, before[asker.name])
    for client in clients:
        if client is asker or client.name != "codewhale":  # which reads what others began in its history
            await client.over(before[client.name])
    table = Table("client", "frames", "the same words on its wire", box=None, pad_edge=False, header_style="dim")
    for client in clients:
        received = client.received[before[client.name] :]
        table.add_row(client.name, str(len(received)), Text(_words(received), no_wrap=True, overflow="ellipsis"))
    console.print(table, "")


def _words(received: list[ReceivedPiece]) -> str:
    """Return the last text frame without its ids; of a long frame, its beginning and the place of the text."""
    texts = [piece for piece in received if piece.kind == "says"]
    if not texts:
        return "(it did not ask: it reads this turn in its history)"
    frame = IDS.sub("…", texts[-1].frame)
    words = frame.find(texts[-1].text)
    if len(frame) <= FRAME_WIDTH or words < FRAME_WIDTH // 2:
        return frame[:FRAME_WIDTH]
    head, end = FRAME_WIDTH // 3, words + len(texts[-1].text) + 3
    return f"{frame[:head]} … {frame[end - FRAME_WIDTH + head : end]}"


async def _show(console: Console, client: DemoClient, since: int) -> None:
    speaking = ""
    async for piece in client.pieces(since):
        if piece.kind == "fails":
            raise DragomanError(f"the demo's turn did not complete: {piece.frame}")
        if piece.kind in LABELS and (piece.kind != speaking or piece.kind not in STREAMED):
            console.print(("\n" if speaking else "") + LABELS[piece.kind], end=" ")
            speaking = piece.kind
        if piece.kind in LABELS:
            style = "dim" if piece.kind == "thinks" else None
            console.print(piece.text, end="", markup=False, highlight=False, style=style, soft_wrap=True)
        if piece.kind == "ends":
            console.print("\n")
            return
