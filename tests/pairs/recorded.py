"""A conversation with the demo backend, recorded by a gateway between a client and a backend of any two dialects."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path

from msgspec import structs

from dragoman.gateway.app import App
from dragoman.gateway.config.model import Config, Limits, Recording, Route
from dragoman.gateway.demo.backend import demo_backend
from dragoman.gateway.demo.script import Line, read
from dragoman.gateway.endpoint import Endpoint, parse
from dragoman.gateway.recording.reader import Reader, open_recording
from dragoman.mappings.canonical.commands import SubmitInput
from dragoman.mappings.canonical.events import TextDelta
from tests.gateway.recording.lines import commands_of
from tests.pairs.gateway import serving
from tests.pairs.table import LISTEN
from tests.pairs.turn_clients import SeenRun, TurnClient, join

LIMITS = Limits(drain_deadline=0.5, snapshot_wait=10.0, backoff_first=0.05, backoff_max=0.2)


SCRIPTS = ("conversation", "fail", "retry", "slow", "approve", "retry")
CANCELLED_AFTER = 2  # tokens of the turn that is cancelled: its script then waits for the cancel, however late it comes
PAUSE = 0.02  # seconds between its tokens, in which the writer of a recording may begin another part


def turns() -> list[list[Line]]:
    """Return the first turn of each of these scripts, one after the other, without their long pauses."""
    folder = files("dragoman.gateway.demo") / "scripts"
    read_turns = [(name, read((folder / f"{name}.jsonl").read_text("utf-8"), name)[0]) for name in SCRIPTS]
    played = [
        [structs.replace(line, delay=PAUSE if name == "slow" else 0.0) for line in turn] for name, turn in read_turns
    ]
    slow = played[SCRIPTS.index("slow")]
    next_token = [i for i, line in enumerate(slow) if isinstance(line.event, TextDelta)][CANCELLED_AFTER]
    slow[next_token] = structs.replace(slow[next_token], delay=60.0)
    return played


async def conversation(peer: TurnClient) -> list[SeenRun]:
    """Run turns that answer, fail, are cancelled and ask, as in SCRIPTS; return what a client saw of each."""
    seen = [await peer.turn(text) for text in ("Where is my order?", "Fail, please!", "Try again.")]
    seen.append(await peer.turn("Count slowly.", cancel_after=CANCELLED_AFTER))
    return [*seen, await peer.turn("Refund it."), await peer.approve(), await peer.turn("Once more.")]


@asynccontextmanager
async def live_demo(dialect: str, folder: Path, script: Sequence[list[Line]] = ()) -> AsyncIterator[str]:
    """Run a demo backend of this dialect that plays these turns; yield its endpoint."""
    folder.mkdir()
    async with serving(demo_backend(parse(LISTEN[dialect].format(folder=folder)), script)) as (endpoint,):
        yield endpoint


@asynccontextmanager
async def served(
    dialect: str,
    upstream: Endpoint,
    folder: Path,
    recording: Path | None = None,
    *,
    rotate_bytes: int = 0,
    compress: bool = False,
) -> AsyncIterator[str]:
    """Run a gateway with a listener of this dialect that records into a folder; yield the listener's address."""
    folder.mkdir()
    kept = None
    if recording is not None:
        kept = Recording(path=f"{recording}/", compress=compress, rotate_bytes=rotate_bytes)
    route = Route(name="test", listen=(parse(LISTEN[dialect].format(folder=folder)),), upstream=upstream)
    app = App(Config(routes=(route,), limits=LIMITS, recording=kept))
    async with serving(app) as (endpoint,):
        yield endpoint.partition("+")[2]


async def record(
    client: str,
    backend: str,
    folder: Path,
    *,
    rotate_bytes: int = 0,
    script: list[list[Line]] | None = None,
    talk: Callable[[TurnClient], Awaitable[object]] = conversation,
) -> Path:
    """Return the recording of a conversation of this pair."""
    kept = folder / "kept"
    async with (
        live_demo(backend, folder / "backend", script or turns()) as upstream,
        served(client, parse(upstream), folder / "gateway", kept, rotate_bytes=rotate_bytes) as url,
        join(client, url) as peer,
    ):
        await talk(peer)
    return spoken(kept)


def spoken(folder: Path) -> Path:
    """Return the only recording with an input; a project has sessions that nobody used."""
    recordings = [open_recording(path) for path in folder.iterdir()]
    (found,) = {recording.path for recording in recordings if _has_input(recording)}
    return found


def _has_input(recording: Reader) -> bool:
    return any(isinstance(command, SubmitInput) for command in commands_of(recording))
