"""Kills of real programs: `dragoman serve`, `dragoman demo-backend`, its children and its clients get SIGKILL.

After each kill the client must see the end of its turn, or of its connection. Then the killed program is started again,
and a new client must be able to complete a turn. A killed gateway must leave no child process.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Collection
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from random import Random

from msgspec import field, structs

from dragoman.gateway.config.model import Limits
from dragoman.gateway.recording.reader import recordings_in
from dragoman.mappings.canonical.events import TurnEnded
from tests.awaited import comes_true
from tests.chaos.clients import connected
from tests.chaos.pair import LIMITS, NO_TURN, EndTally, completes, first_of
from tests.chaos.processes import Program, children_of, running, wait_until_gone
from tests.pairs.table import DIALECTS, LISTEN
from tests.reserved_ports import reserved_port

KILLS = ("backend", "gateway", "client", "child")
TURN_TIME = 0.5  # seconds that a turn of the backends takes: the kill comes during this time
RECOVERY_DEADLINE = 30.0  # seconds: a backend and its child may have to start
TEXTS = 25
CHILD = f"{sys.executable} -m dragoman demo-backend codewhale+stdio: --script"
LIMITS_OF_TOWN = structs.replace(LIMITS, session_ttl=2.0, children=64, restarts=1000)


class KillTally(EndTally):
    """The counts of all kills, by what was killed."""

    kills: Counter[str] = field(default_factory=Counter)
    left_behind: Counter[str] = field(default_factory=Counter)

    @property
    def clean(self) -> bool:
        return super().clean and not self.left_behind.total()


class ProcessHarness:
    """A gateway with a route to a backend of each dialect, one to children, and one for the innocent client."""

    def __init__(self, folder: Path, upstreams: dict[str, str], innocent_port: int, tally: KillTally) -> None:
        self.folder = folder
        self.tally = tally
        self.gateway: Program
        self.backends: dict[str, Program] = {}
        self.listeners: dict[tuple[str, str], str] = {}  # (client, backend) -> address
        self._upstreams = upstreams
        self._innocent_port = innocent_port
        self._starts = 0

    # -- programs --------------------------------------------------------------------------------------

    async def start_backend(self, dialect: str) -> None:
        script = str(self.folder / "story.jsonl")
        program = Program("dragoman", "demo-backend", self._upstreams[dialect], "--script", script)
        await program.start()
        self.backends[dialect] = program

    async def start_gateway(self) -> None:
        """Start a gateway with a new folder for its recordings."""
        self._starts += 1
        wanted = [(client, backend) for backend in self._upstreams for client in DIALECTS]
        path = self.folder / "gateway.toml"
        path.write_text(self._config())
        self.gateway = Program("dragoman", "serve", "--config", str(path))
        await self.gateway.start(len(wanted) + 1)
        addresses = [endpoint.partition("+")[2] for endpoint in self.gateway.endpoints]
        self.listeners = dict(zip(wanted, addresses, strict=False))

    @property
    def recordings(self) -> Path:
        return self.folder / f"recordings-{self._starts}"

    def _config(self) -> str:
        self.recordings.mkdir()
        shutil.rmtree(self.folder / "listen", ignore_errors=True)
        blocks = []
        for backend, upstream in self._upstreams.items():
            places = {client: self.folder / "listen" / backend / client for client in DIALECTS}
            for place in places.values():
                place.mkdir(parents=True)
            listen = [LISTEN[client].format(folder=place) for client, place in places.items()]
            blocks.append(route_table(backend, listen, upstream))
        port = self._innocent_port
        blocks.append(route_table("innocent", [f"smooth+ws://127.0.0.1:{port}/ws"], f"pod+unix:{self.folder}/nobody"))
        blocks += [limits_table(LIMITS_OF_TOWN), "[recording]", f'path = "{self.recordings}"', "compress = false"]
        return "\n".join(blocks)

    # -- kills -----------------------------------------------------------------------------------------

    async def kill(self, what: str, dice: Random) -> None:
        """Kill a program in the middle of a turn, and check how this turn and the next one end."""
        client = dice.choice(DIALECTS)
        backend = "child" if what == "child" else dice.choice(DIALECTS)
        self.tally.kills[what] += 1
        wait = dice.random() * TURN_TIME
        if what == "client":
            await self._kill_client(client, backend, wait)
        else:
            await self._kill_server(what, client, backend, wait)
        if not await self.recovers(client, backend):
            self._count(self.tally.not_recovered, what, client, backend)

    def _count(self, counter: Counter[str], what: str, client: str, backend: str) -> None:
        counter[what] += 1
        self.tally.details.append(f"{what} killed, {client} to {backend}")

    async def _kill_client(self, client: str, backend: str, wait: float) -> None:
        program = Program("tests.chaos.client_process", client, self.listeners[client, backend])
        await program.start(listeners=0)
        await program.next_line()
        await asyncio.sleep(wait)
        await program.kill()
        self.tally.disconnected["client"] += 1

    async def _kill_server(self, what: str, client: str, backend: str, wait: float) -> None:
        told = False
        disconnected = what == "gateway" and client == "pando"  # ZeroMQ does not report a disconnect
        ends = 0
        try:
            async with connected(client, self.listeners[client, backend]) as peer:
                before = children_of(self.gateway.pid)
                await peer.open()
                turn = await peer.ask("tell me")
                await asyncio.sleep(wait)
                await self._kill(what, backend, before.keys())
                if not disconnected:
                    await first_of(turn.over.wait(), peer.gone.wait())
                told, disconnected = turn.over.is_set(), disconnected or peer.gone.is_set()
                ends = peer.most_ends()
        except* ConnectionRefusedError as refusal:
            self.tally.details.append(f"refused before the kill: {refusal.exceptions}")
            told = True
        except* NO_TURN:
            disconnected = True
        self.tally.ended[what] += told
        self.tally.disconnected[what] += disconnected and not told
        if not (told or disconnected):
            self._count(self.tally.lost, what, client, backend)
        if ends > 1:
            self._count(self.tally.ended_twice, what, client, backend)

    async def _kill(self, what: str, backend: str, known: Collection[int]) -> None:
        if what == "backend":
            await self.backends[backend].kill()
            await self.start_backend(backend)
            return
        children = children_of(self.gateway.pid)
        if what == "gateway":
            await self.gateway.kill()
            left = await wait_until_gone(set(children))
            self.tally.left_behind[what] += len(left)
            self.read_recordings(killed=True)
            await self.start_gateway()
            return
        new = [pid for pid, command in children.items() if pid not in known and "demo-backend" in command]
        for pid in new:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    async def recovers(self, client: str, backend: str) -> bool:
        """Return True once a turn of a new client is completed, False after the deadline."""
        address = self.listeners[client, backend]
        return await comes_true(lambda: completes(client, address), RECOVERY_DEADLINE, every=0.1)

    def read_recordings(self, *, killed: bool) -> None:
        """Count the turns in this gateway's recordings that have no end or two ends; a killed gateway may leave turns
        without one.
        """
        for reader in recordings_in(self.recordings):
            ends: Counter[str] = Counter()
            for line in reader.events():
                if line.turn:
                    ends[line.turn] += isinstance(line.event, TurnEnded)
            self.tally.lost["in recordings"] += 0 if killed else sum(1 for count in ends.values() if not count)
            self.tally.ended_twice["in recordings"] += sum(1 for count in ends.values() if count > 1)


def route_table(name: str, listen: list[str], upstream: str) -> str:
    """Return a route of a configuration file."""
    return f"[[route]]\nname = {json.dumps(name)}\nlisten = {json.dumps(listen)}\nupstream = {json.dumps(upstream)}"


def limits_table(limits: Limits) -> str:
    """Return the limits of a configuration file."""
    return "\n".join(["[limits]", *(f"{name} = {value}" for name, value in structs.asdict(limits).items())])


def _story() -> str:
    """Return the script of the backends: a turn of half a second."""
    text = [{"type": "text_delta", "text": f"piece {n}, ", "delay_ms": 1e3 * TURN_TIME / TEXTS} for n in range(TEXTS)]
    lines = [{"type": "model_turn_started"}, *text, {"type": "turn_ended", "end": "completed"}]
    return "".join(json.dumps(line) + "\n" for line in lines)


@asynccontextmanager
async def process_harness(folder: Path, tally: KillTally) -> AsyncIterator[tuple[ProcessHarness, Program]]:
    """Start a gateway, its backends and the innocent client; end all of them, and read the recordings."""
    (folder / "story.jsonl").write_text(_story())
    async with AsyncExitStack() as stack:
        upstreams = {}
        for dialect in DIALECTS:
            port, home = stack.enter_context(reserved_port(neighbours=1)), folder / f"backend-{dialect}"
            home.mkdir()
            upstreams[dialect] = LISTEN[dialect].format(folder=home).replace(":0", f":{port}")
        upstreams["child"] = f"codewhale+stdio:{CHILD} {folder}/story.jsonl"
        innocent_port = stack.enter_context(reserved_port(neighbours=1))
        made = ProcessHarness(folder, upstreams, innocent_port, tally)
        await asyncio.gather(*(made.start_backend(dialect) for dialect in DIALECTS))
        await made.start_gateway()
        try:
            address = f"ws://127.0.0.1:{innocent_port}/ws"
            async with running("tests.chaos.innocent", address, listeners=0) as innocent:
                yield made, innocent
        finally:
            for program in made.backends.values():
                await program.terminate()
            children = set(children_of(made.gateway.pid))
            code = await made.gateway.terminate()
            tally.left_behind["end"] += len(await wait_until_gone(children)) + (code != 0)
        made.read_recordings(killed=False)
